//! Bonds: which member sends, and whose is what a member receives.

use parshall_counters::DropReason;
use parshall_wire::PacketBuilder;
use parshall_wire::lacp::{Lacp, LacpInfo};

use super::lab::*;
use super::parshall_nodes::Event;
use super::parshall_nodes::bond::Choice;

/// A router whose interface 4 is a bond of 2 and 3.
fn bonded(choice: Choice, members: &[u32]) -> Lab {
    let mut lab = Lab::new();
    lab.add_bond(4, choice, members);
    lab
}

/// Packets of flow `n` to the network behind the bond, as received and as sent.
fn flow(n: u16) -> (Vec<u8>, Vec<u8>) {
    let packet = |link: PacketBuilder, ttl| {
        link.ipv4(host4(1), far4(4))
            .ttl(ttl)
            .udp(1000 + n, 2000)
            .payload_len(40)
            .build()
    };
    (packet(to_router(1), 64), packet(from_router(4), 63))
}

fn sent_by(lab: &mut Lab, flows: std::ops::Range<u16>) -> [usize; 2] {
    let frames: Vec<_> = flows.map(|n| flow(n).0).collect();
    let sent = lab.send_all(1, &frames);
    [2, 3].map(|m| sent.iter().filter(|s| s.0 == m).count())
}

#[test]
fn each_mode_chooses_as_it_says() {
    assert_eq!(
        sent_by(&mut bonded(Choice::RoundRobin, &[2, 3]), 0..100),
        [50, 50]
    );
    assert_eq!(
        sent_by(&mut bonded(Choice::First, &[3, 2]), 0..100),
        [0, 100]
    );
    assert_eq!(
        sent_by(&mut bonded(Choice::All, &[2, 3]), 0..100),
        [100, 100]
    );
    // One pair of stations: layer 2 sees one flow, as does layer 2 and 3.
    for choice in [Choice::Layer2, Choice::Layer23] {
        let n = sent_by(&mut bonded(choice, &[2, 3]), 0..100);
        assert!(n == [100, 0] || n == [0, 100], "{n:?}");
    }
    let n = sent_by(&mut bonded(Choice::Layer34, &[2, 3]), 0..100);
    assert!(n[0] + n[1] == 100 && n[0] > 25 && n[1] > 25, "{n:?}");
}

#[test]
fn a_flow_stays_on_its_member() {
    let mut lab = bonded(Choice::Layer34, &[2, 3]);
    let by: Vec<_> = (0..20).map(|_| lab.send(1, &flow(5).0)[0].0).collect();
    assert!(by.iter().all(|m| *m == by[0]));
    lab.expect(1, &flow(5).0, by[0], &flow(5).1);
    let c = &lab.harness.dispatcher.counters.interfaces;
    assert_eq!(
        (c[4].tx_packets.get(), c[by[0] as usize].tx_packets.get()),
        (21, 21)
    );
}

#[test]
fn without_a_member_packets_are_lost_for_that_reason() {
    bonded(Choice::RoundRobin, &[]).expect_drop(1, &flow(1).0, DropReason::BondNoMember);
}

#[test]
fn what_a_member_receives_is_the_bonds() {
    let mut lab = bonded(Choice::RoundRobin, &[2, 3]);
    let packet = |link: PacketBuilder, ttl| {
        link.ipv4(host4(4), far4(1))
            .ttl(ttl)
            .udp(7, 8)
            .payload_len(30)
            .build()
    };
    lab.receive(3, &packet(to_router(4), 64), 5);
    let sent = lab.wait(1);
    assert_eq!(sent.len(), 5, "{:?}", lab.drops());
    assert_eq!(
        (sent[0].0, hex(&sent[0].1)),
        (1, hex(&packet(from_router(1), 63)))
    );
    let c = &lab.harness.dispatcher.counters.interfaces;
    assert_eq!(
        (
            c[3].rx_packets.get(),
            c[4].rx_packets.get(),
            c[2].rx_packets.get()
        ),
        (5, 5, 0)
    );
}

#[test]
fn lacp_stays_with_the_member_and_control_is_told() {
    let mut lab = bonded(Choice::Layer2, &[2, 3]);
    let actor = LacpInfo {
        port: 77,
        ..LacpInfo::default()
    };
    let pdu = Lacp {
        actor,
        ..Lacp::default()
    };
    lab.receive(2, &pdu.frame(host_mac(2).0), 1);
    assert!(lab.wait(1).is_empty());
    assert_eq!(lab.events(), [Event::Lacp { if_index: 2, pdu }]);
    assert_eq!(lab.harness.dispatcher.counters.punted.get(), 1);
    let broken = pdu.frame(host_mac(2).0)[..60].to_vec();
    lab.receive(2, &broken, 1);
    lab.wait(1);
    assert!(lab.events().is_empty());
}
