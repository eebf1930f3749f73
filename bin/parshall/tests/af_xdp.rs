//! AF_XDP interfaces on real links with kernels on the far side: veth pairs, of one and of several
//! queues, natively and in the stack, and a tap. What the router owns reaches it, what it does not
//! own stays with the kernel, every loss is counted, every refusal says what to do, and nothing of it
//! is left when the router ends.

mod support;

use std::time::{Duration, Instant};

use support::{Netns, Router, assert_answered, host, must, router_port};

/// Host A - router - host B over veth pairs of so many queues.
struct Bench {
    a: Netns,
    b: Netns,
    r: Netns,
}

fn link(a: &Netns, r: &Netns, r_if: &str, queues: &str) {
    let line = format!(
        "link add eth0 netns {} numrxqueues {queues} numtxqueues {queues} type veth peer name {r_if} netns {} \
         numrxqueues {queues} numtxqueues {queues}",
        a.name, r.name
    );
    must("ip", &line.split_whitespace().collect::<Vec<_>>());
    router_port(r, r_if);
    a.ip("link set eth0 up");
    r.ip(&format!("link set {r_if} up"));
}

fn bench(queues: &str) -> Bench {
    let (a, b, r) = (Netns::new("a"), Netns::new("b"), Netns::new("r"));
    link(&a, &r, "left", queues);
    link(&b, &r, "right", queues);
    for (ns, n) in [(&a, 1), (&b, 2)] {
        let (v4, v6) = (format!("10.0.{n}"), format!("2001:db8:{n}:"));
        host(
            ns,
            "eth0",
            &format!("{v4}.2/24"),
            &format!("{v6}:2/64"),
            &format!("{v4}.1"),
            &format!("{v6}:1"),
        );
    }
    Bench { a, b, r }
}

/// A router between both, its interfaces made with these options.
fn router(t: &Bench, options: &str, workers: usize) -> Router {
    let config = format!(
        "workers: {{count: {workers}, share-cpus: true}}\n\
         cli: {{socket: SOCKET}}\n\
         interfaces:\n\
         \x20 xdp-left: {{{options} addresses: [10.0.1.1/24, \"2001:db8:1::1/64\"]}}\n\
         \x20 xdp-right: {{{options} addresses: [10.0.2.1/24, \"2001:db8:2::1/64\"]}}\n"
    );
    let router = Router::start_with(&t.r, &config);
    t.a.eventually("ping -c 1 -W 1 10.0.2.2", 10);
    t.a.eventually("ping -c 1 -W 1 2001:db8:2::2", 10);
    router
}

fn number(json: &str, at: &str) -> f64 {
    let v: serde_json::Value = serde_json::from_str(json).unwrap_or_else(|e| panic!("{e}: {json}"));
    v.pointer(at)
        .and_then(serde_json::Value::as_f64)
        .unwrap_or_else(|| panic!("no {at} in {json}"))
}

fn pings(t: &Bench) {
    for to in ["10.0.2.2", "2001:db8:2::2", "10.0.1.1", "2001:db8:2::1"] {
        let out = t.a.run(&format!("ping -c 20 -i 0.02 -W 1 {to}"));
        assert_answered(&out);
    }
}

/// A measurement by iperf3; again when its server is still busy with the last one.
fn iperf(t: &Bench, options: &str, to: &str) -> String {
    let mut said = String::new();
    wait_until("iperf3 finds no server", || {
        said = t.a.run(&format!("iperf3 {options} -c {to} -J"));
        !said.contains("\"error\":")
    });
    said
}

fn tcp_both_ways(t: &Bench, streams: u32) {
    let _server = t.b.spawn("iperf3 -s");
    for to in ["10.0.2.2", "2001:db8:2::2"] {
        for way in ["", "-R"] {
            let tcp = iperf(t, &format!("{way} -P {streams} -t 2"), to);
            let rate = number(&tcp, "/end/sum_received/bits_per_second");
            assert!(rate > 1e6, "TCP {way} to {to}: {rate} bit/s");
        }
    }
}

/// At a rate that queues of the usual size hold for more than a second.
fn udp(t: &Bench) {
    let _server = t.b.spawn("iperf3 -s");
    for to in ["10.0.2.2", "2001:db8:2::2"] {
        let udp = iperf(t, "-u -b 10M -t 2", to);
        let lost = number(&udp, "/end/sum/lost_percent");
        assert!(lost < 5.0, "UDP to {to}: {lost} % lost");
    }
}

/// What `show af_xdp` says of an interface.
fn shown(router: &Router, name: &str) -> serde_json::Value {
    router.json(&format!("show af_xdp {name}"))[0].clone()
}

/// A counter of an interface.
fn counter(router: &Router, name: &str, which: &str) -> u64 {
    let all = router.json(&format!("show interface {name}"));
    let value = &all[0]["counters"][which];
    value
        .as_u64()
        .unwrap_or_else(|| panic!("no {which} in {all}"))
}

/// Whether an XDP program is attached.
fn attached(ns: &Netns, interface: &str) -> bool {
    ns.ip(&format!("link show dev {interface}")).contains("xdp")
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !done() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn ping_tcp_and_udp_cross_in_the_driver_and_all_is_given_back() {
    let t = bench("1");
    let router = router(&t, "", 1);
    pings(&t);
    // The peers' stacks leave checksums unfinished: TCP works because they are completed.
    tcp_both_ways(&t, 1);
    udp(&t);
    let s = shown(&router, "xdp-left");
    assert_eq!(s["xdp_mode"], "native");
    assert_eq!(s["completes_checksums"], true);
    assert_eq!(s["queues"][0]["multi_buffer"], true);
    assert!(attached(&t.r, "left") && attached(&t.r, "right"));
    let text = router.ctl("show hardware-interfaces xdp-left");
    assert!(text.contains("native XDP, copy mode"), "{text}");
    router.ctl("delete interface af_xdp left");
    assert!(!attached(&t.r, "left") && attached(&t.r, "right"));
    assert!(router.stop());
    assert!(!attached(&t.r, "right"));
}

#[test]
fn generic_xdp_carries_what_is_not_joined() {
    let t = bench("1");
    let router = router(&t, "xdp-mode: generic,", 1);
    assert_eq!(shown(&router, "xdp-left")["xdp_mode"], "generic");
    pings(&t);
    // A local TCP hands over super-frames, which XDP in the stack cannot tell from long packets; its
    // host is told not to.
    for ns in [&t.a, &t.b] {
        ns.run("ethtool -K eth0 tso off gso off");
    }
    tcp_both_ways(&t, 1);
    udp(&t);
}

#[test]
fn every_queue_of_a_link_reaches_a_worker() {
    let t = bench("4");
    let router = router(&t, "", 2);
    let s = shown(&router, "xdp-left");
    let queues = s["queues"].as_array().unwrap();
    assert_eq!(queues.len(), 4, "{s}");
    assert_eq!(queues.iter().filter(|q| q["rx"] == true).count(), 4);
    assert_eq!(queues.iter().filter(|q| q["tx"] == true).count(), 2);
    let placed = router.ctl("show interface rx-placement");
    for line in ["queue 0", "queue 1", "queue 2", "queue 3"] {
        assert!(placed.contains(line), "{placed}");
    }
    // Flows are spread over the queues by the peer's kernel; were one of them not served, some of
    // these streams would stall.
    tcp_both_ways(&t, 12);
    // A queue moves to another worker, and its flows go on.
    let before = router.json("show interface rx-placement").to_string();
    router.ctl("set interface rx-placement xdp-left queue 0 worker 1");
    router.ctl("set interface rx-placement xdp-left queue 1 worker 0");
    assert_ne!(
        before,
        router.json("show interface rx-placement").to_string()
    );
    tcp_both_ways(&t, 12);
}

#[test]
fn queues_that_are_left_out_stay_with_the_kernel() {
    let t = bench("4");
    let config = "workers: {count: 2, share-cpus: true}\n\
                  cli: {socket: SOCKET}\n\
                  interfaces:\n\
                  \x20 xdp-left: {queues: 1, tx-queues: 1, promiscuous: true}\n";
    let router = Router::start_with(&t.r, config);
    let text = router.ctl("show hardware-interfaces xdp-left");
    assert!(
        text.contains("3 of its 4 queues left to the kernel") && text.contains("TX Queues: 1"),
        "{text}"
    );
    // Of many flows some are the router's, and the others the kernel's, which has an address here.
    t.r.ip("addr add 10.0.1.77/24 dev left");
    let neighbor = |ip: &str, dev: &str, of: &Netns, of_dev: &str| {
        let mac = of.run(&format!("cat /sys/class/net/{of_dev}/address"));
        format!("neigh replace {ip} lladdr {} dev {dev}", mac.trim())
    };
    t.a.ip(&neighbor("10.0.1.77", "eth0", &t.r, "left"));
    let answered = (100..132)
        .filter(|n| {
            let ip = format!("10.0.1.{n}");
            t.a.ip(&format!("addr add {ip}/24 dev eth0"));
            t.r.ip(&neighbor(&ip, "left", &t.a, "eth0"));
            t.a.try_run(&format!("ping -c 1 -W 1 -I {ip} 10.0.1.77")).0
        })
        .count();
    let received = counter(&router, "xdp-left", "rx_packets");
    assert!(answered > 0 && received > 0, "{answered} and {received}");
}

#[test]
fn what_the_router_does_not_own_stays_with_the_kernel() {
    let t = bench("1");
    // The router has an address of its own on the link, and so has the kernel.
    t.r.ip("addr add 10.0.1.77/24 dev left");
    let mac = t.r.run("cat /sys/class/net/left/address");
    let router = router(&t, "mac: \"02:00:5e:00:00:07\",", 1);
    t.a.ip(&format!(
        "neigh replace 10.0.1.77 lladdr {} dev eth0",
        mac.trim()
    ));
    t.r.ip(&format!(
        "neigh replace 10.0.1.2 lladdr {} dev left",
        t.a.run("cat /sys/class/net/eth0/address").trim()
    ));
    let before = counter(&router, "xdp-left", "rx_packets");
    assert_answered(&t.a.run("ping -c 10 -i 0.02 -W 1 10.0.1.77"));
    // Fewer than the pings: some of a host's own multicast may come at any time.
    assert!(counter(&router, "xdp-left", "rx_packets") < before + 10);
    // The router answers for its own address all the same.
    assert_answered(&t.a.run("ping -c 10 -i 0.02 -W 1 10.0.1.1"));
    // Promiscuous, it owns everything: the kernel sees none of it, and the router routes to others only
    // what is addressed to it.
    router.ctl("set interface promiscuous on xdp-left");
    let before = counter(&router, "xdp-left", "rx_packets");
    let (ok, out) = t.a.try_run("ping -c 5 -i 0.02 -W 1 10.0.1.77");
    assert!(!ok, "{out}");
    assert!(counter(&router, "xdp-left", "rx_packets") >= before + 5);
    router.ctl("set interface promiscuous off xdp-left");
    assert_answered(&t.a.run("ping -c 10 -i 0.02 -W 1 10.0.1.77"));
    // Down, it owns nothing: the Linux interface goes down with it, and comes back for the kernel.
    router.ctl("set interface state xdp-left down");
    t.r.ip("link set left up");
    t.a.eventually("ping -c 1 -W 1 10.0.1.77", 10);
    router.ctl("set interface state xdp-left up");
    t.a.eventually("ping -c 1 -W 1 10.0.1.1", 10);
}

#[test]
fn a_cross_connect_carries_frames_for_any_address() {
    let t = bench("1");
    t.b.ip("addr flush dev eth0");
    t.b.ip("addr add 10.0.1.3/24 dev eth0");
    let config = "cli: {socket: SOCKET}\n\
                  interfaces:\n\
                  \x20 xdp-left: {xconnect: xdp-right}\n\
                  \x20 xdp-right: {}\n";
    let _router = Router::start_with(&t.r, config);
    t.a.eventually("ping -c 1 -W 1 10.0.1.3", 10);
    assert_answered(&t.a.run("ping -c 20 -i 0.02 -W 1 10.0.1.3"));
}

#[test]
fn frames_that_no_room_is_left_for_are_counted_one_by_one() {
    let t = bench("1");
    let router = router(&t, "rx-queue-size: 64,", 1);
    std::thread::sleep(Duration::from_millis(300));
    let count = |which| counter(&router, "xdp-left", which);
    let before = count("rx_packets") + count("rx_missed");
    // While the router stands still, its rings fill up.
    router.signal("-STOP");
    let (_, out) = t.a.try_run("ping -l 2000 -c 2000 -W 1 10.0.2.2");
    assert!(out.contains("2000 packets transmitted"), "{out}");
    router.signal("-CONT");
    wait_until("received and missed frames are not those sent", || {
        count("rx_packets") + count("rx_missed") >= before + 2000
    });
    assert!(count("rx_missed") > 1000, "{}", count("rx_missed"));
    let s = shown(&router, "xdp-left");
    let q = &s["queues"][0];
    let kernel = q["rx_dropped"].as_u64().unwrap() + q["rx_ring_full"].as_u64().unwrap();
    assert_eq!(kernel, count("rx_missed"), "{s}");
    let text = router.ctl("show af_xdp");
    assert!(
        text.contains("rx ring full") && text.contains("xdp-right"),
        "{text}"
    );
    t.a.eventually("ping -c 1 -W 1 10.0.2.2", 10);
}

#[test]
fn jumbo_frames_travel_in_several_buffers() {
    let t = bench("1");
    t.r.ip("link set left mtu 9000");
    let router = router(&t, "", 1);
    // Taken with the small MTU, grown later: the Linux interface follows.
    router.ctl("set interface mtu 9000 xdp-right");
    assert!(t.r.ip("link show dev right").contains("mtu 9000"));
    t.a.ip("link set eth0 mtu 9000");
    t.b.ip("link set eth0 mtu 9000");
    let s = shown(&router, "xdp-left");
    assert_eq!(s["queues"][0]["multi_buffer"], true, "{s}");
    let out = t.a.run("ping -M do -c 20 -i 0.02 -W 1 -s 8972 10.0.2.2");
    assert_answered(&out);
    tcp_both_ways(&t, 1);
    // Beyond what it can carry.
    let (ok, out) = router.try_ctl("set interface mtu 9300 xdp-left");
    assert!(!ok && out.contains("the range is 82 to 9230"), "{out}");
    assert!(router.stop());
    assert!(
        t.r.ip("link show dev right").contains("mtu 1500"),
        "given back as it was"
    );
}

#[test]
fn busy_polling_and_small_rings_work_too() {
    let t = bench("2");
    let router = router(
        &t,
        "busy-poll: 64, rx-queue-size: 256, tx-queue-size: 128, copy-mode: copy,",
        1,
    );
    let s = shown(&router, "xdp-left");
    assert_eq!(
        (&s["busy_poll_budget"], &s["rx_queue_size"]),
        (&64.into(), &256.into())
    );
    pings(&t);
    tcp_both_ways(&t, 4);
}

#[test]
fn an_interface_that_goes_away_is_survived_and_can_be_made_again() {
    let t = bench("1");
    let router = router(&t, "", 1);
    t.r.ip("link del left");
    wait_until("the link is still said to be up", || {
        router.json("show interface xdp-left")[0]["link_up"] == false
    });
    // The other side is alive, and the router answers.
    assert_answered(&t.b.run("ping -c 10 -i 0.02 -W 1 10.0.2.1"));
    // Packets into the void are counted, not waited for.
    let _ = t.b.try_run("ping -c 3 -i 0.1 -W 1 10.0.1.2");
    assert_eq!(shown(&router, "xdp-left")["xdp_program"], 0);
    // It sleeps when nothing happens: the dead socket does not keep it awake.
    let before = router.cpu_ticks();
    std::thread::sleep(Duration::from_secs(2));
    let used = router.cpu_ticks() - before;
    assert!(used < 100, "{used} ticks of 10 ms in two idle seconds");
    router.ctl("delete interface af_xdp xdp-left");
    link(&t.a, &t.r, "left", "1");
    host(
        &t.a,
        "eth0",
        "10.0.1.2/24",
        "2001:db8:1::2/64",
        "10.0.1.1",
        "2001:db8:1::1",
    );
    router.ctl("create interface af_xdp left");
    router.ctl("set interface ip address xdp-left 10.0.1.1/24");
    router.ctl("set interface state xdp-left up");
    t.a.eventually("ping -c 1 -W 1 10.0.2.2", 10);
}

#[test]
fn nothing_is_left_after_a_violent_end() {
    let t = bench("2");
    let router = router(&t, "mac: \"02:00:5e:00:00:07\",", 1);
    assert!(attached(&t.r, "left") && attached(&t.r, "right"));
    assert!(t.r.ip("-d link show dev left").contains("promiscuity 1"));
    router.signal("-KILL");
    wait_until("the program is still attached", || {
        !attached(&t.r, "left") && !attached(&t.r, "right")
    });
    wait_until("still promiscuous", || {
        t.r.ip("-d link show dev left").contains("promiscuity 0")
    });
    // Queues are free again.
    drop(router);
    let router = self::router(&t, "", 1);
    assert!(router.stop());
}

#[test]
fn the_kernel_side_of_a_tap_can_be_taken() {
    let (a, r) = (Netns::new("a"), Netns::new("r"));
    // One router makes the tap; the other takes its Linux side by AF_XDP.
    let first = format!(
        "cli: {{socket: SOCKET}}\n\
         interfaces:\n\
         \x20 tap0: {{host-interface: t0, namespace: {}, addresses: [10.0.1.1/24, \"2001:db8:1::1/64\"]}}\n",
        r.name
    );
    let first = Router::start_with(&a, &first);
    router_port(&r, "t0");
    let second = "cli: {socket: SOCKET}\n\
                  interfaces:\n\
                  \x20 xdp-t0: {addresses: [10.0.1.2/24, \"2001:db8:1::2/64\"]}\n\
                  \x20 tap7: {host-interface: t7, addresses: [10.0.2.1/24], host-addresses: [10.0.2.2/24], \
                  host-gateways: [10.0.2.1]}\n";
    let second = Router::start_with(&r, second);
    first.ctl("ip route add 10.0.2.0/24 via 10.0.1.2");
    // From a kernel, through the second router's tap and AF_XDP interface, to the first router.
    r.eventually("ping -c 1 -W 1 10.0.1.1", 10);
    assert_answered(&r.run("ping -c 20 -i 0.02 -W 1 10.0.1.1"));
    let s = shown(&second, "xdp-t0");
    assert_eq!(s["queues"].as_array().unwrap().len(), 1, "{s}");
    assert!(first.stop() && second.stop());
}

#[test]
fn every_refusal_says_what_to_do() {
    let t = bench("2");
    let router = Router::start(&t.r, &[]);
    let refused = |line: &str, words: &[&str]| {
        let (ok, out) = router.try_ctl(line);
        assert!(!ok, "{line}: {out}");
        for w in words {
            assert!(out.contains(w), "{line}: no {w:?} in: {out}");
        }
    };
    refused(
        "create interface af_xdp nosuch0",
        &["nosuch0", "No such device", "ip link"],
    );
    refused(
        "create interface af_xdp left num-rx-queues 3",
        &[
            "cannot use 3 receive queues of interface \"left\": it has 2",
            "ethtool -L left",
        ],
    );
    refused(
        "create interface af_xdp left num-tx-queues 5",
        &["cannot use 5 transmit queues", "it has 2"],
    );
    refused(
        "create interface af_xdp left rx-queue-size 100",
        &["a queue of 100 packets", "a power of two from 64 to 32768"],
    );
    refused(
        "create interface af_xdp left zero-copy",
        &["queue 0 of interface \"left\"", "no zero-copy", "mode auto"],
    );
    refused(
        "create interface af_xdp left prog /tmp/x.o",
        &["`prog`", "leave it out"],
    );
    refused(
        "create interface af_xdp left native generic",
        &["one excludes the other", "`native` and `generic`"],
    );
    refused("create interface af_xdp left netns nosuch", &["nosuch"]);
    // Nothing of a refused interface stays behind.
    assert!(!attached(&t.r, "left"));
    t.r.ip("link set lo mtu 65536");
    refused(
        "create interface af_xdp lo",
        &[
            "with MTU 65536",
            "at most 9216",
            "ip link set dev lo mtu 9216",
        ],
    );
    // Taken by somebody else: here by this router itself, and by another.
    router.ctl("create interface af_xdp left");
    refused(
        "create interface af_xdp left name again",
        &[
            "is attached to it already and is not replaced",
            "ip link set dev left xdp off",
        ],
    );
    let other = Router::start(&t.r, &[]);
    let (ok, out) = other.try_ctl("create interface af_xdp left");
    assert!(!ok && out.contains("bpftool prog show id"), "{out}");
    assert!(attached(&t.r, "left"), "the one that is there stays");
    refused("delete interface af_xdp local0", &["local0"]);
    refused("show af_xdp local0", &["is not an AF_XDP interface"]);
    router.ctl("create loopback interface");
    refused(
        "delete interface af_xdp loop0",
        &["of another kind", "delete loopback interface loop0"],
    );
}

#[test]
fn missing_privileges_are_named() {
    let t = bench("1");
    for (starter, words) in [
        (
            "setpriv --bounding-set=-bpf,-sys_admin",
            &["BPF map", "CAP_BPF", "not of a user namespace"][..],
        ),
        (
            "setpriv --bounding-set=-net_raw",
            &[
                "open an AF_XDP socket for interface \"left\"",
                "CAP_NET_RAW",
            ],
        ),
        (
            "setpriv --bounding-set=-net_admin,-sys_admin",
            &["BPF map \"sockets\"", "CAP_NET_ADMIN"],
        ),
        (
            "prlimit --memlock=65536:65536 setpriv --bounding-set=-ipc_lock",
            &[
                "RLIMIT_MEMLOCK) is 64 KiB and one queue needs 10240 KiB",
                "CAP_IPC_LOCK",
            ],
        ),
    ] {
        let router = Router::start_by(&t.r, starter, "cli: {socket: SOCKET}\n");
        let (ok, out) = router.try_ctl("create interface af_xdp left");
        assert!(!ok, "{starter}: {out}");
        for w in words {
            assert!(out.contains(w), "{starter}: no {w:?} in: {out}");
        }
        assert!(!attached(&t.r, "left"));
        drop(router);
    }
}
