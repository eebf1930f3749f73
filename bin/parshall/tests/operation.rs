//! A router in operation: several workers, taps, a bad file, idle, bad commands, a clean end.

mod support;

use std::process::Command;
use std::time::Duration;

use support::{Netns, Router, parshall};

/// Two hosts on taps, each in its own namespace, two workers.
fn on_taps() -> (Netns, Netns, Netns, Router) {
    let (a, b, r) = (Netns::new("a"), Netns::new("b"), Netns::new("r"));
    let config = format!(
        "cli: {{socket: SOCKET}}\n\
         workers: 2\n\
         interfaces:\n\
         \x20 tap0: {{namespace: {}, host-interface: eth0, addresses: [10.0.1.1/24, \"2001:db8:1::1/64\"], \
         host-addresses: [10.0.1.2/24, \"2001:db8:1::2/64\"], host-gateways: [10.0.1.1, \"2001:db8:1::1\"], \
         sflow: true}}\n\
         \x20 tap1: {{namespace: {}, host-interface: eth0, addresses: [10.0.2.1/24, \"2001:db8:2::1/64\"], \
         host-addresses: [10.0.2.2/24, \"2001:db8:2::2/64\"], host-gateways: [10.0.2.1, \"2001:db8:2::1\"]}}\n",
        a.name, b.name
    );
    let router = Router::start_with(&r, &config);
    (a, b, r, router)
}

#[test]
fn two_workers_carry_taps_and_everything_is_accounted_for() {
    let (a, b, _r, router) = on_taps();
    for to in ["10.0.2.2", "2001:db8:2::2"] {
        a.eventually(&format!("ping -c 1 -W 1 {to}"), 15);
        let out = a.run(&format!("ping -c 50 -i 0.01 -W 1 -s 1000 {to}"));
        support::assert_answered(&out);
    }
    let _server = b.spawn("iperf3 -s");
    a.eventually("iperf3 -c 10.0.2.2 -t 1", 10);
    a.run("iperf3 -c 10.0.2.2 -t 2 -P 4");
    let threads = router.ctl("show threads");
    assert!(
        threads.contains("parshall-wk0") && threads.contains("parshall-wk1"),
        "{threads}"
    );
    let trace = router.ctl("trace add virtio-input 10");
    a.run("ping -c 3 -i 0.1 10.0.2.2");
    let shown = router.ctl("show trace");
    assert!(shown.contains("ip4-rewrite"), "{trace}{shown}");
    assert!(router.stop());
    // The taps are gone with the router.
    assert!(!a.ip("link").contains("eth0"));
}

#[test]
fn an_idle_router_sleeps() {
    let (_a, _b, _r, router) = on_taps();
    std::thread::sleep(Duration::from_secs(2));
    router.ctl("clear runtime");
    std::thread::sleep(Duration::from_secs(5));
    // Asleep, a worker gets up five times a second for a handful of turns, and once more for each of the few
    // packets that the hosts' kernels send. One that does not sleep turns a million times.
    for worker in router.json("show runtime").as_array().unwrap() {
        let turns = worker["loops_per_second"].as_f64().unwrap();
        assert!(turns > 0.0 && turns < 500.0, "{turns} turns a second");
    }
}

#[test]
fn bad_files_and_commands_are_explained_and_change_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("bad.yaml");
    std::fs::write(
        &file,
        "interfaces:\n  pg0: {mtu: 5, adresses: [10.0.0.1/24]}\n",
    )
    .unwrap();
    let out = Command::new(parshall())
        .args(["config", "check"])
        .arg(&file)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(!out.status.success());
    assert!(
        said.contains("bad.yaml:2:") && said.contains("mtu") && said.contains("addresses"),
        "{said}"
    );

    let r = Netns::new("r");
    let router = Router::start(&r, &["create packet-generator interface pg0"]);
    let before = router.ctl("show interface address");
    for (line, hint) in [
        ("set interface ip adress pg0 10.0.0.1/24", "address"),
        ("set interface ip address pg9 10.0.0.1/24", "pg9"),
        ("sflow enable pg0 sampling-rate 0", "1"),
        ("ip route add 10.0.0.1/24 via 10.0.0.2", "10.0.0.0/24"),
        ("create host-interface name nosuch0", "nosuch0"),
    ] {
        let (ok, said) = router.try_ctl(line);
        assert!(!ok && said.contains(hint), "{line}: {said}");
    }
    assert_eq!(router.ctl("show interface address"), before);
    let (ok, _) = router.try_ctl("shutdown");
    assert!(ok);
}
