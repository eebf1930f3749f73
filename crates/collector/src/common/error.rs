//! Why a tool ended.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use parshall_linux::caps::{Capability, grant_hint};
use parshall_sflow_wire::pcap::CaptureError;
use thiserror::Error;

/// Why a tool ended.
#[derive(Debug, Error)]
pub enum ToolError {
    /// A name that the system does not resolve.
    #[error(
        "cannot resolve '{name}': {source}; give an address such as 192.0.2.1:6343 or [2001:db8::1]:6343"
    )]
    Resolve {
        /// Host and port.
        name: String,
        /// What the system said.
        source: io::Error,
    },
    /// The socket to receive on cannot be opened.
    #[error("cannot listen on UDP {address}: {source}{}", listen_hint(.source))]
    Listen {
        /// Address and port.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The socket to send with cannot be opened.
    #[error("cannot send to {name}: {source}{}", target_hint(.source))]
    Target {
        /// Host and port.
        name: String,
        /// What the system said.
        source: io::Error,
    },
    /// The raw socket cannot be opened.
    #[error("cannot send to {name} with the agents' own source addresses (--spoof): {source}{}", spoof_hint(.source))]
    Spoof {
        /// Host and port.
        name: String,
        /// What the system said.
        source: io::Error,
    },
    /// A thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[source] io::Error),
    /// A thread ended by a fault of the program.
    #[error("a thread ended by a fault of the program")]
    Panicked,
    /// Receiving failed.
    #[error("receiving failed: {0}")]
    Receive(#[source] io::Error),
    /// A file cannot be opened.
    #[error("cannot open {path}: {source}")]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file cannot be read, or is not a capture.
    #[error("{path}: {source}")]
    Capture {
        /// The file.
        path: PathBuf,
        /// What is wrong and where.
        source: CaptureError,
    },
    /// A file without a datagram that could be sent.
    #[error(
        "{path}: no sFlow datagram in it ({frames} frames){}", port_hint(.port)
    )]
    NothingToSend {
        /// The file.
        path: PathBuf,
        /// Frames read.
        frames: u64,
        /// The port they had to be for.
        port: Option<u16>,
    },
    /// A file cannot be written.
    #[error("cannot write {path}: {source}")]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The output cannot be written.
    #[error("cannot write the output: {0}")]
    Output(#[source] io::Error),
    /// Signals cannot be caught.
    #[error("cannot catch signals: {0}")]
    Signals(#[source] io::Error),
    /// Options that make no sense together.
    #[error("{0}")]
    Usage(&'static str),
}

fn listen_hint(e: &io::Error) -> &'static str {
    match e.kind() {
        io::ErrorKind::AddrInUse => {
            "; another program has it (see `ss -lunp`), choose another port with --listen ADDR:PORT"
        }
        io::ErrorKind::AddrNotAvailable => "; no interface has that address",
        io::ErrorKind::PermissionDenied => "; ports below 1024 need CAP_NET_BIND_SERVICE",
        _ => "",
    }
}

fn target_hint(e: &io::Error) -> &'static str {
    match e.kind() {
        io::ErrorKind::NetworkUnreachable | io::ErrorKind::HostUnreachable => {
            "; there is no route to it (see `ip route get`)"
        }
        io::ErrorKind::PermissionDenied => {
            "; a broadcast address, or a firewall of this machine forbids it"
        }
        _ => "",
    }
}

fn spoof_hint(e: &io::Error) -> String {
    match e.kind() {
        io::ErrorKind::PermissionDenied => format!("; {}", grant_hint(&[Capability::NetRaw])),
        _ => target_hint(e).to_owned(),
    }
}

fn port_hint(port: &Option<u16>) -> String {
    port.map_or(String::new(), |p| {
        format!("; only datagrams to port {p} were looked at, see -p")
    })
}
