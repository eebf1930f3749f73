//! sFlow datagrams whose content is known, capture files, namespaces and strangers for the tests of the tools.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use parshall_linux::{Net, NetNs};
use parshall_sflow_wire::pcap::{Capture, find_udp};
use parshall_sflow_wire::record::{
    AsSegment, ExtendedGateway, ExtendedRouter, ExtendedSwitch, List, RawHeader,
};
use parshall_sflow_wire::{
    Address, CounterSampleHead, DataSource, DatagramBuilder, FlowRecord, FlowSampleHead, Interface,
};
use parshall_wire::{ArpOperation, ArpRepr, MacAddr, PacketBuilder, TcpFlags};

/// When the first datagram of a capture was captured.
pub const START: u32 = 1_700_000_000;

/// A datagram and who sent it.
pub struct Sent {
    pub from: SocketAddr,
    pub bytes: Vec<u8>,
}

/// What a sample must become.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Expected {
    pub src: IpAddr,
    pub dst: IpAddr,
    pub src_port: u16,
    pub dst_port: u16,
    pub protocol: u8,
    pub rate: u64,
    pub octets: u64,
    pub label: u32,
}

/// Datagrams of a few agents, some of IPv6, with samples at several rates, and what must become of them. Some samples are of ARP, and each datagram has a
/// counter sample: there are no flows of those.
pub fn traffic(datagrams: u32) -> (Vec<Sent>, Vec<Expected>) {
    let mut all = (Vec::new(), Vec::new());
    for n in 0..datagrams {
        let agent: IpAddr = match n % 3 {
            0 => [192, 0, 2, 1].into(),
            1 => [192, 0, 2, 2].into(),
            _ => "2001:db8::3".parse().unwrap(),
        };
        let mut b = DatagramBuilder::new(1400);
        b.begin(agent, 0, n / 3 + 1, n * 10);
        let counters = CounterSampleHead {
            sequence: n / 3 + 1,
            source: DataSource::interface(3),
        };
        b.push_counter_sample_expanded(&counters, |_| {}).unwrap();
        for k in 0..1 + n % 4 {
            sample(&mut b, n * 4 + k, &mut all.1);
        }
        all.0.push(Sent {
            from: SocketAddr::new(agent, 50_000 + n as u16 % 3),
            bytes: b.finish().to_vec(),
        });
    }
    all
}

fn sample(b: &mut DatagramBuilder, n: u32, expected: &mut Vec<Expected>) {
    let (a_mac, b_mac) = (MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2]));
    let rate = [100, 1000, 5000][n as usize % 3];
    let payload = (n as usize * 37) % 1300;
    let (six, tagged, labelled) = (n % 5 == 1, n % 4 == 2, n % 7 == 3);
    let label = if labelled { 1000 + n } else { 0 };
    let mut p = PacketBuilder::ethernet(a_mac, b_mac);
    if tagged && !labelled {
        p = p.vlan(7);
    }
    if labelled {
        p = p.mpls(label);
    }
    let (src, dst): (IpAddr, IpAddr) = if six {
        let src = std::net::Ipv6Addr::from(0x2001_0db8_u128 << 96 | u128::from(n));
        p = p.ipv6(src, "2001:db8:1::1".parse().unwrap());
        (src.into(), "2001:db8:1::1".parse().unwrap())
    } else {
        let src = std::net::Ipv4Addr::from(0x0A00_0000 + n);
        p = p.ipv4(src, [10, 255, 0, 1].into());
        (src.into(), [10, 255, 0, 1].into())
    };
    let ip_header = if six { 40 } else { 20 };
    let (frame, octets, protocol) = if n.is_multiple_of(2) {
        let flags = TcpFlags::SYN;
        let f = p.tcp(1000, 443, flags).payload_len(payload).build();
        (f, ip_header + 20 + payload, 6)
    } else {
        let f = p.udp(1000, 443).payload_len(payload).build();
        (f, ip_header + 8 + payload, 17)
    };
    let head = FlowSampleHead {
        sequence: n,
        source: DataSource::interface(3),
        rate,
        pool: n * rate,
        drops: 0,
        input: Interface::index(3),
        output: Interface::index(4),
    };
    if n % 11 == 10 {
        let arp = arp_frame();
        push(b, &head, &arp, six);
        return;
    }
    push(b, &head, &frame, six);
    expected.push(Expected {
        src,
        dst,
        src_port: 1000,
        dst_port: 443,
        protocol,
        rate: rate.into(),
        octets: octets as u64,
        label,
    });
}

fn arp_frame() -> Vec<u8> {
    let arp = ArpRepr {
        operation: ArpOperation::Request,
        sender_mac: MacAddr([2, 0, 0, 0, 0, 1]),
        sender_ip: [10, 0, 0, 1].into(),
        target_mac: MacAddr([0; 6]),
        target_ip: [10, 0, 0, 2].into(),
    };
    PacketBuilder::ethernet(MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([0xFF; 6]))
        .arp(arp)
        .build()
}

fn push(b: &mut DatagramBuilder, head: &FlowSampleHead, frame: &[u8], six: bool) {
    let hop = |n: u8| match six {
        true => Address::V6(std::net::Ipv6Addr::from(0xFE80_u128 << 112 | u128::from(n))),
        false => Address::V4([10, 9, 9, n].into()),
    };
    let path = [AsSegment {
        kind: 2,
        asns: List::new(&[65_003, 65_004]),
    }];
    b.push_flow_sample_expanded(head, |w| {
        w.push(&FlowRecord::RawHeader(RawHeader {
            protocol: 1,
            frame_length: frame.len().max(60) as u32 + 4,
            stripped: 4,
            header: &frame[..frame.len().min(128)],
        }));
        w.push(&FlowRecord::Switch(ExtendedSwitch {
            in_vlan: 100,
            in_priority: 0,
            out_vlan: 200,
            out_priority: 0,
        }));
        w.push(&FlowRecord::Router(ExtendedRouter {
            next_hop: hop(1),
            src_mask_len: 24,
            dst_mask_len: 16,
        }));
        w.push(&FlowRecord::Gateway(ExtendedGateway {
            next_hop: hop(2),
            router_as: 65_000,
            src_as: 65_001,
            src_peer_as: 65_002,
            dst_as_path: List::new(&path),
            communities: List::default(),
            local_pref: 100,
        }));
    })
    .unwrap();
}

/// Writes a capture of bare IP packets in which the datagrams are ten milliseconds apart.
pub fn write_capture(path: &Path, sent: &[Sent]) {
    let mut file = Vec::new();
    let words = |list: &[u32], out: &mut Vec<u8>| {
        list.iter().for_each(|w| out.extend(w.to_le_bytes()));
    };
    words(&[0xA1B2_C3D4, 2 | 4 << 16, 0, 0, 262_144, 101], &mut file);
    for (n, s) in sent.iter().enumerate() {
        let p = PacketBuilder::bare();
        let p = match s.from.ip() {
            IpAddr::V4(a) => p.ipv4(a, [192, 0, 2, 99].into()),
            IpAddr::V6(a) => p.ipv6(a, "2001:db8::99".parse().unwrap()),
        };
        let packet = p.udp(s.from.port(), 6343).payload(&s.bytes).build();
        let (at, len) = (n as u32 * 10_000, packet.len() as u32);
        words(
            &[START + at / 1_000_000, at % 1_000_000, len, len],
            &mut file,
        );
        file.extend(packet);
    }
    std::fs::write(path, file).unwrap();
}

/// Sources and payloads in a capture.
pub fn read_capture(path: &Path) -> Vec<(SocketAddr, Vec<u8>)> {
    let bytes = std::fs::read(path).unwrap();
    let mut capture = Capture::open(&bytes[..]).unwrap();
    let mut all = Vec::new();
    while let Some(p) = capture.next_packet().unwrap() {
        let udp = find_udp(p.link_type, p.data).unwrap();
        let from = SocketAddr::new(udp.source, udp.source_port);
        all.push((from, udp.payload.to_vec()));
    }
    all
}

/// Takes so many datagrams off a socket.
pub fn receive(socket: &UdpSocket, n: usize) -> Vec<(SocketAddr, Vec<u8>)> {
    socket
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let mut buf = vec![0; 65_536];
    let one = |i| {
        let (len, from) = socket.recv_from(&mut buf).unwrap_or_else(|e| {
            panic!("{i} of {n} datagrams arrived: {e}");
        });
        (from, buf[..len].to_vec())
    };
    (0..n).map(one).collect()
}

/// Runs `job` inside a namespace of its own in which nothing is but the loopback.
pub fn in_namespace<T: Send>(job: impl FnOnce(&NetNs) -> T + Send) -> T {
    let ns = NetNs::anonymous()
        .unwrap_or_else(|e| panic!("the test needs a network namespace (run as root): {e}"));
    Net::in_ns(&ns).unwrap().set_up("lo").unwrap();
    ns.run(|| job(&ns)).unwrap()
}

/// A program that runs beside the test, and ends with it.
pub struct Stranger(Child);

impl Stranger {
    /// Starts it.
    pub fn start(ns: &NetNs, program: &str, args: &[&str]) -> Stranger {
        let mut command = ns.command(program).unwrap();
        let child = command
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Stranger(child.unwrap_or_else(|e| missing(program, &e)))
    }

    /// Ends it in order, so that it writes what it has.
    pub fn end(mut self) {
        kill(Pid::from_raw(self.0.id() as i32), Signal::SIGTERM).unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        // It may have ended already; both calls then say so, which is fine.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Output of a program that has to succeed.
pub fn output(program: &str, args: &[&str]) -> String {
    let out = Command::new(program)
        .args(args)
        .output()
        .unwrap_or_else(|e| missing(program, &e));
    let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
    assert!(
        out.status.success(),
        "{program} {args:?}: {}{}",
        text(&out.stdout),
        text(&out.stderr)
    );
    text(&out.stdout)
}

fn missing<T>(program: &str, e: &std::io::Error) -> T {
    panic!("cannot run {program}: {e}; tests/setup.sh installs what the tests need")
}

/// Waits until somebody has a UDP port in this namespace.
pub fn wait_for_port(port: u16) {
    wait(&format!("nobody opened UDP port {port}"), || {
        waiting_bytes(port).is_some()
    });
}

/// Waits until whoever has the port has read what was sent to it.
pub fn wait_until_read(port: u16) {
    wait(
        &format!("what was sent to port {port} was not read"),
        || waiting_bytes(port) == Some(0),
    );
}

fn wait(what: &str, done: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !done() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Bytes that wait in the sockets of a port, if there are any sockets.
fn waiting_bytes(port: u16) -> Option<u64> {
    let files = ["/proc/thread-self/net/udp", "/proc/thread-self/net/udp6"];
    let texts = files.iter().flat_map(std::fs::read_to_string);
    let all: String = texts.collect();
    let queues = all.lines().filter_map(|l| {
        let words: Vec<&str> = l.split_whitespace().collect();
        let ours = words.get(1)?.ends_with(&format!(":{port:04X}"));
        let queue = words.get(4)?.split_once(':')?.1;
        ours.then(|| u64::from_str_radix(queue, 16).ok())?
    });
    queues.reduce(|a, b| a + b)
}

/// A flag that a helper thread sets once `ready` says so; what a signal does in life.
pub fn stop_when<'s>(
    scope: &'s std::thread::Scope<'s, '_>,
    stop: &'s AtomicBool,
    ready: impl FnOnce() + Send + 's,
) {
    scope.spawn(move || {
        ready();
        stop.store(true, Ordering::Relaxed);
    });
}
