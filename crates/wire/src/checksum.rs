//! The Internet checksum (RFC 1071), its incremental update (RFC 1624) and the pseudo-headers of
//! IPv4 (RFC 9293 section 3.1) and IPv6 (RFC 8200 section 8.1).
//!
//! Sums are taken over native-order words in a 64-bit accumulator and folded at the end: a
//! one's-complement sum does not depend on byte order, only its two result bytes do (RFC 1071
//! section 2 B), so that the loop has neither byte swaps nor carries.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::field::{put_u16, u16_at};
use crate::{IpProtocol, Ipv4Packet, Ipv6Packet};

/// A running checksum over several pieces. Pieces may have odd lengths: a piece that starts on
/// an odd byte is summed with its bytes swapped (RFC 1071 section 2 B).
#[derive(Debug, Clone, Copy, Default)]
pub struct Checksum {
    /// Native-order one's-complement sum, not folded.
    sum: u64,
    /// Whether an odd number of bytes has been added.
    odd: bool,
}

impl Checksum {
    /// The sum of nothing.
    #[inline]
    pub const fn new() -> Checksum {
        Checksum { sum: 0, odd: false }
    }

    /// Adds the next bytes.
    #[inline]
    pub fn add(&mut self, data: &[u8]) {
        let folded = fold(sum_native(data));
        let lane = if self.odd {
            folded.swap_bytes()
        } else {
            folded
        };
        self.sum += u64::from(lane);
        self.odd ^= data.len() % 2 == 1;
    }

    /// Adds a 16-bit value in host order.
    #[inline]
    pub fn add_u16(&mut self, value: u16) {
        self.add(&value.to_be_bytes());
    }

    /// Adds a 32-bit value in host order.
    #[inline]
    pub fn add_u32(&mut self, value: u32) {
        self.add(&value.to_be_bytes());
    }

    /// The value for the checksum field: 0 when the bytes summed include a right checksum.
    #[inline]
    pub fn finish(self) -> u16 {
        !u16::from_be(fold(self.sum))
    }
}

/// The sum of `data` as native-order words, a last odd byte padded with a zero. Cannot overflow:
/// the words are of 32 bits and the accumulator of 64.
#[inline]
fn sum_native(data: &[u8]) -> u64 {
    let (words, tail) = data.as_chunks::<4>();
    let mut sum: u64 = words
        .iter()
        .map(|word| u64::from(u32::from_ne_bytes(*word)))
        .sum();
    let (pairs, last) = tail.as_chunks::<2>();
    if let [pair] = pairs {
        sum += u64::from(u16::from_ne_bytes(*pair));
    }
    if let [byte] = last {
        sum += u64::from(u16::from_ne_bytes([*byte, 0]));
    }
    sum
}

/// Folds the carries back in until 16 bits are left.
#[inline]
const fn fold(sum: u64) -> u16 {
    let sum = (sum >> 32) + (sum & 0xffff_ffff);
    let sum = (sum >> 32) + (sum & 0xffff_ffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    sum as u16
}

/// The Internet checksum of `data`: 0 when `data` includes its own, right checksum.
#[inline]
pub fn checksum(data: &[u8]) -> u16 {
    !u16::from_be(fold(sum_native(data)))
}

/// Whether the checksum of an IPv4 header without options is right: five word additions.
#[inline]
pub fn ipv4_header_valid(header: &[u8; 20]) -> bool {
    // 0xffff is the sum with a right checksum; a sum of 0 needs twenty zero bytes.
    fold(sum_native(header)) == 0xffff
}

/// The checksum after a 16-bit word under it changed from `old` to `new` (RFC 1624 equation 3).
#[inline]
pub const fn update_u16(checksum: u16, old: u16, new: u16) -> u16 {
    !fold(!checksum as u64 + !old as u64 + new as u64)
}

/// The checksum after a 32-bit word under it changed from `old` to `new`.
#[inline]
pub const fn update_u32(checksum: u16, old: u32, new: u32) -> u16 {
    !fold(!checksum as u64 + !old as u64 + new as u64)
}

/// The pseudo-header sum of IPv4. `len` is that of the upper-layer header and data in bytes.
#[inline]
pub fn pseudo_v4(src: Ipv4Addr, dst: Ipv4Addr, protocol: IpProtocol, len: u16) -> Checksum {
    let mut sum = Checksum::new();
    sum.add(&src.octets());
    sum.add(&dst.octets());
    sum.add_u16(u16::from(protocol.0));
    sum.add_u16(len);
    sum
}

/// The pseudo-header sum of IPv6. `len` is that of the upper-layer header and data in bytes,
/// extension headers not counted.
#[inline]
pub fn pseudo_v6(src: &Ipv6Addr, dst: &Ipv6Addr, protocol: IpProtocol, len: u32) -> Checksum {
    let mut sum = Checksum::new();
    sum.add(&src.octets());
    sum.add(&dst.octets());
    sum.add_u32(u32::from(protocol.0));
    sum.add_u32(len);
    sum
}

/// Where the upper layer of an IP packet lies and what its checksum starts from.
struct UpperSum {
    protocol: IpProtocol,
    /// Byte of the packet where the upper layer begins.
    start: usize,
    /// Its length by the IP header, which may reach beyond the first buffer.
    len: usize,
    pseudo: Checksum,
}

impl UpperSum {
    /// Offset of the checksum field from the start of the upper layer.
    fn field_offset(&self) -> Option<usize> {
        match self.protocol {
            IpProtocol::TCP => Some(16),
            IpProtocol::UDP => Some(6),
            IpProtocol::ICMPV6 => Some(2),
            _ => None,
        }
    }
}

/// Finds the upper layer of a packet whose first bytes are `head`. `None` for what carries no
/// whole upper-layer checksum: fragments, unknown protocols, a source route still to be followed
/// (its pseudo-header has another destination), malformed headers.
fn upper_sum(head: &[u8]) -> Option<UpperSum> {
    match head.first()? >> 4 {
        4 => upper_sum_v4(head),
        6 => upper_sum_v6(head),
        _ => None,
    }
}

fn upper_sum_v4(head: &[u8]) -> Option<UpperSum> {
    if head.len() < Ipv4Packet::<&[u8]>::HEADER_LEN {
        return None;
    }
    let packet = Ipv4Packet::new_unchecked(head);
    let start = packet.header_len();
    let len = usize::from(packet.total_len()).checked_sub(start)?;
    if packet.is_fragment() || start < Ipv4Packet::<&[u8]>::HEADER_LEN {
        return None;
    }
    let protocol = packet.protocol();
    let pseudo = pseudo_v4(packet.src_addr(), packet.dst_addr(), protocol, len as u16);
    Some(UpperSum {
        protocol,
        start,
        len,
        pseudo,
    })
}

fn upper_sum_v6(head: &[u8]) -> Option<UpperSum> {
    if head.len() < Ipv6Packet::<&[u8]>::HEADER_LEN {
        return None;
    }
    let packet = Ipv6Packet::new_unchecked(head);
    let upper = packet.upper_layer().ok()?;
    if upper.is_fragment() || upper.segments_left != 0 {
        return None;
    }
    let end = Ipv6Packet::<&[u8]>::HEADER_LEN + usize::from(packet.payload_len());
    let len = end.checked_sub(upper.offset)?;
    let protocol = upper.protocol;
    let pseudo = pseudo_v6(&packet.src_addr(), &packet.dst_addr(), protocol, len as u32);
    Some(UpperSum {
        protocol,
        start: upper.offset,
        len,
        pseudo,
    })
}

/// Where the checksum field lies, what stands there and what should.
struct L4Checksum {
    field: usize,
    stored: u16,
    right: u16,
    protocol: IpProtocol,
}

/// Computes the upper-layer checksum of the packet `head` + `tails`, whatever the field holds.
fn l4_checksum<'a>(head: &[u8], tails: impl Iterator<Item = &'a [u8]>) -> Option<L4Checksum> {
    let upper = upper_sum(head)?;
    let offset = upper.field_offset()?;
    let field = upper.start + offset;
    // The field must belong to the upper layer and to the first buffer.
    if offset + 2 > upper.len || field + 2 > head.len() {
        return None;
    }
    let stored = u16_at(head, field);
    let in_head = upper.len.min(head.len() - upper.start);
    let mut sum = upper.pseudo;
    sum.add(&head[upper.start..upper.start + in_head]);
    let mut left = upper.len - in_head;
    for tail in tails {
        let part = left.min(tail.len());
        sum.add(&tail[..part]);
        left -= part;
    }
    if left > 0 {
        return None;
    }
    // Take the old field out again: the field lies on an even offset, so adding its complement
    // to an odd-length sum must not be swapped.
    sum.odd = false;
    sum.add_u16(!stored);
    let mut right = sum.finish();
    if right == 0 && upper.protocol == IpProtocol::UDP {
        // RFC 768: a computed zero is sent as all ones, zero means "none".
        right = 0xffff;
    }
    Some(L4Checksum {
        field,
        stored,
        right,
        protocol: upper.protocol,
    })
}

/// Completes the TCP, UDP or ICMPv6 checksum of a whole IP packet, whatever the field held: a
/// Linux virtual device hands over packets whose field holds only the pseudo-header sum.
///
/// `ip_packet` begins at the IP header; link padding behind the packet is left out. Returns
/// whether a checksum was written: not for other protocols, fragments, an IPv6 source route still
/// to be followed, or a packet that is cut short.
pub fn fill_l4_checksum(ip_packet: &mut [u8]) -> bool {
    fill_l4_checksum_parts(ip_packet, core::iter::empty())
}

/// [`fill_l4_checksum`] for a packet in several buffers: `head` holds all its headers, `tails`
/// the rest in order.
pub fn fill_l4_checksum_parts<'a>(head: &mut [u8], tails: impl Iterator<Item = &'a [u8]>) -> bool {
    match l4_checksum(head, tails) {
        Some(sum) => {
            put_u16(head, sum.field, sum.right);
            true
        }
        None => false,
    }
}

/// Whether the TCP, UDP or ICMPv6 checksum of a whole IP packet is right, or `None` where
/// [`fill_l4_checksum`] would write none. A UDP checksum of 0 is right over IPv4 only (RFC 8200).
pub fn l4_checksum_valid(ip_packet: &[u8]) -> Option<bool> {
    let sum = l4_checksum(ip_packet, core::iter::empty())?;
    if sum.stored == 0 && sum.protocol == IpProtocol::UDP {
        return Some(ip_packet[0] >> 4 == 4);
    }
    // All zeros and all ones are the same number, and both are right.
    Some(sum.stored % 0xffff == sum.right % 0xffff)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// RFC 1071 section 1, word by word.
    fn naive(data: &[u8]) -> u16 {
        let mut sum = 0u32;
        for pair in data.chunks(2) {
            sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }

    const HEADER: [u8; 20] = [
        0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8, 0x00,
        0x01, 0xc0, 0xa8, 0x00, 0xc7,
    ];

    /// UDP 10.0.0.1:1000 -> 10.0.0.2:2000 with the 3 bytes "abc".
    const UDP_V4: [u8; 31] = [
        0x45, 0x00, 0x00, 0x1f, 0x00, 0x00, 0x00, 0x00, 0x40, 0x11, 0x66, 0xcc, 0x0a, 0x00, 0x00,
        0x01, 0x0a, 0x00, 0x00, 0x02, 0x03, 0xe8, 0x07, 0xd0, 0x00, 0x0b, 0x1b, 0xbb, 0x61, 0x62,
        0x63,
    ];

    #[test]
    fn golden_header() {
        assert_eq!(checksum(&HEADER), 0);
        assert!(ipv4_header_valid(&HEADER));
        let mut broken = HEADER;
        broken[8] ^= 1;
        assert!(!ipv4_header_valid(&broken));
        assert!(!ipv4_header_valid(&[0; 20]));
    }

    #[test]
    fn rfc_1071_example() {
        // Section 3: the sum of these bytes is ddf2.
        assert_eq!(
            checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]),
            !0xddf2
        );
    }

    #[test]
    fn rfc_1624_example() {
        // Section 4: equation 3 gives 0x0000 where equation 2 gave 0xffff.
        assert_eq!(update_u16(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    #[test]
    fn fills_over_whatever_the_field_held() {
        for stored in [[0, 0], [0xff, 0xff], [0x12, 0x34], [0x1b, 0xbb]] {
            let mut packet = UDP_V4;
            packet[26..28].copy_from_slice(&stored);
            assert!(fill_l4_checksum(&mut packet));
            assert_eq!(packet, UDP_V4);
        }
        assert_eq!(l4_checksum_valid(&UDP_V4), Some(true));
    }

    #[test]
    fn link_padding_is_not_summed() {
        let mut padded = UDP_V4.to_vec();
        padded.extend([0xee; 15]);
        padded[26] = 0;
        assert!(fill_l4_checksum(&mut padded));
        assert_eq!(padded[..31], UDP_V4);
    }

    #[test]
    fn padding_in_a_later_buffer_is_not_summed() {
        let (head, tail) = UDP_V4.split_at(29);
        let mut head = head.to_vec();
        head[26] = 0;
        let tail = [tail, &[0xee; 9]].concat();
        let parts = [&tail[..1], &tail[1..4], &tail[4..]];
        assert!(fill_l4_checksum_parts(&mut head, parts.into_iter()));
        assert_eq!(head, UDP_V4[..29]);
    }

    #[test]
    fn a_source_route_still_to_be_followed_is_left_alone() {
        let routed = |segments_left: u8| {
            let mut packet = crate::PacketBuilder::bare()
                .ipv6(Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST)
                .extension(IpProtocol::ROUTING, &[4, segments_left])
                .udp(1, 2)
                .build();
            fill_l4_checksum(&mut packet)
        };
        assert_eq!((routed(0), routed(1)), (true, false));
    }

    #[test]
    fn udp_zero_means_none_in_ipv4_only() {
        let mut packet = UDP_V4;
        packet[26..28].fill(0);
        assert_eq!(l4_checksum_valid(&packet), Some(true));
        packet[27] = 1;
        assert_eq!(l4_checksum_valid(&packet), Some(false));
        let mut v6 = crate::PacketBuilder::bare()
            .ipv6(Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST)
            .udp(1, 2)
            .build();
        v6[46..48].fill(0);
        assert_eq!(l4_checksum_valid(&v6), Some(false));
    }

    #[test]
    fn a_computed_udp_zero_is_sent_as_ones() {
        let mut packet = UDP_V4;
        // Make the source port absorb the checksum, so that the right value would be 0.
        packet[20..22].copy_from_slice(&(0x03e8u16 + 0x1bbb).to_be_bytes());
        assert!(fill_l4_checksum(&mut packet));
        assert_eq!(packet[26..28], [0xff, 0xff]);
        assert_eq!(l4_checksum_valid(&packet), Some(true));
    }

    #[test]
    fn leaves_alone_what_has_no_whole_checksum() {
        let change = |at: usize, value: u8| {
            let mut packet = UDP_V4;
            packet[at] = value;
            let before = packet;
            (!fill_l4_checksum(&mut packet) && packet == before, at)
        };
        assert_eq!(change(0, 0x55), (true, 0), "version");
        assert_eq!(change(0, 0x44), (true, 0), "header length");
        assert_eq!(change(6, 0x20), (true, 6), "more fragments");
        assert_eq!(change(7, 0x01), (true, 7), "fragment offset");
        assert_eq!(change(9, 0x01), (true, 9), "protocol");
        assert_eq!(change(3, 0x20), (true, 3), "total length beyond the packet");
        assert_eq!(change(3, 0x1b), (true, 3), "no room for the field");
        assert!(!fill_l4_checksum(&mut []));
    }

    proptest! {
        #[test]
        fn agrees_with_the_naive_sum(data in proptest::collection::vec(any::<u8>(), 0..600)) {
            prop_assert_eq!(checksum(&data), naive(&data));
        }

        #[test]
        fn pieces_sum_to_the_whole(
            data in proptest::collection::vec(any::<u8>(), 0..300),
            a in 0usize..300,
            b in 0usize..300,
        ) {
            let (a, b) = (a.min(b).min(data.len()), a.max(b).min(data.len()));
            let mut sum = Checksum::new();
            sum.add(&data[..a]);
            sum.add(&data[a..b]);
            sum.add(&data[b..]);
            prop_assert_eq!(sum.finish(), naive(&data));
        }

        #[test]
        fn header_fast_path_agrees(mut header: [u8; 20], right: bool) {
            if right {
                header[10..12].fill(0);
                let sum = naive(&header);
                header[10..12].copy_from_slice(&sum.to_be_bytes());
            }
            prop_assert_eq!(ipv4_header_valid(&header), naive(&header) == 0);
        }

        #[test]
        fn incremental_agrees_with_recomputing(
            mut header: [u8; 20],
            word in 0usize..5,
            new: u32,
        ) {
            header[10..12].fill(0);
            // The equations hold unless every byte under the sum is zero, which no header is.
            header[0] |= 0x45;
            let at = [0, 4, 12, 16, 12][word];
            let before = naive(&header);
            let old = crate::field::u32_at(&header, at);
            let new = if at == 0 { new | 0x4500_0000 } else { new };
            crate::field::put_u32(&mut header, at, new);
            prop_assert_eq!(update_u32(before, old, new), naive(&header));
            let old_half = crate::field::u16_at(&header, 8);
            let before = naive(&header);
            put_u16(&mut header, 8, new as u16);
            prop_assert_eq!(update_u16(before, old_half, new as u16), naive(&header));
        }

        #[test]
        fn split_packets_fill_alike(
            len in 0usize..2000,
            cut in 28usize..2000,
            second in 0usize..2000,
        ) {
            let whole = crate::PacketBuilder::bare()
                .ipv4(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2))
                .udp(1000, 2000)
                .payload_len(len)
                .build();
            let cut = cut.min(whole.len());
            let (head, tail) = whole.split_at(cut);
            let (middle, last) = tail.split_at(second.min(tail.len()));
            let mut head = head.to_vec();
            head[26] ^= 0x5a;
            prop_assert!(fill_l4_checksum_parts(&mut head, [middle, last].into_iter()));
            prop_assert_eq!(&head[..], &whole[..cut]);
        }

        #[test]
        fn any_bytes_are_answered(
            mut data in proptest::collection::vec(any::<u8>(), 0..120),
            v6: bool,
        ) {
            if let Some(first) = data.first_mut() {
                *first = if v6 { 0x60 } else { 0x45 };
            }
            if fill_l4_checksum(&mut data) {
                prop_assert_eq!(l4_checksum_valid(&data), Some(true));
            }
        }
    }
}
