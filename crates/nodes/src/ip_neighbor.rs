//! `ip4-arp` and `ip6-discover-neighbor`: packets whose next hop on an attached network is not resolved
//! yet (RFC 1122 section 2.3.2.2, RFC 4861 section 7.2.2).
//!
//! Keeps a few packets a neighbour and tells the control thread, which asks for the neighbour and says
//! what became of it. Reached from the lookup (no neighbour known at all) and from the rewrite (known,
//! being resolved).
//!
//! Drop reasons: `neighbor_queue_full`, `unresolved_neighbor`, `no_adjacency`.

use std::any::Any;
use std::sync::Arc;

use parshall_buffer::{BufferIndex, Frame};
use parshall_counters::DropReason;
use parshall_fib::{Dpo, DpoKind};
use parshall_graph::{CONSUMED, Ctx, Dispatch, Node, NodeSpec};
use parshall_ring::Producer;

use crate::event::{Event, HoldMessage};
use crate::family::Family;
use crate::hold::{Hold, give_up, note_arrival, resume, way_on};
use crate::state::Shared;
use crate::trace::{format_ip4, format_ip6};

/// Description of the IPv4 node.
pub const SPEC4: NodeSpec = NodeSpec::new(
    "ip4-arp",
    &["ip4-lookup", "ip4-icmp-error", "ip4-rewrite", "mpls-output"],
)
.format(format_ip4);

/// Description of the IPv6 node: its next nodes stand in the same order.
pub const SPEC6: NodeSpec = NodeSpec::new(
    "ip6-discover-neighbor",
    &["ip6-lookup", "ip6-icmp-error", "ip6-rewrite", "mpls-output"],
)
.format(format_ip6);

/// One buffer in so many may be held by packets that wait for neighbours.
const MOST_HELD: usize = 4;

/// The node.
pub struct IpNeighbor<F: Family> {
    shared: Arc<Shared>,
    events: Producer<Event>,
    hold: Hold<F::Bytes>,
}

impl<F: Family> IpNeighbor<F> {
    /// Over this state, telling `events`.
    pub fn new(shared: Arc<Shared>, events: Producer<Event>) -> IpNeighbor<F> {
        IpNeighbor {
            shared,
            events,
            hold: Hold::new(),
        }
    }

    fn keep(&mut self, cx: &mut Ctx<'_>, i: usize, b: BufferIndex) {
        let Some((if_index, ip)) = neighbor::<F>(&self.shared, cx, b) else {
            return cx.drop_packet(i, b, DropReason::NoAdjacency);
        };
        // Where it waits to go is part of what is told of it if it is dropped.
        cx.pool.meta_mut(b).tx_if = if_index;
        cx.pool.meta_mut(b).scratch[0] = way_on(&self.shared, cx, b).into();
        // What waits leaves most buffers to the others, however many neighbours do not answer.
        if cx.counters.held.get() >= (cx.pool.capacity() / MOST_HELD) as u64 {
            return cx.drop_packet(i, b, DropReason::NeighborQueueFull);
        }
        let offered = self.hold.keep(if_index, ip, b, cx.now);
        if offered.tell {
            // A full event ring only delays the question until the next packet reminds.
            let _ = self.events.push(F::wanted(if_index, ip));
        }
        if !offered.kept {
            return cx.drop_packet(i, b, DropReason::NeighborQueueFull);
        }
        note_arrival(cx.pool.meta_mut(b), cx.now);
        cx.counters.held.add(1);
        cx.next[i] = CONSUMED;
    }
}

/// Interface and address of the neighbour a packet waits for.
fn neighbor<F: Family>(shared: &Shared, cx: &Ctx<'_>, b: BufferIndex) -> Option<(u32, F::Bytes)> {
    let dpo = Dpo::from_bits(cx.pool.meta(b).dpo);
    if dpo.kind() == DpoKind::Glean {
        return Some((dpo.index(), F::destination_bytes(cx.pool, b)));
    }
    let adj = shared.adjacencies.get(dpo.index(), cx.rcu)?;
    Some((adj.tx_if(), F::next_hop(adj)?))
}

fn resume_to<F: Family>(shared: &Shared, cx: &mut Ctx<'_>, b: BufferIndex, to: (u32, F::Bytes)) {
    let same = neighbor::<F>(shared, cx, b) == Some(to);
    resume(shared, cx, b, same);
}

impl<F: Family> Node for IpNeighbor<F> {
    fn process(&mut self, cx: &mut Ctx<'_>, frame: &mut Frame) -> Dispatch {
        for (i, &b) in frame.packets().iter().enumerate() {
            self.keep(cx, i, b);
        }
        Dispatch::Each
    }

    fn is_timed(&self) -> bool {
        true
    }

    fn deadline(&self) -> Option<u64> {
        self.hold.deadline()
    }

    fn tick(&mut self, cx: &mut Ctx<'_>) {
        loop {
            let n = self
                .hold
                .expire(cx.now, |b| give_up(cx, b, F::errors().unreachable));
            if n == 0 {
                return;
            }
            cx.counters.held.set(cx.counters.held.get() - n as u64);
        }
    }

    fn message(&mut self, cx: &mut Ctx<'_>, message: &mut (dyn Any + Send)) {
        let shared = &*self.shared;
        let n = match message.downcast_ref::<HoldMessage<F::Bytes>>() {
            Some(&HoldMessage::Resolved { if_index, ip }) => self.hold.release(if_index, ip, |b| {
                resume_to::<F>(shared, cx, b, (if_index, ip))
            }),
            Some(&HoldMessage::Failed { if_index, ip }) => self
                .hold
                .release(if_index, ip, |b| give_up(cx, b, F::errors().unreachable)),
            None => 0,
        };
        cx.counters.held.set(cx.counters.held.get() - n as u64);
    }
}
