//! Developer commands: `cargo xtask deps` (dependency ranks), `cargo xtask style` (rules of the source
//! text that no compiler checks), `cargo xtask check` (both, and that no kernel program is older than its
//! source), `cargo xtask ebpf` (compile the kernel programs), `cargo xtask ebpf --check` (compile and
//! compare). Exit status 1 and one line per finding.

mod deps;
mod ebpf;
mod style;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask deps | style | check | ebpf [--check]";

fn main() -> ExitCode {
    let command = std::env::args().nth(1).unwrap_or_default();
    let root = root();
    let findings = match command.as_str() {
        "deps" => deps::check(&root),
        "style" => style::check(&root),
        "check" => deps::check(&root).and_then(|mut found| {
            found.extend(style::check(&root)?);
            found.extend(ebpf::check_stamps(&root)?);
            Ok(found)
        }),
        "ebpf" if std::env::args().nth(2).as_deref() == Some("--check") => ebpf::check(&root),
        "ebpf" => ebpf::build(&root),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match findings {
        Err(error) => {
            eprintln!("xtask {command}: {error}");
            ExitCode::from(2)
        }
        Ok(found) if found.is_empty() => {
            println!("xtask {command}: clean");
            ExitCode::SUCCESS
        }
        Ok(found) => {
            for finding in &found {
                eprintln!("{finding}");
            }
            eprintln!(
                "xtask {command}: {} finding(s); the rules are in CONTRIBUTING.md",
                found.len()
            );
            ExitCode::FAILURE
        }
    }
}

/// The workspace: the folder above this crate.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}
