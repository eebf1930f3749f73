//! `parshall sflow forward`: what arrives goes out to several collectors.
//!
//! - [`args`]: the options.
//! - [`filter`]: what of a datagram goes on.
//! - `relay`: a socket, its thread, and the sockets to the targets.
//!
//! A thread for each socket, all on one port: the kernel gives all datagrams of one sender to one of them, so that their order
//! stays. No target is waited for: what the kernel does not take at once is lost to that target alone, and counted.

pub mod args;
pub mod filter;
mod relay;

use std::fmt;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use serde::Serialize;

pub use args::ForwardArgs;
use relay::{Common, Relay};

use crate::args::SFLOW_PORT;
use crate::common::report::Report;
use crate::common::target::{Target, TargetCounts};
use crate::common::{ToolError, listen, signals};

/// How often it is looked whether all threads have ended, or a status is due.
const LOOK: Duration = Duration::from_millis(10);

/// What was received and what was sent.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ForwardStatus {
    /// Seconds since the start.
    pub seconds: f64,
    /// Sockets that share the port.
    pub sockets: u64,
    /// Datagrams that came.
    pub received: u64,
    /// Bytes of UDP payload in them.
    pub bytes: u64,
    /// Times that the kernel found the socket's buffer full.
    pub socket_drops: u64,
    /// Datagrams left out as a whole: another agent, another sub-agent, nothing left of it.
    pub filtered: u64,
    /// Datagrams of which some samples were left out.
    pub rewritten: u64,
    /// Samples left out.
    pub filtered_samples: u64,
    /// Datagrams that a filter could not read to the end; what was readable went on.
    pub malformed: u64,
    /// By target.
    pub targets: Vec<TargetCounts>,
}

impl ForwardStatus {
    /// Takes in what another socket has seen.
    fn add(&mut self, other: &ForwardStatus) {
        self.sockets += 1;
        for (sum, more) in [
            (&mut self.received, other.received),
            (&mut self.bytes, other.bytes),
            (&mut self.socket_drops, other.socket_drops),
            (&mut self.filtered, other.filtered),
            (&mut self.rewritten, other.rewritten),
            (&mut self.filtered_samples, other.filtered_samples),
            (&mut self.malformed, other.malformed),
        ] {
            *sum += more;
        }
        if self.targets.is_empty() {
            self.targets.clone_from(&other.targets);
            return;
        }
        for (sum, more) in self.targets.iter_mut().zip(&other.targets) {
            sum.add(more);
        }
    }
}

impl fmt::Display for ForwardStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} datagrams received", self.received)?;
        for (count, what) in [
            (self.filtered, "left out"),
            (self.rewritten, "sent without some samples"),
            (self.malformed, "malformed"),
            (
                self.socket_drops,
                "times the receive buffer was full (more --sockets help)",
            ),
        ] {
            if count > 0 {
                write!(f, ", {count} {what}")?;
            }
        }
        for t in &self.targets {
            write!(f, "; {t}")?;
        }
        Ok(())
    }
}

/// Runs the command until a signal ends it.
///
/// # Errors
/// When a socket cannot be opened or receiving fails.
pub fn run(args: &ForwardArgs) -> Result<(), ToolError> {
    let stop = signals::stop_on_signals()?;
    run_with(args, &mut io::stdout(), &mut io::stderr(), &stop, |_| {})
}

/// Runs the command with other outputs, until `stop` is set. `listening` is told where the sockets are bound.
///
/// # Errors
/// As [`run`].
pub fn run_with(
    args: &ForwardArgs,
    out: &mut dyn Write,
    log: &mut dyn Write,
    stop: &AtomicBool,
    listening: impl FnOnce(SocketAddr),
) -> Result<(), ToolError> {
    let mut report = Report::new(out, log, args.json, args.status_every);
    let receivers = listen::open_shared(args.listen, args.sockets.into())?;
    let open = |to| Target::open(to, SFLOW_PORT, args.spoof);
    let all = || args.to.iter().map(open).collect::<Result<Vec<_>, _>>();
    let targets = receivers
        .iter()
        .map(|_| all())
        .collect::<Result<Vec<_>, _>>()?;
    if let Some(r) = receivers.first() {
        listening(r.local_addr().map_err(ToolError::Receive)?);
    }
    let (filter, common) = (args.filter(), Common::new(args, stop));
    let result = thread::scope(|s| {
        let each = receivers.into_iter().zip(targets).zip(common.seats());
        let relays: Vec<_> = each
            .map(|((receiver, targets), seat)| {
                let relay = Relay::new(receiver, targets, &filter, &common, seat);
                thread::Builder::new()
                    .name("sflow-forward".to_owned())
                    .spawn_scoped(s, move || relay.run())
                    .map_err(ToolError::Thread)
            })
            .collect();
        if relays.iter().any(Result::is_err) {
            common.end();
        }
        let mut result = Ok(());
        let running = |r: &Result<thread::ScopedJoinHandle<'_, _>, ToolError>| {
            r.as_ref().is_ok_and(|t| !t.is_finished())
        };
        while relays.iter().any(running) {
            thread::sleep(LOOK);
            if report.is_due() && result.is_ok() {
                result = report.status(&common.status());
            }
            if result.is_err() {
                common.end();
            }
        }
        for r in relays {
            let ended = r.and_then(|t| t.join().unwrap_or(Err(ToolError::Panicked)));
            result = result.and(ended);
        }
        result
    });
    let told = report.status(&common.status());
    result.and(told)
}
