//! Handing the segment out: a socket of packets; whoever connects is sent the descriptor and let go.
//!
//! One thread, nothing kept of a client: there is nothing that a slow one could hold up. Follows unix(7)
//! (`SCM_RIGHTS`) and VPP's `vlib/stats/init.c`.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{ControlMessage, MsgFlags, SockFlag, accept4, sendmsg};
use parshall_linux::{SocketError, SocketFile, SocketKind};

/// How long to wait when no descriptor is free.
const PAUSE: Duration = Duration::from_millis(100);

/// The socket that the segment is fetched from. Dropping it closes it.
#[derive(Debug)]
pub struct StatsServer {
    /// Its closing ends the thread.
    wake: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
    /// Removes the file at the end.
    _socket: SocketFile,
}

impl StatsServer {
    /// Listens on `path` and gives `segment` to all that connect, each after `before` was called: what they read
    /// should be of now.
    ///
    /// # Errors
    /// Why the socket cannot be opened.
    pub fn start(
        path: &Path,
        group: Option<&str>,
        segment: OwnedFd,
        before: impl Fn() + Send + 'static,
    ) -> Result<StatsServer, SocketError> {
        let socket = SocketFile::bind_kind(path, group, SocketKind::Packets)?;
        let system = |error| SocketError::Io {
            path: path.to_owned(),
            what: "cannot serve",
            error,
        };
        socket.listener.set_nonblocking(true).map_err(system)?;
        let listener = OwnedFd::from(socket.listener.try_clone().map_err(system)?);
        let (wake, woken) = UnixStream::pair().map_err(system)?;
        let thread = Builder::new()
            .name("parshall-stats".into())
            .spawn(move || serve(&listener, &woken, &segment, &before))
            .map_err(system)?;
        Ok(StatsServer {
            wake: Some(wake),
            thread: Some(thread),
            _socket: socket,
        })
    }
}

impl Drop for StatsServer {
    fn drop(&mut self) {
        self.wake = None;
        if let Some(thread) = self.thread.take() {
            // A panic there has been printed already.
            let _ = thread.join();
        }
    }
}

fn serve(listener: &OwnedFd, woken: &UnixStream, segment: &OwnedFd, before: &dyn Fn()) {
    loop {
        let mut fds = [
            PollFd::new(listener.as_fd(), PollFlags::POLLIN),
            PollFd::new(woken.as_fd(), PollFlags::POLLIN),
        ];
        if poll(&mut fds, PollTimeout::NONE).is_err() {
            continue;
        }
        if fds[1].any() == Some(true) {
            return;
        }
        match accept4(
            listener.as_raw_fd(),
            SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK,
        ) {
            Ok(fd) => {
                // SAFETY: accept4 has just made this descriptor, and nobody else has it.
                let client = unsafe { OwnedFd::from_raw_fd(fd) };
                before();
                if let Err(error) = hand_over(&client, segment) {
                    tracing::debug!("statistics: a reader got nothing: {error}");
                }
            }
            Err(nix::Error::EAGAIN | nix::Error::EINTR | nix::Error::ECONNABORTED) => {}
            // Out of descriptors, say: do not turn at full speed until some are free.
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

fn hand_over(client: &OwnedFd, segment: &OwnedFd) -> io::Result<()> {
    let fds = [segment.as_raw_fd()];
    let rights = [ControlMessage::ScmRights(&fds)];
    let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
    // An empty message, as VPP's.
    sendmsg::<()>(client.as_raw_fd(), &[], &rights, flags, None)?;
    Ok(())
}
