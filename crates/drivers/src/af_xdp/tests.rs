//! The driver's queues on veth pairs of their own namespaces: packets in, packets out, to the byte;
//! what is refused; and the words for what cannot be brought about here.

use parshall_buffer::{BufferIndex, Frame, Pool};
use parshall_linux::VethEnd;

use super::*;

/// A veth pair: the router's end `x0` in one namespace, the far end `f0` in another.
struct Pair {
    near: NetNs,
    _far: NetNs,
    net: Net,
    wire: OwnedFd,
}

fn pair(mtu: u32, queues: u32) -> Pair {
    let (near, far) = (NetNs::anonymous().unwrap(), NetNs::anonymous().unwrap());
    let net = Net::in_ns(&near).unwrap();
    let end = |name| VethEnd::new(name).mtu(mtu).queues(queues);
    net.create_veth(&end("x0"), &end("f0").ns(&far)).unwrap();
    for (ns, name) in [(&near, "x0"), (&far, "f0")] {
        let key = format!("net/ipv6/conf/{name}/disable_ipv6");
        ns.set_sysctl(&key, "1").unwrap();
        Net::in_ns(ns).unwrap().set_up(name).unwrap();
    }
    let index = Net::in_ns(&far).unwrap().link("f0").unwrap().index;
    let wire = far.run(|| raw_socket(index)).unwrap();
    Pair {
        near,
        _far: far,
        net,
        wire,
    }
}

/// A packet socket on the far end that receives everything and does not wait.
fn raw_socket(index: u32) -> OwnedFd {
    use std::os::fd::{AsRawFd, FromRawFd};
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    let all = (libc::ETH_P_ALL as u16).to_be();
    // SAFETY: makes a new descriptor, which is owned from here on; bind reads a plain struct.
    unsafe {
        let fd = libc::socket(libc::AF_PACKET, kind, i32::from(all));
        assert!(fd >= 0, "{}", Errno::last());
        let fd = OwnedFd::from_raw_fd(fd);
        let mut address: libc::sockaddr_ll = std::mem::zeroed();
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = all;
        address.sll_ifindex = index as i32;
        let len = size_of_val(&address) as libc::socklen_t;
        let rc = libc::bind(fd.as_raw_fd(), (&raw const address).cast(), len);
        assert_eq!(rc, 0, "{}", Errno::last());
        fd
    }
}

impl Pair {
    fn open(&self, more: AfXdpConfig) -> Result<AfXdp, DeviceError> {
        AfXdp::open(AfXdpConfig {
            host_if: "x0".into(),
            host_ns: Some(self.near.path()),
            ..more
        })
    }

    fn send(&self, frame: &[u8]) {
        let n = nix::unistd::write(&self.wire, frame).unwrap();
        assert_eq!(n, frame.len());
    }

    /// The next frame that reaches the far end.
    fn receive(&self) -> Vec<u8> {
        let mut buffer = vec![0; 65_536];
        for _ in 0..2000 {
            if let Ok(n) = nix::unistd::read(&self.wire, &mut buffer) {
                buffer.truncate(n);
                return buffer;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        panic!("nothing arrived at the far end");
    }
}

/// Polls until a packet comes; what came, and the counts on the way.
fn poll(queues: &mut Queues, pool: &mut Pool) -> (Vec<BufferIndex>, parshall_device::RxBurst) {
    let mut sum = parshall_device::RxBurst::default();
    for turn in 0..2000u64 {
        let mut frame = Frame::default();
        let burst = queues.rx[0].poll(pool, &mut frame, turn * ASK_STEP);
        sum.bytes += burst.bytes;
        sum.missed += burst.missed;
        sum.errors += burst.errors;
        sum.no_buffer += burst.no_buffer;
        if !frame.is_empty() || sum.missed + sum.errors + sum.no_buffer > 0 {
            return (frame.packets().to_vec(), sum);
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    panic!("nothing was received");
}

/// The kernel is asked for its counts every few turns.
const ASK_STEP: u64 = 30_000_000;

fn frame_to(mac: [u8; 6], len: usize) -> Vec<u8> {
    let mut f = vec![0u8; len];
    f[..6].copy_from_slice(&mac);
    f[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 9]);
    f[12..14].copy_from_slice(&[0x88, 0xb5]);
    for (n, byte) in f[14..].iter_mut().enumerate() {
        *byte = n as u8;
    }
    f
}

#[test]
fn frames_go_both_ways_unchanged_at_every_size() {
    let p = pair(9000, 1);
    let mut device = p.open(AfXdpConfig::default()).unwrap();
    let mac = device.info().mac;
    let mut queues = device.queues(7, 1).unwrap();
    device.set_admin(true).unwrap();
    let mut pool = Pool::new(64).unwrap();
    for len in [14, 60, 1514, 1792, 2048, 2176, 2177, 3840, 3841, 4097, 9014] {
        let sent = frame_to(mac, len);
        p.send(&sent);
        let (got, burst) = poll(&mut queues, &mut pool);
        assert_eq!(
            (got.len(), burst.bytes),
            (1, len as u64),
            "{len}: {burst:?}"
        );
        assert_eq!(pool.to_vec(got[0]), sent, "{len}");
        assert_eq!(pool.meta(got[0]).rx_if, 7);
        // And back out.
        let burst = queues.tx[0].transmit(&mut pool, &got, 0);
        assert_eq!((burst.taken, burst.errors), (1, 0), "{len}");
        assert_eq!(p.receive(), sent, "{len}");
    }
    // One byte more than the MTU and two tags allow does not go out.
    let long = pool.packet_from(&frame_to(mac, 9014 + 9), 7).unwrap();
    let burst = queues.tx[0].transmit(&mut pool, &[long], 0);
    assert_eq!((burst.taken, burst.errors), (1, 1));
    assert_eq!(pool.available(), 64, "no buffer is kept");
}

#[test]
fn running_out_of_buffers_is_counted_and_survived() {
    let p = pair(1500, 1);
    let mut device = p.open(AfXdpConfig::default()).unwrap();
    let mac = device.info().mac;
    let mut queues = device.queues(1, 1).unwrap();
    device.set_admin(true).unwrap();
    let mut pool = Pool::new(2).unwrap();
    let held = [pool.alloc().unwrap(), pool.alloc().unwrap()];
    p.send(&frame_to(mac, 100));
    let (got, burst) = poll(&mut queues, &mut pool);
    assert_eq!((got.len(), burst.no_buffer), (0, 1));
    pool.free_bulk(&held);
    // Many times as many as there are chunks: every one comes back to the kernel.
    for n in 0..3000 {
        p.send(&frame_to(mac, 60 + n % 1000));
        let (got, burst) = poll(&mut queues, &mut pool);
        assert_eq!((got.len(), burst.missed), (1, 0), "{n}");
        let burst = queues.tx[0].transmit(&mut pool, &got, 0);
        assert_eq!((burst.taken, burst.errors), (1, 0), "{n}");
        assert_eq!(p.receive().len(), 60 + n % 1000);
    }
    let status = device.status();
    assert_eq!(status.queues[0].rx_dropped, 0, "{status:?}");
}

#[test]
fn only_what_is_ours_is_taken() {
    let p = pair(1500, 1);
    let mut device = p.open(AfXdpConfig::default()).unwrap();
    let mac = device.info().mac;
    let mut queues = device.queues(1, 1).unwrap();
    let mut pool = Pool::new(8).unwrap();
    // Down: nothing is.
    p.net.set_up("x0").unwrap();
    p.send(&frame_to(mac, 61));
    device.set_admin(true).unwrap();
    let others = [2, 9, 9, 9, 9, 9];
    let lldp = [1, 0x80, 0xc2, 0, 0, 0x0e];
    let beyond = [1, 0x80, 0xc2, 0, 0, 0x10];
    for (to, len) in [
        (others, 62),
        (lldp, 63),
        (mac, 64),
        ([0xff; 6], 65),
        ([0x33, 0x33, 0, 0, 0, 1], 66),
        (beyond, 67),
    ] {
        p.send(&frame_to(to, len));
    }
    let mut take = |device: &AfXdp, n: usize| {
        let mut lens = Vec::new();
        while lens.len() < n {
            let (got, _) = poll(&mut queues, &mut pool);
            lens.extend(got.iter().map(|b| pool.meta(*b).len));
            pool.free_bulk(&got);
        }
        assert!(device.info().link_up);
        lens
    };
    assert_eq!(take(&device, 4), [64, 65, 66, 67]);
    device.set_promiscuous(true).unwrap();
    p.send(&frame_to(others, 68));
    p.send(&frame_to(lldp, 69));
    assert_eq!(take(&device, 2), [68, 69]);
    device.set_promiscuous(false).unwrap();
    // A MAC address of our own: the interface's stays the kernel's.
    device.set_mac(others).unwrap();
    p.send(&frame_to(mac, 70));
    p.send(&frame_to(others, 71));
    assert_eq!(take(&device, 1), [71]);
}

#[test]
fn queues_come_as_asked_for_and_no_more_than_there_are() {
    let p = pair(1500, 4);
    let counts = |more: AfXdpConfig, workers| {
        let mut device = p.open(more).unwrap();
        let queues = device.queues(1, workers).unwrap();
        (queues.rx.len(), queues.tx.len())
    };
    let asked = |rx_queues, tx_queues| AfXdpConfig {
        rx_queues,
        tx_queues,
        ..AfXdpConfig::default()
    };
    assert_eq!(counts(asked(0, 0), 1), (4, 1));
    assert_eq!(counts(asked(0, 0), 2), (4, 2));
    assert_eq!(counts(asked(1, 0), 8), (1, 4), "sockets that only send");
    assert_eq!(counts(asked(3, 2), 8), (3, 2));
    let e = p.open(asked(5, 0)).err().unwrap().0;
    assert!(
        e.contains("cannot use 5 receive queues") && e.contains("it has 4"),
        "{e}"
    );
    let e = p.open(asked(0, 5)).err().unwrap().0;
    assert!(e.contains("cannot use 5 transmit queues"), "{e}");
}

#[test]
fn a_queue_held_by_another_socket_is_named() {
    let p = pair(1500, 2);
    let plan = Plan {
        index: p.net.link("x0").unwrap().index,
        queue: 1,
        rx: 64,
        tx: 64,
        chunk: 2048,
        busy_poll: None,
    };
    let tie = Tie {
        zero_copy: false,
        multi: false,
    };
    let other = p.near.run(|| socket::open(&plan, tie)).unwrap();
    assert!(other.is_ok());
    let mut device = p.open(AfXdpConfig::default()).unwrap();
    let e = device.queues(1, 1).unwrap_err().0;
    assert!(
        e.contains("queue 1 of interface \"x0\"") && e.contains("another AF_XDP socket"),
        "{e}"
    );
    drop(device);
    assert_eq!(p.net.link("x0").unwrap().xdp_program, 0);
}

#[test]
fn the_interface_is_given_back_as_it_was_found() {
    let p = pair(1500, 1);
    p.net.set_down("x0").unwrap();
    let before = p.net.link("x0").unwrap();
    let mut device = p.open(AfXdpConfig::default()).unwrap();
    let queues = device.queues(1, 1).unwrap();
    device.set_admin(true).unwrap();
    device.set_max_frame(4014).unwrap();
    device.set_promiscuous(true).unwrap();
    let during = p.net.link("x0").unwrap();
    assert!(during.is_up() && during.mtu == 4000 && during.xdp_program != 0);
    for (bytes, why) in [(JUMBO_FRAME + 1, "82 to 9230"), (60, "82 to 9230")] {
        let e = device.set_max_frame(bytes).unwrap_err().0;
        assert!(e.contains(why), "{e}");
    }
    drop(queues);
    drop(device);
    let after = p.net.link("x0").unwrap();
    assert_eq!(
        (
            after.mtu,
            after.is_up(),
            after.is_promisc(),
            after.xdp_program
        ),
        (before.mtu, false, false, 0)
    );
}

#[test]
fn without_several_buffers_the_limit_is_a_chunk() {
    for (frame, chunk) in [(1514, 2048), (1784, 2048), (1785, 4096), (9014, 4096)] {
        assert_eq!(chunk_for(frame), chunk, "{frame}");
    }
    let e = error::too_long("eth0", 9000, 3818, "here").0;
    assert!(
        e.contains("MTU 9000") && e.contains("ip link set dev eth0 mtu 3818"),
        "{e}"
    );
}

#[test]
fn every_refusal_of_the_kernel_has_its_words() {
    let plan = Plan {
        index: 1,
        queue: 3,
        rx: 2048,
        tx: 1024,
        chunk: 4096,
        busy_poll: None,
    };
    let words = |step, errno, zero_copy| error::explain((step, errno), "eth0", &plan, zero_copy).0;
    for (step, errno, zero_copy, expected) in [
        (
            Step::Socket,
            Errno::EAFNOSUPPORT,
            false,
            "CONFIG_XDP_SOCKETS",
        ),
        (Step::Socket, Errno::EPERM, false, "CAP_NET_RAW"),
        (
            Step::Register,
            Errno::ENOBUFS,
            false,
            "one queue needs 20480 KiB",
        ),
        (Step::Register, Errno::ENOBUFS, false, "CAP_IPC_LOCK"),
        (Step::BusyPoll, Errno::ENOPROTOOPT, false, "Linux 5.11"),
        (Step::BusyPoll, Errno::EPERM, false, "CAP_NET_ADMIN"),
        (
            Step::Bind,
            Errno::EBUSY,
            false,
            "another AF_XDP socket holds this queue",
        ),
        (
            Step::Bind,
            Errno::EINVAL,
            false,
            "the interface has no queue 3",
        ),
        (Step::Bind, Errno::EOPNOTSUPP, true, "no zero-copy"),
        (Step::Bind, Errno::ENODEV, false, "went away"),
    ] {
        let said = words(step, errno, zero_copy);
        assert!(
            said.contains(expected) && said.contains("\"eth0\""),
            "{said}"
        );
    }
    for (errno, mode, expected) in [
        (
            Errno::EBUSY,
            XdpMode::Native,
            "ip link set dev eth0 xdp off",
        ),
        (Errno::EEXIST, XdpMode::Generic, "another XDP program"),
        (Errno::EOPNOTSUPP, XdpMode::Native, "its driver has no XDP"),
        (Errno::ERANGE, XdpMode::Native, "lower the MTU"),
        (Errno::EINVAL, XdpMode::Generic, "Linux 5.9"),
    ] {
        let said = program::refused(Some(errno), "eth0", mode).0;
        assert!(said.contains(expected), "{said}");
    }
}
