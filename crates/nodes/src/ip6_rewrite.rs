//! `ip6-rewrite`: hop limit, size and link-layer header of a packet whose next hop is known.
//!
//! RFC 8200 section 3 (hop limit), RFC 4443 sections 3.2 and 3.3 (Packet Too Big, Time Exceeded).
//! Routers never fragment IPv6. Packets the router made itself keep their hop limit; a link-local
//! source does not leave its link (RFC 4291 section 2.5.6).
//!
//! Drop reasons: `ip6_hop_limit_expired`, `packet_too_big`, `ip6_link_local`, `no_adjacency`, `no_headroom`.

use std::sync::Arc;

use parshall_buffer::{BufferIndex, Flags, Frame, IF_MIXED, IF_NONE};
use parshall_counters::DropReason;
use parshall_fib::{Adjacency, Dpo};
use parshall_graph::{CONTINUE, Ctx, Dispatch, Node, NodeSpec};

use crate::icmp_error::{IcmpAsk, ask};
use crate::link::{HEADER, push_header};
use crate::state::Shared;
use crate::trace::format_ip6;

/// The node's description.
pub const SPEC: NodeSpec =
    NodeSpec::new("ip6-rewrite", &["ip6-discover-neighbor", "ip6-icmp-error"])
        .starting("interface-output")
        .format(format_ip6);

const DISCOVER: u16 = 0;
const ICMP_ERROR: u16 = 1;

/// The node.
pub struct Ip6Rewrite {
    shared: Arc<Shared>,
}

impl Ip6Rewrite {
    /// Over this state.
    pub fn new(shared: Arc<Shared>) -> Ip6Rewrite {
        Ip6Rewrite { shared }
    }
}

impl Node for Ip6Rewrite {
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
                Some(adj) if adj.is_complete() => rewrite(cx, i, b, adj),
                Some(_) => {
                    cx.next[i] = DISCOVER;
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

/// Rewrites a packet, or gives it another verdict; says the interface it leaves on.
#[inline(always)]
fn rewrite(cx: &mut Ctx<'_>, i: usize, b: BufferIndex, adj: &Adjacency) -> Option<u32> {
    let m = *cx.pool.meta(b);
    let h: &mut [u8; 10] = cx.pool.peek_mut(b, 0);
    let hops = h[7];
    let originated = m.flags.has(Flags::ORIGINATED);
    let local_source = h[8] == 0xFE && h[9] & 0xC0 == 0x80;
    let special = u32::from(hops <= 1)
        | u32::from(m.total_len() > u32::from(adj.mtu()))
        | u32::from(m.data < HEADER)
        | u32::from(local_source);
    if special != 0 && refuse(cx, i, b, adj, originated) {
        return None;
    }
    if !originated {
        cx.pool.peek_mut::<8>(b, 0)[7] = hops - 1;
    }
    push_header(cx.pool, b, adj);
    Some(adj.tx_if())
}

/// Gives a packet that must not be sent its verdict; false when it may be sent after all.
#[cold]
fn refuse(cx: &mut Ctx<'_>, i: usize, b: BufferIndex, adj: &Adjacency, originated: bool) -> bool {
    let m = *cx.pool.meta(b);
    let h: [u8; 10] = *cx.pool.peek(b, 0);
    let mut answer = |reason, error| {
        ask(cx, b, reason, error);
        cx.next[i] = ICMP_ERROR;
        true
    };
    if m.data < HEADER {
        cx.drop_packet(i, b, DropReason::NoHeadroom);
        true
    } else if !originated && h[7] <= 1 {
        answer(DropReason::Ip6HopLimitExpired, IcmpAsk::time_exceeded6())
    } else if m.total_len() > u32::from(adj.mtu()) {
        answer(
            DropReason::PacketTooBig,
            IcmpAsk::packet_too_big6(adj.mtu()),
        )
    } else if !originated && h[8] == 0xFE && h[9] & 0xC0 == 0x80 && m.rx_if != adj.tx_if() {
        answer(DropReason::Ip6LinkLocal, IcmpAsk::beyond_scope6())
    } else {
        false
    }
}
