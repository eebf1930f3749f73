//! What the agent tells about itself: the data behind `show sflow`.

use std::net::{IpAddr, SocketAddr};

use serde::Serialize;

use crate::collector_config::CollectorConfig;
use crate::netlink::NetlinkStatus;

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
    /// Dropped packets.
    pub discards: DiscardStatus,
    /// The netlink exporter, if it is on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub netlink: Option<NetlinkStatus>,
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

/// What became of dropped packets. All that were seen are reported, suppressed, unexported or wait.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DiscardStatus {
    /// Samples a second at most, 0 = drop monitoring is off.
    pub limit: u32,
    /// Drops seen while they were monitored, shown by the workers or counted.
    pub seen: u64,
    /// Handed to an exporter: to the collectors, or to the kernel's drop monitor.
    pub reported: u64,
    /// Drops not reported: over a limit, or for lack of room in a ring or a datagram.
    pub suppressed: u64,
    /// Drops not reported because there was no exporter: no collector, and no drop monitor that could be sent to.
    pub unexported: u64,
    /// Waiting for their turn now.
    pub waiting: u64,
    /// Of those, drops lost in the workers' rings because the agent came too late.
    pub ring_lost: u64,
    /// By reason; only reasons that occurred while drops were monitored.
    #[serde(skip)]
    pub reasons: Vec<ReasonStatus>,
}

/// One reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReasonStatus {
    /// Its name.
    pub reason: &'static str,
    /// Handed to an exporter.
    pub reported: u64,
    /// Drops that the agent knows of and did not report; those that the workers did not show it are not in here.
    pub suppressed: u64,
    /// Not reported for want of an exporter.
    pub unexported: u64,
    /// The last packet of those that the workers showed.
    pub last: Option<LastDrop>,
}

/// A dropped packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LastDrop {
    /// When, by the workers' monotonic clock in ns; 0 for a loss without a packet.
    pub time_ns: u64,
    /// Interface it came in on, `u32::MAX` = none.
    pub rx_if: u32,
    /// Interface it was about to leave by, `u32::MAX` = not known.
    pub tx_if: u32,
    /// The graph's slot that gave it up.
    pub slot: u16,
    /// Bytes of the whole packet from the first of `header` on.
    pub frame_len: u32,
    /// What `header` begins with (protocol of a raw header record).
    pub protocol: u32,
    /// Its first bytes.
    pub header: Vec<u8>,
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
    /// Host and port, and what else tells it from another.
    pub collector: String,
    /// As configured.
    pub settings: CollectorConfig,
    /// Its address, once known.
    pub peer: Option<SocketAddr>,
    /// What the agent does about it now.
    pub state: CollectorState,
    /// Datagrams handed to the network.
    pub sent: u64,
    /// Bytes of UDP payload in them.
    pub sent_bytes: u64,
    /// Datagrams that could not be sent to it: the sum of `lost`.
    pub failed: u64,
    /// The same by what was in the way.
    pub lost: Losses,
    /// What it suffers from now, if anything.
    pub trouble: Option<Loss>,
    /// Why the last one that failed did.
    pub last_error: Option<String>,
    /// How long ago that was, in milliseconds.
    pub last_error_ago_ms: Option<u64>,
    /// When that was, in milliseconds since the UNIX epoch; filled in where a wall clock is at hand.
    pub last_error_unix_ms: Option<u64>,
    /// When it is tried again, in milliseconds from now.
    pub next_retry_ms: Option<u64>,
}

/// What kept a datagram from a collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Loss {
    /// No route or no neighbour leads there, or a firewall forbids it.
    Unreachable,
    /// Nobody listens on its port.
    Refused,
    /// The socket's buffer or the device's queue was full.
    NoBuffer,
    /// The collector's rate limit was used up.
    Limited,
    /// Its network namespace is not there.
    NamespaceGone,
    /// The interface to send through, or the address to send from, is not there.
    DeviceGone,
    /// Its name has no address yet.
    Unresolved,
    /// Larger than the collector takes or the way carries.
    TooLarge,
    /// What the system says is none of these.
    Other,
}

impl Loss {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Loss; 9] = [
        Loss::Unreachable,
        Loss::Refused,
        Loss::NoBuffer,
        Loss::Limited,
        Loss::NamespaceGone,
        Loss::DeviceGone,
        Loss::Unresolved,
        Loss::TooLarge,
        Loss::Other,
    ];

    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Loss::Unreachable => "unreachable",
            Loss::Refused => "refused",
            Loss::NoBuffer => "no buffer",
            Loss::Limited => "over the limit",
            Loss::NamespaceGone => "namespace gone",
            Loss::DeviceGone => "device gone",
            Loss::Unresolved => "name not known",
            Loss::TooLarge => "too large",
            Loss::Other => "other",
        }
    }
}

/// Datagrams that did not get to a collector. They had their numbers: the collector sees a gap in the sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Losses {
    /// See [`Loss::Unreachable`].
    pub unreachable: u64,
    /// See [`Loss::Refused`].
    pub refused: u64,
    /// See [`Loss::NoBuffer`].
    pub no_buffer: u64,
    /// See [`Loss::Limited`].
    pub limited: u64,
    /// See [`Loss::NamespaceGone`].
    pub namespace_gone: u64,
    /// See [`Loss::DeviceGone`].
    pub device_gone: u64,
    /// See [`Loss::Unresolved`].
    pub unresolved: u64,
    /// See [`Loss::TooLarge`].
    pub too_large: u64,
    /// See [`Loss::Other`].
    pub other: u64,
}

impl Losses {
    /// Those of one kind.
    pub fn get(&self, loss: Loss) -> u64 {
        let mut copy = *self;
        *copy.slot(loss)
    }

    /// Counts `n` of one kind.
    pub fn add(&mut self, loss: Loss, n: usize) {
        *self.slot(loss) += n as u64;
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        Loss::ALL.iter().map(|l| self.get(*l)).sum()
    }

    fn slot(&mut self, loss: Loss) -> &mut u64 {
        match loss {
            Loss::Unreachable => &mut self.unreachable,
            Loss::Refused => &mut self.refused,
            Loss::NoBuffer => &mut self.no_buffer,
            Loss::Limited => &mut self.limited,
            Loss::NamespaceGone => &mut self.namespace_gone,
            Loss::DeviceGone => &mut self.device_gone,
            Loss::Unresolved => &mut self.unresolved,
            Loss::TooLarge => &mut self.too_large,
            Loss::Other => &mut self.other,
        }
    }
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
