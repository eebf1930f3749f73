//! Fuzzes received datagrams: the lazy decoder, every printer, the tracker of losses, and encoding what was decoded.
//!
//! The typed JSON must be valid whatever comes in. A record that decodes must encode to bytes that decode to bytes equal to those again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use parshall_sflow_wire::print::{Format, Meta, Printer, RecordFilter, Selection, Stamp};
use parshall_sflow_wire::{Address, CounterRecord, Datagram, FlowRecord, Sample, Tag, Tracker};

const META: Meta = Meta {
    source: Address::Unknown,
    read_time: Stamp {
        seconds: 1_700_000_000,
        micros: 1,
        utc_offset: 3600,
    },
    capture_time: None,
};

fuzz_target!(|data: &[u8]| {
    let formats = [
        Format::Text,
        Format::Grep,
        Format::Csv,
        Format::Fields("agent,srcIP,adaptor_0_ifIndex".to_owned()),
        Format::CompatJson { indented: false },
        Format::CompatJson { indented: true },
        Format::Packets,
    ];
    let selections = [
        Selection::default(),
        Selection {
            agent: None,
            records: vec![RecordFilter::Counter, RecordFilter::Tag(Tag::new(0, 1))],
        },
    ];
    for selection in &selections {
        for format in &formats {
            let _ = Printer::new(format, selection.clone()).print(&META, data, &mut Vec::new());
        }
        check_json(data, selection);
    }
    if let Ok(datagram) = Datagram::parse(data) {
        let mut tracker = Tracker::new(1);
        tracker.observe(&datagram);
        tracker.observe(&datagram);
        assert_eq!(tracker.agents()[0].datagrams.duplicates, 1);
        datagram.samples().flatten().for_each(check_sample);
    }
});

fn check_json(data: &[u8], selection: &Selection) {
    let mut json = Vec::new();
    let format = Format::Json { indented: false };
    let shown = Printer::new(&format, selection.clone()).print(&META, data, &mut json);
    if shown != Ok(false) {
        serde_json::from_slice::<serde_json::Value>(&json).expect("valid JSON");
    }
}

fn check_sample(sample: Sample<'_>) {
    match sample {
        Sample::Flow(s) => s.flow_records().flatten().for_each(|r| check_flow(&r)),
        Sample::Discard(s) => s.flow_records().flatten().for_each(|r| check_flow(&r)),
        Sample::Counters(s) => s
            .counter_records()
            .flatten()
            .for_each(|r| check_counter(&r)),
        Sample::Other(_) => {}
    }
}

fn check_flow(record: &FlowRecord<'_>) {
    let mut once = Vec::new();
    record.write_body(&mut once);
    let again = FlowRecord::decode(record.tag(), &once, 0).expect("what was encoded decodes");
    let mut twice = Vec::new();
    again.write_body(&mut twice);
    assert_eq!(once, twice);
}

fn check_counter(record: &CounterRecord<'_>) {
    let mut once = Vec::new();
    record.write_body(&mut once);
    let again = CounterRecord::decode(record.tag(), &once, 0).expect("what was encoded decodes");
    let mut twice = Vec::new();
    again.write_body(&mut twice);
    assert_eq!(once, twice);
}
