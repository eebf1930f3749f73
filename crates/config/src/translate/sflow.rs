//! sFlow: what holds for all, the collectors, and the interfaces that are sampled.

use std::collections::BTreeSet;

use parshall_agent::{CollectorConfig, CollectorHost};

use super::Builder;
use crate::record::{Checked, Item, Record};

impl Builder<'_, '_> {
    /// Commands for sFlow.
    pub(super) fn sflow(&mut self) {
        let file = self.file;
        if let Some(r) = file.record("sflow") {
            self.agent(r);
            self.drop_monitoring(r);
            self.netlink(r);
            self.collectors(r);
        }
        for i in self.interfaces.clone() {
            let Some(item) = i.record.get("sflow") else {
                continue;
            };
            let options = match &item.value {
                Checked::Bool(false) => continue,
                Checked::Record(r) => options(r),
                _ => String::new(),
            };
            let line = format!("sflow enable {}{options}", i.name);
            self.line(i.record, "sflow", line);
        }
    }

    fn agent(&mut self, r: &Record) {
        if let Some(a) = r.address("agent-address") {
            if a.is_unspecified() || a.is_multicast() {
                let message = format!("{a} names no host; allowed is the address of one");
                self.error(r, "agent-address", message);
            }
            self.line(r, "agent-address", format!("sflow agent-address {a}"));
        }
        for field in [
            "sub-agent-id",
            "sampling-rate",
            "header-bytes",
            "polling-interval",
            "host-interval",
            "max-datagram",
        ] {
            if let Some(n) = r.get(field).and_then(|i| i.value.uint()) {
                self.line(r, field, format!("sflow {field} {n}"));
            }
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
            let source = c.source.map_or(String::new(), |s| format!(" source {s}"));
            let host = match c.host {
                CollectorHost::Address(a) => a.to_string(),
                CollectorHost::Name(n) => n,
            };
            self.lines.push(crate::plan::PlanLine {
                line: format!("sflow collector add {host} port {}{source}", c.port),
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
        let bare = CollectorConfig {
            port: parshall_agent::DEFAULT_PORT,
            ..c.clone()
        };
        // The port is said once: behind the address or in a field of its own.
        if port.is_some() && bare != c {
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
        Some(CollectorConfig { port, source, ..c })
    }
}

fn options(r: &Record) -> String {
    let mut text = String::new();
    for field in ["sampling-rate", "header-bytes"] {
        if let Some(n) = r.get(field).and_then(|i| i.value.uint()) {
            text += &format!(" {field} {n}");
        }
    }
    text
}
