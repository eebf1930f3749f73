//! Bridge domains: what is accepted, refused, shown and undone, and that packets are bridged and learned.

use super::*;
use crate::bridge::{MacAction, StationKind};

const BRIDGE: &str = "
create packet-generator interface pg0
create packet-generator interface pg1
create packet-generator interface pg2
set interface state pg0 up
set interface state pg1 up
set interface state pg2 up
create bridge-domain 10 mac-age 5 bd-tag blue
set interface l2 bridge pg0 10
set interface l2 bridge pg1 10 3
set interface l2 bridge pg2 10
";

#[test]
fn domains_are_made_changed_shown_and_deleted() {
    let mut r = model();
    script(&mut r, BRIDGE);
    assert!(refused(&mut r, "create bridge-domain 10").contains("exists already"));
    let why = refused(&mut r, "create bridge-domain 10 del");
    assert_eq!(
        why,
        "bridge domain 10 is in use: interface pg0 is a port of it"
    );
    script(
        &mut r,
        "set bridge-domain learn 10 disable\nset bridge-domain uu-flood 10 disable\n\
         set bridge-domain arp term 10\nset bridge-domain mac-age 10 9",
    );
    let d = &data(&mut r, "show bridge-domain 10")[0];
    assert_eq!(
        (&d["learn"], &d["flood"], &d["uu_flood"]),
        (&false.into(), &true.into(), &false.into())
    );
    assert_eq!(
        (&d["arp_term"], &d["mac_age"], &d["tag"]),
        (&true.into(), &9.into(), &"blue".into())
    );
    assert_eq!(d["ports"][1]["interface"], "pg1");
    assert_eq!(d["ports"][1]["shg"], 3);
    let text = run(&mut r, "show bridge-domain detail");
    assert!(text.contains("Learning") && text.contains("pg2"), "{text}");
    script(
        &mut r,
        "set interface l3 pg0\nset interface l3 pg1\nset interface l2 xconnect pg2 pg0\ncreate bridge-domain 10 del",
    );
    assert_eq!(
        run(&mut r, "show bridge-domain"),
        "no bridge-domains in use\n"
    );
    let none = refused(&mut r, "set bridge-domain learn 10");
    assert!(none.contains("create bridge-domain 10"), "{none}");
}

#[test]
fn a_domain_has_one_routed_interface_and_its_address_is_a_station() {
    let mut r = model();
    script(&mut r, BRIDGE);
    script(
        &mut r,
        "create loopback interface\ncreate loopback interface\nset interface l2 bridge loop0 10 bvi",
    );
    assert!(refused(&mut r, "set interface l2 bridge loop1 10 bvi").contains("loop0"));
    assert!(refused(&mut r, "set interface l2 bridge pg0 10 bvi").contains("loopback"));
    script(&mut r, "set interface mac address loop0 02:00:00:00:00:42");
    let all = r.l2fib_entries();
    assert_eq!(all.len(), 1);
    assert_eq!(all[0].mac, [2, 0, 0, 0, 0, 0x42]);
    assert_eq!(all[0].kind, Some(StationKind::Bvi));
    script(&mut r, "delete loopback interface loop0");
    assert!(r.l2fib_entries().is_empty());
    assert_eq!(run(&mut r, "show l2fib"), "no l2fib entries\n");
}

#[test]
fn configured_stations_go_with_their_port_and_come_back_when_that_is_undone() {
    let mut r = model();
    script(&mut r, BRIDGE);
    script(
        &mut r,
        "l2fib add 02:00:00:00:00:01 10 pg0\nl2fib add 02:00:00:00:00:02 10 pg1 static\n\
         l2fib add 02:00:00:00:00:03 10 filter\nset interface l2 bridge pg2 10 uu-fwd",
    );
    assert!(refused(&mut r, "l2fib add 02:00:00:00:00:04 10 local0").contains("local0"));
    assert!(refused(&mut r, "l2fib add 01:00:00:00:00:04 10 pg0").contains("one station"));
    assert!(refused(&mut r, "l2fib del 02:00:00:00:00:04 10").contains("no entry"));
    let before = (r.l2fib_entries(), data(&mut r, "show bridge-domain"));
    for job in [
        "delete packet-generator interface pg0",
        "set interface l2 bridge pg1 11",
        "clear l2fib",
        "l2fib del 02:00:00:00:00:03 10",
        "set interface l3 pg2",
        "set bridge-domain flood 10 disable",
        "set bridge-domain arp entry 10 10.0.0.1 02:00:00:00:00:01",
        "create bridge-domain 12",
    ] {
        let failed = r.atomically(|r| {
            r.run_line(job, false)?;
            Err::<(), _>(Error::refused("no"))
        });
        assert!(failed.is_err());
        // The order in which ports joined is not a setting.
        let mut after = data(&mut r, "show bridge-domain");
        for d in after.as_array_mut().unwrap() {
            let ports = d["ports"].as_array_mut().unwrap();
            ports.sort_by_key(|p| p["sw_if_index"].as_u64());
        }
        assert_eq!((r.l2fib_entries(), after), before, "{job}");
    }
    script(
        &mut r,
        "delete packet-generator interface pg0\nset interface l3 pg1",
    );
    let left: Vec<_> = r.l2fib_entries().iter().map(|e| e.kind).collect();
    assert_eq!(left, [Some(StationKind::Filter)]);
}

/// Sends `n` frames from `src` to `dst` into an interface and waits until they are gone.
fn send(r: &mut Router, interface: &str, src: &str, dst: &str) {
    script(
        r,
        &format!(
            "packet-generator new {{ name s limit 20 size 64-64 interface {interface} node ethernet-input \
             data {{ IP4: {src} -> {dst} UDP: 10.0.0.9 -> 20.0.0.1 UDP: 1 -> 2 incrementing 8 }} }}\n\
             packet-generator enable-stream s"
        ),
    );
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(50) {
        r.turn();
        std::thread::sleep(Duration::from_millis(1));
    }
    script(r, "packet-generator delete s");
}

fn sent(r: &mut Router, name: &str) -> u64 {
    let index = r.interfaces.find(name).unwrap();
    r.interface_totals(index).tx_packets
}

#[test]
fn frames_are_flooded_until_their_station_is_learned() {
    let mut r = router();
    script(&mut r, BRIDGE);
    let (a, b) = ("02:00:00:00:00:0a", "02:00:00:00:00:0b");
    send(&mut r, "pg0", a, b);
    assert_eq!(
        (
            sent(&mut r, "pg0"),
            sent(&mut r, "pg1"),
            sent(&mut r, "pg2")
        ),
        (0, 20, 20)
    );
    send(&mut r, "pg1", b, a);
    assert_eq!((sent(&mut r, "pg0"), sent(&mut r, "pg2")), (20, 20));
    send(&mut r, "pg0", a, b);
    assert_eq!((sent(&mut r, "pg1"), sent(&mut r, "pg2")), (40, 20));
    // It moves.
    send(&mut r, "pg2", a, b);
    let table = data(&mut r, "show l2fib all");
    assert_eq!(
        (&table["learned"], &table["counts"]["moved"]),
        (&2.into(), &1.into())
    );
    let (news, _, _) = r.mac_news(0);
    let told: Vec<_> = news.iter().map(|n| (n.action, n.if_index)).collect();
    use MacAction::*;
    assert_eq!(told, [(Add, 1), (Add, 2), (Move, 3)]);
    // A port that is down is left out, and so is what was learned of one that left.
    script(&mut r, "set interface state pg1 down\nl2fib flush-mac all");
    send(&mut r, "pg0", a, b);
    assert_eq!((sent(&mut r, "pg1"), sent(&mut r, "pg2")), (60, 40));
    script(&mut r, "set interface l3 pg0");
    assert!(r.l2fib_entries().is_empty());
}
