//! Typed JSON: one valid object per datagram, numbers as numbers, names as sflowtool has them.
//!
//! Every record is decoded within its own bounds. A bad one gets an `error` member and the next is decoded all the same; a record that is not known
//! is shown with its length and bytes. What sflowtool gets wrong is right here: byte order of the IP identification, 802.11 payload,
//! access lists, ICMPv6, lists as arrays, text escaped (RFC 8259; bytes that are not UTF-8 become U+FFFD).
//! Keys and notations are sflowtool's, so that a script changes only where it converted strings to numbers.

use super::fields::{app_status, direction};
use super::json_writer::{Json, key};
use super::rt::{FLOW_TYPES, METRIC_TYPES};
use super::value::Value;
use super::{Meta, Selection};
use crate::builder::sample_tag;
use crate::datagram::{
    CounterSample, Datagram, DiscardSample, FlowSample, RawRecord, Records, Sample,
};
use crate::dissect::{IpVersion, Packet, Transport, dissect};
use crate::reason;
use crate::record::field::{Field, Item, Show};
use crate::record::{
    AsSegment, CounterRecord, ExtendedRouter, ExtendedUser, FlowRecord, List, Mac, RawHeader,
    SampledEthernet, SampledIpv4, SampledIpv6, Text,
};
use crate::types::{Address, DataSource, Interface, InterfaceKind, Tag};
use crate::xdr::{DecodeError, ErrorKind, Reader, Result};

/// Writes one datagram as an object and a line end. Gives the first error found in it.
pub(crate) fn datagram(
    json: &mut Json,
    selection: &Selection,
    meta: &Meta,
    bytes: &[u8],
) -> Option<DecodeError> {
    let mut w = Writer {
        json,
        selection,
        first_error: None,
    };
    w.json.open(b'{');
    w.meta(meta, bytes.len());
    match Datagram::parse(bytes) {
        Ok(d) => w.body(&d),
        Err(e) => w.error(e),
    }
    w.json.close(b'}');
    w.json.end_line();
    w.first_error
}

struct Writer<'w> {
    json: &'w mut Json,
    selection: &'w Selection,
    first_error: Option<DecodeError>,
}

impl Writer<'_> {
    fn error(&mut self, e: DecodeError) {
        self.first_error.get_or_insert(e);
        self.json.key(key!("error"));
        self.json.text(e.to_string().as_bytes());
    }

    /// Ends an object, with the error that broke it off.
    fn finish(&mut self, result: Result<()>) {
        if let Err(e) = result {
            self.error(e);
        }
        self.json.close(b'}');
    }

    fn meta(&mut self, meta: &Meta, len: usize) {
        let j = &mut *self.json;
        j.address(key!("datagramSourceIP"), meta.source);
        j.number(key!("datagramSize"), len as u64);
        let time = meta.capture_time.unwrap_or(meta.read_time);
        j.number(key!("unixSecondsUTC"), time.seconds.into());
        j.number(key!("unixSecondsUTC_uS"), time.micros.into());
        let local = Value::Time(time.seconds.into(), time.utc_offset);
        j.quoted(key!("localtime"), local);
        if meta.capture_time.is_some() {
            j.quoted(key!("pcapTimestamp"), local);
            j.number(key!("pcapTimestamp_uS"), time.micros.into());
        }
    }

    fn body(&mut self, d: &Datagram<'_>) {
        let j = &mut *self.json;
        j.number(key!("datagramVersion"), 5);
        j.number(key!("agentSubId"), d.sub_agent_id.into());
        j.address(key!("agent"), d.agent);
        j.number(key!("packetSequenceNo"), d.sequence.into());
        j.number(key!("sysUpTime"), d.uptime_ms.into());
        j.number(key!("samplesInPacket"), d.sample_count.into());
        j.key(key!("samples"));
        j.open(b'[');
        for raw in d.raw_samples() {
            match raw {
                Ok(raw) if !self.selection.takes_sample(raw.tag, raw.body) => {}
                Ok(raw) => self.sample(raw),
                Err(e) => {
                    self.json.item();
                    self.json.open(b'{');
                    self.finish(Err(e));
                }
            }
        }
        self.json.close(b']');
    }

    fn sample(&mut self, raw: RawRecord<'_>) {
        self.json.item();
        self.json.open(b'{');
        self.json
            .quoted(key!("sampleType_tag"), Value::Tag(raw.tag.0));
        let result = match Sample::parse(raw) {
            Ok(Sample::Flow(s)) => self.flow_sample(&s),
            Ok(Sample::Counters(s)) => self.counter_sample(&s),
            Ok(Sample::Discard(s)) => self.discard_sample(&s),
            Ok(Sample::Other(raw)) => self.other_sample(raw),
            Err(e) => Err(e),
        };
        self.finish(result);
    }

    fn head(&mut self, kind: &'static str, sequence: u32, source: DataSource) {
        self.json.literal(key!("sampleType"), kind);
        self.json.number(key!("sampleSequenceNo"), sequence.into());
        self.json
            .quoted(key!("sourceId"), Value::Pair(source.class, source.index));
    }

    fn flow_sample(&mut self, s: &FlowSample<'_>) -> Result<()> {
        let h = &s.head;
        self.head("FLOWSAMPLE", h.sequence, h.source);
        let j = &mut *self.json;
        j.number(key!("meanSkipCount"), h.rate.into());
        j.number(key!("samplePool"), h.pool.into());
        j.number(key!("dropEvents"), h.drops.into());
        j.number(key!("inputPort"), h.input.value.into());
        port_kind(j, key!("inputPortKind"), h.input);
        j.number(key!("outputPort"), h.output.value.into());
        port_kind(j, key!("outputPortKind"), h.output);
        self.flow_elements(s.records());
        Ok(())
    }

    fn counter_sample(&mut self, s: &CounterSample<'_>) -> Result<()> {
        self.head("COUNTERSSAMPLE", s.head.sequence, s.head.source);
        self.elements(s.records(), key!("counterBlock_tag"), Self::counter_record);
        Ok(())
    }

    fn discard_sample(&mut self, s: &DiscardSample<'_>) -> Result<()> {
        let h = &s.head;
        self.head("DISCARD", h.sequence, h.source);
        let j = &mut *self.json;
        j.number(key!("dropEvents"), h.drops.into());
        j.number(key!("inputPort"), h.input.into());
        j.number(key!("outputPort"), h.output.into());
        j.number(key!("discardCode"), h.reason.into());
        match reason::name(h.reason) {
            Some(name) => j.literal(key!("discardReason"), name),
            None => j.null(key!("discardReason")),
        }
        self.flow_elements(s.records());
        Ok(())
    }

    fn flow_elements(&mut self, records: Records<'_>) {
        self.elements(records, key!("flowBlock_tag"), Self::flow_record);
    }

    fn elements<'a>(
        &mut self,
        records: Records<'a>,
        tag_key: &'static str,
        show: fn(&mut Self, RawRecord<'a>) -> Result<()>,
    ) {
        self.json.key(key!("elements"));
        self.json.open(b'[');
        for raw in records {
            if raw.is_ok_and(|r| !self.selection.takes_record(r.tag)) {
                continue;
            }
            self.json.item();
            self.json.open(b'{');
            let result = raw.and_then(|raw| {
                self.json.quoted(tag_key, Value::Tag(raw.tag.0));
                show(self, raw)
            });
            self.finish(result);
        }
        self.json.close(b']');
    }

    fn unknown(&mut self, raw: RawRecord<'_>) -> Result<()> {
        self.json.number(key!("length"), raw.body.len() as u64);
        self.json.quoted(key!("bytes"), Value::Hex(raw.body));
        Ok(())
    }

    fn other_sample(&mut self, raw: RawRecord<'_>) -> Result<()> {
        match raw.tag {
            sample_tag::RTMETRIC => self.real_time(raw, false),
            sample_tag::RTFLOW => self.real_time(raw, true),
            _ => self.unknown(raw),
        }
    }

    /// InMon's named values. Names come off the wire, so they are escaped and may repeat.
    fn real_time(&mut self, raw: RawRecord<'_>, flow: bool) -> Result<()> {
        let mut r = raw.reader();
        let (kind, prefix) = if flow {
            ("RTFLOW", "rtflow_")
        } else {
            ("RTMETRIC", "rtmetric_")
        };
        self.json.literal(key!("sampleType"), kind);
        let source = Text::read(&mut r)?;
        let source_key = if flow {
            key!("rtflow_datasource_name")
        } else {
            key!("rtmetric_datasource_name")
        };
        self.json.string(source_key, source.0);
        if flow {
            self.json
                .number(key!("rtflow_sampling_rate"), r.u32()?.into());
            self.json
                .number(key!("rtflow_sample_pool"), r.u32()?.into());
        }
        for _ in 0..r.u32()? {
            let name = Text::read(&mut r)?;
            let here = r;
            let kind = r.u32()?;
            let names: &[&str] = if flow { &FLOW_TYPES } else { &METRIC_TYPES };
            let Some(type_name) = names.get(kind as usize) else {
                return Err(here.error(ErrorKind::ValueType(kind)));
            };
            self.json.wire_key(&[prefix, type_name, "_"], name.0);
            self.real_time_value(&mut r, flow, kind)?;
        }
        Ok(())
    }

    fn real_time_value(&mut self, r: &mut Reader<'_>, flow: bool, kind: u32) -> Result<()> {
        let j = &mut *self.json;
        // The value is written even if it is missing, so that the object stays valid.
        let value = match (flow, kind) {
            (_, 0) => {
                return Text::read(r)
                    .map(|t| j.text(t.0))
                    .inspect_err(|_| j.bare_null());
            }
            (true, 1) => Mac::read(r).map(|m| j.quote(Value::Mac(m.0))),
            (true, 2) => r.array().map(|a| j.quote(Value::Ip4(a))),
            (true, 3) => r.array().map(|a| j.quote(Value::Ip6(a))),
            (true, 4) | (false, 1 | 3) => r.u32().map(|n| j.bare_number(n.into())),
            (true, 5) | (false, 2 | 4) => r.u64().map(|n| j.bare_number(n)),
            (true, 6) | (false, 5) => r.u32().map(|n| j.float(f32::from_bits(n).into())),
            _ => r.u64().map(|n| j.float(f64::from_bits(n))),
        };
        value.inspect_err(|_| j.bare_null())
    }

    #[inline]
    fn flow_record(&mut self, raw: RawRecord<'_>) -> Result<()> {
        let r = &mut raw.reader();
        match raw.tag.0 {
            1 => self.raw_header(&RawHeader::read(r)?),
            2 | 1021 | 1022 => self.ethernet(raw.tag, &SampledEthernet::read(r)?),
            3 | 1023 | 1024 => self.ipv4(raw.tag, &SampledIpv4::read(r)?),
            4 | 1025 | 1026 => self.ipv6(raw.tag, &SampledIpv6::read(r)?),
            1002 => self.router(&ExtendedRouter::read(r)?),
            1004 => self.user(&ExtendedUser::read(r)?),
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

    fn counter_record(&mut self, raw: RawRecord<'_>) -> Result<()> {
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
            Show::Tail(_, items) if r.left() > 0 => return self.items(items, r),
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

/// Says what the number of a port is, unless it is simply an ifIndex.
fn port_kind(j: &mut Json, k: &'static str, port: Interface) {
    let kind = match port.kind() {
        InterfaceKind::Index(_) => return,
        InterfaceKind::Unknown => "unknown",
        InterfaceKind::Internal => "internal",
        InterfaceKind::Discarded(_) => "dropCode",
        InterfaceKind::Multiple(_) => "multiple",
        InterfaceKind::Undefined(_) => "undefined",
    };
    j.literal(k, kind);
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

fn record_ports(j: &mut Json, protocol: u32, src: u32, dst: u32, flags: u32) {
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

fn name_or_number(j: &mut Json, k: &'static str, n: u32, name: fn(u32) -> Option<&'static str>) {
    match name(n) {
        Some(name) => j.literal(k, name),
        None => j.number(k, n.into()),
    }
}

fn label_stack(j: &mut Json, entries: impl Iterator<Item = u32>) {
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

fn vlan_stack(j: &mut Json, tags: impl Iterator<Item = u32>) {
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

/// What was found in the sampled header.
fn packet(j: &mut Json, h: &RawHeader<'_>, p: &Packet) {
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
