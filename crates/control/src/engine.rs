//! The engine room: published state, the graph, the workers and the rings to and from them.
//!
//! One thread owns an [`Engine`]. It tells workers things through their rings and hears from them through
//! others; it frees what they give back. An engine without workers is a model: everything can be set up
//! in it and nothing runs, which is how a configuration is rehearsed.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parshall_buffer::{PageKind, Pool};
use parshall_counters::{DropReason, IfTotals, NodeTotals, WorkerCounters};
use parshall_device::TxQueue;
use parshall_graph::{
    Built, Dispatcher, Graph, Limits, NodeId, RxMode, Switch, TraceRecord, WorkerCommand,
    WorkerConfig, WorkerHandle, handoff,
};
use parshall_linux::affinity;
use parshall_nodes::{CaptureSlot, Event, IcmpSettings, NodeOutputs, Shared, TableLimits};
use parshall_ring::Consumer;
use parshall_sample::{DropSlot, SampleSlot};
use serde::Serialize;

use crate::cpus;
use crate::error::{Error, Result};

/// How long a worker may take to do what it was told.
const PATIENCE: Duration = Duration::from_secs(5);

/// Sizes and places of the engine, fixed when it starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EngineConfig {
    /// Worker threads; 0 makes a model.
    pub workers: usize,
    /// CPUs to pin them to, one for each; empty = chosen beside `main_cpu`, or not pinned without one.
    pub cpus: Vec<usize>,
    /// CPU of the control thread and all threads but the workers; `None` = those that no worker is pinned to.
    pub main_cpu: Option<usize>,
    /// Workers may share a CPU with each other and with the control thread.
    pub share_cpus: bool,
    /// Never sleep.
    pub busy_poll: bool,
    /// Packet buffers a worker has.
    pub buffers: usize,
    /// Interfaces there can be, local0 included.
    pub interfaces: usize,
    /// Fixes all random choices.
    pub seed: u64,
    /// Where the ifIndexes that interface names have are kept; `None` = nowhere, they end with the process.
    pub ifindex_file: Option<PathBuf>,
    /// Packets without a route, or whose next hop does not answer, are dropped without an ICMP error, as VPP does.
    pub silent_unreachable: bool,
    /// How large the forwarding tables may grow.
    #[serde(skip)]
    pub tables: TableLimits,
}

impl EngineConfig {
    /// Most workers.
    pub const MAX_WORKERS: usize = 64;
    /// Range of [`buffers`](Self::buffers).
    pub const BUFFER_RANGE: (usize, usize) = (1024, 4 << 20);
}

impl Default for EngineConfig {
    fn default() -> Self {
        EngineConfig {
            workers: 1,
            cpus: Vec::new(),
            main_cpu: None,
            share_cpus: false,
            busy_poll: false,
            buffers: 16_384,
            interfaces: 1024,
            seed: 1,
            ifindex_file: None,
            silent_unreachable: false,
            tables: TableLimits::default(),
        }
    }
}

/// A worker as control sees it.
struct Mate {
    handle: WorkerHandle,
    events: Vec<Consumer<Event>>,
    pages: PageKind,
}

/// The engine.
pub struct Engine {
    /// What workers read.
    pub shared: Arc<Shared>,
    /// The graph.
    pub graph: Arc<Graph>,
    config: EngineConfig,
    mates: Vec<Mate>,
    samples: Vec<Consumer<SampleSlot>>,
    drops: Vec<Consumer<DropSlot>>,
    tx_samples: Vec<Consumer<SampleSlot>>,
    captures: Vec<Vec<Consumer<CaptureSlot>>>,
    /// What is told while this is there waits, to be told as one: see [`Engine::hold`].
    held: Option<Held>,
}

/// What workers are not told yet.
#[derive(Default)]
pub(crate) struct Held {
    /// Commands of each worker, in order.
    commands: Vec<Vec<WorkerCommand>>,
    /// Features to switch on or off: node, interface.
    features: Vec<(&'static str, u32, bool)>,
}

impl Engine {
    /// Makes the state and starts the workers.
    ///
    /// # Errors
    /// When the configuration is out of range, or the system refuses memory or threads.
    pub fn start(config: EngineConfig) -> Result<Engine> {
        check(&config)?;
        let cpus = cpus::plan(&config, &allowed(&config)?)?;
        let limits = Limits {
            interfaces: config.interfaces,
        };
        let shared = Shared::new(config.tables)
            .map_err(|e| Error::Full(format!("forwarding tables: {e}")))?;
        let graph = Arc::new(parshall_nodes::graph(limits)?);
        let mut engine = Engine {
            shared,
            graph,
            mates: Vec::new(),
            samples: Vec::new(),
            drops: Vec::new(),
            tx_samples: Vec::new(),
            captures: Vec::new(),
            held: None,
            config,
        };
        for index in 0..engine.config.workers {
            engine.spawn(index, cpus.workers.get(index).copied())?;
        }
        let settings = IcmpSettings {
            silent: engine.config.silent_unreachable,
        };
        for node in ["ip4-icmp-error", "ip6-icmp-error"] {
            engine.message(node, &settings)?;
        }
        // Only now: a thread starts on the CPUs of the one that makes it.
        if let Some(cpus) = &cpus.main {
            affinity::allow(cpus).map_err(|e| Error::Device(e.to_string()))?;
        }
        Ok(engine)
    }

    fn spawn(&mut self, index: usize, cpu: Option<usize>) -> Result<()> {
        let config = &self.config;
        let worker = WorkerConfig {
            index,
            cpu,
            busy_poll: config.busy_poll,
        };
        // Workers must not sample the same positions: each has a sequence of its own.
        let seed = config
            .seed
            .wrapping_add((index as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let (shared, graph, buffers) = (self.shared.clone(), self.graph.clone(), config.buffers);
        // In the worker's own thread: what it writes lies on its own node and in its own arena.
        let build = move || build(&shared, &graph, buffers, seed);
        let (handle, (outputs, pages)) = parshall_graph::spawn(worker, build)
            .map_err(|e| Error::Device(format!("worker {index}: {e}")))?;
        self.mates.push(Mate {
            handle,
            events: outputs.events,
            pages,
        });
        self.samples.push(outputs.samples);
        self.drops.push(outputs.drops);
        self.tx_samples.push(outputs.tx_samples);
        self.captures.push(outputs.captures);
        Ok(())
    }

    /// The sizes it was started with.
    pub fn config(&self) -> &EngineConfig {
        &self.config
    }
    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.mates.len()
    }
    /// How a worker runs.
    pub fn worker_config(&self, worker: usize) -> Option<&WorkerConfig> {
        self.mates.get(worker).map(|m| &m.handle.config)
    }
    /// The kernel's number of a worker's thread.
    pub fn tid(&self, worker: usize) -> Option<i32> {
        self.mates.get(worker)?.handle.presence().tid()
    }
    /// What pages a worker's buffers lie on.
    pub fn pages(&self, worker: usize) -> Option<PageKind> {
        self.mates.get(worker).map(|m| m.pages)
    }
    /// Whether every worker's thread is there.
    pub fn is_healthy(&self) -> bool {
        self.mates.iter().all(|m| m.handle.is_alive())
    }
    /// Number of the node with this name.
    ///
    /// # Errors
    /// When there is none.
    pub fn node(&self, name: &str) -> Result<NodeId> {
        self.graph
            .node(name)
            .ok_or_else(|| Error::refused(format!("no node is called {name}")))
    }

    /// Tells one worker something.
    pub fn tell(&mut self, worker: usize, command: WorkerCommand) {
        match &mut self.held {
            Some(held) => {
                if let Some(commands) = held.commands.get_mut(worker) {
                    commands.push(command);
                }
            }
            None => self.tell_now(worker, command),
        }
    }
    fn tell_now(&mut self, worker: usize, command: WorkerCommand) {
        if let Some(m) = self.mates.get_mut(worker) {
            m.handle.tell(command);
        }
    }
    /// Tells every worker something.
    pub fn tell_all(&mut self, mut command: impl FnMut(usize) -> WorkerCommand) {
        for worker in 0..self.mates.len() {
            self.tell(worker, command(worker));
        }
    }
    /// From now on what workers are told waits for [`switch`](Self::switch), features too.
    pub fn hold(&mut self) {
        self.held = Some(Held {
            commands: self.mates.iter().map(|_| Vec::new()).collect(),
            features: Vec::new(),
        });
    }
    /// What waits, so that something else can be told at once; to be given back with [`put_back`](Self::put_back).
    pub(crate) fn take_held(&mut self) -> Option<Held> {
        self.held.take()
    }
    /// Lets it wait again.
    pub(crate) fn put_back(&mut self, held: Option<Held>) {
        self.held = held;
    }
    /// Tells each worker as one thing what waited, and to look at what was staged; then switches features. Each worker has
    /// done it between two of its turns when this returns. What is about interfaces that are `leaving` goes on waiting;
    /// what is told from now on does not.
    ///
    /// # Errors
    /// When a worker does not answer. It will do what it was told if it ever goes on.
    pub(crate) fn switch(&mut self, leaving: impl Fn(u32) -> bool) -> Result<Held> {
        let mut held = self.held.take().unwrap_or_default();
        let side = self.shared.domain.change_sides();
        for (worker, waiting) in held.commands.iter_mut().enumerate() {
            let all = std::mem::take(waiting).into_iter();
            let (later, now) = all.partition(|c| about(c).is_some_and(&leaving));
            *waiting = later;
            let switch = WorkerCommand::Switch(Box::new(Switch::new(now, side)));
            if let Some(m) = self.mates.get_mut(worker) {
                m.handle.tell(switch);
            }
        }
        let done = self.settle();
        self.shared.even();
        for (node, if_index, on) in held.features.drain(..) {
            self.graph.set_feature(node, if_index, on)?;
        }
        done.map(|()| held)
    }
    /// Tells what was left over by [`switch`](Self::switch).
    pub(crate) fn tell_rest(&mut self, held: Held) {
        for (worker, commands) in held.commands.into_iter().enumerate() {
            for command in commands {
                self.tell_now(worker, command);
            }
        }
    }
    /// Switches a feature of an interface on or off.
    ///
    /// # Errors
    /// When there is no such feature or interface.
    pub fn set_feature(&mut self, node: &'static str, if_index: u32, on: bool) -> Result<()> {
        match &mut self.held {
            Some(held) => held.features.push((node, if_index, on)),
            None => self.graph.set_feature(node, if_index, on)?,
        }
        Ok(())
    }
    /// Sends a message to a node of every worker.
    ///
    /// # Errors
    /// When there is no such node.
    pub fn message<T: Clone + Send + 'static>(&mut self, node: &str, message: &T) -> Result<()> {
        let node = self.node(node)?;
        self.tell_all(|_| WorkerCommand::Message {
            node,
            message: Box::new(message.clone()),
        });
        Ok(())
    }
    /// Sends each worker's node a message of its own, by the worker's number.
    ///
    /// # Errors
    /// When there is no such node.
    pub fn message_each<T: Send + 'static>(
        &mut self,
        node: &str,
        message: impl Fn(usize) -> T,
    ) -> Result<()> {
        let node = self.node(node)?;
        self.tell_all(|worker| WorkerCommand::Message {
            node,
            message: Box::new(message(worker)),
        });
        Ok(())
    }
    /// Puts a frame with its Ethernet header on an interface, by the first worker.
    pub fn send_frame(&mut self, tx_if: u32, bytes: Vec<u8>) {
        if let Some(node) = self.graph.node("interface-output") {
            self.tell(0, WorkerCommand::Inject { node, tx_if, bytes });
        }
    }

    /// Gives an interface's transmit queues out: the n-th to worker n, and to workers beyond the last a
    /// hand-over to one that has a queue.
    pub fn give_tx(
        &mut self,
        if_index: u32,
        queues: Vec<Box<dyn TxQueue>>,
        (up, max_frame): (bool, u32),
    ) {
        let owners = queues.len().min(self.mates.len());
        if owners == 0 {
            return;
        }
        let add = |queue| WorkerCommand::AddTx {
            if_index,
            queue,
            up,
            max_frame,
        };
        for (worker, queue) in queues.into_iter().enumerate() {
            self.tell(worker, add(queue));
        }
        for worker in owners..self.mates.len() {
            let owner = worker % owners;
            let presence = self.mates[owner].handle.presence().clone();
            let (outbox, inbox) = handoff(if_index, presence);
            self.tell(owner, WorkerCommand::AddInbox(Box::new(inbox)));
            self.tell(worker, add(Box::new(outbox)));
        }
    }

    /// Moves a receive queue from one worker to another. Nothing is lost as long as the device holds what
    /// comes meanwhile, and nothing is overtaken: all that the old worker received has left it, also what
    /// it handed over to others, before the new one polls.
    ///
    /// # Errors
    /// When a worker does not answer.
    pub fn move_rx(
        &mut self,
        (if_index, queue_id): (u32, usize),
        (from, to): (usize, usize),
        (node, up, mode): (NodeId, bool, RxMode),
    ) -> Result<()> {
        if self.move_held((if_index, queue_id), (from, to)) {
            return Ok(());
        }
        self.tell_now(from, WorkerCommand::ReleaseRx { if_index, queue_id });
        self.settle()?;
        let taken = self
            .mates
            .get_mut(from)
            .and_then(|m| m.handle.take_released(if_index, queue_id));
        let Some(released) = taken else {
            return Err(Error::Device(format!(
                "worker {from} did not give queue {queue_id} back"
            )));
        };
        // The second answer of a worker proves that it has had a whole turn since the first, in which it
        // sent what was handed over to it.
        self.settle()?;
        self.tell_now(
            to,
            WorkerCommand::AddRx {
                node,
                if_index,
                queue_id,
                queue: released.queue,
                up,
                mode,
            },
        );
        Ok(())
    }

    /// Moves a receive queue that no worker was told of yet. Says whether it was one.
    fn move_held(&mut self, queue: (u32, usize), (from, to): (usize, usize)) -> bool {
        let Some(held) = &mut self.held else {
            return false;
        };
        let it = |c: &WorkerCommand| matches!(c, WorkerCommand::AddRx { if_index, queue_id, .. } if (*if_index, *queue_id) == queue);
        let at = held.commands.get(from).and_then(|c| c.iter().position(it));
        let Some(at) = at.filter(|_| to < held.commands.len()) else {
            return false;
        };
        let add = held.commands[from].remove(at);
        // Before what is said of its interface.
        held.commands[to].insert(0, add);
        true
    }

    /// Waits until every worker has done what it was told and given back what it had to. What is held waits on.
    ///
    /// # Errors
    /// When one takes longer than five seconds: it hangs.
    pub fn settle(&mut self) -> Result<()> {
        let Some(node) = self.graph.node("interface-output") else {
            return Ok(());
        };
        // Rings keep order: when the token is freed, all that was told before it is done.
        let token = Arc::new(());
        for worker in 0..self.mates.len() {
            let message = Box::new(token.clone());
            self.tell_now(worker, WorkerCommand::Message { node, message });
        }
        let start = Instant::now();
        while Arc::strong_count(&token) > 1 {
            self.collect();
            if start.elapsed() > PATIENCE || !self.is_healthy() {
                return Err(Error::Device("a worker does not answer".into()));
            }
            std::thread::sleep(Duration::from_micros(50));
        }
        Ok(())
    }

    /// Frees what workers gave back.
    pub fn collect(&mut self) {
        for m in &mut self.mates {
            m.handle.collect_garbage();
        }
    }

    /// Hands all waiting events to `each`; says how many there were.
    pub fn events(&mut self, mut each: impl FnMut(Event)) -> usize {
        let mut n = 0;
        for ring in self.mates.iter_mut().flat_map(|m| &mut m.events) {
            while let Some(e) = ring.pop() {
                n += 1;
                each(e);
            }
        }
        n
    }
    /// Events lost because control was slow.
    pub fn events_lost(&self) -> u64 {
        let rings = self.mates.iter().flat_map(|m| &m.events);
        rings.map(Consumer::overflows).sum()
    }

    /// Hands all waiting trace records to `each`, with the worker they come from.
    pub fn traces(&mut self, mut each: impl FnMut(usize, TraceRecord)) {
        for (i, m) in self.mates.iter_mut().enumerate() {
            while let Some(r) = m.handle.trace.pop() {
                each(i, r);
            }
        }
    }

    /// The sample rings, for the agent. Once.
    pub fn take_samples(&mut self) -> Vec<Consumer<SampleSlot>> {
        std::mem::take(&mut self.samples)
    }
    /// The rings of dropped packets, for the agent. Once.
    pub fn take_drops(&mut self) -> Vec<Consumer<DropSlot>> {
        std::mem::take(&mut self.drops)
    }
    /// The rings of transmit samples, for the agent. Once.
    pub fn take_tx_samples(&mut self) -> Vec<Consumer<SampleSlot>> {
        std::mem::take(&mut self.tx_samples)
    }
    /// The capture rings, for captures. Once.
    pub fn take_captures(&mut self) -> Vec<Vec<Consumer<CaptureSlot>>> {
        std::mem::take(&mut self.captures)
    }

    /// Every worker's counters.
    pub fn counters(&self) -> impl Iterator<Item = &Arc<WorkerCounters>> {
        self.mates.iter().map(|m| &m.handle.counters)
    }
    /// An interface's counters, summed.
    pub fn interface_totals(&self, if_index: u32) -> IfTotals {
        interface_totals(self.counters(), if_index)
    }
    /// A slot's counters in one worker.
    pub fn node_totals(&self, worker: usize, slot: usize) -> NodeTotals {
        let mut sum = NodeTotals::default();
        if let Some(c) = self
            .mates
            .get(worker)
            .and_then(|m| m.handle.counters.nodes.get(slot))
        {
            c.add_to(&mut sum);
        }
        sum
    }
    /// Drops by slot and reason, summed.
    pub fn drops(&self) -> std::collections::BTreeMap<(u16, DropReason), u64> {
        let mut sum = std::collections::BTreeMap::new();
        for (node, reason, n) in self.counters().flat_map(|c| c.drops()) {
            *sum.entry((node, reason)).or_insert(0) += n;
        }
        sum
    }
    /// Packets received so far by all workers: whether there is traffic.
    pub fn received(&self) -> u64 {
        self.counters().map(|c| c.received.get()).sum()
    }

    /// Ends the workers; everything they held is freed.
    pub fn stop(&mut self) {
        for m in &mut self.mates {
            m.handle.stop();
        }
    }
}

/// The interface that a command is about, if its queues or its state are.
fn about(command: &WorkerCommand) -> Option<u32> {
    use WorkerCommand as C;
    match command {
        C::AddRx { if_index, .. }
        | C::SetRxMode { if_index, .. }
        | C::AddTx { if_index, .. }
        | C::AddVirtual { if_index, .. }
        | C::RemoveVirtual { if_index }
        | C::SetInterface { if_index, .. } => Some(*if_index),
        C::AddInbox(inbox) => Some(inbox.if_index),
        _ => None,
    }
}

/// An interface's counters, summed over workers.
pub fn interface_totals<'a>(
    workers: impl Iterator<Item = &'a Arc<WorkerCounters>>,
    if_index: u32,
) -> IfTotals {
    let mut sum = IfTotals::default();
    for c in workers {
        if let Some(c) = c.interface(if_index) {
            c.add_to(&mut sum);
        }
    }
    sum
}

/// CPUs that the calling thread may run on; not asked for by a model.
fn allowed(config: &EngineConfig) -> Result<Vec<usize>> {
    match config.workers {
        0 => Ok(Vec::new()),
        _ => affinity::allowed_cpus().map_err(|e| Error::Device(e.to_string())),
    }
}

/// Makes all that a worker writes: packet memory, nodes, counters.
fn build(
    shared: &Arc<Shared>,
    graph: &Arc<Graph>,
    buffers: usize,
    seed: u64,
) -> std::result::Result<Built<(NodeOutputs, PageKind)>, String> {
    let limits = graph.limits();
    let (nodes, outputs) = parshall_nodes::build(shared, limits, seed);
    let pool =
        Pool::new(buffers).map_err(|e| format!("packet memory of {buffers} buffers: {e}"))?;
    let pages = pool.page_kind();
    let counters = Arc::new(WorkerCounters::new(limits.interfaces, graph.slots()));
    let reader = shared.domain.register().map_err(|e| e.to_string())?;
    let (dispatcher, trace) =
        Dispatcher::new(graph.clone(), nodes, pool, counters, reader).map_err(|e| e.to_string())?;
    Ok(Built {
        dispatcher,
        trace,
        rest: (outputs, pages),
    })
}

fn check(config: &EngineConfig) -> Result<()> {
    if config.workers > EngineConfig::MAX_WORKERS {
        return Err(Error::refused(format!(
            "{} workers: 1 to {} are possible",
            config.workers,
            EngineConfig::MAX_WORKERS
        )));
    }
    let (min, max) = EngineConfig::BUFFER_RANGE;
    if config.workers > 0 && !(min..=max).contains(&config.buffers) {
        return Err(Error::refused(format!(
            "{} buffers a worker: {min} to {max} are possible",
            config.buffers
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(workers: usize) -> EngineConfig {
        EngineConfig {
            workers,
            share_cpus: true,
            buffers: 1024,
            interfaces: 8,
            ..EngineConfig::default()
        }
    }

    #[test]
    fn sizes_out_of_range_are_refused_with_the_range() {
        let e = Engine::start(config(65)).err().unwrap().to_string();
        assert_eq!(e, "65 workers: 1 to 64 are possible");
        let few = EngineConfig {
            buffers: 7,
            ..config(1)
        };
        let e = Engine::start(few).err().unwrap().to_string();
        assert!(e.starts_with("7 buffers a worker: 1024 to"), "{e}");
    }

    #[test]
    fn workers_do_what_they_are_told_before_it_settles() {
        let mut e = Engine::start(config(2)).unwrap();
        assert!(e.is_healthy() && e.workers() == 2);
        e.send_frame(3, vec![0; 60]);
        e.settle().unwrap();
        // The first worker sent it: there is no such interface, so it was dropped there.
        let drops = e.drops();
        assert_eq!(drops.values().sum::<u64>(), 1);
        assert_eq!(
            drops.keys().next().map(|k| k.1),
            Some(DropReason::InterfaceGone)
        );
        e.stop();
        assert!(!e.is_healthy());
        assert!(e.settle().is_err());
    }

    #[test]
    fn a_model_settles_at_once() {
        let mut e = Engine::start(config(0)).unwrap();
        assert_eq!(e.settle(), Ok(()));
        assert!(e.node("ip4-lookup").is_ok());
        let refused = e.node("nosuch").unwrap_err().to_string();
        assert_eq!(refused, "no node is called nosuch");
    }
}
