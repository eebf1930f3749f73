//! UDP (RFC 768; zero checksums over IPv6 per RFC 8200 section 8.1).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::checksum::{Checksum, pseudo_v4, pseudo_v6};
use crate::field::{put_u16, u16_at};
use crate::view::view;
use crate::{IpProtocol, Result, WireError};

mod at {
    pub const SRC_PORT: usize = 0;
    pub const DST_PORT: usize = 2;
    pub const LEN: usize = 4;
    pub const CHECKSUM: usize = 6;
}

view! {
    /// A view of a datagram.
    Packet, "Bytes of the header." HEADER_LEN = 8,
    /// `Truncated` also if the payload is not all there, `BadLength` if the length is under 8.
    claims check_claims
}

/// The pseudo-header of either family, or `None` when the families differ.
pub(crate) fn pseudo(src: IpAddr, dst: IpAddr, protocol: IpProtocol, len: u16) -> Option<Checksum> {
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => Some(pseudo_v4(src, dst, protocol, len)),
        (IpAddr::V6(src), IpAddr::V6(dst)) => Some(pseudo_v6(&src, &dst, protocol, u32::from(len))),
        _ => None,
    }
}

impl<T: AsRef<[u8]>> Packet<T> {
    #[inline]
    fn check_claims(&self) -> Result<()> {
        match usize::from(self.len_field()) {
            claimed if claimed < HEADER_LEN => Err(WireError::BadLength),
            claimed if claimed > self.buffer.as_ref().len() => Err(WireError::Truncated),
            _ => Ok(()),
        }
    }

    /// The source port.
    #[inline]
    pub fn src_port(&self) -> u16 {
        u16_at(self.buffer.as_ref(), at::SRC_PORT)
    }

    /// The destination port.
    #[inline]
    pub fn dst_port(&self) -> u16 {
        u16_at(self.buffer.as_ref(), at::DST_PORT)
    }

    /// The length field: bytes of header and payload.
    #[inline]
    pub fn len_field(&self) -> u16 {
        u16_at(self.buffer.as_ref(), at::LEN)
    }

    /// The checksum as it stands; 0 is "none".
    #[inline]
    pub fn checksum(&self) -> u16 {
        u16_at(self.buffer.as_ref(), at::CHECKSUM)
    }

    /// What follows the header up to the length field.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        let data = self.buffer.as_ref();
        data.get(HEADER_LEN..usize::from(self.len_field()))
            .unwrap_or(&[])
    }

    /// Whether the checksum is right between these addresses. "None" is right over IPv4 only.
    pub fn verify_checksum(&self, src: IpAddr, dst: IpAddr) -> bool {
        let len = self.len_field();
        let Some(data) = self.buffer.as_ref().get(..usize::from(len)) else {
            return false;
        };
        if self.checksum() == 0 {
            return src.is_ipv4();
        }
        pseudo(src, dst, IpProtocol::UDP, len).is_some_and(|mut sum| {
            sum.add(data);
            sum.finish() == 0
        })
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Sets the source port.
    #[inline]
    pub fn set_src_port(&mut self, port: u16) {
        put_u16(self.buffer.as_mut(), at::SRC_PORT, port);
    }

    /// Sets the destination port.
    #[inline]
    pub fn set_dst_port(&mut self, port: u16) {
        put_u16(self.buffer.as_mut(), at::DST_PORT, port);
    }

    /// Sets the bytes of header and payload.
    #[inline]
    pub fn set_len_field(&mut self, len: u16) {
        put_u16(self.buffer.as_mut(), at::LEN, len);
    }

    /// Sets the checksum.
    #[inline]
    pub fn set_checksum(&mut self, checksum: u16) {
        put_u16(self.buffer.as_mut(), at::CHECKSUM, checksum);
    }

    /// Computes and sets the checksum over IPv4.
    pub fn fill_checksum_v4(&mut self, src: Ipv4Addr, dst: Ipv4Addr) {
        self.fill(pseudo_v4(src, dst, IpProtocol::UDP, self.len_field()));
    }

    /// Computes and sets the checksum over IPv6.
    pub fn fill_checksum_v6(&mut self, src: Ipv6Addr, dst: Ipv6Addr) {
        self.fill(pseudo_v6(
            &src,
            &dst,
            IpProtocol::UDP,
            u32::from(self.len_field()),
        ));
    }

    fn fill(&mut self, mut sum: Checksum) {
        self.set_checksum(0);
        let len = usize::from(self.len_field());
        sum.add(self.buffer.as_ref().get(..len).unwrap_or(&[]));
        // A computed zero is sent as all ones.
        self.set_checksum(match sum.finish() {
            0 => 0xffff,
            sum => sum,
        });
    }

    /// What follows the header up to the length field.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let range = HEADER_LEN..usize::from(self.len_field());
        self.buffer.as_mut().get_mut(range).unwrap_or(&mut [])
    }
}

/// A UDP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Repr {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Bytes of payload, at most 65,527.
    pub payload_len: u16,
}

impl Repr {
    /// Reads the header; the checksum is `Packet::verify_checksum`'s matter.
    ///
    /// # Errors
    /// `Truncated`, `BadLength` as in `Packet::new_checked`; `Malformed` for destination port 0.
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Result<Repr> {
        packet.check_len()?;
        if packet.dst_port() == 0 {
            return Err(WireError::Malformed);
        }
        Ok(Repr {
            src_port: packet.src_port(),
            dst_port: packet.dst_port(),
            payload_len: packet.len_field() - HEADER_LEN as u16,
        })
    }

    /// Bytes that `emit` writes: the header.
    pub const fn buffer_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the header with a checksum of 0, "none"; fill it when the payload is in place.
    ///
    /// # Errors
    /// `Truncated` if the buffer is shorter than `buffer_len`, `BadLength` if header and payload
    /// are over 65,535 bytes.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, packet: &mut Packet<T>) -> Result<()> {
        if packet.buffer.as_ref().len() < self.buffer_len() {
            return Err(WireError::Truncated);
        }
        let len = self
            .payload_len
            .checked_add(HEADER_LEN as u16)
            .ok_or(WireError::BadLength)?;
        packet.set_src_port(self.src_port);
        packet.set_dst_port(self.dst_port);
        packet.set_len_field(len);
        packet.set_checksum(0);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SRC: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
    const DST: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
    const DATAGRAM: [u8; 11] = [
        0x03, 0xe8, 0x07, 0xd0, 0x00, 0x0b, 0x1b, 0xbb, 0x61, 0x62, 0x63,
    ];

    fn repr() -> Repr {
        Repr {
            src_port: 1000,
            dst_port: 2000,
            payload_len: 3,
        }
    }

    #[test]
    fn parses_golden() {
        let packet = Packet::new_checked(&DATAGRAM[..]).unwrap();
        assert_eq!(Repr::parse(&packet), Ok(repr()));
        assert_eq!(packet.payload(), b"abc");
        assert!(packet.verify_checksum(SRC.into(), DST.into()));
        assert!(!packet.verify_checksum(SRC.into(), SRC.into()));
        assert!(!packet.verify_checksum(SRC.into(), Ipv6Addr::LOCALHOST.into()));
    }

    #[test]
    fn emits_golden() {
        let mut packet = Packet::new_unchecked([0xffu8; 11]);
        repr().emit(&mut packet).unwrap();
        packet.payload_mut().copy_from_slice(b"abc");
        packet.fill_checksum_v4(SRC, DST);
        assert_eq!(packet.into_inner(), DATAGRAM);
    }

    #[test]
    fn zero_checksum_is_for_ipv4_only() {
        let mut packet = Packet::new_checked(DATAGRAM).unwrap();
        packet.set_checksum(0);
        assert!(packet.verify_checksum(SRC.into(), DST.into()));
        let v6 = Ipv6Addr::LOCALHOST;
        assert!(!packet.verify_checksum(v6.into(), v6.into()));
        packet.fill_checksum_v6(v6, v6);
        assert!(packet.verify_checksum(v6.into(), v6.into()));
    }

    #[test]
    fn a_computed_zero_is_sent_as_ones() {
        let mut packet = Packet::new_checked(DATAGRAM).unwrap();
        // The source port absorbs the checksum, so that the right value would be 0.
        packet.set_src_port(1000 + 0x1bbb);
        packet.fill_checksum_v4(SRC, DST);
        assert_eq!(packet.checksum(), 0xffff);
        assert!(packet.verify_checksum(SRC.into(), DST.into()));
    }

    #[test]
    fn refuses_bad_lengths_and_port_zero() {
        let with = |at: usize, value: u8| {
            let mut bytes = DATAGRAM;
            bytes[at] = value;
            Packet::new_checked(bytes).and_then(|p| Repr::parse(&p))
        };
        assert_eq!(with(5, 7), Err(WireError::BadLength));
        assert_eq!(with(5, 12), Err(WireError::Truncated));
        assert_eq!(with(5, 10).map(|r| r.payload_len), Ok(2));
        assert_eq!(
            Packet::new_checked(&DATAGRAM[..7]),
            Err(WireError::Truncated)
        );
        let mut bytes = DATAGRAM;
        bytes[2..4].fill(0);
        assert_eq!(
            Repr::parse(&Packet::new_unchecked(bytes)),
            Err(WireError::Malformed)
        );
        let long = Repr {
            payload_len: 65_528,
            ..repr()
        };
        assert_eq!(
            long.emit(&mut Packet::new_unchecked([0; 8])),
            Err(WireError::BadLength)
        );
        assert_eq!(
            repr().emit(&mut Packet::new_unchecked([0; 7])),
            Err(WireError::Truncated)
        );
    }

    proptest! {
        #[test]
        fn round_trips(src_port: u16, dst_port in 1u16.., payload_len in 0u16..=65_527) {
            let repr = Repr { src_port, dst_port, payload_len };
            let len = HEADER_LEN + usize::from(payload_len);
            let mut packet = Packet::new_unchecked(vec![0xa5; len]);
            repr.emit(&mut packet).unwrap();
            packet.fill_checksum_v4(SRC, DST);
            prop_assert!(packet.verify_checksum(SRC.into(), DST.into()));
            prop_assert_eq!(Repr::parse(&packet), Ok(repr));
        }

        #[test]
        fn any_bytes_are_answered(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(packet) = Packet::new_checked(&bytes[..]) {
                let _ = (Repr::parse(&packet), packet.payload().len());
                let _ = packet.verify_checksum(SRC.into(), DST.into());
            }
        }
    }
}
