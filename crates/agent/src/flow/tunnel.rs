//! What a sample tells of tunnels ("sFlow Tunnel Structures", 2012).

use std::net::{IpAddr, Ipv6Addr};

use parshall_sample::{Direction, SampleSlot};
use parshall_sflow_wire::record::{
    DecapsulateEgress, DecapsulateIngress, SampledIpv4, SampledIpv6, VniEgress, VniIngress,
};
use parshall_sflow_wire::{FlowRecord, FlowRecordWriter};

use crate::resolution::{Resolution, TunnelEnds};

/// The tunnels that a packet comes out of and goes into: what was taken off in front of the
/// sampled header, what will be put there, and where in it what is carried begins. `link` is the
/// length of the header's link layer.
pub(super) fn push(w: &mut FlowRecordWriter<'_>, slot: &SampleSlot, link: u32, found: &Resolution) {
    let length = |t: &TunnelEnds| {
        let link = if t.carries_frames { 0 } else { link };
        slot.frame_len.saturating_sub(link) + u32::from(t.overhead)
    };
    if let Some(t) = &found.came_out_of {
        match outer(t, length(t)) {
            Outer::Ip4(r) => w.push(&FlowRecord::Ipv4TunnelIngress(r)),
            Outer::Ip6(r) => w.push(&FlowRecord::Ipv6TunnelIngress(r)),
        }
        if let Some(vni) = t.vni {
            w.push(&FlowRecord::VniIngress(VniIngress { vni }));
        }
    }
    if let Some(t) = &found.goes_into {
        match outer(t, length(t)) {
            Outer::Ip4(r) => w.push(&FlowRecord::Ipv4TunnelEgress(r)),
            Outer::Ip6(r) => w.push(&FlowRecord::Ipv6TunnelEgress(r)),
        }
        if let Some(vni) = t.vni {
            w.push(&FlowRecord::VniEgress(VniEgress { vni }));
        }
    }
    match (found.inner_offset, slot.direction) {
        (Some(inner_header_offset), Direction::Rx) => {
            let record = DecapsulateEgress {
                inner_header_offset,
            };
            w.push(&FlowRecord::DecapsulateEgress(record));
        }
        (Some(inner_header_offset), Direction::Tx) => {
            let record = DecapsulateIngress {
                inner_header_offset,
            };
            w.push(&FlowRecord::DecapsulateIngress(record));
        }
        (None, _) => {}
    }
}

/// The outer header of a tunnel.
enum Outer {
    Ip4(SampledIpv4),
    Ip6(SampledIpv6),
}

/// What the outer header of a packet of `length` bytes says. The source port differs from flow to flow and is not kept.
fn outer(t: &TunnelEnds, length: u32) -> Outer {
    let (protocol, dst_port, class) = (t.protocol.into(), t.dst_port.into(), t.class.into());
    match (t.src, t.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => Outer::Ip4(SampledIpv4 {
            length,
            protocol,
            src,
            dst,
            src_port: 0,
            dst_port,
            tcp_flags: 0,
            tos: class,
        }),
        (src, dst) => Outer::Ip6(SampledIpv6 {
            length,
            protocol,
            src: six(src),
            dst: six(dst),
            src_port: 0,
            dst_port,
            tcp_flags: 0,
            priority: class,
        }),
    }
}

fn six(a: IpAddr) -> Ipv6Addr {
    match a {
        IpAddr::V6(a) => a,
        IpAddr::V4(a) => a.to_ipv6_mapped(),
    }
}
