//! Packet-generator streams, in the language of VPP's `packet-generator new`.

use std::collections::BTreeSet;

use parshall_drivers::pg::StreamSpec;

use super::interfaces::Interface;
use super::{Builder, within};
use crate::plan::{EngineSettings, PlanLine};
use crate::record::{Checked, Record};

/// Fields with one value, and the words for them in the language of streams.
const OPTIONS: [(&str, &str); 9] = [
    ("node", "node"),
    ("limit", "limit"),
    ("rate", "rate"),
    ("worker", "worker"),
    ("max-frame", "maxframe"),
    ("seed", "seed"),
    ("variants", "variants"),
    ("speed", "speed"),
    ("size", "size"),
];

impl Builder<'_, '_> {
    /// Commands that make the streams; returned are those that start them.
    pub(super) fn streams(&mut self, engine: &EngineSettings) -> Vec<PlanLine> {
        let mut enable = Vec::new();
        let mut names = BTreeSet::new();
        let led = self.led();
        let Some(pg) = self.file.record("packet-generator") else {
            return enable;
        };
        for r in pg.records("streams") {
            let (Some(name), Some(item)) = (r.text("name"), r.get("interface")) else {
                continue;
            };
            if !names.insert(name) {
                self.error(r, "name", format!("stream `{name}` is here a second time"));
            }
            let Some(interface) = self.interface(item) else {
                continue;
            };
            if interface.kind != "pg" {
                let message = format!("`{}` is not of type pg", interface.name);
                self.error(r, "interface", message);
            }
            self.check_worker(r, engine.workers);
            let Some(text) = self.stream(r, name, interface.name) else {
                continue;
            };
            self.line(r, "", format!("packet-generator new {text}"));
            if r.bool("enabled") {
                self.stays_up(r, interface, led.get(interface.name).copied());
                let (at, field) = r.place("enabled");
                enable.push(PlanLine {
                    line: format!("packet-generator enable-stream {name}"),
                    at,
                    field: field.into(),
                });
            }
        }
        enable
    }

    /// A stream that starts brings its interface up: that must not be one that is to be down, by itself or with its bond.
    fn stays_up(&mut self, r: &Record, interface: Interface<'_>, led: Option<bool>) {
        let own = interface.record.text("state") != Some("down");
        if led.unwrap_or(own) {
            return;
        }
        let where_to = match led {
            Some(_) => "to its bond",
            None => "there",
        };
        let message = format!(
            "a stream that starts brings its interface up, and `{}` is to be down; write `state: up` {where_to} or \
             `enabled: false` here",
            interface.name
        );
        self.error(r, "enabled", message);
    }

    fn check_worker(&mut self, r: &Record, workers: usize) {
        if r.size("worker").is_some_and(|w| w >= workers) {
            let message = format!(
                "there are {workers} workers; allowed is 0 to {}",
                workers - 1
            );
            self.error(r, "worker", message);
        }
    }

    /// The text in braces; `None` when something about it has been reported.
    fn stream(&mut self, r: &Record, name: &str, interface: &str) -> Option<String> {
        if let Some(text) = r.text("definition") {
            let text = format!("{{ {} }}", text.trim());
            return self.understood(r, &text).then_some(text);
        }
        if r.flawed || !self.source_is_one(r) {
            return None;
        }
        let mut text = format!("{{ name {name} interface {interface}");
        for (field, words) in OPTIONS {
            match r.get(field).map(|i| &i.value) {
                // VPP's sizes are always a range.
                Some(Checked::Text(t)) if field == "size" && !t.contains(['-', '+']) => {
                    text += &format!(" size {t}-{t}");
                }
                Some(Checked::Text(t)) => text += &format!(" {words} {t}"),
                Some(Checked::Uint(n)) => text += &format!(" {words} {n}"),
                Some(Checked::Float(n)) => text += &format!(" {words} {n}"),
                _ => {}
            }
        }
        if r.bool("loop") {
            text += " loop";
        }
        if let Some(file) = r.text("pcap") {
            text += &format!(" pcap {file}");
        }
        if let Some(data) = r.text("data") {
            text += &format!(" data {{ {} }}", data.trim_end());
        }
        text += " }";
        self.understood(r, &text).then_some(text)
    }

    fn source_is_one(&mut self, r: &Record) -> bool {
        let message = match (r.has("data"), r.text("pcap")) {
            (true, Some(_)) => "either `data` or `pcap`, not both",
            (false, None) => "a stream needs packets; write `data` or `pcap`",
            (_, Some(file)) if file.contains([' ', '{', '}', '"', '\\']) || !file.is_ascii() => {
                "the language of streams takes only file names without blanks, braces, quotes and backslashes"
            }
            _ => return true,
        };
        self.error(r, "pcap", message);
        false
    }

    /// Lets the generator itself read the text, and the command language find its end.
    fn understood(&mut self, r: &Record, text: &str) -> bool {
        if let Err(e) = StreamSpec::parse_vpp(text) {
            let field = if r.has("data") { "data" } else { "" };
            match r.get("data").filter(|i| i.literal) {
                Some(item) => {
                    let at = within(item, e.line);
                    self.report.add(at, item.field.clone(), e.message);
                }
                None => self.error(r, field, e.message),
            }
            return false;
        }
        let tokens = parshall_command::tokenize(text);
        if tokens.is_ok_and(|t| t.len() == 1) {
            return true;
        }
        let message = "quotes and braces come in pairs, also in comments";
        self.error(r, "data", message);
        false
    }
}
