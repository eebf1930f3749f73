//! The control thread of memif: sockets, connections and their retries.
//!
//! One thread for all memif interfaces of a router. It alone speaks to peers; workers only ever meet rings
//! that it has put in place. It never waits for a peer: sockets do not block, and a peer that does not
//! finish its greeting in time is cut off.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use parshall_device::DeviceError;

use super::channel::{Channel, Incoming, Listener};
use super::link::Link;
use super::message::{Init, Message};
use super::session::{End, Session};
use super::{Role, signal};

/// How long a slave waits before it tries again.
const RETRY: Duration = Duration::from_millis(250);
/// How long a peer may take from connecting to traffic.
const GREETING: Duration = Duration::from_secs(5);
/// How often memory and workers' complaints are looked at without being told.
const LOOK: Duration = Duration::from_millis(500);
/// Slaves of one socket that have not said yet what they want.
const STRANGERS: usize = 64;
/// Messages taken from one peer before the others have their turn.
const TURN: usize = 32;

type Answer = Sender<Result<(), DeviceError>>;

enum Command {
    Add(Arc<Link>, Answer),
    /// Brings an interface up or down.
    Admin(Arc<Link>, bool, Answer),
    Remove(Arc<Link>, Answer),
}

/// The control thread, as whoever makes interfaces holds it. It ends with the last of its clones.
#[derive(Clone)]
pub struct Hub(Arc<Inner>);

struct Inner {
    /// `None` = end.
    commands: Mutex<Option<Sender<Command>>>,
    wake: Arc<OwnedFd>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl std::fmt::Debug for Hub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hub")
    }
}

impl Hub {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system refuses it.
    pub fn start() -> io::Result<Hub> {
        // SAFETY: eventfd takes no pointers.
        let fd = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call just made this descriptor and nobody else knows it.
        let wake = Arc::new(unsafe { OwnedFd::from_raw_fd(fd) });
        let (commands, requests) = channel();
        let mut desk = Desk {
            requests,
            wake: wake.clone(),
            listeners: BTreeMap::new(),
            entries: Vec::new(),
            connections: Vec::new(),
        };
        let thread = std::thread::Builder::new()
            .name("parshall-memif".into())
            .spawn(move || desk.run())?;
        Ok(Hub(Arc::new(Inner {
            commands: Mutex::new(Some(commands)),
            wake,
            thread: Mutex::new(Some(thread)),
        })))
    }

    /// What workers wake the thread with.
    pub(super) fn wake(&self) -> Arc<OwnedFd> {
        self.0.wake.clone()
    }

    /// Takes an interface on. A master's socket is there when this returns.
    pub(super) fn add(&self, link: &Arc<Link>) -> Result<(), DeviceError> {
        self.ask(|answer| Command::Add(link.clone(), answer))
    }
    /// Connects an interface from now on, or no longer.
    pub(super) fn admin(&self, link: &Arc<Link>, up: bool) -> Result<(), DeviceError> {
        self.ask(|answer| Command::Admin(link.clone(), up, answer))
    }
    /// Ends an interface's connection and forgets it.
    pub(super) fn remove(&self, link: &Arc<Link>) -> Result<(), DeviceError> {
        self.ask(|answer| Command::Remove(link.clone(), answer))
    }

    fn ask(&self, command: impl FnOnce(Answer) -> Command) -> Result<(), DeviceError> {
        let gone = || DeviceError("the control thread of memif has ended".into());
        let (answer, answered) = channel();
        let commands = self.0.commands.lock();
        let commands = commands.unwrap_or_else(PoisonError::into_inner);
        let commands = commands.as_ref().ok_or_else(gone)?;
        commands.send(command(answer)).map_err(|_| gone())?;
        signal(&self.0.wake);
        answered.recv().map_err(|_| gone())?
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let closed = self.commands.get_mut();
        *closed.unwrap_or_else(PoisonError::into_inner) = None;
        signal(&self.wake);
        let thread = self.thread.get_mut();
        if let Some(thread) = thread.unwrap_or_else(PoisonError::into_inner).take() {
            drop(thread.join());
        }
    }
}

/// An interface.
struct Entry {
    link: Arc<Link>,
    up: bool,
    /// Slave: when to connect next.
    retry: Instant,
}

/// A connection.
struct Connection {
    channel: Channel,
    session: Session,
    /// Socket it came by, for a master's.
    socket: String,
    /// When it has to be up.
    deadline: Instant,
}

/// What the thread works on.
struct Desk {
    requests: Receiver<Command>,
    wake: Arc<OwnedFd>,
    listeners: BTreeMap<String, Listener>,
    entries: Vec<Entry>,
    connections: Vec<Connection>,
}

impl Desk {
    fn run(&mut self) {
        loop {
            let ready = self.wait();
            if !self.obey() {
                break;
            }
            self.hear(&ready);
            self.greet();
            self.look();
            self.call();
        }
        for c in &mut self.connections {
            part(c, &End("interface deleted".into()));
        }
    }

    /// Sleeps until something happens. Says which connections have something to say.
    fn wait(&self) -> Vec<bool> {
        let mut fds = vec![PollFd::new(self.wake.as_fd(), PollFlags::POLLIN)];
        let listening = self.listeners.values().map(Listener::fd);
        let connected = self.connections.iter().map(|c| c.channel.fd());
        let all = connected.chain(listening);
        fds.extend(all.map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
        let time = self.next_deadline(Instant::now());
        let ms = time.map(|t| u16::try_from(t.as_millis() + 1).unwrap_or(u16::MAX));
        let time = ms.map_or(PollTimeout::NONE, PollTimeout::from);
        // An interrupted sleep is a short one.
        let _ = poll(&mut fds, time);
        let ready = |fd: &PollFd<'_>| fd.revents().is_some_and(|r| !r.is_empty());
        if fds.first().is_some_and(ready) {
            drain(&self.wake);
        }
        let connected = fds.iter().skip(1).take(self.connections.len());
        connected.map(ready).collect()
    }

    fn next_deadline(&self, now: Instant) -> Option<Duration> {
        let ups = self.connections.iter().map(|c| match c.session.is_up() {
            true => LOOK,
            false => c.deadline.saturating_duration_since(now),
        });
        let retries = self.entries.iter().filter(|e| self.wants_to_call(e));
        let retries = retries.map(|e| e.retry.saturating_duration_since(now));
        ups.chain(retries).min()
    }

    /// Carries out what was asked for; false = end.
    fn obey(&mut self) -> bool {
        use std::sync::mpsc::TryRecvError;
        loop {
            let (done, answer) = match self.requests.try_recv() {
                Ok(Command::Add(link, answer)) => (self.add(link), answer),
                Ok(Command::Admin(link, up, answer)) => {
                    self.admin(&link, up);
                    (Ok(()), answer)
                }
                Ok(Command::Remove(link, answer)) => {
                    self.remove(&link);
                    (Ok(()), answer)
                }
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            };
            // Nobody listens any more if the asker has given up.
            drop(answer.send(done));
        }
    }

    fn add(&mut self, link: Arc<Link>) -> Result<(), DeviceError> {
        let c = &link.config;
        let same = |e: &&Entry| {
            let o = &e.link.config;
            (&o.socket, o.id, o.role) == (&c.socket, c.id, c.role)
        };
        if let Some(other) = self.entries.iter().find(same) {
            return Err(DeviceError(format!(
                "{} has id {} on socket {} already; choose another id or socket",
                other.link.config.name, c.id, c.socket
            )));
        }
        if c.role == Role::Master && !self.listeners.contains_key(&c.socket) {
            let listener = Listener::bind(&c.socket)
                .map_err(|e| DeviceError(format!("cannot listen on socket {}: {e}", c.socket)))?;
            self.listeners.insert(c.socket.clone(), listener);
        }
        self.entries.push(Entry {
            link,
            up: false,
            retry: Instant::now(),
        });
        Ok(())
    }

    fn admin(&mut self, link: &Arc<Link>, up: bool) {
        for e in &mut self.entries {
            if Arc::ptr_eq(&e.link, link) {
                (e.up, e.retry) = (up, Instant::now());
            }
        }
        if !up {
            self.end_of(link, "interface is down");
        }
    }

    fn remove(&mut self, link: &Arc<Link>) {
        self.end_of(link, "interface deleted");
        self.entries.retain(|e| !Arc::ptr_eq(&e.link, link));
        let entries = &self.entries;
        self.listeners.retain(|socket, _| {
            let on = |e: &Entry| e.link.config.socket == *socket;
            entries
                .iter()
                .any(|e| on(e) && e.link.config.role == Role::Master)
        });
    }

    /// Ends an interface's connection.
    fn end_of(&mut self, link: &Arc<Link>, why: &str) {
        let is = |c: &Connection| c.session.link().is_some_and(|l| Arc::ptr_eq(l, link));
        if let Some(at) = self.connections.iter().position(is) {
            let mut c = self.connections.swap_remove(at);
            part(&mut c, &why.into());
        }
    }

    /// Takes messages of the connections that are `ready`.
    fn hear(&mut self, ready: &[bool]) {
        // Those with something to say were numbered before commands may have ended some; asking one that
        // has nothing to say does no harm.
        let any = ready.iter().any(|r| *r);
        let mut at = 0;
        while any && at < self.connections.len() {
            match self.converse(at) {
                Ok(()) => at += 1,
                Err(end) => {
                    let mut c = self.connections.swap_remove(at);
                    part(&mut c, &end);
                    self.retry_later(&c);
                }
            }
        }
    }

    /// After the end of a slave's connection, whoever ended it.
    fn retry_later(&mut self, c: &Connection) {
        let Some(link) = c.session.link() else { return };
        for e in &mut self.entries {
            if Arc::ptr_eq(&e.link, link) {
                e.retry = Instant::now() + RETRY;
            }
        }
    }

    fn converse(&mut self, at: usize) -> Result<(), End> {
        for _ in 0..TURN {
            let Some(c) = self.connections.get(at) else {
                return Ok(());
            };
            let (message, fd) = match c.channel.receive() {
                Ok(Incoming::Message(m, fd)) => (m, fd),
                Ok(Incoming::Nothing) => return Ok(()),
                Ok(Incoming::Closed) => return Err(End("peer: closed".into())),
                Err(e) => return Err(End(e.to_string())),
            };
            // An interface may be asked for by name only while nobody has it.
            let wanted = match &message {
                Message::Init(i) => self.wanted(&c.socket, i),
                _ => Err("no interface"),
            };
            let Some(c) = self.connections.get_mut(at) else {
                return Ok(());
            };
            let was_up = c.session.is_up();
            let answer = c.session.take(message, fd, |_| wanted)?;
            if c.session.is_up() && !was_up {
                tell_connected(&c.session);
            }
            if let Some((answer, fd)) = answer {
                c.channel.send(&answer, fd.as_ref().map(AsFd::as_fd))?;
            }
        }
        Ok(())
    }

    /// The interface a slave asks for.
    fn wanted(&self, socket: &str, init: &Init) -> Result<Arc<Link>, &'static str> {
        let is = |e: &&Entry| {
            let c = &e.link.config;
            (c.role, c.id) == (Role::Master, init.id) && c.socket == socket
        };
        let e = self.entries.iter().find(is).ok_or("ID not found")?;
        if !e.up {
            return Err("interface is down");
        }
        if self.is_taken(&e.link) {
            return Err("already connected");
        }
        if let Some(secret) = &e.link.config.secret {
            let said = init.secret.bytes();
            if said.is_empty() {
                return Err("secret required");
            }
            // All bytes are compared, so that the time tells nothing of how many are right.
            let differ = secret.bytes().zip(said).fold(0, |d, (a, b)| d | (a ^ b));
            if differ != 0 || secret.len() != said.len() {
                return Err("incorrect secret");
            }
        }
        Ok(e.link.clone())
    }

    fn is_taken(&self, link: &Arc<Link>) -> bool {
        let has = |c: &Connection| c.session.link().is_some_and(|l| Arc::ptr_eq(l, link));
        self.connections.iter().any(has)
    }

    /// Greets slaves that have come.
    fn greet(&mut self) {
        for (socket, listener) in &self.listeners {
            while let Some(channel) = listener.accept() {
                let strangers = self
                    .connections
                    .iter()
                    .filter(|c| c.session.link().is_none());
                let (session, hello) = Session::master();
                if strangers.count() >= STRANGERS || channel.send(&hello, None).is_err() {
                    continue;
                }
                self.connections.push(Connection {
                    channel,
                    session,
                    socket: socket.clone(),
                    deadline: Instant::now() + GREETING,
                });
            }
        }
    }

    /// Ends connections that are late, whose memory is gone, or of which a worker complains.
    fn look(&mut self) {
        let now = Instant::now();
        let mut at = 0;
        while let Some(c) = self.connections.get(at) {
            let trouble = c.session.link().and_then(|l| l.take_trouble());
            let why = match trouble {
                Some(why) if c.session.is_up() => Some(why),
                _ if c.session.has_lost_memory() => Some("shared memory was taken away"),
                _ if !c.session.is_up() && c.deadline < now => Some("greeting took too long"),
                _ => None,
            };
            let Some(why) = why else {
                at += 1;
                continue;
            };
            let mut c = self.connections.swap_remove(at);
            part(&mut c, &why.into());
            self.retry_later(&c);
        }
    }

    fn wants_to_call(&self, e: &Entry) -> bool {
        e.up && e.link.config.role == Role::Slave && !self.is_taken(&e.link)
    }

    /// Slaves without a connection try to get one.
    fn call(&mut self) {
        let now = Instant::now();
        let due = |e: &&Entry| e.retry <= now && self.wants_to_call(e);
        let links: Vec<_> = self
            .entries
            .iter()
            .filter(due)
            .map(|e| e.link.clone())
            .collect();
        for link in links {
            for e in &mut self.entries {
                if Arc::ptr_eq(&e.link, &link) {
                    e.retry = now + RETRY;
                }
            }
            if let Ok(channel) = Channel::connect(&link.config.socket) {
                self.connections.push(Connection {
                    channel,
                    session: Session::slave(link),
                    socket: String::new(),
                    deadline: now + GREETING,
                });
            }
        }
    }
}

fn tell_connected(session: &Session) {
    if let Some(link) = session.link() {
        let status = link.status();
        tracing::info!(
            "{}: connected to \"{}\", interface \"{}\"",
            link.config.name,
            status.peer_name,
            status.peer_interface
        );
    }
}

/// Ends a connection: tells the peer why, and takes the rings away.
fn part(c: &mut Connection, end: &End) {
    let ours = !end.0.is_empty() && !end.0.starts_with("peer: ");
    if ours {
        // A peer that is gone or deaf cannot be told.
        let _ = c.channel.send(&Message::disconnect(&end.0), None);
    }
    if let Some(link) = c.session.link().cloned() {
        if !end.0.is_empty() {
            link.status().last_end = Some(end.0.clone());
        }
        if link.up.load(Ordering::Relaxed) {
            let why = link.status().last_end.clone().unwrap_or_default();
            tracing::info!("{}: disconnected: {why}", link.config.name);
        }
    }
    c.session.stop();
}

fn drain(fd: &OwnedFd) {
    use std::os::fd::AsRawFd;
    let mut count = [0u8; 8];
    // SAFETY: eight bytes into a local; the descriptor does not block.
    unsafe { libc::read(fd.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
}
