//! The wish to end: a signal sets a flag, and everything that waits looks at it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::error::{LabError, Result};

/// How often a wait looks at the flag.
const STEP: Duration = Duration::from_millis(50);

/// Set by Ctrl-C, a hang-up or a request to terminate.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Takes the signals over. From now on they end nothing by themselves.
    ///
    /// # Errors
    /// When the system refuses a handler.
    pub fn on_signals() -> Result<Stop> {
        let stop = Stop::default();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&stop.0))
                .map_err(LabError::io("watch for signals"))?;
        }
        Ok(stop)
    }

    /// Whether the end is wished.
    pub fn asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Asks for the end.
    pub fn ask(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// An error once the end is wished, so that `?` leaves.
    ///
    /// # Errors
    /// [`LabError::Interrupted`].
    pub fn check(&self) -> Result<()> {
        if self.asked() {
            Err(LabError::Interrupted)
        } else {
            Ok(())
        }
    }

    /// Waits until `deadline`, or until the end is wished.
    pub fn wait_until(&self, deadline: Instant) {
        while !self.asked() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(STEP));
        }
    }

    /// Waits for `time`, or until the end is wished.
    pub fn wait(&self, time: Duration) {
        self.wait_until(Instant::now() + time);
    }
}
