//! What was lost on the way, told by the numbers in what arrived.
//!
//! Datagrams are numbered by agent and sub-agent, flow samples by agent, sub-agent and source (sFlow Version 5, section 5).
//! [`Tracker`] follows both. A gap counts as lost until what is missing arrives late; what came before is a duplicate; an
//! agent whose uptime falls has started again. With every flow sample come the pool (packets that could have been sampled)
//! and the drops (samples the agent itself lost): their growth since the first sample seen is kept, so that what a collector
//! has can be held against what a router counted.
//!
//! All of it comes off the wire: how many agents and sources are followed is limited, and what is beyond is counted.

use std::collections::HashMap;
use std::net::IpAddr;

use serde::Serialize;

use crate::datagram::{Datagram, Sample};
use crate::types::{Address, DataSource};

/// Most agents followed by default.
pub const MAX_AGENTS: usize = 65_536;
/// Most sources of flow samples followed of one agent.
pub const MAX_SOURCES: usize = 16_384;
/// How far back (in numbers) something may arrive late.
const WINDOW: u32 = 128;
/// An uptime that falls by more than this (ms) is that of an agent that started again; less is reordering on the way.
const RESTARTED_MS: u32 = 5_000;

/// What was received of one sequence of numbers, and what was not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SequenceTotals {
    /// Received, duplicates not counted.
    pub received: u64,
    /// Missing between the first and the last received.
    pub lost: u64,
    /// Received again.
    pub duplicates: u64,
    /// Received behind a later one.
    pub late: u64,
    /// Times the sequence began anew.
    pub restarts: u64,
}

impl SequenceTotals {
    fn add(&mut self, other: &SequenceTotals) {
        self.received += other.received;
        self.lost += other.lost;
        self.duplicates += other.duplicates;
        self.late += other.late;
        self.restarts += other.restarts;
    }
}

/// Follows one sequence of 32-bit numbers that wrap.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sequence {
    highest: u32,
    /// Bit k: `highest - k` was received, or lies before the first.
    seen: u128,
    totals: SequenceTotals,
}

/// What a number told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The next one, or one further on.
    Forward,
    /// One that was missing.
    Late,
    /// One that had come already.
    Duplicate,
    /// The first of a new count.
    Restart,
}

impl Sequence {
    /// Takes in a number. `restarted` = it is known that the count began anew.
    #[inline]
    pub fn observe(&mut self, number: u32, restarted: bool) -> Arrival {
        let ahead = number.wrapping_sub(self.highest);
        if self.totals.received > 0 && ahead == 1 && !restarted {
            // As good as always.
            self.seen = self.seen << 1 | 1;
            self.highest = number;
            self.totals.received += 1;
            return Arrival::Forward;
        }
        self.observe_other(number, restarted)
    }

    fn observe_other(&mut self, number: u32, restarted: bool) -> Arrival {
        let (ahead, back) = (
            number.wrapping_sub(self.highest),
            self.highest.wrapping_sub(number),
        );
        let first = self.totals.received == 0;
        if first || restarted || (ahead > u32::MAX / 2 && back >= WINDOW) {
            self.totals.restarts += u64::from(!first);
            self.totals.received += 1;
            (self.highest, self.seen) = (number, u128::MAX);
            return if first {
                Arrival::Forward
            } else {
                Arrival::Restart
            };
        }
        if back < WINDOW {
            let bit = 1u128 << back;
            if self.seen & bit != 0 {
                self.totals.duplicates += 1;
                return Arrival::Duplicate;
            }
            self.seen |= bit;
            self.totals.received += 1;
            self.totals.late += 1;
            self.totals.lost = self.totals.lost.saturating_sub(1);
            return Arrival::Late;
        }
        self.seen = self.seen.checked_shl(ahead).unwrap_or(0) | 1;
        self.highest = number;
        self.totals.received += 1;
        self.totals.lost += u64::from(ahead - 1);
        Arrival::Forward
    }

    /// What was received and what was not.
    pub fn totals(&self) -> SequenceTotals {
        self.totals
    }
}

/// A number of 32 bits that grows and wraps, as one of 64 bits that grows from 0.
#[derive(Clone, Copy, Debug, Default)]
struct Growth {
    last: u32,
    total: u64,
}

impl Growth {
    fn start(&mut self, value: u32) {
        self.last = value;
    }
    fn observe(&mut self, value: u32) {
        self.total += u64::from(value.wrapping_sub(self.last));
        self.last = value;
    }
}

/// One source of flow samples.
#[derive(Clone, Copy, Debug, Default)]
struct Source {
    sequence: Sequence,
    pool: Growth,
    drops: Growth,
}

impl Source {
    fn observe(&mut self, number: u32, pool: u32, drops: u32, restarted: bool) -> Arrival {
        let first = self.sequence.totals.received == 0;
        let arrival = self.sequence.observe(number, restarted);
        match arrival {
            Arrival::Forward if !first => {
                self.pool.observe(pool);
                self.drops.observe(drops);
            }
            Arrival::Forward | Arrival::Restart => {
                self.pool.start(pool);
                self.drops.start(drops);
            }
            // An older state of the same counts.
            Arrival::Late | Arrival::Duplicate => {}
        }
        arrival
    }
}

/// One agent and sub-agent.
#[derive(Debug, Default)]
struct Agent {
    datagrams: Sequence,
    uptime_ms: u32,
    counter_samples: u64,
    other_samples: u64,
    sources: Vec<(DataSource, Source)>,
    by_source: HashMap<(u32, u32), usize>,
    /// Where the last sample's source lies: it is mostly the next one's as well.
    last: usize,
    untracked: u64,
}

impl Agent {
    fn source(&mut self, source: DataSource) -> Option<&mut Source> {
        if self.sources.get(self.last).is_none_or(|s| s.0 != source) {
            self.last = match self.by_source.get(&(source.class, source.index)) {
                Some(i) => *i,
                None if self.sources.len() >= MAX_SOURCES => {
                    self.untracked += 1;
                    return None;
                }
                None => {
                    let i = self.sources.len();
                    self.by_source.insert((source.class, source.index), i);
                    self.sources.push((source, Source::default()));
                    i
                }
            };
        }
        self.sources.get_mut(self.last).map(|s| &mut s.1)
    }

    fn observe(&mut self, d: &Datagram<'_>) {
        let fell = self.uptime_ms.wrapping_sub(d.uptime_ms);
        let known = self.datagrams.totals.received > 0;
        let restarted = known && (RESTARTED_MS..u32::MAX / 2).contains(&fell);
        let arrival = self.datagrams.observe(d.sequence, restarted);
        if arrival == Arrival::Duplicate {
            return;
        }
        if arrival != Arrival::Late {
            self.uptime_ms = d.uptime_ms;
        }
        if arrival == Arrival::Restart {
            // The sources begin anew as well: their next numbers are first ones.
            for (_, s) in &mut self.sources {
                s.sequence.seen = 0;
            }
        }
        for sample in d.samples() {
            match sample {
                Ok(Sample::Flow(f)) => {
                    let h = &f.head;
                    if let Some(s) = self.source(h.source) {
                        let anew = s.sequence.totals.received > 0 && s.sequence.seen == 0;
                        s.observe(h.sequence, h.pool, h.drops, anew);
                    }
                }
                Ok(Sample::Counters(_)) => self.counter_samples += 1,
                Ok(_) => self.other_samples += 1,
                Err(_) => {}
            }
        }
    }

    fn totals(&self, agent: Address, sub_agent: u32) -> AgentTotals {
        let mut flow = FlowTotals::default();
        for (_, s) in &self.sources {
            flow.samples.add(&s.sequence.totals);
            flow.pool += s.pool.total;
            flow.drops += s.drops.total;
        }
        AgentTotals {
            agent: agent.ip(),
            sub_agent,
            datagrams: self.datagrams.totals,
            flow,
            counter_samples: self.counter_samples,
            other_samples: self.other_samples,
            sources: self.sources.len() as u64,
            untracked: self.untracked,
        }
    }
}

/// Flow samples of one agent, or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FlowTotals {
    /// By their numbers.
    pub samples: SequenceTotals,
    /// Packets that could have been sampled between the first and the last sample of each source.
    pub pool: u64,
    /// Samples that the agents say they lost in that time.
    pub drops: u64,
}

/// What is known of one agent and sub-agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AgentTotals {
    /// Address in the datagrams, if it had one.
    pub agent: Option<IpAddr>,
    /// Sub-agent id.
    pub sub_agent: u32,
    /// Datagrams by their numbers.
    pub datagrams: SequenceTotals,
    /// Flow samples.
    pub flow: FlowTotals,
    /// Counter samples received.
    pub counter_samples: u64,
    /// Samples of other kinds received.
    pub other_samples: u64,
    /// Sources of flow samples.
    pub sources: u64,
    /// Flow samples of sources beyond the limit.
    pub untracked: u64,
}

impl AgentTotals {
    /// Joins what several trackers know, of which each saw a part of the agents' datagrams; in the order of the addresses.
    pub fn join(lists: impl IntoIterator<Item = Vec<AgentTotals>>) -> Vec<AgentTotals> {
        let mut all: Vec<AgentTotals> = lists.into_iter().flatten().collect();
        all.sort_by_key(|a| (a.agent, a.sub_agent));
        all.dedup_by(|b, a| {
            let same = (a.agent, a.sub_agent) == (b.agent, b.sub_agent);
            if same {
                a.add(b);
            }
            same
        });
        all
    }

    fn add(&mut self, other: &AgentTotals) {
        self.datagrams.add(&other.datagrams);
        self.flow.samples.add(&other.flow.samples);
        self.flow.pool += other.flow.pool;
        self.flow.drops += other.flow.drops;
        self.counter_samples += other.counter_samples;
        self.other_samples += other.other_samples;
        self.sources += other.sources;
        self.untracked += other.untracked;
    }
}

/// Follows the datagrams of any number of agents.
#[derive(Debug)]
pub struct Tracker {
    agents: HashMap<(Address, u32), Agent>,
    max_agents: usize,
    untracked: u64,
}

impl Default for Tracker {
    fn default() -> Self {
        Tracker::new(MAX_AGENTS)
    }
}

impl Tracker {
    /// A tracker of at most so many agents.
    pub fn new(max_agents: usize) -> Tracker {
        Tracker {
            agents: HashMap::new(),
            max_agents,
            untracked: 0,
        }
    }

    /// Takes in a datagram.
    pub fn observe(&mut self, d: &Datagram<'_>) {
        let key = (d.agent, d.sub_agent_id);
        let room = self.agents.len() < self.max_agents;
        match self.agents.get_mut(&key) {
            Some(a) => a.observe(d),
            None if room => self.agents.entry(key).or_default().observe(d),
            None => self.untracked += 1,
        }
    }

    /// Datagrams of agents beyond the limit.
    pub fn untracked(&self) -> u64 {
        self.untracked
    }

    /// What is known of each agent, in the order of their addresses.
    pub fn agents(&self) -> Vec<AgentTotals> {
        let each = self.agents.iter().map(|(k, a)| a.totals(k.0, k.1));
        AgentTotals::join([each.collect()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::{CounterSampleHead, DatagramBuilder, FlowSampleHead, SampleToSend};
    use crate::types::Interface;
    use proptest::prelude::*;

    fn observe(numbers: &[u32]) -> SequenceTotals {
        let mut s = Sequence::default();
        for n in numbers {
            s.observe(*n, false);
        }
        s.totals()
    }

    fn totals(
        received: u64,
        lost: u64,
        duplicates: u64,
        late: u64,
        restarts: u64,
    ) -> SequenceTotals {
        SequenceTotals {
            received,
            lost,
            duplicates,
            late,
            restarts,
        }
    }

    #[test]
    fn gaps_lateness_and_wrapping() {
        assert_eq!(observe(&[]), totals(0, 0, 0, 0, 0));
        assert_eq!(observe(&[7, 8, 9]), totals(3, 0, 0, 0, 0));
        assert_eq!(observe(&[7, 9, 12]), totals(3, 3, 0, 0, 0));
        assert_eq!(observe(&[7, 9, 8, 8, 9]), totals(3, 0, 2, 1, 0));
        assert_eq!(observe(&[u32::MAX, 0, 2, 1]), totals(4, 0, 0, 1, 0));
        // Before the first: whether it came is not known, so it cannot be missing.
        assert_eq!(observe(&[7, 5]), totals(1, 0, 1, 0, 0));
        // Too far back to be late.
        assert_eq!(observe(&[1000, 1, 2, 4]), totals(4, 1, 0, 0, 1));
        assert_eq!(observe(&[1, 200, 100]), totals(3, 197, 0, 1, 0));
    }

    proptest! {
        /// Numbers shuffled within less than the window, with losses and duplicates, against a set.
        #[test]
        fn counts_are_those_of_a_set(
            start: u32,
            keep in proptest::collection::vec((any::<bool>(), any::<bool>(), 0u32..60), 2..400)
        ) {
            let mut order: Vec<(u32, u32)> = Vec::new();
            for (i, (here, twice, delay)) in (0u32..).zip(&keep) {
                let copies = if i == 0 { 1 } else { u32::from(*here) + u32::from(*here && *twice) };
                for c in 0..copies {
                    let delay = if i == 0 { 0 } else { *delay + 30 * c };
                    order.push((i + delay, i));
                }
            }
            // The first one comes first, so that all others lie behind it.
            order[1..].sort();
            let mut s = Sequence::default();
            let mut set = std::collections::BTreeSet::new();
            let mut duplicates = 0;
            for (_, i) in &order {
                s.observe(start.wrapping_add(*i), false);
                duplicates += u64::from(!set.insert(*i));
            }
            let last = u64::from(*set.last().unwrap());
            let t = s.totals();
            prop_assert_eq!(t.received, set.len() as u64);
            prop_assert_eq!(t.lost, last + 1 - set.len() as u64);
            prop_assert_eq!((t.duplicates, t.restarts), (duplicates, 0));
        }
    }

    struct Sender(DatagramBuilder);

    impl Sender {
        /// A datagram with flow samples of (source, sequence, pool, drops) and one counter sample.
        fn datagram(&mut self, agent: u8, sequence: u32, uptime: u32, flows: &[[u32; 4]]) -> &[u8] {
            self.0
                .begin(IpAddr::from([192, 0, 2, agent]), 1, sequence, uptime);
            for [source, sequence, pool, drops] in flows {
                let head = FlowSampleHead {
                    sequence: *sequence,
                    source: DataSource::interface(*source),
                    rate: 100,
                    pool: *pool,
                    drops: *drops,
                    input: Interface::index(*source),
                    output: Interface::UNKNOWN,
                };
                self.0.try_push(&SampleToSend::Flow(head, &[])).unwrap();
            }
            let head = CounterSampleHead {
                sequence: 1,
                source: DataSource::interface(1),
            };
            self.0.try_push(&SampleToSend::Counters(head, &[])).unwrap();
            self.0.finish()
        }
    }

    #[test]
    fn agents_and_sources_are_followed_apart() {
        let (mut s, mut t) = (Sender(DatagramBuilder::new(1400)), Tracker::new(2));
        let mut send = |agent, sequence, uptime, flows: &[[u32; 4]]| {
            t.observe(&Datagram::parse(s.datagram(agent, sequence, uptime, flows)).unwrap());
        };
        send(1, 1, 10_000, &[[7, 1, u32::MAX, 0], [8, 1, 50, 0]]);
        send(1, 2, 11_000, &[[7, 3, 99, 2]]);
        send(1, 4, 12_000, &[[8, 2, 60, 0]]);
        send(2, 9, 5, &[]);
        // A third agent is one too many here.
        send(3, 1, 0, &[]);
        // A duplicate changes nothing.
        send(1, 2, 11_000, &[[7, 3, 99, 2]]);
        // Started again: small numbers near the old ones, told by the uptime.
        send(1, 1, 10, &[[7, 1, 5, 0]]);
        send(1, 2, 20, &[[7, 2, 25, 1]]);
        let list = t.agents();
        assert_eq!((list.len(), t.untracked()), (2, 1));
        let a = &list[0];
        assert_eq!(a.agent, Some("192.0.2.1".parse().unwrap()));
        assert_eq!(a.datagrams, totals(5, 1, 1, 0, 1));
        assert_eq!(a.flow.samples, totals(6, 1, 0, 0, 1));
        assert_eq!((a.flow.pool, a.flow.drops), (100 + 10 + 20, 2 + 1));
        assert_eq!((a.sources, a.counter_samples, a.untracked), (2, 5, 0));
        assert_eq!(list[1].datagrams.received, 1);
        let joined = AgentTotals::join([list.clone(), list.clone(), t.agents()[1..].to_vec()]);
        assert_eq!(joined.len(), 2);
        assert_eq!(joined[0].datagrams, totals(10, 2, 2, 0, 2));
        assert_eq!((joined[0].flow.pool, joined[0].flow.drops), (260, 6));
        assert_eq!(joined[1].datagrams.received, 3);
    }

    #[test]
    fn more_sources_than_can_be_followed_are_counted() {
        let (mut s, mut t) = (Sender(DatagramBuilder::new(1400)), Tracker::default());
        for n in 0..MAX_SOURCES as u32 + 10 {
            t.observe(&Datagram::parse(s.datagram(1, n, 0, &[[n, 1, 1, 1]])).unwrap());
        }
        let a = &t.agents()[0];
        assert_eq!((a.sources, a.untracked), (MAX_SOURCES as u64, 10));
    }
}
