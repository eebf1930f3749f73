//! Collectors in network namespaces, over real interfaces: namespaces and devices that go and come, hosts that are silent,
//! buffers that are full, and that no other collector feels it.

use std::io::IoSliceMut;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt};
use parshall_linux::{IpPrefix, Net, NetNs, ScopedNetNs, VethEnd};

use super::{Transport, UdpTransport};
use crate::collector_config::CollectorConfig;
use crate::status::{CollectorState, CollectorStatus, Loss};

const SECOND: u64 = 1_000_000_000;

/// A name that no other test has.
fn unique() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("prsh-col-{}-{n}", std::process::id())
}

fn prefix(text: &str) -> IpPrefix {
    let (a, l) = text.split_once('/').unwrap();
    IpPrefix::new(a.parse::<std::net::IpAddr>().unwrap(), l.parse().unwrap()).unwrap()
}

/// Two interfaces, `v0` in `near` and `v1` in `far`, with 10.9.0.1, 10.9.0.2, fd09::1 and fd09::2.
fn link(near: &NetNs, far: &NetNs) {
    let net = Net::in_ns(near).unwrap();
    net.create_veth(&VethEnd::new("v0"), &VethEnd::new("v1").ns(far))
        .unwrap();
    for (ns, dev, host) in [(near, "v0", 1), (far, "v1", 2)] {
        let net = Net::in_ns(ns).unwrap();
        // Without duplicate address detection an address can be used at once.
        ns.set_sysctl(&format!("net.ipv6.conf.{dev}.accept_dad"), "0")
            .unwrap();
        net.set_up("lo").unwrap();
        net.set_up(dev).unwrap();
        net.add_addr(dev, prefix(&format!("10.9.0.{host}/24")))
            .unwrap();
        net.add_addr(dev, prefix(&format!("fd09::{host}/64")))
            .unwrap();
    }
}

/// A collector in `ns`.
fn listener(ns: &NetNs, address: &str) -> UdpSocket {
    let address: SocketAddr = address.parse().unwrap();
    let s = ns.run(|| UdpSocket::bind(address).unwrap()).unwrap();
    s.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    s
}

fn here() -> UdpSocket {
    listener(&NetNs::current().unwrap(), "127.0.0.1:0")
}

fn collector(to: &UdpSocket, ns: &str) -> CollectorConfig {
    let mut c = CollectorConfig::from(to.local_addr().unwrap());
    c.namespace = Some(ns.to_owned());
    c
}

fn receive(s: &UdpSocket) -> Vec<u8> {
    let mut buf = [0; 2048];
    let n = s.recv(&mut buf).unwrap();
    buf[..n].to_vec()
}

fn state(t: &UdpTransport, now: u64) -> (CollectorState, Option<Loss>) {
    let s = &t.status(now)[0];
    (s.state, s.trouble)
}

/// Sends a datagram and again, until the first collector's status is as wanted. The time of the transport goes on by as
/// little as the time of the world.
fn until(
    t: &mut UdpTransport,
    now: &mut u64,
    wanted: impl Fn(&CollectorStatus) -> bool,
) -> CollectorStatus {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let s = t.status(*now).swap_remove(0);
        if wanted(&s) {
            return s;
        }
        assert!(Instant::now() < end, "{s:?}");
        std::thread::sleep(Duration::from_millis(20));
        *now += SECOND / 50;
        t.tick(*now);
        t.send(*now, &[b"try"]);
    }
}

#[test]
fn datagrams_leave_from_the_namespace_address_and_device_with_the_code_point() {
    let (near, far) = (
        ScopedNetNs::create(&unique()).unwrap(),
        NetNs::anonymous().unwrap(),
    );
    link(&near, &far);
    Net::in_ns(&near)
        .unwrap()
        .add_addr("v0", prefix("10.9.0.7/24"))
        .unwrap();
    let (four, six) = (listener(&far, "10.9.0.2:0"), listener(&far, "[fd09::2]:0"));
    setsockopt(&four, sockopt::IpRecvTos, &true).unwrap();
    setsockopt(&six, sockopt::Ipv6RecvTClass, &true).unwrap();
    let full = |to: &UdpSocket, source: &str| CollectorConfig {
        source: source.parse().ok(),
        device: Some("v0".into()),
        dscp: 46,
        ..collector(to, near.name())
    };
    let list = [full(&four, "10.9.0.7"), full(&six, "fd09::1")];
    let mut t = UdpTransport::new();
    t.set_collectors(SECOND, &list);
    t.send(SECOND, &[b"here"]);
    for s in t.status(SECOND) {
        assert_eq!(
            (s.state, s.sent, s.failed),
            (CollectorState::Up, 1, 0),
            "{s:?}"
        );
    }
    for (socket, from) in [(&four, "10.9.0.7"), (&six, "fd09::1")] {
        let (mut buf, mut control) = ([0; 64], nix::cmsg_space!(i32));
        let mut parts = [IoSliceMut::new(&mut buf)];
        let m = recvmsg::<nix::sys::socket::SockaddrStorage>(
            socket.as_raw_fd(),
            &mut parts,
            Some(&mut control),
            MsgFlags::empty(),
        )
        .unwrap();
        let field = match m.cmsgs().unwrap().next() {
            Some(ControlMessageOwned::Ipv4Tos(tos)) => i32::from(tos),
            Some(ControlMessageOwned::Ipv6TClass(class)) => class,
            other => panic!("{other:?}"),
        };
        assert_eq!(field >> 2, 46);
        let sender = m.address.unwrap();
        let ip = match (sender.as_sockaddr_in(), sender.as_sockaddr_in6()) {
            (Some(a), _) => a.ip().to_string(),
            (_, Some(a)) => a.ip().to_string(),
            _ => panic!("{sender:?}"),
        };
        assert_eq!(ip, from);
    }
}

#[test]
fn a_namespace_that_is_deleted_and_made_again_is_let_go_and_found_again() {
    let (name, far) = (unique(), NetNs::anonymous().unwrap());
    let near = ScopedNetNs::create(&name).unwrap();
    link(&near, &far);
    let (there, other) = (listener(&far, "10.9.0.2:0"), here());
    let list = [
        collector(&there, &name),
        CollectorConfig::from(other.local_addr().unwrap()),
    ];
    let mut t = UdpTransport::new();
    let mut now = SECOND;
    t.set_collectors(now, &list);
    t.send(now, &[b"one"]);
    assert_eq!(
        (receive(&there), receive(&other)),
        (b"one".to_vec(), b"one".to_vec())
    );

    // The name goes; the socket is all that holds the namespace.
    drop(near);
    now += 2 * SECOND;
    t.tick(now);
    t.send(now, &[b"two"]);
    assert_eq!(
        state(&t, now),
        (CollectorState::Waiting, Some(Loss::NamespaceGone))
    );
    let s = &t.status(now)[0];
    assert_eq!((s.sent, s.lost.namespace_gone, s.failed), (1, 1, 1));
    assert!(s.last_error.as_ref().unwrap().contains(&name), "{s:?}");
    assert!(s.next_retry_ms.is_some());
    assert_eq!(receive(&other), b"two");
    // With the namespace its interface went, and so the far end of the link.
    let gone = Instant::now() + Duration::from_secs(20);
    while Net::in_ns(&far).unwrap().link("v1").is_ok() {
        assert!(Instant::now() < gone, "the namespace is still held");
        std::thread::sleep(Duration::from_millis(10));
    }

    // Retried while it is away, without harm to the other.
    for _ in 0..20 {
        now += SECOND;
        t.tick(now);
        t.send(now, &[b"more"]);
        assert_eq!(receive(&other), b"more");
    }
    assert_eq!(t.status(now)[0].lost.namespace_gone, 21);
    let near = ScopedNetNs::create(&name).unwrap();
    link(&near, &far);
    now += 10 * SECOND;
    t.tick(now);
    t.send(now, &[b"back"]);
    assert_eq!(receive(&there), b"back");
    assert_eq!(t.status(now)[0].state, CollectorState::Up);

    // Deleted and made again between two looks: the name is followed at once.
    drop(near);
    let near = ScopedNetNs::create(&name).unwrap();
    let far = NetNs::anonymous().unwrap();
    link(&near, &far);
    let there = listener(&far, &there.local_addr().unwrap().to_string());
    now += 2 * SECOND;
    t.tick(now);
    t.send(now, &[b"again"]);
    assert_eq!(receive(&there), b"again");
}

#[test]
fn a_namespace_may_come_later() {
    let (name, far) = (unique(), NetNs::anonymous().unwrap());
    let there = listener(&far, "0.0.0.0:0");
    let to = SocketAddr::new(
        "10.9.0.2".parse().unwrap(),
        there.local_addr().unwrap().port(),
    );
    let mut c = CollectorConfig::from(to);
    c.namespace = Some(name.clone());
    let mut t = UdpTransport::new();
    t.set_collectors(SECOND, &[c]);
    assert_eq!(
        state(&t, SECOND),
        (CollectorState::Waiting, Some(Loss::NamespaceGone))
    );
    let near = ScopedNetNs::create(&name).unwrap();
    link(&near, &far);
    let now = 20 * SECOND;
    t.tick(now);
    t.send(now, &[b"late"]);
    assert_eq!(receive(&there), b"late");
    // What it suffered from is over when it was well for a while.
    let now = 100 * SECOND;
    t.send(now, &[b"later"]);
    assert_eq!(state(&t, now), (CollectorState::Up, None));
    assert!(t.status(now)[0].last_error.is_some());
}

#[test]
fn a_device_that_goes_is_missed_and_used_again_when_it_is_back() {
    let (near, far) = (
        ScopedNetNs::create(&unique()).unwrap(),
        NetNs::anonymous().unwrap(),
    );
    link(&near, &far);
    let (there, other) = (listener(&far, "0.0.0.0:0"), here());
    let to = SocketAddr::new(
        "10.9.0.2".parse().unwrap(),
        there.local_addr().unwrap().port(),
    );
    let c = CollectorConfig {
        namespace: Some(near.name().to_owned()),
        device: Some("v0".into()),
        ..CollectorConfig::from(to)
    };
    let list = [c, CollectorConfig::from(other.local_addr().unwrap())];
    let mut t = UdpTransport::new();
    let mut now = SECOND;
    t.set_collectors(now, &list);
    t.send(now, &[b"one"]);
    assert_eq!(receive(&there), b"one");
    Net::in_ns(&near).unwrap().delete_link("v0").unwrap();
    let s = until(&mut t, &mut now, |s| s.state == CollectorState::Waiting);
    assert!(s.failed > 0 && s.trouble.is_some(), "{s:?}");
    // The next try finds what it is.
    now += 10 * SECOND;
    t.tick(now);
    assert_eq!(
        state(&t, now),
        (CollectorState::Waiting, Some(Loss::DeviceGone))
    );
    let s = &t.status(now)[0];
    assert!(s.last_error.as_ref().unwrap().contains("\"v0\""), "{s:?}");
    link(&near, &far);
    now += 10 * SECOND;
    t.tick(now);
    t.send(now, &[b"back"]);
    assert_eq!(receive(&there), b"back");
    let s = &t.status(now)[1];
    assert_eq!(
        (s.state, s.failed, s.last_error.clone()),
        (CollectorState::Up, 0, None)
    );
}

#[test]
fn a_silent_host_is_found_out_and_a_full_buffer_counted_and_the_other_collector_feels_neither() {
    let (near, far) = (
        ScopedNetNs::create(&unique()).unwrap(),
        NetNs::anonymous().unwrap(),
    );
    link(&near, &far);
    // Packets for a neighbour that does not answer wait in its queue; let that hold more than the socket may have out.
    near.set_sysctl("net.ipv4.neigh.v0.unres_qlen_bytes", "100000000")
        .unwrap();
    let mut c: CollectorConfig = "10.9.0.77:6343".parse().unwrap();
    c.namespace = Some(near.name().to_owned());
    let other = here();
    let list = [c, CollectorConfig::from(other.local_addr().unwrap())];
    let mut t = UdpTransport::new();
    let mut now = SECOND;
    t.set_collectors(now, &list);
    let large = [0u8; 1000];
    for i in 0..200u8 {
        t.send(now, &[&large[..]; 32]);
        // The other one is read, so that its own buffer is not what fills.
        for _ in 0..32 {
            assert_eq!(receive(&other).len(), 1000, "{i}");
        }
    }
    let s = &t.status(now)[0];
    assert_eq!(
        (s.state, s.trouble),
        (CollectorState::Up, Some(Loss::NoBuffer)),
        "{s:?}"
    );
    assert!(s.lost.no_buffer > 0 && s.sent > 0, "{s:?}");
    assert_eq!(s.sent + s.failed, 6400);
    assert!(
        s.last_error.as_ref().unwrap().contains("buffer full"),
        "{s:?}"
    );
    let s = &t.status(now)[1];
    assert_eq!((s.sent, s.failed, s.trouble), (6400, 0, None));

    // After a few seconds the kernel gives the neighbour up and says so.
    let s = until(&mut t, &mut now, |s| s.state == CollectorState::Waiting);
    assert_eq!(s.trouble, Some(Loss::Unreachable), "{s:?}");
    assert!(
        s.last_error.as_ref().unwrap().contains("No route to host"),
        "{s:?}"
    );
}

#[test]
fn a_limit_leaves_out_what_is_more_and_counts_it() {
    let (one, other) = (here(), here());
    let list = [
        CollectorConfig {
            datagrams_per_second: Some(10),
            ..CollectorConfig::from(one.local_addr().unwrap())
        },
        CollectorConfig::from(other.local_addr().unwrap()),
    ];
    let mut t = UdpTransport::new();
    t.set_collectors(SECOND, &list);
    let all: Vec<[u8; 1]> = (0..30u8).map(|i| [i]).collect();
    let slices: Vec<&[u8]> = all.iter().map(<[u8; 1]>::as_slice).collect();
    t.send(SECOND, &slices);
    t.send(SECOND + SECOND / 2, &[&[99]]);
    let status = t.status(SECOND);
    assert_eq!(
        (status[0].sent, status[0].lost.limited, status[0].failed),
        (11, 20, 20)
    );
    assert_eq!(status[0].trouble, Some(Loss::Limited));
    assert_eq!((status[1].sent, status[1].failed), (31, 0));
    let got: Vec<u8> = (0..11).map(|_| receive(&one)[0]).collect();
    assert_eq!(got, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 99]);
    assert_eq!(state(&t, 200 * SECOND).1, None);
}
