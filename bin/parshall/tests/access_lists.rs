//! Access lists between two Linux hosts: what is permitted gets through, in either direction and family; what is denied
//! is dropped, counted by rule and by reason, and told to a collector.

mod support;

use serde_json::Value;
use support::{Netns, Router, TwoHosts, assert_answered, parshall, until};

const LINKS: [&str; 10] = [
    "create host-interface name left",
    "create host-interface name right",
    "set interface state host-left up",
    "set interface state host-right up",
    "set interface ip address host-left 10.0.1.1/24",
    "set interface ip address host-right 10.0.2.1/24",
    "set interface ip address host-left 2001:db8:1::1/64",
    "set interface ip address host-right 2001:db8:2::1/64",
    "sflow agent-address 192.0.2.9",
    "sflow collector add 127.0.0.1 port 6343",
];

/// Waits for a server on a TCP port, in either family.
fn listens(ns: &Netns, port: u16) {
    let filter = format!("ss -Hltn sport = :{port}");
    until("a server listens", || !ns.run(&filter).is_empty());
}

/// Whether a TCP connection from `ns` to a port comes about.
fn connects(ns: &Netns, to: &str, port: u16) -> bool {
    let program = format!("import socket;socket.create_connection(('{to}',{port}),2).close()");
    let mut c = ns.command("python3 -c");
    c.arg(program).output().unwrap().status.success()
}

/// Serves TCP on two ports of all addresses until it is ended.
const SERVER: &str = "import socket,threading\n\
def serve(port):\n\
\x20   s=socket.create_server(('::',port),family=socket.AF_INET6,dualstack_ipv6=True)\n\
\x20   while True: s.accept()[0].close()\n\
for p in (80,81): threading.Thread(target=serve,args=(p,)).start()\n";

fn drops(router: &Router, reason: &str) -> u64 {
    let shown = router.json("show drops");
    let rows = shown["drops"].as_array().unwrap();
    let row = rows.iter().find(|d| d["reason"] == reason);
    row.map_or(0, |d| d["count"].as_u64().unwrap())
}

/// Packets that the rules of a list have decided.
fn decided(router: &Router, list: usize) -> Vec<u64> {
    let shown = router.json(&format!("show acl-plugin acl index {list}"));
    let rules = shown[0]["rules"].as_array().unwrap();
    let packets = |r: &Value| r["packets"].as_u64().unwrap();
    rules.iter().map(packets).collect()
}

#[test]
fn lists_permit_and_deny_both_ways_and_say_so() {
    let net = TwoHosts::new();
    let dir = tempfile::tempdir().unwrap();
    let lists = [
        // Into the left port: port 80 and pings, of either family.
        "set acl-plugin acl permit proto tcp dport 80, permit proto icmp, permit ip6 proto tcp dport 80, \
         permit proto icmp6",
        // Out of the left port: nothing from the second address of B.
        "set acl-plugin acl deny src 10.0.2.3/32, deny src 2001:db8:2::3/128, permit ip4, permit ip6",
        "set acl-plugin interface host-left input acl 0",
        "set acl-plugin interface host-left output acl 1",
        "sflow drop-monitoring limit 1000",
    ];
    let router = Router::start(&net.r, &[&LINKS[..], &lists].concat());
    let samples = dir.path().join("samples");
    let log = dir.path().join("log");
    let decode = format!("{} sflow decode -p 6343 -j", parshall().display());
    let _collector = net.r.spawn_to(&decode, &samples, &log);
    net.r.await_port(6343);
    net.b.ip("addr add 10.0.2.3/24 dev eth0");
    net.b.ip("addr add 2001:db8:2::3/64 dev eth0 nodad");
    let server = dir.path().join("server.py");
    std::fs::write(&server, SERVER).unwrap();
    let _server = net.b.spawn(&format!("python3 {}", server.display()));
    listens(&net.b, 80);
    listens(&net.b, 81);
    for to in ["10.0.2.2", "2001:db8:2::2"] {
        net.a.eventually(&format!("ping -c 1 -W 1 {to}"), 10);
        let out = net.a.run(&format!("ping -c 5 -i 0.05 -W 1 {to}"));
        assert_answered(&out);
        assert!(connects(&net.a, to, 80), "{to}");
        let before = drops(&router, "acl_deny");
        assert!(!connects(&net.a, to, 81), "{to}");
        assert!(drops(&router, "acl_deny") > before);
    }
    // The way out: answers from that address do not get through.
    for to in ["10.0.2.3", "2001:db8:2::3"] {
        let before = drops(&router, "acl_deny");
        let (ok, out) = net.a.try_run(&format!("ping -c 2 -i 0.2 -W 1 {to}"));
        assert!(!ok, "{out}");
        assert_eq!(drops(&router, "acl_deny"), before + 2);
    }
    assert_eq!(decided(&router, 1)[..2], [2, 2]);
    let input = decided(&router, 0);
    // A connection is a SYN, an ACK and a FIN at least.
    assert!(input.iter().all(|n| *n >= 3), "{input:?}");
    // Replaced in use: the other port now, and not the first.
    router.ctl("set acl-plugin acl index 0 permit proto tcp dport 81, permit ip6 proto tcp dport 81, permit proto icmp6");
    for to in ["10.0.2.2", "2001:db8:2::2"] {
        assert!(
            connects(&net.a, to, 81) && !connects(&net.a, to, 80),
            "{to}"
        );
    }
    until("the drops are told", || {
        let told = std::fs::read_to_string(&samples).unwrap_or_default();
        let told = told.lines().filter(|l| l.contains("\"acl\""));
        told.count() >= 3
    });
    router.ctl("set acl-plugin interface host-left input acl 0 del");
    assert!(connects(&net.a, "10.0.2.2", 80));
    assert!(router.stop());
}
