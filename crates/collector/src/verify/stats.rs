//! What samples say about the whole, and how unlikely it is that they say it by chance. docs/sampling.md has the derivation.
//!
//! Each packet is taken with the chance 1/N, independent of the others (sFlow Version 5, section 3.1), and then stands for
//! N packets and N times its length. Sums of such contributions are unbiased whatever the N of each; their variance is the
//! sum of N(N-1) y^2 over the samples, y being 1 for packets and the length for bytes. Samples that were drawn and lost
//! thin the rest evenly: with a share f of them left, 1/N becomes f/N.
//!
//! A normal distribution is good for the 95 % bound that is shown, but not for the far tail that decides over an alarm. There the
//! saddlepoint approximation of Lugannani and Rice (Advances in Applied Probability 12, 1980) is used, on the very distribution that
//! the truth implies: so many packets of each length, each taken with its chance.

use std::collections::HashMap;

/// Standard deviations on either side of the mean that hold 95 % of a normal distribution.
pub const Z95: f64 = 1.96;
/// Bytes of frame length that share a class of the distribution.
const CLASS: u32 = 64;
/// Classes kept; beyond, lengths and rates are told apart more coarsely.
const MAX_CLASSES: usize = 4096;
/// Farther out than this, in units of the largest contribution, nothing is looked for: the chance is nil.
const FARTHEST: f64 = 60.0;

/// Samples of one rate and similar lengths.
#[derive(Clone, Copy, Debug, Default)]
struct Class {
    n: f64,
    /// Sums of N and of N times the length.
    packets: f64,
    bytes: f64,
}

/// Sums over the samples of one interface and direction.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    /// Samples that came.
    pub received: u64,
    packets: f64,
    bytes: f64,
    classes: HashMap<(u32, u32), Class>,
}

impl Samples {
    /// Adds a sample taken at 1 in `rate` of a frame of `len` bytes.
    pub fn add(&mut self, rate: u32, len: u32) {
        let (n, s) = (f64::from(rate), f64::from(len));
        self.received += 1;
        self.packets += n;
        self.bytes += n * s;
        let mut key = (rate, len / CLASS);
        if self.classes.len() >= MAX_CLASSES && !self.classes.contains_key(&key) {
            // At most 32 times 9 of these.
            key = (
                rate.checked_ilog2().unwrap_or(0),
                u32::MAX - (len / 1024).min(8),
            );
        }
        let c = self.classes.entry(key).or_default();
        c.n += 1.0;
        c.packets += n;
        c.bytes += n * s;
    }

    /// Adds the samples of another stretch of time.
    pub fn join(&mut self, other: &Samples) {
        self.received += other.received;
        self.packets += other.packets;
        self.bytes += other.bytes;
        for (key, c) in &other.classes {
            let mine = self.classes.entry(*key).or_default();
            mine.n += c.n;
            mine.packets += c.packets;
            mine.bytes += c.bytes;
        }
    }

    /// What these samples say, `lost` more having been drawn of their source, of which `received` came in all directions.
    pub fn estimate(&self, what: Quantity, lost: u64, received: u64) -> Estimate {
        let thinned = if received == 0 {
            1.0
        } else {
            1.0 + lost as f64 / received as f64
        };
        let class = |c: &Class| {
            let rate = c.packets / c.n * thinned;
            let size = match what {
                Quantity::Packets => 1.0,
                Quantity::Bytes if c.packets > 0.0 => c.bytes / c.packets,
                Quantity::Bytes => 0.0,
            };
            Atom { n: c.n, rate, size }
        };
        let total = match what {
            Quantity::Packets => self.packets,
            Quantity::Bytes => self.bytes,
        };
        Estimate {
            total: total * thinned,
            atoms: self.classes.values().map(class).collect(),
        }
    }
}

/// What is estimated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// The number of frames.
    Packets,
    /// The sum of their lengths.
    Bytes,
}

/// Samples alike: how many, the rate in force for them, and what one packet of them counts.
#[derive(Clone, Copy, Debug)]
struct Atom {
    n: f64,
    rate: f64,
    size: f64,
}

/// An estimated total.
#[derive(Clone, Debug)]
pub struct Estimate {
    /// The total.
    pub total: f64,
    atoms: Vec<Atom>,
}

impl Estimate {
    /// The standard deviation of the total, estimated from the samples themselves.
    pub fn deviation(&self) -> f64 {
        let each = |a: &Atom| a.n * a.rate * (a.rate - 1.0).max(0.0) * a.size * a.size;
        self.atoms.iter().map(each).sum::<f64>().sqrt()
    }

    /// Half the width of the interval that holds the truth 95 of 100 times.
    pub fn bound95(&self) -> f64 {
        Z95 * self.deviation()
    }

    /// The chance that samples of this truth are as far from it as these or farther, to either side. Deviations of up to
    /// `slack` count as none.
    pub fn chance(&self, truth: f64, slack: f64) -> f64 {
        let difference = self.total - truth;
        if difference.abs() <= slack {
            return 1.0;
        }
        if truth <= 0.0 || self.atoms.is_empty() {
            // Samples of nothing, or no sample at all, of which the rate would have to be known.
            return 0.0;
        }
        let seen = self.total - slack * difference.signum();
        Law::new(self, truth).two_sided(seen)
    }
}

/// The chance that none of `packets` is taken at 1 in `rate`.
pub fn chance_of_none(packets: f64, rate: f64) -> f64 {
    if rate <= 1.0 {
        return if packets > 0.0 { 0.0 } else { 1.0 };
    }
    ((-1.0 / rate).ln_1p() * packets).exp()
}

/// The distribution of an estimate when the truth is known: the mix of rates and lengths is that of the samples, scaled so
/// that its mean is the truth.
struct Law<'e> {
    atoms: &'e [Atom],
    scale: f64,
    truth: f64,
    largest: f64,
}

impl<'e> Law<'e> {
    fn new(e: &'e Estimate, truth: f64) -> Law<'e> {
        let contribution = |a: &Atom| a.rate * a.size;
        Law {
            atoms: &e.atoms,
            scale: truth / e.total.max(f64::MIN_POSITIVE),
            truth,
            largest: e.atoms.iter().map(contribution).fold(0.0, f64::max),
        }
    }

    /// The cumulant generating function at `t` and its first two derivatives.
    fn cumulants(&self, t: f64) -> (f64, f64, f64) {
        let (mut k, mut k1, mut k2) = (0.0, 0.0, 0.0);
        for a in self.atoms {
            let packets = self.scale * a.n * a.rate;
            let y = a.rate * a.size;
            let taken = 1.0 / a.rate.max(1.0);
            let grown = (t * y).exp_m1();
            let p = taken * (1.0 + grown) / (1.0 + taken * grown);
            k += packets * (taken * grown).ln_1p();
            k1 += packets * p * y;
            k2 += packets * p * (1.0 - p) * y * y;
        }
        (k, k1, k2)
    }

    /// Where the derivative equals `x`: by bisection, since it grows all the way.
    fn saddlepoint(&self, x: f64) -> Option<f64> {
        let end = FARTHEST / self.largest;
        let (mut low, mut high) = (-end, end);
        if self.cumulants(low).1 > x || self.cumulants(high).1 < x {
            return None;
        }
        for _ in 0..200 {
            let middle = 0.5 * (low + high);
            if self.cumulants(middle).1 < x {
                low = middle;
            } else {
                high = middle;
            }
        }
        Some(0.5 * (low + high))
    }

    fn two_sided(&self, x: f64) -> f64 {
        let deviation = self.cumulants(0.0).2.sqrt();
        if deviation <= 1e-9 * self.truth || self.largest <= 0.0 {
            // Every packet was taken: there is no chance in it.
            return 0.0;
        }
        let z = (x - self.truth) / deviation;
        if z.abs() < 0.1 {
            return 2.0 * upper_tail(z.abs());
        }
        let Some(t) = self.saddlepoint(x) else {
            return 0.0;
        };
        let (k, _, k2) = self.cumulants(t);
        let w = (2.0 * (t * x - k)).max(0.0).sqrt();
        let u = t.abs() * k2.sqrt();
        let density = (-0.5 * w * w).exp() / (2.0 * std::f64::consts::PI).sqrt();
        let tail = upper_tail(w) + density * (1.0 / u - 1.0 / w);
        (2.0 * tail).clamp(0.0, 1.0)
    }
}

/// The chance that a normal number exceeds `z` >= 0: the complementary error function by Chebyshev's polynomials
/// (Numerical Recipes, section 6.2), right to 1.2e-7 of its value.
pub fn upper_tail(z: f64) -> f64 {
    const C: [f64; 10] = [
        -1.265_512_23,
        1.000_023_68,
        0.374_091_96,
        0.096_784_18,
        -0.186_288_06,
        0.278_868_07,
        -1.135_203_98,
        1.488_515_87,
        -0.822_152_23,
        0.170_872_77,
    ];
    let x = z / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.5 * x);
    let sum = C.iter().rev().fold(0.0, |sum, c| sum * t + c);
    0.5 * t * (sum - x * x).exp()
}

#[cfg(test)]
mod tests {
    use super::*;
    use parshall_sample::Sampler;

    #[test]
    fn the_normal_tail() {
        for (z, want) in [
            (0.0, 0.5),
            (1.0, 0.158_655_254),
            (1.959_964, 0.025),
            (3.090_232, 0.001),
            (5.0, 2.866_515_7e-7),
        ] {
            let got = upper_tail(z);
            assert!((got / want - 1.0).abs() < 3e-6, "{z}: {got} for {want}");
        }
    }

    #[test]
    fn the_formulas() {
        let mut s = Samples::default();
        for len in [100, 100, 1500] {
            s.add(10, len);
        }
        let p = s.estimate(Quantity::Packets, 0, 3);
        assert_eq!(p.total, 30.0);
        assert!((p.deviation() - (3.0f64 * 10.0 * 9.0).sqrt()).abs() < 1e-9);
        let b = s.estimate(Quantity::Bytes, 0, 3);
        assert_eq!(b.total, 17_000.0);
        let squares: f64 = 2.0 * 100.0 * 100.0 + 1500.0 * 1500.0;
        assert!((b.deviation() - (90.0 * squares).sqrt()).abs() < 1e-6);
        // Of six drawn three came: each stands for twenty.
        let p = s.estimate(Quantity::Packets, 3, 3);
        assert_eq!(p.total, 60.0);
        assert!((p.deviation() - (3.0f64 * 20.0 * 19.0).sqrt()).abs() < 1e-9);
        // For many packets to a sample, the bound is sFlow's: 196 percent over the root of the samples.
        let mut s = Samples::default();
        (0..400).for_each(|_| s.add(10_000, 64));
        let e = s.estimate(Quantity::Packets, 0, 400);
        let percent = 100.0 * e.bound95() / e.total;
        assert!((percent - 196.0 * (1.0f64 / 400.0).sqrt()).abs() < 0.001);
        let mut twice = s.clone();
        twice.join(&s);
        assert_eq!(
            twice.estimate(Quantity::Bytes, 0, 1).total,
            800.0 * 640_000.0
        );
    }

    /// The exact chance of a binomial count: the sum of its terms.
    fn binomial_two_sided(packets: u64, rate: f64, count: u64) -> f64 {
        let p = 1.0 / rate;
        let (mut term, mut below, mut at) = ((-p).ln_1p() * packets as f64, 0.0, 0.0);
        for k in 0..=count {
            if k == count {
                at = term.exp();
            } else {
                below += term.exp();
            }
            term += ((packets - k) as f64 / (k + 1) as f64 * p / (1.0 - p)).ln();
        }
        // The count itself is halved, as for any continuous approximation.
        let lower = below + 0.5 * at;
        2.0 * lower.min(1.0 - lower)
    }

    #[test]
    fn the_far_tail_is_that_of_the_binomial_distribution() {
        for (packets, rate, counts) in [
            (1000u64, 100.0, [2u64, 4, 16, 22]),
            (10_000, 100.0, [60, 80, 120, 150]),
            (2000, 2.0, [900, 950, 1050, 1100]),
            (100_000, 1000.0, [55, 70, 135, 160]),
        ] {
            for count in counts {
                let mut s = Samples::default();
                (0..count).for_each(|_| s.add(rate as u32, 64));
                let e = s.estimate(Quantity::Packets, 0, count);
                let (got, want) = (
                    e.chance(packets as f64, 0.0),
                    binomial_two_sided(packets, rate, count),
                );
                assert!(
                    (got / want - 1.0).abs() < 0.2,
                    "{count} of {packets} at {rate}: {got:e} for {want:e}"
                );
            }
        }
    }

    #[test]
    fn certainty_slack_and_nothing() {
        let mut all = Samples::default();
        (0..50).for_each(|_| all.add(1, 100));
        let e = all.estimate(Quantity::Packets, 0, 50);
        assert_eq!((e.chance(50.0, 0.0), e.chance(51.0, 0.0)), (1.0, 0.0));
        assert_eq!(e.chance(51.0, 1.0), 1.0);
        assert_eq!(e.chance(0.0, 0.0), 0.0);
        let none = Samples::default().estimate(Quantity::Bytes, 0, 0);
        assert_eq!((none.total, none.bound95()), (0.0, 0.0));
        assert!((chance_of_none(100.0, 100.0) - 0.366).abs() < 1e-3);
        assert_eq!(chance_of_none(5.0, 1.0), 0.0);
        // Twice as many as there can be.
        let mut s = Samples::default();
        (0..100).for_each(|_| s.add(10, 100));
        let e = s.estimate(Quantity::Packets, 0, 100);
        assert!(e.chance(60.0, 0.0) < 1e-15 && e.chance(1e6, 0.0) < 1e-15);
    }

    #[test]
    fn the_number_of_classes_is_limited() {
        let mut s = Samples::default();
        for n in 1..200_000u32 {
            s.add(n, n % 65_536);
        }
        assert!(s.classes.len() <= MAX_CLASSES + 33 * 9);
        let e = s.estimate(Quantity::Bytes, 0, 1);
        let sum: f64 = e.atoms.iter().map(|a| a.n * a.rate * a.size).sum();
        assert!((sum / e.total - 1.0).abs() < 1e-9);
    }

    /// splitmix64 (Steele, Lea, Flood 2014).
    fn next(state: &mut u64) -> u64 {
        *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = *state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// What a run of simulated traffic gave for packets and for bytes: whether the truth lay within the 95 % bound, and
    /// the chance.
    type Outcome = [(bool, f64); 2];

    /// Passes packets of mixed lengths by the router's own sampler. The rate is `rates[i]` for the i-th part of them.
    fn run(seed: u64, packets: u64, rates: &[u32], keep: u64) -> Outcome {
        let mut sampler = Sampler::new(0, seed);
        let (mut state, mut s, mut bytes) = (seed ^ 0xABCD, Samples::default(), 0u64);
        let (mut drawn, mut lost) = (0u64, 0u64);
        let part = packets.div_ceil(rates.len() as u64);
        for i in 0..packets {
            let rate = rates[(i / part) as usize];
            if i % part == 0 {
                sampler.set_rate(rate);
            }
            // The Internet's usual: many small, many full, some between.
            let len = match next(&mut state) % 12 {
                0..=5 => 66,
                6 => 200 + (next(&mut state) % 1000) as u32,
                _ => 1514,
            };
            bytes += u64::from(len);
            if sampler.advance(1).is_some() {
                drawn += 1;
                if next(&mut state) % 100 < keep {
                    s.add(rate, len);
                } else {
                    lost += 1;
                }
            }
        }
        assert_eq!(s.received + lost, drawn);
        [(Quantity::Packets, packets), (Quantity::Bytes, bytes)].map(|(what, truth)| {
            let e = s.estimate(what, lost, s.received);
            let truth = truth as f64;
            ((e.total - truth).abs() <= e.bound95(), e.chance(truth, 0.0))
        })
    }

    /// Runs, and what came of them for packets and bytes: within 95 %, chance below 5 %, chance below 0.1 %.
    fn runs(n: u64, packets: u64, rates: &[u32], keep: u64) -> [[u32; 3]; 2] {
        let mut out = [[0; 3]; 2];
        for seed in 0..n {
            let seed = seed * 7919 + packets + u64::from(rates[0]);
            for (row, (inside, chance)) in out.iter_mut().zip(run(seed, packets, rates, keep)) {
                row[0] += u32::from(inside);
                row[1] += u32::from(chance < 0.05);
                row[2] += u32::from(chance < 0.001);
            }
        }
        out
    }

    /// The table of docs/sampling.md: runs of a seeded simulation by the router's own sampler.
    #[test]
    fn intervals_of_95_percent_cover_95_percent_and_alarms_are_as_rare_as_promised() {
        const RUNS: u64 = 1000;
        let mut table = String::new();
        for (what, packets, rates, keep) in [
            ("1 in 10", 10_000, &[10][..], 100),
            ("1 in 100", 10_000, &[100], 100),
            ("1 in 100", 100_000, &[100], 100),
            ("1 in 1,000", 200_000, &[1000], 100),
            ("1 in 50, 200, 1,000", 150_000, &[50, 200, 1000], 100),
            ("1 in 100, 20 % of samples lost", 100_000, &[100], 80),
        ] {
            let [p, b] = runs(RUNS, packets, rates, keep);
            let percent = |n: u32| 100.0 * f64::from(n) / RUNS as f64;
            table += &format!(
                "| {what} | {packets} | {:.1} % | {:.1} % | {:.1} % | {:.1} % | {:.2} % | {:.2} % |\n",
                percent(p[0]),
                percent(b[0]),
                percent(p[1]),
                percent(b[1]),
                percent(p[2]),
                percent(b[2])
            );
            for row in [p, b] {
                // 95 % of 1,000 with a deviation of 0.7 %; of few samples the estimated deviation is a little low.
                assert!((92.5..=97.0).contains(&percent(row[0])), "{table}");
                assert!((3.0..=7.0).contains(&percent(row[1])), "{table}");
                // One expected: seven and more come once in ten thousand tests.
                assert!(row[2] < 7, "{table}");
            }
        }
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/sampling.md");
        let page = std::fs::read_to_string(path).unwrap();
        let (head, rest) = page.split_once("<!-- measured -->\n").unwrap();
        let (shown, tail) = rest.split_once("<!-- end -->").unwrap();
        if std::env::var_os("PARSHALL_BLESS").is_some() {
            let new = format!("{head}<!-- measured -->\n{MEASURED}{table}<!-- end -->{tail}");
            std::fs::write(path, new).unwrap();
        } else {
            assert!(
                shown == format!("{MEASURED}{table}"),
                "docs/sampling.md is out of date: PARSHALL_BLESS=1 cargo test -p parshall-collector writes it"
            );
        }
    }

    /// The head of the table in docs/sampling.md.
    const MEASURED: &str = "\
| sampled | packets in a run | truth within 95 %: packets | bytes | chance below 5 %: packets | bytes | below 0.1 %: packets | bytes |
|---|---|---|---|---|---|---|---|
";
}
