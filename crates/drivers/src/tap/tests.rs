//! Taps against the real kernel, in nameless namespaces that vanish by themselves.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use parshall_buffer::{BufferIndex, Frame, Pool};
use parshall_device::{Device, Queues};
use parshall_linux::{IpPrefix, Net, NetNs};
use parshall_wire::{PacketBuilder, checksum};

use super::{Tap, TapConfig};

const OURS: [u8; 6] = [2, 0, 0, 0, 0, 1];
const HOSTS: [u8; 6] = [2, 0, 0, 0, 0, 2];

struct Bed {
    ns: NetNs,
    pool: Pool,
    tap: Tap,
}

fn ip(s: &str) -> IpAddr {
    s.parse().unwrap()
}

fn prefix(s: &str) -> IpPrefix {
    s.parse().unwrap()
}

/// A tap whose host has 10.0.0.2 and fd00::2 and knows us as 10.0.0.1 and fd00::1.
fn bed(mtu: u32) -> Bed {
    let ns = NetNs::anonymous().unwrap();
    let mut tap = Tap::open(TapConfig {
        host_if: Some("t0".into()),
        host_ns: Some(ns.path()),
        host_mac: Some(HOSTS),
        host_mtu: Some(mtu),
        host_addrs: vec![prefix("10.0.0.2/24"), prefix("fd00::2/64")],
        host_gateways: vec![ip("10.0.0.1"), ip("fd00::1")],
        rx_ring: Some(256),
        mac: OURS,
        ..TapConfig::default()
    })
    .unwrap();
    tap.set_admin(true).unwrap();
    let net = Net::in_ns(&ns).unwrap();
    net.add_neigh("t0", ip("10.0.0.1"), OURS).unwrap();
    net.add_neigh("t0", ip("fd00::1"), OURS).unwrap();
    wait_for("a carrier", || tap.info().link_up);
    Bed {
        ns,
        pool: Pool::new(4096).unwrap(),
        tap,
    }
}

/// Waits up to 5 s for something that the kernel does in its own time.
fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..5000 {
        if done() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("no {what} after 5 s");
}

impl Bed {
    fn socket(&self, addr: &str) -> UdpSocket {
        let addr: SocketAddr = addr.parse().unwrap();
        let socket = self.ns.run(|| UdpSocket::bind(addr)).unwrap().unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(5)))
            .unwrap();
        socket
    }

    /// Receives until `count` UDP frames to port 9 are there; says their payloads' lengths and frees them.
    fn receive(&mut self, queues: &mut Queues, count: usize) -> Vec<Vec<usize>> {
        let mut got = vec![Vec::new(); queues.rx.len()];
        let pool = &mut self.pool;
        wait_for("frames", || {
            for (queue, got) in queues.rx.iter_mut().zip(&mut got) {
                let mut frame = Frame::default();
                let burst = queue.poll(pool, &mut frame, 0);
                assert_eq!((burst.errors, burst.missed, burst.no_buffer), (0, 0, 0));
                let bytes: u64 = frame
                    .packets()
                    .iter()
                    .map(|&b| u64::from(pool.meta(b).total_len()))
                    .sum();
                assert_eq!(burst.bytes, bytes);
                for &b in frame.packets() {
                    got.extend(payload_len(&pool.to_vec(b)));
                }
                pool.free_bulk(frame.packets());
            }
            got.iter().map(Vec::len).sum::<usize>() >= count
        });
        got
    }
}

/// Payload of a UDP frame to port 9 with a right checksum; `None` for what else a host says.
fn payload_len(bytes: &[u8]) -> Option<usize> {
    let (at, port_at) = match bytes[12..14] {
        [0x08, 0x00] => (14, 36),
        [0x86, 0xdd] => (14, 56),
        _ => return None,
    };
    if bytes.get(port_at..port_at + 2) != Some(&[0, 9]) {
        return None;
    }
    assert_eq!(checksum::l4_checksum_valid(&bytes[at..]), Some(true));
    assert_eq!(bytes[..6], OURS);
    Some(bytes.len() - port_at - 6)
}

fn packet(pool: &mut Pool, len: usize) -> BufferIndex {
    let (IpAddr::V4(src), IpAddr::V4(dst)) = (ip("10.0.0.1"), ip("10.0.0.2")) else {
        unreachable!()
    };
    let bytes = PacketBuilder::ethernet(OURS.into(), HOSTS.into())
        .ipv4(src, dst)
        .udp(1000, 9)
        .payload_len(len)
        .build();
    pool.packet_from(&bytes, 0).unwrap()
}

#[test]
fn frames_of_all_lengths_both_ways() {
    let mut bed = bed(9000);
    let mut queues = bed.tap.queues(7, 1).unwrap();
    let socket = bed.socket("10.0.0.2:9");
    let (before, lengths) = (
        bed.pool.available(),
        [18, 19, 500, 1472, 2134, 2135, 4000, 8972],
    );
    let six = bed.socket("[fd00::2]:7");
    for len in lengths {
        let burst = queues.tx[0].transmit(&mut bed.pool, &[], 0);
        assert_eq!(burst.taken, 0);
        let b = packet(&mut bed.pool, len);
        let burst = queues.tx[0].transmit(&mut bed.pool, &[b], 0);
        assert_eq!((burst.taken, burst.errors), (1, 0));
        assert_eq!(socket.recv(&mut [0; 10_000]).unwrap(), len);
        socket.send_to(&vec![len as u8; len], "10.0.0.1:9").unwrap();
        assert_eq!(bed.receive(&mut queues, 1), [[len]]);
        six.send_to(&vec![1; len.min(8952)], "[fd00::1]:9").unwrap();
        assert_eq!(bed.receive(&mut queues, 1), [[len.min(8952)]]);
    }
    assert_eq!(bed.pool.available(), before);
}

#[test]
fn several_queues_lose_nothing() {
    let mut bed = bed(1500);
    let mut queues = bed.tap.queues(7, 3).unwrap();
    assert_eq!((queues.rx.len(), queues.tx.len()), (3, 3));
    let sockets: Vec<_> = (0..64)
        .map(|p| bed.socket(&format!("10.0.0.2:{}", 2000 + p)))
        .collect();
    for round in 0..5 {
        for socket in &sockets {
            socket.send_to(&[round; 40], "10.0.0.1:9").unwrap();
        }
    }
    let got = bed.receive(&mut queues, 320);
    assert_eq!(got.iter().map(Vec::len).sum::<usize>(), 320);
    assert!(
        got.iter().filter(|q| !q.is_empty()).count() > 1,
        "flows are spread"
    );
    let sink = bed.socket("10.0.0.2:9");
    for tx in &mut queues.tx {
        let b = packet(&mut bed.pool, 100);
        assert_eq!(tx.transmit(&mut bed.pool, &[b], 0).taken, 1);
        assert_eq!(sink.recv(&mut [0; 200]).unwrap(), 100);
    }
}

#[test]
fn the_host_sees_the_cable_and_loses_it_with_the_device() {
    let mut bed = bed(1500);
    let net = Net::in_ns(&bed.ns).unwrap();
    let link = net.link("t0").unwrap();
    assert_eq!(
        (link.mac, link.mtu, link.kind.as_str()),
        (HOSTS, 1500, "tun")
    );
    let info = bed.tap.info();
    assert_eq!(
        (info.kind, info.mac, info.max_frame),
        ("virtio", OURS, 1514)
    );
    assert_eq!(info.os_index, Some(link.index));
    bed.tap.set_admin(false).unwrap();
    wait_for("loss of the carrier", || !bed.tap.info().link_up);
    bed.tap.set_max_frame(9014).unwrap();
    assert_eq!(net.link("t0").unwrap().mtu, 9000);
    for bad in [0, 81, 65_536, u32::MAX] {
        let e = bed.tap.set_max_frame(bad).unwrap_err().to_string();
        assert!(e.contains("82 to 65535"), "{e}");
    }
    drop(bed.tap);
    assert!(net.link("t0").is_err());
}

#[test]
fn a_host_that_is_down_refuses_frames_and_leaks_none() {
    let mut bed = bed(1500);
    let mut queues = bed.tap.queues(7, 1).unwrap();
    Net::in_ns(&bed.ns).unwrap().set_down("t0").unwrap();
    let before = bed.pool.available();
    let b = packet(&mut bed.pool, 64);
    let burst = queues.tx[0].transmit(&mut bed.pool, &[b], 0);
    assert_eq!((burst.taken, burst.errors), (1, 1));
    assert_eq!(bed.pool.available(), before);
}

#[test]
fn without_buffers_the_frame_waits() {
    let mut bed = bed(1500);
    let mut queues = bed.tap.queues(7, 1).unwrap();
    let mut held = Vec::new();
    while let Some(b) = bed.pool.alloc() {
        held.push(b);
    }
    bed.socket("10.0.0.2:5")
        .send_to(&[5; 77], "10.0.0.1:9")
        .unwrap();
    let mut frame = Frame::default();
    assert_eq!(queues.rx[0].poll(&mut bed.pool, &mut frame, 0).bytes, 0);
    assert!(frame.is_empty());
    bed.pool.free_unchained(&held);
    assert_eq!(bed.receive(&mut queues, 1), [[77]]);
}

#[test]
fn refusals_say_what_to_do_and_leave_nothing() {
    let bed = bed(1500);
    let again = TapConfig {
        host_if: Some("t0".into()),
        host_ns: Some(bed.ns.path()),
        ..TapConfig::default()
    };
    let e = Tap::open(again).unwrap_err().to_string();
    assert!(
        e.contains("tap \"t0\"") && e.contains("choose another"),
        "{e}"
    );
    let e = Tap::open(TapConfig {
        host_ns: Some("no-such-ns".into()),
        ..TapConfig::default()
    })
    .unwrap_err();
    assert!(e.to_string().contains("no-such-ns"), "{e}");
    let bad_mtu = TapConfig {
        host_if: Some("t1".into()),
        host_ns: Some(bed.ns.path()),
        host_mtu: Some(70_000),
        ..TapConfig::default()
    };
    assert!(Tap::open(bad_mtu).is_err());
    let no_bridge = TapConfig {
        host_if: Some("t1".into()),
        host_ns: Some(bed.ns.path()),
        host_bridge: Some("br7".into()),
        ..TapConfig::default()
    };
    let e = Tap::open(no_bridge).unwrap_err().to_string();
    assert!(e.contains("br7"), "{e}");
    assert!(Net::in_ns(&bed.ns).unwrap().link("t1").is_err());
}
