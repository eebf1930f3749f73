//! How often each rule decided, and over how many bytes: counted by every worker for itself.

use parshall_counters::Counter;

/// Packets and bytes of four rules: a cache line.
#[derive(Default)]
#[repr(align(64))]
struct Line([(Counter, Counter); 4]);

/// Counters of a number of rules, by worker.
pub struct Hits {
    workers: Vec<Box<[Line]>>,
}

impl Hits {
    /// Zeroed counters of `rules` rules for `workers` workers.
    pub fn new(workers: usize, rules: usize) -> Hits {
        let lines = || (0..rules.div_ceil(4)).map(|_| Line::default()).collect();
        Hits {
            workers: (0..workers).map(|_| lines()).collect(),
        }
    }

    /// Counts packets and bytes that rule `rule` decided. Only worker `worker` may call this.
    #[inline(always)]
    pub fn add(&self, worker: usize, rule: u32, packets: u64, bytes: u64) {
        let line = self.workers.get(worker);
        let rule = rule as usize;
        if let Some(line) = line.and_then(|w| w.get(rule / 4)) {
            let (p, b) = &line.0[rule % 4];
            p.add(packets);
            b.add(bytes);
        }
    }

    /// Packets and bytes that rule `rule` decided, over all workers.
    pub fn get(&self, rule: usize) -> (u64, u64) {
        let each = (0..self.workers.len()).map(|w| self.of_worker(w, rule));
        each.fold((0, 0), |(packets, bytes), (p, b)| (packets + p, bytes + b))
    }

    /// Packets and bytes that it decided in one worker.
    pub fn of_worker(&self, worker: usize, rule: usize) -> (u64, u64) {
        let line = self.workers.get(worker).and_then(|w| w.get(rule / 4));
        line.map_or((0, 0), |line| {
            let (p, b) = &line.0[rule % 4];
            (p.get(), b.get())
        })
    }
}
