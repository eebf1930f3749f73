//! The server side: a thread that accepts and one for each client. A client has one request under way
//! at a time, so memory is bounded by the number of clients; one that does not read its reply is
//! dropped. No thread here ever touches the router's state: requests go to its owner over a channel.

use crate::protocol::{MAX_LINE, WireReply, WireRequest};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;
use nix::unistd::{Uid, User};
use parshall_command::{Asking, Reply, Request, Waker};
use parshall_linux::{SocketError, SocketFile};
use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// How the server listens and what it bears.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// The socket.
    pub path: PathBuf,
    /// Group that may give commands, beside the owner.
    pub group: Option<String>,
    /// Clients at a time.
    pub max_clients: usize,
    /// How long a client may read nothing of a reply before it is dropped.
    pub write_timeout: Duration,
}

impl ServerConfig {
    /// The usual limits (64 clients, 10 seconds) on `path`.
    pub fn new(path: impl Into<PathBuf>, group: Option<String>) -> ServerConfig {
        ServerConfig {
            path: path.into(),
            group,
            max_clients: 64,
            write_timeout: Duration::from_secs(10),
        }
    }
}

/// What is spoken on a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Lines of JSON, as in [`crate::protocol`].
    Json,
    /// What VPP's `vppctl` speaks, as in [`crate::vppctl`].
    Vppctl,
}

/// How often a thread that waits for a reply looks whether the server stops.
const STOP_POLL: Duration = Duration::from_millis(100);
/// How long stopping waits for replies on their way out.
const STOP_GRACE: Duration = Duration::from_secs(1);

/// What all threads of the server share.
struct Shared {
    config: ServerConfig,
    protocol: Protocol,
    requests: Sender<Request>,
    waker: Waker,
    stop: AtomicBool,
    clients: Mutex<HashMap<u64, Client>>,
}

struct Client {
    stream: UnixStream,
    thread: Option<JoinHandle<()>>,
}

impl Shared {
    fn clients(&self) -> MutexGuard<'_, HashMap<u64, Client>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The running server. Dropping it stops it and removes the socket.
pub struct CliServer {
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
    /// Its closing wakes the acceptor.
    wake: Option<UnixStream>,
    socket: Option<SocketFile>,
}

impl CliServer {
    /// Starts listening. Each request arrives at the receiver, after which `waker` is called (from a
    /// thread of the server); the owner answers with [`Request::serve`].
    ///
    /// # Errors
    /// Why the socket cannot be opened.
    pub fn start(
        config: ServerConfig,
        waker: Waker,
    ) -> Result<(CliServer, Receiver<Request>), SocketError> {
        let (requests, receiver) = channel();
        let server = CliServer::listen(config, Protocol::Json, requests, waker)?;
        Ok((server, receiver))
    }

    /// Starts listening for clients of either protocol, whose requests go where others' go already.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn listen(
        config: ServerConfig,
        protocol: Protocol,
        requests: Sender<Request>,
        waker: Waker,
    ) -> Result<CliServer, SocketError> {
        let socket = SocketFile::bind(&config.path, config.group.as_deref())?;
        let system = |error| SocketError::Io {
            path: config.path.clone(),
            what: "cannot serve",
            error,
        };
        let listener = socket.listener.try_clone().map_err(system)?;
        listener.set_nonblocking(true).map_err(system)?;
        let (wake, woken) = UnixStream::pair().map_err(system)?;
        let shared = Arc::new(Shared {
            config: config.clone(),
            protocol,
            requests,
            waker,
            stop: AtomicBool::new(false),
            clients: Mutex::default(),
        });
        let theirs = shared.clone();
        let acceptor = Builder::new()
            .name("parshall-cli".into())
            .spawn(move || accept_loop(&theirs, &listener, &woken))
            .map_err(system)?;
        Ok(CliServer {
            shared,
            acceptor: Some(acceptor),
            wake: Some(wake),
            socket: Some(socket),
        })
    }

    /// Where requests go, for a second socket.
    pub fn requests(&self) -> Sender<Request> {
        self.shared.requests.clone()
    }

    /// How many clients are connected.
    pub fn clients(&self) -> usize {
        self.shared.clients().len()
    }

    /// Stops: no new clients, replies already given are still written (for up to a second), requests
    /// not yet answered fail, the socket is removed. The owner of the state may call this itself.
    pub fn stop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.socket = None;
        self.wake = None;
        if let Some(acceptor) = self.acceptor.take() {
            // A panic there has been printed already; stopping goes on.
            let _ = acceptor.join();
        }
        let threads: Vec<JoinHandle<()>> = self
            .shared
            .clients()
            .values_mut()
            .filter_map(|c| c.thread.take())
            .collect();
        self.hang_up(Shutdown::Read);
        let deadline = Instant::now() + STOP_GRACE;
        while threads.iter().any(|t| !t.is_finished()) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(2));
        }
        self.hang_up(Shutdown::Both);
        for thread in threads {
            let _ = thread.join();
        }
    }

    fn hang_up(&self, how: Shutdown) {
        for client in self.shared.clients().values() {
            // Fails only if the client is gone, which is what is wanted.
            let _ = client.stream.shutdown(how);
        }
    }
}

impl Drop for CliServer {
    fn drop(&mut self) {
        self.stop();
    }
}

fn accept_loop(
    shared: &Arc<Shared>,
    listener: &std::os::unix::net::UnixListener,
    woken: &UnixStream,
) {
    let mut next_id = 0u64;
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
                next_id += 1;
                admit(shared, stream, next_id);
            }
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) => {}
            // Out of descriptors, say: do not turn at full speed until some are free.
            Err(_) => std::thread::sleep(STOP_POLL),
        }
    }
}

/// Starts a thread for a client, or tells it why not.
fn admit(shared: &Arc<Shared>, stream: UnixStream, id: u64) {
    let limit = shared.config.max_clients;
    let set_up = || -> io::Result<UnixStream> {
        stream.set_nonblocking(false)?;
        stream.set_write_timeout(Some(shared.config.write_timeout))?;
        stream.try_clone()
    };
    let Ok(handle) = set_up() else { return };
    let mut clients = shared.clients();
    if clients.len() >= limit {
        drop(clients);
        // The reply fits the socket's buffer, so this does not wait; if it fails the client is gone.
        let why = format!("all {limit} connections are taken");
        let _ = match shared.protocol {
            Protocol::Json => send(&stream, None, Reply::Error(why)),
            Protocol::Vppctl => (&stream).write_all(format!("{why}\r\n").as_bytes()),
        };
        return;
    }
    let theirs = shared.clone();
    let thread = Builder::new().name("parshall-cli".into()).spawn(move || {
        // Why a client went away is its own affair.
        let _ = match theirs.protocol {
            Protocol::Json => serve_client(&theirs, &stream),
            Protocol::Vppctl => crate::vppctl::serve(&stream, &|kind, line| {
                ask(&theirs, Request::new(kind, line))
            }),
        };
        theirs.clients().remove(&id);
    });
    // The lock is held until the client is entered, so the thread cannot leave before that.
    if let Ok(thread) = thread {
        clients.insert(
            id,
            Client {
                stream: handle,
                thread: Some(thread),
            },
        );
    }
}

/// Who is at the other end, as the kernel knows.
fn user(stream: &UnixStream) -> Option<String> {
    let uid = getsockopt(stream, PeerCredentials).ok()?.uid();
    let user = User::from_uid(Uid::from_raw(uid)).ok().flatten();
    Some(user.map_or_else(|| format!("uid {uid}"), |u| u.name))
}

fn serve_client(shared: &Shared, stream: &UnixStream) -> io::Result<()> {
    let mut reader = BufReader::new(stream);
    let who = user(stream);
    while let Some(line) = read_line(&mut reader)? {
        let Some(line) = line else {
            return send(
                stream,
                None,
                Reply::Error(format!("a request is longer than {MAX_LINE} bytes")),
            );
        };
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        match serde_json::from_slice::<WireRequest>(&line) {
            Err(error) => send(
                stream,
                None,
                Reply::Error(format!("not a request: {error}")),
            )?,
            Ok(mut wire) => {
                let id = wire.id.take();
                let asking = Asking {
                    who: who.clone(),
                    input: wire.input.take(),
                };
                let reply = match wire.question() {
                    Err(error) => Reply::Error(error),
                    Ok((kind, line)) => {
                        let (request, answer) = Request::new(kind, line);
                        ask(shared, (request.asked_by(asking), answer))
                    }
                };
                send(stream, id, reply)?;
            }
        }
    }
    Ok(())
}

/// The next line without its end; `None` at the end of the stream, `Some(None)` if it is too long.
fn read_line(reader: &mut impl BufRead) -> io::Result<Option<Option<Vec<u8>>>> {
    let mut line = Vec::new();
    reader
        .take(MAX_LINE as u64 + 1)
        .read_until(b'\n', &mut line)?;
    match line.pop() {
        None => Ok(None),
        Some(b'\n') => Ok(Some(Some(line))),
        Some(_) if line.len() == MAX_LINE => Ok(Some(None)),
        // Half a request: the client died while it wrote.
        Some(_) => Ok(None),
    }
}

/// Puts a question to the owner of the state and waits for the answer, or for the server to stop.
fn ask(shared: &Shared, (request, answer): (Request, Receiver<Reply>)) -> Reply {
    let stopping = || Reply::Error("the router is shutting down".to_owned());
    if shared.requests.send(request).is_err() {
        return stopping();
    }
    (shared.waker)();
    loop {
        match answer.recv_timeout(STOP_POLL) {
            Ok(reply) => return reply,
            Err(RecvTimeoutError::Disconnected) => return stopping(),
            Err(RecvTimeoutError::Timeout) if shared.stop.load(Ordering::Acquire) => {
                return stopping();
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

fn send(mut stream: &UnixStream, id: Option<serde_json::Value>, reply: Reply) -> io::Result<()> {
    let mut line = serde_json::to_vec(&WireReply::new(id, reply))?;
    line.push(b'\n');
    stream.write_all(&line)
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
