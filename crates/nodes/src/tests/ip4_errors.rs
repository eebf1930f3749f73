//! The ICMP errors of IPv4: which, from whom, about what, how often (RFC 792, RFC 1812 section 4.3).

use std::net::Ipv4Addr;

use parshall_counters::DropReason;
use parshall_fib::Dpo;
use parshall_wire::{IpProtocol, MacAddr, PacketBuilder, TcpFlags};

use super::lab::*;
use crate::IcmpSettings;

const NET_UNREACHABLE: (u8, u8, u32) = (3, 0, 0);
const HOST_UNREACHABLE: (u8, u8, u32) = (3, 1, 0);
const PROTOCOL_UNREACHABLE: (u8, u8, u32) = (3, 2, 0);
const PORT_UNREACHABLE: (u8, u8, u32) = (3, 3, 0);
const PROHIBITED: (u8, u8, u32) = (3, 13, 0);
const TIME_EXCEEDED: (u8, u8, u32) = (11, 0, 0);

const NOWHERE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

fn to(dst: Ipv4Addr) -> PacketBuilder {
    to_router(1)
        .ipv4(host4(1), dst)
        .udp(33434, 53)
        .payload_len(40)
}

/// Expects the frame to be dropped for `reason` with the error `kind` to its sender.
#[track_caller]
fn expect_error(lab: &mut Lab, frame: &[u8], reason: DropReason, kind: (u8, u8, u32), ident: u16) {
    let before = lab.harness.drops(reason);
    let error = error4(1, host4(1), kind, &frame[14..], ident);
    lab.expect(1, frame, 1, &error);
    assert_eq!(lab.harness.drops(reason), before + 1);
}

#[test]
fn time_exceeded_when_the_ttl_runs_out_on_the_way() {
    let mut lab = Lab::new();
    for (i, ttl) in [0, 1].into_iter().enumerate() {
        let frame = to(far4(2)).ttl(ttl).build();
        let ident = i as u16 + 1;
        expect_error(
            &mut lab,
            &frame,
            DropReason::Ip4TtlExpired,
            TIME_EXCEEDED,
            ident,
        );
    }
    let c = &lab.harness.dispatcher.counters;
    assert_eq!((c.originated.get(), c.dropped.get()), (2, 2));
    assert_eq!(c.interfaces[1].rx_drops.get(), 2);
}

#[test]
fn a_traceroute_over_icmp_sees_the_router() {
    let mut lab = Lab::new();
    let probe = to_router(1)
        .ipv4(host4(1), far4(2))
        .ttl(1)
        .echo_request(7, 1)
        .build();
    expect_error(
        &mut lab,
        &probe,
        DropReason::Ip4TtlExpired,
        TIME_EXCEEDED,
        1,
    );
}

#[test]
fn every_kind_of_route_has_its_error() {
    let mut lab = Lab::new();
    lab.route4("192.0.2.2/32", Dpo::UNREACHABLE);
    lab.route4("192.0.2.3/32", Dpo::PROHIBIT);
    let kinds = [
        (1, DropReason::NoRoute, NET_UNREACHABLE),
        (2, DropReason::RouteUnreachable, HOST_UNREACHABLE),
        (3, DropReason::RouteProhibit, PROHIBITED),
    ];
    for (ident, (host, reason, kind)) in (1..).zip(kinds) {
        let frame = to([192, 0, 2, host].into()).build();
        expect_error(&mut lab, &frame, reason, kind, ident);
    }
}

#[test]
fn the_router_itself_answers_what_nobody_here_listens_to() {
    let mut lab = Lab::new();
    let udp = to(router4(2)).build();
    expect_error(&mut lab, &udp, DropReason::LocalNoPort, PORT_UNREACHABLE, 1);
    let gre = to_router(1)
        .ipv4(host4(1), router4(1))
        .protocol(IpProtocol::GRE)
        .payload_len(20)
        .build();
    expect_error(
        &mut lab,
        &gre,
        DropReason::LocalNoProtocol,
        PROTOCOL_UNREACHABLE,
        2,
    );
    let tcp = to_router(1)
        .ipv4(host4(1), router4(1))
        .tcp(1, 22, TcpFlags::SYN)
        .build();
    lab.expect_drop(1, &tcp, DropReason::LocalNoPort);
}

#[test]
fn an_error_quotes_up_to_576_bytes_in_all() {
    let mut lab = Lab::new();
    for (ident, len) in (1..).zip([14 + 28, 14 + 547, 14 + 548, 14 + 549, 1514]) {
        let frame = to_router(1)
            .ipv4(host4(1), NOWHERE)
            .udp(1, 2)
            .total_len(len)
            .build();
        expect_error(
            &mut lab,
            &frame,
            DropReason::NoRoute,
            NET_UNREACHABLE,
            ident,
        );
    }
    // A packet in several buffers.
    let frame = to_router(1)
        .ipv4(host4(1), NOWHERE)
        .udp(1, 2)
        .total_len(6000)
        .build();
    expect_error(&mut lab, &frame, DropReason::NoRoute, NET_UNREACHABLE, 6);
}

#[test]
fn padding_is_not_quoted_and_options_are() {
    let mut lab = Lab::new();
    let frame = to_router(1)
        .ipv4(host4(1), NOWHERE)
        .ipv4_options(&[7, 7, 4, 0, 0, 0, 0, 0])
        .udp(1, 2)
        .build();
    let error = error4(1, host4(1), NET_UNREACHABLE, &frame[14..], 1);
    let mut padded = frame.clone();
    padded.resize(60, 0xEE);
    lab.expect(1, &padded, 1, &error);
}

#[test]
fn too_big_with_df_is_answered_with_the_mtu() {
    let mut lab = Lab::new();
    lab.route4("10.66.0.0/16", lab.adj4(2, host4(2), 1400));
    let sized = |len: usize| {
        to_router(1)
            .ipv4(host4(1), [10, 66, 0, 1].into())
            .dont_fragment()
            .udp(1, 2)
            .total_len(14 + len)
            .build()
    };
    expect_error(
        &mut lab,
        &sized(1401),
        DropReason::FragmentationNeeded,
        (3, 4, 1400),
        1,
    );
    assert_eq!(lab.send(1, &sized(1400)).len(), 1);
}

#[test]
fn an_expired_packet_that_is_too_big_has_expired() {
    let mut lab = Lab::new();
    lab.route4("10.66.0.0/16", lab.adj4(2, host4(2), 100));
    let frame = to_router(1)
        .ipv4(host4(1), [10, 66, 0, 1].into())
        .ttl(1)
        .dont_fragment()
        .udp(1, 2)
        .total_len(400)
        .build();
    expect_error(
        &mut lab,
        &frame,
        DropReason::Ip4TtlExpired,
        TIME_EXCEEDED,
        1,
    );
}

#[test]
fn the_error_comes_from_the_interface_the_packet_came_in_by() {
    let mut lab = Lab::new();
    lab.edit(1, |_, a| {
        a.ip4 = vec![([10, 0, 1, 77].into(), 24), (router4(1), 24)]
    });
    let frame = to(NOWHERE).build();
    let expected = from_router(1)
        .ipv4([10, 0, 1, 77].into(), host4(1))
        .class(0xC0)
        .ident(1)
        .protocol(IpProtocol::ICMP)
        .payload(&icmp4(3, 0, 0, &frame[14..]))
        .build();
    lab.expect(1, &frame, 1, &expected);
    // An interface without an address speaks with another one's.
    lab.edit(1, |_, a| a.ip4.clear());
    let sent = lab.send(1, &frame);
    assert_eq!(sent[0].1[26..30], router4(2).octets());
    // A router without any address says nothing.
    lab.edit(2, |_, a| a.ip4.clear());
    lab.edit(3, |_, a| a.ip4.clear());
    lab.expect_drop(1, &frame, DropReason::NoRoute);
}

#[test]
fn an_error_finds_its_own_way_back() {
    let mut lab = Lab::new();
    let frame = to_router(1)
        .ipv4(far4(3), NOWHERE)
        .udp(1, 2)
        .payload_len(9)
        .build();
    let expected = from_router(3)
        .ipv4(router4(1), far4(3))
        .class(0xC0)
        .ident(1)
        .protocol(IpProtocol::ICMP)
        .payload(&icmp4(3, 0, 0, &frame[14..]))
        .build();
    lab.expect(1, &frame, 3, &expected);
}

#[test]
fn no_error_about_errors() {
    let mut lab = Lab::new();
    for msg_type in [3, 4, 5, 11, 12] {
        let frame = to_router(1)
            .ipv4(host4(1), NOWHERE)
            .protocol(IpProtocol::ICMP)
            .payload(&icmp4(msg_type, 0, 0, &[0; 28]))
            .build();
        lab.expect_drop(1, &frame, DropReason::NoRoute);
    }
    // A message whose type is cut off might be one.
    let frame = to_router(1)
        .ipv4(host4(1), NOWHERE)
        .protocol(IpProtocol::ICMP)
        .build();
    lab.expect_drop(1, &frame, DropReason::NoRoute);
    for msg_type in [0, 8, 13] {
        let frame = to_router(1)
            .ipv4(host4(1), NOWHERE)
            .protocol(IpProtocol::ICMP)
            .payload(&icmp4(msg_type, 0, 0, &[]))
            .build();
        assert_eq!(lab.send(1, &frame).len(), 1, "type {msg_type}");
    }
}

#[test]
fn no_error_about_later_fragments() {
    let mut lab = Lab::new();
    let piece = |offset, more| {
        to_router(1)
            .ipv4(host4(1), NOWHERE)
            .fragment(offset, more)
            .payload_len(64)
            .build()
    };
    lab.expect_drop(1, &piece(8, true), DropReason::NoRoute);
    lab.expect_drop(1, &piece(800, false), DropReason::NoRoute);
    assert_eq!(lab.send(1, &piece(0, true)).len(), 1);
}

#[test]
fn no_error_to_a_source_that_is_not_one_host() {
    // Those that reach the forwarding at all: a group frame does not.
    let mut lab = Lab::new();
    let mut frame = to(NOWHERE).build();
    frame[..6].copy_from_slice(&MacAddr::BROADCAST.0);
    lab.expect_drop(1, &frame, DropReason::UnicastInGroupFrame);
}

#[test]
fn no_error_about_what_the_router_says() {
    // The answer to a ping finds no way back, which is not worth an error to the router itself.
    let mut lab = Lab::new();
    let ping = to_router(1)
        .ipv4([203, 0, 113, 1].into(), router4(1))
        .echo_request(1, 1)
        .build();
    assert!(lab.send(1, &ping).is_empty());
    let c = &lab.harness.dispatcher.counters;
    assert_eq!((c.originated.get(), c.punted.get()), (1, 1));
    assert_eq!(lab.drops(), [("ip4-lookup".into(), "no_route", 1)]);
    assert_eq!(c.interfaces[1].rx_drops.get(), 0);
}

#[test]
fn a_router_told_to_be_silent_drops_what_has_no_way() {
    let mut lab = Lab::new();
    lab.tell("ip4-icmp-error", IcmpSettings { silent: true });
    lab.expect_drop(1, &to(NOWHERE).build(), DropReason::NoRoute);
    // Other errors are still told.
    expect_error(
        &mut lab,
        &to(far4(2)).ttl(1).build(),
        DropReason::Ip4TtlExpired,
        TIME_EXCEEDED,
        1,
    );
}

#[test]
fn errors_are_limited_to_a_burst_and_a_rate() {
    let mut lab = Lab::new();
    let frames = vec![to(NOWHERE).build(); 300];
    assert_eq!(lab.send_all(1, &frames).len(), 100);
    assert_eq!(lab.send_all(1, &frames).len(), 0);
    // A thousand a second: one a millisecond, and what is left of one is not lost.
    for _ in 0..10 {
        lab.now += SECOND * 3 / 2000;
        lab.send_all(1, &frames);
    }
    let made = |lab: &Lab| lab.harness.dispatcher.counters.originated.get();
    assert_eq!(made(&lab), 115);
    lab.now += SECOND / 1000 - 1;
    lab.send_all(1, &frames);
    assert_eq!(made(&lab), 115);
    lab.now += 1;
    lab.send_all(1, &frames);
    assert_eq!(made(&lab), 116);
    // No more than the burst is ever saved up.
    lab.now += 3600 * SECOND;
    assert_eq!(lab.send_all(1, &frames).len(), 100);
    let c = &lab.harness.dispatcher.counters;
    assert_eq!(c.dropped.get(), lab.harness.drops(DropReason::NoRoute));
}

#[test]
fn what_was_dropped_is_counted_once_with_its_reason() {
    let mut lab = Lab::new();
    lab.send_all(1, &vec![to(NOWHERE).build(); 250]);
    assert_eq!(lab.harness.drops(DropReason::NoRoute), 250);
    assert_eq!(lab.dropped(), 250);
    assert_eq!(
        lab.harness.dispatcher.counters.interfaces[1].rx_drops.get(),
        250
    );
}
