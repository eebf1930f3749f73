//! What a running router sends breaks no rule of sFlow and is true, whatever changes meanwhile: rates, interfaces that go down and up
//! and away, counters that are cleared, sampling that stops, a router that is started again.

mod support;

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use support::{Netns, Router, must, parshall};

/// Two ports that are sampled, and one to which all goes; packets from memory at a modest rate, without end.
const CONFIG: &str = "\
cli: {socket: SOCKET}
interfaces:
  pg0:
    addresses: [10.0.0.1/24]
    sflow: {sampling-rate: 10}
  pg1:
    addresses: [10.0.1.1/24]
    sflow: {sampling-rate: 20}
  pg2:
    addresses: [10.0.2.1/24]
neighbors:
  - {interface: pg2, address: 10.0.2.2, mac: \"02:00:00:00:01:02\"}
routes:
  - {prefix: 20.0.0.0/8, via: 10.0.2.2, interface: pg2}
sflow:
  agent-address: 192.0.2.9
  polling-interval: 1
  host-interval: 2
  collectors: [\"127.0.0.1:6343\"]
packet-generator:
  streams:
    - name: small
      interface: pg0
      limit: 0
      rate: 20000
      size: 64
      node: ip4-input
      data: \"UDP: 10.0.0.2 -> 20.0.0.1 - 20.0.0.250 UDP: 1234 -> 4321 incrementing 30\"
    - name: mixed
      interface: pg1
      limit: 0
      rate: 20000
      size: 64-512
      node: ip4-input
      data: \"UDP: 10.0.1.2 -> 20.0.0.1 - 20.0.0.250 UDP: 1234 -> 4321 incrementing 30\"
";

/// A listening tool, ended also when the test fails.
struct Tool(Child);

impl Drop for Tool {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Tool {
    /// Starts one that listens on the sFlow port.
    fn start(ns: &Netns, line: &str) -> Tool {
        let line = format!("{} {line}", parshall().display());
        let mut command = ns.command(&line);
        let child = command.stdout(Stdio::piped()).spawn().unwrap();
        let bound = Instant::now() + Duration::from_secs(20);
        while !ns.run("ss -Hlun sport = :6343").contains("6343") {
            assert!(Instant::now() < bound, "{line} does not listen");
            std::thread::sleep(Duration::from_millis(50));
        }
        Tool(child)
    }

    /// Ends it as Ctrl-C does; whether it was content, and what it said.
    fn end(mut self) -> (Option<i32>, String) {
        let id = self.0.id().to_string();
        let told = Command::new("kill").args(["-INT", &id]).status().unwrap();
        assert!(told.success());
        let mut text = String::new();
        let mut stdout = self.0.stdout.take().unwrap();
        stdout.read_to_string(&mut text).unwrap();
        (self.0.wait().unwrap().code(), text)
    }
}

/// Captures what goes to collectors, from now on.
fn capture(ns: &Netns, file: &str) -> support::Process {
    let dump = ns.spawn(&format!("tcpdump -U -i lo -w {file} udp port 6343"));
    let made = Instant::now() + Duration::from_secs(10);
    while !Path::new(file).exists() {
        assert!(Instant::now() < made, "tcpdump does not start");
        pause(50);
    }
    dump
}

fn pause(milliseconds: u64) {
    std::thread::sleep(Duration::from_millis(milliseconds));
}

/// Everything that may happen to a router's telemetry while it runs.
fn unrest(router: &Router) {
    pause(2500);
    for line in [
        "sflow sampling-rate 100",
        "sflow enable pg0 sampling-rate 2",
        "sflow enable pg1 sampling-rate 500",
        "sflow enable pg0 sampling-rate 50",
    ] {
        router.ctl(line);
        pause(700);
    }
    for line in [
        "set interface state pg0 down",
        "set interface state pg0 up",
        "set interface state pg1 down",
        "set interface state pg1 up",
        "sflow disable pg1",
        "sflow enable pg1 sampling-rate 20",
        "clear interfaces",
        "sflow enable pg2 sampling-rate 30",
        "sflow max-datagram 800",
        "sflow polling-interval 2",
        "sflow polling-interval 1",
        "sflow disable pg2",
    ] {
        router.ctl(line);
        pause(1200);
    }
    // A source that is new, is gone, and comes again under the same number.
    for line in [
        "create packet-generator interface pg7",
        "set interface state pg7 up",
        "sflow enable pg7 sampling-rate 10",
    ] {
        router.ctl(line);
    }
    pause(2500);
    router.ctl("delete packet-generator interface pg7");
    router.ctl("create packet-generator interface pg7");
    router.ctl("sflow enable pg7 sampling-rate 10");
    pause(2500);
}

/// The summary and the findings of `lint --json`.
fn findings(text: &str) -> (Value, Vec<Value>) {
    let mut lines: Vec<Value> = text
        .lines()
        .map(|l| serde_json::from_str(l).unwrap_or_else(|e| panic!("{e}: {l}")))
        .collect();
    let summary = lines.pop().unwrap()["summary"].take();
    (summary, lines)
}

fn assert_no_violation(code: Option<i32>, text: &str) -> Value {
    let (summary, list) = findings(text);
    let bad: Vec<_> = list.iter().filter(|f| f["severity"] != "note").collect();
    assert!(
        bad.is_empty() && code == Some(0),
        "{code:?} {bad:#?} {summary}"
    );
    summary
}

#[test]
fn a_router_breaks_no_rule_whatever_changes() {
    let ns = Netns::new("r");
    let lint = Tool::start(
        &ns,
        "sflow lint --listen 127.0.0.1:6343 --json --polling-interval 4 --max 20",
    );
    let dir = tempfile::tempdir().unwrap();
    let pcap = dir.path().join("sflow.pcap").display().to_string();
    let dump = capture(&ns, &pcap);
    let router = Router::start_with(&ns, CONFIG);
    unrest(&router);
    assert!(router.stop());
    // The process is started again: the same agent, numbers from 1.
    let steady = dir.path().join("steady.pcap").display().to_string();
    let second = capture(&ns, &steady);
    let router = Router::start_with(&ns, CONFIG);
    pause(4000);
    assert!(router.stop());
    pause(500);
    let (code, text) = lint.end();
    drop((dump, second));
    let summary = assert_no_violation(code, &text);
    let n = |key: &str| summary[key].as_u64().unwrap();
    assert!(n("samples") > 5000 && n("sources") >= 3, "{summary}");
    assert_eq!(summary["rules"]["agent-restart"], 1, "{summary}");
    assert!(
        summary["rules"]["rate-changed"].as_u64() >= Some(3),
        "{summary}"
    );

    // The same from the capture, where datagrams are still glued together.
    let out = Command::new(parshall())
        .args(["sflow", "lint", "--json", "--polling-interval", "4", &pcap])
        .output()
        .unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    let from_file = assert_no_violation(out.status.code(), &text);
    // What the capture had not written down when it was ended is missing.
    let (in_file, all) = (from_file["samples"].as_u64().unwrap(), n("samples"));
    assert!(
        in_file <= all && in_file > all - all / 10,
        "{in_file} of {all}"
    );
    // And while nothing changes, its samples are those of the packets that it counted.
    let out = Command::new(parshall())
        .args(["sflow", "verify", &steady])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success() && text.contains(" 0 wrong"), "{text}");
}

#[test]
fn estimates_are_held_against_the_counters_of_a_running_router() {
    let ns = Netns::new("r");
    let router = Router::start_with(&ns, CONFIG);
    let verify = |more: &str| {
        let line = format!(
            "{} sflow verify --socket {} --period 5 --json {more}",
            parshall().display(),
            router.socket().display()
        );
        let (ok, text) = ns.try_run(&line);
        let report: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
        (ok, report)
    };
    let (ok, report) = verify("");
    assert!(ok, "{report:#}");
    assert_eq!(
        (&report["judged"], &report["wrong"]),
        (&4.into(), &0.into()),
        "{report:#}"
    );
    for row in report["interfaces"].as_array().unwrap() {
        if row["indirect"] == false {
            assert!(row["samples"].as_u64() > Some(1000), "{row}");
            assert!(row["packets"]["deviation_percent"].as_f64().unwrap().abs() < 20.0);
        }
    }
    // The collector that it was is no collector any more.
    let shown = router.json("show sflow");
    assert_eq!(shown["collectors"].as_array().unwrap().len(), 1, "{shown}");
    // A router that is in another namespace cannot be heard.
    let elsewhere = Command::new(parshall())
        .args(["sflow", "verify", "--period", "0.5", "--socket"])
        .arg(router.socket())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&elsewhere.stderr).into_owned();
    assert_eq!(elsewhere.status.code(), Some(2), "{text}");
    assert!(text.contains("another network namespace"), "{text}");
}

#[test]
fn known_samples_are_accepted_by_tshark_and_found_clean() {
    let ns = Netns::new("r");
    let lint = Tool::start(&ns, "sflow lint --listen 127.0.0.1:6343 --json");
    let dir = tempfile::tempdir().unwrap();
    let pcap = dir.path().join("test.pcap").display().to_string();
    let dump = capture(&ns, &pcap);
    let line = "sflow test --collector 127.0.0.1 --count 5 --interval 0.1 --json";
    let sent: Value =
        serde_json::from_str(&ns.run(&format!("{} {line}", parshall().display()))).unwrap();
    pause(500);
    let (code, text) = lint.end();
    drop(dump);
    let summary = assert_no_violation(code, &text);
    assert_eq!(summary["datagrams"], sent["sent"]["datagrams"]);
    assert_eq!(summary["notes"], 0, "{summary}");
    let malformed = must(
        "tshark",
        &[
            "-r",
            &pcap,
            "-d",
            "udp.port==6343,sflow",
            "-Y",
            "_ws.malformed",
        ],
    );
    // But for the sample with every record, some of which this Wireshark does not know and does not step over. A frame has
    // 42 bytes around it.
    let shapes = sent["expected"]["datagrams"].as_array().unwrap();
    let every = shapes
        .iter()
        .find(|d| d["shape"].as_str().unwrap().contains("every record"));
    let length = format!(" sFlow {} ", 42 + every.unwrap()["bytes"].as_u64().unwrap());
    let lines: Vec<_> = malformed
        .lines()
        .filter(|l| !l.contains("Running as user") && !l.contains(&length))
        .collect();
    assert!(lines.is_empty(), "{malformed}");
}
