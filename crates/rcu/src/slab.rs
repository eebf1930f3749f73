//! A table of published values under stable indices: adjacencies, load-balances, tables.
//!
//! The array of pointers is reserved at its full size once, zeroed: the operating system
//! gives it memory page by page as indices come into use, so that a large limit costs
//! nothing and a reader needs no chunk lookup: one bounds check, one load, and the value.

use crate::domain::{Domain, Reader, Stamp};
use crate::published::ControlRef;
use crate::sync::{Arc, AtomicPtr, Mutex, Ordering, lock};
use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::ptr::null_mut;

/// The slab has no index left. Freed ones return after a grace period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full {
    /// How many values it can hold.
    pub limit: u32,
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "table full: the limit is {} entries", self.limit)
    }
}

impl std::error::Error for Full {}

/// No value lives under this index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoSuchIndex(pub u32);

impl fmt::Display for NoSuchIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no entry under index {}", self.0)
    }
}

impl std::error::Error for NoSuchIndex {}

#[derive(Default)]
struct Ledger {
    /// Indices below this one have been used at least once.
    next: u32,
    live: u32,
    /// Removed values that stay under their indices until no reader can be on the way to them, oldest
    /// first, with the moment of their removal.
    dying: VecDeque<(Stamp, u32)>,
    /// The same indices, in order.
    dead: BTreeSet<u32>,
    /// Indices that can be given out again.
    free: Vec<u32>,
}

/// Values under stable indices, read wait-free. All changes are serialised by a mutex
/// that readers never touch.
pub struct Slab<T> {
    slots: Box<[AtomicPtr<T>]>,
    domain: Arc<Domain>,
    ledger: Mutex<Ledger>,
}

#[cfg(not(loom))]
fn null_slots<T>(n: usize) -> Box<[AtomicPtr<T>]> {
    // SAFETY: all-zero bytes are a null pointer, which is a valid `AtomicPtr`. Zeroed
    // memory of this size comes untouched from the system, which is the point.
    unsafe { Box::new_zeroed_slice(n).assume_init() }
}

#[cfg(loom)]
fn null_slots<T>(n: usize) -> Box<[AtomicPtr<T>]> {
    (0..n).map(|_| AtomicPtr::new(null_mut())).collect()
}

impl<T: Send + Sync + 'static> Slab<T> {
    /// An empty slab for readers of `domain`, with indices `0..limit`.
    #[must_use]
    pub fn with_limit(domain: &Arc<Domain>, limit: u32) -> Self {
        Slab {
            slots: null_slots(limit as usize),
            domain: Arc::clone(domain),
            ledger: Mutex::new(Ledger::default()),
        }
    }

    /// The value under `idx`, or `None` when there is none.
    ///
    /// # Panics
    /// When `r` is offline, and in debug builds when it is of another domain.
    #[inline]
    pub fn get<'r>(&'r self, idx: u32, r: &'r Reader) -> Option<&'r T> {
        r.assert_online();
        debug_assert!(
            Arc::ptr_eq(r.domain(), &self.domain),
            "a reader of another domain"
        );
        let ptr = self.slots.get(idx as usize)?.load(Ordering::Acquire);
        // SAFETY: null, or from a box that is retired into the reader's domain after it
        // was unlinked here; the online reader, borrowed for 'r, keeps it from being
        // freed. Published values are only shared from then on (T: Sync).
        unsafe { ptr.as_ref() }
    }

    /// Looks at the value under `idx` from the control side; nothing is freed while the
    /// answer lives.
    pub fn get_control(&self, idx: u32) -> Option<ControlRef<'_, T>> {
        let hold = self.domain.hold();
        if lock(&self.ledger).dead.contains(&idx) {
            return None;
        }
        let ptr = self.slots.get(idx as usize)?.load(Ordering::Acquire);
        // SAFETY: as in `get`; here the held gate keeps the box from being freed.
        let value = unsafe { ptr.as_ref() }?;
        Some(ControlRef { value, _hold: hold })
    }

    /// Publishes `v` under an index that nobody can mean anything else by any more.
    ///
    /// # Errors
    /// [`Full`] when all indices are in use or not yet past their grace period.
    pub fn insert(&self, v: T) -> Result<u32, Full> {
        let mut ledger = lock(&self.ledger);
        let idx = self.free_index(&mut ledger)?;
        ledger.live += 1;
        self.slots[idx as usize].store(Box::into_raw(Box::new(v)), Ordering::Release);
        Ok(idx)
    }

    /// Publishes `v` in place of the value under `idx`, which is retired.
    ///
    /// # Errors
    /// [`NoSuchIndex`] when there is no value to replace.
    pub fn replace(&self, idx: u32, v: T) -> Result<(), NoSuchIndex> {
        let ledger = lock(&self.ledger);
        let slot = self.occupied(&ledger, idx)?;
        self.retire(slot.swap(Box::into_raw(Box::new(v)), Ordering::AcqRel));
        Ok(())
    }

    /// Takes the value under `idx` out, which nothing that readers see may lead to any more. A reader that
    /// is on its way there already still finds it: it goes, and the index is given out again, only after a
    /// grace period ([`Slab::sweep`]).
    ///
    /// # Errors
    /// [`NoSuchIndex`] when there is no value.
    pub fn remove(&self, idx: u32) -> Result<(), NoSuchIndex> {
        let mut ledger = lock(&self.ledger);
        self.occupied(&ledger, idx)?;
        ledger.live -= 1;
        ledger.dead.insert(idx);
        ledger.dying.push_back((self.domain.stamp(), idx));
        Ok(())
    }

    /// Retires removed values that no reader is on the way to any more. Every change does; control calls it
    /// now and then, so that memory comes back without one.
    pub fn sweep(&self) {
        self.sweep_locked(&mut lock(&self.ledger));
    }

    fn sweep_locked(&self, ledger: &mut Ledger) {
        while let Some(&(stamp, idx)) = ledger.dying.front()
            && self.domain.elapsed(stamp)
        {
            ledger.dying.pop_front();
            ledger.dead.remove(&idx);
            ledger.free.push(idx);
            self.retire(self.slots[idx as usize].swap(null_mut(), Ordering::AcqRel));
        }
    }

    /// Values in it now.
    #[must_use]
    pub fn len(&self) -> usize {
        lock(&self.ledger).live as usize
    }

    /// Whether it holds no value.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The indices that may be in use lie below this one.
    #[must_use]
    pub fn high_water(&self) -> u32 {
        lock(&self.ledger).next
    }

    /// How many values it can hold.
    #[must_use]
    pub fn limit(&self) -> u32 {
        self.slots.len() as u32
    }

    /// The domain its values are retired into.
    #[must_use]
    pub fn domain(&self) -> &Arc<Domain> {
        &self.domain
    }

    /// Bytes in use: the touched part of the index array, the values (without what they
    /// own on the heap), and what was removed and is not yet gone.
    #[must_use]
    pub fn memory(&self) -> usize {
        let ledger = lock(&self.ledger);
        ledger.next as usize * size_of::<AtomicPtr<T>>()
            + ledger.live as usize * size_of::<T>()
            + ledger.dead.len() * (size_of::<T>() + size_of::<(Stamp, u32)>())
            + ledger.free.capacity() * size_of::<u32>()
    }

    fn free_index(&self, ledger: &mut Ledger) -> Result<u32, Full> {
        self.sweep_locked(ledger);
        if let Some(idx) = ledger.free.pop() {
            return Ok(idx);
        }
        if ledger.next == self.limit() {
            return Err(Full {
                limit: self.limit(),
            });
        }
        ledger.next += 1;
        Ok(ledger.next - 1)
    }

    fn occupied(&self, ledger: &Ledger, idx: u32) -> Result<&AtomicPtr<T>, NoSuchIndex> {
        let slot = self.slots.get(idx as usize).ok_or(NoSuchIndex(idx))?;
        if slot.load(Ordering::Relaxed).is_null() || ledger.dead.contains(&idx) {
            Err(NoSuchIndex(idx))
        } else {
            Ok(slot)
        }
    }

    fn retire(&self, ptr: *mut T) {
        // SAFETY: non-null pointers in slots come from `Box::into_raw`; the swap under
        // the ledger's lock handed this one to us alone.
        unsafe { self.domain.retire_raw(ptr) };
    }
}

impl<T> Drop for Slab<T> {
    fn drop(&mut self) {
        let used = lock(&self.ledger).next as usize;
        for slot in &self.slots[..used] {
            let ptr = slot.load(Ordering::Acquire);
            if !ptr.is_null() {
                // SAFETY: `&mut self`: no reader holds a reference, since those borrow
                // self; the pointer came from `Box::into_raw` and leaves only here.
                drop(unsafe { Box::from_raw(ptr) });
            }
        }
    }
}

impl<T> fmt::Debug for Slab<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Slab({} of {})",
            lock(&self.ledger).live,
            self.slots.len()
        )
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn indices_are_stable_and_values_replaceable() {
        let d = Domain::new();
        let mut r = d.register().unwrap();
        r.online();
        let s = Slab::with_limit(&d, 4);
        let (a, b) = (s.insert("a").unwrap(), s.insert("b").unwrap());
        assert_eq!((a, b, s.len(), s.high_water()), (0, 1, 2, 2));
        s.replace(a, "A").unwrap();
        assert_eq!((s.get(a, &r), s.get(b, &r)), (Some(&"A"), Some(&"b")));
        assert_eq!((s.get(2, &r), s.get(99, &r)), (None, None));
        assert_eq!(s.replace(2, "x"), Err(NoSuchIndex(2)));
        assert_eq!(s.remove(99), Err(NoSuchIndex(99)));
        assert_eq!(s.get_control(b).map(|v| *v), Some("b"));
    }

    #[test]
    fn a_freed_index_returns_only_after_a_grace_period() {
        let d = Domain::new();
        let mut r = d.register().unwrap();
        r.online();
        let s = Slab::with_limit(&d, 2);
        let (a, _) = (s.insert(1).unwrap(), s.insert(2).unwrap());
        s.remove(a).unwrap();
        assert_eq!(s.remove(a), Err(NoSuchIndex(a)));
        assert_eq!(s.replace(a, 9), Err(NoSuchIndex(a)));
        assert_eq!((s.get_control(a).is_some(), s.len()), (false, 1));
        assert_eq!(s.get(a, &r), Some(&1), "the reader may be on its way there");
        assert_eq!(s.insert(3), Err(Full { limit: 2 }));
        d.reclaim();
        assert_eq!(
            s.insert(3),
            Err(Full { limit: 2 }),
            "the reader may still mean the old one"
        );
        r.quiescent();
        d.reclaim();
        assert_eq!(s.insert(3), Ok(a));
        assert_eq!(
            Full { limit: 2 }.to_string(),
            "table full: the limit is 2 entries"
        );
    }

    #[test]
    fn sweeping_takes_what_is_gone_for_all() {
        let d = Domain::new();
        let mut r = d.register().unwrap();
        r.online();
        let s = Slab::with_limit(&d, 2);
        let a = s.insert(1).unwrap();
        s.remove(a).unwrap();
        d.reclaim();
        s.sweep();
        assert_eq!(s.get(a, &r), Some(&1));
        r.quiescent();
        d.reclaim();
        s.sweep();
        assert_eq!(s.get(a, &r), None);
        assert_eq!(d.pending(), 1);
    }

    #[test]
    fn a_huge_limit_costs_nothing_until_used() {
        let d = Domain::new();
        // Miri touches every byte of it.
        let s = Slab::with_limit(&d, 1 << if cfg!(miri) { 10 } else { 28 });
        assert_eq!(s.memory(), 0);
        s.insert([0u8; 64]).unwrap();
        assert_eq!(s.memory(), 72);
    }
}
