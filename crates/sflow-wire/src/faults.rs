//! What is wrong with received datagrams, counted by where it is and what it is.
//!
//! A datagram is walked as [`crate::datagram`] walks it: what can be decoded is, so one datagram can have several faults. A sample or record
//! that reaches beyond what contains it ends the walk of that list, for nothing says where the next begins; any other fault costs the
//! one record, or the one sample, that has it.

use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::datagram::{Datagram, RawRecord, Records, Sample};
use crate::record::field::Field;
use crate::record::{ExtendedRouter, ExtendedSwitch, RawHeader};
use crate::types::Tag;
use crate::xdr::{DecodeError, ErrorKind};

/// Where in a datagram a fault is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In the header: nothing of the datagram is known.
    Datagram,
    /// In the frame or the fixed part of a sample.
    Sample,
    /// In the frame or the body of a record.
    Record,
}

/// The classes, by place and kind.
const NAMES: [[&str; 6]; 3] = [
    [
        "datagram_truncated",
        "datagram_version",
        "datagram_address_type",
        "datagram_count",
        "datagram_length",
        "datagram_value_type",
    ],
    [
        "sample_truncated",
        "sample_version",
        "sample_address_type",
        "sample_count",
        "sample_length",
        "sample_value_type",
    ],
    [
        "record_truncated",
        "record_version",
        "record_address_type",
        "record_count",
        "record_length",
        "record_value_type",
    ],
];

const fn kind(e: ErrorKind) -> usize {
    match e {
        ErrorKind::Truncated => 0,
        ErrorKind::Version(_) => 1,
        ErrorKind::AddressType(_) => 2,
        ErrorKind::Count(_) => 3,
        ErrorKind::Length(_) => 4,
        ErrorKind::ValueType(_) => 5,
    }
}

/// Faults of any number of datagrams.
///
/// ```
/// use parshall_sflow_wire::faults::Faults;
///
/// let mut faults = Faults::default();
/// assert_eq!(faults.observe(&[0, 0, 0, 4]), 1);
/// assert_eq!(faults.iter().collect::<Vec<_>>(), [("datagram_version", 1)]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Faults {
    counts: [[u64; 6]; 3],
}

impl Faults {
    /// Counts what is wrong with a datagram, and says how much that is.
    pub fn observe(&mut self, datagram: &[u8]) -> u64 {
        match Datagram::parse(datagram) {
            Ok(d) => self.samples(&d),
            Err(e) => self.count(Place::Datagram, e),
        }
    }

    /// The same for one whose header is decoded.
    pub fn samples(&mut self, datagram: &Datagram<'_>) -> u64 {
        let mut found = 0;
        for sample in datagram.samples() {
            found += match sample {
                Ok(Sample::Flow(s)) => self.records(s.records(), flow_fault),
                Ok(Sample::Discard(s)) => self.records(s.records(), flow_fault),
                Ok(Sample::Counters(s)) => self.records(s.records(), counter_fault),
                Ok(Sample::Other(_)) => 0,
                Err(e) => self.count(Place::Sample, e),
            };
        }
        found
    }

    #[inline]
    fn records<'a>(
        &mut self,
        records: Records<'a>,
        fault: impl Fn(RawRecord<'a>) -> Option<DecodeError>,
    ) -> u64 {
        let mut found = 0;
        for record in records {
            if let Some(e) = record.map_or_else(Some, &fault) {
                found += self.count(Place::Record, e);
            }
        }
        found
    }

    /// Counts one.
    fn count(&mut self, place: Place, e: DecodeError) -> u64 {
        self.counts[place as usize][kind(e.kind)] += 1;
        1
    }

    /// Adds what another has counted.
    pub fn add(&mut self, other: &Faults) {
        let theirs = other.counts.iter().flatten();
        for (mine, theirs) in self.counts.iter_mut().flatten().zip(theirs) {
            *mine += theirs;
        }
    }

    /// How many there were.
    pub fn total(&self) -> u64 {
        self.counts.iter().flatten().sum()
    }

    /// Every class that there was any of, by name, and how many.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        let counts = self.counts;
        let names = NAMES.iter().flatten().copied();
        let all = names.zip(counts.into_iter().flatten());
        all.filter(|(_, n)| *n > 0)
    }
}

/// What is wrong with a record of a flow sample. The usual ones are read without putting a value together that nobody wants.
#[inline]
fn flow_fault(r: RawRecord<'_>) -> Option<DecodeError> {
    const RAW_HEADER: Tag = Tag::new(0, 1);
    const SWITCH: Tag = Tag::new(0, 1001);
    const ROUTER: Tag = Tag::new(0, 1002);
    let mut reader = r.reader();
    match r.tag {
        RAW_HEADER => RawHeader::read(&mut reader).err(),
        SWITCH => ExtendedSwitch::read(&mut reader).err(),
        ROUTER => ExtendedRouter::read(&mut reader).err(),
        _ => other_flow_fault(r),
    }
}

#[cold]
fn other_flow_fault(r: RawRecord<'_>) -> Option<DecodeError> {
    r.flow().err()
}

fn counter_fault(r: RawRecord<'_>) -> Option<DecodeError> {
    r.counter().err()
}

/// A map of the classes that there was any of.
impl Serialize for Faults {
    fn serialize<S: Serializer>(&self, s: S) -> core::result::Result<S::Ok, S::Error> {
        let mut map = s.serialize_map(None)?;
        for (name, n) in self.iter() {
            map.serialize_entry(name, &n)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A datagram of these words after its header, which announces `samples`.
    fn datagram(samples: u32, words: &[u32]) -> Vec<u8> {
        let header = [5, 1, 0xC000_0201, 0, 1, 1, samples];
        let all = header.iter().chain(words);
        all.flat_map(|w| w.to_be_bytes()).collect()
    }

    /// A flow sample of these records, of which it announces so many.
    fn flow(count: u32, records: &[u32]) -> Vec<u32> {
        let length = 32 + 4 * records.len() as u32;
        let head = [1, length, 1, 7, 100, 100, 0, 7, 0, count];
        head.iter().chain(records).copied().collect()
    }

    fn names(datagram: &[u8]) -> Vec<(&'static str, u64)> {
        let mut f = Faults::default();
        let total = f.observe(datagram);
        assert_eq!(total, f.total());
        f.iter().collect()
    }

    #[test]
    fn every_class_has_its_name() {
        let of = |d: &[u8]| names(d);
        assert_eq!(of(&[0, 0, 0]), [("datagram_truncated", 1)]);
        assert_eq!(of(&[0, 0, 0, 2]), [("datagram_version", 1)]);
        let mut bad = datagram(0, &[]);
        bad[7] = 3;
        assert_eq!(of(&bad), [("datagram_address_type", 1)]);
        let sample = |words: &[u32]| names(&datagram(1, words));
        assert_eq!(sample(&[]), [("sample_truncated", 1)]);
        assert_eq!(sample(&[1, 4, 1]), [("sample_truncated", 1)]);
        assert_eq!(sample(&[1, 400, 1]), [("sample_length", 1)]);
        let record = |count, words: &[u32]| sample(&flow(count, words));
        assert_eq!(record(1, &[]), [("record_truncated", 1)]);
        assert_eq!(record(1, &[1002, 4, 9]), [("record_address_type", 1)]);
        assert_eq!(record(1, &[1002, 8, 1, 9]), [("record_truncated", 1)]);
        assert_eq!(record(1, &[1002, 800, 1, 9]), [("record_length", 1)]);
        // A list of labels that cannot be.
        let labels = [1006, 16, 1, 9, u32::MAX, 0];
        assert_eq!(record(1, &labels), [("record_count", 1)]);
        // Several in one datagram; what is not known is no fault.
        let two = [1002, 4, 9, 0x999, 4, 7, 1002, 4, 9];
        assert_eq!(record(3, &two), [("record_address_type", 2)]);
        assert_eq!(sample(&[9999, 4, 7]), []);
    }

    #[test]
    fn sums_and_json() {
        let mut a = Faults::default();
        a.observe(&[]);
        let mut b = a;
        b.observe(&[0, 0, 0, 9]);
        b.add(&a);
        let json = serde_json::to_value(b).unwrap();
        let want = serde_json::json!({"datagram_truncated": 2, "datagram_version": 1});
        assert_eq!(json, want);
    }
}
