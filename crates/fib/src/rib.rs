//! A map from prefixes to values, for the control side: exact get, insert and remove,
//! longest match, ordered iteration; about 10 bytes a prefix beside the value.
//!
//! A tree of nodes that each hold the prefixes whose last bits are 1 to 8 bits after the
//! node's depth. A prefix within a node has a number: 1 followed by its bits (2 to 511;
//! 1 is the prefix of length 0 at the top). Numbers and values of a node are two parallel
//! sorted blocks of a pool, so a node itself is 12 bytes.

use crate::addr::Addr;
use crate::prefix::Prefix;
use std::fmt;

/// Bits that one node decides.
const STRIDE: u8 = 8;

/// Index of a node.
pub(crate) type NodeId = u32;

/// Block sizes: steps of a quarter, so that at most a fifth of a block is spare.
const CLASSES: [u16; 32] = [
    1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160,
    192, 224, 256, 320, 384, 448, 512,
];

/// The class of blocks for `n` items; `n` is at most 512.
fn class(n: usize) -> usize {
    CLASSES.partition_point(|&size| usize::from(size) < n)
}

/// Where a node's items are; their number is kept beside.
#[derive(Clone, Copy, Default)]
struct List {
    at: u32,
    len: u16,
}

/// Sorted lists of keys with values, in blocks.
struct Pool<K, V> {
    keys: Vec<K>,
    values: Vec<V>,
    free: Vec<Vec<u32>>,
    /// Places in free blocks.
    spare: usize,
}

impl<K: Copy + Ord + Default, V: Copy + Default> Pool<K, V> {
    const fn new() -> Self {
        Pool {
            keys: Vec::new(),
            values: Vec::new(),
            free: Vec::new(),
            spare: 0,
        }
    }

    /// Whether most of it is free.
    fn is_sparse(&self) -> bool {
        self.keys.len() >= PACK_FROM && self.spare > self.keys.len() / 2
    }

    /// Room for what another pool has in use.
    fn reserve(&mut self, other: &Self) {
        self.keys.reserve_exact(other.keys.len() - other.spare);
        self.values.reserve_exact(other.keys.len() - other.spare);
    }

    /// A copy of a list of another pool.
    fn copy_of(&mut self, other: &Self, list: List) -> List {
        if list.len == 0 {
            return List::default();
        }
        let copy = List {
            at: self.alloc(class(usize::from(list.len))),
            ..list
        };
        let range = Self::range(copy);
        self.keys[range.clone()].copy_from_slice(other.keys(list));
        self.values[range].copy_from_slice(other.values(list));
        copy
    }

    fn range(list: List) -> std::ops::Range<usize> {
        list.at as usize..list.at as usize + usize::from(list.len)
    }

    fn keys(&self, list: List) -> &[K] {
        &self.keys[Self::range(list)]
    }

    fn values(&self, list: List) -> &[V] {
        &self.values[Self::range(list)]
    }

    fn find(&self, list: List, key: K) -> Option<usize> {
        Some(list.at as usize + self.keys(list).binary_search(&key).ok()?)
    }

    /// Puts a key that is not there yet into its place.
    fn insert(&mut self, list: &mut List, key: K, value: V) {
        let place = self.keys(*list).partition_point(|k| *k < key);
        let (old, len) = (*list, usize::from(list.len));
        if len == 0 || class(len) != class(len + 1) {
            list.at = self.alloc(class(len + 1));
            self.copy(old.at as usize..old.at as usize + place, list.at as usize);
        }
        let (from, to) = (old.at as usize + place, list.at as usize + place);
        self.copy(from..old.at as usize + len, to + 1);
        self.keys[to] = key;
        self.values[to] = value;
        list.len += 1;
        if old.at != list.at && len > 0 {
            self.free(old.at, class(len));
        }
    }

    /// Takes out the item at `place` (as [`Pool::find`] gives it).
    fn remove(&mut self, list: &mut List, place: usize) {
        let (old, len) = (*list, usize::from(list.len));
        self.copy(place + 1..old.at as usize + len, place);
        list.len -= 1;
        if list.len == 0 {
            self.free(old.at, class(len));
        } else if class(len - 1) != class(len) {
            list.at = self.alloc(class(len - 1));
            self.copy(old.at as usize..old.at as usize + len - 1, list.at as usize);
            self.free(old.at, class(len));
        }
    }

    fn copy(&mut self, from: std::ops::Range<usize>, to: usize) {
        self.keys.copy_within(from.clone(), to);
        self.values.copy_within(from, to);
    }

    fn alloc(&mut self, class: usize) -> u32 {
        if let Some(at) = self.free.get_mut(class).and_then(Vec::pop) {
            self.spare -= usize::from(CLASSES[class]);
            return at;
        }
        let at = self.keys.len();
        let end = at + usize::from(CLASSES[class]);
        if end > self.keys.capacity() {
            // An eighth at a time: doubling would waste half of what it holds.
            let more = (end - at).max(at / 8).max(16);
            self.keys.reserve_exact(more);
            self.values.reserve_exact(more);
        }
        self.keys.resize(end, K::default());
        self.values.resize(end, V::default());
        at as u32
    }

    fn free(&mut self, at: u32, class: usize) {
        if self.free.len() <= class {
            self.free.resize_with(class + 1, Vec::new);
        }
        self.free[class].push(at);
        self.spare += usize::from(CLASSES[class]);
    }

    fn memory(&self) -> usize {
        let lists: usize = self
            .free
            .iter()
            .map(|f| f.capacity() * 4 + size_of::<Vec<u32>>())
            .sum();
        self.keys.capacity() * size_of::<K>() + self.values.capacity() * size_of::<V>() + lists
    }
}

#[derive(Clone, Copy, Default)]
struct Node {
    prefixes_at: u32,
    kids_at: u32,
    prefixes_len: u16,
    kids_len: u16,
}

impl Node {
    fn prefixes(self) -> List {
        List {
            at: self.prefixes_at,
            len: self.prefixes_len,
        }
    }

    fn kids(self) -> List {
        List {
            at: self.kids_at,
            len: self.kids_len,
        }
    }

    fn set_prefixes(&mut self, list: List) {
        (self.prefixes_at, self.prefixes_len) = (list.at, list.len);
    }

    fn set_kids(&mut self, list: List) {
        (self.kids_at, self.kids_len) = (list.at, list.len);
    }

    fn is_empty(self) -> bool {
        self.prefixes_len == 0 && self.kids_len == 0
    }
}

/// A map from prefixes of one family to small values.
pub struct Rib<A: Addr, V> {
    /// Node 0 is the top and always there.
    nodes: Vec<Node>,
    free_nodes: Vec<NodeId>,
    prefixes: Pool<u16, V>,
    kids: Pool<u8, NodeId>,
    len: usize,
    /// The way to the address last changed: prefixes mostly come in order.
    last: Trail<A>,
}

/// The nodes on the way to an address; the top is left out.
struct Trail<A> {
    addr: A,
    nodes: [NodeId; 15],
    len: u8,
}

/// Places of a pool from which on it is worth packing it when half of it is free.
const PACK_FROM: usize = 4096;

/// The depth of the node that prefixes of this length live in.
pub(crate) fn depth_of(len: u8) -> u8 {
    len.saturating_sub(1) / STRIDE * STRIDE
}

/// The number of a prefix within its node.
fn number<A: Addr>(prefix: Prefix<A>) -> u16 {
    let depth = depth_of(prefix.len());
    number_at(prefix.addr().byte(depth), prefix.len() - depth)
}

/// The number of the prefix of `bits` (0 to 8) bits that `byte` lies in.
fn number_at(byte: u8, bits: u8) -> u16 {
    1 << bits | u16::from(byte) >> (STRIDE - bits)
}

/// The bits of a number, at the top of a byte, and how many they are.
pub(crate) fn bits_of(number: u16) -> (u8, u8) {
    let bits = number.ilog2() as u8;
    (((number << (STRIDE - bits)) & 0xff) as u8, bits)
}

impl<A: Addr, V: Copy + Default> Default for Rib<A, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<A: Addr, V: Copy + Default> Rib<A, V> {
    /// An empty map.
    #[must_use]
    pub fn new() -> Self {
        Rib {
            nodes: vec![Node::default()],
            free_nodes: Vec::new(),
            prefixes: Pool::new(),
            kids: Pool::new(),
            len: 0,
            last: Trail {
                addr: A::default(),
                nodes: [0; 15],
                len: 0,
            },
        }
    }

    /// Number of prefixes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it holds no prefix.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes in use.
    #[must_use]
    pub fn memory(&self) -> usize {
        size_of::<Self>()
            + self.nodes.capacity() * size_of::<Node>()
            + self.free_nodes.capacity() * size_of::<NodeId>()
            + self.prefixes.memory()
            + self.kids.memory()
    }

    /// The value of exactly this prefix.
    #[must_use]
    pub fn get(&self, prefix: Prefix<A>) -> Option<&V> {
        let node = self.node_at(prefix.addr(), depth_of(prefix.len()))?;
        let list = self.nodes[node as usize].prefixes();
        self.prefixes
            .find(list, number(prefix))
            .map(|place| &self.prefixes.values[place])
    }

    /// The value of exactly this prefix, to change in place.
    #[must_use]
    pub fn get_mut(&mut self, prefix: Prefix<A>) -> Option<&mut V> {
        let node = self.node_at(prefix.addr(), depth_of(prefix.len()))?;
        let list = self.nodes[node as usize].prefixes();
        self.prefixes
            .find(list, number(prefix))
            .map(|place| &mut self.prefixes.values[place])
    }

    /// Sets the value of a prefix; returns the one it had.
    pub fn insert(&mut self, prefix: Prefix<A>, value: V) -> Option<V> {
        let node = self.make_node(prefix.addr(), depth_of(prefix.len())) as usize;
        let (mut list, key) = (self.nodes[node].prefixes(), number(prefix));
        if let Some(place) = self.prefixes.find(list, key) {
            return Some(std::mem::replace(&mut self.prefixes.values[place], value));
        }
        self.prefixes.insert(&mut list, key, value);
        self.nodes[node].set_prefixes(list);
        self.len += 1;
        None
    }

    /// Takes a prefix out; returns its value.
    pub fn remove(&mut self, prefix: Prefix<A>) -> Option<V> {
        let depth = depth_of(prefix.len());
        let node = self.node_at(prefix.addr(), depth)? as usize;
        let mut list = self.nodes[node].prefixes();
        let place = self.prefixes.find(list, number(prefix))?;
        let value = self.prefixes.values[place];
        self.prefixes.remove(&mut list, place);
        self.nodes[node].set_prefixes(list);
        self.len -= 1;
        if self.nodes[node].is_empty() {
            self.prune(prefix.addr(), depth);
        }
        if self.prefixes.is_sparse() || self.kids.is_sparse() {
            self.pack();
        }
        Some(value)
    }

    /// The longest prefix that contains `addr`.
    #[must_use]
    pub fn longest_match(&self, addr: A) -> Option<(Prefix<A>, &V)> {
        self.longest_within(addr, A::WIDTH)
    }

    /// The longest prefix of at most `max` bits that contains `addr`.
    #[must_use]
    pub fn longest_within(&self, addr: A, max: u8) -> Option<(Prefix<A>, &V)> {
        let (mut best, mut node, mut depth) = (None, 0, 0);
        loop {
            let bits = max.saturating_sub(depth).min(STRIDE);
            let list = self.nodes[node as usize].prefixes();
            if let Some((bits, place)) = self.match_in(list, addr.byte(depth), bits) {
                best = Some((depth + bits, place));
            }
            depth += STRIDE;
            if depth >= max.min(A::WIDTH) {
                break;
            }
            match self.kid(node, addr.byte(depth - STRIDE)) {
                Some(kid) => node = kid,
                None => break,
            }
        }
        best.map(|(len, place)| (Prefix::masked(addr, len), &self.prefixes.values[place]))
    }

    /// All prefixes with their values, by address, then the shorter first.
    #[must_use]
    pub fn iter(&self) -> RibIter<'_, A, V> {
        self.iter_under(Prefix::default(), A::WIDTH)
    }

    /// The prefixes inside `under` (itself among them) of at most `max` bits, in order.
    #[must_use]
    pub fn iter_under(&self, under: Prefix<A>, max: u8) -> RibIter<'_, A, V> {
        let mut iter = RibIter {
            rib: self,
            under,
            max,
            stack: Vec::new(),
        };
        let depth = depth_of(under.len());
        if let Some(node) = self.node_at(under.addr(), depth) {
            iter.enter(node, under.addr().masked(depth), depth);
        }
        iter
    }

    /// The longest of a node's prefixes, at most `bits` long, that a byte lies in:
    /// its number of bits and its place.
    fn match_in(&self, list: List, byte: u8, bits: u8) -> Option<(u8, usize)> {
        if list.len == 0 {
            return None;
        }
        let hit = |bits| Some((bits, self.prefixes.find(list, number_at(byte, bits))?));
        (0..=bits).rev().find_map(hit)
    }

    /// The longest of a node's own prefixes (length 0 apart) that a slot lies in.
    pub(crate) fn match_slot(&self, node: NodeId, slot: u8) -> Option<&V> {
        let list = self.nodes[node as usize].prefixes();
        let (bits, place) = self.match_in(list, slot, STRIDE)?;
        (bits > 0).then(|| &self.prefixes.values[place])
    }

    /// A node's own prefixes: their numbers, shorter first, and their values.
    pub(crate) fn own(&self, node: NodeId) -> (&[u16], &[V]) {
        let list = self.nodes[node as usize].prefixes();
        (self.prefixes.keys(list), self.prefixes.values(list))
    }

    /// A node's children by slot.
    pub(crate) fn kids(&self, node: NodeId) -> (&[u8], &[NodeId]) {
        let list = self.nodes[node as usize].kids();
        (self.kids.keys(list), self.kids.values(list))
    }

    /// The child of a node at a slot.
    pub(crate) fn kid(&self, node: NodeId, slot: u8) -> Option<NodeId> {
        let place = self.kids.find(self.nodes[node as usize].kids(), slot)?;
        Some(self.kids.values[place])
    }

    /// The node at `depth` on the way to `addr`.
    pub(crate) fn node_at(&self, addr: A, depth: u8) -> Option<NodeId> {
        let (node, from) = self.start(addr, depth);
        (from..depth)
            .step_by(usize::from(STRIDE))
            .try_fold(node, |node, d| self.kid(node, addr.byte(d)))
    }

    /// The deepest known node on the way to `addr`, at most at `depth`, and its depth.
    fn start(&self, addr: A, depth: u8) -> (NodeId, u8) {
        let levels = (self.last.addr.common(addr) / STRIDE).min(depth / STRIDE);
        match levels.min(self.last.len) {
            0 => (0, 0),
            n => (self.last.nodes[usize::from(n) - 1], n * STRIDE),
        }
    }

    fn make_node(&mut self, addr: A, depth: u8) -> NodeId {
        let (mut node, from) = self.start(addr, depth);
        self.last.addr = addr;
        for d in (from..depth).step_by(usize::from(STRIDE)) {
            let slot = addr.byte(d);
            node = match self.kid(node, slot) {
                Some(kid) => kid,
                None => self.new_kid(node, slot),
            };
            self.last.nodes[usize::from(d / STRIDE)] = node;
        }
        self.last.len = depth / STRIDE;
        node
    }

    /// Copies everything into memory that just fits, in order of address.
    fn pack(&mut self) {
        let mut packed = Rib::new();
        packed.prefixes.reserve(&self.prefixes);
        packed.kids.reserve(&self.kids);
        packed
            .nodes
            .reserve_exact(self.nodes.len() - self.free_nodes.len() - 1);
        self.copy_node(0, 0, &mut packed);
        packed.len = self.len;
        *self = packed;
    }

    fn copy_node(&self, from: NodeId, to: NodeId, packed: &mut Rib<A, V>) {
        let node = self.nodes[from as usize];
        let own = packed.prefixes.copy_of(&self.prefixes, node.prefixes());
        let kids = packed.kids.copy_of(&self.kids, node.kids());
        packed.nodes[to as usize].set_prefixes(own);
        packed.nodes[to as usize].set_kids(kids);
        for (i, &kid) in self.kids.values(node.kids()).iter().enumerate() {
            let id = packed.nodes.len() as NodeId;
            packed.nodes.push(Node::default());
            packed.kids.values[kids.at as usize + i] = id;
            self.copy_node(kid, id, packed);
        }
    }

    fn new_kid(&mut self, node: NodeId, slot: u8) -> NodeId {
        let kid = self.free_nodes.pop().unwrap_or_else(|| {
            if self.nodes.len() == self.nodes.capacity() {
                self.nodes.reserve_exact((self.nodes.len() / 8).max(4));
            }
            self.nodes.push(Node::default());
            self.nodes.len() as NodeId - 1
        });
        self.nodes[kid as usize] = Node::default();
        let mut list = self.nodes[node as usize].kids();
        self.kids.insert(&mut list, slot, kid);
        self.nodes[node as usize].set_kids(list);
        kid
    }

    /// Removes the empty node at `depth` and those above it that become empty.
    fn prune(&mut self, addr: A, depth: u8) {
        let mut depth = depth;
        // The way may lead through what goes now.
        self.last.len = 0;
        while depth > 0 {
            depth -= STRIDE;
            let Some(parent) = self.node_at(addr, depth) else {
                return;
            };
            let mut list = self.nodes[parent as usize].kids();
            let Some(place) = self.kids.find(list, addr.byte(depth)) else {
                return;
            };
            self.free_nodes.push(self.kids.values[place]);
            self.kids.remove(&mut list, place);
            self.nodes[parent as usize].set_kids(list);
            if !self.nodes[parent as usize].is_empty() {
                return;
            }
        }
    }
}

impl<A: Addr, V: Copy + Default> fmt::Debug for Rib<A, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Rib({} prefixes, {} nodes)",
            self.len,
            self.nodes.len() - self.free_nodes.len()
        )
    }
}

impl<'a, A: Addr, V: Copy + Default> IntoIterator for &'a Rib<A, V> {
    type Item = (Prefix<A>, &'a V);
    type IntoIter = RibIter<'a, A, V>;

    fn into_iter(self) -> RibIter<'a, A, V> {
        self.iter()
    }
}

/// What a node holds, in the order of addresses: (first byte, bits; 9 for a child), place
/// of the value or the child's index.
type Item = ((u8, u8), u32);

const CHILD: u8 = STRIDE + 1;

struct Level<A> {
    base: A,
    depth: u8,
    items: std::vec::IntoIter<Item>,
}

/// Ordered iteration over a [`Rib`].
pub struct RibIter<'a, A: Addr, V> {
    rib: &'a Rib<A, V>,
    under: Prefix<A>,
    max: u8,
    stack: Vec<Level<A>>,
}

impl<A: Addr, V: Copy + Default> RibIter<'_, A, V> {
    fn enter(&mut self, node: NodeId, base: A, depth: u8) {
        let rib = self.rib;
        let node = rib.nodes[node as usize];
        let own = rib
            .prefixes
            .keys(node.prefixes())
            .iter()
            .zip(node.prefixes_at..);
        let own = own.map(|(number, place)| (bits_of(*number), place));
        let kids = rib
            .kids
            .keys(node.kids())
            .iter()
            .zip(rib.kids.values(node.kids()));
        let kids = kids.map(|(slot, kid)| ((*slot, CHILD), *kid));
        let (under, max) = (self.under, self.max);
        let wanted = |&((byte, bits), _): &Item| {
            let len = depth + bits;
            let inside = under.contains(base.or(A::from_byte(byte, depth)));
            len <= max && len >= under.len() && inside
        };
        let mut items: Vec<Item> = own.chain(kids).filter(wanted).collect();
        items.sort_unstable_by_key(|item| item.0);
        self.stack.push(Level {
            base,
            depth,
            items: items.into_iter(),
        });
    }
}

impl<'a, A: Addr, V: Copy + Default> Iterator for RibIter<'a, A, V> {
    type Item = (Prefix<A>, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let level = self.stack.last_mut()?;
            let Some(((byte, bits), index)) = level.items.next() else {
                self.stack.pop();
                continue;
            };
            let (base, depth) = (level.base.or(A::from_byte(byte, level.depth)), level.depth);
            if bits == CHILD {
                self.enter(index, base, depth + STRIDE);
            } else {
                let value = &self.rib.prefixes.values[index as usize];
                return Some((Prefix::masked(base, depth + bits), value));
            }
        }
    }
}

impl<A: Addr, V> fmt::Debug for RibIter<'_, A, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "RibIter(at depth {:?})",
            self.stack.last().map(|l| l.depth)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lpm_tests::{adversarial4, adversarial6};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn against_a_sorted_map<A: Addr>(ops: Vec<(Prefix<A>, Option<u32>)>, probe: &[A]) {
        let (mut rib, mut model) = (Rib::new(), BTreeMap::new());
        for (prefix, value) in ops {
            match value {
                Some(v) => assert_eq!(rib.insert(prefix, v), model.insert(prefix, v)),
                None => assert_eq!(rib.remove(prefix), model.remove(&prefix)),
            }
            assert_eq!(rib.get(prefix), model.get(&prefix));
            assert_eq!(rib.len(), model.len());
        }
        assert!(rib.iter().eq(model.iter().map(|(p, v)| (*p, v))));
        for (under, _) in model.iter().take(20) {
            let max = under.len().saturating_add(9).min(A::WIDTH);
            let want = model
                .iter()
                .filter(|(p, _)| under.covers(p) && p.len() <= max);
            assert!(rib.iter_under(*under, max).eq(want.map(|(p, v)| (*p, v))));
        }
        for &addr in probe
            .iter()
            .chain(model.keys().map(|p| p.addr()).collect::<Vec<_>>().iter())
        {
            for max in [A::WIDTH, 24, 17, 8, 0] {
                let hits = model
                    .iter()
                    .filter(|(p, _)| p.contains(addr) && p.len() <= max);
                let want = hits.max_by_key(|(p, _)| p.len()).map(|(p, v)| (*p, v));
                assert_eq!(rib.longest_within(addr, max), want);
            }
        }
        let all: Vec<_> = model.keys().copied().collect();
        for prefix in all {
            assert_eq!(rib.remove(prefix), model.remove(&prefix));
        }
        assert_eq!((rib.len(), rib.iter().count()), (0, 0));
        assert_eq!(rib.nodes.len() - 1, rib.free_nodes.len(), "nodes left over");
    }

    proptest! {
        #[test]
        fn it_is_a_map_of_ip4(ops in prop::collection::vec((adversarial4(), any::<Option<u32>>()), 0..200), probe in any::<[u32; 8]>()) {
            against_a_sorted_map(ops, &probe);
        }

        #[test]
        fn it_is_a_map_of_ip6(ops in prop::collection::vec((adversarial6(), any::<Option<u32>>()), 0..200), probe in any::<[u128; 8]>()) {
            against_a_sorted_map(ops, &probe);
        }
    }

    #[test]
    fn numbers_and_bits_agree() {
        for bits in 0..=8u8 {
            for byte in 0..=255u8 {
                let masked = if bits == 0 {
                    0
                } else {
                    byte & (0xffu16 << (8 - bits)) as u8
                };
                assert_eq!(bits_of(number_at(byte, bits)), (masked, bits));
            }
        }
        assert_eq!(
            (
                depth_of(0),
                depth_of(1),
                depth_of(8),
                depth_of(9),
                depth_of(128)
            ),
            (0, 0, 0, 8, 120)
        );
    }

    #[test]
    fn a_crowded_node_stays_in_order() {
        let mut rib = Rib::new();
        for i in (0..256u32).rev() {
            rib.insert(Prefix::masked(i << 24, 8), i);
            rib.insert(Prefix::masked(i << 24, 7), i + 1000);
        }
        assert_eq!(rib.len(), 384);
        let eights: Vec<_> = rib
            .iter()
            .filter(|(p, _)| p.len() == 8)
            .map(|(_, v)| *v)
            .collect();
        assert_eq!(eights, (0..256).collect::<Vec<_>>());
    }
}
