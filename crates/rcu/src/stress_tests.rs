//! Many threads at once: values are whole whenever they are seen, and all are dropped.

use crate::{Domain, Published, Slab};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

/// How often: Miri takes a thousand times as long for each.
fn rounds(n: u64) -> u64 {
    if cfg!(miri) { n / 200 } else { n }
}

/// A value that can tell when it is read after its end.
struct Value {
    words: [u64; 8],
    live: Arc<AtomicUsize>,
}

impl Value {
    fn new(n: u64, live: &Arc<AtomicUsize>) -> Self {
        live.fetch_add(1, SeqCst);
        Value {
            words: [n; 8],
            live: Arc::clone(live),
        }
    }

    fn check(&self) -> u64 {
        assert!(
            self.words.iter().all(|w| *w == self.words[0]),
            "torn or freed: {:?}",
            self.words
        );
        self.words[0]
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        for (i, w) in self.words.iter_mut().enumerate() {
            // Volatile, or the optimiser drops the stores to a dying value.
            let p: *mut u64 = w;
            // SAFETY: `p` is a valid, exclusive reference.
            unsafe { p.write_volatile(u64::MAX - i as u64) };
        }
        self.live.fetch_sub(1, SeqCst);
    }
}

#[test]
fn published_values_are_never_seen_after_their_end() {
    let live = Arc::new(AtomicUsize::new(0));
    let d = Domain::new();
    let p = Published::new(Value::new(0, &live));
    let stop = AtomicBool::new(false);
    std::thread::scope(|s| {
        for t in 0..3 {
            let (mut r, p, stop) = (d.register().unwrap(), &p, &stop);
            s.spawn(move || {
                let mut last = 0;
                r.online();
                for i in 0u64.. {
                    let v = p.load(&r);
                    let n = v.check();
                    assert!(n >= last, "went back in time");
                    last = n;
                    assert_eq!(v.check(), n);
                    r.quiescent();
                    if i % 64 == t {
                        r.offline();
                        std::thread::yield_now();
                        if stop.load(SeqCst) {
                            break;
                        }
                        r.online();
                    }
                }
            });
        }
        for n in 1..=rounds(30_000) {
            p.publish(&d, Value::new(n, &live));
            if n % 16 == 0 {
                d.reclaim();
            }
        }
        stop.store(true, SeqCst);
    });
    d.reclaim();
    assert_eq!(d.pending(), 0);
    assert_eq!(live.load(SeqCst), 1);
    drop(p);
    assert_eq!(live.load(SeqCst), 0);
}

#[test]
fn slab_indices_never_change_their_meaning_under_a_reader() {
    let live = Arc::new(AtomicUsize::new(0));
    let d = Domain::new();
    let slab = Slab::with_limit(&d, 64);
    // The index that readers follow, and the value they expect there.
    let root = Published::new((slab.insert(Value::new(0, &live)).unwrap(), 0));
    let stop = AtomicBool::new(false);
    std::thread::scope(|s| {
        for _ in 0..2 {
            let (mut r, root, slab, stop) = (d.register().unwrap(), &root, &slab, &stop);
            s.spawn(move || {
                r.online();
                while !stop.load(SeqCst) {
                    let (idx, n) = *root.load(&r);
                    std::hint::spin_loop();
                    // Neither gone nor another: the root led there a moment ago.
                    assert_eq!(slab.get(idx, &r).unwrap().check(), n);
                    r.quiescent();
                }
            });
        }
        let mut old = 0;
        for n in 1..=rounds(20_000) {
            let idx = loop {
                match slab.insert(Value::new(n, &live)) {
                    Ok(idx) => break idx,
                    Err(_) => {
                        d.reclaim();
                        std::thread::yield_now();
                    }
                }
            };
            root.publish(&d, (idx, n));
            slab.remove(std::mem::replace(&mut old, idx)).unwrap();
            d.reclaim();
        }
        stop.store(true, SeqCst);
    });
    d.reclaim();
    slab.sweep();
    d.reclaim();
    assert_eq!(d.pending(), 0);
    assert_eq!(live.load(SeqCst), 1);
    drop(slab);
    assert_eq!(live.load(SeqCst), 0);
}
