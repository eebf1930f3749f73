//! `parshall sflow verify`: holds what samples say against what was counted, and says whether chance explains the difference.
//!
//! - [`stats`]: the mathematics.
//! - [`tally`]: samples and counters by interface, cut at the same places.
//! - `live`: counters of a running router; captures and streams bring their own.
//! - [`report`]: the verdicts.

mod live;
pub mod report;
pub mod stats;
pub mod tally;

#[cfg(test)]
mod tests;

use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use clap::Args;
use parshall_cli::ConnectionError;
use parshall_cli::DEFAULT_SOCKET;
use thiserror::Error;

use crate::args::{Listen, SFLOW_PORT, parse_listen};
use crate::common::ToolError;
use crate::common::signals::stop_on_signals;
use crate::lint::arrivals::{self, InputError};
use live::Asked;
use report::{Report, Terms};
use tally::{Place, Tally};

const EXAMPLES: &str = "\
Examples:
  parshall sflow verify
        Asks the router on this machine for its counters, lets its agent send here for 30 seconds, and compares.
  parshall sflow verify --socket /run/parshall/cli.sock --listen 127.0.0.1:6343 --period 300
        The same with a collector that the router sends to already.
  parshall sflow verify capture.pcap
        Counters and samples of a capture: all between the first and the last counter sample of each interface.
  parshall sflow verify --listen 192.0.2.1:6343 --period 120 --json
        The same of a stream, from any agent.

Exit status: 0 = chance explains every deviation, 1 = it does not, 2 = nothing could be compared.
The mathematics: docs/sampling.md.";

/// Options of `parshall sflow verify`.
#[derive(Debug, Clone, Args)]
#[command(
    about = "Compare estimates from samples with true counters, interface by interface",
    after_help = EXAMPLES
)]
pub struct VerifyArgs {
    /// Capture files that hold counter samples and flow samples; `-` is standard input
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,

    /// Command socket of a running router, whose counters are the truth [default without --listen: /run/parshall/cli.sock]
    #[arg(long, value_name = "PATH", conflicts_with = "files")]
    pub socket: Option<PathBuf>,

    /// Address to listen on. Without it, the router is told to send to a port of 127.0.0.1, and to stop at the end
    #[arg(long, value_name = "ADDR[:PORT]", value_parser = parse_listen, conflicts_with = "files")]
    pub listen: Option<Listen>,

    /// Seconds to compare
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 30.0,
        conflicts_with = "files"
    )]
    pub period: f64,

    /// With files: only datagrams sent to this port; 0 = any
    #[arg(short = 'p', long, value_name = "PORT", default_value_t = SFLOW_PORT)]
    pub port: u16,

    /// Only these interfaces, by name or ifIndex
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub interface: Vec<String>,

    /// The chance in percent that a router without fault raises no alarm, all its interfaces together
    #[arg(long, value_name = "PERCENT", default_value_t = 99.9, value_parser = parse_confidence)]
    pub confidence: f64,

    /// Seconds of traffic that may lie on the wrong side of the period's ends: what passes between reading a counter and
    /// taking a sample
    #[arg(long, value_name = "SECONDS", default_value_t = 0.02)]
    pub slack: f64,

    /// Octet counters include the frame check sequence, as RFC 2863 has it; those of software routers mostly do not
    #[arg(long)]
    pub fcs: bool,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

fn parse_confidence(text: &str) -> Result<f64, String> {
    let wrong = || format!("'{text}' is not a percentage from 50 to 99.9999");
    let value: f64 = text.parse().map_err(|_| wrong())?;
    (50.0..=99.9999)
        .contains(&value)
        .then_some(value)
        .ok_or_else(wrong)
}

/// Why nothing was compared.
#[derive(Debug, Error)]
pub enum VerifyError {
    /// The datagrams.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The router.
    #[error(transparent)]
    Router(#[from] ConnectionError),
    /// The router does not do as asked.
    #[error("the router refuses '{0}': {1}")]
    Refused(String, String),
    /// No datagram came.
    #[error(
        "no sFlow datagram came. Is sFlow enabled on an interface (`show sflow`)? Is the router in another network namespace? Then run this there"
    )]
    Silent,
    /// Nothing to compare.
    #[error("nothing to compare: {0}")]
    Nothing(&'static str),
    /// The output.
    #[error("cannot write the output: {0}")]
    Output(#[source] io::Error),
    /// Signals cannot be caught.
    #[error(transparent)]
    Signals(ToolError),
}

/// Runs the command on standard output.
pub fn run(args: &VerifyArgs) -> ExitCode {
    let stop = stop_on_signals().map_err(VerifyError::Signals);
    let result = stop.and_then(|s| run_with(args, &mut io::stdout().lock(), &s));
    match result {
        Ok(r) if r.wrong == 0 => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(1),
        Err(e) => {
            eprintln!("parshall: {e}");
            ExitCode::from(2)
        }
    }
}

/// Runs the command on another output.
///
/// # Errors
/// When there is nothing to compare, or the input cannot be read.
pub fn run_with(
    args: &VerifyArgs,
    out: &mut dyn Write,
    stop: &AtomicBool,
) -> Result<Report, VerifyError> {
    let mut tally = Tally {
        with_fcs: args.fcs,
        ..Tally::default()
    };
    let asking = gather(args, stop, &mut tally)?;
    if tally.datagrams == 0 {
        return Err(VerifyError::Silent);
    }
    let terms = Terms {
        confidence: args.confidence / 100.0,
        slack_seconds: args.slack.max(0.0) + asking,
    };
    let report = Report::of(&tally, &args.interface, terms);
    if args.json {
        let text = serde_json::to_string_pretty(&report).unwrap_or_default();
        writeln!(out, "{text}").map_err(VerifyError::Output)?;
    } else {
        writeln!(out, "{report}").map_err(VerifyError::Output)?;
    }
    if report.judged == 0 {
        return Err(VerifyError::Nothing(why(&report, args)));
    }
    Ok(report)
}

fn why(report: &Report, args: &VerifyArgs) -> &'static str {
    match (report.interfaces.is_empty(), args.files.is_empty()) {
        (true, false) => "no interface has two counter samples in the capture",
        (true, true) => "no interface has two readings of its counters; a longer --period may help",
        (false, _) => "no traffic, or no samples of it",
    }
}

/// Fills the tally; seconds of traffic by which asking blurs the ends.
fn gather(args: &VerifyArgs, stop: &AtomicBool, tally: &mut Tally) -> Result<f64, VerifyError> {
    let inside = |_: &parshall_sflow_wire::FlowSample<'_>| Place::Inside;
    if !args.files.is_empty() {
        let port = (args.port != 0).then_some(args.port);
        arrivals::files(&args.files, port, stop, &mut |a| {
            tally.datagram(a.time_ns, a.bytes, &inside);
            true
        })?;
        return Ok(0.0);
    }
    let period = args.period.clamp(0.1, 1e7);
    if let (Some(listen), None) = (args.listen, &args.socket) {
        let mut receiver = arrivals::bind(Some(listen))?;
        let until = Instant::now() + Duration::from_secs_f64(period);
        arrivals::receive(&mut receiver, Some(until), stop, &mut |a| {
            tally.datagram(a.time_ns, a.bytes, &inside);
            true
        })?;
        return Ok(0.0);
    }
    let default = PathBuf::from(DEFAULT_SOCKET);
    let mut router = Asked::open(args.socket.as_ref().unwrap_or(&default))?;
    let own = Listen {
        ip: IpAddr::V4(Ipv4Addr::LOCALHOST),
        port: Some(0),
    };
    let mut receiver = arrivals::bind(Some(args.listen.unwrap_or(own)))?;
    if args.listen.is_none() {
        router.join(receiver.local_addr().map_err(InputError::Receive)?)?;
    }
    live::gather(&mut router, &mut receiver, period, stop, tally)
}
