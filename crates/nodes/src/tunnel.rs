//! Tunnels as nodes know them: what is put in front of a packet, and which tunnel a received one belongs to.
//!
//! VXLAN (RFC 7348), IP in IP (RFC 2003, 4213, 2473) and GRE (RFC 2784, 7676), over IPv4 and IPv6. Control publishes
//! [`Tunnels`] as a whole.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use parshall_buffer::{BufferIndex, Pool};

use crate::flow_hash::{mix_flow, rehash};
use crate::tunnel_encap::Outer4;

/// IP protocol of IPv4 in IP.
pub const PROTO_IP4: u8 = 4;
/// IP protocol of IPv6 in IP.
pub const PROTO_IP6: u8 = 41;
/// IP protocol of GRE.
pub const PROTO_GRE: u8 = 47;
/// IP protocol of UDP.
pub const PROTO_UDP: u8 = 17;
/// GRE protocol of Ethernet frames (transparent Ethernet bridging).
pub const GRE_TEB: u16 = 0x6558;
/// Bytes of a UDP and a VXLAN header.
pub const UDP_VXLAN: usize = 16;
/// Bytes of a GRE header without options.
pub const GRE: usize = 4;
/// TTL that the outer packet is made with; sending it takes one off.
pub(crate) const TTL: u8 = 255;
/// The longest header: IPv6, UDP, VXLAN.
const LONGEST: usize = 40 + UDP_VXLAN;

/// What a tunnel is in front of the outer IP header's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encap {
    /// VXLAN: network and UDP port.
    Vxlan {
        /// VXLAN network identifier.
        vni: u32,
        /// Destination port.
        port: u16,
    },
    /// Nothing: IP packets in IP.
    Ip,
    /// GRE with packets.
    Gre,
    /// GRE with Ethernet frames.
    GreTeb,
}

impl Encap {
    /// Whether it carries Ethernet frames.
    pub fn is_ethernet(self) -> bool {
        matches!(self, Encap::Vxlan { .. } | Encap::GreTeb)
    }
}

/// What tells a tunnel from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TunnelKey {
    /// Our end.
    pub local: IpAddr,
    /// The other end, of the same family.
    pub remote: IpAddr,
    /// Index of the table that the outer packets are routed by.
    pub table: u32,
    /// What is between the outer header and the packet.
    pub encap: Encap,
}

/// A tunnel as its output node knows it.
#[derive(Clone, Debug)]
pub struct TunnelView {
    /// What it is.
    pub key: TunnelKey,
    header: [u8; LONGEST],
    len: u8,
    /// Sum of the outer IPv4 header's fixed words.
    sum: u32,
    /// The same for whole runs of packets, where the outer header is IPv4.
    pub(crate) outer4: Option<Outer4>,
}

/// All tunnels.
#[derive(Clone, Debug, Default)]
pub struct Tunnels {
    /// By interface.
    views: Vec<Option<Box<TunnelView>>>,
    found: HashMap<TunnelKey, u32>,
    ports: Vec<u16>,
    ip: bool,
    gre: bool,
}

impl Tunnels {
    /// These tunnels: interface and what each is.
    pub fn new(tunnels: impl IntoIterator<Item = (u32, TunnelKey)>) -> Tunnels {
        let mut all = Tunnels::default();
        for (if_index, key) in tunnels {
            match key.encap {
                Encap::Vxlan { port, .. } if !all.ports.contains(&port) => all.ports.push(port),
                Encap::Vxlan { .. } => {}
                Encap::Ip => all.ip = true,
                Encap::Gre | Encap::GreTeb => all.gre = true,
            }
            all.found.insert(key, if_index);
            let place = if_index as usize;
            if all.views.len() <= place {
                all.views.resize(place + 1, None);
            }
            all.views[place] = Some(Box::new(TunnelView::new(key)));
        }
        all
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }
    /// The tunnel of an interface.
    pub fn view(&self, if_index: u32) -> Option<&TunnelView> {
        self.views.get(if_index as usize)?.as_deref()
    }
    /// The interface of a tunnel.
    pub fn find(&self, key: &TunnelKey) -> Option<u32> {
        self.found.get(key).copied()
    }
    /// Whether packets of this protocol, for UDP to this port, are a tunnel's to look at.
    pub fn claim(&self, protocol: u8, port: u16) -> bool {
        match protocol {
            PROTO_UDP => self.ports.contains(&port),
            PROTO_IP4 | PROTO_IP6 => self.ip,
            PROTO_GRE => self.gre,
            _ => false,
        }
    }
}

/// What differs from packet to packet in an outer header.
#[derive(Clone, Copy, Debug, Default)]
pub struct Inner {
    /// Hash of the flow inside.
    pub hash: u32,
    /// DSCP in the upper six bits, the others zero (RFC 2983, uniform; RFC 6040 compatibility mode).
    pub class: u8,
    /// IP protocol or GRE protocol of what is carried.
    pub protocol: u16,
    /// IPv4 identification, for fragments.
    pub ident: u16,
}

impl TunnelView {
    fn new(key: TunnelKey) -> TunnelView {
        let mut h = Vec::with_capacity(LONGEST);
        let protocol = match key.encap {
            Encap::Vxlan { .. } => PROTO_UDP,
            Encap::Ip => 0,
            Encap::Gre | Encap::GreTeb => PROTO_GRE,
        };
        match (key.local, key.remote) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                h.extend([0x45, 0, 0, 0, 0, 0, 0, 0, TTL, protocol, 0, 0]);
                h.extend(src.octets());
                h.extend(dst.octets());
            }
            (src, dst) => {
                h.extend([0x60, 0, 0, 0, 0, 0, protocol, TTL]);
                h.extend(six(src).octets());
                h.extend(six(dst).octets());
            }
        }
        let outer = h.len();
        match key.encap {
            Encap::Vxlan { vni, port } => {
                h.extend([0; 2]);
                h.extend(port.to_be_bytes());
                // Length and checksum, then the flag that there is a network identifier.
                h.extend([0, 0, 0, 0, 0x08, 0, 0, 0]);
                h.extend((vni << 8).to_be_bytes());
            }
            Encap::Ip => {}
            Encap::Gre => h.extend([0; GRE]),
            Encap::GreTeb => h.extend([0, 0, 0x65, 0x58]),
        }
        let words = h[..outer].chunks_exact(2);
        let sum = words
            .map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])))
            .sum();
        let mut header = [0; LONGEST];
        header[..h.len()].copy_from_slice(&h);
        TunnelView {
            key,
            header,
            len: h.len() as u8,
            sum,
            outer4: Outer4::new(&key, sum),
        }
    }

    /// Bytes it puts in front of a packet.
    pub fn header_len(&self) -> u16 {
        u16::from(self.len)
    }

    /// Writes the header of a packet of `total` bytes, header included, into `out`, which is as long as the header.
    /// The UDP checksum is left zero.
    pub fn write(&self, out: &mut [u8], total: u16, inner: Inner) {
        let len = usize::from(self.len);
        let Some(out) = out.get_mut(..len) else {
            return;
        };
        out.copy_from_slice(&self.header[..len]);
        let outer = if self.key.local.is_ipv4() { 20 } else { 40 };
        match self.key.encap {
            Encap::Vxlan { .. } => {
                // RFC 7348 section 5: of the dynamic ports, so that links and queues tell flows apart.
                let port = 0xC000 | inner.hash as u16 & 0x3FFF;
                out[outer..outer + 2].copy_from_slice(&port.to_be_bytes());
                let udp = total - outer as u16;
                out[outer + 4..outer + 6].copy_from_slice(&udp.to_be_bytes());
            }
            Encap::Gre => {
                out[outer + 2..outer + 4].copy_from_slice(&inner.protocol.to_be_bytes());
            }
            Encap::Ip | Encap::GreTeb => {}
        }
        let carried = (self.key.encap == Encap::Ip).then_some(inner.protocol as u8);
        if outer == 20 {
            self.finish4(out, total, inner, carried);
        } else {
            finish6(out, total - 40, inner, carried);
        }
    }

    fn finish4(&self, out: &mut [u8], total: u16, inner: Inner, protocol: Option<u8>) {
        let protocol_word = u32::from(protocol.unwrap_or(0));
        let sum = self.sum
            + u32::from(inner.class)
            + u32::from(total)
            + u32::from(inner.ident)
            + protocol_word;
        let sum = (sum & 0xFFFF) + (sum >> 16);
        let sum = (sum & 0xFFFF) + (sum >> 16);
        out[1] = inner.class;
        out[2..4].copy_from_slice(&total.to_be_bytes());
        out[4..6].copy_from_slice(&inner.ident.to_be_bytes());
        if let Some(p) = protocol {
            out[9] = p;
        }
        out[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    }
}

/// RFC 6438: the flow label tells flows apart.
fn finish6(out: &mut [u8], payload: u16, inner: Inner, protocol: Option<u8>) {
    let first = 6 << 28 | u32::from(inner.class) << 20 | inner.hash & 0xF_FFFF;
    out[..4].copy_from_slice(&first.to_be_bytes());
    out[4..6].copy_from_slice(&payload.to_be_bytes());
    if let Some(p) = protocol {
        out[6] = p;
    }
}

fn six(a: IpAddr) -> Ipv6Addr {
    match a {
        IpAddr::V6(a) => a,
        IpAddr::V4(a) => a.to_ipv6_mapped(),
    }
}

/// The addresses of an outer header: source and destination.
pub fn outer_addresses(pool: &Pool, b: BufferIndex) -> (IpAddr, IpAddr) {
    let h: &[u8; 40] = pool.peek(b, 0);
    if h[0] >> 4 == 4 {
        let four = |i: usize| Ipv4Addr::new(h[i], h[i + 1], h[i + 2], h[i + 3]).into();
        (four(12), four(16))
    } else {
        let six = |i: usize| {
            let a: [u8; 16] = std::array::from_fn(|k| h[i + k]);
            Ipv6Addr::from(a).into()
        };
        (six(8), six(24))
    }
}

/// Hash of the flow in an Ethernet frame: of its IP packet, through up to two VLAN tags, else of its addresses.
pub fn frame_hash(pool: &Pool, b: BufferIndex) -> u32 {
    let mut at = 14;
    loop {
        let Some(kind) = pool.head::<2>(b, at - 2) else {
            return mix_flow(0, 0);
        };
        match u16::from_be_bytes(*kind) {
            0x0800 if pool.head::<20>(b, at).is_some() => return rehash(pool, b, at, false),
            0x86DD if pool.head::<40>(b, at).is_some() => return rehash(pool, b, at, true),
            0x8100 | 0x88A8 | 0x9100 if at < 22 => at += 4,
            _ => break,
        }
    }
    let h: &[u8; 16] = pool.peek(b, 0);
    let whole = u128::from_be_bytes(*h);
    mix_flow(
        (whole >> 64) as u64,
        (whole >> 16) as u64 & 0xFFFF_FFFF_FFFF,
    )
}
