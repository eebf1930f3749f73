//! What a snapshot holds: plain data that serializes, with a schema that comes from the same words.
//!
//! Counters here count from the making of an interface or the start of the router; `clear` commands do not touch
//! them, since whoever scrapes takes a falling counter for a restart.

use schemars::JsonSchema;
use serde::Serialize;

/// The router at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Snapshot {
    /// Which program this is.
    pub version: Version,
    /// Seconds since the router started.
    pub uptime_seconds: f64,
    /// Whether every worker thread runs.
    pub healthy: bool,
    /// Worker threads.
    pub workers: Vec<Worker>,
    /// Interfaces, by their number.
    pub interfaces: Vec<Interface>,
    /// Graph nodes that were called, by worker and name.
    pub nodes: Vec<Node>,
    /// Dropped packets by node and reason; only pairs that occurred.
    pub drops: Vec<Drop>,
    /// Packet sampling.
    pub sflow: Sflow,
    /// Forwarding tables.
    pub fib: Fib,
    /// Neighbours known (ARP and IPv6 neighbour discovery).
    pub neighbors: Neighbors,
    /// Memory of the process.
    pub memory: Memory,
}

/// Which program answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Version {
    /// Its name.
    pub program: String,
    /// Its version.
    pub version: String,
    /// The processor architecture it is compiled for.
    pub arch: String,
}

impl Default for Version {
    fn default() -> Version {
        Version {
            program: "parshall".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            arch: std::env::consts::ARCH.into(),
        }
    }
}

/// A worker thread.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Worker {
    /// Its number.
    pub worker: usize,
    /// CPU it is pinned to.
    pub cpu: Option<usize>,
    /// Turns of its loop.
    pub loops: u64,
    /// Times it went to sleep.
    pub sleeps: u64,
    /// Packets received from devices.
    pub received: u64,
    /// Packets handed to devices.
    pub transmitted: u64,
    /// Packets the router made itself.
    pub originated: u64,
    /// Packets the router consumed.
    pub punted: u64,
    /// Packets dropped.
    pub dropped: u64,
    /// Packets that wait for a neighbour now.
    pub held: u64,
    /// Packet buffers it has.
    pub buffers: u64,
    /// Of those, free now.
    pub buffers_free: u64,
    /// Bytes of packet memory it has.
    pub buffer_bytes: u64,
    /// Ticks of the time-stamp counter spent in graph nodes.
    pub clocks: u64,
}

/// An interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its number.
    pub index: u32,
    /// The ifIndex it is exported under in sFlow.
    pub if_index: u32,
    /// What kind of device is behind it.
    pub kind: String,
    /// Administratively up.
    pub admin_up: bool,
    /// Up, and its device has a link.
    pub link_up: bool,
    /// Largest IP packet in bytes.
    pub mtu: u32,
    /// Ethernet address.
    pub mac: String,
    /// Bits per second of its link, 0 = unknown.
    pub speed: u64,
    /// Addresses with the length of their subnets.
    pub addresses: Vec<String>,
    /// IPv4 table.
    pub ip_table: u32,
    /// IPv6 table.
    pub ip6_table: u32,
    /// What it has counted since it was made.
    pub counters: Counters,
    /// How it is sampled, if it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampling: Option<PortSampling>,
}

/// Counters of an interface since it was made. Packets and bytes are of link-layer frames without FCS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Counters {
    /// Frames received.
    pub rx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Frames received with a multicast (not broadcast) destination.
    pub rx_multicast: u64,
    /// Frames received with the broadcast destination.
    pub rx_broadcast: u64,
    /// Frames received that were dropped, whatever the reason.
    pub rx_drops: u64,
    /// Frames the device handed over broken.
    pub rx_errors: u64,
    /// Frames the device or the kernel lost before the router saw them.
    pub rx_missed: u64,
    /// Frames thrown away because no buffer was free.
    pub rx_no_buffer: u64,
    /// Frames received that the router itself consumed.
    pub punts: u64,
    /// Frames sent.
    pub tx_packets: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Frames sent with a multicast (not broadcast) destination.
    pub tx_multicast: u64,
    /// Frames sent with the broadcast destination.
    pub tx_broadcast: u64,
    /// Frames that could not be sent.
    pub tx_drops: u64,
    /// Frames the device refused.
    pub tx_errors: u64,
}

/// How an interface is sampled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PortSampling {
    /// One in so many packets.
    pub rate: u32,
    /// `rx`, `tx` or `both`.
    pub direction: String,
    /// Bytes of a packet that a sample shows.
    pub header_bytes: u16,
    /// Packets that passed the sampler.
    pub pool: u64,
    /// Samples taken.
    pub samples: u64,
    /// Samples lost because a ring was full.
    pub lost: u64,
}

/// A graph node in one worker, since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Node {
    /// Its name; `NAME-tx` is the transmit side of an interface.
    pub node: String,
    /// The worker.
    pub worker: usize,
    /// Times it was called.
    pub calls: u64,
    /// Packets it was called with.
    pub vectors: u64,
    /// Ticks of the time-stamp counter it took.
    pub clocks: u64,
}

/// Packets that one node dropped for one reason, since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Drop {
    /// The node.
    pub node: String,
    /// The reason's name.
    pub reason: String,
    /// The reason in words.
    pub text: String,
    /// The group of the kernel's devlink-trap that it belongs to.
    pub group: String,
    /// Its sFlow discard code.
    pub sflow_code: u32,
    /// How many.
    pub packets: u64,
}

/// Packet sampling.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Sflow {
    /// One in so many, for interfaces without a rate of their own; none = by the speed of the link.
    pub sampling_rate: Option<u32>,
    /// Interfaces that are sampled.
    pub interfaces: usize,
    /// Seconds between counter samples, 0 = none are sent.
    pub polling_interval: u32,
    /// The agent, if it runs.
    pub agent: Option<Agent>,
}

/// The sFlow agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Agent {
    /// Address in the datagrams.
    pub address: Option<String>,
    /// Number that tells several agents of one address apart.
    pub sub_agent_id: u32,
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
    /// Dropped packets handed to an exporter.
    pub discard_samples: u64,
    /// Samples lost because the agent came too late.
    pub lost: u64,
    /// Drops that were not reported: over a limit, or a ring was full.
    pub discards_suppressed: u64,
    /// Drops that were not reported because there was no collector and no drop monitor.
    pub discards_unexported: u64,
    /// Where datagrams go.
    pub collectors: Vec<Collector>,
}

/// A collector of sFlow datagrams.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Collector {
    /// Host and port, and what else tells it from another.
    pub collector: String,
    /// `up`, `resolving` or `waiting`.
    pub state: String,
    /// Datagrams handed to the network.
    pub sent: u64,
    /// Bytes of UDP payload in them.
    pub sent_bytes: u64,
    /// Datagrams that could not be sent to it.
    pub failed: u64,
    /// Why the last one that failed did.
    pub last_error: Option<String>,
}

/// Forwarding tables.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Fib {
    /// Each table.
    pub tables: Vec<FibTable>,
    /// Entries of the MPLS label table.
    pub mpls_labels: usize,
    /// Bytes that all routes take, in both planes.
    pub bytes: usize,
    /// Values that workers may still see and that are freed later.
    pub pending_values: usize,
}

/// A forwarding table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FibTable {
    /// `ip4` or `ip6`.
    pub family: String,
    /// Its number.
    pub table: u32,
    /// Routes in it.
    pub routes: usize,
}

/// How many neighbours are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Neighbors {
    /// IPv4 (ARP).
    pub ip4: usize,
    /// IPv6 (neighbour discovery).
    pub ip6: usize,
}

/// Memory of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Memory {
    /// Resident bytes, 0 where the system does not say.
    pub resident_bytes: u64,
}

/// One neighbour.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct NeighborEntry {
    /// `ip4` or `ip6`.
    pub family: String,
    /// Interface to its link.
    pub interface: String,
    /// Its address.
    pub ip: String,
    /// Its Ethernet address, once known.
    pub mac: Option<String>,
    /// `incomplete`, `reachable`, `stale`, `probe`, `failed` or `static`.
    pub state: String,
    /// Seconds since it was last confirmed or changed its state.
    pub age_seconds: f64,
}

/// Some of the routes of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RoutePage {
    /// `ip4` or `ip6`.
    pub family: String,
    /// Number of the table.
    pub table: u32,
    /// Routes there are in the table.
    pub total: usize,
    /// Those of this page, by address, then the shorter first.
    pub routes: Vec<RouteEntry>,
    /// What to say as `after` for the next page; none = this was the last.
    pub next: Option<String>,
}

/// One route.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RouteEntry {
    /// Its prefix.
    pub prefix: String,
    /// Who wants it: `interface`, `static` or `neighbor`.
    pub source: String,
    /// Its ways out.
    pub paths: Vec<PathEntry>,
}

/// One way out of a route.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PathEntry {
    /// The next hop.
    pub next_hop: Option<String>,
    /// The interface.
    pub interface: Option<String>,
    /// What happens where there is no next hop.
    pub action: Option<String>,
    /// Its share of the traffic, relative to the others'.
    pub weight: u32,
    /// Labels pushed.
    pub labels: Vec<u32>,
}
