//! From words to settings: the groups of a hsflowd.conf and their keys.

use std::collections::BTreeSet;
use std::net::IpAddr;

use parshall_agent::discover::{Settings, number};
use parshall_agent::{AgentConfig, CollectorConfig, CollectorHost, DEFAULT_PORT};
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
/// What hsflowd adds to the number of an interface without one of Linux.
const IF_OFFSET: u64 = 1_000_000_000;
/// Dropped packets that hsflowd reports a second when it is not told how many.
const DROP_LIMIT: u64 = 100;
/// Ranges of hsflowd.
const MAX_SUB_AGENT: u64 = 199_999;
const DATAGRAM: (u64, u64) = (200, 1500);
/// An interface of Linux.
const DEVICE: Kind = Kind::Name {
    what: "an interface of Linux",
    max: 15,
};
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

    fn collector(&mut self, at: &Token<'a>) {
        let placeholder = CollectorHost::Name(String::new());
        let mut c = CollectorConfig::new(placeholder.clone(), DEFAULT_PORT);
        while let Some(t) = self.next() {
            if t.is("}") {
                break;
            }
            match t.text.to_ascii_lowercase().as_str() {
                "ip" | "hostname" => {
                    if let Some(text) = self.value(&t) {
                        match host(text) {
                            Some(h) => c.host = h,
                            None => self.error(
                                t.line,
                                t.text,
                                format!("{} is neither an address nor a host name", shown(text)),
                            ),
                        }
                    }
                }
                "udpport" => {
                    if let Some(n) = self.number(&t, (1, 65_535)) {
                        c.port = n as u16;
                    }
                }
                "namespace" => c.namespace = self.name(&t, &Kind::Namespace),
                "dev" => c.device = self.name(&t, &DEVICE),
                _ => self.unknown(&t),
            }
        }
        if c.host == placeholder {
            return self.error(at.line, at.text, "has no ip");
        }
        if let Err(e) = c.validate() {
            return self.error(at.line, at.text, e.to_string());
        }
        let twice = self
            .got
            .items
            .iter()
            .any(|i| matches!(&i.setting, Setting::Collector(x) if x.is_same(&c)));
        if twice {
            return self.note(at.line, &format!("collector {c}"), "is there already");
        }
        let is_collector = |i: &&Item| matches!(i.setting, Setting::Collector(_));
        let most = AgentConfig::MAX_COLLECTORS;
        if self.got.items.iter().filter(is_collector).count() == most {
            return self.error(at.line, at.text, format!("at most {most} are possible"));
        }
        self.add(at, Setting::Collector(c));
    }

    fn dns_sd_key(&mut self, t: &Token<'a>) {
        if ["domain", "dnssd_domain"].contains(&t.text.to_ascii_lowercase().as_str()) {
            self.domain(t);
        } else {
            self.unknown(t);
        }
    }

    fn domain(&mut self, t: &Token<'a>) {
        let Some(text) = self.value(t) else {
            return;
        };
        // hsflowd puts it right behind `_sflow._udp`, so it begins with a dot there.
        let bare = text.trim_matches('.');
        // Two words stand for something else in our own language.
        let taken = ["auto", "off"].contains(&bare);
        if taken || !matches!(host(bare), Some(CollectorHost::Name(_))) {
            return self.error(t.line, t.text, format!("{} is not a domain", shown(text)));
        }
        let line = self.dns_sd.as_ref().map_or(t.line, |d| d.0);
        self.dns_sd = Some((line, Some(bare.to_owned())));
    }

    /// Reports of dropped packets. Which of the kernel's drops hsflowd takes has no meaning here: ours are the router's.
    fn dropmon(&mut self, at: &Token<'a>) {
        let (mut start, mut limit) = (true, DROP_LIMIT);
        while let Some(t) = self.next() {
            if t.is("}") {
                break;
            }
            match t.text.to_ascii_lowercase().as_str() {
                "start" => start = self.on_off(&t).unwrap_or(start),
                "limit" => limit = self.number(&t, (1, 10_000)).unwrap_or(limit),
                "force" | "sw" | "hw" | "rn" | "hw_unknown" | "hw_function" | "sw_passive"
                | "hw_passive" => {
                    if self.on_off(&t).is_some() {
                        self.note(t.line, t.text, "is about drops of the kernel, not used");
                    }
                }
                "max" | "max_trip" | "hide" => {
                    if self.value(&t).is_some() {
                        self.note(t.line, t.text, "is about drops of the kernel, not used");
                    }
                }
                _ => self.unknown(&t),
            }
        }
        if start {
            let limit = u32::try_from(limit).unwrap_or(u32::MAX);
            self.got
                .items
                .retain(|i| !matches!(i.setting, Setting::Drops(_)));
            self.add(at, Setting::Drops(limit));
        }
    }

    /// Where hsflowd takes samples from. The agent here has them itself; which way they went is worth to know.
    fn psample(&mut self, at: &Token<'a>) {
        let (mut ingress, mut egress) = (true, false);
        while let Some(t) = self.next() {
            if t.is("}") {
                break;
            }
            match t.text.to_ascii_lowercase().as_str() {
                "group" => {
                    if self.number(&t, (1, 32)).is_some() {
                        self.note(
                            t.line,
                            t.text,
                            "the agent here has samples by itself, not used",
                        );
                    }
                }
                "ingress" => ingress = self.on_off(&t).unwrap_or(ingress),
                "egress" => egress = self.on_off(&t).unwrap_or(egress),
                _ => self.unknown(&t),
            }
        }
        let direction = match (ingress, egress) {
            (true, true) => "both",
            (false, true) => "tx",
            (true, false) => "rx",
            (false, false) => {
                let why = "neither way: leave `sflow` out at the interfaces instead";
                return self.note(at.line, at.text, why);
            }
        };
        self.add(at, Setting::Word("direction", direction));
    }

    /// Whose interface numbers collectors see.
    fn vpp(&mut self, at: &Token<'a>) {
        let mut os_index = true;
        while let Some(t) = self.next() {
            if t.is("}") {
                break;
            }
            match t.text.to_ascii_lowercase().as_str() {
                "osindex" => os_index = self.on_off(&t).unwrap_or(os_index),
                "ifoffset" => match self.number(&t, (0, u32::MAX.into())) {
                    None | Some(IF_OFFSET) => {}
                    Some(_) => self.note(t.line, t.text, "is 1000000000 here, not used"),
                },
                _ => self.unknown(&t),
            }
        }
        let kind = if os_index { "linux" } else { "parshall" };
        self.add(at, Setting::Word("ifindex", kind));
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
        let speeds: Vec<(String, usize)> = self
            .places
            .iter()
            .filter(|(k, _)| k.starts_with("sampling."))
            .cloned()
            .collect();
        for (key, line) in speeds {
            self.note(
                line,
                &key,
                "not used: without `sampling` rates follow speed / 1000000; give interfaces others by `sflow: {sampling-rate: N}`",
            );
        }
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
