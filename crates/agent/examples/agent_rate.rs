//! How many samples a second the agent gets from rings to the network, on one thread.
//!
//! Workers push samples into rings; the agent sends them to a socket on the loopback interface; a reader counts what
//! arrives. `agent_rate [--seconds N] [--workers N] [--rate N] [--header N] [--ring N] [--json]`: with `--rate 0` (default)
//! workers push as fast as there is room, which shows what the agent can do; with a rate, they keep to it all together and
//! lose what finds no room, as a router would. `--idle` pushes nothing and shows what the agent costs then.

use std::error::Error;
use std::io::IoSliceMut;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::socket::{MsgFlags, MultiHeaders, recvmmsg};
use parshall_agent::{AgentConfig, AgentThread, CollectorConfig, IfReport, RouteInfo, Router};
use parshall_ring::{Producer, ring};
use parshall_sample::SampleSlot;

struct Ports(u32);

impl Router for Ports {
    fn interfaces(&self) -> Vec<IfReport> {
        let port = |i| IfReport {
            index: i,
            if_index: i,
            name: format!("port{i}"),
            sflow: true,
            ..IfReport::default()
        };
        (1..=self.0).map(port).collect()
    }
    fn resolve(&self, _header: &[u8], _rx_if: u32) -> Option<RouteInfo> {
        Some(RouteInfo {
            out_if: 1,
            next_hop: [192, 0, 2, 1].into(),
            src_mask_len: 24,
            dst_mask_len: 24,
        })
    }
    fn pool(&self, _if_index: u32) -> (u64, u64) {
        (1, 0)
    }
}

#[derive(Clone, Copy)]
struct Options {
    seconds: u64,
    workers: u32,
    rate: u64,
    header: u16,
    ring: usize,
    idle: bool,
    json: bool,
}

fn options() -> Result<Options, Box<dyn Error>> {
    let mut o = Options {
        seconds: 5,
        workers: 1,
        rate: 0,
        header: 128,
        ring: 8192,
        idle: false,
        json: false,
    };
    let mut args = std::env::args().skip(1);
    while let Some(a) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{a} needs a number"));
        match a.as_str() {
            "--seconds" => o.seconds = value()?.parse()?,
            "--workers" => o.workers = value()?.parse()?,
            "--rate" => o.rate = value()?.parse()?,
            "--header" => o.header = value()?.parse::<u16>()?.min(256),
            "--ring" => o.ring = value()?.parse()?,
            "--idle" => o.idle = true,
            "--json" => o.json = true,
            _ => return Err(format!("unknown option {a}").into()),
        }
    }
    Ok(o)
}

/// Pushes samples until told to stop.
fn work(mut p: Producer<SampleSlot>, rx_if: u32, o: Options, stop: &AtomicBool) {
    let start = Instant::now();
    let mut pushed = 0u64;
    while !stop.load(Ordering::Relaxed) {
        let allowed = match o.rate {
            0 => u64::MAX,
            rate => start.elapsed().as_micros() as u64 * (rate / u64::from(o.workers)) / 1_000_000,
        };
        // A frame's worth at a time, as a worker would at most.
        let burst = allowed.saturating_sub(pushed).min(256);
        for _ in 0..burst {
            if o.rate == 0 && !p.has_room() {
                break;
            }
            p.write(|s| {
                (s.rx_if, s.tx_if, s.rate, s.frame_len, s.header_len) =
                    (rx_if, u32::MAX, 1000, 1500, o.header);
                s.header[0] = pushed as u8;
            });
            pushed += 1;
        }
        if o.rate == 0 {
            thread::yield_now();
        } else if burst == 0 {
            thread::sleep(Duration::from_micros(100));
        }
    }
}

/// Waits for a datagram, at most as long as the socket's timeout says, and takes what else is there.
fn receive_batch(socket: &UdpSocket, buffers: &mut [[u8; 2048]]) -> Option<usize> {
    let mut headers = MultiHeaders::<()>::preallocate(buffers.len(), None);
    let mut parts: Vec<[IoSliceMut<'_>; 1]> =
        buffers.iter_mut().map(|b| [IoSliceMut::new(b)]).collect();
    let flags = MsgFlags::MSG_WAITFORONE;
    let got = recvmmsg(
        socket.as_raw_fd(),
        &mut headers,
        parts.iter_mut(),
        flags,
        None,
    )
    .ok()?;
    Some(got.count())
}

/// Counts datagrams and the samples in them until the socket stays silent.
fn receive(socket: &UdpSocket, datagrams: &AtomicU64, samples: &AtomicU64) {
    let mut buffers = vec![[0u8; 2048]; 128];
    while let Some(count) = receive_batch(socket, &mut buffers) {
        datagrams.fetch_add(count as u64, Ordering::Relaxed);
        let of = |b: &[u8; 2048]| u64::from(u32::from_be_bytes([b[24], b[25], b[26], b[27]]));
        samples.fetch_add(buffers[..count].iter().map(of).sum(), Ordering::Relaxed);
    }
}

/// Processor time of the agent's thread in seconds, from its scheduler statistics (ns).
fn agent_cpu() -> f64 {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else {
        return 0.0;
    };
    let text = |t: &std::fs::DirEntry, file: &str| {
        std::fs::read_to_string(t.path().join(file)).unwrap_or_default()
    };
    let ns: f64 = tasks
        .flatten()
        .filter(|t| text(t, "comm").trim() == "parshall-sflow")
        .filter_map(|t| text(&t, "schedstat").split(' ').next()?.parse::<f64>().ok())
        .sum();
    ns / 1e9
}

fn main() -> Result<(), Box<dyn Error>> {
    let o = options()?;
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket2::SockRef::from(&socket).set_recv_buffer_size(64 << 20)?;
    socket.set_read_timeout(Some(Duration::from_secs(2)))?;
    let config = AgentConfig {
        collectors: vec![CollectorConfig::from(socket.local_addr()?)],
        ..AgentConfig::default()
    };
    let (producers, consumers): (Vec<_>, Vec<_>) = (0..o.workers).map(|_| ring(o.ring)).unzip();
    let agent = AgentThread::spawn(config, Arc::new(Ports(o.workers)), consumers)?;
    let (datagrams, samples, stop) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let (status, elapsed, cpu) = thread::scope(|s| {
        s.spawn(|| receive(&socket, &datagrams, &samples));
        let (start, cpu) = (Instant::now(), agent_cpu());
        if !o.idle {
            for (p, i) in producers.into_iter().zip(1..) {
                let stop = &stop;
                s.spawn(move || work(p, i, o, stop));
            }
        }
        thread::sleep(Duration::from_secs(o.seconds));
        let (elapsed, cpu) = (start.elapsed().as_secs_f64(), agent_cpu() - cpu);
        let status = agent.status();
        stop.store(true, Ordering::Relaxed);
        agent.shutdown();
        (status, elapsed, cpu)
    });
    let status = status?;
    let drained = status.rings.iter().map(|r| r.drained).sum::<u64>();
    let rate = drained as f64 / elapsed;
    let per_sample = if drained > 0 {
        cpu * 1e9 / drained as f64
    } else {
        0.0
    };
    let received = samples.load(Ordering::Relaxed);
    let failed: u64 = status.collectors.iter().map(|c| c.failed).sum();
    if o.json {
        println!(
            "{{\"samples_per_second\":{rate:.0},\"lost\":{},\"failed\":{failed},\"received\":{received},\"agent_cpu\":{:.4},\"ns_per_sample\":{per_sample:.0}}}",
            status.lost(),
            cpu / elapsed
        );
    } else {
        println!(
            "{rate:.0} samples/s, {} lost in rings, {failed} datagrams failed",
            status.lost()
        );
        println!(
            "received {received} samples in {} datagrams",
            datagrams.load(Ordering::Relaxed)
        );
        println!(
            "agent thread: {:.2} % of a processor, {per_sample:.0} ns/sample",
            100.0 * cpu / elapsed
        );
    }
    Ok(())
}
