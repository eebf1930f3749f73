//! Collectors that refuse, do not read, are out of reach, go and come back; more samples than anybody can take; and an agent that starts again.
//! The router loses no packet by any of it, and the collector that is well gets every sample that was not lost by number.

mod support;

use serde_json::Value;
use support::{Netns, Process, Router, parshall, until};

/// Packets of each of the two streams.
const PACKETS: u64 = 60_000;

const WELL: u16 = 6343;
const DEAF: u16 = 6344;

/// Two streams out by one interface; nobody has port 6399, and there is no way to 203.0.113.1. `RATE` is the sampling rate, `PACE` how many packets a second come in by each.
const CONFIG: &str = "\
cli: {socket: SOCKET}
interfaces:
  pg0:
    addresses: [10.0.0.1/24]
    sflow: {sampling-rate: RATE}
  pg1:
    addresses: [10.0.1.1/24]
    sflow: {sampling-rate: RATE}
  pg2:
    addresses: [10.0.2.1/24]
neighbors:
  - {interface: pg2, address: 10.0.2.2, mac: '02:00:00:00:01:02'}
routes:
  - {prefix: 20.0.0.0/8, via: 10.0.2.2, interface: pg2}
sflow:
  agent-address: 192.0.2.9
  collectors: ['127.0.0.1:6399', '203.0.113.1:6343', '127.0.0.1:6344', '127.0.0.1:6343']
packet-generator:
  streams:
    - {name: a, interface: pg0, limit: 60000, rate: PACE, size: 64-512, node: ip4-input, enabled: false,
       data: 'UDP: 10.0.0.2 -> 20.0.0.1 - 20.0.0.250 UDP: 1234 -> 4321 incrementing 30'}
    - {name: b, interface: pg1, limit: 60000, rate: PACE, size: 64, node: ip4-input, enabled: false,
       data: 'UDP: 10.0.1.2 -> 20.0.0.1 - 20.0.0.250 UDP: 1234 -> 4321 incrementing 30'}
";

struct World {
    ns: Netns,
    dir: tempfile::TempDir,
    config: String,
    router: Option<Router>,
    _deaf: Process,
}

impl World {
    fn new(rate: u64, pace: u64) -> World {
        let ns = Netns::new("r");
        let dir = tempfile::tempdir().unwrap();
        let deaf = deaf(&ns, &dir);
        let config = CONFIG.replace("RATE", &rate.to_string());
        let config = config.replace("PACE", &pace.to_string());
        World {
            router: Some(Router::start_with(&ns, &config)),
            ns,
            dir,
            config,
            _deaf: deaf,
        }
    }

    fn router(&self) -> &Router {
        self.router.as_ref().unwrap()
    }

    /// Ends the router well: what is left in an open datagram leaves with it.
    fn stop(&mut self) {
        assert!(self.router.take().unwrap().stop());
    }

    /// A collector that is well.
    fn well(&self, name: &str) -> Process {
        let line = format!(
            "{} sflow decode --listen 127.0.0.1:{WELL} -q --status",
            parshall().display()
        );
        let at = |end: &str| self.dir.path().join(format!("{name}.{end}"));
        let p = self.ns.spawn_to(&line, &at("out"), &at("log"));
        self.ns.await_port(WELL);
        p
    }

    /// Ends it; what it received.
    fn end(&self, name: &str, p: Process) -> Value {
        self.ns.await_read(WELL);
        p.end("-INT");
        let log = std::fs::read_to_string(self.dir.path().join(format!("{name}.log"))).unwrap();
        let last = log.lines().last().unwrap_or_default();
        serde_json::from_str(last).unwrap_or_else(|e| panic!("{e}: {log}"))
    }

    fn start(&self) {
        self.router().ctl("packet-generator enable-stream");
    }

    fn counter(&self, interface: &str, name: &str) -> u64 {
        let shown = self.router().json(&format!("show interface {interface}"));
        shown[0]["counters"][name].as_u64().unwrap_or(0)
    }

    /// Waits for the streams to end and for their samples to be sent; then nothing may be missing. What `show sflow` says.
    fn all_passed(&self) -> Value {
        let mut shown = Value::Null;
        until("all packets come by and their samples are sent", || {
            shown = self.router().json("show sflow");
            sum(&shown["interfaces"], "pool") == 2 * PACKETS
                && sum(&shown["agent"]["rings"], "drained") == sum(&shown["interfaces"], "samples")
        });
        until("all packets leave", || {
            self.counter("pg2", "tx_packets") >= 2 * PACKETS
        });
        for interface in ["pg0", "pg1", "pg2"] {
            let received = if interface == "pg2" { 0 } else { PACKETS };
            assert_eq!(self.counter(interface, "rx_packets"), received);
            for lost in [
                "rx_missed",
                "rx_no_buffer",
                "rx_errors",
                "tx_drops",
                "tx_errors",
                "drops",
            ] {
                assert_eq!(self.counter(interface, lost), 0, "{interface} {lost}");
            }
        }
        shown
    }

    /// A collector in `show sflow`.
    fn collector(shown: &Value, named: &str) -> Value {
        let all = shown["agent"]["collectors"].as_array().unwrap();
        let named = |c: &&Value| c["collector"].as_str().unwrap().contains(named);
        all.iter().find(named).unwrap().clone()
    }
}

/// One who takes the port and never reads, with as little room as the kernel gives.
fn deaf(ns: &Netns, dir: &tempfile::TempDir) -> Process {
    let program = dir.path().join("deaf.py");
    let text = format!(
        "import socket, time\n\
         s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
         s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)\n\
         s.bind(('127.0.0.1', {DEAF}))\n\
         time.sleep(1000)\n"
    );
    std::fs::write(&program, text).unwrap();
    let p = ns.spawn(&format!("python3 {}", program.display()));
    ns.await_port(DEAF);
    p
}

fn number(v: &Value, key: &str) -> u64 {
    v[key].as_u64().unwrap_or_else(|| panic!("no {key} in {v}"))
}

fn sum(list: &Value, key: &str) -> u64 {
    list.as_array()
        .unwrap()
        .iter()
        .map(|v| number(v, key))
        .sum()
}

/// Nothing was lost between the agent and this collector.
fn whole(got: &Value) {
    for lost in [
        "lost_datagrams",
        "lost_flow_samples",
        "malformed",
        "duplicate_datagrams",
        "socket_drops",
    ] {
        assert_eq!(number(got, lost), 0, "{lost}: {got}");
    }
}

#[test]
fn bad_collectors_cost_neither_packets_nor_the_good_ones_samples() {
    let mut w = World::new(10, 20_000);
    let well = w.well("well");
    w.start();
    let shown = w.all_passed();
    let samples = sum(&shown["interfaces"], "samples");
    // Who is not there is said, with the reason; who does not read is not known to UDP.
    for (named, reason) in [(":6399", "refused"), ("203.0.113.1", "unreachable")] {
        let c = World::collector(&shown, named);
        let said = c["last_error"].as_str().unwrap_or_default();
        assert!(said.contains(reason) && number(&c, "failed") > 0, "{c}");
    }
    for good in [WELL, DEAF] {
        let c = World::collector(&shown, &format!("127.0.0.1:{good}"));
        assert!(
            number(&c, "failed") == 0 && c["last_error"].is_null(),
            "{c}"
        );
    }
    // Every datagram is accounted for at every collector.
    let agent = &shown["agent"];
    for c in agent["collectors"].as_array().unwrap() {
        let told = number(c, "sent") + number(c, "failed");
        assert!(told > 0 && told <= number(agent, "datagrams"), "{c}");
    }
    w.stop();
    let got = w.end("well", well);
    whole(&got);
    assert_eq!(number(&got, "flow_samples"), samples, "{got}");
    assert_eq!(number(&got, "agent_drops"), 0, "{got}");
}

#[test]
fn more_samples_than_anybody_takes_are_counted_and_cost_no_packet() {
    let mut w = World::new(1, 1_000_000);
    let well = w.well("well");
    w.start();
    let shown = w.all_passed();
    let (samples, dropped) = (
        sum(&shown["interfaces"], "samples"),
        sum(&shown["interfaces"], "dropped"),
    );
    assert_eq!(samples + dropped, 2 * PACKETS, "{shown}");
    w.stop();
    let got = w.end("well", well);
    whole(&got);
    assert_eq!(number(&got, "flow_samples"), samples, "{got}");
    // What was lost after the last sample of a source is told with no other.
    assert!(number(&got, "agent_drops") <= dropped, "{got}");
}

#[test]
fn a_collector_that_comes_back_is_met_again() {
    let mut w = World::new(10, 6_000);
    let first = w.well("first");
    w.start();
    let sent_or_failed = |w: &World, what: &str| {
        let shown = w.router().json("show sflow");
        number(&World::collector(&shown, "127.0.0.1:6343"), what)
    };
    until("the first has something", || {
        sent_or_failed(&w, "sent") > 20
    });
    first.end("-KILL");
    until("it is missed", || sent_or_failed(&w, "failed") > 0);
    let second = w.well("second");
    let before = sent_or_failed(&w, "sent");
    until("the second is met", || {
        sent_or_failed(&w, "sent") > before + 20
    });
    w.all_passed();
    w.stop();
    let got = w.end("second", second);
    whole(&got);
    assert!(number(&got, "flow_samples") > 100, "{got}");
}

#[test]
fn an_agent_that_starts_again_loses_nothing_by_number() {
    let mut w = World::new(10, 20_000);
    let well = w.well("well");
    w.start();
    w.all_passed();
    // As a crash would: nothing is sent any more, nobody says good-bye.
    w.router().signal("-KILL");
    w.router = None;
    w.router = Some(Router::start_with(&w.ns, &w.config));
    w.start();
    let shown = w.all_passed();
    w.stop();
    let got = w.end("well", well);
    whole(&got);
    let agent = &got["agents"][0];
    assert_eq!(got["agents"].as_array().unwrap().len(), 1, "{got}");
    assert_eq!(number(&agent["datagrams"], "restarts"), 1, "{got}");
    // Both sources began anew, too.
    assert_eq!(number(&agent["flow"]["samples"], "restarts"), 2, "{got}");
    assert!(
        number(&got, "flow_samples") > sum(&shown["interfaces"], "samples"),
        "{got}"
    );
}
