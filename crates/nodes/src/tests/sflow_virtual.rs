//! Sampling of what sub-interfaces, tunnels, bonds and routed interfaces of bridges receive and send.

use parshall_counters::IfTotals;
use parshall_ring::Consumer;
use parshall_sample::{HeaderProtocol, SampleSlot};

use super::bridge::Bridge;
use super::lab::*;
use super::parshall_nodes::bond::Choice;
use super::parshall_nodes::vlan::{VlanId, VlanMatch};
use super::parshall_nodes::{SflowSettings, SflowTxSettings, VirtualSamplers};
use super::tunnels;
use crate::tunnel::Encap;

/// Gives a node samplers, and tells it to sample interface `n`.
fn sample(lab: &mut Lab, node: &str, n: u32, rate: u32) -> Consumer<SampleSlot> {
    let (samplers, out) = VirtualSamplers::new(LIMITS.interfaces, 7);
    lab.tell(node, Some(samplers));
    tell(lab, node, n, rate);
    out
}

fn settings(n: u32, rate: u32) -> SflowSettings {
    SflowSettings {
        if_index: n,
        rate,
        header_bytes: 64,
    }
}

fn tell(lab: &mut Lab, node: &str, n: u32, rate: u32) {
    lab.tell(node, settings(n, rate));
}

fn taken(out: &mut Consumer<SampleSlot>) -> Vec<SampleSlot> {
    std::iter::from_fn(|| out.read(|s| *s)).collect()
}

fn totals(lab: &Lab, n: usize) -> IfTotals {
    let mut sum = IfTotals::default();
    lab.harness.dispatcher.counters.interfaces[n].add_to(&mut sum);
    sum
}

fn takes(outer: u16) -> VlanMatch {
    VlanMatch::Tagged {
        dot1ad: false,
        outer: VlanId::Is(outer),
        inner: None,
        exact: true,
    }
}

/// A packet from the host on interface `n` to the network behind interface 2.
fn packet(n: u32) -> Vec<u8> {
    let b = to_router(n).ipv4(host4(n), far4(2));
    b.udp(7, 8).payload_len(100).build()
}

fn tagged(frame: &[u8], vlan: u8) -> Vec<u8> {
    [&frame[..12], &[0x81, 0, 0, vlan], &frame[12..]].concat()
}

#[test]
fn a_sub_interface_is_sampled_with_its_tag_and_its_neighbours_are_not() {
    let mut lab = Lab::new();
    lab.add_sub(4, 1, takes(10));
    lab.add_sub(5, 1, takes(20));
    let mut out = sample(&mut lab, "ethernet-input", 4, 1);
    let frame = tagged(&packet(4), 10);
    let frames = [
        frame.clone(),
        tagged(&packet(5), 20),
        packet(1),
        frame.clone(),
    ];
    assert_eq!(lab.send_all(1, &frames).len(), 4);
    let got = taken(&mut out);
    assert_eq!(got.len(), 2);
    let s = got[0];
    assert_eq!((s.rx_if, s.tx_if, s.rate), (4, u32::MAX, 1));
    assert_eq!((s.frame_len, s.header_len), (146, 64));
    assert_eq!(s.header[..64], frame[..64]);
    assert_eq!(s.protocol, HeaderProtocol::Ethernet);
    for (n, pool) in [(1, 0), (4, 2), (5, 0)] {
        let t = totals(&lab, n);
        assert_eq!((t.sample_pool, t.samples, t.sample_drops), (pool, pool, 0));
    }
    tell(&mut lab, "ethernet-input", 4, 0);
    lab.send_all(1, &frames);
    assert_eq!((totals(&lab, 4).sample_pool, taken(&mut out).len()), (2, 0));
}

#[test]
fn the_pool_is_what_was_received_and_lost_samples_are_counted() {
    let mut lab = Lab::new();
    lab.add_sub(4, 1, takes(10));
    let mut out = sample(&mut lab, "ethernet-input", 4, 1);
    let frames = vec![tagged(&packet(4), 10); 250];
    for _ in 0..20 {
        lab.send_all(1, &frames);
    }
    let t = totals(&lab, 4);
    assert_eq!((t.sample_pool, t.rx_packets), (5000, 5000));
    assert_eq!(t.samples + t.sample_drops, 5000);
    assert!(t.sample_drops > 0, "the ring holds less");
    assert_eq!(taken(&mut out).len() as u64, t.samples);
}

#[test]
fn an_estimate_of_a_sub_interface_is_true() {
    let mut lab = Lab::new();
    lab.add_sub(4, 1, takes(10));
    let mut out = sample(&mut lab, "ethernet-input", 4, 50);
    let frames = vec![tagged(&packet(4), 10); 200];
    let mut n = 0;
    for _ in 0..500 {
        lab.send_all(1, &frames);
        n += taken(&mut out).len();
    }
    // 2,000 expected of 100,000, standard deviation 44.
    assert!((1800..=2200).contains(&n), "{n}");
}

#[test]
fn a_bond_is_sampled_whichever_member_received() {
    let mut lab = Lab::new();
    lab.add_bond(4, Choice::First, &[2, 3]);
    let mut out = sample(&mut lab, "bond-input", 4, 1);
    let b = to_router(4).ipv4(host4(4), far4(1));
    let frame = b.udp(7, 8).payload_len(10).build();
    for member in [2, 3] {
        lab.receive(member, &frame, 1);
        assert_eq!(lab.wait(1).len(), 1);
    }
    let got = taken(&mut out);
    assert!(got.len() == 2 && got.iter().all(|s| s.rx_if == 4));
    assert_eq!(got[1].header[..52], frame[..52]);
    assert_eq!(totals(&lab, 4).sample_pool, 2);
}

#[test]
fn a_tunnel_is_sampled_as_what_it_carries() {
    for (encap, protocol, outer, cut) in [
        (tunnels::VXLAN, HeaderProtocol::Ethernet, 16, 0),
        (Encap::Gre, HeaderProtocol::Ip4, 4, 14),
        (Encap::Ip, HeaderProtocol::Ip4, 0, 14),
    ] {
        let mut lab = tunnels::lab(encap, false);
        let mut out = sample(&mut lab, "tunnel-input", tunnels::T, 1);
        let b = to_router(tunnels::T).ipv4(host4(3), far4(1));
        let inner = b.udp(7, 8).payload_len(60).build();
        let header: &[u8] = match outer {
            16 => &tunnels::VXLAN_HEADER,
            4 => &[0, 0, 8, 0],
            _ => &[],
        };
        let payload = [header, &inner[cut..]].concat();
        let b = to_router(2).ipv4(far4(2), router4(2));
        let frame = match outer {
            16 => b.udp(9, 4789).payload(&payload).build(),
            4 => b.protocol(47.into()).payload(&payload).build(),
            _ => b.protocol(4.into()).payload(&payload).build(),
        };
        assert_eq!(lab.send(2, &frame).len(), 1, "{encap:?}");
        let got = taken(&mut out);
        assert_eq!(got.len(), 1, "{encap:?}");
        let s = got[0];
        assert_eq!((s.rx_if, s.protocol), (tunnels::T, protocol));
        assert_eq!(s.frame_len as usize, inner.len() - cut);
        let n = usize::from(s.header_len);
        assert_eq!(s.header[..n], inner[cut..cut + n], "{encap:?}");
    }
}

#[test]
fn what_is_sent_into_a_tunnel_for_packets_has_no_ethernet_header() {
    let mut lab = tunnels::lab(Encap::Gre, false);
    let dpo = tunnels::into_tunnel(&lab, parshall_wire::EtherType::IPV4);
    lab.route4("192.0.2.0/24", dpo);
    lab.graph
        .set_feature("sflow-output", tunnels::T, true)
        .unwrap();
    let sending = SflowTxSettings {
        sampling: settings(tunnels::T, 1),
        queue: 0,
        bare: true,
    };
    lab.tell("sflow-output", sending);
    let b = to_router(1).ipv4(host4(1), [192, 0, 2, 9].into());
    let frame = b.udp(7, 8).payload_len(60).build();
    assert_eq!(lab.send(1, &frame).len(), 1);
    let s = lab.out.tx_samples.read(|s| *s).unwrap();
    assert_eq!((s.tx_if, s.rx_if), (tunnels::T, 1));
    assert_eq!(s.protocol, HeaderProtocol::Ip4);
    assert_eq!((s.frame_len, s.header[0]), (88, 0x45));
    assert_eq!(s.header[12..20], frame[26..34]);
}

#[test]
fn the_routed_interface_of_a_bridge_is_sampled() {
    let mut bridge = Bridge::new(super::bridge::ALL).with_bvi();
    let lab = &mut bridge.lab;
    let mut to_one = sample(lab, "l2-fwd", 3, 1);
    let mut to_all = sample(lab, "l2-flood", 3, 1);
    let mut frame = packet(1);
    frame[..6].copy_from_slice(&router_mac(3).0);
    lab.send(1, &frame);
    assert_eq!(taken(&mut to_one).len(), 1);
    frame[..6].fill(0xFF);
    lab.send(1, &frame);
    let got = taken(&mut to_all);
    assert!(got.len() == 1 && got[0].rx_if == 3);
    let t = totals(lab, 3);
    assert_eq!((t.sample_pool, t.rx_packets), (2, 2));
}
