//! Flow records on the wire: NetFlow version 5, NetFlow version 9 (RFC 3954) and IPFIX (RFC 7011, elements of RFC 7012).
//!
//! - [`flow`]: [`Flow`], what is known of one flow, whatever it will be sent as.
//! - [`exporter`]: [`Exporter`], one stream of export datagrams: NetFlow's engine or source, IPFIX's observation domain.
//! - `netflow5`: the fixed records of version 5.
//! - `message`, `template`, `element`: templates, sets and records of version 9 and IPFIX.
//!
//! The crate is pure: no clock, no socket. Times are milliseconds since 1970-01-01 UTC and come from the caller; after its first
//! few datagrams an exporter allocates nothing.

pub mod exporter;
pub mod flow;

mod element;
mod message;
mod netflow5;
mod template;

pub use exporter::{Exporter, Fit, Protocol, PushError, Settings};
pub use flow::{Direction, Flow, Labels};

/// The greatest sampling interval that the 14 bits of a version 5 header announce.
pub const NETFLOW5_MAX_INTERVAL: u32 = 0x3FFF;

#[cfg(test)]
mod tests;
