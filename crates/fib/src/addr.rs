//! The address words that tables are keyed by: `u32` for IPv4, `u128` for IPv6, both in
//! host order with the first bit of the address on top.

use std::fmt::Debug;
use std::hash::Hash;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

mod sealed {
    pub trait Sealed {}
    impl Sealed for u32 {}
    impl Sealed for u128 {}
}

/// An address as one word. Implemented by `u32` and `u128`.
pub trait Addr:
    sealed::Sealed + Copy + Eq + Ord + Hash + Debug + Default + Send + Sync + 'static
{
    /// Bits of an address.
    const WIDTH: u8;
    /// What error messages call the family.
    const FAMILY: &'static str;
    /// What error messages call the memory of all tables.
    const FIB: &'static str;
    /// What error messages call one table.
    const TABLE: &'static str;
    /// What error messages call the set of tables.
    const TABLES: &'static str;

    /// The word with only its first `len` bits kept.
    #[must_use]
    fn masked(self, len: u8) -> Self;
    /// The 8 bits that follow the first `depth`; `depth + 8 <= WIDTH`.
    fn byte(self, depth: u8) -> u8;
    /// The first `len` bits, at most 16, as a number.
    fn top(self, len: u8) -> usize;
    /// The word whose 8 bits after the first `depth` are `byte`, the others zero.
    fn from_byte(byte: u8, depth: u8) -> Self;
    /// The standard library's type.
    fn ip(self) -> IpAddr;
    /// Bitwise or.
    #[must_use]
    fn or(self, other: Self) -> Self;
    /// How many of the first bits are the same.
    fn common(self, other: Self) -> u8;
}

macro_rules! addr {
    ($word:ty, $ip:ty, $family:literal) => {
        impl Addr for $word {
            const WIDTH: u8 = <$word>::BITS as u8;
            const FAMILY: &'static str = $family;
            const FIB: &'static str = concat!($family, " forwarding table memory");
            const TABLE: &'static str = concat!($family, " table");
            const TABLES: &'static str = concat!("set of ", $family, " tables");

            #[inline]
            fn masked(self, len: u8) -> Self {
                // A shift by the full width is no shift at all: length 0 apart.
                let mask = <$word>::MAX.checked_shl(u32::from(Self::WIDTH.saturating_sub(len)));
                self & mask.unwrap_or(0)
            }

            #[inline]
            fn byte(self, depth: u8) -> u8 {
                (self >> (Self::WIDTH - 8 - depth)) as u8
            }

            #[inline]
            fn top(self, len: u8) -> usize {
                // Two shifts: `len` may be 0.
                (self >> (Self::WIDTH - 16)) as usize >> (16 - len)
            }

            #[inline]
            fn from_byte(byte: u8, depth: u8) -> Self {
                <$word>::from(byte) << (Self::WIDTH - 8 - depth)
            }

            fn ip(self) -> IpAddr {
                <$ip>::from_bits(self).into()
            }

            #[inline]
            fn or(self, other: Self) -> Self {
                self | other
            }

            #[inline]
            fn common(self, other: Self) -> u8 {
                (self ^ other).leading_zeros() as u8
            }
        }
    };
}

addr!(u32, Ipv4Addr, "IPv4");
addr!(u128, Ipv6Addr, "IPv6");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_counted_from_the_top() {
        let a = 0x0a0b_0c0du32;
        assert_eq!((a.byte(0), a.byte(8), a.byte(24)), (10, 11, 13));
        assert_eq!(
            (a.masked(0), a.masked(12), a.masked(32)),
            (0, 0x0a00_0000, a)
        );
        assert_eq!((a.top(0), a.top(8), a.top(16)), (0, 10, 0x0a0b));
        assert_eq!(u32::from_byte(12, 16), 0x0c00);
        let b = 0x2001_0db8u128 << 96 | 7;
        assert_eq!((b.top(16), b.byte(24), b.byte(120)), (0x2001, 0xb8, 7));
        assert_eq!(
            (b.masked(32), b.masked(128), b.masked(0)),
            (0x2001_0db8 << 96, b, 0)
        );
    }
}
