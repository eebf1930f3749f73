//! Tables, neighbours and routes.

use std::collections::BTreeMap;

use super::Builder;
use super::paths::Payload;
use crate::record::Record;

/// Fields that say where a route leads.
const ROUTE_WAYS: [&str; 6] = [
    "via",
    "interface",
    "labels",
    "pipe",
    "lookup-table",
    "paths",
];

impl Builder<'_, '_> {
    /// Commands that make the tables, that of MPLS when anything needs it.
    pub(super) fn tables(&mut self) {
        let file = self.file;
        for r in file.records("tables") {
            let Some(id) = r.uint("id").map(|n| n as u32) else {
                continue;
            };
            let family = r.text("family").unwrap_or("both");
            for (version, only, words) in [(0, "ip4", "ip"), (1, "ip6", "ip6")] {
                if family != "both" && family != only {
                    continue;
                }
                if !self.tables[version].insert(id) {
                    let message = format!("table {id} is here a second time for {only}");
                    self.error(r, "id", message);
                    break;
                }
                self.line(r, "id", format!("{words} table add {id}"));
            }
        }
        let labels = file.record("mpls").filter(|m| !m.list("labels").is_empty());
        let speaks = file.interfaces().iter().find(|i| i.bool("mpls"));
        if let Some(m) = labels {
            self.line(m, "labels", "mpls table add 0".into());
        } else if let Some(i) = speaks {
            self.line(i, "mpls", "mpls table add 0".into());
        } else if let Some(m) = file.record("mpls").filter(|m| m.bool("table")) {
            self.line(m, "table", "mpls table add 0".into());
        }
    }

    /// Commands that say how neighbours are kept: each setting one, so that each changes by itself.
    fn neighbor_settings(&mut self) {
        let file = self.file;
        let Some(both) = file.record("neighbor-settings") else {
            return;
        };
        for family in ["ip4", "ip6"] {
            let Some(r) = both.record(family) else {
                continue;
            };
            for field in ["limit", "age", "rate"] {
                if let Some(n) = r.get(field).and_then(|i| i.value.uint()) {
                    self.line(
                        r,
                        field,
                        format!("set ip neighbor-config {family} {field} {n}"),
                    );
                }
            }
        }
    }

    /// Commands for static neighbours.
    pub(super) fn neighbors(&mut self) {
        self.neighbor_settings();
        let file = self.file;
        let mut seen = BTreeMap::new();
        for r in file.records("neighbors") {
            let Some(interface) = r.get("interface").and_then(|i| self.interface(i)) else {
                continue;
            };
            let (Some(addr), Some(mac)) = (r.address("address"), r.mac("mac")) else {
                continue;
            };
            if addr.is_unspecified() || addr.is_multicast() || addr.is_loopback() {
                let message = format!("{addr} is not the address of a neighbour");
                self.error(r, "address", message);
            }
            if interface.addresses().any(|(_, p)| p.addr == addr) {
                let message = format!("{addr} is the address of `{}` itself", interface.name);
                self.error(r, "address", message);
            }
            if let Some(line) = seen.insert((interface.name, addr), r.at.line) {
                let message = format!("this neighbour is here a second time, first on line {line}");
                self.error(r, "address", message);
            }
            let line = format!("ip neighbor {} {addr} {mac} static", interface.name);
            self.line(r, "", line);
        }
    }

    /// Commands for static routes.
    pub(super) fn routes(&mut self) {
        let file = self.file;
        let mut seen = BTreeMap::new();
        for r in file.records("routes") {
            let Some(prefix) = r.prefix("prefix") else {
                continue;
            };
            if prefix.addr.is_multicast() {
                let message = "multicast is not routed; allowed is a unicast network";
                self.error(r, "prefix", message);
            }
            let payload = Payload::of(prefix.addr);
            let table = r.uint("table").map_or(0, |n| n as u32);
            self.check_table(r, "table", table, payload);
            let ways = self.route_ways(r, payload);
            let key = (table, prefix.addr, prefix.len);
            if let Some(line) = seen.insert(key, r.at.line) {
                let message = format!(
                    "the route is here a second time, first on line {line}; several ways are written under `paths`"
                );
                self.error(r, "prefix", message);
            }
            let within = match table {
                0 => String::new(),
                n => format!(" table {n}"),
            };
            let to = format!("{}/{}", prefix.addr, prefix.len);
            self.line(
                r,
                "",
                format!("ip route add {to}{within} {}", ways.join(" ")),
            );
        }
    }

    /// The ways of a route: its action, or its paths.
    fn route_ways(&mut self, r: &Record, payload: Payload) -> Vec<String> {
        let said = ROUTE_WAYS.into_iter().find(|f| r.has(f));
        match (r.text("action"), said) {
            (Some(_), Some(field)) => {
                self.error(r, field, "either this or `action`, not both");
                Vec::new()
            }
            (Some(action), None) => vec![format!("via {action}")],
            (None, Some(_)) => self.ways(r, payload),
            (None, None) => {
                if !r.flawed {
                    let message = "a route leads somewhere; write `via`, `interface`, `paths`, `lookup-table` or \
                                   `action`";
                    self.error(r, "", message);
                }
                Vec::new()
            }
        }
    }
}
