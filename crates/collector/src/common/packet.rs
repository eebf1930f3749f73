//! UDP datagrams with their IP headers: what goes out by a raw socket and into a capture file.
//!
//! RFC 768, RFC 791, RFC 8200. Nothing is fragmented.

use std::net::{IpAddr, SocketAddr};

use parshall_wire::{
    FlowLabel, IpProtocol, Ipv4Fragment, Ipv4Packet, Ipv4Repr, Ipv6Packet, Ipv6Repr, UdpPacket,
    UdpRepr,
};
use thiserror::Error;

const TTL: u8 = 64;
/// The longest datagram with an IPv4 header.
const IPV4_MOST: usize = 65_535 - 20 - 8;

/// Why a datagram cannot have these addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(crate) enum PacketError {
    /// Source and destination are of different families.
    #[error("its source address is of another family than the destination")]
    Families,
    /// It does not fit into a packet.
    #[error("it is longer than a packet can be")]
    TooLong,
}

/// Bytes that an IP packet with this source adds to the datagram.
pub(crate) fn headers_len(from: IpAddr) -> usize {
    if from.is_ipv4() { 28 } else { 48 }
}

/// Appends the IP packet of a UDP datagram.
pub(crate) fn put_udp(
    out: &mut Vec<u8>,
    from: SocketAddr,
    to: SocketAddr,
    payload: &[u8],
) -> Result<(), PacketError> {
    let too_long = |_| PacketError::TooLong;
    let payload_len = u16::try_from(payload.len()).map_err(too_long)?;
    if payload.len() > IPV4_MOST {
        return Err(PacketError::TooLong);
    }
    let (udp_len, start) = (payload_len + 8, out.len());
    let ip_len = headers_len(from.ip()) - 8;
    out.resize(start + ip_len + 8, 0);
    out.extend_from_slice(payload);
    let (ip, udp) = out[start..].split_at_mut(ip_len);
    let written = put_ip(ip, from.ip(), to.ip(), udp_len).and_then(|()| {
        let repr = UdpRepr {
            src_port: from.port(),
            dst_port: to.port(),
            payload_len,
        };
        let mut packet = UdpPacket::new_unchecked(udp);
        repr.emit(&mut packet).map_err(|_| PacketError::TooLong)?;
        match (from.ip(), to.ip()) {
            (IpAddr::V4(a), IpAddr::V4(b)) => packet.fill_checksum_v4(a, b),
            (IpAddr::V6(a), IpAddr::V6(b)) => packet.fill_checksum_v6(a, b),
            _ => return Err(PacketError::Families),
        }
        Ok(())
    });
    if written.is_err() {
        out.truncate(start);
    }
    written
}

fn put_ip(header: &mut [u8], from: IpAddr, to: IpAddr, len: u16) -> Result<(), PacketError> {
    let emitted = match (from, to) {
        (IpAddr::V4(src_addr), IpAddr::V4(dst_addr)) => Ipv4Repr {
            src_addr,
            dst_addr,
            protocol: IpProtocol::UDP,
            ttl: TTL,
            tos: 0,
            ident: 0,
            fragment: Ipv4Fragment::NONE,
            payload_len: len,
        }
        .emit(&mut Ipv4Packet::new_unchecked(header)),
        (IpAddr::V6(src_addr), IpAddr::V6(dst_addr)) => Ipv6Repr {
            src_addr,
            dst_addr,
            next_header: IpProtocol::UDP,
            hop_limit: TTL,
            traffic_class: 0,
            flow_label: FlowLabel::default(),
            payload_len: len,
        }
        .emit(&mut Ipv6Packet::new_unchecked(header)),
        _ => return Err(PacketError::Families),
    };
    emitted.map_err(|_| PacketError::TooLong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use parshall_sflow_wire::pcap::find_udp;
    use proptest::prelude::*;

    fn at(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn what_cannot_be_sent_leaves_nothing_behind() {
        let mut out = vec![1];
        let mixed = put_udp(&mut out, at("192.0.2.1:1"), at("[::1]:2"), b"x");
        assert_eq!(mixed, Err(PacketError::Families));
        let long = put_udp(&mut out, at("192.0.2.1:1"), at("192.0.2.2:2"), &[0; 65_508]);
        assert_eq!(long, Err(PacketError::TooLong));
        assert_eq!(out, [1]);
    }

    proptest! {
        #[test]
        fn headers_and_checksums_are_right(six: bool, payload in proptest::collection::vec(any::<u8>(), 0..2000), ports: (u16, u16)) {
            let (a, b) = if six { ("[2001:db8::7]:0", "[2001:db8::9]:0") } else { ("192.0.2.7:0", "198.51.100.9:0") };
            let (mut from, mut to) = (at(a), at(b));
            from.set_port(ports.0);
            to.set_port(ports.1);
            let mut out = Vec::new();
            put_udp(&mut out, from, to, &payload).unwrap();
            let udp = find_udp(101, &out).unwrap();
            prop_assert_eq!((udp.source, udp.source_port, udp.destination_port), (from.ip(), ports.0, ports.1));
            prop_assert_eq!((udp.payload, udp.to_end), (&payload[..], &payload[..]));
            let head = headers_len(from.ip()) - 8;
            let packet = UdpPacket::new_checked(&out[head..]).unwrap();
            prop_assert!(packet.checksum() != 0 && packet.verify_checksum(from.ip(), to.ip()));
            if !six {
                prop_assert!(Ipv4Packet::new_checked(&out[..]).unwrap().verify_checksum());
            }
        }
    }
}
