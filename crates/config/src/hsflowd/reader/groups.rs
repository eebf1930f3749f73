//! The groups of a hsflowd.conf whose keys mean something here.

use parshall_agent::{AgentConfig, CollectorConfig, CollectorHost, DEFAULT_PORT};
use parshall_command::shown;

use super::super::token::Token;
use super::super::{Item, Setting};
use super::{Reader, host};
use crate::schema::Kind;

/// What hsflowd adds to the number of an interface without one of Linux.
const IF_OFFSET: u64 = 1_000_000_000;
/// Dropped packets that hsflowd reports a second when it is not told how many.
const DROP_LIMIT: u64 = 100;
/// An interface of Linux.
const DEVICE: Kind = Kind::Name {
    what: "an interface of Linux",
    max: 15,
};

impl<'a> Reader<'a> {
    pub(super) fn collector(&mut self, at: &Token<'a>) {
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

    pub(super) fn dns_sd_key(&mut self, t: &Token<'a>) {
        if ["domain", "dnssd_domain"].contains(&t.text.to_ascii_lowercase().as_str()) {
            self.domain(t);
        } else {
            self.unknown(t);
        }
    }

    pub(super) fn domain(&mut self, t: &Token<'a>) {
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
    pub(super) fn dropmon(&mut self, at: &Token<'a>) {
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
    pub(super) fn psample(&mut self, at: &Token<'a>) {
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
    pub(super) fn vpp(&mut self, at: &Token<'a>) {
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
}
