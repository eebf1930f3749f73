//! The MPLS label table (RFC 3031's ILM): (label, bottom of stack or not) -> object.
//!
//! Directly indexed, in chunks of 1,024 labels that exist only where labels do. A chunk's
//! entries are atomic words, so a change is one store; a chunk that empties is retired.

use crate::dpo::Dpo;
use crate::error::FibError;
use parshall_rcu::{Domain, Reader};
use std::fmt;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Largest label.
pub const LABEL_MAX: u32 = (1 << 20) - 1;

const CHUNK: usize = 1024;
const CHUNKS: usize = (LABEL_MAX as usize + 1) / CHUNK;

/// Two words a label: not bottom of stack, bottom of stack.
type Chunk = [AtomicU32; CHUNK * 2];

/// One label space. Read by workers, changed by control.
pub struct MplsFib {
    chunks: Box<[AtomicPtr<Chunk>; CHUNKS]>,
    domain: Arc<Domain>,
    /// Entries in use per chunk; held during changes.
    used: Mutex<Box<[u16; CHUNKS]>>,
}

impl MplsFib {
    /// An empty label space for readers of `domain`.
    #[must_use]
    pub fn new(domain: &Arc<Domain>) -> Self {
        MplsFib {
            chunks: Box::new([const { AtomicPtr::new(null_mut()) }; CHUNKS]),
            domain: Arc::clone(domain),
            used: Mutex::new(Box::new([0; CHUNKS])),
        }
    }

    /// What to do with `label` (only its low 20 bits count). `eos`: it is the bottom of
    /// the stack.
    ///
    /// # Panics
    /// When `r` is offline.
    #[inline]
    #[must_use]
    pub fn lookup(&self, r: &Reader, label: u32, eos: bool) -> Dpo {
        r.assert_online();
        let label = (label & LABEL_MAX) as usize;
        let chunk = self.chunks[label / CHUNK].load(Ordering::Acquire);
        // SAFETY: null or from a box that is retired into the readers' domain after it
        // was unlinked; the online reader is borrowed for the duration of the read.
        let Some(chunk) = (unsafe { chunk.as_ref() }) else {
            return Dpo::MISS;
        };
        Dpo::from_bits(chunk[label % CHUNK * 2 + usize::from(eos)].load(Ordering::Acquire))
    }

    /// What the table holds, from the control side.
    #[must_use]
    pub fn get(&self, label: u32, eos: bool) -> Dpo {
        let _used = self.lock();
        if label > LABEL_MAX {
            return Dpo::MISS;
        }
        let label = label as usize;
        self.chunk(label / CHUNK).map_or(Dpo::MISS, |chunk| {
            Dpo::from_bits(chunk[label % CHUNK * 2 + usize::from(eos)].load(Ordering::Relaxed))
        })
    }

    /// Sets (or with [`Dpo::MISS`] clears) one entry; returns what was there.
    ///
    /// # Errors
    /// [`FibError::BadLabel`] for a label over [`LABEL_MAX`].
    pub fn set(&self, label: u32, eos: bool, dpo: Dpo) -> Result<Dpo, FibError> {
        if label > LABEL_MAX {
            return Err(FibError::BadLabel(label));
        }
        let mut used = self.lock();
        let (nr, entry) = (
            label as usize / CHUNK,
            label as usize % CHUNK * 2 + usize::from(eos),
        );
        if self.chunk(nr).is_none() {
            if dpo.is_miss() {
                return Ok(Dpo::MISS);
            }
            let chunk: Box<Chunk> = Box::new([const { AtomicU32::new(0) }; CHUNK * 2]);
            self.chunks[nr].store(Box::into_raw(chunk), Ordering::Release);
        }
        let word = self
            .chunk(nr)
            .map(|c| c[entry].swap(dpo.bits(), Ordering::AcqRel));
        let old = Dpo::from_bits(word.unwrap_or_default());
        used[nr] = used[nr] + u16::from(!dpo.is_miss()) - u16::from(!old.is_miss());
        if used[nr] == 0 {
            let chunk = self.chunks[nr].swap(null_mut(), Ordering::AcqRel);
            // SAFETY: not null (an entry was just written there), from `Box::into_raw`,
            // and unlinked by us under the lock: nobody else takes it.
            unsafe { self.domain.retire_raw(chunk) };
        }
        Ok(old)
    }

    /// All entries, by label, "not bottom" first.
    #[must_use]
    pub fn entries(&self) -> Vec<(u32, bool, Dpo)> {
        let used = self.lock();
        let mut out = Vec::new();
        for nr in (0..CHUNKS).filter(|&nr| used[nr] > 0) {
            for (i, word) in self.chunk(nr).into_iter().flatten().enumerate() {
                let dpo = Dpo::from_bits(word.load(Ordering::Relaxed));
                if !dpo.is_miss() {
                    out.push(((nr * CHUNK + i / 2) as u32, i % 2 == 1, dpo));
                }
            }
        }
        out
    }

    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().iter().map(|n| usize::from(*n)).sum()
    }

    /// Whether there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes in use.
    #[must_use]
    pub fn memory(&self) -> usize {
        let chunks = self.lock().iter().filter(|n| **n > 0).count();
        size_of::<Self>() + CHUNKS * (8 + 2) + chunks * size_of::<Chunk>()
    }

    fn lock(&self) -> MutexGuard<'_, Box<[u16; CHUNKS]>> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A chunk, from the control side.
    fn chunk(&self, nr: usize) -> Option<&Chunk> {
        // SAFETY: chunks are only unlinked under the lock that every caller holds, for
        // longer than it uses the answer.
        unsafe { self.chunks[nr].load(Ordering::Acquire).as_ref() }
    }
}

impl Drop for MplsFib {
    fn drop(&mut self) {
        for chunk in self
            .chunks
            .iter_mut()
            .map(AtomicPtr::get_mut)
            .filter(|c| !c.is_null())
        {
            // SAFETY: from `Box::into_raw`; `&mut self` means that nobody reads it.
            drop(unsafe { Box::from_raw(*chunk) });
        }
    }
}

impl fmt::Debug for MplsFib {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MplsFib({} entries)", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dpo::DpoKind;

    fn adj(n: u32) -> Dpo {
        Dpo::new(DpoKind::Adjacency, n)
    }

    #[test]
    fn bottom_and_not_bottom_are_two_entries() {
        let d = Domain::new();
        let mut r = d.register().unwrap();
        r.online();
        let t = MplsFib::new(&d);
        assert_eq!(t.set(16, true, adj(1)), Ok(Dpo::MISS));
        assert_eq!(t.set(16, false, adj(2)), Ok(Dpo::MISS));
        assert_eq!(t.set(LABEL_MAX, true, adj(3)), Ok(Dpo::MISS));
        assert_eq!(
            (t.lookup(&r, 16, true), t.lookup(&r, 16, false)),
            (adj(1), adj(2))
        );
        assert_eq!(
            (t.lookup(&r, LABEL_MAX, true), t.lookup(&r, 17, true)),
            (adj(3), Dpo::MISS)
        );
        assert_eq!((t.get(16, true), t.get(1 << 20, true)), (adj(1), Dpo::MISS));
        let all = [
            (16, false, adj(2)),
            (16, true, adj(1)),
            (LABEL_MAX, true, adj(3)),
        ];
        assert_eq!(t.entries(), all);
        assert_eq!(
            t.set(1 << 20, true, adj(3)),
            Err(FibError::BadLabel(1 << 20))
        );
    }

    #[test]
    fn chunks_come_and_go() {
        let d = Domain::new();
        let t = MplsFib::new(&d);
        let empty = t.memory();
        assert_eq!(t.set(100, true, Dpo::MISS), Ok(Dpo::MISS));
        assert_eq!(t.memory(), empty);
        t.set(100, true, adj(1)).unwrap();
        t.set(101, true, adj(1)).unwrap();
        assert_eq!(t.set(100, true, adj(2)), Ok(adj(1)));
        assert_eq!((t.len(), t.memory()), (2, empty + 8192));
        t.set(100, true, Dpo::MISS).unwrap();
        assert_eq!(d.pending(), 0);
        t.set(101, true, Dpo::MISS).unwrap();
        assert_eq!((d.pending(), t.memory(), t.len()), (1, empty, 0));
        assert_eq!(d.reclaim(), 1);
    }
}
