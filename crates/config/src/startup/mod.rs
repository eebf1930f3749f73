//! VPP's start-up configuration: `startup.conf`, or the same as arguments of the command line
//! (`vpp unix { cli-listen /run/vpp/cli.sock } cpu { main-core 1 workers 2 }`).
//!
//! Sections that mean something here are translated; what means nothing is told once, by name, and is no error:
//! the files of running VPPs are full of it. What has a meaning and a wrong value is an error with its line.
//! Follows VPP's `vlib/unix/main.c`, `vlib/threads.c`, `vlib/buffer.c`, `vlib/stats/init.c` and
//! `vlibmemory/socket_api.c`.

#[cfg(test)]
mod tests;
mod text;

use std::path::{Path, PathBuf};

use crate::plan::{EngineSettings, LogLevel};
use text::{Item, Words};

pub use text::{MAX_BYTES, StartupError};

/// Where VPP keeps its sockets.
const RUNTIME: &str = "/run/vpp";

/// What a start-up configuration asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Startup {
    /// Sizes and places of the engine.
    pub engine: EngineSettings,
    /// Sockets for `vppctl`.
    pub cli_sockets: Vec<PathBuf>,
    /// Sockets for clients of the binary API.
    pub api_sockets: Vec<PathBuf>,
    /// Socket that the statistics segment is fetched from.
    pub stats_socket: PathBuf,
    /// Bytes of that segment.
    pub stats_size: usize,
    /// Folder of what belongs to this process.
    pub runtime_dir: PathBuf,
    /// Group that may use the sockets.
    pub group: Option<String>,
    /// Files of commands to execute once it runs, in this order.
    pub exec: Vec<PathBuf>,
    /// File that the number of the process is written to.
    pub pid_file: Option<PathBuf>,
    /// The least important messages that are still logged.
    pub log: LogLevel,
    /// What was read and is not used, in words.
    pub notes: Vec<String>,
}

impl Default for Startup {
    fn default() -> Startup {
        Startup {
            engine: EngineSettings {
                workers: 1,
                cpus: Vec::new(),
                main_cpu: None,
                share_cpus: true,
                busy_poll: false,
                buffers: 16_384,
                interfaces: 1024,
                stations: 131_072,
                seed: None,
                ifindex_file: None,
            },
            cli_sockets: Vec::new(),
            api_sockets: Vec::new(),
            stats_socket: Path::new(RUNTIME).join("stats.sock"),
            stats_size: 32 << 20,
            runtime_dir: RUNTIME.into(),
            group: None,
            exec: Vec::new(),
            pid_file: None,
            log: LogLevel::Info,
            notes: Vec::new(),
        }
    }
}

impl Startup {
    /// Reads a start-up configuration. Arguments of a command line are joined by blanks, as VPP does.
    ///
    /// # Errors
    /// The first thing that is wrong, with its line.
    pub fn parse(text: &str) -> Result<Startup, StartupError> {
        let items = text::parse(text)?;
        let mut reader = Reader::default();
        let mut items = items.into_iter().peekable();
        while let Some(item) = items.next() {
            let Item::Word(name) = item else {
                return Err(item.error("a section has no name"));
            };
            let body = match items.next_if(|next| matches!(next, Item::Block(..))) {
                Some(Item::Block(body, _)) => body,
                _ => {
                    let section = name.text;
                    return Err(name.error(format!("`{section}` is not followed by {{ ... }}")));
                }
            };
            reader.section(name.text, Words::new(body, name.line))?;
        }
        Ok(reader.finish())
    }
}

/// Sections as they are read.
#[derive(Default)]
struct Reader {
    startup: Startup,
    workers: Option<usize>,
    skipped: usize,
    main_core: Option<usize>,
    buffers: Option<usize>,
    stats: Option<PathBuf>,
    /// Names that mean nothing here, with their sections.
    unused: Vec<String>,
    /// There is a section for the API, and what it names.
    api: Option<Vec<PathBuf>>,
    runtime: Option<PathBuf>,
}

impl Reader {
    fn section(&mut self, name: &str, words: Words<'_>) -> Result<(), StartupError> {
        match name {
            "unix" => self.unix(words),
            "cpu" => self.cpu(words),
            "buffers" => self.buffers(words),
            "statseg" => self.statseg(words),
            "socksvr" => self.socksvr(words),
            "logging" => self.logging(words),
            // Plugins are parts of the program here, always there; the rest is about VPP's own memory.
            _ => {
                self.unused.push(name.to_owned());
                Ok(())
            }
        }
    }

    fn unused(&mut self, section: &str, word: &str, words: &mut Words<'_>, arguments: usize) {
        self.unused.push(format!("{section} {word}"));
        for _ in 0..arguments {
            words.next_if_word();
        }
        words.skip_block();
    }

    fn unix(&mut self, mut words: Words<'_>) -> Result<(), StartupError> {
        while let Some(word) = words.next_word()? {
            match word.text {
                "cli-listen" => {
                    let place = words.need(&word, "a path")?;
                    if place.text.starts_with('/') {
                        self.startup.cli_sockets.push(place.text.into());
                    } else {
                        // Anybody on the machine could reconfigure the router.
                        self.unused.push(format!("unix cli-listen {}", place.text));
                    }
                }
                "exec" | "startup-config" => {
                    let file = words.need(&word, "a file")?.text;
                    self.startup.exec.push(file.into());
                }
                "runtime-dir" => self.runtime = Some(words.need(&word, "a folder")?.text.into()),
                "pidfile" => {
                    self.startup.pid_file = Some(words.need(&word, "a file")?.text.into());
                }
                "gid" => self.startup.group = Some(words.need(&word, "a group")?.text.to_owned()),
                // It stays in the foreground and logs to standard error whatever is said.
                "nodaemon" | "nosyslog" | "cli-no-pager" => {}
                "full-coredump" | "interactive" | "cli-no-banner" | "cli-line-mode"
                | "nobanner" | "nocolor" | "no-signals" => {
                    self.unused("unix", word.text, &mut words, 0)
                }
                other => self.unused("unix", other, &mut words, 1),
            }
        }
        Ok(())
    }

    fn cpu(&mut self, mut words: Words<'_>) -> Result<(), StartupError> {
        while let Some(word) = words.next_word()? {
            match word.text {
                "main-core" => self.main_core = Some(words.number(&word, 0, 1023)?),
                "workers" => self.workers = Some(words.number(&word, 0, 64)?),
                "skip-cores" => self.skipped = words.number(&word, 0, 1023)?,
                "corelist-workers" => {
                    let list = words.need(&word, "CPUs")?;
                    let cpus = cpus(list.text).ok_or_else(|| {
                        list.error("a list of CPUs is such as 2-4,7 (at most 64)")
                    })?;
                    self.startup.engine.cpus = cpus;
                }
                other => self.unused("cpu", other, &mut words, 1),
            }
        }
        Ok(())
    }

    fn buffers(&mut self, mut words: Words<'_>) -> Result<(), StartupError> {
        while let Some(word) = words.next_word()? {
            match word.text {
                "buffers-per-numa" => self.buffers = Some(words.number(&word, 1, 1 << 30)?),
                "default" => {}
                other => self.unused("buffers", other, &mut words, 1),
            }
        }
        Ok(())
    }

    fn statseg(&mut self, mut words: Words<'_>) -> Result<(), StartupError> {
        while let Some(word) = words.next_word()? {
            match word.text {
                "socket-name" => self.stats = Some(words.need(&word, "a path")?.text.into()),
                "default" => {}
                "size" => {
                    let value = words.need(&word, "a size")?;
                    self.startup.stats_size = size(value.text)
                        .filter(|n| (1 << 20..=4 << 30).contains(n))
                        .ok_or_else(|| value.error("a size is such as 32m, from 1m to 4g"))?;
                }
                // Always there, and always up to date.
                "per-node-counters" | "update-interval" => {
                    words.next_if_word();
                }
                other => self.unused("statseg", other, &mut words, 1),
            }
        }
        Ok(())
    }

    fn socksvr(&mut self, mut words: Words<'_>) -> Result<(), StartupError> {
        let mut sockets = Vec::new();
        while let Some(word) = words.next_word()? {
            match word.text {
                "socket-name" => sockets.push(words.need(&word, "a path")?.text.into()),
                "default" => {}
                other => self.unused("socksvr", other, &mut words, 1),
            }
        }
        self.api.get_or_insert_default().append(&mut sockets);
        Ok(())
    }

    fn logging(&mut self, mut words: Words<'_>) -> Result<(), StartupError> {
        while let Some(word) = words.next_word()? {
            match word.text {
                "default-log-level" => {
                    let value = words.need(&word, "a level")?;
                    self.startup.log = match value.text {
                        "emerg" | "alert" | "crit" | "err" | "error" => LogLevel::Error,
                        "warn" => LogLevel::Warn,
                        "notice" | "info" => LogLevel::Info,
                        "debug" => LogLevel::Debug,
                        // `disabled`, and whatever else there may come to be.
                        _ => LogLevel::Error,
                    };
                }
                other => self.unused("logging", other, &mut words, 1),
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Startup {
        let place = |name: &str| {
            self.runtime
                .as_deref()
                .unwrap_or(Path::new(RUNTIME))
                .join(name)
        };
        let (stats, api) = (place("stats.sock"), place("api.sock"));
        let s = &mut self.startup;
        s.stats_socket = self.stats.unwrap_or(stats);
        if let Some(sockets) = self.api {
            s.api_sockets = if sockets.is_empty() {
                vec![api]
            } else {
                sockets
            };
        }
        if let Some(folder) = self.runtime {
            s.runtime_dir = folder;
        }
        place_workers(&mut s.engine, (self.workers, self.main_core, self.skipped));
        if let Some(buffers) = self.buffers {
            // VPP's are for all workers of a node, ours for each.
            s.engine.buffers = (buffers / s.engine.workers).clamp(1024, 4 << 20);
        }
        if !self.unused.is_empty() {
            self.unused.dedup();
            s.notes.push(format!(
                "not used of the start-up configuration: {}",
                self.unused.join(", ")
            ));
        }
        self.startup
    }
}

/// Without workers VPP forwards in its main thread: here one worker does, on the same CPU.
fn place_workers(
    engine: &mut EngineSettings,
    (count, main, skip): (Option<usize>, Option<usize>, usize),
) {
    let count = count.filter(|n| *n > 0);
    engine.main_cpu = main;
    if engine.cpus.is_empty() {
        match (count, main) {
            (None, Some(main)) => engine.cpus = vec![main],
            (Some(n), Some(main)) => engine.cpus = (main + 1 + skip..).take(n).collect(),
            (Some(n), None) if skip > 0 => engine.cpus = (skip + 1..).take(n).collect(),
            _ => {}
        }
    }
    engine.workers = match engine.cpus.len() {
        0 => count.unwrap_or(1),
        n => n,
    };
    // Whoever names CPUs one by one means them; else what there is has to do.
    engine.share_cpus = count.is_none();
}

/// A list of CPUs such as `2-4,7`.
fn cpus(text: &str) -> Option<Vec<usize>> {
    let mut all = Vec::new();
    for part in text.split(',').filter(|p| !p.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if first > last || last > 1023 || all.len() + (last - first) >= 64 {
            return None;
        }
        all.extend(first..=last);
    }
    Some(all).filter(|all| !all.is_empty())
}

/// A size such as `32m`.
fn size(text: &str) -> Option<usize> {
    let lower = text.to_ascii_lowercase();
    let (digits, unit) = match lower.strip_suffix('b').unwrap_or(&lower) {
        t if t.ends_with('k') => (&t[..t.len() - 1], 1 << 10),
        t if t.ends_with('m') => (&t[..t.len() - 1], 1 << 20),
        t if t.ends_with('g') => (&t[..t.len() - 1], 1 << 30),
        t => (t, 1),
    };
    digits.parse::<usize>().ok()?.checked_mul(unit)
}
