//! `ip4-icmp-input` and the echo of `ip6-icmp-input`: the router answers pings.

use std::net::Ipv6Addr;

use parshall_counters::DropReason;
use parshall_wire::{IpProtocol, MacAddr, PacketBuilder};

use super::lab::*;

fn ping4(len: usize) -> (Vec<u8>, Vec<u8>) {
    let ping = to_router(1)
        .ipv4(host4(1), router4(1))
        .ttl(9)
        .class(0x28)
        .ident(77)
        .echo_request(0x1234, 7)
        .payload_len(len);
    let reply = from_router(1)
        .ipv4(router4(1), host4(1))
        .class(0x28)
        .ident(77)
        .echo_reply(0x1234, 7)
        .payload_len(len);
    (ping.build(), reply.build())
}

fn ping6(len: usize) -> (Vec<u8>, Vec<u8>) {
    let ping = to_router(1)
        .ipv6(host6(1), router6(1))
        .ttl(9)
        .echo_request(0x1234, 7)
        .payload_len(len);
    let reply = from_router(1)
        .ipv6(router6(1), host6(1))
        .echo_reply(0x1234, 7)
        .payload_len(len);
    (ping.build(), reply.build())
}

/// A router whose link 1 carries 9,000 bytes.
fn jumbo() -> Lab {
    let mut lab = Lab::new();
    lab.harness.add_interface(1, 9014);
    lab.route4("10.0.1.2/32", lab.adj4(1, host4(1), 9000));
    lab.route6("2001:db8:0:1::2/128", lab.adj6(1, host6(1), 9000));
    lab
}

#[test]
fn pings_of_every_size_are_answered() {
    let mut lab = jumbo();
    for len in [
        0, 1, 2, 55, 56, 57, 1472, 2133, 2134, 2135, 4000, 7999, 8000,
    ] {
        let (ping, reply) = ping4(len);
        lab.expect(1, &ping, 1, &reply);
        let (ping, reply) = ping6(len);
        lab.expect(1, &ping, 1, &reply);
    }
    let c = &lab.harness.dispatcher.counters;
    assert_eq!((c.punted.get(), c.originated.get()), (26, 26));
}

#[test]
fn any_own_address_answers_from_any_side() {
    let mut lab = Lab::new();
    for n in 1..=3 {
        let ping = to_router(1)
            .ipv4(far4(1), router4(n))
            .echo_request(1, 1)
            .build();
        let reply = from_router(1)
            .ipv4(router4(n), far4(1))
            .echo_reply(1, 1)
            .build();
        lab.expect(1, &ping, 1, &reply);
        let ping = to_router(1)
            .ipv6(far6(1), router6(n))
            .echo_request(1, 1)
            .build();
        let reply = from_router(1)
            .ipv6(router6(n), far6(1))
            .echo_reply(1, 1)
            .build();
        lab.expect(1, &ping, 1, &reply);
    }
}

#[test]
fn a_wrong_checksum_is_dropped_wherever_the_fault_is() {
    let mut lab = jumbo();
    for (frame, header) in [(ping4(8000).0, 34), (ping6(8000).0, 54)] {
        for at in [
            header + 2,
            header + 7,
            header + 1000,
            2190,
            5000,
            frame.len() - 1,
        ] {
            let mut frame = frame.clone();
            frame[at] ^= 0x40;
            lab.expect_drop(1, &frame, DropReason::LocalBadChecksum);
        }
    }
}

#[test]
fn a_message_without_a_whole_header_is_dropped() {
    let mut lab = Lab::new();
    for len in 0..8 {
        let four = to_router(1)
            .ipv4(host4(1), router4(1))
            .protocol(IpProtocol::ICMP)
            .payload_len(len)
            .build();
        lab.expect_drop(1, &four, DropReason::LocalBadChecksum);
        let six = to_router(1)
            .ipv6(host6(1), router6(1))
            .protocol(IpProtocol::ICMPV6)
            .payload_len(len)
            .build();
        lab.expect_drop(1, &six, DropReason::LocalBadChecksum);
    }
}

#[test]
fn errors_and_replies_to_the_router_are_consumed() {
    let mut lab = Lab::new();
    for msg_type in [0, 3, 4, 5, 11, 12] {
        let frame = to_router(1)
            .ipv4(host4(1), router4(1))
            .protocol(IpProtocol::ICMP)
            .payload(&icmp4(msg_type, 0, 0, &[0; 28]))
            .build();
        assert!(lab.send(1, &frame).is_empty());
    }
    for msg_type in [1, 2, 3, 4, 129] {
        let frame = to_router(1)
            .ipv6(host6(1), router6(1))
            .protocol(IpProtocol::ICMPV6)
            .payload(&icmp6(msg_type, 0, 0, &[0; 48]))
            .build();
        assert!(lab.send(1, &frame).is_empty());
    }
    let c = &lab.harness.dispatcher.counters;
    assert_eq!((c.punted.get(), c.dropped.get()), (11, 0));
    assert_eq!(c.interfaces[1].punts.get(), 11);
}

#[test]
fn other_messages_are_dropped() {
    let mut lab = Lab::new();
    for msg_type in [8, 13, 17] {
        let frame = to_router(1)
            .ipv4(host4(1), router4(1))
            .protocol(IpProtocol::ICMP)
            .payload(&icmp4(msg_type, 0, 0, &[]))
            .build();
        if msg_type == 8 {
            assert_eq!(lab.send(1, &frame).len(), 1);
        } else {
            lab.expect_drop(1, &frame, DropReason::IcmpUnhandled);
        }
    }
    // A multicast listener report.
    let frame = to_router(1)
        .ipv6(host6(1), router6(1))
        .protocol(IpProtocol::ICMPV6)
        .payload(&icmp6(131, 0, 0, &[0; 16]))
        .build();
    lab.expect_drop(1, &frame, DropReason::IcmpUnhandled);
}

/// A frame from the host on interface 1 to a group of IPv6.
fn to_group(group: Ipv6Addr) -> PacketBuilder {
    PacketBuilder::ethernet(host_mac(1), MacAddr::from_ipv6_multicast(group))
}

#[test]
fn a_ping_to_all_nodes_is_answered_from_the_link_local_address() {
    let mut lab = Lab::new();
    let ping = to_group(ALL_NODES)
        .ipv6(host_ll(1), ALL_NODES)
        .echo_request(3, 4)
        .payload_len(56)
        .build();
    let reply = from_router(1)
        .ipv6(router_ll(1), host_ll(1))
        .echo_reply(3, 4)
        .payload_len(56)
        .build();
    lab.expect(1, &ping, 1, &reply);
    // From a global address the way back is that of the tables.
    let ping = to_group(ALL_NODES)
        .ipv6(host6(1), ALL_NODES)
        .echo_request(3, 4)
        .build();
    let reply = from_router(1)
        .ipv6(router_ll(1), host6(1))
        .echo_reply(3, 4)
        .build();
    lab.expect(1, &ping, 1, &reply);
}

#[test]
fn link_local_addresses_answer_on_their_link_only() {
    let mut lab = Lab::new();
    for n in 1..=3 {
        let ping = to_router(n)
            .ipv6(host_ll(n), router_ll(n))
            .echo_request(1, 1)
            .build();
        let reply = from_router(n)
            .ipv6(router_ll(n), host_ll(n))
            .echo_reply(1, 1)
            .build();
        lab.expect(n, &ping, n, &reply);
    }
    let ping = to_router(1)
        .ipv6(host_ll(1), router_ll(2))
        .echo_request(1, 1)
        .build();
    lab.expect_drop(1, &ping, DropReason::Ip6LinkLocal);
}

#[test]
fn the_router_listens_to_its_groups_and_no_others() {
    let mut lab = Lab::new();
    let solicited =
        |low: u32| Ipv6Addr::from(0xFF02_0000_0000_0000_0000_0001_FF00_0000 | u128::from(low));
    let joined = [
        ALL_NODES,
        Ipv6Addr::new(0xFF02, 0, 0, 0, 0, 0, 0, 2),
        solicited(1),
        solicited(0xAB_CDEF),
    ];
    lab.edit(1, |_, a| {
        a.ip6.push(("2001:db8:0:1::12ab:cdef".parse().unwrap(), 64));
    });
    for group in joined {
        let ping = to_group(group)
            .ipv6(host_ll(1), group)
            .echo_request(1, 1)
            .build();
        assert_eq!(lab.send(1, &ping).len(), 1, "{group}");
    }
    for group in [
        Ipv6Addr::new(0xFF02, 0, 0, 0, 0, 0, 0, 5),
        Ipv6Addr::new(0xFF05, 0, 0, 0, 0, 0, 0, 2),
        Ipv6Addr::new(0xFF02, 0, 0, 0, 0, 0, 0, 0x16),
        Ipv6Addr::new(0xFF0E, 0, 0, 0, 0, 0, 1, 1),
        solicited(0x99),
    ] {
        let ping = to_group(group)
            .ipv6(host_ll(1), group)
            .echo_request(1, 1)
            .build();
        lab.expect_drop(1, &ping, DropReason::Ip6Multicast);
    }
}

#[test]
fn a_ping_with_extension_headers_is_answered() {
    let mut lab = Lab::new();
    let ping = to_router(1)
        .ipv6(host6(1), router6(1))
        .extension(IpProtocol::DESTINATION_OPTIONS, &[1, 4, 0, 0, 0, 0])
        .echo_request(5, 6)
        .payload_len(10)
        .build();
    let reply = from_router(1)
        .ipv6(router6(1), host6(1))
        .extension(IpProtocol::DESTINATION_OPTIONS, &[1, 4, 0, 0, 0, 0])
        .echo_reply(5, 6)
        .payload_len(10)
        .build();
    lab.expect(1, &ping, 1, &reply);
}

#[test]
fn options_of_a_ping_come_back_with_it() {
    let mut lab = Lab::new();
    let ping = to_router(1)
        .ipv4(host4(1), router4(1))
        .ipv4_options(&[1, 1, 1, 0])
        .echo_request(5, 6)
        .build();
    let reply = from_router(1)
        .ipv4(router4(1), host4(1))
        .ipv4_options(&[1, 1, 1, 0])
        .echo_reply(5, 6)
        .build();
    lab.expect(1, &ping, 1, &reply);
}
