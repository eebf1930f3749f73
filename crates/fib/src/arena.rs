//! The memory that the nodes of all tables of one address family live in.
//!
//! One span of address space is reserved at the limit and a quarter more, so that a node
//! is found by base plus index (32-bit references, no chunk lookup) and never moves; the
//! system gives it pages as they are touched, large ones if it can. Blocks are 1 to 17
//! units of a cache line. A block that readers may still see waits for its grace period
//! before it is used again.
//!
//! Blocks of one size share slabs of 16 KiB, the lowest slab with room first. A slab
//! whose last block goes serves any size again, so changes cannot cut the span to pieces
//! for good; 2 MiB of free slabs in a row are given back to the system.

use crate::error::FibError;
use parshall_rcu::{Domain, Stamp};
use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::io;
use std::ptr::{NonNull, null_mut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of a unit: a cache line.
pub(crate) const UNIT: usize = 64;
/// Largest block in units.
pub(crate) const UNITS_MAX: usize = 17;
/// Units of a slab.
const SLAB: usize = 256;
/// Slabs that are given back together: a large page.
const REGION: usize = (2 << 20) / (SLAB * UNIT);
/// Waiting blocks (units) that make the arena ask the domain to look after its readers.
const WAITING_MAX: usize = 1 << 14;
/// References have 28 bits.
const TOP_MAX: usize = 1 << 28;

/// A block: where it begins, and its size in units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) at: u32,
    pub(crate) units: u8,
}

/// Blocks of one size side by side.
#[derive(Clone, Copy, Default)]
struct Slab {
    /// Free blocks, a bit each.
    free: [u64; 4],
    live: u16,
    /// Units of its blocks; 0 while it serves no size.
    units: u8,
    /// It has been written since its pages came from the system.
    touched: bool,
}

impl Slab {
    fn of(units: usize) -> Slab {
        let mut free = [0u64; 4];
        for block in 0..SLAB / units {
            free[block / 64] |= 1 << (block % 64);
        }
        Slab {
            free,
            live: 0,
            units: units as u8,
            touched: true,
        }
    }

    /// The lowest free block.
    fn take(&mut self) -> Option<usize> {
        let word = self.free.iter().position(|w| *w != 0)?;
        let bit = self.free[word].trailing_zeros() as usize;
        self.free[word] &= self.free[word] - 1;
        self.live += 1;
        Some(word * 64 + bit)
    }

    fn is_full(&self) -> bool {
        self.free == [0; 4]
    }
}

#[derive(Default)]
struct Ledger {
    /// Slabs that have been used at least once.
    slabs: Vec<Slab>,
    /// Slabs that serve no size.
    empty: BTreeSet<u32>,
    /// Slabs with free blocks, by size.
    partial: [BTreeSet<u32>; UNITS_MAX + 1],
    /// Slabs in use, by region.
    used: Vec<u16>,
    touched: usize,
    /// Blocks that readers may still see, oldest first.
    waiting: VecDeque<(Stamp, Block)>,
    waiting_units: usize,
    /// Units in tables.
    live: usize,
}

impl Ledger {
    /// A block of so many units; `None` when the span of `most` units is used up.
    fn take(&mut self, units: usize, most: usize) -> Option<u32> {
        let at = match self.partial[units].first() {
            Some(&slab) => slab,
            None => self.new_slab(units, most)?,
        };
        let slab = self.slabs.get_mut(at as usize)?;
        let block = slab.take()?;
        if slab.is_full() {
            self.partial[units].remove(&at);
        }
        Some(at * SLAB as u32 + (block * units) as u32)
    }

    fn new_slab(&mut self, units: usize, most: usize) -> Option<u32> {
        let at = match self.empty.pop_first() {
            Some(at) => at,
            None if (self.slabs.len() + 1) * SLAB <= most => {
                self.slabs.push(Slab::default());
                self.slabs.len() as u32 - 1
            }
            None => return None,
        };
        let region = at as usize / REGION;
        if self.used.len() <= region {
            self.used.resize(region + 1, 0);
        }
        self.used[region] += 1;
        let slab = &mut self.slabs[at as usize];
        self.touched += usize::from(!slab.touched);
        *slab = Slab::of(units);
        self.partial[units].insert(at);
        Some(at)
    }

    /// Takes a block back; says which region has become free by that.
    fn give(&mut self, block: Block) -> Option<usize> {
        let (at, units) = (block.at as usize / SLAB, usize::from(block.units));
        let slab = &mut self.slabs[at];
        debug_assert_eq!(slab.units, block.units);
        let index = block.at as usize % SLAB / units;
        debug_assert_eq!(slab.free[index / 64] >> (index % 64) & 1, 0, "freed twice");
        slab.free[index / 64] |= 1 << (index % 64);
        slab.live -= 1;
        if slab.live > 0 {
            self.partial[units].insert(at as u32);
            return None;
        }
        slab.units = 0;
        self.partial[units].remove(&(at as u32));
        self.empty.insert(at as u32);
        self.used[at / REGION] -= 1;
        (self.used[at / REGION] == 0).then_some(at / REGION)
    }

    fn memory(&self) -> usize {
        // A set of numbers takes about eight bytes each, nodes and slack included.
        let sets: usize = self.partial.iter().map(BTreeSet::len).sum();
        self.slabs.capacity() * size_of::<Slab>()
            + self.used.capacity() * 2
            + (sets + self.empty.len()) * 8
            + self.waiting.capacity() * size_of::<(Stamp, Block)>()
    }
}

/// Node memory of one address family.
pub(crate) struct Arena {
    base: NonNull<u8>,
    /// Units that changes which need memory may have in use.
    limit: usize,
    /// Units reserved: what exceeds the limit lets routes be removed from a full table, and is the room
    /// between blocks.
    reserved: usize,
    what: &'static str,
    domain: Arc<Domain>,
    ledger: Mutex<Ledger>,
}

// SAFETY: the span belongs to the arena alone; blocks of it are written by the table that
// allocated them before it publishes them, and shared read-only or as atomics afterwards.
unsafe impl Send for Arena {}
// SAFETY: as above; the book-keeping is behind a mutex.
unsafe impl Sync for Arena {}

impl Arena {
    /// Reserves space for `limit` bytes of nodes; `what` names it in errors.
    pub(crate) fn new(
        domain: &Arc<Domain>,
        limit: usize,
        what: &'static str,
    ) -> Result<Self, FibError> {
        let limit = (limit / UNIT).clamp(UNITS_MAX, TOP_MAX / 2);
        let reserved = (limit + limit / 4 + 8192).next_multiple_of(SLAB * REGION);
        let base = reserve(reserved * UNIT).map_err(|e| FibError::Reserve {
            what,
            bytes: (reserved * UNIT) as u64,
            reason: e.to_string(),
        })?;
        let ledger = Mutex::new(Ledger::default());
        Ok(Arena {
            base,
            limit,
            reserved,
            what,
            domain: Arc::clone(domain),
            ledger,
        })
    }

    /// Where block references count from.
    #[inline]
    pub(crate) fn base(&self) -> *const u8 {
        self.base.as_ptr()
    }

    pub(crate) fn domain(&self) -> &Arc<Domain> {
        &self.domain
    }

    /// A block of `units`, its contents undefined, and its memory for the caller to fill.
    /// `shrinking`: the change gives memory back in the end, so it may exceed the limit.
    pub(crate) fn alloc(&self, units: usize, shrinking: bool) -> Result<Block, FibError> {
        debug_assert!((1..=UNITS_MAX).contains(&units));
        let mut ledger = self.lock();
        self.drain(&mut ledger, 64);
        let in_use = ledger.live + ledger.waiting_units + units;
        if in_use > self.limit && !shrinking {
            return Err(self.full());
        }
        let at = ledger
            .take(units, self.reserved)
            .ok_or_else(|| self.full())?;
        ledger.live += units;
        Ok(Block {
            at,
            units: units as u8,
        })
    }

    /// The memory of a block.
    pub(crate) fn ptr(&self, at: u32) -> *mut u8 {
        // Only references that `alloc` gave out come here.
        self.base.as_ptr().wrapping_add(at as usize * UNIT)
    }

    /// Takes blocks back that no reader has ever seen or can still see.
    pub(crate) fn free_now(&self, blocks: &[Block]) {
        let mut ledger = self.lock();
        for block in blocks {
            ledger.live -= usize::from(block.units);
            self.give(&mut ledger, *block);
        }
    }

    /// Takes blocks back that were unlinked before this call but may still be read.
    pub(crate) fn free_later(&self, blocks: &[Block]) {
        if blocks.is_empty() {
            return;
        }
        let stamp = self.domain.stamp();
        let mut ledger = self.lock();
        for &block in blocks {
            ledger.live -= usize::from(block.units);
            ledger.waiting_units += usize::from(block.units);
            ledger.waiting.push_back((stamp, block));
        }
        let many = ledger.waiting_units > WAITING_MAX;
        drop(ledger);
        if many {
            self.reclaim();
        }
    }

    /// Makes blocks usable whose grace period is over; returns how many still wait.
    pub(crate) fn reclaim(&self) -> usize {
        // Before the lock is taken: what is dropped there may give blocks back here.
        self.domain.reclaim();
        let mut ledger = self.lock();
        self.drain(&mut ledger, usize::MAX);
        if ledger.waiting.is_empty() && ledger.waiting.capacity() > WAITING_MAX {
            ledger.waiting.shrink_to(0);
        }
        ledger.waiting.len()
    }

    /// Bytes touched and not given back, with the book-keeping.
    pub(crate) fn memory(&self) -> usize {
        let ledger = self.lock();
        ledger.touched * SLAB * UNIT + ledger.memory()
    }

    /// Bytes in tables.
    pub(crate) fn live(&self) -> usize {
        self.lock().live * UNIT
    }

    fn full(&self) -> FibError {
        FibError::Full {
            what: self.what,
            limit: (self.limit * UNIT) as u64,
            unit: "bytes",
        }
    }

    fn drain(&self, ledger: &mut Ledger, most: usize) {
        for _ in 0..most {
            match ledger.waiting.front() {
                Some((stamp, _)) if self.domain.elapsed(*stamp) => {}
                _ => return,
            }
            if let Some((_, block)) = ledger.waiting.pop_front() {
                ledger.waiting_units -= usize::from(block.units);
                self.give(ledger, block);
            }
        }
    }

    fn give(&self, ledger: &mut Ledger, block: Block) {
        // The first region is never worth giving back.
        let Some(region) = ledger.give(block).filter(|r| *r > 0) else {
            return;
        };
        let (first, bytes) = (region * REGION, REGION * SLAB * UNIT);
        for slab in ledger.slabs.iter_mut().skip(first).take(REGION) {
            ledger.touched -= usize::from(slab.touched);
            slab.touched = false;
        }
        let at = self.base.as_ptr().wrapping_add(region * bytes);
        // SAFETY: a part of the mapping in which no block is in use; whoever gets a block there writes it
        // before it is read. (Miri has no advice; what it would give back stays.)
        #[cfg(not(miri))]
        unsafe {
            libc::madvise(at.cast(), bytes, libc::MADV_DONTNEED)
        };
        #[cfg(miri)]
        let _ = at;
    }

    fn lock(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn reserve(bytes: usize) -> io::Result<NonNull<u8>> {
    let prot = libc::PROT_READ | libc::PROT_WRITE;
    // Miri knows neither this flag nor the advice below.
    let lazy = if cfg!(miri) { 0 } else { libc::MAP_NORESERVE };
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | lazy;
    // SAFETY: a new private mapping, at an address of the system's choice.
    let base = unsafe { libc::mmap(null_mut(), bytes, prot, flags, -1, 0) };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the mapping just made. Only a hint: without large pages it is slower.
    #[cfg(not(miri))]
    unsafe {
        libc::madvise(base, bytes, libc::MADV_HUGEPAGE)
    };
    NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mapped at address 0"))
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `new`; tables hold the arena by `Arc`, so none is
        // left that refers to it.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.reserved * UNIT) };
    }
}

impl fmt::Debug for Arena {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Arena({} of {} bytes)", self.live(), self.limit * UNIT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arena(domain: &Arc<Domain>, units: usize) -> Arena {
        Arena::new(domain, units * UNIT, "test table").unwrap()
    }

    #[test]
    fn blocks_wait_for_readers() {
        let d = Domain::new();
        let mut r = d.register().unwrap();
        r.online();
        let a = arena(&d, 20);
        let b = a.alloc(17, false).unwrap();
        a.free_later(&[b]);
        assert_eq!(a.reclaim(), 1);
        let full = a.alloc(17, false).unwrap_err().to_string();
        assert_eq!(full, "test table full: the limit is 1280 bytes");
        r.quiescent();
        assert_eq!(a.reclaim(), 0);
        assert_eq!(a.alloc(17, false), Ok(b));
    }

    #[test]
    fn a_full_arena_lets_changes_that_shrink_pass() {
        let a = arena(&Domain::new(), 17);
        a.alloc(17, false).unwrap();
        assert!(a.alloc(1, false).is_err());
        assert!(a.alloc(1, true).is_ok());
    }

    #[test]
    fn a_slab_that_is_free_serves_any_size() {
        let a = arena(&Domain::new(), 8 * SLAB);
        let small: Vec<_> = (0..8 * SLAB).map(|_| a.alloc(1, false).unwrap()).collect();
        assert!(a.alloc(1, false).is_err());
        a.free_now(&small);
        let touched = a.memory();
        // 15 blocks of 17 units to a slab: the same slabs, and no more.
        for _ in 0..8 * 15 {
            a.alloc(17, false).unwrap();
        }
        assert!(a.memory() < touched + 1024, "{} {touched}", a.memory());
    }

    #[test]
    fn a_large_stretch_of_free_slabs_goes_back_to_the_system() {
        let a = arena(&Domain::new(), 4 * REGION * SLAB);
        let all: Vec<_> = (0..3 * REGION * SLAB)
            .map(|_| a.alloc(1, false).unwrap())
            .collect();
        let full = a.memory();
        a.free_now(&all);
        assert!(a.memory() < full / 2, "{} of {full}", a.memory());
        assert_eq!(a.live(), 0);
        assert_eq!(a.alloc(3, false).map(|b| b.at), Ok(0));
    }
}
