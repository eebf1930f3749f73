//! What the tools that pass datagrams on have in common.
//!
//! - [`error`]: what may go wrong.
//! - `signals`: the request to end.
//! - `args`: addresses and sizes on the command line.
//! - `listen`: the socket that datagrams come in by.
//! - `captured`: sFlow datagrams in capture files.
//! - `packet`: UDP datagrams with their headers, checksums right.
//! - `target`: where datagrams go, and what became of them.
//! - `pcap_file`: capture files, one or a row of them.
//! - `clock`: the time of day.

pub mod args;
pub(crate) mod captured;
pub(crate) mod clock;
pub mod error;
pub(crate) mod listen;
pub(crate) mod packet;
pub(crate) mod pcap_file;
pub(crate) mod report;
pub(crate) mod signals;
pub mod target;

pub use error::ToolError;
