//! The server: a thread that accepts, one for each client, and one that looks for events while somebody wants them.
//!
//! A client has one request in the router at a time and its answer is written before the next is read, so what it can take is bounded: a
//! message and an answer. One that does not read its answers, never introduces itself or sends no frames is sent away.

mod client;
mod events;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use parshall_control::Asker;
use parshall_linux::{SocketError, SocketFile};
use std::collections::HashMap;
use std::io;
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use crate::handlers;
use crate::limiter::Limiter;
use crate::registry::Registry;
use events::Mailbox;

/// How the server listens and what it bears.
#[derive(Clone, Debug)]
pub struct ApiConfig {
    /// The socket.
    pub path: PathBuf,
    /// Group that may connect, beside the owner.
    pub group: Option<String>,
    /// Clients at a time.
    pub max_clients: usize,
    /// Longest message that is taken, in bytes.
    pub max_message: usize,
    /// How long a client may read nothing of an answer before it is sent away.
    pub write_timeout: Duration,
    /// How long a client has to introduce itself.
    pub handshake_timeout: Duration,
}

impl ApiConfig {
    /// The usual limits on `path`: 256 clients, messages of 1 MiB, 10 seconds each.
    pub fn new(path: impl Into<PathBuf>, group: Option<String>) -> ApiConfig {
        ApiConfig {
            path: path.into(),
            group,
            max_clients: 256,
            max_message: 1 << 20,
            write_timeout: Duration::from_secs(10),
            handshake_timeout: Duration::from_secs(10),
        }
    }
}

/// What all threads of the server share.
struct Shared {
    config: ApiConfig,
    asker: Asker,
    registry: Registry,
    /// The API JSON of all modules as an encoded reply, but for its context.
    json: OnceLock<String>,
    stop: AtomicBool,
    clients: Mutex<HashMap<u32, Client>>,
    limiter: Limiter,
    /// Milliseconds between two looks at what bridge domains learned.
    scan_delay: AtomicU32,
}

struct Client {
    stream: UnixStream,
    mailbox: Arc<Mailbox>,
}

impl Shared {
    fn clients(&self) -> MutexGuard<'_, HashMap<u32, Client>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Logs what somebody else did wrong, at a pace that can be read.
    fn complain(&self, what: std::fmt::Arguments<'_>) {
        match self.limiter.pass(Instant::now()) {
            Some(0) => tracing::warn!("binary API: {what}"),
            Some(kept) => {
                tracing::warn!("binary API: {what} ({kept} messages like this were not logged)")
            }
            None => {}
        }
    }
}

/// The running server. Dropping it stops it and removes the socket.
pub struct ApiServer {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// Its closing wakes the acceptor.
    wake: Option<UnixStream>,
    socket: Option<SocketFile>,
}

impl ApiServer {
    /// Starts listening; requests go to the router through `asker`.
    ///
    /// # Errors
    /// Why the socket cannot be opened.
    pub fn start(config: ApiConfig, asker: Asker) -> Result<ApiServer, SocketError> {
        let socket = SocketFile::bind(&config.path, config.group.as_deref())?;
        let system = |error| SocketError::Io {
            path: config.path.clone(),
            what: "cannot serve it",
            error,
        };
        let listener = socket.listener.try_clone().map_err(system)?;
        listener.set_nonblocking(true).map_err(system)?;
        let (wake, woken) = UnixStream::pair().map_err(system)?;
        let shared = Arc::new(Shared {
            config: config.clone(),
            asker,
            registry: handlers::all(),
            json: OnceLock::new(),
            stop: AtomicBool::new(false),
            clients: Mutex::default(),
            limiter: Limiter::default(),
            scan_delay: AtomicU32::new(events::SCAN_DELAY),
        });
        let theirs = shared.clone();
        let acceptor = Builder::new()
            .name("parshall-api".into())
            .spawn(move || accept_loop(&theirs, &listener, &woken))
            .map_err(system)?;
        let theirs = shared.clone();
        let watcher = Builder::new()
            .name("parshall-apiev".into())
            .spawn(move || events::watch(&theirs))
            .map_err(system)?;
        Ok(ApiServer {
            shared,
            threads: vec![acceptor, watcher],
            wake: Some(wake),
            socket: Some(socket),
        })
    }

    /// How many clients are connected.
    pub fn clients(&self) -> usize {
        self.shared.clients().len()
    }

    /// Stops: no new clients, those there are hung up, the socket is removed. Requests that wait for the router end with it.
    pub fn stop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.socket = None;
        self.wake = None;
        for client in self.shared.clients().values() {
            // Fails only if the client is gone, which is what is wanted.
            let _ = client.stream.shutdown(Shutdown::Both);
        }
        // The watcher may wait for a router that has ended: it is not waited for.
        if let Some(acceptor) = self.threads.drain(..).next() {
            // A panic there has been printed already; stopping goes on.
            let _ = acceptor.join();
        }
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        self.stop();
    }
}

/// How long to wait where the system refuses a client.
const REFUSED: Duration = Duration::from_millis(100);

fn accept_loop(shared: &Arc<Shared>, listener: &UnixListener, woken: &UnixStream) {
    let mut next = 0u32;
    while !shared.stop.load(Ordering::Acquire) {
        let mut fds = [
            PollFd::new(listener.as_fd(), PollFlags::POLLIN),
            PollFd::new(woken.as_fd(), PollFlags::POLLIN),
        ];
        if poll(&mut fds, PollTimeout::NONE).is_err() {
            continue;
        }
        match listener.accept() {
            Ok((stream, _)) => {
                next = next.wrapping_add(1);
                // Never 0, and recognizably none of an interface.
                let index = next | 0x8000_0000;
                if let Err(e) = admit(shared, stream, index) {
                    shared.complain(format_args!("a client cannot be served: {e}"));
                }
            }
            Err(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) => {}
            // Out of descriptors, say: do not turn at full speed until some are free.
            Err(_) => std::thread::sleep(REFUSED),
        }
    }
}

/// Starts a thread for a client.
fn admit(shared: &Arc<Shared>, stream: UnixStream, index: u32) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(shared.config.write_timeout))?;
    let mailbox = Arc::new(Mailbox::new()?);
    let mut clients = shared.clients();
    if clients.len() >= shared.config.max_clients {
        return Err(io::Error::other(format!(
            "all {} connections are taken",
            shared.config.max_clients
        )));
    }
    let handle = Client {
        stream: stream.try_clone()?,
        mailbox: mailbox.clone(),
    };
    let theirs = shared.clone();
    // The lock is held until the client is entered, so the thread cannot leave before that.
    Builder::new().name("parshall-api".into()).spawn(move || {
        let mut session = client::Session::new(&theirs, &stream, index, &mailbox);
        if let Err(why) = session.run() {
            theirs.complain(format_args!("client {}: {why}", session.name()));
        }
        theirs.clients().remove(&index);
    })?;
    clients.insert(index, handle);
    Ok(())
}
