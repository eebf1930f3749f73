//! The ICMPv6 errors: which, from whom, about what, how often (RFC 4443 section 2.4).

use std::net::Ipv6Addr;

use parshall_counters::DropReason;
use parshall_fib::{Dpo, LinkType};
use parshall_wire::{IpProtocol, MacAddr, PacketBuilder, TcpFlags};

use super::lab::*;
use super::parshall_nodes::{Event, HoldMessage};

const NO_ROUTE: (u8, u8, u32) = (1, 0, 0);
const PROHIBITED: (u8, u8, u32) = (1, 1, 0);
const BEYOND_SCOPE: (u8, u8, u32) = (1, 2, 0);
const ADDRESS_UNREACHABLE: (u8, u8, u32) = (1, 3, 0);
const PORT_UNREACHABLE: (u8, u8, u32) = (1, 4, 0);
const TIME_EXCEEDED: (u8, u8, u32) = (3, 0, 0);

const NOWHERE: Ipv6Addr = Ipv6Addr::new(0x2001, 0xDB9, 0, 0, 0, 0, 0, 1);

fn to(dst: Ipv6Addr) -> PacketBuilder {
    to_router(1)
        .ipv6(host6(1), dst)
        .udp(33434, 53)
        .payload_len(40)
}

#[track_caller]
fn expect_error(lab: &mut Lab, frame: &[u8], reason: DropReason, kind: (u8, u8, u32)) {
    let before = lab.harness.drops(reason);
    lab.expect(1, frame, 1, &error6(1, host6(1), kind, &frame[14..]));
    assert_eq!(lab.harness.drops(reason), before + 1);
}

#[test]
fn time_exceeded_when_the_hop_limit_runs_out_on_the_way() {
    let mut lab = Lab::new();
    for hops in [0, 1] {
        let frame = to(far6(2)).ttl(hops).build();
        expect_error(
            &mut lab,
            &frame,
            DropReason::Ip6HopLimitExpired,
            TIME_EXCEEDED,
        );
    }
    let probe = to_router(1)
        .ipv6(host6(1), far6(2))
        .ttl(1)
        .echo_request(1, 1)
        .build();
    expect_error(
        &mut lab,
        &probe,
        DropReason::Ip6HopLimitExpired,
        TIME_EXCEEDED,
    );
}

#[test]
fn every_kind_of_route_has_its_error() {
    let mut lab = Lab::new();
    lab.route6("2001:db9::2/128", Dpo::UNREACHABLE);
    lab.route6("2001:db9::3/128", Dpo::PROHIBIT);
    for (host, reason, kind) in [
        (1, DropReason::NoRoute, NO_ROUTE),
        (2, DropReason::RouteUnreachable, ADDRESS_UNREACHABLE),
        (3, DropReason::RouteProhibit, PROHIBITED),
    ] {
        let dst = Ipv6Addr::new(0x2001, 0xDB9, 0, 0, 0, 0, 0, host);
        expect_error(&mut lab, &to(dst).build(), reason, kind);
    }
}

#[test]
fn too_big_is_answered_with_the_mtu() {
    for mtu in [1280, 1400] {
        let mut lab = Lab::new();
        lab.route6("2001:db8:66::/48", lab.adj6(2, host6(2), mtu));
        let dst = "2001:db8:66::1".parse().unwrap();
        let sized = |len| {
            to_router(1)
                .ipv6(host6(1), dst)
                .udp(1, 2)
                .total_len(14 + usize::from(len))
                .build()
        };
        let kind = (2, 0, u32::from(mtu));
        expect_error(&mut lab, &sized(mtu + 1), DropReason::PacketTooBig, kind);
        assert_eq!(lab.send(1, &sized(mtu)).len(), 1);
        // Path-MTU discovery at any size: also of packets in several buffers.
        expect_error(&mut lab, &sized(6000), DropReason::PacketTooBig, kind);
    }
}

#[test]
fn an_error_quotes_up_to_1280_bytes_in_all() {
    let mut lab = Lab::new();
    for len in [48, 1231, 1232, 1233, 1500] {
        let frame = to_router(1)
            .ipv6(host6(1), NOWHERE)
            .udp(1, 2)
            .total_len(14 + len)
            .build();
        expect_error(&mut lab, &frame, DropReason::NoRoute, NO_ROUTE);
    }
    let frame = to(NOWHERE).build();
    let error = error6(1, host6(1), NO_ROUTE, &frame[14..]);
    let mut padded = frame.clone();
    padded.resize(frame.len() + 30, 0xEE);
    lab.expect(1, &padded, 1, &error);
}

#[test]
fn the_router_itself_answers_what_nobody_here_listens_to() {
    let mut lab = Lab::new();
    let udp = to(router6(2)).build();
    expect_error(&mut lab, &udp, DropReason::LocalNoPort, PORT_UNREACHABLE);
    let tcp = to_router(1)
        .ipv6(host6(1), router6(1))
        .tcp(1, 22, TcpFlags::SYN)
        .build();
    lab.expect_drop(1, &tcp, DropReason::LocalNoPort);
}

#[test]
fn an_unknown_header_is_pointed_at() {
    let mut lab = Lab::new();
    let plain = to_router(1)
        .ipv6(host6(1), router6(1))
        .protocol(IpProtocol::GRE)
        .payload_len(20)
        .build();
    expect_error(&mut lab, &plain, DropReason::LocalNoProtocol, (4, 1, 6));
    let behind = to_router(1)
        .ipv6(host6(1), router6(1))
        .extension(IpProtocol::HOP_BY_HOP, &[1, 4])
        .extension(IpProtocol::DESTINATION_OPTIONS, &[1, 4])
        .protocol(IpProtocol::GRE)
        .payload_len(20)
        .build();
    expect_error(&mut lab, &behind, DropReason::LocalNoProtocol, (4, 1, 48));
}

#[test]
fn what_ends_here_without_complaint() {
    let mut lab = Lab::new();
    let nothing = to_router(1)
        .ipv6(host6(1), router6(1))
        .protocol(IpProtocol::NO_NEXT_HEADER)
        .build();
    lab.expect_drop(1, &nothing, DropReason::LocalNoProtocol);
    let source_route = to_router(1)
        .ipv6(host6(1), router6(1))
        .extension(IpProtocol::ROUTING, &[0, 1, 0, 0, 0, 0])
        .echo_request(1, 1)
        .build();
    lab.expect_drop(1, &source_route, DropReason::LocalNoProtocol);
    let cut = to_router(1)
        .ipv6(host6(1), router6(1))
        .protocol(IpProtocol::DESTINATION_OPTIONS)
        .payload(&[58])
        .build();
    lab.expect_drop(1, &cut, DropReason::Ip6BadLength);
}

#[test]
fn link_local_sources_do_not_leave_their_link() {
    let mut lab = Lab::new();
    let frame = to_router(1)
        .ipv6(host_ll(1), far6(2))
        .udp(1, 2)
        .payload_len(10)
        .build();
    let expected = from_router(1)
        .ipv6(router_ll(1), host_ll(1))
        .protocol(IpProtocol::ICMPV6)
        .payload(&icmp6(1, BEYOND_SCOPE.1, 0, &frame[14..]))
        .build();
    lab.expect(1, &frame, 1, &expected);
    assert_eq!(lab.harness.drops(DropReason::Ip6SourceLinkLocal), 1);
    // Back onto the same link they may go.
    let packet =
        |link: PacketBuilder, hops| link.ipv6(host_ll(1), far6(1)).ttl(hops).udp(1, 2).build();
    lab.expect(1, &packet(to_router(1), 64), 1, &packet(from_router(1), 63));
}

#[test]
fn a_link_local_asker_is_answered_on_its_link() {
    let mut lab = Lab::new();
    let frame = to_router(1)
        .ipv6(host_ll(1), router_ll(1))
        .udp(1, 2)
        .payload_len(10)
        .build();
    let expected = from_router(1)
        .ipv6(router_ll(1), host_ll(1))
        .protocol(IpProtocol::ICMPV6)
        .payload(&icmp6(1, 4, 0, &frame[14..]))
        .build();
    lab.expect(1, &frame, 1, &expected);
}

#[test]
fn the_error_comes_from_the_interface_the_packet_came_in_by() {
    let mut lab = Lab::new();
    let frame = to(NOWHERE).build();
    let source = |sent: &[(u32, Vec<u8>)]| -> [u8; 16] { sent[0].1[22..38].try_into().unwrap() };
    lab.edit(1, |_, a| a.ip6.clear());
    assert_eq!(source(&lab.send(1, &frame)), router6(2).octets());
    lab.edit(2, |_, a| a.ip6.clear());
    lab.edit(3, |_, a| a.ip6.clear());
    assert_eq!(source(&lab.send(1, &frame)), router_ll(1).octets());
    lab.edit(1, |_, a| a.link_local = None);
    lab.expect_drop(1, &frame, DropReason::NoRoute);
}

#[test]
fn no_error_about_errors_redirects_and_later_fragments() {
    let mut lab = Lab::new();
    for msg_type in [1, 2, 3, 4, 100, 127, 137] {
        let frame = to_router(1)
            .ipv6(host6(1), NOWHERE)
            .protocol(IpProtocol::ICMPV6)
            .payload(&icmp6(msg_type, 0, 0, &[0; 48]))
            .build();
        lab.expect_drop(1, &frame, DropReason::NoRoute);
    }
    let piece = |offset: u8| {
        to_router(1)
            .ipv6(host6(1), NOWHERE)
            .extension(IpProtocol::FRAGMENT, &[0, offset << 3 | 1, 0, 0, 0, 9])
            .payload_len(64)
            .build()
    };
    lab.expect_drop(1, &piece(1), DropReason::NoRoute);
    assert_eq!(lab.send(1, &piece(0)).len(), 1);
}

#[test]
fn no_error_about_groups() {
    let mut lab = Lab::new();
    let frame = PacketBuilder::ethernet(host_mac(1), MacAddr::from_ipv6_multicast(ALL_NODES))
        .ipv6(host6(1), ALL_NODES)
        .udp(1, 2)
        .build();
    lab.expect_drop(1, &frame, DropReason::LocalNoPort);
}

#[test]
fn errors_are_limited_to_a_burst_and_a_rate() {
    let mut lab = Lab::new();
    let frames = vec![to(NOWHERE).build(); 200];
    assert_eq!(lab.send_all(1, &frames).len(), 100);
    lab.now += SECOND / 100;
    assert_eq!(lab.send_all(1, &frames).len(), 10);
    assert_eq!(lab.harness.drops(DropReason::NoRoute), 400);
}

const UNKNOWN: Ipv6Addr = Ipv6Addr::new(0x2001, 0xDB8, 0, 2, 0, 0, 0, 0x50);
const WANTED: Event = Event::Wanted6 {
    if_index: 2,
    ip: UNKNOWN.octets(),
};
const RESOLVED: HoldMessage<[u8; 16]> = HoldMessage::Resolved {
    if_index: 2,
    ip: UNKNOWN.octets(),
};
const FAILED: HoldMessage<[u8; 16]> = HoldMessage::Failed {
    if_index: 2,
    ip: UNKNOWN.octets(),
};

fn numbered(link: PacketBuilder, dst: Ipv6Addr, number: u16, hops: u8) -> Vec<u8> {
    link.ipv6(host6(1), dst).ttl(hops).udp(number, 2).build()
}

#[test]
fn packets_wait_for_a_neighbour_and_leave_in_order() {
    let mut lab = Lab::new();
    for i in 0..5 {
        assert!(
            lab.send(1, &numbered(to_router(1), UNKNOWN, i, 64))
                .is_empty()
        );
    }
    assert_eq!(lab.events(), [WANTED]);
    lab.route6("2001:db8:0:2::50/128", lab.adj6(2, UNKNOWN, MTU));
    let sent = lab.tell("ip6-discover-neighbor", RESOLVED);
    let expected: Vec<_> = (0..5)
        .map(|i| (2, numbered(from_router(2), UNKNOWN, i, 63)))
        .collect();
    assert_eq!(sent, expected);
    assert_eq!(lab.held(), 0);
}

#[test]
fn a_neighbour_that_is_being_resolved_again_is_waited_for_too() {
    let mut lab = Lab::new();
    let hop = lab.incomplete6(2, LinkType::Ip6, UNKNOWN);
    lab.route6("2001:db8:66::/48", hop);
    let dst = "2001:db8:66::1".parse().unwrap();
    assert!(lab.send(1, &numbered(to_router(1), dst, 1, 64)).is_empty());
    assert_eq!(lab.events(), [WANTED]);
    lab.complete(hop);
    let out = numbered(from_router(2), dst, 1, 63);
    assert_eq!(lab.tell("ip6-discover-neighbor", RESOLVED), [(2, out)]);
}

#[test]
fn a_neighbour_that_does_not_resolve_is_an_unreachable_address() {
    let mut lab = Lab::new();
    let frame = numbered(to_router(1), UNKNOWN, 1, 64);
    lab.send(1, &frame);
    let error = error6(1, host6(1), ADDRESS_UNREACHABLE, &frame[14..]);
    assert_eq!(
        lab.tell("ip6-discover-neighbor", FAILED),
        [(1, error.clone())]
    );
    lab.send(1, &frame);
    assert_eq!(lab.wait(5 * SECOND), [(1, error)]);
    assert_eq!(lab.harness.drops(DropReason::UnresolvedNeighbor), 2);
}

#[test]
fn a_queue_holds_eight_packets() {
    let mut lab = Lab::new();
    for i in 0..8 {
        lab.send(1, &numbered(to_router(1), UNKNOWN, i, 64));
    }
    let frame = numbered(to_router(1), UNKNOWN, 8, 64);
    lab.expect_drop(1, &frame, DropReason::NeighborQueueFull);
    lab.now += SECOND;
    lab.events();
    lab.expect_drop(1, &frame, DropReason::NeighborQueueFull);
    assert_eq!(lab.events(), [WANTED]);
}

#[test]
fn a_next_hop_of_another_family_is_no_neighbour() {
    let mut lab = Lab::new();
    lab.route6(
        "2001:db8:66::/48",
        lab.incomplete4(2, LinkType::Ip6, host4(2)),
    );
    let dst = "2001:db8:66::1".parse().unwrap();
    let frame = numbered(to_router(1), dst, 1, 64);
    lab.expect_drop(1, &frame, DropReason::NoAdjacency);
}
