//! The server side: a thread that accepts and one for each client. A client has one request under way
//! at a time, so memory is bounded by the number of clients; one that does not read its reply is
//! dropped. No thread here ever touches the router's state: requests go to its owner over a channel.

use crate::protocol::{MAX_LINE, WireReply, WireRequest};
use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;
use nix::unistd::{Uid, User};
use parshall_command::{Asking, Reply, Request, Waker};
use parshall_linux::{Service, SocketError, SocketServer, SocketServerConfig};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

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
    protocol: Protocol,
    requests: Sender<Request>,
    waker: Waker,
    stop: AtomicBool,
}

/// The running server. Dropping it stops it and removes the socket.
pub struct CliServer {
    shared: Arc<Shared>,
    server: SocketServer,
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
        let shared = Arc::new(Shared {
            protocol,
            requests,
            waker,
            stop: AtomicBool::new(false),
        });
        let config = SocketServerConfig {
            path: config.path,
            group: config.group,
            thread_name: "parshall-cli",
            max_clients: config.max_clients,
            write_timeout: config.write_timeout,
        };
        let server = SocketServer::start(config, shared.clone())?;
        Ok(CliServer { shared, server })
    }

    /// Where requests go, for a second socket.
    pub fn requests(&self) -> Sender<Request> {
        self.shared.requests.clone()
    }

    /// How many clients are connected.
    pub fn clients(&self) -> usize {
        self.server.clients()
    }

    /// Stops: no new clients, replies already given are still written (for up to a second), requests
    /// not yet answered fail, the socket is removed. The owner of the state may call this itself.
    pub fn stop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.server.finish(STOP_GRACE);
    }
}

impl Drop for CliServer {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Service for Shared {
    fn serve(&self, stream: &UnixStream, _: u64) {
        // Why a client went away is its own affair.
        let _ = match self.protocol {
            Protocol::Json => serve_client(self, stream),
            Protocol::Vppctl => {
                crate::vppctl::serve(stream, &|kind, line| ask(self, Request::new(kind, line)))
            }
        };
    }

    fn turn_away(&self, mut stream: &UnixStream, why: &str) {
        // The reply fits the socket's buffer, so this does not wait; if it fails the client is gone.
        let _ = match self.protocol {
            Protocol::Json => send(stream, None, Reply::Error(why.to_owned())),
            Protocol::Vppctl => stream.write_all(format!("{why}\r\n").as_bytes()),
        };
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
