//! What is wrong with a file, and how it is told: each error at its place, all at once, in bounded time.

use super::*;

#[test]
fn all_errors_are_told_at_once_each_at_its_place() {
    let text = "
workers: 65
interfaces:
  tap0:
    mtu: 20
    adresses: [192.0.2.1/24]
    addresses: [192.0.2.0/24, nonsense]
  tap0:
    mtu: 1500
  pg0: [1]
routes:
  - {prefix: 10.0.0.1/8, via: 192.0.2.9}
  - prefix: 10.0.0.0/8
    via: 192.0.2.9
    interface: tap1
colour: blue
";
    assert_eq!(
        errors(text).to_string(),
        "\
r.yaml:2:10: workers: `65` will not do; allowed is a whole number from 1 to 64
r.yaml:5:10: interfaces.tap0.mtu: `20` will not do; allowed is a whole number from 68 to 65521 bytes
r.yaml:6:5: interfaces.tap0: there is no field `adresses` here; is `addresses` meant?
r.yaml:7:17: interfaces.tap0.addresses[0]: 192.0.2.0/24 is the address of the subnet itself; allowed is an address with \
the length of its subnet, such as 192.0.2.1/24 or 2001:db8::1/64
r.yaml:7:31: interfaces.tap0.addresses[1]: `nonsense` will not do; allowed is an address with the length of its subnet, \
such as 192.0.2.1/24 or 2001:db8::1/64
r.yaml:8:3: interfaces: `tap0` is here a second time, the first is on line 4; a key stands once
r.yaml:10:8: interfaces.pg0: an interface has fields such as `addresses:`; known are type, state, mac, mtu, packet-mtu, addresses, \
ip6, table, ip6-table, mpls, promiscuous, sub-interfaces, unnumbered, lcp, description, device-type, tag-rewrite, l2xc, xconnect, split-horizon-group, acl-input, acl-output, tag, sflow, host-interface, namespace, queues, rx-placement, rx-mode, tx-queues, rx-queue-size, tx-queue-size, copy-mode, xdp-mode, busy-poll, host-mac, host-mtu, host-bridge, host-addresses, \
host-gateways, role, socket-id, id, ring-size, buffer-size, secret, receive, transmit, loop or speed
r.yaml:12:14: routes[0].prefix: 10.0.0.1/8 has bits set behind its length; the network is 10.0.0.0/8
r.yaml:15:16: routes[1].interface: there is no interface `tap1` in this file; is `tap0` meant?
r.yaml:16:1: there is no field `colour` here; known are workers, buffers, limits, seed, cli, stats, api, log, http, state, interfaces, loopbacks, bondethernets, bridgedomains, vxlan_tunnels, tunnels, taps, prefixlists, acls, acl-settings, tables, \
neighbors, neighbor-settings, routes, mpls, memif, sflow, bgp, packet-generator or commands"
    );
}

/// Each text has exactly one error, which says this.
#[test]
fn what_cannot_be_is_said() {
    let taps = "interfaces: {tap0: {addresses: [192.0.2.1/24]}, tap1: {}}\n";
    for (text, said) in [
        (
            "workers: {count: 1, cpus: [1, 2]}",
            "1:27: workers.cpus: 2 CPUs for 1 workers",
        ),
        (
            "workers: {count: 3, cpus: [1, 2]}",
            "workers.cpus: 2 CPUs for 3 workers",
        ),
        (
            "workers: {cpus: [1, 2], main-cpu: 2}",
            "workers.main-cpu: CPU 2 is one of `cpus`",
        ),
        (
            "workers: 2\ninterfaces: {pg0: {rx-placement: [1, 2]}}",
            "there is no worker 2: `workers` makes 2",
        ),
        (
            "workers: {cpus: [1, 1]}",
            "1:21: workers.cpus[1]: CPU 1 is listed twice",
        ),
        (
            "workers: [1]",
            "1:10: workers: this is a list; allowed is a whole number from 1 to 64; or",
        ),
        ("workers: \"1\"", "without quotes"),
        ("log: {level: inof}", "is `info` meant?"),
        (
            "cli: {socket: p.sock}",
            "an absolute file name of at most 107 bytes",
        ),
        ("- 1", "1:1: a file consists of sections"),
        ("interfaces: 3", "1:13: interfaces: this is a single value"),
        ("interfaces: {tap0: {receive: x}}", "only pcap has"),
        (
            "interfaces: {pcap0: {}}",
            "needs `receive`, `transmit` or both",
        ),
        (
            "interfaces: {pcap0: {transmit: x, loop: true}}",
            "this is about `receive`",
        ),
        (
            "interfaces: {tap0: {addresses: [10.0.0.1/8, 10.0.0.1/8]}}",
            "an address of `tap0` already",
        ),
        (
            "interfaces: {tap0: {addresses: [10.0.0.1/8]}, tap1: {addresses: [10.1.0.1/16]}}",
            "1:66: interfaces.tap1.addresses[0]: 10.1.0.1/16 overlaps 10.0.0.1/8 of `tap0`",
        ),
        (
            "interfaces: {tap1: {addresses: [10.1.0.1/16]}, tap0: {addresses: [10.0.0.1/8]}}",
            "overlaps 10.1.0.1/16 of `tap1`",
        ),
        (
            "interfaces: {tap0: {table: 7}}",
            "there is no table 7 in this file",
        ),
        (
            "tables: [{id: 7, family: ip6}]\ninterfaces: {tap0: {table: 7, addresses: [10.0.0.1/8]}}",
            "there is no table 7 for IPv4",
        ),
        (
            "tables: [{id: 7}, {id: 7}]",
            "tables[1].id: table 7 is here a second time",
        ),
        (
            "tables: [{}]",
            "1:10: tables[0]: `id` is missing; write a whole number from 1",
        ),
        (
            "interfaces: {tap0: {host-addresses: [10.0.0.1/8], host-gateways: [11.0.0.1]}}",
            "in none of the subnets",
        ),
        (
            "interfaces: {tap0: {host-addresses: [10.0.0.1/8, 11.0.0.1/8]}}",
            "a second address of its IP version",
        ),
        ("routes: [{prefix: 10.0.0.0/8}]", "a route leads somewhere"),
        (
            "routes: [{prefix: 10.0.0.0/8, via: '::1'}]",
            "::1 is not the address of a neighbour",
        ),
        (
            "routes: [{prefix: 10.0.0.0/8, via: '2001:db8::1'}]",
            "allowed is an IPv4 address",
        ),
        (
            "routes: [{prefix: '2001:db8::/32', via: 'fe80::1'}]",
            "name the `interface` too",
        ),
        (
            "routes: [{prefix: 10.0.0.0/8, via: 1.1.1.1, action: blackhole}]",
            "either this or `action`",
        ),
        (
            "routes: [{prefix: 10.0.0.0/8, via: 1.1.1.1, paths: [{via: 1.1.1.2}]}]",
            "either this or `paths`",
        ),
        (
            "routes: [{prefix: 10.0.0.0/8, paths: []}]",
            "the list is empty",
        ),
        (
            "routes: [{prefix: 10.0.0.0/8, via: 1.1.1.1, lookup-table: 0}]",
            "either this or `lookup-table`",
        ),
        (
            "routes: [{prefix: 10.0.0.0/8, lookup-table: 3}]",
            "there is no table 3 for IPv4",
        ),
        (
            "routes: [{prefix: 224.0.0.0/4, via: 1.1.1.1}]",
            "multicast is not routed",
        ),
        (
            "routes: [{prefix: 10.0.0.0/8, via: 1.1.1.1},\n {prefix: 10.0.0.0/8, via: 1.1.1.2}]",
            "2:11: routes[1].prefix: the route is here a second time, first on line 1",
        ),
        (
            "routes: [{prefix: 10.0.0.0/8, via: 1.1.1.1, pipe: true}]",
            "this is about `labels`",
        ),
        (
            "routes: [{prefix: 10.0.0.0/8, via: 1.1.1.1, labels: 1048576}]",
            "from 0 to 1048575",
        ),
        ("mpls: {labels: [{label: 16}]}", "a label leads somewhere"),
        (
            "mpls: {labels: [{label: 3, pop: ip4}]}",
            "from 16 to 1048575",
        ),
        (
            "mpls: {labels: [{label: 16, pop: ip4, via: 1.1.1.1}]}",
            "either this or `pop`",
        ),
        (
            "mpls: {labels: [{label: 16, pop: ip4, stack: non-eos}]}",
            "allowed is eos",
        ),
        (
            "mpls: {labels: [{label: 16, pop: ip4}, {label: 16, pop: ip6}]}",
            "label 16 eos is here a second time",
        ),
        (
            "mpls: {labels: [{label: 16, pop: mpls, table: 1}]}",
            "allowed is 0",
        ),
        (
            "sflow: {collectors: [192.0.2.1, '192.0.2.1:6343']}",
            "is listed twice",
        ),
        (
            "sflow: {collectors: [{address: '192.0.2.1:7', port: 8}]}",
            "a port behind the address already",
        ),
        (
            "sflow: {collectors: [a b]}",
            "neither an address nor a host name",
        ),
        ("sflow: {agent-address: 0.0.0.0}", "names no host"),
        ("sflow: {direction: in}", "rx, tx or both"),
        ("sflow: {ifindex-file: relative}", "absolute"),
        (
            "interfaces: {pg0: {sflow: {adaptive: 5, sampling-rate: 10}}}",
            "interfaces.pg0.sflow.adaptive: the rate is given by `sampling-rate` already",
        ),
        (
            "interfaces: {pg0: {sflow: {min-rate: 10}}}",
            "interfaces.pg0.sflow.min-rate: this is a bound of an adaptive rate",
        ),
        (
            "interfaces: {pg0: {sflow: {adaptive: 9, min-rate: 10, max-rate: 9}}}",
            "10 is above `max-rate`, which is 9",
        ),
        ("sflow: {header-bytes: 63}", "from 64 to 256 bytes"),
        (
            "commands: ['a { b']",
            "1:12: commands[0]: this '{' is never closed",
        ),
        ("commands: ['# nothing']", "only a comment"),
        ("commands: ['']", "there is nothing here"),
        (
            "commands:\n  - |\n    show version\n    a }\n",
            "4:5: commands[0]: '}' without",
        ),
        ("interfaces: {tap0: {mtu: [1, }", "this is not YAML"),
    ] {
        let all = error(text);
        assert!(all.contains(said), "{text}: {all}");
    }
    for (text, said) in [
        (
            "routes: [{prefix: 10.0.0.0/8, via: 192.0.2.1, interface: tap0}]",
            "the address of `tap0` itself",
        ),
        (
            "routes: [{prefix: 10.0.0.0/8, interface: tap0, labels: 3}]",
            "towards a next hop",
        ),
        (
            "mpls: {labels: [{label: 16, interface: tap0}]}",
            "a label needs a next hop",
        ),
        (
            "neighbors: [{interface: tap0, address: 192.0.2.1, mac: 02:00:00:00:00:01}]",
            "`tap0` itself",
        ),
        (
            "neighbors: [{interface: tap0, address: 224.0.0.1, mac: 02:00:00:00:00:01}]",
            "not the address of",
        ),
        (
            "neighbors: [{interface: tap0, address: 192.0.2.2, mac: 01:00:00:00:00:01}]",
            "a unicast MAC",
        ),
        (
            "neighbors: [{interface: tap0, address: 192.0.2.2}]",
            "`mac` is missing",
        ),
        (
            "packet-generator: {streams: [{name: s, interface: tap0, data: x}]}",
            "is not of type pg",
        ),
    ] {
        let all = errors(&format!("{taps}{text}")).to_string();
        assert!(
            all.lines().next().unwrap_or("").contains(said),
            "{text}: {all}"
        );
    }
}

#[test]
fn a_stream_does_not_start_on_an_interface_that_is_to_be_down() {
    let data = "IP4: 02:00:00:00:00:01 -> 02:00:00:00:00:02 UDP: 10.0.0.1 -> 10.0.1.1 UDP: 1 -> 2";
    let text = format!(
        "interfaces: {{pg0: {{type: pg, state: down}}}}\n\
         packet-generator: {{streams: [{{name: s, interface: pg0, enabled: true, data: \"{data}\"}}]}}"
    );
    let all = errors(&text).to_string();
    assert!(all.contains("`pg0` is to be down"), "{all}");
    // Nor on one that is down with its bond.
    let text = format!(
        "interfaces: {{pg0: {{}}, BondEthernet0: {{state: down}}}}\n\
         bondethernets: {{BondEthernet0: {{mode: xor, interfaces: [pg0]}}}}\n\
         packet-generator: {{streams: [{{name: s, interface: pg0, enabled: true, data: \"{data}\"}}]}}"
    );
    let all = errors(&text).to_string();
    assert!(
        all.contains("`pg0` is to be down; write `state: up` to its bond"),
        "{all}"
    );
}

#[test]
fn files_that_cannot_be_read_are_said_to_be() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("r.yaml");
    let all = load(&at).unwrap_err().to_string();
    assert!(
        all.contains("r.yaml: the file cannot be read: No such file"),
        "{all}"
    );
    assert!(load(folder.path()).is_err());
    std::fs::write(&at, b"a: 1\nb: \xff\n").unwrap();
    let all = load(&at).unwrap_err().to_string();
    assert!(all.ends_with("r.yaml:2:4: this is not UTF-8 text"), "{all}");
    std::fs::write(&at, vec![b'#'; crate::MAX_BYTES + 1]).unwrap();
    assert!(
        load(&at)
            .unwrap_err()
            .to_string()
            .contains("at most 4194304 are read")
    );
}

/// Many interfaces with addresses and routes take no time that grows with their square.
#[test]
fn a_large_file_is_read() {
    let mut text = "limits: {interfaces: 4000}\ninterfaces:\n".to_owned();
    for i in 0..3000 {
        text += &format!(
            "  tap{i}: {{addresses: [10.{}.{}.1/24]}}\n",
            i / 256,
            i % 256
        );
    }
    text += "routes:\n";
    for i in 0..30_000 {
        text += &format!(
            "  - {{prefix: 20.{}.{}.0/24, via: 10.0.0.9}}\n",
            i / 256,
            i % 256
        );
    }
    assert_eq!(plan(&text).commands.len(), 3 * 3000 + 30_000);
}

/// A file with more errors than anybody wants to read is looked through to its end all the same.
#[test]
fn a_large_file_of_errors_is_read() {
    let mut unknown = String::new();
    for i in 0..100_000 {
        unknown += &format!("interfac{i}: 1\n");
    }
    let all = errors(&unknown);
    assert_eq!(all.errors.len() + all.more, 100_000);
    let mut text = "interfaces:\n".to_owned();
    for i in 0..20_000 {
        text += &format!("  x{i}: {{type: pg}}\n");
    }
    text += "neighbors:\n";
    for i in 0..40_000 {
        text += &format!("  - {{interface: y{i}, address: 192.0.2.1, mac: 02:00:00:00:00:01}}\n");
    }
    let all = errors(&text).to_string();
    assert!(all.contains("but `limits.interfaces` is 1024"), "{all}");
    assert!(all.contains("too many of type pg; at most 16384"), "{all}");
    assert!(all.contains("more errors"), "{all}");
}
