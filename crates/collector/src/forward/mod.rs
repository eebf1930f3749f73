//! `parshall sflow forward`: what arrives goes out to several collectors.
//!
//! - [`args`]: the options.
//! - [`filter`]: what of a datagram goes on.
//!
//! One thread receives by the batch and hands each batch to every target in turn. No target is waited for: what the kernel does not take at once is lost to that
//! target alone, and counted.

pub mod args;
pub mod filter;

use std::fmt;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parshall_linux::udp::UdpReceiver;
use serde::Serialize;

pub use args::ForwardArgs;
use filter::{Filter, Verdict};

use crate::args::SFLOW_PORT;
use crate::common::report::Report;
use crate::common::target::{Patience, Target, TargetCounts};
use crate::common::{ToolError, listen, signals};

/// How long what lies in the socket is still passed on at the end.
const LAST: Duration = Duration::from_secs(1);

/// What was received and what was sent.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ForwardStatus {
    /// Seconds since the start.
    pub seconds: f64,
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

impl fmt::Display for ForwardStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} datagrams received", self.received)?;
        for (count, what) in [
            (self.filtered, "left out"),
            (self.rewritten, "sent without some samples"),
            (self.malformed, "malformed"),
            (self.socket_drops, "times the receive buffer was full"),
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

/// Runs the command with other outputs, until `stop` is set. `listening` is told where the socket is bound.
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
    let receiver = listen::open(args.listen)?;
    let open = |to| Target::open(to, SFLOW_PORT, args.spoof);
    let targets = args.to.iter().map(open).collect::<Result<Vec<_>, _>>()?;
    listening(receiver.local_addr().map_err(ToolError::Receive)?);
    let mut relay = Relay {
        receiver,
        targets,
        filter: args.filter(),
        rewritten: Vec::new(),
        start: Instant::now(),
        status: ForwardStatus::default(),
    };
    let result = relay.work(args.count, &mut report, stop);
    let told = report.status(&relay.status());
    result.and(told)
}

/// The socket in, the sockets out, and what lies between.
struct Relay {
    receiver: UdpReceiver,
    targets: Vec<Target>,
    filter: Filter,
    /// Datagrams that lost samples, one after the other.
    rewritten: Vec<u8>,
    start: Instant,
    status: ForwardStatus,
}

impl Relay {
    fn work(
        &mut self,
        count: Option<u64>,
        report: &mut Report<'_>,
        stop: &AtomicBool,
    ) -> Result<(), ToolError> {
        let done = |s: &ForwardStatus| count.is_some_and(|n| s.received >= n);
        while !stop.load(Ordering::Relaxed) && !done(&self.status) {
            if listen::receive(&mut self.receiver, listen::WAIT)? {
                self.pass_on();
            }
            if report.is_due() {
                report.status(&self.status())?;
            }
        }
        let end = Instant::now() + LAST;
        while !done(&self.status)
            && Instant::now() < end
            && listen::receive(&mut self.receiver, Duration::ZERO)?
        {
            self.pass_on();
        }
        Ok(())
    }

    /// Sends the batch that was received last to every target.
    fn pass_on(&mut self) {
        self.rewritten.clear();
        // Of each datagram: itself, or a stretch of the rewritten ones.
        let mut kept = Vec::with_capacity(64);
        for (bytes, from) in self.receiver.datagrams() {
            self.status.received += 1;
            self.status.bytes += bytes.len() as u64;
            let start = self.rewritten.len();
            let outcome = self.filter.apply(bytes, &mut self.rewritten);
            self.status.malformed += u64::from(outcome.malformed);
            self.status.filtered_samples += outcome.removed;
            match outcome.verdict {
                Verdict::Whole => kept.push((Some(bytes), 0..0, from)),
                Verdict::Rewritten => {
                    self.status.rewritten += 1;
                    kept.push((None, start..self.rewritten.len(), from));
                }
                Verdict::Nothing => self.status.filtered += 1,
            }
        }
        let rewritten = &self.rewritten;
        let batch: Vec<(&[u8], SocketAddr)> = kept
            .iter()
            .map(|(whole, range, from)| {
                let part = || rewritten.get(range.clone()).unwrap_or(&[]);
                (whole.unwrap_or_else(part), *from)
            })
            .collect();
        for target in &mut self.targets {
            target.send(&batch, Patience::None);
        }
    }

    fn status(&mut self) -> ForwardStatus {
        ForwardStatus {
            seconds: self.start.elapsed().as_secs_f64(),
            socket_drops: self.receiver.drops(),
            targets: self.targets.iter().map(|t| t.counts.clone()).collect(),
            ..self.status.clone()
        }
    }
}
