//! The router in the middle: a pinned thread that cross-connects two memif interfaces.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parshall_counters::{NodeTotals, WorkerCounters};
use parshall_device::Device;
use parshall_drivers::memif::{Hub, Memif, MemifConfig, Role};
use parshall_graph::harness::Harness;
use parshall_graph::{Graph, Limits, monotonic_ns};
use parshall_nodes::{IfAddresses, IfTable, IfView, Shared, TableLimits, if_flags};

use crate::BenchError;

const LIMITS: Limits = Limits { interfaces: 4 };
/// Buffers: enough for a full turn of both interfaces, few enough to stay in the second-level cache.
const BUFFERS: usize = 2048;
const MTU: u32 = 9000;
/// Turns between looks at the clock.
const TURNS: u32 = 64;

/// A router that forwards until it is stopped.
pub struct Router {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<Stages, BenchError>>>,
    ready: Arc<AtomicBool>,
}

/// Time-stamp ticks a packet by node, and packets a frame.
pub type Stages = Vec<(String, f64, f64)>;

impl Router {
    /// Starts a router on `cpu` whose interfaces 0 and 1 are on `socket`, in `role`.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn start(socket: &str, role: Role, cpu: usize) -> Result<Router, BenchError> {
        let (stop, ready) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicBool::new(false)),
        );
        let (end, told, socket) = (stop.clone(), ready.clone(), socket.to_owned());
        let thread = std::thread::Builder::new()
            .name("bench-memif".into())
            .spawn(move || {
                parshall_linux::affinity::pin(cpu).map_err(|e| BenchError::of("pinning", e))?;
                let mut rig = Rig::new(&socket, role)?;
                told.store(true, Ordering::Release);
                rig.run(&end);
                Ok(rig.stages())
            })
            .map_err(|e| BenchError::of("thread", e))?;
        let mut router = Router {
            stop,
            thread: Some(thread),
            ready,
        };
        router.wait()?;
        Ok(router)
    }

    /// Waits until its interfaces are there.
    fn wait(&mut self) -> Result<(), BenchError> {
        let start = Instant::now();
        while !self.ready.load(Ordering::Acquire) {
            let gone = self.thread.as_ref().is_none_or(JoinHandle::is_finished);
            if gone || start.elapsed() > Duration::from_secs(30) {
                self.finish()?;
                return Err(BenchError("the router did not start".into()));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Stops it; says what its nodes cost.
    ///
    /// # Errors
    /// When it could not be set up.
    pub fn finish(&mut self) -> Result<Stages, BenchError> {
        self.stop.store(true, Ordering::Release);
        match self.thread.take() {
            Some(thread) => thread
                .join()
                .map_err(|_| BenchError("the router's thread panicked".into()))?,
            None => Ok(Vec::new()),
        }
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        drop(self.finish());
    }
}

/// Its insides.
struct Rig {
    harness: Harness,
    counters: Arc<WorkerCounters>,
    graph: Arc<Graph>,
    _interfaces: Vec<Memif>,
}

impl Rig {
    fn new(socket: &str, role: Role) -> Result<Rig, BenchError> {
        let fail = |what: &'static str| move |e: String| BenchError(format!("{what}: {e}"));
        let shared = Shared::new(TableLimits::default());
        let shared = shared.map_err(|e| fail("tables")(e.to_string()))?;
        shared.interfaces.publish(&shared.domain, crossed());
        let graph = parshall_nodes::graph(LIMITS).map_err(|e| fail("graph")(e.to_string()))?;
        let graph = Arc::new(graph);
        let (nodes, _outputs) = parshall_nodes::build(&shared, LIMITS, 1);
        let reader = shared.domain.register();
        let reader = reader.map_err(|e| fail("reader")(e.to_string()))?;
        let harness = Harness::new(graph.clone(), nodes, BUFFERS, reader);
        let mut harness = harness.map_err(|e| fail("graph")(e.to_string()))?;
        let hub = Hub::start().map_err(|e| fail("memif")(e.to_string()))?;
        let mut interfaces = Vec::new();
        for id in 0..2 {
            let config = MemifConfig::new(&format!("memif0/{id}"), socket, id, role);
            let interface = Rig::interface(&hub, config, &mut harness);
            interfaces.push(interface.map_err(|e| fail("memif")(e.to_string()))?);
        }
        Ok(Rig {
            counters: harness.dispatcher.counters.clone(),
            harness,
            graph,
            _interfaces: interfaces,
        })
    }

    fn interface(
        hub: &Hub,
        config: MemifConfig,
        harness: &mut Harness,
    ) -> Result<Memif, parshall_device::DeviceError> {
        let if_index = config.id + 1;
        let mut memif = Memif::open(hub, config)?;
        let queues = memif.queues(if_index, 1)?;
        for rx in queues.rx {
            harness.set_rx("memif-input", if_index, rx);
        }
        for tx in queues.tx {
            harness.set_tx(if_index, tx, MTU + 14);
        }
        memif.set_admin(true)?;
        Ok(memif)
    }

    fn run(&mut self, end: &AtomicBool) {
        while !end.load(Ordering::Relaxed) {
            for _ in 0..TURNS {
                self.harness.dispatcher.reader.quiescent();
                self.harness.dispatcher.turn(monotonic_ns());
            }
        }
    }

    /// Ticks a packet and packets a frame by node.
    fn stages(&self) -> Stages {
        let of = |(slot, n): (usize, &parshall_counters::NodeCounters)| {
            let mut t = NodeTotals::default();
            n.add_to(&mut t);
            let name = match self.graph.spec(slot as u16) {
                Some(spec) => spec.name.to_string(),
                None => format!(
                    "memif0/{}-tx",
                    slot.saturating_sub(self.graph.specs().len() + 1)
                ),
            };
            let (v, c) = (t.vectors as f64, t.calls as f64);
            (t.vectors > 0).then(|| (name, t.clocks as f64 / v, v / c))
        };
        self.counters
            .nodes
            .iter()
            .enumerate()
            .filter_map(of)
            .collect()
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.harness.dispatcher.close();
    }
}

/// Interfaces 1 and 2, each handing everything to the other.
fn crossed() -> IfTable {
    let view = |peer| IfView {
        flags: if_flags::EXISTS | if_flags::UP | if_flags::XCONNECT,
        peer,
        mtu: MTU,
        ..IfView::default()
    };
    IfTable::new([
        (IfView::default(), IfAddresses::default()),
        (view(2), IfAddresses::default()),
        (view(1), IfAddresses::default()),
    ])
}
