//! ICMP echo (RFC 792, RFC 4443) over raw sockets, as ping(8) sends it.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use parshall_wire::PacketBuilder;
use socket2::{Domain, Protocol, Socket, Type};

use super::{Kind, Stats, Traffic};
use crate::error::{LabError, Result};
use crate::stop::Stop;
use crate::topology::{Host, Topology};

/// Between two requests of a stream.
const INTERVAL: Duration = Duration::from_millis(100);
/// Bytes of payload, as ping(8) has them.
const SIZE: usize = 56;
/// How long the first answer may take: neighbours resolve, the router warms up.
const PATIENCE: Duration = Duration::from_secs(8);

/// Sends echo requests to one address and knows their answers.
struct Pinger {
    socket: Socket,
    source: IpAddr,
    target: IpAddr,
    ident: u16,
    /// When each of the last requests was sent, by the low byte of its number.
    sent: Vec<Option<(u16, Instant)>>,
}

impl Pinger {
    fn open(from: &Host, to: &Host, v6: bool, ident: u16) -> Result<Pinger> {
        let (source, target) = (from.addr(v6), to.addr(v6));
        let (domain, protocol) = if v6 {
            (Domain::IPV6, Protocol::ICMPV6)
        } else {
            (Domain::IPV4, Protocol::ICMPV4)
        };
        let open = || {
            let socket = Socket::new(domain, Type::RAW, Some(protocol))?;
            socket.bind(&SocketAddr::new(source, 0).into())?;
            socket.connect(&SocketAddr::new(target, 0).into())?;
            socket.set_read_timeout(Some(INTERVAL))?;
            Ok(socket)
        };
        let socket = from.ns.run(open)?.map_err(LabError::io(format!(
            "open an ICMP socket in {}",
            from.ns.label()
        )))?;
        Ok(Pinger {
            socket,
            source,
            target,
            ident,
            sent: vec![None; 256],
        })
    }

    fn request(&mut self, number: u16) -> io::Result<usize> {
        let bare = PacketBuilder::bare();
        let (packet, header) = match (self.source, self.target) {
            (IpAddr::V4(s), IpAddr::V4(d)) => (bare.ipv4(s, d), 20),
            (IpAddr::V6(s), IpAddr::V6(d)) => (bare.ipv6(s, d), 40),
            _ => return Err(io::ErrorKind::InvalidInput.into()),
        };
        let packet = packet
            .echo_request(self.ident, number)
            .payload_len(SIZE)
            .build();
        self.sent[usize::from(number & 0xFF)] = Some((number, Instant::now()));
        // The kernel writes the IP header.
        self.socket.send(packet.get(header..).unwrap_or(&[]))
    }

    /// Waits for an answer, not long; says how long it took and how large it is.
    fn answer(&mut self) -> Option<(Duration, usize)> {
        let mut buf = [0; 2048];
        let n = io::Read::read(&mut &self.socket, &mut buf).ok()?;
        let number = answered(buf.get(..n)?, self.target.is_ipv6(), self.ident)?;
        let slot = self.sent.get_mut(usize::from(number & 0xFF))?;
        let (expected, at) = slot.take()?;
        (expected == number).then(|| (at.elapsed(), n))
    }
}

/// The number of the request that `packet` answers, if it answers one of `ident`. An IPv4 raw socket delivers the IP
/// header too, an IPv6 one does not.
fn answered(packet: &[u8], v6: bool, ident: u16) -> Option<u16> {
    let (kind, at) = if v6 {
        (129, 0)
    } else {
        (0, usize::from(packet.first()? & 0x0F) * 4)
    };
    let [k, 0, _, _, i0, i1, n0, n1] = *packet.get(at..at + 8)? else {
        return None;
    };
    (k == kind && u16::from_be_bytes([i0, i1]) == ident).then(|| u16::from_be_bytes([n0, n1]))
}

impl Traffic {
    /// Starts a stream of echo requests.
    pub(super) fn echo(&mut self, from: &Host, to: &Host, v6: bool) -> Result<()> {
        let name = if v6 { "echo6" } else { "echo4" };
        let pinger = Pinger::open(from, to, v6, std::process::id() as u16)?;
        let stats = self.stream(name, Kind::Echo, from);
        let ends = self.ends.clone();
        self.thread(name, move || {
            ping(pinger, &stats, &ends.senders, &ends.receivers)
        })
    }
}

fn ping(mut pinger: Pinger, stats: &Arc<Stats>, senders: &Stop, receivers: &Stop) {
    let (mut number, mut due) = (0u16, Instant::now());
    while !receivers.asked() {
        if !senders.asked() && Instant::now() >= due {
            match pinger.request(number) {
                Ok(_) => stats.sent(1),
                Err(e) => stats.trouble(format!("cannot send: {e}")),
            }
            number = number.wrapping_add(1);
            due += INTERVAL;
        }
        if let Some((rtt, n)) = pinger.answer() {
            stats.received(n);
            stats
                .rtt_ns
                .fetch_add(rtt.as_nanos() as u64, Ordering::Relaxed);
        }
    }
}

/// Waits until both hosts answer each other over both IP versions.
///
/// # Errors
/// Names who does not answer whom after 8 seconds.
pub fn reachable(t: &Topology, stop: &Stop) -> Result<()> {
    for (from, to, v6) in [
        (&t.a, &t.b, false),
        (&t.b, &t.a, false),
        (&t.a, &t.b, true),
        (&t.b, &t.a, true),
    ] {
        let mut pinger = Pinger::open(from, to, v6, !(std::process::id() as u16))?;
        let deadline = Instant::now() + PATIENCE;
        for number in 0.. {
            stop.check()?;
            // A refusal shows as the missing answer.
            let _ = pinger.request(number);
            if pinger.answer().is_some() {
                break;
            }
            if Instant::now() > deadline {
                return Err(LabError::Router(format!(
                    "{} got no answer from {} through the router within {} seconds",
                    from.addr(v6),
                    to.addr(v6),
                    PATIENCE.as_secs()
                )));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_told_from_other_messages() {
        let v4 = PacketBuilder::bare().ipv4([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let reply = v4.clone().echo_reply(7, 9).build();
        assert_eq!(answered(&reply, false, 7), Some(9));
        assert_eq!(answered(&reply, false, 8), None);
        assert_eq!(answered(&v4.echo_request(7, 9).build(), false, 7), None);
        let v6 = PacketBuilder::bare().ipv6("fd00::1".parse().unwrap(), "fd00::2".parse().unwrap());
        let reply = v6.echo_reply(7, 9).build();
        assert_eq!(answered(&reply[40..], true, 7), Some(9));
        for len in 0..8 {
            assert_eq!(answered(&reply[40..40 + len], true, 7), None);
        }
    }
}
