//! The routing tables as control keeps them: every route with its sources, every path list once, and
//! which next hops depend on what.
//!
//! A *path list* is shared by all routes that ask for the same paths; it is resolved once, whatever the
//! number of routes on it. A path to a next hop without an interface is recursive: it is followed through
//! the table until it ends at a neighbour. Routes on a recursive list lead to a load balance that the list
//! keeps for life, so when the way to a next hop changes, the load balance is changed and no route is
//! (prefix-independent convergence, draft-ietf-rtgwg-bgp-pic). Which path list a next hop is reached by is
//! remembered per next hop, never per route.
//!
//! What workers see is changed through [`Objects`]; an old object is released only after no route leads
//! to it any more.

mod list;
mod table;
mod walk;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use parshall_fib::Dpo;

use crate::error::{Error, Result};
use crate::objects::Objects;
use crate::path::{Path, Payload, Via};
use crate::prefix::{Family, IpNet};

use list::Hop;
pub use list::{ListKey, PathList};
pub use table::{Route, Table};

/// Paths one route may have.
pub const MAX_PATHS: usize = 64;

/// Who asked for a route, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// An interface's addresses.
    Interface,
    /// A command.
    Static,
    /// A neighbour that is known.
    Neighbor,
}

const SOURCES: [Source; 3] = [Source::Interface, Source::Static, Source::Neighbor];

/// Number of a path list.
pub type ListId = u32;

/// A next hop and the table it is looked up in.
type HopKey = (Family, u32, IpAddr);

/// A route that changed and the path list its source had before.
pub type Changed = (IpNet, Option<Arc<ListKey>>);

/// All tables.
#[derive(Debug, Default)]
pub struct Rib {
    tables: BTreeMap<(Family, u32), Table>,
    labels: BTreeMap<(u32, bool), ListId>,
    lists: Vec<Option<PathList>>,
    free: Vec<ListId>,
    by_key: HashMap<Arc<ListKey>, ListId>,
    /// Next hops that lists follow through a table.
    hops: BTreeMap<HopKey, Hop>,
}

impl Rib {
    /// Tables by family and number.
    pub fn tables(&self) -> impl Iterator<Item = (&(Family, u32), &Table)> {
        self.tables.iter()
    }
    /// One table.
    ///
    /// # Errors
    /// When it does not exist.
    pub fn table(&self, family: Family, id: u32) -> Result<&Table> {
        self.tables.get(&(family, id)).ok_or(Error::NoTable {
            family: family.word(),
            id,
        })
    }
    /// A path list.
    pub fn list(&self, id: ListId) -> Option<&PathList> {
        self.lists.get(id as usize).and_then(Option::as_ref)
    }
    /// All path lists with their numbers.
    pub fn lists(&self) -> impl Iterator<Item = (ListId, &PathList)> {
        let numbered = self.lists.iter().zip(0..);
        numbered.filter_map(|(l, id)| Some((id, l.as_ref()?)))
    }
    /// Path lists in use.
    #[cfg(test)]
    pub fn list_count(&self) -> usize {
        self.by_key.len()
    }
    /// Labels in order, with whether the entry is for the bottom of the stack.
    pub fn labels(&self) -> impl Iterator<Item = (u32, bool, ListId)> {
        self.labels.iter().map(|((l, e), id)| (*l, *e, *id))
    }
    /// Entries of the label table.
    pub fn label_count(&self) -> usize {
        self.labels.len()
    }
    /// The path list of a label.
    pub fn label(&self, label: u32, eos: bool) -> Option<&PathList> {
        self.list(*self.labels.get(&(label, eos))?)
    }
    /// What `source` wants for a route.
    pub fn wanted(
        &self,
        (family, table, net): (Family, u32, IpNet),
        source: Source,
    ) -> Option<&Arc<ListKey>> {
        let route = self.tables.get(&(family, table))?.get(&net)?;
        Some(&self.list(route.source(source)?)?.key)
    }

    /// Makes a table.
    ///
    /// # Errors
    /// When it exists or there are too many.
    pub fn add_table(&mut self, o: &mut dyn Objects, family: Family, id: u32) -> Result<()> {
        if self.tables.contains_key(&(family, id)) {
            return Err(Error::exists(format!(
                "{} table {id} exists already",
                family.word()
            )));
        }
        let index = o.add_table(family, id)?;
        self.tables.insert((family, id), Table::new(family, index));
        Ok(())
    }

    /// Takes a table away.
    ///
    /// # Errors
    /// When it does not exist, has routes, or routes look up in it.
    pub fn remove_table(&mut self, o: &mut dyn Objects, family: Family, id: u32) -> Result<()> {
        let table = self.table(family, id)?;
        let (index, n) = (table.index, table.count());
        if n != 0 {
            return Err(Error::in_use(format!(
                "{} table {id} still has {n} routes",
                family.word()
            )));
        }
        let leads_here = |l: &PathList| {
            let same = |p: &Path| p.via == Via::Lookup { family, table: id };
            l.key.paths.iter().any(same)
        };
        if self.lists.iter().flatten().any(leads_here) {
            return Err(Error::in_use(format!(
                "routes or labels look up in {} table {id}",
                family.word()
            )));
        }
        o.remove_table(family, index);
        self.tables.remove(&(family, id));
        Ok(())
    }

    /// Sets the paths that `source` wants for a route, in place of those it wanted before.
    ///
    /// # Errors
    /// When the table does not exist or something is full; nothing changes then.
    pub fn set(
        &mut self,
        o: &mut dyn Objects,
        (family, table, net): (Family, u32, IpNet),
        source: Source,
        paths: Vec<Path>,
    ) -> Result<()> {
        let key = ListKey::new(Payload::of(family), table, paths)?;
        self.set_key(o, (family, table, net), source, Arc::new(key))
    }

    /// The same with the paths of a list.
    ///
    /// # Errors
    /// As [`set`](Self::set).
    pub fn set_key(
        &mut self,
        o: &mut dyn Objects,
        (family, table, net): (Family, u32, IpNet),
        source: Source,
        key: Arc<ListKey>,
    ) -> Result<()> {
        self.table(family, table)?;
        let list = self.hold(o, key)?;
        let (before, after) = self.swap(family, table, &net, source, Some(list));
        if let Err(e) = self.install(o, family, table, net, (before, after)) {
            self.swap(family, table, &net, source, before.source(source));
            self.let_go(o, list);
            return Err(e);
        }
        self.follow_up(o, family, table, [net]);
        if let Some(old) = before.source(source) {
            self.let_go(o, old);
        }
        Ok(())
    }

    /// Takes away what `source` wanted for a route; false when it wanted nothing.
    pub fn clear(
        &mut self,
        o: &mut dyn Objects,
        (family, table, net): (Family, u32, IpNet),
        source: Source,
    ) -> bool {
        let (before, after) = self.swap(family, table, &net, source, None);
        let Some(old) = before.source(source) else {
            return false;
        };
        if let Err(e) = self.install(o, family, table, net, (before, after)) {
            // Only a table without room can refuse, and this replaces a route in place.
            tracing::error!("route {net} in table {table}: {e}");
        }
        self.follow_up(o, family, table, [net]);
        self.let_go(o, old);
        true
    }

    /// Sets what `source` wants for many routes of a table: no list for nothing. The lists are held by
    /// the caller. Says what changed, in order.
    ///
    /// # Errors
    /// When the table does not exist or is full; nothing changes then.
    pub fn change(
        &mut self,
        o: &mut dyn Objects,
        (family, table): (Family, u32),
        source: Source,
        changes: &[(IpNet, Option<ListId>)],
    ) -> Result<Vec<Changed>> {
        let index = self.table(family, table)?.index;
        let mut seen = Vec::with_capacity(changes.len());
        let mut swapped = Vec::with_capacity(changes.len());
        for (net, new) in changes {
            let (before, after) = self.swap(family, table, net, source, *new);
            if before == after {
                continue;
            }
            swapped.push((*net, before.source(source), *new));
            let best = after.best().map(|b| b.1);
            if before.best().map(|b| b.1) != best {
                let list = best.and_then(|l| self.list(l));
                seen.push((*net, list.map_or(Dpo::MISS, |l| l.made.dpo)));
            }
        }
        if let Err(e) = o.set_routes(family, index, &seen) {
            for (net, old, _) in swapped.into_iter().rev() {
                self.swap(family, table, &net, source, old);
            }
            return Err(e);
        }
        drop(seen);
        // All are held before any is let go: a route may be there twice.
        swapped.iter().for_each(|s| self.hold_again(s.2));
        self.follow_up(o, family, table, swapped.iter().map(|s| s.0));
        let done = |(net, old, _): (IpNet, Option<ListId>, _)| {
            let key = old.and_then(|l| self.list(l)).map(|l| l.key.clone());
            if let Some(old) = old {
                self.let_go(o, old);
            }
            (net, key)
        };
        Ok(swapped.into_iter().map(done).collect())
    }

    /// Sets what happens to a label.
    ///
    /// # Errors
    /// When something is full; nothing changes then.
    pub fn set_label(
        &mut self,
        o: &mut dyn Objects,
        label: u32,
        eos: bool,
        paths: Vec<Path>,
    ) -> Result<()> {
        let payload = if eos {
            Payload::MplsEos
        } else {
            Payload::MplsNonEos
        };
        let list = self.hold(o, Arc::new(ListKey::new(payload, 0, paths)?))?;
        let dpo = self.list(list).map(|l| l.made.dpo).unwrap_or_default();
        if let Err(e) = o.set_label(label, eos, dpo) {
            self.let_go(o, list);
            return Err(e);
        }
        if let Some(old) = self.labels.insert((label, eos), list) {
            self.let_go(o, old);
        }
        Ok(())
    }

    /// Forgets a label; false when there was none.
    pub fn clear_label(&mut self, o: &mut dyn Objects, label: u32, eos: bool) -> bool {
        let Some(list) = self.labels.remove(&(label, eos)) else {
            return false;
        };
        o.remove_label(label, eos);
        self.let_go(o, list);
        true
    }

    /// An interface came up or went down: paths over it are followed again.
    pub fn interface_changed(&mut self, o: &mut dyn Objects, if_index: u32) {
        let uses = |(id, l): (ListId, &PathList)| l.uses(if_index).then_some(id);
        let dirty: BTreeSet<ListId> = self.lists().filter_map(uses).collect();
        self.settle_lists(o, dirty);
    }

    /// The route and path list that packets to `addr` follow.
    pub fn best_for(&self, family: Family, table: u32, addr: IpAddr) -> Option<(IpNet, &PathList)> {
        let (net, route) = self.tables.get(&(family, table))?.lookup(addr)?;
        let (_, list) = route.best()?;
        Some((net, self.list(list)?))
    }

    /// Sets the path list of a source; says what the route was and is. The holds are the caller's business.
    fn swap(
        &mut self,
        family: Family,
        table: u32,
        net: &IpNet,
        source: Source,
        list: Option<ListId>,
    ) -> (Route, Route) {
        let table = self.tables.get_mut(&(family, table));
        table.map_or_else(Default::default, |t| t.swap(net, source, list))
    }

    /// Makes workers see the best path list of a route that was one and is another now.
    fn install(
        &self,
        o: &mut dyn Objects,
        family: Family,
        table: u32,
        net: IpNet,
        (before, after): (Route, Route),
    ) -> Result<()> {
        let after = after.best().map(|b| b.1);
        if after == before.best().map(|b| b.1) {
            return Ok(());
        }
        let index = self.table(family, table)?.index;
        match after.and_then(|l| self.list(l)) {
            Some(list) => o.set_route(family, index, net, list.made.dpo)?,
            None => o.remove_route(family, index, net),
        }
        Ok(())
    }

    /// Routes changed: lists whose next hops are reached another way now are followed again.
    fn follow_up(
        &mut self,
        o: &mut dyn Objects,
        family: Family,
        table: u32,
        nets: impl IntoIterator<Item = IpNet>,
    ) {
        if self.hops.is_empty() {
            return;
        }
        let mut dirty = BTreeSet::new();
        for net in nets {
            self.reroute_hops(family, table, net, &mut dirty);
        }
        self.settle_lists(o, dirty);
    }

    /// Bytes in use by the tables of a family.
    pub fn table_memory(&self, family: Family) -> usize {
        let tables = self.tables.iter().filter(|(k, _)| k.0 == family);
        tables.map(|(_, t)| t.memory()).sum()
    }

    /// Bytes in use by path lists and what finds them: lists, next hops, labels.
    pub fn list_memory(&self) -> usize {
        let lists: usize = self.lists().map(|(_, l)| l.memory()).sum();
        let slots = self.lists.capacity() * size_of::<Option<PathList>>()
            + self.free.capacity() * size_of::<ListId>();
        // A map's entry costs about its size and half as much again.
        let maps = self.by_key.capacity() * (size_of::<(Arc<ListKey>, ListId)>() + 1)
            + self.hops.len() * size_of::<(HopKey, Hop)>() * 3 / 2
            + self.labels.len() * size_of::<((u32, bool), ListId)>() * 3 / 2;
        lists + slots + maps
    }
}

#[cfg(test)]
mod tests;
