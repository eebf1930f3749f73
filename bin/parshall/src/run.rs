//! `parshall run` and `parshall config check`: a configuration file, the router, its front ends.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use parshall_config::{ConfigCheckArgs, EngineSettings, Plan, PlanLine};
use parshall_control::run::{Wakeup, run};
use parshall_control::{EngineConfig, Output, Router, execute_lines, rehearse};
use tracing_subscriber::EnvFilter;

use crate::front::{FrontEnds, Optional, Sockets};

/// Arguments of `parshall run`.
#[derive(Args, Clone, Debug)]
pub struct RunArgs {
    /// The configuration, a YAML file (see docs/reference/configuration.md).
    #[arg(short = 'c', long, value_name = "FILE")]
    pub config: PathBuf,
    /// Command socket, instead of the file's.
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// What to log, as in RUST_LOG: a level, or levels by module. Instead of the file's.
    #[arg(long, value_name = "FILTER")]
    pub log: Option<String>,
    /// Listen where VPP does as well: /run/vpp/cli.sock for vppctl, stats.sock, api.sock.
    #[arg(long)]
    pub vpp_compat: bool,
}

/// Runs a router until a signal or `shutdown` ends it.
pub fn run_router(args: &RunArgs) -> ExitCode {
    match start(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("parshall: {message}");
            ExitCode::FAILURE
        }
    }
}

fn start(args: &RunArgs) -> Result<(), String> {
    let plan = parshall_config::load(&args.config).map_err(|e| e.to_string())?;
    log_to_stderr(args.log.as_deref().unwrap_or(plan.log.as_str()))?;
    for note in &plan.notes {
        tracing::warn!("{note}");
    }
    let path = args
        .socket
        .clone()
        .unwrap_or_else(|| plan.cli.socket.clone());
    let mut sockets = Sockets::beside(&path, plan.cli.group.clone());
    sockets.vppctl.extend(plan.cli.vppctl.clone());
    if let Some(stats) = &plan.stats.socket {
        sockets.stats = vec![Optional::no(stats.clone())];
    }
    sockets.stats_size = plan.stats.size;
    sockets.http = plan.http.clone();
    if let Some(api) = &plan.api.socket {
        sockets.api = vec![Optional::no(api.clone())];
    }
    sockets.api_group = plan.api.group.clone();
    if args.vpp_compat {
        sockets.where_vpp_has_them();
    }
    run_with(Launch {
        engine: engine_config(&plan.engine),
        lines: located(&args.config, &plan.commands),
        files: Vec::new(),
        sockets,
    })
}

/// All that a router starts with.
pub struct Launch {
    /// Sizes and places.
    pub engine: EngineConfig,
    /// Commands with their places: when one fails the router does not start.
    pub lines: Vec<(String, String)>,
    /// Files of commands: when one fails that is logged.
    pub files: Vec<PathBuf>,
    /// Where it listens.
    pub sockets: Sockets,
}

/// Runs a router until something ends it.
pub fn run_with(launch: Launch) -> Result<(), String> {
    let (mut engine, lines, sockets) = (launch.engine, launch.lines, launch.sockets);
    // A router has its own socket, so that is a place that no other router writes to.
    engine
        .ifindex_file
        .get_or_insert_with(|| sockets.command.with_extension("ifindex"));
    // What can be refused without touching the system is refused before anything is touched.
    rehearse(&engine, &lines).map_err(|e| e.to_string())?;
    // Signals are taken over first: from here on they end the router in order.
    let mut wakeup = Wakeup::new().map_err(|e| format!("cannot watch for signals: {e}"))?;
    let mut router = Router::new(engine).map_err(|e| e.to_string())?;
    if let Err(error) = execute_lines(&mut router, &lines) {
        router.shut_down();
        return Err(error.to_string());
    }
    for file in &launch.files {
        execute_file(&mut router, file);
    }
    // Started by control, whose CPUs they share: never those of workers.
    let (mut front, requests) = match FrontEnds::start(&sockets, &mut router, &wakeup) {
        Ok(started) => started,
        Err(error) => {
            router.shut_down();
            return Err(error);
        }
    };
    tracing::info!("running; commands at {}", sockets.command.display());
    run(&mut router, &requests, &mut wakeup);
    // Whoever still waits for the router is told that it has ended; then the front ends can end.
    drop(wakeup);
    front.stop();
    tracing::info!("ended");
    Ok(())
}

/// Executes a file that the start-up configuration names. As with VPP, what is wrong in it does not end the router.
fn execute_file(router: &mut Router, file: &Path) {
    let quoted = file
        .display()
        .to_string()
        .replace('\\', "\\\\")
        .replace('"', "\\\"");
    match router.run_line(&format!("exec \"{quoted}\""), false) {
        Ok(Output::Text(text)) if !text.is_empty() => tracing::info!("{}: {text}", file.display()),
        Ok(_) => tracing::info!("{}: executed", file.display()),
        Err(error) => tracing::error!("nothing of it was executed: {error}"),
    }
}

/// `parshall config check`: the file itself, then its commands on a model of the router.
pub fn check_config(args: &ConfigCheckArgs) -> ExitCode {
    let rehearsed = |plan: Plan| {
        rehearse(
            &engine_config(&plan.engine),
            &located(&args.file, &plan.commands),
        )
        .map_err(|e| e.to_string())
    };
    match parshall_config::load(&args.file)
        .map_err(|e| e.to_string())
        .and_then(rehearsed)
    {
        Ok(()) => parshall_config::check(args),
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

/// The commands of a plan, each with its place in the file.
fn located(file: &Path, commands: &[PlanLine]) -> Vec<(String, String)> {
    let place = |c: &PlanLine| {
        format!(
            "{}:{}:{}: {}",
            file.display(),
            c.at.line,
            c.at.column,
            c.field
        )
    };
    commands
        .iter()
        .map(|c| (place(c), c.line.clone()))
        .collect()
}

pub fn engine_config(settings: &EngineSettings) -> EngineConfig {
    EngineConfig {
        workers: settings.workers,
        cpus: settings.cpus.clone(),
        main_cpu: settings.main_cpu,
        share_cpus: settings.share_cpus,
        busy_poll: settings.busy_poll,
        buffers: settings.buffers,
        interfaces: settings.interfaces,
        seed: settings.seed.unwrap_or_else(clock_seed),
        ifindex_file: settings.ifindex_file.clone(),
        ..EngineConfig::default()
    }
}

/// A seed nobody chose: two routers should not sample in step.
fn clock_seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(1, |d| d.as_nanos() as u64) ^ u64::from(std::process::id()) << 32
}

pub fn log_to_stderr(filter: &str) -> Result<(), String> {
    let filter = EnvFilter::try_new(filter).map_err(|e| format!("--log {filter}: {e}"))?;
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr);
    log.try_init().map_err(|e| e.to_string())
}
