//! A sample from a worker's ring as an expanded flow sample (sFlow Version 5, section 5.3).

use std::net::{IpAddr, Ipv4Addr};

use parshall_bgp::SegmentKind;
use parshall_sample::{Direction, MAX_HEADER, NO_QUEUE, NO_TRANSIT, SampleSlot};
use parshall_sflow_wire::record::{
    AsSegment, EgressQueue, ExtendedGateway, ExtendedMpls, ExtendedRouter, ExtendedSwitch,
    ExtendedVlanTunnel, List, RawHeader, Timestamp, TransitDelay,
};
use parshall_sflow_wire::{
    Address, DataSource, DatagramBuilder, FlowRecord, FlowRecordWriter, FlowSampleHead, Interface,
    PushError,
};

use crate::records::{RecordKind, Records};
use crate::resolution::{Gateway, Passage, Resolution};
use crate::router::RouteInfo;

/// Bytes of the frame check sequence, which counts in the frame's length but is never in the header.
const FCS: u32 = 4;
/// Raw header protocol of Ethernet.
const ETHERNET: u32 = 1;
/// What 1001 says when nothing is known.
const UNKNOWN: u32 = u32::MAX;
/// Most segments of an AS path told. Paths have one, rarely two.
const MAX_SEGMENTS: usize = 16;
/// Most tags of a frame looked at.
const MAX_TAGS: usize = 8;

/// What a flow sample says besides what lies in the ring.
pub struct FlowContext<'a> {
    /// Number of the sample within its source.
    pub sequence: u32,
    /// Who it is counted at.
    pub source: DataSource,
    /// Packets that could have been sampled, wrapped.
    pub pool: u32,
    /// Samples lost, wrapped.
    pub drops: u32,
    /// Where the packet came in.
    pub input: Interface,
    /// Where it goes.
    pub output: Interface,
    /// What the router knows of it.
    pub found: &'a Resolution,
    /// When it was seen, in nanoseconds since 1970, if it is to be told.
    pub unix_ns: Option<u64>,
    /// What is told.
    pub records: Records,
}

/// Appends the sample. The raw header comes after what is told of the packet, as hsflowd has it; only what Wireshark's
/// dissector does not know stands behind it, since it loses its way after a record it does not know.
#[inline]
pub fn push(
    b: &mut DatagramBuilder,
    slot: &SampleSlot,
    c: &FlowContext<'_>,
) -> Result<(), PushError> {
    let header = header(slot);
    let head = FlowSampleHead {
        sequence: c.sequence,
        source: c.source,
        rate: slot.rate,
        pool: c.pool,
        drops: c.drops,
        input: c.input,
        output: c.output,
    };
    b.push_flow_sample_expanded(&head, |w| {
        push_route(w, c);
        let tags = Tags::of(header);
        if c.records.has(RecordKind::VlanTunnel) && tags.count > 1 {
            let tags = List::new(tags.outer());
            w.push(&FlowRecord::VlanTunnel(ExtendedVlanTunnel { tags }));
        }
        if c.records.has(RecordKind::Switch) {
            let record = switch_record(tags.vlan(), slot.direction, c.found);
            w.push(&FlowRecord::Switch(record));
        }
        w.push(&FlowRecord::RawHeader(RawHeader {
            protocol: ETHERNET,
            frame_length: slot.frame_len.saturating_add(FCS),
            stripped: FCS,
            header,
        }));
        push_times(w, slot, c);
    })
}

/// Queue, transit delay and time, as far as the sample has them.
#[inline]
fn push_times(w: &mut FlowRecordWriter<'_>, slot: &SampleSlot, c: &FlowContext<'_>) {
    if c.records.has(RecordKind::TransitDelay) && slot.transit_ns != NO_TRANSIT {
        let delay_ns = slot.transit_ns;
        w.push(&FlowRecord::TransitDelay(TransitDelay { delay_ns }));
    }
    if c.records.has(RecordKind::EgressQueue) && slot.queue != NO_QUEUE {
        let queue = slot.queue.into();
        w.push(&FlowRecord::EgressQueue(EgressQueue { queue }));
    }
    if let Some(unix_ns) = c.unix_ns {
        w.push(&FlowRecord::Timestamp(Timestamp { unix_ns }));
    }
}

/// What the router's tables say.
#[inline]
fn push_route(w: &mut FlowRecordWriter<'_>, c: &FlowContext<'_>) {
    let found = c.found;
    if let Some(g) = &found.gateway
        && c.records.has(RecordKind::Gateway)
    {
        push_gateway(w, g);
    }
    let labelled = !found.in_labels.is_empty() || !found.out_labels.is_empty();
    if c.records.has(RecordKind::Mpls) && found.labels_known && labelled {
        w.push(&FlowRecord::Mpls(ExtendedMpls {
            next_hop: next_hop(found.route.map(|r| r.next_hop)),
            in_stack: List::new(&found.in_labels),
            out_stack: List::new(&found.out_labels),
        }));
    }
    if let Some(r) = found.route
        && c.records.has(RecordKind::Router)
    {
        w.push(&FlowRecord::Router(ExtendedRouter {
            next_hop: next_hop(Some(r.next_hop)),
            src_mask_len: r.src_mask_len,
            dst_mask_len: r.dst_mask_len,
        }));
    }
}

fn push_gateway(w: &mut FlowRecordWriter<'_>, g: &Gateway) {
    const NO_SEGMENT: AsSegment<'_> = AsSegment {
        kind: SegmentKind::Sequence as u32,
        asns: List::new(&[]),
    };
    let mut segments = [NO_SEGMENT; MAX_SEGMENTS];
    let mut n = 0;
    let path = g.path.as_deref();
    for (to, (kind, ases)) in segments
        .iter_mut()
        .zip(path.iter().flat_map(|p| p.segments()))
    {
        *to = AsSegment {
            kind: kind as u32,
            asns: List::new(ases),
        };
        n += 1;
    }
    w.push(&FlowRecord::Gateway(ExtendedGateway {
        next_hop: next_hop(path.and_then(|p| p.next_hop)),
        router_as: g.router_as,
        src_as: g.src_as,
        src_peer_as: g.src_peer_as,
        dst_as_path: List::new(&segments[..n]),
        communities: List::new(path.map_or(&[], |p| p.communities())),
        local_pref: path.and_then(|p| p.local_pref).unwrap_or(0),
    }));
}

/// The header bytes in a slot.
pub fn header(slot: &SampleSlot) -> &[u8] {
    &slot.header[..usize::from(slot.header_len).min(MAX_HEADER)]
}

/// The interface a packet leaves by, as sFlow numbers it.
pub fn interface(exported: u32) -> Interface {
    match exported {
        0 => Interface::UNKNOWN,
        RouteInfo::INTERNAL => Interface::INTERNAL,
        n => Interface::index(n),
    }
}

/// The next hop is never of type "unknown", which makes sflowtool give the datagram up; 0.0.0.0 says the same.
fn next_hop(hop: Option<IpAddr>) -> Address {
    match hop {
        Some(a) if !a.is_unspecified() => a.into(),
        _ => Address::V4(Ipv4Addr::UNSPECIFIED),
    }
}

/// The VLAN tags of a frame, outermost first: type in the upper half, what it says in the lower (IEEE 802.1Q).
struct Tags {
    words: [u32; MAX_TAGS],
    count: usize,
    /// The header ends within the tags.
    cut: bool,
}

impl Tags {
    #[inline]
    fn of(header: &[u8]) -> Tags {
        let mut tags = Tags {
            words: [0; MAX_TAGS],
            count: 0,
            cut: false,
        };
        let mut rest = header.get(12..).unwrap_or(&[]);
        while tags.count < MAX_TAGS {
            match *rest {
                [a, b, c, d, ..] if is_tag([a, b]) => {
                    tags.words[tags.count] = u32::from_be_bytes([a, b, c, d]);
                    tags.count += 1;
                    rest = &rest[4..];
                }
                [a, b, ..] if !is_tag([a, b]) => break,
                _ => {
                    tags.cut = true;
                    break;
                }
            }
        }
        tags
    }

    /// VLAN and priority of the outermost tag; 0 without one.
    #[inline]
    fn vlan(&self) -> (u32, u32) {
        match self.words[0] {
            _ if self.count > 0 => (self.words[0] & 0xFFF, self.words[0] >> 13 & 7),
            _ if self.cut => (UNKNOWN, UNKNOWN),
            _ => (0, 0),
        }
    }

    /// All but the innermost.
    fn outer(&self) -> &[u32] {
        &self.words[..self.count.saturating_sub(1)]
    }
}

/// The tag types that sFlow tools know.
fn is_tag(ether_type: [u8; 2]) -> bool {
    matches!(
        u16::from_be_bytes(ether_type),
        0x8100 | 0x88A8 | 0x9100 | 0x9200 | 0x9300
    )
}

/// VLANs at both ends: the frame tells of one, how the packet went of the other. A routed packet has no tag on
/// the other side, unless the router says that it goes by a VLAN interface there.
fn switch_record(
    (vlan, priority): (u32, u32),
    direction: Direction,
    found: &Resolution,
) -> ExtendedSwitch {
    let leaves = found.route.is_some_and(|r| r.out_if != RouteInfo::INTERNAL);
    let usual = match (found.passage, direction) {
        (Passage::Switched, _) => (vlan, priority),
        (Passage::Routed, Direction::Tx) => (0, 0),
        (Passage::Routed, Direction::Rx) if leaves => (0, 0),
        _ => (UNKNOWN, UNKNOWN),
    };
    let (other, other_priority) = found.other_end.unwrap_or(usual);
    let ends = [(vlan, priority), (other, other_priority)];
    let [came, went] = match direction {
        Direction::Rx => ends,
        Direction::Tx => [ends[1], ends[0]],
    };
    ExtendedSwitch {
        in_vlan: came.0,
        in_priority: came.1,
        out_vlan: went.0,
        out_priority: went.1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(rest: &[u8]) -> Vec<u8> {
        [&[0u8; 12], rest].concat()
    }

    #[test]
    fn vlan_tags_are_read_where_they_are() {
        let vlan = |rest: &[u8]| Tags::of(&frame(rest)).vlan();
        assert_eq!(vlan(&[0x08, 0x00]), (0, 0));
        assert_eq!(vlan(&[0x81, 0x00, 0xB1, 0x23]), (0x123, 5));
        assert_eq!(
            vlan(&[0x88, 0xA8, 0x0F, 0xFF, 0x81, 0x00, 0, 1]),
            (0xFFF, 0)
        );
        assert_eq!(vlan(&[0x88, 0x47, 0, 1, 1, 64]), (0, 0));
        assert_eq!(vlan(&[0x81, 0x00, 0x01]), (UNKNOWN, UNKNOWN));
        assert_eq!(Tags::of(&[0; 13]).vlan(), (UNKNOWN, UNKNOWN));
        let three = [0x88, 0xA8, 0, 7, 0x91, 0, 0, 8, 0x81, 0, 0, 9, 8, 0];
        assert_eq!(Tags::of(&frame(&three)).outer(), [0x88A8_0007, 0x9100_0008]);
        let endless = [0x81, 0, 0, 1].repeat(50);
        assert_eq!(Tags::of(&frame(&endless)).count, MAX_TAGS);
    }

    #[test]
    fn the_other_end_has_the_vlan_that_the_way_through_gives_it() {
        let route = |out_if| RouteInfo {
            out_if,
            next_hop: [192, 0, 2, 1].into(),
            src_mask_len: 0,
            dst_mask_len: 0,
        };
        let found = |passage, out_if: Option<u32>| Resolution {
            passage,
            route: out_if.map(route),
            ..Resolution::default()
        };
        let (rx, tx) = (Direction::Rx, Direction::Tx);
        for (direction, found, want) in [
            (rx, found(Passage::Switched, None), [(7, 3), (7, 3)]),
            (tx, found(Passage::Switched, None), [(7, 3), (7, 3)]),
            (rx, found(Passage::Routed, Some(2)), [(7, 3), (0, 0)]),
            (tx, found(Passage::Routed, None), [(0, 0), (7, 3)]),
            // Dropped, or for the router itself: it left by no VLAN at all.
            (
                rx,
                found(Passage::Routed, None),
                [(7, 3), (UNKNOWN, UNKNOWN)],
            ),
            (
                rx,
                found(Passage::Routed, Some(RouteInfo::INTERNAL)),
                [(7, 3), (UNKNOWN, UNKNOWN)],
            ),
            (
                tx,
                found(Passage::Unknown, None),
                [(UNKNOWN, UNKNOWN), (7, 3)],
            ),
        ] {
            let r = switch_record((7, 3), direction, &found);
            let got = [(r.in_vlan, r.in_priority), (r.out_vlan, r.out_priority)];
            assert_eq!(got, want, "{direction:?} {found:?}");
        }
    }

    /// A sample with everything there is to tell.
    fn full() -> (SampleSlot, Resolution) {
        let mut slot = SampleSlot {
            rx_if: 3,
            rate: 1000,
            frame_len: 60,
            header_len: 22,
            transit_ns: 1234,
            queue: 2,
            direction: Direction::Tx,
            ..SampleSlot::default()
        };
        let frame = [0x88, 0xA8, 0x20, 0x0A, 0x81, 0, 0, 5, 0x08, 0x00];
        slot.header[12..22].copy_from_slice(&frame);
        let line = "::/0 as-path 65001 {3,4} communities 65001:7 local-pref 200 next-hop 192.0.2.9";
        let (_, path) = parshall_bgp::text::parse_line(line, &mut Default::default())
            .unwrap()
            .unwrap();
        let found = Resolution {
            route: Some(RouteInfo {
                out_if: 7,
                next_hop: "192.0.2.254".parse().unwrap(),
                src_mask_len: 24,
                dst_mask_len: 32,
            }),
            passage: Passage::Routed,
            bridged: None,
            labels_known: true,
            in_labels: vec![16 << 12 | 0x140],
            out_labels: vec![17 << 12 | 0x3F, 18 << 12 | 0x13F],
            gateway: Some(Gateway {
                router_as: 65_000,
                src_as: 65_010,
                src_peer_as: 65_011,
                path: Some(path.into()),
            }),
            other_end: None,
        };
        (slot, found)
    }

    fn context(found: &Resolution, records: Records) -> FlowContext<'_> {
        FlowContext {
            sequence: 1,
            source: DataSource::interface(7),
            pool: 5000,
            drops: 2,
            input: Interface::index(3),
            output: Interface::index(7),
            found,
            unix_ns: records.has(RecordKind::Timestamp).then_some(1 << 32 | 5),
            records,
        }
    }

    fn words(slot: &SampleSlot, c: &FlowContext<'_>) -> Vec<u32> {
        let mut b = DatagramBuilder::new(1396);
        b.begin("192.0.2.1".parse().unwrap(), 9, 1, 1500);
        push(&mut b, slot, c).unwrap();
        let words = b.finish().chunks(4);
        words
            .map(|w| u32::from_be_bytes(w.try_into().unwrap()))
            .collect()
    }

    #[test]
    fn golden_flow_sample() {
        let (slot, found) = full();
        let all = RecordKind::ALL.iter();
        let all = all.fold(Records::NONE, |r, k| r.with(*k, true));
        #[rustfmt::skip]
        let want: Vec<u32> = vec![
            // Datagram: version, agent, sub-agent, sequence, uptime, samples.
            5, 1, 0xC000_0201, 9, 1, 1500, 1,
            // Expanded flow sample: sequence, source, rate, pool, drops, input, output, records.
            3, 44 + 16 + 12 + 12 + 72 + 36 + 24 + 16 + 24 + 48, 1, 0, 7, 1000, 5000, 2, 0, 3, 0, 7, 9,
            // Gateway: next hop, AS here, of the source, of the peer towards it, path, communities, preference.
            1003, 64, 1, 0xC000_0209, 65_000, 65_010, 65_011, 2, 2, 1, 65_001, 1, 2, 3, 4, 1, 65_001 << 16 | 7, 200,
            // MPLS: next hop, stack received, stack sent.
            1006, 28, 1, 0xC000_02FE, 1, 16 << 12 | 0x140, 2, 17 << 12 | 0x3F, 18 << 12 | 0x13F,
            // Router: next hop, masks.
            1002, 16, 1, 0xC000_02FE, 24, 32,
            // VLAN tunnel: the tag outside.
            1012, 8, 1, 0x88A8_200A,
            // Switch: VLAN and priority, in and out.
            1001, 16, 0, 0, 10, 1,
            // Raw header: Ethernet, frame with FCS, FCS stripped, 22 bytes and 2 of padding.
            1, 40, 1, 64, 4, 22, 0, 0, 0, 0x88A8_200A, 0x8100_0005, 0x0800_0000,
            // Transit delay, queue, time.
            1039, 4, 1234,
            1036, 4, 2,
            1043, 8, 1, 5,
        ];
        assert_eq!(words(&slot, &context(&found, all)), want);
    }

    #[test]
    fn what_is_switched_off_or_not_known_is_left_out() {
        let (slot, found) = full();
        let tags = |slot: &SampleSlot, found: &Resolution, records: Records| {
            let mut b = DatagramBuilder::new(1396);
            b.begin("192.0.2.1".parse().unwrap(), 9, 1, 1500);
            push(&mut b, slot, &context(found, records)).unwrap();
            let d = parshall_sflow_wire::Datagram::parse(b.finish()).unwrap();
            let Some(Ok(parshall_sflow_wire::Sample::Flow(f))) = d.samples().next() else {
                panic!("no flow sample")
            };
            f.flow_records()
                .map(|r| r.unwrap().tag().format())
                .collect::<Vec<_>>()
        };
        assert_eq!(tags(&slot, &found, Records::NONE), [1]);
        let flow = [
            (RecordKind::Switch, 1001),
            (RecordKind::Router, 1002),
            (RecordKind::Gateway, 1003),
            (RecordKind::Mpls, 1006),
            (RecordKind::VlanTunnel, 1012),
            (RecordKind::EgressQueue, 1036),
            (RecordKind::TransitDelay, 1039),
            (RecordKind::Timestamp, 1043),
        ];
        for (kind, tag) in flow {
            let mut got = tags(&slot, &found, Records::NONE.with(kind, true));
            got.sort_unstable();
            assert_eq!(got, [1, tag]);
        }
        let default = tags(&slot, &found, Records::default());
        assert_eq!(default, [1003, 1006, 1002, 1001, 1]);
        // Of a plain packet nothing is known but its VLAN.
        let plain = SampleSlot::default();
        let got = tags(&plain, &Resolution::default(), Records::default());
        assert_eq!(got, [1001, 1]);
    }

    #[test]
    fn a_slot_that_lies_about_its_length_is_cut() {
        let slot = SampleSlot {
            header_len: u16::MAX,
            frame_len: u32::MAX,
            ..SampleSlot::default()
        };
        assert_eq!(header(&slot).len(), MAX_HEADER);
    }
}
