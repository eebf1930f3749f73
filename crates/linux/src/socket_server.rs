//! A server of clients on a Unix socket: a thread that accepts and one for each client, so many at a time, and an orderly end.
//!
//! What is spoken is the [`Service`]'s affair.

use std::collections::HashMap;
use std::io;
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::socket_file::{SocketError, SocketFile};

/// How long to wait where the system refuses a client.
const REFUSED: Duration = Duration::from_millis(100);
/// Stack of a client's thread: enough for what it does, and so little that a storm of clients leaves nothing worth a huge page behind.
const STACK: usize = 512 << 10;
/// How often to look whether clients have ended.
const ENDED: Duration = Duration::from_millis(2);

/// How a server listens and what it bears.
#[derive(Clone, Debug)]
pub struct SocketServerConfig {
    /// The socket.
    pub path: PathBuf,
    /// Group that may connect, beside the owner.
    pub group: Option<String>,
    /// Name of its threads, at most 15 bytes.
    pub thread_name: &'static str,
    /// Clients at a time.
    pub max_clients: usize,
    /// How long a client may read nothing of what it is sent.
    pub write_timeout: Duration,
}

/// What is done for clients.
pub trait Service: Send + Sync + 'static {
    /// Serves a client until it goes; `number` is another for each.
    fn serve(&self, stream: &UnixStream, number: u64);
    /// Says to a client, or to whom it concerns, why it is not served; it is hung up on then. Must not wait.
    fn turn_away(&self, stream: &UnixStream, why: &str);
}

struct Client {
    stream: UnixStream,
    thread: Option<JoinHandle<()>>,
}

/// Those who are connected, by number.
type Clients = Mutex<HashMap<u64, Client>>;

struct Shared<S> {
    config: SocketServerConfig,
    service: Arc<S>,
    clients: Arc<Clients>,
}

fn lock(clients: &Clients) -> MutexGuard<'_, HashMap<u64, Client>> {
    clients.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The running server. Dropping it stops it, without waiting for its clients.
pub struct SocketServer {
    clients: Arc<Clients>,
    acceptor: Option<JoinHandle<()>>,
    /// Its closing ends the acceptor.
    wake: Option<UnixStream>,
    socket: Option<SocketFile>,
}

impl SocketServer {
    /// Starts listening.
    ///
    /// # Errors
    /// Why the socket cannot be opened or served.
    pub fn start<S: Service>(
        config: SocketServerConfig,
        service: Arc<S>,
    ) -> Result<SocketServer, SocketError> {
        let socket = SocketFile::bind(&config.path, config.group.as_deref())?;
        let system = |error| SocketError::Io {
            path: config.path.clone(),
            what: "cannot serve",
            error,
        };
        let listener = socket.listener.try_clone().map_err(system)?;
        listener.set_nonblocking(true).map_err(system)?;
        let (wake, woken) = UnixStream::pair().map_err(system)?;
        let clients: Arc<Clients> = Arc::default();
        let shared = Shared {
            config: config.clone(),
            service,
            clients: clients.clone(),
        };
        let acceptor = Builder::new()
            .name(config.thread_name.into())
            .spawn(move || accept_loop(&shared, &listener, &woken))
            .map_err(system)?;
        Ok(SocketServer {
            clients,
            acceptor: Some(acceptor),
            wake: Some(wake),
            socket: Some(socket),
        })
    }

    /// How many clients are connected.
    pub fn clients(&self) -> usize {
        lock(&self.clients).len()
    }

    /// Ends listening: no new clients, the socket is removed.
    pub fn close(&mut self) {
        self.socket = None;
        self.wake = None;
        if let Some(acceptor) = self.acceptor.take() {
            // A panic there has been printed already; stopping goes on.
            let _ = acceptor.join();
        }
    }

    /// Closes, and lets clients end: what they are being told is still written, for up to `grace`, then they are hung up on. Their
    /// threads have ended when this returns.
    pub fn finish(&mut self, grace: Duration) {
        self.close();
        let mut clients = lock(&self.clients);
        let threads = clients.values_mut().filter_map(|c| c.thread.take());
        let threads: Vec<JoinHandle<()>> = threads.collect();
        drop(clients);
        self.hang_up(Shutdown::Read);
        let deadline = Instant::now() + grace;
        while threads.iter().any(|t| !t.is_finished()) && Instant::now() < deadline {
            std::thread::sleep(ENDED);
        }
        self.hang_up(Shutdown::Both);
        for thread in threads {
            let _ = thread.join();
        }
    }

    /// Closes and hangs up on all clients; their threads end by themselves.
    pub fn abandon(&mut self) {
        self.close();
        self.hang_up(Shutdown::Both);
    }

    fn hang_up(&self, how: Shutdown) {
        for client in lock(&self.clients).values() {
            // Fails only if the client is gone, which is what is wanted.
            let _ = client.stream.shutdown(how);
        }
    }
}

impl Drop for SocketServer {
    fn drop(&mut self) {
        self.abandon();
    }
}

fn accept_loop<S: Service>(shared: &Shared<S>, listener: &UnixListener, woken: &UnixStream) {
    let mut number = 0u64;
    loop {
        let mut fds = [
            PollFd::new(listener.as_fd(), PollFlags::POLLIN),
            PollFd::new(woken.as_fd(), PollFlags::POLLIN),
        ];
        if poll(&mut fds, PollTimeout::NONE).is_err() {
            continue;
        }
        if fds[1].revents().is_some_and(|r| !r.is_empty()) {
            return;
        }
        match listener.accept() {
            Ok((stream, _)) => {
                number += 1;
                admit(shared, stream, number);
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

/// Takes a client off the list when its thread ends, however it does.
struct Entry(Arc<Clients>, u64);

impl Drop for Entry {
    fn drop(&mut self) {
        lock(&self.0).remove(&self.1);
    }
}

/// Starts a thread for a client, or has it turned away.
fn admit<S: Service>(shared: &Shared<S>, stream: UnixStream, number: u64) {
    let set_up = || -> io::Result<UnixStream> {
        stream.set_nonblocking(false)?;
        stream.set_write_timeout(Some(shared.config.write_timeout))?;
        stream.try_clone()
    };
    let handle = match set_up() {
        Ok(handle) => handle,
        Err(e) => return shared.service.turn_away(&stream, &e.to_string()),
    };
    let most = shared.config.max_clients;
    let mut clients = lock(&shared.clients);
    if clients.len() >= most {
        drop(clients);
        let why = format!("all {most} connections are taken");
        return shared.service.turn_away(&stream, &why);
    }
    let (service, list) = (shared.service.clone(), shared.clients.clone());
    let thread = Builder::new()
        .name(shared.config.thread_name.into())
        .stack_size(STACK)
        .spawn(move || {
            let _entry = Entry(list, number);
            service.serve(&stream, number);
        });
    // The lock is held until the client is entered, so the thread cannot leave before that.
    match thread {
        Ok(thread) => {
            let thread = Some(thread);
            let stream = handle;
            clients.insert(number, Client { stream, thread });
        }
        Err(e) => {
            drop(clients);
            shared.service.turn_away(&handle, &e.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    /// Says its number, then what it is told, until it is hung up on.
    struct Echo;

    impl Service for Echo {
        fn serve(&self, mut stream: &UnixStream, number: u64) {
            let mut bytes = [0; 64];
            let _ = stream.write_all(&[b'0' + number as u8]);
            while let Ok(n @ 1..) = stream.read(&mut bytes) {
                if bytes[0] == b'!' {
                    panic!("it was told to");
                }
                let _ = stream.write_all(&bytes[..n]);
            }
        }
        fn turn_away(&self, mut stream: &UnixStream, why: &str) {
            let _ = stream.write_all(why.as_bytes());
        }
    }

    fn server() -> (tempfile::TempDir, SocketServer) {
        let dir = tempfile::tempdir().expect("a folder");
        let config = SocketServerConfig {
            path: dir.path().join("s"),
            group: None,
            thread_name: "test",
            max_clients: 2,
            write_timeout: Duration::from_secs(10),
        };
        let server = SocketServer::start(config, Arc::new(Echo)).expect("listening");
        (dir, server)
    }

    fn client(dir: &tempfile::TempDir) -> UnixStream {
        let c = UnixStream::connect(dir.path().join("s")).expect("connected");
        c.set_read_timeout(Some(Duration::from_secs(20)))
            .expect("set");
        c
    }

    fn read(c: &mut UnixStream) -> String {
        let mut bytes = [0; 64];
        let n = c.read(&mut bytes).expect("an answer");
        String::from_utf8_lossy(&bytes[..n]).into_owned()
    }

    fn until(server: &SocketServer, clients: usize) {
        let end = Instant::now() + Duration::from_secs(20);
        while server.clients() != clients {
            assert!(Instant::now() < end, "{} clients", server.clients());
            std::thread::sleep(ENDED);
        }
    }

    #[test]
    fn clients_are_served_turned_away_and_forgotten() {
        let (dir, mut server) = server();
        let (mut a, mut b) = (client(&dir), client(&dir));
        assert_eq!((read(&mut a), read(&mut b)), ("1".into(), "2".into()));
        assert_eq!(read(&mut client(&dir)), "all 2 connections are taken");
        drop(a);
        until(&server, 1);
        // One whose thread panics makes room as well.
        b.write_all(b"!").expect("sent");
        until(&server, 0);
        let mut c = client(&dir);
        assert_eq!(read(&mut c), "4");
        server.finish(Duration::from_secs(1));
        assert_eq!((read(&mut c).as_str(), server.clients()), ("", 0));
        assert!(!dir.path().join("s").exists());
    }

    #[test]
    fn what_is_dropped_hangs_up() {
        let (dir, server) = server();
        let mut c = client(&dir);
        assert_eq!(read(&mut c), "1");
        drop(server);
        assert_eq!(read(&mut c), "");
        assert!(UnixStream::connect(dir.path().join("s")).is_err());
    }
}
