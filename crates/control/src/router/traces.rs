//! Packet traces: asking for them and keeping what workers recorded.

use std::collections::VecDeque;

use parshall_graph::{NodeKind, TraceRecord, WorkerCommand};

use super::Router;
use crate::error::{Error, Result};

/// Records kept at most; later ones are not taken in.
const RECORDS: usize = 100_000;

/// Records of all workers, oldest first.
#[derive(Default)]
pub struct TraceStore {
    records: VecDeque<(usize, TraceRecord)>,
}

/// A traced packet: its worker and its records in order.
pub struct TracedPacket<'a> {
    /// Worker that had it.
    pub worker: usize,
    /// What was recorded.
    pub records: Vec<&'a TraceRecord>,
}

impl TraceStore {
    /// Packets in order of their first record.
    pub fn packets(&self) -> Vec<TracedPacket<'_>> {
        let mut order: std::collections::HashMap<(usize, u32), usize> = Default::default();
        let mut out: Vec<TracedPacket<'_>> = Vec::new();
        for (worker, r) in &self.records {
            let at = *order.entry((*worker, r.packet)).or_insert(out.len());
            if at == out.len() {
                out.push(TracedPacket {
                    worker: *worker,
                    records: Vec::new(),
                });
            }
            out[at].records.push(r);
        }
        out
    }
}

impl Router {
    /// Traces the next `count` packets that come in at an input node, in each worker.
    ///
    /// # Errors
    /// When there is no such input node.
    pub fn add_trace(&mut self, node: &str, count: u32) -> Result<()> {
        let id = self.engine.node(node)?;
        let is_input = |s: &&parshall_graph::NodeSpec| s.kind == NodeKind::Input;
        if !self.engine.graph.spec(id).as_ref().is_some_and(is_input) {
            let inputs = self.engine.graph.specs().iter().filter(is_input);
            let names: Vec<&str> = inputs.map(|s| s.name).collect();
            return Err(Error::refused(format!(
                "packets are traced from where they come in: {}; {node} is not such a node",
                names.join(", ")
            )));
        }
        self.engine
            .tell_all(|_| WorkerCommand::Trace { node: id, count });
        Ok(())
    }

    /// Forgets all traces.
    pub fn clear_traces(&mut self) {
        self.collect_traces();
        self.traces.records.clear();
        let inputs: Vec<u16> = (0..self.engine.graph.specs().len() as u16)
            .filter(|n| {
                let spec = self.engine.graph.spec(*n);
                spec.is_some_and(|s| s.kind == NodeKind::Input)
            })
            .collect();
        for node in inputs {
            self.engine
                .tell_all(|_| WorkerCommand::Trace { node, count: 0 });
        }
    }

    pub(crate) fn collect_traces(&mut self) {
        let store = &mut self.traces.records;
        self.engine.traces(|worker, r| {
            if store.len() < RECORDS {
                store.push_back((worker, r));
            }
        });
    }
}
