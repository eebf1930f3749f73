//! Every reason for which a packet is dropped, brought about by a packet or a situation, seen by a collector.
//!
//! The router is a worker's graph in memory, the agent the real one; what it sends is decoded. A reason that nothing
//! here brings about is one that should not be in the list.

extern crate parshall_nodes;

#[path = "drops/devices.rs"]
mod devices;
#[path = "../../nodes/src/tests/lab.rs"]
mod lab;
#[path = "drops/objects.rs"]
mod objects;
#[path = "drops/packets.rs"]
mod packets;
#[path = "drops/rig.rs"]
mod rig;
#[path = "drops/routing.rs"]
mod routing;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use devices::*;
use lab::*;
use packets::*;
use parshall_agent::{
    Agent, AgentConfig, AgentParts, CollectorConfig, CollectorStatus, IfReport, RouteInfo, Router,
    Transport,
};
use parshall_buffer::{BufferIndex, Frame, IF_NONE, Pool};
use parshall_counters::{DropReason, IfTotals, WorkerCounters};
use parshall_device::{RxBurst, RxQueue, TxBurst, TxQueue};
use parshall_fib::{Dpo, DpoKind, Payload, TtlMode};
use parshall_graph::{Ctx, Dispatch, Feature, Graph, Node, NodeSpec};
use parshall_nodes::vlan::TagRewrite;
use parshall_nodes::{DropSettings, HoldMessage, if_flags};
use parshall_ring::ring;
use parshall_sflow_wire::{Datagram, FlowRecord, Sample};
use parshall_wire::{ArpOperation, ArpRepr, IpProtocol, MacAddr, PacketBuilder, checksum};
use rig::*;
use routing::*;

#[test]
fn every_reason_is_brought_about_and_arrives_with_its_code() {
    let cases = [
        devices(),
        ethernet(),
        ip4(),
        ip6(),
        routes_and_neighbours(),
        local(),
        fragments(),
        labels(),
        objects::bridges(),
        objects::access_lists(),
        objects::tunnels(),
        mistakes(),
    ];
    let mut seen = BTreeSet::new();
    for case in cases.into_iter().flatten() {
        let name = case.reason.name();
        let mut w = Watched::new(case.lab, 1000);
        (case.act)(&mut w.lab);
        let before = w.lab.now;
        let all = w.told();
        let told = all.iter().find(|t| t.trap == name);
        let told = told.unwrap_or_else(|| panic!("{name}: {all:?} {:?}", w.lab.drops()));
        let code = case.reason.sflow_code();
        assert_eq!((told.code, told.source), (code, (0, 0)), "{name}");
        assert_eq!(told.group, case.reason.group().name(), "{name}");
        assert_eq!((told.input, told.output), case.ports, "{name}");
        assert_eq!(told.function.as_deref(), case.node, "{name}");
        match case.shows {
            Shows::Nothing => assert_eq!((&told.header, told.unix_ns), (&None, None), "{name}"),
            Shows::Received(frame) => check_header(name, told, 1, &frame, before),
            Shows::Bytes(protocol, bytes) => check_header(name, told, protocol, &bytes, before),
        }
        assert!(seen.insert(case.reason), "{name} twice");
    }
    let missing: Vec<_> = DropReason::ALL
        .iter()
        .filter(|r| !seen.contains(r))
        .collect();
    assert!(missing.is_empty(), "never brought about: {missing:?}");
}

fn check_header(name: &str, told: &Told, protocol: u32, frame: &[u8], now: u64) {
    let (p, length, stripped, bytes) = told.header.as_ref().unwrap_or_else(|| panic!("{name}"));
    assert_eq!((*p, *stripped), (protocol, 4), "{name}");
    assert_eq!(*length as usize, frame.len() + 4, "{name}");
    assert_eq!(hex(bytes), hex(&frame[..frame.len().min(128)]), "{name}");
    assert!(told.unix_ns.is_some_and(|t| t <= now + 1_000), "{name}");
}

#[test]
fn what_the_router_made_itself_is_shown_as_it_is() {
    // The answer to a ping from nowhere finds no way back.
    let mut w = Watched::new(Lab::new(), 100);
    let from = [203, 0, 113, 1];
    let ping = to_router(1)
        .ipv4(from.into(), router4(1))
        .echo_request(1, 1);
    w.lab.send(1, &ping.build());
    let all = w.told();
    let told = &all[0];
    assert_eq!(
        (told.trap.as_str(), told.input, told.output),
        ("no_route", 0, 0)
    );
    let (protocol, length, stripped, bytes) = told.header.as_ref().unwrap();
    // An IPv4 header, counted as hsflowd does.
    assert_eq!((*protocol, *stripped), (11, 18));
    assert_eq!(*length as usize, bytes.len() + 18);
    assert_eq!(bytes[..1], [0x45]);
    assert_eq!(
        (&bytes[12..16], &bytes[16..20]),
        (&[10, 0, 1, 1][..], &from[..])
    );
}

#[test]
fn a_packet_that_becomes_an_error_is_reported_and_answered() {
    let mut w = Watched::new(Lab::new(), 1000);
    let frame = to(FAR).ttl(1).build();
    // More than there may be errors about: the others are dropped without.
    let sent = w.lab.send_all(1, &vec![frame; 150]);
    assert_eq!(sent.len(), 100);
    let c = &w.lab.harness.dispatcher.counters;
    assert_eq!((c.dropped.get(), c.originated.get()), (150, 100));
    let by_node = [("ip4-rewrite".to_owned(), "ip4_ttl_expired", 150)];
    assert_eq!(w.lab.drops(), by_node);
    let told = w.told();
    assert!(!told.is_empty() && told.iter().all(|t| t.code == 257));
}

/// Puts `count` packets a turn to the graph, of which every one is dropped.
struct Flood {
    frame: Vec<u8>,
    left: u64,
}

impl RxQueue for Flood {
    fn poll(&mut self, pool: &mut Pool, frame: &mut Frame, _now: u64) -> RxBurst {
        while self.left != 0 && frame.room() != 0 {
            let Some(b) = pool.packet_from(&self.frame, 1) else {
                break;
            };
            frame.push(b);
            self.left -= 1;
        }
        RxBurst::default()
    }
}

#[test]
fn a_flood_of_five_million_a_second_hides_no_other_reason() {
    const FLOOD: u64 = 5_000_000;
    let mut w = Watched::new(Lab::new(), 100);
    let frame = edited(to(FAR), |f| f[5] = 99);
    let flood = Flood { frame, left: FLOOD };
    w.lab.harness.set_rx("pg-input", 1, Box::new(flood));
    // One each, at different times in that second.
    let rare = [
        edited(to(FAR), |f| f[24] ^= 1),
        to(FAR).ttl(1).build(),
        to([203, 0, 113, 1]).build(),
        to([127, 0, 0, 1]).build(),
        edited(to(FAR), |f| set_type(f, 0x8100)),
        udp6("2001:db8:0:1::2", "2001:db8:12::9").ttl(1).build(),
    ];
    let turns = FLOOD.div_ceil(256);
    for turn in 0..turns {
        w.lab.now += SECOND / turns;
        let now = w.lab.now;
        if turn % 3000 == 1500
            && let Some(frame) = rare.get((turn / 3000) as usize)
        {
            w.lab
                .harness
                .put("ethernet-input", 1, std::slice::from_ref(frame), now);
        }
        w.lab.harness.dispatcher.turn(now);
        // The agent looks every ten milliseconds.
        if turn % 195 == 0 {
            w.agent.poll(now);
        }
    }
    w.lab.harness.conserved().unwrap();
    let told = w.told();
    let mut by_trap = BTreeMap::new();
    for t in &told {
        *by_trap.entry(t.trap.as_str()).or_insert(0) += 1;
    }
    for reason in [
        DropReason::Ip4BadChecksum,
        DropReason::Ip4TtlExpired,
        DropReason::NoRoute,
        DropReason::Ip4DestinationLoopback,
        DropReason::UnknownVlan,
        DropReason::Ip6HopLimitExpired,
    ] {
        assert_eq!(by_trap.get(reason.name()), Some(&1), "{by_trap:?}");
    }
    let flood = by_trap[DropReason::NotOurMac.name()];
    assert!((90..=220).contains(&flood), "{by_trap:?}");
    // Numbers run on, and nothing is unaccounted for.
    let sequences: Vec<u32> = told.iter().map(|t| t.sequence).collect();
    assert_eq!(sequences, (1..=told.len() as u32).collect::<Vec<_>>());
    w.lab.now += 2 * SECOND;
    w.agent.poll(w.lab.now);
    let status = w.agent.status(w.lab.now).discards;
    assert_eq!(status.seen, FLOOD + rare.len() as u64);
    assert_eq!(status.reported + status.suppressed, status.seen);
    assert_eq!((status.unexported, status.waiting), (0, 0));
    assert!(told.windows(2).all(|w| w[0].drops <= w[1].drops));
    assert!(u64::from(told.last().unwrap().drops) > FLOOD * 9 / 10);
}
