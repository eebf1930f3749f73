//! The fields of records: their numbers, lengths, and how each comes out of a flow.
//!
//! Numbers are IANA's of the registry "IPFIX Information Elements" (RFC 7012); those below 128 are the field types of NetFlow version 9 as
//! well (RFC 3954 section 8).

use core::net::IpAddr;

use crate::exporter::{Settings, uptime};
use crate::flow::{Direction, Flow};

/// What of a flow stands in a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Item {
    Octets,
    Packets,
    Protocol,
    Tos,
    TcpFlags,
    Ttl,
    SrcPort,
    DstPort,
    Icmp,
    Src,
    Dst,
    SrcMask,
    DstMask,
    FlowLabel,
    NextHop,
    BgpNextHop,
    Input,
    Output,
    SrcAs,
    DstAs,
    DstPeerAs,
    SrcPeerAs,
    SrcVlan,
    DstVlan,
    SrcMac,
    DstMac,
    Direction,
    ForwardingStatus,
    StartUptime,
    EndUptime,
    StartTime,
    EndTime,
    /// The label so many below the top.
    Label(u8),
    /// The sampler or selector.
    Sampler,
    /// The original exporter's address.
    Origin,
    /// Its number.
    OriginDomain,
    /// The stream's number.
    Domain,
    SamplingInterval,
    /// One less than the interval.
    SamplingSpace,
    /// A number that is always the same.
    Always(u16),
}

/// One field of a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Element {
    pub(crate) id: u16,
    pub(crate) len: u16,
    pub(crate) item: Item,
}

pub(crate) const fn element(id: u16, len: u16, item: Item) -> Element {
    Element { id, len, item }
}

impl Element {
    /// Appends the value, in exactly as many bytes as the template says.
    pub(crate) fn write(&self, out: &mut Vec<u8>, flow: &Flow, settings: &Settings) {
        let len = usize::from(self.len);
        let number = match self.item {
            Item::Src => return address(out, Some(flow.src), len),
            Item::Dst => return address(out, Some(flow.dst), len),
            Item::NextHop => return address(out, flow.next_hop, len),
            Item::BgpNextHop => return address(out, flow.bgp_next_hop, len),
            Item::Origin => return address(out, settings.origin.map(|o| o.0), len),
            Item::SrcMac => return out.extend_from_slice(&flow.src_mac),
            Item::DstMac => return out.extend_from_slice(&flow.dst_mac),
            _ => self.number(flow, settings),
        };
        let bytes = number.to_be_bytes();
        out.extend_from_slice(bytes.get(8usize.saturating_sub(len)..).unwrap_or(&bytes));
    }

    fn number(&self, flow: &Flow, settings: &Settings) -> u64 {
        match self.item {
            Item::Octets => flow.octets,
            Item::Packets => flow.packets,
            Item::Protocol => flow.protocol.into(),
            Item::Tos => flow.tos.into(),
            Item::TcpFlags => flow.tcp_flags.into(),
            Item::Ttl => flow.ttl.into(),
            Item::SrcPort => flow.src_port.into(),
            Item::DstPort => flow.dst_port_or_icmp().into(),
            Item::Icmp => flow.icmp_word().into(),
            Item::SrcMask => flow.src_mask.into(),
            Item::DstMask => flow.dst_mask.into(),
            Item::FlowLabel => flow.flow_label.into(),
            Item::Input => flow.input.into(),
            Item::Output => flow.output.into(),
            Item::SrcAs => flow.src_as.into(),
            Item::DstAs => flow.dst_as.into(),
            Item::DstPeerAs => flow.dst_peer_as.into(),
            Item::SrcPeerAs => flow.src_peer_as.into(),
            Item::SrcVlan => flow.src_vlan.into(),
            Item::DstVlan => flow.dst_vlan.into(),
            Item::Direction => u64::from(flow.direction == Direction::Egress),
            Item::ForwardingStatus => flow.forwarding_status.into(),
            Item::StartUptime => uptime(settings, flow.start_ms).into(),
            Item::EndUptime => uptime(settings, flow.end_ms).into(),
            Item::StartTime => flow.start_ms,
            Item::EndTime => flow.end_ms,
            // Label, class and bottom of stack, without the TTL.
            Item::Label(n) => (flow.labels.entries().get(usize::from(n)).unwrap_or(&0) >> 8).into(),
            Item::OriginDomain => settings.origin.map_or(0, |o| o.1).into(),
            // The one sampler of a stream has the stream's number: some collectors keep the samplers of all streams in one list.
            Item::Domain | Item::Sampler => settings.domain.into(),
            Item::SamplingInterval => settings.sampling_interval.max(1).into(),
            Item::SamplingSpace => (settings.sampling_interval.max(1) - 1).into(),
            Item::Always(n) => n.into(),
            _ => 0,
        }
    }
}

/// An address of the length that the template has; zeros where there is none or it is of the other family.
fn address(out: &mut Vec<u8>, ip: Option<IpAddr>, len: usize) {
    match ip {
        Some(IpAddr::V4(a)) if len == 4 => out.extend_from_slice(&a.octets()),
        Some(IpAddr::V6(a)) if len == 16 => out.extend_from_slice(&a.octets()),
        _ => out.resize(out.len() + len, 0),
    }
}
