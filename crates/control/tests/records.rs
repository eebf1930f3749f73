//! What samples say of packets is what became of them: packets of many kinds go through a whole router, each of
//! them is sampled, and each sample is held against the frame that the router transmitted.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::net::{IpAddr, UdpSocket};
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use parshall_command::{Reply, Shell};
use parshall_control::{EngineConfig, Router};
use parshall_sflow_wire::pcap::Capture;
use parshall_sflow_wire::record::{ExtendedRouter, ExtendedSwitch};
use parshall_sflow_wire::{Address, Datagram, FlowRecord, Interface, InterfaceKind, Sample};
use parshall_wire::{MacAddr, PacketBuilder};

/// Neighbours have a MAC address that says which one it is: the last byte is the next hop's.
const SETUP: &str = "
create packet-generator interface pg0 hw-addr 02:fe:00:00:00:00
create packet-generator interface pg1 hw-addr 02:fe:00:00:00:01
create packet-generator interface pg2 hw-addr 02:fe:00:00:00:02
set interface ip address pg0 10.0.0.1/24
set interface ip address pg1 10.1.0.1/16
set interface ip address pg1 2001:db8:1::1/64
set interface ip address pg2 10.2.0.1/16
set interface ip address pg0 2001:db8::1/64
mpls table add 0
set interface mpls pg0 enable
set interface state pg0 up
set interface state pg1 up
set interface state pg2 up
ip neighbor pg1 10.1.0.2 02:00:00:00:01:02 static
ip neighbor pg1 10.1.0.3 02:00:00:00:01:03 static
ip neighbor pg2 10.2.0.2 02:00:00:00:02:02 static
ip neighbor pg1 2001:db8:1::2 02:00:00:00:01:02 static
ip route add 20.0.0.0/8 via 10.1.0.2
ip route add 20.9.0.0/16 via 10.1.0.3
ip route add 30.0.0.0/8 via 10.1.0.2 via 10.2.0.2
ip route add 40.0.0.0/8 via 10.1.0.2 out-labels 100 200
ip route add 41.0.0.0/8 via 10.1.0.2 out-labels 100 via 10.2.0.2 out-labels 300
ip route add 42.0.0.0/8 via 10.1.0.2 out-labels 101 pipe
ip route add 50.0.0.0/8 blackhole
ip route add 2001:db8:5::/48 via 2001:db8:1::2
ip route add 2001:db8:6::/48 via 10.1.0.2 pg1 out-labels 102
mpls local-label add 16 via 10.1.0.2 pg1 out-labels 17
mpls local-label add 18 via 10.1.0.2 pg1 out-labels 19 20
mpls local-label add 21 eos via ip4-lookup-in-table 0
mpls local-label add 22 non-eos via 10.1.0.2 pg1
mpls local-label add 23 non-eos via mpls-lookup-in-table 0
mpls local-label add 24 eos via 10.1.0.2 pg1 out-labels 25 via 10.2.0.2 pg2 out-labels 26
mpls local-label add 27 via 10.1.0.2 pg1 out-labels 28 pipe";

/// Number of the interface in samples.
fn index(port: usize) -> u32 {
    port as u32 + 1
}

fn ethernet() -> PacketBuilder {
    let to = MacAddr([0x02, 0xFE, 0, 0, 0, 0]);
    PacketBuilder::ethernet(MacAddr([4; 6]), to)
}

/// Every kind of packet many times over, each with a source port of its own, by which it is known again.
fn frames() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    let mut id = 1000u16;
    let mut add = |b: PacketBuilder| {
        id += 1;
        all.push(b.udp(id, 53).payload_len(100).build());
    };
    let v4 = |b: PacketBuilder, dst: &str| b.ipv4([10, 0, 0, 9].into(), dst.parse().unwrap());
    let v6 = |b: PacketBuilder, dst: &str| {
        b.ipv6("2001:db8:9::9".parse().unwrap(), dst.parse().unwrap())
    };
    for round in 0..16u8 {
        for dst in [
            "20.1.1.1", "20.9.1.1", "30.1.1.1", "40.1.1.1", "41.1.1.1", "42.1.1.1", "10.1.0.2",
        ] {
            add(v4(ethernet(), dst).ttl(60 + round).class(round << 4));
        }
        for dst in ["2001:db8:5::5", "2001:db8:6::6", "2001:db8:1::2"] {
            add(v6(ethernet(), dst).ttl(60 + round).class(round << 4));
        }
        // Nowhere: no route, a black hole, an end of life.
        add(v4(ethernet(), "99.1.1.1"));
        add(v4(ethernet(), "50.1.1.1"));
        add(v4(ethernet(), "20.1.1.1").ttl(1));
        add(v4(ethernet(), "40.1.1.1").ttl(1));
        add(v4(ethernet().mpls(16).ttl(1), "20.1.1.1"));
        // One label, two labels, three.
        for label in [16, 18, 24, 27] {
            add(v4(ethernet().mpls(label).ttl(40 + round), "20.1.1.1").ttl(50));
        }
        for (top, under) in [(16, 99), (18, 16), (22, 77), (23, 16), (0, 24), (23, 21)] {
            let b = ethernet()
                .mpls(top)
                .ttl(40 + round)
                .mpls(under)
                .ttl(30 + 2 * round);
            add(v4(b, "40.1.1.1").ttl(50));
        }
        add(v4(ethernet().mpls(23).mpls(22).mpls(77), "20.1.1.1"));
        // Popped and looked up: to a plain route and to one with labels.
        for (dst, ttl) in [("20.1.1.1", 50), ("40.1.1.1", 50), ("41.1.1.1", 90)] {
            add(v4(ethernet().mpls(21).ttl(64), dst).ttl(ttl));
        }
        add(v4(ethernet().mpls(0).ttl(64), "20.9.1.1"));
        add(v6(ethernet().mpls(2).ttl(64), "2001:db8:5::5"));
        // Nowhere: a label that is not known, and one at the wrong place of the stack.
        add(v4(ethernet().mpls(4000), "20.1.1.1"));
        add(v4(ethernet().mpls(22), "20.1.1.1"));
    }
    all
}

/// Labels, and the port that a packet is known by.
struct Frame {
    bytes: Vec<u8>,
    labels: Vec<u32>,
    id: u16,
}

fn read_frame(bytes: &[u8]) -> Option<Frame> {
    let mut rest = bytes.get(14..)?;
    let mut labels = Vec::new();
    let mut kind = [bytes[12], bytes[13]];
    if kind == [0x88, 0x47] {
        loop {
            let entry = u32::from_be_bytes(*rest.first_chunk()?);
            labels.push(entry);
            rest = &rest[4..];
            if entry & 0x100 != 0 {
                break;
            }
        }
        kind = if rest.first()? >> 4 == 4 {
            [8, 0]
        } else {
            [0x86, 0xDD]
        };
    }
    let (protocol, ports) = match kind {
        [8, 0] => (rest[9], 20),
        [0x86, 0xDD] => (rest[6], 40),
        _ => return None,
    };
    (protocol == 17).then(|| Frame {
        bytes: bytes.to_vec(),
        labels,
        id: u16::from_be_bytes([rest[ports], rest[ports + 1]]),
    })
}

fn write_pcap(path: &Path, frames: &[Vec<u8>]) {
    let word = |v: u32| v.to_le_bytes();
    let head = [0xA1B2_C3D4, 4 << 16 | 2, 0, 0, 65_535, 1]
        .map(word)
        .concat();
    let mut file = File::create(path).unwrap();
    file.write_all(&head).unwrap();
    for f in frames {
        let len = f.len() as u32;
        file.write_all(&[word(0), word(0), word(len), word(len)].concat())
            .unwrap();
        file.write_all(f).unwrap();
    }
}

/// Frames in a capture that are one of ours, by their port; an ICMP error that quotes one is not.
fn captured(path: &Path) -> Vec<Frame> {
    let mut capture = Capture::open(File::open(path).unwrap()).unwrap();
    let mut all = Vec::new();
    while let Some(p) = capture.next_packet().unwrap() {
        all.extend(read_frame(p.data));
    }
    all
}

fn run(r: &mut Router, line: &str) {
    if let Reply::Error(e) = r.execute(line, false) {
        panic!("{line}: {e}");
    }
}

/// What a sample says.
#[derive(Clone, Debug, Default)]
struct Told {
    output: Option<Interface>,
    router: Option<ExtendedRouter>,
    switch: Option<ExtendedSwitch>,
    /// Next hop, labels in, labels out.
    mpls: Option<(Address, Vec<u32>, Vec<u32>)>,
    gateway: Option<Gateway>,
    /// It has a time.
    timed: bool,
}

#[derive(Clone, Debug)]
struct Gateway {
    router_as: u32,
    src_as: u32,
    path: Vec<u32>,
    communities: Vec<u32>,
    next_hop: Address,
}

fn read_samples(bytes: &[u8], all: &mut BTreeMap<u16, Told>) {
    for s in Datagram::parse(bytes).unwrap().samples() {
        let Sample::Flow(f) = s.unwrap() else {
            continue;
        };
        let mut told = Told {
            output: Some(f.head.output),
            ..Told::default()
        };
        let mut id = None;
        for r in f.flow_records() {
            match r.unwrap() {
                FlowRecord::Router(r) => told.router = Some(r),
                FlowRecord::Switch(s) => told.switch = Some(s),
                FlowRecord::Mpls(m) => {
                    let stacks = (m.in_stack.iter().collect(), m.out_stack.iter().collect());
                    told.mpls = Some((m.next_hop, stacks.0, stacks.1));
                }
                FlowRecord::Gateway(g) => {
                    told.gateway = Some(Gateway {
                        router_as: g.router_as,
                        src_as: g.src_as,
                        path: g.dst_as_path.iter().flat_map(|s| s.asns.iter()).collect(),
                        communities: g.communities.iter().collect(),
                        next_hop: g.next_hop,
                    });
                }
                FlowRecord::RawHeader(h) => id = read_frame(h.header).map(|f| f.id),
                FlowRecord::Timestamp(_) => told.timed = true,
                FlowRecord::TransitDelay(_) | FlowRecord::EgressQueue(_) => {}
                other => panic!("{other:?}"),
            }
        }
        // What the router sends on its own account, to find its neighbours, is sampled too.
        if let Some(id) = id {
            all.insert(id, told);
        }
    }
}

/// What samples told, and which frames left by which interface.
type Outcome = (BTreeMap<u16, Told>, BTreeMap<u16, (usize, Frame)>);

/// Sends the frames through a router that samples as `more` says, and waits for so many samples.
fn through(frames: &[Vec<u8>], more: &str, expected: usize) -> Outcome {
    let collector = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = collector.local_addr().unwrap().port();
    // The socket's buffer holds less than all the samples: a thread of its own empties it.
    let (send, datagrams) = mpsc::channel();
    std::thread::spawn(move || {
        let mut buf = [0; 9000];
        while let Ok(n) = collector.recv(&mut buf) {
            if send.send(buf[..n].to_vec()).is_err() {
                return;
            }
        }
    });
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name);
    write_pcap(&file("in.pcap"), frames);
    let mut r = Router::new(EngineConfig {
        buffers: 8192,
        interfaces: 8,
        ..EngineConfig::default()
    })
    .unwrap();
    r.run_script(&format!("{SETUP}\n{more}"), "test").unwrap();
    for p in ["pg1", "pg2"] {
        let to = file(&format!("{p}.pcap"));
        run(
            &mut r,
            &format!("packet-generator capture {p} pcap {}", to.display()),
        );
    }
    run(
        &mut r,
        &format!("sflow collector add 127.0.0.1 port {port}"),
    );
    let stream = format!(
        "packet-generator new {{ name s rate 1000 limit {} interface pg0 node ethernet-input pcap {} }}",
        frames.len(),
        file("in.pcap").display()
    );
    run(&mut r, &stream);
    run(&mut r, "packet-generator enable-stream s");
    let mut told = BTreeMap::new();
    let start = Instant::now();
    while told.len() < expected {
        r.turn();
        while let Ok(d) = datagrams.recv_timeout(Duration::from_millis(20)) {
            read_samples(&d, &mut told);
        }
        let late = start.elapsed() > Duration::from_secs(30);
        let mut state = || r.execute("show sflow", false);
        assert!(
            !late,
            "{} of {expected} samples came: {:?}",
            told.len(),
            state()
        );
    }
    for p in ["pg1", "pg2"] {
        run(&mut r, &format!("packet-generator capture {p} disable"));
    }
    r.shut_down();
    let mut sent = BTreeMap::new();
    for (port, name) in [(1, "pg1.pcap"), (2, "pg2.pcap")] {
        for f in captured(&file(name)) {
            sent.insert(f.id, (port, f));
        }
    }
    (told, sent)
}

/// The next hop whose MAC address a frame was sent to.
fn sent_to(frame: &Frame) -> [u8; 2] {
    [frame.bytes[4], frame.bytes[5]]
}

fn last_two(a: &Address) -> Option<[u8; 2]> {
    match a.ip()? {
        a if a.is_unspecified() => None,
        IpAddr::V4(a) => Some([a.octets()[1], a.octets()[3]]),
        IpAddr::V6(a) => Some([a.octets()[5], a.octets()[15]]),
    }
}

#[test]
fn samples_tell_what_became_of_their_packets() {
    let frames = frames();
    let (told, sent) = through(&frames, "sflow enable pg0 sampling-rate 1", frames.len());
    let mut kinds = [0usize; 4];
    for bytes in &frames {
        let came = read_frame(bytes).unwrap();
        let said = &told[&came.id];
        let output = said.output.unwrap().kind();
        let switch = said.switch.unwrap();
        assert_eq!((switch.in_vlan, switch.in_priority), (0, 0));
        let Some((port, left)) = sent.get(&came.id) else {
            // It did not leave: nothing of the kind may be said.
            assert_eq!(output, InterfaceKind::Unknown, "{} {said:?}", came.id);
            assert!(
                said.router.is_none() && said.mpls.is_none(),
                "{} {said:?}",
                came.id
            );
            assert_eq!(switch.out_vlan, u32::MAX);
            kinds[0] += 1;
            continue;
        };
        assert_eq!(
            output,
            InterfaceKind::Index(index(*port)),
            "{} {said:?}",
            came.id
        );
        assert_eq!((switch.out_vlan, switch.out_priority), (0, 0));
        let route = said.router.unwrap();
        // The one that is sent to itself has no next hop.
        if let Some(hop) = last_two(&route.next_hop) {
            assert_eq!(hop, sent_to(left), "{} {said:?}", came.id);
        } else {
            kinds[1] += 1;
        }
        match &said.mpls {
            None => {
                assert!(
                    came.labels.is_empty() && left.labels.is_empty(),
                    "{}",
                    came.id
                );
                kinds[2] += 1;
            }
            Some((hop, labels_in, labels_out)) => {
                assert_eq!(labels_in, &came.labels, "{}", came.id);
                assert_eq!(
                    labels_out, &left.labels,
                    "{} {labels_out:x?} {:x?}",
                    came.id, left.labels
                );
                assert_eq!(*hop, route.next_hop);
                kinds[3] += 1;
            }
        }
    }
    // The test is about something: all kinds of packet were there.
    assert_eq!(kinds.map(|k| k >= 32), [true; 4], "{kinds:?}");
}

#[test]
fn samples_tell_the_as_path_that_a_feed_knows() {
    let dir = tempfile::tempdir().unwrap();
    let paths = dir.path().join("paths.txt");
    let text = "10.0.0.0/24 as-path\n\
                20.0.0.0/8 as-path 65001 65002 65003 communities 65001:7 no-export next-hop 10.1.0.2\n\
                20.9.0.0/16 as-path 65009 {1,2}\n\
                2001:db8:5::/48 as-path 4200000001 next-hop 2001:db8:1::2\n";
    std::fs::write(&paths, text).unwrap();
    let more = format!(
        "bgp local-as 65000\nbgp feed file {}\nsflow enable pg0 sampling-rate 1",
        paths.display()
    );
    let frames = frames();
    let (told, _) = through(&frames, &more, frames.len());
    let mut seen = [0usize; 4];
    for bytes in &frames {
        let came = read_frame(bytes).unwrap();
        let said = &told[&came.id];
        let at = 14 + 4 * came.labels.len();
        let ip = &bytes[at..];
        let four = ip[0] >> 4 == 4;
        let Some(g) = &said.gateway else {
            // Nothing is known of it, it did not leave, or it was switched by its labels.
            seen[0] += 1;
            continue;
        };
        assert!(said.router.is_some(), "{}", came.id);
        assert_eq!(g.router_as, 65_000);
        // The source is in this router's own AS, or not known.
        assert_eq!(g.src_as, if four { 65_000 } else { 0 });
        let dst = &ip[if four { 16 } else { 24 }..];
        match dst {
            [20, 9, ..] => {
                assert_eq!(g.path, [65_009, 1, 2]);
                seen[1] += 1;
            }
            [20, ..] => {
                assert_eq!(g.path, [65_001, 65_002, 65_003]);
                assert_eq!(g.communities, [65_001 << 16 | 7, 0xFFFF_FF01]);
                assert_eq!(g.next_hop.to_string(), "10.1.0.2");
                seen[2] += 1;
            }
            [0x20, 0x01, 0x0D, 0xB8, 0, 5, ..] => {
                assert_eq!(g.path, [4_200_000_001]);
                assert_eq!(g.next_hop.to_string(), "2001:db8:1::2");
                seen[3] += 1;
            }
            // The route to the destination is not known, the one to the source is.
            _ => assert!(g.path.is_empty() && g.communities.is_empty()),
        }
    }
    assert!(seen.iter().all(|n| *n >= 16), "{seen:?}");
}

#[test]
fn samples_of_packets_on_their_way_out_tell_the_same() {
    let frames = frames();
    let received = |b: &Vec<u8>| read_frame(b).map(|f| (f.id, f.labels));
    let came: BTreeMap<u16, Vec<u32>> = frames.iter().filter_map(received).collect();
    let mut kinds = [0usize; 4];
    // Where a packet may come with labels, it is not known on its way out whether it did.
    for mpls in ["enable", "disable"] {
        let rx = format!("set interface mpls pg0 {mpls}\nsflow enable pg0 sampling-rate 1");
        let tx = format!(
            "set interface mpls pg0 {mpls}\nsflow direction tx\nsflow enable pg1 sampling-rate 1\n\
             sflow enable pg2 sampling-rate 1\nsflow records timestamp on"
        );
        let leaving = through(&frames, &rx, frames.len()).1.len();
        let (told, sent) = through(&frames, &tx, leaving);
        assert_eq!(told.len(), sent.len());
        for (id, said) in &told {
            let (port, left) = &sent[id];
            let output = said.output.unwrap().kind();
            assert_eq!(output, InterfaceKind::Index(index(*port)));
            let switch = said.switch.unwrap();
            assert_eq!((switch.in_vlan, switch.out_vlan), (0, 0));
            assert!(said.timed, "{id}");
            if let Some((hop, labels_in, labels_out)) = &said.mpls {
                assert_eq!(labels_out, &left.labels);
                assert!(labels_in.is_empty() && came[id].is_empty(), "{id}");
                assert_eq!(*hop, said.router.unwrap().next_hop);
                kinds[0] += 1;
            } else if left.labels.is_empty() && came[id].is_empty() {
                kinds[1] += 1;
                assert!(said.router.is_some(), "{id}");
            } else {
                kinds[2] += 1;
            }
            if let Some(hop) = said.router.and_then(|r| last_two(&r.next_hop)) {
                assert_eq!(hop, sent_to(left), "{id} {said:?}");
                kinds[3] += 1;
            }
        }
    }
    assert_eq!(kinds.map(|k| k >= 32), [true; 4], "{kinds:?}");
}
