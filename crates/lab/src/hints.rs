//! What to try while the laboratory is left running.

use crate::privilege::Footing;
use crate::router::interface;
use crate::topology::{A, B, HOST_IF, Topology};

/// Lines to print: to be pasted into another terminal.
pub fn lines(t: &Topology, footing: Footing) -> Vec<String> {
    let mut out = vec![
        String::new(),
        "The laboratory stays, with light traffic, until Ctrl-C. In another terminal, try:".into(),
    ];
    let commands = shortcuts(t, footing)
        .into_iter()
        .chain(questions(t))
        .chain(packets(t, footing));
    out.extend(commands.map(|c| format!("  {c}")));
    out.push(format!(
        "Configuration and log of the router are in {}.",
        t.folder().display()
    ));
    out
}

/// How to run something inside a namespace from outside.
fn inside(ns: &str, footing: Footing) -> String {
    match footing {
        Footing::System => format!("ip netns exec {ns}"),
        // The names are known in our mount namespace only.
        Footing::UserNamespace => format!(
            "nsenter -t {} -U -m --preserve-credentials ip netns exec {ns}",
            std::process::id()
        ),
    }
}

/// Shell functions that the other lines use.
fn shortcuts(t: &Topology, footing: Footing) -> Vec<String> {
    let program =
        std::env::current_exe().map_or_else(|_| "parshall".into(), |p| p.display().to_string());
    let (a, b) = (
        inside(t.a.ns.name(), footing),
        inside(t.b.ns.name(), footing),
    );
    vec![
        format!(
            "ctl() {{ '{program}' ctl --socket '{}' \"$@\"; }}",
            t.socket().display()
        ),
        format!("a() {{ {a} \"$@\"; }}; b() {{ {b} \"$@\"; }}"),
    ]
}

fn questions(t: &Topology) -> Vec<String> {
    let capture = t.folder().join("lab.pcap");
    vec![
        "ctl show interface".into(),
        "ctl show runtime".into(),
        "ctl show errors".into(),
        "ctl show mpls fib".into(),
        "ctl show sflow".into(),
        format!(
            "ctl sflow enable {} sampling-rate 10",
            interface(A.router_if)
        ),
        "ctl trace add af-packet-input 5; sleep 1; ctl show trace".into(),
        format!(
            "ctl pcap trace rx tx file {}; sleep 1; ctl pcap trace off",
            capture.display()
        ),
        "ctl                                   # a prompt, with completion and ? help".into(),
    ]
}

fn packets(t: &Topology, footing: Footing) -> Vec<String> {
    let mut out = vec![
        format!("a ping -c 3 {}", B.host4),
        format!("a ping -c 3 {}", B.host6),
        format!("a traceroute {}", B.host4),
    ];
    // tcpdump wants to become another user, of which a user namespace has none.
    if footing == Footing::System {
        out.push(format!("b tcpdump -c 10 -ni {HOST_IF}"));
        let router = inside(t.router.name(), footing);
        out.push(format!("{router} tcpdump -c 5 -ni lo udp port 6343"));
    }
    out
}
