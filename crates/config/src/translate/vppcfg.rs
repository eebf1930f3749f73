//! vppcfg's sections: bonds, sub-interfaces, taps. Commands for them, in VPP's language.
//!
//! The rules that vppcfg 1.2 holds a file against are in `vppcfg_rules`.

use super::devices::option;
use super::interfaces::Interface;
use super::{Builder, tunnels};
use crate::record::Record;

/// Whether a name is one that VPP gives to hardware: such an interface is there or is not, and a file cannot make it.
pub fn is_hardware(name: &str) -> bool {
    let stem = name
        .split(|c: char| c.is_ascii_digit())
        .next()
        .unwrap_or("");
    stem.ends_with("Ethernet") && stem != "BondEthernet" && name.contains('/')
}

/// The number behind `stem`, written as VPP writes it.
pub fn number(name: &str, stem: &str) -> Option<u32> {
    let digits = name.strip_prefix(stem)?;
    let n = digits.parse::<u32>().ok()?;
    (n.to_string() == digits).then_some(n)
}

/// The kind of an interface that only vppcfg's sections make, or that is hardware; by its name.
pub fn kind_of(name: &str) -> Option<&'static str> {
    if is_hardware(name) {
        return Some("hardware");
    }
    let bond = number(name, "BondEthernet").map(|_| "bond");
    bond.or_else(|| tunnels::kind_of(name))
}

/// How many tags a sub-interface's frames have, as far as numbers say it.
pub fn tags(r: &Record) -> usize {
    let inner = r
        .record("encapsulation")
        .is_some_and(|e| e.has("inner-dot1q"));
    1 + usize::from(inner)
}

/// What is said of members of a bond: field, word of the command.
const LACP: [(&str, &str); 2] = [("passive", "passive"), ("long-timeout", "long-timeout")];

impl<'f> Builder<'f, '_> {
    /// The named record of a section.
    pub(super) fn named(&self, section: &str, name: &str) -> Option<&'f Record> {
        let file: &'f Record = self.file;
        file.named(section).iter().find(|r| &*r.name == name)
    }

    /// The command that makes an interface of vppcfg's: empty when none does, or not here.
    pub(super) fn made_by_vppcfg(&mut self, i: Interface<'f>) -> Option<String> {
        match i.kind {
            "hardware" => {
                if let Some(mac) = i.record.mac("mac") {
                    let line = format!("set interface mac address {} {mac}", i.name);
                    self.line(i.record, "mac", line);
                }
                Some(String::new())
            }
            "sub-interface" => Some(String::new()),
            "bond" => Some(self.bond(i)),
            "vxlan" | "ipip" | "gre" => {
                let section = tunnels::section_of(i.kind);
                let Some(r) = self.named(section, i.name) else {
                    let message = format!("`{}` is not under `{section}`; add it there", i.name);
                    self.error(i.record, "", message);
                    return Some(String::new());
                };
                Some(tunnels::tunnel(i.name, r))
            }
            "tap" => {
                let r = self.named("taps", i.name)?;
                for field in [
                    "host-interface",
                    "namespace",
                    "host-mac",
                    "host-mtu",
                    "host-bridge",
                ] {
                    if i.record.has(field) {
                        self.error(
                            i.record,
                            field,
                            "`taps` says this of the tap; leave it out here",
                        );
                    }
                }
                Some(tap(i.name, r) + &option(i.record, "mac", "hw-addr"))
            }
            _ => None,
        }
    }

    fn bond(&mut self, i: Interface<'f>) -> String {
        let Some(r) = self.named("bondethernets", i.name) else {
            let message = format!("`{}` is not under `bondethernets`; add it there", i.name);
            self.error(i.record, "", message);
            return String::new();
        };
        if i.record.has("mac") {
            self.error(
                i.record,
                "mac",
                "the MAC address of a bond is said under `bondethernets`",
            );
        }
        let n = number(i.name, "BondEthernet").unwrap_or(0);
        let mode = r.text("mode").unwrap_or("lacp");
        let mut line = format!("create bond id {n} mode {mode}");
        if matches!(mode, "lacp" | "xor") {
            line += &format!(" load-balance {}", r.text("load-balance").unwrap_or("l34"));
        }
        line + &option(r, "mac", "hw-addr")
    }

    /// Commands for what needs several interfaces: members of bonds, sub-interfaces; and tunnels and taps that have no
    /// entry under `interfaces`.
    pub(super) fn bonds_and_parts(&mut self) {
        let file: &'f Record = self.file;
        for (section, make) in [
            (
                "vxlan_tunnels",
                tunnels::tunnel as fn(&str, &Record) -> String,
            ),
            ("tunnels", tunnels::tunnel),
            ("taps", tap),
        ] {
            for r in file.named(section) {
                if !self.by_name.contains_key(&*r.name) && !r.flawed {
                    self.line(r, "", make(&r.name, r));
                }
            }
        }
        for r in file.named("bondethernets") {
            self.members(r);
        }
        for i in self.interfaces.clone() {
            if i.kind == "sub-interface"
                && let Some((parent, id)) = i.name.rsplit_once('.')
            {
                let line = format!(
                    "create sub {parent} {id} {}",
                    self.encapsulation(i.record, id)
                );
                self.line(i.record, "", line);
            }
        }
    }

    fn members(&mut self, bond: &'f Record) {
        let listed = |field: &str, name: &str| {
            let mut all = bond.list(field).iter();
            all.any(|i| i.value.text() == Some(name))
        };
        for item in bond.list("interfaces") {
            let Some(member) = self.interface(item) else {
                continue;
            };
            let mut line = format!("bond add {} {}", bond.name, member.name);
            for (field, word) in LACP {
                if listed(field, member.name) {
                    line += &format!(" {word}");
                }
            }
            self.line(bond, "interfaces", line);
        }
        for (field, _) in LACP {
            for item in bond.list(field) {
                let name = item.value.text().unwrap_or("");
                if !listed("interfaces", name) {
                    let message = format!("`{name}` is no member: it is not under `interfaces`");
                    self.report.add(item.at, item.field.clone(), message);
                }
            }
        }
    }

    /// The words for the tags of a sub-interface.
    fn encapsulation(&mut self, r: &Record, id: &str) -> String {
        let Some(e) = r.record("encapsulation") else {
            return format!("dot1q {id} exact-match");
        };
        if let Some(words) = e.text("match") {
            return words.into();
        }
        let mut words = match (e.uint("dot1q"), e.uint("dot1ad")) {
            (Some(n), None) => format!("dot1q {n}"),
            (None, Some(n)) => format!("dot1ad {n}"),
            (Some(_), Some(_)) => {
                self.error(e, "dot1ad", "either this or `dot1q`, not both");
                String::new()
            }
            (None, None) if e.has("inner-dot1q") => {
                self.error(
                    e,
                    "inner-dot1q",
                    "an inner tag needs an outer one; write `dot1q` or `dot1ad`",
                );
                String::new()
            }
            (None, None) => format!("dot1q {id}"),
        };
        if let Some(n) = e.uint("inner-dot1q") {
            words += &format!(" inner-dot1q {n}");
        }
        if e.bool("exact-match") {
            words += " exact-match";
        }
        words
    }

    /// Commands for borrowed addresses and for twins in Linux.
    pub(super) fn unnumbered_and_twins(&mut self) {
        for i in self.interfaces.clone() {
            if let Some(item) = i.record.get("unnumbered")
                && let Some(lender) = self.interface(item)
            {
                let line = format!("set interface unnumbered {} use {}", i.name, lender.name);
                self.line(i.record, "unnumbered", line);
            }
            if let Some(twin) = i.record.text("lcp") {
                self.line(
                    i.record,
                    "lcp",
                    format!("lcp create {} host-if {twin}", i.name),
                );
            }
        }
    }
}

fn tap(name: &str, r: &Record) -> String {
    let n = number(name, "tap").unwrap_or(0);
    let mut line = format!("create tap id {n}");
    if let Some(host) = r.record("host") {
        for (field, words) in [
            ("name", "host-if-name"),
            ("mac", "host-mac-addr"),
            ("namespace", "host-ns"),
            ("bridge", "host-bridge"),
            ("mtu", "host-mtu-size"),
        ] {
            line += &option(host, field, words);
        }
    }
    for ring in ["rx-ring-size", "tx-ring-size"] {
        line += &option(r, ring, ring);
    }
    line
}
