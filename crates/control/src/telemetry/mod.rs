//! What the sFlow agent sees of the router: interfaces with counters, and where a sampled packet goes.
//!
//! Control publishes [`Port`]s; the agent's thread reads them, the workers' counters and the forwarding
//! tables. It resolves a sample after the fact: a route that changed in between tells of the new way.

mod acl;
mod port;
mod tunnel;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use nix::time::{ClockId, clock_gettime};
use parshall_agent::elect::Candidate;
use parshall_agent::{
    AclMatch, Bridged, HardwareWatch, IfReport, Passage, RecordKind, Records, Resolution,
    RouteInfo, Sampled,
};
use parshall_counters::{DropReason, IfTotals, WorkerCounters};
use parshall_fib::{MacEntry, MacKey};
use parshall_graph::Graph;
use parshall_nodes::Shared;
use parshall_nodes::vlan::FrameTags;
use parshall_sample::{Direction, DropSlot, HeaderProtocol};

use crate::bgp::BgpShared;
use crate::engine::interface_totals;
use crate::interface::without_ethernet;
use crate::resolve::{Memory, Resolver};

pub use port::{AclNames, Aside, Port, port};
use port::{find, join, same_way};

/// Bytes of a sampled frame that are looked at once its tags are off.
const LOOKED_AT: usize = 512;

/// Tags of a sampled frame.
fn tags(packet: &Sampled<'_>) -> FrameTags {
    if packet.protocol != HeaderProtocol::Ethernet {
        return FrameTags::default();
    }
    let header = packet.header;
    let len = header.len().min(usize::from(u16::MAX)) as u16;
    header
        .first_chunk::<24>()
        .map_or_else(FrameTags::default, |head| FrameTags::of(head, len))
}

/// The header of a frame without its tags, in `room`; that of a packet as if it came in a frame.
fn framed<'a>(packet: &Sampled<'a>, tags: &FrameTags, room: &'a mut [u8; LOOKED_AT]) -> &'a [u8] {
    let header = packet.header;
    if packet.protocol != HeaderProtocol::Ethernet {
        let n = header.len().min(LOOKED_AT - 14);
        room[..12].fill(0);
        room[12..14].copy_from_slice(&packet.protocol.ethertype().to_be_bytes());
        room[14..14 + n].copy_from_slice(&header[..n]);
        return &room[..14 + n];
    }
    let behind = header.get(12 + 4 * usize::from(tags.present)..);
    let (Some(behind), 1..) = (behind, tags.present) else {
        return header;
    };
    let n = behind.len().min(LOOKED_AT - 12);
    room[..12].copy_from_slice(&header[..12]);
    room[12..12 + n].copy_from_slice(&behind[..n]);
    &room[..12 + n]
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

    /// The tunnels that a packet comes out of and goes into, given the way that was found.
    fn explain_tunnels(&self, ports: &[Port], packet: &Sampled<'_>, found: &mut Resolution) {
        let tunnels = self.shared.tunnels.read_control(&self.shared.domain);
        if tunnels.is_empty() {
            return;
        }
        let tags = tags(packet);
        let inner = tunnel::Carried::of(packet, &tags);
        found.came_out_of = tunnels
            .view(packet.rx_if)
            .map(|v| tunnel::received(v, &inner));
        let out = match (packet.direction, found.bridged, found.route) {
            (Direction::Tx, ..) => packet.tx_if,
            (_, Some(Bridged::To(to)), _) => to,
            (_, _, Some(route)) => route.out_if,
            _ => parshall_buffer::IF_NONE,
        };
        found.goes_into = tunnels.view(out).map(|v| tunnel::sent(v, &inner));
        let here = found.route.is_some_and(|r| r.out_if == RouteInfo::INTERNAL);
        if packet.direction == Direction::Tx || here {
            let tables = find(ports, packet.rx_if).map_or([0; 2], |p| p.tables);
            found.inner_offset = tunnel::inner_offset(&tunnels, packet, &tags, tables);
        }
    }

    /// Where a packet goes, and how.
    fn explain_way(&self, ports: &[Port], packet: &Sampled<'_>, found: &mut Resolution) {
        if packet.direction == Direction::Tx {
            found.this_end = find(ports, packet.tx_if).and_then(Port::own_vlan);
        }
        let Some(mut port) = find(ports, packet.rx_if) else {
            return;
        };
        let tags = tags(packet);
        if let (Direction::Rx, Some(demux)) = (packet.direction, &port.demux)
            && let Some(sub) = demux.find(&tags).and_then(|sub| find(ports, sub))
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
            header: framed(packet, &tags, &mut room),
            protocol: HeaderProtocol::Ethernet,
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
        let out = find(ports, route.out_if);
        found.other_end = match packet.direction {
            Direction::Rx => out.filter(|o| o.sub.is_some()).map(Port::vlan),
            Direction::Tx => Some(port.vlan()),
        };
        // A frame that leaves by the parent, or a bond's member, of the interface that the route names has not gone astray.
        if out.is_some_and(|o| same_way(ports, o, packet.tx_if)) {
            route.out_if = packet.tx_if;
        }
    }

    fn totals(&self, port: &Port) -> IfTotals {
        let totals = interface_totals(self.counters.iter(), port.index).since(&port.born);
        if port.bare {
            without_ethernet(totals)
        } else {
            totals
        }
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
                vlan: p.only_vlan(),
                lag: p.lag,
                hardware: self.hardware.state(p.index),
                sflow: p.sflow,
                rate: p.rate,
            })
            .collect()
    }

    fn resolve(&self, header: &[u8], rx_if: u32) -> Option<RouteInfo> {
        let packet = Sampled {
            header,
            protocol: HeaderProtocol::Ethernet,
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
        self.explain_way(&ports, packet, found);
        if packet.wanted.has(RecordKind::Tunnel) {
            self.explain_tunnels(&ports, packet, found);
        }
    }

    fn acl(&self, slot: &DropSlot) -> Option<AclMatch> {
        let outward = self.slot_name(slot.slot)?.starts_with("acl-out");
        let ports = self.ports();
        let port = find(&ports, if outward { slot.tx_if } else { slot.rx_if })?;
        let tables = self.shared.acls.read_control(&self.shared.domain);
        acl::decided(&tables, port, slot, outward)
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

    fn unmade_drops(&self) -> u64 {
        self.counters.iter().map(|c| c.unmade.get()).sum()
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
mod tests;
