//! A rig: one worker's graph with a generator on one side and a sink on the other.
//!
//! The workers of a case share the tables ([`Bed`]) and nothing else, as in the router: each has its own
//! buffers, counters, generator, sink and sample ring.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use parshall_buffer::IF_NONE;
use parshall_counters::{DropReason, NodeTotals, WorkerCounters};
use parshall_device::{Device, RxQueue};
use parshall_drivers::pg::{PgDevice, PgHandle, StreamSpec};
use parshall_fib::{
    Adjacency, Dpo, DpoKind, Imposition, LinkType, MacEntry, MacKey, MacWriter, Payload, TtlMode,
};
use parshall_graph::harness::Harness;
use parshall_graph::{Graph, Limits, monotonic_ns};
use parshall_nodes::{
    BridgeDomain, BridgePort, BridgeTable, DropSettings, Event, FloodMember, IfAddresses, IfTable,
    IfView, SflowSettings, SflowTxSettings, Shared, TableLimits, bridge_flags, if_flags,
};

use parshall_ring::Consumer;
use parshall_sample::DropSlot;

use crate::cases::{Case, LABEL_IN, LABEL_OUT, Neighbours, Routes, Traffic, Work};
use crate::drain::Drain;
use crate::{BenchError, SflowRate, internet, overlay};

/// Address of the router's interfaces.
pub const ROUTER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
/// Address of whoever is on the other side.
pub const PEER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];

/// The tunnel, where the case has one.
pub const TUNNEL: u32 = 4;

const LIMITS: Limits = Limits { interfaces: 8 };
/// Buffers of the rig: enough for a full turn, few enough to stay in the second-level cache, as with a
/// real receive ring.
pub const BUFFERS: usize = 2048;
/// Interface that the traffic comes in by.
pub const SOURCE: u32 = 1;
/// Interface that it leaves by.
pub const SINK: u32 = 2;
/// Drops of each reason shown a second where everything is on.
const DROPS: u32 = 100;
/// Interface for what is to be dropped beside the case's own traffic.
pub const FLOODED: u32 = 3;
const MTU: u16 = 9000;

/// What the workers of one case share: the published state, filled.
pub struct Bed {
    case: &'static Case,
    shared: Arc<Shared>,
    stream: StreamSpec,
    /// Control's side of the table of stations, and how many there are to be.
    macs: Mutex<MacWriter>,
    stations: usize,
}

impl Bed {
    /// Fills the tables for a case.
    ///
    /// # Errors
    /// When they do not hold it.
    pub fn new(case: &'static Case) -> Result<Bed, BenchError> {
        let shared =
            Shared::new(TableLimits::default()).map_err(|e| BenchError::of("tables", e))?;
        fill(&shared, &(case.routes)()?)?;
        shared
            .interfaces
            .publish(&shared.domain, interfaces(case.work));
        overlay::fill(&shared, case.work)?;
        let macs = MacWriter::new(shared.macs.clone());
        let traffic = (case.traffic)()?;
        let mut macs = Mutex::new(macs);
        if let Traffic::Stations(pairs) = &traffic {
            bridge(
                &shared,
                macs.get_mut().unwrap_or_else(PoisonError::into_inner),
                pairs,
            )?;
        }
        Ok(Bed {
            macs,
            case,
            shared,
            stream: traffic.stream()?,
            stations: traffic.stations(),
        })
    }
}

impl Bed {
    /// Drops what is sent to this IPv4 prefix.
    ///
    /// # Errors
    /// When the table does not take it.
    pub fn blackhole(&self, prefix: &str) -> Result<(), BenchError> {
        let table = self.shared.ip4.control(0);
        let table = table.map_err(|e| BenchError::of("table", e))?;
        let prefix = prefix.parse().map_err(|e| BenchError::of("prefix", e))?;
        let done = table.insert(prefix, Dpo::BLACKHOLE).map(drop);
        done.map_err(|e| BenchError::of("route", e))
    }
}

/// A bridge domain of source and sink that learns, with the stations behind the sink.
fn bridge(
    shared: &Shared,
    macs: &mut MacWriter,
    pairs: &[([u8; 6], [u8; 6])],
) -> Result<(), BenchError> {
    let port = BridgePort {
        domain: 1,
        flags: bridge_flags::LEARN
            | bridge_flags::FORWARD
            | bridge_flags::FLOOD
            | bridge_flags::UU_FLOOD,
        ..BridgePort::default()
    };
    let member = |if_index| FloodMember { if_index, shg: 0 };
    let domain = BridgeDomain {
        members: vec![member(SOURCE), member(SINK)],
        ..BridgeDomain::default()
    };
    let ports = vec![BridgePort::default(), port, port];
    let table = BridgeTable::new(ports, vec![BridgeDomain::default(), domain]);
    shared.bridges.publish(&shared.domain, table);
    pairs.iter().try_for_each(|(_, to)| learn(macs, *to, SINK))
}

fn learn(macs: &mut MacWriter, mac: [u8; 6], if_index: u32) -> Result<(), BenchError> {
    let entry = MacEntry::new(if_index, MacEntry::SEEN);
    macs.set(MacKey::new(1, mac), entry, 0)
        .map(drop)
        .map_err(|e| BenchError::of("stations", e))
}

fn fill(shared: &Shared, routes: &Routes) -> Result<(), BenchError> {
    match routes {
        Routes::None => Ok(()),
        Routes::Ip4(prefixes, neighbours) => {
            let to = adjacencies(shared, LinkType::Ip4, *neighbours)?;
            let table = shared.ip4.control(0);
            let table = table.map_err(|e| BenchError::of("table", e))?;
            prefixes.iter().try_for_each(|p| {
                let dpo = to[internet::next_hop(*p) as usize % to.len()];
                let done = table.insert(*p, dpo).map(drop);
                done.map_err(|e| BenchError::of("route", e))
            })
        }
        Routes::Ip6(prefixes, neighbours) => {
            let to = adjacencies(shared, LinkType::Ip6, *neighbours)?;
            let table = shared.ip6.control(0);
            let table = table.map_err(|e| BenchError::of("table", e))?;
            prefixes.iter().try_for_each(|p| {
                let dpo = to[internet::next_hop(*p) as usize % to.len()];
                let done = table.insert(*p, dpo).map(drop);
                done.map_err(|e| BenchError::of("route", e))
            })
        }
        Routes::Swap => swap(shared),
    }
}

/// Binds the label, bottom of stack.
fn swap(shared: &Shared) -> Result<(), BenchError> {
    let adj = adjacencies(shared, LinkType::Mpls, Neighbours::One)?[0];
    let swap = Imposition::new(&[LABEL_OUT], Payload::Mpls, TtlMode::Uniform, 0, 0, adj);
    let swap = swap.map_err(|e| BenchError::of("imposition", e))?;
    let index = shared.impositions.insert(swap);
    let index = index.map_err(|e| BenchError::of("imposition", e))?;
    let table = shared.mpls.get_control(0);
    let table = table.ok_or_else(|| BenchError("no label table".into()))?;
    table
        .set(LABEL_IN, true, Dpo::new(DpoKind::MplsImpose, index))
        .map_err(|e| BenchError::of("label", e))
        .map(drop)
}

/// Adjacencies of the neighbours on the sink's side, at least one.
fn adjacencies(
    shared: &Shared,
    link: LinkType,
    neighbours: Neighbours,
) -> Result<Vec<Dpo>, BenchError> {
    let ethertype = match link {
        LinkType::Ip4 => [0x08, 0x00],
        LinkType::Ip6 => [0x86, 0xDD],
        LinkType::Mpls => [0x88, 0x47],
    };
    let n = match neighbours {
        Neighbours::One => 1,
        Neighbours::Many => internet::NEXT_HOPS,
    };
    let one = |i: u32| {
        let header = [&neighbour_mac(i)[..], &ROUTER_MAC[..], &ethertype[..]].concat();
        let address = (0xC0A8_0102 + i).into();
        let adj = Adjacency::incomplete_ip4(SINK, link, MTU, address).with_rewrite(&header);
        let adj = adj.map_err(|e| BenchError::of("adjacency", e))?;
        let index = shared.adjacencies.insert(adj);
        let index = index.map_err(|e| BenchError::of("adjacency", e))?;
        Ok(Dpo::new(DpoKind::Adjacency, index))
    };
    (0..n).map(one).collect()
}

/// Address of neighbour `i` on the sink's side; its IPv4 address is 192.168.1.2 + `i`.
pub fn neighbour_mac(i: u32) -> [u8; 6] {
    let [_, _, high, low] = i.to_be_bytes();
    [2, 0, 0, 1, high, low]
}

/// One case on one worker, ready to turn.
pub struct Rig {
    harness: Harness,
    counters: Arc<WorkerCounters>,
    graph: Arc<Graph>,
    late_frames_seen: u64,
    delivered: Arc<AtomicU64>,
    tx_delivered: Arc<AtomicU64>,
    drops: Consumer<DropSlot>,
    _source: (PgDevice, PgHandle),
    _sink: (PgDevice, PgHandle),
}

/// Counters of a rig at one moment.
pub struct Totals {
    /// By slot.
    pub nodes: Vec<NodeTotals>,
    /// Samples that went into the ring.
    pub samples: u64,
    /// Samples that found the ring full.
    pub samples_lost: u64,
    /// Samples that the consumer has.
    pub samples_delivered: u64,
    /// Frames made late.
    pub late_frames: u64,
}

impl Rig {
    /// Worker `worker` on a bed. Its samples go to `drain`.
    ///
    /// # Errors
    /// When it cannot be set up, or does not send out what comes in.
    pub fn new(bed: &Bed, worker: u32, drain: &Drain) -> Result<Rig, BenchError> {
        let shared = &bed.shared;
        let graph =
            Arc::new(parshall_nodes::graph(LIMITS).map_err(|e| BenchError::of("graph", e))?);
        let (nodes, outputs) = parshall_nodes::build(shared, LIMITS, u64::from(worker) + 1);
        let reader = shared
            .domain
            .register()
            .map_err(|e| BenchError::of("reader", e))?;
        let mut harness = Harness::new(graph.clone(), nodes, BUFFERS, reader)
            .map_err(|e| BenchError::of("graph", e))?;
        overlay::attach(&mut harness, &graph, bed.case.work)?;
        let source = generator(&mut harness, SOURCE, &bed.stream)?;
        let sink = sink(&mut harness)?;
        let counters = harness.dispatcher.counters.clone();
        let mut rig = Rig {
            harness,
            counters,
            graph,
            late_frames_seen: 0,
            delivered: drain.add(outputs.samples)?,
            tx_delivered: drain.add(outputs.tx_samples)?,
            drops: outputs.drops,
            _source: source,
            _sink: sink,
        };
        rig.learn(bed, outputs.events)?;
        rig.prove(bed.case)?;
        Ok(rig)
    }

    /// Turns until all stations are learned from the traffic, as control would.
    fn learn(&mut self, bed: &Bed, mut events: Vec<Consumer<Event>>) -> Result<(), BenchError> {
        let mut macs = bed.macs.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..100_000 {
            if macs.len() >= bed.stations {
                return Ok(());
            }
            self.turn();
            for ring in &mut events {
                while let Some(event) = ring.pop() {
                    if let Event::MacSeen { if_index, mac, .. } = event {
                        learn(&mut macs, mac, if_index)?;
                    }
                }
            }
        }
        Err(BenchError(format!(
            "{}: {} of {} stations learned",
            bed.case.name,
            macs.len(),
            bed.stations
        )))
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

    /// Switches sampling of what is received; with `everything` also of what is sent, and the monitoring of drops.
    pub fn set_sflow(&mut self, rate: SflowRate, everything: bool) {
        self.sample_received(rate);
        if !everything {
            return;
        }
        let rate = rate.number();
        self.set_drop_monitoring(if rate == 0 { 0 } else { DROPS });
        // Its name is in the graph as well.
        drop(self.graph.set_feature("sflow-output", SINK, rate != 0));
        if let Some(node) = self.graph.node("sflow-output") {
            let mut settings = SflowTxSettings {
                sampling: SflowSettings {
                    if_index: SINK,
                    rate,
                    header_bytes: 128,
                },
                queue: 0,
                bare: false,
            };
            self.harness.dispatcher.message(node, &mut settings);
        }
    }

    fn sample_received(&mut self, rate: SflowRate) {
        let rate = rate.number();
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

    /// Polls one more receive queue, of interface [`FLOODED`].
    pub fn add_flood(&mut self, queue: Box<dyn RxQueue>) {
        self.harness.set_rx("pg-input", FLOODED, queue);
    }

    /// Shows so many drops of each reason a second; 0 = none.
    pub fn set_drop_monitoring(&mut self, limit: u32) {
        // The name is in the graph: it is of the list that the rig was made from.
        drop(self.graph.set_feature_everywhere("sflow-drop", limit != 0));
        if let Some(node) = self.graph.node("sflow-drop") {
            self.harness
                .dispatcher
                .message(node, &mut DropSettings { limit });
        }
    }

    /// Takes what monitoring has shown; says how many packets.
    pub fn take_drops(&mut self) -> u64 {
        let drops = &mut self.drops;
        std::iter::from_fn(|| drops.read(|_| ())).count() as u64
    }

    /// Packets sent out and packets dropped.
    pub fn sent_and_dropped(&self) -> (u64, u64) {
        (self.counters.transmitted.get(), self.counters.dropped.get())
    }

    /// Drops that monitoring did not show.
    pub fn suppressed(&self, reason: DropReason) -> u64 {
        self.counters.suppressed(reason)
    }

    /// Ticks a packet of a node, since the rig was made.
    pub fn ticks_of(&self, node: &str) -> f64 {
        let mut t = NodeTotals::default();
        if let Some(id) = self.graph.node(node) {
            self.counters.nodes[usize::from(id)].add_to(&mut t);
        }
        t.clocks as f64 / t.vectors.max(1) as f64
    }

    /// The counters now.
    pub fn totals(&self) -> Totals {
        let nodes = self.counters.nodes.iter().map(|n| {
            let mut t = NodeTotals::default();
            n.add_to(&mut t);
            t
        });
        let c = &self.counters.interfaces[SOURCE as usize];
        let sent = &self.counters.interfaces[SINK as usize];
        let delivered = |n: &AtomicU64| n.load(Ordering::Relaxed);
        Totals {
            nodes: nodes.collect(),
            samples: c.samples.get() + sent.tx_samples.get(),
            samples_lost: c.sample_drops.get() + sent.tx_sample_drops.get(),
            samples_delivered: delivered(&self.delivered) + delivered(&self.tx_delivered),
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
    }
}

fn interfaces(work: Work) -> IfTable {
    let both = if_flags::EXISTS | if_flags::UP | if_flags::IP4 | if_flags::IP6 | if_flags::MPLS;
    let cross = if_flags::XCONNECT;
    // What the source, the sink and the tunnel do with what they receive, and where it goes at once.
    let (source, sink, tunnel) = match work {
        Work::CrossConnect => ((cross, SINK), (cross, SOURCE), (0, IF_NONE)),
        Work::Bridge => {
            let bridge = (if_flags::BRIDGE, IF_NONE);
            (bridge, bridge, (0, IF_NONE))
        }
        Work::VxlanOut => ((cross, TUNNEL), (0, IF_NONE), (cross, SOURCE)),
        Work::VxlanIn => ((0, IF_NONE), (cross, TUNNEL), (cross, SINK)),
        Work::Ip4 | Work::Ip6 | Work::Mpls | Work::Acl => {
            ((0, IF_NONE), (0, IF_NONE), (0, IF_NONE))
        }
    };
    let view = |(mode, peer)| {
        let view = IfView {
            flags: both | mode,
            peer,
            mac: IfView::mac_word(ROUTER_MAC),
            mtu: u32::from(MTU),
            ..IfView::default()
        };
        (view, IfAddresses::default())
    };
    let none = (IfView::default(), IfAddresses::default());
    IfTable::new([
        none,
        view(source),
        view(sink),
        view((0, IF_NONE)),
        view(tunnel),
    ])
}

fn generator(
    harness: &mut Harness,
    if_index: u32,
    stream: &StreamSpec,
) -> Result<(PgDevice, PgHandle), BenchError> {
    let (mut device, handle) = PgDevice::new(0);
    let fail = |e| BenchError::of("generator", e);
    device.set_admin(true).map_err(fail)?;
    let mut queues = device.queues(if_index, 1).map_err(fail)?;
    handle.add(stream).map_err(fail)?;
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
