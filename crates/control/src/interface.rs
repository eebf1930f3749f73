//! Interfaces as control keeps them, and the table of them.
//!
//! Pure bookkeeping: what an interface is and has been told. Making it so is the router's business.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use parshall_counters::IfTotals;
use parshall_device::{Device, Hardware};
use parshall_drivers::pg::PgHandle;
use parshall_graph::RxMode;
use parshall_nodes::vlan::{Tags, VlanDemux, VlanView, VlanViews};
use parshall_nodes::{IfAddresses, IfTable, IfView, if_flags};
use parshall_wire::MacAddr;

use crate::drivers::{DeviceKind, DeviceSpec};
use crate::error::{Error, Result};
use crate::prefix::{Family, IpNet};
use crate::sampling::SflowPort;
use crate::virtual_interface::{BondSpec, Membership, SubSpec, VirtualKind, Vtr};

/// Bytes of an Ethernet header.
pub const ETHERNET: u32 = 14;

/// Counters of a tunnel for packets. What workers count of what it sends has an Ethernet header, which is never sent: it tells
/// their loops, which know no kinds of interfaces, where the packet begins.
pub fn without_ethernet(mut totals: IfTotals) -> IfTotals {
    // Packets and bytes are not read in one instant.
    let headers = totals.tx_packets.saturating_mul(u64::from(ETHERNET));
    totals.tx_bytes = totals.tx_bytes.saturating_sub(headers);
    totals
}
/// Largest IP packet of a new interface whose device carries more.
pub const DEFAULT_MTU: u32 = 9000;
/// Smallest MTU there can be (RFC 791).
pub const MIN_MTU: u32 = 68;

/// Where a receive queue is polled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Queue.
    pub queue: usize,
    /// Worker.
    pub worker: usize,
    /// When it is looked at.
    pub mode: RxMode,
    /// It has a descriptor that says when packets wait.
    pub can_wait: bool,
}

/// What an interface was told that its state does not tell from what came by itself: for a configuration written out of
/// the running router.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Its MTU, and whether the device's frame was to stay as it is.
    pub mtu: Option<(u32, bool)>,
    /// Workers of receive queues.
    pub placement: BTreeMap<usize, usize>,
    /// How all its queues are looked at.
    pub rx_mode: Option<RxMode>,
}

/// An interface.
pub struct Interface {
    /// Its number.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// How it was asked for; `None` for local0.
    pub spec: Option<DeviceSpec>,
    /// The interface that it is a part of.
    pub parent: Option<u32>,
    /// Number in the name that its kind would give.
    pub instance: u32,
    /// The device; `None` for local0.
    pub device: Option<Box<dyn Device>>,
    /// The hardware behind it, where it can be asked.
    pub hardware: Option<Arc<dyn Hardware>>,
    /// Controls of a generator.
    pub pg: Option<PgHandle>,
    /// Administratively up.
    pub up: bool,
    /// The device had a link when last looked at.
    pub link: bool,
    /// Largest IP packet.
    pub mtu: u32,
    /// That is its parent's.
    pub inherits_mtu: bool,
    /// Longest frame.
    pub max_frame: u32,
    /// MTU and longest frame that it was made with.
    pub born_sizes: (u32, u32),
    /// Settings that were given.
    pub told: Told,
    /// Bits per second of its link when that was last there, 0 = unknown.
    pub speed: u64,
    /// Transmit queues that workers have.
    pub tx_queues: usize,
    /// The ifIndex that goes with its name.
    pub if_index: u32,
    /// The ifIndex that it is exported under.
    pub exported: u32,
    /// Tells it from others that had its number.
    pub incarnation: u64,
    /// Ethernet address.
    pub mac: [u8; 6],
    /// Receives everything because it was told so.
    pub promiscuous: bool,
    /// Cross-connect peer.
    pub xconnect: Option<u32>,
    /// It is a port of a bridge domain, and not its routed one.
    pub bridged: bool,
    /// Change of the tags of its frames.
    pub vtr: Vtr,
    /// Addresses in the order they were given.
    pub addresses: Vec<(IpAddr, u8)>,
    /// The interface whose addresses it uses, having none.
    pub unnumbered: Option<u32>,
    /// Those addresses.
    pub borrowed: Vec<(IpAddr, u8)>,
    /// What it is to a bond.
    pub member: Option<Membership>,
    /// What its user calls it; nothing depends on it.
    pub tag: Option<String>,
    /// IPv6 is spoken even without an address.
    pub ip6_enabled: bool,
    /// Table numbers by family.
    pub tables: [u32; 2],
    /// MPLS is spoken.
    pub mpls: bool,
    /// sFlow is on.
    pub sflow: Option<SflowPort>,
    /// Receive queues.
    pub placement: Vec<Placement>,
    /// Counters when it was made: its number may have been another's.
    pub born: IfTotals,
    /// Counters when they were last cleared.
    pub cleared: IfTotals,
}

impl Interface {
    /// The interface that is always there and leads nowhere.
    pub fn local0() -> Interface {
        Interface {
            index: 0,
            name: "local0".into(),
            spec: None,
            parent: None,
            instance: 0,
            device: None,
            hardware: None,
            pg: None,
            up: false,
            link: false,
            mtu: 0,
            inherits_mtu: false,
            max_frame: 0,
            born_sizes: (0, 0),
            told: Told::default(),
            speed: 0,
            tx_queues: 0,
            if_index: 0,
            exported: 0,
            incarnation: 0,
            mac: [0; 6],
            promiscuous: false,
            xconnect: None,
            bridged: false,
            vtr: Vtr::default(),
            addresses: Vec::new(),
            unnumbered: None,
            borrowed: Vec::new(),
            member: None,
            tag: None,
            ip6_enabled: false,
            tables: [0; 2],
            mpls: false,
            sflow: None,
            placement: Vec::new(),
            born: IfTotals::default(),
            cleared: IfTotals::default(),
        }
    }

    /// What it is, if it has no device.
    pub fn virtual_kind(&self) -> Option<&VirtualKind> {
        match &self.spec.as_ref()?.kind {
            DeviceKind::Virtual(kind) => Some(kind),
            _ => None,
        }
    }
    /// The tunnel whose end it is.
    pub fn tunnel(&self) -> Option<&crate::tunnel::TunnelSpec> {
        self.virtual_kind()?.tunnel()
    }
    /// What was counted from `before` to `now`, as people and collectors are told it.
    pub fn counted(&self, now: &IfTotals, before: &IfTotals) -> IfTotals {
        let totals = now.since(before);
        if self.is_point_to_point() {
            without_ethernet(totals)
        } else {
            totals
        }
    }
    /// Whether what is sent on it has one place to go, and no Ethernet address.
    pub fn is_point_to_point(&self) -> bool {
        self.tunnel().is_some_and(|t| t.is_point_to_point())
    }
    /// What it takes of its parent's frames, if it is a sub-interface.
    pub fn sub(&self) -> Option<&SubSpec> {
        self.virtual_kind()?.sub()
    }
    /// What it does, if it is a bond.
    pub fn bond(&self) -> Option<&BondSpec> {
        self.virtual_kind()?.bond()
    }
    /// The tags that its frames are known to begin with.
    pub fn tags(&self) -> Tags {
        self.sub().map_or(Tags::NONE, |s| s.takes.tags())
    }
    /// ifType (IANAifType-MIB).
    pub fn if_type(&self) -> u32 {
        self.virtual_kind().map_or(6, VirtualKind::if_type)
    }
    /// Whether its frames are switched, not routed.
    pub fn is_switched(&self) -> bool {
        self.xconnect.is_some() || self.bridged
    }
    /// Table of a family.
    pub fn table(&self, family: Family) -> u32 {
        self.tables[family as usize]
    }
    /// Its addresses, those that it borrows included.
    pub fn all_addresses(&self) -> impl Iterator<Item = &(IpAddr, u8)> {
        self.addresses.iter().chain(&self.borrowed)
    }
    /// Whether it speaks a family.
    pub fn speaks(&self, family: Family) -> bool {
        let has = |a: &(IpAddr, u8)| Family::of(a.0) == family;
        self.all_addresses().any(has) || (family == Family::Ip6 && self.ip6_enabled)
    }
    /// Link-local address, when IPv6 is spoken.
    pub fn link_local(&self) -> Option<Ipv6Addr> {
        self.speaks(Family::Ip6)
            .then(|| MacAddr(self.mac).link_local())
    }
    /// Whether `ip` is one of its own addresses.
    pub fn owns(&self, ip: IpAddr) -> bool {
        self.all_addresses().any(|a| a.0 == ip)
            || self.link_local().is_some_and(|l| IpAddr::V6(l) == ip)
    }
    /// Whether `ip` is on the link: in a subnet, or link-local.
    pub fn on_link(&self, ip: IpAddr) -> bool {
        self.in_subnet(ip) || is_link_local(ip) && self.speaks(Family::Ip6)
    }
    /// Whether `ip` is in a subnet of one of its addresses.
    pub fn in_subnet(&self, ip: IpAddr) -> bool {
        let has = |(a, l): &(IpAddr, u8)| IpNet::new(*a, *l).contains(ip);
        self.all_addresses().any(has)
    }
    /// The address to speak to `ip` from: one of the same subnet, or link-local, or any of the family.
    pub fn source_for(&self, ip: IpAddr) -> Option<IpAddr> {
        let link_local = || self.link_local().map(IpAddr::V6);
        if is_link_local(ip) {
            return link_local();
        }
        let same = |(a, l): &&(IpAddr, u8)| IpNet::new(*a, *l).contains(ip);
        let family = |a: &&(IpAddr, u8)| Family::of(a.0) == Family::of(ip);
        let best = self.all_addresses().find(same);
        let any = || {
            link_local()
                .filter(|_| ip.is_ipv6())
                .or_else(|| self.all_addresses().find(family).map(|a| a.0))
        };
        best.map(|a| a.0).or_else(any)
    }
    /// What workers are to know of it.
    pub fn view(&self, index_of: impl Fn(Family, u32) -> u32) -> IfView {
        let flag = |on: bool, bit: u32| if on { bit } else { 0 };
        let flags = if_flags::EXISTS
            | flag(self.up, if_flags::UP)
            | flag(self.xconnect.is_some(), if_flags::XCONNECT)
            | flag(self.bridged, if_flags::BRIDGE)
            | flag(self.speaks(Family::Ip4), if_flags::IP4)
            | flag(self.speaks(Family::Ip6), if_flags::IP6)
            | flag(self.mpls, if_flags::MPLS)
            | flag(self.promiscuous, if_flags::PROMISC)
            | flag(self.vtr != Vtr::default(), if_flags::RETAG);
        IfView {
            flags,
            peer: self.xconnect.unwrap_or(parshall_buffer::IF_NONE),
            ip4_table: index_of(Family::Ip4, self.table(Family::Ip4)),
            ip6_table: index_of(Family::Ip6, self.table(Family::Ip6)),
            mac: IfView::mac_word(self.mac),
            mtu: self.mtu,
        }
    }
    /// Its addresses as workers are to know them.
    pub fn shared_addresses(&self) -> IfAddresses {
        let mut out = IfAddresses {
            link_local: self.link_local(),
            ..IfAddresses::default()
        };
        for (addr, len) in self.all_addresses() {
            match addr {
                IpAddr::V4(a) => out.ip4.push((*a, *len)),
                IpAddr::V6(a) => out.ip6.push((*a, *len)),
            }
        }
        out
    }
    /// Network namespace of the Linux interface behind it, where that is another than the router's.
    pub fn namespace(&self) -> Option<&str> {
        self.spec.as_ref()?.kind.host_namespace()
    }
    /// "up" or "down".
    pub fn state_word(&self) -> &'static str {
        if self.up { "up" } else { "down" }
    }
}

/// Whether an address has no meaning beyond its link.
pub fn is_link_local(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(a) if a.segments()[0] & 0xFFC0 == 0xFE80)
}

/// Whether an address can be an interface's.
///
/// # Errors
/// Says why not.
pub fn check_own_address(addr: IpAddr, len: u8) -> Result<()> {
    let why = match addr {
        _ if addr.is_multicast() => "is a multicast address",
        _ if addr.is_unspecified() => "is the unspecified address",
        _ if len == 0 => "has prefix length 0: it would cover everything",
        IpAddr::V4(a) if a.is_loopback() || a.octets()[0] == 0 => "is not a unicast address",
        IpAddr::V4(a) if a.octets()[0] >= 240 => "is not a unicast address",
        IpAddr::V4(a) if len < 31 && host_part(a, len) == 0 => "is the address of the subnet",
        IpAddr::V4(a) if len < 31 && host_part(a, len) == u32::MAX >> len => {
            "is the broadcast address of the subnet"
        }
        IpAddr::V6(a) if a.is_loopback() => "is the loopback address",
        _ if is_link_local(addr) => "is link-local: the router makes that one itself",
        _ => return Ok(()),
    };
    Err(Error::refused(format!("{addr}/{len} {why}")))
}

fn host_part(a: Ipv4Addr, len: u8) -> u32 {
    u32::from(a) & (u32::MAX >> len)
}

/// All interfaces by number.
pub struct Interfaces {
    slots: Vec<Option<Interface>>,
}

impl Default for Interfaces {
    fn default() -> Self {
        Interfaces {
            slots: vec![Some(Interface::local0())],
        }
    }
}

impl Interfaces {
    /// All there are, in order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = &Interface> {
        self.slots.iter().flatten()
    }
    /// All there are, to change.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Interface> {
        self.slots.iter_mut().flatten()
    }
    /// One by number.
    pub fn get(&self, index: u32) -> Option<&Interface> {
        self.slots.get(index as usize)?.as_ref()
    }
    /// One by number, to change.
    pub fn get_mut(&mut self, index: u32) -> Option<&mut Interface> {
        self.slots.get_mut(index as usize)?.as_mut()
    }
    /// Name of one, for messages.
    pub fn name(&self, index: u32) -> String {
        self.get(index)
            .map_or_else(|| format!("DELETED ({index})"), |i| i.name.clone())
    }
    /// Number of the interface with this name.
    ///
    /// # Errors
    /// When there is none: with names that come near.
    pub fn find(&self, name: &str) -> Result<u32> {
        if let Some(i) = self.iter().find(|i| i.name == name) {
            return Ok(i.index);
        }
        let mut near: Vec<(usize, &str)> = self
            .iter()
            .map(|i| (distance(name, &i.name), i.name.as_str()))
            .filter(|(d, n)| *d <= 2 && *d < n.len())
            .collect();
        near.sort_unstable();
        Err(Error::NoInterface {
            name: name.into(),
            near: near.into_iter().take(3).map(|n| n.1.to_owned()).collect(),
        })
    }
    /// Like [`find`](Self::find), for what local0 cannot do.
    ///
    /// # Errors
    /// As there, and for local0.
    pub fn find_real(&self, name: &str) -> Result<u32> {
        match self.find(name)? {
            0 => Err(Error::Interface {
                name: name.into(),
                why: "stands for the router itself and cannot be changed".into(),
            }),
            index => Ok(index),
        }
    }
    /// The lowest free number below `limit` that is not `taken` otherwise.
    ///
    /// # Errors
    /// When all are taken.
    pub fn free_index(&self, limit: usize, taken: impl Fn(u32) -> bool) -> Result<u32> {
        let is_free =
            |at: &usize| self.slots.get(*at).is_none_or(Option::is_none) && !taken(*at as u32);
        let at = (0..limit).find(is_free).unwrap_or(limit);
        if at >= limit {
            return Err(Error::Full(format!(
                "interface table full: the limit is {limit} interfaces"
            )));
        }
        Ok(at as u32)
    }
    /// Puts one in under its number.
    pub fn insert(&mut self, interface: Interface) {
        let at = interface.index as usize;
        if at >= self.slots.len() {
            self.slots.resize_with(at + 1, || None);
        }
        self.slots[at] = Some(interface);
    }
    /// Takes one out.
    pub fn remove(&mut self, index: u32) -> Option<Interface> {
        self.slots.get_mut(index as usize)?.take()
    }
    /// What workers are to know of all.
    pub fn table(&self, index_of: impl Fn(Family, u32) -> u32) -> IfTable {
        let vlans = self.vlans();
        let parents = |i: &Interface| match vlans.get(&i.index) {
            Some(VlanView { demux: Some(_), .. }) => if_flags::SUBS,
            _ => 0,
        };
        let table = IfTable::new(self.slots.iter().map(|slot| match slot {
            Some(i) => {
                let mut view = i.view(&index_of);
                view.flags |= parents(i);
                (view, i.shared_addresses())
            }
            None => (IfView::default(), IfAddresses::default()),
        }));
        table.with_vlans(vlans).with_bonds(self.bonds())
    }

    /// What interfaces have to do with tags.
    fn vlans(&self) -> VlanViews {
        let mut views = VlanViews::new();
        let mut subs: BTreeMap<u32, Vec<_>> = BTreeMap::new();
        for i in self.iter() {
            let (sub, own) = (i.sub(), i.tags());
            if sub.is_none() && i.vtr == Vtr::default() {
                continue;
            }
            // It was checked when it was set.
            let (rewrite_in, rewrite_out) = i.vtr.rewrites(&own).unwrap_or_default();
            let view = VlanView {
                parent: sub.map_or(parshall_buffer::IF_NONE, |s| s.parent),
                tags: own,
                rewrite_in,
                rewrite_out,
                ..VlanView::NONE
            };
            views.insert(i.index, view);
            if let Some(s) = sub {
                subs.entry(s.parent).or_default().push((s.takes, i.index));
            }
        }
        for (parent, subs) in subs {
            views.entry(parent).or_insert(VlanView::NONE).demux = Some(VlanDemux::new(subs));
        }
        views
    }
}

/// Edit distance of short names (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().take(32).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().take(32).enumerate() {
        let mut corner = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let swap = corner + usize::from(x != *y);
            corner = row[j + 1];
            row[j + 1] = swap.min(corner + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &str, addresses: &[&str]) -> Interface {
        let addresses = addresses
            .iter()
            .map(|t| {
                let (a, l) = t.split_once('/').unwrap();
                (a.parse().unwrap(), l.parse().unwrap())
            })
            .collect();
        Interface {
            index: 1,
            name: name.into(),
            mac: [2, 0xfe, 0, 0, 0, 1],
            addresses,
            ..Interface::local0()
        }
    }

    #[test]
    fn the_source_is_of_the_same_subnet_where_there_is_one() {
        let i = with("pg0", &["10.0.0.1/24", "10.1.0.1/24", "2001:db8::1/64"]);
        let source = |ip: &str| i.source_for(ip.parse().unwrap()).map(|a| a.to_string());
        assert_eq!(source("10.1.0.9").as_deref(), Some("10.1.0.1"));
        assert_eq!(source("192.0.2.1").as_deref(), Some("10.0.0.1"));
        assert_eq!(source("2001:db8::9").as_deref(), Some("2001:db8::1"));
        assert_eq!(source("fe80::9").as_deref(), Some("fe80::fe:ff:fe00:1"));
        assert_eq!(source("2001:db9::9").as_deref(), Some("fe80::fe:ff:fe00:1"));
        assert_eq!(with("x", &[]).source_for("10.0.0.9".parse().unwrap()), None);
    }

    #[test]
    fn names_near_the_asked_one_are_suggested() {
        let mut t = Interfaces::default();
        t.insert(with("tap0", &[]));
        assert_eq!(t.find("tap0"), Ok(1));
        let e = t.find("tpa0").unwrap_err().to_string();
        assert_eq!(e, "no interface is called tpa0; did you mean tap0?");
        assert!(t.find_real("local0").is_err());
        assert_eq!(t.free_index(8, |_| false), Ok(2));
        assert!(
            t.free_index(2, |n| n == 9)
                .unwrap_err()
                .to_string()
                .contains("limit is 2")
        );
    }

    #[test]
    fn addresses_that_cannot_be_an_interfaces_are_refused() {
        for (text, len) in [
            ("224.0.0.1", 24),
            ("0.0.0.0", 8),
            ("127.0.0.1", 8),
            ("10.0.0.0", 24),
            ("10.0.0.255", 24),
            ("255.255.255.255", 32),
            ("::", 64),
            ("::1", 128),
            ("ff02::1", 64),
            ("fe80::1", 64),
            ("10.0.0.1", 0),
        ] {
            assert!(
                check_own_address(text.parse().unwrap(), len).is_err(),
                "{text}/{len}"
            );
        }
        for (text, len) in [("10.0.0.0", 31), ("10.0.0.1", 32), ("2001:db8::", 64)] {
            assert_eq!(check_own_address(text.parse().unwrap(), len), Ok(()));
        }
    }
}
