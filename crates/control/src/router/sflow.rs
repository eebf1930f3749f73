//! sFlow: which interfaces are sampled, the agent's settings, and the agent itself.
//!
//! The agent's thread starts with the first interface or collector, so that a router without sFlow has
//! none.

use std::sync::Arc;

use parshall_agent::discover::Discovery;
use parshall_agent::{AgentConfig, AgentStatus, AgentThread};
use parshall_nodes::SflowSettings;
use parshall_sample::{MAX_HEADER, MAX_RATE};

use super::Router;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::interface::SflowPort;
use crate::telemetry::View;

/// 1-in-N until told otherwise, as VPP has it.
const DEFAULT_RATE: u32 = 10_000;
/// Header bytes until told otherwise.
const DEFAULT_HEADER: u16 = 128;
/// Fewest header bytes: Ethernet, a tag, IPv6 and ports are in them.
const MIN_HEADER: u16 = 64;

/// Everything about sFlow.
pub struct SflowState {
    /// Settings of the agent.
    pub config: AgentConfig,
    /// 1-in-N for interfaces that have no rate of their own.
    pub rate: u32,
    /// Header bytes for interfaces that have none of their own.
    pub header_bytes: u16,
    /// Where the DNS is asked for collectors, if it is.
    pub discovery: Option<Discovery>,
    /// Chooses when the DNS is asked first.
    pub seed: u64,
    /// What the agent sees of the router.
    pub view: Arc<View>,
    agent: Option<AgentThread>,
}

impl SflowState {
    /// Off, with VPP's defaults.
    pub fn new(engine: &Engine, seed: u64) -> SflowState {
        SflowState {
            config: AgentConfig::default(),
            rate: DEFAULT_RATE,
            header_bytes: DEFAULT_HEADER,
            discovery: None,
            seed,
            view: Arc::new(View::new(
                engine.shared.clone(),
                engine.graph.clone(),
                engine.counters().cloned().collect(),
            )),
            agent: None,
        }
    }
    /// What the agent says of itself, if there is one.
    pub fn status(&self) -> Option<AgentStatus> {
        self.agent.as_ref()?.status().ok()
    }
    /// Whether the agent runs.
    pub fn is_running(&self) -> bool {
        self.agent.is_some()
    }
    /// Sends what the agent has left and ends it.
    pub fn shut_down(&mut self) {
        if let Some(agent) = self.agent.take() {
            agent.shutdown();
        }
    }
}

fn check_rate(rate: u32) -> Result<()> {
    if (1..=MAX_RATE).contains(&rate) {
        return Ok(());
    }
    Err(Error::refused(format!(
        "a sampling rate of 1-in-{rate}: N is 1 to {MAX_RATE}"
    )))
}

fn check_header(bytes: u16) -> Result<()> {
    if (MIN_HEADER..=MAX_HEADER as u16).contains(&bytes) {
        return Ok(());
    }
    Err(Error::refused(format!(
        "{bytes} header bytes: {MIN_HEADER} to {MAX_HEADER} are possible"
    )))
}

impl Router {
    /// Samples an interface.
    ///
    /// # Errors
    /// When a value is out of range or there is no such interface.
    pub fn enable_sflow(&mut self, name: &str, port: SflowPort) -> Result<()> {
        let index = self.interfaces.find_real(name)?;
        port.rate.map_or(Ok(()), check_rate)?;
        port.header_bytes.map_or(Ok(()), check_header)?;
        self.apply_sflow(index, Some(port))
    }

    /// Stops sampling an interface.
    ///
    /// # Errors
    /// When it is not sampled.
    pub fn disable_sflow(&mut self, name: &str) -> Result<()> {
        let index = self.interfaces.find_real(name)?;
        if self
            .interfaces
            .get(index)
            .is_some_and(|i| i.sflow.is_none())
        {
            return Err(Error::Interface {
                name: name.into(),
                why: "has no sFlow enabled".into(),
            });
        }
        self.apply_sflow(index, None)
    }

    fn apply_sflow(&mut self, index: u32, port: Option<SflowPort>) -> Result<()> {
        let Some(i) = self.interfaces.get_mut(index) else {
            return Ok(());
        };
        let was = std::mem::replace(&mut i.sflow, port);
        if port.is_some() {
            self.tell_sampler(index)?;
            self.engine.graph.set_feature("sflow", index, true)?;
        } else {
            self.engine.graph.set_feature("sflow", index, false)?;
            self.tell_sampler(index)?;
        }
        self.publish();
        self.start_agent()?;
        self.undo(move |r| r.apply_sflow(index, was));
        Ok(())
    }

    /// Rate and header bytes in force on an interface; rate 0 = off.
    pub fn sflow_settings(&self, index: u32) -> SflowSettings {
        let interface = self.interfaces.get(index);
        let port = interface.and_then(|i| i.sflow);
        let found = interface.and_then(|i| self.discovered_rate(i));
        SflowSettings {
            if_index: index,
            rate: port.map_or(0, |p| p.rate.or(found).unwrap_or(self.sflow.rate)),
            header_bytes: port
                .and_then(|p| p.header_bytes)
                .or(self.discovered_header())
                .unwrap_or(self.sflow.header_bytes),
        }
    }

    fn tell_sampler(&mut self, index: u32) -> Result<()> {
        let settings = self.sflow_settings(index);
        self.engine.message("sflow", &settings)
    }

    fn tell_samplers(&mut self) -> Result<()> {
        let sampled = self.interfaces.iter().filter(|i| i.sflow.is_some());
        let all: Vec<u32> = sampled.map(|i| i.index).collect();
        all.into_iter().try_for_each(|i| self.tell_sampler(i))?;
        self.publish();
        Ok(())
    }

    /// Sets 1-in-N for interfaces without a rate of their own.
    ///
    /// # Errors
    /// When it is out of range.
    pub fn set_sflow_rate(&mut self, rate: u32) -> Result<()> {
        check_rate(rate)?;
        let was = std::mem::replace(&mut self.sflow.rate, rate);
        self.undo(move |r| r.set_sflow_rate(was));
        self.tell_samplers()
    }

    /// Sets the header bytes for interfaces without a number of their own.
    ///
    /// # Errors
    /// When it is out of range.
    pub fn set_sflow_header(&mut self, bytes: u16) -> Result<()> {
        check_header(bytes)?;
        let was = std::mem::replace(&mut self.sflow.header_bytes, bytes);
        self.undo(move |r| r.set_sflow_header(was));
        self.tell_samplers()
    }

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

    fn start_agent(&mut self) -> Result<()> {
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
        self.sflow.agent = Some(agent);
        Ok(())
    }

    /// Shows the agent the interfaces as they are now.
    pub(super) fn publish_view(&mut self) {
        let ports = self
            .interfaces
            .iter()
            .map(|i| {
                let settings = self.sflow_settings(i.index);
                crate::telemetry::port(i, settings.rate, &self.forwarding)
            })
            .collect();
        self.sflow.view.publish(ports);
    }
}

/// The range of header bytes, for help and configuration.
pub const fn header_range() -> (u16, u16) {
    (MIN_HEADER, MAX_HEADER as u16)
}
