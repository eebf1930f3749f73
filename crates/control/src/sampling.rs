//! How an interface is sampled: in which directions, at which rate, and where that rate comes from.
//!
//! Pure: the link's speed, the sample pool and the time are arguments. Follows hsflowd in the rate that a link's speed
//! gives, and sFlow Version 5, section 4.2.2, in that a rate may change at any time: each sample carries its own.

use std::collections::BTreeMap;

use parshall_sample::MAX_RATE;
use serde::Serialize;

/// Least N that the speed of a link gives, and that an adaptive rate falls to unless told otherwise.
pub const LEAST: u32 = 100;
/// N where the speed of a link is not known: that of 10 Gbit/s, and VPP's.
pub const SPEED_UNKNOWN: u32 = 10_000;

/// Which packets of an interface are sampled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SampleDirection {
    /// What it receives.
    #[default]
    Rx,
    /// What it sends.
    Tx,
    /// All.
    Both,
}

impl SampleDirection {
    /// The direction that `word` means.
    pub fn from_word(word: &str) -> Option<SampleDirection> {
        match word {
            "rx" => Some(SampleDirection::Rx),
            "tx" => Some(SampleDirection::Tx),
            "both" => Some(SampleDirection::Both),
            _ => None,
        }
    }
    /// As it is written.
    pub fn word(self) -> &'static str {
        match self {
            SampleDirection::Rx => "rx",
            SampleDirection::Tx => "tx",
            SampleDirection::Both => "both",
        }
    }
    /// Whether received packets are sampled.
    pub fn rx(self) -> bool {
        self != SampleDirection::Tx
    }
    /// Whether sent packets are sampled.
    pub fn tx(self) -> bool {
        self != SampleDirection::Rx
    }
}

/// sFlow on an interface; what is `None` is as for all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SflowPort {
    /// 1-in-N.
    pub rate: Option<u32>,
    /// The rate follows the traffic, in place of `rate`.
    pub adaptive: Option<Adaptive>,
    /// Header bytes.
    pub header_bytes: Option<u16>,
    /// Directions.
    pub direction: Option<SampleDirection>,
}

/// Where a rate comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RateSource {
    /// The interface was given it.
    Set,
    /// The DNS says it, with the collectors.
    Dns,
    /// All interfaces were.
    All,
    /// The speed of its link.
    Speed,
    /// Its speed is not known.
    Default,
    /// It follows the traffic.
    Adaptive,
}

impl RateSource {
    /// As it is shown.
    pub fn word(self) -> &'static str {
        match self {
            RateSource::Set => "set",
            RateSource::Dns => "dns",
            RateSource::All => "all",
            RateSource::Speed => "speed",
            RateSource::Default => "default",
            RateSource::Adaptive => "adaptive",
        }
    }
}

/// 1-in-N for a link of so many bits a second (0 = unknown): a millionth of the speed, so that full links give samples
/// at the same pace whatever they carry.
pub fn rate_for_speed(speed: u64) -> (u32, RateSource) {
    if speed == 0 {
        return (SPEED_UNKNOWN, RateSource::Default);
    }
    let n = u32::try_from(speed / 1_000_000).unwrap_or(MAX_RATE);
    (n.clamp(LEAST, MAX_RATE), RateSource::Speed)
}

/// Rates that were given to links of a speed, for interfaces without one of their own (hsflowd's `sampling.SPEED` and
/// `sampling.bps_ratio`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpeedRates {
    /// 1-in-N by bits a second, 0 = such links are not sampled.
    pub by_speed: BTreeMap<u64, u32>,
    /// N is the speed divided by it, for links of other speeds.
    pub ratio: Option<u32>,
}

impl SpeedRates {
    /// 1-in-N for a link of so many bits a second, if that follows from its speed.
    pub fn rate(&self, speed: u64) -> Option<u32> {
        let by_ratio = |r: u32| {
            let n = u32::try_from(speed / u64::from(r.max(1))).unwrap_or(MAX_RATE);
            n.clamp(LEAST, MAX_RATE)
        };
        let exact = self.by_speed.get(&speed).copied();
        exact.or_else(|| self.ratio.filter(|_| speed > 0).map(by_ratio))
    }
}

/// A rate that follows the traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Adaptive {
    /// Samples a second to aim at, all directions together.
    pub target: u32,
    /// Least N.
    pub min: u32,
    /// Greatest N.
    pub max: u32,
}

impl Adaptive {
    /// `rate` within the bounds.
    pub fn bound(&self, rate: u32) -> u32 {
        rate.clamp(self.min, self.max.max(self.min))
    }
}

const SECOND: u64 = 1_000_000_000;
/// How much of the old pace a second of less traffic leaves.
const MEMORY: f64 = 0.7;
/// By what factor the rate wanted must differ from the one in force. More than the square root of 2, by which the
/// nearest power of two may be off: traffic that varies a little does not move the rate to and fro.
const HYSTERESIS: f64 = 1.6;

/// Finds an adaptive rate from the growth of the sample pool.
#[derive(Clone, Debug)]
pub struct Tuner {
    rate: u32,
    /// Time and pool when last reckoned.
    seen: Option<(u64, u64)>,
    /// Packets a second, smoothed.
    pace: f64,
}

impl Tuner {
    /// Starts at 1-in-`rate`.
    pub fn new(rate: u32) -> Tuner {
        Tuner {
            rate,
            seen: None,
            pace: 0.0,
        }
    }

    /// The rate in force.
    pub fn rate(&self) -> u32 {
        self.rate
    }

    /// Looks at the sample pool at `now` (ns), which may be as often as one likes, and says whether the rate changed. It is
    /// reckoned once a second, and at once when a second's samples have come already: it rises at once with the
    /// traffic and falls slowly. Rates are powers of two, or a bound.
    pub fn look(&mut self, now: u64, pool: u64, a: &Adaptive) -> bool {
        let Some((then, before)) = self.seen else {
            self.seen = Some((now, pool));
            return false;
        };
        let (past, passed) = (now.saturating_sub(then), pool.saturating_sub(before));
        let early = passed / u64::from(self.rate.max(1)) > 2 * u64::from(a.target);
        if past == 0 || past < SECOND && !early {
            return false;
        }
        self.seen = Some((now, pool));
        let pace = passed as f64 * SECOND as f64 / past as f64;
        let fallen = self.pace * MEMORY + pace * (1.0 - MEMORY);
        self.pace = fallen.max(pace);
        let wanted = self.pace / f64::from(a.target.max(1));
        let held = f64::from(self.rate);
        let next = if wanted > held * HYSTERESIS || wanted * HYSTERESIS < held {
            a.bound(nearest_power(wanted))
        } else {
            a.bound(self.rate)
        };
        std::mem::replace(&mut self.rate, next) != next
    }
}

/// The power of two nearest to `x` by ratio, within what a rate can be.
fn nearest_power(x: f64) -> u32 {
    let exponent = x.max(1.0).log2().round().min(30.0);
    1 << exponent as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Adaptive = Adaptive {
        target: 100,
        min: 1,
        max: MAX_RATE,
    };

    #[test]
    fn the_speed_of_a_link_gives_its_rate() {
        for (speed, rate) in [
            (0, 10_000),
            (10_000_000, 100),
            (100_000_000, 100),
            (1_000_000_000, 1000),
            (10_000_000_000, 10_000),
            (400_000_000_000, 400_000),
            (u64::MAX, MAX_RATE),
        ] {
            assert_eq!(rate_for_speed(speed).0, rate, "{speed}");
        }
        assert_eq!(rate_for_speed(0).1, RateSource::Default);
    }

    #[test]
    fn what_is_said_of_a_speed_comes_before_the_ratio() {
        let mut all = SpeedRates::default();
        assert_eq!(all.rate(1_000_000_000), None);
        all.by_speed.insert(10_000_000_000, 20_000);
        all.by_speed.insert(25_000_000_000, 0);
        all.ratio = Some(500_000);
        for (speed, rate) in [
            (10_000_000_000, Some(20_000)),
            (25_000_000_000, Some(0)),
            (1_000_000_000, Some(2000)),
            (1_000_000, Some(LEAST)),
            (0, None),
        ] {
            assert_eq!(all.rate(speed), rate, "{speed}");
        }
    }

    /// The rates after each second of so many packets a second.
    fn rates(t: &mut Tuner, a: &Adaptive, pps: &[u64]) -> Vec<u32> {
        let (mut now, mut pool) = t.seen.unwrap_or((SECOND, 0));
        t.look(now, pool, a);
        pps.iter()
            .map(|n| {
                (now, pool) = (now + SECOND, pool + n);
                t.look(now, pool, a);
                t.rate()
            })
            .collect()
    }

    #[test]
    fn it_holds_the_target_within_its_hysteresis() {
        for pps in [100u64, 999, 12_345, 1_000_000, 150_000_000] {
            let mut t = Tuner::new(10_000);
            let all = rates(&mut t, &A, &[pps; 40]);
            let samples = pps as f64 / f64::from(*all.last().unwrap());
            assert!((62.0..=161.0).contains(&samples), "{pps}: {samples}");
            // What it starts with stays as long as it is near enough.
            assert!(all.iter().all(|r| r.is_power_of_two() || *r == 10_000));
            // It stays there.
            assert_eq!(all[38], all[39]);
        }
    }

    #[test]
    fn it_rises_at_once_and_falls_slowly() {
        let mut t = Tuner::new(128);
        assert_eq!(rates(&mut t, &A, &[12_800; 3]), [128; 3]);
        assert_eq!(rates(&mut t, &A, &[1_280_000]), [16_384]);
        let down = rates(&mut t, &A, &[12_800; 30]);
        assert!(down[0] >= 8192, "{down:?}");
        assert!(down.windows(2).all(|w| w[1] <= w[0]), "{down:?}");
        assert!((128..=256).contains(down.last().unwrap()), "{down:?}");
    }

    #[test]
    fn a_burst_is_answered_before_the_second_is_over() {
        let mut t = Tuner::new(100);
        assert!(!t.look(SECOND, 0, &A));
        assert!(
            !t.look(SECOND + 50_000_000, 10_000, &A),
            "100 samples so far"
        );
        assert!(t.look(SECOND + 100_000_000, 1_000_000, &A));
        assert_eq!(t.rate(), 131_072);
    }

    #[test]
    fn traffic_that_varies_a_little_does_not_move_it() {
        let mut t = Tuner::new(128);
        let wavering: Vec<u64> = (0..100).map(|i| 12_800 + i % 7 * 700).collect();
        assert!(rates(&mut t, &A, &wavering).iter().all(|r| *r == 128));
    }

    #[test]
    fn bounds_hold_and_need_not_be_powers() {
        let bounded = Adaptive {
            min: 300,
            max: 5000,
            ..A
        };
        let mut t = Tuner::new(1000);
        assert_eq!(*rates(&mut t, &bounded, &[0; 40]).last().unwrap(), 300);
        assert_eq!(rates(&mut t, &bounded, &[1 << 40]), [5000]);
        // The same time, and a pool that was cleared, are no traffic.
        let (now, pool) = t.seen.unwrap();
        assert!(!t.look(now, pool + 1_000_000, &bounded));
        assert!(!t.look(now + SECOND, 0, &bounded));
    }
}
