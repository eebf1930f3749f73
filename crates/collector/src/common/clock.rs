//! The time of day, as numbers.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Time since 1970-01-01 UTC.
pub(crate) fn unix_time() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}

/// As 64 bits of milliseconds.
pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
