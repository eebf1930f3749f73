//! Samples and counters by interface: what is compared, cut at the same places.
//!
//! An agent writes counters and samples into one stream, in the order in which it read them. So the samples that stand
//! between two counter samples of an interface are those of the packets that its counters grew by in between: the cut is
//! as sharp as the agent empties its samples before it reads the counters, whatever the delay on the way.

use std::collections::HashMap;

use parshall_sflow_wire::record::IfCounters;
use parshall_sflow_wire::{
    Address, CounterRecord, CounterSample, Datagram, FlowRecord, FlowSample, Sample,
};

use super::stats::Samples;
use crate::lint::glued;

/// Interfaces followed; those beyond are counted.
pub const MAX_INTERFACES: usize = 16_384;
/// A step of numbers larger than this is a restart, no loss.
const MOST_LOST: u32 = 1 << 24;

/// One interface of one agent and sub-agent.
pub type Key = (Address, u32, u32);

/// The way of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// Sampled where it was received.
    Rx,
    /// Sampled where it was sent.
    Tx,
    /// Sent there by what samples of other interfaces say.
    Via,
}

/// Samples of a stretch of time.
#[derive(Clone, Debug, Default)]
pub struct Stretch {
    /// Received here.
    pub rx: Samples,
    /// Sent from here.
    pub tx: Samples,
    /// Sent from here, as samples taken elsewhere say.
    pub via: Samples,
    /// Samples of this source that came, and those that were drawn and did not.
    pub received: u64,
    /// See there.
    pub lost: u64,
}

impl Stretch {
    fn join(&mut self, other: &Stretch) {
        self.rx.join(&other.rx);
        self.tx.join(&other.tx);
        self.via.join(&other.via);
        self.received += other.received;
        self.lost += other.lost;
    }
}

/// Counters of an interface in one direction; `None` = not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Frames.
    pub packets: Option<u64>,
    /// Bytes.
    pub bytes: Option<u64>,
}

impl Totals {
    fn add(&mut self, packets: Option<u64>, bytes: Option<u64>) {
        let sum = |a: Option<u64>, b: Option<u64>| b.map(|b| a.unwrap_or(0).wrapping_add(b));
        self.packets = sum(self.packets, packets);
        self.bytes = sum(self.bytes, bytes);
    }
}

/// What is known of an interface.
#[derive(Clone, Debug, Default)]
pub struct Interface {
    /// By the name record.
    pub name: Option<String>,
    /// Rate of the last sample.
    pub rate: Option<u32>,
    /// Samples since the counters were read last.
    pub open: Stretch,
    /// Samples between readings.
    pub closed: Stretch,
    /// What the counters grew by between readings.
    pub truth: [Totals; 2],
    /// Seconds between readings.
    pub seconds: f64,
    sequence: Option<u32>,
    drops: u32,
    counters: Option<(u32, IfCounters, u64)>,
}

/// What is to become of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the period.
    Inside,
    /// Before or after it.
    Outside,
}

/// All interfaces.
#[derive(Debug, Default)]
pub struct Tally {
    /// By agent, sub-agent and ifIndex.
    pub interfaces: HashMap<Key, Interface>,
    /// Octet counters have the frame check sequence in them.
    pub with_fcs: bool,
    /// The truth does not come from counter samples: of those only the names are taken.
    pub names_only: bool,
    /// Datagrams read.
    pub datagrams: u64,
    /// Datagrams and samples that make no sense.
    pub malformed: u64,
    /// Samples of more interfaces than are followed.
    pub beyond: u64,
}

impl Tally {
    /// Takes in a datagram that came at `time_ns`, and those glued to it; `place` says of each flow sample whether it counts.
    pub fn datagram(
        &mut self,
        time_ns: u64,
        bytes: &[u8],
        place: &dyn Fn(&FlowSample<'_>) -> Place,
    ) {
        let mut rest = bytes;
        while let Some((one, more)) = glued(rest).and_then(|n| rest.split_at_checked(n)) {
            self.one(time_ns, one, place);
            rest = more;
        }
        self.one(time_ns, rest, place);
    }

    fn one(&mut self, time_ns: u64, bytes: &[u8], place: &dyn Fn(&FlowSample<'_>) -> Place) {
        self.datagrams += 1;
        let Ok(d) = Datagram::parse(bytes) else {
            self.malformed += 1;
            return;
        };
        for sample in d.samples() {
            match sample {
                Ok(Sample::Flow(f)) => self.flow(&d, &f, place(&f)),
                Ok(Sample::Counters(c)) => self.counters(&d, &c, time_ns),
                Ok(_) => {}
                Err(_) => self.malformed += 1,
            }
        }
    }

    fn interface(&mut self, d: &Datagram<'_>, if_index: u32) -> Option<&mut Interface> {
        let key = (d.agent, d.sub_agent_id, if_index);
        if self.interfaces.len() >= MAX_INTERFACES && !self.interfaces.contains_key(&key) {
            self.beyond += 1;
            return None;
        }
        Some(self.interfaces.entry(key).or_default())
    }

    fn flow(&mut self, d: &Datagram<'_>, f: &FlowSample<'_>, place: Place) {
        let h = &f.head;
        if h.source.class != 0 {
            return;
        }
        let Some(len) = frame_length(f, self.with_fcs) else {
            self.malformed += 1;
            return;
        };
        let inside = place == Place::Inside;
        let (input, output) = (h.input.if_index(), h.output.if_index());
        let received_here = input == Some(h.source.index);
        let Some(i) = self.interface(d, h.source.index) else {
            return;
        };
        let lost = i.lost_before(h.sequence, h.drops);
        i.rate = Some(h.rate);
        if inside {
            i.open.received += 1;
            i.open.lost += lost;
            if received_here {
                i.open.rx.add(h.rate, len);
            } else if output == Some(h.source.index) {
                i.open.tx.add(h.rate, len);
            }
        }
        if inside
            && received_here
            && let Some(out) = output
            && let Some(o) = self.interface(d, out)
        {
            o.open.via.add(h.rate, len);
        }
    }

    fn counters(&mut self, d: &Datagram<'_>, c: &CounterSample<'_>, time_ns: u64) {
        if c.head.source.class != 0 {
            return;
        }
        let names_only = self.names_only;
        for record in c.counter_records().flatten() {
            let Some(i) = self.interface(d, c.head.source.index) else {
                return;
            };
            match record {
                CounterRecord::Interface(_) if names_only => {}
                CounterRecord::Interface(r) => i.read(c.head.sequence, r, time_ns),
                CounterRecord::PortName(p) => i.name = Some(p.name.to_string()),
                _ => {}
            }
        }
    }

    /// The samples so far count, and the counters grew by this: for readings that are not in the stream.
    pub fn close(&mut self, key: Key, truth: [Totals; 2], seconds: f64) {
        let i = self.interfaces.entry(key).or_default();
        i.closed = std::mem::take(&mut i.open);
        (i.truth, i.seconds) = (truth, seconds);
    }
}

impl Interface {
    /// Samples that were drawn since the last one and did not come: left out on the way or given up by the agent.
    fn lost_before(&mut self, sequence: u32, drops: u32) -> u64 {
        let last = self.sequence.replace(sequence);
        let dropped = drops.wrapping_sub(std::mem::replace(&mut self.drops, drops));
        let Some(last) = last else {
            return 0;
        };
        let step = sequence.wrapping_sub(last);
        if step == 0 || step > MOST_LOST {
            return 0;
        }
        u64::from(step - 1) + u64::from(if dropped > MOST_LOST { 0 } else { dropped })
    }

    /// The counters were read: what was gathered since the last time counts, unless they began anew.
    fn read(&mut self, sequence: u32, now: IfCounters, time_ns: u64) {
        let stretch = std::mem::take(&mut self.open);
        let Some((last, was, since)) = self.counters.replace((sequence, now, time_ns)) else {
            return;
        };
        let step = sequence.wrapping_sub(last);
        if step == 0 || step > MOST_LOST {
            return;
        }
        self.closed.join(&stretch);
        self.seconds += time_ns.saturating_sub(since) as f64 / 1e9;
        let grown = |pairs: [(u32, u32); 3]| {
            let each = |(a, b): (u32, u32)| {
                (a != u32::MAX && b != u32::MAX).then(|| u64::from(b.wrapping_sub(a)))
            };
            // Unicast must be known; the others may not be told apart from it.
            let [unicast, others @ ..] = pairs.map(each);
            unicast.map(|u| others.into_iter().flatten().fold(u, u64::wrapping_add))
        };
        let octets = |a: u64, b: u64| (a != u64::MAX && b != u64::MAX).then(|| b.wrapping_sub(a));
        self.truth[0].add(
            grown([
                (was.in_ucast_pkts, now.in_ucast_pkts),
                (was.in_multicast_pkts, now.in_multicast_pkts),
                (was.in_broadcast_pkts, now.in_broadcast_pkts),
            ]),
            octets(was.in_octets, now.in_octets),
        );
        self.truth[1].add(
            grown([
                (was.out_ucast_pkts, now.out_ucast_pkts),
                (was.out_multicast_pkts, now.out_multicast_pkts),
                (was.out_broadcast_pkts, now.out_broadcast_pkts),
            ]),
            octets(was.out_octets, now.out_octets),
        );
    }
}

/// The length of the sampled frame as the octet counters count it.
fn frame_length(f: &FlowSample<'_>, with_fcs: bool) -> Option<u32> {
    f.flow_records().flatten().find_map(|r| match r {
        FlowRecord::RawHeader(h) if with_fcs => Some(h.frame_length),
        FlowRecord::RawHeader(h) => Some(h.frame_length.saturating_sub(h.stripped)),
        FlowRecord::Ethernet(e) => Some(e.length),
        _ => None,
    })
}

/// When a sample says that it was taken, nanoseconds since 1970.
pub fn stamp(f: &FlowSample<'_>) -> Option<u64> {
    f.flow_records().flatten().find_map(|r| match r {
        FlowRecord::Timestamp(t) => Some(t.unix_ns),
        _ => None,
    })
}
