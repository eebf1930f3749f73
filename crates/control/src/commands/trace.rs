//! Packet traces and captures.

use std::fmt::Write;
use std::path::PathBuf;

use parshall_command::{Args, CommandSpec};
use parshall_drivers::pcap::CaptureReport;
use parshall_graph::TraceRecord;
use serde::Serialize;

use super::{Context, Handler, Output, command};
use crate::error::Result;
use crate::router::{CapturePlan, Router};

pub(super) const COMMANDS: &[CommandSpec<Handler>] = &[
    CommandSpec {
        pattern: "trace add <node:name node> <count:u32 1..=10000>",
        help: "Trace the next packets that come in at an input node",
        detail: "In each worker so many. `show trace` shows them.",
        params: &[
            ("node", "An input node, such as af-packet-input"),
            ("count", "Packets"),
        ],
        handler: add,
    },
    CommandSpec {
        pattern: "show trace [max <max:u32 1..=100000>]",
        help: "Show traced packets: what each node saw of them",
        detail: "50 at most when not said otherwise.",
        params: &[("max", "Packets to show")],
        handler: show,
    },
    command(
        "clear trace",
        "Forget traced packets, and trace no more",
        clear,
    ),
    CommandSpec {
        pattern: "pcap trace [* rx | tx | drop | max <max:u64> | intfc <if:word> | file <file:path>]",
        help: "Write packets to a pcap file",
        detail: "Without `max` until `pcap trace off`. A file name without a slash lies in /tmp; one that ends in \
                 .pcapng gets names of interfaces, and the reason of a drop as the comment of its packet.",
        params: &[
            ("rx", "Received packets"),
            ("tx", "Transmitted packets"),
            ("drop", "Dropped packets"),
            ("max", "Packets at most"),
            ("if", "Only this interface; `any` = all"),
            ("file", "File; made of the words above when not given"),
        ],
        handler: capture,
    },
    command("pcap trace off", "End the capture", stop_capture),
    command("pcap trace status", "Show the capture", show_capture),
    command("show pcap", "Show the capture", show_capture),
];

fn add(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    r.add_trace(args.need("node")?, args.need("count")?)?;
    Ok(Output::Done)
}

fn clear(r: &mut Router, _: &Args, _: &Context) -> Result<Output> {
    r.clear_traces();
    Ok(Output::Done)
}

#[derive(Serialize)]
struct ShownStep {
    node: &'static str,
    /// Nanoseconds of the monotonic clock.
    time_ns: u64,
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<&'static str>,
}

#[derive(Serialize)]
struct ShownPacket {
    worker: usize,
    steps: Vec<ShownStep>,
}

fn step(r: &Router, t: &TraceRecord) -> ShownStep {
    let spec = r.engine.graph.spec(t.node);
    ShownStep {
        node: spec.map_or("interface-tx", |s| s.name),
        time_ns: t.time,
        text: spec.map_or_else(|| parshall_graph::hex_line(t), |s| (s.format)(t)),
        next: spec.and_then(|s| s.next.get(usize::from(t.next))).copied(),
    }
}

fn show(r: &mut Router, args: &Args, cx: &Context) -> Result<Output> {
    r.collect_traces();
    let max = args.get::<usize>("max").unwrap_or(50);
    let rows: Vec<ShownPacket> = r
        .traces
        .packets()
        .into_iter()
        .take(max)
        .map(|p| ShownPacket {
            worker: p.worker,
            steps: p.records.iter().map(|t| step(r, t)).collect(),
        })
        .collect();
    cx.show(&rows, |rows| {
        let mut out = String::new();
        let workers = rows.iter().map(|p| p.worker).max().map_or(0, |w| w + 1);
        for w in 0..workers {
            // Writing to a String cannot fail, here and below.
            let _ = writeln!(
                out,
                "------------------- Start of thread {} wk_{w} -------------------",
                w + 1
            );
            for (n, p) in rows.iter().filter(|p| p.worker == w).enumerate() {
                let _ = writeln!(out, "Packet {}\n", n + 1);
                p.steps.iter().for_each(|s| print_step(&mut out, s));
                out.push('\n');
            }
        }
        if out.is_empty() {
            out.push_str("No packets in trace buffer\n");
        }
        out
    })
}

fn print_step(out: &mut String, s: &ShownStep) {
    let us = s.time_ns / 1000;
    let (h, m, sec) = (
        us / 3_600_000_000,
        us / 60_000_000 % 60,
        us / 1_000_000 % 60,
    );
    let _ = writeln!(
        out,
        "{h:02}:{m:02}:{sec:02}:{:06}: {}",
        us % 1_000_000,
        s.node
    );
    for line in s.text.lines() {
        let _ = writeln!(out, "  {line}");
    }
}

fn capture(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    let points = ["rx", "tx", "drop"].map(|w| args.has(w));
    let if_index = match args.get::<&str>("if") {
        Some("any") | None => None,
        Some(name) => Some(r.interfaces.find(name)?),
    };
    let file = match args.get::<&str>("file") {
        Some(f) if f.contains('/') => PathBuf::from(f),
        Some(f) => PathBuf::from("/tmp").join(f),
        None => PathBuf::from("/tmp").join(default_file(points)),
    };
    r.start_capture(CapturePlan {
        points,
        limit: args.get("max").unwrap_or(0),
        file,
        if_index,
        reason: None,
    })?;
    Ok(Output::Done)
}

fn default_file(points: [bool; 3]) -> String {
    let words = ["rx", "tx", "drop"];
    let said: Vec<&str> = words
        .into_iter()
        .zip(points)
        .filter(|p| p.1)
        .map(|p| p.0)
        .collect();
    format!("{}.pcap", said.join("and"))
}

#[derive(Serialize)]
struct ShownCapture {
    running: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<PathBuf>,
    packets: u64,
    lost: u64,
}

fn shown(running: bool, report: Option<&CaptureReport>) -> ShownCapture {
    ShownCapture {
        running,
        file: report.map(|c| c.path.clone()),
        packets: report.map_or(0, |c| c.written),
        lost: report.map_or(0, |c| c.lost),
    }
}

fn show_capture(r: &mut Router, _: &Args, cx: &Context) -> Result<Output> {
    let data = match r.captures.running() {
        Some((_, report)) => shown(true, Some(&report)),
        None => shown(false, r.captures.last()),
    };
    cx.show(&data, print_capture)
}

pub(super) fn stop_capture(r: &mut Router, _: &Args, cx: &Context) -> Result<Output> {
    // One that reached its limit has ended by itself: its report is still wanted.
    let report = r.stop_capture().or_else(|| r.captures.last().cloned());
    let data = shown(false, report.as_ref());
    cx.show(&data, print_capture)
}

fn print_capture(c: &ShownCapture) -> String {
    let Some(file) = &c.file else {
        return "No packets captured...\n".to_owned();
    };
    let (file, lost) = (file.display(), c.lost);
    if c.running {
        format!(
            "pcap trace is on: {} packets in {file}, {lost} lost\n",
            c.packets
        )
    } else {
        format!(
            "Write {} packets to {file}, and stop capture... ({lost} lost)\n",
            c.packets
        )
    }
}
