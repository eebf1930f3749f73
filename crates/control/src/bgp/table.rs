//! Prefix to BGP path: the longest match, and of several paths the one that a router would take.
//!
//! Every source (a file, a peer of a router that is monitored) has its own paths, so that one can go without the
//! others. Those to one prefix hang together in a chain, the best first. Memory is bounded: what does not fit any
//! more is refused, and what is there stays.

use std::cmp::Ordering;
use std::net::IpAddr;
use std::sync::Arc;

use parshall_bgp::{Net, PathAttributes};
use parshall_fib::{Addr, Prefix, Rib};

use super::sets::{SetId, Sets};

/// No path: the end of a chain.
const NONE: u32 = u32::MAX;
/// Changes after which memory is added up anew.
const RECKON_EVERY: u32 = 256;
/// Bytes that tables may take until told otherwise: several full tables.
pub const DEFAULT_LIMIT: usize = 1 << 30;

/// Number of a source of paths.
pub type SourceId = u16;

/// The table is as large as it may get.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the BGP table is at its limit of {} MiB: raise it with `bgp memory-limit` or leave routes out at their source",
    .0 >> 20
)]
pub struct TableFull(pub usize);

/// The best path to somewhere; good for as long as the table does not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Best {
    set: SetId,
    /// AS that the prefix is of; 0 = the path is empty.
    pub origin_as: u32,
    /// Neighbouring AS on the way.
    pub neighbor_as: u32,
}

/// A path of one source to one prefix.
#[derive(Clone, Copy)]
struct Held {
    set: SetId,
    /// AS that the prefix is of, and the neighbouring one on the way; 0 = the path is empty. Kept here because they
    /// are all that is asked for of a source's route.
    origin_as: u32,
    neighbor_as: u32,
    /// Identifier of the path within the source (RFC 7911).
    path_id: u32,
    next: u32,
    source: SourceId,
    /// Of two sources the one of higher rank is believed.
    rank: u8,
}

/// All paths.
pub struct BgpTable {
    ip4: Rib<u32, u32>,
    ip6: Rib<u128, u32>,
    held: Vec<Held>,
    /// First of the places in `held` that are free.
    free: u32,
    paths: usize,
    sets: Sets,
    limit: usize,
    memory: usize,
    changes: u32,
    generation: u64,
}

/// A path as it is shown.
#[derive(Clone, Debug)]
pub struct ShownPath {
    /// Who told of it.
    pub source: SourceId,
    /// Its identifier there.
    pub path_id: u32,
    /// What it says.
    pub path: Arc<PathAttributes>,
}

/// How much there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableSize {
    /// Prefixes, by family.
    pub prefixes: [usize; 2],
    /// Paths to them.
    pub paths: usize,
    /// Different attributes.
    pub attributes: usize,
    /// Bytes in use.
    pub memory: usize,
    /// Bytes there may be.
    pub limit: usize,
}

impl Default for BgpTable {
    fn default() -> Self {
        BgpTable {
            ip4: Rib::new(),
            ip6: Rib::new(),
            held: Vec::new(),
            free: NONE,
            paths: 0,
            sets: Sets::default(),
            limit: DEFAULT_LIMIT,
            memory: 0,
            changes: 0,
            generation: 1,
        }
    }
}

impl BgpTable {
    /// Sets how many bytes the table may take. What is there stays, even if it is more.
    pub fn set_limit(&mut self, bytes: usize) {
        self.limit = bytes;
    }

    /// A source of this rank has a path to `net` now, in place of the one it had under `path_id`.
    ///
    /// # Errors
    /// When the table is full; the path that was there is gone then, since it is no longer true.
    pub fn announce(
        &mut self,
        net: Net,
        (source, rank): (SourceId, u8),
        path_id: u32,
        path: &PathAttributes,
    ) -> Result<(), TableFull> {
        self.reckon();
        let set = self.sets.take(path);
        let chain = self.chain(net).unwrap_or(NONE);
        if let Some(at) = self.find(chain, source, path_id) {
            // Most announcements say again what is known.
            if self.held[at as usize].set == set {
                self.sets.release(set);
                return Ok(());
            }
            self.withdraw(net, source, path_id);
        }
        if self.memory >= self.limit {
            self.sets.release(set);
            return Err(TableFull(self.limit));
        }
        self.generation += 1;
        let at = self.place(Held {
            set,
            origin_as: path.origin_as().unwrap_or(0),
            neighbor_as: path.neighbor_as().unwrap_or(0),
            path_id,
            next: NONE,
            source,
            rank,
        });
        self.paths += 1;
        let chain = self.chain(net).unwrap_or(NONE);
        let first = self.link(chain, at);
        if first != chain {
            self.set_chain(net, first);
        }
        Ok(())
    }

    /// A source has no path to `net` any more under `path_id`. Says whether it had one.
    pub fn withdraw(&mut self, net: Net, source: SourceId, path_id: u32) -> bool {
        self.remove(net, |h| h.source == source && h.path_id == path_id)
    }

    /// A source has no path at all to `net` any more.
    pub fn forget(&mut self, net: Net, source: SourceId) {
        self.remove(net, |h| h.source == source);
    }

    fn remove(&mut self, net: Net, gone: impl Fn(&Held) -> bool) -> bool {
        let Some(chain) = self.chain(net) else {
            return false;
        };
        let (mut first, mut last, mut at, mut any) = (NONE, NONE, chain, false);
        while at != NONE {
            let held = self.held[at as usize];
            if gone(&held) {
                any = true;
                self.generation += 1;
                self.sets.release(held.set);
                self.held[at as usize].next = self.free;
                self.free = at;
                self.paths -= 1;
            } else {
                match last {
                    NONE => first = at,
                    last => self.held[last as usize].next = at,
                }
                last = at;
            }
            at = held.next;
        }
        if last != NONE {
            self.held[last as usize].next = NONE;
        }
        if first != chain {
            self.set_chain(net, first);
        }
        any
    }

    /// The longest prefix that `addr` lies in, and the best path to it.
    pub fn longest_match(&self, addr: IpAddr) -> Option<(u8, &Arc<PathAttributes>)> {
        let (len, best) = self.best(addr)?;
        Some((len, self.path(&best)?))
    }

    /// Length of the longest prefix that `addr` lies in, and the best path to it.
    #[inline]
    pub fn best(&self, addr: IpAddr) -> Option<(u8, Best)> {
        let (len, chain) = match addr {
            IpAddr::V4(a) => longest(&self.ip4, u32::from(a))?,
            IpAddr::V6(a) => longest(&self.ip6, u128::from(a))?,
        };
        let held = self.held.get(chain as usize)?;
        let best = Best {
            set: held.set,
            origin_as: held.origin_as,
            neighbor_as: held.neighbor_as,
        };
        Some((len, best))
    }

    /// What a path says.
    #[inline]
    pub fn path(&self, best: &Best) -> Option<&Arc<PathAttributes>> {
        self.sets.get(best.set)
    }

    /// A number that is another one after every change.
    #[inline]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// All paths to exactly this prefix, the best first.
    pub fn paths_to(&self, net: Net) -> Vec<ShownPath> {
        let mut at = self.chain(net).unwrap_or(NONE);
        let mut all = Vec::new();
        while let Some(held) = self.held.get(at as usize) {
            if let Some(path) = self.sets.get(held.set) {
                all.push(ShownPath {
                    source: held.source,
                    path_id: held.path_id,
                    path: path.clone(),
                });
            }
            at = held.next;
        }
        all
    }

    /// The prefixes that a source has a path to.
    pub fn nets_of(&self, source: SourceId) -> Vec<Net> {
        let has = |chain: u32| {
            let mut at = chain;
            while let Some(held) = self.held.get(at as usize) {
                if held.source == source {
                    return true;
                }
                at = held.next;
            }
            false
        };
        let four = self.ip4.iter().filter(|(_, c)| has(**c));
        let four = four.filter_map(|(p, _)| Net::new(IpAddr::V4(p.ip()), p.len()));
        let six = self.ip6.iter().filter(|(_, c)| has(**c));
        let six = six.filter_map(|(p, _)| Net::new(IpAddr::V6(p.ip()), p.len()));
        four.chain(six).collect()
    }

    /// How much there is.
    pub fn size(&self) -> TableSize {
        TableSize {
            prefixes: [self.ip4.len(), self.ip6.len()],
            paths: self.paths,
            attributes: self.sets.len(),
            memory: self.memory_now(),
            limit: self.limit,
        }
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.paths == 0
    }

    /// Adds memory up now and then: the prefixes' is not known from one change to the next.
    fn reckon(&mut self) {
        if self.changes == 0 {
            self.memory = self.memory_now();
            self.changes = RECKON_EVERY;
        }
        self.changes -= 1;
    }

    fn memory_now(&self) -> usize {
        self.ip4.memory()
            + self.ip6.memory()
            + self.held.capacity() * size_of::<Held>()
            + self.sets.memory()
    }

    fn place(&mut self, held: Held) -> u32 {
        if let Some(free) = self.held.get_mut(self.free as usize) {
            let at = self.free;
            self.free = free.next;
            *free = held;
            return at;
        }
        self.held.push(held);
        (self.held.len() - 1) as u32
    }

    /// Puts a path into its place in a chain; returns the first of the chain.
    fn link(&mut self, chain: u32, at: u32) -> u32 {
        let (mut before, mut next) = (NONE, chain);
        while next != NONE && self.better(next, at) != Ordering::Greater {
            before = next;
            next = self.held[next as usize].next;
        }
        self.held[at as usize].next = next;
        if before == NONE {
            return at;
        }
        self.held[before as usize].next = at;
        chain
    }

    /// `Less` when the first is better: by rank, by what the paths say, by the lower source.
    fn better(&self, a: u32, b: u32) -> Ordering {
        let (a, b) = (&self.held[a as usize], &self.held[b as usize]);
        let paths = || match (self.sets.get(a.set), self.sets.get(b.set)) {
            (Some(x), Some(y)) => x.compare(y),
            _ => Ordering::Equal,
        };
        b.rank
            .cmp(&a.rank)
            .then_with(paths)
            .then_with(|| (a.source, a.path_id).cmp(&(b.source, b.path_id)))
    }

    fn find(&self, chain: u32, source: SourceId, path_id: u32) -> Option<u32> {
        let mut at = chain;
        while let Some(held) = self.held.get(at as usize) {
            if held.source == source && held.path_id == path_id {
                return Some(at);
            }
            at = held.next;
        }
        None
    }

    fn chain(&self, net: Net) -> Option<u32> {
        match net.addr() {
            IpAddr::V4(a) => self
                .ip4
                .get(Prefix::masked(u32::from(a), net.len()))
                .copied(),
            IpAddr::V6(a) => self
                .ip6
                .get(Prefix::masked(u128::from(a), net.len()))
                .copied(),
        }
    }

    fn set_chain(&mut self, net: Net, chain: u32) {
        match net.addr() {
            IpAddr::V4(a) => set(
                &mut self.ip4,
                Prefix::masked(u32::from(a), net.len()),
                chain,
            ),
            IpAddr::V6(a) => set(
                &mut self.ip6,
                Prefix::masked(u128::from(a), net.len()),
                chain,
            ),
        }
    }
}

fn longest<A: Addr>(rib: &Rib<A, u32>, addr: A) -> Option<(u8, u32)> {
    rib.longest_match(addr).map(|(p, c)| (p.len(), *c))
}

fn set<A: Addr>(rib: &mut Rib<A, u32>, prefix: Prefix<A>, chain: u32) {
    if chain == NONE {
        rib.remove(prefix);
    } else {
        rib.insert(prefix, chain);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parshall_bgp::{PathBuilder, text};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn route(line: &str) -> (Net, PathAttributes) {
        text::parse_line(line, &mut PathBuilder::default())
            .unwrap()
            .unwrap()
    }

    fn add(t: &mut BgpTable, source: (SourceId, u8), line: &str) {
        let (net, path) = route(line);
        t.announce(net, source, 0, &path).unwrap();
    }

    fn found(t: &BgpTable, addr: &str) -> Option<(u8, String)> {
        let (len, p) = t.longest_match(addr.parse().unwrap())?;
        Some((len, p.to_string()))
    }

    #[test]
    fn the_longest_prefix_and_the_best_path_win() {
        let mut t = BgpTable::default();
        add(&mut t, (1, 1), "10.0.0.0/8 as-path 1 2 3");
        add(&mut t, (2, 1), "10.0.0.0/8 as-path 4 5");
        add(&mut t, (1, 1), "10.1.0.0/16 as-path 9 9 9 9");
        add(&mut t, (1, 1), "2001:db8::/32 as-path 7");
        assert_eq!(found(&t, "10.2.0.1"), Some((8, "4 5".into())));
        assert_eq!(found(&t, "10.1.0.1"), Some((16, "9 9 9 9".into())));
        assert_eq!(found(&t, "2001:db8::1"), Some((32, "7".into())));
        assert_eq!(found(&t, "11.0.0.1"), None);
        // A source of higher rank is believed whatever it says.
        add(&mut t, (3, 2), "10.0.0.0/8 as-path 1 1 1 1 1");
        assert_eq!(found(&t, "10.2.0.1"), Some((8, "1 1 1 1 1".into())));
        assert!(t.withdraw("10.0.0.0/8".parse().unwrap(), 3, 0));
        assert!(!t.withdraw("10.0.0.0/8".parse().unwrap(), 3, 0));
        assert_eq!(found(&t, "10.2.0.1"), Some((8, "4 5".into())));
        assert_eq!(t.nets_of(1).len(), 3);
        for net in t.nets_of(1) {
            t.forget(net, 1);
        }
        assert_eq!((t.nets_of(1).len(), t.size().paths), (0, 1));
        t.forget("10.0.0.0/8".parse().unwrap(), 2);
        assert!(t.is_empty() && t.size().attributes == 0);
    }

    #[test]
    fn a_full_table_refuses_and_keeps_what_it_has() {
        let mut t = BgpTable::default();
        add(&mut t, (1, 1), "10.0.0.0/8 as-path 1");
        t.set_limit(0);
        t.changes = 0;
        let (net, path) = route("11.0.0.0/8 as-path 2");
        let e = t.announce(net, (1, 1), 0, &path).unwrap_err();
        assert!(e.to_string().contains("limit of 0 MiB"), "{e}");
        assert_eq!(t.size().attributes, 1);
        assert_eq!(found(&t, "10.0.0.1"), Some((8, "1".into())));
        // What is no longer true goes even when there is no room for what is.
        let (net, path) = route("10.0.0.0/8 as-path 3");
        assert!(t.announce(net, (1, 1), 0, &path).is_err());
        assert_eq!(found(&t, "10.0.0.1"), None);
    }

    proptest! {
        /// Against a list of all paths, searched from end to end.
        #[test]
        fn equal_to_a_naive_table(steps in proptest::collection::vec((0u8..3, 0u8..4, 0u16..3, 0u32..2, 1u32..4), 1..120)) {
            let mut t = BgpTable::default();
            let mut model: BTreeMap<(Net, SourceId, u32), PathAttributes> = BTreeMap::new();
            let nets = ["10.0.0.0/8", "10.1.0.0/16", "10.1.1.0/24", "2001:db8::/32"].map(|n| n.parse::<Net>().unwrap());
            for (what, net, source, id, hops) in steps {
                let net = nets[usize::from(net)];
                let rank = |s: SourceId| (s % 2) as u8;
                match what {
                    0 | 1 => {
                        let path = route(&format!("::/0 as-path {}", "5 ".repeat(hops as usize))).1;
                        t.announce(net, (source, rank(source)), id, &path).unwrap();
                        model.insert((net, source, id), path);
                    }
                    _ => prop_assert_eq!(t.withdraw(net, source, id), model.remove(&(net, source, id)).is_some()),
                }
                prop_assert_eq!(t.size().paths, model.len());
                for addr in ["10.1.1.1", "10.1.2.1", "10.9.9.9", "2001:db8::1"] {
                    let addr: IpAddr = addr.parse().unwrap();
                    let within = |n: &Net| n.addr().is_ipv4() == addr.is_ipv4() && Net::new(addr, n.len()) == Some(*n);
                    let longest = model.keys().map(|k| k.0).filter(within).max_by_key(Net::len);
                    let want = longest.and_then(|net| {
                        model.iter().filter(|(k, _)| k.0 == net).min_by(|(a, x), (b, y)| {
                            rank(b.1).cmp(&rank(a.1)).then_with(|| x.compare(y)).then_with(|| (a.1, a.2).cmp(&(b.1, b.2)))
                        })
                    });
                    prop_assert_eq!(t.longest_match(addr).map(|f| (f.0, &**f.1)), want.map(|(k, p)| (k.0.len(), p)));
                }
            }
        }
    }
}
