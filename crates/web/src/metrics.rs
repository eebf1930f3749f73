//! The catalogue of metrics: each described once, with how it is read from a snapshot. The reference page is made from it.

use parshall_control::snapshot::{Agent, Collector, Counters, Interface, Node, Snapshot, Worker};

use crate::expose::{Family, Format, Kind, Sample};

/// A metric: its description and where its values are.
struct Metric {
    family: Family,
    read: fn(&Snapshot) -> Vec<Sample>,
}

const fn metric(
    kind: Kind,
    name: &'static str,
    unit: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
    read: fn(&Snapshot) -> Vec<Sample>,
) -> Metric {
    Metric {
        family: Family {
            name,
            kind,
            unit,
            help,
            labels,
        },
        read,
    }
}

fn one(value: f64) -> Vec<Sample> {
    vec![(Vec::new(), value)]
}

fn bool_value(b: bool) -> f64 {
    f64::from(u8::from(b))
}

fn per_interface(s: &Snapshot, value: impl Fn(&Interface) -> Option<f64>) -> Vec<Sample> {
    let all = s.interfaces.iter();
    all.filter_map(|i| Some((vec![i.name.clone()], value(i)?)))
        .collect()
}

fn count(s: &Snapshot, value: fn(&Counters) -> u64) -> Vec<Sample> {
    per_interface(s, |i| Some(value(&i.counters) as f64))
}

/// Packets by interface and by how they are addressed.
fn cast(s: &Snapshot, of: fn(&Counters) -> [u64; 3]) -> Vec<Sample> {
    let each = |i: &Interface| {
        let [all, multicast, broadcast] = of(&i.counters);
        let unicast = all.saturating_sub(multicast.saturating_add(broadcast));
        [
            ("unicast", unicast),
            ("multicast", multicast),
            ("broadcast", broadcast),
        ]
        .map(|(kind, n)| (vec![i.name.clone(), kind.to_owned()], n as f64))
    };
    s.interfaces.iter().flat_map(each).collect()
}

fn per_worker(s: &Snapshot, value: fn(&Worker) -> u64) -> Vec<Sample> {
    let all = s.workers.iter();
    all.map(|w| (vec![w.worker.to_string()], value(w) as f64))
        .collect()
}

fn per_node(s: &Snapshot, value: fn(&Node) -> u64) -> Vec<Sample> {
    let all = s.nodes.iter();
    all.map(|n| (vec![n.worker.to_string(), n.node.clone()], value(n) as f64))
        .collect()
}

fn agent(s: &Snapshot, value: fn(&Agent) -> u64) -> Vec<Sample> {
    s.sflow
        .agent
        .as_ref()
        .map_or_else(Vec::new, |a| one(value(a) as f64))
}

fn per_collector(s: &Snapshot, value: fn(&Collector) -> u64) -> Vec<Sample> {
    let all = s.sflow.agent.iter().flat_map(|a| &a.collectors);
    all.map(|c| (vec![c.collector.clone()], value(c) as f64))
        .collect()
}

const IF: &[&str] = &["interface"];
const CAST: &[&str] = &["interface", "cast"];
const WORKER: &[&str] = &["worker"];
const NODE: &[&str] = &["worker", "node"];
const COLLECTOR: &[&str] = &["collector"];

use Kind::{Counter, Gauge, Info};

const METRICS: &[Metric] = &[
    metric(
        Info,
        "parshall_build",
        "",
        &["version", "arch"],
        "Which program this is.",
        |s| vec![(vec![s.version.version.clone(), s.version.arch.clone()], 1.0)],
    ),
    metric(
        Gauge,
        "parshall_uptime_seconds",
        "seconds",
        &[],
        "Time since the router started.",
        |s| one((s.uptime_seconds * 1000.0).round() / 1000.0),
    ),
    metric(
        Gauge,
        "parshall_healthy",
        "",
        &[],
        "Whether every worker thread runs.",
        |s| one(bool_value(s.healthy)),
    ),
    // Interfaces.
    metric(
        Info,
        "parshall_interface",
        "",
        &["interface", "index", "if_index", "kind", "mac"],
        "An interface: its number, its ifIndex in sFlow, its device and its Ethernet address.",
        |s| {
            let row = |i: &Interface| {
                let labels = [
                    i.name.clone(),
                    i.index.to_string(),
                    i.if_index.to_string(),
                    i.kind.clone(),
                    i.mac.clone(),
                ];
                (labels.to_vec(), 1.0)
            };
            s.interfaces.iter().map(row).collect()
        },
    ),
    metric(
        Gauge,
        "parshall_interface_admin_up",
        "",
        IF,
        "Whether the interface is administratively up.",
        |s| per_interface(s, |i| Some(bool_value(i.admin_up))),
    ),
    metric(
        Gauge,
        "parshall_interface_link_up",
        "",
        IF,
        "Whether the interface is up and its device has a link.",
        |s| per_interface(s, |i| Some(bool_value(i.link_up))),
    ),
    metric(
        Gauge,
        "parshall_interface_mtu_bytes",
        "bytes",
        IF,
        "Largest IP packet.",
        |s| per_interface(s, |i| Some(f64::from(i.mtu))),
    ),
    metric(
        Gauge,
        "parshall_interface_speed_bytes_per_second",
        "",
        IF,
        "Speed of the link; absent where it is not known.",
        |s| per_interface(s, |i| (i.speed != 0).then_some(i.speed as f64 / 8.0)),
    ),
    metric(
        Counter,
        "parshall_interface_receive_bytes",
        "bytes",
        IF,
        "Bytes of frames received, without FCS.",
        |s| count(s, |c| c.rx_bytes),
    ),
    metric(
        Counter,
        "parshall_interface_transmit_bytes",
        "bytes",
        IF,
        "Bytes of frames sent, without FCS.",
        |s| count(s, |c| c.tx_bytes),
    ),
    metric(
        Counter,
        "parshall_interface_receive_packets",
        "packets",
        CAST,
        "Frames received, by how they are addressed.",
        |s| cast(s, |c| [c.rx_packets, c.rx_multicast, c.rx_broadcast]),
    ),
    metric(
        Counter,
        "parshall_interface_transmit_packets",
        "packets",
        CAST,
        "Frames sent, by how they are addressed.",
        |s| cast(s, |c| [c.tx_packets, c.tx_multicast, c.tx_broadcast]),
    ),
    metric(
        Counter,
        "parshall_interface_receive_drops",
        "",
        IF,
        "Frames received that were dropped, whatever the reason.",
        |s| count(s, |c| c.rx_drops),
    ),
    metric(
        Counter,
        "parshall_interface_receive_errors",
        "",
        IF,
        "Frames that the device handed over broken.",
        |s| count(s, |c| c.rx_errors),
    ),
    metric(
        Counter,
        "parshall_interface_receive_missed",
        "",
        IF,
        "Frames that the device or the kernel lost before the router saw them.",
        |s| count(s, |c| c.rx_missed),
    ),
    metric(
        Counter,
        "parshall_interface_receive_no_buffer",
        "",
        IF,
        "Frames thrown away because no packet buffer was free.",
        |s| count(s, |c| c.rx_no_buffer),
    ),
    metric(
        Counter,
        "parshall_interface_punts",
        "",
        IF,
        "Frames received that the router itself consumed.",
        |s| count(s, |c| c.punts),
    ),
    metric(
        Counter,
        "parshall_interface_transmit_drops",
        "",
        IF,
        "Frames that could not be sent.",
        |s| count(s, |c| c.tx_drops),
    ),
    metric(
        Counter,
        "parshall_interface_transmit_errors",
        "",
        IF,
        "Frames that the device refused.",
        |s| count(s, |c| c.tx_errors),
    ),
    // Workers and nodes.
    metric(
        Counter,
        "parshall_worker_received_packets",
        "packets",
        WORKER,
        "Packets received from devices.",
        |s| per_worker(s, |w| w.received),
    ),
    metric(
        Counter,
        "parshall_worker_transmitted_packets",
        "packets",
        WORKER,
        "Packets handed to devices.",
        |s| per_worker(s, |w| w.transmitted),
    ),
    metric(
        Counter,
        "parshall_worker_originated_packets",
        "packets",
        WORKER,
        "Packets that the router made itself.",
        |s| per_worker(s, |w| w.originated),
    ),
    metric(
        Counter,
        "parshall_worker_punted_packets",
        "packets",
        WORKER,
        "Packets that the router consumed.",
        |s| per_worker(s, |w| w.punted),
    ),
    metric(
        Counter,
        "parshall_worker_dropped_packets",
        "packets",
        WORKER,
        "Packets dropped.",
        |s| per_worker(s, |w| w.dropped),
    ),
    metric(
        Gauge,
        "parshall_worker_held_packets",
        "packets",
        WORKER,
        "Packets that wait for a neighbour.",
        |s| per_worker(s, |w| w.held),
    ),
    metric(
        Counter,
        "parshall_worker_loops",
        "",
        WORKER,
        "Turns of the worker's loop.",
        |s| per_worker(s, |w| w.loops),
    ),
    metric(
        Counter,
        "parshall_worker_sleeps",
        "",
        WORKER,
        "Times the worker went to sleep.",
        |s| per_worker(s, |w| w.sleeps),
    ),
    metric(
        Counter,
        "parshall_worker_busy_clocks",
        "",
        WORKER,
        "Ticks of the time-stamp counter spent in graph nodes.",
        |s| per_worker(s, |w| w.clocks),
    ),
    metric(
        Gauge,
        "parshall_worker_buffers",
        "",
        WORKER,
        "Packet buffers that the worker has.",
        |s| per_worker(s, |w| w.buffers),
    ),
    metric(
        Gauge,
        "parshall_worker_buffers_free",
        "",
        WORKER,
        "Packet buffers that are free.",
        |s| per_worker(s, |w| w.buffers_free),
    ),
    metric(
        Counter,
        "parshall_node_calls",
        "",
        NODE,
        "Times a graph node was called.",
        |s| per_node(s, |n| n.calls),
    ),
    metric(
        Counter,
        "parshall_node_packets",
        "packets",
        NODE,
        "Packets that a graph node was called with.",
        |s| per_node(s, |n| n.vectors),
    ),
    metric(
        Counter,
        "parshall_node_clocks",
        "",
        NODE,
        "Ticks of the time-stamp counter that a graph node took.",
        |s| per_node(s, |n| n.clocks),
    ),
    metric(
        Counter,
        "parshall_dropped_packets",
        "packets",
        &["node", "reason", "group"],
        "Packets dropped, by graph node and reason; the reasons are those of docs/reference/drop-reasons.md.",
        |s| {
            let all = s.drops.iter();
            all.map(|d| {
                (
                    vec![d.node.clone(), d.reason.clone(), d.group.clone()],
                    d.packets as f64,
                )
            })
            .collect()
        },
    ),
    // sFlow.
    metric(
        Gauge,
        "parshall_sflow_sampling_rate",
        "",
        IF,
        "One packet in so many is sampled.",
        |s| per_interface(s, |i| i.sampling.as_ref().map(|p| f64::from(p.rate))),
    ),
    metric(
        Counter,
        "parshall_sflow_pool_packets",
        "packets",
        IF,
        "Packets that passed the sampler.",
        |s| per_interface(s, |i| i.sampling.as_ref().map(|p| p.pool as f64)),
    ),
    metric(
        Counter,
        "parshall_sflow_samples",
        "",
        IF,
        "Packet samples taken.",
        |s| per_interface(s, |i| i.sampling.as_ref().map(|p| p.samples as f64)),
    ),
    metric(
        Counter,
        "parshall_sflow_samples_lost",
        "",
        IF,
        "Packet samples lost because a ring was full.",
        |s| per_interface(s, |i| i.sampling.as_ref().map(|p| p.lost as f64)),
    ),
    metric(
        Counter,
        "parshall_sflow_datagrams",
        "",
        &[],
        "Datagrams built; each goes to every collector.",
        |s| agent(s, |a| a.datagrams),
    ),
    metric(
        Counter,
        "parshall_sflow_datagram_bytes",
        "bytes",
        &[],
        "Bytes of UDP payload in datagrams.",
        |s| agent(s, |a| a.bytes),
    ),
    metric(
        Counter,
        "parshall_sflow_flow_samples_sent",
        "",
        &[],
        "Flow samples in datagrams.",
        |s| agent(s, |a| a.flow_samples),
    ),
    metric(
        Counter,
        "parshall_sflow_interface_samples_sent",
        "",
        &[],
        "Interface counter samples in datagrams.",
        |s| agent(s, |a| a.counter_samples),
    ),
    metric(
        Counter,
        "parshall_sflow_host_samples_sent",
        "",
        &[],
        "Host counter samples in datagrams.",
        |s| agent(s, |a| a.host_samples),
    ),
    metric(
        Counter,
        "parshall_sflow_discard_samples_sent",
        "",
        &[],
        "Discarded packet samples in datagrams.",
        |s| agent(s, |a| a.discard_samples),
    ),
    metric(
        Counter,
        "parshall_sflow_discards_suppressed",
        "",
        &[],
        "Drops that were not reported: over the limit, or a ring was full.",
        |s| agent(s, |a| a.discards_suppressed),
    ),
    metric(
        Counter,
        "parshall_sflow_agent_lost_samples",
        "",
        &[],
        "Samples lost because the agent came too late.",
        |s| agent(s, |a| a.lost),
    ),
    metric(
        Gauge,
        "parshall_sflow_collector_up",
        "",
        COLLECTOR,
        "Whether datagrams are sent to the collector.",
        |s| per_collector(s, |c| u64::from(c.state == "up")),
    ),
    metric(
        Counter,
        "parshall_sflow_collector_sent_datagrams",
        "",
        COLLECTOR,
        "Datagrams handed to the network for the collector.",
        |s| per_collector(s, |c| c.sent),
    ),
    metric(
        Counter,
        "parshall_sflow_collector_failed_datagrams",
        "",
        COLLECTOR,
        "Datagrams that could not be sent to the collector.",
        |s| per_collector(s, |c| c.failed),
    ),
    // Tables and memory.
    metric(
        Gauge,
        "parshall_fib_routes",
        "",
        &["family", "table"],
        "Routes of a forwarding table.",
        |s| {
            let all = s.fib.tables.iter();
            all.map(|t| (vec![t.family.clone(), t.table.to_string()], t.routes as f64))
                .collect()
        },
    ),
    metric(
        Gauge,
        "parshall_fib_mpls_labels",
        "",
        &[],
        "Entries of the MPLS label table.",
        |s| one(s.fib.mpls_labels as f64),
    ),
    metric(
        Gauge,
        "parshall_fib_memory_bytes",
        "bytes",
        &[],
        "Bytes that all routes take.",
        |s| one(s.fib.bytes as f64),
    ),
    metric(
        Gauge,
        "parshall_neighbors",
        "",
        &["family"],
        "Neighbours known.",
        |s| {
            vec![
                (vec!["ip4".into()], s.neighbors.ip4 as f64),
                (vec!["ip6".into()], s.neighbors.ip6 as f64),
            ]
        },
    ),
    metric(
        Gauge,
        "parshall_buffer_memory_bytes",
        "bytes",
        WORKER,
        "Packet memory of the worker.",
        |s| per_worker(s, |w| w.buffer_bytes),
    ),
    metric(
        Gauge,
        "parshall_resident_memory_bytes",
        "bytes",
        &[],
        "Resident memory of the process.",
        |s| one(s.memory.resident_bytes as f64),
    ),
];

/// All metrics of a snapshot.
pub(crate) fn text(snapshot: &Snapshot, format: Format) -> String {
    let mut out = String::with_capacity(16 << 10);
    for m in METRICS {
        m.family.write(&mut out, format, &(m.read)(snapshot));
    }
    if format == Format::OpenMetrics {
        out.push_str("# EOF\n");
    }
    out
}

/// The catalogue as the reference page.
pub fn page() -> String {
    let mut out = String::from(
        "# Metrics\n\nMade from the catalogue that `/metrics` is written from. How to collect them is in\n\
         [Monitor with Prometheus](../how-to/monitor-with-prometheus.md). Counters count from the start of the router or\n\
         the making of an interface; `clear` commands do not touch them. A metric without a value is left out.\n\n\
         | name | type | labels | what it says |\n|---|---|---|---|\n",
    );
    for Metric { family: f, .. } in METRICS {
        let kind = match f.kind {
            Counter => "counter",
            Gauge => "gauge",
            Info => "info",
        };
        out += &format!(
            "| `{}` | {kind} | {} | {} |\n",
            f.sample_name(),
            f.labels.join(", "),
            f.help
        );
    }
    out
}
