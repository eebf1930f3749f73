//! Sockets and files around the converter.

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parshall_flow_export::Protocol;
use serde::Serialize;

use super::args::ConvertArgs;
use super::converter::{Converter, Counts};
use crate::common::captured::Captured;
use crate::common::clock::{millis, unix_time};
use crate::common::pcap_file::PcapFile;
use crate::common::report::Report;
use crate::common::target::{Patience, Target, TargetCounts};
use crate::common::{ToolError, listen, signals};

/// A flow waits no longer for its datagram to fill.
const AGE_MS: u64 = 500;
/// How often datagrams are looked through for their age.
const LOOK: Duration = Duration::from_millis(100);
/// How long what lies in the socket is still converted at the end.
const LAST: Duration = Duration::from_secs(1);
/// Export datagrams a second of a file, unless told otherwise: what any collector takes.
const FILE_RATE: f64 = 10_000.0;

/// What was converted and sent.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ConvertStatus {
    /// Seconds since the start.
    pub seconds: f64,
    /// What was converted and what was not.
    #[serde(flatten)]
    pub counts: Counts,
    /// Times that the kernel found the socket's buffer full.
    pub socket_drops: u64,
    /// By target.
    pub targets: Vec<TargetCounts>,
}

impl fmt::Display for ConvertStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let c = &self.counts;
        write!(
            f,
            "{} flow samples of {} datagrams became {} flow records ({} packets, {} bytes) in {} export datagrams",
            c.flow_samples, c.datagrams, c.flows, c.packets, c.octets, c.exported
        )?;
        for (count, what) in [
            (c.not_ip, "samples of packets that are not IP"),
            (c.ipv6, "IPv6 flows not sent: NetFlow version 5 has no IPv6"),
            (
                c.clipped,
                "flows with a number too large for NetFlow version 5",
            ),
            (
                c.rate_too_large,
                "flows scaled because NetFlow version 5 announces rates up to 16383 only",
            ),
            (
                c.other_samples,
                "counter, discard and other samples passed over",
            ),
            (c.unreadable, "samples unreadable"),
            (c.malformed, "datagrams malformed"),
            (c.streams_evicted, "streams gave way to others"),
            (self.socket_drops, "times the receive buffer was full"),
        ] {
            if count > 0 {
                write!(f, "; {count} {what}")?;
            }
        }
        for t in &self.targets {
            write!(f, "; {t}")?;
        }
        Ok(())
    }
}

/// Runs the command until the file or a signal ends it.
///
/// # Errors
/// When a file or a socket cannot be opened, read or written.
pub fn run(args: &ConvertArgs) -> Result<(), ToolError> {
    let stop = signals::stop_on_signals()?;
    run_with(args, &mut io::stdout(), &mut io::stderr(), &stop, |_| {})
}

/// Runs the command with other outputs, until `stop` is set. `listening` is told where the socket is bound.
///
/// # Errors
/// As [`run`].
pub fn run_with(
    args: &ConvertArgs,
    out: &mut dyn Write,
    log: &mut dyn Write,
    stop: &AtomicBool,
    listening: impl FnOnce(SocketAddr),
) -> Result<(), ToolError> {
    if args.write.as_deref() == Some(Path::new("-")) && args.json {
        return Err(ToolError::Usage(
            "standard output is the capture: --json needs a file",
        ));
    }
    let mut report = Report::new(out, log, args.json, args.status_every);
    let mut work = Work {
        converter: Converter::new(args.settings()),
        outlets: Outlets::open(args)?,
        start: Instant::now(),
        socket_drops: 0,
    };
    let result = match &args.file {
        Some(file) => work.file(args, file, &mut report, stop),
        None => work.network(args, &mut report, stop, listening),
    };
    let flushed = work.outlets.flush();
    let told = report.status(&work.status());
    result.and(flushed).and(told)
}

struct Work {
    converter: Converter,
    outlets: Outlets,
    start: Instant,
    socket_drops: u64,
}

impl Work {
    fn network(
        &mut self,
        args: &ConvertArgs,
        report: &mut Report<'_>,
        stop: &AtomicBool,
        listening: impl FnOnce(SocketAddr),
    ) -> Result<(), ToolError> {
        let mut receiver = listen::open(args.listen)?;
        listening(receiver.local_addr().map_err(ToolError::Receive)?);
        let mut last: Option<Instant> = None;
        while !self.enough(args) {
            if stop.load(Ordering::Relaxed) {
                let end = *last.get_or_insert_with(|| Instant::now() + LAST);
                if Instant::now() >= end {
                    break;
                }
            }
            let wait = if last.is_some() { Duration::ZERO } else { LOOK };
            let got = listen::receive(&mut receiver, wait)?;
            if !got && last.is_some() {
                break;
            }
            let now = unix_time();
            let now_ms = millis(now);
            let made = &mut self.outlets.made;
            if got {
                for (bytes, from) in receiver.datagrams() {
                    self.converter
                        .datagram(bytes, from.ip(), now_ms, &mut |a, b| made.take(a, b));
                }
            }
            self.converter
                .flush_older(AGE_MS, now_ms, &mut |a, b| made.take(a, b));
            self.outlets.send(now, Patience::None)?;
            self.socket_drops = receiver.drops();
            if report.is_due() {
                report.status(&self.status())?;
            }
        }
        self.flush(unix_time(), Patience::None)
    }

    fn file(
        &mut self,
        args: &ConvertArgs,
        file: &Path,
        report: &mut Report<'_>,
        stop: &AtomicBool,
    ) -> Result<(), ToolError> {
        let mut captured = Captured::open(file, args.port, stop)?;
        let mut now = Duration::ZERO;
        while !stop.load(Ordering::Relaxed) && !self.enough(args) {
            let (converter, made) = (&mut self.converter, &mut self.outlets.made);
            let got = captured.next(|time, udp| {
                // The clock of what we send never goes back.
                now = now.max(time);
                let now_ms = millis(now);
                let sink = &mut |a: IpAddr, b: &[u8]| made.take(a, b);
                converter.datagram(udp.payload, udp.source, now_ms, sink);
                converter.flush_older(AGE_MS, now_ms, sink);
            })?;
            if !got {
                break;
            }
            self.outlets.send(now, Patience::Until(stop))?;
            self.slow_down(args.rate.unwrap_or(FILE_RATE), stop);
            if report.is_due() {
                report.status(&self.status())?;
            }
        }
        if captured.found.datagrams == 0 && !stop.load(Ordering::Relaxed) {
            return Err(ToolError::NothingToSend {
                path: file.to_owned(),
                frames: captured.found.frames,
                port: args.port,
            });
        }
        self.flush(now, Patience::Until(stop))
    }

    fn enough(&self, args: &ConvertArgs) -> bool {
        let so_far = self.converter.counts().datagrams;
        args.count.is_some_and(|n| so_far >= n)
    }

    /// Waits while more has been sent than may have been.
    fn slow_down(&self, rate: f64, stop: &AtomicBool) {
        if self.outlets.targets.is_empty() {
            return;
        }
        let due = Duration::from_secs_f64(self.converter.counts().exported as f64 / rate);
        while let Some(wait) = due.checked_sub(self.start.elapsed())
            && !stop.load(Ordering::Relaxed)
        {
            // Not for each datagram: sleeps are coarse.
            if wait < Duration::from_millis(1) {
                return;
            }
            thread::sleep(wait.min(LOOK));
        }
    }

    /// Sends what has not filled a datagram.
    fn flush(&mut self, now: Duration, patience: Patience<'_>) -> Result<(), ToolError> {
        let made = &mut self.outlets.made;
        self.converter
            .flush_older(0, millis(now), &mut |a, b| made.take(a, b));
        self.outlets.send(now, patience)
    }

    fn status(&self) -> ConvertStatus {
        let counts = |t: &Target| t.counts.clone();
        ConvertStatus {
            seconds: self.start.elapsed().as_secs_f64(),
            counts: self.converter.counts(),
            socket_drops: self.socket_drops,
            targets: self.outlets.targets.iter().map(counts).collect(),
        }
    }
}

/// Export datagrams that wait to be sent, one after the other.
#[derive(Default)]
struct Made {
    bytes: Vec<u8>,
    /// Where each ends, and whose flows it has.
    ends: Vec<(usize, IpAddr)>,
}

impl Made {
    fn take(&mut self, agent: IpAddr, datagram: &[u8]) {
        self.bytes.extend_from_slice(datagram);
        self.ends.push((self.bytes.len(), agent));
    }
}

/// Where export datagrams go.
struct Outlets {
    port: u16,
    targets: Vec<Target>,
    pcap: Option<PcapFile>,
    ipfix: Option<(PathBuf, File)>,
    made: Made,
}

impl Outlets {
    fn open(args: &ConvertArgs) -> Result<Outlets, ToolError> {
        let port = args.default_port();
        let open = |to| Target::open(to, port, args.spoof);
        let mut outlets = Outlets {
            port,
            targets: args.to.iter().map(open).collect::<Result<_, _>>()?,
            pcap: None,
            ipfix: None,
            made: Made::default(),
        };
        if let Some(path) = &args.write {
            let plain = path.extension().is_some_and(|e| e == "ipfix")
                && args.settings().protocol == Protocol::Ipfix;
            if plain {
                let file = File::create(path).map_err(|e| failed(path, e))?;
                outlets.ipfix = Some((path.clone(), file));
            } else {
                outlets.pcap = Some(PcapFile::create(path, None, None)?);
            }
        }
        Ok(outlets)
    }

    /// Sends and writes what was made.
    fn send(&mut self, now: Duration, patience: Patience<'_>) -> Result<(), ToolError> {
        let made = std::mem::take(&mut self.made);
        let mut datagrams = Vec::with_capacity(made.ends.len());
        let mut start = 0;
        for (end, agent) in &made.ends {
            let from = SocketAddr::new(*agent, self.port);
            datagrams.push((made.bytes.get(start..*end).unwrap_or(&[]), from));
            start = *end;
        }
        for target in &mut self.targets {
            target.send(&datagrams, patience);
        }
        for (bytes, from) in &datagrams {
            if let Some(pcap) = &mut self.pcap {
                let any: IpAddr = match from.ip() {
                    IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
                    IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
                };
                let to = SocketAddr::new(any, self.port);
                // An export datagram always fits into a packet.
                let _ = pcap.write(now, *from, to, bytes)?;
            }
            if let Some((path, file)) = &mut self.ipfix {
                file.write_all(bytes).map_err(|e| failed(path, e))?;
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), ToolError> {
        self.pcap.as_mut().map_or(Ok(()), PcapFile::flush)
    }
}

fn failed(path: &Path, source: io::Error) -> ToolError {
    ToolError::Write {
        path: path.to_owned(),
        source,
    }
}
