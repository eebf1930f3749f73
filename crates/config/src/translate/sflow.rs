//! sFlow: what holds for all, the collectors, and the interfaces that are sampled.

use std::collections::BTreeSet;

use parshall_agent::elect::{Election, Rule};
use parshall_agent::{CollectorConfig, CollectorHost};

use super::Builder;
use crate::hsflowd::{self, FIRST_QUESTION};
use crate::plan::{PlanLine, word};
use crate::record::{Checked, Item, Record};

impl Builder<'_, '_> {
    /// Commands for sFlow.
    pub(super) fn sflow(&mut self) {
        let file = self.file;
        if let Some(r) = file.record("sflow") {
            self.hsflowd_conf(r);
            self.agent(r);
            self.drop_monitoring(r);
            self.records(r);
            self.netlink(r);
            self.discover(r);
            self.collectors(r);
        }
        for i in self.interfaces.clone() {
            let Some(item) = i.record.get("sflow") else {
                continue;
            };
            let options = match &item.value {
                Checked::Bool(false) => continue,
                Checked::Record(r) => {
                    self.rates(r);
                    options(r)
                }
                _ => String::new(),
            };
            let line = format!("sflow enable {}{options}", i.name);
            self.line(i.record, "sflow", line);
        }
    }

    /// A rate is given or follows the traffic; bounds are for one that does.
    fn rates(&mut self, r: &Record) {
        let number = |field: &str| r.get(field).and_then(|i| i.value.uint());
        if r.has("adaptive") && r.has("sampling-rate") {
            let message = "the rate is given by `sampling-rate` already; write one of the two";
            self.error(r, "adaptive", message);
        }
        for bound in ["min-rate", "max-rate"] {
            if r.has(bound) && !r.has("adaptive") {
                let message = "this is a bound of an adaptive rate; add `adaptive`, the samples a second to aim at";
                self.error(r, bound, message);
            }
        }
        if let (Some(min), Some(max)) = (number("min-rate"), number("max-rate"))
            && min > max
        {
            let message = format!("{min} is above `max-rate`, which is {max}");
            self.error(r, "min-rate", message);
        }
    }

    fn agent(&mut self, r: &Record) {
        for field in ["direction", "ifindex"] {
            if let Some(word) = r.text(field) {
                self.line(r, field, format!("sflow {field} {word}"));
            }
        }
        if let Some(a) = r.address("agent-address") {
            if a.is_unspecified() || a.is_multicast() {
                let message = format!("{a} names no host; allowed is the address of one");
                self.error(r, "agent-address", message);
            }
            self.line(r, "agent-address", format!("sflow agent-address {a}"));
            if r.has("agent-election") {
                let message = "`agent-address` says already which address it is";
                self.error(r, "agent-election", message);
            }
        } else if let Some(e) = r.record("agent-election") {
            self.line(r, "agent-election", election_command(&election(e)));
        }
        for field in [
            "sub-agent-id",
            "sampling-rate",
            "sampling-ratio",
            "header-bytes",
            "polling-interval",
            "host-interval",
            "max-datagram",
        ] {
            if let Some(n) = r.get(field).and_then(|i| i.value.uint()) {
                self.line(r, field, format!("sflow {field} {n}"));
            }
        }
        self.speed_rates(r);
    }

    fn speed_rates(&mut self, r: &Record) {
        let mut seen = BTreeSet::new();
        for item in r.records("sampling-rates") {
            let number = |field: &str| item.get(field).and_then(|i| i.value.uint());
            let (Some(speed), Some(rate)) = (number("speed"), number("rate")) else {
                continue;
            };
            if !seen.insert(speed) {
                let message = format!("the rate of {speed} bits a second is given twice");
                self.error(item, "speed", message);
                continue;
            }
            self.line(
                item,
                "rate",
                format!("sflow sampling-rate-at {speed} {rate}"),
            );
        }
    }

    fn netlink(&mut self, r: &Record) {
        let options = match r.get("netlink").map(|i| &i.value) {
            None | Some(Checked::Bool(false)) => return,
            Some(Checked::Record(n)) => {
                let group = n.get("group").and_then(|i| i.value.uint());
                let group = group.map_or(String::new(), |g| format!(" group {g}"));
                let off = n
                    .get("os-index")
                    .is_some_and(|i| i.value == Checked::Bool(false));
                group + if off { " no-os-index" } else { "" }
            }
            Some(_) => String::new(),
        };
        self.line(r, "netlink", format!("sflow netlink{options}"));
    }

    fn drop_monitoring(&mut self, r: &Record) {
        if let Some(n) = r.get("drop-limit").and_then(|i| i.value.uint()) {
            let line = match n {
                0 => "sflow drop-monitoring off".to_owned(),
                n => format!("sflow drop-monitoring limit {n}"),
            };
            self.line(r, "drop-limit", line);
        }
    }

    fn collectors(&mut self, r: &Record) {
        let mut seen = BTreeSet::new();
        for item in r.list("collectors") {
            let Some(c) = self.collector(item) else {
                continue;
            };
            if !seen.insert(c.to_string()) {
                let message = format!("collector {c} is listed twice");
                self.report.add(item.at, item.field.clone(), message);
            }
            self.lines.push(PlanLine {
                line: collector_command(&c),
                at: item.at,
                field: item.field.clone(),
            });
        }
    }

    fn collector(&mut self, item: &Item) -> Option<CollectorConfig> {
        let r = match &item.value {
            Checked::Text(text) => return text.parse().ok(),
            Checked::Record(r) => r,
            _ => return None,
        };
        let text = r.text("address")?;
        let c: CollectorConfig = text.parse().ok()?;
        let port = r.get("port").and_then(|i| i.value.uint());
        // The port is said once: behind the address or in a field of its own.
        if port.is_some() && c.port != parshall_agent::DEFAULT_PORT {
            self.error(r, "port", "there is a port behind the address already");
        }
        let port = port.and_then(|p| u16::try_from(p).ok()).unwrap_or(c.port);
        let source = r.address("source");
        if let (CollectorHost::Address(a), Some(s)) = (&c.host, source)
            && a.is_ipv4() != s.is_ipv4()
        {
            self.error(
                r,
                "source",
                format!("{s} and {a} are of different IP versions"),
            );
        }
        let number = |name| r.get(name).and_then(|i| i.value.uint());
        let small = |name| number(name).and_then(|n| u32::try_from(n).ok());
        Some(CollectorConfig {
            port,
            source,
            namespace: r.text("namespace").map(str::to_owned),
            device: r.text("device").map(str::to_owned),
            dscp: small("dscp")
                .and_then(|n| u8::try_from(n).ok())
                .unwrap_or(0),
            datagrams_per_second: small("datagrams-per-second"),
            bits_per_second: number("bits-per-second"),
            max_datagram: small("max-datagram"),
            ..c
        })
    }

    /// Commands of a hsflowd.conf. They come first: what the file itself says takes their place.
    fn hsflowd_conf(&mut self, r: &Record) {
        let Some(path) = r.text("hsflowd-conf").map(str::to_owned) else {
            return;
        };
        let text = match (self.read)(&path) {
            Ok(text) => text,
            Err(e) => return self.error(r, "hsflowd-conf", format!("{path}: {e}")),
        };
        match hsflowd::import(&text) {
            Ok(got) => {
                for (origin, line) in got.commands() {
                    let (at, field) = r.place("hsflowd-conf");
                    let field = format!("{field}: {path}: {origin}");
                    self.lines.push(PlanLine { line, at, field });
                }
                let notes = got.notes.iter().map(|n| format!("{path}: {n}"));
                self.notes.extend(notes);
            }
            Err(all) => {
                for e in all {
                    self.error(r, "hsflowd-conf", format!("{path}: {e}"));
                }
            }
        }
    }

    fn discover(&mut self, r: &Record) {
        let Some(item) = r.get("discover") else {
            return;
        };
        let (domain, options) = match &item.value {
            Checked::Record(d) => {
                let mut options = String::new();
                if let Some(server) = d.address("server") {
                    let port = d.uint("port").unwrap_or(53);
                    let port = u16::try_from(port).unwrap_or(53);
                    options += &format!(" server {}", std::net::SocketAddr::new(server, port));
                } else if d.has("port") {
                    self.error(d, "port", "write the name server too, as `server`");
                }
                if let Some(ns) = d.text("namespace") {
                    options += &format!(" namespace {}", word(ns));
                }
                let delay = d.uint("delay").unwrap_or(FIRST_QUESTION.into());
                (
                    d.text("domain").unwrap_or("auto").to_owned(),
                    format!("{options} delay {delay}"),
                )
            }
            value => (
                value.text().unwrap_or("auto").to_owned(),
                format!(" delay {FIRST_QUESTION}"),
            ),
        };
        let line = match domain.as_str() {
            "off" => "sflow discover off".to_owned(),
            "auto" => format!("sflow discover auto{options}"),
            d => format!("sflow discover {}{options}", word(d)),
        };
        self.line(r, "discover", line);
    }
}

/// The command that adds a collector.
pub(crate) fn collector_command(c: &CollectorConfig) -> String {
    let host = match &c.host {
        CollectorHost::Address(a) => a.to_string(),
        CollectorHost::Name(n) => n.clone(),
    };
    let mut line = format!("sflow collector add {host} port {}", c.port);
    let mut add = |name: &str, value: Option<String>| {
        if let Some(v) = value {
            line += &format!(" {name} {v}");
        }
    };
    add("source", c.source.map(|s| s.to_string()));
    add("namespace", c.namespace.as_deref().map(word));
    add("device", c.device.as_deref().map(word));
    add("dscp", (c.dscp > 0).then(|| c.dscp.to_string()));
    add(
        "datagrams-per-second",
        c.datagrams_per_second.map(|n| n.to_string()),
    );
    add("bits-per-second", c.bits_per_second.map(|n| n.to_string()));
    add("max-datagram", c.max_datagram.map(|n| n.to_string()));
    line
}

/// The command that says how the agent's address is elected.
pub(crate) fn election_command(e: &Election) -> String {
    let mut line = "sflow agent-address auto".to_owned();
    if let Some(d) = &e.device {
        line += &format!(" device {}", word(d));
    }
    for r in &e.rules {
        let verb = if r.avoid { "avoid" } else { "prefer" };
        line += &format!(" {verb} {}/{}", r.network, r.length);
    }
    line
}

fn election(r: &Record) -> Election {
    let rule = |i: &Item| {
        let text = i.value.text()?;
        let (avoid, text) = match text.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (network, length) = text.split_once('/')?;
        Some(Rule {
            network: network.parse().ok()?,
            length: length.parse().ok()?,
            avoid,
        })
    };
    Election {
        device: r.text("device").map(str::to_owned),
        rules: r.list("networks").iter().filter_map(rule).collect(),
    }
}

fn options(r: &Record) -> String {
    let mut text = String::new();
    if let Some(direction) = r.text("direction") {
        text += &format!(" direction {direction}");
    }
    for field in [
        "sampling-rate",
        "adaptive",
        "min-rate",
        "max-rate",
        "header-bytes",
    ] {
        if let Some(n) = r.get(field).and_then(|i| i.value.uint()) {
            text += &format!(" {field} {n}");
        }
    }
    text
}
