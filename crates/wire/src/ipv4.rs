//! IPv4 (RFC 791): header, options, fragments; type of service as RFC 2474 and 3168 split it.

use std::net::Ipv4Addr;

use crate::checksum::{checksum, update_u16};
use crate::field::{array_at, put, put_u16, u16_at};
use crate::view::view;
use crate::{IpProtocol, Result, WireError};

mod at {
    pub const VER_IHL: usize = 0;
    pub const TOS: usize = 1;
    pub const TOTAL_LEN: usize = 2;
    pub const IDENT: usize = 4;
    pub const FLAGS: usize = 6;
    pub const TTL: usize = 8;
    pub const PROTOCOL: usize = 9;
    pub const CHECKSUM: usize = 10;
    pub const SRC: usize = 12;
    pub const DST: usize = 16;
}

const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;
const OFFSET_MASK: u16 = 0x1fff;

view! {
    /// A view of a packet; the buffer may be longer than the packet (link padding).
    Packet, "Bytes of a header without options." HEADER_LEN = 20,
    /// `Truncated` if the packet that it announces is not all there, `BadLength` if the
    /// header length is under 20 or over the total length. Version and checksum are not judged.
    claims check_claims
}

impl<T: AsRef<[u8]>> Packet<T> {
    #[inline]
    fn check_claims(&self) -> Result<()> {
        let (header, total) = (self.header_len(), usize::from(self.total_len()));
        if header < HEADER_LEN || header > total {
            return Err(WireError::BadLength);
        }
        if total > self.buffer.as_ref().len() {
            return Err(WireError::Truncated);
        }
        Ok(())
    }

    /// The version, 4 in every valid packet.
    #[inline]
    pub fn version(&self) -> u8 {
        self.buffer.as_ref()[at::VER_IHL] >> 4
    }

    /// Bytes of the header with options, 0 to 60 as it stands.
    #[inline]
    pub fn header_len(&self) -> usize {
        usize::from(self.buffer.as_ref()[at::VER_IHL] & 0x0f) * 4
    }

    /// The type of service byte: DSCP in the upper six bits, ECN in the lower two.
    #[inline]
    pub fn tos(&self) -> u8 {
        self.buffer.as_ref()[at::TOS]
    }

    /// Bytes of header and payload.
    #[inline]
    pub fn total_len(&self) -> u16 {
        u16_at(self.buffer.as_ref(), at::TOTAL_LEN)
    }

    /// The identification that a datagram's fragments share.
    #[inline]
    pub fn ident(&self) -> u16 {
        u16_at(self.buffer.as_ref(), at::IDENT)
    }

    #[inline]
    fn flags_offset(&self) -> u16 {
        u16_at(self.buffer.as_ref(), at::FLAGS)
    }

    /// The "don't fragment" flag.
    #[inline]
    pub fn dont_fragment(&self) -> bool {
        self.flags_offset() & DONT_FRAGMENT != 0
    }

    /// The "more fragments" flag.
    #[inline]
    pub fn more_fragments(&self) -> bool {
        self.flags_offset() & MORE_FRAGMENTS != 0
    }

    /// Where this fragment's payload belongs in the datagram, in bytes (a multiple of 8).
    #[inline]
    pub fn fragment_offset(&self) -> u16 {
        (self.flags_offset() & OFFSET_MASK) << 3
    }

    /// Whether this is a piece of a datagram rather than a whole one.
    #[inline]
    pub fn is_fragment(&self) -> bool {
        self.flags_offset() & (MORE_FRAGMENTS | OFFSET_MASK) != 0
    }

    /// The time to live in hops.
    #[inline]
    pub fn ttl(&self) -> u8 {
        self.buffer.as_ref()[at::TTL]
    }

    /// The protocol of the payload.
    #[inline]
    pub fn protocol(&self) -> IpProtocol {
        IpProtocol(self.buffer.as_ref()[at::PROTOCOL])
    }

    /// The header checksum as it stands.
    #[inline]
    pub fn checksum(&self) -> u16 {
        u16_at(self.buffer.as_ref(), at::CHECKSUM)
    }

    /// The source address.
    #[inline]
    pub fn src_addr(&self) -> Ipv4Addr {
        Ipv4Addr::from(array_at::<4>(self.buffer.as_ref(), at::SRC))
    }

    /// The destination address.
    #[inline]
    pub fn dst_addr(&self) -> Ipv4Addr {
        Ipv4Addr::from(array_at::<4>(self.buffer.as_ref(), at::DST))
    }

    /// Whether the header checksum is right, options included.
    #[inline]
    pub fn verify_checksum(&self) -> bool {
        let data = self.buffer.as_ref();
        data.get(..self.header_len())
            .is_some_and(|header| checksum(header) == 0)
    }

    /// The options, in order; none if the header length points outside the bytes.
    #[inline]
    pub fn options(&self) -> Options<'_> {
        let data = self.buffer.as_ref();
        Options {
            rest: data.get(HEADER_LEN..self.header_len()).unwrap_or(&[]),
        }
    }

    /// What follows the header up to the total length.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        let data = self.buffer.as_ref();
        data.get(self.header_len()..usize::from(self.total_len()))
            .unwrap_or(&[])
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Sets version 4 and the header length in bytes, a multiple of 4 from 20 to 60.
    #[inline]
    pub fn set_version_and_header_len(&mut self, bytes: usize) {
        self.buffer.as_mut()[at::VER_IHL] = 0x40 | ((bytes / 4) & 0x0f) as u8;
    }

    /// Sets the type of service byte.
    #[inline]
    pub fn set_tos(&mut self, tos: u8) {
        self.buffer.as_mut()[at::TOS] = tos;
    }

    /// Sets the bytes of header and payload.
    #[inline]
    pub fn set_total_len(&mut self, len: u16) {
        put_u16(self.buffer.as_mut(), at::TOTAL_LEN, len);
    }

    /// Sets the identification.
    #[inline]
    pub fn set_ident(&mut self, ident: u16) {
        put_u16(self.buffer.as_mut(), at::IDENT, ident);
    }

    /// Sets flags and fragment offset; the reserved flag becomes 0.
    #[inline]
    pub fn set_fragment(&mut self, fragment: Fragment) {
        put_u16(self.buffer.as_mut(), at::FLAGS, fragment.0);
    }

    /// Sets the time to live.
    #[inline]
    pub fn set_ttl(&mut self, ttl: u8) {
        self.buffer.as_mut()[at::TTL] = ttl;
    }

    /// Sets the protocol of the payload.
    #[inline]
    pub fn set_protocol(&mut self, protocol: IpProtocol) {
        self.buffer.as_mut()[at::PROTOCOL] = protocol.0;
    }

    /// Sets the header checksum.
    #[inline]
    pub fn set_checksum(&mut self, checksum: u16) {
        put_u16(self.buffer.as_mut(), at::CHECKSUM, checksum);
    }

    /// Sets the source address.
    #[inline]
    pub fn set_src_addr(&mut self, addr: Ipv4Addr) {
        put(self.buffer.as_mut(), at::SRC, &addr.octets());
    }

    /// Sets the destination address.
    #[inline]
    pub fn set_dst_addr(&mut self, addr: Ipv4Addr) {
        put(self.buffer.as_mut(), at::DST, &addr.octets());
    }

    /// Computes and sets the header checksum, options included.
    #[inline]
    pub fn fill_checksum(&mut self) {
        self.set_checksum(0);
        let data = self.buffer.as_ref();
        let sum = data.get(..self.header_len()).map_or(0, checksum);
        self.set_checksum(sum);
    }

    /// Takes one from the time to live and corrects the checksum for it (RFC 1624). Returns the
    /// new value; a packet already at 0 stays as it is.
    #[inline]
    pub fn decrement_ttl(&mut self) -> u8 {
        let old = u16_at(self.buffer.as_ref(), at::TTL);
        if old >= 0x0100 {
            let sum = update_u16(self.checksum(), old, old - 0x0100);
            self.set_checksum(sum);
            self.set_ttl(((old >> 8) - 1) as u8);
        }
        self.ttl()
    }

    /// What follows the header up to the total length.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let range = self.header_len()..usize::from(self.total_len());
        self.buffer.as_mut().get_mut(range).unwrap_or(&mut [])
    }
}

/// One option of an IPv4 header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ipv4Option<'a> {
    /// The type byte: copied flag, class, number.
    pub kind: u8,
    /// What follows type and length; empty for a no-operation.
    pub data: &'a [u8],
}

impl Ipv4Option<'_> {
    /// The type of a no-operation, which has no length byte.
    pub const NO_OPERATION: u8 = 1;
    /// The type of router alert (RFC 2113).
    pub const ROUTER_ALERT: u8 = 148;
    /// The type of loose source and record route.
    pub const LOOSE_SOURCE_ROUTE: u8 = 131;
    /// The type of strict source and record route.
    pub const STRICT_SOURCE_ROUTE: u8 = 137;

    /// Whether every fragment must carry the option, not only the first.
    pub const fn is_copied(&self) -> bool {
        self.kind & 0x80 != 0
    }
}

/// The options of a header. Ends at the end-of-list option, or after one error.
#[derive(Debug, Clone)]
pub struct Options<'a> {
    rest: &'a [u8],
}

impl<'a> Options<'a> {
    /// The option bytes that have not been read yet, padding included.
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<Ipv4Option<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        let (&kind, after) = self.rest.split_first()?;
        match kind {
            0 => {
                self.rest = &[];
                None
            }
            Ipv4Option::NO_OPERATION => {
                self.rest = after;
                Some(Ok(Ipv4Option { kind, data: &[] }))
            }
            _ => {
                let len = after.first().map_or(0, |len| usize::from(*len));
                let Some(data) = self.rest.get(2..len) else {
                    self.rest = &[];
                    return Some(Err(WireError::BadLength));
                };
                self.rest = &self.rest[len..];
                Some(Ok(Ipv4Option { kind, data }))
            }
        }
    }
}

/// The flags and offset of a header: a whole datagram or a piece of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Fragment(u16);

impl Fragment {
    /// A whole datagram that routers may fragment.
    pub const NONE: Fragment = Fragment(0);
    /// A whole datagram that must not be fragmented.
    pub const DONT: Fragment = Fragment(DONT_FRAGMENT);

    /// A piece that begins `offset` bytes into the datagram's payload, with `more` pieces behind
    /// it. `None` unless `offset` is a multiple of 8.
    pub const fn piece(offset: u16, more: bool) -> Option<Fragment> {
        if !offset.is_multiple_of(8) {
            return None;
        }
        Some(Fragment(
            offset >> 3 | if more { MORE_FRAGMENTS } else { 0 },
        ))
    }

    /// The "don't fragment" flag.
    pub const fn dont_fragment(self) -> bool {
        self.0 & DONT_FRAGMENT != 0
    }

    /// The "more fragments" flag.
    pub const fn more_fragments(self) -> bool {
        self.0 & MORE_FRAGMENTS != 0
    }

    /// Offset in bytes.
    pub const fn offset(self) -> u16 {
        (self.0 & OFFSET_MASK) << 3
    }
}

/// An IPv4 header without options.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Repr {
    /// Source address.
    pub src_addr: Ipv4Addr,
    /// Destination address.
    pub dst_addr: Ipv4Addr,
    /// Protocol of the payload.
    pub protocol: IpProtocol,
    /// Time to live in hops.
    pub ttl: u8,
    /// Type of service byte: DSCP and ECN.
    pub tos: u8,
    /// Identification.
    pub ident: u16,
    /// Whole, or a piece.
    pub fragment: Fragment,
    /// Bytes of payload, at most 65,515.
    pub payload_len: u16,
}

impl Repr {
    /// Reads the header; options are dropped.
    ///
    /// # Errors
    /// `BadVersion`, `BadChecksum`; `Malformed` when a piece is said to be more than a datagram
    /// can hold, or the reserved flag is set.
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Result<Repr> {
        packet.check_len()?;
        if packet.version() != 4 {
            return Err(WireError::BadVersion);
        }
        if !packet.verify_checksum() {
            return Err(WireError::BadChecksum);
        }
        let payload_len = packet.total_len() - packet.header_len() as u16;
        let end = u32::from(packet.fragment_offset()) + u32::from(payload_len);
        if packet.flags_offset() & 0x8000 != 0 || end > u32::from(u16::MAX) {
            return Err(WireError::Malformed);
        }
        Ok(Repr {
            src_addr: packet.src_addr(),
            dst_addr: packet.dst_addr(),
            protocol: packet.protocol(),
            ttl: packet.ttl(),
            tos: packet.tos(),
            ident: packet.ident(),
            fragment: Fragment(packet.flags_offset()),
            payload_len,
        })
    }

    /// Bytes that `emit` writes: the header.
    pub const fn buffer_len(&self) -> usize {
        HEADER_LEN
    }

    /// Bytes of header and payload.
    pub const fn total_len(&self) -> usize {
        HEADER_LEN + self.payload_len as usize
    }

    /// Writes the header with its checksum.
    ///
    /// # Errors
    /// `Truncated` if the buffer is shorter than `buffer_len`, `BadLength` if header and payload
    /// are over 65,535 bytes.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, packet: &mut Packet<T>) -> Result<()> {
        if packet.buffer.as_ref().len() < self.buffer_len() {
            return Err(WireError::Truncated);
        }
        let total_len = u16::try_from(self.total_len()).map_err(|_| WireError::BadLength)?;
        packet.set_version_and_header_len(HEADER_LEN);
        packet.set_tos(self.tos);
        packet.set_total_len(total_len);
        packet.set_ident(self.ident);
        packet.set_fragment(self.fragment);
        packet.set_ttl(self.ttl);
        packet.set_protocol(self.protocol);
        packet.set_src_addr(self.src_addr);
        packet.set_dst_addr(self.dst_addr);
        packet.fill_checksum();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PACKET: [u8; 24] = [
        0x45, 0xb8, 0x00, 0x18, 0x12, 0x34, 0x20, 0x03, 0x40, 0xfd, 0x32, 0xf8, 0x0a, 0x00, 0x00,
        0x01, 0x0a, 0x00, 0x00, 0x02, 0xaa, 0xbb, 0xcc, 0xdd,
    ];

    fn repr() -> Repr {
        Repr {
            src_addr: Ipv4Addr::new(10, 0, 0, 1),
            dst_addr: Ipv4Addr::new(10, 0, 0, 2),
            protocol: IpProtocol::EXPERIMENTAL,
            ttl: 64,
            tos: 0xb8,
            ident: 0x1234,
            fragment: Fragment::piece(24, true).unwrap(),
            payload_len: 4,
        }
    }

    #[test]
    fn parses_golden() {
        let packet = Packet::new_checked(&PACKET[..]).unwrap();
        assert_eq!(Repr::parse(&packet), Ok(repr()));
        assert_eq!(packet.payload(), [0xaa, 0xbb, 0xcc, 0xdd]);
        assert!(packet.is_fragment() && packet.more_fragments() && !packet.dont_fragment());
        assert_eq!(packet.fragment_offset(), 24);
        assert_eq!(packet.options().count(), 0);
    }

    #[test]
    fn emits_golden() {
        let mut packet = Packet::new_unchecked([0xffu8; 24]);
        repr().emit(&mut packet).unwrap();
        packet
            .payload_mut()
            .copy_from_slice(&[0xaa, 0xbb, 0xcc, 0xdd]);
        assert_eq!(packet.into_inner(), PACKET);
    }

    #[test]
    fn padding_is_not_payload() {
        let mut padded = PACKET.to_vec();
        padded.extend([0u8; 22]);
        assert_eq!(Packet::new_checked(&padded[..]).unwrap().payload().len(), 4);
    }

    #[test]
    fn refuses_lengths_that_do_not_fit() {
        let with = |at: usize, value: u8| {
            let mut bytes = PACKET;
            bytes[at] = value;
            Packet::new_checked(bytes).map(|_| ())
        };
        assert_eq!(with(0, 0x44), Err(WireError::BadLength));
        assert_eq!(with(0, 0x47), Err(WireError::BadLength));
        assert_eq!(with(3, 0x13), Err(WireError::BadLength));
        assert_eq!(with(3, 0x19), Err(WireError::Truncated));
        assert_eq!(
            Packet::new_checked(&PACKET[..19]),
            Err(WireError::Truncated)
        );
    }

    #[test]
    fn repr_refuses_version_checksum_flag_and_overlong_piece() {
        let parse = |change: &dyn Fn(&mut Packet<[u8; 24]>), fill: bool| {
            let mut packet = Packet::new_unchecked(PACKET);
            change(&mut packet);
            if fill {
                packet.fill_checksum();
            }
            Repr::parse(&packet).map(|_| ())
        };
        assert_eq!(
            parse(&|p| p.buffer[0] = 0x65, true),
            Err(WireError::BadVersion)
        );
        assert_eq!(parse(&|p| p.set_ttl(1), false), Err(WireError::BadChecksum));
        assert_eq!(
            parse(&|p| p.buffer[6] |= 0x80, true),
            Err(WireError::Malformed)
        );
        let last = Fragment::piece(65528, false).unwrap();
        assert_eq!(parse(&|p| p.set_fragment(last), true), Ok(()));
        assert_eq!(
            parse(
                &|p| {
                    p.buffer[6..8].fill(0xff);
                    p.buffer[6] = 0x1f;
                    p.set_version_and_header_len(20);
                },
                true
            ),
            Ok(())
        );
        let mut long = [0u8; 40];
        long[..20].copy_from_slice(&PACKET[..20]);
        let mut packet = Packet::new_unchecked(long);
        packet.set_total_len(40);
        packet.set_fragment(last);
        packet.fill_checksum();
        assert_eq!(Repr::parse(&packet), Err(WireError::Malformed));
    }

    #[test]
    fn emit_refuses_short_buffers_and_long_payloads() {
        let mut short = Packet::new_unchecked([0u8; 19]);
        assert_eq!(repr().emit(&mut short), Err(WireError::Truncated));
        let mut packet = Packet::new_unchecked([0u8; 20]);
        let long = Repr {
            payload_len: 65_516,
            ..repr()
        };
        assert_eq!(long.emit(&mut packet), Err(WireError::BadLength));
        assert_eq!(Fragment::piece(4, false), None);
    }

    #[test]
    fn walks_options() {
        let mut bytes = [0u8; 32];
        bytes[0] = 0x48;
        bytes[3] = 32;
        bytes[20..28].copy_from_slice(&[1, 148, 4, 0, 0, 7, 2, 0]);
        let packet = Packet::new_checked(&bytes[..]).unwrap();
        let options: Vec<_> = packet.options().collect();
        assert_eq!(
            options,
            [
                Ok(Ipv4Option { kind: 1, data: &[] }),
                Ok(Ipv4Option {
                    kind: 148,
                    data: &[0, 0]
                }),
                Ok(Ipv4Option { kind: 7, data: &[] }),
            ]
        );
        assert!(
            Ipv4Option {
                kind: 148,
                data: &[]
            }
            .is_copied()
        );
    }

    #[test]
    fn a_bad_option_length_ends_the_walk() {
        for len in [0u8, 1, 13] {
            let mut bytes = [1u8; 32];
            bytes[0] = 0x48;
            bytes[2..4].copy_from_slice(&[0, 32]);
            bytes[20] = 7;
            bytes[21] = len;
            let packet = Packet::new_checked(&bytes[..]).unwrap();
            let options: Vec<_> = packet.options().collect();
            assert_eq!(options, [Err(WireError::BadLength)], "length {len}");
        }
    }

    #[test]
    fn decrementing_keeps_the_checksum_right() {
        let mut packet = Packet::new_checked(PACKET).unwrap();
        for expected in (0..64).rev() {
            assert_eq!(packet.decrement_ttl(), expected);
            assert!(packet.verify_checksum(), "at {expected}");
        }
        assert_eq!(packet.decrement_ttl(), 0);
        assert!(packet.verify_checksum());
    }

    prop_compose! {
        fn any_repr()(
            src: [u8; 4], dst: [u8; 4], protocol: u8, ttl: u8, tos: u8, ident: u16,
            flags in 0u16..8, offset: u16, payload_len in 0u16..=65_515,
        ) -> Repr {
            let offset = (offset & OFFSET_MASK).min((u16::MAX - payload_len) >> 3);
            Repr {
                src_addr: src.into(),
                dst_addr: dst.into(),
                protocol: IpProtocol(protocol),
                ttl,
                tos,
                ident,
                fragment: Fragment((flags & 3) << 13 | offset),
                payload_len,
            }
        }
    }

    proptest! {
        #[test]
        fn round_trips(repr in any_repr()) {
            let mut packet = Packet::new_unchecked(vec![0xa5u8; repr.total_len()]);
            repr.emit(&mut packet).unwrap();
            prop_assert_eq!(Repr::parse(&packet), Ok(repr));
        }

        #[test]
        fn any_bytes_are_answered(mut bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            if bytes.len() > 3 {
                bytes[2] = 0;
                bytes[3] %= 80;
            }
            if let Ok(mut packet) = Packet::new_checked(&mut bytes[..]) {
                let _ = (Repr::parse(&packet), packet.payload().len());
                prop_assert!(packet.options().count() <= 40);
                packet.fill_checksum();
                prop_assert!(packet.verify_checksum());
            }
        }
    }
}
