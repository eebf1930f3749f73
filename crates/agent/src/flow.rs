//! A sample from a worker's ring as an expanded flow sample (sFlow Version 5, section 5.3).

use std::net::{IpAddr, Ipv4Addr};

use parshall_sample::{MAX_HEADER, SampleSlot};
use parshall_sflow_wire::record::{ExtendedRouter, ExtendedSwitch, RawHeader};
use parshall_sflow_wire::{
    Address, DataSource, DatagramBuilder, FlowRecord, FlowSampleHead, Interface, PushError,
};

use crate::router::RouteInfo;

/// Bytes of the frame check sequence, which counts in the frame's length but is never in the header.
const FCS: u32 = 4;
/// Raw header protocol of Ethernet.
const ETHERNET: u32 = 1;
/// What 1001 says when nothing is known.
const UNKNOWN: u32 = u32::MAX;

/// What a flow sample says besides what lies in the ring.
pub struct FlowContext {
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
    /// The route, if the router knows one.
    pub route: Option<RouteInfo>,
}

/// Appends the sample. The raw header comes last, as hsflowd has it: what is told of the packet stands before it.
#[inline]
pub fn push(b: &mut DatagramBuilder, slot: &SampleSlot, c: &FlowContext) -> Result<(), PushError> {
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
        w.push(&FlowRecord::Router(router_record(c.route)));
        w.push(&FlowRecord::Switch(switch_record(header)));
        w.push(&FlowRecord::RawHeader(RawHeader {
            protocol: ETHERNET,
            frame_length: slot.frame_len.saturating_add(FCS),
            stripped: FCS,
            header,
        }));
    })
}

/// The header bytes in a slot.
pub fn header(slot: &SampleSlot) -> &[u8] {
    &slot.header[..usize::from(slot.header_len).min(MAX_HEADER)]
}

/// Whether a frame carries MPLS labels, unicast or multicast (RFC 3032 section 5, RFC 5332).
pub fn is_labelled(header: &[u8]) -> bool {
    matches!(header.get(12..14), Some([0x88, 0x47 | 0x48]))
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
fn router_record(route: Option<RouteInfo>) -> ExtendedRouter {
    let unknown = Address::V4(Ipv4Addr::UNSPECIFIED);
    match route {
        None => ExtendedRouter {
            next_hop: unknown,
            src_mask_len: 0,
            dst_mask_len: 0,
        },
        Some(r) => ExtendedRouter {
            next_hop: match r.next_hop {
                IpAddr::V6(a) if a.is_unspecified() => unknown,
                a => a.into(),
            },
            src_mask_len: r.src_mask_len,
            dst_mask_len: r.dst_mask_len,
        },
    }
}

/// The outermost 802.1Q or 802.1ad tag; no tag is VLAN 0. The way out is taken to be the same.
fn switch_record(header: &[u8]) -> ExtendedSwitch {
    let (vlan, priority) = match header.get(12..14) {
        Some([0x81 | 0x91, 0x00] | [0x88, 0xA8]) => match header.get(14..16) {
            Some(&[high, low]) => (
                u32::from(high & 0x0F) << 8 | u32::from(low),
                u32::from(high >> 5),
            ),
            _ => (UNKNOWN, UNKNOWN),
        },
        Some(_) => (0, 0),
        None => (UNKNOWN, UNKNOWN),
    };
    ExtendedSwitch {
        in_vlan: vlan,
        in_priority: priority,
        out_vlan: vlan,
        out_priority: priority,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vlan_tags_are_read_where_they_are() {
        let frame = |rest: &[u8]| [&[0u8; 12], rest].concat();
        let vlan = |rest: &[u8]| {
            let r = switch_record(&frame(rest));
            assert_eq!((r.in_vlan, r.in_priority), (r.out_vlan, r.out_priority));
            (r.in_vlan, r.in_priority)
        };
        assert_eq!(vlan(&[0x08, 0x00]), (0, 0));
        assert_eq!(vlan(&[0x81, 0x00, 0xB1, 0x23]), (0x123, 5));
        assert_eq!(
            vlan(&[0x88, 0xA8, 0x0F, 0xFF, 0x81, 0x00, 0, 1]),
            (0xFFF, 0)
        );
        assert_eq!(vlan(&[0x81, 0x00, 0x01]), (UNKNOWN, UNKNOWN));
        assert_eq!(switch_record(&[0; 13]).in_vlan, UNKNOWN);
    }

    #[test]
    fn golden_flow_sample() {
        let mut slot = SampleSlot {
            rx_if: 3,
            rate: 1000,
            frame_len: 60,
            header_len: 18,
            ..SampleSlot::default()
        };
        slot.header[12..18].copy_from_slice(&[0x81, 0x00, 0x20, 0x0A, 0x08, 0x00]);
        let context = FlowContext {
            sequence: 1,
            source: DataSource::interface(7),
            pool: 5000,
            drops: 2,
            input: Interface::index(7),
            output: interface(RouteInfo::INTERNAL),
            route: Some(RouteInfo {
                out_if: RouteInfo::INTERNAL,
                next_hop: "192.0.2.254".parse().unwrap(),
                src_mask_len: 24,
                dst_mask_len: 32,
            }),
        };
        let mut b = DatagramBuilder::new(1396);
        b.begin("192.0.2.1".parse().unwrap(), 9, 1, 1500);
        push(&mut b, &slot, &context).unwrap();
        #[rustfmt::skip]
        let want: Vec<u32> = vec![
            // Datagram: version, agent, sub-agent, sequence, uptime, samples.
            5, 1, 0xC000_0201, 9, 1, 1500, 1,
            // Expanded flow sample: sequence, source, rate, pool, drops, input, output, records.
            3, 44 + 24 + 24 + 44, 1, 0, 7, 1000, 5000, 2, 0, 7, 0, 0x3FFF_FFFF, 3,
            // Router: next hop, masks.
            1002, 16, 1, 0xC000_02FE, 24, 32,
            // Switch: VLAN and priority, in and out.
            1001, 16, 10, 1, 10, 1,
            // Raw header: Ethernet, frame with FCS, FCS stripped, 18 bytes and 2 of padding.
            1, 36, 1, 64, 4, 18, 0, 0, 0, 0x8100_200A, 0x0800_0000,
        ];
        let want: Vec<u8> = want.iter().flat_map(|w| w.to_be_bytes()).collect();
        assert_eq!(b.finish(), want);
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
