//! Access lists, each rule a term of its own, and the lists of interfaces.
//!
//! A list is called by its tag, unless that is no name or another's already; the number it has is said besides.

use std::collections::BTreeMap;
use std::net::IpAddr;

use parshall_acl::{Action, Rule};
use serde_json::Value;

use super::section::Section;
use crate::interface::Interface;
use crate::router::Router;

/// Longest name of a list in a file.
const LONGEST: usize = 63;

impl Router {
    pub(super) fn acl_section(&self) -> Section {
        let mut section = Section::default();
        for (index, name) in self.acl_names() {
            let Ok(acl) = self.acl(index) else { continue };
            let mut r = Section::default();
            r.put("index", index);
            let tag = acl.tag();
            if tag != name && is_word(tag) {
                r.put("tag", tag);
            }
            r.list("terms", acl.rules().iter().map(term).collect());
            section.put(&name, r.0);
        }
        section
    }

    /// What a file calls each list.
    fn acl_names(&self) -> BTreeMap<u32, String> {
        let mut taken = std::collections::BTreeSet::new();
        let name = |(index, acl): (u32, &crate::router::Acl)| {
            let tag = acl.tag();
            let own = is_word(tag) && !tag.starts_with("acl-") && taken.insert(tag.to_owned());
            let name = match own {
                true => tag.to_owned(),
                false => format!("acl-{index}"),
            };
            (index, name)
        };
        self.acls().map(name).collect()
    }

    /// The lists of an interface.
    pub(super) fn filtered(&self, r: &mut Section, i: &Interface) {
        let on = self.acl_interfaces().find(|(n, _)| *n == i.index);
        let Some((_, on)) = on else { return };
        let names = self.acl_names();
        for (field, lists) in [("acl-input", &on.input), ("acl-output", &on.output)] {
            let named = lists.iter().filter_map(|n| names.get(n));
            r.list(field, named.map(|n| n.as_str().into()).collect());
        }
    }
}

/// Whether a tag can be the name of a list in a file, and a word of a command.
fn is_word(tag: &str) -> bool {
    let good = |c: char| c.is_ascii_alphanumeric() || "._:-".contains(c);
    (1..=LONGEST).contains(&tag.len()) && tag.chars().all(good)
}

fn term(rule: &Rule) -> Value {
    let mut r = Section::default();
    let action = match rule.action {
        Action::Deny => "deny",
        Action::Permit => "permit",
        Action::PermitReflect => "permit+reflect",
    };
    r.put("action", action);
    let prefix = |(a, len): (IpAddr, u8)| (len != 0).then(|| format!("{a}/{len}"));
    let (src, dst) = (prefix(rule.src), prefix(rule.dst));
    if src.is_none() && dst.is_none() {
        r.put("family", if rule.is_ip6() { "ipv6" } else { "ipv4" });
    }
    r.some("source", src);
    r.some("destination", dst);
    r.unless("protocol", rule.proto.into(), 0);
    let icmp = matches!(rule.proto, 1 | 58);
    let names = match icmp {
        true => ["icmp-type", "icmp-code"],
        false => ["source-port", "destination-port"],
    };
    for (name, (first, last)) in names.into_iter().zip([rule.sport, rule.dport]) {
        if (first, last) != (0, u16::MAX) && rule.proto != 0 {
            r.put(name, format!("{first}-{last}"));
        }
    }
    if rule.tcp_mask != 0 {
        r.put("tcp-flags", format!("{}/{}", rule.tcp_value, rule.tcp_mask));
    }
    Value::Object(r.0)
}
