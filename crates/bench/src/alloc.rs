//! An allocator that counts: proof that the packet path does not allocate.
//!
//! It stands in front of the system's and adds one to a number of the calling thread for each call, which
//! is nothing beside an allocation and does nothing at all for a thread that makes none.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, counted. For `#[global_allocator]`.
#[derive(Clone, Copy, Debug, Default)]
pub struct CountingAllocator;

/// Allocations of the calling thread so far, `None` when [`CountingAllocator`] is not this program's.
pub fn allocations() -> Option<u64> {
    let before = ALLOCATIONS.get();
    drop(std::hint::black_box(Box::new(0u8)));
    let after = ALLOCATIONS.get();
    (after != before).then_some(before)
}

/// Allocations of the calling thread while `f` runs, 0 when nobody counts.
pub fn during<T>(f: impl FnOnce() -> T) -> (T, u64) {
    let before = ALLOCATIONS.get();
    let made = f();
    (made, ALLOCATIONS.get() - before)
}

fn count() {
    // A thread that ends may have lost its counter already; nobody asks for it then.
    let _ = ALLOCATIONS.try_with(|n| n.set(n.get() + 1));
}

// SAFETY: every call is passed on unchanged to the system's allocator; counting neither allocates (a
// constant-initialized cell without destructor) nor touches the memory.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are passed on. Passed on as such, because the system's way of
        // getting zeros (fresh pages) is cheaper than writing them.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(p, layout) }
    }
    unsafe fn realloc(&self, p: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(p, layout, size) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[global_allocator]
    static ALLOCATOR: CountingAllocator = CountingAllocator;

    #[test]
    fn allocations_are_counted_by_thread() {
        assert!(allocations().is_some());
        let (made, n) = during(|| std::hint::black_box(vec![1u8; 100]));
        assert_eq!((made.len(), n), (100, 1));
        let (_, n) = during(|| std::hint::black_box(1 + 1));
        assert_eq!(n, 0);
        let (_, n) = during(|| std::hint::black_box(vec![0u64; 9]));
        assert_eq!(n, 1);
    }
}
