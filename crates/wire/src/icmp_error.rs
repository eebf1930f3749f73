//! The ICMP errors a router sends: whole IP packets about a packet that could not be forwarded.
//!
//! When an error may be sent at all is RFC 1812 section 4.3.2.7 and RFC 4443 section 2.4 (e); how
//! much of the original it quotes is RFC 1812 section 4.3.2.3 (up to 576 bytes in all) and RFC
//! 4443 section 2.4 (c) (as much as fits in the minimum MTU of 1,280 bytes). How often errors are
//! sent is the caller's matter.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::field::put;
use crate::{
    FlowLabel, Icmpv4ErrorKind, Icmpv4Packet, Icmpv4Type, Icmpv6ErrorKind, Icmpv6Packet,
    Icmpv6Type, IpProtocol, Ipv4Fragment, Ipv4Packet, Ipv4Repr, Ipv6Packet, Ipv6Repr, Result,
    WireError, icmpv4, icmpv6, ipv4, ipv6,
};

/// Builds the IP packet of an error about a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Icmpv4ErrorBuilder {
    /// The sender of the error: an address of the interface the datagram came in by.
    pub src_addr: Ipv4Addr,
    /// What went wrong.
    pub kind: Icmpv4ErrorKind,
    /// Time to live of the error.
    pub ttl: u8,
    /// Identification of the error.
    pub ident: u16,
}

impl Icmpv4ErrorBuilder {
    /// Bytes in front of the quoted datagram: an IPv4 and an ICMP header.
    pub const HEADERS_LEN: usize = ipv4::HEADER_LEN + icmpv4::HEADER_LEN;
    /// The longest error in bytes: what every host must be able to take (RFC 791).
    pub const MAX_LEN: usize = 576;
    /// The type of service of errors: precedence 6, internetwork control (RFC 1812 section
    /// 4.3.2.5).
    pub const TOS: u8 = 0xc0;

    /// Whether an error about this datagram may be sent at all (RFC 1812 section 4.3.2.7): not
    /// about an ICMP error, a fragment other than the first, a multicast or broadcast, or a
    /// source that is not one host. That it came by a link-layer broadcast the caller must know.
    pub fn may_be_sent_about(original: &[u8]) -> bool {
        if original.len() < ipv4::HEADER_LEN {
            return false;
        }
        let packet = Ipv4Packet::new_unchecked(original);
        let (src, dst) = (packet.src_addr(), packet.dst_addr());
        // 240.0.0.0/4 holds the limited broadcast, too.
        let not_one_host = |addr: Ipv4Addr| addr.octets()[0] >= 224;
        let bad_source = src.octets()[0] == 0 || src.is_loopback() || not_one_host(src);
        if packet.version() != 4 || bad_source || not_one_host(dst) || packet.fragment_offset() != 0
        {
            return false;
        }
        if packet.protocol() != IpProtocol::ICMP {
            return true;
        }
        // An ICMP message whose type is not there might be an error.
        original
            .get(packet.header_len())
            .is_some_and(|msg_type| !Icmpv4Type(*msg_type).is_error())
    }

    /// How much of a datagram of `original_len` bytes an error quotes.
    pub const fn quoted_len(original_len: usize) -> usize {
        let room = Self::MAX_LEN - Self::HEADERS_LEN;
        if original_len < room {
            original_len
        } else {
            room
        }
    }

    /// Writes the headers in front of a datagram that is already in place: `packet` is
    /// `HEADERS_LEN` bytes to overwrite, then the original from its IP header on, already cut to
    /// `quoted_len`. The error goes to the original's source.
    ///
    /// # Errors
    /// `Truncated` if the original has no whole IP header, `BadLength` if it is not cut.
    pub fn emit_in_place(&self, packet: &mut [u8]) -> Result<()> {
        if packet.len() < Self::HEADERS_LEN + ipv4::HEADER_LEN {
            return Err(WireError::Truncated);
        }
        if packet.len() > Self::MAX_LEN {
            return Err(WireError::BadLength);
        }
        let dst_addr = Ipv4Packet::new_unchecked(&packet[Self::HEADERS_LEN..]).src_addr();
        let header = Ipv4Repr {
            src_addr: self.src_addr,
            dst_addr,
            protocol: IpProtocol::ICMP,
            ttl: self.ttl,
            tos: Self::TOS,
            ident: self.ident,
            fragment: Ipv4Fragment::NONE,
            payload_len: (packet.len() - ipv4::HEADER_LEN) as u16,
        };
        header.emit(&mut Ipv4Packet::new_unchecked(&mut packet[..]))?;
        let (msg_type, code, rest) = self.kind.to_fields();
        let mut icmp = Icmpv4Packet::new_unchecked(&mut packet[ipv4::HEADER_LEN..]);
        icmp.set_msg_type(msg_type);
        icmp.set_code(code);
        icmp.set_rest_of_header(rest);
        icmp.fill_checksum();
        Ok(())
    }

    /// Writes the error about `original`, a datagram from its IP header on (link padding behind
    /// it is not quoted), into `buffer`. Returns the error's length in bytes, at most `MAX_LEN`.
    ///
    /// # Errors
    /// `Truncated` if the original has no whole IP header or the buffer is too short.
    pub fn emit(&self, buffer: &mut [u8], original: &[u8]) -> Result<usize> {
        if original.len() < ipv4::HEADER_LEN {
            return Err(WireError::Truncated);
        }
        let total_len = usize::from(Ipv4Packet::new_unchecked(original).total_len());
        let in_packet = original.len().min(total_len.max(ipv4::HEADER_LEN));
        let quoted = Self::quoted_len(in_packet);
        let len = Self::HEADERS_LEN + quoted;
        let packet = buffer.get_mut(..len).ok_or(WireError::Truncated)?;
        put(packet, Self::HEADERS_LEN, &original[..quoted]);
        self.emit_in_place(packet)?;
        Ok(len)
    }
}

/// Builds the IPv6 packet of an error about a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Icmpv6ErrorBuilder {
    /// The sender of the error: an address of the router.
    pub src_addr: Ipv6Addr,
    /// What went wrong.
    pub kind: Icmpv6ErrorKind,
    /// Hop limit of the error.
    pub hop_limit: u8,
}

impl Icmpv6ErrorBuilder {
    /// Bytes in front of the quoted packet: an IPv6 and an ICMPv6 header.
    pub const HEADERS_LEN: usize = ipv6::HEADER_LEN + icmpv6::HEADER_LEN;
    /// The longest error in bytes: the minimum MTU.
    pub const MAX_LEN: usize = 1280;

    /// Whether this error about this packet may be sent at all (RFC 4443 section 2.4 e): not
    /// about an ICMPv6 error or redirect, a fragment other than the first, a source that is not
    /// one host, nor, with two exceptions, about a packet to a group. That it came by a
    /// link-layer multicast the caller must know; the same exceptions hold.
    pub fn may_be_sent_about(&self, original: &[u8]) -> bool {
        if original.len() < ipv6::HEADER_LEN {
            return false;
        }
        let packet = Ipv6Packet::new_unchecked(original);
        let (src, dst) = (packet.src_addr(), packet.dst_addr());
        let bad_source = src.is_unspecified() || src.is_loopback() || src.is_multicast();
        let bad_target = dst.is_multicast() && !self.kind.may_answer_multicast();
        if packet.version() != 6 || bad_source || bad_target {
            return false;
        }
        // A chain that cannot be walked may be reported; what lies behind it is not known.
        let Ok(upper) = packet.upper_layer() else {
            return true;
        };
        if upper.is_later_fragment() {
            return false;
        }
        if upper.protocol != IpProtocol::ICMPV6 {
            return true;
        }
        original.get(upper.offset).is_some_and(|msg_type| {
            let msg_type = Icmpv6Type(*msg_type);
            !msg_type.is_error() && msg_type != Icmpv6Type::REDIRECT
        })
    }

    /// How much of a packet of `original_len` bytes an error quotes.
    pub const fn quoted_len(original_len: usize) -> usize {
        let room = Self::MAX_LEN - Self::HEADERS_LEN;
        if original_len < room {
            original_len
        } else {
            room
        }
    }

    /// Writes the headers in front of a packet that is already in place: `packet` is
    /// `HEADERS_LEN` bytes to overwrite, then the original from its IPv6 header on, already cut
    /// to `quoted_len`. The error goes to the original's source.
    ///
    /// # Errors
    /// `Truncated` if the original has no whole IPv6 header, `BadLength` if it is not cut.
    pub fn emit_in_place(&self, packet: &mut [u8]) -> Result<()> {
        if packet.len() < Self::HEADERS_LEN + ipv6::HEADER_LEN {
            return Err(WireError::Truncated);
        }
        if packet.len() > Self::MAX_LEN {
            return Err(WireError::BadLength);
        }
        let dst_addr = Ipv6Packet::new_unchecked(&packet[Self::HEADERS_LEN..]).src_addr();
        let header = Ipv6Repr {
            src_addr: self.src_addr,
            dst_addr,
            next_header: IpProtocol::ICMPV6,
            hop_limit: self.hop_limit,
            traffic_class: 0,
            flow_label: FlowLabel::default(),
            payload_len: (packet.len() - ipv6::HEADER_LEN) as u16,
        };
        header.emit(&mut Ipv6Packet::new_unchecked(&mut packet[..]))?;
        let (msg_type, code, rest) = self.kind.to_fields();
        let mut icmp = Icmpv6Packet::new_unchecked(&mut packet[ipv6::HEADER_LEN..]);
        icmp.set_msg_type(msg_type);
        icmp.set_code(code);
        icmp.set_rest_of_header(rest);
        icmp.fill_checksum(&self.src_addr, &dst_addr);
        Ok(())
    }

    /// Writes the error about `original`, a packet from its IPv6 header on (link padding behind
    /// it is not quoted), into `buffer`. Returns the error's length in bytes, at most `MAX_LEN`.
    ///
    /// # Errors
    /// `Truncated` if the original has no whole IPv6 header or the buffer is too short.
    pub fn emit(&self, buffer: &mut [u8], original: &[u8]) -> Result<usize> {
        if original.len() < ipv6::HEADER_LEN {
            return Err(WireError::Truncated);
        }
        let in_packet = original
            .len()
            .min(Ipv6Packet::new_unchecked(original).total_len());
        let quoted = Self::quoted_len(in_packet);
        let len = Self::HEADERS_LEN + quoted;
        let packet = buffer.get_mut(..len).ok_or(WireError::Truncated)?;
        put(packet, Self::HEADERS_LEN, &original[..quoted]);
        self.emit_in_place(packet)?;
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::l4_checksum_valid;
    use crate::{
        Icmpv4Repr, Icmpv4TimeExceeded, Icmpv6ParamProblem, Icmpv6Repr, Icmpv6TimeExceeded,
        PacketBuilder,
    };
    use proptest::collection::vec;
    use proptest::prelude::*;

    const SRC: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
    const DST: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2);

    mod v4 {
        use super::*;

        fn datagram(payload: usize) -> Vec<u8> {
            PacketBuilder::bare()
                .ipv4(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2))
                .udp(1000, 2000)
                .payload_len(payload)
                .build()
        }

        fn builder() -> Icmpv4ErrorBuilder {
            Icmpv4ErrorBuilder {
                src_addr: Ipv4Addr::new(10, 0, 0, 254),
                kind: Icmpv4ErrorKind::TimeExceeded(Icmpv4TimeExceeded::Ttl),
                ttl: 64,
                ident: 7,
            }
        }

        #[test]
        fn an_error_goes_to_the_source_and_quotes_up_to_576_bytes() {
            for (payload, quoted) in [(0, 28), (519, 547), (520, 548), (521, 548), (1400, 548)] {
                let original = datagram(payload);
                let mut buffer = [0u8; Icmpv4ErrorBuilder::MAX_LEN];
                let len = builder().emit(&mut buffer, &original).unwrap();
                assert_eq!(len, 28 + quoted);
                let packet = Ipv4Packet::new_checked(&buffer[..len]).unwrap();
                let header = Ipv4Repr::parse(&packet).unwrap();
                assert_eq!(header.dst_addr, Ipv4Addr::new(10, 0, 0, 1));
                assert_eq!((header.tos, header.ttl, header.ident), (0xc0, 64, 7));
                let repr = Icmpv4Repr::parse(&Icmpv4Packet::new_checked(packet.payload()).unwrap())
                    .unwrap();
                let kind = builder().kind;
                assert_eq!(
                    repr,
                    Icmpv4Repr::Error {
                        kind,
                        original: &original[..quoted]
                    }
                );
            }
        }

        #[test]
        fn an_error_does_not_quote_link_padding() {
            let mut original = datagram(0);
            original.extend([0; 18]);
            let mut buffer = [0u8; 576];
            assert_eq!(builder().emit(&mut buffer, &original), Ok(56));
        }

        #[test]
        fn errors_refuse_short_originals_and_buffers() {
            let original = datagram(0);
            assert_eq!(
                builder().emit(&mut [0; 576], &original[..19]),
                Err(WireError::Truncated)
            );
            assert_eq!(
                builder().emit(&mut [0; 55], &original),
                Err(WireError::Truncated)
            );
            assert_eq!(
                builder().emit_in_place(&mut [0; 47]),
                Err(WireError::Truncated)
            );
            assert_eq!(
                builder().emit_in_place(&mut [0; 577]),
                Err(WireError::BadLength)
            );
        }

        #[test]
        fn no_error_about_errors_later_fragments_groups_and_odd_sources() {
            let may = |change: &dyn Fn(&mut [u8])| {
                let mut bytes = datagram(8);
                change(&mut bytes);
                Icmpv4ErrorBuilder::may_be_sent_about(&bytes)
            };
            assert!(may(&|_| ()));
            assert!(may(&|b| b[6] = 0x20), "a first fragment");
            assert!(!may(&|b| b[7] = 1), "a later fragment");
            assert!(!may(&|b| b[16] = 224), "to a group");
            assert!(!may(&|b| b[16..20].fill(255)), "to everybody");
            for source in [0u8, 127, 224, 240, 255] {
                assert!(!may(&|b| b[12] = source), "from {source}.0.0.1");
            }
            let icmp = |msg_type: u8| may(&|b| (b[9], b[20]) = (1, msg_type));
            assert!(icmp(8) && icmp(0) && !icmp(3) && !icmp(5) && !icmp(11));
            let mut bytes = datagram(0);
            bytes[9] = 1;
            assert!(
                !Icmpv4ErrorBuilder::may_be_sent_about(&bytes[..20]),
                "an ICMP type that is cut off"
            );
            assert!(!Icmpv4ErrorBuilder::may_be_sent_about(&bytes[..19]));
        }

        proptest! {
            #[test]
            fn any_bytes_are_answered(mut bytes in vec(any::<u8>(), 1..120)) {
                bytes[0] = 0x40 | bytes[0] & 0x0f;
                if Icmpv4ErrorBuilder::may_be_sent_about(&bytes) {
                    let mut buffer = [0; 576];
                    let len = builder().emit(&mut buffer, &bytes).unwrap();
                    let error = Ipv4Packet::new_checked(&buffer[..len]).unwrap();
                    prop_assert!(error.verify_checksum());
                }
            }
        }
    }

    mod v6 {
        use super::*;

        fn datagram(payload: usize) -> Vec<u8> {
            PacketBuilder::bare()
                .ipv6(SRC, DST)
                .udp(1000, 2000)
                .payload_len(payload)
                .build()
        }

        fn builder() -> Icmpv6ErrorBuilder {
            let src_addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0xfe);
            let kind = Icmpv6ErrorKind::TimeExceeded(Icmpv6TimeExceeded::HopLimit);
            Icmpv6ErrorBuilder {
                src_addr,
                kind,
                hop_limit: 64,
            }
        }

        #[test]
        fn an_error_goes_to_the_source_and_quotes_up_to_1280_bytes() {
            for (payload, quoted) in [
                (0, 48),
                (1183, 1231),
                (1184, 1232),
                (1185, 1232),
                (9000, 1232),
            ] {
                let mut original = datagram(payload);
                original.extend([0; 3]); // link padding
                let mut buffer = [0u8; Icmpv6ErrorBuilder::MAX_LEN];
                let len = builder().emit(&mut buffer, &original).unwrap();
                assert_eq!(len, 48 + quoted);
                let packet = Ipv6Packet::new_checked(&buffer[..len]).unwrap();
                let header = Ipv6Repr::parse(&packet).unwrap();
                assert_eq!((header.dst_addr, header.hop_limit), (SRC, 64));
                let icmp = Icmpv6Packet::new_checked(packet.payload()).unwrap();
                let repr = Icmpv6Repr::parse(&header.src_addr, &SRC, &icmp).unwrap();
                let kind = builder().kind;
                assert_eq!(
                    repr,
                    Icmpv6Repr::Error {
                        kind,
                        original: &original[..quoted]
                    }
                );
            }
        }

        #[test]
        fn errors_refuse_short_originals_and_buffers() {
            let original = datagram(0);
            assert_eq!(
                builder().emit(&mut [0; 1280], &original[..39]),
                Err(WireError::Truncated)
            );
            assert_eq!(
                builder().emit(&mut [0; 95], &original),
                Err(WireError::Truncated)
            );
            assert_eq!(
                builder().emit_in_place(&mut [0; 87]),
                Err(WireError::Truncated)
            );
            assert_eq!(
                builder().emit_in_place(&mut [0; 1281]),
                Err(WireError::BadLength)
            );
        }

        #[test]
        fn no_error_about_errors_later_fragments_groups_and_odd_sources() {
            let may = |kind: Icmpv6ErrorKind, change: &dyn Fn(&mut [u8])| {
                let mut bytes = datagram(8);
                change(&mut bytes);
                Icmpv6ErrorBuilder { kind, ..builder() }.may_be_sent_about(&bytes)
            };
            let late = builder().kind;
            let big = Icmpv6ErrorKind::PacketTooBig { mtu: 1280 };
            let option = Icmpv6ErrorKind::ParamProblem {
                problem: Icmpv6ParamProblem::Option,
                pointer: 42,
            };
            assert!(may(late, &|_| ()));
            let to_group = |b: &mut [u8]| b[24] = 0xff;
            assert!(!may(late, &to_group) && may(big, &to_group) && may(option, &to_group));
            assert!(!may(big, &|b| b[8] = 0xff), "from a group");
            assert!(!may(big, &|b| b[8..24].fill(0)), "from nobody");
            let icmp = |msg_type: u8| may(late, &|b| (b[6], b[40]) = (58, msg_type));
            assert!(icmp(128) && icmp(135) && !icmp(1) && !icmp(127) && !icmp(137));
            let piece = |offset: u8| {
                may(late, &|b| {
                    b[6] = 44;
                    b[40..44].copy_from_slice(&[17, 0, 0, offset]);
                })
            };
            assert!(piece(1) && !piece(8));
            assert!(!builder().may_be_sent_about(&datagram(0)[..39]));
        }

        proptest! {
            #[test]
            fn any_bytes_are_answered(mut bytes in vec(any::<u8>(), 1..120), next in 0usize..4) {
                bytes[0] = 0x60;
                if let Some(byte) = bytes.get_mut(6) {
                    *byte = [0, 44, 58, 17][next];
                }
                if builder().may_be_sent_about(&bytes) {
                    let mut buffer = [0; 1280];
                    let len = builder().emit(&mut buffer, &bytes).unwrap();
                    prop_assert_eq!(l4_checksum_valid(&buffer[..len]), Some(true));
                }
            }
        }
    }
}
