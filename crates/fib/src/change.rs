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

/// A change that is being built: nothing of it is visible yet. It is of any number of
/// prefixes, which must be in order wherever they are handed on; every node on the way is
/// visited once, however many of them are below it.
pub(crate) struct Change<'a, A: Addr> {
    pub(crate) rib: &'a Rib<A, Dpo>,
    pub(crate) arena: &'a Arena,
    pub(crate) shrinking: bool,
    /// Words that readers see, and what they will hold.
    pub(crate) stores: Vec<(&'a AtomicU32, Entry)>,
    pub(crate) fresh: Vec<Block>,
    pub(crate) doomed: Vec<Block>,
}

/// What a position of the tree gets from above.
#[derive(Clone, Copy)]
struct Above {
    /// The answer where nothing longer matches.
    inherited: Entry,
    /// Length of the longest changed prefix above that matters to the position, or 0:
    /// what matches longer is not touched by it.
    touched: u8,
}

/// Parts changes in order where they leave a slot: those that go on below `depth`, and
/// those of later slots.
fn split_at_slot<A: Addr>(
    changes: &[Prefix<A>],
    within: impl Fn(A) -> bool,
    depth: u8,
) -> (&[Prefix<A>], &[Prefix<A>]) {
    let outside = |c: &Prefix<A>| !within(c.addr());
    let n = changes.iter().position(outside).unwrap_or(changes.len());
    let (these, later) = changes.split_at(n);
    // The shorter of equal addresses come first, and what ends at `depth` begins where the slot does.
    let own = these.iter().take_while(|c| c.len() <= depth).count();
    (&these[own..], later)
}

/// The changes that go on below the slots of a node at `depth`, by slot.
fn groups<A: Addr>(changes: &[Prefix<A>], depth: u8) -> Vec<(u8, &[Prefix<A>])> {
    let (mut out, mut rest) = (Vec::new(), changes);
    while let Some(first) = rest.first() {
        let slot = first.addr().byte(depth);
        let (these, later) = split_at_slot(rest, |a| a.byte(depth) == slot, depth + STRIDE);
        if !these.is_empty() {
            out.push((slot, these));
        }
        rest = later;
    }
    out
}

/// For each slot of a node at `depth`, the longest changed prefix that ends above it.
fn touched<A: Addr>(changes: &[Prefix<A>], depth: u8, above: u8) -> [u8; SLOTS] {
    let mut touched = [above; SLOTS];
    for c in changes.iter().filter(|c| c.len() <= depth + STRIDE) {
        let first = usize::from(c.addr().byte(depth));
        touched[first..first + (SLOTS >> (c.len() - depth))].fill(c.len());
    }
    touched
}

impl<'a, A: Addr> Change<'a, A> {
    /// Builds the change of these prefixes, which are in order, from the root down.
    pub(crate) fn root(&mut self, root: &'a Root, changes: &[Prefix<A>]) -> Result<(), FibError> {
        let (bits, mut rest) = (root.bits, changes);
        while let Some(first) = rest.first() {
            let addr = first.addr();
            if first.len() <= bits {
                let inside = |c: &Prefix<A>| first.contains(c.addr());
                let n = rest.iter().take_while(|c| inside(c)).count();
                let (these, later) = rest.split_at(n);
                self.root_range(root, *first, these)?;
                rest = later;
                continue;
            }
            let slot = addr.top(bits);
            let (these, later) = split_at_slot(rest, |a| a.top(bits) == slot, bits);
            let above = Above {
                inherited: self.inherited(addr, bits),
                touched: 0,
            };
            self.root_slot(root, slot, addr, above, these)?;
            rest = later;
        }
        Ok(())
    }

    /// The part of the root that one prefix covers, with all changes inside: paints the prefix, then what is
    /// longer inside it.
    fn root_range(
        &mut self,
        root: &'a Root,
        cover: Prefix<A>,
        changes: &[Prefix<A>],
    ) -> Result<(), FibError> {
        let bits = root.bits;
        let first = cover.addr().top(bits);
        let size = 1usize << (bits - cover.len());
        let mut slots = vec![(self.inherited(cover.addr(), cover.len()), 0u8); size];
        for (inner, dpo) in self.rib.iter_under(cover, bits) {
            let at = inner.addr().top(bits) - first;
            slots[at..at + (1 << (bits - inner.len()))].fill((Entry::leaf(*dpo), inner.len()));
        }
        let mut touched = vec![cover.len(); size];
        for c in changes.iter().filter(|c| c.len() <= bits) {
            let at = c.addr().top(bits) - first;
            touched[at..at + (1 << (bits - c.len()))].fill(c.len());
        }
        let mut rest = changes;
        for (i, (inherited, winner)) in slots.into_iter().enumerate() {
            let slot = first + i;
            let (below, later) = split_at_slot(rest, |a| a.top(bits) == slot, bits);
            rest = later;
            let touched = if winner <= touched[i] { touched[i] } else { 0 };
            if touched > 0 || !below.is_empty() {
                let above = Above { inherited, touched };
                self.root_slot(root, slot, slot_addr(slot, bits), above, below)?;
            }
        }
        Ok(())
    }

    /// One entry of the root: `addr` is an address in it.
    fn root_slot(
        &mut self,
        root: &'a Root,
        slot: usize,
        addr: A,
        above: Above,
        changes: &[Prefix<A>],
    ) -> Result<(), FibError> {
        let word = &root.entries[slot];
        let old = Entry(word.load(Ordering::Relaxed));
        let id = self.rib.node_at(addr, root.bits);
        let new = self.entry(old, id, root.bits, above, changes)?;
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
    /// the prefixes there (`id`), what it gets from above and the changes below. Where
    /// prefixes exist but all say the same, there is no node: then `old` is what each of
    /// its slots holds.
    fn entry(
        &mut self,
        old: Entry,
        id: Option<NodeId>,
        depth: u8,
        above: Above,
        changes: &[Prefix<A>],
    ) -> Result<Entry, FibError> {
        let Some(id) = id else {
            self.doom_tree(old);
            return Ok(above.inherited);
        };
        if above.touched > 0 || changes.iter().any(|c| c.len() <= depth + STRIDE) {
            return self.rebuild(old, id, depth, above, changes);
        }
        // All changes are further down: mostly the node stays, and a word of it changes at most.
        let node = self.node(old);
        let (mut known, mut in_place) = (Vec::new(), true);
        for (slot, these) in groups(changes, depth) {
            let own = self.rib.match_slot(id, slot).map(|d| Entry::leaf(*d));
            let from_here = Above {
                inherited: own.unwrap_or(above.inherited),
                touched: 0,
            };
            let below = node.map_or(old, |n| n.get(slot));
            let kid = self.rib.kid(id, slot);
            let new = self.entry(below, kid, depth + STRIDE, from_here, these)?;
            if new != below {
                known.push((slot, new));
                in_place &= node.is_some() && new.is_node() && below.is_node();
            }
        }
        match node {
            _ if known.is_empty() => Ok(old),
            Some(node) if in_place => {
                let words = known.into_iter().map(|(slot, new)| (node.word(slot), new));
                self.stores.extend(words);
                Ok(old)
            }
            _ => {
                let (mut slots, _) = self.own_slots(id, depth, above.inherited);
                for &slot in self.rib.kids(id).0 {
                    slots[usize::from(slot)] = node.map_or(old, |n| n.get(slot));
                }
                for (slot, new) in known {
                    slots[usize::from(slot)] = new;
                }
                self.place(old, &slots)
            }
        }
    }

    /// The slots of a node as its own prefixes paint them, and the lengths of those that
    /// win each slot; 0 for an inherited one.
    fn own_slots(&self, id: NodeId, depth: u8, inherited: Entry) -> ([Entry; SLOTS], [u8; SLOTS]) {
        let mut slots = [inherited; SLOTS];
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
        (slots, winner)
    }

    /// Works all slots of a node out again, and what is below them where it must be.
    fn rebuild(
        &mut self,
        old: Entry,
        id: NodeId,
        depth: u8,
        above: Above,
        changes: &[Prefix<A>],
    ) -> Result<Entry, FibError> {
        let (mut slots, winner) = self.own_slots(id, depth, above.inherited);
        let touched = touched(changes, depth, above.touched);
        let (node, (kid_slots, kids)) = (self.node(old), self.rib.kids(id));
        let mut groups = groups(changes, depth).into_iter().peekable();
        for (&slot, &kid) in kid_slots.iter().zip(kids) {
            while let Some((gone, _)) = groups.next_if(|g| g.0 < slot) {
                self.doom_tree(node.map_or(old, |n| n.get(gone)));
            }
            let these = groups.next_if(|g| g.0 == slot).map_or(&[][..], |g| g.1);
            let (at, below) = (usize::from(slot), node.map_or(old, |n| n.get(slot)));
            let above = Above {
                inherited: slots[at],
                touched: if winner[at] <= touched[at] {
                    touched[at]
                } else {
                    0
                },
            };
            slots[at] = if above.touched > 0 || !these.is_empty() {
                self.entry(below, Some(kid), depth + STRIDE, above, these)?
            } else {
                below
            };
        }
        for (gone, _) in groups {
            self.doom_tree(node.map_or(old, |n| n.get(gone)));
        }
        self.place(old, &slots)
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
