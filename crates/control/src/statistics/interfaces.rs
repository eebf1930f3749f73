//! `/if/*`: the counters of interfaces, and `/interfaces/NAME/*`, the same by name.
//!
//! All rows have the same length, that of `/if/names`: clients index one by the length of another. Casts are
//! counted in packets only; `ip4`, `ip6` and `mpls` are not counted by interface and stay 0.

use std::collections::BTreeMap;

use parshall_counters::{IfCounters, IfTotals};
use parshall_stats_segment::{Counters, Names, Segment};

use super::{Made, Shape, Sources, path_part};

/// Packets and bytes of a counter.
type Both = fn(&IfTotals) -> [u64; 2];
/// One number.
type One = fn(&IfTotals) -> u64;

const COMBINED: &[(&str, Both)] = &[
    ("rx", |t| [t.rx_packets, t.rx_bytes]),
    ("rx-unicast", |t| {
        [rest(t.rx_packets, t.rx_multicast + t.rx_broadcast), 0]
    }),
    ("rx-multicast", |t| [t.rx_multicast, 0]),
    ("rx-broadcast", |t| [t.rx_broadcast, 0]),
    ("tx", |t| [t.tx_packets, t.tx_bytes]),
    ("tx-unicast", |t| {
        [rest(t.tx_packets, t.tx_multicast + t.tx_broadcast), 0]
    }),
    ("tx-multicast", |t| [t.tx_multicast, 0]),
    ("tx-broadcast", |t| [t.tx_broadcast, 0]),
];

const SIMPLE: &[(&str, One)] = &[
    ("drops", |t| t.rx_drops),
    ("punt", |t| t.punts),
    ("ip4", |_| 0),
    ("ip6", |_| 0),
    ("rx-no-buf", |t| t.rx_no_buffer),
    ("rx-miss", |t| t.rx_missed),
    ("rx-error", |t| t.rx_errors),
    ("tx-error", |t| t.tx_errors + t.tx_drops),
    ("mpls", |_| 0),
];

/// What is left of `all`. The parts are read after the whole, so they may be ahead of it.
fn rest(all: u64, parts: u64) -> u64 {
    all.saturating_sub(parts)
}

/// What an interface had counted when it was made or last cleared, by worker.
struct Base {
    incarnation: u64,
    cleared: IfTotals,
    workers: Vec<IfTotals>,
}

/// The rows and whose they are.
pub(super) struct IfRows {
    names: Names,
    combined: Vec<Counters>,
    simple: Vec<Counters>,
    /// Names when last looked, by number.
    seen: Vec<String>,
    /// Those of them that there was room for.
    shown: Vec<String>,
    bases: BTreeMap<u32, Base>,
}

impl IfRows {
    pub fn new(c: Shape<'_, '_>, from: &Sources<'_>) -> Made<IfRows> {
        let threads = from.workers.len() + 1;
        let names = c.names("/if/names")?;
        let mut rows = |name: &str, both| c.counters(&format!("/if/{name}"), (both, threads), 1);
        let combined = COMBINED.iter().map(|(n, _)| rows(n, true));
        let combined = combined.collect::<Made<_>>()?;
        let simple = SIMPLE.iter().map(|(n, _)| rows(n, false));
        Ok(IfRows {
            names,
            combined,
            simple: simple.collect::<Made<_>>()?,
            seen: Vec::new(),
            shown: Vec::new(),
            bases: BTreeMap::new(),
        })
    }

    /// Says whether there are other interfaces than the segment has.
    pub fn look(&mut self, from: &Sources<'_>) -> bool {
        let mut names: Vec<String> = Vec::with_capacity(self.seen.len());
        for i in from.interfaces.iter() {
            // A number that nobody has is shown as VPP shows it.
            names.resize(i.index as usize, "deleted".to_owned());
            names.push(i.name.clone());
        }
        let other = names != self.seen;
        self.seen = names;
        other
    }

    /// Gives all rows as many columns as there are interfaces.
    pub fn reshape(&mut self, c: Shape<'_, '_>) -> Made<()> {
        let columns = self.seen.len();
        self.shown.clone_from(&self.seen);
        // All or none: rows of different lengths would mislead readers.
        let before = self.simple.first().map_or(0, Counters::columns);
        let mut done = Ok(());
        for rows in self.combined.iter_mut().chain(&mut self.simple) {
            done = done.and_then(|()| c.resize(rows, columns));
        }
        if done.is_err() {
            for rows in self.combined.iter_mut().chain(&mut self.simple) {
                let _ = c.resize(rows, before);
            }
            self.shown.truncate(before);
        }
        let names = self.shown.iter().map(String::as_str);
        done.and(c.set_names(&mut self.names, names))
    }

    /// Names each interface's columns.
    pub fn name(&self, c: Shape<'_, '_>) -> Made<()> {
        for (column, name) in self.shown.iter().enumerate() {
            if name == "deleted" {
                continue;
            }
            let path = |counter: &str| format!("/interfaces/{}/{counter}", path_part(name));
            for ((counter, _), rows) in COMBINED.iter().zip(&self.combined) {
                c.symlink(&path(counter), rows, column)?;
            }
            for ((counter, _), rows) in SIMPLE.iter().zip(&self.simple) {
                c.symlink(&path(counter), rows, column)?;
            }
        }
        Ok(())
    }

    /// Copies what workers have counted.
    pub fn copy(&mut self, to: &Segment, from: &Sources<'_>) {
        let mut column = 0;
        for i in from.interfaces.iter() {
            // The number may have been another's, and counters may have been cleared.
            let known = self.bases.get(&i.index);
            let same = |b: &&Base| b.incarnation == i.incarnation && b.cleared == i.cleared;
            if known.filter(same).is_none() {
                let workers = base(from, i.index, &i.cleared);
                let (incarnation, cleared) = (i.incarnation, i.cleared);
                let base = Base {
                    incarnation,
                    cleared,
                    workers,
                };
                self.bases.insert(i.index, base);
            }
            let Some(base) = self.bases.get(&i.index) else {
                continue;
            };
            // What is gone is shown as 0 until somebody has its number.
            (column..i.index as usize).for_each(|gone| self.blank(to, gone, from.workers.len()));
            column = i.index as usize + 1;
            for (worker, now) in totals(from, i.index).enumerate() {
                let before = base.workers.get(worker).copied().unwrap_or_default();
                self.put(to, worker + 1, i.index as usize, &i.counted(&now, &before));
            }
        }
    }

    fn blank(&self, to: &Segment, column: usize, workers: usize) {
        for thread in 1..=workers {
            self.put(to, thread, column, &IfTotals::default());
        }
    }

    fn put(&self, to: &Segment, thread: usize, column: usize, totals: &IfTotals) {
        for ((_, value), rows) in COMBINED.iter().zip(&self.combined) {
            to.count_both(rows, thread, column, value(totals));
        }
        for ((_, value), rows) in SIMPLE.iter().zip(&self.simple) {
            to.count(rows, thread, column, value(totals));
        }
    }
}

/// An interface's counters in each worker.
fn totals(from: &Sources<'_>, index: u32) -> impl Iterator<Item = IfTotals> {
    from.workers.iter().map(move |w| {
        let mut totals = IfTotals::default();
        let counters: Option<&IfCounters> = w.interface(index);
        counters.inspect(|c| c.add_to(&mut totals));
        totals
    })
}

/// What each worker had counted when all of them together had counted `cleared`. What came since is the first
/// worker's: who counted it is not known, and the sum is what has to be right.
fn base(from: &Sources<'_>, index: u32, cleared: &IfTotals) -> Vec<IfTotals> {
    if *cleared == IfTotals::default() {
        return vec![IfTotals::default(); from.workers.len()];
    }
    let mut workers: Vec<IfTotals> = totals(from, index).collect();
    let mut sum = IfTotals::default();
    for c in from.workers.iter().filter_map(|w| w.interface(index)) {
        c.add_to(&mut sum);
    }
    let since = sum.since(cleared);
    if let Some(first) = workers.first_mut() {
        *first = first.since(&since);
    }
    workers
}
