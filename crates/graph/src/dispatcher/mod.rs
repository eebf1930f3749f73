//! The dispatcher: everything about moving packets that is not a node's own work.
//!
//! It polls receive slots, calls nodes with frames, reads their verdicts, hands frames on (whole where
//! all packets agree, in runs where they do not), walks feature arcs, feeds transmit queues, and counts.
//! It has no thread and no clock of its own: a [`crate::Worker`] turns it, and so does a test.

mod departure;
mod handover;
mod passage;
mod tracing;

use std::any::Any;
use std::sync::Arc;

use parshall_buffer::{BufferIndex, FRAME_SIZE, Flags, Frame, IF_MIXED, Pool};
use parshall_counters::{DropReason, IfCounters, WorkerCounters};
use parshall_device::{RxBurst, RxQueue};
use parshall_linux::clock::tsc;
use parshall_rcu::Reader;
use parshall_ring::{Consumer, Producer, ring};

use self::passage::{Passage, Passages};
use crate::handoff::Inbox;
use crate::node::{Ctx, DROP, Dispatch, NamedNode, Node, NodeId};
use crate::pending::Pending;
use crate::structure::{Graph, GraphError};
use crate::trace::TraceRecord;
use crate::tx::TxSlot;
use crate::worker::RxMode;

/// Trace records that wait for the control thread at most.
const TRACE_RING: usize = 8192;

/// A receive queue in its place.
pub struct RxSlot {
    /// Input node of its driver.
    pub node: NodeId,
    /// Interface.
    pub if_index: u32,
    /// Number of the queue at its interface.
    pub queue_id: usize,
    /// The queue.
    pub queue: Box<dyn RxQueue>,
    /// Whether the interface is up; a queue of one that is down is not polled.
    pub up: bool,
    /// When the worker looks at it.
    pub mode: RxMode,
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
    /// What other workers hand over to be sent.
    #[expect(
        clippy::vec_box,
        reason = "the box goes back to control to be freed there"
    )]
    pub(crate) inboxes: Vec<Box<Inbox>>,
    graph: Arc<Graph>,
    nodes: Vec<Box<dyn Node>>,
    /// Nodes that have deadlines.
    timed: Box<[NodeId]>,
    pending: Pending,
    ways_in: Passages,
    ways_out: Passages,
    /// Something may have left unseen since all ways out were settled; when to do that again at the latest.
    owing: bool,
    settle_by: u64,
    next: Box<[u16; FRAME_SIZE]>,
    emitted: Vec<(u16, BufferIndex)>,
    trace: Producer<TraceRecord>,
    /// Packets still to mark, by input node.
    trace_left: Vec<u32>,
    trace_id: u32,
    last_tsc: u64,
    /// The time-stamp counter when this turn began.
    turn_tsc: u64,
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
            // Each emitted packet is a buffer of the pool, so this never grows.
            emitted: Vec::with_capacity(pool.capacity()),
            pool,
            counters,
            reader,
            now: 0,
            rx: Vec::with_capacity(graph.limits().interfaces),
            tx: (0..graph.limits().interfaces)
                .map(|_| TxSlot::default())
                .collect(),
            inboxes: Vec::with_capacity(graph.limits().interfaces),
            timed: (0..ordered.len())
                .filter(|&id| ordered[id].is_timed())
                .map(|id| id as NodeId)
                .collect(),
            nodes: ordered,
            pending: Pending::new(graph.slots(), &apart, 2 * graph.specs().len() + 64),
            ways_in: vec![Passage::default(); graph.limits().interfaces].into(),
            ways_out: vec![Passage::default(); graph.limits().interfaces].into(),
            owing: false,
            settle_by: 0,
            next: Box::new([0; FRAME_SIZE]),
            trace,
            trace_left: vec![0; graph.specs().len()],
            trace_id: 0,
            last_tsc: tsc(),
            turn_tsc: tsc(),
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

    /// Hands what is sent through an interface without a device to `node`. `state`: whether it is up, and the longest
    /// frame it carries.
    pub fn set_virtual(&mut self, if_index: u32, node: NodeId, state: (bool, u32)) {
        if usize::from(node) < self.nodes.len()
            && let Some(slot) = self.tx.get_mut(if_index as usize)
        {
            slot.relay = Some(node);
            (slot.up, slot.max_frame) = state;
        }
    }

    /// Lets what is sent through an interface go to its transmit queue again, where it has one.
    pub fn clear_virtual(&mut self, if_index: u32) {
        if let Some(slot) = self.tx.get_mut(if_index as usize) {
            slot.relay = None;
        }
    }

    /// Frames made after the start: more than 0 means the stock was too small.
    pub fn late_frames(&self) -> u64 {
        self.pending.late_frames
    }

    /// One turn: poll every receive queue, then move packets until none waits. Says how many came in.
    pub fn turn(&mut self, now: u64) -> usize {
        self.now = now;
        self.last_tsc = tsc();
        self.turn_tsc = self.last_tsc;
        if self.pool.available() < FRAME_SIZE {
            self.flush_tx();
        }
        let mut received = 0;
        for i in 0..self.rx.len() {
            received += self.poll(i);
        }
        self.tick();
        self.run();
        self.settle_out(received == 0);
        if !self.inboxes.is_empty() {
            received += self.serve_inboxes();
        }
        received
    }

    /// Sends what other workers have handed over; they have counted it.
    fn serve_inboxes(&mut self) -> usize {
        let mut sent = 0;
        for inbox in &mut self.inboxes {
            let slot = self.tx.get_mut(inbox.if_index as usize);
            let queue = slot.filter(|s| s.up).and_then(|s| s.queue.as_deref_mut());
            sent += inbox.serve(&mut self.pool, queue, self.now);
        }
        sent
    }

    /// Gets back the buffers that devices are done with: without them nothing may come in that would
    /// make a transmit queue look for itself.
    #[cold]
    fn flush_tx(&mut self) {
        for queue in self.tx.iter_mut().filter_map(|slot| slot.queue.as_mut()) {
            queue.flush(&mut self.pool);
        }
    }

    /// Polls one receive slot and starts what came in on its way.
    fn poll(&mut self, slot: usize) -> usize {
        let rx = &mut self.rx[slot];
        if !rx.up {
            let if_index = rx.if_index;
            self.settle_idle(if_index);
            return 0;
        }
        let mut frame = self.pending.take();
        let burst = rx.queue.poll(&mut self.pool, &mut frame, self.now);
        let (node, if_index, n) = (rx.node, rx.if_index, frame.len());
        if let Some(c) = self.counters.interface(if_index) {
            if burst.missed | burst.no_buffer | burst.errors != 0 {
                count_lost(&self.counters, c, node, &burst);
            }
            if n != 0 {
                c.rx_packets.add(n as u64);
                c.rx_bytes.add(burst.bytes);
            }
        }
        if n == 0 {
            self.pending.put(frame);
            self.settle_idle(if_index);
            return 0;
        }
        self.counters.received.add(n as u64);
        frame.rx_if = if_index;
        if self.trace_left[usize::from(node)] != 0 {
            self.mark_traced(node, &mut frame);
        }
        self.clock(node, n);
        self.enter(node, if_index, frame);
        n
    }

    /// Calls due nodes' tick.
    fn tick(&mut self) {
        for i in 0..self.timed.len() {
            let id = self.timed[i];
            let due = self.nodes[usize::from(id)].deadline();
            if due.is_some_and(|d| d <= self.now) {
                self.with_node(id, |node, cx| node.tick(cx));
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
            self.recall(node);
            self.with_node(node, |n, cx| n.message(cx, message));
        }
    }

    /// Puts one packet made of `bytes` to `node` as if a node had sent it there; counted as made by the
    /// router. False when no buffer is free (counted as a drop).
    pub fn inject(&mut self, node: NodeId, bytes: &[u8], tx_if: u32) -> bool {
        self.counters.originated.add(1);
        let Some(b) = self.pool.packet_from(bytes, parshall_buffer::IF_NONE) else {
            self.counters.drop_unmade(node, 1);
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
    pub(super) fn clock(&mut self, slot: NodeId, vectors: usize) {
        let t = tsc();
        self.count(slot, vectors);
        let c = &self.counters.nodes[usize::from(slot)];
        c.clocks.add(t.wrapping_sub(self.last_tsc));
        self.last_tsc = t;
    }

    /// Counts a call of a slot.
    #[inline(always)]
    pub(super) fn count(&mut self, slot: NodeId, vectors: usize) {
        let c = &self.counters.nodes[usize::from(slot)];
        c.calls.add(1);
        c.vectors.add(vectors as u64);
    }

    #[inline(always)]
    pub(super) fn with_node<R>(
        &mut self,
        id: NodeId,
        f: impl FnOnce(&mut dyn Node, &mut Ctx<'_>) -> R,
    ) -> R {
        let mut cx = Ctx {
            pool: &mut self.pool,
            next: &mut self.next,
            counters: &self.counters,
            rcu: &self.reader,
            now: self.now,
            turn_tsc: self.turn_tsc,
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

    /// Gives up all queues, freeing the buffers they hold.
    pub fn close(&mut self) {
        self.recall_all();
        for rx in &mut self.rx {
            rx.queue.close(&mut self.pool);
        }
        self.rx.clear();
        for inbox in &mut self.inboxes {
            inbox.close(&mut self.pool);
        }
        for tx in &mut self.tx {
            tx.close(&mut self.pool);
        }
    }
}

/// Counts frames that were lost before they were packets.
#[cold]
fn count_lost(all: &WorkerCounters, c: &IfCounters, input: NodeId, burst: &RxBurst) {
    c.rx_missed.add(burst.missed);
    c.rx_no_buffer.add(burst.no_buffer);
    c.rx_errors.add(burst.errors);
    for (reason, n) in [
        (DropReason::RxMissed, burst.missed),
        (DropReason::RxNoBuffer, burst.no_buffer),
        (DropReason::RxError, burst.errors),
    ] {
        all.drop_at(input, reason.code(), n);
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
mod tests;
