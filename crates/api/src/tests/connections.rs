//! Events, and clients that do not behave.

use super::*;

#[test]
fn events_tell_of_state_and_deletion() {
    let world = World::new(|_| ());
    let (mut watcher, mut c) = (world.client(), world.client());
    let _: CreateLoopbackReply = c.ask(&CreateLoopback::default());
    let wanted: WantInterfaceEventsReply = watcher.ask(&WantInterfaceEvents {
        enable_disable: 1,
        pid: 1,
    });
    assert_eq!(wanted.retval, 0);
    // Until the router was looked at once there is nothing to compare with: so it is changed until it is told of.
    let mut up = false;
    watcher
        .stream
        .set_read_timeout(Some(Duration::from_millis(300)))
        .expect("set");
    let event = loop {
        up = !up;
        let flags = IfStatusFlags(u32::from(up));
        let _: SwInterfaceSetFlagsReply = c.ask(&SwInterfaceSetFlags {
            sw_if_index: 1,
            flags,
        });
        let mut piece = [0; 4096];
        if let Ok(n) = watcher.stream.read(&mut piece) {
            watcher.frames.push(&piece[..n]);
            break watcher.next::<SwInterfaceEvent>().1;
        }
    };
    assert_eq!((event.sw_if_index, event.deleted), (1, false));
    watcher
        .stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .expect("set");
    let _: DeleteLoopbackReply = c.ask(&DeleteLoopback { sw_if_index: 1 });
    while !watcher.next::<SwInterfaceEvent>().1.deleted {}
    // Others are told nothing.
    let _: ControlPingReply = c.ask(&ControlPing::default());
}

#[test]
fn neighbours_are_told_to_those_who_watch_them() {
    let world = World::new(|_| ());
    let (mut watcher, mut c) = (world.client(), world.client());
    let _: CreateLoopbackReply = c.ask(&CreateLoopback::default());
    let _: SwInterfaceAddDelAddressReply = c.ask(&SwInterfaceAddDelAddress {
        sw_if_index: 1,
        is_add: true,
        prefix: net("10.0.0.1", 24),
        ..SwInterfaceAddDelAddress::default()
    });
    let wanted = WantIpNeighborEventsV2 {
        enable: true,
        pid: 5,
        sw_if_index: 1,
        ip: net("10.0.0.9", 32).address,
    };
    let reply: WantIpNeighborEventsV2Reply = watcher.ask(&wanted);
    assert_eq!(reply.retval, 0);
    for (is_add, last) in [(true, 8), (true, 9), (false, 9)] {
        let neighbor = IpNeighbor {
            sw_if_index: 1,
            mac_address: [2, 0, 0, 0, 0, last],
            ip_address: net(&format!("10.0.0.{last}"), 32).address,
            ..IpNeighbor::default()
        };
        let reply: IpNeighborAddDelReply = c.ask(&IpNeighborAddDel { is_add, neighbor });
        assert_eq!(reply.retval, 0);
        if last == 9 {
            let event = watcher.next::<IpNeighborEventV2>().1;
            assert_eq!((event.pid, event.neighbor.mac_address[5]), (5, 9));
            let flag = match is_add {
                true => IpNeighborEventFlags::IP_NEIGHBOR_API_EVENT_FLAG_ADDED,
                false => IpNeighborEventFlags::IP_NEIGHBOR_API_EVENT_FLAG_REMOVED,
            };
            assert_eq!(event.flags, flag);
        }
    }
    for retval in [0, -6] {
        let end = WantIpNeighborEventsV2 {
            enable: false,
            ..wanted.clone()
        };
        let reply: WantIpNeighborEventsV2Reply = watcher.ask(&end);
        assert_eq!(reply.retval, retval);
    }
}

#[test]
fn what_is_not_there_is_refused_and_the_connection_goes_on() {
    let world = World::new(|_| ());
    let mut c = world.client();
    let reply: LcpItfPairAddDelV3Reply = c.ask(&LcpItfPairAddDelV3::default());
    assert_eq!(reply.retval, -9);
    let reply: LcpItfPairGetReply = c.ask(&LcpItfPairGet::default());
    assert_eq!((reply.retval, reply.cursor), (0, u32::MAX));
    let reply: SockInitShmReply = c.ask(&SockInitShm::default());
    assert_eq!(reply.retval, -9);
    // Unknown, no request, half a message, an empty one: no answer, as in VPP.
    for bad in [
        &[0xff, 0xff, 0, 0][..],
        &[0, 24, 0, 0, 0, 0, 0, 0],
        &[0, 23, 0],
        &[0],
        &[],
    ] {
        c.put(bad);
    }
    let reply: ControlPingReply = c.ask(&ControlPing::default());
    assert_eq!(
        (reply.retval, reply.vpe_pid, reply.client_index),
        (0, std::process::id(), c.index)
    );
    let reply: SockclntDeleteReply = c.ask(&SockclntDelete { index: 5 });
    assert_eq!(reply.response, -1);
    let index = c.index;
    let reply: SockclntDeleteReply = c.ask(&SockclntDelete { index });
    assert_eq!(reply.response, 1);
    assert_eq!(c.stream.read(&mut [0; 16]).expect("hung up"), 0);
    world.until_clients(0);
}

#[test]
fn clients_that_break_the_stream_or_say_nothing_are_sent_away() {
    let world = World::new(|c| c.handshake_timeout = Duration::from_millis(200));
    let mut long = world.raw();
    long.write_all(&[0xff; 16]).expect("sent");
    assert_eq!(long.read(&mut [0; 16]).expect("hung up"), 0);
    let mut silent = world.raw();
    assert_eq!(silent.read(&mut [0; 16]).expect("hung up"), 0);
    let mut half = world.raw();
    half.write_all(&[0; 9]).expect("sent");
    assert_eq!(half.read(&mut [0; 16]).expect("hung up"), 0);
    // One that has introduced itself may be silent.
    let mut c = world.client();
    std::thread::sleep(Duration::from_millis(400));
    let _: ControlPingReply = c.ask(&ControlPing::default());
}

#[test]
fn a_client_that_does_not_read_is_sent_away_and_others_do_not_wait_for_it() {
    let world = World::new(|c| c.write_timeout = Duration::from_millis(200));
    let mut deaf = world.client();
    let mut good = world.client();
    // Answers of a quarter of a megabyte each, until it is hung up on.
    let ask = frame(&GetApiJson::default().encode(Lead {
        client_index: 0,
        context: 1,
    }));
    let mut sent = 0;
    while sent < 1_000_000 && deaf.stream.write_all(&ask).is_ok() {
        sent += 1;
        if sent % 100 == 0 {
            let _: ControlPingReply = good.ask(&ControlPing::default());
        }
    }
    world.until_clients(1);
    let _: ControlPingReply = good.ask(&ControlPing::default());
}

#[test]
fn a_flood_of_bad_clients_does_not_shut_out_a_good_one() {
    let world = World::new(|c| c.max_clients = 64);
    let mut good = world.client();
    let floods: Vec<_> = (0..32)
        .map(|n| {
            let mut c = world.client();
            let mut reader = c.stream.try_clone().expect("cloned");
            std::thread::spawn(move || drop(std::io::copy(&mut reader, &mut std::io::sink())));
            std::thread::spawn(move || {
                let dump = frame(&all().encode(Lead {
                    client_index: 0,
                    context: 1,
                }));
                let bad = frame(&[0xff, n, 1, 2, 3]);
                for _ in 0..300 {
                    if c.stream
                        .write_all(&dump)
                        .and_then(|()| c.stream.write_all(&bad))
                        .is_err()
                    {
                        break;
                    }
                }
                // Its reader holds the connection too.
                let _ = c.stream.shutdown(std::net::Shutdown::Both);
            })
        })
        .collect();
    for _ in 0..50 {
        let made: CreateLoopbackReply = good.ask(&CreateLoopback::default());
        assert_eq!(made.retval, 0);
        let gone: DeleteLoopbackReply = good.ask(&DeleteLoopback {
            sw_if_index: made.sw_if_index,
        });
        assert_eq!(gone.retval, 0);
    }
    for f in floods {
        f.join().expect("ended");
    }
    drop(good);
    world.until_clients(0);
    // More than there may be: the next one is hung up on, and those there are served.
    let mut all: Vec<Client> = (0..64).map(|_| world.client()).collect();
    let mut late = world.raw();
    assert_eq!(late.read(&mut [0; 16]).expect("hung up"), 0);
    let _: ControlPingReply = all[63].ask(&ControlPing::default());
}

#[test]
fn the_socket_is_gone_with_the_server() {
    let mut world = World::new(|_| ());
    let mut c = world.client();
    let path = world.dir.path().join("api.sock");
    world.server.stop();
    assert!(!path.exists());
    assert_eq!(c.stream.read(&mut [0; 16]).expect("hung up"), 0);
}
