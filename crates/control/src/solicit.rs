//! Frames the router sends of its own accord to find or inform neighbours: ARP (RFC 826, announcements
//! RFC 5227 section 3) and neighbour discovery (RFC 4861 sections 7.2.2 and 7.2.6).

use std::net::{Ipv4Addr, Ipv6Addr};

use parshall_wire::{
    ArpPacket, ArpRepr, EtherType, EthernetFrame, EthernetRepr, FlowLabel, IpProtocol, Ipv6Packet,
    Ipv6Repr, MacAddr, NdiscPacket, NdiscRepr, Result,
};

/// Shortest Ethernet frame without FCS; shorter ones are padded.
const MIN_FRAME: usize = 60;
/// All nodes on the link.
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

fn frame(src: [u8; 6], dst: MacAddr, ethertype: EtherType, payload: usize) -> Result<Vec<u8>> {
    let mut bytes = vec![0; (EthernetFrame::<&[u8]>::HEADER_LEN + payload).max(MIN_FRAME)];
    let repr = EthernetRepr {
        src_addr: MacAddr(src),
        dst_addr: dst,
        ethertype,
    };
    repr.emit(&mut EthernetFrame::new_unchecked(&mut bytes[..]))?;
    Ok(bytes)
}

/// "Who has `target`?" to everybody, or to `to` alone.
///
/// # Errors
/// Never for valid addresses; the codec's own.
pub fn arp_request(
    mac: [u8; 6],
    ip: Ipv4Addr,
    target: Ipv4Addr,
    to: Option<[u8; 6]>,
) -> Result<Vec<u8>> {
    let dst = to.map_or(MacAddr::BROADCAST, MacAddr);
    let repr = ArpRepr::request(MacAddr(mac), ip, target);
    let mut bytes = frame(mac, dst, EtherType::ARP, repr.buffer_len())?;
    repr.emit(&mut ArpPacket::new_unchecked(&mut bytes[14..]))?;
    Ok(bytes)
}

/// "`ip` is at `mac`", for everybody's tables.
///
/// # Errors
/// As [`arp_request`].
pub fn arp_announcement(mac: [u8; 6], ip: Ipv4Addr) -> Result<Vec<u8>> {
    arp_request(mac, ip, ip, None)
}

/// The group that an owner of `target` listens to (RFC 4291 section 2.7.1).
pub fn solicited_node(target: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b, c] = target.octets();
    Ipv6Addr::new(
        0xff02,
        0,
        0,
        0,
        0,
        1,
        0xff00 | u16::from(a),
        u16::from_be_bytes([b, c]),
    )
}

/// "Who has `target`?" to its solicited-node group, or to `to` alone.
///
/// # Errors
/// When `target` is a group.
pub fn neighbor_solicitation(
    mac: [u8; 6],
    ip: Ipv6Addr,
    target: Ipv6Addr,
    to: Option<[u8; 6]>,
) -> Result<Vec<u8>> {
    let dst = if to.is_some() {
        target
    } else {
        solicited_node(target)
    };
    let repr = NdiscRepr::NeighborSolicit {
        target,
        source_ll: Some(MacAddr(mac)),
    };
    let mac_dst = to.map_or_else(|| MacAddr::from_ipv6_multicast(dst), MacAddr);
    ndisc(mac, mac_dst, ip, dst, &repr)
}

/// "`ip` is at `mac`, forget what you knew", for everybody's tables.
///
/// # Errors
/// When `ip` is a group.
pub fn unsolicited_advertisement(mac: [u8; 6], ip: Ipv6Addr) -> Result<Vec<u8>> {
    let repr = NdiscRepr::NeighborAdvert {
        router: true,
        solicited: false,
        override_ll: true,
        target: ip,
        target_ll: Some(MacAddr(mac)),
    };
    ndisc(
        mac,
        MacAddr::from_ipv6_multicast(ALL_NODES),
        ip,
        ALL_NODES,
        &repr,
    )
}

fn ndisc(
    mac: [u8; 6],
    dst_mac: MacAddr,
    src: Ipv6Addr,
    dst: Ipv6Addr,
    repr: &NdiscRepr,
) -> Result<Vec<u8>> {
    let len = repr.buffer_len();
    let mut bytes = frame(mac, dst_mac, EtherType::IPV6, 40 + len)?;
    let ip = Ipv6Repr {
        src_addr: src,
        dst_addr: dst,
        next_header: IpProtocol::ICMPV6,
        // RFC 4861 section 4: so that receivers know it crossed no router.
        hop_limit: 255,
        traffic_class: 0,
        flow_label: FlowLabel::default(),
        payload_len: len as u16,
    };
    ip.emit(&mut Ipv6Packet::new_unchecked(&mut bytes[14..]))?;
    repr.emit(
        &src,
        &dst,
        &mut NdiscPacket::new_unchecked(&mut bytes[54..54 + len]),
    )?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: [u8; 6] = [2, 0xfe, 0, 0, 0, 1];

    #[test]
    fn an_arp_request_byte_by_byte() {
        let bytes = arp_request(MAC, [10, 0, 0, 1].into(), [10, 0, 0, 2].into(), None).unwrap();
        let mut want = vec![0xff; 6];
        want.extend([2, 0xfe, 0, 0, 0, 1, 0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 1]);
        want.extend([2, 0xfe, 0, 0, 0, 1, 10, 0, 0, 1]);
        want.extend([0, 0, 0, 0, 0, 0, 10, 0, 0, 2]);
        want.resize(60, 0);
        assert_eq!(bytes, want);
        let unicast = arp_request(
            MAC,
            [10, 0, 0, 1].into(),
            [10, 0, 0, 2].into(),
            Some([4; 6]),
        );
        assert_eq!(&unicast.unwrap()[..6], [4; 6]);
    }

    #[test]
    fn a_solicitation_goes_to_the_targets_group_and_parses_back() {
        let (src, target) = (
            "fe80::1".parse().unwrap(),
            "2001:db8::12:3456".parse().unwrap(),
        );
        let bytes = neighbor_solicitation(MAC, src, target, None).unwrap();
        assert_eq!(&bytes[..6], [0x33, 0x33, 0xff, 0x12, 0x34, 0x56]);
        let ip = Ipv6Packet::new_checked(&bytes[14..]).unwrap();
        assert_eq!(
            (ip.hop_limit(), ip.dst_addr()),
            (255, "ff02::1:ff12:3456".parse().unwrap())
        );
        let nd = NdiscPacket::new_checked(ip.payload()).unwrap();
        let want = NdiscRepr::NeighborSolicit {
            target,
            source_ll: Some(MacAddr(MAC)),
        };
        assert_eq!(
            NdiscRepr::parse(&ip.src_addr(), &ip.dst_addr(), &nd),
            Ok(want)
        );
    }

    #[test]
    fn an_advertisement_overrides_and_is_not_solicited() {
        let bytes = unsolicited_advertisement(MAC, "2001:db8::1".parse().unwrap()).unwrap();
        assert_eq!(&bytes[..6], [0x33, 0x33, 0, 0, 0, 1]);
        assert_eq!(bytes[58], 0xa0, "router and override, not solicited");
    }
}
