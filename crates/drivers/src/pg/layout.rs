//! Finds the headers of a template frame: which bytes are addresses, ports, lengths and checksums.
//!
//! Reads Ethernet, up to two VLAN tags, an MPLS stack, IPv4 (RFC 791), IPv6 without extension headers
//! (RFC 8200), TCP, UDP, ICMP and ICMPv6. What it does not know it leaves alone.

use super::spec::{Edit, Field, Fixup, Pseudo, Values};

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
