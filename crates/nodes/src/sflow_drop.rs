//! `sflow-drop`: shows the agent packets that are dropped, a few of each reason ("sFlow Dropped Packet Notification
//! Structures").
//!
//! A feature of `error-drop`, on for all interfaces while drop monitoring is. Each reason has a token bucket of its
//! own in each worker, so a flood of one neither hides the others nor fills the ring. Packets are taken in runs of
//! equal reason: while a bucket is empty a run costs a comparison a packet, and no header is touched. What is not
//! shown is counted by reason.

use std::any::Any;

use parshall_buffer::{BufferIndex, Frame, Pool};
use parshall_counters::DropReason;
use parshall_graph::{CONTINUE, Ctx, Dispatch, Feature, Node, NodeSpec};
use parshall_ring::Producer;
use parshall_sample::{DROP_HEADER, DropSlot};

use crate::origin::Places;

/// The node's description.
pub const SPEC: NodeSpec = NodeSpec::new("sflow-drop", &[]).feature(Feature {
    arc: "error-drop",
    before: &["pcap-drop"],
    after: &[],
});

/// Packets of one reason that are shown at once at most, whatever the rate: a fraction of the ring.
const MAX_BURST: u64 = 64;
const SECOND: u64 = 1_000_000_000;

/// How much is shown: a message to this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DropSettings {
    /// Packets of each reason a second and worker; 0 = none.
    pub limit: u32,
}

/// Token buckets, as the time at which each is full again (the generic cell rate algorithm, ITU-T I.371): asking one
/// is a comparison, taking a token an addition.
struct Buckets {
    full_at: Box<[u64]>,
    /// Time that makes a token, ns; 0 = nothing is let through.
    interval: u64,
    /// How far ahead `full_at` may be with a token left.
    tolerance: u64,
}

impl Buckets {
    fn new() -> Buckets {
        Buckets {
            full_at: vec![0; DropReason::COUNT].into(),
            interval: 0,
            tolerance: 0,
        }
    }

    /// Lets `limit` a second through, a tenth of a second's worth at once.
    fn set_limit(&mut self, limit: u32) {
        let limit = u64::from(limit);
        self.interval = SECOND.checked_div(limit).unwrap_or(0);
        let burst = (limit / 10).clamp(1, MAX_BURST);
        self.tolerance = self.interval * (burst - 1);
        self.full_at.fill(0);
    }

    /// Takes a token of `reason` if there is one.
    #[inline]
    fn take(&mut self, reason: u16, now: u64) -> bool {
        let Some(full_at) = self.full_at.get_mut(usize::from(reason)) else {
            return false;
        };
        let ok = self.interval != 0 && *full_at <= now + self.tolerance;
        if ok {
            *full_at = now.max(*full_at) + self.interval;
        }
        ok
    }
}

/// The node.
pub struct SflowDrop {
    places: Places,
    buckets: Buckets,
    ring: Producer<DropSlot>,
}

impl SflowDrop {
    /// A node that writes into `ring`, and shows nothing yet.
    pub fn new(places: Places, ring: Producer<DropSlot>) -> SflowDrop {
        SflowDrop {
            places,
            buckets: Buckets::new(),
            ring,
        }
    }

    /// Shows as many of `packets`, dropped for one reason, as may be; says how many were not.
    #[inline]
    fn show(&mut self, cx: &Ctx<'_>, reason: u16, packets: &[BufferIndex]) -> u64 {
        for (i, &b) in packets.iter().enumerate() {
            if !self.buckets.take(reason, cx.now) {
                return (packets.len() - i) as u64;
            }
            if !self.write(cx.pool, cx.now, b) {
                // A full ring has no room for the next one either.
                return (packets.len() - i) as u64;
            }
        }
        0
    }

    #[inline(never)]
    fn write(&mut self, pool: &Pool, now: u64, b: BufferIndex) -> bool {
        let origin = self.places.origin(pool, b);
        let m = pool.meta(b);
        self.ring.write(|slot| {
            slot.time = now;
            (slot.rx_if, slot.tx_if) = (origin.rx_if, origin.tx_if);
            (slot.reason, slot.slot) = (m.reason, m.drop_node);
            slot.frame_len = m.total_len() + u32::from(origin.back);
            slot.protocol = origin.protocol;
            slot.header_len = copy(pool, b, origin.back, &mut slot.header) as u16;
        })
    }
}

/// Copies the first bytes of a packet, from `back` in front of its current header on; says how many.
pub fn copy(pool: &Pool, b: BufferIndex, back: u16, out: &mut [u8]) -> usize {
    let (m, room) = pool.parts(b);
    let (start, end) = (
        usize::from(m.data.saturating_sub(back)),
        usize::from(m.data),
    );
    let front = room.get(start..end).unwrap_or(&[]);
    let n = front.len().min(out.len());
    out[..n].copy_from_slice(&front[..n]);
    n + pool.copy_out(b, &mut out[n..])
}

impl Node for SflowDrop {
    fn process(&mut self, cx: &mut Ctx<'_>, frame: &mut Frame) -> Dispatch {
        let mut rest = frame.packets();
        while let Some(&first) = rest.first() {
            let reason = cx.pool.meta(first).reason;
            let run = rest.iter().position(|&b| cx.pool.meta(b).reason != reason);
            let (run, others) = rest.split_at(run.unwrap_or(rest.len()));
            rest = others;
            let hidden = self.show(cx, reason, run);
            if hidden != 0 {
                cx.counters.suppress(reason, hidden);
            }
        }
        Dispatch::All(CONTINUE)
    }

    fn message(&mut self, _cx: &mut Ctx<'_>, message: &mut (dyn Any + Send)) {
        if let Some(s) = message.downcast_ref::<DropSettings>() {
            self.buckets.set_limit(s.limit);
        }
    }
}

const _: () = assert!(DROP_HEADER <= u16::MAX as usize);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_lets_its_rate_through_and_no_more_than_a_burst_at_once() {
        for (limit, burst) in [(1, 1), (10, 1), (100, 10), (10_000, 64)] {
            let mut b = Buckets::new();
            b.set_limit(limit);
            let start = 5 * SECOND;
            let at_once = (0..1000).filter(|_| b.take(3, start)).count();
            assert_eq!(at_once, burst, "limit {limit}");
            // Asked much more often than it has tokens, it gives out the rate.
            let taken = (1..=1_000_000u64)
                .filter(|i| b.take(3, start + i * 10_000))
                .count();
            let wanted = limit as usize * 10;
            assert!(
                taken.abs_diff(wanted) <= 1,
                "{taken} of {wanted} at limit {limit}"
            );
        }
    }

    #[test]
    fn buckets_are_independent_and_one_that_is_off_is_empty() {
        let mut b = Buckets::new();
        assert!(!b.take(0, SECOND));
        b.set_limit(10);
        assert!(b.take(0, SECOND) && !b.take(0, SECOND));
        assert!(b.take(1, SECOND) && !b.take(1, SECOND));
        assert!(!b.take(u16::MAX, SECOND));
        b.set_limit(0);
        assert!(!b.take(2, SECOND));
    }
}
