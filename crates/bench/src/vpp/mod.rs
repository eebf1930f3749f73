//! VPP as the peer: what it did on record, and the same cases on an installation at hand.
//!
//! The project holds nothing of VPP, only the driver of its command line. A VPP of our own is started for
//! each case with a private configuration in a temporary folder (one worker, no DPDK, its own sockets), is
//! given the tables and a packet generator that replays a pcap into `ethernet-input`, and is asked for
//! `show runtime`: the way its own figures are usually taken. Follows VPP's `packet-generator`, `ip route`,
//! `show runtime` and `startup.conf` documentation.

mod cli;
mod process;
mod runtime;
mod setup;

use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::cases::Case;
use crate::stats::{median, round};
use crate::{BenchError, SflowRate};
use cli::Cli;
use process::Vpp;
use runtime::Runtime;

/// Where the recorded figures come from.
pub const RECORD: &str = "VPP 26.10-rc0 measured on the same kind of machine (AMD EPYC, TSC 2.6 GHz, one worker, \
    64-byte frames, its packet generator replaying a pcap in memory)";

/// A figure on record.
#[derive(Clone, Copy, Debug)]
pub struct Recorded {
    /// Our case that does the same work.
    pub case: &'static str,
    /// Million packets a second; the middle where it was a range.
    pub mpps: f64,
    /// Clocks a packet, all nodes; the middle where it was a range.
    pub clocks: f64,
}

/// The figures of [`RECORD`].
pub const RECORDED: &[Recorded] = &[
    Recorded {
        case: "l2xc",
        mpps: 17.3,
        clocks: 149.0,
    },
    Recorded {
        case: "l2bridge-16k",
        mpps: 12.8,
        clocks: 202.0,
    },
    Recorded {
        case: "l2bridge-100k",
        mpps: 12.6,
        clocks: 205.0,
    },
    Recorded {
        case: "ip4",
        mpps: 14.5,
        clocks: 177.0,
    },
    Recorded {
        case: "ip4-1m",
        mpps: 14.9,
        clocks: 173.0,
    },
    Recorded {
        case: "ip4-full",
        mpps: 13.15,
        clocks: 197.0,
    },
    Recorded {
        case: "ip6",
        mpps: 16.7,
        clocks: 155.0,
    },
    Recorded {
        case: "ip6-full",
        mpps: 2.1,
        clocks: 1240.0,
    },
    Recorded {
        case: "mpls-swap",
        mpps: 14.4,
        clocks: 178.0,
    },
];

/// The figure on record for a case.
pub fn recorded(case: &str) -> Option<&'static Recorded> {
    RECORDED.iter().find(|r| r.case == case)
}

/// What an installation did.
#[derive(Clone, Debug, Serialize)]
pub struct Peer {
    /// What it calls itself.
    pub version: String,
    /// By case and sampling rate.
    pub cases: Vec<PeerRow>,
}

/// One case at one sampling rate.
#[derive(Clone, Debug, Serialize)]
pub struct PeerRow {
    /// Case.
    pub case: &'static str,
    /// Rate.
    pub sflow: SflowRate,
    /// Million packets a second out, median of the windows.
    pub mpps: f64,
    /// Slowest window.
    pub mpps_min: f64,
    /// Fastest window.
    pub mpps_max: f64,
    /// Clocks a packet, all nodes, median.
    pub clocks: f64,
    /// Clocks a packet by node, of the last window.
    pub nodes: Map<String, Value>,
}

/// How long and how often `show runtime` is asked for.
#[derive(Clone, Copy, Debug)]
struct Windows {
    warm: Duration,
    length: Duration,
    count: usize,
}

const WINDOWS: Windows = Windows {
    warm: Duration::from_secs(1),
    length: Duration::from_secs(4),
    count: 3,
};

/// Checks that there is a VPP at `path`.
///
/// # Errors
/// When there is none.
pub fn present(path: &Path) -> Result<(), BenchError> {
    process::program(path).map(drop)
}

/// Runs the cases on the VPP at `path`, its worker on `cpu`.
///
/// # Errors
/// When there is none, it does not start, or refuses a command; says which and what it answered.
pub fn measure(
    path: &Path,
    cpu: usize,
    cases: &[&'static Case],
    rates: &[SflowRate],
) -> Result<Peer, BenchError> {
    let mut peer = Peer {
        version: String::new(),
        cases: Vec::new(),
    };
    for case in cases {
        eprintln!("VPP: setting up {} ({})", case.name, case.what);
        let (vpp, mut cli) = Vpp::start(path, cpu)?;
        let version = cli.run("show version")?;
        peer.version = version.lines().next().unwrap_or("VPP").trim().to_owned();
        peer.cases
            .extend(drive(&mut cli, case, rates, vpp.folder(), WINDOWS)?);
    }
    Ok(peer)
}

/// Sets a case up on a VPP that has started and takes its windows.
fn drive(
    cli: &mut Cli,
    case: &'static Case,
    rates: &[SflowRate],
    folder: &Path,
    windows: Windows,
) -> Result<Vec<PeerRow>, BenchError> {
    setup::apply(cli, case, folder)?;
    let mut rows = Vec::new();
    for &rate in rates {
        for command in setup::sflow(rate) {
            cli.run(&command)?;
        }
        cli.run("packet-generator enable-stream bench")?;
        std::thread::sleep(windows.warm);
        let mut taken = Vec::new();
        for _ in 0..windows.count {
            cli.run("clear runtime")?;
            std::thread::sleep(windows.length);
            taken.push(Runtime::parse(&cli.run("show runtime")?)?);
        }
        cli.run("packet-generator disable-stream bench")?;
        rows.push(row(case, rate, &taken)?);
    }
    Ok(rows)
}

fn row(case: &'static Case, sflow: SflowRate, windows: &[Runtime]) -> Result<PeerRow, BenchError> {
    let (Some(last), true) = (windows.last(), windows.iter().all(Runtime::forwards)) else {
        let text = "VPP did not send out what came in; its `show runtime`";
        return Err(BenchError(format!("{}: {text}: {windows:?}", case.name)));
    };
    let mpps = || windows.iter().map(|w| w.out / 1e6);
    Ok(PeerRow {
        case: case.name,
        sflow,
        mpps: round(median(mpps()), 2),
        mpps_min: round(mpps().fold(f64::INFINITY, f64::min), 2),
        mpps_max: round(mpps().fold(0.0, f64::max), 2),
        clocks: round(median(windows.iter().map(Runtime::clocks)), 1),
        nodes: last
            .nodes
            .iter()
            .map(|n| (n.name.clone(), n.clocks.into()))
            .collect(),
    })
}

#[cfg(test)]
mod tests;
