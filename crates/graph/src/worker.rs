//! A worker: a pinned thread that turns a dispatcher, and the rings by which it is told things.
//!
//! The loop: say that no published state is held, take the control thread's commands, turn the
//! dispatcher. After some idle turns it sleeps on the descriptors of its receive queues and on its
//! own event descriptor; while asleep it is offline for reclamation. Nothing here locks or allocates.
//!
//! A worker makes what it writes in its own thread, after it was pinned: memory then lies on the CPU's own
//! NUMA node, and in an allocator's arena that no other worker's memory comes from.
//!
//! A receive queue moves in two steps: the old worker gives it back ([`WorkerCommand::ReleaseRx`], after
//! which all it brought in has been through the graph), then the new one polls it.

use std::any::Any;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;

use parshall_counters::WorkerCounters;
use parshall_device::{RxQueue, TxQueue};
use parshall_linux::{affinity, clock::monotonic_ns};
use parshall_ring::{Consumer, Producer, ring};

use crate::dispatcher::{Dispatcher, RxSlot};
use crate::handoff::{Inbox, Presence};
use crate::node::NodeId;
use crate::trace::TraceRecord;

/// Commands that wait for a worker at most.
const COMMANDS: usize = 1024;
/// Turns without a packet after which a worker sleeps.
const IDLE_TURNS: u32 = 200;
/// Longest sleep in ms, so that transmit rings are flushed and time goes on.
const MAX_SLEEP_MS: u64 = 200;

/// When a worker looks at a receive queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RxMode {
    /// Always: the worker never sleeps.
    Polling,
    /// When its descriptor says that packets wait: the worker sleeps as soon as none come.
    Interrupt,
    /// Always while packets come; some idle turns after the last one the worker sleeps.
    #[default]
    Adaptive,
}

impl RxMode {
    /// VPP's word for it.
    pub fn word(self) -> &'static str {
        match self {
            RxMode::Polling => "polling",
            RxMode::Interrupt => "interrupt",
            RxMode::Adaptive => "adaptive",
        }
    }
}

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
        /// Number of the queue at its interface.
        queue_id: usize,
        /// The queue.
        queue: Box<dyn RxQueue>,
        /// Whether the interface is up.
        up: bool,
        /// When it is looked at.
        mode: RxMode,
    },
    /// Poll this queue no longer. It comes back through [`WorkerHandle::take_released`].
    ReleaseRx {
        /// Interface.
        if_index: u32,
        /// Number of the queue at its interface.
        queue_id: usize,
    },
    /// Look at this queue in another way.
    SetRxMode {
        /// Interface.
        if_index: u32,
        /// Number of the queue at its interface.
        queue_id: usize,
        /// When it is looked at.
        mode: RxMode,
    },
    /// Send what another worker hands over, through the queue of the inbox's interface.
    AddInbox(Box<Inbox>),
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
    /// An interface has no device: what is sent through it is handed to this node from now on, which changes it and
    /// says where it goes next.
    AddVirtual {
        /// Interface.
        if_index: u32,
        /// The node.
        node: NodeId,
        /// Whether the interface is up.
        up: bool,
        /// Longest frame it carries.
        max_frame: u32,
    },
    /// Ends what `AddVirtual` said: the interface sends by its transmit queue again.
    RemoveVirtual {
        /// Interface.
        if_index: u32,
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
    /// Carry out several commands, and look at the other side of published values, between the same two turns.
    Switch(Box<Switch>),
    /// End the thread.
    Stop,
}

/// Commands that a worker carries out as one, with the values that were staged for them ([`parshall_rcu::Published`]).
pub struct Switch {
    commands: Vec<WorkerCommand>,
    /// What they leave behind; has room for all of it, since a worker does not allocate.
    garbage: Vec<Garbage>,
    side: usize,
}

impl Switch {
    /// These commands and that side of published values.
    pub fn new(commands: Vec<WorkerCommand>, side: usize) -> Switch {
        Switch {
            garbage: Vec::with_capacity(2 * commands.len()),
            commands,
            side,
        }
    }
}

/// What a worker gives back to be freed by the control thread.
#[derive(Default)]
pub enum Garbage {
    /// Nothing (an empty slot of the ring).
    #[default]
    None,
    /// A receive queue.
    Rx(Box<dyn RxQueue>),
    /// A receive queue that is to go on elsewhere; interface and number.
    Released(u32, usize, Box<dyn RxQueue>),
    /// The inbox of an interface that went away.
    Inbox(Box<Inbox>),
    /// A transmit queue.
    Tx(Box<dyn TxQueue>),
    /// Bytes of an injected packet.
    Bytes(Vec<u8>),
    /// A message that was delivered.
    Message(Box<dyn Any + Send>),
    /// Commands that were carried out as one, and what they left.
    Switch(Box<Switch>),
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

/// What a worker's thread makes before it starts: its dispatcher, the consumer of its trace records, and
/// whatever else the control thread is to get.
pub struct Built<T> {
    /// The dispatcher.
    pub dispatcher: Dispatcher,
    /// Consumer of its trace records.
    pub trace: Consumer<TraceRecord>,
    /// For the control thread.
    pub rest: T,
}

struct Worker {
    config: WorkerConfig,
    dispatcher: Dispatcher,
    commands: Consumer<WorkerCommand>,
    garbage: Producer<Garbage>,
    presence: Arc<Presence>,
    epoll: OwnedFd,
    /// Idle turns after which it sleeps; `None` = never.
    patience: Option<u32>,
}

/// A receive queue that came back to be placed elsewhere.
pub struct Released {
    /// Interface.
    pub if_index: u32,
    /// Number of the queue at its interface.
    pub queue_id: usize,
    /// The queue.
    pub queue: Box<dyn RxQueue>,
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
    released: Vec<Released>,
    presence: Arc<Presence>,
    thread: Option<JoinHandle<()>>,
}

/// Starts a worker. `build` runs in its thread, pinned already, and what it makes besides the dispatcher is
/// given back; the call returns when it is done.
///
/// # Errors
/// When the system refuses a descriptor, the thread or the CPU, or `build` fails: then its words.
pub fn spawn<T: Send + 'static>(
    config: WorkerConfig,
    build: impl FnOnce() -> Result<Built<T>, String> + Send + 'static,
) -> Result<(WorkerHandle, T), String> {
    let words = |e: std::io::Error| e.to_string();
    let (commands_in, commands) = ring(COMMANDS);
    let (garbage, garbage_out) = ring(4 * COMMANDS);
    let presence = Arc::new(Presence::new(event_fd().map_err(words)?));
    let epoll = epoll_fd().map_err(words)?;
    watch(&epoll, presence.fd(), 0).map_err(words)?;
    let (made_in, made) = sync_channel(1);
    let (theirs, their_config) = (presence.clone(), config.clone());
    let thread = std::thread::Builder::new()
        .name(format!("parshall-wk{}", config.index))
        .spawn(move || {
            let built = pin(&their_config).and_then(|()| build());
            let Built {
                dispatcher,
                trace,
                rest,
            } = match built {
                Ok(built) => built,
                Err(e) => return drop(made_in.send(Err(e))),
            };
            // SAFETY: gettid takes nothing and cannot fail.
            theirs.set_tid(unsafe { libc::gettid() });
            let counters = dispatcher.counters.clone();
            let told = made_in.send(Ok((counters, trace, rest)));
            let worker = Worker {
                config: their_config,
                dispatcher,
                commands,
                garbage,
                presence: theirs,
                epoll,
                patience: Some(IDLE_TURNS),
            };
            if told.is_ok() {
                worker.run();
            }
        })
        .map_err(words)?;
    let (counters, trace, rest) = match made.recv() {
        Ok(Ok(made)) => made,
        Ok(Err(e)) => {
            drop(thread.join());
            return Err(e);
        }
        Err(_) => return Err("the thread ended while it was set up".into()),
    };
    let handle = WorkerHandle {
        config,
        counters,
        trace,
        commands: commands_in,
        garbage: garbage_out,
        released: Vec::new(),
        presence,
        thread: Some(thread),
    };
    Ok((handle, rest))
}

fn pin(config: &WorkerConfig) -> Result<(), String> {
    match config.cpu {
        Some(cpu) => affinity::pin(cpu).map_err(|e| e.to_string()),
        None => Ok(()),
    }
}

impl Worker {
    fn run(mut self) {
        self.dispatcher.reader.online();
        self.note_patience();
        let mut idle = 0;
        while self.obey() {
            self.dispatcher.reader.quiescent();
            let c = &self.dispatcher.counters;
            c.loops.add(1);
            c.buffers_free.set(self.dispatcher.pool.available() as u64);
            let received = self.dispatcher.turn(monotonic_ns());
            if received != 0 {
                idle = 0;
                continue;
            }
            idle += 1;
            match self.patience {
                Some(patience) if idle >= patience => {
                    self.sleep();
                    // Awake for a few turns only: a wake-up without packets should not cost many.
                    idle = patience.saturating_sub(4);
                }
                _ => std::hint::spin_loop(),
            }
        }
        self.dispatcher.close();
        self.dispatcher.reader.offline();
    }

    /// How long the worker stays awake follows from the most eager of its queues.
    fn note_patience(&mut self) {
        let up = || self.dispatcher.rx.iter().filter(|r| r.up);
        self.patience = if self.config.busy_poll || up().any(|r| r.mode == RxMode::Polling) {
            None
        } else if up().next().is_some() && up().all(|r| r.mode == RxMode::Interrupt) {
            Some(1)
        } else {
            Some(IDLE_TURNS)
        };
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
                queue_id,
                queue,
                up,
                mode,
            } => {
                if let (Some(fd), true) = (queue.fd(), up) {
                    // A queue that cannot be watched is still polled whenever the worker is awake.
                    drop(watch(&self.epoll, fd, 1));
                }
                d.rx.push(RxSlot {
                    node,
                    if_index,
                    queue_id,
                    queue,
                    up,
                    mode,
                });
                self.note_patience();
            }
            WorkerCommand::ReleaseRx { if_index, queue_id } => {
                return [self.release(if_index, queue_id), None];
            }
            WorkerCommand::SetRxMode {
                if_index,
                queue_id,
                mode,
            } => {
                let ours = |r: &&mut RxSlot| r.if_index == if_index && r.queue_id == queue_id;
                d.rx.iter_mut().filter(ours).for_each(|r| r.mode = mode);
                self.note_patience();
            }
            WorkerCommand::AddInbox(inbox) => d.inboxes.push(inbox),
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
            WorkerCommand::AddVirtual {
                if_index,
                node,
                up,
                max_frame,
            } => d.set_virtual(if_index, node, (up, max_frame)),
            WorkerCommand::RemoveVirtual { if_index } => d.clear_virtual(if_index),
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
                self.note_patience();
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
            WorkerCommand::Switch(switch) => return [Some(self.switch(switch)), None],
            WorkerCommand::None | WorkerCommand::Stop => {}
        }
        [None, None]
    }

    /// The side first: what commands do goes by the values that belong to them.
    fn switch(&mut self, mut switch: Box<Switch>) -> Garbage {
        self.dispatcher.reader.change_sides(switch.side);
        for command in &mut switch.commands {
            let back = self.carry_out(std::mem::take(command));
            switch.garbage.extend(back.into_iter().flatten());
        }
        Garbage::Switch(switch)
    }

    fn remove(&mut self, if_index: u32) -> [Option<Garbage>; 2] {
        while let Some(at) = self.rx_at(|r| r.if_index == if_index) {
            let slot = self.take_rx(at);
            drop(self.garbage.push(Garbage::Rx(slot.queue)));
        }
        let d = &mut self.dispatcher;
        while let Some(at) = d.inboxes.iter().position(|i| i.if_index == if_index) {
            let mut inbox = d.inboxes.swap_remove(at);
            inbox.close(&mut d.pool);
            drop(self.garbage.push(Garbage::Inbox(inbox)));
        }
        let tx =
            d.tx.get_mut(if_index as usize)
                .and_then(|slot| slot.close(&mut d.pool));
        self.note_patience();
        [tx.map(Garbage::Tx), None]
    }

    /// Gives a receive queue back. What it brought in has left this worker: the graph runs empty every turn,
    /// and transmit queues are told to get what waits in them going.
    fn release(&mut self, if_index: u32, queue_id: usize) -> Option<Garbage> {
        let at = self.rx_at(|r| r.if_index == if_index && r.queue_id == queue_id)?;
        let slot = self.take_rx(at);
        self.flush();
        self.note_patience();
        Some(Garbage::Released(if_index, queue_id, slot.queue))
    }

    fn rx_at(&self, is: impl Fn(&RxSlot) -> bool) -> Option<usize> {
        self.dispatcher.rx.iter().position(is)
    }

    fn take_rx(&mut self, at: usize) -> RxSlot {
        let d = &mut self.dispatcher;
        let mut slot = d.rx.swap_remove(at);
        if let (Some(fd), true) = (slot.queue.fd(), slot.up) {
            drop(unwatch(&self.epoll, fd));
        }
        slot.queue.close(&mut d.pool);
        slot
    }

    fn flush(&mut self) {
        let d = &mut self.dispatcher;
        for tx in &mut d.tx {
            if let Some(q) = tx.queue.as_mut() {
                q.flush(&mut d.pool);
            }
        }
    }

    /// Sleeps until a queue has packets, a command comes, or something is due.
    fn sleep(&mut self) {
        self.flush();
        let d = &mut self.dispatcher;
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
        self.presence.lie_down();
        if d.inboxes.iter_mut().all(|i| i.is_empty()) {
            d.counters.sleeps.add(1);
            d.reader.offline();
            let readable = wait(&self.epoll, wait_ns);
            d.reader.online();
            if readable {
                self.presence.quiet();
            }
        }
        self.presence.get_up();
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
                    self.presence.ring_bell();
                    std::thread::sleep(std::time::Duration::from_micros(100));
                }
            }
        }
        self.presence.ring_bell();
    }

    /// Frees what the worker gave back, and says how many things that were. Queues that are to go on
    /// elsewhere are kept for [`take_released`](Self::take_released).
    pub fn collect_garbage(&mut self) -> usize {
        let mut n = 0;
        while let Some(garbage) = self.garbage.pop() {
            n += self.free(garbage);
        }
        n
    }

    fn free(&mut self, garbage: Garbage) -> usize {
        match garbage {
            Garbage::Released(if_index, queue_id, queue) => self.released.push(Released {
                if_index,
                queue_id,
                queue,
            }),
            Garbage::Switch(switch) => {
                return switch.garbage.into_iter().map(|g| self.free(g)).sum();
            }
            _ => {}
        }
        1
    }

    /// A receive queue that came back to be placed elsewhere, if it has by now.
    pub fn take_released(&mut self, if_index: u32, queue_id: usize) -> Option<Released> {
        self.collect_garbage();
        let is = |r: &Released| r.if_index == if_index && r.queue_id == queue_id;
        let at = self.released.iter().position(is)?;
        Some(self.released.swap_remove(at))
    }

    /// What others know of its thread: for hand-over to it.
    pub fn presence(&self) -> &Arc<Presence> {
        &self.presence
    }

    /// Whether its thread is there.
    pub fn is_alive(&self) -> bool {
        self.thread.as_ref().is_some_and(|t| !t.is_finished())
    }

    /// Ends the thread and frees everything it held.
    pub fn stop(&mut self) {
        if let Some(thread) = self.thread.take() {
            if self.commands.push(WorkerCommand::Stop).is_ok() || thread.is_finished() {
                self.presence.ring_bell();
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
    if n < 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::ENOSYS) {
        return wait_ms(epoll, ns);
    }
    n > 0
}

/// The same on kernels before 5.11, which wait in milliseconds only: rounded up, or it would not sleep.
#[cold]
fn wait_ms(epoll: &OwnedFd, ns: u64) -> bool {
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; 16];
    let ms = i32::try_from(ns.div_ceil(1_000_000)).unwrap_or(i32::MAX);
    // SAFETY: the pointer is to a local that lives through the call, the length is that of the array.
    let n = unsafe {
        libc::epoll_wait(
            epoll.as_raw_fd(),
            events.as_mut_ptr(),
            events.len() as i32,
            ms,
        )
    };
    n > 0
}

#[cfg(test)]
#[path = "worker_tests.rs"]
mod tests;
