//! Trace formatters that several nodes share.

use parshall_graph::{TraceRecord, hex_line};
use parshall_wire::{Ipv4Packet, Ipv6Packet};

/// One line about an IPv4 packet.
pub fn format_ip4(r: &TraceRecord) -> String {
    let Ok(p) = Ipv4Packet::new_checked(r.bytes()).or_else(|_| {
        // A trace keeps only the packet's head: look at the header without its length check.
        if r.bytes().len() >= 20 {
            Ok(Ipv4Packet::new_unchecked(r.bytes()))
        } else {
            Err(())
        }
    }) else {
        return hex_line(r);
    };
    format!(
        "{}: {} -> {} ttl {} length {}",
        p.protocol(),
        p.src_addr(),
        p.dst_addr(),
        p.ttl(),
        p.total_len()
    )
}

/// One line about an IPv6 packet.
pub fn format_ip6(r: &TraceRecord) -> String {
    if r.bytes().len() < 40 {
        return hex_line(r);
    }
    let p = Ipv6Packet::new_unchecked(r.bytes());
    format!(
        "{}: {} -> {} hop limit {} payload {}",
        p.next_header(),
        p.src_addr(),
        p.dst_addr(),
        p.hop_limit(),
        p.payload_len()
    )
}

/// One line about a label stack.
pub fn format_mpls(r: &TraceRecord) -> String {
    let mut out = String::from("labels");
    for entry in r.bytes().chunks_exact(4) {
        let e = parshall_wire::MplsLabelEntry::new_unchecked(entry);
        out.push_str(&format!(
            " {}/tc {}/ttl {}",
            e.label().get(),
            e.traffic_class().get(),
            e.ttl()
        ));
        if e.is_bottom() {
            break;
        }
    }
    out
}
