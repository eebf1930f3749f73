//! Metrics of sampling, the agent and its collectors.

use parshall_control::snapshot::{Agent, Collector, Snapshot};

use super::interfaces::{IF, per_interface};
use super::{Metric, metric, one};
use crate::expose::Kind::{Counter, Gauge};
use crate::expose::Sample;

const COLLECTOR: &[&str] = &["collector"];

/// The list of them.
pub(super) const METRICS: &[Metric] = &[
    metric(
        Gauge,
        "parshall_sflow_sampling_rate",
        "",
        IF,
        "One packet in so many is sampled.",
        |s| per_interface(s, |i| i.sampling.as_ref().map(|p| f64::from(p.rate))),
    ),
    metric(
        Counter,
        "parshall_sflow_pool_packets",
        "packets",
        IF,
        "Packets that passed the sampler.",
        |s| per_interface(s, |i| i.sampling.as_ref().map(|p| p.pool as f64)),
    ),
    metric(
        Counter,
        "parshall_sflow_samples",
        "",
        IF,
        "Packet samples taken.",
        |s| per_interface(s, |i| i.sampling.as_ref().map(|p| p.samples as f64)),
    ),
    metric(
        Counter,
        "parshall_sflow_samples_lost",
        "",
        IF,
        "Packet samples lost because a ring was full.",
        |s| per_interface(s, |i| i.sampling.as_ref().map(|p| p.lost as f64)),
    ),
    metric(
        Counter,
        "parshall_sflow_datagrams",
        "",
        &[],
        "Datagrams built; each goes to every collector.",
        |s| agent(s, |a| a.datagrams),
    ),
    metric(
        Counter,
        "parshall_sflow_datagram_bytes",
        "bytes",
        &[],
        "Bytes of UDP payload in datagrams.",
        |s| agent(s, |a| a.bytes),
    ),
    metric(
        Counter,
        "parshall_sflow_flow_samples_sent",
        "",
        &[],
        "Flow samples in datagrams.",
        |s| agent(s, |a| a.flow_samples),
    ),
    metric(
        Counter,
        "parshall_sflow_interface_samples_sent",
        "",
        &[],
        "Interface counter samples in datagrams.",
        |s| agent(s, |a| a.counter_samples),
    ),
    metric(
        Counter,
        "parshall_sflow_host_samples_sent",
        "",
        &[],
        "Host counter samples in datagrams.",
        |s| agent(s, |a| a.host_samples),
    ),
    metric(
        Counter,
        "parshall_sflow_discard_samples_sent",
        "",
        &[],
        "Dropped packets handed to collectors or to the kernel's drop monitor.",
        |s| agent(s, |a| a.discard_samples),
    ),
    metric(
        Counter,
        "parshall_sflow_discards_suppressed",
        "",
        &[],
        "Drops that were not reported: over the limit, or a ring was full.",
        |s| agent(s, |a| a.discards_suppressed),
    ),
    metric(
        Counter,
        "parshall_sflow_discards_unexported",
        "",
        &[],
        "Drops that were not reported because there was no collector and no drop monitor.",
        |s| agent(s, |a| a.discards_unexported),
    ),
    metric(
        Counter,
        "parshall_sflow_agent_lost_samples",
        "",
        &[],
        "Samples lost because the agent came too late.",
        |s| agent(s, |a| a.lost),
    ),
    metric(
        Gauge,
        "parshall_sflow_collector_up",
        "",
        COLLECTOR,
        "Whether datagrams are sent to the collector.",
        |s| per_collector(s, |c| u64::from(c.state == "up")),
    ),
    metric(
        Counter,
        "parshall_sflow_collector_sent_datagrams",
        "",
        COLLECTOR,
        "Datagrams handed to the network for the collector.",
        |s| per_collector(s, |c| c.sent),
    ),
    metric(
        Counter,
        "parshall_sflow_collector_failed_datagrams",
        "",
        COLLECTOR,
        "Datagrams that could not be sent to the collector.",
        |s| per_collector(s, |c| c.failed),
    ),
];

fn agent(s: &Snapshot, value: fn(&Agent) -> u64) -> Vec<Sample> {
    s.sflow
        .agent
        .as_ref()
        .map_or_else(Vec::new, |a| one(value(a) as f64))
}

fn per_collector(s: &Snapshot, value: fn(&Collector) -> u64) -> Vec<Sample> {
    let all = s.sflow.agent.iter().flat_map(|a| &a.collectors);
    all.map(|c| (vec![c.collector.clone()], value(c) as f64))
        .collect()
}
