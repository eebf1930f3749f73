//! Ethernet II frames (RFC 894, IEEE 802.3 clause 3) without preamble and frame check sequence.

use core::fmt;

use crate::field::{array_at, put, put_u16, u16_at};
use crate::view::view;
use crate::{MacAddr, Result, WireError};

/// The type field of a frame or VLAN tag (IANA "IEEE 802 Numbers").
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EtherType(pub u16);

impl EtherType {
    /// IPv4 (RFC 894).
    pub const IPV4: EtherType = EtherType(0x0800);
    /// ARP (RFC 826).
    pub const ARP: EtherType = EtherType(0x0806);
    /// IEEE 802.1Q customer VLAN tag.
    pub const VLAN: EtherType = EtherType(0x8100);
    /// IPv6 (RFC 2464).
    pub const IPV6: EtherType = EtherType(0x86dd);
    /// MPLS (RFC 3032; RFC 5332 widened it from unicast to downstream-assigned labels).
    pub const MPLS: EtherType = EtherType(0x8847);
    /// MPLS with an upstream-assigned label (RFC 5332), once "MPLS multicast".
    pub const MPLS_UPSTREAM: EtherType = EtherType(0x8848);
    /// Slow protocols: LACP (IEEE 802.3 annex 57A).
    pub const SLOW: EtherType = EtherType(0x8809);
    /// IEEE 802.1ad service VLAN tag ("QinQ").
    pub const QINQ: EtherType = EtherType(0x88a8);
    /// IEEE 802 local experimental type 1.
    pub const EXPERIMENTAL: EtherType = EtherType(0x88b5);
    /// LLDP (IEEE 802.1AB).
    pub const LLDP: EtherType = EtherType(0x88cc);

    /// Whether the field is really an IEEE 802.3 payload length: types begin at 0x0600.
    #[inline]
    pub const fn is_length(self) -> bool {
        self.0 < 0x0600
    }

    /// Whether a VLAN tag follows.
    #[inline]
    pub const fn is_vlan(self) -> bool {
        matches!(self, Self::VLAN | Self::QINQ)
    }

    /// Whether an MPLS label stack follows.
    #[inline]
    pub const fn is_mpls(self) -> bool {
        matches!(self, Self::MPLS | Self::MPLS_UPSTREAM)
    }
}

impl fmt::Display for EtherType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::IPV4 => f.write_str("IPv4"),
            Self::ARP => f.write_str("ARP"),
            Self::VLAN => f.write_str("802.1Q"),
            Self::IPV6 => f.write_str("IPv6"),
            Self::MPLS => f.write_str("MPLS"),
            Self::MPLS_UPSTREAM => f.write_str("MPLS-upstream"),
            Self::QINQ => f.write_str("802.1ad"),
            Self::SLOW => f.write_str("slow-protocols"),
            Self::LLDP => f.write_str("LLDP"),
            EtherType(other) => write!(f, "0x{other:04x}"),
        }
    }
}

view! {
    /// A view of a frame: destination, source, type, payload.
    Frame, "Bytes in front of the payload." HEADER_LEN = 14
}

mod at {
    pub const DST: usize = 0;
    pub const SRC: usize = 6;
    pub const ETHERTYPE: usize = 12;
}

impl<T: AsRef<[u8]>> Frame<T> {
    /// The destination address.
    #[inline]
    pub fn dst_addr(&self) -> MacAddr {
        MacAddr(array_at(self.buffer.as_ref(), at::DST))
    }

    /// The source address.
    #[inline]
    pub fn src_addr(&self) -> MacAddr {
        MacAddr(array_at(self.buffer.as_ref(), at::SRC))
    }

    /// The type (or 802.3 length) field.
    #[inline]
    pub fn ethertype(&self) -> EtherType {
        EtherType(u16_at(self.buffer.as_ref(), at::ETHERTYPE))
    }

    /// What follows the type field, padding included.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.buffer.as_ref()[HEADER_LEN..]
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Frame<T> {
    /// Sets the destination address.
    #[inline]
    pub fn set_dst_addr(&mut self, addr: MacAddr) {
        put(self.buffer.as_mut(), at::DST, &addr.0);
    }

    /// Sets the source address.
    #[inline]
    pub fn set_src_addr(&mut self, addr: MacAddr) {
        put(self.buffer.as_mut(), at::SRC, &addr.0);
    }

    /// Sets the type field.
    #[inline]
    pub fn set_ethertype(&mut self, ethertype: EtherType) {
        put_u16(self.buffer.as_mut(), at::ETHERTYPE, ethertype.0);
    }

    /// What follows the type field.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        &mut self.buffer.as_mut()[HEADER_LEN..]
    }
}

/// An Ethernet II header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Repr {
    /// Source address.
    pub src_addr: MacAddr,
    /// Destination address.
    pub dst_addr: MacAddr,
    /// Type of the payload.
    pub ethertype: EtherType,
}

impl Repr {
    /// Reads the header.
    ///
    /// # Errors
    /// `Unsupported` for an 802.3 length field, `Malformed` for a group address as source.
    pub fn parse<T: AsRef<[u8]>>(frame: &Frame<T>) -> Result<Repr> {
        if frame.ethertype().is_length() {
            return Err(WireError::Unsupported);
        }
        if frame.src_addr().is_multicast() {
            return Err(WireError::Malformed);
        }
        Ok(Repr {
            src_addr: frame.src_addr(),
            dst_addr: frame.dst_addr(),
            ethertype: frame.ethertype(),
        })
    }

    /// Bytes that `emit` writes.
    pub const fn buffer_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the header.
    ///
    /// # Errors
    /// `Truncated` if the buffer is shorter than `buffer_len`.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, frame: &mut Frame<T>) -> Result<()> {
        if frame.buffer.as_ref().len() < self.buffer_len() {
            return Err(WireError::Truncated);
        }
        frame.set_dst_addr(self.dst_addr);
        frame.set_src_addr(self.src_addr);
        frame.set_ethertype(self.ethertype);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FRAME: [u8; 18] = [
        0x02, 0xfe, 0x00, 0x00, 0x00, 0x02, 0x02, 0xfe, 0x00, 0x00, 0x00, 0x01, 0x08, 0x00, 0xaa,
        0xbb, 0xcc, 0xdd,
    ];

    fn repr() -> Repr {
        Repr {
            src_addr: MacAddr([2, 0xfe, 0, 0, 0, 1]),
            dst_addr: MacAddr([2, 0xfe, 0, 0, 0, 2]),
            ethertype: EtherType::IPV4,
        }
    }

    #[test]
    fn parses_golden() {
        let frame = Frame::new_checked(&FRAME[..]).unwrap();
        assert_eq!(Repr::parse(&frame), Ok(repr()));
        assert_eq!(frame.payload(), [0xaa, 0xbb, 0xcc, 0xdd]);
        assert_eq!(frame.ethertype().to_string(), "IPv4");
    }

    #[test]
    fn emits_golden() {
        let mut bytes = [0u8; 18];
        let mut frame = Frame::new_unchecked(&mut bytes[..]);
        repr().emit(&mut frame).unwrap();
        frame
            .payload_mut()
            .copy_from_slice(&[0xaa, 0xbb, 0xcc, 0xdd]);
        assert_eq!(bytes, FRAME);
    }

    #[test]
    fn refuses_short_frames_and_buffers() {
        assert_eq!(Frame::new_checked(&FRAME[..13]), Err(WireError::Truncated));
        let mut frame = Frame::new_unchecked([0u8; 13]);
        assert_eq!(repr().emit(&mut frame), Err(WireError::Truncated));
    }

    #[test]
    fn refuses_length_fields_and_group_sources() {
        let mut bytes = FRAME;
        bytes[12..14].copy_from_slice(&[0x05, 0xff]);
        let parsed = Repr::parse(&Frame::new_unchecked(&bytes[..]));
        assert_eq!(parsed, Err(WireError::Unsupported));
        bytes = FRAME;
        bytes[6] = 0x03;
        let parsed = Repr::parse(&Frame::new_unchecked(&bytes[..]));
        assert_eq!(parsed, Err(WireError::Malformed));
    }

    proptest! {
        #[test]
        fn round_trips(src: [u8; 6], dst: [u8; 6], ethertype in 0x0600u16..) {
            let mut src_addr = MacAddr(src);
            src_addr.0[0] &= 0xfe;
            let repr = Repr { src_addr, dst_addr: MacAddr(dst), ethertype: EtherType(ethertype) };
            let mut frame = Frame::new_unchecked([0u8; HEADER_LEN]);
            repr.emit(&mut frame).unwrap();
            prop_assert_eq!(Repr::parse(&frame), Ok(repr));
        }

        #[test]
        fn any_bytes_are_answered(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(frame) = Frame::new_checked(&bytes[..]) {
                let _ = (Repr::parse(&frame), frame.payload(), frame.ethertype().to_string());
            }
        }
    }
}
