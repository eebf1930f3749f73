//! Receives UDP datagrams by the batch: recvmmsg(2), receive offload, and the kernel's count of what it dropped.
//!
//! One [`UdpReceiver`] is one socket with its buffers. Several may share a port (`SO_REUSEPORT`, socket(7)): the kernel
//! gives all datagrams of one sender to the same socket. With `UDP_GRO` (udp(7)) datagrams of one sender and one length
//! arrive glued together, which spares most of the way through the kernel; they are taken apart here and nobody sees it.
//! Drops are read from `SO_MEMINFO` (`include/uapi/linux/sock_diag.h`), which also knows of drops that no later datagram
//! announced.
//!
//! Nothing is allocated after [`UdpReceiver::bind`].

use std::io;
use std::mem::{self, MaybeUninit};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// The largest UDP payload, and the largest row of datagrams that the kernel glues together.
pub const MAX_DATAGRAM: usize = 65_535;
/// Messages taken by one system call. Each has room for the largest; pages that no datagram reaches are never touched.
const BATCH: usize = 32;
/// Bytes of control messages: only the segment size is asked for.
const CONTROL: usize = 64;
/// Words of `SO_MEMINFO`, and which one counts drops.
const MEMINFO_WORDS: usize = 9;
const MEMINFO_DROPS: usize = libc::SK_MEMINFO_DROPS as usize;

/// How a receiver is to be.
#[derive(Clone, Copy, Debug)]
pub struct UdpOptions {
    /// An IPv6 socket takes IPv4 senders as well.
    pub dual: bool,
    /// Other sockets may have the same port, and share what arrives.
    pub shared: bool,
    /// Bytes of receive buffer wished for. More than `net.core.rmem_max` needs `CAP_NET_ADMIN`; what was granted is
    /// [`UdpReceiver::buffer_bytes`].
    pub buffer_bytes: usize,
}

/// A control message buffer, aligned for `cmsghdr`.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; CONTROL]);

/// A message received: where its bytes are, how long it and the datagrams in it are, who sent it.
#[derive(Clone, Copy, Debug, Default)]
struct Message {
    len: usize,
    segment: usize,
    from: Option<SocketAddr>,
}

/// A socket that receives datagrams by the batch.
pub struct UdpReceiver {
    socket: UdpSocket,
    buffers: Box<[u8]>,
    messages: [Message; BATCH],
    received: usize,
    buffer_bytes: usize,
    /// Drops by the kernel's count of 32 bits, and by ours.
    drops_seen: u32,
    drops: u64,
}

impl std::fmt::Debug for UdpReceiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UdpReceiver")
            .field("socket", &self.socket)
            .field("drops", &self.drops)
            .finish_non_exhaustive()
    }
}

impl UdpReceiver {
    /// Binds a socket that does not block.
    ///
    /// # Errors
    /// When the kernel refuses the socket or the address.
    pub fn bind(address: SocketAddr, options: UdpOptions) -> io::Result<UdpReceiver> {
        let socket = open(address, options)?;
        let buffer_bytes = grow(&socket, options.buffer_bytes);
        // Without it (before Linux 5.0) all works, only slower.
        let _ = set(&socket, libc::SOL_UDP, libc::UDP_GRO, 1);
        let mut receiver = UdpReceiver {
            socket,
            buffers: vec![0; BATCH * MAX_DATAGRAM].into_boxed_slice(),
            messages: [Message::default(); BATCH],
            received: 0,
            buffer_bytes,
            drops_seen: 0,
            drops: 0,
        };
        receiver.drops();
        Ok(receiver)
    }

    /// Where it is bound.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Bytes of receive buffer that the kernel granted. It counts its own overhead against them.
    pub fn buffer_bytes(&self) -> usize {
        self.buffer_bytes
    }

    /// Waits until something has arrived, at most so long; a signal ends the wait. Says whether there is something.
    ///
    /// # Errors
    /// When the kernel refuses to wait.
    pub fn wait(&self, longest: Duration) -> io::Result<bool> {
        let ms = u16::try_from(longest.as_millis()).unwrap_or(u16::MAX);
        let mut fds = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, PollTimeout::from(ms)) {
            Ok(n) => Ok(n > 0),
            Err(Errno::EINTR) => Ok(false),
            Err(e) => Err(e.into()),
        }
    }

    /// Takes what has arrived, a batch at most, and says whether there was anything. [`datagrams`](Self::datagrams) shows it.
    ///
    /// # Errors
    /// When receiving fails, other than for want of a datagram.
    pub fn receive(&mut self) -> io::Result<bool> {
        self.received = 0;
        match self.receive_batch() {
            Ok(n) => {
                self.received = n;
                Ok(n > 0)
            }
            Err(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) =>
            {
                Ok(false)
            }
            Err(e) => Err(e),
        }
    }

    /// The datagrams of the last batch and their senders, in the order of arrival. A sender's address is IPv4 if it was
    /// mapped into IPv6.
    pub fn datagrams(&self) -> impl Iterator<Item = (&[u8], SocketAddr)> {
        let each = self.messages[..self.received].iter().enumerate();
        each.filter_map(|(i, m)| {
            let bytes = self
                .buffers
                .get(i * MAX_DATAGRAM..i * MAX_DATAGRAM + m.len)?;
            Some((bytes, m.segment.max(1), m.from?))
        })
        .flat_map(|(bytes, segment, from)| Segments { bytes, segment }.map(move |d| (d, from)))
    }

    /// Datagrams that the kernel threw away since the receiver was made, because its buffer was full.
    pub fn drops(&mut self) -> u64 {
        let mut words = [0u32; MEMINFO_WORDS];
        let mut len = mem::size_of_val(&words) as libc::socklen_t;
        // SAFETY: `words` is writable for `len` bytes and outlives the call; the kernel writes at most that.
        let done = unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_MEMINFO,
                words.as_mut_ptr().cast(),
                &mut len,
            )
        };
        if done == 0 && len as usize > MEMINFO_DROPS * 4 {
            let now = words[MEMINFO_DROPS];
            self.drops += u64::from(now.wrapping_sub(self.drops_seen));
            self.drops_seen = now;
        }
        self.drops
    }

    fn receive_batch(&mut self) -> io::Result<usize> {
        let mut controls = [Control([0; CONTROL]); BATCH];
        let mut names = [MaybeUninit::<libc::sockaddr_storage>::uninit(); BATCH];
        // SAFETY: all-zero is a valid value of these plain C structures.
        let mut parts: [libc::iovec; BATCH] = unsafe { mem::zeroed() };
        // SAFETY: as above.
        let mut headers: [libc::mmsghdr; BATCH] = unsafe { mem::zeroed() };
        for (i, buffer) in self.buffers.chunks_exact_mut(MAX_DATAGRAM).enumerate() {
            parts[i].iov_base = buffer.as_mut_ptr().cast();
            parts[i].iov_len = buffer.len();
            let h = &mut headers[i].msg_hdr;
            h.msg_name = names[i].as_mut_ptr().cast();
            h.msg_namelen = mem::size_of::<libc::sockaddr_storage>() as libc::socklen_t;
            h.msg_iov = &mut parts[i];
            h.msg_iovlen = 1;
            h.msg_control = controls[i].0.as_mut_ptr().cast();
            h.msg_controllen = CONTROL as _;
        }
        // SAFETY: every header points at memory of its own that outlives the call: a stretch of `buffers` (borrowed
        // mutably through self), a name and a control buffer above, each with its true length.
        let n = unsafe {
            libc::recvmmsg(
                self.socket.as_raw_fd(),
                headers.as_mut_ptr(),
                BATCH as libc::c_uint,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
            )
        };
        let n = usize::try_from(n).map_err(|_| io::Error::last_os_error())?;
        for (i, message) in self.messages.iter_mut().enumerate().take(n) {
            let len = (headers[i].msg_len as usize).min(MAX_DATAGRAM);
            let h = &headers[i].msg_hdr;
            *message = Message {
                len,
                segment: segment_size(h).unwrap_or(len),
                // SAFETY: the kernel wrote `msg_namelen` bytes of an address into this name.
                from: unsafe { sender(&names[i], h.msg_namelen) },
            };
        }
        Ok(n)
    }
}

/// Takes a row of glued datagrams apart. Of an empty datagram there is one, not none.
struct Segments<'a> {
    bytes: &'a [u8],
    /// At least 1; 0 when all has been given.
    segment: usize,
}

impl<'a> Iterator for Segments<'a> {
    type Item = &'a [u8];
    fn next(&mut self) -> Option<&'a [u8]> {
        if self.segment == 0 {
            return None;
        }
        let (head, tail) = self.bytes.split_at(self.segment.min(self.bytes.len()));
        self.bytes = tail;
        if tail.is_empty() {
            self.segment = 0;
        }
        Some(head)
    }
}

fn open(address: SocketAddr, options: UdpOptions) -> io::Result<UdpSocket> {
    let domain = if address.is_ipv4() {
        libc::AF_INET
    } else {
        libc::AF_INET6
    };
    let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no memory is passed.
    let fd = unsafe { libc::socket(domain, kind, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just gave this descriptor to us and nobody else has it.
    let socket = UdpSocket::from(unsafe { OwnedFd::from_raw_fd(fd) });
    if address.is_ipv6() {
        let only = libc::c_int::from(!options.dual);
        set(&socket, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, only)?;
    }
    if options.shared {
        set(&socket, libc::SOL_SOCKET, libc::SO_REUSEPORT, 1)?;
    }
    let (name, len) = encode(address);
    // SAFETY: `name` is readable for `len` bytes and outlives the call.
    let bound = unsafe { libc::bind(fd, (&raw const name).cast(), len) };
    if bound < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(socket)
}

fn set(socket: &UdpSocket, level: i32, option: i32, value: i32) -> io::Result<()> {
    // SAFETY: `value` is readable for the length given and outlives the call.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            mem::size_of_val(&value) as libc::socklen_t,
        )
    };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Asks for a receive buffer, beyond the limit where that is allowed; says what there is.
fn grow(socket: &UdpSocket, wish: usize) -> usize {
    let value = i32::try_from(wish).unwrap_or(i32::MAX / 2);
    if set(socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, value).is_err() {
        // Less than wished for is not an error.
        let _ = set(socket, libc::SOL_SOCKET, libc::SO_RCVBUF, value);
    }
    let (mut got, mut len) = (0i32, mem::size_of::<i32>() as libc::socklen_t);
    // SAFETY: `got` is writable for `len` bytes and outlives the call.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVBUF,
            (&raw mut got).cast(),
            &mut len,
        )
    };
    // The kernel keeps and shows twice what was asked for (socket(7)).
    if done == 0 {
        usize::try_from(got).unwrap_or(0) / 2
    } else {
        0
    }
}

/// The length of each datagram in a message that was glued together.
fn segment_size(h: &libc::msghdr) -> Option<usize> {
    // SAFETY: the header's control buffer was filled by the kernel, which also set its length; both outlive this.
    let mut c = unsafe { libc::CMSG_FIRSTHDR(h) };
    while !c.is_null() {
        // SAFETY: a pointer that these macros gave is within the control buffer and points at a whole header.
        let head = unsafe { &*c };
        if (head.cmsg_level, head.cmsg_type) == (libc::SOL_UDP, libc::UDP_GRO) {
            // SAFETY: the kernel writes an int as the data of this message (udp_cmsg_recv); no alignment is assumed.
            let size = unsafe { libc::CMSG_DATA(c).cast::<libc::c_int>().read_unaligned() };
            return usize::try_from(size).ok().filter(|s| *s > 0);
        }
        // SAFETY: as for the first one.
        c = unsafe { libc::CMSG_NXTHDR(h, c) };
    }
    None
}

fn encode(address: SocketAddr) -> (libc::sockaddr_storage, libc::socklen_t) {
    // SAFETY: all-zero is a valid value of this plain C structure.
    let mut name: libc::sockaddr_storage = unsafe { mem::zeroed() };
    let len = match address {
        SocketAddr::V4(a) => {
            let v4 = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: a.port().to_be(),
                sin_addr: libc::in_addr {
                    s_addr: u32::from(*a.ip()).to_be(),
                },
                sin_zero: [0; 8],
            };
            // SAFETY: a sockaddr_storage has room and alignment for every kind of address.
            unsafe { (&raw mut name).cast::<libc::sockaddr_in>().write(v4) };
            mem::size_of_val(&v4)
        }
        SocketAddr::V6(a) => {
            let v6 = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: a.port().to_be(),
                sin6_flowinfo: a.flowinfo(),
                sin6_addr: libc::in6_addr {
                    s6_addr: a.ip().octets(),
                },
                sin6_scope_id: a.scope_id(),
            };
            // SAFETY: as above.
            unsafe { (&raw mut name).cast::<libc::sockaddr_in6>().write(v6) };
            mem::size_of_val(&v6)
        }
    };
    (name, len as libc::socklen_t)
}

/// The address in a name.
///
/// # Safety
/// The first `len` bytes of `name` must have been written.
unsafe fn sender(
    name: &MaybeUninit<libc::sockaddr_storage>,
    len: libc::socklen_t,
) -> Option<SocketAddr> {
    let (at, len) = (name.as_ptr(), len as usize);
    if len < mem::size_of::<libc::sockaddr_in>() {
        return None;
    }
    // SAFETY: the family is within the bytes written, by the length just checked.
    match i32::from(unsafe { (*at).ss_family }) {
        libc::AF_INET => {
            // SAFETY: the length was checked to hold an IPv4 address.
            let v4 = unsafe { at.cast::<libc::sockaddr_in>().read() };
            let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
            Some(SocketAddr::new(ip.into(), u16::from_be(v4.sin_port)))
        }
        libc::AF_INET6 if len >= mem::size_of::<libc::sockaddr_in6>() => {
            // SAFETY: the length was checked to hold an IPv6 address.
            let v6 = unsafe { at.cast::<libc::sockaddr_in6>().read() };
            let ip = IpAddr::V6(Ipv6Addr::from(v6.sin6_addr.s6_addr)).to_canonical();
            Some(SocketAddr::new(ip, u16::from_be(v6.sin6_port)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
    use std::io::IoSlice;

    const OPTIONS: UdpOptions = UdpOptions {
        dual: true,
        shared: false,
        buffer_bytes: 1 << 20,
    };

    fn receive(r: &mut UdpReceiver, n: usize) -> Vec<(Vec<u8>, SocketAddr)> {
        let mut got = Vec::new();
        while got.len() < n {
            assert!(r.wait(Duration::from_secs(20)).unwrap(), "{}", got.len());
            r.receive().unwrap();
            got.extend(r.datagrams().map(|(d, from)| (d.to_vec(), from)));
        }
        got
    }

    #[test]
    fn a_dual_socket_shows_ipv4_senders_as_ipv4_and_empty_datagrams_as_such() {
        let mut r = UdpReceiver::bind("[::]:0".parse().unwrap(), OPTIONS).unwrap();
        let port = r.local_addr().unwrap().port();
        let s = UdpSocket::bind("127.0.0.1:0").unwrap();
        let six = UdpSocket::bind("[::1]:0").unwrap();
        s.send_to(b"abc", ("127.0.0.1", port)).unwrap();
        s.send_to(b"", ("127.0.0.1", port)).unwrap();
        six.send_to(b"de", ("::1", port)).unwrap();
        let four = s.local_addr().unwrap();
        assert_eq!(
            receive(&mut r, 3),
            [
                (b"abc".to_vec(), four),
                (Vec::new(), four),
                (b"de".to_vec(), six.local_addr().unwrap())
            ]
        );
        assert!(!r.receive().unwrap());
        assert_eq!(r.datagrams().count(), 0);
        assert!(r.buffer_bytes() > 100_000);
    }

    #[test]
    fn glued_datagrams_come_apart_where_they_were_joined() {
        let mut r = UdpReceiver::bind("127.0.0.1:0".parse().unwrap(), OPTIONS).unwrap();
        let s = UdpSocket::bind("127.0.0.1:0").unwrap();
        s.connect(r.local_addr().unwrap()).unwrap();
        // Datagrams of 100 bytes and a shorter last one, handed over as one.
        let want: Vec<Vec<u8>> = (0..20u8)
            .map(|i| vec![i; if i == 19 { 40 } else { 100 }])
            .collect();
        let row = want.concat();
        let size = [ControlMessage::UdpGsoSegments(&100)];
        let flags = MsgFlags::empty();
        sendmsg::<()>(s.as_raw_fd(), &[IoSlice::new(&row)], &size, flags, None).unwrap();
        let got: Vec<_> = receive(&mut r, 20).into_iter().map(|d| d.0).collect();
        assert_eq!(got, want);
        assert_eq!(r.drops(), 0);
    }

    #[test]
    fn what_the_kernel_drops_is_counted() {
        let small = UdpOptions {
            buffer_bytes: 4096,
            ..OPTIONS
        };
        let mut r = UdpReceiver::bind("127.0.0.1:0".parse().unwrap(), small).unwrap();
        let s = UdpSocket::bind("127.0.0.1:0").unwrap();
        s.connect(r.local_addr().unwrap()).unwrap();
        for _ in 0..100 {
            s.send(&[0; 1000]).unwrap();
        }
        let mut got = 0;
        while r.receive().unwrap() {
            got += r.datagrams().count() as u64;
        }
        assert!(got > 0 && got < 100, "{got}");
        assert_eq!(r.drops(), 100 - got);
        assert_eq!(r.drops(), 100 - got);
    }

    #[test]
    fn sockets_share_a_port_only_when_told_to() {
        let shared = UdpOptions {
            shared: true,
            ..OPTIONS
        };
        let mut a = UdpReceiver::bind("127.0.0.1:0".parse().unwrap(), shared).unwrap();
        let at = a.local_addr().unwrap();
        let mut b = UdpReceiver::bind(at, shared).unwrap();
        let refused = UdpReceiver::bind(at, OPTIONS).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AddrInUse);
        // Many senders land on either.
        for _ in 0..64 {
            let s = UdpSocket::bind("127.0.0.1:0").unwrap();
            s.send_to(b"x", at).unwrap();
        }
        let count = |r: &mut UdpReceiver| {
            let mut n = 0;
            while r.receive().unwrap() {
                n += r.datagrams().count();
            }
            n
        };
        assert_eq!(count(&mut a) + count(&mut b), 64);
    }
}
