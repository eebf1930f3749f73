//! Interfaces: what each is, the command that makes it, its settings and its cross-connect.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::Builder;
use crate::fields::{MAX_NUMBER, TYPES};
use crate::plan::{EngineSettings, word};
use crate::record::{Checked, Record};
use crate::scalar::quoted;
use crate::schema::one_of;

/// An interface of the file.
#[derive(Clone, Copy)]
pub struct Interface<'f> {
    pub name: &'f str,
    /// One of the words of [`TYPES`].
    pub kind: &'static str,
    /// What follows the start of the name that the type gives.
    pub suffix: &'f str,
    pub record: &'f Record,
}

impl<'f> Interface<'f> {
    /// What a name says: the type, and what follows its start.
    fn of_name(name: &'f str) -> Option<(&'static str, &'f str)> {
        let mut types = TYPES.iter();
        types.find_map(|(kind, stem)| {
            let suffix = name.strip_prefix(stem)?;
            let number = || {
                let n = suffix.parse::<u32>().ok().filter(|n| *n <= MAX_NUMBER);
                // `tap01` would be made as `tap1`.
                n.is_some_and(|n| n.to_string() == suffix)
            };
            let good = match *kind {
                "af_packet" => !suffix.is_empty(),
                _ => number(),
            };
            good.then_some((*kind, suffix))
        })
    }

    /// Its addresses with their place in the list.
    pub fn addresses(
        &self,
    ) -> impl Iterator<Item = (&'f crate::record::Item, parshall_command::Prefix)> {
        let items = self.record.list("addresses").iter();
        items.filter_map(|i| match i.value {
            Checked::Prefix(p) => Some((i, p)),
            _ => None,
        })
    }

    /// Number of its table.
    pub fn table(&self) -> u32 {
        self.record.uint("table").map_or(0, |n| n as u32)
    }
}

impl<'f> Builder<'f, '_> {
    /// Finds out what each interface is.
    pub(super) fn identify_interfaces(&mut self, engine: &EngineSettings) {
        let file = self.file;
        let all = file.interfaces();
        if all.len() >= engine.interfaces {
            let message = format!(
                "{} interfaces and `local0`, but `limits.interfaces` is {}",
                all.len(),
                engine.interfaces
            );
            self.error(file, "interfaces", message);
        }
        for record in all {
            let name: &'f str = &record.name;
            let Some((kind, suffix)) = Interface::of_name(name) else {
                self.error(record, "", bad_name(name));
                continue;
            };
            if let Some(given) = record.text("type").filter(|t| *t != kind) {
                let message = format!(
                    "`{name}` is the name of an interface of type {kind}, not {given}; {}",
                    names_of(given)
                );
                self.error(record, "type", message);
            }
            self.only_fields_of(kind, record);
            self.by_name.insert(name, self.interfaces.len());
            self.interfaces.push(Interface {
                name,
                kind,
                suffix,
                record,
            });
        }
    }

    /// Reports fields that interfaces of this type do not have.
    fn only_fields_of(&mut self, kind: &str, record: &Record) {
        for field in record.section.fields {
            if record.has(field.name) && !field.only.is_empty() && !field.only.contains(&kind) {
                let message = format!(
                    "an interface of type {kind} has no such field; only {} has",
                    one_of(field.only)
                );
                self.error(record, field.name, message);
            }
        }
    }

    /// Commands that make them.
    pub(super) fn create_interfaces(&mut self) {
        for i in self.interfaces.clone() {
            let line = match i.kind {
                "af_packet" => self.host_interface(i),
                "tap" => self.tap(i),
                "loopback" => {
                    let mac = option(i.record, "mac", "mac");
                    format!("create loopback interface instance {}{mac}", i.suffix)
                }
                "pg" => format!("create packet-generator interface {}", i.name),
                _ => self.pcap(i),
            };
            self.line(i.record, "", line);
        }
    }

    fn host_interface(&mut self, i: Interface<'_>) -> String {
        let r = i.record;
        let linux = r.text("host-interface").unwrap_or(i.suffix);
        if linux != i.suffix {
            let message = format!(
                "the interface of Linux's {} is called `host-{linux}`, not `{}`",
                quoted(linux),
                i.name
            );
            self.error(r, "host-interface", message);
        }
        if linux.len() > 15 {
            let message = format!(
                "{} cannot be the name of a Linux interface; it has 1 to 15 bytes",
                quoted(linux)
            );
            self.error(r, "host-interface", message);
        }
        let mac = option(r, "mac", "hw-addr");
        let namespace = option(r, "namespace", "host-ns");
        let queues = option(r, "queues", "num-rx-queues");
        format!(
            "create host-interface name {}{mac}{namespace}{queues}",
            word(linux)
        )
    }

    fn tap(&mut self, i: Interface<'_>) -> String {
        let r = i.record;
        let mut line = format!("create tap id {}", i.suffix);
        for (field, words) in [
            ("mac", "hw-addr"),
            ("queues", "num-rx-queues"),
            ("namespace", "host-ns"),
            ("host-interface", "host-if-name"),
            ("host-mac", "host-mac-addr"),
            ("host-mtu", "host-mtu-size"),
        ] {
            line += &option(r, field, words);
        }
        for item in r.list("host-addresses") {
            if let Checked::Prefix(p) = item.value {
                let version = if p.addr.is_ipv4() { 4 } else { 6 };
                line += &format!(" host-ip{version}-addr {}/{}", p.addr, p.len);
            }
        }
        let mut versions = [false; 2];
        for item in r.list("host-gateways") {
            let Checked::Address(a) = item.value else {
                continue;
            };
            if std::mem::replace(&mut versions[usize::from(a.is_ipv6())], true) {
                let message = format!("{a} is a second gateway of its IP version; there is one");
                self.report.add(item.at, item.field.clone(), message);
            }
            self.check_gateway(r, item, a);
            let version = if a.is_ipv4() { 4 } else { 6 };
            line += &format!(" host-ip{version}-gw {a}");
        }
        line
    }

    fn check_gateway(&mut self, r: &Record, item: &crate::record::Item, gateway: IpAddr) {
        let on_link = |i: &crate::record::Item| match i.value {
            Checked::Prefix(p) => crate::scalar::contains(p, gateway),
            _ => false,
        };
        if !r.list("host-addresses").iter().any(on_link) && !r.flawed {
            let message =
                format!("gateway {gateway} is in none of the subnets of `host-addresses`");
            self.report.add(item.at, item.field.clone(), message);
        }
    }

    fn pcap(&mut self, i: Interface<'_>) -> String {
        let r = i.record;
        if !r.has("receive") && !r.has("transmit") && !r.flawed {
            let message = "a pcap interface needs `receive`, `transmit` or both";
            self.error(r, "", message);
        }
        for field in ["loop", "speed"] {
            if r.has(field) && !r.has("receive") {
                self.error(r, field, "this is about `receive`, which is not there");
            }
        }
        let mut line = format!("create pcap id {}", i.suffix);
        line += &option(r, "receive", "rx");
        line += &option(r, "transmit", "tx");
        if r.bool("loop") {
            line += " loop";
        }
        line += &option(r, "speed", "speed");
        line += &option(r, "mac", "hw-addr");
        line
    }

    /// Commands for what they are to be like.
    pub(super) fn set_up_interfaces(&mut self) {
        for i in self.interfaces.clone() {
            let (r, name) = (i.record, i.name);
            if let (Some(mac), "pg") = (r.mac("mac"), i.kind) {
                self.line(r, "mac", format!("set interface mac address {name} {mac}"));
            }
            if let Some(mtu) = r.uint("mtu") {
                self.line(r, "mtu", format!("set interface mtu {mtu} {name}"));
            }
            if r.bool("promiscuous") {
                let line = format!("set interface promiscuous on {name}");
                self.line(r, "promiscuous", line);
            }
            self.bind_table(i);
            if r.bool("mpls") {
                self.line(r, "mpls", format!("set interface mpls {name} enable"));
            }
            if r.bool("ip6") {
                self.line(r, "ip6", format!("enable ip6 interface {name}"));
            }
        }
        self.addresses();
    }

    fn bind_table(&mut self, i: Interface<'_>) {
        let table = i.table();
        if table == 0 {
            return;
        }
        let has = [0, 1].map(|v: usize| self.tables[v].contains(&table));
        if has == [false, false] {
            self.error(i.record, "table", no_table(table, None));
        }
        for (version, words) in [(0, "ip"), (1, "ip6")] {
            if has[version] {
                let line = format!("set interface {words} table {} {table}", i.name);
                self.line(i.record, "table", line);
            }
        }
    }

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

    /// A cross-connected interface hands everything on: what belongs to routing would have no effect.
    fn nothing_routed(&mut self, i: Interface<'_>) {
        for field in ["addresses", "table", "mpls", "ip6"] {
            let off = matches!(i.record.value(field), Some(Checked::Bool(false)));
            if i.record.has(field) && !off {
                let message = "the interface is cross-connected and routes nothing; leave this out";
                self.error(i.record, field, message);
            }
        }
    }

    /// Commands that bring them up.
    pub(super) fn bring_up(&mut self) {
        for i in self.interfaces.clone() {
            if i.record.text("state") != Some("down") {
                self.line(
                    i.record,
                    "state",
                    format!("set interface state {} up", i.name),
                );
            }
        }
    }
}

/// " WORDS VALUE" when the field is there.
fn option(r: &Record, field: &str, words: &str) -> String {
    let value = match r.get(field).map(|i| &i.value) {
        Some(Checked::Text(t)) => word(t),
        Some(Checked::Uint(n)) => n.to_string(),
        Some(Checked::Float(n)) => n.to_string(),
        Some(Checked::Mac(m)) => m.to_string(),
        _ => return String::new(),
    };
    format!(" {words} {value}")
}

/// "table 10 is not ...": of one IP version, or of any.
pub(super) fn no_table(table: u32, version: Option<&str>) -> String {
    let of = version.map_or(String::new(), |v| format!(" for {v}"));
    format!("there is no table {table}{of} in this file; add it under `tables`")
}

fn names_of(kind: &str) -> String {
    match TYPES.iter().find(|(k, _)| *k == kind) {
        Some((_, "host-")) => "those are called `host-` and the name of the Linux interface".into(),
        Some((_, stem)) => format!("those are called `{stem}0` to `{stem}{MAX_NUMBER}`"),
        None => String::new(),
    }
}

fn bad_name(name: &str) -> String {
    if name == "local0" {
        return "`local0` is the router itself and cannot be configured".into();
    }
    format!(
        "{} says of no type what it is; names are `host-` and the name of a Linux interface, or \
         `tap`, `loop`, `pg` or `pcap` and a number from 0 to {MAX_NUMBER}",
        quoted(name)
    )
}
