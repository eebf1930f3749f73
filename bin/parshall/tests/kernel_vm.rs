//! The netlink exporter against a stock kernel: Debian's, in a virtual machine, because psample and drop_monitor are not in
//! every kernel that tests run on.
//!
//! In the guest (`kernel_vm/guest.sh`) a router samples every packet it receives and reports drops. Packets of known bytes
//! come from a generator; the kernel's own sampler (`tc ... action sample`) takes others. What arrives on the channels is
//! read by `parshall sflow psample` and by a script on bare sockets (`kernel_vm/reader.py`), and compared here byte by byte;
//! Debian's dropwatch reads the drops too, while the kernel reports its own on the same channel.

mod support;
#[path = "kernel_vm/wire.rs"]
mod wire;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use support::parshall;
use wire::{Message, attributes, get, hex, number, string, tagged, udp4, udp6, unhex};

/// Seconds for the guest, from its start; it needs a tenth of that on an idle machine, and without KVM a sixth.
const LIMIT: &str = "170";
/// Packets of the generator that are forwarded.
const FORWARDED: usize = 40;

/// A file of this repository.
fn file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path)
}

/// Frames that are dropped: why, as NET_DM names it (node, trap group, trap, kernel's reason), and the frame.
fn dropped() -> Vec<([&'static str; 4], Vec<u8>)> {
    let no_route = udp4([203, 0, 113, 1], 64, 0x51, 60);
    let expired = udp4([10, 2, 0, 2], 1, 0x52, 60);
    vec![
        (
            ["ip4-lookup", "l3_exceptions", "ipv4_lpm_miss", ""],
            no_route,
        ),
        (
            ["ip4-rewrite", "l3_exceptions", "ttl_value_is_too_small", ""],
            expired,
        ),
        (
            ["ethernet-input", "l2_drops", "ingress_vlan_filter", ""],
            tagged(),
        ),
        (
            [
                "ip6-input",
                "l3_drops",
                "vpp_ip6_not_enabled",
                "IPV6DISABLED",
            ],
            udp6(40),
        ),
    ]
}

/// Everything the guest left behind.
struct Outcome {
    dir: tempfile::TempDir,
    forwarded: Vec<Vec<u8>>,
    kernel: Vec<Vec<u8>>,
}

impl Outcome {
    fn text(&self, name: &str) -> String {
        let path = self.dir.path().join(name);
        fs::read_to_string(&path).unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    fn json(&self, name: &str) -> Value {
        let text = self.text(name);
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{name}: {e}: {text}"))
    }

    fn lines(&self, name: &str) -> Vec<Value> {
        let text = self.text(name);
        let read = |l| serde_json::from_str(l).unwrap_or_else(|e| panic!("{name}: {e}: {l}"));
        text.lines().map(read).collect()
    }

    fn index(&self, name: &str) -> u64 {
        self.text(name).trim().parse().unwrap()
    }

    /// Messages of a channel that the script saw, with the number of its family.
    fn messages(&self, channel: &str) -> Vec<(u64, Message)> {
        let all = self.lines("messages");
        let of = all.iter().filter(|l| l["channel"] == channel);
        of.map(|l| {
            let bytes = unhex(l["bytes"].as_str().unwrap());
            (l["family"].as_u64().unwrap(), Message::of(&bytes))
        })
        .collect()
    }
}

/// Runs the guest.
fn run() -> Outcome {
    let dir = tempfile::tempdir().unwrap();
    let forwarded: Vec<_> = (0..FORWARDED as u8)
        .map(|i| udp4([10, 2, 0, 2], 64, i, 40 + 5 * usize::from(i)))
        .collect();
    let kernel: Vec<_> = (0..5u8)
        .map(|i| udp4([192, 0, 2, 1], 9, 0xA0 + i, 50))
        .collect();
    let drops: Vec<_> = dropped().into_iter().map(|d| d.1).collect();
    let put = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
    wire::write_pcap(&dir.path().join("packets.pcap"), &forwarded);
    wire::write_pcap(&dir.path().join("drops.pcap"), &drops);
    put(
        "kernel.hex",
        &kernel.iter().map(|f| hex(f) + " ").collect::<String>(),
    );
    put("expected", &(forwarded.len() + drops.len()).to_string());
    put("router.yaml", &config(dir.path()));
    for name in ["guest.sh", "reader.py"] {
        let from = file("bin/parshall/tests/kernel_vm").join(name);
        fs::copy(from, dir.path().join(name)).unwrap();
    }
    let modules = "psample act_sample cls_matchall sch_ingress drop_monitor veth";
    let out = Command::new(file("tests/kvm-lab"))
        .args(["-t", LIMIT, "-m", "1024", "-M", modules, "-w"])
        .arg(dir.path())
        .args(["--", "bash"])
        .arg(dir.path().join("guest.sh"))
        .arg(parshall())
        .arg(dir.path())
        .output()
        .unwrap_or_else(|e| panic!("tests/kvm-lab: {e}"));
    let log = fs::read_to_string(dir.path().join("log")).unwrap_or_default();
    assert!(
        out.status.success(),
        "{}{}\nrouter:\n{log}",
        String::from_utf8_lossy(&out.stdout),
        String::from_utf8_lossy(&out.stderr)
    );
    Outcome {
        dir,
        forwarded,
        kernel,
    }
}

fn config(dir: &Path) -> String {
    let dir = dir.display();
    format!(
        "cli: {{socket: /run/parshall.sock}}\n\
         interfaces:\n\
         \x20 pg0: {{mac: 02:fe:00:00:00:01, addresses: [10.1.0.1/24], sflow: {{sampling-rate: 1}}}}\n\
         \x20 host-left: {{host-interface: left, addresses: [10.2.0.1/24]}}\n\
         neighbors:\n\
         \x20 - {{interface: host-left, address: 10.2.0.2, mac: 02:aa:00:00:00:03}}\n\
         \x20 - {{interface: pg0, address: 10.1.0.9, mac: 02:aa:00:00:00:02}}\n\
         sflow: {{polling-interval: 2, netlink: true, drop-limit: 1000}}\n\
         packet-generator:\n\
         \x20 streams:\n\
         \x20   - {{name: packets, interface: pg0, pcap: {dir}/packets.pcap, enabled: false}}\n\
         \x20   - {{name: drops, interface: pg0, pcap: {dir}/drops.pcap, enabled: false}}\n"
    )
}

#[test]
fn a_stock_kernel_carries_samples_counters_and_drops() {
    let o = run();
    our_listener_reads_what_was_sent(&o);
    the_kernels_samples_read_the_same(&o);
    samples_are_as_specified(&o);
    samples_on_the_way_out_know_more(&o);
    states_are_as_specified(&o);
    counters_are_as_specified_and_right(&o);
    alerts_are_as_specified(&o);
    dropwatch_reads_the_same(&o);
    the_router_knows_who_listens(&o);
}

/// Samples of group 3 in the order of their numbers, as our listener printed them.
fn ours(o: &Outcome) -> Vec<Value> {
    let all = o.lines("samples").into_iter();
    all.filter(|s| s["group"] == 3).collect()
}

fn our_listener_reads_what_was_sent(o: &Outcome) {
    let samples = ours(o);
    let mut sent = BTreeMap::new();
    let drops = dropped().into_iter().map(|d| d.1);
    for frame in o.forwarded.iter().cloned().chain(drops) {
        *sent.entry(hex(&frame)).or_insert(0) += 1;
    }
    let mut seen = BTreeMap::new();
    for (i, s) in samples.iter().enumerate() {
        assert_eq!(s["sequence"], i as u64 + 1, "{s}");
        assert_eq!(
            (&s["rate"], &s["protocol"], &s["input"]),
            (&1.into(), &1.into(), &1.into()),
            "{s}"
        );
        let header = s["header"].as_str().unwrap();
        // 128 bytes of each are kept.
        let whole: Vec<_> = sent.keys().filter(|f| f.starts_with(header)).collect();
        assert_eq!(whole.len(), 1, "{s}");
        assert_eq!(s["length"], whole[0].len() as u64 / 2, "{s}");
        assert_eq!(header.len(), whole[0].len().min(256), "{s}");
        *seen.entry(whole[0].clone()).or_insert(0) += 1;
        let forwarded = o.forwarded.iter().any(|f| hex(f) == *whole[0]);
        assert!(!forwarded || s["output"] == 2, "{s}");
    }
    assert_eq!(seen, sent);
}

fn the_kernels_samples_read_the_same(o: &Outcome) {
    let all = o.lines("samples");
    let kernel: Vec<_> = all.iter().filter(|s| s["group"] == 9).collect();
    let headers: Vec<_> = kernel
        .iter()
        .map(|s| s["header"].as_str().unwrap().to_owned())
        .collect();
    let want: Vec<_> = o.kernel.iter().map(|f| hex(f)).collect();
    assert_eq!(headers, want);
    for s in kernel {
        assert_eq!(s["input"], o.index("kernel.index"), "{s}");
        assert_eq!(
            (&s["rate"], &s["length"], &s["protocol"]),
            (&1.into(), &92.into(), &0x0800.into()),
            "{s}"
        );
    }
}

/// The router's process, from the ports of its sockets: `(kind << 16) + process`.
fn process(o: &Outcome) -> u32 {
    let usersock = o.messages("usersock");
    usersock[0].1.port - (1 << 16)
}

/// Types of attributes and lengths of their values.
fn shape(all: &[(u16, Vec<u8>)]) -> Vec<(u16, usize)> {
    all.iter().map(|a| (a.0, a.1.len())).collect()
}

fn samples_are_as_specified(o: &Outcome) {
    let all = o.messages("psample");
    let mine = all
        .iter()
        .filter(|(_, m)| get(&m.attributes(4), 3) == 3u32.to_ne_bytes());
    let printed = ours(o);
    let mut count = 0;
    for ((family, m), printed) in mine.zip(&printed) {
        assert_eq!((u64::from(m.kind), m.flags), (*family, 0));
        assert_eq!(m.port, (2 << 16) + process(o));
        assert_eq!(m.body[..4], [0, 1, 0, 0], "command SAMPLE, version 1");
        let a = m.attributes(4);
        let header = get(&a, 6);
        let words: Vec<_> = (0..=5u16).map(|k| (k, 4)).collect();
        let rest = [(6, header.len()), (13, 8), (14, 2)];
        assert_eq!(shape(&a), [words, rest.to_vec()].concat());
        // What the listener printed is what the script on bare sockets saw.
        assert_eq!(printed["header"], hex(header));
        for (kind, key) in (0u16..).zip(["input", "output", "length", "group", "sequence", "rate"])
        {
            assert_eq!(printed[key], number(get(&a, kind)), "{key}");
        }
        assert_eq!(printed["timestamp"], number(get(&a, 13)));
        // A wall clock of the guest: after 2020 and not in the far future.
        let seconds = number(get(&a, 13)) / 1_000_000_000;
        assert!(
            (1_577_836_800..7_000_000_000).contains(&seconds),
            "{seconds}"
        );
        count += 1;
    }
    assert_eq!(count, printed.len());
}

/// Group 4: the same packets when they left, with queue and delay.
fn samples_on_the_way_out_know_more(o: &Outcome) {
    let all = o.messages("psample");
    let mut last = 0;
    let mut idents = Vec::new();
    for (_, m) in &all {
        let a = m.attributes(4);
        if number(get(&a, 3)) != 4 {
            continue;
        }
        let sequence = number(get(&a, 4));
        assert_eq!(sequence, last + 1);
        last = sequence;
        // What the router sends on its own account came in nowhere.
        if number(get(&a, 0)) == 0 {
            continue;
        }
        let header = get(&a, 6);
        let words: Vec<_> = (0..=5u16).map(|k| (k, 4)).collect();
        let rest = [(6, header.len()), (10, 2), (12, 8), (13, 8), (14, 2)];
        assert_eq!(shape(&a), [words, rest.to_vec()].concat());
        assert_eq!((number(get(&a, 0)), number(get(&a, 1))), (1, 2));
        assert_eq!(number(get(&a, 10)), 0, "the one queue");
        assert!(number(get(&a, 12)) > 0, "a delay");
        // Rewritten: to the neighbour, a hop less.
        assert_eq!(
            (hex(&header[..6]).as_str(), header[22]),
            ("02aa00000003", 63)
        );
        idents.push(header[19]);
    }
    idents.sort_unstable();
    assert_eq!(idents, (0..FORWARDED as u8).collect::<Vec<_>>());
}

fn states_are_as_specified(o: &Outcome) {
    let all = o.messages("usersock");
    let mut uptime = None;
    let mut states = 0;
    for (i, (_, m)) in all.iter().enumerate() {
        assert_eq!((m.flags, m.port), (0, (1 << 16) + process(o)));
        let a = m.attributes(0);
        assert_eq!(number(get(&a, 23)), u64::from(m.sequence));
        assert_eq!(
            m.sequence,
            all[0].1.sequence + i as u32,
            "no message is missing"
        );
        if m.kind != 1 {
            assert_eq!(m.kind, 2);
            continue;
        }
        states += 1;
        assert_eq!(shape(&a), [(20, 4), (22, 4), (23, 4)]);
        assert_eq!(number(get(&a, 22)), 0, "nothing was lost");
        // One a second; a machine that was busy elsewhere for longer leaves seconds out.
        let now = number(get(&a, 20));
        assert!(uptime.is_none_or(|before| now > before), "{uptime:?} {now}");
        uptime = Some(now);
    }
    assert!(states >= 4, "{states}");
}

fn counters_are_as_specified_and_right(o: &Outcome) {
    let shown = o.json("interfaces.json");
    let mut last = BTreeMap::new();
    for (_, m) in o.messages("usersock").iter().filter(|(_, m)| m.kind == 2) {
        let a = m.attributes(0);
        let name = String::from_utf8(get(&a, 0).to_vec()).unwrap();
        let lengths = [(1, 4), (2, 4), (3, 8), (4, 4), (5, 4), (6, 4)];
        let counters: Vec<_> = (7..=18u16).map(|k| (k, 8)).collect();
        let all = [
            &[(0, name.len())][..],
            &lengths,
            &counters,
            &[(19, 6), (21, 4), (23, 4)],
        ];
        assert_eq!(shape(&a), all.concat());
        last.insert(name, a);
    }
    assert_eq!(last.keys().collect::<Vec<_>>(), ["host-left", "pg0"]);
    for i in shown.as_array().unwrap() {
        let Some(a) = last.get(i["name"].as_str().unwrap()) else {
            continue;
        };
        let c = &i["counters"];
        let sum = |names: &[&str]| names.iter().map(|n| c[*n].as_u64().unwrap()).sum::<u64>();
        for (kind, names) in [
            (7, &["rx_bytes"][..]),
            (8, &["tx_bytes"]),
            (9, &["rx_packets"]),
            (10, &["tx_packets"]),
            (11, &["rx_broadcast"]),
            (12, &["tx_broadcast"]),
            (13, &["rx_multicast"]),
            (14, &["tx_multicast"]),
            (15, &["rx_drops", "rx_missed", "rx_no_buffer"]),
            (16, &["tx_drops"]),
            (17, &["rx_errors"]),
            (18, &["tx_errors"]),
        ] {
            assert_eq!(
                number(get(a, kind)),
                sum(names),
                "{names:?} of {}",
                i["name"]
            );
        }
        assert_eq!(number(get(a, 1)), i["index"].as_u64().unwrap());
        assert_eq!((number(get(a, 5)), number(get(a, 6))), (1, 1), "up");
    }
    let of = |name: &str, kind| number(get(&last[name], kind));
    assert_eq!(of("pg0", 9), (FORWARDED + dropped().len()) as u64);
    assert!(of("host-left", 10) >= FORWARDED as u64);
    assert_eq!(hex(get(&last["pg0"], 19)), hex(&wire::ROUTER));
    // The Linux interface behind a port, and none.
    assert_eq!(
        (of("host-left", 21), of("pg0", 21)),
        (o.index("left.index"), 0)
    );
}

fn alerts_are_as_specified(o: &Outcome) {
    let all = o.messages("dropmon");
    let mut wanted = dropped();
    // The kernel's own alerts have no sender.
    for (family, m) in all.iter().filter(|(_, m)| m.port != 0) {
        assert_eq!((u64::from(m.kind), m.flags), (*family, 0));
        assert_eq!(m.port, (3 << 16) + process(o));
        assert_eq!(m.body[..4], [5, 0, 0, 0], "command PACKET_ALERT, version 0");
        let a = m.attributes(4);
        let frame = get(&a, 7).to_vec();
        let Some(at) = wanted.iter().position(|w| w.1 == frame) else {
            continue;
        };
        let (names, _) = wanted.swap_remove(at);
        let text = |kind| string(get(&a, kind));
        let reason = a
            .iter()
            .find(|x| x.0 == 23)
            .map_or(String::new(), |x| string(&x.1));
        assert_eq!([text(3), text(15), text(16), reason], names);
        // A nested attribute says so; pg0 has no Linux interface, so its number is above hsflowd's offset.
        let port = attributes(get(&a, 4 | 0x8000));
        assert_eq!(shape(&port), [(0, 4), (1, 4)]);
        assert_eq!(number(get(&port, 0)), 1_000_000_001);
        assert_eq!(string(get(&port, 1)), "pg0");
        let n = frame.len() as u64;
        assert_eq!((number(get(&a, 9)), number(get(&a, 10))), (n, n));
        assert_eq!(
            get(&a, 6),
            u16::from_be_bytes([frame[12], frame[13]]).to_ne_bytes()
        );
        assert_eq!(get(&a, 14), [0, 0], "origin: software");
        assert_eq!(get(&a, 5).len(), 8);
        let mut types: Vec<_> = [3, 0x8004, 5, 6, 7, 9, 10, 14, 15, 16].to_vec();
        types.extend((!names[3].is_empty()).then_some(23));
        assert_eq!(a.iter().map(|x| x.0).collect::<Vec<_>>(), types);
    }
    let missing: Vec<_> = wanted.iter().map(|w| w.0).collect();
    assert!(missing.is_empty(), "{missing:?} among {all:?}");
}

fn dropwatch_reads_the_same(o: &Outcome) {
    let printed = o.text("dropwatch.log");
    for ([_, group, trap, reason], frame) in dropped() {
        let place = format!("drop at: {trap} ({group})\n");
        let alert = printed.split("\n\n").find(|a| a.contains(&place));
        let alert = alert.unwrap_or_else(|| panic!("no {place} in {printed}"));
        let length = format!("original length: {}", frame.len());
        for line in ["origin: software", "input port name: pg0", &length] {
            assert!(alert.contains(line), "{line}: {alert}");
        }
        assert!(
            alert.contains(&format!("drop reason: {reason}")) || reason.is_empty(),
            "{alert}"
        );
    }
}

fn the_router_knows_who_listens(o: &Outcome) {
    let sflow = o.json("sflow.json");
    let channels = sflow["agent"]["netlink"]["channels"].as_array().unwrap();
    let of = |name: &str| channels.iter().find(|c| c["channel"] == name).unwrap();
    // The script, on PSAMPLE our listener too, and dropwatch.
    for (name, listeners) in [("psample", 2), ("usersock", 1), ("dropmon", 2)] {
        let c = of(name);
        assert_eq!(
            (&c["state"], &c["listeners"]),
            (&"ready".into(), &listeners.into()),
            "{c}"
        );
        assert_eq!(c["failed"], 0, "{c}");
    }
    let samples = o.lines("samples");
    let own = samples.iter().filter(|s| s["group"] != 9).count();
    assert_eq!(of("psample")["sent"], own as u64);
}
