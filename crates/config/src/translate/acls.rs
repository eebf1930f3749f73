//! Access lists in vppcfg's words: terms, prefix lists and names of services become rules with numbers.
//!
//! A term is a rule for each pair of its sources and destinations of one IP version. What vppcfg 1.2 refuses is refused.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use parshall_command::Prefix;

use super::Builder;
use super::interfaces::Interface;
use crate::record::{Checked, Item, Record};
use crate::scalar::{self, network_of, quoted};

/// Protocols that have ports: TCP, UDP, SCTP.
const WITH_PORTS: [u8; 3] = [6, 17, 132];
/// ICMP and ICMPv6.
const ICMP: [u8; 2] = [1, 58];

/// Names that are understood on machines without `/etc/protocols`.
const PROTOCOLS: &[(&str, u16)] = &[
    ("icmp", 1),
    ("igmp", 2),
    ("tcp", 6),
    ("udp", 17),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
    ("ipv6-icmp", 58),
    ("ospf", 89),
    ("pim", 103),
    ("vrrp", 112),
    ("sctp", 132),
];
/// Names that are understood on machines without `/etc/services`.
const SERVICES: &[(&str, u16)] = &[
    ("ftp", 21),
    ("ssh", 22),
    ("telnet", 23),
    ("smtp", 25),
    ("domain", 53),
    ("tftp", 69),
    ("http", 80),
    ("www", 80),
    ("ntp", 123),
    ("snmp", 161),
    ("bgp", 179),
    ("ldap", 389),
    ("https", 443),
    ("syslog", 514),
];

/// First and last of ports, types or codes; `None` = any.
type Range = Option<(u16, u16)>;

impl<'f> Builder<'f, '_> {
    /// Commands that make access lists.
    pub(super) fn acls(&mut self) {
        let file: &'f Record = self.file;
        if let Some(r) = file.record("acl-settings")
            && let Some(Checked::Bool(on)) = r.value("match-later-fragments")
        {
            let line = format!("set acl-plugin l4-match-nonfirst-fragment {}", u8::from(on));
            self.line(r, "match-later-fragments", line);
        }
        for list in file.named("prefixlists") {
            if &*list.name == "any" {
                self.error(list, "", "`any` is every network; choose another name");
            }
            for item in list.list("members") {
                self.network(item);
            }
        }
        let given = |r: &Record| r.get("index").and_then(|i| i.value.uint());
        let mut taken: BTreeSet<u64> = BTreeSet::new();
        for acl in file.named("acls") {
            if given(acl).is_some_and(|n| !taken.insert(n)) {
                self.error(acl, "index", "another list has this number");
            }
        }
        let mut free = 0..;
        for acl in file.named("acls") {
            let index = given(acl).or_else(|| free.find(|n| !taken.contains(n)));
            let index = index.unwrap_or(0);
            self.acl_numbers.insert(&acl.name, index);
            let rules = self.rules(acl);
            let tag = acl.text("tag").unwrap_or(&acl.name);
            if tag.is_empty() || tag.contains(|c: char| c.is_whitespace() || c == ',') {
                self.error(acl, "tag", "a tag of a list is one word without a comma");
            }
            let line = format!("set acl-plugin acl index {index} {rules} tag {tag}");
            self.line(acl, "", line);
        }
    }

    /// Commands that put access lists on an interface.
    pub(super) fn filter(&mut self, i: Interface<'f>) {
        for (field, way) in [("acl-input", "input"), ("acl-output", "output")] {
            let mut numbers: Vec<String> = Vec::new();
            for item in i.record.list(field) {
                let name = item.value.text().unwrap_or("");
                let Some(n) = self.acl_numbers.get(name).map(u64::to_string) else {
                    let message = format!(
                        "there is no access list {} in this file; add it under `acls`",
                        quoted(name)
                    );
                    self.report.add(item.at, item.field.clone(), message);
                    continue;
                };
                if numbers.contains(&n) {
                    let message = format!("{} is listed twice", quoted(name));
                    self.report.add(item.at, item.field.clone(), message);
                }
                numbers.push(n);
            }
            if !numbers.is_empty() {
                let (name, numbers) = (i.name, numbers.join(","));
                let line = format!("set acl-plugin interface {name} {way} acls {numbers}");
                self.line(i.record, field, line);
            }
        }
    }

    fn rules(&mut self, acl: &'f Record) -> String {
        let mut rules = Vec::new();
        for term in acl.records("terms") {
            rules.extend(self.term(term));
        }
        rules.join(", ")
    }

    /// The rules of a term.
    fn term(&mut self, t: &'f Record) -> Vec<String> {
        let family = t.text("family").unwrap_or("any");
        let ends = [
            self.end(t, "source", family),
            self.end(t, "destination", family),
        ];
        let rest = self.upper_layer(t);
        let action = t.text("action").unwrap_or("deny");
        let mut rules = Vec::new();
        for src in &ends[0] {
            for dst in &ends[1] {
                if src.addr.is_ipv6() == dst.addr.is_ipv6() {
                    let (src, dst) = (shown(src), shown(dst));
                    rules.push(format!("{action} src {src} dst {dst}{rest}"));
                }
            }
        }
        if rules.is_empty() && ends.iter().all(|e| !e.is_empty()) {
            let message = "source and destination are of different IP versions";
            self.error(t, "destination", message);
        }
        rules
    }

    /// Networks that a term's source or destination stands for.
    fn end(&mut self, t: &'f Record, field: &str, family: &str) -> Vec<Prefix> {
        let wanted = |p: &Prefix| match family {
            "ipv4" => p.addr.is_ipv4(),
            "ipv6" => p.addr.is_ipv6(),
            _ => true,
        };
        let all = ["0.0.0.0/0", "::/0"].map(scalar::prefix);
        let Some(item) = t.get(field).filter(|i| i.value.text() != Some("any")) else {
            return all.into_iter().flatten().filter(wanted).collect();
        };
        let text = item.value.text().unwrap_or("");
        let list = self.named("prefixlists", text);
        let found: Vec<Prefix> = match (list, network(text)) {
            (_, Some(p)) => vec![p],
            (Some(list), _) => {
                let members = list.list("members").iter();
                members.filter_map(|m| network(m.value.text()?)).collect()
            }
            (None, None) => {
                let message = format!(
                    "{} is no address, no network and no list of `prefixlists`",
                    quoted(text)
                );
                self.error(t, field, message);
                return Vec::new();
            }
        };
        let found: Vec<Prefix> = found.into_iter().filter(wanted).collect();
        if found.is_empty() {
            let message = format!("{} has no network of this term's family", quoted(text));
            self.error(t, field, message);
        }
        found
    }

    /// Protocol, ports and flags of a term, in the words of the command.
    fn upper_layer(&mut self, t: &Record) -> String {
        let proto = self.protocol(t);
        let mut out = match proto {
            0 => String::new(),
            n => format!(" proto {n}"),
        };
        let ports = [("source-port", "sport"), ("destination-port", "dport")];
        let types = [("icmp-type", "sport"), ("icmp-code", "dport")];
        self.only_with(t, ports, &WITH_PORTS, proto, "tcp, udp or sctp");
        self.only_with(t, types, &ICMP, proto, "icmp or ipv6-icmp");
        let (names, most) = match ICMP.contains(&proto) {
            true => (types, 255),
            false => (ports, u16::MAX),
        };
        for (field, word) in names {
            if let Some((first, last)) = self.range(t, field, most) {
                out += &match first == last {
                    true => format!(" {word} {first}"),
                    false => format!(" {word} {first}-{last}"),
                };
            }
        }
        if let Some(text) = t.text("tcp-flags") {
            let both = text.split_once('/');
            let both = both.and_then(|(v, m)| Some((v.parse::<u8>().ok()?, m.parse::<u8>().ok()?)));
            match both {
                Some((_, 0)) if proto == 6 => {}
                Some((value, mask)) if proto == 6 => {
                    out += &format!(" tcpflags {value} mask {mask}");
                }
                Some(_) => self.error(t, "tcp-flags", "only the protocol tcp has this"),
                None => {
                    let message =
                        "allowed is two numbers from 0 to 255 with a slash between, such as 2/18";
                    self.error(t, "tcp-flags", message);
                }
            }
        }
        out
    }

    fn only_with(
        &mut self,
        t: &Record,
        fields: [(&str, &str); 2],
        protocols: &[u8],
        proto: u8,
        words: &str,
    ) {
        for (field, _) in fields {
            if t.has(field) && !protocols.contains(&proto) {
                let message = format!("only a term with the protocol {words} has this");
                self.error(t, field, message);
            }
        }
    }

    fn protocol(&mut self, t: &Record) -> u8 {
        let Some(text) = t.text("protocol").filter(|p| *p != "any") else {
            return 0;
        };
        let number = match text.parse::<u8>() {
            Ok(n) => Some(u16::from(n)).filter(|n| *n > 0),
            Err(_) => self.numbered(text, PROTOCOLS, "/etc/protocols"),
        };
        let number = number.and_then(|n| u8::try_from(n).ok());
        if number.is_none() {
            let message = format!(
                "{} is no protocol; allowed is a number from 1 to 255 or a name such as tcp",
                quoted(text)
            );
            self.error(t, "protocol", message);
        }
        number.unwrap_or(0)
    }

    /// `80`, `www`, `-1024`, `1024-`, `10-20` or `any`.
    fn range(&mut self, t: &Record, field: &str, most: u16) -> Range {
        let text = t.text(field).filter(|p| *p != "any")?;
        let number = |n: &str| n.parse::<u16>().ok().filter(|n| *n <= most);
        let one = |n: u16| Some((n, n));
        let found = match text.split_once('-') {
            _ if number(text).is_some() => number(text).and_then(one),
            Some(("", last)) => number(last).map(|n| (0, n)),
            Some((first, "")) => number(first).map(|n| (n, most)),
            Some((first, last)) if number(first).is_some() => {
                number(first).zip(number(last)).filter(|(a, b)| a <= b)
            }
            _ if most == u16::MAX => self.numbered(text, SERVICES, "/etc/services").and_then(one),
            _ => None,
        };
        if found.is_none() {
            let message = format!(
                "{} will not do; allowed is a number up to {most}, a range such as 10-20, -20 or 10-, {}or any",
                quoted(text),
                if most == 255 {
                    ""
                } else {
                    "the name of a service "
                }
            );
            self.error(t, field, message);
        }
        found.filter(|r| *r != (0, u16::MAX))
    }

    /// The number that a name has in a file of the system, or without that in ours.
    fn numbered(&self, name: &str, ours: &[(&str, u16)], file: &str) -> Option<u16> {
        let known = ours.iter().find(|(n, _)| *n == name).map(|(_, n)| *n);
        known.or_else(|| {
            let text = (self.read)(file).ok()?;
            let lines = text.lines().filter_map(|l| {
                let mut words = l.split('#').next()?.split_whitespace();
                let (first, number) = (words.next()?, words.next()?);
                let is_it = first == name || words.any(|alias| alias == name);
                let number = number.split('/').next()?;
                is_it.then(|| number.parse().ok())?
            });
            lines.into_iter().next()
        })
    }

    fn network(&mut self, item: &Item) {
        let text = item.value.text().unwrap_or("");
        if network(text).is_none() {
            let message = format!(
                "{} is neither an address nor a network, such as 192.0.2.0/24",
                quoted(text)
            );
            self.report.add(item.at, item.field.clone(), message);
        }
    }
}

/// An address or network; bits behind its length do not matter.
fn network(text: &str) -> Option<Prefix> {
    let found = scalar::prefix(text).or_else(|| {
        let addr: IpAddr = text.parse().ok()?;
        let len = if addr.is_ipv6() { 128 } else { 32 };
        Some(Prefix { addr, len })
    })?;
    Some(Prefix {
        addr: network_of(found),
        ..found
    })
}

fn shown(p: &Prefix) -> String {
    format!("{}/{}", p.addr, p.len)
}

/// Numbers of access lists by name.
pub type Numbers<'f> = BTreeMap<&'f str, u64>;
