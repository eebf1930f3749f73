//! Answers of look-ups by address, kept for as long as the tables they come from do not change.
//!
//! Packets come in flows, and look-ups in full tables cost a dozen cache misses each: it pays to remember some. An address
//! has one place, a cache line, with what the forwarding table says of it and what the BGP table says.

use std::net::IpAddr;

use parshall_fib::Dpo;

use crate::bgp::Best;

/// Addresses kept: a power of two, four mebibytes of them.
const PLACES: usize = 1 << 16;
/// No table has this generation.
const NEVER: u64 = u64::MAX;

/// An address, and what is known of it.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(crate) struct Place {
    addr: u128,
    /// Number of the table, the family in its top bit.
    table: u32,
    route: Option<(Dpo, u8)>,
    /// Generations of the tables when they answered.
    route_generation: u64,
    best_generation: u64,
    best: Option<Best>,
}

const EMPTY: Place = Place {
    addr: 0,
    table: 0,
    route: None,
    route_generation: NEVER,
    best_generation: NEVER,
    best: None,
};

impl Place {
    /// Object and prefix length: as they are kept, if the table is at `generation` still, else what `ask` gives.
    #[inline]
    pub fn route(
        &mut self,
        generation: u64,
        ask: impl FnOnce() -> Option<(Dpo, u8)>,
    ) -> Option<(Dpo, u8)> {
        if self.route_generation != generation {
            self.route = ask();
            self.route_generation = generation;
        }
        self.route
    }

    /// The same of the best BGP path.
    #[inline]
    pub fn best(&mut self, generation: u64, ask: impl FnOnce() -> Option<Best>) -> Option<Best> {
        if self.best_generation != generation {
            self.best = ask();
            self.best_generation = generation;
        }
        self.best
    }
}

/// The places of recent addresses.
#[derive(Default)]
pub(crate) struct Recent {
    places: Vec<Place>,
}

impl Recent {
    /// The place of an address as `table` sees it, cleared if another one had it before. Memory is taken with the first.
    #[inline]
    pub fn place(&mut self, table: u32, addr: IpAddr) -> &mut Place {
        if self.places.is_empty() {
            self.places = vec![EMPTY; PLACES];
        }
        let (word, table) = match addr {
            IpAddr::V4(a) => (u128::from(u32::from(a)), table),
            IpAddr::V6(a) => (u128::from(a), table | 1 << 31),
        };
        let place = &mut self.places[spread(word, table) % PLACES];
        if place.addr != word || place.table != table {
            *place = Place {
                addr: word,
                table,
                ..EMPTY
            };
        }
        place
    }
}

/// Which place an address has: Fibonacci hashing of both halves.
#[inline]
fn spread(addr: u128, table: u32) -> usize {
    const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
    let word = (addr as u64).wrapping_mul(GOLDEN).rotate_left(32) ^ (addr >> 64) as u64;
    let hash = (word ^ u64::from(table) << 40).wrapping_mul(GOLDEN);
    (hash >> (64 - PLACES.trailing_zeros())) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use parshall_fib::DpoKind;

    #[test]
    fn an_answer_is_kept_until_its_table_changes() {
        let mut r = Recent::default();
        let addr: IpAddr = "2001:db8::1".parse().unwrap();
        let mut ask = |table, generation, addr: IpAddr, n: u32| {
            let answer = Some((Dpo::new(DpoKind::Adjacency, n), 0));
            let got = r.place(table, addr).route(generation, || answer);
            got.map(|g| g.0.index())
        };
        assert_eq!(ask(0, 1, addr, 7), Some(7));
        assert_eq!(ask(0, 1, addr, 8), Some(7));
        // Another table, another address, another generation.
        assert_eq!(ask(1, 1, addr, 9), Some(9));
        assert_eq!(ask(0, 1, "2001:db8::2".parse().unwrap(), 10), Some(10));
        assert_eq!(ask(0, 2, addr, 11), Some(11));
        assert_eq!(ask(0, 1, addr, 12), Some(12));
        assert!(r.place(0, addr).best(1, || None).is_none());
    }

    #[test]
    fn an_address_takes_a_line() {
        assert_eq!((size_of::<Place>(), align_of::<Place>()), (64, 64));
    }

    #[test]
    fn addresses_that_follow_each_other_do_not_meet() {
        let four = (0..1000u128).map(|n| 0x0A00_0000 + n);
        let six = (0..1000u128).map(|n| (0x2001_0DB8 << 96) + (n << 64));
        for all in [four.collect::<Vec<_>>(), six.collect()] {
            let places: std::collections::BTreeSet<_> = all.iter().map(|a| spread(*a, 0)).collect();
            assert!(places.len() > 900, "{}", places.len());
        }
    }
}
