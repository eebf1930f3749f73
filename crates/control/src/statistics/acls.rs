//! `/acl/N/matches`: packets and bytes that each rule of an access list has decided, as VPP's acl plugin names them.
//!
//! A name appears with the list and stays, without columns, when the list goes: entries cannot be taken away.

use std::collections::BTreeMap;

use parshall_stats_segment::{Counters, Segment};

use super::{Made, Shape, Sources};

/// A list's number, the revision of its rules and how many there are.
type Seen = (u32, u64, usize);

/// The rows.
#[derive(Default)]
pub(super) struct AclRows {
    rows: BTreeMap<u32, Counters>,
    seen: Vec<Seen>,
}

impl AclRows {
    /// Says whether there are other lists, or other rules, than when last looked.
    pub fn look(&mut self, from: &Sources<'_>) -> bool {
        let lists = || {
            let lists = from.acls.lists();
            lists.map(|(n, acl)| (n, acl.revision(), acl.rules().len()))
        };
        if lists().eq(self.seen.iter().copied()) {
            return false;
        }
        self.seen = lists().collect();
        true
    }

    /// Gives each list as many columns as it has rules.
    pub fn reshape(&mut self, c: Shape<'_, '_>, from: &Sources<'_>) -> Made<()> {
        for (n, row) in &mut self.rows {
            if !self.seen.iter().any(|s| s.0 == *n) {
                c.resize(row, 0)?;
            }
        }
        for (n, _, rules) in &self.seen {
            if let Some(row) = self.rows.get_mut(n) {
                c.resize(row, *rules)?;
            } else {
                let name = format!("/acl/{n}/matches");
                let row = c.counters(&name, (true, from.workers.len() + 1), *rules)?;
                self.rows.insert(*n, row);
            }
        }
        Ok(())
    }

    /// Copies what workers have counted.
    pub fn copy(&self, to: &Segment, from: &Sources<'_>) {
        for (n, acl) in from.acls.lists() {
            let Some(row) = self.rows.get(&n) else {
                continue;
            };
            for worker in 0..from.workers.len() {
                for rule in 0..row.columns().min(acl.rules().len()) {
                    let (packets, bytes) = acl.hits_of(worker, rule);
                    to.count_both(row, worker + 1, rule, [packets, bytes]);
                }
            }
        }
    }
}
