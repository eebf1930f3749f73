//! Load-balances: a power-of-two number of buckets, filled from weighted paths; the flow
//! hash picks the bucket.
//!
//! Exactness. A path that should get the share `w / W` of `n` buckets gets `floor` or
//! `ceil` of `n * w / W` of them (but at least one), so its share is wrong by less than
//! `1 / n`, unless lighter paths than `W / n` exist, whose minimum of one bucket the
//! others pay for. `n` is the smallest power of two that fits the weights exactly, or 64.
//!
//! Stability. [`LoadBalance::update`] keeps a bucket's path wherever the path survives
//! and its share allows; when paths only leave, no bucket of the others moves as long as
//! their weights are equal.

use crate::dpo::Dpo;
use parshall_rcu::Slab;
use thiserror::Error;

/// The table of load-balances; its indices are those of [`crate::DpoKind::LoadBalance`].
pub type LoadBalances = Slab<LoadBalance>;

/// Most buckets, and so most paths, of one load-balance.
pub const BUCKETS_MAX: usize = 64;

/// One way to go, and how much of the traffic it should take relative to the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Path {
    /// Where the packets go.
    pub dpo: Dpo,
    /// Relative share; 0 counts as 1.
    pub weight: u32,
}

/// Buckets of one set of paths. Immutable once published.
#[repr(C, align(64))]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadBalance {
    /// Number of buckets - 1. Shares the first cache line with the first 15 buckets.
    mask: u32,
    buckets: [Dpo; BUCKETS_MAX],
}

/// A set of paths that cannot be a load-balance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum LoadBalanceError {
    /// No path at all.
    #[error("a load-balance needs at least one path")]
    NoPath,
    /// More paths than buckets.
    #[error("{0} paths: the limit is 64")]
    TooManyPaths(usize),
}

impl LoadBalance {
    /// Spreads buckets over `paths`. Paths with the same object add up.
    ///
    /// # Errors
    /// [`LoadBalanceError`] for no path or more than [`BUCKETS_MAX`].
    pub fn new(paths: &[Path]) -> Result<Self, LoadBalanceError> {
        let paths = merged(paths)?;
        let n = exact_size(&paths);
        Ok(Self::fill([None; BUCKETS_MAX], n, &paths))
    }

    /// The load-balance for `paths` that moves the fewest flows from where this one has
    /// them. Never has fewer buckets than this one, since a smaller mask would move flows,
    /// unless one path is left.
    ///
    /// # Errors
    /// As [`LoadBalance::new`].
    pub fn update(&self, paths: &[Path]) -> Result<Self, LoadBalanceError> {
        let paths = merged(paths)?;
        let n = match paths.len() {
            1 => 1,
            _ => exact_size(&paths).max(self.len()),
        };
        let mut old = [None; BUCKETS_MAX];
        for (i, bucket) in old.iter_mut().enumerate().take(n) {
            let dpo = self.buckets[i & self.mask as usize];
            *bucket = paths.iter().position(|p| p.dpo == dpo);
        }
        Ok(Self::fill(old, n, &paths))
    }

    /// The path of a flow. Uses the low bits of `hash`.
    #[inline]
    #[must_use]
    pub fn pick(&self, hash: u32) -> Dpo {
        // The second mask is a constant: no bounds check is left.
        self.buckets[(hash & self.mask) as usize & (BUCKETS_MAX - 1)]
    }

    /// The buckets, in order.
    #[must_use]
    pub fn buckets(&self) -> &[Dpo] {
        &self.buckets[..self.len()]
    }

    /// Number of buckets: a power of two.
    #[must_use]
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        (self.mask as usize & (BUCKETS_MAX - 1)) + 1
    }

    /// Gives every bucket a path; `old` holds the wishes (path numbers) of the buckets.
    fn fill(mut old: [Option<usize>; BUCKETS_MAX], n: usize, paths: &[Path]) -> Self {
        let mut want = shares(paths, n, &old[..n]);
        for bucket in &mut old[..n] {
            match bucket.map(|p| &mut want[p]) {
                Some(0) | None => *bucket = None,
                Some(left) => *left -= 1,
            }
        }
        let mut buckets = [Dpo::MISS; BUCKETS_MAX];
        for (bucket, kept) in buckets.iter_mut().zip(&old[..n]) {
            // Round robin over what is wanting, so that a path's buckets are spread.
            let path = kept.or_else(|| most_wanting(&mut want)).unwrap_or(0);
            *bucket = paths[path].dpo;
        }
        LoadBalance {
            mask: n as u32 - 1,
            buckets,
        }
    }
}

/// Adds up the weights of equal objects, in order of first appearance.
fn merged(paths: &[Path]) -> Result<Vec<Path>, LoadBalanceError> {
    let mut out: Vec<Path> = Vec::with_capacity(paths.len().min(BUCKETS_MAX));
    for path in paths {
        let weight = path.weight.max(1);
        match out.iter_mut().find(|p| p.dpo == path.dpo) {
            Some(p) => p.weight = p.weight.saturating_add(weight),
            None => out.push(Path {
                dpo: path.dpo,
                weight,
            }),
        }
        if out.len() > BUCKETS_MAX {
            return Err(LoadBalanceError::TooManyPaths(paths.len()));
        }
    }
    if out.is_empty() {
        Err(LoadBalanceError::NoPath)
    } else {
        Ok(out)
    }
}

fn total(paths: &[Path]) -> u64 {
    paths.iter().map(|p| u64::from(p.weight)).sum()
}

/// The smallest number of buckets that fits all weights exactly, or the largest.
fn exact_size(paths: &[Path]) -> usize {
    let sum = total(paths);
    let exact = |n: &u64| {
        paths
            .iter()
            .all(|p| (u64::from(p.weight) * n).is_multiple_of(sum))
    };
    (0..=6)
        .map(|bits| 1u64 << bits)
        .find(exact)
        .map_or(BUCKETS_MAX, |n| n as usize)
}

/// How many of `n` buckets each path gets: the floor of its quota, at least one; then
/// what is left one by one, first to paths that had more in `old`, then to the largest
/// remainders.
fn shares(paths: &[Path], n: usize, old: &[Option<usize>]) -> Vec<usize> {
    let sum = total(paths);
    let quota = |p: &Path| u64::from(p.weight) * n as u64;
    let mut count: Vec<usize> = paths
        .iter()
        .map(|p| ((quota(p) / sum) as usize).max(1))
        .collect();
    let mut given: usize = count.iter().sum();
    // The minimum of one bucket can overdraw: the largest pay.
    while given > n {
        if let Some(largest) = count.iter_mut().max() {
            *largest -= 1;
        }
        given -= 1;
    }
    let had = |i: usize| old.iter().filter(|b| **b == Some(i)).count();
    let mut order: Vec<usize> = (0..paths.len())
        .filter(|&i| quota(&paths[i]) > sum)
        .collect();
    order.sort_by_key(|&i| (had(i) <= count[i], sum - quota(&paths[i]) % sum));
    for &i in order.iter().cycle().take(n - given) {
        count[i] += 1;
    }
    count
}

fn most_wanting(want: &mut [usize]) -> Option<usize> {
    let (path, left) = want
        .iter_mut()
        .enumerate()
        .rev()
        .max_by_key(|(_, left)| **left)?;
    *left = left.checked_sub(1)?;
    Some(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dpo::DpoKind;
    use proptest::prelude::*;

    fn path(n: u32, weight: u32) -> Path {
        Path {
            dpo: Dpo::new(DpoKind::Adjacency, n),
            weight,
        }
    }

    fn count(lb: &LoadBalance, n: u32) -> usize {
        lb.buckets().iter().filter(|d| d.index() == n).count()
    }

    #[test]
    fn exact_weights_need_few_buckets() {
        assert_eq!(LoadBalance::new(&[path(1, 9)]).unwrap().len(), 1);
        let lb = LoadBalance::new(&[path(1, 1), path(2, 3)]).unwrap();
        assert_eq!((lb.len(), count(&lb, 1), count(&lb, 2)), (4, 1, 3));
        let lb = LoadBalance::new(&[path(1, 1), path(2, 1), path(3, 1)]).unwrap();
        assert_eq!(
            (lb.len(), count(&lb, 1), count(&lb, 2), count(&lb, 3)),
            (64, 22, 21, 21)
        );
    }

    #[test]
    fn pick_follows_the_hash() {
        let lb = LoadBalance::new(&[path(1, 1), path(2, 1)]).unwrap();
        assert_eq!(
            (lb.pick(0).index(), lb.pick(1).index(), lb.pick(6).index()),
            (1, 2, 1)
        );
    }

    #[test]
    fn sets_that_make_no_sense_are_refused() {
        assert_eq!(LoadBalance::new(&[]), Err(LoadBalanceError::NoPath));
        let many: Vec<_> = (0..65).map(|n| path(n, 1)).collect();
        assert_eq!(
            LoadBalance::new(&many),
            Err(LoadBalanceError::TooManyPaths(65))
        );
        let lb = LoadBalance::new(&many[..64]).unwrap();
        assert!((0..64).all(|n| count(&lb, n) == 1));
        let same = [path(1, 0), path(1, u32::MAX), path(1, u32::MAX)];
        assert_eq!(LoadBalance::new(&same).unwrap().len(), 1);
    }

    #[test]
    fn a_feather_beside_a_rock_still_gets_a_bucket() {
        let lb = LoadBalance::new(&[path(1, u32::MAX), path(2, 1), path(3, 1)]).unwrap();
        assert_eq!((count(&lb, 1), count(&lb, 2), count(&lb, 3)), (62, 1, 1));
    }

    proptest! {
        #[test]
        fn shares_are_off_by_less_than_a_bucket(weights in prop::collection::vec(1u32..100, 1..20)) {
            let paths: Vec<_> = weights.iter().enumerate().map(|(i, w)| path(i as u32, *w)).collect();
            let sum: u32 = weights.iter().sum();
            let lb = LoadBalance::new(&paths).unwrap();
            prop_assume!(weights.iter().all(|w| *w as usize * lb.len() >= sum as usize));
            for (i, w) in weights.iter().enumerate() {
                let quota = f64::from(*w) * lb.len() as f64 / f64::from(sum);
                let off = count(&lb, i as u32) as f64 - quota;
                prop_assert!(off.abs() < 1.0, "path {i}: off by {off}");
            }
        }

        #[test]
        fn removing_equal_paths_moves_no_other_flow(n in 2u32..=64, gone in prop::collection::vec(any::<u32>(), 1..8)) {
            let mut paths: Vec<_> = (0..n).map(|i| path(i, 5)).collect();
            let mut lb = LoadBalance::new(&paths).unwrap();
            for g in gone {
                if paths.len() == 1 {
                    break;
                }
                let gone = paths.remove(g as usize % paths.len());
                let next = lb.update(&paths).unwrap();
                prop_assert!(next.buckets().iter().all(|d| *d != gone.dpo));
                for hash in 0..64 {
                    if lb.pick(hash) != gone.dpo {
                        prop_assert_eq!(next.pick(hash), lb.pick(hash));
                    }
                }
                let (min, max) = paths.iter().map(|p| count(&next, p.dpo.index())).fold((64, 0), |(a, b), c| (a.min(c), b.max(c)));
                prop_assert!(max - min <= 1, "uneven: {min}..{max}");
                lb = next;
            }
        }

        #[test]
        fn adding_a_path_takes_only_its_share(n in 1u32..=32) {
            let paths: Vec<_> = (0..=n).map(|i| path(i, 1)).collect();
            let lb = LoadBalance::new(&paths[..n as usize]).unwrap();
            let next = lb.update(&paths).unwrap();
            let moved = (0..64).filter(|&h| next.pick(h) != lb.pick(h)).count();
            let new = (0..64).filter(|&h| next.pick(h).index() == n).count();
            prop_assert_eq!(moved, new);
        }
    }
}
