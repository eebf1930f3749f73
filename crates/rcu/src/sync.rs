//! The synchronisation primitives in use: those of `std`, or loom's models of them when
//! the crate is built with `--cfg loom`. Owns nothing else.

// Not loom's model of it: a method cannot take that one as `self`, and the counts that it
// would check protect nothing here.
pub(crate) use std::sync::Arc;

#[cfg(loom)]
pub(crate) use loom::sync::{
    Mutex, RwLock, RwLockReadGuard,
    atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering, fence},
};
#[cfg(not(loom))]
pub(crate) use std::sync::{
    Mutex, RwLock, RwLockReadGuard,
    atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering, fence},
};

/// Locks `m`. A panic of another control thread while it held the lock leaves data that
/// is still consistent here (every critical section is a few infallible moves), so
/// poisoning is ignored.
pub(crate) fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(loom)]
pub(crate) use loom::sync::MutexGuard;
#[cfg(not(loom))]
pub(crate) use std::sync::MutexGuard;
