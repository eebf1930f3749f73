//! What the control thread of memif and the workers share of one interface.
//!
//! The workers' queues live as long as the interface; connections come and go. Each queue has a place where
//! the control thread puts the ring of the present connection and takes it away again. A place is a mutex
//! that its worker only ever *tries*: nobody else wants it but at the moment of a change (or another
//! worker, where the peer has fewer rings than we have queues), so a worker pays one uncontended exchange a
//! burst.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use super::rx::RxRing;
use super::tx::TxRing;
use super::{MemifConfig, Status};

/// Tries for a ring that another worker is sending through.
const PATIENCE: u32 = 4000;

/// What is wrong with a ring: the end of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Trouble {
    /// More packets than the ring has places.
    Index = 1,
    /// A descriptor to be filled that lies outside of its region.
    Buffer = 2,
}

impl Trouble {
    /// What the peer is told.
    pub fn text(code: u8) -> Option<&'static str> {
        match code {
            0 => None,
            1 => Some("ring index out of range"),
            _ => Some("buffer outside of its region"),
        }
    }
}

/// What came in and could not be used, since the interface was made.
#[derive(Debug, Default)]
pub(super) struct Refused {
    /// Descriptors that point outside of a region.
    pub bad_buffer: AtomicU64,
    /// Packets shorter than an Ethernet header.
    pub too_short: AtomicU64,
    /// Chains that do not end, or longer than 64 KiB.
    pub bad_chain: AtomicU64,
}

impl Refused {
    #[cold]
    pub fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// A place for a ring.
#[derive(Debug)]
pub(super) struct Place<T>(Mutex<Option<T>>);

impl<T> Default for Place<T> {
    fn default() -> Self {
        Place(Mutex::new(None))
    }
}

impl<T> Place<T> {
    /// Puts a ring there, or takes it away. Waits for a worker's burst to end.
    pub fn put(&self, ring: Option<T>) {
        // Unmapping is not for the time in which the worker cannot go on.
        drop(self.swap(ring));
    }

    fn swap(&self, ring: Option<T>) -> Option<T> {
        let mut place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *place, ring)
    }

    /// The ring, unless somebody else is at it.
    #[inline(always)]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, Option<T>>> {
        match self.0.try_lock() {
            Ok(g) => Some(g),
            Err(TryLockError::Poisoned(g)) => Some(g.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// The ring, after at most some microseconds of waiting for who is at it.
    #[inline(always)]
    pub fn lock_soon(&self) -> Option<MutexGuard<'_, Option<T>>> {
        for _ in 0..PATIENCE {
            if let Some(g) = self.try_lock() {
                return Some(g);
            }
            std::hint::spin_loop();
        }
        None
    }
}

/// A receive queue's place, with the descriptor its worker sleeps on.
#[derive(Debug)]
pub(super) struct RxPlace {
    pub ring: Place<RxRing>,
    /// An epoll instance that the eventfd of the present connection is in. Edge-triggered, and never read:
    /// an eventfd of the peer's is asked nothing that could block.
    pub sleep: OwnedFd,
}

impl RxPlace {
    fn new() -> std::io::Result<RxPlace> {
        // SAFETY: epoll_create1 takes no pointers.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(std::io::Error::last_os_error());
        }
        Ok(RxPlace {
            ring: Place::default(),
            // SAFETY: the call just made this descriptor and nobody else knows it.
            sleep: unsafe { OwnedFd::from_raw_fd(fd) },
        })
    }

    /// Has the sleeper listen to a connection's eventfd, or no longer.
    pub fn listen(&self, doorbell: BorrowedFd<'_>, on: bool) -> std::io::Result<()> {
        let mut event = libc::epoll_event {
            events: (libc::EPOLLIN | libc::EPOLLET) as u32,
            u64: 0,
        };
        let op = if on {
            libc::EPOLL_CTL_ADD
        } else {
            libc::EPOLL_CTL_DEL
        };
        let (epoll, fd) = (self.sleep.as_raw_fd(), doorbell.as_raw_fd());
        // SAFETY: `event` lives through the call.
        match unsafe { libc::epoll_ctl(epoll, op, fd, &raw mut event) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    }

    /// Takes the ring away. The peer has its eventfd too, so closing ours would not end the listening.
    pub fn take_away(&self) {
        if let Some(ring) = self.ring.swap(None) {
            // It was listened to since it is there; nothing could be done about a refusal.
            let _ = self.listen(ring.doorbell().as_fd(), false);
        }
    }

    /// Forgets signals given so far.
    pub fn hush(&self) {
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        // SAFETY: one event into a local, without waiting.
        unsafe { libc::epoll_wait(self.sleep.as_raw_fd(), &raw mut event, 1, 0) };
    }
}

/// An interface.
#[derive(Debug)]
pub(super) struct Link {
    pub config: MemifConfig,
    pub rx: Vec<RxPlace>,
    pub tx: Vec<Place<TxRing>>,
    /// How many of `tx` have a ring.
    pub tx_rings: AtomicUsize,
    /// Whether there is a connection.
    pub up: AtomicBool,
    pub status: Mutex<Status>,
    pub refused: Refused,
    trouble: AtomicU8,
    /// Wakes the control thread.
    wake: Arc<OwnedFd>,
}

impl Link {
    /// An interface without a connection.
    ///
    /// # Errors
    /// When the system refuses a descriptor.
    pub fn new(config: MemifConfig, wake: Arc<OwnedFd>) -> std::io::Result<Link> {
        let rx = (0..config.rx_queues).map(|_| RxPlace::new());
        let rx = rx.collect::<Result<_, _>>()?;
        let tx = (0..config.tx_queues).map(|_| Place::default()).collect();
        Ok(Link {
            rx,
            tx,
            tx_rings: AtomicUsize::new(0),
            up: AtomicBool::new(false),
            status: Mutex::new(Status::default()),
            refused: Refused::default(),
            trouble: AtomicU8::new(0),
            wake,
            config,
        })
    }

    /// Says that the peer's rings are nonsense; the control thread ends the connection.
    #[cold]
    pub fn complain(&self, what: Trouble) {
        self.trouble.store(what as u8, Ordering::Relaxed);
        super::signal(&self.wake);
    }

    /// What a worker complained of, if any did since the last time this was asked.
    pub fn take_trouble(&self) -> Option<&'static str> {
        Trouble::text(self.trouble.swap(0, Ordering::Relaxed))
    }

    /// What `show memif` says of the connection.
    pub fn status(&self) -> MutexGuard<'_, Status> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
