//! The routing tables as control keeps them: every route with its sources, every path list once, and
//! which lists hang on which routes.
//!
//! A *path list* is shared by all routes that ask for the same paths; it is resolved once, whatever the
//! number of routes on it. A path to a next hop without an interface is recursive: it is followed through
//! the table until it ends at a neighbour, and followed again whenever a route over the next hop changes.
//! What workers see is changed through [`Objects`]; an old object is released only after no route leads
//! to it any more.

mod walk;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use parshall_fib::Dpo;

use crate::error::{Error, Result};
use crate::objects::{Made, Objects};
use crate::path::{Leg, Path, Payload, Share, Target, Via, settle};
use crate::prefix::{Family, IpNet};

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
pub type ListId = usize;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ListKey {
    payload: Payload,
    /// Table in which next hops are looked up.
    table: u32,
    paths: Vec<Path>,
}

/// Something that follows a path list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum User {
    Route(u32, IpNet),
    Label(u32, bool),
}

/// A path list.
#[derive(Debug)]
pub struct PathList {
    key: Arc<ListKey>,
    legs: Vec<Leg>,
    /// The legs before their shares were rounded to weights: what lists that hang on this one see.
    shares: Vec<Share>,
    /// Following it met a loop: then its legs do not tell all that others see through it.
    looped: bool,
    made: Made,
    users: BTreeSet<User>,
    /// Sources that hold it; it can be held without being the best of any route.
    holds: usize,
}

impl PathList {
    /// Paths as asked for.
    pub fn paths(&self) -> &[Path] {
        &self.key.paths
    }
    /// What they come to now.
    pub fn legs(&self) -> &[Leg] {
        &self.legs
    }
    /// The object that workers see.
    pub fn made(&self) -> &Made {
        &self.made
    }
}

/// A route.
#[derive(Clone, Debug, Default)]
pub struct Route {
    sources: [Option<ListId>; 3],
}

impl Route {
    /// The best source and its path list.
    pub fn best(&self) -> Option<(Source, ListId)> {
        SOURCES
            .into_iter()
            .find_map(|s| self.sources[s as usize].map(|l| (s, l)))
    }
    /// The path list of one source.
    pub fn source(&self, source: Source) -> Option<ListId> {
        self.sources[source as usize]
    }
}

/// A table.
#[derive(Debug)]
pub struct Table {
    /// Index that workers know it by.
    pub index: u32,
    routes: BTreeMap<IpNet, Route>,
}

impl Table {
    /// Routes in order of address and length.
    pub fn routes(&self) -> impl Iterator<Item = (&IpNet, &Route)> {
        self.routes.iter()
    }
    /// How many there are.
    pub fn count(&self) -> usize {
        self.routes.len()
    }
    /// The route for this very prefix.
    pub fn get(&self, net: &IpNet) -> Option<&Route> {
        self.routes.get(net)
    }
    /// The route that an address matches: the longest prefix.
    pub fn lookup(&self, addr: IpAddr) -> Option<(IpNet, &Route)> {
        (0..=Family::of(addr).bits()).rev().find_map(|len| {
            let net = IpNet::new(addr, len);
            self.routes.get(&net).map(|r| (net, r))
        })
    }
}

/// All tables.
#[derive(Debug, Default)]
pub struct Rib {
    tables: BTreeMap<(Family, u32), Table>,
    labels: BTreeMap<(u32, bool), ListId>,
    lists: Vec<Option<PathList>>,
    free: Vec<ListId>,
    by_key: HashMap<Arc<ListKey>, ListId>,
    /// Lists that follow a next hop through a table.
    recursive: BTreeMap<(Family, u32, IpAddr), BTreeSet<ListId>>,
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
        self.lists.get(id).and_then(Option::as_ref)
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

    /// Makes a table.
    ///
    /// # Errors
    /// When it exists or there are too many.
    pub fn add_table(&mut self, o: &mut dyn Objects, family: Family, id: u32) -> Result<()> {
        if self.tables.contains_key(&(family, id)) {
            return Err(Error::refused(format!(
                "{} table {id} exists already",
                family.word()
            )));
        }
        let index = o.add_table(family, id)?;
        self.tables.insert(
            (family, id),
            Table {
                index,
                routes: BTreeMap::new(),
            },
        );
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
            return Err(Error::refused(format!(
                "{} table {id} still has {n} routes",
                family.word()
            )));
        }
        let leads_here = |l: &PathList| {
            let same = |p: &Path| p.via == Via::Lookup { family, table: id };
            l.key.paths.iter().any(same)
        };
        if self.lists.iter().flatten().any(leads_here) {
            return Err(Error::refused(format!(
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
        self.table(family, table)?;
        let list = self.hold(o, Payload::of(family), table, paths)?;
        let before = self.best_list(family, table, net);
        let route = self.route_mut(family, table, net);
        let old = route.and_then(|r| r.sources[source as usize].replace(list));
        if let Err(e) = self.install(o, family, table, net, before) {
            if let Some(r) = self.route_mut(family, table, net) {
                r.sources[source as usize] = old;
            }
            self.prune(family, table, net);
            self.let_go(o, list);
            return Err(e);
        }
        if let Some(old) = old {
            self.let_go(o, old);
        }
        self.follow_up(o, family, table, net);
        Ok(())
    }

    /// Takes away what `source` wanted for a route; false when it wanted nothing.
    pub fn clear(
        &mut self,
        o: &mut dyn Objects,
        (family, table, net): (Family, u32, IpNet),
        source: Source,
    ) -> bool {
        let exists = self
            .tables
            .get(&(family, table))
            .is_some_and(|t| t.routes.contains_key(&net));
        if !exists {
            return false;
        }
        let before = self.best_list(family, table, net);
        let route = self.route_mut(family, table, net);
        let Some(old) = route.and_then(|r| r.sources[source as usize].take()) else {
            return false;
        };
        if let Err(e) = self.install(o, family, table, net, before) {
            // Only a table without room can refuse, and this replaces a route in place.
            tracing::error!("route {net} in table {table}: {e}");
        }
        self.prune(family, table, net);
        self.let_go(o, old);
        self.follow_up(o, family, table, net);
        true
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
        let list = self.hold(o, payload, 0, paths)?;
        let dpo = self.list(list).map(|l| l.made.dpo).unwrap_or_default();
        if let Err(e) = o.set_label(label, eos, dpo) {
            self.let_go(o, list);
            return Err(e);
        }
        let old = self.labels.insert((label, eos), list);
        if let Some(old) = old {
            self.unuse(old, User::Label(label, eos));
        }
        self.use_list(list, User::Label(label, eos));
        if let Some(old) = old {
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
        self.unuse(list, User::Label(label, eos));
        self.let_go(o, list);
        true
    }

    /// An interface came up or went down: paths over it are followed again.
    pub fn interface_changed(&mut self, o: &mut dyn Objects, if_index: u32) {
        let uses = |l: &PathList| {
            let direct = l.key.paths.iter().any(|p| match p.via {
                Via::Attached { if_index: i } => i == if_index,
                Via::NextHop { if_index: i, .. } => i == Some(if_index),
                _ => false,
            });
            let led = l.legs.iter().any(
                |leg| matches!(leg.target, Target::Neighbor { if_index: i, .. } if i == if_index),
            );
            direct || led
        };
        let dirty = (0..self.lists.len())
            .filter(|i| self.list(*i).is_some_and(uses))
            .collect();
        self.settle_lists(o, dirty);
    }

    /// The route and path list that packets to `addr` follow.
    pub fn best_for(&self, family: Family, table: u32, addr: IpAddr) -> Option<(IpNet, &PathList)> {
        let (net, route) = self.tables.get(&(family, table))?.lookup(addr)?;
        let (_, list) = route.best()?;
        Some((net, self.list(list)?))
    }

    fn route_mut(&mut self, family: Family, table: u32, net: IpNet) -> Option<&mut Route> {
        let table = self.tables.get_mut(&(family, table))?;
        Some(table.routes.entry(net).or_default())
    }

    /// Removes a route that nobody wants any more.
    fn prune(&mut self, family: Family, table: u32, net: IpNet) {
        if let Some(t) = self.tables.get_mut(&(family, table))
            && t.routes.get(&net).is_some_and(|r| r.best().is_none())
        {
            t.routes.remove(&net);
        }
    }

    fn best_list(&self, family: Family, table: u32, net: IpNet) -> Option<ListId> {
        let route = self.tables.get(&(family, table))?.routes.get(&net)?;
        route.best().map(|b| b.1)
    }

    /// Makes workers see the best path list of a route, which was `before`.
    fn install(
        &mut self,
        o: &mut dyn Objects,
        family: Family,
        table: u32,
        net: IpNet,
        before: Option<ListId>,
    ) -> Result<()> {
        let after = self.best_list(family, table, net);
        if after == before {
            return Ok(());
        }
        let index = self.table(family, table)?.index;
        match after.and_then(|l| self.list(l)) {
            Some(list) => o.set_route(family, index, net, list.made.dpo)?,
            None => o.remove_route(family, index, net),
        }
        if let Some(l) = before {
            self.unuse(l, User::Route(table, net));
        }
        if let Some(l) = after {
            self.use_list(l, User::Route(table, net));
        }
        Ok(())
    }

    fn use_list(&mut self, id: ListId, user: User) {
        if let Some(Some(l)) = self.lists.get_mut(id) {
            l.users.insert(user);
        }
    }

    fn unuse(&mut self, id: ListId, user: User) {
        if let Some(Some(l)) = self.lists.get_mut(id) {
            l.users.remove(&user);
        }
    }

    /// The path list for these paths, made if there is none, held once more.
    fn hold(
        &mut self,
        o: &mut dyn Objects,
        payload: Payload,
        table: u32,
        mut paths: Vec<Path>,
    ) -> Result<ListId> {
        if paths.is_empty() || paths.len() > MAX_PATHS {
            return Err(Error::refused(format!(
                "a route has 1 to {MAX_PATHS} paths, not {}",
                paths.len()
            )));
        }
        paths.sort_unstable();
        let key = ListKey {
            payload,
            table,
            paths,
        };
        if let Some(&id) = self.by_key.get(&key) {
            if let Some(Some(l)) = self.lists.get_mut(id) {
                l.holds += 1;
            }
            return Ok(id);
        }
        let (shares, looped) = self.expand(o, &key);
        let legs = settle(&shares);
        let made = o.make(payload, &legs, &mut Made::default())?;
        Ok(self.insert_list(PathList {
            key: Arc::new(key),
            legs,
            shares,
            looped,
            made,
            users: BTreeSet::new(),
            holds: 1,
        }))
    }

    fn insert_list(&mut self, list: PathList) -> ListId {
        let key = list.key.clone();
        let id = self.free.pop().unwrap_or(self.lists.len());
        if id == self.lists.len() {
            self.lists.push(None);
        }
        self.lists[id] = Some(list);
        for hop in hops(&key) {
            self.recursive.entry(hop).or_default().insert(id);
        }
        self.by_key.insert(key, id);
        id
    }

    /// Holds a list once less; what nobody holds is released.
    fn let_go(&mut self, o: &mut dyn Objects, id: ListId) {
        let Some(Some(list)) = self.lists.get_mut(id) else {
            return;
        };
        list.holds -= 1;
        if list.holds > 0 {
            return;
        }
        if let Some(list) = self.lists[id].take() {
            self.by_key.remove(&list.key);
            for hop in hops(&list.key) {
                if let Some(set) = self.recursive.get_mut(&hop) {
                    set.remove(&id);
                    if set.is_empty() {
                        self.recursive.remove(&hop);
                    }
                }
            }
            o.release(list.made);
            self.free.push(id);
        }
    }

    /// A route changed: lists whose next hops it covers are followed again.
    fn follow_up(&mut self, o: &mut dyn Objects, family: Family, table: u32, net: IpNet) {
        let dirty = self.covered(family, table, net);
        self.settle_lists(o, dirty);
    }

    fn covered(&self, family: Family, table: u32, net: IpNet) -> BTreeSet<ListId> {
        if self.recursive.is_empty() {
            return BTreeSet::new();
        }
        self.recursive
            .range((family, table, net.addr())..=(family, table, net.last()))
            .flat_map(|(_, ids)| ids.iter().copied())
            .collect()
    }

    /// Follows lists again, and those that hang on routes which changed by that. What a list comes to
    /// depends on the routes alone, not on what others came to before: once each is enough.
    fn settle_lists(&mut self, o: &mut dyn Objects, mut dirty: BTreeSet<ListId>) {
        let mut done = BTreeSet::new();
        while let Some(id) = dirty.pop_first() {
            let Some(list) = self.list(id).filter(|_| done.insert(id)) else {
                continue;
            };
            let (shares, looped) = self.expand(o, &list.key);
            let same = shares == list.shares;
            if same && !looped && !list.looped {
                continue;
            }
            let legs = settle(&shares);
            let moved = legs != list.legs;
            if let Some(Some(list)) = self.lists.get_mut(id) {
                (list.looped, list.shares) = (looped, shares);
            }
            if moved {
                self.replace(o, id, legs);
            }
            self.add_dependents(id, &mut dirty);
        }
    }

    /// Adds the lists whose next hops are reached by routes on list `id`.
    fn add_dependents(&self, id: ListId, dirty: &mut BTreeSet<ListId>) {
        let Some(list) = self.list(id).filter(|_| !self.recursive.is_empty()) else {
            return;
        };
        let Some(family) = family_of(list.key.payload) else {
            return;
        };
        for user in &list.users {
            if let User::Route(table, net) = user {
                dirty.extend(self.covered(family, *table, *net));
            }
        }
    }

    /// Gives a list new legs: new objects, then the routes, then the old objects go.
    fn replace(&mut self, o: &mut dyn Objects, id: ListId, legs: Vec<Leg>) {
        let Some(Some(list)) = self.lists.get_mut(id) else {
            return;
        };
        let (payload, family) = (list.key.payload, family_of(list.key.payload));
        let mut old = std::mem::take(&mut list.made);
        list.made = o.make(payload, &legs, &mut old).unwrap_or_else(|e| {
            tracing::error!("a path list lost its paths: {e}");
            Made {
                dpo: Dpo::UNREACHABLE,
                ..Made::default()
            }
        });
        let dpo = list.made.dpo;
        list.legs = legs;
        for user in list.users.iter().filter(|_| dpo != old.dpo) {
            let set = match (*user, family) {
                (User::Route(table, net), Some(family)) => {
                    match self.tables.get(&(family, table)) {
                        Some(t) => o.set_route(family, t.index, net, dpo),
                        None => Ok(()),
                    }
                }
                (User::Label(label, eos), _) => o.set_label(label, eos, dpo),
                _ => Ok(()),
            };
            if let Err(e) = set {
                tracing::error!("a route could not be changed: {e}");
            }
        }
        o.release(old);
    }
}

fn family_of(payload: Payload) -> Option<Family> {
    match payload {
        Payload::Ip4 => Some(Family::Ip4),
        Payload::Ip6 => Some(Family::Ip6),
        _ => None,
    }
}

/// The next hops a list follows through a table.
fn hops(key: &ListKey) -> impl Iterator<Item = (Family, u32, IpAddr)> {
    key.paths.iter().filter_map(|p| match p.via {
        Via::NextHop { ip, if_index: None } => Some((Family::of(ip), key.table, ip)),
        _ => None,
    })
}

#[cfg(test)]
mod tests;
