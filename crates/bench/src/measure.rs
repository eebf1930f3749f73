//! Windows: run a rig for a while, read counters before and after, take medians.

use std::str::FromStr;
use std::time::{Duration, Instant};

use parshall_graph::tsc;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::cases::CASES;
use crate::report::short;
use crate::rig::Rig;
use crate::{BenchError, Report, Table};

/// `parshall bench forward`.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  parshall bench forward
  parshall bench forward --case ip4 --case mpls-swap --sflow off,10000
  parshall bench forward --repeats 15 --json > forward.json")]
pub struct ForwardArgs {
    /// Case to run, may be given again (default: all): l2xc, ip4, ip4-1m, ip6, ip6-500k, mpls-swap.
    #[arg(long = "case", value_name = "NAME")]
    pub cases: Vec<String>,
    /// Sampling rates to run each case with: `off` or N of 1-in-N, separated by commas.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "off",
        value_name = "RATES"
    )]
    pub sflow: Vec<SflowRate>,
    /// Windows a case is measured in; the median counts.
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeats: u32,
    /// Length of a window in milliseconds.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pub window_ms: u64,
    /// CPU to run on.
    #[arg(long, default_value_t = 0)]
    pub cpu: usize,
}

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

impl std::fmt::Display for SflowRate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SflowRate::Off => f.write_str("off"),
            SflowRate::OneIn(n) => write!(f, "1:{n}"),
        }
    }
}

/// Everything that was measured.
#[derive(Serialize)]
pub struct Figures {
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
    let figures = thread
        .join()
        .map_err(|_| BenchError("the bench thread panicked".into()))??;
    let of = "64-byte frames from a generator to a sink in memory, one worker; median, lowest and highest window";
    Ok(Report::new("forward", of, &figures)?.with_table(table(&figures)))
}

fn table(figures: &Figures) -> Table {
    let columns = [
        "case",
        "sflow",
        "Mpps",
        "lowest",
        "highest",
        "cycles",
        "samples",
        "lost",
        "cycles by node",
    ];
    let mut table = Table::new("Packets a second", &columns);
    for r in &figures.cases {
        let nodes: Vec<_> = r.nodes.iter().map(|(n, c)| format!("{n} {c}")).collect();
        table.push([
            r.case.to_owned(),
            r.sflow.to_string(),
            short(r.mpps),
            short(r.mpps_min),
            short(r.mpps_max),
            short(r.cycles_per_packet),
            r.samples.to_string(),
            r.samples_lost.to_string(),
            nodes.join(", "),
        ]);
    }
    table
}

fn run(args: &ForwardArgs) -> Result<Figures, BenchError> {
    let tsc_hz = parshall_linux::clock::tsc_hz();
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
    Ok(Figures { cases: rows })
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
