//! Records: their bytes against their structure, and their values against what the structure defines.
//!
//! A record that is decoded and encoded again must give the same bytes: where it does not, padding was not zero, and what
//! is left over lies behind the last field. So one rule serves every structure there is.

use parshall_sflow_wire::dissect::{IpVersion, dissect};
use parshall_sflow_wire::record::field::{Item, Show};
use parshall_sflow_wire::record::{ExtendedSwitch, IfCounters, RawHeader, flow::header_protocol};
use parshall_sflow_wire::xdr::{ErrorKind, Reader, pad4};
use parshall_sflow_wire::{Address, CounterRecord, DataSource, FlowRecord, RawRecord, Tag};

use super::finding::Cx;
use super::rules::Rule;

/// The largest number of a raw header's protocol that is assigned.
const LAST_PROTOCOL: u32 = 18;
/// Ethernet's frame check sequence.
const FCS: u32 = 4;
const UNKNOWN: u32 = u32::MAX;
/// Longest name of a wireless network (IEEE 802.11).
const SSID_MOST: usize = 32;

/// What a flow or discard sample's records told together.
#[derive(Clone, Copy, Debug, Default)]
pub struct Told {
    /// Something says what the packet was.
    pub packet: bool,
    /// There was a switch record.
    pub switch: bool,
}

/// Checks a record of a flow or discard sample.
pub fn flow(cx: &mut Cx<'_>, raw: &RawRecord<'_>, scratch: &mut Vec<u8>, told: &mut Told) {
    match raw.flow() {
        Err(e) => broken(cx, e.kind, e.offset, raw.tag == Tag::new(0, 1)),
        Ok(FlowRecord::Unknown { tag, .. }) => {
            cx.find(Rule::RecordUnknown, raw.offset, format_args!("{tag}"));
        }
        Ok(record) => {
            scratch.clear();
            record.write_body(scratch);
            bytes(cx, raw, scratch);
            if let Some(info) = FlowRecord::info(raw.tag) {
                strings(cx, raw, info.layout.items);
            }
            flow_values(cx, &record, raw.offset, told);
        }
    }
}

/// Checks a record of a counter sample.
pub fn counter(
    cx: &mut Cx<'_>,
    raw: &RawRecord<'_>,
    scratch: &mut Vec<u8>,
    source: DataSource,
    compact: bool,
) {
    match raw.counter() {
        Err(e) => broken(cx, e.kind, e.offset, false),
        Ok(CounterRecord::Unknown { tag, .. }) => {
            cx.find(Rule::RecordUnknown, raw.offset, format_args!("{tag}"));
        }
        Ok(record) => {
            scratch.clear();
            record.write_body(scratch);
            bytes(cx, raw, scratch);
            if let Some(info) = CounterRecord::info(raw.tag) {
                strings(cx, raw, info.layout.items);
            }
            if let CounterRecord::Interface(r) = &record {
                generic(cx, r, raw.offset, source, compact);
            }
        }
    }
}

fn broken(cx: &mut Cx<'_>, kind: ErrorKind, offset: usize, header: bool) {
    let rule = match kind {
        ErrorKind::Count(_) => Rule::ListCount,
        ErrorKind::AddressType(_) => Rule::AddressType,
        ErrorKind::Length(_) if header => Rule::HeaderBeyondRecord,
        _ => Rule::RecordTruncated,
    };
    cx.find(rule, offset, format_args!("{kind}"));
}

/// Compares a body with what its own values encode to.
fn bytes(cx: &mut Cx<'_>, raw: &RawRecord<'_>, again: &[u8]) {
    let differs = raw.body.iter().zip(again).position(|(a, b)| a != b);
    if let Some(at) = differs {
        let byte = raw.body.get(at).copied().unwrap_or(0);
        cx.find(
            Rule::PaddingNonzero,
            raw.offset + at,
            format_args!("{byte:#04x}"),
        );
    } else if raw.body.len() > again.len() {
        let more = raw.body.len() - again.len();
        cx.find(
            Rule::RecordTrailing,
            raw.offset + again.len(),
            format_args!("{more} bytes more"),
        );
    }
}

/// Walks a record by its layout and holds each string against its limit, as far as the layout has a general form.
fn strings(cx: &mut Cx<'_>, raw: &RawRecord<'_>, items: &[Item]) {
    let mut r = raw.reader();
    for item in items {
        let offset = r.offset();
        let Some(text) = step(&mut r, item.show) else {
            return;
        };
        let wireless = raw.tag == Tag::new(0, 1014) || raw.tag == Tag::new(0, 1015);
        let most = match item.show {
            Show::Name(255) if wireless => SSID_MOST,
            // Where the document gives no limit, the printers have one that is a multiple of a hundred.
            Show::Name(n) if n % 100 != 99 && n < 255 => n + 1,
            _ => continue,
        };
        if text > most {
            cx.find(
                Rule::StringLimit,
                offset,
                format_args!("{} of {text} bytes, {most} are allowed", item.key),
            );
        }
    }
}

/// Steps over a field; the length of a string, 0 for anything else. Nothing where there is no general form.
fn step(r: &mut Reader<'_>, show: Show) -> Option<usize> {
    let fixed = match show {
        Show::U32 | Show::I32 | Show::Float | Show::Percent | Show::Ip4 => 4,
        Show::PortStates | Show::Direction | Show::AppStatus => 4,
        Show::U64 | Show::Hex64 | Show::Mac => 8,
        Show::Ip6 | Show::Uuid => 16,
        Show::Address => return Address::read(r).ok().map(|_| 0),
        Show::Name(_) | Show::Text(_) | Show::UrlEncoded(_) | Show::Bytes => {
            return r.opaque().ok().map(<[u8]>::len);
        }
        _ => return None,
    };
    r.bytes(fixed).ok().map(|_| 0)
}

fn flow_values(cx: &mut Cx<'_>, record: &FlowRecord<'_>, at: usize, told: &mut Told) {
    let range = |cx: &mut Cx<'_>, ok: bool, offset: usize, what: &str, value: u32| {
        if !ok {
            cx.find(Rule::FieldRange, offset, format_args!("{what} {value}"));
        }
    };
    match record {
        FlowRecord::RawHeader(h) => {
            told.packet = true;
            header(cx, h, at);
        }
        FlowRecord::Ethernet(_) | FlowRecord::Ipv4(_) | FlowRecord::Ipv6(_) => told.packet = true,
        FlowRecord::Switch(s) => {
            told.switch = true;
            switch(cx, s, at);
        }
        FlowRecord::Router(r) => {
            let (most, length) = match r.next_hop {
                Address::V6(_) => (128, 20),
                Address::V4(_) => (32, 8),
                Address::Unknown => (128, 4),
            };
            if r.next_hop == Address::Unknown {
                cx.find(Rule::NextHopUnknown, at, format_args!(""));
            }
            for (mask, offset) in [(r.src_mask_len, 0), (r.dst_mask_len, 4)] {
                if mask > most {
                    cx.find(
                        Rule::MaskLength,
                        at + length + offset,
                        format_args!("{mask} of {most} bits"),
                    );
                }
            }
        }
        FlowRecord::Gateway(g) => {
            for s in &g.dst_as_path {
                range(
                    cx,
                    matches!(s.kind, 1 | 2),
                    at,
                    "AS path segment type",
                    s.kind,
                );
            }
        }
        FlowRecord::Url(u) => range(
            cx,
            matches!(u.direction, 1 | 2),
            at,
            "direction",
            u.direction,
        ),
        FlowRecord::Acl(a) => range(cx, a.direction <= 2, at, "direction", a.direction),
        FlowRecord::TcpInfo(t) => range(cx, t.direction <= 2, at, "direction", t.direction),
        FlowRecord::Entities(e) => {
            range(cx, e.src_class <= 3, at, "class", e.src_class);
            range(cx, e.dst_class <= 3, at + 8, "class", e.dst_class);
        }
        FlowRecord::VniIngress(v) => range(cx, v.vni < 1 << 24, at, "network identifier", v.vni),
        FlowRecord::VniEgress(v) => range(cx, v.vni < 1 << 24, at, "network identifier", v.vni),
        FlowRecord::NatPort(p) => {
            range(cx, p.src_port <= 0xFFFF, at, "port", p.src_port);
            range(cx, p.dst_port <= 0xFFFF, at + 4, "port", p.dst_port);
        }
        FlowRecord::Timestamp(t) => timestamp(cx, t.unix_ns, at),
        _ => {}
    }
}

/// A sample leaves within a second of its packet; its clock may be another than ours.
fn timestamp(cx: &mut Cx<'_>, unix_ns: u64, at: usize) {
    const SECOND: u64 = 1_000_000_000;
    let Some(now) = cx.at.time_ns else {
        return;
    };
    if now > unix_ns.saturating_add(SECOND) {
        let late = (now - unix_ns) as f64 / 1e9;
        cx.find(Rule::TimestampLate, at, format_args!("{late:.3} s"));
    } else if unix_ns > now.saturating_add(SECOND) {
        let ahead = (unix_ns - now) as f64 / 1e9;
        cx.find(Rule::TimestampFuture, at, format_args!("{ahead:.3} s"));
    }
}

fn header(cx: &mut Cx<'_>, h: &RawHeader<'_>, at: usize) {
    let len = u32::try_from(h.header.len()).unwrap_or(u32::MAX);
    if h.protocol == 0 || h.protocol > LAST_PROTOCOL {
        cx.find(Rule::HeaderProtocol, at, format_args!("{}", h.protocol));
    }
    if h.header.is_empty() {
        cx.find(Rule::HeaderEmpty, at + 12, format_args!(""));
    }
    if h.protocol == header_protocol::ETHERNET && h.stripped < FCS {
        cx.find(
            Rule::Stripped,
            at + 8,
            format_args!("{} stripped", h.stripped),
        );
    }
    let Some(kept) = h.frame_length.checked_sub(h.stripped).filter(|n| *n >= len) else {
        cx.find(
            Rule::HeaderLength,
            at + 4,
            format_args!(
                "a frame of {} bytes, {} stripped, header of {len}",
                h.frame_length, h.stripped
            ),
        );
        return;
    };
    let Some(ip) = dissect(h.protocol, h.header).ip else {
        return;
    };
    let long = match ip.version {
        IpVersion::V4(v) => usize::from(v.total_len),
        // Zero is a jumbogram, whose length stands elsewhere.
        IpVersion::V6(v) if v.payload_len == 0 => 0,
        IpVersion::V6(v) => 40 + usize::from(v.payload_len),
    };
    if ip.offset + long > kept as usize {
        cx.find(
            Rule::FrameShort,
            at + 4,
            format_args!(
                "{long} bytes of IP behind {} in a frame of {kept}",
                ip.offset
            ),
        );
    }
}

fn switch(cx: &mut Cx<'_>, s: &ExtendedSwitch, at: usize) {
    let fields = [
        (s.in_vlan, 4095),
        (s.in_priority, 7),
        (s.out_vlan, 4095),
        (s.out_priority, 7),
    ];
    for (i, (value, most)) in fields.into_iter().enumerate() {
        if value > most && value != UNKNOWN {
            cx.find(Rule::VlanRange, at + 4 * i, format_args!("{value}"));
        }
    }
}

fn generic(cx: &mut Cx<'_>, r: &IfCounters, at: usize, source: DataSource, compact: bool) {
    if source.class == 0 && r.if_index != source.index {
        cx.find(
            Rule::IfIndexMismatch,
            at,
            format_args!("ifIndex {} of source {source}", r.if_index),
        );
    }
    if compact && r.if_index >= 1 << 24 {
        cx.find(
            Rule::CompactLargeIndex,
            at,
            format_args!("ifIndex {}", r.if_index),
        );
    }
    let fields = [
        (r.if_direction, 4, 16, "ifDirection"),
        (r.if_status, 3, 20, "ifStatus"),
        (r.promiscuous, 2, 84, "ifPromiscuousMode"),
    ];
    for (value, most, offset, name) in fields {
        if value > most && value != UNKNOWN {
            cx.find(
                Rule::FieldRange,
                at + offset,
                format_args!("{name} {value}"),
            );
        }
    }
}

/// The bytes of padding behind a framed structure, as far as its container has them.
pub fn padding(datagram: &[u8], offset: usize, len: usize, end: usize) -> &[u8] {
    let from = offset + len;
    let to = (offset + pad4(len)).min(end).max(from);
    datagram.get(from..to).unwrap_or(&[])
}
