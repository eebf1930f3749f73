//! Neighbour discovery in `ip6-icmp-input`: solicitations answered, neighbours learned (RFC 4861).

use std::net::Ipv6Addr;

use parshall_counters::DropReason;
use parshall_wire::{IpProtocol, MacAddr, NdiscPacket, NdiscRepr, PacketBuilder};

use super::lab::*;
use super::parshall_nodes::Event;

/// A neighbour discovery message in a packet.
fn message(link: PacketBuilder, src: Ipv6Addr, dst: Ipv6Addr, repr: &NdiscRepr) -> PacketBuilder {
    let mut body = vec![0; repr.buffer_len()];
    repr.emit(&src, &dst, &mut NdiscPacket::new_unchecked(&mut body[..]))
        .unwrap();
    link.ipv6(src, dst)
        .ttl(255)
        .protocol(IpProtocol::ICMPV6)
        .payload(&body)
}

fn solicited_group(of: Ipv6Addr) -> Ipv6Addr {
    let o = of.octets();
    let low = u128::from(u32::from_be_bytes([0, o[13], o[14], o[15]]));
    Ipv6Addr::from(0xFF02_0000_0000_0000_0000_0001_FF00_0000 | low)
}

fn to_group(n: u32, group: Ipv6Addr) -> PacketBuilder {
    PacketBuilder::ethernet(host_mac(n), MacAddr::from_ipv6_multicast(group))
}

fn question(target: Ipv6Addr) -> NdiscRepr {
    NdiscRepr::NeighborSolicit {
        target,
        source_ll: Some(host_mac(1)),
    }
}

/// A solicitation for `target` from `src`, to the group that the target is in.
fn solicitation(src: Ipv6Addr, target: Ipv6Addr) -> PacketBuilder {
    let group = solicited_group(target);
    message(to_group(1, group), src, group, &question(target))
}

fn answer(target: Ipv6Addr, to: Ipv6Addr) -> Vec<u8> {
    let advert = NdiscRepr::NeighborAdvert {
        router: true,
        solicited: true,
        override_ll: true,
        target,
        target_ll: Some(router_mac(1)),
    };
    message(from_router(1), target, to, &advert).build()
}

fn seen(ip: Ipv6Addr, solicited: bool) -> Event {
    Event::NdSeen {
        if_index: 1,
        ip: ip.octets(),
        mac: host_mac(1).0,
        solicited,
    }
}

#[test]
fn a_solicitation_for_an_own_address_is_answered_and_its_sender_learned() {
    let mut lab = Lab::new();
    for target in [router6(1), router_ll(1)] {
        for src in [host6(1), host_ll(1)] {
            let frame = solicitation(src, target).build();
            lab.expect(1, &frame, 1, &answer(target, src));
            assert_eq!(lab.events(), [seen(src, false)]);
        }
    }
    let c = &lab.harness.dispatcher.counters;
    assert_eq!((c.punted.get(), c.originated.get()), (4, 4));
}

#[test]
fn a_check_whether_the_router_is_still_there_is_answered() {
    // Unicast, and without the asker's address, which the frame tells (RFC 4861 section 7.2.2).
    let mut lab = Lab::new();
    let repr = NdiscRepr::NeighborSolicit {
        target: router6(1),
        source_ll: None,
    };
    let frame = message(to_router(1), host6(1), router6(1), &repr).build();
    lab.expect(1, &frame, 1, &answer(router6(1), host6(1)));
    assert_eq!(lab.events(), []);
}

#[test]
fn a_test_for_duplicates_is_answered_to_all_nodes() {
    let mut lab = Lab::new();
    let group = solicited_group(router6(1));
    let repr = NdiscRepr::NeighborSolicit {
        target: router6(1),
        source_ll: None,
    };
    let frame = message(to_group(1, group), Ipv6Addr::UNSPECIFIED, group, &repr).build();
    let advert = NdiscRepr::NeighborAdvert {
        router: true,
        solicited: false,
        override_ll: true,
        target: router6(1),
        target_ll: Some(router_mac(1)),
    };
    let link = PacketBuilder::ethernet(router_mac(1), MacAddr([0x33, 0x33, 0, 0, 0, 1]));
    let out = message(link, router6(1), ALL_NODES, &advert).build();
    lab.expect(1, &frame, 1, &out);
    assert_eq!(lab.events(), []);
    assert_eq!(
        lab.harness.dispatcher.counters.interfaces[1]
            .tx_multicast
            .get(),
        1
    );
}

#[test]
fn an_asker_without_an_address_keeps_to_the_rules() {
    // RFC 4861 section 7.1.1: no link-layer address, and to a group.
    let mut lab = Lab::new();
    let frame = solicitation(Ipv6Addr::UNSPECIFIED, router6(1)).build();
    lab.expect_drop(1, &frame, DropReason::NdMalformed);
    let repr = NdiscRepr::NeighborSolicit {
        target: router_ll(1),
        source_ll: None,
    };
    let frame = message(to_router(1), Ipv6Addr::UNSPECIFIED, router_ll(1), &repr).build();
    lab.expect_drop(1, &frame, DropReason::NdMalformed);
    assert_eq!(lab.events(), []);
}

#[test]
fn solicitations_for_others_are_dropped() {
    let mut lab = Lab::new();
    // An address of another interface, and one of nobody in the same group as one of ours.
    let frame = message(to_router(1), host6(1), router6(1), &question(router6(2))).build();
    lab.expect_drop(1, &frame, DropReason::NdNotForUs);
    let near: Ipv6Addr = "2001:db8:0:1::7700:1".parse().unwrap();
    let frame = solicitation(host6(1), near).build();
    lab.expect_drop(1, &frame, DropReason::NdNotForUs);
    assert_eq!(lab.events(), []);
}

#[test]
fn a_hop_limit_below_255_is_a_stranger() {
    let mut lab = Lab::new();
    for hops in [0, 1, 64, 254] {
        let frame = solicitation(host6(1), router6(1)).ttl(hops).build();
        lab.expect_drop(1, &frame, DropReason::NdBadHopLimit);
    }
    let advert = NdiscRepr::NeighborAdvert {
        router: false,
        solicited: true,
        override_ll: true,
        target: host6(1),
        target_ll: Some(host_mac(1)),
    };
    let frame = message(to_router(1), host6(1), router6(1), &advert)
        .ttl(254)
        .build();
    lab.expect_drop(1, &frame, DropReason::NdBadHopLimit);
    assert_eq!(lab.events(), []);
}

#[test]
fn advertisements_are_learned_from() {
    let mut lab = Lab::new();
    for (solicited, dst) in [(true, router6(1)), (false, ALL_NODES)] {
        let advert = NdiscRepr::NeighborAdvert {
            router: false,
            solicited,
            override_ll: true,
            target: host6(1),
            target_ll: Some(host_mac(1)),
        };
        let link = if dst == ALL_NODES {
            to_group(1, dst)
        } else {
            to_router(1)
        };
        let frame = message(link, host6(1), dst, &advert).build();
        assert!(lab.send(1, &frame).is_empty());
        assert_eq!(lab.events(), [seen(host6(1), solicited)]);
    }
    assert_eq!(lab.harness.dispatcher.counters.punted.get(), 2);
}

#[test]
fn nobody_can_speak_for_the_router_or_with_a_group_address() {
    let mut lab = Lab::new();
    for (target, mac) in [
        (router6(1), host_mac(1)),
        (router_ll(1), host_mac(1)),
        (host6(1), MacAddr::BROADCAST),
        (host6(1), MacAddr::ZERO),
    ] {
        let advert = NdiscRepr::NeighborAdvert {
            router: false,
            solicited: false,
            override_ll: true,
            target,
            target_ll: Some(mac),
        };
        let frame = message(to_router(1), host6(1), router6(1), &advert).build();
        assert!(lab.send(1, &frame).is_empty());
        assert_eq!(lab.events(), [], "{target} at {mac}");
    }
}

#[test]
fn malformed_messages_are_dropped() {
    let mut lab = Lab::new();
    let good = solicitation(host6(1), router6(1)).build();
    let icmp = 14 + 40;
    // An option of length 0, one that is cut, a code, a target that is a group.
    let changes: [(usize, u8); 4] = [(25, 0), (25, 2), (1, 1), (8, 0xFF)];
    for (at, value) in changes {
        let mut body = good[icmp..].to_vec();
        body[at] = value;
        let group = solicited_group(router6(1));
        let frame = to_group(1, group)
            .ipv6(host6(1), group)
            .ttl(255)
            .protocol(IpProtocol::ICMPV6)
            .payload(&body)
            .build();
        lab.expect_drop(1, &frame, DropReason::NdMalformed);
    }
    let mut frame = good.clone();
    frame[icmp + 2] ^= 1;
    lab.expect_drop(1, &frame, DropReason::LocalBadChecksum);
    // Too short for its type.
    let frame = to_router(1)
        .ipv6(host6(1), router6(1))
        .ttl(255)
        .protocol(IpProtocol::ICMPV6)
        .payload(&good[icmp..icmp + 20])
        .build();
    lab.expect_drop(1, &frame, DropReason::NdMalformed);
}

#[test]
fn router_messages_are_consumed() {
    let mut lab = Lab::new();
    let all_routers = Ipv6Addr::new(0xFF02, 0, 0, 0, 0, 0, 0, 2);
    let solicit = NdiscRepr::RouterSolicit {
        source_ll: Some(host_mac(1)),
    };
    let frame = message(to_group(1, all_routers), host_ll(1), all_routers, &solicit).build();
    assert!(lab.send(1, &frame).is_empty());
    let c = &lab.harness.dispatcher.counters;
    assert_eq!((c.punted.get(), c.dropped.get()), (1, 0));
}

#[test]
fn a_long_padded_solicitation_in_a_chain_is_answered_shortly() {
    let mut lab = Lab::new();
    let mut body = vec![0; 32];
    question(router6(1))
        .emit(
            &host6(1),
            &router6(1),
            &mut NdiscPacket::new_unchecked(&mut body[..]),
        )
        .unwrap();
    let frame = to_router(1)
        .ipv6(host6(1), router6(1))
        .ttl(255)
        .protocol(IpProtocol::ICMPV6)
        .payload(&body);
    let mut frame = frame.build();
    frame.resize(5000, 0);
    lab.expect(1, &frame, 1, &answer(router6(1), host6(1)));
}
