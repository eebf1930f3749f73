//! VPP's clients as they are: its Python library, GoVPP and vppcfg, each of the version that tests/setup.sh installs.

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
    let out = command.arg(&socket).output().expect("the Go client runs");
    let said = said(&out);
    assert!(out.status.success(), "{said}\n{}", router.log());
    for step in ["event", "route is there", "route is gone", "health"] {
        assert!(said.contains(&format!("ok {step}\n")), "{said}");
    }
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

/// What vppcfg is to make of a router that has two packet generators and nothing else.
const WANTED: &str = "\
interfaces:
  pg0:
    mtu: 9000
    addresses: [ 192.0.2.1/24, 2001:db8:2::1/64 ]
    sub-interfaces:
      100:
        addresses: [ 192.0.3.1/24 ]
        mtu: 1500
  pg1:
    mtu: 9000
loopbacks:
  loop0:
    addresses: [ 10.255.0.1/32 ]
";

#[test]
fn vppcfg_checks_plans_and_applies_until_nothing_is_left_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name);
    std::fs::write(file("wanted.yaml"), WANTED).unwrap();
    let config = "commands: [create packet-generator interface pg0, create packet-generator interface pg1, \
                  set interface mtu 9000 pg0, set interface mtu 9000 pg1]\n";
    std::fs::write(file("router.yaml"), config).unwrap();
    let mut command = Command::new("unshare");
    command.args(["-mn", "sh", "-x"]).arg(beside("vppcfg.sh"));
    command.arg(parshall()).arg(file("router.yaml"));
    command.arg(installed("vpp-clients/bin/vppcfg"));
    let out = command.arg(dir.path()).output().expect("unshare runs");
    let log = std::fs::read_to_string(file("router.log")).unwrap_or_default();
    assert!(out.status.success(), "{}\n{log}", said(&out));
    let read = |name: &str| std::fs::read_to_string(file(name)).unwrap_or_default();
    let plan = read("plan.exec");
    assert!(
        plan.contains("create loopback interface instance 0"),
        "{plan}"
    );
    assert!(plan.contains("create sub pg0 100 dot1q 100"), "{plan}");
    assert!(
        plan.contains("set interface ip address pg0 192.0.2.1/24"),
        "{plan}"
    );
    let after = read("after.yaml");
    assert!(
        after.contains("192.0.3.1/24") && after.contains("loop0"),
        "{after}"
    );
    // A plan that has nothing to do is all comments.
    let again = read("again.exec");
    let done = |l: &&str| l.trim().is_empty() || l.starts_with("comment");
    let left: Vec<&str> = again.lines().filter(|l| !done(l)).collect();
    assert!(left.is_empty(), "{again}");
}
