//! What rules look at in a packet: addresses, protocol, ports or ICMP type and code, TCP flags.
//!
//! RFC 791, RFC 8200 (extension headers, walked in a bounded way), RFC 4302 (length of AH). A packet whose upper
//! header cannot be found or is cut short has no key: a rule for a port must not be got around by hiding the port
//! (RFC 1858, RFC 3128, RFC 7112).

use std::net::{Ipv4Addr, Ipv6Addr};

/// Extension headers walked at most.
const MAX_EXTENSIONS: usize = 8;

const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP6: u8 = 58;
const SCTP: u8 = 132;

/// How much of the upper layer a packet shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum UpperLayer {
    /// Ports, or type and code.
    Ports,
    /// A protocol without ports.
    Plain,
    /// A fragment beyond the first: nothing but the protocol.
    Later,
}

/// The upper layer of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct L4 {
    /// Source port or ICMP type.
    pub sport: u16,
    /// Destination port or ICMP code.
    pub dport: u16,
    /// Protocol.
    pub proto: u8,
    /// TCP flags; 0 for others.
    pub flags: u8,
    /// What of the above is known.
    pub kind: UpperLayer,
}

/// What an IPv4 packet shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Key4 {
    /// Source and destination, as on the wire.
    pub addrs: [u8; 8],
    /// Upper layer.
    pub l4: L4,
}

/// What an IPv6 packet shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Key6 {
    /// Source and destination, as on the wire.
    pub addrs: [u8; 32],
    /// Upper layer.
    pub l4: L4,
}

/// A key of either family.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Key {
    /// IPv4.
    Ip4(Key4),
    /// IPv6.
    Ip6(Key6),
}

impl Key4 {
    /// Reads the packet that begins with an IPv4 header; `None` when it does not show what rules ask for.
    #[inline(always)]
    pub fn read(packet: &[u8]) -> Option<Key4> {
        let h: &[u8; 20] = packet.first_chunk()?;
        let header_len = usize::from(h[0] & 15) * 4;
        if h[0] >> 4 != 4 || header_len < 20 {
            return None;
        }
        let mut addrs = [0; 8];
        addrs.copy_from_slice(&h[12..20]);
        let later = u16::from_be_bytes([h[6], h[7]]) & 0x1FFF != 0;
        let l4 = upper(packet, header_len, h[9], ICMP, later)?;
        Some(Key4 { addrs, l4 })
    }
    /// Source address.
    pub fn src(&self) -> Ipv4Addr {
        let [a, b, c, d, ..] = self.addrs;
        Ipv4Addr::new(a, b, c, d)
    }
    /// Destination address.
    pub fn dst(&self) -> Ipv4Addr {
        let [.., a, b, c, d] = self.addrs;
        Ipv4Addr::new(a, b, c, d)
    }
}

impl Key6 {
    /// Reads the packet that begins with an IPv6 header; `None` when it does not show what rules ask for.
    #[inline(always)]
    pub fn read(packet: &[u8]) -> Option<Key6> {
        let h: &[u8; 40] = packet.first_chunk()?;
        if h[0] >> 4 != 6 {
            return None;
        }
        let mut addrs = [0; 32];
        addrs.copy_from_slice(&h[8..40]);
        let (at, proto, later) = match is_extension(h[6]) {
            false => (40, h[6], false),
            true => walk(packet, h[6])?,
        };
        let l4 = upper(packet, at, proto, ICMP6, later)?;
        Some(Key6 { addrs, l4 })
    }
    /// Source address.
    pub fn src(&self) -> Ipv6Addr {
        self.address(0)
    }
    /// Destination address.
    pub fn dst(&self) -> Ipv6Addr {
        self.address(16)
    }
    fn address(&self, at: usize) -> Ipv6Addr {
        let half: [u8; 16] = std::array::from_fn(|i| self.addrs[at + i]);
        half.into()
    }
}

/// Extension headers that another header follows: hop-by-hop, routing, fragment, AH, destination options,
/// mobility, HIP, Shim6 (the IANA registry; ESP hides what follows, so it is an upper layer here).
fn is_extension(next: u8) -> bool {
    matches!(next, 0 | 43 | 44 | 51 | 60 | 135 | 139 | 140)
}

/// Steps over extension headers: where the upper layer begins, which it is, and whether the packet is a fragment
/// beyond the first.
#[inline(never)]
fn walk(packet: &[u8], first: u8) -> Option<(usize, u8, bool)> {
    let (mut at, mut next) = (40, first);
    for _ in 0..MAX_EXTENSIONS {
        let h: &[u8; 4] = packet.get(at..)?.first_chunk()?;
        let len = match next {
            44 => 8,
            51 => (usize::from(h[1]) + 2) * 4,
            _ => (usize::from(h[1]) + 1) * 8,
        };
        let later = next == 44 && u16::from_be_bytes([h[2], h[3]]) & 0xFFF8 != 0;
        (at, next) = (at + len, h[0]);
        // What follows the header of a later fragment is payload; a protocol that is an extension header there
        // says nothing of the upper layer.
        if later {
            return (!is_extension(next)).then_some((at, next, true));
        }
        if !is_extension(next) {
            return Some((at, next, false));
        }
    }
    None
}

/// The upper layer of `proto` at `at`; `icmp` is the family's ICMP.
#[inline(always)]
fn upper(packet: &[u8], at: usize, proto: u8, icmp: u8, later: bool) -> Option<L4> {
    let mut l4 = L4 {
        sport: 0,
        dport: 0,
        proto,
        flags: 0,
        kind: UpperLayer::Plain,
    };
    if later {
        l4.kind = UpperLayer::Later;
        return Some(l4);
    }
    match proto {
        TCP => {
            let h: &[u8; 14] = packet.get(at..)?.first_chunk()?;
            l4.flags = h[13];
            ports(&mut l4, h);
        }
        UDP | SCTP => ports(&mut l4, packet.get(at..)?.first_chunk::<4>()?),
        p if p == icmp => {
            let h: &[u8; 2] = packet.get(at..)?.first_chunk()?;
            (l4.sport, l4.dport) = (u16::from(h[0]), u16::from(h[1]));
            l4.kind = UpperLayer::Ports;
        }
        _ => {}
    }
    Some(l4)
}

#[inline(always)]
fn ports<const N: usize>(l4: &mut L4, h: &[u8; N]) {
    l4.sport = u16::from_be_bytes([h[0], h[1]]);
    l4.dport = u16::from_be_bytes([h[2], h[3]]);
    l4.kind = UpperLayer::Ports;
}
