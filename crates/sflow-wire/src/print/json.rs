//! Typed JSON: one valid object per datagram, numbers as numbers, names as sflowtool has them.
//!
//! Every record is decoded within its own bounds. A bad one gets an `error` member and the next is decoded all the same; a record that is not known
//! is shown with its length and bytes. What sflowtool gets wrong is right here: byte order of the IP identification, 802.11 payload,
//! access lists, ICMPv6, lists as arrays, text escaped (RFC 8259; bytes that are not UTF-8 become U+FFFD).
//! Keys and notations are sflowtool's, so that a script changes only where it converted strings to numbers.

use super::json_writer::{Json, key};
use super::rt::{FLOW_TYPES, METRIC_TYPES};
use super::value::Value;
use super::{Meta, Selection};
use crate::builder::sample_tag;
use crate::datagram::{
    CounterSample, Datagram, DiscardSample, FlowSample, RawRecord, Records, Sample,
};
use crate::reason;
use crate::record::field::Field;
use crate::record::{Mac, Text};
use crate::types::{DataSource, Interface, InterfaceKind};
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

pub(super) struct Writer<'w> {
    pub(super) json: &'w mut Json,
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
    pub(super) fn finish(&mut self, result: Result<()>) {
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

    pub(super) fn unknown(&mut self, raw: RawRecord<'_>) -> Result<()> {
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
