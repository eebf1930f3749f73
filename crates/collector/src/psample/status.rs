//! What arrived on the PSAMPLE channel, and what was lost on the way.

use std::collections::BTreeMap;
use std::fmt;

use parshall_agent::netlink::psample::PacketSample;
use serde::Serialize;

/// A gap larger than this is no loss: the sampler started again.
const RESTART: u32 = 1 << 31;

/// One group.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct GroupStatus {
    /// Samples that arrived.
    pub samples: u64,
    /// Samples that are missing by their numbers.
    pub missing: u64,
    /// Number of the last one.
    pub last: u32,
}

/// What arrived and what was lost.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct PsampleStatus {
    /// Samples that arrived and were wanted.
    pub samples: u64,
    /// By group.
    pub groups: BTreeMap<u32, GroupStatus>,
    /// Messages that are no samples, or broken ones.
    pub other: u64,
    /// Times that the kernel found our buffer full and threw something away.
    pub buffer_full: u64,
}

impl PsampleStatus {
    /// Counts a sample.
    pub fn count(&mut self, s: &PacketSample<'_>) {
        self.samples += 1;
        let first = !self.groups.contains_key(&s.group);
        let group = self.groups.entry(s.group).or_default();
        group.samples += 1;
        let gap = s.sequence.wrapping_sub(group.last).wrapping_sub(1);
        if !first && gap < RESTART {
            group.missing += u64::from(gap);
        }
        group.last = s.sequence;
    }

    /// As JSON.
    pub fn json(&self) -> String {
        // Numbers and maps of them by number always have a form.
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl fmt::Display for PsampleStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} samples", self.samples)?;
        for (number, g) in &self.groups {
            write!(
                f,
                ", group {number}: {} and {} missing",
                g.samples, g.missing
            )?;
        }
        for (count, what) in [
            (self.other, "messages that are no samples"),
            (self.buffer_full, "times the receive buffer was full"),
        ] {
            if count > 0 {
                write!(f, ", {count} {what}")?;
            }
        }
        Ok(())
    }
}
