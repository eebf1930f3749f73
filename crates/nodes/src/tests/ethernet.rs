//! `ethernet-input` and `l2-input`: which frames are taken, where they go, what is counted.

use parshall_buffer::IF_NONE;
use parshall_counters::DropReason;
use parshall_wire::{ArpRepr, EtherType, MacAddr, PacketBuilder};

use super::lab::*;
use super::parshall_nodes::if_flags;

/// A packet from the host on interface 1 to the network behind interface 2, and as it is forwarded.
fn forwarded() -> (Vec<u8>, Vec<u8>) {
    let packet = |link: PacketBuilder, ttl| {
        link.ipv4(host4(1), far4(2))
            .ttl(ttl)
            .udp(1000, 2000)
            .payload_len(18)
            .build()
    };
    (packet(to_router(1), 64), packet(from_router(2), 63))
}

/// The same with another destination address in the Ethernet header.
fn addressed_to(dst: MacAddr) -> Vec<u8> {
    let mut frame = forwarded().0;
    frame[..6].copy_from_slice(&dst.0);
    frame
}

#[test]
fn a_frame_for_the_router_is_looked_into() {
    let (frame, out) = forwarded();
    Lab::new().expect(1, &frame, 2, &out);
}

#[test]
fn frames_for_other_stations_are_dropped_unless_promiscuous() {
    let mut lab = Lab::new();
    let frame = addressed_to(MacAddr([2, 0, 0, 0, 9, 9]));
    lab.expect_drop(1, &frame, DropReason::NotOurMac);
    lab.edit(1, |view, _| view.flags |= if_flags::PROMISC);
    lab.expect(1, &frame, 2, &forwarded().1);
}

#[test]
fn broadcast_and_multicast_are_counted_apart() {
    let mut lab = Lab::new();
    let question = ArpRepr::request(host_mac(1), host4(1), host4(1));
    let arp = |dst| {
        PacketBuilder::ethernet(host_mac(1), dst)
            .arp(question)
            .build()
    };
    lab.send(1, &arp(MacAddr::BROADCAST));
    lab.send(1, &arp(MacAddr::BROADCAST));
    lab.send(1, &arp(MacAddr([1, 0, 0x5E, 0, 0, 1])));
    lab.send(1, &arp(router_mac(1)));
    let c = &lab.harness.dispatcher.counters.interfaces[1];
    assert_eq!((c.rx_broadcast.get(), c.rx_multicast.get()), (2, 1));
}

#[test]
fn a_packet_to_one_host_in_a_group_frame_is_nobodys() {
    let mut lab = Lab::new();
    for group in [MacAddr::BROADCAST, MacAddr([1, 0, 0x5E, 0, 0, 1])] {
        lab.expect_drop(1, &addressed_to(group), DropReason::UnicastInGroupFrame);
    }
    let six = PacketBuilder::ethernet(host_mac(1), MacAddr([0x33, 0x33, 0, 0, 0, 1]))
        .ipv6(host6(1), far6(2))
        .udp(1, 2)
        .build();
    lab.expect_drop(1, &six, DropReason::UnicastInGroupFrame);
}

#[test]
fn a_group_cannot_be_a_source() {
    let mut frame = forwarded().0;
    frame[6] |= 1;
    Lab::new().expect_drop(1, &frame, DropReason::SourceMacMulticast);
}

#[test]
fn runts_are_dropped_whatever_their_length() {
    let mut lab = Lab::new();
    for len in 0..14 {
        lab.expect_drop(1, &forwarded().0[..len], DropReason::EthernetTooShort);
    }
    lab.expect_drop(1, &forwarded().0[..14], DropReason::Ip4TooShort);
}

#[test]
fn types_that_are_not_ours_have_a_reason_each() {
    let mut lab = Lab::new();
    for (ethertype, reason) in [
        (0, DropReason::LlcUnsupported),
        (0x05DC, DropReason::LlcUnsupported),
        (0x05FF, DropReason::LlcUnsupported),
        (0x0600, DropReason::UnknownEthertype),
        (0x88CC, DropReason::UnknownEthertype),
        (0x8848, DropReason::UnknownEthertype),
        (0x8100, DropReason::UnknownVlan),
        (0x88A8, DropReason::UnknownVlan),
        (0x9100, DropReason::UnknownVlan),
        (0xFFFF, DropReason::UnknownEthertype),
    ] {
        let frame = to_router(1)
            .ethertype(EtherType(ethertype))
            .payload_len(46)
            .build();
        lab.expect_drop(1, &frame, reason);
    }
}

#[test]
fn an_interface_that_is_not_there_receives_nothing() {
    Lab::new().expect_drop(5, &forwarded().0, DropReason::InterfaceGone);
}

#[test]
fn one_odd_packet_does_not_disturb_its_vector() {
    let mut lab = Lab::new();
    let (good, out) = forwarded();
    let mut frames = vec![good; 40];
    frames[0].truncate(13);
    frames[17] = addressed_to(MacAddr([2, 0, 0, 0, 9, 9]));
    frames[39] = to_router(1)
        .ipv6(host6(1), far6(3))
        .udp(5, 6)
        .payload_len(8)
        .build();
    let six = from_router(3)
        .ipv6(host6(1), far6(3))
        .ttl(63)
        .udp(5, 6)
        .payload_len(8)
        .build();
    let sent = lab.send_all(1, &frames);
    assert_eq!(sent.iter().filter(|s| **s == (2, out.clone())).count(), 37);
    assert_eq!(sent.iter().filter(|s| **s == (3, six.clone())).count(), 1);
    assert_eq!(sent.len(), 38);
    assert_eq!(lab.harness.drops(DropReason::NotOurMac), 1);
    assert_eq!(lab.harness.drops(DropReason::EthernetTooShort), 1);
}

#[test]
fn a_vector_may_mix_interfaces_and_modes() {
    let mut lab = Lab::new();
    lab.cross_connect(3, 1);
    let (good, out) = forwarded();
    let tagged = to_router(3).vlan(7).payload_len(50).build();
    let foreign = addressed_to(router_mac(2));
    let sent = lab.send_mixed(&[
        (1, good),
        (3, tagged.clone()),
        (2, to_router(2).vlan(7).payload_len(50).build()),
        (1, foreign),
    ]);
    assert_eq!(sent.len(), 2);
    assert!(sent.contains(&(2, out)) && sent.contains(&(1, tagged)));
    assert_eq!(lab.harness.drops(DropReason::UnknownVlan), 1);
    assert_eq!(lab.harness.drops(DropReason::NotOurMac), 1);
}

#[test]
fn a_cross_connect_sends_every_frame_as_it_is() {
    let mut lab = Lab::new();
    lab.cross_connect(1, 2);
    for frame in [
        forwarded().0,
        addressed_to(MacAddr([2, 0, 0, 0, 9, 9])),
        to_router(1)
            .ethertype(EtherType(100))
            .payload_len(100)
            .build(),
        to_router(1).vlan(9).payload_len(1496).build(),
        vec![0; 14],
    ] {
        lab.expect(1, &frame, 2, &frame);
    }
}

#[test]
fn a_cross_connect_counts_group_frames() {
    let mut lab = Lab::new();
    lab.cross_connect(1, 2);
    lab.send(1, &addressed_to(MacAddr::BROADCAST));
    lab.send_mixed(&[
        (1, addressed_to(MacAddr([0x33, 0x33, 0, 0, 0, 1]))),
        (2, vec![]),
    ]);
    let c = &lab.harness.dispatcher.counters.interfaces;
    assert_eq!((c[1].rx_broadcast.get(), c[1].rx_multicast.get()), (1, 1));
    assert_eq!((c[2].tx_broadcast.get(), c[2].tx_multicast.get()), (1, 1));
}

#[test]
fn group_frames_are_counted_once_when_vectors_merge_on_the_way() {
    let mut lab = Lab::new();
    lab.cross_connect(1, 2);
    lab.cross_connect(3, 2);
    let broadcast = addressed_to(MacAddr::BROADCAST);
    // 200 + 100 do not fit into one vector, 100 + 50 do: interface 3 reaches l2-input in a mixed one.
    lab.receive(1, &broadcast, 200);
    lab.receive(2, &broadcast, 100);
    lab.receive(3, &broadcast, 50);
    assert_eq!(lab.wait(1).len(), 250);
    let c = &lab.harness.dispatcher.counters.interfaces;
    let counted = [1, 2, 3].map(|n| c[n].rx_broadcast.get());
    assert_eq!(counted, [200, 100, 50]);
}

#[test]
fn a_cross_connect_without_a_peer_drops() {
    let mut lab = Lab::new();
    lab.cross_connect(1, IF_NONE);
    lab.expect_drop(1, &forwarded().0, DropReason::L2NoPeer);
    let sent = lab.send_mixed(&[(1, forwarded().0), (2, vec![])]);
    assert!(sent.is_empty());
    assert_eq!(lab.harness.drops(DropReason::L2NoPeer), 2);
}

#[test]
fn a_cross_connect_drops_runts() {
    let mut lab = Lab::new();
    lab.cross_connect(1, 2);
    let sent = lab.send_all(1, &[vec![0; 13], vec![0; 14], vec![]]);
    assert_eq!(sent, [(2, vec![0; 14])]);
    assert_eq!(lab.harness.drops(DropReason::EthernetTooShort), 2);
}

#[test]
fn the_way_out_may_be_closed() {
    let mut lab = Lab::new();
    lab.cross_connect(1, 2);
    lab.harness.set_up(2, false);
    lab.expect_drop(1, &forwarded().0, DropReason::InterfaceDown);
    // No queue was ever given to interface 6, and interface 60 cannot exist.
    for gone in [6, 60] {
        lab.cross_connect(1, gone);
        lab.expect_drop(1, &forwarded().0, DropReason::InterfaceGone);
    }
}

#[test]
fn a_frame_too_long_for_the_way_out_does_not_hold_up_the_others() {
    let mut lab = Lab::new();
    lab.cross_connect(1, 2);
    let fit = to_router(1).payload_len(1500).build();
    let long = to_router(1).payload_len(1501).build();
    let sent = lab.send_all(1, &[fit.clone(), long, fit.clone()]);
    assert_eq!(sent, [(2, fit.clone()), (2, fit)]);
    assert_eq!(lab.harness.drops(DropReason::LinkMtuExceeded), 1);
    let c = &lab.harness.dispatcher.counters.interfaces;
    assert_eq!((c[2].tx_drops.get(), c[1].rx_drops.get()), (1, 1));
}
