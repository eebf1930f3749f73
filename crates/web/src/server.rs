//! The server: its listeners, its one thread, and the limits on connections.
//!
//! Who holds connections open without asking anything loses them after seconds, and no address may hold more than half
//! of them, so a hostile client cannot keep others out.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use parshall_control::Asker;
use parshall_linux::{SocketError, SocketFile};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Semaphore, oneshot};

use crate::access::{Origin, Rules, Token};
use crate::app::App;
use crate::connection::Server;

/// How the server listens and whom it serves.
#[derive(Clone, Debug, Default)]
pub struct HttpConfig {
    /// Address and port to listen on.
    pub listen: Option<SocketAddr>,
    /// UNIX socket to listen on.
    pub socket: Option<PathBuf>,
    /// Group that may open the socket, beside the owner.
    pub group: Option<String>,
    /// The token that TCP clients show, if one is asked for.
    pub token: Option<Token>,
    /// Whether commands are served.
    pub commands: bool,
}

/// Connections at a time.
pub const MAX_CONNECTIONS: usize = 128;
/// Of those, connections of one address.
pub const MAX_OF_ONE: usize = MAX_CONNECTIONS / 2;
/// How long the head of a request may take, and a connection may be idle.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// How long a connection may last.
const CONNECTION_TIME: Duration = Duration::from_secs(120);
/// Bytes of a request's head.
const MAX_HEAD: usize = 16 << 10;
/// Headers of a request.
const MAX_HEADERS: usize = 64;
/// Requests that may wait for the router at once.
const MAX_WAITING: usize = 4;
/// How long stopping waits for answers under way.
const STOP_TIME: Duration = Duration::from_millis(500);

/// Why the server cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The address cannot be listened on.
    #[error("http.listen {address}: {error}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        error: io::Error,
    },
    /// The socket cannot be opened.
    #[error("http.socket: {0}")]
    Socket(#[from] SocketError),
    /// The thread or its descriptors are refused.
    #[error("cannot serve HTTP: {0}")]
    System(#[from] io::Error),
}

/// The running server. Dropping it stops it and removes its socket.
pub struct HttpServer {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    socket: Option<SocketFile>,
    address: Option<SocketAddr>,
}

impl HttpServer {
    /// Starts listening. The thread inherits the CPUs of the caller's, so this is called by control.
    ///
    /// # Errors
    /// Why it cannot listen.
    pub fn start(config: HttpConfig, asker: Asker) -> Result<HttpServer, HttpError> {
        let rules = Rules {
            token: config.token,
            commands: config.commands,
        };
        let server = Server {
            app: Arc::new(App::new(asker, rules)),
            waiting: Arc::new(Semaphore::new(MAX_WAITING)),
        };
        let tcp = config.listen.map(listen).transpose()?;
        let address = tcp.as_ref().map(TcpListener::local_addr).transpose()?;
        let group = config.group.as_deref();
        let socket = config
            .socket
            .map(|p| SocketFile::bind(&p, group))
            .transpose()?;
        let unix = socket
            .as_ref()
            .map(|s| s.listener.try_clone())
            .transpose()?;
        if let Some(unix) = &unix {
            unix.set_nonblocking(true)?;
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(MAX_WAITING)
            .thread_name("parshall-http")
            .build()?;
        let (stop, stopped) = oneshot::channel();
        let thread = Builder::new().name("parshall-http".into()).spawn(move || {
            runtime.block_on(async {
                let places = Arc::new(Places::default());
                if let Some(Err(e)) = tcp.map(|l| accept_tcp(l, server.clone(), places.clone())) {
                    tracing::error!("cannot serve HTTP: {e}");
                }
                if let Some(Err(e)) = unix.map(|l| accept_unix(l, server, places)) {
                    tracing::error!("cannot serve HTTP: {e}");
                }
                // Ends when the server is stopped or dropped.
                let _ = stopped.await;
            });
            runtime.shutdown_timeout(STOP_TIME);
        })?;
        Ok(HttpServer {
            stop: Some(stop),
            thread: Some(thread),
            socket,
            address,
        })
    }

    /// The TCP address that is listened on, with the port that was chosen.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Stops: connections are closed, the socket is removed.
    pub fn stop(&mut self) {
        self.socket = None;
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // A panic there has been printed already; stopping goes on.
            let _ = thread.join();
        }
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.stop();
    }
}

fn listen(address: SocketAddr) -> Result<TcpListener, HttpError> {
    let bound = TcpListener::bind(address).and_then(|l| l.set_nonblocking(true).map(|()| l));
    bound.map_err(|error| HttpError::Listen { address, error })
}

/// Who has connections: by address, `None` for the UNIX socket.
#[derive(Default)]
struct Places(Mutex<HashMap<Option<IpAddr>, usize>>);

/// A connection's place; given back when dropped.
struct Place {
    places: Arc<Places>,
    of: Option<IpAddr>,
}

impl Places {
    /// A place, if one is left for this address.
    fn take(self: &Arc<Places>, of: Option<IpAddr>) -> Option<Place> {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let all: usize = taken.values().sum();
        let own = taken.entry(of).or_insert(0);
        if *own >= MAX_OF_ONE || all >= MAX_CONNECTIONS {
            return None;
        }
        *own += 1;
        Some(Place {
            places: self.clone(),
            of,
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(n) = taken.get_mut(&self.of) {
            *n = n.saturating_sub(1);
        }
        // Addresses without a connection are not remembered.
        taken.retain(|_, n| *n > 0);
    }
}

fn accept_tcp(listener: TcpListener, server: Server, places: Arc<Places>) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    tokio::spawn(async move {
        loop {
            let (stream, peer) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(_) => {
                    rest().await;
                    continue;
                }
            };
            // One too many is closed at once.
            if let Some(place) = places.take(Some(peer.ip())) {
                let loopback = stream.local_addr().is_ok_and(|a| a.ip().is_loopback());
                tokio::spawn(serve(
                    stream,
                    Origin::Tcp { loopback },
                    server.clone(),
                    place,
                ));
            }
        }
    });
    Ok(())
}

fn accept_unix(
    listener: std::os::unix::net::UnixListener,
    server: Server,
    places: Arc<Places>,
) -> io::Result<()> {
    let listener = tokio::net::UnixListener::from_std(listener)?;
    tokio::spawn(async move {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    if let Some(place) = places.take(None) {
                        tokio::spawn(serve(stream, Origin::Unix, server.clone(), place));
                    }
                }
                Err(_) => rest().await,
            }
        }
    });
    Ok(())
}

/// Out of descriptors, say: do not turn at full speed until some are free.
async fn rest() {
    tokio::time::sleep(Duration::from_millis(100)).await;
}

async fn serve<S>(stream: S, origin: Origin, server: Server, _place: Place)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request| {
        let server = server.clone();
        async move { Ok::<_, Infallible>(server.serve(origin, request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(MAX_HEAD)
        .max_headers(MAX_HEADERS)
        .serve_connection(TokioIo::new(stream), service);
    // Why a client went away, or that it was too slow, is its own affair.
    let _ = tokio::time::timeout(CONNECTION_TIME, connection).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_has_half_of_the_places() {
        let places = Arc::new(Places::default());
        let a = Some(IpAddr::from([192, 0, 2, 1]));
        let mut held: Vec<Place> = std::iter::from_fn(|| places.take(a)).collect();
        assert_eq!(held.len(), MAX_OF_ONE);
        held.extend(std::iter::from_fn(|| places.take(None)));
        assert_eq!(held.len(), MAX_CONNECTIONS);
        assert!(places.take(Some([192, 0, 2, 2].into())).is_none());
        drop(held);
        assert!(places.0.lock().unwrap().is_empty());
        assert!(places.take(a).is_some());
    }
}
