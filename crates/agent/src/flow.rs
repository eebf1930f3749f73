//! A sample from a worker's ring as an expanded flow sample (sFlow Version 5, section 5.3).

mod tunnel;

use std::net::{IpAddr, Ipv4Addr};

use parshall_bgp::SegmentKind;
use parshall_sample::{Direction, HeaderProtocol, MAX_HEADER, NO_QUEUE, NO_TRANSIT, SampleSlot};
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
/// Bytes of an Ethernet header. hsflowd counts it as stripped where a header begins behind it.
const ETHERNET: u32 = 14;
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
        let tags = match slot.protocol {
            HeaderProtocol::Ethernet => Tags::of(header),
            _ => Tags::of(&[0; 14]),
        };
        if c.records.has(RecordKind::VlanTunnel) && tags.count > 1 {
            let tags = List::new(tags.outer());
            w.push(&FlowRecord::VlanTunnel(ExtendedVlanTunnel { tags }));
        }
        if c.records.has(RecordKind::Switch) {
            let tagged = tags.count != 0 || tags.cut;
            let this_end = c.found.this_end.filter(|_| !tagged);
            let this_end = this_end.unwrap_or_else(|| tags.vlan());
            let record = switch_record(this_end, slot.direction, c.found);
            w.push(&FlowRecord::Switch(record));
        }
        let stripped = match slot.protocol {
            HeaderProtocol::Ethernet => FCS,
            _ => FCS + ETHERNET,
        };
        w.push(&FlowRecord::RawHeader(RawHeader {
            protocol: slot.protocol as u32,
            frame_length: slot.frame_len.saturating_add(stripped),
            stripped,
            header,
        }));
        if c.records.has(RecordKind::Tunnel) {
            let link = match slot.protocol {
                HeaderProtocol::Ethernet => ETHERNET + 4 * tags.count as u32,
                _ => 0,
            };
            tunnel::push(w, slot, link, c.found);
        }
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
mod tests;
