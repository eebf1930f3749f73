//! `arp-input`, and `ip4-arp` with its hold queue: neighbours heard, asked for and waited for.

use std::net::Ipv4Addr;

use parshall_counters::DropReason;
use parshall_fib::LinkType;
use parshall_wire::{ArpOperation, ArpPacket, ArpRepr, MacAddr, PacketBuilder};

use super::lab::*;
use super::parshall_nodes::{Event, HoldMessage, if_flags};

fn request(target: Ipv4Addr) -> ArpRepr {
    ArpRepr::request(host_mac(1), host4(1), target)
}

fn broadcast(arp: ArpRepr) -> Vec<u8> {
    let mut frame = PacketBuilder::ethernet(host_mac(1), MacAddr::BROADCAST)
        .arp(arp)
        .build();
    frame.resize(60, 0);
    frame
}

fn seen(ip: Ipv4Addr, reply: bool) -> Event {
    Event::ArpSeen {
        if_index: 1,
        ip: ip.octets(),
        mac: host_mac(1).0,
        reply,
    }
}

#[test]
fn a_request_for_an_own_address_is_answered_and_its_sender_learned() {
    let mut lab = Lab::new();
    let answer = from_router(1)
        .arp(ArpRepr {
            operation: ArpOperation::Reply,
            sender_mac: router_mac(1),
            sender_ip: router4(1),
            target_mac: host_mac(1),
            target_ip: host4(1),
        })
        .build();
    lab.expect(1, &broadcast(request(router4(1))), 1, &answer);
    assert_eq!(lab.events(), [seen(host4(1), false)]);
    // A request to the router alone: a neighbour checks that it is still there.
    let unicast = to_router(1).arp(request(router4(1))).build();
    lab.expect(1, &unicast, 1, &answer);
    let c = &lab.harness.dispatcher.counters;
    assert_eq!((c.punted.get(), c.originated.get()), (2, 2));
    assert_eq!(c.interfaces[1].punts.get(), 2);
}

#[test]
fn a_probe_is_answered_and_nothing_learned() {
    // RFC 5227 section 2.1.1: the sender has no address yet.
    let mut lab = Lab::new();
    let probe = ArpRepr::request(host_mac(1), Ipv4Addr::UNSPECIFIED, router4(1));
    let answer = from_router(1).arp(probe.reply_from(router_mac(1))).build();
    lab.expect(1, &broadcast(probe), 1, &answer);
    assert_eq!(lab.events(), []);
}

#[test]
fn requests_for_others_are_dropped() {
    let mut lab = Lab::new();
    for target in [Ipv4Addr::new(10, 0, 1, 99), router4(2), Ipv4Addr::BROADCAST] {
        let frame = broadcast(request(target));
        lab.expect_drop(1, &frame, DropReason::ArpNotForUs);
    }
    assert_eq!(lab.events(), []);
}

#[test]
fn replies_and_announcements_are_learned_from() {
    let mut lab = Lab::new();
    let reply = ArpRepr {
        operation: ArpOperation::Reply,
        sender_mac: host_mac(1),
        sender_ip: host4(1),
        target_mac: router_mac(1),
        target_ip: router4(1),
    };
    assert!(lab.send(1, &to_router(1).arp(reply).build()).is_empty());
    assert!(lab.send(1, &broadcast(request(host4(1)))).is_empty());
    assert_eq!(lab.events(), [seen(host4(1), true), seen(host4(1), false)]);
    assert_eq!(lab.harness.dispatcher.counters.punted.get(), 2);
}

#[test]
fn nobody_can_speak_for_an_address_that_is_not_theirs_to_have() {
    let mut lab = Lab::new();
    // Of another subnet, the router's own, no station's.
    for (sender_ip, mac) in [
        (Ipv4Addr::new(10, 9, 9, 9), host_mac(1)),
        (router4(1), host_mac(1)),
        (host4(1), MacAddr::ZERO),
    ] {
        let arp = ArpRepr::request(mac, sender_ip, router4(1));
        assert_eq!(lab.send(1, &to_router(1).arp(arp).build()).len(), 1);
    }
    assert_eq!(lab.events(), []);
}

#[test]
fn malformed_packets_are_dropped() {
    let mut lab = Lab::new();
    let good = to_router(1).arp(request(router4(1))).build();
    for (at, value) in [
        (14, 1),
        (16, 9),
        (18, 8),
        (19, 16),
        (20, 1),
        (21, 9),
        (22, 1),
    ] {
        let mut frame = good.clone();
        frame[at] = value;
        lab.expect_drop(1, &frame, DropReason::ArpMalformed);
    }
    for len in [14, 15, 41] {
        lab.expect_drop(1, &good[..len], DropReason::ArpMalformed);
    }
    assert!(ArpPacket::new_checked(&good[14..]).is_ok());
}

#[test]
fn an_interface_without_ipv4_does_not_answer() {
    let mut lab = Lab::new();
    lab.clear_flags(1, if_flags::IP4);
    let frame = broadcast(request(router4(1)));
    lab.expect_drop(1, &frame, DropReason::Ip4NotEnabled);
}

const UNKNOWN: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 50);

fn packet(link: PacketBuilder, dst: Ipv4Addr, ident: u16, ttl: u8) -> Vec<u8> {
    link.ipv4(host4(1), dst)
        .ident(ident)
        .ttl(ttl)
        .udp(1, 2)
        .payload_len(20)
        .build()
}

fn to_unknown(ident: u16) -> Vec<u8> {
    packet(to_router(1), UNKNOWN, ident, 64)
}

const WANTED: Event = Event::Wanted4 {
    if_index: 2,
    ip: UNKNOWN.octets(),
};
const RESOLVED: HoldMessage<[u8; 4]> = HoldMessage::Resolved {
    if_index: 2,
    ip: UNKNOWN.octets(),
};
const FAILED: HoldMessage<[u8; 4]> = HoldMessage::Failed {
    if_index: 2,
    ip: UNKNOWN.octets(),
};

#[test]
fn packets_wait_for_a_neighbour_and_leave_in_order() {
    let mut lab = Lab::new();
    for ident in 0..5 {
        assert!(lab.send(1, &to_unknown(ident)).is_empty());
    }
    assert_eq!((lab.held(), lab.dropped()), (5, 0));
    // One question for all of them.
    assert_eq!(lab.events(), [WANTED]);
    lab.route4("10.0.2.50/32", lab.adj4(2, UNKNOWN, MTU));
    let sent = lab.tell("ip4-arp", RESOLVED);
    let expected: Vec<_> = (0..5)
        .map(|i| (2, packet(from_router(2), UNKNOWN, i, 63)))
        .collect();
    assert_eq!(sent, expected);
    assert_eq!(lab.held(), 0);
}

#[test]
fn a_neighbour_that_is_being_resolved_again_is_waited_for_too() {
    let mut lab = Lab::new();
    let hop = lab.incomplete4(2, LinkType::Ip4, UNKNOWN);
    lab.route4("10.66.0.0/16", hop);
    let frame = packet(to_router(1), [10, 66, 0, 1].into(), 1, 64);
    assert!(lab.send(1, &frame).is_empty());
    assert_eq!(lab.events(), [WANTED]);
    lab.complete(hop);
    let out = packet(from_router(2), [10, 66, 0, 1].into(), 1, 63);
    assert_eq!(lab.tell("ip4-arp", RESOLVED), [(2, out)]);
}

#[test]
fn only_what_waits_for_that_neighbour_is_released() {
    let mut lab = Lab::new();
    let other = Ipv4Addr::new(10, 0, 2, 51);
    lab.send(1, &to_unknown(1));
    lab.send(1, &packet(to_router(1), other, 2, 64));
    lab.send(1, &packet(to_router(1), Ipv4Addr::new(10, 0, 3, 50), 3, 64));
    assert_eq!(lab.events().len(), 3);
    lab.route4("10.0.2.50/32", lab.adj4(2, UNKNOWN, MTU));
    assert_eq!(lab.tell("ip4-arp", RESOLVED).len(), 1);
    assert_eq!(lab.held(), 2);
    // Nobody waits any more.
    assert!(lab.tell("ip4-arp", RESOLVED).is_empty());
    assert!(lab.tell("ip4-arp", FAILED).is_empty());
    assert_eq!(lab.held(), 2);
}

#[test]
fn a_released_packet_goes_by_the_routes_of_that_moment() {
    let mut lab = Lab::new();
    lab.send(1, &to_unknown(1));
    lab.route4("10.0.2.50/32", lab.adj4(3, host4(3), MTU));
    let sent = lab.tell("ip4-arp", RESOLVED);
    assert_eq!(sent, [(3, packet(from_router(3), UNKNOWN, 1, 63))]);
}

#[test]
fn a_neighbour_that_does_not_resolve_is_a_host_unreachable() {
    let mut lab = Lab::new();
    lab.send(1, &to_unknown(1));
    let error = error4(1, host4(1), (3, 1, 0), &to_unknown(1)[14..], 1);
    assert_eq!(lab.tell("ip4-arp", FAILED), [(1, error)]);
    assert_eq!(lab.harness.drops(DropReason::UnresolvedNeighbor), 1);
}

#[test]
fn patience_ends_after_five_seconds() {
    let mut lab = Lab::new();
    lab.send(1, &to_unknown(1));
    lab.now += 2 * SECOND;
    lab.send(1, &to_unknown(2));
    assert!(lab.wait(3 * SECOND - 1).is_empty());
    assert_eq!(lab.harness.dispatcher.deadline(), Some(SECOND + 5 * SECOND));
    assert_eq!(lab.wait(1).len(), 2);
    assert_eq!((lab.held(), lab.harness.dispatcher.deadline()), (0, None));
    assert_eq!(lab.harness.drops(DropReason::UnresolvedNeighbor), 2);
}

#[test]
fn control_is_reminded_while_packets_keep_coming() {
    let mut lab = Lab::new();
    lab.send(1, &to_unknown(1));
    lab.now += SECOND / 5 - 1;
    lab.send(1, &to_unknown(2));
    assert_eq!(lab.events().len(), 1);
    lab.now += 1;
    lab.send(1, &to_unknown(3));
    assert_eq!(lab.events(), [WANTED]);
}

#[test]
fn a_queue_holds_eight_packets() {
    let mut lab = Lab::new();
    for ident in 0..8 {
        lab.send(1, &to_unknown(ident));
    }
    for ident in 8..12 {
        lab.expect_drop(1, &to_unknown(ident), DropReason::NeighborQueueFull);
    }
    assert_eq!(lab.held(), 8);
    // A full queue does not keep control from being reminded.
    lab.events();
    lab.now += SECOND;
    lab.expect_drop(1, &to_unknown(12), DropReason::NeighborQueueFull);
    assert_eq!(lab.events(), [WANTED]);
}

#[test]
fn queues_are_bounded_in_number() {
    let mut lab = Lab::new();
    lab.route4(
        "10.77.0.0/16",
        parshall_fib::Dpo::new(parshall_fib::DpoKind::Glean, 2),
    );
    let frames: Vec<_> = (0..600u16)
        .map(|i| {
            packet(
                to_router(1),
                Ipv4Addr::from(0x0A4D_0000 + u32::from(i)),
                i,
                64,
            )
        })
        .collect();
    lab.send_all(1, &frames);
    assert_eq!(lab.held(), 512);
    assert_eq!(lab.harness.drops(DropReason::NeighborQueueFull), 88);
    lab.wait(5 * SECOND);
    assert_eq!((lab.held(), lab.dropped()), (0, 600));
}

#[test]
fn an_answer_of_the_router_waits_and_expires_in_silence() {
    let mut lab = Lab::new();
    let asker = Ipv4Addr::new(10, 0, 1, 60);
    let ping = to_router(1)
        .ipv4(asker, router4(1))
        .echo_request(1, 1)
        .build();
    assert!(lab.send(1, &ping).is_empty());
    assert_eq!(lab.held(), 1);
    assert!(lab.wait(5 * SECOND).is_empty());
    assert_eq!(lab.harness.drops(DropReason::UnresolvedNeighbor), 1);
}

#[test]
fn a_next_hop_of_another_family_is_no_neighbour() {
    let mut lab = Lab::new();
    let hop = lab.incomplete6(2, LinkType::Ip4, host6(2));
    lab.route4("10.66.0.0/16", hop);
    let frame = packet(to_router(1), [10, 66, 0, 1].into(), 1, 64);
    lab.expect_drop(1, &frame, DropReason::NoAdjacency);
    assert_eq!(lab.events(), []);
}
