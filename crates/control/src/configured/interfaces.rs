//! Interfaces and their parts: what they are made of and what they were told.

use std::collections::BTreeMap;

use serde_json::Value;

use super::devices::{device, encapsulation};
use super::section::Section;
use super::telemetry::sampled;
use crate::interface::Interface;
use crate::prefix::Family;
use crate::router::Router;
use crate::virtual_interface::Vtr;

impl Router {
    pub(super) fn interface_sections(&self) -> Section {
        let mut interfaces = Section::default();
        let made = |i: &&Interface| i.spec.is_some() && i.sub().is_none();
        for i in self.interfaces.iter().filter(made) {
            let mut section = self.interface_section(i);
            let mut parts = Section::default();
            for (id, part) in self.parts_of(i.index) {
                parts.put(&id.to_string(), part.0);
            }
            section.section("sub-interfaces", parts);
            interfaces.put(&i.name, section.0);
        }
        interfaces
    }

    /// Sub-interfaces, by their number.
    fn parts_of(&self, index: u32) -> BTreeMap<u32, Section> {
        let parts = self.interfaces.iter().filter(|p| p.parent == Some(index));
        parts
            .filter_map(|p| {
                let sub = p.sub()?;
                let mut r = self.interface_section(p);
                r.put("encapsulation", encapsulation(&sub.takes));
                Some((sub.id, r))
            })
            .collect()
    }

    fn interface_section(&self, i: &Interface) -> Section {
        let mut r = Section::default();
        let Some(spec) = &i.spec else { return r };
        device(&mut r, spec, i);
        r.some("tag", i.tag.as_deref());
        // A member of a bond is up and down with that.
        let leader = i.member.and_then(|m| self.interfaces.get(m.bond));
        if !i.up && leader.is_none_or(|bond| bond.up) {
            r.put("state", "down");
        }
        if i.bond().is_none() {
            r.some("mac", spec.mac.map(crate::text::mac));
        }
        // The frames of what is part of another are as long as that one's anyhow.
        let own = i.parent.is_none() && i.bond().is_none();
        let word = |only: bool| if only && own { "packet-mtu" } else { "mtu" };
        if let Some((mtu, only)) = i.told.mtu {
            r.put(word(only), mtu);
        }
        self.routed(&mut r, i);
        r.on("promiscuous", i.promiscuous);
        self.switched(&mut r, i);
        self.filtered(&mut r, i);
        if let Some(port) = &i.sflow {
            r.put("sflow", sampled(port));
        }
        placed(&mut r, i);
        r
    }

    fn routed(&self, r: &mut Section, i: &Interface) {
        let addresses = i.addresses.iter().map(|(a, l)| format!("{a}/{l}").into());
        r.list("addresses", addresses.collect());
        let lender = i.unnumbered.map(|l| self.interfaces.name(l));
        r.some("unnumbered", lender);
        r.on("ip6", i.ip6_enabled);
        let tables = i.tables;
        r.unless("table", tables[0].into(), 0);
        let both = self.rib.table(Family::Ip6, tables[0]).is_ok();
        let implied = if both { tables[0] } else { 0 };
        r.unless("ip6-table", tables[1].into(), implied.into());
        r.on("mpls", i.mpls);
    }

    fn switched(&self, r: &mut Section, i: &Interface) {
        let peer = i.xconnect.and_then(|x| self.interfaces.get(x));
        let both = peer.is_some_and(|p| p.xconnect == Some(i.index));
        let word = if both { "xconnect" } else { "l2xc" };
        r.some(word, peer.map(|p| p.name.as_str()));
        // What is switched has its tags taken off unless that is said not to be.
        if i.vtr != Vtr::default() || i.parent.is_some() && i.is_switched() {
            r.put("tag-rewrite", i.vtr.words());
        }
        let group = self.bridge_port(i.index).map_or(0, |p| p.shg);
        r.unless("split-horizon-group", group.into(), 0);
    }
}

/// Where its queues are polled, and how.
fn placed(r: &mut Section, i: &Interface) {
    // A list of workers says those of all queues up to its last.
    let queues = i.told.placement.keys().next_back().map_or(0, |q| q + 1);
    let worker = |q: usize| -> Value {
        let now = i.placement.iter().find(|p| p.queue == q);
        let told = i.told.placement.get(&q).copied();
        told.or(now.map(|p| p.worker)).unwrap_or(0).into()
    };
    r.list("rx-placement", (0..queues).map(worker).collect());
    r.some("rx-mode", i.told.rx_mode.map(|m| m.word()));
}
