//! Fuzzes received datagrams: both decoders, every printer, the tracker of losses, and sending again what was decoded.
#![no_main]

use libfuzzer_sys::fuzz_target;
use parshall_fuzz::{heap, properties};
use parshall_sflow_wire::Tag;
use parshall_sflow_wire::print::{Format, Printer, RecordFilter, Selection};

#[global_allocator]
static METER: heap::Meter = heap::Meter;

fuzz_target!(|data: &[u8]| {
    properties::check(data);
    let selection = Selection {
        agent: None,
        records: vec![RecordFilter::Counter, RecordFilter::Tag(Tag::new(0, 1))],
    };
    for format in [
        Format::Text,
        Format::Csv,
        Format::Fields("agent,srcIP,adaptor_0_ifIndex".to_owned()),
        Format::CompatJson { indented: false },
        Format::Packets,
    ] {
        let mut printer = Printer::new(&format, selection.clone());
        let _ = printer.print(&properties::META, data, &mut Vec::new());
    }
    let mut json = Vec::new();
    let mut printer = Printer::new(&Format::Json { indented: false }, selection);
    if printer.print(&properties::META, data, &mut json) != Ok(false) {
        serde_json::from_slice::<serde_json::Value>(&json).expect("valid JSON");
    }
});
