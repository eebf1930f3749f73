//! How interfaces are sampled and what they are called at collectors: as set, as links and traffic have it, over
//! changes while packets flow, and over restarts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use parshall_agent::Router as _;
use parshall_device::{Device, DeviceError, DeviceInfo, Duplex, Queues};

use super::*;
use crate::drivers::{DeviceSpec, Factory, MadeDevice};
use crate::ifindex::OFFSET;

const SECOND: u64 = 1_000_000_000;

/// Links whose speed and Linux ifIndex the test sets, by the number in the interface's name.
#[derive(Clone, Default)]
struct Links(Arc<[(AtomicU64, AtomicU32); 4]>);

struct Link(Links, usize);

impl Links {
    fn set(&self, instance: usize, speed: u64, os_index: u32) {
        self.0[instance].0.store(speed, Ordering::Relaxed);
        self.0[instance].1.store(os_index, Ordering::Relaxed);
    }
}

impl Factory for Links {
    fn make(&mut self, _spec: &DeviceSpec, instance: u32) -> Result<MadeDevice> {
        let device = Box::new(Link(self.clone(), instance as usize));
        Ok(MadeDevice { device, pg: None })
    }
}

impl Device for Link {
    fn info(&self) -> DeviceInfo {
        let (speed, os_index) = &(self.0.0)[self.1];
        let speed = speed.load(Ordering::Relaxed);
        DeviceInfo {
            kind: "virtio",
            mac: [2, 0, 0, 0, 0, self.1 as u8],
            max_frame: 1514,
            speed,
            duplex: Duplex::Full,
            link_up: speed != 0,
            os_index: Some(os_index.load(Ordering::Relaxed)).filter(|n| *n != 0),
            rx_queues: 1,
            tx_queues: 1,
            detail: String::new(),
        }
    }
    fn queues(&mut self, _: u32, _: usize) -> std::result::Result<Queues, DeviceError> {
        Ok(Queues::default())
    }
    fn set_admin(&mut self, _: bool) -> std::result::Result<(), DeviceError> {
        Ok(())
    }
    fn set_mac(&mut self, _: [u8; 6]) -> std::result::Result<(), DeviceError> {
        Ok(())
    }
    fn set_max_frame(&mut self, _: u32) -> std::result::Result<(), DeviceError> {
        Ok(())
    }
    fn set_promiscuous(&mut self, _: bool) -> std::result::Result<(), DeviceError> {
        Ok(())
    }
}

fn linked(links: &Links) -> Router {
    let config = EngineConfig {
        workers: 0,
        interfaces: 32,
        ..EngineConfig::default()
    };
    Router::with_factory(config, Box::new(links.clone())).unwrap()
}

/// What `show sflow interfaces` says of an interface.
fn shown(r: &mut Router, name: &str) -> serde_json::Value {
    data(r, &format!("show sflow interfaces {name}"))["interfaces"][0].clone()
}

fn rate(r: &mut Router, name: &str) -> (u64, String) {
    let s = shown(r, name)["sampling"].clone();
    let source = s["rate_source"].as_str().unwrap_or("none").to_owned();
    (s["rate"].as_u64().unwrap_or(0), source)
}

#[test]
fn the_rate_is_its_own_or_that_of_all_or_the_links() {
    let links = Links::default();
    links.set(0, 40_000_000_000, 0);
    let mut r = linked(&links);
    script(
        &mut r,
        "create tap id 0\ncreate tap id 1\nset interface state tap0 up\nset interface state tap1 up\n\
         sflow enable tap0\nsflow enable tap1\n",
    );
    assert_eq!(rate(&mut r, "tap0"), (40_000, "speed".into()));
    assert_eq!(rate(&mut r, "tap1"), (10_000, "default".into()));
    // The link's speed changes, then the link is gone, and comes back slower.
    for (speed, expect) in [(100_000_000_000, 100_000), (0, 100_000), (10_000_000, 100)] {
        links.set(0, speed, 0);
        let now = r.now() + 2 * SECOND;
        r.turn_at(now);
        assert_eq!(rate(&mut r, "tap0"), (expect, "speed".into()), "{speed}");
        assert_eq!(r.sflow.view.interfaces()[0].rate, expect as u32);
    }
    run(&mut r, "sflow sampling-rate 500");
    run(&mut r, "sflow enable tap1 sampling-rate 7");
    assert_eq!(rate(&mut r, "tap0"), (500, "all".into()));
    assert_eq!(rate(&mut r, "tap1"), (7, "set".into()));
    assert!(run(&mut r, "show sflow").starts_with("sflow sampling-rate 500\nsflow direction rx\n"));
    run(&mut r, "sflow sampling-rate auto");
    assert_eq!(rate(&mut r, "tap0"), (100, "speed".into()));
    assert!(run(&mut r, "show sflow").starts_with("sflow sampling-rate auto\n"));
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let mut r = model();
    script(&mut r, TWO);
    let before = everything(&mut r);
    for (line, why) in [
        (
            "sflow enable pg0 sampling-rate 5 adaptive 9",
            "either given",
        ),
        ("sflow enable pg0 min-rate 9", "bounds of an adaptive rate"),
        (
            "sflow enable pg0 adaptive 9 min-rate 8 max-rate 7",
            "must not be above",
        ),
        ("sflow enable pg0 adaptive 0", "1..=1000000"),
        ("sflow enable pg0 direction in", "rx"),
        ("sflow direction sideways", "rx"),
        ("sflow ifindex snmp", "parshall"),
        ("show sflow interfaces pg7", "no interface"),
        ("sflow sampling-rate none", "auto"),
    ] {
        let e = refused(&mut r, line);
        assert!(e.contains(why), "{line}: {e}");
    }
    let script = "sflow direction both\nsflow sampling-rate 9\nsflow ifindex linux\nsflow enable pg0 adaptive 10 direction tx\n\
                  sflow enable pg1 direction rx\nsflow disable pg1\nset interface state pg9 up";
    assert!(r.run_script(script, "test").is_err());
    assert_eq!(everything(&mut r), before);
    assert!(r.sflow.tuners.is_empty());
}

#[test]
fn settings_are_shown_side_by_side() {
    let mut r = model();
    script(&mut r, TWO);
    run(&mut r, "sflow direction both");
    run(&mut r, "sflow enable pg0 adaptive 50 max-rate 60");
    run(
        &mut r,
        "sflow enable pg1 direction tx sampling-rate 8 header-bytes 64",
    );
    let all = data(&mut r, "show sflow interfaces");
    assert_eq!(all["ifindex"], "parshall");
    let one = &all["interfaces"][0];
    assert_eq!(one["sampling"]["direction"], "both");
    // The least N is not above the greatest that is given; it starts at what the link gives, within the bounds.
    let adaptive = serde_json::json!({"target": 50, "min": 60, "max": 60});
    assert_eq!(one["sampling"]["adaptive"], adaptive);
    assert_eq!(
        (&one["sampling"]["rate"], &one["index"]),
        (&60.into(), &1.into())
    );
    assert_eq!(all["interfaces"][1]["sampling"]["header_bytes"], 64);
    let text = run(&mut r, "show sflow interfaces");
    let line = text.lines().nth(2).unwrap_or_default();
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(
        words,
        [
            "pg1", "2", "2", "-", "-", "2", "tx", "8", "set", "0", "0", "0"
        ]
    );
}

#[test]
fn numbers_go_with_names_over_restarts() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("state/numbers.ifindex");
    let start = || {
        let config = EngineConfig {
            workers: 0,
            interfaces: 32,
            ifindex_file: Some(file.clone()),
            ..EngineConfig::default()
        };
        Router::with_factory(config, Box::new(Links::default())).unwrap()
    };
    let number = |r: &mut Router, name: &str| shown(r, name)["ifindex"].as_u64();
    let mut r = start();
    script(&mut r, "create tap id 0\ncreate tap id 1\n");
    // Another takes the place of the first in the router's table, but not its number.
    script(
        &mut r,
        "delete tap tap0\ncreate loopback interface\ncreate tap id 0\n",
    );
    assert_eq!(shown(&mut r, "loop0")["index"], 1);
    let numbers = ["tap0", "tap1", "loop0"].map(|n| number(&mut r, n));
    assert_eq!(numbers, [Some(1), Some(2), Some(3)]);
    r.turn();
    drop(r);
    // In another order, with one more.
    let mut r = start();
    script(
        &mut r,
        "create loopback interface\ncreate tap id 3\ncreate tap id 1\ncreate tap id 0\n",
    );
    let numbers = ["tap0", "tap1", "loop0", "tap3"].map(|n| number(&mut r, n));
    assert_eq!(numbers, [Some(1), Some(2), Some(3), Some(4)]);
    assert_eq!(r.sflow.view.interfaces()[0].if_index, 3);
    r.turn();
    // Rubbish in the file is survived; a model neither reads nor writes it.
    std::fs::write(&file, b"\xff\xfe 1 tap0").unwrap();
    let mut r = start();
    run(&mut r, "create tap id 1");
    assert_eq!(number(&mut r, "tap1"), Some(1));
}

#[test]
fn numbers_of_linux_are_exported_for_all_or_for_none() {
    let links = Links::default();
    links.set(0, 1, 7);
    links.set(1, 1, 7);
    links.set(2, 1, 9);
    let mut r = linked(&links);
    script(
        &mut r,
        "create tap id 0 host-ns blue\ncreate tap id 1\ncreate tap id 2\ncreate tap id 3\n",
    );
    let generation = r.sflow.view.generation();
    run(&mut r, "sflow ifindex linux");
    assert_ne!(r.sflow.view.generation(), generation);
    let exported = |r: &Router| -> Vec<u32> {
        r.sflow
            .view
            .interfaces()
            .iter()
            .map(|i| i.if_index)
            .collect()
    };
    assert_eq!(exported(&r), [OFFSET + 1, 7, 9, OFFSET + 4]);
    let one = shown(&mut r, "tap0");
    assert_eq!(
        (&one["linux_index"], &one["namespace"]),
        (&7.into(), &"blue".into())
    );
    assert!(run(&mut r, "show sflow interfaces").ends_with("another interface has it\n"));
    // The Linux interface is made anew: the next look finds its number.
    links.set(2, 1, 12);
    r.publish();
    assert_eq!(exported(&r)[2], 12);
    run(&mut r, "sflow ifindex parshall");
    assert_eq!(exported(&r), [1, 2, 3, 4]);
}

/// A running router that forwards from pg0 to pg1.
fn forwarding() -> Router {
    let mut r = router();
    script(&mut r, TWO);
    script(
        &mut r,
        "ip neighbor pg1 10.1.0.2 02:00:00:00:00:99 static\nip route add 20.0.0.0/8 via 10.1.0.2",
    );
    settle(&mut r);
    r
}

/// Sends so many packets through it.
fn send(r: &mut Router, name: &str, packets: u32) {
    let before = sunk(r, "pg1");
    run(r, &stream(name, packets));
    run(r, &format!("packet-generator enable-stream {name}"));
    until(r, "forwarding", |r| {
        sunk(r, "pg1") == before + u64::from(packets)
    });
    // What went by unseen is accounted for once nothing comes any more.
    until(r, "accounting", |r| {
        let pool = shown(r, "pg0")["rx"]["pool"].as_u64();
        r.sampling(1).is_none_or(|s| !s.direction.rx()) || pool.is_some_and(|n| n % 100 == 0)
    });
}

#[test]
fn the_greatest_flows_are_told_while_somebody_asks() {
    let mut r = forwarding();
    let told = run(&mut r, "show sflow flows");
    assert!(told.starts_with("Nothing is sampled"), "{told}");
    run(&mut r, "sflow enable pg0 sampling-rate 1");
    let told = data(&mut r, "show sflow flows");
    assert_eq!(told["flows"].as_array().map(Vec::len), Some(0));
    send(&mut r, "flows", 100);
    until(&mut r, "samples", |r| {
        let flows = data(r, "show sflow flows")["flows"].clone();
        let sum = |of: &str| -> u64 {
            let each = flows.as_array().into_iter().flatten();
            each.filter_map(|f| f[of].as_u64()).sum()
        };
        sum("packets") == 100 && sum("bytes") == 6400
    });
    let told = run(&mut r, "show sflow flows max 1");
    assert_eq!(told.lines().count(), 2, "{told}");
    assert!(told.contains("pg0") && told.contains("udp"), "{told}");
}

fn way(r: &mut Router, name: &str, direction: &str) -> (u64, u64) {
    let w = shown(r, name)[direction].clone();
    assert_eq!(w["drops"], 0);
    (w["pool"].as_u64().unwrap(), w["samples"].as_u64().unwrap())
}

#[test]
fn changes_of_direction_and_rate_lose_no_counts() {
    let mut r = forwarding();
    run(&mut r, "sflow enable pg1 direction tx sampling-rate 1");
    run(&mut r, "sflow enable pg0 direction both sampling-rate 1");
    send(&mut r, "a", 1000);
    let (pool, samples) = way(&mut r, "pg1", "tx");
    // The router's own packets (announcements) may be among what pg1 sent.
    assert!(pool >= 1000 && pool == samples, "{pool} {samples}");
    assert_eq!(way(&mut r, "pg0", "rx"), (1000, 1000));
    assert_eq!(way(&mut r, "pg1", "rx"), (0, 0));
    // Each change while the worker runs; the pool stands still only where a direction is off.
    let own = pool - 1000;
    run(&mut r, "sflow enable pg0 direction tx sampling-rate 1");
    send(&mut r, "b", 500);
    assert_eq!(way(&mut r, "pg0", "rx"), (1000, 1000));
    run(
        &mut r,
        "sflow enable pg0 direction rx sampling-rate 1000000",
    );
    run(&mut r, "sflow enable pg1 sampling-rate 1 direction both");
    send(&mut r, "c", 700);
    assert_eq!(way(&mut r, "pg0", "rx").0, 1700);
    assert_eq!(way(&mut r, "pg1", "tx"), (2200 + own, 2200 + own));
    // Down and up again.
    script(
        &mut r,
        "set interface state pg0 down\nset interface state pg0 up\n",
    );
    send(&mut r, "d", 100);
    assert_eq!(way(&mut r, "pg0", "rx").0, 1800);
    let pools = r.sflow.view.pool(1);
    assert_eq!(pools.0, 1800 + way(&mut r, "pg0", "tx").0);
}

#[test]
fn an_interface_made_again_has_its_number_and_counts_from_zero() {
    let mut r = forwarding();
    run(&mut r, "sflow enable pg0 sampling-rate 1");
    send(&mut r, "a", 300);
    let before = r.sflow.view.interfaces()[0].clone();
    let status = |r: &Router| r.sflow.status().unwrap();
    run(&mut r, "delete packet-generator interface pg0");
    // All of its samples were taken before it went: none is an orphan.
    assert_eq!((status(&r).flow_samples, status(&r).orphans), (300, 0));
    script(
        &mut r,
        "create packet-generator interface pg0 hw-addr 02:fe:00:00:00:00\nset interface state pg0 up\n\
         set interface ip address pg0 10.0.0.1/24\nsflow enable pg0 sampling-rate 1\n",
    );
    let after = r.sflow.view.interfaces()[0].clone();
    assert_eq!(
        (after.index, after.if_index),
        (before.index, before.if_index)
    );
    assert_ne!(after.incarnation, before.incarnation);
    assert_eq!(r.sflow.view.pool(1), (0, 0));
    send(&mut r, "b", 200);
    assert_eq!(r.sflow.view.pool(1), (200, 0));
}

#[test]
fn an_adaptive_rate_follows_the_traffic_of_a_running_worker() {
    let mut r = forwarding();
    run(
        &mut r,
        "sflow enable pg0 adaptive 10 min-rate 2 max-rate 4096",
    );
    // Time is the test's from here on: the pool is looked at once a second of it.
    let start = r.now();
    r.turn_at(start + SECOND);
    send_at_once(&mut r, "a", 20_000);
    r.turn_at(start + 2 * SECOND);
    assert_eq!(rate(&mut r, "pg0"), (2048, "adaptive".into()));
    assert_eq!(r.sflow.view.interfaces()[0].rate, 2048);
    // Nothing comes for a minute: it falls to its least, step by step.
    let mut last = 2048;
    for second in 3..60 {
        r.turn_at(start + second * SECOND);
        let now = rate(&mut r, "pg0").0;
        assert!(now <= last);
        last = now;
    }
    assert_eq!(last, 2);
    // Other settings change, the rate goes on from where it was.
    run(
        &mut r,
        "sflow enable pg0 adaptive 10 min-rate 2 max-rate 4096 header-bytes 64",
    );
    assert_eq!(rate(&mut r, "pg0").0, 2);
    assert_eq!(way(&mut r, "pg0", "rx").0, 20_000);
}

/// As [`send`], without a turn of the router, which would tell it the time.
fn send_at_once(r: &mut Router, name: &str, packets: u64) {
    run(r, &stream(name, packets as u32));
    run(r, &format!("packet-generator enable-stream {name}"));
    let start = Instant::now();
    while r.sflow.view.pool(1).0 != packets {
        assert!(start.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn transmit_queues_are_counted_as_workers_have_them() {
    // A generator has as many as there are workers; a link of the test has none to give.
    let config = EngineConfig {
        workers: 2,
        share_cpus: true,
        buffers: 2048,
        interfaces: 8,
        ..EngineConfig::default()
    };
    let mut r = Router::new(config.clone()).unwrap();
    script(&mut r, TWO);
    let queues = |r: &Router| r.interfaces.get(1).map(|i| i.tx_queues);
    assert_eq!(queues(&r), Some(2));
    let mut r = Router::with_factory(config, Box::new(Links::default())).unwrap();
    run(&mut r, "create tap id 0");
    assert_eq!(queues(&r), Some(0));
    // Without a queue there is nothing to sample, and no harm.
    run(&mut r, "sflow enable tap0 direction tx");
    settle(&mut r);
}
