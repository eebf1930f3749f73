//! `parshall bench drops`: what a flood of drops beside good traffic costs that traffic, with and without monitoring.
//!
//! One worker forwards IPv4 from a generator as fast as it can and receives, on a second interface, packets that a
//! blackhole route swallows, at a steady rate. Four ways take turns in short slices, forth and back: with and without the
//! flood, with and without drop monitoring. What monitoring costs is the median over pairs of slices next to each other.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parshall_buffer::{Frame, Pool};
use parshall_counters::DropReason;
use parshall_device::{RxBurst, RxQueue};
use parshall_graph::tsc;
use parshall_wire::{MacAddr, PacketBuilder};
use serde::Serialize;

use crate::drain::Drain;
use crate::forward::waited_ns;
use crate::internet::Random;
use crate::rig::{Bed, FLOODED, PEER_MAC, ROUTER_MAC, Rig};
use crate::stats::{Spread, median, round};
use crate::{Bar, BenchError, Report, Table, cases};

/// Most percent of good traffic that monitoring may cost under a flood.
const BAR: f64 = 3.0;
/// A slice.
const SLICE: Duration = Duration::from_millis(10);
/// Time after a change that is not measured.
const WARM: Duration = Duration::from_micros(500);
/// Where the flood goes, and comes from.
const HOLE: &str = "203.0.113.0/24";
const TARGET: [u8; 4] = [203, 0, 113, 9];
const FROM: [u8; 4] = [198, 51, 100, 1];
/// A slice counts when its thread waited for its CPU for less than this share of it.
const DISTURBED: f64 = 0.002;

/// `parshall bench drops`.
#[derive(clap::Args, Clone, Debug)]
pub struct DropsArgs {
    /// Dropped packets a second.
    #[arg(long, default_value_t = 5_000_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub rate: u64,
    /// Reports a second that monitoring may make of each reason.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub limit: u32,
    /// Rounds of four slices.
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub rounds: u32,
    /// CPU of the worker.
    #[arg(long, default_value_t = 0)]
    pub cpu: usize,
}

/// One of the four ways.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Way {
    flood: bool,
    monitor: bool,
}

const WAYS: [Way; 4] = [
    Way {
        flood: false,
        monitor: false,
    },
    Way {
        flood: false,
        monitor: true,
    },
    Way {
        flood: true,
        monitor: false,
    },
    Way {
        flood: true,
        monitor: true,
    },
];

#[derive(Clone, Copy)]
struct Slice {
    /// Good packets a second of CPU time.
    good: f64,
    /// Dropped packets a second.
    dropped: f64,
    undisturbed: bool,
}

/// What was measured, for machines.
#[derive(Serialize)]
struct Figures {
    rate: u64,
    limit: u32,
    ways: Vec<Row>,
    /// Percent of good traffic that monitoring costs, by pairs: without a flood, and under it.
    monitoring_percent: [Spread; 2],
    /// Percent of good traffic that the flood costs, without monitoring.
    flood_percent: Spread,
    /// Ticks a dropped packet in the monitoring node, under the flood.
    monitor_ticks_per_drop: f64,
    /// Ticks a dropped packet in the node that counts and frees it.
    drop_ticks_per_drop: f64,
    /// Packets that monitoring showed, and those it only counted.
    shown: u64,
    suppressed: u64,
    /// Pairs that were undisturbed, of all.
    pairs: [usize; 2],
}

#[derive(Serialize)]
struct Row {
    flood: bool,
    monitoring: bool,
    good_mpps: f64,
    dropped_mpps: f64,
}

/// Packets for the hole at a steady rate.
struct Flood {
    frame: Vec<u8>,
    rate: u64,
    on: Arc<AtomicBool>,
    /// When it began and how many have come since; `None` while it is off.
    since: Option<(u64, u64)>,
}

impl RxQueue for Flood {
    fn poll(&mut self, pool: &mut Pool, frame: &mut Frame, now: u64) -> RxBurst {
        let mut burst = RxBurst::default();
        if !self.on.load(Ordering::Relaxed) {
            self.since = None;
            return burst;
        }
        let (start, mut made) = self.since.unwrap_or((now, 0));
        let due = (u128::from(now - start) * u128::from(self.rate) / 1_000_000_000) as u64;
        while made < due && frame.room() != 0 {
            let Some(b) = pool.packet_from(&self.frame, FLOODED) else {
                break;
            };
            frame.push(b);
            made += 1;
            burst.bytes += self.frame.len() as u64;
        }
        self.since = Some((start, made));
        burst
    }
}

/// Runs the bench.
///
/// # Errors
/// When it cannot be set up.
pub fn measure(args: &DropsArgs) -> Result<Report, BenchError> {
    let args = args.clone();
    // In a thread of its own, which can be pinned without pinning its caller.
    let worker = std::thread::Builder::new()
        .name("bench-wk0".into())
        .spawn(move || work(&args))
        .map_err(|e| BenchError::of("thread", e))?;
    match worker.join() {
        Ok(done) => done,
        Err(_) => Err(BenchError("the bench thread has ended".into())),
    }
}

fn work(args: &DropsArgs) -> Result<Report, BenchError> {
    parshall_linux::affinity::pin(args.cpu).map_err(|e| BenchError::of("pinning", e))?;
    let case = cases::chosen(&["ip4".into()])?[0];
    let bed = Bed::new(case)?;
    bed.blackhole(HOLE)?;
    let drain = Drain::start()?;
    let mut rig = Rig::new(&bed, 0, &drain)?;
    let on = Arc::<AtomicBool>::default();
    let frame = PacketBuilder::ethernet(MacAddr(PEER_MAC), MacAddr(ROUTER_MAC))
        .ipv4(FROM.into(), TARGET.into())
        .udp(1, 9)
        .total_len(cases::FRAME_BYTES)
        .build();
    rig.add_flood(Box::new(Flood {
        frame,
        rate: args.rate,
        on: on.clone(),
        since: None,
    }));
    let scheduler = File::open("/proc/thread-self/schedstat").ok();
    let mut slices: [Vec<Slice>; 4] = Default::default();
    let mut shown = 0;
    let mut order = [0, 1, 2, 3];
    for _ in 0..args.rounds {
        for i in order {
            let way = WAYS[i];
            on.store(way.flood, Ordering::Relaxed);
            rig.set_drop_monitoring(if way.monitor { args.limit } else { 0 });
            slices[i].push(slice(&mut rig, scheduler.as_ref()));
            shown += rig.take_drops();
        }
        order.reverse();
    }
    report(&figures(args, &slices, shown, &rig), args)
}

fn slice(rig: &mut Rig, scheduler: Option<&File>) -> Slice {
    turn_for(rig, WARM);
    let (sent, dropped) = rig.sent_and_dropped();
    let (waited, wall) = (waited_ns(scheduler), Instant::now());
    let start = tsc();
    turn_for(rig, SLICE);
    let ticks = tsc().wrapping_sub(start);
    let (wall, waited) = (wall.elapsed(), waited_ns(scheduler) - waited);
    let (sent_after, dropped_after) = rig.sent_and_dropped();
    let hz = parshall_linux::clock::tsc_hz() as f64;
    let used = ticks as f64 / hz - waited as f64 / 1e9;
    Slice {
        good: (sent_after - sent) as f64 / used,
        dropped: (dropped_after - dropped) as f64 / wall.as_secs_f64(),
        undisturbed: (waited as f64) < DISTURBED * wall.as_nanos() as f64,
    }
}

fn turn_for(rig: &mut Rig, time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        for _ in 0..16 {
            rig.turn();
        }
    }
}

/// Percent that `with` is below `without`, pair by pair; those that nobody disturbed, if there are enough.
fn cost(with: &[Slice], without: &[Slice], random: &mut Random) -> (Spread, usize) {
    let pairs: Vec<_> = with.iter().zip(without).collect();
    let clean: Vec<_> = pairs
        .iter()
        .filter(|(a, b)| a.undisturbed && b.undisturbed)
        .copied()
        .collect();
    let n = clean.len();
    let used = if n < 20 { pairs } else { clean };
    let percent = used.iter().map(|(a, b)| 100.0 * (1.0 - a.good / b.good));
    (Spread::of(percent, random).map(|x| round(x, 2)), n)
}

fn figures(args: &DropsArgs, slices: &[Vec<Slice>; 4], shown: u64, rig: &Rig) -> Figures {
    let mut random = Random::new(1);
    let [calm, calm_on, flood, flood_on] = slices;
    let (quiet, _) = cost(calm_on, calm, &mut random);
    let (under, clean) = cost(flood_on, flood, &mut random);
    let row = |(way, slices): (&Way, &Vec<Slice>)| Row {
        flood: way.flood,
        monitoring: way.monitor,
        good_mpps: round(median(slices.iter().map(|s| s.good)) / 1e6, 3),
        dropped_mpps: round(median(slices.iter().map(|s| s.dropped)) / 1e6, 3),
    };
    Figures {
        rate: args.rate,
        limit: args.limit,
        ways: WAYS.iter().zip(slices).map(row).collect(),
        monitoring_percent: [quiet, under],
        flood_percent: cost(flood, calm, &mut random).0,
        monitor_ticks_per_drop: round(rig.ticks_of("sflow-drop"), 2),
        drop_ticks_per_drop: round(rig.ticks_of("drop"), 2),
        shown,
        suppressed: rig.suppressed(DropReason::RouteBlackhole),
        pairs: [clean, flood.len()],
    }
}

fn report(f: &Figures, args: &DropsArgs) -> Result<Report, BenchError> {
    let of = format!(
        "{}-byte frames from a generator to a sink in memory, one worker, a flood of {} drops a second beside them; \
         medians of {} rounds",
        cases::FRAME_BYTES,
        args.rate,
        args.rounds
    );
    let mut table = Table::new(
        "Good traffic beside a flood of drops",
        &["flood", "monitoring", "good Mpps", "dropped Mpps"],
    );
    let word = |on| if on { "on" } else { "off" }.to_owned();
    for r in &f.ways {
        table.push([
            word(r.flood),
            word(r.monitoring),
            format!("{:.2}", r.good_mpps),
            format!("{:.2}", r.dropped_mpps),
        ]);
    }
    let spread = |s: &Spread| format!("{:.2} % ({:.2} to {:.2})", s.median, s.q1, s.q3);
    let mut costs = Table::new(
        "What it costs good traffic",
        &["what", "median (quartiles)"],
    );
    for (what, s) in [
        ("the flood, dropped without monitoring", &f.flood_percent),
        ("monitoring without a flood", &f.monitoring_percent[0]),
        ("monitoring under the flood", &f.monitoring_percent[1]),
    ] {
        costs.push([what.to_owned(), spread(s)]);
    }
    let bar = Bar {
        measure: "good traffic lost to drop monitoring under the flood".into(),
        bar: format!("at most {BAR} %"),
        found: spread(&f.monitoring_percent[1]),
        holds: f.monitoring_percent[1].median <= BAR,
    };
    let mut report = Report::new("drops", of, f)?;
    report.tables = vec![table, costs];
    report.bars = vec![bar];
    if f.shown == 0 || f.suppressed == 0 {
        report
            .faults
            .push("monitoring showed or suppressed nothing".into());
    }
    Ok(report)
}
