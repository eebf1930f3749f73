//! sFlow: which interfaces are sampled, the agent's settings, and the agent itself.
//!
//! The agent's thread starts with the first interface or collector, so that a router without sFlow has
//! none.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use parshall_agent::discover::Discovery;
use parshall_agent::{AgentConfig, AgentStatus, AgentThread, StatusAnswer, Talkers};
use parshall_ring::Consumer;
use parshall_sample::SampleSlot;

use super::Router;
use super::sampling::read_numbers;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::ifindex::{IfIndexKind, IfNumbers};
use crate::sampling::{SampleDirection, SpeedRates, Tuner};
use crate::telemetry::{Aside, View};

/// Header bytes until told otherwise.
const DEFAULT_HEADER: u16 = 128;

/// Everything about sFlow.
pub struct SflowState {
    /// Settings of the agent.
    pub config: AgentConfig,
    /// 1-in-N for interfaces that have no rate of their own; `None` = by the speed of the link.
    pub rate: Option<u32>,
    /// Rates by the speed of the link, which come before that.
    pub speed_rates: SpeedRates,
    /// Direction for interfaces that have none of their own.
    pub direction: SampleDirection,
    /// Header bytes for interfaces that have none of their own.
    pub header_bytes: u16,
    /// Where the DNS is asked for collectors, if it is.
    pub discovery: Option<Discovery>,
    /// Chooses when the DNS is asked first.
    pub seed: u64,
    /// What the agent sees of the router.
    pub view: Arc<View>,
    /// Whose numbers collectors see.
    pub ifindex: IfIndexKind,
    pub(super) agent: Option<AgentThread>,
    /// Nodes that were given samplers.
    pub(super) receivers: BTreeSet<&'static str>,
    /// Their rings, by worker, that the agent was not given yet.
    pub(super) rings: Vec<(u32, Consumer<SampleSlot>)>,
    /// Adaptive rates, by interface.
    pub(crate) tuners: BTreeMap<u32, Tuner>,
    /// Rates that samplers were told.
    pub(super) told: BTreeMap<u32, u32>,
    /// When traffic and speeds were last looked at.
    pub(super) tuned: u64,
    pub(super) speeds_seen: u64,
    /// Numbers that names have, and where they are kept.
    pub(super) numbers: IfNumbers,
    pub(super) number_file: Option<PathBuf>,
}

impl SflowState {
    /// Off, with VPP's defaults; the numbers of interfaces are those that were given out before.
    pub fn new(engine: &Engine, seed: u64) -> SflowState {
        SflowState {
            config: AgentConfig::default(),
            rate: None,
            speed_rates: SpeedRates::default(),
            direction: SampleDirection::default(),
            header_bytes: DEFAULT_HEADER,
            discovery: None,
            seed,
            view: Arc::new(View::new(
                engine.shared.clone(),
                engine.graph.clone(),
                engine.counters().cloned().collect(),
            )),
            ifindex: IfIndexKind::default(),
            agent: None,
            receivers: BTreeSet::new(),
            rings: Vec::new(),
            tuners: BTreeMap::new(),
            told: BTreeMap::new(),
            tuned: 0,
            speeds_seen: 0,
            numbers: read_numbers(engine.config().ifindex_file.as_ref()),
            number_file: engine.config().ifindex_file.clone(),
        }
    }
    /// What the agent says of itself, if there is one.
    pub fn status(&self) -> Option<AgentStatus> {
        self.agent.as_ref()?.status().ok()
    }
    /// The `most` greatest flows of the samples the agent has had since somebody began to ask; `None` without an agent.
    pub fn talkers(&self, most: usize) -> Option<Talkers> {
        self.agent.as_ref()?.talkers(most).ok()
    }
    /// What the agent says of itself, without waiting for it here.
    pub fn status_later(&self) -> Option<StatusAnswer> {
        self.agent.as_ref()?.ask_status().ok()
    }
    /// Whether the agent runs.
    pub fn is_running(&self) -> bool {
        self.agent.is_some()
    }
    /// Lets the agent take the samples that are there.
    pub(super) fn take_samples(&self) {
        if let Some(agent) = &self.agent
            && let Err(e) = agent.empty()
        {
            tracing::error!("{e}");
        }
    }
    /// Sends what the agent has left and ends it.
    pub fn shut_down(&mut self) {
        if let Some(agent) = self.agent.take() {
            agent.shutdown();
        }
    }
}

impl Router {
    /// Changes the agent's settings.
    ///
    /// # Errors
    /// When one is out of range; then nothing changes.
    pub fn configure_agent(&mut self, change: impl FnOnce(&mut AgentConfig)) -> Result<()> {
        let mut config = self.sflow.config.clone();
        change(&mut config);
        self.set_agent_config(config)
    }

    fn set_agent_config(&mut self, config: AgentConfig) -> Result<()> {
        config
            .validate()
            .map_err(|e| Error::refused(e.to_string()))?;
        let was = std::mem::replace(&mut self.sflow.config, config);
        self.undo(move |r| r.set_agent_config(was));
        self.tell_agent()
    }

    /// Tells the agent its settings in force, and starts it when it is needed now.
    fn tell_agent(&mut self) -> Result<()> {
        if let Some(agent) = &self.sflow.agent {
            agent
                .set_config(self.agent_config())
                .map_err(|e| Error::refused(e.to_string()))?;
        }
        self.start_agent()
    }

    /// Follows what the DNS says.
    pub(super) fn apply_discovered(&mut self) -> Result<()> {
        self.tell_samplers()?;
        self.tell_agent()
    }

    pub(super) fn start_agent(&mut self) -> Result<()> {
        let config = self.agent_config();
        let needed = !config.collectors.is_empty()
            || config.netlink.is_some()
            || config.drop_limit != 0
            || self.interfaces.iter().any(|i| i.sflow.is_some());
        if self.is_model() || self.sflow.agent.is_some() || !needed {
            return Ok(());
        }
        let view = self.sflow.view.clone();
        let agent = AgentThread::spawn(config, view, self.engine.take_samples())
            .map_err(|e| Error::Device(e.to_string()))?;
        if let Err(e) = agent.add_drop_rings(self.engine.take_drops()) {
            tracing::error!("{e}");
        }
        for (worker, ring) in (0..).zip(self.engine.take_tx_samples()) {
            agent
                .add_source(worker, ring)
                .map_err(|e| Error::Device(e.to_string()))?;
        }
        self.sflow.agent = Some(agent);
        Ok(())
    }

    /// Shows the agent the interfaces as they are now.
    pub(super) fn publish_view(&mut self) {
        self.number_interfaces();
        let ports = self
            .interfaces
            .iter()
            .map(|i| {
                let rate = self.sampling(i.index).map_or(0, |s| s.rate);
                let aside = Aside {
                    rate,
                    lacp: self.lacp_port(i.index),
                    acls: self.acls.names(i.index),
                };
                crate::telemetry::port(i, aside, &self.forwarding)
            })
            .collect();
        self.sflow.view.publish(ports);
    }
}
