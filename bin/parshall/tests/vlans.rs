//! VLANs and bonds between Parshall and the Linux kernel: hosts with 802.1Q, 802.1ad and stacked tags, routed and switched
//! with every tag rewrite; bonds with the kernel's bonding driver at the other end.

mod support;

use std::io::Write;
use std::process::{Command, Stdio};

use support::guest::scene;
use support::{Netns, Router, assert_answered, connect, router_port, until};

const MODULES: &str = "8021q bonding";

/// Two hosts, each with a link to the router.
fn hosts() -> (Netns, Netns, Netns) {
    let (a, b, r) = (Netns::new("a"), Netns::new("b"), Netns::new("r"));
    for (ns, port) in [(&a, "left"), (&b, "right")] {
        connect(ns, "eth0", &r, port);
        router_port(&r, port);
    }
    (a, b, r)
}

const PORTS: [&str; 4] = [
    "create host-interface name left",
    "create host-interface name right",
    "set interface state host-left up",
    "set interface state host-right up",
];

/// Makes a kernel interface with these tags over `over` and gives it an IPv4 and an IPv6 address that end with `host`; `tags` is
/// like `q100` or `ad200.q300`, empty for none. Says its name.
fn tagged(ns: &Netns, over: &str, tags: &str, net: u32, host: u32) -> String {
    let mut name = over.to_owned();
    let mut lines = String::new();
    for tag in tags.split('.').filter(|t| !t.is_empty()) {
        let split = tag.find(|c: char| c.is_ascii_digit()).unwrap();
        let (kind, id) = tag.split_at(split);
        let proto = ["802.1Q", "802.1ad"][usize::from(kind == "ad")];
        lines +=
            &format!("link add link {name} name {name}.{id} type vlan proto {proto} id {id}\n");
        name += &format!(".{id}");
        lines += &format!("link set {name} up\n");
    }
    lines += &format!("addr add 10.{net}.0.{host}/24 dev {name}\n");
    lines += &format!("addr add 2001:db8:{net}::{host}/64 dev {name} nodad\n");
    // The outer one of two tags may be there already; what is missing afterwards is seen by those who use it.
    let mut ip = Command::new("ip");
    ip.args(["-n", &ns.name, "-force", "-batch", "-"]);
    let mut child = ip
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(lines.as_bytes()).unwrap();
    drop(stdin);
    child.wait().unwrap();
    name
}

/// A small packet and larger ones are answered.
fn ping(from: &Netns, to: &str) {
    from.eventually(&format!("ping -c 1 -W 1 {to}"), 20);
    let out = from.run(&format!("ping -c 3 -i 0.05 -W 2 -s 1000 {to}"));
    assert_answered(&out);
}

fn ping4(from: &Netns, net: u32, host: u32) {
    ping(from, &format!("10.{net}.0.{host}"));
}

/// In both families.
fn pings(from: &Netns, net: u32, host: u32) {
    ping4(from, net, host);
    ping(from, &format!("2001:db8:{net}::{host}"));
}

#[test]
fn tags_and_bonds_with_the_kernel() {
    scene("tags_and_bonds_with_the_kernel", MODULES, |_| {
        tagged_hosts_are_routed();
        tags_are_rewritten_between_hosts();
        for (theirs, ours) in BONDS {
            eprintln!("{theirs}, {ours}");
            bond(theirs, ours);
        }
    });
}

fn tagged_hosts_are_routed() {
    let (a, b, r) = hosts();
    // Number and match of a sub-interface, and the tags of the host.
    let subs = [
        (100, "", "q100"),
        (200, " dot1ad 200 exact-match", "ad200"),
        (201, " dot1ad 200 inner-dot1q 201 exact-match", "ad200.q201"),
        (110, " dot1q 110 inner-dot1q 111 exact-match", "q110.q111"),
        (1, " untagged", ""),
    ];
    let mut commands: Vec<String> = PORTS.map(str::to_owned).to_vec();
    for (net, (id, takes, _)) in (10..).zip(&subs) {
        let sub = format!("host-left.{id}");
        commands.push(format!("create sub-interfaces host-left {id}{takes}"));
        commands.push(format!("set interface state {sub} up"));
        commands.push(format!("set interface ip address {sub} 10.{net}.0.254/24"));
        commands.push(format!(
            "set interface ip address {sub} 2001:db8:{net}::254/64"
        ));
    }
    commands.push("set interface ip address host-right 10.9.0.254/24".into());
    commands.push("set interface ip address host-right 2001:db8:9::254/64".into());
    let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
    let router = Router::start(&r, &commands);
    for (net, (_, _, tags)) in (10..).zip(&subs) {
        tagged(&a, "eth0", tags, net, 1);
    }
    tagged(&b, "eth0", "", 9, 1);
    for net in 10..10 + subs.len() as u32 {
        for (family, dst, via) in [
            ("", "10.9.0.0/24", format!("10.{net}.0.254")),
            ("-6 ", "2001:db8:9::/64", format!("2001:db8:{net}::254")),
        ] {
            a.ip(&format!("{family}route replace {dst} via {via}"));
        }
        if net == 10 {
            b.ip("route add default via 10.9.0.254");
            b.ip("-6 route add default via 2001:db8:9::254");
        }
        pings(&a, net, 254);
        pings(&a, 9, 1);
    }
    // A VLAN that nobody has.
    let name = tagged(&a, "eth0", "q999", 99, 1);
    let (ok, _) = a.try_run(&format!("ping -c 1 -W 1 -I {name} 10.99.0.2"));
    assert!(!ok);
    let shown = router.json("show drops");
    let rows = shown["drops"].as_array().unwrap();
    assert!(
        rows.iter().any(|d| d["reason"] == "unknown_vlan"),
        "{shown}"
    );
    assert!(router.stop());
}

/// A cross-connect of two sub-interfaces: tags and match on the left, on the right, and what is rewritten.
struct Cross {
    left: (&'static str, &'static str),
    right: (&'static str, &'static str),
    rewrite: &'static [(&'static str, &'static str)],
}

/// Of each rewrite one; the number of a row is that of its sub-interfaces and networks.
const CROSSES: [Cross; 10] = [
    Cross {
        left: ("q101", "dot1q 101 exact-match"),
        right: ("q201", "dot1q 201 exact-match"),
        rewrite: &[("left", "pop 1"), ("right", "pop 1")],
    },
    Cross {
        left: ("q102", "dot1q 102 exact-match"),
        right: ("q202", "dot1q 202 exact-match"),
        rewrite: &[("left", "translate 1-1 dot1q 202")],
    },
    Cross {
        left: ("", "untagged"),
        right: ("q203", "dot1q 203 exact-match"),
        rewrite: &[("left", "push dot1q 203")],
    },
    Cross {
        left: ("q104", "dot1q 104 exact-match"),
        right: ("ad204.q104", "dot1ad 204 inner-dot1q 104 exact-match"),
        rewrite: &[("left", "push dot1ad 204")],
    },
    Cross {
        left: ("q105.q115", "dot1q 105 inner-dot1q 115 exact-match"),
        right: ("q205", "dot1q 205 exact-match"),
        rewrite: &[("left", "pop 2"), ("right", "pop 1")],
    },
    Cross {
        left: ("q106", "dot1q 106 exact-match"),
        right: ("ad206.q216", "dot1ad 206 inner-dot1q 216 exact-match"),
        rewrite: &[("left", "translate 1-2 dot1ad 206 216")],
    },
    Cross {
        left: ("q107.q117", "dot1q 107 inner-dot1q 117 exact-match"),
        right: ("q207", "dot1q 207 exact-match"),
        rewrite: &[("left", "translate 2-1 dot1q 207")],
    },
    Cross {
        left: ("q108.q118", "dot1q 108 inner-dot1q 118 exact-match"),
        right: ("ad208.q218", "dot1ad 208 inner-dot1q 218 exact-match"),
        rewrite: &[("left", "translate 2-2 dot1ad 208 218")],
    },
    // Any inner tag, carried along; and whatever else comes.
    Cross {
        left: ("q109.q55", "dot1q 109 inner-dot1q any"),
        right: ("q109.q55", "dot1q 109 inner-dot1q any"),
        rewrite: &[],
    },
    Cross {
        left: ("q900", "default"),
        right: ("q900", "default"),
        rewrite: &[],
    },
];

fn tags_are_rewritten_between_hosts() {
    let (a, b, r) = hosts();
    let mut commands: Vec<String> = PORTS.map(str::to_owned).to_vec();
    for (n, c) in (1..).zip(&CROSSES) {
        for (port, takes) in [("left", c.left.1), ("right", c.right.1)] {
            commands.push(format!("create sub-interfaces host-{port} {n} {takes}"));
            commands.push(format!("set interface state host-{port}.{n} up"));
        }
        for (x, y) in [("left", "right"), ("right", "left")] {
            commands.push(format!(
                "set interface l2 xconnect host-{x}.{n} host-{y}.{n}"
            ));
        }
        for (port, how) in c.rewrite {
            commands.push(format!(
                "set interface l2 tag-rewrite host-{port}.{n} {how}"
            ));
        }
    }
    // A bridge domain in which frames have no tags, with a routed interface.
    commands.extend(["create bridge-domain 5", "create loopback interface"].map(str::to_owned));
    for (port, vlan) in [("left", 150), ("right", 250)] {
        let sub = format!("host-{port}.{vlan}");
        commands.push(format!("create sub-interfaces host-{port} {vlan}"));
        commands.push(format!("set interface state {sub} up"));
        commands.push(format!("set interface l2 bridge {sub} 5"));
        commands.push(format!("set interface l2 tag-rewrite {sub} pop 1"));
    }
    for line in [
        "set interface l2 bridge loop0 5 bvi",
        "set interface state loop0 up",
        "set interface ip address loop0 10.50.0.254/24",
        "set interface ip address loop0 2001:db8:50::254/64",
    ] {
        commands.push(line.into());
    }
    let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
    let router = Router::start(&r, &commands);
    for (n, c) in (1..).zip(&CROSSES) {
        tagged(&a, "eth0", c.left.0, n, 1);
        tagged(&b, "eth0", c.right.0, n, 2);
        eprintln!("{} to {}: {:?}", c.left.0, c.right.0, c.rewrite);
        ping4(&a, n, 2);
    }
    tagged(&a, "eth0", "q150", 50, 1);
    tagged(&b, "eth0", "q250", 50, 2);
    pings(&a, 50, 2);
    pings(&a, 50, 254);
    pings(&b, 50, 254);
    assert!(router.stop());
}

/// Mode of the kernel's bond, of ours, and ours for who wants more.
const BONDS: [(&str, &str); 3] = [
    ("802.3ad miimon 50 lacp_rate fast", "lacp load-balance l34"),
    ("active-backup miimon 50", "active-backup"),
    ("balance-xor miimon 50", "xor load-balance l23"),
];

fn bond(theirs: &str, ours: &str) {
    let (a, r) = (Netns::new("a"), Netns::new("r"));
    a.ip(&format!("link add bond0 type bond mode {theirs}"));
    for n in [0, 1] {
        connect(&a, &format!("eth{n}"), &r, &format!("port{n}"));
        router_port(&r, &format!("port{n}"));
        a.ip(&format!("link set eth{n} down"));
        a.ip(&format!("link set eth{n} master bond0"));
    }
    a.ip("link set bond0 up");
    tagged(&a, "bond0", "", 7, 1);
    tagged(&a, "bond0", "q30", 30, 1);
    let router = Router::start(
        &r,
        &[
            "create host-interface name port0",
            "create host-interface name port1",
            &format!("create bond mode {ours}"),
            "bond add BondEthernet0 host-port0",
            "bond add BondEthernet0 host-port1",
            "set interface state BondEthernet0 up",
            "set interface ip address BondEthernet0 10.7.0.254/24",
            "set interface ip address BondEthernet0 2001:db8:7::254/64",
            "create sub-interfaces BondEthernet0 30",
            "set interface state BondEthernet0.30 up",
            "set interface ip address BondEthernet0.30 10.30.0.254/24",
            "set interface ip address BondEthernet0.30 2001:db8:30::254/64",
        ],
    );
    let active = |n: usize| {
        let shown = router.json("show bond");
        shown[0]["active_members"].as_array().unwrap().len() == n
    };
    until("both members can send", || active(2));
    pings(&a, 7, 254);
    ping4(&a, 30, 254);
    // One link fails, then the other one in its place.
    for (gone, back) in [("eth0", None), ("eth1", Some("eth0"))] {
        if let Some(back) = back {
            a.ip(&format!("link set {back} up"));
            until("a member is back", || active(2));
        }
        a.ip(&format!("link set {gone} down"));
        until("a member is gone", || active(1));
        ping4(&a, 7, 254);
        ping4(&a, 30, 254);
    }
    assert!(router.stop());
}
