//! What files become, and in which order.

use std::path::Path;

use parshall_control::EngineConfig;

use super::*;

#[test]
fn the_examples_are_good_and_their_commands_too() {
    let mut seen = 0;
    for entry in std::fs::read_dir(root().join("docs/examples")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "yaml") {
            load(&path).unwrap_or_else(|e| panic!("{e}"));
            rehearsed(&std::fs::read_to_string(&path).unwrap());
            seen += 1;
        }
    }
    assert!(seen >= 3, "{seen} examples");
}

#[test]
fn nothing_asked_for_is_a_router_with_the_defaults() {
    let plan = plan("");
    assert!(plan.commands.is_empty());
    assert_eq!(plan.log, LogLevel::Info);
    assert_eq!(plan.cli.socket, Path::new("/run/parshall/cli.sock"));
    assert_eq!((plan.cli.group, plan.cli.vppctl), (None, None));
    assert_eq!((plan.stats.socket, plan.stats.size), (None, 32 << 20));
    let default = EngineConfig::default();
    let engine = plan.engine;
    assert_eq!(
        (
            engine.workers,
            engine.buffers,
            engine.interfaces,
            engine.busy_poll,
            engine.seed
        ),
        (
            default.workers,
            default.buffers,
            default.interfaces,
            default.busy_poll,
            None
        )
    );
}

#[test]
fn hsflowd_is_fed_as_is_said() {
    for (said, want) in [
        ("true", &["sflow netlink"][..]),
        ("false", &[]),
        ("{os-index: true}", &["sflow netlink"]),
        ("{group: 9}", &["sflow netlink group 9"]),
        (
            "{group: 9, os-index: false}",
            &["sflow netlink group 9 no-os-index"],
        ),
    ] {
        let text = format!("sflow: {{netlink: {said}}}\n");
        assert_eq!(lines(&text), want, "{said}");
        rehearsed(&text);
    }
    assert!(error("sflow: {netlink: {group: 0}}\n").contains("1 to 65534"));
}

#[test]
fn settings_of_the_start_are_taken() {
    let plan = plan(
        "workers: {cpus: [4, 2], busy-poll: true}\nbuffers: {per-worker: 65536}\nlimits: {interfaces: 64}\n\
         seed: 7\ncli: {socket: /tmp/p.sock, group: wheel}\nlog: {level: debug}\n",
    );
    assert_eq!(plan.engine.workers, 2);
    assert_eq!(plan.engine.cpus, [4, 2]);
    assert!(plan.engine.busy_poll && !plan.engine.share_cpus);
    assert_eq!((plan.engine.buffers, plan.engine.interfaces), (65536, 64));
    assert_eq!(plan.engine.seed, Some(7));
    assert_eq!(plan.cli.group.as_deref(), Some("wheel"));
    assert_eq!(plan.log, LogLevel::Debug);
    let sockets = self::plan("cli: {vppctl: /v.sock}\nstats: {socket: /s.sock, size: 8}\n");
    assert_eq!(sockets.cli.vppctl.as_deref(), Some(Path::new("/v.sock")));
    let stats = (sockets.stats.socket.as_deref(), sockets.stats.size);
    assert_eq!(stats, (Some(Path::new("/s.sock")), 8 << 20));
    assert_eq!(self::plan("workers: 3\n").engine.workers, 3);
    let shared = self::plan("workers: {count: 2, main-cpu: 0, share-cpus: true}\n").engine;
    assert_eq!((shared.main_cpu, shared.share_cpus), (Some(0), true));
    let placed = self::plan(
        "workers: 2\ninterfaces: {pg0: {state: down, rx-placement: [1, 0], rx-mode: interrupt}}\n",
    );
    let lines: Vec<_> = placed.commands.iter().map(|c| c.line.as_str()).collect();
    assert_eq!(
        lines[1..],
        [
            "set interface rx-placement pg0 queue 0 worker 1",
            "set interface rx-placement pg0 queue 1 worker 0",
            "set interface rx-mode pg0 interrupt"
        ]
    );
}

/// Ranges that control owns too must be the same here.
#[test]
fn ranges_are_those_of_control() {
    let most = EngineConfig::MAX_WORKERS;
    assert_eq!(plan(&format!("workers: {most}")).engine.workers, most);
    assert!(error(&format!("workers: {}", most + 1)).contains(&format!("from 1 to {most}")));
    let (min, max) = EngineConfig::BUFFER_RANGE;
    let text = error("buffers: {per-worker: 1}");
    assert!(
        text.contains(&format!("from {min} to {max} buffers")),
        "{text}"
    );
}

#[test]
fn the_order_is_that_of_the_dependencies() {
    let text = "
routes:
  - {prefix: 10.0.0.0/8, table: 5, via: 192.0.2.9, interface: tap0, labels: [17, 18], pipe: true}
neighbors:
  - {interface: tap0, address: 192.0.2.9, mac: 02:00:00:00:00:09}
sflow: {collectors: ['192.0.2.7:99', {address: flows.example.net, port: 7, source: 192.0.2.1}], sampling-rate: 100, direction: both, ifindex: linux, records: {timestamp: true, host: false}}
bgp: {local-as: 65000, files: [paths.txt], mrt: [/a b], bmp: [{address: '::1', port: 10179}]}
mpls: {labels: [{label: 16, via: 192.0.2.9, labels: 17}, {label: 20, pop: ip4, table: 5}]}
commands: ['show version', \"exec /tmp/more\"]
packet-generator: {streams: [{name: s, interface: pg0, data: 'hex 0x0102030405060708090a0b0c0800'}]}
interfaces:
  tap0:
    mtu: 1600
    mac: 02:00:00:00:00:01
    addresses: [192.0.2.1/24]
    table: 5
    mpls: true
    promiscuous: true
    sflow: {sampling-rate: 50, direction: tx}
    host-interface: vpp1
    namespace: /run/netns/h1
    host-mac: 02:00:00:00:00:02
    host-mtu: 2000
    host-addresses: [192.0.2.2/24, '2001:db8::2/64']
    host-gateways: [192.0.2.1]
    queues: 2
  loop0: {state: down, mac: 02:00:00:00:00:03, ip6: true}
  pg0: {sflow: {adaptive: 200, min-rate: 10, max-rate: 5000}}
tables: [{id: 5, family: ip4}]
";
    assert_eq!(
        lines(text),
        [
            "ip table add 5",
            "mpls table add 0",
            "create tap id 0 hw-addr 02:00:00:00:00:01 num-rx-queues 2 host-ns /run/netns/h1 host-if-name vpp1 \
             host-mac-addr 02:00:00:00:00:02 host-mtu-size 2000 host-ip4-addr 192.0.2.2/24 \
             host-ip6-addr 2001:db8::2/64 host-ip4-gw 192.0.2.1",
            "create loopback interface instance 0 mac 02:00:00:00:00:03",
            "create packet-generator interface pg0",
            "set interface mtu 1600 tap0",
            "set interface promiscuous on tap0",
            "set interface ip table tap0 5",
            "set interface mpls tap0 enable",
            "enable ip6 interface loop0",
            "set interface ip address tap0 192.0.2.1/24",
            "sflow direction both",
            "sflow ifindex linux",
            "sflow sampling-rate 100",
            "sflow records timestamp on",
            "sflow records host off",
            "sflow collector add 192.0.2.7 port 99",
            "sflow collector add flows.example.net port 7 source 192.0.2.1",
            "sflow enable tap0 direction tx sampling-rate 50",
            "sflow enable pg0 adaptive 200 min-rate 10 max-rate 5000",
            "bgp local-as 65000",
            "bgp feed file paths.txt",
            "bgp feed mrt \"/a b\"",
            "bgp feed bmp listen [::1]:10179",
            "set interface state tap0 up",
            "set interface state pg0 up",
            "ip neighbor tap0 192.0.2.9 02:00:00:00:00:09 static",
            "ip route add 10.0.0.0/8 table 5 via 192.0.2.9 tap0 out-labels 17 18 pipe",
            "mpls local-label add 16 via 192.0.2.9 out-labels 17",
            "mpls local-label add 20 eos via ip4-lookup-in-table 5",
            "packet-generator new { name s interface pg0 data { hex 0x0102030405060708090a0b0c0800 } }",
            "show version",
            "exec /tmp/more",
            "packet-generator enable-stream s",
        ]
    );
    rehearsed(&text.replace(", \"exec /tmp/more\"", ""));
}

#[test]
fn names_of_their_own_need_a_type() {
    let text = "
interfaces:
  wan: {type: af_packet, host-interface: eth0, namespace: pid:1}
  host-eth1: {host-interface: enp3s0}
  gen: {type: pg}
  pg0: {}
  a.b: {type: tap}
  files: {type: pcap, receive: '/tmp/a b.pcap', transmit: out.pcap, loop: true, speed: 0.5}
";
    let all = lines(text);
    assert_eq!(
        all[..6],
        [
            "create host-interface name eth0 interface-name wan host-ns pid:1",
            "create host-interface name enp3s0 interface-name host-eth1",
            "create packet-generator interface pg1 name gen",
            "create packet-generator interface pg0",
            "create tap id 0 name a.b",
            "create pcap interface instance 0 name files rx \"/tmp/a b.pcap\" tx out.pcap loop recorded-speed 0.5",
        ]
    );
    rehearsed(text);
    assert!(
        error("interfaces: {wan: {}}").contains("`wan` says of no type what it is; write `type`")
    );
    assert!(error("interfaces: {drop: {type: tap}}").contains("a word of the command language"));
    assert!(error("interfaces: {local0: {}}").contains("the router itself"));
    assert!(error("interfaces: {tap0: {type: pg}}").contains("of type tap, not pg"));
    assert!(error("interfaces: {wan: {type: af_xdp}}").contains("`host-interface` is missing"));
    assert!(error("interfaces: {host-e: {tx-queues: 1}}").contains("only af_xdp or memif has"));
    assert!(error("interfaces: {wan: {type: af_packet}}").contains("`host-interface` is missing"));
    assert!(error("interfaces: {tap07: {}}").contains("says of no type"));
    assert!(error("interfaces: {\"a b\": {}}").contains("cannot be the name"));
}

#[test]
fn memif_interfaces_are_made_on_their_sockets() {
    let text = "
memif: {sockets: [{id: 7, filename: /run/vpp/memif.sock}, {id: 8, filename: '@abstract'}]}
interfaces:
  memif0/0: {state: down}
  memif7/3: {role: slave, queues: 2, tx-queues: 3, ring-size: 2048, buffer-size: 4096, secret: s.1, state: down}
  vm: {type: memif, socket-id: 8, id: 1, mac: '02:00:00:00:00:01', state: down}
";
    assert_eq!(
        lines(text),
        [
            "create memif socket id 7 filename /run/vpp/memif.sock",
            "create memif socket id 8 filename @abstract",
            "create interface memif socket-id 0 id 0 master",
            "create interface memif socket-id 7 id 3 slave ring-size 2048 buffer-size 4096 rx-queues 2 tx-queues 3 \
             secret s.1",
            "create interface memif socket-id 8 id 1 master name vm hw-addr 02:00:00:00:00:01",
        ]
    );
    rehearsed(text);
    let e = |text: &str| errors(text).to_string();
    assert!(e("interfaces: {memif3/0: {}}").contains("there is no memif socket 3 in this file"));
    assert!(e("interfaces: {memif0/1: {id: 2}}").contains("the interface's name says 1"));
    assert!(e("interfaces: {memif0: {}}").contains("says of no type"));
    assert!(e("interfaces: {memif0/x: {}}").contains("cannot be the name"));
    assert!(e("memif: {sockets: [{id: 1}]}").contains("`filename` is missing"));
    let twice = "memif: {sockets: [{id: 1, filename: a}, {id: 1, filename: b}]}";
    assert!(e(twice).contains("socket 1 is in this list already"));
}

#[test]
fn af_xdp_interfaces_are_made_with_their_options() {
    let text = "
interfaces:
  xdp-eth0: {copy-mode: zero-copy, queues: 2, tx-queues: 1}
  wan: {type: af_xdp, host-interface: eth1, namespace: pid:1, mac: '02:00:00:00:00:01', rx-queue-size: 512,
    tx-queue-size: 256, xdp-mode: generic, busy-poll: 32}
";
    rehearsed(text);
    let lines = lines(text);
    for line in [
        "create interface af_xdp host-if eth0 num-rx-queues 2 num-tx-queues 1 mode zero-copy",
        "create interface af_xdp host-if eth1 name wan hw-addr 02:00:00:00:00:01 netns pid:1 rx-queue-size 512 \
         tx-queue-size 256 busy-poll 32 generic",
    ] {
        assert!(lines.iter().any(|l| l == line), "{line}: {lines:#?}");
    }
}

#[test]
fn collectors_have_ways_and_limits_and_the_dns_may_name_more() {
    let text = "
sflow:
  agent-election: {device: eth0, networks: [10.0.0.0/8, '!10.1.0.0/16']}
  discover: {domain: example.net, server: 2001:db8::53, port: 5353, namespace: mgmt, delay: 5}
  collectors:
    - {address: 192.0.2.1, port: 7, source: 192.0.2.9, namespace: /run/netns/mgmt, device: eth1, dscp: 46,
       datagrams-per-second: 100, bits-per-second: 8000000, max-datagram: 1000}
    - {address: 192.0.2.1, port: 7, device: eth2}
";
    rehearsed(text);
    assert_eq!(
        lines(text),
        [
            "sflow agent-address auto device eth0 prefer 10.0.0.0/8 avoid 10.1.0.0/16",
            "sflow discover example.net server [2001:db8::53]:5353 namespace mgmt delay 5",
            "sflow collector add 192.0.2.1 port 7 source 192.0.2.9 namespace /run/netns/mgmt device eth1 dscp 46 \
             datagrams-per-second 100 bits-per-second 8000000 max-datagram 1000",
            "sflow collector add 192.0.2.1 port 7 device eth2",
        ]
    );
    for (text, line) in [
        ("example.net", "sflow discover example.net delay 30"),
        ("auto", "sflow discover auto delay 30"),
        ("off", "sflow discover off"),
        (
            "{server: 192.0.2.53}",
            "sflow discover auto server 192.0.2.53:53 delay 30",
        ),
    ] {
        let text = format!("sflow: {{discover: {text}}}");
        rehearsed(&text);
        assert_eq!(lines(&text), [line]);
    }
    for (text, said) in [
        (
            "agent-address: 192.0.2.1, agent-election: {device: eth0}",
            "which address it is",
        ),
        (
            "agent-election: {networks: [10.0.0.1/8]}",
            "bits set behind its length",
        ),
        (
            "agent-election: {networks: [x]}",
            "or with `!` before it to avoid",
        ),
        ("discover: {port: 53}", "write the name server too"),
        (
            "collectors: [{address: 192.0.2.1, dscp: 64}]",
            "from 0 to 63",
        ),
        (
            "collectors: [{address: 192.0.2.1, device: a-name-that-is-long}]",
            "an interface of Linux",
        ),
        (
            "collectors: [{address: 192.0.2.1, max-datagram: 100}]",
            "from 600 to 9000 bytes",
        ),
    ] {
        let e = error(&format!("sflow: {{{text}}}"));
        assert!(e.contains(said), "{text}: {e}");
    }
}

#[test]
fn a_cross_connect_is_a_pair() {
    let both = "interfaces: {pg0: {xconnect: pg1}, pg1: {xconnect: pg0}}";
    for text in [both, "interfaces: {pg0: {xconnect: pg1}, pg1: {}}"] {
        let crossed: Vec<String> = lines(text)
            .into_iter()
            .filter(|l| l.contains("l2"))
            .collect();
        assert_eq!(
            crossed,
            [
                "set interface l2 xconnect pg0 pg1",
                "set interface l2 xconnect pg1 pg0"
            ]
        );
        rehearsed(text);
    }
    assert_eq!(
        error("interfaces: {pg0: {xconnect: pg0}}"),
        "r.yaml:1:30: interfaces.pg0.xconnect: an interface cannot be cross-connected with itself"
    );
    assert!(
        error("interfaces: {pg0: {xconnect: pg1}, pg1: {}, pg2: {xconnect: pg1}}")
            .contains("interfaces.pg2.xconnect: `pg1` is cross-connected with `pg0` already")
    );
    assert!(error("interfaces: {pg0: {xconnect: pg7}, pg1: {}}").contains("is `pg0` meant?"));
    assert!(
        error("interfaces: {pg0: {xconnect: pg1}, pg1: {addresses: [192.0.2.1/24]}}")
            .contains("interfaces.pg1.addresses: the interface is cross-connected")
    );
}

#[test]
fn streams_are_read_by_the_generator_itself() {
    let stream = |fields: &str| {
        format!(
            "interfaces: {{pg0: {{}}}}\npacket-generator:\n  streams:\n    - name: s\n      interface: pg0\n{fields}"
        )
    };
    let all = error(&stream(
        "      data: |\n        IP4: 1.2.3 -> 4.5.6\n        UDPP: 1 -> 2\n",
    ));
    assert!(
        all.starts_with("r.yaml:8:9: packet-generator.streams[0].data: "),
        "{all}"
    );
    for (fields, said) in [
        (
            "      worker: 1\n      pcap: a.pcap\n",
            "there are 1 workers; allowed is 0 to 0",
        ),
        ("", "write `data` or `pcap`"),
        ("      pcap: a b.pcap\n", "without blanks"),
        (
            "      pcap: a\n      data: hex 0x00\n",
            "either `data` or `pcap`",
        ),
        (
            "      size: 100-60\n      pcap: a\n",
            "`100-60` will not do",
        ),
        ("      data: 'hex 0x0102030405060708090a0b0c0800 } }'\n", ""),
    ] {
        let all = error(&stream(fields));
        assert!(all.contains(said), "{fields}: {all}");
    }
    rehearsed(&stream(
        "      pcap: a.pcap\n      loop: true\n      speed: 2\n      limit: 5\n      rate: 10\n",
    ));
}

#[test]
fn commands_of_a_block_know_their_lines() {
    let plan = plan(
        "commands:\n  - |\n\n    show version\n    packet-generator new {\n      name x }\n  - show int\n",
    );
    let all: Vec<(usize, &str)> = plan
        .commands
        .iter()
        .map(|c| (c.at.line, c.line.as_str()))
        .collect();
    assert_eq!(
        all,
        [
            (4, "show version"),
            (5, "packet-generator new {\n  name x }"),
            (7, "show int")
        ]
    );
    assert_eq!(plan.script("r.yaml")[2].0, "r.yaml:7:5: commands[1]");
}

/// The reference page is made from the schema; `PARSHALL_BLESS=1 cargo test -p parshall-config` writes it anew.
#[test]
fn the_reference_page_is_up_to_date() {
    let path = root().join("docs/reference/configuration.md");
    let page = crate::reference::markdown();
    if std::env::var_os("PARSHALL_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &page).unwrap();
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        there == page,
        "docs/reference/configuration.md is out of date: PARSHALL_BLESS=1 cargo test -p parshall-config writes it"
    );
}

#[test]
fn the_records_of_the_file_are_the_routers() {
    let mut sections = Vec::new();
    crate::reference::collect(&crate::fields::FILE_SECTION, &mut sections);
    let mut all = sections.into_iter();
    let section = all.find(|s| s.title.starts_with("Records")).unwrap();
    let got: Vec<_> = section.fields.iter().map(|f| f.name).collect();
    let kinds = parshall_agent::RecordKind::ALL.iter();
    let want: Vec<_> = kinds.clone().map(|k| k.name()).collect();
    assert_eq!(got, want);
    for (f, k) in section.fields.iter().zip(kinds) {
        let default = if k.is_default() { "true" } else { "false" };
        assert!(matches!(f.default, crate::schema::Default::Value(v) if v == default));
    }
}
