//! One published value: a pointer that control replaces and readers follow.
//!
//! A value has two sides, and a reader looks at one of them. Mostly both are the same. When several values are to change as
//! one, control stages the new ones on the side that no reader looks at, readers change sides, each between two of its
//! turns and for all values at once ([`Reader::change_sides`]), and then control makes both sides the same again
//! ([`Published::even`]).

use crate::domain::{Domain, Reader};
use crate::sync::{AtomicPtr, Ordering, RwLockReadGuard};
use std::fmt;
use std::ops::Deref;

/// A value that readers load with one pointer read and control replaces as a whole.
///
/// All replaced values must be retired into the domain that the readers belong to
/// (checked in debug builds).
pub struct Published<T> {
    /// By side. Both may be the same box.
    ptr: [AtomicPtr<T>; 2],
    #[cfg(debug_assertions)]
    domain: std::sync::atomic::AtomicUsize,
}

impl<T: Send + Sync + 'static> Published<T> {
    /// Publishes the first value.
    #[must_use]
    pub fn new(v: T) -> Self {
        let both = Box::into_raw(Box::new(v));
        Published {
            ptr: [AtomicPtr::new(both), AtomicPtr::new(both)],
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
        // SAFETY: the pointer comes from a box that is retired only after it was unlinked
        // from both sides; the reader is online and borrowed for 'r, so the domain frees
        // nothing that was reachable since its last quiescent point. Values are never
        // written after publication, only shared (T: Sync).
        unsafe { &*self.ptr[r.side()].load(Ordering::Acquire) }
    }

    /// Replaces the value on both sides and retires the old one.
    pub fn publish(&self, d: &Domain, v: T) {
        #[cfg(debug_assertions)]
        self.check_domain(d);
        let new = Box::into_raw(Box::new(v));
        let old = [0, 1].map(|side: usize| self.ptr[side].swap(new, Ordering::AcqRel));
        // SAFETY: every pointer stored here came from `Box::into_raw`; only control, one
        // thread, stores, so what the swaps hand out is on neither side any more. Where both
        // sides had the same box it is retired once.
        unsafe {
            d.retire_raw(old[0]);
            if old[1] != old[0] {
                d.retire_raw(old[1]);
            }
        }
    }

    /// Puts a value on the side that readers do not look at; they find it when they
    /// [change sides](Reader::change_sides).
    pub fn stage(&self, d: &Domain, v: T) {
        #[cfg(debug_assertions)]
        self.check_domain(d);
        self.put(d, 1 - d.side(), Box::into_raw(Box::new(v)));
    }

    /// Puts the value of the side that readers look at on the other, after all have
    /// changed sides. Nothing happens where both are the same.
    pub fn even(&self, d: &Domain) {
        let side = d.side();
        self.put(d, 1 - side, self.ptr[side].load(Ordering::Acquire));
    }

    fn put(&self, d: &Domain, side: usize, new: *mut T) {
        let old = self.ptr[side].swap(new, Ordering::AcqRel);
        let other = self.ptr[1 - side].load(Ordering::Acquire);
        if old != other && old != new {
            // SAFETY: it came from `Box::into_raw`, and only control, one thread, stores: it
            // is on neither side any more.
            unsafe { d.retire_raw(old) };
        }
    }

    /// Looks at the value from the control side, without being a reader: the domain frees
    /// nothing while the answer lives (reclaim returns 0 instead of waiting).
    pub fn read_control<'a>(&'a self, d: &'a Domain) -> ControlRef<'a, T> {
        #[cfg(debug_assertions)]
        self.check_domain(d);
        let hold = d.hold();
        // SAFETY: as in `load`, but it is the held gate that keeps the box: it can be
        // retired meanwhile, not freed.
        let value = unsafe { &*self.ptr[d.side()].load(Ordering::Acquire) };
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
        let [a, b] = [0, 1].map(|side: usize| self.ptr[side].load(Ordering::Acquire));
        // SAFETY: `&mut self`: no reader can hold a reference, since those borrow self;
        // the pointers came from `Box::into_raw` and are dropped only here, a shared one once.
        unsafe {
            drop(Box::from_raw(a));
            if b != a {
                drop(Box::from_raw(b));
            }
        }
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
    fn staged_values_are_seen_together_when_the_reader_changes_sides() {
        let d = Domain::new();
        let mut r = d.register().unwrap();
        let (p, q) = (Published::new(1), Published::new(10));
        r.online();
        p.stage(&d, 2);
        p.stage(&d, 3);
        q.stage(&d, 30);
        assert_eq!((*p.load(&r), *q.load(&r)), (1, 10));
        r.change_sides(d.change_sides());
        assert_eq!((*p.load(&r), *q.load(&r)), (3, 30));
        assert_eq!(*p.read_control(&d), 3);
        p.even(&d);
        q.even(&d);
        q.even(&d);
        // 2, 1 and 10.
        assert_eq!(d.pending(), 3);
        p.publish(&d, 4);
        assert_eq!((*p.load(&r), *q.load(&r)), (4, 30));
        // One that comes later looks where the others look.
        let mut late = d.register().unwrap();
        late.online();
        q.stage(&d, 40);
        assert_eq!((*q.load(&late), *q.load(&r)), (30, 30));
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
