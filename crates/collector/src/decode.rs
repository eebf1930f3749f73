//! `parshall sflow decode`: reads datagrams, prints what was asked for, ends cleanly.
//!
//! A broken datagram is reported on the error output and does not end the run, as with sflowtool. A closed pipe on the output and
//! the signals INT and TERM are a normal end. Output gathers in a buffer that is written when it is large or when nothing more is waiting to be read.

use std::io::{self, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use parshall_linux::clock;
use parshall_sflow_wire::pcap::{Capture, CaptureError, Packet, find_udp};
use parshall_sflow_wire::print::{Fault, Format, Meta, Printer, Stamp};
use parshall_sflow_wire::types::Address;
use thiserror::Error;

use crate::args::{DecodeArgs, SFLOW_PORT};
use crate::input::{Family, FileInput, MAX_DATAGRAM, UdpInput};

/// Output is written when so many bytes have gathered.
const WRITE_AT: usize = 1 << 16;

/// Why decoding ended.
#[derive(Debug, Error)]
pub enum DecodeError {
    /// The file cannot be opened.
    #[error("cannot open {path}: {source}")]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file cannot be read, or is not a capture.
    #[error("{path}: {source}")]
    Capture {
        /// The file.
        path: PathBuf,
        /// What is wrong and where.
        source: CaptureError,
    },
    /// The socket cannot be opened.
    #[error("cannot listen on UDP port {port}{}: {source}{}", at(.listen), hint(.source))]
    Listen {
        /// The port.
        port: u16,
        /// The address, if not all.
        listen: Option<IpAddr>,
        /// What the system said.
        source: io::Error,
    },
    /// Receiving failed.
    #[error("receiving failed: {0}")]
    Receive(#[source] io::Error),
    /// The output cannot be written.
    #[error("cannot write the output: {0}")]
    Output(#[source] io::Error),
    /// Signals cannot be caught.
    #[error("cannot catch signals: {0}")]
    Signals(#[source] io::Error),
}

fn at(listen: &Option<IpAddr>) -> String {
    listen.map_or(String::new(), |ip| format!(" of {ip}"))
}

fn hint(e: &io::Error) -> &'static str {
    match e.kind() {
        io::ErrorKind::AddrInUse => {
            "; another collector has it (see `ss -lunp`), choose another with -p"
        }
        io::ErrorKind::AddrNotAvailable => "; no interface has that address",
        io::ErrorKind::PermissionDenied => {
            "; ports below 1024 need CAP_NET_BIND_SERVICE: run as root, or `setcap cap_net_bind_service+ep` on the program"
        }
        _ => "",
    }
}

/// Runs the command on standard output and error until the input ends or a signal says so.
pub fn run(args: &DecodeArgs) -> Result<(), DecodeError> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        // The second one ends the program even if it is stuck in a write; it must be registered before the first.
        signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&stop))
            .map_err(DecodeError::Signals)?;
        signal_hook::flag::register(signal, Arc::clone(&stop)).map_err(DecodeError::Signals)?;
    }
    run_with(
        args,
        &mut io::stdout().lock(),
        &mut io::stderr(),
        &stop,
        |_| {},
    )
}

/// Runs the command on other outputs, until `stop` is set. `listening` is told where the socket is bound.
pub fn run_with(
    args: &DecodeArgs,
    out: &mut dyn Write,
    log: &mut dyn Write,
    stop: &AtomicBool,
    listening: impl FnOnce(std::net::SocketAddr),
) -> Result<(), DecodeError> {
    let mut session = Session {
        args,
        printer: Printer::new(&args.format(), args.selection()),
        // The compatible formats take everything to the end of a captured frame for the datagram, as sflowtool does.
        to_end: !matches!(args.format(), Format::Json { .. }),
        out: Output {
            out,
            buf: Vec::with_capacity(2 * WRITE_AT),
        },
        log,
        stop,
        printed: 0,
        offset: LocalOffset::default(),
    };
    let result = if args.read.is_empty() {
        session.listen(listening)
    } else {
        session.files()
    };
    let flushed = session.out.flush();
    match result.and(flushed) {
        Err(DecodeError::Output(e)) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// One run of the command.
struct Session<'s> {
    args: &'s DecodeArgs,
    printer: Printer,
    to_end: bool,
    out: Output<'s>,
    log: &'s mut dyn Write,
    stop: &'s AtomicBool,
    printed: u64,
    offset: LocalOffset,
}

impl Session<'_> {
    fn done(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.args.count.is_some_and(|n| self.printed >= n)
    }

    /// Says something to the user. That nobody may be there to read it is no reason to end.
    fn say(&mut self, text: std::fmt::Arguments<'_>) {
        let _ = writeln!(self.log, "{text}");
    }

    fn files(&mut self) -> Result<(), DecodeError> {
        for path in &self.args.read {
            match self.file(path) {
                Err(e @ (DecodeError::Open { .. } | DecodeError::Capture { .. }))
                    if self.args.keep_going =>
                {
                    self.say(format_args!("{e}"));
                }
                other => other?,
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &Path) -> Result<(), DecodeError> {
        let failed = |source| DecodeError::Capture {
            path: path.to_owned(),
            source,
        };
        let input = FileInput::open(path, self.stop).map_err(|source| DecodeError::Open {
            path: path.to_owned(),
            source,
        })?;
        if self.stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut capture = match Capture::open(input) {
            // An interrupted wait looks like an empty file.
            Err(_) if self.stop.load(Ordering::Relaxed) => return Ok(()),
            other => other.map_err(failed)?,
        };
        let mut others = 0u64;
        while !self.done() {
            if capture.get_ref().is_drained() {
                self.out.flush()?;
            }
            match capture.next_packet() {
                Ok(Some(packet)) => others += u64::from(!self.packet(path, &packet)?),
                Ok(None) => break,
                Err(_) if self.stop.load(Ordering::Relaxed) => break,
                Err(e) => return Err(failed(e)),
            }
        }
        if others > 0 {
            self.say(format_args!(
                "{}: {others} frames without a UDP datagram passed over",
                path.display()
            ));
        }
        Ok(())
    }

    /// Prints the datagram in a captured packet. Says whether there was one.
    fn packet(&mut self, path: &Path, p: &Packet<'_>) -> Result<bool, DecodeError> {
        let Some(udp) = find_udp(p.link_type, p.data) else {
            return Ok(false);
        };
        if self
            .args
            .port
            .is_some_and(|port| port != udp.destination_port)
        {
            return Ok(true);
        }
        if (p.data.len() as u64) < u64::from(p.wire_len) {
            self.say(format_args!(
                "{}: packet at byte {}: incomplete, {} of {} bytes were captured (capture with a larger snap length)",
                path.display(), p.offset, p.data.len(), p.wire_len
            ));
            return Ok(true);
        }
        let meta = Meta {
            // sflowtool does not show the sender of a captured datagram.
            source: if self.to_end {
                Address::Unknown
            } else {
                udp.source.into()
            },
            read_time: Stamp {
                utc_offset: self.offset.at(0),
                ..Stamp::default()
            },
            capture_time: Some(Stamp {
                seconds: p.seconds,
                micros: p.micros,
                utc_offset: self.offset.at(p.seconds),
            }),
        };
        let datagram = if self.to_end { udp.to_end } else { udp.payload };
        if let Err(fault) = self.datagram(&meta, datagram)? {
            self.say(format_args!(
                "{}: packet at byte {}: {fault}",
                path.display(),
                p.offset
            ));
        }
        Ok(true)
    }

    fn listen(&mut self, listening: impl FnOnce(std::net::SocketAddr)) -> Result<(), DecodeError> {
        let (port, listen) = (self.args.port.unwrap_or(SFLOW_PORT), self.args.listen);
        let failed = |source| DecodeError::Listen {
            port,
            listen,
            source,
        };
        let family = match (self.args.ipv4, self.args.ipv6) {
            (true, _) => Family::V4,
            (_, true) => Family::V6,
            _ => Family::Both,
        };
        let input = UdpInput::bind(listen, port, family).map_err(failed)?;
        listening(input.local_addr().map_err(failed)?);
        let mut buf = vec![0; MAX_DATAGRAM];
        while !self.done() {
            let received = match input.try_recv(&mut buf) {
                Ok(None) => {
                    self.out.flush()?;
                    input.wait().map(|()| None)
                }
                other => other,
            };
            match received {
                Ok(Some((datagram, from))) => self.received(datagram, from)?,
                Ok(None) => {}
                Err(e) if self.args.keep_going => {
                    self.say(format_args!("receiving failed: {e}"));
                    // An error that stays must not fill the log.
                    std::thread::sleep(std::time::Duration::from_secs(1));
                }
                Err(e) => return Err(DecodeError::Receive(e)),
            }
        }
        Ok(())
    }

    fn received(&mut self, datagram: &[u8], from: IpAddr) -> Result<(), DecodeError> {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let seconds = now.as_secs() as u32;
        let meta = Meta {
            source: from.into(),
            read_time: Stamp {
                seconds,
                micros: now.subsec_micros(),
                utc_offset: self.offset.at(seconds),
            },
            capture_time: None,
        };
        if let Err(fault) = self.datagram(&meta, datagram)? {
            self.say(format_args!(
                "datagram of {from}, {} bytes: {fault}",
                datagram.len()
            ));
        }
        Ok(())
    }

    /// Prints a datagram; the inner error is what was wrong with it.
    fn datagram(&mut self, meta: &Meta, bytes: &[u8]) -> Result<Result<(), Fault>, DecodeError> {
        let result = self.printer.print(meta, bytes, &mut self.out.buf);
        self.printed += u64::from(!matches!(result, Ok(false)));
        if self.out.buf.len() >= WRITE_AT {
            self.out.flush()?;
        }
        Ok(result.map(|_| ()))
    }
}

/// The output and what has gathered for it.
struct Output<'s> {
    out: &'s mut dyn Write,
    buf: Vec<u8>,
}

impl Output<'_> {
    fn flush(&mut self) -> Result<(), DecodeError> {
        if self.buf.is_empty() {
            return Ok(());
        }
        let written = self
            .out
            .write_all(&self.buf)
            .and_then(|()| self.out.flush());
        self.buf.clear();
        written.map_err(DecodeError::Output)
    }
}

/// Remembers the offset of local time for the quarter of an hour it was asked for last: it never changes within one.
#[derive(Debug, Default)]
struct LocalOffset {
    known: Option<(u32, i32)>,
}

impl LocalOffset {
    fn at(&mut self, seconds: u32) -> i32 {
        let quarter = seconds / 900;
        match self.known {
            Some((q, offset)) if q == quarter => offset,
            _ => {
                let offset = clock::local_offset(i64::from(seconds));
                self.known = Some((quarter, offset));
                offset
            }
        }
    }
}
