//! The sample pool as each sample tells it.
//!
//! A pool is to be the number of packets that could have been sampled when the sample was taken (sFlow Version 5, section 5,
//! `sample_pool`). The router is asked for it once a round, in which several samples may wait, and knows only how far it has come since
//! the last round. Were all of them to tell that number, a collector that divides the growth of the pool by the growth of the sequence,
//! which is what pmacct's `sfacctd_renormalize` does, would find rates that are too high on average: the growth up to the first sample of a
//! round over the number of samples in the round before. So the growth is dealt out to the samples of a round, each the distance that
//! samples had of late, and what is left over is dealt out in the next.

/// By how much of itself what was learned before counts less with every round.
const FORGET: f64 = 1.0 / 8.0;

/// The pool of one source.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pool {
    /// Pool and drops as the router said them last, and in which round.
    known: (u64, u64),
    round: u64,
    /// What the last sample told.
    told: u64,
    /// How far each sample of this round goes on.
    step: u64,
    /// The growth that the samples of this round share, and how many came.
    growth: u64,
    came: u32,
    /// Sums of both over the last rounds, the older the less.
    grown: f64,
    taken: f64,
}

impl Pool {
    /// Whether the router is to be asked.
    #[inline]
    pub fn is_of_before(&self, round: u64) -> bool {
        self.round != round
    }

    /// Takes in what the router says at the first sample of a round. Says whether its counters were cleared: then the pool begins anew.
    pub fn update(&mut self, round: u64, known: (u64, u64)) -> bool {
        let cleared = known.0 < self.known.0 || known.1 < self.known.1;
        if cleared {
            *self = Pool::default();
        }
        if self.came > 0 {
            self.grown += self.growth as f64 - self.grown * FORGET;
            self.taken += f64::from(self.came) - self.taken * FORGET;
        }
        self.growth = known.0 - self.known.0;
        self.came = 0;
        self.known = known;
        self.round = round;
        let left = known.0.saturating_sub(self.told);
        // As many samples as the growth is worth share what is left. Of a single one the router's number is right as it is, and
        // before anything was learned it is the best there is.
        let expected = self.growth as f64 * self.taken / self.grown.max(1.0);
        self.step = match expected < 2.0 {
            true => left,
            false => (left as f64 / expected).round() as u64,
        };
        cleared
    }

    /// Pool and drops for the next sample, both wrapped. Every sample is at least one packet on from the last.
    #[inline]
    pub fn tell(&mut self) -> (u32, u32) {
        self.came += 1;
        let left = self.known.0.saturating_sub(self.told);
        self.told += self.step.min(left).max(1);
        (self.told as u32, self.known.1 as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parshall_sample::Sampler;

    /// What sfacctd makes of the pools and numbers of one source: the rate of a sample is the growth of one over that of the
    /// other, in whole numbers, where both grew.
    fn renormalized(pools: &[u32], rate: u64) -> u64 {
        let mut last: Option<(u32, u32)> = None;
        let mut packets = 0;
        for (n, &pool) in (1u32..).zip(pools) {
            packets += match last {
                Some((at, before)) if pool > before => {
                    last = Some((n, pool));
                    u64::from((pool - before) / (n - at))
                }
                Some(_) => rate,
                None => {
                    last = Some((n, pool));
                    rate
                }
            };
        }
        packets
    }

    /// The pools of samples that are drained in rounds of some packets each.
    fn pools(rate: u32, rounds: impl Iterator<Item = u32>) -> (Vec<u32>, u64) {
        let mut sampler = Sampler::new(rate, 7);
        let (mut pool, mut all, mut packets) = (Pool::default(), Vec::new(), 0u64);
        for (round, n) in (1..).zip(rounds) {
            let mut rest = n;
            let mut samples = 0;
            while let Some(at) = sampler.advance(rest) {
                rest -= at + 1;
                samples += 1;
            }
            packets += u64::from(n);
            for _ in 0..samples {
                if pool.is_of_before(round) {
                    assert!(!pool.update(round, (packets, 0)));
                }
                all.push(pool.tell().0);
            }
        }
        (all, packets)
    }

    #[test]
    fn a_collector_that_goes_by_the_pool_finds_the_packets() {
        for (rate, most) in [(20, 3), (20, 60), (20, 1000), (1000, 500), (3, 5000)] {
            let mut state = 1u32;
            let rounds = (0..60_000u32.min(12_000_000 / most)).map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 8) % most + 1
            });
            let (pools, packets) = pools(rate, rounds);
            assert!(pools.windows(2).all(|w| w[1] > w[0]), "1 in {rate}: grows");
            // A few samples' worth, and the first round, of which nothing is known yet.
            let bound = u64::from(40 * rate + most);
            let lag = packets.abs_diff(u64::from(pools[pools.len() - 1]));
            assert!(lag < bound, "1 in {rate}: {lag} apart");
            let found = renormalized(&pools, u64::from(rate));
            let off = found.abs_diff(packets);
            assert!(off < bound, "1 in {rate}: {found} of {packets}");
        }
    }

    #[test]
    fn one_sample_a_round_tells_what_the_router_says() {
        let mut pool = Pool::default();
        for (round, known) in [(1, 1000), (2, 1900), (3, 3005), (4, 3900)] {
            assert!(!pool.update(round, (known, 3)));
            assert_eq!(pool.tell(), (known as u32, 3));
        }
        assert!(pool.update(5, (7, 0)));
        assert_eq!(pool.tell(), (7, 0));
    }

    #[test]
    fn what_no_sample_told_of_is_caught_up_with() {
        let mut pool = Pool::default();
        pool.update(1, (100, 0));
        pool.tell();
        // Ten thousand samples' worth, of which one arrives.
        pool.update(2, (1_000_100, 9_999));
        assert_eq!(pool.tell(), (200, 9_999));
        pool.update(3, (1_000_200, 9_999));
        assert_eq!(pool.tell(), (1_000_200, 9_999));
    }
}
