//! `l2-fwd` and `l2-flood`: a bridge domain of the router's three interfaces, learning as control would.

use parshall_buffer::IF_NONE;
use parshall_counters::DropReason;
use parshall_fib::{MacEntry, MacKey, MacWriter};
use parshall_wire::{ArpRepr, IpProtocol, MacAddr, PacketBuilder};

use super::lab::*;
use super::parshall_nodes::{
    BridgeDomain, BridgePort, BridgeTable, Event, FloodMember, PortRole, bridge_flags, if_flags,
};

const DOMAIN: u16 = 1;
pub(super) const ALL: u8 =
    bridge_flags::LEARN | bridge_flags::FORWARD | bridge_flags::FLOOD | bridge_flags::UU_FLOOD;

/// A bridge of interfaces 1 to 3, and control's side of its table.
pub(super) struct Bridge {
    pub(super) lab: Lab,
    macs: MacWriter,
    ports: Vec<BridgePort>,
    domain: BridgeDomain,
}

impl Bridge {
    pub(super) fn new(flags: u8) -> Bridge {
        let port = BridgePort {
            domain: DOMAIN,
            flags,
            ..BridgePort::default()
        };
        let lab = Lab::new();
        let mut bridge = Bridge {
            macs: MacWriter::new(lab.shared.macs.clone()),
            lab,
            ports: vec![BridgePort::default(), port, port, port],
            domain: BridgeDomain::default(),
        };
        for n in 1..=3 {
            bridge.lab.edit(n, |view, _| view.flags |= if_flags::BRIDGE);
        }
        bridge.publish();
        bridge
    }

    /// Shows workers the ports as they are now.
    fn publish(&mut self) {
        let normal = |n: &u32| self.ports[*n as usize].role == PortRole::Normal;
        let member = |n: u32| FloodMember {
            if_index: n,
            shg: self.ports[n as usize].shg,
        };
        self.domain.members = (1..=3).filter(normal).map(member).collect();
        let of = |role| {
            let at = self.ports.iter().position(|p| p.role == role);
            at.map_or(IF_NONE, |n| n as u32)
        };
        self.domain.bvi = of(PortRole::Bvi);
        self.domain.uu_fwd = of(PortRole::UuFwd);
        let table = BridgeTable::new(
            self.ports.clone(),
            vec![BridgeDomain::default(), self.domain.clone()],
        );
        let shared = &self.lab.shared;
        shared.bridges.publish(&shared.domain, table);
    }

    fn edit(&mut self, n: usize, edit: impl FnOnce(&mut BridgePort)) {
        edit(&mut self.ports[n]);
        self.publish();
    }

    /// Makes interface 3 the routed one. (It keeps its transmit queue; what is sent there is for the tests to see.)
    pub(super) fn with_bvi(mut self) -> Bridge {
        self.edit(3, |p| p.role = PortRole::Bvi);
        self.lab.clear_flags(3, if_flags::BRIDGE);
        self.set(router_mac(3), 3, MacEntry::STATIC | MacEntry::BVI);
        self
    }

    fn set(&mut self, mac: MacAddr, n: u32, flags: u32) {
        let entry = MacEntry::new(n, flags | MacEntry::SEEN);
        self.macs.set(MacKey::new(DOMAIN, mac.0), entry, 0).unwrap();
    }

    fn get(&self, mac: MacAddr) -> Option<MacEntry> {
        self.macs.get(MacKey::new(DOMAIN, mac.0)).map(|r| r.entry)
    }

    /// Does what control does with what workers saw; says how many stations that were.
    fn control(&mut self) -> usize {
        let seen = self.lab.events();
        for event in &seen {
            if let Event::MacSeen {
                if_index,
                domain,
                mac,
            } = *event
            {
                assert_eq!(domain, DOMAIN);
                self.set(MacAddr(mac), if_index, 0);
            }
        }
        seen.len()
    }

    /// The interfaces that a frame leaves by, in order; it leaves as it came.
    #[track_caller]
    fn ways(&mut self, n: u32, frame: &[u8]) -> Vec<u32> {
        let sent = self.lab.send(n, frame);
        assert!(sent.iter().all(|(_, out)| out == frame));
        let mut ways: Vec<u32> = sent.into_iter().map(|s| s.0).collect();
        ways.sort_unstable();
        ways
    }

    #[track_caller]
    fn dropped(&mut self, n: u32, frame: &[u8], reason: DropReason) {
        self.lab.expect_drop(n, frame, reason);
    }
}

fn station(n: u8) -> MacAddr {
    MacAddr([2, 0xAA, 0, 0, 0, n])
}

fn frame(from: MacAddr, to: MacAddr) -> Vec<u8> {
    PacketBuilder::ethernet(from, to).payload_len(60).build()
}

fn between(a: u8, b: u8) -> Vec<u8> {
    frame(station(a), station(b))
}

#[test]
fn stations_are_learned_and_then_reached_by_their_port_alone() {
    let mut b = Bridge::new(ALL);
    assert_eq!(b.ways(1, &between(1, 2)), [2, 3]);
    assert_eq!(b.control(), 1);
    assert_eq!(b.ways(2, &between(2, 1)), [1]);
    assert_eq!(b.control(), 1);
    assert_eq!(b.ways(1, &between(1, 2)), [2]);
    assert_eq!(b.control(), 0);
}

#[test]
fn a_new_station_is_told_once_in_a_while_and_a_moved_one_too() {
    let mut b = Bridge::new(ALL);
    for _ in 0..50 {
        b.lab.send(1, &between(1, 2));
    }
    assert_eq!(b.control(), 1);
    assert_eq!(b.ways(2, &between(2, 1)), [1]);
    assert_eq!(b.control(), 1);
    // It is at interface 3 now: until control knows, frames to it go where it was.
    assert_eq!(b.ways(3, &between(1, 2)), [2]);
    assert_eq!(b.control(), 1);
    assert_eq!(b.ways(2, &between(2, 1)), [3]);
    // What control did not do is told again later.
    b.macs.remove(MacKey::new(DOMAIN, station(1).0));
    b.lab.send(3, &between(1, 2));
    assert_eq!(b.control(), 0);
    b.lab.now += 20_000_000;
    b.lab.send(3, &between(1, 2));
    assert_eq!(b.control(), 1);
}

#[test]
fn a_station_in_use_is_marked_once_and_does_not_age() {
    let mut b = Bridge::new(ALL);
    b.lab.send(1, &between(1, 2));
    b.lab.send(2, &between(2, 1));
    b.control();
    let lines = b.macs.lines();
    let sweep = |b: &mut Bridge, now| {
        let mut gone = Vec::new();
        b.macs
            .sweep(lines, now, |_| Some(60), |r| gone.push(r.key.mac()));
        gone
    };
    assert!(sweep(&mut b, 10).is_empty());
    assert!(!b.get(station(1)).unwrap().has(MacEntry::SEEN));
    b.lab.send(1, &between(1, 2));
    assert!(b.get(station(1)).unwrap().has(MacEntry::SEEN));
    assert_eq!(sweep(&mut b, 70), [station(2).0]);
    assert_eq!(b.ways(1, &between(1, 2)), [2, 3]);
}

#[test]
fn groups_are_flooded_but_for_those_of_the_link() {
    let mut b = Bridge::new(ALL);
    let multicast = MacAddr([1, 0, 0x5E, 1, 2, 3]);
    for to in [MacAddr::BROADCAST, multicast] {
        assert_eq!(b.ways(2, &frame(station(1), to)), [1, 3]);
    }
    let lldp = MacAddr([1, 0x80, 0xC2, 0, 0, 0x0E]);
    b.dropped(2, &frame(station(1), lldp), DropReason::L2Reserved);
    let c = &b.lab.harness.dispatcher.counters.interfaces[2];
    assert_eq!((c.rx_broadcast.get(), c.rx_multicast.get()), (1, 2));
    let from_group = frame(multicast, station(1));
    b.dropped(2, &from_group, DropReason::SourceMacMulticast);
    b.dropped(2, &[0; 13], DropReason::EthernetTooShort);
}

#[test]
fn long_frames_are_copied_whole_and_a_vector_of_them_too() {
    let mut b = Bridge::new(ALL);
    b.lab.edit(1, |_, _| {});
    let mut long = frame(station(1), MacAddr::BROADCAST);
    long.extend((0..1400u32).map(|i| i as u8));
    let frames: Vec<Vec<u8>> = (0..200u8)
        .map(|i| {
            let mut f = long.clone();
            f[20] = i;
            f
        })
        .collect();
    let sent = b.lab.send_all(1, &frames);
    for n in [2, 3] {
        let out: Vec<&Vec<u8>> = sent.iter().filter(|s| s.0 == n).map(|s| &s.1).collect();
        assert!(out.into_iter().eq(&frames), "interface {n}");
    }
}

#[test]
fn frames_stay_apart_from_ports_of_the_same_group() {
    let mut b = Bridge::new(ALL);
    b.edit(1, |p| p.shg = 7);
    b.edit(2, |p| p.shg = 7);
    for n in 1..=3 {
        b.lab.send(n, &between(n as u8, 99));
    }
    b.control();
    assert_eq!(b.ways(1, &between(1, 3)), [3]);
    assert_eq!(b.ways(3, &between(3, 1)), [1]);
    b.dropped(1, &between(1, 2), DropReason::L2SplitHorizon);
    assert_eq!(b.ways(1, &between(1, 99)), [3]);
    assert_eq!(b.ways(3, &between(3, 99)), [1, 2]);
    b.edit(3, |p| p.shg = 7);
    b.dropped(3, &between(3, 99), DropReason::L2NoMember);
}

#[test]
fn filtered_static_and_reflected_stations_drop_frames_with_a_reason() {
    let mut b = Bridge::new(ALL);
    b.set(station(1), 1, MacEntry::STATIC);
    b.set(station(2), 2, MacEntry::STATIC);
    b.set(
        station(9),
        MacEntry::NOWHERE,
        MacEntry::FILTER | MacEntry::STATIC,
    );
    assert_eq!(b.ways(1, &between(1, 2)), [2]);
    b.dropped(3, &between(1, 2), DropReason::L2MacMoved);
    assert_eq!(b.control(), 0);
    assert_eq!(b.get(station(1)).map(|e| e.if_index()), Some(1));
    b.dropped(1, &between(1, 9), DropReason::L2Filtered);
    b.dropped(1, &between(9, 1), DropReason::L2Filtered);
    b.dropped(2, &between(3, 2), DropReason::L2SamePort);
}

#[test]
fn each_switch_of_a_domain_does_what_it_says() {
    let known = |flags| {
        let mut b = Bridge::new(flags);
        b.set(station(2), 2, 0);
        b
    };
    let all = MacAddr::BROADCAST;
    let mut b = known(ALL & !bridge_flags::LEARN);
    assert_eq!(b.ways(1, &between(1, 2)), [2]);
    assert_eq!(b.control(), 0);
    let mut b = known(ALL & !bridge_flags::FORWARD);
    b.dropped(1, &between(1, 2), DropReason::L2ForwardOff);
    assert_eq!(b.ways(1, &frame(station(1), all)), [2, 3]);
    let mut b = known(ALL & !bridge_flags::FLOOD);
    b.dropped(1, &frame(station(1), all), DropReason::L2FloodOff);
    assert_eq!(b.ways(1, &between(1, 8)), [2, 3]);
    let mut b = known(ALL & !bridge_flags::UU_FLOOD);
    b.dropped(1, &between(1, 8), DropReason::L2UnknownUnicast);
    assert_eq!(b.ways(1, &between(1, 2)), [2]);
}

#[test]
fn unknown_stations_are_looked_for_behind_one_port_where_there_is_such() {
    let mut b = Bridge::new(ALL);
    b.edit(3, |p| p.role = PortRole::UuFwd);
    assert_eq!(b.ways(1, &between(1, 8)), [3]);
    assert_eq!(b.ways(1, &frame(station(1), MacAddr::BROADCAST)), [2]);
    b.dropped(3, &between(4, 8), DropReason::L2SamePort);
}

#[test]
fn frames_to_the_routed_interface_go_up_and_groups_do_both() {
    let mut b = Bridge::new(ALL).with_bvi();
    let up = PacketBuilder::ethernet(host_mac(1), router_mac(3))
        .ipv4(host4(3), far4(3))
        .udp(1, 2)
        .payload_len(20);
    // Routed, and out again by the routed interface.
    let sent = b.lab.send(1, &up.build());
    assert_eq!((sent.len(), sent[0].0), (1, 3));
    let request = ArpRepr::request(host_mac(3), host4(3), router4(3));
    let ask = PacketBuilder::ethernet(host_mac(3), MacAddr::BROADCAST);
    let ask = ask.arp(request).build();
    let sent = b.lab.send(1, &ask);
    assert_eq!(sent.iter().map(|s| s.0).collect::<Vec<_>>(), [2, 3]);
    assert_eq!(sent[0].1, ask);
    // Nobody but the router has its address.
    let thief = frame(router_mac(3), station(1));
    b.dropped(1, &thief, DropReason::L2MacMoved);
}

#[test]
fn what_is_routed_out_of_the_routed_interface_is_bridged() {
    let mut b = Bridge::new(ALL).with_bvi();
    b.lab.harness.add_virtual(3, "bvi-output", 1514);
    let routed = PacketBuilder::ethernet(host_mac(1), router_mac(3))
        .ipv4(host4(3), far4(3))
        .udp(1, 2)
        .payload_len(20);
    let ways = |sent: Vec<(u32, Vec<u8>)>| {
        let mut ways: Vec<u32> = sent.iter().map(|s| s.0).collect();
        ways.sort_unstable();
        ways
    };
    // The host behind it is not known to the bridge, then behind port 2.
    assert_eq!(ways(b.lab.send(1, &routed.clone().build())), [1, 2]);
    b.control();
    b.set(host_mac(3), 2, 0);
    assert_eq!(ways(b.lab.send(1, &routed.build())), [2]);
    // Its answers to a host's questions come back by the port the host is known behind.
    b.set(host_mac(1), 1, 0);
    let request = ArpRepr::request(host_mac(1), host4(3), router4(3));
    let ask = PacketBuilder::ethernet(host_mac(1), MacAddr::BROADCAST);
    let sent = b.lab.send(1, &ask.arp(request).build());
    assert_eq!(ways(sent), [1, 2]);
    assert_eq!(b.control(), 1, "the neighbour, and no station");
}

#[test]
fn arp_for_known_owners_is_answered_or_sent_to_them_alone() {
    let ask = |ip| {
        let to_all = PacketBuilder::ethernet(host_mac(1), MacAddr::BROADCAST);
        to_all
            .arp(ArpRepr::request(host_mac(1), host4(1), ip))
            .build()
    };
    let mut b = Bridge::new(ALL | bridge_flags::ARP_TERM);
    b.domain.arp.insert(host4(2).octets(), station(2).0);
    b.publish();
    let answer = ArpRepr::request(host_mac(1), host4(1), host4(2)).reply_from(station(2));
    let answer = PacketBuilder::ethernet(station(2), host_mac(1)).arp(answer);
    b.lab.expect(1, &ask(host4(2)), 1, &answer.build());
    assert_eq!(b.ways(1, &ask(host4(3))), [2, 3]);
    // A question about oneself is an announcement.
    assert_eq!(b.ways(1, &ask(host4(1))), [2, 3]);
    for n in 1..=3 {
        b.edit(n, |p| p.flags = ALL | bridge_flags::ARP_UFWD);
    }
    b.set(station(2), 2, 0);
    let mut alone = ask(host4(2));
    alone[..6].copy_from_slice(&station(2).0);
    b.lab.expect(1, &ask(host4(2)), 2, &alone);
}

#[test]
fn solicitations_for_known_owners_are_answered() {
    let ask = |from: std::net::Ipv6Addr, target: std::net::Ipv6Addr| {
        let [.., x, y, z] = target.octets();
        let group = std::net::Ipv6Addr::new(
            0xFF02,
            0,
            0,
            0,
            0,
            1,
            0xFF00 | u16::from(x),
            u16::from_be_bytes([y, z]),
        );
        let mut body = target.octets().to_vec();
        if !from.is_unspecified() {
            body.extend([1, 1]);
            body.extend(host_mac(1).0);
        }
        PacketBuilder::ethernet(host_mac(1), MacAddr::from_ipv6_multicast(group))
            .ipv6(from, group)
            .ttl(255)
            .protocol(IpProtocol::ICMPV6)
            .payload(&icmp6(135, 0, 0, &body))
            .build()
    };
    let mut b = Bridge::new(ALL | bridge_flags::ARP_TERM);
    b.domain.nd.insert(host6(2).octets(), station(2).0);
    b.publish();
    let mut body = host6(2).octets().to_vec();
    body.extend([2, 1]);
    body.extend(station(2).0);
    let answer = PacketBuilder::ethernet(station(2), host_mac(1))
        .ipv6(host6(2), host6(1))
        .ttl(255)
        .protocol(IpProtocol::ICMPV6)
        .payload(&icmp6(136, 0, 0x4000_0000, &body));
    b.lab
        .expect(1, &ask(host6(1), host6(2)), 1, &answer.build());
    // Of others, tests for duplicates, and a message with a wrong checksum: everybody is to hear them.
    let mut wrong = ask(host6(1), host6(2));
    wrong[56] ^= 1;
    for frame in [
        ask(host6(1), host6(3)),
        ask(std::net::Ipv6Addr::UNSPECIFIED, host6(2)),
        wrong,
    ] {
        assert_eq!(b.ways(1, &frame), [2, 3]);
    }
}

#[test]
fn a_port_that_left_its_domain_bridges_no_more() {
    let mut b = Bridge::new(ALL);
    b.edit(1, |p| p.domain = 0);
    b.dropped(1, &between(1, 2), DropReason::L2NoBridge);
    let sent = b
        .lab
        .send_mixed(&[(1, between(1, 2)), (2, between(2, 1)), (2, between(2, 9))]);
    // Ports 1 and 3 are still members: only what they send is refused.
    let mut ways: Vec<u32> = sent.iter().map(|s| s.0).collect();
    ways.sort_unstable();
    assert_eq!(ways, [1, 1, 3, 3]);
}

#[test]
fn an_attack_with_invented_sources_neither_grows_nor_displaces_anything() {
    let mut b = Bridge::new(ALL);
    for n in 1..=2 {
        b.lab.send(n, &between(n as u8, 99));
    }
    b.control();
    let mut random = 1u64;
    for round in 0..60 {
        b.lab.now += 9_000_000;
        let mut frames: Vec<Vec<u8>> = (0..200)
            .map(|_| {
                random = random.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
                let [.., a, b, c, d, e] = random.to_be_bytes();
                frame(MacAddr([2, a, b, c, d, e]), station(98))
            })
            .collect();
        frames.push(between(3, 2));
        b.lab.send_all(3, &frames);
        b.control();
        assert_eq!(b.ways(1, &between(1, 2)), [2], "round {round}");
        assert_eq!(b.ways(2, &between(2, 1)), [1], "round {round}");
    }
    assert!(b.macs.len() <= b.macs.table().capacity());
    assert!(b.get(station(3)).is_some());
}

/// What a bridge does with a frame, said slowly.
fn expected(
    learned: &mut std::collections::BTreeMap<u8, u32>,
    shg: [u8; 4],
    (n, from, to): (u32, u8, u8),
) -> Vec<u32> {
    learned.insert(from, n);
    let apart = |m: u32| shg[n as usize] != 0 && shg[n as usize] == shg[m as usize];
    let known = learned.get(&to).copied();
    let mut ways: Vec<u32> = match known {
        Some(m) if to != 255 => vec![m],
        _ => vec![1, 2, 3],
    };
    ways.retain(|m| *m != n && !apart(*m));
    ways
}

#[test]
fn it_forwards_as_the_slow_model_does() {
    let mut random = 7u64;
    let mut below = |n: u64| {
        random = random.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
        (random >> 33) % n
    };
    for world in 0..20 {
        let mut b = Bridge::new(ALL);
        let shg = [0, below(3) as u8, below(3) as u8, below(3) as u8];
        for (n, shg) in shg.iter().enumerate().skip(1) {
            b.edit(n, |p| p.shg = *shg);
        }
        let mut learned = Default::default();
        for step in 0..80 {
            let (n, from) = (1 + below(3) as u32, below(8) as u8);
            let to = match below(11) {
                10 => 255,
                to => to as u8,
            };
            // A bridge looks a destination up before control has learned the source.
            if from == to {
                continue;
            }
            b.lab.now += 20_000_000;
            let to_mac = match to {
                255 => MacAddr::BROADCAST,
                _ => station(to),
            };
            let ways = b.ways(n, &frame(station(from), to_mac));
            let want = expected(&mut learned, shg, (n, from, to));
            assert_eq!(ways, want, "world {world}, step {step}");
            b.control();
        }
    }
}
