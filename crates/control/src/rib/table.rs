//! One routing table as control keeps it: about 11 bytes a route.
//!
//! A route is one word in the prefix map: which source wants it and its path list, or, for the few that
//! several sources want, where they stand side by side.

use std::net::IpAddr;

use parshall_fib::{Ip4Prefix, Ip6Prefix, Prefix, Rib as Map};

use super::{ListId, SOURCES, Source};
use crate::prefix::{Family, IpNet};

/// The sources of one route.
type Sources = [Option<ListId>; 3];

/// A route.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Route {
    sources: Sources,
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

/// A route as it is stored: the source in the top two bits and the path list below, or [`SEVERAL`] and a
/// place in the list of routes with several sources.
#[derive(Clone, Copy, Debug, Default)]
struct Word(u32);

const SEVERAL: u32 = 3;
const SHIFT: u32 = 30;
/// Path lists there can be: their numbers have 30 bits.
pub(super) const LISTS_MAX: usize = 1 << SHIFT;

impl Word {
    fn new(kind: u32, n: u32) -> Word {
        Word(kind << SHIFT | n)
    }
    fn kind(self) -> u32 {
        self.0 >> SHIFT
    }
    fn n(self) -> u32 {
        self.0 & (LISTS_MAX as u32 - 1)
    }
}

#[derive(Debug)]
enum Routes {
    Ip4(Map<u32, Word>),
    Ip6(Map<u128, Word>),
}

/// A table.
#[derive(Debug)]
pub struct Table {
    /// Index that workers know it by.
    pub index: u32,
    routes: Routes,
    several: Vec<Sources>,
    several_free: Vec<u32>,
}

fn v4(addr: IpAddr, len: u8) -> Option<Ip4Prefix> {
    match addr {
        IpAddr::V4(a) => Some(Prefix::masked(u32::from(a), len)),
        IpAddr::V6(_) => None,
    }
}

fn v6(addr: IpAddr, len: u8) -> Option<Ip6Prefix> {
    match addr {
        IpAddr::V4(_) => None,
        IpAddr::V6(a) => Some(Prefix::masked(u128::from(a), len)),
    }
}

fn net4(p: Ip4Prefix) -> IpNet {
    IpNet::new(p.ip().into(), p.len())
}

fn net6(p: Ip6Prefix) -> IpNet {
    IpNet::new(p.ip().into(), p.len())
}

impl Table {
    pub(super) fn new(family: Family, index: u32) -> Table {
        Table {
            index,
            routes: match family {
                Family::Ip4 => Routes::Ip4(Map::new()),
                Family::Ip6 => Routes::Ip6(Map::new()),
            },
            several: Vec::new(),
            several_free: Vec::new(),
        }
    }

    /// Routes in order of address and length.
    pub fn routes(&self) -> impl Iterator<Item = (IpNet, Route)> {
        self.routes_under(self.everything())
    }

    /// Routes behind `after` in that order, or all. Finding the first takes as long as a look-up.
    pub fn routes_after(&self, after: Option<IpNet>) -> impl Iterator<Item = (IpNet, Route)> {
        let start = after.unwrap_or_else(|| self.everything());
        let inside = self
            .routes_under(start)
            .filter(move |(net, _)| Some(*net) != after);
        // What follows a prefix lies in the other halves of those that it lies in, the smallest first.
        let halves = (1..=start.prefix_len())
            .rev()
            .filter_map(move |len| start.upper_half(len));
        inside.chain(halves.flat_map(|half| self.routes_under(half)))
    }

    fn everything(&self) -> IpNet {
        let family = match self.routes {
            Routes::Ip4(_) => Family::Ip4,
            Routes::Ip6(_) => Family::Ip6,
        };
        IpNet::new(family.unspecified(), 0)
    }

    /// Routes inside a network, in order of address and length; none when it is of the other family.
    fn routes_under(&self, net: IpNet) -> impl Iterator<Item = (IpNet, Route)> {
        let (addr, len) = (net.addr(), net.prefix_len());
        let (mut four, mut six) = match &self.routes {
            Routes::Ip4(map) => (v4(addr, len).map(|p| map.iter_under(p, 32)), None),
            Routes::Ip6(map) => (None, v6(addr, len).map(|p| map.iter_under(p, 128))),
        };
        std::iter::from_fn(move || {
            let next4 = four.as_mut().and_then(Iterator::next);
            let next = next4.map(|(p, w)| (net4(p), *w));
            let next = next.or_else(|| {
                let (p, w) = six.as_mut()?.next()?;
                Some((net6(p), *w))
            });
            next.map(|(net, word)| (net, self.route(word)))
        })
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        match &self.routes {
            Routes::Ip4(map) => map.len(),
            Routes::Ip6(map) => map.len(),
        }
    }

    /// The route for this very prefix.
    pub fn get(&self, net: &IpNet) -> Option<Route> {
        self.word(net).map(|w| self.route(w))
    }

    /// The route that an address matches: the longest prefix.
    pub fn lookup(&self, addr: IpAddr) -> Option<(IpNet, Route)> {
        let (net, word) = match (&self.routes, addr) {
            (Routes::Ip4(map), IpAddr::V4(a)) => {
                map.longest_match(u32::from(a)).map(|(p, w)| (net4(p), *w))
            }
            (Routes::Ip6(map), IpAddr::V6(a)) => {
                map.longest_match(u128::from(a)).map(|(p, w)| (net6(p), *w))
            }
            _ => None,
        }?;
        Some((net, self.route(word)))
    }

    /// Bytes in use.
    pub fn memory(&self) -> usize {
        let map = match &self.routes {
            Routes::Ip4(map) => map.memory(),
            Routes::Ip6(map) => map.memory(),
        };
        map + self.several.capacity() * size_of::<Sources>() + self.several_free.capacity() * 4
    }

    /// Sets or clears the path list of one source; says what the route was and what it is now.
    pub(super) fn swap(
        &mut self,
        net: &IpNet,
        source: Source,
        list: Option<ListId>,
    ) -> (Route, Route) {
        let word = self.word(net);
        let before = word.map_or_else(Route::default, |w| self.route(w));
        let mut after = before;
        after.sources[source as usize] = list;
        if after != before {
            self.store(net, word, after);
        }
        (before, after)
    }

    fn store(&mut self, net: &IpNet, old: Option<Word>, route: Route) {
        let place = old.filter(|w| w.kind() == SEVERAL).map(Word::n);
        let held = SOURCES.into_iter().filter(|s| route.source(*s).is_some());
        let word = match (held.count(), route.best()) {
            (_, None) => None,
            (1, Some((source, list))) => Some(Word::new(source as u32, list)),
            _ => {
                let at = place.or_else(|| self.several_free.pop());
                let at = at.unwrap_or(self.several.len() as u32);
                match self.several.get_mut(at as usize) {
                    Some(sources) => *sources = route.sources,
                    None => self.several.push(route.sources),
                }
                Some(Word::new(SEVERAL, at))
            }
        };
        if word.is_none_or(|w| w.kind() != SEVERAL) {
            self.several_free.extend(place);
        }
        self.put(net, word);
    }

    fn put(&mut self, net: &IpNet, word: Option<Word>) {
        let (addr, len) = (net.addr(), net.prefix_len());
        match &mut self.routes {
            Routes::Ip4(map) => put(map, v4(addr, len), word),
            Routes::Ip6(map) => put(map, v6(addr, len), word),
        }
    }

    fn word(&self, net: &IpNet) -> Option<Word> {
        let (addr, len) = (net.addr(), net.prefix_len());
        match &self.routes {
            Routes::Ip4(map) => map.get(v4(addr, len)?).copied(),
            Routes::Ip6(map) => map.get(v6(addr, len)?).copied(),
        }
    }

    fn route(&self, word: Word) -> Route {
        let mut sources = [None; 3];
        match sources.get_mut(word.kind() as usize) {
            Some(list) => *list = Some(word.n()),
            None => {
                sources = self
                    .several
                    .get(word.n() as usize)
                    .copied()
                    .unwrap_or_default()
            }
        }
        Route { sources }
    }
}

fn put<A: parshall_fib::Addr>(
    map: &mut Map<A, Word>,
    prefix: Option<Prefix<A>>,
    word: Option<Word>,
) {
    // A prefix of the other family cannot be stored; nobody asks for it.
    let Some(prefix) = prefix else { return };
    match word {
        Some(word) => drop(map.insert(prefix, word)),
        None => drop(map.remove(prefix)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_of_one_and_of_several_sources() {
        let mut t = Table::new(Family::Ip4, 0);
        let net = IpNet::new([10, 0, 0, 0].into(), 8);
        let (before, after) = t.swap(&net, Source::Neighbor, Some(7));
        assert_eq!(
            (before.best(), after.best()),
            (None, Some((Source::Neighbor, 7)))
        );
        t.swap(&net, Source::Interface, Some(5));
        t.swap(&net, Source::Static, Some(6));
        let route = t.get(&net).unwrap();
        assert_eq!(route.sources, [Some(5), Some(6), Some(7)]);
        assert_eq!(t.lookup([10, 1, 1, 1].into()), Some((net, route)));
        t.swap(&net, Source::Interface, None);
        t.swap(&net, Source::Neighbor, None);
        assert_eq!(t.get(&net).unwrap().best(), Some((Source::Static, 6)));
        assert_eq!((t.several.len(), t.several_free.len()), (1, 1));
        t.swap(&net, Source::Static, None);
        assert_eq!((t.count(), t.get(&net)), (0, None));
    }
}
