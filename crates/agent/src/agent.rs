//! The agent: what it does each time it is called.
//!
//! One call of [`Agent::poll`] drains the rings, reports counters that are due, and sends datagrams that are full or old.
//! It reads no clock and waits for nothing; whoever calls it owns the time.

use std::net::IpAddr;
use std::sync::Arc;

use parshall_ring::Consumer;
use parshall_sample::{Direction, DropSlot, SampleSlot};
use parshall_sflow_wire::{
    CounterRecord, CounterSampleHead, DataSource, Interface, PushError, SampleToSend,
};

use crate::config::{AgentConfig, ConfigError};
use crate::discard::{self, Discards};
use crate::flow::{self, FlowContext};
use crate::host::HostSource;
use crate::interface::{self, Interfaces, LOOKAHEAD};
use crate::netlink::{Netlink, NetlinkDrop, NetlinkSample};
use crate::outbox::{Outbox, Sender};
use crate::records::{RecordKind, Records};
use crate::resolution::{Bridged, Resolution, Sampled};
use crate::router::{IfReport, RouteInfo, Router};
use crate::status::{AgentStatus, RingStatus};
use crate::talkers::{Talkers, Watch};
use crate::transport::Transport;

const SECOND: u64 = 1_000_000_000;
/// Samples taken from one ring before the next one has its turn.
const SHARE: usize = 32;
/// Samples taken in one call before everything else that is due has its turn.
const BUDGET: usize = 8192;
/// How often the list of interfaces is read although no counters are due.
const REFRESH: u64 = SECOND;
/// The same when a sample names an interface that is not in the list.
const REFRESH_UNKNOWN: u64 = SECOND / 10;
/// How often the host's load is looked at.
const HOST_LOOK: u64 = 5 * SECOND;
/// Where a sample's interface is not known (`SampleSlot::tx_if`), or the router made the packet itself (`rx_if`).
const NO_INTERFACE: u32 = u32::MAX;

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

/// The part that turns what was seen into datagrams; apart from the rings, so that both can be borrowed at once.
struct Exporter {
    router: Arc<dyn Router>,
    transport: Box<dyn Transport>,
    netlink: Option<Netlink>,
    outbox: Outbox,
    interfaces: Interfaces,
    /// When the list of interfaces was read last.
    refreshed: Option<u64>,
    /// What the router called its list of interfaces then.
    generation: u64,
    /// Records that samples carry.
    records: Records,
    /// What the router said of the sample at hand.
    found: Resolution,
    /// Flows, while somebody looks at them.
    watch: Option<Box<Watch>>,
    /// Counts the calls that drain the rings.
    round: u64,
    flow_samples: u64,
    counter_samples: u64,
    orphans: u64,
    oversize: u64,
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

impl Exporter {
    /// Reads the list of interfaces if it is another one than before.
    fn follow(&mut self, now: u64) {
        if self.refreshed.is_some() && self.router.generation() != self.generation {
            self.refresh(now);
        }
    }

    /// Reads the list of interfaces. When one of them is numbered anew, what was gathered under the old numbers is sent
    /// first, and all sequences start again: no datagram has numbers of two kinds.
    fn refresh(&mut self, now: u64) -> Vec<IfReport> {
        // Read first: if the list changes in between, it is read again.
        self.generation = self.router.generation();
        let reports = self.router.interfaces();
        if self.interfaces.are_renumbered(&reports) {
            self.outbox.flush(now, self.transport.as_mut());
            self.interfaces.restart();
        }
        self.interfaces.update(now, &reports);
        if let Some(n) = &mut self.netlink {
            n.update(&reports);
        }
        self.refreshed = Some(now);
        reports
    }

    /// One sample into the open datagram.
    #[inline]
    fn export(&mut self, now: u64, slot: &SampleSlot) {
        if let Some(watch) = &mut self.watch {
            watch.see(now, slot);
        }
        let from_router = slot.rx_if == NO_INTERFACE;
        let at = match slot.direction {
            Direction::Rx if !from_router => slot.rx_if,
            _ => slot.tx_if,
        };
        if self.interfaces.get_mut(at).is_none()
            && self.refreshed.is_none_or(|r| r + REFRESH_UNKNOWN <= now)
        {
            self.refresh(now);
        }
        self.explain(slot);
        let route = self.found.route;
        let output = match self.interfaces.exported(slot.tx_if) {
            0 => match self.found.bridged {
                Some(Bridged::To(out_if)) => self.leaves_by(out_if),
                Some(Bridged::Up) => Interface::INTERNAL,
                Some(Bridged::Flooded(n)) => Interface::multiple(n),
                None => route.map_or(Interface::UNKNOWN, |r| self.leaves_by(r.out_if)),
            },
            known => Interface::index(known),
        };
        let came_by = self.interfaces.exported(slot.rx_if);
        let Some(i) = self.interfaces.get_mut(at) else {
            self.orphans += 1;
            return;
        };
        let (sequence, pool, drops) = i.next_flow(at, self.round, self.router.as_ref());
        let source = i.source();
        let input = if from_router {
            Interface::INTERNAL
        } else {
            flow::interface(came_by)
        };
        let context = FlowContext {
            sequence,
            source,
            pool,
            drops,
            input,
            output,
            found: &self.found,
            unix_ns: (self.records.has(RecordKind::Timestamp) && slot.time != 0)
                .then(|| self.router.unix_ns(slot.time))
                .flatten(),
            records: self.records,
        };
        if let Some(n) = &mut self.netlink {
            let ends = (came_by, output.if_index().unwrap_or(0));
            let timestamp = self.router.unix_ns(slot.time);
            n.sample(now, &NetlinkSample::new(slot, ends, timestamp));
        }
        let mut pushed = self.outbox.push(now, self.transport.as_mut(), |b| {
            flow::push(b, slot, &context)
        });
        if pushed == Err(PushError::TooLarge) {
            // An AS path or communities longer than any datagram: better told without than not at all.
            let records = self.records.with(RecordKind::Gateway, false);
            let context = FlowContext { records, ..context };
            pushed = self.outbox.push(now, self.transport.as_mut(), |b| {
                flow::push(b, slot, &context)
            });
        }
        match pushed {
            Ok(()) => self.flow_samples += 1,
            Err(_) => self.oversize += 1,
        }
    }

    /// Asks the router about a packet. What it says now counts only where it agrees with the way that the packet took.
    fn explain(&mut self, slot: &SampleSlot) {
        let packet = Sampled {
            header: flow::header(slot),
            protocol: slot.protocol,
            rx_if: slot.rx_if,
            tx_if: slot.tx_if,
            direction: slot.direction,
            wanted: self.records,
        };
        self.router.explain(&packet, &mut self.found);
        let other = |r: RouteInfo| slot.tx_if != NO_INTERFACE && r.out_if != slot.tx_if;
        if self.found.route.is_some_and(other) {
            self.found.forget_route();
        }
    }

    /// The interface that a route leads out by, as collectors know it.
    fn leaves_by(&self, out_if: u32) -> Interface {
        match out_if {
            RouteInfo::INTERNAL => Interface::INTERNAL,
            index => flow::interface(self.interfaces.exported(index)),
        }
    }

    /// Sends samples of dropped packets as far as their limit lets them through.
    fn report_discards(&mut self, now: u64, discards: &mut Discards) {
        while let Some(slot) = discards.next(now) {
            // 0 where there is no such interface: not known.
            let ends = [slot.rx_if, slot.tx_if].map(|i| self.interfaces.exported(i));
            let router = self.router.clone();
            if let Some(n) = &mut self.netlink {
                let node = router.slot_name(slot.slot).unwrap_or_default();
                let timestamp = router.unix_ns(slot.time);
                n.drop_alert(now, &NetlinkDrop::new(&slot, &node, timestamp));
            }
            let head = discards.head(&slot, (ends[0], ends[1]), router.as_ref());
            match self.outbox.push(now, self.transport.as_mut(), |b| {
                discard::push(b, &head, &slot, router.as_ref())
            }) {
                Ok(()) => discards.sent(&slot),
                Err(_) => self.oversize += 1,
            }
        }
    }

    /// Sends the counters of every interface that is due, and keeps the list of interfaces fresh.
    fn report_counters(&mut self, now: u64, discards: &mut Discards) {
        let stale = self.refreshed.is_none_or(|at| at + REFRESH <= now);
        if !stale && self.interfaces.due() > now {
            return;
        }
        let reports = self.refresh(now);
        discards.observe(now, &reports, self.router.unmade_drops());
        for report in reports {
            let aggregate = report.lag.map_or(0, |l| self.interfaces.exported(l.bond));
            let Some(i) = self.interfaces.take_due(report.index, now) else {
                continue;
            };
            interface::with_records(&report, aggregate, self.records, |records| {
                let head = CounterSampleHead {
                    sequence: i.next_counters(&report.totals),
                    source: i.source(),
                };
                let sample = SampleToSend::Counters(head, records);
                let pushed = self
                    .outbox
                    .push(now, self.transport.as_mut(), |b| b.try_push(&sample));
                match pushed {
                    Ok(()) => self.counter_samples += 1,
                    Err(_) => self.oversize += 1,
                }
            });
        }
        self.interfaces.reckon();
    }
}

fn seconds(s: u32) -> u64 {
    u64::from(s) * SECOND
}

fn age(c: &AgentConfig) -> u64 {
    u64::from(c.max_age_ms) * 1_000_000
}
