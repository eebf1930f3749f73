//! VPP's clients as they are: its Python library, GoVPP and vppcfg, each of the version that tests/setup.sh installs.

#[path = "vpp_clients/hostile.rs"]
mod hostile;
mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use support::{Netns, Router, parshall};

/// Programs that tests/setup.sh puts into the cache.
fn installed(name: &str) -> PathBuf {
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.unwrap_or_else(|| home().join(".cache"));
    let program = cache.join("parshall-tests").join(name);
    assert!(
        program.exists(),
        "{} is missing: tests/setup.sh installs it",
        program.display()
    );
    program
}

fn beside(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/vpp_clients")
        .join(name)
}

fn said(out: &Output) -> String {
    let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
    text(&out.stdout) + &text(&out.stderr)
}

/// A router with two packet generators, and its binary API.
fn router() -> (Netns, Router, PathBuf) {
    let ns = Netns::new("r");
    let commands = [
        "create packet-generator interface pg0",
        "create packet-generator interface pg1",
    ];
    let router = Router::start(&ns, &commands);
    let socket = router.socket().with_file_name("api.sock");
    (ns, router, socket)
}

fn papi(more: &[&Path]) {
    let (_ns, router, socket) = router();
    let mut command = Command::new(installed("vpp-clients/bin/python"));
    command.arg(beside("papi.py")).arg(&socket).args(more);
    let out = command.output().expect("Python runs");
    assert!(
        out.status.success() && said(&out).contains("papi: all well"),
        "{}\n{}",
        said(&out),
        router.log()
    );
    assert!(router.stop());
}

#[test]
fn vpp_papi_learns_the_messages_from_the_router() {
    papi(&[]);
}

#[test]
fn vpp_papi_learns_the_messages_from_files() {
    let dir = tempfile::tempdir().unwrap();
    let out = Command::new(parshall())
        .args(["api", "json"])
        .arg(dir.path())
        .output();
    let out = out.expect("the program runs");
    assert!(out.status.success(), "{}", said(&out));
    papi(&[dir.path()]);
}

#[test]
fn govpp_connects_stays_connected_and_configures() {
    let (_ns, router, socket) = router();
    let mut command = Command::new(installed("bin/govpp-client"));
    command
        .arg(&socket)
        .arg(socket.with_file_name("stats.sock"));
    let out = command.output().expect("the Go client runs");
    let said = said(&out);
    assert!(out.status.success(), "{said}\n{}", router.log());
    for step in [
        "event",
        "route is there",
        "route is gone",
        "stats of interfaces",
        "stats of errors",
        "stats of nodes",
        "stats of the system",
        "stats of buffers",
        "stats of a new interface",
        "health",
    ] {
        assert!(said.contains(&format!("ok {step}\n")), "{said}");
    }
    assert!(router.stop());
}

/// Every request that is served, with what a client sends unless it is told otherwise.
#[test]
fn vpp_papi_is_answered_every_message() {
    let (_ns, router, socket) = router();
    let mut command = Command::new(installed("vpp-clients/bin/python"));
    command.arg(beside("every.py")).arg(&socket);
    let out = command.output().expect("Python runs");
    assert!(
        out.status.success() && said(&out).contains("every message: all well"),
        "{}\n{}",
        said(&out),
        router.log()
    );
    assert!(router.stop());
}

#[test]
fn several_clients_work_at_once() {
    let (_ns, router, socket) = router();
    let python = installed("vpp-clients/bin/python");
    let script = "import sys\nfrom vpp_papi import VPPApiClient\nv = VPPApiClient(server_address=sys.argv[1], bootstrapapi=True)\n\
                  v.connect('c')\nfor _ in range(50): assert len(v.api.sw_interface_dump()) == 3\nv.disconnect()\n";
    let start = |_| {
        let mut c = Command::new(&python);
        c.args(["-c", script])
            .arg(&socket)
            .spawn()
            .expect("Python runs")
    };
    let clients: Vec<_> = (0..4).map(start).collect();
    for mut c in clients {
        assert!(c.wait().expect("ended").success(), "{}", router.log());
    }
    assert!(router.stop());
}

/// Commands of a plan; the rest is comments.
fn commands(plan: &str) -> Vec<&str> {
    let is_command = |l: &&str| !l.trim().is_empty() && !l.starts_with("comment");
    plan.lines().filter(is_command).collect()
}

#[test]
fn vppcfg_goes_to_its_largest_plan_and_back_to_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name);
    let generators: Vec<String> = (0..9)
        .map(|n| format!("create packet-generator interface pg{n}, set interface mtu 9000 pg{n}"))
        .collect();
    // As with VPP, vppcfg switches MPLS on and does not make its table.
    let config = format!("commands: [{}, mpls table add 0]\n", generators.join(", "));
    std::fs::write(file("router.yaml"), config).unwrap();
    let mut command = Command::new("unshare");
    command.args(["-mn", "sh", "-x"]).arg(beside("vppcfg.sh"));
    command.arg(parshall()).arg(file("router.yaml"));
    command
        .arg(installed("vpp-clients/bin/vppcfg"))
        .arg(beside(""));
    let out = command.arg(dir.path()).output().expect("unshare runs");
    let read = |name: &str| std::fs::read_to_string(file(name)).unwrap_or_default();
    let said = format!("{}\n{}", said(&out), read("router.log"));
    assert!(out.status.success(), "{said}");
    let plan = read("largest.exec");
    for line in [
        "create loopback interface instance 11 mac 02:de:ad:11:be:ef",
        "create bond id 0 mode xor load-balance l34 hw-addr 02:b0:b0:01:02:03",
        "create vxlan tunnel src 2001:db8::1 dst 2001:db8::2 instance 2 vni 102 decap-next l2",
        "create sub pg2 1235 dot1q 1234 inner-dot1q 1000 exact-match",
        "create sub BondEthernet0 500 dot1ad 500",
        "bond add BondEthernet1 pg7",
        "set interface l2 bridge loop1 1 bvi",
        "set interface l2 tag-rewrite BondEthernet0.502 pop 2",
        "set interface l2 xconnect BondEthernet0.100 BondEthernet0.200",
        "set interface unnumbered pg2.20 use loop0",
        "set interface mpls pg2 enable",
        "sflow enable pg0",
    ] {
        assert!(plan.lines().any(|l| l.trim() == line), "{line}\n{plan}");
    }
    assert!(read("largest.ports").contains("vpp-tap100"), "{said}");
    let there = read("largest.yaml");
    for word in [
        "BondEthernet1",
        "vxlan_tunnel2",
        "tap101",
        "192.0.2.37/30",
        "unnumbered",
    ] {
        assert!(there.contains(word), "{word}\n{there}");
    }
    assert!(commands(&read("nothing.exec")).len() > 50, "{said}");
    let left = read("nothing.yaml");
    for section in [
        "bondethernets",
        "bridgedomains",
        "loopbacks",
        "taps",
        "vxlan_tunnels",
    ] {
        assert!(left.contains(&format!("{section}: {{}}")), "{left}");
    }
    for word in ["addresses", "sub-interfaces", "state: up"] {
        assert!(!left.contains(word), "{word}\n{left}");
    }
    assert!(!read("nothing.ports").contains("vpp-tap100"));
    for plan in ["largest.again", "nothing.again"] {
        let todo = read(plan);
        assert_eq!(commands(&todo), Vec::<&str>::new(), "{plan}");
    }
}
