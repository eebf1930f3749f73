//! What to try while the laboratory is left running.

use crate::privilege::Footing;
use crate::router::interface;
use crate::topology::{A, B, HOST_IF, Topology};

/// Lines to print.
pub fn lines(t: &Topology, footing: Footing) -> Vec<String> {
    let program =
        std::env::current_exe().map_or_else(|_| "parshall".into(), |p| p.display().to_string());
    let ctl = format!("{program} ctl --socket {}", t.socket().display());
    let inside = |ns: &str| match footing {
        Footing::System => format!("ip netns exec {ns}"),
        // The names are known in our mount namespace only.
        Footing::UserNamespace => format!(
            "nsenter -t {} -U -m --preserve-credentials ip netns exec {ns}",
            std::process::id()
        ),
    };
    let (a, b) = (inside(t.a.ns.name()), inside(t.b.ns.name()));
    vec![
        String::new(),
        "The laboratory stays, with light traffic, until Ctrl-C. In another terminal, try:".into(),
        format!("  {ctl} show interface"),
        format!("  {ctl} show errors"),
        format!("  {ctl} show runtime"),
        format!("  {ctl} show mpls fib"),
        format!("  {ctl} show sflow"),
        format!(
            "  {ctl} sflow enable {} sampling-rate 10",
            interface(A.router_if)
        ),
        format!("  {ctl} trace add af-packet-input 5      then: {ctl} show trace"),
        format!("  {a} ping {}", B.host4),
        format!("  {a} ping {}", B.host6),
        format!("  {a} traceroute {}", B.host4),
        format!("  {b} tcpdump -ni {HOST_IF}"),
        format!("  {} tcpdump -ni lo udp port 6343", inside(t.router.name())),
        format!(
            "The router's configuration: {}",
            t.folder().join("router.yaml").display()
        ),
        format!(
            "The router's log: {}",
            t.folder().join("router.log").display()
        ),
    ]
}
