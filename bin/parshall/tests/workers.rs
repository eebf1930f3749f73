//! Several workers on real links: flows spread over them, counted exactly, moved about under traffic; and links
//! that go and come back.

mod support;

use support::{Netns, Router, TwoHosts, until};

/// A router with two workers between two hosts.
struct TwoWorkers {
    hosts: TwoHosts,
    router: Router,
}

fn two_workers() -> TwoWorkers {
    let hosts = TwoHosts::new();
    let config = "
workers: {count: 2, share-cpus: true}
cli: {socket: SOCKET}
interfaces:
  host-left: {addresses: [10.0.1.1/24, '2001:db8:1::1/64']}
  host-right: {addresses: [10.0.2.1/24, '2001:db8:2::1/64']}
commands:
  - ip route add 198.51.100.0/24 via 10.0.2.2
  - ip route add 0.0.0.0/0 via 10.0.1.2
";
    let router = Router::start_with(&hosts.r, config);
    for to in ["10.0.2.2", "2001:db8:2::2"] {
        hosts.a.eventually(&format!("ping -c 1 -W 1 {to}"), 10);
    }
    TwoWorkers { hosts, router }
}

impl TwoWorkers {
    /// `received` of each worker.
    fn received(&self) -> Vec<u64> {
        let runtime = self.router.json("show runtime");
        let workers = runtime.as_array().unwrap().iter();
        workers.map(|w| w["received"].as_u64().unwrap()).collect()
    }

    fn counter(&self, interface: &str, name: &str) -> u64 {
        let shown = self.router.json(&format!("show interface {interface}"));
        shown[0]["counters"][name].as_u64().unwrap_or(0)
    }
}

/// Sends `count` UDP datagrams, each from a port of its own, from inside a namespace.
fn send_flows(from: &Netns, to: &str, count: u32) {
    let program = "import socket,sys\n\
         n=int(sys.argv[2])\n\
         for i in range(n):\n\
         \x20   s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM)\n\
         \x20   s.bind(('',20000+i))\n\
         \x20   s.sendto(b'x'*18,(sys.argv[1],9))\n\
         \x20   s.close()\n";
    let mut command = from.command("python3 -c");
    let out = command.arg(program).args([to, &count.to_string()]).output();
    let out = out.expect("python3 is needed for this test (see tests/setup.sh)");
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
}

#[test]
fn many_flows_reach_both_workers_and_counters_add_up() {
    let t = two_workers();
    let placed = t.router.json("show interface rx-placement");
    assert_eq!(placed.as_array().unwrap().len(), 4, "{placed}");
    // Nobody answers there, nothing else goes there: what is sent is all there is.
    t.hosts.b.ip("route add blackhole 198.51.100.0/24");
    t.router.ctl("clear interfaces");
    t.router.ctl("clear runtime");
    let before = t
        .hosts
        .b
        .run("cat /sys/class/net/eth0/statistics/rx_packets");
    let count = |text: &str| text.trim().parse::<u64>().unwrap();
    send_flows(&t.hosts.a, "198.51.100.1", 2000);
    let arrived = || {
        count(
            &t.hosts
                .b
                .run("cat /sys/class/net/eth0/statistics/rx_packets"),
        )
    };
    until("2,000 datagrams", || arrived() >= count(&before) + 2000);
    let (rx, tx) = (
        t.counter("host-left", "rx_packets"),
        t.counter("host-right", "tx_packets"),
    );
    assert!(
        (2000..2050).contains(&rx) && (2000..2050).contains(&tx),
        "rx {rx}, tx {tx}"
    );
    let by_worker = t.received();
    // Fanout by hash: 2,000 flows are split about evenly.
    assert!(
        by_worker.len() == 2 && by_worker.iter().all(|n| *n > 600),
        "{by_worker:?}"
    );
    let all = rx + t.counter("host-right", "rx_packets");
    // The hosts' own IPv6 start-up may fall between the two clearings or the two readings: a few frames, never flows.
    let by_workers = by_worker.iter().sum::<u64>();
    assert!(by_workers.abs_diff(all) < 50, "{by_workers} of {all}");
    let _server = t.hosts.b.spawn("iperf3 -s");
    t.hosts.a.eventually("iperf3 -c 10.0.2.2 -t 1", 10);
    for to in ["10.0.2.2", "2001:db8:2::2"] {
        let tcp = t.hosts.a.run(&format!("iperf3 -c {to} -P 4 -t 2 -J"));
        let v: serde_json::Value = serde_json::from_str(&tcp).unwrap();
        let rate = v["end"]["sum_received"]["bits_per_second"]
            .as_f64()
            .unwrap();
        assert!(rate > 1e6, "{to}: {rate} bit/s");
    }
    let threads = t.router.json("show threads");
    let busy = threads
        .as_array()
        .unwrap()
        .iter()
        .filter(|w| w["type"] == "workers");
    assert!(
        busy.map(|w| w["load"].as_f64().unwrap()).all(|l| l > 0.0),
        "{threads}"
    );
    assert!(t.router.stop());
}

#[test]
fn queues_move_under_traffic_and_no_datagram_is_lost() {
    let t = two_workers();
    let _server = t.hosts.b.spawn("iperf3 -s");
    t.hosts.a.eventually("iperf3 -c 10.0.2.2 -t 1", 10);
    let client = t
        .hosts
        .a
        .command("iperf3 -u -b 8M -l 200 -P 4 -c 10.0.2.2 -t 4 -J");
    let client = std::thread::spawn(move || {
        let mut client = client;
        client.output().unwrap()
    });
    let mut moves = 0;
    while !client.is_finished() {
        for interface in ["host-left", "host-right"] {
            let (queue, worker) = (moves % 2, (moves / 2) % 2);
            t.router.ctl(&format!(
                "set interface rx-placement {interface} queue {queue} worker {worker}"
            ));
        }
        moves += 1;
    }
    let out = client.join().unwrap();
    let text = String::from_utf8_lossy(&out.stdout);
    let v: serde_json::Value =
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
    let sum = &v["end"]["sum"];
    assert!(sum["packets"].as_u64().unwrap() > 10_000, "{sum}");
    let mut reordered = 0;
    for s in v["end"]["streams"].as_array().unwrap() {
        reordered += s["udp"]["out_of_order"].as_u64().unwrap_or(0);
    }
    assert_eq!(reordered, 0, "{moves} moves");
    // The router lost none; a receiver that is short of processor time may.
    for interface in ["host-left", "host-right"] {
        for counter in ["rx_missed", "rx_no_buffer", "tx_drops", "tx_errors"] {
            assert_eq!(t.counter(interface, counter), 0, "{interface} {counter}");
        }
    }
    assert!(moves > 10, "{moves} moves");
}

#[test]
fn a_link_that_goes_takes_its_routes_along_and_brings_them_back() {
    let t = two_workers();
    let route = |to: &str| t.router.ctl(&format!("show ip fib {to}"));
    assert!(
        route("198.51.100.1").contains("host-right"),
        "{}",
        route("198.51.100.1")
    );
    t.hosts.b.ip("link set eth0 down");
    // Now the default route has it, as have the hosts of the subnet itself.
    until("withdrawal", || {
        !route("198.51.100.1").contains("host-right")
    });
    let (answered, out) = t.hosts.a.try_run("ping -c 1 -W 1 10.0.2.2");
    assert!(!answered, "{out}");
    assert!(t.router.log().contains("host-right: link down"));
    t.hosts.b.ip("link set eth0 up");
    t.hosts.b.ip("route replace default via 10.0.2.1");
    until("return", || route("198.51.100.1").contains("host-right"));
    t.hosts.a.eventually("ping -c 1 -W 1 10.0.2.2", 10);
    assert!(t.router.log().contains("host-right: link up"));
}

#[test]
fn what_cannot_be_placed_is_refused_before_anything_starts() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.yaml");
    let refused = |text: &str| {
        std::fs::write(&path, text).unwrap();
        let out = std::process::Command::new(support::parshall())
            .args(["run", "-c"])
            .arg(&path)
            .output()
            .unwrap();
        assert!(!out.status.success(), "{text}");
        String::from_utf8_lossy(&out.stderr).into_owned()
    };
    let e = refused("workers: {cpus: [1000]}");
    assert!(
        e.contains("CPU 1000 of worker 0 cannot be used: the process may run on "),
        "{e}"
    );
    let e = refused("workers: 64");
    assert!(
        e.contains("64 workers, but there") && e.contains("have fewer workers"),
        "{e}"
    );
}
