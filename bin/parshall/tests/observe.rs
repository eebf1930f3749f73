//! What operators watch a router with, and the judges of others: promtool on the metrics, a strict OpenMetrics parser, an
//! OpenAPI validator; doctor and top for real; manual pages, completions, the Debian package and its unit.

mod support;

use std::io::{Read, Write};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use support::{Netns, Router, parshall};

/// A router with two packet generators and an HTTP socket beside its command socket.
fn router(ns: &Netns) -> (Router, tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let http = dir.path().join("http.sock");
    let config = format!(
        "cli: {{socket: SOCKET}}\nhttp: {{socket: {}, commands: true}}\n\
         interfaces:\n\
         \x20 pg0: {{addresses: [10.0.0.1/24], sflow: {{sampling-rate: 100}}}}\n\
         \x20 pg1: {{addresses: [10.1.0.1/24]}}\n\
         sflow: {{collectors: [127.0.0.1]}}\n",
        http.display()
    );
    (Router::start_with(ns, &config), dir, http)
}

/// Body of what a request over the HTTP socket is answered with; it has to work.
fn get(socket: &Path, path: &str, accept: &str) -> String {
    let mut stream = UnixStream::connect(socket).unwrap();
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: x\r\nAccept: {accept}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 200 "), "{path}: {text}");
    text.split_once("\r\n\r\n").unwrap().1.to_owned()
}

/// Runs a program with this input; its output, whatever its status.
fn fed(program: &str, args: &[&str], input: &str) -> Output {
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|e| panic!("{program}: {e}: tests/setup.sh installs it"));
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    child.wait_with_output().unwrap()
}

/// The judges that tests/setup.sh has put into the user's cache.
fn python() -> String {
    let cache = std::env::var("XDG_CACHE_HOME")
        .unwrap_or_else(|_| format!("{}/.cache", std::env::var("HOME").unwrap()));
    format!("{cache}/parshall-tests/venv/bin/python")
}

fn well(out: &Output) -> String {
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&out.stdout),
        String::from_utf8_lossy(&out.stderr)
    );
    assert!(out.status.success(), "{text}");
    text
}

#[test]
fn promtool_and_strict_parsers_take_what_is_served() {
    let ns = Netns::new("r");
    let (router, _dir, http) = router(&ns);
    router.ctl("packet-generator new { name s limit 1000 rate 0 size 64-64 source pg0 node ethernet-input data { IP4: 0200.0000.0001 -> 0200.0000.0002 UDP: 10.0.0.9 -> 10.9.9.9 UDP: 1 -> 2 incrementing 20 } }");
    router.ctl("packet-generator enable-stream s");
    std::thread::sleep(Duration::from_millis(1500));
    let text = get(&http, "/metrics", "*/*");
    assert!(text.contains("parshall_dropped_packets_total{"), "{text}");
    assert!(
        text.contains("parshall_sflow_collector_up{collector=\"127.0.0.1"),
        "{text}"
    );
    // It says nothing when all is well, and names what it does not like.
    let said = well(&fed("promtool", &["check", "metrics"], &text));
    assert_eq!(said.trim(), "");
    let open = get(&http, "/metrics", "application/openmetrics-text");
    let judge = "import sys; from prometheus_client.openmetrics.parser import text_string_to_metric_families as f\n\
                 print(len(list(f(sys.stdin.read()))))";
    let families: usize = well(&fed(&python(), &["-c", judge], &open))
        .trim()
        .parse()
        .unwrap();
    assert!(families > 30, "{families}");
    let document = get(&http, "/api/v1/openapi.json", "*/*");
    let judge = "import json, sys; from openapi_spec_validator import validate\nvalidate(json.load(sys.stdin))";
    well(&fed(&python(), &["-c", judge], &document));
    // What it describes is what comes.
    let judge = "import json, sys\nfrom jsonschema import Draft202012Validator as V\n\
                 d, s = json.load(sys.stdin)\nV(dict(d, **{'$ref': '#/components/schemas/Snapshot'})).validate(s)";
    let snapshot = get(&http, "/api/v1/snapshot", "*/*");
    well(&fed(
        &python(),
        &["-c", judge],
        &format!("[{document},{snapshot}]"),
    ));
    assert!(router.stop());
    assert!(!http.exists());
}

#[test]
fn top_draws_in_a_terminal_and_prints_without_one() {
    let ns = Netns::new("r");
    let (router, _dir, _http) = router(&ns);
    let socket = router.socket().display().to_string();
    let top = |args: &[&str]| {
        let out = Command::new(parshall())
            .args(["top", "--socket", &socket, "-d", "0.2"])
            .args(args)
            .output()
            .unwrap();
        well(&out)
    };
    let seen: Value = serde_json::from_str(&top(&["--once", "--json"])).unwrap();
    let names: Vec<&str> = seen["interfaces"]
        .as_array()
        .unwrap()
        .iter()
        .map(|i| i["interface"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["pg0", "pg1"]);
    assert_eq!(top(&["-b", "-n", "2"]).matches("Workers\n").count(), 2);
    // A terminal made by script(1); its size comes with it, the keys from here.
    let line = format!(
        "stty rows 20 cols 100; NO_COLOR=1 {} top --socket {socket} -d 0.2",
        parshall().display()
    );
    let mut child = Command::new("script")
        .args(["-qec", &line, "/dev/null"])
        .env("TERM", "xterm")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut keys = child.stdin.take().unwrap();
    std::thread::sleep(Duration::from_secs(1));
    keys.write_all(b"4").unwrap();
    std::thread::sleep(Duration::from_secs(1));
    keys.write_all(b"q").unwrap();
    let out = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success(), "{text}");
    assert!(text.contains("host") || text.contains("pg0"), "{text}");
    assert!(text.contains("arshall-wk0"), "{text}");
    // The other screen is entered and left again.
    assert!(
        text.contains("\x1b[?1049h") && text.contains("\x1b[?1049l"),
        "{text}"
    );
    drop(router);
    let gone = Command::new(parshall())
        .args(["top", "--once", "--socket", &socket])
        .output()
        .unwrap();
    assert_eq!(gone.status.code(), Some(1));
}

#[test]
fn doctor_looks_at_this_machine_and_at_a_configuration() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("r.yaml");
    std::fs::write(&file, "interfaces: {host-nosuch9: {}}\n").unwrap();
    let run = |args: &[&str]| {
        Command::new(parshall())
            .arg("doctor")
            .args(args)
            .output()
            .unwrap()
    };
    let out = run(&["--json"]);
    assert!(matches!(out.status.code(), Some(0..=2)), "{out:?}");
    let all: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert!(all["findings"].as_array().unwrap().len() > 15);
    let out = run(&["-c", file.to_str().unwrap()]);
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert_eq!(out.status.code(), Some(2), "{text}");
    assert!(
        text.contains("there is no interface nosuch9") && text.contains("mend: ip -brief link"),
        "{text}"
    );
}

#[test]
fn levels_change_while_it_runs_and_lines_are_json() {
    let (ns, dir) = (Netns::new("r"), tempfile::tempdir().unwrap());
    let http = dir.path().join("http.sock");
    let config = format!(
        "cli: {{socket: SOCKET}}\nhttp: {{socket: {}, commands: true}}\n",
        http.display()
    );
    let router = Router::start_args(&ns, &config, "--log-format json --log warn");
    // Each command over HTTP is logged, as an event of the module `web`.
    let command = |line: &str| {
        let body = format!("{{\"line\":\"{line}\"}}");
        let mut stream = UnixStream::connect(&http).unwrap();
        let head = "POST /api/v1/cli HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json";
        write!(
            stream,
            "{head}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
    };
    command("comment { first }");
    router.ctl("set logging level web info");
    assert!(router.ctl("show logging").contains("parshall_web"));
    command("comment { second }");
    router.ctl("set logging level web default");
    command("comment { third }");
    let log = router.log();
    let read = |l| serde_json::from_str(l).unwrap_or_else(|e| panic!("{l}: {e}"));
    let lines: Vec<Value> = log.lines().map(read).collect();
    let of_web = lines
        .iter()
        .filter(|l| l["target"] == "parshall_web::handlers");
    let said: Vec<&str> = of_web.filter_map(|l| l["message"].as_str()).collect();
    assert_eq!(said, ["command over HTTP: comment { second }"], "{log}");
    assert!(!log.contains("running; commands at"), "{log}");
}

#[test]
fn a_starter_is_told_when_it_runs_and_that_it_lives() {
    let (ns, dir) = (Netns::new("r"), tempfile::tempdir().unwrap());
    let path = dir.path().join("notify");
    let inbox = UnixDatagram::bind(&path).unwrap();
    inbox
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let starter = format!("env NOTIFY_SOCKET={} WATCHDOG_USEC=400000", path.display());
    let router = Router::start_by(&ns, &starter, "cli: {socket: SOCKET}\n");
    let told = || {
        let mut bytes = [0; 256];
        let n = inbox.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..n]).into_owned()
    };
    assert!(told().starts_with("READY=1\nMAINPID="));
    assert_eq!(told(), "WATCHDOG=1");
    assert_eq!(told(), "WATCHDOG=1");
    assert!(router.stop());
}

#[test]
fn pages_and_completions_are_made_and_bash_asks_the_router() {
    let ns = Netns::new("r");
    let (router, dir, _http) = router(&ns);
    let man = dir.path().join("man");
    well(
        &Command::new(parshall())
            .arg("man")
            .arg(&man)
            .output()
            .unwrap(),
    );
    let page = std::fs::read_to_string(man.join("parshall-doctor.1")).unwrap();
    assert!(
        page.contains(".TH") && page.contains("\\-\\-json"),
        "{page}"
    );
    assert!(man.join("parshall.1").exists() && man.join("parshall-sflow-decode.1").exists());
    for shell in ["bash", "zsh", "fish"] {
        let script = well(
            &Command::new(parshall())
                .args(["completions", shell])
                .output()
                .unwrap(),
        );
        assert!(script.contains("doctor"), "{shell}");
        std::fs::write(dir.path().join(shell), script).unwrap();
    }
    let bin = parshall();
    let ask = format!(
        "set -e; PATH={}:$PATH; source {}; COMP_WORDS=(parshall ctl --socket {} show int); COMP_CWORD=5; \
         _parshall_router parshall int show; echo \"${{COMPREPLY[@]}}\"",
        bin.parent().unwrap().display(),
        dir.path().join("bash").display(),
        router.socket().display()
    );
    let said = well(
        &Command::new("bash")
            .args(["--norc", "-c", &ask])
            .output()
            .unwrap(),
    );
    assert!(said.contains("interface"), "{said}");
}

#[test]
fn the_package_installs_and_its_unit_is_liked() {
    let dir = tempfile::tempdir().unwrap();
    let (out, root) = (dir.path().join("out"), dir.path().join("root"));
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let make = format!("{source}/packaging/deb.sh");
    well(
        &Command::new(make)
            .arg(parshall())
            .arg(&out)
            .env("DEB_COMPRESSION", "none")
            .output()
            .unwrap(),
    );
    let deb = std::fs::read_dir(&out)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    well(
        &Command::new("dpkg-deb")
            .arg("-x")
            .arg(&deb)
            .arg(&root)
            .output()
            .unwrap(),
    );
    let said = well(
        &Command::new(root.join("usr/bin/parshall"))
            .arg("--version")
            .output()
            .unwrap(),
    );
    assert!(said.starts_with("parshall "), "{said}");
    let example = root.join("usr/share/doc/parshall/examples/router.yaml");
    well(
        &Command::new(root.join("usr/bin/parshall"))
            .args(["config", "check"])
            .arg(example)
            .output()
            .unwrap(),
    );
    for file in [
        "usr/share/man/man1/parshall.1.gz",
        "usr/share/bash-completion/completions/parshall",
        "usr/share/doc/parshall/copyright",
        "etc/parshall/router.yaml.example",
    ] {
        assert!(root.join(file).exists(), "{file}");
    }
    // Into a system of its own, where its scripts find no systemd to talk to.
    let system = dir.path().join("system");
    for made in ["var/lib/dpkg/updates", "var/lib/dpkg/info"] {
        std::fs::create_dir_all(system.join(made)).unwrap();
    }
    std::fs::write(system.join("var/lib/dpkg/status"), "").unwrap();
    let dpkg = |args: &[&str]| {
        let mut c = Command::new("dpkg");
        c.arg(format!("--root={}", system.display()));
        c.args([
            "--force-script-chrootless",
            "--force-not-root",
            "--force-depends",
            "--log=/dev/null",
        ])
        .args(args);
        well(&c.output().unwrap())
    };
    dpkg(&["-i", deb.to_str().unwrap()]);
    assert!(system.join("usr/bin/parshall").exists());
    dpkg(&["--purge", "parshall"]);
    assert!(
        !system.join("usr/bin/parshall").exists()
            && !system.join("etc/parshall/router.yaml.example").exists()
    );
    let unit = root.join("usr/lib/systemd/system/parshall.service");
    let text = std::fs::read_to_string(&unit).unwrap().replace(
        "/usr/bin/parshall",
        &root.join("usr/bin/parshall").display().to_string(),
    );
    for key in ["ExecStart=", "ExecReload="] {
        let line = text.lines().find_map(|l| l.strip_prefix(key));
        let mut words = line.expect(key).split_whitespace();
        // The program knows all its words: else `--help` is not reached.
        let mut command = Command::new(words.next().unwrap());
        well(&command.args(words).arg("--help").output().unwrap());
    }
    let copy = dir.path().join("parshall.service");
    std::fs::write(
        &copy,
        text.replace("Documentation=man:parshall(1) ", "Documentation="),
    )
    .unwrap();
    let verified = Command::new("systemd-analyze")
        .arg("verify")
        .arg(&copy)
        .output();
    let said = well(&verified.expect("systemd-analyze: tests/setup.sh installs it"));
    assert!(!said.contains("parshall.service"), "{said}");
}
