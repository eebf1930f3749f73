//! What is known of one flow. What is not known is zero, as all three protocols have it.

use core::net::{IpAddr, Ipv4Addr};

/// MPLS labels of a flow that are exported; deeper ones are left out.
pub const MAX_LABELS: usize = 4;

/// The top of an MPLS label stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Labels {
    entries: [u32; MAX_LABELS],
    len: u8,
}

impl Labels {
    /// The first [`MAX_LABELS`] of these label stack entries (RFC 3032: label, class, bottom of stack, TTL), top first.
    pub fn new(stack: impl IntoIterator<Item = u32>) -> Labels {
        let mut labels = Labels::default();
        for (slot, entry) in labels.entries.iter_mut().zip(stack) {
            *slot = entry;
            labels.len += 1;
        }
        labels
    }

    /// The entries, top first.
    pub fn entries(&self) -> &[u32] {
        self.entries.get(..usize::from(self.len)).unwrap_or(&[])
    }
}

/// Where the flow was seen (`flowDirection`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Direction {
    /// On the interface it came in by.
    #[default]
    Ingress,
    /// On the interface it went out by.
    Egress,
}

/// One flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow {
    /// Source address.
    pub src: IpAddr,
    /// Destination address, of the same family.
    pub dst: IpAddr,
    /// IP protocol, of IPv6 that behind the extension headers.
    pub protocol: u8,
    /// Type of service or traffic class.
    pub tos: u8,
    /// TTL or hop limit.
    pub ttl: u8,
    /// TCP flags, all those seen.
    pub tcp_flags: u8,
    /// Source port, 0 where there are none.
    pub src_port: u16,
    /// Destination port, 0 where there are none.
    pub dst_port: u16,
    /// ICMP type and code.
    pub icmp: Option<(u8, u8)>,
    /// IPv6 flow label.
    pub flow_label: u32,
    /// The next hop.
    pub next_hop: Option<IpAddr>,
    /// The BGP next hop.
    pub bgp_next_hop: Option<IpAddr>,
    /// Prefix length of the route to the source.
    pub src_mask: u8,
    /// Prefix length of the route to the destination.
    pub dst_mask: u8,
    /// Origin AS of the route to the source.
    pub src_as: u32,
    /// Origin AS of the route to the destination.
    pub dst_as: u32,
    /// AS of the neighbour towards the source.
    pub src_peer_as: u32,
    /// AS of the neighbour towards the destination.
    pub dst_peer_as: u32,
    /// ifIndex it came in by.
    pub input: u32,
    /// ifIndex it went out by.
    pub output: u32,
    /// VLAN it came in on.
    pub src_vlan: u16,
    /// VLAN it went out on.
    pub dst_vlan: u16,
    /// Source address of the frames.
    pub src_mac: [u8; 6],
    /// Destination address of the frames.
    pub dst_mac: [u8; 6],
    /// MPLS labels.
    pub labels: Labels,
    /// Where it was seen.
    pub direction: Direction,
    /// What became of it (RFC 7270 section 4.12): 64 forwarded, 128 and up dropped, 192 and up consumed.
    pub forwarding_status: u8,
    /// Packets.
    pub packets: u64,
    /// Bytes of IP packets, their headers included.
    pub octets: u64,
    /// Time of the first packet, milliseconds since 1970-01-01 UTC.
    pub start_ms: u64,
    /// Time of the last packet.
    pub end_ms: u64,
}

impl Default for Flow {
    fn default() -> Self {
        Flow {
            src: Ipv4Addr::UNSPECIFIED.into(),
            dst: Ipv4Addr::UNSPECIFIED.into(),
            protocol: 0,
            tos: 0,
            ttl: 0,
            tcp_flags: 0,
            src_port: 0,
            dst_port: 0,
            icmp: None,
            flow_label: 0,
            next_hop: None,
            bgp_next_hop: None,
            src_mask: 0,
            dst_mask: 0,
            src_as: 0,
            dst_as: 0,
            src_peer_as: 0,
            dst_peer_as: 0,
            input: 0,
            output: 0,
            src_vlan: 0,
            dst_vlan: 0,
            src_mac: [0; 6],
            dst_mac: [0; 6],
            labels: Labels::default(),
            direction: Direction::default(),
            forwarding_status: 0,
            packets: 0,
            octets: 0,
            start_ms: 0,
            end_ms: 0,
        }
    }
}

impl Flow {
    /// Type and code of ICMP as one number, as exporters put it where the destination port is.
    pub(crate) fn icmp_word(&self) -> u16 {
        self.icmp
            .map_or(0, |(kind, code)| u16::from_be_bytes([kind, code]))
    }

    /// The destination port, or ICMP type and code: collectors expect them there.
    pub(crate) fn dst_port_or_icmp(&self) -> u16 {
        match self.icmp {
            Some(_) => self.icmp_word(),
            None => self.dst_port,
        }
    }
}
