//! `parshall run` and `parshall config check`: a configuration file, the router, its command socket.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use parshall_cli::{CliServer, ServerConfig};
use parshall_config::{ConfigCheckArgs, EngineSettings, HttpSettings, Plan, PlanLine};
use parshall_control::run::{Wakeup, run};
use parshall_control::{EngineConfig, Router, execute_lines, rehearse};
use parshall_web::{HttpConfig, HttpServer, Token};
use tracing_subscriber::EnvFilter;

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
    let mut engine = engine_config(&plan.engine);
    // A router has its own socket, so that is a place that no other router writes to.
    engine
        .ifindex_file
        .get_or_insert_with(|| path.with_extension("ifindex"));
    let lines = located(&args.config, &plan.commands);
    // What can be refused without touching the system is refused before anything is touched.
    rehearse(&engine, &lines).map_err(|e| e.to_string())?;
    // Signals are taken over first: from here on they end the router in order.
    let mut wakeup = Wakeup::new().map_err(|e| format!("cannot watch for signals: {e}"))?;
    let mut router = Router::new(engine).map_err(|e| e.to_string())?;
    if let Err(error) = execute_lines(&mut router, &lines) {
        router.shut_down();
        return Err(error.to_string());
    }
    let config = ServerConfig::new(&path, plan.cli.group.clone());
    let (mut server, requests) =
        CliServer::start(config, wakeup.waker()).map_err(|e| e.to_string())?;
    // Started by control, whose CPUs they share: never those of workers.
    let mut http = match serve_http(&plan.http, &wakeup) {
        Ok(http) => http,
        Err(error) => {
            router.shut_down();
            return Err(error);
        }
    };
    tracing::info!("running; commands at {}", path.display());
    run(&mut router, &requests, &mut wakeup);
    if let Some(http) = &mut http {
        http.stop();
    }
    server.stop();
    tracing::info!("ended");
    Ok(())
}

/// Serves metrics and the API, if they are asked for.
fn serve_http(settings: &HttpSettings, wakeup: &Wakeup) -> Result<Option<HttpServer>, String> {
    if !settings.is_on() {
        return Ok(None);
    }
    let token = settings.token_file.as_deref().map(Token::load).transpose();
    let config = HttpConfig {
        listen: settings.listen,
        socket: settings.socket.clone(),
        group: settings.group.clone(),
        token: token.map_err(|e| format!("http.token-file: {e}"))?,
        commands: settings.commands,
    };
    let server = HttpServer::start(config, wakeup.asker()).map_err(|e| e.to_string())?;
    if let Some(address) = server.address() {
        tracing::info!("metrics at http://{address}/metrics");
    }
    Ok(Some(server))
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

fn engine_config(settings: &EngineSettings) -> EngineConfig {
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

fn log_to_stderr(filter: &str) -> Result<(), String> {
    let filter = EnvFilter::try_new(filter).map_err(|e| format!("--log {filter}: {e}"))?;
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr);
    log.try_init().map_err(|e| e.to_string())
}
