//! What is sent is without fault, complete, and what was announced.

use std::collections::{BTreeMap, BTreeSet};
use std::net::UdpSocket;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::Parser;
use parshall_sflow_wire::{Datagram, Sample, Tag};

use super::plan::{Agent, Planned, Told};
use super::{TestArgs, TestError, run_with};
use crate::lint::finding::At;
use crate::lint::{LintOptions, Linter};
use crate::verify::report::{Report, Terms};
use crate::verify::tally::{Place, Tally};

const SECOND: u64 = 1_000_000_000;
const START: u64 = 1_700_000_000 * SECOND;

fn told(unknown: bool) -> Told {
    Told {
        agent: [192, 0, 2, 99].into(),
        sub_agent: 1,
        rate: 1000,
        unknown,
    }
}

/// Rounds of a second each, with the time of each datagram.
fn rounds(n: u32, unknown: bool) -> Vec<(u64, Planned)> {
    let mut agent = Agent::new(told(unknown));
    (0..n)
        .flat_map(|r| {
            let at = START + u64::from(r) * SECOND;
            let all = agent.round(1000 * r, at);
            all.into_iter().map(move |d| (at, d)).collect::<Vec<_>>()
        })
        .collect()
}

fn found(list: &[(u64, Planned)]) -> BTreeMap<&'static str, u64> {
    let mut l = Linter::new(LintOptions::default());
    for (at, d) in list {
        let at = At {
            time_ns: Some(*at),
            ..At::default()
        };
        l.datagram(&at, false, &d.bytes);
    }
    l.finish();
    let all = l.findings().counts();
    all.map(|(r, n)| (r.info().id, n)).collect()
}

#[test]
fn what_is_sent_is_clean_but_for_what_is_meant_to_be_unknown() {
    let list = rounds(30, false);
    assert_eq!(found(&list), BTreeMap::new());
    assert!(list.iter().all(|(_, d)| d.bytes.len() <= 1400));
    assert_eq!(
        found(&rounds(30, true)),
        BTreeMap::from([("record-unknown", 30)])
    );
}

#[test]
fn every_record_that_our_agent_sends_is_there() {
    let (mut flow, mut counter, mut samples) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for (_, d) in rounds(1, false) {
        for raw in Datagram::parse(&d.bytes).unwrap().raw_samples() {
            let raw = raw.unwrap();
            samples.insert(raw.tag);
            match Sample::parse(raw).unwrap() {
                Sample::Flow(f) => flow.extend(f.records().map(|r| r.unwrap().tag)),
                Sample::Discard(x) => flow.extend(x.records().map(|r| r.unwrap().tag)),
                Sample::Counters(c) => counter.extend(c.records().map(|r| r.unwrap().tag)),
                Sample::Other(_) => panic!("{}", raw.tag),
            }
        }
    }
    let tags = |list: &[u32]| {
        list.iter()
            .map(|f| Tag::new(0, *f))
            .collect::<BTreeSet<_>>()
    };
    assert_eq!(samples, tags(&[3, 4, 5]));
    assert_eq!(
        flow,
        tags(&[
            1, 1001, 1002, 1003, 1006, 1007, 1012, 1020, 1027, 1028, 1029, 1030, 1036, 1037, 1038,
            1039, 1040, 1041, 1043
        ])
    );
    assert_eq!(
        counter,
        tags(&[
            1, 2, 5, 7, 10, 1001, 1005, 2000, 2001, 2003, 2004, 2005, 2006, 2007, 2008, 2009, 2010,
            2203
        ])
    );
}

#[test]
fn samples_and_counters_agree_to_the_byte() {
    let mut t = Tally::default();
    for (at, d) in rounds(10, true) {
        t.datagram(at, &d.bytes, &|_| Place::Inside);
    }
    let terms = Terms {
        confidence: 0.999,
        slack_seconds: 0.0,
    };
    let report = Report::of(&t, &["parshall-test-1".into()], terms);
    let rx = &report.interfaces[0];
    // Nine rounds lie between the first counters and the last; 19 samples each.
    assert_eq!((rx.samples, rx.packets.truth), (9 * 19, Some(9 * 19_000)));
    assert_eq!(rx.packets.estimated, 9.0 * 19_000.0);
    assert_eq!(rx.bytes.deviation_percent, Some(0.0), "{report}");
}

#[derive(Debug, Parser)]
struct Command {
    #[command(flatten)]
    args: TestArgs,
}

fn run(list: &[&str]) -> (Result<super::Sent, TestError>, String) {
    let args = Command::try_parse_from(["test"].iter().chain(list)).unwrap();
    let mut out = Vec::new();
    let result = run_with(&args.args, &mut out, &AtomicBool::new(false));
    (result, String::from_utf8(out).unwrap())
}

#[test]
fn rounds_reach_collectors_of_both_ip_versions() {
    for at in ["127.0.0.1:0", "[::1]:0"] {
        let socket = UdpSocket::bind(at).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        let to = socket.local_addr().unwrap().to_string();
        let (result, out) = run(&[
            "--collector",
            &to,
            "--count",
            "2",
            "--interval",
            "0.05",
            "--json",
        ]);
        let sent = result.unwrap();
        let json: serde_json::Value = serde_json::from_str(&out).unwrap();
        let shapes = json["expected"]["datagrams"].as_array().unwrap();
        assert_eq!(sent.datagrams, 2 * shapes.len() as u64);
        assert_eq!(json["sent"]["datagrams"], sent.datagrams);
        let mut buf = [0; 2048];
        for n in 0..sent.datagrams as usize {
            let len = socket.recv(&mut buf).unwrap();
            assert_eq!(shapes[n % shapes.len()]["bytes"], len);
        }
    }
}

#[test]
fn the_text_names_flows_counters_and_discards() {
    let (result, out) = run(&["--collector", "127.0.0.1", "--dry-run", "--count", "3"]);
    assert_eq!(result.unwrap().datagrams, 0);
    for part in [
        "TCP 192.0.2.10:12345 -> 198.51.100.20:443",
        // Ten samples of 1 in 1,000 in each of three rounds, of 1,514 bytes.
        "       30        30000         45420000",
        "discards: 9 with reason acl (258)",
        "discards: 3 with reason ttl_exceeded (257)",
        "parshall-test-1 (ifIndex 1001): in octets grow by",
        "samples: an agent with an IPv6 address",
    ] {
        assert!(out.contains(part), "{part}: {out}");
    }
    let (_, out) = run(&["--collector", "127.0.0.1", "--dry-run", "--decoded"]);
    for part in [
        "dst_as_path 64499-64500-64501",
        "hw_trap_name parshall_test_trap",
        "ifName parshall-test-2",
    ] {
        assert!(out.contains(part), "{part}: {out}");
    }
}

#[test]
fn a_collector_that_is_not_there_is_told() {
    let closed = {
        let s = UdpSocket::bind("127.0.0.1:0").unwrap();
        s.local_addr().unwrap().to_string()
    };
    let (result, _) = run(&["--collector", &closed]);
    let e = result.unwrap_err();
    assert!(matches!(e, TestError::Refused(..)), "{e}");
    assert!(e.to_string().contains("nobody listens there"), "{e}");
}
