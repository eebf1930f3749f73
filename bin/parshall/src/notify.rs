//! What systemd is told: that the router runs, that it still does, that it ends (sd_notify(3)).
//!
//! A datagram of text to the socket that NOTIFY_SOCKET names. Nothing is said where nobody asked.

use std::ffi::OsString;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use parshall_control::Asker;

/// Who is told, if anybody.
#[derive(Debug)]
pub struct Notify {
    socket: UnixDatagram,
    to: SocketAddr,
}

impl Notify {
    /// As the environment says.
    pub fn from_env() -> Option<Notify> {
        Notify::to(&std::env::var_os("NOTIFY_SOCKET")?).ok()
    }

    fn to(name: &OsString) -> io::Result<Notify> {
        let to = match name.as_bytes() {
            // The abstract name space of unix(7), as systemd writes it.
            [b'@', rest @ ..] => SocketAddr::from_abstract_name(rest)?,
            _ => SocketAddr::from_pathname(name)?,
        };
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        Ok(Notify { socket, to })
    }

    /// Says something. That nobody listens any more is nobody's loss.
    pub fn say(&self, text: &str) {
        let _ = self.socket.send_to_addr(text.as_bytes(), &self.to);
    }
}

/// How often the watchdog wants to hear of us: half of what WATCHDOG_USEC says, as sd_watchdog_enabled(3) advises.
pub fn watchdog_period() -> Option<Duration> {
    let usec: u64 = std::env::var("WATCHDOG_USEC").ok()?.parse().ok()?;
    let ours = std::env::var("WATCHDOG_PID").map_or(true, |p| p == std::process::id().to_string());
    (ours && usec > 0).then(|| Duration::from_micros(usec / 2))
}

/// Tells the watchdog that the control loop turns, as long as it does. Dropping it ends that.
pub struct Watchdog {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    /// Starts asking the router whether it still answers.
    ///
    /// # Errors
    /// When there is no thread to be had.
    pub fn start(notify: Notify, period: Duration, asker: Asker) -> io::Result<Watchdog> {
        let (stop, stopped) = channel();
        let thread = Builder::new().name("parshall-dog".into()).spawn(move || {
            while stopped.recv_timeout(period) == Err(RecvTimeoutError::Timeout) {
                // Waits as long as control is stuck; then nothing is said, which is the point.
                match asker.ask(|r| r.is_healthy()) {
                    Some(true) => notify.say("WATCHDOG=1"),
                    Some(false) => tracing::error!("a worker thread has ended"),
                    None => return,
                }
            }
        })?;
        Ok(Watchdog {
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Ends it. Called when the router is about to be dropped, with whom a question under way ends too.
    pub fn stop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take().filter(JoinHandle::is_finished) {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_names_are_told() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("notify");
        let inbox = UnixDatagram::bind(&path).expect("bound");
        Notify::to(&path.into_os_string())
            .expect("a name")
            .say("READY=1");
        let mut bytes = [0; 16];
        let n = inbox.recv(&mut bytes).expect("told");
        assert_eq!(&bytes[..n], b"READY=1");
        let name = format!("parshall-notify-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("a name");
        let inbox = UnixDatagram::bind_addr(&address).expect("bound");
        Notify::to(&format!("@{name}").into())
            .expect("a name")
            .say("STOPPING=1");
        let n = inbox.recv(&mut bytes).expect("told");
        assert_eq!(&bytes[..n], b"STOPPING=1");
    }
}
