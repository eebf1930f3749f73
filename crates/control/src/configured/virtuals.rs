//! What makes interfaces without a device: bonds and tunnels. Their settings are among those of all interfaces.

use serde_json::Value;

use super::section::Section;
use crate::router::Router;
use crate::tunnel::{TunnelKind, TunnelSpec, VXLAN_PORT};
use crate::virtual_interface::{BondMode, Membership};

impl Router {
    pub(super) fn bond_section(&self) -> Section {
        let mut section = Section::default();
        for i in self.interfaces.iter() {
            let Some(bond) = i.bond() else { continue };
            let mut r = Section::default();
            let members = |which: fn(&Membership) -> bool| -> Vec<Value> {
                let all = self.interfaces.members(i.index);
                let those = all.filter(|m| m.member.as_ref().is_some_and(which));
                those.map(|m| m.name.as_str().into()).collect()
            };
            r.put("mode", bond.mode.word());
            if matches!(bond.mode, BondMode::Lacp | BondMode::Xor) {
                r.put("load-balance", bond.balance_word());
            }
            let given = i.spec.as_ref().and_then(|s| s.mac);
            r.some("mac", given.map(crate::text::mac));
            r.list("interfaces", members(|_| true));
            r.list("passive", members(|m| m.passive));
            r.list("long-timeout", members(|m| m.long_timeout));
            section.put(&i.name, r.0);
        }
        section
    }

    pub(super) fn vxlan_section(&self) -> Section {
        let mut section = Section::default();
        for (i, t) in self.tunnels() {
            let TunnelKind::Vxlan {
                vni,
                src_port,
                dst_port,
            } = t.kind
            else {
                continue;
            };
            let mut r = ends(t);
            r.put("vni", vni);
            r.unless("port", dst_port.into(), VXLAN_PORT.into());
            r.unless("source-port", src_port.into(), VXLAN_PORT.into());
            section.put(&i.name, r.0);
        }
        section
    }

    pub(super) fn tunnel_section(&self) -> Section {
        let mut section = Section::default();
        for (i, t) in self.tunnels() {
            let mut r = ends(t);
            match t.kind {
                TunnelKind::Vxlan { .. } => continue,
                TunnelKind::Ipip | TunnelKind::Gre => {}
                TunnelKind::GreTeb => r.put("payload", "ethernet"),
            }
            section.put(&i.name, r.0);
        }
        section
    }
}

fn ends(t: &TunnelSpec) -> Section {
    let mut r = Section::default();
    r.put("local", t.src.to_string());
    r.put("remote", t.dst.to_string());
    r.unless("table", t.table.into(), 0);
    r
}
