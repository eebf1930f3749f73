//! What a collector knows after reading datagrams: sums by interface and flow, and what went missing.
//!
//! Pure: datagrams in, numbers out. Interfaces are known by the ifIndex that the router exports and learn their names from
//! the port name records among the counters (sFlow structure 0:1005).

use std::collections::HashMap;

use parshall_sflow_wire::record::RawHeader;
use parshall_sflow_wire::{
    CounterRecord, CounterSample, Datagram, FlowRecord, FlowSample, Interface, Sample,
};
use parshall_wire::FlowKey;

use crate::estimate::Sums;

/// Raw header protocol of Ethernet.
const ETHERNET: u32 = 1;
/// Most flows and interfaces that are remembered; what comes beyond is counted in sums but has no row of its own.
const MAX_FLOWS: usize = 8192;
const MAX_SOURCES: usize = 256;

/// What is known of one data source.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// Sums over its samples: packets received there.
    pub sums: Sums,
    /// The last sample's number, once there was one.
    sequence: Option<u32>,
    /// Samples whose numbers were left out.
    pub gaps: u64,
    /// Samples that the agent says were lost before it saw them.
    pub drops: u32,
}

/// Everything read so far. Snapshots are clones; differences of two are an interval.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Datagrams read.
    pub datagrams: u64,
    /// Datagrams whose numbers were left out.
    pub datagram_gaps: u64,
    /// Datagrams or samples that make no sense.
    pub malformed: u64,
    /// Flow samples read.
    pub samples: u64,
    /// By ifIndex: what was received there.
    pub sources: HashMap<u32, Source>,
    /// By ifIndex: what the samples say was sent there.
    pub outputs: HashMap<u32, Sums>,
    /// By flow: bytes and packets.
    pub flows: HashMap<FlowKey, Sums>,
    /// Name of each ifIndex.
    pub names: HashMap<u32, String>,
    sequence: Option<u32>,
}

impl Tally {
    /// Takes in one datagram.
    pub fn datagram(&mut self, bytes: &[u8]) {
        self.datagrams += 1;
        let Ok(datagram) = Datagram::parse(bytes) else {
            self.malformed += 1;
            return;
        };
        self.datagram_gaps += gap(&mut self.sequence, datagram.sequence);
        for sample in datagram.samples() {
            match sample {
                Ok(Sample::Flow(flow)) => self.flow(&flow),
                Ok(Sample::Counters(counters)) => self.counters(&counters),
                Ok(Sample::Discard(_) | Sample::Other(_)) => {}
                Err(_) => self.malformed += 1,
            }
        }
    }

    fn flow(&mut self, sample: &FlowSample<'_>) {
        let head = &sample.head;
        let Some(header) = raw_header(sample) else {
            self.malformed += 1;
            return;
        };
        // Lengths are compared with counters of frames without check sequence.
        let len = header.frame_length.saturating_sub(header.stripped);
        self.samples += 1;
        if let Some(source) = entry(&mut self.sources, head.source.index, MAX_SOURCES) {
            source.sums.add(head.rate, len);
            source.gaps += gap(&mut source.sequence, head.sequence);
            source.drops = head.drops;
        }
        if let Some(out) = Interface::if_index(head.output)
            && let Some(sums) = entry(&mut self.outputs, out, MAX_SOURCES)
        {
            sums.add(head.rate, len);
        }
        if let Some(key) = FlowKey::parse_ethernet(header.header)
            && let Some(sums) = entry(&mut self.flows, key, MAX_FLOWS)
        {
            sums.add(head.rate, len);
        }
    }

    fn counters(&mut self, sample: &CounterSample<'_>) {
        for record in sample.counter_records() {
            match record {
                Ok(CounterRecord::PortName(port)) => {
                    let index = sample.head.source.index;
                    if let Some(name) = entry(&mut self.names, index, MAX_SOURCES) {
                        *name = port.name.to_string();
                    }
                }
                Ok(_) => {}
                Err(_) => self.malformed += 1,
            }
        }
    }

    /// The ifIndex of the interface called `name`, once a counter sample has told it.
    pub fn index_of(&self, name: &str) -> Option<u32> {
        self.names.iter().find(|(_, n)| *n == name).map(|(&i, _)| i)
    }

    /// Sums of what interface `index` received since `earlier`.
    pub fn received_since(&self, earlier: &Tally, index: u32) -> Sums {
        let sums = |t: &Tally| t.sources.get(&index).map(|s| s.sums).unwrap_or_default();
        sums(self).since(&sums(earlier))
    }

    /// Sums of what interface `index` sent since `earlier`.
    pub fn sent_since(&self, earlier: &Tally, index: u32) -> Sums {
        let sums = |t: &Tally| t.outputs.get(&index).copied().unwrap_or_default();
        sums(self).since(&sums(earlier))
    }

    /// The `n` flows with the most bytes since `earlier`, largest first.
    pub fn top_since(&self, earlier: &Tally, n: usize) -> Vec<(FlowKey, Sums)> {
        let since = |(key, sums): (&FlowKey, &Sums)| {
            let before = earlier.flows.get(key).copied().unwrap_or_default();
            (*key, sums.since(&before))
        };
        let mut all: Vec<_> = self
            .flows
            .iter()
            .map(since)
            .filter(|(_, s)| s.n > 0)
            .collect();
        all.sort_by(|(ka, a), (kb, b)| b.bytes().total_cmp(&a.bytes()).then(ka.cmp(kb)));
        all.truncate(n);
        all
    }

    /// Samples lost since `earlier`: told by the agent, or seen as gaps in the numbers of samples.
    pub fn lost_since(&self, earlier: &Tally) -> u64 {
        let lost = |t: &Tally| -> u64 {
            t.sources
                .values()
                .map(|s| u64::from(s.drops) + s.gaps)
                .sum()
        };
        lost(self).saturating_sub(lost(earlier))
    }
}

/// How many numbers were left out before `now`. A step back is a restart and no gap.
fn gap(last: &mut Option<u32>, now: u32) -> u64 {
    let before = last.replace(now);
    let step = before.map_or(1, |b| now.wrapping_sub(b));
    if (1..1 << 31).contains(&step) {
        u64::from(step - 1)
    } else {
        0
    }
}

fn entry<K: std::hash::Hash + Eq, V: Default>(
    map: &mut HashMap<K, V>,
    key: K,
    most: usize,
) -> Option<&mut V> {
    if map.len() >= most && !map.contains_key(&key) {
        return None;
    }
    Some(map.entry(key).or_default())
}

fn raw_header<'a>(sample: &FlowSample<'a>) -> Option<RawHeader<'a>> {
    sample.flow_records().find_map(|record| match record {
        Ok(FlowRecord::RawHeader(header)) if header.protocol == ETHERNET => Some(header),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use parshall_sflow_wire::record::PortName;
    use parshall_sflow_wire::{CounterSampleHead, DataSource, DatagramBuilder, FlowSampleHead};
    use parshall_wire::{MacAddr, PacketBuilder};

    fn frame(dst_port: u16) -> Vec<u8> {
        PacketBuilder::ethernet(MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2]))
            .mpls(100)
            .ipv4([10, 0, 0, 1].into(), [10, 0, 0, 2].into())
            .udp(1000, dst_port)
            .payload_len(100)
            .build()
    }

    fn datagram(sequence: u32, samples: &[(u32, u32, u16)]) -> Vec<u8> {
        let mut b = DatagramBuilder::new(1400);
        b.begin("192.0.2.1".parse().unwrap(), 0, sequence, 0);
        for &(number, length, port) in samples {
            let head = FlowSampleHead {
                sequence: number,
                source: DataSource::interface(7),
                rate: 100,
                pool: 0,
                drops: 2,
                input: Interface::index(7),
                output: Interface::index(8),
            };
            b.push_flow_sample_expanded(&head, |w| {
                w.push(&FlowRecord::RawHeader(RawHeader {
                    protocol: ETHERNET,
                    frame_length: length + 4,
                    stripped: 4,
                    header: &frame(port),
                }));
            })
            .unwrap();
        }
        b.finish().to_vec()
    }

    #[test]
    fn samples_become_sums_by_interface_and_flow() {
        let mut t = Tally::default();
        t.datagram(&datagram(
            1,
            &[(1, 1514, 5001), (2, 60, 5002), (3, 60, 5001)],
        ));
        let before = t.clone();
        t.datagram(&datagram(2, &[(4, 1000, 5002)]));
        assert_eq!((t.datagrams, t.samples, t.malformed), (2, 4, 0));
        assert_eq!(
            t.sources[&7].sums.bytes(),
            100.0 * (1514.0 + 60.0 + 60.0 + 1000.0)
        );
        assert_eq!(t.outputs[&8].packets(), 400.0);
        let text = |(key, sums): &(FlowKey, Sums)| format!("{key} {}", sums.bytes());
        let top: Vec<_> = t.top_since(&Tally::default(), 5).iter().map(text).collect();
        assert_eq!(
            top,
            [
                "UDP 10.0.0.1:1000 -> 10.0.0.2:5001 157400",
                "UDP 10.0.0.1:1000 -> 10.0.0.2:5002 106000"
            ]
        );
        let last: Vec<_> = t.top_since(&before, 5).iter().map(text).collect();
        assert_eq!(last, ["UDP 10.0.0.1:1000 -> 10.0.0.2:5002 100000"]);
        assert_eq!(t.received_since(&before, 7).n, 1);
        assert_eq!(t.sent_since(&before, 8).packets(), 100.0);
        assert_eq!(t.received_since(&before, 99), Sums::default());
    }

    #[test]
    fn what_is_missing_is_counted() {
        let mut t = Tally::default();
        t.datagram(&datagram(5, &[(10, 60, 1)]));
        let start = t.clone();
        assert_eq!(t.lost_since(&Tally::default()), 2, "what the agent says");
        t.datagram(&datagram(8, &[(14, 60, 1)]));
        assert_eq!((t.datagram_gaps, t.sources[&7].gaps), (2, 3));
        assert_eq!(t.lost_since(&start), 3);
        // The agent's numbers start again: not a loss of four billion.
        t.datagram(&datagram(1, &[(1, 60, 1)]));
        assert_eq!((t.datagram_gaps, t.sources[&7].gaps), (2, 3));
    }

    #[test]
    fn nonsense_is_counted_and_harmless() {
        let mut t = Tally::default();
        let good = datagram(1, &[(1, 60, 1)]);
        for len in 0..good.len() {
            t.datagram(&good[..len]);
        }
        assert_eq!(t.malformed, good.len() as u64);
        t.datagram(&good);
        assert_eq!(t.samples, 1);
    }

    #[test]
    fn counters_tell_the_names() {
        let mut b = DatagramBuilder::new(1400);
        b.begin("192.0.2.1".parse().unwrap(), 0, 1, 0);
        let head = CounterSampleHead {
            sequence: 1,
            source: DataSource::interface(7),
        };
        b.push_counter_sample_expanded(&head, |w| {
            w.push(&CounterRecord::PortName(PortName {
                name: "host-a".into(),
            }));
        })
        .unwrap();
        let mut t = Tally::default();
        t.datagram(b.finish());
        assert_eq!(t.index_of("host-a"), Some(7));
        assert_eq!(t.index_of("host-b"), None);
    }
}
