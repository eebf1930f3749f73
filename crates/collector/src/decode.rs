//! `parshall sflow decode`: reads datagrams, prints what was asked for, ends cleanly.
//!
//! A broken datagram is reported on the error output and does not end the run, as with sflowtool. A closed pipe on the output and
//! the signals INT and TERM are a normal end. Output gathers in a buffer that is written when it is large or when nothing more is waiting to be read.
//! At the end of listening the error output says what was received and lost.

use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use parshall_sflow_wire::pcap::CaptureError;
use thiserror::Error;

use crate::args::DecodeArgs;
use crate::files::Files;
use crate::live;
use crate::output::{Shared, unless_closed};
use crate::status::Status;

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
    /// The system gives no thread.
    #[error("cannot start a thread for a socket: {0}")]
    Thread(#[source] io::Error),
    /// A reader ended by a mistake of ours.
    #[error("a reading thread ended by a fault of the program")]
    Panicked,
    /// Two ports to listen on.
    #[error("--port {port} and the port of --listen {listen} are not the same: give one of them")]
    TwoPorts {
        /// Of `--port`.
        port: u16,
        /// Of `--listen`.
        listen: u16,
    },
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
    run_with(args, &mut io::stdout(), &mut io::stderr(), &stop, |_| {})
}

/// Runs the command on other outputs, until `stop` is set. `listening` is told where the sockets are bound.
pub fn run_with(
    args: &DecodeArgs,
    out: &mut (dyn Write + Send),
    log: &mut (dyn Write + Send),
    stop: &AtomicBool,
    listening: impl FnOnce(SocketAddr),
) -> Result<(), DecodeError> {
    if let (Some(port), Some(listen)) = (args.port, args.listen.and_then(|l| l.port))
        && port != listen
    {
        return Err(DecodeError::TwoPorts { port, listen });
    }
    let shared = Shared::new(args, out, log, stop);
    if args.read.is_empty() {
        return unless_closed(live::listen(&shared, listening));
    }
    let mut files = Files::new(&shared);
    let result = files.run();
    if args.wants_status() {
        shared.report(&Status {
            printed: shared.printed(),
            ..Status::of([files.counts()])
        });
    }
    unless_closed(result)
}
