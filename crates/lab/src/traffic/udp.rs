//! UDP at a set rate.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

use socket2::SockRef;

use super::{Kind, Traffic, WAIT, is_timeout, paced};
use crate::error::{LabError, Result};
use crate::topology::Host;

/// Where the receiver listens.
const PORT: u16 = 6001;
/// Datagrams a second.
const PER_SECOND: u32 = 1000;
/// Bytes of payload.
const SIZE: usize = 512;

impl Traffic {
    /// Starts a stream of datagrams.
    pub(super) fn udp(&mut self, from: &Host, to: &Host, v6: bool) -> Result<()> {
        let name = if v6 { "udp6" } else { "udp4" };
        let target = SocketAddr::new(to.addr(v6), PORT);
        let receiver = open(to, target)?;
        // Less than asked for is not an error.
        let _ = SockRef::from(&receiver).set_recv_buffer_size(4 << 20);
        let sender = open(from, SocketAddr::new(from.addr(v6), 0))?;
        sender
            .connect(target)
            .map_err(LabError::io(format!("send UDP to {target}")))?;

        let stats = self.stream(name, Kind::Datagrams, from);
        let (theirs, stop) = (Arc::clone(&stats), self.ends.senders.clone());
        self.thread(name, move || {
            let payload = [0x55; SIZE];
            paced(&stop, PER_SECOND, &theirs, |_| sender.send(&payload));
        })?;
        let stop = self.ends.receivers.clone();
        self.thread(name, move || {
            let mut buf = [0; 2048];
            while !stop.asked() {
                match receiver.recv(&mut buf) {
                    Ok(n) => stats.received(n),
                    Err(e) if is_timeout(&e) => {}
                    Err(e) => stats.trouble(format!("cannot receive: {e}")),
                }
            }
        })
    }
}

fn open(host: &Host, at: SocketAddr) -> Result<UdpSocket> {
    let bind = || {
        let socket = UdpSocket::bind(at)?;
        socket.set_read_timeout(Some(WAIT))?;
        Ok(socket)
    };
    host.ns.run(bind)?.map_err(LabError::io(format!(
        "open UDP {at} in {}",
        host.ns.label()
    )))
}
