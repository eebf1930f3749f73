//! What the view says of packets and interfaces.

use std::net::IpAddr;

use super::*;
use crate::engine::EngineConfig;
use crate::router::Router;
use parshall_agent::Router as _;
use parshall_buffer::Pool;
use parshall_nodes::flow_hash4;
use parshall_wire::{MacAddr, PacketBuilder};

fn router(script: &str) -> Router {
    let mut r = Router::model(&EngineConfig::default()).unwrap();
    let two = "create packet-generator interface pg0\ncreate packet-generator interface pg1\n\
               set interface state pg0 up\nset interface state pg1 up\n\
               set interface ip address pg0 10.0.0.1/24\nset interface ip address pg1 10.1.0.1/24\n\
               set interface ip address pg1 2001:db8::1/64\n\
               ip neighbor pg1 10.1.0.2 02:00:00:00:00:02 static\n\
               ip neighbor pg1 10.1.0.3 02:00:00:00:00:03 static\n";
    r.run_script(&format!("{two}{script}"), "test")
        .unwrap_or_else(|e| panic!("{e}"));
    r
}

fn ethernet() -> PacketBuilder {
    PacketBuilder::ethernet(MacAddr([2; 6]), MacAddr([4; 6]))
}

fn udp(dst: &str, port: u16) -> Vec<u8> {
    let b = match dst.parse::<IpAddr>().unwrap() {
        IpAddr::V4(d) => ethernet().ipv4([10, 0, 0, 9].into(), d),
        IpAddr::V6(d) => ethernet().ipv6("2001:db8:9::9".parse().unwrap(), d),
    };
    b.udp(port, 53).payload_len(200).build()[..128].to_vec()
}

fn resolved(r: &Router, frame: &[u8]) -> Option<(u32, String, u32, u32)> {
    let i = r.sflow.view.resolve(frame, 1)?;
    Some((
        i.out_if,
        i.next_hop.to_string(),
        i.src_mask_len,
        i.dst_mask_len,
    ))
}

#[test]
fn samples_are_resolved_as_the_packet_is_routed() {
    let r = router(
        "ip route add 20.0.0.0/8 via 10.1.0.2\nip route add 30.0.0.0/8 blackhole\n\
         ip route add 40.0.0.0/16 via 10.1.0.2 out-labels 100\nip table add 7\n\
         ip route add 50.0.0.0/8 via ip4-lookup-in-table 7\n\
         ip route add 50.1.0.0/16 table 7 via 10.1.0.3 pg1\n\
         ip route add 2001:db8:5::/48 via 2001:db8::9",
    );
    for (dst, want) in [
        ("20.1.1.1", Some((2, "10.1.0.2", 24, 8))),
        // A known neighbour has a host route, an unknown one is covered by the subnet.
        ("10.1.0.2", Some((2, "0.0.0.0", 24, 32))),
        ("10.1.0.77", Some((2, "0.0.0.0", 24, 24))),
        ("10.0.0.1", Some((RouteInfo::INTERNAL, "0.0.0.0", 24, 32))),
        ("30.1.1.1", None),
        ("99.1.1.1", None),
        ("40.0.1.1", Some((2, "10.1.0.2", 24, 16))),
        ("50.1.1.1", Some((2, "10.1.0.3", 24, 8))),
        ("2001:db8:5::5", Some((2, "2001:db8::9", 0, 48))),
    ] {
        let want = want.map(|(i, h, s, d): (u32, &str, u32, u32)| (i, h.to_owned(), s, d));
        assert_eq!(resolved(&r, &udp(dst, 7)), want, "{dst}");
    }
}

#[test]
fn several_paths_resolve_to_the_one_that_the_flow_takes() {
    let r = router("ip route add 20.0.0.0/8 via 10.1.0.2 via 10.1.0.3");
    let mut pool = Pool::new(2).unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for port in 0..64 {
        let frame = udp("20.1.1.1", port);
        let b = pool.packet_from(&frame[14..], 0).unwrap();
        let hash = flow_hash4(&pool, b);
        pool.free(b);
        let lb = r.engine.shared.load_balances.get_control(0).unwrap();
        let adj = lb.pick(hash).index();
        let want = r.engine.shared.adjacencies.get_control(adj).unwrap();
        let (_, hop, ..) = resolved(&r, &frame).unwrap();
        assert_eq!(hop, want.next_hop_ip4().to_string());
        seen.insert(hop);
    }
    assert_eq!(seen.len(), 2);
}

#[test]
fn labels_are_followed_and_cross_connects_are_not_routes() {
    let mut r = router(
        "mpls table add 0\nmpls local-label add 16 eos via 10.1.0.2 pg1 out-labels 17\n\
         mpls local-label add 18 eos via ip4-lookup-in-table 0",
    );
    let labelled = |label: u32| {
        let b = ethernet().mpls(label);
        let b = b.ipv4([10, 0, 0, 9].into(), [10, 1, 0, 3].into());
        b.udp(1, 2).payload_len(20).build()
    };
    let hop = |r: &Router, l| resolved(r, &labelled(l)).map(|x| (x.0, x.1));
    assert_eq!(hop(&r, 16), Some((2, "10.1.0.2".into())));
    assert_eq!(hop(&r, 18), Some((2, "0.0.0.0".into())));
    assert_eq!(hop(&r, 19), None);
    r.run_line("set interface l2 xconnect pg0 pg1", false)
        .unwrap();
    assert_eq!(hop(&r, 16), None);
}

#[test]
fn bridged_packets_are_told_where_they_go() {
    let mut r = router(
        "set interface l2 bridge pg0 1\nset interface l2 bridge pg1 1\ncreate loopback interface\n\
         set interface mac address loop0 02:00:00:00:00:99\nset interface state loop0 up\n\
         set interface l2 bridge loop0 1 bvi\nl2fib add 02:00:00:00:00:02 1 pg1",
    );
    let mut to = |mac: [u8; 6]| {
        let b = PacketBuilder::ethernet(MacAddr([2; 6]), MacAddr(mac));
        let header = b.payload_len(60).build();
        let packet = Sampled {
            header: &header,
            protocol: HeaderProtocol::Ethernet,
            rx_if: 1,
            tx_if: u32::MAX,
            direction: Direction::Rx,
            wanted: Records::NONE,
        };
        let mut found = Resolution::default();
        r.sflow.view.explain(&packet, &mut found);
        assert_eq!(found.passage, Passage::Switched);
        r.turn();
        found.bridged
    };
    assert_eq!(to([2, 0, 0, 0, 0, 2]), Some(Bridged::To(2)));
    assert_eq!(to([2, 0, 0, 0, 0, 0x99]), Some(Bridged::Up));
    assert_eq!(to([2, 0, 0, 0, 0, 7]), Some(Bridged::Flooded(2)));
    assert_eq!(to([0xFF; 6]), Some(Bridged::Flooded(2)));
}

#[test]
fn cut_and_foreign_headers_do_no_harm() {
    let r = router("ip route add 20.0.0.0/8 via 10.1.0.2");
    let frame = udp("20.1.1.1", 1);
    for n in 0..34 {
        assert_eq!(resolved(&r, &frame[..n]), None, "{n} bytes");
    }
    assert!(resolved(&r, &frame[..34]).is_some());
    assert_eq!(resolved(&r, &[0; 64]), None);
}

#[test]
fn interfaces_are_reported_with_what_is_set() {
    let r = router("sflow enable pg0 sampling-rate 100\nset interface promiscuous on pg1");
    let all = r.sflow.view.interfaces();
    let got: Vec<_> = all
        .iter()
        .map(|i| {
            (
                i.name.as_str(),
                i.if_index,
                i.admin_up,
                i.sflow,
                i.rate,
                i.promiscuous,
            )
        })
        .collect();
    assert_eq!(
        got,
        [
            ("pg0", 1, true, true, 100, false),
            ("pg1", 2, true, false, 0, true)
        ]
    );
    let own: Vec<String> = r
        .sflow
        .view
        .addresses()
        .iter()
        .map(|c| c.address.to_string())
        .collect();
    assert_eq!(own, ["10.0.0.1", "10.1.0.1", "2001:db8::1"]);
}

/// What is known of a packet, with everything asked for.
fn explained(r: &Router, packet: Sampled<'_>) -> Resolution {
    let wanted = Records::default().with(RecordKind::Tunnel, true);
    let mut found = Resolution::default();
    let packet = Sampled { wanted, ..packet };
    r.sflow.view.explain(&packet, &mut found);
    found
}

fn received(header: &[u8], rx_if: u32) -> Sampled<'_> {
    Sampled {
        header,
        protocol: HeaderProtocol::Ethernet,
        rx_if,
        tx_if: u32::MAX,
        direction: Direction::Rx,
        wanted: Records::NONE,
    }
}

#[test]
fn tunnels_that_a_packet_comes_out_of_and_goes_into_are_told() {
    let r = router(
        "create gre tunnel src 10.0.0.1 dst 10.0.0.9\nset interface state gre0 up\n\
         set interface ip address gre0 192.168.0.1/30\nip route add 30.0.0.0/8 via gre0\n\
         create vxlan tunnel src 10.0.0.1 dst 10.0.0.8 vni 77\nset interface state vxlan_tunnel0 up\n\
         set interface ip address vxlan_tunnel0 192.168.9.1/24\n\
         ip neighbor vxlan_tunnel0 192.168.9.2 02:00:00:00:09:02 static\n\
         ip route add 40.0.0.0/8 via 192.168.9.2\nip route add 20.0.0.0/8 via 10.1.0.2",
    );
    let (gre, vxlan) = (3, 4);
    let ends = |t: Option<parshall_agent::TunnelEnds>| {
        let t = t?;
        let ends = (t.src.to_string(), t.dst.to_string());
        Some((ends, t.protocol, t.dst_port, t.vni, t.overhead))
    };
    let ours = ("10.0.0.1".to_owned(), "10.0.0.9".to_owned());
    // Into GRE, with its class, and into VXLAN.
    let b = ethernet().ipv4([10, 0, 0, 9].into(), [30, 0, 0, 1].into());
    let frame = b.class(0xB8).udp(1, 2).payload_len(50).build();
    let found = explained(&r, received(&frame, 1));
    assert_eq!(found.route.map(|r| r.out_if), Some(gre));
    assert_eq!(found.goes_into.map(|t| t.class), Some(0xB8));
    assert_eq!(ends(found.goes_into), Some((ours.clone(), 47, 0, None, 24)));
    assert!(found.came_out_of.is_none() && found.inner_offset.is_none());
    let found = explained(&r, received(&udp("40.0.0.1", 7), 1));
    let vxlan_ends = ("10.0.0.1".to_owned(), "10.0.0.8".to_owned());
    assert_eq!(
        ends(found.goes_into),
        Some((vxlan_ends, 17, 4789, Some(77), 36))
    );
    let inner = udp("20.1.1.1", 7);
    // Out of GRE: what was sampled has no Ethernet header, and is routed as a packet of the tunnel.
    let packet = Sampled {
        protocol: HeaderProtocol::Ip4,
        ..received(&inner[14..], gre)
    };
    let found = explained(&r, packet);
    assert_eq!(found.route.map(|r| r.out_if), Some(2));
    let theirs = (ours.1.clone(), ours.0.clone());
    assert_eq!(ends(found.came_out_of), Some((theirs, 47, 0, None, 24)));
    // Out of a device on its way from the tunnel, it came out of it all the same.
    let out = Sampled {
        rx_if: vxlan,
        tx_if: 2,
        direction: Direction::Tx,
        ..received(&inner, vxlan)
    };
    assert_eq!(explained(&r, out).came_out_of.and_then(|t| t.vni), Some(77));
    // Not yet taken out of a tunnel, and put into one.
    let gre_frame = |src: [u8; 4], dst: [u8; 4]| {
        let b = ethernet().ipv4(src.into(), dst.into());
        let payload = [&[0, 0, 8, 0][..], &inner[14..]].concat();
        b.protocol(47.into()).payload(&payload).build()
    };
    let came = gre_frame([10, 0, 0, 9], [10, 0, 0, 1]);
    let found = explained(&r, received(&came, 1));
    assert_eq!(found.inner_offset, Some(14 + 20 + 4));
    let stranger = gre_frame([10, 0, 0, 10], [10, 0, 0, 1]);
    let found = explained(&r, received(&stranger, 1));
    assert_eq!(found.inner_offset, None);
    let left = gre_frame([10, 0, 0, 1], [10, 0, 0, 9]);
    let out = Sampled {
        tx_if: 1,
        direction: Direction::Tx,
        ..received(&left, 2)
    };
    assert_eq!(explained(&r, out).inner_offset, Some(14 + 20 + 4));
    for n in 0..came.len() {
        explained(&r, received(&came[..n], 1));
    }
}

#[test]
fn sub_interfaces_and_members_of_bonds_know_their_vlan_and_their_way() {
    let r = router(
        "create sub-interfaces pg1 10\nset interface state pg1.10 up\n\
         set interface ip address pg1.10 10.2.0.1/24\nip neighbor pg1.10 10.2.0.2 02:00:00:00:00:09 static\n\
         create bond mode round-robin\ncreate packet-generator interface pg2\n\
         bond add BondEthernet0 pg2\nset interface state pg2 up\nset interface state BondEthernet0 up\n\
         set interface ip address BondEthernet0 10.3.0.1/24\n\
         ip neighbor BondEthernet0 10.3.0.2 02:00:00:00:00:0a static",
    );
    let (sub, bond, member) = (3, 4, 5);
    let leaving = |header, tx_if| Sampled {
        tx_if,
        direction: Direction::Tx,
        ..received(header, 1)
    };
    let to_sub = udp("10.2.0.2", 1);
    let found = explained(&r, leaving(&to_sub, sub));
    assert_eq!(found.this_end, Some((10, 0)));
    assert_eq!(found.route.map(|r| r.out_if), Some(sub));
    // By the parent, where the tag is on: the way is still the one that the route names.
    let found = explained(&r, leaving(&to_sub, 2));
    assert_eq!(
        (found.this_end, found.route.map(|r| r.out_if)),
        (None, Some(2))
    );
    let to_bond = udp("10.3.0.2", 1);
    for tx_if in [bond, member] {
        let found = explained(&r, leaving(&to_bond, tx_if));
        assert_eq!(found.route.map(|r| r.out_if), Some(tx_if));
    }
    let all = r.sflow.view.interfaces();
    let vlans: Vec<_> = all.iter().map(|i| (i.if_type, i.vlan)).collect();
    assert_eq!(vlans[2], (135, Some(10)));
    assert_eq!(vlans[3], (161, None));
}

#[test]
fn the_access_list_that_dropped_a_packet_is_named() {
    let mut r = router("");
    let deny = |text: &str| format!("set acl-plugin acl {text}");
    let lines = [
        deny("permit proto 6 tag tcp-only"),
        deny("deny dst 20.0.0.0/8, permit tag no-twenty"),
        "set acl-plugin interface pg0 input acl 1".to_owned(),
        "set acl-plugin interface pg0 input acl 0".to_owned(),
        "set acl-plugin interface pg1 output acl 0".to_owned(),
    ];
    for line in &lines {
        r.run_line(line, false)
            .unwrap_or_else(|e| panic!("{line}: {e}"));
    }
    r.publish();
    let at = |name: &str| r.engine.graph.node(name).unwrap();
    let dropped = |node: &str, frame: &[u8], protocol| {
        let mut slot = DropSlot {
            rx_if: 1,
            tx_if: 2,
            slot: at(node),
            protocol,
            header_len: frame.len() as u16,
            ..DropSlot::default()
        };
        slot.header[..frame.len()].copy_from_slice(frame);
        let m = r.sflow.view.acl(&slot)?;
        Some((m.number, m.name, m.outward))
    };
    let twenty = udp("20.1.1.1", 1);
    let named = |n, name: &str, out| Some((n, name.to_owned(), out));
    use HeaderProtocol::{Ethernet, Ip4};
    assert_eq!(
        dropped("acl-in-ip4", &twenty, Ethernet),
        named(1, "no-twenty", false)
    );
    assert_eq!(
        dropped("acl-in-ip4", &twenty[14..], Ip4),
        named(1, "no-twenty", false)
    );
    // What no rule permits is denied behind the last list.
    assert_eq!(
        dropped("acl-out", &twenty, Ethernet),
        named(0, "tcp-only", true)
    );
    // By now it would pass: nothing is told.
    assert_eq!(dropped("acl-in-ip4", &udp("30.1.1.1", 1), Ethernet), None);
}
