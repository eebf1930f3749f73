//! Tests of the dispatcher with nodes made for the purpose.

use std::sync::Arc;

use parshall_buffer::Frame;
use parshall_counters::DropReason;
use parshall_rcu::Domain;

use crate::harness::Harness;
use crate::*;

/// Sends by the first byte: 0 -> a, 1 -> b, 2 -> drop, 3 -> consumed, else on to transmit.
struct Sorter;
impl Node for Sorter {
    fn process(&mut self, cx: &mut Ctx<'_>, frame: &mut Frame) -> Dispatch {
        for (i, &b) in frame.packets().iter().enumerate() {
            match cx.pool.bytes(b)[0] {
                2 => cx.drop_packet(i, b, DropReason::NoRoute),
                3 => cx.punt(i, b),
                k => cx.next[i] = u16::from(k),
            }
        }
        Dispatch::Each
    }
}

/// Sends everything to transmit on interface `.0`.
struct Out(u32);
impl Node for Out {
    fn process(&mut self, cx: &mut Ctx<'_>, frame: &mut Frame) -> Dispatch {
        for &b in frame.packets() {
            cx.pool.meta_mut(b).tx_if = self.0;
        }
        frame.tx_if = self.0;
        Dispatch::All(CONTINUE)
    }
}

/// A feature that adds its mark to the last byte.
struct Mark(u8);
impl Node for Mark {
    fn process(&mut self, cx: &mut Ctx<'_>, frame: &mut Frame) -> Dispatch {
        for &b in frame.packets() {
            let last = cx.pool.bytes_mut(b).last_mut().unwrap();
            *last = *last * 10 + self.0;
        }
        Dispatch::All(CONTINUE)
    }
}

fn harness() -> Harness {
    let feature = |after| Feature {
        arc: "interface-output",
        before: &[],
        after,
    };
    let specs = [
        NodeSpec::new("sorter", &["a", "b"]),
        NodeSpec::new("a", &[]).starting("interface-output"),
        NodeSpec::new("b", &[]).starting("interface-output"),
        NodeSpec::new("second", &[]).feature(feature(&["first"])),
        NodeSpec::new("first", &[]).feature(feature(&[])),
    ];
    let arcs = [ArcSpec {
        name: "interface-output",
        side: Side::Tx,
        end: ArcEnd::Transmit,
    }];
    let graph = Arc::new(Graph::build(&specs, &arcs, Limits { interfaces: 8 }).unwrap());
    let nodes: Vec<NamedNode> = vec![
        ("sorter", Box::new(Sorter)),
        ("a", Box::new(Out(1))),
        ("b", Box::new(Out(2))),
        ("first", Box::new(Mark(1))),
        ("second", Box::new(Mark(2))),
    ];
    let mut h = Harness::new(graph, nodes, 1024, Domain::new().register().unwrap()).unwrap();
    h.add_interface(1, 1500);
    h.add_interface(2, 100);
    h
}

fn packet(kind: u8, len: usize) -> Vec<u8> {
    let mut p = vec![kind; len];
    p[len - 1] = 0;
    p
}

#[test]
fn mixed_frames_split_and_everything_is_accounted_for() {
    let mut h = harness();
    let packets: Vec<_> = (0..250).map(|i| packet((i % 4) as u8, 64)).collect();
    h.put("sorter", 3, &packets, 5);
    let sent = h.sent();
    assert_eq!(
        sent.iter().filter(|(i, p)| *i == 1 && p[0] == 0).count(),
        63
    );
    assert_eq!(
        sent.iter().filter(|(i, p)| *i == 2 && p[0] == 1).count(),
        63
    );
    assert_eq!(h.drops(DropReason::NoRoute), 62);
    let sorter = h.dispatcher.graph().node("sorter").unwrap();
    assert_eq!(
        h.dispatcher.counters.drops_at(sorter, DropReason::NoRoute),
        62
    );
    assert_eq!(h.dispatcher.counters.interfaces[3].punts.get(), 62);
    assert_eq!(h.dispatcher.counters.interfaces[3].rx_drops.get(), 62);
    assert_eq!(h.dispatcher.counters.interfaces[1].tx_bytes.get(), 63 * 64);
    h.conserved().unwrap();
    assert_eq!(h.dispatcher.late_frames(), 0);
}

#[test]
fn features_run_in_order_and_only_where_enabled() {
    let mut h = harness();
    let graph = h.dispatcher.graph().clone();
    graph.set_feature("second", 1, true).unwrap();
    graph.set_feature("first", 1, true).unwrap();
    h.put("sorter", 3, &[packet(0, 64), packet(1, 64)], 5);
    let mut sent = h.sent();
    sent.sort();
    assert_eq!(
        sent.iter().map(|(i, p)| (*i, p[63])).collect::<Vec<_>>(),
        [(1, 12), (2, 0)]
    );
    graph.set_feature("first", 1, false).unwrap();
    h.put("sorter", 3, &[packet(0, 64)], 5);
    assert_eq!(h.sent()[0].1[63], 2);
    h.conserved().unwrap();
}

#[test]
fn too_long_for_the_link_is_dropped_with_its_reason_and_the_rest_is_sent() {
    let mut h = harness();
    h.put(
        "sorter",
        3,
        &[packet(1, 64), packet(1, 101), packet(1, 100)],
        5,
    );
    assert_eq!(
        h.sent().iter().map(|(_, p)| p.len()).collect::<Vec<_>>(),
        [64, 100]
    );
    assert_eq!(h.drops(DropReason::LinkMtuExceeded), 1);
    assert_eq!(h.dispatcher.counters.interfaces[2].tx_drops.get(), 1);
    h.conserved().unwrap();
}

#[test]
fn interfaces_that_are_not_there_drop() {
    let mut h = harness();
    h.dispatcher.tx[1].up = false;
    h.dispatcher.tx[2].queue = None;
    h.put("sorter", 3, &[packet(0, 64), packet(1, 64)], 5);
    assert_eq!(
        (
            h.drops(DropReason::InterfaceDown),
            h.drops(DropReason::InterfaceGone)
        ),
        (1, 1)
    );
    h.conserved().unwrap();
}

#[test]
fn marked_packets_leave_a_trace_at_every_node() {
    let mut h = harness();
    let b = h.dispatcher.pool.packet_from(&packet(2, 64), 3).unwrap();
    let m = h.dispatcher.pool.meta_mut(b);
    m.flags.set(parshall_buffer::Flags::TRACED);
    m.trace = 77;
    let id = h.dispatcher.graph().node("sorter").unwrap();
    h.dispatcher.counters.received.add(1);
    let mut frame = Frame::default();
    frame.push(b);
    frame.traced = true;
    h.dispatcher.hand_for_test(id, frame);
    let names: Vec<_> = std::iter::from_fn(|| h.trace.pop())
        .map(|r| {
            (
                r.packet,
                h.dispatcher.graph().spec(r.node).unwrap().name,
                r.next,
                r.total_len,
            )
        })
        .collect();
    assert_eq!(names, [(77, "sorter", DROP, 64), (77, "drop", DROP, 64)]);
}

#[test]
fn what_leaves_through_an_interface_without_a_device_goes_to_its_node() {
    let mut h = harness();
    h.add_virtual(2, "a", 100);
    let graph = h.dispatcher.graph().clone();
    graph.set_feature("first", 2, true).unwrap();
    h.put(
        "sorter",
        3,
        &[packet(1, 64), packet(1, 101), packet(1, 60)],
        5,
    );
    let sent = h.sent();
    assert_eq!(
        sent.iter().map(|s| (s.0, s.1.len())).collect::<Vec<_>>(),
        [(1, 64), (1, 60)]
    );
    assert!(
        sent.iter().all(|s| s.1.last() == Some(&1)),
        "the features of the interface saw it"
    );
    let c = &h.dispatcher.counters.interfaces[2];
    assert_eq!(
        (c.tx_packets.get(), c.tx_bytes.get(), c.tx_drops.get()),
        (2, 124, 1)
    );
    assert_eq!(h.dispatcher.counters.interfaces[1].tx_packets.get(), 2);
    assert_eq!(h.dispatcher.counters.transmitted.get(), 2);
    h.set_up(2, false);
    h.put("sorter", 3, &[packet(1, 64)], 6);
    assert_eq!(h.drops(DropReason::InterfaceDown), 1);
    h.conserved().unwrap();
}

#[test]
fn interfaces_without_a_device_that_lead_in_a_circle_lose_the_packet() {
    let mut h = harness();
    // Out of 1 to the node that sends to 2, out of 2 to the node that sends to 1.
    h.add_virtual(1, "b", 1500);
    h.add_virtual(2, "a", 1500);
    h.put("sorter", 3, &[packet(1, 64), packet(0, 64)], 5);
    assert_eq!(h.drops(DropReason::NestedTooDeep), 2);
    h.conserved().unwrap();
}
