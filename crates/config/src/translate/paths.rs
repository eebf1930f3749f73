//! Paths of routes and labels: the `via ...` of a command.

use std::net::IpAddr;

use super::Builder;
use super::interfaces::no_table;
use crate::record::{Checked, Record};

/// What is forwarded over a path.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Payload {
    Ip4,
    Ip6,
    Mpls,
}

impl Payload {
    pub fn of(addr: IpAddr) -> Payload {
        if addr.is_ipv4() {
            Payload::Ip4
        } else {
            Payload::Ip6
        }
    }
    /// Word of the lookup commands and of the messages.
    pub fn words(self) -> (&'static str, &'static str) {
        match self {
            Payload::Ip4 => ("ip4", "IPv4"),
            Payload::Ip6 => ("ip6", "IPv6"),
            Payload::Mpls => ("mpls", "MPLS"),
        }
    }
}

/// Fields that make a path.
const PATH: [&str; 4] = ["via", "interface", "labels", "lookup-table"];

impl Builder<'_, '_> {
    /// The ways out of a record that is one path or lists several. Empty when it has none.
    pub(super) fn ways(&mut self, r: &Record, payload: Payload) -> Vec<String> {
        let single = PATH.into_iter().find(|f| r.maybe(f).is_some());
        if !r.has("paths") {
            return match single {
                Some(_) => self.path(r, payload).into_iter().collect(),
                None => Vec::new(),
            };
        }
        if let Some(field) = single {
            self.error(r, field, "either this or `paths`, not both");
        }
        if r.list("paths").is_empty() && !r.flawed {
            self.error(r, "paths", "the list is empty; write at least one path");
        }
        r.records("paths")
            .filter_map(|p| self.path(p, payload))
            .collect()
    }

    /// One path; `None` when something about it has been reported.
    fn path(&mut self, r: &Record, payload: Payload) -> Option<String> {
        let mut text = if let Some(action) = r.maybe("action").and_then(|i| i.value.text()) {
            if let Some(field) = PATH.into_iter().find(|f| r.maybe(f).is_some()) {
                self.error(r, field, "either this or `action`, not both");
            }
            format!("via {action}")
        } else if r.maybe("lookup-table").is_some() {
            self.lookup(r, payload)?
        } else {
            self.hop(r, payload)?
        };
        if let Some(weight) = r.maybe("weight").and_then(|i| i.value.uint()) {
            text += &format!(" weight {weight}");
        }
        let labels = labels(r);
        if !labels.is_empty() {
            text += &format!(" out-labels {}", labels.join(" "));
        }
        if r.bool("pipe") {
            if labels.is_empty() && !r.flawed {
                self.error(r, "pipe", "this is about `labels`, which are not there");
            }
            text += " pipe";
        }
        Some(text)
    }

    fn lookup(&mut self, r: &Record, payload: Payload) -> Option<String> {
        for field in ["via", "interface", "labels", "pipe"] {
            if r.has(field) {
                self.error(r, field, "either this or `lookup-table`, not both");
                return None;
            }
        }
        let table = r.uint("lookup-table")? as u32;
        self.check_table(r, "lookup-table", table, payload);
        Some(format!("via {}-lookup-in-table {table}", payload.words().0))
    }

    fn hop(&mut self, r: &Record, payload: Payload) -> Option<String> {
        let out = match r.get("interface") {
            Some(item) => Some(self.interface(item)?),
            None => None,
        };
        let Some(hop) = r.address("via") else {
            if r.flawed {
                return None;
            }
            let why = match (payload, out) {
                (Payload::Mpls, _) => "a label needs a next hop; write `via`",
                (_, None) => "a path needs `via`, `interface` or `lookup-table`",
                (_, Some(_)) if r.has("labels") => {
                    "labels can be pushed only towards a next hop; write `via`"
                }
                (_, Some(i)) => return Some(format!("via {}", i.name)),
            };
            self.error(r, "", why);
            return None;
        };
        let wrong = self.wrong_hop(r, payload, hop).or_else(|| {
            let own = out.filter(|i| i.addresses().any(|(_, p)| p.addr == hop));
            own.map(|i| format!("{hop} is the address of `{}` itself", i.name))
        });
        if let Some(message) = wrong {
            self.error(r, "via", message);
            return None;
        }
        Some(match out {
            Some(i) => format!("via {hop} {}", i.name),
            None => format!("via {hop}"),
        })
    }

    fn wrong_hop(&self, r: &Record, payload: Payload, hop: IpAddr) -> Option<String> {
        if hop.is_unspecified() || hop.is_multicast() || hop.is_loopback() {
            return Some(format!("{hop} is not the address of a neighbour"));
        }
        // RFC 4364, RFC 4798: labelled, either version travels towards a next hop of either.
        if payload != Payload::Mpls && payload != Payload::of(hop) && !r.has("labels") {
            let version = payload.words().1;
            return Some(format!(
                "{hop} will not do; allowed is an {version} address"
            ));
        }
        let link_local = matches!(hop, IpAddr::V6(a) if a.is_unicast_link_local());
        (link_local && !r.has("interface"))
            .then(|| format!("{hop} is link-local; name the `interface` too"))
    }

    /// Reports a table that is not there.
    pub(super) fn check_table(&mut self, r: &Record, field: &str, table: u32, payload: Payload) {
        let there = match payload {
            Payload::Ip4 => self.tables[0].contains(&table),
            Payload::Ip6 => self.tables[1].contains(&table),
            Payload::Mpls => table == 0,
        };
        if !there {
            let message = match payload {
                Payload::Mpls => format!("there is no MPLS table {table}; allowed is 0"),
                _ => no_table(table, Some(payload.words().1)),
            };
            self.error(r, field, message);
        }
    }
}

/// The labels that a path pushes, outermost first.
fn labels(r: &Record) -> Vec<String> {
    let of = |v: &Checked| v.uint().map(|n| n.to_string());
    match r.get("labels").map(|i| &i.value) {
        Some(Checked::List(items)) => items.iter().filter_map(|i| of(&i.value)).collect(),
        Some(value) => of(value).into_iter().collect(),
        None => Vec::new(),
    }
}
