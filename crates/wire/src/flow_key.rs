//! The five-tuple of a packet, read from as few bytes as there are.
//!
//! Made for reports over sampled headers, which are cut short: unlike the views it asks of a
//! packet only the bytes it reads, and gives up fields rather than the packet. It is not for the
//! forwarding path.

use core::fmt;
use std::net::IpAddr;

use crate::field::{array_at, u16_at};
use crate::{EtherType, EthernetFrame, IpProtocol, Ipv4Packet, Ipv6Packet, MplsStack, VlanTag};

/// VLAN tags stepped over before giving up.
const MAX_TAGS: usize = 4;

/// Who talks to whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowKey {
    /// Source address.
    pub src_addr: IpAddr,
    /// Destination address, of the same family.
    pub dst_addr: IpAddr,
    /// Protocol of the upper layer.
    pub protocol: IpProtocol,
    /// Source port; 0 where there is none, in later fragments and where it is cut off.
    pub src_port: u16,
    /// Destination port; 0 where there is none, in later fragments and where it is cut off.
    pub dst_port: u16,
}

impl FlowKey {
    /// Reads an Ethernet frame, through VLAN tags and an MPLS label stack. `None` if no IP header
    /// with both addresses is found.
    pub fn parse_ethernet(frame: &[u8]) -> Option<FlowKey> {
        let frame = EthernetFrame::new_checked(frame).ok()?;
        let (mut ethertype, mut payload) = (frame.ethertype(), frame.payload());
        for _ in 0..MAX_TAGS {
            if !ethertype.is_vlan() {
                break;
            }
            ethertype = VlanTag::new_checked(payload).ok()?.ethertype();
            payload = payload.get(VlanTag::<&[u8]>::TAG_LEN..)?;
        }
        match ethertype {
            EtherType::IPV4 | EtherType::IPV6 => Self::parse_ip(payload),
            EtherType::MPLS | EtherType::MPLS_UPSTREAM => Self::parse_mpls(payload),
            _ => None,
        }
    }

    /// Reads the IP packet under a label stack. The labels do not say what that is; its version
    /// nibble is the customary guess (RFC 4928).
    pub fn parse_mpls(stack: &[u8]) -> Option<FlowKey> {
        let mut stack = MplsStack::new(stack);
        for entry in stack.by_ref() {
            entry.ok()?;
        }
        Self::parse_ip(stack.payload())
    }

    /// Reads an IP packet, IPv4 or IPv6 by its version nibble.
    pub fn parse_ip(packet: &[u8]) -> Option<FlowKey> {
        match packet.first()? >> 4 {
            4 => Self::parse_ipv4(packet),
            6 => Self::parse_ipv6(packet),
            _ => None,
        }
    }

    fn parse_ipv4(data: &[u8]) -> Option<FlowKey> {
        if data.len() < Ipv4Packet::<&[u8]>::HEADER_LEN {
            return None;
        }
        let packet = Ipv4Packet::new_unchecked(data);
        let first = packet.fragment_offset() == 0;
        let header_len = packet.header_len();
        let upper = if first && header_len >= 20 {
            data.get(header_len..)
        } else {
            None
        };
        let addresses = (packet.src_addr().into(), packet.dst_addr().into());
        Some(Self::with_ports(addresses, packet.protocol(), upper))
    }

    fn parse_ipv6(data: &[u8]) -> Option<FlowKey> {
        if data.len() < Ipv6Packet::<&[u8]>::HEADER_LEN {
            return None;
        }
        let packet = Ipv6Packet::new_unchecked(data);
        let mut protocol = packet.next_header();
        let mut offset = Some(Ipv6Packet::<&[u8]>::HEADER_LEN);
        for header in packet.extension_headers() {
            let Ok(header) = header else {
                // Cut off or malformed: what was reached is the best name for the flow.
                offset = None;
                break;
            };
            protocol = header.next;
            let later = header.fragment().is_some_and(|f| f.offset != 0);
            let end = Ipv6Packet::<&[u8]>::HEADER_LEN + header.offset + header.data.len();
            offset = if later { None } else { Some(end) };
        }
        let upper = offset.and_then(|offset| data.get(offset..));
        let addresses = (packet.src_addr().into(), packet.dst_addr().into());
        Some(Self::with_ports(addresses, protocol, upper))
    }

    fn with_ports(
        (src_addr, dst_addr): (IpAddr, IpAddr),
        protocol: IpProtocol,
        upper: Option<&[u8]>,
    ) -> FlowKey {
        let ports: [u8; 4] = match upper {
            Some(upper) if protocol.has_ports() && upper.len() >= 4 => array_at(upper, 0),
            _ => [0; 4],
        };
        let (src_port, dst_port) = (u16_at(&ports, 0), u16_at(&ports, 2));
        FlowKey {
            src_addr,
            dst_addr,
            protocol,
            src_port,
            dst_port,
        }
    }
}

impl fmt::Display for FlowKey {
    /// `UDP 10.0.0.1:1000 -> 10.0.0.2:2000`; without ports for protocols that have none.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = |f: &mut fmt::Formatter<'_>, addr: IpAddr, port: u16| match addr {
            _ if !self.protocol.has_ports() => write!(f, "{addr}"),
            IpAddr::V4(addr) => write!(f, "{addr}:{port}"),
            IpAddr::V6(addr) => write!(f, "[{addr}]:{port}"),
        };
        write!(f, "{} ", self.protocol)?;
        end(f, self.src_addr, self.src_port)?;
        f.write_str(" -> ")?;
        end(f, self.dst_addr, self.dst_port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MacAddr, PacketBuilder, TcpFlags};
    use proptest::prelude::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    const V4: (Ipv4Addr, Ipv4Addr) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
    const V6: (Ipv6Addr, Ipv6Addr) = (
        Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1),
        Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2),
    );

    fn ethernet() -> PacketBuilder {
        PacketBuilder::ethernet(MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2]))
    }

    fn text(frame: &[u8]) -> Option<String> {
        FlowKey::parse_ethernet(frame).map(|key| key.to_string())
    }

    #[test]
    fn through_tags_and_labels() {
        let udp = |b: PacketBuilder| b.ipv4(V4.0, V4.1).udp(1000, 2000).build();
        for builder in [
            ethernet(),
            ethernet().qinq(1).vlan(2),
            ethernet().mpls(16).mpls(17),
            ethernet().vlan(2).mpls(16),
        ] {
            let key = text(&udp(builder));
            assert_eq!(key.as_deref(), Some("UDP 10.0.0.1:1000 -> 10.0.0.2:2000"));
        }
        let tcp = ethernet()
            .mpls(2)
            .ipv6(V6.0, V6.1)
            .tcp(1, 2, TcpFlags::ACK)
            .build();
        let key = text(&tcp);
        assert_eq!(
            key.as_deref(),
            Some("TCP [2001:db8::1]:1 -> [2001:db8::2]:2")
        );
        let echo = ethernet().ipv6(V6.0, V6.1).echo_request(1, 2).build();
        assert_eq!(
            text(&echo).as_deref(),
            Some("ICMPv6 2001:db8::1 -> 2001:db8::2")
        );
    }

    #[test]
    fn through_options_and_extension_headers() {
        let v4 = ethernet()
            .ipv4(V4.0, V4.1)
            .ipv4_options(&[1; 8])
            .udp(7, 8)
            .build();
        assert_eq!(text(&v4).as_deref(), Some("UDP 10.0.0.1:7 -> 10.0.0.2:8"));
        let v6 = ethernet()
            .ipv6(V6.0, V6.1)
            .extension(IpProtocol::HOP_BY_HOP, &[1, 4])
            .udp(7, 8)
            .build();
        assert_eq!(
            text(&v6).as_deref(),
            Some("UDP [2001:db8::1]:7 -> [2001:db8::2]:8")
        );
    }

    #[test]
    fn a_cut_packet_keeps_what_is_there() {
        let frame = ethernet()
            .ipv4(V4.0, V4.1)
            .udp(7, 8)
            .payload_len(1400)
            .build();
        assert_eq!(
            text(&frame[..64]).as_deref(),
            Some("UDP 10.0.0.1:7 -> 10.0.0.2:8")
        );
        assert_eq!(
            text(&frame[..37]).as_deref(),
            Some("UDP 10.0.0.1:0 -> 10.0.0.2:0")
        );
        assert_eq!(text(&frame[..33]), None);
        let frame = ethernet()
            .ipv6(V6.0, V6.1)
            .extension(IpProtocol::AH, &[0; 6])
            .udp(7, 8)
            .build();
        let cut = FlowKey::parse_ethernet(&frame[..58]).unwrap();
        assert_eq!((cut.protocol, cut.src_port), (IpProtocol::AH, 0));
    }

    #[test]
    fn later_fragments_have_no_ports() {
        let v4 = ethernet()
            .ipv4(V4.0, V4.1)
            .fragment(8, false)
            .udp(7, 8)
            .build();
        assert_eq!(text(&v4).as_deref(), Some("UDP 10.0.0.1:0 -> 10.0.0.2:0"));
        let piece = [0, 8, 0, 0, 0, 1];
        let v6 = ethernet()
            .ipv6(V6.0, V6.1)
            .extension(IpProtocol::FRAGMENT, &piece)
            .udp(7, 8);
        assert_eq!(
            text(&v6.build()).as_deref(),
            Some("UDP [2001:db8::1]:0 -> [2001:db8::2]:0")
        );
    }

    #[test]
    fn nothing_from_other_frames() {
        assert_eq!(text(&[0; 13]), None);
        assert_eq!(text(&ethernet().payload_len(50).build()), None);
        let pseudowire = ethernet().mpls(16).payload(&[0; 64]).build();
        assert_eq!(text(&pseudowire), None);
        let tags = (0..5)
            .fold(ethernet(), |b, _| b.vlan(1))
            .ipv4(V4.0, V4.1)
            .udp(1, 2);
        assert_eq!(text(&tags.build()), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..140),
            kind in 0usize..6,
        ) {
            if bytes.len() > 15 {
                let ethertype = [0x0800u16, 0x86dd, 0x8100, 0x8847, 0x0800, 0x86dd][kind];
                bytes[12..14].copy_from_slice(&ethertype.to_be_bytes());
                bytes[14] = [0x45, 0x60, 0, 0, 0x4f, 0x60][kind];
            }
            let _ = text(&bytes);
        }

        #[test]
        fn a_cut_never_changes_the_addresses(cut in 34usize..100, sport: u16) {
            let frame = ethernet().ipv4(V4.0, V4.1).udp(sport, 8).payload_len(100).build();
            let key = FlowKey::parse_ethernet(&frame[..cut]).unwrap();
            prop_assert_eq!((key.src_addr, key.dst_addr), (V4.0.into(), V4.1.into()));
            let expected = if cut >= 38 { sport } else { 0 };
            prop_assert_eq!(key.src_port, expected);
        }
    }
}
