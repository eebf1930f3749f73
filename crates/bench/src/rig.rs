//! A rig: one graph with a generator on one side and a sink on the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use parshall_counters::{NodeTotals, WorkerCounters};
use parshall_device::Device;
use parshall_drivers::pg::{PgDevice, PgHandle};
use parshall_fib::{Adjacency, Dpo, DpoKind, Ip4Prefix, Ip6Prefix, LinkType};
use parshall_graph::harness::Harness;
use parshall_graph::{Graph, Limits, monotonic_ns};
use parshall_nodes::{IfAddresses, IfTable, IfView, SflowSettings, Shared, TableLimits, if_flags};
use parshall_ring::Consumer;
use parshall_sample::SampleSlot;

use crate::BenchError;
use crate::cases::Case;
use crate::measure::SflowRate;

/// Address of the router's interfaces.
pub const ROUTER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
/// Address of whoever is on the other side.
pub const PEER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];

const LIMITS: Limits = Limits { interfaces: 8 };
/// Buffers of the rig: enough for a full turn, few enough to stay in the second-level cache, as with a
/// real receive ring.
const BUFFERS: usize = 2048;
const SOURCE: u32 = 1;
const SINK: u32 = 2;
const MTU: u16 = 9000;

/// The tables of a rig while it is set up.
pub struct Tables {
    /// The published state.
    pub shared: Arc<Shared>,
}

impl Tables {
    /// Adds an IPv4 route.
    pub fn route4(
        &self,
        prefix: Result<Ip4Prefix, impl std::fmt::Display>,
        dpo: Dpo,
    ) -> Result<(), BenchError> {
        let prefix = prefix.map_err(|e| BenchError::of("prefix", e))?;
        let table = self
            .shared
            .ip4
            .control(0)
            .map_err(|e| BenchError::of("table", e))?;
        table
            .insert(prefix, dpo)
            .map_err(|e| BenchError::of("route", e))
            .map(drop)
    }
    /// Adds an IPv6 route.
    pub fn route6(
        &self,
        prefix: Result<Ip6Prefix, impl std::fmt::Display>,
        dpo: Dpo,
    ) -> Result<(), BenchError> {
        let prefix = prefix.map_err(|e| BenchError::of("prefix", e))?;
        let table = self
            .shared
            .ip6
            .control(0)
            .map_err(|e| BenchError::of("table", e))?;
        table
            .insert(prefix, dpo)
            .map_err(|e| BenchError::of("route", e))
            .map(drop)
    }
    /// Binds a label, bottom of stack.
    pub fn label(&self, label: u32, dpo: Dpo) -> Result<(), BenchError> {
        let table = self
            .shared
            .mpls
            .get_control(0)
            .ok_or_else(|| BenchError("no label table".into()))?;
        table
            .set(label, true, dpo)
            .map_err(|e| BenchError::of("label", e))
            .map(drop)
    }
}

/// One case, ready to turn.
pub struct Rig {
    harness: Harness,
    counters: Arc<WorkerCounters>,
    graph: Arc<Graph>,
    late_frames_seen: u64,
    stop: Arc<AtomicBool>,
    drain: Option<JoinHandle<()>>,
    _source: (PgDevice, PgHandle),
    _sink: (PgDevice, PgHandle),
}

/// Counters of a rig at one moment.
pub struct Totals {
    /// By slot.
    pub nodes: Vec<NodeTotals>,
    /// Samples taken.
    pub samples: u64,
    /// Samples lost.
    pub samples_lost: u64,
    /// Frames made late.
    pub late_frames: u64,
}

impl Rig {
    /// Sets a case up.
    pub fn new(case: &Case) -> Result<Rig, BenchError> {
        let shared =
            Shared::new(TableLimits::default()).map_err(|e| BenchError::of("tables", e))?;
        let tables = Tables {
            shared: shared.clone(),
        };
        let mpls = case.name.starts_with("mpls");
        let adj = adjacency(&shared, case.name, mpls)?;
        (case.fill)(&tables, adj)?;
        shared
            .interfaces
            .publish(&shared.domain, interfaces(case.cross_connect));
        let graph =
            Arc::new(parshall_nodes::graph(LIMITS).map_err(|e| BenchError::of("graph", e))?);
        let (nodes, outputs) = parshall_nodes::build(&shared, LIMITS, 1);
        let reader = shared
            .domain
            .register()
            .map_err(|e| BenchError::of("reader", e))?;
        let mut harness = Harness::new(graph.clone(), nodes, BUFFERS, reader)
            .map_err(|e| BenchError::of("graph", e))?;
        let source = generator(&mut harness, SOURCE, case)?;
        let sink = sink(&mut harness)?;
        let stop = Arc::new(AtomicBool::new(false));
        let drain = drain(outputs.samples, stop.clone())?;
        let counters = harness.dispatcher.counters.clone();
        let mut rig = Rig {
            harness,
            counters,
            graph,
            late_frames_seen: 0,
            stop,
            drain: Some(drain),
            _source: source,
            _sink: sink,
        };
        rig.prove(case)?;
        Ok(rig)
    }

    /// Turns once and checks that what came in went out: a bench of drops would be a fast one.
    fn prove(&mut self, case: &Case) -> Result<(), BenchError> {
        for _ in 0..100 {
            self.turn();
        }
        let c = &self.counters;
        if c.received.get() == 0 || c.transmitted.get() != c.received.get() {
            let drops: Vec<_> = c
                .drops()
                .map(|(_, r, n)| format!("{n} {}", r.text()))
                .collect();
            return Err(BenchError(format!(
                "{}: {} packets in, {} out; dropped: {}",
                case.name,
                c.received.get(),
                c.transmitted.get(),
                drops.join(", ")
            )));
        }
        self.late_frames_seen = self.harness.dispatcher.late_frames();
        Ok(())
    }

    /// One turn of the dispatcher; says how many packets came in.
    pub fn turn(&mut self) -> usize {
        self.harness.dispatcher.reader.quiescent();
        self.harness.dispatcher.turn(monotonic_ns())
    }

    /// Switches sampling.
    pub fn set_sflow(&mut self, rate: SflowRate) {
        let rate = match rate {
            SflowRate::Off => 0,
            SflowRate::OneIn(n) => n,
        };
        // Both names are in the graph: `prove` ran through it.
        drop(self.graph.set_feature("sflow", SOURCE, rate != 0));
        if let Some(node) = self.graph.node("sflow") {
            let mut settings = SflowSettings {
                if_index: SOURCE,
                rate,
                header_bytes: 128,
            };
            self.harness.dispatcher.message(node, &mut settings);
        }
    }

    /// The counters now.
    pub fn totals(&self) -> Totals {
        let nodes = self.counters.nodes.iter().map(|n| {
            let mut t = NodeTotals::default();
            n.add_to(&mut t);
            t
        });
        let c = &self.counters.interfaces[SOURCE as usize];
        Totals {
            nodes: nodes.collect(),
            samples: c.samples.get(),
            samples_lost: c.sample_drops.get(),
            late_frames: self.harness.dispatcher.late_frames() - self.late_frames_seen,
        }
    }

    /// Name of a slot.
    pub fn slot_name(&self, slot: usize) -> String {
        match self.graph.spec(slot as u16) {
            Some(spec) => spec.name.to_string(),
            None => format!("pg{}-tx", slot - self.graph.specs().len()),
        }
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.harness.dispatcher.close();
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.drain.take() {
            drop(thread.join());
        }
    }
}

fn adjacency(shared: &Shared, name: &str, mpls: bool) -> Result<Dpo, BenchError> {
    let (link, ethertype) = match (mpls, name.starts_with("ip6")) {
        (true, _) => (LinkType::Mpls, [0x88, 0x47]),
        (false, true) => (LinkType::Ip6, [0x86, 0xDD]),
        (false, false) => (LinkType::Ip4, [0x08, 0x00]),
    };
    let header = [&PEER_MAC[..], &ROUTER_MAC[..], &ethertype[..]].concat();
    let adj = Adjacency::incomplete_ip4(SINK, link, MTU, [192, 168, 1, 2].into());
    let adj = adj
        .with_rewrite(&header)
        .map_err(|e| BenchError::of("adjacency", e))?;
    let index = shared
        .adjacencies
        .insert(adj)
        .map_err(|e| BenchError::of("adjacency", e))?;
    Ok(Dpo::new(DpoKind::Adjacency, index))
}

fn interfaces(cross_connect: bool) -> IfTable {
    let both = if_flags::EXISTS | if_flags::UP | if_flags::IP4 | if_flags::IP6 | if_flags::MPLS;
    let mode = if cross_connect { if_flags::XCONNECT } else { 0 };
    let view = |peer| IfView {
        flags: both | mode,
        peer,
        mac: IfView::mac_word(ROUTER_MAC),
        mtu: u32::from(MTU),
        ..IfView::default()
    };
    let none = (IfView::default(), IfAddresses::default());
    IfTable::new([
        none,
        (view(SINK), IfAddresses::default()),
        (view(SOURCE), IfAddresses::default()),
    ])
}

fn generator(
    harness: &mut Harness,
    if_index: u32,
    case: &Case,
) -> Result<(PgDevice, PgHandle), BenchError> {
    let (mut device, handle) = PgDevice::new(0);
    let fail = |e| BenchError::of("generator", e);
    device.set_admin(true).map_err(fail)?;
    let mut queues = device.queues(if_index, 1).map_err(fail)?;
    handle.add(&(case.stream)()?).map_err(fail)?;
    handle.enable(None).map_err(fail)?;
    if let Some(rx) = queues.rx.pop() {
        harness.set_rx("pg-input", if_index, rx);
    }
    Ok((device, handle))
}

fn sink(harness: &mut Harness) -> Result<(PgDevice, PgHandle), BenchError> {
    let (mut device, handle) = PgDevice::new(1);
    let fail = |e| BenchError::of("sink", e);
    device.set_admin(true).map_err(fail)?;
    let mut queues = device.queues(SINK, 1).map_err(fail)?;
    if let Some(tx) = queues.tx.pop() {
        harness.set_tx(SINK, tx, u32::from(MTU) + 14);
    }
    Ok((device, handle))
}

/// A thread that takes samples out, as the agent would.
fn drain(
    mut from: Consumer<SampleSlot>,
    stop: Arc<AtomicBool>,
) -> Result<JoinHandle<()>, BenchError> {
    let thread = std::thread::Builder::new()
        .name("bench-drain".into())
        .spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                while from.read(|s| std::hint::black_box(s).header_len).is_some() {}
                std::thread::sleep(std::time::Duration::from_micros(200));
            }
        });
    thread.map_err(|e| BenchError::of("thread", e))
}
