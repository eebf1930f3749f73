//! Looks into a sampled packet header: Ethernet, VLAN tags, MPLS labels, IPv4, IPv6, and the ports behind them.
//!
//! A sampled header is cut short anywhere, so every layer is optional and decoding ends where the bytes do. Follows IEEE 802.3 and 802.1Q,
//! RFC 3032 (MPLS), RFC 791, RFC 8200, and RFC 792/4443 for the ICMP fields. Fragments but the first have no ports.

use core::net::IpAddr;

use crate::record::flow::header_protocol;

/// VLAN tags and MPLS labels kept of each packet; deeper stacks are stepped over.
pub const MAX_STACK: usize = 4;

/// A bounded list of words, innermost last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stack {
    words: [u32; MAX_STACK],
    len: u8,
}

impl Stack {
    fn push(&mut self, word: u32) {
        if let Some(slot) = self.words.get_mut(usize::from(self.len)) {
            *slot = word;
            self.len += 1;
        }
    }

    /// The words, outermost first.
    pub fn as_slice(&self) -> &[u32] {
        self.words.get(..usize::from(self.len)).unwrap_or(&[])
    }
}

/// Addresses and type of an Ethernet frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ethernet {
    /// Destination.
    pub dst: [u8; 6],
    /// Source.
    pub src: [u8; 6],
    /// Type of what follows the VLAN tags, LLC and SNAP looked through.
    pub ether_type: u16,
}

/// Fields that only IPv4 has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ip4 {
    /// Total length.
    pub total_len: u16,
    /// Identification.
    pub id: u16,
    /// Fragment offset in units of 8 bytes.
    pub fragment_offset: u16,
    /// Says whether more fragments follow.
    pub more_fragments: bool,
}

/// Fields that only IPv6 has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ip6 {
    /// Flow label.
    pub flow_label: u32,
    /// Payload length; 0 is a jumbogram.
    pub payload_len: u16,
    /// Fragment offset in units of 8 bytes, if there is a fragment header.
    pub fragment_offset: Option<u16>,
}

/// What is particular to the version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IpVersion {
    /// Version 4.
    V4(Ip4),
    /// Version 6.
    V6(Ip6),
}

/// An IP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ip {
    /// Source.
    pub src: IpAddr,
    /// Destination.
    pub dst: IpAddr,
    /// Protocol, of IPv6 that behind the extension headers.
    pub protocol: u8,
    /// Type of service or traffic class.
    pub tos: u8,
    /// TTL or hop limit.
    pub ttl: u8,
    /// Where the header begins in the sampled bytes.
    pub offset: usize,
    /// The rest.
    pub version: IpVersion,
}

/// The transport header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// TCP.
    Tcp {
        /// Source port.
        src: u16,
        /// Destination port.
        dst: u16,
        /// Flags, if the sample reaches them.
        flags: Option<u8>,
    },
    /// UDP.
    Udp {
        /// Source port.
        src: u16,
        /// Destination port.
        dst: u16,
        /// Length with header.
        len: u16,
    },
    /// ICMP or ICMPv6.
    Icmp {
        /// Type.
        kind: u8,
        /// Code.
        code: u8,
    },
    /// SCTP and DCCP, which begin with ports too.
    Ports {
        /// Source port.
        src: u16,
        /// Destination port.
        dst: u16,
    },
}

/// What a sampled header shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Packet {
    /// The Ethernet header.
    pub ethernet: Option<Ethernet>,
    /// VLAN tags: TPID in the upper half, TCI in the lower.
    pub vlans: Stack,
    /// MPLS label stack entries.
    pub labels: Stack,
    /// The IP header.
    pub ip: Option<Ip>,
    /// The transport header.
    pub transport: Option<Transport>,
}

impl Packet {
    /// Source and destination port, 0 where there are none.
    pub const fn ports(&self) -> (u16, u16) {
        match self.transport {
            Some(
                Transport::Tcp { src, dst, .. }
                | Transport::Udp { src, dst, .. }
                | Transport::Ports { src, dst },
            ) => (src, dst),
            _ => (0, 0),
        }
    }
}

/// Decodes a header of this protocol (see [`header_protocol`]) as far as it goes.
pub fn dissect(protocol: u32, header: &[u8]) -> Packet {
    let mut p = Packet::default();
    let _ = match protocol {
        header_protocol::ETHERNET => ethernet(&mut p, header),
        header_protocol::IPV4 => ip4(&mut p, header, 0),
        header_protocol::IPV6 => ip6(&mut p, header, 0),
        header_protocol::MPLS => mpls(&mut p, header, 0),
        _ => None,
    };
    p
}

fn half(h: &[u8], at: usize) -> Option<u16> {
    h.get(at..)?.first_chunk().map(|b| u16::from_be_bytes(*b))
}

fn ethernet(p: &mut Packet, h: &[u8]) -> Option<()> {
    let (dst, rest) = h.split_first_chunk::<6>()?;
    let src = rest.first_chunk::<6>()?;
    let mut ether_type = half(h, 12)?;
    let mut at = 14;
    while matches!(ether_type, 0x8100 | 0x88A8 | 0x9100 | 0x9200 | 0x9300) {
        let Some(tci) = half(h, at) else { break };
        p.vlans.push(u32::from(ether_type) << 16 | u32::from(tci));
        ether_type = half(h, at + 2)?;
        at += 4;
    }
    let llc_snap = ether_type <= 1500 && h.get(at..at + 6) == Some(&[0xAA, 0xAA, 3, 0, 0, 0]);
    if llc_snap && let Some(inner) = half(h, at + 6) {
        ether_type = inner;
        at += 8;
    }
    p.ethernet = Some(Ethernet {
        dst: *dst,
        src: *src,
        ether_type,
    });
    match ether_type {
        0x0800 => ip4(p, h, at),
        0x86DD => ip6(p, h, at),
        0x8847 | 0x8848 => mpls(p, h, at),
        _ => None,
    }
}

fn mpls(p: &mut Packet, h: &[u8], mut at: usize) -> Option<()> {
    loop {
        let entry = u32::from_be_bytes(*h.get(at..)?.first_chunk()?);
        p.labels.push(entry);
        at += 4;
        if entry >> 8 & 1 == 1 {
            break;
        }
    }
    // The label stack does not say what follows; RFC 4928 has everybody look at the first nibble.
    match h.get(at)? >> 4 {
        4 => ip4(p, h, at),
        6 => ip6(p, h, at),
        _ => None,
    }
}

fn ip4(p: &mut Packet, h: &[u8], at: usize) -> Option<()> {
    let b: &[u8; 20] = h.get(at..)?.first_chunk()?;
    let header_len = usize::from(b[0] & 15) * 4;
    if b[0] >> 4 != 4 || header_len < 20 {
        return None;
    }
    let fragment = u16::from_be_bytes([b[6], b[7]]);
    let fragment_offset = fragment & 0x1FFF;
    p.ip = Some(Ip {
        src: IpAddr::from([b[12], b[13], b[14], b[15]]),
        dst: IpAddr::from([b[16], b[17], b[18], b[19]]),
        protocol: b[9],
        tos: b[1],
        ttl: b[8],
        offset: at,
        version: IpVersion::V4(Ip4 {
            total_len: u16::from_be_bytes([b[2], b[3]]),
            id: u16::from_be_bytes([b[4], b[5]]),
            fragment_offset,
            more_fragments: fragment & 0x2000 != 0,
        }),
    });
    if fragment_offset == 0 {
        p.transport = transport(b[9], h.get(at + header_len..)?);
    }
    Some(())
}

fn ip6(p: &mut Packet, h: &[u8], at: usize) -> Option<()> {
    let b: &[u8; 40] = h.get(at..)?.first_chunk()?;
    if b[0] >> 4 != 6 {
        return None;
    }
    let (_, addresses) = b.split_at(8);
    let src: &[u8; 16] = addresses.first_chunk()?;
    let dst: &[u8; 16] = addresses.last_chunk()?;
    let (protocol, rest, fragment_offset) = ip6_extensions(b[6], h, at + 40);
    p.ip = Some(Ip {
        src: IpAddr::from(*src),
        dst: IpAddr::from(*dst),
        protocol,
        tos: b[0] << 4 | b[1] >> 4,
        ttl: b[7],
        offset: at,
        version: IpVersion::V6(Ip6 {
            flow_label: u32::from_be_bytes([0, b[1] & 15, b[2], b[3]]),
            payload_len: u16::from_be_bytes([b[4], b[5]]),
            fragment_offset,
        }),
    });
    if fragment_offset.unwrap_or(0) == 0 {
        p.transport = transport(protocol, h.get(rest..)?);
    }
    Some(())
}

/// Steps over extension headers: gives the protocol behind them, where it begins, and the fragment offset.
fn ip6_extensions(mut next: u8, h: &[u8], mut at: usize) -> (u8, usize, Option<u16>) {
    let mut fragment = None;
    while let Some([following, len]) = h.get(at..).and_then(|r| r.first_chunk()) {
        let words = usize::from(*len);
        at += match next {
            0 | 43 | 60 | 135 | 139 | 140 => 8 * (words + 1),
            // The authentication header counts in words of four bytes (RFC 4302).
            51 => 4 * (words + 2),
            44 => {
                fragment = half(h, at + 2).map(|f| f >> 3);
                8
            }
            _ => break,
        };
        next = *following;
    }
    (next, at, fragment)
}

fn transport(protocol: u8, h: &[u8]) -> Option<Transport> {
    let (src, dst) = (half(h, 0)?, half(h, 2)?);
    match protocol {
        1 | 58 => Some(Transport::Icmp {
            kind: h[0],
            code: h[1],
        }),
        6 => Some(Transport::Tcp {
            src,
            dst,
            flags: h.get(13).copied(),
        }),
        17 => Some(Transport::Udp {
            src,
            dst,
            len: half(h, 4)?,
        }),
        33 | 132 => Some(Transport::Ports { src, dst }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const IP4_TCP: [u8; 34] = [
        0x45, 0, 0, 60, 0x1C, 0x46, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 4, 0xD2, 0, 80,
        0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2,
    ];

    fn ip6(next: u8, payload: &[u8]) -> Vec<u8> {
        let mut p = vec![0x61, 0x23, 0x45, 0x67, 0, 8, next, 255];
        p.extend([0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        p.extend([0xFF, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        p.extend(payload);
        p
    }

    fn frame(types: &[u8], payload: &[u8]) -> Vec<u8> {
        [&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12][..], types, payload].concat()
    }

    #[test]
    fn tagged_tcp() {
        let p = dissect(
            1,
            &frame(&[0x88, 0xA8, 0, 5, 0x81, 0, 0x60, 100, 8, 0], &IP4_TCP),
        );
        assert_eq!(p.vlans.as_slice(), [0x88A8_0005, 0x8100_6064]);
        assert_eq!(p.ethernet.unwrap().ether_type, 0x0800);
        let ip = p.ip.unwrap();
        assert_eq!(
            (ip.src.to_string(), ip.ttl, ip.offset),
            ("10.0.0.1".into(), 64, 22)
        );
        assert!(matches!(ip.version, IpVersion::V4(v) if v.id == 0x1C46 && v.total_len == 60));
        let tcp = Transport::Tcp {
            src: 1234,
            dst: 80,
            flags: Some(2),
        };
        assert_eq!(p.transport, Some(tcp));
        assert_eq!(p.ports(), (1234, 80));
    }

    #[test]
    fn labels_lead_to_ip() {
        let stack = [0, 1, 0, 64, 0, 1, 0x11, 63];
        let p = dissect(1, &frame(&[0x88, 0x47], &[&stack[..], &IP4_TCP].concat()));
        assert_eq!(p.labels.as_slice(), [0x0001_0040, 0x0001_113F]);
        assert_eq!(p.ports(), (1234, 80));
        assert_eq!(
            dissect(13, &[&stack[4..], &IP4_TCP].concat()).ports(),
            (1234, 80)
        );
    }

    #[test]
    fn icmpv6_behind_an_extension_header() {
        let p = dissect(12, &ip6(0, &[58, 0, 0, 0, 0, 0, 0, 0, 135, 0, 0, 0]));
        let ip = p.ip.unwrap();
        assert_eq!((ip.protocol, ip.tos, ip.ttl), (58, 0x12, 255));
        assert!(matches!(ip.version, IpVersion::V6(v) if v.flow_label == 0x34567));
        assert_eq!(p.transport, Some(Transport::Icmp { kind: 135, code: 0 }));
    }

    #[test]
    fn later_fragments_have_no_ports() {
        let mut ip = IP4_TCP;
        ip[7] = 16;
        assert_eq!(dissect(11, &ip).transport, None);
        let p = dissect(12, &ip6(44, &[17, 0, 0, 8, 0, 0, 0, 1, 0, 53, 0, 53, 0, 8]));
        assert_eq!(p.ip.unwrap().protocol, 17);
        assert_eq!(p.transport, None);
    }

    proptest! {
        #[test]
        fn arbitrary_headers_never_panic(protocol in 0u32..20, kind in 0usize..5, bytes in proptest::collection::vec(any::<u8>(), 0..150)) {
            let types: [&[u8]; 5] = [&[8, 0], &[0x86, 0xDD], &[0x88, 0x47], &[0x81, 0], &[]];
            let _ = dissect(protocol, &bytes);
            let _ = dissect(1, &frame(types[kind], &bytes));
        }
    }
}
