//! The sFlow agent: drains sample rings, polls counters, builds and sends datagrams.
//!
//! Follows sFlow Version 5 (`sflow_version_5.txt`, its errata, `sflow_host.txt`, `sflow_application.txt`) and keeps the
//! habits of hsflowd that collectors have grown used to. What lives here:
//!
//! - [`Agent`]: one state machine, driven by [`Agent::poll`] with the time as an argument. It drains the workers' rings
//!   fairly, gives samples their numbers, and writes them straight into the datagram that leaves.
//! - [`AgentThread`]: runs an agent on a thread of its own and is the handle that control holds.
//! - [`Router`]: all that the agent asks of the router. It knows no forwarding table and no interface type.
//! - [`Transport`]: where datagrams go; [`UdpTransport`] is the real one.
//! - [`netlink`]: the same for an unmodified hsflowd: PSAMPLE, USERSOCK and NET_DM.
//! - [`discover`]: collectors that the DNS names.
//! - [`host`]: counters of the machine, read from `/proc` and `/sys`.
//! - [`elect`]: which address the agent calls its own when nobody said.
//!
//! The agent never waits for anything but its own sleep: sockets do not block, names are looked up by helper threads.

mod agent;
mod collector_config;
mod config;
mod discard;
pub mod discover;
pub mod elect;
mod exporter;
mod flow;
mod hardware;
pub mod host;
mod interface;
pub mod netlink;
mod outbox;
mod records;
mod resolution;
mod router;
mod sfp;
mod status;
mod talkers;
mod thread;
mod transport;

#[cfg(test)]
mod fake;
#[cfg(test)]
mod tests;

pub use agent::{Agent, AgentParts};
pub use collector_config::{CollectorConfig, CollectorHost, DEFAULT_PORT, Origin};
pub use config::{AgentConfig, ConfigError};
pub use hardware::{HardwareWatch, Watched};
pub use records::{RecordKind, Records};
pub use resolution::{Bridged, Gateway, Passage, Resolution, Sampled, TunnelEnds};
pub use router::{AclMatch, IfReport, LagReport, RouteInfo, Router};
pub use status::{
    AgentStatus, CollectorState, CollectorStatus, DiscardStatus, LastDrop, Loss, Losses,
    ReasonStatus, RingStatus,
};
pub use talkers::{FlowKey, FlowTotals, Talkers};
pub use thread::{AgentGone, AgentThread, SpawnError, StatusAnswer};
pub use transport::{Lookup, Resolve, ThreadResolver, Transport, UdpTransport};
