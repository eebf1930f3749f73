//! How packets leave: through a transmit queue, or dropped and counted by node, reason and interface.

use parshall_buffer::{BufferIndex, Flags, Frame};
use parshall_counters::DropReason;

use super::Dispatcher;
use crate::node::{DROP, NodeId};
use crate::structure::ArcPlace;
use crate::tx::{MAX_NESTING, Rest, TxPlace};

impl Dispatcher {
    /// Drops a whole frame at `slot` for one reason.
    pub(crate) fn drop_for(&mut self, reason: DropReason, slot: NodeId, frame: Box<Frame>) {
        for &b in frame.packets() {
            self.pool.meta_mut(b).reason = reason.code();
        }
        self.stamp_drops(slot, frame.packets());
        self.walk(
            ArcPlace {
                arc: self.graph.drop_arc,
                from: 0,
            },
            frame,
        );
    }

    pub(super) fn stamp_drops(&mut self, slot: NodeId, packets: &[BufferIndex]) {
        for &b in packets {
            self.pool.meta_mut(b).drop_node = slot;
        }
    }

    /// The end of dropped packets: counted by node and reason and by interface, then freed.
    pub(super) fn drop_frame(&mut self, frame: Box<Frame>) {
        let n = frame.len();
        if frame.traced {
            for i in 0..n {
                let b = frame.packets()[i];
                if self.pool.meta(b).flags.has(Flags::TRACED) {
                    let before = self.capture(b);
                    self.record(self.graph.drop_node, b, DROP, before);
                }
            }
        }
        self.count_drops(frame.packets());
        self.counters.dropped.add(n as u64);
        self.pool.free_bulk(frame.packets());
        self.pending.put(frame);
        self.clock(self.graph.drop_node, n);
    }

    /// Counts dropped packets, those that are alike together: a flood of one kind costs a comparison a packet.
    fn count_drops(&self, packets: &[BufferIndex]) {
        let key = |b: BufferIndex| {
            let m = self.pool.meta(b);
            (
                m.drop_node,
                m.reason,
                m.rx_if,
                m.flags.0 & (Flags::ORIGINATED.0 | Flags::COPY.0) != 0,
            )
        };
        let mut rest = packets;
        while let Some(&first) = rest.first() {
            let alike = key(first);
            let run = rest.iter().position(|&b| key(b) != alike);
            let run = run.unwrap_or(rest.len());
            let (drop_node, reason, rx_if, made) = alike;
            self.counters.drop_at(drop_node, reason, run as u64);
            // What the router made of a received packet (an answer, an error, a copy) was not itself received.
            if !made && let Some(c) = self.counters.interface(rx_if) {
                c.rx_drops.add(run as u64);
            }
            rest = &rest[run..];
        }
    }

    /// Feeds a transmit queue, or the node in its place.
    pub(super) fn transmit(&mut self, slot: usize, frame: Box<Frame>) {
        let slot = slot as NodeId;
        let Some(if_index) = self.graph.tx_interface(slot) else {
            return self.pending.put(frame);
        };
        let to = TxPlace {
            counters: &self.counters,
            if_index,
            slot,
        };
        let tx = &mut self.tx[if_index as usize];
        let relay = tx.relay;
        let outcome = match relay {
            None => tx.send(&mut self.pool, &to, &frame, self.now),
            Some(_) => tx.relay(&mut self.pool, &to, &frame),
        };
        self.clock(slot, frame.len());
        match outcome {
            Ok(()) => match relay {
                None => self.pending.put(frame),
                Some(node) => self.pending.hand_over(usize::from(node), frame),
            },
            Err(Rest {
                reason: reason @ (DropReason::LinkMtuExceeded | DropReason::NestedTooDeep),
                ..
            }) => self.send_fitting(slot, if_index, frame, reason),
            Err(rest) => self.drop_unsent(slot, if_index, frame, rest),
        }
    }

    /// Some packet may not go, since it is longer than the interface carries or has been through too many: drops those,
    /// sends the others.
    #[cold]
    pub(super) fn send_fitting(
        &mut self,
        slot: NodeId,
        if_index: u32,
        frame: Box<Frame>,
        reason: DropReason,
    ) {
        let max = self.tx[if_index as usize].max_frame;
        let (mut fit, mut unfit) = (self.pending.take(), self.pending.take());
        for &b in frame.packets() {
            let m = self.pool.meta(b);
            let fits = match reason {
                DropReason::NestedTooDeep => m.nesting < MAX_NESTING,
                _ => m.total_len() <= max,
            };
            (if fits { &mut fit } else { &mut unfit }).push(b);
        }
        for f in [&mut fit, &mut unfit] {
            (f.rx_if, f.tx_if, f.traced) = (frame.rx_if, frame.tx_if, frame.traced);
        }
        self.pending.put(frame);
        self.drop_unsent(slot, if_index, unfit, Rest { from: 0, reason });
        self.pending.hand_over(usize::from(slot), fit);
    }

    /// Drops the packets of a frame that the transmit slot did not take.
    #[cold]
    pub(super) fn drop_unsent(
        &mut self,
        slot: NodeId,
        if_index: u32,
        frame: Box<Frame>,
        rest: Rest,
    ) {
        let mut part = self.pending.take();
        part.extend(&frame.packets()[rest.from..]);
        (part.rx_if, part.tx_if, part.traced) = (frame.rx_if, frame.tx_if, frame.traced);
        self.pending.put(frame);
        if let Some(c) = self.counters.interface(if_index) {
            c.tx_drops.add(part.len() as u64);
        }
        self.drop_for(rest.reason, slot, part);
    }
}
