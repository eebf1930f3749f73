//! Dropped packets: monitoring on and off, and how many of each reason there are a second.

use std::collections::HashMap;

use parshall_agent::{AgentConfig, ReasonStatus};
use parshall_counters::{DropReason, WorkerCounters};
use parshall_nodes::DropSettings;

use super::Router;
use crate::error::{Error, Result};

/// Time over which a rate is taken, in ns.
const PERIOD: u64 = 1_000_000_000;

/// A count for each reason.
type ByReason = [u64; DropReason::COUNT];

/// Drops by reason when last looked, and the time before.
pub struct DropRates {
    /// When, and how many there were then; the older first.
    looks: [(u64, ByReason); 2],
    /// Drops that the workers had not shown when counters were last cleared.
    suppressed_before: ByReason,
    /// What the agent had done with the others then: reported, suppressed, unexported.
    told_before: HashMap<&'static str, [u64; 3]>,
}

impl DropRates {
    /// From nothing, at `now` (monotonic ns).
    pub fn new(now: u64) -> DropRates {
        DropRates {
            looks: [(now, [0; DropReason::COUNT]); 2],
            suppressed_before: [0; DropReason::COUNT],
            told_before: HashMap::new(),
        }
    }

    /// Drops a second in the last whole period.
    pub fn rate(&self, reason: DropReason) -> f64 {
        let [(from, before), (to, after)] = &self.looks;
        let seconds = to.saturating_sub(*from) as f64 / 1e9;
        let n = after[reason as usize].wrapping_sub(before[reason as usize]);
        if seconds > 0.0 {
            n as f64 / seconds
        } else {
            0.0
        }
    }
}

/// Sums a number of each worker, by reason.
fn sum<'a>(
    workers: impl Iterator<Item = &'a std::sync::Arc<WorkerCounters>>,
    each: impl Fn(&WorkerCounters, DropReason) -> u64,
) -> ByReason {
    let mut out = [0u64; DropReason::COUNT];
    for w in workers {
        for &r in DropReason::ALL {
            out[r as usize] = out[r as usize].wrapping_add(each(w, r));
        }
    }
    out
}

fn by_fate(t: &ReasonStatus) -> [u64; 3] {
    [t.reported, t.suppressed, t.unexported]
}

impl Router {
    /// Reports at most `limit` dropped packets a second to collectors; 0 ends it.
    ///
    /// # Errors
    /// When it is out of range.
    pub fn monitor_drops(&mut self, limit: u32) -> Result<()> {
        if limit > AgentConfig::MAX_DROP_LIMIT {
            return Err(Error::refused(format!(
                "{limit} dropped packets a second: 1 to {} can be reported",
                AgentConfig::MAX_DROP_LIMIT
            )));
        }
        let was = self.sflow.config.drop_limit;
        self.configure_agent(|c| c.drop_limit = limit)?;
        self.switch_drop_monitoring(limit)?;
        self.undo(move |r| r.switch_drop_monitoring(was));
        Ok(())
    }

    fn switch_drop_monitoring(&mut self, limit: u32) -> Result<()> {
        // Each reason may have the whole limit to itself: the agent shares it out.
        self.engine.message("sflow-drop", &DropSettings { limit })?;
        let graph = &self.engine.graph;
        Ok(graph.set_feature_everywhere("sflow-drop", limit != 0)?)
    }

    /// What became of the drops of `reason` since counters were cleared, while they were monitored: reported, suppressed and
    /// not reported for want of an exporter. `told` is what the agent says, `unseen` what workers did not show it.
    pub(crate) fn fates(
        &self,
        reason: DropReason,
        told: Option<&ReasonStatus>,
        unseen: &ByReason,
    ) -> [u64; 3] {
        let before = self.drop_rates.told_before.get(reason.name());
        let mut fates = told.map_or([0; 3], by_fate);
        for (now, before) in fates.iter_mut().zip(before.copied().unwrap_or_default()) {
            *now = now.saturating_sub(before);
        }
        let before = self.drop_rates.suppressed_before[reason as usize];
        fates[1] += unseen[reason as usize].wrapping_sub(before);
        fates
    }

    /// Counts what becomes of drops from 0 again.
    pub(crate) fn clear_fates(&mut self) {
        let told = self.sflow.status().map(|s| s.discards.reasons);
        let told = told.unwrap_or_default();
        self.drop_rates.told_before = told.iter().map(|t| (t.reason, by_fate(t))).collect();
        self.drop_rates.suppressed_before = self.suppressed_drops();
    }

    /// Drops by reason that the workers did not show the agent.
    pub fn suppressed_drops(&self) -> [u64; DropReason::COUNT] {
        sum(self.engine.counters(), WorkerCounters::suppressed)
    }

    /// Looks how many packets were dropped, once a period.
    pub(super) fn look_at_drops(&mut self) {
        let now = self.now();
        if now.saturating_sub(self.drop_rates.looks[1].0) >= PERIOD {
            let drops = sum(self.engine.counters(), WorkerCounters::drops_for);
            self.drop_rates.looks = [self.drop_rates.looks[1], (now, drops)];
        }
    }
}
