//! Wireshark's dissector reads what the agent sends: no datagram may look malformed to it.
//!
//! Needs `tshark` (Debian: `apt-get install tshark`).

use std::io::Write;
use std::net::IpAddr;
use std::process::Command;
use std::sync::{Arc, Mutex};

use parshall_agent::host::ProcReader;
use parshall_agent::{
    Agent, AgentConfig, AgentParts, CollectorConfig, CollectorStatus, Gateway, IfReport, Passage,
    RecordKind, Records, Resolution, RouteInfo, Router, Sampled, Transport,
};
use parshall_bgp::{PathBuilder, text};
use parshall_device::{HardwareState, MacErrors};
use parshall_ring::ring;
use parshall_sample::SampleSlot;

const SECOND: u64 = 1_000_000_000;

struct TwoPorts;

impl Router for TwoPorts {
    fn interfaces(&self) -> Vec<IfReport> {
        let port = |index: u32| IfReport {
            index,
            if_index: index,
            name: format!("port{index}"),
            speed: 1_000_000_000,
            admin_up: true,
            link_up: true,
            sflow: true,
            hardware: Some(HardwareState {
                mac: MacErrors {
                    fcs: Some(7),
                    ..MacErrors::default()
                },
                module: Some(module()),
            }),
            ..IfReport::default()
        };
        vec![port(1), port(2)]
    }
    /// Everything there is to tell.
    fn explain(&self, packet: &Sampled<'_>, found: &mut Resolution) {
        found.clear();
        found.route = self.resolve(packet.header, packet.rx_if);
        found.passage = Passage::Routed;
        found.labels_known = true;
        found.in_labels.push(16 << 12 | 0x140);
        found.out_labels.extend([17 << 12 | 0x3F, 18 << 12 | 0x13F]);
        let line = "::/0 as-path 65001 {3,4} 7 communities 65001:7 no-export local-pref 200 next-hop 192.0.2.9";
        let (_, path) = text::parse_line(line, &mut PathBuilder::default())
            .unwrap()
            .unwrap();
        found.gateway = Some(Gateway {
            router_as: 65_000,
            src_as: 65_010,
            src_peer_as: 65_011,
            path: Some(path.into()),
        });
    }
    fn unix_ns(&self, monotonic_ns: u64) -> Option<u64> {
        Some(1_700_000_000 * SECOND + monotonic_ns)
    }
    fn resolve(&self, header: &[u8], _rx_if: u32) -> Option<RouteInfo> {
        let next_hop: IpAddr = match header.get(12..14)? {
            [0x08, 0x00] => "198.51.100.1".parse().ok()?,
            [0x86, 0xDD] => "2001:db8::1".parse().ok()?,
            _ => return None,
        };
        Some(RouteInfo {
            out_if: 2,
            next_hop,
            src_mask_len: 24,
            dst_mask_len: 48,
        })
    }
    fn pool(&self, _if_index: u32) -> (u64, u64) {
        (1 << 33, 5)
    }
}

/// The memory of an SFP module that measures.
fn module() -> Vec<u8> {
    let mut m = vec![0; 512];
    (m[0], m[92]) = (3, 0x60);
    m[60..62].copy_from_slice(&1310u16.to_be_bytes());
    m[256 + 96..256 + 98].copy_from_slice(&[0x23, 0x80]);
    m
}

#[derive(Clone, Default)]
struct Capture(Arc<Mutex<Vec<Vec<u8>>>>);

impl Transport for Capture {
    fn send(&mut self, _now: u64, datagrams: &[&[u8]]) {
        self.0
            .lock()
            .unwrap()
            .extend(datagrams.iter().map(|d| d.to_vec()));
    }
    fn set_collectors(&mut self, _now: u64, _collectors: &[CollectorConfig]) {}
    fn has_collectors(&self) -> bool {
        true
    }
    fn tick(&mut self, _now: u64) -> u64 {
        u64::MAX
    }
    fn status(&self, _now: u64) -> Vec<CollectorStatus> {
        Vec::new()
    }
}

/// The one's complement sum of RFC 1071, complemented.
fn checksum(bytes: &[u8]) -> [u8; 2] {
    let mut sum: u32 = bytes
        .chunks(2)
        .map(|c| u32::from(c[0]) << 8 | u32::from(*c.get(1).unwrap_or(&0)))
        .sum();
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    (!(sum as u16)).to_be_bytes()
}

fn ip4(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let len = (20 + payload.len()) as u16;
    let mut h = vec![
        0x45, 0, 0, 0, 0, 1, 0x40, 0, 64, protocol, 0, 0, 192, 0, 2, 7, 198, 51, 100, 9,
    ];
    h[2..4].copy_from_slice(&len.to_be_bytes());
    let sum = checksum(&h);
    h[10..12].copy_from_slice(&sum);
    [&h[..], payload].concat()
}

fn ip6(next: u8, payload: &[u8]) -> Vec<u8> {
    let mut h = vec![0x60, 0, 0, 0, 0, 0, next, 64];
    h[4..6].copy_from_slice(&(payload.len() as u16).to_be_bytes());
    for last in [7, 9] {
        h.extend([
            0x20, 0x01, 0x0D, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last,
        ]);
    }
    [&h[..], payload].concat()
}

fn udp(from: u16, to: u16, payload: &[u8]) -> Vec<u8> {
    let mut u = [from.to_be_bytes(), to.to_be_bytes()].concat();
    u.extend((8 + payload.len() as u16).to_be_bytes());
    u.extend([0, 0]);
    [&u[..], payload].concat()
}

fn tcp(payload: &[u8]) -> Vec<u8> {
    let mut t = vec![
        0x9C, 0x40, 0x01, 0xBB, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x18, 0xFF, 0xFF, 0, 0, 0, 0,
    ];
    t.extend(payload);
    t
}

fn frame(types: &[u8], payload: &[u8]) -> Vec<u8> {
    [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2], types, payload].concat()
}

/// Whole frames of the kinds a router sees.
fn frames() -> Vec<Vec<u8>> {
    let data = [0xA5; 1000];
    let arp = [
        0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1, 192, 0, 2, 1, 0, 0, 0, 0, 0, 0, 192, 0, 2, 2,
    ];
    // A DNS answer with records beyond where any sample is cut.
    let mut dns = vec![0, 1, 0x81, 0x80, 0, 1, 0, 20, 0, 0, 0, 0];
    dns.extend(
        b"\x07parshall\x03net\x00"
            .iter()
            .enumerate()
            .map(|(i, b)| if i == 0 { 8 } else { *b }),
    );
    dns.extend([0, 1, 0, 1]);
    for last in 0..20 {
        dns.extend([0xC0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, last]);
    }
    let echo = [&[8, 0, 0, 0, 0, 1, 0, 1], &data[..500]].concat();
    vec![
        frame(&[0x08, 0x00], &ip4(17, &udp(40000, 40001, &data))),
        frame(&[0x08, 0x00], &ip4(6, &tcp(&data))),
        frame(&[0x86, 0xDD], &ip6(17, &udp(40000, 40001, &data))),
        frame(&[0x86, 0xDD], &ip6(6, &tcp(&data[..20]))),
        frame(
            &[0x81, 0x00, 0x60, 0x64, 0x08, 0x00],
            &ip4(17, &udp(40000, 40001, &data[..50])),
        ),
        frame(
            &[0x88, 0xA8, 0x00, 0x07, 0x81, 0x00, 0x60, 0x64, 0x08, 0x00],
            &ip4(17, &udp(40000, 40001, &data[..50])),
        ),
        frame(
            &[0x88, 0x47],
            &[&[0, 1, 0x01, 64], &ip4(6, &tcp(&data))[..]].concat(),
        ),
        frame(&[0x08, 0x06], &arp),
        frame(&[0x08, 0x00], &ip4(17, &udp(53, 40001, &dns))),
        frame(&[0x08, 0x00], &ip4(1, &echo)),
    ]
}

/// A classic capture file of the datagrams in UDP, IPv4 and Ethernet.
fn pcap(datagrams: &[Vec<u8>]) -> Vec<u8> {
    let word = |v: u32| v.to_le_bytes();
    let mut out = [
        word(0xA1B2_C3D4),
        word(4 << 16 | 2),
        word(0),
        word(0),
        word(65_535),
        word(1),
    ]
    .concat();
    for (i, d) in (0u32..).zip(datagrams) {
        let f = frame(&[0x08, 0x00], &ip4(17, &udp(50_000, 6343, d)));
        let len = f.len() as u32;
        out.extend([word(1_700_000_000 + i), word(0), word(len), word(len)].concat());
        out.extend(f);
    }
    out
}

fn tshark(file: &std::path::Path, more: &[&str]) -> String {
    let run = Command::new("tshark")
        .args(["-n", "-r"])
        .arg(file)
        .args(more)
        .output();
    let out = run.expect("tshark is needed for this test: apt-get install tshark");
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    String::from_utf8(out.stdout).unwrap()
}

fn datagrams() -> Vec<Vec<u8>> {
    let sent = Capture::default();
    let parts = AgentParts {
        router: Arc::new(TwoPorts),
        transport: Box::new(sent.clone()),
        host: Some(Box::new(ProcReader::new())),
        elected: "192.0.2.1".parse().unwrap(),
        seed: 1,
    };
    // Of those it does not know it bears one in a sample.
    let unknown = [RecordKind::EgressQueue, RecordKind::TransitDelay];
    let known = RecordKind::ALL.iter().filter(|k| !unknown.contains(k));
    let config = AgentConfig {
        records: known.fold(Records::NONE, |r, k| r.with(*k, true)),
        ..AgentConfig::default()
    };
    let mut agent = Agent::new(config, parts, SECOND).unwrap();
    let (mut samples, consumer) = ring::<SampleSlot>(64);
    agent.add_source(0, consumer);
    // A minute at 20 polls a second, one sample each, cut at every header length there may be.
    for tick in 0..1200u64 {
        let frames = frames();
        let f = &frames[tick as usize % frames.len()];
        let cut = f.len().min(64 + tick as usize % 193);
        samples.write(|s| {
            (s.rx_if, s.tx_if, s.rate) = (1 + tick as u32 % 2, u32::MAX, 1000);
            (s.frame_len, s.header_len) = (f.len() as u32, cut as u16);
            (s.time, s.transit_ns, s.queue) = (tick + 1, 4321, 3);
            s.header[..cut].copy_from_slice(&f[..cut]);
        });
        agent.poll(SECOND + tick * SECOND / 20);
    }
    agent.finish(62 * SECOND);
    let status = agent.status(62 * SECOND);
    assert_eq!(
        (status.flow_samples, status.lost(), status.oversize),
        (1200, 0, 0)
    );
    assert!(status.counter_samples >= 4 && status.host_samples >= 2);
    std::mem::take(&mut sent.0.lock().unwrap())
}

#[test]
fn tshark_finds_nothing_malformed() {
    let datagrams = datagrams();
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&pcap(&datagrams)).unwrap();
    let bad = tshark(
        file.path(),
        &["-Y", "_ws.malformed || _ws.short || _ws.unreassembled"],
    );
    assert_eq!(bad, "");
    // It did look: every datagram is sFlow to it, with every sample and the names and numbers that were put in.
    let fields = [
        "-T",
        "fields",
        "-e",
        "sflow_245.numsamples",
        "-e",
        "sflow_245.agent",
    ];
    let read = tshark(file.path(), &fields);
    assert_eq!(read.lines().count(), datagrams.len());
    let samples: usize = read
        .lines()
        .map(|l| l.split('\t').next().unwrap().parse::<usize>().unwrap())
        .sum();
    let own = datagrams
        .iter()
        .map(|d| u32::from_be_bytes(d[24..28].try_into().unwrap()) as usize)
        .sum();
    assert_eq!(samples, own);
    assert!(read.lines().all(|l| l.ends_with("192.0.2.1")));
    let text = tshark(file.path(), &["-V"]);
    for part in [
        "Expanded flow sample",
        "Expanded counters sample",
        "Interface Speed: 1000000000",
        "Next hop: 198.51.100.1",
        "Extended gateway data",
        "Extended MPLS data",
        "Processor information",
    ] {
        assert!(text.contains(part), "tshark -V shows no {part:?}");
    }
}
