//! `ip4-input`: every check of RFC 1812 section 5.2.2, and of addresses.

use std::net::Ipv4Addr;

use parshall_counters::DropReason;
use parshall_wire::{IpProtocol, Ipv4Packet, PacketBuilder};

use super::lab::*;
use super::parshall_nodes::if_flags;

/// Offset of the IPv4 header in a frame.
const IP: usize = 14;

fn packet(link: PacketBuilder) -> PacketBuilder {
    link.ipv4(host4(1), far4(2)).udp(1000, 2000).payload_len(40)
}

/// A good frame with one change to its IPv4 header, its checksum made right again.
fn changed(change: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let mut frame = packet(to_router(1)).build();
    change(&mut frame[IP..]);
    Ipv4Packet::new_unchecked(&mut frame[IP..IP + 20]).fill_checksum();
    frame
}

/// A frame between these addresses.
fn between(src: Ipv4Addr, dst: Ipv4Addr) -> Vec<u8> {
    to_router(1)
        .ipv4(src, dst)
        .udp(1000, 2000)
        .payload_len(8)
        .build()
}

#[test]
fn a_header_must_be_all_there() {
    let mut lab = Lab::new();
    let frame = packet(to_router(1)).build();
    for len in [IP, IP + 1, IP + 19] {
        lab.expect_drop(1, &frame[..len], DropReason::Ip4TooShort);
    }
}

#[test]
fn the_version_must_be_4() {
    let mut lab = Lab::new();
    for version in [0u8, 5, 6, 15] {
        let frame = changed(|h| h[0] = version << 4 | 5);
        lab.expect_drop(1, &frame, DropReason::Ip4BadVersion);
    }
}

#[test]
fn the_header_length_must_be_20_at_least_and_fit() {
    let mut lab = Lab::new();
    for words in 0..5u8 {
        let frame = changed(|h| h[0] = 0x40 | words);
        lab.expect_drop(1, &frame, DropReason::Ip4BadHeaderLength);
    }
    let short = to_router(1).ipv4(host4(1), far4(2)).build();
    let mut frame = short.clone();
    frame[IP] = 0x46;
    lab.expect_drop(1, &frame, DropReason::Ip4BadHeaderLength);
}

#[test]
fn the_checksum_must_be_right() {
    let mut lab = Lab::new();
    for bit in 0..16 {
        let mut frame = packet(to_router(1)).build();
        frame[IP + 10 + bit / 8] ^= 1 << (bit % 8);
        lab.expect_drop(1, &frame, DropReason::Ip4BadChecksum);
    }
    let mut frame = packet(to_router(1)).build();
    frame[IP + 1] ^= 0x10;
    lab.expect_drop(1, &frame, DropReason::Ip4BadChecksum);
}

#[test]
fn the_total_length_must_hold_the_header_and_fit_the_frame() {
    let mut lab = Lab::new();
    for total in [0u16, 19, 69, 70, u16::MAX] {
        let frame = changed(|h| h[2..4].copy_from_slice(&total.to_be_bytes()));
        lab.expect_drop(1, &frame, DropReason::Ip4BadLength);
    }
}

#[test]
fn link_layer_padding_is_cut_off() {
    let mut lab = Lab::new();
    let small = |link: PacketBuilder, ttl| link.ipv4(host4(1), far4(2)).ttl(ttl).udp(7, 8).build();
    let mut frame = small(to_router(1), 64);
    frame.resize(60, 0xEE);
    lab.expect(1, &frame, 2, &small(from_router(2), 63));
}

#[test]
fn padding_of_a_chained_packet_is_cut_off() {
    let mut lab = Lab::new();
    let mut frame = packet(to_router(1)).build();
    frame.resize(6000, 0xEE);
    let out = packet(from_router(2)).build();
    let sent = lab.send(1, &frame);
    assert_eq!(sent[0].1.len(), out.len());
    assert_eq!(sent[0].1[IP + 20..], out[IP + 20..]);
}

#[test]
fn options_are_carried_along() {
    let mut lab = Lab::new();
    for options in [&[1u8, 1, 1, 0][..], &[7, 7, 4, 0, 0, 0, 0], &[0x94; 40]] {
        let with = |link: PacketBuilder, ttl| {
            link.ipv4(host4(1), far4(2))
                .ttl(ttl)
                .ipv4_options(options)
                .udp(1, 2)
                .payload_len(30)
                .build()
        };
        lab.expect(1, &with(to_router(1), 64), 2, &with(from_router(2), 63));
    }
}

#[test]
fn a_wrong_checksum_over_options_is_seen() {
    let mut frame = to_router(1)
        .ipv4(host4(1), far4(2))
        .ipv4_options(&[0x94, 4, 0, 0])
        .udp(1, 2)
        .build();
    frame[IP + 23] = 1;
    Lab::new().expect_drop(1, &frame, DropReason::Ip4BadChecksum);
}

#[test]
fn jumbo_packets_pass_in_chains() {
    let mut lab = Lab::new();
    lab.harness.add_interface(2, 9014);
    let wide = lab.adj4(2, host4(2), 9000);
    lab.route4("10.50.0.0/16", wide);
    let jumbo = |link: PacketBuilder, ttl| {
        link.ipv4(host4(1), [10, 50, 0, 1].into())
            .ttl(ttl)
            .udp(1, 2)
            .total_len(9014)
            .build()
    };
    lab.expect(1, &jumbo(to_router(1), 64), 2, &jumbo(from_router(2), 63));
}

#[test]
fn impossible_sources_are_dropped() {
    let mut lab = Lab::new();
    use DropReason as D;
    for (src, reason) in [
        ([0, 0, 0, 0], D::Ip4SourceUnspecified),
        ([0, 1, 2, 3], D::Ip4SourceUnspecified),
        ([127, 0, 0, 1], D::Ip4SourceLoopback),
        ([224, 0, 0, 1], D::Ip4SourceMulticast),
        ([239, 255, 255, 255], D::Ip4SourceMulticast),
        ([240, 0, 0, 1], D::Ip4SourceClassE),
        ([255, 255, 255, 254], D::Ip4SourceClassE),
        ([255, 255, 255, 255], D::Ip4SourceBroadcast),
    ] {
        lab.expect_drop(1, &between(src.into(), far4(2)), reason);
    }
}

#[test]
fn impossible_destinations_are_dropped() {
    let mut lab = Lab::new();
    use DropReason as D;
    for (dst, reason) in [
        ([0, 0, 0, 0], D::Ip4DestinationUnspecified),
        ([0, 9, 9, 9], D::Ip4DestinationUnspecified),
        ([127, 0, 0, 1], D::Ip4DestinationLoopback),
        ([240, 0, 0, 1], D::Ip4DestinationClassE),
        ([255, 0, 0, 1], D::Ip4DestinationClassE),
    ] {
        lab.expect_drop(1, &between(host4(1), dst.into()), reason);
    }
}

#[test]
fn multicast_and_limited_broadcast_are_not_forwarded() {
    let mut lab = Lab::new();
    lab.route4("0.0.0.0/0", lab.adj4(2, host4(2), MTU));
    for dst in [[224, 0, 0, 5], [239, 1, 1, 1], [255, 255, 255, 255]] {
        let frame = between(host4(1), dst.into());
        lab.expect_drop(1, &frame, DropReason::Ip4Multicast);
    }
}

#[test]
fn an_interface_without_ipv4_takes_none() {
    let mut lab = Lab::new();
    lab.clear_flags(1, if_flags::IP4);
    lab.expect_drop(1, &packet(to_router(1)).build(), DropReason::Ip4NotEnabled);
    // What is wrong with the packet comes first.
    let bad = changed(|h| h[0] = 0x55);
    lab.expect_drop(1, &bad, DropReason::Ip4BadVersion);
}

#[test]
fn a_ttl_of_0_is_taken_by_the_router_itself() {
    // RFC 1812 section 4.2.2.9.
    let mut lab = Lab::new();
    for ttl in [0, 1] {
        let ping = to_router(1)
            .ipv4(host4(1), router4(1))
            .ttl(ttl)
            .echo_request(1, 2)
            .build();
        let reply = from_router(1)
            .ipv4(router4(1), host4(1))
            .echo_reply(1, 2)
            .build();
        lab.expect(1, &ping, 1, &reply);
    }
}

#[test]
fn what_is_over_ip_does_not_matter() {
    let mut lab = Lab::new();
    for protocol in 0..=255 {
        let with = |link: PacketBuilder, ttl| {
            link.ipv4(host4(1), far4(2))
                .ttl(ttl)
                .protocol(IpProtocol(protocol))
                .payload_len(26)
                .build()
        };
        lab.expect(1, &with(to_router(1), 64), 2, &with(from_router(2), 63));
    }
}
