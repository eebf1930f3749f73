//! What routers with generator interfaces show, and what happens to packets in them.

use super::*;

#[test]
fn interfaces_as_vpp_shows_them() {
    let mut r = router();
    script(&mut r, TWO);
    run(&mut r, "set interface mtu packet 1500 pg1");
    let want = "              Name               Idx    State  MTU (L3/IP4/IP6/MPLS)     Counter          Count     \n\
                local0                            0     down          0/0/0/0       \n\
                pg0                               1      up          9000/0/0/0     \n\
                pg1                               2      up          1500/0/0/0     \n";
    // The announcements of the addresses are counted as sent.
    settle(&mut r);
    run(&mut r, "clear interfaces");
    assert_eq!(run(&mut r, "show interface"), want);
    assert_eq!(
        run(&mut r, "show interface address"),
        "local0 (dn):\npg0 (up):\n  L3 10.0.0.1/24\npg1 (up):\n  L3 10.1.0.1/24\n"
    );
    let json = data(&mut r, "show interface pg1");
    assert_eq!(json[0]["mtu"], 1500);
    assert_eq!(json[0]["mac"], "02:fe:00:00:00:01");
    assert!(run(&mut r, "show hardware-interfaces").contains("Ethernet address 02:fe:00:00:00:01"));
}

#[test]
fn routes_as_vpp_shows_them() {
    let mut r = router();
    script(&mut r, TWO);
    script(
        &mut r,
        "ip neighbor pg1 10.1.0.2 02:00:00:00:00:99 static
         ip route add 20.0.0.0/8 via 10.1.0.2
         ip route add 30.0.0.0/8 via 10.1.0.2 pg1 weight 3 via 10.0.0.9 pg0
         ip route add 40.0.0.0/8 via 10.1.0.2 out-labels 100 200
         ip route add 50.0.0.0/8 unreachable",
    );
    let out = run(&mut r, "show ip fib");
    let mut lines = out.lines();
    assert!(
        lines
            .next()
            .unwrap()
            .starts_with("ipv4-VRF:0, fib_index:0, flow hash:[src dst sport dport proto")
    );
    let rewrite = "02000000009902fe00000001";
    let complete = format!("[@5]: ipv4 via 10.1.0.2 pg1: mtu:9000 {rewrite}0800");
    let labelled =
        format!("[@10]: mpls-label:[100][200] [@5]: mpls via 10.1.0.2 pg1: mtu:9000 {rewrite}8847");
    let after = |prefix: &str| -> Vec<String> {
        let at = out
            .lines()
            .position(|l| l == prefix)
            .unwrap_or_else(|| panic!("{prefix} in\n{out}"));
        let next = out
            .lines()
            .skip(at + 3)
            .take_while(|l| l.starts_with("    "));
        next.map(|l| l.trim().to_owned()).collect()
    };
    assert_eq!(
        after("10.0.0.0/24"),
        ["[0] [@4]: ipv4-glean: pg0: mtu:9000"]
    );
    assert_eq!(after("10.0.0.1/32"), ["[0] [@2]: dpo-receive: pg0"]);
    assert_eq!(after("10.0.0.255/32"), ["[0] [@0]: dpo-drop ip4"]);
    assert_eq!(after("10.1.0.2/32"), [format!("[0] {complete}")]);
    assert_eq!(after("20.0.0.0/8"), [format!("[0] {complete}")]);
    assert_eq!(
        after("30.0.0.0/8"),
        [
            "[0] [@3]: arp-ipv4: via 10.0.0.9 pg0 weight:1".to_owned(),
            format!("[1] {complete} weight:3")
        ]
    );
    assert_eq!(after("40.0.0.0/8"), [format!("[0] {labelled}")]);
    assert_eq!(after("50.0.0.0/8"), ["[0] [@0]: ip4-unreachable"]);
    let one = data(&mut r, "show ip fib 20.1.2.3");
    assert_eq!(one[0]["routes"][0]["prefix"], "20.0.0.0/8");
    assert_eq!(one[0]["routes"][0]["forwarding"][0]["next_hop"], "10.1.0.2");
    assert!(run(&mut r, "show ip fib summary").contains("Prefix length"));
}

#[test]
fn neighbours_as_vpp_shows_them() {
    let mut r = model();
    script(&mut r, TWO);
    script(
        &mut r,
        "ip neighbor pg0 10.0.0.2 02:00:00:00:00:02 static\nset ip neighbor pg0 10.0.0.3 02:00:00:00:00:03",
    );
    let out = run(&mut r, "show ip neighbor");
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(
        lines[0],
        "      Age                         IP                    Flags      Ethernet              Interface       "
    );
    let words: Vec<Vec<&str>> = lines[1..]
        .iter()
        .map(|l| l.split_whitespace().collect())
        .collect();
    assert_eq!(words[0][1..], ["10.0.0.2", "S", "02:00:00:00:00:02", "pg0"]);
    assert_eq!(words[1][1..], ["10.0.0.3", "D", "02:00:00:00:00:03", "pg0"]);
    run(&mut r, "ip neighbor del pg0 10.0.0.2");
    assert_eq!(
        data(&mut r, "show ip neighbor").as_array().map(Vec::len),
        Some(1)
    );
}

#[test]
fn labels_push_swap_and_pop() {
    let mut r = router();
    script(&mut r, TWO);
    assert_eq!(
        refused(&mut r, "set interface mpls pg0 enable"),
        "no mpls table 0: make it with `mpls table add 0`"
    );
    script(
        &mut r,
        "mpls table add 0
         set interface mpls pg0 enable
         ip neighbor pg1 10.1.0.2 02:00:00:00:00:99 static
         mpls local-label add 16 eos via 10.1.0.2 pg1 out-labels 17
         mpls local-label add 18 eos via ip4-lookup-in-table 0
         mpls local-label add 19 via 10.1.0.2 pg1",
    );
    let out = run(&mut r, "show mpls fib");
    for want in [
        "16:eos/21",
        "[0] [@10]: mpls-label:[17] [@5]: mpls via 10.1.0.2 pg1: mtu:9000 02000000009902fe000000018847",
        "18:eos/21",
        "[0] [@13]: dst-address,unicast lookup in ipv4-VRF:0",
        "19:neos/21",
        "19:eos/21",
    ] {
        assert!(out.contains(want), "{want} in\n{out}");
    }
    assert!(refused(&mut r, "mpls table del 0").contains("still has labels"));
    assert!(refused(&mut r, "mpls local-label del 20").contains("no local label 20"));
    script(
        &mut r,
        "mpls local-label del 16\nmpls local-label del 18 eos\nmpls local-label del 19\nset interface mpls pg0 disable\nmpls table del 0",
    );
}

#[test]
fn packets_are_routed_counted_sampled_and_traced() {
    let mut r = router();
    script(&mut r, TWO);
    script(
        &mut r,
        "ip neighbor pg1 10.1.0.2 02:00:00:00:00:99 static
         ip route add 20.0.0.0/8 via 10.1.0.2
         sflow enable pg0 sampling-rate 10
         trace add pg-input 5",
    );
    run(&mut r, &stream("s", 1000));
    settle(&mut r);
    run(&mut r, "clear interfaces");
    let before = sunk(&r, "pg1");
    run(&mut r, "packet-generator enable-stream s");
    until(&mut r, "forwarding", |r| sunk(r, "pg1") == before + 1000);
    let shown = data(&mut r, "show interface pg0");
    assert_eq!(shown[0]["counters"]["rx_packets"], 1000);
    assert_eq!(shown[0]["counters"]["rx_bytes"], 64_000);
    let text = run(&mut r, "show interface pg1");
    let counter = "tx packets                  1000\n";
    assert!(
        text.lines()
            .nth(1)
            .is_some_and(|l| format!("{l}\n").ends_with(counter)),
        "{text}"
    );
    let sflow = data(&mut r, "show sflow");
    assert_eq!(sflow["interfaces"][0]["pool"], 1000);
    let samples = sflow["interfaces"][0]["samples"].as_u64().unwrap();
    assert!(
        (40..250).contains(&samples),
        "{samples} samples of 1000 at 1-in-10"
    );
    let trace = run(&mut r, "show trace");
    assert!(
        trace.contains("Packet 5\n") && !trace.contains("Packet 6\n"),
        "{trace}"
    );
    assert!(trace.contains("ip4-lookup\n"), "{trace}");
    let runtime = run(&mut r, "show runtime");
    assert!(
        runtime.contains("ip4-rewrite") && runtime.contains("pg1-tx"),
        "{runtime}"
    );
    run(&mut r, "clear runtime");
    assert!(!run(&mut r, "show runtime").contains("ip4-rewrite"));
}

#[test]
fn a_stream_that_starts_brings_its_interface_up() {
    let mut r = router();
    script(&mut r, TWO);
    script(
        &mut r,
        "set interface state pg0 down\nip route add 20.0.0.0/8 blackhole",
    );
    run(&mut r, &stream("s", 3));
    // What is undone takes the interface down again.
    let all = "packet-generator enable-stream s\nno such command";
    assert!(r.run_script(all, "test").is_err());
    assert_eq!(data(&mut r, "show interface pg0")[0]["admin_up"], false);
    settle(&mut r);
    // It may have begun before it was undone.
    let before = r.engine.drops().values().sum::<u64>();
    run(&mut r, "packet-generator enable-stream");
    assert_eq!(data(&mut r, "show interface pg0")[0]["admin_up"], true);
    until(&mut r, "three drops", |r| {
        r.engine.drops().values().sum::<u64>() == before + 3
    });
}

#[test]
fn drops_are_shown_by_node_and_reason_and_can_be_cleared() {
    let mut r = router();
    script(&mut r, TWO);
    run(&mut r, "ip route add 20.0.0.0/8 blackhole");
    run(&mut r, &stream("s", 7));
    run(&mut r, "packet-generator enable-stream");
    until(&mut r, "seven drops", |r| {
        r.engine.drops().values().sum::<u64>() == 7
    });
    let errors = data(&mut r, "show errors");
    assert_eq!(errors[0]["count"], 7);
    assert_eq!(errors[0]["reason"], "route_blackhole");
    let text = run(&mut r, "show errors");
    assert!(
        text.starts_with("   Count                  Node                                   Reason"),
        "{text}"
    );
    assert!(text.contains("ip4-lookup") && text.contains("blackhole route"));
    run(&mut r, "clear errors");
    assert_eq!(run(&mut r, "show errors").lines().count(), 1);
}

#[test]
fn a_neighbour_is_asked_for_and_packets_wait_for_it() {
    let mut r = router();
    script(&mut r, TWO);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("tx.pcap");
    run(&mut r, "ip route add 20.0.0.0/8 via 10.1.0.2");
    run(
        &mut r,
        &format!("packet-generator capture pg1 pcap {}", file.display()),
    );
    run(&mut r, &stream("s", 3));
    settle(&mut r);
    run(&mut r, "packet-generator enable-stream s");
    until(&mut r, "a question", |r| {
        !data(r, "show ip neighbor").as_array().unwrap().is_empty()
    });
    assert_eq!(data(&mut r, "show ip neighbor")[0]["state"], "incomplete");
    let before = sunk(&r, "pg1");
    let answer = "packet-generator new { name arp limit 1 size 60-60 interface pg1 node ethernet-input \
                  data { ARP: 02:00:00:00:00:99 -> 02:fe:00:00:00:01 ARP: reply 02:00:00:00:00:99/10.1.0.2 -> 02:fe:00:00:00:01/10.1.0.1 } }";
    if let Reply::Error(e) = r.execute(answer, false) {
        // The generator's text has no ARP: a recording does as well.
        assert!(!e.is_empty());
        let pcap = dir.path().join("arp.pcap");
        std::fs::write(&pcap, arp_reply_pcap()).unwrap();
        run(
            &mut r,
            &format!(
                "packet-generator new {{ name arp pcap {} interface pg1 }}",
                pcap.display()
            ),
        );
    }
    run(&mut r, "packet-generator enable-stream arp");
    until(&mut r, "forwarding", |r| sunk(r, "pg1") >= before + 3);
    assert_eq!(data(&mut r, "show ip neighbor")[0]["state"], "reachable");
    run(&mut r, "packet-generator capture pg1 disable");
    let bytes = std::fs::read(&file).unwrap();
    let asked = [
        0x02, 0xfe, 0, 0, 0, 1, 10, 1, 0, 1, 0, 0, 0, 0, 0, 0, 10, 1, 0, 2,
    ];
    assert!(
        bytes.windows(asked.len()).any(|w| w == asked),
        "no ARP request was sent"
    );
}

/// A capture of one ARP reply from 10.1.0.2 to 10.1.0.1.
fn arp_reply_pcap() -> Vec<u8> {
    let mut frame = vec![2, 0xfe, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0x99, 8, 6];
    frame.extend([0, 1, 8, 0, 6, 4, 0, 2, 2, 0, 0, 0, 0, 0x99, 10, 1, 0, 2]);
    frame.extend([2, 0xfe, 0, 0, 0, 1, 10, 1, 0, 1]);
    frame.resize(60, 0);
    let mut out = Vec::new();
    for word in [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65_535, 1, 0, 0, 60, 60] {
        out.extend(word.to_le_bytes());
    }
    out.extend(frame);
    out
}

#[test]
fn capture_writes_what_passes() {
    let mut r = router();
    script(&mut r, TWO);
    run(&mut r, "ip route add 20.0.0.0/8 blackhole");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("x.pcap");
    run(
        &mut r,
        &format!("pcap trace rx drop max 100 file {}", file.display()),
    );
    assert!(refused(&mut r, "pcap trace rx").contains("is running"));
    run(&mut r, &stream("s", 4));
    run(&mut r, "packet-generator enable-stream s");
    until(&mut r, "four drops", |r| {
        r.engine.drops().values().sum::<u64>() == 4
    });
    let out = run(&mut r, "pcap trace off");
    assert!(out.starts_with("Write 8 packets to "), "{out}");
    let size = std::fs::metadata(&file).unwrap().len();
    assert_eq!(size, 24 + 8 * (16 + 64));
}
