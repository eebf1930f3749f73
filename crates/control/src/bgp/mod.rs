//! BGP routes of others, for what telemetry says of a packet's way through the Internet.
//!
//! The router itself speaks no BGP and forwards by none of this. Feeds fill a [`BgpTable`]: a file of lines, an MRT
//! dump, or routers that report by BMP. Each runs on threads of its own; the agent's thread reads the table, and
//! nobody holds its lock for longer than a few hundred changes take.

mod feed;
mod load;
mod sets;
mod station;
mod table;

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use parshall_agent::Gateway;
use parshall_bgp::{Net, PathAttributes};
use serde::Serialize;

pub use feed::{Feed, FeedSpec, FeedState, FeedStatus};
pub use table::{Best, BgpTable, ShownPath, SourceId, TableFull};

use crate::recent::Recent;

/// Changes made under one hold of the table's lock.
const BATCH: usize = 256;

/// How much a source is believed; between equal ones the paths decide. What the operator wrote down comes first, then
/// what a router takes itself, then what it has after its policy, then before it; a dump may be of another router.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// A dump.
    Mrt,
    /// What peers said.
    PrePolicy,
    /// What was taken in of it.
    PostPolicy,
    /// What a router uses.
    LocRib,
    /// Lines of the operator's.
    File,
}

/// Who told of paths.
#[derive(Clone, Debug, Serialize)]
pub struct Source {
    /// For people: the file, or the peer of a router.
    pub name: String,
    /// Paths it has told of so far, repetitions included.
    pub announced: u64,
    /// Paths it took back.
    pub withdrawn: u64,
}

/// The table and who fills it: shared by feeds, agent and control.
#[derive(Default)]
pub struct BgpShared {
    table: RwLock<BgpTable>,
    /// There is something in the table.
    filled: AtomicBool,
    local_as: AtomicU32,
    sources: Mutex<Vec<Option<Source>>>,
}

/// One change of the table.
pub(crate) enum Change {
    /// A path is there.
    Announce(Net, u32, PathAttributes),
    /// It is gone.
    Withdraw(Net, u32),
}

impl BgpShared {
    /// For reading.
    pub fn table(&self) -> RwLockReadGuard<'_, BgpTable> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn table_mut(&self) -> RwLockWriteGuard<'_, BgpTable> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The router's own AS, 0 = not set.
    pub fn local_as(&self) -> u32 {
        self.local_as.load(Ordering::Relaxed)
    }

    /// Sets the router's own AS.
    pub fn set_local_as(&self, asn: u32) {
        self.local_as.store(asn, Ordering::Relaxed);
    }

    /// Sets how many bytes the table may take.
    pub fn set_limit(&self, bytes: usize) {
        self.table_mut().set_limit(bytes);
    }

    /// What the table says of a packet from `src` to `dst`; `None` when it knows neither. `recent` keeps look-ups of the
    /// addresses as the forwarding table `table` sees them.
    #[inline]
    pub(crate) fn gateway(
        &self,
        table: u32,
        src: IpAddr,
        dst: IpAddr,
        recent: &mut Recent,
    ) -> Option<Gateway> {
        if !self.filled.load(Ordering::Relaxed) {
            return None;
        }
        let paths = self.table();
        let mut find = |addr| {
            let ask = || paths.best(addr).map(|f| f.1);
            recent.place(table, addr).best(paths.generation(), ask)
        };
        let (from, to) = (find(src), find(dst));
        if from.is_none() && to.is_none() {
            return None;
        }
        let own = self.local_as();
        let (src_as, src_peer_as) = match from {
            // An empty path says: of the router's own AS.
            Some(best) if best.origin_as == 0 => (own, 0),
            Some(best) => (best.origin_as, best.neighbor_as),
            None => (0, 0),
        };
        Some(Gateway {
            router_as: own,
            src_as,
            src_peer_as,
            path: to.and_then(|best| paths.path(&best).cloned()),
        })
    }

    /// A number for a new source.
    fn add_source(&self, name: String) -> Option<SourceId> {
        let mut sources = self.sources();
        let source = Some(Source {
            name,
            announced: 0,
            withdrawn: 0,
        });
        let at = match sources.iter().position(Option::is_none) {
            Some(free) => {
                sources[free] = source;
                free
            }
            None => {
                sources.push(source);
                sources.len() - 1
            }
        };
        SourceId::try_from(at).ok()
    }

    /// What a source is called and has told.
    pub fn source(&self, id: SourceId) -> Option<Source> {
        self.sources().get(usize::from(id))?.clone()
    }

    fn sources(&self) -> std::sync::MutexGuard<'_, Vec<Option<Source>>> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries out changes of a source and empties the list. Says how many found no room.
    fn apply(&self, source: SourceId, rank: Rank, changes: &mut Vec<Change>) -> u64 {
        let (mut announced, mut withdrawn, mut refused) = (0, 0, 0);
        for part in changes.chunks(BATCH) {
            let mut table = self.table_mut();
            for change in part {
                match change {
                    Change::Announce(net, id, path) => {
                        announced += 1;
                        let done = table.announce(*net, (source, rank as u8), *id, path);
                        refused += u64::from(done.is_err());
                    }
                    Change::Withdraw(net, id) => {
                        withdrawn += u64::from(table.withdraw(*net, source, *id));
                    }
                }
            }
            self.filled.store(!table.is_empty(), Ordering::Relaxed);
        }
        changes.clear();
        if let Some(Some(s)) = self.sources().get_mut(usize::from(source)) {
            s.announced += announced;
            s.withdrawn += withdrawn;
        }
        refused
    }

    /// Takes all paths of a source out, and its number back.
    fn remove_source(&self, source: SourceId) {
        self.clear_source(source);
        if let Some(s) = self.sources().get_mut(usize::from(source)) {
            *s = None;
        }
    }

    /// Takes all paths of a source out.
    fn clear_source(&self, source: SourceId) {
        // Readers may look on while what is to go is searched for.
        let nets = self.table().nets_of(source);
        for part in nets.chunks(BATCH) {
            let mut table = self.table_mut();
            part.iter().for_each(|net| table.forget(*net, source));
            self.filled.store(!table.is_empty(), Ordering::Relaxed);
        }
    }
}

/// All of it, as control holds it.
pub struct Bgp {
    /// The table.
    pub shared: Arc<BgpShared>,
    feeds: Vec<Feed>,
}

impl Bgp {
    /// Without feeds yet.
    pub fn new(shared: Arc<BgpShared>) -> Bgp {
        Bgp {
            shared,
            feeds: Vec::new(),
        }
    }

    /// The feeds, in the order they were added.
    pub fn feeds(&self) -> &[Feed] {
        &self.feeds
    }

    /// Whether there is this feed.
    pub fn has(&self, spec: &FeedSpec) -> bool {
        self.feeds.iter().any(|f| f.spec == *spec)
    }

    /// Starts a feed; one of a file that is there already reads the file again. A router that only thinks starts none.
    ///
    /// # Errors
    /// When the file cannot be opened, or the address cannot be listened at.
    pub fn add(&mut self, spec: &FeedSpec, is_model: bool) -> Result<(), String> {
        if is_model {
            if !self.has(spec) {
                self.feeds.push(Feed::idle(spec));
            }
            return Ok(());
        }
        if let Some(f) = self.feeds.iter_mut().find(|f| f.spec == *spec) {
            return f.again(&self.shared);
        }
        self.feeds.push(Feed::start(spec, &self.shared)?);
        Ok(())
    }

    /// Ends a feed; its routes go. Says whether there was one.
    pub fn remove(&mut self, spec: &FeedSpec) -> bool {
        let Some(at) = self.feeds.iter().position(|f| f.spec == *spec) else {
            return false;
        };
        self.feeds.remove(at).stop(&self.shared);
        true
    }
}
