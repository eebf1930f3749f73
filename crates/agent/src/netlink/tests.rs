//! The exporter on a kernel of the tests: which message goes where, when, and under which number.

use super::socket::tests::FakeKernel;
use super::*;
use parshall_linux::genl::{Sent, read_attributes, read_messages};
use proptest::prelude::*;

fn settings(netlink: NetlinkConfig) -> AgentConfig {
    AgentConfig {
        netlink: Some(netlink),
        polling_interval: 10,
        drop_limit: 100,
        ..AgentConfig::default()
    }
}

/// An exporter at time 0 whose channels are open.
fn exporter(config: NetlinkConfig) -> (Netlink, FakeKernel) {
    let kernel = FakeKernel::default();
    let mut n = Netlink::new(&settings(config), Box::new(kernel.clone()), 0);
    n.tick(0);
    (n, kernel)
}

fn report(index: u32, sflow: bool) -> IfReport {
    IfReport {
        index,
        if_index: 100 + index,
        os_index: if index == 2 { 17 } else { 0 },
        name: format!("eth{index}"),
        sflow,
        ..IfReport::default()
    }
}

/// A 32-bit attribute of a message, whose body begins with `skip` bytes of other headers.
fn number(message: &[u8], skip: usize, kind: u16) -> Option<u32> {
    let body = read_messages(message).next()?.body.get(skip..)?;
    let value = read_attributes(body).find(|a| a.0 == kind)?.1;
    Some(u32::from_ne_bytes(*value.first_chunk()?))
}

fn only(which: Which, sent: Vec<(Which, Vec<u8>)>) -> Vec<Vec<u8>> {
    let of = sent.into_iter().filter(|m| m.0 == which);
    of.map(|m| m.1).collect()
}

#[test]
fn samples_of_both_directions_have_groups_and_numbers_of_their_own() {
    let config = NetlinkConfig {
        group: 7,
        ..NetlinkConfig::default()
    };
    let (mut n, kernel) = exporter(config);
    use Direction::{Rx, Tx};
    let sample = |n: &mut Netlink, direction, rx_if| {
        let slot = SampleSlot {
            direction,
            rx_if,
            ..SampleSlot::default()
        };
        n.sample(0, &NetlinkSample::new(&slot, (0, 0), None));
    };
    for (direction, rx_if) in [(Rx, 1), (Tx, 1), (Rx, 1), (Rx, u32::MAX)] {
        sample(&mut n, direction, rx_if);
    }
    assert!(kernel.take().is_empty(), "gathered");
    n.flush(0);
    let sent = only(Which::Psample, kernel.take());
    let numbers: Vec<_> = sent
        .iter()
        .map(|m| (number(m, 4, 3).unwrap(), number(m, 4, 4).unwrap()))
        .collect();
    assert_eq!(numbers, [(7, 1), (8, 1), (7, 2), (8, 2)]);
    let other = NetlinkConfig { group: 3, ..config };
    n.set_config(&settings(other), 0);
    sample(&mut n, Rx, 1);
    n.flush(0);
    let m = only(Which::Psample, kernel.take());
    assert_eq!(
        (number(&m[0], 4, 3), number(&m[0], 4, 4)),
        (Some(3), Some(1))
    );
}

#[test]
fn a_sample_carries_what_the_slot_knows() {
    let (mut n, kernel) = exporter(NetlinkConfig::default());
    let mut slot = SampleSlot {
        rate: 1000,
        frame_len: 98,
        header_len: 20,
        time: 1,
        queue: 3,
        transit_ns: 4567,
        direction: Direction::Tx,
        ..SampleSlot::default()
    };
    slot.header[..20].copy_from_slice(&[7; 20]);
    n.sample(0, &NetlinkSample::new(&slot, (11, 12), Some(99)));
    n.sample(
        0,
        &NetlinkSample::new(&SampleSlot::default(), (1, 0), Some(99)),
    );
    n.flush(0);
    let sent = only(Which::Psample, kernel.take());
    let read = |m: &'static [u8]| psample::decode(read_messages(m).next().unwrap().body).unwrap();
    let all: Vec<_> = sent.into_iter().map(|m| read(m.leak())).collect();
    let want = PacketSample {
        group: 4,
        sequence: 1,
        input: 11,
        output: 12,
        rate: 1000,
        length: 98,
        protocol: 1,
        queue: Some(3),
        latency: Some(4567),
        timestamp: Some(99),
        header: &[7; 20],
        ..PacketSample::default()
    };
    assert_eq!(all[0], want);
    assert_eq!(
        (all[1].queue, all[1].latency, all[1].timestamp),
        (None, None, None)
    );
}

#[test]
fn a_full_batch_is_sent_at_once_and_none_is_lost() {
    let (mut n, kernel) = exporter(NetlinkConfig::default());
    let slot = SampleSlot::default();
    for i in 0..200u32 {
        n.sample(0, &NetlinkSample::new(&slot, (i, 0), None));
    }
    n.flush(0);
    let inputs: Vec<_> = only(Which::Psample, kernel.take())
        .iter()
        .map(|m| number(m, 4, 0).unwrap())
        .collect();
    assert_eq!(inputs, (0..200).collect::<Vec<_>>());
    assert_eq!(n.status(0).channels[0].sent, 200);
}

#[test]
fn without_the_module_samples_are_counted_as_lost_and_the_status_says_why() {
    let kernel = FakeKernel::default();
    // Openings end in the order drops, usersock, psample; the list is taken from its end.
    let why = "modprobe psample".to_owned();
    let ready = |family| Ok(socket::Ready { family, port: 1 });
    kernel.0.lock().unwrap().openings = vec![Err(why.clone()), ready(0), ready(9)];
    let mut n = Netlink::new(
        &settings(NetlinkConfig::default()),
        Box::new(kernel.clone()),
        0,
    );
    n.tick(0);
    let slot = SampleSlot::default();
    n.sample(0, &NetlinkSample::new(&slot, (0, 0), None));
    n.flush(0);
    let s = &n.status(0).channels[0];
    assert_eq!(
        (s.channel, s.state),
        (Which::Psample, ChannelState::Waiting)
    );
    assert_eq!((s.sent, s.failed, s.listeners), (0, 1, None));
    assert_eq!(s.last_error.as_ref(), Some(&why));
    // They show in the drops that hsflowd is told of, with those lost before.
    n.every_second(SECOND, &[], 5);
    let status = only(Which::Usersock, kernel.take());
    assert_eq!(number(&status[0], 0, 22), Some(6));
}

#[test]
fn what_the_kernel_has_no_room_for_is_counted_and_shown_as_drops() {
    let (mut n, kernel) = exporter(NetlinkConfig::default());
    let slot = SampleSlot::default();
    (0..3).for_each(|_| n.sample(0, &NetlinkSample::new(&slot, (0, 0), None)));
    kernel.0.lock().unwrap().refusal = Some(Sent {
        taken: 1,
        error: Some(nix::errno::Errno::ENOBUFS),
    });
    n.flush(0);
    kernel.take();
    n.every_second(SECOND, &[], 0);
    let status = only(Which::Usersock, kernel.take());
    assert_eq!(number(&status[0], 0, 22), Some(2));
    assert_eq!(n.status(0).channels[0].state, ChannelState::Ready);
}

#[test]
fn state_goes_out_every_second_and_counters_at_first_sight_and_then_by_their_number() {
    let (mut n, kernel) = exporter(NetlinkConfig::default());
    // Exported as 101, 102 and 103; the last has sFlow off.
    let ports = [report(1, true), report(2, true), report(3, false)];
    let mut seen = Vec::new();
    let mut sequence = 0;
    for second in 1..=25u64 {
        assert_eq!(n.due(), second * SECOND);
        // A caller that comes late, or twice.
        n.every_second(second * SECOND + 300_000_000, &ports, 0);
        n.every_second(second * SECOND + 600_000_000, &ports, 0);
        for m in only(Which::Usersock, kernel.take()) {
            sequence += 1;
            assert_eq!(number(&m, 0, 23), Some(sequence));
            match read_messages(&m).next().unwrap().kind {
                1 => assert_eq!(number(&m, 0, 20), Some(second as u32)),
                _ => seen.push((second, number(&m, 0, 1).unwrap())),
            }
        }
    }
    assert_eq!(sequence, 25 + 7);
    let first = [(1, 101), (1, 102)];
    let later = [(2, 102), (11, 101), (12, 102), (21, 101), (22, 102)];
    assert_eq!(seen[..2], first);
    assert_eq!(seen[2..], later[..], "one report a polling interval");
}

#[test]
fn states_that_come_late_and_then_on_time_never_tell_of_the_same_second() {
    let kernel = FakeKernel::default();
    let config = settings(NetlinkConfig::default());
    let mut n = Netlink::new(&config, Box::new(kernel.clone()), SECOND * 9 / 10);
    n.tick(SECOND * 9 / 10);
    let mut told = Vec::new();
    // Late by 950 ms, then on time.
    for now in [SECOND * 295 / 100, SECOND * 3, SECOND * 4] {
        n.every_second(now, &[], 0);
        let status = only(Which::Usersock, kernel.take());
        told.push(number(&status[0], 0, 20).unwrap());
    }
    assert_eq!(told, [2, 3, 4]);
}

#[test]
fn a_port_that_comes_again_is_introduced_again_and_polling_can_be_off() {
    let (mut n, kernel) = exporter(NetlinkConfig::default());
    let counters = |n: &mut Netlink, second: u64, ports: &[IfReport]| {
        n.every_second(second * SECOND, ports, 0);
        only(Which::Usersock, kernel.take()).len() - 1
    };
    assert_eq!(counters(&mut n, 3, &[report(7, true)]), 1);
    assert_eq!(counters(&mut n, 4, &[report(7, true)]), 0);
    assert_eq!(counters(&mut n, 5, &[report(7, false)]), 0);
    assert_eq!(counters(&mut n, 6, &[report(7, true)]), 1);
    let off = AgentConfig {
        polling_interval: 0,
        ..settings(NetlinkConfig::default())
    };
    n.set_config(&off, 0);
    assert_eq!(counters(&mut n, 7, &[report(8, true)]), 0);
}

#[test]
fn more_ports_than_a_batch_are_all_reported() {
    let (mut n, kernel) = exporter(NetlinkConfig::default());
    let ports: Vec<_> = (1..=150).map(|i| report(i, true)).collect();
    n.every_second(SECOND, &ports, 0);
    assert_eq!(only(Which::Usersock, kernel.take()).len(), 151);
}

/// Index and name of the port in an alert.
fn port(message: &[u8]) -> Option<(u32, String)> {
    let body = read_messages(message).next()?.body.get(4..)?;
    let nested = read_attributes(body).find(|a| a.0 == 4)?.1;
    let mut inner = read_attributes(nested);
    let index = u32::from_ne_bytes(*inner.next()?.1.first_chunk()?);
    let name = String::from_utf8(inner.next()?.1.to_vec()).ok()?;
    Some((index, name))
}

#[test]
fn ports_of_drops_are_numbered_as_hsflowd_numbers_them() {
    let drop = |rx_if, header_len| DropSlot {
        reason: DropReason::NoRoute.code(),
        rx_if,
        header_len,
        ..DropSlot::default()
    };
    let ports = [report(1, true), report(2, true)];
    for (os_index, want) in [(true, 17), (false, 1_000_000_102)] {
        let (mut n, kernel) = exporter(NetlinkConfig {
            os_index,
            ..NetlinkConfig::default()
        });
        n.update(&ports);
        // The last one has no packet: it is not for the drop monitor.
        for slot in [drop(1, 14), drop(2, 14), drop(u32::MAX, 14), drop(1, 0)] {
            n.drop_alert(0, &NetlinkDrop::new(&slot, "ip4-lookup", None));
        }
        n.flush(0);
        let found: Vec<_> = only(Which::Dropmon, kernel.take())
            .iter()
            .map(|m| port(m))
            .collect();
        let named = |n: u32, name: &str| Some((n, format!("{name}\0")));
        let all = [named(1_000_000_101, "eth1"), named(want, "eth2"), None];
        assert_eq!(found, all);
    }
}

#[test]
fn without_drop_monitoring_there_is_no_channel_for_it() {
    let off = AgentConfig {
        drop_limit: 0,
        ..settings(NetlinkConfig::default())
    };
    let kernel = FakeKernel::default();
    let mut n = Netlink::new(&off, Box::new(kernel.clone()), 0);
    n.tick(0);
    assert_eq!(n.status(0).channels.len(), 2);
    n.set_config(&settings(NetlinkConfig::default()), 0);
    n.tick(0);
    assert_eq!(n.status(0).channels.len(), 3);
    assert_eq!(kernel.0.lock().unwrap().started, 3);
}

proptest! {
    #[test]
    fn a_port_is_due_in_each_of_its_seconds(index: u32, polling in 1u32..400, from in 0u64..5000, n in 0u64..800) {
        let (p, i) = (u64::from(polling), u64::from(index));
        let slow = (from..from + n).any(|s| s % p == i % p);
        prop_assert_eq!(n != 0 && falls_within(index, polling, from, from + n - 1), slow);
    }
}

/// Drops that a fresh agent sees, one a tenth of a second: four, one without a header.
fn see_drops(a: &mut crate::Agent, ring: &mut parshall_ring::Producer<DropSlot>, start: u64) {
    for k in 0..4u64 {
        let mut slot = DropSlot {
            reason: DropReason::NoRoute.code(),
            header_len: 20,
            frame_len: 20,
            ..DropSlot::default()
        };
        if k == 3 {
            slot.header_len = 0;
        }
        assert!(ring.push(slot).is_ok());
        a.poll(start + k * SECOND / 10);
    }
}

#[test]
fn a_drop_is_reported_when_an_exporter_has_it_and_unexported_when_there_is_none() {
    let config = AgentConfig {
        netlink: None,
        host_interval: 0,
        ..settings(NetlinkConfig::default())
    };
    let parts = crate::AgentParts {
        router: crate::fake::FakeRouter::with(1),
        transport: Box::new(crate::UdpTransport::new()),
        host: None,
        elected: "192.0.2.1".parse().unwrap(),
        seed: 1,
    };
    let mut a = crate::Agent::new(config.clone(), parts, 0).unwrap();
    let (mut ring, consumer) = parshall_ring::ring(16);
    a.add_drop_rings(vec![consumer]);
    let fates = |a: &mut crate::Agent| {
        let d = a.status(0).discards;
        assert_eq!(d.seen, d.reported + d.suppressed + d.unexported + d.waiting);
        (d.seen, d.reported, d.suppressed, d.unexported)
    };
    // Nowhere to report to.
    see_drops(&mut a, &mut ring, SECOND);
    assert_eq!(fates(&mut a), (4, 0, 0, 4));
    assert_eq!(a.status(0).datagrams, 0);
    // The kernel's drop monitor takes what has a header.
    let (netlink, kernel) = exporter(NetlinkConfig::default());
    a.put_netlink(netlink);
    see_drops(&mut a, &mut ring, 2 * SECOND);
    a.finish(3 * SECOND);
    assert_eq!(only(Which::Dropmon, kernel.take()).len(), 3);
    assert_eq!(fates(&mut a), (8, 3, 0, 5));
    // A collector takes all, the first under the number 1.
    let collector = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let timeout = std::time::Duration::from_secs(20);
    collector.set_read_timeout(Some(timeout)).unwrap();
    let collectors = vec![collector.local_addr().unwrap().into()];
    let config = AgentConfig {
        collectors,
        ..config
    };
    a.set_config(config, 4 * SECOND).unwrap();
    see_drops(&mut a, &mut ring, 5 * SECOND);
    a.finish(6 * SECOND);
    assert_eq!(fates(&mut a), (12, 7, 0, 5));
    let mut buffer = [0; 2048];
    let n = collector.recv(&mut buffer).unwrap();
    let datagram = parshall_sflow_wire::Datagram::parse(&buffer[..n]).unwrap();
    let heads: Vec<_> = datagram
        .samples()
        .filter_map(|s| match s.unwrap() {
            parshall_sflow_wire::Sample::Discard(d) => Some((d.head.sequence, d.head.drops)),
            _ => None,
        })
        .collect();
    assert_eq!(heads, [(1, 0), (2, 0), (3, 0), (4, 0)]);
}
