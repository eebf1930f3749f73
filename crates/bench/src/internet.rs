//! The Internet's prefixes, and larger tables grown from them.
//!
//! The real table is part of the program (`data/`): 901,899 IPv4 and 160,147 IPv6 prefixes. A grown table
//! is the real one with prefixes added near those that are there, so that both the mix of lengths and the
//! clustering stay as they are: the length of each new prefix is that of a real one drawn at random, and
//! its place, in equal parts,
//! - the sibling of a real prefix (last bit flipped): a block that is announced in halves,
//! - a block within 64 of the same size from a real one: allocations of the same registry,
//! - a random part of a shorter real prefix: traffic engineering by more-specifics.
//!
//! Next hops are spread evenly over [`NEXT_HOPS`] neighbours by a hash of the prefix, so neighbouring
//! prefixes rarely agree: the worst case for a table that merges equal neighbours.

use std::collections::HashSet;
use std::io::Read;
use std::str::FromStr;

use flate2::read::GzDecoder;
use parshall_fib::{Addr, Ip4Prefix, Ip6Prefix, Prefix};

use crate::BenchError;

/// Neighbours that routes are spread over.
pub const NEXT_HOPS: u32 = 250;

const PREFIXES: &[u8] = include_bytes!("../data/internet-prefixes.txt.gz");
const SEED: u64 = 0x5eed_0f1b;

/// A small seeded generator (xorshift64*).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator whose sequence `seed` fixes.
    #[must_use]
    pub fn new(seed: u64) -> Random {
        Random(seed | 1)
    }

    /// The next 64 bits.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `n`, which is not 0.
    pub fn below(&mut self, n: usize) -> usize {
        (((self.next() >> 32) * n as u64) >> 32) as usize
    }
}

/// What growing needs of an address word.
pub trait Grow: Addr {
    /// The first address that may be grown into, and the last.
    const UNICAST: (Self, Self);
    /// All 128 bits, the address in the lowest.
    fn widen(self) -> u128;
    /// The lowest bits of `wide`.
    fn narrow(wide: u128) -> Self;
}

impl Grow for u32 {
    const UNICAST: (u32, u32) = (0x0100_0000, 0xdfff_ffff);
    fn widen(self) -> u128 {
        u128::from(self)
    }
    fn narrow(wide: u128) -> u32 {
        wide as u32
    }
}

impl Grow for u128 {
    const UNICAST: (u128, u128) = (0x2000 << 112, (0x4000 << 112) - 1);
    fn widen(self) -> u128 {
        self
    }
    fn narrow(wide: u128) -> u128 {
        wide
    }
}

/// The real IPv4 table, in order.
///
/// # Errors
/// When the data in the program cannot be unpacked.
pub fn ip4() -> Result<Vec<Ip4Prefix>, BenchError> {
    unpack()
}

/// The real IPv6 table, in order.
///
/// # Errors
/// When the data in the program cannot be unpacked.
pub fn ip6() -> Result<Vec<Ip6Prefix>, BenchError> {
    unpack()
}

/// `n` IPv4 prefixes: the real ones, then grown ones.
///
/// # Errors
/// When the data in the program cannot be unpacked.
pub fn grown4(n: usize) -> Result<Vec<Ip4Prefix>, BenchError> {
    Ok(grow(ip4()?, n))
}

/// `n` IPv6 prefixes: the real ones, then grown ones.
///
/// # Errors
/// When the data in the program cannot be unpacked.
pub fn grown6(n: usize) -> Result<Vec<Ip6Prefix>, BenchError> {
    Ok(grow(ip6()?, n))
}

/// Number of the neighbour (below [`NEXT_HOPS`]) that a prefix is routed to.
#[must_use]
pub fn next_hop<A: Grow>(prefix: Prefix<A>) -> u32 {
    let wide = prefix.addr().widen();
    let mixed = (wide as u64 ^ (wide >> 64) as u64).wrapping_add(u64::from(prefix.len()));
    (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u32 % NEXT_HOPS
}

/// `n` random addresses, each inside a prefix drawn at random.
pub fn destinations<A: Grow>(prefixes: &[Prefix<A>], n: usize, seed: u64) -> Vec<A> {
    let mut random = Random::new(seed);
    if prefixes.is_empty() {
        return Vec::new();
    }
    let mut one = || {
        let p = prefixes[random.below(prefixes.len())];
        inside(p, &mut random)
    };
    (0..n).map(|_| one()).collect()
}

fn unpack<P: FromStr>() -> Result<Vec<P>, BenchError> {
    let mut text = String::new();
    GzDecoder::new(PREFIXES)
        .read_to_string(&mut text)
        .map_err(|e| BenchError::of("the prefixes in the program", e))?;
    Ok(text.lines().filter_map(|l| l.parse().ok()).collect())
}

fn grow<A: Grow>(real: Vec<Prefix<A>>, n: usize) -> Vec<Prefix<A>> {
    let mut seen: HashSet<Prefix<A>> = real.iter().copied().collect();
    let mut random = Random::new(SEED);
    let known = real.len();
    let mut all = real;
    while known > 0 && all.len() < n {
        // The length is drawn first and kept: where a length is dense most places are taken already, and
        // drawing anew would thin the dense lengths out.
        let len = all[random.below(known)].len();
        loop {
            let new = near(&all[..known], len, &mut random);
            let (first, last) = A::UNICAST;
            if (first..=last).contains(&new.addr()) && seen.insert(new) {
                all.push(new);
                break;
            }
        }
    }
    all.truncate(n);
    all
}

/// A prefix of length `len` near a real one.
fn near<A: Grow>(real: &[Prefix<A>], len: u8, random: &mut Random) -> Prefix<A> {
    let step = 1u128 << (A::WIDTH - len);
    let mut like = real[random.below(real.len())];
    let addr = match random.below(3) {
        0 => addr_of(same_length(real, len, random)) ^ step,
        1 => {
            let addr = addr_of(same_length(real, len, random));
            let blocks = step * (random.below(64) as u128 + 1);
            if random.below(2) == 0 {
                addr.wrapping_add(blocks)
            } else {
                addr.wrapping_sub(blocks)
            }
        }
        _ => {
            while like.len() > len {
                like = real[random.below(real.len())];
            }
            inside(like, random).widen()
        }
    };
    Prefix::masked(A::narrow(addr), len)
}

fn addr_of<A: Grow>(p: Prefix<A>) -> u128 {
    p.addr().widen()
}

/// The first real prefix of this length from a random place on: there is one, `len` came from there.
fn same_length<A: Grow>(real: &[Prefix<A>], len: u8, random: &mut Random) -> Prefix<A> {
    let start = random.below(real.len());
    let (before, after) = real.split_at(start);
    let mut from = after.iter().chain(before);
    from.find(|p| p.len() == len).copied().unwrap_or_default()
}

/// A random address in a prefix.
fn inside<A: Grow>(p: Prefix<A>, random: &mut Random) -> A {
    let bits = u128::from(random.next()) << 64 | u128::from(random.next());
    let host = match A::WIDTH - p.len() {
        0 => 0,
        n => bits >> (128 - n),
    };
    A::narrow(p.addr().widen() | host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share<A: Grow>(of: &[Prefix<A>], len: u8) -> f64 {
        of.iter().filter(|p| p.len() == len).count() as f64 / of.len() as f64
    }

    #[test]
    fn the_real_table_is_whole() {
        let (v4, v6) = (ip4().unwrap(), ip6().unwrap());
        assert_eq!((v4.len(), v6.len()), (901_899, 160_147));
        assert_eq!(v4[0].to_string(), "1.0.0.0/24");
        assert_eq!(v6[v6.len() - 1].to_string(), "2c0f:ffd0::/32");
    }

    #[test]
    fn grown_tables_keep_the_mix_of_lengths() {
        let (real, grown) = (ip4().unwrap(), grown4(1_200_000).unwrap());
        assert_eq!(grown.iter().collect::<HashSet<_>>().len(), 1_200_000);
        for len in [16, 19, 22, 23, 24] {
            let (before, after) = (share(&real, len), share(&grown, len));
            assert!((before - after).abs() < 0.02, "/{len}: {before} {after}");
        }
        let (real, grown) = (ip6().unwrap(), grown6(250_000).unwrap());
        assert_eq!(grown.iter().collect::<HashSet<_>>().len(), 250_000);
        for len in [29, 32, 40, 44, 48] {
            let (before, after) = (share(&real, len), share(&grown, len));
            assert!((before - after).abs() < 0.02, "/{len}: {before} {after}");
        }
    }

    #[test]
    fn destinations_and_next_hops_are_spread() {
        let v4 = ip4().unwrap();
        let mut of = [0usize; NEXT_HOPS as usize];
        v4.iter().for_each(|p| of[next_hop(*p) as usize] += 1);
        let (min, max) = (of.iter().min().unwrap(), of.iter().max().unwrap());
        assert!(max - min < v4.len() / NEXT_HOPS as usize, "{min} {max}");
        assert_eq!(destinations(&v4[..1], 1, 7)[0] & 0xffff_ff00, v4[0].addr());
    }
}
