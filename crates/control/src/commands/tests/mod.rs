//! Commands executed on a router: `grammar` asks what is accepted, refused and undone, `running` what packets
//! then do, `workers` what holds with several of them, `switchover` what packets see of a transaction, `collectors` where
//! samples go.

mod acl;
mod bridge;
mod collectors;
mod grammar;
mod running;
mod sampling;
mod switchover;
mod tunnels;
mod virtuals;
mod workers;

use std::time::{Duration, Instant};

use parshall_command::{Reply, Shell};

use super::*;
use crate::engine::EngineConfig;

fn router() -> Router {
    Router::new(EngineConfig {
        buffers: 2048,
        interfaces: 32,
        ..EngineConfig::default()
    })
    .expect("a router")
}

fn model() -> Router {
    let config = EngineConfig {
        interfaces: 32,
        ..EngineConfig::default()
    };
    Router::model(&config).expect("a model")
}

fn run(r: &mut Router, line: &str) -> String {
    match r.execute(line, false) {
        Reply::Text(t) => t,
        other => panic!("{line}: {other:?}"),
    }
}

fn script(r: &mut Router, text: &str) {
    r.run_script(text, "test").unwrap_or_else(|e| panic!("{e}"));
}

fn refused(r: &mut Router, line: &str) -> String {
    match r.execute(line, false) {
        Reply::Error(e) => e,
        other => panic!("{line} was not refused: {other:?}"),
    }
}

fn data(r: &mut Router, line: &str) -> serde_json::Value {
    match r.execute(line, true) {
        Reply::Data(d) => d,
        other => panic!("{line}: {other:?}"),
    }
}

const TWO: &str = "
create packet-generator interface pg0 hw-addr 02:fe:00:00:00:00
create packet-generator interface pg1 hw-addr 02:fe:00:00:00:01
set interface state pg0 up
set interface state pg1 up
set interface ip address pg0 10.0.0.1/24
set interface ip address pg1 10.1.0.1/24
";

/// Everything that a state is made of, as shown.
fn everything(r: &mut Router) -> Vec<serde_json::Value> {
    let lines = [
        "show interface",
        "show interface address",
        "show ip fib",
        "show ip6 fib",
        "show ip neighbor",
        "show ip6 neighbor",
        "show ip neighbor-config",
        "show packet-generator",
        "show sflow interfaces",
        "show acl-plugin acl",
        "show acl-plugin interface",
        "show ipip tunnel",
        "show vxlan tunnel",
    ];
    let mut out: Vec<_> = lines.iter().map(|l| data(r, l)).collect();
    let mut sflow = data(r, "show sflow");
    sflow.as_object_mut().map(|o| o.remove("agent"));
    out.push(sflow);
    if r.mpls_table {
        out.push(data(r, "show mpls fib"));
    }
    out
}

/// Lets workers do what they were told, and the router hear of it.
fn settle(r: &mut Router) {
    r.engine.settle().unwrap();
    r.turn();
    r.engine.settle().unwrap();
}

fn until(r: &mut Router, what: &str, mut done: impl FnMut(&mut Router) -> bool) {
    let start = Instant::now();
    while !done(r) {
        r.turn();
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "{what} did not happen"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn stream(name: &str, limit: u32) -> String {
    format!(
        "packet-generator new {{ name {name} limit {limit} size 64-64 interface pg0 node ethernet-input \
         data {{ IP4: 02:00:00:00:00:01 -> 02:fe:00:00:00:00 UDP: 10.0.0.9 -> 20.0.0.1 UDP: 1 -> 2 incrementing 8 }} }}"
    )
}

fn sunk(r: &Router, interface: &str) -> u64 {
    let index = r.interfaces.find(interface).unwrap();
    r.interfaces
        .get(index)
        .unwrap()
        .pg
        .as_ref()
        .unwrap()
        .sink()
        .packets
}
