//! A router whose tables fill up: the refusal names the limit, nothing is left half done, packets go on
//! being forwarded all the while, and what is freed can be used again.

use std::time::{Duration, Instant};

use parshall_command::{Reply, Shell};
use parshall_control::{EngineConfig, Router, TableLimits};

const TWO: &str = "
create packet-generator interface pg0 hw-addr 02:fe:00:00:00:00
create packet-generator interface pg1 hw-addr 02:fe:00:00:00:01
set interface state pg0 up
set interface state pg1 up
set interface ip address pg0 10.0.0.1/24
set interface ip address pg1 10.1.0.1/16
ip neighbor pg1 10.1.0.2 02:00:00:00:00:99 static
ip route add 20.0.0.0/8 via 10.1.0.2 pg1
packet-generator new { name s limit 300 size 64-64 interface pg0 node ethernet-input \
data { IP4: 02:00:00:00:00:01 -> 02:fe:00:00:00:00 UDP: 10.0.0.9 -> 20.0.0.1 UDP: 1 -> 2 incrementing 8 } }";

fn limits() -> TableLimits {
    TableLimits {
        adjacencies: 4096,
        load_balances: 256,
        impositions: 256,
        dispositions: 256,
        tables: 16,
        table_bytes: 1 << 24,
        macs: 1,
    }
}

fn router(tables: TableLimits) -> Router {
    let config = EngineConfig {
        buffers: 2048,
        interfaces: 8,
        tables,
        ..EngineConfig::default()
    };
    let mut r = Router::new(config).unwrap();
    r.run_script(TWO, "test").unwrap();
    r
}

fn run(r: &mut Router, line: &str) -> String {
    match r.execute(line, false) {
        Reply::Text(t) => t,
        other => panic!("{line}: {other:?}"),
    }
}

/// Executes lines made of 0, 1, 2, .. until one is refused; says how many went and the refusal.
fn fill(r: &mut Router, most: usize, line: impl Fn(usize) -> String) -> (usize, String) {
    for n in 0..most {
        if let Reply::Error(e) = r.execute(&line(n), false) {
            return (n, e);
        }
    }
    panic!("nothing was refused after {most} times {}", line(0));
}

fn until(r: &mut Router, what: &str, mut done: impl FnMut(&mut Router) -> bool) {
    let start = Instant::now();
    while !done(r) {
        r.turn();
        let late = start.elapsed() > Duration::from_secs(20);
        assert!(!late, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Packets along a route that was there before are all forwarded.
#[track_caller]
fn works(r: &mut Router) {
    let dropped = r.interface_totals(1).rx_drops;
    let before = r.interface_totals(2).tx_packets;
    run(r, "packet-generator enable-stream s");
    until(r, "forwarding", |r| {
        r.interface_totals(2).tx_packets >= before + 300
    });
    assert_eq!(r.interface_totals(1).rx_drops, dropped);
}

/// A freed object can be had again once the worker has moved on, which takes it a moment.
fn until_done(r: &mut Router, line: &str) {
    until(r, line, |r| {
        matches!(r.execute(line, false), Reply::Text(_))
    });
}

#[test]
fn adjacencies() {
    let mut r = router(TableLimits {
        adjacencies: 20,
        ..limits()
    });
    let add = |n: usize| format!("ip route add 30.0.{n}.0/24 via 10.1.1.{} pg1", n + 1);
    let (n, refusal) = fill(&mut r, 100, add);
    assert!(refusal.contains("the limit is 20"), "{refusal}");
    assert!(n > 10);
    let routes = run(&mut r, "show ip fib");
    assert!(!routes.contains(&format!("30.0.{n}.0/24")));
    assert!(routes.contains(&format!("30.0.{}.0/24", n - 1)));
    // A route over a neighbour that has an adjacency needs no other.
    run(&mut r, "ip route add 31.0.0.0/24 via 10.1.1.1 pg1");
    works(&mut r);
    // A transaction that fails half way leaves nothing.
    let two = format!("ip route add 32.0.0.0/24 via 10.1.0.2 pg1\n{}", add(n));
    assert!(r.run_script(&two, "test").is_err());
    assert!(!run(&mut r, "show ip fib").contains("32.0.0.0/24"));
    run(&mut r, "ip route del 30.0.3.0/24");
    until_done(&mut r, &add(n));
    works(&mut r);
}

#[test]
fn load_balances() {
    let mut r = router(TableLimits {
        load_balances: 12,
        ..limits()
    });
    let add = |n: usize| {
        format!(
            "ip route add 30.0.{n}.0/24 via 10.1.0.2 pg1 weight {} via 10.1.0.3 pg1",
            n + 2
        )
    };
    let (n, refusal) = fill(&mut r, 100, add);
    assert!(refusal.contains("the limit is 12"), "{refusal}");
    assert!(!run(&mut r, "show ip fib").contains(&format!("30.0.{n}.0/24")));
    works(&mut r);
    for i in 0..n {
        run(&mut r, &format!("ip route del 30.0.{i}.0/24"));
    }
    for i in 0..n {
        until_done(&mut r, &add(i));
    }
    let (_, again) = fill(&mut r, 100, |i| add(n + i));
    assert_eq!(again, refusal);
    works(&mut r);
}

#[test]
fn label_stacks() {
    let mut r = router(TableLimits {
        impositions: 10,
        ..limits()
    });
    let add = |n: usize| {
        format!(
            "ip route add 30.0.{n}.0/24 via 10.1.0.2 pg1 out-labels {}",
            n + 16
        )
    };
    let (n, refusal) = fill(&mut r, 100, add);
    assert!(refusal.contains("the limit is 10"), "{refusal}");
    works(&mut r);
    run(&mut r, "ip route del 30.0.0.0/24");
    until_done(&mut r, &add(n));
    works(&mut r);
}

#[test]
fn table_memory() {
    let mut r = router(TableLimits {
        table_bytes: 1 << 18,
        ..limits()
    });
    // Each in nodes of its own.
    let add = |n: usize| {
        let (net, host) = (n % 8192, n / 8192);
        let net = format!("{}.{}.{host}.1/32", 32 + net / 256, net % 256);
        format!("ip route add {net} via 10.1.0.2 pg1")
    };
    let (n, refusal) = fill(&mut r, 1 << 20, add);
    assert!(refusal.contains("full: the limit is"), "{refusal}");
    works(&mut r);
    // What the refused route would have had is what the shorter ones have: nothing.
    let routes = run(&mut r, "show ip fib summary");
    assert!(!routes.is_empty());
    let del = |n: usize| add(n).replace(" add ", " del ");
    for i in 0..n {
        run(&mut r, &del(i));
        if i % 64 == 0 {
            r.turn();
        }
    }
    for i in 0..n {
        until_done(&mut r, &add(i));
    }
    works(&mut r);
}

#[test]
fn tables() {
    let mut r = router(TableLimits {
        tables: 5,
        ..limits()
    });
    let (n, refusal) = fill(&mut r, 100, |n| format!("ip table add {}", n + 1));
    assert_eq!(n, 4);
    assert!(refusal.contains("the limit is 5 tables"), "{refusal}");
    works(&mut r);
    run(&mut r, "ip table del 2");
    until_done(&mut r, "ip table add 9");
    works(&mut r);
}

#[test]
fn interfaces() {
    let mut r = router(limits());
    let (n, refusal) = fill(&mut r, 100, |_| "create packet-generator interface".into());
    // Eight with local0, pg0 and pg1.
    assert_eq!(n, 5, "{refusal}");
    assert!(refusal.contains('8'), "{refusal}");
    works(&mut r);
    run(&mut r, "delete packet-generator interface pg5");
    until_done(&mut r, "create packet-generator interface");
    works(&mut r);
}

/// More commands than a worker's ring holds, faster than it takes them: control waits, none is lost.
#[test]
fn the_command_ring() {
    let mut r = router(limits());
    run(&mut r, "set interface state pg1 down");
    let script: String = (0..3000)
        .map(|n| {
            [
                "set interface state pg1 up\n",
                "set interface state pg1 down\n",
            ][n % 2]
        })
        .collect();
    r.run_script(&script, "test").unwrap();
    run(&mut r, "set interface state pg1 up");
    until_done(&mut r, "show interface");
    works(&mut r);
}
