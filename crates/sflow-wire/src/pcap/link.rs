//! Finds the UDP payload in a captured frame: link layer, VLAN tags, LLC/SNAP, IPv4 or IPv6, UDP.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A UDP datagram in a captured frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Udp<'a> {
    /// Who sent it.
    pub source: IpAddr,
    /// Port it was sent from.
    pub source_port: u16,
    /// Port it was sent to.
    pub destination_port: u16,
    /// The payload as UDP gives its length.
    pub payload: &'a [u8],
    /// The payload and whatever follows it to the end of the frame, which is what sflowtool takes.
    pub to_end: &'a [u8],
}

/// Link types as pcap numbers them.
mod link_type {
    pub(super) const NULL: u32 = 0;
    pub(super) const RAW_OLD: u32 = 12;
    pub(super) const RAW_BSD: u32 = 14;
    pub(super) const RAW: u32 = 101;
    pub(super) const LOOP: u32 = 108;
    pub(super) const SLL: u32 = 113;
    pub(super) const IPV4: u32 = 228;
    pub(super) const IPV6: u32 = 229;
    pub(super) const SLL2: u32 = 276;
}

/// Finds the UDP datagram in a frame of this link type. Link types not known are taken for Ethernet, as sflowtool does.
pub fn find_udp(link: u32, frame: &[u8]) -> Option<Udp<'_>> {
    let (ether_type, rest) = match link {
        link_type::NULL | link_type::LOOP => (0, frame.get(4..)?),
        link_type::RAW | link_type::RAW_OLD | link_type::RAW_BSD => (0, frame),
        link_type::IPV4 | link_type::IPV6 => (0, frame),
        link_type::SLL => typed(frame, 14, 16)?,
        link_type::SLL2 => typed(frame, 0, 20)?,
        _ => typed(frame, 12, 14)?,
    };
    let (ether_type, rest) = untag(ether_type, rest)?;
    match ether_type {
        0x0800 => ip4(rest),
        0x86DD => ip6(rest),
        // A bare packet names its version itself.
        0 => match rest.first()? >> 4 {
            4 => ip4(rest),
            6 => ip6(rest),
            _ => None,
        },
        _ => None,
    }
}

/// The type at `at` and what follows the header of `len` bytes.
fn typed(frame: &[u8], at: usize, len: usize) -> Option<(u16, &[u8])> {
    Some((half(frame, at)?, frame.get(len..)?))
}

/// Steps over VLAN tags and, where the type is a length, LLC and SNAP.
fn untag(mut ether_type: u16, mut rest: &[u8]) -> Option<(u16, &[u8])> {
    while matches!(ether_type, 0x8100 | 0x88A8 | 0x9100 | 0x9200 | 0x9300) {
        (ether_type, rest) = typed(rest, 2, 4)?;
    }
    if ether_type == 0 || ether_type > 1500 {
        return Some((ether_type, rest));
    }
    match rest {
        [0xAA, 0xAA, 3, 0, 0, 0, tail @ ..] => typed(tail, 0, 2),
        [6, 6, control, tail @ ..] if control & 1 == 1 => Some((0x0800, tail)),
        _ => None,
    }
}

fn ip4(packet: &[u8]) -> Option<Udp<'_>> {
    let head: &[u8; 20] = packet.first_chunk()?;
    let header_len = usize::from(head[0] & 15) * 4;
    let fragment = u16::from_be_bytes([head[6], head[7]]) & 0x1FFF;
    if head[0] >> 4 != 4 || header_len < 20 || head[9] != 17 || fragment != 0 {
        return None;
    }
    let source = Ipv4Addr::new(head[12], head[13], head[14], head[15]);
    udp(source.into(), packet.get(header_len..)?)
}

fn ip6(packet: &[u8]) -> Option<Udp<'_>> {
    let head: &[u8; 40] = packet.first_chunk()?;
    if head[0] >> 4 != 6 {
        return None;
    }
    let source: &[u8; 16] = head[8..].first_chunk()?;
    let (mut next, mut rest) = (head[6], packet.get(40..)?);
    // Hop-by-hop, routing and destination options; a fragment cannot be decoded.
    while matches!(next, 0 | 43 | 60) {
        let len = 8 * (usize::from(*rest.get(1)?) + 1);
        (next, rest) = (*rest.first()?, rest.get(len..)?);
    }
    if next != 17 {
        return None;
    }
    udp(Ipv6Addr::from(*source).into(), rest)
}

fn udp(source: IpAddr, segment: &[u8]) -> Option<Udp<'_>> {
    let to_end = segment.get(8..)?;
    let announced = usize::from(half(segment, 4)?).checked_sub(8);
    let payload = announced.and_then(|n| to_end.get(..n)).unwrap_or(to_end);
    Some(Udp {
        source,
        source_port: half(segment, 0)?,
        destination_port: half(segment, 2)?,
        payload,
        to_end,
    })
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    bytes
        .get(at..)?
        .first_chunk()
        .map(|b| u16::from_be_bytes(*b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const UDP: [u8; 11] = [0x12, 0x34, 0x18, 0xC7, 0, 10, 0, 0, 0xAA, 0xBB, 0xCC];

    fn ip4_packet() -> Vec<u8> {
        let mut p = vec![
            0x45, 0, 0, 30, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2,
        ];
        p.extend(UDP);
        p
    }

    fn ip6_packet() -> Vec<u8> {
        let mut p = vec![0x60, 0, 0, 0, 0, 19, 0, 64];
        p.extend([0; 15]);
        p.push(1);
        p.extend([0; 16]);
        p.extend([17, 0, 0, 0, 0, 0, 0, 0]);
        p.extend(UDP);
        p
    }

    fn check(link: u32, frame: &[u8]) {
        let u = find_udp(link, frame).unwrap();
        assert_eq!((u.source_port, u.destination_port), (0x1234, 6343));
        assert_eq!(u.payload, [0xAA, 0xBB]);
        assert_eq!(u.to_end, [0xAA, 0xBB, 0xCC]);
    }

    #[test]
    fn every_link_type() {
        let ip = ip4_packet();
        check(1, &[&[0; 12][..], &[8, 0], &ip].concat());
        check(
            1,
            &[&[0; 12][..], &[0x81, 0, 0, 1, 0x88, 0xA8, 0, 2, 8, 0], &ip].concat(),
        );
        check(
            1,
            &[&[0; 12][..], &[0, 40, 0xAA, 0xAA, 3, 0, 0, 0, 8, 0], &ip].concat(),
        );
        check(113, &[&[0; 14][..], &[8, 0], &ip].concat());
        check(276, &[&[8, 0][..], &[0; 18], &ip].concat());
        check(101, &ip);
        check(228, &ip);
        check(0, &[&[2, 0, 0, 0][..], &ip].concat());
        check(101, &ip6_packet());
        check(1, &[&[0; 12][..], &[0x86, 0xDD], &ip6_packet()].concat());
    }

    #[test]
    fn what_is_not_udp_is_not_found() {
        let mut ip = ip4_packet();
        ip[9] = 6;
        assert_eq!(find_udp(101, &ip), None);
        ip[9] = 17;
        ip[7] = 1;
        assert_eq!(find_udp(101, &ip), None);
        assert_eq!(find_udp(1, &[0; 13]), None);
        assert_eq!(find_udp(101, &[]), None);
    }

    proptest! {
        #[test]
        fn arbitrary_frames_never_panic(link in 0u32..280, bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = find_udp(link, &bytes);
        }
    }
}
