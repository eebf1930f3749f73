//! One collector: its socket, its troubles, and when to try again.
//!
//! UDP tells of a dead receiver only by an ICMP error, which the kernel hands to the next call on a connected socket
//! (RFC 1122 section 4.1.3.3). Any such error, a missing route and a failed lookup alike, pauses this collector: datagrams
//! are counted as failed, and the socket is made anew after a time that doubles up to a limit. The others notice nothing.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsRawFd;

use nix::errno::Errno;
use socket2::{Domain, Protocol, Socket, Type};

use super::send::{Outcome, send_all};
use super::{Lookup, Resolve};
use crate::config::{CollectorConfig, CollectorHost};
use crate::status::{CollectorState, CollectorStatus};

const SECOND: u64 = 1_000_000_000;
/// First pause after an error.
const FIRST_PAUSE: u64 = SECOND;
/// Longest pause when the collector's address or route is wrong.
const LONGEST_PAUSE: u64 = 30 * SECOND;
/// Longest pause when its port is closed: a collector that is restarted is soon met again.
const LONGEST_REFUSED: u64 = 8 * SECOND;
/// How often a name is looked up again while all is well.
const RENEW: u64 = 300 * SECOND;
/// Socket send buffer in bytes, as hsflowd's.
const SEND_BUFFER: usize = 2_000_000;

enum State {
    /// Nothing until then.
    Waiting { until: u64 },
    /// A lookup is under way and there is no address yet.
    Resolving,
    /// Ready to send.
    Up {
        socket: Socket,
        peer: SocketAddr,
        /// Segmentation offload works on this way.
        rows: bool,
    },
}

/// One collector and what became of it.
pub struct Collector {
    config: CollectorConfig,
    state: State,
    /// The lookup whose outcome is awaited.
    ticket: Option<u64>,
    /// When the name is to be looked up again.
    renew: u64,
    /// The last pause made, 0 = none since all went well.
    pause: u64,
    sent: u64,
    sent_bytes: u64,
    failed: u64,
    last_error: Option<(u64, String)>,
}

impl Collector {
    pub fn new(config: CollectorConfig, now: u64) -> Collector {
        Collector {
            config,
            state: State::Waiting { until: now },
            ticket: None,
            renew: u64::MAX,
            pause: 0,
            sent: 0,
            sent_bytes: 0,
            failed: 0,
            last_error: None,
        }
    }

    pub fn config(&self) -> &CollectorConfig {
        &self.config
    }

    /// Opens the socket or starts a lookup when it is time. Says when to call again.
    pub fn tick(&mut self, now: u64, resolver: &mut dyn Resolve, next_ticket: &mut u64) -> u64 {
        let due = match self.state {
            State::Waiting { until } => until,
            State::Resolving => u64::MAX,
            State::Up { .. } => self.renew,
        };
        if due <= now {
            match self.config.host.clone() {
                CollectorHost::Address(ip) => self.open(now, SocketAddr::new(ip, self.config.port)),
                CollectorHost::Name(name) => {
                    resolver.start(*next_ticket, &name, self.config.port);
                    self.ticket = Some(*next_ticket);
                    self.renew = u64::MAX;
                    *next_ticket += 1;
                    if !matches!(self.state, State::Up { .. }) {
                        self.state = State::Resolving;
                    }
                }
            }
        }
        let own = match self.state {
            State::Waiting { until } => until,
            State::Resolving => u64::MAX,
            State::Up { .. } => self.renew,
        };
        // Lookups end without a signal; they are asked for now and then.
        if self.ticket.is_some() {
            own.min(now + SECOND / 20)
        } else {
            own
        }
    }

    /// Takes in the outcome of a lookup, if it is this collector's.
    pub fn looked_up(&mut self, now: u64, lookup: &Lookup) {
        if self.ticket != Some(lookup.ticket) {
            return;
        }
        self.ticket = None;
        let fits = |a: &&SocketAddr| {
            self.config
                .source
                .is_none_or(|s| s.is_ipv4() == a.is_ipv4())
        };
        let found = match &lookup.result {
            Ok(list) => list
                .iter()
                .find(fits)
                .copied()
                .ok_or("no address of the source's IP version".to_owned()),
            Err(e) => Err(e.clone()),
        };
        match found {
            Ok(peer) if matches!(self.state, State::Up { peer: old, .. } if old == peer) => {}
            Ok(peer) => self.open(now, peer),
            Err(e) => {
                let text = format!("look up {}: {e}", self.config);
                match self.state {
                    // The address found before may well be right still.
                    State::Up { .. } => self.last_error = Some((now, text)),
                    _ => self.fail(now, text, LONGEST_PAUSE),
                }
            }
        }
        self.renew = now + RENEW;
    }

    fn open(&mut self, now: u64, peer: SocketAddr) {
        match connect(peer, self.config.source) {
            Ok(socket) => {
                self.state = State::Up {
                    socket,
                    peer,
                    rows: true,
                }
            }
            Err(text) => self.fail(now, text, LONGEST_PAUSE),
        }
    }

    /// Sends the datagrams, or counts them as failed.
    pub fn send(&mut self, now: u64, datagrams: &[&[u8]]) {
        let State::Up { socket, peer, rows } = &mut self.state else {
            self.failed += datagrams.len() as u64;
            return;
        };
        let Outcome { sent, error } = send_all(socket.as_raw_fd(), datagrams, rows);
        let peer = *peer;
        self.sent += sent as u64;
        self.sent_bytes += datagrams
            .iter()
            .take(sent)
            .map(|d| d.len() as u64)
            .sum::<u64>();
        self.failed += (datagrams.len() - sent) as u64;
        match error {
            None => {
                // Well again once an error stayed away for longer than the pause before.
                if self
                    .last_error
                    .as_ref()
                    .is_none_or(|(at, _)| now.saturating_sub(*at) > 2 * self.pause + SECOND)
                {
                    self.pause = 0;
                }
            }
            Some(Errno::EAGAIN | Errno::ENOBUFS) => {
                // The way is there, only full: the next batch finds it open again.
                self.last_error = Some((now, format!("send to {peer}: send buffer full")));
            }
            Some(e) => {
                let limit = if e == Errno::ECONNREFUSED {
                    LONGEST_REFUSED
                } else {
                    LONGEST_PAUSE
                };
                self.fail(
                    now,
                    format!("send to {peer}: {}", io::Error::from(e)),
                    limit,
                );
            }
        }
    }

    fn fail(&mut self, now: u64, text: String, limit: u64) {
        tracing::warn!(collector = %self.config, "{text}");
        self.last_error = Some((now, text));
        self.pause = (self.pause * 2).clamp(FIRST_PAUSE, limit);
        self.state = State::Waiting {
            until: now + self.pause,
        };
    }

    pub fn status(&self, now: u64) -> CollectorStatus {
        let (state, peer) = match &self.state {
            State::Waiting { .. } => (CollectorState::Waiting, None),
            State::Resolving => (CollectorState::Resolving, None),
            State::Up { peer, .. } => (CollectorState::Up, Some(*peer)),
        };
        CollectorStatus {
            collector: self.config.to_string(),
            peer,
            state,
            sent: self.sent,
            sent_bytes: self.sent_bytes,
            failed: self.failed,
            last_error: self.last_error.as_ref().map(|(_, text)| text.clone()),
            last_error_ago_ms: self
                .last_error
                .as_ref()
                .map(|(at, _)| now.saturating_sub(*at) / 1_000_000),
            last_error_unix_ms: None,
        }
    }
}

/// A non-blocking UDP socket connected to `peer`, or what went wrong, in words.
fn connect(peer: SocketAddr, source: Option<IpAddr>) -> Result<Socket, String> {
    let made = Socket::new(Domain::for_address(peer), Type::DGRAM, Some(Protocol::UDP));
    let socket = made.map_err(|e| format!("UDP socket: {e}"))?;
    socket
        .set_nonblocking(true)
        .map_err(|e| format!("UDP socket: {e}"))?;
    // A smaller buffer than wished for still works.
    let _ = socket.set_send_buffer_size(SEND_BUFFER);
    if let Some(ip) = source {
        let any: IpAddr = if peer.is_ipv4() {
            Ipv4Addr::UNSPECIFIED.into()
        } else {
            Ipv6Addr::UNSPECIFIED.into()
        };
        let from = if ip.is_ipv4() == peer.is_ipv4() {
            ip
        } else {
            any
        };
        socket
            .bind(&SocketAddr::new(from, 0).into())
            .map_err(|e| format!("send from {from}: {e}"))?;
    }
    socket
        .connect(&peer.into())
        .map_err(|e| format!("reach {peer}: {e}"))?;
    Ok(socket)
}
