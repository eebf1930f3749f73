//! The typed JSON: valid whatever the datagram, right where sflowtool is not, and complete past a bad record.

use std::net::Ipv4Addr;

use parshall_sflow_wire::pcap::{Capture, find_udp};
use parshall_sflow_wire::print::{Format, Meta, Printer, RecordFilter, Selection, Stamp};
use parshall_sflow_wire::record::*;
use parshall_sflow_wire::types::{Address, Tag};
use parshall_sflow_wire::{
    CounterRecord, CounterSampleHead, DataSource, DatagramBuilder, FlowRecord, FlowSampleHead,
    Interface,
};
use proptest::prelude::*;
use serde_json::{Value, json};

const META: Meta = Meta {
    source: Address::V4(Ipv4Addr::new(203, 0, 113, 9)),
    read_time: Stamp {
        seconds: 1_700_000_000,
        micros: 5,
        utc_offset: 0,
    },
    capture_time: None,
};

fn print(format: Format, selection: Selection, datagram: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let _ = Printer::new(&format, selection).print(&META, datagram, &mut out);
    out
}

fn json_of(datagram: &[u8]) -> Value {
    let out = print(
        Format::Json { indented: false },
        Selection::default(),
        datagram,
    );
    serde_json::from_slice(&out).expect("valid JSON")
}

fn captured(file: &[u8]) -> Vec<Vec<u8>> {
    let mut capture = Capture::open(file).expect("a capture");
    let mut all = Vec::new();
    while let Some(p) = capture.next_packet().expect("a whole capture") {
        let udp = find_udp(p.link_type, p.data).expect("a UDP datagram");
        all.push(udp.payload.to_vec());
    }
    all
}

fn records() -> Vec<Vec<u8>> {
    captured(include_bytes!("data/sflow-records.pcap"))
}

fn edge() -> Vec<Vec<u8>> {
    captured(include_bytes!("data/sflow-edge.pcap"))
}

#[test]
fn numbers_are_numbers() {
    let d = json_of(&records()[0]);
    assert_eq!(d["datagramSourceIP"], "203.0.113.9");
    assert_eq!(d["unixSecondsUTC"], 1_700_000_000);
    let s = &d["samples"][0];
    assert_eq!(s["meanSkipCount"], 1000);
    assert_eq!(s["outputPort"], 258);
    assert_eq!(s["outputPortKind"], "dropCode");
    let header = &s["elements"][0];
    assert_eq!(header["decodedVLAN"], 100);
    // The bytes are 1C 46; sflowtool shows 17948.
    assert_eq!(header["IPID"], 0x1C46);
    let gateway = &s["elements"][6];
    assert_eq!(gateway["dst_as_path"], json!([3356, 1299, [64512, 64513]]));
    assert_eq!(gateway["dst_peer_as"], 3356);
    assert_eq!(gateway["BGP_communities"], json!(["65000:1", "65000:2"]));
    let mpls = &s["elements"][9];
    assert_eq!(
        mpls["mpls_input_stack"][1],
        json!({"label":17,"exp":0,"s":1,"ttl":63})
    );
}

#[test]
fn lists_and_unknown_values_have_their_own_types() {
    let all = records();
    let interface = json_of(&all[3]);
    let elements = &interface["samples"][1]["elements"];
    let sfp = elements
        .as_array()
        .unwrap()
        .iter()
        .find(|e| e["counterBlock_tag"] == "0:10")
        .unwrap();
    assert_eq!(sfp["sfp_lanes"][1]["rx_wavelength_nM"], 19);
    let cpu = elements
        .as_array()
        .unwrap()
        .iter()
        .find(|e| e["counterBlock_tag"] == "0:1001")
        .unwrap();
    assert_eq!(
        (&cpu["5s_cpu"], &cpu["1m_cpu"]),
        (&json!(12.34), &Value::Null)
    );
    let host = json_of(&all[4]);
    let adapters = &host["samples"][0]["elements"][1]["adaptor_list"];
    assert_eq!(
        adapters[1]["mac_list"],
        json!(["020000000002", "020000000003"])
    );
}

#[test]
fn records_that_sflowtool_does_not_know_are_decoded() {
    let d = json_of(&records()[1]);
    let elements = d["samples"][0]["elements"].as_array().unwrap();
    let acl = elements
        .iter()
        .find(|e| e["flowBlock_tag"] == "0:1037")
        .unwrap();
    assert_eq!(acl["extendedType"], "acl");
    assert!(acl["acl_name"].is_string());
    let icmp6 = elements
        .iter()
        .find(|e| e["flowBlock_tag"] == "0:1")
        .unwrap();
    assert_eq!(icmp6["ICMPType"], 128);
}

#[test]
fn text_is_escaped() {
    let d = json_of(&edge()[1]);
    assert_eq!(d["samples"][0]["elements"][0]["ifName"], "eth\"0");
}

#[test]
fn decoding_goes_on_after_a_bad_record() {
    // A router record with an unknown next hop, which sflowtool gives up at, and a sample after it.
    let d = json_of(&edge()[4]);
    let samples = d["samples"].as_array().unwrap();
    assert_eq!(samples.len(), 2);
    assert_eq!(samples[0]["elements"][0]["extendedType"], "ROUTER");
    assert!(
        samples[1]["elements"]
            .as_array()
            .is_some_and(|e| !e.is_empty())
    );
    // A header longer than its record.
    let d = json_of(&edge()[8]);
    assert!(
        d["samples"][0]["elements"][0]["error"].is_string() || d["samples"][0]["error"].is_string()
    );
    // A version that is not supported.
    let d = json_of(&edge()[7]);
    assert_eq!(d["error"], "datagram version 4 is not 5 at byte 0");
}

#[test]
fn half_a_tail_is_shown_as_none_and_is_no_error() {
    // Processor record 0:2003 of 17 words, and one of the two that newer revisions add.
    let mut words = vec![5, 1, 0xC000_0201, 0, 1, 1, 1, 2, 92, 1, 7, 1, 2003, 72];
    words.resize(words.len() + 18, 3u32);
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_be_bytes()).collect();
    let record = json_of(&bytes)["samples"][0]["elements"][0].clone();
    assert_eq!(record["cpu_contexts"], 3);
    assert!(record.get("cpu_guest").is_none() && record.get("error").is_none());
    assert_eq!(parshall_sflow_wire::Faults::default().observe(&bytes), 0);
}

fn flow_head() -> FlowSampleHead {
    FlowSampleHead {
        sequence: 1,
        source: DataSource::interface(1),
        rate: 1,
        pool: 1,
        drops: 0,
        input: Interface::index(1),
        output: Interface::INTERNAL,
    }
}

fn two_samples() -> Vec<u8> {
    let mut b = DatagramBuilder::new(1400);
    b.begin("192.0.2.1".parse().unwrap(), 0, 1, 1);
    b.push_flow_sample_expanded(&flow_head(), |r| {
        r.push(&FlowRecord::EgressQueue(EgressQueue { queue: 3 }));
        r.push(&FlowRecord::QueueDepth(QueueDepth { bytes: 9 }));
    })
    .unwrap();
    let head = CounterSampleHead {
        sequence: 1,
        source: DataSource::interface(1),
    };
    b.push_counter_sample_expanded(&head, |r| {
        r.push(&CounterRecord::PortName(PortName {
            name: "eth0".into(),
        }));
    })
    .unwrap();
    b.finish().to_vec()
}

#[test]
fn filters_choose_samples_and_records() {
    let datagram = two_samples();
    let shown = |agent: Option<(&str, u8)>, filters: &[RecordFilter], format: Format| {
        let selection = Selection {
            agent: agent.map(|(a, n)| (a.parse().unwrap(), n)),
            records: filters.to_vec(),
        };
        String::from_utf8(print(format, selection, &datagram)).unwrap()
    };
    for format in [
        Format::Text,
        Format::Json { indented: false },
        Format::CompatJson { indented: false },
    ] {
        let counters = shown(None, &[RecordFilter::Counter], format.clone());
        assert!(counters.contains("ifName") && !counters.contains("FLOWSAMPLE"));
        let depth = shown(
            None,
            &[RecordFilter::Tag(Tag::new(0, 1040))],
            format.clone(),
        );
        assert!(depth.contains("queue_depth_bytes") && !depth.contains("egress_queue_id"));
        assert!(!depth.contains("COUNTERSSAMPLE"));
        assert_eq!(shown(None, &[RecordFilter::Discard], format.clone()), "");
        assert_eq!(shown(Some(("192.0.3.0", 24)), &[], format.clone()), "");
        assert!(shown(Some(("192.0.2.0", 24)), &[], format.clone()).contains("192.0.2.1"));
        assert!(shown(Some(("0.0.0.0", 0)), &[], format.clone()).contains("192.0.2.1"));
        assert_eq!(shown(Some(("::", 0)), &[], format), "");
    }
}

fn formats() -> Vec<Format> {
    vec![
        Format::Text,
        Format::Grep,
        Format::Csv,
        Format::Fields("agent,srcIP,adaptor_0_ifIndex".to_owned()),
        Format::CompatJson { indented: false },
        Format::CompatJson { indented: true },
    ]
}

proptest! {
    #[test]
    fn mutated_datagrams_never_panic_and_stay_valid(
        which in 0usize..16,
        edits in proptest::collection::vec((any::<usize>(), any::<u8>()), 1..8),
        cut in any::<usize>(),
        selective: bool,
    ) {
        let all = [records(), edge()].concat();
        let mut d = all[which % all.len()].clone();
        for (at, with) in edits {
            let at = at % d.len();
            d[at] = with;
        }
        if cut % 4 == 0 {
            d.truncate(cut % d.len());
        }
        let records = if selective { vec![RecordFilter::Flow, RecordFilter::Tag(Tag(1))] } else { vec![] };
        let selection = Selection { agent: None, records };
        for format in formats() {
            print(format, selection.clone(), &d);
        }
        for indented in [false, true] {
            let out = print(Format::Json { indented }, selection.clone(), &d);
            if !out.is_empty() {
                let read: Result<Value, _> = serde_json::from_slice(&out);
                prop_assert!(read.is_ok(), "{:?}: {}", read, String::from_utf8_lossy(&out));
            }
        }
    }

    #[test]
    fn arbitrary_words_never_panic(words in proptest::collection::vec(prop_oneof![0u32..12, 1000u32..1050, 2000u32..2220, any::<u32>()], 0..120)) {
        let mut d: Vec<u8> = [5, 1, 0xC000_0201, 0, 1, 1, 4].iter().chain(&words).flat_map(|w: &u32| w.to_be_bytes()).collect();
        for version in [5, 4, 2] {
            d[3] = version;
            for format in formats() {
                print(format, Selection::default(), &d);
            }
            let out = print(Format::Json { indented: false }, Selection::default(), &d);
            prop_assert!(serde_json::from_slice::<Value>(&out).is_ok());
        }
    }
}

/// Every record of the sFlow documents and of the agents' own that is decoded: enterprise, first and last format.
const FLOW_RECORDS: &[(u32, u32, u32)] = &[
    (0, 1, 4),
    (0, 1001, 1043),
    (0, 2100, 2103),
    (0, 2200, 2207),
    (0, 2209, 2210),
    (4413, 1, 1),
];
const COUNTER_RECORDS: &[(u32, u32, u32)] = &[
    (0, 1, 8),
    (0, 10, 11),
    (0, 1001, 1002),
    (0, 1004, 1005),
    (0, 2000, 2010),
    (0, 2100, 2106),
    (0, 2200, 2207),
    (4413, 1, 3),
    (5703, 1, 1),
];

fn tags(ranges: &[(u32, u32, u32)]) -> Vec<Tag> {
    let each = |(enterprise, first, last): &(u32, u32, u32)| {
        let enterprise = *enterprise;
        (*first..=*last).map(move |format| Tag::new(enterprise, format))
    };
    ranges.iter().flat_map(each).collect()
}

/// Whether a record that is all zeros has something to show: empty names are left out.
fn shows_zeros(info: Option<&RecordInfo>) -> bool {
    let left_out = |i: &field::Item| matches!(i.show, field::Show::Name(_));
    info.is_some_and(|i| !i.layout.items.iter().all(left_out))
}

fn check_shown(tag: Tag, shown: &Value, zeros_show: bool) {
    let members = shown.as_object().unwrap();
    assert!(members.len() > 1 || !zeros_show, "{tag}: {shown}");
    let unknown = members.contains_key("bytes");
    assert!(!unknown && !members.contains_key("error"), "{tag}: {shown}");
}

#[test]
fn every_record_is_decoded() {
    let zeros = [0; 256];
    let shown = |datagram: &[u8]| json_of(datagram)["samples"][0]["elements"][0].clone();
    for tag in tags(FLOW_RECORDS) {
        let record = FlowRecord::decode(tag, &zeros, 0).unwrap();
        assert!(!matches!(record, FlowRecord::Unknown { .. }), "{tag}");
        let shown = shown(&with_flow_records(&[record]));
        assert_eq!(shown["flowBlock_tag"], tag.to_string());
        check_shown(tag, &shown, shows_zeros(FlowRecord::info(tag)));
    }
    for tag in tags(COUNTER_RECORDS) {
        let record = CounterRecord::decode(tag, &zeros, 0).unwrap();
        assert!(!matches!(record, CounterRecord::Unknown { .. }), "{tag}");
        let shown = shown(&with_counter_records(&[record]));
        assert_eq!(shown["counterBlock_tag"], tag.to_string());
        check_shown(tag, &shown, shows_zeros(CounterRecord::info(tag)));
    }
}

fn with_flow_records(records: &[FlowRecord<'_>]) -> Vec<u8> {
    let mut b = DatagramBuilder::new(9000);
    b.begin([192, 0, 2, 1].into(), 0, 1, 1);
    let head = FlowSampleHead {
        sequence: 1,
        source: DataSource::interface(1),
        rate: 1,
        pool: 1,
        drops: 0,
        input: Interface::index(1),
        output: Interface::UNKNOWN,
    };
    b.push_flow_sample_expanded(&head, |w| records.iter().for_each(|r| w.push(r)))
        .unwrap();
    b.finish().to_vec()
}

fn with_counter_records(records: &[CounterRecord<'_>]) -> Vec<u8> {
    let mut b = DatagramBuilder::new(9000);
    b.begin([192, 0, 2, 1].into(), 0, 1, 1);
    let head = CounterSampleHead {
        sequence: 1,
        source: DataSource::interface(1),
    };
    b.push_counter_sample_expanded(&head, |w| records.iter().for_each(|r| w.push(r)))
        .unwrap();
    b.finish().to_vec()
}

#[test]
fn aggregated_frames_show_their_records_and_do_not_nest() {
    let mut vni = Vec::new();
    FlowRecord::VniIngress(VniIngress { vni: 77 }).write_body(&mut vni);
    let records = [
        Framed {
            tag: 1030,
            body: &vni,
        },
        Framed {
            tag: 1016,
            body: &[0; 4],
        },
        // Cut short: the error is its own.
        Framed {
            tag: 1001,
            body: &[0; 4],
        },
    ];
    let pdus = [
        WifiPdu {
            records: List::new(&records),
        },
        WifiPdu {
            records: List::default(),
        },
    ];
    let aggregation = FlowRecord::WifiAggregation(WifiAggregation {
        pdus: List::new(&pdus),
    });
    let d = json_of(&with_flow_records(&[aggregation]));
    let shown = &d["samples"][0]["elements"][0];
    assert_eq!(shown["extendedType"], "wifi_aggregation");
    let elements = &shown["pdus"][0]["elements"];
    assert_eq!(elements[0]["in_VNI"], 77);
    assert_eq!(
        elements[1],
        json!({"flowBlock_tag":"0:1016","length":4,"bytes":"00-00-00-00"})
    );
    assert!(
        elements[2]["error"].is_object() || elements[2]["error"].is_string(),
        "{elements}"
    );
    assert_eq!(shown["pdus"][1]["elements"], json!([]));
}
