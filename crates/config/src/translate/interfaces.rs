//! Interfaces: what each is, the command that makes it, its settings and its cross-connect.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::devices::option;
use super::{Builder, tunnels, vppcfg};
use crate::fields::{MAX_NUMBER, TYPES};
use crate::plan::{EngineSettings, word};
use crate::record::{Checked, Item, Record};
use crate::scalar::quoted;
use crate::schema::one_of;

/// Words that stand where the name of an interface may stand: as a name they would be taken for the word.
const RESERVED: &[&str] = &[
    "add",
    "all",
    "blackhole",
    "del",
    "disable",
    "drop",
    "local0",
    "out-labels",
    "packet",
    "pipe",
    "prohibit",
    "static",
    "table",
    "unreachable",
    "via",
    "weight",
    "ip4-lookup-in-table",
    "ip6-lookup-in-table",
    "mpls-lookup-in-table",
];

/// An interface of the file.
#[derive(Clone, Copy)]
pub struct Interface<'f> {
    pub name: &'f str,
    /// One of the words of [`TYPES`].
    pub kind: &'static str,
    /// What the name ends with, when it is the one that the type gives by itself.
    pub suffix: Option<&'f str>,
    /// Number that it is made with; without meaning for `af_packet`, `af_xdp` and `memif`.
    pub number: u32,
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
                "af_packet" | "af_xdp" => !suffix.is_empty(),
                "memif" => super::memif::numbers(suffix).is_some(),
                _ => number(),
            };
            good.then_some((*kind, suffix))
        })
    }

    /// Its addresses with their place in the list.
    pub fn addresses(&self) -> impl Iterator<Item = (&'f Item, parshall_command::Prefix)> {
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
    /// Number of its table for packets of an address's IP version.
    pub fn table_of(&self, addr: IpAddr) -> u32 {
        let own = self.record.get("ip6-table").filter(|_| addr.is_ipv6());
        let own = own.and_then(|i| i.value.uint());
        own.map_or_else(|| self.table(), |n| n as u32)
    }
}

impl<'f> Builder<'f, '_> {
    /// Finds out what each interface is.
    pub(super) fn identify_interfaces(&mut self, engine: &EngineSettings) {
        let file = self.file;
        let all: Vec<&Record> = file
            .interfaces()
            .iter()
            .chain(file.named("loopbacks"))
            .collect();
        if all.len() >= engine.interfaces {
            let message = format!(
                "{} interfaces and `local0`, but `limits.interfaces` is {}",
                all.len(),
                engine.interfaces
            );
            self.error(file, "interfaces", message);
        }
        let mut parts = Vec::new();
        for record in all {
            if let Some(i) = self.identify(record) {
                if self.by_name.insert(i.name, self.interfaces.len()).is_some() {
                    let message = format!("`{}` is under `interfaces` already", i.name);
                    self.error(record, "", message);
                }
                self.interfaces.push(i);
                parts.extend(record.named("sub-interfaces"));
            }
        }
        self.number_interfaces();
        // After all that they can be parts of.
        for part in parts {
            let i = Interface {
                name: &part.name,
                kind: "sub-interface",
                suffix: Some(&part.name),
                number: 0,
                record: part,
            };
            self.by_name.insert(i.name, self.interfaces.len());
            self.interfaces.push(i);
        }
    }

    fn identify(&mut self, record: &'f Record) -> Option<Interface<'f>> {
        let name: &'f str = &record.name;
        let given = record.get("type").and_then(|i| i.value.text());
        let given = given.and_then(|t| TYPES.iter().find(|(k, _)| *k == t));
        if let Some(kind) = vppcfg::kind_of(name).filter(|_| given.is_none()) {
            self.only_fields_of(kind, record);
            if kind == "hardware" {
                self.given.push(name.into());
            }
            return Some(Interface {
                name,
                kind,
                suffix: Some(name),
                number: 0,
                record,
            });
        }
        let said = Interface::of_name(name);
        let (kind, suffix) = match (said, given) {
            (Some((kind, suffix)), given) => {
                if let Some((other, _)) = given.filter(|(k, _)| *k != kind) {
                    let message = format!(
                        "`{name}` is the name of an interface of type {kind}, not {other}; choose another name"
                    );
                    self.error(record, "type", message);
                }
                (kind, Some(suffix))
            }
            (None, Some((kind, _))) if !RESERVED.contains(&name) => (*kind, None),
            _ if record.flawed && record.has("type") => return None,
            _ => {
                self.error(record, "", bad_name(name));
                return None;
            }
        };
        self.only_fields_of(kind, record);
        let number = suffix.and_then(|s| s.parse().ok()).unwrap_or(0);
        Some(Interface {
            name,
            kind,
            suffix,
            number,
            record,
        })
    }

    /// Gives those with a name of their own the lowest numbers that no name of the type takes: a driver
    /// makes MAC addresses of them.
    fn number_interfaces(&mut self) {
        let of_type = |i: &Interface<'f>| i.suffix.map(|_| (i.kind, i.number));
        let taken: BTreeSet<_> = self.interfaces.iter().filter_map(of_type).collect();
        let mut next: BTreeMap<&str, u32> = BTreeMap::new();
        for i in self.interfaces.iter_mut().filter(|i| i.suffix.is_none()) {
            let next = next.entry(i.kind).or_default();
            while taken.contains(&(i.kind, *next)) {
                *next += 1;
            }
            i.number = *next;
            *next += 1;
        }
        if let Some(i) = self
            .interfaces
            .iter()
            .find(|i| i.number > MAX_NUMBER)
            .copied()
        {
            let message = format!(
                "too many of type {}; at most {} are allowed",
                i.kind,
                MAX_NUMBER + 1
            );
            self.error(i.record, "", message);
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
            if let Some(line) = self.made_by_vppcfg(i) {
                if !line.is_empty() {
                    self.line(i.record, "", line);
                }
                continue;
            }
            let n = i.number;
            let mac = |words| option(i.record, "mac", words);
            let name = match i.suffix {
                None => format!(" name {}", i.name),
                Some(_) => String::new(),
            };
            let line = match i.kind {
                "af_packet" => self.host_interface(i),
                "af_xdp" => self.af_xdp(i),
                "memif" => self.memif(i),
                "tap" => format!("create tap id {n}{name}{}", self.tap(i.record)),
                "loopback" => format!("create loopback interface instance {n}{name}{}", mac("mac")),
                "pg" => format!(
                    "create packet-generator interface pg{n}{name}{}",
                    mac("hw-addr")
                ),
                _ => format!(
                    "create pcap interface instance {n}{name}{}",
                    self.pcap(i.record)
                ),
            };
            self.line(i.record, "", line);
        }
        self.bonds_and_parts();
    }

    /// Commands for what they are to be like.
    pub(super) fn set_up_interfaces(&mut self) {
        self.sizes();
        for i in self.interfaces.clone() {
            let (r, name) = (i.record, i.name);
            let part = i.kind == "sub-interface";
            let tunnel = tunnels::kind_of(name).is_some();
            if let Some(mac) = tunnel.then(|| r.mac("mac")).flatten() {
                self.line(r, "mac", format!("set interface mac address {name} {mac}"));
            }
            if let Some(tag) = r.text("tag") {
                let line = format!("set interface tag {name} {}", word(tag));
                self.line(r, "tag", line);
            }
            self.filter(i);
            if !part {
                if r.bool("promiscuous") {
                    let line = format!("set interface promiscuous on {name}");
                    self.line(r, "promiscuous", line);
                }
                self.place_queues(i);
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
        self.unnumbered_and_twins();
    }

    /// Those of bonds after those of their members, whose frames are no shorter then.
    fn sizes(&mut self) {
        let mut all = self.interfaces.clone();
        all.sort_by_key(|i| ["bond", "sub-interface"].iter().position(|k| *k == i.kind));
        for i in all {
            let part = i.kind == "sub-interface";
            let both = i.record.has("mtu");
            if both && i.record.maybe("packet-mtu").is_some() {
                self.error(i.record, "packet-mtu", "either this or `mtu`, not both");
            }
            let (field, only) = match both {
                true => ("mtu", if part { "packet " } else { "" }),
                false => ("packet-mtu", "packet "),
            };
            let Some(mtu) = i.record.maybe(field).and_then(|m| m.value.uint()) else {
                continue;
            };
            let line = format!("set interface mtu {only}{mtu} {}", i.name);
            self.line(i.record, field, line);
        }
    }

    fn place_queues(&mut self, i: Interface<'_>) {
        for (queue, item) in i.record.list("rx-placement").iter().enumerate() {
            let Some(worker) = item.value.uint() else {
                continue;
            };
            if worker >= self.workers as u64 {
                let message = format!(
                    "there is no worker {worker}: `workers` makes {}, the first is 0",
                    self.workers
                );
                self.report.add(item.at, item.field.clone(), message);
            }
            let line = format!(
                "set interface rx-placement {} queue {queue} worker {worker}",
                i.name
            );
            self.line(i.record, "rx-placement", line);
        }
        if let Some(mode) = i.record.text("rx-mode") {
            let line = format!("set interface rx-mode {} {mode}", i.name);
            self.line(i.record, "rx-mode", line);
        }
    }

    fn bind_table(&mut self, i: Interface<'_>) {
        if let Some(table) = i.record.get("ip6-table").and_then(|t| t.value.uint()) {
            let table = table as u32;
            if !self.tables[1].contains(&table) {
                self.error(i.record, "ip6-table", no_table(table, Some("IPv6")));
            }
            let line = format!("set interface ip6 table {} {table}", i.name);
            if table != 0 {
                self.line(i.record, "ip6-table", line);
            }
        }
        let table = i.table();
        if table == 0 {
            return;
        }
        let has = [0, 1].map(|v: usize| self.tables[v].contains(&table));
        if has == [false, false] {
            self.error(i.record, "table", no_table(table, None));
        }
        for (version, words) in [(0, "ip"), (1, "ip6")] {
            if has[version] && (version == 0 || !i.record.has("ip6-table")) {
                let line = format!("set interface {words} table {} {table}", i.name);
                self.line(i.record, "table", line);
            }
        }
    }

    /// Members of bonds, and whether their bond, and they with it, is to be up.
    pub(super) fn led(&self) -> BTreeMap<&'f str, bool> {
        let file: &'f Record = self.file;
        let mut led = BTreeMap::new();
        for bond in file.named("bondethernets") {
            let up = |b: &Interface<'_>| b.record.text("state") != Some("down");
            let index = self.by_name.get(&*bond.name);
            let up = index.and_then(|n| self.interfaces.get(*n)).is_none_or(up);
            let members = bond.list("interfaces").iter();
            led.extend(members.filter_map(|m| Some((m.value.text()?, up))));
        }
        led
    }

    /// Commands that bring them up.
    pub(super) fn bring_up(&mut self) {
        let leaders = self.led();
        for i in self.interfaces.clone() {
            let own = i.record.text("state").map(|s| s == "up");
            let led = leaders.get(i.name).copied();
            if own == Some(false) && led == Some(true) {
                let message = "a member of a bond is up with it; leave this out";
                self.error(i.record, "state", message);
            }
            if led.or(own).unwrap_or(true) {
                let line = format!("set interface state {} up", i.name);
                self.line(i.record, "state", line);
            }
        }
    }
}

/// "table 10 is not ...": of one IP version, or of any.
pub(super) fn no_table(table: u32, version: Option<&str>) -> String {
    let of = version.map_or(String::new(), |v| format!(" for {v}"));
    format!("there is no table {table}{of} in this file; add it under `tables`")
}

fn bad_name(name: &str) -> String {
    if name == "local0" {
        return "`local0` is the router itself and cannot be configured".into();
    }
    if RESERVED.contains(&name) {
        return format!("`{name}` is a word of the command language; choose another name");
    }
    format!(
        "{} says of no type what it is; write `type`, or a name such as `host-eth0`, `memif0/0`, or `tap`, `loop`, `pg` \
         or `pcap` and a number from 0 to {MAX_NUMBER}",
        quoted(name)
    )
}
