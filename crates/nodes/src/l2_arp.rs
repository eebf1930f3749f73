//! ARP in a bridge domain: requests for addresses that the domain was told the owner of are answered in its place (RFC
//! 826, "ARP termination"), or sent to it alone.

use std::net::Ipv4Addr;

use parshall_buffer::{BufferIndex, Flags};
use parshall_graph::{CONTINUE, Ctx};
use parshall_wire::{ArpOperation, ArpPacket, ArpRepr, EtherType, EthernetRepr, MacAddr};

use crate::bridge::{BridgeDomain, BridgePort, bridge_flags};
use crate::link::{HEADER, answer_header};

/// Bytes of an ARP packet for Ethernet and IPv4.
const ARP_LEN: usize = 28;

/// What became of a frame to all.
pub enum Arp {
    /// Nothing: it is none, or for somebody unknown.
    NotKnown,
    /// It is its own answer now, on the way back.
    Answered,
    /// It is addressed to the owner now.
    Belongs([u8; 6]),
}

/// Looks at a frame to all, at position `i`, which came in by `if_index`.
pub fn terminate(
    cx: &mut Ctx<'_>,
    i: usize,
    b: BufferIndex,
    domain: Option<&BridgeDomain>,
    port: BridgePort,
    if_index: u32,
) -> Arp {
    let Some((arp, mac)) = domain.and_then(|d| owner(cx, b, d)) else {
        return Arp::NotKnown;
    };
    if port.has(bridge_flags::ARP_UFWD) {
        *cx.pool.peek_mut::<6>(b, 0) = mac;
        return Arp::Belongs(mac);
    }
    if answer(cx, b, &arp, MacAddr(mac), if_index) {
        cx.next[i] = CONTINUE;
        return Arp::Answered;
    }
    Arp::NotKnown
}

/// The request that a frame holds and who has the address, when both are known.
fn owner(cx: &Ctx<'_>, b: BufferIndex, domain: &BridgeDomain) -> Option<(ArpRepr, [u8; 6])> {
    let frame = cx.pool.bytes(b);
    let (header, body) = frame.split_at_checked(usize::from(HEADER))?;
    if header[12..14] != EtherType::ARP.0.to_be_bytes() {
        return None;
    }
    let arp = ArpPacket::new_checked(body)
        .and_then(|p| ArpRepr::parse(&p))
        .ok()?;
    // Probes and announcements are for everybody (RFC 5227).
    let asks = arp.operation == ArpOperation::Request
        && arp.sender_ip != arp.target_ip
        && arp.sender_ip != Ipv4Addr::UNSPECIFIED;
    let mac = domain.arp.get(&arp.target_ip.octets())?;
    asks.then_some((arp, *mac))
}

/// Makes a request its own answer, from `owner`. False, and nothing done, when there is no room for it.
fn answer(
    cx: &mut Ctx<'_>,
    b: BufferIndex,
    request: &ArpRepr,
    owner: MacAddr,
    if_index: u32,
) -> bool {
    if !cx.pool.pull(b, HEADER) {
        return false;
    }
    cx.pool.trim(b, ARP_LEN as u32);
    let written = request
        .reply_from(owner)
        .emit(&mut ArpPacket::new_unchecked(cx.pool.bytes_mut(b)));
    let header = EthernetRepr {
        dst_addr: request.sender_mac,
        src_addr: owner,
        ethertype: EtherType::ARP,
    };
    if written.is_err() || !answer_header(cx.pool, b, &header) {
        return false;
    }
    cx.count_punted(if_index);
    cx.count_originated(1);
    let m = cx.pool.meta_mut(b);
    m.tx_if = if_index;
    m.flags.set(Flags::ORIGINATED);
    true
}
