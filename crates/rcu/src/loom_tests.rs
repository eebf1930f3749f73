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

/// What is staged is seen as a whole once a reader has changed sides, and what was before is not freed under it.
#[test]
fn readers_change_sides_for_all_values_at_once() {
    use loom::sync::atomic::{AtomicUsize, Ordering};
    loom::model(|| {
        let d = Domain::new();
        let both = loom::sync::Arc::new((
            Published::new(Tracked::new(0)),
            Published::new(Tracked::new(0)),
        ));
        // 0 = nothing was told; else the side and one.
        let told = loom::sync::Arc::new(AtomicUsize::new(0));
        let mut r = d.register().unwrap();
        r.online();
        let reader = thread::spawn({
            let (both, told) = (both.clone(), told.clone());
            move || {
                for _ in 0..2 {
                    let heard = told.load(Ordering::Acquire);
                    if heard != 0 {
                        r.change_sides(heard - 1);
                    }
                    r.quiescent();
                    let seen = (both.0.load(&r).get(), both.1.load(&r).get());
                    let want = if heard == 0 { 0 } else { 1 };
                    assert_eq!(seen, (want, want));
                }
                // As a worker says that it has heard: what it looked at before is over.
                told.store(9, Ordering::Release);
                r.offline();
            }
        });
        both.0.stage(&d, Tracked::new(1));
        both.1.stage(&d, Tracked::new(1));
        let side = d.change_sides();
        let heard = told.swap(side + 1, Ordering::AcqRel);
        d.reclaim();
        reader.join().unwrap();
        assert!(heard == 0 || heard == 9);
        both.0.even(&d);
        both.1.even(&d);
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

/// A table in the manner of `crates/fib`: a root word that is an answer or leads to a node, nodes in blocks
/// that are filled, published by one store, unlinked by another, and used again after a grace period.
struct TinyTable {
    root: loom::sync::atomic::AtomicU32,
    /// Two answers each. Filled while nobody sees the block: loom reports a reader that still looks.
    blocks: [UnsafeCell<[u32; 2]>; 2],
}

// SAFETY: a block is written only while no reader can reach it, which is what the model checks.
unsafe impl Sync for TinyTable {}

/// Root words from here on lead to a block.
const NODE: u32 = 100;

impl TinyTable {
    fn lookup(&self, slot: usize) -> u32 {
        match self.root.load(loom::sync::atomic::Ordering::Acquire) {
            // SAFETY: the block was filled before it was published, and is not filled again while a
            // reader that saw it is online.
            word if word >= NODE => {
                self.blocks[(word - NODE) as usize].with(|b| unsafe { (*b)[slot] })
            }
            answer => answer,
        }
    }

    fn fill(&self, block: usize, answers: [u32; 2]) {
        // SAFETY: never published, or unlinked and past its grace period.
        self.blocks[block].with_mut(|b| unsafe { *b = answers });
    }

    fn store(&self, word: u32) {
        self.root.store(word, loom::sync::atomic::Ordering::Release);
    }
}

#[test]
fn a_lookup_during_changes_answers_the_old_or_the_new() {
    loom::model(|| {
        let d = Domain::new();
        let table = loom::sync::Arc::new(TinyTable {
            root: loom::sync::atomic::AtomicU32::new(1),
            blocks: [UnsafeCell::new([99; 2]), UnsafeCell::new([99; 2])],
        });
        let mut r = d.register().unwrap();
        let reader = thread::spawn({
            let table = table.clone();
            move || {
                r.online();
                // Answers of slot 0 in order of time: 1, 2, 3.
                let first = table.lookup(0);
                let second = table.lookup(0);
                assert!((1..=3).contains(&first) && (first..=3).contains(&second));
                r.quiescent();
                assert!((second..=3).contains(&table.lookup(0)));
            }
        });
        // A more-specific comes: the leaf is split into a node.
        table.fill(0, [2, 1]);
        table.store(NODE);
        // It goes, and its object is everywhere: the node is compressed into a leaf.
        table.store(2);
        let unlinked = d.stamp();
        d.reclaim();
        // Split again, in the same block if no reader can see it any more.
        let block = usize::from(!d.elapsed(unlinked));
        table.fill(block, [3, 2]);
        table.store(NODE + block as u32);
        reader.join().unwrap();
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
                let v = slab.get(idx, &r).expect("gone while the root led there");
                assert_eq!(v.get(), idx, "index {idx} means another value");
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
