//! The records as sflowtool shows them: most from their [`Layout`](crate::record::field::Layout), a few by hand.

use super::joined::{Joined, words};
use super::sink::Sink;
use super::value::{Value, c_string};
use super::walk::{Fault, Step, Walker};
use crate::record::field::{Item, Show};
use crate::record::{Adapter, CounterRecord, FlowRecord, SfpLane};
use crate::types::{Address, Tag};

const APP_STATUS: [&str; 11] = [
    "SUCCESS",
    "OTHER",
    "TIMEOUT",
    "INTERNAL_ERROR",
    "BAD_REQUEST",
    "FORBIDDEN",
    "TOO_LARGE",
    "NOT_IMPLEMENTED",
    "NOT_FOUND",
    "UNAVAILABLE",
    "UNATHORIZED",
];

/// The name sflowtool gives the status of an application operation.
pub(crate) fn app_status(n: u32) -> Option<&'static str> {
    APP_STATUS.get(n as usize).copied()
}

/// The name of a packet's direction at a socket.
pub(crate) fn direction(n: u32) -> Option<&'static str> {
    ["unknown", "received", "sent"].get(n as usize).copied()
}

impl<S: Sink> Walker<'_, '_, S> {
    /// Reads and shows the body of a flow record.
    #[inline]
    pub(crate) fn flow_record(&mut self, tag: Tag, len: u32) -> Step {
        match tag.0 {
            1 => return self.raw_header(),
            2 => return self.ethernet(""),
            3 => return self.ipv4(""),
            4 => return self.ipv6(""),
            1001 => return self.switch(),
            1002 => return self.router(),
            1004 => return self.user(),
            1013 => {
                self.next_u32("cipher_suite")?;
                return self.raw_header();
            }
            1021 => return self.ethernet("tunnel_l2_out_"),
            1022 => return self.ethernet("tunnel_l2_in_"),
            1023 => return self.ipv4("tunnel_ipv4_out_"),
            1024 => return self.ipv4("tunnel_ipv4_in_"),
            1025 => return self.ipv6("tunnel_ipv6_out_"),
            1026 => return self.ipv6("tunnel_ipv6_in_"),
            // Socket records overwrite the addresses of the CSV line.
            2100 => {
                self.flow.ip_src = Address::V4(self.peek::<4>(self.pos + 4).into());
                self.flow.ip_dst = Address::V4(self.peek::<4>(self.pos + 8).into());
            }
            2101 => {
                self.flow.ip_src = Address::V6(self.peek::<16>(self.pos + 4).into());
                self.flow.ip_dst = Address::V6(self.peek::<16>(self.pos + 20).into());
            }
            _ => {}
        }
        match FlowRecord::info(tag).filter(|i| i.classic) {
            Some(info) => {
                if let Some((key, value)) = info.layout.title {
                    self.field(key, Value::Str(value.as_bytes()));
                }
                self.items(info.layout.items, len)
            }
            None => self.skip_unknown("flow_sample_element", tag, len),
        }
    }

    /// Reads and shows the body of a counter record.
    pub(crate) fn counter_record(&mut self, tag: Tag, len: u32) -> Step {
        match tag.0 {
            1 => self.generic_at = Some(self.pos),
            10 => return self.sfp(),
            2001 => return self.adapters(),
            _ => {}
        }
        match CounterRecord::info(tag).filter(|i| i.classic) {
            Some(info) => self.items(info.layout.items, len),
            None => self.skip_unknown("counters_sample_element", tag, len),
        }
    }

    pub(crate) fn items(&mut self, items: &[Item], len: u32) -> Step {
        for item in items {
            if self.left() < item.need {
                return Err(Fault::EndOfData);
            }
            self.item(item, len)?;
        }
        Ok(())
    }

    fn item(&mut self, item: &Item, len: u32) -> Step {
        let value = match item.show {
            Show::U32 | Show::I32 => Value::U32(self.u32()?),
            Show::U64 => Value::U64(self.u64()?),
            Show::Hex64 => Value::Hex64(self.u64()?),
            Show::Float => Value::Float(f64::from(f32::from_bits(self.u32()?)), 63),
            Show::Percent => Value::Percent(self.u32()?),
            Show::Mac => {
                let [a, b, c, d, e, f, _, _] = self.array()?;
                Value::Mac([a, b, c, d, e, f])
            }
            Show::Ip4 => Value::Ip4(self.array()?),
            Show::Ip6 => Value::Ip6(self.array()?),
            Show::Address => Value::Address(self.address()?),
            Show::Text(most) => Value::Str(self.string(most)?.0),
            Show::Name(most) => match self.string(most)? {
                (_, 0) => return Ok(()),
                (s, _) => Value::Str(s),
            },
            Show::Uuid => {
                // Shown before it is known to be there.
                self.field(item.key, Value::Uuid(self.peek(self.pos)));
                return self.skip(16);
            }
            Show::Direction => {
                let name = direction(self.u32()?).unwrap_or("<bad value>");
                Value::Str(name.as_bytes())
            }
            Show::Tail(longer_than, items) => {
                return if len > longer_than {
                    self.items(items, len)
                } else {
                    Ok(())
                };
            }
            Show::UrlEncoded(most) => return self.url_encoded(item.key, most),
            Show::PortStates => return self.port_states(),
            Show::AppStatus => return self.app_status(item.key),
            Show::Labels => return self.labels(item.key),
            Show::VlanTags => return self.vlan_tunnel(item.key),
            Show::AsPath => return self.as_path(item.key),
            Show::Communities => return self.communities(item.key),
            Show::Bytes | Show::Macs | Show::Rows(_) | Show::Special => return Ok(()),
        };
        self.field(item.key, value);
        Ok(())
    }

    fn switch(&mut self) -> Step {
        self.field("extendedType", Value::Str(b"SWITCH"));
        self.flow.in_vlan = self.u32()?;
        let in_priority = self.u32()?;
        self.flow.out_vlan = self.u32()?;
        let out_priority = self.u32()?;
        self.u32_field("in_vlan", self.flow.in_vlan);
        self.u32_field("in_priority", in_priority);
        self.u32_field("out_vlan", self.flow.out_vlan);
        self.u32_field("out_priority", out_priority);
        Ok(())
    }

    fn router(&mut self) -> Step {
        self.field("extendedType", Value::Str(b"ROUTER"));
        let next_hop = self.address()?;
        let src_mask = self.u32()?;
        let dst_mask = self.u32()?;
        self.field("nextHop", Value::Address(next_hop));
        self.u32_field("srcSubnetMask", src_mask);
        self.u32_field("dstSubnetMask", dst_mask);
        Ok(())
    }

    fn user(&mut self) -> Step {
        self.field("extendedType", Value::Str(b"USER"));
        if self.version >= 5 {
            self.next_u32("src_user_charset")?;
        }
        let (src, _) = self.string(199)?;
        if self.version >= 5 {
            self.next_u32("dst_user_charset")?;
        }
        let (dst, _) = self.string(199)?;
        self.field("src_user", Value::Str(src));
        self.field("dst_user", Value::Str(dst));
        Ok(())
    }

    /// Shows a key that carries a tunnel's name in front.
    fn tunnel_field(&mut self, tunnel: &str, key: &str, value: Value<'_>) {
        self.sink
            .field(&self.context, [self.prefix, tunnel, key], value);
    }

    fn sample_type(&mut self, tunnel: &str, name: &str) {
        if S::SILENT {
            return;
        }
        let mut text = core::mem::take(&mut self.scratch);
        text.clear();
        text.extend_from_slice(tunnel.as_bytes());
        text.extend_from_slice(name.as_bytes());
        self.field("flowSampleType", Value::Str(&text));
        self.scratch = text;
    }

    fn ethernet(&mut self, tunnel: &str) -> Step {
        self.sample_type(tunnel, "ETHERNET");
        let length = self.u32()?;
        self.flow.eth_src = self.peek(self.pos);
        self.skip(6)?;
        self.flow.eth_dst = self.peek(self.pos);
        self.skip(6)?;
        self.flow.eth_type = self.u32()?;
        self.tunnel_field(tunnel, "ethernet_type", Value::U32(self.flow.eth_type));
        self.tunnel_field(tunnel, "ethernet_len", Value::U32(length));
        self.tunnel_field(tunnel, "ethernet_src", Value::Mac(self.flow.eth_src));
        self.tunnel_field(tunnel, "ethernet_dst", Value::Mac(self.flow.eth_dst));
        Ok(())
    }

    /// Record 0:3 and its tunnel forms.
    pub(crate) fn ipv4(&mut self, tunnel: &str) -> Step {
        self.sample_type(tunnel, "IPV4");
        // Later header records of the sample look at these bytes if they are of a kind that is not decoded.
        (self.sampled.start, self.sampled.len) = (self.pos, 32);
        if self.left() < 32 {
            return Err(Fault::EndOfData);
        }
        let (length, protocol) = (self.u32()?, self.u32()?);
        let (src, dst): ([u8; 4], [u8; 4]) = (self.array()?, self.array()?);
        self.flow.packet_size = length;
        self.flow.ip_src = Address::V4(src.into());
        self.flow.ip_dst = Address::V4(dst.into());
        self.tunnel_field(tunnel, "sampledPacketSize", Value::U32(length));
        self.tunnel_field(tunnel, "IPSize", Value::U32(length));
        let ports = [self.u32()?, self.u32()?];
        let flags = self.u32()?;
        self.flow.tos = self.u32()?;
        self.tunnel_field(tunnel, "srcIP", Value::Ip4(src));
        self.tunnel_field(tunnel, "dstIP", Value::Ip4(dst));
        self.tunnel_field(tunnel, "IPProtocol", Value::U32(protocol));
        self.tunnel_field(tunnel, "IPTOS", Value::U32(self.flow.tos));
        self.ports(tunnel, protocol, ports, flags);
        Ok(())
    }

    /// Record 0:4 and its tunnel forms.
    pub(crate) fn ipv6(&mut self, tunnel: &str) -> Step {
        self.sample_type(tunnel, "IPV6");
        (self.sampled.start, self.sampled.len) = (self.pos, 56);
        if self.left() < 56 {
            return Err(Fault::EndOfData);
        }
        let (length, protocol) = (self.u32()?, self.u32()?);
        let (src, dst): ([u8; 16], [u8; 16]) = (self.array()?, self.array()?);
        self.flow.packet_size = length;
        self.flow.ip_src = Address::V6(src.into());
        self.flow.ip_dst = Address::V6(dst.into());
        self.tunnel_field(tunnel, "sampledPacketSize", Value::U32(length));
        self.tunnel_field(tunnel, "IPSize", Value::U32(length));
        let ports = [self.u32()?, self.u32()?];
        let flags = self.u32()?;
        let priority = self.u32()?;
        self.tunnel_field(tunnel, "srcIP6", Value::Ip6(src));
        self.tunnel_field(tunnel, "dstIP6", Value::Ip6(dst));
        self.tunnel_field(tunnel, "IPProtocol", Value::U32(protocol));
        self.tunnel_field(tunnel, "priority", Value::U32(priority));
        self.ports(tunnel, protocol, ports, flags);
        Ok(())
    }

    fn ports(&mut self, tunnel: &str, protocol: u32, ports: [u32; 2], flags: u32) {
        self.flow.protocol = protocol;
        [self.flow.src_port, self.flow.dst_port] = ports;
        match protocol {
            1 => self.tunnel_field(tunnel, "ICMPType", Value::U32(ports[1])),
            6 => {
                self.flow.tcp_flags = flags;
                self.tunnel_field(tunnel, "TCPSrcPort", Value::U32(ports[0]));
                self.tunnel_field(tunnel, "TCPDstPort", Value::U32(ports[1]));
                self.tunnel_field(tunnel, "TCPFlags", Value::U32(flags));
            }
            17 => {
                self.tunnel_field(tunnel, "UDPSrcPort", Value::U32(ports[0]));
                self.tunnel_field(tunnel, "UDPDstPort", Value::U32(ports[1]));
            }
            _ => {}
        }
    }

    fn url_encoded(&mut self, key: &str, most: usize) -> Step {
        let (s, len) = self.string(most)?;
        if len == 0 {
            return Ok(());
        }
        let mut text = core::mem::take(&mut self.scratch);
        text.clear();
        for &b in c_string(s) {
            match b {
                b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => text.push(b),
                b' ' | 0x09..=0x0D => text.push(b'+'),
                // sflowtool writes the two digits the wrong way round.
                _ => text.extend_from_slice(format!("%{:02X}", b.rotate_left(4)).as_bytes()),
            }
        }
        self.field(key, Value::Str(&text));
        self.scratch = text;
        Ok(())
    }

    fn port_states(&mut self) -> Step {
        let states: [u8; 4] = self.array()?;
        let keys = [
            "actorAdminPortState",
            "actorOperPortState",
            "partnerAdminPortState",
            "partnerOperPortState",
        ];
        for (key, state) in keys.into_iter().zip(states) {
            self.u32_field(key, u32::from(state));
        }
        Ok(())
    }

    fn app_status(&mut self, key: &str) -> Step {
        let n = self.u32()?;
        match app_status(n) {
            Some(name) => self.field(key, Value::Str(name.as_bytes())),
            None => self.field(key, Value::Str(format!("<out-of-range={n}>").as_bytes())),
        }
        Ok(())
    }

    /// Takes a counted list of words; nothing if it is empty.
    pub(crate) fn word_list(&mut self) -> Step<Option<Vec<u32>>> {
        let count = self.u32()?;
        let len = count.checked_mul(4).ok_or(Fault::EndOfData)?;
        let bytes = self.bytes(len)?;
        if S::SILENT || bytes.is_empty() {
            return Ok(None);
        }
        Ok(Some(words(bytes).collect()))
    }

    fn labels(&mut self, key: &str) -> Step {
        let Some(stack) = self.word_list()? else {
            return Ok(());
        };
        let mut text = Joined::default();
        for (i, w) in stack.into_iter().enumerate() {
            if i > 0 {
                text.push("-");
            }
            text.numbers([w >> 12, w >> 9 & 7, w >> 8 & 1, w & 255].into_iter(), b'.');
        }
        self.field(key, Value::Str(text.as_bytes()));
        Ok(())
    }

    fn vlan_tunnel(&mut self, key: &str) -> Step {
        let Some(stack) = self.word_list()? else {
            return Ok(());
        };
        let mut text = Joined::default();
        for (i, w) in stack.into_iter().enumerate() {
            if i > 0 {
                text.push("-");
            }
            text.hex((w >> 16) as u16);
            text.numbers([w >> 13 & 7, w >> 12 & 1, w & 4095].into_iter(), b'.');
        }
        self.field(key, Value::Str(text.as_bytes()));
        Ok(())
    }

    fn as_path(&mut self, key: &str) -> Step {
        let segments = self.u32()?;
        let (mut dst_as, mut dst_peer_as) = (0, 0);
        let mut text = Joined::default();
        for n in 0..segments {
            let kind = self.u32()?;
            let len = self.u32()?.checked_mul(4).ok_or(Fault::EndOfData)?;
            let asns = self.bytes(len)?;
            if asns.is_empty() {
                continue;
            }
            if n == 0 {
                dst_peer_as = words(asns).next().unwrap_or(0);
            }
            if n == segments - 1 {
                dst_as = words(asns).next_back().unwrap_or(0);
            }
            if !S::SILENT {
                text.segment(kind == 1, words(asns));
            }
        }
        if segments > 0 {
            self.field(key, Value::Str(text.as_bytes()));
        }
        self.u32_field("dst_as", dst_as);
        self.u32_field("dst_peer_as", dst_peer_as);
        Ok(())
    }

    fn communities(&mut self, key: &str) -> Step {
        if let Some(list) = self.word_list()? {
            let mut text = Joined::default();
            text.numbers(list.into_iter(), b'-');
            self.field(key, Value::Str(text.as_bytes()));
        }
        Ok(())
    }

    /// Shows a list of numbers with dashes between.
    pub(crate) fn number_list(&mut self, key: &str, list: &[u32]) {
        let mut text = Joined::default();
        text.numbers(list.iter().copied(), b'-');
        self.field(key, Value::Str(text.as_bytes()));
    }

    fn adapters(&mut self) -> Step {
        let count = self.u32()?;
        self.sink.open_array("adaptor_list");
        for i in 0..count {
            let if_index = self.u32()?;
            // Only the nested form has an object per adapter; the flat one numbers the keys.
            let number = if S::JSON || S::SILENT {
                String::new()
            } else {
                format!("adaptor_{i}_")
            };
            self.sink.open_object();
            self.tunnel_field(&number, Adapter::LAYOUT.items[0].key, Value::U32(if_index));
            let macs = self.u32()?;
            self.tunnel_field(&number, "MACs", Value::U32(macs));
            self.sink.open_array("mac_list");
            for j in 0..macs {
                if j > 0 {
                    self.sink.separator();
                }
                let [a, b, c, d, e, f, _, _] = self.array()?;
                let mac = Value::Mac([a, b, c, d, e, f]);
                if S::JSON {
                    self.sink.element(mac);
                } else if !S::SILENT {
                    self.tunnel_field(&number, &format!("MAC_{j}"), mac);
                }
            }
            self.sink.close_array();
            self.sink.close_object();
        }
        self.sink.close_array();
        Ok(())
    }

    fn sfp(&mut self) -> Step {
        for key in [
            "sfp_module_id",
            "sfp_module_total_lanes",
            "sfp_module_supply_voltage",
            "sfp_module_temperature",
        ] {
            self.next_u32(key)?;
        }
        let lanes = self.next_u32("sfp_module_active_lanes")?;
        self.sink.open_array("sfp_lanes");
        for lane in 0..lanes {
            self.sink.open_object();
            for (i, item) in SfpLane::LAYOUT.items.iter().enumerate() {
                let n = self.u32()?;
                if S::SILENT {
                    continue;
                }
                // All names but the first two carry a format that sflowtool never fills in.
                let unfilled = if i < 2 { "" } else { ".%u" };
                if S::JSON {
                    self.tunnel_field(item.key, unfilled, Value::U32(n));
                }
                let key = format!("{}{unfilled}.{lane}", item.key);
                self.tunnel_field("sfp_lane_", &key, Value::U32(n));
            }
            self.sink.close_object();
        }
        // Without lanes sflowtool forgets to close the list.
        if lanes > 0 {
            self.sink.close_array();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_names() {
        assert_eq!(app_status(10), Some("UNATHORIZED"));
        assert_eq!(app_status(11), None);
        assert_eq!(direction(2), Some("sent"));
    }
}
