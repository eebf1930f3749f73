//! A worker at work allocates nothing: not for packets it forwards, nor for those it answers or drops.
//!
//! A counting allocator stands in front of the system's. After a warm-up, thousands of vectors go through
//! the whole graph and the count of the thread must not have moved.
#![allow(unsafe_code)]

extern crate parshall_nodes;

#[path = "../src/tests/lab.rs"]
mod lab;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use lab::*;
use parshall_buffer::{BufferIndex, Frame, Pool};
use parshall_device::{RxBurst, RxQueue, TxBurst, TxQueue};
use parshall_fib::{Dpo, DpoKind, Payload, TtlMode};
use parshall_nodes::{SflowSettings, SflowTxSettings};
use parshall_wire::{ArpRepr, MacAddr, PacketBuilder};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

fn count() {
    // A thread that ends may have lost its counter already; nobody asks for it then.
    let _ = ALLOCATIONS.try_with(|n| n.set(n.get() + 1));
}

// SAFETY: every call is passed on unchanged to the system's allocator; counting neither allocates nor
// touches the memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(p, layout) }
    }
    unsafe fn realloc(&self, p: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(p, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A receive queue that gives out a list of frames over and over, full vectors at a time.
struct Source {
    frames: Vec<Vec<u8>>,
    at: usize,
    rx_if: u32,
}

impl RxQueue for Source {
    fn poll(&mut self, pool: &mut Pool, frame: &mut Frame, _now: u64) -> RxBurst {
        let mut burst = RxBurst::default();
        while frame.room() != 0 {
            let bytes = &self.frames[self.at];
            let Some(b) = pool.packet_from(bytes, self.rx_if) else {
                break;
            };
            frame.push(b);
            burst.bytes += bytes.len() as u64;
            self.at = (self.at + 1) % self.frames.len();
        }
        burst
    }
}

/// A transmit queue that frees what it is given.
struct Sink;

impl TxQueue for Sink {
    fn transmit(&mut self, pool: &mut Pool, packets: &[BufferIndex], _now: u64) -> TxBurst {
        pool.free_bulk(packets);
        TxBurst::all(packets.len())
    }
}

/// Sends `frames` into interface 1 for `vectors` vectors; says how many packets were sent out.
fn run(mut lab: Lab, frames: Vec<Vec<u8>>, vectors: u64) -> u64 {
    for n in 1..=3 {
        lab.harness.set_tx(n, Box::new(Sink), 9014);
    }
    let source = Source {
        frames,
        at: 0,
        rx_if: 1,
    };
    lab.harness.set_rx("pg-input", 1, Box::new(source));
    let d = &mut lab.harness.dispatcher;
    let mut turns = |count: u64| {
        for _ in 0..count {
            lab.now += 1_000_000;
            d.reader.quiescent();
            assert_ne!(d.turn(lab.now), 0);
        }
    };
    turns(200);
    let before = ALLOCATIONS.get();
    turns(vectors);
    let allocations = ALLOCATIONS.get() - before;
    let (late, sent) = (d.late_frames(), d.counters.transmitted.get());
    assert_eq!(
        (allocations, late),
        (0, 0),
        "(allocations, frames made late)"
    );
    // Whoever still waits for a neighbour is given up, so that nothing is missing.
    lab.harness.set_up(1, false);
    lab.wait(10 * SECOND);
    assert_eq!(lab.held(), 0);
    sent
}

const VECTORS: u64 = 10_000;
const PACKETS: u64 = (VECTORS + 200) * 256;

#[test]
fn the_counter_counts() {
    let before = ALLOCATIONS.get();
    let made = std::hint::black_box(vec![1u8; 100]);
    assert_eq!(ALLOCATIONS.get(), before + 1);
    drop(made);
}

#[test]
fn forwarding_ipv4() {
    let frames = (0..250u16).map(|i| {
        to_router(1)
            .ipv4(host4(1), [10, 11 + (i % 3) as u8, 0, i as u8].into())
            .udp(i, 53)
            .payload_len(18)
            .build()
    });
    assert_eq!(run(Lab::new(), frames.collect(), VECTORS), PACKETS);
}

#[test]
fn forwarding_ipv6() {
    let frames = (1..=3).map(|n| {
        to_router(1)
            .ipv6(host6(1), far6(n))
            .udp(1, 53)
            .payload_len(18)
            .build()
    });
    assert_eq!(run(Lab::new(), frames.collect(), VECTORS), PACKETS);
}

#[test]
fn a_cross_connect_with_sampling() {
    let mut lab = Lab::new();
    lab.cross_connect(1, 2);
    lab.graph.set_feature("sflow", 1, true).unwrap();
    // Nobody takes the samples out: the ring is full after a while, which costs no memory either.
    let settings = SflowSettings {
        if_index: 1,
        rate: 10,
        header_bytes: 128,
    };
    lab.tell("sflow", settings);
    lab.graph.set_feature("sflow-output", 2, true).unwrap();
    let sending = SflowTxSettings {
        sampling: SflowSettings {
            if_index: 2,
            ..settings
        },
        queue: 0,
        bare: false,
    };
    lab.tell("sflow-output", sending);
    let frames = vec![to_router(1).payload_len(50).build()];
    assert_eq!(run(lab, frames, VECTORS), PACKETS);
}

#[test]
fn switching_labels() {
    let lab = Lab::new();
    let next = lab.adj_mpls(2, MTU);
    lab.label(
        16,
        true,
        lab.impose(&[17], Payload::Mpls, TtlMode::Uniform, next),
    );
    let look = Dpo::new(DpoKind::LookupIp4, 0);
    lab.label(17, true, lab.dispose(Payload::Ip4, TtlMode::Pipe, look));
    let push = lab.impose(&[18, 19], Payload::Ip4, TtlMode::Uniform, next);
    lab.route4("10.66.0.0/16", push);
    let to = |dst: [u8; 4]| to_router(1).ipv4(host4(1), dst.into()).udp(1, 2).build();
    let labelled = |label| {
        to_router(1)
            .mpls(label)
            .ipv4(host4(1), far4(3))
            .udp(1, 2)
            .build()
    };
    let frames = vec![labelled(16), labelled(16), labelled(17), to([10, 66, 0, 1])];
    assert_eq!(run(lab, frames, VECTORS), PACKETS);
}

#[test]
fn everything_that_goes_wrong_or_slowly() {
    let lab = Lab::new();
    lab.route4("10.66.0.0/16", lab.adj4(2, host4(2), 576));
    let four = |dst: [u8; 4], ttl| {
        to_router(1)
            .ipv4(host4(1), dst.into())
            .ttl(ttl)
            .udp(1, 2)
            .payload_len(1000)
            .build()
    };
    let mut broken = four([10, 12, 0, 1], 64);
    broken[24] ^= 1;
    let ask = ArpRepr::request(host_mac(1), host4(1), router4(1));
    let frames = vec![
        four([10, 12, 0, 1], 64),
        four([10, 12, 0, 1], 1),
        four([192, 0, 2, 1], 64),
        four([10, 66, 0, 1], 64),
        four([10, 0, 2, 77], 64),
        four([10, 0, 1, 1], 64),
        broken,
        to_router(1)
            .ipv4(host4(1), router4(1))
            .echo_request(1, 1)
            .payload_len(3000)
            .build(),
        to_router(1)
            .ipv6(host6(1), router6(1))
            .echo_request(1, 1)
            .build(),
        to_router(1).ipv6(host6(1), far6(9)).udp(1, 1).build(),
        PacketBuilder::ethernet(host_mac(1), MacAddr::BROADCAST)
            .arp(ask)
            .build(),
        to_router(1).vlan(5).payload_len(50).build(),
        to_router(1).mpls(77).payload_len(50).build(),
    ];
    assert!(run(lab, frames, 2_000) > 100_000);
}
