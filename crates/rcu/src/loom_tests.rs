//! Every interleaving of a small model. Run with
//! `RUSTFLAGS="--cfg loom" cargo test -p parshall-rcu --release`.

use crate::{Domain, Published, Slab};
use loom::cell::UnsafeCell;
use loom::thread;

/// loom reports a reader's access that is not ordered before the drop's.
struct Tracked(UnsafeCell<u32>);

// SAFETY: shared access only reads; the one write is in `drop`, which owns the value.
unsafe impl Sync for Tracked {}

impl Tracked {
    fn new(n: u32) -> Self {
        Tracked(UnsafeCell::new(n))
    }

    fn get(&self) -> u32 {
        // SAFETY: written only on construction and in `drop`.
        self.0.with(|p| unsafe { *p })
    }
}

impl Drop for Tracked {
    fn drop(&mut self) {
        // SAFETY: `drop` has the value to itself.
        self.0.with_mut(|p| unsafe { *p = 99 });
    }
}

#[test]
fn a_quiescent_reader_never_sees_a_freed_value() {
    loom::model(|| {
        let d = Domain::new();
        let p = loom::sync::Arc::new(Published::new(Tracked::new(0)));
        let mut r = d.register().unwrap();
        let reader = thread::spawn({
            let p = p.clone();
            move || {
                r.online();
                let first = p.load(&r).get();
                r.quiescent();
                let second = p.load(&r).get();
                assert!(first <= second && second <= 2);
                r.offline();
            }
        });
        for n in 1..=2 {
            p.publish(&d, Tracked::new(n));
            d.reclaim();
        }
        reader.join().unwrap();
        d.reclaim();
        assert_eq!(d.pending(), 0);
    });
}

#[test]
fn a_reader_that_comes_and_goes_is_protected() {
    loom::model(|| {
        let d = Domain::new();
        let p = loom::sync::Arc::new(Published::new(Tracked::new(0)));
        let mut r = d.register().unwrap();
        let reader = thread::spawn({
            let p = p.clone();
            move || {
                for _ in 0..2 {
                    r.online();
                    assert!(p.load(&r).get() <= 1);
                    r.offline();
                }
            }
        });
        p.publish(&d, Tracked::new(1));
        d.reclaim();
        reader.join().unwrap();
        d.reclaim();
        assert_eq!(d.pending(), 0);
    });
}

#[test]
fn a_freed_index_is_not_reused_under_a_reader() {
    loom::model(|| {
        let d = Domain::new();
        let slab = loom::sync::Arc::new(Slab::with_limit(&d, 2));
        let root = loom::sync::Arc::new(Published::new(slab.insert(Tracked::new(0)).unwrap()));
        let mut r = d.register().unwrap();
        let reader = thread::spawn({
            let (slab, root) = (slab.clone(), root.clone());
            move || {
                r.online();
                let idx = *root.load(&r);
                if let Some(v) = slab.get(idx, &r) {
                    assert_eq!(v.get(), idx, "index {idx} means another value");
                }
            }
        });
        let one = slab.insert(Tracked::new(1)).unwrap();
        root.publish(&d, one);
        slab.remove(0).unwrap();
        d.reclaim();
        // Reused only when the reader cannot have the old index any more.
        if let Ok(idx) = slab.insert(Tracked::new(7)) {
            assert_eq!(idx, 0);
        }
        reader.join().unwrap();
    });
}
