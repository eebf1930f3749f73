//! `parshall sflow replay`: the sFlow datagrams of a capture go out again.
//!
//! - [`args`]: the options.
//! - [`pace`]: when each is due.
//!
//! A target that has no room is waited for: what is asked for is that everything arrives.

pub mod args;
pub mod pace;

use std::fmt;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

pub use args::ReplayArgs;
use pace::{Pace, Speed};

use crate::args::SFLOW_PORT;
use crate::common::captured::Captured;
use crate::common::report::Report;
use crate::common::target::{Patience, Target, TargetCounts};
use crate::common::{ToolError, signals};

/// Datagrams sent at once at most.
const BATCH: usize = 64;
/// Longest sleep before looking whether to end or to tell how things stand.
const NAP: Duration = Duration::from_millis(100);

/// What was sent, and when.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ReplayStatus {
    /// Seconds since the first datagram.
    pub seconds: f64,
    /// Rounds through the file that have begun.
    pub rounds: u64,
    /// Frames read.
    pub frames: u64,
    /// Datagrams sent, to each target.
    pub datagrams: u64,
    /// Bytes of UDP payload in them.
    pub bytes: u64,
    /// Datagrams that the capture did not take whole; not sent.
    pub cut: u64,
    /// Datagrams a second, on the average.
    pub rate: f64,
    /// Seconds that the last datagram went out after it was due, if there was a plan.
    pub drift: Option<f64>,
    /// Seconds that the latest of all went out after it was due.
    pub latest: Option<f64>,
    /// By target.
    pub targets: Vec<TargetCounts>,
}

impl fmt::Display for ReplayStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} datagrams of {} frames in {:.3} s: {:.1} a second",
            self.datagrams, self.frames, self.seconds, self.rate
        )?;
        if let (Some(drift), Some(latest)) = (self.drift, self.latest) {
            let (drift, latest) = (drift * 1e3, latest * 1e3);
            write!(
                f,
                "; at the end {drift:.1} ms behind the plan, at most {latest:.1} ms"
            )?;
        }
        if self.cut > 0 {
            write!(
                f,
                "; {} not whole in the capture (capture with a larger snap length)",
                self.cut
            )?;
        }
        for t in &self.targets {
            write!(f, "; {t}")?;
        }
        Ok(())
    }
}

/// Runs the command until all is sent or a signal ends it.
///
/// # Errors
/// When the file cannot be read or a socket cannot be opened.
pub fn run(args: &ReplayArgs) -> Result<(), ToolError> {
    let stop = signals::stop_on_signals()?;
    run_with(args, &mut io::stdout(), &mut io::stderr(), &stop)
}

/// Runs the command with other outputs, until `stop` is set.
///
/// # Errors
/// As [`run`].
pub fn run_with(
    args: &ReplayArgs,
    out: &mut dyn Write,
    log: &mut dyn Write,
    stop: &AtomicBool,
) -> Result<(), ToolError> {
    if args.file == Path::new("-") && args.rounds != 1 {
        return Err(ToolError::Usage(
            "standard input cannot be read twice: --loop needs a file",
        ));
    }
    let open = |to| Target::open(to, SFLOW_PORT, args.spoof);
    let targets = args.to.iter().map(open).collect::<Result<Vec<_>, _>>()?;
    let mut replay = Replay {
        args,
        stop,
        report: Report::new(out, log, args.json, args.status_every),
        targets,
        batch: Batch::default(),
        pace: Pace::new(args.speed()),
        start: None,
        status: ReplayStatus::default(),
    };
    let result = replay.rounds();
    replay.send();
    let status = replay.status();
    let told = replay.report.status(&status);
    result.and(told)
}

/// Datagrams that are due, one after the other in one piece of memory.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    /// Where each ends, and who sent it.
    ends: Vec<(usize, SocketAddr)>,
    /// When the last one was due.
    due: Duration,
}

struct Replay<'a, 'o> {
    args: &'a ReplayArgs,
    stop: &'a AtomicBool,
    report: Report<'o>,
    targets: Vec<Target>,
    batch: Batch,
    pace: Pace,
    start: Option<Instant>,
    status: ReplayStatus,
}

impl Replay<'_, '_> {
    fn rounds(&mut self) -> Result<(), ToolError> {
        let endless = self.args.rounds == 0;
        while !self.stop.load(Ordering::Relaxed) && !self.enough() {
            if !endless && self.status.rounds >= self.args.rounds {
                break;
            }
            self.status.rounds += 1;
            self.pace.next_round();
            self.round()?;
        }
        Ok(())
    }

    /// Whether as many as were asked for are on their way.
    fn enough(&self) -> bool {
        let so_far = self.status.datagrams + self.batch.ends.len() as u64;
        self.args.count.is_some_and(|n| so_far >= n)
    }

    fn round(&mut self) -> Result<(), ToolError> {
        let mut captured = Captured::open(&self.args.file, self.args.port, self.stop)?;
        let (frames, cut) = (self.status.frames, self.status.cut);
        while !self.stop.load(Ordering::Relaxed) && !self.enough() {
            if captured.may_wait() {
                self.send();
            }
            let (batch, pace) = (&mut self.batch, &mut self.pace);
            let mut due = Duration::ZERO;
            let got = captured.next(|time, udp| {
                due = pace.due(time);
                batch.bytes.extend_from_slice(udp.payload);
                let from = SocketAddr::new(udp.source, udp.source_port);
                batch.ends.push((batch.bytes.len(), from));
            });
            self.status.frames = frames + captured.found.frames;
            self.status.cut = cut + captured.found.cut;
            if !got? {
                break;
            }
            self.hold_until(due)?;
        }
        if captured.found.datagrams == 0 && !self.stop.load(Ordering::Relaxed) {
            return Err(ToolError::NothingToSend {
                path: self.args.file.clone(),
                frames: captured.found.frames,
                port: self.args.port,
            });
        }
        Ok(())
    }

    /// The datagram put into the batch last is due then: those before it go out now if it has to wait, and it with them if the batch is full.
    fn hold_until(&mut self, due: Duration) -> Result<(), ToolError> {
        let start = *self.start.get_or_insert_with(Instant::now);
        if due > start.elapsed() {
            let last = self.batch.ends.pop();
            self.send_all_but_tail(last);
            while let Some(wait) = due.checked_sub(start.elapsed()).filter(|w| !w.is_zero()) {
                if self.stop.load(Ordering::Relaxed) {
                    // It was not due yet.
                    self.batch = Batch::default();
                    return Ok(());
                }
                self.tell_if_due()?;
                thread::sleep(wait.min(NAP));
            }
        }
        self.batch.due = due;
        if self.batch.ends.len() >= BATCH {
            self.send();
            self.tell_if_due()?;
        }
        Ok(())
    }

    /// Sends the batch but for the datagram whose end is `last`, which stays.
    fn send_all_but_tail(&mut self, last: Option<(usize, SocketAddr)>) {
        let sent = self.batch.ends.last().map_or(0, |e| e.0);
        let tail = self.batch.bytes.get(sent..).unwrap_or(&[]).to_vec();
        self.send();
        if let Some((_, from)) = last {
            self.batch.ends.push((tail.len(), from));
            self.batch.bytes = tail;
        }
    }

    fn send(&mut self) {
        let batch = std::mem::take(&mut self.batch);
        let mut datagrams = Vec::with_capacity(batch.ends.len());
        let mut start = 0;
        for (end, from) in &batch.ends {
            datagrams.push((batch.bytes.get(start..*end).unwrap_or(&[]), *from));
            start = *end;
        }
        if datagrams.is_empty() {
            return;
        }
        for target in &mut self.targets {
            target.send(&datagrams, Patience::Until(self.stop));
        }
        self.status.datagrams += datagrams.len() as u64;
        self.status.bytes += start as u64;
        let elapsed = self.start.map_or(Duration::ZERO, |s| s.elapsed());
        if self.args.speed() != Speed::Fast {
            let drift = elapsed.saturating_sub(batch.due).as_secs_f64();
            self.status.drift = Some(drift);
            self.status.latest = Some(self.status.latest.map_or(drift, |l| l.max(drift)));
        }
    }

    fn tell_if_due(&mut self) -> Result<(), ToolError> {
        if self.report.is_due() {
            let status = self.status();
            self.report.status(&status)?;
        }
        Ok(())
    }

    fn status(&self) -> ReplayStatus {
        let seconds = self.start.map_or(0.0, |s| s.elapsed().as_secs_f64());
        ReplayStatus {
            seconds,
            rate: self.status.datagrams as f64 / seconds.max(1e-9),
            targets: self.targets.iter().map(|t| t.counts.clone()).collect(),
            ..self.status.clone()
        }
    }
}
