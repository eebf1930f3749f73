//! `parshall sflow psample`: joins the kernel's PSAMPLE group and prints the samples that arrive, whoever takes them.
//!
//! - [`args`]: the options.
//! - [`status`]: what arrived and what was lost.

pub mod args;
pub mod status;

use std::fmt::Write as _;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::errno::Errno;
use parshall_agent::netlink::psample::{self, PacketSample};
use parshall_linux::genl::{Bus, GroupSocket, read_messages};
use thiserror::Error;

pub use args::PsampleArgs;
pub use status::PsampleStatus;

use crate::common::{ToolError, signals};

/// Bytes of receive buffer asked for, as hsflowd does.
const RECEIVE_BUFFER: usize = 8_000_000;
/// Longest datagram read.
const DATAGRAM: usize = 65_536;
/// How often a waiting reader looks whether it should stop.
const WAIT: Duration = Duration::from_millis(200);

/// Why the command ended.
#[derive(Debug, Error)]
pub enum PsampleError {
    /// The kernel refused to let us listen.
    #[error(transparent)]
    Listen(#[from] parshall_linux::Error),
    /// The kernel's answer lacks what was asked for.
    #[error("the kernel's psample family has no group \"{}\"", psample::GROUP)]
    NoGroup,
    /// As with the other tools.
    #[error(transparent)]
    Tool(#[from] ToolError),
}

/// Runs the command until a signal or the count of samples ends it.
///
/// # Errors
/// When the kernel has no PSAMPLE or lets us not listen to it, receiving fails or the output cannot be written.
pub fn run(args: &PsampleArgs) -> Result<(), PsampleError> {
    let stop = signals::stop_on_signals()?;
    let (socket, family) = join()?;
    let mut log = io::stderr();
    // Nobody may be there to read it.
    let _ = writeln!(log, "listening to PSAMPLE");
    let receive = |buffer: &mut [u8]| socket.receive(buffer, WAIT);
    read(args, family, receive, &mut io::stdout(), &mut log, &stop).map_err(Into::into)
}

/// A socket in the group of samples, and the type of their messages.
fn join() -> Result<(GroupSocket, u16), PsampleError> {
    let socket = GroupSocket::open(Bus::Generic, 0)?;
    let family = socket.family(psample::FAMILY).map_err(|e| {
        if e.errno() == Some(Errno::ENOENT) {
            e.hint("load the kernel's module: modprobe psample")
        } else {
            e
        }
    })?;
    let group = family.group(psample::GROUP).ok_or(PsampleError::NoGroup)?;
    socket.set_receive_buffer(RECEIVE_BUFFER);
    socket.join(group)?;
    Ok((socket, family.id))
}

/// Reads datagrams of `receive` until `stop` is set or as many samples as wanted were there.
fn read(
    args: &PsampleArgs,
    family: u16,
    mut receive: impl FnMut(&mut [u8]) -> io::Result<Option<usize>>,
    out: &mut dyn Write,
    log: &mut dyn Write,
    stop: &AtomicBool,
) -> Result<(), ToolError> {
    let mut buffer = vec![0; DATAGRAM];
    let mut status = PsampleStatus::default();
    let mut line = String::new();
    let ended = |s: &PsampleStatus| {
        stop.load(Ordering::Relaxed) || args.count.is_some_and(|most| s.samples >= most)
    };
    while !ended(&status) {
        let length = match receive(&mut buffer) {
            Ok(None) => continue,
            Ok(Some(n)) => n.min(DATAGRAM),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) if e.raw_os_error() == Some(Errno::ENOBUFS as i32) => {
                status.buffer_full += 1;
                continue;
            }
            Err(e) => return Err(ToolError::Receive(e)),
        };
        line.clear();
        for message in read_messages(&buffer[..length]).filter(|m| m.kind == family) {
            let Some(sample) = psample::decode(message.body) else {
                status.other += 1;
                continue;
            };
            if !args.wants(sample.group) || ended(&status) {
                continue;
            }
            status.count(&sample);
            print(args, &sample, &mut line);
        }
        match out.write_all(line.as_bytes()).and_then(|()| out.flush()) {
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => break,
            other => other.map_err(ToolError::Output)?,
        }
    }
    report(args, &status, out, log)
}

fn report(
    args: &PsampleArgs,
    status: &PsampleStatus,
    out: &mut dyn Write,
    log: &mut dyn Write,
) -> Result<(), ToolError> {
    if !(args.json && args.quiet) {
        // That nobody may be there to read it is no failure.
        let _ = if args.json {
            writeln!(log, "{}", status.json())
        } else {
            writeln!(log, "{status}")
        };
        return Ok(());
    }
    match writeln!(out, "{}", status.json()).and_then(|()| out.flush()) {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other.map_err(ToolError::Output),
    }
}

fn print(args: &PsampleArgs, s: &PacketSample<'_>, line: &mut String) {
    if args.quiet {
        return;
    }
    if args.json {
        // Numbers and text always have a form.
        line.push_str(&serde_json::to_string(s).unwrap_or_default());
    } else {
        text(s, line);
    }
    line.push('\n');
}

fn text(s: &PacketSample<'_>, line: &mut String) {
    let rate = if s.probability { "probability" } else { "rate" };
    // Writing to a String cannot fail, here and below.
    let _ = write!(
        line,
        "group {} seq {} in {} out {} {rate} {} length {} protocol {}",
        s.group,
        s.sequence,
        s.input,
        s.output,
        s.rate,
        s.length,
        protocol(s.protocol)
    );
    if let Some(queue) = s.queue {
        let _ = write!(line, " queue {queue}");
    }
    if let Some(bytes) = s.queue_bytes {
        let _ = write!(line, " queue-bytes {bytes}");
    }
    if let Some(ns) = s.latency {
        let _ = write!(line, " latency {ns} ns");
    }
    if let Some(ns) = s.timestamp {
        let _ = write!(
            line,
            " time {}.{:09}",
            ns / 1_000_000_000,
            ns % 1_000_000_000
        );
    }
    if !s.cookie.is_empty() {
        line.push_str(" cookie ");
        hexadecimal(s.cookie, line);
    }
    let _ = write!(line, " header {} ", s.header.len());
    hexadecimal(s.header, line);
}

/// Ethernet types begin at 0x600 (IEEE 802.3); below are the protocols of sFlow.
fn protocol(n: u16) -> String {
    match n {
        1 => "ethernet".to_owned(),
        11 => "ipv4".to_owned(),
        12 => "ipv6".to_owned(),
        n if n >= 0x600 => format!("0x{n:04x}"),
        n => n.to_string(),
    }
}

fn hexadecimal(bytes: &[u8], line: &mut String) {
    for b in bytes {
        let _ = write!(line, "{b:02x}");
    }
}

#[cfg(test)]
mod tests;
