//! Neighbours: what workers report, what the state machines want done, and commands.

use std::net::IpAddr;

use parshall_nodes::{Event, HoldMessage};

use super::Router;
use crate::error::{Error, Result};
use crate::interface::is_link_local;
use crate::neighbor::{Action, NeighborConfig, NeighborKey, NeighborState};
use crate::path::{Path, Via};
use crate::prefix::{Family, IpNet};
use crate::rib::Source;
use crate::solicit;

impl Router {
    /// Takes in what workers saw and want. Says whether there was anything.
    pub(super) fn handle_events(&mut self) -> bool {
        let mut events = Vec::new();
        self.engine.events(|e| events.push(e));
        let busy = !events.is_empty();
        let mut actions = Vec::new();
        for event in events {
            self.handle_event(event, &mut actions);
            self.act(&mut actions);
        }
        busy
    }

    fn handle_event(&mut self, event: Event, out: &mut Vec<Action>) {
        let now = self.now();
        let key = |if_index, ip: IpAddr| NeighborKey { if_index, ip };
        match event {
            Event::None => {}
            Event::Lacp { if_index, pdu } => self.lacp_heard(if_index, &pdu),
            Event::ArpSeen {
                if_index,
                ip,
                mac,
                reply,
            } => self.seen(key(if_index, ip.into()), mac, reply, out),
            Event::NdSeen {
                if_index,
                ip,
                mac,
                solicited,
            } => self.seen(key(if_index, ip.into()), mac, solicited, out),
            Event::MacSeen {
                if_index,
                domain,
                mac,
            } => {
                let now = crate::bridge::seconds(now);
                self.bridges.seen((domain, if_index), mac, now);
            }
            Event::Wanted4 { if_index, ip } => {
                self.neighbors[0].wanted(key(if_index, ip.into()), now, out);
            }
            Event::Wanted6 { if_index, ip } => {
                self.neighbors[1].wanted(key(if_index, ip.into()), now, out);
            }
        }
    }

    fn seen(&mut self, key: NeighborKey, mac: [u8; 6], confirms: bool, out: &mut Vec<Action>) {
        let Some(i) = self.interfaces.get(key.if_index).filter(|i| i.up) else {
            return;
        };
        if i.owns(key.ip) {
            tracing::warn!(
                "{} claims our address {} on {}",
                crate::text::mac(mac),
                key.ip,
                i.name
            );
            return;
        }
        // Next hops may lie outside the subnets (an interface with a host address): those that were
        // asked for may answer, others may not bring themselves in.
        let create = i.on_link(key.ip);
        let now = self.now();
        self.neighbors[Family::of(key.ip) as usize].seen(key, mac, confirms, create, now, out);
    }

    /// Does what is due.
    pub(super) fn age_neighbors(&mut self) {
        let now = self.now();
        let mut actions = Vec::new();
        for family in [0, 1] {
            self.neighbors[family].poll(now, &mut actions);
        }
        self.act(&mut actions);
    }

    fn act(&mut self, actions: &mut Vec<Action>) {
        for action in actions.drain(..) {
            match action {
                Action::Solicit { key, to } => self.solicit(key, to),
                Action::Publish { key, mac } => self.neighbor_known(key, Some(mac)),
                Action::Withdraw { key } => self.neighbor_known(key, None),
                Action::Resolved { key } => self.tell_holders(key, true),
                Action::Failed { key } => self.tell_holders(key, false),
            }
        }
    }

    fn solicit(&mut self, key: NeighborKey, to: Option<[u8; 6]>) {
        let Some(i) = self.interfaces.get(key.if_index).filter(|i| i.up) else {
            return;
        };
        let made = match (key.ip, i.source_for(key.ip)) {
            (IpAddr::V4(target), Some(IpAddr::V4(from))) => {
                solicit::arp_request(i.mac, from, target, to)
            }
            (IpAddr::V6(target), Some(IpAddr::V6(from))) => {
                solicit::neighbor_solicitation(i.mac, from, target, to)
            }
            // Without an address of the family there is nothing to ask from; it fails in its time.
            _ => return,
        };
        if let Ok(bytes) = made {
            self.engine.send_frame(key.if_index, bytes);
        }
    }

    fn neighbor_known(&mut self, key: NeighborKey, mac: Option<[u8; 6]>) {
        self.forwarding.adjacencies.set_neighbor(
            &self.engine.shared.adjacencies,
            key.if_index,
            key.ip,
            mac,
        );
        self.sync_host_route(key, mac.is_some());
    }

    /// A known neighbour in a subnet of its interface has a host route, so that packets to it need no
    /// second look.
    fn sync_host_route(&mut self, key: NeighborKey, known: bool) {
        let family = Family::of(key.ip);
        let Some(i) = self.interfaces.get(key.if_index) else {
            return;
        };
        let at = (family, i.table(family), IpNet::host(key.ip));
        let wanted = known && i.in_subnet(key.ip) && !is_link_local(key.ip);
        if wanted {
            let via = Via::NextHop {
                ip: key.ip,
                if_index: Some(key.if_index),
            };
            let paths = vec![Path::new(via)];
            match self
                .rib
                .set(&mut self.forwarding, at, Source::Neighbor, paths)
            {
                Ok(()) => _ = self.host_routes.insert(at, key.if_index),
                Err(e) => tracing::warn!("no host route for neighbour {}: {e}", key.ip),
            }
        } else if self.host_routes.get(&at) == Some(&key.if_index) {
            self.host_routes.remove(&at);
            self.rib.clear(&mut self.forwarding, at, Source::Neighbor);
        }
    }

    /// Makes the host routes of an interface's neighbours what they must be.
    pub(super) fn sync_host_routes(&mut self, index: u32) {
        let all: Vec<(NeighborKey, bool)> = self
            .neighbors
            .iter()
            .flat_map(|t| t.iter())
            .filter(|(k, _)| k.if_index == index)
            .map(|(k, n)| (*k, n.mac.is_some()))
            .collect();
        for (key, known) in all {
            self.sync_host_route(key, known);
        }
    }

    fn tell_holders(&mut self, key: NeighborKey, resolved: bool) {
        let if_index = key.if_index;
        let told = match key.ip {
            IpAddr::V4(a) => {
                let ip = a.octets();
                let m = if resolved {
                    HoldMessage::Resolved { if_index, ip }
                } else {
                    HoldMessage::Failed { if_index, ip }
                };
                self.engine.message("ip4-arp", &m)
            }
            IpAddr::V6(a) => {
                let ip = a.octets();
                let m = if resolved {
                    HoldMessage::Resolved { if_index, ip }
                } else {
                    HoldMessage::Failed { if_index, ip }
                };
                self.engine.message("ip6-discover-neighbor", &m)
            }
        };
        if let Err(e) = told {
            tracing::error!("{e}");
        }
    }

    /// Puts a neighbour in by hand.
    ///
    /// # Errors
    /// When the address or the interface cannot be.
    pub fn add_neighbor(
        &mut self,
        name: &str,
        ip: IpAddr,
        mac: [u8; 6],
        fixed: bool,
    ) -> Result<()> {
        let if_index = self.interfaces.find_real(name)?;
        if mac[0] & 1 != 0 || mac == [0; 6] {
            return Err(Error::refused(format!(
                "{} is not the address of one station",
                crate::text::mac(mac)
            )));
        }
        if ip.is_multicast() || ip.is_unspecified() || ip.is_loopback() {
            return Err(Error::refused(format!("{ip} is not a neighbour's address")));
        }
        if self.interfaces.get(if_index).is_some_and(|i| i.owns(ip)) {
            return Err(Error::DuplicateAddress {
                address: ip,
                interface: name.into(),
            });
        }
        let key = NeighborKey { if_index, ip };
        let family = Family::of(ip) as usize;
        let before = self.static_mac(&key);
        let (now, mut actions) = (self.now(), Vec::new());
        let table = &mut self.neighbors[family];
        let set = if fixed {
            table.set_static(key, mac, now, &mut actions)
        } else {
            table.set_dynamic(key, mac, now, &mut actions)
        };
        if !set {
            return Err(Error::Full(format!(
                "interface {name} has {} neighbours already, the limit",
                self.neighbors[family].config().limit
            )));
        }
        self.act(&mut actions);
        self.undo(move |r| r.restore_neighbor(key, before));
        Ok(())
    }

    /// Takes a neighbour out.
    ///
    /// # Errors
    /// When there is none.
    pub fn remove_neighbor(&mut self, name: &str, ip: IpAddr) -> Result<()> {
        let if_index = self.interfaces.find_real(name)?;
        let key = NeighborKey { if_index, ip };
        let before = self.static_mac(&key);
        let mut actions = Vec::new();
        if !self.neighbors[Family::of(ip) as usize].remove(&key, &mut actions) {
            return Err(Error::missing(format!("no neighbour {ip} on {name}")));
        }
        self.act(&mut actions);
        if before.is_some() {
            self.undo(move |r| r.restore_neighbor(key, before));
        }
        Ok(())
    }

    /// Changes the settings of a family.
    pub fn set_neighbor_config(&mut self, family: Family, config: NeighborConfig) {
        let table = &mut self.neighbors[family as usize];
        let was = table.config();
        table.set_config(config);
        self.undo(move |r| {
            r.set_neighbor_config(family, was);
            Ok(())
        });
    }

    fn static_mac(&self, key: &NeighborKey) -> Option<[u8; 6]> {
        let n = self.neighbors[Family::of(key.ip) as usize].get(key)?;
        n.mac.filter(|_| n.state == NeighborState::Static)
    }

    fn restore_neighbor(&mut self, key: NeighborKey, before: Option<[u8; 6]>) -> Result<()> {
        let (now, mut actions) = (self.now(), Vec::new());
        let table = &mut self.neighbors[Family::of(key.ip) as usize];
        match before {
            Some(mac) => _ = table.set_static(key, mac, now, &mut actions),
            None => _ = table.remove(&key, &mut actions),
        }
        self.act(&mut actions);
        Ok(())
    }

    /// Takes static neighbours of an interface out, so that undoing brings them back.
    pub(super) fn remove_static_neighbors(&mut self, index: u32) -> Result<()> {
        let name = self.interfaces.name(index);
        let fixed: Vec<IpAddr> = self
            .neighbors
            .iter()
            .flat_map(|t| t.iter())
            .filter(|(k, n)| k.if_index == index && n.state == NeighborState::Static)
            .map(|(k, _)| k.ip)
            .collect();
        fixed
            .into_iter()
            .try_for_each(|ip| self.remove_neighbor(&name, ip))
    }

    /// Forgets all neighbours of an interface.
    pub(super) fn forget_neighbors(&mut self, index: u32) {
        self.forget_where(|k, _| k.if_index == index);
    }

    /// Forgets what was learned on an interface.
    pub(super) fn forget_dynamic_neighbors(&mut self, index: u32) {
        self.forget_where(|k, s| k.if_index == index && s != NeighborState::Static);
    }

    /// Forgets what was learned on an interface and is not in its subnets any more.
    pub(super) fn drop_foreign_neighbors(&mut self, index: u32) {
        let Some(i) = self.interfaces.get(index) else {
            return;
        };
        let foreign: Vec<IpAddr> = self
            .neighbors
            .iter()
            .flat_map(|t| t.iter())
            .filter(|(k, n)| k.if_index == index && n.state != NeighborState::Static)
            .map(|(k, _)| k.ip)
            .filter(|ip| !i.on_link(*ip) || i.owns(*ip))
            .collect();
        self.forget_where(|k, _| k.if_index == index && foreign.contains(&k.ip));
    }

    fn forget_where(&mut self, which: impl Fn(&NeighborKey, NeighborState) -> bool) {
        let mut actions = Vec::new();
        for table in &mut self.neighbors {
            table.remove_where(|k, n| which(k, n.state), &mut actions);
        }
        self.act(&mut actions);
    }
}
