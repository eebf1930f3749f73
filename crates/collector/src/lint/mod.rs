//! `parshall sflow lint`: names every violation of the specification in a stream or a capture.
//!
//! - [`rules`]: the table of rules; the reference page is made of it.
//! - `walk`: goes through a datagram byte by byte; `records` through the records.
//! - `streams`, `order`, `source`, `counters`: what must hold from one datagram to the next.
//! - [`finding`]: what was found and where.
//! - [`arrivals`]: datagrams out of files and sockets.
//!
//! [`Linter`] is pure: it is given bytes and places and keeps bounded memory.

pub mod arrivals;
mod counters;
pub mod finding;
mod order;
mod records;
pub mod rules;
mod source;
mod streams;
mod walk;

#[cfg(test)]
mod tests;

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use serde_json::json;
use thiserror::Error;

use crate::args::{Listen, SFLOW_PORT, parse_listen};
use crate::common::ToolError;
use crate::common::signals::stop_on_signals;
use arrivals::{Arrived, InputError};
use finding::At;
use rules::{Rule, Severity};

pub use walk::{LintOptions, Linter, glued};

const EXAMPLES: &str = "\
Examples:
  parshall sflow lint capture.pcap
        Checks a capture; exit status 0 = clean, 1 = violations, 2 = cannot be read.
  parshall sflow lint --duration 60 --polling-interval 20
        Listens on UDP port 6343 for a minute; counters are promised every 20 seconds.
  parshall sflow lint --listen 127.0.0.1:6343 --json | jq -r .rule
        Findings as they come, a line of JSON each, a summary last.
  parshall sflow lint --ignore datagram-gap --fail-on error capture.pcap
        Loss on the way is no concern, and warnings are no failure.

What is checked, with references: docs/reference/sflow-lint.md, or --rules.";

/// Options of `parshall sflow lint`.
#[derive(Debug, Clone, Args)]
#[command(
    about = "Name every violation of the sFlow specification in a stream or a capture",
    after_help = EXAMPLES
)]
pub struct LintArgs {
    /// Capture files, pcap or pcapng; `-` is standard input. Without one: the network
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,

    /// Address to listen on, with a port if wanted [default: all, port 6343]
    #[arg(long, value_name = "ADDR[:PORT]", value_parser = parse_listen, conflicts_with = "files")]
    pub listen: Option<Listen>,

    /// With files: only datagrams sent to this port; 0 = any
    #[arg(short = 'p', long, value_name = "PORT", default_value_t = SFLOW_PORT)]
    pub port: u16,

    /// A line of JSON for each finding, and a summary as the last
    #[arg(long)]
    pub json: bool,

    /// Show so many findings of each rule; all are counted
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub max: u64,

    /// Show every finding
    #[arg(long, conflicts_with = "max")]
    pub all: bool,

    /// Leave a rule out; may list several
    #[arg(long, value_name = "RULE", value_delimiter = ',', value_parser = parse_rule)]
    pub ignore: Vec<Rule>,

    /// The least that makes the exit status 1
    #[arg(long, value_name = "SEVERITY", default_value = "warning")]
    pub fail_on: FailOn,

    /// Seconds between two counter samples of an interface that were promised
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    pub polling_interval: Option<u32>,

    /// Bytes of an IP packet that the way to the collector takes whole
    #[arg(long, value_name = "BYTES", default_value_t = 1500)]
    pub mtu: usize,

    /// End after so many seconds
    #[arg(long, value_name = "SECONDS", conflicts_with = "files")]
    pub duration: Option<f64>,

    /// End after so many datagrams
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,

    /// Agents and sub-agents followed at most; the numbers of others are not checked
    #[arg(long, value_name = "N", default_value_t = streams::MAX_AGENTS)]
    pub max_agents: usize,

    /// Print the rules and end
    #[arg(long)]
    pub rules: bool,
}

/// What makes the exit status 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FailOn {
    /// Any finding.
    Note,
    /// Warnings and errors.
    Warning,
    /// Errors.
    Error,
    /// Nothing.
    Never,
}

impl FailOn {
    fn fails(self, worst: Option<Severity>) -> bool {
        let least = match self {
            FailOn::Note => Severity::Note,
            FailOn::Warning => Severity::Warning,
            FailOn::Error => Severity::Error,
            FailOn::Never => return false,
        };
        worst.is_some_and(|w| w >= least)
    }
}

fn parse_rule(text: &str) -> Result<Rule, String> {
    Rule::of(text).ok_or_else(|| format!("there is no rule '{text}'; --rules lists them"))
}

/// Why nothing, or not all, was checked.
#[derive(Debug, Error)]
pub enum LintError {
    /// The input.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The output.
    #[error("cannot write the output: {0}")]
    Output(#[source] io::Error),
    /// There was none.
    #[error("no sFlow datagram{0}")]
    Nothing(String),
    /// Signals cannot be caught.
    #[error(transparent)]
    Signals(ToolError),
}

/// Runs the command on standard output.
pub fn run(args: &LintArgs) -> ExitCode {
    let stop = stop_on_signals().map_err(LintError::Signals);
    let result = stop.and_then(|s| run_with(args, &mut io::stdout().lock(), &s, |_| {}));
    match result {
        Ok(false) => ExitCode::SUCCESS,
        Ok(true) => ExitCode::from(1),
        Err(LintError::Output(e)) if e.kind() == io::ErrorKind::BrokenPipe => ExitCode::from(1),
        Err(e) => {
            eprintln!("parshall: {e}");
            ExitCode::from(2)
        }
    }
}

/// Runs the command on another output until the input ends or `stop` is set; whether it failed. `listening` is told where
/// the socket is bound.
///
/// # Errors
/// When the input cannot be read to its end; what was found before it is on the output all the same.
pub fn run_with(
    args: &LintArgs,
    out: &mut dyn Write,
    stop: &AtomicBool,
    listening: impl FnOnce(SocketAddr),
) -> Result<bool, LintError> {
    if args.rules {
        let page = rules::markdown();
        return out
            .write_all(page.as_bytes())
            .map(|()| false)
            .map_err(LintError::Output);
    }
    let mut session = Session {
        args,
        linter: Linter::new(options(args)),
        out,
        failed: None,
    };
    let read = session.read(stop, listening);
    session.finish()?;
    let others = read?;
    if let Some(e) = session.failed {
        return Err(LintError::Output(e));
    }
    if session.linter.datagrams == 0 {
        return Err(LintError::Nothing(nothing(args, others)));
    }
    let worst = session.linter.findings().worst();
    Ok(args.fail_on.fails(worst))
}

fn options(args: &LintArgs) -> LintOptions {
    LintOptions {
        mtu: args.mtu,
        polling: args.polling_interval,
        max_agents: args.max_agents,
        most: if args.all { u64::MAX } else { args.max },
        ignored: args.ignore.clone(),
        ..LintOptions::default()
    }
}

fn nothing(args: &LintArgs, others: u64) -> String {
    match (args.files.is_empty(), args.port) {
        (true, _) => " came".to_owned(),
        (false, 0) => String::new(),
        (false, port) => {
            format!(" to port {port}; {others} other packets (--port 0 takes all UDP)")
        }
    }
}

/// One run.
struct Session<'a> {
    args: &'a LintArgs,
    linter: Linter,
    out: &'a mut dyn Write,
    failed: Option<io::Error>,
}

impl Session<'_> {
    /// Reads the input to its end; packets that were passed over.
    fn read(
        &mut self,
        stop: &AtomicBool,
        listening: impl FnOnce(SocketAddr),
    ) -> Result<u64, LintError> {
        let args = self.args;
        if !args.files.is_empty() {
            let port = (args.port != 0).then_some(args.port);
            return Ok(arrivals::files(&args.files, port, stop, &mut |a| {
                self.take(a)
            })?);
        }
        let mut receiver = arrivals::bind(args.listen)?;
        listening(receiver.local_addr().map_err(InputError::Receive)?);
        let until = args
            .duration
            .map(|s| Instant::now() + Duration::from_secs_f64(s.clamp(0.0, 1e9)));
        arrivals::receive(&mut receiver, until, stop, &mut |a| self.take(a))?;
        Ok(0)
    }

    /// Checks a datagram; whether there may be more.
    fn take(&mut self, a: &Arrived<'_>) -> bool {
        let at = At {
            origin: Some(a.origin.clone()),
            packet: a.packet,
            time_ns: Some(a.time_ns),
            ..At::default()
        };
        if a.cut {
            self.linter.note(
                Rule::CaptureCut,
                &at,
                format_args!("{} bytes", a.bytes.len()),
            );
        } else {
            self.linter.datagram(&at, a.v6, a.bytes);
        }
        self.show();
        self.failed.is_none() && self.args.count.is_none_or(|n| self.linter.datagrams < n)
    }

    /// Prints what was found since the last time.
    fn show(&mut self) {
        for f in self.linter.findings().take() {
            let written = if self.args.json {
                writeln!(self.out, "{}", f.json())
            } else {
                writeln!(self.out, "{f}")
            };
            if let Err(e) = written {
                self.failed = Some(e);
                return;
            }
        }
    }

    fn finish(&mut self) -> Result<(), LintError> {
        self.linter.finish();
        self.show();
        let summary = self.summary();
        let written = writeln!(self.out, "{summary}").and_then(|()| self.out.flush());
        match self.failed.take() {
            Some(e) => Err(LintError::Output(e)),
            None => written.map_err(LintError::Output),
        }
    }

    fn summary(&mut self) -> String {
        let (agents, sources) = self.linter.followed();
        let (datagrams, samples) = (self.linter.datagrams, self.linter.samples);
        let most = if self.args.all {
            u64::MAX
        } else {
            self.args.max
        };
        let f = self.linter.findings();
        let [errors, warnings, notes] =
            [Severity::Error, Severity::Warning, Severity::Note].map(|s| f.total(s));
        if self.args.json {
            let rules: serde_json::Map<String, serde_json::Value> = f
                .counts()
                .map(|(r, n)| (r.info().id.to_owned(), n.into()))
                .collect();
            return json!({"summary": {
                "datagrams": datagrams, "samples": samples, "agents": agents, "sources": sources,
                "errors": errors, "warnings": warnings, "notes": notes, "rules": rules,
            }})
            .to_string();
        }
        let mut text = format!(
            "{datagrams} datagrams with {samples} samples, {agents} agents with {sources} sources: {errors} errors, {warnings} warnings, {notes} notes"
        );
        for (rule, n) in f.counts() {
            let i = rule.info();
            text += &format!("\n  {n:>8} {:<8} {}", i.severity.name(), i.id);
            if n > most {
                text += &format!(" ({most} shown; --all shows all)");
            }
        }
        text
    }
}
