//! Collectors with their options, how they are told apart, discovery and the election of the agent's address.

use std::net::UdpSocket;

use super::*;

#[test]
fn a_collector_has_options_and_is_taken_away_by_what_tells_it_from_another() {
    let mut r = model();
    script(
        &mut r,
        "sflow collector add 192.0.2.1 port 7 source 192.0.2.9 namespace mgmt device eth0 dscp 46 \
         datagrams-per-second 100 bits-per-second 8000000 max-datagram 1000
         sflow collector add 192.0.2.1 port 7 device eth1
         sflow collector add flows.example.net",
    );
    let shown = run(&mut r, "show sflow collectors");
    assert_eq!(
        shown,
        "collector 192.0.2.1:7 source 192.0.2.9 namespace mgmt device eth0: the agent is not running\n\
         collector 192.0.2.1:7 device eth1: the agent is not running\n\
         collector flows.example.net:6343: the agent is not running\n"
    );
    let json = data(&mut r, "show sflow collectors");
    let first = &json["configured"][0];
    assert_eq!(
        (
            &first["dscp"],
            &first["datagrams_per_second"],
            &first["bits_per_second"],
            &first["max_datagram"]
        ),
        (&46.into(), &100.into(), &8_000_000.into(), &1000.into())
    );
    assert_eq!(first["origin"], "configured");
    for (line, said) in [
        (
            "sflow collector add 192.0.2.1 port 7 device eth1 dscp 1",
            "listed twice",
        ),
        (
            "sflow collector add 192.0.2.2 device a-name-that-is-long",
            "name of an interface",
        ),
        ("sflow collector add 192.0.2.2 dscp 64", "0..=63"),
        (
            "sflow collector add 192.0.2.2 max-datagram 100",
            "600..=9000",
        ),
        (
            "sflow collector del 192.0.2.1 port 7",
            "is not one collector: there are",
        ),
        ("sflow collector del 192.0.2.1", "is not a collector"),
    ] {
        let e = refused(&mut r, line);
        assert!(e.contains(said), "{line}: {e}");
    }
    script(
        &mut r,
        "sflow collector del 192.0.2.1 port 7 namespace mgmt",
    );
    script(&mut r, "sflow collector del 192.0.2.1 port 7");
    script(&mut r, "sflow collector del flows.example.net");
    assert_eq!(run(&mut r, "show sflow collectors"), "no collectors\n");
}

#[test]
fn what_a_collector_suffers_from_is_shown_in_words_and_as_data() {
    let live = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = live.local_addr().unwrap().port();
    let mut r = router();
    script(
        &mut r,
        &format!(
            "sflow collector add 127.0.0.1 port {port} dscp 8 datagrams-per-second 1000
             sflow collector add 127.0.0.1 port {port} namespace no-such-namespace"
        ),
    );
    let shown = run(&mut r, "show sflow collectors");
    assert!(shown.contains(": up, sent"), "{shown}");
    assert!(
        shown.contains("  DSCP 8, at most 1000 datagrams a second\n"),
        "{shown}"
    );
    assert!(
        shown.contains("cannot be reached, trying again in "),
        "{shown}"
    );
    assert!(shown.contains("ip netns add no-such-namespace"), "{shown}");
    // The same in the overview.
    assert!(run(&mut r, "show sflow").contains("namespace no-such-namespace: cannot be"));
    let json = data(&mut r, "show sflow collectors");
    let second = &json["collectors"][1];
    assert_eq!(
        (&second["state"], &second["trouble"]),
        (&"waiting".into(), &"namespace_gone".into())
    );
    assert!(second["next_retry_ms"].is_u64() && second["lost"]["namespace_gone"].is_u64());
}

#[test]
fn an_agent_address_is_given_or_elected_by_rules() {
    let mut r = model();
    script(&mut r, "sflow agent-address 192.0.2.1");
    assert_eq!(r.sflow.config.agent_address, "192.0.2.1".parse().ok());
    script(
        &mut r,
        "sflow agent-address auto device eth0 prefer 10.0.0.0/8 avoid 10.1.0.0/16 prefer fd00::/8",
    );
    let c = &r.sflow.config;
    assert_eq!(c.agent_address, None);
    assert_eq!(c.election.device.as_deref(), Some("eth0"));
    let rules: Vec<(String, u8, bool)> = c
        .election
        .rules
        .iter()
        .map(|r| (r.network.to_string(), r.length, r.avoid))
        .collect();
    assert_eq!(
        rules,
        [
            ("10.0.0.0".into(), 8, false),
            ("10.1.0.0".into(), 16, true),
            ("fd00::".into(), 8, false)
        ]
    );
    script(&mut r, "sflow agent-address auto");
    assert_eq!(r.sflow.config.election, Default::default());
}

#[test]
fn discovery_is_set_shown_undone_and_stopped() {
    let mut r = model();
    script(
        &mut r,
        "sflow discover example.net server 192.0.2.53 namespace mgmt delay 30",
    );
    let json = data(&mut r, "show sflow collectors");
    let place = &json["discovery"]["place"];
    assert_eq!(
        (
            &place["domain"],
            &place["server"],
            &place["namespace"],
            &place["delay"]
        ),
        (
            &"example.net".into(),
            &"192.0.2.53:53".into(),
            &"mgmt".into(),
            &30.into()
        )
    );
    let shown = run(&mut r, "show sflow collectors");
    assert!(
        shown.starts_with("no collectors\ndiscovery example.net: 0 answers, asks again in "),
        "{shown}"
    );
    for (line, said) in [
        ("sflow discover 192.0.2.1", "is not a domain"),
        ("sflow discover a..b", "is not a domain"),
        (
            "sflow discover example.net server here",
            "not the address of a name server",
        ),
    ] {
        let e = refused(&mut r, line);
        assert!(e.contains(said), "{line}: {e}");
    }
    // A script that fails leaves the discovery as it was.
    assert!(
        r.run_script("sflow discover off\nsflow collector add 0.0.0.0", "test")
            .is_err()
    );
    assert!(r.discovery_status().is_some());
    script(&mut r, "sflow discover .example.net");
    script(&mut r, "sflow discover auto");
    script(&mut r, "sflow discover off");
    assert!(data(&mut r, "show sflow collectors")["discovery"].is_null());
}
