//! Tunnels byte by byte: what is sent into one, what comes out of one, and what does not.

use std::net::IpAddr;

use parshall_counters::DropReason;
use parshall_fib::{Adjacency, LinkType};
use parshall_wire::{EtherType, IpProtocol, MacAddr, PacketBuilder, checksum};

use super::lab::*;
use crate::tunnel::{Encap, TunnelKey, Tunnels};

/// The tunnel's interface.
pub(super) const T: u32 = 4;
pub(super) const VXLAN: Encap = Encap::Vxlan {
    vni: 0x12_3456,
    port: 4789,
};
pub(super) const VXLAN_HEADER: [u8; 8] = [8, 0, 0, 0, 0x12, 0x34, 0x56, 0];

pub(super) fn lab(encap: Encap, ip6: bool) -> Lab {
    let mut lab = Lab::new();
    lab.add_virtual(T, "tunnel-output");
    let (local, remote): (IpAddr, IpAddr) = match ip6 {
        false => (router4(2).into(), far4(2).into()),
        true => (router6(2).into(), far6(2).into()),
    };
    let key = TunnelKey {
        local,
        remote,
        table: 0,
        encap,
    };
    lab.shared
        .tunnels
        .publish(&lab.shared.domain, Tunnels::new([(T, key)]));
    lab
}

/// An adjacency into a tunnel for packets.
pub(super) fn into_tunnel(lab: &Lab, ethertype: EtherType) -> parshall_fib::Dpo {
    let header = [&[0; 12][..], &ethertype.0.to_be_bytes()].concat();
    let (link, hop) = match ethertype {
        EtherType::IPV6 => (LinkType::Ip6, [0; 4]),
        _ => (LinkType::Ip4, [0; 4]),
    };
    let adj = Adjacency::incomplete_ip4(T, link, MTU, hop.into());
    lab.add(adj.with_rewrite(&header).unwrap())
}

fn feed(lab: &mut Lab, n: u32, frames: &[Vec<u8>]) -> Vec<(u32, Vec<u8>)> {
    lab.harness.put("ethernet-input", n, frames, SECOND);
    lab.harness.conserved().unwrap();
    lab.harness.sent()
}

/// A frame of two hosts somewhere behind.
fn frame(len: usize) -> Vec<u8> {
    PacketBuilder::ethernet(MacAddr([2, 9, 9, 9, 9, 1]), MacAddr([2, 9, 9, 9, 9, 2]))
        .ipv4([172, 16, 0, 1].into(), [172, 16, 0, 2].into())
        .udp(7, 8)
        .payload_len(len)
        .build()
}

/// The outer packet that the other end sends.
fn outer4(payload: &[u8]) -> PacketBuilder {
    to_router(2)
        .ipv4(far4(2), router4(2))
        .udp(50_000, 4789)
        .payload(payload)
}

#[test]
fn a_frame_goes_into_vxlan_as_rfc_7348_has_it() {
    let mut lab = lab(VXLAN, false);
    lab.cross_connect(1, T);
    let inner = frame(101);
    let sent = feed(&mut lab, 1, std::slice::from_ref(&inner));
    let [(2, bytes)] = &sent[..] else {
        panic!("{sent:?}")
    };
    let port = u16::from_be_bytes([bytes[34], bytes[35]]);
    assert!(port >= 0xC000);
    let mut want = from_router(2)
        .ipv4(router4(2), far4(2))
        .ttl(254)
        .ident(0)
        .udp(port, 4789)
        .payload(&[&VXLAN_HEADER[..], &inner].concat())
        .build();
    want[40..42].fill(0);
    assert_eq!(*bytes, want);
    let counters = &lab.harness.dispatcher.counters;
    assert_eq!(counters.interface(T).unwrap().tx_packets.get(), 1);
    // The same flow has the same port, and another identification.
    let again = feed(&mut lab, 1, &[inner]);
    assert_eq!(
        (&again[0].1[34..36], &again[0].1[18..20]),
        (&bytes[34..36], &[0, 1][..])
    );
}

#[test]
fn over_ipv6_the_udp_checksum_is_there() {
    let mut lab = lab(VXLAN, true);
    lab.cross_connect(1, T);
    for len in [0, 1, 300, 1301] {
        let inner = frame(len);
        let sent = feed(&mut lab, 1, std::slice::from_ref(&inner));
        let [(2, bytes)] = &sent[..] else {
            panic!("{sent:?}")
        };
        let port = u16::from_be_bytes([bytes[54], bytes[55]]);
        let label = u32::from_be_bytes([0, bytes[15], bytes[16], bytes[17]]) & 0xF_FFFF;
        let want = from_router(2)
            .ipv6(router6(2), far6(2))
            .ttl(254)
            .flow_label(label)
            .udp(port, 4789)
            .payload(&[&VXLAN_HEADER[..], &inner].concat())
            .build();
        assert_eq!(*bytes, want, "{len}");
    }
}

#[test]
fn a_frame_comes_out_of_vxlan_as_it_went_in() {
    let mut lab = lab(VXLAN, false);
    lab.cross_connect(T, 1);
    let inner = frame(60);
    let packet = outer4(&[&VXLAN_HEADER[..], &inner].concat()).build();
    assert_eq!(feed(&mut lab, 2, &[packet]), [(1, inner.clone())]);
    let counters = &lab.harness.dispatcher.counters;
    let c = counters.interface(T).unwrap();
    assert_eq!(
        (c.rx_packets.get(), c.rx_bytes.get()),
        (1, inner.len() as u64)
    );
    let mut six = self::lab(VXLAN, true);
    six.cross_connect(T, 1);
    let packet = to_router(2).ipv6(far6(2), router6(2)).udp(9, 4789);
    let packet = packet
        .payload(&[&VXLAN_HEADER[..], &inner].concat())
        .build();
    assert_eq!(feed(&mut six, 2, &[packet]), [(1, inner)]);
}

#[test]
fn what_is_no_tunnels_is_dropped_for_its_reason() {
    let mut lab = lab(VXLAN, false);
    lab.cross_connect(T, 1);
    let inner = frame(60);
    let with = |header: [u8; 8]| outer4(&[&header[..], &inner].concat()).build();
    let mut short = with(VXLAN_HEADER);
    short[38..40].copy_from_slice(&9u16.to_be_bytes());
    let mut long = with(VXLAN_HEADER);
    long[38..40].copy_from_slice(&2000u16.to_be_bytes());
    let elsewhere = to_router(2).ipv4(host4(2), router4(2)).udp(5, 4789);
    let frames = [
        with([0, 0, 0, 0, 0x12, 0x34, 0x56, 0]),
        short,
        long,
        outer4(&[8, 0]).build(),
        with([8, 0, 0, 0, 0x12, 0x34, 0x57, 0]),
        elsewhere
            .payload(&[&VXLAN_HEADER[..], &inner].concat())
            .build(),
    ];
    assert_eq!(feed(&mut lab, 2, &frames), []);
    assert_eq!(lab.harness.drops(DropReason::VxlanMalformed), 4);
    assert_eq!(lab.harness.drops(DropReason::NoTunnel), 2);
    lab.clear_flags(T, crate::if_flags::UP);
    assert_eq!(feed(&mut lab, 2, &[with(VXLAN_HEADER)]), []);
    assert_eq!(lab.harness.drops(DropReason::InterfaceDown), 1);
    // Another port is no tunnel's: answered as ever.
    let other = to_router(2).ipv4(far4(2), router4(2)).udp(5, 4790).build();
    assert_eq!(feed(&mut lab, 2, &[other]).len(), 1);
    assert_eq!(lab.harness.drops(DropReason::LocalNoPort), 1);
}

#[test]
fn packets_in_each_other_are_unpacked_a_few_times_only() {
    let mut lab = lab(VXLAN, false);
    let mut inner = frame(10);
    for level in 0..10 {
        let to = if level == 9 { 2 } else { T };
        inner = PacketBuilder::ethernet(host_mac(2), router_mac(to))
            .ipv4(far4(2), router4(2))
            .udp(9, 4789)
            .payload(&[&VXLAN_HEADER[..], &inner].concat())
            .build();
    }
    assert_eq!(feed(&mut lab, 2, &[inner]), []);
    assert_eq!(lab.harness.drops(DropReason::NestedTooDeep), 1);
}

#[test]
fn ip_in_ip_carries_both_families_and_their_class() {
    let mut lab = lab(Encap::Ip, false);
    lab.route4("192.0.2.0/24", into_tunnel(&lab, EtherType::IPV4));
    lab.route6("2001:db8:f::/48", into_tunnel(&lab, EtherType::IPV6));
    let four = |b: PacketBuilder, ttl| {
        b.ipv4(far4(1), [192, 0, 2, 9].into())
            .class(0xBB)
            .ttl(ttl)
            .udp(1, 2)
            .payload_len(31)
    };
    let six = |b: PacketBuilder, ttl| {
        let to = "2001:db8:f::9".parse().unwrap();
        b.ipv6(far6(1), to).ttl(ttl).udp(1, 2).payload_len(30)
    };
    let frames = [four(to_router(1), 64).build(), six(to_router(1), 9).build()];
    let sent = feed(&mut lab, 1, &frames);
    let outer = |class, protocol, ident, inner: Vec<u8>| {
        let p = from_router(2)
            .ipv4(router4(2), far4(2))
            .ttl(254)
            .class(class)
            .ident(ident);
        (2, p.protocol(IpProtocol(protocol)).payload(&inner).build())
    };
    let want = [
        outer(0xB8, 4, 0, four(PacketBuilder::bare(), 63).build()),
        outer(0, 41, 1, six(PacketBuilder::bare(), 8).build()),
    ];
    assert_eq!(sent, want);
    // And back: what comes out is routed.
    let inside = PacketBuilder::bare()
        .ipv4(host4(9), far4(1))
        .ttl(9)
        .udp(1, 2)
        .build();
    let packet = to_router(2)
        .ipv4(far4(2), router4(2))
        .protocol(IpProtocol(4))
        .payload(&inside);
    let sent = feed(&mut lab, 2, &[packet.build()]);
    let expected = from_router(1)
        .ipv4(host4(9), far4(1))
        .ttl(8)
        .udp(1, 2)
        .build();
    assert_eq!(sent, [(1, expected)]);
    let garbage = to_router(2)
        .ipv4(far4(2), router4(2))
        .protocol(IpProtocol(4))
        .payload(&[0x45; 7]);
    assert_eq!(feed(&mut lab, 2, &[garbage.build()]), []);
}

#[test]
fn gre_carries_packets_behind_four_bytes() {
    let mut lab = lab(Encap::Gre, false);
    lab.route4("192.0.2.0/24", into_tunnel(&lab, EtherType::IPV4));
    let packet = |b: PacketBuilder, ttl| {
        b.ipv4(far4(1), [192, 0, 2, 9].into())
            .ttl(ttl)
            .udp(1, 2)
            .payload_len(30)
    };
    let sent = feed(&mut lab, 1, &[packet(to_router(1), 64).build()]);
    let inner = packet(PacketBuilder::bare(), 63).build();
    let gre = [&[0, 0, 8, 0][..], &inner].concat();
    let want = from_router(2).ipv4(router4(2), far4(2)).ttl(254).ident(0);
    assert_eq!(
        sent,
        [(2, want.protocol(IpProtocol(47)).payload(&gre).build())]
    );
}

#[test]
fn gre_is_understood_with_a_checksum_and_refused_with_what_is_not() {
    let mut lab = lab(Encap::Gre, false);
    let inside = PacketBuilder::bare()
        .ipv4(host4(9), far4(1))
        .udp(1, 2)
        .payload_len(7)
        .build();
    let outer = |gre: &[u8]| {
        let p = to_router(2)
            .ipv4(far4(2), router4(2))
            .protocol(IpProtocol(47));
        p.payload(gre).build()
    };
    let mut summed = [&[0x80, 0, 8, 0, 0, 0, 0, 0][..], &inside].concat();
    let sum = checksum::checksum(&summed);
    summed[4..6].copy_from_slice(&sum.to_be_bytes());
    let plain = [&[0, 0, 8, 0][..], &inside].concat();
    let good = [outer(&summed), outer(&plain)];
    assert_eq!(feed(&mut lab, 2, &good).len(), 2);
    summed[4] ^= 1;
    let keyed = [&[0x20, 0, 8, 0, 0, 0, 0, 1][..], &inside].concat();
    let version1 = [&[0, 1, 8, 0][..], &inside].concat();
    let arp = [&[0, 0, 8, 6][..], &inside].concat();
    let teb = [&[0, 0, 0x65, 0x58][..], &frame(1)].concat();
    let bad = [
        outer(&summed),
        outer(&keyed),
        outer(&version1),
        outer(&[0, 0]),
    ];
    assert_eq!(feed(&mut lab, 2, &bad), []);
    assert_eq!(lab.harness.drops(DropReason::GreMalformed), 4);
    assert_eq!(feed(&mut lab, 2, &[outer(&arp), outer(&teb)]), []);
    assert_eq!(lab.harness.drops(DropReason::TunnelPayload), 1);
    assert_eq!(lab.harness.drops(DropReason::NoTunnel), 1);
}

#[test]
fn only_packets_go_into_a_tunnel_for_packets() {
    let mut lab = lab(Encap::Ip, false);
    lab.cross_connect(1, T);
    let arp = PacketBuilder::ethernet(MacAddr([2; 6]), MacAddr([4; 6]));
    let arp = arp.ethertype(EtherType::ARP).payload_len(46).build();
    assert_eq!(feed(&mut lab, 1, &[arp]), []);
    assert_eq!(lab.harness.drops(DropReason::TunnelPayload), 1);
}

/// What comes of frames received on interface `n`, sorted, and what the tunnel counted. `together`: in one go.
fn outcome(mut lab: Lab, n: u32, frames: &[Vec<u8>], together: bool) -> (Vec<Vec<u8>>, [u64; 5]) {
    let mut sent = Vec::new();
    for some in frames.chunks(if together { frames.len() } else { 1 }) {
        sent.extend(feed(&mut lab, n, some).into_iter().map(|(_, bytes)| bytes));
    }
    sent.sort();
    let c = lab.harness.dispatcher.counters.interface(T).unwrap();
    let tunnel = [&c.rx_packets, &c.rx_bytes, &c.tx_packets, &c.tx_bytes].map(|c| c.get());
    let dropped = lab.harness.dispatcher.counters.dropped.get();
    let [a, b, c, d] = tunnel;
    (sent, [a, b, c, d, dropped])
}

/// Outer packets of all sorts, most of them of one tunnel.
fn outer_packets(encap: Encap) -> Vec<Vec<u8>> {
    let packet = |b: PacketBuilder, len| {
        let b = b.ipv4(host4(9), far4(1)).ttl(9).udp(1, 2);
        b.payload_len(len).build()
    };
    let six = PacketBuilder::bare().ipv6(host6(9), far6(1)).udp(1, 2);
    let six = six.payload_len(9).build();
    let mut all = Vec::new();
    for i in 0..200u16 {
        let inner = match encap {
            Encap::Vxlan { .. } => packet(to_router(T), usize::from(i)),
            _ if i % 17 == 3 => six.clone(),
            _ => packet(PacketBuilder::bare(), usize::from(i)),
        };
        let six = inner[0] >> 4 == 6;
        let from = if i % 23 == 7 { host4(2) } else { far4(2) };
        let outer = to_router(2).ipv4(from, router4(2)).ttl(3 + i as u8);
        let mut frame = match encap {
            Encap::Vxlan { .. } => {
                let mut header = VXLAN_HEADER;
                header[1] = i as u8;
                header[6] ^= u8::from(i % 29 == 1);
                let payload = [&header[..], &inner, &[0; 5]].concat();
                outer.udp(40_000 + i, 4789).payload(&payload).build()
            }
            Encap::Gre | Encap::GreTeb => {
                let kind = if six { [0x86, 0xDD] } else { [8, 0] };
                let payload = [&[0, 0][..], &kind, &inner].concat();
                outer.protocol(47.into()).payload(&payload).build()
            }
            Encap::Ip => {
                let protocol = if six { 41 } else { 4 };
                let outer = outer.protocol(protocol.into());
                outer.payload(&inner).build()
            }
        };
        match (i % 31, encap) {
            // No tunnel's, and a length that is not the packet's: shorter, which cuts off, and longer.
            (5, Encap::Vxlan { .. }) => frame[37] ^= 1,
            (6, Encap::Vxlan { .. }) => frame[39] = frame[39].wrapping_sub(5),
            (7, Encap::Vxlan { .. }) => frame[38] = 9,
            (5, Encap::Gre) => frame[34] = 0x20,
            _ => {}
        }
        all.push(frame);
    }
    all
}

#[test]
fn a_frame_of_many_packets_comes_out_as_each_alone() {
    for encap in [VXLAN, Encap::Gre, Encap::Ip] {
        let frames = outer_packets(encap);
        let [together, alone] = [true, false].map(|t| outcome(lab(encap, false), 2, &frames, t));
        assert_eq!(together, alone, "{encap:?}");
        let [packets, .., dropped] = together.1;
        assert!(
            (120..200).contains(&packets) && dropped > 5,
            "{packets} {dropped}"
        );
    }
}

#[test]
fn a_frame_of_many_packets_goes_in_as_each_alone() {
    for ip6 in [false, true] {
        for encap in [VXLAN, Encap::GreTeb, Encap::Gre, Encap::Ip] {
            let mut frames: Vec<_> = (0..200).map(frame).collect();
            for (i, f) in frames.iter_mut().enumerate() {
                f[30] = i as u8;
                match i % 13 {
                    3 => f[13] = 6,
                    4 => f.truncate(30),
                    5 => {
                        f.splice(12..12, [0x81, 0, 0, 7]);
                    }
                    6 => f[14] = 0x46,
                    _ => {}
                }
            }
            let [together, alone] = [true, false].map(|together| {
                let mut lab = lab(encap, ip6);
                lab.cross_connect(1, T);
                outcome(lab, 1, &frames, together)
            });
            assert_eq!(together, alone, "{encap:?}");
            assert_eq!(together.1[2], 200);
            assert!(together.0.len() >= 150);
        }
    }
}

/// The route to the other end decides at once, whatever it is.
#[test]
fn what_the_table_says_of_the_other_end_holds_from_the_next_frame_on() {
    let mut lab = lab(VXLAN, false);
    lab.cross_connect(1, T);
    let out = |lab: &mut Lab, n: usize| -> Vec<u32> {
        let frames: Vec<_> = (0..n).map(frame).collect();
        let sent = feed(lab, 1, &frames);
        sent.into_iter().map(|(n, _)| n).collect()
    };
    assert_eq!(out(&mut lab, 3), [2; 3]);
    let end = format!("{}/32", far4(2));
    let [two, three] = [2, 3].map(|n| lab.adj4(n, host4(n), MTU));
    lab.route4(&end, three);
    assert_eq!(out(&mut lab, 3), [3; 3]);
    lab.route4(&end, lab.balance(&[three]));
    assert_eq!(out(&mut lab, 3), [3; 3]);
    // By what is inside: all of these are one flow.
    lab.route4(&end, lab.balance(&[two, three]));
    let ways = out(&mut lab, 9);
    assert!(ways == [2; 9] || ways == [3; 9], "{ways:?}");
    lab.route4(&end, parshall_fib::Dpo::BLACKHOLE);
    assert_eq!(out(&mut lab, 3), []);
    assert_eq!(lab.harness.drops(DropReason::RouteBlackhole), 3);
}

#[test]
fn the_link_layer_header_written_with_the_others_is_that_of_the_rewrite() {
    let mut frames: Vec<_> = (0..200).map(frame).collect();
    for (i, f) in frames.iter_mut().enumerate() {
        f[30] = i as u8;
    }
    // Longer than the link takes, outer headers included: of these come fragments.
    frames.push(frame(usize::from(MTU) - 40));
    for encap in [VXLAN, Encap::GreTeb, Encap::Gre, Encap::Ip] {
        // By two objects that say the same the way is by the rewrite.
        let [at_once, by_rewrite] = [1, 2].map(|ways| {
            let mut lab = lab(encap, false);
            lab.cross_connect(1, T);
            let ways: Vec<_> = (0..ways).map(|_| lab.adj4(2, host4(2), MTU)).collect();
            lab.route4(&format!("{}/32", far4(2)), lab.balance(&ways));
            let calls = |lab: &Lab| {
                let node = lab.graph.node("ip4-rewrite").unwrap();
                lab.harness.dispatcher.counters.nodes[usize::from(node)]
                    .vectors
                    .get()
            };
            let sent = feed(&mut lab, 1, &frames);
            (sent, calls(&lab))
        });
        assert_eq!(at_once.0, by_rewrite.0, "{encap:?}");
        assert_eq!(at_once.0.len(), 202);
        // The long one, and its fragments.
        assert_eq!((at_once.1, by_rewrite.1), (3, 203), "{encap:?}");
    }
}
