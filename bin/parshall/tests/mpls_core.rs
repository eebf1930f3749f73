//! Two hosts across an MPLS core of three routers: labels pushed, swapped and popped both ways.

mod support;

use support::{Netns, Router, connect, host, router_port};

/// Host A - PE1 - P - PE2 - host B.
struct Core {
    a: Netns,
    b: Netns,
    _routers: [(Netns, Router); 3],
}

fn port(ns: &Netns, peer: &Netns, own: &str, other: &str) {
    connect(ns, own, peer, other);
    router_port(ns, own);
    router_port(peer, other);
}

/// Interface `name` with addresses, up, MPLS on.
fn labelled(name: &str, v4: &str, v6: &str) -> Vec<String> {
    vec![
        format!("create host-interface name {name}"),
        format!("set interface ip address host-{name} {v4}"),
        format!("set interface ip address host-{name} {v6}"),
        format!("set interface state host-{name} up"),
        format!("set interface mpls host-{name} enable"),
    ]
}

fn start(ns: &Netns, interfaces: &[Vec<String>], rest: &[&str]) -> Router {
    let mut all: Vec<&str> = vec!["mpls table add 0"];
    all.extend(interfaces.iter().flatten().map(String::as_str));
    all.extend(rest);
    Router::start(ns, &all)
}

fn core() -> Core {
    let (a, b) = (Netns::new("a"), Netns::new("b"));
    let (pe1, p, pe2) = (Netns::new("pe1"), Netns::new("p"), Netns::new("pe2"));
    connect(&a, "eth0", &pe1, "edge");
    router_port(&pe1, "edge");
    connect(&b, "eth0", &pe2, "edge");
    router_port(&pe2, "edge");
    port(&pe1, &p, "core", "west");
    port(&p, &pe2, "east", "core");
    host(
        &a,
        "eth0",
        "10.1.0.2/24",
        "2001:db8:a::2/64",
        "10.1.0.1",
        "2001:db8:a::1",
    );
    host(
        &b,
        "eth0",
        "10.2.0.2/24",
        "2001:db8:b::2/64",
        "10.2.0.1",
        "2001:db8:b::1",
    );
    let r1 = start(
        &pe1,
        &[
            labelled("edge", "10.1.0.1/24", "2001:db8:a::1/64"),
            labelled("core", "192.168.1.1/24", "fd00:1::1/64"),
        ],
        &[
            "ip route add 10.2.0.0/24 via 192.168.1.2 host-core out-labels 100",
            "ip route add 2001:db8:b::/64 via fd00:1::2 host-core out-labels 106",
            "mpls local-label add 201 eos via ip4-lookup-in-table 0",
            "mpls local-label add 207 eos via ip6-lookup-in-table 0",
        ],
    );
    let rp = start(
        &p,
        &[
            labelled("west", "192.168.1.2/24", "fd00:1::2/64"),
            labelled("east", "192.168.2.1/24", "fd00:2::1/64"),
        ],
        &[
            "mpls local-label add 100 eos via 192.168.2.2 host-east out-labels 101",
            "mpls local-label add 106 eos via fd00:2::2 host-east out-labels 107",
            "mpls local-label add 200 eos via 192.168.1.1 host-west out-labels 201",
            "mpls local-label add 206 eos via fd00:1::1 host-west out-labels 207",
        ],
    );
    let r2 = start(
        &pe2,
        &[
            labelled("edge", "10.2.0.1/24", "2001:db8:b::1/64"),
            labelled("core", "192.168.2.2/24", "fd00:2::2/64"),
        ],
        &[
            "ip route add 10.1.0.0/24 via 192.168.2.1 host-core out-labels 200",
            "ip route add 2001:db8:a::/64 via fd00:2::1 host-core out-labels 206",
            "mpls local-label add 101 eos via ip4-lookup-in-table 0",
            "mpls local-label add 107 eos via ip6-lookup-in-table 0",
        ],
    );
    Core {
        a,
        b,
        _routers: [(pe1, r1), (p, rp), (pe2, r2)],
    }
}

#[test]
fn ping_traceroute_tcp_and_path_mtu_cross_the_core() {
    let t = core();
    t.a.eventually("ping -c 1 -W 1 10.2.0.2", 15);
    t.a.eventually("ping -c 1 -W 1 2001:db8:b::2", 15);
    for to in ["10.2.0.2", "2001:db8:b::2"] {
        let out = t.a.run(&format!("ping -c 20 -i 0.02 -W 1 {to}"));
        support::assert_answered(&out);
    }
    let hops = t.a.run("traceroute -n -q 1 -w 1 10.2.0.2");
    assert!(
        hops.contains(" 1  10.1.0.1") && hops.contains("  10.2.0.2"),
        "{hops}"
    );
    let hops = t.a.run("traceroute -6 -n -q 1 -w 1 2001:db8:b::2");
    assert!(
        hops.contains(" 1  2001:db8:a::1") && hops.contains("  2001:db8:b::2"),
        "{hops}"
    );
    // A label takes four bytes of every link of the core.
    let (_, out) = t.a.try_run("ping -M do -c 2 -i 0.2 -W 1 -s 1472 10.2.0.2");
    assert!(out.contains("1496"), "{out}");
    let (_, out) = t.a.try_run("ping -c 2 -i 0.2 -W 1 -s 1452 2001:db8:b::2");
    assert!(
        t.a.ip("-6 route get 2001:db8:b::2").contains("mtu 1496"),
        "{out}"
    );
    let _server = t.b.spawn("iperf3 -s");
    for to in ["10.2.0.2", "2001:db8:b::2"] {
        t.a.eventually(&format!("iperf3 -c {to} -t 1"), 10);
        t.a.run(&format!("iperf3 -c {to} -t 2"));
        t.a.run(&format!("iperf3 -u -b 10M -c {to} -t 1"));
    }
}
