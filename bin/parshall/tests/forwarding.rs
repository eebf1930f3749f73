//! One router between two hosts, over real veth links and kernel stacks: ping, traceroute, TCP, UDP,
//! path-MTU discovery, over IPv4 and IPv6.
//!
//! Rates are asserted only to be those of a working connection; how fast it is, benches say.

mod support;

use support::{Router, TwoHosts};

struct OneRouter {
    hosts: TwoHosts,
    router: Router,
}

fn one_router(extra: &[&str]) -> OneRouter {
    let hosts = TwoHosts::new();
    let mut commands = vec![
        "create host-interface name left",
        "create host-interface name right",
        "set interface ip address host-left 10.0.1.1/24",
        "set interface ip address host-left 2001:db8:1::1/64",
        "set interface ip address host-right 10.0.2.1/24",
        "set interface ip address host-right 2001:db8:2::1/64",
        "set interface state host-left up",
        "set interface state host-right up",
    ];
    commands.extend(extra);
    let router = Router::start(&hosts.r, &commands);
    OneRouter { hosts, router }
}

#[test]
fn ping_traceroute_tcp_and_udp_cross_the_router() {
    let t = one_router(&[]);
    t.hosts.a.eventually("ping -c 1 -W 1 10.0.2.2", 10);
    t.hosts.a.eventually("ping -c 1 -W 1 2001:db8:2::2", 10);
    for to in ["10.0.2.2", "2001:db8:2::2", "10.0.1.1", "2001:db8:2::1"] {
        let out = t.hosts.a.run(&format!("ping -c 20 -i 0.02 -W 1 {to}"));
        support::assert_answered(&out);
    }
    let hops = t.hosts.a.run("traceroute -n -q 1 -w 1 10.0.2.2");
    assert!(
        hops.contains(" 1  10.0.1.1") && hops.contains(" 2  10.0.2.2"),
        "{hops}"
    );
    let hops = t.hosts.a.run("traceroute -6 -n -q 1 -w 1 2001:db8:2::2");
    assert!(
        hops.contains(" 1  2001:db8:1::1") && hops.contains(" 2  2001:db8:2::2"),
        "{hops}"
    );
    let _server = t.hosts.b.spawn("iperf3 -s");
    for to in ["10.0.2.2", "2001:db8:2::2"] {
        t.hosts.a.eventually(&format!("iperf3 -c {to} -t 1"), 10);
        let tcp = t.hosts.a.run(&format!("iperf3 -c {to} -t 2 -J"));
        let rate = number(&tcp, "/end/sum_received/bits_per_second");
        assert!(rate > 1e6, "TCP to {to}: {rate} bit/s");
        let back = t.hosts.a.run(&format!("iperf3 -R -c {to} -t 2 -J"));
        assert!(
            number(&back, "/end/sum_received/bits_per_second") > 1e6,
            "reverse TCP to {to}"
        );
        let udp = t.hosts.a.run(&format!("iperf3 -u -b 20M -c {to} -t 2 -J"));
        let lost = number(&udp, "/end/sum/lost_percent");
        assert!(lost < 5.0, "UDP to {to}: {lost} % lost");
    }
    assert!(t.router.stop());
}

#[test]
fn path_mtu_discovery_finds_the_smaller_link() {
    let t = one_router(&["set interface mtu packet 1400 host-right"]);
    t.hosts.b.ip("link set eth0 mtu 1400");
    t.hosts.a.eventually("ping -c 1 -W 1 10.0.2.2", 10);
    t.hosts.a.eventually("ping -c 1 -W 1 2001:db8:2::2", 10);
    // Too big with DF set: refused once, then the kernel knows the path's MTU.
    let (_, out) = t
        .hosts
        .a
        .try_run("ping -M do -c 2 -i 0.2 -W 1 -s 1400 10.0.2.2");
    assert!(
        out.contains("mtu = 1400") || out.contains("mtu=1400"),
        "{out}"
    );
    assert!(t.hosts.a.ip("route get 10.0.2.2").contains("mtu 1400"));
    let (_, out) = t
        .hosts
        .a
        .try_run("ping -c 2 -i 0.2 -W 1 -s 1400 2001:db8:2::2");
    assert!(
        t.hosts
            .a
            .ip("-6 route get 2001:db8:2::2")
            .contains("mtu 1400"),
        "{out}"
    );
    // Without DF the router fragments.
    let out = t
        .hosts
        .a
        .run("ping -M dont -c 3 -i 0.1 -W 1 -s 3000 10.0.2.2");
    support::assert_answered(&out);
    let _server = t.hosts.b.spawn("iperf3 -s");
    for to in ["10.0.2.2", "2001:db8:2::2"] {
        t.hosts.a.eventually(&format!("iperf3 -c {to} -t 1"), 10);
        let tcp = t.hosts.a.run(&format!("iperf3 -c {to} -t 2 -J"));
        assert!(
            number(&tcp, "/end/sum_received/bits_per_second") > 1e6,
            "TCP to {to}"
        );
    }
}

#[test]
fn an_unanswered_neighbour_is_reported_to_the_sender() {
    let t = one_router(&[]);
    t.hosts.a.eventually("ping -c 1 -W 1 10.0.2.2", 10);
    let (_, out) = t.hosts.a.try_run("ping -c 5 -i 1 -W 1 10.0.2.77");
    assert!(out.contains("Destination Host Unreachable"), "{out}");
    let (_, out) = t.hosts.a.try_run("ping -c 2 -W 1 192.0.2.1");
    assert!(
        out.contains("From 10.0.1.1") && out.contains("Unreachable"),
        "{out}"
    );
    let errors = t.router.ctl("show errors");
    assert!(errors.contains("no route to the destination"), "{errors}");
}

fn number(json: &str, at: &str) -> f64 {
    let v: serde_json::Value = serde_json::from_str(json).unwrap_or_else(|e| panic!("{e}: {json}"));
    v.pointer(at)
        .and_then(serde_json::Value::as_f64)
        .unwrap_or_else(|| panic!("no {at} in {json}"))
}
