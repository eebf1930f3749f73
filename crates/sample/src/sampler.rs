//! Skip arithmetic of one (worker, interface, direction).

/// Largest N in 1-in-N.
pub const MAX_RATE: u32 = 1 << 30;

/// Skips drawn at a time: they are independent of each other, so that many cost little more than one where
/// vectors are wide.
const DRAWS: usize = 16;

/// Decides which packets are sampled. Off at rate 0.
#[derive(Clone, Debug)]
pub struct Sampler {
    rate: u32,
    /// Skips left in `drawn`.
    left: u32,
    /// Packets to let pass before the next sample.
    skip: u64,
    state: u64,
    /// 1 / ln(1 - 1/N).
    scale: f64,
    /// The next skips.
    drawn: [u64; DRAWS],
}

impl Sampler {
    /// A sampler at 1-in-`rate` (0 = off), its random sequence fixed by `seed`.
    pub fn new(rate: u32, seed: u64) -> Sampler {
        let mut s = Sampler {
            rate: 0,
            left: 0,
            skip: u64::MAX,
            state: seed ^ 0x9E37_79B9_7F4A_7C15,
            scale: 0.0,
            drawn: [0; DRAWS],
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
        self.left = 0;
        self.skip = self.draw();
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

    /// Packets that pass before the next one to be sampled.
    #[inline(always)]
    pub fn skip(&self) -> u64 {
        self.skip
    }

    /// Takes `n` packets past the sampler, no more than [`skip`](Self::skip) said.
    #[inline(always)]
    pub fn pass(&mut self, n: u64) {
        debug_assert!(n <= self.skip, "{n} of {}", self.skip);
        self.skip = self.skip.saturating_sub(n);
    }

    /// Packets to skip before the next sample: geometric with mean N - 1.
    #[inline(always)]
    fn draw(&mut self) -> u64 {
        if self.left == 0 {
            match self.rate {
                0 => return u64::MAX,
                1 => return 0,
                _ => self.refill(),
            }
        }
        self.left -= 1;
        self.drawn[self.left as usize % DRAWS]
    }

    #[inline(always)]
    fn refill(&mut self) {
        let first = self.state;
        for (i, drawn) in self.drawn.iter_mut().enumerate() {
            let u = uniform(first.wrapping_add(STEP.wrapping_mul(i as u64 + 1)));
            *drawn = (ln(u) * self.scale) as u64;
        }
        self.state = first.wrapping_add(STEP.wrapping_mul(DRAWS as u64));
        self.left = DRAWS as u32;
    }
}

/// By how much the state of splitmix64 grows with every number (Steele, Lea, Flood 2014).
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// Uniform in (0, 1] from a state of splitmix64: 52 bits, as the mantissa of a number from 1 to 2.
#[inline(always)]
fn uniform(state: u64) -> f64 {
    let z = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    let z = z ^ (z >> 31);
    f64::from_bits(ONE | z >> 12) - (1.0 - f64::EPSILON)
}

/// The bits of 1.0, and of its mantissa's place.
const ONE: u64 = 0x3FF0_0000_0000_0000;
const MANTISSA: u64 = (1 << 52) - 1;

/// Natural logarithm of a positive normal number, right to 1e-11, without a branch or a call: so that
/// the compiler can take several side by side. By the series of the inverse hyperbolic tangent.
#[inline(always)]
fn ln(x: f64) -> f64 {
    let bits = x.to_bits();
    // The exponent as a number: the low bits of 2^52 and the biased exponent, less both.
    let e = f64::from_bits(0x4330_0000_0000_0000 | bits >> 52) - (4_503_599_627_370_496.0 + 1023.0);
    let m = f64::from_bits(ONE | bits & MANTISSA);
    let upper = m > std::f64::consts::SQRT_2;
    let (m, e) = if upper { (m * 0.5, e + 1.0) } else { (m, e) };
    let s = (m - 1.0) / (m + 1.0);
    let q = s * s;
    let odd = 1.0 / 11.0 + q * (1.0 / 13.0);
    let odd = 1.0 / 7.0 + q * (1.0 / 9.0 + q * odd);
    let odd = 1.0 + q * (1.0 / 3.0 + q * (1.0 / 5.0 + q * odd));
    e * std::f64::consts::LN_2 + 2.0 * s * odd
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
    fn the_logarithm_is_that_of_the_library() {
        let mut state = 1u64;
        for _ in 0..100_000 {
            state = state.wrapping_add(STEP);
            let u = uniform(state);
            assert!(u > 0.0 && u <= 1.0);
            assert!((ln(u) - u.ln()).abs() < 1e-11, "{u}");
        }
        for x in [1.0, f64::EPSILON, 0.5, std::f64::consts::SQRT_2 / 2.0] {
            assert!((ln(x) - x.ln()).abs() < 1e-11, "{x}");
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
