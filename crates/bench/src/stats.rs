//! Medians, quartiles, and how sure a median is. Pure arithmetic.

use serde::Serialize;

use crate::internet::Random;

/// Where measured values lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    /// Half are below.
    pub median: f64,
    /// A quarter is below.
    pub q1: f64,
    /// A quarter is above.
    pub q3: f64,
    /// Where the median itself lies with 95 % confidence (percentile bootstrap).
    pub low: f64,
    /// Upper end of that interval.
    pub high: f64,
    /// How many values.
    pub n: usize,
}

/// Resamplings of the bootstrap.
const RESAMPLES: usize = 1000;

impl Spread {
    /// The spread of `values`; all zero if there are none. The bootstrap draws from `random`.
    pub fn of(values: impl IntoIterator<Item = f64>, random: &mut Random) -> Spread {
        let mut v: Vec<f64> = values.into_iter().collect();
        if v.is_empty() {
            return Spread::default();
        }
        v.sort_by(f64::total_cmp);
        let mut medians: Vec<f64> = (0..RESAMPLES)
            .map(|_| resampled_median(&v, random))
            .collect();
        medians.sort_by(f64::total_cmp);
        Spread {
            median: quantile(&v, 0.5),
            q1: quantile(&v, 0.25),
            q3: quantile(&v, 0.75),
            low: quantile(&medians, 0.025),
            high: quantile(&medians, 0.975),
            n: v.len(),
        }
    }

    /// The same in another unit.
    #[must_use]
    pub fn map(self, f: impl Fn(f64) -> f64) -> Spread {
        Spread {
            median: f(self.median),
            q1: f(self.q1),
            q3: f(self.q3),
            low: f(self.low),
            high: f(self.high),
            n: self.n,
        }
    }
}

/// The median of `values`, 0 if there are none.
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut v: Vec<f64> = values.into_iter().collect();
    v.sort_by(f64::total_cmp);
    quantile(&v, 0.5)
}

/// The value that a share `q` of the sorted values lies below; between two of them in proportion.
fn quantile(sorted: &[f64], q: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else {
        return 0.0;
    };
    let at = q * last as f64;
    let (below, part) = (at.floor() as usize, at.fract());
    sorted[below] + (sorted[last.min(below + 1)] - sorted[below]) * part
}

/// The median of as many values drawn with replacement. Draws positions, so nothing need be copied: the
/// middle of the drawn positions is the position of the middle value.
fn resampled_median(sorted: &[f64], random: &mut Random) -> f64 {
    let n = sorted.len();
    let mut drawn: Vec<usize> = (0..n).map(|_| random.below(n)).collect();
    let (_, middle, _) = drawn.select_nth_unstable(n / 2);
    sorted[*middle]
}

/// Rounded to `decimals`, as figures are printed.
pub fn round(x: f64, decimals: i32) -> f64 {
    let by = 10f64.powi(decimals);
    (x * by).round() / by
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_quartiles() {
        assert_eq!(median([3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median([]), 0.0);
        let s = Spread::of((1..=9).map(f64::from), &mut Random::new(1));
        assert_eq!((s.q1, s.median, s.q3, s.n), (3.0, 5.0, 7.0, 9));
        assert!(
            1.0 <= s.low && s.low < 5.0 && 5.0 < s.high && s.high <= 9.0,
            "{s:?}"
        );
    }

    #[test]
    fn more_values_are_surer_and_outliers_do_not_matter() {
        let mut random = Random::new(7);
        let mut noisy = |n: usize| -> Vec<f64> {
            (0..n)
                .map(|i| {
                    10.0 + random.below(1000) as f64 / 1000.0
                        + if i % 20 == 0 { 500.0 } else { 0.0 }
                })
                .collect()
        };
        let (few, many) = (noisy(20), noisy(2000));
        let few = Spread::of(few, &mut Random::new(1));
        let many = Spread::of(many, &mut Random::new(1));
        assert!(
            many.high - many.low < (few.high - few.low) / 2.0,
            "{few:?} {many:?}"
        );
        assert!((many.median - 10.5).abs() < 0.1, "{many:?}");
    }

    #[test]
    fn nothing_has_no_spread() {
        assert_eq!(Spread::of([], &mut Random::new(1)), Spread::default());
    }
}
