//! `ip6-icmp-input`: ICMPv6 for the router itself: echo (RFC 4443 section 4) and neighbour discovery
//! (RFC 4861 section 7): answers solicitations for its own addresses, tells control who spoke.
//!
//! Errors, replies, router solicitations and advertisements that come to the router are consumed.
//!
//! Drop reasons: `local_bad_checksum`, `nd_malformed`, `nd_bad_hop_limit`, `nd_not_for_us`, `icmp_unhandled`,
//! `no_headroom`.

use std::net::Ipv6Addr;
use std::sync::Arc;

use parshall_buffer::{BufferIndex, Flags, Frame, HEADROOM};
use parshall_counters::DropReason;
use parshall_graph::{Ctx, Dispatch, Node, NodeSpec};
use parshall_ring::Producer;
use parshall_wire::{
    EtherType, EthernetRepr, FlowLabel, Icmpv6Packet, Icmpv6Type, IpProtocol, Ipv6Packet, Ipv6Repr,
    MacAddr, NdiscPacket, NdiscRepr, checksum,
};

use crate::event::Event;
use crate::ip6_local::is_link_local;
use crate::link::{answer_header, sender_mac};
use crate::parts::icmp6_checksum_ok;
use crate::state::{IfAddresses, Shared};
use crate::trace::format_ip6;

/// The node's description.
pub const SPEC: NodeSpec =
    NodeSpec::new("ip6-icmp-input", &["ip6-lookup", "interface-output"]).format(format_ip6);

const LOOKUP: u16 = 0;
const INTERFACE_OUTPUT: u16 = 1;
const HOP_LIMIT: u8 = 64;
/// Hop limit of neighbour discovery: proof that a packet was not forwarded (RFC 4861 section 3.1).
pub const ND_HOP_LIMIT: u8 = 255;
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xFF02, 0, 0, 0, 0, 0, 0, 1);

/// The node.
pub struct Ip6Icmp {
    shared: Arc<Shared>,
    events: Producer<Event>,
}

/// Who sent a neighbour discovery message, and where it came in.
struct Heard {
    rx_if: u32,
    src: Ipv6Addr,
    dst: Ipv6Addr,
}

impl Ip6Icmp {
    /// Over this state, telling `events`.
    pub fn new(shared: Arc<Shared>, events: Producer<Event>) -> Ip6Icmp {
        Ip6Icmp { shared, events }
    }

    fn input(&mut self, cx: &mut Ctx<'_>, i: usize, b: BufferIndex) {
        let offset = cx.pool.meta(b).scratch[0] as usize;
        let Some(icmp) = cx.pool.bytes(b).get(offset..).filter(|p| p.len() >= 8) else {
            return cx.drop_packet(i, b, DropReason::LocalBadChecksum);
        };
        let kind = Icmpv6Packet::new_unchecked(icmp).msg_type();
        if !icmp6_checksum_ok(cx.pool, b, offset) {
            return cx.drop_packet(i, b, DropReason::LocalBadChecksum);
        }
        match kind {
            Icmpv6Type::ECHO_REQUEST => self.echo(cx, i, b, offset),
            kind if kind.is_ndisc() => self.discovery(cx, i, b, offset),
            kind if kind.is_error() || kind == Icmpv6Type::ECHO_REPLY => cx.punt(i, b),
            // Group membership reports and the like (RFC 2710) are nothing to us.
            _ => cx.drop_packet(i, b, DropReason::IcmpUnhandled),
        }
    }

    /// Makes the request its own reply.
    fn echo(&mut self, cx: &mut Ctx<'_>, i: usize, b: BufferIndex, offset: usize) {
        let rx_if = cx.pool.meta(b).rx_if;
        let interfaces = self.shared.interfaces(cx.rcu);
        let own = interfaces.addresses(rx_if);
        let link = EthernetRepr {
            dst_addr: sender_mac(cx.pool, b),
            src_addr: MacAddr(interfaces.view(rx_if).mac_bytes()),
            ethertype: EtherType::IPV6,
        };
        let (header, icmp) = cx.pool.bytes_mut(b).split_at_mut(offset);
        let mut ip = Ipv6Packet::new_unchecked(header);
        let (src, dst) = (ip.src_addr(), ip.dst_addr());
        // A request to a group is answered from an address of the interface (RFC 4443 section 4.2).
        let from = if dst.is_multicast() {
            own.and_then(|a| a.link_local)
        } else {
            Some(dst)
        };
        let Some(from) = from else {
            return cx.drop_packet(i, b, DropReason::IcmpUnhandled);
        };
        ip.set_src_addr(from);
        ip.set_dst_addr(src);
        ip.set_hop_limit(HOP_LIMIT);
        let mut icmp = Icmpv6Packet::new_unchecked(icmp);
        let mut sum = icmp.checksum();
        icmp.set_msg_type(Icmpv6Type::ECHO_REPLY);
        sum = checksum::update_u16(sum, 0x8000, 0x8100);
        for (old, new) in dst.segments().into_iter().zip(from.segments()) {
            sum = checksum::update_u16(sum, old, new);
        }
        icmp.set_checksum(sum);
        // No table knows link-local addresses: the answer goes to where the request came from.
        let direct = is_link_local(src);
        if direct && !answer_header(cx.pool, b, &link) {
            return cx.drop_packet(i, b, DropReason::NoHeadroom);
        }
        cx.count_punted(rx_if);
        cx.count_originated(1);
        let m = cx.pool.meta_mut(b);
        m.flags.set(Flags::ORIGINATED);
        (m.flow_hash, m.tx_if) = (0, rx_if);
        cx.next[i] = if direct { INTERFACE_OUTPUT } else { LOOKUP };
    }

    fn discovery(&mut self, cx: &mut Ctx<'_>, i: usize, b: BufferIndex, offset: usize) {
        let bytes = cx.pool.bytes(b);
        let ip = Ipv6Packet::new_unchecked(bytes);
        let (src, dst) = (ip.src_addr(), ip.dst_addr());
        if ip.hop_limit() != ND_HOP_LIMIT {
            return cx.drop_packet(i, b, DropReason::NdBadHopLimit);
        }
        let parsed = NdiscPacket::new_checked(&bytes[offset..])
            .and_then(|p| NdiscRepr::parse(&src, &dst, &p));
        let Ok(message) = parsed else {
            return cx.drop_packet(i, b, DropReason::NdMalformed);
        };
        let heard = Heard {
            rx_if: cx.pool.meta(b).rx_if,
            src,
            dst,
        };
        match message {
            NdiscRepr::NeighborSolicit { target, source_ll } => {
                self.solicited(cx, i, b, &heard, target, source_ll)
            }
            NdiscRepr::NeighborAdvert {
                solicited,
                target,
                target_ll,
                ..
            } => {
                if let Some(mac) = target_ll {
                    self.tell(cx, heard.rx_if, target, mac, solicited);
                }
                cx.punt(i, b);
            }
            _ => cx.punt(i, b),
        }
    }

    /// Answers a solicitation for one of our addresses.
    fn solicited(
        &mut self,
        cx: &mut Ctx<'_>,
        i: usize,
        b: BufferIndex,
        heard: &Heard,
        target: Ipv6Addr,
        source_ll: Option<MacAddr>,
    ) {
        let interfaces = self.shared.interfaces(cx.rcu);
        let owner = MacAddr(interfaces.view(heard.rx_if).mac_bytes());
        if !interfaces
            .addresses(heard.rx_if)
            .is_some_and(|own| owns(own, target))
        {
            return cx.drop_packet(i, b, DropReason::NdNotForUs);
        }
        // An unspecified source tests for duplicates: it asks a group, and has no link-layer address to tell
        // (RFC 4861 section 7.1.1); the answer goes to everyone (section 7.2.4).
        let tested = heard.src.is_unspecified();
        if tested && (source_ll.is_some() || !heard.dst.is_multicast()) {
            return cx.drop_packet(i, b, DropReason::NdMalformed);
        }
        if let Some(mac) = source_ll {
            self.tell(cx, heard.rx_if, heard.src, mac, false);
        }
        let (to, to_mac) = match (tested, source_ll) {
            (true, _) => (ALL_NODES, MacAddr::from_ipv6_multicast(ALL_NODES)),
            (false, Some(mac)) => (heard.src, mac),
            (false, None) => (heard.src, sender_mac(cx.pool, b)),
        };
        let advert = NdiscRepr::NeighborAdvert {
            router: true,
            solicited: !tested,
            override_ll: true,
            target,
            target_ll: Some(owner),
        };
        if !advertise(
            cx,
            b,
            &advert,
            target,
            to,
            &EthernetRepr {
                src_addr: owner,
                dst_addr: to_mac,
                ethertype: EtherType::IPV6,
            },
        ) {
            return cx.drop_packet(i, b, DropReason::NdMalformed);
        }
        cx.count_punted(heard.rx_if);
        cx.count_originated(1);
        let m = cx.pool.meta_mut(b);
        m.tx_if = heard.rx_if;
        m.flags.set(Flags::ORIGINATED);
        cx.next[i] = INTERFACE_OUTPUT;
    }

    /// Tells control that a neighbour spoke.
    fn tell(&mut self, cx: &Ctx<'_>, if_index: u32, ip: Ipv6Addr, mac: MacAddr, solicited: bool) {
        let interfaces = self.shared.interfaces(cx.rcu);
        let own = interfaces.addresses(if_index).is_some_and(|a| owns(a, ip));
        if !own && mac.is_unicast() && !ip.is_multicast() && !ip.is_unspecified() {
            // A full ring loses the news; the neighbour will speak again.
            let _ = self.events.push(Event::NdSeen {
                if_index,
                ip: ip.octets(),
                mac: mac.0,
                solicited,
            });
        }
    }
}

fn owns(own: &IfAddresses, target: Ipv6Addr) -> bool {
    own.link_local == Some(target) || own.ip6.iter().any(|(a, _)| *a == target)
}

/// Writes an advertisement over the packet, link-layer header included; false when it does not fit.
pub fn advertise(
    cx: &mut Ctx<'_>,
    b: BufferIndex,
    advert: &NdiscRepr,
    from: Ipv6Addr,
    to: Ipv6Addr,
    link: &EthernetRepr,
) -> bool {
    let ip = Ipv6Repr {
        src_addr: from,
        dst_addr: to,
        next_header: IpProtocol::ICMPV6,
        hop_limit: ND_HOP_LIMIT,
        traffic_class: 0,
        flow_label: FlowLabel::default(),
        payload_len: advert.buffer_len() as u16,
    };
    cx.pool.trim(b, 1);
    let m = cx.pool.meta_mut(b);
    (m.data, m.len, m.tail_len) = (HEADROOM as u16, (40 + advert.buffer_len()) as u16, 0);
    let (header, body) = cx.pool.bytes_mut(b).split_at_mut(40);
    ip.emit(&mut Ipv6Packet::new_unchecked(header)).is_ok()
        && advert
            .emit(&from, &to, &mut NdiscPacket::new_unchecked(body))
            .is_ok()
        && answer_header(cx.pool, b, link)
}

impl Node for Ip6Icmp {
    fn process(&mut self, cx: &mut Ctx<'_>, frame: &mut Frame) -> Dispatch {
        for (i, &b) in frame.packets().iter().enumerate() {
            self.input(cx, i, b);
        }
        Dispatch::Each
    }
}
