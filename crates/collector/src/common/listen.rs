//! The socket that datagrams come in by.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use parshall_linux::udp::{UdpOptions, UdpReceiver};

use super::ToolError;
use crate::args::{Listen, SFLOW_PORT};

/// Bytes of receive buffer asked for: bursts of many agents must survive while this program has no CPU.
const RECEIVE_BUFFER: usize = 64 << 20;
/// How often a waiting tool looks whether it should end. A signal ends the wait at once.
pub(crate) const WAIT: Duration = Duration::from_millis(200);

/// Opens it: on one address, or on all of both families (IPv4 alone where there is no IPv6).
pub(crate) fn open(listen: Option<Listen>) -> Result<UdpReceiver, ToolError> {
    bind(listen, false)
}

/// Opens several on one port, among which the kernel shares out the senders.
pub(crate) fn open_shared(
    listen: Option<Listen>,
    sockets: usize,
) -> Result<Vec<UdpReceiver>, ToolError> {
    let first = bind(listen, sockets > 1)?;
    let at = first.local_addr().map_err(ToolError::Receive)?;
    // Any port was asked for, or whatever family there is: the others take what the first one got.
    let options = UdpOptions {
        dual: at.is_ipv6() && listen.is_none(),
        shared: true,
        buffer_bytes: RECEIVE_BUFFER,
    };
    let mut all = vec![first];
    while all.len() < sockets {
        let next = UdpReceiver::bind(at, options);
        all.push(next.map_err(|source| ToolError::Listen {
            address: at,
            source,
        })?);
    }
    Ok(all)
}

fn bind(listen: Option<Listen>, shared: bool) -> Result<UdpReceiver, ToolError> {
    let port = listen.and_then(|l| l.port).unwrap_or(SFLOW_PORT);
    let options = |dual| UdpOptions {
        dual,
        shared,
        buffer_bytes: RECEIVE_BUFFER,
    };
    let bind = |ip: IpAddr, dual| UdpReceiver::bind(SocketAddr::new(ip, port), options(dual));
    let any = Ipv6Addr::UNSPECIFIED.into();
    let opened = match listen {
        Some(l) => bind(l.ip, false),
        None => bind(any, true).or_else(|_| bind(Ipv4Addr::UNSPECIFIED.into(), false)),
    };
    opened.map_err(|source| ToolError::Listen {
        address: SocketAddr::new(listen.map_or(any, |l| l.ip), port),
        source,
    })
}

/// Takes a batch in, if there is one; waits a moment if there is none. Says whether there is one.
pub(crate) fn receive(receiver: &mut UdpReceiver, wait: Duration) -> Result<bool, ToolError> {
    let got = match receiver.receive() {
        // Refusals of what was sent by the same port are of no interest here.
        Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => Ok(false),
        other => other,
    };
    if got.map_err(ToolError::Receive)? {
        return Ok(true);
    }
    receiver.wait(wait).map_err(ToolError::Receive)?;
    Ok(false)
}
