//! Joins two interfaces like a patch cable, with the drivers alone and no graph: what iperf3 and ping
//! between their far ends show is the drivers' own cost.
//!
//! `xconnect [--busy] A B`, where each is `[NAMESPACE:]INTERFACE` for an existing interface or
//! `tap:[NAMESPACE:]NAME` for a tap to be made. Ends when its input ends.
#![allow(unsafe_code)]

use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};

use parshall_buffer::{Frame, Pool};
use parshall_device::{Device, DeviceError, Queues};
use parshall_drivers::af_packet::{AfPacket, AfPacketConfig};
use parshall_drivers::tap::{Tap, TapConfig};
use parshall_linux::clock::monotonic_ns;

/// Frames moved, bytes, lost in the kernel, not taken by the other side.
#[derive(Debug, Default)]
struct Count {
    frames: u64,
    bytes: u64,
    missed: u64,
    errors: u64,
    full: u64,
}

fn open(spec: &str, if_index: u32) -> Result<(Box<dyn Device>, Queues), DeviceError> {
    let (tap, rest) = spec
        .strip_prefix("tap:")
        .map_or((false, spec), |rest| (true, rest));
    let (ns, name) = rest
        .rsplit_once(':')
        .map_or((None, rest), |(ns, name)| (Some(ns.to_owned()), name));
    let mut device: Box<dyn Device> = if tap {
        let host_if = Some(name.to_owned());
        Box::new(Tap::open(TapConfig {
            host_if,
            host_ns: ns,
            ..TapConfig::default()
        })?)
    } else {
        let host_if = name.to_owned();
        Box::new(AfPacket::open(AfPacketConfig {
            host_if,
            host_ns: ns,
            ..AfPacketConfig::default()
        })?)
    };
    device.set_promiscuous(true)?;
    let queues = device.queues(if_index, 1)?;
    device.set_admin(true)?;
    Ok((device, queues))
}

fn carry(
    pool: &mut Pool,
    frame: &mut Frame,
    from: &mut Queues,
    to: &mut Queues,
    count: &mut Count,
) -> usize {
    frame.clear();
    let now = monotonic_ns();
    let burst = from.rx[0].poll(pool, frame, now);
    if !frame.is_empty() {
        let sent = to.tx[0].transmit(pool, frame.packets(), now);
        pool.free_bulk(&frame.packets()[sent.taken..]);
        count.full += (frame.len() - sent.taken) as u64;
        count.errors += sent.errors as u64;
    }
    count.frames += frame.len() as u64;
    count.bytes += burst.bytes;
    count.missed += burst.missed;
    count.errors += burst.errors + burst.no_buffer;
    frame.len()
}

fn run(
    a: &mut Queues,
    b: &mut Queues,
    busy: bool,
    stop: &AtomicBool,
) -> std::io::Result<[Count; 2]> {
    let mut pool = Pool::new(16_384)?;
    let mut frame = Frame::default();
    let mut counts = [Count::default(), Count::default()];
    let fds: Vec<_> = [&*a, &*b].iter().filter_map(|q| q.rx[0].fd()).collect();
    while !stop.load(Ordering::Relaxed) {
        let moved = carry(&mut pool, &mut frame, a, b, &mut counts[0])
            + carry(&mut pool, &mut frame, b, a, &mut counts[1]);
        if moved == 0 && !busy {
            a.tx[0].flush(&mut pool);
            b.tx[0].flush(&mut pool);
            let mut wait: Vec<_> = fds
                .iter()
                .map(|&fd| libc::pollfd {
                    fd,
                    events: libc::POLLIN,
                    revents: 0,
                })
                .collect();
            // SAFETY: as many pollfds as said, which outlive the call.
            unsafe { libc::poll(wait.as_mut_ptr(), wait.len() as libc::nfds_t, 100) };
        }
    }
    Ok(counts)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let busy = args.iter().any(|a| a == "--busy");
    args.retain(|a| a != "--busy");
    let [a, b] = &args[..] else {
        return Err("usage: xconnect [--busy] A B".into());
    };
    let ((_da, mut qa), (_db, mut qb)) = (open(a, 0)?, open(b, 1)?);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| run(&mut qa, &mut qb, busy, &stop));
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        stop.store(true, Ordering::Relaxed);
        match worker.join() {
            Ok(counts) => println!("{:#?}", counts?),
            Err(_) => return Err("the worker failed".into()),
        }
        Ok(())
    })
}
