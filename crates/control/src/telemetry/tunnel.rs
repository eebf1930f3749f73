//! What tunnels do to a sampled packet: the headers that were taken off in front of it, those that will be put there, and
//! where in it begins what one of ours carries.
//!
//! Follows `tunnel-input` and `tunnel-output` (RFC 7348, 2784, 2003, 4213, 2473).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use parshall_agent::{Sampled, TunnelEnds};
use parshall_nodes::tunnel::{
    Encap, GRE, GRE_TEB, PROTO_GRE, PROTO_IP4, PROTO_IP6, PROTO_UDP, TunnelKey, TunnelView,
    Tunnels, UDP_VXLAN,
};
use parshall_nodes::vlan::FrameTags;
use parshall_sample::{Direction, HeaderProtocol};

/// Bytes of an Ethernet header, of one of IPv4 without options, and of one of IPv6.
const ETHERNET: usize = 14;
const IP4: usize = 20;
const IP6: usize = 40;

/// The packet that a tunnel carries.
pub(super) struct Carried {
    ip6: bool,
    /// Its DSCP, where `tunnel-output` has it in the outer header.
    class: u8,
}

impl Carried {
    pub fn of(packet: &Sampled<'_>, tags: &FrameTags) -> Carried {
        let bytes = packet.header.get(network(packet, tags)..).unwrap_or(&[]);
        match *bytes {
            [first, second, ..] if first >> 4 == 6 => Carried {
                ip6: true,
                class: (first << 4 | second >> 4) & 0xFC,
            },
            [first, second, ..] if first >> 4 == 4 => Carried {
                ip6: false,
                class: second & 0xFC,
            },
            _ => Carried {
                ip6: false,
                class: 0,
            },
        }
    }
}

/// Where in the sampled header the network layer begins.
fn network(packet: &Sampled<'_>, tags: &FrameTags) -> usize {
    match packet.protocol {
        HeaderProtocol::Ethernet => ETHERNET + 4 * usize::from(tags.present),
        _ => 0,
    }
}

/// The headers in front of a packet that came out of a tunnel. Its traffic class is not known any more.
pub(super) fn received(view: &TunnelView, inner: &Carried) -> TunnelEnds {
    let ends = ends(view, inner);
    TunnelEnds {
        src: ends.dst,
        dst: ends.src,
        class: 0,
        ..ends
    }
}

/// The headers in front of a packet that goes into a tunnel.
pub(super) fn sent(view: &TunnelView, inner: &Carried) -> TunnelEnds {
    ends(view, inner)
}

fn ends(view: &TunnelView, inner: &Carried) -> TunnelEnds {
    let key = &view.key;
    let (protocol, dst_port, vni) = match key.encap {
        Encap::Vxlan { vni, port } => (PROTO_UDP, port, Some(vni)),
        Encap::Ip if inner.ip6 => (PROTO_IP6, 0, None),
        Encap::Ip => (PROTO_IP4, 0, None),
        Encap::Gre | Encap::GreTeb => (PROTO_GRE, 0, None),
    };
    let carries_frames = key.encap.is_ethernet();
    TunnelEnds {
        src: key.local,
        dst: key.remote,
        protocol,
        class: if carries_frames { 0 } else { inner.class },
        dst_port,
        vni,
        overhead: view.header_len(),
        carries_frames,
    }
}

/// An IP header: its ends, the protocol behind it, and where that begins.
fn outer(bytes: &[u8], at: usize) -> Option<(IpAddr, IpAddr, u8, usize)> {
    let first = *bytes.get(at)?;
    match first >> 4 {
        4 => {
            let h: &[u8; IP4] = bytes.get(at..)?.first_chunk()?;
            let whole = u16::from_be_bytes([h[6], h[7]]) & 0x3FFF == 0;
            let [.., a, b, c, d, e, f, g, i] = *h;
            let ends = (Ipv4Addr::new(a, b, c, d), Ipv4Addr::new(e, f, g, i));
            let behind = at + 4 * usize::from(first & 15);
            whole.then_some((ends.0.into(), ends.1.into(), h[9], behind))
        }
        6 => {
            let h: &[u8; IP6] = bytes.get(at..)?.first_chunk()?;
            let address = |i: usize| -> IpAddr {
                let octets: [u8; 16] = std::array::from_fn(|k| h[i + k]);
                Ipv6Addr::from(octets).into()
            };
            Some((address(8), address(24), h[6], at + IP6))
        }
        _ => None,
    }
}

/// What lies behind an outer header at `at`, and where what it carries begins.
fn encapsulation(bytes: &[u8], protocol: u8, at: usize) -> Option<(Encap, usize)> {
    match protocol {
        PROTO_UDP => {
            let h: &[u8; UDP_VXLAN] = bytes.get(at..)?.first_chunk()?;
            let encap = Encap::Vxlan {
                vni: u32::from_be_bytes([0, h[12], h[13], h[14]]),
                port: u16::from_be_bytes([h[2], h[3]]),
            };
            (h[8] & 0x08 != 0).then_some((encap, at + UDP_VXLAN))
        }
        PROTO_GRE => {
            let h: &[u8; GRE] = bytes.get(at..)?.first_chunk()?;
            let skip = match [h[0], h[1]] {
                [0, 0] => GRE,
                [0x80, 0] => 2 * GRE,
                _ => return None,
            };
            let encap = match u16::from_be_bytes([h[2], h[3]]) {
                GRE_TEB => Encap::GreTeb,
                _ => Encap::Gre,
            };
            Some((encap, at + skip))
        }
        PROTO_IP4 | PROTO_IP6 => Some((Encap::Ip, at)),
        _ => None,
    }
}

/// Where in the sampled header begins what one of our tunnels carries, if the packet is one of a tunnel. `tables` are those
/// that the packet's way in is routed by.
pub(super) fn inner_offset(
    tunnels: &Tunnels,
    packet: &Sampled<'_>,
    tags: &FrameTags,
    tables: [u32; 2],
) -> Option<u32> {
    let (src, dst, protocol, behind) = outer(packet.header, network(packet, tags))?;
    let (encap, inner) = encapsulation(packet.header, protocol, behind)?;
    let (local, remote) = match packet.direction {
        Direction::Rx => (dst, src),
        Direction::Tx => (src, dst),
    };
    let table = tables[usize::from(local.is_ipv6())];
    let key = TunnelKey {
        local,
        remote,
        table,
        encap,
    };
    // What goes out was routed by the tunnel's table, whatever that of the way in was.
    let ours = tunnels.find(&key).or_else(|| {
        let main = TunnelKey { table: 0, ..key };
        (packet.direction == Direction::Tx)
            .then(|| tunnels.find(&main))
            .flatten()
    });
    ours.map(|_| inner as u32)
}
