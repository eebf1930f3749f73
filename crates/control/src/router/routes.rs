//! Tables, static routes and labels.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use super::{At, Router, Undo};
use crate::error::{Error, Result};
use crate::interface::is_link_local;
use crate::path::{Path, Payload, Via};
use crate::prefix::{Family, IpNet};
use crate::rib::{ListId, ListKey, Source};

/// Labels below this one have a meaning of their own (RFC 3032).
pub const FIRST_LABEL: u32 = 16;
/// Largest label.
pub const LAST_LABEL: u32 = (1 << 20) - 1;

/// Where every IPv6 table leads link-local addresses: to the router.
fn link_local_route(table: u32) -> At {
    let net = IpNet::new(IpAddr::V6(Ipv6Addr::new(0xFE80, 0, 0, 0, 0, 0, 0, 0)), 10);
    (Family::Ip6, table, net)
}

impl Router {
    /// Makes a table.
    ///
    /// # Errors
    /// When it exists or there are too many.
    pub fn add_table(&mut self, family: Family, id: u32) -> Result<()> {
        self.rib.add_table(&mut self.forwarding, family, id)?;
        if family == Family::Ip6 {
            let here = vec![Path::new(Via::Receive { if_index: 0 })];
            let at = link_local_route(id);
            self.rib
                .set(&mut self.forwarding, at, Source::Interface, here)?;
        }
        self.undo(move |r| r.remove_table(family, id));
        Ok(())
    }

    /// Deletes a table.
    ///
    /// # Errors
    /// When it is table 0, has routes, is bound to an interface, or is looked up in.
    pub fn remove_table(&mut self, family: Family, id: u32) -> Result<()> {
        if id == 0 {
            return Err(Error::refused(format!(
                "{} table 0 is always there",
                family.word()
            )));
        }
        if let Some(i) = self.interfaces.iter().find(|i| i.table(family) == id) {
            return Err(Error::in_use(format!(
                "{} table {id} is the table of interface {}",
                family.word(),
                i.name
            )));
        }
        if let Some(name) = self.tunnel_over(family, id) {
            return Err(Error::in_use(format!(
                "{} table {id} routes the packets of tunnel {name}",
                family.word()
            )));
        }
        let special = (family == Family::Ip6).then(|| link_local_route(id));
        let own = special.map_or(0, |_| 1);
        let n = self.rib.table(family, id)?.count();
        if n > own {
            return Err(Error::in_use(format!(
                "{} table {id} still has {} routes",
                family.word(),
                n - own
            )));
        }
        if let Some(at) = special {
            self.rib.clear(&mut self.forwarding, at, Source::Interface);
        }
        let removed = self.rib.remove_table(&mut self.forwarding, family, id);
        if let (Err(_), Some(at)) = (&removed, special) {
            let here = vec![Path::new(Via::Receive { if_index: 0 })];
            self.rib
                .set(&mut self.forwarding, at, Source::Interface, here)?;
        }
        removed?;
        self.undo(move |r| r.add_table(family, id));
        Ok(())
    }

    /// Makes or deletes the MPLS table.
    ///
    /// # Errors
    /// When it is to go and is still used.
    pub fn set_mpls_table(&mut self, on: bool) -> Result<()> {
        if on == self.mpls_table {
            let word = if on {
                "exists already"
            } else {
                "does not exist"
            };
            return Err(Error::refused(format!("mpls table 0 {word}")));
        }
        if !on && self.rib.labels().next().is_some() {
            return Err(Error::in_use("mpls table 0 still has labels"));
        }
        if !on && let Some(i) = self.interfaces.iter().find(|i| i.mpls) {
            return Err(Error::in_use(format!(
                "MPLS is enabled on interface {}",
                i.name
            )));
        }
        self.mpls_table = on;
        self.undo(move |r| r.set_mpls_table(!on));
        Ok(())
    }

    /// Adds paths to a static route; a path that is there already gets the new weight.
    ///
    /// # Errors
    /// When the table does not exist, a path makes no sense, or something is full.
    pub fn add_route(&mut self, at: At, paths: Vec<Path>) -> Result<()> {
        self.check_paths(Payload::of(at.0), &paths)?;
        let Some(have) = self.rib.wanted(at, Source::Static) else {
            return self.set_route(at, Source::Static, paths);
        };
        let mut all = have.paths().to_vec();
        for path in paths {
            all.retain(|p| !p.same_way(&path));
            all.push(path);
        }
        self.set_route(at, Source::Static, all)
    }

    /// Gives a static route these paths, in place of those it had: packets follow the old ones or the new
    /// ones, never none.
    ///
    /// # Errors
    /// As [`add_route`](Self::add_route); nothing changes then.
    pub fn replace_route(&mut self, at: At, paths: Vec<Path>) -> Result<()> {
        self.check_paths(Payload::of(at.0), &paths)?;
        self.set_route(at, Source::Static, paths)
    }

    /// Removes paths from a static route; all when none are named.
    ///
    /// # Errors
    /// When there is no such route or path.
    pub fn remove_route(&mut self, at: At, paths: &[Path]) -> Result<()> {
        self.rib.table(at.0, at.1)?;
        let no_route = || Error::missing(format!("no static route {} in table {}", at.2, at.1));
        let have = self.rib.wanted(at, Source::Static).ok_or_else(no_route)?;
        if paths.is_empty() {
            self.clear_route(at, Source::Static);
            return Ok(());
        }
        let have = have.paths();
        if !paths.iter().all(|p| have.iter().any(|h| h.same_way(p))) {
            return Err(Error::missing(format!("route {} has no such path", at.2)));
        }
        let keep = have.iter().filter(|h| !paths.iter().any(|p| p.same_way(h)));
        let keep: Vec<Path> = keep.cloned().collect();
        if keep.is_empty() {
            self.clear_route(at, Source::Static);
            return Ok(());
        }
        self.set_route(at, Source::Static, keep)
    }

    /// Sets the paths of many static routes of a table, each in place of those it had; no path removes the
    /// route, if it is there. Routes that share paths should share the slice: it is looked at once. Of
    /// several changes of one route the last counts. Says how many routes changed.
    ///
    /// Many times faster than route by route: a forwarding node is built once for all routes in it.
    ///
    /// # Errors
    /// When the table does not exist, a prefix or path makes no sense, or something is full; then no
    /// route has changed.
    pub fn change_routes<'p>(
        &mut self,
        (family, table): (Family, u32),
        changes: impl IntoIterator<Item = (IpNet, &'p [Path])>,
    ) -> Result<usize> {
        self.rib.table(family, table)?;
        let mut lists = HashMap::new();
        let wanted = self.hold_lists((family, table), changes, &mut lists);
        let o = &mut self.forwarding;
        let changed = wanted.and_then(|wanted| {
            let rib = &mut self.rib;
            rib.change(o, (family, table), Source::Static, &wanted)
        });
        for list in lists.into_values().flatten() {
            self.rib.let_go(&mut self.forwarding, list);
        }
        let changed = changed?;
        let n = changed.len();
        if self.depth > 0 && !self.undoing {
            let undo = |(net, before)| Undo::Route((family, table, net), Source::Static, before);
            self.journal.extend(changed.into_iter().map(undo));
        }
        Ok(n)
    }

    /// The path lists of many changes: each slice is checked and held once.
    fn hold_lists<'p>(
        &mut self,
        (family, table): (Family, u32),
        changes: impl IntoIterator<Item = (IpNet, &'p [Path])>,
        lists: &mut HashMap<(*const Path, usize), Option<ListId>>,
    ) -> Result<Vec<(IpNet, Option<ListId>)>> {
        let changes = changes.into_iter();
        let mut wanted = Vec::with_capacity(changes.size_hint().0);
        let mut last = ((std::ptr::null(), 0), None);
        for (net, paths) in changes {
            if net.family() != family || net.addr().is_multicast() {
                return Err(Error::refused(format!(
                    "{net} is no {} unicast prefix",
                    family.word()
                )));
            }
            // The slices are borrowed throughout: the same place holds the same paths.
            let place = (paths.as_ptr(), paths.len());
            if paths.is_empty() {
                wanted.push((net, None));
                continue;
            }
            if last.0 != place {
                let list = match lists.get(&place) {
                    Some(list) => *list,
                    None => {
                        self.check_paths(Payload::of(family), paths)?;
                        let key = ListKey::new(Payload::of(family), table, paths.to_vec())?;
                        Some(self.rib.hold(&mut self.forwarding, Arc::new(key))?)
                    }
                };
                lists.insert(place, list);
                last = (place, list);
            }
            wanted.push((net, last.1));
        }
        Ok(wanted)
    }

    /// Sets a route of a source and writes down how to undo that.
    pub(super) fn set_route(&mut self, at: At, source: Source, paths: Vec<Path>) -> Result<()> {
        let before = self.rib.wanted(at, source).cloned();
        self.rib.set(&mut self.forwarding, at, source, paths)?;
        self.undo_route(at, source, before);
        Ok(())
    }

    /// Takes a route of a source away and writes down how to undo that. False when there was none.
    pub(super) fn clear_route(&mut self, at: At, source: Source) -> bool {
        let before = self.rib.wanted(at, source).cloned();
        let had = self.rib.clear(&mut self.forwarding, at, source);
        if had {
            self.undo_route(at, source, before);
        }
        had
    }

    fn undo_route(&mut self, at: At, source: Source, before: Option<Arc<ListKey>>) {
        if self.depth > 0 && !self.undoing {
            self.journal.push(Undo::Route(at, source, before));
        }
    }

    pub(super) fn restore_route(
        &mut self,
        at: At,
        source: Source,
        before: Option<Arc<ListKey>>,
    ) -> Result<()> {
        match before {
            Some(key) => self.rib.set_key(&mut self.forwarding, at, source, key),
            None => {
                self.rib.clear(&mut self.forwarding, at, source);
                Ok(())
            }
        }
    }

    /// Adds paths to a label.
    ///
    /// # Errors
    /// When there is no MPLS table, a path makes no sense, or something is full.
    pub fn add_label(&mut self, label: u32, eos: bool, paths: Vec<Path>) -> Result<()> {
        self.check_label(label)?;
        let payload = if eos {
            Payload::MplsEos
        } else {
            Payload::MplsNonEos
        };
        self.check_paths(payload, &paths)?;
        let mut all = self.label_paths(label, eos);
        for path in paths {
            all.retain(|p| !p.same_way(&path));
            all.push(path);
        }
        self.replace_label(label, eos, all)
    }

    /// Removes a label.
    ///
    /// # Errors
    /// When it is not there.
    pub fn remove_label(&mut self, label: u32, eos: bool) -> Result<()> {
        self.check_label(label)?;
        if self.label_paths(label, eos).is_empty() {
            let word = if eos { "eos" } else { "non-eos" };
            return Err(Error::missing(format!("no local label {label} {word}")));
        }
        self.replace_label(label, eos, Vec::new())
    }

    /// Whether a label has an entry.
    pub fn has_label(&self, label: u32, eos: bool) -> bool {
        !self.label_paths(label, eos).is_empty()
    }

    fn check_label(&self, label: u32) -> Result<()> {
        if !self.mpls_table {
            return Err(Error::NoTable {
                family: "mpls",
                id: 0,
            });
        }
        if !(FIRST_LABEL..=LAST_LABEL).contains(&label) {
            return Err(Error::refused(format!(
                "label {label} cannot be a local label: {FIRST_LABEL} to {LAST_LABEL} can"
            )));
        }
        Ok(())
    }

    fn label_paths(&self, label: u32, eos: bool) -> Vec<Path> {
        let list = self.rib.label(label, eos);
        list.map_or_else(Vec::new, |l| l.paths().to_vec())
    }

    /// Sets the paths of a label; none removes it.
    pub(super) fn replace_label(&mut self, label: u32, eos: bool, paths: Vec<Path>) -> Result<()> {
        let before = self.label_paths(label, eos);
        if paths.is_empty() {
            self.rib.clear_label(&mut self.forwarding, label, eos);
        } else {
            self.rib
                .set_label(&mut self.forwarding, label, eos, paths)?;
        }
        self.undo(move |r| r.replace_label(label, eos, before));
        Ok(())
    }

    /// Static routes with a path that names the interface, and their other paths.
    pub(super) fn routes_through(&self, index: u32) -> Vec<(At, Vec<Path>)> {
        let named = |l: &crate::rib::PathList| l.paths().iter().any(|p| names(p, index));
        let lists = self.rib.lists().filter(|(_, l)| named(l));
        let lists: HashMap<ListId, Vec<Path>> = lists
            .map(|(id, l)| {
                let keep = l.paths().iter().filter(|p| !names(p, index));
                (id, keep.cloned().collect())
            })
            .collect();
        let mut out = Vec::new();
        if lists.is_empty() {
            return out;
        }
        for (&(family, id), table) in self.rib.tables() {
            for (net, route) in table.routes() {
                if let Some(keep) = route.source(Source::Static).and_then(|l| lists.get(&l)) {
                    out.push(((family, id, net), keep.clone()));
                }
            }
        }
        out
    }

    /// The same for labels.
    pub(super) fn labels_through(&self, index: u32) -> Vec<(u32, bool, Vec<Path>)> {
        self.rib
            .labels()
            .filter_map(|(label, eos, id)| {
                let paths = self.rib.list(id)?.paths();
                let keep = paths.iter().filter(|p| !names(p, index)).cloned().collect();
                paths
                    .iter()
                    .any(|p| names(p, index))
                    .then_some((label, eos, keep))
            })
            .collect()
    }

    fn check_paths(&self, payload: Payload, paths: &[Path]) -> Result<()> {
        paths.iter().try_for_each(|p| self.check_path(payload, p))
    }

    fn check_path(&self, payload: Payload, path: &Path) -> Result<()> {
        if let Some(l) = path.labels.iter().find(|l| **l > LAST_LABEL) {
            return Err(Error::refused(format!(
                "label {l} is over the largest, {LAST_LABEL}"
            )));
        }
        match path.via {
            Via::NextHop { ip, if_index } => self.check_hop(payload, path, ip, if_index),
            Via::Lookup { family, table } => self.rib.table(family, table).map(drop),
            Via::Attached { .. } if matches!(payload, Payload::MplsEos | Payload::MplsNonEos) => {
                Err(Error::refused("a label needs a next hop"))
            }
            _ if !path.labels.is_empty() => Err(Error::refused(
                "labels can be pushed only towards a next hop",
            )),
            _ => Ok(()),
        }
    }

    fn check_hop(
        &self,
        payload: Payload,
        path: &Path,
        ip: IpAddr,
        if_index: Option<u32>,
    ) -> Result<()> {
        let refuse = |why: &str| Err(Error::refused(format!("next hop {ip} {why}")));
        let other = match payload {
            Payload::Ip4 => ip.is_ipv6(),
            Payload::Ip6 => ip.is_ipv4(),
            _ => false,
        };
        if other && path.labels.is_empty() {
            return refuse("is of the other address family than the route");
        }
        if ip.is_unspecified() || ip.is_multicast() || ip.is_loopback() {
            return refuse("is not the address of a neighbour");
        }
        if is_link_local(ip) && if_index.is_none() {
            return refuse("is link-local: name the interface too");
        }
        match if_index.and_then(|i| self.interfaces.get(i)) {
            Some(i) if i.owns(ip) => refuse(&format!("is the address of interface {}", i.name)),
            _ => Ok(()),
        }
    }
}

/// Whether a path names an interface.
fn names(path: &Path, index: u32) -> bool {
    match path.via {
        Via::Attached { if_index } => if_index == index,
        Via::NextHop { if_index, .. } => if_index == Some(index),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
