//! What the agent tells about itself: the data behind `show sflow`.

use std::net::{IpAddr, SocketAddr};

use serde::Serialize;

/// The agent's state and what it has done since it started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AgentStatus {
    /// Address in the datagrams.
    pub agent_address: Option<IpAddr>,
    /// Sub-agent id in the datagrams.
    pub sub_agent_id: u32,
    /// Milliseconds since the agent started (or changed its address).
    pub uptime_ms: u64,
    /// Datagrams built; each goes to every collector.
    pub datagrams: u64,
    /// Bytes of UDP payload in them.
    pub bytes: u64,
    /// Flow samples in them.
    pub flow_samples: u64,
    /// Interface counter samples in them.
    pub counter_samples: u64,
    /// Host counter samples in them.
    pub host_samples: u64,
    /// Samples of interfaces that were gone before the sample was read.
    pub orphans: u64,
    /// Samples that no datagram of the configured size can hold.
    pub oversize: u64,
    /// The workers' rings.
    pub rings: Vec<RingStatus>,
    /// The collectors, in the order configured.
    pub collectors: Vec<CollectorStatus>,
}

impl AgentStatus {
    /// Samples lost in all rings because the agent came too late.
    pub fn lost(&self) -> u64 {
        self.rings.iter().map(|r| r.lost).sum()
    }
}

/// One worker's ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RingStatus {
    /// The number it was added under: the worker.
    pub source: u32,
    /// Samples taken out.
    pub drained: u64,
    /// Samples lost because the ring was full.
    pub lost: u64,
    /// Samples waiting now.
    pub waiting: u64,
}

/// One collector.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CollectorStatus {
    /// As configured.
    pub collector: String,
    /// Its address, once known.
    pub peer: Option<SocketAddr>,
    /// What the agent does about it now.
    pub state: CollectorState,
    /// Datagrams handed to the network.
    pub sent: u64,
    /// Bytes of UDP payload in them.
    pub sent_bytes: u64,
    /// Datagrams that could not be sent to it.
    pub failed: u64,
    /// Why the last one that failed did.
    pub last_error: Option<String>,
    /// How long ago that was, in milliseconds.
    pub last_error_ago_ms: Option<u64>,
    /// When that was, in milliseconds since the UNIX epoch; filled in where a wall clock is at hand.
    pub last_error_unix_ms: Option<u64>,
}

/// What the agent does about a collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CollectorState {
    /// Sends to it.
    Up,
    /// Waits for its name to be looked up.
    Resolving,
    /// Could not reach it and tries again later.
    Waiting,
}
