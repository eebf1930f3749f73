//! The configuration of a running router: plan, apply, diff, dump, confirm, roll back; a start after kill -9 in the middle of
//! changes; and traffic through interfaces that do not change.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use support::parshall;

/// Two generators with a route between them, which no configuration here changes.
const COMMON: &str = "
buffers: {per-worker: 4096}
interfaces:
  pg0: {mac: \"02:fe:00:00:00:01\", addresses: [10.0.0.1/24]}
  pg1: {mac: \"02:fe:00:00:00:02\", addresses: [10.0.1.1/24]}
";

const A: &str = "  loop0: {addresses: [10.1.0.1/24]}
neighbors:
  - {interface: pg1, address: 10.0.1.2, mac: \"02:00:00:00:00:02\"}
routes:
  - {prefix: 172.16.0.0/16, via: 10.1.0.2}
  - {prefix: 172.17.0.0/16, action: blackhole}
";

const B: &str = "  loop1: {addresses: [10.1.0.1/24], mtu: 1400, sflow: true}
  loop2: {addresses: [10.2.0.1/24], table: 7, state: down}
tables:
  - {id: 7}
neighbors:
  - {interface: pg1, address: 10.0.1.2, mac: \"02:00:00:00:00:02\"}
routes:
  - {prefix: 172.16.0.0/16, paths: [{via: 10.1.0.2}, {via: 10.0.1.2, weight: 3}]}
  - {prefix: 172.18.0.0/16, table: 7, via: 10.2.0.2, interface: loop2}
sflow: {header-bytes: 192}
";

/// A router with a state directory, ended with the value.
struct Running {
    dir: tempfile::TempDir,
    child: Child,
}

fn text(which: &str) -> String {
    format!("{COMMON}{which}")
}

impl Running {
    fn start() -> Running {
        let dir = tempfile::tempdir().unwrap();
        for (name, which) in [("a.yaml", A), ("b.yaml", B)] {
            std::fs::write(dir.path().join(name), text(which)).unwrap();
        }
        let child = spawn(dir.path());
        let running = Running { dir, child };
        running.wait();
        running
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn wait(&self) {
        let end = Instant::now() + Duration::from_secs(20);
        while !self.try_config(&["dump"]).0 {
            let log = std::fs::read_to_string(self.path("log")).unwrap_or_default();
            assert!(Instant::now() < end, "the router does not answer:\n{log}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// SIGKILL: nothing is tidied up.
    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn restart(&mut self) {
        self.kill();
        self.child = spawn(self.dir.path());
        self.wait();
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut c = Command::new(parshall());
        c.arg("config")
            .args(args)
            .arg("--socket")
            .arg(self.path("sock"));
        c.current_dir(self.dir.path());
        c.stdin(Stdio::null());
        c
    }

    fn try_config(&self, args: &[&str]) -> (bool, String) {
        let out = self.command(args).output().unwrap();
        let said = [out.stdout, out.stderr].concat();
        (
            out.status.success(),
            String::from_utf8_lossy(&said).into_owned(),
        )
    }

    fn config(&self, args: &[&str]) -> String {
        let (ok, said) = self.try_config(args);
        assert!(ok, "{args:?}: {said}");
        said
    }

    fn ctl(&self, line: &str) -> Value {
        let out = Command::new(parshall())
            .args(["ctl", "--json", "--socket"])
            .arg(self.path("sock"))
            .args(line.split(' '))
            .output()
            .unwrap();
        assert!(
            out.status.success(),
            "{line}: {}",
            String::from_utf8_lossy(&out.stderr)
        );
        serde_json::from_slice(&out.stdout).unwrap_or(Value::Null)
    }

    /// Whether exactly the configuration of a file is there.
    fn is(&self, file: &str) -> bool {
        self.config(&["plan", file]).is_empty()
    }
}

fn spawn(dir: &Path) -> Child {
    let log = std::fs::File::options()
        .create(true)
        .append(true)
        .open(dir.join("log"))
        .unwrap();
    Command::new(parshall())
        .args(["run", "-c", "a.yaml", "--state-dir", "state", "--socket"])
        .arg(dir.join("sock"))
        .current_dir(dir)
        .stdin(Stdio::null())
        .stderr(log)
        .spawn()
        .unwrap()
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_change_is_planned_applied_kept_and_taken_back() {
    let mut r = Running::start();
    assert!(r.is("a.yaml") && !r.is("b.yaml"));
    let plan = r.config(&["plan", "b.yaml"]);
    assert!(plan.contains("delete loopback interface loop0\n"), "{plan}");
    assert!(
        !plan.contains("pg0") && !plan.contains("set interface state pg1"),
        "{plan}"
    );
    let json: Value = serde_json::from_str(&r.config(&["plan", "b.yaml", "--json"])).unwrap();
    assert_eq!(
        json["actions"].as_array().unwrap().len(),
        plan.lines().count()
    );
    let diff = r.config(&["diff", "b.yaml"]);
    assert!(
        diff.contains("+   loop2:") || diff.contains("+   loop2"),
        "{diff}"
    );

    let done = r.config(&["apply", "b.yaml", "-m", "to b"]);
    assert!(done.contains("applied revision 2"), "{done}");
    assert!(r.is("b.yaml"));
    std::fs::write(r.path("dumped.yaml"), r.config(&["dump"])).unwrap();
    assert!(
        r.is("dumped.yaml"),
        "{}",
        r.config(&["plan", "dumped.yaml"])
    );
    r.restart();
    assert!(r.is("b.yaml"), "the last revision is there after kill -9");
    let list: Value = serde_json::from_str(&r.config(&["revisions", "--json"])).unwrap();
    assert_eq!(
        (&list[1]["comment"], &list[1]["state"]),
        (&"to b".into(), &"confirmed".into())
    );
    assert!(
        list[1]["who"].as_str().is_some_and(|w| !w.is_empty()),
        "{list}"
    );
    r.config(&["rollback", "1"]);
    assert!(r.is("a.yaml"));

    // Not confirmed when the process dies: it never was.
    let said = r.config(&["commit", "b.yaml", "--confirm", "5"]);
    assert!(
        said.contains("given up in 5 minutes") && r.is("b.yaml"),
        "{said}"
    );
    r.restart();
    assert!(r.is("a.yaml"), "what was not confirmed is gone");
    r.config(&["commit", "b.yaml", "--confirm", "5"]);
    r.config(&["rollback"]);
    assert!(r.is("a.yaml"));
    r.config(&["commit", "b.yaml", "--confirm", "5"]);
    r.config(&["commit"]);
    r.restart();
    assert!(r.is("b.yaml"), "what was confirmed is there");
    // What was made by hand is saved by a commit without a file.
    r.ctl("set interface mtu 1300 loop1");
    r.config(&["commit"]);
    r.restart();
    assert!(r.config(&["dump"]).contains("mtu: 1300"));
}

#[test]
fn a_bad_file_changes_nothing() {
    let r = Running::start();
    for (wrong, hint) in [
        (
            "interfaces:\n  pg0: {mtu: 5, adresses: [10.0.0.1/24]}\n",
            "bad.yaml:2:",
        ),
        // Good in itself, refused by the router: no such file.
        (
            "interfaces:\n  pcap0: {receive: /nosuch/file.pcap}\n",
            "nosuch",
        ),
        ("interfaces:\n  host-nosuch0: {}\n", "nosuch0"),
        (
            "interfaces:\n  GigabitEthernet3/0/0: {}\n",
            "GigabitEthernet3/0/0",
        ),
    ] {
        std::fs::write(r.path("bad.yaml"), wrong).unwrap();
        let (ok, said) = r.try_config(&["apply", "bad.yaml"]);
        assert!(!ok && said.contains(hint), "{wrong}: {said}");
        assert!(r.is("a.yaml"));
    }
    let list: Value = serde_json::from_str(&r.config(&["revisions", "--json"])).unwrap();
    assert_eq!(list.as_array().unwrap().len(), 1);
}

#[test]
fn a_router_killed_while_it_changes_is_one_or_the_other() {
    let mut r = Running::start();
    let mut wait: u64 = 7;
    let mut seen = [0, 0];
    for turn in 0..16 {
        let target = if r.is("a.yaml") { "b.yaml" } else { "a.yaml" };
        let mut apply = r
            .command(&["apply", target])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // From at once to well after it is done, in steps that have no rhythm.
        wait = (wait * 73 + 41) % 97;
        std::thread::sleep(Duration::from_micros(wait * 700));
        r.kill();
        let told_done = apply.wait().unwrap().success();
        r.restart_after_kill();
        let (a, b) = (r.is("a.yaml"), r.is("b.yaml"));
        assert!(
            a != b,
            "turn {turn}: neither A nor B:\n{}",
            r.config(&["dump"])
        );
        assert!(
            !told_done || b == (target == "b.yaml"),
            "turn {turn}: what was done is lost"
        );
        seen[usize::from(b == (target == "b.yaml"))] += 1;
    }
    eprintln!("before: {}, after: {}", seen[0], seen[1]);
}

impl Running {
    fn restart_after_kill(&mut self) {
        self.child = spawn(self.dir.path());
        self.wait();
    }
}

#[test]
fn traffic_through_what_does_not_change_loses_nothing() {
    const PACKETS: u64 = 2_000_000;
    let r = Running::start();
    let stream = format!(
        "packet-generator new {{ name s limit {PACKETS} rate 400000 size 64-64 interface pg0 node ethernet-input data {{ IP4: \
         02:00:00:00:00:01 -> 02:fe:00:00:00:01 UDP: 10.0.0.2 -> 10.0.1.2 UDP: 1 -> 2 incrementing 30 }} }}"
    );
    r.ctl(&stream);
    // The stream is no part of the files: it is left out of what changes by being part of both.
    let stream = format!(
        "packet-generator:\n  streams:\n    - {{name: s, interface: pg0, definition: {}}}\n",
        serde_json::to_string(
            stream
                .trim_start_matches("packet-generator new { ")
                .trim_end_matches(" }")
        )
        .unwrap()
    );
    for (name, which) in [("a.yaml", A), ("b.yaml", B)] {
        std::fs::write(r.path(name), text(which) + &stream).unwrap();
    }
    r.ctl("packet-generator enable-stream s");
    let sent = || {
        let all = r.ctl("show interface");
        let pg1 = all
            .as_array()
            .unwrap()
            .iter()
            .find(|i| i["name"] == "pg1")
            .cloned();
        pg1.and_then(|i| {
            i["counters"]["tx_packets"]
                .as_u64()
                .or(i["tx_packets"].as_u64())
        })
        .unwrap_or(0)
    };
    let end = Instant::now() + Duration::from_secs(60);
    let mut changes = 0;
    while sent() < PACKETS && Instant::now() < end {
        let (ok, said) = r.try_config(&["apply", ["b.yaml", "a.yaml"][changes % 2]]);
        assert!(ok, "{said}");
        changes += 1;
    }
    assert_eq!(
        sent(),
        PACKETS,
        "after {changes} changes: {}",
        r.ctl("show errors")
    );
    assert!(changes > 3, "{changes} changes while packets flowed");
}
