//! Walks a received datagram: samples, then records, each decoded only when asked for.
//!
//! Nothing in a datagram is believed: a sample ends where its length says and never beyond the datagram, a record never beyond its
//! sample, and an unknown tag is skipped by its length. Lengths without padding, which some agents send, are rounded up.

use crate::builder::{CounterSampleHead, DiscardSampleHead, FlowSampleHead, sample_tag};
use crate::record::{CounterRecord, FlowRecord};
use crate::types::{Address, DataSource, Interface, Tag};
use crate::xdr::{ErrorKind, Reader, Result};

/// The header of a version 5 datagram and the samples that follow it.
#[derive(Debug, Clone, Copy)]
pub struct Datagram<'a> {
    /// The agent's address.
    pub agent: Address,
    /// Tells apart several exporters behind one address.
    pub sub_agent_id: u32,
    /// Number of this datagram.
    pub sequence: u32,
    /// Milliseconds since the agent started.
    pub uptime_ms: u32,
    /// Samples that the agent says follow.
    pub sample_count: u32,
    body: Reader<'a>,
}

impl<'a> Datagram<'a> {
    /// Reads the header.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        let mut r = Reader::new(bytes);
        let start = r;
        let version = r.u32()?;
        if version != 5 {
            return Err(start.error(ErrorKind::Version(version)));
        }
        Ok(Datagram {
            agent: Address::read(&mut r)?,
            sub_agent_id: r.u32()?,
            sequence: r.u32()?,
            uptime_ms: r.u32()?,
            sample_count: r.u32()?,
            body: r,
        })
    }

    /// Walks the samples. Bytes after the last announced sample are left alone.
    pub const fn samples(&self) -> Samples<'a> {
        Samples {
            raw: self.raw_samples(),
        }
    }

    /// Walks the samples undecoded.
    pub const fn raw_samples(&self) -> Records<'a> {
        Records {
            body: self.body,
            left: self.sample_count,
        }
    }
}

/// Walks the samples of a datagram; ends after the first that reaches beyond it.
#[derive(Debug, Clone)]
pub struct Samples<'a> {
    raw: Records<'a>,
}

impl<'a> Iterator for Samples<'a> {
    type Item = Result<Sample<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.raw.next()?.and_then(Sample::parse))
    }
}

/// Tag, length and body, as samples and records alike are framed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawRecord<'a> {
    /// Says what the body is.
    pub tag: Tag,
    /// The body, as long as its length says.
    pub body: &'a [u8],
    /// Where the body starts in the datagram.
    pub offset: usize,
}

impl<'a> RawRecord<'a> {
    fn read(r: &mut Reader<'a>) -> Result<Self> {
        let tag = Tag(r.u32()?);
        let here = *r;
        let len = r.u32()?;
        let offset = r.offset();
        let body = r
            .padded(len as usize)
            .map_err(|_| here.error(ErrorKind::Length(len)))?;
        Ok(RawRecord { tag, body, offset })
    }

    /// A reader over the body.
    pub const fn reader(&self) -> Reader<'a> {
        Reader::at(self.body, self.offset)
    }

    /// Decodes it as a record of a flow sample.
    pub fn flow(&self) -> Result<FlowRecord<'a>> {
        FlowRecord::decode(self.tag, self.body, self.offset)
    }

    /// Decodes it as a record of a counter sample.
    pub fn counter(&self) -> Result<CounterRecord<'a>> {
        CounterRecord::decode(self.tag, self.body, self.offset)
    }
}

/// Walks framed structures, records of a sample or samples of a datagram; ends after the first that reaches beyond what contains it.
#[derive(Debug, Clone, Copy)]
pub struct Records<'a> {
    body: Reader<'a>,
    left: u32,
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<RawRecord<'a>>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        let record = RawRecord::read(&mut self.body);
        if record.is_err() {
            self.left = 0;
        }
        Some(record)
    }
}

/// A sampled packet.
#[derive(Debug, Clone, Copy)]
pub struct FlowSample<'a> {
    /// The fixed part.
    pub head: FlowSampleHead,
    /// Records that the agent says follow.
    pub record_count: u32,
    records: Reader<'a>,
}

impl<'a> FlowSample<'a> {
    fn parse(raw: &RawRecord<'a>) -> Result<Self> {
        let expanded = raw.tag == sample_tag::FLOW_EXPANDED;
        let mut r = raw.reader();
        let head = FlowSampleHead {
            sequence: r.u32()?,
            source: read_source(&mut r, expanded)?,
            rate: r.u32()?,
            pool: r.u32()?,
            drops: r.u32()?,
            input: read_interface(&mut r, expanded)?,
            output: read_interface(&mut r, expanded)?,
        };
        Ok(FlowSample {
            head,
            record_count: r.u32()?,
            records: r,
        })
    }

    /// Walks the records undecoded.
    pub const fn records(&self) -> Records<'a> {
        Records {
            body: self.records,
            left: self.record_count,
        }
    }

    /// Walks the records decoded.
    pub fn flow_records(&self) -> impl Iterator<Item = Result<FlowRecord<'a>>> + use<'a> {
        self.records().map(|r| r?.flow())
    }
}

/// Counters of one source.
#[derive(Debug, Clone, Copy)]
pub struct CounterSample<'a> {
    /// The fixed part.
    pub head: CounterSampleHead,
    /// Records that the agent says follow.
    pub record_count: u32,
    records: Reader<'a>,
}

impl<'a> CounterSample<'a> {
    fn parse(raw: &RawRecord<'a>) -> Result<Self> {
        let expanded = raw.tag == sample_tag::COUNTERS_EXPANDED;
        let mut r = raw.reader();
        let head = CounterSampleHead {
            sequence: r.u32()?,
            source: read_source(&mut r, expanded)?,
        };
        Ok(CounterSample {
            head,
            record_count: r.u32()?,
            records: r,
        })
    }

    /// Walks the records undecoded.
    pub const fn records(&self) -> Records<'a> {
        Records {
            body: self.records,
            left: self.record_count,
        }
    }

    /// Walks the records decoded.
    pub fn counter_records(&self) -> impl Iterator<Item = Result<CounterRecord<'a>>> + use<'a> {
        self.records().map(|r| r?.counter())
    }
}

/// A dropped packet.
#[derive(Debug, Clone, Copy)]
pub struct DiscardSample<'a> {
    /// The fixed part.
    pub head: DiscardSampleHead,
    /// Records that the agent says follow.
    pub record_count: u32,
    records: Reader<'a>,
}

impl<'a> DiscardSample<'a> {
    fn parse(raw: &RawRecord<'a>) -> Result<Self> {
        let mut r = raw.reader();
        let head = DiscardSampleHead {
            sequence: r.u32()?,
            source: read_source(&mut r, true)?,
            drops: r.u32()?,
            input: r.u32()?,
            output: r.u32()?,
            reason: r.u32()?,
        };
        Ok(DiscardSample {
            head,
            record_count: r.u32()?,
            records: r,
        })
    }

    /// Walks the records undecoded.
    pub const fn records(&self) -> Records<'a> {
        Records {
            body: self.records,
            left: self.record_count,
        }
    }

    /// Walks the records decoded.
    pub fn flow_records(&self) -> impl Iterator<Item = Result<FlowRecord<'a>>> + use<'a> {
        self.records().map(|r| r?.flow())
    }
}

/// A sample of any kind.
#[derive(Debug, Clone, Copy)]
pub enum Sample<'a> {
    /// 0:1 or 0:3.
    Flow(FlowSample<'a>),
    /// 0:2 or 0:4.
    Counters(CounterSample<'a>),
    /// 0:5.
    Discard(DiscardSample<'a>),
    /// Any other, InMon's real-time samples included.
    Other(RawRecord<'a>),
}

impl<'a> Sample<'a> {
    /// Reads the fixed part of a framed sample.
    pub fn parse(raw: RawRecord<'a>) -> Result<Self> {
        match raw.tag {
            sample_tag::FLOW | sample_tag::FLOW_EXPANDED => {
                FlowSample::parse(&raw).map(Sample::Flow)
            }
            sample_tag::COUNTERS | sample_tag::COUNTERS_EXPANDED => {
                CounterSample::parse(&raw).map(Sample::Counters)
            }
            sample_tag::DISCARD => DiscardSample::parse(&raw).map(Sample::Discard),
            _ => Ok(Sample::Other(raw)),
        }
    }
}

fn read_source(r: &mut Reader<'_>, expanded: bool) -> Result<DataSource> {
    let first = r.u32()?;
    if !expanded {
        return Ok(DataSource::from_compact(first));
    }
    Ok(DataSource {
        class: first,
        index: r.u32()?,
    })
}

fn read_interface(r: &mut Reader<'_>, expanded: bool) -> Result<Interface> {
    let first = r.u32()?;
    if !expanded {
        return Ok(Interface::from_compact(first));
    }
    Ok(Interface {
        format: first,
        value: r.u32()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(list: &[u32]) -> Vec<u8> {
        list.iter().flat_map(|w| w.to_be_bytes()).collect()
    }

    const HEADER: [u32; 7] = [5, 1, 0xC000_0201, 0, 1, 2, 1];

    #[test]
    fn a_compact_flow_sample() {
        let mut d = HEADER.to_vec();
        d.extend([1, 32, 10, 7, 1000, 5000, 3, 7, 0x4000_0102, 0]);
        let bytes = words(&d);
        let dg = Datagram::parse(&bytes).unwrap();
        assert_eq!(dg.agent.to_string(), "192.0.2.1");
        let Sample::Flow(f) = dg.samples().next().unwrap().unwrap() else {
            panic!("not a flow sample")
        };
        assert_eq!(f.head.source, DataSource::interface(7));
        assert_eq!(f.head.output, Interface::discarded(258));
        assert_eq!(f.records().count(), 0);
    }

    #[test]
    fn unknown_samples_and_records_are_skipped() {
        let mut d = HEADER.to_vec();
        d[6] = 2;
        d.extend([99 << 12 | 1, 8, 1, 2]);
        d.extend([2, 12 + 12 + 12, 10, 7, 2, 0x999, 4, 1, 5 << 12, 4, 2]);
        let bytes = words(&d);
        let samples: Vec<_> = Datagram::parse(&bytes).unwrap().samples().collect();
        assert!(matches!(samples[0], Ok(Sample::Other(r)) if r.tag == Tag::new(99, 1)));
        let Ok(Sample::Counters(c)) = samples[1] else {
            panic!("not a counter sample")
        };
        let records: Vec<_> = c.counter_records().map(Result::unwrap).collect();
        assert_eq!(records.len(), 2);
        assert!(
            matches!(records[1], CounterRecord::Unknown { tag, body } if tag == Tag::new(5, 0) && body == [0, 0, 0, 2])
        );
    }

    #[test]
    fn lengths_beyond_the_end_are_errors_with_an_offset() {
        let mut d = HEADER.to_vec();
        d.extend([1, 0xFFFF_FFFF, 0]);
        let bytes = words(&d);
        let mut samples = Datagram::parse(&bytes).unwrap().samples();
        let e = samples.next().unwrap().unwrap_err();
        assert_eq!((e.kind, e.offset), (ErrorKind::Length(u32::MAX), 32));
        assert!(samples.next().is_none());
    }

    #[test]
    fn a_bad_record_does_not_hide_the_next_sample() {
        let mut d = HEADER.to_vec();
        d[6] = 2;
        d.extend([2, 20, 1, 7, 1, 1, 400]);
        d.extend([2, 12, 2, 7, 0]);
        let bytes = words(&d);
        let samples: Vec<_> = Datagram::parse(&bytes).unwrap().samples().collect();
        let Ok(Sample::Counters(first)) = samples[0] else {
            panic!("not a counter sample")
        };
        assert!(first.counter_records().next().unwrap().is_err());
        assert!(matches!(samples[1], Ok(Sample::Counters(c)) if c.head.sequence == 2));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..400), version in any::<bool>()) {
            if version && bytes.len() >= 8 {
                bytes[..8].copy_from_slice(&[0, 0, 0, 5, 0, 0, 0, 1]);
            }
            if let Ok(d) = Datagram::parse(&bytes) {
                for s in d.samples().flatten() {
                    match s {
                        Sample::Flow(f) => drop(f.flow_records().count()),
                        Sample::Counters(c) => drop(c.counter_records().count()),
                        Sample::Discard(x) => drop(x.flow_records().count()),
                        Sample::Other(_) => {}
                    }
                }
            }
        }
    }
}
