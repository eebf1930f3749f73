//! The counter blocks of a worker.
//!
//! A [`Counter`] has one writer, so counting is a plain load and store (no locked instruction), and
//! any reader sees a whole value. Sums over workers are made by the reader.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

use crate::DropReason;

/// A 64-bit counter with one writer and any number of readers.
#[derive(Default, Debug)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`. Only the owning worker may call this.
    #[inline(always)]
    pub fn add(&self, n: u64) {
        self.0.store(
            self.0.load(Ordering::Relaxed).wrapping_add(n),
            Ordering::Relaxed,
        );
    }
    /// The value now.
    #[inline(always)]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
    /// Sets the value. Only the owning worker may call this.
    #[inline(always)]
    pub fn set(&self, v: u64) {
        self.0.store(v, Ordering::Relaxed);
    }
}

macro_rules! counter_block {
    ($(#[$doc:meta])* $block:ident, $totals:ident { $($(#[$fdoc:meta])* $field:ident,)* }) => {
        $(#[$doc])*
        #[derive(Default, Debug)]
        #[repr(align(64))]
        pub struct $block { $($(#[$fdoc])* pub $field: Counter,)* }

        /// The same as plain numbers: a snapshot, a sum, or a difference.
        #[derive(Clone, Copy, Default, Debug, PartialEq, Eq, Serialize)]
        pub struct $totals { $($(#[$fdoc])* pub $field: u64,)* }

        impl $block {
            /// Adds the present values to `sum`.
            pub fn add_to(&self, sum: &mut $totals) {
                $(sum.$field = sum.$field.wrapping_add(self.$field.get());)*
            }
        }
        impl $totals {
            /// What was added since `earlier`.
            #[must_use]
            pub fn since(&self, earlier: &Self) -> Self {
                Self { $($field: self.$field.wrapping_sub(earlier.$field),)* }
            }
        }
    };
}

counter_block! {
    /// Counters of one interface in one worker. Packets and bytes are of link-layer frames without FCS.
    IfCounters, IfTotals {
        /// Frames received.
        rx_packets,
        /// Bytes received.
        rx_bytes,
        /// Frames received with a multicast (not broadcast) destination.
        rx_multicast,
        /// Frames received with the broadcast destination.
        rx_broadcast,
        /// Frames received that were dropped, whatever the reason.
        rx_drops,
        /// Frames the device handed over broken.
        rx_errors,
        /// Frames the device or the kernel lost before we saw them.
        rx_missed,
        /// Frames thrown away because no buffer was free.
        rx_no_buffer,
        /// Frames received that the router itself consumed.
        punts,
        /// Frames sent.
        tx_packets,
        /// Bytes sent.
        tx_bytes,
        /// Frames sent with a multicast (not broadcast) destination.
        tx_multicast,
        /// Frames sent with the broadcast destination.
        tx_broadcast,
        /// Frames that could not be sent: queue full, interface down, too long.
        tx_drops,
        /// Frames the device refused.
        tx_errors,
        /// Frames that passed the receive sampler: the sFlow sample pool.
        sample_pool,
        /// Samples lost because the sample ring was full.
        sample_drops,
        /// Samples taken.
        samples,
        /// Frames that passed the transmit sampler.
        tx_sample_pool,
        /// Transmit samples lost because their ring was full.
        tx_sample_drops,
        /// Transmit samples taken.
        tx_samples,
    }
}

counter_block! {
    /// Counters of one graph node in one worker.
    NodeCounters, NodeTotals {
        /// Times the node was called.
        calls,
        /// Packets it was called with.
        vectors,
        /// Time-stamp counter ticks spent.
        clocks,
    }
}

/// Drop counters that share a cache line: all of one worker.
#[derive(Default, Debug)]
#[repr(align(64))]
struct ErrorLine([Counter; 8]);

/// The `i`th counter of these lines.
#[inline]
fn at(lines: &[ErrorLine], i: usize) -> Option<&Counter> {
    lines.get(i / 8).map(|line| &line.0[i % 8])
}

/// All counters of one worker. Interfaces and nodes are addressed by their number.
///
/// Every line of memory in here is written by this worker alone: the blocks fill whole cache lines, and the
/// alignment keeps the rest away from the reference counts of the `Arc` around it, which others write.
#[repr(align(128))]
pub struct WorkerCounters {
    /// By interface index.
    pub interfaces: Box<[IfCounters]>,
    /// By node number.
    pub nodes: Box<[NodeCounters]>,
    /// Drops by `node * DropReason::COUNT + reason`, eight a line.
    errors: Box<[ErrorLine]>,
    /// Drops by reason, over all nodes: what is looked at often.
    reasons: Box<[ErrorLine]>,
    /// Drops by reason that were not reported, though drop monitoring is on.
    suppressed: Box<[ErrorLine]>,
    /// Packets received from drivers.
    pub received: Counter,
    /// Packets handed to drivers.
    pub transmitted: Counter,
    /// Packets the router consumed: answered, learned from, or handed to the control thread.
    pub punted: Counter,
    /// Packets dropped.
    pub dropped: Counter,
    /// Packets the router made itself: ICMP errors, ARP, fragments beyond the first.
    pub originated: Counter,
    /// Packets dropped that were never made, for want of a buffer: copies, and frames of the control thread.
    pub unmade: Counter,
    /// Packets waiting in hold queues for a neighbour (a level, not a count).
    pub held: Counter,
    /// Buffers of its pool that are free (a level, not a count).
    pub buffers_free: Counter,
    /// Turns of the worker's loop.
    pub loops: Counter,
    /// Times it went to sleep.
    pub sleeps: Counter,
}

impl WorkerCounters {
    /// Zeroed counters for so many interfaces and nodes.
    pub fn new(interfaces: usize, nodes: usize) -> WorkerCounters {
        fn many<T: Default>(n: usize) -> Box<[T]> {
            (0..n).map(|_| T::default()).collect()
        }
        WorkerCounters {
            interfaces: many(interfaces),
            nodes: many(nodes),
            errors: many((nodes * DropReason::COUNT).div_ceil(8)),
            reasons: many(DropReason::COUNT.div_ceil(8)),
            suppressed: many(DropReason::COUNT.div_ceil(8)),
            received: Counter::default(),
            transmitted: Counter::default(),
            punted: Counter::default(),
            dropped: Counter::default(),
            originated: Counter::default(),
            unmade: Counter::default(),
            held: Counter::default(),
            buffers_free: Counter::default(),
            loops: Counter::default(),
            sleeps: Counter::default(),
        }
    }

    /// Counters of one interface, when it is in range.
    #[inline(always)]
    pub fn interface(&self, index: u32) -> Option<&IfCounters> {
        self.interfaces.get(index as usize)
    }

    /// Counts `n` drops by `reason` in `node`.
    #[inline]
    pub fn drop_at(&self, node: u16, reason: u16, n: u64) {
        if let Some(c) = self.error(usize::from(node) * DropReason::COUNT + usize::from(reason)) {
            c.add(n);
        }
        if let Some(c) = at(&self.reasons, usize::from(reason)) {
            c.add(n);
        }
    }

    /// Counts `n` packets that `node` could not make, for want of a buffer, as dropped: there is nothing to show of them.
    pub fn drop_unmade(&self, node: u16, n: u64) {
        self.dropped.add(n);
        self.unmade.add(n);
        self.drop_at(node, DropReason::NoBufferSpace.code(), n);
    }

    /// Counts `n` drops by `reason` that drop monitoring did not report.
    #[inline]
    pub fn suppress(&self, reason: u16, n: u64) {
        if let Some(c) = at(&self.suppressed, usize::from(reason)) {
            c.add(n);
        }
    }

    /// Drops by `reason` that drop monitoring did not report.
    pub fn suppressed(&self, reason: DropReason) -> u64 {
        at(&self.suppressed, reason as usize).map_or(0, Counter::get)
    }

    /// Drops by `reason` in all nodes.
    pub fn drops_for(&self, reason: DropReason) -> u64 {
        at(&self.reasons, reason as usize).map_or(0, Counter::get)
    }

    #[inline]
    fn error(&self, i: usize) -> Option<&Counter> {
        at(&self.errors, i)
    }

    /// Drops by `reason` in `node`.
    pub fn drops_at(&self, node: u16, reason: DropReason) -> u64 {
        self.error(usize::from(node) * DropReason::COUNT + reason as usize)
            .map_or(0, Counter::get)
    }

    /// Every (node, reason, count) that is not zero.
    pub fn drops(&self) -> impl Iterator<Item = (u16, DropReason, u64)> + '_ {
        self.errors
            .iter()
            .flat_map(|line| &line.0)
            .enumerate()
            .filter(|(_, c)| c.get() != 0)
            .filter_map(|(i, c)| {
                let reason = DropReason::ALL.get(i % DropReason::COUNT)?;
                Some(((i / DropReason::COUNT) as u16, *reason, c.get()))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_are_kept_by_node_and_reason() {
        let w = WorkerCounters::new(2, 3);
        w.drop_at(1, DropReason::NoRoute.code(), 4);
        w.drop_at(9, DropReason::NoRoute.code(), 4);
        assert_eq!(w.drops().collect::<Vec<_>>(), [(1, DropReason::NoRoute, 4)]);
        assert_eq!(w.drops_at(1, DropReason::NoRoute), 4);
        assert!(w.interface(2).is_none());
        w.drop_at(2, DropReason::NoRoute.code(), 3);
        w.suppress(DropReason::NoRoute.code(), 6);
        w.suppress(u16::MAX, 6);
        assert_eq!(w.drops_for(DropReason::NoRoute), 7 + 4);
        assert_eq!(w.suppressed(DropReason::NoRoute), 6);
        assert_eq!(w.suppressed(DropReason::RxMissed), 0);
    }

    #[test]
    fn no_cache_line_is_of_two_workers() {
        // Small arrays, made in turns, so that an allocator has every reason to put them side by side.
        let workers: Vec<_> = (0..4)
            .map(|_| std::sync::Arc::new(WorkerCounters::new(1, 1)))
            .collect();
        let mut owner = std::collections::HashMap::new();
        for (w, c) in workers.iter().enumerate() {
            fn lines<T>(of: &[T]) -> std::ops::RangeInclusive<usize> {
                let start = of.as_ptr() as usize;
                start / 64..=(start + size_of_val(of) - 1) / 64
            }
            let scalars = lines(std::slice::from_ref(&**c));
            let all = scalars.chain(lines(&c.interfaces)).chain(lines(&c.nodes));
            let by_reason = lines(&c.reasons).chain(lines(&c.suppressed));
            for line in all.chain(lines(&c.errors)).chain(by_reason) {
                assert_eq!(owner.insert(line, w), None, "line {line:#x}");
            }
            // The reference counts stand in front of the value.
            assert_eq!(std::sync::Arc::as_ptr(c) as usize % 128, 0);
        }
    }

    #[test]
    fn totals_subtract() {
        let c = IfCounters::default();
        let mut a = IfTotals::default();
        c.rx_packets.add(5);
        c.add_to(&mut a);
        c.rx_packets.add(2);
        let mut b = IfTotals::default();
        c.add_to(&mut b);
        assert_eq!(b.since(&a).rx_packets, 2);
    }
}
