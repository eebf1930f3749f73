//! Finds the headers of a template frame: which bytes are addresses, ports, lengths and checksums.
//!
//! Reads Ethernet, up to two VLAN tags, an MPLS stack, IPv4 (RFC 791), IPv6 without extension headers
//! (RFC 8200), TCP, UDP, ICMP and ICMPv6. What it does not know it leaves alone.

use super::fields::{Edit, Field, Fixup, Pseudo, Values};

/// Where the headers of a frame start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Layout {
    /// Outer VLAN tag's TCI.
    vlan: Option<usize>,
    /// First MPLS label entry.
    mpls: Option<usize>,
    ip4: Option<usize>,
    ip6: Option<usize>,
    /// Transport header and its protocol number.
    transport: Option<(usize, u8)>,
}

const ETHERNET: usize = 14;

fn be16(frame: &[u8], at: usize) -> Option<u16> {
    frame
        .get(at..at + 2)
        .map(|b| u16::from_be_bytes([b[0], b[1]]))
}

impl Layout {
    pub fn of(frame: &[u8]) -> Layout {
        let mut layout = Layout::default();
        let mut at = ETHERNET;
        let mut kind = be16(frame, 12).unwrap_or(0);
        for _ in 0..2 {
            if !matches!(kind, 0x8100 | 0x88a8) {
                break;
            }
            layout.vlan.get_or_insert(at);
            kind = be16(frame, at + 2).unwrap_or(0);
            at += 4;
        }
        match kind {
            0x0800 => layout.find_ip4(frame, at),
            0x86dd => layout.find_ip6(frame, at),
            0x8847 => layout.find_mpls(frame, at),
            _ => {}
        }
        layout
    }

    fn find_mpls(&mut self, frame: &[u8], start: usize) {
        let mut at = start;
        // A stack deeper than this is no template but noise.
        for _ in 0..16 {
            let Some(entry) = frame.get(at..at + 4) else {
                return;
            };
            self.mpls.get_or_insert(start);
            at += 4;
            if entry[2] & 1 == 1 {
                break;
            }
        }
        match frame.get(at).map(|b| b >> 4) {
            Some(4) => self.find_ip4(frame, at),
            Some(6) => self.find_ip6(frame, at),
            _ => {}
        }
    }

    fn find_ip4(&mut self, frame: &[u8], at: usize) {
        let Some(header) = frame.get(at..at + 20) else {
            return;
        };
        let len = usize::from(header[0] & 15) * 4;
        if header[0] >> 4 != 4 || len < 20 || frame.len() < at + len {
            return;
        }
        self.ip4 = Some(at);
        // A fragment's checksum covers bytes that are not here.
        if be16(header, 6).unwrap_or(0) & 0x3fff == 0 {
            self.find_transport(frame, at + len, header[9]);
        }
    }

    fn find_ip6(&mut self, frame: &[u8], at: usize) {
        let Some(header) = frame.get(at..at + 40) else {
            return;
        };
        if header[0] >> 4 == 6 {
            self.ip6 = Some(at);
            self.find_transport(frame, at + 40, header[6]);
        }
    }

    fn find_transport(&mut self, frame: &[u8], at: usize, protocol: u8) {
        let needs = match protocol {
            1 if self.ip6.is_none() => 4,
            58 if self.ip4.is_none() => 4,
            6 => 20,
            17 => 8,
            _ => return,
        };
        if frame.len() >= at + needs {
            self.transport = Some((at, protocol));
        }
    }

    /// End of the IP packet when it ends before the frame does (Ethernet padding).
    fn padded_end(&self, frame: &[u8]) -> Option<usize> {
        let end = match (self.ip4, self.ip6) {
            (Some(ip), _) => ip + usize::from(be16(frame, ip + 2)?),
            (_, Some(ip)) => ip + 40 + usize::from(be16(frame, ip + 4)?),
            _ => return None,
        };
        (end < frame.len()).then_some(end)
    }

    /// Lengths and checksums to keep right, inner ones first. A frame with padding keeps its lengths.
    pub fn fixups(&self, frame: &[u8]) -> Vec<Fixup> {
        let mut out = Vec::new();
        let end = self.padded_end(frame);
        let open = end.is_none();
        let ip4_len = self.ip4.map(|ip| usize::from(frame[ip] & 15) * 4);
        if let (Some(ip), true) = (self.ip4, open) {
            out.push(Fixup::Ipv4Length { ip });
        }
        if let (Some(ip), true) = (self.ip6, open) {
            out.push(Fixup::Ipv6Length { ip });
        }
        if let Some((at, protocol)) = self.transport {
            self.transport_fixups(frame, at, protocol, end, &mut out);
        }
        if let (Some(ip), Some(len)) = (self.ip4, ip4_len) {
            out.push(Fixup::Ipv4Checksum { ip, len });
        }
        out
    }

    fn transport_fixups(
        &self,
        frame: &[u8],
        at: usize,
        protocol: u8,
        end: Option<usize>,
        out: &mut Vec<Fixup>,
    ) {
        let pseudo = match (self.ip4, self.ip6) {
            (Some(ip), _) => Pseudo::V4(ip, protocol),
            (_, Some(ip)) => Pseudo::V6(ip, protocol),
            _ => return,
        };
        // A length field that lies would make the checksum cover bytes behind the frame, or none.
        if end.is_some_and(|e| e < at + 8) {
            return;
        }
        let (field, pseudo) = match protocol {
            1 => (2, Pseudo::None),
            58 => (2, pseudo),
            6 => (16, pseudo),
            _ => {
                if end.is_none() {
                    out.push(Fixup::UdpLength { udp: at });
                }
                // RFC 768: zero means that the sender made no checksum.
                if be16(frame, at + 6) == Some(0) {
                    return;
                }
                (6, pseudo)
            }
        };
        if end.is_none_or(|e| e >= at + field + 2) {
            out.push(Fixup::Checksum {
                at,
                field,
                end,
                pseudo,
            });
        }
    }

    /// The edit that puts `values` into `field`, when the frame has it.
    pub fn edit(&self, field: Field, values: Values) -> Option<Edit> {
        let whole = |at: usize, bytes: usize| (at, bytes, 0, (bytes * 8) as u32);
        let port = |offset: usize| {
            let (at, protocol) = self.transport?;
            matches!(protocol, 6 | 17).then(|| whole(at + offset, 2))
        };
        let (at, bytes, shift, bits) = match field {
            Field::EthDestination => whole(0, 6),
            Field::EthSource => whole(6, 6),
            Field::VlanId => (self.vlan?, 2, 0, 12),
            Field::MplsLabel => (self.mpls?, 4, 12, 20),
            Field::Ip4Source => whole(self.ip4? + 12, 4),
            Field::Ip4Destination => whole(self.ip4? + 16, 4),
            Field::Ip6Source => whole(self.ip6? + 8, 16),
            Field::Ip6Destination => whole(self.ip6? + 24, 16),
            Field::SourcePort => port(0)?,
            Field::DestinationPort => port(2)?,
        };
        Some(Edit {
            at,
            bytes,
            shift,
            bits,
            values,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use parshall_wire::checksum::{checksum, ipv4_header_valid, l4_checksum_valid};
    use parshall_wire::{MacAddr, PacketBuilder, TcpFlags};
    use proptest::prelude::*;

    use super::*;
    use crate::pg::expand::Frames;
    use crate::pg::{Size, Source, StreamSpec};

    const A: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
    const B: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 77);
    const A6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);

    fn ethernet() -> PacketBuilder {
        PacketBuilder::ethernet(MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2]))
    }

    fn variants(spec: &StreamSpec) -> Vec<Vec<u8>> {
        let Source::Generate(t) = &spec.source else {
            unreachable!()
        };
        let f = Frames::new(t, spec.seed, 64, [0; 6]).unwrap();
        let one = |i| {
            let mut b = f.base.clone();
            b[f.at..f.at + f.width].copy_from_slice(f.window(i));
            b.truncate(f.len(i));
            b
        };
        (0..f.count).map(one).collect()
    }

    /// Packets of every kind whose headers are known, and where their network header is.
    fn samples(payload: usize) -> Vec<(Vec<u8>, usize, bool)> {
        let end = |p: PacketBuilder| p.payload_len(payload).build();
        vec![
            (end(ethernet().ipv4(A, B).udp(1, 2)), 14, true),
            (
                end(ethernet().vlan(5).ipv4(A, B).tcp(1, 2, TcpFlags::SYN)),
                18,
                true,
            ),
            (
                end(ethernet().qinq(5).vlan(6).ipv4(A, B).echo_request(1, 2)),
                22,
                false,
            ),
            (
                end(ethernet().mpls(33).mpls(34).ipv4(A, B).udp(1, 2)),
                22,
                true,
            ),
            (
                end(ethernet().mpls(35).ipv6(A6, A6).tcp(1, 2, TcpFlags::ACK)),
                18,
                true,
            ),
            (end(ethernet().ipv6(A6, A6).udp(1, 2)), 14, true),
            (end(ethernet().ipv6(A6, A6).echo_request(3, 4)), 14, false),
            (
                end(ethernet().ipv4(A, B).ipv4_options(&[1; 8]).udp(1, 2)),
                14,
                true,
            ),
        ]
    }

    proptest! {
        #[test]
        fn fixups_make_what_the_codecs_make(payload in 0usize..600, longer in 0usize..40, seed: u64) {
            for (frame, l3, ports) in samples(payload) {
                let spec = StreamSpec { seed, ..StreamSpec::from_frame("s", &frame).unwrap() };
                prop_assert_eq!(&variants(&spec), std::slice::from_ref(&frame));
                let size = Size { min: frame.len(), max: frame.len() + longer, random: true };
                let mut spec = spec.sized(size).unwrap();
                let (v6, any) = (frame[l3] >> 4 == 6, Values::from(0u32..=u32::MAX).random());
                let address = if v6 { Field::Ip6Source } else { Field::Ip4Source };
                spec = spec.vary(address, any).unwrap();
                if ports {
                    spec = spec.vary(Field::DestinationPort, 0u16..=9).unwrap();
                }
                for b in variants(&spec) {
                    let right = if b[l3 + 9] == 1 && !v6 {
                        checksum(&b[l3 + 20..]) == 0
                    } else {
                        l4_checksum_valid(&b[l3..]) == Some(true)
                    };
                    prop_assert!(right);
                    if !v6 && b[l3] == 0x45 {
                        prop_assert!(ipv4_header_valid(b[l3..].first_chunk().unwrap()));
                    }
                }
            }
        }

        #[test]
        fn any_frame_can_be_a_template(frame in prop::collection::vec(any::<u8>(), 14..200), kind in 0usize..4, extra in 0usize..70) {
            let mut frame = frame;
            frame[12..14].copy_from_slice(&[[8, 0], [0x86, 0xdd], [0x88, 0x47], [0x81, 0]][kind]);
            let spec = StreamSpec::from_frame("s", &frame).unwrap();
            let n = frame.len();
            for size in [Size { min: n, max: n + extra, random: false }, Size::fixed(14 + extra)] {
                if let Ok(spec) = spec.clone().sized(size) {
                    prop_assert!(!variants(&spec).is_empty());
                }
            }
        }
    }

    #[test]
    fn padding_stays_outside_of_the_packet() {
        let mut frame = ethernet().ipv4(A, B).udp(1, 2).build();
        let ip_end = frame.len();
        frame.resize(64, 0xee);
        let spec = StreamSpec::from_frame("s", &frame).unwrap();
        let spec = spec
            .vary(Field::Ip4Destination, A..=Ipv4Addr::new(10, 0, 0, 9))
            .unwrap();
        for b in variants(&spec) {
            assert_eq!(b[ip_end..], [0xee; 64][ip_end..]);
            assert_eq!(l4_checksum_valid(&b[14..ip_end]), Some(true));
        }
    }

    #[test]
    fn labels_and_tags_are_found() {
        let frame = ethernet()
            .vlan(5)
            .mpls(33)
            .ipv4(A, B)
            .udp(1, 2)
            .payload_len(9)
            .build();
        let spec = StreamSpec::from_frame("s", &frame).unwrap();
        let spec = spec
            .vary(Field::VlanId, 5u16..=6)
            .unwrap()
            .vary(Field::MplsLabel, 33u32..=34)
            .unwrap();
        let all = variants(&spec);
        assert_eq!(all.len(), 2);
        assert_eq!(
            all[1],
            ethernet()
                .vlan(6)
                .mpls(34)
                .ipv4(A, B)
                .udp(1, 2)
                .payload_len(9)
                .build()
        );
        assert!(
            StreamSpec::from_frame("s", &frame)
                .unwrap()
                .vary(Field::Ip6Source, 1u32..=2)
                .is_err()
        );
    }
}
