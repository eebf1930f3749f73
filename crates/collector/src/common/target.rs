//! Where datagrams go, and what became of them.
//!
//! Each target has a socket of its own, so that a collector that is dead, slow or unreachable is its own affair: nothing here waits for one unless it is
//! asked to.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::errno::Errno;
use parshall_linux::udp_send::DatagramSender;
use serde::Serialize;

use super::ToolError;
use super::args::HostPort;
use super::packet::put_udp;

/// Bytes of send buffer asked for.
const SEND_BUFFER: usize = 4 << 20;
/// How long to wait for room before looking whether to end.
const WAIT: Duration = Duration::from_millis(100);
/// Datagrams handed over at a time.
const BATCH: usize = 64;

/// What became of the datagrams for one target.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct TargetCounts {
    /// Host and port.
    pub target: String,
    /// Datagrams that the kernel took.
    pub sent: u64,
    /// Bytes of UDP payload in them.
    pub bytes: u64,
    /// Datagrams lost because the kernel had no room.
    pub lost: u64,
    /// How often the target's host said that nobody listens there.
    pub refused: u64,
    /// Datagrams that could not be sent for another reason.
    pub errors: u64,
    /// The last reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

impl TargetCounts {
    /// Adds what became of others for the same target.
    pub(crate) fn add(&mut self, other: &TargetCounts) {
        self.sent += other.sent;
        self.bytes += other.bytes;
        self.lost += other.lost;
        self.refused += other.refused;
        self.errors += other.errors;
        if self.last_error.is_none() {
            self.last_error.clone_from(&other.last_error);
        }
    }

    fn failed(&mut self, why: &dyn std::fmt::Display) {
        self.errors += 1;
        let why = why.to_string();
        if self.last_error.as_ref() != Some(&why) {
            self.last_error = Some(why);
        }
    }
}

impl std::fmt::Display for TargetCounts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {} sent", self.target, self.sent)?;
        if self.lost > 0 {
            write!(f, ", {} lost for want of room", self.lost)?;
        }
        if self.refused > 0 {
            write!(f, ", refused {} times (nobody listens there)", self.refused)?;
        }
        if self.errors > 0 {
            write!(f, ", {} not sent", self.errors)?;
        }
        if let Some(why) = &self.last_error {
            write!(f, " ({why})")?;
        }
        Ok(())
    }
}

/// Whether to wait until there is room.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Patience<'s> {
    /// What does not go at once is lost.
    None,
    /// Wait, unless the end is asked for.
    Until(&'s AtomicBool),
}

/// One receiver.
pub(crate) struct Target {
    address: SocketAddr,
    sender: DatagramSender,
    spoof: bool,
    /// Packets with headers of ours, one after the other, and where each ends.
    packets: Vec<u8>,
    ends: Vec<usize>,
    pub(crate) counts: TargetCounts,
}

impl Target {
    /// Opens the way to it; with `spoof`, by a raw socket.
    pub(crate) fn open(to: &HostPort, port: u16, spoof: bool) -> Result<Target, ToolError> {
        let (name, address) = (to.name(port), to.resolve(port)?);
        let sender = if spoof {
            DatagramSender::raw(address.ip(), SEND_BUFFER).map_err(|source| ToolError::Spoof {
                name: name.clone(),
                source,
            })?
        } else {
            DatagramSender::udp(address, SEND_BUFFER).map_err(|source| ToolError::Target {
                name: name.clone(),
                source,
            })?
        };
        Ok(Target {
            address,
            sender,
            spoof,
            packets: Vec::new(),
            ends: Vec::new(),
            counts: TargetCounts {
                target: name,
                ..TargetCounts::default()
            },
        })
    }

    /// Sends datagrams, each with who sent it first.
    pub(crate) fn send(&mut self, datagrams: &[(&[u8], SocketAddr)], patience: Patience<'_>) {
        for batch in datagrams.chunks(BATCH) {
            if self.spoof {
                self.send_spoofed(batch, patience);
            } else {
                let messages: Vec<&[u8]> = batch.iter().map(|d| d.0).collect();
                hand_over(&self.sender, &mut self.counts, &messages, 0, patience);
            }
        }
    }

    fn send_spoofed(&mut self, batch: &[(&[u8], SocketAddr)], patience: Patience<'_>) {
        self.packets.clear();
        self.ends.clear();
        for (payload, from) in batch {
            match put_udp(&mut self.packets, *from, self.address, payload) {
                Ok(()) => self.ends.push(self.packets.len()),
                Err(e) => self.counts.failed(&e),
            }
        }
        let mut start = 0;
        let mut messages = Vec::with_capacity(BATCH);
        for end in &self.ends {
            messages.extend(self.packets.get(start..*end));
            start = *end;
        }
        let headers = match self.address.ip() {
            IpAddr::V4(_) => 28,
            IpAddr::V6(_) => 48,
        };
        hand_over(&self.sender, &mut self.counts, &messages, headers, patience);
    }
}

/// Hands messages over until all are gone or given up. `headers` bytes of each are not payload.
fn hand_over(
    sender: &DatagramSender,
    counts: &mut TargetCounts,
    messages: &[&[u8]],
    headers: usize,
    patience: Patience<'_>,
) {
    let mut rest = messages;
    // A refusal is about a datagram before, and is told once: the same message goes at the second try.
    let mut again = false;
    while let Some((_, after)) = rest.split_first() {
        match sender.send(rest) {
            Ok(n) => {
                let (gone, left) = rest.split_at(n.min(rest.len()));
                counts.sent += gone.len() as u64;
                counts.bytes += gone.iter().map(|m| (m.len() - headers) as u64).sum::<u64>();
                rest = left;
                again = false;
            }
            Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => {
                counts.refused += 1;
                if again {
                    counts.failed(&e);
                    rest = after;
                }
                again = !again;
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) if no_room(&e) => match patience {
                Patience::Until(stop) if !stop.load(Ordering::Relaxed) => wait(sender, &e),
                _ => {
                    counts.lost += rest.len() as u64;
                    return;
                }
            },
            Err(e) => {
                counts.failed(&e);
                rest = after;
                again = false;
            }
        }
    }
}

/// The socket's buffer is full, or a queue below it.
fn no_room(e: &io::Error) -> bool {
    e.kind() == io::ErrorKind::WouldBlock || e.raw_os_error() == Some(Errno::ENOBUFS as i32)
}

fn wait(sender: &DatagramSender, e: &io::Error) {
    // Of a full device queue the socket knows nothing: it would be writable at once.
    if e.kind() != io::ErrorKind::WouldBlock || sender.wait(WAIT).is_err() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn a_dead_target_gets_every_datagram_and_is_told_of() {
        let gone = UdpSocket::bind("127.0.0.1:0").unwrap();
        let name = gone.local_addr().unwrap().to_string();
        drop(gone);
        let mut t = Target::open(&HostPort::parse(&name).unwrap(), 1, false).unwrap();
        let from = "192.0.2.1:9".parse().unwrap();
        let datagrams = vec![(&b"abcd"[..], from); 100];
        t.send(&datagrams, Patience::None);
        assert_eq!(
            (t.counts.sent, t.counts.bytes, t.counts.errors),
            (100, 400, 0)
        );
        assert!(t.counts.refused > 0);
        let text = t.counts.to_string();
        assert!(text.contains("nobody listens"), "{text}");
    }

    #[test]
    fn what_is_too_long_is_named_and_the_rest_goes_on() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let name = receiver.local_addr().unwrap().to_string();
        let mut t = Target::open(&HostPort::parse(&name).unwrap(), 1, false).unwrap();
        let (from, long) = ("192.0.2.1:9".parse().unwrap(), vec![0; 65_520]);
        t.send(&[(b"a", from), (&long, from), (b"b", from)], Patience::None);
        assert_eq!((t.counts.sent, t.counts.errors), (2, 1));
        assert!(t.counts.last_error.is_some());
    }
}
