//! Skip arithmetic of one (worker, interface, direction).

/// Largest N in 1-in-N.
pub const MAX_RATE: u32 = 1 << 30;

/// Decides which packets are sampled. Off at rate 0.
#[derive(Clone, Debug)]
pub struct Sampler {
    rate: u32,
    /// Packets to let pass before the next sample.
    skip: u64,
    state: u64,
    /// 1 / ln(1 - 1/N), kept because a logarithm a sample is enough.
    scale: f64,
}

impl Sampler {
    /// A sampler at 1-in-`rate` (0 = off), its random sequence fixed by `seed`.
    pub fn new(rate: u32, seed: u64) -> Sampler {
        let mut s = Sampler {
            rate: 0,
            skip: u64::MAX,
            state: seed ^ 0x9E37_79B9_7F4A_7C15,
            scale: 0.0,
        };
        s.set_rate(rate);
        s
    }

    /// The rate in force, 0 = off.
    pub fn rate(&self) -> u32 {
        self.rate
    }

    /// Changes the rate; the next skip is drawn anew, which a geometric distribution allows at any time.
    pub fn set_rate(&mut self, rate: u32) {
        self.rate = rate.min(MAX_RATE);
        self.scale = if self.rate > 1 {
            1.0 / (-1.0 / f64::from(self.rate)).ln_1p()
        } else {
            0.0
        };
        self.skip = if self.rate == 0 {
            u64::MAX
        } else {
            self.draw()
        };
    }

    /// Takes `n` packets past the sampler. Usually that is one subtraction and `None`. Otherwise the
    /// position (0-based, below `n`) of the first packet to sample; call again with the `n - 1 - position`
    /// packets that remain after it.
    #[inline(always)]
    pub fn advance(&mut self, n: u32) -> Option<u32> {
        let n = u64::from(n);
        if self.skip >= n {
            // An off sampler starts at u64::MAX and gets no nearer to zero in practice: 10^19 packets.
            self.skip -= n;
            return None;
        }
        let at = self.skip as u32;
        self.skip = self.draw();
        Some(at)
    }

    /// Packets to skip before the next sample: geometric with mean N - 1.
    #[cold]
    fn draw(&mut self) -> u64 {
        match self.rate {
            0 => u64::MAX,
            1 => 0,
            _ => (self.uniform().ln() * self.scale) as u64,
        }
    }

    /// Uniform in (0, 1]: splitmix64 (Steele, Lea, Flood 2014), the top 53 bits.
    fn uniform(&mut self) -> f64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^= z >> 31;
        ((z >> 11) + 1) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(rate: u32, seed: u64, packets: u64, frame: u32) -> u64 {
        let mut s = Sampler::new(rate, seed);
        let (mut taken, mut left) = (0, packets);
        while left > 0 {
            let mut n = frame.min(left as u32);
            left -= u64::from(n);
            while let Some(at) = s.advance(n) {
                taken += 1;
                n -= at + 1;
            }
        }
        taken
    }

    #[test]
    fn off_takes_none_and_one_takes_all() {
        assert_eq!(count(0, 1, 100_000, 256), 0);
        assert_eq!(count(1, 1, 100_000, 256), 100_000);
    }

    #[test]
    fn the_estimate_lies_in_its_95_percent_bound_in_95_of_100_runs() {
        for rate in [2, 10, 100, 1000] {
            let packets = u64::from(rate) * 2_000;
            let inside = (0..1000)
                .filter(|&seed| {
                    let taken = count(rate, seed, packets, 256) as f64;
                    let error = (taken * f64::from(rate) - packets as f64).abs() / packets as f64;
                    error <= 1.96 * (1.0 / taken).sqrt()
                })
                .count();
            // 950 expected (more at small N, where the bound is generous); 4 standard deviations below.
            assert!(inside >= 922, "rate {rate}: {inside} of 1000");
        }
    }

    #[test]
    fn frame_size_does_not_matter() {
        for frame in [1, 7, 256] {
            assert_eq!(
                count(100, 42, 1_000_000, frame),
                count(100, 42, 1_000_000, 64),
                "frame {frame}"
            );
        }
    }

    #[test]
    fn every_position_is_as_likely() {
        let mut s = Sampler::new(10, 3);
        let mut at = [0u32; 8];
        for _ in 0..400_000 {
            let mut base = 0;
            while let Some(p) = s.advance(8 - base) {
                at[(base + p) as usize] += 1;
                base += p + 1;
            }
        }
        for n in at {
            // 40,000 expected, standard deviation 190.
            assert!((39_000..41_000).contains(&n), "{at:?}");
        }
    }
}
