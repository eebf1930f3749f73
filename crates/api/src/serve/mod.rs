//! The server: a thread that accepts, one for each client, and one that looks for events while somebody wants them.
//!
//! A client has one request in the router at a time and its answer is written before the next is read, so what it can take is bounded: a
//! message and an answer. One that does not read its answers, never introduces itself or sends no frames is sent away.

mod client;
mod events;
mod neighbors;

use std::collections::HashMap;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

use parshall_control::Asker;
use parshall_linux::{Service, SocketError, SocketServer, SocketServerConfig};

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
    /// Where clients are told events.
    mailboxes: Mutex<HashMap<u32, Arc<Mailbox>>>,
    limiter: Limiter,
    /// Milliseconds between two looks at what bridge domains learned.
    scan_delay: AtomicU32,
    /// Neighbours as they were last seen.
    neighbors: Mutex<neighbors::Neighbors>,
    /// A client has left since freed memory was given back.
    left: AtomicBool,
}

impl Shared {
    fn mailboxes(&self) -> MutexGuard<'_, HashMap<u32, Arc<Mailbox>>> {
        self.mailboxes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn neighbors(&self) -> MutexGuard<'_, neighbors::Neighbors> {
        self.neighbors
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
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

impl Service for Shared {
    fn serve(&self, stream: &UnixStream, number: u64) {
        let mailbox = match Mailbox::new() {
            Ok(mailbox) => Arc::new(mailbox),
            Err(e) => return self.turn_away(stream, &e.to_string()),
        };
        // Never 0, and recognizably none of an interface.
        let index = (number & 0x7FFF_FFFF) as u32 | 0x8000_0000;
        self.mailboxes().insert(index, mailbox.clone());
        let _entry = Entry(self, index);
        let mut session = client::Session::new(self, stream, index, &mailbox);
        if let Err(why) = session.run() {
            self.complain(format_args!("client {}: {why}", session.name()));
        }
    }

    fn turn_away(&self, _: &UnixStream, why: &str) {
        self.complain(format_args!("a client cannot be served: {why}"));
    }
}

/// Takes a client's mailbox off the list, however its thread ends.
struct Entry<'s>(&'s Shared, u32);

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        self.0.mailboxes().remove(&self.1);
        self.0.left.store(true, Ordering::Release);
    }
}

/// How often the thread that attends to clients looks around.
const PERIOD: Duration = Duration::from_millis(50);
/// Time between two times that freed memory is given back.
const GIVE_BACK: Duration = Duration::from_secs(1);

/// Looks for events while clients want them, and gives back what those who left had taken: the allocator keeps it for threads that are
/// no more. Ends with the server or the router.
fn attend(shared: &Shared) {
    let mut watch = events::Watch::default();
    let mut given_back = Instant::now();
    while !shared.stop.load(Ordering::Acquire) {
        std::thread::sleep(PERIOD);
        if watch.turn(shared).is_none() || neighbors::turn(shared).is_none() {
            return;
        }
        if given_back.elapsed() >= GIVE_BACK && shared.left.swap(false, Ordering::AcqRel) {
            parshall_linux::memory::give_back();
            given_back = Instant::now();
        }
    }
}

/// The running server. Dropping it stops it and removes the socket.
pub struct ApiServer {
    shared: Arc<Shared>,
    server: SocketServer,
}

impl ApiServer {
    /// Starts listening; requests go to the router through `asker`.
    ///
    /// # Errors
    /// Why the socket cannot be opened.
    pub fn start(config: ApiConfig, asker: Asker) -> Result<ApiServer, SocketError> {
        // Messages and answers of a megabyte come in a hundred threads at once: they must not leave a hundred heaps behind.
        parshall_linux::memory::keep_little();
        let shared = Arc::new(Shared {
            config: config.clone(),
            asker,
            registry: handlers::all(),
            json: OnceLock::new(),
            stop: AtomicBool::new(false),
            mailboxes: Mutex::default(),
            limiter: Limiter::default(),
            scan_delay: AtomicU32::new(events::SCAN_DELAY),
            neighbors: Mutex::default(),
            left: AtomicBool::new(false),
        });
        let listening = SocketServerConfig {
            path: config.path.clone(),
            group: config.group,
            thread_name: "parshall-api",
            max_clients: config.max_clients,
            write_timeout: config.write_timeout,
        };
        let server = SocketServer::start(listening, shared.clone())?;
        let theirs = shared.clone();
        // Ends by itself: it may wait for a router that has ended, so it is not waited for.
        Builder::new()
            .name("parshall-apiev".into())
            .spawn(move || attend(&theirs))
            .map_err(|error| SocketError::Io {
                path: config.path,
                what: "cannot serve",
                error,
            })?;
        Ok(ApiServer { shared, server })
    }

    /// How many clients are connected.
    pub fn clients(&self) -> usize {
        self.server.clients()
    }

    /// Stops: no new clients, those there are hung up, the socket is removed. Requests that wait for the router end with it.
    pub fn stop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.server.abandon();
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        self.stop();
    }
}
