//! `/sys/*`, `/buffer-pools/*` and `/mem/*`: clocks, rates and memory.
//!
//! Rates and memory are of the last whole second. GoVPP reads only plain numbers, so rates are whole.

use std::time::{SystemTime, UNIX_EPOCH};

use parshall_counters::{NodeTotals, WorkerCounters};
use parshall_stats_segment::{Counters, Scalar, Segment};

use super::{Made, Shape, Sources};

/// Nanoseconds over which rates are taken.
const WINDOW: u64 = 1_000_000_000;

/// Columns of a heap, in VPP's order.
const HEAP: [&str; 3] = ["total", "used", "free"];

/// What a worker had done at the beginning of the window.
#[derive(Clone, Copy, Default)]
struct Work {
    received: u64,
    loops: u64,
    vectors: u64,
    calls: u64,
}

impl Work {
    fn of(worker: &WorkerCounters) -> Work {
        let mut nodes = NodeTotals::default();
        worker.nodes.iter().for_each(|n| n.add_to(&mut nodes));
        Work {
            received: worker.received.get(),
            loops: worker.loops.get(),
            vectors: nodes.vectors,
            calls: nodes.calls,
        }
    }
    fn since(self, before: Work) -> Work {
        Work {
            received: self.received.wrapping_sub(before.received),
            loops: self.loops.wrapping_sub(before.loops),
            vectors: self.vectors.wrapping_sub(before.vectors),
            calls: self.calls.wrapping_sub(before.calls),
        }
    }
}

/// One pool's numbers.
struct Pool {
    used: Scalar,
    available: Scalar,
}

/// The entries, and where the window began.
pub(super) struct System {
    heartbeat: Scalar,
    last_update: Scalar,
    input_rate: Scalar,
    vector_rate: Scalar,
    worker_vector_rate: Counters,
    worker_loops: Counters,
    pools: Vec<Pool>,
    heap: Counters,
    /// Seconds since 1970 at the start, and the clock's nanoseconds then.
    started: (u64, u64),
    window: u64,
    work: Vec<Work>,
    beats: u64,
}

impl System {
    pub fn new(c: Shape<'_, '_>, from: &Sources<'_>, now: u64) -> Made<System> {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH);
        let unix = unix.map_or(0, |d| d.as_secs());
        let threads = from.workers.len() + 1;
        let pools = (0..from.workers.len()).map(|worker| {
            let mut scalar = |what: &str| c.scalar(&format!("/buffer-pools/wk_{worker}/{what}"));
            scalar("cached")?;
            Ok(Pool {
                used: scalar("used")?,
                available: scalar("available")?,
            })
        });
        let pools = pools.collect::<Made<_>>()?;
        let heap = c.counters("/mem/main heap", (false, 1), HEAP.len())?;
        let system = System {
            heartbeat: c.scalar("/sys/heartbeat")?,
            last_update: c.scalar("/sys/last_update")?,
            input_rate: c.scalar("/sys/input_rate")?,
            vector_rate: c.scalar("/sys/vector_rate")?,
            worker_vector_rate: c.counters("/sys/vector_rate_per_worker", (false, 1), threads)?,
            worker_loops: c.counters("/sys/loops_per_worker", (false, 1), threads)?,
            pools,
            heap,
            started: (unix, now),
            window: now,
            work: vec![Work::default(); from.workers.len()],
            beats: 0,
        };
        for (name, value) in [
            ("/sys/boottime", unix),
            ("/sys/last_stats_clear", unix),
            ("/sys/num_worker_threads", from.workers.len() as u64),
        ] {
            let scalar = c.scalar(name)?;
            c.set(scalar, value);
        }
        Ok(system)
    }

    /// Brings all up to date.
    pub fn copy(&mut self, to: &Segment, from: &Sources<'_>, now: u64) {
        for (pool, worker) in self.pools.iter().zip(&from.workers) {
            let free = worker.buffers_free.get();
            to.set(pool.available, free);
            to.set(pool.used, (from.buffers as u64).saturating_sub(free));
        }
        let passed = now.saturating_sub(self.window);
        if self.beats > 0 && passed < WINDOW {
            return;
        }
        self.beats += 1;
        to.set(self.heartbeat, self.beats);
        let seconds = now.saturating_sub(self.started.1) / WINDOW;
        to.set(self.last_update, self.started.0 + seconds);
        self.rates(to, from, passed.max(1));
        for (column, bytes) in memory().into_iter().enumerate() {
            to.count(&self.heap, 0, column, bytes);
        }
        self.window = now;
    }

    fn rates(&mut self, to: &Segment, from: &Sources<'_>, passed: u64) {
        let per_second = |n: u64| (u128::from(n) * u128::from(WINDOW) / u128::from(passed)) as u64;
        let mut all = Work::default();
        for (worker, before) in self.work.iter_mut().enumerate() {
            let Some(now) = from.workers.get(worker).map(|w| Work::of(w)) else {
                continue;
            };
            let done = now.since(std::mem::replace(before, now));
            let vectors = done.vectors / done.calls.max(1);
            to.count(&self.worker_vector_rate, 0, worker + 1, vectors);
            to.count(&self.worker_loops, 0, worker + 1, per_second(done.loops));
            all.received += done.received;
            all.vectors += done.vectors;
            all.calls += done.calls;
        }
        to.set(self.input_rate, per_second(all.received));
        to.set(self.vector_rate, all.vectors / all.calls.max(1));
    }
}

/// Bytes of the process's own memory: what it has asked for, what of it is resident, and the rest
/// (proc_pid_status(5)).
fn memory() -> [u64; 3] {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let bytes = |name: &str| {
        let line = text.lines().find_map(|l| l.strip_prefix(name));
        let kib = line.and_then(|l| l.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
        kib.unwrap_or(0) * 1024
    };
    let (total, used) = (bytes("VmData:"), bytes("RssAnon:"));
    [total.max(used), used, total.saturating_sub(used)]
}
