//! Cross-connects, bridge domains, and the tags of what is switched.

use std::collections::{BTreeMap, BTreeSet};

use super::Builder;
use super::interfaces::Interface;
use super::vppcfg::{number, tags};
use crate::plan::word;
use crate::record::{Checked, Record};

/// Settings of a bridge domain: field, word of the command, what it is without.
const SETTINGS: [(&str, &str, bool); 6] = [
    ("learn", "learn", true),
    ("unicast-flood", "flood", true),
    ("unknown-unicast-flood", "uu-flood", true),
    ("unicast-forward", "forward", true),
    ("arp-termination", "arp-term", false),
    ("arp-unicast-forward", "arp-ufwd", false),
];

impl<'f> Builder<'f, '_> {
    /// Commands for cross-connects. Each is one pair, whichever of the two says so.
    pub(super) fn cross_connect(&mut self) {
        let mut pairs: BTreeMap<&str, &str> = BTreeMap::new();
        for i in self.interfaces.clone() {
            let Some(item) = i.record.get("xconnect") else {
                continue;
            };
            let Some(peer) = self.interface(item) else {
                continue;
            };
            if peer.name == i.name {
                let message = "an interface cannot be cross-connected with itself";
                self.error(i.record, "xconnect", message);
                continue;
            }
            let taken = [(i.name, peer.name), (peer.name, i.name)];
            let other = taken.iter().find_map(|(a, b)| {
                let has = pairs.get(a).filter(|has| *has != b)?;
                Some((*a, *has))
            });
            if let Some((a, has)) = other {
                let message =
                    format!("`{a}` is cross-connected with `{has}` already; there is one peer");
                self.error(i.record, "xconnect", message);
                continue;
            }
            for (a, b) in taken {
                if pairs.insert(a, b).is_none() {
                    self.line(
                        i.record,
                        "xconnect",
                        format!("set interface l2 xconnect {a} {b}"),
                    );
                }
            }
            self.nothing_routed(i);
            self.nothing_routed(peer);
        }
    }

    /// Commands for cross-connects of one direction.
    pub(super) fn cross_one_way(&mut self) {
        for i in self.interfaces.clone() {
            let Some(item) = i.record.get("l2xc") else {
                continue;
            };
            if i.record.has("xconnect") {
                self.error(i.record, "l2xc", "either this or `xconnect`, not both");
            }
            let Some(peer) = self.interface(item) else {
                continue;
            };
            if peer.name == i.name {
                let message = "an interface cannot be cross-connected with itself";
                self.error(i.record, "l2xc", message);
                continue;
            }
            let line = format!("set interface l2 xconnect {} {}", i.name, peer.name);
            self.line(i.record, "l2xc", line);
            self.nothing_routed(i);
        }
    }

    /// A cross-connected interface hands everything on: what belongs to routing would have no effect.
    fn nothing_routed(&mut self, i: Interface<'_>) {
        for field in ["addresses", "table", "ip6-table", "mpls", "ip6"] {
            let off = matches!(i.record.value(field), Some(Checked::Bool(false)));
            if i.record.has(field) && !off {
                let message = "the interface is cross-connected and routes nothing; leave this out";
                self.error(i.record, field, message);
            }
        }
    }

    /// Commands for bridge domains and their members, and for the tags of what is switched.
    pub(super) fn bridges(&mut self) {
        let file: &'f Record = self.file;
        let mut switched = BTreeSet::new();
        for r in file.named("bridgedomains") {
            let Some(id) = number(&r.name, "bd").filter(|n| (1..=65_535).contains(n)) else {
                self.error(
                    r,
                    "",
                    "the name of a bridge domain is `bd` and a number from 1 to 65535",
                );
                continue;
            };
            let mut line = format!("create bridge-domain {id}{}", settings(r));
            if let Some(tag) = r.text("tag") {
                line += &format!(" bd-tag {}", word(tag));
            }
            self.line(r, "", line);
            if let Some((s, limit)) = r
                .record("settings")
                .and_then(|s| Some((s, s.uint("learn-limit")?)))
            {
                let line = format!("set bridge-domain learn-limit {id} {limit}");
                self.line(s, "learn-limit", line);
            }
            switched.extend(self.ports(r, id));
            self.owners(r, id, ("arp-entries", false));
            self.owners(r, id, ("nd-entries", true));
            self.stations(r, id);
        }
        self.rewrite_tags(&switched);
    }

    /// Commands for the ports of a domain; says those that are switched.
    fn ports(&mut self, r: &'f Record, id: u32) -> Vec<&'f str> {
        let mut switched = Vec::new();
        let single = |field| r.get(field).map(|item| (item, field));
        let several = r.list("interfaces").iter().map(|item| (item, "interfaces"));
        let roles = [single("uu-fwd"), single("bvi")];
        for (item, field) in several.chain(roles.into_iter().flatten()) {
            let Some(port) = self.interface(item) else {
                continue;
            };
            let mut line = format!("set interface l2 bridge {} {id}", port.name);
            match field {
                "interfaces" => {}
                role => line += &format!(" {role}"),
            }
            let group = port.record.uint("split-horizon-group");
            if let Some(n) = group.filter(|n| *n > 0) {
                line += &format!(" {n}");
            }
            if field != "bvi" {
                switched.push(port.name);
            }
            self.line(r, field, line);
        }
        switched
    }

    /// Commands for those who have IP addresses, of version 4 or 6.
    fn owners(&mut self, r: &Record, id: u32, (field, ip6): (&str, bool)) {
        for entry in r.records(field) {
            let (Some(ip), Some(mac)) = (entry.address("address"), entry.mac("mac")) else {
                continue;
            };
            if ip.is_ipv6() != ip6 {
                let message = match ip6 {
                    true => {
                        "neighbour discovery is about IPv6 addresses; write this under `arp-entries`"
                    }
                    false => "ARP is about IPv4 addresses; write this under `nd-entries`",
                };
                self.error(entry, "address", message);
            }
            let line = format!("set bridge-domain arp entry {id} {ip} {mac}");
            self.line(entry, "", line);
        }
    }

    fn stations(&mut self, r: &'f Record, id: u32) {
        let ports = r.list("interfaces").iter();
        let ports = ports.chain(r.get("uu-fwd")).chain(r.get("bvi"));
        let ports: BTreeSet<&str> = ports.filter_map(|p| p.value.text()).collect();
        for station in r.records("stations") {
            let Some(mac) = station.mac("mac") else {
                continue;
            };
            let kind = station.text("kind").unwrap_or("static");
            let line = match (kind, station.text("interface")) {
                ("filter", _) => format!("l2fib add {mac} {id} filter"),
                (_, Some(port)) if ports.contains(port) => {
                    format!("l2fib add {mac} {id} {port} {kind}")
                }
                (_, port) => {
                    let message = match port {
                        Some(port) => format!("`{port}` is no port of this bridge domain"),
                        None => "`interface` is missing; write the name of a port".into(),
                    };
                    self.error(station, "interface", message);
                    continue;
                }
            };
            self.line(station, "", line);
        }
    }

    /// Commands for the tags of what is switched.
    fn rewrite_tags(&mut self, switched: &BTreeSet<&str>) {
        for i in self.interfaces.clone() {
            let part = i.kind == "sub-interface";
            let l2 = switched.contains(i.name) || i.record.has("l2xc");
            let line = match i.record.text("tag-rewrite") {
                Some("disable") => continue,
                Some(words) => words.to_owned(),
                // As vppcfg does: what is switched is so without its own tags.
                None if part && l2 => format!("pop {}", tags(i.record)),
                None => continue,
            };
            let line = format!("set interface l2 tag-rewrite {} {line}", i.name);
            self.line(i.record, "tag-rewrite", line);
        }
    }
}

fn settings(r: &Record) -> String {
    let mut words = String::new();
    let Some(s) = r.record("settings") else {
        return words;
    };
    for (field, word, default) in SETTINGS {
        if let Some(Checked::Bool(on)) = s.get(field).map(|i| &i.value)
            && *on != default
        {
            words += &format!(" {word} {}", u8::from(*on));
        }
    }
    if let Some(age) = s.uint("mac-age-minutes").filter(|n| *n > 0) {
        words += &format!(" mac-age {age}");
    }
    words
}
