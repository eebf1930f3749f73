//! `mpls-output`: the link-layer header of a labelled packet (RFC 3032 section 5).
//!
//! Drop reasons: `no_adjacency`, `no_headroom`, `link_mtu_exceeded`.

use std::sync::Arc;

use parshall_buffer::{Frame, IF_MIXED, IF_NONE};
use parshall_counters::DropReason;
use parshall_fib::{Adjacency, Dpo, DpoKind};
use parshall_graph::{CONTINUE, Ctx, Dispatch, Node, NodeSpec};

use crate::link::{HEADER, push_header};
use crate::state::Shared;
use crate::trace::format_mpls;

/// The node's description.
pub const SPEC: NodeSpec = NodeSpec::new("mpls-output", &["ip4-arp", "ip6-discover-neighbor"])
    .starting("interface-output")
    .format(format_mpls);

const IP4_ARP: u16 = 0;
const IP6_DISCOVER: u16 = 1;

/// The node.
pub struct MplsOutput {
    shared: Arc<Shared>,
}

impl MplsOutput {
    /// Over this state.
    pub fn new(shared: Arc<Shared>) -> MplsOutput {
        MplsOutput { shared }
    }

    fn adjacency<'r>(&'r self, rcu: &'r parshall_rcu::Reader, dpo: u32) -> Option<&'r Adjacency> {
        let dpo = Dpo::from_bits(dpo);
        if dpo.kind() != DpoKind::Adjacency {
            return None;
        }
        self.shared.adjacencies.get(dpo.index(), rcu)
    }
}

impl Node for MplsOutput {
    fn process(&mut self, cx: &mut Ctx<'_>, frame: &mut Frame) -> Dispatch {
        let mut last = (u32::MAX, None);
        let mut all = true;
        let mut common = IF_NONE;
        for (i, &b) in frame.packets().iter().enumerate() {
            let m = *cx.pool.meta(b);
            if m.dpo != last.0 {
                last = (m.dpo, self.adjacency(cx.rcu, m.dpo));
            }
            cx.next[i] = CONTINUE;
            match last.1 {
                Some(adj)
                    if adj.is_complete()
                        && m.data >= HEADER
                        && m.total_len() <= u32::from(adj.mtu()) =>
                {
                    push_header(cx.pool, b, adj);
                    common = if common == IF_NONE || common == adj.tx_if() {
                        adj.tx_if()
                    } else {
                        IF_MIXED
                    };
                    continue;
                }
                Some(adj) if !adj.is_complete() => {
                    cx.next[i] = if adj.next_hop_is_ip6() {
                        IP6_DISCOVER
                    } else {
                        IP4_ARP
                    };
                }
                Some(_) if m.data < HEADER => cx.drop_packet(i, b, DropReason::NoHeadroom),
                Some(_) => cx.drop_packet(i, b, DropReason::LinkMtuExceeded),
                None => cx.drop_packet(i, b, DropReason::NoAdjacency),
            }
            all = false;
        }
        frame.tx_if = if common == IF_NONE { IF_MIXED } else { common };
        if all {
            Dispatch::All(CONTINUE)
        } else {
            Dispatch::Each
        }
    }
}
