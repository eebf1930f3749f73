//! Builds random records for the tests, from the same declarations that encode and decode them.

use core::net::{Ipv4Addr, Ipv6Addr};

use super::field::{Field, Framed, List, Mac, Percent, PortStates, Text, Uuid};
use crate::types::Address;

/// A small seeded generator (SplitMix64).
pub struct Gen(pub u64);

impl Gen {
    /// The next 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }

    /// A number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.bits() % n
    }

    fn bytes(&mut self, most: u64) -> &'static [u8] {
        let n = self.below(most + 1);
        (0..n).map(|_| self.bits() as u8).collect::<Vec<_>>().leak()
    }
}

/// A type that can be made up.
pub trait Arbitrary {
    /// Makes up a value.
    fn arbitrary(g: &mut Gen) -> Self;
}

impl Arbitrary for u32 {
    fn arbitrary(g: &mut Gen) -> Self {
        match g.below(4) {
            0 => u32::MAX,
            1 => g.below(100) as u32,
            _ => g.bits() as u32,
        }
    }
}

impl Arbitrary for Framed<'static> {
    fn arbitrary(g: &mut Gen) -> Self {
        Framed {
            tag: g.bits() as u32,
            body: g.bytes(20),
        }
    }
}

impl Arbitrary for i32 {
    fn arbitrary(g: &mut Gen) -> Self {
        g.bits() as i32
    }
}

impl Arbitrary for u64 {
    fn arbitrary(g: &mut Gen) -> Self {
        g.bits()
    }
}

impl Arbitrary for f32 {
    fn arbitrary(g: &mut Gen) -> Self {
        g.below(1 << 20) as f32 / 64.0
    }
}

impl Arbitrary for Percent {
    fn arbitrary(g: &mut Gen) -> Self {
        Percent((g.below(4) != 0).then(|| g.below(10_001) as u32))
    }
}

impl Arbitrary for Mac {
    fn arbitrary(g: &mut Gen) -> Self {
        let [a, b, c, d, e, f, ..] = g.bits().to_be_bytes();
        Mac([a, b, c, d, e, f])
    }
}

impl Arbitrary for Ipv4Addr {
    fn arbitrary(g: &mut Gen) -> Self {
        Ipv4Addr::from(g.bits() as u32)
    }
}

impl Arbitrary for Ipv6Addr {
    fn arbitrary(g: &mut Gen) -> Self {
        Ipv6Addr::from(u128::from(g.bits()) << 64 | u128::from(g.bits()))
    }
}

impl Arbitrary for Address {
    fn arbitrary(g: &mut Gen) -> Self {
        match g.below(3) {
            0 => Address::Unknown,
            1 => Address::V4(Arbitrary::arbitrary(g)),
            _ => Address::V6(Arbitrary::arbitrary(g)),
        }
    }
}

impl Arbitrary for Uuid {
    fn arbitrary(g: &mut Gen) -> Self {
        Uuid((u128::from(g.bits()) << 64 | u128::from(g.bits())).to_be_bytes())
    }
}

impl Arbitrary for PortStates {
    fn arbitrary(g: &mut Gen) -> Self {
        let [actor_admin, actor_oper, partner_admin, partner_oper, ..] = g.bits().to_be_bytes();
        PortStates {
            actor_admin,
            actor_oper,
            partner_admin,
            partner_oper,
        }
    }
}

impl<'a> Arbitrary for Text<'a> {
    fn arbitrary(g: &mut Gen) -> Self {
        Text(g.bytes(40))
    }
}

impl Arbitrary for &[u8] {
    fn arbitrary(g: &mut Gen) -> Self {
        g.bytes(200)
    }
}

impl<T: Arbitrary> Arbitrary for Option<T> {
    fn arbitrary(g: &mut Gen) -> Self {
        (g.below(2) == 1).then(|| T::arbitrary(g))
    }
}

impl<'a, T: Arbitrary + Field<'a> + 'static> Arbitrary for List<'a, T> {
    fn arbitrary(g: &mut Gen) -> Self {
        let n = g.below(5);
        List::new((0..n).map(|_| T::arbitrary(g)).collect::<Vec<_>>().leak())
    }
}
