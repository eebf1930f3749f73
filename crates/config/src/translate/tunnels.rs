//! Tunnels: VXLAN, IP in IP, GRE. Commands for them and what they must be like.

use std::collections::BTreeMap;

use super::Builder;
use super::interfaces::no_table;
use super::vppcfg::number;
use crate::record::Record;

/// Highest number of a tunnel that is not vppcfg's.
const MOST: u32 = 16_383;

/// The kind of an interface that a tunnel's section makes, by its name.
pub fn kind_of(name: &str) -> Option<&'static str> {
    let kinds = [("vxlan_tunnel", "vxlan"), ("ipip", "ipip"), ("gre", "gre")];
    let mut kinds = kinds.into_iter();
    kinds.find_map(|(stem, kind)| number(name, stem).map(|_| kind))
}

/// The section that a kind of tunnel is in.
pub fn section_of(kind: &str) -> &'static str {
    match kind {
        "vxlan" => "vxlan_tunnels",
        _ => "tunnels",
    }
}

/// The command that makes a tunnel; empty where its section lacks something, which is told elsewhere.
pub fn tunnel(name: &str, r: &Record) -> String {
    let (Some(src), Some(dst)) = (r.address("local"), r.address("remote")) else {
        return String::new();
    };
    let instance = |stem| number(name, stem).unwrap_or(0);
    let ends = |stem| format!("src {src} dst {dst} instance {}", instance(stem));
    let table = |words: &str| match r.uint("table") {
        None | Some(0) => String::new(),
        Some(n) => format!(" {words} {n}"),
    };
    match kind_of(name) {
        Some("vxlan") => {
            let Some(vni) = r.uint("vni") else {
                return String::new();
            };
            let mut line = format!("create vxlan tunnel {} vni {vni}", ends("vxlan_tunnel"));
            line += &table("encap-vrf-id");
            for (field, word) in [("source-port", "src_port"), ("port", "dst_port")] {
                if let Some(n) = r.uint(field).filter(|n| *n != 4789) {
                    line += &format!(" {word} {n}");
                }
            }
            line + " decap-next l2"
        }
        Some("ipip") => format!(
            "create ipip tunnel {}{}",
            ends("ipip"),
            table("outer-table-id")
        ),
        Some(_) => {
            let teb = match r.text("payload") {
                Some("ethernet") => " teb",
                _ => "",
            };
            format!(
                "create gre tunnel {}{}{teb}",
                ends("gre"),
                table("outer-table-id")
            )
        }
        None => String::new(),
    }
}

impl<'f> Builder<'f, '_> {
    /// What a tunnel must be like, of any kind.
    pub(super) fn check_tunnels(&mut self) {
        let file: &'f Record = self.file;
        let mut ids = BTreeMap::new();
        for r in file.named("vxlan_tunnels") {
            if number(&r.name, "vxlan_tunnel").is_none_or(|n| n > i32::MAX as u32) {
                let message =
                    "the name of a VXLAN tunnel is `vxlan_tunnel` and a number up to 2147483647";
                self.error(r, "", message);
            }
            if let Some(vni) = r.uint("vni")
                && let Some(other) = ids.insert(vni, &*r.name)
            {
                self.error(r, "vni", format!("{vni} is that of `{other}` already"));
            }
            self.check_ends(r);
        }
        let mut seen = BTreeMap::new();
        for r in file.named("tunnels") {
            let kind = kind_of(&r.name).filter(|k| *k != "vxlan");
            let n = ["ipip", "gre"].iter().find_map(|s| number(&r.name, s));
            if n.is_none_or(|n| n > MOST) {
                let message =
                    format!("the name of a tunnel is `ipip` or `gre` and a number up to {MOST}");
                self.error(r, "", message);
            }
            let ethernet = r.text("payload") == Some("ethernet");
            if ethernet && kind == Some("ipip") {
                self.error(r, "payload", "only `gre` carries Ethernet frames");
            }
            let ends = (r.address("local"), r.address("remote"), r.uint("table"));
            if let Some(other) = seen.insert((kind, ethernet, ends), &*r.name) {
                self.error(r, "", format!("`{other}` is this tunnel already"));
            }
            self.check_ends(r);
        }
    }

    fn check_ends(&mut self, r: &Record) {
        if let (Some(a), Some(b)) = (r.address("local"), r.address("remote")) {
            let table = r.uint("table").unwrap_or(0) as u32;
            let v = usize::from(a.is_ipv6());
            if a.is_ipv4() != b.is_ipv4() {
                let message = format!("{a} and {b} are of different IP versions");
                self.error(r, "remote", message);
            } else if !self.tables[v].contains(&table) {
                self.error(r, "table", no_table(table, Some(["IPv4", "IPv6"][v])));
            }
        }
    }
}
