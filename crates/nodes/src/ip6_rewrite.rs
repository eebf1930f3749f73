//! `ip6-rewrite`: hop limit, size and link-layer header of a packet whose next hop is known.
//!
//! RFC 8200 section 3 (hop limit), RFC 4443 sections 3.2 and 3.3 (Packet Too Big, Time Exceeded).
//! Routers never fragment IPv6. Packets the router made itself keep their hop limit; a link-local
//! source does not leave its link (RFC 4291 section 2.5.6).
//!
//! Drop reasons: `ip6_hop_limit_expired`, `packet_too_big`, `ip6_source_link_local`, `no_adjacency`, `no_headroom`.

use parshall_buffer::{BufferIndex, Flags, PoolView};
use parshall_counters::DropReason;
use parshall_fib::Adjacency;
use parshall_graph::{Ctx, NodeSpec};

use crate::icmp_error::{IcmpAsk, ask};
use crate::rewrite::{Rewrite, Sent};
use crate::trace::format_ip6;

/// The node's description.
pub const SPEC: NodeSpec =
    NodeSpec::new("ip6-rewrite", &["ip6-discover-neighbor", "ip6-icmp-error"])
        .starting("interface-output")
        .format(format_ip6);

const DISCOVER: u16 = 0;
const ICMP_ERROR: u16 = 1;

/// The node.
pub type Ip6Rewrite = Rewrite<Ip6Sent>;

/// Sending IPv6.
pub struct Ip6Sent;

impl Sent for Ip6Sent {
    fn unresolved(_adj: &Adjacency) -> u16 {
        DISCOVER
    }

    #[inline(always)]
    fn forward(view: &mut PoolView<'_>, b: BufferIndex, at: u16) -> bool {
        let h: &mut [u8; 3] = view.peek_mut(b, at + 7);
        let [hops, first, second] = *h;
        if hops <= 1 || is_link_local(first, second) {
            return false;
        }
        h[0] = hops - 1;
        true
    }

    fn look(cx: &mut Ctx<'_>, i: usize, b: BufferIndex, adj: &Adjacency) -> bool {
        let m = *cx.pool.meta(b);
        let h: &mut [u8; 10] = cx.pool.peek_mut(b, 0);
        let originated = m.flags.has(Flags::ORIGINATED);
        let (reason, error) = if !originated && h[7] <= 1 {
            (DropReason::Ip6HopLimitExpired, IcmpAsk::time_exceeded6())
        } else if m.total_len() > u32::from(adj.mtu()) {
            (
                DropReason::PacketTooBig,
                IcmpAsk::packet_too_big6(adj.mtu()),
            )
        } else if !originated && is_link_local(h[8], h[9]) && m.rx_if != adj.tx_if() {
            (DropReason::Ip6SourceLinkLocal, IcmpAsk::beyond_scope6())
        } else {
            h[7] -= u8::from(!originated);
            return true;
        };
        if reason == DropReason::PacketTooBig {
            // The link it does not fit is part of what is told of the drop.
            cx.pool.meta_mut(b).tx_if = adj.tx_if();
        }
        ask(cx, b, reason, error);
        cx.next[i] = ICMP_ERROR;
        false
    }
}

/// By the first two octets: fe80::/10.
#[inline(always)]
fn is_link_local(first: u8, second: u8) -> bool {
    first == 0xFE && second & 0xC0 == 0x80
}
