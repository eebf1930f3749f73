//! The MAC table of all bridge domains, as workers read it (IEEE 802.1Q-2022 section 8.8, filtering database).
//!
//! One entry is one word, eight entries a cache line, so a lookup is one line and an answer is never torn. An
//! address and its domain, 60 bits, are mixed by a secret permutation; some of the result choose the line and are
//! not stored, the others are the entry's tag. What is left of the word holds the interface and flags. A line that
//! is full spills into one other line, which follows from the tag; lookups go there only while something is there.
//!
//! Control alone puts entries in and takes them out ([`crate::MacWriter`]). All that workers write is one flag, "seen
//! since control last looked", by compare-and-swap and only where it is not set: what ages an entry costs no more than
//! one write per entry and look, and a flag that comes too late cannot revive an entry that was taken out or moved.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Bridge domains that keys can tell apart.
pub const MAC_DOMAINS: u32 = 1 << 12;
/// Interfaces that entries can name.
pub const MAC_INTERFACES: u32 = 1 << 14;
/// Entries of a line.
pub(crate) const WAYS: usize = 8;

const KEY_BITS: u32 = 60;
const KEY_MASK: u64 = (1 << KEY_BITS) - 1;
const MAC_MASK: u64 = (1 << 48) - 1;
/// Interface and flags of an entry.
const VALUE_BITS: u32 = 18;
/// The entry lies in the line that its key chooses, not in the other one. No empty word has it.
const HOME: u64 = 1 << VALUE_BITS;
const TAG_SHIFT: u32 = VALUE_BITS + 1;
/// Fewest bits that choose a line: what a tag must not have.
const LINE_BITS_MIN: u32 = KEY_BITS + TAG_SHIFT - 64;
const LINE_BITS_MAX: u32 = 24;

/// A MAC address in a bridge domain.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord, Default)]
pub struct MacKey(u64);

impl MacKey {
    /// `mac` as eight bytes read little-endian, of which the upper two do not matter; `domain` is a number below
    /// [`MAC_DOMAINS`].
    #[inline(always)]
    pub const fn of_word(domain: u16, mac: u64) -> MacKey {
        MacKey((mac & MAC_MASK) | ((domain as u64) << 48 & KEY_MASK))
    }
    /// The same of an address in wire order.
    pub const fn new(domain: u16, mac: [u8; 6]) -> MacKey {
        let [a, b, c, d, e, f] = mac;
        MacKey::of_word(domain, u64::from_le_bytes([a, b, c, d, e, f, 0, 0]))
    }
    /// The bridge domain's number.
    pub const fn domain(self) -> u16 {
        (self.0 >> 48) as u16
    }
    /// The address in wire order.
    pub const fn mac(self) -> [u8; 6] {
        let [a, b, c, d, e, f, ..] = self.0.to_le_bytes();
        [a, b, c, d, e, f]
    }
}

/// What the table says of an address: an interface and flags, or nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(transparent)]
pub struct MacEntry(u32);

impl MacEntry {
    /// It is not in the table.
    pub const MISS: MacEntry = MacEntry(0);
    /// It was a source since control last looked.
    pub const SEEN: u32 = 1;
    /// It was configured: it neither moves nor ages.
    pub const STATIC: u32 = 1 << 1;
    /// Frames to and from it are dropped.
    pub const FILTER: u32 = 1 << 2;
    /// It is the address of the domain's routed interface.
    pub const BVI: u32 = 1 << 3;
    /// The interface of entries that have none.
    pub const NOWHERE: u32 = MAC_INTERFACES - 1;
    const IF_SHIFT: u32 = 4;

    /// An entry; `if_index` is from 1 on and below [`MAC_INTERFACES`].
    #[inline(always)]
    pub const fn new(if_index: u32, flags: u32) -> MacEntry {
        MacEntry((if_index & (MAC_INTERFACES - 1)) << Self::IF_SHIFT | flags & 15)
    }
    /// Interface and flags in one word, 0 = miss: for arithmetic over many.
    #[inline(always)]
    pub const fn bits(self) -> u32 {
        self.0
    }
    /// What [`bits`](Self::bits) said.
    #[inline(always)]
    pub const fn from_bits(bits: u32) -> MacEntry {
        MacEntry(bits & ((1 << VALUE_BITS) - 1))
    }
    /// Whether there is an entry.
    #[inline(always)]
    pub const fn is_hit(self) -> bool {
        self.0 != 0
    }
    /// Its interface.
    #[inline(always)]
    pub const fn if_index(self) -> u32 {
        self.0 >> Self::IF_SHIFT
    }
    /// Whether one of these flags is set.
    #[inline(always)]
    pub const fn has(self, flags: u32) -> bool {
        self.0 & flags != 0
    }
    /// Whether it was learned: it may move and ages.
    pub const fn is_learned(self) -> bool {
        !self.has(Self::STATIC | Self::FILTER | Self::BVI)
    }
}

/// Where the entry of a key is to be looked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MacSpot {
    /// The word of the entry, without interface and flags.
    want: u64,
    line: u32,
}

/// Eight entries: one cache line.
#[repr(C, align(64))]
pub(crate) struct Line([AtomicU64; WAYS]);

impl Line {
    pub(crate) fn empty() -> Line {
        Line(std::array::from_fn(|_| AtomicU64::new(0)))
    }

    /// The value whose word begins as `want` does; whatever is no smaller than [`HOME`] says that there is none.
    #[inline(always)]
    fn find(&self, want: u64) -> u64 {
        let each = self.0.iter();
        each.fold(u64::MAX, |least, w| {
            least.min(w.load(Ordering::Relaxed) ^ want)
        })
    }

    /// Sets a flag of the entry that is word `old`, unless it has changed meanwhile.
    pub(crate) fn flag(&self, way: usize, old: u64, flag: u64) {
        // A failure means that control was faster, or another worker: both are as good.
        let _ = self.0[way % WAYS].compare_exchange(
            old,
            old | flag,
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
    }

    pub(crate) fn word(&self, way: usize) -> u64 {
        self.0[way % WAYS].load(Ordering::Relaxed)
    }
    /// Replaces a word, whatever workers write to it at the same time; says what it was. By control.
    pub(crate) fn swap(&self, way: usize, word: u64) -> u64 {
        self.0[way % WAYS].swap(word, Ordering::Relaxed)
    }
    /// Takes flags of a word away. By control.
    pub(crate) fn clear(&self, way: usize, flags: u64) {
        self.0[way % WAYS].fetch_and(!flags, Ordering::Relaxed);
    }
}

/// The table. See the head of this file.
pub struct MacTable {
    lines: Box<[Line]>,
    line_bits: u32,
    /// The secret of the permutation: what is added, and odd factors with their inverses.
    blind: u64,
    factors: [u64; 2],
    inverses: [u64; 2],
    /// Entries that lie in their other line.
    pub(crate) spilled: AtomicU32,
}

impl MacTable {
    /// Room for at least `entries`, at half its words; `seed` makes the permutation.
    pub fn new(entries: u32, seed: u64) -> MacTable {
        let lines = entries.div_ceil(WAYS as u32 / 2).max(1);
        let line_bits = lines
            .next_power_of_two()
            .trailing_zeros()
            .clamp(LINE_BITS_MIN, LINE_BITS_MAX);
        let factors = [1, 2].map(|n| scramble(seed.wrapping_add(n)) | 1);
        MacTable {
            lines: (0..1usize << line_bits).map(|_| Line::empty()).collect(),
            line_bits,
            blind: scramble(seed) & KEY_MASK,
            factors,
            inverses: factors.map(inverse),
            spilled: AtomicU32::new(0),
        }
    }

    /// Entries it is meant for.
    pub fn capacity(&self) -> usize {
        self.lines.len() * WAYS / 2
    }

    /// Bytes it takes.
    pub fn memory(&self) -> usize {
        size_of_val(&*self.lines)
    }

    /// Where to look for `key`.
    #[inline(always)]
    pub fn spot(&self, key: MacKey) -> MacSpot {
        let k = fold(key.0 ^ self.blind).wrapping_mul(self.factors[0]) & KEY_MASK;
        let k = fold(fold(k).wrapping_mul(self.factors[1]) & KEY_MASK);
        MacSpot {
            want: (k >> self.line_bits) << TAG_SHIFT | HOME,
            line: k as u32 & self.line_mask(),
        }
    }

    #[inline(always)]
    fn line_mask(&self) -> u32 {
        (1 << self.line_bits) - 1
    }

    #[inline(always)]
    pub(crate) fn line(&self, at: u32) -> &Line {
        // The mask keeps it inside: there are as many lines as it has values.
        &self.lines[(at & self.line_mask()) as usize]
    }

    pub(crate) fn lines(&self) -> usize {
        self.lines.len()
    }

    /// Asks the processor to fetch the line of a spot.
    #[inline(always)]
    pub fn prefetch(&self, spot: MacSpot) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let at = std::ptr::from_ref(self.line(spot.line));
            // SAFETY: a prefetch of valid memory; it changes nothing.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        let _ = spot;
    }

    /// What the table says of a spot's key.
    #[inline(always)]
    pub fn find(&self, spot: MacSpot) -> MacEntry {
        let found = self.line(spot.line).find(spot.want);
        if found < HOME {
            return MacEntry(found as u32);
        }
        self.find_spilled(spot)
    }

    /// As [`find`](Self::find), by vectors of `BITS` bits.
    ///
    /// # Safety
    /// The CPU has AVX2, and for 512 bits AVX-512 F and VL.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub unsafe fn find_wide<const BITS: u32>(&self, spot: MacSpot) -> MacEntry {
        let line = self.line(spot.line);
        // SAFETY: the caller vouches for the CPU.
        let ways = unsafe {
            if BITS == 512 {
                wide::ways512(line, spot.want)
            } else {
                wide::ways256(line, spot.want)
            }
        };
        // The vector only says where to look: what counts is the word as it is read here.
        let found = line.word(ways.trailing_zeros() as usize) ^ spot.want;
        if found < HOME {
            return MacEntry(found as u32);
        }
        self.find_spilled(spot)
    }

    /// Looks in the other line, if anything lies in one.
    #[cold]
    fn find_spilled(&self, spot: MacSpot) -> MacEntry {
        if self.spilled.load(Ordering::Relaxed) == 0 {
            return MacEntry::MISS;
        }
        let other = self.other(spot);
        let found = self.line(other.line).find(other.want);
        // An empty word looks like the tag 0: interfaces begin at 1.
        let entry = MacEntry(if found < HOME { found as u32 } else { 0 });
        if entry.if_index() == 0 {
            return MacEntry::MISS;
        }
        entry
    }

    /// The spot that an entry's word lies at in `line`.
    pub(crate) fn spot_of(line: u32, word: u64) -> MacSpot {
        MacSpot {
            want: word >> VALUE_BITS << VALUE_BITS,
            line,
        }
    }

    /// The other place of a spot's key.
    pub(crate) fn other(&self, spot: MacSpot) -> MacSpot {
        let tag = spot.want >> TAG_SHIFT;
        MacSpot {
            want: spot.want ^ HOME,
            line: self.opposite(spot.line, tag),
        }
    }

    /// The line that goes with `line` for a tag, and back. Never the same one.
    fn opposite(&self, line: u32, tag: u64) -> u32 {
        let step = tag.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        line ^ ((step as u32 & self.line_mask()) | 1)
    }

    /// The key's source address was seen: sets the flag where it is not set.
    #[cold]
    pub fn touch(&self, spot: MacSpot) {
        for s in [spot, self.other(spot)] {
            let line = self.line(s.line);
            for way in 0..WAYS {
                let word = line.word(way);
                if word ^ s.want < HOME && entry_of(word).if_index() != 0 {
                    if !entry_of(word).has(MacEntry::SEEN) {
                        line.flag(way, word, u64::from(MacEntry::SEEN));
                    }
                    return;
                }
            }
        }
    }

    /// The way of a spot's entry in its line, for control.
    pub(crate) fn way_of(&self, spot: MacSpot) -> Option<usize> {
        let line = self.line(spot.line);
        (0..WAYS).find(|&way| {
            let word = line.word(way);
            word ^ spot.want < HOME && entry_of(word).if_index() != 0
        })
    }

    /// A free way of a line, for control.
    pub(crate) fn free_way(&self, line: u32) -> Option<usize> {
        (0..WAYS).find(|&way| self.line(line).word(way) == 0)
    }

    /// The key of the entry that is `word` in `line`.
    pub(crate) fn key_of(&self, line: u32, word: u64) -> MacKey {
        let tag = word >> TAG_SHIFT;
        let home = if word & HOME == 0 {
            self.opposite(line, tag)
        } else {
            line
        };
        let k = tag << self.line_bits | u64::from(home);
        let k = fold(k).wrapping_mul(self.inverses[1]) & KEY_MASK;
        let k = fold(k).wrapping_mul(self.inverses[0]) & KEY_MASK;
        MacKey(fold(k) ^ self.blind)
    }
}

impl MacSpot {
    /// A hash of the key.
    #[inline(always)]
    pub fn hash(self) -> u32 {
        self.line ^ (self.want >> TAG_SHIFT) as u32
    }
    pub(crate) fn line(self) -> u32 {
        self.line
    }
    pub(crate) fn word(self, entry: MacEntry) -> u64 {
        self.want | u64::from(entry.0)
    }
    pub(crate) fn is_home(self) -> bool {
        self.want & HOME != 0
    }
}

/// The entry in a word.
pub(crate) fn entry_of(word: u64) -> MacEntry {
    MacEntry::from_bits(word as u32)
}

/// Whether a word lies in the line that its key chooses.
pub(crate) fn is_home(word: u64) -> bool {
    word & HOME != 0
}

/// Mixes the upper half of a key into the lower one. Its own inverse.
#[inline(always)]
fn fold(k: u64) -> u64 {
    k ^ k >> (KEY_BITS / 2)
}

/// The finalizer of SplitMix64 (Steele, Lea, Flood 2014).
fn scramble(seed: u64) -> u64 {
    let z = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ z >> 31
}

/// The inverse of an odd number modulo 2^64, by Newton's iteration.
fn inverse(odd: u64) -> u64 {
    let step = |x: u64| x.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(x)));
    // Right in three bits, then in 6, 12, 24, 48 and 96.
    step(step(step(step(step(odd)))))
}

#[cfg(target_arch = "x86_64")]
mod wide {
    //! Which words of a line begin as wanted, a bit each. Words may change while they are read: x86 reads and writes
    //! aligned words whole also as parts of a vector, and callers read the word they are led to once more.

    use std::arch::x86_64::*;

    use super::{HOME, Line, VALUE_BITS};

    /// # Safety
    /// The CPU has AVX-512 F.
    #[inline(always)]
    pub unsafe fn ways512(line: &Line, want: u64) -> u32 {
        // SAFETY: a line is 64 bytes, aligned to as many; the caller vouches for the CPU.
        unsafe {
            let words = _mm512_load_si512(std::ptr::from_ref(line).cast());
            let differ = _mm512_xor_si512(words, _mm512_set1_epi64(want as i64));
            let hits = _mm512_cmplt_epu64_mask(differ, _mm512_set1_epi64(HOME as i64));
            u32::from(hits)
        }
    }

    /// # Safety
    /// The CPU has AVX2.
    #[inline(always)]
    pub unsafe fn ways256(line: &Line, want: u64) -> u32 {
        let at: *const __m256i = std::ptr::from_ref(line).cast();
        // SAFETY: both halves are of a line of 64 bytes, aligned to as many; the caller vouches for the CPU.
        unsafe {
            let want = _mm256_set1_epi64x(want as i64);
            let half = |i: usize| {
                let differ = _mm256_xor_si256(_mm256_load_si256(at.add(i)), want);
                let high = _mm256_srli_epi64::<{ VALUE_BITS as i32 }>(differ);
                let same = _mm256_cmpeq_epi64(high, _mm256_setzero_si256());
                _mm256_movemask_pd(_mm256_castsi256_pd(same)) as u32
            };
            half(0) | half(1) << 4
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn keys_come_back_from_their_words() {
        for (entries, seed) in [(1, 1), (1 << 17, 7), (1 << 20, 99)] {
            let t = MacTable::new(entries, seed);
            for n in 0..2000u64 {
                let key = MacKey::of_word((n % 4096) as u16, scramble(n));
                let spot = t.spot(key);
                let entry = MacEntry::new(1 + n as u32 % 1000, MacEntry::SEEN);
                assert_eq!(t.key_of(spot.line, spot.word(entry)), key);
                let other = t.other(spot);
                assert_ne!(other.line, spot.line);
                assert_eq!(t.key_of(other.line, other.word(entry)), key);
                assert_eq!(entry_of(spot.word(entry)), entry);
            }
        }
    }

    #[test]
    fn the_default_size_takes_two_mebibytes() {
        let t = MacTable::new(1 << 17, 1);
        assert_eq!((t.capacity(), t.memory()), (1 << 17, 2 << 20));
        assert_eq!(MacTable::new(1, 1).capacity(), 1 << 17);
    }

    #[test]
    fn keys_spread_over_lines_whatever_their_pattern() {
        let patterns: [fn(u64) -> u64; 3] = [|n| n, |n| n << 30, |n| n.swap_bytes() >> 16];
        for pattern in patterns {
            let t = MacTable::new(1 << 17, 5);
            let mut load = vec![0u32; t.lines()];
            for n in 0..1u64 << 17 {
                load[t.spot(MacKey::of_word(1, pattern(n))).line as usize] += 1;
            }
            let most = load.iter().max();
            assert!(most.is_some_and(|m| *m < 40), "{most:?}");
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    //! Every interleaving of a worker's flag with what control does to the same entry.

    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    fn word(tag: u64, if_index: u32, flags: u32) -> u64 {
        tag << TAG_SHIFT | HOME | u64::from(MacEntry::new(if_index, flags).bits())
    }

    /// A worker that looks an entry up and flags it while control does `change`; says what is left.
    fn race(change: fn(&Line), allowed: &'static [u64]) {
        loom::model(move || {
            let line = Arc::new(Line::empty());
            line.swap(0, word(5, 1, 0));
            let worker = {
                let line = line.clone();
                thread::spawn(move || {
                    let seen = line.word(0);
                    if seen >> VALUE_BITS == word(5, 0, 0) >> VALUE_BITS {
                        line.flag(0, seen, u64::from(MacEntry::SEEN));
                    }
                })
            };
            change(&line);
            worker.join().unwrap();
            assert!(allowed.contains(&line.word(0)));
        });
    }

    #[test]
    fn a_late_flag_revives_nothing_and_moves_nothing() {
        const FLAG: u64 = MacEntry::SEEN as u64;
        let home = |tag: u64, if_index: u64| tag << TAG_SHIFT | HOME | if_index << 4;
        race(|l| assert_ne!(l.swap(0, 0), 0), &[0]);
        let other: &'static [u64] = vec![home(6, 2)].leak();
        race(|l| assert_ne!(l.swap(0, word(6, 2, 0)), 0), other);
        let moved: &'static [u64] = vec![home(5, 2), home(5, 2) | FLAG].leak();
        race(|l| assert_ne!(l.swap(0, word(5, 2, 0)), 0), moved);
        let same: &'static [u64] = vec![home(5, 1), home(5, 1) | FLAG].leak();
        race(|l| l.clear(0, FLAG), same);
    }
}
