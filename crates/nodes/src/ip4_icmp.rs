//! `ip4-icmp-input`: ICMP for the router itself (RFC 792, RFC 1122 section 3.2.2): answers echo requests.
//!
//! Errors and replies that come to the router are consumed.
//!
//! Drop reasons: `local_bad_checksum`, `icmp_unhandled`.

use parshall_buffer::{BufferIndex, Flags, Frame};
use parshall_counters::DropReason;
use parshall_graph::{Ctx, Dispatch, Node, NodeSpec};
use parshall_wire::{Icmpv4Packet, Icmpv4Type, Ipv4Packet, checksum};

use crate::parts::icmp4_checksum_ok;
use crate::trace::format_ip4;

/// The node's description.
pub const SPEC: NodeSpec = NodeSpec::new("ip4-icmp-input", &["ip4-lookup"]).format(format_ip4);

const LOOKUP: u16 = 0;
const TTL: u8 = 64;

/// The node.
pub struct Ip4Icmp;

fn input(cx: &mut Ctx<'_>, i: usize, b: BufferIndex) {
    let header_len = usize::from(cx.pool.peek::<1>(b, 0)[0] & 15) * 4;
    let Some(icmp) = cx.pool.bytes(b).get(header_len..).filter(|p| p.len() >= 8) else {
        return cx.drop_packet(i, b, DropReason::LocalBadChecksum);
    };
    let kind = Icmpv4Packet::new_unchecked(icmp).msg_type();
    if !icmp4_checksum_ok(cx.pool, b, header_len) {
        return cx.drop_packet(i, b, DropReason::LocalBadChecksum);
    }
    match kind {
        Icmpv4Type::ECHO_REQUEST => echo(cx, i, b, header_len),
        Icmpv4Type::ECHO_REPLY => cx.punt(i, b),
        kind if kind.is_error() => cx.punt(i, b),
        _ => cx.drop_packet(i, b, DropReason::IcmpUnhandled),
    }
}

/// Makes the request its own reply.
fn echo(cx: &mut Ctx<'_>, i: usize, b: BufferIndex, header_len: usize) {
    let rx_if = cx.pool.meta(b).rx_if;
    let (header, icmp) = cx.pool.bytes_mut(b).split_at_mut(header_len);
    let mut icmp = Icmpv4Packet::new_unchecked(icmp);
    let old = icmp.checksum();
    icmp.set_msg_type(Icmpv4Type::ECHO_REPLY);
    // The type is the high byte of the first word: 8 becomes 0 (RFC 1624).
    icmp.set_checksum(checksum::update_u16(old, 0x0800, 0));
    let mut ip = Ipv4Packet::new_unchecked(header);
    let (src, dst) = (ip.src_addr(), ip.dst_addr());
    ip.set_src_addr(dst);
    ip.set_dst_addr(src);
    ip.set_ttl(TTL);
    ip.fill_checksum();
    cx.count_punted(rx_if);
    cx.count_originated(1);
    let m = cx.pool.meta_mut(b);
    m.flags.set(Flags::ORIGINATED);
    m.flow_hash = 0;
    cx.next[i] = LOOKUP;
}

impl Node for Ip4Icmp {
    fn process(&mut self, cx: &mut Ctx<'_>, frame: &mut Frame) -> Dispatch {
        for (i, &b) in frame.packets().iter().enumerate() {
            input(cx, i, b);
        }
        Dispatch::Each
    }
}
