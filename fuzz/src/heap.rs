//! Meters what is allocated: a target of this library has [`Meter`] as its allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static TAKEN: Cell<usize> = const { Cell::new(0) };
}

/// The system's allocator, which counts by thread what was ever taken from it.
pub struct Meter;

fn count(bytes: usize) {
    // A thread that ends has no counter any more.
    let _ = TAKEN.try_with(|t| t.set(t.get().saturating_add(bytes)));
}

// SAFETY: every call is passed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Meter {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's promises are the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size.saturating_sub(layout.size()));
        // SAFETY: as above.
        unsafe { System.realloc(at, layout, size) }
    }
}

/// Bytes that were allocated on the way, freed ones as well.
pub fn taken<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = TAKEN.get();
    let result = work();
    (result, TAKEN.get() - before)
}
