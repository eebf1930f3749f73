//! The state owner: interfaces, tables, settings; commands; the loop that serves them.
//!
//! One thread has a [`Router`] and runs it with [`run`](run::run). Front ends send it requests over a
//! channel, workers report through rings; nothing else changes state. Pure parts (neighbours, routes,
//! prefixes, frames) know no thread and no clock; [`Router`] puts them together with engine and drivers.

mod adjacency;
mod ask;
mod bgp;
mod bridge;
pub mod commands;
mod configured;
mod cpus;
mod drivers;
mod engine;
mod error;
mod forwarding;
mod header_line;
pub mod ifindex;
mod interface;
mod lacp;
pub mod logging;
mod neighbor;
mod objects;
mod path;
mod prefix;
mod recent;
mod resolve;
pub mod revision;
mod rib;
mod router;
pub mod run;
mod sampling;
pub mod snapshot;
mod solicit;
mod statistics;
mod telemetry;
mod text;
pub mod tunnel;
mod virtual_interface;

pub use ask::Asker;
pub use bgp::{BgpTable, FeedSpec, FeedState, TableFull};
pub use bridge::{
    BRIDGE_ID_MAX, BridgeConfig, Domain, MacAction, MacCounts, MacNews, PortConfig, Station,
    StationKind,
};
pub use commands::{Context, Handler, Output, execute_lines, rehearse};
pub use drivers::{
    DeviceKind, DeviceSpec, Factory, MadeDevice, MemifSpec, ModelFactory, SystemFactory, TapSpec,
};
pub use engine::{Engine, EngineConfig};
pub use error::{Error, Result};
pub use interface::{Interface, Interfaces};
pub use neighbor::{Action, Neighbor, NeighborConfig, NeighborKey, NeighborState, NeighborTable};
pub use parshall_acl::{Action as AclAction, MacipRule, Rule as AclRule};
pub use parshall_nodes::TableLimits;
pub use parshall_sample::MAX_RATE;
pub use path::{Path, Via};
pub use prefix::{Family, IpNet};
pub use router::{
    Acl, CapturePlan, ConfigAction, ConfigLanguage, ConfigPlan, Flush, InterfaceAcls, L2FibEntry,
    MacipAcl, Router, Sampling, SflowDefaults, ThreadFacts, header_range,
};
pub use sampling::{Adaptive, RateSource, SampleDirection, SflowPort};
pub use statistics::SIZE_RANGE as STATISTICS_SIZE_RANGE;
pub use telemetry::View;
pub use virtual_interface::{
    BondBalance, BondMode, BondSpec, Membership, SubSpec, VirtualKind, Vtr, sub_flags,
};
