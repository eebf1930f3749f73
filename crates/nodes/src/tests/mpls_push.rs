//! Labels pushed on IP packets: TTL and class, sizes, neighbours that are waited for (RFC 3032, RFC 3443).

use parshall_counters::DropReason;
use parshall_fib::{Dpo, DpoKind, LinkType, Payload, TtlMode};
use parshall_wire::{Ipv4Packet, PacketBuilder};

use super::lab::*;
use super::parshall_nodes::{Event, HoldMessage};

fn labels(link: PacketBuilder, labels: &[u32], ttl: u8, class: u8) -> PacketBuilder {
    labels
        .iter()
        .fold(link, |p, label| p.mpls(*label).ttl(ttl).class(class))
}

fn ip4(link: PacketBuilder, ttl: u8) -> PacketBuilder {
    link.ipv4(host4(1), [10, 66, 0, 1].into())
        .ttl(ttl)
        .class(0xB8)
        .ident(5)
        .udp(1000, 2000)
        .payload_len(30)
}

fn ip6(link: PacketBuilder, hops: u8) -> PacketBuilder {
    link.ipv6(host6(1), "2001:db8:66::1".parse().unwrap())
        .ttl(hops)
        .class(0xB8)
        .udp(1000, 2000)
        .payload_len(30)
}

/// Routes of both families under labels out of interface 2.
fn tunnel(lab: &Lab, stack: &[u32], mode: TtlMode, next: Dpo) {
    lab.route4("10.66.0.0/16", lab.impose(stack, Payload::Ip4, mode, next));
    lab.route6(
        "2001:db8:66::/48",
        lab.impose(stack, Payload::Ip6, mode, next),
    );
}

#[test]
fn a_uniform_tunnel_shows_the_packets_ttl_and_class() {
    for stack in [&[17][..], &[17, 18], &[17, 18, 1_048_575]] {
        let mut lab = Lab::new();
        tunnel(&lab, stack, TtlMode::Uniform, lab.adj_mpls(2, MTU));
        for ttl in [2, 64, 255] {
            let under = |link| labels(link, stack, ttl - 1, 5);
            let out = ip4(under(from_router(2)), ttl - 1).build();
            lab.expect(1, &ip4(to_router(1), ttl).build(), 2, &out);
            let out = ip6(under(from_router(2)), ttl - 1).build();
            lab.expect(1, &ip6(to_router(1), ttl).build(), 2, &out);
        }
    }
}

#[test]
fn a_pipe_has_a_ttl_and_class_of_its_own() {
    let mut lab = Lab::new();
    tunnel(&lab, &[17, 18], TtlMode::Pipe, lab.adj_mpls(2, MTU));
    let under = |link| labels(link, &[17, 18], 255, 0);
    let out = ip4(under(from_router(2)), 9).build();
    lab.expect(1, &ip4(to_router(1), 10).build(), 2, &out);
    let out = ip6(under(from_router(2)), 9).build();
    lab.expect(1, &ip6(to_router(1), 10).build(), 2, &out);
}

#[test]
fn a_packet_that_expires_at_the_entrance_is_answered() {
    let mut lab = Lab::new();
    tunnel(&lab, &[17], TtlMode::Pipe, lab.adj_mpls(2, MTU));
    let frame = ip4(to_router(1), 1).build();
    let error = error4(1, host4(1), (11, 0, 0), &frame[14..], 1);
    lab.expect(1, &frame, 1, &error);
    let frame = ip6(to_router(1), 1).build();
    let error = error6(1, host6(1), (3, 0, 0), &frame[14..]);
    lab.expect(1, &frame, 1, &error);
}

#[test]
fn an_error_about_size_counts_the_labels_off() {
    for n in 1..=3u16 {
        let mut lab = Lab::new();
        let stack: Vec<u32> = (17..17 + u32::from(n)).collect();
        tunnel(&lab, &stack, TtlMode::Uniform, lab.adj_mpls(2, MTU));
        let room = MTU - 4 * n;
        let four = |len: u16| {
            ip4(to_router(1), 64)
                .dont_fragment()
                .total_len(14 + usize::from(len))
                .build()
        };
        let sent = lab.send(1, &four(room));
        assert_eq!(sent[0].1.len(), 14 + usize::from(MTU));
        let frame = four(room + 1);
        let kind = (3, 4, u32::from(room));
        lab.expect(1, &frame, 1, &error4(1, host4(1), kind, &frame[14..], 1));
        let six = |len: u16| {
            ip6(to_router(1), 64)
                .total_len(14 + usize::from(len))
                .build()
        };
        assert_eq!(lab.send(1, &six(room))[0].1.len(), 14 + usize::from(MTU));
        let frame = six(room + 1);
        let kind = (2, 0, u32::from(room));
        lab.expect(1, &frame, 1, &error6(1, host6(1), kind, &frame[14..]));
    }
}

#[test]
fn fragments_get_the_labels_each() {
    let mut lab = Lab::new();
    tunnel(&lab, &[17, 18], TtlMode::Uniform, lab.adj_mpls(2, 508));
    let frame = ip4(to_router(1), 64).total_len(1014).build();
    let sent = lab.send(1, &frame);
    assert_eq!(sent.len(), 3);
    let mut payload = Vec::new();
    for (n, bytes) in &sent {
        assert_eq!(*n, 2);
        assert!(bytes.len() <= 14 + 508);
        let head = labels(from_router(2), &[17, 18], 63, 5).build();
        assert_eq!(bytes[..20], head[..20]);
        let p = Ipv4Packet::new_checked(&bytes[22..]).unwrap();
        assert!(p.verify_checksum() && p.ttl() == 63);
        assert_eq!(usize::from(p.fragment_offset()), payload.len());
        payload.extend_from_slice(p.payload());
    }
    assert_eq!(payload, frame[34..]);
}

#[test]
fn a_link_local_source_enters_no_tunnel() {
    let mut lab = Lab::new();
    tunnel(&lab, &[17], TtlMode::Uniform, lab.adj_mpls(2, MTU));
    let frame = to_router(1)
        .ipv6(host_ll(1), "2001:db8:66::1".parse().unwrap())
        .udp(1, 2)
        .build();
    let sent = lab.send(1, &frame);
    assert_eq!(sent.iter().map(|s| s.0).collect::<Vec<_>>(), [1]);
    assert_eq!(lab.harness.drops(DropReason::Ip6SourceLinkLocal), 1);
}

#[test]
fn what_the_router_says_may_leave_in_a_tunnel() {
    let mut lab = Lab::new();
    let next = lab.adj_mpls(2, MTU);
    lab.route4(
        "10.0.1.2/32",
        lab.impose(&[17], Payload::Ip4, TtlMode::Uniform, next),
    );
    let ping = to_router(1)
        .ipv4(host4(1), router4(1))
        .echo_request(1, 1)
        .build();
    let reply = labels(from_router(2), &[17], 64, 0)
        .ipv4(router4(1), host4(1))
        .echo_reply(1, 1)
        .build();
    lab.expect(1, &ping, 2, &reply);
}

#[test]
fn tunnels_share_flows() {
    let mut lab = Lab::new();
    let both = lab.balance(&[lab.adj_mpls(2, MTU), lab.adj_mpls(3, MTU)]);
    tunnel(&lab, &[17], TtlMode::Uniform, both);
    let frames: Vec<_> = (0..400u16)
        .map(|p| {
            to_router(1)
                .ipv4(host4(1), [10, 66, 0, 1].into())
                .udp(p, 1)
                .build()
        })
        .collect();
    let first = lab.send_all(1, &frames);
    let second = first.iter().filter(|s| s.0 == 2).count();
    // 200 expected, standard deviation 10.
    assert!(
        first.len() == 400 && (140..260).contains(&second),
        "{second}"
    );
    assert_eq!(lab.send_all(1, &frames), first);
    // A balance that is not there.
    let gone = Dpo::new(DpoKind::LoadBalance, 60);
    tunnel(&lab, &[17], TtlMode::Uniform, gone);
    lab.expect_drop(1, &ip4(to_router(1), 64).build(), DropReason::NoAdjacency);
}

const HOP: HoldMessage<[u8; 4]> = HoldMessage::Resolved {
    if_index: 2,
    ip: [10, 0, 2, 2],
};

#[test]
fn labelled_packets_wait_for_their_neighbour() {
    let mut lab = Lab::new();
    let next = lab.incomplete4(2, LinkType::Mpls, host4(2));
    tunnel(&lab, &[17], TtlMode::Uniform, next);
    assert!(lab.send(1, &ip4(to_router(1), 64).build()).is_empty());
    assert!(lab.send(1, &ip6(to_router(1), 64).build()).is_empty());
    let wanted = Event::Wanted4 {
        if_index: 2,
        ip: [10, 0, 2, 2],
    };
    assert_eq!((lab.held(), lab.events()), (2, vec![wanted]));
    lab.complete(next);
    let under = |link| labels(link, &[17], 63, 5);
    let four = ip4(under(from_router(2)), 63).build();
    let six = ip6(under(from_router(2)), 63).build();
    assert_eq!(lab.tell("ip4-arp", HOP), [(2, four), (2, six)]);
}

#[test]
fn labelled_packets_wait_for_a_neighbour_of_ipv6() {
    let mut lab = Lab::new();
    let next = lab.incomplete6(2, LinkType::Mpls, host6(2));
    tunnel(&lab, &[17], TtlMode::Uniform, next);
    assert!(lab.send(1, &ip4(to_router(1), 64).build()).is_empty());
    lab.complete(next);
    let out = ip4(labels(from_router(2), &[17], 63, 5), 63).build();
    let resolved = HoldMessage::Resolved {
        if_index: 2,
        ip: host6(2).octets(),
    };
    assert_eq!(lab.tell("ip6-discover-neighbor", resolved), [(2, out)]);
}

#[test]
fn a_labelled_packet_whose_neighbour_is_gone_is_dropped_in_silence() {
    let mut lab = Lab::new();
    let next = lab.incomplete4(2, LinkType::Mpls, host4(2));
    tunnel(&lab, &[17], TtlMode::Uniform, next);
    lab.send(1, &ip4(to_router(1), 64).build());
    assert!(lab.wait(5 * SECOND).is_empty());
    assert_eq!(lab.harness.drops(DropReason::UnresolvedNeighbor), 1);
    // The index of its adjacency may be another neighbour's by then.
    lab.send(1, &ip4(to_router(1), 64).build());
    let other = lab.incomplete4(3, LinkType::Mpls, host4(3));
    let slab = &lab.shared.adjacencies;
    let theirs = slab.get_control(other.index()).unwrap().clone();
    slab.replace(next.index(), theirs).unwrap();
    assert!(lab.tell("ip4-arp", HOP).is_empty());
    assert_eq!(lab.harness.drops(DropReason::NoAdjacency), 1);
    assert_eq!(lab.held(), 0);
}

#[test]
fn a_labelled_packet_whose_adjacency_is_removed_is_not_looked_up() {
    let mut lab = Lab::new();
    let next = lab.incomplete4(2, LinkType::Mpls, host4(2));
    tunnel(&lab, &[17], TtlMode::Uniform, next);
    lab.send(1, &ip4(to_router(1), 64).build());
    lab.shared.adjacencies.remove(next.index()).unwrap();
    lab.shared.domain.reclaim();
    lab.harness.dispatcher.reader.quiescent();
    lab.shared.domain.reclaim();
    lab.shared.adjacencies.sweep();
    assert!(lab.tell("ip4-arp", HOP).is_empty());
    assert_eq!(lab.drops(), [("ip4-arp".into(), "no_adjacency", 1)]);
}

#[test]
fn an_error_about_a_popped_packet_waits_like_any_other() {
    // It carries the marks of the popped label, and yet is looked up when its neighbour is known.
    let mut lab = Lab::new();
    let asker = [10, 0, 1, 60];
    let next = lab.adj4(2, host4(2), MTU);
    lab.label(16, true, lab.dispose(Payload::Ip4, TtlMode::Uniform, next));
    let probe = |link: PacketBuilder| link.ipv4(asker.into(), far4(2)).ttl(1).udp(1, 2).build();
    assert!(lab.send(1, &probe(to_router(1).mpls(16))).is_empty());
    assert_eq!(lab.held(), 1);
    lab.route4("10.0.1.60/32", lab.adj4(1, host4(1), MTU));
    let error = error4(
        1,
        asker.into(),
        (11, 0, 0),
        &probe(PacketBuilder::bare()),
        1,
    );
    let resolved = HoldMessage::Resolved {
        if_index: 1,
        ip: asker,
    };
    assert_eq!(lab.tell("ip4-arp", resolved), [(1, error)]);
}

#[test]
fn popped_packets_wait_and_go_on_along_their_binding() {
    // The router in the middle of a tunnel has no route for what is inside.
    let mut lab = Lab::new();
    let to4 = lab.incomplete4(2, LinkType::Ip4, host4(2));
    let to6 = lab.incomplete6(2, LinkType::Ip6, host6(2));
    lab.label(16, true, lab.dispose(Payload::Ip4, TtlMode::Uniform, to4));
    lab.label(18, true, lab.dispose(Payload::Ip6, TtlMode::Uniform, to6));
    assert!(
        lab.send(1, &ip4(to_router(1).mpls(16), 50).build())
            .is_empty()
    );
    assert!(
        lab.send(1, &ip6(to_router(1).mpls(18), 50).build())
            .is_empty()
    );
    lab.complete(to4);
    lab.complete(to6);
    let out = ip4(from_router(2), 49).build();
    assert_eq!(lab.tell("ip4-arp", HOP), [(2, out)]);
    let out = ip6(from_router(2), 49).build();
    let resolved = HoldMessage::Resolved {
        if_index: 2,
        ip: host6(2).octets(),
    };
    assert_eq!(lab.tell("ip6-discover-neighbor", resolved), [(2, out)]);
}

#[test]
fn popped_packets_that_were_looked_up_are_looked_up_again() {
    let mut lab = Lab::new();
    let red = lab.shared.ip4.create().unwrap();
    lab.route4_in(red, "10.66.0.0/16", Dpo::new(DpoKind::Glean, 2));
    let look = Dpo::new(DpoKind::LookupIp4, red);
    lab.label(16, true, lab.dispose(Payload::Ip4, TtlMode::Pipe, look));
    assert!(
        lab.send(1, &ip4(to_router(1).mpls(16), 50).build())
            .is_empty()
    );
    lab.route4_in(red, "10.66.0.1/32", lab.adj4(2, host4(2), MTU));
    let resolved = HoldMessage::Resolved {
        if_index: 2,
        ip: [10u8, 66, 0, 1],
    };
    let out = ip4(from_router(2), 49).build();
    assert_eq!(lab.tell("ip4-arp", resolved), [(2, out)]);
}
