//! The reclamation domain: who reads, and when a retired value may be freed.
//!
//! Why it is correct. Let `E` be the epoch that a batch of garbage is closed with. The
//! batch was unlinked before the epoch became `E`.
//! - A reader whose slot says `>= E` read the epoch with acquire after it became `E`, so
//!   what it loads from then on cannot be the unlinked pointers; and what it loaded
//!   before is over, because its slot store is a release that the scan acquires.
//! - A reader whose slot says "offline" either has finished (release/acquire again) or is
//!   just going online; then the pair of sequentially consistent fences (in
//!   [`Reader::online`] and in [`Domain::reclaim`]) makes it see the new pointers.
//!
//! So a quiescent point is one load, and one store if the epoch moved; no fence.

use crate::sync::{
    Arc, AtomicBool, AtomicU64, Mutex, Ordering, RwLock, RwLockReadGuard, fence, lock,
};
use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt;
use std::marker::PhantomData;

/// Readers that one domain can have at a time.
#[cfg(not(loom))]
pub const MAX_READERS: usize = 256;
/// Readers that one domain can have at a time (few, to keep the model small).
#[cfg(loom)]
pub const MAX_READERS: usize = 2;

/// What a slot holds while its reader is offline. Epochs start at 1.
const OFFLINE: u64 = 0;

/// One reader's word, alone on its cache line pair so that readers do not disturb each
/// other (two lines: x86 prefetches lines in pairs).
#[repr(align(128))]
struct Slot {
    /// Last epoch the reader saw at a quiescent point, or [`OFFLINE`].
    seen: AtomicU64,
    taken: AtomicBool,
}

/// The epoch, alone on its line: workers read it every loop.
#[repr(align(128))]
struct Epoch(AtomicU64);

/// A retired value: its pointer and how to free it. Not a `Box`: that would claim the
/// value for itself from the moment of its retirement, while readers still look at it.
struct Garbage {
    ptr: *mut (),
    free: unsafe fn(*mut ()),
}

// SAFETY: made only from values that are `Send` (the bound of `retire_raw`), which is what
// dropping one on another thread needs.
unsafe impl Send for Garbage {}

impl Garbage {
    /// # Safety
    /// As [`Domain::retire_raw`].
    unsafe fn new<T: Send + 'static>(ptr: *mut T) -> Self {
        unsafe fn free<T>(ptr: *mut ()) {
            // SAFETY: `new` put the pointer of a `Box<T>` beside this very function, and
            // the garbage is dropped once.
            drop(unsafe { Box::from_raw(ptr.cast::<T>()) });
        }
        Garbage {
            ptr: ptr.cast(),
            free: free::<T>,
        }
    }
}

impl Drop for Garbage {
    fn drop(&mut self) {
        // SAFETY: pointer and function belong together, and nobody else has the pointer.
        unsafe { (self.free)(self.ptr) };
    }
}

#[derive(Default)]
struct Bin {
    /// Retired since the epoch last moved.
    open: Vec<Garbage>,
    /// Batches by the epoch that readers must reach, oldest first.
    closed: VecDeque<(u64, Vec<Garbage>)>,
    /// A [`Stamp`] was given out since the epoch last moved.
    stamped: bool,
    len: usize,
}

/// A set of readers and the garbage that waits for them. Shared as `Arc<Domain>`.
pub struct Domain {
    epoch: Epoch,
    slots: Box<[Slot]>,
    /// The epoch that all online readers are known to have reached.
    reached: AtomicU64,
    bin: Mutex<Bin>,
    /// The side of published values that readers look at; written and read by control.
    side: AtomicBool,
    /// Held shared while control looks at a published value without being a reader;
    /// nothing is taken out of the bin meanwhile.
    gate: RwLock<()>,
}

/// A point in time on the control side: what was unlinked before the stamp was taken is
/// out of every reader's reach once [`Domain::elapsed`] says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp(u64);

/// More than [`MAX_READERS`] readers were asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyReaders;

impl fmt::Display for TooManyReaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "too many readers: the limit is {MAX_READERS}")
    }
}

impl std::error::Error for TooManyReaders {}

impl Domain {
    /// A domain without readers.
    #[must_use]
    #[allow(clippy::new_ret_no_self)]
    pub fn new() -> Arc<Domain> {
        let slot = |_| Slot {
            seen: AtomicU64::new(OFFLINE),
            taken: AtomicBool::new(false),
        };
        Arc::new(Domain {
            epoch: Epoch(AtomicU64::new(1)),
            slots: (0..MAX_READERS).map(slot).collect(),
            reached: AtomicU64::new(0),
            bin: Mutex::new(Bin::default()),
            side: AtomicBool::new(false),
            gate: RwLock::new(()),
        })
    }

    /// Adds a reader, offline. It leaves the domain when it is dropped.
    ///
    /// # Errors
    /// [`TooManyReaders`] when [`MAX_READERS`] exist already.
    pub fn register(self: &Arc<Self>) -> Result<Reader, TooManyReaders> {
        let free = |s: &Slot| {
            s.taken
                .compare_exchange(false, true, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
        };
        let slot = self.slots.iter().position(free).ok_or(TooManyReaders)?;
        Ok(Reader {
            domain: Arc::clone(self),
            slot,
            seen: OFFLINE,
            side: self.side(),
            not_sync: PhantomData,
        })
    }

    /// The side of published values that readers look at.
    pub(crate) fn side(&self) -> usize {
        usize::from(self.side.load(Ordering::Relaxed))
    }

    /// Decides that readers are to look at the other side of published values from now on,
    /// and says which that is: control then tells each ([`Reader::change_sides`]).
    pub fn change_sides(&self) -> usize {
        let other = 1 - self.side();
        self.side.store(other == 1, Ordering::Relaxed);
        other
    }

    /// Takes over a value that no new reader can reach any more, and drops it (in a later
    /// [`Domain::reclaim`]) once all readers that were online have been quiescent.
    pub fn retire<T: Send + 'static>(&self, garbage: Box<T>) {
        // SAFETY: from a box that was ours alone.
        unsafe { self.retire_raw(Box::into_raw(garbage)) };
    }

    /// As [`Domain::retire`], for a value that readers may be looking at right now: it
    /// stays a pointer until it is dropped, because a `Box` must be the only way to what
    /// it holds from the moment it exists.
    ///
    /// # Safety
    /// `ptr` comes from [`Box::into_raw`], no new reader can reach it, and nobody else
    /// frees it.
    pub unsafe fn retire_raw<T: Send + 'static>(&self, ptr: *mut T) {
        // SAFETY: the caller's promise is the same.
        let garbage = unsafe { Garbage::new(ptr) };
        let mut bin = lock(&self.bin);
        bin.open.push(garbage);
        bin.len += 1;
    }

    /// Drops what no reader can still see; returns how many values. Never waits for a
    /// reader. Control calls it regularly.
    pub fn reclaim(&self) -> usize {
        let batches = self.take_safe();
        // Dropped outside of every lock: a destructor may retire more.
        batches.iter().map(Vec::len).sum()
    }

    /// Values that wait to be dropped.
    #[must_use]
    pub fn pending(&self) -> usize {
        lock(&self.bin).len
    }

    /// Marks the present moment, for resources that are not boxes (an index to be used
    /// again, a block of an arena). Take it after the unlinking store.
    #[must_use]
    pub fn stamp(&self) -> Stamp {
        let mut bin = lock(&self.bin);
        bin.stamped = true;
        Stamp(self.epoch.0.load(Ordering::Relaxed) + 1)
    }

    /// Whether every reader has been quiescent since `stamp`, as of the last
    /// [`Domain::reclaim`].
    #[must_use]
    pub fn elapsed(&self, stamp: Stamp) -> bool {
        self.reached.load(Ordering::Acquire) >= stamp.0
    }

    fn take_safe(&self) -> Vec<Vec<Garbage>> {
        // Busy means that control looks at a published value right now: try next time.
        let Ok(_gate) = self.gate.try_write() else {
            return Vec::new();
        };
        let mut bin = lock(&self.bin);
        if !bin.open.is_empty() || bin.stamped {
            // Only moved under the lock, so load and store need not be one operation.
            let next = self.epoch.0.load(Ordering::Relaxed) + 1;
            self.epoch.0.store(next, Ordering::Release);
            let batch = std::mem::take(&mut bin.open);
            bin.closed.push_back((next, batch));
            bin.stamped = false;
        }
        let reached = self.scan();
        self.reached.store(reached, Ordering::Release);
        let mut out = Vec::new();
        while bin
            .closed
            .front()
            .is_some_and(|(epoch, _)| *epoch <= reached)
        {
            if let Some((_, batch)) = bin.closed.pop_front() {
                bin.len -= batch.len();
                out.push(batch);
            }
        }
        out
    }

    /// The oldest epoch that an online reader may still live in.
    fn scan(&self) -> u64 {
        // Pairs with the fence in `Reader::online`.
        fence(Ordering::SeqCst);
        let now = self.epoch.0.load(Ordering::Relaxed);
        let seen = self.slots.iter().map(|s| s.seen.load(Ordering::Acquire));
        seen.filter(|&e| e != OFFLINE).fold(now, u64::min)
    }

    /// Keeps [`Domain::reclaim`] from freeing anything while the guard lives. Never
    /// deadlocks with it: reclaim only tries.
    pub(crate) fn hold(&self) -> RwLockReadGuard<'_, ()> {
        self.gate
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl fmt::Debug for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let online = self
            .slots
            .iter()
            .filter(|s| s.seen.load(Ordering::Relaxed) != OFFLINE);
        f.debug_struct("Domain")
            .field("epoch", &self.epoch.0.load(Ordering::Relaxed))
            .field("online", &online.count())
            .field("pending", &self.pending())
            .finish()
    }
}

/// One thread's right to read. References that it hands out borrow it, and moving the
/// epoch on needs it mutably: the compiler proves that none is held across a quiescent
/// point.
///
/// ```compile_fail
/// let d = parshall_rcu::Domain::new();
/// let mut r = d.register().unwrap();
/// let p = parshall_rcu::Published::new(1);
/// r.online();
/// let seen = p.load(&r);
/// r.quiescent(); // error: `r` is still borrowed by `seen`
/// assert_eq!(*seen, 1);
/// ```
pub struct Reader {
    domain: Arc<Domain>,
    slot: usize,
    /// Copy of the slot's epoch; [`OFFLINE`] while offline.
    seen: u64,
    /// The side of published values that it looks at.
    side: usize,
    /// One thread at a time: shared use from two would mix up their quiescent points.
    not_sync: PhantomData<Cell<()>>,
}

impl Reader {
    /// Starts reading. A thread that is about to sleep goes offline first, so that
    /// nobody waits for it.
    pub fn online(&mut self) {
        self.seen = self.domain.epoch.0.load(Ordering::Acquire);
        // Release, for what was read before an earlier `offline`: the scan may meet only
        // this store.
        self.word().store(self.seen, Ordering::Release);
        // Pairs with the fence in `Domain::scan`: either the scan sees this reader, or
        // this reader sees all that was unlinked before the scan.
        fence(Ordering::SeqCst);
    }

    /// Stops reading: this reader holds nothing back until it is online again.
    pub fn offline(&mut self) {
        self.word().store(OFFLINE, Ordering::Release);
        self.seen = OFFLINE;
    }

    /// Says that no reference is held. Called once per loop of a worker; one load when
    /// nothing was retired. Does nothing while offline.
    #[inline]
    pub fn quiescent(&mut self) {
        let now = self.domain.epoch.0.load(Ordering::Acquire);
        if now != self.seen && self.seen != OFFLINE {
            self.word().store(now, Ordering::Release);
            self.seen = now;
        }
    }

    /// Looks at this side of published values from now on: at all that was staged there. Whoever told of it
    /// did so with release, and this thread heard it with acquire.
    pub fn change_sides(&mut self, side: usize) {
        self.side = side & 1;
    }

    /// The side it looks at.
    #[inline]
    pub(crate) fn side(&self) -> usize {
        // In bounds for all to see.
        self.side & 1
    }

    /// Whether published values may be loaded now.
    #[inline]
    #[must_use]
    pub fn is_online(&self) -> bool {
        self.seen != OFFLINE
    }

    /// The domain this reader belongs to.
    #[must_use]
    pub fn domain(&self) -> &Arc<Domain> {
        &self.domain
    }

    /// Panics when offline: a load would then be unprotected. The flag is a plain field
    /// behind a shared borrow, so the compiler lifts the test out of loops.
    #[inline]
    pub fn assert_online(&self) {
        if !self.is_online() {
            offline_load();
        }
    }

    #[inline]
    fn word(&self) -> &AtomicU64 {
        &self.domain.slots[self.slot].seen
    }
}

#[cold]
#[inline(never)]
fn offline_load() -> ! {
    panic!("a published value was loaded through an offline reader")
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.offline();
        self.domain.slots[self.slot]
            .taken
            .store(false, Ordering::Release);
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Reader {{ slot: {}, online: {} }}",
            self.slot,
            self.is_online()
        )
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    struct Canary(std::sync::Arc<AtomicUsize>);
    impl Drop for Canary {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn nothing_waits_when_nobody_reads() {
        let d = Domain::new();
        let _offline = d.register().unwrap();
        d.retire(Box::new(5));
        assert_eq!(d.pending(), 1);
        assert_eq!(d.reclaim(), 1);
        assert_eq!(d.pending(), 0);
    }

    #[test]
    fn garbage_waits_for_every_online_reader() {
        let dropped = std::sync::Arc::new(AtomicUsize::new(0));
        let d = Domain::new();
        let (mut a, mut b) = (d.register().unwrap(), d.register().unwrap());
        a.online();
        b.online();
        d.retire(Box::new(Canary(dropped.clone())));
        let stamp = d.stamp();
        a.quiescent(); // before the epoch moved: proves nothing
        assert_eq!(d.reclaim(), 0);
        a.quiescent();
        assert_eq!(d.reclaim(), 0, "b is still inside");
        assert!(!d.elapsed(stamp));
        b.offline();
        assert_eq!(d.reclaim(), 1);
        assert!(d.elapsed(stamp));
        assert_eq!(dropped.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_stamp_elapses_without_garbage() {
        let d = Domain::new();
        let mut r = d.register().unwrap();
        r.online();
        let stamp = d.stamp();
        d.reclaim();
        assert!(!d.elapsed(stamp));
        r.quiescent();
        d.reclaim();
        assert!(d.elapsed(stamp));
    }

    #[test]
    fn quiescent_does_not_bring_a_reader_online() {
        let d = Domain::new();
        let mut r = d.register().unwrap();
        r.quiescent();
        d.retire(Box::new(1));
        d.reclaim();
        r.quiescent();
        assert!(!r.is_online());
        assert_eq!(d.pending(), 0);
    }

    #[test]
    fn readers_are_limited_and_slots_return() {
        let d = Domain::new();
        let mut all: Vec<_> = (0..MAX_READERS).map(|_| d.register().unwrap()).collect();
        assert_eq!(d.register().err(), Some(TooManyReaders));
        assert_eq!(
            TooManyReaders.to_string(),
            "too many readers: the limit is 256"
        );
        all[7].online();
        all.remove(7);
        d.retire(Box::new(1));
        assert_eq!(d.reclaim(), 1, "a dropped reader holds nothing back");
        assert!(d.register().is_ok());
    }

    #[test]
    fn dropping_the_domain_drops_its_garbage() {
        let dropped = std::sync::Arc::new(AtomicUsize::new(0));
        let d = Domain::new();
        d.retire(Box::new(Canary(dropped.clone())));
        drop(d);
        assert_eq!(dropped.load(Ordering::SeqCst), 1);
    }
}
