//! The binary started as VPP's own test framework starts VPP: under the name `vpp`, with its configuration as
//! arguments. Then everything that such a process is asked: `vppctl`'s protocol, byte for byte, the statistics segment
//! by VPP's Python library, packets from and to files, and its end.

use std::io::{Read, Write};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long anything may take; a minute is for machines that are very busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// A router called vpp, in a folder of its own.
struct Vpp {
    folder: tempfile::TempDir,
    child: Child,
}

impl Vpp {
    fn start(setup: &str) -> Vpp {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name).display().to_string();
        symlink(env!("CARGO_BIN_EXE_parshall"), at("vpp")).expect("a name");
        std::fs::write(at("setup.cli"), setup).expect("a file");
        let mut command = Command::new(at("vpp"));
        // As asf/asfframework.py puts them together, blanks and all.
        command.args(["unix", "{", "nodaemon", "nosyslog", "", "full-coredump"]);
        command.args(["coredump-size unlimited", "runtime-dir", &at("")]);
        command.args([
            "cli-listen ",
            &at("cli.sock"),
            " ",
            "exec",
            &at("setup.cli"),
            "}",
        ]);
        command.args([
            "api-trace",
            "{",
            "on",
            "}",
            "api-segment",
            "{",
            "prefix",
            "x",
            "}",
        ]);
        command.args([
            "statseg",
            "{",
            "socket-name",
            &at("stats.sock"),
            "size 8m",
            "}",
        ]);
        command.args([
            "node { ",
            "",
            "}",
            "api-fuzz {",
            "off",
            "}",
            "plugins",
            "{",
            "plugin",
        ]);
        command.args(["dpdk_plugin.so", "{", "disable", "}", "}"]);
        let child = command.stderr(Stdio::inherit()).spawn().expect("started");
        let vpp = Vpp { folder, child };
        wait(|| vpp.path("stats.sock").exists() && vpp.path("cli.sock").exists());
        vpp
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What `vppctl COMMAND` prints, by its protocol.
    fn vppctl(&self, command: &str) -> String {
        let mut stream = UnixStream::connect(self.path("cli.sock")).expect("connected");
        stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
        let mut greeting = [0; 100];
        let n = stream.read(&mut greeting).expect("greeted");
        assert_eq!((n, &greeting[..3]), (36, &b"\xff\xfc\x22"[..]));
        stream
            .write_all(b"\xff\xfa\x18\x00vppctl\xff\xf0")
            .expect("the terminal");
        stream
            .write_all(format!("{command}\n\0").as_bytes())
            .expect("the command");
        let (mut got, mut byte) = (Vec::new(), [0]);
        while stream.read(&mut byte).expect("output") == 1 && byte != [0] {
            got.push(byte[0]);
        }
        stream.write_all(b"quit\n").expect("the end");
        assert_eq!(stream.read(&mut byte).expect("closed"), 0);
        String::from_utf8(got).expect("text")
    }

    /// What VPP's Python library makes of the statistics segment.
    fn statistics(&self, script: &str) -> serde_json::Value {
        let python = cache().join("parshall-tests/vpp-clients/bin/python");
        assert!(
            python.exists(),
            "{} is missing: run tests/setup.sh",
            python.display()
        );
        let code = format!(
            "import sys, json\nfrom vpp_papi.vpp_stats import VPPStats\n\
             s = VPPStats(socketname=sys.argv[1]); s.connect()\nprint(json.dumps({script}))"
        );
        let mut command = Command::new(python);
        command.args(["-c", &code]).arg(self.path("stats.sock"));
        let output = command.output().expect("python");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{script}: {errors}");
        serde_json::from_slice(&output.stdout).expect("JSON")
    }

    /// Asks it to end, as the framework does, and waits until it has.
    fn end(mut self) {
        let pid = self.child.id().to_string();
        let told = Command::new("kill").args(["-TERM", &pid]).status();
        assert!(told.expect("kill").success());
        let status = self.child.wait().expect("ended");
        assert!(status.success(), "{status}");
        for socket in ["cli.sock", "stats.sock", "parshall.sock"] {
            assert!(!self.path(socket).exists(), "{socket} is left");
        }
    }
}

impl Drop for Vpp {
    fn drop(&mut self) {
        // After `end` there is nothing to end; after a failed test there may be.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn cache() -> PathBuf {
    let set = |name: &str| std::env::var_os(name).map(PathBuf::from);
    set("XDG_CACHE_HOME").unwrap_or_else(|| set("HOME").expect("HOME").join(".cache"))
}

fn wait(mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "it takes too long");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A pcap file of these Ethernet frames (microseconds, link type 1).
fn pcap(path: &Path, frames: &[Vec<u8>]) {
    let mut bytes = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1] {
        bytes.extend(word.to_le_bytes());
    }
    for (i, frame) in (0u32..).zip(frames) {
        let n = frame.len() as u32;
        [1, i, n, n]
            .iter()
            .for_each(|w: &u32| bytes.extend(w.to_le_bytes()));
        bytes.extend(frame);
    }
    std::fs::write(path, bytes).expect("a file");
}

/// Bytes of each packet of a pcap file.
fn packets(path: &Path) -> Vec<Vec<u8>> {
    let bytes = std::fs::read(path).expect("a file");
    let (mut at, mut all) = (24, Vec::new());
    while let Some(header) = bytes.get(at..at + 16) {
        let n = u32::from_le_bytes([header[8], header[9], header[10], header[11]]) as usize;
        all.push(bytes[at + 16..at + 16 + n].to_vec());
        at += 16 + n;
    }
    all
}

const SETUP: &str = "create packet-generator interface pg0\ncreate packet-generator interface pg1\n\
                     set interface l2 xconnect pg0 pg1\nset interface state pg0 up\nset interface state pg1 up\n";

#[test]
fn a_process_called_vpp_does_what_vpps_tests_ask_of_it() {
    let vpp = Vpp::start(SETUP);
    assert!(vpp.vppctl("sh int pg1").contains("up"));
    assert!(
        vpp.vppctl("nonsense")
            .starts_with("unknown word 'nonsense'")
    );
    // A stream from a file, captured at the other side, in the framework's words and order.
    let (input, output) = (vpp.path("pg0_in.pcap"), vpp.path("pg1_out.pcap"));
    let frames: Vec<Vec<u8>> = (0..300).map(|i| vec![i as u8; 60 + i]).collect();
    pcap(&input, &frames);
    let capture = format!("packet-generator capture pg1 pcap {}", output.display());
    assert_eq!(vpp.vppctl(&format!("{capture} disable")), "");
    assert_eq!(vpp.vppctl(&capture), "");
    let new = "packet-generator new pcap";
    assert_eq!(
        vpp.vppctl(&format!(
            "{new} {} source pg0 name pcap0-sw_if_index-1",
            input.display()
        )),
        ""
    );
    vpp.vppctl("clear trace");
    assert_eq!(vpp.vppctl("trace add pg-input 1000"), "");
    assert_eq!(vpp.vppctl("packet-generator enable"), "");
    wait(|| !vpp.vppctl("show packet-generator").contains("Yes"));
    // At once, without waiting: that is what the absence of "Yes" promises.
    assert_eq!(packets(&output), frames);
    assert_eq!(
        vpp.vppctl("packet-generator delete pcap0-sw_if_index-1"),
        ""
    );
    assert!(vpp.vppctl("show trace max 100").contains("pg-input"));
    for command in [
        "show hardware",
        "show error",
        "show run",
        "show log",
        "set clock adjust 10",
    ] {
        let said = vpp.vppctl(command);
        assert!(!said.contains("unknown word"), "{command}: {said}");
    }
    let clock = vpp.vppctl("show clock");
    let seconds = clock
        .strip_prefix("Time now ")
        .and_then(|c| c.split(',').next());
    assert!(
        seconds.is_some_and(|s| s.parse::<f64>().is_ok_and(|s| s > 10.0)),
        "{clock}"
    );
    vpp.end();
}

#[test]
fn vpps_python_library_reads_the_statistics() {
    let vpp = Vpp::start(SETUP);
    let input = vpp.path("in.pcap");
    pcap(&input, &vec![vec![7; 100]; 9]);
    vpp.vppctl(&format!(
        "packet-generator new pcap {} source pg0 name a",
        input.display()
    ));
    vpp.vppctl("packet-generator enable");
    wait(|| !vpp.vppctl("show packet-generator").contains("Yes"));
    let names = vpp.statistics("s['/if/names']");
    assert_eq!(names, serde_json::json!(["local0", "pg0", "pg1"]));
    let rx = vpp.statistics("[s['/if/rx'][:,1].sum_packets(), s['/if/rx'][:,1].sum_octets()]");
    assert_eq!(rx, serde_json::json!([9, 900]));
    let tx = vpp.statistics("s['/interfaces/pg1/tx'].sum_packets()");
    assert_eq!(tx, 9);
    // All of it can be read, and all rows are of one length.
    let lengths = vpp.statistics(
        "sorted({len(row) for name, rows in s.dump(s.ls(['^/if/'])).items() if name != '/if/names' for row in rows})",
    );
    assert_eq!(lengths, serde_json::json!([3]));
    assert!(
        vpp.statistics("len(s.dump(s.ls(['.*'])))")
            .as_u64()
            .expect("a number")
            > 250
    );
    // Interfaces that come later, while a reader has the segment open.
    vpp.vppctl("create loopback interface");
    assert_eq!(vpp.statistics("s['/if/names'][3]"), "loop0");
    assert!(vpp.statistics("s['/sys/heartbeat']").as_u64() > Some(0));
    // A cut-off frame is dropped, and the reason has a name.
    vpp.vppctl("set interface state pg1 down");
    vpp.vppctl("packet-generator enable");
    wait(|| vpp.statistics("sum(s.set_errors().values())") == 9);
    vpp.end();
}
