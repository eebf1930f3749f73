//! rtnetlink on the wire: building requests, one socket, reading answers and attributes.
//!
//! Follows netlink(7), rtnetlink(7) and the kernel's `include/uapi/linux/netlink.h`. A message is a
//! 16-byte header, a fixed struct of its type, and attributes; all numbers are in host order and
//! everything is padded to 4 bytes. Answers are read with bounds checks: a short one ends the walk.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering};

use nix::errno::Errno;

use crate::{Error, Result};

const HEADER: usize = 16;
/// Type bits of an attribute; the two top bits are flags.
const ATTR_TYPE: u16 = 0x3fff;
const NLA_F_NESTED: u16 = 0x8000;
/// Attribute of an acknowledgement that carries the kernel's words.
const NLMSGERR_ATTR_MSG: u16 = 1;
/// Largest answer read at once: the kernel makes no dump part larger than 32 KiB.
const RECV_BUFFER: usize = 64 * 1024;
/// How often a dump is asked again when the tables changed while it ran.
const DUMP_TRIES: usize = 8;

/// A request under construction.
pub(crate) struct Request {
    buf: Vec<u8>,
}

impl Request {
    /// A request of message type `kind` with NLM_F_REQUEST and `flags`, carrying the fixed struct `body`.
    pub fn new(kind: u16, flags: i32, body: &[u8]) -> Request {
        let mut buf = Vec::with_capacity(256);
        buf.extend_from_slice(&[0; 4]);
        buf.extend_from_slice(&kind.to_ne_bytes());
        buf.extend_from_slice(&((flags | libc::NLM_F_REQUEST) as u16).to_ne_bytes());
        buf.extend_from_slice(&[0; 8]);
        let mut request = Request { buf };
        request.bytes(body);
        request
    }

    fn bytes(&mut self, data: &[u8]) {
        self.buf.extend_from_slice(data);
        self.buf.resize(self.buf.len().next_multiple_of(4), 0);
    }

    /// Adds an attribute.
    pub fn attr(&mut self, kind: u16, value: &[u8]) -> &mut Request {
        // Values are names, addresses and numbers of ours, never near 64 KiB.
        let len = (4 + value.len()) as u16;
        self.buf.extend_from_slice(&len.to_ne_bytes());
        self.buf.extend_from_slice(&kind.to_ne_bytes());
        self.bytes(value);
        self
    }

    /// Adds a 32-bit attribute.
    pub fn attr_u32(&mut self, kind: u16, value: u32) -> &mut Request {
        self.attr(kind, &value.to_ne_bytes())
    }

    /// Adds a string attribute, zero-terminated.
    pub fn attr_str(&mut self, kind: u16, value: &str) -> &mut Request {
        let mut bytes = value.as_bytes().to_vec();
        bytes.push(0);
        self.attr(kind, &bytes)
    }

    /// Adds an attribute that holds what `fill` adds, after the fixed struct `body` if it has one.
    pub fn nested(
        &mut self,
        kind: u16,
        body: &[u8],
        fill: impl FnOnce(&mut Request),
    ) -> &mut Request {
        let start = self.buf.len();
        self.buf.extend_from_slice(&[0; 2]);
        self.buf
            .extend_from_slice(&(kind | NLA_F_NESTED).to_ne_bytes());
        self.bytes(body);
        fill(self);
        let len = (self.buf.len() - start) as u16;
        self.buf[start..start + 2].copy_from_slice(&len.to_ne_bytes());
        self
    }

    fn finish(&mut self, seq: u32, flags: i32) -> &[u8] {
        let len = self.buf.len() as u32;
        self.buf[0..4].copy_from_slice(&len.to_ne_bytes());
        let old = u16_at(&self.buf, 6).unwrap_or(0);
        self.buf[6..8].copy_from_slice(&(old | flags as u16).to_ne_bytes());
        self.buf[8..12].copy_from_slice(&seq.to_ne_bytes());
        &self.buf
    }
}

/// Reads a number in host order.
pub(crate) fn u16_at(b: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*b.get(at..)?.first_chunk()?))
}

/// Reads a number in host order.
pub(crate) fn u32_at(b: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*b.get(at..)?.first_chunk()?))
}

/// A zero-terminated string.
pub(crate) fn string(b: &[u8]) -> String {
    let end = b.iter().position(|&c| c == 0).unwrap_or(b.len());
    String::from_utf8_lossy(&b[..end]).into_owned()
}

/// The attributes in `b`, as (type, value); stops at the first that does not fit.
pub(crate) fn attrs(mut b: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let len = usize::from(u16_at(b, 0)?);
        let kind = u16_at(b, 2)? & ATTR_TYPE;
        let value = b.get(4..len)?;
        b = b.get(len.next_multiple_of(4)..).unwrap_or(&[]);
        Some((kind, value))
    })
}

/// One message of an answer: its type and what follows the header.
pub(crate) struct Message {
    pub kind: u16,
    pub body: Vec<u8>,
}

impl Message {
    /// The attributes behind a fixed struct of `fixed` bytes.
    pub fn attrs(&self, fixed: usize) -> impl Iterator<Item = (u16, &[u8])> {
        attrs(self.body.get(fixed..).unwrap_or(&[]))
    }
}

/// What the kernel answered to a request in the end.
struct Refusal {
    errno: Errno,
    message: String,
}

/// A netlink socket that asks the kernel.
#[derive(Debug)]
pub(crate) struct Socket {
    fd: OwnedFd,
    seq: AtomicU32,
}

impl Socket {
    /// An rtnetlink socket in the calling thread's network namespace.
    pub fn open() -> Result<Socket> {
        Socket::open_protocol(libc::NETLINK_ROUTE, "an rtnetlink socket")
    }

    /// A socket of a netlink protocol, called `what`, in the calling thread's network namespace.
    pub fn open_protocol(protocol: libc::c_int, what: &str) -> Result<Socket> {
        // SAFETY: makes a new descriptor or fails; reads no memory of ours.
        let fd = unsafe {
            libc::socket(
                libc::AF_NETLINK,
                libc::SOCK_RAW | libc::SOCK_CLOEXEC,
                protocol,
            )
        };
        if fd < 0 {
            return Err(Error::last_os("open", what));
        }
        // SAFETY: the descriptor was just made and has no other owner.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let socket = Socket {
            fd,
            seq: AtomicU32::new(1),
        };
        // The kernel's own words in refusals, and no echo of the request. Old kernels lack them.
        socket.option(libc::NETLINK_EXT_ACK, 1);
        socket.option(libc::NETLINK_CAP_ACK, 1);
        Ok(socket)
    }

    fn option(&self, name: libc::c_int, value: libc::c_int) {
        // SAFETY: the kernel reads the four bytes of `value`; a refusal leaves the default in place.
        unsafe {
            libc::setsockopt(
                self.raw(),
                libc::SOL_NETLINK,
                name,
                (&raw const value).cast(),
                size_of_val(&value) as libc::socklen_t,
            )
        };
    }

    /// The descriptor, good for interface ioctls as well.
    pub fn raw(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// The descriptor, to wait on.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Sends a request that changes something and waits for the kernel's word on it.
    pub fn change(&self, mut request: Request, tried: &str, object: &str) -> Result<()> {
        self.exchange(&mut request, libc::NLM_F_ACK, tried, object)
            .map(|_| ())
    }

    /// Sends a request that asks for one thing.
    pub fn get(&self, mut request: Request, tried: &str, object: &str) -> Result<Vec<Message>> {
        self.exchange(&mut request, libc::NLM_F_ACK, tried, object)
    }

    /// Sends a request that asks for everything.
    pub fn dump(&self, mut request: Request, tried: &str, object: &str) -> Result<Vec<Message>> {
        let mut last = None;
        for _ in 0..DUMP_TRIES {
            match self.exchange(&mut request, libc::NLM_F_DUMP, tried, object) {
                Err(e) if e.errno() == Some(Errno::EINTR) => last = Some(e),
                other => return other,
            }
        }
        Err(last.unwrap_or_else(|| Error::os(tried, object, Errno::EINTR)))
    }

    fn exchange(
        &self,
        request: &mut Request,
        flags: i32,
        tried: &str,
        object: &str,
    ) -> Result<Vec<Message>> {
        let seq = self.seq.fetch_add(1, Ordering::Relaxed);
        let bytes = request.finish(seq, flags);
        self.send(bytes).map_err(|e| Error::io(tried, object, &e))?;
        match self.receive(seq) {
            Ok(Ok(messages)) => Ok(messages),
            Ok(Err(refusal)) => {
                Err(Error::os(tried, object, refusal.errno).kernel_says(&refusal.message))
            }
            Err(e) => Err(Error::io(tried, object, &e)),
        }
    }

    fn send(&self, bytes: &[u8]) -> io::Result<()> {
        // SAFETY: the kernel reads `bytes`, which outlives the call.
        let n = unsafe { libc::send(self.raw(), bytes.as_ptr().cast(), bytes.len(), 0) };
        if n < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(())
        }
    }

    /// Collects the answer to request `seq` up to its acknowledgement or its last part.
    fn receive(&self, seq: u32) -> io::Result<std::result::Result<Vec<Message>, Refusal>> {
        let mut out = Vec::new();
        let mut interrupted = false;
        let mut buf = vec![0u8; RECV_BUFFER];
        loop {
            // SAFETY: the kernel writes at most `buf.len()` bytes into `buf`, which outlives the call.
            let n = unsafe { libc::recv(self.raw(), buf.as_mut_ptr().cast(), buf.len(), 0) };
            let Ok(n) = usize::try_from(n) else {
                match io::Error::last_os_error() {
                    e if e.kind() == io::ErrorKind::Interrupted => continue,
                    e => return Err(e),
                }
            };
            for (header, body) in messages(&buf[..n.min(RECV_BUFFER)]) {
                if header.seq != seq {
                    continue; // The tail of an earlier answer that was given up.
                }
                interrupted |= header.flags & libc::NLM_F_DUMP_INTR as u16 != 0;
                match i32::from(header.kind) {
                    libc::NLMSG_ERROR | libc::NLMSG_DONE => {
                        let refusal = refusal(body, header.flags, interrupted);
                        return Ok(refusal.map_or(Ok(out), Err));
                    }
                    libc::NLMSG_NOOP => {}
                    _ => out.push(Message {
                        kind: header.kind,
                        body: body.to_vec(),
                    }),
                }
            }
        }
    }
}

/// The header of a message.
pub(crate) struct Header {
    pub kind: u16,
    flags: u16,
    pub seq: u32,
}

/// The messages in `b`, as (header, body); stops at the first that does not fit.
pub(crate) fn messages(mut b: &[u8]) -> impl Iterator<Item = (Header, &[u8])> {
    std::iter::from_fn(move || {
        let len = u32_at(b, 0)? as usize;
        let header = Header {
            kind: u16_at(b, 4)?,
            flags: u16_at(b, 6)?,
            seq: u32_at(b, 8)?,
        };
        let body = b.get(HEADER..len)?;
        b = b.get(len.next_multiple_of(4)..).unwrap_or(&[]);
        Some((header, body))
    })
}

/// The refusal in the body of an NLMSG_ERROR or NLMSG_DONE, if it is one.
fn refusal(body: &[u8], flags: u16, interrupted: bool) -> Option<Refusal> {
    let code = u32_at(body, 0).map_or(0, |c| (c as i32).wrapping_neg());
    if code == 0 {
        return interrupted.then_some(Refusal {
            errno: Errno::EINTR,
            message: String::new(),
        });
    }
    // NLMSG_ERROR: errno, then the request's header (16 bytes, NETLINK_CAP_ACK), then attributes.
    let has_words = flags & libc::NLM_F_ACK_TLVS as u16 != 0;
    let tail = if has_words {
        body.get(4 + HEADER..).unwrap_or(&[])
    } else {
        &[]
    };
    let message = attrs(tail)
        .find(|a| a.0 == NLMSGERR_ATTR_MSG)
        .map_or_else(String::new, |a| string(a.1));
    Some(Refusal {
        errno: Errno::from_raw(code),
        message,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_padded_and_lengths_are_exact() {
        let mut r = Request::new(16, libc::NLM_F_CREATE, &[7; 16]);
        r.attr_str(3, "lo").nested(18, &[], |r| {
            r.attr_str(1, "veth");
        });
        let b = r.finish(9, libc::NLM_F_ACK).to_vec();
        assert_eq!(u32_at(&b, 0), Some(b.len() as u32));
        assert_eq!(
            u16_at(&b, 6),
            Some((libc::NLM_F_REQUEST | libc::NLM_F_CREATE | libc::NLM_F_ACK) as u16)
        );
        let found: Vec<_> = attrs(&b[32..]).collect();
        assert_eq!(found[0], (3, &b"lo\0"[..]));
        assert_eq!(found[1].0, 18);
        assert_eq!(attrs(found[1].1).next(), Some((1, &b"veth\0"[..])));
    }

    #[test]
    fn broken_answers_end_the_walk() {
        assert_eq!(
            attrs(&[3, 0, 1, 0]).count(),
            0,
            "length below its own header"
        );
        assert_eq!(attrs(&[9, 0, 1, 0, 5]).count(), 0, "length beyond the end");
        assert_eq!(attrs(&[4, 0, 1, 0]).count(), 1);
        assert_eq!(messages(&[16, 0, 0, 0, 1]).count(), 0);
        assert_eq!(
            messages(&[8, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]).count(),
            0
        );
        assert!(refusal(&[], 0, false).is_none());
    }
}
