//! What holds for every datagram, however bad.
//!
//! There are two readers of a datagram: the one within bounds (`Datagram`, on which the typed JSON, the tracker and the capture file stand) and the
//! one that does as sflowtool does (text, CSV, columns). Where both get through, they have to have seen the same.

use parshall_sflow_wire::dissect::dissect;
use parshall_sflow_wire::print::{Format, Meta, Printer, Selection, Stamp};
use parshall_sflow_wire::{
    Address, CounterRecord, Datagram, DatagramBuilder, Faults, FlowRecord, RawRecord, Sample,
    SampleToSend, Tag, Tracker,
};
use serde_json::Value;

use crate::heap::taken;

/// As a datagram of the network.
pub const META: Meta = Meta {
    source: Address::Unknown,
    read_time: Stamp {
        seconds: 1_700_000_000,
        micros: 1,
        utc_offset: 3600,
    },
    capture_time: None,
};

/// Checks all of them.
pub fn check(data: &[u8]) {
    let seen = walk(data);
    the_typed_form_shows_what_was_walked(data, &seen);
    the_compatible_form_saw_the_same(data, &seen);
    the_tracker_counts_them(data, &seen);
    what_was_decoded_can_be_sent(data);
}

/// What the walk within bounds found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Of each sample that could be framed and read: its tag, number, source, and the tags of its records.
    samples: Vec<(Tag, Option<(u32, u32, u32)>, Vec<Tag>)>,
    flow_samples: u64,
    /// Faults in the order of [`Faults`]: all, of samples' frames and heads, of records.
    faults: u64,
    bad_samples: u64,
    header_ok: bool,
    /// The length of some sample is not one of whole words.
    odd: bool,
}

/// Walks a datagram, every record and every sampled header of it, without taking memory for that.
pub fn walk(data: &[u8]) -> Seen {
    let (read, bytes) = taken(|| {
        let mut records = 0u64;
        let each = |r: Result<RawRecord<'_>, _>, flow: bool| {
            let Ok(r) = r else { return };
            if flow {
                if let Ok(FlowRecord::RawHeader(h)) = r.flow() {
                    let packet = dissect(h.protocol, h.header);
                    assert!(packet.ip.is_none_or(|ip| ip.offset < h.header.len()));
                }
            } else {
                let _ = r.counter();
            }
        };
        if let Ok(d) = Datagram::parse(data) {
            for s in d.samples().flatten() {
                let (list, flow) = match s {
                    Sample::Flow(s) => (s.records(), true),
                    Sample::Discard(s) => (s.records(), true),
                    Sample::Counters(s) => (s.records(), false),
                    Sample::Other(_) => continue,
                };
                for r in list {
                    records += 1;
                    each(r, flow);
                }
            }
        }
        records
    });
    assert_eq!(bytes, 0, "decoding takes no memory");
    assert!(read <= data.len() as u64 / 8 + 6, "{read} records");
    collect(data)
}

fn collect(data: &[u8]) -> Seen {
    let mut seen = Seen::default();
    let mut faults = Faults::default();
    seen.faults = faults.observe(data);
    assert_eq!(seen.faults, faults.total());
    let Ok(d) = Datagram::parse(data) else {
        assert_eq!(seen.faults, 1);
        return seen;
    };
    seen.header_ok = true;
    for raw in d.raw_samples() {
        let parsed = raw.and_then(Sample::parse);
        seen.odd |= raw.is_ok_and(|r| r.body.len() % 4 != 0);
        let (Ok(raw), Ok(sample)) = (raw, parsed) else {
            seen.bad_samples += 1;
            continue;
        };
        let tags = |list: parshall_sflow_wire::Records<'_>| list.flatten().map(|r| r.tag).collect();
        let (id, records) = match sample {
            Sample::Flow(s) => {
                seen.flow_samples += 1;
                let h = s.head;
                (
                    Some((h.sequence, h.source.class, h.source.index)),
                    tags(s.records()),
                )
            }
            Sample::Discard(s) => {
                let h = s.head;
                (
                    Some((h.sequence, h.source.class, h.source.index)),
                    tags(s.records()),
                )
            }
            Sample::Counters(s) => {
                let h = s.head;
                (
                    Some((h.sequence, h.source.class, h.source.index)),
                    tags(s.records()),
                )
            }
            Sample::Other(_) => (None, Vec::new()),
        };
        seen.samples.push((raw.tag, id, records));
    }
    seen
}

/// Prints, in memory that is bounded by the size of what is printed.
fn print(format: Format, data: &[u8]) -> (bool, Vec<u8>) {
    let mut out = Vec::new();
    let mut printer = Printer::new(&format, Selection::default());
    let (result, bytes) = taken(|| printer.print(&META, data, &mut out));
    // The output doubles as it grows; beside it there is scratch space for one value.
    assert!(
        bytes <= 4 * out.len() + 16 * data.len() + 4096,
        "{format:?} takes {bytes} bytes for {} of {}",
        out.len(),
        data.len()
    );
    (result.is_ok(), out)
}

fn the_typed_form_shows_what_was_walked(data: &[u8], seen: &Seen) {
    let (sound, out) = print(Format::Json { indented: false }, data);
    let json: Value = serde_json::from_slice(&out).expect("valid JSON");
    assert_eq!(json.get("error").is_none(), seen.header_ok);
    if !seen.header_ok {
        return;
    }
    let samples = json["samples"].as_array().expect("samples");
    assert_eq!(
        samples.len() as u64,
        seen.samples.len() as u64 + seen.bad_samples
    );
    let mut errors = 0;
    for s in samples {
        let elements = s["elements"].as_array().map_or(&[][..], Vec::as_slice);
        // InMon's real-time samples are decoded by the printer alone.
        let real_time = s["sampleType"]
            .as_str()
            .is_some_and(|t| t.starts_with("RT"));
        errors += u64::from(s.get("error").is_some() && !real_time);
        errors += elements.iter().filter(|e| e.get("error").is_some()).count() as u64;
        if real_time && s.get("error").is_some() {
            assert!(!sound);
        }
    }
    assert_eq!(errors, seen.faults, "{json}");
    assert!(sound || errors > 0 || json.to_string().contains("\"error\""));
    let mut good = samples.iter().filter(|s| s["sampleSequenceNo"].is_u64());
    for (tag, id, records) in &seen.samples {
        let Some((sequence, class, index)) = id else {
            continue;
        };
        let s = good.next().expect("as many samples");
        assert_eq!(s["sampleType_tag"], tag.to_string());
        assert_eq!(s["sampleSequenceNo"], *sequence);
        assert_eq!(s["sourceId"], format!("{class}:{index}"));
        let key = if matches!(tag.0, 2 | 4) {
            "counterBlock_tag"
        } else {
            "flowBlock_tag"
        };
        let elements = s["elements"].as_array().expect("elements");
        let shown = elements.iter().filter_map(|e| e.get(key)?.as_str());
        assert!(shown.eq(records.iter().map(Tag::to_string)), "{s}");
    }
}

/// sflowtool's way gives up at the first fault. If it does not, it has seen the same samples with the same records.
fn the_compatible_form_saw_the_same(data: &[u8], seen: &Seen) {
    for format in [
        Format::Text,
        Format::Grep,
        Format::Csv,
        Format::CompatJson { indented: false },
        Format::CompatJson { indented: true },
    ] {
        print(format, data);
    }
    let keys = "sampleType_tag,sampleSequenceNo,sourceId";
    let (sound, out) = print(Format::Fields(keys.to_owned()), data);
    let version = data.first_chunk() == Some(&[0, 0, 0, 5]);
    if !sound || !version {
        return;
    }
    // sflowtool rounds a length up before it looks whether a sample fits it; within bounds, the last word is cut then.
    if seen.bad_samples > 0 && seen.odd {
        return;
    }
    assert_eq!(seen.bad_samples, 0, "{seen:?} {data:02x?}");
    let text = String::from_utf8(out).expect("numbers");
    // Samples of other kinds have a line with their tag alone.
    let mut lines = text.lines().filter(|l| !l.ends_with(",,"));
    for (tag, id, _) in &seen.samples {
        let Some((sequence, class, index)) = id else {
            continue;
        };
        let want = format!("{tag},{sequence},{class}:{index}");
        assert_eq!(lines.next(), Some(&want[..]), "{text}");
    }
    assert_eq!(lines.next(), None);
    the_values_are_the_same(data, seen);
}

/// Numbers that both forms have in the same notation. Those of one sample; of several records of a tag, the last.
const KEYS: [&str; 16] = [
    "meanSkipCount",
    "samplePool",
    "dropEvents",
    "headerProtocol",
    "headerLen",
    "strippedBytes",
    "in_vlan",
    "out_vlan",
    "ifIndex",
    "ifSpeed",
    "ifInOctets",
    "ifOutErrors",
    "cpu_num",
    "mem_total",
    "nio_bytes_out",
    "transit_delay",
];

fn the_values_are_the_same(data: &[u8], seen: &Seen) {
    if seen.faults > 0 {
        return;
    }
    let (_, json) = print(Format::Json { indented: false }, data);
    let json: Value = serde_json::from_slice(&json).expect("valid JSON");
    let (_, out) = print(Format::Fields(KEYS.join(",")), data);
    let text = String::from_utf8(out).expect("numbers");
    let mut lines = text.lines();
    for sample in json["samples"].as_array().expect("samples") {
        let value = |key: &&str| {
            // The keys of a dropped packet's records have a prefix in the one form.
            let elements = match sample["elements"].as_array() {
                Some(all) if sample["sampleType"] != "DISCARD" => &all[..],
                _ => &[],
            };
            let last = elements.iter().rev().find_map(|e| e.get(key));
            last.or(sample.get(key))
                .map_or(String::new(), Value::to_string)
        };
        let row: Vec<String> = KEYS.iter().map(value).collect();
        if row.iter().any(|v| !v.is_empty()) {
            assert_eq!(lines.next(), Some(&row.join(",")[..]), "{sample}");
        }
    }
    assert_eq!(lines.next(), None);
}

fn the_tracker_counts_them(data: &[u8], seen: &Seen) {
    let Ok(d) = Datagram::parse(data) else {
        return;
    };
    let mut tracker = Tracker::new(1);
    tracker.observe(&d);
    let agent = &tracker.agents()[0];
    let samples = agent.flow.samples;
    assert_eq!(samples.received + samples.duplicates, seen.flow_samples);
    tracker.observe(&d);
    assert_eq!(tracker.agents()[0].datagrams.duplicates, 1);
}

/// A record that decodes is written as bytes that decode to the same bytes again; a whole sample likewise.
fn what_was_decoded_can_be_sent(data: &[u8]) {
    let Ok(d) = Datagram::parse(data) else {
        return;
    };
    let mut b = DatagramBuilder::new(1 << 20);
    let mut again = DatagramBuilder::new(1 << 20);
    let agent = [192, 0, 2, 1].into();
    b.begin(agent, 0, 1, 1);
    again.begin(agent, 0, 1, 1);
    for sample in d.samples().flatten() {
        send(&mut b, &sample);
    }
    let once = b.finish();
    let d = Datagram::parse(once).expect("what was built is read");
    let mut samples = 0;
    for sample in d.samples() {
        samples += 1;
        send(&mut again, &sample.expect("what was built has no fault"));
    }
    assert_eq!(samples, d.sample_count);
    assert_eq!(Faults::default().observe(once), 0);
    assert_eq!(again.finish(), once);
}

fn send(b: &mut DatagramBuilder, sample: &Sample<'_>) {
    let pushed = match sample {
        Sample::Flow(s) => {
            let records: Vec<FlowRecord<'_>> = s.flow_records().flatten().collect();
            b.try_push(&SampleToSend::Flow(s.head, &records))
        }
        Sample::Discard(s) => {
            let records: Vec<FlowRecord<'_>> = s.flow_records().flatten().collect();
            b.try_push(&SampleToSend::Discard(s.head, &records))
        }
        Sample::Counters(s) => {
            let records: Vec<CounterRecord<'_>> = s.counter_records().flatten().collect();
            b.try_push(&SampleToSend::Counters(s.head, &records))
        }
        Sample::Other(_) => Ok(()),
    };
    pushed.expect("there is room");
}
