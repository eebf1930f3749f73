//! Bulk TCP: one connection, one thread that writes and one that reads.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use socket2::SockRef;

use super::{Kind, Stats, Traffic, WAIT, is_timeout};
use crate::error::{LabError, Result};
use crate::stop::Stop;
use crate::topology::Host;

/// Where the receiver listens.
const PORT: u16 = 5001;
/// How long a connection may take to come about.
const PATIENCE: Duration = Duration::from_secs(15);
/// Bytes a write or read moves.
const CHUNK: usize = 64 << 10;

impl Traffic {
    /// Starts a connection over which `from` sends to `to` as fast as it goes.
    pub(super) fn tcp(&mut self, from: &Host, to: &Host, v6: bool) -> Result<()> {
        let name = if v6 { "tcp6" } else { "tcp4" };
        let (sender, receiver) = connect(from, to, v6)?;
        let stats = self.stream(name, Kind::Tcp, from);
        let (theirs, stop) = (Arc::clone(&stats), self.ends.senders.clone());
        self.thread(name, move || send(sender, &theirs, &stop))?;
        let stop = self.ends.receivers.clone();
        let senders = self.ends.senders.clone();
        self.thread(name, move || receive(receiver, &stats, &senders, &stop))
    }
}

fn connect(from: &Host, to: &Host, v6: bool) -> Result<(TcpStream, TcpStream)> {
    let at = SocketAddr::new(to.addr(v6), PORT);
    let listener = to
        .ns
        .run(|| TcpListener::bind(at))?
        .map_err(LabError::io(format!("listen on {at} in {}", to.ns.label())))?;
    let timeout = Some(PATIENCE);
    let connecting = || {
        LabError::io(format!(
            "connect from {} to TCP {at} through the router",
            from.ns.label()
        ))
    };
    SockRef::from(&listener)
        .set_read_timeout(timeout)
        .map_err(connecting())?;
    let sender = from
        .ns
        .run(|| TcpStream::connect_timeout(&at, PATIENCE))?
        .map_err(connecting())?;
    let (receiver, _) = listener.accept().map_err(connecting())?;
    sender.set_write_timeout(Some(WAIT)).map_err(connecting())?;
    receiver
        .set_read_timeout(Some(WAIT))
        .map_err(connecting())?;
    // Closing drops what is not sent yet, so that the link is quiet at once when traffic ends.
    SockRef::from(&sender)
        .set_linger(Some(Duration::ZERO))
        .map_err(connecting())?;
    Ok((sender, receiver))
}

fn send(mut socket: TcpStream, stats: &Stats, stop: &Stop) {
    let chunk = vec![0x5A; CHUNK];
    while !stop.asked() {
        match socket.write(&chunk) {
            Ok(_) => stats.sent(1),
            Err(e) if is_timeout(&e) => {}
            Err(e) => return stats.trouble(format!("cannot write: {e}")),
        }
    }
}

fn receive(mut socket: TcpStream, stats: &Stats, senders: &Stop, stop: &Stop) {
    let mut chunk = vec![0; CHUNK];
    while !stop.asked() {
        match socket.read(&mut chunk) {
            Ok(n) if n > 0 => stats.received(n),
            Err(e) if is_timeout(&e) => {}
            // The sender hangs up when it is told to stop, and only then.
            _ if senders.asked() => return,
            Ok(_) => return stats.trouble("the connection was closed"),
            Err(e) => return stats.trouble(format!("cannot read: {e}")),
        }
    }
}
