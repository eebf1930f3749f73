//! The owner of the state. One thread has a [`Router`]; everything else asks it.
//!
//! Every change is a method here that checks, does, and writes into the journal how to undo itself. A
//! command, a file of commands or a whole configuration is one transaction over that journal: when a part
//! fails, what was done before is undone in reverse, and the router is as it was.

mod acl;
mod addresses;
mod bgp;
mod bonds;
mod bridge;
mod captures;
mod configuration;
mod discovery;
mod drops;
mod facts;
mod interfaces;
mod macip;
mod memif;
mod neighbors;
mod placement;
mod receivers;
mod routes;
mod sampling;
mod settings;
mod sflow;
mod streams;
mod switchover;
mod traces;
mod tunnels;
mod virtuals;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parshall_command::CommandTable;
use parshall_counters::{DropReason, NodeTotals, WorkerCounters};
use parshall_fib::MacWriter;
use parshall_graph::monotonic_ns;
use parshall_nodes::IfTable;

pub use acl::{Acl, AclState, InterfaceAcls};
pub use bridge::{Flush, L2FibEntry};
pub use captures::{CapturePlan, CaptureState};
pub use configuration::{ConfigAction, ConfigLanguage, ConfigPlan};
pub use drops::DropRates;
pub use facts::{SflowDefaults, ThreadFacts};
pub use macip::MacipAcl;
pub use sampling::{Sampling, header_range};
pub use sflow::SflowState;
pub use traces::TraceStore;

use crate::bgp::Bgp;
use crate::bridge::Bridges;
use crate::commands::{self, Handler};
use crate::drivers::{Factory, ModelFactory, SystemFactory};
use crate::engine::{Engine, EngineConfig};
use crate::error::Result;
use crate::forwarding::Forwarding;
use crate::interface::Interfaces;
use crate::lacp::Port;
use crate::neighbor::{NeighborConfig, NeighborTable};
use crate::objects::Objects;
use crate::path::Via;
use crate::prefix::{Family, IpNet};
use crate::rib::{ListKey, Rib, Source};
use crate::statistics::Statistics;

/// How often links are looked at, in ns: nobody tells when one goes or comes.
const LINK_PERIOD: u64 = 250_000_000;
/// How often the agent is shown speed and duplex of links anew, in ns.
const VIEW_PERIOD: u64 = 2_000_000_000;

/// Something to do later.
type Step = Box<dyn FnOnce(&mut Router) -> Result<()> + Send>;

/// How to take one step back.
enum Undo {
    /// By doing something.
    Step(Step),
    /// By giving a route what its source wanted before: small, since a transaction can be of a million.
    Route(At, Source, Option<Arc<ListKey>>),
}

/// A route's place.
type At = (Family, u32, IpNet);

/// Routes an interface's addresses have made: table and prefix, and where they lead.
type Connected = BTreeMap<(Family, u32, IpNet), Via>;

/// What a worker has done as a whole.
#[derive(Clone, Copy, Default)]
pub(crate) struct WorkerCounts {
    pub loops: u64,
    pub received: u64,
    pub transmitted: u64,
    pub dropped: u64,
    pub punted: u64,
}

impl WorkerCounts {
    /// As they are now.
    pub fn of(c: &WorkerCounters) -> WorkerCounts {
        WorkerCounts {
            loops: c.loops.get(),
            received: c.received.get(),
            transmitted: c.transmitted.get(),
            dropped: c.dropped.get(),
            punted: c.punted.get(),
        }
    }
    /// What was added since `earlier`.
    pub fn since(&self, earlier: &WorkerCounts) -> WorkerCounts {
        WorkerCounts {
            loops: self.loops.wrapping_sub(earlier.loops),
            received: self.received.wrapping_sub(earlier.received),
            transmitted: self.transmitted.wrapping_sub(earlier.transmitted),
            dropped: self.dropped.wrapping_sub(earlier.dropped),
            punted: self.punted.wrapping_sub(earlier.punted),
        }
    }
}

/// Counters when they were last cleared.
#[derive(Default)]
pub(crate) struct Baselines {
    /// By worker and slot.
    pub nodes: BTreeMap<(usize, usize), NodeTotals>,
    /// By slot and reason.
    pub drops: BTreeMap<(u16, DropReason), u64>,
    /// What samplers had done, as [`Router::sampler_totals`] says it.
    pub sampled: [u64; 5],
    /// When `show runtime` was last cleared.
    pub runtime_since: Option<Instant>,
    /// What each worker had counted then.
    pub workers: Vec<WorkerCounts>,
}

/// The router.
pub struct Router {
    pub(crate) engine: Engine,
    pub(crate) factory: Box<dyn Factory>,
    pub(crate) interfaces: Interfaces,
    pub(crate) rib: Rib,
    pub(crate) forwarding: Forwarding,
    /// By family.
    pub(crate) neighbors: [NeighborTable; 2],
    /// Host routes of known neighbours, and the interface of each: the same address can be a neighbour's
    /// on several interfaces, but lies in the subnet of one.
    host_routes: BTreeMap<(Family, u32, IpNet), u32>,
    connected: BTreeMap<u32, Connected>,
    pub(crate) mpls_table: bool,
    /// LACP of members of bonds.
    lacp: BTreeMap<u32, Port>,
    pub(crate) memif_sockets: memif::MemifSockets,
    pub(crate) sflow: SflowState,
    pub(crate) acls: AclState,
    pub(crate) macips: macip::MacipState,
    pub(crate) bgp: Bgp,
    pub(crate) bridges: Bridges,
    /// Interfaces made so far.
    incarnations: u64,
    /// Interface of each stream.
    pub(crate) streams: BTreeMap<String, u32>,
    /// Each as it was asked for.
    pub(crate) stream_texts: BTreeMap<String, streams::StreamText>,
    /// Sections of the configuration file that are fixed at the start.
    pub(crate) base: serde_json::Map<String, serde_json::Value>,
    pub(crate) configs: configuration::Configs,
    pub(crate) traces: TraceStore,
    pub(crate) captures: CaptureState,
    pub(crate) drop_rates: DropRates,
    pub(crate) baselines: Baselines,
    pub(crate) statistics: Option<Statistics>,
    pub(crate) started: Instant,
    /// Seconds that the shown clock is ahead.
    pub(crate) clock_ahead: f64,
    pub(crate) logging: crate::logging::Logging,
    table: Arc<CommandTable<Handler>>,
    journal: Vec<Undo>,
    /// What workers are to see at one time: there while a transaction waits for that.
    pending: Option<switchover::Pending>,
    depth: usize,
    undoing: bool,
    /// Files being executed, one inside the other.
    pub(crate) exec_depth: usize,
    pub(crate) stop: bool,
    /// It was shut down.
    is_down: bool,
    /// When the links were last looked at.
    links_seen: u64,
    /// When the agent was last shown them.
    view_shown: u64,
    now: u64,
    /// Packets received when last looked, and when that changed.
    traffic: (u64, Instant),
}

impl Router {
    /// A router with the drivers of this system.
    ///
    /// # Errors
    /// As [`Engine::start`].
    pub fn new(config: EngineConfig) -> Result<Router> {
        Router::with_factory(config, Box::new(SystemFactory::default()))
    }

    /// A router that only thinks: it accepts and refuses as a real one of this configuration would, as far
    /// as that can be said without asking the system.
    ///
    /// # Errors
    /// As [`Engine::start`].
    pub fn model(config: &EngineConfig) -> Result<Router> {
        let config = EngineConfig {
            workers: 0,
            // What it gives out is not to be kept.
            ifindex_file: None,
            ..config.clone()
        };
        Router::with_factory(config, Box::new(ModelFactory))
    }

    /// A router whose devices come from `factory`.
    ///
    /// # Errors
    /// As [`Engine::start`].
    pub fn with_factory(config: EngineConfig, factory: Box<dyn Factory>) -> Result<Router> {
        let seed = config.seed;
        let mut engine = Engine::start(config)?;
        let captures = CaptureState::new(engine.take_captures());
        let forwarding = Forwarding::new(engine.shared.clone());
        let neighbor_table =
            |n: u64| NeighborTable::new(NeighborConfig::default(), seed.wrapping_mul(3) + n);
        let sflow = SflowState::new(&engine, seed);
        let mut router = Router {
            bgp: Bgp::new(sflow.view.bgp.clone()),
            bridges: Bridges::new(MacWriter::new(engine.shared.macs.clone())),
            sflow,
            acls: AclState::default(),
            macips: macip::MacipState::default(),
            incarnations: 0,
            engine,
            factory,
            interfaces: Interfaces::default(),
            rib: Rib::default(),
            forwarding,
            neighbors: [neighbor_table(1), neighbor_table(2)],
            host_routes: BTreeMap::new(),
            connected: BTreeMap::new(),
            mpls_table: false,
            lacp: BTreeMap::new(),
            memif_sockets: memif::default_sockets(),
            streams: BTreeMap::new(),
            stream_texts: BTreeMap::new(),
            base: serde_json::Map::new(),
            configs: configuration::Configs::default(),
            traces: TraceStore::default(),
            captures,
            drop_rates: DropRates::new(monotonic_ns()),
            baselines: Baselines::default(),
            statistics: None,
            started: Instant::now(),
            clock_ahead: 0.0,
            logging: crate::logging::Logging::default(),
            table: commands::table()?,
            journal: Vec::new(),
            pending: None,
            depth: 0,
            undoing: false,
            exec_depth: 0,
            stop: false,
            is_down: false,
            links_seen: 0,
            view_shown: 0,
            now: monotonic_ns(),
            traffic: (0, Instant::now()),
        };
        for family in [Family::Ip4, Family::Ip6] {
            router.add_table(family, 0)?;
        }
        router.journal.clear();
        router.publish();
        Ok(router)
    }

    /// All commands.
    pub fn commands(&self) -> &Arc<CommandTable<Handler>> {
        &self.table
    }
    /// What workers read: to compare it with what it should be.
    pub fn shared(&self) -> &Arc<parshall_nodes::Shared> {
        &self.engine.shared
    }
    /// Whether somebody asked it to end.
    pub fn is_stopping(&self) -> bool {
        self.stop
    }
    /// Whether it only thinks.
    pub fn is_model(&self) -> bool {
        self.engine.workers() == 0
    }
    /// The time of the present turn (monotonic ns).
    pub(crate) fn now(&self) -> u64 {
        self.now
    }

    /// Does `job` whole or not at all.
    ///
    /// # Errors
    /// The job's, after everything it did was undone.
    pub fn atomically<T>(&mut self, job: impl FnOnce(&mut Router) -> Result<T>) -> Result<T> {
        let mark = self.journal.len();
        self.depth += 1;
        let done = job(self);
        self.depth -= 1;
        if done.is_err() {
            self.roll_back(mark);
        }
        if self.depth == 0 {
            // What a large transaction needed is not kept.
            self.journal = Vec::new();
        }
        done
    }

    fn roll_back(&mut self, mark: usize) {
        self.undoing = true;
        while self.journal.len() > mark {
            let undone = match self.journal.pop() {
                Some(Undo::Step(step)) => step(self),
                Some(Undo::Route(at, source, before)) => self.restore_route(at, source, before),
                None => Ok(()),
            };
            if let Err(e) = undone {
                tracing::error!("a step could not be undone: {e}");
            }
        }
        self.undoing = false;
    }

    /// Writes down how to undo what was just done.
    pub(crate) fn undo(&mut self, step: impl FnOnce(&mut Router) -> Result<()> + Send + 'static) {
        if self.depth > 0 && !self.undoing {
            self.journal.push(Undo::Step(Box::new(step)));
        }
    }

    /// Shows workers and agent the interfaces as they are now.
    pub(crate) fn publish(&mut self) {
        if let Some(p) = &mut self.pending {
            (p.tables, p.bridges, p.view) = (true, true, true);
            return;
        }
        let table = self.interface_table();
        let shared = &self.engine.shared;
        shared.interfaces.publish(&shared.domain, table);
        self.publish_bridges();
        self.publish_tunnels();
        self.publish_view();
    }

    /// The interfaces as workers are to know them.
    fn interface_table(&self) -> IfTable {
        let forwarding = &self.forwarding;
        let table = |family, id| forwarding.table_index(family, id).unwrap_or(0);
        self.interfaces.table(table)
    }

    /// Puts the clock that is shown forward.
    pub(crate) fn put_clock_forward(&mut self, seconds: f64) {
        let before = self.clock_ahead;
        self.clock_ahead += seconds;
        self.undo(move |r| {
            r.clock_ahead = before;
            Ok(())
        });
    }

    /// Packets that passed samplers, samples taken and samples lost, over all interfaces and both directions; drops that
    /// the agent heard of while it monitored them, and those of them lost on the way to it.
    pub(crate) fn sampler_totals(&self) -> [u64; 5] {
        let discards = self.sflow.status().unwrap_or_default().discards;
        let mut sum = [0; 5];
        for i in self.interfaces.iter() {
            let t = self.engine.interface_totals(i.index).since(&i.born);
            sum[0] += t.sample_pool + t.tx_sample_pool;
            sum[1] += t.samples + t.tx_samples;
            sum[2] += t.sample_drops + t.tx_sample_drops;
        }
        sum[3] = discards.seen;
        sum[4] = discards.ring_lost;
        sum
    }

    /// Does what has come up since the last turn. Says whether there was anything.
    pub fn turn(&mut self) -> bool {
        self.turn_at(monotonic_ns())
    }

    /// The same at a given time.
    pub fn turn_at(&mut self, now: u64) -> bool {
        self.now = now;
        // What comes up by itself does not wait for the end of a transaction.
        let held = self.step_aside();
        let busy = self.do_turn(now);
        self.step_back(held);
        busy
    }

    fn do_turn(&mut self, now: u64) -> bool {
        let busy = self.handle_events();
        self.age_neighbors();
        self.bridges.age(now);
        self.collect_traces();
        self.look_at_links();
        self.run_lacp();
        self.discover();
        self.look_at_drops();
        self.tune_sampling();
        self.keep_numbers();
        self.reap_capture();
        self.keep_statistics();
        self.look_at_pending();
        self.engine.collect();
        self.forwarding.reclaim();
        busy
    }

    /// Looks which links are there. Routes over one that is gone are not used until it is back.
    fn look_at_links(&mut self) {
        if self.now.saturating_sub(self.links_seen) > LINK_PERIOD {
            self.links_seen = self.now;
            let look = |i: &crate::interface::Interface| {
                let link = i.device.as_ref().filter(|_| i.up)?.info().link_up;
                (link != i.link).then_some((i.index, link))
            };
            let changed: Vec<(u32, bool)> = self.interfaces.iter().filter_map(look).collect();
            for (index, link) in changed {
                self.set_link(index, link);
            }
        }
        if self.sflow.is_running() && self.now.saturating_sub(self.view_shown) > VIEW_PERIOD {
            self.view_shown = self.now;
            self.publish_view();
        }
    }

    /// How long the next turn may wait: short while packets flow, so that nobody waits long for a
    /// neighbour; longer when none do.
    pub fn patience(&mut self) -> Duration {
        let received = self.engine.received();
        if received != self.traffic.0 {
            self.traffic = (received, Instant::now());
        }
        let idle = self.traffic.1.elapsed() > Duration::from_secs(2);
        let most = Duration::from_millis(if idle { 10 } else { 4 });
        let next = self
            .neighbors
            .iter()
            .filter_map(NeighborTable::next_deadline)
            .min();
        next.map_or(most, |t| {
            most.min(Duration::from_nanos(t.saturating_sub(monotonic_ns())))
        })
    }

    /// Ends everything in order: what the agent still has is sent, workers end, devices are released.
    pub fn shut_down(&mut self) {
        self.stop = true;
        if std::mem::replace(&mut self.is_down, true) {
            return;
        }
        self.keep_numbers();
        self.stop_capture();
        let names: Vec<u32> = self.interfaces.iter().map(|i| i.index).collect();
        for index in names {
            if let Some(i) = self.interfaces.get_mut(index) {
                i.up = false;
            }
            self.tell_state(index);
        }
        if let Err(e) = self.engine.settle() {
            tracing::error!("{e}");
        }
        self.sflow.shut_down();
        self.engine.stop();
        for i in self.interfaces.iter_mut() {
            i.device = None;
            i.pg = None;
        }
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        if !self.is_model() {
            self.shut_down();
        }
    }
}
