//! One socket of `parshall sflow forward`, its thread, and what all of them share.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use parshall_linux::udp::UdpReceiver;

use super::ForwardStatus;
use super::args::ForwardArgs;
use super::filter::{Filter, Verdict};
use crate::common::target::{Patience, Target};
use crate::common::{ToolError, listen};

/// How long what lies in the socket is still passed on at the end.
const LAST: Duration = Duration::from_secs(1);

/// What all threads share.
pub(super) struct Common<'a> {
    stop: &'a AtomicBool,
    /// One of them has failed: all end.
    ended: AtomicBool,
    /// Datagrams to receive in all.
    count: Option<u64>,
    received: AtomicU64,
    start: Instant,
    /// Somebody asks for the status while it runs.
    watched: bool,
    /// What each has seen when it last told.
    seen: Vec<Mutex<ForwardStatus>>,
}

impl<'a> Common<'a> {
    /// For as many threads as there are to be sockets.
    pub fn new(args: &ForwardArgs, stop: &'a AtomicBool) -> Common<'a> {
        Common {
            stop,
            ended: AtomicBool::new(false),
            count: args.count,
            received: AtomicU64::new(0),
            start: Instant::now(),
            watched: args.status_every.is_some(),
            seen: (0..args.sockets).map(|_| Mutex::default()).collect(),
        }
    }

    /// Where each thread tells what it has seen.
    pub fn seats(&self) -> &[Mutex<ForwardStatus>] {
        &self.seen
    }

    /// Ends all threads.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    /// What all have seen together.
    pub fn status(&self) -> ForwardStatus {
        let mut sum = ForwardStatus {
            seconds: self.start.elapsed().as_secs_f64(),
            ..ForwardStatus::default()
        };
        for seen in &self.seen {
            sum.add(&seen.lock().unwrap_or_else(PoisonError::into_inner));
        }
        sum
    }

    /// Whether all that was asked for was received, or something failed.
    fn is_over(&self) -> bool {
        let enough = |n| self.received.load(Ordering::Relaxed) >= n;
        self.ended.load(Ordering::Relaxed) || self.count.is_some_and(enough)
    }
}

/// The socket in, the sockets out, and what lies between.
pub(super) struct Relay<'a> {
    receiver: UdpReceiver,
    targets: Vec<Target>,
    filter: &'a Filter,
    common: &'a Common<'a>,
    seat: &'a Mutex<ForwardStatus>,
    /// Datagrams that lost samples, one after the other.
    rewritten: Vec<u8>,
    status: ForwardStatus,
}

impl<'a> Relay<'a> {
    /// Nothing passed on yet.
    pub fn new(
        receiver: UdpReceiver,
        targets: Vec<Target>,
        filter: &'a Filter,
        common: &'a Common<'a>,
        seat: &'a Mutex<ForwardStatus>,
    ) -> Relay<'a> {
        let mut relay = Relay {
            receiver,
            targets,
            filter,
            common,
            seat,
            rewritten: Vec::new(),
            status: ForwardStatus::default(),
        };
        relay.tell();
        relay
    }

    /// Passes on until the end.
    pub fn run(mut self) -> Result<(), ToolError> {
        let result = self.work();
        self.tell();
        if result.is_err() {
            self.common.end();
        }
        result
    }

    fn work(&mut self) -> Result<(), ToolError> {
        let common = self.common;
        let mut told = Instant::now();
        while !common.stop.load(Ordering::Relaxed) && !common.is_over() {
            if listen::receive(&mut self.receiver, listen::WAIT)? {
                self.pass_on();
            }
            if common.watched && told.elapsed() >= listen::WAIT {
                self.tell();
                told = Instant::now();
            }
        }
        let end = Instant::now() + LAST;
        while !common.is_over()
            && Instant::now() < end
            && listen::receive(&mut self.receiver, Duration::ZERO)?
        {
            self.pass_on();
        }
        Ok(())
    }

    /// Sends the batch that was received last to every target.
    fn pass_on(&mut self) {
        self.rewritten.clear();
        // Of each datagram: itself, or a stretch of the rewritten ones.
        let mut kept = Vec::with_capacity(64);
        let before = self.status.received;
        for (bytes, from) in self.receiver.datagrams() {
            self.status.received += 1;
            self.status.bytes += bytes.len() as u64;
            let start = self.rewritten.len();
            let outcome = self.filter.apply(bytes, &mut self.rewritten);
            self.status.malformed += u64::from(outcome.malformed);
            self.status.filtered_samples += outcome.removed;
            match outcome.verdict {
                Verdict::Whole => kept.push((Some(bytes), 0..0, from)),
                Verdict::Rewritten => {
                    self.status.rewritten += 1;
                    kept.push((None, start..self.rewritten.len(), from));
                }
                Verdict::Nothing => self.status.filtered += 1,
            }
        }
        let rewritten = &self.rewritten;
        let batch: Vec<(&[u8], SocketAddr)> = kept
            .iter()
            .map(|(whole, range, from)| {
                let part = || rewritten.get(range.clone()).unwrap_or(&[]);
                (whole.unwrap_or_else(part), *from)
            })
            .collect();
        for target in &mut self.targets {
            target.send(&batch, Patience::None);
        }
        let came = self.status.received - before;
        self.common.received.fetch_add(came, Ordering::Relaxed);
    }

    /// Tells the others what was seen.
    fn tell(&mut self) {
        let mut seat = self.seat.lock().unwrap_or_else(PoisonError::into_inner);
        *seat = ForwardStatus {
            socket_drops: self.receiver.drops(),
            targets: self.targets.iter().map(|t| t.counts.clone()).collect(),
            ..self.status.clone()
        };
    }
}
