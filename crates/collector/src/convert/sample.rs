//! What a flow sample says, as a flow of one packet.
//!
//! The packet is the first raw header (0:1) with an IP packet in it, else the IPv4 or IPv6 fields (0:3, 0:4). Bytes are those of the IP packet: what its
//! own header says as long as the frame can hold it, else the frame without what stands in front of the IP header and was stripped. Of several records of
//! one kind the first counts.

use std::net::IpAddr;

use parshall_flow_export::{Direction, Flow, Labels};
use parshall_sflow_wire::dissect::{IpVersion, Packet, Transport, dissect};
use parshall_sflow_wire::record::{ExtendedGateway, RawHeader, SampledIpv4, SampledIpv6};
use parshall_sflow_wire::{FlowRecord, FlowSample, FlowSampleHead, InterfaceKind};

/// Why a sample becomes no flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Skip {
    /// It is of a packet that is not IP, or not known to be.
    NotIp,
    /// No record that shows the packet can be read.
    Malformed,
}

/// Timestamps in samples are believed this far from the time of arrival.
const BELIEVED_MS: u64 = 3_600_000;

/// The flow of the one packet that the sample shows: `packets` is 1, `octets` the bytes of its IP packet.
///
/// # Errors
/// When the sample does not show an IP packet.
pub fn flow_of(sample: &FlowSample<'_>, now_ms: u64) -> Result<Flow, Skip> {
    let mut seen = Seen::default();
    let mut broken = false;
    for record in sample.flow_records() {
        match record {
            Ok(r) => seen.record(r),
            Err(_) => broken = true,
        }
    }
    let mut flow = seen.packet().ok_or(match broken {
        true => Skip::Malformed,
        false => Skip::NotIp,
    })?;
    seen.add_to(&mut flow);
    interfaces(&mut flow, &sample.head);
    let time = seen.time_ms.filter(|t| t.abs_diff(now_ms) <= BELIEVED_MS);
    flow.start_ms = time.unwrap_or(now_ms);
    flow.end_ms = flow.start_ms;
    flow.packets = 1;
    Ok(flow)
}

/// The records of interest.
#[derive(Default)]
struct Seen<'a> {
    header: Option<(RawHeader<'a>, Packet)>,
    ipv4: Option<SampledIpv4>,
    ipv6: Option<SampledIpv6>,
    macs: Option<([u8; 6], [u8; 6])>,
    vlans: Option<(u32, u32)>,
    route: Option<(Option<IpAddr>, u32, u32)>,
    gateway: Option<ExtendedGateway<'a>>,
    labels: Option<Labels>,
    time_ms: Option<u64>,
}

impl<'a> Seen<'a> {
    fn record(&mut self, record: FlowRecord<'a>) {
        match record {
            FlowRecord::RawHeader(h) if self.header.is_none() => {
                let p = dissect(h.protocol, h.header);
                self.header = p.ip.is_some().then_some((h, p));
            }
            FlowRecord::Ethernet(e) => {
                self.macs.get_or_insert((e.src.0, e.dst.0));
            }
            FlowRecord::Ipv4(r) => {
                self.ipv4.get_or_insert(r);
            }
            FlowRecord::Ipv6(r) => {
                self.ipv6.get_or_insert(r);
            }
            FlowRecord::Switch(s) => {
                self.vlans.get_or_insert((s.in_vlan, s.out_vlan));
            }
            FlowRecord::Router(r) => {
                let hop = known(r.next_hop.ip());
                self.route
                    .get_or_insert((hop, r.src_mask_len, r.dst_mask_len));
            }
            FlowRecord::Gateway(g) => {
                self.gateway.get_or_insert(g);
            }
            FlowRecord::Mpls(m) => {
                self.labels.get_or_insert_with(|| Labels::new(&m.in_stack));
            }
            FlowRecord::Timestamp(t) => {
                self.time_ms.get_or_insert(t.unix_ns / 1_000_000);
            }
            _ => {}
        }
    }

    fn packet(&self) -> Option<Flow> {
        match (&self.header, self.ipv4, self.ipv6) {
            (Some((h, p)), ..) => of_header(h, p),
            (None, Some(r), _) => Some(of_ipv4(&r)),
            (None, None, Some(r)) => Some(of_ipv6(&r)),
            (None, None, None) => None,
        }
    }

    fn add_to(&self, flow: &mut Flow) {
        if let (Some((src, dst)), [0, 0, 0, 0, 0, 0]) = (self.macs, flow.src_mac) {
            (flow.src_mac, flow.dst_mac) = (src, dst);
        }
        if let Some((input, output)) = self.vlans {
            // All ones is unknown: then what the packet itself carried stands.
            flow.src_vlan = vlan(input).unwrap_or(flow.src_vlan);
            flow.dst_vlan = vlan(output).unwrap_or(flow.dst_vlan);
        }
        if let Some((hop, src_mask, dst_mask)) = self.route {
            flow.next_hop = hop;
            flow.src_mask = u8::try_from(src_mask).unwrap_or(0);
            flow.dst_mask = u8::try_from(dst_mask).unwrap_or(0);
        }
        if let (Some(labels), []) = (self.labels, flow.labels.entries()) {
            flow.labels = labels;
        }
        if let Some(g) = &self.gateway {
            autonomous_systems(flow, g);
        }
    }
}

fn autonomous_systems(flow: &mut Flow, g: &ExtendedGateway<'_>) {
    flow.bgp_next_hop = known(g.next_hop.ip());
    flow.src_as = g.src_as;
    flow.src_peer_as = g.src_peer_as;
    let mut path = g.dst_as_path.iter().flat_map(|s| s.asns.iter());
    // The first AS of the path is the neighbour, the last one the origin; without a path the destination is our own.
    let first = path.next();
    flow.dst_peer_as = first.unwrap_or(0);
    flow.dst_as = path.last().or(first).unwrap_or(g.router_as);
}

fn of_header(h: &RawHeader<'_>, p: &Packet) -> Option<Flow> {
    let ip = p.ip?;
    let frame = u64::from(h.frame_length);
    let in_front = ip.offset as u64 + u64::from(h.stripped);
    let (claimed, flow_label) = match ip.version {
        IpVersion::V4(v) => (u64::from(v.total_len), 0),
        // A payload length of 0 is a jumbogram's.
        IpVersion::V6(v) => match v.payload_len {
            0 => (0, v.flow_label),
            n => (u64::from(n) + 40, v.flow_label),
        },
    };
    let octets = match claimed {
        n if n > 0 && (n <= frame || frame == 0) => n,
        _ => frame.saturating_sub(in_front),
    };
    let (src_port, dst_port) = p.ports();
    let vlan = p
        .vlans
        .as_slice()
        .first()
        .map_or(0, |tag| *tag as u16 & 0xFFF);
    Some(Flow {
        src: ip.src,
        dst: ip.dst,
        protocol: ip.protocol,
        tos: ip.tos,
        ttl: ip.ttl,
        tcp_flags: match p.transport {
            Some(Transport::Tcp { flags, .. }) => flags.unwrap_or(0),
            _ => 0,
        },
        src_port,
        dst_port,
        icmp: match p.transport {
            Some(Transport::Icmp { kind, code }) => Some((kind, code)),
            _ => None,
        },
        flow_label,
        src_vlan: vlan,
        dst_vlan: 0,
        src_mac: p.ethernet.map_or([0; 6], |e| e.src),
        dst_mac: p.ethernet.map_or([0; 6], |e| e.dst),
        labels: Labels::new(p.labels.as_slice().iter().copied()),
        octets,
        ..Flow::default()
    })
}

fn of_ipv4(r: &SampledIpv4) -> Flow {
    Flow {
        src: r.src.into(),
        dst: r.dst.into(),
        octets: r.length.into(),
        ..of_fields(r.protocol, r.tos, r.tcp_flags, r.src_port, r.dst_port)
    }
}

fn of_ipv6(r: &SampledIpv6) -> Flow {
    Flow {
        src: r.src.into(),
        dst: r.dst.into(),
        octets: r.length.into(),
        ..of_fields(r.protocol, r.priority, r.tcp_flags, r.src_port, r.dst_port)
    }
}

fn of_fields(protocol: u32, tos: u32, tcp_flags: u32, src_port: u32, dst_port: u32) -> Flow {
    let port = |p: u32| u16::try_from(p).unwrap_or(0);
    Flow {
        protocol: u8::try_from(protocol).unwrap_or(0),
        tos: tos as u8,
        tcp_flags: tcp_flags as u8,
        src_port: port(src_port),
        dst_port: port(dst_port),
        ..Flow::default()
    }
}

/// Where it came in and went out, and what became of it.
fn interfaces(flow: &mut Flow, head: &FlowSampleHead) {
    flow.input = head.input.if_index().unwrap_or(0);
    flow.output = head.output.if_index().unwrap_or(0);
    let source = (head.source.class == 0).then_some(head.source.index);
    let seen_at_output = flow.output != 0 && source == Some(flow.output);
    if seen_at_output && source != Some(flow.input) {
        flow.direction = Direction::Egress;
    }
    flow.forwarding_status = match head.output.kind() {
        InterfaceKind::Index(_) | InterfaceKind::Multiple(_) => 64,
        InterfaceKind::Internal => 192,
        InterfaceKind::Discarded(reason) => dropped(reason),
        _ => 0,
    };
}

/// The reason of RFC 7270 section 4.12 for a reason of sFlow.
fn dropped(reason: u32) -> u8 {
    match reason {
        258 => 129,
        0 | 1 | 6 | 7 => 131,
        279 => 132,
        4 | 262 => 133,
        275 => 134,
        257 => 137,
        261 => 138,
        260 => 139,
        280 | 302 | 335 => 140,
        _ => 128,
    }
}

fn known(ip: Option<IpAddr>) -> Option<IpAddr> {
    ip.filter(|ip| !ip.is_unspecified())
}

fn vlan(id: u32) -> Option<u16> {
    u16::try_from(id).ok().filter(|id| *id < 4096)
}
