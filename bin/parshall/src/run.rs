//! `parshall run` and `parshall config check`: a configuration file, the router, its front ends.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use parshall_config::{ConfigCheckArgs, EngineSettings, Plan};
use parshall_control::logging::LogSink;
use parshall_control::revision::Revisions;
use parshall_control::run::{Wakeup, run};
use parshall_control::{EngineConfig, Output, Router, TableLimits, execute_lines, rehearse};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, fmt, reload};

use crate::front::{FrontEnds, Optional, Sockets};
use crate::notify::{Notify, Watchdog, watchdog_period};

/// Arguments of `parshall run`.
#[derive(Args, Clone, Debug)]
pub struct RunArgs {
    /// The configuration, a YAML file (see docs/reference/configuration.md). A revision confirmed in the state directory
    /// counts instead, if there is one.
    #[arg(
        short = 'c',
        long,
        value_name = "FILE",
        required_unless_present = "state_dir"
    )]
    pub config: Option<PathBuf>,
    /// Keep revisions of the configuration here, and start with the last confirmed one. Instead of the file's
    /// `state.directory`.
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// Start with the file all the same, and save it as a new revision.
    #[arg(long, requires = "config")]
    pub from_file: bool,
    /// Command socket, instead of the file's.
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// What to log, as in RUST_LOG: a level, or levels by module. Instead of the file's.
    #[arg(long, value_name = "FILTER")]
    pub log: Option<String>,
    /// How to log: lines for people, or a JSON object a line.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    pub log_format: LogFormat,
    /// Listen where VPP does as well: /run/vpp/cli.sock for vppctl, stats.sock, api.sock.
    #[arg(long)]
    pub vpp_compat: bool,
}

/// How messages are written.
#[derive(ValueEnum, Clone, Copy, Debug, Default)]
pub enum LogFormat {
    /// Lines for people.
    #[default]
    Text,
    /// A JSON object a line.
    Json,
}

/// The filter that messages pass, and what changes it.
pub struct Log {
    filter: String,
    sink: LogSink,
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

/// The configuration that a router starts with, and where its revisions are.
pub struct Configured {
    /// Its text.
    text: String,
    /// What errors call it.
    name: String,
    /// What there is to be said about that.
    note: Option<String>,
    revisions: Revisions,
}

/// The confirmed revision where there is one, else the file.
fn what_to_start(args: &RunArgs) -> Result<Configured, String> {
    let file = match &args.config {
        Some(path) => {
            let text = parshall_config::read_text(path).map_err(|e| e.to_string())?;
            Some((text, path.display().to_string()))
        }
        None => None,
    };
    let told = file
        .as_ref()
        .and_then(|(text, _)| parshall_config::state_directory(text));
    let revisions = match args.state_dir.clone().or(told) {
        Some(dir) => Revisions::open(&dir).map_err(|e| e.to_string())?,
        None => Revisions::default(),
    };
    let saved = revisions.confirmed().filter(|_| !args.from_file);
    let (text, name, note) = match (saved, file) {
        (Some(n), file) => {
            let text = revisions.text(n).map_err(|e| e.to_string())?;
            let other = file.filter(|(there, _)| *there != text).map(|(_, path)| {
                format!(
                    "{path} is another configuration than revision {n}, which counts: `parshall config diff {path}` \
                     shows how, `parshall config apply {path}` makes it count, a start with --from-file too"
                )
            });
            (text, format!("revision {n}"), other)
        }
        (None, Some((text, name))) => (text, name, None),
        (None, None) => {
            let why = "the state directory has no confirmed revision: give a first configuration with -c FILE";
            return Err(why.into());
        }
    };
    Ok(Configured {
        text,
        name,
        note,
        revisions,
    })
}

fn start(args: &RunArgs) -> Result<(), String> {
    let configured = what_to_start(args)?;
    let name = &configured.name;
    let plan = parshall_config::parse(&configured.text, name).map_err(|e| e.to_string())?;
    if let Some(given) = plan.given.first() {
        return Err(format!(
            "{name}: interfaces.{given}: its `type` is not said, so it would have to be there already; a new router has none"
        ));
    }
    let filter = args.log.as_deref().unwrap_or(plan.log.as_str());
    let log = log_to_stderr(filter, args.log_format)?;
    for note in plan.notes.iter().chain(&configured.note) {
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
        lines: plan.script(name),
        files: Vec::new(),
        sockets,
        configured,
        log,
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
    /// What is logged.
    pub log: Log,
    /// What its revisions begin with.
    pub configured: Configured,
}

impl Configured {
    /// Nothing of a file, and revisions that end with the router.
    pub fn nothing() -> Configured {
        Configured {
            text: String::new(),
            name: "the start".into(),
            note: None,
            revisions: Revisions::default(),
        }
    }

    /// Lets the router plan and keep configurations from now on.
    fn begin(self, router: &mut Router) -> Result<(), String> {
        router.set_base(parshall_config::base(&self.text));
        router.keep_revisions(Arc::new(parshall_config::Yaml), self.revisions);
        let comment = format!("started with {}", self.name);
        router
            .save_start(&self.text, &comment)
            .map_err(|e| e.to_string())
    }
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
    router.set_log_sink(&launch.log.filter, launch.log.sink);
    if let Err(error) = execute_lines(&mut router, &lines) {
        router.shut_down();
        return Err(error.to_string());
    }
    for file in &launch.files {
        execute_file(&mut router, file);
    }
    let name = launch.configured.name.clone();
    if let Err(error) = launch.configured.begin(&mut router) {
        router.shut_down();
        return Err(error);
    }
    // Started by control, whose CPUs they share: never those of workers.
    let (mut front, requests) = match FrontEnds::start(&sockets, &mut router, &wakeup) {
        Ok(started) => started,
        Err(error) => {
            router.shut_down();
            return Err(error);
        }
    };
    tracing::info!(
        "running with {name}; commands at {}",
        sockets.command.display()
    );
    let mut watchdog = tell_ready(&wakeup);
    run(&mut router, &requests, &mut wakeup);
    // Whoever still waits for the router is told that it has ended; then the front ends can end.
    drop(wakeup);
    watchdog.iter_mut().for_each(Watchdog::stop);
    front.stop();
    tracing::info!("ended");
    Ok(())
}

/// Tells whoever started the router that it runs, and goes on telling if that is wanted.
fn tell_ready(wakeup: &Wakeup) -> Option<Watchdog> {
    let notify = Notify::from_env()?;
    notify.say(&format!("READY=1\nMAINPID={}", std::process::id()));
    let started = Watchdog::start(notify, watchdog_period()?, wakeup.asker());
    started
        .map_err(|e| tracing::error!("no watchdog: {e}"))
        .ok()
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
    match parshall_config::load(&args.file)
        .map_err(|e| e.to_string())
        .and_then(|plan| rehearsed(&args.file, &plan))
    {
        Ok(()) => parshall_config::check(args),
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

/// What a model of the router says to the commands of a plan.
pub fn rehearsed(file: &Path, plan: &Plan) -> Result<(), String> {
    let mut lines: Vec<(String, String)> = Vec::new();
    for given in &plan.given {
        // Any interface will do in place of one that the file expects to be there.
        let line = format!("create loopback interface name {given}");
        lines.push((given.clone(), line));
    }
    lines.extend(plan.script(&file.display().to_string()));
    rehearse(&engine_config(&plan.engine), &lines).map_err(|e| e.to_string())
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
        silent_unreachable: false,
        tables: TableLimits {
            macs: settings.stations as u32,
            ..TableLimits::default()
        },
    }
}

/// A seed nobody chose: two routers should not sample in step.
fn clock_seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(1, |d| d.as_nanos() as u64) ^ u64::from(std::process::id()) << 32
}

/// Logs to standard error what passes this filter.
pub fn log_to_stderr(filter: &str, format: LogFormat) -> Result<Log, String> {
    let wrong = |e| format!("--log {filter}: {e}");
    let (layer, handle) = reload::Layer::new(EnvFilter::try_new(filter).map_err(wrong)?);
    let plain = fmt::layer()
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr);
    let written = match format {
        LogFormat::Text => plain.boxed(),
        LogFormat::Json => plain.json().flatten_event(true).boxed(),
    };
    let log = tracing_subscriber::registry().with(layer).with(written);
    log.try_init().map_err(|e| e.to_string())?;
    let sink = move |filter: &str| {
        let filter = EnvFilter::try_new(filter).map_err(|e| e.to_string())?;
        handle.reload(filter).map_err(|e| e.to_string())
    };
    Ok(Log {
        filter: filter.to_owned(),
        sink: Box::new(sink),
    })
}
