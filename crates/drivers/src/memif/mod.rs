//! `memif`: packets to and from another process on this host through shared memory, protocol version 2.0.
//!
//! Speaks what libmemif, VPP's memif plug-in and DPDK's `net_memif` speak: a `SOCK_SEQPACKET` unix socket
//! over which the slave hands the master descriptors of shared memory and of eventfds, then rings of packet
//! descriptors in that memory. Follows libmemif's `memif.h`; the messages are in [`message`].
//!
//! | file | what |
//! |---|---|
//! | `message` | the control messages, bytes in and bytes out |
//! | `channel` | the unix sockets |
//! | `session` | one connection from greeting to traffic |
//! | `hub` | the control thread: who listens, who connects, retries |
//! | `link` | what control thread and workers share of one interface |
//! | `region`, `fault` | shared memory, and surviving that it is taken away |
//! | `ring`, `copy` | rings and descriptors in it; copying |
//! | `rx`, `tx` | a worker's queues |
//! | `doorbell` | waking a peer that sleeps |
//!
//! **The peer is not trusted.** It can write to the shared memory at any time: every index, length, offset
//! and region number is loaded once, checked and used from the copy; what a slave knows itself (where its
//! buffers are) it never reads back. A descriptor that leads nowhere costs that packet and is counted; a
//! ring whose indices are impossible costs the connection. A slave that asks for the same interface again
//! gets a fresh start.
//!
//! **Packets are copied**, once on each side. A packet stays in its worker's pool from receive to transmit,
//! which all nodes rely on; lending out pool memory would let a peer change headers after they were checked.

mod channel;
mod copy;
mod doorbell;
mod fault;
mod hub;
mod link;
pub mod message;
mod region;
mod ring;
mod rx;
mod session;
#[cfg(test)]
mod tests;
mod tx;

use std::any::Any;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parshall_device::{Device, DeviceError, DeviceInfo, Duplex, Queues};

pub use hub::Hub;
use link::Link;
use message::AddRing;
use ring::Ring;
use rx::MemifRx;
use tx::MemifTx;

/// Most queues of an interface in each direction.
pub const MAX_QUEUES: usize = 64;
/// Most descriptors of a ring.
pub const MAX_RING_SIZE: u16 = 1 << ring::MAX_LOG2;
/// Most bytes of a secret.
pub const MAX_SECRET: usize = 23;
/// Most bytes of a socket's path (`sun_path` of unix(7), with its end).
pub const MAX_SOCKET: usize = 107;
/// Range of the size of a buffer.
pub const BUFFER_SIZE: (u16, u16) = (64, 65_535);

/// Longest frame, in bytes: the largest IP packet and its header.
const MAX_FRAME: u32 = 65_535 + 14;
/// Smallest frame that must be possible: the smallest MTU of IPv4 (RFC 791).
const MIN_FRAME: u32 = 68 + 14;
/// Frame of an interface that was told nothing.
const DEFAULT_FRAME: u32 = 9000 + 14;

/// Which end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Role {
    /// Listens on the socket, and uses the slave's memory.
    #[default]
    Master,
    /// Connects to the socket, and makes the memory.
    Slave,
}

impl Role {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Role::Master => "master",
            Role::Slave => "slave",
        }
    }
}

/// How to make a memif interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemifConfig {
    /// Name of the interface, which the peer is told.
    pub name: String,
    /// Path of the socket; `@NAME` is an abstract one.
    pub socket: String,
    /// Number of the interface on that socket; both ends have the same.
    pub id: u32,
    /// Which end this is.
    pub role: Role,
    /// Descriptors of each ring, a power of two (a master takes the slave's).
    pub ring_size: u16,
    /// Bytes of each buffer (a master takes the slave's). Longer packets take several.
    pub buffer_size: u16,
    /// Rings to receive from, at most.
    pub rx_queues: usize,
    /// Rings to send to, at most. No more than there are workers are used.
    pub tx_queues: usize,
    /// Our MAC address.
    pub mac: [u8; 6],
    /// What a slave must know.
    pub secret: Option<String>,
}

impl MemifConfig {
    /// The usual sizes: rings of 1024, buffers of 2048 bytes, one queue each way.
    pub fn new(name: &str, socket: &str, id: u32, role: Role) -> MemifConfig {
        MemifConfig {
            name: name.into(),
            socket: socket.into(),
            id,
            role,
            ring_size: 1024,
            buffer_size: 2048,
            rx_queues: 1,
            tx_queues: 1,
            mac: [0x02, 0xFE, 0, 0, 0, 0],
            secret: None,
        }
    }

    /// Whether it can be made, as far as that can be said without trying.
    ///
    /// # Errors
    /// Says which value is wrong and what it may be.
    pub fn check(&self) -> Result<(), DeviceError> {
        let wrong = |what: String| Err(DeviceError(what));
        let queues = 1..=MAX_QUEUES;
        if !self.ring_size.is_power_of_two() || self.ring_size > MAX_RING_SIZE {
            return wrong(format!(
                "ring-size {}: a power of two up to {MAX_RING_SIZE} will do",
                self.ring_size
            ));
        }
        if self.buffer_size < BUFFER_SIZE.0 {
            return wrong(format!(
                "buffer-size {}: {} to {} bytes will do",
                self.buffer_size, BUFFER_SIZE.0, BUFFER_SIZE.1
            ));
        }
        if !queues.contains(&self.rx_queues) || !queues.contains(&self.tx_queues) {
            return wrong(format!(
                "{} rx-queues and {} tx-queues: 1 to {MAX_QUEUES} will do",
                self.rx_queues, self.tx_queues
            ));
        }
        if self.socket.is_empty() || self.socket.len() > MAX_SOCKET {
            return wrong(format!(
                "socket path of {} bytes: 1 to {MAX_SOCKET} will do",
                self.socket.len()
            ));
        }
        match &self.secret {
            Some(s) if s.is_empty() || s.len() > MAX_SECRET || s.contains('\0') => wrong(format!(
                "secret of {} bytes: 1 to {MAX_SECRET} without a zero will do",
                s.len()
            )),
            _ => Ok(()),
        }
    }

    fn log2_ring_size(&self) -> u8 {
        self.ring_size.max(1).ilog2() as u8
    }
}

/// A ring in use, to be looked at.
#[derive(Clone, Debug)]
struct RingStatus {
    receive: bool,
    index: u16,
    ring: Ring,
}

impl RingStatus {
    fn new(spec: &AddRing, receive: bool, ring: Ring) -> RingStatus {
        RingStatus {
            receive,
            index: spec.index,
            ring,
        }
    }
}

/// What is known of an interface's peer.
#[derive(Debug, Default)]
struct Status {
    peer_name: String,
    peer_interface: String,
    regions: Vec<usize>,
    rings: Vec<RingStatus>,
    connects: u64,
    last_end: Option<String>,
}

/// An interface as `show memif` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// How it was made.
    pub config: MemifConfig,
    /// Whether there is a connection.
    pub connected: bool,
    /// Program at the other end; empty without a connection.
    pub peer_name: String,
    /// Interface at the other end; empty without a connection.
    pub peer_interface: String,
    /// Bytes of each region.
    pub regions: Vec<usize>,
    /// The rings.
    pub rings: Vec<RingReport>,
    /// Connections so far.
    pub connects: u64,
    /// Why the last connection ended, or was refused; by whom is said in front.
    pub last_end: Option<String>,
    /// Packets thrown away because a descriptor led out of its region.
    pub bad_buffer: u64,
    /// Packets thrown away because they were shorter than an Ethernet header.
    pub too_short: u64,
    /// Packets thrown away because their chain had no end or was longer than 64 KiB.
    pub bad_chain: u64,
}

/// A ring as `show memif` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingReport {
    /// Whether this end reads it.
    pub receive: bool,
    /// Its number.
    pub index: u16,
    /// Descriptors.
    pub size: u16,
    /// Where the slave is.
    pub head: u16,
    /// Where the master is.
    pub tail: u16,
    /// Whether its reader wants to be woken.
    pub interrupts: bool,
}

/// A memif interface: the control side.
#[derive(Debug)]
pub struct Memif {
    link: Arc<Link>,
    hub: Hub,
    mac: [u8; 6],
    max_frame: AtomicU32,
    tx_queues: usize,
}

impl Memif {
    /// Makes the interface, down: connections begin with [`Device::set_admin`].
    ///
    /// # Errors
    /// When the configuration is out of range, its id is taken, or the socket cannot be listened on.
    pub fn open(hub: &Hub, config: MemifConfig) -> Result<Memif, DeviceError> {
        config.check()?;
        let mac = config.mac;
        let link = Link::new(config, hub.wake()).map_err(|e| DeviceError(e.to_string()))?;
        let link = Arc::new(link);
        hub.add(&link)?;
        Ok(Memif {
            link,
            hub: hub.clone(),
            mac,
            max_frame: AtomicU32::new(DEFAULT_FRAME),
            tx_queues: 0,
        })
    }

    /// The interface as it is now.
    pub fn report(&self) -> Report {
        let link = &self.link;
        let status = link.status();
        let rings = status.rings.iter().map(|r| RingReport {
            receive: r.receive,
            index: r.index,
            size: r.ring.size(),
            head: r.ring.head().load(Ordering::Relaxed),
            tail: r.ring.tail().load(Ordering::Relaxed),
            interrupts: r.ring.flags().load(Ordering::Relaxed) & ring::MASK_INTERRUPT == 0,
        });
        Report {
            connected: link.up.load(Ordering::Acquire),
            peer_name: status.peer_name.clone(),
            peer_interface: status.peer_interface.clone(),
            regions: status.regions.clone(),
            rings: rings.collect(),
            connects: status.connects,
            last_end: status.last_end.clone(),
            bad_buffer: link.refused.bad_buffer.load(Ordering::Relaxed),
            too_short: link.refused.too_short.load(Ordering::Relaxed),
            bad_chain: link.refused.bad_chain.load(Ordering::Relaxed),
            config: link.config.clone(),
        }
    }
}

impl Device for Memif {
    fn info(&self) -> DeviceInfo {
        let c = &self.link.config;
        DeviceInfo {
            kind: "memif",
            mac: self.mac,
            max_frame: self.max_frame.load(Ordering::Relaxed),
            speed: 0,
            duplex: Duplex::Unknown,
            link_up: self.link.up.load(Ordering::Acquire),
            os_index: None,
            rx_queues: c.rx_queues,
            tx_queues: self.tx_queues,
            detail: format!("{} of id {} on socket {}", c.role.name(), c.id, c.socket),
        }
    }

    fn queues(&mut self, if_index: u32, workers: usize) -> Result<Queues, DeviceError> {
        let mut queues = Queues::default();
        for n in 0..self.link.config.rx_queues {
            let rx = MemifRx::new(self.link.clone(), n, if_index);
            queues.rx.push(Box::new(rx));
        }
        self.tx_queues = self.link.config.tx_queues.min(workers);
        for n in 0..self.tx_queues {
            let tx = MemifTx::new(self.link.clone(), n);
            queues.tx.push(Box::new(tx));
        }
        Ok(queues)
    }

    fn set_admin(&mut self, up: bool) -> Result<(), DeviceError> {
        self.hub.admin(&self.link, up)
    }

    fn set_mac(&mut self, mac: [u8; 6]) -> Result<(), DeviceError> {
        // The peer is not told: it learns the address by ARP like any neighbour's.
        self.mac = mac;
        Ok(())
    }

    fn set_max_frame(&mut self, bytes: u32) -> Result<(), DeviceError> {
        if !(MIN_FRAME..=MAX_FRAME).contains(&bytes) {
            return Err(DeviceError(format!(
                "cannot carry frames of {bytes} bytes on {}: the range is {MIN_FRAME} to {MAX_FRAME}",
                self.link.config.name
            )));
        }
        self.max_frame.store(bytes, Ordering::Relaxed);
        Ok(())
    }

    fn set_promiscuous(&mut self, _on: bool) -> Result<(), DeviceError> {
        // A cable has no filter: all that the peer sends arrives.
        Ok(())
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

impl Drop for Memif {
    fn drop(&mut self) {
        // The thread is there as long as a hub is, and this holds one.
        let _ = self.hub.remove(&self.link);
    }
}

/// Adds one to an eventfd of ours.
fn signal(fd: &OwnedFd) {
    let one = 1u64.to_ne_bytes();
    // SAFETY: eight bytes from a local; a full counter makes it fail, which is as good as signalled.
    unsafe { libc::write(fd.as_raw_fd(), one.as_ptr().cast(), one.len()) };
}
