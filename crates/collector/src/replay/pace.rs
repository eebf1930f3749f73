//! When each datagram is due, as time since the first one.

use std::time::Duration;

/// Between the last datagram of a round and the first of the next, at the capture's own speed.
const BETWEEN_ROUNDS: Duration = Duration::from_secs(1);
/// What the plan is bounded by: some hundred years.
const MOST_SECONDS: f64 = 4e9;

/// How fast.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Speed {
    /// So many times as fast as it was captured.
    Times(f64),
    /// So many datagrams a second.
    Rate(f64),
    /// As fast as it goes.
    Fast,
}

/// The plan.
#[derive(Debug)]
pub struct Pace {
    speed: Speed,
    /// Capture time of the round's first datagram, and when that was due.
    first: Option<Duration>,
    base: Duration,
    last: Duration,
    count: u64,
}

impl Pace {
    /// A plan in which nothing was due yet.
    pub fn new(speed: Speed) -> Pace {
        Pace {
            speed,
            first: None,
            base: Duration::ZERO,
            last: Duration::ZERO,
            count: 0,
        }
    }

    /// The capture begins again.
    pub fn next_round(&mut self) {
        self.first = None;
        self.base = self.last;
        if let (Speed::Times(x), true) = (self.speed, self.count > 0) {
            self.base += seconds(BETWEEN_ROUNDS.as_secs_f64() / x);
        }
    }

    /// When a datagram captured at that time is due: never before the one in front of it, even if the capture's clock went back.
    pub fn due(&mut self, captured: Duration) -> Duration {
        let first = *self.first.get_or_insert(captured);
        let due = match self.speed {
            Speed::Times(x) => {
                self.base + seconds(captured.saturating_sub(first).as_secs_f64() / x)
            }
            Speed::Rate(r) => seconds(self.count as f64 / r),
            Speed::Fast => Duration::ZERO,
        };
        self.count += 1;
        self.last = self.last.max(due);
        self.last
    }
}

fn seconds(n: f64) -> Duration {
    Duration::from_secs_f64(n.clamp(0.0, MOST_SECONDS))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(speed: Speed, rounds: u32) -> Vec<u128> {
        let mut p = Pace::new(speed);
        let mut all = Vec::new();
        for _ in 0..rounds {
            p.next_round();
            for at in [1000, 1200, 1100, 2000] {
                all.push(p.due(Duration::from_millis(at)).as_millis());
            }
        }
        all
    }

    #[test]
    fn the_capture_keeps_its_time_and_never_goes_back() {
        let two = [0, 200, 200, 1000, 2000, 2200, 2200, 3000];
        assert_eq!(plan(Speed::Times(1.0), 2), two);
        assert_eq!(
            plan(Speed::Times(2.0), 2),
            two.map(|n| n / 2),
            "twice as fast, the pause included"
        );
    }

    #[test]
    fn a_rate_goes_on_over_rounds() {
        let want = [0, 100, 200, 300, 400, 500, 600, 700];
        assert_eq!(plan(Speed::Rate(10.0), 2), want);
        assert_eq!(plan(Speed::Fast, 1), [0; 4]);
    }

    #[test]
    fn the_slowest_speed_is_no_overflow() {
        let mut p = Pace::new(Speed::Times(1e-6));
        p.next_round();
        p.due(Duration::ZERO);
        assert!(p.due(Duration::from_secs(u64::from(u32::MAX))) > Duration::from_secs(1));
    }
}
