//! `bench af_xdp`: packets between two veth pairs through the router, by AF_XDP and by AF_PACKET.
//!
//! A generator on the far end of the first pair sends frames as fast as the kernel takes them; the router,
//! on a CPU of its own, cross-connects the near ends; the kernel at the far end of the second pair throws
//! them away, because they are addressed to nobody. What counts is what the router handed on a second:
//! receiving, the graph, and sending through the kernel, whose work on the way out runs in the router's
//! system call. What is offered depends on the kind too: on a veth the sender's CPU runs the receiving side, XDP
//! program and copy included, so that the generator may be what limits. Beside it stands the processor time of the router's thread a packet, while it had packets:
//! it depends less on what else the machine does. The kinds of interface take turns in short windows, so that whatever else the machine does
//! meets all alike; each round gives ratios, and their medians count. Veth has no zero-copy: these are
//! the kernel's copies, and no NIC's figures.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parshall_buffer::{BufferIndex, HEADROOM, Meta, Pool};
use parshall_device::{Device, DeviceError};
use parshall_drivers::af_packet::{AfPacket, AfPacketConfig};
use parshall_drivers::af_xdp::{AfXdp, AfXdpConfig, XdpMode};
use parshall_graph::harness::Harness;
use parshall_graph::{Limits, monotonic_ns};
use parshall_linux::{Net, NetNs, VethEnd, affinity};
use parshall_nodes::{IfAddresses, IfTable, IfView, Shared, TableLimits, if_flags};
use serde::Serialize;

use crate::report::short;
use crate::stats::{median, round};
use crate::{BenchError, Report, Table};

const LIMITS: Limits = Limits { interfaces: 4 };
const BUFFERS: usize = 4096;
const MTU: u32 = 1500;
/// Turns between looks at the clock, and packets the generator sends at a time.
const TURNS: u32 = 64;
const BURST: usize = 64;
/// Time from the first packets to the first reading.
const WARM: Duration = Duration::from_millis(100);

/// `parshall bench af_xdp`.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  parshall bench af_xdp
  parshall bench af_xdp --repeats 11 --frame-bytes 1500 --json

Needs root (network namespaces, XDP) and two CPUs.")]
pub struct AfXdpArgs {
    /// Rounds, in each of which every kind of interface has one window.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeats: u32,
    /// Length of a window in milliseconds.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u64).range(50..=60_000))]
    pub window_ms: u64,
    /// Bytes of each frame.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(64..=1514))]
    pub frame_bytes: u16,
    /// CPU of the router.
    #[arg(long, default_value_t = 1)]
    pub cpu: usize,
    /// CPU of the generator.
    #[arg(long, default_value_t = 0)]
    pub peer_cpu: usize,
}

/// How the router takes its interfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    AfPacket,
    Generic,
    Native,
}

const KINDS: [Kind; 3] = [Kind::AfPacket, Kind::Generic, Kind::Native];

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::AfPacket => "AF_PACKET",
            Kind::Generic => "AF_XDP, generic",
            Kind::Native => "AF_XDP, native",
        }
    }

    fn node(self) -> &'static str {
        match self {
            Kind::AfPacket => "af-packet-input",
            _ => "af-xdp-input",
        }
    }

    fn open(self, name: &str, ns: &NetNs) -> Result<Box<dyn Device>, DeviceError> {
        let (host_if, host_ns) = (name.to_owned(), Some(ns.path()));
        Ok(match self {
            Kind::AfPacket => Box::new(AfPacket::open(AfPacketConfig {
                host_if,
                host_ns,
                ..AfPacketConfig::default()
            })?),
            Kind::Generic | Kind::Native => Box::new(AfXdp::open(AfXdpConfig {
                host_if,
                host_ns,
                xdp: Some(if self == Kind::Native {
                    XdpMode::Native
                } else {
                    XdpMode::Generic
                }),
                ..AfXdpConfig::default()
            })?),
        })
    }
}

/// What was measured, for machines.
#[derive(Clone, Debug, Serialize)]
struct Figures {
    frame_bytes: u16,
    kinds: Vec<Row>,
}

/// One kind.
#[derive(Clone, Debug, Serialize)]
struct Row {
    kind: &'static str,
    /// Million packets a second handed on: median.
    mpps: f64,
    /// Million packets a second that the generator could send: median.
    offered_mpps: f64,
    /// Nanoseconds of the router's processor time a packet, the kernel's share included: median.
    cpu_ns: f64,
    /// Median of the ratios to AF_PACKET in the same round.
    ratio: f64,
    ratio_min: f64,
    ratio_max: f64,
}

/// Runs the bench.
///
/// # Errors
/// Without root, with fewer than two CPUs, or when the kernel refuses an interface.
pub fn measure(args: &AfXdpArgs) -> Result<Report, BenchError> {
    let cpus = affinity::allowed_cpus().map_err(|e| BenchError::of("CPUs", e))?;
    for cpu in [args.cpu, args.peer_cpu] {
        if !cpus.contains(&cpu) || args.cpu == args.peer_cpu {
            return Err(BenchError(format!(
                "--cpu {} --peer-cpu {}: two different CPUs are needed, allowed are {}",
                args.cpu,
                args.peer_cpu,
                affinity::ranges(&cpus)
            )));
        }
    }
    let mut rates = [const { Vec::<Reading>::new() }; KINDS.len()];
    for repeat in 0..args.repeats {
        for (rates, kind) in rates.iter_mut().zip(KINDS) {
            rates.push(window(args, kind)?);
        }
        let now: Vec<String> = rates
            .iter()
            .map(|r| short(r.last().map_or(0.0, |r| r.mpps)))
            .collect();
        eprintln!(
            "round {} of {}: {} Mpps",
            repeat + 1,
            args.repeats,
            now.join(", ")
        );
    }
    report(args, &rates)
}

/// What one window found.
#[derive(Clone, Copy, Debug)]
struct Reading {
    mpps: f64,
    offered_mpps: f64,
    cpu_ns: f64,
}

fn report(args: &AfXdpArgs, rates: &[Vec<Reading>]) -> Result<Report, BenchError> {
    let mut rows = Vec::new();
    let columns = [
        "interfaces",
        "Mpps",
        "ratio",
        "lowest",
        "highest",
        "offered Mpps",
        "CPU ns a packet",
    ];
    let mut table = Table::new("Cross-connected between two veth pairs", &columns);
    for (mine, kind) in rates.iter().zip(KINDS) {
        let ratios: Vec<f64> = mine
            .iter()
            .zip(&rates[0])
            .map(|(a, b)| a.mpps / b.mpps)
            .collect();
        let fold = |f: fn(f64, f64) -> f64| ratios.iter().copied().reduce(f).unwrap_or(0.0);
        let row = Row {
            kind: kind.name(),
            mpps: round(median(mine.iter().map(|r| r.mpps)), 3),
            offered_mpps: round(median(mine.iter().map(|r| r.offered_mpps)), 3),
            cpu_ns: round(median(mine.iter().map(|r| r.cpu_ns)), 0),
            ratio: round(median(ratios.iter().copied()), 2),
            ratio_min: round(fold(f64::min), 2),
            ratio_max: round(fold(f64::max), 2),
        };
        table.push([
            row.kind.to_owned(),
            short(row.mpps),
            format!("{:.2}", row.ratio),
            format!("{:.2}", row.ratio_min),
            format!("{:.2}", row.ratio_max),
            short(row.offered_mpps),
            short(row.cpu_ns),
        ]);
        rows.push(row);
    }
    let of = format!(
        "frames of {} bytes from one veth pair to another through the router on one CPU, the generator on another; \
         copy mode, ratio to AF_PACKET in the same round",
        args.frame_bytes
    );
    let figures = Figures {
        frame_bytes: args.frame_bytes,
        kinds: rows,
    };
    Ok(Report::new("af_xdp", of, &figures)?.with_table(table))
}

/// The links of one window: the generator's end, the router's two, the end of all.
struct Links {
    near: NetNs,
    far: NetNs,
}

impl Links {
    fn new() -> Result<Links, BenchError> {
        let fail = |e: parshall_linux::Error| BenchError::of("links", e);
        let (near, far) = (
            NetNs::anonymous().map_err(fail)?,
            NetNs::anonymous().map_err(fail)?,
        );
        let (here, there) = (
            Net::in_ns(&near).map_err(fail)?,
            Net::in_ns(&far).map_err(fail)?,
        );
        for ns in [&near, &far] {
            ns.set_sysctl("net.ipv6.conf.default.disable_ipv6", "1")
                .map_err(fail)?;
        }
        for n in 0..2 {
            let (a, b) = (format!("near{n}"), format!("far{n}"));
            here.create_veth(&VethEnd::new(&a), &VethEnd::new(&b).ns(&far))
                .map_err(fail)?;
            here.set_up(&a).map_err(fail)?;
            there.set_up(&b).map_err(fail)?;
        }
        Ok(Links { near, far })
    }
}

/// One window of one kind.
fn window(args: &AfXdpArgs, kind: Kind) -> Result<Reading, BenchError> {
    let links = Links::new()?;
    let (end, ready) = (AtomicBool::new(false), AtomicU64::new(0));
    let (forwarded, sent) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|s| {
        let router = s.spawn(|| router(&links, kind, args.cpu, &end, &ready, &forwarded));
        let generator = s.spawn(|| generator(&links, args, &end, &ready, &sent));
        let start = Instant::now();
        let alive = || !router.is_finished() && !generator.is_finished();
        let begun = || ready.load(Ordering::Acquire) == 2 && forwarded.load(Ordering::Acquire) > 0;
        while !begun() && alive() && start.elapsed().as_secs() < 30 {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(WARM);
        let (from, sent_before) = (Instant::now(), sent.load(Ordering::Acquire));
        let before = forwarded.load(Ordering::Acquire);
        // On a machine that lets neither of them run, the window is longer.
        for _ in 0..100 {
            std::thread::sleep(Duration::from_millis(args.window_ms));
            if forwarded.load(Ordering::Acquire) > before || !alive() {
                break;
            }
        }
        let sent = sent.load(Ordering::Acquire) - sent_before;
        let (took, after) = (from.elapsed(), forwarded.load(Ordering::Acquire));
        end.store(true, Ordering::Release);
        let panicked = |_| BenchError("a thread of the bench panicked".into());
        let busy = router.join().map_err(panicked)??;
        generator.join().map_err(panicked)??;
        if after == before {
            return Err(BenchError(format!("{}: nothing came through", kind.name())));
        }
        Ok(Reading {
            mpps: (after - before) as f64 / took.as_secs_f64() / 1e6,
            offered_mpps: sent as f64 / took.as_secs_f64() / 1e6,
            cpu_ns: busy.cpu_ns as f64 / busy.packets.max(1) as f64,
        })
    })
}

/// Processor time while there were packets, and how many.
#[derive(Clone, Copy, Debug, Default)]
struct Busy {
    cpu_ns: u64,
    packets: u64,
}

/// Processor time of the calling thread.
fn cpu_ns() -> u64 {
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID);
    now.map_or(0, |t| {
        t.tv_sec() as u64 * 1_000_000_000 + t.tv_nsec() as u64
    })
}

/// The router: a pinned thread that cross-connects both near ends.
fn router(
    links: &Links,
    kind: Kind,
    cpu: usize,
    end: &AtomicBool,
    ready: &AtomicU64,
    forwarded: &AtomicU64,
) -> Result<Busy, BenchError> {
    affinity::pin(cpu).map_err(|e| BenchError::of("pinning", e))?;
    let shared = Shared::new(TableLimits::default()).map_err(|e| BenchError::of("tables", e))?;
    shared.interfaces.publish(&shared.domain, crossed());
    let graph = parshall_nodes::graph(LIMITS).map_err(|e| BenchError::of("graph", e))?;
    let (nodes, _outputs) = parshall_nodes::build(&shared, LIMITS, 1);
    let reader = shared.domain.register();
    let reader = reader.map_err(|e| BenchError::of("reader", e))?;
    let harness = Harness::new(Arc::new(graph), nodes, BUFFERS, reader);
    let mut harness = harness.map_err(|e| BenchError::of("graph", e))?;
    let mut devices = Vec::new();
    for n in 0..2u32 {
        let device = kind.open(&format!("near{n}"), &links.near);
        let mut device = device.map_err(|e| BenchError::of(kind.name(), e))?;
        let refused = |e: DeviceError| BenchError::of(kind.name(), e);
        let queues = device.queues(n + 1, 1).map_err(refused)?;
        for rx in queues.rx {
            harness.set_rx(kind.node(), n + 1, rx);
        }
        for tx in queues.tx {
            harness.set_tx(n + 1, tx, MTU + 14);
        }
        device.set_promiscuous(true).map_err(refused)?;
        device.set_admin(true).map_err(refused)?;
        devices.push(device);
    }
    ready.fetch_add(1, Ordering::AcqRel);
    let mut sum = Busy::default();
    let mut since: Option<Busy> = None;
    while !end.load(Ordering::Acquire) {
        for _ in 0..TURNS {
            harness.dispatcher.reader.quiescent();
            let received = harness.dispatcher.turn(monotonic_ns());
            let now = || Busy {
                cpu_ns: cpu_ns(),
                packets: harness.dispatcher.counters.transmitted.get(),
            };
            // A stretch of turns with packets, from the end of its first to the end of the empty one.
            match since {
                None if received > 0 => since = Some(now()),
                Some(begin) if received == 0 => {
                    let now = now();
                    sum.cpu_ns += now.cpu_ns - begin.cpu_ns;
                    sum.packets += now.packets - begin.packets;
                    since = None;
                }
                _ => {}
            }
        }
        let now = harness.dispatcher.counters.transmitted.get();
        forwarded.store(now, Ordering::Release);
    }
    if let Some(begin) = since {
        sum.cpu_ns += cpu_ns() - begin.cpu_ns;
        sum.packets += harness.dispatcher.counters.transmitted.get() - begin.packets;
    }
    harness.dispatcher.close();
    Ok(sum)
}

/// The generator: a pinned thread that sends through the far end of the first pair.
fn generator(
    links: &Links,
    args: &AfXdpArgs,
    end: &AtomicBool,
    ready: &AtomicU64,
    sent: &AtomicU64,
) -> Result<(), BenchError> {
    affinity::pin(args.peer_cpu).map_err(|e| BenchError::of("pinning", e))?;
    let refused = |e: DeviceError| BenchError::of("generator", e);
    // Always the same kind, so that what it costs is the same for all that are compared.
    let mut device = Kind::Native.open("far0", &links.far).map_err(refused)?;
    let mut queues = device.queues(1, 1).map_err(refused)?;
    let tx = queues.tx.first_mut();
    let tx = tx.ok_or_else(|| BenchError("generator: no queue".into()))?;
    let mut pool = Pool::new(2 * BURST).map_err(|e| BenchError::of("packet memory", e))?;
    let frame = frame(usize::from(args.frame_bytes));
    ready.fetch_add(1, Ordering::AcqRel);
    while !end.load(Ordering::Acquire) {
        let mut packets = [BufferIndex::default(); BURST];
        let n = pool.alloc_bulk(&mut packets);
        for &b in &packets[..n] {
            let (meta, room) = pool.parts_mut(b);
            *meta = Meta::received(HEADROOM as u16, args.frame_bytes, 0);
            room[HEADROOM..HEADROOM + frame.len()].copy_from_slice(&frame);
        }
        let burst = tx.transmit(&mut pool, &packets[..n], monotonic_ns());
        sent.fetch_add((burst.taken - burst.errors) as u64, Ordering::AcqRel);
        pool.free_bulk(&packets[burst.taken..n]);
    }
    tx.close(&mut pool);
    Ok(())
}

/// A frame addressed to nobody.
fn frame(len: usize) -> Vec<u8> {
    let mut f = vec![0; len];
    f[..12].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
    f[12..14].copy_from_slice(&0x88b5u16.to_be_bytes());
    f
}

/// Interfaces 1 and 2, each handing everything to the other.
fn crossed() -> IfTable {
    let view = |peer| IfView {
        flags: if_flags::EXISTS | if_flags::UP | if_flags::XCONNECT,
        peer,
        mtu: MTU,
        ..IfView::default()
    };
    IfTable::new([
        (IfView::default(), IfAddresses::default()),
        (view(2), IfAddresses::default()),
        (view(1), IfAddresses::default()),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_come_through_with_every_kind() {
        let args = AfXdpArgs {
            repeats: 1,
            window_ms: 50,
            frame_bytes: 64,
            cpu: 1,
            peer_cpu: 0,
        };
        let report = measure(&args).unwrap();
        let kinds = report.figures["kinds"].as_array().unwrap();
        assert_eq!(kinds.len(), 3);
        assert!(kinds.iter().all(|k| k["mpps"].as_f64().unwrap() > 0.0));
    }
}
