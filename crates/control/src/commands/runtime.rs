//! How the machine runs: version, nodes, errors, threads, memory; and clearing counters.

use std::fmt::Write;
use std::time::Instant;

use parshall_command::{Args, CommandSpec};
use parshall_counters::NodeTotals;
use parshall_graph::NodeKind;
use serde::Serialize;

use super::{Context, Handler, Output, command};
use crate::error::Result;
use crate::router::{Router, WorkerCounts};
use crate::text::{bytes, centre, scientific};

pub(super) const COMMANDS: &[CommandSpec<Handler>] = &[
    command("show version", "Show the version", version),
    CommandSpec {
        pattern: "show runtime [verbose]",
        help: "Show calls, packets and clocks of each graph node",
        detail: "Nodes that were never called are left out unless `verbose` is said. Clocks are ticks of the \
                 time-stamp counter per packet.",
        params: &[],
        handler: runtime,
    },
    command("show errors", "Show drops by node and reason", errors),
    command("show buffers", "Show packet buffers", buffers),
    command("show memory", "Show memory in use", memory),
    command(
        "show features",
        "Show feature arcs and the order of their nodes",
        features,
    ),
    command(
        "clear runtime",
        "Start `show runtime` at zero",
        clear_runtime,
    ),
    command("clear errors", "Start `show errors` at zero", clear_errors),
    command(
        "clear interfaces",
        "Start the counters of interfaces at zero",
        clear_interfaces,
    ),
];

fn version(_: &mut Router, _: &Args, cx: &Context) -> Result<Output> {
    let data = serde_json::json!({
        "program": "parshall",
        "version": env!("CARGO_PKG_VERSION"),
        "arch": std::env::consts::ARCH,
    });
    cx.show(&data, |_| {
        format!(
            "parshall v{} ({})\n",
            env!("CARGO_PKG_VERSION"),
            std::env::consts::ARCH
        )
    })
}

#[derive(Serialize)]
struct ShownNode {
    node: String,
    state: &'static str,
    calls: u64,
    vectors: u64,
    clocks: u64,
    clocks_per_vector: f64,
    vectors_per_call: f64,
}

#[derive(Serialize)]
struct ShownWorker {
    worker: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu: Option<usize>,
    seconds: f64,
    loops_per_second: f64,
    nodes: Vec<ShownNode>,
    received: u64,
    transmitted: u64,
    dropped: u64,
    punted: u64,
    #[serde(skip)]
    vector_rate: f64,
}

/// Name of a slot: a node, or the transmit queues of an interface.
pub(crate) fn slot_name(r: &Router, slot: usize) -> Option<String> {
    if let Some(spec) = u16::try_from(slot)
        .ok()
        .and_then(|n| r.engine.graph.spec(n))
    {
        return Some(spec.name.to_owned());
    }
    let interface = r.engine.graph.tx_interface(u16::try_from(slot).ok()?)?;
    Some(format!("{}-tx", r.interfaces.name(interface)))
}

fn worker_row(r: &Router, worker: usize, verbose: bool) -> ShownWorker {
    let since = r.baselines.runtime_since.unwrap_or(r.started);
    let seconds = since.elapsed().as_secs_f64().max(1e-9);
    let before = r.baselines.workers.get(worker).copied();
    let counts = r
        .engine
        .counters()
        .nth(worker)
        .map(|c| WorkerCounts::of(c).since(&before.unwrap_or_default()))
        .unwrap_or_default();
    let nodes = node_rows(r, worker, verbose);
    let (calls, vectors) = nodes
        .iter()
        .fold((0, 0), |s, n| (s.0 + n.calls, s.1 + n.vectors));
    ShownWorker {
        worker,
        cpu: r.engine.worker_config(worker).and_then(|c| c.cpu),
        seconds,
        loops_per_second: counts.loops as f64 / seconds,
        vector_rate: vectors as f64 / (calls as f64).max(1.0),
        nodes,
        received: counts.received,
        transmitted: counts.transmitted,
        dropped: counts.dropped,
        punted: counts.punted,
    }
}

fn node_rows(r: &Router, worker: usize, verbose: bool) -> Vec<ShownNode> {
    let mut nodes = Vec::new();
    for slot in 0..r.engine.graph.slots() {
        let before = r.baselines.nodes.get(&(worker, slot)).copied();
        let t = r
            .engine
            .node_totals(worker, slot)
            .since(&before.unwrap_or_default());
        let is_node = slot < r.engine.graph.specs().len();
        if t.calls == 0 && !(verbose && is_node) {
            continue;
        }
        let Some(name) = slot_name(r, slot) else {
            continue;
        };
        let input = is_node && r.engine.graph.specs()[slot].kind == NodeKind::Input;
        nodes.push(shown_node(name, input, &t));
    }
    nodes.sort_by(|a, b| a.node.cmp(&b.node));
    nodes
}

fn shown_node(node: String, input: bool, t: &NodeTotals) -> ShownNode {
    let per = |n: u64| t.clocks as f64 / (n as f64).max(1.0);
    ShownNode {
        node,
        state: if input { "polling" } else { "active" },
        calls: t.calls,
        vectors: t.vectors,
        clocks: t.clocks,
        clocks_per_vector: if t.vectors != 0 {
            per(t.vectors)
        } else {
            per(t.calls)
        },
        vectors_per_call: t.vectors as f64 / (t.calls as f64).max(1.0),
    }
}

fn runtime(r: &mut Router, args: &Args, cx: &Context) -> Result<Output> {
    let verbose = args.has("verbose");
    let rows: Vec<ShownWorker> = (0..r.engine.workers())
        .map(|w| worker_row(r, w, verbose))
        .collect();
    cx.show(&rows, |rows| {
        let mut out = String::new();
        for w in rows {
            print_worker(&mut out, w);
        }
        out
    })
}

fn print_worker(out: &mut String, w: &ShownWorker) {
    let cpu = w.cpu.map_or_else(|| "any".to_owned(), |c| c.to_string());
    let rate = |n: u64| scientific(n as f64 / w.seconds);
    // Writing to a String cannot fail, here and below.
    let _ = writeln!(
        out,
        "Thread {} wk_{} (lcore {cpu})\nTime {:.1}, 10 sec internal node vector rate {:.2} loops/sec {:.2}\n  \
         vector rates in {}, out {}, drop {}, punt {}",
        w.worker + 1,
        w.worker,
        w.seconds,
        w.vector_rate,
        w.loops_per_second,
        rate(w.received),
        rate(w.transmitted),
        rate(w.dropped),
        rate(w.punted)
    );
    let titles = ["Calls", "Vectors", "Suspends", "Clocks", "Vectors/Call"];
    let titles: String = titles.iter().map(|t| centre(t, 16)).collect();
    let _ = writeln!(out, "{}{}{titles}", centre("Name", 30), centre("State", 17));
    for n in &w.nodes {
        let _ = writeln!(
            out,
            "{:<30}{}{:>16}{:>16}{:>16}{:>16}{:>16.2}",
            n.node,
            centre(n.state, 17),
            n.calls,
            n.vectors,
            0,
            scientific(n.clocks_per_vector),
            n.vectors_per_call
        );
    }
}

#[derive(Serialize)]
struct ShownError {
    count: u64,
    node: String,
    reason: &'static str,
    text: &'static str,
    severity: &'static str,
}

/// What the sampler has done, in the words of VPP's sflow node: it is no error, but looked for here.
fn sampled(r: &Router) -> impl Iterator<Item = ShownError> {
    let before = r.baselines.sampled;
    let rows = [
        ("sflow_processed", "sflow packets processed", "info"),
        ("sflow_sampled", "sflow packets sampled", "info"),
        ("sflow_dropped", "sflow packets dropped", "error"),
        ("sflow_discards", "sflow discards processed", "info"),
        ("sflow_discards_dropped", "sflow discards dropped", "error"),
    ];
    let counts = r.sampler_totals().into_iter().zip(before);
    let counts = counts.map(|(now, before)| now.saturating_sub(before));
    let row = |((reason, text, severity), count): ((_, _, _), u64)| ShownError {
        count,
        node: "sflow".to_owned(),
        reason,
        text,
        severity,
    };
    rows.into_iter()
        .zip(counts)
        .map(row)
        .filter(|e| e.count != 0)
}

fn errors(r: &mut Router, _: &Args, cx: &Context) -> Result<Output> {
    let mut rows = Vec::new();
    for ((slot, reason), n) in r.engine.drops() {
        let before = r.baselines.drops.get(&(slot, reason)).copied();
        let count = n - before.unwrap_or(0);
        let Some(node) = slot_name(r, usize::from(slot)).filter(|_| count != 0) else {
            continue;
        };
        rows.push(ShownError {
            count,
            node,
            reason: reason.name(),
            text: reason.text(),
            severity: "error",
        });
    }
    rows.extend(sampled(r));
    cx.show(&rows, |rows| {
        let mut out = format!(
            "{}{}{}{}\n",
            centre("Count", 10),
            centre("Node", 35),
            centre("Reason", 45),
            centre("Severity", 10)
        );
        for e in rows {
            let _ = writeln!(
                out,
                "{:>10}{}{}{}",
                e.count,
                centre(&e.node, 35),
                centre(e.text, 45),
                centre(e.severity, 10)
            );
        }
        out
    })
}

#[derive(Serialize)]
struct ShownPool {
    pool: String,
    index: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    numa: Option<usize>,
    /// Bytes from one buffer to the next.
    size: usize,
    /// Bytes of packet data a buffer holds.
    data_size: usize,
    total: usize,
    /// Free ones.
    avail: u64,
    used: u64,
    /// Of those, packets that wait for a neighbour.
    held: u64,
    pages: &'static str,
}

fn buffers(r: &mut Router, _: &Args, cx: &Context) -> Result<Output> {
    let total = r.engine.config().buffers;
    let rows: Vec<ShownPool> = r
        .engine
        .counters()
        .enumerate()
        .map(|(index, c)| {
            let cpu = r.engine.worker_config(index).and_then(|w| w.cpu);
            let avail = c.buffers_free.get();
            ShownPool {
                pool: format!("wk_{index}"),
                index,
                numa: cpu.and_then(parshall_linux::affinity::node_of),
                size: parshall_buffer::STRIDE,
                data_size: parshall_buffer::DATA_SIZE,
                total,
                avail,
                used: (total as u64).saturating_sub(avail),
                held: c.held.get(),
                pages: r.engine.pages(index).map_or("", |p| p.name()),
            }
        })
        .collect();
    cx.show(&rows, |rows| {
        let mut out = format!(
            "{:<20}{:>6}{:>6}{:>6}{:>11}{:>9}{:>9}{:>8}{:>8}  {}\n",
            "Pool Name",
            "Index",
            "NUMA",
            "Size",
            "Data Size",
            "Total",
            "Avail",
            "Used",
            "Held",
            "Pages"
        );
        for p in rows {
            let _ = writeln!(
                out,
                "{:<20}{:>6}{:>6}{:>6}{:>11}{:>9}{:>9}{:>8}{:>8}  {}",
                p.pool,
                p.index,
                p.numa.map_or("any".to_owned(), |n| n.to_string()),
                p.size,
                p.data_size,
                p.total,
                p.avail,
                p.used,
                p.held,
                p.pages
            );
        }
        out
    })
}

#[derive(Serialize)]
struct ShownMemory {
    /// Bytes by what they are for.
    parts: Vec<(&'static str, usize)>,
    /// Values that workers may still see.
    pending_values: usize,
    resident_bytes: u64,
}

pub(super) fn memory(r: &mut Router, _: &Args, cx: &Context) -> Result<Output> {
    let s = &r.engine.shared;
    let mpls = s.mpls.get_control(0).map_or(0, |t| t.memory());
    let data = ShownMemory {
        parts: vec![
            ("ip4 forwarding tables", s.ip4.memory()),
            ("ip6 forwarding tables", s.ip6.memory()),
            ("mpls label table", mpls),
            ("adjacencies", s.adjacencies.memory()),
            ("load balances", s.load_balances.memory()),
            ("label impositions", s.impositions.memory()),
            ("label dispositions", s.dispositions.memory()),
        ],
        pending_values: s.domain.pending(),
        resident_bytes: resident(),
    };
    cx.show(&data, |m| {
        let mut out = String::new();
        for (name, n) in &m.parts {
            let _ = writeln!(out, "{name:<28}{:>12}", bytes(*n as u64));
        }
        let _ = writeln!(
            out,
            "{:<28}{:>12}\n{:<28}{:>12}",
            "values to be freed",
            m.pending_values,
            "resident in all",
            bytes(m.resident_bytes)
        );
        out
    })
}

/// Resident bytes of the process, 0 where the system does not say.
pub(crate) fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix("VmRSS:"));
    let kib = line.and_then(|l| l.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

#[derive(Serialize)]
struct ShownArc {
    arc: &'static str,
    features: Vec<&'static str>,
}

fn features(r: &mut Router, _: &Args, cx: &Context) -> Result<Output> {
    let rows: Vec<ShownArc> = r
        .engine
        .graph
        .arc_order()
        .into_iter()
        .map(|(arc, features)| ShownArc { arc, features })
        .collect();
    cx.show(&rows, |rows| {
        let mut out = String::from("Available feature paths\n");
        for a in rows {
            let _ = writeln!(out, "\n{}:", a.arc);
            for (i, f) in a.features.iter().enumerate() {
                let _ = writeln!(out, "  [{i:>2}]: {f}");
            }
        }
        out
    })
}

fn clear_runtime(r: &mut Router, _: &Args, _: &Context) -> Result<Output> {
    for worker in 0..r.engine.workers() {
        for slot in 0..r.engine.graph.slots() {
            let now = r.engine.node_totals(worker, slot);
            if now != NodeTotals::default() {
                r.baselines.nodes.insert((worker, slot), now);
            }
        }
    }
    r.baselines.workers = r.engine.counters().map(|c| WorkerCounts::of(c)).collect();
    r.baselines.runtime_since = Some(Instant::now());
    Ok(Output::Done)
}

fn clear_errors(r: &mut Router, _: &Args, _: &Context) -> Result<Output> {
    r.baselines.drops = r.engine.drops();
    r.baselines.sampled = r.sampler_totals();
    r.clear_fates();
    Ok(Output::Done)
}

fn clear_interfaces(r: &mut Router, _: &Args, _: &Context) -> Result<Output> {
    r.clear_interface_counters();
    Ok(Output::Done)
}
