//! Drops of what is configured beyond interfaces and routes: bridge domains, access lists, tunnels.

use std::net::IpAddr;

use parshall_acl::{AclList, AclTables, Compiled, Entry, Hits};
use parshall_fib::{MacEntry, MacKey, MacWriter};
use parshall_nodes::tunnel::{Encap, TunnelKey, Tunnels};
use parshall_nodes::{BridgeDomain, BridgePort, BridgeTable, FloodMember, PortRole, bridge_flags};

use super::*;

const DOMAIN: u16 = 1;
const VNI: [u8; 8] = [8, 0, 0, 0, 0x12, 0x34, 0x56, 0];

fn station(n: u8) -> MacAddr {
    MacAddr([2, 0xAA, 0, 0, 0, n])
}

fn between(from: MacAddr, to: MacAddr) -> Vec<u8> {
    PacketBuilder::ethernet(from, to).payload_len(60).build()
}

/// Interfaces 1 to 3 in a bridge domain that does all but `without`; `edit` changes its ports.
fn bridge(without: u8, edit: impl FnOnce(&mut [BridgePort])) -> Lab {
    let all =
        bridge_flags::LEARN | bridge_flags::FORWARD | bridge_flags::FLOOD | bridge_flags::UU_FLOOD;
    let port = BridgePort {
        domain: DOMAIN,
        flags: all & !without,
        ..BridgePort::default()
    };
    let mut lab = Lab::new();
    for n in 1..=3 {
        lab.edit(n, |view, _| view.flags |= if_flags::BRIDGE);
    }
    let mut ports = vec![BridgePort::default(), port, port, port];
    edit(&mut ports);
    let normal = |p: &(u32, BridgePort)| p.1.role == PortRole::Normal && p.1.domain == DOMAIN;
    let member = |(if_index, p): (u32, BridgePort)| FloodMember {
        if_index,
        shg: p.shg,
    };
    let domain = BridgeDomain {
        members: (0..)
            .zip(ports.iter().copied())
            .filter(normal)
            .map(member)
            .collect(),
        bvi: IF_NONE,
        uu_fwd: IF_NONE,
        ..BridgeDomain::default()
    };
    let table = BridgeTable::new(ports, vec![BridgeDomain::default(), domain]);
    lab.shared.bridges.publish(&lab.shared.domain, table);
    lab
}

/// The same where a station is known.
fn knowing(without: u8, mac: MacAddr, if_index: u32, flags: u32) -> Lab {
    let lab = bridge(without, |_| {});
    let mut macs = MacWriter::new(lab.shared.macs.clone());
    let entry = MacEntry::new(if_index, flags | MacEntry::SEEN);
    macs.set(MacKey::new(DOMAIN, mac.0), entry, 0).unwrap();
    lab
}

pub fn bridges() -> Vec<Case> {
    use DropReason as D;
    let (a, b) = (station(1), station(2));
    let at = |reason, lab, from, to| Case::frame(reason, "l2-fwd", lab, between(from, to));
    let apart = |ports: &mut [BridgePort]| ports.iter_mut().for_each(|p| p.shg = 7);
    let split = bridge(0, apart);
    MacWriter::new(split.shared.macs.clone())
        .set(
            MacKey::new(DOMAIN, b.0),
            MacEntry::new(2, MacEntry::SEEN),
            0,
        )
        .unwrap();
    let lldp = MacAddr([1, 0x80, 0xC2, 0, 0, 0x0E]);
    let fixed = |mac, n| knowing(0, mac, n, MacEntry::STATIC);
    let filter = MacEntry::FILTER | MacEntry::STATIC;
    vec![
        at(D::L2Reserved, bridge(0, |_| {}), a, lldp),
        at(D::L2NoBridge, bridge(0, |p| p[1].domain = 0), a, b),
        at(
            D::L2Filtered,
            knowing(0, b, MacEntry::NOWHERE, filter),
            a,
            b,
        ),
        at(D::L2MacMoved, fixed(a, 2), a, b),
        at(D::L2SamePort, fixed(b, 1), a, b),
        at(D::L2SplitHorizon, split, a, b),
        at(
            D::L2UnknownUnicast,
            bridge(bridge_flags::UU_FLOOD, |_| {}),
            a,
            b,
        ),
        at(
            D::L2FloodOff,
            bridge(bridge_flags::FLOOD, |_| {}),
            a,
            MacAddr::BROADCAST,
        ),
        at(D::L2ForwardOff, bridge(bridge_flags::FORWARD, |_| {}), a, b),
        Case::frame(
            D::L2NoMember,
            "l2-flood",
            bridge(0, apart),
            between(a, MacAddr::BROADCAST),
        ),
    ]
}

/// A list without rules lets nothing in.
pub fn access_lists() -> Vec<Case> {
    let lab = Lab::new();
    let list = AclList {
        rules: Vec::new().into(),
        hits: Arc::new(Hits::new(1, 0)),
    };
    let entry = Entry {
        lists: Arc::new(Compiled::new(&[list], true)),
        unmatched: Arc::new(Hits::new(1, 1)),
    };
    let tables = AclTables {
        input: vec![None, Some(entry)],
        ..AclTables::default()
    };
    lab.shared.acls.publish(&lab.shared.domain, tables);
    lab.graph.set_feature("acl-in-ip4", 1, true).unwrap();
    let frame = to(FAR).build();
    vec![Case::frame(DropReason::AclDeny, "acl-in-ip4", lab, frame)]
}

/// A router with a tunnel to the far end of interface 1.
fn tunnel(encap: Encap) -> Lab {
    let mut lab = Lab::new();
    lab.add_virtual(4, "tunnel-output");
    let (local, remote): (IpAddr, IpAddr) = (router4(1).into(), far4(1).into());
    let key = TunnelKey {
        local,
        remote,
        table: 0,
        encap,
    };
    let table = Tunnels::new([(4, key)]);
    lab.shared.tunnels.publish(&lab.shared.domain, table);
    lab
}

pub fn tunnels() -> Vec<Case> {
    use DropReason as D;
    let vxlan = |header: [u8; 8]| {
        let inner = between(station(1), station(2));
        let outer = to_router(1).ipv4(far4(1), router4(1)).udp(50_000, 4789);
        outer.payload(&[&header[..], &inner].concat()).build()
    };
    let gre = |header: [u8; 4]| {
        let outer = to_router(1).ipv4(far4(1), router4(1));
        let payload = [&header[..], &[9; 40]].concat();
        outer.protocol(IpProtocol(47)).payload(&payload).build()
    };
    let over_vxlan = || {
        tunnel(Encap::Vxlan {
            vni: 0x12_3456,
            port: 4789,
        })
    };
    let at = |reason, lab, frame| Case::frame(reason, "tunnel-input", lab, frame);
    let (mut other, mut unflagged) = (VNI, VNI);
    other[6] += 1;
    unflagged[0] = 0;
    vec![
        at(D::NoTunnel, over_vxlan(), vxlan(other)),
        at(D::VxlanMalformed, over_vxlan(), vxlan(unflagged)),
        // Version 1, and ARP inside.
        at(D::GreMalformed, tunnel(Encap::Gre), gre([0, 1, 8, 0])),
        at(D::TunnelPayload, tunnel(Encap::Gre), gre([0, 0, 8, 6])),
    ]
}
