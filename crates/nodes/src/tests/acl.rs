//! Access lists in every place they can be put.

use std::sync::Arc;

use parshall_acl::{AclList, AclTables, Action, Compiled, Entry, Hits, Rule};
use parshall_counters::DropReason;
use parshall_wire::{EtherType, IpProtocol, MacAddr, PacketBuilder, TcpFlags};

use super::lab::*;

/// Puts a list on interface `n`: rules in order, for packets that come in, or go out.
fn put(lab: &mut Lab, n: u32, out: bool, rules: Vec<Rule>) -> (Arc<Hits>, Arc<Hits>) {
    let hits = Arc::new(Hits::new(1, rules.len()));
    let unmatched = Arc::new(Hits::new(1, 1));
    let list = AclList {
        rules: rules.into(),
        hits: hits.clone(),
    };
    let entry = Entry {
        lists: Arc::new(Compiled::new(&[list], true)),
        unmatched: unmatched.clone(),
    };
    let mut tables: AclTables = (*lab.shared.acls.read_control(&lab.shared.domain)).clone();
    let table = if out {
        &mut tables.output
    } else {
        &mut tables.input
    };
    table.resize(8, None);
    table[n as usize] = Some(entry);
    lab.shared.acls.publish(&lab.shared.domain, tables);
    let nodes: &[&str] = match out {
        true => &["acl-out"],
        false => &["acl-in-ip4", "acl-in-ip6", "acl-in-l2"],
    };
    for node in nodes {
        lab.graph.set_feature(node, n, true).unwrap();
    }
    (hits, unmatched)
}

fn udp(action: Action, ip6: bool, port: u16) -> Rule {
    Rule {
        proto: 17,
        dport: (port, port),
        ..Rule::any(action, ip6)
    }
}

fn to4(port: u16) -> PacketBuilder {
    to_router(1)
        .ipv4(far4(1), far4(2))
        .udp(9, port)
        .payload_len(30)
}

fn to6(port: u16) -> PacketBuilder {
    to_router(1)
        .ipv6(far6(1), far6(2))
        .udp(9, port)
        .payload_len(30)
}

fn feed(lab: &mut Lab, n: u32, frames: &[Vec<u8>]) -> usize {
    lab.harness.put("ethernet-input", n, frames, SECOND);
    lab.harness.conserved().unwrap();
    lab.harness.sent().len()
}

#[test]
fn the_first_rule_that_matches_decides_and_nothing_else_passes() {
    let mut lab = Lab::new();
    let rules = vec![
        udp(Action::Deny, false, 53),
        udp(Action::Permit, false, 53),
        udp(Action::Permit, false, 80),
        udp(Action::Permit, true, 53),
    ];
    let (hits, unmatched) = put(&mut lab, 1, false, rules);
    let frames = [to4(53), to4(80), to4(80), to4(81), to6(53), to6(80)];
    let frames: Vec<_> = frames.into_iter().map(|f| f.build()).collect();
    assert_eq!(feed(&mut lab, 1, &frames), 3);
    assert_eq!(lab.harness.drops(DropReason::AclDeny), 3);
    assert_eq!(hits.get(0), (1, 20 + 8 + 30));
    assert_eq!((hits.get(1).0, hits.get(2).0, hits.get(3)), (0, 2, (1, 78)));
    assert_eq!(unmatched.get(0).0, 2);
}

#[test]
fn interfaces_without_a_list_are_as_they_were() {
    let mut lab = Lab::new();
    put(&mut lab, 2, false, vec![]);
    assert_eq!(feed(&mut lab, 1, &[to4(53).build()]), 1);
    put(&mut lab, 1, false, vec![]);
    assert_eq!(feed(&mut lab, 1, &[to4(53).build()]), 0);
}

#[test]
fn lists_hold_on_the_way_out_before_samples_are_taken() {
    let mut lab = Lab::new();
    let (hits, unmatched) = put(&mut lab, 2, true, vec![udp(Action::Permit, true, 53)]);
    lab.graph.set_feature("sflow-output", 2, true).unwrap();
    let frames = [to4(53).build(), to6(53).build(), to6(54).build()];
    assert_eq!(feed(&mut lab, 1, &frames), 1);
    assert_eq!((hits.get(0), unmatched.get(0).0), ((1, 14 + 78), 2));
    // Answers of the router itself go out by the same rules.
    let other = to_router(1).ipv4(far4(1), far4(3)).udp(9, 53).build();
    assert_eq!(feed(&mut lab, 1, &[other]), 1);
}

#[test]
fn neighbours_are_found_through_a_list_that_denies_all() {
    let mut lab = Lab::new();
    put(&mut lab, 2, true, vec![Rule::any(Action::Deny, true)]);
    let unknown = std::net::Ipv6Addr::new(0x2001, 0xDB8, 0, 2, 0, 0, 0, 77);
    let question = to_router(2)
        .ipv6(host6(2), router6(2))
        .protocol(IpProtocol::ICMPV6)
        .payload(&icmp6(128, 0, 1, &[1; 8]))
        .build();
    assert_eq!(
        feed(&mut lab, 2, &[question]),
        0,
        "an echo reply is not exempt"
    );
    // Control sends the solicitation for it.
    let ask = from_router(2)
        .ipv6(router6(2), unknown)
        .ttl(255)
        .protocol(IpProtocol::ICMPV6)
        .payload(&icmp6(135, 0, 0, &unknown.octets()))
        .build();
    let node = lab.graph.node("interface-output").unwrap();
    assert!(lab.harness.dispatcher.inject(node, &ask, 2));
    lab.harness.dispatcher.run();
    assert_eq!(lab.harness.sent().len(), 1);
    // The same from somebody else is as any other packet.
    let foreign = to_router(1)
        .ipv6(far6(1), far6(2))
        .protocol(IpProtocol::ICMPV6)
        .payload(&icmp6(135, 0, 0, &unknown.octets()))
        .build();
    assert_eq!(feed(&mut lab, 1, &[foreign]), 0);
    assert_eq!(lab.harness.drops(DropReason::AclDeny), 2);
}

#[test]
fn frames_in_layer_2_are_judged_through_their_tags() {
    let mut lab = Lab::new();
    lab.cross_connect(1, 2);
    let (hits, _) = put(&mut lab, 1, false, vec![udp(Action::Permit, false, 53)]);
    let ethernet = || PacketBuilder::ethernet(MacAddr([2; 6]), MacAddr([4; 6]));
    let ip = |b: PacketBuilder, port| b.ipv4(far4(1), far4(2)).udp(9, port).build();
    let frames = [
        ip(ethernet(), 53),
        ip(ethernet().vlan(5), 53),
        ip(ethernet().qinq(7).vlan(5), 53),
        ip(ethernet(), 54),
        ip(ethernet().vlan(5), 54),
        ethernet().ethertype(EtherType::ARP).payload_len(46).build(),
    ];
    assert_eq!(feed(&mut lab, 1, &frames), 4);
    assert_eq!(hits.get(0).0, 3);
    assert_eq!(lab.harness.drops(DropReason::AclDeny), 2);
}

#[test]
fn what_hides_its_ports_is_dropped() {
    let mut lab = Lab::new();
    let (hits, unmatched) = put(&mut lab, 1, false, vec![Rule::any(Action::Permit, false)]);
    let whole = to_router(1)
        .ipv4(far4(1), far4(2))
        .tcp(1, 2, TcpFlags::SYN)
        .build();
    let mut cut = whole.clone();
    cut.truncate(14 + 20 + 8);
    cut[16..18].copy_from_slice(&28u16.to_be_bytes());
    cut[20] = 0x20;
    let sum = |f: &mut Vec<u8>| {
        f[24..26].fill(0);
        let sum = parshall_wire::checksum::checksum(&f[14..34]);
        f[24..26].copy_from_slice(&sum.to_be_bytes());
    };
    sum(&mut cut);
    assert_eq!(feed(&mut lab, 1, &[whole, cut]), 1);
    assert_eq!((hits.get(0).0, unmatched.get(0).0), (1, 1));
}

#[test]
fn a_list_is_replaced_as_a_whole() {
    let mut lab = Lab::new();
    put(&mut lab, 1, false, vec![udp(Action::Permit, false, 1)]);
    assert_eq!(feed(&mut lab, 1, &[to4(1).build(), to4(2).build()]), 1);
    let (hits, _) = put(&mut lab, 1, false, vec![udp(Action::Permit, false, 2)]);
    assert_eq!(feed(&mut lab, 1, &[to4(1).build(), to4(2).build()]), 1);
    assert_eq!(hits.get(0).0, 1);
}
