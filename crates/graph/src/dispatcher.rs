//! The dispatcher: everything about moving packets that is not a node's own work.
//!
//! It polls receive slots, calls nodes with frames, reads their verdicts, hands frames on (whole where
//! all packets agree, in runs where they do not), walks feature arcs, feeds transmit queues, and counts.
//! It has no thread and no clock of its own: a [`crate::Worker`] turns it, and so does a test.

use std::any::Any;
use std::sync::Arc;

use parshall_buffer::{BufferIndex, FRAME_SIZE, Flags, Frame, IF_MIXED, Meta, Pool};
use parshall_counters::{DropReason, WorkerCounters};
use parshall_device::RxQueue;
use parshall_linux::clock::tsc;
use parshall_rcu::Reader;
use parshall_ring::{Consumer, Producer, ring};

use crate::arc::{ArcEnd, Side};
use crate::node::{CONSUMED, CONTINUE, Ctx, DROP, Dispatch, NamedNode, Node, NodeId};
use crate::pending::Pending;
use crate::structure::{ArcPlace, Graph, GraphError};
use crate::trace::{TRACE_BYTES, TraceRecord};
use crate::tx::{Rest, TxPlace, TxSlot};

/// Packets a node may emit in one call before the vector that holds them grows.
const EMITTED: usize = 4096;
/// Trace records that wait for the control thread at most.
const TRACE_RING: usize = 8192;

/// A receive queue in its place.
pub struct RxSlot {
    /// Input node of its driver.
    pub node: NodeId,
    /// Interface.
    pub if_index: u32,
    /// The queue.
    pub queue: Box<dyn RxQueue>,
    /// Whether the interface is up; a queue of one that is down is not polled.
    pub up: bool,
}

/// Moves packets through one worker's instance of the graph.
pub struct Dispatcher {
    /// The worker's packet memory.
    pub pool: Pool,
    /// The worker's counters.
    pub counters: Arc<WorkerCounters>,
    /// The worker's hold on published state.
    pub reader: Reader,
    /// Monotonic time of this turn in ns.
    pub now: u64,
    pub(crate) rx: Vec<RxSlot>,
    pub(crate) tx: Vec<TxSlot>,
    graph: Arc<Graph>,
    nodes: Vec<Box<dyn Node>>,
    pending: Pending,
    next: Box<[u16; FRAME_SIZE]>,
    emitted: Vec<(u16, BufferIndex)>,
    trace: Producer<TraceRecord>,
    /// Packets still to mark, by input node.
    trace_left: Vec<u32>,
    trace_id: u32,
    last_tsc: u64,
}

impl Dispatcher {
    /// A dispatcher over `nodes` (name and instance; every internal node of the graph except `drop`,
    /// exactly once) and the consumer of its trace records.
    ///
    /// # Errors
    /// When a node of the graph has no instance, or an instance no node.
    pub fn new(
        graph: Arc<Graph>,
        nodes: Vec<NamedNode>,
        pool: Pool,
        counters: Arc<WorkerCounters>,
        reader: Reader,
    ) -> Result<(Dispatcher, Consumer<TraceRecord>), GraphError> {
        let mut by_name: std::collections::HashMap<_, _> = nodes.into_iter().collect();
        let mut ordered: Vec<Box<dyn Node>> = Vec::new();
        for spec in graph.specs() {
            let built_in = spec.kind == crate::NodeKind::Input || spec.name == "drop";
            match by_name.remove(spec.name) {
                Some(n) if !built_in => ordered.push(n),
                None if built_in => ordered.push(Box::new(BuiltIn)),
                _ => {
                    return Err(GraphError(format!(
                        "node {} needs exactly one instance",
                        spec.name
                    )));
                }
            }
        }
        if let Some(name) = by_name.keys().next() {
            return Err(GraphError(format!("{name} is not a node of the graph")));
        }
        let apart: Vec<bool> = graph.specs().iter().map(|s| s.by_interface).collect();
        let (trace, trace_out) = ring(TRACE_RING);
        let dispatcher = Dispatcher {
            pool,
            counters,
            reader,
            now: 0,
            rx: Vec::with_capacity(graph.limits().interfaces),
            tx: (0..graph.limits().interfaces)
                .map(|_| TxSlot::default())
                .collect(),
            nodes: ordered,
            pending: Pending::new(graph.slots(), &apart, 2 * graph.specs().len() + 64),
            next: Box::new([0; FRAME_SIZE]),
            emitted: Vec::with_capacity(EMITTED),
            trace,
            trace_left: vec![0; graph.specs().len()],
            trace_id: 0,
            last_tsc: tsc(),
            graph,
        };
        Ok((dispatcher, trace_out))
    }

    /// The graph.
    pub fn graph(&self) -> &Arc<Graph> {
        &self.graph
    }
    /// Receive slots in place.
    pub fn rx_slots(&self) -> &[RxSlot] {
        &self.rx
    }
    /// Frames made after the start: more than 0 means the stock was too small.
    pub fn late_frames(&self) -> u64 {
        self.pending.late_frames
    }
    /// Marks the next `count` packets of an input node for the trace.
    pub fn trace(&mut self, input: NodeId, count: u32) {
        if let Some(left) = self.trace_left.get_mut(usize::from(input)) {
            *left = count;
        }
    }

    /// One turn: poll every receive queue, then move packets until none waits. Says how many came in.
    pub fn turn(&mut self, now: u64) -> usize {
        self.now = now;
        self.last_tsc = tsc();
        let mut received = 0;
        for i in 0..self.rx.len() {
            received += self.poll(i);
        }
        self.tick();
        self.run();
        received
    }

    /// Polls one receive slot and starts what came in on its way.
    fn poll(&mut self, slot: usize) -> usize {
        let rx = &mut self.rx[slot];
        if !rx.up {
            return 0;
        }
        let mut frame = self.pending.take();
        let burst = rx.queue.poll(&mut self.pool, &mut frame, self.now);
        let (node, if_index, n) = (rx.node, rx.if_index, frame.len());
        if let Some(c) = self.counters.interface(if_index) {
            if burst.missed | burst.no_buffer | burst.errors != 0 {
                c.rx_missed.add(burst.missed);
                c.rx_no_buffer.add(burst.no_buffer);
                c.rx_errors.add(burst.errors);
            }
            if n != 0 {
                c.rx_packets.add(n as u64);
                c.rx_bytes.add(burst.bytes);
            }
        }
        if n == 0 {
            self.pending.put(frame);
            return 0;
        }
        self.counters.received.add(n as u64);
        frame.rx_if = if_index;
        if self.trace_left[usize::from(node)] != 0 {
            self.mark_traced(node, &mut frame);
        }
        self.clock(node, n);
        self.hand(node, CONTINUE, frame);
        n
    }

    #[cold]
    fn mark_traced(&mut self, input: NodeId, frame: &mut Frame) {
        let left = &mut self.trace_left[usize::from(input)];
        let n = frame.len().min(*left as usize);
        *left -= n as u32;
        frame.traced = true;
        for &b in &frame.packets()[..n] {
            let m = self.pool.meta_mut(b);
            m.flags.set(Flags::TRACED);
            m.trace = self.trace_id;
            self.trace_id = self.trace_id.wrapping_add(1);
        }
        for &b in &frame.packets()[..n] {
            let before = self.capture(b);
            self.record(input, b, CONTINUE, before);
        }
    }

    /// Calls due nodes' tick.
    fn tick(&mut self) {
        for id in 0..self.nodes.len() {
            if self.nodes[id].deadline().is_some_and(|d| d <= self.now) {
                self.with_node(id as NodeId, |node, cx| node.tick(cx));
            }
        }
    }

    /// The earliest time a node wants to be ticked.
    pub fn deadline(&self) -> Option<u64> {
        self.nodes.iter().filter_map(|n| n.deadline()).min()
    }

    /// Gives a node a message of the control thread.
    pub fn message(&mut self, node: NodeId, message: &mut (dyn Any + Send)) {
        if usize::from(node) < self.nodes.len() {
            self.with_node(node, |n, cx| n.message(cx, message));
        }
    }

    /// Puts one packet made of `bytes` to `node` as if a node had sent it there; counted as made by the
    /// router. False when no buffer is free (counted as a drop).
    pub fn inject(&mut self, node: NodeId, bytes: &[u8], tx_if: u32) -> bool {
        self.counters.originated.add(1);
        let Some(b) = self.pool.packet_from(bytes, parshall_buffer::IF_NONE) else {
            self.counters.dropped.add(1);
            self.counters
                .drop_at(node, DropReason::NoBufferSpace.code(), 1);
            return false;
        };
        let m = self.pool.meta_mut(b);
        m.tx_if = tx_if;
        m.flags.set(Flags::ORIGINATED);
        self.pending
            .append(usize::from(node), &[b], IF_MIXED, tx_if, false);
        true
    }

    /// Puts a frame of packets that were received elsewhere to `node`; for tests and benches.
    pub fn enqueue(&mut self, node: NodeId, packets: &[BufferIndex], rx_if: u32) {
        self.counters.received.add(packets.len() as u64);
        self.pending
            .append(usize::from(node), packets, rx_if, IF_MIXED, false);
    }

    /// Moves packets until none waits.
    #[inline]
    pub fn run(&mut self) {
        while let Some((slot, frame)) = self.pending.next() {
            if slot >= self.nodes.len() {
                self.transmit(slot, frame);
            } else if slot == usize::from(self.graph.drop_node) {
                self.drop_frame(frame);
            } else {
                self.call(slot as NodeId, frame);
            }
        }
    }

    /// Time-stamps the work of a slot since the last stamp.
    #[inline(always)]
    fn clock(&mut self, slot: NodeId, vectors: usize) {
        let t = tsc();
        let c = &self.counters.nodes[usize::from(slot)];
        c.calls.add(1);
        c.vectors.add(vectors as u64);
        c.clocks.add(t.wrapping_sub(self.last_tsc));
        self.last_tsc = t;
    }

    #[inline(always)]
    fn with_node<R>(&mut self, id: NodeId, f: impl FnOnce(&mut dyn Node, &mut Ctx<'_>) -> R) -> R {
        let mut cx = Ctx {
            pool: &mut self.pool,
            next: &mut self.next,
            counters: &self.counters,
            rcu: &self.reader,
            now: self.now,
            node: id,
            emitted: &mut self.emitted,
        };
        let out = f(&mut *self.nodes[usize::from(id)], &mut cx);
        if !self.emitted.is_empty() {
            self.send_emitted(id);
        }
        out
    }

    #[inline]
    fn call(&mut self, id: NodeId, mut frame: Box<Frame>) {
        let n = frame.len();
        if frame.traced {
            return self.call_traced(id, frame);
        }
        let verdict = self.with_node(id, |node, cx| node.process(cx, &mut frame));
        self.clock(id, n);
        self.distribute(id, verdict, frame);
    }

    #[cold]
    fn call_traced(&mut self, id: NodeId, mut frame: Box<Frame>) {
        let n = frame.len();
        let traced = |pool: &Pool, b: BufferIndex| pool.meta(b).flags.has(Flags::TRACED);
        let before: Vec<_> = (0..n)
            .filter(|&i| traced(&self.pool, frame.packets()[i]))
            .map(|i| (i, frame.packets()[i], self.capture(frame.packets()[i])))
            .collect();
        let verdict = self.with_node(id, |node, cx| node.process(cx, &mut frame));
        self.clock(id, n);
        for (i, b, record) in before {
            let next = match verdict {
                Dispatch::All(next) => next,
                Dispatch::Each => self.next[i],
            };
            self.record(id, b, next, record);
        }
        self.distribute(id, verdict, frame);
    }

    fn capture(&self, b: BufferIndex) -> TraceRecord {
        let mut data = [0; TRACE_BYTES];
        let len = self.pool.copy_out(b, &mut data) as u16;
        let meta = *self.pool.meta(b);
        TraceRecord {
            packet: meta.trace,
            total_len: meta.total_len(),
            len,
            data,
            meta,
            ..TraceRecord::default()
        }
    }

    fn record(&mut self, node: NodeId, b: BufferIndex, next: u16, before: TraceRecord) {
        // A packet the node consumed has no metadata of its own any more: keep what it had before.
        let meta: Meta = if next == CONSUMED {
            before.meta
        } else {
            *self.pool.meta(b)
        };
        let mut record = before;
        (record.node, record.next, record.time, record.meta) = (node, next, self.now, meta);
        // A full ring counts the loss, which `show trace` mentions.
        let _ = self.trace.push(record);
    }

    #[inline]
    fn distribute(&mut self, id: NodeId, verdict: Dispatch, frame: Box<Frame>) {
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
    fn hand(&mut self, id: NodeId, next: u16, frame: Box<Frame>) {
        match next {
            CONTINUE => match self.graph.place[usize::from(id)] {
                Some(place) => self.walk(place, frame),
                None => self.fault(id, frame),
            },
            DROP => {
                self.stamp_drops(id, frame.packets());
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

    /// A verdict that names nothing is a bug in a node; the packets are dropped with that reason.
    #[cold]
    fn fault(&mut self, id: NodeId, frame: Box<Frame>) {
        debug_assert!(false, "node {id} gave a verdict it has no edge for");
        for &b in frame.packets() {
            self.pool.meta_mut(b).reason = DropReason::NodeFault.code();
        }
        self.hand(id, DROP, frame);
    }

    /// Splits a frame into runs of equal verdict.
    fn split(&mut self, id: NodeId, frame: Box<Frame>) {
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
    fn hand_part(&mut self, id: NodeId, next: u16, packets: &[BufferIndex], of: &Frame) {
        let mut part = self.pending.take();
        part.extend(packets);
        part.rx_if = of.rx_if;
        part.tx_if = of.tx_if;
        part.traced = of.traced;
        self.hand(id, next, part);
    }

    fn send_emitted(&mut self, id: NodeId) {
        let mut emitted = std::mem::take(&mut self.emitted);
        for &(next, b) in &emitted {
            let m = self.pool.meta(b);
            let mut frame = self.pending.take();
            frame.rx_if = m.rx_if;
            frame.tx_if = m.tx_if;
            frame.traced = m.flags.has(Flags::TRACED);
            frame.push(b);
            self.hand(id, next, frame);
        }
        emitted.clear();
        self.emitted = emitted;
    }

    /// Takes a whole frame along an arc: to the next enabled feature of its interface, or to the end.
    #[inline]
    fn walk(&mut self, place: ArcPlace, mut frame: Box<Frame>) {
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
        let common = if by_tx { frame.tx_if } else { frame.rx_if };
        if common != IF_MIXED {
            let to = self.step(place, common, active);
            return self.deliver(to, frame);
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
            let to = self.step(place, interface, active);
            if at == 0 && run == n {
                *(if by_tx {
                    &mut frame.tx_if
                } else {
                    &mut frame.rx_if
                }) = interface;
                return self.deliver(to, frame);
            }
            let (rx, tx) = if by_tx {
                (frame.rx_if, interface)
            } else {
                (interface, frame.tx_if)
            };
            self.deliver_part(to, &frame, at, run, rx, tx);
            at += run;
        }
        self.pending.put(frame);
    }

    #[inline(always)]
    fn interface_of(&self, b: BufferIndex, by_tx: bool) -> u32 {
        let m = self.pool.meta(b);
        if by_tx { m.tx_if } else { m.rx_if }
    }

    /// The slot after `place` for an interface; `None` = it has no such interface to send on.
    #[inline]
    fn step(&self, place: ArcPlace, interface: u32, active: bool) -> Option<usize> {
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
    fn deliver(&mut self, to: Option<usize>, frame: Box<Frame>) {
        match to {
            Some(slot) => self.pending.hand_over(slot, frame),
            None => self.drop_for(DropReason::InterfaceGone, self.graph.drop_node, frame),
        }
    }

    fn deliver_part(
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

    fn stamp_drops(&mut self, slot: NodeId, packets: &[BufferIndex]) {
        for &b in packets {
            self.pool.meta_mut(b).drop_node = slot;
        }
    }

    /// The end of dropped packets: counted by node and reason and by interface, then freed.
    fn drop_frame(&mut self, frame: Box<Frame>) {
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
        for &b in frame.packets() {
            let m = self.pool.meta(b);
            self.counters.drop_at(m.drop_node, m.reason, 1);
            // What the router made of a received packet (an answer, an error) was not itself received.
            if !m.flags.has(Flags::ORIGINATED)
                && let Some(c) = self.counters.interface(m.rx_if)
            {
                c.rx_drops.add(1);
            }
        }
        self.counters.dropped.add(n as u64);
        self.pool.free_bulk(frame.packets());
        self.pending.put(frame);
        self.clock(self.graph.drop_node, n);
    }

    /// Feeds a transmit queue.
    fn transmit(&mut self, slot: usize, frame: Box<Frame>) {
        let slot = slot as NodeId;
        let Some(if_index) = self.graph.tx_interface(slot) else {
            return self.pending.put(frame);
        };
        let to = TxPlace {
            counters: &self.counters,
            if_index,
            slot,
        };
        let outcome = self.tx[if_index as usize].send(&mut self.pool, &to, &frame, self.now);
        self.clock(slot, frame.len());
        match outcome {
            Ok(()) => self.pending.put(frame),
            Err(Rest {
                reason: DropReason::LinkMtuExceeded,
                ..
            }) => self.send_fitting(slot, if_index, frame),
            Err(rest) => self.drop_unsent(slot, if_index, frame, rest),
        }
    }

    /// Some frame is longer than the interface carries: drops those, sends the others.
    #[cold]
    fn send_fitting(&mut self, slot: NodeId, if_index: u32, frame: Box<Frame>) {
        let max = self.tx[if_index as usize].max_frame;
        let (mut fit, mut long) = (self.pending.take(), self.pending.take());
        for &b in frame.packets() {
            (if self.pool.meta(b).total_len() > max {
                &mut long
            } else {
                &mut fit
            })
            .push(b);
        }
        for f in [&mut fit, &mut long] {
            (f.rx_if, f.tx_if, f.traced) = (frame.rx_if, frame.tx_if, frame.traced);
        }
        self.pending.put(frame);
        self.drop_unsent(
            slot,
            if_index,
            long,
            Rest {
                from: 0,
                reason: DropReason::LinkMtuExceeded,
            },
        );
        self.pending.hand_over(usize::from(slot), fit);
    }

    /// Drops the packets of a frame that the transmit slot did not take.
    #[cold]
    fn drop_unsent(&mut self, slot: NodeId, if_index: u32, frame: Box<Frame>, rest: Rest) {
        let mut part = self.pending.take();
        part.extend(&frame.packets()[rest.from..]);
        (part.rx_if, part.tx_if, part.traced) = (frame.rx_if, frame.tx_if, frame.traced);
        self.pending.put(frame);
        if let Some(c) = self.counters.interface(if_index) {
            c.tx_drops.add(part.len() as u64);
        }
        self.drop_for(rest.reason, slot, part);
    }

    /// Gives up all queues, freeing the buffers they hold.
    pub fn close(&mut self) {
        self.rx.clear();
        for tx in &mut self.tx {
            tx.close(&mut self.pool);
        }
    }
}

/// Stands in the place of nodes that the dispatcher itself does.
struct BuiltIn;

impl Node for BuiltIn {
    fn process(&mut self, _cx: &mut Ctx<'_>, _frame: &mut Frame) -> Dispatch {
        Dispatch::All(DROP)
    }
}

#[cfg(test)]
impl Dispatcher {
    /// Puts a frame to a node as it is and runs it.
    pub(crate) fn hand_for_test(&mut self, id: NodeId, frame: Frame) {
        self.pending.hand_over(usize::from(id), Box::new(frame));
        self.run();
    }
}

#[cfg(test)]
#[path = "dispatcher_tests.rs"]
mod tests;
