//! `sflow-output`: samples of what is sent, what they say of a packet's way, and whether the counts are true.

use parshall_counters::IfTotals;
use parshall_sample::{Direction, NO_TRANSIT, SampleSlot};
use parshall_wire::{ArpRepr, MacAddr};

use super::lab::*;
use super::parshall_nodes::{HoldMessage, SflowSettings, SflowTxSettings};

fn sampling(lab: &mut Lab, n: u32, rate: u32) {
    lab.graph.set_feature("sflow-output", n, rate != 0).unwrap();
    tell(lab, n, rate);
}

fn tell(lab: &mut Lab, n: u32, rate: u32) {
    let settings = SflowTxSettings {
        sampling: SflowSettings {
            if_index: n,
            rate,
            header_bytes: 64,
        },
        queue: 5,
        bare: false,
    };
    lab.tell("sflow-output", settings);
}

fn totals(lab: &Lab, n: usize) -> IfTotals {
    let mut sum = IfTotals::default();
    lab.harness.dispatcher.counters.interfaces[n].add_to(&mut sum);
    sum
}

fn samples(lab: &mut Lab) -> Vec<SampleSlot> {
    std::iter::from_fn(|| lab.out.tx_samples.read(|s| *s)).collect()
}

/// Turns the worker until every queue is empty.
fn drain(lab: &mut Lab) {
    while lab.harness.dispatcher.turn(lab.now) != 0 {}
    lab.harness.conserved().unwrap();
}

/// A packet from the host on interface `from` to the network behind interface `to`.
fn routed(from: u32, to: u32) -> Vec<u8> {
    let b = to_router(from).ipv4(host4(from), far4(to));
    b.udp(1, 2).payload_len(100).build()
}

#[test]
fn a_sample_says_what_leaves_and_where_it_came_in() {
    let mut lab = Lab::new();
    sampling(&mut lab, 3, 1);
    let frame = routed(2, 3);
    lab.receive(2, &frame, 1);
    let sent = lab.wait(7);
    let taken = samples(&mut lab);
    assert_eq!((sent.len(), taken.len()), (1, 1));
    let s = taken[0];
    assert_eq!((s.rx_if, s.tx_if, s.rate), (2, 3, 1));
    assert_eq!((s.direction, s.queue), (Direction::Tx, 5));
    assert_eq!((s.frame_len, s.header_len), (142, 64));
    // As it left: with the new link-layer header and the smaller TTL.
    assert_eq!(s.header[..64], sent[0].1[..64]);
    assert_ne!(s.header[..64], frame[..64]);
    assert!(s.transit_ns < NO_TRANSIT);
    assert_eq!(s.time, lab.now + u64::from(s.transit_ns));
}

#[test]
fn what_the_router_makes_itself_came_in_nowhere() {
    let mut lab = Lab::new();
    sampling(&mut lab, 1, 1);
    let ping = to_router(1)
        .ipv4(host4(1), router4(1))
        .protocol(parshall_wire::IpProtocol::ICMP)
        .payload(&icmp4(8, 0, 1, b"hello"))
        .build();
    let arp = ArpRepr::request(host_mac(1), host4(1), router4(1));
    let arp = parshall_wire::PacketBuilder::ethernet(host_mac(1), MacAddr::BROADCAST).arp(arp);
    let expired = to_router(1)
        .ipv4(host4(1), far4(2))
        .ttl(1)
        .udp(1, 2)
        .build();
    assert_eq!(lab.send_all(1, &[ping, arp.build(), expired]).len(), 3);
    let taken = samples(&mut lab);
    assert_eq!(taken.len(), 3);
    for s in taken {
        assert_eq!((s.rx_if, s.tx_if), (u32::MAX, 1));
        assert_eq!(s.transit_ns, NO_TRANSIT);
    }
    // They were not received, so they are in the pool of one direction only.
    let t = totals(&lab, 1);
    assert_eq!((t.tx_sample_pool, t.sample_pool), (3, 0));
}

#[test]
fn only_interfaces_where_it_is_on_have_a_pool() {
    let mut lab = Lab::new();
    sampling(&mut lab, 3, 1);
    lab.receive(1, &routed(1, 2), 300);
    lab.receive(2, &routed(2, 3), 500);
    drain(&mut lab);
    let pool = |lab: &Lab, n| totals(lab, n).tx_sample_pool;
    assert_eq!([1, 2, 3].map(|n| pool(&lab, n)), [0, 0, 500]);
    assert!(
        samples(&mut lab)
            .iter()
            .all(|s| (s.rx_if, s.tx_if) == (2, 3))
    );
    sampling(&mut lab, 3, 0);
    lab.receive(2, &routed(2, 3), 100);
    drain(&mut lab);
    assert_eq!((pool(&lab, 3), totals(&lab, 3).tx_samples), (500, 500));
}

#[test]
fn a_frame_for_several_interfaces_is_counted_at_each() {
    let mut lab = Lab::new();
    for n in [2, 3] {
        sampling(&mut lab, n, 1);
    }
    let frames: Vec<_> = (0..200)
        .map(|i| (1, routed(1, if i % 3 == 0 { 2 } else { 3 })))
        .collect();
    assert_eq!(lab.send_mixed(&frames).len(), 200);
    let t = [2, 3].map(|n| totals(&lab, n).tx_sample_pool);
    assert_eq!(t, [67, 133]);
    let taken = samples(&mut lab);
    assert_eq!(taken.iter().filter(|s| s.tx_if == 2).count(), 67);
    assert_eq!(taken.iter().filter(|s| s.tx_if == 3).count(), 133);
}

#[test]
fn a_frame_for_one_interface_does_not_stop_unless_it_is_traced() {
    let mut lab = Lab::new();
    sampling(&mut lab, 2, 1 << 30);
    let node = usize::from(lab.graph.node("sflow-output").unwrap());
    lab.receive(1, &routed(1, 2), 512);
    drain(&mut lab);
    let clocks = |lab: &Lab| {
        let c = &lab.harness.dispatcher.counters.nodes[node];
        (c.calls.get(), c.vectors.get(), c.clocks.get() != 0)
    };
    // The first is shown to it, the other need not be.
    assert_eq!(clocks(&lab), (1, 256, false));
    assert_eq!(totals(&lab, 2).tx_sample_pool, 512);
    let input = lab.graph.node("pg-input").unwrap();
    lab.harness.dispatcher.trace(input, 1);
    lab.receive(1, &routed(1, 2), 10);
    drain(&mut lab);
    assert_eq!(clocks(&lab), (2, 266, true));
    let stops = std::iter::from_fn(|| lab.harness.trace.pop());
    assert!(stops.into_iter().any(|r| usize::from(r.node) == node));
    assert_eq!(totals(&lab, 2).tx_sample_pool, 522);
}

/// Source ports of those of 6,000 packets for interface 2 that are sampled at 1 in 20. Every so many of them one for
/// another interface goes between, and one is traced.
fn sampled_ports(other: u16, traced: u16) -> (Vec<u16>, u64) {
    let mut lab = Lab::new();
    sampling(&mut lab, 2, 20);
    let input = lab.graph.node("ethernet-input").unwrap();
    let packet = |to, port| to_router(1).ipv4(host4(1), far4(to)).udp(port, 2).build();
    for batch in 0..60u16 {
        let mut frames = Vec::new();
        for port in batch * 100..(batch + 1) * 100 {
            frames.push((1, packet(2, port)));
            if other != 0 && port % other == 0 {
                frames.push((1, packet(3, port)));
            }
        }
        if traced != 0 && batch % traced == 0 {
            lab.harness.dispatcher.trace(input, 5);
        }
        lab.send_mixed(&frames);
    }
    drain(&mut lab);
    let port = |s: &SampleSlot| u16::from_be_bytes([s.header[34], s.header[35]]);
    let ports = samples(&mut lab).iter().map(port).collect();
    (ports, totals(&lab, 2).tx_sample_pool)
}

#[test]
fn it_does_not_matter_for_the_samples_how_packets_go_by() {
    let (ports, pool) = sampled_ports(0, 0);
    assert_eq!(pool, 6000);
    assert!((200..400).contains(&ports.len()), "{}", ports.len());
    for (other, traced) in [(3, 0), (150, 0), (0, 3), (7, 2), (101, 5)] {
        let same = sampled_ports(other, traced);
        assert_eq!(same, (ports.clone(), pool), "{other} {traced}");
    }
}

#[test]
fn a_full_ring_is_counted_and_disturbs_nothing() {
    let mut lab = Lab::new();
    sampling(&mut lab, 2, 1);
    lab.receive(1, &routed(1, 2), 20_000);
    drain(&mut lab);
    let t = totals(&lab, 2);
    assert_eq!((t.tx_packets, t.tx_sample_pool), (20_000, 20_000));
    assert_eq!(t.tx_samples + t.tx_sample_drops, 20_000);
    assert!(t.tx_sample_drops > 0);
    assert_eq!(samples(&mut lab).len() as u64, t.tx_samples);
}

#[test]
fn a_packet_that_waited_for_its_neighbor_says_how_long() {
    const WAITED: u64 = 40_000_000;
    let mut lab = Lab::new();
    sampling(&mut lab, 2, 1);
    let frame = to_router(1).ipv4(host4(1), [10, 0, 2, 50].into());
    lab.receive(1, &frame.udp(1, 2).build(), 1);
    assert!(lab.wait(1).is_empty());
    lab.route4("10.0.2.50/32", lab.adj4(2, host4(2), MTU));
    lab.now += WAITED;
    let resolved = HoldMessage::Resolved {
        if_index: 2,
        ip: [10u8, 0, 2, 50],
    };
    assert_eq!(lab.tell("ip4-arp", resolved).len(), 1);
    let s = samples(&mut lab)[0];
    assert_eq!((s.rx_if, s.tx_if), (1, 2));
    assert!(u64::from(s.transit_ns) >= WAITED, "{}", s.transit_ns);
}

#[test]
fn counts_hold_over_changes_while_packets_flow() {
    let mut lab = Lab::new();
    sampling(&mut lab, 2, 4);
    lab.receive(1, &routed(1, 2), 15_000);
    // Rates change between turns; each sample has the one that it was taken at.
    let mut estimate = 0u64;
    for rate in [4u32, 2, 16, 1, 8].into_iter().cycle().take(60) {
        tell(&mut lab, 2, rate);
        lab.harness.dispatcher.turn(lab.now);
        for s in samples(&mut lab) {
            assert_eq!(s.rate, rate);
            estimate += u64::from(rate);
        }
    }
    drain(&mut lab);
    assert!(samples(&mut lab).is_empty(), "all were sent in 60 turns");
    let t = totals(&lab, 2);
    assert_eq!((t.tx_packets, t.tx_sample_pool), (15_000, 15_000));
    // Variance of a sum of 1-in-N estimates over n packets each: n (N - 1); 3,000 packets at each rate.
    let deviation = (15_000f64 / 5.0 * f64::from(3 + 1 + 15 + 7)).sqrt();
    assert!(
        (estimate as f64 - 15_000.0).abs() < 4.0 * deviation,
        "{estimate}"
    );
    // Down: what is sampled then is not sent. Off and on again: the pool stands still meanwhile.
    lab.harness.set_up(2, false);
    lab.receive(1, &routed(1, 2), 10);
    drain(&mut lab);
    lab.harness.set_up(2, true);
    let down = totals(&lab, 2);
    assert_eq!((down.tx_packets, down.tx_sample_pool), (15_000, 15_010));
    sampling(&mut lab, 2, 0);
    lab.receive(1, &routed(1, 2), 100);
    drain(&mut lab);
    sampling(&mut lab, 2, 1);
    lab.receive(1, &routed(1, 2), 5);
    drain(&mut lab);
    assert_eq!(totals(&lab, 2).tx_sample_pool, 15_015);
}

#[test]
fn settings_of_an_interface_that_cannot_exist_are_ignored() {
    let mut lab = Lab::new();
    tell(&mut lab, 77, 1);
    lab.receive(1, &routed(1, 2), 10);
    drain(&mut lab);
    assert!(samples(&mut lab).is_empty());
}

#[test]
fn an_estimate_lies_in_its_bound_in_95_of_100_runs_for_every_interface() {
    const RATES: [u32; 3] = [5, 20, 100];
    const PACKETS: u64 = 10_000;
    let mut inside = [0; 3];
    for seed in 1..=100 {
        let mut lab = Lab::seeded(seed);
        for (n, rate) in (1..).zip(RATES) {
            sampling(&mut lab, n, rate);
            lab.receive(n % 3 + 1, &routed(n % 3 + 1, n), PACKETS);
        }
        drain(&mut lab);
        for (i, rate) in RATES.into_iter().enumerate() {
            let t = totals(&lab, i + 1);
            assert_eq!((t.tx_packets, t.tx_sample_pool), (PACKETS, PACKETS));
            assert_eq!(t.tx_sample_drops, 0);
            let estimate = (t.tx_samples * u64::from(rate)) as f64;
            let error = (estimate - PACKETS as f64).abs() / PACKETS as f64;
            inside[i] += u32::from(error <= 1.96 * (1.0 / t.tx_samples as f64).sqrt());
        }
    }
    // 95 expected, more at small N, where the bound is generous; 3 standard deviations below.
    assert!(inside.iter().all(|n| *n >= 89), "{inside:?}");
}
