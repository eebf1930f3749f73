//! `parshall sflow record`: what arrives goes into a capture file, whole, with the address it came from.
//!
//! - [`args`]: the options.

pub mod args;

use std::fmt;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parshall_linux::udp::UdpReceiver;
use serde::Serialize;

pub use args::RecordArgs;

use crate::common::clock::unix_time;
use crate::common::pcap_file::PcapFile;
use crate::common::report::Report;
use crate::common::{ToolError, listen, signals};

/// How long what lies in the socket is still written at the end.
const LAST: Duration = Duration::from_secs(1);
/// A reader of the file sees what is older than this.
const FLUSH: Duration = Duration::from_millis(500);

/// What was received and written.
#[derive(Debug, Clone, Default, Serialize)]
pub struct RecordStatus {
    /// Seconds since the start.
    pub seconds: f64,
    /// Datagrams written.
    pub datagrams: u64,
    /// Bytes of UDP payload in them.
    pub bytes: u64,
    /// Datagrams too long to stand in a packet.
    pub skipped: u64,
    /// Times that the kernel found the socket's buffer full.
    pub socket_drops: u64,
    /// Files written.
    pub files: u64,
    /// The file that is written now.
    pub file: String,
}

impl fmt::Display for RecordStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} datagrams written to {}", self.datagrams, self.file)?;
        if self.files > 1 {
            write!(f, " and {} files before it", self.files - 1)?;
        }
        for (count, what) in [
            (self.skipped, "too long"),
            (self.socket_drops, "times the receive buffer was full"),
        ] {
            if count > 0 {
                write!(f, ", {count} {what}")?;
            }
        }
        Ok(())
    }
}

/// Runs the command until a signal ends it.
///
/// # Errors
/// When the socket cannot be opened, receiving fails or the file cannot be written.
pub fn run(args: &RecordArgs) -> Result<(), ToolError> {
    let stop = signals::stop_on_signals()?;
    run_with(args, &mut io::stdout(), &mut io::stderr(), &stop, |_| {})
}

/// Runs the command with other outputs, until `stop` is set. `listening` is told where the socket is bound.
///
/// # Errors
/// As [`run`].
pub fn run_with(
    args: &RecordArgs,
    out: &mut dyn Write,
    log: &mut dyn Write,
    stop: &AtomicBool,
    listening: impl FnOnce(SocketAddr),
) -> Result<(), ToolError> {
    let to_output = args.write == Path::new("-");
    if to_output && (args.rotate.is_some() || args.json) {
        return Err(ToolError::Usage(
            "standard output is the capture: --rotate and --json need a file",
        ));
    }
    let mut report = Report::new(out, log, args.json, args.status_every);
    let receiver = listen::open(args.listen)?;
    let address = receiver.local_addr().map_err(ToolError::Receive)?;
    let mut recorder = Recorder {
        receiver,
        address,
        file: PcapFile::create(&args.write, args.rotate, args.keep)?,
        start: Instant::now(),
        status: RecordStatus::default(),
    };
    listening(address);
    let result = recorder.work(args.count, &mut report, stop);
    let flushed = recorder.file.flush();
    let told = report.status(&recorder.status());
    result.and(flushed).and(told)
}

struct Recorder {
    receiver: UdpReceiver,
    address: SocketAddr,
    file: PcapFile,
    start: Instant,
    status: RecordStatus,
}

impl Recorder {
    fn work(
        &mut self,
        count: Option<u64>,
        report: &mut Report<'_>,
        stop: &AtomicBool,
    ) -> Result<(), ToolError> {
        let done = |s: &RecordStatus| count.is_some_and(|n| s.datagrams >= n);
        let mut flushed = Instant::now();
        while !stop.load(Ordering::Relaxed) && !done(&self.status) {
            if listen::receive(&mut self.receiver, listen::WAIT)? {
                self.write(count)?;
            }
            if flushed.elapsed() >= FLUSH {
                self.file.flush()?;
                flushed = Instant::now();
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
            self.write(count)?;
        }
        Ok(())
    }

    /// Writes the batch that was received last.
    fn write(&mut self, count: Option<u64>) -> Result<(), ToolError> {
        let now = unix_time();
        for (bytes, from) in self.receiver.datagrams() {
            if count.is_some_and(|n| self.status.datagrams >= n) {
                break;
            }
            let to = SocketAddr::new(destination(self.address.ip(), from), self.address.port());
            match self.file.write(now, from, to, bytes)? {
                Ok(()) => {
                    self.status.datagrams += 1;
                    self.status.bytes += bytes.len() as u64;
                }
                Err(_) => self.status.skipped += 1,
            }
        }
        Ok(())
    }

    fn status(&mut self) -> RecordStatus {
        RecordStatus {
            seconds: self.start.elapsed().as_secs_f64(),
            socket_drops: self.receiver.drops(),
            files: self.file.files,
            file: self.file.current.display().to_string(),
            ..self.status.clone()
        }
    }
}

/// The destination to write down: where we listen; on all addresses, the unspecified one of the sender's family.
fn destination(listen: IpAddr, from: SocketAddr) -> IpAddr {
    match (listen.is_ipv4(), from.is_ipv4()) {
        (true, true) | (false, false) => listen,
        (_, true) => Ipv4Addr::UNSPECIFIED.into(),
        (_, false) => Ipv6Addr::UNSPECIFIED.into(),
    }
}
