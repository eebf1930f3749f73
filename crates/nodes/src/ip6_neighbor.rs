//! `ip6-discover-neighbor`: packets whose next hop on an attached network is not resolved yet (RFC 4861
//! section 7.2.2).
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
use crate::hold::{Hold, give_up, resume, way_on};
use crate::icmp_error::IcmpAsk;
use crate::state::Shared;
use crate::trace::format_ip6;

/// The node's description.
pub const SPEC: NodeSpec = NodeSpec::new(
    "ip6-discover-neighbor",
    &["ip6-lookup", "ip6-icmp-error", "ip6-rewrite", "mpls-output"],
)
.format(format_ip6);

/// The node.
pub struct Ip6Neighbor {
    shared: Arc<Shared>,
    events: Producer<Event>,
    hold: Hold<[u8; 16]>,
}

impl Ip6Neighbor {
    /// Over this state, telling `events`.
    pub fn new(shared: Arc<Shared>, events: Producer<Event>) -> Ip6Neighbor {
        Ip6Neighbor {
            shared,
            events,
            hold: Hold::new(),
        }
    }

    fn keep(&mut self, cx: &mut Ctx<'_>, i: usize, b: BufferIndex) {
        let Some((if_index, ip)) = neighbor(&self.shared, cx, b) else {
            return cx.drop_packet(i, b, DropReason::NoAdjacency);
        };
        cx.pool.meta_mut(b).scratch[0] = way_on(&self.shared, cx, b).into();
        let offered = self.hold.keep(if_index, ip, b, cx.now);
        if offered.tell {
            // A full event ring only delays the question until the next packet reminds.
            let _ = self.events.push(Event::Wanted6 { if_index, ip });
        }
        if !offered.kept {
            return cx.drop_packet(i, b, DropReason::NeighborQueueFull);
        }
        cx.counters.held.add(1);
        cx.next[i] = CONSUMED;
    }
}

/// Interface and address of the neighbour a packet waits for.
fn neighbor(shared: &Shared, cx: &Ctx<'_>, b: BufferIndex) -> Option<(u32, [u8; 16])> {
    let dpo = Dpo::from_bits(cx.pool.meta(b).dpo);
    if dpo.kind() == DpoKind::Glean {
        return Some((dpo.index(), *cx.pool.peek(b, 24)));
    }
    let adj = shared.adjacencies.get(dpo.index(), cx.rcu)?;
    let ip = *adj.next_hop();
    adj.next_hop_is_ip6().then_some((adj.tx_if(), ip))
}

fn resume_to(shared: &Shared, cx: &mut Ctx<'_>, b: BufferIndex, to: (u32, [u8; 16])) {
    let same = neighbor(shared, cx, b) == Some(to);
    resume(shared, cx, b, same);
}

impl Node for Ip6Neighbor {
    fn process(&mut self, cx: &mut Ctx<'_>, frame: &mut Frame) -> Dispatch {
        for (i, &b) in frame.packets().iter().enumerate() {
            self.keep(cx, i, b);
        }
        Dispatch::Each
    }

    fn deadline(&self) -> Option<u64> {
        self.hold.deadline()
    }

    fn tick(&mut self, cx: &mut Ctx<'_>) {
        loop {
            let n = self
                .hold
                .expire(cx.now, |b| give_up(cx, b, IcmpAsk::address_unreachable6()));
            if n == 0 {
                return;
            }
            cx.counters.held.set(cx.counters.held.get() - n as u64);
        }
    }

    fn message(&mut self, cx: &mut Ctx<'_>, message: &mut (dyn Any + Send)) {
        let shared = &*self.shared;
        let n = match message.downcast_ref::<HoldMessage<[u8; 16]>>() {
            Some(&HoldMessage::Resolved { if_index, ip }) => self
                .hold
                .release(if_index, ip, |b| resume_to(shared, cx, b, (if_index, ip))),
            Some(&HoldMessage::Failed { if_index, ip }) => self.hold.release(if_index, ip, |b| {
                give_up(cx, b, IcmpAsk::address_unreachable6())
            }),
            None => 0,
        };
        cx.counters.held.set(cx.counters.held.get() - n as u64);
    }
}
