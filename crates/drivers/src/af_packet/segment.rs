//! Cutting a super-frame into the frames its sender meant.
//!
//! A local TCP or UDP hands its virtual interface up to 64 KiB at once and says how much of it goes
//! into each segment. What a network card would do is done here, as the kernel's own software
//! fallback does (`net/ipv4/tcp_offload.c`, `udp_offload.c`): headers are repeated, lengths, IPv4
//! identifications, TCP sequence numbers and flags are adapted, checksums are computed. VLAN tags,
//! MPLS labels and IP-in-IP or GRE around the packet are carried along. Pure: bytes in, bytes out.

use parshall_wire::checksum::{checksum, fill_l4_checksum_parts};
use parshall_wire::{IpProtocol, Ipv6Packet};

use super::sys::VnetHeader;

/// Most bytes of headers that are repeated in every segment.
const MAX_HEADER: usize = 256;
/// Most IP headers around each other.
const MAX_IP: usize = 3;
/// Most VLAN tags, labels and tunnel headers walked before giving up.
const MAX_STEPS: usize = 16;

const TCP_FIN: u8 = 0x01;
const TCP_PSH: u8 = 0x08;
const TCP_CWR: u8 = 0x80;

/// Where the headers of a super-frame lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    /// Offsets of the IP headers, outermost first.
    ip: [usize; MAX_IP],
    ip_count: usize,
    /// Offset of the TCP or UDP header.
    l4: usize,
    /// Offset of the payload.
    payload: usize,
    tcp: bool,
}

/// A super-frame on its way out in segments. Reused: keeps its memory.
#[derive(Default)]
pub(crate) struct SuperFrame {
    bytes: Vec<u8>,
    layout: Option<Layout>,
    segment: usize,
    /// Offset of the first payload byte not handed out.
    at: usize,
    index: u16,
}

/// One segment: headers of its own and a piece of the super-frame's payload.
pub(crate) struct Segment<'a> {
    pub header: &'a [u8],
    pub payload: &'a [u8],
}

impl SuperFrame {
    /// Whether segments are left.
    pub fn pending(&self) -> bool {
        self.layout.is_some()
    }

    /// Takes in a super-frame, `parts` in order (its length bounded by the caller). `csum_start` is
    /// counted in the joined parts. False when it is none that can be cut.
    pub fn load(&mut self, parts: &[&[u8]], vnet: &VnetHeader) -> bool {
        self.bytes.clear();
        parts.iter().for_each(|p| self.bytes.extend_from_slice(p));
        self.layout = Layout::find(&self.bytes, vnet);
        self.segment = usize::from(vnet.gso_size);
        self.index = 0;
        match self.layout {
            Some(l) if self.segment > 0 && l.payload < self.bytes.len() => self.at = l.payload,
            _ => self.layout = None,
        }
        self.pending()
    }

    /// The next segment, its headers written into `header`; `None` when none is left or when the
    /// packet turns out to be malformed (what is left of it is given up).
    pub fn next<'a>(&'a mut self, header: &'a mut [u8; MAX_HEADER]) -> Option<Segment<'a>> {
        let layout = self.layout?;
        let end = (self.at + self.segment).min(self.bytes.len());
        let (first, last) = (self.index == 0, end == self.bytes.len());
        let payload = &self.bytes[self.at..end];
        let head = &mut header[..layout.payload];
        head.copy_from_slice(&self.bytes[..layout.payload]);
        layout.adapt_ip(head, payload.len(), self.index);
        layout.adapt_l4(
            head,
            payload.len(),
            (self.at - layout.payload) as u32,
            first,
            last,
        );
        let inner = layout.ip[layout.ip_count - 1];
        let filled = fill_l4_checksum_parts(&mut head[inner..], std::iter::once(payload));
        self.at = end;
        self.index = self.index.wrapping_add(1);
        if last || !filled {
            self.layout = None;
        }
        filled.then_some(Segment {
            header: head,
            payload,
        })
    }

    /// Room for the headers of a segment.
    pub fn header_room() -> [u8; MAX_HEADER] {
        [0; MAX_HEADER]
    }
}

fn u16_at(b: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*b.get(at..)?.first_chunk()?))
}

fn put_u16(b: &mut [u8], at: usize, value: usize) {
    b[at..at + 2].copy_from_slice(&(value as u16).to_be_bytes());
}

/// What stands at an offset.
#[derive(Clone, Copy)]
enum Next {
    EtherType(u16),
    Label,
    Ip,
    Protocol(u8),
}

impl Layout {
    fn find(frame: &[u8], vnet: &VnetHeader) -> Option<Layout> {
        let tcp = match vnet.gso_type & !VnetHeader::GSO_ECN {
            VnetHeader::GSO_TCPV4 | VnetHeader::GSO_TCPV6 => true,
            VnetHeader::GSO_UDP_L4 => false,
            _ => return None,
        };
        // Where the sender says its transport header is; else the first one is taken.
        let told =
            (vnet.flags & VnetHeader::NEEDS_CSUM != 0).then_some(usize::from(vnet.csum_start));
        let wanted = if tcp {
            IpProtocol::TCP.0
        } else {
            IpProtocol::UDP.0
        };
        let mut layout = Layout {
            ip: [0; MAX_IP],
            ip_count: 0,
            l4: 0,
            payload: 0,
            tcp,
        };
        let (mut at, mut next) = (14, Next::EtherType(u16_at(frame, 12)?));
        for _ in 0..MAX_STEPS {
            if let Next::Protocol(p) = next
                && p == wanted
                && told.is_none_or(|t| t == at)
            {
                layout.l4 = at;
                return layout.with_payload(frame);
            }
            (at, next) = layout.step(frame, at, next)?;
        }
        None
    }

    /// Walks over one header.
    fn step(&mut self, frame: &[u8], at: usize, next: Next) -> Option<(usize, Next)> {
        match next {
            Next::EtherType(0x8100 | 0x88a8 | 0x9100) => {
                Some((at + 4, Next::EtherType(u16_at(frame, at + 2)?)))
            }
            Next::EtherType(0x8847 | 0x8848) => Some((at, Next::Label)),
            Next::EtherType(0x0800 | 0x86dd) => Some((at, Next::Ip)),
            Next::EtherType(_) => None,
            Next::Label => {
                let bottom = frame.get(at + 2)? & 1 == 1;
                Some((at + 4, if bottom { Next::Ip } else { Next::Label }))
            }
            Next::Ip => self.step_ip(frame, at),
            // IP in IP (RFC 2003, RFC 2473, RFC 4213).
            Next::Protocol(4 | 41) => Some((at, Next::Ip)),
            Next::Protocol(47) => step_gre(frame, at),
            Next::Protocol(_) => None,
        }
    }

    fn step_ip(&mut self, frame: &[u8], at: usize) -> Option<(usize, Next)> {
        *self.ip.get_mut(self.ip_count)? = at;
        self.ip_count += 1;
        let b = frame.get(at..)?;
        match b.first()? >> 4 {
            4 => {
                let header = usize::from(b[0] & 15) * 4;
                let protocol = *b.get(9)?;
                (header >= 20 && b.len() >= header)
                    .then_some((at + header, Next::Protocol(protocol)))
            }
            6 if b.len() >= 40 => {
                let upper = Ipv6Packet::new_unchecked(b).upper_layer().ok()?;
                Some((at + upper.offset, Next::Protocol(upper.protocol.0)))
            }
            _ => None,
        }
    }

    fn with_payload(mut self, frame: &[u8]) -> Option<Layout> {
        let header = if self.tcp {
            usize::from(frame.get(self.l4 + 12)? >> 4) * 4
        } else {
            8
        };
        if self.tcp && header < 20 {
            return None;
        }
        self.payload = self.l4 + header;
        (self.payload <= MAX_HEADER.min(frame.len())).then_some(self)
    }

    /// Lengths, identifications and header checksums of the IP headers.
    fn adapt_ip(&self, head: &mut [u8], payload: usize, index: u16) {
        let total = head.len() + payload;
        for &at in &self.ip[..self.ip_count] {
            if head[at] >> 4 == 6 {
                put_u16(head, at + 4, total - at - 40);
                continue;
            }
            let end = at + usize::from(head[at] & 15) * 4;
            put_u16(head, at + 2, total - at);
            let ident = u16::from_be_bytes([head[at + 4], head[at + 5]]).wrapping_add(index);
            put_u16(head, at + 4, usize::from(ident));
            put_u16(head, at + 10, 0);
            let sum = checksum(&head[at..end]);
            put_u16(head, at + 10, usize::from(sum));
        }
    }

    /// Sequence number and flags (RFC 9293), or length (RFC 768).
    fn adapt_l4(&self, head: &mut [u8], payload: usize, sent: u32, first: bool, last: bool) {
        let at = self.l4;
        if !self.tcp {
            return put_u16(head, at + 4, 8 + payload);
        }
        let seq = u32::from_be_bytes([head[at + 4], head[at + 5], head[at + 6], head[at + 7]]);
        head[at + 4..at + 8].copy_from_slice(&seq.wrapping_add(sent).to_be_bytes());
        if !last {
            head[at + 13] &= !(TCP_FIN | TCP_PSH);
        }
        if !first {
            // Congestion is answered once (RFC 3168 section 6.1.2).
            head[at + 13] &= !TCP_CWR;
        }
    }
}

/// GRE with at most a key (RFC 2784, RFC 2890): a checksum or sequence number would differ in every
/// segment, and no sender makes super-frames of those.
fn step_gre(frame: &[u8], at: usize) -> Option<(usize, Next)> {
    let (flags, kind) = (u16_at(frame, at)?, u16_at(frame, at + 2)?);
    let key = if flags & 0x2000 != 0 { 4 } else { 0 };
    if flags & !0x2000 != 0 {
        return None;
    }
    Some((at + 4 + key, Next::EtherType(kind)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use parshall_wire::checksum::l4_checksum_valid;
    use parshall_wire::{Ipv4Packet, MacAddr, PacketBuilder, TcpFlags, TcpPacket};
    use proptest::prelude::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    const SRC: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
    const DST: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

    fn ethernet() -> PacketBuilder {
        PacketBuilder::ethernet(MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2]))
    }

    fn vnet(gso_type: u8, gso_size: u16, csum_start: usize) -> VnetHeader {
        VnetHeader {
            flags: VnetHeader::NEEDS_CSUM,
            gso_type,
            gso_size,
            csum_start: csum_start as u16,
            csum_offset: if gso_type == VnetHeader::GSO_UDP_L4 {
                6
            } else {
                16
            },
        }
    }

    fn cut(frame: &[u8], vnet: &VnetHeader) -> Option<Vec<Vec<u8>>> {
        let mut s = SuperFrame::default();
        if !s.load(&[frame], vnet) {
            return None;
        }
        let mut out = Vec::new();
        while s.pending() {
            let mut header = SuperFrame::header_room();
            let segment = s.next(&mut header)?;
            out.push([segment.header, segment.payload].concat());
        }
        Some(out)
    }

    fn big(builder: PacketBuilder, len: usize) -> Vec<u8> {
        let bytes: Vec<u8> = (0..len).map(|i| (i * 7) as u8).collect();
        builder.payload(&bytes).build()
    }

    /// Checks segments of a TCP super-frame whose IP header is at `ip` and TCP header at `l4`.
    fn check_tcp(frame: &[u8], segments: &[Vec<u8>], ip: usize, l4: usize, mss: usize) {
        let (payload, mut joined) = (l4 + 20, Vec::new());
        for (i, s) in segments.iter().enumerate() {
            assert_eq!(l4_checksum_valid(&s[ip..]), Some(true));
            assert!(s.len() <= payload + mss);
            let tcp = TcpPacket::new_checked(&s[l4..]).unwrap();
            assert_eq!(tcp.seq(), 1000u32.wrapping_add(joined.len() as u32));
            let last = i + 1 == segments.len();
            assert_eq!(s[l4 + 13] & (TCP_FIN | TCP_PSH) != 0, last);
            if s[ip] >> 4 == 4 {
                let header = Ipv4Packet::new_checked(&s[ip..]).unwrap();
                assert!(header.verify_checksum());
                assert_eq!(usize::from(header.total_len()), s.len() - ip);
                assert_eq!(header.ident(), 77 + i as u16);
            } else {
                assert_eq!(usize::from(u16_at(s, ip + 4).unwrap()), s.len() - ip - 40);
            }
            joined.extend_from_slice(&s[payload..]);
        }
        assert_eq!(joined, frame[payload..]);
    }

    fn tcp(builder: PacketBuilder) -> PacketBuilder {
        builder
            .tcp(1, 2, TcpFlags::ACK | TcpFlags::PSH | TcpFlags::FIN)
            .seq_ack(1000, 5)
    }

    #[test]
    fn tcp_over_v4_v6_tags_labels_and_tunnels() {
        let (a, b) = (Ipv6Addr::LOCALHOST, Ipv6Addr::UNSPECIFIED);
        let v4 = |e: PacketBuilder| tcp(e.ipv4(SRC, DST).ident(77));
        for (builder, ip, l4) in [
            (v4(ethernet()), 14, 34),
            (v4(ethernet().vlan(7)), 18, 38),
            (v4(ethernet().mpls(16).mpls(17)), 22, 42),
            (tcp(ethernet().ipv6(a, b)), 14, 54),
        ] {
            let frame = big(builder, 10_000);
            let kind = if frame[ip] >> 4 == 4 {
                VnetHeader::GSO_TCPV4
            } else {
                VnetHeader::GSO_TCPV6
            };
            let segments = cut(&frame, &vnet(kind, 1448, l4)).unwrap();
            assert_eq!(segments.len(), 7);
            check_tcp(&frame, &segments, ip, l4, 1448);
            let untold = VnetHeader {
                flags: 0,
                ..vnet(kind | VnetHeader::GSO_ECN, 1448, 0)
            };
            assert_eq!(cut(&frame, &untold).unwrap(), segments);
        }
    }

    #[test]
    fn a_tunnel_around_it_is_adapted_too() {
        let inner = big(tcp(PacketBuilder::bare().ipv4(SRC, DST).ident(77)), 5000);
        let gre = [&[0x20, 0, 0x08, 0, 1, 2, 3, 4][..], &inner].concat();
        for (protocol, body, l4) in [(4, &inner, 54), (47, &gre, 62)] {
            let frame = ethernet()
                .ipv4(SRC, DST)
                .ident(9)
                .protocol(IpProtocol(protocol))
                .payload(body)
                .build();
            let segments = cut(&frame, &vnet(VnetHeader::GSO_TCPV4, 1000, l4)).unwrap();
            check_tcp(&frame, &segments, l4 - 20, l4, 1000);
            for (i, s) in segments.iter().enumerate() {
                let outer = Ipv4Packet::new_checked(&s[14..]).unwrap();
                assert!(outer.verify_checksum());
                assert_eq!(
                    (usize::from(outer.total_len()), outer.ident()),
                    (s.len() - 14, 9 + i as u16)
                );
            }
        }
    }

    #[test]
    fn congestion_is_answered_once() {
        let mut frame = big(tcp(ethernet().ipv4(SRC, DST)), 3000);
        frame[34 + 13] |= TCP_CWR;
        let segments = cut(&frame, &vnet(VnetHeader::GSO_TCPV4, 1000, 34)).unwrap();
        let cwr: Vec<_> = segments.iter().map(|s| s[47] & TCP_CWR != 0).collect();
        assert_eq!(cwr, [true, false, false]);
    }

    #[test]
    fn udp_segments_have_lengths_of_their_own() {
        let frame = big(ethernet().ipv4(SRC, DST).udp(5, 6), 2500);
        let segments = cut(&frame, &vnet(VnetHeader::GSO_UDP_L4, 1000, 34)).unwrap();
        let lengths: Vec<_> = segments.iter().map(|s| u16_at(s, 38).unwrap()).collect();
        assert_eq!(lengths, [1008, 1008, 508]);
        for s in &segments {
            assert_eq!(l4_checksum_valid(&s[14..]), Some(true));
        }
    }

    #[test]
    fn what_cannot_be_cut_is_refused() {
        let frame = big(tcp(ethernet().ipv4(SRC, DST)), 3000);
        assert!(
            cut(&frame, &vnet(VnetHeader::GSO_TCPV4, 0, 34)).is_none(),
            "no size"
        );
        assert!(
            cut(&frame, &vnet(VnetHeader::GSO_TCPV4, 1000, 35)).is_none(),
            "wrong place"
        );
        assert!(cut(&frame, &vnet(3, 1000, 34)).is_none(), "UFO");
        assert!(
            cut(&frame, &vnet(VnetHeader::GSO_UDP_L4, 1000, 34)).is_none(),
            "not UDP"
        );
        assert!(
            cut(&frame[..54], &vnet(VnetHeader::GSO_TCPV4, 1000, 34)).is_none(),
            "no payload"
        );
        assert!(cut(&[], &vnet(VnetHeader::GSO_TCPV4, 1000, 34)).is_none());
    }

    proptest! {
        #[test]
        fn any_length_is_cut_and_joined(len in 1usize..20_000, mss in 1u16..9000, v6: bool) {
            prop_assume!(len / usize::from(mss) < 2000);
            let (builder, l4, kind) = if v6 {
                (ethernet().ipv6(Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST), 54, VnetHeader::GSO_TCPV6)
            } else {
                (ethernet().ipv4(SRC, DST).ident(77), 34, VnetHeader::GSO_TCPV4)
            };
            let frame = big(tcp(builder), len);
            let segments = cut(&frame, &vnet(kind, mss, l4)).unwrap();
            prop_assert_eq!(segments.len(), len.div_ceil(usize::from(mss)));
            check_tcp(&frame, &segments, 14, l4, usize::from(mss));
        }

        #[test]
        fn hostile_bytes_do_no_harm(
            mut frame in proptest::collection::vec(any::<u8>(), 0..400),
            kind in prop::sample::select(vec![0u8, 1, 3, 4, 5, 0x81]),
            size: u16,
            start in 0u16..300,
            ethertype in prop::sample::select(vec![0x0800u16, 0x86dd, 0x8847, 0x8100]),
            flags in 0u8..2,
        ) {
            if frame.len() > 15 {
                frame[12..14].copy_from_slice(&ethertype.to_be_bytes());
                frame[14] = if ethertype == 0x86dd { 0x60 } else { 0x45 };
            }
            let vnet = VnetHeader { flags, gso_type: kind, gso_size: size, csum_start: start, csum_offset: 16 };
            if let Some(segments) = cut(&frame, &vnet) {
                prop_assert!(segments.len() <= 400);
            }
        }
    }
}
