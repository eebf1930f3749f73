//! The engine: nodes, feature arcs, the dispatcher, the worker's loop and packet trace.
//!
//! Owns how packets move from node to node; knows no protocol. A [`Node`] takes a frame and says where
//! each packet goes next, everything else (handing frames on, arcs, trace, counters, drops) is the
//! [`Dispatcher`]'s, written once. A [`worker`](spawn) is a pinned thread that polls its receive queues
//! and turns its dispatcher; the control thread talks to it through rings and never makes it wait.
//!
//! The three nouns: a *packet* is a buffer index with its metadata, owned by one worker from receive to
//! transmit; a *frame* is up to 256 packets on their way to the same node; a *node* does one thing.
#![allow(unsafe_code)]

mod arc;
mod dispatcher;
mod handoff;
pub mod harness;
mod node;
mod pending;
mod structure;
mod trace;
mod tx;
pub mod wide;
mod worker;

pub use arc::{ArcEnd, ArcSpec, Arcs, Feature, Side};
pub use dispatcher::{Dispatcher, RxSlot};
pub use handoff::{Inbox, Outbox, Presence, handoff};
pub use node::{
    CONSUMED, CONTINUE, Ctx, DROP, Dispatch, NamedNode, Node, NodeId, NodeKind, NodeSpec,
};
pub use parshall_linux::clock::{monotonic_ns, tsc};
pub use structure::{Graph, GraphError, Limits};
pub use trace::{TRACE_BYTES, TraceRecord, hex_line};
pub use worker::{
    Built, Garbage, Released, RxMode, Switch, WorkerCommand, WorkerConfig, WorkerHandle, spawn,
};
