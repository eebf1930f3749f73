//! `parshall sflow test`: sends known samples to a collector and says what it must show.
//!
//! - `plan`: the datagrams of a round.
//! - `records`: every record that our agent sends.
//! - `expect`: what the collector should show.

mod expect;
mod plan;
mod records;

#[cfg(test)]
mod tests;

use std::io::{self, ErrorKind, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use parshall_sflow_wire::print::{Format, Meta, Printer, Selection};
use serde::Serialize;
use thiserror::Error;

use crate::args::SFLOW_PORT;
use crate::common::ToolError;
use crate::common::args::HostPort;
use crate::lint::arrivals::now_ns;
use expect::Expected;
use plan::{Agent, Planned, Told};

/// How long a wait goes on before it looks whether to end.
const WAIT: Duration = Duration::from_millis(50);

const EXAMPLES: &str = "\
Examples:
  parshall sflow test --collector 192.0.2.1
        One round of flows, counters and discards, and what the collector must show of them.
  parshall sflow test --collector [2001:db8::1]:6343 --count 60 --interval 1
        A minute of it, so that graphs have something to show.
  parshall sflow test --collector flows.example.net --decoded
        Each datagram as text besides, field by field, as sflowtool prints it.
  parshall sflow test --collector 127.0.0.1 --dry-run --json
        Only says what would be sent.";

/// Options of `parshall sflow test`.
#[derive(Debug, Clone, Args)]
#[command(
    about = "Send known samples to a collector and say what it must show",
    after_help = EXAMPLES
)]
pub struct TestArgs {
    /// The collector: name or address, IPv4 or IPv6, with a port if it is not 6343
    #[arg(long, value_name = "HOST[:PORT]", value_parser = HostPort::parse)]
    pub collector: HostPort,

    /// Rounds to send
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub count: u32,

    /// Seconds between two rounds
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    pub interval: f64,

    /// The sampling rate that samples tell: each stands for so many packets
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub rate: u32,

    /// The agent's address in the datagrams
    #[arg(long, value_name = "ADDR", default_value_t = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 99)))]
    pub agent: IpAddr,

    /// The sub-agent in the datagrams
    #[arg(long, value_name = "ID", default_value_t = 1)]
    pub sub_agent: u32,

    /// A record of a format that nobody knows is sent too: a collector must step over it
    #[arg(long)]
    pub unknown: bool,

    /// Print each datagram as text too, as sflowtool does
    #[arg(long, conflicts_with = "json")]
    pub decoded: bool,

    /// Print JSON
    #[arg(long)]
    pub json: bool,

    /// Send nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// Why not all was sent.
#[derive(Debug, Error)]
pub enum TestError {
    /// The collector's name, or signals.
    #[error(transparent)]
    Tool(#[from] ToolError),
    /// There is no way to it.
    #[error("cannot send to {0}: {1}")]
    Send(SocketAddr, #[source] io::Error),
    /// Its host says that nobody listens.
    #[error("{0}: nobody listens there (the host answered so {1} times)")]
    Refused(SocketAddr, u64),
    /// The output.
    #[error("cannot write the output: {0}")]
    Output(#[source] io::Error),
}

/// What was sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Sent {
    /// Datagrams that the kernel took.
    pub datagrams: u64,
    /// Bytes of UDP payload in them.
    pub bytes: u64,
    /// Times that the collector's host said that nobody listens.
    pub refused: u64,
}

/// Runs the command on standard output.
pub fn run(args: &TestArgs) -> ExitCode {
    let stop = crate::common::signals::stop_on_signals().map_err(TestError::Tool);
    match stop.and_then(|s| run_with(args, &mut io::stdout().lock(), &s)) {
        Ok(_) => ExitCode::SUCCESS,
        Err(TestError::Output(e)) if e.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("parshall: {e}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the command on another output until all is sent or `stop` is set.
///
/// # Errors
/// When the collector cannot be reached or refuses.
pub fn run_with(
    args: &TestArgs,
    out: &mut dyn Write,
    stop: &AtomicBool,
) -> Result<Sent, TestError> {
    let to = args.collector.resolve(SFLOW_PORT)?;
    let told = Told {
        agent: args.agent,
        sub_agent: args.sub_agent,
        rate: args.rate,
        unknown: args.unknown,
    };
    let expected = Expected::of(told, args.count, args.interval);
    if !args.json {
        write!(out, "{}", expected.text(to)).map_err(TestError::Output)?;
        out.flush().map_err(TestError::Output)?;
    }
    let sent = if args.dry_run {
        if args.decoded {
            print(out, &Agent::new(told).round(0, now_ns()))?;
        }
        Sent::default()
    } else {
        send(args, told, to, out, stop)?
    };
    if args.json {
        let all = serde_json::json!({"collector": to, "expected": expected, "sent": sent});
        writeln!(out, "{all}").map_err(TestError::Output)?;
    } else {
        writeln!(
            out,
            "\nsent: {} datagrams, {} bytes",
            sent.datagrams, sent.bytes
        )
        .map_err(TestError::Output)?;
    }
    if sent.refused > 0 {
        return Err(TestError::Refused(to, sent.refused));
    }
    Ok(sent)
}

/// Sends all rounds.
fn send(
    args: &TestArgs,
    told: Told,
    to: SocketAddr,
    out: &mut dyn Write,
    stop: &AtomicBool,
) -> Result<Sent, TestError> {
    let failed = |e| TestError::Send(to, e);
    let any: IpAddr = if to.is_ipv6() {
        Ipv6Addr::UNSPECIFIED.into()
    } else {
        Ipv4Addr::UNSPECIFIED.into()
    };
    let socket = UdpSocket::bind((any, 0)).map_err(failed)?;
    socket.connect(to).map_err(failed)?;
    let mut agent = Agent::new(told);
    let mut sent = Sent::default();
    let start = Instant::now();
    let interval = Duration::from_secs_f64(args.interval.clamp(0.0, 86_400.0));
    for n in 0..args.count {
        if !wait(start + interval * n, stop) {
            break;
        }
        let uptime_ms = start.elapsed().as_millis() as u32;
        let datagrams = agent.round(uptime_ms, now_ns());
        if args.decoded {
            print(out, &datagrams)?;
        }
        for d in &datagrams {
            // What came back for an earlier datagram is told at the next: that one has to be sent again.
            let again = |e: &io::Error| e.kind() == ErrorKind::ConnectionRefused;
            let mut result = socket.send(&d.bytes);
            if result.as_ref().is_err_and(again) {
                sent.refused += 1;
                result = socket.send(&d.bytes);
            }
            match result {
                Ok(_) => {
                    sent.datagrams += 1;
                    sent.bytes += d.bytes.len() as u64;
                }
                Err(e) if again(&e) => sent.refused += 1,
                Err(e) => return Err(failed(e)),
            }
        }
    }
    // An answer to the last datagram takes a moment.
    std::thread::sleep(WAIT);
    if matches!(socket.take_error(), Ok(Some(_))) {
        sent.refused += 1;
    }
    Ok(sent)
}

/// Waits until then; whether to go on.
fn wait(until: Instant, stop: &AtomicBool) -> bool {
    loop {
        if stop.load(Ordering::Relaxed) {
            return false;
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(WAIT));
    }
}

/// Datagrams as text.
fn print(out: &mut dyn Write, datagrams: &[Planned]) -> Result<(), TestError> {
    let mut printer = Printer::new(&Format::Text, Selection::default());
    for d in datagrams {
        let mut text = Vec::new();
        let meta = Meta {
            source: parshall_sflow_wire::Address::Unknown,
            read_time: Default::default(),
            capture_time: None,
        };
        // Our own datagrams decode, which a test checks.
        let _ = printer.print(&meta, &d.bytes, &mut text);
        writeln!(out, "\n# {}", d.shape)
            .and_then(|()| out.write_all(&text))
            .map_err(TestError::Output)?;
    }
    Ok(())
}
