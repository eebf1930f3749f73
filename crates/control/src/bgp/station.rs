//! The BMP station: routers connect and tell of their sessions (RFC 7854 section 3).
//!
//! One thread listens, one serves each router. A router that is lost, or ends its stream, takes its routes along: what is
//! not confirmed is not true. Every table of every peer is a source of its own.

use std::collections::HashMap;
use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::socket::{setsockopt, sockopt};
use parshall_bgp::bmp::{MAX_MESSAGE, Message, PeerHeader, Table, frame};
use parshall_bgp::update::{self, Dialect, Update};
use parshall_bgp::{BgpError, PathBuilder};

use super::feed::{Progress, spawn};
use super::{BgpShared, Change, Rank, SourceId, TableFull};

/// Most routers connected at a time.
const MAX_ROUTERS: usize = 64;
/// Most peers of a router, each of its tables counted.
const MAX_PEERS: usize = 4096;
/// Bytes asked for at a time.
const READ: usize = 64 << 10;

/// Ends what waits for its other end.
pub(super) struct Waker(Arc<EventFd>);

impl Waker {
    /// For good: the event is never taken back.
    pub fn wake(&self) {
        // It fails only when the count is full, and then it is awake.
        let _ = self.0.write(1);
    }
}

/// A waker and what to wait for.
pub(super) fn waker() -> nix::Result<(Waker, Arc<EventFd>)> {
    let event = EventFd::from_value_and_flags(0, EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?;
    let event = Arc::new(event);
    Ok((Waker(event.clone()), event))
}

/// Waits until there is something to read; `false` when it is time to end.
fn wait(fd: impl AsFd, wake: &EventFd) -> bool {
    let mut fds = [
        PollFd::new(fd.as_fd(), PollFlags::POLLIN),
        PollFd::new(wake.as_fd(), PollFlags::POLLIN),
    ];
    loop {
        match poll(&mut fds, PollTimeout::NONE) {
            Err(nix::errno::Errno::EINTR) => {}
            Err(_) => return false,
            Ok(_) => return fds[1].revents().is_none_or(|r| r.is_empty()),
        }
    }
}

/// Takes routers in until it is woken.
pub(super) fn serve(
    listener: &TcpListener,
    wake: &Arc<EventFd>,
    shared: &Arc<BgpShared>,
    progress: &Arc<Progress>,
) {
    let connected = Arc::new(AtomicUsize::new(0));
    while wait(listener, wake) {
        let (stream, from) = match listener.accept() {
            Ok(accepted) => accepted,
            Err(e) => {
                progress.error(format!("a router could not be taken in: {e}"));
                // Such as no descriptor left: not to be tried again at once.
                std::thread::sleep(std::time::Duration::from_millis(100));
                continue;
            }
        };
        if connected.load(Ordering::Relaxed) >= MAX_ROUTERS {
            progress.error(format!(
                "{from} was turned away: {MAX_ROUTERS} routers are connected"
            ));
            continue;
        }
        connected.fetch_add(1, Ordering::Relaxed);
        let (wake, count) = (wake.clone(), connected.clone());
        let (shared, progress) = (shared.clone(), progress.clone());
        let refused = progress.clone();
        let session = spawn("parshall-bmp", move || {
            Session::new(from, shared, progress).run(stream, &wake);
            count.fetch_sub(1, Ordering::Relaxed);
        });
        if let Err(e) = session {
            connected.fetch_sub(1, Ordering::Relaxed);
            refused.error(e);
        }
    }
}

/// A router that is connected.
struct Session {
    shared: Arc<BgpShared>,
    progress: Arc<Progress>,
    /// As it is listed.
    name: String,
    peers: HashMap<PeerHeader, Monitored>,
    builder: PathBuilder,
    changes: Vec<Change>,
}

/// A table of a peer.
#[derive(Clone, Copy)]
struct Monitored {
    source: SourceId,
    dialect: Dialect,
    /// AS of the router's own end of the session.
    own: Option<u32>,
}

impl Session {
    fn new(from: SocketAddr, shared: Arc<BgpShared>, progress: Arc<Progress>) -> Session {
        let name = from.to_string();
        progress.status().routers.push(name.clone());
        Session {
            shared,
            progress,
            name,
            peers: HashMap::new(),
            builder: PathBuilder::default(),
            changes: Vec::new(),
        }
    }

    fn run(mut self, stream: TcpStream, wake: &EventFd) {
        watch(&stream);
        if let Err(e) = self.read(stream, wake) {
            self.progress.error(format!("{}: {e}", self.name));
        }
        self.progress.status().routers.retain(|r| *r != self.name);
        let peers: Vec<PeerHeader> = self.peers.keys().copied().collect();
        peers.iter().for_each(|p| self.end(p));
    }

    /// Reads messages until the stream ends or makes no sense any more.
    fn read(&mut self, mut stream: TcpStream, wake: &EventFd) -> Result<(), String> {
        let (mut buffer, mut filled) = (vec![0; READ], 0);
        while wait(&stream, wake) {
            if filled == buffer.len() {
                // A message that is longer than the buffer; `frame` has checked how much longer.
                buffer.resize((buffer.len() * 2).min(MAX_MESSAGE + READ), 0);
            }
            match stream.read(&mut buffer[filled..]) {
                Ok(0) => return Ok(()),
                Ok(n) => filled += n,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(e.to_string()),
            }
            let mut at = 0;
            while let Some(n) = frame(&buffer[at..filled]).map_err(|e| e.to_string())? {
                let Some(message) = buffer[at..filled].get(..n) else {
                    break;
                };
                at += n;
                let ends = self.message(message);
                let mut status = self.progress.status();
                status.read += 1;
                match ends {
                    Ok(true) => return Ok(()),
                    Ok(false) => {}
                    Err(e) => {
                        status.skipped += 1;
                        status.last_error = Some(format!("{}: {e}", self.name));
                    }
                }
            }
            buffer.copy_within(at..filled, 0);
            filled -= at;
        }
        Ok(())
    }

    /// Takes in a message; `true` when it is the last one.
    fn message(&mut self, bytes: &[u8]) -> Result<bool, BgpError> {
        match Message::parse(bytes)? {
            Message::RouteMonitoring(peer, body) => self.routes(&peer, body)?,
            Message::PeerUp(peer, dialect, own) => {
                // What was heard before is void (RFC 7854 section 4.10).
                self.end_session(&peer);
                self.peer(&peer, dialect, own)?;
            }
            Message::PeerDown(peer) => {
                self.end_session(&peer);
            }
            Message::Initiation(Some(name)) => {
                let name = String::from_utf8_lossy(&name[..name.len().min(64)]).into_owned();
                let mut status = self.progress.status();
                if let Some(r) = status.routers.iter_mut().find(|r| **r == self.name) {
                    let clean: String = name.chars().filter(|c| !c.is_control()).collect();
                    *r = format!("{} ({clean})", self.name);
                    self.name.clone_from(r);
                }
            }
            Message::Termination => return Ok(true),
            Message::Initiation(None) | Message::Other(_) => {}
        }
        Ok(false)
    }

    /// The source that the routes of a table are under.
    fn peer(
        &mut self,
        peer: &PeerHeader,
        dialect: Dialect,
        own: Option<u32>,
    ) -> Result<Monitored, BgpError> {
        let full = BgpError::Limit {
            what: "peers of a BMP session",
            count: self.peers.len(),
            limit: MAX_PEERS,
        };
        if self.peers.len() >= MAX_PEERS {
            return Err(full);
        }
        let table = match peer.table {
            Table::LocRib => "loc-rib".to_owned(),
            Table::PostPolicy => format!("{} AS {} post-policy", peer.peer.address, peer.peer.asn),
            _ => format!("{} AS {} pre-policy", peer.peer.address, peer.peer.asn),
        };
        let name = format!("bmp {} {table}", self.name);
        let source = self.shared.add_source(name).ok_or(full)?;
        self.progress.status().sources.push(source);
        let monitored = Monitored {
            source,
            dialect,
            own,
        };
        self.peers.insert(*peer, monitored);
        Ok(monitored)
    }

    fn routes(&mut self, peer: &PeerHeader, body: &[u8]) -> Result<(), BgpError> {
        // What the router tells others is not where its packets go; other instances have other packets.
        if peer.table == Table::AdjRibOut || peer.distinguisher != 0 {
            return Ok(());
        }
        let monitored = match self.peers.get(peer) {
            Some(m) => *m,
            // The table after the policy has no notification of its own: as the one before it is read, so is this.
            None => {
                let (dialect, own) = self.known_dialect(peer);
                self.peer(peer, dialect, own)?
            }
        };
        let update = Update::parse(body, monitored.dialect, &mut self.builder)?;
        for change in update.changes() {
            self.changes.push(match change {
                update::Change::Announce(net, id, path) => {
                    // FRR puts the router's own AS in front of what it has heard. From another AS nobody hears that:
                    // it would be a loop.
                    let foreign = monitored.own.filter(|own| *own != peer.peer.asn);
                    let heard = foreign.and_then(|own| path.without_leading(own));
                    Change::Announce(net, id, heard.unwrap_or_else(|| path.clone()))
                }
                update::Change::Withdraw(net, id) => Change::Withdraw(net, id),
            });
        }
        let rank = match peer.table {
            Table::LocRib => Rank::LocRib,
            Table::PostPolicy => Rank::PostPolicy,
            _ => Rank::PrePolicy,
        };
        let refused = self.shared.apply(monitored.source, rank, &mut self.changes);
        if refused > 0 {
            let full = TableFull(self.shared.table().size().limit);
            let mut status = self.progress.status();
            status.refused += refused;
            status.last_error = Some(full.to_string());
        }
        update.fault().map_or(Ok(()), Err)
    }

    fn known_dialect(&self, peer: &PeerHeader) -> (Dialect, Option<u32>) {
        let same = |p: &&PeerHeader| p.peer == peer.peer && p.as2 == peer.as2;
        let known = self.peers.iter().find(|(p, _)| same(p));
        let usual = Dialect {
            as4: !peer.as2,
            ..Dialect::default()
        };
        known.map_or((usual, None), |(_, m)| (m.dialect, m.own))
    }

    /// A session of the router is up or down: what was heard on it before, in whichever table, counts no more.
    fn end_session(&mut self, of: &PeerHeader) {
        let same = |p: &&PeerHeader| {
            let local = (p.table == Table::LocRib, of.table == Table::LocRib);
            (p.peer, p.distinguisher, local.0) == (of.peer, of.distinguisher, local.1)
        };
        let gone: Vec<PeerHeader> = self.peers.keys().filter(same).copied().collect();
        gone.iter().for_each(|p| self.end(p));
    }

    /// A table is no longer there.
    fn end(&mut self, peer: &PeerHeader) {
        if let Some(m) = self.peers.remove(peer) {
            self.progress.status().sources.retain(|s| *s != m.source);
            self.shared.remove_source(m.source);
        }
    }
}

/// Lets the kernel find out that a router is gone without a word, within about two minutes.
fn watch(stream: &TcpStream) {
    // A kernel that refuses leaves it at what it does by itself.
    let _ = setsockopt(stream, sockopt::KeepAlive, &true);
    let _ = setsockopt(stream, sockopt::TcpKeepIdle, &60);
    let _ = setsockopt(stream, sockopt::TcpKeepInterval, &15);
    let _ = setsockopt(stream, sockopt::TcpKeepCount, &4);
}
