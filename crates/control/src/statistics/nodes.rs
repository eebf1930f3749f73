//! `/sys/node/*`: what each graph node has done, and `/nodes/NAME/*`, the same by name.
//!
//! There is nothing that suspends, so that row stays 0; it is there because clients ask for it.

use parshall_counters::NodeTotals;
use parshall_stats_segment::{Counters, Segment};

use super::{Made, Shape, Sources, path_part};

/// One number of a node.
type Value = fn(&NodeTotals) -> u64;

const COUNTERS: &[(&str, Value)] = &[
    ("clocks", |t| t.clocks),
    ("vectors", |t| t.vectors),
    ("calls", |t| t.calls),
    ("suspends", |_| 0),
];

/// The rows, by node number.
pub(super) struct Nodes {
    rows: Vec<Counters>,
}

impl Nodes {
    pub fn new(c: Shape<'_, '_>, from: &Sources<'_>) -> Made<Nodes> {
        let specs = from.graph.specs();
        let mut names = c.names("/sys/node/names")?;
        c.set_names(&mut names, specs.iter().map(|s| s.name))?;
        let size = (false, from.workers.len() + 1);
        let rows = COUNTERS
            .iter()
            .map(|(name, _)| c.counters(&format!("/sys/node/{name}"), size, specs.len()));
        Ok(Nodes {
            rows: rows.collect::<Made<_>>()?,
        })
    }

    /// Names each node's columns.
    pub fn name(&self, c: Shape<'_, '_>, from: &Sources<'_>) -> Made<()> {
        for (column, spec) in from.graph.specs().iter().enumerate() {
            for ((counter, _), rows) in COUNTERS.iter().zip(&self.rows) {
                let path = format!("/nodes/{}/{counter}", path_part(spec.name));
                c.symlink(&path, rows, column)?;
            }
        }
        Ok(())
    }

    /// Copies what workers have counted.
    pub fn copy(&self, to: &Segment, from: &Sources<'_>) {
        for (worker, w) in from.workers.iter().enumerate() {
            for (column, counters) in w.nodes.iter().take(from.graph.specs().len()).enumerate() {
                let mut totals = NodeTotals::default();
                counters.add_to(&mut totals);
                for ((_, value), rows) in COUNTERS.iter().zip(&self.rows) {
                    to.count(rows, worker + 1, column, value(&totals));
                }
            }
        }
    }
}
