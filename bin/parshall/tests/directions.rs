//! Both directions of an interface: what a collector estimates from the samples of each, against the interfaces'
//! own counters, with traffic between two hosts; and the interface numbers that the samples carry.

mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use support::{Netns, Router, connect, host, must, parshall, router_port};

/// Sampling rate of the test: high, so that a short run has many samples.
const RATE: u64 = 20;

/// A router with a host on each side, and what reaches its collector.
struct Rig {
    a: Netns,
    b: Netns,
    r: Netns,
    dir: tempfile::TempDir,
}

impl Rig {
    fn new() -> Rig {
        let (a, b, r) = (Netns::new("a"), Netns::new("b"), Netns::new("r"));
        connect(&a, "eth0", &r, "left");
        connect(&b, "eth0", &r, "right");
        router_port(&r, "left");
        router_port(&r, "right");
        for (ns, n) in [(&a, 1), (&b, 2)] {
            let v4 = (format!("10.0.{n}.2/24"), format!("10.0.{n}.1"));
            let v6 = (format!("2001:db8:{n}::2/64"), format!("2001:db8:{n}::1"));
            host(ns, "eth0", &v4.0, &v6.0, &v4.1, &v6.1);
        }
        let dir = tempfile::tempdir().unwrap();
        Rig { a, b, r, dir }
    }

    fn router(&self, sflow: &[&str]) -> Router {
        let mut commands = vec![
            "create host-interface name left",
            "create host-interface name right",
            "set interface ip address host-left 10.0.1.1/24",
            "set interface ip address host-right 10.0.2.1/24",
            "set interface state host-left up",
            "set interface state host-right up",
            "sflow agent-address 192.0.2.9",
            "sflow polling-interval 1",
            "sflow host-interval 0",
            "sflow collector add 127.0.0.1 port 6343",
        ];
        commands.extend(sflow);
        Router::start(&self.r, &commands)
    }

    /// Catches what is sent to the collector while `job` runs, and what comes in the two seconds after it.
    fn catch(&self, job: impl FnOnce()) -> Vec<Value> {
        let pcap = self.dir.path().join("sflow.pcap");
        let tool = parshall().display();
        // A listener, so that the datagrams are not refused.
        let _collector = self.r.spawn(&format!("{tool} sflow decode -p 6343"));
        let line = format!("tcpdump -U -i lo -w {} udp port 6343", pcap.display());
        let dump = self.r.spawn(&line);
        std::thread::sleep(Duration::from_secs(1));
        job();
        std::thread::sleep(Duration::from_millis(2500));
        drop(dump);
        decoded(&pcap)
    }
}

fn decoded(pcap: &PathBuf) -> Vec<Value> {
    let pcap = Path::new(pcap).display().to_string();
    let json = must(
        &parshall().display().to_string(),
        &["sflow", "decode", "-r", &pcap, "-j"],
    );
    let datagrams = json.lines().map(serde_json::from_str::<Value>);
    datagrams.map(|d| d.unwrap()).collect()
}

/// A flow sample: source, sequence, rate, pool, input, output.
#[derive(Clone, Debug)]
struct Flow {
    source: u64,
    sequence: u64,
    rate: u64,
    pool: u64,
    input: u64,
    output: u64,
}

fn flows(datagrams: &[Value]) -> Vec<Flow> {
    let number = |s: &Value, key: &str| s[key].as_u64().unwrap_or_else(|| panic!("{key}: {s}"));
    let all = datagrams.iter().flat_map(|d| d["samples"].as_array());
    all.flatten()
        .filter(|s| s["sampleType"] == "FLOWSAMPLE")
        .map(|s| Flow {
            source: s["sourceId"]
                .as_str()
                .and_then(|t| t.rsplit(':').next()?.parse().ok())
                .unwrap_or_else(|| panic!("{s}")),
            sequence: number(s, "sampleSequenceNo"),
            rate: number(s, "meanSkipCount"),
            pool: number(s, "samplePool"),
            input: number(s, "inputPort"),
            output: number(s, "outputPort"),
        })
        .collect()
}

/// Sequences of each source run without a gap, pools never fall, and every sample is of one end of its packet's way.
fn check_rules(all: &[Flow]) {
    let mut last: BTreeMap<u64, Flow> = BTreeMap::new();
    for f in all {
        assert!(f.source == f.input || f.source == f.output, "{f:?}");
        if let Some(before) = last.insert(f.source, f.clone()) {
            assert_eq!(f.sequence, before.sequence + 1, "{f:?} after {before:?}");
            assert!(f.pool >= before.pool, "{f:?} after {before:?}");
        }
    }
}

/// Asserts that an estimate is within four standard deviations (sFlow's 95 % bound is two) of the truth.
#[track_caller]
fn near(what: &str, estimate: u64, truth: u64) {
    let deviation = (truth as f64 * (RATE - 1) as f64).sqrt();
    let off = (estimate as f64 - truth as f64).abs();
    assert!(
        off <= 4.0 * deviation,
        "{what}: estimated {estimate}, counted {truth}"
    );
}

fn counters(router: &Router, name: &str) -> (u64, u64) {
    let shown = router.json(&format!("show interface {name}"));
    let c = &shown[0]["counters"];
    let count = |key: &str| c[key].as_u64().unwrap();
    (count("rx_packets"), count("tx_packets"))
}

#[test]
fn estimates_of_both_directions_agree_with_the_counters() {
    let rig = Rig::new();
    let both = |i: &str| format!("sflow enable host-{i} direction both sampling-rate {RATE}");
    let router = rig.router(&[&both("left"), &both("right")]);
    let mut counted = [(0, 0); 2];
    let mut pools = Vec::new();
    let datagrams = rig.catch(|| {
        rig.a.eventually("ping -c 1 -W 1 10.0.2.2", 10);
        // More one way than the other: pings both ways, and a stream of datagrams from a to b.
        let server = rig.b.spawn("iperf3 -s");
        rig.a.run("ping -q -i 0.002 -c 2000 10.0.2.2");
        rig.b.run("ping -q -i 0.002 -c 1000 -s 300 10.0.1.2");
        rig.a
            .eventually("iperf3 -c 10.0.2.2 -u -b 8M -l 400 -t 2", 10);
        drop(server);
        counted = ["host-left", "host-right"].map(|name| counters(&router, name));
        pools = ["host-left", "host-right"]
            .map(|name| {
                router.json(&format!("show sflow interfaces {name}"))["interfaces"][0].clone()
            })
            .to_vec();
    });
    let all = flows(&datagrams);
    check_rules(&all);
    assert!(all.iter().all(|f| f.rate == RATE));
    for (i, (name, index)) in [("left", 1), ("right", 2)].into_iter().enumerate() {
        let (rx, tx) = counted[i];
        assert!(rx > 3000 && tx > 2000, "{name}: {rx} {tx}");
        let (pool_rx, pool_tx) = (&pools[i]["rx"]["pool"], &pools[i]["tx"]["pool"]);
        // All that was received and sent since sampling was on, but for the first packets.
        let near_all = |pool: &Value, n: u64| (n - 20..=n + 20).contains(&pool.as_u64().unwrap());
        assert!(
            near_all(pool_rx, rx) && near_all(pool_tx, tx),
            "{:?} {rx} {tx}",
            pools[i]
        );
        // A packet that came in on this side left on the other, unless it was the router's own.
        let of = |f: &&Flow| f.source == index;
        let received = all.iter().filter(of).filter(|f| f.input == index).count() as u64;
        let sent = all.iter().filter(of).filter(|f| f.input != index).count() as u64;
        near(&format!("{name} rx"), received * RATE, rx);
        near(&format!("{name} tx"), sent * RATE, tx);
    }
    assert!(router.stop());
}

#[test]
fn numbers_of_interfaces_change_together_and_last_over_restarts() {
    let rig = Rig::new();
    let numbers = rig.dir.path().join("numbers");
    let config = format!(
        "cli: {{socket: SOCKET}}\nsflow:\n  ifindex-file: {}\n  agent-address: 192.0.2.9\n  polling-interval: 0\n  \
         host-interval: 0\n  direction: both\n  sampling-rate: 2\n  collectors: ['127.0.0.1:6343']\ninterfaces:\n",
        numbers.display()
    );
    let left = "  host-left: {addresses: [10.0.1.1/24], sflow: true}\n";
    let right = "  host-right: {addresses: [10.0.2.1/24], sflow: true}\n";
    let ifindex = |router: &Router, name: &str| {
        let shown = router.json(&format!("show sflow interfaces {name}"));
        shown["interfaces"][0]["ifindex"].as_u64().unwrap()
    };
    let router = Router::start_with(&rig.r, &format!("{config}{left}{right}"));
    let before = ["host-left", "host-right"].map(|n| ifindex(&router, n));
    assert_eq!(before, [1, 2]);
    assert!(router.stop());
    // The other way round: the numbers go with the names.
    let router = Router::start_with(&rig.r, &format!("{config}{right}{left}"));
    assert_eq!(
        ["host-left", "host-right"].map(|n| ifindex(&router, n)),
        before
    );
    let linux = ["left", "right"].map(|i| {
        let line = rig.r.run(&format!("cat /sys/class/net/{i}/ifindex"));
        line.trim().parse::<u64>().unwrap()
    });
    let datagrams = rig.catch(|| {
        rig.a.eventually("ping -c 1 -W 1 10.0.2.2", 10);
        rig.a.run("ping -q -i 0.002 -c 300 10.0.2.2");
        router.ctl("sflow ifindex linux");
        rig.a.run("ping -q -i 0.002 -c 300 10.0.2.2");
    });
    let (mut ours, mut theirs) = (0, 0);
    for d in &datagrams {
        let all = flows(std::slice::from_ref(d));
        // Internal (a packet of the router's own) and unknown are of no namespace.
        let ends = all.iter().flat_map(|f| [f.source, f.input, f.output]);
        let ends: Vec<u64> = ends.filter(|n| *n != 0 && *n != 0x3FFF_FFFF).collect();
        let is_ours = ends.iter().all(|n| before.contains(n));
        let is_theirs = ends.iter().all(|n| linux.contains(n));
        assert!(is_ours || is_theirs, "a mix in {d}: {before:?} {linux:?}");
        ours += u32::from(is_ours && !ends.is_empty());
        theirs += u32::from(is_theirs && !is_ours);
    }
    assert!(
        ours > 0 && theirs > 0,
        "{ours} {theirs} of {before:?} {linux:?}"
    );
    assert!(router.stop());
}
