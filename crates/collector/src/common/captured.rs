//! sFlow datagrams in capture files.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parshall_sflow_wire::pcap::{Capture, Udp, find_udp};

use super::ToolError;
use crate::input::FileInput;

/// The version word that every sFlow datagram begins with: 2, 4 and 5 exist.
const VERSIONS: [[u8; 4]; 3] = [[0, 0, 0, 2], [0, 0, 0, 4], [0, 0, 0, 5]];
/// Bytes of the shortest header.
const SHORTEST: usize = 24;

/// What was found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// Frames in the file.
    pub(crate) frames: u64,
    /// sFlow datagrams among them.
    pub(crate) datagrams: u64,
    /// Datagrams that the capture did not take whole.
    pub(crate) cut: u64,
}

/// A capture file that is being read.
pub(crate) struct Captured<'s> {
    path: PathBuf,
    port: Option<u16>,
    capture: Option<Capture<FileInput<'s>>>,
    stop: &'s AtomicBool,
    /// What was found so far.
    pub(crate) found: Found,
}

impl<'s> Captured<'s> {
    /// Opens a file; `-` is standard input. With a port, only datagrams to it are looked at.
    pub(crate) fn open(
        path: &Path,
        port: Option<u16>,
        stop: &'s AtomicBool,
    ) -> Result<Captured<'s>, ToolError> {
        let input = FileInput::open(path, stop).map_err(|source| ToolError::Open {
            path: path.to_owned(),
            source,
        })?;
        let capture = match Capture::open(input) {
            Ok(c) => Some(c),
            // An interrupted wait looks like an empty file.
            Err(_) if stop.load(Ordering::Relaxed) => None,
            Err(source) => {
                return Err(ToolError::Capture {
                    path: path.to_owned(),
                    source,
                });
            }
        };
        Ok(Captured {
            path: path.to_owned(),
            port,
            capture,
            stop,
            found: Found::default(),
        })
    }

    /// Says whether the next read may have to wait, as for a pipe.
    pub(crate) fn may_wait(&self) -> bool {
        let drained = |c: &Capture<FileInput<'s>>| c.get_ref().is_drained();
        self.capture.as_ref().is_some_and(drained)
    }

    /// Gives the next sFlow datagram and the time it was captured to `take`. Says whether there was one before the end.
    pub(crate) fn next(
        &mut self,
        take: impl FnOnce(Duration, &Udp<'_>),
    ) -> Result<bool, ToolError> {
        let Some(capture) = &mut self.capture else {
            return Ok(false);
        };
        while !self.stop.load(Ordering::Relaxed) {
            let packet = match capture.next_packet() {
                Ok(Some(p)) => p,
                Ok(None) => return Ok(false),
                Err(_) if self.stop.load(Ordering::Relaxed) => return Ok(false),
                Err(source) => {
                    return Err(ToolError::Capture {
                        path: self.path.clone(),
                        source,
                    });
                }
            };
            self.found.frames += 1;
            let Some(udp) = find_udp(packet.link_type, packet.data) else {
                continue;
            };
            if self.port.is_some_and(|p| p != udp.destination_port) || !is_sflow(udp.payload) {
                continue;
            }
            if (packet.data.len() as u64) < u64::from(packet.wire_len) {
                self.found.cut += 1;
                continue;
            }
            self.found.datagrams += 1;
            let micros = packet.micros.min(999_999) * 1000;
            take(Duration::new(packet.seconds.into(), micros), &udp);
            return Ok(true);
        }
        Ok(false)
    }
}

/// Whether it begins as sFlow does.
pub(crate) fn is_sflow(payload: &[u8]) -> bool {
    let version = payload.first_chunk::<4>();
    payload.len() >= SHORTEST && version.is_some_and(|v| VERSIONS.contains(v))
}
