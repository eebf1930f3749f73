//! Where a sampled packet goes: its headers are taken through the tables as the nodes take the packet through them.
//!
//! Follows `ip4-lookup`, `ip6-lookup`, the `mpls-*` nodes (RFC 3031, RFC 3032, RFC 3443) and their flow hash, so that
//! what a sample says of next hop, interface and labels is what the packet got. Runs on the agent's thread, after the
//! fact: a route that changed in between tells of the new way, which the agent finds out where it knows the old one.

use std::net::IpAddr;

use parshall_agent::{Passage, RecordKind, Resolution, RouteInfo, Sampled};
use parshall_buffer::Pool;
use parshall_fib::{Addr, Disposition, Dpo, DpoKind, Imposition, Lpm, Payload, TtlMode};
use parshall_nodes::{POP_IP4, POP_IP6, POP_MPLS, Shared, flow_hash_mpls, flow_hash4, flow_hash6};
use parshall_sample::Direction;
use parshall_wire::{EtherType, Ipv4Packet, Ipv6Packet};

use crate::bgp::BgpShared;
use crate::prefix::Family;
use crate::recent::Recent;

/// Objects followed for one packet.
const MAX_STEPS: usize = 32;
/// Label stack entries looked at; the router pushes no more than 16.
const MAX_LABELS: usize = 32;
/// First label that is not reserved (RFC 3032 section 2.1).
const FIRST_FREE: u32 = 16;
/// The bottom-of-stack bit of a label stack entry.
const BOTTOM: u32 = 0x100;

/// Answers questions about sampled packets.
pub(crate) struct Resolver<'a> {
    pub shared: &'a Shared,
    pub bgp: &'a BgpShared,
    /// What is kept from packet to packet.
    pub memory: &'a mut Memory,
    /// Tables of the interface that the packet came in on, by family.
    pub tables: [u32; 2],
    /// It may have come with labels.
    pub mpls: bool,
}

/// What a resolver keeps from packet to packet.
#[derive(Default)]
pub(crate) struct Memory {
    /// A packet buffer to hash a header in, as the workers hash the packet.
    pool: Option<Pool>,
    /// What tables said of addresses.
    recent: Recent,
}

/// An IP header.
#[derive(Clone, Copy)]
struct Ip<'a> {
    /// From the header on.
    bytes: &'a [u8],
    family: Family,
    src: IpAddr,
    dst: IpAddr,
    ttl: u8,
    /// The upper three bits of the traffic class, which labels copy.
    class: u8,
}

impl<'a> Ip<'a> {
    /// A sample is cut short, so the lengths in the header must not be held against it.
    fn four(bytes: &'a [u8]) -> Option<Ip<'a>> {
        let head = bytes.get(..20)?;
        let p = Ipv4Packet::new_unchecked(head);
        (p.version() == 4).then(|| Ip {
            bytes,
            family: Family::Ip4,
            src: p.src_addr().into(),
            dst: p.dst_addr().into(),
            ttl: head[8],
            class: head[1] >> 5,
        })
    }

    fn six(bytes: &'a [u8]) -> Option<Ip<'a>> {
        let head = bytes.get(..40)?;
        let p = Ipv6Packet::new_unchecked(head);
        (p.version() == 6).then(|| Ip {
            bytes,
            family: Family::Ip6,
            src: p.src_addr().into(),
            dst: p.dst_addr().into(),
            ttl: head[7],
            class: (head[0] << 4 | head[1] >> 4) >> 5,
        })
    }

    fn of(payload: Payload, bytes: &'a [u8]) -> Option<Ip<'a>> {
        match payload {
            Payload::Ip4 => Ip::four(bytes),
            Payload::Ip6 => Ip::six(bytes),
            Payload::Mpls => None,
        }
    }
}

/// Packet and metadata on their way through the nodes.
struct Flight<'a, 's> {
    /// What lies under the labels that were popped so far.
    rest: &'a [u8],
    /// The IP packet, once it is uncovered.
    ip: Option<Ip<'a>>,
    /// Entries on the packet, outermost first.
    stack: &'s mut Vec<u32>,
    /// The label popped last.
    popped: u32,
    /// What that label stands for.
    label_dpo: Dpo,
    /// Source and destination prefix lengths of the first IP lookup.
    masks: Option<(u32, u32)>,
}

impl Resolver<'_> {
    /// Finds out about a packet whose frame has no VLAN tag.
    pub fn explain(&mut self, s: &Sampled<'_>, found: &mut Resolution) {
        found.passage = Passage::Routed;
        let (Some(kind), Some(payload)) = (s.header.get(12..14), s.header.get(14..)) else {
            return;
        };
        match (
            EtherType(u16::from_be_bytes([kind[0], kind[1]])),
            s.direction,
        ) {
            (EtherType::IPV4, _) => self.of_ip(Ip::four(payload), s, found),
            (EtherType::IPV6, _) => self.of_ip(Ip::six(payload), s, found),
            (EtherType::MPLS, Direction::Rx) => self.of_labels(payload, s, found),
            (EtherType::MPLS, Direction::Tx) => self.of_pushed(payload, s, found),
            _ => {}
        }
    }

    fn of_ip(&mut self, ip: Option<Ip<'_>>, s: &Sampled<'_>, found: &mut Resolution) {
        let Some(mut ip) = ip else { return };
        if s.direction == Direction::Tx {
            // It has been through already: the TTL it came with was higher.
            ip.ttl = ip.ttl.saturating_add(1);
        }
        let mut flight = Flight::new(&[], &mut found.out_labels);
        flight.ip = Some(ip);
        let way = self.look_up(&mut flight, ip, self.tables[ip.family as usize]);
        let way = way.and_then(|dpo| self.follow(dpo, &mut flight));
        let masks = flight.masks;
        if s.direction == Direction::Tx && !found.out_labels.is_empty() {
            // It went without labels: this is not the way it took.
            found.out_labels.clear();
            return;
        }
        found.labels_known = s.direction == Direction::Rx;
        self.conclude(way, masks, Some(&ip), s, found);
    }

    /// A labelled packet as it came in.
    fn of_labels(&mut self, payload: &[u8], s: &Sampled<'_>, found: &mut Resolution) {
        let under = read_stack(payload, &mut found.in_labels);
        // An expired one is not forwarded, and of one without its bottom in sight little can be said.
        let Some(under) = under.filter(|_| found.in_labels.first().is_some_and(|l| l & 0xFE != 0))
        else {
            return;
        };
        found.out_labels.extend_from_slice(&found.in_labels);
        let mut flight = Flight::new(payload, &mut found.out_labels);
        let way = self.switch(&mut flight, under);
        let (masks, ip) = (flight.masks, flight.ip);
        found.labels_known = way.is_some();
        self.conclude(
            way,
            masks,
            ip.as_ref().filter(|_| masks.is_some()),
            s,
            found,
        );
    }

    /// A labelled packet as it went out. That the labels were pushed here is believed where an IP packet like the one
    /// inside gets just these.
    fn of_pushed(&mut self, payload: &[u8], s: &Sampled<'_>, found: &mut Resolution) {
        let Some(under) = read_stack(payload, &mut found.in_labels) else {
            return found.forget_route();
        };
        let ip = match under.first().map(|b| b >> 4) {
            Some(4) => Ip::four(under),
            Some(6) => Ip::six(under),
            _ => None,
        };
        let sent = std::mem::take(&mut found.in_labels);
        self.of_ip_pushed(ip, &sent, s, found);
        found.in_labels = sent;
        found.in_labels.clear();
    }

    fn of_ip_pushed(
        &mut self,
        ip: Option<Ip<'_>>,
        sent: &[u32],
        s: &Sampled<'_>,
        found: &mut Resolution,
    ) {
        let Some(mut ip) = ip else { return };
        ip.ttl = ip.ttl.saturating_add(1);
        let mut flight = Flight::new(&[], &mut found.out_labels);
        flight.ip = Some(ip);
        let way = self.look_up(&mut flight, ip, self.tables[ip.family as usize]);
        let way = way.and_then(|dpo| self.follow(dpo, &mut flight));
        let masks = flight.masks;
        if found.out_labels != sent {
            return found.out_labels.clear();
        }
        // With labels it could have come, too, that were popped.
        found.labels_known = !self.mpls;
        self.conclude(way, masks, Some(&ip), s, found);
    }

    /// Puts together what was found; a packet that goes nowhere has no way.
    fn conclude(
        &mut self,
        way: Option<(u32, IpAddr)>,
        masks: Option<(u32, u32)>,
        ip: Option<&Ip<'_>>,
        s: &Sampled<'_>,
        found: &mut Resolution,
    ) {
        let Some((out_if, next_hop)) = way else {
            found.out_labels.clear();
            found.labels_known = false;
            return;
        };
        let (src_mask_len, dst_mask_len) = masks.unwrap_or((0, 0));
        found.route = Some(RouteInfo {
            out_if,
            next_hop,
            src_mask_len,
            dst_mask_len,
        });
        if let Some(ip) = ip
            && s.wanted.has(RecordKind::Gateway)
        {
            let table = self.tables[ip.family as usize];
            let recent = &mut self.memory.recent;
            found.gateway = self.bgp.gateway(table, ip.src, ip.dst, recent);
        }
    }

    /// `mpls-input` and `mpls-lookup`, until the packet leaves or is none of MPLS any more.
    fn switch(&mut self, f: &mut Flight<'_, '_>, under: &[u8]) -> Option<(u32, IpAddr)> {
        // `under` begins where `rest` will when all labels are popped.
        debug_assert!(under.len() <= f.rest.len());
        let dpo = self.pop(f)?;
        self.follow(dpo, f)
    }

    /// Pops the outermost label; what it stands for.
    fn pop(&mut self, f: &mut Flight<'_, '_>) -> Option<Dpo> {
        if f.stack.is_empty() {
            return None;
        }
        f.popped = f.stack.remove(0);
        f.rest = f.rest.get(4..)?;
        let (label, bottom) = (f.popped >> 12, f.popped & BOTTOM != 0);
        f.label_dpo = match (label, bottom) {
            (0, true) => Dpo::new(DpoKind::MplsPop, POP_IP4),
            (2, true) => Dpo::new(DpoKind::MplsPop, POP_IP6),
            (0 | 2, false) => Dpo::new(DpoKind::MplsPop, POP_MPLS),
            (0..FIRST_FREE, _) => return None,
            _ => self.shared.mpls.get_control(0)?.get(label, bottom),
        };
        Some(f.label_dpo)
    }

    /// Object and prefix length for an address.
    fn find(&mut self, table: u32, addr: IpAddr) -> Option<(Dpo, u32)> {
        let place = self.memory.recent.place(table, addr);
        let found = match addr {
            IpAddr::V4(a) => {
                let fib = self.shared.ip4.control(table).ok()?;
                place.route(fib.generation(), || longest(&fib, u32::from(a)))
            }
            IpAddr::V6(a) => {
                let fib = self.shared.ip6.control(table).ok()?;
                place.route(fib.generation(), || longest(&fib, u128::from(a)))
            }
        };
        found.map(|(dpo, len)| (dpo, len.into()))
    }

    /// `ip4-lookup` and `ip6-lookup`.
    fn look_up(&mut self, f: &mut Flight<'_, '_>, ip: Ip<'_>, table: u32) -> Option<Dpo> {
        let (dpo, dst_len) = self.find(table, ip.dst)?;
        if f.masks.is_none() {
            let src_len = self.find(table, ip.src).map_or(0, |f| f.1);
            f.masks = Some((src_len, dst_len));
        }
        Some(dpo)
    }

    /// Follows objects to the interface and next hop that the packet leaves by.
    fn follow(&mut self, mut dpo: Dpo, f: &mut Flight<'_, '_>) -> Option<(u32, IpAddr)> {
        let nowhere = |f: &Flight<'_, '_>| {
            let family = f.ip.map_or(Family::Ip4, |ip| ip.family);
            family.unspecified()
        };
        for _ in 0..MAX_STEPS {
            dpo = match dpo.kind() {
                DpoKind::Adjacency => {
                    let adj = self.shared.adjacencies.get_control(dpo.index())?;
                    if f.expires() {
                        return None;
                    }
                    let hop = if adj.next_hop_is_ip6() {
                        IpAddr::V6(adj.next_hop_ip6())
                    } else {
                        IpAddr::V4(adj.next_hop_ip4())
                    };
                    // To the destination itself: there is no next hop.
                    let direct = f.ip.is_some_and(|ip| ip.dst == hop);
                    return Some((adj.tx_if(), if direct { nowhere(f) } else { hop }));
                }
                DpoKind::Glean if !f.expires() => return Some((dpo.index(), nowhere(f))),
                DpoKind::Receive => return Some((RouteInfo::INTERNAL, nowhere(f))),
                DpoKind::LoadBalance => {
                    let hash = self.hash(f);
                    let lb = self.shared.load_balances.get_control(dpo.index())?;
                    lb.pick(hash)
                }
                DpoKind::MplsImpose => {
                    let imposition = self.shared.impositions.get_control(dpo.index())?;
                    let next = imposition.next();
                    // The way is chosen by the packet as it is before its labels are on.
                    let next = match next.kind() {
                        DpoKind::LoadBalance => {
                            f.label_dpo = dpo;
                            let lb = self.shared.load_balances.get_control(next.index())?;
                            lb.pick(self.hash(f))
                        }
                        _ => next,
                    };
                    f.impose(&imposition)?;
                    next
                }
                DpoKind::MplsPop => {
                    let d = *self.shared.dispositions.get_control(dpo.index())?;
                    f.dispose(&d)?
                }
                DpoKind::LookupMpls => self.pop(f)?,
                DpoKind::LookupIp4 | DpoKind::LookupIp6 => {
                    let ip = f.ip?;
                    self.look_up(f, ip, dpo.index())?
                }
                _ => return None,
            };
        }
        None
    }

    /// The flow hash, computed as the nodes do, from a packet with the same first bytes.
    fn hash(&mut self, f: &Flight<'_, '_>) -> u32 {
        if self.memory.pool.is_none() {
            self.memory.pool = Pool::new(2).ok();
        }
        let Some(pool) = self.memory.pool.as_mut() else {
            return 0;
        };
        let bytes = f.ip.map_or(f.rest, |ip| ip.bytes);
        let Some(b) = pool.packet_from(bytes, 0) else {
            return 0;
        };
        let hash = match f.ip.map(|ip| ip.family) {
            Some(Family::Ip4) => flow_hash4(pool, b),
            Some(Family::Ip6) => flow_hash6(pool, b),
            None => {
                let meta = pool.meta_mut(b);
                meta.mpls_tc_s = (f.popped >> 8) as u8 & 0xF;
                meta.dpo = f.label_dpo.bits();
                flow_hash_mpls(pool, b)
            }
        };
        pool.free(b);
        hash
    }
}

fn longest<A: Addr>(fib: &Lpm<A>, addr: A) -> Option<(Dpo, u8)> {
    let (prefix, dpo) = fib.longest_match(addr)?;
    Some((dpo, prefix.len()))
}

impl<'a, 's> Flight<'a, 's> {
    fn new(rest: &'a [u8], stack: &'s mut Vec<u32>) -> Self {
        Flight {
            rest,
            ip: None,
            stack,
            popped: 0,
            label_dpo: Dpo::MISS,
            masks: None,
        }
    }

    /// Whether the packet's TTL ends here, where it is about to leave without labels: with them it was looked at when
    /// they were put on.
    fn expires(&self) -> bool {
        self.stack.is_empty() && self.ip.is_some_and(|ip| ip.ttl <= 1)
    }

    /// `mpls-label-imposition`; nothing when the packet's TTL ends.
    fn impose(&mut self, imposition: &Imposition) -> Option<()> {
        let (ttl, class, bottom) = match (imposition.payload(), self.ip) {
            (Payload::Mpls, _) => (
                (self.popped & 0xFF).saturating_sub(1),
                self.popped & 0xE00,
                self.popped & BOTTOM,
            ),
            (_, Some(ip)) if ip.ttl > 1 => (u32::from(ip.ttl - 1), u32::from(ip.class) << 9, 0),
            _ => return None,
        };
        let uniform = imposition.mode() == TtlMode::Uniform;
        let entries = imposition.stack().chunks_exact(4);
        let n = entries.len();
        for (i, e) in entries.enumerate() {
            let &[a, b, c, d] = e else { continue };
            let mut entry = u32::from_be_bytes([a, b, c, d]);
            if uniform {
                entry = entry & !0xEFF | ttl | class;
            }
            if i + 1 == n {
                entry |= bottom;
            }
            self.stack.insert(i, entry);
        }
        Some(())
    }

    /// `mpls-disposition`: what the packet goes on with; nothing when its TTL ends or it is not what it was said to be.
    fn dispose(&mut self, d: &Disposition) -> Option<Dpo> {
        let bottom = self.popped & BOTTOM != 0;
        if bottom == (d.payload == Payload::Mpls) {
            return None;
        }
        let uniform = d.mode == TtlMode::Uniform;
        let ttl = self.popped & 0xFF;
        if d.payload != Payload::Mpls {
            let mut ip = Ip::of(d.payload, self.rest)?;
            if uniform {
                ip.ttl = ip.ttl.min(ttl as u8);
            }
            self.ip = Some(ip);
            return Some(d.next);
        }
        // A label that is looked up here lowers the TTL itself.
        let spent = u32::from(d.next.kind() != DpoKind::LookupMpls);
        let top = self.stack.first_mut()?;
        if uniform {
            *top = *top & !0xFF | (*top & 0xFF).min(ttl.saturating_sub(spent));
        }
        // `mpls-input` lets nothing through that has one hop left.
        let least = if spent == 0 { 2 } else { 1 };
        (*top & 0xFF >= least).then_some(d.next)
    }
}

/// Reads a label stack; what is under it, when its bottom is in sight.
fn read_stack<'a>(mut bytes: &'a [u8], stack: &mut Vec<u32>) -> Option<&'a [u8]> {
    for _ in 0..MAX_LABELS {
        let (entry, rest) = bytes.split_first_chunk::<4>()?;
        let entry = u32::from_be_bytes(*entry);
        stack.push(entry);
        bytes = rest;
        if entry & BOTTOM != 0 {
            return Some(bytes);
        }
    }
    None
}
