//! Fuzzes what the relay and the converter make of received datagrams: filters that take samples out, and flow records of every format.
//!
//! What a filter lets through is a datagram that reads to its end. Every flow sample is accounted for, and every export datagram keeps its
//! size and says its own length. The first byte chooses filter and format.
#![no_main]

use std::net::{IpAddr, Ipv4Addr};

use libfuzzer_sys::fuzz_target;
use parshall_collector::convert::{Converter, Scale, Settings};
use parshall_collector::forward::filter::{Filter, Kind, Verdict};
use parshall_flow_export::Protocol;
use parshall_sflow_wire::Datagram;

const KINDS: [Kind; 4] = [Kind::Flow, Kind::Counter, Kind::Discard, Kind::Other];
const PROTOCOLS: [Protocol; 3] = [Protocol::NetFlow5, Protocol::NetFlow9, Protocol::Ipfix];
const FROM: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const NOW_MS: u64 = 1_700_000_000_000;
const MAX_BYTES: usize = 700;

fuzz_target!(|data: &[u8]| {
    let Some((choice, datagram)) = data.split_first() else {
        return;
    };
    let choice = usize::from(*choice);
    filter(datagram, KINDS[choice % 4]);
    let scale = if choice & 64 == 0 {
        Scale::Here
    } else {
        Scale::AtCollector
    };
    convert(datagram, PROTOCOLS[choice % 3], scale);
});

fn filter(datagram: &[u8], kind: Kind) {
    let filter = Filter {
        kinds: vec![kind],
        ..Filter::default()
    };
    let mut out = Vec::new();
    let outcome = filter.apply(datagram, &mut out);
    if outcome.verdict == Verdict::Rewritten {
        let left = Datagram::parse(&out).expect("a header");
        assert_eq!(
            left.raw_samples().flatten().count(),
            left.sample_count as usize
        );
    }
}

fn convert(datagram: &[u8], protocol: Protocol, scale: Scale) {
    let mut converter = Converter::new(Settings {
        protocol,
        scale,
        max_bytes: MAX_BYTES,
        refresh_ms: 60_000,
        refresh_datagrams: 2,
    });
    let mut sink = |_: IpAddr, made: &[u8]| {
        assert!(made.len() <= MAX_BYTES);
        let (version, length) = (made[1], u16::from_be_bytes([made[2], made[3]]));
        match version {
            5 => assert_eq!(made.len(), 24 + 48 * usize::from(length)),
            9 => assert!(length > 0),
            _ => assert_eq!(made.len(), usize::from(length)),
        }
    };
    converter.datagram(datagram, FROM, NOW_MS, &mut sink);
    converter.datagram(datagram, FROM, NOW_MS + 1, &mut sink);
    converter.flush_older(0, NOW_MS, &mut sink);
    let c = converter.counts();
    assert_eq!(c.flow_samples, c.flows + c.not_ip + c.unreadable + c.ipv6);
}
