//! The configuration of the running router as plain data, in the shape of the configuration file.
//!
//! Only what was configured is in it: no learned neighbour, no connected route, no default. The file's schema is another
//! room's; this one only has to write what that one reads, and their tests hold the two together.

mod acls;
mod bridging;
mod devices;
mod interfaces;
mod routing;
mod section;
mod telemetry;
mod virtuals;

use serde_json::{Value, json};

use crate::router::Router;
use section::Section;

impl Router {
    /// All that is configured, in the shape of the configuration file.
    pub fn configuration(&self) -> Value {
        let mut file = Section(self.base.clone());
        file.section("acls", self.acl_section());
        if !self.acl_matches_later_fragments() {
            file.put("acl-settings", json!({"match-later-fragments": false}));
        }
        file.section("interfaces", self.interface_sections());
        file.section("bondethernets", self.bond_section());
        file.section("vxlan_tunnels", self.vxlan_section());
        file.section("tunnels", self.tunnel_section());
        file.section("bridgedomains", self.bridge_section());
        file.list("tables", self.table_list());
        file.list("neighbors", self.neighbor_list());
        file.section("neighbor-settings", self.neighbor_settings());
        file.list("routes", self.route_list());
        file.section("mpls", self.mpls_section());
        file.section("memif", self.memif_section());
        file.section("sflow", self.sflow_section(&self.base));
        file.section("bgp", self.bgp_section());
        file.section("packet-generator", self.stream_section());
        Value::Object(file.0)
    }

    fn memif_section(&self) -> Section {
        let mut section = Section::default();
        let own = self.memif_sockets.iter().filter(|(id, _)| **id != 0);
        let sockets = own.map(|(id, path)| json!({"id": id, "filename": path}));
        section.list("sockets", sockets.collect());
        section
    }

    fn stream_section(&self) -> Section {
        let streams = self.stream_texts.iter().map(|(name, s)| {
            let from = self.streams.get(name);
            let mut r = Section::default();
            r.put("name", name.as_str());
            r.put(
                "interface",
                from.map_or_else(String::new, |i| self.interfaces.name(*i)),
            );
            // Without the braces that it may have been given in.
            let text = s.text.trim();
            let inner = text.strip_prefix('{').and_then(|t| t.strip_suffix('}'));
            r.put("definition", inner.unwrap_or(text).trim());
            if !s.enabled {
                r.put("enabled", false);
            }
            Value::Object(r.0)
        });
        let mut section = Section::default();
        section.list("streams", streams.collect());
        section
    }
}
