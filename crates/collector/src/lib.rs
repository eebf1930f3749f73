//! The receiving side of sFlow.
//!
//! - [`args`]: the options of `parshall sflow decode`.
//! - [`input`]: where datagrams come from: UDP sockets and capture files.
//! - [`decode`]: the command itself: reads, selects, prints.
//!
//! What a datagram means is `parshall-sflow-wire`'s business; this crate knows sockets, files, signals and the clock.

pub mod args;
pub mod decode;
pub mod input;

pub use args::DecodeArgs;
pub use decode::{DecodeError, run};
