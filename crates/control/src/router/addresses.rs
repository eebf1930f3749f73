//! Addresses of interfaces, the routes they make, and telling the neighbours.

use std::net::IpAddr;

use super::{Connected, Router};
use crate::error::{Error, Result};
use crate::interface::{Interface, Interfaces, check_own_address};
use crate::path::{Path, Via};
use crate::prefix::{Family, IpNet};
use crate::rib::Source;
use crate::solicit;

impl Router {
    /// Gives an interface an address.
    ///
    /// # Errors
    /// When the address cannot be an interface's, is in use, or its subnet overlaps another of the table.
    pub fn add_address(&mut self, name: &str, addr: IpAddr, len: u8) -> Result<()> {
        let index = self.interfaces.find_real(name)?;
        check_own_address(addr, len)?;
        self.check_routable(index)?;
        if self
            .interfaces
            .get(index)
            .is_some_and(|i| i.unnumbered.is_some())
        {
            return Err(Error::Interface {
                name: name.into(),
                why: "uses the addresses of another: end that first".into(),
            });
        }
        self.check_conflicts(index, addr, len)?;
        let last = self.interfaces.get(index).map_or(0, |i| i.addresses.len());
        self.change_address(index, addr, len, Some(last))?;
        if self.interfaces.get(index).is_some_and(|i| i.up) {
            self.announce_address(index, addr);
        }
        self.undo(move |r| r.change_address(index, addr, len, None));
        Ok(())
    }

    /// Whether packets of an interface can be routed: not where its tags are not known.
    pub(super) fn check_routable(&self, index: u32) -> Result<()> {
        match self.interfaces.get(index) {
            Some(i) if i.sub().is_some_and(|s| !s.takes.is_exact()) => Err(Error::Interface {
                name: i.name.clone(),
                why: "takes frames of several VLANs, so it can be switched only: make it with exact-match".into(),
            }),
            _ => self.check_no_member(index),
        }
    }

    /// Lets an interface use the addresses of another in place of its own, or no more.
    ///
    /// # Errors
    /// When it has addresses, or the other has none to lend.
    pub fn set_unnumbered(&mut self, name: &str, lender: Option<&str>) -> Result<()> {
        let index = self.interfaces.find_real(name)?;
        let to = lender.map(|l| self.interfaces.find_real(l)).transpose()?;
        let refuse = |why: &str| {
            Err(Error::Interface {
                name: name.into(),
                why: why.into(),
            })
        };
        if let Some(to) = to {
            self.check_routable(index)?;
            let borrows = |i: &Interface| i.unnumbered.is_some();
            if to == index || self.interfaces.get(to).is_some_and(borrows) {
                return refuse(
                    "can use the addresses of another interface only, which has its own",
                );
            }
            let busy = |i: &Interface| !i.addresses.is_empty() || lends(&self.interfaces, i.index);
            if self.interfaces.get(index).is_some_and(busy) {
                return refuse("has addresses of its own: remove them first");
            }
        }
        let Some(i) = self.interfaces.get_mut(index) else {
            return Ok(());
        };
        let was = std::mem::replace(&mut i.unnumbered, to);
        self.lend(index);
        self.publish();
        self.undo(move |r| {
            if let Some(i) = r.interfaces.get_mut(index) {
                i.unnumbered = was;
            }
            r.lend(index);
            r.publish();
            Ok(())
        });
        Ok(())
    }

    /// Shows an interface the addresses that it uses.
    fn lend(&mut self, index: u32) {
        let lender = self.interfaces.get(index).and_then(|i| i.unnumbered);
        let lent = lender.and_then(|l| self.interfaces.get(l));
        let lent = lent.map(|l| l.addresses.clone()).unwrap_or_default();
        if let Some(i) = self.interfaces.get_mut(index) {
            i.borrowed = lent;
        }
        self.drop_foreign_neighbors(index);
        self.sync_host_routes(index);
    }

    /// The same for all that use the addresses of `lender`.
    fn lend_all(&mut self, lender: u32) {
        let users = self.interfaces.iter();
        let users = users.filter(|i| i.unnumbered == Some(lender));
        let users: Vec<u32> = users.map(|i| i.index).collect();
        users.into_iter().for_each(|i| self.lend(i));
    }

    /// Takes an address away.
    ///
    /// # Errors
    /// When the interface does not have it.
    pub fn remove_address(&mut self, name: &str, addr: IpAddr, len: u8) -> Result<()> {
        let index = self.interfaces.find_real(name)?;
        let i = self.interfaces.get(index);
        let Some(at) = i.and_then(|i| i.addresses.iter().position(|a| *a == (addr, len))) else {
            return Err(Error::Interface {
                name: name.into(),
                why: format!("does not have the address {addr}/{len}"),
            });
        };
        self.change_address(index, addr, len, None)?;
        self.undo(move |r| r.change_address(index, addr, len, Some(at)));
        Ok(())
    }

    /// Takes all addresses away.
    ///
    /// # Errors
    /// When there is no such interface.
    pub fn remove_all_addresses(&mut self, name: &str) -> Result<()> {
        let index = self.interfaces.find_real(name)?;
        let all = self
            .interfaces
            .get(index)
            .map(|i| i.addresses.clone())
            .unwrap_or_default();
        all.into_iter()
            .try_for_each(|(a, l)| self.remove_address(name, a, l))
    }

    /// Speaks IPv6 on an interface even without an address, or not.
    ///
    /// # Errors
    /// When there is no such interface.
    pub fn set_ip6_enabled(&mut self, name: &str, on: bool) -> Result<()> {
        let index = self.interfaces.find_real(name)?;
        if on {
            self.check_routable(index)?;
        }
        let Some(i) = self.interfaces.get_mut(index) else {
            return Ok(());
        };
        let was = std::mem::replace(&mut i.ip6_enabled, on);
        self.sync_connected(index)?;
        self.publish();
        let name = name.to_owned();
        self.undo(move |r| r.set_ip6_enabled(&name, was));
        Ok(())
    }

    /// Puts an address in at a place (the first one of a family is its primary), or takes it out.
    fn change_address(
        &mut self,
        index: u32,
        addr: IpAddr,
        len: u8,
        place: Option<usize>,
    ) -> Result<()> {
        let Some(i) = self.interfaces.get_mut(index) else {
            return Ok(());
        };
        let before = i.addresses.clone();
        match place {
            Some(at) => i.addresses.insert(at.min(before.len()), (addr, len)),
            None => i.addresses.retain(|a| *a != (addr, len)),
        }
        if let Err(e) = self.sync_connected(index) {
            if let Some(i) = self.interfaces.get_mut(index) {
                i.addresses = before;
            }
            return Err(e);
        }
        self.lend_all(index);
        self.publish();
        self.drop_foreign_neighbors(index);
        self.sync_host_routes(index);
        Ok(())
    }

    fn check_conflicts(&self, index: u32, addr: IpAddr, len: u8) -> Result<()> {
        let family = Family::of(addr);
        let new = IpNet::new(addr, len);
        let table = self.interfaces.get(index).map_or(0, |i| i.table(family));
        for i in self.interfaces.iter().filter(|i| i.table(family) == table) {
            if i.owns(addr) {
                return Err(Error::DuplicateAddress {
                    address: addr,
                    interface: i.name.clone(),
                });
            }
            for (a, l) in &i.addresses {
                let old = IpNet::new(*a, *l);
                // A second address in the very same subnet of the same interface is fine.
                if old.overlaps(&new) && (i.index != index || old != new) {
                    return Err(Error::Overlap {
                        new,
                        old,
                        interface: i.name.clone(),
                    });
                }
            }
        }
        Ok(())
    }

    /// Makes the routes of an interface's addresses what they must be: new ones first, then old ones go.
    pub(super) fn sync_connected(&mut self, index: u32) -> Result<()> {
        let wanted = self
            .interfaces
            .get(index)
            .map(connected_routes)
            .unwrap_or_default();
        let have = self.connected.remove(&index).unwrap_or_default();
        let mut done = Connected::new();
        for (at, via) in &wanted {
            if have.get(at) == Some(via) {
                continue;
            }
            let paths = vec![Path::new(*via)];
            if let Err(e) = self
                .rib
                .set(&mut self.forwarding, *at, Source::Interface, paths)
            {
                self.revert(&done, &have);
                self.connected.insert(index, have);
                return Err(e);
            }
            done.insert(*at, *via);
        }
        for at in have.keys().filter(|at| !wanted.contains_key(at)) {
            self.rib.clear(&mut self.forwarding, *at, Source::Interface);
        }
        if !wanted.is_empty() {
            self.connected.insert(index, wanted);
        }
        Ok(())
    }

    fn revert(&mut self, done: &Connected, have: &Connected) {
        for at in done.keys() {
            match have.get(at) {
                Some(via) => {
                    let paths = vec![Path::new(*via)];
                    let set = self
                        .rib
                        .set(&mut self.forwarding, *at, Source::Interface, paths);
                    if let Err(e) = set {
                        tracing::error!("{}: {e}", at.2);
                    }
                }
                None => _ = self.rib.clear(&mut self.forwarding, *at, Source::Interface),
            }
        }
    }

    /// Tells the neighbours all addresses of an interface.
    pub(super) fn announce(&mut self, index: u32) {
        let Some(i) = self.interfaces.get(index).filter(|i| i.up) else {
            return;
        };
        let mut all: Vec<IpAddr> = i.addresses.iter().map(|a| a.0).collect();
        all.extend(i.link_local().map(IpAddr::V6));
        for addr in all {
            self.announce_address(index, addr);
        }
    }

    fn announce_address(&mut self, index: u32, addr: IpAddr) {
        // Nobody looks for an address behind a point-to-point link.
        let i = self.interfaces.get(index);
        let Some(i) = i.filter(|i| !i.is_point_to_point()) else {
            return;
        };
        let made = match addr {
            IpAddr::V4(a) => solicit::arp_announcement(i.mac, a),
            IpAddr::V6(a) => solicit::unsolicited_advertisement(i.mac, a),
        };
        if let Ok(bytes) = made {
            self.engine.send_frame(index, bytes);
        }
    }
}

/// Whether others use the addresses of an interface.
fn lends(interfaces: &Interfaces, index: u32) -> bool {
    interfaces.iter().any(|i| i.unnumbered == Some(index))
}

/// The routes that an interface's addresses make.
fn connected_routes(i: &Interface) -> Connected {
    let mut out = Connected::new();
    for (addr, len) in &i.addresses {
        let family = Family::of(*addr);
        let table = i.table(family);
        let net = IpNet::new(*addr, *len);
        if !net.is_host() {
            out.insert((family, table, net), Via::Attached { if_index: i.index });
        }
        // RFC 2644: directed broadcasts are not forwarded; the all-zeros form is as old (RFC 1122).
        if family == Family::Ip4 && *len < 31 {
            for end in [net.addr(), net.last()] {
                out.insert((family, table, IpNet::host(end)), Via::Blackhole);
            }
        }
    }
    for (addr, _) in &i.addresses {
        let family = Family::of(*addr);
        out.insert(
            (family, i.table(family), IpNet::host(*addr)),
            Via::Receive { if_index: i.index },
        );
    }
    out
}
