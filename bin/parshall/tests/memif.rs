//! memif on a running router: against DPDK's testpmd in both roles, and against another router.

mod support;

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use support::{Netns, Router};

/// Longest time for anything that is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until `done` says something.
fn wait_for<T>(what: &str, mut done: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(t) = done() {
            return t;
        }
        assert!(Instant::now() < end, "no {what} after {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A testpmd with memif ports 0 and 1, ended on drop.
struct Testpmd {
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
    /// Where it keeps files of its own, and leaves them.
    folder: PathBuf,
}

impl Testpmd {
    fn start(socket: &str, role: &str, queues: u32) -> Testpmd {
        let device = |n: u32| {
            format!(
                "--vdev=net_memif{n},role={role},id={n},socket={socket},socket-abstract=no,secret=word"
            )
        };
        // Its name is of the socket's folder, which no other test has.
        let prefix = socket.replace('/', "-");
        // Into a pipe it would print nothing before it ends, hence stdbuf.
        let mut child = Command::new("stdbuf")
            .args(["-oL", "dpdk-testpmd", "--no-pci", "--no-huge"])
            .args(["--no-telemetry", "-m", "256", "--lcores", "0@0-1,1@0-1"])
            .args(["--file-prefix", &prefix, &device(0), &device(1)])
            .args(["--", "-i", "--forward-mode=io", "--nb-cores=1"])
            .args(["--total-num-mbufs=8192", "--burst=64"])
            .args([format!("--rxq={queues}"), format!("--txq={queues}")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|e| panic!("dpdk-testpmd is needed (see tests/setup.sh): {e}"));
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (send, lines) = channel();
        std::thread::spawn(move || {
            stdout
                .lines()
                .map_while(Result::ok)
                .try_for_each(|l| send.send(l))
        });
        let mut testpmd = Testpmd {
            stdin: child.stdin.take().unwrap(),
            child,
            lines,
            folder: PathBuf::from("/var/run/dpdk").join(&prefix),
        };
        testpmd.say("show port info 1");
        testpmd.hear("Infos for port 1");
        testpmd
    }

    fn say(&mut self, line: &str) {
        writeln!(self.stdin, "{line}").unwrap();
        self.stdin.flush().unwrap();
    }

    /// The next line with `text` in it.
    fn hear(&mut self, text: &str) -> String {
        let mut before = Vec::new();
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) if line.contains(text) => return line,
                Ok(line) => before.push(line),
                Err(e) => panic!("testpmd: no {text:?}: {e}; it said {before:#?}"),
            }
        }
    }

    fn wait_up(&mut self) {
        for port in 0..2 {
            wait_for("link of testpmd", || {
                self.say(&format!("show port info {port}"));
                self.hear("Link status: ").contains("up").then_some(())
            });
        }
    }

    /// Packets received and sent, by port.
    fn counts(&mut self) -> [[u64; 2]; 2] {
        self.say("show port stats all");
        [0, 1].map(|port| {
            // What `stop` said has lines like those that follow.
            self.hear(&format!("NIC statistics for port {port}"));
            ["RX-packets:", "TX-packets:"].map(|name| {
                let line = self.hear(name);
                let number = line.split_whitespace().nth(1).unwrap();
                number.parse().unwrap()
            })
        })
    }

    /// No more forwarding; what still comes is taken in.
    fn settle(&mut self) {
        for line in ["stop", "set fwd rxonly", "start"] {
            self.say(line);
        }
    }
}

impl Drop for Testpmd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A router that cross-connects two memifs, and where its socket is.
fn crossing(role: &str, queues: u32) -> (Netns, tempfile::TempDir, String, Router) {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("m.sock").display().to_string();
    let ns = Netns::new("r");
    let memif = |id: u32, more: &str| {
        format!(
            "  memif1/{id}: {{role: {role}, queues: {queues}, tx-queues: {queues}, secret: word{more}}}\n"
        )
    };
    let config = format!(
        "cli: {{socket: SOCKET}}\nworkers: {queues}\nmemif: {{sockets: [{{id: 1, filename: {socket}}}]}}\n\
         interfaces:\n{}{}",
        memif(0, ", xconnect: memif1/1"),
        memif(1, "")
    );
    let router = Router::start_with(&ns, &config);
    (ns, dir, socket, router)
}

fn counters(router: &Router, interface: &str) -> [u64; 2] {
    let shown = router.json(&format!("show interface {interface}"));
    let c = &shown[0]["counters"];
    ["rx_packets", "tx_packets"].map(|name| c[name].as_u64().unwrap())
}

fn connected(router: &Router) -> Vec<bool> {
    let shown = router.json("show memif");
    let all = shown["interfaces"].as_array().unwrap().iter();
    all.map(|i| i["connected"].as_bool().unwrap()).collect()
}

/// Starts both ends in the order that testpmd needs, whose slaves do not try again.
fn ends(role: &str, queues: u32) -> (Netns, tempfile::TempDir, String, Router, Testpmd) {
    let (ns, dir, socket, router) = crossing(role, queues);
    let theirs = if role == "master" { "client" } else { "server" };
    let mut testpmd = Testpmd::start(&socket, theirs, queues);
    testpmd.wait_up();
    wait_for("connection", || {
        (connected(&router) == [true, true]).then_some(())
    });
    (ns, dir, socket, router, testpmd)
}

/// Sends packets round and round for a while; both ends must have counted the same in the end.
fn exchange(router: &Router, testpmd: &mut Testpmd, at_least: u64) {
    let before = ["memif1/0", "memif1/1"].map(|i| counters(router, i));
    let theirs_before = testpmd.counts();
    testpmd.say("set fwd io");
    testpmd.say("start tx_first");
    wait_for("traffic", || {
        let now = counters(router, "memif1/0");
        (now[0] > before[0][0] + at_least && now[1] > before[0][1] + at_least).then_some(())
    });
    testpmd.settle();
    // Equal, and not zero; and the same when looked at again.
    wait_for("equal counts", || {
        let ours = ["memif1/0", "memif1/1"].map(|i| counters(router, i));
        let theirs = testpmd.counts();
        let same = (0..2).all(|n| {
            let ours = [0, 1].map(|d| ours[n][d] - before[n][d]);
            let theirs = [0, 1].map(|d| theirs[n][d] - theirs_before[n][d]);
            ours[0] == theirs[1] && ours[1] == theirs[0] && ours[0] > 0 && ours[1] > 0
        });
        same.then_some(())
    });
    testpmd.say("stop");
    let shown = router.json("show memif");
    for i in shown["interfaces"].as_array().unwrap() {
        for counter in ["bad_buffer", "too_short", "bad_chain"] {
            assert_eq!(i[counter], 0, "{shown}");
        }
    }
}

#[test]
fn a_master_exchanges_packets_with_testpmd() {
    let (_ns, _dir, _socket, router, mut testpmd) = ends("master", 1);
    exchange(&router, &mut testpmd, 50_000);
    assert_eq!(router.json("show errors"), serde_json::json!([]));
    assert!(router.stop());
}

#[test]
fn a_slave_exchanges_packets_with_testpmd() {
    let (_ns, _dir, _socket, router, mut testpmd) = ends("slave", 1);
    exchange(&router, &mut testpmd, 50_000);
    let text = router.ctl("show memif memif1/0");
    assert!(
        text.contains("DPDK") && text.contains("role slave"),
        "{text}"
    );
    assert!(router.stop());
}

#[test]
fn two_queues_and_two_workers_as_master() {
    let (_ns, _dir, _socket, router, mut testpmd) = ends("master", 2);
    exchange(&router, &mut testpmd, 50_000);
    rings_in_use(&router);
}

#[test]
fn two_queues_and_two_workers_as_slave() {
    let (_ns, _dir, _socket, router, mut testpmd) = ends("slave", 2);
    exchange(&router, &mut testpmd, 50_000);
    rings_in_use(&router);
}

/// Two rings each way on both interfaces.
fn rings_in_use(router: &Router) {
    let shown = router.json("show memif");
    for i in shown["interfaces"].as_array().unwrap() {
        let rings = i["rings"].as_array().unwrap();
        for direction in ["rx", "tx"] {
            let of = rings.iter().filter(|r| r["direction"] == direction);
            assert_eq!(of.count(), 2, "{shown}");
        }
    }
}

#[test]
fn connections_come_back_when_testpmd_does() {
    for role in ["master", "slave"] {
        let (_ns, _dir, socket, router, testpmd) = ends(role, 1);
        // Killed: nobody says goodbye.
        drop(testpmd);
        wait_for("end", || {
            (connected(&router) == [false, false]).then_some(())
        });
        let info = router.ctl("show hardware-interfaces memif1/0");
        assert!(info.contains("down"), "{info}");
        if role == "slave" {
            // testpmd does not replace what it left behind.
            std::fs::remove_file(&socket).unwrap();
        }
        let theirs = if role == "master" { "client" } else { "server" };
        let mut testpmd = Testpmd::start(&socket, theirs, 1);
        testpmd.wait_up();
        wait_for("connection", || {
            (connected(&router) == [true, true]).then_some(())
        });
        exchange(&router, &mut testpmd, 10_000);
        let shown = router.json("show memif");
        assert_eq!(shown["interfaces"][0]["connects"], 2, "{shown}");
    }
}

/// What generators send.
const DATA: &str = "IP4: 02:00:00:00:00:01 -> 02:00:00:00:00:02 UDP: 10.0.0.1 -> 10.0.0.2 UDP: 1 -> 2 incrementing 20";

/// A generator and a memif, cross-connected. The ring holds all that is sent, however long its reader sleeps.
fn generating(socket: &str, role: &str) -> (Netns, Router) {
    let ns = Netns::new(role);
    let config = format!(
        "cli: {{socket: SOCKET}}\nmemif: {{sockets: [{{id: 1, filename: {socket}}}]}}\ninterfaces:\n\
         \x20 memif1/5: {{role: {role}, ring-size: 4096, xconnect: pg0}}\n\x20 pg0: {{}}\n\
         packet-generator:\n  streams:\n\
         \x20   - {{name: s, interface: pg0, limit: 2000, rate: 2000, size: 64-3000, enabled: false, \
         data: '{DATA}'}}\n"
    );
    let router = Router::start_with(&ns, &config);
    (ns, router)
}

#[test]
fn two_routers_exchange_packets_sleep_and_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("m.sock").display().to_string();
    let up = |r: &Router| wait_for("connection", || (connected(r) == [true]).then_some(()));
    let (_a, master) = generating(&socket, "master");
    let (_b, slave) = generating(&socket, "slave");
    up(&master);
    up(&slave);
    let sent = |r: &Router| counters(r, "pg0")[1];
    for (from, to) in [(&master, &slave), (&slave, &master)] {
        from.ctl("packet-generator enable-stream");
        wait_for("2,000 packets", || (sent(to) == 2_000).then_some(()));
    }
    // Connected and idle they sleep: 2 % of 5 s are 10 ticks, and this is a debug build on a busy machine.
    std::thread::sleep(Duration::from_secs(1));
    let before = slave.cpu_ticks();
    std::thread::sleep(Duration::from_secs(5));
    let used = slave.cpu_ticks() - before;
    assert!(used <= 25, "{used} ticks in 5 s");
    let shown = slave.json("show memif");
    let rings = shown["interfaces"][0]["rings"].as_array().unwrap();
    let asleep = |r: &serde_json::Value| r["direction"] == "tx" || r["interrupts"] == true;
    assert!(rings.iter().all(asleep), "{shown}");
    // A new master in the place of the old one finds the slave waiting, and wakes it with packets.
    assert!(master.stop());
    wait_for("end", || (connected(&slave) == [false]).then_some(()));
    let (_c, master) = generating(&socket, "master");
    up(&slave);
    let had = sent(&slave);
    master.ctl("packet-generator enable-stream");
    wait_for("2,000 packets", || {
        (sent(&slave) == had + 2_000).then_some(())
    });
    assert!(slave.stop() && master.stop());
    let gone = PathBuf::from(socket);
    assert!(!gone.exists());
}

#[test]
fn what_cannot_be_is_explained() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("m.sock").display().to_string();
    let ns = Netns::new("r");
    let create = format!("create memif socket id 1 filename {socket}");
    let router = Router::start(
        &ns,
        &[&create, "create interface memif socket-id 1 id 3 master"],
    );
    for (line, hint) in [
        (
            "create interface memif socket-id 2",
            "create memif socket id 2 filename",
        ),
        (
            "create interface memif socket-id 1 id 3 master name other",
            "choose another id or socket",
        ),
        (
            "create interface memif ring-size 1000 slave",
            "power of two",
        ),
        ("create interface memif master slave", "choose one"),
        ("create memif socket id 1 filename /tmp/x", "already"),
        ("delete memif socket id 1", "is used by memif1/3"),
        ("delete memif socket id 0", "always there"),
        ("show memif nosuch", "nosuch"),
    ] {
        let (ok, said) = router.try_ctl(line);
        assert!(!ok && said.contains(hint), "{line}: {said}");
    }
    assert!(PathBuf::from(&socket).exists());
    router.ctl("delete interface memif memif1/3");
    assert!(!PathBuf::from(&socket).exists());
    router.ctl("delete memif socket id 1");
    let shown = router.json("show memif");
    assert_eq!(shown["interfaces"], serde_json::json!([]));
}
