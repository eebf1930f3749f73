//! The laboratory end to end: it measures what it should, and leaves nothing behind however it ends. Needs root, for
//! network namespaces.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

const PARSHALL: &str = env!("CARGO_BIN_EXE_parshall");
/// User and group "nobody".
const NOBODY: u32 = 65534;

/// A laboratory with its files in `folder`.
fn lab(program: &Path, folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    command
        .arg("lab")
        .args(args)
        .env("TMPDIR", folder)
        .stdin(Stdio::null());
    command
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::Builder::new()
        .prefix("lab")
        .tempdir_in("/tmp")
        .unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    folder
}

fn finish(command: &mut Command) -> (u32, Output) {
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    (child.id(), child.wait_with_output().unwrap())
}

/// The one object on standard output.
fn object(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    let why = String::from_utf8_lossy(&output.stderr);
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}\n{why}"))
}

/// Neither namespaces nor files are left.
fn assert_clean(pid: u32, folder: &Path) {
    for part in ["hostA", "hostB", "router"] {
        let name = format!("/run/netns/lab-{part}-{pid}");
        assert!(!Path::new(&name).exists(), "{name} is left");
    }
    let left: Vec<_> = std::fs::read_dir(folder).unwrap().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
}

fn assert_good(result: &Value) {
    assert_eq!(result["ok"], true, "{result:#}");
    let rows = result["interfaces"].as_array().unwrap();
    assert_eq!(rows.len(), 2, "{result:#}");
    for row in rows {
        assert_eq!(row["direction"], "rx");
        assert!(row["within"].is_boolean());
        for what in ["packets", "bytes"] {
            let truth = row[what]["true"].as_u64().unwrap() as f64;
            let estimate = row[what]["estimate"].as_f64().unwrap();
            let bound = row[what]["bound95"].as_f64().unwrap();
            assert!(truth > 1000.0 && bound > 0.0, "{row:#}");
            assert!((estimate - truth).abs() <= 2.0 * bound, "{row:#}");
        }
    }
    assert!(result["samples"].as_u64().unwrap() > 100);
    assert_eq!(result["lost"], 0);
    assert!(!result["flows"].as_array().unwrap().is_empty());
    let traffic = &result["traffic"];
    for name in ["tcp4_mbps", "tcp6_mbps"] {
        assert!(traffic[name].as_f64().unwrap() > 0.1, "{traffic:#}");
    }
    for name in ["udp4", "udp6", "echo4", "echo6", "mpls"] {
        let get = |what| traffic[format!("{name}_{what}")].as_u64().unwrap();
        assert!(
            get("sent") > 0 && get("received") * 2 >= get("sent"),
            "{traffic:#}"
        );
    }
}

#[test]
fn estimates_lie_in_their_bounds() {
    let folder = folder();
    let args = ["--seconds", "3", "--rate", "20", "--json"];
    let (pid, output) = finish(&mut lab(Path::new(PARSHALL), folder.path(), &args));
    assert_good(&object(&output));
    assert!(output.status.success());
    assert_clean(pid, folder.path());
}

#[test]
fn the_table_is_for_people() {
    let folder = folder();
    let (pid, output) = finish(&mut lab(
        Path::new(PARSHALL),
        folder.path(),
        &["--seconds", "2"],
    ));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success(),
        "{text}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    for part in [
        "top flows seen by sFlow",
        "host-vethA  packets",
        "95 % bound",
        "one time in twenty",
        "TCP 10.10.",
    ] {
        assert!(text.contains(part), "no {part:?} in\n{text}");
    }
    assert!(!text.contains('\x1b'), "terminal codes in a pipe");
    assert_clean(pid, folder.path());
}

#[test]
fn who_is_not_root_gets_a_user_namespace_or_a_reason() {
    let folder = folder();
    // Where the tests are built nobody may not be allowed to look.
    let copy = folder.path().join("parshall");
    std::fs::copy(PARSHALL, &copy).unwrap();
    let inner = folder.path().join("tmp");
    std::fs::create_dir(&inner).unwrap();
    std::fs::set_permissions(&inner, std::fs::Permissions::from_mode(0o777)).unwrap();
    let mut command = lab(&copy, &inner, &["--seconds", "2", "--rate", "20", "--json"]);
    let (pid, output) = finish(command.uid(NOBODY).gid(NOBODY).current_dir("/"));
    let result = object(&output);
    if result["error"].is_string() {
        // This kernel forbids it: then the privilege and the ways to it are named.
        let text = result["error"].as_str().unwrap();
        assert!(
            text.contains("CAP_NET_ADMIN") && text.contains("run as root"),
            "{text}"
        );
        assert!(!output.status.success());
    } else {
        assert_good(&result);
    }
    assert_clean(pid, &inner);
}

/// Waits until the laboratory of `child` has started its router.
fn wait_for_router(child: &Child) {
    let name = format!("/proc/{0}/task/{0}/children", child.id());
    let deadline = Instant::now() + Duration::from_secs(60);
    while std::fs::read_to_string(&name)
        .unwrap_or_default()
        .is_empty()
    {
        assert!(Instant::now() < deadline, "no router was started");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_signal_leaves_nothing_behind() {
    for signal in ["-INT", "-TERM"] {
        let folder = folder();
        let child = lab(
            Path::new(PARSHALL),
            folder.path(),
            &["--seconds", "600", "--json"],
        )
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
        let pid = child.id();
        wait_for_router(&child);
        let kill = format!("kill {signal} {pid}");
        let sent = Command::new("sh").args(["-c", &kill]).status().unwrap();
        assert!(sent.success());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130));
        assert_eq!(object(&output)["ok"], false);
        assert_clean(pid, folder.path());
    }
}
