//! What the router sees reaches a collector: datagrams of a running router, judged by tshark and read by
//! our own decoder.

mod support;

use std::time::Duration;

use support::{Router, TwoHosts, must, parshall};

/// Sampling rate of the test: high, so that a short run has many samples.
const RATE: u64 = 50;

#[test]
fn samples_and_counters_are_right_and_well_formed() {
    let TwoHosts { a, b: _b, r } = TwoHosts::new();
    let router = Router::start(
        &r,
        &[
            "create host-interface name left",
            "create host-interface name right",
            "set interface ip address host-left 10.0.1.1/24",
            "set interface ip address host-right 10.0.2.1/24",
            "set interface state host-left up",
            "set interface state host-right up",
            "sflow agent-address 192.0.2.9",
            "sflow polling-interval 1",
            "sflow collector add 127.0.0.1 port 6343",
            &format!("sflow enable host-left sampling-rate {RATE}"),
            &format!("sflow enable host-right sampling-rate {RATE}"),
        ],
    );
    let dir = tempfile::tempdir().unwrap();
    let pcap = dir.path().join("sflow.pcap");
    // A listener, so that the datagrams are not refused.
    let _collector = r.spawn(&format!("{} sflow decode -p 6343", parshall().display()));
    let dump = r.spawn(&format!(
        "tcpdump -U -i lo -w {} udp port 6343",
        pcap.display()
    ));
    std::thread::sleep(Duration::from_secs(1));
    a.eventually("ping -c 1 -W 1 10.0.2.2", 10);
    a.run("ping -q -i 0.002 -c 3000 -s 200 10.0.2.2");
    let counted = router.json("show sflow");
    std::thread::sleep(Duration::from_millis(2500));
    drop(dump);
    assert!(router.stop());

    let pcap = pcap.display().to_string();
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
    assert_eq!(
        malformed
            .lines()
            .filter(|l| !l.contains("Running as user"))
            .count(),
        0,
        "{malformed}"
    );
    let json = must(
        &parshall().display().to_string(),
        &["sflow", "decode", "-r", &pcap, "-j"],
    );
    check(&json, &counted);
}

/// Sequences without gaps, estimates near the truth, counters of both interfaces.
fn check(json: &str, counted: &serde_json::Value) {
    let mut datagrams = Vec::new();
    let (mut samples, mut pool) = (0u64, 0u64);
    let mut names = std::collections::BTreeSet::new();
    for line in json.lines() {
        let d: serde_json::Value =
            serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        assert_eq!(d["agent"], "192.0.2.9");
        assert!(d["datagramSize"].as_u64().unwrap() <= 1400);
        datagrams.push(d["packetSequenceNo"].as_u64().unwrap());
        for s in d["samples"].as_array().unwrap() {
            if s["sampleType"] == "FLOWSAMPLE" {
                assert_eq!(s["meanSkipCount"], RATE);
                samples += 1;
                pool = pool.max(s["samplePool"].as_u64().unwrap());
            }
            for e in s["elements"].as_array().into_iter().flatten() {
                names.extend(e["ifName"].as_str().map(str::to_owned));
            }
        }
    }
    assert!(
        datagrams.windows(2).all(|w| w[1] == w[0] + 1),
        "sequence has gaps: {datagrams:?}"
    );
    assert!(
        names.contains("host-left") && names.contains("host-right"),
        "{names:?}"
    );
    // Two interfaces saw 3,000 packets each; five standard deviations around 120 samples.
    let estimate = samples * RATE;
    assert!(
        (3300..8700).contains(&estimate),
        "estimated {estimate} packets from {samples} samples"
    );
    let pools: u64 = counted["interfaces"]
        .as_array()
        .unwrap()
        .iter()
        .map(|i| i["pool"].as_u64().unwrap())
        .sum();
    assert!(
        (6000..7000).contains(&pools) && pool <= pools,
        "pool {pools}, in samples {pool}"
    );
}
