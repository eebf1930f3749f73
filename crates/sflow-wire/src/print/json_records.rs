//! The records of the typed JSON: most from their [`Layout`](crate::record::field::Layout), some with a form of their own.

use super::fields::{app_status, direction};
use super::json::Writer;
use super::json_packet::{packet, record_ports};
use super::json_writer::{Json, key};
use super::value::Value;
use crate::datagram::RawRecord;
use crate::dissect::dissect;
use crate::record::field::{Field, Item, Show};
use crate::record::{
    AsSegment, CounterRecord, ExtendedRouter, ExtendedUser, FlowRecord, List, Mac, RawHeader,
    SampledEthernet, SampledIpv4, SampledIpv6, WifiAggregation,
};
use crate::types::{Address, Tag};
use crate::xdr::{ErrorKind, Reader, Result};

impl Writer<'_> {
    #[inline]
    pub(super) fn flow_record(&mut self, raw: RawRecord<'_>) -> Result<()> {
        let r = &mut raw.reader();
        match raw.tag.0 {
            1 => self.raw_header(&RawHeader::read(r)?),
            2 | 1021 | 1022 => self.ethernet(raw.tag, &SampledEthernet::read(r)?),
            3 | 1023 | 1024 => self.ipv4(raw.tag, &SampledIpv4::read(r)?),
            4 | 1025 | 1026 => self.ipv6(raw.tag, &SampledIpv6::read(r)?),
            1002 => self.router(&ExtendedRouter::read(r)?),
            1004 => self.user(&ExtendedUser::read(r)?),
            1016 => self.aggregation(&raw, &WifiAggregation::read(r)?),
            _ => match FlowRecord::info(raw.tag) {
                Some(info) => {
                    if let Some((_, title)) = info.layout.title {
                        let title_key = if info.layout.title.is_some_and(|t| t.0 == "extendedType")
                        {
                            key!("extendedType")
                        } else {
                            key!("flowSampleType")
                        };
                        self.json.literal(title_key, title);
                    }
                    return self.items(info.layout.items, r);
                }
                None => return self.unknown(raw),
            },
        }
        Ok(())
    }

    pub(super) fn counter_record(&mut self, raw: RawRecord<'_>) -> Result<()> {
        match CounterRecord::info(raw.tag) {
            Some(info) => self.items(info.layout.items, &mut raw.reader()),
            None => self.unknown(raw),
        }
    }

    fn items(&mut self, items: &[Item], r: &mut Reader<'_>) -> Result<()> {
        for item in items {
            self.item(item, r)?;
        }
        Ok(())
    }

    fn item(&mut self, item: &Item, r: &mut Reader<'_>) -> Result<()> {
        let j = &mut *self.json;
        let k = item.json_key;
        match item.show {
            Show::U32 => j.number(k, r.u32()?.into()),
            Show::U64 => j.number(k, r.u64()?),
            Show::I32 => {
                let n = r.u32()? as i32;
                j.key(k);
                j.bare(Value::I32(n));
            }
            Show::Hex64 => j.quoted(k, Value::Hex64(r.u64()?)),
            Show::Float => {
                let f = f32::from_bits(r.u32()?);
                j.key(k);
                j.float(f.into());
            }
            Show::Percent => match r.u32()? {
                u32::MAX => j.null(k),
                n => {
                    j.key(k);
                    j.hundredths(n);
                }
            },
            Show::Mac => j.quoted(k, Value::Mac(Mac::read(r)?.0)),
            Show::Ip4 => j.quoted(k, Value::Ip4(r.array()?)),
            Show::Ip6 => j.quoted(k, Value::Ip6(r.array()?)),
            Show::Address => j.address(k, Address::read(r)?),
            Show::Name(_) | Show::UrlEncoded(_) => {
                let s = r.opaque()?;
                if !s.is_empty() {
                    j.string(k, s);
                }
            }
            Show::Text(_) => j.string(k, r.opaque()?),
            Show::Bytes => j.quoted(k, Value::Hex(r.opaque()?)),
            Show::Uuid => j.quoted(k, Value::Uuid(r.array()?)),
            Show::PortStates => self.port_states(r.array()?),
            Show::Direction => name_or_number(j, k, r.u32()?, direction),
            Show::AppStatus => name_or_number(j, k, r.u32()?, app_status),
            Show::Labels => {
                let labels = List::<u32>::read(r)?;
                j.key(k);
                label_stack(j, labels.iter());
            }
            Show::VlanTags => {
                let tags = List::<u32>::read(r)?;
                j.key(k);
                vlan_stack(j, tags.iter());
            }
            Show::AsPath => self.as_path(k, &List::read(r)?),
            Show::Communities => communities(j, k, &List::read(r)?),
            // A part of a tail (of words) is no tail, but the beginning of something that is not known.
            Show::Tail(_, items) if r.left() >= 4 * items.len() => return self.items(items, r),
            Show::Rows(items) => return self.rows(k, items, r),
            Show::Macs => {
                let macs = List::<Mac>::read(r)?;
                j.key(k);
                j.open(b'[');
                for mac in &macs {
                    j.item();
                    j.quote(Value::Mac(mac.0));
                }
                j.close(b']');
            }
            Show::Tail(..) | Show::Special => {}
        }
        Ok(())
    }

    fn raw_header(&mut self, h: &RawHeader<'_>) {
        let j = &mut *self.json;
        j.literal(key!("flowSampleType"), "HEADER");
        j.number(key!("headerProtocol"), h.protocol.into());
        j.number(key!("sampledPacketSize"), h.frame_length.into());
        j.number(key!("strippedBytes"), h.stripped.into());
        j.number(key!("headerLen"), h.header.len() as u64);
        j.quoted(key!("headerBytes"), Value::Hex(h.header));
        packet(j, h, &dissect(h.protocol, h.header));
    }

    fn ethernet(&mut self, tag: Tag, e: &SampledEthernet) {
        let j = &mut *self.json;
        j.literal(key!("flowSampleType"), tunnel(tag, "ETHERNET"));
        j.number(key!("ethernet_type"), e.ether_type.into());
        j.number(key!("ethernet_len"), e.length.into());
        j.quoted(key!("ethernet_src"), Value::Mac(e.src.0));
        j.quoted(key!("ethernet_dst"), Value::Mac(e.dst.0));
    }

    fn ipv4(&mut self, tag: Tag, p: &SampledIpv4) {
        let j = &mut *self.json;
        j.literal(key!("flowSampleType"), tunnel(tag, "IPV4"));
        j.number(key!("IPSize"), p.length.into());
        j.quoted(key!("srcIP"), Value::Ip4(p.src.octets()));
        j.quoted(key!("dstIP"), Value::Ip4(p.dst.octets()));
        j.number(key!("IPProtocol"), p.protocol.into());
        j.number(key!("IPTOS"), p.tos.into());
        record_ports(j, p.protocol, p.src_port, p.dst_port, p.tcp_flags);
    }

    fn ipv6(&mut self, tag: Tag, p: &SampledIpv6) {
        let j = &mut *self.json;
        j.literal(key!("flowSampleType"), tunnel(tag, "IPV6"));
        j.number(key!("IPSize"), p.length.into());
        j.quoted(key!("srcIP6"), Value::Ip6(p.src.octets()));
        j.quoted(key!("dstIP6"), Value::Ip6(p.dst.octets()));
        j.number(key!("IPProtocol"), p.protocol.into());
        j.number(key!("priority"), p.priority.into());
        record_ports(j, p.protocol, p.src_port, p.dst_port, p.tcp_flags);
    }

    fn router(&mut self, x: &ExtendedRouter) {
        let j = &mut *self.json;
        j.literal(key!("extendedType"), "ROUTER");
        j.address(key!("nextHop"), x.next_hop);
        j.number(key!("srcSubnetMask"), x.src_mask_len.into());
        j.number(key!("dstSubnetMask"), x.dst_mask_len.into());
    }

    fn user(&mut self, u: &ExtendedUser<'_>) {
        let j = &mut *self.json;
        j.literal(key!("extendedType"), "USER");
        j.number(key!("src_user_charset"), u.src_charset.into());
        j.string(key!("src_user"), u.src_user.0);
        j.number(key!("dst_user_charset"), u.dst_charset.into());
        j.string(key!("dst_user"), u.dst_user.0);
    }

    /// The records of each frame. An aggregation within one is not taken apart: frames do not nest, and only bad input does.
    fn aggregation(&mut self, raw: &RawRecord<'_>, a: &WifiAggregation<'_>) {
        self.json.literal(key!("extendedType"), "wifi_aggregation");
        self.json.key(key!("pdus"));
        self.json.open(b'[');
        for pdu in &a.pdus {
            self.json.item();
            self.json.open(b'{');
            self.json.key(key!("elements"));
            self.json.open(b'[');
            for inner in &pdu.records {
                let start = (inner.body.as_ptr() as usize).wrapping_sub(raw.body.as_ptr() as usize);
                let inner = RawRecord {
                    tag: Tag(inner.tag),
                    body: inner.body,
                    offset: raw.offset.wrapping_add(start),
                };
                self.json.item();
                self.json.open(b'{');
                self.json
                    .quoted(key!("flowBlock_tag"), Value::Tag(inner.tag.0));
                let result = match inner.tag.0 {
                    1016 => self.unknown(inner),
                    _ => self.flow_record(inner),
                };
                self.finish(result);
            }
            self.json.close(b']');
            self.json.close(b'}');
        }
        self.json.close(b']');
    }

    fn port_states(&mut self, states: [u8; 4]) {
        let keys = [
            key!("actorAdminPortState"),
            key!("actorOperPortState"),
            key!("partnerAdminPortState"),
            key!("partnerOperPortState"),
        ];
        for (k, state) in keys.into_iter().zip(states) {
            self.json.number(k, state.into());
        }
    }

    /// AS numbers in order; a set is an array within. Last and first stand beside it, as sflowtool has them.
    fn as_path<'a>(&mut self, k: &'static str, path: &List<'a, AsSegment<'a>>) {
        let j = &mut *self.json;
        j.key(k);
        j.open(b'[');
        for segment in path {
            let set = segment.kind == 1;
            if set {
                j.item();
                j.open(b'[');
            }
            for asn in &segment.asns {
                j.item();
                j.bare_number(asn.into());
            }
            if set {
                j.close(b']');
            }
        }
        j.close(b']');
        let mut asns = path.iter().flat_map(|s| s.asns.iter());
        if let Some(first) = asns.next() {
            j.number(key!("dst_as"), asns.last().unwrap_or(first).into());
            j.number(key!("dst_peer_as"), first.into());
        }
    }

    /// A counted list of records as an array of objects.
    fn rows(&mut self, k: &'static str, items: &[Item], r: &mut Reader<'_>) -> Result<()> {
        let count = r.u32()?;
        self.json.key(k);
        self.json.open(b'[');
        let mut result = Ok(());
        for _ in 0..count {
            if r.left() == 0 {
                result = Err(r.error(ErrorKind::Truncated));
            }
            if result.is_err() {
                break;
            }
            self.json.item();
            self.json.open(b'{');
            result = self.items(items, r);
            self.json.close(b'}');
        }
        self.json.close(b']');
        result
    }
}

/// The type of a tunnel record: which end of which tunnel, and what its fields are.
fn tunnel(tag: Tag, plain: &'static str) -> &'static str {
    match tag.0 {
        1021 => "tunnel_l2_out_ETHERNET",
        1022 => "tunnel_l2_in_ETHERNET",
        1023 => "tunnel_ipv4_out_IPV4",
        1024 => "tunnel_ipv4_in_IPV4",
        1025 => "tunnel_ipv6_out_IPV6",
        1026 => "tunnel_ipv6_in_IPV6",
        _ => plain,
    }
}

fn name_or_number(j: &mut Json, k: &'static str, n: u32, name: fn(u32) -> Option<&'static str>) {
    match name(n) {
        Some(name) => j.literal(k, name),
        None => j.number(k, n.into()),
    }
}

pub(super) fn label_stack(j: &mut Json, entries: impl Iterator<Item = u32>) {
    j.open(b'[');
    for e in entries {
        j.item();
        j.open(b'{');
        j.number(key!("label"), (e >> 12).into());
        j.number(key!("exp"), (e >> 9 & 7).into());
        j.number(key!("s"), (e >> 8 & 1).into());
        j.number(key!("ttl"), (e & 255).into());
        j.close(b'}');
    }
    j.close(b']');
}

pub(super) fn vlan_stack(j: &mut Json, tags: impl Iterator<Item = u32>) {
    j.open(b'[');
    for t in tags {
        j.item();
        j.open(b'{');
        j.number(key!("tpid"), (t >> 16).into());
        j.number(key!("priority"), (t >> 13 & 7).into());
        j.number(key!("dei"), (t >> 12 & 1).into());
        j.number(key!("vlan"), (t & 4095).into());
        j.close(b'}');
    }
    j.close(b']');
}

/// Communities as RFC 1997 writes them, AS and value with a colon between.
fn communities(j: &mut Json, k: &'static str, list: &List<'_, u32>) {
    j.key(k);
    j.open(b'[');
    for c in list {
        j.item();
        j.quote(Value::Pair(c >> 16, c & 0xFFFF));
    }
    j.close(b']');
}
