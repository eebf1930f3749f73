//! The memory that the nodes of all tables of one address family live in.
//!
//! One span of address space is reserved at the limit, so that a node is found by base
//! plus index (32-bit references, no chunk lookup) and never moves; the system gives it
//! pages as they are touched, large ones if it can. Blocks are 1 to 17 units of a cache
//! line. A block that readers may still see waits for its grace period before it is used
//! again.

use crate::error::FibError;
use parshall_rcu::{Domain, Stamp};
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::ptr::{NonNull, null_mut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of a unit: a cache line.
pub(crate) const UNIT: usize = 64;
/// Largest block in units.
pub(crate) const UNITS_MAX: usize = 17;
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

#[derive(Default)]
struct Ledger {
    /// Units below this one have been used at least once.
    top: usize,
    /// Free blocks by size.
    free: [Vec<u32>; UNITS_MAX + 1],
    /// Blocks that readers may still see, oldest first.
    waiting: VecDeque<(Stamp, Block)>,
    waiting_units: usize,
    /// Units in tables.
    live: usize,
}

/// Node memory of one address family.
pub(crate) struct Arena {
    base: NonNull<u8>,
    /// Units that changes which need memory may use.
    limit: usize,
    /// Units reserved: what exceeds the limit lets routes be removed from a full table.
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
        let reserved = limit + limit / 4 + 4096;
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
        let most = if shrinking { self.reserved } else { self.limit };
        let at = match ledger.free[units].pop() {
            Some(at) => at,
            None if ledger.top + units <= most => {
                ledger.top += units;
                (ledger.top - units) as u32
            }
            None => split(&mut ledger, units).ok_or_else(|| self.full())?,
        };
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
            ledger.free[usize::from(block.units)].push(block.at);
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
        ledger.waiting.len()
    }

    /// Bytes touched so far, with the book-keeping.
    pub(crate) fn memory(&self) -> usize {
        let ledger = self.lock();
        let free: usize = ledger.free.iter().map(Vec::capacity).sum();
        ledger.top * UNIT + free * 4 + ledger.waiting.capacity() * size_of::<(Stamp, Block)>()
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
                ledger.free[usize::from(block.units)].push(block.at);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Cuts a block out of a larger free one: the last resort, since it never grows together
/// again.
fn split(ledger: &mut Ledger, units: usize) -> Option<u32> {
    let size = (units + 1..=UNITS_MAX).find(|&size| !ledger.free[size].is_empty())?;
    let at = ledger.free[size].pop()?;
    ledger.free[size - units].push(at + units as u32);
    Some(at)
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
    unsafe { libc::madvise(base, bytes, libc::MADV_HUGEPAGE) };
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
    fn large_free_blocks_are_cut_when_nothing_else_is_left() {
        let a = arena(&Domain::new(), 17);
        let b = a.alloc(17, false).unwrap();
        a.free_now(&[b]);
        let parts: Vec<_> = (0..17).map(|_| a.alloc(1, false).unwrap().at).collect();
        let mut sorted = parts.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..17).collect::<Vec<_>>());
        assert_eq!(a.live(), 17 * UNIT);
    }
}
