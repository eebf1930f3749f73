//! Packet sockets against the real kernel, on veth pairs in nameless namespaces that vanish by
//! themselves. Both ends keep the kernel's default offloads.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parshall_buffer::{BufferIndex, Frame, Pool};
use parshall_device::{Device, Queues, RxBurst};
use parshall_linux::{Net, NetNs, Offload, VethEnd};
use parshall_wire::{PacketBuilder, checksum};

use super::{AfPacket, AfPacketConfig};

const OURS: [u8; 6] = [2, 0, 0, 0, 0, 1];
const HOSTS: [u8; 6] = [2, 0, 0, 0, 0, 2];

/// A host `h0` (10.0.0.2, fd00::2) on a veth whose other end `r0`, in another namespace, is ours.
struct Bed {
    host: NetNs,
    ours: NetNs,
    pool: Pool,
}

fn ip(s: &str) -> IpAddr {
    s.parse().unwrap()
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

fn bed(mtu: u32) -> Bed {
    let (host, ours) = (NetNs::anonymous().unwrap(), NetNs::anonymous().unwrap());
    // Quiet: no router solicitations from our end.
    ours.set_sysctl("net.ipv6.conf.default.disable_ipv6", "1")
        .unwrap();
    let (h, r) = (Net::in_ns(&host).unwrap(), Net::in_ns(&ours).unwrap());
    let near = VethEnd::new("r0").mtu(mtu);
    r.create_veth(&near, &VethEnd::new("h0").ns(&host).mac(HOSTS).mtu(mtu))
        .unwrap();
    h.set_up("h0").unwrap();
    h.add_addr("h0", "10.0.0.2/24".parse().unwrap()).unwrap();
    h.add_addr("h0", "fd00::2/64".parse().unwrap()).unwrap();
    h.add_neigh("h0", ip("10.0.0.1"), OURS).unwrap();
    h.add_neigh("h0", ip("fd00::1"), OURS).unwrap();
    Bed {
        host,
        ours,
        pool: Pool::new(4096).unwrap(),
    }
}

impl Bed {
    fn config(&self) -> AfPacketConfig {
        AfPacketConfig {
            host_if: "r0".into(),
            host_ns: Some(self.ours.path()),
            mac: Some(OURS),
            ..AfPacketConfig::default()
        }
    }

    /// Takes our end and brings it up; waits until the host may send.
    fn open(&self, config: AfPacketConfig, workers: usize) -> (AfPacket, Queues) {
        let mut device = AfPacket::open(config).unwrap();
        let queues = device.queues(7, workers).unwrap();
        device.set_admin(true).unwrap();
        let host = Net::in_ns(&self.host).unwrap();
        wait_for("a carrier", || {
            host.link("h0").unwrap().is_running() && device.info().link_up
        });
        (device, queues)
    }

    fn socket(&self, addr: &str) -> UdpSocket {
        let addr: SocketAddr = addr.parse().unwrap();
        let socket = self.host.run(|| UdpSocket::bind(addr)).unwrap().unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(5)))
            .unwrap();
        socket
    }

    /// Receives until `count` UDP frames to port 9 are there, per queue.
    fn receive(&mut self, queues: &mut Queues, count: usize) -> Vec<Vec<Vec<u8>>> {
        let mut got = vec![Vec::new(); queues.rx.len()];
        let pool = &mut self.pool;
        wait_for("frames", || {
            for (i, got) in got.iter_mut().enumerate() {
                let (frames, burst) = poll(queues, i, pool);
                assert_eq!((burst.errors, burst.missed, burst.no_buffer), (0, 0, 0));
                got.extend(frames.into_iter().filter(|f| udp_payload(f).is_some()));
            }
            got.iter().map(Vec::len).sum::<usize>() >= count
        });
        got
    }
}

/// One poll of receive queue `i`: the frames' bytes, their buffers freed.
fn poll(queues: &mut Queues, i: usize, pool: &mut Pool) -> (Vec<Vec<u8>>, RxBurst) {
    let mut frame = Frame::default();
    let burst = queues.rx[i].poll(pool, &mut frame, 0);
    let frames: Vec<_> = frame.packets().iter().map(|&b| pool.to_vec(b)).collect();
    assert_eq!(
        burst.bytes,
        frames.iter().map(|f| f.len() as u64).sum::<u64>()
    );
    assert!(frame.packets().iter().all(|&b| pool.meta(b).rx_if == 7));
    pool.free_bulk(frame.packets());
    (frames, burst)
}

/// Payload of a UDP frame to port 9, its checksum right; `None` for what else a host says.
fn udp_payload(bytes: &[u8]) -> Option<&[u8]> {
    let (ip_at, port_at) = match bytes[12..14] {
        [0x08, 0x00] => (14, 36),
        [0x86, 0xdd] => (14, 56),
        [0x81, 0x00] | [0x88, 0xa8] => (18, 40),
        _ => return None,
    };
    if bytes.get(port_at..port_at + 2) != Some(&[0, 9]) {
        return None;
    }
    assert_eq!(checksum::l4_checksum_valid(&bytes[ip_at..]), Some(true));
    Some(&bytes[port_at + 6..])
}

fn udp_frame(len: usize) -> Vec<u8> {
    let (IpAddr::V4(src), IpAddr::V4(dst)) = (ip("10.0.0.1"), ip("10.0.0.2")) else {
        unreachable!()
    };
    PacketBuilder::ethernet(OURS.into(), HOSTS.into())
        .ipv4(src, dst)
        .udp(1000, 9)
        .payload_len(len)
        .build()
}

fn send(queues: &mut Queues, pool: &mut Pool, frames: &[Vec<u8>]) -> (usize, usize) {
    let packets: Vec<BufferIndex> = frames
        .iter()
        .map(|f| pool.packet_from(f, 0).unwrap())
        .collect();
    let burst = queues.tx[0].transmit(pool, &packets, 0);
    pool.free_bulk(&packets[burst.taken..]);
    (burst.taken, burst.errors)
}

#[test]
fn frames_of_all_lengths_both_ways() {
    let mut bed = bed(9000);
    let (_device, mut queues) = bed.open(bed.config(), 1);
    let (four, six) = (bed.socket("10.0.0.2:9"), bed.socket("[fd00::2]:7"));
    let before = bed.pool.available();
    for len in [18, 19, 500, 1472, 2134, 2135, 4000, 8952, 8972] {
        assert_eq!(send(&mut queues, &mut bed.pool, &[udp_frame(len)]), (1, 0));
        assert_eq!(four.recv(&mut [0; 10_000]).unwrap(), len);
        four.send_to(&vec![len as u8; len], "10.0.0.1:9").unwrap();
        let got = bed.receive(&mut queues, 1);
        assert_eq!(udp_payload(&got[0][0]), Some(&vec![len as u8; len][..]));
        let len = len.min(8952);
        six.send_to(&vec![1; len], "[fd00::1]:9").unwrap();
        let got = bed.receive(&mut queues, 1);
        assert_eq!(udp_payload(&got[0][0]), Some(&vec![1; len][..]));
    }
    assert_eq!(bed.pool.available(), before);
}

#[test]
fn frames_longer_than_a_slot_come_by_the_socket_in_order() {
    // Slots are made for MTU 1500, then the MTU grows.
    let mut bed = bed(1500);
    let (mut device, mut queues) = bed.open(bed.config(), 1);
    device.set_max_frame(9014).unwrap();
    Net::in_ns(&bed.host).unwrap().set_mtu("h0", 9000).unwrap();
    let socket = bed.socket("10.0.0.2:9");
    let lengths: Vec<usize> = (0..60)
        .map(|i| if i % 3 == 0 { 8000 + i } else { 100 + i })
        .collect();
    for &len in &lengths {
        socket.send_to(&vec![3; len], "10.0.0.1:9").unwrap();
    }
    let got = bed.receive(&mut queues, lengths.len());
    let got: Vec<_> = got[0]
        .iter()
        .map(|f| udp_payload(f).unwrap().len())
        .collect();
    assert_eq!(got, lengths);
    assert_eq!(send(&mut queues, &mut bed.pool, &[udp_frame(8000)]), (1, 0));
    assert_eq!(socket.recv(&mut [0; 10_000]).unwrap(), 8000);
}

#[test]
fn udp_super_frames_are_cut() {
    let mut bed = bed(1500);
    let (_device, mut queues) = bed.open(bed.config(), 1);
    let socket = bed.socket("10.0.0.2:8");
    let size: libc::c_int = 1000;
    // SAFETY: the kernel reads the four bytes of `size`.
    let rc = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_UDP,
            libc::UDP_SEGMENT,
            (&raw const size).cast(),
            4,
        )
    };
    assert_eq!(rc, 0);
    let data: Vec<u8> = (0..40_500).map(|i| (i / 13) as u8).collect();
    socket.send_to(&data, "10.0.0.1:9").unwrap();
    let got = bed.receive(&mut queues, 41);
    assert_eq!(got[0].len(), 41);
    let joined: Vec<u8> = got[0]
        .iter()
        .flat_map(|f| udp_payload(f).unwrap().to_vec())
        .collect();
    assert_eq!(joined, data);
}

#[test]
fn several_queues_lose_nothing() {
    let mut bed = bed(1500);
    let (_device, mut queues) = bed.open(bed.config(), 3);
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
        got.iter().all(|q| !q.is_empty()),
        "flows are spread over all queues"
    );
    let sink = bed.socket("10.0.0.2:9");
    for i in 0..3 {
        queues.tx.swap(0, i);
        assert_eq!(send(&mut queues, &mut bed.pool, &[udp_frame(100)]), (1, 0));
        assert_eq!(sink.recv(&mut [0; 200]).unwrap(), 100);
    }
}

#[test]
fn vlan_tags_are_put_back() {
    let mut bed = bed(1500);
    let (_device, mut queues) = bed.open(bed.config(), 1);
    let other = AfPacketConfig {
        host_if: "h0".into(),
        host_ns: Some(bed.host.path()),
        ..AfPacketConfig::default()
    };
    let mut far = AfPacket::open(other).unwrap();
    let mut far_queues = far.queues(8, 1).unwrap();
    let (IpAddr::V4(a), IpAddr::V4(b)) = (ip("10.0.0.1"), ip("10.0.0.2")) else {
        unreachable!()
    };
    let ethernet = || PacketBuilder::ethernet(HOSTS.into(), OURS.into());
    let sent = [
        ethernet()
            .vlan(7)
            .ipv4(b, a)
            .udp(1, 9)
            .payload_len(300)
            .build(),
        ethernet()
            .vlan(4000)
            .ipv4(b, a)
            .udp(1, 9)
            .payload_len(1472)
            .build(),
        ethernet()
            .qinq(5)
            .vlan(6)
            .ipv4(b, a)
            .udp(1, 10)
            .payload_len(30)
            .build(),
    ];
    send(&mut far_queues, &mut bed.pool, &sent);
    let mut got = Vec::new();
    wait_for("tagged frames", || {
        got.extend(
            poll(&mut queues, 0, &mut bed.pool)
                .0
                .into_iter()
                .filter(|f| f[6..12] == HOSTS && matches!(f[12..14], [0x81, 0] | [0x88, 0xa8])),
        );
        got.len() == sent.len()
    });
    assert_eq!(got, sent);
}

#[test]
fn overflow_is_counted_and_exact() {
    let mut bed = bed(1500);
    let (_device, mut queues) = bed.open(
        AfPacketConfig {
            rx_slots: 8,
            ..bed.config()
        },
        1,
    );
    let socket = bed.socket("10.0.0.2:8");
    let (mut got, mut missed) = (0, 0);
    let mut drain = |queues: &mut Queues, pool: &mut Pool| loop {
        let (frames, burst) = poll(queues, 0, pool);
        got += frames.iter().filter(|f| udp_payload(f).is_some()).count();
        missed += burst.missed as usize;
        if frames.is_empty() {
            return (got, missed);
        }
    };
    for _ in 0..2000 {
        socket.send_to(&[1; 100], "10.0.0.1:9").unwrap();
    }
    // What was lost after the last frame is told when the queue has been idle for a while.
    wait_for("the full count", || {
        let (got, missed) = drain(&mut queues, &mut bed.pool);
        // Other frames of the host (its neighbour discovery) may be among the missed.
        missed > 0 && got + missed >= 2000 && got + missed < 2020
    });
}

#[test]
fn the_interface_is_given_back_as_it_was() {
    let bed = bed(1500);
    let net = Net::in_ns(&bed.ours).unwrap();
    net.set_offload("r0", Offload::Gro, true).unwrap();
    let before = net.link("r0").unwrap();
    let (mut device, queues) = bed.open(bed.config(), 1);
    assert!(!net.offload("r0", Offload::Gro).unwrap());
    device.set_max_frame(4014).unwrap();
    device.set_promiscuous(true).unwrap();
    let during = net.link("r0").unwrap();
    assert_eq!(
        (during.mtu, during.is_up(), during.mac),
        (4000, true, before.mac)
    );
    let info = device.info();
    assert_eq!(
        (info.kind, info.mac, info.max_frame, info.link_up),
        ("af-packet", OURS, 4014, true)
    );
    assert_eq!(
        (info.speed, info.os_index),
        (10_000_000_000, Some(before.index))
    );
    let e = device.set_max_frame(9_231).unwrap_err().to_string();
    assert!(e.contains("82 to 9230"), "{e}");
    drop(queues);
    drop(device);
    let after = net.link("r0").unwrap();
    assert_eq!(
        (after.mtu, after.is_up(), after.is_promisc()),
        (1500, false, false)
    );
    assert!(net.offload("r0", Offload::Gro).unwrap());
}

#[test]
fn an_interface_that_goes_down_or_away_is_survived() {
    let mut bed = bed(1500);
    let (mut device, mut queues) = bed.open(bed.config(), 1);
    let before = bed.pool.available();
    device.set_admin(false).unwrap();
    assert!(!device.info().link_up);
    assert_eq!(
        send(&mut queues, &mut bed.pool, &vec![udp_frame(64); 5]),
        (5, 5)
    );
    for _ in 0..200 {
        poll(&mut queues, 0, &mut bed.pool);
    }
    let fd = queues.rx[0].fd().unwrap();
    let mut wait = libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one pollfd, which outlives the call.
    let ready = unsafe { libc::poll(&mut wait, 1, 0) };
    assert_eq!(ready, 0, "an idle worker would spin");
    device.set_admin(true).unwrap();
    let socket = bed.socket("10.0.0.2:9");
    wait_for("a carrier", || {
        Net::in_ns(&bed.host)
            .unwrap()
            .link("h0")
            .unwrap()
            .is_running()
    });
    assert_eq!(send(&mut queues, &mut bed.pool, &[udp_frame(64)]), (1, 0));
    assert_eq!(socket.recv(&mut [0; 100]).unwrap(), 64);
    Net::in_ns(&bed.ours).unwrap().delete_link("r0").unwrap();
    assert_eq!(send(&mut queues, &mut bed.pool, &[udp_frame(64)]), (1, 1));
    assert!(!device.info().link_up);
    assert_eq!(bed.pool.available(), before);
}

#[test]
fn a_burst_longer_than_the_ring_is_taken_in_part() {
    let mut bed = bed(1500);
    let (_device, mut queues) = bed.open(bed.config(), 1);
    let before = bed.pool.available();
    let (taken, errors) = send(&mut queues, &mut bed.pool, &vec![udp_frame(64); 1000]);
    assert!((512..1000).contains(&taken) && errors == 0, "{taken} taken");
    assert_eq!(
        send(&mut queues, &mut bed.pool, &[udp_frame(3000)]),
        (1, 1),
        "longer than the MTU"
    );
    assert_eq!(bed.pool.available(), before);
}

#[test]
fn refusals_say_what_to_do() {
    let bed = bed(1500);
    let e = AfPacket::open(AfPacketConfig {
        host_if: "nosuch0".into(),
        ..bed.config()
    })
    .unwrap_err()
    .to_string();
    assert!(e.contains("interface \"nosuch0\": No such device"), "{e}");
}

/// Moves frames between two devices until told to stop, as a wire does.
fn wire(a: &mut Queues, b: &mut Queues, stop: &AtomicBool) {
    let mut pool = Pool::new(8192).unwrap();
    let mut frame = Frame::default();
    while !stop.load(Ordering::Relaxed) {
        let mut moved = 0;
        for forth in [true, false] {
            let (from, to) = if forth {
                (&mut *a, &mut *b)
            } else {
                (&mut *b, &mut *a)
            };
            frame.clear();
            from.rx[0].poll(&mut pool, &mut frame, 0);
            let taken = to.tx[0].transmit(&mut pool, frame.packets(), 0).taken;
            pool.free_bulk(&frame.packets()[taken..]);
            to.tx[0].flush(&mut pool);
            moved += frame.len();
        }
        if moved == 0 {
            std::thread::sleep(Duration::from_micros(50));
        }
    }
    assert_eq!(pool.available(), pool.capacity());
}

/// Sends 20 MB from one host to the other over TCP, and the answer back, and compares every byte.
fn tcp_through(from: &NetNs, to: &NetNs, server: &str) {
    const LEN: usize = 20 << 20;
    let pattern = |i: usize| (i.wrapping_mul(2_654_435_761) >> 13) as u8;
    let addr: SocketAddr = server.parse().unwrap();
    let listener = to.run(|| TcpListener::bind(addr)).unwrap().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = listener.accept().unwrap();
            stream
                .set_read_timeout(Some(Duration::from_secs(20)))
                .unwrap();
            let mut data = vec![0; LEN];
            stream.read_exact(&mut data).unwrap();
            stream.write_all(&data).unwrap();
        });
        let mut stream = from
            .run(|| TcpStream::connect_timeout(&addr, Duration::from_secs(10)))
            .unwrap()
            .unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        let data: Vec<u8> = (0..LEN).map(pattern).collect();
        stream.write_all(&data).unwrap();
        let mut back = vec![0; LEN];
        stream.read_exact(&mut back).unwrap();
        assert!(back == data, "what came back differs");
    });
}

#[test]
fn tcp_with_default_offloads_survives() {
    for mtu in [1500, 9000] {
        let (a, b, ours) = (
            NetNs::anonymous().unwrap(),
            NetNs::anonymous().unwrap(),
            NetNs::anonymous().unwrap(),
        );
        ours.set_sysctl("net.ipv6.conf.default.disable_ipv6", "1")
            .unwrap();
        let r = Net::in_ns(&ours).unwrap();
        let mut devices = Vec::new();
        for (i, host) in [&a, &b].into_iter().enumerate() {
            let (near, net) = (format!("r{i}"), Net::in_ns(host).unwrap());
            r.create_veth(
                &VethEnd::new(&near).mtu(mtu),
                &VethEnd::new("h0").ns(host).mtu(mtu),
            )
            .unwrap();
            net.set_up("h0").unwrap();
            net.add_addr("h0", format!("10.0.0.{}/24", i + 1).parse().unwrap())
                .unwrap();
            net.add_addr("h0", format!("fd00::{}/64", i + 1).parse().unwrap())
                .unwrap();
            assert!(net.offloads("h0").unwrap().tso && net.offloads("h0").unwrap().tx_checksum);
            let config = AfPacketConfig {
                host_if: near,
                host_ns: Some(ours.path()),
                ..AfPacketConfig::default()
            };
            let mut device = AfPacket::open(config).unwrap();
            device.set_promiscuous(true).unwrap();
            let queues = device.queues(i as u32, 1).unwrap();
            device.set_admin(true).unwrap();
            devices.push((device, queues));
        }
        let ((_da, mut qa), (_db, mut qb)) = (devices.remove(0), devices.remove(0));
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| wire(&mut qa, &mut qb, &stop));
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                tcp_through(&a, &b, "10.0.0.2:5000");
                tcp_through(&b, &a, "[fd00::1]:5000");
            }));
            stop.store(true, Ordering::Relaxed);
            result.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        });
    }
}
