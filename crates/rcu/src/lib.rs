//! Publish and retire: wait-free readers, quiescent-state-based reclamation.
//!
//! Owns the way the control thread hands state to the workers. Control builds a value
//! aside and publishes it with one pointer store; workers read it without locks,
//! counters or fences and say once a loop, by [`Reader::quiescent`], that they hold no
//! reference any more. A value that was replaced is freed when every online reader has
//! said so. Knows nothing of packets, routes or threads' work.
//!
//! The scheme is the QSBR flavour of RCU (McKenney; Desnoyers et al., "User-Level
//! Implementations of Read-Copy Update", 2012), with an epoch number instead of a
//! waiting writer: nothing here ever blocks on a reader.
//!
//! The contract that types cannot carry: a reader must belong to the [`Domain`] that the
//! values it loads are retired into. A process has one domain; debug builds check it.
#![allow(unsafe_code)]

mod domain;
mod published;
mod slab;
mod sync;

pub use domain::{Domain, MAX_READERS, Reader, Stamp, TooManyReaders};
pub use published::{ControlRef, Published};
pub use slab::{Full, NoSuchIndex, Slab};

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod stress_tests;
