//! From words to settings: the groups of a hsflowd.conf and their keys.

mod groups;

use std::collections::BTreeSet;
use std::net::IpAddr;

use parshall_agent::discover::{Settings, number, speed as speed_of};
use parshall_agent::{AgentConfig, CollectorConfig, CollectorHost};
use parshall_command::shown;

use crate::scalar;
use crate::schema::Kind;
use crate::yaml::Scalar;

use super::token::{Token, tokens};
use super::{Imported, Item, Note, Setting};

/// Groups of hsflowd that read what Parshall is not, or say how hsflowd itself works.
const MODULES: &[&str] = &[
    "kvm",
    "xen",
    "docker",
    "containerd",
    "k8s",
    "ulog",
    "nflog",
    "pcap",
    "epcap",
    "tcp",
    "cumulus",
    "dent",
    "ovs",
    "json",
    "nvml",
    "os10",
    "opx",
    "sonic",
    "dbus",
    "systemd",
    "eapi",
    "nlroute",
];
/// Keys of hsflowd that have no meaning here.
const OWN_KEYS: &[&str] = &[
    "uuid",
    "droppriv",
    "modules",
    "loopback",
    "refreshadaptors",
    "checkadaptors",
    "refreshvms",
    "forgetvms",
    "samplingdirection",
    "xen.update.dominfo",
    "xen.dsk",
    "uloggroup",
    "nfloggroup",
    "ulogprobability",
    "nflogprobability",
    "jsonport",
    "jsonfifo",
];
/// hsflowd's defaults, where ours are others.
const SUB_AGENT: u64 = 100_000;
const POLLING: u32 = 30;
/// Ranges of hsflowd.
const MAX_SUB_AGENT: u64 = 199_999;
const DATAGRAM: (u64, u64) = (200, 1500);
const AGENT_DEVICE: Kind = Kind::Name {
    what: "an interface",
    max: 63,
};
/// Notes and errors kept: whoever reads so many looks again anyway.
const MAX_NOTES: usize = 100;
/// Groups in groups.
const MAX_DEPTH: usize = 16;

/// Reads a hsflowd.conf.
///
/// # Errors
/// All that hsflowd would not start with, but for words that it does not know: they are noted.
pub fn import(text: &str) -> Result<Imported, Vec<Note>> {
    let mut r = Reader {
        tokens: tokens(text),
        at: 0,
        settings: Settings::default(),
        got: Imported::default(),
        errors: Vec::new(),
        noted: BTreeSet::new(),
        places: Vec::new(),
        dns_sd: None,
    };
    r.file();
    r.finish()
}

struct Reader<'a> {
    tokens: Vec<Token<'a>>,
    at: usize,
    settings: Settings,
    got: Imported,
    errors: Vec<Note>,
    /// Keys that were noted.
    noted: BTreeSet<String>,
    /// Keys of `settings` and their lines.
    places: Vec<(String, usize)>,
    /// Where `DNS-SD` stands, and its domain.
    dns_sd: Option<(usize, Option<String>)>,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Option<Token<'a>> {
        let t = self.tokens.get(self.at).cloned();
        self.at += usize::from(t.is_some());
        t
    }

    fn peek(&self) -> Option<&Token<'a>> {
        self.tokens.get(self.at)
    }

    fn note(&mut self, line: usize, key: &str, text: &str) {
        let key = shown(key);
        // The same key again is no news.
        if self.got.notes.len() < MAX_NOTES && self.noted.insert(key.to_ascii_lowercase()) {
            let text = text.to_owned();
            self.got.notes.push(Note { line, key, text });
        }
    }

    fn error(&mut self, line: usize, key: &str, text: impl Into<String>) {
        if self.errors.len() < MAX_NOTES {
            self.errors.push(Note {
                line,
                key: shown(key),
                text: text.into(),
            });
        }
    }

    fn file(&mut self) {
        let Some(first) = self.next() else {
            return self.error(0, "", "there is no sflow { } in it");
        };
        if !first.text.eq_ignore_ascii_case("sflow") || !self.opens() {
            return self.error(
                first.line,
                first.text,
                "a hsflowd.conf begins with `sflow {`",
            );
        }
        self.group(Reader::key);
        if let Some(t) = self.next() {
            let what = if t.is("}") {
                "one `}` too many"
            } else {
                "nothing may follow the sflow { }"
            };
            self.error(t.line, t.text, what);
        }
    }

    /// Whether a `{` follows, which is taken.
    fn opens(&mut self) -> bool {
        let opens = self.peek().is_some_and(|t| t.is("{"));
        self.at += usize::from(opens);
        opens
    }

    /// Everything up to the `}` of this group, which the end of the file may stand for.
    fn group(&mut self, each: fn(&mut Self, &Token<'a>)) {
        while let Some(t) = self.next() {
            if t.is("}") {
                return;
            }
            if t.is("{") {
                self.error(t.line, "{", "a group without a name");
                self.skip_group();
                continue;
            }
            each(self, &t);
        }
    }

    /// Passes over a group whose `{` was taken.
    fn skip_group(&mut self) {
        let mut depth = 1usize;
        while let Some(t) = self.next() {
            if t.is("{") {
                depth += 1;
            } else if t.is("}") {
                depth -= 1;
            }
            if depth == 0 {
                return;
            }
            if depth > MAX_DEPTH {
                return self.error(t.line, "{", "too many groups in each other");
            }
        }
    }

    /// Passes over what belongs to a key that is not used: its group or its value.
    fn skip(&mut self) {
        if self.opens() {
            self.skip_group();
        } else if self.peek().is_some_and(Token::is_word) {
            self.at += 1;
        }
    }

    /// The value of a key; reported when there is none.
    fn value(&mut self, key: &Token<'a>) -> Option<&'a str> {
        match self.peek() {
            Some(t) if t.is_word() => {
                let text = t.text;
                self.at += 1;
                Some(text)
            }
            _ => {
                self.error(key.line, key.text, "a value is missing");
                None
            }
        }
    }

    fn number(&mut self, key: &Token<'a>, (min, max): (u64, u64)) -> Option<u64> {
        let text = self.value(key)?;
        let n = number(text, max).ok().filter(|n| *n >= min);
        if n.is_none() {
            let why = format!("{} is not a number from {min} to {max}", shown(text));
            self.error(key.line, key.text, why);
        }
        n
    }

    /// A name that our own configuration takes too.
    fn name(&mut self, key: &Token<'a>, kind: &Kind) -> Option<String> {
        let text = self.value(key)?;
        let scalar = Scalar {
            text: text.into(),
            plain: true,
            literal: false,
        };
        match scalar::read(kind, "", &scalar) {
            Ok(_) => Some(text.to_owned()),
            Err(e) => {
                self.error(key.line, key.text, e);
                None
            }
        }
    }

    fn on_off(&mut self, key: &Token<'a>) -> Option<bool> {
        let text = self.value(key)?;
        let on = text.eq_ignore_ascii_case("on");
        if !on && !text.eq_ignore_ascii_case("off") {
            self.error(
                key.line,
                key.text,
                format!("{} is neither on nor off", shown(text)),
            );
            return None;
        }
        Some(on)
    }

    fn add(&mut self, t: &Token<'_>, setting: Setting) {
        // Of what is said again the last one counts.
        if let Setting::Number(name, _) | Setting::Word(name, _) = &setting {
            let same = |i: &Item| matches!(&i.setting, Setting::Number(n, _) | Setting::Word(n, _) if n == name);
            self.got.items.retain(|i| !same(i));
        }
        self.got.items.push(Item {
            line: t.line,
            key: shown(t.text),
            setting,
        });
    }

    /// A key of `sflow { }`.
    fn key(&mut self, t: &Token<'a>) {
        let key = t.text.to_ascii_lowercase();
        match key.as_str() {
            "collector" if self.opens() => self.collector(t),
            "dns-sd" if self.opens() => {
                self.dns_sd.get_or_insert((t.line, None));
                self.group(Reader::dns_sd_key);
            }
            "dnssd" => {
                if self.on_off(t) == Some(true) {
                    self.dns_sd.get_or_insert((t.line, None));
                }
            }
            "dnssd_domain" => self.domain(t),
            "dropmon" if self.opens() => self.dropmon(t),
            "psample" if self.opens() => self.psample(t),
            "vpp" if self.opens() => self.vpp(t),
            "subagentid" => {
                if let Some(n) = self.number(t, (0, MAX_SUB_AGENT)) {
                    self.add(t, Setting::Number("sub-agent-id", n));
                }
            }
            "datagrambytes" => {
                if let Some(n) = self.number(t, DATAGRAM) {
                    let least = u64::from(AgentConfig::DATAGRAM_RANGE.0);
                    if n < least {
                        self.note(
                            t.line,
                            t.text,
                            &format!("raised to {least}, the least here"),
                        );
                    }
                    self.add(t, Setting::Number("max-datagram", n.max(least)));
                }
            }
            // These are for the DNS only.
            "txtvers" | "droplimit" => self.unknown(t),
            _ if MODULES.contains(&key.as_str()) => {
                self.note(t.line, t.text, "a module of hsflowd, not used");
                self.skip();
            }
            _ if OWN_KEYS.contains(&key.as_str()) => {
                self.note(t.line, t.text, "has no meaning here, not used");
                self.skip();
            }
            _ => self.setting(t, &key),
        }
    }

    /// A key that the DNS may give too.
    fn setting(&mut self, t: &Token<'a>, key: &str) {
        let mut probe = Settings::default();
        // Without a value nothing will do, but whether the key is known can be asked with any.
        if matches!(probe.set(key, "1"), Ok(false)) {
            let app = key.starts_with("sampling.") || key.starts_with("polling.");
            if app {
                self.note(t.line, t.text, "is of an application, not used");
                return self.skip();
            }
            return self.unknown(t);
        }
        let value = if key == "agent" {
            self.name(t, &AGENT_DEVICE)
        } else {
            self.value(t).map(str::to_owned)
        };
        let Some(value) = value else {
            return;
        };
        match self.settings.set(key, &value) {
            Ok(_) => self.places.push((key.to_owned(), t.line)),
            Err(e) => self.error(t.line, t.text, format!("{}: {e}", shown(&value))),
        }
    }

    fn unknown(&mut self, t: &Token<'a>) {
        self.note(t.line, t.text, "is not known, not used");
        self.skip();
    }

    fn line_of(&self, key: &str) -> usize {
        let mut all = self.places.iter().rev();
        all.find(|(k, _)| k == key).map_or(0, |(_, line)| *line)
    }

    fn put(&mut self, line: usize, key: &str, setting: Setting) {
        self.got.items.push(Item {
            line,
            key: key.to_owned(),
            setting,
        });
    }

    fn finish(mut self) -> Result<Imported, Vec<Note>> {
        if let Some((line, domain)) = self.dns_sd.clone() {
            self.put(line, "DNS-SD", Setting::Discover(domain));
        }
        if self.errors.is_empty() && !self.got.items.iter().any(is_destination) {
            self.error(0, "", "there is neither a collector nor DNS-SD in it");
        }
        if !self.errors.is_empty() {
            return Err(self.errors);
        }
        self.agent();
        self.rates();
        Ok(self.got)
    }

    fn agent(&mut self) {
        if let Some(a) = self.settings.agent_address {
            self.put(self.line_of("agentip"), "agentIP", Setting::AgentAddress(a));
            if self.settings.election != Default::default() {
                let line = self.line_of("agent").max(self.line_of("agent.cidr"));
                self.note(line, "agent", "agentIP says which address it is, not used");
            }
        } else if self.settings.election != Default::default() {
            let line = self.line_of("agent").max(self.line_of("agent.cidr"));
            let election = self.settings.election.clone();
            self.put(line, "agent", Setting::Election(election));
        }
        let has_id = |i: &Item| matches!(i.setting, Setting::Number("sub-agent-id", _));
        if !self.got.items.iter().any(has_id) {
            // Collectors know the agent by it.
            self.put(0, "subAgentId", Setting::Number("sub-agent-id", SUB_AGENT));
        }
    }

    /// What hsflowd says of the speed of a link, and what follows from a ratio (`lookupPacketSamplingRate`).
    fn speed_rates(&mut self) {
        for (speed, n) in self.settings.sampling_by_speed.clone() {
            let is = |key: &str| key.strip_prefix("sampling.").and_then(speed_of) == Some(speed);
            let place = self.places.iter().rev().find(|(k, _)| is(k));
            let (key, line) = place.cloned().unwrap_or_default();
            self.put(line, &key, Setting::RateAt(speed, n));
        }
        let line = self.line_of("sampling.bps_ratio");
        match self.settings.bps_ratio {
            Some(0) | None => {}
            Some(n) => {
                let ratio = Setting::Number("sampling-ratio", n.into());
                self.put(line, "sampling.bps_ratio", ratio);
            }
        }
    }

    fn rates(&mut self) {
        let polling = u64::from(self.settings.polling.unwrap_or(POLLING));
        let line = self
            .line_of("polling")
            .max(self.line_of("counterpollinginterval"));
        for name in ["polling-interval", "host-interval"] {
            self.put(line, "polling", Setting::Number(name, polling));
        }
        let line = self
            .line_of("sampling")
            .max(self.line_of("packetsamplingrate"));
        match self.settings.sampling {
            Some(0) => self.note(
                line,
                "sampling",
                "0 is no rate here: leave `sflow` out at the interfaces instead",
            ),
            Some(n) => self.put(line, "sampling", Setting::Number("sampling-rate", n.into())),
            None => {}
        }
        self.speed_rates();
        if let Some(n) = self.settings.header_bytes {
            let least = 64;
            let line = self.line_of("headerbytes");
            if n < least {
                self.note(
                    line,
                    "headerBytes",
                    &format!("raised to {least}, the least here"),
                );
            }
            let n = u64::from(n.max(least));
            self.put(line, "headerBytes", Setting::Number("header-bytes", n));
        }
    }
}

fn is_destination(i: &Item) -> bool {
    matches!(i.setting, Setting::Collector(_) | Setting::Discover(_))
}

/// An address or a host name, without a port.
fn host(text: &str) -> Option<CollectorHost> {
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Some(CollectorHost::Address(ip));
    }
    let named = text.parse::<CollectorConfig>().ok()?;
    match named.host {
        CollectorHost::Name(n) if n == text => Some(CollectorHost::Name(n)),
        _ => None,
    }
}
