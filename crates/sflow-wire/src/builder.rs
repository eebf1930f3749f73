//! Builds datagrams: samples are appended until the next one would not fit.
//!
//! One buffer serves for ever; after the first few datagrams nothing is allocated. Samples use the expanded forms (0:3, 0:4, 0:5), which
//! carry any ifIndex; the document forbids mixing them with the compact forms.

use core::net::IpAddr;

use thiserror::Error;

use crate::record::{CounterRecord, FlowRecord, patch_length};
use crate::types::{Address, DataSource, Interface, Tag};
use crate::xdr::put_u32;

/// Sample tags of sflow.org.
pub mod sample_tag {
    use crate::types::Tag;

    /// Flow sample, compact.
    pub const FLOW: Tag = Tag::new(0, 1);
    /// Counter sample, compact.
    pub const COUNTERS: Tag = Tag::new(0, 2);
    /// Flow sample, expanded.
    pub const FLOW_EXPANDED: Tag = Tag::new(0, 3);
    /// Counter sample, expanded.
    pub const COUNTERS_EXPANDED: Tag = Tag::new(0, 4);
    /// Discarded packet.
    pub const DISCARD: Tag = Tag::new(0, 5);
    /// InMon real-time metrics.
    pub const RTMETRIC: Tag = Tag::new(4300, 1002);
    /// InMon real-time flow.
    pub const RTFLOW: Tag = Tag::new(4300, 1003);
}

/// Why a sample was not appended. The datagram is as it was before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum PushError {
    /// There is no room left: send the datagram, begin the next, push again.
    #[error("the datagram is full")]
    Full,
    /// The sample alone exceeds the greatest datagram size; it can never be sent.
    #[error("the sample is larger than a datagram may be")]
    TooLarge,
}

/// The fixed part of a flow sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowSampleHead {
    /// Number of this sample among the flow samples of its source, from 1.
    pub sequence: u32,
    /// What was sampled.
    pub source: DataSource,
    /// Mean number of packets per sample, effective now.
    pub rate: u32,
    /// Packets that could have been sampled so far; wraps.
    pub pool: u32,
    /// Samples lost at this source so far; wraps.
    pub drops: u32,
    /// Where the packet came in.
    pub input: Interface,
    /// Where it goes.
    pub output: Interface,
}

/// The fixed part of a counter sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CounterSampleHead {
    /// Number of this sample among the counter samples of its source, from 1.
    pub sequence: u32,
    /// What the counters are of.
    pub source: DataSource,
}

/// The fixed part of a discarded packet sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiscardSampleHead {
    /// Number of this sample among the discards of its source, from 1.
    pub sequence: u32,
    /// Who reports, usually [`DataSource::AGENT`].
    pub source: DataSource,
    /// Discards not reported so far; wraps.
    pub drops: u32,
    /// ifIndex the packet came in on, 0 if not known.
    pub input: u32,
    /// ifIndex it would have left by, if it was dropped on egress; else 0.
    pub output: u32,
    /// Drop reason, see [`crate::reason`].
    pub reason: u32,
}

/// A whole sample with its records in slices.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SampleToSend<'a> {
    /// A sampled packet.
    Flow(FlowSampleHead, &'a [FlowRecord<'a>]),
    /// Counters.
    Counters(CounterSampleHead, &'a [CounterRecord<'a>]),
    /// A dropped packet.
    Discard(DiscardSampleHead, &'a [FlowRecord<'a>]),
}

/// Appends the records of a flow or discard sample in place.
#[derive(Debug)]
pub struct FlowRecordWriter<'b> {
    out: &'b mut Vec<u8>,
    count: u32,
}

impl FlowRecordWriter<'_> {
    /// Appends a record.
    #[inline]
    pub fn push(&mut self, record: &FlowRecord<'_>) {
        record.write(self.out);
        self.count += 1;
    }
}

/// Appends the records of a counter sample in place.
#[derive(Debug)]
pub struct CounterRecordWriter<'b> {
    out: &'b mut Vec<u8>,
    count: u32,
}

impl CounterRecordWriter<'_> {
    /// Appends a record.
    #[inline]
    pub fn push(&mut self, record: &CounterRecord<'_>) {
        record.write(self.out);
        self.count += 1;
    }
}

/// Fills datagrams of at most `max_bytes`.
///
/// ```
/// use parshall_sflow_wire::record::RawHeader;
/// use parshall_sflow_wire::{DataSource, DatagramBuilder, FlowRecord, FlowSampleHead, Interface};
///
/// let mut d = DatagramBuilder::new(1400);
/// d.begin("192.0.2.1".parse().unwrap(), 0, 1, 1000);
/// let head = FlowSampleHead {
///     sequence: 1,
///     source: DataSource::interface(7),
///     rate: 1000,
///     pool: 1234,
///     drops: 0,
///     input: Interface::index(7),
///     output: Interface::UNKNOWN,
/// };
/// d.push_flow_sample_expanded(&head, |records| {
///     records.push(&FlowRecord::RawHeader(RawHeader {
///         protocol: 1,
///         frame_length: 64,
///         stripped: 4,
///         header: &[0; 60],
///     }));
/// })
/// .unwrap();
/// assert_eq!(d.finish().len(), 28 + 8 + 44 + 8 + 76);
/// ```
#[derive(Debug)]
pub struct DatagramBuilder {
    buf: Vec<u8>,
    max_bytes: usize,
    head_len: usize,
    samples: u32,
}

impl DatagramBuilder {
    /// A builder of datagrams of at most `max_bytes` bytes of UDP payload. [`begin`](Self::begin) comes next.
    pub fn new(max_bytes: usize) -> Self {
        DatagramBuilder {
            // Room for the datagram and for one sample too many, which is written before it is found not to fit.
            buf: Vec::with_capacity(2 * max_bytes.min(65_536)),
            max_bytes,
            head_len: 0,
            samples: 0,
        }
    }

    /// Starts a datagram; what was in the builder is gone.
    ///
    /// `seq` counts the datagrams of this (agent, sub-agent), `uptime_ms` the milliseconds since the agent started.
    pub fn begin(&mut self, agent: IpAddr, sub_agent_id: u32, seq: u32, uptime_ms: u32) {
        self.buf.clear();
        put_u32(&mut self.buf, 5);
        Address::from(agent).write(&mut self.buf);
        put_u32(&mut self.buf, sub_agent_id);
        put_u32(&mut self.buf, seq);
        put_u32(&mut self.buf, uptime_ms);
        put_u32(&mut self.buf, 0);
        self.head_len = self.buf.len();
        self.samples = 0;
    }

    /// Number of samples in the datagram.
    pub const fn samples(&self) -> u32 {
        self.samples
    }

    /// Says whether the datagram has no sample yet.
    pub const fn is_empty(&self) -> bool {
        self.samples == 0
    }

    /// Bytes of the datagram so far.
    pub fn len(&self) -> usize {
        self.buf.len()
    }

    /// Fills in the number of samples and gives the datagram. More samples may be pushed after.
    pub fn finish(&mut self) -> &[u8] {
        let at = self.head_len.saturating_sub(4);
        if let Some(word) = self.buf.get_mut(at..self.head_len) {
            word.copy_from_slice(&self.samples.to_be_bytes());
        }
        &self.buf
    }

    /// Appends a sample if it fits.
    pub fn try_push(&mut self, sample: &SampleToSend<'_>) -> Result<(), PushError> {
        match *sample {
            SampleToSend::Flow(head, records) => {
                self.push_flow_sample_expanded(&head, |w| records.iter().for_each(|r| w.push(r)))
            }
            SampleToSend::Counters(head, records) => {
                self.push_counter_sample_expanded(&head, |w| records.iter().for_each(|r| w.push(r)))
            }
            SampleToSend::Discard(head, records) => {
                self.push_discard_sample(&head, |w| records.iter().for_each(|r| w.push(r)))
            }
        }
    }

    /// Appends an expanded flow sample (0:3) whose records `records` writes in place.
    #[inline]
    pub fn push_flow_sample_expanded(
        &mut self,
        head: &FlowSampleHead,
        records: impl FnOnce(&mut FlowRecordWriter<'_>),
    ) -> Result<(), PushError> {
        self.push(sample_tag::FLOW_EXPANDED, |out| {
            put_words(
                out,
                [
                    head.sequence,
                    head.source.class,
                    head.source.index,
                    head.rate,
                    head.pool,
                    head.drops,
                    head.input.format,
                    head.input.value,
                    head.output.format,
                    head.output.value,
                ],
            );
            write_flow_records(out, records);
        })
    }

    /// Appends an expanded counter sample (0:4) whose records `records` writes in place.
    #[inline]
    pub fn push_counter_sample_expanded(
        &mut self,
        head: &CounterSampleHead,
        records: impl FnOnce(&mut CounterRecordWriter<'_>),
    ) -> Result<(), PushError> {
        self.push(sample_tag::COUNTERS_EXPANDED, |out| {
            put_words(
                out,
                [head.sequence, head.source.class, head.source.index, 0],
            );
            let at = out.len() - 4;
            let mut w = CounterRecordWriter { out, count: 0 };
            records(&mut w);
            let count = w.count;
            patch_word(out, at, count);
        })
    }

    /// Appends a discarded packet sample (0:5) whose records `records` writes in place.
    #[inline]
    pub fn push_discard_sample(
        &mut self,
        head: &DiscardSampleHead,
        records: impl FnOnce(&mut FlowRecordWriter<'_>),
    ) -> Result<(), PushError> {
        self.push(sample_tag::DISCARD, |out| {
            put_words(
                out,
                [
                    head.sequence,
                    head.source.class,
                    head.source.index,
                    head.drops,
                    head.input,
                    head.output,
                    head.reason,
                ],
            );
            write_flow_records(out, records);
        })
    }

    /// Appends tag, length and whatever `body` writes; takes it all back if the datagram got too long.
    #[inline]
    fn push(&mut self, tag: Tag, body: impl FnOnce(&mut Vec<u8>)) -> Result<(), PushError> {
        let start = self.buf.len();
        put_u32(&mut self.buf, tag.0);
        put_u32(&mut self.buf, 0);
        body(&mut self.buf);
        if self.buf.len() > self.max_bytes {
            self.buf.truncate(start);
            return Err(if self.samples == 0 {
                PushError::TooLarge
            } else {
                PushError::Full
            });
        }
        patch_length(&mut self.buf, start + 4);
        self.samples += 1;
        Ok(())
    }
}

fn write_flow_records(out: &mut Vec<u8>, records: impl FnOnce(&mut FlowRecordWriter<'_>)) {
    let at = out.len();
    put_u32(out, 0);
    let mut w = FlowRecordWriter { out, count: 0 };
    records(&mut w);
    let count = w.count;
    patch_word(out, at, count);
}

#[inline]
fn put_words<const N: usize>(out: &mut Vec<u8>, words: [u32; N]) {
    for w in words {
        put_u32(out, w);
    }
}

#[inline]
fn patch_word(out: &mut [u8], at: usize, value: u32) {
    if let Some(word) = out.get_mut(at..at + 4) {
        word.copy_from_slice(&value.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{ExtendedSwitch, PortName, RawHeader};
    use crate::{Datagram, Sample};

    const HEAD: FlowSampleHead = FlowSampleHead {
        sequence: 9,
        source: DataSource { class: 0, index: 3 },
        rate: 1000,
        pool: 77,
        drops: 5,
        input: Interface::index(3),
        output: Interface::INTERNAL,
    };

    fn flow<'a>(header: &'a [u8]) -> [FlowRecord<'a>; 2] {
        [
            FlowRecord::Switch(ExtendedSwitch {
                in_vlan: 1,
                in_priority: 2,
                out_vlan: 3,
                out_priority: 4,
            }),
            FlowRecord::RawHeader(RawHeader {
                protocol: 1,
                frame_length: 1518,
                stripped: 4,
                header,
            }),
        ]
    }

    #[test]
    fn what_is_pushed_is_read_back() {
        let header = [7; 61];
        let records = flow(&header);
        let mut d = DatagramBuilder::new(1400);
        d.begin("2001:db8::1".parse().unwrap(), 4, 5, 6);
        d.try_push(&SampleToSend::Flow(HEAD, &records)).unwrap();
        let counters = CounterSampleHead {
            sequence: 1,
            source: DataSource::interface(3),
        };
        let name = [CounterRecord::PortName(PortName {
            name: "eth0".into(),
        })];
        d.try_push(&SampleToSend::Counters(counters, &name))
            .unwrap();
        let discard = DiscardSampleHead {
            sequence: 2,
            source: DataSource::AGENT,
            drops: 3,
            input: 4,
            output: 0,
            reason: 257,
        };
        d.try_push(&SampleToSend::Discard(discard, &records[1..]))
            .unwrap();

        let bytes = d.finish();
        assert_eq!(bytes.len() % 4, 0);
        let got = Datagram::parse(bytes).unwrap();
        assert_eq!(
            (
                got.sub_agent_id,
                got.sequence,
                got.uptime_ms,
                got.sample_count
            ),
            (4, 5, 6, 3)
        );
        let samples: Vec<_> = got.samples().map(Result::unwrap).collect();
        let Sample::Flow(f) = samples[0] else {
            panic!("not a flow sample")
        };
        assert_eq!(f.head, HEAD);
        let read: Vec<_> = f.flow_records().map(Result::unwrap).collect();
        assert_eq!(read, records);
        let Sample::Counters(c) = samples[1] else {
            panic!("not a counter sample")
        };
        assert_eq!(c.head, counters);
        let read: Vec<_> = c.counter_records().map(Result::unwrap).collect();
        assert_eq!(read, name);
        let Sample::Discard(x) = samples[2] else {
            panic!("not a discard sample")
        };
        assert_eq!(x.head, discard);
    }

    #[test]
    fn a_sample_that_does_not_fit_leaves_no_trace() {
        let header = [7; 128];
        let records = flow(&header);
        let mut d = DatagramBuilder::new(500);
        d.begin("192.0.2.1".parse().unwrap(), 0, 1, 0);
        d.try_push(&SampleToSend::Flow(HEAD, &records)).unwrap();
        d.try_push(&SampleToSend::Flow(HEAD, &records)).unwrap();
        let before = d.finish().to_vec();
        assert_eq!(
            d.try_push(&SampleToSend::Flow(HEAD, &records)),
            Err(PushError::Full)
        );
        assert_eq!(d.finish(), before);
        assert_eq!(d.samples(), 2);
    }

    #[test]
    fn an_oversized_sample_is_told_apart_from_a_full_datagram() {
        let header = [7; 400];
        let records = flow(&header);
        let mut d = DatagramBuilder::new(300);
        d.begin("192.0.2.1".parse().unwrap(), 0, 1, 0);
        assert_eq!(
            d.try_push(&SampleToSend::Flow(HEAD, &records)),
            Err(PushError::TooLarge)
        );
        assert!(d.is_empty());
    }

    #[test]
    fn a_datagram_may_be_exactly_full() {
        let header = [7; 128];
        let mut d = DatagramBuilder::new(28 + 8 + 44 + 8 + 144);
        d.begin("192.0.2.1".parse().unwrap(), 0, 1, 0);
        d.try_push(&SampleToSend::Flow(HEAD, &flow(&header)[1..]))
            .unwrap();
        assert_eq!(d.finish().len(), 232);
    }

    #[test]
    fn buffers_do_not_grow_after_the_first_datagrams() {
        let header = [7; 256];
        let records = flow(&header);
        let mut d = DatagramBuilder::new(1400);
        let mut capacity = 0;
        for round in 0..100 {
            d.begin("192.0.2.1".parse().unwrap(), 0, round, 0);
            while d.try_push(&SampleToSend::Flow(HEAD, &records)).is_ok() {}
            if round == 0 {
                capacity = d.buf.capacity();
            }
        }
        assert_eq!(d.buf.capacity(), capacity);
    }
}
