//! What the sFlow agent sees of the router: interfaces with counters, and where a sampled packet goes.
//!
//! Control publishes [`Port`]s; the agent's thread reads them, the workers' counters and the forwarding
//! tables. It resolves a sample after the fact: a route that changed in between tells of the new way.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use parshall_agent::elect::Candidate;
use parshall_agent::{IfReport, RouteInfo};
use parshall_buffer::Pool;
use parshall_counters::{IfTotals, WorkerCounters};
use parshall_device::Duplex;
use parshall_fib::{Dpo, DpoKind, Payload};
use parshall_nodes::{Shared, flow_hash4, flow_hash6};
use parshall_wire::{EtherType, Ipv4Packet, Ipv6Packet};

use crate::engine::interface_totals;
use crate::forwarding::Forwarding;
use crate::interface::Interface;
use crate::prefix::Family;
use crate::rib::Objects;

/// Objects followed for one sample.
const MAX_STEPS: usize = 16;

/// An interface as the agent is to see it.
#[derive(Clone, Debug, Default)]
pub struct Port {
    index: u32,
    name: String,
    up: bool,
    link_up: bool,
    promiscuous: bool,
    speed: u64,
    duplex: Duplex,
    sflow: bool,
    rate: u32,
    born: IfTotals,
    routed: bool,
    /// Table indices by family.
    tables: [u32; 2],
    addresses: Vec<IpAddr>,
    loopback: bool,
}

/// What the agent is to see of an interface.
pub fn port(i: &Interface, rate: u32, forwarding: &Forwarding) -> Port {
    let info = i.device.as_ref().map(|d| d.info());
    let table = |f: Family| forwarding.table_index(f, i.table(f)).unwrap_or(0);
    Port {
        index: i.index,
        name: i.name.clone(),
        up: i.up,
        link_up: i.up && info.as_ref().is_some_and(|d| d.link_up),
        promiscuous: i.promiscuous || i.xconnect.is_some(),
        speed: info.as_ref().map_or(0, |d| d.speed),
        duplex: info.as_ref().map_or(Duplex::Unknown, |d| d.duplex),
        sflow: i.sflow.is_some(),
        rate,
        born: i.born,
        routed: i.xconnect.is_none(),
        tables: [table(Family::Ip4), table(Family::Ip6)],
        addresses: i.addresses.iter().map(|a| a.0).collect(),
        loopback: info.is_some_and(|d| d.kind == "Loopback"),
    }
}

/// The router as the agent sees it.
pub struct View {
    shared: Arc<Shared>,
    counters: Vec<Arc<WorkerCounters>>,
    ports: RwLock<Arc<Vec<Port>>>,
    /// A packet buffer to hash a sampled header in, as the workers hash the packet.
    scratch: Mutex<Option<Pool>>,
}

impl View {
    /// Over this state, without interfaces yet.
    pub fn new(shared: Arc<Shared>, counters: Vec<Arc<WorkerCounters>>) -> View {
        View {
            shared,
            counters,
            ports: RwLock::default(),
            scratch: Mutex::default(),
        }
    }

    /// Replaces the interfaces.
    pub fn publish(&self, ports: Vec<Port>) {
        *self.ports.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(ports);
    }

    fn ports(&self) -> Arc<Vec<Port>> {
        let ports = self.ports.read().unwrap_or_else(PoisonError::into_inner);
        ports.clone()
    }

    fn totals(&self, port: &Port) -> IfTotals {
        interface_totals(self.counters.iter(), port.index).since(&port.born)
    }

    /// Object and prefix length for an address.
    fn find(&self, table: u32, addr: IpAddr) -> Option<(Dpo, u32)> {
        match addr {
            IpAddr::V4(a) => {
                let fib = self.shared.ip4.control(table).ok()?;
                let (prefix, dpo) = fib.longest_match(u32::from(a))?;
                Some((dpo, u32::from(prefix.len())))
            }
            IpAddr::V6(a) => {
                let fib = self.shared.ip6.control(table).ok()?;
                let (prefix, dpo) = fib.longest_match(u128::from(a))?;
                Some((dpo, u32::from(prefix.len())))
            }
        }
    }

    fn hash(&self, packet: &[u8], family: Family) -> u32 {
        let mut scratch = self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        if scratch.is_none() {
            *scratch = Pool::new(2).ok();
        }
        let Some(pool) = scratch.as_mut() else {
            return 0;
        };
        let Some(b) = pool.packet_from(packet, 0) else {
            return 0;
        };
        let hash = match family {
            Family::Ip4 => flow_hash4(pool, b),
            Family::Ip6 => flow_hash6(pool, b),
        };
        pool.free(b);
        hash
    }

    /// Follows objects to the interface and next hop that a packet leaves by.
    fn follow(&self, mut dpo: Dpo, packet: &Packet<'_>) -> Option<(u32, IpAddr)> {
        let nowhere = packet.dst.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |d| {
            Family::of(d).unspecified()
        });
        for _ in 0..MAX_STEPS {
            dpo = match dpo.kind() {
                DpoKind::Adjacency => {
                    let adj = self.shared.adjacencies.get_control(dpo.index())?;
                    let hop = if adj.next_hop_is_ip6() {
                        IpAddr::V6(adj.next_hop_ip6())
                    } else {
                        IpAddr::V4(adj.next_hop_ip4())
                    };
                    // To the destination itself: there is no next hop.
                    let hop = if packet.dst == Some(hop) {
                        nowhere
                    } else {
                        hop
                    };
                    return Some((adj.tx_if(), hop));
                }
                DpoKind::Glean => return Some((dpo.index(), nowhere)),
                DpoKind::Receive => return Some((RouteInfo::INTERNAL, nowhere)),
                DpoKind::LoadBalance => {
                    let hash = packet.family.map_or(0, |f| self.hash(packet.bytes, f));
                    self.shared
                        .load_balances
                        .get_control(dpo.index())?
                        .pick(hash)
                }
                DpoKind::MplsImpose => self.shared.impositions.get_control(dpo.index())?.next(),
                DpoKind::MplsPop => self.shared.dispositions.get_control(dpo.index())?.next,
                DpoKind::LookupIp4 | DpoKind::LookupIp6 => self.find(dpo.index(), packet.dst?)?.0,
                _ => return None,
            };
        }
        None
    }

    fn resolve_ip(&self, port: &Port, packet: &Packet<'_>) -> Option<RouteInfo> {
        let (dst, family) = (packet.dst?, packet.family?);
        let table = port.tables[family as usize];
        let (dpo, dst_mask_len) = self.find(table, dst)?;
        let (out_if, next_hop) = self.follow(dpo, packet)?;
        let src_mask_len = packet
            .src
            .and_then(|s| self.find(table, s))
            .map_or(0, |f| f.1);
        Some(RouteInfo {
            out_if,
            next_hop,
            src_mask_len,
            dst_mask_len,
        })
    }

    fn resolve_mpls(&self, stack: &[u8]) -> Option<RouteInfo> {
        let entry = u32::from_be_bytes(*stack.first_chunk()?);
        let (label, eos) = (entry >> 12, entry & 0x100 != 0);
        let dpo = self.shared.mpls.get_control(0)?.get(label, eos);
        let under = match dpo.kind() {
            DpoKind::MplsPop => self.shared.dispositions.get_control(dpo.index())?.payload,
            _ => Payload::Mpls,
        };
        let packet = match under {
            Payload::Ip4 => Packet::ip4(&stack[4..]),
            Payload::Ip6 => Packet::ip6(&stack[4..]),
            Payload::Mpls => None,
        };
        let (out_if, next_hop) = self.follow(dpo, &packet.unwrap_or_default())?;
        Some(RouteInfo {
            out_if,
            next_hop,
            src_mask_len: 0,
            dst_mask_len: 0,
        })
    }
}

/// The addresses of a sampled packet.
#[derive(Default)]
struct Packet<'a> {
    bytes: &'a [u8],
    family: Option<Family>,
    src: Option<IpAddr>,
    dst: Option<IpAddr>,
}

impl<'a> Packet<'a> {
    fn ip4(bytes: &'a [u8]) -> Option<Packet<'a>> {
        // A sample is cut short, so the lengths in the header must not be held against it.
        let p = Ipv4Packet::new_unchecked(bytes.get(..20)?);
        (p.version() == 4).then(|| Packet {
            bytes,
            family: Some(Family::Ip4),
            src: Some(p.src_addr().into()),
            dst: Some(p.dst_addr().into()),
        })
    }
    fn ip6(bytes: &'a [u8]) -> Option<Packet<'a>> {
        let p = Ipv6Packet::new_unchecked(bytes.get(..40)?);
        (p.version() == 6).then(|| Packet {
            bytes,
            family: Some(Family::Ip6),
            src: Some(p.src_addr().into()),
            dst: Some(p.dst_addr().into()),
        })
    }
}

impl parshall_agent::Router for View {
    fn interfaces(&self) -> Vec<IfReport> {
        self.ports()
            .iter()
            .filter(|p| p.index != 0)
            .map(|p| IfReport {
                index: p.index,
                if_index: p.index,
                name: p.name.clone(),
                speed: p.speed,
                duplex: p.duplex,
                admin_up: p.up,
                link_up: p.link_up,
                promiscuous: p.promiscuous,
                totals: self.totals(p),
                sflow: p.sflow,
                rate: p.rate,
            })
            .collect()
    }

    fn resolve(&self, header: &[u8], rx_if: u32) -> Option<RouteInfo> {
        let ports = self.ports();
        let port = ports.iter().find(|p| p.index == rx_if && p.routed)?;
        let ethertype = EtherType(u16::from_be_bytes([*header.get(12)?, *header.get(13)?]));
        let payload = header.get(14..)?;
        match ethertype {
            EtherType::IPV4 => self.resolve_ip(port, &Packet::ip4(payload)?),
            EtherType::IPV6 => self.resolve_ip(port, &Packet::ip6(payload)?),
            EtherType::MPLS => self.resolve_mpls(payload),
            _ => None,
        }
    }

    fn pool(&self, if_index: u32) -> (u64, u64) {
        let ports = self.ports();
        let port = ports.iter().find(|p| p.index == if_index);
        port.map_or((0, 0), |p| {
            let t = self.totals(p);
            (t.sample_pool, t.sample_drops)
        })
    }

    fn addresses(&self) -> Vec<Candidate> {
        let ports = self.ports();
        let each = |p: &Port| {
            let (if_index, loopback) = (p.index, p.loopback);
            p.addresses
                .clone()
                .into_iter()
                .map(move |address| Candidate {
                    address,
                    if_index,
                    loopback,
                    vlan: false,
                    dynamic: false,
                })
        };
        ports.iter().filter(|p| p.up).flat_map(each).collect()
    }
}
