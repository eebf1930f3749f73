//! `bench memif`: packets to and fro between a testpmd and the router, over shared memory.
//!
//! A testpmd with two memif ports sends one burst from each and from then on hands what comes in at one port
//! out at the other (`io`). At the other end of both is the router, cross-connecting two memif interfaces, or, as
//! the measure of all things, a second testpmd doing the same. Each has a CPU for itself. What the first
//! testpmd receives a second, both ports together, is the figure of both. They take turns, so that whatever
//! else the machine does meets both alike; each pair gives a ratio, and the median of those counts.

mod rig;
mod testpmd;

use std::time::Duration;

use parshall_drivers::memif::Role;
use serde::Serialize;

use crate::report::short;
use crate::stats::{median, round};
use crate::{Bar, BenchError, Report, Table};
use rig::{Router, Stages};
use testpmd::{Testpmd, Traffic};

/// Share of testpmd's figure that the router must have.
const BAR: f64 = 0.95;
/// Readings in a window; their median counts.
const READINGS: u32 = 5;
/// Time from the first packets to the first reading.
const WARM: Duration = Duration::from_millis(200);

/// `parshall bench memif`.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  parshall bench memif
  parshall bench memif --repeats 11 --role slave --json
  parshall bench memif --frame-bytes 1500

Needs DPDK's testpmd (Debian: apt-get install dpdk-dev) and two CPUs.")]
pub struct MemifArgs {
    /// Pairs of windows, router and testpmd, for each role.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeats: u32,
    /// Length of a window in milliseconds.
    #[arg(long, default_value_t = 800, value_parser = clap::value_parser!(u64).range(50..=60_000))]
    pub window_ms: u64,
    /// Which end the router is (default: both, one after the other).
    #[arg(long, value_enum, value_name = "ROLE")]
    pub role: Option<Which>,
    /// Bytes of each frame.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(64..=2048))]
    pub frame_bytes: u16,
    /// Packets testpmd sends at first from each port, and handles at a time.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=512))]
    pub burst: u32,
    /// CPU of what is measured.
    #[arg(long, default_value_t = 1)]
    pub cpu: usize,
    /// CPU of the testpmd at the other end.
    #[arg(long, default_value_t = 0)]
    pub peer_cpu: usize,
}

/// An end of a memif.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Which {
    /// Listens, and uses the other's memory.
    Master,
    /// Connects, and makes the memory.
    Slave,
}

impl Which {
    fn role(self) -> Role {
        match self {
            Which::Master => Role::Master,
            Which::Slave => Role::Slave,
        }
    }
    fn other(self) -> Which {
        match self {
            Which::Master => Which::Slave,
            Which::Slave => Which::Master,
        }
    }
}

/// What was measured, for machines.
#[derive(Clone, Debug, Serialize)]
struct Figures {
    frame_bytes: u16,
    burst: u32,
    roles: Vec<Row>,
}

/// One role.
#[derive(Clone, Debug, Serialize)]
struct Row {
    role: &'static str,
    /// Million packets a second that came back, both directions together: median.
    mpps: f64,
    /// The same with testpmd in the router's place.
    testpmd_mpps: f64,
    /// Median of the ratios of neighbouring windows.
    ratio: f64,
    ratio_min: f64,
    ratio_max: f64,
    /// Ticks a packet and packets a frame by node of the router, in its last window.
    nodes: Vec<Node>,
}

#[derive(Clone, Debug, Serialize)]
struct Node {
    name: String,
    cycles_per_packet: f64,
    packets_per_frame: f64,
}

/// Runs the bench.
///
/// # Errors
/// When testpmd or the router cannot be started, or do not connect.
pub fn measure(args: &MemifArgs) -> Result<Report, BenchError> {
    let cpus = parshall_linux::affinity::allowed_cpus();
    let cpus = cpus.map_err(|e| BenchError::of("CPUs", e))?;
    for cpu in [args.cpu, args.peer_cpu] {
        if !cpus.contains(&cpu) || args.cpu == args.peer_cpu {
            return Err(BenchError(format!(
                "--cpu {} --peer-cpu {}: two different CPUs are needed, allowed are {}",
                args.cpu,
                args.peer_cpu,
                parshall_linux::affinity::ranges(&cpus)
            )));
        }
    }
    let roles = match args.role {
        Some(role) => vec![role],
        None => vec![Which::Master, Which::Slave],
    };
    let rows = roles.into_iter().map(|role| measure_role(args, role));
    let rows = rows.collect::<Result<Vec<_>, _>>()?;
    report(args, rows)
}

fn measure_role(args: &MemifArgs, role: Which) -> Result<Row, BenchError> {
    let (mut ours, mut theirs, mut stages) = (Vec::new(), Vec::new(), Stages::new());
    for repeat in 0..args.repeats {
        let (mpps, nodes) = window(args, role, true)?;
        ours.push(mpps);
        stages = nodes;
        theirs.push(window(args, role, false)?.0);
        eprintln!(
            "{}: pair {} of {}: {} and {} Mpps",
            role.role().name(),
            repeat + 1,
            args.repeats,
            short(mpps),
            short(theirs.last().copied().unwrap_or(0.0))
        );
    }
    let ratios: Vec<f64> = ours.iter().zip(&theirs).map(|(a, b)| a / b).collect();
    let fold = |f: fn(f64, f64) -> f64| ratios.iter().copied().reduce(f).unwrap_or(0.0);
    let node = |(name, cycles, packets): (String, f64, f64)| Node {
        name,
        cycles_per_packet: round(cycles, 1),
        packets_per_frame: round(packets, 1),
    };
    Ok(Row {
        role: role.role().name(),
        mpps: round(median(ours), 2),
        testpmd_mpps: round(median(theirs), 2),
        ratio: round(median(ratios.iter().copied()), 3),
        ratio_min: round(fold(f64::min), 3),
        ratio_max: round(fold(f64::max), 3),
        nodes: stages.into_iter().map(node).collect(),
    })
}

/// One window, with the router or a testpmd at the far end.
fn window(args: &MemifArgs, role: Which, router: bool) -> Result<(f64, Stages), BenchError> {
    let folder = tempfile::tempdir().map_err(|e| BenchError::of("folder", e))?;
    let socket = folder.path().join("memif.sock").display().to_string();
    let traffic = Traffic {
        burst: args.burst,
        bytes: args.frame_bytes,
    };
    let near = || Testpmd::start(&socket, role.other().role(), args.peer_cpu, traffic);
    let far = || Far::start(&socket, role, args.cpu, traffic, router);
    // testpmd's slaves do not try again: the master comes first.
    let (mut near, mut far) = match role {
        Which::Master => {
            let far = far()?;
            (near()?, far)
        }
        Which::Slave => {
            let near = near()?;
            (near, far()?)
        }
    };
    near.wait_up()?;
    if let Far::Testpmd(far) = &mut far {
        far.wait_up()?;
    }
    near.say("start tx_first")?;
    std::thread::sleep(WARM);
    near.rate()?;
    let mut rates = Vec::new();
    for _ in 0..READINGS {
        std::thread::sleep(Duration::from_millis(args.window_ms) / READINGS);
        rates.push(near.rate()?);
    }
    drop(near);
    Ok((median(rates), far.finish()?))
}

/// What is measured.
enum Far {
    Router(Router),
    Testpmd(Testpmd),
}

impl Far {
    fn start(
        socket: &str,
        role: Which,
        cpu: usize,
        traffic: Traffic,
        router: bool,
    ) -> Result<Far, BenchError> {
        if router {
            return Router::start(socket, role.role(), cpu).map(Far::Router);
        }
        let mut testpmd = Testpmd::start(socket, role.role(), cpu, traffic)?;
        testpmd.say("start")?;
        Ok(Far::Testpmd(testpmd))
    }

    fn finish(&mut self) -> Result<Stages, BenchError> {
        match self {
            Far::Router(r) => r.finish(),
            Far::Testpmd(_) => Ok(Stages::new()),
        }
    }
}

fn report(args: &MemifArgs, rows: Vec<Row>) -> Result<Report, BenchError> {
    let columns = [
        "the router is",
        "Mpps",
        "testpmd",
        "ratio",
        "lowest",
        "highest",
    ];
    let mut table = Table::new("Router in the middle, and testpmd in its place", &columns);
    let mut nodes = Table::new(
        "Ticks a packet in the router",
        &["the router is", "node", "ticks", "packets a frame"],
    );
    for row in &rows {
        table.push([
            row.role.to_owned(),
            short(row.mpps),
            short(row.testpmd_mpps),
            format!("{:.3}", row.ratio),
            format!("{:.3}", row.ratio_min),
            format!("{:.3}", row.ratio_max),
        ]);
        for n in &row.nodes {
            nodes.push([
                row.role.to_owned(),
                n.name.clone(),
                short(n.cycles_per_packet),
                short(n.packets_per_frame),
            ]);
        }
    }
    let bar = |row: &Row| {
        let measure = format!("memif to testpmd and back, router as {}", row.role);
        Bar::at_least(measure, row.ratio, BAR, "of testpmd against testpmd")
    };
    // The bar is one of small packets.
    let bars: Vec<_> = match args.frame_bytes {
        64 => rows.iter().map(bar).collect(),
        _ => Vec::new(),
    };
    let of = format!(
        "frames of {} bytes over memif between testpmd (io, burst {}) on one CPU and the router, cross-connecting \
         two interfaces, on another; received by testpmd, both directions together",
        args.frame_bytes, args.burst
    );
    let figures = Figures {
        frame_bytes: args.frame_bytes,
        burst: args.burst,
        roles: rows,
    };
    let report = Report::new("memif", of, &figures)?;
    Ok(report.with_table(table).with_table(nodes).with_bars(bars))
}
