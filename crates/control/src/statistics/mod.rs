//! What the statistics segment tells: counters of interfaces, nodes and drops, and of the system, under the
//! names that VPP gives them (`vlib/stats`, `vnet/interface.c`, `vlib/error.c`).
//!
//! Workers know nothing of it. The control thread copies their counters, a hundred times a second at most
//! and for at most a hundredth of its time, from the moment that the first reader comes; before that it costs
//! nothing. Values of all threads are kept apart: row 0 is the main thread, row n worker n - 1.

mod acls;
mod errors;
mod interfaces;
mod nodes;
mod system;
#[cfg(test)]
mod tests;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use parshall_counters::WorkerCounters;
use parshall_graph::Graph;
use parshall_stats_segment::{Change, Full, Segment};

use crate::interface::Interfaces;
use crate::router::{AclState, Router};
use acls::AclRows;
use errors::Errors;
use interfaces::IfRows;
use nodes::Nodes;
use system::System;

/// Nanoseconds between two copies, at the least.
const PERIOD: u64 = 10_000_000;
/// Of its time the control thread spends one part in so many on copying.
const SHARE: u64 = 100;

/// Counters by route and neighbour. Clients look for the names; a route has none, since one for each load balance would cost every
/// packet a cache line that is written, in each worker.
const UNCOUNTED: [&str; 3] = ["/net/route/to", "/net/route/via", "/net/adjacency"];

/// Smallest and largest size of the segment in bytes.
pub const SIZE_RANGE: (usize, usize) = (1 << 20, 4 << 30);

/// What is copied from.
pub(crate) struct Sources<'r> {
    workers: Vec<Arc<WorkerCounters>>,
    graph: &'r Graph,
    interfaces: &'r Interfaces,
    acls: &'r AclState,
    buffers: usize,
}

/// The segment and what lies in it.
pub(crate) struct Statistics {
    segment: Segment,
    interfaces: IfRows,
    nodes: Nodes,
    errors: Errors,
    acls: AclRows,
    system: System,
    /// Entries in front of the symlinks.
    fixed: usize,
    /// A reader has come.
    wanted: bool,
    /// When to copy again (monotonic ns).
    due: u64,
    /// That it is full was said.
    told: bool,
}

impl Statistics {
    fn new(bytes: usize, from: &Sources<'_>, now: u64) -> io::Result<Statistics> {
        let mut segment = Segment::new(bytes)?;
        let made = segment.change(|c| {
            for name in UNCOUNTED {
                c.counters(name, (true, from.workers.len() + 1), 0)?;
            }
            Ok::<_, Full>((
                System::new(c, from, now)?,
                IfRows::new(c, from)?,
                Nodes::new(c, from)?,
                Errors::new(c, from)?,
            ))
        });
        let full = |Full| io::Error::new(io::ErrorKind::OutOfMemory, Full);
        let (system, interfaces, nodes, errors) = made.map_err(full)?;
        let mut statistics = Statistics {
            fixed: segment.entries(),
            segment,
            interfaces,
            nodes,
            errors,
            acls: AclRows::default(),
            system,
            wanted: false,
            due: 0,
            told: false,
        };
        statistics.reshape(from);
        Ok(statistics)
    }

    /// Makes room for what is new since the last copy, and names it.
    fn reshape(&mut self, from: &Sources<'_>) {
        let new_errors = self.errors.look(from);
        let new_interfaces = self.interfaces.look(from);
        let new_acls = self.acls.look(from);
        if !new_interfaces && !new_errors && !new_acls {
            return;
        }
        let done = self.segment.change(|c| {
            self.interfaces.reshape(c)?;
            self.errors.reshape(c)?;
            c.drop_symlinks(self.fixed);
            // Before the symlinks, since only those can be taken away.
            let acls = self.acls.reshape(c, from);
            self.fixed = c.entries();
            acls?;
            // The convenient names come last: they are what is left out of a segment that is too small.
            self.errors.name(c, from)?;
            self.nodes.name(c, from)?;
            self.interfaces.name(c)
        });
        if done.is_err() && !std::mem::replace(&mut self.told, true) {
            let (used, size) = self.segment.size();
            tracing::warn!(
                "{Full}: {used} of {size} bytes are used, and not all interfaces are in it"
            );
        }
    }

    fn copy(&mut self, from: &Sources<'_>, now: u64) {
        self.reshape(from);
        self.interfaces.copy(&self.segment, from);
        self.errors.copy(&self.segment, from);
        self.acls.copy(&self.segment, from);
        self.nodes.copy(&self.segment, from);
        self.system.copy(&self.segment, from, now);
    }
}

/// A name as a part of a path, as VPP writes it: with `_` for `/`.
fn path_part(name: &str) -> String {
    name.replace('/', "_")
}

impl Router {
    /// Makes a statistics segment of so many bytes, and gives the descriptor that readers are to have.
    ///
    /// # Errors
    /// When the system refuses the memory or it is too small.
    pub fn open_statistics(&mut self, bytes: usize) -> io::Result<OwnedFd> {
        let now = self.now();
        let statistics = Statistics::new(bytes, &self.sources(), now)?;
        let fd = statistics.segment.read_only().try_clone_to_owned()?;
        self.statistics = Some(statistics);
        Ok(fd)
    }

    /// Brings the statistics segment up to date, and keeps it so from now on: a reader has come.
    pub fn show_statistics(&mut self) {
        if let Some(mut statistics) = self.statistics.take() {
            statistics.wanted = true;
            statistics.copy(&self.sources(), self.now());
            self.statistics = Some(statistics);
        }
    }

    /// Copies counters when it is time to.
    pub(crate) fn keep_statistics(&mut self) {
        let now = self.now();
        let due = |s: &mut Statistics| s.wanted && now >= s.due;
        if let Some(mut statistics) = self.statistics.take_if(due) {
            let start = Instant::now();
            statistics.copy(&self.sources(), now);
            let took = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
            statistics.due = now.saturating_add(PERIOD.max(took.saturating_mul(SHARE)));
            self.statistics = Some(statistics);
        }
    }

    fn sources(&self) -> Sources<'_> {
        Sources {
            workers: self.engine.counters().cloned().collect(),
            graph: &self.engine.graph,
            interfaces: &self.interfaces,
            acls: &self.acls,
            buffers: self.engine.config().buffers,
        }
    }
}

/// What was made, unless there was no room.
type Made<T> = Result<T, Full>;
/// A change of structure under way.
type Shape<'c, 's> = &'c mut Change<'s>;
