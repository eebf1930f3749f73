//! Namespaces, links, processes and routers for end-to-end tests. Everything made here is taken down
//! again when its value is dropped, also when a test fails.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

pub mod guest;

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A network namespace of this test run.
pub struct Netns {
    /// Its name.
    pub name: String,
}

impl Netns {
    /// Makes a namespace with its loopback up.
    pub fn new(role: &str) -> Netns {
        let name = format!(
            "pt{}-{}-{role}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        must("ip", &["netns", "add", &name]);
        let ns = Netns { name };
        ns.ip("link set lo up");
        ns
    }

    /// `ip` inside the namespace; `args` are separated by blanks.
    pub fn ip(&self, args: &str) -> String {
        let mut all = vec!["-n", &self.name];
        all.extend(args.split_whitespace());
        must("ip", &all)
    }

    /// A command inside the namespace; `line` is separated by blanks.
    pub fn command(&self, line: &str) -> Command {
        let mut words = line.split_whitespace();
        let mut c = Command::new("ip");
        c.args(["netns", "exec", &self.name]).args(words.by_ref());
        c.stdin(Stdio::null());
        c
    }

    /// Runs a command inside the namespace; its output, whatever its status.
    pub fn try_run(&self, line: &str) -> (bool, String) {
        let out = self
            .command(line)
            .output()
            .unwrap_or_else(|e| panic!("{line}: {e}"));
        (out.status.success(), text(&out))
    }

    /// Runs a command inside the namespace that has to succeed; its output.
    pub fn run(&self, line: &str) -> String {
        let (ok, out) = self.try_run(line);
        assert!(ok, "in {}: {line} failed:\n{out}", self.name);
        out
    }

    /// Runs a command until it succeeds, for at most `seconds`.
    pub fn eventually(&self, line: &str, seconds: u64) -> String {
        let end = Instant::now() + Duration::from_secs(seconds);
        loop {
            let (ok, out) = self.try_run(line);
            if ok {
                return out;
            }
            assert!(
                Instant::now() < end,
                "in {}: {line} still fails after {seconds} s:\n{out}",
                self.name
            );
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Starts a process inside the namespace that is ended with the value.
    pub fn spawn(&self, line: &str) -> Process {
        let child = self
            .command(line)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Process {
            child: child.unwrap_or_else(|e| panic!("{line}: {e}")),
        }
    }

    /// Starts a process inside the namespace that writes its output and its messages to these files.
    pub fn spawn_to(&self, line: &str, out: &Path, log: &Path) -> Process {
        let file = |path| std::fs::File::create(path).unwrap_or_else(|e| panic!("{path:?}: {e}"));
        let mut command = self.command(line);
        // A group of its own, so that its own processes can be ended with it.
        command.process_group(0);
        let child = command.stdout(file(out)).stderr(file(log)).spawn();
        Process {
            child: child.unwrap_or_else(|e| panic!("{line}: {e}")),
        }
    }

    /// Waits until somebody inside the namespace has that UDP port.
    pub fn await_port(&self, port: u16) {
        let end = Instant::now() + Duration::from_secs(20);
        let filter = format!("ss -Hlun sport = :{port}");
        while self.run(&filter).is_empty() {
            assert!(Instant::now() < end, "nobody listens on UDP port {port}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until everything sent to that UDP port was read.
    pub fn await_read(&self, port: u16) {
        let end = Instant::now() + Duration::from_secs(20);
        let filter = format!("ss -Hlun sport = :{port}");
        loop {
            let sockets = self.run(&filter);
            let waiting = |l: &str| l.split_whitespace().nth(1).is_some_and(|n| n != "0");
            if !sockets.lines().any(waiting) {
                return;
            }
            assert!(Instant::now() < end, "port {port} is not read: {sockets}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Sets a sysctl inside the namespace.
    pub fn sysctl(&self, setting: &str) {
        self.run(&format!("sysctl -qw {setting}"));
    }
}

impl Drop for Netns {
    fn drop(&mut self) {
        let _ = Command::new("ip")
            .args(["netns", "del", &self.name])
            .output();
    }
}

/// A running process, ended on drop.
pub struct Process {
    child: Child,
}

impl Process {
    /// Ends it by a signal (`-INT`) and waits until it is gone.
    pub fn end(mut self, signal: &str) {
        must("kill", &[signal, &self.child.id().to_string()]);
        let end = Instant::now() + Duration::from_secs(20);
        while self.child.try_wait().is_ok_and(|s| s.is_none()) {
            assert!(Instant::now() < end, "a process does not end by {signal}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Stops it, or lets it go on: `-STOP`, `-CONT`.
    pub fn signal(&self, signal: &str) {
        must("kill", &[signal, &self.child.id().to_string()]);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            // The group, if it leads one.
            let group = format!("-{}", self.child.id());
            let _ = Command::new("kill").args(["-KILL", "--", &group]).output();
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Connects two namespaces by a veth pair; both ends up.
pub fn connect(a: &Netns, a_if: &str, b: &Netns, b_if: &str) {
    must(
        "ip",
        &[
            "link", "add", a_if, "netns", &a.name, "type", "veth", "peer", "name", b_if, "netns",
            &b.name,
        ],
    );
    a.ip(&format!("link set {a_if} up"));
    b.ip(&format!("link set {b_if} up"));
}

/// Makes an end of a link a router port: the kernel must not speak on it.
pub fn router_port(ns: &Netns, interface: &str) {
    ns.sysctl(&format!("net.ipv6.conf.{interface}.disable_ipv6=1"));
}

/// Gives a host an address on an interface and default routes through the router.
pub fn host(ns: &Netns, interface: &str, v4: &str, v6: &str, via4: &str, via6: &str) {
    ns.ip(&format!("addr add {v4} dev {interface}"));
    ns.ip(&format!("addr add {v6} dev {interface} nodad"));
    ns.ip(&format!("route add default via {via4}"));
    ns.ip(&format!("-6 route add default via {via6}"));
}

/// Host A - router - host B: `eth0` of A leads to `left` of the router, `eth0` of B to `right`. The left link is 10.0.1.0/24 and
/// 2001:db8:1::/64, the right one 10.0.2.0/24 and 2001:db8:2::/64; the router is to have .1 in each, the hosts have .2.
pub struct TwoHosts {
    /// Host A.
    pub a: Netns,
    /// Host B.
    pub b: Netns,
    /// Where the router is to run.
    pub r: Netns,
}

impl TwoHosts {
    /// Makes the namespaces, the links and the hosts' addresses and routes.
    pub fn new() -> TwoHosts {
        let (a, b, r) = (Netns::new("a"), Netns::new("b"), Netns::new("r"));
        for (n, ns, port) in [(1, &a, "left"), (2, &b, "right")] {
            connect(ns, "eth0", &r, port);
            router_port(&r, port);
            host(
                ns,
                "eth0",
                &format!("10.0.{n}.2/24"),
                &format!("2001:db8:{n}::2/64"),
                &format!("10.0.{n}.1"),
                &format!("2001:db8:{n}::1"),
            );
        }
        TwoHosts { a, b, r }
    }
}

/// A Parshall process.
pub struct Router {
    child: Child,
    dir: tempfile::TempDir,
}

impl Router {
    /// Starts a router inside a namespace with these commands, and waits until it answers.
    pub fn start(ns: &Netns, commands: &[&str]) -> Router {
        let mut config = String::from("cli:\n  socket: SOCKET\ncommands:\n");
        for c in commands {
            writeln!(config, "  - {}", serde_json::to_string(c).unwrap()).unwrap();
        }
        Router::start_with(ns, &config)
    }

    /// Starts a router inside a namespace with this configuration; the word SOCKET in it stands for the
    /// path of its command socket.
    pub fn start_with(ns: &Netns, config: &str) -> Router {
        Router::start_by(ns, "", config)
    }

    /// The same through another program, which starts it: `setpriv ...`.
    pub fn start_by(ns: &Netns, starter: &str, config: &str) -> Router {
        Router::start_whole(ns, starter, config, "")
    }

    /// The same with more arguments for `parshall run`.
    pub fn start_args(ns: &Netns, config: &str, args: &str) -> Router {
        Router::start_whole(ns, "", config, args)
    }

    fn start_whole(ns: &Netns, starter: &str, config: &str, args: &str) -> Router {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("router.yaml");
        let socket = dir.path().join("cli.sock");
        std::fs::write(
            &path,
            config.replace("SOCKET", &socket.display().to_string()),
        )
        .unwrap();
        let log = std::fs::File::create(dir.path().join("log")).unwrap();
        let line = format!(
            "{starter} {} run -c {} {args}",
            parshall().display(),
            path.display()
        );
        let child = ns
            .command(&line)
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut router = Router { child, dir };
        let end = Instant::now() + Duration::from_secs(20);
        while !router.try_ctl("show version").0 {
            let gone = router.child.try_wait().unwrap();
            assert!(
                gone.is_none() && Instant::now() < end,
                "router does not answer:\n{}",
                router.log()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
        router
    }

    /// Path of the command socket.
    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("cli.sock")
    }

    /// What the router logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    fn ctl_command(&self) -> Command {
        let mut c = Command::new(parshall());
        c.args(["ctl", "--socket"])
            .arg(self.socket())
            .stdin(Stdio::null());
        c
    }

    /// A command; whether it worked, and its output.
    pub fn try_ctl(&self, line: &str) -> (bool, String) {
        let out = self
            .ctl_command()
            .args(line.split_whitespace())
            .output()
            .unwrap();
        (out.status.success(), text(&out))
    }

    /// A command that has to work; its output.
    pub fn ctl(&self, line: &str) -> String {
        let (ok, out) = self.try_ctl(line);
        assert!(ok, "{line}: {out}\n{}", self.log());
        out
    }

    /// A command's answer as data.
    pub fn json(&self, line: &str) -> serde_json::Value {
        let out = self
            .ctl_command()
            .arg("--json")
            .args(line.split_whitespace())
            .output()
            .unwrap();
        assert!(out.status.success(), "{line}: {}", text(&out));
        serde_json::from_slice(&out.stdout)
            .unwrap_or_else(|e| panic!("{line}: {e}: {}", text(&out)))
    }

    /// Processor time it has used, in ticks of 10 ms.
    pub fn cpu_ticks(&self) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let fields: Vec<_> = stat
            .rsplit(')')
            .next()
            .unwrap()
            .split_whitespace()
            .collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    }

    /// Memory it occupies, in bytes.
    pub fn resident(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"));
        let kib = line.and_then(|l| l.split_whitespace().next()).unwrap();
        kib.parse::<u64>().unwrap() << 10
    }

    /// Stops its threads, or lets them go on: `-STOP`, `-CONT`. Ends it at once: `-KILL`.
    pub fn signal(&self, signal: &str) {
        must("kill", &[signal, &self.child.id().to_string()]);
    }

    /// Ends the router by signal and says whether it ended well.
    pub fn stop(mut self) -> bool {
        self.terminate()
    }

    fn terminate(&mut self) -> bool {
        // `ip netns exec` replaces itself by the router, so the child is the router.
        let _ = Command::new("kill")
            .args(["-TERM", &self.child.id().to_string()])
            .status();
        let end = Instant::now() + Duration::from_secs(10);
        while Instant::now() < end {
            if let Ok(Some(status)) = self.child.try_wait() {
                return status.success();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        false
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.terminate();
        }
        if std::thread::panicking() {
            let _ = writeln!(std::io::stderr(), "router log:\n{}", self.log());
        }
    }
}

/// Asserts that `ping` got its answers: all, but for the last, which it waits for only two round trips.
pub fn assert_answered(ping: &str) {
    let number = |after: &str| {
        let before = ping.split(after).next().unwrap_or_default();
        before
            .split([' ', '\n', ','])
            .rfind(|w| !w.is_empty())
            .and_then(|w| w.parse::<u32>().ok())
    };
    let (sent, received) = (number(" packets transmitted"), number(" received"));
    let enough = sent.zip(received).is_some_and(|(s, r)| r + 1 >= s && r > 0);
    assert!(enough, "{sent:?} sent, {received:?} received: {ping}");
}

/// Waits for something to become true, for at most a minute.
pub fn until(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < end, "{what}: not within a minute");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The binary under test.
pub fn parshall() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_parshall"))
}

/// Runs a command that has to succeed; its output.
pub fn must(program: &str, args: &[&str]) -> String {
    let out = Command::new(program).args(args).output();
    let out = out
        .unwrap_or_else(|e| panic!("{program} is needed for this test (see tests/setup.sh): {e}"));
    assert!(
        out.status.success(),
        "{program} {}: {}",
        args.join(" "),
        text(&out)
    );
    text(&out)
}

fn text(out: &Output) -> String {
    let mut t = String::from_utf8_lossy(&out.stdout).into_owned();
    t.push_str(&String::from_utf8_lossy(&out.stderr));
    t
}
