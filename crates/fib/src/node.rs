//! The inner node of a forwarding table: what follows for each value of 8 address bits.
//!
//! 256 slots are stored as runs of equal entries: a bitmap marks where a run begins, the
//! number of marks up to a slot is the index of its entry. Layout from the start of its
//! block: bitmap (4 words of 64 bits), marks before each word (4 bytes), number of
//! entries (2 bytes), 2 spare bytes, then the entries. Small nodes fit one cache line.
//!
//! Bitmap and number are written before publication and never again; entries are atomic,
//! so a change that keeps the runs is one store.

use crate::arena::{Arena, Block, UNIT};
use crate::dpo::Dpo;
use crate::error::FibError;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, Ordering};

/// Bits of an address that one node decides.
pub(crate) const STRIDE: u8 = 8;
/// Slots of a node.
pub(crate) const SLOTS: usize = 1 << STRIDE;
/// The kind number (in a [`Dpo`]'s place) of a reference to a node.
const NODE: u32 = 0xf << Dpo::INDEX_BITS;

/// What a slot holds: the bits of a [`Dpo`], or a reference to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Entry(pub(crate) u32);

impl Entry {
    #[inline]
    pub(crate) const fn leaf(dpo: Dpo) -> Entry {
        Entry(dpo.bits())
    }

    #[inline]
    pub(crate) const fn node(at: u32) -> Entry {
        Entry(NODE | at)
    }

    #[inline]
    pub(crate) const fn is_node(self) -> bool {
        self.0 >= NODE
    }

    /// The unit that the node begins at.
    #[inline]
    pub(crate) const fn at(self) -> u32 {
        self.0 & !NODE
    }
}

#[repr(C)]
struct Head {
    bitmap: [u64; 4],
    before: [u8; 4],
    len: u16,
    spare: u16,
}

const HEAD: usize = size_of::<Head>();
const _: () = assert!(HEAD == 40);

/// Units of a node with `len` entries.
const fn units(len: usize) -> usize {
    (HEAD + len * 4).div_ceil(UNIT)
}

/// A node in an arena, for reading. The pointer, not a reference to the head: what is behind the head could
/// not be reached from that.
#[derive(Clone, Copy)]
pub(crate) struct Node<'a> {
    at: *const u8,
    block: PhantomData<&'a Head>,
}

impl<'a> Node<'a> {
    /// The node that `entry` refers to.
    ///
    /// # Safety
    /// `base` is that of the arena which the entry was allocated from, and the node's
    /// block is not freed during `'a`.
    #[inline(always)]
    pub(crate) unsafe fn at(base: *const u8, entry: Entry) -> Node<'a> {
        debug_assert!(entry.is_node());
        Node {
            at: base.wrapping_add(entry.at() as usize * UNIT),
            block: PhantomData,
        }
    }

    #[inline(always)]
    fn head(self) -> &'a Head {
        // SAFETY: by the promise of `at` a written node begins there; units are aligned to
        // more than the head needs.
        unsafe { &*self.at.cast() }
    }

    /// The entry of a slot.
    #[inline(always)]
    pub(crate) fn get(self, slot: u8) -> Entry {
        Entry(self.word(slot).load(Ordering::Acquire))
    }

    /// The word that holds the entry of a slot.
    #[inline(always)]
    pub(crate) fn word(self, slot: u8) -> &'a AtomicU32 {
        let (i, bit) = (usize::from(slot >> 6), u32::from(slot & 63));
        let head = self.head();
        let upto = head.bitmap[i] & (u64::MAX >> (63 - bit));
        // Slot 0 is always marked, so the count is at least 1.
        let run = usize::from(head.before[i]) + upto.count_ones() as usize - 1;
        let first = self.at.wrapping_add(HEAD);
        // SAFETY: the head is followed by as many entries as the bitmap has marks, in the
        // same block; they are 4-byte aligned and only accessed as atomics.
        unsafe { &*first.cast::<AtomicU32>().add(run) }
    }

    /// All 256 slots.
    pub(crate) fn expand(self) -> [Entry; SLOTS] {
        let mut slots = [Entry::default(); SLOTS];
        for (i, slot) in slots.iter_mut().enumerate() {
            *slot = self.get(i as u8);
        }
        slots
    }

    fn block(self, at: u32) -> Block {
        Block {
            at,
            units: units(usize::from(self.head().len)) as u8,
        }
    }
}

/// A node's contents before they are placed: the runs of 256 slots.
pub(crate) struct Runs {
    bitmap: [u64; 4],
    entries: [Entry; SLOTS],
    len: usize,
}

impl Runs {
    pub(crate) fn of(slots: &[Entry; SLOTS]) -> Runs {
        let mut bitmap = [0u64; 4];
        for (w, word) in bitmap.iter_mut().enumerate() {
            for bit in 0..64 {
                let i = w * 64 + bit;
                let begins = i == 0 || slots[i] != slots[i - 1];
                *word |= u64::from(begins) << bit;
            }
        }
        let mut runs = Runs {
            bitmap,
            entries: [Entry::default(); SLOTS],
            len: 0,
        };
        for (w, mut word) in bitmap.into_iter().enumerate() {
            while word != 0 {
                runs.entries[runs.len] = slots[w * 64 + word.trailing_zeros() as usize];
                runs.len += 1;
                word &= word - 1;
            }
        }
        runs
    }

    /// The entries.
    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries[..self.len]
    }

    /// Whether `node` has its runs at the same places.
    pub(crate) fn same_shape(&self, node: Node<'_>) -> bool {
        self.bitmap == node.head().bitmap
    }

    /// The words of a node of the same shape that hold something else, and what they
    /// should hold.
    pub(crate) fn differing<'a>(
        &self,
        node: Node<'a>,
    ) -> impl Iterator<Item = (&'a AtomicU32, Entry)> {
        let first = self.marks().map(move |slot| node.word(slot));
        let pairs = first.zip(self.entries().iter().copied());
        pairs.filter(|(word, new)| word.load(Ordering::Relaxed) != new.0)
    }

    /// Writes the node into a new block of the arena.
    pub(crate) fn place(&self, arena: &Arena, shrinking: bool) -> Result<Block, FibError> {
        let block = arena.alloc(units(self.len), shrinking)?;
        let mut before = [0u8; 4];
        for i in 1..4 {
            before[i] = before[i - 1] + self.bitmap[i - 1].count_ones() as u8;
        }
        let head = Head {
            bitmap: self.bitmap,
            before,
            len: self.len as u16,
            spare: 0,
        };
        let at = arena.ptr(block.at);
        // SAFETY: the block was just allocated for us alone, with room for the head and
        // `len` entries, and is aligned to a cache line.
        unsafe {
            at.cast::<Head>().write(head);
            let entries = at.add(HEAD).cast::<Entry>();
            entries.copy_from_nonoverlapping(self.entries.as_ptr(), self.len);
        }
        Ok(block)
    }

    /// The first slots of the runs.
    fn marks(&self) -> impl Iterator<Item = u8> {
        let bitmap = self.bitmap;
        (0..=255u8).filter(move |s| bitmap[usize::from(s >> 6)] >> (s & 63) & 1 == 1)
    }
}

/// The blocks of a node and of all nodes below it.
///
/// # Safety
/// As for [`Node::at`]; the tree must not change meanwhile.
pub(crate) unsafe fn blocks_below(base: *const u8, entry: Entry, out: &mut Vec<Block>) {
    if !entry.is_node() {
        return;
    }
    // SAFETY: the caller's promise.
    let node = unsafe { Node::at(base, entry) };
    out.push(node.block(entry.at()));
    let mut last = Entry::default();
    for slot in node.expand() {
        if slot != last {
            // SAFETY: the caller's promise holds for the whole tree.
            unsafe { blocks_below(base, slot, out) };
        }
        last = slot;
    }
}

/// The block of one node.
///
/// # Safety
/// As for [`Node::at`].
pub(crate) unsafe fn block_of(base: *const u8, entry: Entry) -> Block {
    // SAFETY: the caller's promise.
    unsafe { Node::at(base, entry) }.block(entry.at())
}

#[cfg(test)]
mod tests {
    use super::*;
    use parshall_rcu::Domain;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_node_gives_back_its_slots(cuts in prop::collection::vec((any::<u8>(), 0u32..5), 0..300)) {
            let mut slots = [Entry(7); SLOTS];
            for (at, value) in cuts {
                slots[usize::from(at)..].fill(Entry(value));
            }
            let arena = Arena::new(&Domain::new(), 1 << 16, "test").unwrap();
            let block = Runs::of(&slots).place(&arena, false).unwrap();
            // SAFETY: the node was just placed in this arena.
            let node = unsafe { Node::at(arena.base(), Entry::node(block.at)) };
            prop_assert_eq!(node.expand(), slots);
            prop_assert_eq!(node.block(block.at), block);
            prop_assert!(Runs::of(&slots).same_shape(node));
            prop_assert_eq!(Runs::of(&slots).differing(node).count(), 0);
        }
    }

    #[test]
    fn sizes_follow_the_number_of_runs() {
        let alternating = std::array::from_fn(|i| Entry(i as u32 & 1));
        assert_eq!(Runs::of(&alternating).entries().len(), 256);
        assert_eq!(
            (units(256), units(6), units(7)),
            (crate::arena::UNITS_MAX, 1, 2)
        );
    }

    #[test]
    fn node_references_are_no_objects() {
        assert!(Entry::node(0).is_node());
        assert_eq!(Entry::node(Dpo::INDEX_MAX).at(), Dpo::INDEX_MAX);
        let last = Dpo::new(crate::DpoKind::LookupMpls, Dpo::INDEX_MAX);
        assert!(!Entry::leaf(last).is_node());
    }
}
