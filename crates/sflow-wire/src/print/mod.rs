//! Prints datagrams: text, lines for grep, CSV, chosen columns, JSON, or the sampled packets as a capture file.
//!
//! Two readers stand behind the formats. The *compatible* one (`walk.rs`) prints byte for byte what sflowtool 6.11 prints, its mistakes included:
//! text, CSV, columns and the compatible JSON. The *typed* one (`json.rs`) decodes within bounds, goes on after a bad record and writes valid JSON
//! with numbers as numbers. Both append to a buffer that the caller reuses; for datagrams of the usual kind they allocate nothing.

mod csv;
mod cursor;
mod fields;
mod header;
mod joined;
mod json;
mod json_packet;
mod json_records;
mod json_writer;
mod old;
mod packets;
mod rt;
mod sink;
mod value;
mod walk;

use core::net::IpAddr;

pub use walk::Fault;

use self::json_writer::Json;
use self::sink::{CompatJson, Fields, Grep, Sink, Text};
use self::walk::Walker;
use crate::datagram::{Datagram, RawRecord, Sample};
use crate::types::{Address, Tag};

/// A point in time, with the offset of local time at that moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stamp {
    /// Seconds since 1970-01-01 UTC.
    pub seconds: u32,
    /// Microseconds after that.
    pub micros: u32,
    /// Seconds east of UTC, for the times that are shown as local.
    pub utc_offset: i32,
}

/// What is known about a datagram besides its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meta {
    /// Who sent it; not known for captured datagrams.
    pub source: Address,
    /// When it was received; zero for captured datagrams.
    pub read_time: Stamp,
    /// When it was captured.
    pub capture_time: Option<Stamp>,
}

/// The form of the output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Format {
    /// A key and a value per line, as sflowtool prints by default.
    Text,
    /// The same with time, agent, sub-agent, sequence, source and tags in front of each line (`sflowtool -g`).
    Grep,
    /// A line per flow or counter sample (`sflowtool -l`).
    Csv,
    /// These keys as columns, a line per sample (`sflowtool -L`).
    Fields(String),
    /// sflowtool's JSON byte for byte (`-j`, or `-J` if indented): all values strings, nothing escaped.
    CompatJson {
        /// One key per line.
        indented: bool,
    },
    /// Valid JSON with numbers as numbers, one object per datagram and line unless indented.
    Json {
        /// One member per line.
        indented: bool,
    },
    /// The sampled packets as a pcap file; [`Printer::begin`] writes its head.
    Packets,
    /// Nothing: for those who only count.
    Nothing,
}

/// Which datagrams, samples and records to show.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selection {
    /// Only datagrams of an agent within this address prefix.
    pub agent: Option<(IpAddr, u8)>,
    /// Only these kinds; everything if empty.
    pub records: Vec<RecordFilter>,
}

/// A kind of sample or record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordFilter {
    /// Flow samples.
    Flow,
    /// Counter samples.
    Counter,
    /// Discarded packet samples.
    Discard,
    /// Samples that contain this record, of which only it; or samples of this tag.
    Tag(Tag),
}

impl Selection {
    /// Says whether every sample of a selected datagram is shown whole.
    pub const fn takes_all(&self) -> bool {
        self.records.is_empty()
    }

    /// Says whether a datagram of this agent is shown.
    pub fn takes_agent(&self, agent: Address) -> bool {
        let Some((prefix, len)) = self.agent else {
            return true;
        };
        match (prefix, agent) {
            (IpAddr::V4(p), Address::V4(a)) => {
                same_prefix(u32::from(p).into(), u32::from(a).into(), 32, len)
            }
            (IpAddr::V6(p), Address::V6(a)) => same_prefix(p.into(), a.into(), 128, len),
            _ => false,
        }
    }

    /// Says whether any of a sample is shown.
    pub fn takes_sample(&self, tag: Tag, body: &[u8]) -> bool {
        let raw = RawRecord {
            tag,
            body,
            offset: 0,
        };
        self.records.is_empty()
            || self.records.iter().any(|f| match f {
                RecordFilter::Tag(t) if *t == tag => true,
                RecordFilter::Tag(t) => contains(raw, *t),
                _ => f.is_kind_of(tag),
            })
    }

    /// Says whether a record of a shown sample is shown.
    pub fn takes_record(&self, tag: Tag) -> bool {
        let mut only_records = false;
        for filter in &self.records {
            match filter {
                RecordFilter::Tag(t) if *t == tag => return true,
                RecordFilter::Tag(_) => only_records = true,
                // A whole kind was asked for; which sample this is has been decided already.
                _ => return true,
            }
        }
        !only_records
    }
}

impl RecordFilter {
    fn is_kind_of(self, sample: Tag) -> bool {
        match self {
            RecordFilter::Flow => matches!(sample.0, 1 | 3),
            RecordFilter::Counter => matches!(sample.0, 2 | 4),
            RecordFilter::Discard => sample.0 == 5,
            RecordFilter::Tag(t) => t == sample,
        }
    }
}

fn contains(raw: RawRecord<'_>, tag: Tag) -> bool {
    let mut records = match Sample::parse(raw) {
        Ok(Sample::Flow(s)) => s.records(),
        Ok(Sample::Counters(s)) => s.records(),
        Ok(Sample::Discard(s)) => s.records(),
        Ok(Sample::Other(_)) | Err(_) => return false,
    };
    records.any(|r| r.is_ok_and(|r| r.tag == tag))
}

fn same_prefix(a: u128, b: u128, bits: u32, len: u8) -> bool {
    let rest = bits.saturating_sub(u32::from(len));
    (a ^ b).checked_shr(rest).unwrap_or(0) == 0
}

/// Prints datagrams in one form.
#[derive(Debug)]
pub struct Printer {
    form: Form,
    selection: Selection,
    scratch: Vec<u8>,
}

#[derive(Debug)]
enum Form {
    Text(Text),
    Grep(Grep),
    Csv(csv::Csv),
    Fields(Fields),
    CompatJson(CompatJson),
    Json(Json),
    Packets,
    Nothing,
}

impl Printer {
    /// A printer of this form for what the selection takes.
    pub fn new(format: &Format, selection: Selection) -> Self {
        let form = match format {
            Format::Text => Form::Text(Text::default()),
            Format::Grep => Form::Grep(Grep::default()),
            Format::Csv => Form::Csv(csv::Csv::default()),
            Format::Fields(list) => Form::Fields(Fields::new(list)),
            Format::CompatJson { indented } => Form::CompatJson(CompatJson::new(*indented)),
            Format::Json { indented } => Form::Json(Json::new(*indented)),
            Format::Packets => Form::Packets,
            Format::Nothing => Form::Nothing,
        };
        Printer {
            form,
            selection,
            scratch: Vec::new(),
        }
    }

    /// Appends what stands before the first datagram. Of several printers with one output, one must do it.
    pub fn begin(&self, out: &mut Vec<u8>) {
        if matches!(self.form, Form::Packets) {
            packets::put_file_header(out);
        }
    }

    /// Appends what the form shows of a datagram. A fault says what was left out and why; the output is complete as far as it goes.
    ///
    /// Says whether the datagram was selected.
    pub fn print(
        &mut self,
        meta: &Meta,
        datagram: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<bool, Fault> {
        if !self.selects(datagram) {
            return Ok(false);
        }
        let scratch = &mut self.scratch;
        let selection = &self.selection;
        match &mut self.form {
            Form::Text(s) => walk(s, selection, scratch, meta, datagram, out),
            Form::Grep(s) => walk(s, selection, scratch, meta, datagram, out),
            Form::Csv(s) => walk(s, selection, scratch, meta, datagram, out),
            Form::Fields(s) => walk(s, selection, scratch, meta, datagram, out),
            Form::CompatJson(s) => walk(s, selection, scratch, meta, datagram, out),
            Form::Json(json) => {
                core::mem::swap(&mut json.out, out);
                let error = json::datagram(json, selection, meta, datagram);
                core::mem::swap(&mut json.out, out);
                error.map_or(Ok(()), |e| Err(Fault::Decode(e)))
            }
            Form::Packets => packets::datagram(selection, meta, datagram, out)
                .map_or(Ok(()), |e| Err(Fault::Decode(e))),
            Form::Nothing => Ok(()),
        }?;
        Ok(true)
    }

    /// Says whether anything of the datagram is to be shown. What cannot be judged is shown, unless it was asked for by its properties.
    fn selects(&self, bytes: &[u8]) -> bool {
        if self.selection.agent.is_none() && self.selection.takes_all() {
            return true;
        }
        let Ok(datagram) = Datagram::parse(bytes) else {
            return false;
        };
        self.selection.takes_agent(datagram.agent)
            && (self.selection.takes_all()
                || datagram
                    .raw_samples()
                    .any(|s| s.is_ok_and(|s| self.selection.takes_sample(s.tag, s.body))))
    }
}

fn walk<S: Sink>(
    sink: &mut S,
    selection: &Selection,
    scratch: &mut Vec<u8>,
    meta: &Meta,
    datagram: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), Fault> {
    // The sink writes straight into the caller's buffer.
    core::mem::swap(sink.out(), out);
    let mut walker = Walker::new(datagram, meta, selection, sink, core::mem::take(scratch));
    let result = walker.datagram(meta);
    *scratch = walker.scratch;
    core::mem::swap(sink.out(), out);
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::{CounterSampleHead, DatagramBuilder, DiscardSampleHead};
    use crate::record::arbitrary::Gen;
    use crate::record::{CounterRecord, FlowRecord};
    use crate::types::DataSource;
    use proptest::prelude::*;

    const META: Meta = Meta {
        source: Address::Unknown,
        read_time: Stamp {
            seconds: 1,
            micros: 2,
            utc_offset: 0,
        },
        capture_time: None,
    };

    fn print(format: Format, datagram: &[u8]) -> (Result<bool, Fault>, Vec<u8>) {
        let mut out = Vec::new();
        let result = Printer::new(&format, Selection::default()).print(&META, datagram, &mut out);
        (result, out)
    }

    /// Each made-up record in a datagram of its own.
    fn datagrams(seed: u64) -> Vec<(Tag, Vec<u8>)> {
        let mut g = Gen(seed);
        let mut b = DatagramBuilder::new(60_000);
        let agent = IpAddr::from([192, 0, 2, 1]);
        let mut all = Vec::new();
        for record in FlowRecord::arbitrary_of_each(&mut g) {
            b.begin(agent, 0, 1, 2);
            let head = DiscardSampleHead {
                sequence: 1,
                source: DataSource::AGENT,
                drops: 0,
                input: 1,
                output: 2,
                reason: 258,
            };
            b.push_discard_sample(&head, |w| w.push(&record)).unwrap();
            all.push((record.tag(), b.finish().to_vec()));
        }
        for record in CounterRecord::arbitrary_of_each(&mut g) {
            b.begin(agent, 0, 1, 2);
            let head = CounterSampleHead {
                sequence: 1,
                source: DataSource::HOST,
            };
            b.push_counter_sample_expanded(&head, |w| w.push(&record))
                .unwrap();
            all.push((record.tag(), b.finish().to_vec()));
        }
        all
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn every_record_is_shown(seed: u64) {
            for (tag, datagram) in datagrams(seed) {
                let (result, out) = print(Format::Json { indented: false }, &datagram);
                prop_assert_eq!(result, Ok(true), "{}", tag);
                let json: serde_json::Value = serde_json::from_slice(&out).unwrap();
                let record = &json["samples"][0]["elements"][0];
                prop_assert!(record.get("error").is_none() && record.get("bytes").is_none(), "{}", record);

                // sflowtool gives up at unknown addresses and takes an 802.11 payload for a header record.
                match print(Format::Text, &datagram).0 {
                    Err(Fault::AddressType(0)) => {}
                    other => prop_assert!(other.is_ok() || tag == Tag::new(0, 1013), "{}: {:?}", tag, other),
                }
            }
        }
    }

    #[test]
    fn sampled_packets_are_a_capture_file() {
        let mut b = DatagramBuilder::new(1400);
        b.begin(IpAddr::from([192, 0, 2, 1]), 0, 1, 2);
        let head = |sequence| crate::FlowSampleHead {
            sequence,
            source: DataSource::interface(1),
            rate: 1,
            pool: 1,
            drops: 0,
            input: crate::Interface::index(1),
            output: crate::Interface::UNKNOWN,
        };
        let header = |protocol, bytes| {
            FlowRecord::RawHeader(crate::record::RawHeader {
                protocol,
                frame_length: 1518,
                stripped: 4,
                header: bytes,
            })
        };
        // An Ethernet header, one of IPv4 that such a file cannot hold, and an empty sample.
        for (n, records) in [
            vec![header(1, &[7; 15])],
            vec![header(11, &[8; 20])],
            vec![],
        ]
        .iter()
        .enumerate()
        {
            b.push_flow_sample_expanded(&head(n as u32), |w| {
                records.iter().for_each(|r| w.push(r))
            })
            .unwrap();
        }
        let mut printer = Printer::new(&Format::Packets, Selection::default());
        let mut out = Vec::new();
        printer.begin(&mut out);
        assert_eq!(printer.print(&META, b.finish(), &mut out), Ok(true));
        let mut file = crate::pcap::Capture::open(&out[..]).unwrap();
        let p = file.next_packet().unwrap().unwrap();
        assert_eq!((p.link_type, p.wire_len, p.data), (1, 1514, &[7; 15][..]));
        assert_eq!((p.seconds, p.micros), (1, 2));
        assert!(file.next_packet().unwrap().is_none());
        // What is broken is said; what came before it is there.
        let mut cut = Vec::new();
        assert!(printer.print(&META, &b.finish()[..260], &mut cut).is_err());
        assert_eq!(cut, out[24..]);
    }

    #[test]
    fn prefixes_compare_their_bits() {
        let selection = |prefix: &str, len| Selection {
            agent: Some((prefix.parse().unwrap(), len)),
            records: Vec::new(),
        };
        let agent = Address::from(IpAddr::from([192, 0, 2, 77]));
        assert!(selection("192.0.2.77", 32).takes_agent(agent));
        assert!(!selection("192.0.2.76", 32).takes_agent(agent));
        assert!(selection("192.0.2.64", 26).takes_agent(agent));
        assert!(selection("10.0.0.0", 0).takes_agent(agent));
        assert!(!selection("::", 0).takes_agent(agent));
        assert!(!selection("192.0.2.77", 32).takes_agent(Address::Unknown));
    }
}
