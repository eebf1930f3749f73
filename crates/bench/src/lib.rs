//! Forwarding benches of whole graphs, in memory, on one pinned thread.
//!
//! The source is a packet generator that takes a fresh buffer and writes the frame's bytes for every
//! packet, the sink a generator interface that frees it; every header check is on. So the figures compare
//! with VPP's packet generator (`show runtime`). Cases and sampling rates are interleaved in short
//! windows, and the median window counts, because the machines this runs on are shared.

mod cases;
mod measure;
mod report;
mod rig;

use std::process::ExitCode;

pub use cases::CASES;
pub use measure::SflowRate;

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
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// Runs the forwarding bench and prints what it measured.
pub fn forward(args: &ForwardArgs) -> ExitCode {
    match measure::forward(args) {
        Ok(report) => {
            report::print(&report, args.json);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("parshall bench: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Why a bench did not run.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BenchError(String);

impl BenchError {
    fn of(what: &str, error: impl std::fmt::Display) -> BenchError {
        BenchError(format!("{what}: {error}"))
    }
}
