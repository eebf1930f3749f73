//! `ip6-input`, `ip6-lookup`, `ip6-rewrite`: which packets are taken, where they go, how they look then.

use std::net::Ipv6Addr;

use parshall_counters::DropReason;
use parshall_fib::{Dpo, DpoKind};
use parshall_wire::{IpProtocol, MacAddr, PacketBuilder};

use super::lab::*;
use super::parshall_nodes::if_flags;

const IP: usize = 14;
const LOOPBACK: Ipv6Addr = Ipv6Addr::LOCALHOST;
const NONE: Ipv6Addr = Ipv6Addr::UNSPECIFIED;

fn packet(link: PacketBuilder, hop_limit: u8) -> PacketBuilder {
    link.ipv6(far6(1), far6(3))
        .ttl(hop_limit)
        .class(0xB8)
        .flow_label(0x12345)
        .udp(1000, 2000)
        .payload_len(100)
}

fn between(src: Ipv6Addr, dst: Ipv6Addr) -> Vec<u8> {
    to_router(1).ipv6(src, dst).udp(1, 2).build()
}

#[test]
fn a_packet_gets_a_lower_hop_limit_and_a_new_header() {
    let mut lab = Lab::new();
    for hops in [2, 3, 64, 255] {
        let (frame, out) = (packet(to_router(1), hops), packet(from_router(3), hops - 1));
        lab.expect(1, &frame.build(), 3, &out.build());
    }
}

#[test]
fn a_header_must_be_all_there_and_of_version_6() {
    let mut lab = Lab::new();
    let frame = packet(to_router(1), 64).build();
    for len in [IP, IP + 1, IP + 39] {
        lab.expect_drop(1, &frame[..len], DropReason::Ip6TooShort);
    }
    for version in [0u8, 4, 7, 15] {
        let mut frame = frame.clone();
        frame[IP] = version << 4;
        lab.expect_drop(1, &frame, DropReason::Ip6BadVersion);
    }
}

#[test]
fn the_payload_length_must_fit_the_frame() {
    let mut lab = Lab::new();
    let frame = packet(to_router(1), 64).build();
    lab.expect_drop(1, &frame[..frame.len() - 1], DropReason::Ip6BadLength);
    let mut long = frame.clone();
    long[IP + 4..IP + 6].copy_from_slice(&u16::MAX.to_be_bytes());
    lab.expect_drop(1, &long, DropReason::Ip6BadLength);
}

#[test]
fn link_layer_padding_is_cut_off() {
    let mut lab = Lab::new();
    for padded in [200, 6000] {
        let mut frame = packet(to_router(1), 64).build();
        frame.resize(padded, 0xEE);
        lab.expect(1, &frame, 3, &packet(from_router(3), 63).build());
    }
}

#[test]
fn a_packet_may_have_no_payload() {
    let mut lab = Lab::new();
    let empty = |link: PacketBuilder, hops| {
        link.ipv6(far6(1), far6(3))
            .ttl(hops)
            .protocol(IpProtocol::NO_NEXT_HEADER)
            .build()
    };
    lab.expect(1, &empty(to_router(1), 64), 3, &empty(from_router(3), 63));
}

#[test]
fn jumbo_packets_pass_in_chains() {
    let mut lab = Lab::new();
    lab.harness.add_interface(3, 9014);
    lab.route6("2001:db8:13::/48", lab.adj6(3, host6(3), 9000));
    let jumbo = |link, hops| packet(link, hops).total_len(9014).build();
    lab.expect(1, &jumbo(to_router(1), 64), 3, &jumbo(from_router(3), 63));
}

#[test]
fn impossible_sources_are_dropped() {
    let mut lab = Lab::new();
    for (src, reason) in [
        (LOOPBACK, DropReason::Ip6SourceLoopback),
        (NONE, DropReason::Ip6SourceUnspecified),
        (ALL_NODES, DropReason::Ip6SourceMulticast),
        ("ff0e::1".parse().unwrap(), DropReason::Ip6SourceMulticast),
    ] {
        lab.expect_drop(1, &between(src, far6(3)), reason);
    }
}

#[test]
fn impossible_destinations_are_dropped() {
    let mut lab = Lab::new();
    for (dst, reason) in [
        (LOOPBACK, DropReason::Ip6DestinationLoopback),
        (NONE, DropReason::Ip6DestinationUnspecified),
    ] {
        lab.expect_drop(1, &between(host6(1), dst), reason);
    }
}

#[test]
fn unusual_addresses_are_forwarded_like_others() {
    let mut lab = Lab::new();
    lab.route6("::/0", lab.adj6(2, host6(2), MTU));
    for text in [
        "::2",
        "64:ff9b::1",
        "100::1",
        "4000::1",
        "fd00::1",
        "fec0::1",
    ] {
        let address: Ipv6Addr = text.parse().unwrap();
        let with =
            |link: PacketBuilder, hops| link.ipv6(address, address).ttl(hops).udp(1, 2).build();
        lab.expect(1, &with(to_router(1), 64), 2, &with(from_router(2), 63));
    }
}

#[test]
fn multicast_is_not_forwarded() {
    let mut lab = Lab::new();
    lab.route6("::/0", lab.adj6(2, host6(2), MTU));
    let group: Ipv6Addr = "ff0e::101".parse().unwrap();
    let frame = PacketBuilder::ethernet(host_mac(1), MacAddr::from_ipv6_multicast(group))
        .ipv6(host6(1), group)
        .udp(1, 2)
        .build();
    lab.expect_drop(1, &frame, DropReason::Ip6Multicast);
}

#[test]
fn link_local_destinations_stay_on_their_link() {
    let mut lab = Lab::new();
    lab.route6("::/0", lab.adj6(2, host6(2), MTU));
    let frame = between(host6(1), host_ll(2));
    lab.expect_drop(1, &frame, DropReason::Ip6LinkLocal);
    let frame = between(host_ll(1), host_ll(1));
    lab.expect_drop(1, &frame, DropReason::Ip6LinkLocal);
}

#[test]
fn an_interface_without_ipv6_takes_none() {
    let mut lab = Lab::new();
    lab.clear_flags(1, if_flags::IP6);
    let frame = packet(to_router(1), 64).build();
    lab.expect_drop(1, &frame, DropReason::Ip6NotEnabled);
}

#[test]
fn a_hop_limit_of_0_is_taken_by_the_router_itself() {
    // RFC 8200 section 3.
    let mut lab = Lab::new();
    for hops in [0, 1] {
        let ping = to_router(1)
            .ipv6(host6(1), router6(1))
            .ttl(hops)
            .echo_request(1, 2)
            .build();
        let reply = from_router(1)
            .ipv6(router6(1), host6(1))
            .echo_reply(1, 2)
            .build();
        lab.expect(1, &ping, 1, &reply);
    }
}

#[test]
fn the_longest_prefix_wins() {
    let mut lab = Lab::new();
    lab.route6("2001:db8::/32", lab.adj6(2, host6(2), MTU));
    lab.route6("2001:db8:13:8000::/49", lab.adj6(1, host6(1), MTU));
    for (dst, out) in [
        ("2001:db8:13::9", 3),
        ("2001:db8:13:8000::9", 1),
        ("2001:db8:ffff::9", 2),
        ("2001:db8:0:3::2", 3),
    ] {
        let frame = between(host6(1), dst.parse().unwrap());
        let sent = lab.send(1, &frame);
        assert_eq!(sent.iter().map(|s| s.0).collect::<Vec<_>>(), [out], "{dst}");
    }
}

#[test]
fn silent_drops_and_loops() {
    let mut lab = Lab::new();
    let other = lab.shared.ip6.create().unwrap();
    lab.route6_in(other, "2001:db8:69::/48", Dpo::new(DpoKind::LookupIp6, 0));
    for (prefix, dpo, reason) in [
        ("66", Dpo::BLACKHOLE, DropReason::RouteBlackhole),
        (
            "67",
            Dpo::new(DpoKind::Adjacency, 4000),
            DropReason::NoAdjacency,
        ),
        (
            "68",
            Dpo::new(DpoKind::LookupIp4, 0),
            DropReason::NoAdjacency,
        ),
        (
            "69",
            Dpo::new(DpoKind::LookupIp6, other),
            DropReason::LookupLoop,
        ),
        (
            "70",
            Dpo::new(DpoKind::LoadBalance, 60),
            DropReason::NoAdjacency,
        ),
    ] {
        lab.route6(&format!("2001:db8:{prefix}::/48"), dpo);
        let dst = format!("2001:db8:{prefix}::1").parse().unwrap();
        lab.expect_drop(1, &between(host6(1), dst), reason);
    }
}

#[test]
fn interfaces_may_have_tables_of_their_own() {
    let mut lab = Lab::new();
    let red = lab.shared.ip6.create().unwrap();
    lab.route6_in(red, "2001:db8:12::/48", lab.adj6(3, host6(3), MTU));
    lab.edit(1, |view, _| view.ip6_table = red);
    let frame = between(host6(1), far6(2));
    let mut other = frame.clone();
    other[..6].copy_from_slice(&router_mac(2).0);
    assert_eq!(lab.send(1, &frame)[0].0, 3);
    assert_eq!(lab.send(2, &other)[0].0, 2);
    let sent = lab.send_mixed(&[(1, frame.clone()), (2, other), (1, frame)]);
    let mut out: Vec<_> = sent.iter().map(|s| s.0).collect();
    out.sort_unstable();
    assert_eq!(out, [2, 3, 3]);
}

#[test]
fn a_route_may_point_into_another_table() {
    let mut lab = Lab::new();
    let other = lab.shared.ip6.create().unwrap();
    lab.route6("2001:db8:66::/48", Dpo::new(DpoKind::LookupIp6, other));
    lab.route6_in(other, "2001:db8:66:1::/64", lab.adj6(3, host6(3), MTU));
    let frame = between(host6(1), "2001:db8:66:1::1".parse().unwrap());
    assert_eq!(lab.send(1, &frame)[0].0, 3);
    // An error about a packet is looked up where its source is: in the table of its interface.
    let frame = between(host6(1), "2001:db8:66:2::1".parse().unwrap());
    let error = error6(1, host6(1), (1, 0, 0), &frame[IP..]);
    lab.expect(1, &frame, 1, &error);
}

#[test]
fn equal_paths_share_flows_and_keep_each_together() {
    let mut lab = Lab::new();
    let balance = lab.balance(&[lab.adj6(2, host6(2), MTU), lab.adj6(3, host6(3), MTU)]);
    lab.route6("2001:db8:66::/48", balance);
    let dst: Ipv6Addr = "2001:db8:66::1".parse().unwrap();
    let mut by_port = Vec::new();
    for round in 0..2 {
        let frames: Vec<_> = (0..1000)
            .map(|p| {
                to_router(1)
                    .ipv6(host6(1), dst)
                    .ttl(64 - round)
                    .udp(p, 53)
                    .build()
            })
            .collect();
        let mut out = vec![0; 1000];
        for (n, bytes) in lab.send_all(1, &frames) {
            out[usize::from(u16::from_be_bytes([bytes[54], bytes[55]]))] = n;
        }
        by_port.push(out);
    }
    assert_eq!(by_port[0], by_port[1]);
    let second = by_port[0].iter().filter(|n| **n == 2).count();
    // 500 expected, standard deviation 16.
    assert!((400..600).contains(&second), "{second}");
}

#[test]
fn one_flow_label_is_one_flow_where_ports_are_hidden() {
    let mut lab = Lab::new();
    let balance = lab.balance(&[lab.adj6(2, host6(2), MTU), lab.adj6(3, host6(3), MTU)]);
    lab.route6("2001:db8:66::/48", balance);
    let dst: Ipv6Addr = "2001:db8:66::1".parse().unwrap();
    let frames: Vec<_> = (0..400u32)
        .map(|i| {
            to_router(1)
                .ipv6(host6(1), dst)
                .flow_label(i / 2)
                .extension(IpProtocol::DESTINATION_OPTIONS, &[1, 4])
                .udp(i as u16, 53)
                .build()
        })
        .collect();
    let mut out = std::collections::HashMap::<u32, Vec<u32>>::new();
    for (n, b) in lab.send_all(1, &frames) {
        let label = u32::from_be_bytes([0, b[15] & 15, b[16], b[17]]);
        out.entry(label).or_default().push(n);
    }
    assert!(out.len() == 200 && out.values().all(|n| n.len() == 2 && n[0] == n[1]));
    assert!(out.values().any(|n| n[0] == 2) && out.values().any(|n| n[0] == 3));
}

#[test]
fn packets_the_router_makes_keep_their_hop_limit_and_scope() {
    let mut lab = Lab::new();
    let node = lab.graph.node("ip6-lookup").unwrap();
    let packet = |link: PacketBuilder| link.ipv6(router_ll(2), far6(2)).ttl(1).udp(1, 2).build();
    let d = &mut lab.harness.dispatcher;
    assert!(d.inject(node, &packet(PacketBuilder::bare()), u32::MAX));
    d.run();
    assert_eq!(lab.harness.sent(), [(2, packet(from_router(2)))]);
    lab.harness.conserved().unwrap();
}
