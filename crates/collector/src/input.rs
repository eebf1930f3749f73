//! Where datagrams come from: a UDP socket, or a file that may be a pipe. Both can be waited on without missing the request to stop.

use std::fs::File;
use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use socket2::{Domain, Protocol, Socket, Type};

/// How often a waiting reader looks whether it should stop, in milliseconds. A signal ends the wait at once; this is for stop requests
/// from other threads.
const WAIT_MS: u16 = 200;

/// Bytes of receive buffer asked for: bursts of many agents must survive a slow terminal. The kernel gives what it allows.
const RECEIVE_BUFFER: usize = 8 << 20;

/// The largest UDP payload.
pub const MAX_DATAGRAM: usize = 65_535;

/// Which address families to listen on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// IPv6 and IPv4 on one socket, or IPv4 alone where there is no IPv6.
    Both,
    /// IPv4 alone.
    V4,
    /// IPv6 alone.
    V6,
}

/// A socket that receives datagrams.
#[derive(Debug)]
pub struct UdpInput {
    socket: UdpSocket,
}

impl UdpInput {
    /// Binds to a port, 0 for any, on one address or all.
    pub fn bind(listen: Option<IpAddr>, port: u16, family: Family) -> io::Result<Self> {
        let socket = match (listen, family) {
            (Some(ip), _) => open(SocketAddr::new(ip, port), false)?,
            (None, Family::V4) => open(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port), false)?,
            (None, Family::V6) => open(SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port), false)?,
            (None, Family::Both) => open(SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port), true)
                .or_else(|_| open(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port), false))?,
        };
        Ok(UdpInput { socket })
    }

    /// Where it is bound.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// A datagram that has arrived, or nothing if none has. The sender's address is IPv4 if it was mapped into IPv6.
    pub fn try_recv<'b>(&self, buf: &'b mut [u8]) -> io::Result<Option<(&'b [u8], IpAddr)>> {
        match self.socket.recv_from(buf) {
            Ok((n, from)) => Ok(Some((
                buf.get(..n).unwrap_or(&[]),
                from.ip().to_canonical(),
            ))),
            Err(e)
                if e.kind() == io::ErrorKind::WouldBlock
                    || e.kind() == io::ErrorKind::Interrupted =>
            {
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }

    /// Waits until a datagram has arrived; not long, so that the caller can look around.
    pub fn wait(&self) -> io::Result<()> {
        wait_readable(self.socket.as_fd()).map(|_| ())
    }
}

fn open(addr: SocketAddr, dual: bool) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(addr), Type::DGRAM, Some(Protocol::UDP))?;
    if addr.is_ipv6() {
        socket.set_only_v6(!dual)?;
    }
    // Less than asked for is not an error.
    let _ = socket.set_recv_buffer_size(RECEIVE_BUFFER);
    socket.set_nonblocking(true)?;
    socket.bind(&addr.into())?;
    Ok(socket.into())
}

/// Waits a while for something to read; says whether there is.
fn wait_readable(fd: BorrowedFd<'_>) -> io::Result<bool> {
    let mut fds = [PollFd::new(fd, PollFlags::POLLIN)];
    match poll(&mut fds, PollTimeout::from(WAIT_MS)) {
        Ok(n) => Ok(n > 0),
        Err(Errno::EINTR) => Ok(false),
        Err(e) => Err(e.into()),
    }
}

/// A file or standard input, whose end comes early when it is asked to stop.
#[derive(Debug)]
pub struct FileInput<'s> {
    file: File,
    stop: &'s AtomicBool,
    buf: Vec<u8>,
    at: usize,
}

impl<'s> FileInput<'s> {
    /// Opens a file; `-` is standard input.
    pub fn open(path: &Path, stop: &'s AtomicBool) -> io::Result<Self> {
        let file = if path == Path::new("-") {
            File::from(io::stdin().as_fd().try_clone_to_owned()?)
        } else {
            File::open(path)?
        };
        Ok(FileInput {
            file,
            stop,
            buf: Vec::new(),
            at: 0,
        })
    }

    /// Says whether the next read may have to wait: a good moment to show what there is.
    pub fn is_drained(&self) -> bool {
        self.at == self.buf.len()
    }

    /// Fills the buffer anew; leaves it empty at the end.
    fn refill(&mut self) -> io::Result<()> {
        self.at = 0;
        self.buf.clear();
        while !self.stop.load(Ordering::Relaxed) {
            if !wait_readable(self.file.as_fd())? {
                continue;
            }
            self.buf.resize(1 << 18, 0);
            let read = self.file.read(&mut self.buf);
            self.buf.truncate(*read.as_ref().unwrap_or(&0));
            match read {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                other => return other.map(|_| ()),
            }
        }
        Ok(())
    }
}

impl Read for FileInput<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.is_drained() {
            self.refill()?;
        }
        let rest = self.buf.get(self.at..).unwrap_or(&[]);
        let n = rest.len().min(out.len());
        out[..n].copy_from_slice(&rest[..n]);
        self.at += n;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dual_socket_shows_ipv4_senders_as_ipv4() {
        let input = UdpInput::bind(None, 0, Family::Both).unwrap();
        let port = input.local_addr().unwrap().port();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.send_to(b"abc", ("127.0.0.1", port)).unwrap();
        let mut buf = [0; 100];
        let got = loop {
            if let Some((d, from)) = input.try_recv(&mut buf).unwrap() {
                break (d.to_vec(), from);
            }
            input.wait().unwrap();
        };
        assert_eq!(got, (b"abc".to_vec(), "127.0.0.1".parse().unwrap()));
    }

    #[test]
    fn stopping_ends_a_pipe_that_never_ends() {
        let (reader, _writer) = io::pipe().unwrap();
        let stop = AtomicBool::new(false);
        let mut input = FileInput {
            file: File::from(std::os::fd::OwnedFd::from(reader)),
            stop: &stop,
            buf: Vec::new(),
            at: 0,
        };
        std::thread::scope(|s| {
            let reader = s.spawn(move || input.read(&mut [0; 10]).unwrap());
            stop.store(true, Ordering::Relaxed);
            assert_eq!(reader.join().unwrap(), 0);
        });
    }
}
