//! Tables, neighbours, routes and labels, of those that were configured.

use serde_json::{Value, json};

use super::section::Section;
use crate::neighbor::{NeighborConfig, NeighborState};
use crate::path::{Path, Via};
use crate::prefix::Family;
use crate::rib::Source;
use crate::router::Router;

impl Router {
    pub(super) fn table_list(&self) -> Vec<Value> {
        let mut all: std::collections::BTreeMap<u32, Vec<Family>> = Default::default();
        for (family, id) in self.rib.tables().map(|(at, _)| *at) {
            all.entry(id).or_default().push(family);
        }
        all.remove(&0);
        let one = |(id, families): (u32, Vec<Family>)| match families.as_slice() {
            [Family::Ip4] => json!({"id": id, "family": "ip4"}),
            [Family::Ip6] => json!({"id": id, "family": "ip6"}),
            _ => json!({"id": id}),
        };
        all.into_iter().map(one).collect()
    }

    pub(super) fn neighbor_list(&self) -> Vec<Value> {
        let all = self.neighbors.iter().flat_map(|t| t.iter());
        let fixed = all.filter(|(_, n)| n.state == NeighborState::Static);
        let mut list: Vec<_> = fixed
            .filter_map(|(k, n)| Some((self.interfaces.name(k.if_index), k.ip, n.mac?)))
            .collect();
        list.sort();
        let one = |(interface, address, mac)| json!({"interface": interface, "address": address, "mac": crate::text::mac(mac)});
        list.into_iter().map(one).collect()
    }

    /// How neighbours are kept, where that is not as it always is.
    pub(super) fn neighbor_settings(&self) -> Section {
        let mut both = Section::default();
        let usual = NeighborConfig::default();
        for (name, table) in ["ip4", "ip6"].into_iter().zip(&self.neighbors) {
            let c = table.config();
            let mut r = Section::default();
            r.unless("limit", c.limit.into(), usual.limit.into());
            r.unless("age", c.age.into(), usual.age.into());
            r.unless("rate", c.rate.into(), usual.rate.into());
            both.section(name, r);
        }
        both
    }

    pub(super) fn route_list(&self) -> Vec<Value> {
        let mut list = Vec::new();
        for (&(_, table), routes) in self.rib.tables() {
            for (net, route) in routes.routes() {
                let Some(paths) = route.source(Source::Static).and_then(|l| self.rib.list(l))
                else {
                    continue;
                };
                let mut r = Section::default();
                r.put("prefix", net.to_string());
                r.unless("table", table.into(), 0);
                self.ways(&mut r, paths.paths());
                list.push(Value::Object(r.0));
            }
        }
        list
    }

    /// One way in the section itself, several as a list.
    fn ways(&self, r: &mut Section, paths: &[Path]) {
        if let [one] = paths {
            let action = match one.via {
                Via::Blackhole => Some("blackhole"),
                Via::Prohibit => Some("prohibit"),
                Via::Unreachable => Some("unreachable"),
                _ => None,
            };
            if action.is_some() && one.weight == 1 && one.labels.is_empty() {
                return r.some("action", action);
            }
            if one.weight == 1 {
                return self.way(r, one);
            }
        }
        let path = |p: &Path| {
            let mut path = Section::default();
            self.way(&mut path, p);
            path.unless("weight", p.weight.into(), 1);
            Value::Object(path.0)
        };
        r.list("paths", paths.iter().map(path).collect());
    }

    fn way(&self, r: &mut Section, path: &Path) {
        match path.via {
            Via::NextHop { ip, if_index } => {
                r.put("via", ip.to_string());
                r.some("interface", if_index.map(|i| self.interfaces.name(i)));
            }
            Via::Attached { if_index } => r.put("interface", self.interfaces.name(if_index)),
            Via::Lookup { table, .. } => r.put("lookup-table", table),
            Via::Blackhole => r.put("action", "blackhole"),
            Via::Prohibit => r.put("action", "prohibit"),
            Via::Unreachable => r.put("action", "unreachable"),
            // Such paths are not of the operator's making.
            Via::Receive { .. } | Via::LookupMpls => {}
        }
        r.list("labels", path.labels.iter().map(|l| (*l).into()).collect());
        r.on("pipe", path.pipe);
    }

    pub(super) fn mpls_section(&self) -> Section {
        let mut section = Section::default();
        let mut list = Vec::new();
        for (label, eos, id) in self.rib.labels() {
            let Some(paths) = self.rib.list(id) else {
                continue;
            };
            let mut r = Section::default();
            r.put("label", label);
            r.put("stack", if eos { "eos" } else { "non-eos" });
            match paths.paths() {
                [
                    Path {
                        via: Via::Lookup { family, table },
                        ..
                    },
                ] => {
                    let word = match family {
                        Family::Ip4 => "ip4",
                        Family::Ip6 => "ip6",
                    };
                    r.put("pop", word);
                    r.unless("table", (*table).into(), 0);
                }
                [
                    Path {
                        via: Via::LookupMpls,
                        ..
                    },
                ] => r.put("pop", "mpls"),
                paths => self.ways(&mut r, paths),
            }
            list.push(Value::Object(r.0));
        }
        section.list("labels", list);
        section.on("table", self.mpls_table);
        section
    }
}
