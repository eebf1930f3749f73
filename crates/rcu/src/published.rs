//! One published value: a pointer that control replaces and readers follow.

use crate::domain::{Domain, Reader};
use crate::sync::{AtomicPtr, Ordering, RwLockReadGuard};
use std::fmt;
use std::ops::Deref;

/// A value that readers load with one pointer read and control replaces as a whole.
///
/// All replaced values must be retired into the domain that the readers belong to
/// (checked in debug builds).
pub struct Published<T> {
    ptr: AtomicPtr<T>,
    #[cfg(debug_assertions)]
    domain: std::sync::atomic::AtomicUsize,
}

impl<T: Send + Sync + 'static> Published<T> {
    /// Publishes the first value.
    #[must_use]
    pub fn new(v: T) -> Self {
        Published {
            ptr: AtomicPtr::new(Box::into_raw(Box::new(v))),
            #[cfg(debug_assertions)]
            domain: Default::default(),
        }
    }

    /// The value as of now. It stays whole for as long as the reader is not quiescent,
    /// even if control replaces it meanwhile.
    ///
    /// # Panics
    /// When `r` is offline: a mistake of the program, not of its input.
    #[inline]
    pub fn load<'r>(&'r self, r: &'r Reader) -> &'r T {
        r.assert_online();
        #[cfg(debug_assertions)]
        self.check_domain(r.domain());
        // SAFETY: the pointer comes from a box that only `publish` unlinks and then
        // retires; the reader is online and borrowed for 'r, so the domain frees nothing
        // that was reachable since its last quiescent point. Values are never written
        // after publication, only shared (T: Sync).
        unsafe { &*self.ptr.load(Ordering::Acquire) }
    }

    /// Replaces the value and retires the old one.
    pub fn publish(&self, d: &Domain, v: T) {
        #[cfg(debug_assertions)]
        self.check_domain(d);
        let old = self.ptr.swap(Box::into_raw(Box::new(v)), Ordering::AcqRel);
        // SAFETY: every pointer stored here came from `Box::into_raw`, and the swap hands
        // each of them to exactly one caller.
        unsafe { d.retire_raw(old) };
    }

    /// Looks at the value from the control side, without being a reader: the domain frees
    /// nothing while the answer lives (reclaim returns 0 instead of waiting).
    pub fn read_control<'a>(&'a self, d: &'a Domain) -> ControlRef<'a, T> {
        #[cfg(debug_assertions)]
        self.check_domain(d);
        let hold = d.hold();
        // SAFETY: as in `load`, but it is the held gate that keeps the box: it can be
        // retired meanwhile, not freed.
        let value = unsafe { &*self.ptr.load(Ordering::Acquire) };
        ControlRef { value, _hold: hold }
    }

    #[cfg(debug_assertions)]
    fn check_domain(&self, d: &Domain) {
        use std::sync::atomic::Ordering::Relaxed;
        let id = std::ptr::from_ref(d).addr();
        let seen = self
            .domain
            .compare_exchange(0, id, Relaxed, Relaxed)
            .unwrap_or_else(|x| x);
        debug_assert!(
            seen == 0 || seen == id,
            "a published value is used with two domains"
        );
    }
}

impl<T> Drop for Published<T> {
    fn drop(&mut self) {
        // SAFETY: `&mut self`: no reader can hold a reference, since those borrow self;
        // the pointer came from `Box::into_raw` and is dropped only here.
        drop(unsafe { Box::from_raw(self.ptr.load(Ordering::Acquire)) });
    }
}

impl<T> fmt::Debug for Published<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Published(..)")
    }
}

/// A published value seen from the control side; see [`Published::read_control`].
pub struct ControlRef<'a, T> {
    pub(crate) value: &'a T,
    pub(crate) _hold: RwLockReadGuard<'a, ()>,
}

impl<T> Deref for ControlRef<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.value
    }
}

impl<T: fmt::Debug> fmt::Debug for ControlRef<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_loaded_value_outlives_its_replacement() {
        let d = Domain::new();
        let mut r = d.register().unwrap();
        let p = Published::new(String::from("old"));
        r.online();
        let seen = p.load(&r);
        p.publish(&d, String::from("new"));
        assert_eq!(d.reclaim(), 0);
        assert_eq!((seen.as_str(), p.load(&r).as_str()), ("old", "new"));
        r.quiescent();
        assert_eq!(d.reclaim(), 1);
    }

    #[test]
    fn control_reads_hold_reclamation_off() {
        let d = Domain::new();
        let p = Published::new(1);
        let seen = p.read_control(&d);
        p.publish(&d, 2);
        assert_eq!(d.reclaim(), 0);
        assert_eq!((*seen, *p.read_control(&d)), (1, 2));
        drop(seen);
        assert_eq!(d.reclaim(), 1);
    }

    #[test]
    #[should_panic(expected = "offline reader")]
    fn an_offline_reader_cannot_load() {
        let d = Domain::new();
        let r = d.register().unwrap();
        Published::new(1).load(&r);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "two domains")]
    fn domains_are_not_mixed() {
        let p = Published::new(1);
        let (one, other) = (Domain::new(), Domain::new());
        p.publish(&one, 2);
        p.publish(&other, 3);
    }
}
