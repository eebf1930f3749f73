//! What the sFlow agent sees of the router: interfaces with counters, and where a sampled packet goes.
//!
//! Control publishes [`Port`]s; the agent's thread reads them, the workers' counters and the forwarding
//! tables. It resolves a sample after the fact: a route that changed in between tells of the new way.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use nix::time::{ClockId, clock_gettime};
use parshall_agent::elect::Candidate;
use parshall_agent::{
    Bridged, HardwareWatch, IfReport, Passage, Records, Resolution, RouteInfo, Sampled,
};
use parshall_counters::{DropReason, IfTotals, WorkerCounters};
use parshall_device::{DeviceInfo, Duplex, Hardware};
use parshall_fib::{MacEntry, MacKey};
use parshall_graph::Graph;
use parshall_nodes::Shared;
use parshall_nodes::vlan::{FrameTags, VlanDemux, VlanId, VlanMatch};
use parshall_sample::Direction;

use crate::bgp::BgpShared;
use crate::engine::interface_totals;
use crate::forwarding::Forwarding;
use crate::interface::Interface;
use crate::objects::Objects;
use crate::prefix::Family;
use crate::resolve::{Memory, Resolver};
use crate::virtual_interface::Vtr;

/// Bytes of a sampled frame that are looked at once its tags are off.
const LOOKED_AT: usize = 512;

/// An interface as the agent is to see it.
#[derive(Clone, Debug, Default)]
pub struct Port {
    index: u32,
    if_index: u32,
    incarnation: u64,
    name: String,
    up: bool,
    link_up: bool,
    promiscuous: bool,
    mac: [u8; 6],
    os_index: u32,
    speed: u64,
    duplex: Duplex,
    sflow: bool,
    rate: u32,
    born: IfTotals,
    routed: bool,
    /// MPLS is spoken.
    mpls: bool,
    /// Table indices by family.
    tables: [u32; 2],
    addresses: Vec<IpAddr>,
    loopback: bool,
    if_type: u32,
    /// What it takes of which interface, if it is a sub-interface.
    sub: Option<(u32, VlanMatch)>,
    /// Sub-interfaces of it.
    demux: Option<Arc<VlanDemux>>,
    /// Tags change on the way in or out.
    retags: bool,
    hardware: Option<Arc<dyn Hardware>>,
}

/// What the agent is to see of an interface.
pub fn port(i: &Interface, rate: u32, forwarding: &Forwarding) -> Port {
    let info = i.device.as_ref().map(|d| d.info());
    let table = |f: Family| forwarding.table_index(f, i.table(f)).unwrap_or(0);
    Port {
        index: i.index,
        if_index: i.exported,
        incarnation: i.incarnation,
        name: i.name.clone(),
        up: i.up,
        link_up: i.up && info.as_ref().map_or(i.link, |d| d.link_up),
        promiscuous: i.promiscuous || i.is_switched(),
        mac: i.mac,
        os_index: own_os_index(i, info.as_ref()),
        speed: info.as_ref().map_or(i.speed, |d| d.speed),
        duplex: info.as_ref().map_or(Duplex::Unknown, |d| d.duplex),
        sflow: i.sflow.is_some(),
        rate,
        born: i.born,
        routed: !i.is_switched(),
        mpls: i.mpls,
        tables: [table(Family::Ip4), table(Family::Ip6)],
        addresses: i.addresses.iter().map(|a| a.0).collect(),
        loopback: info.is_some_and(|d| d.kind == "Loopback"),
        if_type: i.if_type(),
        sub: i.sub().map(|s| (s.parent, s.takes)),
        demux: None,
        retags: i.vtr != Vtr::default(),
        hardware: i.hardware.clone(),
    }
}

/// ifIndex of an interface's Linux counterpart, 0 where there is none or it lives in another network namespace.
fn own_os_index(i: &Interface, info: Option<&DeviceInfo>) -> u32 {
    let here = i
        .spec
        .as_ref()
        .is_some_and(|s| s.kind.host_namespace().is_none());
    let index = info.filter(|_| here).and_then(|d| d.os_index);
    index.unwrap_or(0)
}

impl Port {
    /// VLAN and priority of what is sent through it: 0 without one.
    fn vlan(&self) -> (u32, u32) {
        match self.sub {
            Some((
                _,
                VlanMatch::Tagged {
                    outer: VlanId::Is(id),
                    ..
                },
            )) => (id.into(), 0),
            Some((_, VlanMatch::Untagged)) | None => (0, 0),
            Some(_) => (u32::MAX, u32::MAX),
        }
    }
}

/// Tells interfaces of their sub-interfaces. They are in the order of their indices.
fn join(ports: &mut [Port]) {
    let mut subs: BTreeMap<u32, Vec<_>> = BTreeMap::new();
    for p in ports.iter() {
        if let Some((parent, takes)) = p.sub {
            subs.entry(parent).or_default().push((takes, p.index));
        }
    }
    for (parent, subs) in subs {
        if let Ok(at) = ports.binary_search_by_key(&parent, |p| p.index) {
            ports[at].demux = Some(Arc::new(VlanDemux::new(subs)));
        }
    }
}

/// Tags of a sampled frame.
fn tags(header: &[u8]) -> FrameTags {
    let len = header.len().min(usize::from(u16::MAX)) as u16;
    header
        .first_chunk::<24>()
        .map_or_else(FrameTags::default, |head| FrameTags::of(head, len))
}

/// `header` without its tags, in `room`.
fn untagged<'a>(header: &'a [u8], tags: &FrameTags, room: &'a mut [u8; LOOKED_AT]) -> &'a [u8] {
    let behind = header.get(12 + 4 * usize::from(tags.present)..);
    let (Some(behind), 1..) = (behind, tags.present) else {
        return header;
    };
    let n = behind.len().min(LOOKED_AT - 12);
    room[..12].copy_from_slice(&header[..12]);
    room[12..12 + n].copy_from_slice(&behind[..n]);
    &room[..12 + n]
}

/// The interface with this index.
fn find(ports: &[Port], index: u32) -> Option<&Port> {
    let at = ports.binary_search_by_key(&index, |p| p.index).ok()?;
    ports.get(at)
}

/// The router as the agent sees it.
pub struct View {
    shared: Arc<Shared>,
    graph: Arc<Graph>,
    counters: Vec<Arc<WorkerCounters>>,
    /// In the order of their indices.
    ports: RwLock<Arc<Vec<Port>>>,
    /// Changes of which interfaces there are, and of their numbers.
    generation: AtomicU64,
    /// What is kept from one sample to the next.
    memory: Mutex<Memory>,
    /// BGP routes of others.
    pub(crate) bgp: Arc<BgpShared>,
    hardware: HardwareWatch,
}

impl View {
    /// Over this state, without interfaces yet.
    pub fn new(shared: Arc<Shared>, graph: Arc<Graph>, counters: Vec<Arc<WorkerCounters>>) -> View {
        View {
            shared,
            graph,
            counters,
            ports: RwLock::default(),
            generation: AtomicU64::new(0),
            memory: Mutex::default(),
            bgp: Arc::default(),
            hardware: HardwareWatch::default(),
        }
    }

    /// Replaces the interfaces.
    pub fn publish(&self, mut ports: Vec<Port>) {
        let reported = ports.iter().filter(|p| p.sflow);
        let watched = reported.filter_map(|p| Some((p.index, p.hardware.clone()?)));
        self.hardware.watch(watched.collect());
        ports.sort_unstable_by_key(|p| p.index);
        join(&mut ports);
        let who = |p: &Port| (p.index, p.if_index, p.incarnation);
        let same = self.ports().iter().map(who).eq(ports.iter().map(who));
        *self.ports.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(ports);
        if !same {
            self.generation.fetch_add(1, Ordering::Release);
        }
    }

    fn ports(&self) -> Arc<Vec<Port>> {
        let ports = self.ports.read().unwrap_or_else(PoisonError::into_inner);
        ports.clone()
    }

    /// Where a bridge sends a packet, by what it knows now.
    fn bridged(&self, packet: &Sampled<'_>) -> Option<Bridged> {
        let mac: [u8; 6] = *packet.header.first_chunk()?;
        let shared = &self.shared;
        let bridges = shared.bridges.read_control(&shared.domain);
        let port = bridges.port(packet.rx_if);
        let domain = bridges.domain(port.domain).filter(|_| port.domain != 0)?;
        let key = MacKey::new(port.domain, mac);
        let entry = shared.macs.find(shared.macs.spot(key));
        let group = mac[0] & 1 != 0;
        if entry.is_hit() && !group {
            return match entry {
                e if e.has(MacEntry::BVI) => Some(Bridged::Up),
                e if e.has(MacEntry::FILTER) || e.if_index() == packet.rx_if => None,
                e => Some(Bridged::To(e.if_index())),
            };
        }
        if !group && domain.uu_fwd != parshall_buffer::IF_NONE {
            return Some(Bridged::To(domain.uu_fwd));
        }
        let members = domain.members.iter();
        let to = members.filter(|m| m.if_index != packet.rx_if && !port.is_split_from(m.shg));
        let up = usize::from(domain.bvi != parshall_buffer::IF_NONE);
        Some(Bridged::Flooded((to.count() + up) as u32))
    }

    fn totals(&self, port: &Port) -> IfTotals {
        interface_totals(self.counters.iter(), port.index).since(&port.born)
    }
}

impl parshall_agent::Router for View {
    fn interfaces(&self) -> Vec<IfReport> {
        self.ports()
            .iter()
            .filter(|p| p.index != 0)
            .map(|p| IfReport {
                index: p.index,
                if_index: p.if_index,
                incarnation: p.incarnation,
                name: p.name.clone(),
                mac: p.mac,
                loopback: p.loopback,
                if_type: p.if_type,
                os_index: p.os_index,
                speed: p.speed,
                duplex: p.duplex,
                admin_up: p.up,
                link_up: p.link_up,
                promiscuous: p.promiscuous,
                totals: self.totals(p),
                hardware: self.hardware.state(p.index),
                sflow: p.sflow,
                rate: p.rate,
            })
            .collect()
    }

    fn resolve(&self, header: &[u8], rx_if: u32) -> Option<RouteInfo> {
        let packet = Sampled {
            header,
            rx_if,
            tx_if: u32::MAX,
            direction: Direction::Rx,
            wanted: Records::NONE,
        };
        let mut found = Resolution::default();
        self.explain(&packet, &mut found);
        found.route
    }

    fn explain(&self, packet: &Sampled<'_>, found: &mut Resolution) {
        found.clear();
        let ports = self.ports();
        let Some(mut port) = find(&ports, packet.rx_if) else {
            return;
        };
        let tags = tags(packet.header);
        if let (Direction::Rx, Some(demux)) = (packet.direction, &port.demux)
            && let Some(sub) = demux.find(&tags).and_then(|sub| find(&ports, sub))
        {
            port = sub;
        }
        if !port.routed {
            found.passage = Passage::Switched;
            found.bridged = self.bridged(packet);
            found.other_end = port.retags.then_some((u32::MAX, u32::MAX));
            return;
        }
        let mut room = [0; LOOKED_AT];
        let packet = &Sampled {
            header: untagged(packet.header, &tags, &mut room),
            ..*packet
        };
        // The agent's thread alone asks: nobody waits here.
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let mut resolver = Resolver {
            shared: &self.shared,
            bgp: &self.bgp,
            memory: &mut memory,
            tables: port.tables,
            mpls: port.mpls,
        };
        resolver.explain(packet, found);
        let Some(route) = found.route.as_mut() else {
            return;
        };
        let out = find(&ports, route.out_if);
        found.other_end = match packet.direction {
            Direction::Rx => out.filter(|o| o.sub.is_some()).map(Port::vlan),
            Direction::Tx => Some(port.vlan()),
        };
        // A frame that leaves by the parent of the interface that the route names has not gone astray.
        if out.and_then(|o| o.sub).map(|s| s.0) == Some(packet.tx_if) {
            route.out_if = packet.tx_if;
        }
    }

    fn pool(&self, if_index: u32) -> (u64, u64) {
        let ports = self.ports();
        let Some(port) = find(&ports, if_index) else {
            return (0, 0);
        };
        // Of the counters, which the workers write, no more is read than is asked for.
        let (mut pool, mut drops) = (0u64, 0u64);
        for c in self.counters.iter().filter_map(|c| c.interface(if_index)) {
            pool = pool.wrapping_add(c.sample_pool.get());
            pool = pool.wrapping_add(c.tx_sample_pool.get());
            drops = drops.wrapping_add(c.sample_drops.get());
            drops = drops.wrapping_add(c.tx_sample_drops.get());
        }
        let born = &port.born;
        (
            pool.wrapping_sub(born.sample_pool.wrapping_add(born.tx_sample_pool)),
            drops.wrapping_sub(born.sample_drops.wrapping_add(born.tx_sample_drops)),
        )
    }

    fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    fn suppressed_drops(&self) -> u64 {
        let each = |c: &Arc<WorkerCounters>| -> u64 {
            DropReason::ALL.iter().map(|r| c.suppressed(*r)).sum()
        };
        self.counters.iter().map(each).sum()
    }

    fn slot_name(&self, slot: u16) -> Option<String> {
        if let Some(spec) = self.graph.spec(slot) {
            return Some(spec.name.to_owned());
        }
        let ports = self.ports();
        let port = find(&ports, self.graph.tx_interface(slot)?)?;
        Some(format!("{}-tx", port.name))
    }

    fn unix_ns(&self, monotonic_ns: u64) -> Option<u64> {
        let now = |clock| {
            let t = clock_gettime(clock).ok()?;
            Some(i128::from(t.tv_sec()) * 1_000_000_000 + i128::from(t.tv_nsec()))
        };
        let offset = now(ClockId::CLOCK_REALTIME)? - now(ClockId::CLOCK_MONOTONIC)?;
        u64::try_from(i128::from(monotonic_ns) + offset).ok()
    }

    fn addresses(&self) -> Vec<Candidate> {
        let ports = self.ports();
        let each = |p: &Port| {
            let (if_index, loopback, name) = (p.index, p.loopback, p.name.clone());
            p.addresses
                .clone()
                .into_iter()
                .map(move |address| Candidate {
                    address,
                    if_index,
                    device: name.clone(),
                    loopback,
                    vlan: false,
                    dynamic: false,
                })
        };
        ports.iter().filter(|p| p.up).flat_map(each).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::EngineConfig;
    use crate::router::Router;
    use parshall_agent::Router as _;
    use parshall_buffer::Pool;
    use parshall_nodes::flow_hash4;
    use parshall_wire::{MacAddr, PacketBuilder};

    fn router(script: &str) -> Router {
        let mut r = Router::model(&EngineConfig::default()).unwrap();
        let two = "create packet-generator interface pg0\ncreate packet-generator interface pg1\n\
                   set interface state pg0 up\nset interface state pg1 up\n\
                   set interface ip address pg0 10.0.0.1/24\nset interface ip address pg1 10.1.0.1/24\n\
                   set interface ip address pg1 2001:db8::1/64\n\
                   ip neighbor pg1 10.1.0.2 02:00:00:00:00:02 static\n\
                   ip neighbor pg1 10.1.0.3 02:00:00:00:00:03 static\n";
        r.run_script(&format!("{two}{script}"), "test")
            .unwrap_or_else(|e| panic!("{e}"));
        r
    }

    fn ethernet() -> PacketBuilder {
        PacketBuilder::ethernet(MacAddr([2; 6]), MacAddr([4; 6]))
    }

    fn udp(dst: &str, port: u16) -> Vec<u8> {
        let b = match dst.parse::<IpAddr>().unwrap() {
            IpAddr::V4(d) => ethernet().ipv4([10, 0, 0, 9].into(), d),
            IpAddr::V6(d) => ethernet().ipv6("2001:db8:9::9".parse().unwrap(), d),
        };
        b.udp(port, 53).payload_len(200).build()[..128].to_vec()
    }

    fn resolved(r: &Router, frame: &[u8]) -> Option<(u32, String, u32, u32)> {
        let i = r.sflow.view.resolve(frame, 1)?;
        Some((
            i.out_if,
            i.next_hop.to_string(),
            i.src_mask_len,
            i.dst_mask_len,
        ))
    }

    #[test]
    fn samples_are_resolved_as_the_packet_is_routed() {
        let r = router(
            "ip route add 20.0.0.0/8 via 10.1.0.2\nip route add 30.0.0.0/8 blackhole\n\
             ip route add 40.0.0.0/16 via 10.1.0.2 out-labels 100\nip table add 7\n\
             ip route add 50.0.0.0/8 via ip4-lookup-in-table 7\n\
             ip route add 50.1.0.0/16 table 7 via 10.1.0.3 pg1\n\
             ip route add 2001:db8:5::/48 via 2001:db8::9",
        );
        for (dst, want) in [
            ("20.1.1.1", Some((2, "10.1.0.2", 24, 8))),
            // A known neighbour has a host route, an unknown one is covered by the subnet.
            ("10.1.0.2", Some((2, "0.0.0.0", 24, 32))),
            ("10.1.0.77", Some((2, "0.0.0.0", 24, 24))),
            ("10.0.0.1", Some((RouteInfo::INTERNAL, "0.0.0.0", 24, 32))),
            ("30.1.1.1", None),
            ("99.1.1.1", None),
            ("40.0.1.1", Some((2, "10.1.0.2", 24, 16))),
            ("50.1.1.1", Some((2, "10.1.0.3", 24, 8))),
            ("2001:db8:5::5", Some((2, "2001:db8::9", 0, 48))),
        ] {
            let want = want.map(|(i, h, s, d): (u32, &str, u32, u32)| (i, h.to_owned(), s, d));
            assert_eq!(resolved(&r, &udp(dst, 7)), want, "{dst}");
        }
    }

    #[test]
    fn several_paths_resolve_to_the_one_that_the_flow_takes() {
        let r = router("ip route add 20.0.0.0/8 via 10.1.0.2 via 10.1.0.3");
        let mut pool = Pool::new(2).unwrap();
        let mut seen = std::collections::BTreeSet::new();
        for port in 0..64 {
            let frame = udp("20.1.1.1", port);
            let b = pool.packet_from(&frame[14..], 0).unwrap();
            let hash = flow_hash4(&pool, b);
            pool.free(b);
            let lb = r.engine.shared.load_balances.get_control(0).unwrap();
            let adj = lb.pick(hash).index();
            let want = r.engine.shared.adjacencies.get_control(adj).unwrap();
            let (_, hop, ..) = resolved(&r, &frame).unwrap();
            assert_eq!(hop, want.next_hop_ip4().to_string());
            seen.insert(hop);
        }
        assert_eq!(seen.len(), 2);
    }

    #[test]
    fn labels_are_followed_and_cross_connects_are_not_routes() {
        let mut r = router(
            "mpls table add 0\nmpls local-label add 16 eos via 10.1.0.2 pg1 out-labels 17\n\
             mpls local-label add 18 eos via ip4-lookup-in-table 0",
        );
        let labelled = |label: u32| {
            let b = ethernet().mpls(label);
            let b = b.ipv4([10, 0, 0, 9].into(), [10, 1, 0, 3].into());
            b.udp(1, 2).payload_len(20).build()
        };
        let hop = |r: &Router, l| resolved(r, &labelled(l)).map(|x| (x.0, x.1));
        assert_eq!(hop(&r, 16), Some((2, "10.1.0.2".into())));
        assert_eq!(hop(&r, 18), Some((2, "0.0.0.0".into())));
        assert_eq!(hop(&r, 19), None);
        r.run_line("set interface l2 xconnect pg0 pg1", false)
            .unwrap();
        assert_eq!(hop(&r, 16), None);
    }

    #[test]
    fn bridged_packets_are_told_where_they_go() {
        let mut r = router(
            "set interface l2 bridge pg0 1\nset interface l2 bridge pg1 1\ncreate loopback interface\n\
             set interface mac address loop0 02:00:00:00:00:99\nset interface state loop0 up\n\
             set interface l2 bridge loop0 1 bvi\nl2fib add 02:00:00:00:00:02 1 pg1",
        );
        let mut to = |mac: [u8; 6]| {
            let b = PacketBuilder::ethernet(MacAddr([2; 6]), MacAddr(mac));
            let header = b.payload_len(60).build();
            let packet = Sampled {
                header: &header,
                rx_if: 1,
                tx_if: u32::MAX,
                direction: Direction::Rx,
                wanted: Records::NONE,
            };
            let mut found = Resolution::default();
            r.sflow.view.explain(&packet, &mut found);
            assert_eq!(found.passage, Passage::Switched);
            r.turn();
            found.bridged
        };
        assert_eq!(to([2, 0, 0, 0, 0, 2]), Some(Bridged::To(2)));
        assert_eq!(to([2, 0, 0, 0, 0, 0x99]), Some(Bridged::Up));
        assert_eq!(to([2, 0, 0, 0, 0, 7]), Some(Bridged::Flooded(2)));
        assert_eq!(to([0xFF; 6]), Some(Bridged::Flooded(2)));
    }

    #[test]
    fn cut_and_foreign_headers_do_no_harm() {
        let r = router("ip route add 20.0.0.0/8 via 10.1.0.2");
        let frame = udp("20.1.1.1", 1);
        for n in 0..34 {
            assert_eq!(resolved(&r, &frame[..n]), None, "{n} bytes");
        }
        assert!(resolved(&r, &frame[..34]).is_some());
        assert_eq!(resolved(&r, &[0; 64]), None);
    }

    #[test]
    fn interfaces_are_reported_with_what_is_set() {
        let r = router("sflow enable pg0 sampling-rate 100\nset interface promiscuous on pg1");
        let all = r.sflow.view.interfaces();
        let got: Vec<_> = all
            .iter()
            .map(|i| {
                (
                    i.name.as_str(),
                    i.if_index,
                    i.admin_up,
                    i.sflow,
                    i.rate,
                    i.promiscuous,
                )
            })
            .collect();
        assert_eq!(
            got,
            [
                ("pg0", 1, true, true, 100, false),
                ("pg1", 2, true, false, 0, true)
            ]
        );
        let own: Vec<String> = r
            .sflow
            .view
            .addresses()
            .iter()
            .map(|c| c.address.to_string())
            .collect();
        assert_eq!(own, ["10.0.0.1", "10.1.0.1", "2001:db8::1"]);
    }
}
