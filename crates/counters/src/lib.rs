//! Counters: written by one worker, read by all; and the one list of drop reasons.
//!
//! Owns [`DropReason`] (the list that serves `show errors`, the drop ring, sFlow discard codes and
//! Prometheus), [`Counter`] and the blocks a worker keeps: per interface, per node, per (node, reason).
//! Knows no node and no interface by name: both are numbers here.

mod block;
mod reason;

pub use block::{Counter, IfCounters, IfTotals, NodeCounters, NodeTotals, WorkerCounters};
pub use reason::{DropGroup, DropReason};
