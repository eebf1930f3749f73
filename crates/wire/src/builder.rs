//! A readable packet builder for tests, the packet generator and the lab.
//!
//! Layers are named from the outside in; `build` writes them from the inside out, so that every
//! length, type and checksum is right without being said:
//!
//! ```
//! use parshall_wire::{MacAddr, PacketBuilder};
//! let frame = PacketBuilder::ethernet(MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2]))
//!     .vlan(100)
//!     .mpls(17)
//!     .ipv4([10, 0, 0, 1].into(), [10, 0, 0, 2].into())
//!     .ttl(64)
//!     .udp(1000, 2000)
//!     .payload_len(18)
//!     .build();
//! assert_eq!(frame.len(), 14 + 4 + 4 + 20 + 8 + 18);
//! ```
//!
//! The builder allocates and is not for the forwarding path. A number too large for its field is
//! cut to the field's bits; a packet too long for a length field gets that field at its maximum.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::checksum::fill_l4_checksum;
use crate::field::{put_u16, put_u32};
use crate::{
    ArpRepr, EtherType, EthernetFrame, EthernetRepr, FlowLabel, Icmpv4Packet, Icmpv4Type,
    Icmpv6Packet, Icmpv6Type, IpProtocol, Ipv4Fragment, Ipv4Packet, Ipv4Repr, Ipv6Packet, Ipv6Repr,
    MacAddr, TcpFlags, TcpPacket, TcpRepr, UdpPacket, UdpRepr,
};

/// One header of the packet.
#[derive(Debug, Clone)]
enum Layer {
    Ethernet(EthernetRepr),
    Vlan { tpid: EtherType, tci: u16 },
    Mpls { label: u32, class: u8, ttl: u8 },
    Arp(ArpRepr),
    Ipv4(Ipv4Repr, Vec<u8>),
    Ipv6(Ipv6Repr),
    Extension { kind: IpProtocol, body: Vec<u8> },
    Udp { src: u16, dst: u16 },
    Tcp(TcpRepr),
    Echo { reply: bool, ident: u16, seq: u16 },
}

/// Builds one packet; see the module's example.
#[derive(Debug, Clone)]
pub struct PacketBuilder {
    layers: Vec<Layer>,
    payload: Vec<u8>,
    /// Type of a payload that follows a link or label layer directly.
    ethertype: EtherType,
    /// Protocol of a payload that follows an IP layer directly.
    protocol: IpProtocol,
}

impl PacketBuilder {
    /// A packet that begins with an Ethernet header.
    pub fn ethernet(src_addr: MacAddr, dst_addr: MacAddr) -> PacketBuilder {
        let ethertype = EtherType::EXPERIMENTAL;
        Self::bare().push(Layer::Ethernet(EthernetRepr {
            src_addr,
            dst_addr,
            ethertype,
        }))
    }

    /// A packet without a link layer: it begins with the next layer named.
    pub fn bare() -> PacketBuilder {
        PacketBuilder {
            layers: Vec::new(),
            payload: Vec::new(),
            ethertype: EtherType::EXPERIMENTAL,
            protocol: IpProtocol::EXPERIMENTAL,
        }
    }

    fn push(mut self, layer: Layer) -> PacketBuilder {
        self.layers.push(layer);
        self
    }

    /// An 802.1Q tag with this identifier (12 bits).
    pub fn vlan(self, id: u16) -> PacketBuilder {
        self.push(Layer::Vlan {
            tpid: EtherType::VLAN,
            tci: id & 0x0fff,
        })
    }

    /// An 802.1ad service tag with this identifier (12 bits).
    pub fn qinq(self, id: u16) -> PacketBuilder {
        self.push(Layer::Vlan {
            tpid: EtherType::QINQ,
            tci: id & 0x0fff,
        })
    }

    /// A label stack entry (20 bits) of TTL 64. Bottom of stack is set when no other follows.
    pub fn mpls(self, label: u32) -> PacketBuilder {
        self.push(Layer::Mpls {
            label: label & 0x000f_ffff,
            class: 0,
            ttl: 64,
        })
    }

    /// An ARP packet; nothing may follow.
    pub fn arp(self, arp: ArpRepr) -> PacketBuilder {
        self.push(Layer::Arp(arp))
    }

    /// An IPv4 header of TTL 64 that may be fragmented.
    pub fn ipv4(self, src_addr: Ipv4Addr, dst_addr: Ipv4Addr) -> PacketBuilder {
        let repr = Ipv4Repr {
            src_addr,
            dst_addr,
            protocol: IpProtocol::EXPERIMENTAL,
            ttl: 64,
            tos: 0,
            ident: 0,
            fragment: Ipv4Fragment::NONE,
            payload_len: 0,
        };
        self.push(Layer::Ipv4(repr, Vec::new()))
    }

    /// An IPv6 header of hop limit 64.
    pub fn ipv6(self, src_addr: Ipv6Addr, dst_addr: Ipv6Addr) -> PacketBuilder {
        self.push(Layer::Ipv6(Ipv6Repr {
            src_addr,
            dst_addr,
            next_header: IpProtocol::EXPERIMENTAL,
            hop_limit: 64,
            traffic_class: 0,
            flow_label: FlowLabel::default(),
            payload_len: 0,
        }))
    }

    /// An IPv6 extension header of type `kind` with `body` behind its next-header and length
    /// bytes, padded with zeros to a multiple of 8 bytes in all.
    pub fn extension(self, kind: IpProtocol, body: &[u8]) -> PacketBuilder {
        self.push(Layer::Extension {
            kind,
            body: body.to_vec(),
        })
    }

    /// A UDP header.
    pub fn udp(self, src: u16, dst: u16) -> PacketBuilder {
        self.push(Layer::Udp { src, dst })
    }

    /// A TCP header with a window of 65,535 bytes.
    pub fn tcp(self, src_port: u16, dst_port: u16, flags: TcpFlags) -> PacketBuilder {
        let window = u16::MAX;
        let repr = TcpRepr {
            src_port,
            dst_port,
            seq: 0,
            ack: 0,
            flags,
            window,
            urgent: 0,
        };
        self.push(Layer::Tcp(repr))
    }

    /// An echo request: ICMPv6 if the last IP layer is IPv6, else ICMP.
    pub fn echo_request(self, ident: u16, seq: u16) -> PacketBuilder {
        self.push(Layer::Echo {
            reply: false,
            ident,
            seq,
        })
    }

    /// An echo reply: ICMPv6 if the last IP layer is IPv6, else ICMP.
    pub fn echo_reply(self, ident: u16, seq: u16) -> PacketBuilder {
        self.push(Layer::Echo {
            reply: true,
            ident,
            seq,
        })
    }

    /// Sets TTL or hop limit of the last MPLS or IP layer.
    pub fn ttl(mut self, value: u8) -> PacketBuilder {
        for layer in self.layers.iter_mut().rev() {
            match layer {
                Layer::Mpls { ttl, .. } => *ttl = value,
                Layer::Ipv4(repr, _) => repr.ttl = value,
                Layer::Ipv6(repr) => repr.hop_limit = value,
                _ => continue,
            }
            break;
        }
        self
    }

    /// Sets the class of the last layer that has one: priority of a VLAN tag (3 bits), traffic
    /// class of a label (3 bits), type of service or traffic class of an IP header.
    pub fn class(mut self, value: u8) -> PacketBuilder {
        for layer in self.layers.iter_mut().rev() {
            match layer {
                Layer::Vlan { tci, .. } => *tci = *tci & 0x1fff | u16::from(value & 7) << 13,
                Layer::Mpls { class, .. } => *class = value & 7,
                Layer::Ipv4(repr, _) => repr.tos = value,
                Layer::Ipv6(repr) => repr.traffic_class = value,
                _ => continue,
            }
            break;
        }
        self
    }

    fn edit_ipv4(mut self, edit: impl FnOnce(&mut Ipv4Repr, &mut Vec<u8>)) -> PacketBuilder {
        let last = self.layers.iter_mut().rev().find_map(|layer| match layer {
            Layer::Ipv4(repr, options) => Some((repr, options)),
            _ => None,
        });
        if let Some((repr, options)) = last {
            edit(repr, options);
        }
        self
    }

    /// Sets the identification of the last IPv4 layer.
    pub fn ident(self, ident: u16) -> PacketBuilder {
        self.edit_ipv4(|repr, _| repr.ident = ident)
    }

    /// Forbids fragmentation of the last IPv4 layer.
    pub fn dont_fragment(self) -> PacketBuilder {
        self.edit_ipv4(|repr, _| repr.fragment = Ipv4Fragment::DONT)
    }

    /// Makes the last IPv4 layer a piece at `offset` bytes (rounded down to a multiple of 8).
    pub fn fragment(self, offset: u16, more: bool) -> PacketBuilder {
        self.edit_ipv4(|repr, _| {
            repr.fragment = Ipv4Fragment::piece(offset & !7, more).unwrap_or_default();
        })
    }

    /// Gives the last IPv4 layer options, padded with zeros to a multiple of 4; at most 40 bytes.
    pub fn ipv4_options(self, bytes: &[u8]) -> PacketBuilder {
        self.edit_ipv4(|_, options| {
            *options = bytes[..bytes.len().min(40)].to_vec();
            options.resize(options.len().next_multiple_of(4), 0);
        })
    }

    /// Sets the flow label (20 bits) of the last IPv6 layer.
    pub fn flow_label(mut self, label: u32) -> PacketBuilder {
        let last = self.layers.iter_mut().rev().find_map(|layer| match layer {
            Layer::Ipv6(repr) => Some(repr),
            _ => None,
        });
        if let Some(repr) = last {
            repr.flow_label = FlowLabel::new(label & 0x000f_ffff).unwrap_or_default();
        }
        self
    }

    /// Sets sequence and acknowledgment numbers of the last TCP layer.
    pub fn seq_ack(mut self, seq: u32, ack: u32) -> PacketBuilder {
        let last = self.layers.iter_mut().rev().find_map(|layer| match layer {
            Layer::Tcp(repr) => Some(repr),
            _ => None,
        });
        if let Some(repr) = last {
            (repr.seq, repr.ack) = (seq, ack);
        }
        self
    }

    /// The type of a payload directly behind Ethernet or a VLAN tag; local experimental if unset.
    pub fn ethertype(mut self, ethertype: EtherType) -> PacketBuilder {
        self.ethertype = ethertype;
        self
    }

    /// The protocol of a payload directly behind IP; experimental if unset.
    pub fn protocol(mut self, protocol: IpProtocol) -> PacketBuilder {
        self.protocol = protocol;
        self
    }

    /// The payload.
    pub fn payload(mut self, bytes: &[u8]) -> PacketBuilder {
        self.payload = bytes.to_vec();
        self
    }

    /// A payload of `len` bytes that count up from 0.
    pub fn payload_len(mut self, len: usize) -> PacketBuilder {
        self.payload = (0..len).map(|i| i as u8).collect();
        self
    }

    /// A payload that makes the whole packet `len` bytes; empty if its headers are that long.
    pub fn total_len(self, len: usize) -> PacketBuilder {
        let headers: usize = self.layers.iter().map(Layer::len).sum();
        self.payload_len(len.saturating_sub(headers))
    }

    /// The bytes of the packet.
    pub fn build(&self) -> Vec<u8> {
        let start = |index: usize| self.layers[..index].iter().map(Layer::len).sum::<usize>();
        let mut bytes = vec![0u8; start(self.layers.len())];
        bytes.extend_from_slice(&self.payload);
        for index in (0..self.layers.len()).rev() {
            self.write(index, &mut bytes[start(index)..]);
        }
        bytes
    }

    /// Writes layer `index` at the start of `data`; what follows it is in place.
    fn write(&self, index: usize, data: &mut [u8]) {
        match &self.layers[index] {
            Layer::Ethernet(repr) => {
                let repr = EthernetRepr {
                    ethertype: self.ethertype_after(index),
                    ..*repr
                };
                // The buffer was sized for this layer, so that emit cannot refuse it.
                let _ = repr.emit(&mut EthernetFrame::new_unchecked(data));
            }
            Layer::Vlan { tci, .. } => {
                put_u16(data, 0, *tci);
                put_u16(data, 2, self.ethertype_after(index).0);
            }
            Layer::Mpls { label, class, ttl } => {
                let bottom = !matches!(self.layers.get(index + 1), Some(Layer::Mpls { .. }));
                let low = u32::from(*class) << 9 | u32::from(bottom) << 8 | u32::from(*ttl);
                put_u32(data, 0, label << 12 | low);
            }
            Layer::Arp(repr) => {
                let _ = repr.emit(&mut crate::ArpPacket::new_unchecked(data));
            }
            Layer::Ipv4(repr, options) => self.write_ipv4(index, repr, options, data),
            Layer::Ipv6(repr) => self.write_ipv6(index, repr, data),
            Layer::Extension { kind, body } => self.write_extension(index, *kind, body, data),
            Layer::Udp { src, dst } => {
                let payload_len = (data.len() - UdpPacket::<&[u8]>::HEADER_LEN).min(65_527) as u16;
                let repr = UdpRepr {
                    src_port: *src,
                    dst_port: *dst,
                    payload_len,
                };
                let _ = repr.emit(&mut UdpPacket::new_unchecked(data));
            }
            Layer::Tcp(repr) => {
                let _ = repr.emit(&mut TcpPacket::new_unchecked(data));
            }
            Layer::Echo { reply, ident, seq } => self.write_echo(index, *reply, *ident, *seq, data),
        }
    }

    fn write_extension(&self, index: usize, kind: IpProtocol, body: &[u8], data: &mut [u8]) {
        let len = self.layers[index].len();
        data[0] = self.protocol_after(index).0;
        data[1] = match kind {
            IpProtocol::FRAGMENT => 0,
            IpProtocol::AH => (len / 4 - 2) as u8,
            _ => (len / 8 - 1) as u8,
        };
        data[2..2 + body.len()].copy_from_slice(body);
    }

    fn write_ipv4(&self, index: usize, repr: &Ipv4Repr, options: &[u8], data: &mut [u8]) {
        let header_len = Ipv4Packet::<&[u8]>::HEADER_LEN + options.len();
        let total_len = data.len().min(usize::from(u16::MAX)) as u16;
        let repr = Ipv4Repr {
            protocol: self.protocol_after(index),
            payload_len: 0,
            ..*repr
        };
        let _ = repr.emit(&mut Ipv4Packet::new_unchecked(&mut data[..]));
        data[Ipv4Packet::<&[u8]>::HEADER_LEN..header_len].copy_from_slice(options);
        let mut packet = Ipv4Packet::new_unchecked(&mut data[..]);
        packet.set_version_and_header_len(header_len);
        packet.set_total_len(total_len);
        packet.fill_checksum();
        fill_l4_checksum(data);
    }

    fn write_ipv6(&self, index: usize, repr: &Ipv6Repr, data: &mut [u8]) {
        let payload_len = (data.len() - Ipv6Packet::<&[u8]>::HEADER_LEN).min(65_535) as u16;
        let repr = Ipv6Repr {
            next_header: self.protocol_after(index),
            payload_len,
            ..*repr
        };
        let _ = repr.emit(&mut Ipv6Packet::new_unchecked(&mut data[..]));
        fill_l4_checksum(data);
    }

    fn write_echo(&self, index: usize, reply: bool, ident: u16, seq: u16, data: &mut [u8]) {
        let rest = u32::from(ident) << 16 | u32::from(seq);
        if self.is_over_ipv6(index) {
            // The IPv6 layer completes the checksum, which covers its addresses.
            let mut packet = Icmpv6Packet::new_unchecked(data);
            let msg_type = if reply {
                Icmpv6Type::ECHO_REPLY
            } else {
                Icmpv6Type::ECHO_REQUEST
            };
            packet.set_msg_type(msg_type);
            packet.set_rest_of_header(rest);
        } else {
            let mut packet = Icmpv4Packet::new_unchecked(data);
            let msg_type = if reply {
                Icmpv4Type::ECHO_REPLY
            } else {
                Icmpv4Type::ECHO_REQUEST
            };
            packet.set_msg_type(msg_type);
            packet.set_rest_of_header(rest);
            packet.fill_checksum();
        }
    }

    fn is_over_ipv6(&self, index: usize) -> bool {
        let below = self.layers[..index].iter().rev();
        let mut ip = below.filter(|layer| matches!(layer, Layer::Ipv4(..) | Layer::Ipv6(_)));
        matches!(ip.next(), Some(Layer::Ipv6(_)))
    }

    /// The type that announces what follows layer `index`.
    fn ethertype_after(&self, index: usize) -> EtherType {
        match self.layers.get(index + 1) {
            Some(Layer::Vlan { tpid, .. }) => *tpid,
            Some(Layer::Mpls { .. }) => EtherType::MPLS,
            Some(Layer::Arp(_)) => EtherType::ARP,
            Some(Layer::Ipv4(..)) => EtherType::IPV4,
            Some(Layer::Ipv6(_)) => EtherType::IPV6,
            _ => self.ethertype,
        }
    }

    /// The protocol that announces what follows layer `index`.
    fn protocol_after(&self, index: usize) -> IpProtocol {
        match self.layers.get(index + 1) {
            Some(Layer::Mpls { .. }) => IpProtocol::MPLS,
            Some(Layer::Ipv4(..)) => IpProtocol::IPV4,
            Some(Layer::Ipv6(_)) => IpProtocol::IPV6,
            Some(Layer::Extension { kind, .. }) => *kind,
            Some(Layer::Udp { .. }) => IpProtocol::UDP,
            Some(Layer::Tcp(_)) => IpProtocol::TCP,
            Some(Layer::Echo { .. }) if self.is_over_ipv6(index + 1) => IpProtocol::ICMPV6,
            Some(Layer::Echo { .. }) => IpProtocol::ICMP,
            _ => self.protocol,
        }
    }
}

impl Layer {
    /// Bytes of the header.
    fn len(&self) -> usize {
        match self {
            Layer::Ethernet(repr) => repr.buffer_len(),
            Layer::Vlan { .. } | Layer::Mpls { .. } => 4,
            Layer::Arp(repr) => repr.buffer_len(),
            Layer::Ipv4(repr, options) => repr.buffer_len() + options.len(),
            Layer::Ipv6(repr) => repr.buffer_len(),
            Layer::Extension { body, .. } => (body.len() + 2).next_multiple_of(8),
            Layer::Udp { .. } | Layer::Echo { .. } => 8,
            Layer::Tcp(repr) => repr.buffer_len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::l4_checksum_valid;
    use crate::{Icmpv4Repr, Icmpv6Repr, Ipv4Packet, MplsStack, VlanTag};
    use proptest::prelude::*;

    const A: MacAddr = MacAddr([2, 0xfe, 0, 0, 0, 1]);
    const B: MacAddr = MacAddr([2, 0xfe, 0, 0, 0, 2]);
    const V4: (Ipv4Addr, Ipv4Addr) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
    const V6: (Ipv6Addr, Ipv6Addr) = (
        Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1),
        Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2),
    );

    #[test]
    fn golden_frame() {
        let frame = PacketBuilder::ethernet(A, B)
            .vlan(100)
            .class(5)
            .mpls(16)
            .mpls(17)
            .ttl(9)
            .ipv4(V4.0, V4.1)
            .udp(1000, 2000)
            .payload(b"abc")
            .build();
        let golden = [
            0x02, 0xfe, 0, 0, 0, 2, 0x02, 0xfe, 0, 0, 0, 1, 0x81, 0x00, // Ethernet
            0xa0, 0x64, 0x88, 0x47, // VLAN
            0x00, 0x01, 0x00, 0x40, 0x00, 0x01, 0x11, 0x09, // labels
            0x45, 0x00, 0x00, 0x1f, 0, 0, 0, 0, 0x40, 0x11, 0x66, 0xcc, 10, 0, 0, 1, 10, 0, 0, 2,
            0x03, 0xe8, 0x07, 0xd0, 0x00, 0x0b, 0x1b, 0xbb, 0x61, 0x62, 0x63,
        ];
        assert_eq!(frame, golden);
    }

    #[test]
    fn qinq_and_default_types() {
        let frame = PacketBuilder::ethernet(A, B)
            .qinq(7)
            .vlan(8)
            .payload_len(2)
            .build();
        let frame = EthernetFrame::new_checked(&frame[..]).unwrap();
        assert_eq!(frame.ethertype(), EtherType::QINQ);
        let outer = VlanTag::new_checked(frame.payload()).unwrap();
        let inner = VlanTag::new_checked(outer.payload()).unwrap();
        assert_eq!((outer.vlan_id(), outer.ethertype()), (7, EtherType::VLAN));
        assert_eq!(
            (inner.vlan_id(), inner.ethertype()),
            (8, EtherType::EXPERIMENTAL)
        );
        assert_eq!(inner.payload(), [0, 1]);
    }

    #[test]
    fn echoes_of_both_families() {
        let v4 = PacketBuilder::bare()
            .ipv4(V4.0, V4.1)
            .echo_request(1, 2)
            .payload_len(5)
            .build();
        let packet = Ipv4Packet::new_checked(&v4[..]).unwrap();
        let icmp = Icmpv4Packet::new_checked(packet.payload()).unwrap();
        let data = &[0, 1, 2, 3, 4];
        let request = Icmpv4Repr::EchoRequest {
            ident: 1,
            seq: 2,
            data,
        };
        assert_eq!(Icmpv4Repr::parse(&icmp), Ok(request));
        let v6 = PacketBuilder::bare()
            .ipv6(V6.0, V6.1)
            .echo_reply(1, 2)
            .payload_len(5)
            .build();
        let packet = Ipv6Packet::new_checked(&v6[..]).unwrap();
        let icmp = Icmpv6Packet::new_checked(packet.payload()).unwrap();
        let reply = Icmpv6Repr::EchoReply {
            ident: 1,
            seq: 2,
            data,
        };
        assert_eq!(Icmpv6Repr::parse(&V6.0, &V6.1, &icmp), Ok(reply));
    }

    #[test]
    fn options_extensions_and_tunnels_keep_lengths_and_checksums_right() {
        let packet = PacketBuilder::bare()
            .ipv6(V6.0, V6.1)
            .flow_label(0x12345)
            .extension(IpProtocol::HOP_BY_HOP, &[1, 4])
            .extension(IpProtocol::DESTINATION_OPTIONS, &[1, 12])
            .ipv4(V4.0, V4.1)
            .ipv4_options(&[148, 4, 0, 0, 1])
            .dont_fragment()
            .ident(77)
            .tcp(1, 2, TcpFlags::SYN)
            .seq_ack(3, 4)
            .payload_len(11)
            .build();
        let outer = Ipv6Packet::new_checked(&packet[..]).unwrap();
        let upper = outer.upper_layer().unwrap();
        assert_eq!(
            (upper.protocol, upper.offset),
            (IpProtocol::IPV4, 40 + 8 + 8)
        );
        assert_eq!(outer.flow_label().get(), 0x12345);
        let inner = &packet[upper.offset..];
        let view = Ipv4Packet::new_checked(inner).unwrap();
        assert_eq!(
            (view.header_len(), view.ident(), view.dont_fragment()),
            (28, 77, true)
        );
        assert!(view.verify_checksum());
        assert_eq!(l4_checksum_valid(inner), Some(true));
        let tcp = TcpPacket::new_checked(view.payload()).unwrap();
        assert_eq!((tcp.seq(), tcp.ack(), tcp.payload().len()), (3, 4, 11));
    }

    #[test]
    fn arp_and_fragments() {
        let arp = ArpRepr::request(A, V4.0, V4.1);
        let frame = PacketBuilder::ethernet(A, MacAddr::BROADCAST)
            .arp(arp)
            .build();
        let frame = EthernetFrame::new_checked(&frame[..]).unwrap();
        assert_eq!(frame.ethertype(), EtherType::ARP);
        let packet = crate::ArpPacket::new_checked(frame.payload()).unwrap();
        assert_eq!(ArpRepr::parse(&packet), Ok(arp));
        let piece = PacketBuilder::bare()
            .ipv4(V4.0, V4.1)
            .protocol(IpProtocol::UDP)
            .fragment(16, true)
            .payload_len(8)
            .build();
        let piece = Ipv4Repr::parse(&Ipv4Packet::new_checked(&piece[..]).unwrap()).unwrap();
        assert_eq!(
            (piece.fragment.offset(), piece.protocol),
            (16, IpProtocol::UDP)
        );
    }

    #[test]
    fn numbers_too_large_are_cut() {
        let frame = PacketBuilder::ethernet(A, B)
            .vlan(0xffff)
            .mpls(0xffff_ffff)
            .build();
        let tag = VlanTag::new_checked(&frame[14..]).unwrap();
        assert_eq!((tag.vlan_id(), tag.priority().get()), (0xfff, 0));
        let entry = MplsStack::new(tag.payload()).next().unwrap().unwrap();
        assert_eq!(
            (entry.label().get(), entry.ttl(), entry.is_bottom()),
            (0xf_ffff, 64, true)
        );
        let long = PacketBuilder::bare()
            .ipv4(V4.0, V4.1)
            .udp(1, 2)
            .payload_len(70_000)
            .build();
        assert_eq!(
            Ipv4Packet::new_checked(&long[..]).unwrap().total_len(),
            u16::MAX
        );
    }

    proptest! {
        #[test]
        fn total_len_is_the_length_and_checksums_are_right(
            len in 42usize..1600, v6: bool, tcp: bool, vlan: bool,
        ) {
            let mut builder = PacketBuilder::ethernet(A, B);
            if vlan {
                builder = builder.vlan(5);
            }
            builder = if v6 { builder.ipv6(V6.0, V6.1) } else { builder.ipv4(V4.0, V4.1) };
            builder = if tcp { builder.tcp(1, 2, TcpFlags::ACK) } else { builder.udp(1, 2) };
            let len = len.max(14 + 4 + 40 + 20);
            let frame = builder.total_len(len).build();
            prop_assert_eq!(frame.len(), len);
            let ip = &frame[if vlan { 18 } else { 14 }..];
            prop_assert_eq!(l4_checksum_valid(ip), Some(true));
        }
    }
}
