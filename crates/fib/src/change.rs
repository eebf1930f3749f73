//! Working a change of a table out: which words readers see must hold what, and which
//! nodes come and go for it. Nothing is visible until [`crate::lpm`] stores the result.

use crate::addr::Addr;
use crate::arena::{Arena, Block};
use crate::dpo::Dpo;
use crate::error::FibError;
use crate::lpm::Root;
use crate::node::{Entry, Node, Runs, SLOTS, STRIDE, block_of, blocks_below};
use crate::prefix::Prefix;
use crate::rib::{NodeId, Rib, bits_of};
use std::sync::atomic::{AtomicU32, Ordering};

/// A change that is being built: nothing of it is visible yet.
pub(crate) struct Change<'a, A: Addr> {
    pub(crate) rib: &'a Rib<A, Dpo>,
    pub(crate) arena: &'a Arena,
    pub(crate) prefix: Prefix<A>,
    pub(crate) shrinking: bool,
    /// Words that readers see, and what they will hold.
    pub(crate) stores: Vec<(&'a AtomicU32, Entry)>,
    pub(crate) fresh: Vec<Block>,
    pub(crate) doomed: Vec<Block>,
}

impl<'a, A: Addr> Change<'a, A> {
    /// Builds the change from the root down.
    pub(crate) fn root(&mut self, root: &'a Root) -> Result<(), FibError> {
        let (addr, len, bits) = (self.prefix.addr(), self.prefix.len(), root.bits);
        if len > bits {
            let inherited = self.inherited(addr, bits);
            return self.root_slot(root, addr.top(bits), addr, inherited);
        }
        // The prefix covers whole entries: paint it, then what is longer inside it.
        let first = addr.top(bits);
        let mut slots = vec![(self.inherited(addr, len), 0u8); 1 << (bits - len)];
        for (inner, dpo) in self.rib.iter_under(self.prefix, bits) {
            let at = inner.addr().top(bits) - first;
            slots[at..at + (1 << (bits - inner.len()))].fill((Entry::leaf(*dpo), inner.len()));
        }
        for (i, (inherited, winner)) in slots.into_iter().enumerate() {
            if winner <= len {
                let slot = first + i;
                self.root_slot(root, slot, slot_addr(slot, bits), inherited)?;
            }
        }
        Ok(())
    }

    /// One entry of the root: `addr` is the first address in it.
    fn root_slot(
        &mut self,
        root: &'a Root,
        slot: usize,
        addr: A,
        inherited: Entry,
    ) -> Result<(), FibError> {
        let word = &root.entries[slot];
        let old = Entry(word.load(Ordering::Relaxed));
        let id = self.rib.node_at(addr, root.bits);
        let new = self.entry(old, id, root.bits, inherited)?;
        if new != old {
            self.stores.push((word, new));
        }
        Ok(())
    }

    /// The longest match of `addr` with at most `max` bits, the default route apart.
    fn inherited(&self, addr: A, max: u8) -> Entry {
        let hit = self
            .rib
            .longest_within(addr, max)
            .filter(|(p, _)| p.len() > 0);
        hit.map_or(Entry::default(), |(_, dpo)| Entry::leaf(*dpo))
    }

    fn node(&self, entry: Entry) -> Option<Node<'a>> {
        // SAFETY: entries come from the table being changed, whose writer lock is held:
        // nodes are only given back after the change.
        entry
            .is_node()
            .then(|| unsafe { Node::at(self.arena.base(), entry) })
    }

    /// What a position at `depth` should hold after the change, given what it holds now,
    /// the prefixes there (`id`) and what it inherits from shorter ones. The position
    /// lies on the way to the prefix or inside it. Where prefixes exist but all say the
    /// same, there is no node: then `old` is what each of its slots holds.
    fn entry(
        &mut self,
        old: Entry,
        id: Option<NodeId>,
        depth: u8,
        inherited: Entry,
    ) -> Result<Entry, FibError> {
        let Some(id) = id else {
            self.doom_tree(old);
            return Ok(inherited);
        };
        if self.prefix.len() <= depth + STRIDE {
            return self.rebuild(old, id, depth, inherited, None);
        }
        let slot = self.prefix.addr().byte(depth);
        let inherits = self
            .rib
            .match_slot(id, slot)
            .map_or(inherited, |d| Entry::leaf(*d));
        let node = self.node(old);
        let below = node.map_or(old, |n| n.get(slot));
        let new = self.entry(below, self.rib.kid(id, slot), depth + STRIDE, inherits)?;
        match node {
            _ if new == below => Ok(old),
            Some(node) if new.is_node() && below.is_node() => {
                self.stores.push((node.word(slot), new));
                Ok(old)
            }
            _ => self.rebuild(old, id, depth, inherited, Some((slot, new))),
        }
    }

    /// Works all slots of a node out again; `known` is a slot that is done already.
    fn rebuild(
        &mut self,
        old: Entry,
        id: NodeId,
        depth: u8,
        inherited: Entry,
        known: Option<(u8, Entry)>,
    ) -> Result<Entry, FibError> {
        let mut slots = [inherited; SLOTS];
        // Length of the prefix that wins each slot; 0 for an inherited one.
        let mut winner = [0u8; SLOTS];
        let (numbers, values) = self.rib.own(id);
        for (number, value) in numbers.iter().zip(values) {
            let (first, bits) = bits_of(*number);
            if bits == 0 {
                continue; // the default route is not pushed down
            }
            let range = usize::from(first)..usize::from(first) + (SLOTS >> bits);
            slots[range.clone()].fill(Entry::leaf(*value));
            winner[range].fill(depth + bits);
        }
        let node = self.node(old);
        let (kid_slots, kids) = self.rib.kids(id);
        for (&slot, &kid) in kid_slots.iter().zip(kids) {
            let at = usize::from(slot);
            let below = node.map_or(old, |n| n.get(slot));
            slots[at] = match known {
                Some((s, entry)) if s == slot => entry,
                _ if !self.inherits(depth, slot, winner[at]) => below,
                _ => self.entry(below, Some(kid), depth + STRIDE, slots[at])?,
            };
        }
        self.place(old, &slots)
    }

    /// Whether what lies below a slot inherits from the changed prefix, or would if it
    /// were there.
    fn inherits(&self, depth: u8, slot: u8, winner: u8) -> bool {
        let len = self.prefix.len();
        let bits = len.saturating_sub(depth).min(STRIDE);
        let differ = u16::from(slot ^ self.prefix.addr().byte(depth));
        len <= depth + STRIDE && differ >> (STRIDE - bits) == 0 && winner <= len
    }

    /// An entry with these slots below it: the old node, if stores can make it so, a new
    /// one, or none at all if every slot says the same.
    fn place(&mut self, old: Entry, slots: &[Entry; SLOTS]) -> Result<Entry, FibError> {
        let runs = Runs::of(slots);
        if let Some(node) = self.node(old) {
            if runs.same_shape(node) {
                self.stores.extend(runs.differing(node));
                return Ok(old);
            }
            // SAFETY: as in `node`.
            self.doomed
                .push(unsafe { block_of(self.arena.base(), old) });
        }
        if let [all] = runs.entries() {
            return Ok(*all);
        }
        let block = runs.place(self.arena, self.shrinking)?;
        self.fresh.push(block);
        Ok(Entry::node(block.at))
    }

    fn doom_tree(&mut self, entry: Entry) {
        // SAFETY: as in `node`.
        unsafe { blocks_below(self.arena.base(), entry, &mut self.doomed) };
    }
}

/// The first address of a root's entry.
fn slot_addr<A: Addr>(slot: usize, bits: u8) -> A {
    match bits {
        0 => A::default(),
        8 => A::from_byte(slot as u8, 0),
        _ => A::from_byte((slot >> 8) as u8, 0).or(A::from_byte(slot as u8, 8)),
    }
}
