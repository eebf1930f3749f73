//! The receiving side of sFlow.
//!
//! - [`args`]: the options of `parshall sflow decode`.
//! - [`decode`]: the command itself, and what may go wrong.
//! - `live`: datagrams from UDP sockets, a thread each; `files` and `input`: from capture files.
//! - `output`: what is printed, gathered and written.
//! - [`status`]: what was received and what was lost.
//!
//! What a datagram means is `parshall-sflow-wire`'s business; this crate knows sockets, files, signals and the clock.

pub mod args;
pub mod decode;
mod files;
mod input;
mod live;
mod output;
pub mod status;

pub use args::DecodeArgs;
pub use decode::{DecodeError, run};
