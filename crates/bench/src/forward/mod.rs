//! `parshall bench forward`: packets forwarded a second by whole graphs in memory.
//!
//! A repeat visits every case; a visit is cut into slices of [`SLICE`], and the sampling rates take turns
//! within it, forth and back. So what sampling costs is the median of differences between neighbours in
//! time on the same rig, which a busy machine hardly disturbs, not the difference of two medians.

mod crew;
mod figures;

use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::cases;
use crate::yardstick::{self, Yardstick};
use crate::{BenchError, Report, alloc};
pub(crate) use crew::waited_ns;
use crew::{Crew, Done, Job};
use figures::{Figures, Track};

/// Length of a slice. Shorter than most of a busy machine's time slices, so that many stay undisturbed;
/// long enough (a million packets) that starting and stopping does not show.
const SLICE: Duration = Duration::from_millis(10);

/// `parshall bench forward`.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  parshall bench forward
  parshall bench forward --case ip4 --case mpls-swap --sflow off,1000000,1000,100
  parshall bench forward --case ip4-full --workers 1,2
  parshall bench forward --case ip4 --sflow off,1000000,10000 --everything
  parshall bench forward --yardstick testpmd --repeats 15 --json > forward.json
  parshall bench forward --case ip4 --peer-vpp /opt/vpp")]
pub struct ForwardArgs {
    /// Case to run, may be given again (default: all): l2xc, l2bridge-16k, l2bridge-100k, ip4, ip4-acl200,
    /// ip4-1m, ip4-full, ip4-grown, ip6, ip6-500k, ip6-full, ip6-grown, mpls-swap, vxlan4-encap, vxlan4-decap.
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
    /// Where sampling is on, sample what is sent too, and monitor drops: all of telemetry that workers can be asked for.
    #[arg(long)]
    pub everything: bool,
    /// Numbers of workers to run each case with, separated by commas; each worker takes a CPU.
    #[arg(long, value_delimiter = ',', default_value = "1", value_name = "NUMBERS",
          value_parser = clap::value_parser!(u32).range(1..=64))]
    pub workers: Vec<u32>,
    /// Times that every case is visited; medians count.
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeats: u32,
    /// Time for each sampling rate in a visit, in milliseconds.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pub window_ms: u64,
    /// CPU of the first worker; the others take the next ones.
    #[arg(long, default_value_t = 0)]
    pub cpu: usize,
    /// Also measure what the machine can do with a program that everybody knows.
    #[arg(long, value_enum, value_name = "PROGRAM")]
    pub yardstick: Option<yardstick::Program>,
    /// Also run the cases on this VPP (the folder of an installation, or its `vpp`) and compare.
    #[arg(long, value_name = "PATH")]
    pub peer_vpp: Option<std::path::PathBuf>,
}

/// A sampling rate on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SflowRate {
    /// The feature is not on.
    Off,
    /// 1 in N.
    OneIn(u32),
}

impl SflowRate {
    /// N, 0 = off.
    pub(crate) fn number(self) -> u32 {
        match self {
            SflowRate::Off => 0,
            SflowRate::OneIn(n) => n,
        }
    }
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

impl std::fmt::Display for SflowRate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SflowRate::Off => f.write_str("off"),
            SflowRate::OneIn(n) => write!(f, "1:{n}"),
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

/// What one row of figures is of: case, workers, rate.
type Key = (usize, u32, SflowRate);

/// Runs the bench.
///
/// # Errors
/// When a case is unknown or cannot be set up, or a program that was asked for is missing.
pub fn measure(args: &ForwardArgs) -> Result<Report, BenchError> {
    let cases = cases::chosen(&args.cases)?;
    let most = args.workers.iter().copied().max().unwrap_or(1);
    if let Some(program) = args.yardstick {
        yardstick::present(program)?;
    }
    if let Some(path) = &args.peer_vpp {
        crate::vpp::present(path)?;
    }
    let crew = Crew::new(&cases, most, args.cpu)?;
    let mut tracks: BTreeMap<Key, Track> = BTreeMap::new();
    let mut yardstick = Yardstick::default();
    for repeat in 0..args.repeats {
        if args.yardstick.is_some() && Yardstick::due(repeat, args.repeats) {
            yardstick.measure(args.cpu)?;
        }
        for case in 0..cases.len() {
            for &workers in &args.workers {
                visit(&crew, args, case, workers, &mut tracks)?;
            }
        }
        eprintln!("round {} of {}", repeat + 1, args.repeats);
    }
    drop(crew);
    let mut figures = Figures::new(&cases, &args.workers, &args.sflow, &tracks);
    if args.yardstick.is_some() {
        figures.yardstick = Some(yardstick.figures());
    }
    if let Some(path) = &args.peer_vpp {
        figures.peer = Some(crate::vpp::measure(path, args.cpu, &cases, &args.sflow)?);
    }
    report(&figures, args)
}

/// One visit of a case: slices with the rates in turn, then each rate for a while without a pause, which
/// is what a sample ring must stand.
fn visit(
    crew: &Crew,
    args: &ForwardArgs,
    case: usize,
    workers: u32,
    tracks: &mut BTreeMap<Key, Track>,
) -> Result<(), BenchError> {
    let window = Duration::from_millis(args.window_ms);
    let slices = (window.as_millis() / SLICE.as_millis()).max(1) as u32;
    let mut order = args.sflow.clone();
    let work = |sflow, time| -> Result<Vec<Done>, BenchError> {
        let everything = args.everything;
        let job = Job {
            case,
            sflow,
            everything,
            time,
        };
        crew.work(workers, job)
    };
    for slice in 0..slices {
        for &sflow in &order {
            let done = work(sflow, window / slices)?;
            let track = tracks.entry((case, workers, sflow)).or_default();
            track.slice(&done, slice == 0);
        }
        order.reverse();
    }
    for &sflow in args.sflow.iter().filter(|r| **r != SflowRate::Off) {
        let done = work(sflow, window)?;
        let track = tracks.entry((case, workers, sflow)).or_default();
        track.sustained(&done);
    }
    Ok(())
}

fn report(figures: &Figures, args: &ForwardArgs) -> Result<Report, BenchError> {
    let of = format!(
        "{}-byte frames from a generator to a sink in memory, {} buffers a worker; medians of {} visits of {} ms",
        cases::FRAME_BYTES,
        crate::rig::BUFFERS,
        args.repeats,
        args.window_ms
    );
    let mut report = Report::new("forward", of, figures)?;
    if args.everything {
        report.of += "; sampled in both directions, drops monitored";
    }
    report.tables = figures.tables();
    report.bars = figures.bars();
    report.faults = figures.faults();
    if alloc::allocations().is_none() {
        report
            .faults
            .push("this program does not count allocations".into());
    }
    Ok(report)
}
