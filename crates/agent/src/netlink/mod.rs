//! The netlink exporter: packet samples, counters and drops for an unmodified hsflowd on this machine, as VPP's sflow plugin
//! feeds it.
//!
//! Three channels ([`socket`]), each with a codec that is pure: [`psample`], [`usersock`], [`dropmon`]. It runs beside the
//! datagrams of the agent itself. Port numbers are those that collectors see; towards the drop monitor, whose ports are
//! Linux's, those that hsflowd gives them.

mod attributes;
mod dropmon;
pub mod psample;
mod socket;
mod traps;
mod usersock;

use std::collections::{HashMap, HashSet};

use parshall_counters::DropReason;
use parshall_sample::{Direction, DropSlot, HeaderProtocol, NO_QUEUE, NO_TRANSIT, SampleSlot};
use serde::Serialize;

use crate::config::AgentConfig;
use crate::flow;
use crate::router::IfReport;

use dropmon::DropAlert;
use psample::PacketSample;
use socket::{Channel, Kernel, Which};

pub use socket::{ChannelState, ChannelStatus, System, Which as NetlinkChannel};

const SECOND: u64 = 1_000_000_000;
/// Messages gathered before they are sent.
const BATCH: usize = 64;
/// Raw header protocol of Ethernet, the only link layer there is.
const ETHERNET: u16 = 1;
/// What hsflowd adds to a port's number where the port has no Linux interface: its `ifOffset`, which a port of the drop
/// monitor must already include.
const IF_OFFSET: u32 = 1_000_000_000;

/// Settings of the netlink exporter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct NetlinkConfig {
    /// PSAMPLE group of packets received; those transmitted go to the next one.
    pub group: u32,
    /// Name ports of drops by their Linux interface where they have one, as hsflowd does with `osIndex=on`.
    pub os_index: bool,
}

impl NetlinkConfig {
    /// Largest [`group`](Self::group).
    pub const MAX_GROUP: u32 = 65_534;
}

impl Default for NetlinkConfig {
    /// hsflowd's module for VPP listens to the groups 3 and 4, whatever its configuration says.
    fn default() -> Self {
        NetlinkConfig {
            group: 3,
            os_index: true,
        }
    }
}

/// A sample to be sent.
#[derive(Clone, Copy)]
pub struct NetlinkSample<'a> {
    slot: &'a SampleSlot,
    /// Exported ifIndexes it came in on and leaves by, 0 = not known or the router itself.
    ends: (u32, u32),
    /// Nanoseconds since the UNIX epoch.
    timestamp: Option<u64>,
}

impl<'a> NetlinkSample<'a> {
    /// A sample from a ring, with the exported ifIndexes that it came in on and leaves by (0 = not known, or the router
    /// itself), and its time since the UNIX epoch in nanoseconds, which is not sent where the slot has none.
    pub fn new(slot: &'a SampleSlot, ends: (u32, u32), timestamp: Option<u64>) -> Self {
        NetlinkSample {
            slot,
            ends,
            timestamp: timestamp.filter(|_| slot.time != 0),
        }
    }
}

/// A drop to be reported.
#[derive(Clone, Copy)]
pub struct NetlinkDrop<'a> {
    slot: &'a DropSlot,
    node: &'a str,
    timestamp: Option<u64>,
}

impl<'a> NetlinkDrop<'a> {
    /// A drop from a ring, with the name of the node that dropped it and its time since the UNIX epoch in nanoseconds.
    pub fn new(slot: &'a DropSlot, node: &'a str, timestamp: Option<u64>) -> Self {
        NetlinkDrop {
            slot,
            node,
            timestamp: timestamp.filter(|_| slot.time != 0),
        }
    }
}

/// The netlink exporter, for `show sflow`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NetlinkStatus {
    /// Its settings.
    #[serde(flatten)]
    pub config: NetlinkConfig,
    /// Its channels.
    pub channels: Vec<ChannelStatus>,
}

/// What is remembered of an interface for the drop monitor.
struct Port {
    if_index: u32,
    os_index: u32,
    name: String,
}

/// The exporter.
pub struct Netlink {
    config: NetlinkConfig,
    kernel: Box<dyn Kernel>,
    /// The second it started in, of the clock that `now` is of.
    started: u64,
    usersock: Channel,
    psample: Channel,
    dropmon: Option<Channel>,
    samples: Batch,
    drops: Batch,
    /// Numbers of the last samples received and transmitted.
    sequences: [u32; 2],
    /// Seconds of counters' schedule, 0 = none are sent.
    polling: u32,
    /// The last second in which state and counters were sent.
    second: u64,
    /// Exported numbers of the ports whose counters were sent at least once.
    introduced: HashSet<u32>,
    /// By the router's number.
    ports: HashMap<u32, Port>,
}

impl Netlink {
    /// The exporter that these settings ask for, if they do, on the system itself.
    pub fn start(config: &AgentConfig, now: u64) -> Option<Netlink> {
        let asked = config.netlink.is_some();
        asked.then(|| Netlink::new(config, Box::new(System::default()), now))
    }

    /// An exporter that starts at `now`.
    pub fn new(config: &AgentConfig, kernel: Box<dyn Kernel>, now: u64) -> Netlink {
        let mut n = Netlink {
            config: config.netlink.unwrap_or_default(),
            kernel,
            started: now / SECOND,
            usersock: Channel::new(Which::Usersock, now),
            psample: Channel::new(Which::Psample, now),
            dropmon: None,
            samples: Batch::default(),
            drops: Batch::default(),
            sequences: [0; 2],
            polling: config.polling_interval,
            second: now / SECOND,
            introduced: HashSet::new(),
            ports: HashMap::new(),
        };
        n.set_config(config, now);
        n
    }

    /// Replaces the settings. Samples of other groups are counted from 1 again.
    pub fn set_config(&mut self, config: &AgentConfig, now: u64) {
        self.flush(now);
        let own = config.netlink.unwrap_or_default();
        if own.group != self.config.group {
            self.sequences = [0; 2];
        }
        if config.drop_limit == 0 {
            self.dropmon = None;
            self.kernel.close(Which::Dropmon);
        } else if self.dropmon.is_none() {
            self.dropmon = Some(Channel::new(Which::Dropmon, now));
        }
        self.config = own;
        self.polling = config.polling_interval;
    }

    /// Opens what is not open. Says when to call again at the latest.
    pub fn tick(&mut self, now: u64) -> u64 {
        let kernel = self.kernel.as_mut();
        let drops = self.dropmon.as_mut();
        let drops = drops.map_or(u64::MAX, |c| c.tick(now, kernel));
        let usersock = self.usersock.tick(now, kernel);
        let psample = self.psample.tick(now, kernel);
        drops.min(usersock).min(psample).min(self.due())
    }

    /// When state and counters are to be sent next: at every full second.
    pub fn due(&self) -> u64 {
        (self.second + 1) * SECOND
    }

    /// Takes in which interfaces there are.
    pub fn update(&mut self, reports: &[IfReport]) {
        if self.dropmon.is_none() {
            return;
        }
        self.ports.clear();
        self.ports.extend(reports.iter().map(|r| {
            let port = Port {
                if_index: r.if_index,
                os_index: r.os_index,
                name: r.name.clone(),
            };
            (r.index, port)
        }));
    }

    /// Sends state, and the counters of the ports that are due: at first sight, and then in the seconds that leave the
    /// same remainder by the polling interval as the port's number, so that ports spread over the interval. `lost`: samples
    /// that were lost in the agent's rings.
    pub fn every_second(&mut self, now: u64, reports: &[IfReport], lost: u64) {
        let (from, to) = (self.second + 1, now / SECOND);
        if to < from {
            return;
        }
        self.second = to;
        let mut batch = Batch::default();
        // Of seconds' numbers, so that two states never tell of the same second, however late one of them is.
        let uptime = to.saturating_sub(self.started) as u32;
        let drops = lost.wrapping_add(self.psample.failed()) as u32;
        let Some(head) = self.usersock.next() else {
            return;
        };
        usersock::encode_status(batch.add(), head.sequence, head.port, uptime, drops);
        self.introduced
            .retain(|i| reports.iter().any(|r| r.sflow && r.if_index == *i));
        for r in reports.iter().filter(|r| r.sflow && self.polling != 0) {
            let first = self.introduced.insert(r.if_index);
            if !first && !falls_within(r.if_index, self.polling, from, to) {
                continue;
            }
            if batch.is_full() {
                batch.send(now, &mut self.usersock, self.kernel.as_mut());
            }
            if let Some(head) = self.usersock.next() {
                usersock::encode_counters(batch.add(), head.sequence, head.port, r);
            }
        }
        batch.send(now, &mut self.usersock, self.kernel.as_mut());
    }

    /// Takes a sample; it is sent with others, at [`flush`](Self::flush) at the latest.
    pub fn sample(&mut self, now: u64, s: &NetlinkSample<'_>) {
        let Some(head) = self.psample.next() else {
            self.psample.lose();
            return;
        };
        if self.samples.is_full() {
            self.samples
                .send(now, &mut self.psample, self.kernel.as_mut());
        }
        let slot = s.slot;
        // What the router made itself is sampled on its way out.
        let egress = slot.direction == Direction::Tx || slot.rx_if == u32::MAX;
        let sequence = &mut self.sequences[usize::from(egress)];
        *sequence = sequence.wrapping_add(1);
        let sample = PacketSample {
            group: self.config.group + u32::from(egress),
            sequence: *sequence,
            input: s.ends.0,
            output: s.ends.1,
            rate: slot.rate,
            length: slot.frame_len,
            protocol: ETHERNET,
            queue: (slot.queue != NO_QUEUE).then_some(slot.queue),
            latency: (slot.transit_ns != NO_TRANSIT).then_some(u64::from(slot.transit_ns)),
            timestamp: s.timestamp,
            header: flow::header(slot),
            ..PacketSample::default()
        };
        psample::encode(self.samples.add(), head, &sample);
    }

    /// Takes a drop; it is sent with others, at [`flush`](Self::flush) at the latest. A loss that left no packet behind is
    /// none for the drop monitor. Says whether it was taken.
    pub fn drop_alert(&mut self, now: u64, d: &NetlinkDrop<'_>) -> bool {
        let (Some(channel), slot) = (&mut self.dropmon, d.slot) else {
            return false;
        };
        let header = slot.bytes();
        if header.is_empty() {
            return false;
        }
        let Some(head) = channel.next() else {
            channel.lose();
            return false;
        };
        if self.drops.is_full() {
            self.drops.send(now, channel, self.kernel.as_mut());
        }
        let input = self.ports.get(&slot.rx_if).map(|p| {
            let own = self.config.os_index && p.os_index != 0;
            let offset = p.if_index.saturating_add(IF_OFFSET);
            (if own { p.os_index } else { offset }, p.name.as_str())
        });
        let ethertype = slot.protocol.ethertype();
        let alert = DropAlert {
            reason: DropReason::from_code(slot.reason).unwrap_or(DropReason::NodeFault),
            node: d.node,
            input,
            ethertype: (slot.protocol != HeaderProtocol::Ethernet).then_some(ethertype),
            header,
            length: slot.frame_len,
            timestamp: d.timestamp,
        };
        dropmon::encode(self.drops.add(), head, &alert);
        true
    }

    /// Sends what was gathered.
    pub fn flush(&mut self, now: u64) {
        let kernel = self.kernel.as_mut();
        self.samples.send(now, &mut self.psample, kernel);
        if let Some(channel) = &mut self.dropmon {
            self.drops.send(now, channel, kernel);
        }
    }

    /// Its settings and what its channels have done.
    pub fn status(&self, now: u64) -> NetlinkStatus {
        let all = [
            Some(&self.psample),
            Some(&self.usersock),
            self.dropmon.as_ref(),
        ];
        let kernel = self.kernel.as_ref();
        NetlinkStatus {
            config: self.config,
            channels: all
                .into_iter()
                .flatten()
                .map(|c| c.status(now, kernel))
                .collect(),
        }
    }
}

/// Whether a second from `from` to `to` leaves the same remainder by `polling` (not 0) as `index`.
fn falls_within(index: u32, polling: u32, from: u64, to: u64) -> bool {
    let p = u64::from(polling);
    let ahead = (u64::from(index) % p + p - from % p) % p;
    from + ahead <= to
}

/// Messages that wait to be sent, in buffers that are used again.
#[derive(Default)]
struct Batch {
    buffers: Vec<Vec<u8>>,
    used: usize,
}

impl Batch {
    fn is_full(&self) -> bool {
        self.used == BATCH
    }

    /// Room for another message.
    fn add(&mut self) -> &mut Vec<u8> {
        if self.used == self.buffers.len() {
            self.buffers.push(Vec::with_capacity(512));
        }
        self.used += 1;
        let buffer = &mut self.buffers[self.used - 1];
        buffer.clear();
        buffer
    }

    fn send(&mut self, now: u64, channel: &mut Channel, kernel: &mut dyn Kernel) {
        if self.used == 0 {
            return;
        }
        let mut list: [&[u8]; BATCH] = [&[]; BATCH];
        for (slot, message) in list.iter_mut().zip(&self.buffers[..self.used]) {
            *slot = message;
        }
        channel.send(now, kernel, &list[..self.used]);
        self.used = 0;
    }
}

#[cfg(test)]
mod tests;
