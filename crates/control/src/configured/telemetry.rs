//! sFlow and BGP.

use parshall_agent::elect::Election;
use parshall_agent::{AgentConfig, CollectorConfig, CollectorHost, RecordKind};
use serde_json::{Map, Value, json};

use super::section::Section;
use crate::bgp::FeedSpec;
use crate::router::Router;
use crate::sampling::SflowPort;

impl Router {
    pub(super) fn sflow_section(&self, base: &Map<String, Value>) -> Section {
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
        r.some("sampling-ratio", s.speed_rates.ratio);
        let by_speed = s.speed_rates.by_speed.iter();
        let by_speed = by_speed.map(|(speed, rate)| json!({"speed": speed, "rate": rate}));
        r.list("sampling-rates", by_speed.collect());
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

    pub(super) fn bgp_section(&self) -> Section {
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

pub(super) fn sampled(port: &SflowPort) -> Value {
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
