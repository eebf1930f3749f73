//! Labelled packets: swapped, popped, looked up, refused (RFC 3031, RFC 3032, RFC 3443).

use parshall_counters::DropReason;
use parshall_fib::{Dpo, DpoKind, Payload, TtlMode};
use parshall_wire::{IpProtocol, PacketBuilder};

use super::lab::*;
use super::parshall_nodes::if_flags;

/// A stack of (label, TTL), outermost first.
fn stack(link: PacketBuilder, labels: &[(u32, u8)]) -> PacketBuilder {
    labels
        .iter()
        .fold(link, |p, (label, ttl)| p.mpls(*label).ttl(*ttl))
}

/// An IPv4 packet from the host on interface 1 to the network behind interface 2.
fn ip4(link: PacketBuilder, ttl: u8) -> Vec<u8> {
    link.ipv4(host4(1), far4(2))
        .ttl(ttl)
        .udp(1000, 2000)
        .payload_len(30)
        .build()
}

fn ip6(link: PacketBuilder, hops: u8) -> Vec<u8> {
    link.ipv6(host6(1), far6(2))
        .ttl(hops)
        .udp(1000, 2000)
        .payload_len(30)
        .build()
}

fn swap_to(lab: &Lab, n: u32, labels: &[u32], mode: TtlMode) -> Dpo {
    lab.impose(labels, Payload::Mpls, mode, lab.adj_mpls(n, MTU))
}

#[test]
fn a_swap_changes_the_label_and_lowers_its_ttl() {
    let mut lab = Lab::new();
    lab.label(16, true, swap_to(&lab, 2, &[17], TtlMode::Uniform));
    for ttl in [2, 3, 64, 255] {
        for class in [0, 5, 7] {
            let frame =
                |link: PacketBuilder, label, ttl| ip4(link.mpls(label).class(class).ttl(ttl), 40);
            let out = frame(from_router(2), 17, ttl - 1);
            lab.expect(1, &frame(to_router(1), 16, ttl), 2, &out);
        }
    }
}

#[test]
fn a_swap_in_a_stack_leaves_the_labels_below_alone() {
    let mut lab = Lab::new();
    lab.label(16, false, swap_to(&lab, 2, &[17], TtlMode::Uniform));
    for below in [&[(100, 9)][..], &[(100, 9), (200, 1)]] {
        let with = |link, top| {
            let labels = [&[top], below].concat();
            ip4(stack(link, &labels), 40)
        };
        let out = with(from_router(2), (17, 63));
        lab.expect(1, &with(to_router(1), (16, 64)), 2, &out);
    }
}

#[test]
fn the_bottom_of_the_stack_has_bindings_of_its_own() {
    let mut lab = Lab::new();
    lab.label(16, true, swap_to(&lab, 2, &[17], TtlMode::Uniform));
    lab.label(16, false, swap_to(&lab, 3, &[18], TtlMode::Uniform));
    let bottom = ip4(stack(to_router(1), &[(16, 64)]), 40);
    let above = ip4(stack(to_router(1), &[(16, 64), (99, 64)]), 40);
    assert_eq!(lab.send(1, &bottom)[0].0, 2);
    assert_eq!(lab.send(1, &above)[0].0, 3);
    // One vector with both.
    let out: Vec<_> = lab
        .send_all(1, &[above, bottom])
        .iter()
        .map(|s| s.0)
        .collect();
    assert!(out.contains(&2) && out.contains(&3));
}

#[test]
fn a_swap_may_push_more_labels() {
    let mut lab = Lab::new();
    lab.label(16, true, swap_to(&lab, 2, &[30, 31, 32], TtlMode::Uniform));
    lab.label(16, false, swap_to(&lab, 2, &[40, 41], TtlMode::Pipe));
    let frame = ip4(stack(to_router(1), &[(16, 64)]), 40);
    let out = ip4(stack(from_router(2), &[(30, 63), (31, 63), (32, 63)]), 40);
    lab.expect(1, &frame, 2, &out);
    let frame = ip4(stack(to_router(1), &[(16, 64), (50, 7)]), 40);
    let out = ip4(stack(from_router(2), &[(40, 255), (41, 255), (50, 7)]), 40);
    lab.expect(1, &frame, 2, &out);
}

#[test]
fn the_last_hop_but_one_pops_and_sends_ip() {
    let mut lab = Lab::new();
    let to4 = lab.adj4(2, host4(2), MTU);
    let to6 = lab.adj6(2, host6(2), MTU);
    lab.label(16, true, lab.dispose(Payload::Ip4, TtlMode::Uniform, to4));
    lab.label(17, true, lab.dispose(Payload::Ip4, TtlMode::Pipe, to4));
    lab.label(18, true, lab.dispose(Payload::Ip6, TtlMode::Uniform, to6));
    lab.label(19, true, lab.dispose(Payload::Ip6, TtlMode::Pipe, to6));
    // (label, TTL of the label, TTL inside, TTL out): uniform takes the lower of both along.
    for (label, outer, inner, out) in [
        (16, 10, 64, 9),
        (16, 64, 10, 9),
        (16, 2, 64, 1),
        (17, 10, 64, 63),
        (17, 2, 2, 1),
    ] {
        let frame = ip4(stack(to_router(1), &[(label, outer)]), inner);
        lab.expect(1, &frame, 2, &ip4(from_router(2), out));
        let frame = ip6(stack(to_router(1), &[(label + 2, outer)]), inner);
        lab.expect(1, &frame, 2, &ip6(from_router(2), out));
    }
}

#[test]
fn the_last_hop_pops_and_looks_up() {
    let mut lab = Lab::new();
    let red = lab.shared.ip4.create().unwrap();
    lab.route4_in(red, "10.12.0.0/16", lab.adj4(3, host4(3), MTU));
    let look = |table| Dpo::new(DpoKind::LookupIp4, table);
    lab.label(
        16,
        true,
        lab.dispose(Payload::Ip4, TtlMode::Uniform, look(0)),
    );
    lab.label(
        17,
        true,
        lab.dispose(Payload::Ip4, TtlMode::Pipe, look(red)),
    );
    let six = Dpo::new(DpoKind::LookupIp6, 0);
    lab.label(18, true, lab.dispose(Payload::Ip6, TtlMode::Uniform, six));
    let frame = ip4(stack(to_router(1), &[(16, 30)]), 64);
    lab.expect(1, &frame, 2, &ip4(from_router(2), 29));
    let frame = ip4(stack(to_router(1), &[(17, 30)]), 64);
    lab.expect(1, &frame, 3, &ip4(from_router(3), 63));
    let frame = ip6(stack(to_router(1), &[(18, 30)]), 64);
    lab.expect(1, &frame, 2, &ip6(from_router(2), 29));
    // All in one vector, each in its own table.
    let frames: Vec<_> = [16, 17, 16]
        .map(|l| ip4(stack(to_router(1), &[(l, 30)]), 64))
        .to_vec();
    let mut out: Vec<_> = lab.send_all(1, &frames).iter().map(|s| s.0).collect();
    out.sort_unstable();
    assert_eq!(out, [2, 2, 3]);
}

#[test]
fn the_router_answers_through_a_tunnel() {
    let mut lab = Lab::new();
    let look = Dpo::new(DpoKind::LookupIp4, 0);
    lab.label(16, true, lab.dispose(Payload::Ip4, TtlMode::Uniform, look));
    let ping = to_router(1)
        .mpls(16)
        .ipv4(host4(1), router4(2))
        .echo_request(1, 1)
        .build();
    let reply = from_router(1)
        .ipv4(router4(2), host4(1))
        .echo_reply(1, 1)
        .build();
    lab.expect(1, &ping, 1, &reply);
    // What expires behind the tunnel is answered as if it had come without.
    let probe = ip4(stack(to_router(1), &[(16, 9)]), 1);
    let quoted = ip4(PacketBuilder::bare(), 1);
    let error = error4(1, host4(1), (11, 0, 0), &quoted, 1);
    lab.expect(1, &probe, 1, &error);
}

#[test]
fn an_error_goes_back_in_the_table_of_the_tunnel() {
    let mut lab = Lab::new();
    let red = lab.shared.ip4.create().unwrap();
    lab.route4_in(red, "10.0.1.0/24", lab.adj4(3, host4(3), MTU));
    let look = Dpo::new(DpoKind::LookupIp4, red);
    lab.label(16, true, lab.dispose(Payload::Ip4, TtlMode::Pipe, look));
    let sent = lab.send(1, &ip4(stack(to_router(1), &[(16, 64)]), 64));
    assert_eq!((sent.len(), sent[0].0), (1, 3));
    assert_eq!(lab.harness.drops(DropReason::NoRoute), 1);
}

#[test]
fn a_pop_may_uncover_another_label() {
    let mut lab = Lab::new();
    let next = lab.adj_mpls(2, MTU);
    lab.label(
        16,
        false,
        lab.dispose(Payload::Mpls, TtlMode::Uniform, next),
    );
    lab.label(17, false, lab.dispose(Payload::Mpls, TtlMode::Pipe, next));
    for (label, outer, inner, out) in [(16, 10, 64, 9), (16, 64, 10, 10), (17, 10, 64, 64)] {
        let frame = ip4(
            stack(to_router(1), &[(label, outer), (50, inner), (51, 3)]),
            40,
        );
        let sent = ip4(stack(from_router(2), &[(50, out), (51, 3)]), 40);
        lab.expect(1, &frame, 2, &sent);
    }
}

#[test]
fn a_pop_may_look_the_next_label_up_here() {
    // However many labels one router handles, it is one hop.
    let mut lab = Lab::new();
    let again = Dpo::new(DpoKind::LookupMpls, 0);
    lab.label(
        16,
        false,
        lab.dispose(Payload::Mpls, TtlMode::Uniform, again),
    );
    lab.label(17, true, swap_to(&lab, 2, &[99], TtlMode::Uniform));
    for (outer, inner, out) in [(10, 64, 9), (64, 10, 9), (2, 64, 1)] {
        let frame = ip4(stack(to_router(1), &[(16, outer), (17, inner)]), 40);
        lab.expect(1, &frame, 2, &ip4(stack(from_router(2), &[(99, out)]), 40));
    }
    let frame = ip4(
        stack(to_router(1), &[(16, 64), (16, 63), (16, 62), (17, 61)]),
        40,
    );
    lab.expect(1, &frame, 2, &ip4(stack(from_router(2), &[(99, 60)]), 40));
}

#[test]
fn explicit_nulls_are_popped_without_a_binding() {
    let mut lab = Lab::new();
    let frame = ip4(stack(to_router(1), &[(0, 30)]), 64);
    lab.expect(1, &frame, 2, &ip4(from_router(2), 29));
    let frame = ip6(stack(to_router(1), &[(2, 30)]), 64);
    lab.expect(1, &frame, 2, &ip6(from_router(2), 29));
    // RFC 4182: also above other labels.
    lab.label(17, true, swap_to(&lab, 2, &[99], TtlMode::Uniform));
    for null in [0, 2] {
        let frame = ip4(stack(to_router(1), &[(null, 30), (17, 64)]), 40);
        lab.expect(1, &frame, 2, &ip4(stack(from_router(2), &[(99, 29)]), 40));
    }
    // What is below must be what the label says.
    let frame = ip6(stack(to_router(1), &[(0, 30)]), 64);
    lab.expect_drop(1, &frame, DropReason::Ip4BadVersion);
    let frame = ip4(stack(to_router(1), &[(2, 30)]), 64);
    lab.expect_drop(1, &frame, DropReason::Ip6BadVersion);
}

#[test]
fn a_label_that_lives_no_longer_is_dropped() {
    let mut lab = Lab::new();
    lab.label(16, true, swap_to(&lab, 2, &[17], TtlMode::Uniform));
    let good = ip4(stack(to_router(1), &[(16, 64)]), 64);
    for ttl in [0, 1] {
        let frame = ip4(stack(to_router(1), &[(16, ttl)]), 64);
        lab.expect_drop(1, &frame, DropReason::MplsTtlExpired);
        let sent = lab.send_all(1, &[good.clone(), frame, good.clone()]);
        assert_eq!(sent.len(), 2);
    }
}

#[test]
fn an_uncovered_label_that_is_dead_already_is_dropped() {
    let mut lab = Lab::new();
    let next = lab.adj_mpls(2, MTU);
    lab.label(16, false, lab.dispose(Payload::Mpls, TtlMode::Pipe, next));
    let frame = ip4(stack(to_router(1), &[(16, 64), (17, 0)]), 64);
    lab.expect_drop(1, &frame, DropReason::MplsTtlExpired);
}

#[test]
fn labels_nobody_bound_are_dropped() {
    let mut lab = Lab::new();
    lab.label(16, true, swap_to(&lab, 2, &[17], TtlMode::Uniform));
    for label in [1, 3, 7, 13, 14, 15, 18, 1_048_575] {
        let frame = ip4(stack(to_router(1), &[(label, 64)]), 64);
        lab.expect_drop(1, &frame, DropReason::MplsNoLabel);
    }
    let above = ip4(stack(to_router(1), &[(16, 64), (17, 64)]), 64);
    lab.expect_drop(1, &above, DropReason::MplsNoLabel);
}

#[test]
fn an_interface_without_mpls_takes_none() {
    let mut lab = Lab::new();
    lab.label(16, true, swap_to(&lab, 2, &[17], TtlMode::Uniform));
    lab.clear_flags(1, if_flags::MPLS);
    let frame = ip4(stack(to_router(1), &[(16, 64)]), 64);
    lab.expect_drop(1, &frame, DropReason::MplsNotEnabled);
    let mut other = frame.clone();
    other[..6].copy_from_slice(&router_mac(2).0);
    let sent = lab.send_mixed(&[(1, frame), (2, other)]);
    assert_eq!(sent.len(), 1);
}

#[test]
fn a_stack_that_is_cut_is_dropped() {
    let mut lab = Lab::new();
    let again = Dpo::new(DpoKind::LookupMpls, 0);
    let next = lab.adj_mpls(2, MTU);
    lab.label(
        16,
        false,
        lab.dispose(Payload::Mpls, TtlMode::Uniform, again),
    );
    lab.label(
        17,
        false,
        lab.dispose(Payload::Mpls, TtlMode::Uniform, next),
    );
    for label in [16, 17, 0] {
        let frame = ip4(stack(to_router(1), &[(label, 64), (99, 64)]), 64);
        for len in 14..18 {
            lab.expect_drop(1, &frame[..len], DropReason::MplsTooShort);
        }
        for len in 18..22 {
            lab.expect_drop(1, &frame[..len], DropReason::MplsTooShort);
        }
    }
}

#[test]
fn a_stack_that_is_not_what_the_label_says_is_dropped() {
    let mut lab = Lab::new();
    let to4 = lab.adj4(2, host4(2), MTU);
    let next = lab.adj_mpls(2, MTU);
    lab.label(16, false, lab.dispose(Payload::Ip4, TtlMode::Uniform, to4));
    lab.label(17, true, lab.dispose(Payload::Mpls, TtlMode::Uniform, next));
    let frame = ip4(stack(to_router(1), &[(16, 64), (99, 64)]), 64);
    lab.expect_drop(1, &frame, DropReason::MplsBadStack);
    let frame = ip4(stack(to_router(1), &[(17, 64)]), 64);
    lab.expect_drop(1, &frame, DropReason::MplsBadStack);
}

#[test]
fn what_a_label_covered_is_checked_as_if_it_had_just_come() {
    let mut lab = Lab::new();
    let look4 = Dpo::new(DpoKind::LookupIp4, 0);
    let look6 = Dpo::new(DpoKind::LookupIp6, 0);
    lab.label(16, true, lab.dispose(Payload::Ip4, TtlMode::Uniform, look4));
    lab.label(18, true, lab.dispose(Payload::Ip6, TtlMode::Uniform, look6));
    let good = ip4(stack(to_router(1), &[(16, 64)]), 64);
    let change = |at: usize, value: u8| {
        let mut frame = good.clone();
        frame[at] = value;
        frame
    };
    lab.expect_drop(1, &change(18, 0x65), DropReason::Ip4BadVersion);
    lab.expect_drop(1, &change(18, 0x44), DropReason::Ip4BadHeaderLength);
    lab.expect_drop(1, &change(28, 0), DropReason::Ip4BadChecksum);
    lab.expect_drop(1, &good[..60], DropReason::Ip4BadLength);
    lab.expect_drop(1, &good[..18], DropReason::Ip4TooShort);
    let group = to_router(1)
        .mpls(16)
        .ipv4(host4(1), [224, 0, 0, 1].into())
        .udp(1, 2)
        .build();
    lab.expect_drop(1, &group, DropReason::Ip4Multicast);
    let six = ip6(stack(to_router(1), &[(18, 64)]), 64);
    lab.expect_drop(1, &six[..57], DropReason::Ip6TooShort);
    lab.expect_drop(1, &six[..60], DropReason::Ip6BadLength);
    let group = to_router(1)
        .mpls(18)
        .ipv6(host6(1), ALL_NODES)
        .udp(1, 2)
        .build();
    lab.expect_drop(1, &group, DropReason::Ip6Multicast);
    // Link-layer padding is cut off here, too.
    let mut padded = ip4(stack(to_router(1), &[(16, 64)]), 64);
    padded.resize(200, 0xEE);
    lab.expect(1, &padded, 2, &ip4(from_router(2), 63));
}

#[test]
fn bindings_that_lead_nowhere_are_drops() {
    let mut lab = Lab::new();
    let to4 = lab.adj4(2, host4(2), MTU);
    let missing = Dpo::new(DpoKind::MplsPop, 60);
    lab.label(16, true, Dpo::BLACKHOLE);
    lab.label(17, true, to4);
    lab.label(18, true, missing);
    lab.label(19, true, Dpo::new(DpoKind::MplsImpose, 60));
    lab.label(20, true, Dpo::new(DpoKind::LoadBalance, 60));
    let wrong = lab.dispose(
        Payload::Ip4,
        TtlMode::Uniform,
        Dpo::new(DpoKind::LookupIp6, 0),
    );
    lab.label(21, true, wrong);
    let gone = lab.impose(&[9], Payload::Mpls, TtlMode::Uniform, Dpo::BLACKHOLE);
    lab.label(23, true, gone);
    for (label, reason) in [
        (16, DropReason::RouteBlackhole),
        (17, DropReason::NoAdjacency),
        (18, DropReason::NoAdjacency),
        (19, DropReason::NoAdjacency),
        (20, DropReason::MplsNoLabel),
        (21, DropReason::NoAdjacency),
        (23, DropReason::NoAdjacency),
    ] {
        let frame = ip4(stack(to_router(1), &[(label, 64)]), 64);
        lab.expect_drop(1, &frame, reason);
    }
}

#[test]
fn flows_in_a_tunnel_are_balanced_by_what_is_inside() {
    let mut lab = Lab::new();
    let ways = [
        swap_to(&lab, 2, &[30], TtlMode::Uniform),
        swap_to(&lab, 3, &[31], TtlMode::Uniform),
    ];
    lab.label(16, true, lab.balance(&ways));
    lab.label(17, false, lab.balance(&ways));
    for labels in [&[(16, 64)][..], &[(17, 64), (99, 1)]] {
        let frames: Vec<_> = (0..800u16)
            .map(|i| {
                stack(to_router(1), labels)
                    .ipv4(host4(1), far4(2))
                    .ttl((i % 2) as u8 + 60)
                    .udp(i / 2, 53)
                    .build()
            })
            .collect();
        let mut way = std::collections::HashMap::<u16, Vec<u32>>::new();
        for (out, bytes) in lab.send_all(1, &frames) {
            let at = 14 + 4 * labels.len() + 20;
            let port = u16::from_be_bytes([bytes[at], bytes[at + 1]]);
            way.entry(port).or_default().push(out);
        }
        assert!(way.len() == 400 && way.values().all(|w| w.len() == 2 && w[0] == w[1]));
        let second = way.values().filter(|w| w[0] == 2).count();
        // 200 expected, standard deviation 10.
        assert!((140..260).contains(&second), "{second}");
    }
}

#[test]
fn what_is_not_ip_is_carried_all_the_same() {
    let mut lab = Lab::new();
    lab.label(16, true, swap_to(&lab, 2, &[17], TtlMode::Uniform));
    let balance = lab.balance(&[
        swap_to(&lab, 2, &[30], TtlMode::Uniform),
        swap_to(&lab, 3, &[31], TtlMode::Uniform),
    ]);
    lab.label(18, true, balance);
    let raw = |link: PacketBuilder, label, ttl, len| {
        link.mpls(label)
            .ttl(ttl)
            .protocol(IpProtocol(0))
            .payload(&vec![0; len])
            .build()
    };
    for len in [0, 1, 46, 1400] {
        let out = raw(from_router(2), 17, 63, len);
        lab.expect(1, &raw(to_router(1), 16, 64, len), 2, &out);
        assert_eq!(lab.send(1, &raw(to_router(1), 18, 64, len)).len(), 1);
    }
}

#[test]
fn labelled_jumbo_packets_pass_in_chains() {
    let mut lab = Lab::new();
    lab.harness.add_interface(2, 9018);
    let next = lab.adj_mpls(2, 9004);
    lab.label(
        16,
        true,
        lab.impose(&[17], Payload::Mpls, TtlMode::Uniform, next),
    );
    let jumbo = |link: PacketBuilder, label, ttl| {
        link.mpls(label)
            .ttl(ttl)
            .ipv4(host4(1), far4(2))
            .udp(1, 2)
            .total_len(9018)
            .build()
    };
    let out = jumbo(from_router(2), 17, 63);
    lab.expect(1, &jumbo(to_router(1), 16, 64), 2, &out);
}

#[test]
fn a_labelled_packet_too_big_for_its_link_is_dropped() {
    let mut lab = Lab::new();
    let next = lab.adj_mpls(2, 500);
    lab.label(
        16,
        true,
        lab.impose(&[17], Payload::Mpls, TtlMode::Uniform, next),
    );
    let sized = |len: usize| {
        to_router(1)
            .mpls(16)
            .ipv4(host4(1), far4(2))
            .udp(1, 2)
            .total_len(14 + len)
            .build()
    };
    assert_eq!(lab.send(1, &sized(500)).len(), 1);
    lab.expect_drop(1, &sized(501), DropReason::LinkMtuExceeded);
}
