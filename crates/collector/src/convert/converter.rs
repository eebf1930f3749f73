//! Streams of export datagrams, one for each exporter that is seen.
//!
//! Without scaling, a flow record is the sampled packet and its stream announces the sampling interval, so there is a stream for each interval of an
//! exporter: many collectors take one interval for all of a stream, some even the first they see. With scaling, packets and bytes are multiplied here and the
//! stream announces an interval of 1.

use std::collections::HashMap;
use std::net::IpAddr;

use parshall_flow_export::{
    self as export, Exporter, Fit, Flow, NETFLOW5_MAX_INTERVAL, Protocol, PushError,
};
use parshall_sflow_wire::{Datagram, FlowSample, Sample};
use serde::Serialize;

use super::sample::{Skip, flow_of};

/// Streams at most; beyond, the one not used for longest gives way.
const MAX_STREAMS: usize = 4096;
/// The clock of the streams began this long before the first datagram, so that a timestamp of a sample can lie before it.
const BOOT_BEFORE_MS: u64 = 2 * 3_600_000;

/// Who multiplies by the sampling rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// We do.
    Here,
    /// The collector does.
    AtCollector,
}

/// How to convert.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// What to send.
    pub protocol: Protocol,
    /// Who multiplies.
    pub scale: Scale,
    /// Bytes of an export datagram at most.
    pub max_bytes: usize,
    /// Templates are sent again after so many milliseconds.
    pub refresh_ms: u64,
    /// Templates are sent again after so many datagrams.
    pub refresh_datagrams: u32,
}

/// What was converted and what was not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// sFlow datagrams that came.
    pub datagrams: u64,
    /// Those that could not be read to their end.
    pub malformed: u64,
    /// Flow samples in them.
    pub flow_samples: u64,
    /// Counter, discard and other samples, of which there are no flow records.
    pub other_samples: u64,
    /// Flow records made.
    pub flows: u64,
    /// Packets that they stand for, by the sampling rates.
    pub packets: u64,
    /// Bytes that they stand for.
    pub octets: u64,
    /// Flow samples of packets that are not IP.
    pub not_ip: u64,
    /// Flow samples whose packet cannot be read.
    pub unreadable: u64,
    /// IPv6 flows that version 5 cannot carry.
    pub ipv6: u64,
    /// Flows of which a number was too large for its field (version 5).
    pub clipped: u64,
    /// Flows scaled here because version 5 cannot announce their sampling rate.
    pub rate_too_large: u64,
    /// Streams that gave way to others.
    pub streams_evicted: u64,
    /// Export datagrams made.
    pub exported: u64,
}

/// Takes an export datagram; the address is that of the agent whose flows it has.
pub type Sink<'a> = dyn FnMut(IpAddr, &[u8]) + 'a;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    agent: IpAddr,
    sub_agent: u32,
    interval: u32,
}

#[derive(Debug)]
struct Stream {
    exporter: Exporter,
    /// When the first flow of the datagram came.
    since_ms: u64,
    /// When it was used last, by the count of flows.
    used: u64,
}

/// Makes export datagrams of sFlow datagrams.
#[derive(Debug)]
pub struct Converter {
    settings: Settings,
    streams: HashMap<Key, Stream>,
    boot_ms: Option<u64>,
    /// Streams so far.
    domains: u32,
    uses: u64,
    /// When datagrams were looked through for their age.
    looked_ms: u64,
    counts: Counts,
}

impl Converter {
    /// One that has seen nothing yet.
    pub fn new(settings: Settings) -> Converter {
        Converter {
            settings,
            streams: HashMap::new(),
            boot_ms: None,
            domains: 0,
            uses: 0,
            looked_ms: 0,
            counts: Counts::default(),
        }
    }

    /// What was converted so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Takes a datagram that `from` sent; export datagrams that became full go to `sink`.
    pub fn datagram(&mut self, bytes: &[u8], from: IpAddr, now_ms: u64, sink: &mut Sink<'_>) {
        self.counts.datagrams += 1;
        let Ok(datagram) = Datagram::parse(bytes) else {
            self.counts.malformed += 1;
            return;
        };
        let agent = datagram.agent.ip().unwrap_or(from);
        let mut whole = true;
        for sample in datagram.samples() {
            match sample {
                Ok(Sample::Flow(s)) => {
                    self.counts.flow_samples += 1;
                    self.sample(&s, agent, datagram.sub_agent_id, now_ms, sink);
                }
                Ok(_) => self.counts.other_samples += 1,
                Err(_) => whole = false,
            }
        }
        self.counts.malformed += u64::from(!whole);
    }

    /// Sends the datagrams whose first flow came at least so long ago. Cheap to ask for often.
    pub fn flush_older(&mut self, age_ms: u64, now_ms: u64, sink: &mut Sink<'_>) {
        let again = now_ms.saturating_sub(self.looked_ms);
        if age_ms > 0 && again < (age_ms / 8).max(1) {
            return;
        }
        self.looked_ms = now_ms;
        for (key, stream) in &mut self.streams {
            let old = now_ms.saturating_sub(stream.since_ms) >= age_ms;
            if stream.exporter.pending() > 0 && old {
                finish(stream, key, now_ms, &mut self.counts, sink);
            }
        }
    }

    fn sample(
        &mut self,
        sample: &FlowSample<'_>,
        agent: IpAddr,
        sub_agent: u32,
        now_ms: u64,
        sink: &mut Sink<'_>,
    ) {
        let mut flow = match flow_of(sample, now_ms) {
            Ok(flow) => flow,
            Err(Skip::NotIp) => return self.counts.not_ip += 1,
            Err(Skip::Malformed) => return self.counts.unreadable += 1,
        };
        // A rate of 0 means nothing; the packet was there.
        let rate = sample.head.rate.max(1);
        let v5 = self.settings.protocol == Protocol::NetFlow5;
        let announced = match self.settings.scale {
            Scale::Here => 1,
            Scale::AtCollector if v5 && rate > NETFLOW5_MAX_INTERVAL => {
                self.counts.rate_too_large += 1;
                1
            }
            Scale::AtCollector => rate,
        };
        let scaled = (u64::from(rate), flow.octets.saturating_mul(u64::from(rate)));
        if announced != rate {
            (flow.packets, flow.octets) = scaled;
        }
        let key = Key {
            agent,
            sub_agent,
            interval: announced,
        };
        match self.push(key, &flow, now_ms, sink) {
            Ok(fit) => {
                self.counts.flows += 1;
                self.counts.clipped += u64::from(fit == Fit::Clipped);
                self.counts.packets = self.counts.packets.saturating_add(scaled.0);
                self.counts.octets = self.counts.octets.saturating_add(scaled.1);
            }
            Err(PushError::Ipv6) => self.counts.ipv6 += 1,
            Err(_) => self.counts.unreadable += 1,
        }
    }

    fn push(
        &mut self,
        key: Key,
        flow: &Flow,
        now_ms: u64,
        sink: &mut Sink<'_>,
    ) -> Result<Fit, PushError> {
        if !self.streams.contains_key(&key) {
            self.make_room(now_ms, sink);
        }
        self.uses += 1;
        let boot_ms = *self
            .boot_ms
            .get_or_insert(now_ms.saturating_sub(BOOT_BEFORE_MS));
        let (settings, domains) = (self.settings, &mut self.domains);
        let stream = self.streams.entry(key).or_insert_with(|| {
            // 0 says nothing in version 9 and IPFIX.
            *domains = domains.checked_add(1).unwrap_or(1);
            open(&settings, &key, *domains, boot_ms)
        });
        stream.used = self.uses;
        if stream.exporter.pending() == 0 {
            stream.since_ms = now_ms;
        }
        match stream.exporter.push(flow, now_ms) {
            Err(PushError::Full) => {
                finish(stream, &key, now_ms, &mut self.counts, sink);
                stream.since_ms = now_ms;
                stream.exporter.push(flow, now_ms)
            }
            other => other,
        }
    }

    /// Closes the stream that was not used for longest if there are as many as there may be.
    fn make_room(&mut self, now_ms: u64, sink: &mut Sink<'_>) {
        if self.streams.len() < MAX_STREAMS {
            return;
        }
        let oldest = self.streams.iter().min_by_key(|(_, s)| s.used);
        if let Some(key) = oldest.map(|(key, _)| *key)
            && let Some(mut stream) = self.streams.remove(&key)
        {
            finish(&mut stream, &key, now_ms, &mut self.counts, sink);
            self.counts.streams_evicted += 1;
        }
    }
}

fn open(settings: &Settings, key: &Key, domain: u32, boot_ms: u64) -> Stream {
    Stream {
        exporter: Exporter::new(export::Settings {
            protocol: settings.protocol,
            domain,
            sampling_interval: key.interval,
            origin: Some((key.agent, key.sub_agent)),
            boot_ms,
            max_bytes: settings.max_bytes,
            refresh_ms: settings.refresh_ms,
            refresh_datagrams: settings.refresh_datagrams,
        }),
        since_ms: 0,
        used: 0,
    }
}

fn finish(stream: &mut Stream, key: &Key, now_ms: u64, counts: &mut Counts, sink: &mut Sink<'_>) {
    if let Some(bytes) = stream.exporter.finish(now_ms) {
        counts.exported += 1;
        sink(key.agent, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parshall_sflow_wire::record::SampledIpv4;
    use parshall_sflow_wire::{DataSource, DatagramBuilder, FlowRecord, FlowSampleHead, Interface};
    use proptest::prelude::*;

    const NOW: u64 = 1_700_000_000_000;

    fn settings(protocol: Protocol, scale: Scale) -> Settings {
        Settings {
            protocol,
            scale,
            max_bytes: 1400,
            refresh_ms: 60_000,
            refresh_datagrams: 1000,
        }
    }

    /// A datagram of flow samples with these rates, each of an IPv4 packet of 100 bytes.
    fn datagram(agent: [u8; 4], rates: &[u32]) -> Vec<u8> {
        let mut b = DatagramBuilder::new(9000);
        b.begin(agent.into(), 3, 1, 1);
        for (i, rate) in rates.iter().enumerate() {
            let head = FlowSampleHead {
                sequence: i as u32,
                source: DataSource::interface(1),
                rate: *rate,
                pool: 0,
                drops: 0,
                input: Interface::index(1),
                output: Interface::index(2),
            };
            let packet = FlowRecord::Ipv4(SampledIpv4 {
                length: 100,
                protocol: 17,
                src: [10, 0, 0, 1].into(),
                dst: [10, 0, 0, 2].into(),
                src_port: 1,
                dst_port: 2,
                tcp_flags: 0,
                tos: 0,
            });
            b.push_flow_sample_expanded(&head, |w| w.push(&packet))
                .unwrap();
        }
        b.finish().to_vec()
    }

    /// Of a version 5 datagram: engine, first flow, interval, and its records' packets and bytes.
    type Version5 = (u16, u32, u16, u32, u32);

    fn version5(scale: Scale, datagrams: &[Vec<u8>]) -> (Counts, Vec<Version5>) {
        let mut c = Converter::new(settings(Protocol::NetFlow5, scale));
        let mut seen = Vec::new();
        let mut sink = |_: IpAddr, d: &[u8]| {
            let half = |at: usize| u16::from_be_bytes([d[at], d[at + 1]]);
            let word = |at: usize| u32::from(half(at)) << 16 | u32::from(half(at + 2));
            let sum = |at: usize| (24..d.len()).step_by(48).map(|r| word(r + at)).sum();
            seen.push((half(20), word(16), half(22), sum(16), sum(20)));
        };
        for d in datagrams {
            c.datagram(d, [9, 9, 9, 9].into(), NOW, &mut sink);
        }
        c.flush_older(0, NOW, &mut sink);
        seen.sort_unstable();
        (c.counts(), seen)
    }

    #[test]
    fn scaled_here_the_interval_is_one() {
        let agents = [
            datagram([192, 0, 2, 1], &[10, 1000]),
            datagram([192, 0, 2, 2], &[7]),
        ];
        let (counts, seen) = version5(Scale::Here, &agents);
        assert_eq!(seen, [(1, 0, 0, 1010, 101_000), (2, 0, 0, 7, 700)]);
        assert_eq!((counts.packets, counts.octets), (1017, 101_700));
    }

    #[test]
    fn scaled_by_the_collector_each_rate_is_a_stream() {
        let rates = datagram([192, 0, 2, 1], &[10, 1000, 10, 20_000, 0]);
        let (counts, seen) = version5(Scale::AtCollector, &[rates.clone(), rates]);
        let random = 2 << 14;
        let want = [
            (1, 0, random | 10, 4, 400),
            (2, 0, random | 1000, 2, 200),
            // A rate that cannot be announced is scaled here; a rate of 0 is taken for 1. Both announce none.
            (3, 0, 0, 2 * 20_000 + 2, 4_000_200),
        ];
        assert_eq!(seen, want);
        assert_eq!((counts.packets, counts.rate_too_large), (2 * 21_021, 2));
    }

    #[test]
    fn full_datagrams_go_at_once_and_the_rest_when_it_is_old() {
        let mut c = Converter::new(settings(Protocol::NetFlow5, Scale::Here));
        let mut lengths = Vec::new();
        let mut sink = |agent: IpAddr, d: &[u8]| {
            assert_eq!(agent, IpAddr::from([192, 0, 2, 1]));
            lengths.push(d.len());
        };
        let d = datagram([192, 0, 2, 1], &[1; 30]);
        c.datagram(&d, [9, 9, 9, 9].into(), NOW, &mut sink);
        c.flush_older(500, NOW + 499, &mut sink);
        c.flush_older(500, NOW + 500, &mut sink);
        c.flush_older(500, NOW + 5000, &mut sink);
        assert_eq!(lengths, [24 + 28 * 48, 24 + 2 * 48]);
    }

    #[test]
    fn more_exporters_than_there_is_room_for_take_turns() {
        let mut c = Converter::new(settings(Protocol::Ipfix, Scale::Here));
        let mut sent = 0;
        let mut sink = |_: IpAddr, _: &[u8]| sent += 1;
        let agents = MAX_STREAMS + 10;
        for n in 0..agents as u32 {
            let d = datagram((0x0A00_0000 + n).to_be_bytes(), &[1]);
            c.datagram(&d, [9, 9, 9, 9].into(), NOW, &mut sink);
        }
        assert_eq!(c.counts().streams_evicted, 10);
        c.flush_older(0, NOW, &mut sink);
        assert_eq!(sent, agents);
        assert_eq!(c.counts().flows, agents as u64);
    }

    proptest! {
        #[test]
        fn every_sample_is_accounted_for(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..200),
            cut in 0usize..400,
            kind in 0usize..3,
            here: bool,
        ) {
            let protocol = [Protocol::NetFlow5, Protocol::NetFlow9, Protocol::Ipfix][kind];
            let scale = if here { Scale::Here } else { Scale::AtCollector };
            let mut d = datagram([192, 0, 2, 1], &[1, 2, 3]);
            d.truncate(cut);
            d.append(&mut bytes);
            let mut c = Converter::new(settings(protocol, scale));
            c.datagram(&d, [9, 9, 9, 9].into(), NOW, &mut |_, _| {});
            let n = c.counts();
            prop_assert_eq!(n.flow_samples, n.flows + n.not_ip + n.unreadable + n.ipv6);
        }
    }
}
