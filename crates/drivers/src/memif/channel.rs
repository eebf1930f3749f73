//! The control channel: `SOCK_SEQPACKET` unix sockets that carry messages and, with some, a descriptor.
//!
//! Follows unix(7) and cmsg(3). Never waits: a peer that does not read its messages is cut off.

use std::fs;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, Backlog, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType,
    UnixAddr, accept4, bind, connect, listen, recvmsg, sendmsg, socket,
};

use super::message::{MESSAGE_LEN, Message};

/// Descriptors taken out of one message at most; more than one is an error, but none may leak.
const MAX_FDS: usize = 8;

/// What came in.
#[derive(Debug)]
pub(super) enum Incoming {
    /// A message, and the descriptor that came with it.
    Message(Message, Option<OwnedFd>),
    /// Nothing waits.
    Nothing,
    /// The peer is gone.
    Closed,
}

/// One connection.
#[derive(Debug)]
pub(super) struct Channel(OwnedFd);

impl Channel {
    /// Connects to a master's socket.
    ///
    /// # Errors
    /// When nobody listens there.
    pub fn connect(path: &str) -> io::Result<Channel> {
        let fd = seqpacket()?;
        connect(fd.as_raw_fd(), &address(path)?)?;
        Ok(Channel(fd))
    }

    /// Sends a message and, with it, a descriptor.
    ///
    /// # Errors
    /// When the peer is gone or does not read.
    pub fn send(&self, message: &Message, fd: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let bytes = message.encode();
        let raw = fd.map(|f| [f.as_raw_fd()]);
        let rights = raw.as_ref().map(|f| [ControlMessage::ScmRights(f)]);
        let control = rights.as_ref().map_or(&[][..], |r| &r[..]);
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
        let iov = [IoSlice::new(&bytes)];
        sendmsg::<()>(self.0.as_raw_fd(), &iov, control, flags, None)?;
        Ok(())
    }

    /// Takes the next message.
    ///
    /// # Errors
    /// When it is none, or brings more than one descriptor.
    pub fn receive(&self) -> io::Result<Incoming> {
        // One byte more than a message, so that a longer one shows.
        let mut bytes = [0; MESSAGE_LEN + 1];
        let mut control = nix::cmsg_space!([RawFd; MAX_FDS]);
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_CMSG_CLOEXEC;
        let mut iov = [IoSliceMut::new(&mut bytes)];
        let got = match recvmsg::<()>(self.0.as_raw_fd(), &mut iov, Some(&mut control), flags) {
            Ok(got) => got,
            Err(Errno::EAGAIN | Errno::EINTR) => return Ok(Incoming::Nothing),
            Err(Errno::ECONNRESET | Errno::EPIPE) => return Ok(Incoming::Closed),
            Err(e) => return Err(e.into()),
        };
        let (len, cut) = (got.bytes, got.flags.contains(MsgFlags::MSG_CTRUNC));
        let mut fds = Vec::new();
        for c in got.cmsgs()? {
            if let ControlMessageOwned::ScmRights(raw) = c {
                // SAFETY: the kernel just made these descriptors for us and nobody else knows them.
                fds.extend(
                    raw.into_iter()
                        .map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }),
                );
            }
        }
        if len == 0 {
            return Ok(Incoming::Closed);
        }
        if fds.len() > 1 || cut {
            return Err(io::Error::other("a message with more than one descriptor"));
        }
        let message = Message::parse(bytes.get(..len).unwrap_or_default())
            .map_err(|e| io::Error::other(e.to_string()))?;
        Ok(Incoming::Message(message, fds.pop()))
    }

    /// Its descriptor, to wait on.
    pub fn fd(&self) -> BorrowedFd<'_> {
        use std::os::fd::AsFd;
        self.0.as_fd()
    }
}

/// A master's socket. Its file is removed at the end if it is still ours.
#[derive(Debug)]
pub(super) struct Listener {
    fd: OwnedFd,
    file: Option<(PathBuf, (u64, u64))>,
}

impl Listener {
    /// Listens on `path`; a file left behind by a dead process is replaced, missing folders are made.
    ///
    /// # Errors
    /// When somebody else listens there, or something that is no socket is in the way.
    pub fn bind(path: &str) -> io::Result<Listener> {
        let fd = seqpacket()?;
        let address = address(path)?;
        if path.starts_with('@') {
            bind(fd.as_raw_fd(), &address)?;
            listen(&fd, backlog())?;
            return Ok(Listener { fd, file: None });
        }
        let file = Path::new(path);
        if let Some(folder) = file.parent().filter(|f| !f.as_os_str().is_empty()) {
            fs::create_dir_all(folder)?;
        }
        make_way(file)?;
        bind(fd.as_raw_fd(), &address)?;
        let m = fs::symlink_metadata(file)?;
        let file = Some((file.to_owned(), (m.dev(), m.ino())));
        let listener = Listener { fd, file };
        listen(&listener.fd, backlog())?;
        Ok(listener)
    }

    /// The next slave that waits, if any.
    pub fn accept(&self) -> Option<Channel> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let fd = accept4(self.fd.as_raw_fd(), flags).ok()?;
        // SAFETY: the call just made this descriptor and nobody else knows it.
        Some(Channel(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Its descriptor, to wait on.
    pub fn fd(&self) -> BorrowedFd<'_> {
        use std::os::fd::AsFd;
        self.fd.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some((path, identity)) = &self.file
            && fs::symlink_metadata(path).is_ok_and(|m| (m.dev(), m.ino()) == *identity)
        {
            // Nobody can be told if this fails, and the next one to listen replaces a dead socket.
            let _ = fs::remove_file(path);
        }
    }
}

fn backlog() -> Backlog {
    Backlog::new(64).unwrap_or(Backlog::MAXCONN)
}

fn seqpacket() -> io::Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    Ok(socket(
        AddressFamily::Unix,
        SockType::SeqPacket,
        flags,
        None,
    )?)
}

/// The address of a path; `@NAME` is an abstract one.
fn address(path: &str) -> io::Result<UnixAddr> {
    Ok(match path.strip_prefix('@') {
        Some(name) => UnixAddr::new_abstract(name.as_bytes())?,
        None => UnixAddr::new(path)?,
    })
}

/// Removes a socket that nobody listens on any more.
fn make_way(path: &Path) -> io::Result<()> {
    let Ok(there) = fs::symlink_metadata(path) else {
        return Ok(());
    };
    if !there.file_type().is_socket() {
        return Err(io::Error::other("exists and is not a socket"));
    }
    let fd = seqpacket()?;
    match connect(fd.as_raw_fd(), &UnixAddr::new(path)?) {
        Err(Errno::ECONNREFUSED) => fs::remove_file(path),
        Err(Errno::ENOENT) => Ok(()),
        Ok(()) | Err(Errno::EAGAIN) => Err(io::Error::other("another program listens there")),
        Err(e) => Err(e.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    fn pair(dir: &Path) -> (Listener, Channel, Channel) {
        let path = dir.join("deep/er/m.sock").display().to_string();
        let listener = Listener::bind(&path).unwrap();
        let slave = Channel::connect(&path).unwrap();
        let master = listener.accept().unwrap();
        (listener, master, slave)
    }

    #[test]
    fn messages_and_descriptors_arrive() {
        let dir = tempfile::tempdir().unwrap();
        let (_listener, master, slave) = pair(dir.path());
        assert!(matches!(master.receive().unwrap(), Incoming::Nothing));
        slave.send(&Message::Ack, None).unwrap();
        let file = fs::File::open("/dev/null").unwrap();
        slave
            .send(&Message::disconnect("x"), Some(file.as_fd()))
            .unwrap();
        assert!(matches!(
            master.receive().unwrap(),
            Incoming::Message(Message::Ack, None)
        ));
        assert!(matches!(
            master.receive().unwrap(),
            Incoming::Message(Message::Disconnect { .. }, Some(_))
        ));
        drop(slave);
        assert!(matches!(master.receive().unwrap(), Incoming::Closed));
    }

    #[test]
    fn malformed_datagrams_are_errors_and_leak_no_descriptor() {
        let dir = tempfile::tempdir().unwrap();
        let (_listener, master, slave) = pair(dir.path());
        let send = |len: usize, fds: &[RawFd]| {
            let bytes = vec![1; len];
            let rights = [ControlMessage::ScmRights(fds)];
            let control = if fds.is_empty() { &[][..] } else { &rights };
            let iov = [IoSlice::new(&bytes)];
            sendmsg::<()>(slave.0.as_raw_fd(), &iov, control, MsgFlags::empty(), None).unwrap();
        };
        let open = || fs::read_dir("/proc/self/fd").unwrap().count();
        let null = fs::File::open("/dev/null").unwrap();
        send(127, &[]);
        send(129, &[]);
        send(4096, &[]);
        send(128, &[null.as_raw_fd(); 2]);
        send(128, &[null.as_raw_fd(); 40]);
        // Other tests open descriptors at the same time, so only a large leak can be told.
        let before = open();
        for _ in 0..5 {
            assert!(master.receive().is_err());
        }
        assert!(open() < before + 30);
    }

    #[test]
    fn a_dead_socket_is_replaced_a_live_one_and_a_file_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("m.sock");
        let text = path.display().to_string();
        let live = Listener::bind(&text).unwrap();
        let e = Listener::bind(&text).unwrap_err().to_string();
        assert_eq!(e, "another program listens there");
        drop(live);
        assert!(!path.exists());
        let mut dead = Listener::bind(&text).unwrap();
        dead.file = None;
        drop(dead);
        assert!(path.exists());
        drop(Listener::bind(&text).unwrap());
        fs::write(&path, "x").unwrap();
        let e = Listener::bind(&text).unwrap_err().to_string();
        assert_eq!(e, "exists and is not a socket");
        assert!(path.exists());
    }
}
