//! Commands that make interfaces of devices: packet sockets, AF_XDP, taps, files.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::Builder;
use super::interfaces::Interface;
use crate::plan::word;
use crate::record::{Checked, Item, Record};
use crate::scalar::quoted;

impl Builder<'_, '_> {
    pub(super) fn host_interface(&mut self, i: Interface<'_>) -> String {
        let r = i.record;
        let linux = self.linux_name(i);
        let mut line = format!("create host-interface name {}", word(linux));
        if i.suffix != Some(linux) {
            line += &format!(" interface-name {}", i.name);
        }
        for (field, words) in [
            ("mac", "hw-addr"),
            ("namespace", "host-ns"),
            ("queues", "num-rx-queues"),
        ] {
            line += &option(r, field, words);
        }
        line
    }

    pub(super) fn af_xdp(&mut self, i: Interface<'_>) -> String {
        let r = i.record;
        let linux = self.linux_name(i);
        let mut line = format!("create interface af_xdp host-if {}", word(linux));
        if i.suffix != Some(linux) {
            line += &format!(" name {}", i.name);
        }
        for (field, words) in [
            ("mac", "hw-addr"),
            ("namespace", "netns"),
            ("queues", "num-rx-queues"),
            ("tx-queues", "num-tx-queues"),
            ("rx-queue-size", "rx-queue-size"),
            ("tx-queue-size", "tx-queue-size"),
            ("copy-mode", "mode"),
            ("busy-poll", "busy-poll"),
        ] {
            line += &option(r, field, words);
        }
        if let Some(mode) = r.text("xdp-mode") {
            line += &format!(" {mode}");
        }
        line
    }

    /// Name of the Linux interface behind an interface.
    fn linux_name<'r>(&mut self, i: Interface<'r>) -> &'r str {
        let r = i.record;
        let linux = r.text("host-interface").or(i.suffix).unwrap_or("");
        if linux.is_empty() && !r.flawed {
            let message = "`host-interface` is missing; write the name of the Linux interface";
            self.error(r, "", message);
        }
        if linux.len() > 15 {
            let message = format!(
                "{} cannot be the name of a Linux interface; it has 1 to 15 bytes",
                quoted(linux)
            );
            self.error(r, "host-interface", message);
        }
        linux
    }

    pub(super) fn tap(&mut self, r: &Record) -> String {
        let mut line = String::new();
        for (field, words) in [
            ("mac", "hw-addr"),
            ("queues", "num-rx-queues"),
            ("namespace", "host-ns"),
            ("host-interface", "host-if-name"),
            ("host-mac", "host-mac-addr"),
            ("host-mtu", "host-mtu-size"),
            ("host-bridge", "host-bridge"),
            ("rx-queue-size", "rx-ring-size"),
            ("tx-queue-size", "tx-ring-size"),
        ] {
            line += &option(r, field, words);
        }
        let mut seen = BTreeSet::new();
        for item in r.list("host-addresses") {
            if let Checked::Prefix(p) = item.value {
                self.one_of_version(&mut seen, item, p.addr, "address");
                let version = version(p.addr);
                line += &format!(" host-ip{version}-addr {}/{}", p.addr, p.len);
            }
        }
        let mut seen = BTreeSet::new();
        for item in r.list("host-gateways") {
            if let Checked::Address(a) = item.value {
                self.one_of_version(&mut seen, item, a, "gateway");
                self.check_gateway(r, item, a);
                line += &format!(" host-ip{}-gw {a}", version(a));
            }
        }
        line
    }

    fn one_of_version(&mut self, seen: &mut BTreeSet<u8>, item: &Item, addr: IpAddr, what: &str) {
        if !seen.insert(version(addr)) {
            let message = format!("{addr} is a second {what} of its IP version; there is one");
            self.report.add(item.at, item.field.clone(), message);
        }
    }

    fn check_gateway(&mut self, r: &Record, item: &Item, gateway: IpAddr) {
        let on_link = |i: &Item| match i.value {
            Checked::Prefix(p) => crate::scalar::contains(p, gateway),
            _ => false,
        };
        if !r.list("host-addresses").iter().any(on_link) && !r.flawed {
            let message =
                format!("gateway {gateway} is in none of the subnets of `host-addresses`");
            self.report.add(item.at, item.field.clone(), message);
        }
    }

    pub(super) fn pcap(&mut self, r: &Record) -> String {
        if !r.has("receive") && !r.has("transmit") && !r.flawed {
            let message = "a pcap interface needs `receive`, `transmit` or both";
            self.error(r, "", message);
        }
        for field in ["loop", "speed"] {
            if r.has(field) && !r.has("receive") && !r.flawed {
                self.error(r, field, "this is about `receive`, which is not there");
            }
        }
        let mut line = option(r, "mac", "hw-addr");
        line += &option(r, "receive", "rx");
        line += &option(r, "transmit", "tx");
        if r.bool("loop") {
            line += " loop";
        }
        line + &option(r, "speed", "recorded-speed")
    }
}

/// " WORDS VALUE" when the field is there.
pub(super) fn option(r: &Record, field: &str, words: &str) -> String {
    let value = match r.get(field).map(|i| &i.value) {
        Some(Checked::Text(t)) => word(t),
        Some(Checked::Uint(n)) => n.to_string(),
        Some(Checked::Float(n)) => n.to_string(),
        Some(Checked::Mac(m)) => m.to_string(),
        _ => return String::new(),
    };
    format!(" {words} {value}")
}

fn version(addr: IpAddr) -> u8 {
    if addr.is_ipv4() { 4 } else { 6 }
}
