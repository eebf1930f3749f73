//! Interfaces of one process connected to each other.

use super::*;

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
