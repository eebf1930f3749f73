//! What workers see of a transaction that is seen at once: all of it or nothing, between two packets, under traffic.

use super::*;
use crate::error::Error;

/// pg0's packets are routed to pg1; or, bridged, flooded to pg2.
const ROUTED: &str = "
create packet-generator interface pg2
set interface state pg2 up
ip neighbor pg1 10.1.0.2 02:00:00:00:00:99 static
ip route add 20.0.0.0/8 via 10.1.0.2 pg1
create bridge-domain 7
set acl-plugin acl index 0 deny src 0.0.0.0/0 dst 0.0.0.0/0
";
/// To bridged: what is then still routed would be dropped where it leaves, and what is bridged must be let in.
const BRIDGE: &[&str] = &[
    "set acl-plugin interface pg1 output acls 0",
    "set interface l2 bridge pg0 7",
    "set interface l2 bridge pg2 7",
    "set interface mtu packet 1400 pg2",
];
/// And back: what is then still bridged would have nowhere to go.
const ROUTE: &[&str] = &[
    "set interface l3 pg2",
    "set interface mtu default pg2",
    "set acl-plugin interface pg1 output acls none",
    "set interface l3 pg0",
];
const PACKETS: u32 = 400_000;

fn change(r: &mut Router, lines: &[&str]) -> Result<()> {
    let lines: Vec<_> = lines.iter().map(|l| ("test".into(), (*l).into())).collect();
    r.at_once(|r| execute_lines(r, &lines)).map(drop)
}

fn routed() -> Router {
    let mut r = router();
    script(&mut r, TWO);
    script(&mut r, ROUTED);
    settle(&mut r);
    r
}

/// How many packets came out where, beyond those that the router sends by itself.
fn out(r: &Router) -> u64 {
    sunk(r, "pg1") + sunk(r, "pg2")
}

/// Starts the packets, lets `job` go on until all came out, and says how often that was.
fn under_traffic(r: &mut Router, mut job: impl FnMut(&mut Router, usize)) -> usize {
    let before = out(r);
    run(r, &stream("s", PACKETS));
    run(r, "packet-generator enable-stream s");
    let (start, mut n) = (Instant::now(), 0);
    while out(r) - before < u64::from(PACKETS) {
        job(r, n);
        n += 1;
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "{} of {PACKETS} packets came out after {n} changes: {}",
            out(r) - before,
            run(r, "show errors")
        );
    }
    settle(r);
    assert_eq!(out(r) - before, u64::from(PACKETS));
    n
}

#[test]
fn each_packet_is_treated_as_before_or_as_after_and_none_by_a_mixture() {
    let mut r = routed();
    let n = under_traffic(&mut r, |r, n| {
        change(r, [BRIDGE, ROUTE][n % 2]).unwrap_or_else(|e| panic!("{e}"));
    });
    assert!(n > 2, "{n} changes");
    assert!(sunk(&r, "pg1") > 0 && sunk(&r, "pg2") > 0);
}

#[test]
fn workers_see_nothing_of_what_fails() {
    let mut r = routed();
    let seen = |r: &Router| {
        let shared = r.shared();
        let d = &shared.domain;
        [
            std::ptr::from_ref(&*shared.interfaces.read_control(d)).addr(),
            std::ptr::from_ref(&*shared.bridges.read_control(d)).addr(),
            std::ptr::from_ref(&*shared.acls.read_control(d)).addr(),
            std::ptr::from_ref(&*shared.tunnels.read_control(d)).addr(),
        ]
    };
    let (tables, all) = (seen(&r), r.configuration());
    let lines: Vec<&str> = [
        "ip route add 20.1.0.0/16 blackhole",
        "ip route replace 20.0.0.0/8 via blackhole",
        "create bridge-domain 8",
        "create packet-generator interface pg3",
        "set interface state pg3 up",
        "l2fib add 02:fe:00:00:00:00 7 filter",
        "delete packet-generator interface pg1",
    ]
    .into_iter()
    .chain(BRIDGE.iter().copied().filter(|l| !l.contains("pg1")))
    .chain(["delete tap nosuch"])
    .collect();
    let n = under_traffic(&mut r, |r, _| {
        assert!(matches!(change(r, &lines), Err(Error::Parse(_))));
        assert_eq!(seen(r), tables, "a table was published");
    });
    assert!(n > 1, "{n} changes");
    assert_eq!(sunk(&r, "pg2"), 0);
    run(&mut r, "packet-generator delete s");
    assert_eq!(r.configuration(), all);
}

#[test]
fn an_interface_that_goes_comes_back_as_it_was_or_as_another() {
    let mut r = routed();
    let made = |r: &Router| {
        let index = r.interfaces.find("pg1").unwrap();
        r.interfaces.get(index).unwrap().incarnation
    };
    let first = made(&r);
    let gone = ["delete packet-generator interface pg1", "delete tap nosuch"];
    assert!(change(&mut r, &gone).is_err());
    assert_eq!(made(&r), first, "the same device");
    let anew = [
        "delete packet-generator interface pg1",
        "create packet-generator interface pg1 hw-addr 02:fe:00:00:00:05",
        "set interface state pg1 up",
        "set interface ip address pg1 10.1.0.1/24",
        "ip neighbor pg1 10.1.0.2 02:00:00:00:00:99 static",
        "ip route add 20.0.0.0/8 via 10.1.0.2 pg1",
    ];
    change(&mut r, &anew).unwrap_or_else(|e| panic!("{e}"));
    assert_ne!(made(&r), first);
    settle(&mut r);
    under_traffic(&mut r, |r, _| _ = r.turn());
    assert_eq!(sunk(&r, "pg2"), 0);
}
