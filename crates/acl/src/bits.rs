//! Sets of rules as rows of bits, and the tables that lead from a byte or a port to one.
//!
//! Many values mean the same to all rules, so a table holds the number of a class for every value, and a row for
//! every class: the rows of a few hundred rules then stay in the cache.

use std::collections::HashMap;

/// 256 rules: what one vector instruction takes. Bit `i` of word `w` is rule `64 w + i` of the block.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(C, align(32))]
pub struct Block(pub [u64; 4]);

impl Block {
    /// All rules.
    pub const ALL: Block = Block([!0; 4]);
    /// None.
    pub const NONE: Block = Block([0; 4]);

    /// Those in both.
    #[inline(always)]
    pub fn and(self, other: &Block) -> Block {
        let (a, b) = (self.0, other.0);
        Block([a[0] & b[0], a[1] & b[1], a[2] & b[2], a[3] & b[3]])
    }
    /// The lowest rule in it.
    #[inline(always)]
    pub fn first(self) -> Option<u32> {
        // Word by word, each by its place: an index that is found out would put them into memory.
        let [a, b, c, d] = self.0;
        let lowest = |w: u64, at: u32| Some(at + w.trailing_zeros());
        match () {
            () if a != 0 => lowest(a, 0),
            () if b != 0 => lowest(b, 64),
            () if c != 0 => lowest(c, 128),
            () if d != 0 => lowest(d, 192),
            () => None,
        }
    }
}

/// A set of rules while it is made: as many blocks as the rules need.
pub type Row = Vec<Block>;

/// Rows of all tables, each of the same number of blocks, without duplicates within a table.
pub struct Rows {
    /// Blocks of a row.
    pub blocks: usize,
    /// All of them, one row after the other.
    pub all: Vec<Block>,
}

impl Rows {
    /// None yet, for so many rules.
    pub fn new(rules: usize) -> Rows {
        Rows {
            blocks: rules.div_ceil(256).max(1),
            all: Vec::new(),
        }
    }
    /// A row of the rules for which `is` holds.
    pub fn make(&self, rules: usize, is: impl Fn(usize) -> bool) -> Row {
        let mut row = vec![Block::NONE; self.blocks];
        (0..rules).filter(|i| is(*i)).for_each(|i| set(&mut row, i));
        row
    }
    /// The rows, where each is of one block.
    #[inline(always)]
    pub fn only(&self) -> Option<Only<'_>> {
        (self.blocks == 1).then_some(Only(&self.all))
    }
    /// Keeps a row; says where it begins.
    pub fn keep(&mut self, row: &[Block]) -> u32 {
        let at = self.all.len() as u32;
        self.all.extend_from_slice(row);
        at
    }
}

/// Rows of one block each.
pub struct Only<'r>(&'r [Block]);

impl Only<'_> {
    /// The row at a place, which a table gave; without one, of no rule.
    #[inline(always)]
    pub fn at(&self, at: u32) -> &Block {
        self.0.get(at as usize).unwrap_or(&Block::NONE)
    }
}

/// Puts rule `i` into a row.
pub fn set(row: &mut [Block], i: usize) {
    if let Some(block) = row.get_mut(i / 256) {
        block.0[i % 256 / 64] |= 1 << (i % 64);
    }
}

/// Where the row of each value of a byte begins.
pub struct ByteTable(pub [u32; 256]);

impl ByteTable {
    /// The table in which rule `i` is in the rows of the values `range(i)`, first to last.
    pub fn new(rows: &mut Rows, rules: usize, range: impl Fn(usize) -> (u8, u8)) -> ByteTable {
        let always = rows.make(rules, |i| range(i) == (0, 255));
        let mut made = vec![always; 256];
        for i in 0..rules {
            let (first, last) = range(i);
            if (first, last) != (0, 255) {
                (first..=last).for_each(|v| set(&mut made[usize::from(v)], i));
            }
        }
        ByteTable::of(rows, made.iter().map(Vec::as_slice))
    }

    /// The table in which rule `i` is in the rows of the values `v` for which `is(i, v)` holds.
    pub fn each(rows: &mut Rows, rules: usize, is: impl Fn(usize, u8) -> bool) -> ByteTable {
        let made: Vec<Row> = (0..=255).map(|v| rows.make(rules, |i| is(i, v))).collect();
        ByteTable::of(rows, made.iter().map(Vec::as_slice))
    }

    fn of<'a>(rows: &mut Rows, made: impl Iterator<Item = &'a [Block]>) -> ByteTable {
        let mut known: HashMap<&[Block], u32> = HashMap::new();
        let mut table = [0; 256];
        for (slot, row) in table.iter_mut().zip(made) {
            *slot = *known.entry(row).or_insert_with(|| rows.keep(row));
        }
        ByteTable(table)
    }

    /// Where the row of a value begins.
    #[inline(always)]
    pub fn at(&self, value: u8) -> u32 {
        self.0[usize::from(value)]
    }
}

/// Where the row of each port begins: by the high byte, and where that does not decide, by the low one.
pub struct PortTable {
    /// A row, or with [`LEAF`] the number of a leaf.
    top: [u32; 256],
    leaves: Vec<[u32; 256]>,
}

/// Marks the number of a leaf.
const LEAF: u32 = 1 << 31;

impl PortTable {
    /// The table in which rule `i` is in the rows of the ports `range(i)`, first to last.
    pub fn new(rows: &mut Rows, rules: usize, range: impl Fn(usize) -> (u16, u16)) -> PortTable {
        // Ports between two neighbouring bounds mean the same.
        let mut bounds: Vec<u32> = vec![0, 1 << 16];
        for i in 0..rules {
            let (first, last) = range(i);
            bounds.extend([u32::from(first), u32::from(last) + 1]);
        }
        bounds.sort_unstable();
        bounds.dedup();
        let mut known: HashMap<Row, u32> = HashMap::new();
        let mut table = PortTable {
            top: [0; 256],
            leaves: Vec::new(),
        };
        for pair in bounds.windows(2) {
            let (from, to) = (pair[0], pair[1]);
            let within = |i| {
                let (first, last) = range(i);
                (u32::from(first)..=u32::from(last)).contains(&from)
            };
            let row = rows.make(rules, within);
            let at = match known.get(&row) {
                Some(at) => *at,
                None => *known.entry(row.clone()).or_insert_with(|| rows.keep(&row)),
            };
            table.fill(from, to, at);
        }
        table
    }

    /// Ports `from` up to, not including, `to` have the row at `at`.
    fn fill(&mut self, from: u32, to: u32, at: u32) {
        let mut port = from;
        while port < to {
            let high = (port >> 8) as usize;
            let end = ((port >> 8) + 1) << 8;
            if port & 0xFF == 0 && end <= to {
                self.top[high] = at;
            } else {
                if self.top[high] & LEAF == 0 {
                    let all = [self.top[high]; 256];
                    self.top[high] = LEAF | self.leaves.len() as u32;
                    self.leaves.push(all);
                }
                let leaf = &mut self.leaves[(self.top[high] & !LEAF) as usize];
                let (a, b) = (port & 0xFF, end.min(to) - (port & !0xFF));
                leaf[a as usize..b as usize].fill(at);
            }
            port = end;
        }
    }

    /// Where the row of a port begins.
    #[inline(always)]
    pub fn at(&self, port: u16) -> u32 {
        let top = self.top[usize::from(port >> 8)];
        if top & LEAF == 0 {
            return top;
        }
        let leaf = self.leaves.get((top & !LEAF) as usize);
        leaf.map_or(0, |l| l[usize::from(port & 0xFF)])
    }

    /// Whether every port means the same.
    pub fn is_uniform(&self) -> bool {
        self.top.iter().all(|t| *t == self.top[0] && t & LEAF == 0)
    }
}
