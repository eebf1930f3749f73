//! Reads a datagram in sflowtool's order and with its rules, and hands a [`Sink`] what sflowtool 6.11 would print.
//!
//! Being compatible means being compatible in failure too. sflowtool trusts a record's length only after it has read the record, takes words
//! from wherever the last one ended, and gives up a datagram at the first fault. So this walker reads on across records and is bounded by the
//! end of the datagram; everything else in the crate decodes within bounds and carries on (see `json.rs` beside this file).

use core::fmt;

use super::csv::{Flow, Row};
use super::header::Sampled;
use super::sink::{Context, Sink};
use super::value::Value;
use super::{Meta, Selection};
use crate::builder::sample_tag;
use crate::reason;
use crate::types::{Address, Tag};
use crate::xdr::DecodeError;

/// Why the rest of a datagram was given up. The text and the number are sflowtool's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A read went beyond the datagram.
    EndOfData,
    /// An address type other than 1 and 2.
    AddressType(u32),
    /// A datagram version other than 2, 4 and 5.
    Version(u32),
    /// A value type, sample type or record type that is not known where it must be.
    Unknown(&'static str, u32),
    /// A structure was longer or shorter than its length said.
    Length {
        /// Which structure.
        what: &'static str,
        /// What its length said.
        expected: u32,
        /// What it took.
        found: u32,
    },
    /// Something could not be decoded; the typed form went on after it.
    Decode(DecodeError),
    /// There were fewer samples than announced.
    MissingSamples {
        /// Samples there were.
        found: u32,
        /// Samples announced.
        expected: u32,
    },
}

impl Fault {
    /// The number that sflowtool gives in `caught exception`: 1 end of data, 2 decoding, 3 length.
    pub const fn exception(&self) -> u32 {
        match self {
            Fault::EndOfData | Fault::AddressType(_) | Fault::MissingSamples { .. } => 1,
            Fault::Version(_) | Fault::Unknown(..) | Fault::Decode(_) => 2,
            Fault::Length { .. } => 3,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::EndOfData => f.write_str("the data ends early"),
            Fault::AddressType(n) => write!(f, "unknown address type = {}", *n as i32),
            Fault::Version(n) => write!(f, "unexpected datagram version number {n}"),
            Fault::Decode(e) => e.fmt(f),
            Fault::Unknown(what, n) => write!(f, "unexpected {what} {n}"),
            Fault::Length {
                what,
                expected,
                found,
            } => {
                let (expected, found) = (*expected as i32, *found as i32);
                write!(
                    f,
                    "{what} length error (expected {expected}, found {found})"
                )
            }
            Fault::MissingSamples { found, expected } => {
                write!(
                    f,
                    "unexpected end of datagram after sample {found} of {expected}"
                )
            }
        }
    }
}

/// A fault, or nothing to say.
pub(crate) type Step<T = ()> = Result<T, Fault>;

/// Walks one datagram.
pub(crate) struct Walker<'d, 's, S> {
    pub(crate) data: &'d [u8],
    pub(crate) pos: usize,
    pub(crate) version: u32,
    pub(crate) sink: &'s mut S,
    pub(crate) context: Context,
    /// Columns of the CSV line.
    pub(crate) flow: Flow,
    /// Where the sampled header lies and what was found in it.
    pub(crate) sampled: Sampled,
    /// Where the body of the generic interface record lies.
    pub(crate) generic_at: Option<usize>,
    /// Put before every key of a discarded packet sample.
    pub(crate) prefix: &'static str,
    /// Room for values that are put together.
    pub(crate) scratch: Vec<u8>,
    selection: &'s Selection,
}

impl<'d, 's, S: Sink> Walker<'d, 's, S> {
    pub(crate) fn new(
        data: &'d [u8],
        meta: &Meta,
        selection: &'s Selection,
        sink: &'s mut S,
        scratch: Vec<u8>,
    ) -> Self {
        let now = meta.capture_time.unwrap_or(meta.read_time);
        Walker {
            data,
            pos: 0,
            version: 0,
            sink,
            context: Context {
                time: (i64::from(now.seconds), now.utc_offset),
                agent: Address::Unknown,
                sub_agent_id: 0,
                sequence: 0,
                source: (0, 0),
                sample_tag: 0,
                element_tag: 0,
            },
            flow: Flow::default(),
            sampled: Sampled::default(),
            generic_at: None,
            prefix: "",
            scratch,
            selection,
        }
    }

    /// Shows the whole datagram and says what stopped it, if something did.
    pub(crate) fn datagram(&mut self, meta: &Meta) -> Step {
        self.sink.begin_datagram(&self.context);
        let result = self.header(meta).and_then(|count| self.samples(count));
        self.sink.end_datagram(&self.context);
        result
    }

    fn header(&mut self, meta: &Meta) -> Step<u32> {
        self.field("datagramSourceIP", Value::Address(meta.source));
        self.u32_field("datagramSize", self.data.len() as u32);
        self.u32_field("unixSecondsUTC", meta.read_time.seconds);
        self.u32_field("unixSecondsUTC_uS", meta.read_time.micros);
        let read = meta.read_time;
        self.field(
            "localtime",
            Value::Time(i64::from(read.seconds), read.utc_offset),
        );
        if let Some(t) = meta.capture_time.filter(|t| t.seconds != 0) {
            self.field(
                "pcapTimestamp",
                Value::Time(i64::from(t.seconds), t.utc_offset),
            );
            self.u32_field("pcapTimestamp_uS", t.micros);
        }
        self.version = self.u32()?;
        self.u32_field("datagramVersion", self.version);
        if !matches!(self.version, 2 | 4 | 5) {
            return Err(Fault::Version(self.version));
        }
        self.agent()?;
        if self.version >= 5 {
            self.context.sub_agent_id = self.u32()?;
            self.u32_field("agentSubId", self.context.sub_agent_id);
        }
        self.context.sequence = self.u32()?;
        let uptime = self.u32()?;
        let count = self.u32()?;
        self.field("agent", Value::Address(self.context.agent));
        self.u32_field("packetSequenceNo", self.context.sequence);
        self.u32_field("sysUpTime", uptime);
        self.u32_field("samplesInPacket", count);
        Ok(count)
    }

    /// Reads the agent's address. The grep form shows the type of an address whose bytes are missing as zeros.
    fn agent(&mut self) -> Step {
        let kind = self.u32()?;
        self.context.agent = match kind {
            1 => Address::V4([0; 4].into()),
            2 => Address::V6([0; 16].into()),
            _ => return Err(Fault::AddressType(kind)),
        };
        self.context.agent = self.address_body(kind)?;
        Ok(())
    }

    fn samples(&mut self, count: u32) -> Step {
        self.sink.begin_samples();
        self.sink.open_array("samples");
        for n in 0..count {
            if self.pos >= self.data.len() {
                return Err(Fault::MissingSamples {
                    found: n,
                    expected: count,
                });
            }
            if !self.selection.takes_all() && self.version >= 5 && self.skip_unselected()? {
                continue;
            }
            self.flow = Flow::default();
            self.sampled = Sampled::default();
            self.generic_at = None;
            self.prefix = "";
            self.context.source = (0, 0);
            self.context.element_tag = 0;
            // sflowtool has cleared the last sample when the tag turns out to be missing.
            self.context.sample_tag = 0;
            self.context.sample_tag = self.u32()?;
            self.sink.begin_sample(&self.context);
            self.field("sampleType_tag", Value::Tag(self.context.sample_tag));
            self.sample()?;
            self.sink.end_sample(&self.context);
        }
        self.sink.close_array();
        Ok(())
    }

    fn sample(&mut self) -> Step {
        let tag = Tag(self.context.sample_tag);
        if self.version < 5 {
            return self.old_sample(tag.0);
        }
        match tag {
            sample_tag::FLOW => self.flow_sample(false),
            sample_tag::COUNTERS => self.counter_sample(false),
            sample_tag::FLOW_EXPANDED => self.flow_sample(true),
            sample_tag::COUNTERS_EXPANDED => self.counter_sample(true),
            sample_tag::DISCARD => self.discard_sample(),
            sample_tag::RTMETRIC => self.rtmetric(),
            sample_tag::RTFLOW => self.rtflow(),
            _ => {
                let len = self.u32()?;
                self.skip_unknown("sample", tag, len)
            }
        }
    }

    fn flow_sample(&mut self, expanded: bool) -> Step {
        self.field("sampleType", Value::Str(b"FLOWSAMPLE"));
        let len = self.u32()?;
        let start = self.pos;
        let sequence = self.u32()?;
        self.read_source(expanded)?;
        self.u32_field("sampleSequenceNo", sequence);
        self.source_field();
        self.flow.rate = self.u32()?;
        let pool = self.u32()?;
        let drops = self.u32()?;
        self.u32_field("meanSkipCount", self.flow.rate);
        self.u32_field("samplePool", pool);
        self.u32_field("dropEvents", drops);
        let (in_format, input) = self.interface(expanded)?;
        let (out_format, output) = self.interface(expanded)?;
        (self.flow.input, self.flow.output) = (input, output);
        self.field("inputPort", Value::Port(in_format, input));
        self.field("outputPort", Value::Port(out_format, output));
        self.sink.open_array("elements");
        self.flow_elements()?;
        self.check_length("flow_sample", start, len)?;
        self.sink.close_array();
        self.sink.flush(&Row::Flow(self.context.agent, &self.flow));
        Ok(())
    }

    fn counter_sample(&mut self, expanded: bool) -> Step {
        self.field("sampleType", Value::Str(b"COUNTERSSAMPLE"));
        let len = self.u32()?;
        let start = self.pos;
        let sequence = self.u32()?;
        self.u32_field("sampleSequenceNo", sequence);
        self.read_source(expanded)?;
        self.source_field();
        let count = self.u32()?;
        self.sink.open_array("elements");
        for _ in 0..count {
            self.counter_element()?;
        }
        self.check_length("counters_sample", start, len)?;
        self.sink.close_array();
        self.flush_counters();
        Ok(())
    }

    pub(crate) fn flush_counters(&mut self) {
        let body = self
            .generic_at
            .and_then(|at| self.data.get(at..))
            .and_then(|b| b.first_chunk());
        self.sink.flush(&Row::Counters(self.context.agent, body));
    }

    fn discard_sample(&mut self) -> Step {
        self.field("sampleType", Value::Str(b"DISCARD"));
        let len = self.u32()?;
        let start = self.pos;
        let sequence = self.u32()?;
        self.read_source(true)?;
        self.u32_field("sampleSequenceNo", sequence);
        self.source_field();
        self.next_u32("dropEvents")?;
        let input = self.u32()?;
        let output = self.u32()?;
        self.u32_field("inputPort", input);
        self.u32_field("outputPort", output);
        let code = self.next_u32("discardCode")?;
        self.field(
            "discardReason",
            Value::Str(reason::sflowtool_name(code).as_bytes()),
        );
        self.sink.open_array("elements");
        self.prefix = "discarded_";
        self.flow_elements()?;
        self.prefix = "";
        self.check_length("discard_sample", start, len)?;
        self.sink.close_array();
        self.sink.flush(&Row::Other);
        Ok(())
    }

    fn flow_elements(&mut self) -> Step {
        let count = self.u32()?;
        for _ in 0..count {
            if self.skip_unselected_record()? {
                continue;
            }
            self.sink.open_object();
            self.context.element_tag = self.u32()?;
            let tag = Tag(self.context.element_tag);
            self.field("flowBlock_tag", Value::Tag(tag.0));
            let len = self.u32()?;
            let start = self.pos;
            self.flow_record(tag, len)?;
            self.check_length("flow_sample_element", start, len)?;
            self.sink.close_object();
        }
        Ok(())
    }

    fn counter_element(&mut self) -> Step {
        if self.skip_unselected_record()? {
            return Ok(());
        }
        self.sink.open_object();
        self.context.element_tag = self.u32()?;
        let tag = Tag(self.context.element_tag);
        self.field("counterBlock_tag", Value::Tag(tag.0));
        let len = self.u32()?;
        let start = self.pos;
        self.counter_record(tag, len)?;
        self.check_length("counters_sample_element", start, len)?;
        self.sink.close_object();
        Ok(())
    }

    /// Skips the sample that comes next if the user did not ask for it.
    fn skip_unselected(&mut self) -> Step<bool> {
        let start = self.pos;
        let tag = Tag(self.u32()?);
        let len = self.u32()? as usize;
        let rest = self.data.get(self.pos..).unwrap_or(&[]);
        let body = rest.get(..len.min(rest.len())).unwrap_or(&[]);
        if self.selection.takes_sample(tag, body) {
            self.pos = start;
            return Ok(false);
        }
        self.skip(len as u32)?;
        Ok(true)
    }

    fn skip_unselected_record(&mut self) -> Step<bool> {
        if self.selection.takes_all() {
            return Ok(false);
        }
        let start = self.pos;
        let tag = Tag(self.u32()?);
        if self.selection.takes_record(tag) {
            self.pos = start;
            return Ok(false);
        }
        let len = self.u32()?;
        self.skip(len)?;
        Ok(true)
    }

    /// Skips a structure that sflowtool does not know.
    pub(crate) fn skip_unknown(&mut self, what: &str, tag: Tag, len: u32) -> Step {
        if !S::SILENT {
            let text = format!("skipping unknown {what}: {tag} len={}", len as i32);
            self.sink.line(&self.context, text.as_bytes());
        }
        self.skip(len)
    }

    /// Compares what was read since `start` with what a length announced, both in whole words, as C's int arithmetic has it.
    fn check_length(&self, what: &'static str, start: usize, len: u32) -> Step {
        let found = (self.pos - start) as u32;
        let expected = ((len as i32).wrapping_add(3) >> 2 << 2) as u32;
        if found == expected {
            return Ok(());
        }
        Err(Fault::Length {
            what,
            expected: len,
            found,
        })
    }

    pub(crate) fn check_sample_length(&self, what: &'static str, start: usize, len: u32) -> Step {
        self.check_length(what, start, len)
    }

    pub(crate) fn read_source(&mut self, expanded: bool) -> Step {
        let first = self.u32()?;
        if expanded {
            self.context.source.0 = first;
            self.context.source.1 = self.u32()?;
        } else {
            self.context.source = (first >> 24, first & 0x00FF_FFFF);
        }
        Ok(())
    }

    pub(crate) fn source_field(&mut self) {
        let (class, index) = self.context.source;
        self.field("sourceId", Value::Pair(class, index));
    }

    fn interface(&mut self, expanded: bool) -> Step<(u32, u32)> {
        let first = self.u32()?;
        if expanded {
            Ok((first, self.u32()?))
        } else {
            Ok((first >> 30, first & 0x3FFF_FFFF))
        }
    }
}
