//! An existing hsflowd.conf, read as hsflowd reads it, and what it becomes here.
//!
//! Follows host-sflow (`HSPReadConfigFile` in `hsflowconfig.c`): one `sflow { }`, words in any case, a missing last brace is
//! tolerated, and without a collector or DNS-SD the file is useless. Where hsflowd stops at a word that it does not know, this
//! goes on: what is not used is noted with its line. What hsflowd assumes when nothing is said is said here, where it is
//! another thing than what Parshall assumes.
//!
//! ```
//! let text = "sflow { collector { ip=192.0.2.1 udpport=6344 } polling=20 tcp { } }";
//! let got = parshall_config::hsflowd::import(text).unwrap();
//! let lines: Vec<String> = got.commands().map(|(_, line)| line).collect();
//! assert_eq!(lines[0], "sflow collector add 192.0.2.1 port 6344");
//! assert!(got.yaml().starts_with("sflow:\n  collectors:\n    - {address: \"192.0.2.1\", port: 6344}\n"));
//! assert_eq!(got.notes[0].to_string(), "line 1: tcp: a module of hsflowd, not used");
//! ```

mod reader;
mod token;

use std::fmt::{self, Write as _};
use std::net::IpAddr;

use parshall_agent::elect::Election;
use parshall_agent::{CollectorConfig, CollectorHost, DEFAULT_PORT};

use crate::translate::sflow::{collector_command, election_command};

pub use reader::import;

/// Bytes of a file that are read.
pub const MAX_BYTES: usize = 1 << 20;

/// What a hsflowd.conf asks for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Imported {
    items: Vec<Item>,
    /// What is not used, and why.
    pub notes: Vec<Note>,
}

/// Something about a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Its number, from 1; 0 = the file as a whole.
    pub line: usize,
    /// The key it is about.
    pub key: String,
    /// What there is to say.
    pub text: String,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 0 {
            write!(f, "line {}: ", self.line)?;
        }
        if self.key.is_empty() {
            return f.write_str(&self.text);
        }
        write!(f, "{}: {}", self.key, self.text)
    }
}

/// One setting and where it comes from.
#[derive(Clone, Debug, PartialEq)]
struct Item {
    line: usize,
    key: String,
    setting: Setting,
}

#[derive(Clone, Debug, PartialEq)]
enum Setting {
    Collector(CollectorConfig),
    /// A number that a command and a field of the same name take.
    Number(&'static str, u64),
    /// A word, likewise.
    Word(&'static str, &'static str),
    /// 1-in-N of links of a speed in bits a second.
    RateAt(u64, u32),
    /// Dropped packets reported a second.
    Drops(u32),
    AgentAddress(IpAddr),
    Election(Election),
    /// The domain; `None` = those that the system searches.
    Discover(Option<String>),
}

/// Longest random time before the first question to the DNS, in seconds, as hsflowd has it.
pub(crate) const FIRST_QUESTION: u32 = 30;

impl Imported {
    /// The commands, each with where it comes from, as in `line 3: polling`.
    pub fn commands(&self) -> impl Iterator<Item = (String, String)> {
        self.items.iter().map(|i| {
            let origin = match i.line {
                0 => format!("{} (hsflowd's default)", i.key),
                n => format!("line {n}: {}", i.key),
            };
            (origin, i.setting.command())
        })
    }

    /// The same as a section of a configuration file.
    pub fn yaml(&self) -> String {
        let mut out = "sflow:\n".to_owned();
        let mut collectors = String::new();
        let mut rates = String::new();
        let mut rest = String::new();
        for i in &self.items {
            // Writing to a String cannot fail.
            let _ = match &i.setting {
                Setting::Collector(c) => writeln!(collectors, "    - {}", collector_yaml(c)),
                Setting::Number(name, n) => writeln!(rest, "  {name}: {n}"),
                Setting::Word(name, word) => writeln!(rest, "  {name}: {word}"),
                Setting::RateAt(speed, n) => {
                    writeln!(rates, "    - {{speed: {speed}, rate: {n}}}")
                }
                Setting::Drops(n) => writeln!(rest, "  drop-limit: {n}"),
                Setting::AgentAddress(a) => writeln!(rest, "  agent-address: \"{a}\""),
                Setting::Election(e) => writeln!(rest, "  agent-election: {}", election_yaml(e)),
                Setting::Discover(d) => {
                    writeln!(
                        rest,
                        "  discover: {}",
                        quoted(d.as_deref().unwrap_or("auto"))
                    )
                }
            };
        }
        if !collectors.is_empty() {
            out += "  collectors:\n";
        }
        out += &collectors;
        if !rates.is_empty() {
            out += "  sampling-rates:\n";
        }
        out + &rates + &rest
    }
}

impl Setting {
    fn command(&self) -> String {
        match self {
            Setting::Collector(c) => collector_command(c),
            Setting::Number(name, n) => format!("sflow {name} {n}"),
            Setting::Word(name, word) => format!("sflow {name} {word}"),
            Setting::RateAt(speed, n) => format!("sflow sampling-rate-at {speed} {n}"),
            Setting::Drops(n) => format!("sflow drop-monitoring limit {n}"),
            Setting::AgentAddress(a) => format!("sflow agent-address {a}"),
            Setting::Election(e) => election_command(e),
            Setting::Discover(d) => {
                let domain = d.as_deref().unwrap_or("auto");
                format!("sflow discover {domain} delay {FIRST_QUESTION}")
            }
        }
    }
}

fn collector_yaml(c: &CollectorConfig) -> String {
    let host = match &c.host {
        CollectorHost::Address(a) => a.to_string(),
        CollectorHost::Name(n) => n.clone(),
    };
    let mut fields = vec![format!("address: {}", quoted(&host))];
    if c.port != DEFAULT_PORT {
        fields.push(format!("port: {}", c.port));
    }
    for (name, value) in [("namespace", &c.namespace), ("device", &c.device)] {
        fields.extend(value.as_ref().map(|v| format!("{name}: {}", quoted(v))));
    }
    format!("{{{}}}", fields.join(", "))
}

fn election_yaml(e: &Election) -> String {
    let device = e.device.iter().map(|d| format!("device: {}", quoted(d)));
    let mut fields: Vec<String> = device.collect();
    let rules: Vec<String> = e
        .rules
        .iter()
        .map(|r| {
            let not = if r.avoid { "!" } else { "" };
            format!("\"{not}{}/{}\"", r.network, r.length)
        })
        .collect();
    if !rules.is_empty() {
        fields.push(format!("networks: [{}]", rules.join(", ")));
    }
    format!("{{{}}}", fields.join(", "))
}

/// A text in double quotes, as YAML has them (YAML 1.2 section 7.3.1). What comes here has no control characters.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
