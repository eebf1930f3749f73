//! `ip4-rewrite`: TTL, size and link-layer header of a packet whose next hop is known.
//!
//! RFC 1812 section 5.3.1 (TTL is decremented, a packet that would reach 0 is answered with Time
//! Exceeded), RFC 1191 (too big with DF set: Fragmentation Needed with the MTU), RFC 1624 (checksum
//! update). Packets the router made itself keep their TTL.
//!
//! Drop reasons: `ip4_ttl_expired`, `fragmentation_needed`, `no_adjacency`, `no_headroom`.

use std::sync::Arc;

use parshall_buffer::{BufferIndex, Flags, Frame, IF_MIXED, IF_NONE};
use parshall_counters::DropReason;
use parshall_fib::{Adjacency, Dpo};
use parshall_graph::{CONTINUE, Ctx, Dispatch, Node, NodeSpec};

use crate::icmp_error::{IcmpAsk, ask};
use crate::link::{HEADER, push_header};
use crate::state::Shared;
use crate::trace::format_ip4;

/// The node's description.
pub const SPEC: NodeSpec = NodeSpec::new("ip4-rewrite", &["ip4-arp", "ip4-icmp-error", "ip4-frag"])
    .starting("interface-output")
    .format(format_ip4);

const IP4_ARP: u16 = 0;
const ICMP_ERROR: u16 = 1;
const FRAG: u16 = 2;

/// The node.
pub struct Ip4Rewrite {
    shared: Arc<Shared>,
}

impl Ip4Rewrite {
    /// Over this state.
    pub fn new(shared: Arc<Shared>) -> Ip4Rewrite {
        Ip4Rewrite { shared }
    }
}

impl Node for Ip4Rewrite {
    fn process(&mut self, cx: &mut Ctx<'_>, frame: &mut Frame) -> Dispatch {
        let mut last = (u32::MAX, None);
        let mut all = true;
        let mut common = IF_NONE;
        for (i, &b) in frame.packets().iter().enumerate() {
            let dpo = cx.pool.meta(b).dpo;
            if dpo != last.0 {
                last = (
                    dpo,
                    self.shared
                        .adjacencies
                        .get(Dpo::from_bits(dpo).index(), cx.rcu),
                );
            }
            cx.next[i] = CONTINUE;
            let sent = match last.1 {
                Some(adj) if adj.is_complete() => {
                    rewrite_plain(cx, b, adj).or_else(|| rewrite_other(cx, i, b, adj))
                }
                Some(_) => {
                    cx.next[i] = IP4_ARP;
                    None
                }
                None => {
                    cx.drop_packet(i, b, DropReason::NoAdjacency);
                    None
                }
            };
            match sent {
                Some(tx_if) if common == IF_NONE || common == tx_if => common = tx_if,
                Some(_) => common = IF_MIXED,
                None => all = false,
            }
        }
        frame.tx_if = if common == IF_NONE { IF_MIXED } else { common };
        if all {
            Dispatch::All(CONTINUE)
        } else {
            Dispatch::Each
        }
    }
}

/// Rewrites a packet that needs nothing special; says the interface it leaves on.
#[inline(always)]
fn rewrite_plain(cx: &mut Ctx<'_>, b: BufferIndex, adj: &Adjacency) -> Option<u32> {
    let m = *cx.pool.meta(b);
    let h: &mut [u8; 12] = cx.pool.peek_mut(b, 0);
    let ttl = h[8];
    let special = u32::from(ttl <= 1)
        | u32::from(m.flags.0 & Flags::ORIGINATED.0)
        | u32::from(m.total_len() > u32::from(adj.mtu()))
        | u32::from(m.data < HEADER);
    if special != 0 {
        return None;
    }
    h[8] = ttl - 1;
    // RFC 1624 equation 3 for a TTL one lower: the checksum grows by 0x0100, with end-around carry. 0xFFFF
    // carries, too: a checksum is never that, since no header is all zeros.
    let sum = u32::from(u16::from_be_bytes([h[10], h[11]])) + 0x0100;
    let sum = (sum + u32::from(sum >= 0xFFFF)) as u16;
    [h[10], h[11]] = sum.to_be_bytes();
    push_header(cx.pool, b, adj);
    Some(adj.tx_if())
}

/// Finds out what is special about a packet.
#[cold]
fn rewrite_other(cx: &mut Ctx<'_>, i: usize, b: BufferIndex, adj: &Adjacency) -> Option<u32> {
    let m = *cx.pool.meta(b);
    if m.data < HEADER {
        cx.drop_packet(i, b, DropReason::NoHeadroom);
        return None;
    }
    let originated = m.flags.has(Flags::ORIGINATED);
    let h: &mut [u8; 12] = cx.pool.peek_mut(b, 0);
    if !originated && h[8] <= 1 {
        ask(cx, b, DropReason::Ip4TtlExpired, IcmpAsk::time_exceeded4());
        cx.next[i] = ICMP_ERROR;
        return None;
    }
    if m.total_len() > u32::from(adj.mtu()) {
        if h[6] & 0x40 != 0 {
            ask(
                cx,
                b,
                DropReason::FragmentationNeeded,
                IcmpAsk::fragmentation_needed4(adj.mtu()),
            );
            cx.next[i] = ICMP_ERROR;
        } else {
            // Fragments come back here one by one, each with the header it was given.
            cx.pool.meta_mut(b).scratch[0] = u32::from(adj.mtu());
            cx.next[i] = FRAG;
        }
        return None;
    }
    if !originated {
        parshall_wire::Ipv4Packet::new_unchecked(&mut h[..]).decrement_ttl();
    }
    push_header(cx.pool, b, adj);
    Some(adj.tx_if())
}
