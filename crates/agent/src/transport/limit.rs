//! How many datagrams a collector gets: a token bucket each for datagrams and for bits.
//!
//! A bucket holds a second's worth, so counters that are reported together may go together; over longer times no more than
//! the limit goes. What is over the limit is left out whole and keeps its number: the collector sees gaps in the sequence
//! and knows that something is missing.

use crate::collector_config::CollectorConfig;

const SECOND: u128 = 1_000_000_000;
/// Least depth of a bucket of bits: one datagram of any size.
const LEAST_BITS: u128 = 9000 * 8;

/// One bucket; in it are billionths.
struct Bucket {
    per_second: u128,
    depth: u128,
    level: u128,
    filled: u64,
}

impl Bucket {
    fn new(per_second: u64, least: u128, now: u64) -> Bucket {
        let depth = u128::from(per_second).max(least) * SECOND;
        Bucket {
            per_second: per_second.into(),
            depth,
            level: depth,
            filled: now,
        }
    }

    fn fill(&mut self, now: u64) {
        let passed = u128::from(now.saturating_sub(self.filled));
        self.filled = self.filled.max(now);
        self.level = (self.level + passed * self.per_second).min(self.depth);
    }

    fn has(&self, n: u128) -> bool {
        self.level >= n * SECOND
    }

    fn take(&mut self, n: u128) {
        self.level = self.level.saturating_sub(n * SECOND);
    }
}

/// The limits of a collector.
pub struct Limiter {
    datagrams: Option<Bucket>,
    bits: Option<Bucket>,
}

impl Limiter {
    /// The limits of `config`, the buckets full.
    pub fn new(config: &CollectorConfig, now: u64) -> Limiter {
        let datagrams = config.datagrams_per_second.map(u64::from);
        Limiter {
            datagrams: datagrams.map(|n| Bucket::new(n, 1, now)),
            bits: config
                .bits_per_second
                .map(|n| Bucket::new(n, LEAST_BITS, now)),
        }
    }

    /// How many datagrams from the front may go now. They count as gone.
    pub fn admit(&mut self, now: u64, datagrams: &[&[u8]]) -> usize {
        if self.datagrams.is_none() && self.bits.is_none() {
            return datagrams.len();
        }
        for b in [&mut self.datagrams, &mut self.bits].into_iter().flatten() {
            b.fill(now);
        }
        let mut n = 0;
        for d in datagrams {
            let bits = d.len() as u128 * 8;
            let fits = self.datagrams.as_ref().is_none_or(|b| b.has(1))
                && self.bits.as_ref().is_none_or(|b| b.has(bits));
            if !fits {
                break;
            }
            if let Some(b) = &mut self.datagrams {
                b.take(1);
            }
            if let Some(b) = &mut self.bits {
                b.take(bits);
            }
            n += 1;
        }
        n
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NS: u64 = 1_000_000_000;

    fn limiter(datagrams: Option<u32>, bits: Option<u64>) -> Limiter {
        let mut c: CollectorConfig = "192.0.2.1".parse().unwrap();
        (c.datagrams_per_second, c.bits_per_second) = (datagrams, bits);
        Limiter::new(&c, NS)
    }

    #[test]
    fn without_a_limit_all_go() {
        let d: &[u8] = &[0; 1400];
        assert_eq!(limiter(None, None).admit(NS, &[d; 64]), 64);
    }

    #[test]
    fn a_seconds_worth_goes_at_once_and_then_as_many_as_time_allows() {
        let d: &[u8] = &[0; 1000];
        let mut l = limiter(Some(10), None);
        assert_eq!(l.admit(NS, &[d; 64]), 10);
        assert_eq!(l.admit(NS + NS / 20, &[d; 64]), 0);
        assert_eq!(l.admit(NS + NS / 2, &[d; 64]), 5);
        assert_eq!(l.admit(900 * NS, &[d; 64]), 10);
        // A clock that stands or goes back gives nothing.
        assert_eq!(l.admit(NS, &[d; 64]), 0);
        let mut l = limiter(None, Some(80_000));
        assert_eq!(l.admit(NS, &[d; 64]), 10);
        // A datagram of more bits than a second has goes all the same, now and then.
        let large: &[u8] = &[0; 9000];
        let mut l = limiter(None, Some(8_000));
        assert_eq!(l.admit(NS, &[large; 2]), 1);
        assert_eq!(l.admit(9 * NS, &[large; 2]), 0);
        assert_eq!(l.admit(10 * NS, &[large; 2]), 1);
    }

    proptest! {
        /// Over any stretch no more passes than the limit and one bucket, and nothing is held back without need.
        #[test]
        fn the_limit_holds_over_time(
            rate in 1u32..2000,
            steps in proptest::collection::vec((0u64..NS / 4, 0usize..50), 1..200)
        ) {
            let mut l = limiter(Some(rate), None);
            let (mut now, mut passed, mut refused) = (NS, 0u64, false);
            for (dt, n) in steps {
                now += dt;
                let batch = vec![&[0u8; 10][..]; n];
                let k = l.admit(now, &batch);
                passed += k as u64;
                refused |= k < n;
                let elapsed = u128::from(now - NS);
                let most = u128::from(rate) * (elapsed + SECOND);
                prop_assert!(u128::from(passed) * SECOND <= most);
                if k < n {
                    // The bucket is empty but for a part of one.
                    prop_assert!(!l.datagrams.as_ref().unwrap().has(1));
                }
            }
            prop_assert!(refused || passed > 0 || l.datagrams.as_ref().unwrap().has(1));
        }
    }
}
