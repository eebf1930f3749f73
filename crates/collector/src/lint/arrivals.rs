//! Datagrams as they come, from capture files or a socket, with the place and time of each.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parshall_linux::udp::{UdpOptions, UdpReceiver};
use parshall_sflow_wire::pcap::{Capture, CaptureError, Packet, find_udp};
use thiserror::Error;

use crate::args::{Listen, SFLOW_PORT};
use crate::input::FileInput;

/// Bytes of receive buffer asked for.
const RECEIVE_BUFFER: usize = 64 << 20;
/// How often a waiting reader looks whether it should stop.
const WAIT: Duration = Duration::from_millis(100);

/// Why there is nothing more to read.
#[derive(Debug, Error)]
pub enum InputError {
    /// The file cannot be opened.
    #[error("cannot open {path}: {source}")]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is no capture, or broken.
    #[error("{path}: {source}")]
    Capture {
        /// The file.
        path: PathBuf,
        /// What is wrong and where.
        source: CaptureError,
    },
    /// The socket cannot be opened.
    #[error(
        "cannot listen on UDP {at}: {source} (is another collector there? `ss -lunp` shows who listens)"
    )]
    Listen {
        /// Where.
        at: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// Receiving failed.
    #[error("receiving failed: {0}")]
    Receive(#[source] io::Error),
}

/// One UDP datagram.
#[derive(Debug)]
pub struct Arrived<'a> {
    /// The file, or the sender.
    pub origin: Arc<str>,
    /// Number of the packet in the file, or of the datagram received; from 1.
    pub packet: u64,
    /// Nanoseconds since 1970-01-01 UTC; microseconds is what captures tell.
    pub time_ns: u64,
    /// It came over IPv6.
    pub v6: bool,
    /// The capture has only a part of it.
    pub cut: bool,
    /// Its payload.
    pub bytes: &'a [u8],
}

/// Takes each datagram; the end when it says `false`.
pub type Take<'t> = dyn FnMut(&Arrived<'_>) -> bool + 't;

/// Reads capture files one after the other. Datagrams to other ports than `port` are counted and passed over.
///
/// # Errors
/// When a file cannot be read or is no capture; what was in front of the fault has been handed over.
pub fn files(
    paths: &[PathBuf],
    port: Option<u16>,
    stop: &AtomicBool,
    take: &mut Take<'_>,
) -> Result<u64, InputError> {
    let mut others = 0;
    for path in paths {
        others += file(path, port, stop, take)?;
    }
    Ok(others)
}

fn file(
    path: &Path,
    port: Option<u16>,
    stop: &AtomicBool,
    take: &mut Take<'_>,
) -> Result<u64, InputError> {
    let broken = |source| InputError::Capture {
        path: path.to_owned(),
        source,
    };
    let input = FileInput::open(path, stop).map_err(|source| InputError::Open {
        path: path.to_owned(),
        source,
    })?;
    let origin: Arc<str> = path.display().to_string().into();
    let mut capture = match Capture::open(input) {
        // An interrupted wait looks like an empty file.
        Err(_) if stop.load(Ordering::Relaxed) => return Ok(0),
        other => other.map_err(broken)?,
    };
    let (mut number, mut others) = (0, 0);
    while !stop.load(Ordering::Relaxed) {
        let Some(packet) = capture.next_packet().map_err(broken)? else {
            break;
        };
        number += 1;
        match arrived(&packet, &origin, number, port) {
            Some(a) if !take(&a) => break,
            Some(_) => {}
            None => others += 1,
        }
    }
    Ok(others)
}

fn arrived<'a>(
    p: &Packet<'a>,
    origin: &Arc<str>,
    number: u64,
    port: Option<u16>,
) -> Option<Arrived<'a>> {
    let udp = find_udp(p.link_type, p.data)?;
    if port.is_some_and(|port| port != udp.destination_port) {
        return None;
    }
    Some(Arrived {
        origin: origin.clone(),
        packet: number,
        time_ns: u64::from(p.seconds) * 1_000_000_000 + u64::from(p.micros) * 1000,
        v6: udp.source.is_ipv6(),
        cut: (p.data.len() as u64) < u64::from(p.wire_len),
        bytes: udp.payload,
    })
}

/// Opens a socket; without an address for IPv6 and IPv4 alike.
///
/// # Errors
/// When the system refuses.
pub fn bind(listen: Option<Listen>) -> Result<UdpReceiver, InputError> {
    let port = listen.and_then(|l| l.port).unwrap_or(SFLOW_PORT);
    let options = UdpOptions {
        dual: false,
        shared: false,
        buffer_bytes: RECEIVE_BUFFER,
    };
    let at = |ip| SocketAddr::new(ip, port);
    let refused = |at, source| InputError::Listen { at, source };
    if let Some(l) = listen {
        let at = at(l.ip);
        return UdpReceiver::bind(at, options).map_err(|e| refused(at, e));
    }
    let dual = UdpOptions {
        dual: true,
        ..options
    };
    let any4 = at(Ipv4Addr::UNSPECIFIED.into());
    UdpReceiver::bind(at(Ipv6Addr::UNSPECIFIED.into()), dual)
        .or_else(|_| UdpReceiver::bind(any4, options))
        .map_err(|e| refused(any4, e))
}

/// Receives until `stop`, until `until`, or until `take` has enough.
///
/// # Errors
/// When receiving fails.
pub fn receive(
    receiver: &mut UdpReceiver,
    until: Option<Instant>,
    stop: &AtomicBool,
    take: &mut Take<'_>,
) -> Result<(), InputError> {
    let mut number = 0;
    let mut from: Option<(SocketAddr, Arc<str>)> = None;
    loop {
        let over = stop.load(Ordering::Relaxed) || until.is_some_and(|u| Instant::now() >= u);
        if !receiver.receive().map_err(InputError::Receive)? {
            if over {
                return Ok(());
            }
            receiver.wait(WAIT).map_err(InputError::Receive)?;
            continue;
        }
        let time_ns = now_ns();
        for (bytes, sender) in receiver.datagrams() {
            number += 1;
            let origin = match &from {
                Some((s, o)) if *s == sender => o.clone(),
                _ => {
                    let o: Arc<str> = sender.to_string().into();
                    from = Some((sender, o.clone()));
                    o
                }
            };
            let a = Arrived {
                origin,
                packet: number,
                time_ns,
                v6: matches!(sender, SocketAddr::V6(a) if a.ip().to_ipv4_mapped().is_none()),
                cut: false,
                bytes,
            };
            if !take(&a) {
                return Ok(());
            }
        }
        if over {
            // What has arrived by then is taken, but a sender that never rests does not hold us.
            return Ok(());
        }
    }
}

/// The clock, nanoseconds since 1970-01-01 UTC.
pub fn now_ns() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |d| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX))
}
