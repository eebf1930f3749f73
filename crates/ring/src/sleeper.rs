//! Going to sleep without missing anything: what a thread that waits for its rings and those that write them
//! agree on.
//!
//! The one who waits says that it lies down, looks at its rings once more, and only then sleeps. Whoever
//! writes to one of them looks afterwards whether it sleeps, and wakes it. Between saying and looking stands
//! a sequentially consistent fence on both sides, so at least one of the two sees the other (Dekker).

#[cfg(loom)]
use loom::sync::atomic::{AtomicBool, Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicBool, Ordering, fence};

/// Whether a thread sleeps, or is about to.
#[derive(Debug)]
pub struct Sleeper {
    /// Written by the thread alone.
    asleep: AtomicBool,
}

impl Default for Sleeper {
    fn default() -> Self {
        Sleeper::new()
    }
}

impl Sleeper {
    /// Awake.
    pub fn new() -> Sleeper {
        Sleeper {
            asleep: AtomicBool::new(false),
        }
    }

    /// Says that the thread is about to sleep. It must look at its rings after this and before it sleeps.
    pub fn lie_down(&self) {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Says that it is awake.
    pub fn get_up(&self) {
        self.asleep.store(false, Ordering::Relaxed);
    }

    /// Whether whoever has just written to one of the thread's rings must wake it.
    pub fn must_be_woken(&self) -> bool {
        fence(Ordering::SeqCst);
        self.asleep.load(Ordering::Relaxed)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn only_a_sleeper_must_be_woken() {
        let s = Sleeper::default();
        assert!(!s.must_be_woken());
        s.lie_down();
        assert!(s.must_be_woken());
        s.get_up();
        assert!(!s.must_be_woken());
    }
}
