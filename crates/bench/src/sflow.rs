//! `bench sflow`: samples a second from workers' rings to a collector, with every one accounted for.
//!
//! All but the forwarding is real: threads in the place of workers write sample slots into rings at a steady rate and count
//! what finds no room, the agent's own thread drains the rings and sends sFlow over UDP, and a receiver such as the
//! collector's takes the datagrams from a socket on the loopback interface, decodes every sample and follows the sequence
//! numbers. The workers have the first CPU for themselves where there are two; agent and receiver share what is left.
//!
//! Every sample must end up in exactly one of: a ring with no room, an agent that could not use it, a datagram that
//! could not be sent, the receiver's full socket, the receiver. What is missing beyond those is *unaccounted* and must be 0.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parshall_agent::{
    AgentConfig, AgentStatus, AgentThread, CollectorConfig, IfReport, RouteInfo, Router,
};
use parshall_linux::affinity;
use parshall_linux::udp::{UdpOptions, UdpReceiver};
use parshall_ring::{Consumer, Producer, ring};
use parshall_sample::{MAX_HEADER, SampleSlot};
use parshall_sflow_wire::sequence::AgentTotals;
use parshall_sflow_wire::{Datagram, Tracker};
use serde::Serialize;

use crate::report::short;
use crate::sflow_world::{BYTES, Known, World};
use crate::{Bar, BenchError, Report, Table};

/// Samples a second that a collector must get.
const BAR: f64 = 500_000.0;
/// Slots of a worker's ring, as the router makes them.
const RING: usize = 16_384;
/// Receive buffer of the collector's socket, as the collector asks for it.
const RECEIVE_BUFFER: usize = 64 << 20;
/// Samples a worker takes at once at most: a frame's worth.
const FRAME: u64 = 256;

/// `parshall bench sflow`.
#[derive(clap::Args, Clone, Debug)]
pub struct SflowArgs {
    /// How long to send, in seconds.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub seconds: u64,
    /// Samples a second of all workers together; 0 = as many as the rings take. 600,000 is 1 in 100 of 60 Mpps.
    #[arg(long, default_value_t = 600_000)]
    pub rate: u64,
    /// Workers, each with a ring and an interface of its own.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub workers: u32,
    /// Header bytes of a sample.
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u16).range(0..=MAX_HEADER as i64))]
    pub header_bytes: u16,
    /// Header bytes vary from sample to sample, up to the number given: no two datagrams have one length.
    #[arg(long)]
    pub mixed: bool,
    /// Samples are of 65,536 flows all over the Internet (a tenth of them has half of the packets), and the agent looks up
    /// for each packet the route and the BGP paths to both ends in full tables.
    #[arg(long)]
    pub internet: bool,
}

/// What was measured, for machines.
#[derive(Clone, Debug, Default, Serialize)]
struct Figures {
    /// Samples that the receiver decoded, by the seconds they were sent in.
    samples_per_second: f64,
    /// Samples that did not get to the receiver, for whatever reason.
    lost: u64,
    seconds: f64,
    /// Samples that workers took or would have taken.
    taken: u64,
    /// Samples that the agent put into datagrams.
    sent: u64,
    received: u64,
    datagrams: u64,
    datagrams_received: u64,
    dropped: Dropped,
    /// Samples missing at the receiver that nobody counted: must be 0.
    unaccounted: u64,
    /// The drops that the flow samples tell of, by the end.
    drops_reported: u64,
    /// Processors that the agent's thread used.
    agent_cpu: f64,
    agent_ns_per_sample: f64,
    /// The same of the receiver's thread.
    receiver_cpu: f64,
    receiver_ns_per_sample: f64,
    /// Processors that the agent's thread uses when no sample comes.
    agent_idle_cpu: f64,
    /// BGP routes that the agent knows, and the seconds that reading them took.
    bgp_routes: usize,
    bgp_load_seconds: f64,
    workers: u32,
    rate: u64,
    header_bytes: u16,
}

/// Samples lost, by where.
#[derive(Clone, Debug, Default, Serialize)]
struct Dropped {
    /// The ring was full.
    ring: u64,
    /// The agent knew no interface for it, or no datagram held it.
    agent: u64,
    /// Datagrams that the sender's kernel refused.
    send_datagrams: u64,
    /// Datagrams that the numbers say were lost after that: at the receiver's full socket.
    receive_datagrams: u64,
    /// Samples in the two, by their numbers.
    datagrams: u64,
}

/// What workers and agent share: the counters that a router would keep by interface.
pub(crate) struct Ports(Vec<Port>);

/// One worker's interface. A line of its own: two workers must not write the same one.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Port {
    pool: AtomicU64,
    taken: AtomicU64,
    drops: AtomicU64,
}

impl Router for Ports {
    fn interfaces(&self) -> Vec<IfReport> {
        let port = |i: u32| IfReport {
            index: i,
            if_index: i,
            name: format!("port{i}"),
            sflow: true,
            ..IfReport::default()
        };
        (1..=self.0.len() as u32).map(port).collect()
    }
    fn resolve(&self, _header: &[u8], _rx_if: u32) -> Option<RouteInfo> {
        Some(RouteInfo {
            out_if: 1,
            next_hop: [192, 0, 2, 1].into(),
            src_mask_len: 24,
            dst_mask_len: 24,
        })
    }
    fn pool(&self, if_index: u32) -> (u64, u64) {
        let at = (if_index as usize).checked_sub(1);
        at.and_then(|i| self.0.get(i)).map_or((0, 0), |p| {
            (
                p.pool.load(Ordering::Relaxed),
                p.drops.load(Ordering::Relaxed),
            )
        })
    }
}

/// What workers are to do.
#[derive(Clone, Copy)]
struct Work<'a> {
    args: &'a SflowArgs,
    /// First bytes of packets to take samples of; none = whatever.
    frames: &'a [[u8; BYTES]],
}

/// Runs the bench.
///
/// # Errors
/// When a socket or thread cannot be had.
pub fn measure(args: &SflowArgs) -> Result<Report, BenchError> {
    let cpus = affinity::allowed_cpus().map_err(|e| BenchError::of("CPUs", e))?;
    let workers_on = &cpus[..cpus.len().min(2) / 2];
    let receiver = receiver()?;
    let address = receiver
        .local_addr()
        .map_err(|e| BenchError::of("receiver", e))?;
    let ports = Arc::new(Ports((0..args.workers).map(|_| Port::default()).collect()));
    let (producers, consumers): (Vec<_>, Vec<_>) =
        (0..args.workers).map(|_| ring::<SampleSlot>(RING)).unzip();
    let world = match args.internet {
        true => Some(World::new(args.workers)?),
        false => None,
    };
    let router: Arc<dyn Router> = match &world {
        Some(w) => Arc::new(Known {
            ports: ports.clone(),
            view: w.view(),
        }),
        None => ports.clone(),
    };
    let agent = agent(address, router, consumers, workers_on)?;
    let done = AtomicBool::new(false);
    let mut figures = Figures {
        workers: args.workers,
        rate: args.rate,
        header_bytes: args.header_bytes,
        agent_idle_cpu: idle_cpu(),
        bgp_routes: world.as_ref().map_or(0, |w| w.routes),
        bgp_load_seconds: world.as_ref().map_or(0.0, |w| w.load_seconds),
        ..Figures::default()
    };
    let work = Work {
        args,
        frames: world.as_ref().map_or(&[], World::frames),
    };
    let (status, got) = thread::scope(|s| {
        let receiving = s.spawn(|| receive(receiver, workers_on, &done));
        let status = send(work, &ports, producers, agent, workers_on, &mut figures);
        // What the agent sent last is in the socket by now; the receiver empties it before it looks at this.
        done.store(true, Ordering::Release);
        (status, receiving.join())
    });
    let got = got.map_err(|_| BenchError("the receiver panicked".into()))??;
    figures.account(&ports, &status?, &got);
    report(args, &figures)
}

fn receiver() -> Result<UdpReceiver, BenchError> {
    let options = UdpOptions {
        dual: false,
        shared: false,
        buffer_bytes: RECEIVE_BUFFER,
    };
    UdpReceiver::bind(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0), options)
        .map_err(|e| BenchError::of("receiver", e))
}

fn agent(
    to: SocketAddr,
    router: Arc<dyn Router>,
    rings: Vec<Consumer<SampleSlot>>,
    off: &[usize],
) -> Result<AgentThread, BenchError> {
    let config = AgentConfig {
        agent_address: Some(Ipv4Addr::new(192, 0, 2, 1).into()),
        collectors: vec![CollectorConfig::from(to)],
        ..AgentConfig::default()
    };
    // A thread starts on the CPUs of the one that makes it.
    let start = || {
        let _ = affinity::keep_off(off);
        AgentThread::spawn(config, router, rings).map_err(|e| BenchError::of("agent", e))
    };
    thread::scope(|s| s.spawn(start).join())
        .map_err(|_| BenchError("the agent did not start".into()))?
}

/// What the agent costs while nothing happens.
fn idle_cpu() -> f64 {
    // Its first second is spent on looking around.
    thread::sleep(Duration::from_millis(300));
    let (start, cpu) = (Instant::now(), thread_cpu("parshall-sflow"));
    thread::sleep(Duration::from_secs(1));
    (thread_cpu("parshall-sflow") - cpu) / start.elapsed().as_secs_f64()
}

/// Lets the workers work for the time wanted, and the agent send what is left; its last status.
fn send(
    todo: Work<'_>,
    ports: &Ports,
    producers: Vec<Producer<SampleSlot>>,
    agent: AgentThread,
    cpus: &[usize],
    figures: &mut Figures,
) -> Result<AgentStatus, BenchError> {
    let stop = AtomicBool::new(false);
    let start = Instant::now();
    let before = (thread_cpu("parshall-sflow"), thread_cpu(RECEIVER));
    thread::scope(|s| {
        for ((p, port), rx_if) in producers.into_iter().zip(&ports.0).zip(1..) {
            let stop = &stop;
            s.spawn(move || {
                // Where pinning is not allowed the figures are worth less, but are figures.
                let _ = cpus.first().map(|c| affinity::pin(*c));
                work(p, port, rx_if, todo, stop);
            });
        }
        thread::sleep(Duration::from_secs(todo.args.seconds));
        stop.store(true, Ordering::Relaxed);
    });
    figures.seconds = start.elapsed().as_secs_f64();
    figures.agent_cpu = (thread_cpu("parshall-sflow") - before.0) / figures.seconds;
    figures.receiver_cpu = (thread_cpu(RECEIVER) - before.1) / figures.seconds;
    agent.finish().map_err(|e| BenchError::of("agent", e))
}

/// Says how many samples are due, as time passes.
struct Pace {
    rate: u64,
    /// Samples that will never be made up for.
    missed: u64,
    /// When the next ones may be taken, in ns.
    next: u64,
}

impl Pace {
    /// Samples due at `now` (ns since the start), of which `taken` are taken: a frame's worth at most. Who had to wait for a
    /// processor makes up for it at no more than twice the rate, and not for more than a twentieth of a second: a worker
    /// has its speed, and what comes in meanwhile is lost to it.
    fn due(&mut self, now: u64, taken: u64) -> u64 {
        let scheduled = (u128::from(now) * u128::from(self.rate) / 1_000_000_000) as u64;
        let most = self.rate / 20 + 1;
        let mut behind = scheduled.saturating_sub(self.missed + taken);
        if behind > most {
            self.missed += behind - most;
            behind = most;
        }
        if now < self.next {
            return 0;
        }
        let burst = behind.min(FRAME);
        self.next = now + burst * 1_000_000_000 / (2 * self.rate.max(1));
        burst
    }
}

/// Takes samples until told to stop: in frames, at the rate given, losing what finds no room as a router does.
fn work(mut p: Producer<SampleSlot>, port: &Port, rx_if: u32, todo: Work<'_>, stop: &AtomicBool) {
    let args = todo.args;
    let mut pace = Pace {
        rate: args.rate / u64::from(args.workers),
        missed: 0,
        next: 0,
    };
    let start = Instant::now();
    let (mut taken, mut drops) = (0u64, 0u64);
    while !stop.load(Ordering::Relaxed) {
        let burst = match args.rate {
            0 => FRAME,
            _ => pace.due(start.elapsed().as_nanos() as u64, taken),
        };
        let before = taken;
        for _ in 0..burst {
            if args.rate == 0 && !p.has_room() {
                break;
            }
            drops += u64::from(!p.write(|s| fill(s, rx_if, taken, todo)));
            taken += 1;
        }
        port.pool
            .fetch_add((taken - before) * 100, Ordering::Relaxed);
        port.taken.store(taken, Ordering::Relaxed);
        port.drops.store(drops, Ordering::Relaxed);
        if burst == 0 {
            thread::sleep(Duration::from_micros(50));
        } else {
            std::hint::spin_loop();
        }
    }
}

#[inline]
fn fill(slot: &mut SampleSlot, rx_if: u32, id: u64, todo: Work<'_>) {
    let args = todo.args;
    let most = args.header_bytes;
    let len = if args.mixed {
        (id.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as u16 % (most + 1)
    } else {
        most
    };
    (slot.rx_if, slot.tx_if, slot.rate) = (rx_if, u32::MAX, 100);
    (slot.frame_len, slot.header_len) = (1500, len);
    let header = &mut slot.header[..usize::from(len)];
    match todo.frames.get(popular(id, todo.frames.len())) {
        Some(f) => header.copy_from_slice(&f[..usize::from(len)]),
        None => header.fill(id as u8),
    }
}

/// One of `count` flows, drawn at random: as on the Internet some have more packets than others. A tenth of them has half.
#[inline]
fn popular(id: u64, count: usize) -> usize {
    let random = (id ^ 0x5EED).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let share = ((random ^ random >> 29) >> 8 & 0xFFFF_FFFF) as f64 / f64::from(u32::MAX);
    (share * share * share * count as f64) as usize
}

/// Name of the receiver's thread.
const RECEIVER: &str = "bench-receiver";

/// What the receiver saw.
struct Received {
    agents: Vec<AgentTotals>,
    malformed: u64,
}

/// Decodes what comes until the sender is done and the socket empty.
fn receive(
    mut from: UdpReceiver,
    workers_on: &[usize],
    done: &AtomicBool,
) -> Result<Received, BenchError> {
    let fail = |e| BenchError::of("receiving", e);
    let _ = std::fs::write("/proc/thread-self/comm", RECEIVER);
    let _ = affinity::keep_off(workers_on);
    let (mut tracker, mut malformed) = (Tracker::default(), 0);
    loop {
        let last = done.load(Ordering::Acquire);
        while from.receive().map_err(fail)? {
            for (bytes, _) in from.datagrams() {
                match Datagram::parse(bytes) {
                    Ok(d) => tracker.observe(&d),
                    Err(_) => malformed += 1,
                }
            }
        }
        if last {
            break;
        }
        from.wait(Duration::from_millis(50)).map_err(fail)?;
    }
    Ok(Received {
        agents: tracker.agents(),
        malformed,
    })
}

impl Figures {
    fn account(&mut self, ports: &Ports, status: &AgentStatus, got: &Received) {
        let sum = |f: fn(&Port) -> &AtomicU64| -> u64 {
            ports.0.iter().map(|p| f(p).load(Ordering::Relaxed)).sum()
        };
        self.taken = sum(|p| &p.taken);
        self.sent = status.flow_samples;
        self.datagrams = status.datagrams;
        for a in &got.agents {
            self.received += a.flow.samples.received;
            self.datagrams_received += a.datagrams.received;
            self.drops_reported += a.flow.drops;
        }
        self.dropped.ring = sum(|p| &p.drops);
        self.dropped.agent = status.orphans + status.oversize;
        self.dropped.send_datagrams = status.collectors.iter().map(|c| c.failed).sum();
        let missing = self.datagrams.saturating_sub(self.datagrams_received);
        self.dropped.receive_datagrams = missing.saturating_sub(self.dropped.send_datagrams);
        let gone = self.sent.saturating_sub(self.received);
        // Samples may be missing for whole datagrams only.
        self.dropped.datagrams = if missing > 0 { gone } else { 0 };
        let known = self.dropped.ring + self.dropped.agent + self.dropped.datagrams;
        self.lost = self.taken.saturating_sub(self.received);
        self.unaccounted = self.lost.abs_diff(known) + got.malformed;
        self.samples_per_second = (self.received as f64 / self.seconds).round();
        let each = |cpu: f64, n: u64| (cpu * self.seconds * 1e9 / n.max(1) as f64).round();
        self.agent_ns_per_sample = each(self.agent_cpu, self.sent);
        self.receiver_ns_per_sample = each(self.receiver_cpu, self.received);
    }
}

fn report(args: &SflowArgs, f: &Figures) -> Result<Report, BenchError> {
    let mut table = Table::new("Samples", &["what", "samples", "datagrams"]);
    let row = |what: &str, samples: Option<u64>, datagrams: Option<u64>| {
        let cell = |n: Option<u64>| n.map_or("-".into(), |n| n.to_string());
        [what.to_owned(), cell(samples), cell(datagrams)]
    };
    table.push(row("taken by workers", Some(f.taken), None));
    table.push(row("no room in a ring", Some(f.dropped.ring), None));
    table.push(row("of no use to the agent", Some(f.dropped.agent), None));
    table.push(row("sent", Some(f.sent), Some(f.datagrams)));
    table.push(row(
        "refused by the sender's kernel",
        None,
        Some(f.dropped.send_datagrams),
    ));
    table.push(row(
        "lost at the receiver's socket",
        None,
        Some(f.dropped.receive_datagrams),
    ));
    table.push(row(
        "received",
        Some(f.received),
        Some(f.datagrams_received),
    ));
    table.push(row("unaccounted", Some(f.unaccounted), None));
    let mut cost = Table::new("Cost", &["thread", "% of a CPU", "ns a sample"]);
    let percent = |x: f64| short(100.0 * x);
    cost.push([
        "agent".into(),
        percent(f.agent_cpu),
        short(f.agent_ns_per_sample),
    ]);
    cost.push([
        "receiver".into(),
        percent(f.receiver_cpu),
        short(f.receiver_ns_per_sample),
    ]);
    cost.push([
        "agent, idle".into(),
        percent(f.agent_idle_cpu),
        String::new(),
    ]);
    let of = format!(
        "{} worker(s), samples with {}{} header bytes from rings through the agent over loopback UDP to a decoding receiver, {} s",
        args.workers,
        if args.mixed { "up to " } else { "" },
        args.header_bytes,
        args.seconds
    );
    let mut bars = vec![
        Bar::at_most("samples unaccounted", f.unaccounted as f64, 0.0, ""),
        Bar::at_most("agent, idle", 100.0 * f.agent_idle_cpu, 1.0, "% of a CPU"),
    ];
    if args.rate == 0 || args.rate as f64 >= BAR {
        bars.push(Bar::at_least(
            "samples to a UDP collector",
            f.samples_per_second,
            BAR,
            "/s",
        ));
    }
    let mut report = Report::new("sflow", of, f)?;
    if f.unaccounted > 0 {
        report
            .faults
            .push(format!("{} samples are unaccounted for", f.unaccounted));
    }
    Ok(report.with_table(table).with_table(cost).with_bars(bars))
}

/// Processor time in seconds of this process's threads of that name, from their scheduler statistics.
fn thread_cpu(name: &str) -> f64 {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else {
        return 0.0;
    };
    let text = |t: &std::fs::DirEntry, file: &str| {
        std::fs::read_to_string(t.path().join(file)).unwrap_or_default()
    };
    let ns: f64 = tasks
        .flatten()
        .filter(|t| text(t, "comm").trim() == name)
        .filter_map(|t| text(&t, "schedstat").split(' ').next()?.parse::<f64>().ok())
        .sum();
    ns / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(args: &SflowArgs) -> serde_json::Value {
        measure(args).unwrap().json()
    }

    #[test]
    fn every_sample_of_several_workers_is_accounted_for() {
        let json = run(&SflowArgs {
            seconds: 1,
            rate: 20_000,
            workers: 3,
            header_bytes: 128,
            mixed: true,
            internet: false,
        });
        assert_eq!(json["unaccounted"], 0, "{json}");
        let n = |key: &str| json[key].as_u64().unwrap();
        assert!(n("taken") > 0 && n("received") > 0, "{json}");
        assert_eq!(n("taken") - n("received"), n("lost"), "{json}");
        assert!(json["samples_per_second"].as_f64().unwrap() > 0.0);
    }

    #[test]
    fn the_pace_is_kept_and_lost_time_made_up_for_in_part() {
        let mut p = Pace {
            rate: 1_000_000,
            missed: 0,
            next: 0,
        };
        let ms = 1_000_000;
        let mut taken = 0;
        let mut run = |p: &mut Pace, from: u64, to: u64| {
            let before = taken;
            for now in (from..to).step_by(10_000) {
                taken += p.due(now, taken);
            }
            taken - before
        };
        // A thousand a millisecond.
        assert!(run(&mut p, 0, 10 * ms).abs_diff(10_000) < 300);
        // 10 ms late: twice as many until it is on time again, in 10 ms.
        let caught_up = run(&mut p, 20 * ms, 25 * ms);
        assert!(caught_up.abs_diff(10_000) < 600, "{caught_up}");
        assert!(run(&mut p, 25 * ms, 40 * ms).abs_diff(20_000) < 900);
        // A second late: 50 ms of it are made up for.
        let caught_up = run(&mut p, 1_000 * ms, 1_200 * ms);
        assert!(caught_up.abs_diff(250_000) < 1_500, "{caught_up}");
    }

    #[test]
    fn losses_are_told_by_their_place() {
        let ports = Ports(vec![Port {
            taken: 100.into(),
            drops: 7.into(),
            ..Port::default()
        }]);
        let status = AgentStatus {
            flow_samples: 91,
            datagrams: 10,
            orphans: 2,
            ..AgentStatus::default()
        };
        let mut tracker = Tracker::default();
        let mut b = parshall_sflow_wire::DatagramBuilder::new(1400);
        b.begin([192, 0, 2, 1].into(), 0, 1, 1);
        tracker.observe(&Datagram::parse(b.finish()).unwrap());
        let got = Received {
            agents: tracker.agents(),
            malformed: 0,
        };
        let mut f = Figures {
            seconds: 1.0,
            ..Figures::default()
        };
        f.account(&ports, &status, &got);
        assert_eq!((f.lost, f.unaccounted), (100, 0));
        assert_eq!((f.dropped.datagrams, f.dropped.receive_datagrams), (91, 9));
        // Two that nobody knows of.
        ports.0[0].taken.store(102, Ordering::Relaxed);
        let mut f = Figures {
            seconds: 1.0,
            ..Figures::default()
        };
        f.account(&ports, &status, &got);
        assert_eq!(f.unaccounted, 2);
    }
}
