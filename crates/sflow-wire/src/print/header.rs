//! The sampled packet header as sflowtool decodes it, quirks included.
//!
//! Quirks kept: the IP identification is shown in the byte order of the machine (little endian), what an earlier header record found stays
//! valid for a later one in the same sample, and a few fields are read without a look at the header's length.

use super::sink::Sink;
use super::value::Value;
use super::walk::{Step, Walker};
use crate::record::flow::header_protocol;
use crate::types::Address;

/// Where the sampled header is and what has been found in it so far in this sample.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sampled {
    /// Offset of the header in the datagram.
    pub(crate) start: usize,
    /// Bytes of the header.
    pub(crate) len: usize,
    ip4: bool,
    ip6: bool,
    ip6_offset: usize,
}

/// Tag protocol identifiers that are taken for VLAN tags.
const VLAN_TYPES: [u16; 5] = [0x8100, 0x88A8, 0x9100, 0x9200, 0x9300];

impl<S: Sink> Walker<'_, '_, S> {
    /// Record 0:1.
    pub(crate) fn raw_header(&mut self) -> Step {
        self.field("flowSampleType", Value::Str(b"HEADER"));
        let protocol = self.next_u32("headerProtocol")?;
        self.flow.packet_size = self.next_u32("sampledPacketSize")?;
        if self.version > 4 {
            self.flow.stripped = self.next_u32("strippedBytes")?;
        }
        let len = self.next_u32("headerLen")?;
        self.sampled.len = len as usize;
        self.sampled.start = self.pos;
        let header = self.bytes(len)?;
        // sflowtool puts the bytes together in 2048 characters.
        self.field(
            "headerBytes",
            Value::Hex(header.get(..682).unwrap_or(header)),
        );
        match protocol {
            header_protocol::ETHERNET => self.link_layer(),
            header_protocol::IPV4 => {
                self.sampled.ip4 = true;
                self.flow.ip4_offset = 0;
            }
            header_protocol::IPV6 => {
                self.sampled.ip6 = true;
                self.sampled.ip6_offset = 0;
            }
            header_protocol::IEEE80211 => self.wifi_mac(),
            2..=18 => self.protocol_line("NO_DECODE", protocol),
            _ => self.protocol_line("UNKNOWN", protocol),
        }
        self.ip();
        Ok(())
    }

    fn protocol_line(&mut self, what: &str, protocol: u32) {
        if !S::SILENT {
            let text = format!("{what} headerProtocol={}", protocol as i32);
            self.sink.line(&self.context, text.as_bytes());
        }
    }

    /// Bytes of the header, beyond its end those of the datagram.
    fn peek_header<const N: usize>(&self, at: usize) -> [u8; N] {
        self.peek(self.sampled.start + at)
    }

    fn link_layer(&mut self) {
        self.sampled.ip4 = false;
        self.sampled.ip6 = false;
        if self.sampled.len < 14 {
            return;
        }
        self.flow.eth_dst = self.peek_header(0);
        self.flow.eth_src = self.peek_header(6);
        self.field("dstMAC", Value::Mac(self.flow.eth_dst));
        self.field("srcMAC", Value::Mac(self.flow.eth_src));
        let Some((ether_type, at)) = self.vlan_tags() else {
            return;
        };
        // Not enough for an IPv4 header anywhere, so nothing below could follow.
        if self.sampled.len < 20 {
            return;
        }
        let Some((ether_type, at)) = self.llc(ether_type, at) else {
            return;
        };
        self.flow.eth_type = u32::from(ether_type);
        self.u32_field("ethernet_type", self.flow.eth_type);
        let [first] = self.peek_header(at);
        match ether_type {
            0x0800 if !self.short_of(at, 20) && first >> 4 == 4 && first & 15 >= 5 => {
                self.sampled.ip4 = true;
                self.flow.ip4_offset = at as u32;
            }
            0x86DD if first >> 4 == 6 => {
                self.sampled.ip6 = true;
                self.sampled.ip6_offset = at;
            }
            _ => {}
        }
    }

    /// Says whether fewer than `need` bytes follow `at`. An `at` beyond the end passes, since sflowtool compares unsigned.
    fn short_of(&self, at: usize, need: usize) -> bool {
        self.sampled.len.wrapping_sub(at) < need
    }

    /// Shows the VLAN tags; gives the type after them and where it ends.
    fn vlan_tags(&mut self) -> Option<(u16, usize)> {
        let mut at = 14;
        let mut ether_type = u16::from_be_bytes(self.peek_header(12));
        let mut depth = 0u32;
        while VLAN_TYPES.contains(&ether_type) {
            if self.sampled.len - at < 4 {
                return None;
            }
            let tci = u32::from(u16::from_be_bytes(self.peek_header(at)));
            let (vlan, priority) = (tci & 0xFFF, tci >> 13);
            if depth == 0 {
                self.u32_field("decodedVLAN", vlan);
                self.u32_field("decodedPriority", priority);
            } else if !S::SILENT {
                self.u32_field(&format!("decodedVLAN.{depth}"), vlan);
                self.u32_field(&format!("decodedPriority.{depth}"), priority);
            }
            self.flow.in_vlan = vlan;
            ether_type = u16::from_be_bytes(self.peek_header(at + 2));
            at += 4;
            depth += 1;
        }
        Some((ether_type, at))
    }

    /// Looks through LLC and SNAP where the type is a length; gives nothing where decoding ends.
    fn llc(&mut self, ether_type: u16, at: usize) -> Option<(u16, usize)> {
        let head: [u8; 8] = self.peek_header(at);
        if matches!(ether_type, 0x0200 | 0x0201 | 0x0600) {
            let ipx_len = u16::from_be_bytes([head[2], head[3]]);
            if head[..2] == [0xFF, 0xFF] && (30..=576).contains(&ipx_len) {
                return None;
            }
        }
        if ether_type > 1500 {
            return Some((ether_type, at));
        }
        match head {
            [0xAA, 0xAA, 0x03, 0, 0, 0, hi, lo] => Some((u16::from_be_bytes([hi, lo]), at + 8)),
            [0xAA, 0xAA, 0x03, a, b, c, ..] => {
                self.field("VSNAP_OUI", Value::Hex(&[a, b, c]));
                None
            }
            [0x06, 0x06, control, ..] if control & 1 == 1 => Some((0x0800, at + 3)),
            _ => None,
        }
    }

    /// IEEE 802.11 data frames: shows the addresses.
    fn wifi_mac(&mut self) {
        self.sampled.ip4 = false;
        self.sampled.ip6 = false;
        if self.sampled.len < 24 {
            return;
        }
        let control = u16::from_le_bytes(self.peek_header(0));
        if control >> 2 & 3 != 2 {
            return;
        }
        let (to_ds, from_ds) = (control >> 8 & 1 == 1, control >> 9 & 1 == 1);
        let [a1, a2, a3, a4]: [[u8; 6]; 4] = [
            self.peek_header(4),
            self.peek_header(10),
            self.peek_header(16),
            self.peek_header(24),
        ];
        let dst = if to_ds { a3 } else { a1 };
        let src = match (to_ds, from_ds) {
            (true, true) => a4,
            (false, true) => a3,
            (_, false) => a2,
        };
        self.flow.eth_src = src;
        // sflowtool stores the source in both; only the CSV columns show it.
        self.flow.eth_dst = src;
        self.field("srcMAC", Value::Mac(src));
        self.field("dstMAC", Value::Mac(dst));
        self.field("txMAC", Value::Mac(a2));
        self.field("rxMAC", Value::Mac(a1));
    }

    fn ip(&mut self) {
        let frame = self.flow.packet_size.wrapping_sub(self.flow.stripped);
        if self.sampled.ip4 {
            let size = frame.wrapping_sub(self.flow.ip4_offset);
            self.field("IPSize", Value::I32(size as i32));
            self.ip4();
        } else if self.sampled.ip6 {
            let size = frame.wrapping_sub(self.sampled.ip6_offset as u32);
            self.field("IPSize", Value::I32(size as i32));
            self.ip6();
        }
    }

    fn ip4(&mut self) {
        let at = self.flow.ip4_offset as usize;
        if self.short_of(at, 20) {
            return;
        }
        let h: [u8; 20] = self.peek_header(at);
        let src: [u8; 4] = [h[12], h[13], h[14], h[15]];
        let dst: [u8; 4] = [h[16], h[17], h[18], h[19]];
        self.flow.ip_src = Address::V4(src.into());
        self.flow.ip_dst = Address::V4(dst.into());
        self.flow.protocol = u32::from(h[9]);
        self.flow.tos = u32::from(h[1]);
        self.flow.ttl = u32::from(h[8]);
        self.u32_field("ip.tot_len", u32::from(u16::from_be_bytes([h[2], h[3]])));
        self.field("srcIP", Value::Ip4(src));
        self.field("dstIP", Value::Ip4(dst));
        self.u32_field("IPProtocol", self.flow.protocol);
        self.u32_field("IPTOS", self.flow.tos);
        self.u32_field("IPTTL", self.flow.ttl);
        self.u32_field("IPID", u32::from(u16::from_le_bytes([h[4], h[5]])));
        let fragment = u32::from(u16::from_be_bytes([h[6], h[7]]) & 0x1FFF);
        if fragment > 0 {
            self.u32_field("IPFragmentOffset", fragment);
            return;
        }
        let header_len = usize::from(h[0] & 15) * 4;
        if at + header_len <= self.sampled.len {
            self.layer4(at + header_len);
        }
    }

    fn ip6(&mut self) {
        let at = self.sampled.ip6_offset;
        if self.short_of(at, 40) {
            return;
        }
        let h: [u8; 40] = self.peek_header(at);
        if h[0] >> 4 != 6 {
            if !S::SILENT {
                let text = format!("header decode error: unexpected IP version: {}", h[0] >> 4);
                self.sink.line(&self.context, text.as_bytes());
            }
            return;
        }
        self.flow.tos = u32::from(h[0] & 15) << 4 | u32::from(h[1] >> 4);
        self.u32_field("IPTOS", self.flow.tos);
        let label = u32::from_be_bytes([0, h[1] & 15, h[2], h[3]]);
        self.field("IP6_label", Value::Hex32(label));
        match u16::from_be_bytes([h[4], h[5]]) {
            0 => self.field("IPV6_payloadLen", Value::Str(b"<jumbo>")),
            n => self.u32_field("IPV6_payloadLen", u32::from(n)),
        }
        self.flow.ttl = u32::from(h[7]);
        self.u32_field("IPTTL", self.flow.ttl);
        let src: [u8; 16] = self.peek_header(at + 8);
        let dst: [u8; 16] = self.peek_header(at + 24);
        self.flow.ip_src = Address::V6(src.into());
        self.flow.ip_dst = Address::V6(dst.into());
        self.field("srcIP6", Value::Ip6(src));
        self.field("dstIP6", Value::Ip6(dst));
        if let Some((next, at)) = self.ip6_extensions(h[6], at + 40) {
            self.flow.protocol = u32::from(next);
            self.u32_field("IPProtocol", self.flow.protocol);
            self.layer4(at);
        }
    }

    fn ip6_extensions(&mut self, mut next: u8, mut at: usize) -> Option<(u8, usize)> {
        while matches!(next, 0 | 43 | 44 | 51 | 60) {
            self.u32_field("IP6HeaderExtension", u32::from(next));
            let [following, len] = self.peek_header(at);
            next = following;
            at += 8 * (usize::from(len) + 1);
            if at > self.sampled.len {
                return None;
            }
        }
        Some((next, at))
    }

    fn layer4(&mut self, at: usize) {
        if at + 8 > self.sampled.len {
            return;
        }
        let h: [u8; 14] = self.peek_header(at);
        let ports = (
            u32::from(u16::from_be_bytes([h[0], h[1]])),
            u32::from(u16::from_be_bytes([h[2], h[3]])),
        );
        match self.flow.protocol {
            1 => {
                (self.flow.src_port, self.flow.dst_port) = (u32::from(h[0]), u32::from(h[1]));
                self.u32_field("ICMPType", self.flow.src_port);
                self.u32_field("ICMPCode", self.flow.dst_port);
            }
            6 => {
                (self.flow.src_port, self.flow.dst_port) = ports;
                self.flow.tcp_flags = u32::from(h[13]);
                self.u32_field("TCPSrcPort", ports.0);
                self.u32_field("TCPDstPort", ports.1);
                self.u32_field("TCPFlags", self.flow.tcp_flags);
            }
            17 => {
                (self.flow.src_port, self.flow.dst_port) = ports;
                self.u32_field("UDPSrcPort", ports.0);
                self.u32_field("UDPDstPort", ports.1);
                self.u32_field("UDPBytes", u32::from(u16::from_be_bytes([h[4], h[5]])));
            }
            _ => {}
        }
    }
}
