//! What commands accept, refuse, complete and undo, and the page that is made of them.

use proptest::prelude::*;

use super::*;

#[test]
fn all_patterns_compile_and_every_command_has_help() {
    let table = table().unwrap();
    assert!(table.specs().len() > 60);
    for spec in table.specs() {
        assert!(
            !spec.help.is_empty() && !spec.help.ends_with('.'),
            "{}",
            spec.pattern
        );
    }
}

#[test]
fn the_reference_page_is_what_the_table_says() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = root.join("docs/reference/commands.md");
    let want = format!(
        "# Commands\n\nMade from the table that the router itself reads. Words can be abbreviated as long as they \
         are not ambiguous; `?` explains what may follow, and `--json` gives the answer of a `show` as data.\n\n{}",
        table().unwrap().markdown()
    );
    if std::env::var_os("PARSHALL_BLESS").is_some() {
        std::fs::write(&path, &want).unwrap();
    }
    let have = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        have == want,
        "docs/reference/commands.md is out of date: PARSHALL_BLESS=1 cargo test -p parshall-control writes it"
    );
}

#[test]
fn refusals_name_the_thing_and_what_is_allowed() {
    let mut r = model();
    script(&mut r, TWO);
    for (line, want) in [
        (
            "set interface state pg7 up",
            "no interface is called pg7; did you mean pg0 or pg1?",
        ),
        (
            "set interface state local0 up",
            "interface local0 stands for the router itself",
        ),
        (
            "create packet-generator interface pg0",
            "an interface called pg0 exists already",
        ),
        (
            "set interface ip address pg1 10.0.0.1/24",
            "address 10.0.0.1 is already on interface pg0",
        ),
        (
            "set interface ip address pg1 10.0.0.9/25",
            "10.0.0.0/25 overlaps 10.0.0.0/24 on interface pg0",
        ),
        (
            "set interface ip address pg1 10.2.0.0/24",
            "is the address of the subnet",
        ),
        (
            "set interface ip address del pg1 10.2.0.1/24",
            "does not have the address 10.2.0.1/24",
        ),
        ("set interface mtu 20 pg0", "takes an MTU of 68 to 65521"),
        (
            "set interface mtu packet 9999 pg0",
            "takes an MTU of 68 to 9202 bytes, not 9999",
        ),
        (
            "set interface mac address pg0 01:00:5e:00:00:01",
            "cannot have the address",
        ),
        (
            "set interface ip table pg0 5",
            "no ip table 5: make it with `ip table add 5`",
        ),
        (
            "set interface l2 xconnect pg0 pg0",
            "cannot be cross-connected to itself",
        ),
        (
            "ip route add 20.0.0.0/8 via 10.0.0.1 pg0",
            "is the address of interface pg0",
        ),
        (
            "ip route add 20.0.0.1/8 via 10.0.0.2",
            "20.0.0.0/8 is the network",
        ),
        (
            "ip route add 2001:db8::/32 via 10.0.0.2",
            "is of the other address family",
        ),
        (
            "ip route add 2001:db8::/32 via fe80::1",
            "is link-local: name the interface too",
        ),
        (
            "ip route add 224.0.0.0/4 via 10.0.0.2",
            "multicast is not routed",
        ),
        (
            "ip route add 20.0.0.0/8 table 9 via 10.0.0.2",
            "no ip table 9",
        ),
        ("ip route add 20.0.0.0/8", "a route needs a path"),
        (
            "ip route del 20.0.0.0/8",
            "no static route 20.0.0.0/8 in table 0",
        ),
        ("ip table del 0", "ip table 0 is always there"),
        (
            "ip neighbor pg0 10.0.0.1 02:00:00:00:00:01",
            "address 10.0.0.1 is already on",
        ),
        (
            "ip neighbor pg0 10.0.0.2 ff:ff:ff:ff:ff:ff",
            "is not the address of one station",
        ),
        (
            "delete tap pg0",
            "is of another kind: `delete packet-generator interface pg0` deletes it",
        ),
        ("sflow enable pg0 sampling-rate 0", "1..=1073741824"),
        ("sflow header-bytes 32", "64..=256"),
        ("sflow disable pg0", "has no sFlow enabled"),
        ("sflow collector add 0.0.0.0", "not an address to send to"),
        (
            "sflow collector del 192.0.2.1",
            "192.0.2.1:6343 is not a collector",
        ),
        (
            "packet-generator new { name x interface local0 size 64-64 data { hex 0x00 } }",
            "local0",
        ),
        (
            "packet-generator enable-stream nosuch",
            "no stream is called nosuch",
        ),
        (
            "trace add ip4-lookup 5",
            "packets are traced from where they come in",
        ),
        ("pcap trace max 5", "say what to capture"),
        ("exec /nonexistent/file", "cannot read /nonexistent/file"),
        ("shwo interface", "show interface"),
    ] {
        let before = everything(&mut r);
        let e = refused(&mut r, line);
        assert!(e.contains(want), "{line}: {e}");
        assert_eq!(everything(&mut r), before, "{line} left something");
    }
}

#[test]
fn a_script_is_executed_whole_or_not_at_all() {
    let mut r = router();
    script(&mut r, TWO);
    settle(&mut r);
    run(&mut r, "clear interfaces");
    let before = everything(&mut r);
    let e = r
        .run_script(
            "create packet-generator interface pg2\n\
             set interface state pg2 up\n\
             set interface ip address pg2 10.2.0.1/24\n\
             set interface mtu 1400 pg0\n\
             set interface mac address pg1 02:00:00:00:aa:aa\n\
             ip table add 5\n\
             ip route add 20.0.0.0/8 via 10.2.0.2\n\
             ip route add 30.0.0.0/8 table 5 blackhole\n\
             ip neighbor pg2 10.2.0.2 02:00:00:00:00:02 static\n\
             mpls table add 0\n\
             mpls local-label add 16 eos via 10.2.0.2 pg2 out-labels 17\n\
             sflow enable pg0 sampling-rate 100\n\
             sflow sampling-rate 500\n\
             set interface l2 xconnect pg0 pg1\n\
             delete packet-generator interface pg1\n\
             # the mistake\n\
             set interface state pg9 up\n",
            "my.cli",
        )
        .unwrap_err()
        .to_string();
    assert!(
        e.starts_with("my.cli:17: `set interface state pg9 up`: no interface is called pg9"),
        "{e}"
    );
    settle(&mut r);
    run(&mut r, "clear interfaces");
    let after = everything(&mut r);
    // The announcements of what was undone went through the interfaces' counters.
    for (a, b) in after.iter().zip(&before) {
        assert_eq!(without_sink(a), without_sink(b));
    }
    assert!(!r.mpls_table);
}

fn without_sink(v: &serde_json::Value) -> serde_json::Value {
    let mut v = v.clone();
    v.as_object_mut().map(|o| o.remove("sinks"));
    v
}

#[test]
fn a_rehearsal_says_what_would_be_refused_and_touches_nothing() {
    let line = |n: usize, s: &str| (format!("f.yaml:{n}"), s.to_owned());
    let config = EngineConfig::default();
    let good = [
        line(1, "create host-interface name eth0 interface-name wan"),
        line(
            2,
            "create tap id 3 host-if-name lan host-ip4-addr 10.0.0.2/24 host-ip4-gw 10.0.0.1",
        ),
        line(3, "set interface state wan up"),
        line(4, "set interface ip address tap3 10.0.0.1/24"),
        line(5, "sflow collector add 192.0.2.9"),
    ];
    assert_eq!(rehearse(&config, &good), Ok(()));
    let bad = [line(1, "create tap host-if-name much-too-long-a-name")];
    let e = rehearse(&config, &bad).unwrap_err().to_string();
    assert!(
        e.starts_with("f.yaml:1: `create tap host-if-name much-too-long-a-name`: "),
        "{e}"
    );
}

#[test]
fn help_and_completion_know_the_interfaces() {
    let mut r = model();
    script(&mut r, TWO);
    let line = "set interface state pg";
    let texts: Vec<String> = r
        .complete(line, line.len())
        .into_iter()
        .map(|c| c.text)
        .collect();
    assert_eq!(texts, ["pg0", "pg1"]);
    assert!(r.help("sflow ").contains("sampling-rate"));
}

#[test]
fn the_same_neighbour_on_two_interfaces_keeps_its_host_route() {
    let mut r = model();
    script(&mut r, TWO);
    script(
        &mut r,
        "ip neighbor pg0 10.0.0.9 02:00:00:00:00:09 static
         ip neighbor pg1 10.0.0.9 02:00:00:00:00:0a static
         set interface ip address pg1 10.2.0.1/24",
    );
    let found = data(&mut r, "show ip fib 10.0.0.9");
    assert_eq!(found[0]["routes"][0]["prefix"], "10.0.0.9/32");
    assert_eq!(found[0]["routes"][0]["forwarding"][0]["interface"], "pg0");
}

/// Lines that are valid in some state: most sequences of them run, some are refused, none may panic or
/// leave anything behind.
fn line() -> impl Strategy<Value = String> {
    let i = 0..3u8;
    let n = 0..4u8;
    prop_oneof![
        3 => i.clone().prop_map(|i| format!("create packet-generator interface pg{i}")),
        1 => i.clone().prop_map(|i| format!("delete packet-generator interface pg{i}")),
        2 => (i.clone(), any::<bool>()).prop_map(|(i, up)| format!("set interface state pg{i} {}", if up { "up" } else { "down" })),
        3 => (i.clone(), n.clone()).prop_map(|(i, n)| format!("set interface ip address pg{i} 10.{n}.0.{}/24", i + 1)),
        1 => (i.clone(), n.clone()).prop_map(|(i, n)| format!("set interface ip address del pg{i} 10.{n}.0.{}/24", i + 1)),
        1 => (i.clone(), n.clone()).prop_map(|(i, n)| format!("set interface ip address pg{i} 2001:db8:{n}::{}/64", i + 1)),
        1 => i.clone().prop_map(|i| format!("set interface ip address del pg{i} all")),
        3 => (n.clone(), n.clone()).prop_map(|(p, n)| format!("ip route add 2{p}.0.0.0/8 via 10.{n}.0.9")),
        2 => (n.clone(), i.clone(), n.clone()).prop_map(|(p, i, n)| format!("ip route add 2{p}.0.0.0/8 via 10.{n}.0.9 pg{i} out-labels 7{p}")),
        1 => (n.clone(), n.clone()).prop_map(|(p, n)| format!("ip route add 10.{p}.0.0/16 via 2{n}.0.0.1")),
        1 => (n.clone(), n.clone()).prop_map(|(p, n)| format!("ip route add 2{p}.0.0.0/8 table 1 via ip4-lookup-in-table {n}")),
        1 => n.clone().prop_map(|p| format!("ip route del 2{p}.0.0.0/8")),
        1 => Just("ip table add 1".to_owned()),
        1 => Just("ip table del 1".to_owned()),
        1 => i.clone().prop_map(|i| format!("set interface ip table pg{i} 1")),
        2 => (i.clone(), n.clone()).prop_map(|(i, n)| format!("ip neighbor pg{i} 10.{n}.0.9 02:00:00:00:00:0{n} static")),
        1 => (i.clone(), n.clone()).prop_map(|(i, n)| format!("ip neighbor pg{i} 10.{n}.0.9 02:00:00:00:01:0{n}")),
        1 => (i.clone(), n.clone()).prop_map(|(i, n)| format!("ip neighbor del pg{i} 10.{n}.0.9")),
        1 => Just("mpls table add 0".to_owned()),
        1 => (n.clone(), i.clone()).prop_map(|(n, i)| format!("mpls local-label add 1{} via 10.{n}.0.9 pg{i}", n + 6)),
        1 => n.clone().prop_map(|n| format!("mpls local-label del 1{}", n + 6)),
        1 => (i.clone(), i.clone()).prop_map(|(a, b)| format!("set interface l2 xconnect pg{a} pg{b}")),
        1 => i.clone().prop_map(|i| format!("sflow enable pg{i} sampling-rate 10")),
        1 => i.clone().prop_map(|i| format!("set interface mpls pg{i} enable")),
        1 => i.prop_map(|i| format!("set interface mac address pg{i} 02:00:00:00:cc:0{i}")),
    ]
}

fn take_all_away(r: &mut Router) {
    let names: Vec<String> = r
        .interfaces
        .iter()
        .skip(1)
        .map(|i| i.name.clone())
        .collect();
    for n in names {
        run(r, &format!("delete packet-generator interface {n}"));
    }
    let routes: Vec<(u32, String)> = r
        .rib
        .tables()
        .filter(|(k, _)| k.0 == crate::prefix::Family::Ip4)
        .flat_map(|(k, t)| t.routes().map(|(n, _)| (k.1, n.to_string())))
        .collect();
    for (table, net) in routes {
        run(r, &format!("ip route del {net} table {table}"));
    }
    let labels: Vec<u32> = r.rib.labels().map(|l| l.0).collect();
    for l in labels {
        r.execute(&format!("mpls local-label del {l}"), false);
    }
    r.execute("ip table del 1", false);
    r.execute("mpls table del 0", false);
}

/// What an empty router holds: nothing but IPv6's link-local route.
fn assert_empty(r: &mut Router) {
    r.forwarding.reclaim();
    let s = &r.engine.shared;
    let left = (
        s.adjacencies.len(),
        s.load_balances.len(),
        s.impositions.len(),
        // Three dispositions are there from the start.
        s.dispositions.len(),
        r.forwarding.adjacencies.iter().count(),
        r.rib.list_count(),
        r.neighbors[0].len() + r.neighbors[1].len(),
    );
    assert_eq!(left, (0, 0, 0, 3, 0, 1, 0));
    assert_eq!(data(r, "show ip fib").as_array().map(Vec::len), Some(1));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn any_sequence_of_commands_can_be_taken_back(lines in proptest::collection::vec(line(), 1..60)) {
        let mut r = model();
        let mut done = 0;
        for l in &lines {
            if !matches!(r.execute(l, false), Reply::Error(_)) {
                done += 1;
            }
        }
        prop_assert!(done <= lines.len());
        take_all_away(&mut r);
        assert_empty(&mut r);
    }

    #[test]
    fn any_script_that_fails_leaves_no_trace(
        before in proptest::collection::vec(line(), 1..25),
        lines in proptest::collection::vec(line(), 1..40),
    ) {
        // What is merely learned is not configuration: undoing does not bring it back.
        let configured = |l: &&String| !l.starts_with("ip neighbor pg") || l.ends_with("static");
        let mut r = model();
        for l in before.iter().filter(configured) {
            r.execute(l, false);
        }
        let shown = everything(&mut r);
        let objects = |r: &mut Router| {
            r.forwarding.reclaim();
            let s = &r.engine.shared;
            (s.adjacencies.len(), s.load_balances.len(), s.impositions.len(), s.dispositions.len(), r.rib.list_count())
        };
        let held = objects(&mut r);
        let mut script: String = lines.iter().filter(configured).map(|l| format!("{l}\n")).collect();
        script.push_str("set interface state nosuch up\n");
        prop_assert!(r.run_script(&script, "x").is_err());
        prop_assert_eq!(without_ages(everything(&mut r)), without_ages(shown));
        prop_assert_eq!(objects(&mut r), held);
    }
}

/// Ages go on.
fn without_ages(all: Vec<serde_json::Value>) -> Vec<serde_json::Value> {
    all.into_iter()
        .map(|mut v| {
            if let Some(list) = v.as_array_mut() {
                // A table that is made again may get another index.
                list.iter_mut()
                    .filter(|t| t.get("routes").is_some())
                    .for_each(|t| {
                        t.as_object_mut().map(|o| o.remove("index"));
                    });
                for n in list.iter_mut() {
                    n.as_object_mut().map(|o| o.remove("age_seconds"));
                }
            }
            v
        })
        .collect()
}
