//! The sampled packet in the typed JSON: what the dissector found, under sflowtool's names.

use super::json_records::{label_stack, vlan_stack};
use super::json_writer::{Json, key};
use super::value::Value;
use crate::dissect::{IpVersion, Packet, Transport};
use crate::record::RawHeader;

/// Ports of the records that carry decoded IP fields.
pub(super) fn record_ports(j: &mut Json, protocol: u32, src: u32, dst: u32, flags: u32) {
    match protocol {
        // Agents put the type into either port, so both are shown.
        1 | 58 => {
            j.number(key!("srcPort"), src.into());
            j.number(key!("dstPort"), dst.into());
        }
        6 => {
            j.number(key!("TCPSrcPort"), src.into());
            j.number(key!("TCPDstPort"), dst.into());
            j.number(key!("TCPFlags"), flags.into());
        }
        17 => {
            j.number(key!("UDPSrcPort"), src.into());
            j.number(key!("UDPDstPort"), dst.into());
        }
        _ => {}
    }
}

/// What was found in the sampled header.
pub(super) fn packet(j: &mut Json, h: &RawHeader<'_>, p: &Packet) {
    if let Some(e) = &p.ethernet {
        j.quoted(key!("dstMAC"), Value::Mac(e.dst));
        j.quoted(key!("srcMAC"), Value::Mac(e.src));
        if let [.., inner] = p.vlans.as_slice() {
            j.number(key!("decodedVLAN"), (inner & 4095).into());
            j.number(key!("decodedPriority"), (inner >> 13 & 7).into());
        }
        if p.vlans.as_slice().len() > 1 {
            j.key(key!("decodedVLANs"));
            vlan_stack(j, p.vlans.as_slice().iter().copied());
        }
        j.number(key!("ethernet_type"), e.ether_type.into());
    }
    if !p.labels.as_slice().is_empty() {
        j.key(key!("mplsLabels"));
        label_stack(j, p.labels.as_slice().iter().copied());
    }
    ip(j, h, p);
    match p.transport {
        Some(Transport::Tcp { src, dst, flags }) => {
            j.number(key!("TCPSrcPort"), src.into());
            j.number(key!("TCPDstPort"), dst.into());
            if let Some(flags) = flags {
                j.number(key!("TCPFlags"), flags.into());
            }
        }
        Some(Transport::Udp { src, dst, len }) => {
            j.number(key!("UDPSrcPort"), src.into());
            j.number(key!("UDPDstPort"), dst.into());
            j.number(key!("UDPBytes"), len.into());
        }
        Some(Transport::Icmp { kind, code }) => {
            j.number(key!("ICMPType"), kind.into());
            j.number(key!("ICMPCode"), code.into());
        }
        Some(Transport::Ports { src, dst }) => {
            j.number(key!("srcPort"), src.into());
            j.number(key!("dstPort"), dst.into());
        }
        None => {}
    }
}

fn ip(j: &mut Json, h: &RawHeader<'_>, p: &Packet) {
    let Some(ip) = &p.ip else { return };
    let below = u64::from(h.stripped) + ip.offset as u64;
    j.number(
        key!("IPSize"),
        u64::from(h.frame_length).saturating_sub(below),
    );
    let (src, dst) = (ip.src.into(), ip.dst.into());
    match ip.version {
        IpVersion::V4(v4) => {
            j.number(key!("ip.tot_len"), v4.total_len.into());
            j.address(key!("srcIP"), src);
            j.address(key!("dstIP"), dst);
            j.number(key!("IPProtocol"), ip.protocol.into());
            j.number(key!("IPTOS"), ip.tos.into());
            j.number(key!("IPTTL"), ip.ttl.into());
            j.number(key!("IPID"), v4.id.into());
            if v4.fragment_offset > 0 {
                j.number(key!("IPFragmentOffset"), v4.fragment_offset.into());
            }
        }
        IpVersion::V6(v6) => {
            j.number(key!("IPTOS"), ip.tos.into());
            j.number(key!("IP6_label"), v6.flow_label.into());
            j.number(key!("IPV6_payloadLen"), v6.payload_len.into());
            j.number(key!("IPTTL"), ip.ttl.into());
            j.address(key!("srcIP6"), src);
            j.address(key!("dstIP6"), dst);
            if let Some(offset) = v6.fragment_offset {
                j.number(key!("IPFragmentOffset"), offset.into());
            }
            j.number(key!("IPProtocol"), ip.protocol.into());
        }
    }
}
