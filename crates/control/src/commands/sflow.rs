//! sFlow: sampling, the agent and its collectors.

use std::fmt::Write;

use parshall_agent::AgentStatus;
use parshall_command::{Args, CommandSpec};
use serde::Serialize;

use super::{Context, Handler, Output, command};
use crate::error::Result;
use crate::router::Router;
use crate::sampling::SampleDirection;

pub(super) const COMMANDS: &[CommandSpec<Handler>] = &[
    command("show sflow", "Show sampling, agent and collectors", show),
    CommandSpec {
        pattern: "sflow polling-interval <seconds:u32 0..=3600>",
        help: "Report interface counters every so many seconds",
        detail: "20 at first; 0 = never.",
        params: &[("seconds", "Seconds")],
        handler: |r, a, _| agent(r, a.need("seconds")?, |c, v| c.polling_interval = v),
    },
    CommandSpec {
        pattern: "sflow host-interval <seconds:u32 0..=3600>",
        help: "Report counters of the machine every so many seconds",
        detail: "30 at first; 0 = never.",
        params: &[("seconds", "Seconds")],
        handler: |r, a, _| agent(r, a.need("seconds")?, |c, v| c.host_interval = v),
    },
    CommandSpec {
        pattern: "sflow max-datagram <bytes:u32 600..=9000>",
        help: "Keep datagrams below so many bytes",
        detail: "1400 at first.",
        params: &[("bytes", "Bytes of UDP payload")],
        handler: |r, a, _| agent(r, a.need("bytes")?, |c, v| c.max_datagram = v),
    },
    CommandSpec {
        pattern: "sflow sub-agent-id <id:u32>",
        help: "Tell several agents of one address apart",
        detail: "0 at first.",
        params: &[("id", "Number")],
        handler: |r, a, _| agent(r, a.need("id")?, |c, v| c.sub_agent_id = v),
    },
];

fn agent(
    r: &mut Router,
    value: u32,
    set: fn(&mut parshall_agent::AgentConfig, u32),
) -> Result<Output> {
    r.configure_agent(|c| set(c, value))?;
    Ok(Output::Done)
}

#[derive(Serialize)]
struct ShownPort {
    interface: String,
    direction: SampleDirection,
    sampling_rate: u32,
    header_bytes: u16,
    /// Packets that passed the sampler.
    pool: u64,
    samples: u64,
    dropped: u64,
}

#[derive(Serialize)]
struct Shown {
    /// For interfaces without a rate of their own; none = by the speed of the link.
    sampling_rate: Option<u32>,
    direction: SampleDirection,
    header_bytes: u16,
    polling_interval: u32,
    host_interval: u32,
    max_datagram: u32,
    interfaces: Vec<ShownPort>,
    collectors: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<AgentStatus>,
}

fn show(r: &mut Router, _: &Args, cx: &Context) -> Result<Output> {
    let port = |i: &crate::interface::Interface| {
        let s = r.sampling(i.index)?;
        let t = r.engine.interface_totals(i.index).since(&i.born);
        Some(ShownPort {
            interface: i.name.clone(),
            direction: s.direction,
            sampling_rate: s.rate,
            header_bytes: s.header_bytes,
            pool: t.sample_pool + t.tx_sample_pool,
            samples: t.samples + t.tx_samples,
            dropped: t.sample_drops + t.tx_sample_drops,
        })
    };
    let config = &r.sflow.config;
    let shown = Shown {
        sampling_rate: r.sflow.rate,
        direction: r.sflow.direction,
        header_bytes: r.sflow.header_bytes,
        polling_interval: config.polling_interval,
        host_interval: config.host_interval,
        max_datagram: config.max_datagram,
        interfaces: r.interfaces.iter().filter_map(port).collect(),
        collectors: r
            .agent_config()
            .collectors
            .iter()
            .map(ToString::to_string)
            .collect(),
        agent: r.sflow.status(),
    };
    cx.show(&shown, print)
}

fn print(s: &Shown) -> String {
    let mut out = String::new();
    let rate = s.sampling_rate.map_or("auto".into(), |n| n.to_string());
    // Writing to a String cannot fail, here and below.
    let _ = writeln!(
        out,
        "sflow sampling-rate {rate}\nsflow direction {}\nsflow polling-interval {}\nsflow header-bytes {}\nsflow host-interval {}",
        s.direction.word(),
        s.polling_interval,
        s.header_bytes,
        s.host_interval
    );
    for p in &s.interfaces {
        let _ = writeln!(
            out,
            "sflow enable {} direction {} sampling-rate {} header-bytes {}",
            p.interface,
            p.direction.word(),
            p.sampling_rate,
            p.header_bytes
        );
    }
    let _ = writeln!(out, "interfaces enabled: {}", s.interfaces.len());
    for p in &s.interfaces {
        let _ = writeln!(
            out,
            "  {}: pool {}, samples {}, lost {}",
            p.interface, p.pool, p.samples, p.dropped
        );
    }
    match &s.agent {
        Some(a) => print_agent(&mut out, a),
        None => {
            let _ = writeln!(out, "agent: not running");
        }
    }
    out
}

fn print_agent(out: &mut String, a: &AgentStatus) {
    let address = a
        .agent_address
        .map_or_else(|| "none".to_owned(), |x| x.to_string());
    let _ = writeln!(
        out,
        "agent: address {address} sub-agent-id {}\npacket samples sent: {}\npacket samples dropped: {}\n\
         counter samples sent: {}\nhost samples sent: {}\ndatagrams: {} bytes: {}",
        a.sub_agent_id,
        a.flow_samples,
        a.lost(),
        a.counter_samples,
        a.host_samples,
        a.datagrams,
        a.bytes
    );
    if a.orphans + a.oversize != 0 {
        let _ = writeln!(
            out,
            "samples of deleted interfaces: {}, too large: {}",
            a.orphans, a.oversize
        );
    }
    let d = &a.discards;
    if d.seen != 0 {
        let _ = writeln!(
            out,
            "drops seen: {}, reported: {}, suppressed: {}, without collector or drop monitor: {}, waiting: {}",
            d.seen, d.reported, d.suppressed, d.unexported, d.waiting
        );
    }
    super::sflow_netlink::print(out, a);
    for c in &a.collectors {
        super::collectors::print_one(out, c);
    }
}
