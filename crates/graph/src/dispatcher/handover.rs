//! Handing frames on: verdicts to next nodes, whole where all packets agree and in runs where they do not,
//! and along feature arcs.

use parshall_buffer::{BufferIndex, Flags, Frame, IF_MIXED, IF_NONE};
use parshall_counters::DropReason;

use super::Dispatcher;
use crate::arc::{ArcEnd, Side};
use crate::node::{CONSUMED, CONTINUE, DROP, Dispatch, NodeId};
use crate::structure::ArcPlace;

impl Dispatcher {
    #[inline]
    pub(super) fn distribute(&mut self, id: NodeId, verdict: Dispatch, frame: Box<Frame>) {
        match verdict {
            Dispatch::All(next) => self.hand(id, next, frame),
            Dispatch::Each => {
                let n = frame.len();
                let first = self.next[0];
                // Compared as a whole, which the compiler does many lanes at a time.
                if self.next[..n].iter().fold(0, |acc, &x| acc | (x ^ first)) == 0 {
                    return self.hand(id, first, frame);
                }
                self.split(id, frame);
            }
        }
    }

    /// Hands a whole frame on.
    #[inline]
    pub(super) fn hand(&mut self, id: NodeId, next: u16, frame: Box<Frame>) {
        match next {
            CONTINUE => match self.graph.place[usize::from(id)] {
                Some(place) => self.walk(place, frame),
                None => self.fault(id, frame),
            },
            DROP => {
                if !self.graph.on_behalf[usize::from(id)] {
                    self.stamp_drops(id, frame.packets());
                }
                self.walk(
                    ArcPlace {
                        arc: self.graph.drop_arc,
                        from: 0,
                    },
                    frame,
                );
            }
            CONSUMED => self.pending.put(frame),
            _ => match self.graph.edges[usize::from(id)].get(usize::from(next)) {
                Some(&to) => self.pending.hand_over(usize::from(to), frame),
                None => self.fault(id, frame),
            },
        }
    }

    /// A verdict that names nothing is a bug in a node; the packets are dropped with that reason, which says where.
    #[cold]
    pub(super) fn fault(&mut self, id: NodeId, frame: Box<Frame>) {
        self.drop_for(DropReason::NodeFault, id, frame);
    }

    /// Splits a frame into runs of equal verdict.
    pub(super) fn split(&mut self, id: NodeId, frame: Box<Frame>) {
        let n = frame.len();
        let mut at = 0;
        while at < n {
            let next = self.next[at];
            let run = self.next[at..n]
                .iter()
                .position(|&x| x != next)
                .unwrap_or(n - at);
            let packets = &frame.packets()[at..at + run];
            at += run;
            match next {
                CONSUMED => {}
                _ if next < CONTINUE => {
                    match self.graph.edges[usize::from(id)].get(usize::from(next)) {
                        Some(&to) => self.pending.append(
                            usize::from(to),
                            packets,
                            frame.rx_if,
                            frame.tx_if,
                            frame.traced,
                        ),
                        None => self.hand_part(id, next, packets, &frame),
                    }
                }
                _ => self.hand_part(id, next, packets, &frame),
            }
        }
        self.pending.put(frame);
    }

    /// Hands part of a frame on as a frame of its own: the way of rare verdicts.
    pub(super) fn hand_part(&mut self, id: NodeId, next: u16, packets: &[BufferIndex], of: &Frame) {
        let mut part = self.pending.take();
        part.extend(packets);
        part.rx_if = of.rx_if;
        part.tx_if = of.tx_if;
        part.traced = of.traced;
        self.hand(id, next, part);
    }

    pub(super) fn send_emitted(&mut self, id: NodeId) {
        let mut emitted = std::mem::take(&mut self.emitted);
        let mut rest = emitted.iter().peekable();
        while let Some(&(next, b)) = rest.next() {
            let m = self.pool.meta(b);
            let mut frame = self.pending.take();
            (frame.rx_if, frame.tx_if) = (m.rx_if, m.tx_if);
            frame.traced = m.flags.has(Flags::TRACED);
            frame.push(b);
            // Those that go the same way go together: a flood emits many of them in a row.
            let (rx_if, tx_if) = (frame.rx_if, frame.tx_if);
            if tx_if == IF_NONE {
                // Not known yet, which is no promise that it stays so.
                frame.tx_if = IF_MIXED;
            }
            while let Some(&&(also, b)) = rest.peek()
                && also == next
                && self.pool.meta(b).rx_if == rx_if
                && self.pool.meta(b).tx_if == tx_if
                && frame.push(b)
            {
                frame.traced |= self.pool.meta(b).flags.has(Flags::TRACED);
                rest.next();
            }
            self.hand(id, next, frame);
        }
        emitted.clear();
        self.emitted = emitted;
    }

    /// Takes a whole frame along an arc: to the next enabled feature of its interface, or to the end.
    #[inline]
    pub(super) fn walk(&mut self, place: ArcPlace, mut frame: Box<Frame>) {
        let arc = &self.graph.arcs[place.arc];
        let by_tx = arc.spec.side == Side::Tx;
        let to_node = match arc.spec.end {
            ArcEnd::Node(_) => Some(usize::from(arc.end)),
            ArcEnd::Transmit => None,
        };
        let active = self.graph.switches.is_active(place.arc);
        if let (false, Some(end)) = (active, to_node) {
            return self.pending.hand_over(end, frame);
        }
        if to_node.is_some() && self.graph.switches.is_uniform(place.arc) {
            // One way for all interfaces: that of local0 is as good as any.
            return self.deliver(self.step(place, 0, active), frame);
        }
        // The last arc, with features on: some of them see what goes by in passing.
        let out = by_tx && active && to_node.is_none();
        let common = if by_tx { frame.tx_if } else { frame.rx_if };
        if common != IF_MIXED {
            if out {
                return self.leave(place, common, frame);
            }
            return self.deliver(self.step(place, common, active), frame);
        }
        let n = frame.len();
        let mut at = 0;
        while at < n {
            let interface = self.interface_of(frame.packets()[at], by_tx);
            let rest = &frame.packets()[at..];
            let run = rest
                .iter()
                .position(|&b| self.interface_of(b, by_tx) != interface)
                .unwrap_or(n - at);
            if at == 0 && run == n {
                *(if by_tx {
                    &mut frame.tx_if
                } else {
                    &mut frame.rx_if
                }) = interface;
                return self.walk(place, frame);
            }
            let (rx, tx) = if by_tx {
                (frame.rx_if, interface)
            } else {
                (interface, frame.tx_if)
            };
            let to = match out {
                true => self.leave_part(place, interface, &frame, at..at + run),
                false => self.step(place, interface, active),
            };
            self.deliver_part(to, &frame, at, run, rx, tx);
            at += run;
        }
        self.pending.put(frame);
    }

    #[inline(always)]
    pub(super) fn interface_of(&self, b: BufferIndex, by_tx: bool) -> u32 {
        let m = self.pool.meta(b);
        if by_tx { m.tx_if } else { m.rx_if }
    }

    /// The slot after `place` for an interface; `None` = it has no such interface to send on.
    #[inline]
    pub(super) fn step(&self, place: ArcPlace, interface: u32, active: bool) -> Option<usize> {
        let arc = &self.graph.arcs[place.arc];
        if active {
            let left = self
                .graph
                .switches
                .mask(place.arc, interface)
                .checked_shr(place.from)
                .unwrap_or(0);
            if left != 0 {
                let at = place.from as usize + left.trailing_zeros() as usize;
                return arc.features.get(at).map(|f| usize::from(*f));
            }
        }
        match arc.spec.end {
            ArcEnd::Node(_) => Some(usize::from(arc.end)),
            ArcEnd::Transmit if (interface as usize) < self.tx.len() => {
                Some(usize::from(self.graph.tx_slot(interface)))
            }
            ArcEnd::Transmit => None,
        }
    }

    #[inline]
    pub(super) fn deliver(&mut self, to: Option<usize>, frame: Box<Frame>) {
        match to {
            Some(slot) => self.pending.hand_over(slot, frame),
            None => self.drop_for(DropReason::InterfaceGone, self.graph.drop_node, frame),
        }
    }

    pub(super) fn deliver_part(
        &mut self,
        to: Option<usize>,
        frame: &Frame,
        at: usize,
        run: usize,
        rx: u32,
        tx: u32,
    ) {
        let packets = &frame.packets()[at..at + run];
        match to {
            Some(slot) => self.pending.append(slot, packets, rx, tx, frame.traced),
            None => {
                let mut part = self.pending.take();
                part.extend(packets);
                self.drop_for(DropReason::InterfaceGone, self.graph.drop_node, part);
            }
        }
    }
}
