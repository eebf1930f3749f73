//! Lookups while a table changes: every answer is one that the table gave at some moment of the
//! lookup, the old one or the new one, never a third.
//!
//! A script of changes is worked out beforehand, with the answer that a linear scan gives for every
//! probed address after every change. One thread carries the script out again and again and counts the
//! changes that are done; readers note that count before and after a lookup, which bounds the moments
//! that its answer may come from. The script's prefixes nest and touch, its objects are few, so that
//! nodes are made, split, merged, compressed into a leaf, replaced and given back all the time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

use parshall_fib::{
    Addr, Dpo, DpoKind, FibError, Ip4Prefix, Ip4Tables, Ip6Prefix, Ip6Tables, IpTables, MplsFib,
    Prefix,
};
use parshall_rcu::{Domain, Reader};

/// Changes of a script, before those that bring it back to where it began.
const CHANGES: usize = if cfg!(miri) { 24 } else { 600 };
/// Addresses that readers look up.
const PROBES: usize = if cfg!(miri) { 12 } else { 128 };
/// Lookups that every reader is to have done before a test ends, and rounds of the script.
const LOOKUPS: usize = if cfg!(miri) { 200 } else { 400_000 };
const ROUNDS: usize = if cfg!(miri) { 1 } else { 20 };

/// Seeded numbers (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }
    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}

fn adj(n: u64) -> Dpo {
    Dpo::new(DpoKind::Adjacency, n as u32)
}

/// One change: a key and its new object, a miss to take it out.
type Change<K> = (K, Dpo);

/// Changes that begin and end with an empty table: keys come from `key`, every third change takes one out.
fn script<K: Ord + Copy>(seed: u64, mut key: impl FnMut(&mut Random) -> K) -> Vec<Change<K>> {
    let mut r = Random(seed);
    let (mut out, mut live) = (Vec::new(), BTreeMap::new());
    for _ in 0..CHANGES {
        let change = if r.below(3) == 0 && !live.is_empty() {
            let keys: Vec<K> = live.keys().copied().collect();
            (r.pick(&keys), Dpo::MISS)
        } else {
            // Few objects: neighbours are often equal, and nodes melt away.
            (key(&mut r), adj(1 + r.below(3)))
        };
        match change {
            (k, d) if d.is_miss() => drop(live.remove(&k)),
            (k, d) => drop(live.insert(k, d)),
        }
        out.push(change);
    }
    let mut left: Vec<K> = live.into_keys().collect();
    while !left.is_empty() {
        let i = r.below(left.len() as u64) as usize;
        out.push((left.swap_remove(i), Dpo::MISS));
    }
    out
}

/// What every probe answers after each number of changes of a script that repeats.
struct Truth {
    /// By step, then by probe; a miss where only the default route matches.
    answers: Vec<Vec<Dpo>>,
    /// The default route by step.
    defaults: Vec<Dpo>,
}

impl Truth {
    fn of<A: Addr>(script: &[Change<Prefix<A>>], probes: &[A]) -> Truth {
        let mut model: BTreeMap<Prefix<A>, Dpo> = BTreeMap::new();
        let mut truth = Truth {
            answers: Vec::new(),
            defaults: Vec::new(),
        };
        for (prefix, dpo) in script {
            let scan = |addr: &A| {
                let hits = model
                    .iter()
                    .filter(|(p, _)| p.len() > 0 && p.contains(*addr));
                hits.max_by_key(|(p, _)| p.len())
                    .map_or(Dpo::MISS, |(_, d)| *d)
            };
            truth.answers.push(probes.iter().map(scan).collect());
            let default = model.get(&Prefix::masked(A::default(), 0));
            truth.defaults.push(default.copied().unwrap_or_default());
            match dpo.is_miss() {
                true => drop(model.remove(prefix)),
                false => drop(model.insert(*prefix, *dpo)),
            }
        }
        truth
    }

    /// Whether `dpo` may be the answer of a lookup that began when `from` changes were done and ended
    /// when `to` were: the next one may have been under way. The default route stands beside the tree,
    /// so a lookup that overlaps changes of both may put "nothing longer" of one moment and the default
    /// of another together.
    fn allows(&self, probe: usize, dpo: Dpo, from: usize, to: usize) -> bool {
        let n = self.answers.len();
        let steps = || (from..=to + 1).take(n).map(|s| s % n);
        let tree = |s: usize| self.answers[s][probe];
        steps().any(|s| !tree(s).is_miss() && tree(s) == dpo)
            || steps().any(|s| tree(s).is_miss()) && steps().any(|s| self.defaults[s] == dpo)
    }
}

/// Shared between the thread that changes and those that read.
#[derive(Default)]
struct Progress {
    /// Changes that are done.
    done: AtomicUsize,
    stop: AtomicBool,
    /// Lookups by reader.
    lookups: [AtomicUsize; 2],
}

impl Progress {
    fn all_have_read_enough(&self) -> bool {
        self.lookups.iter().all(|n| n.load(SeqCst) >= LOOKUPS)
    }

    /// Looks up with `look` until told to stop; `look` gets the answers of all probes.
    fn read(
        &self,
        me: usize,
        mut r: Reader,
        truth: &Truth,
        mut look: impl FnMut(&Reader, &mut [Dpo]),
    ) {
        let mut answers = vec![Dpo::MISS; PROBES];
        r.online();
        while !self.stop.load(SeqCst) {
            let from = self.done.load(SeqCst);
            look(&r, &mut answers);
            let to = self.done.load(SeqCst);
            for (probe, dpo) in answers.iter().enumerate() {
                assert!(
                    truth.allows(probe, *dpo, from, to),
                    "probe {probe} answered {dpo:?} between changes {from} and {to}"
                );
            }
            self.lookups[me].fetch_add(PROBES, SeqCst);
            r.quiescent();
        }
    }

    /// Carries the script out in rounds until everybody has read enough. Panics of readers end it.
    fn change<K: Copy>(&self, script: &[Change<K>], mut apply: impl FnMut(usize, K, Dpo)) {
        let stop = StopOnDrop(&self.stop);
        let mut rounds = 0;
        while rounds < ROUNDS || !self.all_have_read_enough() {
            if stop.0.load(SeqCst) {
                return;
            }
            for (i, (key, dpo)) in script.iter().enumerate() {
                apply(i, *key, *dpo);
                self.done.fetch_add(1, SeqCst);
                if i % 32 == 0 {
                    std::thread::yield_now();
                }
            }
            rounds += 1;
        }
    }
}

/// Ends the other threads when its own ends, by a failed assertion too.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

type NewTables<A> = fn(&Arc<Domain>, u32, usize) -> Result<IpTables<A>, FibError>;

/// Runs a script on a table under two readers, one of which looks up in batches and in views.
fn stress<A: Addr>(new: NewTables<A>, wide: bool, script: &[Change<Prefix<A>>], probes: &[A]) {
    let truth = Truth::of(script, probes);
    let domain = Domain::new();
    let tables = new(&domain, 4, 1 << if cfg!(miri) { 16 } else { 24 }).unwrap();
    let index = tables.create().unwrap();
    let table = tables.control(index).unwrap();
    if wide {
        table.widen();
    }
    let progress = Progress::default();
    let readers = [domain.register().unwrap(), domain.register().unwrap()];
    std::thread::scope(|s| {
        let (tables, truth, progress) = (&tables, &truth, &progress);
        let [one, many] = readers;
        s.spawn(move || {
            let _stop = StopOnDrop(&progress.stop);
            progress.read(0, one, truth, |r, out| {
                let table = tables.get(r, index);
                for (out, addr) in out.iter_mut().zip(probes) {
                    *out = table.lookup(r, *addr);
                }
            });
        });
        s.spawn(move || {
            let _stop = StopOnDrop(&progress.stop);
            progress.read(1, many, truth, |r, out| {
                tables.get(r, index).view(r).lookup_batch(probes, out);
            });
        });
        progress.change(script, |i, prefix, dpo| {
            match dpo.is_miss() {
                true => table.remove(prefix).unwrap(),
                false => table.insert(prefix, dpo).unwrap(),
            };
            if i % 8 == 0 {
                // Blocks come back and are used again under the readers.
                tables.reclaim();
            }
        });
    });
    assert!(table.is_empty(), "the script ends with an empty table");
    assert!(progress.all_have_read_enough());
}

/// First, last, and neighbouring addresses of the script's prefixes, spread evenly.
fn probes<A: Addr>(
    script: &[Change<Prefix<A>>],
    ends: impl Fn(&Prefix<A>, &mut Random) -> A,
) -> Vec<A> {
    let mut r = Random(7);
    (0..PROBES)
        .map(|i| ends(&script[i * script.len() / PROBES].0, &mut r))
        .collect()
}

fn ip4_script(seed: u64) -> (Vec<Change<Ip4Prefix>>, Vec<u32>) {
    let lengths = [0, 1, 8, 9, 15, 16, 17, 20, 22, 23, 24, 25, 26, 30, 31, 32];
    let script = script(seed, |r| {
        // Three clusters of 64 Ki addresses, so that prefixes nest.
        let base = r.pick(&[0x0A00_0000, 0x0A01_0000, 0xC0A8_0000]);
        let low = r.pick(&[0, 1, 0x7F, 0x80, 0xFF, 0x100, 0x1FF, 0xFF00, 0xFFFF]);
        Prefix::masked(base | low, r.pick(&lengths))
    });
    let probes = probes(&script, |p, r| {
        let host = u32::MAX.checked_shr(p.len().into()).unwrap_or(0);
        match r.below(4) {
            0 => p.addr(),
            1 => p.addr() | host,
            2 => (p.addr() | host).wrapping_add(1),
            _ => p.addr() | r.next() as u32 & host,
        }
    });
    (script, probes)
}

fn ip6_script(seed: u64) -> (Vec<Change<Ip6Prefix>>, Vec<u128>) {
    let lengths = [
        0, 3, 16, 29, 32, 33, 40, 44, 47, 48, 49, 56, 63, 64, 65, 96, 127, 128,
    ];
    let script = script(seed, |r| {
        let base = r.pick(&[0x2001_0db8u128 << 96, 0x2a00_1450 << 96, 0xfd00 << 112]);
        let site = u128::from(r.pick(&[0u16, 1, 0x7F, 0x80, 0xFF, 0xFFFF])) << 80;
        let host = u128::from(r.pick(&[0u64, 1, u64::MAX]));
        Prefix::masked(base | site | host, r.pick(&lengths))
    });
    let probes = probes(&script, |p, r| {
        let host = u128::MAX.checked_shr(p.len().into()).unwrap_or(0);
        match r.below(4) {
            0 => p.addr(),
            1 => p.addr() | host,
            2 => (p.addr() | host).wrapping_add(1),
            _ => p.addr() | u128::from(r.next()) << 32 & host,
        }
    });
    (script, probes)
}

#[test]
fn ip4_lookups_answer_the_old_or_the_new() {
    let (script, probes) = ip4_script(1);
    stress(Ip4Tables::new, false, &script, &probes);
}

#[test]
fn ip4_lookups_through_a_wide_root_answer_the_old_or_the_new() {
    let (script, probes) = ip4_script(2);
    stress(Ip4Tables::new, true, &script, &probes);
}

#[test]
fn ip6_lookups_answer_the_old_or_the_new() {
    let (script, probes) = ip6_script(3);
    stress(Ip6Tables::new, false, &script, &probes);
}

#[test]
fn ip6_lookups_through_a_wide_root_answer_the_old_or_the_new() {
    let (script, probes) = ip6_script(4);
    stress(Ip6Tables::new, true, &script, &probes);
}

#[test]
fn labels_answer_the_old_or_the_new() {
    // Three chunks, few labels in each: chunks come and go.
    let script = script(5, |r| {
        let label = r.pick(&[16u32, 17, 1023, 1024, 1030, 700_000]);
        (label, r.below(2) == 0)
    });
    let keys: Vec<(u32, bool)> = (0..PROBES).map(|i| script[i % script.len()].0).collect();
    let mut truth = Truth {
        answers: Vec::new(),
        defaults: vec![Dpo::MISS; script.len()],
    };
    let mut model = BTreeMap::new();
    for (key, dpo) in &script {
        let get = |k: &(u32, bool)| model.get(k).copied().unwrap_or_default();
        truth.answers.push(keys.iter().map(get).collect());
        model.insert(*key, *dpo);
    }
    let domain = Domain::new();
    let fib = MplsFib::new(&domain);
    let progress = Progress::default();
    let readers = [domain.register().unwrap(), domain.register().unwrap()];
    std::thread::scope(|s| {
        let (fib, truth, progress, keys) = (&fib, &truth, &progress, &keys);
        for (me, reader) in readers.into_iter().enumerate() {
            s.spawn(move || {
                let _stop = StopOnDrop(&progress.stop);
                progress.read(me, reader, truth, |r, out| {
                    for (out, (label, eos)) in out.iter_mut().zip(keys) {
                        *out = fib.lookup(r, *label, *eos);
                    }
                });
            });
        }
        progress.change(&script, |_, (label, eos), dpo| {
            fib.set(label, eos, dpo).unwrap();
            domain.reclaim();
        });
    });
    assert!(fib.is_empty());
}

/// The root widens twice on the way, and never narrows: routes once there are never missed.
#[test]
fn a_growing_table_loses_no_route() {
    let routes: u32 = if cfg!(miri) { 40 } else { 10_000 };
    let prefix = |i: u32| Ip4Prefix::masked(i.wrapping_mul(0x9E37_79B1), 32);
    let domain = Domain::new();
    let tables = Ip4Tables::new(&domain, 1, 1 << if cfg!(miri) { 16 } else { 24 }).unwrap();
    let index = tables.create().unwrap();
    let table = tables.control(index).unwrap();
    let (done, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let mut reader = domain.register().unwrap();
    std::thread::scope(|s| {
        let (tables, done, stop) = (&tables, &done, &stop);
        s.spawn(move || {
            let _stop = StopOnDrop(stop);
            let mut r = Random(9);
            reader.online();
            loop {
                let last = stop.load(SeqCst);
                let n = done.load(SeqCst) as u64;
                let some: Vec<u32> = (0..32.min(n)).map(|_| r.below(n) as u32).collect();
                let addrs: Vec<u32> = some.iter().map(|i| prefix(*i).addr()).collect();
                let mut out = vec![Dpo::MISS; some.len()];
                let view = tables.get(&reader, index).view(&reader);
                view.lookup_batch(&addrs, &mut out);
                for (i, dpo) in some.iter().zip(out) {
                    assert_eq!(dpo, adj(u64::from(*i)), "of {n} routes");
                }
                reader.quiescent();
                if last {
                    return;
                }
            }
        });
        let stop = StopOnDrop(stop);
        for i in 0..routes {
            table.insert(prefix(i), adj(u64::from(i))).unwrap();
            done.fetch_add(1, SeqCst);
            if stop.0.load(SeqCst) {
                return;
            }
        }
    });
    assert_eq!(table.len(), routes as usize);
}
