//! Data-plane objects: what a lookup answers, in one word.
//!
//! The kind is in the top 4 bits, an index into the table of that kind in the low 28.
//! Kind 0 is "no route", so that zeroed memory is an empty table.

use std::fmt;

/// What an object is, which is also which table its index means.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DpoKind {
    /// No route. The index is 0.
    Miss = 0,
    /// Rewrite and transmit; index of an [`Adjacency`](crate::Adjacency).
    Adjacency = 1,
    /// Choose by flow hash; index of a [`LoadBalance`](crate::LoadBalance).
    LoadBalance = 2,
    /// An address of this router; index of the interface that has it.
    Receive = 3,
    /// On-link destination whose neighbour is not resolved yet; index of the interface.
    Glean = 4,
    /// Discard silently.
    Blackhole = 5,
    /// Discard and answer "administratively prohibited".
    Prohibit = 6,
    /// Discard and answer "unreachable".
    Unreachable = 7,
    /// Push labels; index of an [`Imposition`](crate::Imposition).
    MplsImpose = 8,
    /// The label was popped; index of a [`Disposition`](crate::Disposition).
    MplsPop = 9,
    /// Look the destination up in the IPv4 table of this index.
    LookupIp4 = 10,
    /// Look the destination up in the IPv6 table of this index.
    LookupIp6 = 11,
    /// Look the (next) label up in the MPLS table of this index.
    LookupMpls = 12,
}

impl DpoKind {
    /// All kinds, by number.
    pub const ALL: [DpoKind; 13] = [
        DpoKind::Miss,
        DpoKind::Adjacency,
        DpoKind::LoadBalance,
        DpoKind::Receive,
        DpoKind::Glean,
        DpoKind::Blackhole,
        DpoKind::Prohibit,
        DpoKind::Unreachable,
        DpoKind::MplsImpose,
        DpoKind::MplsPop,
        DpoKind::LookupIp4,
        DpoKind::LookupIp6,
        DpoKind::LookupMpls,
    ];
}

/// A data-plane object: kind and index.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Dpo(u32);

impl Dpo {
    /// Bits of the index.
    pub const INDEX_BITS: u32 = 28;
    /// Largest index.
    pub const INDEX_MAX: u32 = (1 << Self::INDEX_BITS) - 1;
    /// No route.
    pub const MISS: Dpo = Dpo(0);
    /// Discard silently.
    pub const BLACKHOLE: Dpo = Dpo::new(DpoKind::Blackhole, 0);
    /// Discard and answer "administratively prohibited".
    pub const PROHIBIT: Dpo = Dpo::new(DpoKind::Prohibit, 0);
    /// Discard and answer "unreachable".
    pub const UNREACHABLE: Dpo = Dpo::new(DpoKind::Unreachable, 0);

    /// The object of `kind` under `index`. Bits of the index above the 28th are cut off;
    /// the tables never hand such an index out.
    #[inline]
    #[must_use]
    pub const fn new(kind: DpoKind, index: u32) -> Dpo {
        debug_assert!(index <= Self::INDEX_MAX);
        Dpo((kind as u32) << Self::INDEX_BITS | index & Self::INDEX_MAX)
    }

    /// Its kind.
    #[inline]
    #[must_use]
    pub const fn kind(self) -> DpoKind {
        let n = (self.0 >> Self::INDEX_BITS) as usize;
        // Numbers above the last kind cannot be made; they read as a miss.
        if n < DpoKind::ALL.len() {
            DpoKind::ALL[n]
        } else {
            DpoKind::Miss
        }
    }

    /// Its index in the table of its kind.
    #[inline]
    #[must_use]
    pub const fn index(self) -> u32 {
        self.0 & Self::INDEX_MAX
    }

    /// Whether there is no route.
    #[inline]
    #[must_use]
    pub const fn is_miss(self) -> bool {
        self.0 == 0
    }

    /// The word, kind in the top 4 bits.
    #[inline]
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// An object from its word; the caller got it from [`Dpo::bits`].
    #[inline]
    pub const fn from_bits(bits: u32) -> Dpo {
        Dpo(bits)
    }
}

impl fmt::Debug for Dpo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}({})", self.kind(), self.index())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_indices_come_back() {
        for (n, kind) in DpoKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, n);
            let dpo = Dpo::new(kind, Dpo::INDEX_MAX);
            assert_eq!((dpo.kind(), dpo.index()), (kind, Dpo::INDEX_MAX));
        }
        assert_eq!(Dpo::new(DpoKind::Adjacency, 5).bits(), 0x1000_0005);
        assert_eq!(format!("{:?}", Dpo::new(DpoKind::Receive, 3)), "Receive(3)");
    }

    #[test]
    fn zero_is_no_route() {
        assert_eq!(Dpo::default(), Dpo::MISS);
        assert!(Dpo::new(DpoKind::Miss, 0).is_miss());
        assert_eq!(Dpo::from_bits(u32::MAX).kind(), DpoKind::Miss);
    }
}
