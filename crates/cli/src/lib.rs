//! The command socket and its client: one command, a file of them, or interactive.
//!
//! Owns the protocol on the Unix socket ([`protocol`]), that of VPP's `vppctl` ([`vppctl`]), and `parshall ctl` ([`client`]). Knows no
//! command: the server hands each line to the owner of the state as a [`parshall_command::Request`], and
//! completion and help come from there too.

pub mod client;
pub mod configuration;
mod connection;
mod interactive;
pub mod protocol;
pub mod server;
pub mod vppctl;

pub use client::{CtlArgs, run};
pub use connection::{Connection, ConnectionError};
pub use parshall_linux::SocketError;
pub use protocol::DEFAULT_SOCKET;
pub use server::{CliServer, Protocol, ServerConfig};

#[cfg(test)]
mod testing;
