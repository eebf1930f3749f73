//! What samples say about the whole: totals, and how far they may be off.
//!
//! Each packet is sampled with chance 1/N, independent of the others (sFlow Version 5, section 4.2.2). A sample stands for
//! N packets and N times its length, so with n samples of lengths s_i
//!
//! - packets: N * n, bytes: N * sum(s_i);
//! - both are sums of independent contributions whose variance, estimated from the samples themselves, is N^2 * n and
//!   N^2 * sum(s_i^2). (Exactly it is N * (N - 1) in place of N^2, which nobody can tell apart at the rates in use.)
//! - so 95 of 100 times the truth lies within 1.96 standard deviations: 1.96 * N * sqrt(n) packets and
//!   1.96 * N * sqrt(sum(s_i^2)) bytes.
//!
//! A sample carries the N that was in force when it was taken, so every sum here is over the samples' own N.

/// Standard deviations on either side of the mean that hold 95 % of a normal distribution.
const Z95: f64 = 1.96;
/// With no sample at all: the largest mean of a Poisson count that shows zero in 2.5 % of cases, -ln(0.025).
const NONE_SEEN: f64 = 3.689;

/// Sums over samples.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sums {
    /// Samples.
    pub n: u64,
    /// Sum of N_i: the packets they stand for.
    packets: f64,
    /// Sum of N_i * s_i: the bytes they stand for.
    bytes: f64,
    /// Sum of N_i^2.
    packets_squared: f64,
    /// Sum of (N_i * s_i)^2.
    bytes_squared: f64,
}

impl Sums {
    /// Adds a sample taken at 1-in-`rate` of a frame of `len` bytes.
    pub fn add(&mut self, rate: u32, len: u32) {
        let (rate, len) = (f64::from(rate), f64::from(len));
        self.n += 1;
        self.packets += rate;
        self.bytes += rate * len;
        self.packets_squared += rate * rate;
        self.bytes_squared += rate * len * rate * len;
    }

    /// What was added since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Sums) -> Sums {
        Sums {
            n: self.n.saturating_sub(earlier.n),
            packets: self.packets - earlier.packets,
            bytes: self.bytes - earlier.bytes,
            packets_squared: self.packets_squared - earlier.packets_squared,
            bytes_squared: self.bytes_squared - earlier.bytes_squared,
        }
    }

    /// Packets, estimated.
    pub fn packets(&self) -> f64 {
        self.packets
    }

    /// Bytes, estimated.
    pub fn bytes(&self) -> f64 {
        self.bytes
    }

    /// Half the width of the interval that holds the true number of packets 95 of 100 times. `rate` is the N of the
    /// interface, which counts when there is no sample to take it from.
    pub fn packets_bound(&self, rate: u32) -> f64 {
        if self.n == 0 {
            return NONE_SEEN * f64::from(rate);
        }
        Z95 * self.packets_squared.sqrt()
    }

    /// The same for bytes. `longest` is the longest frame, which counts when there is no sample.
    pub fn bytes_bound(&self, rate: u32, longest: u32) -> f64 {
        if self.n == 0 {
            return NONE_SEEN * f64::from(rate) * f64::from(longest);
        }
        Z95 * self.bytes_squared.sqrt()
    }
}

/// A true total, its estimate and the bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// What the router counted.
    pub truth: u64,
    /// What the samples say.
    pub estimate: f64,
    /// How far they may be apart 95 of 100 times.
    pub bound95: f64,
}

impl Comparison {
    /// The difference as a part of the truth, signed; 0 if both are 0.
    pub fn error(&self) -> f64 {
        let difference = self.estimate - self.truth as f64;
        if self.truth == 0 {
            return if difference == 0.0 {
                0.0
            } else {
                f64::INFINITY
            };
        }
        difference / self.truth as f64
    }

    /// The bound as a part of the truth.
    pub fn relative_bound(&self) -> f64 {
        if self.truth == 0 {
            0.0
        } else {
            self.bound95 / self.truth as f64
        }
    }

    /// Whether the estimate is within `times` its bound.
    pub fn within(&self, times: f64) -> bool {
        (self.estimate - self.truth as f64).abs() <= times * self.bound95
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_formulas() {
        let mut sums = Sums::default();
        for len in [100, 100, 1500] {
            sums.add(10, len);
        }
        assert_eq!((sums.n, sums.packets(), sums.bytes()), (3, 30.0, 17_000.0));
        assert!((sums.packets_bound(10) - 1.96 * 10.0 * 3f64.sqrt()).abs() < 1e-9);
        let squares = 2.0 * 100.0 * 100.0 + 1500.0 * 1500.0;
        assert!((sums.bytes_bound(10, 1514) - 1.96 * 10.0 * f64::sqrt(squares)).abs() < 1e-6);
        let mut later = sums;
        later.add(20, 64);
        let last = later.since(&sums);
        assert_eq!((last.n, last.packets(), last.bytes()), (1, 20.0, 1280.0));
        assert!((last.packets_bound(1) - 1.96 * 20.0).abs() < 1e-9);
    }

    #[test]
    fn without_samples_the_bound_is_not_zero() {
        let none = Sums::default();
        assert!((none.packets_bound(100) - 368.9).abs() < 1e-9);
        assert!((none.bytes_bound(100, 1000) - 368_900.0).abs() < 1e-6);
    }

    #[test]
    fn comparisons() {
        let c = Comparison {
            truth: 1000,
            estimate: 980.0,
            bound95: 15.0,
        };
        assert!((c.error() + 0.02).abs() < 1e-12);
        assert!((c.relative_bound() - 0.015).abs() < 1e-12);
        assert!(!c.within(1.0) && c.within(2.0));
        let nothing = Comparison {
            truth: 0,
            estimate: 0.0,
            bound95: 0.0,
        };
        assert!(nothing.within(1.0) && nothing.error() == 0.0);
        let ghost = Comparison {
            truth: 0,
            estimate: 5.0,
            bound95: 1.0,
        };
        assert!(!ghost.within(2.0) && ghost.error().is_infinite());
    }

    /// splitmix64 (Steele, Lea, Flood 2014).
    fn next(state: &mut u64) -> u64 {
        *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = *state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Samples 50,000 packets of mixed sizes at 1:50; says whether packets and bytes lie in their bounds.
    fn trial(seed: u64) -> (bool, bool) {
        const PACKETS: u64 = 50_000;
        const RATE: u32 = 50;
        let (mut state, mut sums, mut bytes) = (seed, Sums::default(), 0u64);
        for i in 0..PACKETS {
            // Two thirds full frames, one third acknowledgements: what bulk TCP looks like.
            let len = if i % 3 == 0 { 66 } else { 1514 };
            bytes += u64::from(len);
            if next(&mut state).is_multiple_of(u64::from(RATE)) {
                sums.add(RATE, len);
            }
        }
        let packets = Comparison {
            truth: PACKETS,
            estimate: sums.packets(),
            bound95: sums.packets_bound(RATE),
        };
        let bytes = Comparison {
            truth: bytes,
            estimate: sums.bytes(),
            bound95: sums.bytes_bound(RATE, 1514),
        };
        (packets.within(1.0), bytes.within(1.0))
    }

    #[test]
    fn the_bound_holds_in_95_of_100_seeded_runs() {
        let runs = 400;
        let (mut packets, mut bytes) = (0, 0);
        for seed in 0..runs {
            let (p, b) = trial(seed);
            packets += u32::from(p);
            bytes += u32::from(b);
        }
        // 380 expected of each with a deviation of 4.4; a bound that is too wide would hold 400 times.
        for inside in [packets, bytes] {
            assert!(
                (363..=395).contains(&inside),
                "{packets} and {bytes} of {runs}"
            );
        }
    }
}
