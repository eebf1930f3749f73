//! The statistics segment: counters in shared memory that other processes map and read, laid out as VPP's
//! clients (`vpp_papi`'s `VPPStats`, GoVPP's `statsclient`) expect it, version 2 of the format.
//!
//! [`layout`] says where everything lies, [`Segment`] writes it, [`StatsServer`] hands the memory to whoever
//! connects. Readers only read: they get a descriptor that cannot be written through. What is counted, and
//! under which names, is the business of whoever owns the counters.
//!
//! The memory has a fixed size. Structure (entries, names, lengths of vectors) changes under a sequence lock,
//! values do not. A vector that grows moves, and what it leaves is only given to vectors of the same size
//! later, so that a slow reader never finds a length where there is none.
#![allow(unsafe_code)]

pub mod layout;
mod map;
mod segment;
mod server;
#[cfg(test)]
mod tests;

pub use map::Map;
pub use segment::{Change, Counters, Full, Names, Scalar, Segment};
pub use server::StatsServer;
