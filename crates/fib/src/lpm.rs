//! Longest-prefix match: a directly indexed root, then nodes of 8 bits each.
//!
//! Reading. The root covers the first 0, 8 or 16 bits (it grows with the table); an entry
//! is the answer or a node for the next 8 bits. Routes are pushed down to the slots they
//! win, so the first answer met is the longest match. The default route is kept apart:
//! slots that nothing longer covers hold "miss" and the default is put in at the end, so
//! changing it is one store instead of a walk through the whole table.
//!
//! Writing. The prefixes are kept in a [`Rib`], whose nodes match the nodes here. A change
//! of one or many prefixes works out, from there, the slots of the nodes that the prefixes
//! end in (and of nodes below that inherit from them); a node whose runs change is built
//! anew, bottom up, and nothing is stored where readers see it until all is built. Then
//! every store switches some addresses from the old answer to the new one; addresses
//! outside the prefixes keep theirs throughout. A change that runs out of memory has
//! stored nothing.

use crate::addr::Addr;
use crate::arena::{Arena, Block, UNIT};
use crate::change::Change;
use crate::dpo::Dpo;
use crate::error::FibError;
use crate::node::{Entry, Node, SLOTS, STRIDE, block_of, blocks_below};
use crate::prefix::Prefix;
use crate::rib::Rib;
use parshall_rcu::{Published, Reader};
use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Routes from which the root covers 8 bits.
const ROOT8_FROM: usize = 32;
/// Routes from which the root covers 16 bits (then 256 KiB).
const ROOT16_FROM: usize = 8192;
/// Lookups that [`View::lookup_batch`] carries on together.
const BATCH: usize = 32;

/// The first level. Replaced as a whole only to grow.
pub(crate) struct Root {
    pub(crate) bits: u8,
    pub(crate) entries: Box<[AtomicU32]>,
}

impl Root {
    fn new(bits: u8) -> Self {
        Root {
            bits,
            entries: (0..1usize << bits).map(|_| AtomicU32::new(0)).collect(),
        }
    }
}

/// What control keeps about a table.
struct Writer<A: Addr> {
    rib: Rib<A, Dpo>,
    /// Bits of the root.
    bits: u8,
    /// The root was widened by hand.
    wide: bool,
    /// Units of the arena in use.
    units: usize,
}

impl<A: Addr> Writer<A> {
    /// Sets the object of a prefix in the map, a miss takes it out; returns the one it had.
    fn set(&mut self, prefix: Prefix<A>, dpo: Dpo) -> Option<Dpo> {
        if dpo.is_miss() {
            self.rib.remove(prefix)
        } else {
            self.rib.insert(prefix, dpo)
        }
    }
}

/// One table of longest-prefix match. Read by workers, changed by control.
pub struct Lpm<A: Addr> {
    root: Published<Root>,
    /// The route of length 0.
    default: AtomicU32,
    arena: Arc<Arena>,
    writer: Mutex<Writer<A>>,
    generation: AtomicU64,
}

/// The next generation of any table: two tables never have the same.
static GENERATIONS: AtomicU64 = AtomicU64::new(1);

/// Bytes that tables take, by structure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FibMemory {
    /// Routes, not bytes: what the bytes are for.
    pub routes: usize,
    /// The tables themselves and their index.
    pub tables: usize,
    /// First levels.
    pub roots: usize,
    /// Nodes that readers follow.
    pub nodes: usize,
    /// Node memory that is touched but not in use, and the book-keeping of it.
    pub spare: usize,
    /// The prefixes as they are kept for changes.
    pub prefixes: usize,
}

impl FibMemory {
    /// All bytes.
    #[must_use]
    pub fn total(&self) -> usize {
        self.tables + self.roots + self.nodes + self.spare + self.prefixes
    }

    /// Adds another table's.
    pub(crate) fn add(&mut self, other: &FibMemory) {
        self.routes += other.routes;
        self.tables += other.tables;
        self.roots += other.roots;
        self.nodes += other.nodes;
        self.spare += other.spare;
        self.prefixes += other.prefixes;
    }
}

/// A table as one reader sees it between two quiescent points: what all lookups have in
/// common is loaded once.
#[derive(Clone, Copy)]
pub struct View<'r> {
    entries: &'r [AtomicU32],
    bits: u8,
    default: u32,
    base: *const u8,
}

impl View<'_> {
    /// The object of the longest prefix that contains `addr`, or a miss. `addr` must be
    /// of the table's family.
    #[inline]
    #[must_use]
    pub fn lookup<A: Addr>(&self, addr: A) -> Dpo {
        let (mut entry, mut depth) = (self.first(addr), self.bits);
        while entry.is_node() {
            entry = self.step(entry, addr, depth);
            depth += STRIDE;
        }
        self.answer(entry)
    }

    /// Answers many lookups, interleaved so that their memory accesses overlap: what a
    /// node should use for a frame. Stops at the shorter of the two slices.
    #[inline]
    pub fn lookup_batch<A: Addr>(&self, addrs: &[A], out: &mut [Dpo]) {
        for (addrs, out) in addrs.chunks(BATCH).zip(out.chunks_mut(BATCH)) {
            self.batch(addrs, out);
        }
    }

    /// Level by level, only those lookups that are not done yet. What is done is left out
    /// by arithmetic instead of a branch: which ones end where cannot be predicted.
    #[inline]
    fn batch<A: Addr>(&self, addrs: &[A], out: &mut [Dpo]) {
        let n = addrs.len().min(out.len()).min(BATCH);
        let (mut entries, mut open) = ([Entry::default(); BATCH], [0u8; BATCH]);
        let mut left = 0;
        for i in 0..n {
            let entry = self.first(addrs[i]);
            self.prefetch_node(entry);
            entries[i] = entry;
            open[left] = i as u8;
            left += usize::from(entry.is_node());
        }
        let mut depth = self.bits;
        while left > 0 {
            let mut still = 0;
            for k in 0..left {
                // `open` holds numbers below `n`, and there are at most `k` of them before this one.
                let i = usize::from(open[k]) % BATCH;
                let Some(addr) = addrs.get(i) else { continue };
                let entry = self.step(entries[i], *addr, depth);
                self.prefetch_node(entry);
                entries[i] = entry;
                open[still] = i as u8;
                still += usize::from(entry.is_node());
            }
            left = still;
            depth += STRIDE;
        }
        for (out, entry) in out.iter_mut().zip(&entries[..n]) {
            *out = self.answer(*entry);
        }
    }

    /// Asks for the head of a node that the next level will read; for an answer, for a line of the same
    /// span, which is harmless.
    #[inline(always)]
    fn prefetch_node(&self, entry: Entry) {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let at = self.base.wrapping_add(entry.at() as usize * UNIT);
            // SAFETY: a prefetch changes nothing and cannot fault.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = entry;
    }

    /// Asks the processor to fetch the first word that a lookup of `addr` needs.
    #[inline]
    pub fn prefetch<A: Addr>(&self, addr: A) {
        #[cfg(target_arch = "x86_64")]
        if let Some(word) = self.entries.get(addr.top(self.bits)) {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: a prefetch of valid memory; it changes nothing.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(word).cast()) };
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = addr;
    }

    #[inline]
    fn first<A: Addr>(&self, addr: A) -> Entry {
        // SAFETY: a root has 2^bits entries and `top(bits)` is a number of `bits` bits.
        let word = unsafe { self.entries.get_unchecked(addr.top(self.bits)) };
        Entry(word.load(Ordering::Acquire))
    }

    #[inline(always)]
    fn step<A: Addr>(&self, entry: Entry, addr: A, depth: u8) -> Entry {
        // SAFETY: the entry came from this table, whose arena is that of `base`; the
        // reader that the view borrows keeps unlinked nodes from being used again.
        unsafe { Node::at(self.base, entry) }.get(addr.byte(depth))
    }

    #[inline]
    fn answer(&self, entry: Entry) -> Dpo {
        Dpo::from_bits(if entry.0 == 0 { self.default } else { entry.0 })
    }
}

impl fmt::Debug for View<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "View(root of {} bits)", self.bits)
    }
}

impl<A: Addr> Lpm<A> {
    pub(crate) fn in_arena(arena: &Arc<Arena>) -> Self {
        Lpm {
            root: Published::new(Root::new(0)),
            default: AtomicU32::new(0),
            arena: Arc::clone(arena),
            writer: Mutex::new(Writer {
                rib: Rib::new(),
                bits: 0,
                wide: false,
                units: 0,
            }),
            generation: AtomicU64::new(GENERATIONS.fetch_add(1, Ordering::Relaxed)),
        }
    }

    /// A number that is another one after every change, and that no other table has ever had: an answer of
    /// [`longest_match`](Self::longest_match) that came after it was read holds for as long as it stays.
    #[inline]
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// The prefixes have changed; called with the writer's lock held.
    fn has_changed(&self) {
        let next = GENERATIONS.fetch_add(1, Ordering::Relaxed);
        self.generation.store(next, Ordering::Release);
    }

    /// The table for the lookups of one frame.
    ///
    /// # Panics
    /// When `r` is offline.
    #[inline]
    pub fn view<'r>(&'r self, r: &'r Reader) -> View<'r> {
        let root = self.root.load(r);
        View {
            entries: &root.entries,
            bits: root.bits,
            default: self.default.load(Ordering::Acquire),
            base: self.arena.base(),
        }
    }

    /// The object of the longest prefix that contains `addr`, or a miss.
    ///
    /// # Panics
    /// When `r` is offline.
    #[inline]
    #[must_use]
    pub fn lookup(&self, r: &Reader, addr: A) -> Dpo {
        self.view(r).lookup(addr)
    }

    /// Sets the object of a prefix; returns the one it had. A miss takes the prefix out.
    ///
    /// # Errors
    /// [`FibError::Full`] when memory for nodes is used up; then nothing has changed.
    pub fn insert(&self, prefix: Prefix<A>, dpo: Dpo) -> Result<Option<Dpo>, FibError> {
        let mut writer = self.lock();
        let old = writer.set(prefix, dpo);
        if old == Some(dpo) || old.is_none() && dpo.is_miss() {
            return Ok(old);
        }
        self.grow(&mut writer);
        if let Err(full) = self.apply(&mut writer, &[prefix], dpo.is_miss()) {
            writer.set(prefix, old.unwrap_or_default());
            return Err(full);
        }
        self.shrink(&mut writer);
        self.has_changed();
        Ok(old)
    }

    /// Takes a prefix out; returns the object it had.
    ///
    /// # Errors
    /// [`FibError::Full`] when the table is full and so much was removed in one go that
    /// the reserve for removals is still waiting for readers; then nothing has changed,
    /// and the same call succeeds a moment later.
    pub fn remove(&self, prefix: Prefix<A>) -> Result<Option<Dpo>, FibError> {
        self.insert(prefix, Dpo::MISS)
    }

    /// Sets the objects of many prefixes at once; a miss takes a prefix out, and of several
    /// changes of one prefix the last counts. Every node is built once for all of them, so
    /// this is many times faster than one by one. A reader sees, for every address, the
    /// answer from before or that from after the whole batch.
    ///
    /// # Errors
    /// [`FibError::Full`] when memory for nodes is used up; then nothing has changed.
    pub fn change(&self, changes: &[(Prefix<A>, Dpo)]) -> Result<(), FibError> {
        let in_order = |c: &[(Prefix<A>, Dpo)]| c.windows(2).all(|w| w[0].0 <= w[1].0);
        if !in_order(changes) {
            let mut sorted = changes.to_vec();
            // Stable: the last change of a prefix stays the last.
            sorted.sort_by_key(|c| c.0);
            return self.change(&sorted);
        }
        let mut writer = self.lock();
        let (mut prefixes, mut before) = (Vec::with_capacity(changes.len()), Vec::new());
        for (i, &(prefix, dpo)) in changes.iter().enumerate() {
            if changes.get(i + 1).is_some_and(|next| next.0 == prefix) {
                continue;
            }
            let old = writer.set(prefix, dpo).unwrap_or_default();
            if old != dpo {
                prefixes.push(prefix);
                before.push(old);
            }
        }
        self.grow(&mut writer);
        let shrinking = changes.iter().all(|c| c.1.is_miss());
        if let Err(full) = self.apply(&mut writer, &prefixes, shrinking) {
            for (prefix, old) in prefixes.iter().zip(before) {
                writer.set(*prefix, old);
            }
            return Err(full);
        }
        self.shrink(&mut writer);
        self.has_changed();
        Ok(())
    }

    /// The object of exactly this prefix.
    #[must_use]
    pub fn get(&self, prefix: Prefix<A>) -> Option<Dpo> {
        self.lock().rib.get(prefix).copied()
    }

    /// The longest prefix that contains `addr`, from the control side.
    #[must_use]
    pub fn longest_match(&self, addr: A) -> Option<(Prefix<A>, Dpo)> {
        self.lock().rib.longest_match(addr).map(|(p, d)| (p, *d))
    }

    /// Calls `f` with all prefixes in order, while changes wait.
    pub fn for_each(&self, mut f: impl FnMut(Prefix<A>, Dpo)) {
        self.lock().rib.iter().for_each(|(p, d)| f(p, *d));
    }

    /// Number of prefixes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().rib.len()
    }

    /// Whether it holds no prefix.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes in use: root, nodes, and the prefixes as control keeps them.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.usage().total()
    }

    /// Bytes in use by structure.
    #[must_use]
    pub fn usage(&self) -> FibMemory {
        let writer = self.lock();
        FibMemory {
            routes: writer.rib.len(),
            tables: size_of::<Self>() + size_of::<Root>(),
            roots: size_of::<AtomicU32>() << writer.bits,
            nodes: writer.units * UNIT,
            spare: 0,
            prefixes: writer.rib.memory(),
        }
    }

    /// Brings the reading side in line with the map after these prefixes, which are in
    /// order, changed there.
    fn apply(
        &self,
        writer: &mut Writer<A>,
        prefixes: &[Prefix<A>],
        shrinking: bool,
    ) -> Result<(), FibError> {
        let Some(first) = prefixes.first() else {
            return Ok(());
        };
        let default = (first.len() == 0).then_some(*first);
        let root = self.root.read_control(self.arena.domain());
        let mut change = Change {
            rib: &writer.rib,
            arena: &self.arena,
            shrinking,
            stores: Vec::new(),
            fresh: Vec::new(),
            doomed: Vec::new(),
        };
        if let Err(full) = change.root(&root, &prefixes[usize::from(default.is_some())..]) {
            self.arena.free_now(&change.fresh);
            return Err(full);
        }
        let Change {
            stores,
            fresh,
            doomed,
            ..
        } = change;
        for (word, entry) in stores {
            word.store(entry.0, Ordering::Release);
        }
        if let Some(prefix) = default {
            let dpo = writer.rib.get(prefix).copied().unwrap_or_default();
            self.default.store(dpo.bits(), Ordering::Release);
        }
        drop(root);
        let units = |blocks: &[Block]| blocks.iter().map(|b| usize::from(b.units)).sum::<usize>();
        writer.units = writer.units + units(&fresh) - units(&doomed);
        self.arena.free_later(&doomed);
        Ok(())
    }

    /// Gives the table the widest root at once (256 KiB): for one whose lookups matter more than its
    /// size, however few its routes.
    pub fn widen(&self) {
        let mut writer = self.lock();
        writer.wide = true;
        self.widen_to(&mut writer, 16);
    }

    /// Gives a table that has become empty the smallest root again.
    fn shrink(&self, writer: &mut Writer<A>) {
        if writer.rib.is_empty() && writer.bits > 0 && !writer.wide {
            self.root.publish(self.arena.domain(), Root::new(0));
            writer.bits = 0;
        }
    }

    /// Widens the root when the table has become large for it.
    fn grow(&self, writer: &mut Writer<A>) {
        let wanted = match writer.rib.len() {
            n if n >= ROOT16_FROM => 16,
            n if n >= ROOT8_FROM => 8,
            _ => 0,
        };
        self.widen_to(writer, wanted);
    }

    /// Widens the root to so many bits. The new root says the same as the old one with its top nodes.
    fn widen_to(&self, writer: &mut Writer<A>, bits: u8) {
        while writer.bits < bits {
            let domain = self.arena.domain();
            let old = self.root.read_control(domain);
            let (mut new, mut doomed) = (Root::new(writer.bits + STRIDE), Vec::new());
            for (word, out) in old.entries.iter().zip(new.entries.chunks_mut(SLOTS)) {
                let entry = Entry(word.load(Ordering::Relaxed));
                let mut slots = [entry; SLOTS];
                if entry.is_node() {
                    // SAFETY: the writer lock is held: linked nodes stay what they are.
                    let node = unsafe { Node::at(self.arena.base(), entry) };
                    slots = node.expand();
                    // SAFETY: the same.
                    doomed.push(unsafe { block_of(self.arena.base(), entry) });
                }
                for (out, slot) in out.iter_mut().zip(slots) {
                    *out.get_mut() = slot.0;
                }
            }
            drop(old);
            self.root.publish(domain, new);
            writer.bits += STRIDE;
            writer.units -= doomed.iter().map(|b| usize::from(b.units)).sum::<usize>();
            self.arena.free_later(&doomed);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Writer<A>> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<A: Addr> Drop for Lpm<A> {
    fn drop(&mut self) {
        let root = self.root.read_control(self.arena.domain());
        let mut blocks = Vec::new();
        for word in &root.entries {
            let entry = Entry(word.load(Ordering::Relaxed));
            // SAFETY: `&mut self`: nobody reads the table any more, so it stands still.
            unsafe { blocks_below(self.arena.base(), entry, &mut blocks) };
        }
        self.arena.free_now(&blocks);
    }
}

impl<A: Addr> fmt::Debug for Lpm<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} table of {} routes", A::FAMILY, self.len())
    }
}
