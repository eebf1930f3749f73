//! A small router for tests: three interfaces, a host on each link, a network behind each host.
//!
//! | interface | router | host | behind it |
//! |---|---|---|---|
//! | n = 1, 2, 3 | 10.0.n.1/24, 2001:db8:0:n::1/64 | .2, ::2 | 10.(10+n).0.0/16, 2001:db8:(10+n)::/48 |
//!
//! The hosts are resolved; the rest of each subnet is not.
// Each test program that includes this file uses a part of it.
#![allow(dead_code)]

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use parshall_buffer::{Frame, IF_MIXED, IF_NONE, Pool};
use parshall_counters::DropReason;
use parshall_device::{RxBurst, RxQueue};
use parshall_fib::{
    Adjacency, Disposition, Dpo, DpoKind, Imposition, LinkType, LoadBalance, Path, Payload, TtlMode,
};
use parshall_graph::harness::{Harness, Sent};
use parshall_graph::{Graph, Limits, Node, NodeSpec};
use parshall_wire::{EtherType, IpProtocol, MacAddr, PacketBuilder, checksum};

use super::parshall_nodes::bond::{BondView, BondViews, Choice};
use super::parshall_nodes::vlan::{TagRewrite, VlanDemux, VlanMatch, VlanView, VlanViews};
use super::parshall_nodes::{
    ARCS, Event, IfAddresses, IfTable, IfView, NodeOutputs, Shared, TableLimits, build, if_flags,
    specs,
};

/// Interfaces that can exist.
pub const LIMITS: Limits = Limits { interfaces: 8 };
/// MTU of all links.
pub const MTU: u16 = 1500;
/// Buffers of the router.
pub const BUFFERS: usize = 2048;
/// One second.
pub const SECOND: u64 = 1_000_000_000;

/// The router's address on interface `n`.
pub fn router_mac(n: u32) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, n as u8])
}
/// The address of the host on interface `n`.
pub fn host_mac(n: u32) -> MacAddr {
    MacAddr([2, 0, 0, 0, 1, n as u8])
}
/// The router's address on interface `n`.
pub fn router4(n: u32) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, n as u8, 1)
}
/// The host on interface `n`.
pub fn host4(n: u32) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, n as u8, 2)
}
/// A host of the network behind the host on interface `n`.
pub fn far4(n: u32) -> Ipv4Addr {
    Ipv4Addr::new(10, 10 + n as u8, 0, 9)
}
/// The router's address on interface `n`.
pub fn router6(n: u32) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xDB8, 0, n as u16, 0, 0, 0, 1)
}
/// The router's link-local address on interface `n`.
pub fn router_ll(n: u32) -> Ipv6Addr {
    router_mac(n).link_local()
}
/// The host on interface `n`.
pub fn host6(n: u32) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xDB8, 0, n as u16, 0, 0, 0, 2)
}
/// The link-local address of the host on interface `n`.
pub fn host_ll(n: u32) -> Ipv6Addr {
    host_mac(n).link_local()
}
/// A host of the network behind the host on interface `n`.
pub fn far6(n: u32) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xDB8, 0x10 + n as u16, 0, 0, 0, 0, 9)
}
/// All nodes of a link.
pub const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xFF02, 0, 0, 0, 0, 0, 0, 1);

/// A frame from the host on interface `n` to the router.
pub fn to_router(n: u32) -> PacketBuilder {
    PacketBuilder::ethernet(host_mac(n), router_mac(n))
}
/// A frame from the router to the host on interface `n`.
pub fn from_router(n: u32) -> PacketBuilder {
    PacketBuilder::ethernet(router_mac(n), host_mac(n))
}

/// An ICMP message with its checksum.
pub fn icmp4(msg_type: u8, code: u8, rest: u32, body: &[u8]) -> Vec<u8> {
    let mut out = vec![msg_type, code, 0, 0];
    out.extend(rest.to_be_bytes());
    out.extend(body);
    let sum = checksum::checksum(&out);
    out[2..4].copy_from_slice(&sum.to_be_bytes());
    out
}

/// An ICMPv6 message; [`PacketBuilder`] adds the checksum.
pub fn icmp6(msg_type: u8, code: u8, rest: u32, body: &[u8]) -> Vec<u8> {
    let mut out = vec![msg_type, code, 0, 0];
    out.extend(rest.to_be_bytes());
    out.extend(body);
    out
}

/// The error that the router sends to `to` on interface `n` about `original`, a packet from its IP
/// header on: type, code and the four bytes behind the checksum.
pub fn error4(n: u32, to: Ipv4Addr, kind: (u8, u8, u32), original: &[u8], ident: u16) -> Vec<u8> {
    let quote = &original[..original.len().min(548)];
    from_router(n)
        .ipv4(router4(n), to)
        .class(0xC0)
        .ident(ident)
        .protocol(IpProtocol::ICMP)
        .payload(&icmp4(kind.0, kind.1, kind.2, quote))
        .build()
}

/// As [`error4`], for IPv6.
pub fn error6(n: u32, to: Ipv6Addr, kind: (u8, u8, u32), original: &[u8]) -> Vec<u8> {
    let quote = &original[..original.len().min(1232)];
    from_router(n)
        .ipv6(router6(n), to)
        .protocol(IpProtocol::ICMPV6)
        .payload(&icmp6(kind.0, kind.1, kind.2, quote))
        .build()
}

/// The router.
pub struct Lab {
    /// Its tables.
    pub shared: Arc<Shared>,
    /// Its graph.
    pub graph: Arc<Graph>,
    /// One worker of it.
    pub harness: Harness,
    /// What that worker produces for other threads.
    pub out: NodeOutputs,
    /// Time in ns.
    pub now: u64,
    interfaces: Vec<(IfView, IfAddresses)>,
    vlans: VlanViews,
    bonds: BondViews,
    subs: Vec<(u32, VlanMatch, u32)>,
}

impl Lab {
    /// A router as described above.
    pub fn new() -> Lab {
        Lab::seeded(1)
    }

    /// The same; `seed` fixes its random choices.
    pub fn seeded(seed: u64) -> Lab {
        Lab::built(seed, None)
    }

    /// The same with one more node, the last of the list.
    pub fn with_node(spec: NodeSpec, node: Box<dyn Node>) -> Lab {
        Lab::built(1, Some((spec, node)))
    }

    fn built(seed: u64, more: Option<(NodeSpec, Box<dyn Node>)>) -> Lab {
        let shared = Shared::new(TableLimits {
            adjacencies: 4096,
            load_balances: 64,
            impositions: 64,
            dispositions: 64,
            tables: 16,
            table_bytes: 1 << 22,
            macs: 1,
        })
        .unwrap();
        let mut specs = specs();
        let (mut nodes, out) = build(&shared, LIMITS, seed);
        if let Some((spec, node)) = more {
            nodes.push((spec.name, node));
            specs.push(spec);
        }
        let graph = Arc::new(Graph::build(&specs, ARCS, LIMITS).unwrap());
        let reader = shared.domain.register().unwrap();
        let harness = Harness::new(graph.clone(), nodes, BUFFERS, reader).unwrap();
        let mut lab = Lab {
            shared,
            graph,
            harness,
            out,
            now: SECOND,
            interfaces: vec![Default::default()],
            vlans: VlanViews::new(),
            bonds: BondViews::default(),
            subs: Vec::new(),
        };
        for n in 1..=3 {
            lab.add_interface(n);
        }
        lab.publish();
        lab
    }

    fn add_interface(&mut self, n: u32) {
        let view = IfView {
            flags: if_flags::EXISTS | if_flags::UP | if_flags::IP4 | if_flags::IP6 | if_flags::MPLS,
            mac: IfView::mac_word(router_mac(n).0),
            mtu: u32::from(MTU),
            ..IfView::default()
        };
        let addresses = IfAddresses {
            ip4: vec![(router4(n), 24)],
            ip6: vec![(router6(n), 64)],
            link_local: Some(router_ll(n)),
        };
        self.interfaces.push((view, addresses));
        self.harness.add_interface(n, u32::from(MTU) + 14);
        let (host, far) = (self.adj4(n, host4(n), MTU), far4(n).octets());
        self.route4(&format!("10.0.{n}.0/24"), Dpo::new(DpoKind::Glean, n));
        self.route4(&format!("10.0.{n}.1/32"), Dpo::new(DpoKind::Receive, n));
        self.route4(&format!("10.0.{n}.2/32"), host);
        self.route4(&format!("10.{}.0.0/16", far[1]), host);
        let host = self.adj6(n, host6(n), MTU);
        self.route6(&format!("2001:db8:0:{n}::/64"), Dpo::new(DpoKind::Glean, n));
        self.route6(
            &format!("2001:db8:0:{n}::1/128"),
            Dpo::new(DpoKind::Receive, n),
        );
        self.route6(&format!("2001:db8:0:{n}::2/128"), host);
        self.route6(&format!("2001:db8:{:x}::/48", 0x10 + n), host);
    }

    fn publish(&mut self) {
        let table = IfTable::new(self.interfaces.clone()).with_vlans(self.vlans.clone());
        let table = table.with_bonds(self.bonds.clone());
        self.shared.interfaces.publish(&self.shared.domain, table);
    }

    /// Adds an interface without a device, the next in number, whose packets go to `node`.
    pub fn add_virtual(&mut self, n: u32, node: &str) {
        let view = IfView {
            flags: if_flags::EXISTS | if_flags::UP | if_flags::IP4 | if_flags::IP6 | if_flags::MPLS,
            mac: IfView::mac_word(router_mac(n).0),
            mtu: u32::from(MTU),
            ..IfView::default()
        };
        assert_eq!(self.interfaces.len(), n as usize);
        self.interfaces.push((view, IfAddresses::default()));
        self.harness.add_virtual(n, node, 65_535);
        self.publish();
    }

    /// Adds interface `n`, the next one: a sub-interface of `parent` with a host on its link, as the others have.
    pub fn add_sub(&mut self, n: u32, parent: u32, takes: VlanMatch) {
        assert_eq!(n as usize, self.interfaces.len());
        self.add_interface(n);
        self.harness
            .add_virtual(n, "sub-interface-output", u32::from(MTU) + 14);
        self.subs.push((parent, takes, n));
        let view = VlanView {
            parent,
            tags: takes.tags(),
            ..VlanView::NONE
        };
        self.vlans.insert(n, view);
        let of = self.subs.iter().filter(|s| s.0 == parent);
        let demux = VlanDemux::new(of.map(|s| (s.1, s.2)));
        self.vlans.entry(parent).or_insert(VlanView::NONE).demux = Some(demux);
        self.edit(parent, |view, _| view.flags |= if_flags::SUBS);
    }

    /// Adds interface `n`, the next one: a bond of interfaces 2 and 3, of which `members` can send, with a host on its
    /// link as the others have.
    pub fn add_bond(&mut self, n: u32, choice: Choice, members: &[u32]) {
        assert_eq!(n as usize, self.interfaces.len());
        self.add_interface(n);
        self.harness
            .add_virtual(n, "bond-output", u32::from(MTU) + 14);
        let view = BondView {
            choice,
            members: members.to_vec(),
        };
        self.bonds.bonds.insert(n, view);
        for member in [2, 3] {
            self.bonds.of_member.insert(member, n);
            self.graph.set_feature("bond-input", member, true).unwrap();
        }
        self.publish();
    }

    /// Changes the tags of what comes in on interface `n`, and back of what goes out, while it is cross-connected.
    pub fn retag(&mut self, n: u32, rewrite_in: TagRewrite) {
        let view = self.vlans.entry(n).or_insert(VlanView::NONE);
        view.rewrite_in = rewrite_in;
        view.rewrite_out = rewrite_in.inverse(&view.tags).unwrap_or_default();
        let plain = view.parent == IF_NONE;
        self.graph
            .set_feature("tag-rewrite-output", n, plain)
            .unwrap();
        self.edit(n, |view, _| view.flags |= if_flags::RETAG);
    }

    /// Changes what is known of interface `n`.
    pub fn edit(&mut self, n: u32, edit: impl FnOnce(&mut IfView, &mut IfAddresses)) {
        let (view, addresses) = &mut self.interfaces[n as usize];
        edit(view, addresses);
        self.publish();
    }

    /// Takes flags of interface `n` away.
    pub fn clear_flags(&mut self, n: u32, flags: u32) {
        self.edit(n, |view, _| view.flags &= !flags);
    }

    /// Cross-connects interface `n` to `peer`.
    pub fn cross_connect(&mut self, n: u32, peer: u32) {
        self.edit(n, |view, _| {
            view.flags |= if_flags::XCONNECT;
            view.peer = peer;
        });
    }

    /// Adds an adjacency.
    pub fn add(&self, adj: Adjacency) -> Dpo {
        Dpo::new(
            DpoKind::Adjacency,
            self.shared.adjacencies.insert(adj).unwrap(),
        )
    }

    /// The link-layer header to the host on interface `n`.
    pub fn rewrite(n: u32, ethertype: EtherType) -> Vec<u8> {
        [
            &host_mac(n).0[..],
            &router_mac(n).0[..],
            &ethertype.0.to_be_bytes()[..],
        ]
        .concat()
    }

    /// An adjacency of IPv4 packets to the host on interface `n`, under the address `hop`.
    pub fn adj4(&self, n: u32, hop: Ipv4Addr, mtu: u16) -> Dpo {
        let adj = Adjacency::incomplete_ip4(n, LinkType::Ip4, mtu, hop);
        self.add(
            adj.with_rewrite(&Self::rewrite(n, EtherType::IPV4))
                .unwrap(),
        )
    }

    /// The same for IPv6 packets.
    pub fn adj6(&self, n: u32, hop: Ipv6Addr, mtu: u16) -> Dpo {
        let adj = Adjacency::incomplete_ip6(n, LinkType::Ip6, mtu, hop);
        self.add(
            adj.with_rewrite(&Self::rewrite(n, EtherType::IPV6))
                .unwrap(),
        )
    }

    /// The same for labelled packets.
    pub fn adj_mpls(&self, n: u32, mtu: u16) -> Dpo {
        let adj = Adjacency::incomplete_ip4(n, LinkType::Mpls, mtu, host4(n));
        self.add(
            adj.with_rewrite(&Self::rewrite(n, EtherType::MPLS))
                .unwrap(),
        )
    }

    /// An adjacency whose neighbour is not resolved.
    pub fn incomplete4(&self, n: u32, link: LinkType, hop: Ipv4Addr) -> Dpo {
        self.add(Adjacency::incomplete_ip4(n, link, MTU, hop))
    }

    /// An adjacency whose neighbour is not resolved.
    pub fn incomplete6(&self, n: u32, link: LinkType, hop: Ipv6Addr) -> Dpo {
        self.add(Adjacency::incomplete_ip6(n, link, MTU, hop))
    }

    /// Resolves the neighbour of an adjacency to the host on its interface.
    pub fn complete(&self, dpo: Dpo) {
        let slab = &self.shared.adjacencies;
        let adj = slab.get_control(dpo.index()).unwrap().clone();
        let ethertype = match adj.link() {
            LinkType::Ip4 => EtherType::IPV4,
            LinkType::Ip6 => EtherType::IPV6,
            LinkType::Mpls => EtherType::MPLS,
        };
        let header = Self::rewrite(adj.tx_if(), ethertype);
        slab.replace(dpo.index(), adj.with_rewrite(&header).unwrap())
            .unwrap();
    }

    /// Adds an IPv4 route.
    pub fn route4(&self, prefix: &str, dpo: Dpo) {
        self.route4_in(0, prefix, dpo);
    }

    /// Adds an IPv4 route to a table.
    pub fn route4_in(&self, table: u32, prefix: &str, dpo: Dpo) {
        let table = self.shared.ip4.control(table).unwrap();
        table.insert(prefix.parse().unwrap(), dpo).unwrap();
    }

    /// Adds an IPv6 route.
    pub fn route6(&self, prefix: &str, dpo: Dpo) {
        self.route6_in(0, prefix, dpo);
    }

    /// Adds an IPv6 route to a table.
    pub fn route6_in(&self, table: u32, prefix: &str, dpo: Dpo) {
        let table = self.shared.ip6.control(table).unwrap();
        table.insert(prefix.parse().unwrap(), dpo).unwrap();
    }

    /// Binds a label.
    pub fn label(&self, label: u32, bottom: bool, dpo: Dpo) {
        let table = self.shared.mpls.get_control(0).unwrap();
        table.set(label, bottom, dpo).unwrap();
    }

    /// Labels to push, in pipe mode with TTL 255.
    pub fn impose(&self, labels: &[u32], payload: Payload, mode: TtlMode, next: Dpo) -> Dpo {
        let made = Imposition::new(labels, payload, mode, 255, 0, next).unwrap();
        Dpo::new(
            DpoKind::MplsImpose,
            self.shared.impositions.insert(made).unwrap(),
        )
    }

    /// What to do once a label is popped.
    pub fn dispose(&self, payload: Payload, mode: TtlMode, next: Dpo) -> Dpo {
        let made = Disposition {
            payload,
            mode,
            next,
        };
        Dpo::new(
            DpoKind::MplsPop,
            self.shared.dispositions.insert(made).unwrap(),
        )
    }

    /// A load balance over equal paths.
    pub fn balance(&self, paths: &[Dpo]) -> Dpo {
        let paths: Vec<_> = paths.iter().map(|&dpo| Path { dpo, weight: 1 }).collect();
        let made = LoadBalance::new(&paths).unwrap();
        Dpo::new(
            DpoKind::LoadBalance,
            self.shared.load_balances.insert(made).unwrap(),
        )
    }

    /// Puts a frame in as received on interface `n`; says what was sent.
    pub fn send(&mut self, n: u32, frame: &[u8]) -> Vec<Sent> {
        self.send_all(n, &[frame.to_vec()])
    }

    /// Puts frames in as received together on interface `n`; says what was sent.
    pub fn send_all(&mut self, n: u32, frames: &[Vec<u8>]) -> Vec<Sent> {
        self.harness.put("ethernet-input", n, frames, self.now);
        self.harness.conserved().unwrap();
        self.harness.sent()
    }

    /// Puts frames of several interfaces in as one vector; says what was sent.
    pub fn send_mixed(&mut self, frames: &[(u32, Vec<u8>)]) -> Vec<Sent> {
        let d = &mut self.harness.dispatcher;
        let made: Vec<_> = frames
            .iter()
            .map(|(n, bytes)| d.pool.packet_from(bytes, *n).unwrap())
            .collect();
        let input = d.graph().node("ethernet-input").unwrap();
        d.now = self.now;
        d.enqueue(input, &made, IF_MIXED);
        d.run();
        self.harness.conserved().unwrap();
        self.harness.sent()
    }

    /// Puts a frame in on interface `n` and expects exactly `frame_out` on interface `out`.
    #[track_caller]
    pub fn expect(&mut self, n: u32, frame: &[u8], out: u32, frame_out: &[u8]) {
        let sent = self.send(n, frame);
        assert_eq!(sent.len(), 1, "{:?}", self.drops());
        assert_eq!(sent[0].0, out, "sent on the wrong interface");
        assert_eq!(hex(&sent[0].1), hex(frame_out));
    }

    /// Puts a frame in on interface `n` and expects one drop for `reason` and nothing else.
    #[track_caller]
    pub fn expect_drop(&mut self, n: u32, frame: &[u8], reason: DropReason) {
        let before = (self.harness.drops(reason), self.dropped());
        let sent = self.send(n, frame);
        let after = (self.harness.drops(reason), self.dropped());
        assert_eq!(
            (after.0 - before.0, after.1 - before.1),
            (1, 1),
            "{:?}",
            self.drops()
        );
        assert!(sent.is_empty(), "sent {sent:?}");
    }

    /// Packets dropped so far.
    pub fn dropped(&self) -> u64 {
        self.harness.dispatcher.counters.dropped.get()
    }

    /// Drops so far by node and reason.
    pub fn drops(&self) -> Vec<(String, &'static str, u64)> {
        let name = |n| {
            self.graph
                .spec(n)
                .map_or("transmit".into(), |s| s.name.to_string())
        };
        let counters = &self.harness.dispatcher.counters;
        counters
            .drops()
            .map(|(node, reason, n)| (name(node), reason.name(), n))
            .collect()
    }

    /// Gives a node a message and lets what it sets free run; says what was sent.
    pub fn tell(&mut self, node: &str, mut message: impl std::any::Any + Send) -> Vec<Sent> {
        let id = self.graph.node(node).unwrap();
        let d = &mut self.harness.dispatcher;
        d.now = self.now;
        d.message(id, &mut message);
        d.run();
        self.harness.conserved().unwrap();
        self.harness.sent()
    }

    /// Lets time pass, and a turn of the worker; says what was sent.
    pub fn wait(&mut self, ns: u64) -> Vec<Sent> {
        self.now += ns;
        self.harness.dispatcher.turn(self.now);
        self.harness.conserved().unwrap();
        self.harness.sent()
    }

    /// Events since the last call.
    pub fn events(&mut self) -> Vec<Event> {
        let rings = self.out.events.iter_mut();
        rings
            .flat_map(|ring| std::iter::from_fn(|| ring.pop()))
            .collect()
    }

    /// Packets that wait for a neighbour.
    pub fn held(&self) -> u64 {
        self.harness.dispatcher.counters.held.get()
    }

    /// Receives `count` copies of `frame` on interface `n`, as a driver would, from the next turn on.
    pub fn receive(&mut self, n: u32, frame: &[u8], count: u64) {
        let queue = Repeat {
            frame: frame.to_vec(),
            left: count,
            rx_if: n,
        };
        self.harness.set_rx("pg-input", n, Box::new(queue));
    }
}

/// Bytes in hex, so that a difference is seen in the message.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// A receive queue that gives out copies of one frame.
struct Repeat {
    frame: Vec<u8>,
    left: u64,
    rx_if: u32,
}

impl RxQueue for Repeat {
    fn poll(&mut self, pool: &mut Pool, frame: &mut Frame, _now: u64) -> RxBurst {
        let mut burst = RxBurst::default();
        while self.left != 0 && frame.room() != 0 {
            let Some(b) = pool.packet_from(&self.frame, self.rx_if) else {
                break;
            };
            frame.push(b);
            self.left -= 1;
            burst.bytes += self.frame.len() as u64;
        }
        burst
    }
}
