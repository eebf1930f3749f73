//! Windows: run a rig for a while, read counters before and after, take medians.

use std::str::FromStr;
use std::time::{Duration, Instant};

use parshall_graph::tsc;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::cases::CASES;
use crate::rig::Rig;
use crate::{BenchError, ForwardArgs};

/// A sampling rate on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SflowRate {
    /// The feature is not on.
    Off,
    /// 1 in N.
    OneIn(u32),
}

impl FromStr for SflowRate {
    type Err = String;
    fn from_str(s: &str) -> Result<SflowRate, String> {
        match s.parse() {
            _ if s == "off" => Ok(SflowRate::Off),
            Ok(n @ 1..=parshall_sample::MAX_RATE) => Ok(SflowRate::OneIn(n)),
            _ => Err(format!(
                "expected `off` or a rate from 1 to {}",
                parshall_sample::MAX_RATE
            )),
        }
    }
}

impl Serialize for SflowRate {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self {
            SflowRate::Off => s.serialize_str("off"),
            SflowRate::OneIn(n) => s.serialize_u32(*n),
        }
    }
}

/// Everything that was measured.
#[derive(Serialize)]
pub struct Report {
    /// Model name of the CPU.
    pub cpu: String,
    /// Ticks of the time-stamp counter a second.
    pub tsc_hz: u64,
    /// What the figures are of.
    pub of: &'static str,
    /// By case and rate.
    pub cases: Vec<Row>,
}

/// One case at one sampling rate.
#[derive(Serialize)]
pub struct Row {
    /// Case.
    pub case: &'static str,
    /// What it is.
    pub what: &'static str,
    /// Rate.
    pub sflow: SflowRate,
    /// Median of million packets a second.
    pub mpps: f64,
    /// Lowest and highest window.
    pub mpps_min: f64,
    /// Highest window.
    pub mpps_max: f64,
    /// Median of ticks a packet.
    pub cycles_per_packet: f64,
    /// Ticks a packet by node, over all windows.
    pub nodes: Map<String, Value>,
    /// Samples taken.
    pub samples: u64,
    /// Samples lost because the ring was full.
    pub samples_lost: u64,
    /// Frames made after the start (an allocation on the packet path): must be 0.
    pub late_frames: u64,
}

struct Window {
    mpps: f64,
    cycles: f64,
}

/// Runs the bench on a pinned thread.
pub fn forward(args: &ForwardArgs) -> Result<Report, BenchError> {
    for name in &args.cases {
        if !CASES.iter().any(|c| c.name == name) {
            let known: Vec<_> = CASES.iter().map(|c| c.name).collect();
            return Err(BenchError(format!(
                "no case {name}; there are {}",
                known.join(", ")
            )));
        }
    }
    let args = args.clone();
    let thread = std::thread::Builder::new()
        .name("bench".into())
        .spawn(move || {
            parshall_linux::affinity::pin(args.cpu).map_err(|e| BenchError::of("pinning", e))?;
            run(&args)
        });
    let thread = thread.map_err(|e| BenchError::of("thread", e))?;
    thread
        .join()
        .map_err(|_| BenchError("the bench thread panicked".into()))?
}

fn run(args: &ForwardArgs) -> Result<Report, BenchError> {
    let tsc_hz = tsc_hz();
    let chosen = CASES
        .iter()
        .filter(|c| args.cases.is_empty() || args.cases.iter().any(|n| n == c.name));
    let mut rigs = Vec::new();
    for case in chosen {
        eprintln!("setting up {} ({})", case.name, case.what);
        rigs.push((case, Rig::new(case)?));
    }
    let window = Duration::from_millis(args.window_ms);
    let mut windows: Vec<Vec<Window>> = Vec::new();
    windows.resize_with(rigs.len() * args.sflow.len(), Vec::new);
    let mut rows: Vec<Row> = Vec::new();
    for repeat in 0..args.repeats {
        for (c, (case, rig)) in rigs.iter_mut().enumerate() {
            for (s, &rate) in args.sflow.iter().enumerate() {
                rig.set_sflow(rate);
                turn_for(rig, window / 10);
                let before = rig.totals();
                let w = measure(rig, window, tsc_hz);
                let after = rig.totals();
                windows[c * args.sflow.len() + s].push(w);
                if repeat == 0 {
                    rows.push(row(case, rate));
                }
                add(&mut rows[c * args.sflow.len() + s], rig, &before, &after);
            }
        }
        eprintln!("round {} of {}", repeat + 1, args.repeats);
    }
    for (row, windows) in rows.iter_mut().zip(&windows) {
        finish(row, windows);
    }
    let of = "64-byte frames from a generator to a sink in memory, one worker";
    Ok(Report {
        cpu: cpu_model(),
        tsc_hz,
        of,
        cases: rows,
    })
}

fn row(case: &crate::cases::Case, sflow: SflowRate) -> Row {
    Row {
        case: case.name,
        what: case.what,
        sflow,
        mpps: 0.0,
        mpps_min: 0.0,
        mpps_max: 0.0,
        cycles_per_packet: 0.0,
        nodes: Map::new(),
        samples: 0,
        samples_lost: 0,
        late_frames: 0,
    }
}

fn turn_for(rig: &mut Rig, time: Duration) -> u64 {
    let start = Instant::now();
    let mut packets = 0;
    while start.elapsed() < time {
        for _ in 0..64 {
            packets += rig.turn() as u64;
        }
    }
    packets
}

fn measure(rig: &mut Rig, window: Duration, tsc_hz: u64) -> Window {
    let start = tsc();
    let packets = turn_for(rig, window) as f64;
    let ticks = tsc().wrapping_sub(start) as f64;
    Window {
        mpps: packets / (ticks / tsc_hz as f64) / 1e6,
        cycles: ticks / packets,
    }
}

/// Adds a window's node clocks and samples to a row. Node figures are kept as sums until `finish`.
fn add(row: &mut Row, rig: &Rig, before: &crate::rig::Totals, after: &crate::rig::Totals) {
    for (i, (b, a)) in before.nodes.iter().zip(&after.nodes).enumerate() {
        let d = a.since(b);
        if d.vectors == 0 {
            continue;
        }
        let sum = row
            .nodes
            .entry(rig.slot_name(i))
            .or_insert_with(|| Value::from(vec![0, 0]));
        if let Some([clocks, vectors]) = sum.as_array_mut().map(Vec::as_mut_slice) {
            *clocks = (clocks.as_u64().unwrap_or(0) + d.clocks).into();
            *vectors = (vectors.as_u64().unwrap_or(0) + d.vectors).into();
        }
    }
    row.samples += after.samples - before.samples;
    row.samples_lost += after.samples_lost - before.samples_lost;
    row.late_frames = after.late_frames;
}

fn finish(row: &mut Row, windows: &[Window]) {
    let sorted = |f: fn(&Window) -> f64| {
        let mut v: Vec<f64> = windows.iter().map(f).collect();
        v.sort_by(f64::total_cmp);
        v
    };
    let (mpps, cycles) = (sorted(|w| w.mpps), sorted(|w| w.cycles));
    row.mpps = round(mpps[mpps.len() / 2]);
    row.mpps_min = round(mpps[0]);
    row.mpps_max = round(mpps[mpps.len() - 1]);
    row.cycles_per_packet = round(cycles[cycles.len() / 2]);
    for sum in row.nodes.values_mut() {
        let part = |i: usize| sum.get(i).and_then(Value::as_f64).unwrap_or(0.0);
        *sum = round(part(0) / part(1)).into();
    }
}

fn round(x: f64) -> f64 {
    (x * 100.0).round() / 100.0
}

fn tsc_hz() -> u64 {
    parshall_linux::clock::tsc_hz()
}

fn cpu_model() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = info.lines().find(|l| l.starts_with("model name"));
    line.and_then(|l| l.split(':').nth(1))
        .map_or("unknown".into(), |m| m.trim().to_owned())
}
