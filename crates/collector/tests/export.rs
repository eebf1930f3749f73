//! Strangers read what `convert` sends: nfcapd and tshark find every flow with the right numbers, and the sums are equal.

mod support;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use clap::Parser;
use parshall_collector::{ConvertArgs, convert};
use serde_json::Value;
use support::{
    Expected, Sent, Stranger, in_namespace, output, traffic, wait_for_port, wait_until_read,
};

#[derive(Debug, Parser)]
struct Tool {
    #[command(flatten)]
    args: ConvertArgs,
}

fn run(line: &str, listening: impl FnOnce(SocketAddr)) -> Result<Value, String> {
    let line = format!("convert {line} --json");
    let args = Tool::try_parse_from(line.split_whitespace()).map_err(|e| e.to_string())?;
    let (mut out, mut log, stop) = (Vec::new(), Vec::new(), AtomicBool::new(false));
    convert::run_with(&args.args, &mut out, &mut log, &stop, listening)
        .map_err(|e| e.to_string())?;
    let text = String::from_utf8(out).unwrap();
    Ok(serde_json::from_str(text.lines().last().unwrap()).unwrap())
}

const FORMATS: [(&str, u16); 3] = [("netflow5", 2055), ("netflow9", 2055), ("ipfix", 4739)];

/// What of the flows a format can carry.
fn carried<'a>(format: &str, flows: &'a [Expected]) -> Vec<&'a Expected> {
    let fits = |f: &&Expected| format != "netflow5" || f.src.is_ipv4();
    flows.iter().filter(fits).collect()
}

fn sums(flows: &[&Expected]) -> (u64, u64, u64) {
    let packets = flows.iter().map(|f| f.rate).sum();
    let octets = flows.iter().map(|f| f.rate * f.octets).sum();
    (flows.len() as u64, packets, octets)
}

/// Number of flows, packets and bytes that nfdump finds in its files.
fn nfdump_sums(file: &str) -> (u64, u64, u64) {
    let text = output("nfdump", &["-I", "-r", file]);
    let number = |key: &str| {
        let line = text.lines().find(|l| l.starts_with(key));
        line.and_then(|l| l.rsplit(' ').next()?.parse().ok())
            .unwrap_or_else(|| panic!("no {key} in {text}"))
    };
    (number("Flows:"), number("Packets:"), number("Bytes:"))
}

/// Each flow as nfdump shows it, sorted.
fn nfdump_flows(file: &str) -> Vec<String> {
    let form = "fmt:%sa|%da|%sp|%dp|%pr|%pkt|%byt|%sas|%das|%in|%out";
    let text = output("nfdump", &["-r", file, "-q", "-N", "-6", "-o", form]);
    let tight = |l: &str| l.split_whitespace().collect::<String>();
    let mut all: Vec<String> = text.lines().map(tight).filter(|l| !l.is_empty()).collect();
    all.sort();
    all
}

fn as_nfdump_shows(f: &Expected) -> String {
    format!(
        "{}|{}|{}|{}|{}|{}|{}|65001|65004|3|4",
        f.src,
        f.dst,
        f.src_port,
        f.dst_port,
        f.protocol,
        f.rate,
        f.rate * f.octets
    )
}

#[test]
fn nfcapd_counts_what_was_sampled() {
    let (sent, flows) = traffic(120);
    for (format, _) in FORMATS {
        for scale in ["yes", "no"] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().to_str().unwrap();
            let status = in_namespace(|ns| {
                let args = ["-w", path, "-b", "127.0.0.1", "-p", "9995", "-t", "86400"];
                let nfcapd = Stranger::start(ns, "nfcapd", &args);
                wait_for_port(9995);
                let status = live(
                    &sent,
                    &format!("--to 127.0.0.1:9995 --format {format} --scale {scale}"),
                );
                wait_until_read(9995);
                nfcapd.end();
                status
            });
            let file = nfcapd_file(dir.path());
            let (carried, what) = (carried(format, &flows), format!("{format}, scale {scale}"));
            assert_eq!(nfdump_sums(&file), sums(&carried), "{what}");
            let mut want: Vec<String> = carried.iter().map(|f| as_nfdump_shows(f)).collect();
            want.sort();
            assert_eq!(nfdump_flows(&file), want, "{what}");
            let count = |key: &str| status[key].as_u64().unwrap();
            assert_eq!(count("flows"), carried.len() as u64, "{what}");
            assert_eq!(
                count("ipv6"),
                (flows.len() - carried.len()) as u64,
                "{what}"
            );
            assert_eq!(count("other_samples"), 120, "{what}");
            assert!(count("not_ip") > 0 && count("malformed") == 0, "{what}");
        }
    }
}

/// Converts datagrams as they arrive, from this host.
fn live(sent: &[Sent], options: &str) -> Value {
    let line = format!("--listen 127.0.0.1:0 --count {} {options}", sent.len());
    run(&line, |at| {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        for s in sent {
            socket.send_to(&s.bytes, at).unwrap();
        }
    })
    .unwrap()
}

fn nfcapd_file(dir: &Path) -> String {
    let all = std::fs::read_dir(dir).unwrap();
    let mut names = all.map(|e| e.unwrap().path().display().to_string());
    names
        .find(|n| n.contains("nfcapd.2"))
        .unwrap_or_else(|| panic!("nfcapd wrote no file"))
}

fn tshark(file: &str, port: u16, more: &[&str]) -> String {
    let decode = format!("udp.port=={port},cflow");
    let mut args = vec!["-r", file, "-d", &decode];
    args.extend(more);
    output("tshark", &args)
}

#[test]
fn tshark_decodes_every_record_and_finds_nothing_malformed() {
    let (sent, flows) = traffic(120);
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("sflow.pcap");
    support::write_capture(&source, &sent);
    for (format, port) in FORMATS {
        for scale in ["yes", "no"] {
            let made = dir.path().join(format!("{format}-{scale}.pcap"));
            let made = made.to_str().unwrap();
            let line = format!(
                "{} --write {made} --format {format} --scale {scale}",
                source.display()
            );
            run(&line, |_| {}).unwrap();
            let what = format!("{format}, scale {scale}");
            let faults = "_ws.malformed || _ws.expert.severity >= \"Warning\" || cflow.unexpected_sequence_number";
            assert_eq!(tshark(made, port, &["-Y", faults]), "", "{what}");
            let carried = carried(format, &flows);
            let want = match scale {
                "yes" => sums(&carried),
                _ => (
                    carried.len() as u64,
                    carried.len() as u64,
                    carried.iter().map(|f| f.octets).sum(),
                ),
            };
            let numbers = |field| -> Vec<u64> {
                let text = tshark(made, port, &["-T", "fields", "-e", field]);
                let all = text.split([',', '\n']).filter(|t| !t.is_empty());
                all.map(|t| t.parse().unwrap()).collect()
            };
            let (packets, octets) = (numbers("cflow.packets"), numbers("cflow.octets"));
            let got = (
                packets.len() as u64,
                packets.iter().sum(),
                octets.iter().sum(),
            );
            assert_eq!(got, want, "{what}");
        }
    }
}

#[test]
fn times_labels_and_exporters_are_the_agents() {
    let (sent, flows) = traffic(30);
    let dir = tempfile::tempdir().unwrap();
    let (source, made) = (dir.path().join("sflow.pcap"), dir.path().join("made.pcap"));
    support::write_capture(&source, &sent);
    let made = made.to_str().unwrap();
    let line = format!("{} --write {made} --format ipfix", source.display());
    run(&line, |_| {}).unwrap();
    let fields = |name: &str| {
        let text = tshark(made, 4739, &["-T", "fields", "-e", name]);
        let mut all: Vec<String> = text
            .split([',', '\n'])
            .filter(|t| !t.is_empty())
            .map(str::to_owned)
            .collect();
        all.sort();
        all.dedup();
        all
    };
    // A top label is shown as label, class and bottom of stack together.
    let mut labels: Vec<u64> = flows
        .iter()
        .map(|f| u64::from(f.label))
        .filter(|l| *l > 0)
        .collect();
    labels.sort_unstable();
    let shown = tshark(made, 4739, &["-V"]);
    for label in labels {
        assert!(
            shown.contains(&format!("MPLS-Label1: {label} ")),
            "label {label}"
        );
    }
    assert_eq!(
        fields("cflow.original_exporter_ipv4_address"),
        ["192.0.2.1", "192.0.2.2"]
    );
    assert_eq!(
        fields("cflow.original_exporter_ipv6_address"),
        ["2001:db8::3"]
    );
    assert_eq!(fields("cflow.od_id"), ["1", "2", "3"]);
    assert_eq!(fields("cflow.vlanid"), ["100"]);
    assert_eq!(fields("cflow.post_vlanid"), ["200"]);
    assert!(
        shown.contains("StartTime: Nov 14, 2023 22:13:20.000000000"),
        "{shown}"
    );
}

#[test]
fn an_ipfix_file_is_the_messages_alone() {
    let (sent, flows) = traffic(30);
    let dir = tempfile::tempdir().unwrap();
    let (source, made) = (dir.path().join("sflow.pcap"), dir.path().join("made.ipfix"));
    support::write_capture(&source, &sent);
    let line = format!(
        "{} --write {} --format ipfix",
        source.display(),
        made.display()
    );
    run(&line, |_| {}).unwrap();
    let text = output(
        "tshark",
        &[
            "-r",
            made.to_str().unwrap(),
            "-T",
            "fields",
            "-e",
            "cflow.packets",
        ],
    );
    let packets: Vec<u64> = text
        .split([',', '\n'])
        .filter(|t| !t.is_empty())
        .map(|t| t.parse().unwrap())
        .collect();
    assert_eq!(
        packets.iter().sum::<u64>(),
        flows.iter().map(|f| f.rate).sum::<u64>()
    );
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let wrong = |line: &str| run(line, |_| {}).unwrap_err();
    assert!(wrong("--format ipfix").contains("--to"));
    assert!(wrong("--to a").contains("--format"));
    assert!(
        wrong("x.pcap --listen 127.0.0.1 --to a --format ipfix").contains("cannot be used with")
    );
    assert!(wrong("--to a --format ipfix --max-bytes 100").contains("640"));
    assert!(wrong("x.pcap --write - --format ipfix").contains("standard output"));
    assert!(wrong("no-such.pcap --to 127.0.0.1:9 --format ipfix").contains("cannot open"));
}
