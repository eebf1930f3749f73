//! Sub-interfaces, tunnels, bonds and routed interfaces of bridges as sFlow sources of their own: what a running router
//! tells of each is well formed for tshark, breaks no rule for `sflow lint`, and agrees with the counters for `sflow verify`.
//! Their ifIndexes go with their names, whatever is made and deleted around them.

mod support;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use support::{Netns, Router, must, parshall, until};

/// Bytes of a pcap file's header and of a packet's (classic format, little-endian).
const PCAP_HEADER: [u32; 6] = [0xA1B2_C3D4, 4 << 16 | 2, 0, 0, 65_535, 1];
/// Packets of each stream.
const PACKETS: u64 = 40_000;
/// Those whose packets are sampled, with their ifIndex.
const SOURCES: [(&str, u64); 5] = [
    ("pg0.10", 6),
    ("gre0", 7),
    ("vxlan_tunnel0", 8),
    ("BondEthernet0", 9),
    ("loop0", 10),
];

/// An Ethernet address by its last byte.
fn mac(n: u8) -> [u8; 6] {
    [2, 0xFE, 0, 0, 0, n]
}

/// A UDP packet over IPv4 of `len` bytes.
fn packet(src: [u8; 4], dst: [u8; 4], len: u16) -> Vec<u8> {
    ip(
        src,
        dst,
        17,
        &[
            &[4, 0, 0, 53][..],
            &(len - 20).to_be_bytes(),
            &[0; 2],
            &vec![0; usize::from(len) - 28],
        ]
        .concat(),
    )
}

fn ip(src: [u8; 4], dst: [u8; 4], protocol: u8, payload: &[u8]) -> Vec<u8> {
    let len = 20 + payload.len() as u16;
    let mut h = vec![0x45, 0];
    h.extend(len.to_be_bytes());
    h.extend([0, 0, 0, 0, 64, protocol, 0, 0]);
    h.extend(src);
    h.extend(dst);
    let words = h
        .chunks(2)
        .map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])));
    let sum = words.sum::<u32>();
    let sum = (sum & 0xFFFF) + (sum >> 16);
    h[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    [&h[..], payload].concat()
}

fn frame(dst: [u8; 6], rest: &[u8], packet: &[u8]) -> Vec<u8> {
    [&dst[..], &[2, 0, 0, 0, 0, 0x77], rest, packet].concat()
}

fn ethernet(dst: [u8; 6], packet: &[u8]) -> Vec<u8> {
    frame(dst, &[8, 0], packet)
}

fn write_pcap(path: &Path, frames: &[Vec<u8>]) {
    let word = |v: u32| v.to_le_bytes();
    let mut file = PCAP_HEADER.map(word).concat();
    for f in frames {
        let len = f.len() as u32;
        file.extend([word(0), word(0), word(len), word(len)].concat());
        file.extend(f);
    }
    std::fs::write(path, file).unwrap();
}

/// What each generator interface receives.
fn streams(dir: &Path) -> Vec<String> {
    let far = [20, 1, 1, 1];
    let inside = packet([172, 16, 0, 1], far, 200);
    let (other_end, router) = ([10, 0, 0, 2], [10, 0, 0, 1]);
    let gre = ip(
        other_end,
        router,
        47,
        &[&[0, 0, 8, 0], &inside[..]].concat(),
    );
    let bridged = ethernet(mac(9), &packet([192, 168, 9, 2], far, 300));
    let udp = 16 + bridged.len() as u16;
    let vxlan = [
        &[0xC0, 0, 0x12, 0xB5][..],
        &udp.to_be_bytes(),
        &[0, 0, 8, 0, 0, 0, 0, 0, 100, 0],
        &bridged,
    ]
    .concat();
    let vxlan = ip(other_end, router, 17, &vxlan);
    let tagged = frame(
        mac(0),
        &[0x81, 0, 0, 10, 8, 0],
        &packet([10, 0, 10, 2], far, 120),
    );
    let to = |dst| ethernet(mac(1), &packet([10, 1, 0, 9], dst, 250));
    let back = [
        [10, 0, 10, 2],
        [30, 0, 0, 1],
        [192, 168, 9, 2],
        [10, 0, 3, 2],
        [10, 0, 4, 2],
    ];
    let bond = ethernet(mac(3), &packet([10, 0, 3, 2], far, 90));
    let bvi = ethernet(mac(4), &packet([10, 0, 4, 2], far, 400));
    let all = [
        (
            "pg0",
            vec![tagged, ethernet(mac(0), &gre), ethernet(mac(0), &vxlan)],
        ),
        ("pg1", back.map(to).to_vec()),
        ("pg2", vec![bond.clone()]),
        ("pg3", vec![bond]),
        ("pg4", vec![bvi]),
    ];
    all.into_iter()
        .map(|(name, frames)| {
            let file = dir.join(format!("{name}.pcap"));
            write_pcap(&file, &frames);
            format!(
                "packet-generator new {{ name {name} rate 10000 limit {PACKETS} interface {name} node ethernet-input pcap {} }}",
                file.display()
            )
        })
        .collect()
}

const SETUP: &str = "\
create packet-generator interface pg0 hw-addr 02:fe:00:00:00:00
create packet-generator interface pg1 hw-addr 02:fe:00:00:00:01
create packet-generator interface pg2
create packet-generator interface pg3
create packet-generator interface pg4
create sub-interfaces pg0 10
create gre tunnel src 10.0.0.1 dst 10.0.0.2
create vxlan tunnel src 10.0.0.1 dst 10.0.0.2 vni 100
create bond mode round-robin hw-addr 02:fe:00:00:00:03
create loopback interface
set interface mac address vxlan_tunnel0 02:fe:00:00:00:09
set interface mac address loop0 02:fe:00:00:00:04
bond add BondEthernet0 pg2
bond add BondEthernet0 pg3
set interface l2 bridge pg4 1
set interface l2 bridge loop0 1 bvi
set interface ip address pg0 10.0.0.1/24
set interface ip address pg1 10.1.0.1/16
set interface ip address pg0.10 10.0.10.1/24
set interface ip address gre0 192.168.0.1/30
set interface ip address vxlan_tunnel0 192.168.9.1/24
set interface ip address BondEthernet0 10.0.3.1/24
set interface ip address loop0 10.0.4.1/24
set interface state pg0 up
set interface state pg1 up
set interface state pg2 up
set interface state pg3 up
set interface state pg4 up
set interface state pg0.10 up
set interface state gre0 up
set interface state vxlan_tunnel0 up
set interface state BondEthernet0 up
set interface state loop0 up
ip neighbor pg0 10.0.0.2 02:00:00:00:00:01 static
ip neighbor pg1 10.1.0.2 02:00:00:00:00:02 static
ip neighbor pg0.10 10.0.10.2 02:00:00:00:00:03 static
ip neighbor vxlan_tunnel0 192.168.9.2 02:00:00:00:00:04 static
ip neighbor BondEthernet0 10.0.3.2 02:00:00:00:00:05 static
ip neighbor loop0 10.0.4.2 02:00:00:00:00:06 static
ip route add 20.0.0.0/8 via 10.1.0.2
ip route add 30.0.0.0/8 via gre0
sflow agent-address 192.0.2.9
sflow polling-interval 1
sflow host-interval 0
sflow direction both
sflow collector add 127.0.0.1 port 6343";

/// A counter of an interface.
fn counter(shown: &Value, name: &str, key: &str) -> u64 {
    let all = shown.as_array().unwrap();
    let i = all.iter().find(|i| i["name"] == name);
    let i = i.unwrap_or_else(|| panic!("{name}: {shown}"));
    i["counters"][key]
        .as_u64()
        .unwrap_or_else(|| panic!("{key}: {i}"))
}

/// Packets of one source's pools, and what they should be.
fn assert_pools(router: &Router) {
    let (sflow, shown) = (
        router.json("show sflow interfaces"),
        router.json("show interface"),
    );
    let rows = sflow["interfaces"].as_array().unwrap();
    for (name, if_index) in SOURCES {
        let row = rows.iter().find(|r| r["interface"] == name).unwrap();
        assert_eq!(row["ifindex"], if_index, "{row}");
        for (way, key) in [("rx", "rx_packets"), ("tx", "tx_packets")] {
            let pool = row[way]["pool"].as_u64().unwrap();
            // What announces an address goes out before sampling is on.
            let before = counter(&shown, name, key).checked_sub(pool);
            assert!(
                before.is_some_and(|n| n < 10),
                "{name} {way}: {before:?} {row}"
            );
            assert!(pool > PACKETS / 10, "{name} {way}: {row}");
            assert_eq!(row[way]["drops"], 0, "{name} {way}: {row}");
        }
    }
}

/// Runs a tool on a capture; what it said.
fn tool(args: &[&str]) -> (bool, String) {
    let out = Command::new(parshall()).args(args).output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    (out.status.success(), text)
}

#[test]
fn interfaces_without_a_device_are_sources_like_any_other() {
    let ns = Netns::new("r");
    let dir = tempfile::tempdir().unwrap();
    let pcap = dir.path().join("sflow.pcap");
    let path = pcap.display().to_string();
    let _collector = ns.spawn(&format!("{} sflow decode -p 6343", parshall().display()));
    ns.await_port(6343);
    let dump = ns.spawn(&format!("tcpdump -U -i lo -w {path} udp port 6343"));
    until("tcpdump writes", || pcap.exists());
    let mut lines: Vec<String> = SETUP.lines().map(str::to_owned).collect();
    lines.extend(SOURCES.map(|(name, _)| format!("sflow enable {name} sampling-rate 20")));
    lines.extend(streams(dir.path()));
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let router = Router::start(&ns, &lines);
    router.ctl("packet-generator enable-stream");
    until("all packets came", || {
        let shown = router.json("show interface");
        let came = |i| counter(&shown, i, "rx_packets") >= PACKETS;
        ["pg0", "pg1", "pg2", "pg3", "pg4"].into_iter().all(came)
    });
    assert_pools(&router);
    // Counters of all are told once more, now that nothing changes.
    let told = |r: &Router| r.json("show sflow")["agent"]["counter_samples"].as_u64();
    let before = told(&router);
    until("counters were told", || {
        told(&router) >= before.map(|n| n + 12)
    });
    assert!(router.stop());
    std::thread::sleep(std::time::Duration::from_millis(300));
    drop(dump);

    let bad = must(
        "tshark",
        &[
            "-r",
            &path,
            "-d",
            "udp.port==6343,sflow",
            "-Y",
            "_ws.malformed",
        ],
    );
    let bad = bad.lines().filter(|l| !l.contains("Running as user"));
    assert_eq!(bad.count(), 0);
    let (fine, text) = tool(&["sflow", "lint", "--polling-interval", "2", &path]);
    assert!(fine, "{text}");
    let (fine, text) = tool(&["sflow", "verify", &path]);
    assert!(fine && text.contains(" 0 wrong"), "{text}");
    assert_records(&path);
}

/// Each source has samples of both ways with itself at one end, and counters of its kind.
fn assert_records(path: &str) {
    let (_, json) = tool(&["sflow", "decode", "-r", path, "-j"]);
    let mut ways: BTreeMap<u64, [u64; 2]> = BTreeMap::new();
    let mut kinds: BTreeMap<u64, String> = BTreeMap::new();
    let mut vlans = 0;
    for line in json.lines() {
        let d: Value = serde_json::from_str(line).unwrap();
        for s in d["samples"].as_array().unwrap() {
            let source = s["sourceId"].as_str().unwrap();
            let source: u64 = source.split_once(':').unwrap().1.parse().unwrap();
            let elements = s["elements"].as_array().unwrap();
            if s["sampleType"] == "FLOWSAMPLE" {
                let at = |key: &str| number(&s[key]) == Some(source);
                let (came, left) = (at("inputPort"), at("outputPort"));
                assert!(came || left, "{s}");
                ways.entry(source).or_default()[usize::from(left)] += 1;
                let header = elements
                    .iter()
                    .find(|e| e["flowSampleType"] == "HEADER")
                    .unwrap();
                // What a GRE tunnel for packets carries begins with IPv4.
                let want = if source == 7 { 11 } else { 1 };
                assert_eq!(number(&header["headerProtocol"]), Some(want), "{s}");
                continue;
            }
            for e in elements {
                if let Some(n) = number(&e["networkType"]) {
                    kinds.insert(source, n.to_string());
                }
                vlans += u64::from(number(&e["in_vlan"]) == Some(10));
            }
        }
    }
    assert_eq!(ways.len(), SOURCES.len(), "{ways:?}");
    for (source, n) in &ways {
        assert!(n[0] > 100 && n[1] > 100, "{source}: {n:?}");
    }
    let types: Vec<&str> = kinds.values().map(String::as_str).collect();
    assert_eq!(types, ["135", "131", "131", "161", "6"]);
    assert!(vlans > 0);
}

/// A number, however the decoder writes it.
fn number(v: &Value) -> Option<u64> {
    v.as_u64().or_else(|| v.as_str()?.parse().ok())
}

/// What makes interfaces of each kind, but for those whose name says their place: in any order the numbers are the same.
const MADE: [(&str, &str); 8] = [
    ("pg0.10", "create sub-interfaces pg0 10"),
    ("pg0.20", "create sub-interfaces pg0 20"),
    (
        "gre0",
        "create gre tunnel src 10.0.0.1 dst 10.0.0.2 instance 0",
    ),
    (
        "gre1",
        "create gre tunnel src 10.0.0.1 dst 10.0.0.3 instance 1",
    ),
    (
        "vxlan_tunnel7",
        "create vxlan tunnel src 10.0.0.1 dst 10.0.0.2 vni 7 instance 7",
    ),
    ("BondEthernet3", "create bond id 3 mode round-robin"),
    ("loop2", "create loopback interface instance 2"),
    ("tap5", "create tap id 5 host-if-name behind"),
];

/// What deletes one of them again.
fn unmade(name: &str) -> String {
    let made = MADE.iter().find(|m| m.0 == name).unwrap().1;
    match name {
        "pg0.10" | "pg0.20" => format!("delete sub-interface {name}"),
        "vxlan_tunnel7" => format!("{made} del"),
        "BondEthernet3" => format!("delete bond {name}"),
        _ => format!("delete gre tunnel {name}"),
    }
}

/// A router whose numbers are kept in `file`, which makes the interfaces of these names in this order.
fn numbered(ns: &Netns, file: &Path, kind: &str, names: &[&str]) -> Router {
    let ports = ["pg0", "pg1"].map(|i| format!("  - create packet-generator interface {i}\n"));
    let made = names.iter().map(|n| {
        let (_, line) = MADE.iter().find(|m| m.0 == *n).unwrap();
        format!("  - {line}\n")
    });
    let commands: String = ports.into_iter().chain(made).collect();
    let config = format!(
        "cli: {{socket: SOCKET}}\nsflow: {{ifindex-file: {}, ifindex: {kind}, agent-address: 192.0.2.9, polling-interval: 1, \
         host-interval: 0, direction: both, sampling-rate: 2, collectors: ['127.0.0.1:6343']}}\ncommands:\n{commands}",
        file.display()
    );
    Router::start_with(ns, &config)
}

/// ifIndexes by name.
fn numbers(router: &Router) -> BTreeMap<String, u64> {
    let shown = router.json("show sflow interfaces");
    let rows = shown["interfaces"].as_array().unwrap().iter();
    rows.map(|r| {
        let name = r["interface"].as_str().unwrap().to_owned();
        (name, r["ifindex"].as_u64().unwrap())
    })
    .collect()
}

/// What those of them that are there in `now` were.
fn assert_kept(before: &BTreeMap<String, u64>, now: &BTreeMap<String, u64>, there: usize) {
    assert_eq!(now.len(), there, "{now:?}");
    for (name, number) in now {
        assert_eq!(Some(number), before.get(name), "{name}: {before:?} {now:?}");
    }
}

#[test]
fn numbers_go_with_names_whatever_is_made_and_deleted_around_them() {
    let ns = Netns::new("r");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("numbers");
    let all = MADE.map(|m| m.0);
    let router = numbered(&ns, &file, "parshall", &all);
    let first = numbers(&router);
    assert_eq!(first.len(), 10, "{first:?}");
    assert!(first.values().all(|n| *n < 100), "{first:?}");
    // Made again in another order, beside those that stayed.
    let again = ["gre0", "pg0.20", "BondEthernet3", "vxlan_tunnel7"];
    for name in again {
        router.ctl(&unmade(name));
    }
    assert_kept(&first, &numbers(&router), 6);
    for name in again.iter().rev() {
        router.ctl(MADE.iter().find(|m| m.0 == *name).unwrap().1);
    }
    assert_kept(&first, &numbers(&router), 10);
    assert!(router.stop());
    // After a restart that knows only some, in another order; the others come back later.
    let some = ["loop2", "gre1", "vxlan_tunnel7", "pg0.10"];
    let router = numbered(&ns, &file, "parshall", &some);
    assert_kept(&first, &numbers(&router), 6);
    for name in ["tap5", "BondEthernet3", "pg0.20", "gre0"] {
        router.ctl(MADE.iter().find(|m| m.0 == name).unwrap().1);
    }
    assert_kept(&first, &numbers(&router), 10);
    assert!(router.stop());
    // Linux's own: the tap's, and for the others their own behind the offset.
    let mut linux: BTreeMap<String, u64> = first.clone();
    linux.values_mut().for_each(|n| *n += OFFSET);
    let router = numbered(&ns, &file, "linux", &all);
    until("the tap's number is known", || {
        let line = ns.run("cat /sys/class/net/behind/ifindex");
        linux.insert("tap5".to_owned(), line.trim().parse().unwrap());
        numbers(&router) == linux
    });
    for name in again {
        router.ctl(&unmade(name));
    }
    assert_kept(&linux, &numbers(&router), 6);
    for name in again.iter().rev() {
        router.ctl(MADE.iter().find(|m| m.0 == *name).unwrap().1);
    }
    assert_kept(&linux, &numbers(&router), 10);
    assert!(router.stop());
}

/// What is added to numbers without a Linux interface.
const OFFSET: u64 = 1_000_000_000;

#[test]
fn no_datagram_has_numbers_of_two_kinds() {
    let ns = Netns::new("r");
    let dir = tempfile::tempdir().unwrap();
    let (file, out) = (dir.path().join("numbers"), dir.path().join("decoded"));
    let collector = format!("{} sflow decode -j -p 6343", parshall().display());
    let collector = ns.spawn_to(&collector, &out, &dir.path().join("log"));
    ns.await_port(6343);
    let router = numbered(&ns, &file, "parshall", &["pg0.10", "gre1"]);
    let setup = SETUP.lines().filter(|l| {
        let of = |words: &[&str]| words.iter().any(|w| l.contains(w));
        of(&["set interface ip", "set interface state", "ip neighbor"]) && of(&["pg0", "pg1"])
    });
    for line in setup {
        router.ctl(line);
    }
    for line in [
        "set interface ip address gre1 192.168.0.1/30",
        "set interface state gre1 up",
        "ip neighbor pg0 10.0.0.3 02:00:00:00:00:01 static",
        "ip route add 20.0.0.0/8 via 10.1.0.2",
        "ip route add 30.0.0.0/8 via gre1",
        "sflow enable pg0",
        "sflow enable pg1",
        "sflow enable pg0.10",
        "sflow enable gre1",
    ] {
        router.ctl(line);
    }
    for line in streams(dir.path()).iter().take(2) {
        router.ctl(&line.replace(&format!("limit {PACKETS}"), "limit 1000000"));
    }
    router.ctl("packet-generator enable-stream");
    let sent = || {
        router.json("show sflow")["agent"]["datagrams"]
            .as_u64()
            .unwrap()
    };
    for kind in ["linux", "parshall"].iter().cycle().take(8) {
        let before = sent();
        until("datagrams with these numbers", || sent() > before + 20);
        router.ctl(&format!("sflow ifindex {kind}"));
        // The generation of interfaces changes too.
        router.ctl("create loopback interface instance 9");
        router.ctl("delete loopback interface loop9");
    }
    assert!(router.stop());
    ns.await_read(6343);
    collector.end("-INT");
    let known: Vec<u64> = (1..=4).collect();
    let (mut ours, mut theirs) = (0, 0);
    for line in std::fs::read_to_string(out).unwrap().lines() {
        let d: Value = serde_json::from_str(line).unwrap();
        let ends = ends(&d);
        let is_ours = ends.iter().all(|n| known.contains(n));
        let is_theirs = ends
            .iter()
            .all(|n| n.checked_sub(OFFSET).is_some_and(|n| known.contains(&n)));
        assert!(is_ours || is_theirs, "a mix: {line}");
        ours += u32::from(is_ours && !ends.is_empty());
        theirs += u32::from(is_theirs && !ends.is_empty());
    }
    assert!(ours > 80 && theirs > 80, "{ours} {theirs}");
}

/// All numbers of interfaces in a datagram; internal and unknown are of no kind.
fn ends(datagram: &Value) -> Vec<u64> {
    let samples = datagram["samples"].as_array().unwrap();
    let of_sample = |s: &Value| {
        let source = s["sourceId"].as_str().unwrap().split_once(':').unwrap();
        let elements = s["elements"].as_array().unwrap().iter();
        let mut all: Vec<u64> = elements.filter_map(|e| number(&e["ifIndex"])).collect();
        all.push(source.1.parse().unwrap());
        all.extend(
            ["inputPort", "outputPort"]
                .iter()
                .filter_map(|k| number(&s[*k])),
        );
        all
    };
    let all = samples.iter().flat_map(of_sample);
    all.filter(|n| *n != 0 && *n != 0x3FFF_FFFF).collect()
}
