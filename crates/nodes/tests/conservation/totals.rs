//! What happened in all worlds together, and whether it was enough of everything.

use std::collections::BTreeMap;
use std::fmt;

use parshall_counters::{DropReason, WorkerCounters};

/// Sums over worlds.
#[derive(Default)]
pub struct Totals {
    received: u64,
    transmitted: u64,
    punted: u64,
    originated: u64,
    reasons: BTreeMap<DropReason, u64>,
}

impl Totals {
    /// Adds what the worker of a world counted.
    pub fn add(&mut self, c: &WorkerCounters) {
        self.received += c.received.get();
        self.transmitted += c.transmitted.get();
        self.punted += c.punted.get();
        self.originated += c.originated.get();
        for (_, reason, n) in c.drops() {
            *self.reasons.entry(reason).or_default() += n;
        }
    }

    /// Every reason that a frame can bring about was seen, and much was forwarded and answered.
    pub fn assert_varied(&self) {
        use DropReason::*;
        let never = [
            // No node gives these today, or only to what no driver delivers.
            NoHeadroom, NodeFault,
        ];
        let missing: Vec<_> = DropReason::ALL
            .iter()
            .filter(|r| !never.contains(r) && !r.is_before_receive())
            .filter(|r| !self.reasons.contains_key(r))
            .map(|r| r.name())
            .collect();
        assert!(missing.is_empty(), "reasons never seen: {missing:?}");
        assert!(self.transmitted > self.received / 10);
        assert!(self.punted > self.received / 1000);
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} received, {} made, {} sent, {} consumed; dropped:",
            self.received, self.originated, self.transmitted, self.punted
        )?;
        for (reason, n) in &self.reasons {
            write!(f, " {} {n}", reason.name())?;
        }
        Ok(())
    }
}
