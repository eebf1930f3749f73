//! Rules that vppcfg 1.2 holds a file against beside the schema: what is accepted here is accepted there.
//!
//! They are about what vppcfg knows (bonds, bridge domains, sub-interfaces, one-way cross-connects, taps of `taps`, VXLAN,
//! twins in Linux). Where a file uses none of it, it may say what our own rules allow.

use std::collections::{BTreeMap, BTreeSet};

use super::Builder;
use super::interfaces::Interface;
use super::vppcfg::{number, tags};
use crate::record::{Item, Record};

/// MTU where none is said, in vppcfg's eyes.
const DEFAULT_MTU: u64 = 1500;

impl<'f> Builder<'f, '_> {
    /// Reports everything that vppcfg would not accept.
    pub(super) fn check_vppcfg(&mut self) {
        let switched = self.switched();
        self.check_twins();
        for i in self.interfaces.clone() {
            self.check_layer2(i, switched.contains(i.name));
            self.check_unnumbered(i, &switched);
            if i.kind == "sub-interface" {
                self.check_part(i);
            }
        }
        self.check_cross_connects();
        self.check_bonds();
        self.check_bridges();
        self.check_tunnels();
        self.check_taps();
    }

    fn known(&self, name: &str) -> Option<Interface<'f>> {
        self.by_name
            .get(name)
            .and_then(|n| self.interfaces.get(*n))
            .copied()
    }

    fn parent(&self, i: Interface<'f>) -> Option<Interface<'f>> {
        self.known(i.name.rsplit_once('.')?.0)
    }

    fn mtu(&self, i: Interface<'f>) -> u64 {
        let own = i.record.uint("mtu");
        let of_parent = || {
            self.parent(i)
                .filter(|_| i.kind == "sub-interface")?
                .record
                .uint("mtu")
        };
        own.or_else(of_parent).unwrap_or(DEFAULT_MTU)
    }

    /// Names of what is cross-connected one way, of where that leads, and of what is in a bridge without being its BVI.
    fn switched(&self) -> BTreeSet<String> {
        let mut all = BTreeSet::new();
        for i in &self.interfaces {
            if let Some(peer) = i.record.text("l2xc") {
                all.insert(i.name.to_owned());
                all.insert(peer.to_owned());
            }
        }
        for r in self.file.named("bridgedomains") {
            all.extend(
                r.list("interfaces")
                    .iter()
                    .filter_map(|m| Some(m.value.text()?.to_owned())),
            );
        }
        all
    }

    fn check_layer2(&mut self, i: Interface<'f>, switched: bool) {
        for field in ["lcp", "addresses"] {
            if switched && i.record.has(field) {
                let message =
                    "the interface is switched (layer 2) and cannot have this; leave it out";
                self.error(i.record, field, message);
            }
        }
    }

    fn check_unnumbered(&mut self, i: Interface<'f>, switched: &BTreeSet<String>) {
        let Some(lender) = i.record.text("unnumbered") else {
            return;
        };
        let why = match self.known(lender) {
            _ if i.record.has("addresses") => {
                "an interface that borrows addresses cannot have any of its own"
            }
            _ if lender == i.name => "an interface cannot borrow its own addresses",
            _ if switched.contains(lender) => {
                "that interface is switched (layer 2) and has no addresses"
            }
            Some(l) if l.record.has("unnumbered") => "that interface borrows its addresses itself",
            _ if switched.contains(i.name) => {
                "the interface is switched (layer 2) and cannot borrow addresses"
            }
            _ => return,
        };
        self.error(i.record, "unnumbered", why);
    }

    /// Each twin has a name of its own.
    fn check_twins(&mut self) {
        let mut seen: BTreeMap<&str, &str> = BTreeMap::new();
        for i in self.interfaces.clone() {
            let Some(twin) = i.record.text("lcp") else {
                continue;
            };
            if let Some(other) = seen.insert(twin, i.name) {
                self.error(
                    i.record,
                    "lcp",
                    format!("`{twin}` is the twin of `{other}` already"),
                );
            }
        }
    }

    fn check_part(&mut self, i: Interface<'f>) {
        let Some(parent) = self.parent(i) else { return };
        let r = i.record;
        if number(i.name.rsplit_once('.').map_or("", |n| n.1), "").is_none_or(|n| n == 0) {
            self.error(
                r,
                "",
                "the key of a sub-interface is its number, from 1 to 4294967295",
            );
        }
        if r.text("state") != Some("down") && parent.record.text("state") == Some("down") {
            self.error(
                r,
                "state",
                format!("it cannot be up while `{}` is down", parent.name),
            );
        }
        let outer = self.outer(i, parent);
        let above = [Some(parent), outer];
        for above in above.into_iter().flatten() {
            let (own, most) = (self.mtu(i), self.mtu(above));
            if own > most {
                let message = format!(
                    "{own} is above the MTU of `{}`, which is {most}",
                    above.name
                );
                self.error(r, "mtu", message);
            }
        }
        let exact = r
            .record("encapsulation")
            .is_none_or(|e| e.bool("exact-match") || e.has("match"));
        for field in ["lcp", "addresses"] {
            if r.has(field) && !exact {
                let message = "what is routed needs `exact-match: true` in `encapsulation`";
                self.error(r, field, message);
            }
        }
        if r.has("lcp") {
            self.check_twin_of_part(i, parent, outer);
        }
        self.check_tags(i, parent);
    }

    fn check_twin_of_part(
        &mut self,
        i: Interface<'f>,
        parent: Interface<'f>,
        outer: Option<Interface<'f>>,
    ) {
        if !parent.record.has("lcp") {
            let message = format!("`{}` has no `lcp`, which its parts need too", parent.name);
            self.error(i.record, "lcp", message);
        }
        if tags(i.record) == 2 && outer.is_none_or(|o| !o.record.has("lcp")) {
            let message =
                "with two tags it needs a sub-interface of the outer tag alone that has an `lcp`";
            self.error(i.record, "lcp", message);
        }
    }

    /// The sub-interface of the outer tag alone, of one with two.
    fn outer(&self, i: Interface<'f>, parent: Interface<'f>) -> Option<Interface<'f>> {
        let (outer, inner, ..) = encapsulation(i);
        inner?;
        let all = self.interfaces.iter().filter(|s| s.kind == "sub-interface");
        let mut siblings = all.filter(|s| self.parent(**s).is_some_and(|p| p.name == parent.name));
        siblings
            .find(|s| encapsulation(**s).0 == outer && s.name != i.name)
            .copied()
    }

    fn check_tags(&mut self, i: Interface<'f>, parent: Interface<'f>) {
        let own = encapsulation(i);
        if i.record
            .record("encapsulation")
            .is_some_and(|e| e.has("match"))
        {
            return;
        }
        let prefix = format!("{}.", parent.name);
        let start = self.by_name.range(prefix.as_str()..);
        let same = start
            .take_while(|(n, _)| n.starts_with(&prefix))
            .find_map(|(name, n)| {
                let s = self.interfaces.get(*n)?;
                (*name != i.name && encapsulation(*s) == own).then_some(*name)
            });
        if let Some(other) = same {
            self.error(
                i.record,
                "encapsulation",
                format!("`{other}` has the same tags"),
            );
        }
    }

    fn check_cross_connects(&mut self) {
        let mut targets: BTreeMap<&str, &str> = BTreeMap::new();
        for i in self.interfaces.clone() {
            let Some(peer) = i.record.text("l2xc") else {
                continue;
            };
            if !i.record.named_or_none("sub-interfaces").is_empty() {
                self.error(
                    i.record,
                    "l2xc",
                    "an interface with sub-interfaces cannot be cross-connected",
                );
            }
            if let Some(other) = targets.insert(peer, i.name) {
                self.error(
                    i.record,
                    "l2xc",
                    format!("`{other}` is cross-connected to `{peer}` already"),
                );
            }
            if self.member_of(peer).is_some() {
                self.error(i.record, "l2xc", format!("`{peer}` is in a bridge domain"));
            }
            if let Some(target) = self.known(peer) {
                let (own, its) = (self.mtu(i), self.mtu(target));
                if own != its {
                    let message = format!(
                        "its MTU is {own}, that of `{peer}` is {its}; they have to be the same"
                    );
                    self.error(i.record, "l2xc", message);
                }
            }
        }
    }

    /// The bridge domain that an interface is in.
    fn member_of(&self, name: &str) -> Option<&'f str> {
        let file: &'f Record = self.file;
        let has = |r: &&Record| {
            r.list("interfaces")
                .iter()
                .any(|m| m.value.text() == Some(name))
        };
        file.named("bridgedomains")
            .iter()
            .find(has)
            .map(|r| &*r.name)
    }

    fn check_bonds(&mut self) {
        let file: &'f Record = self.file;
        let mut members = BTreeMap::new();
        for r in file.named("bondethernets") {
            let Some(bond) = self.known(&r.name) else {
                let message = format!("`{}` is not under `interfaces`; add it there", r.name);
                self.error(r, "", message);
                continue;
            };
            if number(&r.name, "BondEthernet").is_none_or(|n| n > 4_294_967_294) {
                self.error(r, "", "the name of a bond is `BondEthernet` and a number");
            }
            if r.has("load-balance") && !matches!(r.text("mode"), None | Some("lacp" | "xor")) {
                self.error(
                    r,
                    "load-balance",
                    "only the modes `lacp` and `xor` have this",
                );
            }
            for item in r.list("interfaces") {
                let Some(member) = item.value.text().and_then(|m| self.known(m)) else {
                    continue;
                };
                if let Some(other) = members.insert(member.name, &*r.name) {
                    self.at(
                        item,
                        format!("`{}` is a member of `{other}` already", member.name),
                    );
                }
                self.check_member(item, member, Some(self.mtu(bond)), "bond");
            }
        }
    }

    fn at(&mut self, item: &Item, message: String) {
        self.report.add(item.at, item.field.clone(), message);
    }

    fn check_member(&mut self, item: &Item, member: Interface<'f>, mtu: Option<u64>, of: &str) {
        let r = member.record;
        if of == "bond" && !r.named_or_none("sub-interfaces").is_empty() {
            self.at(item, format!("`{}` has sub-interfaces", member.name));
        }
        for field in ["lcp", "addresses"] {
            if of == "bond" && r.has(field) {
                self.at(
                    item,
                    format!(
                        "`{}` has `{field}`, which a member of a {of} cannot have",
                        member.name
                    ),
                );
            }
        }
        let own = self.mtu(member);
        if let Some(mtu) = mtu.filter(|m| *m != own) {
            self.at(
                item,
                format!(
                    "the MTU of `{}` is {own}, that of the {of} is {mtu}; they have to be the same",
                    member.name
                ),
            );
        }
    }

    fn check_bridges(&mut self) {
        let file: &'f Record = self.file;
        let (mut members, mut bvis) = (BTreeMap::new(), BTreeMap::new());
        for r in file.named("bridgedomains") {
            let mtu = r.uint("mtu");
            for item in r.list("interfaces") {
                let Some(member) = item.value.text().and_then(|m| self.known(m)) else {
                    continue;
                };
                if let Some(other) = members.insert(member.name, &*r.name) {
                    self.at(item, format!("`{}` is in `{other}` already", member.name));
                }
                self.check_member(item, member, mtu, "bridge domain");
            }
            let Some(item) = r.get("bvi") else { continue };
            let Some(bvi) = item.value.text().and_then(|b| self.known(b)) else {
                continue;
            };
            if bvi.kind != "loopback" {
                self.at(item, format!("`{}` is no loopback", bvi.name));
            }
            if let Some(other) = bvis.insert(bvi.name, &*r.name) {
                self.at(
                    item,
                    format!("`{}` is the BVI of `{other}` already", bvi.name),
                );
            }
            self.check_member(item, bvi, mtu, "bridge domain");
        }
    }

    fn check_taps(&mut self) {
        let file: &'f Record = self.file;
        let mut names = BTreeMap::new();
        for r in file.named("taps") {
            if number(&r.name, "tap").is_none_or(|n| n > 1024) {
                self.error(
                    r,
                    "",
                    "the name of a tap is `tap` and a number from 0 to 1024",
                );
            }
            for ring in ["rx-ring-size", "tx-ring-size"] {
                if r.uint(ring).is_some_and(|n| !n.is_power_of_two()) {
                    self.error(r, ring, "allowed is a power of two");
                }
            }
            let Some(host) = r.record("host") else {
                continue;
            };
            if let Some(name) = host.text("name")
                && let Some(other) = names.insert(name, &*r.name)
            {
                self.error(
                    host,
                    "name",
                    format!("`{name}` is the Linux side of `{other}` already"),
                );
            }
            for (field, of) in [
                ("namespace-create", "namespace"),
                ("bridge-create", "bridge"),
            ] {
                if host.bool(field) && !host.has(of) {
                    self.error(
                        host,
                        field,
                        format!("this is about `{of}`, which is not there"),
                    );
                }
            }
            self.check_tap_interface(r, host);
        }
    }

    fn check_tap_interface(&mut self, r: &'f Record, host: &'f Record) {
        let Some(i) = self.known(&r.name) else { return };
        if host.has("mtu") && host.uint("mtu") != Some(self.mtu(i)) {
            let message = format!(
                "the MTU of the tap is {}; both have to be the same",
                self.mtu(i)
            );
            self.error(host, "mtu", message);
        }
        for field in ["addresses", "lcp", "sub-interfaces"] {
            if i.record.has(field) {
                self.error(i.record, field, "a tap of `taps` cannot have this");
            }
        }
    }
}

/// Outer tag (802.1Q or 802.1ad), inner tag, and whether there are no more.
fn encapsulation(i: Interface<'_>) -> ((u64, u64), Option<u64>, bool) {
    match i.record.maybe("encapsulation").map(|e| &e.value) {
        Some(crate::record::Checked::Record(e)) => {
            let of = |name| e.uint(name).unwrap_or(0);
            (
                (of("dot1q"), of("dot1ad")),
                e.uint("inner-dot1q"),
                e.bool("exact-match"),
            )
        }
        _ => {
            let id = i.name.rsplit_once('.').and_then(|(_, id)| id.parse().ok());
            ((id.unwrap_or(0), 0), None, true)
        }
    }
}
