//! Measures the generator and its sink alone: ticks of the time-stamp counter per packet.
//!
//! `cargo run --release -p parshall-drivers --example pg_loop [ROUNDS]`

#![allow(unsafe_code)]

use std::hint::black_box;
use std::net::Ipv4Addr;

use parshall_buffer::{Frame, Pool};
use parshall_device::{Device, Queues};
use parshall_drivers::pg::{Field, PgDevice, StreamSpec, Values};

/// Frames timed as one; the clock is read twice a batch.
const BATCH: usize = 256;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rounds = std::env::args().nth(1).map_or(Ok(400), |n| n.parse())?;
    let base = StreamSpec::from_frame("s", &udp(64, 0))?;
    let range = Ipv4Addr::new(10, 0, 0, 1)..=Ipv4Addr::new(10, 0, 0, 250);
    let many = |n: u32| {
        Values::list((0..n).map(|i| 0x0a00_0000 + i.wrapping_mul(0x9e37_79b1) % (1 << 24)))
    };
    let cases = [
        ("1 destination, 64 bytes", base.clone()),
        (
            "250 destinations, 64 bytes",
            base.clone().vary(Field::Ip4Destination, range.clone())?,
        ),
        (
            "250 destinations, 64 bytes, with UDP checksum",
            StreamSpec::from_frame("s", &udp(64, 1))?.vary(Field::Ip4Destination, range.clone())?,
        ),
        (
            "16,384 destinations, 64 bytes",
            base.clone().vary(Field::Ip4Destination, many(16_384))?,
        ),
        (
            "1,000,000 destinations, 64 bytes",
            base.vary(Field::Ip4Destination, many(1_000_000))?,
        ),
        (
            "250 destinations, 128 bytes",
            StreamSpec::from_frame("s", &udp(128, 0))?
                .vary(Field::Ip4Destination, range.clone())?,
        ),
        (
            "250 destinations, 1500 bytes",
            StreamSpec::from_frame("s", &udp(1500, 0))?.vary(Field::Ip4Destination, range)?,
        ),
    ];
    println!(
        "{:<48} {:>8} {:>8}   median of {rounds} batches of {BATCH} frames, ticks per packet",
        "case", "source", "sink"
    );
    for (name, spec) in cases {
        let (source, sink) = measure(&spec, rounds)?;
        println!("{name:<48} {source:>8.2} {sink:>8.2}");
    }
    Ok(())
}

fn measure(spec: &StreamSpec, rounds: usize) -> Result<(f64, f64), Box<dyn std::error::Error>> {
    let (mut device, handle) = PgDevice::new(0);
    let Queues { mut rx, mut tx } = device.queues(1, 1)?;
    handle.add(spec)?;
    handle.enable(None)?;
    let (mut pool, mut frame) = (Pool::new(4096)?, Frame::default());
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..rounds {
        let mut ticks = [0, 0];
        let mut packets = 0;
        for _ in 0..BATCH {
            frame.clear();
            let start = now();
            rx[0].poll(&mut pool, &mut frame, 0);
            let middle = now();
            tx[0].transmit(&mut pool, black_box(frame.packets()), 0);
            ticks[0] += middle - start;
            ticks[1] += now() - middle;
            packets += frame.len();
        }
        for (all, t) in times.iter_mut().zip(ticks) {
            all.push(t as f64 / packets as f64);
        }
    }
    let median = |v: &mut Vec<f64>| {
        v.sort_by(f64::total_cmp);
        v[v.len() / 2]
    };
    Ok((median(&mut times[0]), median(&mut times[1])))
}

/// Ethernet, IPv4, UDP; `checksum` 0 says that UDP has none.
fn udp(len: usize, checksum: u8) -> Vec<u8> {
    let mut b = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    let (ip, l4) = ((len - 14) as u16, (len - 34) as u16);
    b.extend([
        0x45,
        0,
        (ip >> 8) as u8,
        ip as u8,
        0,
        0,
        0,
        0,
        64,
        17,
        0,
        0,
        10,
        1,
        0,
        1,
        10,
        0,
        0,
        1,
    ]);
    b.extend([4, 210, 22, 46, (l4 >> 8) as u8, l4 as u8, 0, checksum]);
    b.resize(len, 0);
    b
}

#[cfg(target_arch = "x86_64")]
fn now() -> u64 {
    // SAFETY: reading the counter has no effect on memory.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
fn now() -> u64 {
    use std::time::{SystemTime, UNIX_EPOCH};
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| d.as_nanos() as u64)
}
