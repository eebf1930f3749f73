//! IPv6 (RFC 8200): the fixed header and a bounded walk over extension headers.

use std::net::Ipv6Addr;

use crate::field::{array_at, put, put_u16, put_u32, u16_at, u32_at};
use crate::view::view;
use crate::{IpProtocol, Result, WireError};

mod at {
    pub const VER_TC_FLOW: usize = 0;
    pub const PAYLOAD_LEN: usize = 4;
    pub const NEXT_HEADER: usize = 6;
    pub const HOP_LIMIT: usize = 7;
    pub const SRC: usize = 8;
    pub const DST: usize = 24;
}

/// How many extension headers a walk steps over before it gives up. RFC 8200 needs six in one
/// packet; the bound keeps a hostile chain from costing more than a packet should.
pub const MAX_EXTENSION_HEADERS: usize = 8;

/// A flow label of 20 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct FlowLabel(u32);

impl FlowLabel {
    /// A label, or `None` over 20 bits.
    pub const fn new(label: u32) -> Option<FlowLabel> {
        if label < 1 << 20 {
            Some(FlowLabel(label))
        } else {
            None
        }
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

view! {
    /// A view of a packet; the buffer may be longer than the packet (link padding).
    Packet, "Bytes of the fixed header." HEADER_LEN = 40,
    /// `Truncated` also if the payload that it announces is not all there. The version is
    /// not judged. Jumbograms (RFC 2675) are not known: a length of 0 is an empty payload.
    claims check_claims
}

impl<T: AsRef<[u8]>> Packet<T> {
    #[inline]
    fn check_claims(&self) -> Result<()> {
        if self.total_len() > self.buffer.as_ref().len() {
            return Err(WireError::Truncated);
        }
        Ok(())
    }

    /// The version, 6 in every valid packet.
    #[inline]
    pub fn version(&self) -> u8 {
        self.buffer.as_ref()[at::VER_TC_FLOW] >> 4
    }

    /// The traffic class: DSCP in the upper six bits, ECN in the lower two.
    #[inline]
    pub fn traffic_class(&self) -> u8 {
        (u16_at(self.buffer.as_ref(), at::VER_TC_FLOW) >> 4) as u8
    }

    /// The flow label.
    #[inline]
    pub fn flow_label(&self) -> FlowLabel {
        FlowLabel(u32_at(self.buffer.as_ref(), at::VER_TC_FLOW) & 0x000f_ffff)
    }

    /// Bytes behind the fixed header, extension headers included.
    #[inline]
    pub fn payload_len(&self) -> u16 {
        u16_at(self.buffer.as_ref(), at::PAYLOAD_LEN)
    }

    /// Bytes of fixed header and payload.
    #[inline]
    pub fn total_len(&self) -> usize {
        HEADER_LEN + usize::from(self.payload_len())
    }

    /// The type of the header that follows the fixed one.
    #[inline]
    pub fn next_header(&self) -> IpProtocol {
        IpProtocol(self.buffer.as_ref()[at::NEXT_HEADER])
    }

    /// The hop limit.
    #[inline]
    pub fn hop_limit(&self) -> u8 {
        self.buffer.as_ref()[at::HOP_LIMIT]
    }

    /// The source address.
    #[inline]
    pub fn src_addr(&self) -> Ipv6Addr {
        Ipv6Addr::from(array_at::<16>(self.buffer.as_ref(), at::SRC))
    }

    /// The destination address.
    #[inline]
    pub fn dst_addr(&self) -> Ipv6Addr {
        Ipv6Addr::from(array_at::<16>(self.buffer.as_ref(), at::DST))
    }

    /// What follows the fixed header, extension headers included.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        let data = self.buffer.as_ref();
        data.get(HEADER_LEN..self.total_len()).unwrap_or(&[])
    }

    /// The extension headers, in order. Works on packets that are cut short, too: what is not
    /// there ends the walk with `Truncated`.
    #[inline]
    pub fn extension_headers(&self) -> ExtensionHeaders<'_> {
        let data = self.buffer.as_ref();
        let end = self.total_len().min(data.len());
        ExtensionHeaders::new(self.next_header(), data.get(HEADER_LEN..end).unwrap_or(&[]))
    }

    /// Walks to the upper layer.
    ///
    /// # Errors
    /// Those of the walk; see [`ExtensionHeaders`].
    #[inline]
    pub fn upper_layer(&self) -> Result<UpperLayer> {
        let mut upper = UpperLayer {
            protocol: self.next_header(),
            offset: HEADER_LEN,
            fragment: None,
            segments_left: 0,
        };
        if !upper.protocol.is_ipv6_extension() {
            return Ok(upper);
        }
        for header in self.extension_headers() {
            let header = header?;
            upper.protocol = header.next;
            upper.offset = HEADER_LEN + header.offset + header.data.len();
            if header.kind == IpProtocol::FRAGMENT {
                upper.fragment = header.fragment();
            } else if header.kind == IpProtocol::ROUTING {
                upper.segments_left = header.data[3];
            }
        }
        Ok(upper)
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Sets version 6, traffic class and flow label.
    #[inline]
    pub fn set_version_class_label(&mut self, traffic_class: u8, label: FlowLabel) {
        let word = 6 << 28 | u32::from(traffic_class) << 20 | label.0;
        put_u32(self.buffer.as_mut(), at::VER_TC_FLOW, word);
    }

    /// Sets the bytes behind the fixed header.
    #[inline]
    pub fn set_payload_len(&mut self, len: u16) {
        put_u16(self.buffer.as_mut(), at::PAYLOAD_LEN, len);
    }

    /// Sets the type of the next header.
    #[inline]
    pub fn set_next_header(&mut self, protocol: IpProtocol) {
        self.buffer.as_mut()[at::NEXT_HEADER] = protocol.0;
    }

    /// Sets the hop limit.
    #[inline]
    pub fn set_hop_limit(&mut self, hop_limit: u8) {
        self.buffer.as_mut()[at::HOP_LIMIT] = hop_limit;
    }

    /// Sets the source address.
    #[inline]
    pub fn set_src_addr(&mut self, addr: Ipv6Addr) {
        put(self.buffer.as_mut(), at::SRC, &addr.octets());
    }

    /// Sets the destination address.
    #[inline]
    pub fn set_dst_addr(&mut self, addr: Ipv6Addr) {
        put(self.buffer.as_mut(), at::DST, &addr.octets());
    }

    /// What follows the fixed header, extension headers included.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let range = HEADER_LEN..self.total_len();
        self.buffer.as_mut().get_mut(range).unwrap_or(&mut [])
    }
}

/// One extension header, whole: its length has been checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExtensionHeader<'a> {
    /// What it is.
    pub kind: IpProtocol,
    /// What follows it.
    pub next: IpProtocol,
    /// Bytes between the fixed header and this one.
    pub offset: usize,
    /// All its bytes, at least 8.
    pub data: &'a [u8],
}

impl ExtensionHeader<'_> {
    /// The fragment header, if it is one.
    pub fn fragment(&self) -> Option<FragmentHeader> {
        if self.kind != IpProtocol::FRAGMENT || self.data.len() < 8 {
            return None;
        }
        let word = u16_at(self.data, 2);
        Some(FragmentHeader {
            offset: word & 0xfff8,
            more: word & 1 != 0,
            ident: u32_at(self.data, 4),
        })
    }
}

/// A fragment header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FragmentHeader {
    /// Where this piece belongs, in bytes (a multiple of 8).
    pub offset: u16,
    /// Whether more pieces follow.
    pub more: bool,
    /// Shared by the pieces of one packet.
    pub ident: u32,
}

/// Where the chain of extension headers ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpperLayer {
    /// What is there. Behind a fragment header with an offset it is not a header but the middle
    /// of one packet's payload.
    pub protocol: IpProtocol,
    /// Bytes from the start of the fixed header; may equal the packet's length.
    pub offset: usize,
    /// The fragment header, if there was one.
    pub fragment: Option<FragmentHeader>,
    /// Of the last routing header: how many hops are still to be visited.
    pub segments_left: u8,
}

impl UpperLayer {
    /// Whether this is a piece of a packet. A fragment header with offset 0 and nothing behind
    /// it ("atomic fragment", RFC 6946) is a whole packet.
    pub const fn is_fragment(&self) -> bool {
        matches!(self.fragment, Some(f) if f.offset != 0 || f.more)
    }

    /// Whether the upper-layer header is elsewhere, in the packet's first fragment.
    pub const fn is_later_fragment(&self) -> bool {
        matches!(self.fragment, Some(f) if f.offset != 0)
    }
}

/// A walk over extension headers. Ends at the upper layer, behind a fragment header with an
/// offset, or after one error: `Truncated` when a header is not all there, `Malformed` when
/// hop-by-hop options are not first or there are more than [`MAX_EXTENSION_HEADERS`].
#[derive(Debug, Clone)]
pub struct ExtensionHeaders<'a> {
    next: IpProtocol,
    data: &'a [u8],
    offset: usize,
    seen: usize,
    done: bool,
}

impl<'a> ExtensionHeaders<'a> {
    /// A walk over `data`, whose first header is of type `first`.
    pub const fn new(first: IpProtocol, data: &'a [u8]) -> ExtensionHeaders<'a> {
        ExtensionHeaders {
            next: first,
            data,
            offset: 0,
            seen: 0,
            done: false,
        }
    }

    fn step(&mut self) -> Result<ExtensionHeader<'a>> {
        let late_hop_by_hop = self.next == IpProtocol::HOP_BY_HOP && self.seen > 0;
        if late_hop_by_hop || self.seen == MAX_EXTENSION_HEADERS {
            return Err(WireError::Malformed);
        }
        let rest = self.data.get(self.offset..).unwrap_or(&[]);
        let &[next, len, ..] = rest else {
            return Err(WireError::Truncated);
        };
        let bytes = match self.next {
            IpProtocol::FRAGMENT => 8,
            // RFC 4302: in words of 4 bytes, less 2.
            IpProtocol::AH => (usize::from(len) + 2) * 4,
            _ => (usize::from(len) + 1) * 8,
        };
        let data = rest.get(..bytes).ok_or(WireError::Truncated)?;
        Ok(ExtensionHeader {
            kind: self.next,
            next: IpProtocol(next),
            offset: self.offset,
            data,
        })
    }
}

impl<'a> Iterator for ExtensionHeaders<'a> {
    type Item = Result<ExtensionHeader<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done || !self.next.is_ipv6_extension() {
            return None;
        }
        let step = self.step();
        match &step {
            Ok(header) => {
                self.next = header.next;
                self.offset += header.data.len();
                self.seen += 1;
                // What follows a later fragment's header is payload, whatever its bytes say.
                self.done = header.fragment().is_some_and(|f| f.offset != 0);
            }
            Err(_) => self.done = true,
        }
        Some(step)
    }
}

/// A fixed IPv6 header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Repr {
    /// Source address.
    pub src_addr: Ipv6Addr,
    /// Destination address.
    pub dst_addr: Ipv6Addr,
    /// Type of what follows.
    pub next_header: IpProtocol,
    /// Hop limit.
    pub hop_limit: u8,
    /// Traffic class: DSCP and ECN.
    pub traffic_class: u8,
    /// Flow label.
    pub flow_label: FlowLabel,
    /// Bytes behind the fixed header.
    pub payload_len: u16,
}

impl Repr {
    /// Reads the header.
    ///
    /// # Errors
    /// `BadVersion`; `Truncated` if the payload is not all there; `Malformed` for a multicast
    /// source (RFC 4291 section 2.7).
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Result<Repr> {
        packet.check_len()?;
        if packet.version() != 6 {
            return Err(WireError::BadVersion);
        }
        if packet.src_addr().is_multicast() {
            return Err(WireError::Malformed);
        }
        Ok(Repr {
            src_addr: packet.src_addr(),
            dst_addr: packet.dst_addr(),
            next_header: packet.next_header(),
            hop_limit: packet.hop_limit(),
            traffic_class: packet.traffic_class(),
            flow_label: packet.flow_label(),
            payload_len: packet.payload_len(),
        })
    }

    /// Bytes that `emit` writes: the fixed header.
    pub const fn buffer_len(&self) -> usize {
        HEADER_LEN
    }

    /// Bytes of fixed header and payload.
    pub const fn total_len(&self) -> usize {
        HEADER_LEN + self.payload_len as usize
    }

    /// Writes the header.
    ///
    /// # Errors
    /// `Truncated` if the buffer is shorter than `buffer_len`.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, packet: &mut Packet<T>) -> Result<()> {
        if packet.buffer.as_ref().len() < self.buffer_len() {
            return Err(WireError::Truncated);
        }
        packet.set_version_class_label(self.traffic_class, self.flow_label);
        packet.set_payload_len(self.payload_len);
        packet.set_next_header(self.next_header);
        packet.set_hop_limit(self.hop_limit);
        packet.set_src_addr(self.src_addr);
        packet.set_dst_addr(self.dst_addr);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PACKET: [u8; 44] = [
        0x6b, 0x81, 0x23, 0x45, 0x00, 0x04, 0x3b, 0x40, 0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 0x01, 0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x02, 0xaa,
        0xbb, 0xcc, 0xdd,
    ];

    fn repr() -> Repr {
        Repr {
            src_addr: "2001:db8::1".parse().unwrap(),
            dst_addr: "2001:db8::2".parse().unwrap(),
            next_header: IpProtocol::NO_NEXT_HEADER,
            hop_limit: 64,
            traffic_class: 0xb8,
            flow_label: FlowLabel::new(0x1_2345).unwrap(),
            payload_len: 4,
        }
    }

    /// A packet whose payload is `payload`, of type `next`.
    fn with_payload(next: u8, payload: &[u8]) -> Vec<u8> {
        let mut bytes = PACKET[..40].to_vec();
        bytes.extend(payload);
        let mut packet = Packet::new_unchecked(&mut bytes[..]);
        packet.set_next_header(IpProtocol(next));
        packet.set_payload_len(payload.len() as u16);
        bytes
    }

    #[test]
    fn parses_golden() {
        let packet = Packet::new_checked(&PACKET[..]).unwrap();
        assert_eq!(Repr::parse(&packet), Ok(repr()));
        assert_eq!(packet.payload(), [0xaa, 0xbb, 0xcc, 0xdd]);
    }

    #[test]
    fn emits_golden() {
        let mut packet = Packet::new_unchecked([0xffu8; 44]);
        repr().emit(&mut packet).unwrap();
        packet
            .payload_mut()
            .copy_from_slice(&[0xaa, 0xbb, 0xcc, 0xdd]);
        assert_eq!(packet.into_inner(), PACKET);
    }

    #[test]
    fn refuses_short_version_and_multicast_source() {
        assert_eq!(
            Packet::new_checked(&PACKET[..39]),
            Err(WireError::Truncated)
        );
        assert_eq!(
            Packet::new_checked(&PACKET[..43]),
            Err(WireError::Truncated)
        );
        let mut bytes = PACKET;
        bytes[0] = 0x4b;
        assert_eq!(
            Repr::parse(&Packet::new_unchecked(bytes)),
            Err(WireError::BadVersion)
        );
        bytes = PACKET;
        bytes[8] = 0xff;
        assert_eq!(
            Repr::parse(&Packet::new_unchecked(bytes)),
            Err(WireError::Malformed)
        );
        assert_eq!(FlowLabel::new(1 << 20), None);
        let mut short = Packet::new_unchecked([0u8; 39]);
        assert_eq!(repr().emit(&mut short), Err(WireError::Truncated));
    }

    #[test]
    fn walks_to_the_upper_layer() {
        let mut chain = vec![43, 0, 1, 4, 0, 0, 0, 0]; // hop-by-hop, then
        chain.extend([51, 0, 0, 2, 0, 0, 0, 0]); // routing with two segments left, then
        chain.extend([44, 4, 0, 0]); // authentication of 24 bytes, then
        chain.extend([0; 20]);
        chain.extend([17, 0, 0, 1, 0, 0, 0, 9]); // the first fragment, then UDP.
        chain.extend([0x55; 8]);
        let bytes = with_payload(0, &chain);
        let packet = Packet::new_checked(&bytes[..]).unwrap();
        let kinds: Vec<u8> = packet
            .extension_headers()
            .map(|h| h.unwrap().kind.0)
            .collect();
        assert_eq!(kinds, [0, 43, 51, 44]);
        let upper = packet.upper_layer().unwrap();
        assert_eq!((upper.protocol, upper.offset), (IpProtocol::UDP, 88));
        assert_eq!(upper.segments_left, 2);
        assert_eq!(
            upper.fragment,
            Some(FragmentHeader {
                offset: 0,
                more: true,
                ident: 9
            })
        );
        assert!(upper.is_fragment() && !upper.is_later_fragment());
        assert_eq!(bytes[upper.offset..], [0x55; 8]);
    }

    #[test]
    fn a_later_fragment_ends_the_walk() {
        // The next header says hop-by-hop, but these bytes are the middle of a payload.
        let bytes = with_payload(44, &[0, 0, 0x00, 0x08, 0, 0, 0, 1, 0xff, 0xff]);
        let upper = Packet::new_checked(&bytes[..])
            .unwrap()
            .upper_layer()
            .unwrap();
        assert!(upper.is_later_fragment());
        assert_eq!(upper.offset, 48);
    }

    #[test]
    fn an_atomic_fragment_is_whole() {
        let bytes = with_payload(44, &[17, 0, 0, 0, 0, 0, 0, 1]);
        let upper = Packet::new_checked(&bytes[..])
            .unwrap()
            .upper_layer()
            .unwrap();
        assert!(!upper.is_fragment() && upper.fragment.is_some());
    }

    #[test]
    fn refuses_cut_late_and_endless_chains() {
        let upper = |bytes: &[u8]| Packet::new_checked(bytes).unwrap().upper_layer();
        assert_eq!(upper(&with_payload(60, &[17])), Err(WireError::Truncated));
        assert_eq!(
            upper(&with_payload(60, &[17, 1, 0, 0, 0, 0, 0, 0])),
            Err(WireError::Truncated)
        );
        let late = [0u8, 0, 0, 0, 0, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(upper(&with_payload(60, &late)), Err(WireError::Malformed));
        let mut chain = [60u8, 0, 0, 0, 0, 0, 0, 0].repeat(MAX_EXTENSION_HEADERS);
        assert_eq!(upper(&with_payload(60, &chain)), Err(WireError::Malformed));
        let last = chain.len() - 8;
        chain[last] = 17;
        assert!(upper(&with_payload(60, &chain)).is_ok());
    }

    #[test]
    fn the_walk_stays_inside_the_packet() {
        let mut bytes = with_payload(60, &[17, 1, 0, 0, 0, 0, 0, 0]);
        bytes.extend([0; 8]); // link padding that would complete the header
        let packet = Packet::new_checked(&bytes[..]).unwrap();
        assert_eq!(packet.upper_layer(), Err(WireError::Truncated));
    }

    proptest! {
        #[test]
        fn round_trips(
            src: [u8; 16], dst: [u8; 16], next: u8, hop_limit: u8, traffic_class: u8,
            label in 0u32..1 << 20, payload_len: u16,
        ) {
            let mut src = src;
            if src[0] == 0xff {
                src[0] = 0x20;
            }
            let repr = Repr {
                src_addr: src.into(),
                dst_addr: dst.into(),
                next_header: IpProtocol(next),
                hop_limit,
                traffic_class,
                flow_label: FlowLabel::new(label).unwrap(),
                payload_len,
            };
            let mut packet = Packet::new_unchecked(vec![0xa5u8; repr.total_len()]);
            repr.emit(&mut packet).unwrap();
            prop_assert_eq!(Repr::parse(&packet), Ok(repr));
        }

        #[test]
        fn any_chain_is_answered(
            next in prop::sample::select(vec![0u8, 43, 44, 51, 60, 135, 17]),
            payload in proptest::collection::vec(
                prop::sample::select(vec![0u8, 1, 43, 44, 51, 60, 17, 255]),
                0..160,
            ),
        ) {
            let bytes = with_payload(next, &payload);
            let packet = Packet::new_checked(&bytes[..]).unwrap();
            prop_assert!(packet.extension_headers().count() <= MAX_EXTENSION_HEADERS + 1);
            if let Ok(upper) = packet.upper_layer() {
                prop_assert!(upper.offset <= bytes.len());
            }
        }
    }
}
