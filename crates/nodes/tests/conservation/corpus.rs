//! Good frames of every protocol the router knows: what mutations start from.

use std::net::{Ipv4Addr, Ipv6Addr};

use parshall_wire::{
    ArpOperation, ArpRepr, EtherType, IpProtocol, MacAddr, NdiscPacket, NdiscRepr, PacketBuilder,
    TcpFlags,
};

use crate::mutate::Rng;

/// The router's address on interface `n`.
pub fn router4(n: u32) -> Ipv4Addr {
    Ipv4Addr::new(10, 200, n as u8, 1)
}
/// The router's address on interface `n`.
pub fn router6(n: u32) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xDB8, 200, n as u16, 0, 0, 0, 1)
}
/// The router's Ethernet address on interface `n`.
pub fn router_mac(n: u32) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, n as u8])
}
/// The other end of tunnels.
pub const TUNNEL4: Ipv4Addr = Ipv4Addr::new(10, 63, 0, 1);
/// The same of those over IPv6.
pub const TUNNEL6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xDB8, 63, 0, 0, 0, 0, 1);
const HOST: MacAddr = MacAddr([2, 0, 0, 0, 1, 1]);

fn source4(rng: &mut Rng) -> Ipv4Addr {
    Ipv4Addr::new(
        10,
        rng.below(64) as u8,
        rng.below(4) as u8,
        rng.below(256) as u8,
    )
}

fn target4(rng: &mut Rng) -> Ipv4Addr {
    match rng.below(12) {
        0..3 => router4(rng.below(12) as u32),
        3 => Ipv4Addr::new(10, 200, rng.below(12) as u8, rng.below(256) as u8),
        4 => Ipv4Addr::from(rng.next() as u32),
        5 => *rng.pick(&[
            Ipv4Addr::BROADCAST,
            Ipv4Addr::UNSPECIFIED,
            Ipv4Addr::LOCALHOST,
            Ipv4Addr::new(224, 0, 0, 1),
        ]),
        _ => source4(rng),
    }
}

fn source6(rng: &mut Rng) -> Ipv6Addr {
    let low = rng.below(256) as u16;
    match rng.below(8) {
        0 => Ipv6Addr::new(0xFE80, 0, 0, 0, 0, 0, 0, low),
        1 => Ipv6Addr::UNSPECIFIED,
        _ => Ipv6Addr::new(0x2001, 0xDB8, rng.below(64) as u16, 0, 0, 0, 0, low),
    }
}

fn target6(rng: &mut Rng) -> Ipv6Addr {
    let n = rng.below(12) as u32;
    match rng.below(12) {
        0..3 => router6(n),
        3 => Ipv6Addr::new(0x2001, 0xDB8, 200, n as u16, 0, 0, 0, rng.below(256) as u16),
        4 => Ipv6Addr::from(u128::from(rng.next()) << 64 | u128::from(rng.next())),
        5 => Ipv6Addr::new(0xFF02, 0, 0, 0, 0, 0, 0, rng.below(4) as u16),
        6 => router_mac(n).link_local(),
        _ => Ipv6Addr::new(0x2001, 0xDB8, rng.below(64) as u16, 0, 0, 0, 0, 9),
    }
}

/// The end of a packet: something over IP.
fn upper(rng: &mut Rng, p: PacketBuilder) -> PacketBuilder {
    let len = match rng.below(16) {
        0 => 8000,
        1 => 3000,
        2 | 3 => 1400 + rng.below(100),
        _ => rng.below(200),
    };
    let (a, b) = (rng.next() as u16, rng.next() as u16);
    match rng.below(6) {
        0 | 1 => p.udp(a, b).payload_len(len),
        2 => p.tcp(a, b, TcpFlags::SYN).payload_len(len),
        3 | 4 => p.echo_request(a, b).payload_len(len),
        _ => p.protocol(IpProtocol(a as u8)).payload_len(len),
    }
}

fn ttl(rng: &mut Rng) -> u8 {
    *rng.pick(&[0, 1, 2, 3, 64, 64, 64, 255])
}

fn ip4(rng: &mut Rng, link: PacketBuilder) -> PacketBuilder {
    let src = match rng.below(400) {
        0 => Ipv4Addr::BROADCAST,
        _ => source4(rng),
    };
    let mut p = link
        .ipv4(src, target4(rng))
        .ttl(ttl(rng))
        .ident(rng.next() as u16);
    match rng.below(8) {
        0 => p = p.dont_fragment(),
        1 => p = p.fragment(rng.below(4000) as u16, rng.one_in(2)),
        2 => p = p.ipv4_options(&[0x83, 7, 4, 10, 0, 0, 1, 0x44, 8, 5, 0, 1, 2, 3, 4]),
        3 => p = p.ipv4_options(&[1; 40]),
        _ => {}
    }
    upper(rng, p)
}

fn ip6(rng: &mut Rng, link: PacketBuilder) -> PacketBuilder {
    let dst = match rng.below(400) {
        0 => Ipv6Addr::LOCALHOST,
        _ => target6(rng),
    };
    let mut p = link.ipv6(source6(rng), dst).ttl(ttl(rng));
    match rng.below(8) {
        0 => p = p.extension(IpProtocol::HOP_BY_HOP, &[5, 2, 0, 0, 1, 0]),
        1 => p = p.extension(IpProtocol::DESTINATION_OPTIONS, &[1, 4]),
        2 => {
            let offset = rng.next().to_be_bytes();
            p = p.extension(
                IpProtocol::FRAGMENT,
                &[offset[0] & 1, offset[1], 0, 0, 0, 1],
            );
        }
        3 => p = p.extension(IpProtocol::ROUTING, &[0, rng.below(2) as u8, 0, 0, 0, 0]),
        _ => {}
    }
    upper(rng, p)
}

fn labels(rng: &mut Rng, link: PacketBuilder) -> PacketBuilder {
    let mut p = link;
    for _ in 0..=rng.below(3) {
        p = p
            .mpls(rng.below(64) as u32)
            .ttl(ttl(rng))
            .class(rng.below(8) as u8);
    }
    if rng.one_in(2) {
        ip4(rng, p)
    } else {
        ip6(rng, p)
    }
}

fn arp(rng: &mut Rng, link: PacketBuilder) -> PacketBuilder {
    let n = rng.below(12) as u32;
    let sender_ip = Ipv4Addr::new(10, 200, n as u8, rng.below(256) as u8);
    let target_ip = match rng.below(4) {
        0 => sender_ip,
        _ => router4(n),
    };
    let operation = *rng.pick(&[ArpOperation::Request, ArpOperation::Reply]);
    link.arp(ArpRepr {
        operation,
        sender_mac: HOST,
        sender_ip,
        target_mac: router_mac(n),
        target_ip,
    })
}

fn discovery(rng: &mut Rng, link: PacketBuilder) -> PacketBuilder {
    let n = rng.below(12) as u32;
    let src = source6(rng);
    let target = *rng.pick(&[router6(n), router_mac(n).link_local()]);
    let solicited = Ipv6Addr::new(0xFF02, 0, 0, 0, 0, 1, 0xFF00, target.segments()[7]);
    let dst = *rng.pick(&[target, solicited, router6(n)]);
    let ll = rng.one_in(2).then_some(HOST);
    let repr = match rng.below(4) {
        0 => NdiscRepr::RouterSolicit { source_ll: ll },
        1 => NdiscRepr::NeighborAdvert {
            router: rng.one_in(2),
            solicited: !dst.is_multicast(),
            override_ll: true,
            target: src,
            target_ll: ll,
        },
        _ => NdiscRepr::NeighborSolicit {
            target,
            source_ll: ll,
        },
    };
    let mut body = vec![0; repr.buffer_len()];
    // A target that is a group is refused; then the body stays zeros, which is a test as well.
    let _ = repr.emit(&src, &dst, &mut NdiscPacket::new_unchecked(&mut body[..]));
    let mut p = link
        .ipv6(src, dst)
        .ttl(if rng.one_in(8) { 64 } else { 255 });
    if rng.one_in(4) {
        p = p.extension(IpProtocol::FRAGMENT, &[0, 0, 0, 0, 0, 1]);
    }
    p.protocol(IpProtocol::ICMPV6).payload(&body)
}

/// A packet for a tunnel of the router: mostly with something inside that it carries.
fn tunnelled(rng: &mut Rng, link: PacketBuilder) -> PacketBuilder {
    let inside = PacketBuilder::ethernet(HOST, router_mac(22));
    let six = rng.one_in(2);
    let inner = if six {
        ip6(rng, inside)
    } else {
        ip4(rng, inside)
    };
    let inner = inner.build();
    let outer4 = |to| link.clone().ipv4(to, router4(1));
    // Now and then from somebody who has no tunnel.
    let from = if rng.one_in(8) { router4(3) } else { TUNNEL4 };
    match rng.below(3) {
        0 => {
            let header = [8, 0, 0, 0, 0, 0, 7, 0];
            let len = if rng.one_in(16) {
                rng.below(20)
            } else {
                inner.len()
            };
            let payload = [&header[..], &inner[..len.min(inner.len())]].concat();
            outer4(from).udp(rng.next() as u16, 4789).payload(&payload)
        }
        1 => {
            let kind = if six { [0x86, 0xDD] } else { [0x08, 0x00] };
            let payload = [&[0, 0, kind[0], kind[1]], &inner[14..]].concat();
            outer4(from).protocol(IpProtocol(47)).payload(&payload)
        }
        _ => {
            let outer = link.ipv6(TUNNEL6, router6(1));
            let kind = if six { 41 } else { 4 };
            outer.protocol(IpProtocol(kind)).payload(&inner[14..])
        }
    }
}

/// One of two fragments of a packet for the router; some of the others come, too.
fn piece(rng: &mut Rng, link: PacketBuilder) -> PacketBuilder {
    let last = rng.one_in(2);
    let ident = rng.below(64) as u16;
    let payload = [8, 0, 0xF7, 0xFF, 0, 0, 0, 0].repeat(if last { 2 } else { 3 });
    link.ipv4(Ipv4Addr::new(10, 1, 1, 1), router4(1))
        .ident(ident)
        .fragment(if last { 24 } else { 0 }, !last)
        .protocol(IpProtocol::ICMP)
        .payload(&payload)
}

/// A frame; its destination is written when it is received.
fn frame(rng: &mut Rng) -> Vec<u8> {
    let link = PacketBuilder::ethernet(HOST, MacAddr([2, 0, 0, 0, 0, 1]));
    let p = match rng.below(20) {
        16..19 => tunnelled(rng, link),
        19 => piece(rng, link),
        0..5 => ip4(rng, link),
        5..9 => ip6(rng, link),
        9..12 => labels(rng, link),
        12 => arp(rng, link),
        13 => discovery(rng, link),
        14 => ip4(rng, link.vlan(7)),
        _ => link
            .ethertype(EtherType(rng.next() as u16))
            .payload_len(rng.below(100)),
    };
    let mut bytes = p.build();
    if rng.one_in(4) {
        bytes.resize(bytes.len().max(60), 0);
    }
    bytes
}

/// `count` frames.
pub fn frames(rng: &mut Rng, count: usize) -> Vec<Vec<u8>> {
    (0..count).map(|_| frame(rng)).collect()
}
