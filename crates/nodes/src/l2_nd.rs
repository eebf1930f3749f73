//! Neighbour discovery in a bridge domain: solicitations for addresses that the domain was told the owner of are answered in its
//! place (RFC 4861 section 7.2), as ARP requests are. Tests for duplicates are for everybody.

use std::net::Ipv6Addr;

use parshall_buffer::{BufferIndex, Flags};
use parshall_graph::{CONTINUE, Ctx};
use parshall_wire::{
    EtherType, EthernetRepr, IpProtocol, Ipv6Packet, MacAddr, NdiscPacket, NdiscRepr,
};

use crate::bridge::BridgeDomain;
use crate::ip6_icmp::{ND_HOP_LIMIT, advertise};
use crate::link::{HEADER, sender_mac};
use crate::parts::icmp6_checksum_ok;

/// Bytes of an IPv6 header.
const IP6: usize = 40;

/// Who asks for whom.
struct Asked {
    asker: Ipv6Addr,
    asker_mac: Option<MacAddr>,
    target: Ipv6Addr,
    owner: MacAddr,
}

/// Answers the solicitation that a frame to a group, at position `i`, holds; false, and nothing done, when it is none or for
/// somebody unknown.
pub fn terminate(
    cx: &mut Ctx<'_>,
    i: usize,
    b: BufferIndex,
    domain: Option<&BridgeDomain>,
    if_index: u32,
) -> bool {
    let Some(asked) = domain.and_then(|d| owner(cx, b, d)) else {
        return false;
    };
    if !is_sound(cx, b) {
        return false;
    }
    let advert = NdiscRepr::NeighborAdvert {
        router: false,
        solicited: true,
        override_ll: false,
        target: asked.target,
        target_ll: Some(asked.owner),
    };
    let link = EthernetRepr {
        src_addr: asked.owner,
        dst_addr: asked.asker_mac.unwrap_or(sender_mac(cx.pool, b)),
        ethertype: EtherType::IPV6,
    };
    if !advertise(cx, b, &advert, asked.target, asked.asker, &link) {
        return false;
    }
    cx.count_punted(if_index);
    cx.count_originated(1);
    let m = cx.pool.meta_mut(b);
    m.tx_if = if_index;
    m.flags.set(Flags::ORIGINATED);
    cx.next[i] = CONTINUE;
    true
}

/// The question that a frame holds and who has the address, when both are known.
fn owner(cx: &Ctx<'_>, b: BufferIndex, domain: &BridgeDomain) -> Option<Asked> {
    let frame = cx.pool.bytes(b);
    let (header, packet) = frame.split_at_checked(usize::from(HEADER))?;
    if header[12..14] != EtherType::IPV6.0.to_be_bytes() || packet.len() < IP6 {
        return None;
    }
    let ip = Ipv6Packet::new_unchecked(packet);
    let (asker, to) = (ip.src_addr(), ip.dst_addr());
    let asks = ip.next_header() == IpProtocol::ICMPV6
        && ip.hop_limit() == ND_HOP_LIMIT
        && !asker.is_unspecified();
    if !asks {
        return None;
    }
    let message = NdiscPacket::new_checked(&packet[IP6..]).ok()?;
    let Ok(NdiscRepr::NeighborSolicit { target, source_ll }) =
        NdiscRepr::parse(&asker, &to, &message)
    else {
        return None;
    };
    let mac = domain.nd.get(&target.octets())?;
    (target != asker).then_some(Asked {
        asker,
        asker_mac: source_ll,
        target,
        owner: MacAddr(*mac),
    })
}

/// Whether the checksum of the message in a frame is right.
fn is_sound(cx: &mut Ctx<'_>, b: BufferIndex) -> bool {
    if !cx.pool.pull(b, HEADER) {
        return false;
    }
    let sound = icmp6_checksum_ok(cx.pool, b, IP6);
    cx.pool.push(b, HEADER).is_some() && sound
}
