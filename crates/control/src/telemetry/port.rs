//! Interfaces as the agent is to see them: what control publishes whenever something of them changes.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use parshall_agent::LagReport;
use parshall_counters::IfTotals;
use parshall_device::{DeviceInfo, Duplex, Hardware};
use parshall_nodes::vlan::{VlanDemux, VlanId, VlanMatch};

use crate::forwarding::Forwarding;
use crate::interface::Interface;
use crate::lacp;
use crate::objects::Objects;
use crate::prefix::Family;
use crate::virtual_interface::Vtr;

/// An interface as the agent is to see it.
#[derive(Clone, Debug, Default)]
pub struct Port {
    pub(super) index: u32,
    pub(super) if_index: u32,
    pub(super) incarnation: u64,
    pub(super) name: String,
    pub(super) up: bool,
    pub(super) link_up: bool,
    pub(super) promiscuous: bool,
    pub(super) mac: [u8; 6],
    pub(super) os_index: u32,
    pub(super) speed: u64,
    pub(super) duplex: Duplex,
    pub(super) sflow: bool,
    pub(super) rate: u32,
    pub(super) born: IfTotals,
    pub(super) routed: bool,
    /// MPLS is spoken.
    pub(super) mpls: bool,
    /// Table indices by family.
    pub(super) tables: [u32; 2],
    pub(super) addresses: Vec<IpAddr>,
    pub(super) loopback: bool,
    pub(super) if_type: u32,
    /// What it takes of which interface, if it is a sub-interface.
    pub(super) sub: Option<(u32, VlanMatch)>,
    /// Sub-interfaces of it.
    pub(super) demux: Option<Arc<VlanDemux>>,
    /// Tags change on the way in or out.
    pub(super) retags: bool,
    /// It sends packets behind an Ethernet header that only stands for what they are.
    pub(super) bare: bool,
    /// The bond that it is a member of.
    pub(super) bond: Option<u32>,
    /// What LACP says of it as a member.
    pub(super) lag: Option<LagReport>,
    /// Access lists of the way in and of the way out.
    pub(super) acls: AclNames,
    pub(super) hardware: Option<Arc<dyn Hardware>>,
}

/// Numbers and names of an interface's access lists in order: of the way in, and of the way out.
pub type AclNames = [Vec<(u32, String)>; 2];

/// What the agent is to see of an interface, beside what the interface says itself.
pub struct Aside<'a> {
    /// 1-in-N, 0 = it is not sampled.
    pub rate: u32,
    /// LACP of a member.
    pub lacp: Option<&'a lacp::Port>,
    /// Its access lists.
    pub acls: AclNames,
}

/// What the agent is to see of an interface.
pub fn port(i: &Interface, aside: Aside<'_>, forwarding: &Forwarding) -> Port {
    let info = i.device.as_ref().map(|d| d.info());
    let table = |f: Family| forwarding.table_index(f, i.table(f)).unwrap_or(0);
    Port {
        index: i.index,
        if_index: i.exported,
        incarnation: i.incarnation,
        name: i.name.clone(),
        up: i.up,
        link_up: i.up && info.as_ref().map_or(i.link, |d| d.link_up),
        promiscuous: i.promiscuous || i.is_switched(),
        mac: i.mac,
        os_index: own_os_index(i, info.as_ref()),
        speed: info.as_ref().map_or(i.speed, |d| d.speed),
        duplex: info.as_ref().map_or(Duplex::Unknown, |d| d.duplex),
        sflow: i.sflow.is_some(),
        rate: aside.rate,
        born: i.born,
        routed: !i.is_switched(),
        mpls: i.mpls,
        tables: [table(Family::Ip4), table(Family::Ip6)],
        addresses: i.addresses.iter().map(|a| a.0).collect(),
        loopback: info.is_some_and(|d| d.kind == "Loopback"),
        if_type: i.if_type(),
        sub: i.sub().map(|s| (s.parent, s.takes)),
        demux: None,
        retags: i.vtr != Vtr::default(),
        bare: i.is_point_to_point(),
        bond: i.member.map(|m| m.bond),
        lag: lag(i, aside.lacp),
        acls: aside.acls,
        hardware: i.hardware.clone(),
    }
}

/// What LACP says of a member.
fn lag(i: &Interface, lacp: Option<&lacp::Port>) -> Option<LagReport> {
    let (bond, lacp) = (i.member?.bond, lacp?);
    let (received, sent) = lacp.counted();
    Some(LagReport {
        bond,
        actor: lacp.actor().system,
        partner: lacp.partner().system,
        states: [
            lacp.configured(),
            lacp.actor().state,
            lacp::ASSUMED.state,
            lacp.partner().state,
        ],
        received,
        sent,
    })
}

/// ifIndex of an interface's Linux counterpart, 0 where there is none or it lives in another network namespace.
fn own_os_index(i: &Interface, info: Option<&DeviceInfo>) -> u32 {
    let here = i
        .spec
        .as_ref()
        .is_some_and(|s| s.kind.host_namespace().is_none());
    let index = info.filter(|_| here).and_then(|d| d.os_index);
    index.unwrap_or(0)
}

impl Port {
    /// The VLAN that what is sent through it gets, where it is a sub-interface that gives one.
    pub(super) fn own_vlan(&self) -> Option<(u32, u32)> {
        let known = |vlan: &(u32, u32)| vlan.0 != 0 && vlan.0 != u32::MAX;
        Some(self.vlan()).filter(known)
    }

    /// The one VLAN that it is: no other tag below, none that it takes besides.
    pub(super) fn only_vlan(&self) -> Option<u16> {
        match self.sub?.1 {
            VlanMatch::Tagged {
                outer: VlanId::Is(id),
                inner: None,
                ..
            } => Some(id),
            _ => None,
        }
    }

    /// VLAN and priority of what is sent through it: 0 without one.
    pub(super) fn vlan(&self) -> (u32, u32) {
        match self.sub {
            Some((
                _,
                VlanMatch::Tagged {
                    outer: VlanId::Is(id),
                    ..
                },
            )) => (id.into(), 0),
            Some((_, VlanMatch::Untagged)) | None => (0, 0),
            Some(_) => (u32::MAX, u32::MAX),
        }
    }
}

/// Tells interfaces of their sub-interfaces. They are in the order of their indices.
pub(super) fn join(ports: &mut [Port]) {
    let mut subs: BTreeMap<u32, Vec<_>> = BTreeMap::new();
    for p in ports.iter() {
        if let Some((parent, takes)) = p.sub {
            subs.entry(parent).or_default().push((takes, p.index));
        }
    }
    for (parent, subs) in subs {
        if let Ok(at) = ports.binary_search_by_key(&parent, |p| p.index) {
            ports[at].demux = Some(Arc::new(VlanDemux::new(subs)));
        }
    }
}

/// The interface with this index.
pub(super) fn find(ports: &[Port], index: u32) -> Option<&Port> {
    let at = ports.binary_search_by_key(&index, |p| p.index).ok()?;
    ports.get(at)
}

/// Whether what is routed out of `out` leaves through `tx_if`: its parent, or a member of the bond that one of the two is.
pub(super) fn same_way(ports: &[Port], out: &Port, tx_if: u32) -> bool {
    let parent = out.sub.map(|s| s.0);
    let bond = find(ports, tx_if).and_then(|p| p.bond);
    parent == Some(tx_if) || bond.is_some_and(|b| b == out.index || parent == Some(b))
}
