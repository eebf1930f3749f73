//! Metrics of tables and memory.

use super::workers::{WORKER, per_worker};
use super::{Metric, metric, one};
use crate::expose::Kind::Gauge;

/// The list of them.
pub(super) const METRICS: &[Metric] = &[
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
