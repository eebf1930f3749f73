//! A dispatcher without a thread, for tests and benches: put packets in, look at packets and counters.

use std::sync::{Arc, Mutex};

use parshall_buffer::{BufferIndex, Pool};
use parshall_counters::{DropReason, WorkerCounters};
use parshall_device::{TxBurst, TxQueue};
use parshall_rcu::Reader;
use parshall_ring::Consumer;

use crate::{Dispatcher, Graph, GraphError, NamedNode, TraceRecord};

/// A packet that a test interface sent: interface and bytes.
pub type Sent = (u32, Vec<u8>);

/// A dispatcher with capturing interfaces.
pub struct Harness {
    /// The dispatcher.
    pub dispatcher: Dispatcher,
    /// Its trace records.
    pub trace: Consumer<TraceRecord>,
    sent: Arc<Mutex<Vec<Sent>>>,
}

impl Harness {
    /// A harness over these nodes, with `buffers` packet buffers. `reader` must be of the domain that the
    /// nodes' published state is retired into; it is taken online.
    ///
    /// # Errors
    /// As [`Dispatcher::new`].
    pub fn new(
        graph: Arc<Graph>,
        nodes: Vec<NamedNode>,
        buffers: usize,
        mut reader: Reader,
    ) -> Result<Harness, GraphError> {
        reader.online();
        let counters = Arc::new(WorkerCounters::new(
            graph.limits().interfaces,
            graph.slots(),
        ));
        let pool = Pool::new(buffers).map_err(|e| GraphError(format!("packet memory: {e}")))?;
        let (dispatcher, trace) = Dispatcher::new(graph, nodes, pool, counters, reader)?;
        Ok(Harness {
            dispatcher,
            trace,
            sent: Arc::default(),
        })
    }

    /// Gives interface `if_index` a transmit queue that keeps what is sent.
    pub fn add_interface(&mut self, if_index: u32, max_frame: u32) {
        self.set_tx(
            if_index,
            Box::new(Capture {
                if_index,
                sent: self.sent.clone(),
            }),
            max_frame,
        );
    }

    /// Makes `if_index` an interface without a device, up, whose packets go to `node`.
    ///
    /// # Panics
    /// When the node does not exist: a test's own mistake.
    pub fn add_virtual(&mut self, if_index: u32, node: &str, max_frame: u32) {
        let id = self.dispatcher.graph().node(node);
        let id = id.unwrap_or_else(|| panic!("no node {node}"));
        self.dispatcher.set_virtual(if_index, id, (true, max_frame));
    }

    /// Gives interface `if_index` the transmit queue `queue`, up.
    pub fn set_tx(&mut self, if_index: u32, queue: Box<dyn TxQueue>, max_frame: u32) {
        if let Some(slot) = self.dispatcher.tx.get_mut(if_index as usize) {
            (slot.queue, slot.up, slot.max_frame) = (Some(queue), true, max_frame);
        }
    }

    /// Polls `queue` as a receive queue of input node `node` from now on.
    pub fn set_rx(&mut self, node: &str, if_index: u32, queue: Box<dyn parshall_device::RxQueue>) {
        if let Some(node) = self.dispatcher.graph().node(node) {
            self.dispatcher.rx.push(crate::RxSlot {
                node,
                if_index,
                queue_id: 0,
                queue,
                up: true,
                mode: crate::RxMode::Polling,
            });
        }
    }

    /// Brings interface `if_index` up or down, both ways.
    pub fn set_up(&mut self, if_index: u32, up: bool) {
        let rx = self.dispatcher.rx.iter_mut();
        rx.filter(|r| r.if_index == if_index)
            .for_each(|r| r.up = up);
        if let Some(slot) = self.dispatcher.tx.get_mut(if_index as usize) {
            slot.up = up;
        }
    }

    /// Puts packets, as received on `rx_if`, to `node` and lets them run at time `now`.
    ///
    /// # Panics
    /// When the node does not exist or buffers run out: a test's own mistake.
    pub fn put(&mut self, node: &str, rx_if: u32, packets: &[Vec<u8>], now: u64) {
        let id = self
            .dispatcher
            .graph()
            .node(node)
            .unwrap_or_else(|| panic!("no node {node}"));
        self.dispatcher.now = now;
        let made: Vec<BufferIndex> = packets
            .iter()
            .map(|p| {
                self.dispatcher
                    .pool
                    .packet_from(p, rx_if)
                    .expect("the harness has too few buffers")
            })
            .collect();
        self.dispatcher.enqueue(id, &made, rx_if);
        self.dispatcher.run();
    }

    /// What was sent since the last call.
    pub fn sent(&mut self) -> Vec<Sent> {
        std::mem::take(
            &mut *self
                .sent
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner),
        )
    }

    /// Drops so far by this reason, over all nodes.
    pub fn drops(&self, reason: DropReason) -> u64 {
        self.dispatcher
            .counters
            .drops()
            .filter(|(_, r, _)| *r == reason)
            .map(|(_, _, n)| n)
            .sum()
    }

    /// Conservation: received + originated = transmitted + punted + dropped + held, and every buffer not
    /// held is free. `Err` says what does not add up.
    ///
    /// # Errors
    /// When packets or buffers are missing or too many.
    pub fn conserved(&self) -> Result<(), String> {
        let c = &self.dispatcher.counters;
        let (into, out) = (
            c.received.get() + c.originated.get(),
            c.transmitted.get() + c.punted.get() + c.dropped.get() + c.held.get(),
        );
        // Frames that never were packets are counted by reason, and nowhere in the law.
        let packets = c.drops().filter(|(_, r, _)| !r.is_before_receive());
        let by_reason: u64 = packets.map(|(_, _, n)| n).sum();
        if into != out {
            return Err(format!(
                "received {} + originated {} != transmitted {} + punted {} + dropped {} + held {}",
                c.received.get(),
                c.originated.get(),
                c.transmitted.get(),
                c.punted.get(),
                c.dropped.get(),
                c.held.get()
            ));
        }
        if by_reason != c.dropped.get() {
            return Err(format!(
                "dropped {} but by reason {by_reason}",
                c.dropped.get()
            ));
        }
        let pool = &self.dispatcher.pool;
        if c.held.get() == 0 && pool.available() != pool.capacity() {
            return Err(format!(
                "{} buffers leaked",
                pool.capacity() - pool.available()
            ));
        }
        Ok(())
    }
}

struct Capture {
    if_index: u32,
    sent: Arc<Mutex<Vec<Sent>>>,
}

impl TxQueue for Capture {
    fn transmit(&mut self, pool: &mut Pool, packets: &[BufferIndex], _now: u64) -> TxBurst {
        let mut sent = self
            .sent
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        sent.extend(packets.iter().map(|&b| (self.if_index, pool.to_vec(b))));
        pool.free_bulk(packets);
        TxBurst::all(packets.len())
    }
}
