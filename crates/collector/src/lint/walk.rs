//! Walks a datagram byte by byte and applies every rule.

use std::net::IpAddr;

use parshall_sflow_wire::builder::sample_tag;
use parshall_sflow_wire::xdr::{DecodeError, ErrorKind, pad4};
use parshall_sflow_wire::{
    Address, DataSource, Datagram, FlowSample, Interface, InterfaceKind, RawRecord, Records,
    Sample, Tag, reason,
};

use super::finding::{At, Cx, Findings};
use super::records::{self, Told};
use super::rules::Rule;
use super::streams::{Follow, Streams};

/// Bytes of UDP over IPv4 and over IPv6.
const UNDER_V4: usize = 28;
const UNDER_V6: usize = 48;
/// ifIndexes from here on do not fit in a compact source.
const LARGE: u32 = 1 << 24;
/// How the inside of the device is written, in 30 bits and in 32.
const INTERNAL: u32 = 0x3FFF_FFFF;

/// What a linter is told.
#[derive(Clone, Debug)]
pub struct LintOptions {
    /// Bytes of an IP packet that the way to the collector takes whole.
    pub mtu: usize,
    /// Seconds between two counter samples of a source that were promised.
    pub polling: Option<u32>,
    /// Agents and sub-agents followed.
    pub max_agents: usize,
    /// Sources followed.
    pub max_sources: usize,
    /// Findings of one rule that are kept to be shown.
    pub most: u64,
    /// Rules left out.
    pub ignored: Vec<Rule>,
}

impl Default for LintOptions {
    fn default() -> Self {
        LintOptions {
            mtu: 1500,
            polling: None,
            max_agents: super::streams::MAX_AGENTS,
            max_sources: super::streams::MAX_SOURCES,
            most: u64::MAX,
            ignored: Vec::new(),
        }
    }
}

/// Checks datagrams of any number of agents, in the order in which they came.
#[derive(Debug)]
pub struct Linter {
    options: LintOptions,
    findings: Findings,
    streams: Streams,
    scratch: Scratch,
    /// Datagrams and samples seen.
    pub datagrams: u64,
    /// Samples seen.
    pub samples: u64,
}

/// Memory that is used again.
#[derive(Debug, Default)]
struct Scratch {
    bytes: Vec<u8>,
    tags: Vec<Tag>,
}

impl Linter {
    /// One that has seen nothing.
    pub fn new(options: LintOptions) -> Linter {
        Linter {
            findings: Findings::new(options.most, options.ignored.clone()),
            streams: Streams::new(options.max_agents, options.max_sources, options.polling),
            scratch: Scratch::default(),
            options,
            datagrams: 0,
            samples: 0,
        }
    }

    /// Takes in what came in one UDP datagram, from this place.
    pub fn datagram(&mut self, at: &At, v6: bool, bytes: &[u8]) {
        let mut rest = bytes;
        let mut first = true;
        loop {
            self.datagrams += 1;
            let next = self.one(at, v6, rest);
            let Some((glued, tail)) = next.and_then(|n| Some((n, rest.get(n..)?))) else {
                return;
            };
            if first {
                let mut cx = Cx {
                    at: at.clone(),
                    findings: &mut self.findings,
                };
                cx.find(
                    Rule::GluedDatagrams,
                    glued,
                    format_args!("{} bytes", bytes.len()),
                );
            }
            (rest, first) = (tail, false);
        }
    }

    /// Something that is no datagram, but belongs to the input.
    pub fn note(&mut self, rule: Rule, at: &At, detail: std::fmt::Arguments<'_>) {
        self.findings.add(rule, at, detail);
    }

    /// Looks back when all has been seen.
    pub fn finish(&mut self) {
        let mut cx = Cx {
            at: At::default(),
            findings: &mut self.findings,
        };
        self.streams.finish(&mut cx);
    }

    /// What was found.
    pub fn findings(&mut self) -> &mut Findings {
        &mut self.findings
    }

    /// Agents and sources followed.
    pub fn followed(&self) -> (usize, usize) {
        (self.streams.agents(), self.streams.sources())
    }

    /// Checks one datagram at the front of `bytes`; where the next one begins if another is glued to it.
    fn one(&mut self, at: &At, v6: bool, bytes: &[u8]) -> Option<usize> {
        let mut cx = Cx {
            at: at.clone(),
            findings: &mut self.findings,
        };
        let d = match Datagram::parse(bytes) {
            Ok(d) => d,
            Err(e) => {
                header_error(&mut cx, e);
                return None;
            }
        };
        (cx.at.agent, cx.at.sub_agent, cx.at.datagram) =
            (d.agent.ip(), Some(d.sub_agent_id), Some(d.sequence));
        check_agent(&mut cx, d.agent);
        // Where it ends is known before anything is held against other datagrams.
        let end = end_of(&d, bytes);
        let next = next_glued(&d, bytes, end);
        let whole = match next {
            Some(_) => bytes.get(..end).unwrap_or(bytes),
            None => bytes,
        };
        let size = whole.len() + if v6 { UNDER_V6 } else { UNDER_V4 };
        if size > self.options.mtu {
            cx.find(
                Rule::DatagramTooLarge,
                0,
                format_args!(
                    "{size} bytes with IP and UDP, the MTU is {}",
                    self.options.mtu
                ),
            );
        }
        if d.sample_count == 0 {
            cx.find(Rule::DatagramEmpty, 0, format_args!(""));
        }
        let follow = self.streams.datagram(&mut cx, &d, whole);
        if follow != Follow::Nothing {
            let mut walk = Walk {
                cx,
                streams: &mut self.streams,
                scratch: &mut self.scratch,
                d: &d,
                bytes: whole,
                follow,
            };
            self.samples += walk.samples();
        }
        next
    }
}

/// Where the first datagram ends when the same agent's next one follows in the same payload: so captures at the sender show
/// datagrams that segmentation offload takes apart later.
pub fn glued(bytes: &[u8]) -> Option<usize> {
    let d = Datagram::parse(bytes).ok()?;
    next_glued(&d, bytes, end_of(&d, bytes))
}

/// Where a datagram's last sample ends.
fn end_of(d: &Datagram<'_>, bytes: &[u8]) -> usize {
    let mut end = header_len(d.agent);
    for raw in d.raw_samples() {
        match raw {
            Ok(r) => end = r.offset + pad4(r.body.len()),
            Err(_) => return bytes.len(),
        }
    }
    end.min(bytes.len())
}

/// Whether what follows is the same agent's next datagram.
fn next_glued(d: &Datagram<'_>, bytes: &[u8], end: usize) -> Option<usize> {
    let next = Datagram::parse(bytes.get(end..)?).ok()?;
    let same = (next.agent, next.sub_agent_id) == (d.agent, d.sub_agent_id);
    (same && next.sequence == d.sequence.wrapping_add(1)).then_some(end)
}

fn header_len(agent: Address) -> usize {
    match agent {
        Address::Unknown => 24,
        Address::V4(_) => 28,
        Address::V6(_) => 40,
    }
}

fn header_error(cx: &mut Cx<'_>, e: DecodeError) {
    let rule = match e.kind {
        ErrorKind::Version(_) => Rule::Version,
        ErrorKind::AddressType(_) => Rule::AgentAddressType,
        _ => Rule::DatagramTruncated,
    };
    cx.find(rule, e.offset, format_args!("{}", e.kind));
}

fn check_agent(cx: &mut Cx<'_>, agent: Address) {
    let Some(ip) = agent.ip() else {
        cx.find(Rule::AgentAddressType, 4, format_args!("type 0, unknown"));
        return;
    };
    let broadcast = matches!(ip, IpAddr::V4(a) if a.is_broadcast());
    if ip.is_unspecified() || ip.is_multicast() || broadcast {
        cx.find(Rule::AgentAddress, 8, format_args!("{ip}"));
    }
}

/// One datagram being walked.
struct Walk<'w, 'd> {
    cx: Cx<'w>,
    streams: &'w mut Streams,
    scratch: &'w mut Scratch,
    d: &'w Datagram<'d>,
    bytes: &'d [u8],
    follow: Follow,
}

impl<'d> Walk<'_, 'd> {
    /// Walks all samples; how many there are.
    fn samples(&mut self) -> u64 {
        let mut end = header_len(self.d.agent);
        let mut n = 0;
        for raw in self.d.raw_samples() {
            let raw = match raw {
                Ok(r) => r,
                Err(e) => {
                    self.frame_error(e, Rule::SampleCount, Rule::SampleLength);
                    return n.into();
                }
            };
            n += 1;
            self.cx.at.sample = Some((n, raw.tag));
            end = self.frame(&raw, self.bytes.len());
            self.sample(raw);
            (self.cx.at.sample, self.cx.at.source, self.cx.at.record) = (None, None, None);
        }
        if end < self.bytes.len() {
            let more = self.bytes.len() - end;
            self.cx
                .find(Rule::TrailingBytes, end, format_args!("{more} bytes"));
        }
        n.into()
    }

    fn frame_error(&mut self, e: DecodeError, count: Rule, length: Rule) {
        let rule = match e.kind {
            ErrorKind::Length(_) => length,
            _ => count,
        };
        self.cx.find(rule, e.offset, format_args!("{}", e.kind));
    }

    /// The length and padding of a sample or record; where it ends.
    fn frame(&mut self, raw: &RawRecord<'_>, limit: usize) -> usize {
        let len = raw.body.len();
        if !len.is_multiple_of(4) {
            self.cx
                .find(Rule::LengthUnaligned, raw.offset - 4, format_args!("{len}"));
        }
        let pad = records::padding(self.bytes, raw.offset, len, limit);
        if pad.iter().any(|b| *b != 0) {
            self.cx.find(
                Rule::PaddingNonzero,
                raw.offset + len,
                format_args!("{pad:02x?}"),
            );
        }
        raw.offset + len + pad.len()
    }

    fn sample(&mut self, raw: RawRecord<'d>) {
        let form = match raw.tag {
            sample_tag::FLOW | sample_tag::COUNTERS => Some(false),
            sample_tag::FLOW_EXPANDED | sample_tag::COUNTERS_EXPANDED => Some(true),
            _ => None,
        };
        match Sample::parse(raw) {
            Err(e) => self
                .cx
                .find(Rule::SampleTruncated, e.offset, format_args!("{}", e.kind)),
            Ok(Sample::Other(_)) => {
                let known = matches!(raw.tag, sample_tag::RTMETRIC | sample_tag::RTFLOW);
                if !known {
                    self.cx
                        .find(Rule::SampleUnknown, raw.offset, format_args!("{}", raw.tag));
                }
            }
            Ok(Sample::Flow(f)) => {
                self.source(f.head.source, f.head.sequence, &raw, form);
                self.flow(&f, &raw, form == Some(true));
            }
            Ok(Sample::Counters(c)) => {
                self.source(c.head.source, c.head.sequence, &raw, form);
                if self.follow == Follow::Sequences {
                    self.streams
                        .counters(&mut self.cx, self.d, &c.head, raw.offset);
                }
                let (source, compact) = (c.head.source, form == Some(false));
                self.counter_records(c.records(), c.record_count, &raw, source, compact);
            }
            Ok(Sample::Discard(x)) => {
                self.source(x.head.source, x.head.sequence, &raw, None);
                if self.follow == Follow::Sequences {
                    self.streams
                        .discard(&mut self.cx, self.d, &x.head, raw.offset);
                }
                self.discard(x.head.reason, [x.head.input, x.head.output], raw.offset);
                self.flow_records(x.records(), x.record_count, &raw);
            }
        }
    }

    /// What all kinds of sample have: a source with a form and an owner.
    fn source(&mut self, source: DataSource, number: u32, raw: &RawRecord<'_>, form: Option<bool>) {
        let at = raw.offset + 4;
        self.cx.at.source = Some((source, number));
        self.cx.at.offset = at;
        if source.class > 3 {
            self.cx
                .find(Rule::SourceClass, at, format_args!("{source}"));
        }
        let discard = raw.tag == sample_tag::DISCARD;
        if source == DataSource::AGENT && !discard {
            self.cx.find(Rule::SourceZero, at, format_args!(""));
        }
        if self.follow == Follow::Sequences {
            self.cx.at.offset = at;
            self.streams.site(&mut self.cx, self.d, source, form);
        }
    }

    fn flow(&mut self, f: &FlowSample<'d>, raw: &RawRecord<'d>, expanded: bool) {
        let h = &f.head;
        let at = raw.offset + if expanded { 12 } else { 8 };
        if h.rate == 0 {
            self.cx.find(Rule::RateZero, at, format_args!(""));
        }
        let width = if expanded { 8 } else { 4 };
        self.interface(h.input, at + 12, true, expanded);
        self.interface(h.output, at + 12 + width, false, expanded);
        let here = |i: Interface| i.if_index() == Some(h.source.index);
        let told = |i: Interface| i.if_index().is_some();
        let elsewhere = told(h.input) && !here(h.input) && !here(h.output);
        if h.source.class == 0 && h.source.index != 0 && elsewhere {
            self.cx.find(
                Rule::SourceNotOnPath,
                at + 12,
                format_args!(
                    "from {} to {}:{}",
                    h.input.value, h.output.format, h.output.value
                ),
            );
        }
        if self.follow == Follow::Sequences {
            self.streams.flow(&mut self.cx, self.d, h, raw.offset);
        }
        let told = self.flow_records(f.records(), f.record_count, raw);
        if h.source.class == 0 && f.record_count > 0 && !told.packet {
            self.cx.find(Rule::NoPacket, raw.offset, format_args!(""));
        }
        if h.source.class == 0 && self.follow == Follow::Sequences {
            self.cx.at.offset = raw.offset;
            self.streams
                .switch_record(&mut self.cx, self.d, h.source, told.switch);
        }
    }

    fn interface(&mut self, i: Interface, at: usize, input: bool, expanded: bool) {
        match i.kind() {
            InterfaceKind::Undefined(v) => {
                self.cx
                    .find(Rule::InterfaceFormat, at, format_args!("{}:{v}", i.format));
            }
            InterfaceKind::Discarded(_) | InterfaceKind::Multiple(_) if input => {
                self.cx.find(
                    Rule::InputFormat,
                    at,
                    format_args!("{}:{}", i.format, i.value),
                );
            }
            InterfaceKind::Discarded(code) if reason::name(code).is_none() => {
                self.cx.find(Rule::DropCode, at, format_args!("{code}"));
            }
            InterfaceKind::Internal if i.value != INTERNAL => {
                self.cx.find(Rule::InternalForm, at, format_args!(""));
            }
            InterfaceKind::Index(n) if !expanded && n >= LARGE => {
                self.cx
                    .find(Rule::CompactLargeIndex, at, format_args!("ifIndex {n}"));
            }
            _ => {}
        }
    }

    fn discard(&mut self, code: u32, interfaces: [u32; 2], at: usize) {
        if code == reason::UNKNOWN {
            self.cx
                .find(Rule::DiscardUnknown, at + 24, format_args!(""));
        } else if reason::name(code).is_none() {
            self.cx
                .find(Rule::DiscardReason, at + 24, format_args!("{code}"));
        }
        for (i, value) in interfaces.into_iter().enumerate() {
            if value > INTERNAL && value != u32::MAX {
                self.cx.find(
                    Rule::DiscardIfIndex,
                    at + 16 + 4 * i,
                    format_args!("{value:#010x}"),
                );
            }
        }
    }

    fn flow_records(&mut self, list: Records<'d>, count: u32, sample: &RawRecord<'_>) -> Told {
        let mut told = Told::default();
        self.records(list, count, sample, |walk, raw| {
            records::flow(&mut walk.cx, raw, &mut walk.scratch.bytes, &mut told);
        });
        told
    }

    fn counter_records(
        &mut self,
        list: Records<'d>,
        count: u32,
        sample: &RawRecord<'_>,
        source: DataSource,
        compact: bool,
    ) {
        self.records(list, count, sample, |walk, raw| {
            records::counter(&mut walk.cx, raw, &mut walk.scratch.bytes, source, compact);
            if walk.follow == Follow::Sequences {
                walk.streams.counter_record(
                    &mut walk.cx,
                    walk.d,
                    source,
                    raw.tag,
                    raw.body,
                    raw.offset,
                );
            }
        });
    }

    /// Walks the records of a sample and hands each to `check`.
    fn records(
        &mut self,
        list: Records<'d>,
        count: u32,
        sample: &RawRecord<'_>,
        mut check: impl FnMut(&mut Self, &RawRecord<'d>),
    ) {
        let limit = sample.offset + sample.body.len();
        if count == 0 {
            self.cx
                .find(Rule::SampleEmpty, sample.offset, format_args!(""));
        }
        self.scratch.tags.clear();
        let mut end = None;
        for raw in list {
            let raw = match raw {
                Ok(r) => r,
                Err(e) => {
                    self.frame_error(e, Rule::RecordCount, Rule::RecordLength);
                    return;
                }
            };
            self.cx.at.record = Some(raw.tag);
            end = Some(self.frame(&raw, limit));
            if self.scratch.tags.contains(&raw.tag) {
                self.cx
                    .find(Rule::RecordDuplicate, raw.offset, format_args!(""));
            } else if self.scratch.tags.len() < 64 {
                self.scratch.tags.push(raw.tag);
            }
            check(self, &raw);
            self.cx.at.record = None;
        }
        if let Some(end) = end.filter(|e| *e < limit) {
            self.cx.find(
                Rule::SampleTrailing,
                end,
                format_args!("{} bytes", limit - end),
            );
        }
    }
}
