//! `ip6-lookup`: longest-prefix match in the table of the packet's interface.
//!
//! As `ip4-lookup`: a batch of lookups, the object's kind chooses the next node.
//!
//! Drop reasons: `no_route`, `route_blackhole`, `route_prohibit`, `route_unreachable`, `lookup_loop`,
//! `no_adjacency`, `ip6_link_local`.

use std::sync::Arc;

use parshall_buffer::{BufferIndex, FRAME_SIZE, Frame, IF_MIXED, IF_NONE};
use parshall_counters::DropReason;
use parshall_fib::{Dpo, DpoKind};
use parshall_graph::{Ctx, Dispatch, Node, NodeSpec};

use crate::flow_hash::flow_hash6;
use crate::icmp_error::{IcmpAsk, ask};
use crate::state::Shared;
use crate::trace::format_ip6;

/// The node's description.
pub const SPEC: NodeSpec = NodeSpec::new(
    "ip6-lookup",
    &[
        "ip6-rewrite",
        "ip6-local",
        "ip6-discover-neighbor",
        "mpls-label-imposition",
        "ip6-icmp-error",
    ],
)
.by_interface()
.format(format_ip6);

const IP6_REWRITE: u16 = 0;
const IP6_LOCAL: u16 = 1;
const DISCOVER: u16 = 2;
const IMPOSITION: u16 = 3;
const ICMP_ERROR: u16 = 4;

/// Lookups one packet may take: table to table, load balance to load balance.
const MAX_STEPS: usize = 8;

/// The node.
pub struct Ip6Lookup {
    shared: Arc<Shared>,
    destinations: Box<[u128; FRAME_SIZE]>,
    found: Box<[Dpo; FRAME_SIZE]>,
}

impl Ip6Lookup {
    /// Over this state.
    pub fn new(shared: Arc<Shared>) -> Ip6Lookup {
        Ip6Lookup {
            shared,
            destinations: Box::new([0; FRAME_SIZE]),
            found: Box::new([Dpo::MISS; FRAME_SIZE]),
        }
    }

    /// The table a packet is looked up in.
    fn table_of(&self, cx: &Ctx<'_>, b: BufferIndex) -> u32 {
        let m = cx.pool.meta(b);
        match m.table {
            IF_NONE => self.shared.interfaces(cx.rcu).view(m.rx_if).ip6_table,
            table => table,
        }
    }

    /// Fills `found` for a frame whose packets share a table.
    #[inline]
    fn look_up_all(&mut self, cx: &Ctx<'_>, table: u32, packets: &[BufferIndex]) {
        let n = packets.len();
        let fib = self.shared.ip6.get(cx.rcu, table).view(cx.rcu);
        for (d, &b) in self.destinations.iter_mut().zip(packets) {
            *d = u128::from_be_bytes(*cx.pool.peek(b, 24));
        }
        fib.lookup_batch(&self.destinations[..n], &mut self.found[..n]);
    }

    /// Fills `found` packet by packet.
    fn look_up_each(&mut self, cx: &Ctx<'_>, packets: &[BufferIndex]) {
        for (i, &b) in packets.iter().enumerate() {
            let table = self.table_of(cx, b);
            let dst = u128::from_be_bytes(*cx.pool.peek(b, 24));
            self.found[i] = self.shared.ip6.get(cx.rcu, table).lookup(cx.rcu, dst);
        }
    }

    /// Follows objects that only point on, until one says what to do.
    #[cold]
    fn follow(&self, cx: &mut Ctx<'_>, b: BufferIndex, mut dpo: Dpo) -> Option<Dpo> {
        for _ in 0..MAX_STEPS {
            dpo = match dpo.kind() {
                DpoKind::LoadBalance => {
                    let hash = match cx.pool.meta(b).flow_hash {
                        0 => flow_hash6(cx.pool, b),
                        hash => hash,
                    };
                    cx.pool.meta_mut(b).flow_hash = hash;
                    self.shared
                        .load_balances
                        .get(dpo.index(), cx.rcu)?
                        .pick(hash)
                }
                DpoKind::LookupIp6 => {
                    let dst = u128::from_be_bytes(*cx.pool.peek(b, 24));
                    self.shared.ip6.get(cx.rcu, dpo.index()).lookup(cx.rcu, dst)
                }
                _ => return Some(dpo),
            };
        }
        None
    }

    /// The verdict for anything that is not a plain adjacency.
    fn decide(&self, cx: &mut Ctx<'_>, i: usize, b: BufferIndex, dpo: Dpo) {
        let Some(dpo) = self.follow(cx, b, dpo) else {
            return cx.drop_packet(i, b, DropReason::LookupLoop);
        };
        cx.pool.meta_mut(b).dpo = dpo.bits();
        let refuse = |cx: &mut Ctx<'_>, reason, error| {
            ask(cx, b, reason, error);
            cx.next[i] = ICMP_ERROR;
        };
        match dpo.kind() {
            DpoKind::Adjacency => cx.next[i] = IP6_REWRITE,
            DpoKind::Receive => cx.next[i] = IP6_LOCAL,
            DpoKind::Glean => cx.next[i] = DISCOVER,
            DpoKind::MplsImpose => cx.next[i] = IMPOSITION,
            DpoKind::Miss => refuse(cx, DropReason::NoRoute, IcmpAsk::no_route6()),
            DpoKind::Unreachable => refuse(
                cx,
                DropReason::RouteUnreachable,
                IcmpAsk::address_unreachable6(),
            ),
            DpoKind::Prohibit => refuse(cx, DropReason::RouteProhibit, IcmpAsk::prohibited6()),
            DpoKind::Blackhole => cx.drop_packet(i, b, DropReason::RouteBlackhole),
            _ => cx.drop_packet(i, b, DropReason::NoAdjacency),
        }
    }
}

impl Node for Ip6Lookup {
    fn process(&mut self, cx: &mut Ctx<'_>, frame: &mut Frame) -> Dispatch {
        let packets = frame.packets();
        match frame.rx_if {
            IF_MIXED => self.look_up_each(cx, packets),
            rx_if if packets.iter().all(|&b| cx.pool.meta(b).table == IF_NONE) => {
                let table = self.shared.interfaces(cx.rcu).view(rx_if).ip6_table;
                self.look_up_all(cx, table, packets);
            }
            _ => self.look_up_each(cx, packets),
        }
        let mut all = true;
        for (i, &b) in packets.iter().enumerate() {
            let dpo = self.found[i];
            cx.pool.meta_mut(b).dpo = dpo.bits();
            cx.next[i] = IP6_REWRITE;
            if dpo.kind() != DpoKind::Adjacency {
                self.decide(cx, i, b, dpo);
                all = false;
            }
        }
        if all {
            Dispatch::All(IP6_REWRITE)
        } else {
            Dispatch::Each
        }
    }
}
