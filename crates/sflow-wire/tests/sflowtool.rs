//! The compatible formats equal what sflowtool 6.11 printed for the two captures in `tests/data`, byte for byte.
//!
//! `sflow-records.pcap` has nearly every record, `sflow-edge.pcap` edge cases and malformed datagrams. The recorded outputs were made with
//! `TZ=UTC sflowtool -r FILE` and the option of each test.

use parshall_sflow_wire::pcap::{Capture, find_udp};
use parshall_sflow_wire::print::{Format, Meta, Printer, Selection, Stamp};
use parshall_sflow_wire::types::Address;

fn print(capture: &[u8], format: Format) -> Vec<u8> {
    let mut capture = Capture::open(capture).expect("a capture");
    let mut printer = Printer::new(&format, Selection::default());
    let mut out = Vec::new();
    while let Some(packet) = capture.next_packet().expect("a whole capture") {
        let udp = find_udp(packet.link_type, packet.data).expect("a UDP datagram");
        let meta = Meta {
            source: Address::Unknown,
            read_time: Stamp::default(),
            capture_time: Some(Stamp {
                seconds: packet.seconds,
                micros: packet.micros,
                utc_offset: 0,
            }),
        };
        // Malformed datagrams are part of the test; what matters is the output up to the fault.
        let _ = printer.print(&meta, udp.to_end, &mut out);
    }
    out
}

fn check(got: &[u8], want: &[u8]) {
    let line = |bytes: &[u8], n| {
        let text = String::from_utf8_lossy(bytes).into_owned();
        text.lines().nth(n).unwrap_or("(end)").to_owned()
    };
    if got != want {
        let same = got
            .split(|b| *b == b'\n')
            .zip(want.split(|b| *b == b'\n'))
            .take_while(|(a, b)| a == b)
            .count();
        panic!(
            "line {} differs\n got: {}\nwant: {}",
            same + 1,
            line(got, same),
            line(want, same)
        );
    }
}

macro_rules! oracle {
    ($name:ident, $format:expr, $ext:literal) => {
        #[test]
        fn $name() {
            check(
                &print(include_bytes!("data/sflow-records.pcap"), $format),
                include_bytes!(concat!("data/sflow-records.", $ext)),
            );
            check(
                &print(include_bytes!("data/sflow-edge.pcap"), $format),
                include_bytes!(concat!("data/sflow-edge.", $ext)),
            );
        }
    };
}

oracle!(text, Format::Text, "txt");
oracle!(grep, Format::Grep, "grep");
oracle!(csv, Format::Csv, "csv");
oracle!(json, Format::CompatJson { indented: false }, "json");
oracle!(pretty_json, Format::CompatJson { indented: true }, "pretty");
oracle!(
    fields,
    Format::Fields(
        "agent,packetSequenceNo,srcIP,ifName,nio_bytes_in,discarded_srcIP,rtmetric_gauge32_m1,adaptor_1_MAC_1"
            .to_owned()
    ),
    "fields"
);
