//! Running out of things a worker has a limited number of: packet buffers, transmit slots, ring slots,
//! places for packets that wait, forwarding objects.
//!
//! Every test has the same three parts. Something is used up, and what is refused then is counted exactly,
//! with its reason, at its place. Nothing else breaks meanwhile. Once there is room again everything works
//! as before, and every buffer is back in the pool.

extern crate parshall_nodes;

#[path = "../src/tests/lab.rs"]
mod lab;

use std::sync::{Arc, Mutex};

use lab::*;
use parshall_buffer::{BufferIndex, Frame, Pool};
use parshall_counters::DropReason;
use parshall_device::{RxBurst, RxQueue, TxBurst, TxQueue};
use parshall_fib::{Adjacency, Dpo, DpoKind, LinkType, LoadBalance, Path, Payload, TtlMode};
use parshall_nodes::SflowSettings;
use parshall_wire::{ArpRepr, MacAddr, PacketBuilder};

/// A device with a ring of `room` descriptors that keeps packets until it is told that they are sent.
#[derive(Default)]
struct Ring {
    room: usize,
    /// Buffers of packets that are not yet sent.
    inside: Vec<BufferIndex>,
    /// The next `flush` completes all.
    complete: bool,
    sent: usize,
}

#[derive(Clone, Default)]
struct SlowTx(Arc<Mutex<Ring>>);

impl SlowTx {
    fn with_room(room: usize) -> SlowTx {
        let tx = SlowTx::default();
        tx.0.lock().unwrap().room = room;
        tx
    }
    fn sent(&self) -> usize {
        self.0.lock().unwrap().sent
    }
}

impl TxQueue for SlowTx {
    fn transmit(&mut self, pool: &mut Pool, packets: &[BufferIndex], _now: u64) -> TxBurst {
        self.flush(pool);
        let mut ring = self.0.lock().unwrap();
        let taken = packets.len().min(ring.room - ring.inside.len());
        ring.inside.extend_from_slice(&packets[..taken]);
        TxBurst { taken, errors: 0 }
    }
    fn flush(&mut self, pool: &mut Pool) {
        let mut ring = self.0.lock().unwrap();
        if ring.complete {
            ring.sent += ring.inside.len();
            pool.free_bulk(&ring.inside);
            ring.inside.clear();
        }
    }
    fn close(&mut self, pool: &mut Pool) {
        self.0.lock().unwrap().complete = true;
        self.flush(pool);
    }
}

/// A device that has `waiting` copies of a frame, and throws a packet away that finds no buffer, as
/// drivers do.
struct Arriving {
    frame: Vec<u8>,
    waiting: Arc<Mutex<usize>>,
}

impl RxQueue for Arriving {
    fn poll(&mut self, pool: &mut Pool, frame: &mut Frame, _now: u64) -> RxBurst {
        let mut burst = RxBurst::default();
        let mut waiting = self.waiting.lock().unwrap();
        while *waiting > 0 && frame.room() != 0 {
            *waiting -= 1;
            match pool.packet_from(&self.frame, 1) {
                Some(b) => {
                    frame.push(b);
                    burst.bytes += self.frame.len() as u64;
                }
                None => burst.no_buffer += 1,
            }
        }
        burst
    }
}

fn udp4(dst: [u8; 4], ttl: u8, len: usize) -> Vec<u8> {
    let p = to_router(1).ipv4(host4(1), dst.into()).ttl(ttl);
    p.udp(1, 2).payload_len(len).build()
}

/// The object that the way to `addr` has.
fn route_of(lab: &Lab, addr: std::net::Ipv4Addr) -> Dpo {
    let table = lab.shared.ip4.control(0).unwrap();
    table.longest_match(addr.into()).unwrap().1
}

/// All buffers are free, none is held, and packets add up.
#[track_caller]
fn all_back(lab: &Lab) {
    let d = &lab.harness.dispatcher;
    assert_eq!(lab.held(), 0);
    assert_eq!(d.pool.available(), d.pool.capacity());
    assert_eq!(d.late_frames(), 0);
    lab.harness.conserved().unwrap();
}

/// The worker holds nothing any more of what it saw, and control takes back what was removed.
fn move_on(lab: &mut Lab) {
    for _ in 0..2 {
        lab.harness.dispatcher.reader.quiescent();
        lab.shared.domain.reclaim();
    }
    lab.shared.load_balances.sweep();
    lab.shared.impositions.sweep();
}

/// Ordinary packets of both families go through.
#[track_caller]
fn works(lab: &mut Lab) {
    lab.harness.add_interface(2, u32::from(MTU) + 14);
    let four = udp4([10, 12, 0, 9], 64, 10);
    let six = to_router(1)
        .ipv6(host6(1), far6(2))
        .udp(1, 2)
        .payload_len(10)
        .build();
    assert_eq!(lab.send_all(1, &[four, six]).len(), 2);
}

/// Packets to give up by the loops below: as many as there are buffers and some more.
const MANY: usize = BUFFERS + 300;

#[test]
fn packet_buffers() {
    let mut lab = Lab::new();
    let tx = SlowTx::with_room(usize::MAX);
    lab.harness.set_tx(2, Box::new(tx.clone()), 1514);
    let waiting = Arc::new(Mutex::new(MANY));
    let source = Arriving {
        frame: udp4([10, 12, 0, 9], 64, 10),
        waiting: waiting.clone(),
    };
    lab.harness.set_rx("pg-input", 1, Box::new(source));
    let d = &mut lab.harness.dispatcher;
    while *waiting.lock().unwrap() > 0 {
        d.turn(lab.now);
    }
    // The device has all buffers; what came then found none, which the receive queue counted.
    assert_eq!((d.pool.available(), tx.sent()), (0, 0));
    let c = d.counters.interface(1).unwrap();
    assert_eq!(c.rx_no_buffer.get(), 300);
    assert_eq!(c.rx_packets.get(), BUFFERS as u64);
    // What the router wants to send itself is dropped with the reason.
    let before = d.counters.dropped.get();
    let output = d.graph().node("interface-output").unwrap();
    assert!(!d.inject(output, &[0; 60], 2));
    assert_eq!(d.counters.dropped.get() - before, 1);
    assert_eq!(lab.harness.drops(DropReason::NoBufferSpace), 1);
    // The device finishes: everything goes on as before.
    tx.0.lock().unwrap().complete = true;
    *waiting.lock().unwrap() = MANY;
    let d = &mut lab.harness.dispatcher;
    while *waiting.lock().unwrap() > 0 {
        d.turn(lab.now);
    }
    assert_eq!(d.counters.interface(1).unwrap().rx_no_buffer.get(), 300);
    lab.harness.dispatcher.close();
    assert_eq!(tx.sent(), BUFFERS + MANY);
    works(&mut lab);
    all_back(&lab);
}

/// Fragments, errors and answers need buffers of their own: they are dropped, and counted, without.
#[test]
fn packet_buffers_for_what_the_router_makes_itself() {
    let mut lab = Lab::new();
    lab.route4("10.66.0.0/16", lab.adj4(2, host4(2), 576));
    let cases = [
        ("fragments", udp4([10, 66, 0, 1], 64, 1400), 3),
        ("an ICMP error", udp4([10, 12, 0, 9], 1, 1400), 1),
    ];
    for (what, frame, answers) in cases {
        // Leave one buffer: for the packet itself.
        let d = &mut lab.harness.dispatcher;
        let mut taken = vec![BufferIndex::default(); BUFFERS - 1];
        assert_eq!(d.pool.alloc_bulk(&mut taken), BUFFERS - 1);
        let (drops, sent) = {
            let before = lab.dropped();
            lab.harness
                .put("ethernet-input", 1, std::slice::from_ref(&frame), lab.now);
            (lab.dropped() - before, lab.harness.sent().len())
        };
        lab.harness.dispatcher.pool.free_unchained(&taken);
        lab.harness.conserved().unwrap();
        // The packet ends here either way: dropped for want of buffers, or turned into its own answer.
        assert!(
            drops == 1 || sent == 1,
            "{what}: {drops} drops, {sent} sent"
        );
        assert_eq!(lab.send(1, &frame).len(), answers, "{what}");
    }
    assert!(lab.harness.drops(DropReason::NoBufferSpace) >= 1);
    works(&mut lab);
    all_back(&lab);
}

#[test]
fn a_transmit_ring() {
    let mut lab = Lab::new();
    let tx = SlowTx::with_room(100);
    lab.harness.set_tx(2, Box::new(tx.clone()), 1514);
    let frames = vec![udp4([10, 12, 0, 9], 64, 10); 256];
    lab.harness.put("ethernet-input", 1, &frames, lab.now);
    assert_eq!(lab.harness.drops(DropReason::TxQueueFull), 156);
    let c = lab.harness.dispatcher.counters.clone();
    let port = c.interface(2).unwrap();
    assert_eq!((port.tx_packets.get(), port.tx_drops.get()), (100, 156));
    // Other interfaces do not suffer.
    assert_eq!(
        {
            lab.harness.put(
                "ethernet-input",
                1,
                &[udp4([10, 13, 0, 9], 64, 10)],
                lab.now,
            );
            lab.harness.sent().len()
        },
        1
    );
    tx.0.lock().unwrap().complete = true;
    lab.harness
        .put("ethernet-input", 1, &frames[..100], lab.now);
    assert_eq!(lab.harness.drops(DropReason::TxQueueFull), 156);
    lab.harness.dispatcher.close();
    assert_eq!(tx.sent(), 200);
    works(&mut lab);
    all_back(&lab);
}

#[test]
fn the_sample_ring() {
    let mut lab = Lab::new();
    lab.graph.set_feature("sflow", 1, true).unwrap();
    let settings = |rate| SflowSettings {
        if_index: 1,
        rate,
        header_bytes: 128,
    };
    lab.tell("sflow", settings(1));
    let frame = udp4([10, 12, 0, 9], 64, 10);
    let mut total = 0;
    let count = |lab: &Lab| {
        let c = lab.harness.dispatcher.counters.interface(1).unwrap();
        (c.samples.get(), c.sample_drops.get(), c.sample_pool.get())
    };
    while count(&lab).1 < 1000 {
        lab.receive(1, &frame, 5000);
        while lab.wait(1).len() == 256 {}
        total += 5000;
    }
    // Everything was forwarded; every packet was either sampled or counted as a lost sample.
    let (samples, lost, pool) = count(&lab);
    assert_eq!((samples + lost, pool), (total, total));
    assert_eq!(lab.harness.drops(DropReason::NoBufferSpace), 0);
    assert_eq!(lab.out.samples.overflows(), lost);
    let drained = std::iter::from_fn(|| lab.out.samples.read(|s| s.frame_len)).count() as u64;
    assert_eq!(drained, samples);
    // There is room again.
    lab.receive(1, &frame, 10);
    lab.wait(1);
    assert_eq!(count(&lab), (samples + 10, lost, total + 10));
    assert_eq!(lab.out.samples.len(), 10);
    works(&mut lab);
    all_back(&lab);
}

#[test]
fn the_trace_ring() {
    let mut lab = Lab::new();
    let input = lab.graph.node("pg-input").unwrap();
    lab.harness.dispatcher.trace(input, u32::MAX);
    let frame = udp4([10, 12, 0, 9], 64, 10);
    let mut sent = 0;
    while lab.harness.trace.overflows() < 1000 {
        lab.receive(1, &frame, 256);
        sent += lab.wait(1).len();
    }
    assert_eq!(sent as u64, lab.harness.dispatcher.counters.received.get());
    let lost = lab.harness.trace.overflows();
    assert!(std::iter::from_fn(|| lab.harness.trace.pop()).count() > 0);
    lab.receive(1, &frame, 1);
    assert_eq!(lab.wait(1).len(), 1);
    assert_eq!(lab.harness.trace.overflows(), lost);
    // One packet, recorded whole: from where it came in to where it went out.
    let nodes: Vec<_> = std::iter::from_fn(|| lab.harness.trace.pop())
        .map(|r| lab.graph.spec(r.node).map_or("", |s| s.name))
        .collect();
    assert_eq!(nodes.first().copied(), Some("pg-input"));
    assert!(nodes.contains(&"ip4-lookup") && nodes.contains(&"ip4-rewrite"));
    lab.harness.dispatcher.trace(input, 0);
    works(&mut lab);
    all_back(&lab);
}

#[test]
fn the_capture_ring() {
    let mut lab = Lab::new();
    lab.graph.set_feature("pcap-rx", 1, true).unwrap();
    let frames = vec![udp4([10, 12, 0, 9], 64, 10); 1000];
    assert_eq!(lab.send_all(1, &frames[..256]).len(), 256);
    for part in frames[256..].chunks(256) {
        lab.receive(1, &part[0], part.len() as u64);
        assert_eq!(lab.wait(1).len(), part.len());
    }
    let ring = |lab: &mut Lab| {
        let rings = lab.out.captures.iter_mut();
        rings.map(|r| (r.len(), r.overflows())).max().unwrap()
    };
    // What was put to `ethernet-input` itself did not pass the arc.
    let (kept, lost) = ring(&mut lab);
    assert_eq!(kept as u64 + lost, 1000 - 256);
    assert!(lost > 0);
    for r in &mut lab.out.captures {
        while r.pop().is_some() {}
    }
    lab.receive(1, &frames[0], 3);
    lab.wait(1);
    assert_eq!(ring(&mut lab), (3, lost));
    lab.graph.set_feature("pcap-rx", 1, false).unwrap();
    works(&mut lab);
    all_back(&lab);
}

#[test]
fn the_event_ring() {
    let mut lab = Lab::new();
    let ask = |n: u8| {
        let arp = ArpRepr::request(
            MacAddr([2, 9, 9, 9, 9, n]),
            [10, 0, 1, 100].into(),
            router4(1),
        );
        PacketBuilder::ethernet(MacAddr([2, 9, 9, 9, 9, n]), MacAddr::BROADCAST)
            .arp(arp)
            .build()
    };
    let overflows = |lab: &Lab| lab.out.events.iter().map(|r| r.overflows()).sum::<u64>();
    let mut asked = 0;
    while overflows(&lab) < 500 {
        // Every one is answered, whether control hears of it or not.
        assert_eq!(lab.send_all(1, &vec![ask(asked as u8); 256]).len(), 256);
        asked += 256;
    }
    let lost = overflows(&lab);
    assert_eq!(lab.events().len() as u64 + lost, asked);
    lab.send(1, &ask(1));
    assert_eq!((lab.events().len(), overflows(&lab)), (1, lost));
    works(&mut lab);
    all_back(&lab);
}

#[test]
fn places_for_packets_that_wait_for_a_neighbour() {
    let mut lab = Lab::new();
    // One neighbour: eight wait, the others are refused.
    let same = vec![udp4([10, 0, 2, 200], 64, 10); 20];
    assert!(lab.send_all(1, &same).is_empty());
    assert_eq!(lab.held(), 8);
    assert_eq!(lab.harness.drops(DropReason::NeighborQueueFull), 12);
    // Too many neighbours at once.
    lab.route4("172.16.0.0/12", Dpo::new(DpoKind::Glean, 2));
    let many: Vec<_> = (0..600u32)
        .map(|i| udp4((0xAC10_0000 + i).to_be_bytes(), 64, 10))
        .collect();
    for part in many.chunks(200) {
        lab.send_all(1, part);
    }
    let refused = lab.harness.drops(DropReason::NeighborQueueFull);
    assert_eq!(lab.held() + refused, 620);
    assert!(refused > 12);
    // Known neighbours are reached all the while.
    assert_eq!(lab.send(1, &udp4([10, 0, 2, 2], 64, 10)).len(), 1);
    // Nobody answers: given up, and there is room again.
    lab.harness.set_up(1, true);
    for _ in 0..4 {
        lab.wait(10 * SECOND);
    }
    assert_eq!(lab.held(), 0);
    lab.send(1, &udp4([10, 0, 2, 200], 64, 10));
    assert_eq!(lab.held(), 1);
    lab.wait(10 * SECOND);
    works(&mut lab);
    all_back(&lab);
}

/// Packets that wait must not take the buffers that the others need.
#[test]
fn packets_that_wait_leave_buffers_to_the_others() {
    let mut lab = Lab::new();
    lab.route4("172.16.0.0/12", Dpo::new(DpoKind::Glean, 2));
    for i in 0..300u32 {
        let frame = udp4((0xAC10_0000 + i).to_be_bytes(), 64, 10);
        lab.send_all(1, &vec![frame; 8]);
    }
    assert!(lab.held() > 0);
    // A full vector passes in one turn.
    lab.receive(1, &udp4([10, 12, 0, 9], 64, 10), 256);
    assert_eq!(lab.wait(1).len(), 256);
    lab.harness.set_up(1, true);
    for _ in 0..4 {
        lab.wait(10 * SECOND);
    }
    works(&mut lab);
    all_back(&lab);
}

#[test]
fn forwarding_objects() {
    let mut lab = Lab::new();
    let slabs = lab.shared.clone();
    let adj = |i: u32| Adjacency::incomplete_ip4(2, LinkType::Ip4, MTU, i.into());
    let mut made = Vec::new();
    let full = loop {
        match slabs.adjacencies.insert(adj(made.len() as u32)) {
            Ok(i) => made.push(i),
            Err(full) => break full,
        }
    };
    assert_eq!(full.to_string(), "table full: the limit is 4096 entries");
    let (hop, mut balances) = (route_of(&lab, far4(2)), Vec::new());
    let paths = [Path {
        dpo: hop,
        weight: 1,
    }; 2];
    let balance = || LoadBalance::new(&paths).unwrap();
    let full = loop {
        match slabs.load_balances.insert(balance()) {
            Ok(i) => balances.push(i),
            Err(full) => break full,
        }
    };
    assert_eq!(full.to_string(), "table full: the limit is 64 entries");
    assert_eq!(balances.len(), 64);
    // What is there is used and replaced as ever.
    works(&mut lab);
    lab.route4("10.70.0.0/16", Dpo::new(DpoKind::LoadBalance, balances[0]));
    let through = udp4([10, 70, 0, 1], 64, 10);
    assert_eq!(lab.send(1, &through).len(), 1);
    slabs.load_balances.replace(balances[0], balance()).unwrap();
    assert_eq!(lab.send(1, &through).len(), 1);
    // One that is gone while a route still leads there: counted, not a crash.
    slabs.load_balances.remove(balances[0]).unwrap();
    assert_eq!(
        lab.send(1, &through).len(),
        1,
        "packets may be on their way there"
    );
    move_on(&mut lab);
    lab.expect_drop(1, &through, DropReason::NoAdjacency);
    // Freed ones can be had again as soon as the worker has moved on.
    slabs.adjacencies.remove(made[0]).unwrap();
    assert!(slabs.adjacencies.insert(adj(1)).is_err());
    move_on(&mut lab);
    assert_eq!(slabs.adjacencies.insert(adj(1)), Ok(made[0]));
    let again = slabs.load_balances.insert(balance()).unwrap();
    lab.route4("10.70.0.0/16", Dpo::new(DpoKind::LoadBalance, again));
    assert_eq!(lab.send(1, &through).len(), 1);
    works(&mut lab);
    all_back(&lab);
}

#[test]
fn table_memory() {
    let mut lab = Lab::new();
    let hop = route_of(&lab, far4(2));
    let table = lab.shared.ip4.control(0).unwrap();
    // As long as it can be, every route in nodes of its own.
    let prefix = |i: u32| {
        let (net, host) = (i % 0x8000, i / 0x8000);
        parshall_fib::Ip4Prefix::masked((0x2000_0000 + (net << 16)) | (host * 0x101 + 1), 32)
    };
    let mut n = 0;
    let full = loop {
        match table.insert(prefix(n), hop) {
            Ok(_) => n += 1,
            Err(full) => break full.to_string(),
        }
    };
    assert!(full.contains("full: the limit is 4194304 bytes"), "{full}");
    // The refused route is not there, the others are, and packets flow.
    assert_eq!(table.get(prefix(n)), None);
    let to = |p: parshall_fib::Ip4Prefix| udp4(p.addr().to_be_bytes(), 64, 10);
    assert_eq!(lab.send(1, &to(prefix(n - 1))).len(), 1);
    let sent = lab.send(1, &to(prefix(n)));
    assert!(
        sent.len() == 1 && sent[0].0 == 1,
        "destination unreachable, to the sender"
    );
    works(&mut lab);
    // Routes can be taken out of a full table, and then others put in.
    for i in 0..n {
        table.remove(prefix(i)).unwrap();
        if i % 512 == 0 {
            lab.harness.dispatcher.reader.quiescent();
            lab.shared.ip4.reclaim();
        }
    }
    for _ in 0..2 {
        lab.harness.dispatcher.reader.quiescent();
        lab.shared.ip4.reclaim();
    }
    for i in 0..n {
        table.insert(prefix(i), hop).unwrap();
    }
    assert_eq!(lab.send(1, &to(prefix(n - 1))).len(), 1);
    works(&mut lab);
    all_back(&lab);
}

#[test]
fn label_stacks() {
    let mut lab = Lab::new();
    let next = lab.adj_mpls(2, MTU);
    let slabs = lab.shared.clone();
    let make = || parshall_fib::Imposition::new(&[17], Payload::Ip4, TtlMode::Pipe, 255, 0, next);
    let mut made = Vec::new();
    let full = loop {
        match slabs.impositions.insert(make().unwrap()) {
            Ok(i) => made.push(i),
            Err(full) => break full,
        }
    };
    assert_eq!(full.to_string(), "table full: the limit is 64 entries");
    lab.route4("10.71.0.0/16", Dpo::new(DpoKind::MplsImpose, made[0]));
    let through = udp4([10, 71, 0, 1], 64, 10);
    assert_eq!(lab.send(1, &through).len(), 1);
    slabs.impositions.remove(made[0]).unwrap();
    move_on(&mut lab);
    let before = lab.dropped();
    assert!(lab.send(1, &through).is_empty());
    assert_eq!(lab.dropped() - before, 1);
    works(&mut lab);
    all_back(&lab);
}
