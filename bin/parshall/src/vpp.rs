//! `parshall vpp`: a router started as VPP is, with VPP's start-up configuration.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args;
use parshall_config::startup::{MAX_BYTES, Startup};
use parshall_control::EngineConfig;

use crate::front::{Optional, Sockets};
use crate::run::{Configured, Launch, Log, LogFormat, engine_config, log_to_stderr, run_with};

/// Arguments of `parshall vpp`.
#[derive(Args, Clone, Debug)]
pub struct VppArgs {
    /// The start-up configuration, a file such as /etc/vpp/startup.conf.
    #[arg(short = 'c', value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// The start-up configuration in words: unix { cli-listen /run/vpp/cli.sock } cpu { workers 2 } ...
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "SECTION { ... }"
    )]
    pub words: Vec<String>,
}

/// The arguments with `vpp` put in where the program was started under that name, as VPP's own tests do.
pub fn named(args: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut args: Vec<OsString> = args.collect();
    let called = args.first().map(Path::new).and_then(Path::file_name);
    if called.is_some_and(|name| name == "vpp") {
        args.insert(1, "vpp".into());
    }
    args
}

/// Runs a router until a signal or `shutdown` ends it.
///
/// # Errors
/// What is wrong with the configuration, or why the router cannot start.
pub fn run(args: &VppArgs) -> Result<(), String> {
    let startup = match &args.file {
        Some(file) if args.words.is_empty() => {
            let cannot = |e: std::io::Error| format!("{}: {e}", file.display());
            if std::fs::metadata(file).map_err(cannot)?.len() > MAX_BYTES as u64 {
                return Err(format!("{}: more than {MAX_BYTES} bytes", file.display()));
            }
            let text = std::fs::read_to_string(file).map_err(cannot)?;
            Startup::parse(&text).map_err(|e| format!("{}: {e}", file.display()))?
        }
        Some(_) => return Err("either -c FILE or the configuration in words, not both".into()),
        None => Startup::parse(&args.words.join(" "))
            .map_err(|e| format!("start-up configuration: {e}"))?,
    };
    let log = log_to_stderr(startup.log.as_str(), LogFormat::Text)?;
    for note in &startup.notes {
        tracing::info!("{note}");
    }
    let pid_file = startup.pid_file.clone().map(PidFile::write).transpose()?;
    let ran = run_with(launch(startup, log));
    drop(pid_file);
    ran
}

fn launch(startup: Startup, log: Log) -> Launch {
    let engine = EngineConfig {
        silent_unreachable: true,
        ..engine_config(&startup.engine)
    };
    Launch {
        configured: Configured::nothing(),
        engine,
        lines: Vec::new(),
        sockets: sockets(&startup),
        files: startup.exec,
        log,
    }
}

fn sockets(startup: &Startup) -> Sockets {
    // Beside what VPP has there is our own command socket, of a name that VPP does not use.
    let command = startup.runtime_dir.join("parshall.sock");
    let mut sockets = Sockets::beside(&command, startup.group.clone());
    sockets.vppctl = startup.cli_sockets.clone();
    sockets.stats = vec![Optional::no(startup.stats_socket.clone())];
    sockets.stats_size = startup.stats_size;
    let api = startup.api_sockets.iter().cloned();
    sockets.api = api.map(Optional::no).collect();
    sockets
}

/// A file with the number of this process, there as long as this value is.
struct PidFile(PathBuf);

impl PidFile {
    fn write(path: PathBuf) -> Result<PidFile, String> {
        let text = format!("{}\n", std::process::id());
        std::fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(PidFile(path))
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        // Nobody can be told if this fails, and a stale number does no harm.
        let _ = std::fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_it_is_called_by_says_how_it_is_to_run() {
        let args = |line: &str| named(line.split(' ').map(OsString::from));
        assert_eq!(
            args("/usr/bin/vpp unix { }"),
            ["/usr/bin/vpp", "vpp", "unix", "{", "}"]
        );
        assert_eq!(args("parshall ctl"), ["parshall", "ctl"]);
    }

    #[test]
    fn sockets_lie_where_the_configuration_says() {
        let words = "unix { runtime-dir /tmp/t cli-listen /tmp/t/cli.sock } statseg { size 4m }";
        let startup = Startup::parse(words).unwrap();
        let sockets = sockets(&startup);
        assert_eq!(sockets.command, Path::new("/tmp/t/parshall.sock"));
        assert_eq!(sockets.vppctl, [Path::new("/tmp/t/cli.sock")]);
        assert_eq!(sockets.stats_size, 4 << 20);
        assert!(sockets.api.is_empty());
        assert_eq!(engine_config(&startup.engine).workers, 1);
    }
}
