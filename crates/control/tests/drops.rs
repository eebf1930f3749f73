//! Every reason for which a packet is dropped, brought about by a packet or a situation, seen by a collector.
//!
//! The router is a worker's graph in memory, the agent the real one; what it sends is decoded. A reason that nothing
//! here brings about is one that should not be in the list.

extern crate parshall_nodes;

#[path = "../../nodes/src/tests/lab.rs"]
mod lab;
#[path = "drops/objects.rs"]
mod objects;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use lab::*;
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

/// The router as the agent sees it: interfaces 1 to 3, exported as 101 to 103.
struct View {
    graph: Arc<Graph>,
    counters: Arc<WorkerCounters>,
}

impl Router for View {
    fn interfaces(&self) -> Vec<IfReport> {
        let report = |index: u32| {
            let mut totals = IfTotals::default();
            self.counters.interfaces[index as usize].add_to(&mut totals);
            IfReport {
                index,
                if_index: 100 + index,
                name: format!("eth{index}"),
                totals,
                ..IfReport::default()
            }
        };
        (1..=3).map(report).collect()
    }
    fn resolve(&self, _header: &[u8], _rx_if: u32) -> Option<RouteInfo> {
        None
    }
    fn pool(&self, _if_index: u32) -> (u64, u64) {
        (0, 0)
    }
    fn suppressed_drops(&self) -> u64 {
        let all = DropReason::ALL.iter();
        all.map(|r| self.counters.suppressed(*r)).sum()
    }
    fn slot_name(&self, slot: u16) -> Option<String> {
        match self.graph.spec(slot) {
            Some(spec) => Some(spec.name.to_owned()),
            None => self.graph.tx_interface(slot).map(|i| format!("eth{i}-tx")),
        }
    }
    fn unix_ns(&self, monotonic_ns: u64) -> Option<u64> {
        Some(monotonic_ns + 1_000)
    }
}

/// Keeps what would be sent.
#[derive(Clone, Default)]
struct Wire(Arc<Mutex<Vec<Vec<u8>>>>);

impl Transport for Wire {
    fn send(&mut self, _now: u64, datagrams: &[&[u8]]) {
        let mut sent = self.0.lock().unwrap();
        sent.extend(datagrams.iter().map(|d| d.to_vec()));
    }
    fn set_collectors(&mut self, _now: u64, _collectors: &[CollectorConfig]) {}
    fn tick(&mut self, _now: u64) -> u64 {
        u64::MAX
    }
    fn status(&self, _now: u64) -> Vec<CollectorStatus> {
        Vec::new()
    }
}

/// A decoded discarded packet sample.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Told {
    sequence: u32,
    source: (u32, u32),
    drops: u32,
    input: u32,
    output: u32,
    code: u32,
    group: String,
    trap: String,
    function: Option<String>,
    unix_ns: Option<u64>,
    /// Protocol, frame length, stripped, bytes.
    header: Option<(u32, u32, u32, Vec<u8>)>,
}

fn decode(datagrams: &[Vec<u8>]) -> Vec<Told> {
    let mut out = Vec::new();
    for bytes in datagrams {
        for sample in Datagram::parse(bytes).unwrap().samples() {
            let Sample::Discard(d) = sample.unwrap() else {
                continue;
            };
            let mut told = Told {
                sequence: d.head.sequence,
                source: (d.head.source.class, d.head.source.index),
                drops: d.head.drops,
                input: d.head.input,
                output: d.head.output,
                code: d.head.reason,
                group: String::new(),
                trap: String::new(),
                function: None,
                unix_ns: None,
                header: None,
            };
            for record in d.flow_records() {
                match record.unwrap() {
                    FlowRecord::HardwareTrap(t) => {
                        (told.group, told.trap) = (t.group.to_string(), t.name.to_string());
                    }
                    FlowRecord::Function(f) => told.function = Some(f.symbol.to_string()),
                    FlowRecord::Timestamp(t) => told.unix_ns = Some(t.unix_ns),
                    FlowRecord::RawHeader(h) => {
                        told.header =
                            Some((h.protocol, h.frame_length, h.stripped, h.header.to_vec()));
                    }
                    other => panic!("{other:?}"),
                }
            }
            out.push(told);
        }
    }
    out
}

/// A router, the agent that watches its drops, and what the agent sends.
struct Watched {
    lab: Lab,
    agent: Agent,
    wire: Wire,
}

impl Watched {
    fn new(mut lab: Lab, limit: u32) -> Watched {
        lab.graph
            .set_feature_everywhere("sflow-drop", true)
            .unwrap();
        lab.tell("sflow-drop", DropSettings { limit });
        let wire = Wire::default();
        let config = AgentConfig {
            drop_limit: limit,
            polling_interval: 0,
            host_interval: 0,
            ..AgentConfig::default()
        };
        let parts = AgentParts {
            router: Arc::new(View {
                graph: lab.graph.clone(),
                counters: lab.harness.dispatcher.counters.clone(),
            }),
            transport: Box::new(wire.clone()),
            host: None,
            elected: "192.0.2.1".parse().unwrap(),
            seed: 1,
        };
        let mut agent = Agent::new(config, parts, lab.now).unwrap();
        agent.add_drop_rings(vec![std::mem::replace(&mut lab.out.drops, ring(2).1)]);
        agent.poll(lab.now);
        Watched { lab, agent, wire }
    }

    /// Lets the agent report, and says what a collector got.
    fn told(&mut self) -> Vec<Told> {
        self.lab.now += SECOND;
        self.agent.poll(self.lab.now);
        self.agent.finish(self.lab.now);
        decode(&std::mem::take(&mut *self.wire.0.lock().unwrap()))
    }
}

/// What the sample of a drop shows of the packet.
enum Shows {
    /// The frame as it was received.
    Received(Vec<u8>),
    /// Something else, from this protocol on.
    Bytes(u32, Vec<u8>),
    /// Nothing is left of it.
    Nothing,
}

/// How one reason is brought about.
struct Case {
    reason: DropReason,
    /// Node that gives the packet up.
    node: Option<&'static str>,
    /// Exported interfaces of the sample.
    ports: (u32, u32),
    lab: Lab,
    act: Act,
    shows: Shows,
}

type Act = Box<dyn FnOnce(&mut Lab)>;

impl Case {
    /// `frame` comes in on interface 1 of `lab` and is dropped by `node`.
    fn frame(reason: DropReason, node: &'static str, lab: Lab, frame: Vec<u8>) -> Case {
        let received = frame.clone();
        Case {
            reason,
            node: Some(node),
            ports: (101, 0),
            lab,
            act: Box::new(move |lab| drop(lab.send(1, &frame))),
            shows: Shows::Received(received),
        }
    }

    /// The packet was about to leave by interface 2.
    fn leaving(mut self) -> Case {
        self.ports.1 = 102;
        self
    }

    fn act(mut self, act: impl FnOnce(&mut Lab) + 'static) -> Case {
        self.act = Box::new(act);
        self
    }

    fn shows(mut self, shows: Shows) -> Case {
        self.shows = shows;
        self
    }
}

fn udp(link: PacketBuilder, src: [u8; 4], dst: [u8; 4]) -> PacketBuilder {
    link.ipv4(src.into(), dst.into()).udp(1, 2).payload_len(50)
}

const HOST: [u8; 4] = [10, 0, 1, 2];
const FAR: [u8; 4] = [10, 12, 0, 9];

fn to(dst: [u8; 4]) -> PacketBuilder {
    udp(to_router(1), HOST, dst)
}

fn udp6(src: &str, dst: &str) -> PacketBuilder {
    let link = to_router(1);
    link.ipv6(src.parse().unwrap(), dst.parse().unwrap())
        .udp(1, 2)
        .payload_len(50)
}

fn edited(p: PacketBuilder, edit: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut frame = p.build();
    edit(&mut frame);
    frame
}

/// The same with the IPv4 header checksum put right.
fn edited4(p: PacketBuilder, edit: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    edited(p, |f| {
        edit(f);
        f[24..26].fill(0);
        let sum = checksum::checksum(&f[14..34]);
        f[24..26].copy_from_slice(&sum.to_be_bytes());
    })
}

fn set_type(frame: &mut [u8], ethertype: u16) {
    frame[12..14].copy_from_slice(&ethertype.to_be_bytes());
}

fn without(flags: u32) -> Lab {
    let mut lab = Lab::new();
    lab.clear_flags(1, flags);
    lab
}

fn with_route(dpo: impl FnOnce(&Lab) -> Dpo) -> Lab {
    let lab = Lab::new();
    lab.route4("10.66.0.0/16", dpo(&lab));
    lab
}

fn with_peer(peer: u32) -> Lab {
    let mut lab = Lab::new();
    lab.cross_connect(1, peer);
    lab
}

/// A transmit queue that takes nothing, or takes all and fails.
struct Bad {
    refuses: bool,
}

impl TxQueue for Bad {
    fn transmit(&mut self, pool: &mut Pool, packets: &[BufferIndex], _now: u64) -> TxBurst {
        if !self.refuses {
            return TxBurst::default();
        }
        pool.free_bulk(packets);
        TxBurst {
            taken: packets.len(),
            errors: packets.len(),
        }
    }
}

/// A receive queue that has only bad news.
struct News(RxBurst);

impl RxQueue for News {
    fn poll(&mut self, _pool: &mut Pool, _frame: &mut Frame, _now: u64) -> RxBurst {
        std::mem::take(&mut self.0)
    }
}

fn before_receive(reason: DropReason, news: RxBurst) -> Case {
    Case {
        reason,
        node: None,
        ports: (101, 0),
        lab: Lab::new(),
        act: Box::new(move |lab| {
            lab.harness.set_rx("pg-input", 1, Box::new(News(news)));
            lab.wait(1);
        }),
        shows: Shows::Nothing,
    }
}

/// What leaves by interface 2 of a packet that came in to [`FAR`].
fn left() -> Vec<u8> {
    udp(from_router(2), HOST, FAR).ttl(63).build()
}

fn devices() -> Vec<Case> {
    use DropReason as D;
    let n = |n| RxBurst {
        missed: n,
        ..RxBurst::default()
    };
    let mut refused = Lab::new();
    refused
        .harness
        .set_tx(2, Box::new(Bad { refuses: true }), 1514);
    let mut full = Lab::new();
    full.harness
        .set_tx(2, Box::new(Bad { refuses: false }), 1514);
    let mut down = Lab::new();
    down.harness.set_up(2, false);
    let mut gone = Lab::new();
    gone.edit(1, |view, _| *view = Default::default());
    let mut narrow = with_peer(2);
    narrow.harness.add_interface(2, 80);
    // What leaves by interface 2 goes out by interface 2.
    let mut circle = Lab::new();
    circle.harness.add_virtual(2, "interface-output", 1514);
    vec![
        before_receive(D::RxMissed, n(3)),
        before_receive(
            D::RxNoBuffer,
            RxBurst {
                no_buffer: 1,
                ..n(0)
            },
        ),
        before_receive(D::RxError, RxBurst { errors: 2, ..n(0) }),
        Case {
            ports: (0, 102),
            node: None,
            ..Case::frame(D::TxError, "", refused, to(FAR).build()).shows(Shows::Nothing)
        },
        Case::frame(D::TxQueueFull, "eth2-tx", full, to(FAR).build())
            .leaving()
            .shows(Shows::Bytes(1, left())),
        Case::frame(D::InterfaceDown, "eth2-tx", down, to(FAR).build())
            .leaving()
            .shows(Shows::Bytes(1, left())),
        Case::frame(D::InterfaceGone, "ethernet-input", gone, to(FAR).build()),
        Case::frame(D::LinkMtuExceeded, "eth2-tx", narrow, to(FAR).build()).leaving(),
        Case::frame(D::NestedTooDeep, "eth2-tx", circle, to(FAR).build())
            .leaving()
            .shows(Shows::Bytes(1, left())),
        no_buffers(),
        no_headroom(),
    ]
}

/// Most buffers are in use elsewhere when a packet must be cut into fragments.
fn no_buffers() -> Case {
    let lab = with_route(|lab| lab.adj4(2, host4(2), 576));
    let frame = to([10, 66, 0, 1]).total_len(1400).build();
    let sent = frame.clone();
    Case::frame(DropReason::NoBufferSpace, "ip4-frag", lab, frame).act(move |lab| {
        let pool = &mut lab.harness.dispatcher.pool;
        let held: Vec<_> = (0..BUFFERS - 2).map(|_| pool.alloc().unwrap()).collect();
        lab.harness.put("ethernet-input", 1, &[sent], lab.now);
        lab.harness.dispatcher.pool.free_bulk(&held);
        lab.harness.conserved().unwrap();
    })
}

/// A driver that leaves no room in front of its frames, and four labels to push.
fn no_headroom() -> Case {
    let lab = with_route(|lab| {
        let out = lab.adj_mpls(2, MTU);
        lab.impose(&[17, 18, 19, 20], Payload::Ip4, TtlMode::Uniform, out)
    });
    // The imposition has counted the packet's TTL down by then.
    let shown = to([10, 66, 0, 1]).ttl(63).build();
    let frame = to([10, 66, 0, 1]).build();
    let case = Case::frame(
        DropReason::NoHeadroom,
        "mpls-label-imposition",
        lab,
        frame.clone(),
    );
    case.shows(Shows::Bytes(1, shown)).act(move |lab| {
        let d = &mut lab.harness.dispatcher;
        let b = d.pool.packet_from(&frame, 1).unwrap();
        let (m, room) = d.pool.parts_mut(b);
        (m.data, m.l2, m.l3) = (0, 0, 0);
        room[..frame.len()].copy_from_slice(&frame);
        let input = d.graph().node("ethernet-input").unwrap();
        d.enqueue(input, &[b], 1);
        d.run();
        lab.harness.conserved().unwrap();
    })
}

fn ethernet() -> Vec<Case> {
    use DropReason as D;
    let mut alone = Lab::new();
    alone.harness.add_virtual(2, "bond-output", 1514);
    let mut untag = with_peer(2);
    untag.retag(
        1,
        TagRewrite {
            pop: 1,
            ..TagRewrite::default()
        },
    );
    let at = |reason, frame| Case::frame(reason, "ethernet-input", Lab::new(), frame);
    vec![
        at(D::EthernetTooShort, vec![7; 10]),
        at(D::NotOurMac, edited(to(FAR), |f| f[5] = 99)),
        at(D::SourceMacMulticast, edited(to(FAR), |f| f[6] |= 1)),
        at(
            D::UnicastInGroupFrame,
            edited(to(FAR), |f| f[..6].fill(0xFF)),
        ),
        at(
            D::UnknownEthertype,
            edited(to(FAR), |f| set_type(f, 0x9999)),
        ),
        at(D::UnknownVlan, edited(to(FAR), |f| set_type(f, 0x8100))),
        Case::frame(D::VlanTagMissing, "ethernet-input", untag, to(FAR).build()),
        at(D::LlcUnsupported, edited(to(FAR), |f| set_type(f, 0x0050))),
        Case::frame(D::BondNoMember, "bond-output", alone, to(FAR).build())
            .leaving()
            .shows(Shows::Bytes(1, left())),
        Case::frame(D::L2NoPeer, "l2-input", with_peer(IF_NONE), to(FAR).build()),
    ]
}

fn ip4() -> Vec<Case> {
    use DropReason as D;
    let at = |reason, node, frame| Case::frame(reason, node, Lab::new(), frame);
    let input = |reason, frame| at(reason, "ip4-input", frame);
    let from = |reason, src| input(reason, udp(to_router(1), src, FAR).build());
    let group = PacketBuilder::ethernet(host_mac(1), MacAddr([1, 0, 0x5E, 1, 1, 1]));
    let narrow = with_route(|lab| lab.adj4(2, host4(2), 576));
    vec![
        input(D::Ip4TooShort, edited(to(FAR), |f| f.truncate(30))),
        input(D::Ip4BadVersion, edited(to(FAR), |f| f[14] = 0x55)),
        input(D::Ip4BadHeaderLength, edited(to(FAR), |f| f[14] = 0x44)),
        input(D::Ip4BadLength, edited4(to(FAR), |f| f[16] = 9)),
        input(D::Ip4BadChecksum, edited(to(FAR), |f| f[24] ^= 1)),
        at(D::Ip4TtlExpired, "ip4-rewrite", to(FAR).ttl(1).build()),
        Case::frame(
            D::Ip4NotEnabled,
            "ip4-input",
            without(if_flags::IP4),
            to(FAR).build(),
        ),
        from(D::Ip4SourceUnspecified, [0, 1, 2, 3]),
        from(D::Ip4SourceLoopback, [127, 0, 0, 1]),
        from(D::Ip4SourceMulticast, [224, 0, 0, 1]),
        from(D::Ip4SourceClassE, [240, 0, 0, 1]),
        from(D::Ip4SourceBroadcast, [255; 4]),
        input(D::Ip4DestinationUnspecified, to([0, 0, 0, 9]).build()),
        input(D::Ip4DestinationLoopback, to([127, 0, 0, 1]).build()),
        input(D::Ip4DestinationClassE, to([240, 0, 0, 1]).build()),
        at(
            D::Ip4Multicast,
            "ip4-local",
            udp(group, HOST, [224, 1, 1, 1]).build(),
        ),
        at(D::NoRoute, "ip4-lookup", to([203, 0, 113, 1]).build()),
        Case::frame(
            D::FragmentationNeeded,
            "ip4-rewrite",
            narrow,
            to([10, 66, 0, 1]).dont_fragment().total_len(1400).build(),
        )
        .leaving(),
    ]
}

fn ip6() -> Vec<Case> {
    use DropReason as D;
    let at = |reason, node, frame| Case::frame(reason, node, Lab::new(), frame);
    let input = |reason, frame| at(reason, "ip6-input", frame);
    let (host, far) = ("2001:db8:0:1::2", "2001:db8:12::9");
    let plain = || udp6(host, far);
    let narrow = Lab::new();
    narrow.route6("2001:db8:66::/48", narrow.adj6(2, host6(2), 1280));
    let group = PacketBuilder::ethernet(host_mac(1), MacAddr([0x33, 0x33, 0, 0, 1, 1]));
    let group = group.ipv6(host.parse().unwrap(), "ff0e::101".parse().unwrap());
    vec![
        input(D::Ip6TooShort, edited(plain(), |f| f.truncate(40))),
        input(D::Ip6BadVersion, edited(plain(), |f| f[14] = 0x50)),
        input(D::Ip6BadLength, edited(plain(), |f| f[18] = 9)),
        at(D::Ip6HopLimitExpired, "ip6-rewrite", plain().ttl(1).build()),
        Case::frame(
            D::Ip6NotEnabled,
            "ip6-input",
            without(if_flags::IP6),
            plain().build(),
        ),
        input(D::Ip6SourceUnspecified, udp6("::", far).build()),
        input(D::Ip6SourceLoopback, udp6("::1", far).build()),
        input(D::Ip6SourceMulticast, udp6("ff02::1", far).build()),
        at(
            D::Ip6SourceLinkLocal,
            "ip6-rewrite",
            udp6("fe80::9", far).build(),
        ),
        input(D::Ip6DestinationUnspecified, udp6(host, "::").build()),
        input(D::Ip6DestinationLoopback, udp6(host, "::1").build()),
        at(
            D::Ip6Multicast,
            "ip6-local",
            group.udp(1, 2).payload_len(50).build(),
        ),
        at(D::Ip6LinkLocal, "ip6-local", udp6(host, "fe80::99").build()),
        Case::frame(
            D::PacketTooBig,
            "ip6-rewrite",
            narrow,
            udp6(host, "2001:db8:66::1").total_len(1400).build(),
        )
        .leaving(),
    ]
}

fn routes_and_neighbours() -> Vec<Case> {
    use DropReason as D;
    let lookup = |reason, dpo: Dpo| {
        let frame = to([10, 66, 0, 1]).build();
        Case::frame(reason, "ip4-lookup", with_route(|_| dpo), frame)
    };
    let looping = with_route(|lab| {
        let other = lab.shared.ip4.create().unwrap();
        lab.route4_in(other, "10.66.0.0/16", Dpo::new(DpoKind::LookupIp4, 0));
        Dpo::new(DpoKind::LookupIp4, other)
    });
    let waiting = to([10, 0, 2, 77]).build();
    let (first, nine) = (waiting.clone(), vec![waiting.clone(); 9]);
    let arp = |target_ip: [u8; 4]| {
        to_router(1).arp(ArpRepr {
            operation: ArpOperation::Request,
            sender_mac: host_mac(1),
            sender_ip: HOST.into(),
            target_mac: MacAddr([0; 6]),
            target_ip: target_ip.into(),
        })
    };
    let at = |reason, node, frame| Case::frame(reason, node, Lab::new(), frame);
    vec![
        lookup(D::RouteBlackhole, Dpo::BLACKHOLE),
        lookup(D::RouteProhibit, Dpo::PROHIBIT),
        lookup(D::RouteUnreachable, Dpo::UNREACHABLE),
        Case {
            node: Some("ip4-rewrite"),
            ..lookup(D::NoAdjacency, Dpo::new(DpoKind::Adjacency, 4000))
        },
        Case::frame(
            D::LookupLoop,
            "ip4-lookup",
            looping,
            to([10, 66, 0, 1]).build(),
        ),
        at(D::UnresolvedNeighbor, "ip4-arp", waiting.clone())
            .leaving()
            .act(move |lab| {
                lab.send(1, &first);
                let failed = HoldMessage::Failed {
                    if_index: 2,
                    ip: [10u8, 0, 2, 77],
                };
                lab.tell("ip4-arp", failed);
            }),
        at(D::NeighborQueueFull, "ip4-arp", waiting)
            .leaving()
            .act(move |lab| drop(lab.send_all(1, &nine))),
        at(
            D::ArpMalformed,
            "arp-input",
            edited(arp([10, 0, 1, 1]), |f| f.truncate(20)),
        ),
        at(D::ArpNotForUs, "arp-input", arp([10, 0, 1, 9]).build()),
    ]
}

/// A neighbour solicitation for `target` from the host on interface 1.
fn solicitation(target: std::net::Ipv6Addr, hops: u8, code: u8) -> Vec<u8> {
    let mut body = target.octets().to_vec();
    body.extend([1, 1]);
    body.extend(host_mac(1).0);
    to_router(1)
        .ipv6(host6(1), router6(1))
        .ttl(hops)
        .protocol(IpProtocol::ICMPV6)
        .payload(&icmp6(135, code, 0, &body))
        .build()
}

fn local() -> Vec<Case> {
    use DropReason as D;
    let at = |reason, node, frame| Case::frame(reason, node, Lab::new(), frame);
    let own = [10, 0, 1, 1];
    let other = to_router(1).ipv4(HOST.into(), own.into());
    let ping = |kind| {
        other
            .clone()
            .protocol(IpProtocol::ICMP)
            .payload(&icmp4(kind, 0, 7, &[9; 12]))
    };
    vec![
        at(
            D::NdMalformed,
            "ip6-icmp-input",
            solicitation(router6(1), 255, 1),
        ),
        at(
            D::NdBadHopLimit,
            "ip6-icmp-input",
            solicitation(router6(1), 64, 0),
        ),
        at(
            D::NdNotForUs,
            "ip6-icmp-input",
            solicitation(router6(2), 255, 0),
        ),
        at(
            D::LocalNoProtocol,
            "ip4-local",
            other
                .clone()
                .protocol(IpProtocol(99))
                .payload_len(30)
                .build(),
        ),
        at(D::LocalNoPort, "ip4-local", to(own).build()),
        at(
            D::LocalBadChecksum,
            "ip4-icmp-input",
            edited(ping(8), |f| f[36] ^= 1),
        ),
        at(D::IcmpUnhandled, "ip4-icmp-input", ping(13).build()),
        at(
            D::FragmentMalformed,
            "ip4-local-full-reassembly",
            to(own).fragment(0, true).build(),
        ),
    ]
}

/// Fragments for the router.
fn fragments() -> Vec<Case> {
    use DropReason as D;
    let node = "ip4-local-full-reassembly";
    let piece = |ident| {
        let udp = to_router(1).ipv4(HOST.into(), [10, 0, 1, 1].into());
        let udp = udp.ident(ident).fragment(0, true);
        udp.protocol(IpProtocol::UDP).payload_len(56).build()
    };
    let at = |reason| Case::frame(reason, node, Lab::new(), piece(1));
    let mut discovery = solicitation(router6(1), 255, 0);
    // An only fragment: its header goes in front of the message.
    discovery[20] = 44;
    discovery[19] += 8;
    discovery.splice(54..54, [58, 0, 0, 0, 0, 0, 0, 1]);
    vec![
        at(D::FragmentOverlap).act(move |lab| {
            lab.send(1, &piece(1));
            lab.send(1, &piece(1));
        }),
        at(D::ReassemblyTimeout).act(move |lab| {
            lab.send(1, &piece(1));
            lab.wait(3 * SECOND);
        }),
        at(D::ReassemblyFull).act(move |lab| {
            for ident in 1..=257 {
                lab.now += 1;
                lab.send(1, &piece(ident));
            }
        }),
        Case::frame(D::NdFragmented, "ip6-local", Lab::new(), discovery),
    ]
}

fn labels() -> Vec<Case> {
    use DropReason as D;
    let labelled = |label, ttl| udp(to_router(1).mpls(label).ttl(ttl), HOST, FAR);
    let at = |reason, node, lab, frame| Case::frame(reason, node, lab, frame);
    let bad = Lab::new();
    let next = bad.adj_mpls(2, MTU);
    bad.label(17, true, bad.dispose(Payload::Mpls, TtlMode::Uniform, next));
    vec![
        at(
            D::MplsNotEnabled,
            "mpls-input",
            without(if_flags::MPLS),
            labelled(16, 9).build(),
        ),
        at(
            D::MplsTooShort,
            "mpls-input",
            Lab::new(),
            edited(labelled(16, 9), |f| f.truncate(16)),
        ),
        at(
            D::MplsTtlExpired,
            "mpls-input",
            Lab::new(),
            labelled(16, 1).build(),
        ),
        at(
            D::MplsNoLabel,
            "mpls-lookup",
            Lab::new(),
            labelled(16, 9).build(),
        ),
        at(
            D::MplsBadStack,
            "mpls-disposition",
            bad,
            labelled(17, 9).build(),
        ),
    ]
}

/// A node with a mistake: its verdict is no next node of it.
struct Mistaken;

impl Node for Mistaken {
    fn process(&mut self, _cx: &mut Ctx<'_>, _frame: &mut Frame) -> Dispatch {
        Dispatch::All(77)
    }
}

fn mistakes() -> Vec<Case> {
    let spec = NodeSpec::new("mistaken", &[]).feature(Feature {
        arc: "ip4-unicast",
        before: &[],
        after: &[],
    });
    let lab = Lab::with_node(spec, Box::new(Mistaken));
    lab.graph.set_feature("mistaken", 1, true).unwrap();
    // The last node of the list, so beyond those whose place is known: what it has in hand is shown.
    let ip = to(FAR).build()[14..].to_vec();
    let case = Case::frame(DropReason::NodeFault, "mistaken", lab, to(FAR).build());
    vec![case.shows(Shows::Bytes(1, ip))]
}

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
    assert_eq!(
        status.reported + status.suppressed,
        FLOOD + rare.len() as u64
    );
    assert!(told.windows(2).all(|w| w[0].drops <= w[1].drops));
    assert!(u64::from(told.last().unwrap().drops) > FLOOD * 9 / 10);
}
