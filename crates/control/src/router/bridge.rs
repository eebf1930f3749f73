//! Bridge domains: making and changing them, their ports, and the stations that are configured in them.

use std::net::{Ipv4Addr, Ipv6Addr};

use parshall_buffer::IF_NONE;
use parshall_fib::{MacEntry, MacKey, MacRecord};
use parshall_graph::WorkerCommand;
use parshall_nodes::{BridgeDomain, BridgePort, BridgeTable, FloodMember, PortRole};

use super::Router;
use crate::bridge::{
    BridgeConfig, Domain, MacNews, PortConfig, Station, StationKind, check_tag, seconds,
};
use crate::drivers::{DeviceKind, DeviceSpec};
use crate::error::{Error, Result};
use crate::interface::Interface;

/// What the names of loopbacks made to be routed interfaces start with, and their largest number.
const BVI: &str = "bvi";
const BVI_MAX: u32 = 16_383;

/// A station in the table, for those who list it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct L2FibEntry {
    /// Domain, as users number it.
    pub bd_id: u32,
    /// Number that workers know the domain by.
    pub bd_index: u16,
    /// Address.
    pub mac: [u8; 6],
    /// Interface; filters have none.
    pub if_index: Option<u32>,
    /// What was configured of it; `None` = it was learned.
    pub kind: Option<StationKind>,
    /// Seconds since it was last seen.
    pub age: u32,
}

/// Learned stations to forget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flush {
    /// All.
    All,
    /// Those of a domain.
    Domain(u32),
    /// Those behind an interface.
    Interface(u32),
}

/// Learned stations that nothing can be behind any more.
#[derive(Clone, Copy)]
pub(super) enum Forget {
    /// Those of a domain, by the number that workers know it by.
    Domain(u16),
    /// Those behind an interface.
    Interface(u32),
}

impl Forget {
    pub(super) fn is(self, r: &MacRecord) -> bool {
        match self {
            Forget::Domain(index) => r.key.domain() == index,
            Forget::Interface(index) => r.entry.if_index() == index,
        }
    }
}

impl Router {
    /// Makes a bridge domain.
    ///
    /// # Errors
    /// When there is one of this number, there are too many, or a setting is out of range.
    pub fn create_bridge_domain(&mut self, id: u32, config: BridgeConfig) -> Result<()> {
        self.bridges.add(id, config)?;
        self.publish_bridges();
        self.undo(move |r| r.delete_bridge_domain(id));
        Ok(())
    }

    /// Deletes a bridge domain, with the stations that are configured in it.
    ///
    /// # Errors
    /// When there is none of this number, or it has ports.
    pub fn delete_bridge_domain(&mut self, id: u32) -> Result<()> {
        let domain = self.bridges.get(id)?;
        if let Some(port) = domain.ports.first() {
            return Err(Error::in_use(format!(
                "bridge domain {id} is in use: interface {} is a port of it",
                self.interfaces.name(*port)
            )));
        }
        let index = domain.index;
        self.remove_stations(|key, _| key.0 == id)?;
        self.forget_stations(Forget::Domain(index));
        let Some(was) = self.bridges.remove(id) else {
            return Ok(());
        };
        self.publish_bridges();
        self.undo(move |r| {
            r.bridges.add(id, was.config)?;
            let domain = r.bridges.get_mut(id)?;
            (domain.arp, domain.nd) = (was.arp, was.nd);
            r.publish_bridges();
            Ok(())
        });
        Ok(())
    }

    /// Changes what a bridge domain does.
    ///
    /// # Errors
    /// When there is none of this number, or a setting is out of range.
    pub fn set_bridge_config(
        &mut self,
        id: u32,
        change: impl FnOnce(&mut BridgeConfig),
    ) -> Result<()> {
        let mut config = self.bridges.get(id)?.config.clone();
        change(&mut config);
        check_tag(&config.tag)?;
        self.replace_bridge_config(id, config)
    }

    fn replace_bridge_config(&mut self, id: u32, config: BridgeConfig) -> Result<()> {
        let was = std::mem::replace(&mut self.bridges.get_mut(id)?.config, config);
        self.publish_bridges();
        self.undo(move |r| r.replace_bridge_config(id, was));
        Ok(())
    }

    /// Says who has an IPv4 address in a bridge domain, for ARP in its place; `None` = nobody.
    ///
    /// # Errors
    /// When there is no such domain.
    pub fn set_bridge_arp(&mut self, id: u32, ip: Ipv4Addr, mac: Option<[u8; 6]>) -> Result<()> {
        let arp = &mut self.bridges.get_mut(id)?.arp;
        let was = match mac {
            Some(mac) => arp.insert(ip, mac),
            None => arp.remove(&ip),
        };
        self.publish_bridges();
        self.undo(move |r| r.set_bridge_arp(id, ip, was));
        Ok(())
    }

    /// Says who has an IPv6 address in a bridge domain, for neighbour discovery in its place; `None` = nobody.
    ///
    /// # Errors
    /// When there is no such domain.
    pub fn set_bridge_nd(&mut self, id: u32, ip: Ipv6Addr, mac: Option<[u8; 6]>) -> Result<()> {
        let nd = &mut self.bridges.get_mut(id)?.nd;
        let was = match mac {
            Some(mac) => nd.insert(ip, mac),
            None => nd.remove(&ip),
        };
        self.publish_bridges();
        self.undo(move |r| r.set_bridge_nd(id, ip, was));
        Ok(())
    }

    /// Stations that bridge domains made by the API learn at most, unless they are told otherwise; `None` = as many as there is
    /// room for.
    pub fn default_learn_limit(&self) -> Option<u32> {
        self.bridges.default_learn_limit
    }

    /// Sets that, for bridge domains that are made from now on.
    pub fn set_default_learn_limit(&mut self, limit: Option<u32>) {
        let was = std::mem::replace(&mut self.bridges.default_learn_limit, limit);
        self.undo(move |r| {
            r.set_default_learn_limit(was);
            Ok(())
        });
    }

    /// A bridge domain.
    ///
    /// # Errors
    /// When there is none of this number.
    pub fn bridge_domain(&self, id: u32) -> Result<&Domain> {
        self.bridges.get(id)
    }

    /// All bridge domains and their numbers.
    pub fn bridge_domains(&self) -> impl Iterator<Item = (u32, &Domain)> {
        self.bridges.domains.iter().map(|(id, d)| (*id, d))
    }

    /// What an interface is to a bridge domain, if to any.
    pub fn bridge_port(&self, if_index: u32) -> Option<PortConfig> {
        self.bridges.ports.get(&if_index).copied()
    }

    /// Makes an interface a port of a bridge domain, or of none. A domain that is not there is made.
    ///
    /// # Errors
    /// When there is no such interface, or the domain has a routed interface or one for unknown stations already.
    pub fn set_bridge(&mut self, name: &str, port: Option<PortConfig>) -> Result<()> {
        let index = self.interfaces.find_real(name)?;
        if let Some(p) = port {
            if !self.bridges.domains.contains_key(&p.bd_id) {
                self.create_bridge_domain(p.bd_id, BridgeConfig::default())?;
            }
            self.check_role(name, index, p)?;
            if self
                .interfaces
                .get(index)
                .is_some_and(|i| i.xconnect.is_some())
            {
                self.apply_xconnect(index, None)?;
            }
        }
        if let Some(was) = self.bridge_port(index).filter(|was| Some(*was) != port) {
            let moves = port.is_none_or(|p| p.bd_id != was.bd_id);
            if moves {
                self.remove_stations(|key, s| key.0 == was.bd_id && s.if_index == Some(index))?;
            }
        }
        self.apply_bridge(index, port)
    }

    fn check_role(&self, name: &str, index: u32, port: PortConfig) -> Result<()> {
        if port.role == PortRole::Bvi && !self.interfaces.get(index).is_some_and(is_loopback) {
            return Err(Error::Interface {
                name: name.into(),
                why: "cannot be a routed interface (BVI): make a loopback for that".into(),
            });
        }
        if port.role == PortRole::Normal {
            return Ok(());
        }
        let domain = self.bridges.get(port.bd_id)?;
        let is_it =
            |i: &&u32| **i != index && self.bridge_port(**i).map(|p| p.role) == Some(port.role);
        let Some(other) = domain.ports.iter().find(is_it) else {
            return Ok(());
        };
        let role = match port.role {
            PortRole::Bvi => "its routed interface (BVI)",
            _ => "where its unknown unicast goes (uu-fwd)",
        };
        Err(Error::Interface {
            name: name.into(),
            why: format!(
                "cannot take that place in bridge domain {}: {} is {role} already",
                port.bd_id,
                self.interfaces.name(*other)
            ),
        })
    }

    fn apply_bridge(&mut self, index: u32, port: Option<PortConfig>) -> Result<()> {
        let was = self.bridge_port(index);
        if was == port {
            return Ok(());
        }
        let hears_all = port.is_some_and(|p| p.role != PortRole::Bvi);
        let Some(i) = self.interfaces.get_mut(index) else {
            return Ok(());
        };
        i.bridged = hears_all;
        let everything = i.promiscuous || i.is_switched();
        if let Some(d) = i.device.as_mut() {
            d.set_promiscuous(everything)?;
        }
        if let Some(d) = was.and_then(|p| self.bridges.domains.get_mut(&p.bd_id)) {
            d.ports.retain(|p| *p != index);
        }
        match port {
            Some(p) => {
                self.bridges.get_mut(p.bd_id)?.ports.push(index);
                self.bridges.ports.insert(index, p);
            }
            None => {
                self.bridges.ports.remove(&index);
            }
        }
        // Workers first: what is flushed after that does not come back.
        self.publish();
        self.forget_stations(Forget::Interface(index));
        self.relay_bvi(was, index)?;
        self.undo(move |r| r.apply_bridge(index, was));
        Ok(())
    }

    /// Hands what is routed out of a bridge domain's interface to the domain, or no more.
    fn relay_bvi(&mut self, was: Option<PortConfig>, index: u32) -> Result<()> {
        let is_bvi = |p: Option<PortConfig>| p.is_some_and(|p| p.role == PortRole::Bvi);
        let (was, is) = (is_bvi(was), is_bvi(self.bridge_port(index)));
        if was == is {
            return Ok(());
        }
        let node = self.engine.node("bvi-output")?;
        let state = self.interfaces.get(index).map(|i| (i.up, i.max_frame));
        let (up, max_frame) = state.unwrap_or_default();
        self.engine.tell_all(|_| match is {
            true => WorkerCommand::AddVirtual {
                if_index: index,
                node,
                up,
                max_frame,
            },
            false => WorkerCommand::RemoveVirtual { if_index: index },
        });
        Ok(())
    }

    /// Makes a loopback that is to be the routed interface of a bridge domain, in VPP's name for one: bviN, the lowest
    /// free number when none is given.
    ///
    /// # Errors
    /// When the number is taken or there are too many interfaces.
    pub fn create_bvi(&mut self, number: Option<u32>, mac: Option<[u8; 6]>) -> Result<String> {
        let name = |n: u32| format!("{BVI}{n}");
        let free = |n: &u32| self.interfaces.find(&name(*n)).is_err();
        let number = number.or_else(|| (0..=BVI_MAX).find(free));
        let number = number.filter(|n| *n <= BVI_MAX).ok_or_else(|| {
            Error::refused(format!("a routed interface has a number of 0 to {BVI_MAX}"))
        })?;
        self.create_interface(DeviceSpec {
            instance: None,
            name: Some(name(number)),
            mac,
            kind: DeviceKind::Loopback,
        })
    }

    /// Deletes what [`create_bvi`](Self::create_bvi) made.
    ///
    /// # Errors
    /// When there is none of that name, or it is another interface.
    pub fn delete_bvi(&mut self, name: &str) -> Result<()> {
        let index = self.interfaces.find_real(name)?;
        let loopback = self.interfaces.get(index).is_some_and(is_loopback);
        if !loopback || !name.starts_with(BVI) {
            return Err(Error::Interface {
                name: name.into(),
                why: "was not made by `bvi create`".into(),
            });
        }
        self.delete_interface(name, "loop")
    }

    /// Configures a station, in the place of what was configured or learned of it.
    ///
    /// # Errors
    /// When there is no such domain or interface, the interface is no port of it, the address is a group's, or the table
    /// is full.
    pub fn add_station(&mut self, bd_id: u32, mac: [u8; 6], station: Station) -> Result<()> {
        self.bridges.get(bd_id)?;
        if mac[0] & 1 != 0 || mac == [0; 6] {
            return Err(Error::refused(format!(
                "{} is not the address of one station",
                crate::text::mac(mac)
            )));
        }
        if let Some(index) = station.if_index
            && self.bridge_port(index).map(|p| p.bd_id) != Some(bd_id)
        {
            return Err(Error::Interface {
                name: self.interfaces.name(index),
                why: format!("is no port of bridge domain {bd_id}"),
            });
        }
        self.apply_station((bd_id, mac), Some(station))
    }

    /// Takes a station out of a bridge domain, whether it was configured or learned.
    ///
    /// # Errors
    /// When there is no such domain, or it does not know the station.
    pub fn remove_station(&mut self, bd_id: u32, mac: [u8; 6]) -> Result<()> {
        let key = MacKey::new(self.bridges.get(bd_id)?.index, mac);
        if self.bridges.macs.get(key).is_none() {
            return Err(Error::missing(format!(
                "bridge domain {bd_id} has no entry for {}",
                crate::text::mac(mac)
            )));
        }
        self.apply_station((bd_id, mac), None)
    }

    fn apply_station(&mut self, key: (u32, [u8; 6]), station: Option<Station>) -> Result<()> {
        let at = MacKey::new(self.bridges.get(key.0)?.index, key.1);
        match &mut self.pending {
            Some(p) => p.stations.push((at, station)),
            None => self.bridges.write(at, station, seconds(self.now))?,
        }
        let was = match station {
            Some(s) => self.bridges.stations.insert(key, s),
            None => self.bridges.stations.remove(&key),
        };
        self.undo(move |r| r.apply_station(key, was));
        Ok(())
    }

    /// Takes configured stations away.
    fn remove_stations(&mut self, which: impl Fn((u32, [u8; 6]), &Station) -> bool) -> Result<()> {
        let gone: Vec<_> = self
            .bridges
            .stations
            .iter()
            .filter(|(key, s)| which(**key, s))
            .map(|(key, _)| *key)
            .collect();
        gone.into_iter()
            .try_for_each(|key| self.apply_station(key, None))
    }

    /// Forgets learned stations of what is no more, after workers know that.
    pub(super) fn forget_stations(&mut self, which: Forget) {
        match &mut self.pending {
            Some(p) => p.forget.push(which),
            None => _ = self.bridges.flush(|r| which.is(r)),
        }
    }

    /// Forgets learned stations; says how many.
    ///
    /// # Errors
    /// When there is no such domain.
    pub fn flush_stations(&mut self, which: Flush) -> Result<usize> {
        let domain = match which {
            Flush::Domain(id) => Some(self.bridges.get(id)?.index),
            _ => None,
        };
        Ok(self.bridges.flush(|r| match which {
            Flush::All => true,
            Flush::Domain(_) => Some(r.key.domain()) == domain,
            Flush::Interface(index) => r.entry.if_index() == index,
        }))
    }

    /// Empties the table: learned and configured stations.
    ///
    /// # Errors
    /// Never, so far.
    pub fn clear_stations(&mut self) -> Result<()> {
        self.bridges.flush(|_| true);
        self.remove_stations(|_, _| true)
    }

    /// Every station, by domain and address.
    pub fn l2fib_entries(&self) -> Vec<L2FibEntry> {
        let now = seconds(self.now());
        let row = |r: parshall_fib::MacRecord| {
            let e = r.entry;
            let kind = match e {
                _ if e.has(MacEntry::BVI) => Some(StationKind::Bvi),
                _ if e.has(MacEntry::FILTER) => Some(StationKind::Filter),
                _ if e.has(MacEntry::STATIC) => Some(StationKind::Static),
                _ => None,
            };
            Some(L2FibEntry {
                bd_id: self.bridges.id_of(r.key.domain())?,
                bd_index: r.key.domain(),
                mac: r.key.mac(),
                if_index: Some(e.if_index()).filter(|i| *i != MacEntry::NOWHERE),
                kind,
                // One that is marked was seen since the last look.
                age: match e.has(MacEntry::SEEN) {
                    true => 0,
                    false => now.saturating_sub(r.seen),
                },
            })
        };
        let mut all: Vec<L2FibEntry> = self.bridges.macs.iter().filter_map(row).collect();
        all.sort_unstable_by_key(|e| (e.bd_id, e.mac));
        all
    }

    /// News of learned stations from number `from` on, the number after the last, and how many were lost between.
    pub fn mac_news(&self, from: u64) -> (Vec<MacNews>, u64, u64) {
        self.bridges.news(from)
    }

    /// Shows workers the bridge domains as they are now.
    pub(super) fn publish_bridges(&mut self) {
        if let Some(p) = &mut self.pending {
            p.bridges = true;
            return;
        }
        let table = self.bridge_table();
        let shared = &self.engine.shared;
        shared.bridges.publish(&shared.domain, table);
    }

    /// The bridge domains as workers are to know them.
    pub(super) fn bridge_table(&mut self) -> BridgeTable {
        self.follow_bvi();
        let ports = self.bridges.ports.keys().last().map_or(0, |i| i + 1);
        let ports: Vec<BridgePort> = (0..ports).map(|i| self.bridges.port_view(i)).collect();
        let most = self.bridges.domains.values().map(|d| d.index).max();
        let mut domains = vec![BridgeDomain::default(); most.map_or(0, |m| usize::from(m) + 1)];
        for d in self.bridges.domains.values() {
            domains[usize::from(d.index)] = self.domain_view(d);
        }
        BridgeTable::new(ports, domains)
    }

    fn domain_view(&self, d: &Domain) -> BridgeDomain {
        let is_up = |index: u32| {
            let i = self.interfaces.get(index);
            i.is_some_and(|i| i.up && i.link)
        };
        let mut view = BridgeDomain {
            arp: d.arp.iter().map(|(ip, mac)| (ip.octets(), *mac)).collect(),
            nd: d.nd.iter().map(|(ip, mac)| (ip.octets(), *mac)).collect(),
            ..BridgeDomain::default()
        };
        for &if_index in d.ports.iter().filter(|p| is_up(**p)) {
            let Some(p) = self.bridge_port(if_index) else {
                continue;
            };
            match p.role {
                PortRole::Bvi => view.bvi = if_index,
                PortRole::UuFwd => view.uu_fwd = if_index,
                PortRole::Normal => view.members.push(FloodMember {
                    if_index,
                    shg: p.shg,
                }),
            }
        }
        debug_assert!(view.bvi == IF_NONE || view.bvi != view.uu_fwd);
        view
    }

    /// The address of a routed interface is a station of its domain, whatever becomes of the address.
    fn follow_bvi(&mut self) {
        let now = seconds(self.now());
        let interfaces = &self.interfaces;
        let b = &mut self.bridges;
        for d in b.domains.values_mut() {
            let is_bvi = |i: &&u32| b.ports.get(i).is_some_and(|p| p.role == PortRole::Bvi);
            let bvi = d.ports.iter().find(is_bvi);
            let wanted = bvi.and_then(|index| {
                let mac = interfaces.get(*index)?.mac;
                Some((MacKey::new(d.index, mac), *index))
            });
            if d.bvi == wanted {
                continue;
            }
            if let Some((key, _)) = d.bvi.take() {
                b.macs.remove(key);
            }
            if let Some((key, index)) = wanted {
                let flags = MacEntry::STATIC | MacEntry::BVI | MacEntry::SEEN;
                match b.macs.set(key, MacEntry::new(index, flags), now) {
                    Ok(_) => d.bvi = wanted,
                    Err(e) => tracing::error!("the routed interface cannot be reached: {e}"),
                }
            }
        }
    }
}

fn is_loopback(i: &Interface) -> bool {
    let kind = i.spec.as_ref().map(|s| &s.kind);
    matches!(kind, Some(DeviceKind::Loopback))
}
