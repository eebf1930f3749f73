//! A worker: a pinned thread that turns a dispatcher, and the rings by which it is told things.
//!
//! The loop: say that no published state is held, take the control thread's commands, turn the
//! dispatcher. After some idle turns it sleeps on the descriptors of its receive queues and on its
//! own event descriptor; while asleep it is offline for reclamation. Nothing here locks or allocates.

use std::any::Any;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::thread::JoinHandle;

use parshall_counters::WorkerCounters;
use parshall_device::{RxQueue, TxQueue};
use parshall_linux::{affinity, clock::monotonic_ns};
use parshall_ring::{Consumer, Producer, ring};

use crate::dispatcher::{Dispatcher, RxSlot};
use crate::node::NodeId;
use crate::trace::TraceRecord;

/// Commands that wait for a worker at most.
const COMMANDS: usize = 1024;
/// Turns without a packet after which a worker sleeps.
const IDLE_TURNS: u32 = 200;
/// Longest sleep in ms, so that transmit rings are flushed and time goes on.
const MAX_SLEEP_MS: u64 = 200;

/// What the control thread tells a worker.
#[derive(Default)]
pub enum WorkerCommand {
    /// Nothing (an empty slot of the ring).
    #[default]
    None,
    /// Poll this queue from now on.
    AddRx {
        /// Input node of the driver.
        node: NodeId,
        /// Interface.
        if_index: u32,
        /// The queue.
        queue: Box<dyn RxQueue>,
        /// Whether the interface is up.
        up: bool,
    },
    /// Send through this queue from now on.
    AddTx {
        /// Interface.
        if_index: u32,
        /// The queue.
        queue: Box<dyn TxQueue>,
        /// Whether the interface is up.
        up: bool,
        /// Longest frame it carries.
        max_frame: u32,
    },
    /// The interface's state or size changed.
    SetInterface {
        /// Interface.
        if_index: u32,
        /// Whether it is up.
        up: bool,
        /// Longest frame it carries.
        max_frame: u32,
    },
    /// Give up all queues of an interface; they come back as garbage.
    RemoveInterface {
        /// Interface.
        if_index: u32,
    },
    /// Put a packet to a node; the bytes come back as garbage.
    Inject {
        /// Node.
        node: NodeId,
        /// Interface to send on, where the node needs one.
        tx_if: u32,
        /// The packet.
        bytes: Vec<u8>,
    },
    /// A message to a node; it comes back as garbage.
    Message {
        /// Node.
        node: NodeId,
        /// The message.
        message: Box<dyn Any + Send>,
    },
    /// Mark the next packets of an input node for the trace.
    Trace {
        /// Input node.
        node: NodeId,
        /// How many.
        count: u32,
    },
    /// End the thread.
    Stop,
}

/// What a worker gives back to be freed by the control thread.
#[derive(Default)]
pub enum Garbage {
    /// Nothing (an empty slot of the ring).
    #[default]
    None,
    /// A receive queue.
    Rx(Box<dyn RxQueue>),
    /// A transmit queue.
    Tx(Box<dyn TxQueue>),
    /// Bytes of an injected packet.
    Bytes(Vec<u8>),
    /// A message that was delivered.
    Message(Box<dyn Any + Send>),
}

/// How a worker runs.
#[derive(Clone, Debug)]
pub struct WorkerConfig {
    /// Its number, from 0.
    pub index: usize,
    /// CPU to pin it to.
    pub cpu: Option<usize>,
    /// Never sleep.
    pub busy_poll: bool,
}

/// A worker before it is started.
pub struct Worker {
    config: WorkerConfig,
    dispatcher: Dispatcher,
    commands: Consumer<WorkerCommand>,
    garbage: Producer<Garbage>,
    wake: Arc<OwnedFd>,
    epoll: OwnedFd,
}

/// The control thread's side of a worker.
pub struct WorkerHandle {
    /// How it runs.
    pub config: WorkerConfig,
    /// Its counters.
    pub counters: Arc<WorkerCounters>,
    /// Its trace records.
    pub trace: Consumer<TraceRecord>,
    commands: Producer<WorkerCommand>,
    garbage: Consumer<Garbage>,
    wake: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts a worker on `dispatcher`; `trace` is the consumer that came with it.
    ///
    /// # Errors
    /// When the system refuses a descriptor or the thread.
    pub fn spawn(
        config: WorkerConfig,
        dispatcher: Dispatcher,
        trace: Consumer<TraceRecord>,
    ) -> std::io::Result<WorkerHandle> {
        let (commands_in, commands) = ring(COMMANDS);
        let (garbage, garbage_out) = ring(4 * COMMANDS);
        let wake = Arc::new(event_fd()?);
        let epoll = epoll_fd()?;
        watch(&epoll, wake.as_raw_fd(), 0)?;
        let counters = dispatcher.counters.clone();
        let worker = Worker {
            config: config.clone(),
            dispatcher,
            commands,
            garbage,
            wake: wake.clone(),
            epoll,
        };
        let name = format!("parshall-wk{}", config.index);
        let thread = std::thread::Builder::new()
            .name(name)
            .spawn(move || worker.run())?;
        Ok(WorkerHandle {
            config,
            counters,
            trace,
            commands: commands_in,
            garbage: garbage_out,
            wake,
            thread: Some(thread),
        })
    }

    fn run(mut self) {
        if let Some(cpu) = self.config.cpu {
            // A refusal (CPU offline or not allowed) leaves the worker unpinned; `show threads` says where it runs.
            drop(affinity::pin(cpu));
        }
        self.dispatcher.reader.online();
        let mut idle = 0;
        while self.obey() {
            self.dispatcher.reader.quiescent();
            self.dispatcher.counters.loops.add(1);
            let received = self.dispatcher.turn(monotonic_ns());
            if received != 0 {
                idle = 0;
                continue;
            }
            idle += 1;
            if idle >= IDLE_TURNS && !self.config.busy_poll {
                self.sleep();
                // Awake for a few turns only: a wake-up without packets should not cost many.
                idle = IDLE_TURNS - 4;
            } else {
                std::hint::spin_loop();
            }
        }
        self.dispatcher.close();
        self.dispatcher.reader.offline();
    }

    /// Carries out waiting commands; false = stop.
    fn obey(&mut self) -> bool {
        while let Some(command) = self.commands.pop() {
            let back = match command {
                WorkerCommand::Stop => return false,
                other => self.carry_out(other),
            };
            // The garbage ring is four times as long as the command ring and each command makes at most a
            // handful of garbage, so this does not fail while the control thread is alive; were it to,
            // freeing here is the lesser evil.
            for g in back.into_iter().flatten() {
                drop(self.garbage.push(g));
            }
        }
        true
    }

    fn carry_out(&mut self, command: WorkerCommand) -> [Option<Garbage>; 2] {
        let d = &mut self.dispatcher;
        match command {
            WorkerCommand::AddRx {
                node,
                if_index,
                queue,
                up,
            } => {
                if let (Some(fd), true) = (queue.fd(), up) {
                    // A queue that cannot be watched is still polled whenever the worker is awake.
                    drop(watch(&self.epoll, fd, 1));
                }
                d.rx.push(RxSlot {
                    node,
                    if_index,
                    queue,
                    up,
                });
            }
            WorkerCommand::AddTx {
                if_index,
                queue,
                up,
                max_frame,
            } => {
                if let Some(slot) = d.tx.get_mut(if_index as usize) {
                    let old = slot.close(&mut d.pool);
                    (slot.queue, slot.up, slot.max_frame) = (Some(queue), up, max_frame);
                    return [old.map(Garbage::Tx), None];
                }
                return [Some(Garbage::Tx(queue)), None];
            }
            WorkerCommand::SetInterface {
                if_index,
                up,
                max_frame,
            } => {
                for rx in d.rx.iter_mut().filter(|r| r.if_index == if_index) {
                    if let (Some(fd), true) = (rx.queue.fd(), rx.up != up) {
                        drop(if up {
                            watch(&self.epoll, fd, 1)
                        } else {
                            unwatch(&self.epoll, fd)
                        });
                    }
                    rx.up = up;
                }
                if let Some(slot) = d.tx.get_mut(if_index as usize) {
                    (slot.up, slot.max_frame) = (up, max_frame);
                }
            }
            WorkerCommand::RemoveInterface { if_index } => return self.remove(if_index),
            WorkerCommand::Inject { node, tx_if, bytes } => {
                d.now = monotonic_ns();
                d.inject(node, &bytes, tx_if);
                return [Some(Garbage::Bytes(bytes)), None];
            }
            WorkerCommand::Message { node, mut message } => {
                d.now = monotonic_ns();
                d.message(node, &mut *message);
                return [Some(Garbage::Message(message)), None];
            }
            WorkerCommand::Trace { node, count } => d.trace(node, count),
            WorkerCommand::None | WorkerCommand::Stop => {}
        }
        [None, None]
    }

    fn remove(&mut self, if_index: u32) -> [Option<Garbage>; 2] {
        let d = &mut self.dispatcher;
        while let Some(at) = d.rx.iter().position(|r| r.if_index == if_index) {
            let slot = d.rx.swap_remove(at);
            if let (Some(fd), true) = (slot.queue.fd(), slot.up) {
                drop(unwatch(&self.epoll, fd));
            }
            drop(self.garbage.push(Garbage::Rx(slot.queue)));
        }
        let tx =
            d.tx.get_mut(if_index as usize)
                .and_then(|slot| slot.close(&mut d.pool));
        [tx.map(Garbage::Tx), None]
    }

    /// Sleeps until a queue has packets, a command comes, or something is due.
    fn sleep(&mut self) {
        let d = &mut self.dispatcher;
        for tx in &mut d.tx {
            if let Some(q) = tx.queue.as_mut() {
                q.flush(&mut d.pool);
            }
        }
        let now = monotonic_ns();
        let due =
            d.rx.iter()
                .filter(|r| r.up)
                .filter_map(|r| r.queue.due(now))
                .chain(d.deadline())
                .min();
        let wait_ns = due.map_or(MAX_SLEEP_MS * 1_000_000, |t| {
            t.saturating_sub(now).min(MAX_SLEEP_MS * 1_000_000)
        });
        if wait_ns == 0 || !self.commands.is_empty() {
            return;
        }
        d.counters.sleeps.add(1);
        d.reader.offline();
        let readable = wait(&self.epoll, wait_ns);
        d.reader.online();
        if readable {
            drain(&self.wake);
        }
    }
}

impl WorkerHandle {
    /// Tells the worker something, and wakes it. Waits while its ring is full (the control thread may).
    pub fn tell(&mut self, command: WorkerCommand) {
        let mut command = command;
        loop {
            match self.commands.push(command) {
                Ok(()) => break,
                Err(back) => {
                    if self.thread.as_ref().is_none_or(JoinHandle::is_finished) {
                        return;
                    }
                    command = back;
                    self.collect_garbage();
                    signal(&self.wake);
                    std::thread::sleep(std::time::Duration::from_micros(100));
                }
            }
        }
        signal(&self.wake);
    }

    /// Frees what the worker gave back, and says how many things that were.
    pub fn collect_garbage(&mut self) -> usize {
        std::iter::from_fn(|| self.garbage.pop()).count()
    }

    /// Whether its thread is there.
    pub fn is_alive(&self) -> bool {
        self.thread.as_ref().is_some_and(|t| !t.is_finished())
    }

    /// Ends the thread and frees everything it held.
    pub fn stop(&mut self) {
        if let Some(thread) = self.thread.take() {
            if self.commands.push(WorkerCommand::Stop).is_ok() || thread.is_finished() {
                signal(&self.wake);
            } else {
                self.thread = Some(thread);
                self.tell(WorkerCommand::Stop);
                return self.stop_joined();
            }
            drop(thread.join());
        }
        self.collect_garbage();
    }

    fn stop_joined(&mut self) {
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
        self.collect_garbage();
    }
}

impl Drop for WorkerHandle {
    fn drop(&mut self) {
        self.stop();
    }
}

fn event_fd() -> std::io::Result<OwnedFd> {
    // SAFETY: eventfd takes no pointers.
    owned(unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) })
}

fn epoll_fd() -> std::io::Result<OwnedFd> {
    // SAFETY: epoll_create1 takes no pointers.
    owned(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })
}

fn owned(fd: RawFd) -> std::io::Result<OwnedFd> {
    if fd < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: the call just made this descriptor and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn control(epoll: &OwnedFd, op: i32, fd: RawFd, tag: u64) -> std::io::Result<()> {
    let mut event = libc::epoll_event {
        events: libc::EPOLLIN as u32,
        u64: tag,
    };
    // SAFETY: `event` lives through the call; a stale `fd` makes it fail, not misbehave.
    match unsafe { libc::epoll_ctl(epoll.as_raw_fd(), op, fd, &raw mut event) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

fn watch(epoll: &OwnedFd, fd: RawFd, tag: u64) -> std::io::Result<()> {
    control(epoll, libc::EPOLL_CTL_ADD, fd, tag)
}

fn unwatch(epoll: &OwnedFd, fd: RawFd) -> std::io::Result<()> {
    control(epoll, libc::EPOLL_CTL_DEL, fd, 0)
}

/// Waits for any watched descriptor; true when one was ready.
fn wait(epoll: &OwnedFd, ns: u64) -> bool {
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; 16];
    let time = libc::timespec {
        tv_sec: (ns / 1_000_000_000) as _,
        tv_nsec: (ns % 1_000_000_000) as _,
    };
    // SAFETY: both pointers are to locals that live through the call, the length is that of the array.
    let n = unsafe {
        libc::syscall(
            libc::SYS_epoll_pwait2,
            epoll.as_raw_fd(),
            events.as_mut_ptr(),
            events.len(),
            &raw const time,
            std::ptr::null::<libc::sigset_t>(),
            0,
        )
    };
    n > 0
}

fn signal(fd: &OwnedFd) {
    let one = 1u64.to_ne_bytes();
    // SAFETY: eight bytes from a local; a full counter makes it fail, which is as good as signalled.
    unsafe { libc::write(fd.as_raw_fd(), one.as_ptr().cast(), one.len()) };
}

fn drain(fd: &OwnedFd) {
    let mut count = [0u8; 8];
    // SAFETY: eight bytes into a local; the descriptor does not block.
    unsafe { libc::read(fd.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
}

#[cfg(test)]
#[path = "worker_tests.rs"]
mod tests;
