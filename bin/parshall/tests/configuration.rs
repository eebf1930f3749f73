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
  pg2: {sub-interfaces: {10: {addresses: [10.3.0.1/24]}}}
  pg3: {}
  pg4: {acl-input: [edge]}
  BondEthernet0: {addresses: [10.4.0.1/24]}
bondethernets:
  BondEthernet0: {mode: xor, interfaces: [pg3]}
acls:
  edge: {terms: [{action: permit, protocol: tcp, destination-port: 443}]}
neighbors:
  - {interface: pg1, address: 10.0.1.2, mac: \"02:00:00:00:00:02\"}
routes:
  - {prefix: 172.16.0.0/16, via: 10.1.0.2}
  - {prefix: 172.17.0.0/16, action: blackhole}
";

const B: &str = "  loop1: {addresses: [10.1.0.1/24], mtu: 1400, sflow: true}
  loop2: {addresses: [10.2.0.1/24], table: 7, state: down}
  pg2: {}
  pg3: {split-horizon-group: 1}
  pg4: {acl-input: [core, edge], tag: uplink}
  ipip0: {unnumbered: loop1}
  vxlan_tunnel5: {}
bridgedomains:
  bd5:
    interfaces: [pg2, pg3, vxlan_tunnel5]
    stations: [{mac: \"02:00:00:00:00:33\", interface: pg3}]
vxlan_tunnels:
  vxlan_tunnel5: {local: 10.0.0.1, remote: 10.0.0.9, vni: 55}
tunnels:
  ipip0: {local: 10.0.0.1, remote: 10.0.0.9}
acls:
  core: {terms: [{action: deny, source: 192.0.2.0/24}]}
  edge: {terms: [{action: permit, protocol: tcp, destination-port: 443}]}
tables:
  - {id: 7}
neighbors:
  - {interface: pg1, address: 10.0.1.2, mac: \"02:00:00:00:00:02\"}
routes:
  - {prefix: 172.16.0.0/16, paths: [{via: 10.1.0.2}, {via: 10.0.1.2, weight: 3}]}
  - {prefix: 172.18.0.0/16, table: 7, via: 10.2.0.2, interface: loop2}
sflow: {header-bytes: 192}
";

/// Packets that a stream sends from pg0 to pg1, a quarter of a million a second.
const PACKETS: u64 = 1_000_000;

/// That stream.
fn stream() -> String {
    format!(
        "packet-generator:
  streams:
    - name: s
      interface: pg0
      limit: {PACKETS}
      rate: 250000
      size: 64
      node: ethernet-input
      data: 'IP4: 02:00:00:00:00:01 -> 02:fe:00:00:00:01 UDP: 10.0.0.2 -> 10.0.1.2 UDP: 1 -> 2 incrementing 22'
"
    )
}

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
        Running::with("")
    }

    /// Both configurations have `more` besides.
    fn with(more: &str) -> Running {
        let dir = tempfile::tempdir().unwrap();
        for (name, which) in [("a.yaml", A), ("b.yaml", B)] {
            std::fs::write(dir.path().join(name), text(which) + more).unwrap();
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

/// vppcfg's own example, and verdicts on files of ours by vppcfg as it is installed by tests/setup.sh.
#[test]
fn vppcfg_and_we_agree_on_files() {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap());
    let cache = cache.unwrap_or_else(|| home().join(".cache"));
    let python = cache.join("parshall-tests/vpp-clients/bin/python");
    assert!(
        python.exists(),
        "{} is not there: tests/setup.sh installs it",
        python.display()
    );
    let dir = tempfile::tempdir().unwrap();
    let files = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/configuration");
    let out = Command::new(&python)
        .arg(files.join("vppcfg_verdicts.py"))
        .arg(files.join("vppcfg.yaml"))
        .arg(dir.path())
        .output()
        .unwrap();
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    let verdicts: Value = serde_json::from_slice(&out.stdout).unwrap();
    let mut wrong = String::new();
    let mut counts = [0, 0];
    for (name, good) in verdicts.as_object().unwrap() {
        let file = dir.path().join(name);
        let ours = Command::new(parshall())
            .args(["config", "check"])
            .arg(&file)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&ours.stderr);
        let good = good.as_bool().unwrap();
        counts[usize::from(good)] += 1;
        // A bad file is told with its line and field.
        let told = said.lines().all(|l| {
            let place = l.strip_prefix(&format!("{}:", file.display()));
            place.is_some_and(|p| p.starts_with(|c: char| c.is_ascii_digit()))
        });
        // What the router does not have it refuses when the commands are rehearsed: the file is good.
        let lacks = ["`lcp create ", "permit+reflect needs"]
            .iter()
            .any(|l| said.contains(l));
        let accepted = ours.status.success() || lacks;
        if accepted != good || !good && !told {
            wrong += &format!("{name}: vppcfg finds it good: {good}; we say: {said}\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(counts[0] > 50 && counts[1] > 10, "{counts:?}");
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
    let mut at_a = true;
    for turn in 0..16 {
        let target = if at_a { "b.yaml" } else { "a.yaml" };
        // Every other change waits to be confirmed, which nobody does: it must never be there after a start.
        let waits = turn % 2 == 1;
        let args: &[&str] = match waits {
            true => &["commit", target, "--confirm", "5"],
            false => &["apply", target],
        };
        let mut apply = r
            .command(args)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // From at once to well after it is done, in steps that have no rhythm.
        wait = (wait * 73 + 41) % 97;
        std::thread::sleep(Duration::from_micros(wait * 3000));
        r.kill();
        let told_done = apply.wait().unwrap().success();
        r.child = spawn(r.dir.path());
        r.wait();
        let (a, b) = (r.is("a.yaml"), r.is("b.yaml"));
        assert!(
            a != b,
            "turn {turn}: neither A nor B:\n{}",
            r.config(&["dump"])
        );
        let changed = a != at_a;
        assert!(
            !(waits && changed),
            "turn {turn}: what nobody confirmed is there"
        );
        assert!(
            waits || !told_done || changed,
            "turn {turn}: what was done is lost"
        );
        seen[usize::from(changed)] += 1;
        at_a = a;
    }
    eprintln!("before: {}, after: {}", seen[0], seen[1]);
}

#[test]
fn traffic_through_what_does_not_change_loses_nothing() {
    let r = Running::with(&stream());
    // What the router sends by itself there is for all.
    let sent = || {
        let all = r.ctl("show interface");
        let pg1 = all.as_array().unwrap().iter().find(|i| i["name"] == "pg1");
        pg1.unwrap()["tx_unicast"].as_u64().unwrap()
    };
    let end = Instant::now() + Duration::from_secs(120);
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
    assert!(changes > 1, "{changes} changes while packets flowed");
    eprintln!("{changes} changes");
}
