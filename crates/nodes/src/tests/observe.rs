//! What an operator sees: captures of packets, and the trace of a packet through the graph.

use parshall_counters::DropReason;
use parshall_wire::PacketBuilder;

use super::lab::*;
use super::parshall_nodes::{CapturePoint, CaptureSlot};

fn captured(lab: &mut Lab) -> Vec<CaptureSlot> {
    let rings = lab.out.captures.iter_mut();
    rings
        .flat_map(|ring| std::iter::from_fn(|| ring.read(|slot| slot.clone())))
        .collect()
}

fn bytes(slot: &CaptureSlot) -> &[u8] {
    &slot.data[..usize::from(slot.len)]
}

fn packet(link: PacketBuilder, ttl: u8) -> Vec<u8> {
    link.ipv4(host4(1), far4(2))
        .ttl(ttl)
        .udp(1, 2)
        .payload_len(50)
        .build()
}

#[test]
fn captures_show_a_packet_as_it_came_and_as_it_left() {
    let mut lab = Lab::new();
    for (node, n) in [("pcap-rx", 1), ("pcap-tx", 2)] {
        lab.graph.set_feature(node, n, true).unwrap();
    }
    lab.receive(1, &packet(to_router(1), 64), 3);
    let sent = lab.wait(77);
    let taken = captured(&mut lab);
    assert_eq!((sent.len(), taken.len()), (3, 6));
    let (rx, tx) = taken.split_at(3);
    for slot in rx {
        assert_eq!((slot.point, slot.if_index), (CapturePoint::Rx, 1));
        assert_eq!(bytes(slot), packet(to_router(1), 64));
        assert_eq!((slot.time, slot.wire_len), (SECOND + 77, 92));
    }
    for slot in tx {
        assert_eq!((slot.point, slot.if_index), (CapturePoint::Tx, 2));
        assert_eq!(bytes(slot), packet(from_router(2), 63));
    }
}

#[test]
fn a_capture_of_drops_shows_the_whole_frame_and_the_reason() {
    let mut lab = Lab::new();
    lab.graph.set_feature("pcap-drop", 1, true).unwrap();
    lab.route4("10.66.0.0/16", parshall_fib::Dpo::BLACKHOLE);
    let routed = to_router(1)
        .ipv4(host4(1), [10, 66, 0, 1].into())
        .udp(1, 2)
        .payload_len(5)
        .build();
    let mut foreign = packet(to_router(1), 64);
    foreign[5] = 99;
    let labelled = to_router(1).mpls(16).mpls(17).payload_len(20).build();
    for (frame, reason) in [
        (routed, DropReason::RouteBlackhole),
        (foreign, DropReason::NotOurMac),
        (labelled, DropReason::MplsNoLabel),
    ] {
        lab.expect_drop(1, &frame, reason);
        let taken = captured(&mut lab);
        assert_eq!(taken.len(), 1);
        assert_eq!(hex(bytes(&taken[0])), hex(&frame));
        assert_eq!(
            (taken[0].point, taken[0].reason),
            (CapturePoint::Drop, reason.code())
        );
        assert_eq!(taken[0].if_index, 1);
    }
}

#[test]
fn only_the_interfaces_asked_for_are_captured() {
    let mut lab = Lab::new();
    lab.graph.set_feature("pcap-rx", 2, true).unwrap();
    lab.receive(1, &packet(to_router(1), 64), 5);
    lab.receive(2, &packet(to_router(2), 64), 4);
    lab.wait(1);
    let taken = captured(&mut lab);
    assert!(taken.len() == 4 && taken.iter().all(|s| s.if_index == 2));
    lab.graph.set_feature("pcap-rx", 2, false).unwrap();
    lab.receive(2, &packet(to_router(2), 64), 4);
    assert_eq!(lab.wait(1).len(), 4);
    assert!(captured(&mut lab).is_empty());
}

#[test]
fn a_long_packet_is_captured_up_to_2048_bytes() {
    let mut lab = Lab::new();
    lab.graph.set_feature("pcap-rx", 1, true).unwrap();
    let mut frame = packet(to_router(1), 64);
    frame.resize(6000, 7);
    lab.receive(1, &frame, 1);
    lab.wait(1);
    let taken = captured(&mut lab);
    assert_eq!((taken[0].len, taken[0].wire_len), (2048, 6000));
    assert_eq!(bytes(&taken[0]), &frame[..2048]);
}

#[test]
fn a_full_ring_loses_captures_not_packets() {
    let mut lab = Lab::new();
    lab.graph.set_feature("pcap-rx", 1, true).unwrap();
    lab.receive(1, &packet(to_router(1), 64), 1000);
    let mut sent = 0;
    for _ in 0..5 {
        sent += lab.wait(1).len();
    }
    assert_eq!(sent, 1000);
    assert!(captured(&mut lab).len() >= 511);
    assert!(lab.out.captures[0].overflows() > 0);
}

/// Names of the nodes a traced packet passed, and what each said.
fn traced(lab: &mut Lab) -> Vec<(u32, &'static str, String)> {
    let graph = lab.graph.clone();
    std::iter::from_fn(|| lab.harness.trace.pop())
        .map(|r| {
            let spec = graph.spec(r.node).unwrap();
            (r.packet, spec.name, (spec.format)(&r))
        })
        .collect()
}

fn trace_next(lab: &mut Lab, count: u32) {
    let input = lab.graph.node("pg-input").unwrap();
    lab.harness.dispatcher.trace(input, count);
}

fn names(records: &[(u32, &'static str, String)]) -> Vec<&'static str> {
    records.iter().map(|r| r.1).collect()
}

#[test]
fn a_trace_names_the_nodes_in_order() {
    let mut lab = Lab::new();
    trace_next(&mut lab, 1);
    lab.receive(1, &packet(to_router(1), 64), 5);
    assert_eq!(lab.wait(1).len(), 5);
    let records = traced(&mut lab);
    assert_eq!(
        names(&records),
        [
            "pg-input",
            "ethernet-input",
            "ip4-input",
            "ip4-lookup",
            "ip4-rewrite"
        ]
    );
    assert!(records.iter().all(|r| r.0 == records[0].0));
    let says = |i: usize| records[i].2.as_str();
    assert!(says(1).contains("02:00:00:00:01:01 -> 02:00:00:00:00:01 type 0x0800"));
    assert!(
        says(3).contains("10.0.1.2 -> 10.12.0.9 ttl 64"),
        "{}",
        says(3)
    );
}

#[test]
fn a_trace_ends_with_the_reason_of_a_drop() {
    let mut lab = Lab::new();
    trace_next(&mut lab, 1);
    let mut frame = packet(to_router(1), 64);
    frame[24] ^= 1;
    lab.receive(1, &frame, 1);
    lab.wait(1);
    let records = traced(&mut lab);
    assert_eq!(
        names(&records),
        ["pg-input", "ethernet-input", "ip4-input", "drop"]
    );
    assert_eq!(records[3].2, "IPv4 header checksum wrong");
}

#[test]
fn a_trace_follows_both_a_packet_and_the_error_about_it() {
    let mut lab = Lab::new();
    trace_next(&mut lab, 1);
    lab.receive(1, &packet(to_router(1), 1), 1);
    lab.wait(1);
    let records = traced(&mut lab);
    assert_eq!(
        names(&records),
        [
            "pg-input",
            "ethernet-input",
            "ip4-input",
            "ip4-lookup",
            "ip4-rewrite",
            "ip4-icmp-error",
            "ip4-lookup",
            "ip4-rewrite",
            "drop"
        ]
    );
    assert!(records[6].2.contains("10.0.1.1 -> 10.0.1.2"));
    assert_eq!(records[8].2, "IPv4 TTL expired");
}

#[test]
fn a_trace_shows_features_and_labels() {
    let mut lab = Lab::new();
    lab.graph.set_feature("pcap-rx", 1, true).unwrap();
    lab.graph.set_feature("sflow", 1, true).unwrap();
    trace_next(&mut lab, 1);
    let frame = to_router(1).mpls(0).ttl(9).ipv6(host6(1), far6(2)).build();
    lab.receive(1, &frame, 1);
    lab.wait(1);
    let records = traced(&mut lab);
    assert_eq!(
        names(&records),
        [
            "pg-input",
            "sflow",
            "pcap-rx",
            "ethernet-input",
            "mpls-input",
            "mpls-lookup",
            "mpls-disposition",
            "drop"
        ]
    );
    assert!(records[4].2.contains("0/tc 0/ttl 9"), "{}", records[4].2);
}

#[test]
fn a_trace_marks_as_many_packets_as_asked() {
    let mut lab = Lab::new();
    trace_next(&mut lab, 3);
    lab.receive(1, &packet(to_router(1), 64), 300);
    lab.wait(1);
    lab.wait(1);
    let records = traced(&mut lab);
    let mut ids: Vec<_> = records.iter().map(|r| r.0).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!((ids.len(), records.len()), (3, 15));
}

#[test]
fn a_waiting_packet_is_seen_to_leave() {
    let mut lab = Lab::new();
    trace_next(&mut lab, 1);
    let frame = to_router(1)
        .ipv4(host4(1), [10, 0, 2, 50].into())
        .udp(1, 2)
        .build();
    lab.receive(1, &frame, 1);
    lab.wait(1);
    assert_eq!(names(&traced(&mut lab)).last(), Some(&"ip4-arp"));
    lab.route4("10.0.2.50/32", lab.adj4(2, host4(2), MTU));
    let resolved = super::parshall_nodes::HoldMessage::Resolved {
        if_index: 2,
        ip: [10u8, 0, 2, 50],
    };
    assert_eq!(lab.tell("ip4-arp", resolved).len(), 1);
    assert_eq!(names(&traced(&mut lab)), ["ip4-lookup", "ip4-rewrite"]);
}
