//! The sampled packets themselves, as a capture file that tcpdump and Wireshark read (`sflowtool -t` has the same use).
//!
//! The classic pcap format (draft-ietf-opsawg-pcap) with times in microseconds. A file has one link type, Ethernet: headers
//! of any other protocol are passed over, as are samples that carry no header. The length of a packet is that on the wire
//! without what was stripped, so that a reader sees no truncation where there was none.

use super::{Meta, Selection};
use crate::datagram::{Datagram, FlowSample, Sample};
use crate::record::{FlowRecord, RawHeader};
use crate::xdr::DecodeError;

/// Link type of Ethernet, and sFlow's number of it as a header protocol.
const ETHERNET: u32 = 1;
/// The longest packet that a reader must expect.
const SNAP_LENGTH: u32 = 65_535;

/// The head of the file. Numbers are in network order, which readers tell by the first one.
pub(super) fn put_file_header(out: &mut Vec<u8>) {
    // Magic, version 2.4, no correction of times, no accuracy, snap length, link type.
    for word in [0xA1B2_C3D4, 2 << 16 | 4, 0, 0, SNAP_LENGTH, ETHERNET] {
        put(out, word);
    }
}

/// Appends every sampled header of a datagram. An error says what was left out.
pub(super) fn datagram(
    selection: &Selection,
    meta: &Meta,
    bytes: &[u8],
    out: &mut Vec<u8>,
) -> Option<DecodeError> {
    let parsed = match Datagram::parse(bytes) {
        Ok(d) => d,
        Err(e) => return Some(e),
    };
    let mut fault = None;
    for raw in parsed.raw_samples() {
        let sample = match raw {
            Ok(raw) if !selection.takes_sample(raw.tag, raw.body) => continue,
            Ok(raw) => Sample::parse(raw),
            Err(e) => Err(e),
        };
        let outcome = match sample {
            Ok(Sample::Flow(f)) => flow(&f, meta, out),
            Ok(_) => Ok(()),
            Err(e) => Err(e),
        };
        fault = fault.or(outcome.err());
    }
    fault
}

fn flow(f: &FlowSample<'_>, meta: &Meta, out: &mut Vec<u8>) -> Result<(), DecodeError> {
    for record in f.records() {
        let record = record?;
        if record.tag != crate::Tag::new(0, 1) {
            continue;
        }
        if let FlowRecord::RawHeader(h) = record.flow()? {
            packet(&h, meta, out);
        }
    }
    Ok(())
}

fn packet(h: &RawHeader<'_>, meta: &Meta, out: &mut Vec<u8>) {
    if h.protocol != ETHERNET {
        return;
    }
    let header = &h.header[..h.header.len().min(SNAP_LENGTH as usize)];
    let captured = header.len() as u32;
    let length = h.frame_length.saturating_sub(h.stripped).max(captured);
    let time = meta.capture_time.unwrap_or(meta.read_time);
    for word in [time.seconds, time.micros, captured, length] {
        put(out, word);
    }
    out.extend_from_slice(header);
}

fn put(out: &mut Vec<u8>, word: u32) {
    out.extend_from_slice(&word.to_be_bytes());
}
