//! Bounded single-producer single-consumer rings.
//!
//! Owns the one shared-memory queue the house has: between a worker and the control thread (commands,
//! punted packets, samples, traces, captures). The producer never waits: a full ring counts what it
//! could not take ([`Consumer::overflows`]). Slots are written in place, once, so a large record costs
//! one copy. Knows nothing of what it carries.
//!
//! Memory order is the classic one (Lamport's queue with cached indices): the producer publishes a
//! slot by a release store of `tail`, the consumer gives it back by a release store of `head`.
#![allow(unsafe_code)]

mod sleeper;

pub use sleeper::Sleeper;

#[cfg(loom)]
use loom::{
    cell::UnsafeCell,
    sync::Arc,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
};
#[cfg(not(loom))]
use shim::UnsafeCell;
#[cfg(not(loom))]
use std::sync::{
    Arc,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

/// `std`'s cell with loom's calling convention, so that the ring is written once.
#[cfg(not(loom))]
mod shim {
    pub struct UnsafeCell<T>(std::cell::UnsafeCell<T>);
    impl<T> UnsafeCell<T> {
        pub fn new(v: T) -> Self {
            Self(std::cell::UnsafeCell::new(v))
        }
        #[inline(always)]
        pub fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
            f(self.0.get())
        }
    }
}

/// A cache line of its own, so that the two sides do not slow each other down.
#[repr(align(128))]
struct Line<T>(T);

/// Bytes that processors hand each other at a time.
#[cfg(not(loom))]
const LINE: usize = 64;

/// Fetches the line at `at` to be written. The intrinsic for it would not do: without a target feature that
/// x86-64-v2 lacks it becomes a fetch to be read, which leaves the line with its last owner.
#[cfg(not(loom))]
#[inline(always)]
fn own(at: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a hint that touches no memory, registers or flags and cannot fault, whatever the address;
    // processors without it take it for a no-op.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) at.addr(), options(nomem, nostack, preserves_flags));
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = at;
}

struct Shared<T> {
    slots: Box<[UnsafeCell<T>]>,
    mask: usize,
    /// Next slot the consumer reads; only the consumer writes it.
    head: Line<AtomicUsize>,
    /// Next slot the producer writes; only the producer writes it.
    tail: Line<AtomicUsize>,
    /// Records the producer could not place; only the producer writes it.
    overflows: Line<AtomicU64>,
}

// SAFETY: a slot is touched by the producer only in [tail, head + size) and by the consumer only in
// [head, tail); the release/acquire pairs on head and tail hand each slot over. T itself moves between
// threads, hence `T: Send`.
unsafe impl<T: Send> Sync for Shared<T> {}
// SAFETY: as above; nothing in it is bound to a thread.
unsafe impl<T: Send> Send for Shared<T> {}

/// The writing side.
pub struct Producer<T> {
    ring: Arc<Shared<T>>,
    tail: usize,
    head_seen: usize,
}

/// The reading side.
pub struct Consumer<T> {
    ring: Arc<Shared<T>>,
    head: usize,
    tail_seen: usize,
}

/// Makes a ring of at least `size` slots (rounded up to a power of two), each `T::default()`.
pub fn ring<T: Default + Send>(size: usize) -> (Producer<T>, Consumer<T>) {
    let size = size.max(2).next_power_of_two();
    let ring = Arc::new(Shared {
        slots: (0..size).map(|_| UnsafeCell::new(T::default())).collect(),
        mask: size - 1,
        head: Line(AtomicUsize::new(0)),
        tail: Line(AtomicUsize::new(0)),
        overflows: Line(AtomicU64::new(0)),
    });
    (
        Producer {
            ring: ring.clone(),
            tail: 0,
            head_seen: 0,
        },
        Consumer {
            ring,
            head: 0,
            tail_seen: 0,
        },
    )
}

impl<T: Send> Producer<T> {
    /// Lets `write` fill the next slot in place (it still holds an older value) and publishes it.
    /// When the ring is full, counts an overflow, calls nothing and says false.
    #[inline]
    pub fn write(&mut self, write: impl FnOnce(&mut T)) -> bool {
        if !self.has_room() {
            let n = self.ring.overflows.0.load(Ordering::Relaxed);
            self.ring.overflows.0.store(n + 1, Ordering::Relaxed);
            return false;
        }
        self.ring.slots[self.tail & self.ring.mask].with_mut(|slot| {
            // SAFETY: has_room proved that the consumer gave this slot back (acquire on head) and it
            // will not look again before the release store below.
            write(unsafe { &mut *slot });
        });
        self.tail = self.tail.wrapping_add(1);
        self.ring.tail.0.store(self.tail, Ordering::Release);
        true
    }

    /// Moves `value` in, or gives it back when the ring is full (counted as an overflow).
    #[inline]
    pub fn push(&mut self, value: T) -> Result<(), T> {
        let mut value = Some(value);
        self.write(|slot| {
            if let Some(v) = value.take() {
                *slot = v;
            }
        });
        value.map_or(Ok(()), Err)
    }

    /// Whether a slot is free.
    #[inline]
    pub fn has_room(&mut self) -> bool {
        if self.tail.wrapping_sub(self.head_seen) <= self.ring.mask {
            return true;
        }
        self.head_seen = self.ring.head.0.load(Ordering::Acquire);
        self.tail.wrapping_sub(self.head_seen) <= self.ring.mask
    }

    /// Asks the processor to own the first `bytes` of the slot that the `ahead`-th write from now will
    /// fill (1 = the next one). The other side's processor read that memory last, and stores to it would
    /// wait for it one after another; a producer that writes now and then has the time to fetch it before.
    /// A hint: it changes nothing that either side can see.
    #[inline(always)]
    pub fn claim(&self, ahead: usize, bytes: usize) {
        #[cfg(not(loom))]
        {
            let at = self.tail.wrapping_add(ahead).wrapping_sub(1) & self.ring.mask;
            let slot = self.ring.slots[at].with_mut(|slot| slot.cast_const().cast::<u8>());
            for line in (0..bytes.min(size_of::<T>())).step_by(LINE) {
                own(slot.wrapping_add(line));
            }
        }
        #[cfg(loom)]
        let _ = (ahead, bytes);
    }

    /// Records lost so far because the ring was full.
    pub fn overflows(&self) -> u64 {
        self.ring.overflows.0.load(Ordering::Relaxed)
    }

    /// Whether the consumer is gone.
    #[cfg(not(loom))]
    pub fn is_closed(&self) -> bool {
        Arc::strong_count(&self.ring) == 1
    }
}

impl<T: Send> Consumer<T> {
    /// Lets `read` look at the oldest record and then gives its slot back.
    #[inline]
    pub fn read<R>(&mut self, read: impl FnOnce(&mut T) -> R) -> Option<R> {
        if self.is_empty() {
            return None;
        }
        let out = self.ring.slots[self.head & self.ring.mask].with_mut(|slot| {
            // SAFETY: is_empty proved that the producer published this slot (acquire on tail) and it
            // will not write it again before the release store below.
            read(unsafe { &mut *slot })
        });
        self.head = self.head.wrapping_add(1);
        self.ring.head.0.store(self.head, Ordering::Release);
        Some(out)
    }

    /// Takes the oldest record out.
    #[inline]
    pub fn pop(&mut self) -> Option<T>
    where
        T: Default,
    {
        self.read(std::mem::take)
    }

    /// Whether nothing waits.
    #[inline]
    pub fn is_empty(&mut self) -> bool {
        if self.head != self.tail_seen {
            return false;
        }
        self.tail_seen = self.ring.tail.0.load(Ordering::Acquire);
        self.head == self.tail_seen
    }

    /// Records waiting.
    pub fn len(&mut self) -> usize {
        self.tail_seen = self.ring.tail.0.load(Ordering::Acquire);
        self.tail_seen.wrapping_sub(self.head)
    }

    /// Records lost so far because the ring was full.
    pub fn overflows(&self) -> u64 {
        self.ring.overflows.0.load(Ordering::Relaxed)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_full_ring_counts_and_keeps_order() {
        let (mut p, mut c) = ring::<u32>(4);
        for i in 0..6 {
            assert_eq!(p.push(i).is_ok(), i < 4);
        }
        assert_eq!(c.overflows(), 2);
        assert_eq!(c.len(), 4);
        assert_eq!(
            (0..5).map(|_| c.pop()).collect::<Vec<_>>(),
            [Some(0), Some(1), Some(2), Some(3), None]
        );
        assert!(p.push(9).is_ok());
        assert_eq!(c.pop(), Some(9));
    }

    #[test]
    fn a_claim_changes_nothing_wherever_it_points() {
        let (mut p, mut c) = ring::<[u64; 25]>(4);
        for i in 0..10 {
            assert!(p.push([i; 25]).is_ok());
            for ahead in [0, 1, 4, 1000] {
                p.claim(ahead, usize::MAX);
            }
            assert_eq!(c.read(|s| *s), Some([i; 25]));
        }
        assert_eq!(c.len(), 0);
    }

    #[test]
    fn two_threads_lose_and_reorder_nothing() {
        // Miri takes a thousand times as long for each.
        const N: u64 = if cfg!(miri) { 1_000 } else { 200_000 };
        let (mut p, mut c) = ring::<[u64; 8]>(64);
        let writer = std::thread::spawn(move || {
            let mut i = 0;
            while i < N {
                if p.has_room() && p.write(|s| *s = [i; 8]) {
                    i += 1;
                } else {
                    std::thread::yield_now();
                }
            }
        });
        let mut want = 0;
        while want < N {
            match c.read(|s| *s) {
                Some(s) => {
                    assert_eq!(s, [want; 8]);
                    want += 1;
                }
                None => std::thread::yield_now(),
            }
        }
        writer.join().unwrap();
        assert_eq!(c.overflows(), 0);
    }
}

#[cfg(all(test, loom))]
mod loom_tests;
