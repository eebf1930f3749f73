//! A router with random routes, its links, and its control side.

use std::sync::{Arc, Mutex};

use parshall_acl::{AclList, AclTables, Action, Compiled, Entry, Hits, Rule};
use parshall_buffer::IF_NONE;
use parshall_counters::WorkerCounters;
use parshall_fib::{
    Adjacency, Disposition, Dpo, DpoKind, Imposition, LinkType, LoadBalance, MacEntry, MacKey,
    MacWriter, Path, Payload, TtlMode,
};
use parshall_graph::harness::{Harness, Sent};
use parshall_graph::{Graph, Limits};
use parshall_nodes::bond::{BondView, BondViews, Choice};
use parshall_nodes::tunnel::{Encap, TunnelKey, Tunnels};
use parshall_nodes::vlan::{TagRewrite, Tags, VlanDemux, VlanId, VlanMatch, VlanView, VlanViews};
use parshall_nodes::{
    BridgeDomain, BridgePort, BridgeTable, Event, FloodMember, HoldMessage, IfAddresses, IfTable,
    IfView, NodeOutputs, PortRole, SflowSettings, SflowTxSettings, Shared, TableLimits,
    bridge_flags, build, graph, if_flags,
};

use crate::corpus::{TUNNEL4, TUNNEL6, frames, router_mac, router4, router6};
use crate::link::{CROSS, Link};
use crate::mutate::Rng;

/// Ports of a bridge domain, and its routed interface.
const PORTS: [u32; 3] = [12, 13, 14];
const BVI: u32 = 15;
const INTERFACES: u32 = 25;
/// Interfaces from here on have no device.
const VIRTUAL: u32 = 16;
/// A routed sub-interface of 1, two that are switched, two bonds, one that leads to itself, and three tunnels.
const OUTPUTS: [&str; 9] = [
    "sub-interface-output",
    "sub-interface-output",
    "sub-interface-output",
    "bond-output",
    "bond-output",
    "interface-output",
    "tunnel-output",
    "tunnel-output",
    "tunnel-output",
];
const LIMITS: Limits = Limits {
    interfaces: INTERFACES as usize,
};
/// Packet buffers: in some worlds they run out.
const BUFFERS: [usize; 4] = [8192, 8192, 2048, 600];
const TABLES: u32 = 4;

/// A router and everything around it.
pub struct World {
    rng: Rng,
    shared: Arc<Shared>,
    graph: Arc<Graph>,
    harness: Harness,
    out: NodeOutputs,
    macs: MacWriter,
    now: u64,
    turns: u64,
    bad: Arc<Mutex<Vec<Sent>>>,
}

impl World {
    /// The world of a seed.
    pub fn new(seed: u64) -> World {
        let shared = Shared::new(TableLimits {
            adjacencies: 256,
            load_balances: 64,
            impositions: 128,
            dispositions: 128,
            tables: 8,
            table_bytes: 1 << 24,
            macs: 1,
        })
        .unwrap();
        let graph = Arc::new(graph(LIMITS).unwrap());
        let (nodes, out) = build(&shared, LIMITS, seed);
        let reader = shared.domain.register().unwrap();
        let mut rng = Rng::new(seed);
        let buffers = *rng.pick(&BUFFERS);
        let harness = Harness::new(graph.clone(), nodes, buffers, reader).unwrap();
        let mut world = World {
            macs: MacWriter::new(shared.macs.clone()),
            rng,
            shared,
            graph,
            harness,
            out,
            now: 1_000_000_000,
            turns: 0,
            bad: Arc::default(),
        };
        world.make_objects();
        world.make_routes();
        world.make_interfaces();
        world.connect();
        world
    }

    /// What its worker counted so far.
    pub fn counters(&self) -> &WorkerCounters {
        &self.harness.dispatcher.counters
    }

    fn make_interfaces(&mut self) {
        let views = (0..INTERFACES).map(|n| {
            let all = if_flags::EXISTS | if_flags::UP | if_flags::IP4 | if_flags::IP6;
            let (flags, peer) = match n {
                0 | 10 => (0, IF_NONE),
                4 => (all, IF_NONE),
                5 => (all & !if_flags::IP6 | if_flags::MPLS, IF_NONE),
                6 => (all | if_flags::XCONNECT, 7),
                7 => (all | if_flags::XCONNECT, 6),
                8 => (all | if_flags::XCONNECT, IF_NONE),
                12..=14 => (all | if_flags::BRIDGE, IF_NONE),
                11 => (all | if_flags::MPLS | if_flags::PROMISC, IF_NONE),
                17 => (all | if_flags::XCONNECT | if_flags::RETAG, 6),
                18 => (all | if_flags::XCONNECT | if_flags::RETAG, 7),
                _ => (all | if_flags::MPLS, IF_NONE),
            };
            let parent = match n {
                1 | 6 | 7 => if_flags::SUBS,
                _ => 0,
            };
            let view = IfView {
                flags: flags | parent,
                peer,
                ip4_table: if n == 3 { 1 } else { 0 },
                ip6_table: if n == 3 { 1 } else { 0 },
                // The corpus knows the addresses of interfaces below 12.
                mac: IfView::mac_word(router_mac(if n == BVI || n == VIRTUAL { 1 } else { n }).0),
                mtu: 1500,
            };
            // Interface 2 has no address of its own.
            let addresses = match n {
                0 | 2 | 10 => IfAddresses::default(),
                _ => IfAddresses {
                    ip4: vec![(router4(n), 24)],
                    ip6: vec![(router6(n), 64)],
                    link_local: Some(router_mac(n).link_local()),
                },
            };
            (view, addresses)
        });
        let table = IfTable::new(views).with_vlans(vlans()).with_bonds(bonds());
        self.shared.interfaces.publish(&self.shared.domain, table);
        self.make_bridge();
        self.make_access_lists();
        let domain = &self.shared.domain;
        self.shared.tunnels.publish(domain, tunnels());
    }

    /// Lists for all that routes in by 3 and 4, is switched in by 12, or goes out by 2.
    fn make_access_lists(&mut self) {
        let deny4 = Rule {
            src: ([10, 5, 0, 0].into(), 16),
            ..Rule::any(Action::Deny, false)
        };
        let deny6 = Rule {
            proto: 17,
            dport: (0, 20_000),
            ..Rule::any(Action::Deny, true)
        };
        let [permit4, permit6] = [false, true].map(|six| Rule::any(Action::Permit, six));
        let rules = vec![deny4, deny6, permit4, permit6];
        let list = AclList {
            hits: Arc::new(Hits::new(1, rules.len())),
            rules: rules.into(),
        };
        let entry = Entry {
            lists: Arc::new(Compiled::new(&[list], true)),
            unmatched: Arc::new(Hits::new(1, 1)),
        };
        let of = |on: &[u32]| {
            let entry = |n| on.contains(&n).then(|| entry.clone());
            (0..INTERFACES).map(entry).collect()
        };
        let tables = AclTables {
            input: of(&[3, 4, 12]),
            output: of(&[2]),
        };
        self.shared.acls.publish(&self.shared.domain, tables);
        for (feature, n) in [
            ("acl-in-ip4", 3),
            ("acl-in-ip6", 3),
            ("acl-in-ip4", 4),
            ("acl-in-ip6", 4),
            ("acl-in-l2", 12),
            ("acl-out", 2),
        ] {
            self.graph.set_feature(feature, n, true).unwrap();
        }
    }

    /// A bridge domain whose ports and routed interface come and go a little.
    fn make_bridge(&mut self) {
        let mut ports = vec![BridgePort::default(); INTERFACES as usize];
        let mut domain = BridgeDomain::default();
        let mut flags = self.rng.below(64) as u8;
        if !self.rng.one_in(4) {
            flags |= bridge_flags::FORWARD | bridge_flags::FLOOD;
        }
        // Now and then no port may send to another, and there is no routed interface.
        let apart = self.rng.one_in(8);
        for n in PORTS {
            let shg = if apart { 7 } else { self.rng.below(3) as u8 };
            let port = BridgePort {
                domain: u16::from(!self.rng.one_in(8)),
                flags,
                shg,
                role: PortRole::Normal,
            };
            ports[n as usize] = port;
            domain.members.push(FloodMember { if_index: n, shg });
        }
        ports[BVI as usize] = BridgePort {
            domain: 1,
            flags,
            shg: 0,
            role: PortRole::Bvi,
        };
        if !apart && !self.rng.one_in(8) {
            domain.bvi = BVI;
        }
        let table = BridgeTable::new(ports, vec![BridgeDomain::default(), domain]);
        self.shared.bridges.publish(&self.shared.domain, table);
        let key = MacKey::new(1, router_mac(1).0);
        let flags = MacEntry::STATIC | MacEntry::BVI | MacEntry::SEEN;
        // The table is larger than the corpus has addresses.
        let _ = self.macs.set(key, MacEntry::new(BVI, flags), 0);
        let key = MacKey::new(1, router_mac(2).0);
        let filter = MacEntry::new(
            MacEntry::NOWHERE,
            MacEntry::STATIC | MacEntry::FILTER | MacEntry::SEEN,
        );
        let _ = self.macs.set(key, filter, 0);
    }

    fn connect(&mut self) {
        let mut corpus = frames(&mut self.rng, 2000);
        // Some are for the link alone, as spanning tree's.
        for frame in corpus.iter_mut().step_by(100) {
            frame[..6].copy_from_slice(&[0x01, 0x80, 0xC2, 0, 0, 0]);
        }
        let corpus = Arc::new(corpus);
        for n in VIRTUAL..INTERFACES {
            let max_frame = *self.rng.pick(&[1514, 1514, 400]);
            let node = OUTPUTS[(n - VIRTUAL) as usize];
            self.harness.add_virtual(n, node, max_frame);
        }
        for n in 1..VIRTUAL {
            let max_frame = *self.rng.pick(&[1514, 1514, 9018, 400]);
            let rng = Rng::new(self.rng.next());
            let link = Link::new(n, rng, corpus.clone(), self.bad.clone());
            self.harness.set_rx("pg-input", n, Box::new(link.clone()));
            if n == BVI {
                self.harness.add_virtual(n, "bvi-output", max_frame);
            } else if n != 5 {
                self.harness.set_tx(n, Box::new(link), max_frame);
            }
        }
        // Nobody can send on interface 9 now.
        self.harness.set_up(9, false);
        for n in 1..INTERFACES {
            for feature in ["sflow", "sflow-output", "pcap-rx", "pcap-tx", "pcap-drop"] {
                let on = self.rng.one_in(4);
                self.graph.set_feature(feature, n, on).unwrap();
            }
            let mut settings = SflowSettings {
                if_index: n,
                rate: 1 + self.rng.below(100) as u32,
                header_bytes: 128,
            };
            self.message("sflow", &mut settings);
            let mut sending = SflowTxSettings {
                sampling: settings,
                queue: 0,
                bare: false,
            };
            self.message("sflow-output", &mut sending);
        }
    }

    fn message(&mut self, node: &str, message: &mut (dyn std::any::Any + Send)) {
        let id = self.graph.node(node).unwrap();
        let d = &mut self.harness.dispatcher;
        d.now = self.now;
        d.message(id, message);
        d.run();
    }

    /// One turn of the worker, and what control does meanwhile; then everything must add up.
    pub fn turn(&mut self) {
        self.turns += 1;
        self.now += self.rng.next() % 50_000_000;
        if self.rng.one_in(64) {
            self.now += 6_000_000_000;
        }
        if self.rng.one_in(8) {
            let input = self.graph.node("pg-input").unwrap();
            self.harness.dispatcher.trace(input, 20);
        }
        let d = &mut self.harness.dispatcher;
        d.reader.quiescent();
        d.turn(self.now);
        self.answer_events();
        if self.rng.one_in(16) {
            self.change_something();
        }
        self.drain();
        self.check();
    }

    fn check(&self) {
        if let Err(what) = self.harness.conserved() {
            panic!("turn {}: {what}", self.turns);
        }
        if let Some((n, bytes)) = self.bad.lock().unwrap().first() {
            let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
            panic!("turn {}: sent on interface {n}: {hex}", self.turns);
        }
    }

    fn drain(&mut self) {
        while self.harness.trace.pop().is_some() {}
        while self.out.samples.read(|_| ()).is_some() {}
        for ring in &mut self.out.captures {
            while ring.read(|_| ()).is_some() {}
        }
    }

    /// What the neighbours say: they are there, they are not, nothing.
    fn answer_events(&mut self) {
        let rings = self.out.events.iter_mut();
        let events: Vec<Event> = rings
            .flat_map(|ring| std::iter::from_fn(|| ring.pop()))
            .collect();
        for event in events {
            let resolved = match self.rng.below(4) {
                0 => continue,
                1 => false,
                _ => true,
            };
            match event {
                Event::Wanted4 { if_index, ip } => {
                    self.message("ip4-arp", &mut answer(resolved, if_index, ip));
                }
                Event::Wanted6 { if_index, ip } => {
                    let mut answer = answer(resolved, if_index, ip);
                    self.message("ip6-discover-neighbor", &mut answer);
                }
                Event::MacSeen {
                    if_index,
                    domain,
                    mac,
                } => {
                    let entry = MacEntry::new(if_index, MacEntry::SEEN);
                    let _ = self.macs.set(MacKey::new(domain, mac), entry, 0);
                }
                _ => {}
            }
        }
    }

    /// Control changes the forwarding while packets wait in the queues.
    fn change_something(&mut self) {
        match self.rng.below(3) {
            0 => {
                let index = self.rng.below(100) as u32;
                let adj = self.adjacency(LinkType::Ip4);
                // An index that is not in use cannot be replaced.
                let _ = self.shared.adjacencies.replace(index % 20, adj);
                if self.rng.one_in(8) {
                    let _ = self.shared.adjacencies.remove(index);
                }
            }
            1 => {
                self.make_routes();
                self.make_bridge();
            }
            _ => {
                let up = self.rng.one_in(2);
                let n = 1 + self.rng.below(INTERFACES as usize - 1) as u32;
                self.harness.set_up(n, up || n < 4);
            }
        }
    }

    /// Lets everything that waits run out; then every buffer must be back.
    pub fn end(&mut self) {
        for n in 1..INTERFACES {
            self.harness.set_up(n, false);
        }
        // Twice: an error about a packet that waited in vain may wait itself, but there is none about it.
        for _ in 0..2 {
            self.now += 10_000_000_000;
            self.harness.dispatcher.turn(self.now);
            self.check();
        }
        let d = &self.harness.dispatcher;
        assert_eq!(d.counters.held.get(), 0);
        assert_eq!(d.pool.available(), d.pool.capacity());
    }

    fn make_objects(&mut self) {
        for i in 0..60 {
            let link = [LinkType::Ip4, LinkType::Ip6, LinkType::Mpls][i / 20];
            let adj = self.adjacency(link);
            self.shared.adjacencies.insert(adj).unwrap();
        }
        for i in 0..60 {
            let payload = [Payload::Ip4, Payload::Ip6, Payload::Mpls][i / 20];
            let labels: Vec<u32> = (0..=self.rng.below(4))
                .map(|_| self.rng.below(1 << 20) as u32)
                .collect();
            let mode = *self.rng.pick(&[TtlMode::Uniform, TtlMode::Pipe]);
            let next = match self.rng.below(8) {
                0 => Dpo::new(DpoKind::LoadBalance, 4 + self.rng.below(2) as u32),
                1 => Dpo::new(DpoKind::Adjacency, 200),
                _ => Dpo::new(DpoKind::Adjacency, 40 + self.rng.below(20) as u32),
            };
            let made = Imposition::new(&labels, payload, mode, 255, 3, next).unwrap();
            self.shared.impositions.insert(made).unwrap();
        }
        // The first three are made with the tables.
        for i in 0..60 {
            let payload = [Payload::Ip4, Payload::Ip6, Payload::Mpls][i / 20];
            let mode = *self.rng.pick(&[TtlMode::Uniform, TtlMode::Pipe]);
            let next = match (payload, self.rng.below(4)) {
                (Payload::Ip4, 0..2) => self.to(DpoKind::LookupIp4, 0, TABLES + 1),
                (Payload::Ip6, 0..2) => self.to(DpoKind::LookupIp6, 0, TABLES + 1),
                (Payload::Mpls, 0..2) => Dpo::new(DpoKind::LookupMpls, 0),
                (Payload::Ip4, 2) => self.to(DpoKind::LoadBalance, 0, 2),
                (Payload::Ip6, 2) => self.to(DpoKind::LoadBalance, 2, 2),
                (Payload::Mpls, 2) => self.to(DpoKind::LoadBalance, 4, 2),
                (Payload::Ip4, _) => self.to(DpoKind::Adjacency, 0, 20),
                (Payload::Ip6, _) => self.to(DpoKind::Adjacency, 20, 20),
                (Payload::Mpls, _) => self.to(DpoKind::Adjacency, 40, 20),
            };
            let made = Disposition {
                payload,
                mode,
                next,
            };
            self.shared.dispositions.insert(made).unwrap();
        }
        for i in 0..6u32 {
            let paths: Vec<_> = (0..4)
                .map(|_| Path {
                    dpo: self.to(DpoKind::Adjacency, i / 2 * 20, 20),
                    weight: 1,
                })
                .collect();
            let made = LoadBalance::new(&paths).unwrap();
            self.shared.load_balances.insert(made).unwrap();
        }
    }

    /// An object of `kind` with one of `count` indices from `from` on.
    fn to(&mut self, kind: DpoKind, from: u32, count: u32) -> Dpo {
        Dpo::new(kind, from + self.rng.below(count as usize) as u32)
    }

    fn adjacency(&mut self, link: LinkType) -> Adjacency {
        let mut n = 1 + self.rng.below(INTERFACES as usize - 1) as u32;
        if CROSS.contains(&n) {
            n = 1;
        }
        let mtu = *self
            .rng
            .pick(&[1500, 1500, 1500, 9000, 1280, 576, 68, 30, 0]);
        let host = self.rng.below(256) as u8;
        let six = match link {
            LinkType::Ip4 => false,
            LinkType::Ip6 => true,
            LinkType::Mpls => self.rng.one_in(4),
        };
        let adj = if six {
            let hop = [
                0x20, 1, 0xD, 0xB8, 0, 200, 0, n as u8, 0, 0, 0, 0, 0, 0, 0, host,
            ];
            Adjacency::incomplete_ip6(n, link, mtu, hop.into())
        } else {
            Adjacency::incomplete_ip4(n, link, mtu, [10, 200, n as u8, host].into())
        };
        if self.rng.one_in(4) {
            return adj;
        }
        let ethertype: [u8; 2] = match link {
            LinkType::Ip4 => [0x08, 0x00],
            LinkType::Ip6 => [0x86, 0xDD],
            LinkType::Mpls => [0x88, 0x47],
        };
        let header = [&[2, 0, 0, 0, 1, n as u8][..], &router_mac(n).0, &ethertype].concat();
        adj.with_rewrite(&header).unwrap()
    }

    /// What a route of a family leads to: `group` is 0 for IPv4, 1 for IPv6.
    fn route(&mut self, group: u32) -> Dpo {
        let look = [DpoKind::LookupIp4, DpoKind::LookupIp6][group as usize];
        match self.rng.below(20) {
            0..8 => self.to(DpoKind::Adjacency, group * 20, 20),
            8 => self.to(DpoKind::LoadBalance, group * 2, 2),
            9 => self.to(DpoKind::Glean, 0, INTERFACES),
            10 => self.to(DpoKind::Receive, 1, 3),
            11 => Dpo::BLACKHOLE,
            12 => Dpo::PROHIBIT,
            13 => Dpo::UNREACHABLE,
            14 | 15 => self.to(DpoKind::MplsImpose, group * 20, 20),
            16 => self.to(look, 0, TABLES + 2),
            17 => Dpo::new(DpoKind::MplsPop, 3),
            18 => Dpo::MISS,
            _ => Dpo::new(DpoKind::Adjacency, 255),
        }
    }

    fn make_routes(&mut self) {
        for _ in self.shared.ip4.len()..TABLES as usize {
            self.shared.ip4.create().unwrap();
            self.shared.ip6.create().unwrap();
        }
        for table in 0..TABLES {
            for net in 0..64 {
                let (four, six) = (self.route(0), self.route(1));
                self.set4(table, &format!("10.{net}.0.0/16"), four);
                self.set6(table, &format!("2001:db8:{net:x}::/48"), six);
            }
            for n in 1..INTERFACES {
                let glean = Dpo::new(DpoKind::Glean, n);
                self.set4(table, &format!("10.200.{n}.0/24"), glean);
                self.set6(table, &format!("2001:db8:c8:{n:x}::/64"), glean);
                let own = Dpo::new(DpoKind::Receive, n);
                self.set4(table, &format!("10.200.{n}.1/32"), own);
                self.set6(table, &format!("2001:db8:c8:{n:x}::1/128"), own);
            }
            if self.rng.one_in(2) {
                let (four, six) = (self.route(0), self.route(1));
                self.set4(table, "0.0.0.0/0", four);
                self.set6(table, "::/0", six);
            }
        }
        for label in 16..64 {
            for bottom in [false, true] {
                let dpo = self.binding();
                let table = self.shared.mpls.get_control(0).unwrap();
                table.set(label, bottom, dpo).unwrap();
            }
        }
    }

    /// What a label stands for.
    fn binding(&mut self) -> Dpo {
        match self.rng.below(16) {
            0..6 => self.to(DpoKind::MplsImpose, 40, 20),
            6..13 => self.to(DpoKind::MplsPop, 0, 63),
            13 => self.to(DpoKind::LoadBalance, 0, 8),
            14 => Dpo::BLACKHOLE,
            _ => self.to(DpoKind::Adjacency, 0, 60),
        }
    }

    fn set4(&self, table: u32, prefix: &str, dpo: Dpo) {
        let table = self.shared.ip4.control(table).unwrap();
        let prefix = prefix.parse().unwrap();
        match dpo {
            Dpo::MISS => drop(table.remove(prefix)),
            dpo => drop(table.insert(prefix, dpo).unwrap()),
        }
    }

    fn set6(&self, table: u32, prefix: &str, dpo: Dpo) {
        let table = self.shared.ip6.control(table).unwrap();
        let prefix = prefix.parse().unwrap();
        match dpo {
            Dpo::MISS => drop(table.remove(prefix)),
            dpo => drop(table.insert(prefix, dpo).unwrap()),
        }
    }
}

/// Interface 16 routes VLAN 7 of interface 1. 17 and 18 switch tagged frames of 6 and 7, and take off more tags than some
/// have.
fn vlans() -> VlanViews {
    let tagged = VlanMatch::Tagged {
        dot1ad: false,
        outer: VlanId::Is(7),
        inner: None,
        exact: true,
    };
    let subs = [
        (16, 1, tagged, 0),
        (17, 6, VlanMatch::Default, 2),
        (18, 7, tagged, 1),
    ];
    let mut views = VlanViews::new();
    for (n, parent, takes, pop) in subs {
        let rewrite_in = TagRewrite {
            pop,
            push: Tags::NONE,
        };
        let view = VlanView {
            parent,
            tags: takes.tags(),
            rewrite_in,
            rewrite_out: rewrite_in.inverse(&takes.tags()).unwrap_or_default(),
            ..VlanView::NONE
        };
        views.insert(n, view);
        let demux = Some(VlanDemux::new([(takes, n)]));
        views.entry(parent).or_insert(VlanView::NONE).demux = demux;
    }
    views
}

/// Interface 19 sends all on 3 and 11, 20 has nobody to send.
fn bonds() -> BondViews {
    let mut views = BondViews::default();
    let view = BondView {
        choice: Choice::All,
        members: vec![3, 11],
    };
    views.bonds.insert(19, view);
    views.bonds.insert(20, BondView::default());
    views
}

/// Interfaces 22 to 24: Ethernet in UDP, packets in GRE, packets in IPv6.
fn tunnels() -> Tunnels {
    let key = |ip6: bool, encap| TunnelKey {
        local: if ip6 {
            router6(1).into()
        } else {
            router4(1).into()
        },
        remote: if ip6 { TUNNEL6.into() } else { TUNNEL4.into() },
        table: 0,
        encap,
    };
    let vxlan = Encap::Vxlan { vni: 7, port: 4789 };
    Tunnels::new([
        (22, key(false, vxlan)),
        (23, key(false, Encap::Gre)),
        (24, key(true, Encap::Ip)),
    ])
}

fn answer<A>(resolved: bool, if_index: u32, ip: A) -> HoldMessage<A> {
    if resolved {
        HoldMessage::Resolved { if_index, ip }
    } else {
        HoldMessage::Failed { if_index, ip }
    }
}
