//! Peers that say what they must not, and write what they like into the memory they share.

use super::*;

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
            let bell = session::eventfd().unwrap();
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
    let bell = session::eventfd().unwrap();
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
    let (_, hello) = session::Session::master();
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
