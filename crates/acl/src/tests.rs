//! The classifier against a walk over the rules, with packets of every shape.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use crate::{Action, Classifier, Hits, Key, Key4, Key6, Rule, UpperLayer};

/// Few values, so that rules overlap and packets hit them.
fn address(ip6: bool) -> impl Strategy<Value = IpAddr> {
    (
        0u8..3,
        0u8..3,
        prop_oneof![Just(0u8), Just(1), Just(128), any::<u8>()],
    )
        .prop_map(move |(a, b, c)| match ip6 {
            false => Ipv4Addr::new(10 + a, b, 0, c).into(),
            true => Ipv6Addr::new(0x2001, 0xDB8, a.into(), 0, 0, b.into(), 0, c.into()).into(),
        })
}

fn prefix(ip6: bool) -> impl Strategy<Value = (IpAddr, u8)> {
    let most = if ip6 { 128u8 } else { 32 };
    let len = prop_oneof![Just(0), Just(most), 0..=most];
    (address(ip6), len)
}

fn range() -> impl Strategy<Value = (u16, u16)> {
    let some = (port(), port()).prop_map(|(a, b)| (a.min(b), a.max(b)));
    prop_oneof![Just((0, u16::MAX)), some]
}

fn port() -> impl Strategy<Value = u16> {
    prop_oneof![
        0u16..12,
        250u16..262,
        510u16..514,
        Just(u16::MAX),
        any::<u16>()
    ]
}

fn proto() -> impl Strategy<Value = u8> {
    prop_oneof![
        Just(0u8),
        Just(1),
        Just(6),
        Just(17),
        Just(58),
        Just(89),
        Just(132)
    ]
}

fn rule(ip6: bool) -> impl Strategy<Value = Rule> {
    let flags = prop_oneof![
        Just((0, 0)),
        (any::<u8>(), any::<u8>()).prop_map(|(m, v)| (m, v & m))
    ];
    (
        any::<bool>(),
        prefix(ip6),
        prefix(ip6),
        proto(),
        range(),
        range(),
        flags,
    )
        .prop_map(
            |(permit, src, dst, proto, sport, dport, (tcp_mask, tcp_value))| Rule {
                action: if permit { Action::Permit } else { Action::Deny },
                src,
                dst,
                proto,
                sport,
                dport,
                tcp_mask,
                tcp_value,
            },
        )
}

fn rules() -> impl Strategy<Value = Vec<Rule>> {
    // More than a block now and then.
    let one = || any::<bool>().prop_flat_map(rule);
    prop_oneof![
        4 => prop::collection::vec(one(), 0..40),
        1 => prop::collection::vec(one(), 250..600),
    ]
}

fn l4_bytes() -> impl Strategy<Value = Vec<u8>> {
    (port(), port(), any::<u8>(), 0usize..24).prop_map(|(s, d, flags, len)| {
        let mut b = vec![0; 24];
        b[0..2].copy_from_slice(&s.to_be_bytes());
        b[2..4].copy_from_slice(&d.to_be_bytes());
        b[13] = flags;
        b.truncate(len.max(2));
        b
    })
}

fn octets(a: IpAddr) -> Vec<u8> {
    match a {
        IpAddr::V4(a) => a.octets().to_vec(),
        IpAddr::V6(a) => a.octets().to_vec(),
    }
}

fn packet4() -> impl Strategy<Value = Vec<u8>> {
    let fragment = prop_oneof![3 => Just(0u16), 1 => Just(0x2000), 1 => 1u16..0x2000];
    (
        address(false),
        address(false),
        proto(),
        fragment,
        0u8..3,
        l4_bytes(),
    )
        .prop_map(|(src, dst, proto, fragment, options, l4)| {
            let mut p = vec![0; 12];
            p[0] = 0x45 + options;
            p[6..8].copy_from_slice(&fragment.to_be_bytes());
            p[9] = proto;
            p.extend(octets(src));
            p.extend(octets(dst));
            p.extend(vec![1; usize::from(options) * 4]);
            p.extend(l4);
            p
        })
}

/// Extension headers: which, length byte, and what a fragment header says.
fn packet6() -> impl Strategy<Value = Vec<u8>> {
    let extension = (
        prop_oneof![Just(0u8), Just(43), Just(44), Just(51), Just(60)],
        0u8..3,
        prop_oneof![Just(0u16), Just(1), (1u16..100).prop_map(|o| o << 3)],
    );
    let chain = prop::collection::vec(extension, 0..10);
    (address(true), address(true), proto(), chain, l4_bytes()).prop_map(
        |(src, dst, proto, chain, l4)| {
            let mut p = vec![0; 8];
            p[0] = 0x60;
            p[6] = chain.first().map_or(proto, |c| c.0);
            p.extend(octets(src));
            p.extend(octets(dst));
            for (i, (kind, len, offset)) in chain.iter().enumerate() {
                let size = match kind {
                    44 => 8,
                    51 => (usize::from(*len) + 2) * 4,
                    _ => (usize::from(*len) + 1) * 8,
                };
                let mut h = vec![0; size];
                (h[0], h[1]) = (chain.get(i + 1).map_or(proto, |c| c.0), *len);
                if *kind == 44 {
                    h[2..4].copy_from_slice(&offset.to_be_bytes());
                }
                p.extend(h);
            }
            p.extend(l4);
            p
        },
    )
}

fn key(p: &[u8]) -> Option<Key> {
    match p.first()? >> 4 {
        4 => Key4::read(p).map(Key::Ip4),
        _ => Key6::read(p).map(Key::Ip6),
    }
}

proptest! {
    #[test]
    fn the_classifier_finds_what_a_walk_finds(
        rules in rules(),
        packets in prop::collection::vec(prop_oneof![packet4(), packet6()], 40),
        later in any::<bool>(),
    ) {
        let compiled = Classifier::new(&rules, later);
        for k in packets.iter().filter_map(|p| key(p)) {
            let walk = rules.iter().position(|r| r.matches(&k, later)).map(|i| i as u32);
            prop_assert_eq!(compiled.find(&k), walk, "{:?}", k);
        }
    }

    #[test]
    fn no_bytes_are_too_odd(p in prop::collection::vec(any::<u8>(), 0..200)) {
        let (a, b) = (Key4::read(&p), Key6::read(&p));
        prop_assert!(a.is_none() || b.is_none());
    }
}

fn v6(first: u8, rest: &[&[u8]]) -> Vec<u8> {
    let mut p = vec![0x60, 0, 0, 0, 0, 0, first, 64];
    p.extend([1; 32]);
    rest.iter().for_each(|r| p.extend(*r));
    p
}

#[test]
fn extension_headers_are_walked_to_the_upper_layer() {
    let udp: &[u8] = &[0, 7, 0, 8, 0, 8, 0, 0];
    let options = [17, 0, 1, 4, 0, 0, 0, 0];
    let l4 = Key6::read(&v6(60, &[&options, udp])).unwrap().l4;
    assert_eq!(
        (l4.proto, l4.sport, l4.dport, l4.kind),
        (17, 7, 8, UpperLayer::Ports)
    );
    let ah = [17, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1];
    assert_eq!(Key6::read(&v6(51, &[&ah, udp])).unwrap().l4.dport, 8);
    let first = [17, 0, 0, 1, 0, 0, 0, 9];
    assert_eq!(Key6::read(&v6(44, &[&first, udp])).unwrap().l4.dport, 8);
    let later = [17, 0, 0, 8, 0, 0, 0, 9];
    let l4 = Key6::read(&v6(44, &[&later, udp])).unwrap().l4;
    assert_eq!((l4.proto, l4.kind), (17, UpperLayer::Later));
}

#[test]
fn what_hides_its_ports_has_no_key() {
    let udp: &[u8] = &[0, 7, 0, 8, 0, 8, 0, 0];
    let again = [60, 0, 1, 4, 0, 0, 0, 0];
    let last = [17, 0, 1, 4, 0, 0, 0, 0];
    let chain = |n: usize| {
        let mut parts: Vec<&[u8]> = vec![&again; n - 1];
        parts.extend([&last[..], udp]);
        Key6::read(&v6(60, &parts)).is_some()
    };
    assert!(chain(8) && !chain(9), "the walk is bounded");
    let long = [17, 255, 1, 4, 0, 0, 0, 0];
    assert_eq!(Key6::read(&v6(60, &[&long, udp])), None, "behind the end");
    let hidden = [60, 0, 0, 8, 0, 0, 0, 9];
    assert_eq!(Key6::read(&v6(44, &[&hidden, udp])), None);
    let mut tcp = vec![0x45, 0, 0, 33, 0, 0, 0x20, 0, 64, 6, 0, 0];
    tcp.extend([9; 8 + 13]);
    assert_eq!(
        Key4::read(&tcp),
        None,
        "a first fragment without flags (RFC 1858)"
    );
    tcp.push(0x12);
    assert_eq!(Key4::read(&tcp).unwrap().l4.flags, 0x12);
}

#[test]
fn fragments_match_without_ports_if_they_may() {
    let mut p = vec![0x45, 0, 0, 28, 0, 0, 0, 9, 64, 17, 0, 0];
    p.extend([10, 0, 0, 1, 10, 0, 0, 2, 1, 2, 3, 4, 5, 6, 7, 8]);
    let key = Key4::read(&p).unwrap();
    let udp = Rule {
        proto: 17,
        dport: (53, 53),
        ..Rule::any(Action::Permit, false)
    };
    assert_eq!(Classifier::new(&[udp], true).find4(&key), Some(0));
    assert_eq!(Classifier::new(&[udp], false).find4(&key), None);
    let rest = Rule::any(Action::Deny, false);
    assert_eq!(Classifier::new(&[udp, rest], false).find4(&key), Some(1));
}

#[test]
fn rules_are_checked() {
    let any = Rule::any(Action::Permit, false);
    assert_eq!(any.check(), Ok(()));
    let mixed = Rule {
        dst: Rule::any(Action::Permit, true).dst,
        ..any
    };
    assert!(mixed.check().unwrap_err().0.contains("different families"));
    assert!(
        Rule {
            src: (any.src.0, 33),
            ..any
        }
        .check()
        .is_err()
    );
    assert!(
        Rule {
            dport: (9, 8),
            ..any
        }
        .check()
        .is_err()
    );
}

#[test]
fn hits_are_summed_over_workers() {
    let hits = Hits::new(2, 5);
    hits.add(0, 4, 2, 200);
    hits.add(1, 4, 1, 60);
    hits.add(2, 4, 9, 9);
    hits.add(0, 64, 9, 9);
    assert_eq!(
        (hits.get(4), hits.get(0), hits.get(99)),
        ((3, 260), (0, 0), (0, 0))
    );
}
