//! Sends datagrams by the batch: sendmmsg(2) on a connected socket, UDP or raw.
//!
//! A [`DatagramSender`] never blocks: what the kernel has no room for comes back to the caller, who waits with
//! [`wait`](DatagramSender::wait) or does without. A raw one (raw(7), ipv6(7): protocol `IPPROTO_RAW`, which implies that the caller writes the
//! headers) sends whole IP packets, with whatever source address stands in them; it needs `CAP_NET_RAW`.

use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, MsgFlags, MultiHeaders, SockFlag, SockProtocol, SockType, SockaddrStorage,
    connect, sendmmsg, setsockopt, socket, sockopt,
};

/// Most datagrams in one system call.
const BATCH: usize = 64;

/// A connected socket that sends by the batch.
#[derive(Debug)]
pub struct DatagramSender {
    socket: OwnedFd,
}

impl DatagramSender {
    /// A UDP socket that sends to this address. Bytes of send buffer are a wish: beyond `net.core.wmem_max` it needs `CAP_NET_ADMIN`.
    ///
    /// # Errors
    /// When the kernel refuses the socket, or there is no way to the address.
    pub fn udp(to: SocketAddr, buffer_bytes: usize) -> io::Result<DatagramSender> {
        open(to, SockType::Datagram, SockProtocol::Udp, buffer_bytes)
    }

    /// A raw socket that sends whole IP packets, headers included, on the way to this address. The packets must be for that address and no longer than the
    /// MTU: nobody cuts them up. Of IPv4 the kernel fills in checksum and total length of the header.
    ///
    /// # Errors
    /// When the kernel refuses the socket (without `CAP_NET_RAW`: `PermissionDenied`), or there is no way to the address.
    pub fn raw(to: IpAddr, buffer_bytes: usize) -> io::Result<DatagramSender> {
        // A port would be taken for a protocol number.
        let to = SocketAddr::new(to, 0);
        open(to, SockType::Raw, SockProtocol::Raw, buffer_bytes)
    }

    /// Hands messages to the kernel, from the front, as many as it takes at once. Says how many.
    ///
    /// # Errors
    /// When it did not take even the first: `WouldBlock` when there is no room. `ConnectionRefused` is about a datagram sent
    /// before, and spends the call: the same message may be handed over again.
    pub fn send(&self, messages: &[&[u8]]) -> io::Result<usize> {
        let batch = &messages[..messages.len().min(BATCH)];
        if batch.is_empty() {
            return Ok(0);
        }
        let parts: Vec<[IoSlice<'_>; 1]> = batch.iter().map(|m| [IoSlice::new(m)]).collect();
        let peers: Vec<Option<()>> = vec![None; batch.len()];
        let mut headers = MultiHeaders::<()>::preallocate(batch.len(), None);
        let flags = MsgFlags::MSG_DONTWAIT.union(MsgFlags::MSG_NOSIGNAL);
        let fd = self.socket.as_raw_fd();
        match sendmmsg(fd, &mut headers, &parts, &peers, [], flags)?.count() {
            0 => Err(io::ErrorKind::WouldBlock.into()),
            n => Ok(n),
        }
    }

    /// Waits until there is room again, at most so long; a signal ends the wait. Says whether there is.
    ///
    /// # Errors
    /// When the kernel refuses to wait.
    pub fn wait(&self, longest: Duration) -> io::Result<bool> {
        let ms = u16::try_from(longest.as_millis()).unwrap_or(u16::MAX);
        let mut fds = [PollFd::new(self.socket.as_fd(), PollFlags::POLLOUT)];
        match poll(&mut fds, PollTimeout::from(ms)) {
            Ok(n) => Ok(n > 0),
            Err(Errno::EINTR) => Ok(false),
            Err(e) => Err(e.into()),
        }
    }
}

fn open(
    to: SocketAddr,
    kind: SockType,
    protocol: SockProtocol,
    buffer_bytes: usize,
) -> io::Result<DatagramSender> {
    let family = match to {
        SocketAddr::V4(_) => AddressFamily::Inet,
        SocketAddr::V6(_) => AddressFamily::Inet6,
    };
    let socket = socket(family, kind, SockFlag::SOCK_CLOEXEC, protocol)?;
    if setsockopt(&socket, sockopt::SndBufForce, &buffer_bytes).is_err() {
        // Less than wished for is not an error.
        let _ = setsockopt(&socket, sockopt::SndBuf, &buffer_bytes);
    }
    connect(socket.as_raw_fd(), &SockaddrStorage::from(to))?;
    Ok(DatagramSender { socket })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn batches_of_any_length_arrive_in_order() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let sender = DatagramSender::udp(receiver.local_addr().unwrap(), 1 << 20).unwrap();
        let all: Vec<Vec<u8>> = (0..=150u8).map(|n| vec![n; usize::from(n)]).collect();
        let messages: Vec<&[u8]> = all.iter().map(Vec::as_slice).collect();
        let mut at = 0;
        assert_eq!(sender.send(&[]).unwrap(), 0);
        while at < messages.len() {
            assert!(sender.wait(Duration::from_secs(20)).unwrap());
            at += sender.send(&messages[at..]).unwrap();
        }
        let mut buf = [0; 200];
        for want in &all {
            let n = receiver.recv(&mut buf).unwrap();
            assert_eq!(&buf[..n], want);
        }
    }

    #[test]
    fn a_refusal_is_told_and_spends_the_call() {
        let gone = UdpSocket::bind("127.0.0.1:0").unwrap();
        let sender = DatagramSender::udp(gone.local_addr().unwrap(), 1 << 16).unwrap();
        drop(gone);
        assert_eq!(sender.send(&[b"a"]).unwrap(), 1);
        let refused = sender.send(&[b"b"]).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        assert_eq!(sender.send(&[b"b"]).unwrap(), 1);
    }
}
