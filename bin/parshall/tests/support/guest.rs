//! Tests that need modules not every kernel has: their scene plays here where it has them, else in a virtual machine with
//! Debian's kernel (`tests/kvm-lab`), played by the same test binary. What the scene leaves in its folder is judged
//! here either way, because programs are slow in there.

use std::path::Path;
use std::process::{Command, Stdio};

/// Set where a test runs in the guest, to the scene's folder.
const MARK: &str = "PARSHALL_TEST_GUEST";
/// Seconds for a guest, from its start; it needs a fifth of that on an idle machine.
const LIMIT: &str = "500";

/// Plays the scene of test `name` in a folder, where a kernel has the `modules`. The folder, for the caller to judge; in the
/// guest none: there the scene is all there is to do.
pub fn scene(name: &str, modules: &str, play: impl FnOnce(&Path)) -> Option<tempfile::TempDir> {
    if let Some(folder) = std::env::var_os(MARK) {
        play(Path::new(&folder));
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    if are_here(modules) {
        play(dir.path());
    } else {
        run(name, modules, dir.path());
    }
    Some(dir)
}

/// Whether this kernel has the modules, built in or loaded on demand.
fn are_here(modules: &str) -> bool {
    let mut ask = Command::new("modprobe");
    ask.args(["--dry-run", "--quiet", "--all"])
        .args(modules.split_whitespace())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    ask.status().is_ok_and(|s| s.success())
}

fn run(name: &str, modules: &str, dir: &Path) {
    let lab = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/kvm-lab");
    let out = Command::new(lab)
        .args(["-t", LIMIT, "-m", "1024", "-M", modules, "-w"])
        .arg(dir)
        .args(["--", "env", &format!("{MARK}={}", dir.display())])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .output()
        .unwrap_or_else(|e| panic!("tests/kvm-lab: {e}"));
    let text = super::text(&out);
    // A name that no test has would be a success of nothing.
    let done = out.status.success() && text.contains("test result: ok. 1 passed");
    assert!(done, "in the guest: {:?}\n{text}", out.status);
}
