//! The receiving side of sFlow.
//!
//! - [`args`]: the options of `parshall sflow decode`.
//! - [`decode`]: the command itself, and what may go wrong.
//! - `live`: datagrams from UDP sockets, a thread each; `files` and `input`: from capture files.
//! - `output`: what is printed, gathered and written.
//! - [`status`]: what was received and what was lost.
//! - [`lint`]: `parshall sflow lint`, which names every violation of the specification.
//! - [`mod@test`]: `parshall sflow test`, which sends known samples to a collector.
//! - [`verify`]: `parshall sflow verify`, which holds estimates against true counters.
//! - [`psample`]: `parshall sflow psample`, which prints the kernel's packet samples.
//! - [`forward`], [`replay`], [`record`], [`convert`]: the tools that pass datagrams on; [`common`] is what they share.
//!
//! What a datagram means is `parshall-sflow-wire`'s business; this crate knows sockets, files, signals and the clock.

pub mod args;
pub mod common;
pub mod convert;
pub mod decode;
mod files;
pub mod forward;
mod input;
pub mod lint;
mod live;
mod output;
pub mod psample;
pub mod record;
pub mod replay;
pub mod status;
pub mod test;
pub mod verify;

pub use args::DecodeArgs;
pub use convert::ConvertArgs;
pub use decode::{DecodeError, run};
pub use forward::ForwardArgs;
pub use psample::PsampleArgs;
pub use record::RecordArgs;
pub use replay::ReplayArgs;
