//! Netlink beyond rtnetlink: generic netlink families, and sending to and reading from multicast groups.
//!
//! Follows netlink(7), the kernel's `include/uapi/linux/{netlink,genetlink}.h` and `net/netlink/af_netlink.c`. A
//! [`GroupSocket`] looks up families and groups by name, joins groups, and sends messages to the other programs that
//! joined one: userspace may do so with `CAP_NET_ADMIN` on generic netlink, and always on `NETLINK_USERSOCK`. The kernel
//! takes a destination group as a bit of 32, so only groups 1 to 32 can be sent to. What a message means is its reader's
//! business.

use std::fs;
use std::io;
use std::mem;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::caps::{self, Capability};
use crate::netlink::{Request, Socket, attrs, messages, string, u16_at, u32_at};
use crate::{Error, Result};

/// Bytes of a netlink message header.
pub const HEADER: usize = 16;
/// Bytes of the generic netlink header behind it: command, version, two that are zero.
pub const GENL_HEADER: usize = 4;
/// Largest group that a message can be sent to.
pub const MAX_GROUP: u32 = 32;
/// Messages handed to the kernel at once.
const BATCH: usize = 64;

/// The controller, which knows all families (`genetlink.h`).
const GENL_ID_CTRL: u16 = 16;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
const CTRL_ATTR_VERSION: u16 = 3;
const CTRL_ATTR_MCAST_GROUPS: u16 = 7;
const CTRL_ATTR_MCAST_GRP_NAME: u16 = 1;
const CTRL_ATTR_MCAST_GRP_ID: u16 = 2;

/// A netlink protocol whose groups programs talk over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bus {
    /// `NETLINK_GENERIC`: families of the kernel, found by name.
    Generic,
    /// `NETLINK_USERSOCK`: no kernel part, groups by agreement.
    User,
}

impl Bus {
    fn protocol(self) -> libc::c_int {
        match self {
            Bus::Generic => libc::NETLINK_GENERIC,
            Bus::User => libc::NETLINK_USERSOCK,
        }
    }
}

/// A generic netlink family.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Family {
    /// Message type of its messages.
    pub id: u16,
    /// Version of its messages.
    pub version: u32,
    /// Its multicast groups: name and number.
    pub groups: Vec<(String, u32)>,
}

impl Family {
    /// The number of the group called `name`.
    pub fn group(&self, name: &str) -> Option<u32> {
        self.groups.iter().find(|g| g.0 == name).map(|g| g.1)
    }
}

/// One message received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetlinkMessage<'a> {
    /// Its type: on generic netlink the family's number.
    pub kind: u16,
    /// Its number at the sender.
    pub sequence: u32,
    /// What follows the header.
    pub body: &'a [u8],
}

/// The messages of a datagram; stops at the first that does not fit.
pub fn read_messages(datagram: &[u8]) -> impl Iterator<Item = NetlinkMessage<'_>> {
    messages(datagram).map(|(header, body)| NetlinkMessage {
        kind: header.kind,
        sequence: header.seq,
        body,
    })
}

/// The attributes in `bytes`, as (type without flags, value); stops at the first that does not fit.
pub fn read_attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    attrs(bytes)
}

/// What became of messages that were handed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Messages the kernel took.
    pub taken: usize,
    /// Why it did not take the one after those.
    pub error: Option<Errno>,
}

/// A netlink socket that speaks to groups. Only what says so waits.
#[derive(Debug)]
pub struct GroupSocket {
    socket: Socket,
    bus: Bus,
    port: u32,
}

impl GroupSocket {
    /// A socket in the calling thread's network namespace, bound to `port` (netlink's `nl_pid`) or, when that is taken
    /// or 0, to one of the kernel's choice.
    ///
    /// # Errors
    /// When the kernel refuses a socket.
    pub fn open(bus: Bus, port: u32) -> Result<GroupSocket> {
        let socket = Socket::open_protocol(bus.protocol(), "a netlink socket")?;
        let mut s = GroupSocket {
            socket,
            bus,
            port: 0,
        };
        if port == 0 || s.bind(port).is_err() {
            s.bind(0)
                .map_err(|e| Error::os("bind", "a netlink socket", e))?;
        }
        s.port = s
            .name()
            .map_err(|e| Error::os("name", "a netlink socket", e))?;
        Ok(s)
    }

    /// Its netlink port, which its messages carry.
    pub fn port(&self) -> u32 {
        self.port
    }

    fn bind(&self, port: u32) -> nix::Result<()> {
        let name = address(port, 0);
        // SAFETY: the kernel reads the address, which outlives the call.
        let rc = unsafe {
            libc::bind(
                self.socket.raw(),
                (&raw const name).cast(),
                mem::size_of_val(&name) as libc::socklen_t,
            )
        };
        Errno::result(rc).map(drop)
    }

    fn name(&self) -> nix::Result<u32> {
        let mut name = address(0, 0);
        let mut len = mem::size_of_val(&name) as libc::socklen_t;
        // SAFETY: the kernel writes at most `len` bytes into the address, which outlives the call.
        let rc =
            unsafe { libc::getsockname(self.socket.raw(), (&raw mut name).cast(), &raw mut len) };
        Errno::result(rc).map(|_| name.nl_pid)
    }

    /// Asks for a send buffer of `bytes`; a smaller one is left in place when the kernel refuses.
    pub fn set_send_buffer(&self, bytes: usize) {
        self.set_buffer(libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, bytes);
    }

    /// Asks for a receive buffer of `bytes`; a smaller one is left in place when the kernel refuses.
    pub fn set_receive_buffer(&self, bytes: usize) {
        self.set_buffer(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, bytes);
    }

    /// Beyond the system's limit where we may, else up to it.
    fn set_buffer(&self, force: libc::c_int, plain: libc::c_int, bytes: usize) {
        let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
        if self.option(libc::SOL_SOCKET, force, bytes).is_err() {
            let _ = self.option(libc::SOL_SOCKET, plain, bytes);
        }
    }

    fn option(&self, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> nix::Result<()> {
        // SAFETY: the kernel reads the four bytes of `value`, which outlives the call.
        let rc = unsafe {
            libc::setsockopt(
                self.socket.raw(),
                level,
                name,
                (&raw const value).cast(),
                size_of_val(&value) as libc::socklen_t,
            )
        };
        Errno::result(rc).map(drop)
    }

    /// Looks a generic netlink family up. The kernel may load a module for it, so this can take a while; it is not for
    /// sockets that have joined a group.
    ///
    /// # Errors
    /// `ENOENT` when there is no such family.
    pub fn family(&self, name: &str) -> Result<Family> {
        let body = [CTRL_CMD_GETFAMILY, 1, 0, 0];
        let mut request = Request::new(GENL_ID_CTRL, 0, &body);
        request.attr_str(CTRL_ATTR_FAMILY_NAME, name);
        let object = format!("generic netlink family \"{name}\"");
        let answer = self.socket.get(request, "find", &object)?;
        answer
            .iter()
            .filter(|m| m.kind == GENL_ID_CTRL)
            .find_map(|m| family(m.body.get(GENL_HEADER..)?))
            .ok_or_else(|| Error::other("find", object, "the kernel's answer names no family"))
    }

    /// Receives what is sent to `group` from now on.
    ///
    /// # Errors
    /// When the kernel refuses: groups of generic netlink may need `CAP_NET_ADMIN`.
    pub fn join(&self, group: u32) -> Result<()> {
        let number = libc::c_int::try_from(group).unwrap_or(libc::c_int::MAX);
        self.option(libc::SOL_NETLINK, libc::NETLINK_ADD_MEMBERSHIP, number)
            .map_err(|e| {
                let error = Error::os("join", format!("netlink group {group}"), e);
                match e {
                    Errno::EPERM => error.hint(caps::grant_hint(&[Capability::NetAdmin])),
                    _ => error,
                }
            })
    }

    /// Sends complete messages to whoever joined `group`, each as a datagram of its own, and does not wait. On
    /// [`Bus::User`] an `ECONNREFUSED` only means that the kernel itself does not listen: the message has gone to the
    /// group, and counts as taken.
    pub fn send(&self, group: u32, messages: &[&[u8]]) -> Sent {
        let mut all = Sent::default();
        if !(1..=MAX_GROUP).contains(&group) {
            all.error = Some(Errno::EDESTADDRREQ);
            return all;
        }
        while all.taken < messages.len() {
            let rest = &messages[all.taken..];
            match self.send_batch(group, &rest[..rest.len().min(BATCH)]) {
                Ok(n) => all.taken += n,
                Err(Errno::EINTR) => {}
                Err(Errno::ECONNREFUSED) if self.bus == Bus::User => all.taken += 1,
                Err(e) => {
                    all.error = Some(e);
                    break;
                }
            }
        }
        all
    }

    fn send_batch(&self, group: u32, messages: &[&[u8]]) -> nix::Result<usize> {
        let mut name = address(0, 1 << (group - 1));
        let mut parts = [libc::iovec {
            iov_base: std::ptr::null_mut(),
            iov_len: 0,
        }; BATCH];
        // SAFETY: an all-zero mmsghdr is a valid one that names nothing.
        let mut headers: [libc::mmsghdr; BATCH] = unsafe { mem::zeroed() };
        for ((part, header), message) in parts.iter_mut().zip(&mut headers).zip(messages) {
            part.iov_base = message.as_ptr().cast_mut().cast();
            part.iov_len = message.len();
            header.msg_hdr.msg_name = (&raw mut name).cast();
            header.msg_hdr.msg_namelen = mem::size_of_val(&name) as libc::socklen_t;
            header.msg_hdr.msg_iov = part;
            header.msg_hdr.msg_iovlen = 1;
        }
        let count = messages.len().min(BATCH) as libc::c_uint;
        // SAFETY: the first `count` headers point at the address, at `parts` and at the messages, all of which outlive
        // the call; the kernel only reads them.
        let n = unsafe {
            libc::sendmmsg(
                self.socket.raw(),
                headers.as_mut_ptr(),
                count,
                libc::MSG_DONTWAIT,
            )
        };
        Errno::result(n).map(|n| n as usize)
    }

    /// Waits up to `timeout` for a datagram and reads it into `buffer`; its length, or `None` when none came. Longer
    /// ones are cut.
    ///
    /// # Errors
    /// `ENOBUFS` says that messages were lost because this socket's buffer was full; reading may go on. `EINTR` is a
    /// signal.
    pub fn receive(&self, buffer: &mut [u8], timeout: Duration) -> io::Result<Option<usize>> {
        let fd = self.socket.as_fd();
        let timeout = PollTimeout::try_from(timeout).unwrap_or(PollTimeout::MAX);
        if poll(&mut [PollFd::new(fd, PollFlags::POLLIN)], timeout)? == 0 {
            return Ok(None);
        }
        // SAFETY: the kernel writes at most `buffer.len()` bytes into `buffer`, which outlives the call.
        let n = unsafe {
            libc::recv(
                self.socket.raw(),
                buffer.as_mut_ptr().cast(),
                buffer.len(),
                libc::MSG_DONTWAIT,
            )
        };
        match Errno::result(n) {
            Ok(n) => Ok(Some((n as usize).min(buffer.len()))),
            Err(Errno::EAGAIN) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }
}

fn address(port: u32, groups: u32) -> libc::sockaddr_nl {
    // SAFETY: an all-zero sockaddr_nl is valid; its padding is private to libc.
    let mut a: libc::sockaddr_nl = unsafe { mem::zeroed() };
    a.nl_family = libc::AF_NETLINK as libc::sa_family_t;
    a.nl_pid = port;
    a.nl_groups = groups;
    a
}

/// Reads the controller's description of a family.
fn family(attributes: &[u8]) -> Option<Family> {
    let mut f = Family::default();
    for (kind, value) in attrs(attributes) {
        match kind {
            CTRL_ATTR_FAMILY_ID => f.id = u16_at(value, 0)?,
            CTRL_ATTR_VERSION => f.version = u32_at(value, 0)?,
            CTRL_ATTR_MCAST_GROUPS => f.groups = attrs(value).filter_map(|g| group(g.1)).collect(),
            _ => {}
        }
    }
    (f.id != 0).then_some(f)
}

fn group(attributes: &[u8]) -> Option<(String, u32)> {
    let find = |wanted| attrs(attributes).find(|a| a.0 == wanted).map(|a| a.1);
    let name = string(find(CTRL_ATTR_MCAST_GRP_NAME)?);
    Some((name, u32_at(find(CTRL_ATTR_MCAST_GRP_ID)?, 0)?))
}

/// How many sockets of the calling thread's network namespace have joined `group`; `None` when that cannot be known (the
/// kernel tells of groups 1 to 32, in `/proc/net/netlink`).
pub fn listeners(bus: Bus, group: u32) -> Option<usize> {
    let table = fs::read_to_string("/proc/thread-self/net/netlink").ok()?;
    count_listeners(&table, bus, group)
}

fn count_listeners(table: &str, bus: Bus, group: u32) -> Option<usize> {
    if !(1..=MAX_GROUP).contains(&group) {
        return None;
    }
    let joined = |line: &&str| {
        // Columns: socket, protocol, port, groups in hexadecimal.
        let mut words = line.split_whitespace().skip(1);
        let protocol = words.next().and_then(|w| w.parse().ok());
        let groups = words.nth(1).and_then(|w| u32::from_str_radix(w, 16).ok());
        protocol == Some(bus.protocol()) && groups.is_some_and(|g| g >> (group - 1) & 1 == 1)
    };
    Some(table.lines().filter(joined).count())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NetNs;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut a = ((4 + value.len()) as u16).to_ne_bytes().to_vec();
        a.extend(kind.to_ne_bytes());
        a.extend(value);
        a.resize(a.len().next_multiple_of(4), 0);
        a
    }

    #[test]
    fn a_family_is_read_with_its_groups() {
        let one = |name: &str, id: u32| {
            [
                attribute(2, &id.to_ne_bytes()),
                attribute(1, format!("{name}\0").as_bytes()),
            ]
            .concat()
        };
        let groups = [
            attribute(1, &one("config", 9)),
            attribute(2, &one("packets", 10)),
        ]
        .concat();
        let all = [
            attribute(2, b"psample\0"),
            attribute(1, &33u16.to_ne_bytes()),
            attribute(3, &1u32.to_ne_bytes()),
            attribute(7 | 0x8000, &groups),
        ]
        .concat();
        let f = family(&all).unwrap();
        assert_eq!((f.id, f.version, f.group("packets")), (33, 1, Some(10)));
        assert_eq!(f.group("other"), None);
        for n in 0..all.len() {
            // Cut anywhere it is read without a panic, and never as more than there is.
            assert!(family(&all[..n]).is_none_or(|f| f.groups.len() < 2));
        }
    }

    #[test]
    fn the_kernel_knows_its_controller_and_says_what_it_does_not_know() {
        let s = GroupSocket::open(Bus::Generic, 0).unwrap();
        let f = s.family("nlctrl").unwrap();
        assert_eq!(f.id, GENL_ID_CTRL);
        assert!(f.group("notify").is_some());
        let e = s.family("no-such").unwrap_err();
        assert_eq!(e.errno(), Some(Errno::ENOENT));
        assert!(e.to_string().contains("\"no-such\""), "{e}");
    }

    #[test]
    fn messages_reach_those_who_joined_the_group() {
        let ns = NetNs::anonymous().unwrap();
        ns.run(|| {
            let (to, from) = (
                GroupSocket::open(Bus::User, 0).unwrap(),
                GroupSocket::open(Bus::User, 4242).unwrap(),
            );
            assert_eq!(from.port(), 4242);
            assert_ne!(GroupSocket::open(Bus::User, 4242).unwrap().port(), 4242);
            assert_eq!(listeners(Bus::User, 29), Some(0));
            to.join(29).unwrap();
            assert_eq!(listeners(Bus::User, 29), Some(1));
            let many: Vec<Vec<u8>> = (0..100u8).map(|i| vec![i; 20]).collect();
            let slices: Vec<&[u8]> = many.iter().map(Vec::as_slice).collect();
            let sent = from.send(29, &slices);
            assert_eq!((sent.taken, sent.error), (100, None));
            let mut buffer = [0; 64];
            for want in &many {
                let n = to.receive(&mut buffer, Duration::from_secs(20)).unwrap();
                assert_eq!(&buffer[..n.unwrap()], &want[..]);
            }
            let none = to.receive(&mut buffer, Duration::ZERO).unwrap();
            assert_eq!(none, None);
        })
        .unwrap();
    }

    #[test]
    fn groups_that_cannot_be_sent_to_are_refused() {
        let s = GroupSocket::open(Bus::User, 0).unwrap();
        for group in [0, 33, u32::MAX] {
            let sent = s.send(group, &[b"x"]);
            assert_eq!((sent.taken, sent.error), (0, Some(Errno::EDESTADDRREQ)));
        }
    }

    #[test]
    fn listeners_are_counted_in_the_kernels_table() {
        let table = "sk               Eth Pid        Groups   Rmem     Wmem     Dump  Locks    Drops    Inode\n\
             0000000000000000 2   17         10000000 0        0        0     2        0        1\n\
             0000000000000000 16  131072     00000200 0        0        0     2        0        2\n\
             0000000000000000 16  18         00000201 0        0        0     2        0        3\n\
             junk\n";
        assert_eq!(count_listeners(table, Bus::User, 29), Some(1));
        assert_eq!(count_listeners(table, Bus::Generic, 10), Some(2));
        assert_eq!(count_listeners(table, Bus::Generic, 29), Some(0));
        assert_eq!(count_listeners(table, Bus::Generic, 33), None);
    }
}
