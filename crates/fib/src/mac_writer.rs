//! Control's side of the MAC table: the only writer of entries, and the clock that ages them.
//!
//! When an entry was seen last is not in the table but here, a number of seconds each, since only control asks. It is
//! as exact as the sweep is frequent.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::mac::{MacEntry, MacKey, MacSpot, MacTable, WAYS, entry_of, is_home};

/// An entry, for people and for aging.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MacRecord {
    /// Address and domain.
    pub key: MacKey,
    /// Interface and flags.
    pub entry: MacEntry,
    /// When it was last known to be in use, in the seconds that the writer is told.
    pub seen: u32,
}

/// The table is full: the lines that the key may lie in are, or as many entries as it is meant for are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MacFull;

impl std::fmt::Display for MacFull {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the MAC table is full")
    }
}
impl std::error::Error for MacFull {}

/// The one writer of a [`MacTable`].
pub struct MacWriter {
    table: Arc<MacTable>,
    /// By word of the table.
    seen: Vec<u32>,
    count: usize,
    /// Line that the next sweep begins at.
    next: u32,
}

impl MacWriter {
    /// The writer of `table`, of which there is to be one. (A second one would do no harm to memory, but would lose
    /// entries.)
    pub fn new(table: Arc<MacTable>) -> MacWriter {
        MacWriter {
            seen: vec![0; table.lines() * WAYS],
            table,
            count: 0,
            next: 0,
        }
    }

    /// The table.
    pub fn table(&self) -> &Arc<MacTable> {
        &self.table
    }
    /// Entries there are.
    pub fn len(&self) -> usize {
        self.count
    }
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
    /// Lines there are, for [`sweep`](Self::sweep).
    pub fn lines(&self) -> usize {
        self.table.lines()
    }

    /// Where the entry of a key lies.
    fn place(&self, key: MacKey) -> Option<(MacSpot, usize)> {
        let home = self.table.spot(key);
        let both = [home, self.table.other(home)];
        both.into_iter()
            .find_map(|spot| Some((spot, self.table.way_of(spot)?)))
    }

    /// The entry of a key.
    pub fn get(&self, key: MacKey) -> Option<MacRecord> {
        let (spot, way) = self.place(key)?;
        Some(self.record(spot.line(), way))
    }

    fn record(&self, line: u32, way: usize) -> MacRecord {
        let word = self.table.line(line).word(way);
        MacRecord {
            key: self.table.key_of(line, word),
            entry: entry_of(word),
            seen: self.seen[line as usize * WAYS + way],
        }
    }

    /// Puts an entry in, or in the place of the key's old one. Says what was there.
    ///
    /// # Errors
    /// When there is no room; then nothing is changed.
    pub fn set(
        &mut self,
        key: MacKey,
        entry: MacEntry,
        now: u32,
    ) -> Result<Option<MacEntry>, MacFull> {
        if let Some((spot, way)) = self.place(key) {
            let was = self.table.line(spot.line()).swap(way, spot.word(entry));
            self.seen[spot.line() as usize * WAYS + way] = now;
            return Ok(Some(entry_of(was)));
        }
        if self.count >= self.table.capacity() {
            return Err(MacFull);
        }
        let home = self.table.spot(key);
        let both = [home, self.table.other(home)];
        let free = both
            .into_iter()
            .find_map(|spot| Some((spot, self.table.free_way(spot.line())?)));
        let free = free.or_else(|| Some((home, self.make_room(home.line())?)));
        let (spot, way) = free.ok_or(MacFull)?;
        self.put((spot, way), entry, now);
        Ok(None)
    }

    /// Writes an entry into a free way.
    fn put(&mut self, (spot, way): (MacSpot, usize), entry: MacEntry, now: u32) {
        if !spot.is_home() {
            // Before the entry is there: who does not find it at home is to look.
            self.table.spilled.fetch_add(1, Ordering::Relaxed);
        }
        self.seen[spot.line() as usize * WAYS + way] = now;
        self.table.line(spot.line()).swap(way, spot.word(entry));
        self.count += 1;
    }

    /// Moves an entry of a full line to its other line and says which way is free now. A reader between the two may
    /// find both or, for a packet, neither.
    fn make_room(&mut self, line: u32) -> Option<usize> {
        let movable = (0..WAYS).find_map(|way| {
            let spot = MacTable::spot_of(line, self.table.line(line).word(way));
            let to = self.table.other(spot);
            Some((way, to, self.table.free_way(to.line())?))
        });
        let (way, to, free) = movable?;
        let at = line as usize * WAYS + way;
        let (entry, seen) = (entry_of(self.table.line(line).word(way)), self.seen[at]);
        self.put((to, free), entry, seen);
        self.take_out(line, way);
        Some(way)
    }

    /// Takes an entry out. Says what it was.
    pub fn remove(&mut self, key: MacKey) -> Option<MacRecord> {
        let (spot, way) = self.place(key)?;
        let record = self.record(spot.line(), way);
        self.take_out(spot.line(), way);
        Some(record)
    }

    fn take_out(&mut self, line: u32, way: usize) {
        let word = self.table.line(line).swap(way, 0);
        if word != 0 {
            self.count -= 1;
            if !is_home(word) {
                self.table.spilled.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// All entries, in no order.
    pub fn iter(&self) -> impl Iterator<Item = MacRecord> + '_ {
        let lines = 0..self.table.lines() as u32;
        let all = lines.flat_map(|line| (0..WAYS).map(move |way| (line, way)));
        all.filter(|&(line, way)| self.table.line(line).word(way) != 0)
            .map(|(line, way)| self.record(line, way))
    }

    /// Takes out every entry that `keep` says no to, and shows it to `gone`.
    pub fn retain(
        &mut self,
        mut keep: impl FnMut(&MacRecord) -> bool,
        mut gone: impl FnMut(MacRecord),
    ) {
        for line in 0..self.table.lines() as u32 {
            for way in 0..WAYS {
                if self.table.line(line).word(way) == 0 {
                    continue;
                }
                let record = self.record(line, way);
                if !keep(&record) {
                    self.take_out(line, way);
                    gone(record);
                }
            }
        }
    }

    /// Looks through the next `lines` lines: notes which learned entries were in use, and takes out those that were not
    /// for longer than `age` says, in seconds, of their domain (`None` = for ever). Those are shown to `gone`.
    pub fn sweep(
        &mut self,
        lines: usize,
        now: u32,
        age: impl Fn(u16) -> Option<u32>,
        mut gone: impl FnMut(MacRecord),
    ) {
        let all = self.table.lines();
        for _ in 0..lines.min(all) {
            let line = self.next;
            self.next = (line + 1) % all as u32;
            for way in 0..WAYS {
                let word = self.table.line(line).word(way);
                if word == 0 || !entry_of(word).is_learned() {
                    continue;
                }
                let seen = &mut self.seen[line as usize * WAYS + way];
                if entry_of(word).has(MacEntry::SEEN) {
                    *seen = now;
                    self.table.line(line).clear(way, u64::from(MacEntry::SEEN));
                    continue;
                }
                let idle = now.saturating_sub(*seen);
                let key = self.table.key_of(line, word);
                if age(key.domain()).is_some_and(|most| idle >= most) {
                    let record = self.record(line, way);
                    self.take_out(line, way);
                    gone(record);
                }
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn writer() -> MacWriter {
        MacWriter::new(Arc::new(MacTable::new(1, 3)))
    }

    fn find(w: &MacWriter, key: MacKey) -> MacEntry {
        let (t, spot) = (w.table(), w.table().spot(key));
        let found = t.find(spot);
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            if is_x86_feature_detected!("avx2") {
                // SAFETY: asked just now.
                assert_eq!(unsafe { t.find_wide::<256>(spot) }, found);
            }
            if is_x86_feature_detected!("avx512f") {
                // SAFETY: asked just now.
                assert_eq!(unsafe { t.find_wide::<512>(spot) }, found);
            }
        }
        found
    }

    #[test]
    fn it_holds_what_it_says_and_no_more() {
        let mut w = writer();
        let n = if cfg!(miri) {
            2_000
        } else {
            w.table.capacity()
        };
        let key = |i: usize| MacKey::of_word(1, i as u64 * 0x1_0001);
        for i in 0..n {
            assert_eq!(
                w.set(key(i), MacEntry::new(1 + i as u32 % 99, 0), 0),
                Ok(None)
            );
        }
        assert_eq!(w.len(), n);
        for i in 0..n {
            assert_eq!(find(&w, key(i)).if_index(), 1 + i as u32 % 99);
        }
        assert!(!find(&w, key(n)).is_hit());
        if !cfg!(miri) {
            assert_eq!(w.set(key(n), MacEntry::new(1, 0), 0), Err(MacFull));
            assert_eq!(w.iter().count(), n);
        }
        w.retain(
            |r| r.entry.if_index() != 7,
            |r| assert_eq!(r.entry.if_index(), 7),
        );
        assert_eq!(w.iter().count(), w.len());
        assert!((0..n).all(|i| find(&w, key(i)).is_hit() == (i % 99 != 6)));
    }

    #[test]
    fn a_full_line_spills_and_what_spilled_is_found_and_forgotten() {
        let mut w = writer();
        let home = w.table.spot(MacKey::of_word(1, 0)).line();
        let same = (0u64..).map(|n| MacKey::of_word(1, n));
        let keys: Vec<MacKey> = if cfg!(miri) {
            Vec::new()
        } else {
            same.filter(|k| w.table.spot(*k).line() == home)
                .take(20)
                .collect()
        };
        for (i, k) in keys.iter().enumerate() {
            assert_eq!(w.set(*k, MacEntry::new(1 + i as u32, 0), 0), Ok(None));
        }
        for (i, k) in keys.iter().enumerate() {
            assert_eq!(find(&w, *k).if_index(), 1 + i as u32);
            w.table.touch(w.table.spot(*k));
            assert!(find(&w, *k).has(MacEntry::SEEN));
        }
        for k in &keys {
            assert!(w.remove(*k).is_some() && !find(&w, *k).is_hit());
        }
        assert_eq!(w.table.spilled.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn what_is_not_used_ages_and_what_is_used_or_set_stays() {
        let mut w = writer();
        let key = |n| MacKey::new(n, [2, 0, 0, 0, 0, 1]);
        for n in 1..=4 {
            w.set(key(n), MacEntry::new(5, 0), 100).unwrap();
        }
        w.set(key(5), MacEntry::new(5, MacEntry::STATIC), 100)
            .unwrap();
        let lines = w.lines();
        let age = |n: u16| (n != 3).then_some(60);
        let sweep = |w: &mut MacWriter, now| {
            let mut gone = Vec::new();
            w.sweep(lines, now, age, |r| gone.push(r.key.domain()));
            gone.sort_unstable();
            gone
        };
        w.table.touch(w.table.spot(key(2)));
        assert_eq!(sweep(&mut w, 159), []);
        assert_eq!(sweep(&mut w, 160), [1, 4]);
        assert_eq!(w.get(key(2)).map(|r| r.seen), Some(159));
        assert_eq!(sweep(&mut w, 219), [2]);
        assert_eq!(sweep(&mut w, 100_000), []);
        assert_eq!(w.len(), 2);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Set(u8, u8, u32),
        Remove(u8, u8),
        Touch(u8, u8),
        Flush(u32),
    }

    fn step() -> impl Strategy<Value = Step> {
        let key = (any::<u8>(), 0u8..3);
        prop_oneof![
            (key.clone(), 1u32..5).prop_map(|((m, d), i)| Step::Set(m, d, i)),
            key.clone().prop_map(|(m, d)| Step::Remove(m, d)),
            key.prop_map(|(m, d)| Step::Touch(m, d)),
            (1u32..5).prop_map(Step::Flush),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 64 }))]
        #[test]
        fn it_is_a_map(steps in prop::collection::vec(step(), 1..200)) {
            let mut w = writer();
            let mut model: HashMap<MacKey, u32> = HashMap::new();
            let key = |m: u8, d: u8| MacKey::new(u16::from(d), [m, 0, m, 1, 0, d]);
            for s in steps {
                match s {
                    Step::Set(m, d, i) => {
                        let was = w.set(key(m, d), MacEntry::new(i, 0), 0).unwrap();
                        prop_assert_eq!(was.map(|e| e.if_index()), model.insert(key(m, d), i));
                    }
                    Step::Remove(m, d) => {
                        let was = w.remove(key(m, d)).map(|r| r.entry.if_index());
                        prop_assert_eq!(was, model.remove(&key(m, d)));
                    }
                    Step::Touch(m, d) => w.table.touch(w.table.spot(key(m, d))),
                    Step::Flush(i) => {
                        w.retain(|r| r.entry.if_index() != i, |_| {});
                        model.retain(|_, x| *x != i);
                    }
                }
                prop_assert_eq!(w.len(), model.len());
            }
            for m in 0..=255 {
                for d in 0..3 {
                    let found = find(&w, key(m, d));
                    let expected = model.get(&key(m, d)).copied().unwrap_or(0);
                    prop_assert_eq!(found.if_index(), expected);
                }
            }
            let mut all: Vec<_> = w.iter().map(|r| (r.key, r.entry.if_index())).collect();
            let mut expected: Vec<_> = model.into_iter().collect();
            all.sort_unstable();
            expected.sort_unstable();
            prop_assert_eq!(all, expected);
        }
    }
}
