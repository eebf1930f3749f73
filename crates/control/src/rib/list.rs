//! Path lists: interned, counted, followed to their ends, and followed again when something on the way
//! changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parshall_fib::Dpo;

use super::table::LISTS_MAX;
use super::{HopKey, ListId, MAX_PATHS, Rib};
use crate::error::{Error, Result};
use crate::objects::{Made, Objects};
use crate::path::{Leg, Path, Payload, Share, Target, Via, settle};
use crate::prefix::{Family, IpNet};

/// What a path list is asked to be.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ListKey {
    pub(super) payload: Payload,
    /// Table in which next hops are looked up.
    pub(super) table: u32,
    pub(super) paths: Vec<Path>,
}

impl ListKey {
    /// These paths, in any order.
    ///
    /// # Errors
    /// When there are none or too many.
    pub fn new(payload: Payload, table: u32, mut paths: Vec<Path>) -> Result<ListKey> {
        if paths.is_empty() || paths.len() > MAX_PATHS {
            return Err(Error::refused(format!(
                "a route has 1 to {MAX_PATHS} paths, not {}",
                paths.len()
            )));
        }
        paths.sort_unstable();
        Ok(ListKey {
            payload,
            table,
            paths,
        })
    }

    /// Paths as asked for.
    pub fn paths(&self) -> &[Path] {
        &self.paths
    }

    /// The next hops it follows through a table.
    fn hops(&self) -> impl Iterator<Item = HopKey> {
        self.paths.iter().filter_map(|p| match p.via {
            Via::NextHop { ip, if_index: None } => Some((Family::of(ip), self.table, ip)),
            _ => None,
        })
    }

    /// Whether where it leads depends on other routes.
    fn is_recursive(&self) -> bool {
        self.hops().next().is_some()
    }

    fn family(&self) -> Option<Family> {
        match self.payload {
            Payload::Ip4 => Some(Family::Ip4),
            Payload::Ip6 => Some(Family::Ip6),
            _ => None,
        }
    }

    fn memory(&self) -> usize {
        let labels: usize = self.paths.iter().map(|p| p.labels.capacity() * 4).sum();
        size_of::<Self>() + self.paths.capacity() * size_of::<Path>() + labels
    }
}

/// A path list.
#[derive(Debug)]
pub struct PathList {
    pub(super) key: Arc<ListKey>,
    pub(super) legs: Vec<Leg>,
    /// The legs before their shares were rounded to weights: what lists that hang on this one see.
    shares: Vec<Share>,
    /// Following it met a loop: then its legs do not tell all that others see through it.
    looped: bool,
    pub(super) made: Made,
    /// Sources and labels that hold it; it can be held without being the best of any route.
    holds: u32,
    /// Next hops whose best route is on this list.
    carries: BTreeSet<HopKey>,
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
    /// Bytes it has on the heap.
    pub(super) fn memory(&self) -> usize {
        self.key.memory()
            + self.legs.capacity() * size_of::<Leg>()
            + self.shares.capacity() * size_of::<Share>()
            + self.made.adjacencies.capacity() * 4
            + self.carries.len() * size_of::<HopKey>() * 3 / 2
    }
    /// Whether it leads or may lead over an interface.
    pub(super) fn uses(&self, if_index: u32) -> bool {
        let direct = self.key.paths.iter().any(|p| match p.via {
            Via::Attached { if_index: i } => i == if_index,
            Via::NextHop { if_index: i, .. } => i == Some(if_index),
            _ => false,
        });
        let led =
            |leg: &Leg| matches!(leg.target, Target::Neighbor { if_index: i, .. } if i == if_index);
        direct || self.legs.iter().any(led)
    }
}

/// A next hop that lists follow through a table.
#[derive(Debug, Default)]
pub(super) struct Hop {
    lists: BTreeSet<ListId>,
    /// The path list of the best route to it.
    via: Option<ListId>,
}

/// Lists that lead elsewhere now, by the table whose routes must be told; and what they led to.
#[derive(Default)]
struct Moved {
    tables: BTreeMap<(Family, u32), BTreeSet<ListId>>,
    labels: BTreeSet<ListId>,
    old: Vec<Made>,
}

impl Rib {
    /// The list of a key, made if there is none, held once more.
    ///
    /// # Errors
    /// When something is full; nothing changes then.
    pub fn hold(&mut self, o: &mut dyn Objects, key: Arc<ListKey>) -> Result<ListId> {
        if let Some(&id) = self.by_key.get(&key) {
            self.hold_again(Some(id));
            return Ok(id);
        }
        if self.free.is_empty() && self.lists.len() == LISTS_MAX {
            let text = format!("set of path lists full: the limit is {LISTS_MAX} lists");
            return Err(Error::Full(text));
        }
        let (shares, looped) = self.expand(o, &key);
        let legs = settle(&shares);
        let keep = key.is_recursive();
        let made = o.make(key.payload, &legs, keep, &mut Made::default())?;
        Ok(self.insert_list(PathList {
            key,
            legs,
            shares,
            looped,
            made,
            holds: 1,
            carries: BTreeSet::new(),
        }))
    }

    pub(super) fn hold_again(&mut self, id: Option<ListId>) {
        if let Some(list) = id.and_then(|id| self.list_mut(id)) {
            list.holds += 1;
        }
    }

    fn list_mut(&mut self, id: ListId) -> Option<&mut PathList> {
        self.lists.get_mut(id as usize)?.as_mut()
    }

    fn insert_list(&mut self, list: PathList) -> ListId {
        let key = list.key.clone();
        let id = self.free.pop().unwrap_or(self.lists.len() as ListId);
        if id as usize == self.lists.len() {
            self.lists.push(None);
        }
        self.lists[id as usize] = Some(list);
        for hop in key.hops() {
            if !self.hops.contains_key(&hop) {
                let via = self.way_to(hop);
                self.carry(via, hop);
                let lists = BTreeSet::new();
                self.hops.insert(hop, Hop { lists, via });
            }
            if let Some(h) = self.hops.get_mut(&hop) {
                h.lists.insert(id);
            }
        }
        self.by_key.insert(key, id);
        id
    }

    /// Holds a list once less; what nobody holds is released.
    pub fn let_go(&mut self, o: &mut dyn Objects, id: ListId) {
        let Some(list) = self.list_mut(id) else {
            return;
        };
        list.holds -= 1;
        if list.holds > 0 {
            return;
        }
        let Some(list) = self.lists[id as usize].take() else {
            return;
        };
        self.by_key.remove(&list.key);
        for hop in list.key.hops() {
            let Some(h) = self.hops.get_mut(&hop) else {
                continue;
            };
            h.lists.remove(&id);
            if h.lists.is_empty() {
                let via = h.via;
                self.hops.remove(&hop);
                if let Some(carrier) = via.and_then(|v| self.list_mut(v)) {
                    carrier.carries.remove(&hop);
                }
            }
        }
        o.release(list.made);
        self.free.push(id);
        if self.by_key.is_empty() {
            // The last list: what held them need not stay.
            (self.lists, self.free) = (Vec::new(), Vec::new());
        }
    }

    /// The path list of the best route to a next hop.
    fn way_to(&self, (family, table, ip): HopKey) -> Option<ListId> {
        let (_, route) = self.tables.get(&(family, table))?.lookup(ip)?;
        route.best().map(|b| b.1)
    }

    fn carry(&mut self, list: Option<ListId>, hop: HopKey) {
        if let Some(list) = list.and_then(|l| self.list_mut(l)) {
            list.carries.insert(hop);
        }
    }

    /// A route changed: adds the lists whose next hops another list leads to now.
    pub(super) fn reroute_hops(
        &mut self,
        family: Family,
        table: u32,
        net: IpNet,
        dirty: &mut BTreeSet<ListId>,
    ) {
        let inside = (family, table, net.addr())..=(family, table, net.last());
        // Mostly none: nothing is allocated then.
        let hops: Vec<HopKey> = self.hops.range(inside).map(|(k, _)| *k).collect();
        for hop in hops {
            let via = self.way_to(hop);
            let Some(h) = self.hops.get_mut(&hop).filter(|h| h.via != via) else {
                continue;
            };
            let old = std::mem::replace(&mut h.via, via);
            dirty.extend(&h.lists);
            if let Some(carrier) = old.and_then(|l| self.list_mut(l)) {
                carrier.carries.remove(&hop);
            }
            self.carry(via, hop);
        }
    }

    /// Follows lists again, and those that hang on what changed by that. What a list comes to depends on
    /// the routes alone, not on what others came to before: once each is enough.
    pub(super) fn settle_lists(&mut self, o: &mut dyn Objects, mut dirty: BTreeSet<ListId>) {
        let (mut done, mut moved) = (BTreeSet::new(), Moved::default());
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
            let moves = legs != list.legs;
            let carried = list.carries.iter().filter_map(|h| self.hops.get(h));
            dirty.extend(carried.flat_map(|h| &h.lists));
            if let Some(list) = self.list_mut(id) {
                (list.looped, list.shares) = (looped, shares);
            }
            if moves {
                self.replace(o, id, legs, &mut moved);
            }
        }
        self.tell(o, moved);
    }

    /// Gives a list new legs. A recursive one keeps its object; for another, routes must be told.
    fn replace(&mut self, o: &mut dyn Objects, id: ListId, legs: Vec<Leg>, moved: &mut Moved) {
        let Some(list) = self.list_mut(id) else {
            return;
        };
        let (payload, keep) = (list.key.payload, list.key.is_recursive());
        let mut old = std::mem::take(&mut list.made);
        list.made = o.make(payload, &legs, keep, &mut old).unwrap_or_else(|e| {
            tracing::error!("a path list lost its paths: {e}");
            nowhere(o, payload, keep, &mut old)
        });
        list.legs = legs;
        if list.made.dpo != old.dpo {
            match list.key.family() {
                Some(family) => {
                    let table = (family, list.key.table);
                    moved.tables.entry(table).or_default().insert(id);
                }
                None => _ = moved.labels.insert(id),
            }
        }
        moved.old.push(old);
    }

    /// Tells routes and labels about lists that lead elsewhere now; then what they led to goes.
    fn tell(&mut self, o: &mut dyn Objects, moved: Moved) {
        for ((family, id), lists) in moved.tables {
            let Some(table) = self.tables.get(&(family, id)) else {
                continue;
            };
            let on_them = table.routes().filter_map(|(net, route)| {
                let best = route.best()?.1;
                let list = lists.contains(&best).then(|| self.list(best)).flatten()?;
                Some((net, list.made.dpo))
            });
            let routes: Vec<(IpNet, Dpo)> = on_them.collect();
            if let Err(e) = o.set_routes(family, table.index, &routes) {
                tracing::error!(
                    "{} routes of table {id} could not be changed: {e}",
                    routes.len()
                );
            }
        }
        for ((label, eos), id) in &self.labels {
            let moved = moved.labels.contains(id);
            let Some(list) = self.list(*id).filter(|_| moved) else {
                continue;
            };
            if let Err(e) = o.set_label(*label, *eos, list.made.dpo) {
                tracing::error!("label {label} could not be changed: {e}");
            }
        }
        moved.old.into_iter().for_each(|old| o.release(old));
    }
}

/// What a list comes to when there is no room for what it should be: unreachable, in the same object if
/// it keeps one.
fn nowhere(o: &mut dyn Objects, payload: Payload, keep: bool, old: &mut Made) -> Made {
    let unreachable = Leg {
        target: Target::Other(Via::Unreachable),
        weight: 1,
        labels: Vec::new(),
        pipe: false,
    };
    let made = o.make(payload, &[unreachable], keep, old);
    made.unwrap_or_else(|_| Made {
        dpo: Dpo::UNREACHABLE,
        ..Made::default()
    })
}
