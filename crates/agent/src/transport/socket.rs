//! Opens the socket of a collector: in its network namespace, from its address, through its device, with its code point.
//!
//! The kernel is asked to tell of every ICMP error (`IP_RECVERR`, ip(7)): without that a connected socket learns of a closed
//! port only, and a host that does not answer would look well for ever. Nobody reads the queue of these errors; a socket
//! that has one is closed.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use nix::errno::Errno;
use nix::sys::socket::{setsockopt, sockopt};
use parshall_linux::{NetNs, NsId, tie_to_device};
use socket2::{Domain, Protocol, Socket, Type};

use crate::collector_config::CollectorConfig;
use crate::status::Loss;

/// Socket send buffer in bytes, as hsflowd's.
const SEND_BUFFER: usize = 2_000_000;

/// Why there is no socket, or no way for a datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// What kind.
    pub loss: Loss,
    /// In words.
    pub text: String,
}

/// A socket, and the namespace it is in when that is not the router's own.
pub struct Opened {
    pub socket: Socket,
    pub namespace: Option<NsId>,
}

/// What an error of the system means for a datagram.
pub fn loss_of(e: Errno) -> Loss {
    match e {
        Errno::ECONNREFUSED => Loss::Refused,
        Errno::ENETUNREACH
        | Errno::EHOSTUNREACH
        | Errno::EHOSTDOWN
        | Errno::ENETDOWN
        | Errno::EACCES
        | Errno::EPERM
        | Errno::ENOPROTOOPT
        | Errno::EPROTO => Loss::Unreachable,
        Errno::EAGAIN | Errno::ENOBUFS | Errno::ENOMEM => Loss::NoBuffer,
        Errno::ENODEV | Errno::ENXIO | Errno::EADDRNOTAVAIL => Loss::DeviceGone,
        Errno::EMSGSIZE => Loss::TooLarge,
        _ => Loss::Other,
    }
}

/// A non-blocking UDP socket connected to `peer`.
///
/// # Errors
/// What is in the way.
pub fn open(config: &CollectorConfig, peer: SocketAddr) -> Result<Opened, Trouble> {
    let Some(name) = &config.namespace else {
        return make(config, peer).map(|socket| Opened {
            socket,
            namespace: None,
        });
    };
    let gone = |e: parshall_linux::Error| Trouble {
        loss: Loss::NamespaceGone,
        text: e.to_string(),
    };
    let ns = NetNs::open(name).map_err(gone)?;
    let id = ns.id().map_err(gone)?;
    let socket = ns.run(|| make(config, peer)).map_err(gone)??;
    Ok(Opened {
        socket,
        namespace: Some(id),
    })
}

fn make(config: &CollectorConfig, peer: SocketAddr) -> Result<Socket, Trouble> {
    let failed = |what: String| move |e: io::Error| trouble(&what, &e);
    let general = || failed("UDP socket".to_owned());
    let socket = Socket::new(Domain::for_address(peer), Type::DGRAM, Some(Protocol::UDP))
        .map_err(general())?;
    socket.set_nonblocking(true).map_err(general())?;
    // A smaller buffer than wished for still works.
    let _ = socket.set_send_buffer_size(SEND_BUFFER);
    errors_wanted(&socket, peer.is_ipv6()).map_err(general())?;
    if config.dscp > 0 {
        mark(&socket, config.dscp, peer.is_ipv6())
            .map_err(failed(format!("mark with DSCP {}", config.dscp)))?;
    }
    if let Some(device) = &config.device {
        tie_to_device(&socket, device, peer.is_ipv6()).map_err(|e| Trouble {
            loss: e.errno().map_or(Loss::Other, loss_of),
            text: e.to_string(),
        })?;
    }
    if let Some(ip) = config.source {
        let from = usable(ip, peer);
        socket
            .bind(&SocketAddr::new(from, 0).into())
            .map_err(failed(format!("send from {from}")))?;
    }
    socket
        .connect(&peer.into())
        .map_err(failed(format!("reach {peer}")))?;
    Ok(socket)
}

fn trouble(what: &str, e: &io::Error) -> Trouble {
    let loss = e.raw_os_error().map(Errno::from_raw).map(loss_of);
    Trouble {
        loss: loss.unwrap_or(Loss::Other),
        text: format!("{what}: {e}"),
    }
}

/// The source address, or none in particular when a name turned out to be of the other IP version.
fn usable(ip: IpAddr, peer: SocketAddr) -> IpAddr {
    match (ip.is_ipv4() == peer.is_ipv4(), peer.is_ipv4()) {
        (true, _) => ip,
        (false, true) => Ipv4Addr::UNSPECIFIED.into(),
        (false, false) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

fn errors_wanted(socket: &Socket, ipv6: bool) -> io::Result<()> {
    let done = if ipv6 {
        setsockopt(socket, sockopt::Ipv6RecvErr, &true)
    } else {
        setsockopt(socket, sockopt::Ipv4RecvErr, &true)
    };
    done.map_err(io::Error::from)
}

/// The code point is the upper six bits of the field (RFC 2474 section 3).
fn mark(socket: &Socket, dscp: u8, ipv6: bool) -> io::Result<()> {
    let field = u32::from(dscp) << 2;
    if ipv6 {
        socket.set_tclass_v6(field)
    } else {
        socket.set_tos_v4(field)
    }
}
