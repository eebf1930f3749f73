//! Sub-interfaces: which frames they take, with which tags theirs leave, and changes of tags.

use parshall_buffer::Pool;
use parshall_counters::DropReason;
use parshall_wire::{ArpRepr, MacAddr, PacketBuilder};
use proptest::prelude::*;

use super::lab::*;
use super::parshall_nodes::if_flags;
use super::parshall_nodes::vlan::*;

/// `frame` with these tags.
fn tagged(frame: &[u8], tags: &[(u16, u16)]) -> Vec<u8> {
    let mut out = frame[..12].to_vec();
    for (tpid, id) in tags {
        out.extend(tpid.to_be_bytes());
        out.extend(id.to_be_bytes());
    }
    out.extend(&frame[12..]);
    out
}

fn takes(dot1ad: bool, outer: u16, inner: Option<u16>) -> VlanMatch {
    VlanMatch::Tagged {
        dot1ad,
        outer: VlanId::Is(outer),
        inner: inner.map(VlanId::Is),
        exact: true,
    }
}

fn udp(link: PacketBuilder, ttl: u8) -> Vec<u8> {
    link.ipv4(host4(1), far4(4))
        .ttl(ttl)
        .udp(7, 8)
        .payload_len(40)
        .build()
}

#[test]
fn routed_out_of_a_sub_interface_a_packet_has_its_tags() {
    let mut lab = Lab::new();
    lab.add_sub(4, 2, takes(false, 100, None));
    let out = tagged(&udp(from_router(4), 63), &[(DOT1Q, 100)]);
    lab.expect(1, &udp(to_router(1), 64), 2, &out);
    let c = &lab.harness.dispatcher.counters.interfaces;
    assert_eq!((c[4].tx_packets.get(), c[2].tx_packets.get()), (1, 1));
    assert_eq!(c[2].tx_bytes.get(), c[4].tx_bytes.get() + 4);
}

#[test]
fn received_with_its_tags_a_packet_is_the_sub_interfaces() {
    let mut lab = Lab::new();
    lab.add_sub(4, 1, takes(true, 10, Some(20)));
    let packet = |link: PacketBuilder, ttl| link.ipv4(host4(4), far4(2)).ttl(ttl).udp(7, 8).build();
    let tags = [(DOT1AD, 10), (DOT1Q, 20 | 5 << 13)];
    lab.expect(
        1,
        &tagged(&packet(to_router(4), 64), &tags),
        2,
        &packet(from_router(2), 63),
    );
    let c = &lab.harness.dispatcher.counters.interfaces;
    assert_eq!((c[4].rx_packets.get(), c[4].rx_bytes.get()), (1, 42 + 8));
    // The same VLANs as customer tags are another's, and nobody's here.
    let wrong = [(DOT1Q, 10), (DOT1Q, 20)];
    lab.expect_drop(
        1,
        &tagged(&packet(to_router(4), 64), &wrong),
        DropReason::UnknownVlan,
    );
    let more = [(DOT1AD, 10), (DOT1Q, 20), (DOT1Q, 30)];
    lab.expect_drop(
        1,
        &tagged(&packet(to_router(4), 64), &more),
        DropReason::UnknownVlan,
    );
    lab.clear_flags(4, if_flags::UP);
    lab.expect_drop(
        1,
        &tagged(&packet(to_router(4), 64), &tags),
        DropReason::InterfaceDown,
    );
    // What has a priority and no VLAN stays with the parent.
    let own = PacketBuilder::ethernet(host_mac(1), router_mac(1));
    let own = own.ipv4(host4(1), far4(2)).ttl(9).udp(7, 8).build();
    let sent = lab.send(1, &tagged(&own, &[(DOT1Q, 7 << 13)]));
    assert_eq!((sent.len(), sent[0].0), (1, 2));
}

#[test]
fn a_frame_of_many_vlans_is_sorted() {
    let mut lab = Lab::new();
    for n in 4..8 {
        lab.add_sub(n, 1, takes(false, 100 + n as u16, None));
    }
    let packet = |n: u32| {
        let p = to_router(n)
            .ipv4(host4(n), far4(2))
            .ttl(64)
            .udp(7, 8)
            .build();
        tagged(&p, &[(DOT1Q, 100 + n as u16)])
    };
    let frames: Vec<_> = (0..200).map(|k| packet(4 + k % 4)).collect();
    assert_eq!(lab.send_all(1, &frames).len(), 200);
    for n in 4..8 {
        assert_eq!(
            lab.harness.dispatcher.counters.interfaces[n]
                .rx_packets
                .get(),
            50
        );
    }
}

#[test]
fn arp_is_answered_with_the_tags_of_the_question() {
    let mut lab = Lab::new();
    lab.add_sub(4, 1, takes(false, 42, None));
    let ask = ArpRepr::request(host_mac(4), host4(4), router4(4));
    let question = PacketBuilder::ethernet(host_mac(4), MacAddr::BROADCAST)
        .arp(ask)
        .build();
    let answer = PacketBuilder::ethernet(router_mac(4), host_mac(4));
    let answer = answer.arp(ask.reply_from(router_mac(4))).build();
    let sent = lab.send(1, &tagged(&question[..42], &[(DOT1Q, 42)]));
    assert_eq!(sent.len(), 1, "{:?}", lab.drops());
    assert_eq!(hex(&sent[0].1), hex(&tagged(&answer[..42], &[(DOT1Q, 42)])));
}

#[test]
fn cross_connects_change_tags_in_and_back_out() {
    let mut lab = Lab::new();
    lab.add_sub(4, 1, takes(false, 10, None));
    lab.add_sub(5, 2, takes(false, 20, None));
    lab.cross_connect(4, 5);
    lab.cross_connect(5, 4);
    let frame = udp(to_router(1), 64);
    let (a, b) = (
        tagged(&frame, &[(DOT1Q, 10)]),
        tagged(&frame, &[(DOT1Q, 20)]),
    );
    // Without a rewrite the tag stays as it is.
    lab.expect(1, &a, 2, &a);
    let pop = TagRewrite {
        pop: 1,
        push: Tags::NONE,
    };
    lab.retag(4, pop);
    lab.retag(5, pop);
    lab.expect(1, &a, 2, &b);
    lab.expect(2, &b, 1, &a);
}

#[test]
fn an_interface_of_no_vlan_changes_tags_too() {
    let mut lab = Lab::new();
    lab.cross_connect(1, 2);
    lab.cross_connect(2, 1);
    lab.retag(
        1,
        TagRewrite {
            pop: 0,
            push: Tags::two(DOT1AD, 5, 6),
        },
    );
    let frame = udp(to_router(1), 64);
    let both = tagged(&frame, &[(DOT1AD, 5), (DOT1Q, 6)]);
    lab.expect(1, &frame, 2, &both);
    lab.expect(2, &both, 1, &frame);
    lab.expect_drop(2, &frame, DropReason::VlanTagMissing);
}

#[test]
fn a_parent_that_switches_takes_what_no_sub_interface_takes() {
    let mut lab = Lab::new();
    lab.add_sub(4, 1, takes(false, 10, None));
    lab.cross_connect(1, 3);
    let frame = tagged(&udp(to_router(1), 64), &[(DOT1Q, 11)]);
    lab.expect(1, &frame, 3, &frame);
    lab.clear_flags(1, if_flags::XCONNECT);
    lab.expect_drop(1, &frame, DropReason::UnknownVlan);
}

fn an_id() -> impl Strategy<Value = VlanId> {
    prop_oneof![Just(VlanId::Any), (1..5u16).prop_map(VlanId::Is)]
}

fn a_match() -> impl Strategy<Value = VlanMatch> {
    let tagged = (
        any::<bool>(),
        an_id(),
        prop::option::of(an_id()),
        any::<bool>(),
    )
        .prop_map(|(dot1ad, outer, inner, exact)| VlanMatch::Tagged {
            dot1ad,
            outer,
            inner,
            exact,
        });
    prop_oneof![8 => tagged, 1 => Just(VlanMatch::Default), 1 => Just(VlanMatch::Untagged)]
}

/// How well a match fits a frame, the higher the better; the table written as one rule.
fn rank(m: &VlanMatch, t: &FrameTags) -> Option<u32> {
    let VlanMatch::Tagged {
        dot1ad,
        outer,
        inner,
        exact,
    } = *m
    else {
        let fits = (*m == VlanMatch::Untagged) == (t.count == 0);
        return fits.then_some(1);
    };
    let wanted = 1 + u8::from(inner.is_some());
    let is = |v: VlanId, id: u16| v == VlanId::Any || v == VlanId::Is(id);
    let fits = dot1ad == t.dot1ad
        && t.count >= wanted
        && (!exact || t.count == wanted)
        && is(outer, t.outer)
        && inner.is_none_or(|v| is(v, t.inner));
    let of_inner = match inner {
        None => 0,
        Some(VlanId::Any) => 1,
        Some(VlanId::Is(_)) => 2,
    };
    fits.then(|| 2 + 3 * u32::from(outer != VlanId::Any) + of_inner)
}

proptest! {
    #[test]
    fn the_table_finds_what_the_rules_say(
        rules in prop::collection::vec(a_match(), 0..12),
        frames in prop::collection::vec((0..4u8, any::<bool>(), 1..6u16, 1..6u16), 1..40),
    ) {
        let place = |m: &VlanMatch| match *m {
            VlanMatch::Tagged { dot1ad, outer, inner, .. } => VlanMatch::Tagged { dot1ad, outer, inner, exact: true },
            other => other,
        };
        // One rule for each place, as control sees to.
        let mut seen = std::collections::HashSet::new();
        let rules: Vec<_> = rules.into_iter().filter(|m| seen.insert(place(m))).zip(1u32..).collect();
        let demux = VlanDemux::new(rules.iter().copied());
        for (count, dot1ad, outer, inner) in frames {
            let mut t = FrameTags { present: count, count, dot1ad, outer, inner };
            if count == 0 {
                (t.dot1ad, t.outer) = (false, 0);
            }
            if count < 2 {
                t.inner = 0;
            }
            let best = rules.iter().filter_map(|(m, n)| Some((rank(m, &t)?, *n))).max();
            prop_assert_eq!(demux.find(&t), best.map(|b| b.1), "{:?}", t);
        }
    }

    #[test]
    fn a_rewrite_and_its_inverse_leave_a_frame_as_it_was(
        own in prop::collection::vec(1..4095u16, 0..3),
        pop in 0..3u8,
        push in prop::collection::vec(1..4095u16, 0..3),
        dot1ad in any::<bool>(),
        body in prop::collection::vec(any::<u8>(), 2..60),
    ) {
        let tpid = if dot1ad { DOT1AD } else { DOT1Q };
        let tags = |ids: &[u16]| match *ids {
            [a, b] => Tags::two(tpid, a, b),
            [a] => Tags::one(tpid, a),
            _ => Tags::NONE,
        };
        let mut frame = vec![7; 12];
        frame.extend(tags(&own).words().concat());
        // The type of the payload must not look like a tag.
        frame.extend([8, 0]);
        frame.extend(body);
        let rewrite = TagRewrite { pop, push: tags(&push) };
        let mut pool = Pool::new(4).unwrap();
        let b = pool.packet_from(&frame, 1).unwrap();
        match rewrite.inverse(&tags(&own)) {
            None => prop_assert_eq!(rewrite.apply(&mut pool, b), Err(DropReason::VlanTagMissing)),
            Some(inverse) => {
                prop_assert_eq!(rewrite.apply(&mut pool, b), Ok(()));
                let mut changed = frame[..12].to_vec();
                changed.extend(tags(&push).words().concat());
                changed.extend(&frame[12 + 4 * usize::from(pop)..]);
                prop_assert_eq!(pool.to_vec(b), changed);
                prop_assert_eq!(inverse.apply(&mut pool, b), Ok(()));
                prop_assert_eq!(pool.to_vec(b), frame);
            }
        }
    }
}
