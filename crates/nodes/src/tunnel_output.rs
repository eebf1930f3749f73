//! `tunnel-output`: the way out of a tunnel interface, in the place of a transmit queue: the outer headers are put in
//! front of the packet, which is then routed as any other.
//!
//! What is routed into a tunnel for packets comes here with an Ethernet header that stands for the kind of packet and
//! is taken off again. The outer packet may be fragmented over IPv4 (RFC 2003 section 3.1 leaves the choice); over IPv6
//! what does not fit is dropped as `packet_too_big`. A tunnel that is routed through itself ends at the dispatcher's
//! limit of interfaces in each other.
//!
//! Drop reasons: `interface_gone`, `tunnel_payload`, `no_headroom`, `nested_too_deep`, `link_mtu_exceeded`.

use std::sync::Arc;

use parshall_buffer::{BufferIndex, Frame, IF_MIXED, IF_NONE};
use parshall_counters::DropReason;
use parshall_graph::{Ctx, Dispatch, Node, NodeSpec};

use crate::flow_hash::rehash;
use crate::parts::udp6_checksum;
use crate::state::Shared;
use crate::tunnel::{Encap, Inner, PROTO_IP4, PROTO_IP6, TunnelView, frame_hash};

/// The node's description.
pub const SPEC: NodeSpec = NodeSpec::new("tunnel-output", &["ip4-lookup", "ip6-lookup"]);

const IP4_LOOKUP: u16 = 0;
const IP6_LOOKUP: u16 = 1;
const ETHERNET: u16 = 14;
/// Bytes that a link-layer header is written by.
const LINK_ROOM: u16 = 16;

/// The node.
pub struct TunnelOutput {
    shared: Arc<Shared>,
    /// IPv4 identification of the next packet.
    ident: u16,
}

impl TunnelOutput {
    /// Over this state.
    pub fn new(shared: Arc<Shared>) -> TunnelOutput {
        TunnelOutput { shared, ident: 0 }
    }
}

/// Takes the header off that stands for the kind of packet, and says what the packet is.
fn unwrap(cx: &mut Ctx<'_>, b: BufferIndex, encap: Encap) -> Result<Inner, DropReason> {
    let kind = cx.pool.head::<2>(b, 12).map(|k| u16::from_be_bytes(*k));
    let kind = kind.ok_or(DropReason::TunnelPayload)?;
    if !cx.pool.pull(b, ETHERNET) {
        return Err(DropReason::TunnelPayload);
    }
    let (ip6, class) = match kind {
        0x0800 => (false, cx.pool.head::<20>(b, 0).map(|h| h[1])),
        0x86DD => (
            true,
            cx.pool.head::<40>(b, 0).map(|h| h[0] << 4 | h[1] >> 4),
        ),
        0x8847 if encap == Encap::Gre => {
            return Ok(Inner {
                protocol: kind,
                hash: cx.pool.meta(b).flow_hash,
                ..Inner::default()
            });
        }
        _ => return Err(DropReason::TunnelPayload),
    };
    let class = class.ok_or(DropReason::TunnelPayload)?;
    let protocol = match (encap, ip6) {
        (Encap::Ip, false) => u16::from(PROTO_IP4),
        (Encap::Ip, true) => u16::from(PROTO_IP6),
        _ => kind,
    };
    Ok(Inner {
        hash: rehash(cx.pool, b, 0, ip6),
        class: class & 0xFC,
        protocol,
        ident: 0,
    })
}

/// Puts the outer headers in front of packet `b`; says where it goes.
#[inline(always)]
fn wrap(
    cx: &mut Ctx<'_>,
    b: BufferIndex,
    view: &TunnelView,
    ident: &mut u16,
) -> Result<u16, DropReason> {
    let encap = view.key.encap;
    let mut inner = if encap.is_ethernet() {
        Inner {
            hash: frame_hash(cx.pool, b),
            ..Inner::default()
        }
    } else {
        unwrap(cx, b, encap)?
    };
    (inner.ident, *ident) = (*ident, ident.wrapping_add(1));
    let total = cx.pool.meta(b).total_len() + u32::from(view.header_len());
    let total = u16::try_from(total).map_err(|_| DropReason::LinkMtuExceeded)?;
    let m = cx.pool.meta(b);
    if m.data < view.header_len() + LINK_ROOM {
        // Packets come with room for a few headers. Where that is gone, one tunnel leads into another.
        return Err(match m.nesting {
            0 | 1 => DropReason::NoHeadroom,
            _ => DropReason::NestedTooDeep,
        });
    }
    let room = cx.pool.push(b, view.header_len());
    view.write(room.ok_or(DropReason::NoHeadroom)?, total, inner);
    let ip6 = view.key.local.is_ipv6();
    if ip6 && matches!(encap, Encap::Vxlan { .. }) {
        // RFC 6936 would allow none, but receivers need not take that.
        let sum = udp6_checksum(cx.pool, b).to_be_bytes();
        cx.pool.peek_mut::<48>(b, 0)[46..].copy_from_slice(&sum);
    }
    let m = cx.pool.meta_mut(b);
    (m.l2, m.l3) = (m.data, m.data);
    (m.tx_if, m.table, m.dpo) = (IF_NONE, view.key.table, 0);
    // A path for the outer flow is chosen by what tells inner flows apart.
    m.flow_hash = inner.hash;
    Ok(if ip6 { IP6_LOOKUP } else { IP4_LOOKUP })
}

impl Node for TunnelOutput {
    fn process(&mut self, cx: &mut Ctx<'_>, frame: &mut Frame) -> Dispatch {
        let tunnels = self.shared.tunnels.load(cx.rcu);
        let mut last: Option<(u32, &TunnelView)> = None;
        for (i, &b) in frame.packets().iter().enumerate() {
            let tx_if = cx.pool.meta(b).tx_if;
            if last.is_none_or(|(of, _)| of != tx_if) {
                last = tunnels.view(tx_if).map(|view| (tx_if, view));
            }
            let done = match last {
                Some((_, view)) => wrap(cx, b, view, &mut self.ident),
                None => Err(DropReason::InterfaceGone),
            };
            match done {
                Ok(next) => cx.next[i] = next,
                Err(reason) => cx.drop_packet(i, b, reason),
            }
        }
        frame.tx_if = IF_MIXED;
        Dispatch::Each
    }
}
