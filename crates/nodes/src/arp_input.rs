//! `arp-input`: answers requests for the interface's own addresses and tells control who spoke (RFC 826,
//! RFC 5227 for probes and announcements).
//!
//! Drop reasons: `arp_malformed`, `arp_not_for_us`, `ip4_not_enabled`.

use std::net::Ipv4Addr;
use std::sync::Arc;

use parshall_buffer::{BufferIndex, Flags, Frame};
use parshall_counters::DropReason;
use parshall_graph::{Ctx, Dispatch, Node, NodeSpec};
use parshall_ring::Producer;
use parshall_wire::{ArpOperation, ArpPacket, ArpRepr, EtherType, EthernetRepr, MacAddr};

use crate::event::Event;
use crate::link::{HEADER, answer_header};
use crate::state::{IfAddresses, Shared, if_flags};

/// The node's description.
pub const SPEC: NodeSpec = NodeSpec::new("arp-input", &["interface-output"]);

const INTERFACE_OUTPUT: u16 = 0;
/// Bytes of an ARP packet for Ethernet and IPv4.
const ARP_LEN: usize = 28;

/// The node.
pub struct ArpInput {
    shared: Arc<Shared>,
    events: Producer<Event>,
}

impl ArpInput {
    /// Over this state, telling `events`.
    pub fn new(shared: Arc<Shared>, events: Producer<Event>) -> ArpInput {
        ArpInput { shared, events }
    }

    fn input(&mut self, cx: &mut Ctx<'_>, i: usize, b: BufferIndex) {
        let rx_if = cx.pool.meta(b).rx_if;
        let interfaces = self.shared.interfaces(cx.rcu);
        let view = interfaces.view(rx_if);
        let Some(addresses) = interfaces
            .addresses(rx_if)
            .filter(|_| view.has(if_flags::IP4))
        else {
            return cx.drop_packet(i, b, DropReason::Ip4NotEnabled);
        };
        let parsed = ArpPacket::new_checked(cx.pool.bytes(b)).and_then(|p| ArpRepr::parse(&p));
        let Ok(arp) = parsed else {
            return cx.drop_packet(i, b, DropReason::ArpMalformed);
        };
        let for_us = addresses.ip4.iter().any(|(a, _)| *a == arp.target_ip);
        let announces = arp.sender_ip == arp.target_ip;
        let on_link = is_neighbor(addresses, arp.sender_ip) && arp.sender_mac.is_unicast();
        if on_link && (for_us || announces) {
            let event = Event::ArpSeen {
                if_index: rx_if,
                ip: arp.sender_ip.octets(),
                mac: arp.sender_mac.0,
                reply: arp.operation == ArpOperation::Reply,
            };
            // A full ring loses the news; the neighbour will speak again.
            let _ = self.events.push(event);
        }
        if for_us && arp.operation == ArpOperation::Request {
            return reply(cx, i, b, &arp, MacAddr(view.mac_bytes()));
        }
        if for_us || (announces && on_link) {
            return cx.punt(i, b);
        }
        cx.drop_packet(i, b, DropReason::ArpNotForUs);
    }
}

/// Whether an address can be a neighbour's: in a subnet of the interface and not its own.
fn is_neighbor(addresses: &IfAddresses, ip: Ipv4Addr) -> bool {
    let own = addresses.ip4.iter().any(|(a, _)| *a == ip);
    let in_subnet = |(a, len): &(Ipv4Addr, u8)| {
        let mask = u32::MAX.checked_shl(32 - u32::from(*len)).unwrap_or(0);
        (u32::from(*a) ^ u32::from(ip)) & mask == 0
    };
    !own && addresses.ip4.iter().any(in_subnet)
}

/// Makes the request its own answer and sends it back.
fn reply(cx: &mut Ctx<'_>, i: usize, b: BufferIndex, request: &ArpRepr, owner: MacAddr) {
    let rx_if = cx.pool.meta(b).rx_if;
    let answer = request.reply_from(owner);
    cx.pool.trim(b, ARP_LEN as u32);
    let written = answer
        .emit(&mut ArpPacket::new_unchecked(cx.pool.bytes_mut(b)))
        .is_ok();
    let header = EthernetRepr {
        dst_addr: request.sender_mac,
        src_addr: owner,
        ethertype: EtherType::ARP,
    };
    if !written || !answer_header(cx.pool, b, &header) {
        return cx.drop_packet(i, b, DropReason::ArpMalformed);
    }
    cx.count_punted(rx_if);
    cx.count_originated(1);
    debug_assert_eq!(cx.pool.bytes(b).len(), ARP_LEN + usize::from(HEADER));
    let m = cx.pool.meta_mut(b);
    m.tx_if = rx_if;
    m.flags.set(Flags::ORIGINATED);
    cx.next[i] = INTERFACE_OUTPUT;
}

impl Node for ArpInput {
    fn process(&mut self, cx: &mut Ctx<'_>, frame: &mut Frame) -> Dispatch {
        for (i, &b) in frame.packets().iter().enumerate() {
            self.input(cx, i, b);
        }
        Dispatch::Each
    }
}
