//! Writing the segment: an arena, the directory, and the sequence lock around changes of structure.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering::{Relaxed, Release, SeqCst};
use std::sync::atomic::fence;

use crate::layout::{
    AT_BASE, AT_DIRECTORY, AT_EPOCH, AT_IN_PROGRESS, AT_VERSION, ENTRY_KIND, ENTRY_NAME,
    ENTRY_VALUE, ENTRY_WORDS, HEADER_WORDS, Kind, VERSION, name_words, string_word, string_words,
    symlink,
};
use crate::map::Map;

/// Words that rows are aligned to: a cache line.
const LINE: usize = 8;
/// Fewest words of a block.
const SMALLEST: usize = 16;

/// What a block holds. One that is given back is used for the same again: a slow reader of the old vector then
/// finds other values, but never a counter where it looks for a pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Use {
    Directory,
    Pointers,
    Simple,
    Combined,
    Text,
}

/// The segment has no room for what was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the statistics segment is full: give it a larger size")]
pub struct Full;

/// A number in the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scalar(usize);

/// Rows of counters, one for each thread.
#[derive(Clone, Debug)]
pub struct Counters {
    entry: usize,
    /// Words of one element: 1 = simple, 2 = packets and bytes.
    wide: usize,
    /// First word of each thread's row.
    rows: Vec<usize>,
    columns: usize,
    /// Elements that the rows have room for.
    room: usize,
}

impl Counters {
    fn holds(&self) -> Use {
        match self.wide {
            1 => Use::Simple,
            _ => Use::Combined,
        }
    }
    /// Columns of each row.
    pub fn columns(&self) -> usize {
        self.columns
    }
}

/// Names by index.
#[derive(Clone, Debug)]
pub struct Names {
    entry: usize,
    /// First word of the vector of pointers.
    start: usize,
    room: usize,
    /// Where each name lies, with its words; 0 = no name.
    texts: Vec<(usize, usize)>,
}

/// The segment as its writer has it.
#[derive(Debug)]
pub struct Segment {
    map: Map,
    /// First word that was never used.
    free: usize,
    /// Blocks given back, by their size and use, which they keep for ever.
    blocks: BTreeMap<(usize, Use), Vec<usize>>,
    /// First word of the directory, its entries, and how many it has room for.
    directory: (usize, usize, usize),
    epoch: u64,
}

impl Segment {
    /// An empty segment of `bytes`.
    ///
    /// # Errors
    /// What the system says, or that not even the directory fits.
    pub fn new(bytes: usize) -> io::Result<Segment> {
        let mut segment = Segment {
            map: Map::new(bytes)?,
            free: HEADER_WORDS,
            blocks: BTreeMap::new(),
            directory: (0, 0, 0),
            epoch: 1,
        };
        segment.put(AT_VERSION, VERSION);
        segment.put(AT_BASE, 0);
        segment.put(AT_EPOCH, 1);
        let grown = segment.change(|c| c.grow_directory(64));
        grown.map_err(|Full| io::Error::new(io::ErrorKind::OutOfMemory, Full))?;
        Ok(segment)
    }

    /// The descriptor that readers get.
    pub fn read_only(&self) -> BorrowedFd<'_> {
        self.map.read_only()
    }
    /// Its memory.
    pub fn map(&self) -> &Map {
        &self.map
    }
    /// Times the structure has changed, from 1 on.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }
    /// Entries in the directory.
    pub fn entries(&self) -> usize {
        self.directory.1
    }
    /// Bytes in use, those of freed vectors included, and bytes there are.
    pub fn size(&self) -> (usize, usize) {
        (self.free * 8, self.map.len() * 8)
    }

    fn put(&self, at: usize, value: u64) {
        if let Some(word) = self.map.get(at) {
            word.store(value, Relaxed);
        }
    }
    fn get(&self, at: usize) -> u64 {
        self.map.get(at).map_or(0, |word| word.load(Relaxed))
    }

    /// Sets a number.
    pub fn set(&self, scalar: Scalar, value: u64) {
        self.put(self.entry_at(scalar.0) + ENTRY_VALUE, value);
    }
    /// Sets a simple counter.
    pub fn count(&self, of: &Counters, thread: usize, column: usize, value: u64) {
        self.count_words(of, thread, column, &[value]);
    }
    /// Sets a counter of packets and bytes.
    pub fn count_both(&self, of: &Counters, thread: usize, column: usize, both: [u64; 2]) {
        self.count_words(of, thread, column, &both);
    }
    fn count_words(&self, of: &Counters, thread: usize, column: usize, words: &[u64]) {
        debug_assert_eq!(of.wide, words.len());
        let Some(row) = of.rows.get(thread).filter(|_| column < of.columns) else {
            return;
        };
        for (i, word) in words.iter().enumerate() {
            self.put(row + column * of.wide + i, *word);
        }
    }

    fn entry_at(&self, entry: usize) -> usize {
        self.directory.0 + entry * ENTRY_WORDS
    }

    /// Changes the structure. Readers that are at it begin again when it is done, whatever comes of it.
    pub fn change<T>(&mut self, job: impl FnOnce(&mut Change<'_>) -> T) -> T {
        self.put(AT_IN_PROGRESS, 1);
        // No word of the change may be seen before the sign that it has begun.
        fence(SeqCst);
        // The guard ends the change also when the job is left by a panic: readers wait without an end.
        let mut change = Change(self);
        job(&mut change)
    }
}

/// A change of structure under way. Its end is the end of this value.
#[derive(Debug)]
pub struct Change<'s>(&'s mut Segment);

impl Drop for Change<'_> {
    fn drop(&mut self) {
        let s = &mut *self.0;
        s.epoch += 1;
        s.put(AT_EPOCH, s.epoch);
        if let Some(word) = s.map.get(AT_IN_PROGRESS) {
            word.store(0, Release);
        }
    }
}

impl Change<'_> {
    /// A block of at least `words` words behind one for its length, zeroed. Returns its first word.
    fn block(&mut self, what: Use, words: usize) -> Result<usize, Full> {
        let s = &mut *self.0;
        let words = words
            .max(SMALLEST)
            .checked_next_power_of_two()
            .ok_or(Full)?;
        if let Some(block) = s.blocks.get_mut(&(words, what)).and_then(Vec::pop) {
            (block..block + words).for_each(|at| s.put(at, 0));
            return Ok(block);
        }
        // The length lies before the line that the elements begin at.
        let start = (s.free + 1).next_multiple_of(LINE);
        // Readers insist on a vector that ends before the segment does.
        if start
            .checked_add(words)
            .is_none_or(|end| end >= s.map.len())
        {
            return Err(Full);
        }
        s.free = start + words;
        Ok(start)
    }

    fn release(&mut self, what: Use, block: usize, words: usize) {
        let words = words.max(SMALLEST).next_power_of_two();
        self.0.blocks.entry((words, what)).or_default().push(block);
    }

    fn set_length(&mut self, block: usize, elements: usize) {
        self.0.put(block - 1, elements as u64);
    }

    fn grow_directory(&mut self, room: usize) -> Result<(), Full> {
        let (old, entries, old_room) = self.0.directory;
        let start = self.block(Use::Directory, room * ENTRY_WORDS)?;
        for i in 0..entries * ENTRY_WORDS {
            let word = self.0.get(old + i);
            self.0.put(start + i, word);
        }
        self.set_length(start, entries);
        self.0.directory = (start, entries, room);
        self.0.put(AT_DIRECTORY, (start * 8) as u64);
        if old_room > 0 {
            self.release(Use::Directory, old, old_room * ENTRY_WORDS);
        }
        Ok(())
    }

    fn entry(&mut self, name: &str, kind: Kind, value: u64) -> Result<usize, Full> {
        let (_, entries, room) = self.0.directory;
        if entries == room {
            self.grow_directory(room * 2)?;
        }
        let at = self.0.entry_at(entries);
        self.0.put(at + ENTRY_KIND, kind as u64);
        self.0.put(at + ENTRY_VALUE, value);
        for (i, word) in name_words(name).into_iter().enumerate() {
            self.0.put(at + ENTRY_NAME + i, word);
        }
        self.0.directory.1 = entries + 1;
        self.set_length(self.0.directory.0, entries + 1);
        Ok(entries)
    }

    /// Entries in the directory.
    pub fn entries(&self) -> usize {
        self.0.entries()
    }

    /// Sets a number that was just added.
    pub fn set(&mut self, scalar: Scalar, value: u64) {
        self.0.set(scalar, value);
    }

    /// Adds a number.
    ///
    /// # Errors
    /// When there is no room.
    pub fn scalar(&mut self, name: &str) -> Result<Scalar, Full> {
        self.entry(name, Kind::Scalar, 0).map(Scalar)
    }

    /// Adds a row of `columns` for each of `threads`: of single numbers, or of packets and bytes.
    ///
    /// # Errors
    /// When there is no room.
    pub fn counters(
        &mut self,
        name: &str,
        (combined, threads): (bool, usize),
        columns: usize,
    ) -> Result<Counters, Full> {
        let (wide, kind) = match combined {
            true => (2, Kind::Combined),
            false => (1, Kind::Simple),
        };
        let mut counters = Counters {
            entry: 0,
            wide,
            rows: Vec::new(),
            columns: 0,
            room: 0,
        };
        let table = self.block(Use::Pointers, threads)?;
        self.set_length(table, threads);
        for _ in 0..threads {
            counters
                .rows
                .push(self.block(counters.holds(), columns.max(1) * wide)?);
        }
        counters.room = room_of(columns, wide);
        for (thread, row) in counters.rows.iter().enumerate() {
            self.0.put(table + thread, (row * 8) as u64);
        }
        self.set_columns(&mut counters, columns);
        counters.entry = self.entry(name, kind, (table * 8) as u64)?;
        Ok(counters)
    }

    fn set_columns(&mut self, counters: &mut Counters, columns: usize) {
        counters.columns = columns;
        for i in 0..counters.rows.len() {
            self.set_length(counters.rows[i], columns);
        }
    }

    /// Gives all rows this many columns. New ones are 0; values that were there stay.
    ///
    /// # Errors
    /// When there is no room; nothing has changed then.
    pub fn resize(&mut self, counters: &mut Counters, columns: usize) -> Result<(), Full> {
        if columns > counters.room {
            self.move_rows(counters, columns)?;
        }
        // What is cut off must be 0 when it comes back.
        for row in &counters.rows {
            let words = columns * counters.wide..counters.columns * counters.wide;
            words.for_each(|i| self.0.put(row + i, 0));
        }
        self.set_columns(counters, columns);
        Ok(())
    }

    fn move_rows(&mut self, counters: &mut Counters, columns: usize) -> Result<(), Full> {
        let wide = counters.wide;
        let (mut rows, mut result) = (Vec::new(), Ok(()));
        for _ in &counters.rows {
            match self.block(counters.holds(), columns * wide) {
                Ok(row) => rows.push(row),
                Err(full) => result = Err(full),
            }
        }
        if let Err(full) = result {
            for row in rows {
                self.release(counters.holds(), row, columns * wide);
            }
            return Err(full);
        }
        let table = self.0.get(self.0.entry_at(counters.entry) + ENTRY_VALUE) as usize / 8;
        for (thread, (old, new)) in counters.rows.iter().zip(&rows).enumerate() {
            for i in 0..counters.columns * wide {
                let word = self.0.get(old + i);
                self.0.put(new + i, word);
            }
            self.0.put(table + thread, (new * 8) as u64);
        }
        let old = std::mem::replace(&mut counters.rows, rows);
        for row in old {
            self.release(counters.holds(), row, counters.room * wide);
        }
        counters.room = room_of(columns, wide);
        Ok(())
    }

    /// Adds a list of names, empty.
    ///
    /// # Errors
    /// When there is no room.
    pub fn names(&mut self, name: &str) -> Result<Names, Full> {
        let start = self.block(Use::Pointers, SMALLEST)?;
        self.set_length(start, 0);
        Ok(Names {
            entry: self.entry(name, Kind::Names, (start * 8) as u64)?,
            start,
            room: SMALLEST,
            texts: Vec::new(),
        })
    }

    /// Sets all names.
    ///
    /// # Errors
    /// When there is no room; some names may be set then.
    pub fn set_names<'n>(
        &mut self,
        of: &mut Names,
        names: impl ExactSizeIterator<Item = &'n str>,
    ) -> Result<(), Full> {
        if names.len() > of.room {
            let start = self.block(Use::Pointers, names.len())?;
            for i in 0..of.texts.len() {
                let pointer = self.0.get(of.start + i);
                self.0.put(start + i, pointer);
            }
            self.release(Use::Pointers, of.start, of.room);
            (of.start, of.room) = (start, room_of(names.len(), 1));
            let at = self.0.entry_at(of.entry);
            self.0.put(at + ENTRY_VALUE, (start * 8) as u64);
        }
        of.texts.resize(names.len(), (0, 0));
        self.set_length(of.start, names.len());
        for (i, name) in names.enumerate() {
            self.set_name(of, i, name)?;
        }
        Ok(())
    }

    fn set_name(&mut self, of: &mut Names, i: usize, name: &str) -> Result<(), Full> {
        let (mut at, mut room) = of.texts[i];
        let words = string_words(name);
        if words > room {
            let new = self.block(Use::Text, words)?;
            if room > 0 {
                self.release(Use::Text, at, room);
            }
            (at, room) = (new, room_of(words, 1));
            of.texts[i] = (at, room);
        }
        for word in 0..words {
            self.0.put(at + word, string_word(name, word));
        }
        // A string counts its end.
        self.set_length(at, name.len() + 1);
        self.0.put(of.start + i, (at * 8) as u64);
        Ok(())
    }

    /// Adds a name for one column of counters.
    ///
    /// # Errors
    /// When there is no room.
    pub fn symlink(&mut self, name: &str, to: &Counters, column: usize) -> Result<(), Full> {
        let target = symlink(to.entry as u32, column as u32);
        self.entry(name, Kind::Symlink, target).map(drop)
    }

    /// Takes away all entries from number `keep` on, which must be symlinks: nothing else can be taken away.
    pub fn drop_symlinks(&mut self, keep: usize) {
        let (start, entries, _) = self.0.directory;
        for at in (start + keep * ENTRY_WORDS)..(start + entries * ENTRY_WORDS) {
            self.0.put(at, 0);
        }
        self.0.directory.1 = keep.min(entries);
        self.set_length(start, keep.min(entries));
    }
}

/// Elements that the block of so many has room for.
fn room_of(elements: usize, wide: usize) -> usize {
    (elements.max(1) * wide).max(SMALLEST).next_power_of_two() / wide
}
