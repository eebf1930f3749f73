//! Interfaces of one process connected to each other, and to peers that misbehave.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parshall_buffer::{Frame, Pool};
use parshall_device::{Device, Queues, TxBurst};
use proptest::prelude::*;

use super::channel::{Channel, Incoming, Listener};
use super::message::{AddRegion, AddRing, Init, MODE_ETHERNET, Message, Text, VERSION};
use super::region::Region;
use super::ring::{Filled, Ring};
use super::{Hub, Memif, MemifConfig, Role};

/// Waits up to 10 s for something that the control thread does in its own time.
fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..10_000 {
        if done() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("no {what} after 10 s");
}

/// One end: an interface with its queues, and a pool as its worker has one.
struct End {
    memif: Memif,
    queues: Queues,
    pool: Pool,
    before: usize,
}

impl End {
    fn new(hub: &Hub, config: MemifConfig, workers: usize) -> End {
        let mut memif = Memif::open(hub, config).unwrap();
        let queues = memif.queues(7, workers).unwrap();
        memif.set_admin(true).unwrap();
        let pool = Pool::new(2048).unwrap();
        End {
            memif,
            queues,
            before: pool.available(),
            pool,
        }
    }

    fn wait_up(&self) {
        wait_for("connection", || self.memif.info().link_up);
    }

    /// Sends packets through a worker's queue.
    fn send(&mut self, queue: usize, packets: &[Vec<u8>]) -> TxBurst {
        let pool = &mut self.pool;
        let made: Vec<_> = packets
            .iter()
            .map(|p| pool.packet_from(p, 0).unwrap())
            .collect();
        let burst = self.queues.tx[queue].transmit(pool, &made, 0);
        pool.free_bulk(&made[burst.taken..]);
        burst
    }

    /// Takes what waits in a queue.
    fn take(&mut self, queue: usize) -> (Vec<Vec<u8>>, u64) {
        let mut frame = Frame::default();
        let burst = self.queues.rx[queue].poll(&mut self.pool, &mut frame, 0);
        let packets = frame.packets();
        let bytes: Vec<_> = packets.iter().map(|&b| self.pool.to_vec(b)).collect();
        for &b in packets {
            let m = *self.pool.meta(b);
            assert_eq!((m.rx_if, m.reason, m.dpo), (7, 0, 0));
        }
        assert_eq!(
            burst.bytes,
            bytes.iter().map(|b| b.len() as u64).sum::<u64>()
        );
        self.pool.free_bulk(packets);
        (bytes, burst.errors)
    }
}

impl Drop for End {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_eq!(self.pool.available(), self.before, "buffers leaked");
        }
    }
}

fn socket(dir: &tempfile::TempDir) -> String {
    dir.path().join("memif.sock").display().to_string()
}

fn config(socket: &str, role: Role) -> MemifConfig {
    MemifConfig {
        ring_size: 64,
        ..MemifConfig::new("memif0/0", socket, 0, role)
    }
}

/// A master and a slave that are connected.
fn ends(change: impl Fn(MemifConfig) -> MemifConfig) -> (tempfile::TempDir, Hub, [End; 2]) {
    let dir = tempfile::tempdir().unwrap();
    let hub = Hub::start().unwrap();
    let path = socket(&dir);
    let workers = change(config(&path, Role::Master)).tx_queues;
    let pair = [Role::Master, Role::Slave]
        .map(|role| End::new(&hub, change(config(&path, role)), workers));
    pair.iter().for_each(End::wait_up);
    (dir, hub, pair)
}

/// A packet of `len` bytes that differs from others.
fn packet(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + seed * 13 + len) as u8).collect()
}

#[test]
fn packets_of_all_lengths_go_both_ways_in_order() {
    let (_dir, _hub, mut pair) = ends(|c| c);
    let lengths = [
        14, 15, 60, 64, 65, 100, 1500, 2048, 2049, 2176, 2177, 4096, 9014, 65_549,
    ];
    for direction in 0..2 {
        for round in 0..20 {
            let packets: Vec<_> = lengths.iter().map(|&l| packet(l, round)).collect();
            for chunk in packets.chunks(13) {
                let (from, to) = (direction, 1 - direction);
                assert_eq!(pair[from].send(0, chunk), TxBurst::all(chunk.len()));
                assert_eq!(pair[to].take(0), (chunk.to_vec(), 0));
            }
        }
    }
}

#[test]
fn a_full_ring_refuses_the_rest_and_goes_on_when_there_is_room() {
    let (_dir, _hub, mut pair) = ends(|c| c);
    for direction in 0..2 {
        let (from, to) = (direction, 1 - direction);
        // Indices wrap at 65,536: go round more than once.
        for round in 0..1100 {
            let packets: Vec<_> = (0..70).map(|i| packet(60, i + round)).collect();
            let burst = pair[from].send(0, &packets);
            assert_eq!((burst.taken, burst.errors), (64, 0));
            let (got, errors) = pair[to].take(0);
            assert_eq!((got.as_slice(), errors), (&packets[..64], 0));
        }
        // A packet that needs two places does not fit into one.
        let small: Vec<_> = (0..63).map(|i| packet(60, i)).collect();
        assert_eq!(pair[from].send(0, &small).taken, 63);
        assert_eq!(pair[from].send(0, &[packet(3000, 0)]).taken, 0);
        assert_eq!(pair[from].send(0, &[packet(60, 0)]).taken, 1);
        assert_eq!(pair[to].take(0).0.len(), 64);
    }
}

#[test]
fn a_packet_longer_than_the_whole_ring_is_an_error_not_a_jam() {
    let (_dir, _hub, mut pair) = ends(|c| MemifConfig {
        ring_size: 4,
        buffer_size: 64,
        ..c
    });
    for direction in 0..2 {
        let (from, to) = (direction, 1 - direction);
        let burst = pair[from].send(0, &[packet(257, 0), packet(256, 1)]);
        assert_eq!((burst.taken, burst.errors), (2, 1));
        assert_eq!(pair[to].take(0), (vec![packet(256, 1)], 0));
    }
}

#[test]
fn several_queues_and_shared_ones() {
    let (_dir, _hub, mut pair) = ends(|c| MemifConfig {
        rx_queues: 3,
        tx_queues: 3,
        ..c
    });
    for direction in 0..2 {
        let (from, to) = (direction, 1 - direction);
        for queue in 0..3 {
            let sent = vec![packet(60, queue)];
            assert_eq!(pair[from].send(queue, &sent), TxBurst::all(1));
            for other in 0..3 {
                let expected = if other == queue { sent.clone() } else { vec![] };
                assert_eq!(pair[to].take(other).0, expected);
            }
        }
    }
    // Three queues, but the peer has one ring.
    let dir = tempfile::tempdir().unwrap();
    let hub = Hub::start().unwrap();
    let path = socket(&dir);
    let three = MemifConfig {
        tx_queues: 3,
        ..config(&path, Role::Master)
    };
    let mut master = End::new(&hub, three, 5);
    assert_eq!(master.queues.tx.len(), 3);
    let mut slave = End::new(&hub, config(&path, Role::Slave), 1);
    slave.wait_up();
    for queue in 0..3 {
        assert_eq!(master.send(queue, &[packet(60, queue)]).taken, 1);
    }
    assert_eq!(slave.take(0).0.len(), 3);
}

#[test]
fn without_a_connection_packets_are_refused_and_freed() {
    let dir = tempfile::tempdir().unwrap();
    let hub = Hub::start().unwrap();
    let mut slave = End::new(&hub, config(&socket(&dir), Role::Slave), 1);
    let burst = slave.send(0, &[packet(60, 0), packet(3000, 0)]);
    assert_eq!((burst.taken, burst.errors), (2, 2));
    assert_eq!(slave.take(0), (vec![], 0));
    assert!(!slave.memif.info().link_up);
}

#[test]
fn connections_come_back_whoever_goes() {
    let (_dir, hub, mut pair) = ends(|c| c);
    for round in 0..4 {
        let (goes, stays) = (round % 2, 1 - round % 2);
        pair[goes].memif.set_admin(false).unwrap();
        wait_for("end", || !pair[stays].memif.info().link_up);
        pair[goes].memif.set_admin(true).unwrap();
        pair.iter().for_each(End::wait_up);
        assert_eq!(pair[0].send(0, &[packet(60, 1)]).taken, 1);
        assert_eq!(pair[1].take(0).0, [packet(60, 1)]);
    }
    let report = pair[0].memif.report();
    assert_eq!((report.connects, report.connected), (5, true));
    assert!(report.peer_name.starts_with("Parshall "));
    assert_eq!(report.rings.len(), 2);
    let [master, slave] = pair;
    // The interface goes for good; another of its name comes.
    drop(master);
    wait_for("end", || !slave.memif.info().link_up);
    let told = slave.memif.report().last_end;
    assert_eq!(told.as_deref(), Some("peer: interface deleted"));
    let path = slave.memif.link.config.socket.clone();
    let master = End::new(&hub, config(&path, Role::Master), 1);
    slave.wait_up();
    drop(slave);
    drop(master);
}

#[test]
fn a_sleeper_is_woken_and_a_poller_is_left_alone() {
    let (_dir, _hub, mut pair) = ends(|c| c);
    for direction in 0..2 {
        let (from, to) = (direction, 1 - direction);
        let masked = |pair: &[End; 2]| {
            let rings = pair[to].memif.report().rings;
            rings.iter().any(|r| r.receive && !r.interrupts)
        };
        let readable = |pair: &[End; 2]| {
            let fd = pair[to].queues.rx[0].fd().unwrap();
            let mut p = libc::pollfd {
                fd,
                events: libc::POLLIN,
                revents: 0,
            };
            // SAFETY: one descriptor in a local.
            unsafe { libc::poll(&raw mut p, 1, 0) == 1 }
        };
        for _ in 0..3 {
            assert_eq!(pair[to].queues.rx[0].due(5), None);
            assert!(!masked(&pair) && !readable(&pair));
            assert_eq!(pair[from].send(0, &[packet(60, 0)]).taken, 1);
            assert!(readable(&pair));
            assert_eq!(pair[to].take(0).0.len(), 1);
            assert!(masked(&pair));
            // Awake: no signal.
            assert_eq!(pair[to].queues.rx[0].due(5), None);
            assert_eq!(pair[from].send(0, &[packet(60, 0)]).taken, 1);
            assert_eq!(pair[to].take(0).0.len(), 1);
            assert_eq!(pair[from].send(0, &[packet(60, 0)]).taken, 1);
            // Packets that came while awake keep it from sleeping.
            assert_eq!(pair[to].queues.rx[0].due(5), Some(5));
            assert!(!readable(&pair));
            assert_eq!(pair[to].take(0).0.len(), 1);
        }
    }
}

#[test]
fn several_interfaces_share_a_socket_and_secrets_are_checked() {
    let dir = tempfile::tempdir().unwrap();
    let hub = Hub::start().unwrap();
    let path = socket(&dir);
    let with = |role, id, secret: Option<&str>| MemifConfig {
        id,
        secret: secret.map(Into::into),
        ..config(&path, role)
    };
    let masters = [(0, None), (1, Some("swordfish")), (2, Some("swordfish"))]
        .map(|(id, secret)| End::new(&hub, with(Role::Master, id, secret), 1));
    let e = Memif::open(&hub, with(Role::Master, 1, None)).unwrap_err();
    assert!(e.0.contains("has id 1 on socket"), "{e}");
    let good = [(0, None), (1, Some("swordfish"))]
        .map(|(id, secret)| End::new(&hub, with(Role::Slave, id, secret), 1));
    good.iter().for_each(End::wait_up);
    let second = End::new(&Hub::start().unwrap(), with(Role::Slave, 0, None), 1);
    let wrong = [
        (2, Some("swordfisj"), "peer: incorrect secret"),
        (3, None, "peer: ID not found"),
    ];
    let wrong =
        wrong.map(|(id, secret, why)| (End::new(&hub, with(Role::Slave, id, secret), 1), why));
    for (slave, why) in wrong.iter().chain([&(second, "peer: already connected")]) {
        let said = || slave.memif.report().last_end;
        wait_for(why, || said().as_deref() == Some(why));
    }
    assert!(masters[0].memif.info().link_up && !masters[2].memif.info().link_up);
}

#[test]
fn configurations_out_of_range_are_refused() {
    let base = config("/tmp/x", Role::Slave);
    for wrong in [
        MemifConfig {
            ring_size: 0,
            ..base.clone()
        },
        MemifConfig {
            ring_size: 1000,
            ..base.clone()
        },
        MemifConfig {
            ring_size: 32_768,
            ..base.clone()
        },
        MemifConfig {
            buffer_size: 63,
            ..base.clone()
        },
        MemifConfig {
            rx_queues: 0,
            ..base.clone()
        },
        MemifConfig {
            tx_queues: 65,
            ..base.clone()
        },
        MemifConfig {
            socket: String::new(),
            ..base.clone()
        },
        MemifConfig {
            socket: "x".repeat(108),
            ..base.clone()
        },
        MemifConfig {
            secret: Some("x".repeat(24)),
            ..base.clone()
        },
    ] {
        assert!(wrong.check().is_err(), "{wrong:?}");
    }
    assert!(base.check().is_ok());
}

/// A slave under the test's control: its memory, and what it says.
struct Rogue {
    channel: Channel,
    region: Region,
    memory: OwnedFd,
}

const ROGUE_LOG2: u8 = 3;
const ROGUE_BYTES: usize = 16 << 10;

impl Rogue {
    fn new(path: &str) -> Rogue {
        let channel = Channel::connect(path).unwrap();
        let (region, memory) = Region::make(ROGUE_BYTES).unwrap();
        let mut rogue = Rogue {
            channel,
            region,
            memory,
        };
        assert!(matches!(rogue.hear(), Some(Message::Hello(_))));
        rogue
    }

    /// The next message; `None` when the peer is gone.
    fn hear(&mut self) -> Option<Message> {
        let mut got = None;
        wait_for("answer", || match self.channel.receive() {
            Ok(Incoming::Nothing) => false,
            Ok(Incoming::Message(m, _)) => {
                got = Some(m);
                true
            }
            Ok(Incoming::Closed) | Err(_) => true,
        });
        got
    }

    fn say(&mut self, message: Message, fd: Option<&OwnedFd>) -> Option<Message> {
        self.channel.send(&message, fd.map(AsFd::as_fd)).ok()?;
        self.hear()
    }

    fn init(&mut self) -> Option<Message> {
        let init = Init {
            version: VERSION,
            id: 0,
            mode: MODE_ETHERNET,
            secret: Text::new(""),
            name: Text::new("rogue"),
        };
        self.say(Message::Init(init), None)
    }

    fn ring_spec(flags: u16) -> AddRing {
        AddRing {
            flags,
            index: 0,
            region: 0,
            offset: u32::from(flags) * 512,
            log2_ring_size: ROGUE_LOG2,
            private_hdr_size: 0,
        }
    }

    /// Goes all the way to a connection with one ring each way.
    fn connect(&mut self) -> [Ring; 2] {
        assert_eq!(self.init(), Some(Message::Ack));
        let size = ROGUE_BYTES as u64;
        let memory = self.memory.try_clone().unwrap();
        let region = Message::AddRegion(AddRegion { index: 0, size });
        assert_eq!(self.say(region, Some(&memory)), Some(Message::Ack));
        let regions = Region::map(&self.memory, size).unwrap();
        let regions = Arc::new(vec![regions]);
        let rings = [1, 0].map(|flags| {
            let spec = Rogue::ring_spec(flags);
            let ring = Ring::new(&regions, &spec).unwrap();
            ring.clear();
            let bell = super::session::eventfd().unwrap();
            assert_eq!(
                self.say(Message::AddRing(spec), Some(&bell)),
                Some(Message::Ack)
            );
            ring
        });
        let connected = self.say(Message::Connect(Text::new("r0")), None);
        assert!(matches!(connected, Some(Message::Connected(_))));
        rings
    }
}

#[test]
fn messages_out_of_order_or_out_of_range_end_the_greeting() {
    let dir = tempfile::tempdir().unwrap();
    let hub = Hub::start().unwrap();
    let path = socket(&dir);
    let master = End::new(&hub, config(&path, Role::Master), 1);
    let region = |index, size| Message::AddRegion(AddRegion { index, size });
    let ring = |f: fn(&mut AddRing)| {
        let mut spec = Rogue::ring_spec(1);
        f(&mut spec);
        Message::AddRing(spec)
    };
    let memory = Region::make(4096).unwrap().1;
    let bell = super::session::eventfd().unwrap();
    let null: OwnedFd = std::fs::File::open("/dev/null").unwrap().into();
    let cases: Vec<(Message, Option<&OwnedFd>, &str)> = vec![
        (Message::Ack, None, "unexpected ACK message"),
        (
            Message::Connected(Text::new("x")),
            None,
            "unexpected CONNECTED",
        ),
        (region(0, 4096), None, "region without a descriptor"),
        (region(1, 4096), Some(&memory), "region index out of order"),
        (region(0, 0), Some(&memory), "a region of 0 bytes"),
        (
            region(0, 1 << 40),
            Some(&memory),
            "a region of 1099511627776 bytes",
        ),
        (region(0, 4096), Some(&null), "no file in memory"),
        (ring(|_| ()), None, "ring without a descriptor"),
        (
            ring(|r| r.index = 1),
            Some(&bell),
            "ring index out of order",
        ),
        (
            ring(|r| r.private_hdr_size = 1),
            Some(&bell),
            "private headers",
        ),
        (ring(|_| ()), Some(&null), "no eventfd"),
        (
            Message::Disconnect {
                code: 0,
                reason: Text::new("bye"),
            },
            None,
            "",
        ),
    ];
    for (message, fd, why) in cases {
        let mut rogue = Rogue::new(&path);
        wait_for("turn", || {
            let mut next = Rogue::new(&path);
            let ok = next.init() == Some(Message::Ack);
            if ok {
                rogue = next;
            }
            ok
        });
        match rogue.say(message, fd) {
            Some(Message::Disconnect { reason, .. }) => {
                assert!(reason.to_string().contains(why), "{message:?}: {reason}");
            }
            other => assert!(why.is_empty() && other.is_none(), "{message:?}: {other:?}"),
        }
        assert_eq!(rogue.hear(), None, "{message:?}");
    }
    // A ring that lies nowhere shows when it is to be used.
    let mut rogue = Rogue::new(&path);
    wait_for("turn", || {
        rogue = Rogue::new(&path);
        rogue.init() == Some(Message::Ack)
    });
    let memory = rogue.memory.try_clone().unwrap();
    assert_eq!(
        rogue.say(region(0, 4096), Some(&memory)),
        Some(Message::Ack)
    );
    let far = ring(|r| r.offset = 4000);
    assert_eq!(rogue.say(far, Some(&bell)), Some(Message::Ack));
    let said = rogue.say(Message::Connect(Text::new("x")), None);
    assert_eq!(
        said,
        Some(Message::disconnect("ring outside of its region"))
    );
    assert!(!master.memif.info().link_up);
}

#[test]
fn a_slave_that_says_nothing_does_not_keep_others_out() {
    let dir = tempfile::tempdir().unwrap();
    let hub = Hub::start().unwrap();
    let path = socket(&dir);
    let master = End::new(&hub, config(&path, Role::Master), 1);
    let _silent: Vec<_> = (0..60).map(|_| Rogue::new(&path)).collect();
    let slave = End::new(&hub, config(&path, Role::Slave), 1);
    slave.wait_up();
    drop(master);
}

#[test]
fn bad_descriptors_cost_their_packet_and_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let hub = Hub::start().unwrap();
    let path = socket(&dir);
    let mut master = End::new(&hub, config(&path, Role::Master), 1);
    let mut rogue = Rogue::new(&path);
    let [ring, _] = rogue.connect();
    master.wait_up();
    let lay = |i, flags, region, length, offset| {
        let filled = Filled {
            flags,
            region,
            length,
        };
        ring.lay(i, filled, offset);
    };
    lay(0, 0, 0, 60, 4096);
    lay(1, 0, 1, 60, 4096);
    lay(2, 0, 0, 60, ROGUE_BYTES as u32 - 59);
    lay(3, 0, 0, u32::MAX, u32::MAX);
    lay(4, 0, 0, 13, 4096);
    lay(5, 1, 0, 60, 4096);
    lay(6, 0, 0, 60, ROGUE_BYTES as u32 - 60);
    lay(7, 1, 0, 60, 4096);
    ring.head().store(8, Ordering::Release);
    let (packets, errors) = master.take(0);
    assert_eq!(packets.iter().map(Vec::len).collect::<Vec<_>>(), [60, 120]);
    assert_eq!(errors, 5);
    let report = master.memif.report();
    assert_eq!(
        (report.bad_buffer, report.too_short, report.bad_chain),
        (3, 1, 1)
    );
    assert!(report.connected);
    assert_eq!(ring.tail().load(Ordering::Acquire), 8);
}

#[test]
fn impossible_indices_and_buffers_end_the_connection() {
    let dir = tempfile::tempdir().unwrap();
    let hub = Hub::start().unwrap();
    let path = socket(&dir);
    let mut master = End::new(&hub, config(&path, Role::Master), 1);
    for case in 0..3 {
        let mut rogue = Rogue::new(&path);
        let [to_master, to_slave] = rogue.connect();
        master.wait_up();
        let (why, taken) = match case {
            0 => {
                to_master.head().store(9, Ordering::Release);
                assert_eq!(master.take(0), (vec![], 0));
                ("ring index out of range", 0)
            }
            1 => {
                to_slave.head().store(9, Ordering::Release);
                ("ring index out of range", 0)
            }
            _ => {
                for i in 0..8 {
                    let filled = Filled {
                        flags: 0,
                        region: 0,
                        length: 2048,
                    };
                    to_slave.lay(i, filled, if i == 3 { u32::MAX } else { 8192 });
                }
                to_slave.head().store(8, Ordering::Release);
                ("buffer outside of its region", 3)
            }
        };
        let sent = vec![packet(60, 0); 5];
        let burst = master.send(0, &sent);
        // The control thread may have been faster: then there is no ring any more.
        assert!(burst.taken == taken || burst.errors == 5, "{burst:?}");
        assert_eq!(rogue.hear(), Some(Message::disconnect(why)));
        wait_for("end", || !master.memif.info().link_up);
    }
}

/// What a rogue does between the master's bursts: bytes written anywhere into its memory, and indices.
#[derive(Clone, Debug)]
enum Mischief {
    Byte(usize, u8),
    Word(usize, u64),
    Head(bool, u16),
    Tail(bool, u16),
}

fn mischief() -> impl Strategy<Value = Mischief> {
    prop_oneof![
        (0..1100usize, any::<u8>()).prop_map(|(a, b)| Mischief::Byte(a, b)),
        (0..130usize, any::<u64>()).prop_map(|(a, w)| Mischief::Word(a, w)),
        // Descriptors that are nearly right.
        (0..130usize, 0u64..2, 0u64..3, 0u64..200)
            .prop_map(|(a, f, r, l)| Mischief::Word(a, f | r << 16 | l << 32)),
        (any::<bool>(), 0..12u16).prop_map(|(r, n)| Mischief::Head(r, n)),
        (any::<bool>(), 0..12u16).prop_map(|(r, n)| Mischief::Tail(r, n)),
    ]
}

/// Does mischief to the first 1100 bytes of a region, where the rings are.
fn commit(region: &Region, what: &Mischief, rings: &[Ring]) {
    match *what {
        Mischief::Byte(at, b) => {
            let p = region.span(at as u32, 1).unwrap();
            // SAFETY: inside the region.
            unsafe { p.write_volatile(b) };
        }
        Mischief::Word(at, w) => {
            let p = region.span(at as u32 * 8, 8).unwrap();
            // SAFETY: inside the region and aligned.
            unsafe { p.cast::<u64>().write_volatile(w) };
        }
        Mischief::Head(r, n) => {
            rings[usize::from(r)].head().fetch_add(n, Ordering::AcqRel);
        }
        Mischief::Tail(r, n) => {
            rings[usize::from(r)].tail().fetch_add(n, Ordering::AcqRel);
        }
    }
}

/// The worker's side under mischief: polls, sends, sleeps; no panic, and no buffer is lost.
fn endure(end: &mut End, region: &Region, rings: &[Ring], acts: &[Mischief]) {
    for (i, act) in acts.iter().enumerate() {
        commit(region, act, rings);
        let (packets, _) = end.take(0);
        assert!(packets.iter().all(|p| p.len() >= 14));
        let len = [60, 64, 300, 3000][i % 4];
        end.send(0, &vec![packet(len, i); i % 5]);
        end.queues.rx[0].due(1);
        assert_eq!(end.pool.available(), end.before);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_master_endures_any_mischief_of_its_slave(acts in prop::collection::vec(mischief(), 1..60)) {
        let dir = tempfile::tempdir().unwrap();
        let hub = Hub::start().unwrap();
        let path = socket(&dir);
        let mut master = End::new(&hub, config(&path, Role::Master), 1);
        let mut rogue = Rogue::new(&path);
        let rings = rogue.connect();
        master.wait_up();
        endure(&mut master, &rogue.region, &rings, &acts);
    }

    #[test]
    fn a_slave_endures_any_mischief_of_its_master(acts in prop::collection::vec(mischief(), 1..60)) {
        let dir = tempfile::tempdir().unwrap();
        let hub = Hub::start().unwrap();
        let path = socket(&dir);
        let listener = Listener::bind(&path).unwrap();
        let small = MemifConfig { ring_size: 8, ..config(&path, Role::Slave) };
        let mut slave = End::new(&hub, small, 1);
        let (region, rings) = master_for(&listener);
        slave.wait_up();
        endure(&mut slave, &region, &rings, &acts);
    }
}

/// Plays the master for a slave that comes, up to the connection.
fn master_for(listener: &Listener) -> (Region, Vec<Ring>) {
    let mut channel = None;
    wait_for("slave", || {
        channel = listener.accept();
        channel.is_some()
    });
    let channel = channel.unwrap();
    let (_, hello) = super::session::Session::master();
    channel.send(&hello, None).unwrap();
    let (mut memory, mut specs, mut done) = (None, Vec::new(), false);
    while !done {
        wait_for("message", || match channel.receive().unwrap() {
            Incoming::Nothing => false,
            Incoming::Closed => panic!("the slave is gone"),
            Incoming::Message(m, fd) => {
                let mut answer = Message::Ack;
                match m {
                    Message::AddRegion(r) => memory = Some((r.size, fd.unwrap())),
                    Message::AddRing(r) => specs.push(r),
                    Message::Connect(_) => {
                        answer = Message::Connected(Text::new("m0"));
                        done = true;
                    }
                    _ => {}
                }
                channel.send(&answer, None).unwrap();
                true
            }
        });
    }
    // The channel stays open as long as the test: the slave would reconnect otherwise.
    std::mem::forget(channel);
    let (size, fd) = memory.unwrap();
    let regions = Arc::new(vec![Region::map(&fd, size).unwrap()]);
    let rings = specs.iter().map(|s| Ring::new(&regions, s).unwrap());
    let rings: Vec<_> = rings.collect();
    assert!(rings.iter().all(|r| r.is_marked() && r.size() == 8));
    (Region::map(&fd, size).unwrap(), rings)
}

#[test]
fn memory_that_is_taken_away_ends_the_connection_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let hub = Hub::start().unwrap();
    let path = socket(&dir);
    let mut master = End::new(&hub, config(&path, Role::Master), 1);
    let mut rogue = Rogue::new(&path);
    // SAFETY: the name is a C string; nobody else knows the descriptor.
    let raw = unsafe { libc::memfd_create(c"cut".as_ptr(), libc::MFD_CLOEXEC) };
    assert!(raw >= 0);
    // SAFETY: as above.
    rogue.memory = unsafe { std::os::fd::FromRawFd::from_raw_fd(raw) };
    let file = std::fs::File::from(rogue.memory.try_clone().unwrap());
    file.set_len(ROGUE_BYTES as u64).unwrap();
    let [ring, _] = rogue.connect();
    master.wait_up();
    ring.lay(
        0,
        Filled {
            flags: 0,
            region: 0,
            length: 60,
        },
        8192,
    );
    ring.head().store(1, Ordering::Release);
    file.set_len(4096).unwrap();
    let (packets, errors) = master.take(0);
    assert_eq!((packets, errors), (vec![vec![0; 60]], 0));
    wait_for("end", || !master.memif.info().link_up);
    assert_eq!(
        master.memif.report().last_end.as_deref(),
        Some("shared memory was taken away")
    );
}
