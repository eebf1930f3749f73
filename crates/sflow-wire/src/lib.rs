//! sFlow version 5 on the wire and on the page.
//!
//! What lives here, each in a folder or file of that name:
//!
//! - [`xdr`]: the bounds-checked reader and the writer helpers every structure is built from (RFC 4506).
//! - [`record`]: one typed structure per flow and counter record, declared once, encoded and decoded alike.
//! - [`builder`]: [`DatagramBuilder`], which fills datagrams of bounded size without allocating per sample.
//! - [`datagram`]: [`Datagram`], which walks a received datagram lazily and trusts none of it.
//! - [`dissect`]: what a sampled packet header shows: addresses, labels, ports.
//! - [`faults`]: [`Faults`], which counts what is wrong with what arrived, by class.
//! - [`sequence`]: [`Tracker`], which tells what was lost on the way by the numbers in what arrived.
//! - [`reason`]: the drop reason numbers and names.
//! - [`mod@print`]: text, CSV and JSON output.
//! - [`pcap`]: takes UDP payloads out of capture files.
//!
//! The crate is pure: no clock, no socket, no thread. It follows `sflow_version_5.txt`, its errata and the discarded packet
//! extension (`sflow_drops.txt`) of sflow.org. Nothing here panics on input, and no count off the wire sizes an allocation.

pub mod builder;
pub mod datagram;
pub mod dissect;
pub mod faults;
pub mod pcap;
pub mod print;
pub mod reason;
pub mod record;
pub mod sequence;
pub mod types;
pub mod xdr;

pub use builder::{
    CounterSampleHead, DatagramBuilder, DiscardSampleHead, FlowRecordWriter, FlowSampleHead,
    PushError, SampleToSend,
};
pub use datagram::{
    CounterSample, Datagram, DiscardSample, FlowSample, RawRecord, Records, Sample, Samples,
};
pub use faults::Faults;
pub use record::{CounterRecord, FlowRecord};
pub use sequence::Tracker;
pub use types::{Address, DataSource, Interface, InterfaceKind, Tag};
pub use xdr::{DecodeError, ErrorKind};
