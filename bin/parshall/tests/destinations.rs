//! A router and where its samples go: a hsflowd.conf, collectors named by a real name server, and a collector's namespace that
//! goes and comes back while traffic and the other collector go on.

mod support;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::Value;
use support::{Netns, Process, Router};

/// Asks until the collectors are as wanted.
fn collectors(router: &Router, wanted: impl Fn(&Value) -> bool) -> Value {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let all = router.json("show sflow collectors");
        if wanted(&all) {
            return all;
        }
        assert!(Instant::now() < end, "{all:#}\n{}", router.log());
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn sent(all: &Value, i: usize) -> u64 {
    all["collectors"][i]["sent"].as_u64().unwrap_or(0)
}

/// Sends counters every second, so that there is always something to send.
fn config(more: &str) -> String {
    format!(
        "cli: {{socket: SOCKET}}\ninterfaces: {{pg0: {{sflow: true}}}}\n\
         sflow: {{polling-interval: 1, host-interval: 1, {more}}}\n"
    )
}

/// A collector on port 6343.
fn sink(ns: &Netns) -> Process {
    let p = ns.spawn(&format!(
        "{} sflow decode -q",
        support::parshall().display()
    ));
    ns.await_port(6343);
    p
}

fn temporary(name: &str, text: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("parshall-{}-{name}", std::process::id()));
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn a_namespace_may_go_and_come_while_the_other_collector_gets_everything() {
    let (r, away) = (Netns::new("r"), Netns::new("away"));
    let (name, _sink) = (away.name.clone(), sink(&r));
    let more = format!(
        "collectors: [{{address: 127.0.0.1, dscp: 8}}, {{address: 127.0.0.1, port: 9, namespace: {name}, device: lo}}]"
    );
    let router = Router::start_with(&r, &config(&more));
    // Nobody listens in the other namespace: the kernel says so.
    collectors(&router, |all| {
        sent(all, 0) > 2 && all["collectors"][1]["trouble"] == "refused"
    });
    drop(away);
    let all = collectors(&router, |all| {
        all["collectors"][1]["trouble"] == "namespace_gone"
    });
    assert!(
        all["collectors"][1]["last_error"]
            .as_str()
            .unwrap()
            .contains(&name),
        "{all:#}"
    );
    let before = sent(&all, 0);
    collectors(&router, |all| {
        sent(all, 0) > before + 2
            && all["collectors"][1]["lost"]["namespace_gone"].as_u64() > Some(2)
    });
    assert_eq!(collectors(&router, |_| true)["collectors"][0]["failed"], 0);
    support::must("ip", &["netns", "add", &name]);
    support::must("ip", &["-n", &name, "link", "set", "lo", "up"]);
    let was = all["collectors"][1]["sent"].as_u64().unwrap();
    collectors(&router, |all| sent(all, 1) > was);
    support::must("ip", &["netns", "del", &name]);
    // Each trouble was told once, however often it was tried again.
    let log = router.log();
    let told = log
        .lines()
        .filter(|l| l.contains(" WARN ") && l.contains(&name));
    assert!((2..=4).contains(&told.count()), "{log}");
    assert!(router.stop());
}

#[test]
fn an_unmodified_hsflowd_conf_with_dns_sd_finds_its_collectors() {
    let r = Netns::new("r");
    let _sink = sink(&r);
    let _dns = r.spawn(
        "dnsmasq --keep-in-foreground --no-resolv --no-hosts --conf-file=/dev/null --listen-address=127.0.0.1 \
         --bind-interfaces --pid-file= --user=root --local=/example.net/ --local-ttl=10 \
         --srv-host=_sflow._udp.example.net,c1.example.net,6343 --host-record=c1.example.net,127.0.0.1 \
         --txt-record=_sflow._udp.example.net,txtvers=1,sampling=123,polling=1,headerBytes=96",
    );
    r.await_port(53);
    let conf = temporary(
        "hsflowd.conf",
        "sflow {\n  polling = 20\n  sampling = 400\n  collector { ip=127.0.0.1 udpport=6344 }\n  tcp { }\n}\n",
    );
    let text = format!(
        "cli: {{socket: SOCKET}}\ninterfaces: {{pg0: {{sflow: true}}}}\n\
         sflow: {{hsflowd-conf: {}, discover: {{domain: example.net, server: 127.0.0.1, delay: 0}}}}\n",
        conf.display()
    );
    let router = Router::start_with(&r, &text);
    let all = collectors(&router, |all| {
        all["collectors"].as_array().map(Vec::len) == Some(2)
    });
    assert_eq!(all["collectors"][0]["collector"], "127.0.0.1:6344");
    assert_eq!(all["collectors"][1]["collector"], "127.0.0.1:6343");
    assert_eq!(all["collectors"][1]["settings"]["origin"], "dns");
    assert_eq!(all["discovery"]["found"]["ttl"], 10);
    // What the DNS says counts in place of what the file says.
    let port = &router.json("show sflow")["interfaces"][0];
    assert_eq!(
        (&port["sampling_rate"], &port["header_bytes"]),
        (&123.into(), &96.into())
    );
    assert!(
        router
            .ctl("show sflow")
            .contains("127.0.0.1:6343 (from the DNS)")
    );
    collectors(&router, |all| sent(all, 1) > 2);
    assert!(
        router
            .log()
            .contains("line 5: tcp: a module of hsflowd, not used"),
        "{}",
        router.log()
    );
    router.ctl("sflow discover off");
    assert_eq!(
        router.json("show sflow")["interfaces"][0]["sampling_rate"],
        400
    );
    assert_eq!(
        router.json("show sflow collectors")["collectors"]
            .as_array()
            .map(Vec::len),
        Some(1)
    );
    assert!(router.stop());
    std::fs::remove_file(conf).unwrap();
}
