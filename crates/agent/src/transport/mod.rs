//! Where datagrams go.
//!
//! [`Transport`] is all that the agent knows of it, so that tests can catch what would be sent. [`UdpTransport`] sends to
//! any number of collectors (`udp`, `collector` for one), whose names a [`Resolve`] looks up aside (`resolve`). A collector
//! has its socket (`socket`), its limits (`limit`), where it wants smaller datagrams a packer of them (`repack`), and its
//! `trouble`; `send` makes the system calls.

mod collector;
mod limit;
#[cfg(test)]
mod namespace_tests;
mod repack;
mod resolve;
mod send;
mod socket;
mod trouble;
mod udp;

pub use resolve::{Lookup, Resolve, ThreadResolver};
pub use udp::UdpTransport;

use crate::collector_config::CollectorConfig;
use crate::status::CollectorStatus;

/// Takes datagrams and gets them to the collectors. No method may wait.
pub trait Transport: Send {
    /// Sends each datagram to every collector; what cannot be sent now is counted and gone. `now` in ns, monotonic.
    fn send(&mut self, now: u64, datagrams: &[&[u8]]);

    /// Replaces the list of collectors. One that was in the old list keeps its socket and its counts.
    fn set_collectors(&mut self, now: u64, collectors: &[CollectorConfig]);

    /// Whether there is anybody to send to, reachable or not.
    fn has_collectors(&self) -> bool;

    /// Does what is due: opens sockets again, takes in looked-up names. Says when it wants to be called next.
    fn tick(&mut self, now: u64) -> u64;

    /// The state of every collector, in the order of the list.
    fn status(&self, now: u64) -> Vec<CollectorStatus>;
}
