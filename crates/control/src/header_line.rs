//! A packet in one line, from the first bytes of it: for `show drops`.

use std::fmt::Write;

use parshall_sflow_wire::dissect::{IpVersion, Packet, Transport, dissect};

use crate::text::mac;

/// One line about the first bytes of a packet. `protocol` says what they begin with, as in an sFlow raw header.
pub fn header_line(protocol: u32, header: &[u8]) -> String {
    let p = dissect(protocol, header);
    let mut out = String::new();
    // Writing to a String cannot fail, here and below.
    if let Some(e) = p.ethernet {
        let _ = write!(out, "{} > {}", mac(e.src), mac(e.dst));
    }
    for tag in p.vlans.as_slice() {
        let _ = write!(out, " vlan {}", tag & 0xFFF);
    }
    for entry in p.labels.as_slice() {
        let _ = write!(out, " label {} ttl {}", entry >> 12, entry & 0xFF);
    }
    if p.ip.is_some() {
        network(&mut out, &p);
    } else if let Some(e) = p.ethernet.filter(|_| p.labels.as_slice().is_empty()) {
        let name = match e.ether_type {
            0x0806 => " ARP",
            0x0800 => " IPv4",
            0x86DD => " IPv6",
            0x8847 => " MPLS",
            _ => "",
        };
        let _ = write!(out, " type 0x{:04x}{name}", e.ether_type);
    }
    if out.is_empty() {
        let _ = write!(out, "{}", crate::text::hex(&header[..header.len().min(16)]));
    }
    out.trim_start().to_owned()
}

fn network(out: &mut String, p: &Packet) {
    let Some(ip) = p.ip else { return };
    let (sport, dport) = match p.transport {
        Some(Transport::Tcp { .. } | Transport::Udp { .. } | Transport::Ports { .. }) => {
            let (s, d) = p.ports();
            (format!(".{s}"), format!(".{d}"))
        }
        _ => Default::default(),
    };
    let (version, length) = match ip.version {
        IpVersion::V4(v) => ("IPv4", u32::from(v.total_len)),
        IpVersion::V6(v) => ("IPv6", 40 + u32::from(v.payload_len)),
    };
    let _ = write!(out, " {version} {}{sport} > {}{dport}", ip.src, ip.dst);
    match p.transport {
        Some(Transport::Tcp { .. }) => out.push_str(" TCP"),
        Some(Transport::Udp { .. }) => out.push_str(" UDP"),
        Some(Transport::Icmp { kind, code }) => {
            let _ = write!(out, " ICMP type {kind} code {code}");
        }
        _ => {
            let _ = write!(out, " protocol {}", ip.protocol);
        }
    }
    let _ = write!(out, " ttl {} length {length}", ip.ttl);
}

#[cfg(test)]
mod tests {
    use super::*;
    use parshall_wire::{MacAddr, PacketBuilder};

    fn ethernet() -> PacketBuilder {
        PacketBuilder::ethernet(MacAddr([2, 0, 0, 0, 0, 9]), MacAddr([2, 0, 0, 0, 0, 1]))
    }

    #[test]
    fn lines_say_what_matters() {
        let udp = ethernet()
            .ipv4([10, 0, 0, 9].into(), [10, 1, 0, 2].into())
            .ttl(3)
            .udp(7, 53)
            .payload_len(20);
        let mut arp = ethernet().build();
        arp.resize(60, 0);
        arp[12..14].copy_from_slice(&[8, 6]);
        let label = ethernet()
            .mpls(17)
            .ttl(5)
            .ipv6(
                "2001:db8::1".parse().unwrap(),
                "2001:db8::2".parse().unwrap(),
            )
            .ttl(9)
            .echo_request(1, 1);
        for (protocol, bytes, want) in [
            (
                1,
                udp.build(),
                "02:00:00:00:00:09 > 02:00:00:00:00:01 IPv4 10.0.0.9.7 > 10.1.0.2.53 UDP ttl 3 length 48",
            ),
            (
                11,
                udp.build()[14..].to_vec(),
                "IPv4 10.0.0.9.7 > 10.1.0.2.53 UDP ttl 3 length 48",
            ),
            (
                1,
                arp,
                "02:00:00:00:00:09 > 02:00:00:00:00:01 type 0x0806 ARP",
            ),
            (
                1,
                label.build(),
                "02:00:00:00:00:09 > 02:00:00:00:00:01 label 17 ttl 5 IPv6 2001:db8::1 > 2001:db8::2 \
                 ICMP type 128 code 0 ttl 9 length 48",
            ),
            (1, vec![1, 2, 3], "010203"),
            (1, vec![], ""),
        ] {
            assert_eq!(header_line(protocol, &bytes), want);
        }
    }
}
