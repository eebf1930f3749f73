//! Metrics of workers and of what their nodes did.

use parshall_control::snapshot::{Node, Snapshot, Worker};

use super::{Metric, metric};
use crate::expose::Kind::{Counter, Gauge};
use crate::expose::Sample;

/// Labels of a metric by worker.
pub(super) const WORKER: &[&str] = &["worker"];
const NODE: &[&str] = &["worker", "node"];

/// The list of them.
pub(super) const METRICS: &[Metric] = &[
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
];

/// A value of each worker.
pub(super) fn per_worker(s: &Snapshot, value: fn(&Worker) -> u64) -> Vec<Sample> {
    let all = s.workers.iter();
    all.map(|w| (vec![w.worker.to_string()], value(w) as f64))
        .collect()
}

fn per_node(s: &Snapshot, value: fn(&Node) -> u64) -> Vec<Sample> {
    let all = s.nodes.iter();
    all.map(|n| (vec![n.worker.to_string(), n.node.clone()], value(n) as f64))
        .collect()
}
