//! Says what goes wrong a few times a second, and how often it was not said: clients can be wrong faster than a log is read.

use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Messages a second.
const PER_SECOND: u32 = 10;

/// Lets some messages pass.
#[derive(Debug, Default)]
pub(crate) struct Limiter(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    since: Option<Instant>,
    said: u32,
    kept: u64,
}

impl Limiter {
    /// Whether to say something now, and how much was kept to oneself before it.
    pub fn pass(&self, now: Instant) -> Option<u64> {
        let mut s = self
            .0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let over = |t: Instant| now.saturating_duration_since(t) >= Duration::from_secs(1);
        if s.since.is_none_or(over) {
            s.since = Some(now);
            s.said = 0;
        }
        if s.said == PER_SECOND {
            s.kept += 1;
            return None;
        }
        s.said += 1;
        Some(std::mem::take(&mut s.kept))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_counted() {
        let (l, t) = (Limiter::default(), Instant::now());
        let passed = (0..100).filter(|_| l.pass(t).is_some()).count();
        assert_eq!(passed, 10);
        assert_eq!(l.pass(t + Duration::from_secs(1)), Some(90));
        assert_eq!(l.pass(t + Duration::from_secs(1)), Some(0));
    }
}
