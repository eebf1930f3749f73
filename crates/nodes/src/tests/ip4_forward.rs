//! `ip4-lookup` and `ip4-rewrite`: where packets go, and how they look when they leave.

use std::collections::{HashMap, HashSet};

use parshall_counters::DropReason;
use parshall_fib::{Dpo, DpoKind};
use parshall_wire::{Ipv4Packet, PacketBuilder, checksum};

use super::lab::*;

fn flow(dst: [u8; 4], port: u16) -> PacketBuilder {
    to_router(1)
        .ipv4(host4(1), dst.into())
        .udp(port, 2000)
        .payload_len(18)
}

#[test]
fn a_packet_gets_a_lower_ttl_a_right_checksum_and_a_new_header() {
    let mut lab = Lab::new();
    let packet = |link: PacketBuilder, ttl| {
        link.ipv4(far4(1), far4(3))
            .ttl(ttl)
            .class(0xB8)
            .ident(0x1234)
            .dont_fragment()
            .udp(1000, 2000)
            .payload_len(100)
            .build()
    };
    for ttl in [2, 3, 64, 128, 255] {
        let (frame, out) = (packet(to_router(1), ttl), packet(from_router(3), ttl - 1));
        lab.expect(1, &frame, 3, &out);
    }
}

#[test]
fn the_checksum_is_right_for_every_ttl_and_ident() {
    let mut lab = Lab::new();
    let packet = |link: PacketBuilder, ttl, ident| {
        link.ipv4(host4(1), host4(2))
            .ttl(ttl)
            .ident(ident)
            .udp(1, 2)
            .build()
    };
    // All values of the checksum's word are passed: among them 0xFEFF, where a carry is easily lost.
    let idents: Vec<u16> = (0..=u16::MAX).collect();
    for some in idents.chunks(1024) {
        let frames: Vec<_> = some.iter().map(|i| packet(to_router(1), 64, *i)).collect();
        let sent = lab.send_all(1, &frames);
        assert_eq!(sent.len(), frames.len());
        for (ident, (_, out)) in some.iter().zip(sent) {
            assert_eq!(out, packet(from_router(2), 63, *ident), "ident {ident}");
            assert_eq!(checksum::checksum(&out[14..34]), 0);
        }
    }
}

#[test]
fn the_longest_prefix_wins() {
    let mut lab = Lab::new();
    lab.route4("10.0.0.0/8", lab.adj4(3, host4(3), MTU));
    lab.route4("10.12.7.0/24", lab.adj4(3, host4(3), MTU));
    for (dst, out) in [
        ([10, 12, 0, 9], 2),
        ([10, 12, 7, 1], 3),
        ([10, 200, 0, 1], 3),
        ([10, 0, 2, 2], 2),
    ] {
        let sent = lab.send(1, &flow(dst, 1).build());
        assert_eq!(sent.iter().map(|s| s.0).collect::<Vec<_>>(), [out]);
    }
}

#[test]
fn one_vector_goes_to_many_neighbours() {
    let mut lab = Lab::new();
    let frames: Vec<_> = (0..200u16)
        .map(|i| flow([10, 11 + (i % 3) as u8, 0, 9], i).build())
        .collect();
    let sent = lab.send_all(1, &frames);
    assert_eq!(sent.len(), 200);
    for n in 1..=3u32 {
        let ports: Vec<u16> = sent
            .iter()
            .filter(|s| s.0 == n)
            .map(|s| u16::from_be_bytes([s.1[34], s.1[35]]))
            .collect();
        let expected: Vec<u16> = (0..200).filter(|i| u32::from(i % 3) + 1 == n).collect();
        assert_eq!(ports, expected, "order on interface {n}");
    }
}

#[test]
fn blackhole_routes_are_silent() {
    let mut lab = Lab::new();
    lab.route4("10.66.0.0/16", Dpo::BLACKHOLE);
    lab.expect_drop(
        1,
        &flow([10, 66, 0, 1], 1).build(),
        DropReason::RouteBlackhole,
    );
}

#[test]
fn a_next_hop_that_is_gone_is_a_silent_drop() {
    let mut lab = Lab::new();
    lab.route4("10.66.0.0/16", Dpo::new(DpoKind::Adjacency, 4000));
    lab.route4("10.67.0.0/16", Dpo::new(DpoKind::MplsImpose, 60));
    lab.route4("10.68.0.0/16", Dpo::new(DpoKind::LookupIp6, 0));
    for net in [66, 67, 68] {
        let frame = flow([10, net, 0, 1], 1).build();
        lab.expect_drop(1, &frame, DropReason::NoAdjacency);
    }
}

#[test]
fn tables_that_point_at_each_other_end_somewhere() {
    let mut lab = Lab::new();
    let other = lab.shared.ip4.create().unwrap();
    lab.route4("10.66.0.0/16", Dpo::new(DpoKind::LookupIp4, other));
    lab.route4_in(other, "10.66.0.0/16", Dpo::new(DpoKind::LookupIp4, 0));
    let frame = flow([10, 66, 0, 1], 1).build();
    lab.expect_drop(1, &frame, DropReason::LookupLoop);
    // One that is gone is no loop.
    lab.route4("10.67.0.0/16", Dpo::new(DpoKind::LoadBalance, 63));
    let frame = flow([10, 67, 0, 1], 1).build();
    lab.expect_drop(1, &frame, DropReason::NoAdjacency);
}

#[test]
fn a_route_may_point_into_another_table() {
    let mut lab = Lab::new();
    let other = lab.shared.ip4.create().unwrap();
    lab.route4("10.66.0.0/16", Dpo::new(DpoKind::LookupIp4, other));
    lab.route4_in(other, "10.66.1.0/24", lab.adj4(3, host4(3), MTU));
    let sent = lab.send(1, &flow([10, 66, 1, 1], 1).build());
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].0, 3);
    // An error about a packet is looked up where its source is: in the table of its interface.
    let frame = flow([10, 66, 2, 1], 1).build();
    let error = error4(1, host4(1), (3, 0, 0), &frame[14..], 1);
    lab.expect(1, &frame, 1, &error);
}

#[test]
fn interfaces_may_have_tables_of_their_own() {
    let mut lab = Lab::new();
    let red = lab.shared.ip4.create().unwrap();
    lab.route4_in(red, "10.12.0.0/16", lab.adj4(3, host4(3), MTU));
    lab.edit(1, |view, _| view.ip4_table = red);
    let frame = flow([10, 12, 0, 9], 1).build();
    assert_eq!(lab.send(1, &frame)[0].0, 3);
    assert_eq!(lab.send(2, &through(2, &frame))[0].0, 2);
    // A vector that mixes both.
    let sent = lab.send_mixed(&[(1, frame.clone()), (2, through(2, &frame)), (1, frame)]);
    let mut out: Vec<_> = sent.iter().map(|s| s.0).collect();
    out.sort_unstable();
    assert_eq!(out, [2, 3, 3]);
    // A table that does not exist has no routes.
    lab.edit(1, |view, _| view.ip4_table = 9);
    let frame = flow([10, 12, 0, 9], 1).build();
    lab.expect_drop_of_error(1, &frame);
}

/// A frame readdressed to interface `n`.
fn through(n: u32, frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    frame[..6].copy_from_slice(&router_mac(n).0);
    frame
}

impl Lab {
    /// No route, and none back either: the packet and the error about it are both dropped.
    #[track_caller]
    fn expect_drop_of_error(&mut self, n: u32, frame: &[u8]) {
        assert!(self.send(n, frame).is_empty());
        assert_eq!(self.harness.drops(DropReason::NoRoute), 2);
    }
}

#[test]
fn equal_paths_share_flows_and_keep_each_together() {
    let mut lab = Lab::new();
    let paths = [
        lab.adj4(2, host4(2), MTU),
        lab.adj4(3, host4(3), MTU),
        lab.adj4(3, far4(3), MTU),
    ];
    let balance = lab.balance(&paths);
    lab.route4("10.66.0.0/16", balance);
    let mut way: HashMap<u16, HashSet<u32>> = HashMap::new();
    let mut count = [0u32; 4];
    for round in 0..3 {
        for ports in (0..3000u16).collect::<Vec<_>>().chunks(500) {
            let frames: Vec<_> = ports
                .iter()
                .map(|p| flow([10, 66, 0, 1], *p).ttl(64 - round).build())
                .collect();
            for (out, bytes) in lab.send_all(1, &frames) {
                let port = u16::from_be_bytes([bytes[34], bytes[35]]);
                way.entry(port).or_default().insert(out);
                count[out as usize] += 1;
            }
        }
    }
    assert!(way.len() == 3000 && way.values().all(|w| w.len() == 1));
    // One third leaves by interface 2: 3,000 of 9,000 expected, in units of flows with a deviation of 26.
    assert!((2700..3300).contains(&count[2]), "{count:?}");
    assert_eq!(count[2] + count[3], 9000);
}

#[test]
fn fragments_of_a_packet_stay_together() {
    let mut lab = Lab::new();
    let balance = lab.balance(&[lab.adj4(2, host4(2), MTU), lab.adj4(3, host4(3), MTU)]);
    lab.route4("10.66.0.0/16", balance);
    for host in 0..50 {
        let piece = |offset, more| {
            to_router(1)
                .ipv4(host4(1), [10, 66, 0, host].into())
                .fragment(offset, more)
                .udp(u16::from(host), offset)
                .payload_len(64)
                .build()
        };
        let sent = lab.send_all(1, &[piece(0, true), piece(72, true), piece(144, false)]);
        assert!(sent.len() == 3 && sent.iter().all(|s| s.0 == sent[0].0));
    }
}

#[test]
fn a_load_balance_may_lead_to_another() {
    let mut lab = Lab::new();
    let inner = lab.balance(&[lab.adj4(2, host4(2), MTU), lab.adj4(3, host4(3), MTU)]);
    let outer = lab.balance(&[inner]);
    lab.route4("10.66.0.0/16", outer);
    let frames: Vec<_> = (0..100).map(|p| flow([10, 66, 0, 1], p).build()).collect();
    let sent = lab.send_all(1, &frames);
    assert_eq!(sent.len(), 100);
    assert!(sent.iter().any(|s| s.0 == 2) && sent.iter().any(|s| s.0 == 3));
}

#[test]
fn packets_the_router_makes_keep_their_ttl() {
    let mut lab = Lab::new();
    let node = lab.graph.node("ip4-lookup").unwrap();
    let packet = |link: PacketBuilder| link.ipv4(router4(1), far4(2)).ttl(1).udp(1, 2).build();
    let d = &mut lab.harness.dispatcher;
    assert!(d.inject(node, &packet(PacketBuilder::bare()), u32::MAX));
    d.run();
    assert_eq!(lab.harness.sent(), [(2, packet(from_router(2)))]);
    lab.harness.conserved().unwrap();
    let out = packet(from_router(2));
    assert!(Ipv4Packet::new_checked(&out[14..]).is_ok());
}
