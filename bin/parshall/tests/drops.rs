//! Drops of a running router: what `show drops` says, what a collector gets, and what other people's tools read in a
//! capture of them.

mod support;

use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use support::{Netns, Router, connect, host, must, parshall, router_port};

/// Reasons that the traffic brings about: their sFlow codes, the node, and the interface behind the router if the
/// packet got that far.
const EXPECTED: [(&str, u64, &str); 5] = [
    ("ip4_ttl_expired", 257, "ip4-rewrite"),
    ("no_route", 6, "ip4-lookup"),
    ("route_blackhole", 269, "ip4-lookup"),
    ("local_no_port", 3, "ip4-local"),
    ("unresolved_neighbor", 279, "ip4-arp"),
];

#[test]
fn drops_are_shown_reported_and_captured_with_their_reasons() {
    let (a, b, r) = (Netns::new("a"), Netns::new("b"), Netns::new("r"));
    connect(&a, "eth0", &r, "left");
    connect(&b, "eth0", &r, "right");
    router_port(&r, "left");
    router_port(&r, "right");
    let (v6, via6) = ("2001:db8:1::2/64", "2001:db8:1::1");
    host(&a, "eth0", "10.0.1.2/24", v6, "10.0.1.1", via6);
    let (v6, via6) = ("2001:db8:2::2/64", "2001:db8:2::1");
    host(&b, "eth0", "10.0.2.2/24", v6, "10.0.2.1", via6);
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).display().to_string();
    let router = Router::start(
        &r,
        &[
            "create host-interface name left",
            "create host-interface name right",
            "set interface ip address host-left 10.0.1.1/24",
            "set interface ip address host-right 10.0.2.1/24",
            "set interface state host-left up",
            "set interface state host-right up",
            "ip route add 198.51.100.0/24 blackhole",
            "sflow agent-address 192.0.2.9",
            "sflow collector add 127.0.0.1 port 6343",
            "sflow drop-monitoring limit 1000",
        ],
    );
    let _collector = r.spawn(&format!("{} sflow decode -p 6343", parshall().display()));
    let dump = r.spawn(&format!(
        "tcpdump -U -i lo -w {} udp port 6343",
        at("sflow.pcap")
    ));
    r.await_port(6343);
    std::thread::sleep(Duration::from_secs(1));
    a.eventually("ping -c 1 -W 1 10.0.2.2", 10);
    router.ctl(&format!("drop capture {}", at("all.pcapng")));
    let (ok, refused) = router.try_ctl(&format!("drop capture {}", at("more.pcapng")));
    assert!(
        !ok && refused.contains("`pcap trace off` ends it"),
        "{refused}"
    );
    provoke(&a);
    let shown = await_drops(&router);
    router.ctl("drop capture off");
    for (reason, code, node) in EXPECTED {
        check_shown(&shown, reason, code, node);
    }
    let text = router.ctl("show drops");
    assert!(text.contains("from host-left"), "{text}");
    assert!(text.contains("10.0.1.2 > 203.0.113.9 ICMP"), "{text}");
    check_capture(&at("all.pcapng"));

    router.ctl(&format!(
        "drop capture {} max 2 reason no_route interface host-left",
        at("one.pcapng")
    ));
    provoke(&a);
    let two = || router.json("show pcap")["running"] == false;
    until("a capture of two packets ends", two);
    let comments = tshark(&at("one.pcapng"), &["frame.comment"]);
    assert!(
        comments.len() == 2 && comments.iter().all(|c| c[0].starts_with("no_route: ")),
        "{comments:?}"
    );
    // The samples of the last second leave within it.
    std::thread::sleep(Duration::from_millis(2500));
    drop(dump);
    without_a_collector(&router, &a);
    assert!(router.stop());
    check_samples(&at("sflow.pcap"));
}

/// Monitored drops that there is nobody to report to are counted apart.
fn without_a_collector(router: &Router, a: &Netns) {
    router.ctl("sflow collector del 127.0.0.1 port 6343");
    router.ctl("clear errors");
    let (ok, out) = a.try_run("ping -n -c 2 -i 0.2 -W 1 203.0.113.9");
    assert!(!ok, "{out}");
    until("drops without a collector", || {
        fates(&router.json("show drops"), "no_route") == [2, 0, 0, 2]
    });
    let text = router.ctl("show drops");
    assert!(text.contains("there was no collector"), "{text}");
}

/// Packets that are dropped, each for another reason.
fn provoke(a: &Netns) {
    for ping in ["-t 1 10.0.2.2", "203.0.113.9", "198.51.100.7", "10.0.2.77"] {
        // No answer is what is wanted: ping says so by failing.
        let (ok, out) = a.try_run(&format!("ping -n -c 3 -i 0.2 -W 1 {ping}"));
        assert!(!ok, "{ping}: {out}");
    }
    let udp = a
        .command("bash -c")
        .arg("echo x > /dev/udp/10.0.1.1/9")
        .output();
    assert!(udp.unwrap().status.success());
}

fn until(what: &str, mut is: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !is() {
        assert!(Instant::now() < end, "{what}: not after 20 s");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Waits until all reasons have been seen by the agent, and it is known what became of each drop.
fn await_drops(router: &Router) -> Value {
    let mut shown = Value::Null;
    until("drops of all reasons", || {
        shown = router.json("show drops");
        let seen = |reason: &str| row(&shown, reason).is_some_and(|d| !d["last"].is_null());
        EXPECTED.iter().all(|e| {
            seen(e.0) && fates(&shown, e.0)[1..].iter().sum::<u64>() == fates(&shown, e.0)[0]
        })
    });
    shown
}

/// Drops of a reason: all, reported, suppressed, unexported.
fn fates(shown: &Value, reason: &str) -> [u64; 4] {
    let row = row(shown, reason);
    ["count", "reported", "suppressed", "unexported"]
        .map(|k| row.map_or(0, |d| d[k].as_u64().unwrap_or_else(|| panic!("{k}: {d}"))))
}

fn row<'v>(shown: &'v Value, reason: &str) -> Option<&'v Value> {
    let rows = shown["drops"].as_array()?;
    rows.iter().find(|d| d["reason"] == reason)
}

fn check_shown(shown: &Value, reason: &str, code: u64, node: &str) {
    let d = row(shown, reason).unwrap();
    assert!(d["count"].as_u64().unwrap() >= 1, "{d}");
    assert_eq!(
        (&d["sflow_code"], &d["nodes"][0]["node"]),
        (&code.into(), &node.into())
    );
    let [count, reported, _, unexported] = fates(shown, reason);
    assert_eq!((reported, unexported), (count, 0), "{d}");
    assert_eq!(d["last"]["rx"], "host-left", "{d}");
    let header = d["last"]["header"].as_str().unwrap();
    assert!(header.contains("IPv4 10.0.1.2"), "{d}");
    let tx = if reason == "unresolved_neighbor" {
        Value::from("host-right")
    } else {
        Value::Null
    };
    assert_eq!(d["last"]["tx"], tx, "{d}");
}

/// The rows of fields that tshark reads in a file.
fn tshark(file: &str, fields: &[&str]) -> Vec<Vec<String>> {
    let mut args = vec!["-r", file, "-T", "fields"];
    fields.iter().for_each(|f| args.extend(["-e", f]));
    let out = Command::new("tshark")
        .args(args)
        .output()
        .unwrap_or_else(|e| panic!("tshark: {e}; tests/setup.sh installs it"));
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    let text = String::from_utf8(out.stdout).unwrap();
    let row = |l: &str| l.split('\t').map(str::to_owned).collect();
    text.lines().map(row).collect()
}

/// tshark finds interfaces by name, whole packets, and the reasons as comments.
fn check_capture(file: &str) {
    let fields = [
        "frame.interface_name",
        "frame.comment",
        "eth.type",
        "ip.src",
        "_ws.malformed",
    ];
    let rows = tshark(file, &fields);
    for (reason, code, node) in EXPECTED {
        let of = |r: &&Vec<String>| r[1].starts_with(&format!("{reason}: "));
        let found = rows
            .iter()
            .find(of)
            .unwrap_or_else(|| panic!("{reason}: {rows:?}"));
        assert_eq!(
            (found[0].as_str(), found[2].as_str()),
            ("host-left", "0x0800"),
            "{found:?}"
        );
        assert!(found[3].starts_with("10.0.1.2"), "{found:?}");
        for part in [
            format!("; at {node}"),
            "; from host-left".into(),
            format!("; sFlow {code}"),
        ] {
            assert!(found[1].contains(&part), "{found:?}");
        }
    }
    assert!(rows.iter().all(|r| r[4].is_empty()), "{rows:?}");
}

/// A collector gets a sample of every reason, numbered without a gap, and the datagrams are well formed to tshark.
fn check_samples(pcap: &str) {
    let malformed = Command::new("tshark")
        .args([
            "-r",
            pcap,
            "-d",
            "udp.port==6343,sflow",
            "-Y",
            "_ws.malformed",
        ])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&malformed.stdout), "");
    let program = parshall().display().to_string();
    let json = must(&program, &["sflow", "decode", "-r", pcap, "-j"]);
    let mut sequence = Vec::new();
    let mut by_trap: BTreeMap<String, Value> = BTreeMap::new();
    for line in json.lines() {
        let d: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        for s in d["samples"].as_array().into_iter().flatten() {
            if s["sampleType"] != "DISCARD" {
                continue;
            }
            sequence.push(s["sampleSequenceNo"].as_u64().unwrap());
            let mut told = s.clone();
            for e in s["elements"].as_array().into_iter().flatten() {
                for (key, value) in e.as_object().into_iter().flatten() {
                    told[key] = value.clone();
                }
            }
            let trap = told["hw_trap_name"].as_str().unwrap().to_owned();
            by_trap.insert(trap, told);
        }
    }
    let counted: Vec<u64> = (1..=sequence.len() as u64).collect();
    assert_eq!(sequence, counted);
    for (reason, code, node) in EXPECTED {
        let s = by_trap
            .get(reason)
            .unwrap_or_else(|| panic!("{reason}: {by_trap:?}"));
        assert_eq!(s["discardCode"], code, "{s}");
        assert_eq!(s["symbol"], node, "{s}");
        assert!(s["inputPort"].as_u64().unwrap() > 0, "{s}");
        let out = s["outputPort"].as_u64().unwrap();
        assert_eq!(out != 0, reason == "unresolved_neighbor", "{s}");
        assert!(!s["headerBytes"].is_null(), "{s}");
    }
}
