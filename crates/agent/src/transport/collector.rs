//! One collector: its socket, its troubles, and when to try again.
//!
//! UDP tells of a dead receiver only by an ICMP error, which the kernel hands to the next call on the socket. Any such error,
//! a missing route, namespace or device, and a failed lookup alike, pauses this collector: datagrams are counted as lost by
//! what is in the way, and the socket is made anew after a time that doubles up to a limit. The others notice nothing.
//!
//! A socket holds its network namespace: when the name goes, the namespace would live on unseen, with this socket in it. So
//! the name is looked at once a second, and a namespace that has gone is let go.

use std::net::SocketAddr;
use std::os::fd::AsRawFd;

use nix::errno::Errno;
use parshall_linux::{NetNs, NsId};
use socket2::Socket;

use super::limit::Limiter;
use super::repack::Repacker;
use super::send::{Outcome, send_all};
use super::socket::{Opened, Trouble, loss_of, open};
use super::trouble::Troubles;
use super::{Lookup, Resolve};
use crate::collector_config::{CollectorConfig, CollectorHost};
use crate::status::{CollectorState, CollectorStatus, Loss, Losses};

const SECOND: u64 = 1_000_000_000;
/// First pause after an error.
const FIRST_PAUSE: u64 = SECOND;
/// Longest pause when the collector's address or route is wrong.
const LONGEST_PAUSE: u64 = 30 * SECOND;
/// Longest pause when what is missing can be there again any moment: a closed port, a namespace, a device.
const LONGEST_SHORT: u64 = 8 * SECOND;
/// How often a name is looked up again while all is well.
const RENEW: u64 = 300 * SECOND;
/// How often the namespace's name is looked at.
const LOOK: u64 = SECOND;
/// How long a limit that was not met again counts as met.
const LIMIT_MEMORY: u64 = 60 * SECOND;
/// How often a lookup is asked whether it has ended.
const ASK: u64 = SECOND / 20;

enum State {
    /// Nothing until then.
    Waiting { until: u64, why: Loss },
    /// A lookup is under way and there is no address yet.
    Resolving,
    /// Ready to send.
    Up(Way),
}

/// A way to a collector.
struct Way {
    socket: Socket,
    peer: SocketAddr,
    /// Segmentation offload works on this way.
    rows: bool,
    /// The namespace it begins in, and when to look whether that is still there.
    namespace: Option<(NsId, u64)>,
}

/// One collector and what became of it.
pub struct Collector {
    config: CollectorConfig,
    state: State,
    limiter: Limiter,
    /// When the limit was met last.
    limited: Option<u64>,
    repacker: Option<Repacker>,
    /// The lookup whose outcome is awaited.
    ticket: Option<u64>,
    /// When the name is to be looked up again.
    renew: u64,
    /// The last pause made, 0 = none since all went well.
    pause: u64,
    sent: u64,
    sent_bytes: u64,
    lost: Losses,
    troubles: Troubles,
}

impl Collector {
    pub fn new(config: CollectorConfig, now: u64) -> Collector {
        Collector {
            limiter: Limiter::new(&config, now),
            limited: None,
            repacker: config.max_datagram.map(Repacker::new),
            config,
            state: State::Waiting {
                until: now,
                why: Loss::Other,
            },
            ticket: None,
            renew: u64::MAX,
            pause: 0,
            sent: 0,
            sent_bytes: 0,
            lost: Losses::default(),
            troubles: Troubles::default(),
        }
    }

    pub fn config(&self) -> &CollectorConfig {
        &self.config
    }

    /// Opens the socket or starts a lookup when it is time. Says when to call again.
    pub fn tick(&mut self, now: u64, resolver: &mut dyn Resolve, next_ticket: &mut u64) -> u64 {
        self.look_at_namespace(now);
        let due = match &self.state {
            State::Waiting { until, .. } => *until,
            State::Resolving => u64::MAX,
            State::Up(_) => self.renew,
        };
        if due <= now {
            match self.config.host.clone() {
                CollectorHost::Address(ip) => self.open(now, SocketAddr::new(ip, self.config.port)),
                CollectorHost::Name(name) => {
                    resolver.start(*next_ticket, &name, self.config.port);
                    self.ticket = Some(*next_ticket);
                    self.renew = u64::MAX;
                    *next_ticket += 1;
                    if !matches!(self.state, State::Up(_)) {
                        self.state = State::Resolving;
                    }
                }
            }
        }
        let own = match &self.state {
            State::Waiting { until, .. } => *until,
            State::Resolving => u64::MAX,
            State::Up(way) => way.namespace.map_or(u64::MAX, |n| n.1).min(self.renew),
        };
        // Lookups end without a signal; they are asked for now and then.
        if self.ticket.is_some() {
            own.min(now + ASK)
        } else {
            own
        }
    }

    /// Lets go of a namespace that has gone, and follows its name to a new one.
    fn look_at_namespace(&mut self, now: u64) {
        let (State::Up(way), Some(name)) = (&mut self.state, &self.config.namespace) else {
            return;
        };
        let Some((id, due)) = &mut way.namespace else {
            return;
        };
        if *due > now {
            return;
        }
        *due = now + LOOK;
        match NetNs::id_of(name) {
            Ok(there) if there == *id => {}
            Ok(_) => {
                let peer = way.peer;
                tracing::info!("collector {}: the namespace was made anew", self.config);
                self.open(now, peer);
            }
            Err(e) => self.fail(
                now,
                &Trouble {
                    loss: Loss::NamespaceGone,
                    text: e.to_string(),
                },
            ),
        }
    }

    /// Takes in the outcome of a lookup, if it is this collector's.
    pub fn looked_up(&mut self, now: u64, lookup: &Lookup) {
        if self.ticket != Some(lookup.ticket) {
            return;
        }
        self.ticket = None;
        let source = self.config.source;
        let fits = |a: &&SocketAddr| source.is_none_or(|s| s.is_ipv4() == a.is_ipv4());
        let found = match &lookup.result {
            Ok(list) => list
                .iter()
                .find(fits)
                .copied()
                .ok_or("no address of the source's IP version".to_owned()),
            Err(e) => Err(e.clone()),
        };
        match found {
            Ok(peer) if matches!(&self.state, State::Up(w) if w.peer == peer) => {}
            Ok(peer) => self.open(now, peer),
            Err(e) => {
                let trouble = Trouble {
                    loss: Loss::Unresolved,
                    text: format!("look up {}: {e}", self.config),
                };
                match self.state {
                    // The address found before may well be right still.
                    State::Up(_) => {
                        let lost = self.lost.total();
                        self.troubles.note(now, &self.config, lost, &trouble);
                    }
                    _ => self.fail(now, &trouble),
                }
            }
        }
        self.renew = now + RENEW;
    }

    fn open(&mut self, now: u64, peer: SocketAddr) {
        match open(&self.config, peer) {
            Ok(Opened { socket, namespace }) => {
                self.state = State::Up(Way {
                    socket,
                    peer,
                    rows: true,
                    namespace: namespace.map(|id| (id, now + LOOK)),
                });
            }
            Err(trouble) => self.fail(now, &trouble),
        }
    }

    /// Sends the datagrams, or counts them as lost.
    pub fn send(&mut self, now: u64, datagrams: &[&[u8]]) {
        let Some(mut repacker) = self.repacker.take() else {
            return self.send_these(now, datagrams);
        };
        // Packed even when they cannot be sent: the gap in the numbers is to show it.
        let too_large = repacker.pack(datagrams);
        self.lost.add(Loss::TooLarge, too_large);
        let packed: Vec<&[u8]> = repacker.datagrams().collect();
        self.send_these(now, &packed);
        self.repacker = Some(repacker);
    }

    fn send_these(&mut self, now: u64, datagrams: &[&[u8]]) {
        let admitted = match &self.state {
            State::Up(_) => self.limiter.admit(now, datagrams),
            State::Waiting { why, .. } => return self.lost.add(*why, datagrams.len()),
            State::Resolving => return self.lost.add(Loss::Unresolved, datagrams.len()),
        };
        if admitted < datagrams.len() {
            self.lost.add(Loss::Limited, datagrams.len() - admitted);
            if !self.is_limited(now) {
                tracing::warn!(
                    "collector {}: over its limit, what is more is left out",
                    self.config
                );
            }
            self.limited = Some(now);
        }
        match self.hand_over(&datagrams[..admitted]) {
            None => {
                let lost = self.lost.total();
                if self.troubles.calm(now, self.pause, &self.config, lost) {
                    self.pause = 0;
                }
            }
            Some((e, peer)) => {
                let text = match e {
                    Errno::EAGAIN | Errno::ENOBUFS => format!("send to {peer}: send buffer full"),
                    e => format!("send to {peer}: {}", std::io::Error::from(e)),
                };
                let loss = loss_of(e);
                match loss {
                    // The way is there, only full or narrow: the next batch may well find it open.
                    Loss::NoBuffer | Loss::TooLarge => self.note(now, loss, text),
                    _ => self.fail(now, &Trouble { loss, text }),
                }
            }
        }
    }

    /// Gives datagrams to the kernel and counts what becomes of them. The last error, and towards whom, if there was one.
    fn hand_over(&mut self, datagrams: &[&[u8]]) -> Option<(Errno, SocketAddr)> {
        let State::Up(way) = &mut self.state else {
            return None;
        };
        let (mut rest, mut again, mut narrow) = (datagrams, true, None);
        while !rest.is_empty() {
            let Outcome { sent, error } = send_all(way.socket.as_raw_fd(), rest, &mut way.rows);
            self.sent += sent as u64;
            let bytes = rest.iter().take(sent).map(|d| d.len() as u64);
            self.sent_bytes += bytes.sum::<u64>();
            rest = &rest[sent..];
            match error {
                None => break,
                // The kernel has just learnt how much the way carries, and cuts the next try into fragments.
                Some(Errno::EMSGSIZE) if again => again = false,
                Some(Errno::EMSGSIZE) => {
                    self.lost.add(Loss::TooLarge, 1);
                    rest = rest.get(1..).unwrap_or_default();
                    (again, narrow) = (true, Some((Errno::EMSGSIZE, way.peer)));
                }
                Some(e) => {
                    self.lost.add(loss_of(e), rest.len());
                    return Some((e, way.peer));
                }
            }
        }
        narrow
    }

    /// Whether the limit was met not long ago.
    fn is_limited(&self, now: u64) -> bool {
        self.limited
            .is_some_and(|at| now.saturating_sub(at) < LIMIT_MEMORY)
    }

    fn note(&mut self, now: u64, loss: Loss, text: String) {
        let lost = self.lost.total();
        self.troubles
            .note(now, &self.config, lost, &Trouble { loss, text });
    }

    fn fail(&mut self, now: u64, trouble: &Trouble) {
        let lost = self.lost.total();
        self.troubles.note(now, &self.config, lost, trouble);
        let limit = match trouble.loss {
            Loss::Refused | Loss::NamespaceGone | Loss::DeviceGone => LONGEST_SHORT,
            _ => LONGEST_PAUSE,
        };
        self.pause = (self.pause * 2).clamp(FIRST_PAUSE, limit);
        self.state = State::Waiting {
            until: now + self.pause,
            why: trouble.loss,
        };
    }

    pub fn status(&self, now: u64) -> CollectorStatus {
        let (state, peer, until) = match &self.state {
            State::Waiting { until, .. } => (CollectorState::Waiting, None, Some(*until)),
            State::Resolving => (CollectorState::Resolving, None, None),
            State::Up(way) => (CollectorState::Up, Some(way.peer), None),
        };
        let last = self.troubles.last();
        CollectorStatus {
            collector: self.config.to_string(),
            settings: self.config.clone(),
            peer,
            state,
            sent: self.sent,
            sent_bytes: self.sent_bytes,
            failed: self.lost.total(),
            lost: self.lost,
            trouble: self
                .troubles
                .now()
                .or(self.is_limited(now).then_some(Loss::Limited)),
            last_error: last.map(|(_, text)| text.clone()),
            last_error_ago_ms: last.map(|(at, _)| now.saturating_sub(*at) / 1_000_000),
            last_error_unix_ms: None,
            next_retry_ms: until.map(|at| at.saturating_sub(now) / 1_000_000),
        }
    }
}
