//! One bad sample costs one sample: whatever is cut off or overwritten, the others arrive as they were sent, and what was wrong is counted.

use parshall_sflow_wire::pcap::{Capture, find_udp};
use parshall_sflow_wire::print::{Format, Meta, Printer, Selection, Stamp};
use parshall_sflow_wire::{Address, Datagram, Faults, RawRecord};
use proptest::prelude::*;
use serde_json::Value;

/// Bytes before the first sample of a datagram of an IPv4 agent.
const HEADER: usize = 28;

/// Datagrams with several samples, of nearly every record: the samples of all datagrams of the recorded capture, a few in each.
fn datagrams() -> Vec<Vec<u8>> {
    let mut capture = Capture::open(&include_bytes!("data/sflow-records.pcap")[..]).unwrap();
    let mut samples: Vec<Vec<u8>> = Vec::new();
    while let Some(p) = capture.next_packet().unwrap() {
        let udp = find_udp(p.link_type, p.data).unwrap();
        let d = Datagram::parse(udp.payload).unwrap();
        for raw in d.raw_samples().map(Result::unwrap) {
            samples.push(udp.payload[raw.offset - 8..raw.offset + raw.body.len()].to_vec());
        }
    }
    assert!(samples.len() > 10);
    let one = |group: &[Vec<u8>]| {
        let header = [5u32, 1, 0xC000_0201, 0, 1, 1, group.len() as u32];
        let mut d: Vec<u8> = header.iter().flat_map(|w| w.to_be_bytes()).collect();
        assert_eq!(d.len(), HEADER);
        d.extend(group.iter().flatten());
        d
    };
    samples.windows(4).map(one).collect()
}

/// Where the bodies of the samples lie.
fn bodies(datagram: &[u8]) -> Vec<std::ops::Range<usize>> {
    let range = |r: RawRecord<'_>| r.offset..r.offset + r.body.len();
    let d = Datagram::parse(datagram).unwrap();
    d.raw_samples().map(|r| range(r.unwrap())).collect()
}

fn raw(datagram: &[u8]) -> Vec<Option<(u32, &[u8])>> {
    let d = Datagram::parse(datagram).unwrap();
    d.raw_samples()
        .map(|r| r.ok().map(|r| (r.tag.0, r.body)))
        .collect()
}

/// How the typed JSON shows each sample.
fn shown(datagram: &[u8]) -> Vec<Value> {
    let meta = Meta {
        source: Address::Unknown,
        read_time: Stamp::default(),
        capture_time: None,
    };
    let mut out = Vec::new();
    let mut printer = Printer::new(&Format::Json { indented: false }, Selection::default());
    let _ = printer.print(&meta, datagram, &mut out);
    let json: Value = serde_json::from_slice(&out).unwrap();
    json["samples"].as_array().unwrap().clone()
}

fn faults(datagram: &[u8]) -> u64 {
    Faults::default().observe(datagram)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// The fixed part and the records of a sample can say what they like.
    #[test]
    fn what_is_overwritten_in_one_sample_leaves_the_others_alone(
        which: prop::sample::Index,
        victim in 0usize..4,
        edits in prop::collection::vec((any::<prop::sample::Index>(), prop_oneof![
            Just(0u32), Just(1), Just(u32::MAX), Just(0x7FFF_FFFF), Just(0xFFFF_FFFD), 0u32..2000, any::<u32>(),
        ]), 1..6),
    ) {
        let all = datagrams();
        let good = which.get(&all);
        let mut bad = good.clone();
        let body = bodies(good)[victim].clone();
        for (at, word) in edits {
            let at = body.start + at.index(body.len() / 4) * 4;
            bad[at..at + 4].copy_from_slice(&word.to_be_bytes());
        }
        let (before, after) = (shown(good), shown(&bad));
        prop_assert_eq!(raw(&bad).len(), 4);
        prop_assert_eq!(after.len(), 4);
        for n in (0..4).filter(|n| *n != victim) {
            prop_assert_eq!(raw(good)[n], raw(&bad)[n]);
            prop_assert_eq!(&before[n], &after[n]);
        }
    }

    /// A length that is wrong costs what follows, nothing of what stands before; and it is counted.
    #[test]
    fn what_stands_before_a_bad_frame_is_delivered(
        which: prop::sample::Index,
        victim in 0usize..4,
        length in any::<u32>(),
    ) {
        let all = datagrams();
        let good = which.get(&all);
        let mut bad = good.clone();
        let at = bodies(good)[victim].start - 4;
        bad[at..at + 4].copy_from_slice(&length.to_be_bytes());
        prop_assert_eq!(&raw(&bad)[..victim], &raw(good)[..victim]);
        prop_assert_eq!(&shown(&bad)[..victim], &shown(good)[..victim]);
        if length as usize > bad.len() {
            prop_assert_eq!(raw(&bad).len(), victim + 1);
            prop_assert_eq!(raw(&bad)[victim], None);
            let mut f = Faults::default();
            f.observe(&bad);
            prop_assert!(f.iter().any(|named| named == ("sample_length", 1)), "{:?}", f);
        }
    }

    /// Cut anywhere: the samples in front of the cut are whole, and that others are missing is counted.
    #[test]
    fn a_datagram_cut_short_keeps_what_it_has(which: prop::sample::Index, cut: prop::sample::Index) {
        let all = datagrams();
        let good = which.get(&all);
        let cut = HEADER + cut.index(good.len() - HEADER);
        let whole = bodies(good).iter().filter(|b| b.end <= cut).count();
        let bad = &good[..cut];
        prop_assert!(whole < 4 && raw(bad).len() <= whole + 1);
        prop_assert_eq!(&raw(bad)[..whole], &raw(good)[..whole]);
        prop_assert_eq!(&shown(bad)[..whole], &shown(good)[..whole]);
        prop_assert!(faults(bad) > faults(good));
    }
}

#[test]
fn the_recorded_samples_have_no_fault() {
    for d in datagrams() {
        assert_eq!(faults(&d), 0);
    }
}
