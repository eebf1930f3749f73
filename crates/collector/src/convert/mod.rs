//! `parshall sflow convert`: sampled packets become flow records of NetFlow or IPFIX.
//!
//! - [`args`]: the options.
//! - [`sample`]: what a flow sample says, as a flow.
//! - [`converter`]: streams of export datagrams, one for each exporter; pure.
//! - `run`: sockets and files around it.

pub mod args;
pub mod converter;
mod run;
pub mod sample;

pub use args::ConvertArgs;
pub use converter::{Converter, Counts, Scale, Settings};
pub use run::{ConvertStatus, run, run_with};
