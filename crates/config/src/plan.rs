//! What a file asks for: the settings that the engine starts with, and the commands that follow.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::Serialize;

use crate::error::Position;

/// All that a file asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// Sizes and places of the engine.
    pub engine: EngineSettings,
    /// The command socket.
    pub cli: CliSettings,
    /// The binary API.
    pub api: ApiSettings,
    /// Metrics and the API over HTTP.
    pub http: HttpSettings,
    /// The statistics segment.
    pub stats: StatsSettings,
    /// The least important messages that are still logged.
    pub log: LogLevel,
    /// Command lines that bring a fresh router into the state asked for, in the order of their dependencies.
    pub commands: Vec<PlanLine>,
    /// Interfaces that have to be there: the file does not say what they are.
    pub given: Vec<String>,
    /// Where the state directory is; `None` = not said.
    pub state: Option<PathBuf>,
    /// What was read and is not used, in words: to be told once.
    pub notes: Vec<String>,
}

/// Sizes and places of the engine, fixed when it starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EngineSettings {
    /// Worker threads.
    pub workers: usize,
    /// CPUs to pin them to, one for each, in order; empty = the engine's choice.
    pub cpus: Vec<usize>,
    /// CPU of the main thread.
    pub main_cpu: Option<usize>,
    /// Workers may share CPUs.
    pub share_cpus: bool,
    /// Never sleep.
    pub busy_poll: bool,
    /// Packet buffers of a worker.
    pub buffers: usize,
    /// Interfaces there can be, `local0` included.
    pub interfaces: usize,
    /// Stations (MAC addresses) that all bridge domains together can know.
    pub stations: usize,
    /// Fixes all random choices; `None` = chosen at the start.
    pub seed: Option<u64>,
    /// Where the ifIndexes that interface names have are kept; `None` = beside the command socket.
    pub ifindex_file: Option<PathBuf>,
}

/// The command socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CliSettings {
    /// Where it is.
    pub socket: PathBuf,
    /// Group that may give commands, beside root.
    pub group: Option<String>,
    /// A second socket, for VPP's `vppctl`.
    pub vppctl: Option<PathBuf>,
}

/// The statistics segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StatsSettings {
    /// Where it is fetched; `None` = beside the command socket.
    pub socket: Option<PathBuf>,
    /// Bytes of it.
    pub size: usize,
}

/// The binary API.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ApiSettings {
    /// Where it is; `None` = beside the command socket.
    pub socket: Option<PathBuf>,
    /// Group that may use it, beside root; `None` = that of the command socket.
    pub group: Option<String>,
}

/// Metrics and the API over HTTP; off when neither `listen` nor `socket` is there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HttpSettings {
    /// Address and port to listen on.
    pub listen: Option<SocketAddr>,
    /// UNIX socket to listen on.
    pub socket: Option<PathBuf>,
    /// Group that may open the socket, beside root.
    pub group: Option<String>,
    /// File with the token that TCP clients show.
    pub token_file: Option<PathBuf>,
    /// Whether commands are served.
    pub commands: bool,
}

impl HttpSettings {
    /// Whether there is anything to listen on.
    pub fn is_on(&self) -> bool {
        self.listen.is_some() || self.socket.is_some()
    }
}

/// How much is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// What went wrong.
    Error,
    /// What may go wrong.
    Warn,
    /// What happens.
    Info,
    /// How it happens.
    Debug,
    /// Everything.
    Trace,
}

impl LogLevel {
    const ALL: [(&'static str, LogLevel); 5] = [
        ("error", LogLevel::Error),
        ("warn", LogLevel::Warn),
        ("info", LogLevel::Info),
        ("debug", LogLevel::Debug),
        ("trace", LogLevel::Trace),
    ];
    /// All of them as they are written.
    pub const WORDS: &'static [&'static str] = &["error", "warn", "info", "debug", "trace"];

    /// The level that `word` means.
    pub fn from_word(word: &str) -> Option<LogLevel> {
        let mut all = Self::ALL.into_iter();
        all.find(|(w, _)| *w == word).map(|(_, level)| level)
    }
    /// As it is written, in the file and in a filter of `tracing`.
    pub fn as_str(self) -> &'static str {
        let mut all = Self::ALL.into_iter();
        all.find(|(_, level)| *level == self)
            .map_or("info", |(word, _)| word)
    }
}

/// One command and where in the file it comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlanLine {
    /// The command, in VPP's language.
    pub line: String,
    /// Place of the value that asks for it.
    pub at: Position,
    /// Field of that value, as in `interfaces.tap0.mtu`.
    pub field: String,
}

impl Plan {
    /// The commands, each with the place it comes from, as in `router.yaml:7:10: interfaces.tap0.mtu`.
    pub fn script(&self, file_name: &str) -> Vec<(String, String)> {
        let one = |c: &PlanLine| (c.origin(file_name), c.line.clone());
        self.commands.iter().map(one).collect()
    }
}

impl PlanLine {
    /// Where it comes from, as an error says it.
    pub fn origin(&self, file_name: &str) -> String {
        let at = self.at;
        format!("{file_name}:{}:{}: {}", at.line, at.column, self.field)
    }
}

/// A word of a command line that may hold anything but control characters: quoted when it must be.
pub(crate) fn word(text: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || "._:/+-@,".contains(c);
    if !text.is_empty() && !text.starts_with("//") && text.chars().all(bare) {
        return text.into();
    }
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{escaped}\"")
}

#[cfg(test)]
mod tests {
    use super::*;
    use parshall_command::tokenize;
    use proptest::prelude::*;

    #[test]
    fn levels_are_read_as_they_are_written() {
        for word in LogLevel::WORDS {
            assert_eq!(LogLevel::from_word(word).map(LogLevel::as_str), Some(*word));
        }
        assert_eq!(LogLevel::WORDS.len(), LogLevel::ALL.len());
        assert_eq!(LogLevel::from_word("loud"), None);
    }

    proptest! {
        #[test]
        fn a_word_is_one_word_of_a_command(text in "[^\\p{Cc}]{0,20}") {
            let line = format!("x {} y", word(&text));
            let tokens = tokenize(&line).unwrap();
            prop_assert_eq!(tokens.len(), 3);
            prop_assert_eq!(&*tokens[1].text, text.as_str());
        }
    }
}
