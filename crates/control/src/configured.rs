//! The configuration of the running router as plain data, in the shape of the configuration file.
//!
//! Only what was configured is in it: no learned neighbour, no connected route, no default. The file's schema is another
//! room's; this one only has to write what that one reads, and their tests hold the two together.

use std::net::IpAddr;

use parshall_agent::elect::Election;
use parshall_agent::{AgentConfig, CollectorConfig, CollectorHost, RecordKind};
use parshall_drivers::af_xdp::{AfXdpConfig, CopyMode};
use parshall_drivers::memif::Role;
use serde_json::{Map, Value, json};

use crate::bgp::FeedSpec;
use crate::bridge::BridgeConfig;
use crate::drivers::{DeviceKind, DeviceSpec, MemifSpec, TapSpec};
use crate::interface::Interface;
use crate::neighbor::NeighborState;
use crate::path::{Path, Via};
use crate::prefix::Family;
use crate::rib::Source;
use crate::router::Router;
use crate::sampling::SflowPort;
use crate::virtual_interface::Vtr;
use parshall_nodes::PortRole;
use parshall_nodes::vlan::{VlanId, VlanMatch};

/// Fields of a section, put in when they are there.
#[derive(Default)]
struct Section(Map<String, Value>);

impl Section {
    fn put(&mut self, name: &str, value: impl Into<Value>) {
        self.0.insert(name.into(), value.into());
    }
    fn some<T: Into<Value>>(&mut self, name: &str, value: Option<T>) {
        if let Some(v) = value {
            self.put(name, v);
        }
    }
    /// A number that is not the one that holds without it.
    fn unless(&mut self, name: &str, value: u64, default: u64) {
        if value != default {
            self.put(name, value);
        }
    }
    fn on(&mut self, name: &str, on: bool) {
        if on {
            self.put(name, true);
        }
    }
    fn list(&mut self, name: &str, items: Vec<Value>) {
        if !items.is_empty() {
            self.put(name, items);
        }
    }
    fn section(&mut self, name: &str, section: Section) {
        if !section.0.is_empty() {
            self.put(name, section.0);
        }
    }
}

impl Router {
    /// All that is configured, in the shape of the configuration file.
    pub fn configuration(&self) -> Value {
        let mut file = Section(self.base.clone());
        let mut interfaces = Section::default();
        // Tunnels are made by commands only: a file cannot say them yet.
        let is_device = |s: &DeviceSpec| !matches!(s.kind, DeviceKind::Virtual(_));
        let made = |i: &&Interface| i.spec.as_ref().is_some_and(is_device);
        for i in self.interfaces.iter().filter(made) {
            let mut section = self.interface_section(i);
            let mut parts = Section::default();
            for (id, part) in self.parts_of(i.index) {
                parts.put(&id.to_string(), part.0);
            }
            section.section("sub-interfaces", parts);
            interfaces.put(&i.name, section.0);
        }
        file.section("interfaces", interfaces);
        file.section("bridgedomains", self.bridge_section());
        file.list("tables", self.table_list());
        file.list("neighbors", self.neighbor_list());
        file.list("routes", self.route_list());
        file.section("mpls", self.mpls_section());
        file.section("memif", self.memif_section());
        file.section("sflow", self.sflow_section(&self.base));
        file.section("bgp", self.bgp_section());
        let streams = self.stream_texts.iter().map(|(name, s)| {
            let mut r = Section::default();
            r.put("name", name.as_str());
            r.put(
                "interface",
                self.streams
                    .get(name)
                    .map_or_else(String::new, |i| self.interfaces.name(*i)),
            );
            r.put("definition", s.text.as_str());
            if !s.enabled {
                r.put("enabled", false);
            }
            Value::Object(r.0)
        });
        let mut generator = Section::default();
        generator.list("streams", streams.collect());
        file.section("packet-generator", generator);
        Value::Object(file.0)
    }

    /// Sub-interfaces, by their number.
    fn parts_of(&self, index: u32) -> std::collections::BTreeMap<u32, Section> {
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
        if !i.up {
            r.put("state", "down");
        }
        r.some("mac", spec.mac.map(crate::text::mac));
        r.some("mtu", i.told.mtu.map(|m| m.0));
        let addresses = i.addresses.iter().map(|(a, l)| format!("{a}/{l}").into());
        r.list("addresses", addresses.collect());
        r.on("ip6", i.ip6_enabled);
        let tables = i.tables;
        r.unless("table", tables[0].into(), 0);
        let both = self.rib.table(Family::Ip6, tables[0]).is_ok();
        let implied = if both { tables[0] } else { 0 };
        r.unless("ip6-table", tables[1].into(), implied.into());
        r.on("mpls", i.mpls);
        r.on("promiscuous", i.promiscuous);
        let peer = i.xconnect.and_then(|x| self.interfaces.get(x));
        let both = peer.is_some_and(|p| p.xconnect == Some(i.index));
        let word = if both { "xconnect" } else { "l2xc" };
        r.some(word, peer.map(|p| p.name.as_str()));
        // What is switched has its tags taken off unless that is said not to be.
        if i.vtr != Vtr::default() || i.parent.is_some() && i.is_switched() {
            r.put("tag-rewrite", i.vtr.words());
        }
        if let Some(port) = &i.sflow {
            r.put("sflow", sampled(port));
        }
        // A list of workers says those of all queues up to its last.
        let queues = i.told.placement.keys().next_back().map_or(0, |q| q + 1);
        let worker = |q: usize| {
            let now = i.placement.iter().find(|p| p.queue == q);
            let told = i.told.placement.get(&q).copied();
            told.or(now.map(|p| p.worker)).unwrap_or(0).into()
        };
        r.list("rx-placement", (0..queues).map(worker).collect());
        r.some("rx-mode", i.told.rx_mode.map(|m| m.word()));
        r
    }

    fn bridge_section(&self) -> Section {
        let mut section = Section::default();
        for (id, domain) in self.bridge_domains() {
            let (c, d) = (&domain.config, BridgeConfig::default());
            let mut settings = Section::default();
            for (name, is, default) in [
                ("learn", c.learn, d.learn),
                ("unicast-flood", c.flood, d.flood),
                ("unknown-unicast-flood", c.uu_flood, d.uu_flood),
                ("unicast-forward", c.forward, d.forward),
                ("arp-termination", c.arp_term, d.arp_term),
                ("arp-unicast-forward", c.arp_ufwd, d.arp_ufwd),
            ] {
                if is != default {
                    settings.put(name, is);
                }
            }
            settings.unless("mac-age-minutes", c.mac_age.into(), 0);
            let mut r = Section::default();
            r.section("settings", settings);
            let is_bvi = |port: &u32| {
                self.bridge_port(*port)
                    .is_some_and(|p| p.role == PortRole::Bvi)
            };
            let name = |port: &u32| Value::from(self.interfaces.name(*port));
            let first = domain.ports.first().and_then(|p| self.interfaces.get(*p));
            r.some("mtu", first.and_then(|i| i.told.mtu).map(|m| m.0));
            r.some("bvi", domain.ports.iter().find(|p| is_bvi(p)).map(name));
            let others = domain.ports.iter().filter(|p| !is_bvi(p));
            r.list("interfaces", others.map(name).collect());
            section.put(&format!("bd{id}"), r.0);
        }
        section
    }

    fn table_list(&self) -> Vec<Value> {
        let mut all: std::collections::BTreeMap<u32, Vec<Family>> = Default::default();
        for (family, id) in self.rib.tables().map(|(at, _)| *at) {
            all.entry(id).or_default().push(family);
        }
        all.remove(&0);
        let one = |(id, families): (u32, Vec<Family>)| match families.as_slice() {
            [Family::Ip4] => json!({"id": id, "family": "ip4"}),
            [Family::Ip6] => json!({"id": id, "family": "ip6"}),
            _ => json!({"id": id}),
        };
        all.into_iter().map(one).collect()
    }

    fn neighbor_list(&self) -> Vec<Value> {
        let all = self.neighbors.iter().flat_map(|t| t.iter());
        let fixed = all.filter(|(_, n)| n.state == NeighborState::Static);
        let mut list: Vec<_> = fixed
            .filter_map(|(k, n)| Some((self.interfaces.name(k.if_index), k.ip, n.mac?)))
            .collect();
        list.sort();
        let one = |(interface, address, mac)| json!({"interface": interface, "address": address, "mac": crate::text::mac(mac)});
        list.into_iter().map(one).collect()
    }

    fn route_list(&self) -> Vec<Value> {
        let mut list = Vec::new();
        for (&(_, table), routes) in self.rib.tables() {
            for (net, route) in routes.routes() {
                let Some(paths) = route.source(Source::Static).and_then(|l| self.rib.list(l))
                else {
                    continue;
                };
                let mut r = Section::default();
                r.put("prefix", net.to_string());
                r.unless("table", table.into(), 0);
                self.ways(&mut r, paths.paths());
                list.push(Value::Object(r.0));
            }
        }
        list
    }

    /// One way in the section itself, several as a list.
    fn ways(&self, r: &mut Section, paths: &[Path]) {
        if let [one] = paths {
            let action = match one.via {
                Via::Blackhole => Some("blackhole"),
                Via::Prohibit => Some("prohibit"),
                Via::Unreachable => Some("unreachable"),
                _ => None,
            };
            if action.is_some() && one.weight == 1 && one.labels.is_empty() {
                return r.some("action", action);
            }
            if one.weight == 1 {
                return self.way(r, one);
            }
        }
        let path = |p: &Path| {
            let mut path = Section::default();
            self.way(&mut path, p);
            path.unless("weight", p.weight.into(), 1);
            Value::Object(path.0)
        };
        r.list("paths", paths.iter().map(path).collect());
    }

    fn way(&self, r: &mut Section, path: &Path) {
        match path.via {
            Via::NextHop { ip, if_index } => {
                r.put("via", ip.to_string());
                r.some("interface", if_index.map(|i| self.interfaces.name(i)));
            }
            Via::Attached { if_index } => r.put("interface", self.interfaces.name(if_index)),
            Via::Lookup { table, .. } => r.put("lookup-table", table),
            Via::Blackhole => r.put("action", "blackhole"),
            Via::Prohibit => r.put("action", "prohibit"),
            Via::Unreachable => r.put("action", "unreachable"),
            // Such paths are not of the operator's making.
            Via::Receive { .. } | Via::LookupMpls => {}
        }
        r.list("labels", path.labels.iter().map(|l| (*l).into()).collect());
        r.on("pipe", path.pipe);
    }

    fn mpls_section(&self) -> Section {
        let mut section = Section::default();
        let mut list = Vec::new();
        for (label, eos, id) in self.rib.labels() {
            let Some(paths) = self.rib.list(id) else {
                continue;
            };
            let mut r = Section::default();
            r.put("label", label);
            r.put("stack", if eos { "eos" } else { "non-eos" });
            match paths.paths() {
                [
                    Path {
                        via: Via::Lookup { family, table },
                        ..
                    },
                ] => {
                    let word = match family {
                        Family::Ip4 => "ip4",
                        Family::Ip6 => "ip6",
                    };
                    r.put("pop", word);
                    r.unless("table", (*table).into(), 0);
                }
                [
                    Path {
                        via: Via::LookupMpls,
                        ..
                    },
                ] => r.put("pop", "mpls"),
                paths => self.ways(&mut r, paths),
            }
            list.push(Value::Object(r.0));
        }
        section.list("labels", list);
        section.on("table", self.mpls_table);
        section
    }

    fn memif_section(&self) -> Section {
        let mut section = Section::default();
        let own = self.memif_sockets.iter().filter(|(id, _)| **id != 0);
        let sockets = own.map(|(id, path)| json!({"id": id, "filename": path}));
        section.list("sockets", sockets.collect());
        section
    }

    fn sflow_section(&self, base: &Map<String, Value>) -> Section {
        let (s, c, d) = (&self.sflow, &self.sflow.config, AgentConfig::default());
        let mut r = Section::default();
        // What is fixed at the start is there already.
        if let Some(Value::Object(fixed)) = base.get("sflow") {
            r.0 = fixed.clone();
        }
        r.some("agent-address", c.agent_address.map(|a| a.to_string()));
        if c.agent_address.is_none() && c.election != Election::default() {
            r.put("agent-election", election(&c.election));
        }
        r.unless("sub-agent-id", c.sub_agent_id.into(), d.sub_agent_id.into());
        r.some("sampling-rate", s.rate);
        if s.direction != Default::default() {
            r.put("direction", s.direction.word());
        }
        if s.ifindex != Default::default() {
            r.put("ifindex", "linux");
        }
        r.unless("header-bytes", s.header_bytes.into(), 128);
        r.unless(
            "polling-interval",
            c.polling_interval.into(),
            d.polling_interval.into(),
        );
        r.unless(
            "host-interval",
            c.host_interval.into(),
            d.host_interval.into(),
        );
        r.unless("max-datagram", c.max_datagram.into(), d.max_datagram.into());
        r.unless("drop-limit", c.drop_limit.into(), 0);
        r.list("collectors", c.collectors.iter().map(collector).collect());
        let mut records = Section::default();
        for kind in RecordKind::ALL {
            if c.records.has(*kind) != d.records.has(*kind) {
                records.put(kind.name(), c.records.has(*kind));
            }
        }
        r.section("records", records);
        if let Some(n) = &c.netlink {
            r.put("netlink", json!({"group": n.group, "os-index": n.os_index}));
        }
        if let Some(place) = self.discovery_status().map(|s| s.place) {
            let mut d = Section::default();
            d.some("domain", place.domain.as_deref());
            d.some("server", place.server.map(|s| s.ip().to_string()));
            d.some("port", place.server.map(|s| s.port()));
            d.some("namespace", place.namespace.as_deref());
            d.put("delay", place.delay);
            r.section("discover", d);
        }
        r
    }

    fn bgp_section(&self) -> Section {
        let mut r = Section::default();
        let shared = &self.bgp.shared;
        r.unless("local-as", shared.local_as().into(), 0);
        let mib = (shared.table().size().limit >> 20) as u64;
        r.unless("memory-limit", mib, 1024);
        let (mut files, mut mrt, mut bmp) = (Vec::new(), Vec::new(), Vec::new());
        for feed in self.bgp.feeds() {
            match &feed.spec {
                FeedSpec::File(p) => files.push(p.display().to_string().into()),
                FeedSpec::Mrt(p) => mrt.push(p.display().to_string().into()),
                FeedSpec::Bmp(at) => bmp.push(json!({"address": at.ip(), "port": at.port()})),
            }
        }
        r.list("files", files);
        r.list("mrt", mrt);
        r.list("bmp", bmp);
        r
    }
}

/// What an interface is made of.
fn device(r: &mut Section, spec: &DeviceSpec, i: &Interface) {
    if i.parent.is_none() && i.name != spec.kind.default_name(i.instance) {
        r.put("type", spec.kind.type_name());
    }
    match &spec.kind {
        DeviceKind::Pg | DeviceKind::Loopback | DeviceKind::Virtual(_) => {}
        DeviceKind::Pcap {
            rx,
            tx,
            looping,
            speed,
        } => {
            r.some("receive", rx.as_ref().map(|p| p.display().to_string()));
            r.some("transmit", tx.as_ref().map(|p| p.display().to_string()));
            r.on("loop", *looping);
            r.some("speed", *speed);
        }
        DeviceKind::Tap(t) => tap(r, t),
        DeviceKind::AfPacket {
            host_if,
            host_ns,
            queues,
        } => {
            r.put("host-interface", host_if.as_str());
            r.some("namespace", host_ns.as_deref());
            r.unless("queues", *queues as u64, 0);
        }
        DeviceKind::Memif(m) => memif(r, m),
        DeviceKind::AfXdp(c) => af_xdp(r, c),
    }
}

/// The frames of a sub-interface; what numbers alone do not say in the words of the command.
fn encapsulation(takes: &VlanMatch) -> Value {
    let words = |text: &str| json!({ "match": text });
    let VlanMatch::Tagged {
        dot1ad,
        outer,
        inner,
        exact,
    } = *takes
    else {
        return words(if *takes == VlanMatch::Default {
            "default"
        } else {
            "untagged"
        });
    };
    let kind = if dot1ad { "dot1ad" } else { "dot1q" };
    let shown = |v: VlanId| match v {
        VlanId::Is(n) => n.to_string(),
        VlanId::Any => "any".into(),
    };
    let mut r = Section::default();
    match (outer, inner) {
        (VlanId::Is(n), None) => r.put(kind, n),
        (VlanId::Is(n), Some(VlanId::Is(m))) => {
            r.put(kind, n);
            r.put("inner-dot1q", m);
        }
        _ => {
            let mut text = format!("{kind} {}", shown(outer));
            if let Some(inner) = inner {
                text += &format!(" inner-dot1q {}", shown(inner));
            }
            if exact {
                text += " exact-match";
            }
            return words(&text);
        }
    }
    r.on("exact-match", exact);
    r.0.into()
}

fn tap(r: &mut Section, t: &TapSpec) {
    r.some("host-interface", t.host_if.as_deref());
    r.some("namespace", t.host_ns.as_deref());
    r.some("host-mac", t.host_mac.map(crate::text::mac));
    r.some("host-mtu", t.host_mtu);
    r.some("host-bridge", t.host_bridge.as_deref());
    r.some("rx-queue-size", t.rx_ring);
    r.some("tx-queue-size", t.tx_ring);
    let prefixes = t.host_addrs.iter().map(|(a, l)| format!("{a}/{l}").into());
    r.list("host-addresses", prefixes.collect());
    let gateways = t
        .host_gateways
        .iter()
        .map(|a: &IpAddr| a.to_string().into());
    r.list("host-gateways", gateways.collect());
    r.unless("queues", t.queues as u64, 0);
}

fn memif(r: &mut Section, m: &MemifSpec) {
    let usual = MemifSpec::default();
    r.put("socket-id", m.socket_id);
    r.put("id", m.id);
    if m.role == Role::Slave {
        r.put("role", "slave");
    }
    r.unless("ring-size", m.ring_size.into(), usual.ring_size.into());
    r.unless(
        "buffer-size",
        m.buffer_size.into(),
        usual.buffer_size.into(),
    );
    r.unless("queues", m.rx_queues as u64, usual.rx_queues as u64);
    r.unless("tx-queues", m.tx_queues as u64, usual.tx_queues as u64);
    r.some("secret", m.secret.as_deref());
}

fn af_xdp(r: &mut Section, c: &AfXdpConfig) {
    r.put("host-interface", c.host_if.as_str());
    r.some("namespace", c.host_ns.as_deref());
    r.unless("queues", c.rx_queues as u64, 0);
    r.unless("tx-queues", c.tx_queues as u64, 0);
    r.unless("rx-queue-size", c.rx_ring.into(), 0);
    r.unless("tx-queue-size", c.tx_ring.into(), 0);
    match c.copy {
        CopyMode::Auto => {}
        CopyMode::Copy => r.put("copy-mode", "copy"),
        CopyMode::ZeroCopy => r.put("copy-mode", "zero-copy"),
    }
    if let Some(mode) = c.xdp {
        let native = mode == parshall_drivers::af_xdp::XdpMode::Native;
        r.put("xdp-mode", if native { "native" } else { "generic" });
    }
    r.some("busy-poll", c.busy_poll);
}

fn sampled(port: &SflowPort) -> Value {
    let mut r = Section::default();
    r.some("sampling-rate", port.rate);
    if let Some(a) = port.adaptive {
        r.put("adaptive", a.target);
        r.put("min-rate", a.min);
        r.put("max-rate", a.max);
    }
    r.some("direction", port.direction.map(|d| d.word()));
    r.some("header-bytes", port.header_bytes);
    if r.0.is_empty() {
        true.into()
    } else {
        r.0.into()
    }
}

fn election(e: &Election) -> Value {
    let mut r = Section::default();
    r.some("device", e.device.as_deref());
    let rule = |x: &parshall_agent::elect::Rule| {
        let sign = if x.avoid { "!" } else { "" };
        format!("{sign}{}/{}", x.network, x.length).into()
    };
    r.list("networks", e.rules.iter().map(rule).collect());
    r.0.into()
}

fn collector(c: &CollectorConfig) -> Value {
    let mut r = Section::default();
    let host = match &c.host {
        CollectorHost::Address(a) => a.to_string(),
        CollectorHost::Name(n) => n.clone(),
    };
    r.put("address", host);
    r.unless("port", c.port.into(), parshall_agent::DEFAULT_PORT.into());
    r.some("source", c.source.map(|s| s.to_string()));
    r.some("namespace", c.namespace.as_deref());
    r.some("device", c.device.as_deref());
    r.unless("dscp", c.dscp.into(), 0);
    r.some("datagrams-per-second", c.datagrams_per_second);
    r.some("bits-per-second", c.bits_per_second);
    r.some("max-datagram", c.max_datagram);
    r.0.into()
}
