//! `mpls-output`: the link-layer header of a labelled packet (RFC 3032 section 5).
//!
//! Drop reasons: `no_adjacency`, `no_headroom`, `link_mtu_exceeded`.

use parshall_buffer::{BufferIndex, PoolView};
use parshall_counters::DropReason;
use parshall_fib::Adjacency;
use parshall_graph::{Ctx, NodeSpec};

use crate::rewrite::{Rewrite, Sent};
use crate::trace::format_mpls;

/// The node's description.
pub const SPEC: NodeSpec = NodeSpec::new("mpls-output", &["ip4-arp", "ip6-discover-neighbor"])
    .starting("interface-output")
    .format(format_mpls);

const IP4_ARP: u16 = 0;
const IP6_DISCOVER: u16 = 1;

/// The node.
pub type MplsOutput = Rewrite<MplsSent>;

/// Sending labelled packets: their TTL has been seen to.
pub struct MplsSent;

impl Sent for MplsSent {
    fn unresolved(adj: &Adjacency) -> u16 {
        if adj.next_hop_is_ip6() {
            IP6_DISCOVER
        } else {
            IP4_ARP
        }
    }

    #[inline(always)]
    fn forward(_view: &mut PoolView<'_>, _b: BufferIndex, _at: u16) -> bool {
        true
    }

    fn look(cx: &mut Ctx<'_>, i: usize, b: BufferIndex, adj: &Adjacency) -> bool {
        let fits = cx.pool.meta(b).total_len() <= u32::from(adj.mtu());
        if !fits {
            cx.pool.meta_mut(b).tx_if = adj.tx_if();
            cx.drop_packet(i, b, DropReason::LinkMtuExceeded);
        }
        fits
    }
}
