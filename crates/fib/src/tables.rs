//! The tables of one address family, by index: one per VRF, thousands if need be. They
//! share the memory that nodes live in; an empty one is under a kilobyte.

use crate::addr::Addr;
use crate::arena::Arena;
use crate::error::FibError;
use crate::label::MplsFib;
use crate::lpm::{FibMemory, Lpm};
use parshall_rcu::{Domain, Reader, Slab};
use std::fmt;
use std::sync::Arc;

/// Tables of longest-prefix match by index.
pub struct IpTables<A: Addr> {
    /// By reference count, so that control can hold a table for long without holding
    /// reclamation off.
    tables: Slab<Arc<Lpm<A>>>,
    /// What an index without a table means: every lookup misses.
    none: Lpm<A>,
    arena: Arc<Arena>,
}

/// The IPv4 tables.
pub type Ip4Tables = IpTables<u32>;
/// The IPv6 tables.
pub type Ip6Tables = IpTables<u128>;
/// The MPLS label spaces by index.
pub type MplsTables = Slab<MplsFib>;

impl<A: Addr> IpTables<A> {
    /// Room for `tables` tables, whose nodes together take at most `bytes`. Only address
    /// space is taken now; a million routes of the Internet's mix need about 16 MB.
    ///
    /// # Errors
    /// [`FibError::Reserve`] when the system gives no address space.
    pub fn new(domain: &Arc<Domain>, tables: u32, bytes: usize) -> Result<Self, FibError> {
        let arena = Arc::new(Arena::new(domain, bytes, A::FIB)?);
        let none = Lpm::in_arena(&arena);
        Ok(IpTables {
            tables: Slab::with_limit(domain, tables),
            none,
            arena,
        })
    }

    /// Adds an empty table; returns its index, the lowest free one at first.
    ///
    /// # Errors
    /// [`FibError::Full`] names the limit on tables.
    pub fn create(&self) -> Result<u32, FibError> {
        self.tables
            .insert(Arc::new(Lpm::in_arena(&self.arena)))
            .map_err(|full| FibError::Full {
                what: A::TABLES,
                limit: u64::from(full.limit),
                unit: "tables",
            })
    }

    /// Takes a table out, with all its routes. Readers that have it in hand finish first.
    ///
    /// # Errors
    /// [`FibError::NoTable`] when there is none.
    pub fn delete(&self, index: u32) -> Result<(), FibError> {
        self.tables.remove(index).map_err(|_| FibError::NoTable {
            what: A::TABLE,
            index,
        })
    }

    /// The table under `index`; an empty one when there is none.
    ///
    /// # Panics
    /// When `r` is offline.
    #[inline]
    pub fn get<'r>(&'r self, r: &'r Reader, index: u32) -> &'r Lpm<A> {
        self.tables.get(index, r).map_or(&self.none, |table| table)
    }

    /// The table under `index`, to change or list it.
    ///
    /// # Errors
    /// [`FibError::NoTable`] when there is none.
    pub fn control(&self, index: u32) -> Result<Arc<Lpm<A>>, FibError> {
        let table = self
            .tables
            .get_control(index)
            .map(|table| Arc::clone(&table));
        table.ok_or(FibError::NoTable {
            what: A::TABLE,
            index,
        })
    }

    /// Number of tables.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tables.len()
    }

    /// Whether there is no table.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// Makes memory usable again that readers have let go of; control calls it now and
    /// then. Returns how many blocks still wait.
    pub fn reclaim(&self) -> usize {
        self.tables.domain().reclaim();
        self.tables.sweep();
        self.arena.reclaim()
    }

    /// Bytes in use, everything counted: index, tables, roots, prefixes, and the touched
    /// node memory (free blocks in it too).
    #[must_use]
    pub fn memory(&self) -> usize {
        self.usage().total()
    }

    /// Bytes in use by structure.
    #[must_use]
    pub fn usage(&self) -> FibMemory {
        let mut sum = FibMemory {
            tables: self.tables.memory(),
            ..FibMemory::default()
        };
        let tables = (0..self.tables.high_water()).filter_map(|i| self.control(i).ok());
        tables.for_each(|t| sum.add(&t.usage()));
        sum.spare = self.arena.memory().saturating_sub(sum.nodes);
        sum
    }
}

impl<A: Addr> fmt::Debug for IpTables<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} tables, {:?}", self.len(), A::FAMILY, self.arena)
    }
}
