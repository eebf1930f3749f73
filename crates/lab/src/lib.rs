//! The laboratory: two hosts, a router between them, real traffic, and a collector that is checked against the truth.
//!
//! `parshall lab` needs nothing but its own binary. It makes three network namespaces, joins them with veth pairs
//! (`topology`), starts itself as a router in the middle one (`router`), sends kernel TCP, UDP and ICMP over IPv4 and
//! IPv6 and a labelled stream through it (`traffic`), and reads the router's sFlow (`collector`). At the end every
//! estimate stands beside the router's own counters with the bound it must lie in (`estimate`, `report`).
//!
//! Everything that is made is held by a value that takes it away again, so that an error, a panic or a signal at any
//! point leaves nothing behind. Knows the router only by its configuration file, its command socket and its datagrams.
#![allow(unsafe_code)]

mod args;
mod collector;
mod display;
mod error;
mod estimate;
mod hints;
mod number;
mod privilege;
mod report;
mod router;
mod run;
mod stop;
mod sys;
mod tally;
mod topology;
mod traffic;
mod verdict;

pub use args::LabArgs;
pub use run::run;
