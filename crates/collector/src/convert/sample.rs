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

#[cfg(test)]
mod tests {
    use super::*;
    use parshall_sflow_wire::record::{
        AsSegment, ExtendedMpls, ExtendedRouter, ExtendedSwitch, List, Timestamp,
    };
    use parshall_sflow_wire::{Address, DataSource, Datagram, DatagramBuilder, Interface, Sample};
    use parshall_wire::{MacAddr, PacketBuilder, TcpFlags};

    const NOW: u64 = 1_700_000_000_000;
    const A: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
    const B: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

    fn head(output: Interface, source: u32) -> FlowSampleHead {
        FlowSampleHead {
            sequence: 1,
            source: DataSource::interface(source),
            rate: 1000,
            pool: 0,
            drops: 0,
            input: Interface::index(3),
            output,
        }
    }

    fn convert(head: FlowSampleHead, records: &[FlowRecord<'_>]) -> Result<Flow, Skip> {
        let mut b = DatagramBuilder::new(1400);
        b.begin([192, 0, 2, 1].into(), 0, 1, 1);
        b.push_flow_sample_expanded(&head, |w| records.iter().for_each(|r| w.push(r)))
            .unwrap();
        let d = Datagram::parse(b.finish()).unwrap();
        match d.samples().next() {
            Some(Ok(Sample::Flow(s))) => flow_of(&s, NOW),
            _ => panic!("a flow sample"),
        }
    }

    fn raw(frame: &[u8], frame_length: usize) -> FlowRecord<'_> {
        FlowRecord::RawHeader(RawHeader {
            protocol: 1,
            frame_length: frame_length as u32,
            stripped: 4,
            header: &frame[..frame.len().min(64)],
        })
    }

    fn tcp(payload: usize) -> Vec<u8> {
        PacketBuilder::ethernet(A, B)
            .vlan(100)
            .ipv4([10, 0, 0, 1].into(), [10, 0, 0, 2].into())
            .tcp(1234, 80, TcpFlags::SYN)
            .payload_len(payload)
            .build()
    }

    fn octets(frame: &[u8], frame_length: usize) -> u64 {
        convert(head(Interface::index(4), 3), &[raw(frame, frame_length)])
            .unwrap()
            .octets
    }

    #[test]
    fn bytes_are_those_of_the_ip_packet() {
        let (long, short) = (tcp(1000), tcp(0));
        assert_eq!(octets(&long, long.len() + 4), 1040);
        // Padded to the least length of a frame: the padding is not IP.
        assert_eq!(octets(&short, 64), 40);
        // An agent that leaves the frame check sequence out of the length.
        assert_eq!(octets(&long, long.len()), 1040);
        // A header that claims more than there is, and one that claims nothing (segmentation offload).
        assert_eq!(octets(&long, 200), 200 - 4 - 18);
        let mut claims_nothing = long.clone();
        claims_nothing[20..22].fill(0);
        assert_eq!(octets(&claims_nothing, long.len() + 4), 1040);
        // A frame length that is not known.
        assert_eq!(octets(&long, 0), 1040);
        let six = PacketBuilder::ethernet(A, B)
            .mpls(17)
            .ipv6(
                "2001:db8::1".parse().unwrap(),
                "2001:db8::2".parse().unwrap(),
            )
            .udp(5, 53)
            .payload_len(100)
            .build();
        assert_eq!(octets(&six, six.len() + 4), 148);
    }

    #[test]
    fn everything_that_is_known_is_in_the_flow() {
        let frame = tcp(1000);
        let path = [AsSegment {
            kind: 2,
            asns: List::new(&[65_001, 65_002]),
        }];
        let records = [
            FlowRecord::Timestamp(Timestamp {
                unix_ns: (NOW - 5) * 1_000_000,
            }),
            FlowRecord::Gateway(ExtendedGateway {
                next_hop: Address::V4([10, 0, 9, 9].into()),
                router_as: 65_000,
                src_as: 64_512,
                src_peer_as: 64_513,
                dst_as_path: List::new(&path),
                communities: List::default(),
                local_pref: 100,
            }),
            FlowRecord::Router(ExtendedRouter {
                next_hop: Address::V4([10, 0, 9, 1].into()),
                src_mask_len: 24,
                dst_mask_len: 16,
            }),
            FlowRecord::Switch(ExtendedSwitch {
                in_vlan: 5,
                in_priority: 0,
                out_vlan: u32::MAX,
                out_priority: u32::MAX,
            }),
            FlowRecord::Mpls(ExtendedMpls {
                next_hop: Address::V4([0; 4].into()),
                in_stack: List::new(&[0x0001_1140]),
                out_stack: List::default(),
            }),
            raw(&frame, frame.len() + 4),
        ];
        let f = convert(head(Interface::index(4), 4), &records).unwrap();
        let want = Flow {
            src: [10, 0, 0, 1].into(),
            dst: [10, 0, 0, 2].into(),
            protocol: 6,
            ttl: f.ttl,
            tcp_flags: 2,
            src_port: 1234,
            dst_port: 80,
            next_hop: Some([10, 0, 9, 1].into()),
            bgp_next_hop: Some([10, 0, 9, 9].into()),
            src_mask: 24,
            dst_mask: 16,
            src_as: 64_512,
            src_peer_as: 64_513,
            dst_as: 65_002,
            dst_peer_as: 65_001,
            input: 3,
            output: 4,
            src_vlan: 5,
            dst_vlan: 0,
            src_mac: A.0,
            dst_mac: B.0,
            labels: Labels::new([0x0001_1140]),
            direction: Direction::Egress,
            forwarding_status: 64,
            packets: 1,
            octets: 1040,
            start_ms: NOW - 5,
            end_ms: NOW - 5,
            ..Flow::default()
        };
        assert_eq!(f, want);
    }

    #[test]
    fn fields_stand_in_for_a_header_and_what_is_not_ip_is_no_flow() {
        let fields = FlowRecord::Ipv4(SampledIpv4 {
            length: 500,
            protocol: 17,
            src: [10, 0, 0, 1].into(),
            dst: [10, 0, 0, 2].into(),
            src_port: 53,
            dst_port: 70_000,
            tcp_flags: 0,
            tos: 0xB8,
        });
        let f = convert(head(Interface::INTERNAL, 3), &[fields]).unwrap();
        assert_eq!(
            (f.octets, f.src_port, f.dst_port, f.tos),
            (500, 53, 0, 0xB8)
        );
        assert_eq!((f.output, f.forwarding_status, f.start_ms), (0, 192, NOW));
        let arp = [[0xFF; 12].as_slice(), &[8, 6], &[0; 46]].concat();
        let not_ip = convert(head(Interface::discarded(6), 3), &[raw(&arp, 64)]);
        assert_eq!(not_ip, Err(Skip::NotIp));
        let dropped = convert(head(Interface::discarded(6), 3), &[fields]).unwrap();
        assert_eq!(dropped.forwarding_status, 131);
    }

    #[test]
    fn a_timestamp_far_off_is_not_believed() {
        let frame = tcp(1);
        let time = FlowRecord::Timestamp(Timestamp { unix_ns: 0 });
        let f = convert(
            head(Interface::index(4), 3),
            &[time, raw(&frame, frame.len() + 4)],
        );
        assert_eq!(f.unwrap().start_ms, NOW);
    }
}
