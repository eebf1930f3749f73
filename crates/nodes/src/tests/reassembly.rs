//! Fragments for the router itself: put together and answered, taken out of tunnels, or dropped with their reason.

use parshall_counters::DropReason;
use parshall_wire::{IpProtocol, Ipv4Packet, MacAddr, PacketBuilder};

use super::lab::*;
use crate::reassembly::PATIENCE;
use crate::tunnel::{Encap, TunnelKey, Tunnels};

/// An IPv4 packet for the router, and the fragments of its payload at these places.
fn pieces4(protocol: IpProtocol, payload: &[u8], ends: &[usize], ident: u16) -> Vec<Vec<u8>> {
    let mut from = 0;
    let cut = |&to: &usize| {
        let part = &payload[from..to];
        let frame = to_router(1)
            .ipv4(host4(1), router4(1))
            .ident(ident)
            .fragment(from as u16, to < payload.len())
            .protocol(protocol)
            .payload(part)
            .build();
        from = to;
        frame
    };
    ends.iter().map(cut).collect()
}

/// The same over IPv6; `payload` has its checksum.
fn pieces6(protocol: IpProtocol, payload: &[u8], ends: &[usize], ident: u8) -> Vec<Vec<u8>> {
    let mut from = 0;
    let cut = |&to: &usize| {
        let word = (from as u16 | u16::from(to < payload.len())).to_be_bytes();
        let header = [protocol.0, 0, word[0], word[1], 0, 0, 0, ident];
        let frame = to_router(1)
            .ipv6(host6(1), router6(1))
            .protocol(IpProtocol::FRAGMENT)
            .payload(&[&header[..], &payload[from..to]].concat())
            .build();
        from = to;
        frame
    };
    ends.iter().map(cut).collect()
}

/// The ICMPv6 message of a ping with its checksum.
fn ping6(len: usize) -> Vec<u8> {
    let whole = to_router(1)
        .ipv6(host6(1), router6(1))
        .echo_request(7, 9)
        .payload_len(len)
        .build();
    whole[54..].to_vec()
}

#[test]
fn a_long_ping_is_answered_whatever_order_its_fragments_come_in() {
    let message = icmp4(8, 0, 0x0007_0009, &[0x5A; 3000]);
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0], [2, 0, 1]] {
        let mut lab = Lab::new();
        let pieces = pieces4(IpProtocol::ICMP, &message, &[1480, 2960, 3008], 7);
        for (n, i) in order.into_iter().enumerate() {
            let sent = lab.send(1, &pieces[i]);
            assert_eq!(lab.held(), [1, 2, 0][n]);
            // The answer is fragmented for the link again.
            assert_eq!(sent.len(), [0, 0, 3][n], "{:?}", lab.drops());
        }
        let d = &lab.harness.dispatcher;
        assert_eq!(d.pool.available(), d.pool.capacity());
    }
}

#[test]
fn a_long_ping_over_ipv6_is_answered() {
    let mut lab = Lab::new();
    let message = ping6(1300);
    let pieces = pieces6(IpProtocol::ICMPV6, &message, &[800, message.len()], 1);
    assert!(lab.send(1, &pieces[1]).is_empty());
    let sent = lab.send(1, &pieces[0]);
    let whole = from_router(1)
        .ipv6(router6(1), host6(1))
        .echo_reply(7, 9)
        .payload_len(1300)
        .build();
    assert_eq!(sent, [(1, whole)], "{:?}", lab.drops());
}

#[test]
fn what_was_fragmented_comes_out_of_a_tunnel_whole() {
    let mut lab = Lab::new();
    lab.add_virtual(4, "tunnel-output");
    let key = TunnelKey {
        local: router4(1).into(),
        remote: host4(1).into(),
        table: 0,
        encap: Encap::Vxlan { vni: 5, port: 4789 },
    };
    lab.shared
        .tunnels
        .publish(&lab.shared.domain, Tunnels::new([(4, key)]));
    lab.cross_connect(4, 2);
    let inner = PacketBuilder::ethernet(MacAddr([2, 9, 9, 9, 9, 1]), MacAddr([2, 9, 9, 9, 9, 2]))
        .ipv4([172, 16, 0, 1].into(), [172, 16, 0, 2].into())
        .udp(7, 8)
        .total_len(1500)
        .build();
    let vxlan = [&[8, 0, 0, 0, 0, 0, 5, 0][..], &inner].concat();
    let outer = to_router(1)
        .ipv4(host4(1), router4(1))
        .udp(50_000, 4789)
        .payload(&vxlan)
        .build();
    let len = outer.len() - 34;
    let pieces = pieces4(IpProtocol::UDP, &outer[34..], &[1480, len], 3);
    assert!(lab.send(1, &pieces[0]).is_empty());
    let sent = lab.send(1, &pieces[1]);
    assert_eq!(sent, [(2, inner)], "{:?}", lab.drops());
}

#[test]
fn fragments_that_cannot_be_are_dropped() {
    let mut lab = Lab::new();
    let first = |offset, more, len| {
        to_router(1)
            .ipv4(host4(1), router4(1))
            .ident(9)
            .fragment(offset, more)
            .protocol(IpProtocol::UDP)
            .payload(&vec![0; len])
            .build()
    };
    for bad in [
        first(0, true, 13),
        first(65_528, false, 64),
        first(24, false, 0),
    ] {
        lab.expect_drop(1, &bad, DropReason::FragmentMalformed);
    }
    lab.send(1, &first(0, true, 64));
    // Both, and all that comes of this packet.
    let overlaps = first(8, true, 64);
    lab.send(1, &overlaps);
    assert_eq!(lab.harness.drops(DropReason::FragmentOverlap), 2);
    lab.expect_drop(1, &first(64, false, 64), DropReason::FragmentOverlap);
    assert_eq!(lab.held(), 0);
}

#[test]
fn neighbour_discovery_in_fragments_is_not_believed() {
    let mut lab = Lab::new();
    let mut body = router6(1).octets().to_vec();
    body.extend([1, 1, 2, 0, 0, 0, 1, 1]);
    let whole = to_router(1)
        .ipv6(host6(1), router6(1))
        .ttl(255)
        .protocol(IpProtocol::ICMPV6)
        .payload(&icmp6(135, 0, 0, &body))
        .build();
    let pieces = pieces6(IpProtocol::ICMPV6, &whole[54..], &[16, 32], 1);
    lab.send(1, &pieces[0]);
    lab.expect_drop(1, &pieces[1], DropReason::NdFragmented);
    // The only one of its packet.
    let alone = pieces6(IpProtocol::ICMPV6, &whole[54..], &[32], 2);
    lab.expect_drop(1, &alone[0], DropReason::NdFragmented);
}

#[test]
fn whoever_sent_the_first_fragment_is_told_that_the_others_did_not_come() {
    let mut lab = Lab::new();
    let pieces = pieces4(IpProtocol::UDP, &[0; 64], &[32, 64], 1);
    lab.send(1, &pieces[0]);
    let sent = lab.wait(PATIENCE + 1);
    let [(1, error)] = &sent[..] else {
        panic!("{sent:?}")
    };
    assert_eq!(error[34..36], [11, 1], "time exceeded, of reassembly");
    assert_eq!(lab.harness.drops(DropReason::ReassemblyTimeout), 1);
    // Of another than the first nothing is told.
    lab.send(1, &pieces[1]);
    assert!(lab.wait(PATIENCE + 1).is_empty());
    assert_eq!(
        (lab.harness.drops(DropReason::ReassemblyTimeout), lab.held()),
        (2, 0)
    );
}

#[test]
fn options_of_the_first_fragment_stay_and_the_checksum_is_right() {
    let mut lab = Lab::new();
    let message = icmp4(8, 0, 1, &[1; 56]);
    let cut = |from: usize, to: usize, more| {
        to_router(1)
            .ipv4(host4(1), router4(1))
            .ident(4)
            .ipv4_options(&[1, 1, 1, 0])
            .fragment(from as u16, more)
            .protocol(IpProtocol::ICMP)
            .payload(&message[from..to])
            .build()
    };
    lab.send(1, &cut(32, 64, false));
    let sent = lab.send(1, &cut(0, 32, true));
    let [(1, answer)] = &sent[..] else {
        panic!("{sent:?} {:?}", lab.drops())
    };
    let ip = Ipv4Packet::new_checked(&answer[14..]).unwrap();
    assert_eq!(ip.total_len() as usize, answer.len() - 14);
}
