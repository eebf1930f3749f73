//! `ip4-lookup` and `ip6-lookup`: longest-prefix match in the table of the packet's interface (RFC 1812
//! section 5.2.4).
//!
//! The lookup's answer is a forwarding object; the object's kind chooses the next node. Load balancing
//! picks by flow hash, computed only then. Destinations are gathered first and looked up as a batch, so
//! that the misses of one overlap with the work of the others. A frame to one destination, as a tunnel's other end sends
//! them, is looked up once, and one that is all for the router goes on whole.
//!
//! Drop reasons: `no_route`, `route_blackhole`, `route_prohibit`, `route_unreachable`, `lookup_loop`,
//! `no_adjacency`.

use std::sync::Arc;

use parshall_buffer::{BufferIndex, FRAME_SIZE, Frame, IF_MIXED, IF_NONE};
use parshall_counters::DropReason;
use parshall_fib::{Dpo, DpoKind};
use parshall_graph::wide::{Isa, WideNode};
use parshall_graph::{Ctx, Dispatch, NodeSpec};

use crate::family::Family;
use crate::icmp_error::ask;
use crate::state::Shared;
use crate::trace::{format_ip4, format_ip6};

/// Description of the IPv4 node.
pub const SPEC4: NodeSpec = NodeSpec::new(
    "ip4-lookup",
    &[
        "ip4-rewrite",
        "ip4-local",
        "ip4-arp",
        "mpls-label-imposition",
        "ip4-icmp-error",
        "tunnel-input",
    ],
)
.by_interface()
.format(format_ip4);

/// Description of the IPv6 node: its next nodes stand in the same order. Tunnels over IPv6 are found by `ip6-local`.
pub const SPEC6: NodeSpec = NodeSpec::new(
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

const REWRITE: u16 = 0;
const LOCAL: u16 = 1;
const NEIGHBOR: u16 = 2;
const IMPOSITION: u16 = 3;
const ICMP_ERROR: u16 = 4;
const TUNNEL_INPUT: u16 = 5;

/// Lookups one packet may take: table to table, load balance to load balance.
const MAX_STEPS: usize = 8;

/// The node.
pub struct IpLookup<F: Family> {
    shared: Arc<Shared>,
    destinations: Box<[F::Addr; FRAME_SIZE]>,
    found: Box<[Dpo; FRAME_SIZE]>,
}

impl<F: Family> IpLookup<F> {
    /// Over this state.
    pub fn new(shared: Arc<Shared>) -> IpLookup<F> {
        IpLookup {
            shared,
            destinations: Box::new([F::Addr::default(); FRAME_SIZE]),
            found: Box::new([Dpo::MISS; FRAME_SIZE]),
        }
    }

    /// The table a packet is looked up in.
    fn table_of(&self, cx: &Ctx<'_>, b: BufferIndex) -> u32 {
        let m = cx.pool.meta(b);
        match m.table {
            IF_NONE => F::table(&self.shared.interfaces(cx.rcu).view(m.rx_if)),
            table => table,
        }
    }

    /// Fills `found` for a frame of one interface; false when packets have different tables (of their own, after a
    /// label was popped or a tunnel entered).
    #[inline(always)]
    fn look_up_all(&mut self, cx: &mut Ctx<'_>, rx_if: u32, packets: &[BufferIndex]) -> bool {
        let n = packets.len();
        let mut tables = IF_NONE;
        let view = cx.pool.view();
        for (d, &b) in self.destinations.iter_mut().zip(packets) {
            let m = view.meta(b);
            // All bits set is what says "none".
            tables &= m.table;
            *d = F::destination_at(&view, b, m.data);
        }
        let table = match tables {
            IF_NONE if rx_if == IF_MIXED => return false,
            IF_NONE => F::table(&self.shared.interfaces(cx.rcu).view(rx_if)),
            table if packets.iter().all(|&b| view.meta(b).table == table) => table,
            _ => return false,
        };
        let fib = F::tables(&self.shared).get(cx.rcu, table).view(cx.rcu);
        let (to, found) = (&self.destinations[..n], &mut self.found[..n]);
        match to.first() {
            Some(&first) if are_all(to, first) => found.fill(fib.lookup(first)),
            _ => fib.lookup_batch(to, found),
        }
        true
    }

    /// Fills `found` packet by packet.
    fn look_up_each(&mut self, cx: &Ctx<'_>, packets: &[BufferIndex]) {
        for (i, &b) in packets.iter().enumerate() {
            let table = self.table_of(cx, b);
            let dst = F::destination(cx.pool, b);
            self.found[i] = F::tables(&self.shared)
                .get(cx.rcu, table)
                .lookup(cx.rcu, dst);
        }
    }

    /// Puts the bucket of each packet's flow in the place of its load balance. What that points to, should it
    /// only point on again, is left to [`IpLookup::follow`].
    #[inline(always)]
    fn spread(&mut self, cx: &mut Ctx<'_>, packets: &[BufferIndex]) {
        for (dpo, &b) in self.found.iter_mut().zip(packets) {
            if dpo.kind() == DpoKind::LoadBalance {
                // One that is gone stays, and is judged with the exceptions.
                *dpo = bucket::<F>(&self.shared, cx, b, *dpo).unwrap_or(*dpo);
            }
        }
    }

    /// Follows objects that only point on, until one says what to do.
    #[cold]
    fn follow(&self, cx: &mut Ctx<'_>, b: BufferIndex, mut dpo: Dpo) -> Result<Dpo, DropReason> {
        for _ in 0..MAX_STEPS {
            dpo = match dpo.kind() {
                DpoKind::LoadBalance => {
                    bucket::<F>(&self.shared, cx, b, dpo).ok_or(DropReason::NoAdjacency)?
                }
                kind if kind == F::LOOKUP => {
                    let dst = F::destination(cx.pool, b);
                    F::tables(&self.shared)
                        .get(cx.rcu, dpo.index())
                        .lookup(cx.rcu, dst)
                }
                _ => return Ok(dpo),
            };
        }
        Err(DropReason::LookupLoop)
    }

    /// The verdict for anything that is not a plain adjacency.
    #[inline(never)]
    fn decide(&self, cx: &mut Ctx<'_>, i: usize, b: BufferIndex, dpo: Dpo) {
        let dpo = match self.follow(cx, b, dpo) {
            Ok(dpo) => dpo,
            Err(reason) => return cx.drop_packet(i, b, reason),
        };
        cx.pool.meta_mut(b).dpo = dpo.bits();
        let refuse = |cx: &mut Ctx<'_>, reason, error| {
            ask(cx, b, reason, error);
            cx.next[i] = ICMP_ERROR;
        };
        match dpo.kind() {
            DpoKind::Adjacency => cx.next[i] = REWRITE,
            DpoKind::Receive => cx.next[i] = LOCAL,
            DpoKind::Glean => cx.next[i] = NEIGHBOR,
            DpoKind::MplsImpose => cx.next[i] = IMPOSITION,
            DpoKind::Miss => refuse(cx, DropReason::NoRoute, F::errors().no_route),
            DpoKind::Unreachable => {
                refuse(cx, DropReason::RouteUnreachable, F::errors().unreachable)
            }
            DpoKind::Prohibit => refuse(cx, DropReason::RouteProhibit, F::errors().prohibited),
            DpoKind::Blackhole => cx.drop_packet(i, b, DropReason::RouteBlackhole),
            _ => cx.drop_packet(i, b, DropReason::NoAdjacency),
        }
    }
}

/// Whether all of these are the one. Without a branch in the loop: many lanes at a time.
#[inline(always)]
fn are_all<T: Copy + PartialEq>(these: &[T], one: T) -> bool {
    these.iter().fold(true, |all, t| all & (*t == one))
}

/// Whether all of these are of one kind. Without a branch in the loop: many lanes at a time.
#[inline(always)]
fn are(kind: DpoKind, found: &[Dpo]) -> bool {
    let kind = Dpo::new(kind, 0).bits();
    let kinds = found.iter().fold(0, |or, d| or | (d.bits() ^ kind));
    kinds <= Dpo::INDEX_MAX
}

/// The bucket of load balance `dpo` that the packet's flow belongs to; `None` = there is no such load
/// balance. The flow is hashed only where there is a choice.
#[inline(always)]
fn bucket<F: Family>(shared: &Shared, cx: &mut Ctx<'_>, b: BufferIndex, dpo: Dpo) -> Option<Dpo> {
    let choice = shared.load_balances.get(dpo.index(), cx.rcu)?;
    if choice.len() == 1 {
        return Some(choice.pick(0));
    }
    let hash = match cx.pool.meta(b).flow_hash {
        0 => F::flow_hash(cx.pool, b),
        hash => hash,
    };
    cx.pool.meta_mut(b).flow_hash = hash;
    Some(choice.pick(hash))
}

impl<F: Family> WideNode for IpLookup<F> {
    #[inline(always)]
    fn process<I: Isa>(&mut self, cx: &mut Ctx<'_>, frame: &mut Frame) -> Dispatch {
        let packets = frame.packets();
        let n = packets.len();
        if !self.look_up_all(cx, frame.rx_if, packets) {
            self.look_up_each(cx, packets);
        }
        let plain = are(DpoKind::Adjacency, &self.found[..n]);
        let mut local = false;
        if !plain {
            local = are(DpoKind::Receive, &self.found[..n]);
            if local && F::is_tunnels(cx.pool, packets[0], self.shared.tunnels.load(cx.rcu)) {
                return Dispatch::All(TUNNEL_INPUT);
            }
            self.spread(cx, packets);
        }
        let mut view = cx.pool.view();
        for (dpo, &b) in self.found.iter().zip(packets) {
            view.meta_mut(b).dpo = dpo.bits();
        }
        if plain || are(DpoKind::Adjacency, &self.found[..n]) {
            return Dispatch::All(REWRITE);
        }
        if local {
            return Dispatch::All(LOCAL);
        }
        cx.next[..n].fill(REWRITE);
        for (i, &b) in packets.iter().enumerate() {
            let dpo = self.found[i];
            if dpo.kind() != DpoKind::Adjacency {
                self.decide(cx, i, b, dpo);
            }
        }
        Dispatch::Each
    }
}
