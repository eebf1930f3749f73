//! The agent: what it does each time it is called.
//!
//! One call of [`Agent::poll`] drains the rings, reports counters that are due, and sends datagrams that are full or old.
//! It reads no clock and waits for nothing; whoever calls it owns the time.

use std::net::IpAddr;
use std::sync::Arc;

use parshall_ring::Consumer;
use parshall_sample::{DropSlot, SampleSlot};
use parshall_sflow_wire::{CounterRecord, CounterSampleHead, DataSource, SampleToSend};

use crate::config::{AgentConfig, ConfigError};
use crate::discard::Discards;
use crate::exporter::{Exporter, REFRESH};
use crate::host::HostSource;
use crate::interface::{Interfaces, LOOKAHEAD};
use crate::netlink::Netlink;
use crate::outbox::{Outbox, Sender};
use crate::resolution::Resolution;
use crate::router::Router;
use crate::status::{AgentStatus, RingStatus};
use crate::talkers::Talkers;
use crate::transport::Transport;

const SECOND: u64 = 1_000_000_000;
/// Samples taken from one ring before the next one has its turn.
const SHARE: usize = 32;
/// Samples taken in one call before everything else that is due has its turn.
const BUDGET: usize = 8192;
/// How often the host's load is looked at.
const HOST_LOOK: u64 = 5 * SECOND;

/// What an agent is made of.
pub struct AgentParts {
    /// The router it reports on.
    pub router: Arc<dyn Router>,
    /// Where datagrams go.
    pub transport: Box<dyn Transport>,
    /// Counters of the machine; `None` = not reported.
    pub host: Option<Box<dyn HostSource>>,
    /// The agent address when none is configured.
    pub elected: IpAddr,
    /// Moves the polling schedule against that of other agents.
    pub seed: u64,
}

/// The sFlow agent.
pub struct Agent {
    config: AgentConfig,
    elected: IpAddr,
    rings: Vec<Ring>,
    /// Which ring comes first in the next turn.
    turn: usize,
    drained: u64,
    host: Option<Box<dyn HostSource>>,
    host_sequence: u32,
    host_due: u64,
    /// When the host's load was looked at last.
    host_looked: Option<u64>,
    host_samples: u64,
    discards: Discards,
    exporter: Exporter,
}

/// A worker's ring.
struct Ring {
    source: u32,
    consumer: Consumer<SampleSlot>,
    drained: u64,
}

impl Agent {
    /// An agent that starts at `now` (ns, monotonic, as everywhere here).
    ///
    /// # Errors
    /// When a setting is out of its range.
    pub fn new(config: AgentConfig, parts: AgentParts, now: u64) -> Result<Agent, ConfigError> {
        config.validate()?;
        let AgentParts {
            router,
            mut transport,
            host,
            elected,
            seed,
        } = parts;
        transport.set_collectors(now, &config.collectors);
        let sender = Sender {
            address: config.agent_address.unwrap_or(elected),
            sub_agent_id: config.sub_agent_id,
            started: now,
        };
        let mut agent = Agent {
            elected,
            rings: Vec::new(),
            turn: 0,
            drained: 0,
            host,
            host_sequence: 0,
            host_due: u64::MAX,
            host_looked: None,
            host_samples: 0,
            discards: Discards::new(config.drop_limit),
            exporter: Exporter {
                router,
                transport,
                netlink: Netlink::start(&config, now),
                outbox: Outbox::new(sender, config.max_datagram, age(&config)),
                interfaces: Interfaces::new(seconds(config.polling_interval), seed),
                refreshed: None,
                generation: 0,
                records: config.records,
                found: Resolution::default(),
                watch: None,
                round: 0,
                flow_samples: 0,
                counter_samples: 0,
                orphans: 0,
                oversize: 0,
            },
            config,
        };
        agent.schedule_host(now);
        Ok(agent)
    }

    /// Replaces the settings. What was gathered under the old ones is sent first. A change of address or sub-agent id makes
    /// this another agent: its numbers and its uptime start again.
    ///
    /// # Errors
    /// When a setting is out of its range; nothing has changed then.
    pub fn set_config(&mut self, config: AgentConfig, now: u64) -> Result<(), ConfigError> {
        config.validate()?;
        let e = &mut self.exporter;
        e.outbox.flush(now, e.transport.as_mut());
        e.outbox.set_limits(config.max_datagram, age(&config));
        e.interfaces.set_interval(seconds(config.polling_interval));
        e.transport.set_collectors(now, &config.collectors);
        e.records = config.records;
        let was = e.outbox.sender();
        let address = config.agent_address.unwrap_or(self.elected);
        if (was.address, was.sub_agent_id) != (address, config.sub_agent_id) {
            e.outbox.set_sender(Sender {
                address,
                sub_agent_id: config.sub_agent_id,
                started: now,
            });
            e.interfaces.restart();
            self.discards.restart(e.router.as_ref());
            self.host_sequence = 0;
        }
        match &mut e.netlink {
            Some(n) if config.netlink.is_some() => n.set_config(&config, now),
            other => *other = Netlink::start(&config, now),
        }
        // Interfaces that just lost their place in the schedule get a new one at the next call.
        e.refreshed = None;
        if config.drop_limit != self.config.drop_limit {
            self.discards.set_limit(config.drop_limit);
        }
        let host_changed = config.host_interval != self.config.host_interval;
        self.config = config;
        if host_changed {
            self.schedule_host(now);
        }
        Ok(())
    }

    /// Takes another address than the one elected at first; it counts from the next [`set_config`](Self::set_config) on.
    pub fn set_elected(&mut self, address: IpAddr) {
        self.elected = address;
    }

    /// The settings in force.
    pub fn config(&self) -> &AgentConfig {
        &self.config
    }

    /// Adds a worker's ring under the number `source`.
    pub fn add_source(&mut self, source: u32, consumer: Consumer<SampleSlot>) {
        self.rings.push(Ring {
            source,
            consumer,
            drained: 0,
        });
    }

    /// Adds workers' rings of dropped packets.
    pub fn add_drop_rings(&mut self, rings: Vec<Consumer<DropSlot>>) {
        self.discards.add_rings(rings);
    }

    /// Takes what is left in the rings under the number `source`, and lets go of them.
    pub fn remove_source(&mut self, source: u32, now: u64) {
        let (gone, kept) = std::mem::take(&mut self.rings)
            .into_iter()
            .partition(|r| r.source == source);
        self.rings = kept;
        let gone: Vec<Ring> = gone;
        for mut ring in gone {
            let waiting = ring.consumer.len();
            self.exporter.round += 1;
            self.drained += ring.take(waiting, now, &mut self.exporter) as u64;
        }
    }

    /// Does everything that is due at `now` and says when to come back at the latest; a time that is not in the future
    /// means that more is waiting already. Samples do not announce themselves: come earlier to look for them.
    pub fn poll(&mut self, now: u64) -> u64 {
        let transport_due = self.exporter.transport.tick(now);
        self.exporter.follow(now);
        self.exporter.watch.take_if(|w| w.is_over(now));
        let more = self.drain(now);
        self.discards.drain(now);
        self.exporter.report_counters(now, &mut self.discards);
        self.exporter.report_discards(now, &mut self.discards);
        self.report_host(now);
        let netlink_due = self.tend_netlink(now);
        let e = &mut self.exporter;
        e.outbox.send_full(now, e.transport.as_mut());
        e.outbox.flush_aged(now, e.transport.as_mut());
        if more {
            return now;
        }
        let refresh = e.refreshed.map_or(now, |at| at + REFRESH);
        let host = self.host_due.saturating_sub(LOOKAHEAD);
        let look = self.host_looked.map_or(u64::MAX, |at| at + HOST_LOOK);
        [
            transport_due,
            netlink_due,
            self.discards.due(),
            e.outbox.due(),
            e.interfaces.due(),
            host,
            look,
            refresh,
        ]
        .into_iter()
        .fold(u64::MAX, u64::min)
    }

    /// Takes what lies in the rings now, so that none of it is left when an interface changes or goes.
    pub fn empty(&mut self, now: u64) {
        self.exporter.round += 1;
        for ring in &mut self.rings {
            let waiting = ring.consumer.len();
            self.drained += ring.take(waiting, now, &mut self.exporter) as u64;
        }
    }

    /// Sends all that is left: what lies in the rings now, and datagrams that are not full.
    pub fn finish(&mut self, now: u64) {
        self.empty(now);
        self.discards.drain(now);
        self.exporter.report_discards(now, &mut self.discards);
        let e = &mut self.exporter;
        e.outbox.flush(now, e.transport.as_mut());
        if let Some(n) = &mut e.netlink {
            n.flush(now);
        }
    }

    /// Keeps the netlink exporter going. Says when to call again.
    fn tend_netlink(&mut self, now: u64) -> u64 {
        let Some(n) = &mut self.exporter.netlink else {
            return u64::MAX;
        };
        n.flush(now);
        if n.due() <= now {
            let lost = self.rings.iter_mut().map(|r| r.consumer.overflows()).sum();
            n.every_second(now, &self.exporter.router.interfaces(), lost);
        }
        n.tick(now)
    }

    /// Puts an exporter on a kernel of the tests in.
    #[cfg(test)]
    pub fn put_netlink(&mut self, netlink: Netlink) {
        self.exporter.netlink = Some(netlink);
    }

    /// Samples taken from the rings so far.
    pub fn drained(&self) -> u64 {
        self.drained
    }

    /// The agent's state and what it has done.
    pub fn status(&mut self, now: u64) -> AgentStatus {
        let e = &self.exporter;
        let sender = e.outbox.sender();
        let (datagrams, bytes) = e.outbox.totals();
        AgentStatus {
            agent_address: Some(sender.address),
            sub_agent_id: sender.sub_agent_id,
            uptime_ms: now.saturating_sub(sender.started) / 1_000_000,
            datagrams,
            bytes,
            flow_samples: e.flow_samples,
            counter_samples: e.counter_samples,
            host_samples: self.host_samples,
            orphans: e.orphans,
            oversize: e.oversize,
            discards: self.discards.status(e.router.as_ref()),
            netlink: e.netlink.as_ref().map(|n| n.status(now)),
            rings: self.rings.iter_mut().map(Ring::status).collect(),
            collectors: e.transport.status(now),
        }
    }

    /// The `most` greatest flows since somebody began to ask for them; none the first time.
    pub fn talkers(&mut self, now: u64, most: usize) -> Talkers {
        let watch = self.exporter.watch.get_or_insert_default();
        watch.tell(now, most)
    }

    /// Takes samples in turns from all rings until they are empty or the budget is spent. Says whether more may wait.
    fn drain(&mut self, now: u64) -> bool {
        let n = self.rings.len();
        let mut taken = 0;
        self.exporter.round += 1;
        while taken < BUDGET {
            let before = taken;
            for k in 0..n {
                taken += self.rings[(self.turn + k) % n].take(SHARE, now, &mut self.exporter);
            }
            if taken == before {
                self.drained += taken as u64;
                return false;
            }
            self.turn = (self.turn + 1) % n;
        }
        self.drained += taken as u64;
        true
    }

    fn schedule_host(&mut self, now: u64) {
        let on = self.config.host_interval > 0 && self.host.is_some();
        // The first report comes soon: a collector wants to know whom it hears.
        self.host_due = if on {
            now + SECOND.min(seconds(self.config.host_interval))
        } else {
            u64::MAX
        };
    }

    fn report_host(&mut self, now: u64) {
        if self.host_looked.is_none_or(|at| at + HOST_LOOK <= now) {
            self.host_looked = Some(now);
            self.host.iter_mut().for_each(|h| h.look(now));
        }
        if self.host_due > now.saturating_add(LOOKAHEAD) {
            return;
        }
        self.host_due = now + seconds(self.config.host_interval);
        let Some(report) = self.host.as_mut().map(|h| h.read()) else {
            return;
        };
        let records = self.exporter.records;
        report.with_records(records, |records| self.push_host(now, records));
    }

    /// Sends each record as a sample of its own. One sample could hold them all, and hsflowd sends them so; but Wireshark's
    /// dissector does not skip counter records it does not know, and to it all of these are: it takes what follows the
    /// first for garbage and calls the datagram malformed.
    fn push_host(&mut self, now: u64, records: &[CounterRecord<'_>]) {
        let e = &mut self.exporter;
        for record in records {
            let head = CounterSampleHead {
                sequence: self.host_sequence.wrapping_add(1),
                source: DataSource::HOST,
            };
            let sample = SampleToSend::Counters(head, std::slice::from_ref(record));
            if e.outbox
                .push(now, e.transport.as_mut(), |b| b.try_push(&sample))
                .is_ok()
            {
                self.host_sequence = head.sequence;
                self.host_samples += 1;
            } else {
                e.oversize += 1;
            }
        }
    }
}

impl Ring {
    /// Takes at most `most` samples and says how many.
    fn take(&mut self, most: usize, now: u64, exporter: &mut Exporter) -> usize {
        let mut n = 0;
        while n < most
            && self
                .consumer
                .read(|slot| exporter.export(now, slot))
                .is_some()
        {
            n += 1;
        }
        self.drained += n as u64;
        n
    }

    fn status(&mut self) -> RingStatus {
        RingStatus {
            source: self.source,
            drained: self.drained,
            lost: self.consumer.overflows(),
            waiting: self.consumer.len() as u64,
        }
    }
}

fn seconds(s: u32) -> u64 {
    u64::from(s) * SECOND
}

fn age(c: &AgentConfig) -> u64 {
    u64::from(c.max_age_ms) * 1_000_000
}
