//! `parshall api`: the API JSON as files, for clients that read them, and a list of what is served.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use parshall_vpp_wire::{MESSAGES, MODULES, ModuleInfo};

/// Arguments of `parshall api`.
#[derive(Args, Clone, Debug)]
pub struct ApiArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Clone, Debug, Subcommand)]
enum What {
    /// Write the API JSON files that clients look for, in VPP's folders: DIR/core and DIR/plugins.
    Json {
        /// Folder to write to; VPP's clients look in /usr/share/vpp/api.
        dir: PathBuf,
    },
    /// List the messages that are known, with their CRCs.
    List,
}

/// Modules that are VPP's own; the others are plugins.
const CORE: &[&str] = &[
    "memclnt",
    "interface",
    "vlib",
    "vpe",
    "ip",
    "ip_neighbor",
    "mpls",
    "l2",
    "bond",
    "ipip",
    "pg",
];

/// `parshall api ...`
pub fn run(args: &ApiArgs) -> ExitCode {
    match &args.what {
        What::List => {
            print!("{}", list());
            ExitCode::SUCCESS
        }
        What::Json { dir } => match write_all(dir) {
            Ok(()) => {
                println!("{} files in {}", MODULES.len(), dir.display());
                ExitCode::SUCCESS
            }
            Err((path, e)) => {
                eprintln!("parshall: {}: {e}", path.display());
                ExitCode::FAILURE
            }
        },
    }
}

fn list() -> String {
    let all = MESSAGES
        .iter()
        .map(|m| format!("{:08x} {}.{}\n", m.crc, m.module, m.name));
    all.collect()
}

fn write_all(dir: &Path) -> Result<(), (PathBuf, io::Error)> {
    for m in MODULES {
        let path = place(dir, m);
        let folder = path.parent().unwrap_or(dir);
        fs::create_dir_all(folder).map_err(|e| (folder.to_owned(), e))?;
        fs::write(&path, m.json).map_err(|e| (path.clone(), e))?;
    }
    Ok(())
}

fn place(dir: &Path, m: &ModuleInfo) -> PathBuf {
    let kind = if CORE.contains(&m.name) {
        "core"
    } else {
        "plugins"
    };
    dir.join(kind).join(format!("{}.api.json", m.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_module_has_its_file() {
        let dir = tempfile::tempdir().expect("a folder");
        write_all(dir.path()).expect("written");
        let sflow = fs::read_to_string(dir.path().join("plugins/sflow.api.json")).expect("there");
        assert!(sflow.contains("\"sflow_enable_disable\""));
        assert!(dir.path().join("core/memclnt.api.json").exists());
        assert!(CORE.iter().all(|c| MODULES.iter().any(|m| m.name == *c)));
        assert!(list().contains("51077d14 memclnt.control_ping\n"));
    }
}
