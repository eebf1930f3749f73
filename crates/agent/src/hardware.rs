//! A thread that asks hardware for its counters, so that the agent need not wait for a slow bus or the kernel's lock.
//!
//! What the agent reports is what was read last, a second ago or less; modules, which change slowly and are asked over a
//! slow bus, are read every ten seconds.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use parshall_device::{Hardware, HardwareState};

/// Time between two readings.
const PERIOD: Duration = Duration::from_secs(1);
/// Readings between two of modules.
const MODULE_EVERY: u32 = 10;

/// Interfaces by number, and their hardware.
pub type Watched = BTreeMap<u32, Arc<dyn Hardware>>;

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    watched: Watched,
    read: BTreeMap<u32, HardwareState>,
    running: bool,
    ended: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Watches hardware for as long as it lives.
#[derive(Default)]
pub struct HardwareWatch {
    shared: Arc<Shared>,
}

impl HardwareWatch {
    /// Says which interfaces are of interest. The thread starts with the first one.
    pub fn watch(&self, watched: Watched) {
        let mut state = self.shared.lock();
        let State {
            read, watched: was, ..
        } = &mut *state;
        read.retain(|index, _| match (was.get(index), watched.get(index)) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            _ => false,
        });
        let fresh = watched.keys().any(|i| !state.read.contains_key(i));
        state.watched = watched;
        if fresh && !state.running {
            let shared = self.shared.clone();
            let thread = thread::Builder::new().name("parshall-hw".into());
            match thread.spawn(move || run(&shared)) {
                Ok(_) => state.running = true,
                Err(e) => tracing::warn!("no thread to read hardware counters: {e}"),
            }
        }
        if fresh {
            self.shared.changed.notify_all();
        }
    }

    /// What an interface's hardware said last; `None` before it was asked.
    pub fn state(&self, index: u32) -> Option<HardwareState> {
        self.shared.lock().read.get(&index).cloned()
    }
}

impl Drop for HardwareWatch {
    fn drop(&mut self) {
        self.shared.lock().ended = true;
        self.shared.changed.notify_all();
    }
}

fn run(shared: &Shared) {
    let mut turn = 0u32;
    loop {
        let watched = {
            let state = shared.lock();
            if state.ended {
                return;
            }
            state.watched.clone()
        };
        for (index, hardware) in &watched {
            let known = shared.lock().read.get(index).cloned();
            let with_module = turn.is_multiple_of(MODULE_EVERY) || known.is_none();
            let mut now = hardware.read(with_module);
            if !with_module {
                now.module = known.and_then(|k| k.module);
            }
            let mut state = shared.lock();
            // It may have gone, or be another one by now.
            if state
                .watched
                .get(index)
                .is_some_and(|h| Arc::ptr_eq(h, hardware))
            {
                state.read.insert(*index, now);
            }
        }
        turn = turn.wrapping_add(1);
        let state = shared.lock();
        // Whatever wakes it, it is time to look again.
        drop(
            shared
                .changed
                .wait_timeout(state, PERIOD)
                .map(|s| s.0.ended),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parshall_device::MacErrors;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Instant;

    #[derive(Debug, Default)]
    struct Fake(AtomicU64);

    impl Hardware for Fake {
        fn read(&self, with_module: bool) -> HardwareState {
            let n = self.0.fetch_add(1, Ordering::Relaxed);
            HardwareState {
                mac: MacErrors {
                    fcs: Some(n),
                    ..MacErrors::default()
                },
                module: with_module.then(|| vec![3]),
            }
        }
    }

    fn until(done: impl Fn() -> bool) {
        let start = Instant::now();
        while !done() {
            assert!(start.elapsed() < Duration::from_secs(20), "too late");
            thread::sleep(Duration::from_millis(2));
        }
    }

    #[test]
    fn what_is_watched_is_read_again_and_again() {
        let watch = HardwareWatch::default();
        assert_eq!(watch.state(1), None);
        let hardware: Arc<dyn Hardware> = Arc::new(Fake::default());
        watch.watch([(1, hardware.clone())].into());
        until(|| watch.state(1).is_some());
        // The module is kept from reading to reading.
        until(|| watch.state(1).is_some_and(|s| s.mac.fcs >= Some(1)));
        assert_eq!(watch.state(1).unwrap().module, Some(vec![3]));
        // Another one in its place begins anew, one that is gone says nothing.
        watch.watch([(1, Arc::new(Fake::default()) as Arc<dyn Hardware>)].into());
        until(|| watch.state(1).is_some());
        watch.watch(Watched::new());
        assert_eq!(watch.state(1), None);
        let held = Arc::downgrade(&watch.shared);
        drop(watch);
        until(|| held.strong_count() == 0);
    }
}
