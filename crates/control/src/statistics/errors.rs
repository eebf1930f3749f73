//! `/node/errors`: drops by node and reason, and `/err/NODE/REASON`, the same by name.
//!
//! A name appears with its first drop: which node drops for which reasons is nowhere written down, and all
//! that could be would be thousands. As in VPP, `clear errors` does not touch them.

use std::collections::BTreeMap;

use parshall_counters::DropReason;
use parshall_stats_segment::{Counters, Segment};

use super::{Made, Shape, Sources, path_part};

/// A node or an interface's queue, and a reason.
type Key = (u16, DropReason);

/// The row and what its columns are.
pub(super) struct Errors {
    row: Counters,
    columns: BTreeMap<Key, usize>,
    /// All drops when last looked.
    dropped: u64,
}

impl Errors {
    pub fn new(c: Shape<'_, '_>, from: &Sources<'_>) -> Made<Errors> {
        Ok(Errors {
            row: c.counters("/node/errors", (false, from.workers.len() + 1), 0)?,
            columns: BTreeMap::new(),
            dropped: 0,
        })
    }

    /// Says whether there are drops of a new kind.
    pub fn look(&mut self, from: &Sources<'_>) -> bool {
        let all = DropReason::ALL.iter();
        let dropped = all
            .map(|r| from.workers.iter().map(|w| w.drops_for(*r)).sum::<u64>())
            .sum();
        // All counters by node and reason are many; they are looked through only when one has moved.
        if std::mem::replace(&mut self.dropped, dropped) == dropped {
            return false;
        }
        let before = self.columns.len();
        for (node, reason, _) in from.workers.iter().flat_map(|w| w.drops()) {
            let next = self.columns.len();
            self.columns.entry((node, reason)).or_insert(next);
        }
        self.columns.len() != before
    }

    /// Makes room for all kinds.
    pub fn reshape(&mut self, c: Shape<'_, '_>) -> Made<()> {
        c.resize(&mut self.row, self.columns.len())
    }

    /// Names the columns.
    pub fn name(&self, c: Shape<'_, '_>, from: &Sources<'_>) -> Made<()> {
        for ((slot, reason), column) in &self.columns {
            let node = match (from.graph.spec(*slot), from.graph.tx_interface(*slot)) {
                (Some(spec), _) => spec.name.to_owned(),
                (None, Some(index)) => format!("{}-tx", from.interfaces.name(index)),
                (None, None) => continue,
            };
            let path = format!("/err/{}/{}", path_part(&node), reason.name());
            c.symlink(&path, &self.row, *column)?;
        }
        Ok(())
    }

    /// Copies what workers have counted.
    pub fn copy(&self, to: &Segment, from: &Sources<'_>) {
        for (worker, w) in from.workers.iter().enumerate() {
            for ((slot, reason), column) in &self.columns {
                to.count(&self.row, worker + 1, *column, w.drops_at(*slot, *reason));
            }
        }
    }
}
