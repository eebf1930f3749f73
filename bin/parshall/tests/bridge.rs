//! A bridge domain between Linux hosts, over real veth links and kernel stacks, with a loopback as the hosts' gateway;
//! and what a flood of invented station addresses does to them.

mod support;

use support::{Netns, Router, connect, host, router_port};

/// Hosts a, b and c in one bridge domain, 10.0.1.0/24; host d behind a routed interface, 10.0.9.0/24.
struct Net {
    bridged: Vec<Netns>,
    routed: Netns,
    router: Router,
}

fn net(extra: &[&str]) -> Net {
    let r = Netns::new("r");
    let mut commands: Vec<String> = vec!["create bridge-domain 7 mac-age 1".into()];
    let mut bridged = Vec::new();
    for (n, name) in ["a", "b", "c"].iter().enumerate() {
        let ns = Netns::new(name);
        let port = format!("port{name}");
        connect(&ns, "eth0", &r, &port);
        router_port(&r, &port);
        let (v4, v6) = (
            format!("10.0.1.{}/24", n + 2),
            format!("2001:db8:1::{}/64", n + 2),
        );
        host(&ns, "eth0", &v4, &v6, "10.0.1.1", "2001:db8:1::1");
        commands.push(format!("create host-interface name {port}"));
        commands.push(format!("set interface state host-{port} up"));
        commands.push(format!("set interface l2 bridge host-{port} 7"));
        bridged.push(ns);
    }
    let routed = Netns::new("d");
    connect(&routed, "eth0", &r, "portd");
    router_port(&r, "portd");
    host(
        &routed,
        "eth0",
        "10.0.9.2/24",
        "2001:db8:9::2/64",
        "10.0.9.1",
        "2001:db8:9::1",
    );
    for line in [
        "create host-interface name portd",
        "set interface state host-portd up",
        "set interface ip address host-portd 10.0.9.1/24",
        "set interface ip address host-portd 2001:db8:9::1/64",
        "create loopback interface",
        "set interface state loop0 up",
        "set interface l2 bridge loop0 7 bvi",
        "set interface ip address loop0 10.0.1.1/24",
        "set interface ip address loop0 2001:db8:1::1/64",
    ] {
        commands.push(line.into());
    }
    commands.extend(extra.iter().map(|l| (*l).to_owned()));
    let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
    let router = Router::start(&r, &commands);
    Net {
        bridged,
        routed,
        router,
    }
}

/// Pings that are all answered.
fn pings(from: &Netns, to: &str) {
    from.eventually(&format!("ping -c 1 -W 1 {to}"), 10);
    let out = from.run(&format!("ping -c 20 -i 0.02 -W 1 {to}"));
    support::assert_answered(&out);
}

#[test]
fn hosts_reach_each_other_across_a_bridge_and_the_world_through_its_routed_interface() {
    let t = net(&[]);
    let [a, b, c] = &t.bridged[..] else {
        panic!("three hosts")
    };
    for to in ["10.0.1.3", "10.0.1.4", "2001:db8:1::3", "2001:db8:1::4"] {
        pings(a, to);
    }
    pings(b, "10.0.1.4");
    // The gateway itself, and through it.
    for to in ["10.0.1.1", "2001:db8:1::1", "10.0.9.2", "2001:db8:9::2"] {
        pings(a, to);
        pings(c, to);
    }
    for to in ["10.0.1.2", "10.0.1.3", "2001:db8:1::4"] {
        pings(&t.routed, to);
    }
    let table = t.router.json("show l2fib all");
    assert_eq!(table["learned"], 3, "{table}");
    let text = t.router.ctl("show bridge-domain 7 detail");
    assert!(text.contains("loop0"), "{text}");
    // A and b no longer know each other, nor does c reach anybody who left.
    t.router.ctl("set interface l3 host-portb");
    let (answered, _) = a.try_run("ping -c 2 -W 1 10.0.1.3");
    assert!(!answered);
    pings(a, "10.0.1.4");
    assert!(t.router.stop());
}

#[test]
fn invented_stations_do_not_starve_those_that_are_there() {
    let t = net(&[
        "create packet-generator interface pg0",
        "set interface state pg0 up",
        "set interface l2 bridge pg0 7",
        "packet-generator new { name flood rate 50000 size 64-64 interface pg0 node ethernet-input \
         data { IP4: 02:66:00:00:00:00-02:66:00:0f:ff:ff -> 02:67:00:00:00:01 \
         UDP: 10.0.0.9 -> 20.0.0.1 UDP: 1 -> 2 incrementing 8 } }",
    ]);
    let [a, b, _c] = &t.bridged[..] else {
        panic!("three hosts")
    };
    pings(a, "10.0.1.3");
    pings(a, "10.0.9.2");
    let resident = |t: &Net| t.router.json("show l2fib")["memory_bytes"].clone();
    let before = resident(&t);
    t.router.ctl("packet-generator enable-stream flood");
    support::until("stations were learned", || {
        t.router.json("show l2fib")["learned"].as_u64() > Some(20_000)
    });
    pings(a, "10.0.1.3");
    pings(b, "10.0.9.2");
    let table = t.router.json("show l2fib");
    assert!(table["learned"].as_u64() <= table["limit"].as_u64());
    assert_eq!(resident(&t), before);
    t.router.ctl("packet-generator disable-stream flood");
    t.router.ctl("l2fib flush-mac interface pg0");
    let learned = t.router.json("show l2fib")["learned"].as_u64();
    assert!(learned <= Some(3), "{learned:?}");
    pings(a, "10.0.1.3");
}
