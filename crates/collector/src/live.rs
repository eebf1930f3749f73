//! Datagrams from the network: one thread a socket, all sockets on one port.
//!
//! The kernel gives all datagrams of one sender to one socket, so each thread follows its senders' numbers alone; only the
//! output is shared, a buffer at a time. At a signal, what lies in the sockets is still printed.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parshall_linux::udp::{UdpOptions, UdpReceiver};
use parshall_sflow_wire::print::{Meta, Stamp};
use parshall_sflow_wire::{Datagram, Tracker};

use crate::args::DecodeArgs;
use crate::decode::DecodeError;
use crate::output::{Output, Shared};
use crate::status::{Counts, Status};

/// Bytes of receive buffer asked for: bursts of many agents must survive a slow terminal.
const RECEIVE_BUFFER: usize = 64 << 20;
/// How often a waiting reader looks whether it should stop. A signal ends the wait at once; this is for the other threads.
const WAIT: Duration = Duration::from_millis(200);
/// How long to empty the sockets at the end.
const LAST: Duration = Duration::from_secs(1);

/// Receives until the end, and tells what there was, also when it failed.
pub fn listen(shared: &Shared<'_>, listening: impl FnOnce(SocketAddr)) -> Result<(), DecodeError> {
    let args = shared.args;
    let (receivers, buffer) = bind(args)?;
    if let Some(r) = receivers.first() {
        listening(r.local_addr().map_err(|e| refused(args, e))?);
    }
    Output::new(shared).begin()?;
    let start = Instant::now();
    let seen: Vec<Mutex<Counts>> = receivers.iter().map(|_| Mutex::default()).collect();
    let status = || {
        let each = |c: &Mutex<Counts>| c.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Status {
            seconds: start.elapsed().as_secs_f64(),
            printed: shared.printed(),
            sockets: seen.len() as u64,
            socket_buffer: buffer,
            ..Status::of(seen.iter().map(each))
        }
    };
    let result = read_all(shared, receivers, &seen, &status);
    shared.report(&status());
    result
}

/// A thread for each socket, until all have ended; the first thing that went wrong.
fn read_all(
    shared: &Shared<'_>,
    receivers: Vec<UdpReceiver>,
    seen: &[Mutex<Counts>],
    status: &dyn Fn() -> Status,
) -> Result<(), DecodeError> {
    thread::scope(|s| {
        let each = receivers.into_iter().zip(seen);
        let readers: Vec<_> = each
            .map(|(receiver, seen)| {
                let reader = Reader {
                    shared,
                    receiver,
                    out: Output::new(shared),
                    tracker: Tracker::default(),
                    counts: Counts::default(),
                    seen,
                };
                thread::Builder::new()
                    .name("sflow-decode".to_owned())
                    .spawn_scoped(s, move || reader.run())
                    .map_err(DecodeError::Thread)
            })
            .collect();
        // One that is gone without having been told to has failed: then all end.
        let failed = || {
            let gone = |r: &Result<ScopedJoinHandle<'_, _>, _>| {
                r.as_ref().map_or(true, ScopedJoinHandle::is_finished)
            };
            readers.iter().any(gone)
        };
        report_while_running(shared, status, &failed);
        let mut result = Ok(());
        for r in readers {
            let ended = r.and_then(|t| t.join().unwrap_or(Err(DecodeError::Panicked)));
            result = result.and(ended);
        }
        result
    })
}

/// Says every so often what there is, if asked to, until all end.
fn report_while_running(
    shared: &Shared<'_>,
    status: &dyn Fn() -> Status,
    failed: &dyn Fn() -> bool,
) {
    let every = shared.args.status_every.map(Duration::from_secs);
    let mut due = every.map(|e| Instant::now() + e);
    while !shared.done() {
        // A signal ends the sleep only to begin the rest of it: this is what may be waited at the end.
        thread::sleep(WAIT / 10);
        if !shared.done() && failed() {
            shared.end();
        }
        if let (Some(at), Some(every)) = (due, every)
            && Instant::now() >= at
        {
            shared.say(format_args!("{}", status().json()));
            due = Some(at + every);
        }
    }
}

/// The sockets, and the bytes of buffer that each was granted.
fn bind(args: &DecodeArgs) -> Result<(Vec<UdpReceiver>, u64), DecodeError> {
    let n = args.sockets as usize;
    let options = UdpOptions {
        dual: false,
        shared: n > 1,
        buffer_bytes: RECEIVE_BUFFER,
    };
    let (port, any4, any6) = (
        args.listen_port(),
        Ipv4Addr::UNSPECIFIED.into(),
        Ipv6Addr::UNSPECIFIED.into(),
    );
    let first = match (args.listen_ip(), args.ipv4, args.ipv6) {
        (Some(ip), ..) => UdpReceiver::bind(SocketAddr::new(ip, port), options),
        (None, true, _) => UdpReceiver::bind(SocketAddr::new(any4, port), options),
        (None, _, true) => UdpReceiver::bind(SocketAddr::new(any6, port), options),
        // IPv6 and IPv4 on one socket, or IPv4 alone where there is no IPv6.
        _ => {
            let dual = UdpOptions {
                dual: true,
                ..options
            };
            UdpReceiver::bind(SocketAddr::new(any6, port), dual)
                .or_else(|_| UdpReceiver::bind(SocketAddr::new(any4, port), options))
        }
    };
    let first = first.map_err(|e| refused(args, e))?;
    let at = first.local_addr().map_err(|e| refused(args, e))?;
    let options = UdpOptions {
        dual: at.is_ipv6() && args.listen_ip().is_none() && !args.ipv6,
        ..options
    };
    let buffer = first.buffer_bytes() as u64;
    let mut all = vec![first];
    while all.len() < n {
        all.push(UdpReceiver::bind(at, options).map_err(|e| refused(args, e))?);
    }
    Ok((all, buffer))
}

fn refused(args: &DecodeArgs, source: std::io::Error) -> DecodeError {
    DecodeError::Listen {
        port: args.listen_port(),
        listen: args.listen_ip(),
        source,
    }
}

/// One socket and its thread.
struct Reader<'a, 's> {
    shared: &'a Shared<'s>,
    receiver: UdpReceiver,
    out: Output<'a, 's>,
    tracker: Tracker,
    counts: Counts,
    /// Where the others look.
    seen: &'a Mutex<Counts>,
}

impl Reader<'_, '_> {
    fn run(mut self) -> Result<(), DecodeError> {
        let result = self.read();
        let flushed = self.out.flush();
        self.publish();
        let result = result.and(flushed);
        if result.is_err() {
            self.shared.end();
        }
        result
    }

    fn read(&mut self) -> Result<(), DecodeError> {
        let often = self.shared.args.status_every.is_some();
        let mut told = Instant::now();
        while !self.shared.done() {
            if !self.batch()? {
                self.out.flush()?;
                self.receiver.wait(WAIT).map_err(DecodeError::Receive)?;
            }
            if often && told.elapsed() >= WAIT {
                self.publish();
                told = Instant::now();
            }
        }
        let end = Instant::now() + LAST;
        while !self.shared.ended() && Instant::now() < end && self.batch()? {}
        Ok(())
    }

    /// Takes a batch in, if there is one.
    fn batch(&mut self) -> Result<bool, DecodeError> {
        match self.receiver.receive() {
            Ok(false) => return Ok(false),
            Ok(true) => {}
            Err(e) if self.shared.args.keep_going => {
                self.shared.say(format_args!("receiving failed: {e}"));
                // An error that stays must not fill the log.
                thread::sleep(Duration::from_secs(1));
                return Ok(false);
            }
            Err(e) => return Err(DecodeError::Receive(e)),
        }
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let read_time = Stamp {
            seconds: now.as_secs() as u32,
            micros: now.subsec_micros(),
            utc_offset: self.out.utc_offset(now.as_secs() as u32),
        };
        for (bytes, from) in self.receiver.datagrams() {
            let meta = Meta {
                source: from.ip().into(),
                read_time,
                capture_time: None,
            };
            self.counts.arrived(bytes.len());
            if let Ok(d) = Datagram::parse(bytes) {
                self.tracker.observe(&d);
            }
            let mut sound = self.out.is_sound(bytes, &mut self.counts.errors);
            if let Err(fault) = self.out.datagram(&meta, bytes)? {
                sound = false;
                self.shared.say(format_args!(
                    "datagram of {}, {} bytes: {fault}",
                    from.ip(),
                    bytes.len()
                ));
            }
            self.counts.malformed += u64::from(!sound);
        }
        Ok(true)
    }

    /// Shows the others what was seen.
    fn publish(&mut self) {
        self.counts.socket_drops = self.receiver.drops();
        self.counts.take_in(&self.tracker);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.clone_from(&self.counts);
    }
}
