//! What is remembered of agents and their sources, and the rules about sequences.
//!
//! Numbers, pools and drops belong to (agent, sub-agent, kind of sample, source); forms and the ownership of sources to the
//! agent's address. Agents and sources come off the wire, so how many are followed is limited; what is beyond is told once
//! and checked only for what a datagram shows by itself.

use std::collections::HashMap;
use std::collections::hash_map::{DefaultHasher, Entry};
use std::hash::Hasher;

use parshall_sflow_wire::{Address, DataSource, Datagram, Tag};

use super::counters;
use super::finding::Cx;
use super::order::{Arrival, Order};
use super::rules::Rule;
use super::source::{FlowNumbers, Numbers};

/// Agents and sub-agents followed unless told otherwise.
pub const MAX_AGENTS: usize = 4096;
/// Sources followed, of all agents together.
pub const MAX_SOURCES: usize = 262_144;
/// Longest record body that is kept to be compared with the next.
const MAX_KEPT: usize = 256;
/// Different records kept of one source.
const MAX_RECORDS: usize = 16;
/// Observed this long (ns) before the uptime is held against the clock.
const UPTIME_AFTER_NS: u64 = 10_000_000_000;
const SECOND_NS: u64 = 1_000_000_000;

/// The kinds of sample, which are numbered apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// 0:1 and 0:3.
    Flow,
    /// 0:2 and 0:4.
    Counters,
    /// 0:5.
    Discard,
}

/// What is kept of one agent's address.
#[derive(Debug, Default)]
struct Site {
    /// Which sub-agent reports a source; the flag: a second one was told.
    owners: HashMap<DataSource, (u32, bool)>,
    compact: bool,
    expanded: bool,
}

/// One agent and sub-agent.
#[derive(Debug, Default)]
pub struct Agent {
    order: Order,
    /// Counts the places where datagrams are missing.
    gaps: u64,
    /// The count was seen from its first number on, without a gap.
    whole: bool,
    /// Arrival time and uptime that the clock is compared from; `None` once it was told.
    clock: Option<(u64, u32)>,
    flows: HashMap<DataSource, FlowNumbers>,
    discards: HashMap<DataSource, Numbers>,
    counters: HashMap<DataSource, CounterState>,
}

/// One source of counters.
#[derive(Debug, Default)]
struct CounterState {
    numbers: Numbers,
    records: Vec<Kept>,
}

/// A record as it came last.
#[derive(Debug)]
struct Kept {
    tag: Tag,
    body: Vec<u8>,
    time_ns: Option<u64>,
    told_availability: bool,
}

/// All agents.
#[derive(Debug)]
pub struct Streams {
    sites: HashMap<Address, Site>,
    agents: HashMap<(Address, u32), Agent>,
    sources: usize,
    /// Sources whose sub-agent is remembered, at all addresses together.
    owned: usize,
    max_agents: usize,
    max_sources: usize,
    told_limit: bool,
    /// The polling interval that was promised, in ns.
    polling_ns: Option<u64>,
}

/// What the samples of a datagram are to be checked against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follow {
    /// Sequences: it is the next of its agent.
    Sequences,
    /// Only what it shows by itself: it came late, or its agent is not followed.
    Alone,
    /// Nothing: it was there already.
    Nothing,
}

impl Streams {
    /// Nothing seen yet.
    pub fn new(max_agents: usize, max_sources: usize, polling: Option<u32>) -> Streams {
        Streams {
            sites: HashMap::new(),
            agents: HashMap::new(),
            sources: 0,
            owned: 0,
            max_agents,
            max_sources,
            told_limit: false,
            polling_ns: polling.map(|s| u64::from(s) * SECOND_NS),
        }
    }

    /// Agents and sub-agents followed.
    pub fn agents(&self) -> usize {
        self.agents.len()
    }

    /// Sources followed.
    pub fn sources(&self) -> usize {
        self.sources
    }

    /// Takes in a datagram's number and uptime.
    pub fn datagram(&mut self, cx: &mut Cx<'_>, d: &Datagram<'_>, bytes: &[u8]) -> Follow {
        let key = (d.agent, d.sub_agent_id);
        if !self.agents.contains_key(&key) && self.agents.len() >= self.max_agents {
            self.limit(cx, self.max_agents, "agents");
            return Follow::Alone;
        }
        let agent = self.agents.entry(key).or_default();
        let mut hasher = DefaultHasher::new();
        hasher.write(bytes);
        let hash = hasher.finish();
        let before = agent.order.behind(d.uptime_ms);
        let mut lost = Vec::new();
        let arrival = agent
            .order
            .observe(d.sequence, d.uptime_ms, hash, &cx.at, &mut lost);
        report_holes(cx, lost);
        let at = sequence_offset(d.agent);
        let number = d.sequence;
        match arrival {
            Arrival::Duplicate => {
                cx.find(
                    Rule::DatagramDuplicate,
                    at,
                    format_args!("number {number} again"),
                );
                return Follow::Nothing;
            }
            Arrival::Late => {
                cx.find(
                    Rule::DatagramReordered,
                    at,
                    format_args!("number {number} came late"),
                );
                return Follow::Alone;
            }
            Arrival::First => agent.begin(number, cx.at.time_ns, d.uptime_ms),
            Arrival::Restart { uptime_fell } => {
                let rule = if uptime_fell {
                    Rule::AgentRestart
                } else {
                    Rule::DatagramRestart
                };
                cx.find(
                    rule,
                    at,
                    format_args!("number {number}, uptime {} ms", d.uptime_ms),
                );
                self.sources -= agent.len();
                agent.forget();
                agent.begin(number, cx.at.time_ns, d.uptime_ms);
            }
            Arrival::Next | Arrival::Ahead(_) => {
                if before > 0 {
                    let now = d.uptime_ms;
                    cx.find(
                        Rule::UptimeBackwards,
                        at + 4,
                        format_args!("{} ms after {} ms", now, now.wrapping_add(before)),
                    );
                }
                if arrival != Arrival::Next {
                    agent.gaps += 1;
                    agent.whole = false;
                }
                agent.check_clock(cx, d.uptime_ms, at + 4);
            }
        }
        Follow::Sequences
    }

    /// What is missing at the end of the input.
    pub fn finish(&mut self, cx: &mut Cx<'_>) {
        for ((address, sub), agent) in &mut self.agents {
            let mut lost = Vec::new();
            agent.order.finish(&mut lost);
            (cx.at.agent, cx.at.sub_agent) = (address.ip(), Some(*sub));
            report_holes(cx, lost);
        }
    }

    /// The form of a sample and the sub-agent that reports its source.
    pub fn site(
        &mut self,
        cx: &mut Cx<'_>,
        d: &Datagram<'_>,
        source: DataSource,
        form: Option<bool>,
    ) {
        let room = self.sites.len() < self.max_agents;
        let site = match self.sites.entry(d.agent) {
            Entry::Occupied(e) => e.into_mut(),
            Entry::Vacant(e) if room => e.insert(Site::default()),
            Entry::Vacant(_) => return,
        };
        if let Some(expanded) = form {
            let both = site.compact && site.expanded;
            site.compact |= !expanded;
            site.expanded |= expanded;
            if site.compact && site.expanded && !both {
                let now = if expanded { "expanded" } else { "compact" };
                cx.find(
                    Rule::MixedForms,
                    cx.at.offset,
                    format_args!("this one is {now}"),
                );
            }
        }
        let owner = match site.owners.entry(source) {
            Entry::Occupied(e) => e.into_mut(),
            Entry::Vacant(_) if self.owned >= self.max_sources => return,
            Entry::Vacant(e) => {
                self.owned += 1;
                e.insert((d.sub_agent_id, false))
            }
        };
        if owner.0 != d.sub_agent_id && !owner.1 {
            owner.1 = true;
            cx.find(
                Rule::SourceTwoSubAgents,
                cx.at.offset,
                format_args!(
                    "{source} by sub-agent {} and by {}",
                    owner.0, d.sub_agent_id
                ),
            );
        }
    }

    /// A flow sample, if its source is followed.
    pub fn flow(
        &mut self,
        cx: &mut Cx<'_>,
        d: &Datagram<'_>,
        head: &parshall_sflow_wire::FlowSampleHead,
        offset: usize,
    ) {
        if !self.room_for(cx, d, Kind::Flow, head.source) {
            return;
        }
        let Some(agent) = self.agents.get_mut(&(d.agent, d.sub_agent_id)) else {
            return;
        };
        let (gaps, whole) = (agent.gaps, agent.whole);
        let state = agent.flows.entry(head.source).or_default();
        state.observe(cx, head, gaps, whole, offset);
    }

    /// Whether a flow sample of this source had a switch record; tells once when the first hundred have none.
    pub fn switch_record(
        &mut self,
        cx: &mut Cx<'_>,
        d: &Datagram<'_>,
        source: DataSource,
        has: bool,
    ) {
        let agent = self.agents.get_mut(&(d.agent, d.sub_agent_id));
        if let Some(state) = agent.and_then(|a| a.flows.get_mut(&source)) {
            state.switch_record(cx, has);
        }
    }

    /// A discard sample.
    pub fn discard(
        &mut self,
        cx: &mut Cx<'_>,
        d: &Datagram<'_>,
        head: &parshall_sflow_wire::DiscardSampleHead,
        offset: usize,
    ) {
        if !self.room_for(cx, d, Kind::Discard, head.source) {
            return;
        }
        let Some(agent) = self.agents.get_mut(&(d.agent, d.sub_agent_id)) else {
            return;
        };
        let (gaps, whole) = (agent.gaps, agent.whole);
        let state = agent.discards.entry(head.source).or_default();
        let step = state.step(head.sequence, gaps, whole);
        step.report(cx, head.sequence, offset, false);
        let fell = state.drops(head.drops, step);
        if fell {
            cx.find(
                Rule::DropsFell,
                offset + 12,
                format_args!("{} now", head.drops),
            );
        }
    }

    /// A counter sample's number.
    pub fn counters(
        &mut self,
        cx: &mut Cx<'_>,
        d: &Datagram<'_>,
        head: &parshall_sflow_wire::CounterSampleHead,
        offset: usize,
    ) {
        if !self.room_for(cx, d, Kind::Counters, head.source) {
            return;
        }
        let Some(agent) = self.agents.get_mut(&(d.agent, d.sub_agent_id)) else {
            return;
        };
        let (gaps, whole) = (agent.gaps, agent.whole);
        let state = agent.counters.entry(head.source).or_default();
        let step = state.numbers.step(head.sequence, gaps, whole);
        step.report(cx, head.sequence, offset, false);
        if step.begins() {
            // Counters may begin anew, but not the interval between reports.
            state.records.iter_mut().for_each(|k| k.body.clear());
        }
    }

    /// A record of a counter sample that is followed.
    pub fn counter_record(
        &mut self,
        cx: &mut Cx<'_>,
        d: &Datagram<'_>,
        source: DataSource,
        tag: Tag,
        body: &[u8],
        offset: usize,
    ) {
        // The machine's own counters have an interval of their own.
        let polling = self.polling_ns.filter(|_| source.class == 0);
        let agent = self.agents.get_mut(&(d.agent, d.sub_agent_id));
        let Some(state) = agent.and_then(|a| a.counters.get_mut(&source)) else {
            return;
        };
        let body = body.get(..MAX_KEPT).unwrap_or(body);
        if let Some(kept) = state.records.iter_mut().find(|k| k.tag == tag) {
            kept.compare(cx, body, offset, polling);
        } else if state.records.len() < MAX_RECORDS {
            state.records.push(Kept {
                tag,
                body: body.to_vec(),
                time_ns: cx.at.time_ns,
                told_availability: false,
            });
        }
    }

    /// Whether a source is followed or can be from now on.
    fn room_for(
        &mut self,
        cx: &mut Cx<'_>,
        d: &Datagram<'_>,
        kind: Kind,
        source: DataSource,
    ) -> bool {
        let Some(agent) = self.agents.get(&(d.agent, d.sub_agent_id)) else {
            return false;
        };
        let known = match kind {
            Kind::Flow => agent.flows.contains_key(&source),
            Kind::Counters => agent.counters.contains_key(&source),
            Kind::Discard => agent.discards.contains_key(&source),
        };
        if known {
            return true;
        }
        if self.sources >= self.max_sources {
            self.limit(cx, self.max_sources, "sources");
            return false;
        }
        self.sources += 1;
        true
    }

    fn limit(&mut self, cx: &mut Cx<'_>, most: usize, what: &str) {
        if !std::mem::replace(&mut self.told_limit, true) {
            cx.find(
                Rule::NotFollowed,
                0,
                format_args!("{most} {what} are followed already"),
            );
        }
    }
}

/// Where the datagram's number stands.
fn sequence_offset(agent: Address) -> usize {
    match agent {
        Address::Unknown => 12,
        Address::V4(_) => 16,
        Address::V6(_) => 28,
    }
}

fn report_holes(cx: &mut Cx<'_>, lost: Vec<super::order::Hole>) {
    for hole in lost.into_iter().filter(|h| h.missing > 0) {
        let here = std::mem::replace(&mut cx.at, hole.at);
        let last = hole.from.wrapping_add(hole.width - 1);
        let (offset, missing) = (cx.at.offset, hole.missing);
        cx.find(
            Rule::DatagramGap,
            offset,
            format_args!(
                "{missing} missing, of the numbers {} to {last}, in front of this one",
                hole.from
            ),
        );
        cx.at = here;
    }
}

impl Agent {
    fn len(&self) -> usize {
        self.flows.len() + self.discards.len() + self.counters.len()
    }

    fn forget(&mut self) {
        self.flows.clear();
        self.discards.clear();
        self.counters.clear();
    }

    fn begin(&mut self, number: u32, time_ns: Option<u64>, uptime_ms: u32) {
        self.gaps = 0;
        self.whole = number == 1;
        self.clock = time_ns.map(|t| (t, uptime_ms));
    }

    /// Holds the time that the agent counted against the time that passed here.
    fn check_clock(&mut self, cx: &mut Cx<'_>, uptime_ms: u32, offset: usize) {
        let (Some((since, from_ms)), Some(now)) = (self.clock, cx.at.time_ns) else {
            return;
        };
        let passed = now.saturating_sub(since);
        if passed < UPTIME_AFTER_NS {
            return;
        }
        let passed_ms = passed as f64 / 1e6;
        let ratio = f64::from(uptime_ms.wrapping_sub(from_ms)) / passed_ms;
        if !(0.9..=1.1).contains(&ratio) {
            self.clock = None;
            cx.find(
                Rule::UptimeRate,
                offset,
                format_args!(
                    "{} ms by the agent in {passed_ms:.0} ms",
                    uptime_ms.wrapping_sub(from_ms)
                ),
            );
        }
    }
}

impl Kept {
    fn compare(&mut self, cx: &mut Cx<'_>, body: &[u8], offset: usize, polling: Option<u64>) {
        let change = counters::compare(self.tag, &self.body, body);
        if let Some((at, was, now)) = change.fell {
            cx.find(
                Rule::CounterFell,
                offset + at,
                format_args!("{was}, then {now}"),
            );
        }
        if let Some(at) = change.availability
            && !std::mem::replace(&mut self.told_availability, true)
        {
            cx.find(Rule::CounterAvailability, offset + at, format_args!(""));
        }
        if let (Some(polling), Some(was), Some(now)) = (polling, self.time_ns, cx.at.time_ns) {
            let passed = now.saturating_sub(was);
            // A sample may wait a second for its datagram.
            if passed > polling + SECOND_NS {
                cx.find(
                    Rule::CounterLate,
                    offset,
                    format_args!(
                        "{:.3} s after the last, {} s were promised",
                        passed as f64 / 1e9,
                        polling / SECOND_NS
                    ),
                );
            }
        }
        self.body.clear();
        self.body.extend_from_slice(body);
        self.time_ns = cx.at.time_ns;
    }
}
