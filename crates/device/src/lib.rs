//! What a driver offers to the rest of the house.
//!
//! A driver comes in three parts. The [`Device`] is the control side: one owner, the control thread,
//! sets state, MTU and addresses and asks what is there. Its receive and transmit queues are the data
//! side: each is moved into one worker and used by it alone. Nothing here names a driver or a protocol.
//!
//! # Queues and workers
//!
//! A device says how many queues it has by how many it hands out; who polls them is control's business.
//!
//! - **Receive**: any number from one on, in the device's own order, which is the order of their numbers in
//!   `show interface rx-placement`. Every one must be polled by somebody, so control places them all: the n-th
//!   queue on worker n where the device has as many as there are workers, else each on the worker with the
//!   fewest. A queue can move to another worker between two
//!   polls: it is told so by [`RxQueue::close`], after which it holds no buffer, and the next poll brings
//!   another worker's pool. A packet belongs to the pool of the worker that polled it.
//! - **Transmit**: one to `workers`. With as many as workers each has its own. With fewer, worker `w` owns
//!   queue `w` while there are any, and the others hand copies of their packets to an owner through a ring
//!   for each pair: a queue is never called by two workers, needs no lock, and may keep the buffers it is
//!   given. (VPP takes a spin lock on a shared queue instead; there a worker that is descheduled inside it
//!   stops the others, and a queue that keeps buffers would have to know whose they are.)

mod hardware;

use std::any::Any;
use std::fmt;
use std::os::fd::RawFd;
use std::sync::Arc;

use parshall_buffer::{BufferIndex, Frame, Pool};

pub use hardware::{Hardware, HardwareState, MacErrors};

/// What one [`RxQueue::poll`] brought in besides the packets themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RxBurst {
    /// Bytes of all packets added to the frame, chains included.
    pub bytes: u64,
    /// Packets the device or the kernel lost before we saw them, since the last poll.
    pub missed: u64,
    /// Packets taken from the device and thrown away because no buffer was free.
    pub no_buffer: u64,
    /// Packets taken from the device and thrown away as unusable (shorter than a link-layer header).
    pub errors: u64,
}

/// A receive queue, owned by one worker at a time.
pub trait RxQueue: Send {
    /// Adds received packets to `frame` (which is empty), never waiting.
    ///
    /// Every packet added starts at its link-layer header, is at least 14 bytes long, and has fresh
    /// metadata: `*pool.meta_mut(b) = Meta::received(offset, len, rx_if)`, plus chain fields. `now` is
    /// the worker's clock in nanoseconds (monotonic).
    fn poll(&mut self, pool: &mut Pool, frame: &mut Frame, now: u64) -> RxBurst;

    /// Descriptor that becomes readable when packets wait; `None` for queues that make their own, which
    /// then cannot be in interrupt mode. The same one as long as the queue lives.
    fn fd(&self) -> Option<RawFd> {
        None
    }
    /// When the queue wants to be polled next although its descriptor says nothing (monotonic ns):
    /// a paced generator. `None` = no wish; a time in the past = keep polling.
    fn due(&self, _now: u64) -> Option<u64> {
        None
    }

    /// Gives all buffers of `pool` back that the queue holds, because it goes to another worker or away.
    /// The next poll, if there is one, comes with another pool. Packets that the device holds stay there.
    fn close(&mut self, _pool: &mut Pool) {}
}

/// A transmit queue, owned by one worker.
pub trait TxQueue: Send {
    /// Takes packets in order and says how many: all, or fewer when the device is full. Those taken are
    /// the queue's to free (at once, or when the device is done); the rest stays the caller's.
    fn transmit(&mut self, pool: &mut Pool, packets: &[BufferIndex], now: u64) -> TxBurst;

    /// The same, for a caller that has just looked at all the packets: a queue that wants to know these
    /// things itself does not have to look again.
    fn transmit_known(
        &mut self,
        pool: &mut Pool,
        packets: &[BufferIndex],
        _known: TxKnown,
        now: u64,
    ) -> TxBurst {
        self.transmit(pool, packets, now)
    }

    /// Frees what the device has finished with, and gets waiting work going; called once in a while.
    fn flush(&mut self, _pool: &mut Pool) {}

    /// Gives up all buffers before the queue goes away.
    fn close(&mut self, pool: &mut Pool) {
        self.flush(pool);
    }
}

/// What is known of the packets of one [`TxQueue::transmit_known`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxKnown {
    /// Bytes of all packets, chains included.
    pub bytes: u64,
    /// At least one packet is chained.
    pub chained: bool,
}

/// Outcome of one [`TxQueue::transmit`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxBurst {
    /// Packets taken, from the front.
    pub taken: usize,
    /// Of those taken, how many the device refused for good (already freed).
    pub errors: usize,
}

impl TxBurst {
    /// All `n` taken, none failed.
    pub fn all(n: usize) -> TxBurst {
        TxBurst {
            taken: n,
            errors: 0,
        }
    }
}

/// Duplex of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Duplex {
    /// Not known.
    #[default]
    Unknown,
    /// Both ways at once.
    Full,
    /// One way at a time.
    Half,
}

/// What is known of a device now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Kind, in VPP's words: "pg", "virtio" (taps), "af-packet", "Loopback", "pcap".
    pub kind: &'static str,
    /// Ethernet address.
    pub mac: [u8; 6],
    /// Largest frame without FCS that the device carries, in bytes.
    pub max_frame: u32,
    /// Speed in bits per second, 0 = unknown.
    pub speed: u64,
    /// Duplex.
    pub duplex: Duplex,
    /// Whether the link is there.
    pub link_up: bool,
    /// Index of the Linux interface behind it, if there is one.
    pub os_index: Option<u32>,
    /// Receive queues.
    pub rx_queues: usize,
    /// Transmit queues.
    pub tx_queues: usize,
    /// One line for `show hardware-interfaces`.
    pub detail: String,
}

/// The control side of a device. Dropping it releases what it holds of the system; its queues have
/// been dropped before.
pub trait Device: Send {
    /// What is known of the device now (asks the system where that is needed).
    fn info(&self) -> DeviceInfo;

    /// Takes the data side out, for a router of `workers` workers: at least one receive queue, and one to
    /// `workers` transmit queues (see "Queues and workers" above). Where the configuration does not say how
    /// many, a device that can choose makes one of each for every worker. `if_index` is what packets are
    /// stamped with. Called once.
    ///
    /// # Errors
    /// When the system refuses a queue.
    fn queues(&mut self, if_index: u32, workers: usize) -> Result<Queues, DeviceError>;

    /// Brings the device up or down.
    ///
    /// # Errors
    /// When the system refuses.
    fn set_admin(&mut self, up: bool) -> Result<(), DeviceError>;

    /// Sets the Ethernet address.
    ///
    /// # Errors
    /// When the device cannot or the system refuses.
    fn set_mac(&mut self, mac: [u8; 6]) -> Result<(), DeviceError>;

    /// Sets the largest frame (without FCS) to carry.
    ///
    /// # Errors
    /// When it is out of the device's range or the system refuses.
    fn set_max_frame(&mut self, bytes: u32) -> Result<(), DeviceError>;

    /// Receives all frames, or only those for its own address, multicast and broadcast.
    ///
    /// # Errors
    /// When the system refuses.
    fn set_promiscuous(&mut self, on: bool) -> Result<(), DeviceError>;

    /// The hardware behind it, where there is some that can be asked. What it gives lives on its own.
    fn hardware(&self) -> Option<Arc<dyn Hardware>> {
        None
    }

    /// The device itself, for a `show` command of its kind that asks for more than [`info`](Self::info)
    /// says; `None` where there is no such command.
    fn as_any(&self) -> Option<&dyn Any> {
        None
    }
}

/// The data side of a device.
#[derive(Default)]
pub struct Queues {
    /// Receive queues, in the order of their numbers.
    pub rx: Vec<Box<dyn RxQueue>>,
    /// Transmit queues: one a worker, or fewer, which are then shared by hand-over.
    pub tx: Vec<Box<dyn TxQueue>>,
}

impl fmt::Debug for Queues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Queues {{ rx: {}, tx: {} }}",
            self.rx.len(),
            self.tx.len()
        )
    }
}

/// Why a device did not do what it was asked: what was tried, on what, and what would help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceError(pub String);

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DeviceError {}
