//! Bridge domains: settings, ports, owners of addresses, and the stations that were configured.

use parshall_nodes::PortRole;
use serde_json::{Value, json};

use super::section::Section;
use crate::bridge::{BridgeConfig, Domain, StationKind};
use crate::router::Router;
use crate::text::mac;

impl Router {
    pub(super) fn bridge_section(&self) -> Section {
        let mut section = Section::default();
        for (id, domain) in self.bridge_domains() {
            let mut r = Section::default();
            r.section("settings", settings(&domain.config));
            if !domain.config.tag.is_empty() {
                r.put("tag", domain.config.tag.as_str());
            }
            self.ports(&mut r, domain);
            let owner = |(ip, m): (_, &[u8; 6])| json!({"address": ip, "mac": mac(*m)});
            let owners = domain.arp.iter().map(|(ip, m)| owner((ip, m)));
            r.list("arp-entries", owners.collect());
            let owner = |(ip, m): (_, &[u8; 6])| json!({"address": ip, "mac": mac(*m)});
            r.list("nd-entries", domain.nd.iter().map(owner).collect());
            r.list("stations", self.station_list(id));
            section.put(&format!("bd{id}"), r.0);
        }
        section
    }

    fn ports(&self, r: &mut Section, domain: &Domain) {
        let role = |port: &u32| self.bridge_port(*port).map_or(PortRole::Normal, |p| p.role);
        let name = |port: &u32| Value::from(self.interfaces.name(*port));
        // All have the same where vppcfg's rules hold.
        let told = |p: &u32| {
            let i = self.interfaces.get(*p)?;
            let (mtu, only) = i.told.mtu?;
            // That of packets alone is no size of frames.
            (!only || i.parent.is_some() || i.bond().is_some()).then_some(mtu)
        };
        r.some("mtu", domain.ports.iter().filter_map(told).max());
        for (word, is) in [("bvi", PortRole::Bvi), ("uu-fwd", PortRole::UuFwd)] {
            r.some(word, domain.ports.iter().find(|p| role(p) == is).map(name));
        }
        let others = domain.ports.iter().filter(|p| role(p) == PortRole::Normal);
        r.list("interfaces", others.map(name).collect());
    }

    fn station_list(&self, id: u32) -> Vec<Value> {
        let of = self.bridges.stations.iter();
        let of = of.filter(|((domain, _), _)| *domain == id);
        of.map(|((_, address), station)| {
            let mut r = Section::default();
            r.put("mac", mac(*address));
            r.some(
                "interface",
                station.if_index.map(|i| self.interfaces.name(i)),
            );
            match station.kind {
                StationKind::Static => {}
                StationKind::Filter => r.put("kind", "filter"),
                StationKind::Bvi => r.put("kind", "bvi"),
            }
            Value::Object(r.0)
        })
        .collect()
    }
}

fn settings(c: &BridgeConfig) -> Section {
    let d = BridgeConfig::default();
    let mut r = Section::default();
    for (name, is, default) in [
        ("learn", c.learn, d.learn),
        ("unicast-flood", c.flood, d.flood),
        ("unknown-unicast-flood", c.uu_flood, d.uu_flood),
        ("unicast-forward", c.forward, d.forward),
        ("arp-termination", c.arp_term, d.arp_term),
        ("arp-unicast-forward", c.arp_ufwd, d.arp_ufwd),
    ] {
        if is != default {
            r.put(name, is);
        }
    }
    r.unless("mac-age-minutes", c.mac_age.into(), 0);
    r.some("learn-limit", c.learn_limit);
    r
}
