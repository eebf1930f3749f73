//! Threads and receive queues: who runs where, who polls what.

use std::fmt::Write;

use parshall_command::{Args, CommandSpec};
use parshall_graph::RxMode;
use parshall_linux::{affinity, clock::tsc_hz};
use serde::Serialize;

use super::{Context, Handler, Output, command};
use crate::error::{Error, Result};
use crate::router::Router;

pub(super) const COMMANDS: &[CommandSpec<Handler>] = &[
    command(
        "show threads",
        "Show threads, where they run and how busy they are",
        threads,
    ),
    command(
        "show interface rx-placement",
        "Show which worker polls which receive queue",
        placement,
    ),
    CommandSpec {
        pattern: "set interface rx-placement <if:interface> [queue <queue:u16>] ( worker <worker:u16> | main | default )",
        help: "Have a receive queue polled by another worker",
        detail: "Moves queue 0 when none is named. Can be done under traffic: what arrives meanwhile waits in the \
                 device, and all that the old worker has received leaves it before the new one polls. With `default` it stays where \
                 it is, and is no part of the configuration any more.",
        params: &[
            ("queue", "Number of the receive queue"),
            (
                "worker",
                "Number of the worker, as in `show threads`: wk0 is 0",
            ),
        ],
        handler: set_placement,
    },
    CommandSpec {
        pattern: "set interface rx-mode <if:interface> [queue <queue:u16>] <mode:{polling|interrupt|adaptive|default}>",
        help: "Set how receive queues are looked at",
        detail: "polling: always, the worker never sleeps. interrupt: the worker sleeps whenever nothing waits. \
                 adaptive: it polls while packets come and sleeps a little after the last one. A worker with \
                 several queues stays as awake as the most eager of them wants. All queues when none is named.",
        params: &[("queue", "Number of the receive queue")],
        handler: set_mode,
    },
];

#[derive(Serialize)]
struct ShownQueue {
    worker: usize,
    node: &'static str,
    interface: String,
    queue: usize,
    mode: &'static str,
}

fn placement(r: &mut Router, _: &Args, cx: &Context) -> Result<Output> {
    let mut rows = Vec::new();
    for i in r.interfaces.iter() {
        let Some(spec) = &i.spec else { continue };
        rows.extend(i.placement.iter().map(|p| ShownQueue {
            worker: p.worker,
            node: spec.kind.input_node(),
            interface: i.name.clone(),
            queue: p.queue,
            mode: p.mode.word(),
        }));
    }
    rows.sort_by_key(|q| (q.worker, q.node));
    cx.show(&rows, |rows| {
        let mut out = String::new();
        let mut last = None;
        for q in rows {
            if last != Some((q.worker, q.node)) {
                if last.map(|l: (usize, _)| l.0) != Some(q.worker) {
                    // Writing to a String cannot fail, here and below.
                    let _ = writeln!(out, "Thread {} (wk_{}):", q.worker + 1, q.worker);
                }
                let _ = writeln!(out, " node {}:", q.node);
                last = Some((q.worker, q.node));
            }
            let _ = writeln!(out, "    {} queue {} ({})", q.interface, q.queue, q.mode);
        }
        out
    })
}

fn set_placement(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    let Some(worker) = args.get::<usize>("worker") else {
        if args.has("default") {
            r.reset_rx_placement(args.need("if")?, args.get("queue"))?;
            return Ok(Output::Done);
        }
        return Err(Error::refused(
            "the main thread takes no packets: name a worker, as in `worker 0`",
        ));
    };
    let queue = args.get("queue").unwrap_or(0);
    r.set_rx_placement(args.need("if")?, queue, worker)?;
    Ok(Output::Done)
}

fn set_mode(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    let mode = match args.need::<&str>("mode")? {
        "polling" => RxMode::Polling,
        "interrupt" => RxMode::Interrupt,
        "default" => {
            r.reset_rx_mode(args.need("if")?)?;
            return Ok(Output::Done);
        }
        _ => RxMode::Adaptive,
    };
    r.set_rx_mode(args.need("if")?, args.get("queue"), mode)?;
    Ok(Output::Done)
}

#[derive(Serialize)]
struct ShownThread {
    id: usize,
    name: String,
    #[serde(rename = "type")]
    kind: &'static str,
    /// The kernel's number of the thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    lwp: Option<i32>,
    /// CPU it is pinned to.
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu: Option<usize>,
    /// CPU it ran on last.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_cpu: Option<usize>,
    /// NUMA node of that CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    numa: Option<usize>,
    /// As the kernel sees it: running, sleeping.
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    queues: Option<usize>,
    /// Share of the time since `clear runtime` that went into packets, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    load: Option<f64>,
    loops: u64,
    sleeps: u64,
}

/// State and last CPU of a thread of this process (proc_pid_stat(5)).
fn thread_stat(tid: i32) -> Option<(&'static str, usize)> {
    let text = std::fs::read_to_string(format!("/proc/self/task/{tid}/stat")).ok()?;
    // The name may hold blanks and parentheses: the fields start behind the last one.
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    let state = match fields.next()? {
        "R" => "running",
        "S" | "I" => "sleeping",
        "D" => "waiting",
        "T" | "t" => "stopped",
        _ => "ended",
    };
    // `processor` is field 39, the state is field 3.
    Some((state, fields.nth(35)?.parse().ok()?))
}

fn shown_thread(id: usize, name: String, kind: &'static str, lwp: Option<i32>) -> ShownThread {
    let stat = lwp.and_then(thread_stat);
    let last_cpu = stat.map(|s| s.1);
    ShownThread {
        id,
        name,
        kind,
        lwp,
        cpu: None,
        last_cpu,
        numa: last_cpu.and_then(affinity::node_of),
        state: stat.map_or("unknown", |s| s.0),
        queues: None,
        load: None,
        loops: 0,
        sleeps: 0,
    }
}

/// Share of the time since `clear runtime` that a worker spent on packets, in percent: the ticks counted in
/// its nodes. Turns in which nothing came count as none.
fn load(r: &Router, worker: usize) -> f64 {
    let since = r.baselines.runtime_since.unwrap_or(r.started);
    let mut clocks = 0u64;
    for slot in 0..r.engine.graph.slots() {
        let before = r.baselines.nodes.get(&(worker, slot)).copied();
        let now = r.engine.node_totals(worker, slot);
        clocks = clocks.wrapping_add(now.since(&before.unwrap_or_default()).clocks);
    }
    let all = since.elapsed().as_secs_f64() * tsc_hz() as f64;
    (100.0 * clocks as f64 / all.max(1.0)).min(100.0)
}

/// A worker with what it does.
fn with_work(r: &Router, worker: usize, shown: ShownThread) -> ShownThread {
    let on = |p: &&crate::interface::Placement| p.worker == worker;
    let queues = r
        .interfaces
        .iter()
        .map(|i| i.placement.iter().filter(on).count());
    let counters = r.engine.counters().nth(worker);
    ShownThread {
        queues: Some(queues.sum()),
        load: Some(load(r, worker)),
        loops: counters.map_or(0, |c| c.loops.get()),
        sleeps: counters.map_or(0, |c| c.sleeps.get()),
        ..shown
    }
}

/// Threads that are neither control nor a worker: the agent's, those of command sockets.
fn other_threads(known: &[ShownThread]) -> Vec<ShownThread> {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else {
        return Vec::new();
    };
    let mut tids: Vec<i32> = tasks
        .flatten()
        .filter_map(|t| t.file_name().to_str()?.parse().ok())
        .filter(|tid| known.iter().all(|k| k.lwp != Some(*tid)))
        .collect();
    tids.sort_unstable();
    let name = |tid: i32| std::fs::read_to_string(format!("/proc/self/task/{tid}/comm"));
    tids.into_iter()
        .filter_map(|tid| Some((tid, name(tid).ok()?)))
        .enumerate()
        .map(|(i, (tid, name))| {
            shown_thread(
                known.len() + i,
                name.trim().to_owned(),
                "service",
                Some(tid),
            )
        })
        .collect()
}

fn threads(r: &mut Router, _: &Args, cx: &Context) -> Result<Output> {
    let mut rows: Vec<ShownThread> = Vec::new();
    for t in r.threads() {
        let id = rows.len();
        let kind = if t.is_worker { "workers" } else { "control" };
        let shown = ShownThread {
            cpu: t.cpu,
            ..shown_thread(id, t.name, kind, t.tid)
        };
        rows.push(match t.is_worker {
            true => with_work(r, id - 1, shown),
            false => shown,
        });
    }
    rows.extend(other_threads(&rows));
    cx.show(&rows, |rows| {
        let mut out = format!(
            "{:<4}{:<18}{:<10}{:>8}{:>7}{:>9}{:>6}  {:<10}{:>7}{:>8}{:>14}{:>12}\n",
            "ID",
            "Name",
            "Type",
            "LWP",
            "lcore",
            "Last CPU",
            "NUMA",
            "State",
            "Queues",
            "Load %",
            "Loops",
            "Sleeps"
        );
        let number = |n: Option<usize>, none: &str| n.map_or(none.to_owned(), |n| n.to_string());
        for t in rows {
            let _ = writeln!(
                out,
                "{:<4}{:<18}{:<10}{:>8}{:>7}{:>9}{:>6}  {:<10}{:>7}{:>8}{:>14}{:>12}",
                t.id,
                t.name,
                t.kind,
                t.lwp.map_or("-".to_owned(), |l| l.to_string()),
                number(t.cpu, "any"),
                number(t.last_cpu, "-"),
                number(t.numa, "-"),
                t.state,
                number(t.queues, "-"),
                t.load.map_or("-".to_owned(), |l| format!("{l:.1}")),
                t.loops,
                t.sleeps
            );
        }
        out
    })
}
