//! Traffic over real kernel sockets: what the hosts say to each other while the router is watched.
//!
//! Every socket is made inside its host's namespace and stays bound to it, so the threads that use them need not be
//! there. Senders stop first and receivers a little later, so that what is on its way still counts.

mod echo;
mod mpls;
mod tcp;
mod udp;

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

pub use echo::reachable;
pub use mpls::{LABEL_IN, LABEL_OUT};

use crate::error::{LabError, Result};
use crate::stop::Stop;
use crate::topology::{Host, Topology};

/// How long sockets wait before their thread looks whether to stop.
const WAIT: Duration = Duration::from_millis(100);
/// How long receivers go on after the senders.
const LINGER: Duration = Duration::from_millis(300);
/// How often a paced sender sends what has become due.
const TICK: Duration = Duration::from_millis(2);

/// What a stream is made of, which decides what "works" means for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Bytes, as fast as they go.
    Tcp,
    /// Packets at a set rate.
    Datagrams,
    /// Packets that are answered.
    Echo,
}

/// What a stream's threads count.
#[derive(Debug, Default)]
struct Stats {
    sent: AtomicU64,
    received: AtomicU64,
    bytes: AtomicU64,
    rtt_ns: AtomicU64,
    trouble: Mutex<Option<String>>,
}

impl Stats {
    fn sent(&self, n: u64) {
        self.sent.fetch_add(n, Ordering::Relaxed);
    }

    fn received(&self, bytes: usize) {
        self.received.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Keeps the first trouble, which is usually the cause of the others.
    fn trouble(&self, text: impl Into<String>) {
        let mut slot = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        slot.get_or_insert_with(|| text.into());
    }
}

/// Who sends what to whom.
#[derive(Clone, Debug)]
struct Label {
    name: &'static str,
    direction: &'static str,
    kind: Kind,
}

/// What came of a stream.
#[derive(Clone, Debug)]
pub struct StreamReport {
    /// `tcp4`, `tcp6`, `udp4`, `udp6`, `echo4`, `echo6` or `mpls`.
    pub name: &'static str,
    /// `A to B` or `B to A`.
    pub direction: &'static str,
    /// What it is made of.
    pub kind: Kind,
    /// Packets sent; writes of TCP.
    pub sent: u64,
    /// Packets, or answers, received; reads of TCP.
    pub received: u64,
    /// Bytes of payload received.
    pub bytes: u64,
    /// Mean time to the answer in microseconds, of echoes.
    pub rtt_us: Option<f64>,
    /// How long it sent, in seconds.
    pub seconds: f64,
    /// What went wrong first.
    pub trouble: Option<String>,
}

impl StreamReport {
    /// Whether it did what it is for. A router that is overrun by TCP drops, so not every datagram must arrive, but at
    /// least half must.
    pub fn worked(&self) -> bool {
        match self.kind {
            Kind::Tcp => self.bytes > 0 && self.trouble.is_none(),
            Kind::Datagrams | Kind::Echo => self.sent > 0 && self.received * 2 >= self.sent,
        }
    }

    /// Megabits of payload per second.
    pub fn mbps(&self) -> f64 {
        if self.seconds > 0.0 {
            self.bytes as f64 * 8.0 / 1e6 / self.seconds
        } else {
            0.0
        }
    }
}

/// The two moments to stop.
#[derive(Clone, Default)]
struct Ends {
    senders: Stop,
    receivers: Stop,
}

/// Traffic under way. Dropping it ends it.
pub struct Traffic {
    ends: Ends,
    streams: Vec<(Label, Arc<Stats>)>,
    threads: Vec<JoinHandle<()>>,
    started: Instant,
}

impl Traffic {
    /// Starts all of it: TCP both ways, UDP, echoes over both IP versions, and the labelled stream.
    ///
    /// # Errors
    /// When a socket or thread is refused, or a TCP connection does not come about.
    pub fn everything(t: &Topology) -> Result<Traffic> {
        let mut traffic = Traffic::light(t)?;
        for v6 in [false, true] {
            traffic.tcp(&t.a, &t.b, v6)?;
            traffic.tcp(&t.b, &t.a, v6)?;
        }
        Ok(traffic)
    }

    /// Starts the part that leaves the machine time for other things.
    ///
    /// # Errors
    /// When a socket or thread is refused.
    pub fn light(t: &Topology) -> Result<Traffic> {
        let mut traffic = Traffic {
            ends: Ends::default(),
            streams: Vec::new(),
            threads: Vec::new(),
            started: Instant::now(),
        };
        traffic.udp(&t.a, &t.b, false)?;
        traffic.udp(&t.b, &t.a, true)?;
        traffic.echo(&t.a, &t.b, false)?;
        traffic.echo(&t.b, &t.a, true)?;
        traffic.mpls(&t.a, &t.b)?;
        Ok(traffic)
    }

    fn stream(&mut self, name: &'static str, kind: Kind, from: &Host) -> Arc<Stats> {
        let direction = if from.site.letter == 'A' {
            "A to B"
        } else {
            "B to A"
        };
        let stats = Arc::new(Stats::default());
        self.streams.push((
            Label {
                name,
                direction,
                kind,
            },
            Arc::clone(&stats),
        ));
        stats
    }

    fn thread(&mut self, name: &str, job: impl FnOnce() + Send + 'static) -> Result<()> {
        let thread = Builder::new()
            .name(format!("lab-{name}"))
            .spawn(job)
            .map_err(LabError::io("start a thread for traffic"))?;
        self.threads.push(thread);
        Ok(())
    }

    /// Ends it and says what came of it.
    pub fn finish(mut self) -> Vec<StreamReport> {
        let seconds = self.end();
        let report = |(label, stats): &(Label, Arc<Stats>)| {
            let get = |c: &AtomicU64| c.load(Ordering::Relaxed);
            let (received, rtt) = (get(&stats.received), get(&stats.rtt_ns));
            StreamReport {
                name: label.name,
                direction: label.direction,
                kind: label.kind,
                sent: get(&stats.sent),
                received,
                bytes: get(&stats.bytes),
                rtt_us: (label.kind == Kind::Echo && received > 0)
                    .then(|| rtt as f64 / received as f64 / 1e3),
                seconds,
                trouble: stats
                    .trouble
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .clone(),
            }
        };
        self.streams.iter().map(report).collect()
    }

    /// Stops the threads; says how many seconds the senders were at work.
    fn end(&mut self) -> f64 {
        let seconds = self.started.elapsed().as_secs_f64();
        self.ends.senders.ask();
        if !self.threads.is_empty() {
            std::thread::sleep(LINGER);
        }
        self.ends.receivers.ask();
        for thread in self.threads.drain(..) {
            // A panic there has been printed already, and its stream did not work.
            let _ = thread.join();
        }
        seconds
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.end();
    }
}

/// Calls `send` `per_second` times a second until `stop`; what a busy processor made late is sent in the next tick.
fn paced(
    stop: &Stop,
    per_second: u32,
    stats: &Stats,
    mut send: impl FnMut(u64) -> io::Result<usize>,
) {
    let start = Instant::now();
    let (mut tried, burst) = (0u64, u64::from(per_second) / 10 + 1);
    while !stop.asked() {
        let due = (start.elapsed().as_secs_f64() * f64::from(per_second)) as u64 + 1;
        // After a long pause only a tenth of a second is made up for: a burst beyond that would only be dropped.
        tried = tried.max(due.saturating_sub(burst));
        while tried < due {
            match send(tried) {
                Ok(_) => stats.sent(1),
                Err(e) => stats.trouble(format!("cannot send: {e}")),
            }
            tried += 1;
        }
        std::thread::sleep(TICK);
    }
}

/// Whether an error only says that nothing came in time.
fn is_timeout(e: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(e.kind(), WouldBlock | TimedOut | Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::tests::forwarded_by_linux;

    fn report(kind: Kind, sent: u64, received: u64, bytes: u64) -> StreamReport {
        StreamReport {
            name: "x",
            direction: "A to B",
            kind,
            sent,
            received,
            bytes,
            rtt_us: None,
            seconds: 2.0,
            trouble: None,
        }
    }

    #[test]
    fn what_works_means() {
        assert!(report(Kind::Tcp, 1, 1, 1).worked());
        assert!(!report(Kind::Tcp, 1, 0, 0).worked());
        assert!(report(Kind::Datagrams, 100, 50, 1).worked());
        assert!(!report(Kind::Datagrams, 100, 49, 1).worked());
        assert!(!report(Kind::Echo, 0, 0, 0).worked());
        assert_eq!(report(Kind::Tcp, 1, 1, 1_000_000).mbps(), 4.0);
        let broken = StreamReport {
            trouble: Some("reset".into()),
            ..report(Kind::Tcp, 1, 1, 1)
        };
        assert!(!broken.worked());
    }

    #[test]
    fn everything_but_labels_passes_a_linux_router() {
        let t = forwarded_by_linux();
        let stop = Stop::default();
        reachable(&t, &stop).unwrap();
        let traffic = Traffic::everything(&t).unwrap();
        std::thread::sleep(Duration::from_millis(700));
        let reports = traffic.finish();
        assert_eq!(reports.len(), 9);
        for r in &reports {
            // Linux has no table for our label: the stream leaves and nothing arrives.
            assert_eq!(r.worked(), r.name != "mpls", "{r:?}");
        }
        let mpls = reports.iter().find(|r| r.name == "mpls").unwrap();
        assert!(
            mpls.sent > 0 && mpls.received == 0 && mpls.trouble.is_none(),
            "{mpls:?}"
        );
        let echo = reports.iter().find(|r| r.name == "echo6").unwrap();
        assert!(echo.rtt_us.unwrap() > 0.0);
    }

    #[test]
    fn an_unreachable_host_is_named() {
        let t = forwarded_by_linux();
        t.router.set_sysctl("net.ipv4.ip_forward", "0").unwrap();
        let e = reachable(&t, &Stop::default()).unwrap_err().to_string();
        assert!(e.contains("10.10.1.2") && e.contains("10.10.2.2"), "{e}");
    }
}
