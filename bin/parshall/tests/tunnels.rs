//! Tunnels between Parshall and the Linux kernel: a host behind the router talks to the kernel at the other end, and
//! tshark judges what is on the wire between the two.
//!
//! host `h` -- 10.0.1.0/24, 2001:db8:1::/64 -- router `r` -- 192.0.2.0/24, 2001:db8:ff::/64 -- peer `p`

mod support;

use std::path::{Path, PathBuf};

use support::guest::scene;
use support::{Netns, Router, assert_answered, connect, host, must, router_port, until};

/// The three of them.
struct Net {
    h: Netns,
    r: Netns,
    p: Netns,
}

impl Net {
    fn new() -> Net {
        let (h, r, p) = (Netns::new("h"), Netns::new("r"), Netns::new("p"));
        for (ns, port) in [(&h, "left"), (&p, "right")] {
            connect(ns, "eth0", &r, port);
            router_port(&r, port);
            // A veth hands over super-frames; inside tunnels nobody takes those apart.
            ns.run("ethtool -K eth0 tx off tso off gso off");
        }
        host(
            &h,
            "eth0",
            "10.0.1.2/24",
            "2001:db8:1::2/64",
            "10.0.1.1",
            "2001:db8:1::1",
        );
        p.ip("addr add 192.0.2.2/24 dev eth0");
        p.ip("addr add 2001:db8:ff::2/64 dev eth0 nodad");
        // What is behind the peer.
        p.ip("addr add 10.0.9.1/32 dev lo");
        p.ip("addr add 2001:db8:9::1/128 dev lo nodad");
        Net { h, r, p }
    }

    /// A router with both links, and these commands.
    fn router(&self, extra: &[&str]) -> Router {
        let links = [
            "create host-interface name left",
            "create host-interface name right",
            "set interface state host-left up",
            "set interface state host-right up",
            "set interface ip address host-left 10.0.1.1/24",
            "set interface ip address host-left 2001:db8:1::1/64",
            "set interface ip address host-right 192.0.2.1/24",
            "set interface ip address host-right 2001:db8:ff::1/64",
        ];
        Router::start(&self.r, &[&links, extra].concat())
    }

    /// Captures what is on the wire between router and peer.
    fn capture(&self, to: &Path) -> support::Process {
        let log = to.with_extension("log");
        let line = format!("tcpdump --immediate-mode -U -i eth0 -w {}", to.display());
        let dump = self.p.spawn_to(&line, &to.with_extension("out"), &log);
        let listens = || std::fs::read_to_string(&log).is_ok_and(|t| t.contains("listening"));
        until("tcpdump listens", listens);
        dump
    }

    /// Pings from the host, small and as long as the link carries, and a TCP transfer each way.
    fn talk(&self, to: &str) {
        self.h.eventually(&format!("ping -c 1 -W 1 {to}"), 20);
        for size in [56, 1200] {
            let out = self
                .h
                .run(&format!("ping -c 5 -i 0.05 -W 2 -s {size} {to}"));
            assert_answered(&out);
        }
        self.transfer(to);
    }

    /// 100 kB each way by TCP.
    fn transfer(&self, to: &str) {
        let _server = self.p.spawn("iperf3 -s");
        let port = || !self.p.run("ss -Hltn sport = :5201").is_empty();
        until("iperf3 listens", port);
        for way in ["", "-R"] {
            // It has no patience of its own that ends.
            let out = self
                .h
                .run(&format!("timeout 60 iperf3 -c {to} -n 100K {way}"));
            assert!(out.contains("iperf Done"), "{out}");
        }
    }
}

/// Fields of the packets of a capture that `filter` takes. Checksums are looked at.
fn tshark(capture: &Path, filter: &str, fields: &[&str]) -> Vec<Vec<String>> {
    let path = capture.display().to_string();
    let mut args = vec!["-n", "-r", &path, "-Y", filter, "-T", "fields"];
    for check in ["ip.check_checksum:TRUE", "udp.check_checksum:TRUE"] {
        args.extend(["-o", check]);
    }
    args.extend(fields.iter().flat_map(|f| ["-e", f]));
    let text = must("tshark", &args);
    // Its warnings are on other lines.
    let rows = text.lines().filter(|l| !l.starts_with("Running as"));
    rows.map(|l| l.split('\t').map(str::to_owned).collect())
        .collect()
}

/// Nothing malformed in a capture, no wrong checksum; and of `protocol`, packets of ours that left with a TTL of 254,
/// or 255 where the router itself spoke.
fn judge(capture: &Path, protocol: &str) {
    // What iperf3 fills its segments with can look like a broken message of some protocol.
    let bad =
        "(_ws.malformed && !(tcp.len > 0)) || ip.checksum.status == 0 || udp.checksum.status == 0";
    let found = tshark(capture, bad, &["frame.number", "_ws.col.Info"]);
    assert!(found.is_empty(), "{found:?}");
    let ours = format!("({protocol}) && (ip.src == 192.0.2.1 || ipv6.src == 2001:db8:ff::1)");
    let ttls = tshark(capture, &ours, &["ip.ttl", "ipv6.hlim"]);
    assert!(ttls.len() > 10, "{protocol}: {} packets", ttls.len());
    // The outer header is the first one of the kind that carries it.
    let outer = |row: &Vec<String>| {
        let first = |f: &String| f.split(',').next().unwrap_or_default().to_owned();
        let all: Vec<String> = row.iter().map(first).collect();
        all.iter().any(|ttl| ["254", "255"].contains(&ttl.as_str()))
    };
    let wrong = ttls.iter().find(|row| !outer(row));
    assert!(wrong.is_none(), "{protocol}: {wrong:?}");
}

/// One kind of tunnel for packets.
struct Kind {
    /// What the router is told.
    create: &'static str,
    /// Its interface there.
    name: &'static str,
    /// What the peer's kernel is told.
    peer: &'static str,
    /// Bytes of its headers.
    overhead: u32,
    /// Families it carries.
    families: &'static [u8],
    /// tshark's filter for it.
    filter: &'static str,
}

const KINDS: [Kind; 5] = [
    Kind {
        create: "create ipip tunnel src 192.0.2.1 dst 192.0.2.2",
        name: "ipip0",
        peer: "ipip local 192.0.2.2 remote 192.0.2.1",
        overhead: 20,
        families: &[4],
        filter: "ip.proto == 4",
    },
    Kind {
        create: "create ipip tunnel src 192.0.2.1 dst 192.0.2.2",
        name: "ipip0",
        peer: "sit local 192.0.2.2 remote 192.0.2.1",
        overhead: 20,
        families: &[6],
        filter: "ip.proto == 41",
    },
    Kind {
        create: "create ipip tunnel src 2001:db8:ff::1 dst 2001:db8:ff::2",
        name: "ipip0",
        peer: "ip6tnl mode any encaplimit none local 2001:db8:ff::2 remote 2001:db8:ff::1",
        overhead: 40,
        families: &[4, 6],
        filter: "ipv6.nxt == 4 || ipv6.nxt == 41",
    },
    Kind {
        create: "create gre tunnel src 192.0.2.1 dst 192.0.2.2",
        name: "gre0",
        peer: "gre local 192.0.2.2 remote 192.0.2.1",
        overhead: 24,
        families: &[4, 6],
        filter: "gre",
    },
    Kind {
        create: "create gre tunnel src 2001:db8:ff::1 dst 2001:db8:ff::2",
        name: "gre0",
        peer: "ip6gre encaplimit none local 2001:db8:ff::2 remote 2001:db8:ff::1",
        overhead: 44,
        families: &[4, 6],
        filter: "gre",
    },
];

/// Modules of the kernel's tunnels.
const MODULES: &str = "ipip sit ip6_tunnel ip_gre ip6_gre";

#[test]
fn packets_in_ip_and_packets_and_frames_in_gre() {
    let name = "packets_in_ip_and_packets_and_frames_in_gre";
    let packets = |dir: &Path, n: usize| dir.join(format!("packets{n}.pcap"));
    let frames = |dir: &Path, n: usize| dir.join(format!("frames{n}.pcap"));
    let played = scene(name, MODULES, |dir| {
        let net = Net::new();
        for (n, kind) in KINDS.iter().enumerate() {
            eprintln!("{}", kind.peer);
            packets_through(&net, kind, packets(dir, n));
        }
        for (n, kind) in GRETAP.iter().enumerate() {
            eprintln!("{}", kind.peer);
            frames_through(kind, frames(dir, n));
        }
    });
    let Some(dir) = played else { return };
    for (n, kind) in KINDS.iter().enumerate() {
        judge(&packets(dir.path(), n), kind.filter);
    }
    for (n, kind) in GRETAP.iter().enumerate() {
        judge(&frames(dir.path(), n), kind.filter);
    }
}

fn packets_through(net: &Net, kind: &Kind, capture: PathBuf) {
    let name = kind.name;
    let mtu = 1500 - kind.overhead;
    let router = net.router(&[
        kind.create,
        &format!("set interface state {name} up"),
        &format!("set interface ip address {name} 10.0.5.1/30"),
        &format!("enable ip6 interface {name}"),
        &format!("set interface mtu packet {mtu} {name}"),
        &format!("ip route add 10.0.9.0/24 via {name}"),
        &format!("ip route add 2001:db8:9::/48 via {name}"),
    ]);
    // What the kernel sends on its own account would be counted too.
    net.p.sysctl("net.ipv6.conf.default.router_solicitations=0");
    net.p.ip(&format!("link add tun9 type {}", kind.peer));
    net.p.ip(&format!("link set tun9 up mtu {mtu}"));
    net.p.ip("route add 10.0.1.0/24 dev tun9 src 10.0.9.1");
    net.p
        .ip("-6 route add 2001:db8:1::/64 dev tun9 src 2001:db8:9::1");
    let dump = net.capture(&capture);
    for family in kind.families {
        let to = ["10.0.9.1", "2001:db8:9::1"][usize::from(*family == 6)];
        net.talk(to);
        sizes(net, *family, to, mtu);
        hops(net, *family, to);
        counted(net, &router, name, *family, to);
    }
    dump.end("-INT");
    net.p.ip("link del tun9");
    assert!(router.stop());
}

/// A tunnel counts the packets inside, without what is put around them, as the kernel at the other end does.
fn counted(net: &Net, router: &Router, name: &str, family: u8, to: &str) {
    let ours = || {
        let shown = router.json("show interface");
        let mut all = shown.as_array().unwrap().iter();
        let i = all.find(|i| i["name"] == name).unwrap();
        let of = |key: &str| i["counters"][key].as_u64().unwrap_or(0);
        [
            of("tx_packets"),
            of("tx_bytes"),
            of("rx_packets"),
            of("rx_bytes"),
        ]
    };
    let theirs = || {
        let shown: serde_json::Value =
            serde_json::from_str(&net.p.ip("-s -j link show tun9")).unwrap();
        let of = |way: &str, key: &str| shown[0]["stats64"][way][key].as_u64().unwrap();
        [
            ("rx", "packets"),
            ("rx", "bytes"),
            ("tx", "packets"),
            ("tx", "bytes"),
        ]
        .map(|(w, k)| of(w, k))
    };
    let since = |now: [u64; 4], before: [u64; 4]| [0, 1, 2, 3].map(|i| now[i] - before[i]);
    let before = (ours(), theirs());
    let out = net.h.run(&format!("ping -c 5 -i 0.05 -W 2 -s 1200 {to}"));
    assert_answered(&out);
    let bytes = 5 * (1200 + if family == 6 { 48 } else { 28 });
    let want = [5, bytes, 5, bytes];
    until(&format!("{name} counts what the kernel counts"), || {
        since(ours(), before.0) == want && since(theirs(), before.1) == want
    });
}

/// What does not fit the tunnel: the sender is told, or it is cut where it may be.
fn sizes(net: &Net, family: u8, to: &str, mtu: u32) {
    let headers = if family == 6 { 48 } else { 28 };
    net.h.ip("route flush cache");
    net.h.ip("-6 route flush cache");
    let (ok, out) = net
        .h
        .try_run(&format!("ping -M do -c 1 -W 2 -s {} {to}", 1500 - headers));
    let told = [format!("mtu = {mtu}"), format!("mtu={mtu}")];
    assert!(!ok && told.iter().any(|t| out.contains(t)), "{out}");
    let fits = format!("ping -M do -c 3 -i 0.05 -W 2 -s {} {to}", mtu - headers);
    assert_answered(&net.h.run(&fits));
    if family == 4 {
        net.h.ip("route flush cache");
        let out = net
            .h
            .run(&format!("ping -M dont -c 3 -i 0.05 -W 2 -s 1472 {to}"));
        assert_answered(&out);
    }
}

/// The router is one hop, the tunnel none.
fn hops(net: &Net, family: u8, to: &str) {
    let (ok, out) = net.h.try_run(&format!("ping -n -t 1 -c 1 -W 2 {to}"));
    let (router, said) = match family {
        4 => ("10.0.1.1", "Time to live exceeded"),
        _ => ("2001:db8:1::1", "Hop limit"),
    };
    assert!(!ok && out.contains(router) && out.contains(said), "{out}");
    net.h.run(&format!("ping -n -t 2 -c 1 -W 2 {to}"));
}

/// One kind of tunnel for frames.
struct L2Kind {
    create: &'static str,
    name: &'static str,
    peer: &'static str,
    filter: &'static str,
    /// Outer packets may be fragmented, by both ends.
    fragments: bool,
}

/// The kernel of every machine has these.
const VXLAN: [L2Kind; 2] = [
    L2Kind {
        create: "create vxlan tunnel src 192.0.2.1 dst 192.0.2.2 vni 77",
        name: "vxlan_tunnel0",
        peer: "vxlan id 77 local 192.0.2.2 remote 192.0.2.1 dstport 4789",
        filter: "vxlan.vni == 77",
        fragments: true,
    },
    L2Kind {
        create: "create vxlan tunnel src 2001:db8:ff::1 dst 2001:db8:ff::2 vni 16777215",
        name: "vxlan_tunnel0",
        peer: "vxlan id 16777215 local 2001:db8:ff::2 remote 2001:db8:ff::1 dstport 4789",
        filter: "vxlan.vni == 16777215",
        fragments: false,
    },
];

/// These need modules.
const GRETAP: [L2Kind; 2] = [
    L2Kind {
        create: "create gre tunnel src 192.0.2.1 dst 192.0.2.2 teb",
        name: "gre0",
        peer: "gretap local 192.0.2.2 remote 192.0.2.1",
        filter: "gre.proto == 0x6558",
        fragments: false,
    },
    L2Kind {
        create: "create gre tunnel src 2001:db8:ff::1 dst 2001:db8:ff::2 teb",
        name: "gre0",
        peer: "ip6gretap encaplimit none local 2001:db8:ff::2 remote 2001:db8:ff::1",
        filter: "gre.proto == 0x6558",
        fragments: false,
    },
];

#[test]
fn frames_in_vxlan() {
    let dir = tempfile::tempdir().unwrap();
    for (n, kind) in VXLAN.iter().enumerate() {
        let capture = dir.path().join(format!("{n}.pcap"));
        frames_through(kind, capture.clone());
        judge(&capture, kind.filter);
        let pieces = tshark(&capture, "ip.frag_offset > 0", &["ip.src"]);
        for end in ["192.0.2.1", "192.0.2.2"] {
            let from = pieces.iter().any(|p| p[0].starts_with(end));
            assert_eq!(from, kind.fragments, "{end}: {pieces:?}");
        }
    }
}

/// The peer is in one bridge domain with the host, and a loopback routes for both.
fn frames_through(kind: &L2Kind, capture: PathBuf) {
    let net = Net::new();
    let name = kind.name;
    let router = Router::start(
        &net.r,
        &[
            "create host-interface name left",
            "create host-interface name right",
            "set interface state host-left up",
            "set interface state host-right up",
            "set interface ip address host-right 192.0.2.1/24",
            "set interface ip address host-right 2001:db8:ff::1/64",
            kind.create,
            &format!("set interface state {name} up"),
            "create bridge-domain 7",
            "set interface l2 bridge host-left 7",
            &format!("set interface l2 bridge {name} 7"),
            "create loopback interface",
            "set interface state loop0 up",
            "set interface l2 bridge loop0 7 bvi",
            "set interface ip address loop0 10.0.1.1/24",
            "set interface ip address loop0 2001:db8:1::1/64",
        ],
    );
    net.p.ip(&format!("link add tun9 type {}", kind.peer));
    net.p.ip("addr add 10.0.1.9/24 dev tun9");
    net.p.ip("addr add 2001:db8:1::9/64 dev tun9 nodad");
    net.p.ip("link set tun9 up mtu 1400");
    let dump = net.capture(&capture);
    for to in ["10.0.1.9", "2001:db8:1::9"] {
        net.talk(to);
    }
    for to in ["10.0.1.1", "2001:db8:1::1"] {
        net.p.eventually(&format!("ping -c 1 -W 1 {to}"), 20);
    }
    if kind.fragments {
        fragments(&net, "10.0.1.9");
    }
    dump.end("-INT");
    assert!(router.stop());
}

/// Frames of the full length make two outer packets: the kernel puts together what comes from us, and we what comes from it.
fn fragments(net: &Net, to: &str) {
    net.p.ip("link set tun9 mtu 1500");
    let out = net.h.run(&format!("ping -c 5 -i 0.05 -W 2 -s 1472 {to}"));
    assert_answered(&out);
    let out = net.h.run(&format!("ping -c 3 -i 0.05 -W 2 -s 9000 {to}"));
    assert_answered(&out);
}
