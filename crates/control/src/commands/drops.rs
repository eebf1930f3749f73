//! Dropped packets: which, why and where; reporting them to collectors, and writing them to a file.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

use parshall_agent::{AgentConfig, LastDrop, ReasonStatus};
use parshall_command::{Args, CommandSpec};
use parshall_counters::DropReason;
use parshall_graph::monotonic_ns;
use parshall_sflow_wire::reason as sflow_reason;
use serde::Serialize;

use super::runtime::slot_name;
use super::trace::stop_capture;
use super::{Context, Handler, Output, command};
use crate::error::{Error, Result};
use crate::header_line::header_line;
use crate::router::{CapturePlan, Router};

/// Dropped packets reported a second until told otherwise, as hsflowd has it.
const DEFAULT_LIMIT: u32 = 100;

pub(super) const COMMANDS: &[CommandSpec<Handler>] = &[
    CommandSpec {
        pattern: "sflow drop-monitoring [* off | limit <limit:u32 1..=10000>]",
        help: "Report dropped packets to collectors, a few of each reason",
        detail: "So many a second in all, with a turn for every reason; 100 when not said. What is not reported is \
                 counted.",
        params: &[
            ("off", "Report none"),
            ("limit", "Packets a second at most"),
        ],
        handler: monitor,
    },
    CommandSpec {
        pattern: "sflow drop-monitoring on [limit <limit:u32 1..=10000>]",
        help: "The same",
        detail: "",
        params: &[("limit", "Packets a second at most")],
        handler: monitor,
    },
    CommandSpec {
        pattern: "show drops",
        help: "Show drops by reason, those of the last second first",
        detail: "Counts start with `clear errors`. Interfaces and headers are those of the last packet of a reason, \
                 known while drop monitoring is on. Of the drops while it is on, each is reported (handed to the collectors or to \
                 the kernel's drop monitor), suppressed (over the limit) or, without collector and drop monitor, unexported.",
        params: &[],
        handler: show,
    },
    CommandSpec {
        pattern: "drop capture <file:path> [* max <max:u64> | reason <reason:name reason> | interface <if:interface>]",
        help: "Write dropped packets to a pcapng file, each with its reason as comment",
        detail: "Without `max` until `drop capture off`. A file name without a slash lies in /tmp, one without an \
                 ending gets .pcapng. One capture runs at a time, `pcap trace` included.",
        params: &[
            ("file", "The file"),
            ("max", "Packets at most"),
            ("reason", "Only packets dropped for this reason"),
            ("if", "Only packets that came in on this interface"),
        ],
        handler: capture,
    },
    command("drop capture off", "End the capture", stop_capture),
];

fn monitor(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    let limit = args.get("limit");
    if args.has("off") {
        if limit.is_some() {
            return Err(Error::refused("`off` has no limit"));
        }
        r.monitor_drops(0)?;
    } else {
        r.monitor_drops(limit.unwrap_or(DEFAULT_LIMIT))?;
    }
    Ok(Output::Done)
}

fn capture(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    let if_index = match args.get::<&str>("if") {
        Some(name) => Some(r.interfaces.find(name)?),
        None => None,
    };
    let mut file = PathBuf::from(args.need::<&str>("file")?);
    if file.parent().is_none_or(|p| p.as_os_str().is_empty()) {
        file = PathBuf::from("/tmp").join(file);
    }
    if file.extension().is_none() {
        file.set_extension("pcapng");
    }
    r.start_capture(CapturePlan {
        points: [false, false, true],
        limit: args.get("max").unwrap_or(0),
        file,
        if_index,
        reason: args.get::<&str>("reason").and_then(DropReason::from_name),
    })?;
    Ok(Output::Done)
}

#[derive(Serialize)]
struct ShownPlace {
    node: String,
    count: u64,
}

#[derive(Serialize)]
struct ShownLast {
    /// How long ago; not known of a loss without a packet.
    #[serde(skip_serializing_if = "Option::is_none")]
    ago_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rx: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tx: Option<String>,
    frame_length: u32,
    header: String,
}

#[derive(Serialize)]
struct ShownDrop {
    reason: &'static str,
    text: &'static str,
    group: &'static str,
    count: u64,
    /// In the last second.
    per_second: f64,
    sflow_code: u32,
    sflow_name: &'static str,
    /// Where, the most first.
    nodes: Vec<ShownPlace>,
    /// Handed to collectors or the drop monitor.
    reported: u64,
    /// Not reported, though monitoring was on: over the limit, or no room.
    suppressed: u64,
    /// Not reported for want of a collector and a drop monitor.
    unexported: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    last: Option<ShownLast>,
}

#[derive(Serialize)]
struct Shown {
    /// Reports a second at most; 0 = monitoring is off.
    limit: u32,
    drops: Vec<ShownDrop>,
}

fn show(r: &mut Router, _: &Args, cx: &Context) -> Result<Output> {
    let shown = Shown {
        limit: r.sflow.config.drop_limit,
        drops: rows(r),
    };
    cx.show(&shown, print)
}

fn rows(r: &Router) -> Vec<ShownDrop> {
    let mut places: BTreeMap<DropReason, Vec<ShownPlace>> = BTreeMap::new();
    for ((slot, reason), n) in r.engine.drops() {
        let before = r.baselines.drops.get(&(slot, reason)).copied();
        let count = n - before.unwrap_or(0);
        if let Some(node) = slot_name(r, usize::from(slot)).filter(|_| count != 0) {
            places
                .entry(reason)
                .or_default()
                .push(ShownPlace { node, count });
        }
    }
    let told = r
        .sflow
        .status()
        .map(|s| s.discards.reasons)
        .unwrap_or_default();
    let suppressed = r.suppressed_drops();
    let mut rows: Vec<ShownDrop> = places
        .into_iter()
        .map(|(reason, nodes)| {
            let told = told.iter().find(|t| t.reason == reason.name());
            let fates = r.fates(reason, told, &suppressed);
            row(r, reason, nodes, (told, fates))
        })
        .collect();
    rows.sort_by(|a, b| {
        let by_rate = b.per_second.total_cmp(&a.per_second);
        by_rate.then(b.count.cmp(&a.count))
    });
    rows
}

fn row(
    r: &Router,
    reason: DropReason,
    mut nodes: Vec<ShownPlace>,
    (told, [reported, suppressed, unexported]): (Option<&ReasonStatus>, [u64; 3]),
) -> ShownDrop {
    nodes.sort_by_key(|n| std::cmp::Reverse(n.count));
    ShownDrop {
        reason: reason.name(),
        text: reason.text(),
        group: reason.group().name(),
        count: nodes.iter().map(|n| n.count).sum(),
        per_second: r.drop_rates.rate(reason),
        sflow_code: reason.sflow_code(),
        sflow_name: sflow_reason::name(reason.sflow_code()).unwrap_or("?"),
        nodes,
        reported,
        suppressed,
        unexported,
        last: told.and_then(|t| t.last.as_ref()).map(|l| last(r, l)),
    }
}

fn last(r: &Router, l: &LastDrop) -> ShownLast {
    let name = |i: u32| (i != u32::MAX).then(|| r.interfaces.name(i).to_owned());
    let ago = monotonic_ns().saturating_sub(l.time_ns) / 1_000_000;
    ShownLast {
        ago_ms: (l.time_ns != 0).then_some(ago),
        rx: name(l.rx_if),
        tx: name(l.tx_if),
        frame_length: l.frame_len,
        header: header_line(l.protocol, &l.header),
    }
}

fn print(s: &Shown) -> String {
    let mut out = format!(
        "{:>12} {:>12}  {:<28} {:<32} {:<24} {:>10} {:>10}\n",
        "Count", "Per second", "Reason", "sFlow code", "Node", "Reported", "Suppressed"
    );
    // Writing to a String cannot fail, here and below.
    for d in &s.drops {
        let node = d.nodes.first().map_or("", |n| n.node.as_str());
        let more = match d.nodes.len() {
            0 | 1 => String::new(),
            n => format!(" +{}", n - 1),
        };
        let _ = writeln!(
            out,
            "{:>12} {:>12.0}  {:<28} {:<32} {:<24} {:>10} {:>10}",
            d.count,
            d.per_second,
            d.reason,
            format!("{} {}", d.sflow_code, d.sflow_name),
            format!("{node}{more}"),
            d.reported,
            d.suppressed
        );
        if let Some(l) = &d.last {
            print_last(&mut out, l);
        }
    }
    let _ = match s.limit {
        0 => writeln!(
            out,
            "drop monitoring is off; with `sflow drop-monitoring on` interfaces and headers are shown"
        ),
        n => writeln!(
            out,
            "drop monitoring: at most {n} of {} possible reports a second",
            AgentConfig::MAX_DROP_LIMIT
        ),
    };
    let unexported: u64 = s.drops.iter().map(|d| d.unexported).sum();
    if unexported != 0 {
        let _ = writeln!(
            out,
            "not reported, for there was no collector and no drop monitor: {unexported}; `sflow collector add` names one"
        );
    }
    out
}

fn print_last(out: &mut String, l: &ShownLast) {
    let _ = write!(out, "{:>27}last", "");
    if let Some(ms) = l.ago_ms {
        let _ = write!(out, " {:.1} s ago", ms as f64 / 1000.0);
    }
    for (word, name) in [("from", &l.rx), ("to", &l.tx)] {
        if let Some(name) = name {
            let _ = write!(out, " {word} {name}");
        }
    }
    if l.frame_length != 0 {
        let _ = write!(out, ": {}, frame of {} bytes", l.header, l.frame_length);
    }
    out.push('\n');
}
