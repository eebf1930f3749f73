//! Runs an agent on a thread of its own.
//!
//! Owns the clock and the sleep: short while samples come, up to [`LONGEST_SLEEP`] when none do, so that an idle agent
//! costs next to nothing. Control talks to the thread by messages, which also end its sleep.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::io;
use std::net::IpAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parshall_ring::Consumer;
use parshall_sample::{DropSlot, SampleSlot};
use thiserror::Error;

use crate::agent::{Agent, AgentParts};
use crate::config::{AgentConfig, ConfigError};
use crate::elect::{Election, elect_or_loopback, host_candidates};
use crate::host::ProcReader;
use crate::router::Router;
use crate::status::AgentStatus;
use crate::talkers::Talkers;
use crate::transport::UdpTransport;

/// Sleep after samples were found: long enough that at a high rate many datagrams leave together, which is what makes
/// them cheap, and short beside what a ring holds.
const SHORTEST_SLEEP: Duration = Duration::from_millis(1);
/// Sleep when none came for a while. A ring must hold what workers sample in this time: 5,000 at 500,000 a second.
const LONGEST_SLEEP: Duration = Duration::from_millis(10);
/// Nice value of the thread, where it may have it: a ring holds what a busy worker samples in some 25 ms, and on a loaded
/// machine a thread like any other waits that long for its turn. It uses little and so takes little from others.
const NICE: i32 = -10;
/// How long to wait for the thread's answer.
const ANSWER: Duration = Duration::from_secs(5);

/// The state on its way.
#[derive(Debug)]
pub struct StatusAnswer(Receiver<AgentStatus>);

impl StatusAnswer {
    /// The state, if it arrives in this time.
    pub fn wait(&self, most: Duration) -> Option<AgentStatus> {
        let mut status = self.0.recv_timeout(most).ok()?;
        let unix_ms = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |d| d.as_millis() as u64);
        for c in &mut status.collectors {
            c.last_error_unix_ms = c.last_error_ago_ms.map(|ago| unix_ms.saturating_sub(ago));
        }
        Some(status)
    }
}

/// The agent's thread is not there any more, or does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the sFlow agent does not answer")]
pub struct AgentGone;

/// Why an agent could not be started.
#[derive(Debug, Error)]
pub enum SpawnError {
    /// A setting is out of its range.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The system gave no thread.
    #[error("no thread for the sFlow agent: {0}")]
    Thread(#[from] io::Error),
}

enum Command {
    /// New settings, and the address elected when their rules of election are new.
    Config(AgentConfig, Option<IpAddr>, Sender<()>),
    Add(u32, Consumer<SampleSlot>),
    Remove(u32),
    Empty(Sender<()>),
    AddDrops(Vec<Consumer<DropSlot>>),
    Finish(Sender<AgentStatus>),
    Status(Sender<AgentStatus>),
    Talkers(usize, Sender<Talkers>),
    Shutdown,
}

/// An agent on its own thread. Dropping it shuts it down.
pub struct AgentThread {
    commands: Sender<Command>,
    thread: Option<JoinHandle<()>>,
    router: Arc<dyn Router>,
    /// The rules that the agent's address was last elected by.
    election: Mutex<Election>,
}

/// The address that an agent of this router calls its own.
fn elected(router: &dyn Router, election: &Election) -> IpAddr {
    let mut candidates = router.addresses();
    candidates.extend(host_candidates());
    elect_or_loopback(&candidates, election)
}

impl AgentThread {
    /// Starts an agent that sends over UDP and reports this machine's counters. The rings are numbered from 0: the workers.
    ///
    /// # Errors
    /// When a setting is out of its range or the system gives no thread.
    pub fn spawn(
        config: AgentConfig,
        router: Arc<dyn Router>,
        sources: Vec<Consumer<SampleSlot>>,
    ) -> Result<AgentThread, SpawnError> {
        let elected = elected(router.as_ref(), &config.election);
        let mut hasher = DefaultHasher::new();
        (elected, config.agent_address, std::process::id()).hash(&mut hasher);
        let parts = AgentParts {
            router,
            transport: Box::new(UdpTransport::new()),
            host: Some(Box::new(ProcReader::new())),
            elected,
            seed: hasher.finish(),
        };
        Self::spawn_parts(config, parts, sources)
    }

    /// Starts an agent made of other parts.
    ///
    /// # Errors
    /// As [`spawn`](Self::spawn).
    pub fn spawn_parts(
        config: AgentConfig,
        parts: AgentParts,
        sources: Vec<Consumer<SampleSlot>>,
    ) -> Result<AgentThread, SpawnError> {
        let clock = Clock(Instant::now());
        let (router, election) = (parts.router.clone(), config.election.clone());
        let mut agent = Agent::new(config, parts, clock.now())?;
        for (i, consumer) in (0..).zip(sources) {
            agent.add_source(i, consumer);
        }
        let (commands, inbox) = channel();
        let run = move || {
            if let Err(e) = parshall_linux::priority::set_nice(NICE) {
                tracing::debug!("sFlow agent: {e}");
            }
            Loop {
                agent,
                clock,
                inbox,
                sleep: SHORTEST_SLEEP,
            }
            .run()
        };
        let thread = thread::Builder::new()
            .name("parshall-sflow".to_owned())
            .spawn(run)?;
        Ok(AgentThread {
            commands,
            thread: Some(thread),
            router,
            election: Mutex::new(election),
        })
    }

    /// Replaces the settings, and returns when they are in effect: a packet that is sampled after that goes to the collectors
    /// that were set. The agent's address is elected anew when the rules of that change.
    ///
    /// # Errors
    /// When one is out of its range; nothing changes then.
    pub fn set_config(&self, config: AgentConfig) -> Result<(), ConfigError> {
        config.validate()?;
        let mut was = self.election.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = *was != config.election;
        let address = changed.then(|| elected(self.router.as_ref(), &config.election));
        *was = config.election.clone();
        drop(was);
        let (answer, wait) = channel();
        let told = self.commands.send(Command::Config(config, address, answer));
        if told.is_err() || wait.recv_timeout(ANSWER).is_err() {
            tracing::error!("{AgentGone}");
        }
        Ok(())
    }

    /// Adds a worker's ring under the number `source`.
    ///
    /// # Errors
    /// When the thread is gone.
    pub fn add_source(&self, source: u32, consumer: Consumer<SampleSlot>) -> Result<(), AgentGone> {
        self.commands
            .send(Command::Add(source, consumer))
            .map_err(|_| AgentGone)
    }

    /// Adds workers' rings of dropped packets.
    ///
    /// # Errors
    /// When the thread is gone.
    pub fn add_drop_rings(&self, rings: Vec<Consumer<DropSlot>>) -> Result<(), AgentGone> {
        self.commands
            .send(Command::AddDrops(rings))
            .map_err(|_| AgentGone)
    }

    /// Sends what is left in the rings under the number `source` and lets go of them.
    ///
    /// # Errors
    /// When the thread is gone.
    pub fn remove_source(&self, source: u32) -> Result<(), AgentGone> {
        self.commands
            .send(Command::Remove(source))
            .map_err(|_| AgentGone)
    }

    /// Returns when the agent has taken all samples that lay in its rings when it was asked.
    ///
    /// # Errors
    /// When the thread is gone or does not answer.
    pub fn empty(&self) -> Result<(), AgentGone> {
        let (answer, wait) = channel();
        self.commands
            .send(Command::Empty(answer))
            .map_err(|_| AgentGone)?;
        wait.recv_timeout(ANSWER).map_err(|_| AgentGone)
    }

    /// Sends all that is left, ends the thread, and tells what it has done in all.
    ///
    /// # Errors
    /// When the thread is gone or does not answer.
    pub fn finish(mut self) -> Result<AgentStatus, AgentGone> {
        let (answer, wait) = channel();
        self.commands
            .send(Command::Finish(answer))
            .map_err(|_| AgentGone)?;
        let status = wait.recv_timeout(ANSWER).map_err(|_| AgentGone);
        self.end();
        status
    }

    /// The agent's state and what it has done.
    ///
    /// # Errors
    /// When the thread is gone or does not answer.
    pub fn status(&self) -> Result<AgentStatus, AgentGone> {
        self.ask_status()?.wait(ANSWER).ok_or(AgentGone)
    }

    /// The `most` greatest flows by what samples say of them, from the first time somebody asks on.
    ///
    /// # Errors
    /// When the thread is gone or does not answer.
    pub fn talkers(&self, most: usize) -> Result<Talkers, AgentGone> {
        let (answer, wait) = channel();
        self.commands
            .send(Command::Talkers(most, answer))
            .map_err(|_| AgentGone)?;
        wait.recv_timeout(ANSWER).map_err(|_| AgentGone)
    }

    /// Asks for the state and does not wait for the answer.
    ///
    /// # Errors
    /// When the thread is gone.
    pub fn ask_status(&self) -> Result<StatusAnswer, AgentGone> {
        let (answer, wait) = channel();
        self.commands
            .send(Command::Status(answer))
            .map_err(|_| AgentGone)?;
        Ok(StatusAnswer(wait))
    }

    /// Sends all that is left and ends the thread.
    pub fn shutdown(mut self) {
        self.end();
    }

    fn end(&mut self) {
        if let Some(thread) = self.thread.take() {
            // Both fail only when the thread is gone already; it left its reason on stderr then.
            let _ = self.commands.send(Command::Shutdown);
            let _ = thread.join();
        }
    }
}

impl Drop for AgentThread {
    fn drop(&mut self) {
        self.end();
    }
}

/// Nanoseconds since a second before the agent started: monotonic and never near zero.
struct Clock(Instant);

impl Clock {
    fn now(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos())
            .unwrap_or(u64::MAX / 2)
            .saturating_add(1_000_000_000)
    }
}

struct Loop {
    agent: Agent,
    clock: Clock,
    inbox: Receiver<Command>,
    sleep: Duration,
}

impl Loop {
    fn run(mut self) {
        loop {
            let before = self.agent.drained();
            let now = self.clock.now();
            let wake = self.agent.poll(now);
            let found = self.agent.drained() != before;
            self.sleep = if found {
                SHORTEST_SLEEP
            } else {
                (self.sleep * 2).min(LONGEST_SLEEP)
            };
            let sleep = self
                .sleep
                .min(Duration::from_nanos(wake.saturating_sub(now)));
            match self.wait(sleep) {
                Some(Command::Shutdown) => break,
                Some(c) => self.obey(c),
                None => {}
            }
        }
        self.agent.finish(self.clock.now());
    }

    /// The next command, if one comes within `sleep`. A handle that is gone means shutdown.
    fn wait(&self, sleep: Duration) -> Option<Command> {
        if sleep.is_zero() {
            return match self.inbox.try_recv() {
                Ok(c) => Some(c),
                Err(TryRecvError::Empty) => None,
                Err(TryRecvError::Disconnected) => Some(Command::Shutdown),
            };
        }
        match self.inbox.recv_timeout(sleep) {
            Ok(c) => Some(c),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Command::Shutdown),
        }
    }

    fn obey(&mut self, command: Command) {
        let now = self.clock.now();
        match command {
            Command::Config(c, address, answer) => {
                if let Some(address) = address {
                    self.agent.set_elected(address);
                }
                if let Err(e) = self.agent.set_config(c, now) {
                    tracing::error!("sFlow settings refused: {e}");
                }
                let _ = answer.send(());
            }
            Command::Add(source, consumer) => self.agent.add_source(source, consumer),
            Command::AddDrops(rings) => self.agent.add_drop_rings(rings),
            Command::Remove(source) => self.agent.remove_source(source, now),
            Command::Empty(answer) => {
                self.agent.empty(now);
                // Whoever asked may have stopped waiting.
                let _ = answer.send(());
            }
            Command::Status(answer) => {
                // Whoever asked may have stopped waiting.
                let _ = answer.send(self.agent.status(now));
            }
            Command::Talkers(most, answer) => {
                let _ = answer.send(self.agent.talkers(now, most));
            }
            Command::Finish(answer) => {
                self.agent.finish(now);
                let _ = answer.send(self.agent.status(now));
            }
            Command::Shutdown => {}
        }
    }
}
