//! Hand-over between workers, for devices with fewer transmit queues than there are workers.
//!
//! A transmit queue is called by one worker, its owner. A worker without one has an [`Outbox`] in its place:
//! it copies the packets into a ring that only it writes and only the owner reads, and frees its buffers.
//! Each turn the owner empties its [`Inbox`] into buffers of its own and sends them. No lock, no line that
//! two workers write, and no buffer ever leaves its worker's pool; the price is one copy of those packets
//! that leave by another worker's queue.
//!
//! Order: what one worker hands over stays in order. Losses: a full ring is a full device to the sender;
//! what the owner cannot send (no buffer, refused by the device, interface down) is told to the sender, who
//! counts it with its next burst, as a device does that finds out late. So every worker's own sums hold.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use parshall_buffer::{BufferIndex, DATA_SIZE, FRAME_SIZE, Pool};
use parshall_device::{TxBurst, TxQueue};
use parshall_ring::{Consumer, Producer, Sleeper, ring};

/// Slots of a ring: pieces of up to [`DATA_SIZE`] bytes that wait for the owner.
const SLOTS: usize = 1024;
/// Longest frame that can be handed over: the largest IP packet and the headers around it.
const LONGEST: usize = 65_535 + 64;

/// What others know of a worker's thread: its number, and how to wake it.
pub struct Presence {
    /// The kernel's number of the thread; 0 until it runs.
    tid: AtomicI32,
    /// It is about to sleep, or asleep.
    sleeper: Sleeper,
    wake: OwnedFd,
}

impl Presence {
    pub(crate) fn new(wake: OwnedFd) -> Presence {
        Presence {
            tid: AtomicI32::new(0),
            sleeper: Sleeper::new(),
            wake,
        }
    }

    pub(crate) fn set_tid(&self, tid: i32) {
        self.tid.store(tid, Ordering::Relaxed);
    }

    /// The kernel's number of the thread, once it runs.
    pub fn tid(&self) -> Option<i32> {
        Some(self.tid.load(Ordering::Relaxed)).filter(|t| *t != 0)
    }

    pub(crate) fn fd(&self) -> i32 {
        self.wake.as_raw_fd()
    }

    /// Says that the worker is about to sleep. It must look at its inboxes after this and before it sleeps:
    /// then either it sees what was put there, or whoever put it there sees that it sleeps.
    pub(crate) fn lie_down(&self) {
        self.sleeper.lie_down();
    }

    pub(crate) fn get_up(&self) {
        self.sleeper.get_up();
    }

    /// Wakes the worker, whatever it does.
    pub(crate) fn ring_bell(&self) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: eight bytes from a local; a full counter makes it fail, which is as good as rung.
        unsafe { libc::write(self.fd(), one.as_ptr().cast(), one.len()) };
    }

    /// Wakes the worker if it sleeps; called after something was put into one of its inboxes.
    fn nudge(&self) {
        if self.sleeper.must_be_woken() {
            self.ring_bell();
        }
    }

    /// Forgets that the bell was rung.
    pub(crate) fn quiet(&self) {
        let mut count = [0u8; 8];
        // SAFETY: eight bytes into a local; the descriptor does not block.
        unsafe { libc::read(self.fd(), count.as_mut_ptr().cast(), count.len()) };
    }
}

/// A piece of a frame.
struct Piece {
    len: u16,
    first: bool,
    last: bool,
    bytes: [u8; DATA_SIZE],
}

impl Default for Piece {
    fn default() -> Self {
        Piece {
            len: 0,
            first: false,
            last: false,
            bytes: [0; DATA_SIZE],
        }
    }
}

/// Frames that the owner could not send, on a line of its own: only the owner writes it.
#[derive(Default)]
#[repr(align(128))]
struct Lost(AtomicU64);

/// The sender's side: stands in the place of a transmit queue.
pub struct Outbox {
    ring: Producer<Piece>,
    owner: Arc<Presence>,
    lost: Arc<Lost>,
    lost_told: u64,
}

/// The owner's side of one sender's ring.
pub struct Inbox {
    /// Interface whose queue the packets are for.
    pub if_index: u32,
    ring: Consumer<Piece>,
    lost: Arc<Lost>,
    /// A frame of several pieces while it is put together.
    joined: Vec<u8>,
    /// Taken from the ring and not yet taken by the device.
    waiting: Vec<BufferIndex>,
}

/// A way for a worker to send on interface `if_index` through the queue of the worker `owner`.
pub fn handoff(if_index: u32, owner: Arc<Presence>) -> (Outbox, Inbox) {
    let (sender, receiver) = ring(SLOTS);
    let lost = Arc::new(Lost::default());
    let outbox = Outbox {
        ring: sender,
        owner,
        lost: lost.clone(),
        lost_told: 0,
    };
    let inbox = Inbox {
        if_index,
        ring: receiver,
        lost,
        joined: Vec::with_capacity(LONGEST),
        waiting: Vec::with_capacity(FRAME_SIZE),
    };
    (outbox, inbox)
}

impl Outbox {
    /// Puts one packet into the ring; false when it does not fit now. What was put in of it until then is
    /// thrown away by the owner when the next frame begins.
    fn put(&mut self, pool: &Pool, b: BufferIndex) -> bool {
        let (mut first, mut fits) = (true, true);
        let ring = &mut self.ring;
        let mut left = pool.meta(b).total_len() as usize;
        pool.for_each_part(b, |part| {
            // By pieces: a part can be longer than one, with headers pushed in front of full data.
            for bytes in part.chunks(DATA_SIZE) {
                left -= bytes.len().min(left);
                // Asked first: the ring counts an attempt on a full one as a loss, which it is not here.
                fits = fits && ring.has_room();
                let last = left == 0;
                fits = fits
                    && ring.write(|slot| {
                        slot.bytes[..bytes.len()].copy_from_slice(bytes);
                        (slot.len, slot.first, slot.last) = (bytes.len() as u16, first, last);
                    });
                first = false;
            }
        });
        fits
    }
}

impl TxQueue for Outbox {
    fn transmit(&mut self, pool: &mut Pool, packets: &[BufferIndex], _now: u64) -> TxBurst {
        let mut taken = 0;
        for &b in packets {
            if !self.put(pool, b) {
                break;
            }
            taken += 1;
        }
        pool.free_bulk(&packets[..taken]);
        self.owner.nudge();
        // No more than were taken now: the rest is told with later bursts.
        let lost = self.lost.0.load(Ordering::Relaxed) - self.lost_told;
        let errors = taken.min(usize::try_from(lost).unwrap_or(usize::MAX));
        self.lost_told += errors as u64;
        TxBurst { taken, errors }
    }
}

impl Inbox {
    /// Whether anything waits.
    pub(crate) fn is_empty(&mut self) -> bool {
        self.waiting.is_empty() && self.ring.is_empty()
    }

    fn lose(&self, n: u64) {
        let lost = &self.lost.0;
        lost.store(lost.load(Ordering::Relaxed) + n, Ordering::Relaxed);
    }

    /// Sends what waited when it was called, through `queue` (`None`: there is none or it is down, all of it
    /// is lost). Stops when the device is full. Says how many packets went.
    pub(crate) fn serve(
        &mut self,
        pool: &mut Pool,
        mut queue: Option<&mut (dyn TxQueue + 'static)>,
        now: u64,
    ) -> usize {
        let mut pieces = self.ring.len();
        let mut sent = 0;
        loop {
            while pieces > 0 && self.waiting.len() < FRAME_SIZE {
                pieces -= 1;
                self.take(pool);
            }
            if self.waiting.is_empty() {
                return sent;
            }
            let Some(queue) = queue.as_deref_mut() else {
                self.lose(self.waiting.len() as u64);
                pool.free_bulk(&self.waiting);
                self.waiting.clear();
                continue;
            };
            let burst = queue.transmit(pool, &self.waiting, now);
            let taken = burst.taken.min(self.waiting.len());
            self.lose(burst.errors.min(taken) as u64);
            self.waiting.drain(..taken);
            sent += taken;
            if !self.waiting.is_empty() {
                return sent;
            }
        }
    }

    /// Takes one piece from the ring; a frame that it completes waits then.
    fn take(&mut self, pool: &mut Pool) {
        let joined = &mut self.joined;
        let made = self.ring.read(|piece| {
            let bytes = piece.bytes.get(..usize::from(piece.len))?;
            if piece.first && piece.last {
                joined.clear();
                return Some(pool.packet_from(bytes, parshall_buffer::IF_NONE));
            }
            if piece.first {
                joined.clear();
            }
            if joined.len() + bytes.len() <= LONGEST {
                joined.extend_from_slice(bytes);
            }
            piece
                .last
                .then(|| pool.packet_from(joined, parshall_buffer::IF_NONE))
        });
        match made.flatten() {
            Some(Some(b)) => self.waiting.push(b),
            Some(None) => self.lose(1),
            None => {}
        }
    }

    /// Frees what waits, before the inbox goes away.
    pub(crate) fn close(&mut self, pool: &mut Pool) {
        pool.free_bulk(&self.waiting);
        self.waiting.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::fd::FromRawFd;

    /// Takes at most `.0` packets and keeps their bytes; refuses those that start with 0xEE.
    struct Device(usize, Vec<Vec<u8>>);
    impl TxQueue for Device {
        fn transmit(&mut self, pool: &mut Pool, packets: &[BufferIndex], _now: u64) -> TxBurst {
            let taken = packets.len().min(self.0);
            self.0 -= taken;
            let mut errors = 0;
            for &b in &packets[..taken] {
                match pool.to_vec(b) {
                    bytes if bytes[0] == 0xEE => errors += 1,
                    bytes => self.1.push(bytes),
                }
            }
            pool.free_bulk(&packets[..taken]);
            TxBurst { taken, errors }
        }
    }

    fn presence() -> Arc<Presence> {
        // SAFETY: makes a new descriptor that nobody else knows.
        let fd = unsafe { OwnedFd::from_raw_fd(libc::eventfd(0, libc::EFD_NONBLOCK)) };
        Arc::new(Presence::new(fd))
    }

    fn rung(p: &Presence) -> bool {
        let mut count = [0u8; 8];
        // SAFETY: eight bytes into a local; the descriptor does not block.
        unsafe { libc::read(p.fd(), count.as_mut_ptr().cast(), 8) == 8 }
    }

    fn frame(i: u32, len: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..len).map(|k| (k as u32 ^ i) as u8).collect();
        bytes[0] = 1;
        bytes[1..5].copy_from_slice(&i.to_be_bytes());
        bytes
    }

    fn packets(pool: &mut Pool, frames: &[Vec<u8>]) -> Vec<BufferIndex> {
        let make = |f: &Vec<u8>| pool.packet_from(f, 1).unwrap();
        frames.iter().map(make).collect()
    }

    #[test]
    fn frames_cross_whole_and_in_order_between_two_pools() {
        let (mut out, mut inbox) = handoff(1, presence());
        let (mut a, mut b) = (Pool::new(512).unwrap(), Pool::new(512).unwrap());
        let lengths = [60, DATA_SIZE, DATA_SIZE + 1, 9000, 65_535, 64];
        let frames: Vec<_> = (0..).zip(lengths).map(|(i, n)| frame(i, n)).collect();
        let sent = packets(&mut a, &frames);
        assert_eq!(out.transmit(&mut a, &sent, 0), TxBurst::all(6));
        let mut device = Device(100, Vec::new());
        assert_eq!(inbox.serve(&mut b, Some(&mut device), 0), 6);
        assert!(device.1 == frames && inbox.is_empty());
        assert_eq!((a.available(), b.available()), (512, 512));
    }

    #[test]
    fn a_full_ring_is_a_full_device_and_half_a_frame_is_never_seen() {
        let (mut out, mut inbox) = handoff(1, presence());
        let (mut a, mut b) = (Pool::new(2048).unwrap(), Pool::new(2048).unwrap());
        // Five pieces each: 204 fit, the 205th breaks off.
        let long = frame(7, 4 * DATA_SIZE + 100);
        let mut device = Device(usize::MAX, Vec::new());
        for _ in 0..204 {
            let one = packets(&mut a, std::slice::from_ref(&long));
            assert_eq!(out.transmit(&mut a, &one, 0).taken, 1);
        }
        let one = packets(&mut a, std::slice::from_ref(&long));
        assert_eq!(out.transmit(&mut a, &one, 0).taken, 0);
        inbox.serve(&mut b, Some(&mut device), 0);
        let next = packets(&mut a, &[frame(8, 60)]);
        assert_eq!(out.transmit(&mut a, &next, 0).taken, 1);
        inbox.serve(&mut b, Some(&mut device), 0);
        assert_eq!(device.1.len(), 205);
        assert!(device.1[..204].iter().all(|f| *f == long) && device.1[204] == frame(8, 60));
        a.free_bulk(&one);
        assert_eq!((a.available(), b.available()), (2048, 2048));
    }

    #[test]
    fn what_the_owner_cannot_send_is_told_to_the_sender() {
        let (mut out, mut inbox) = handoff(1, presence());
        let (mut a, mut b) = (Pool::new(512).unwrap(), Pool::new(512).unwrap());
        let mut frames: Vec<_> = (0..10).map(|i| frame(i, 60)).collect();
        frames[3][0] = 0xEE;
        let sent = packets(&mut a, &frames);
        out.transmit(&mut a, &sent, 0);
        // Down: six more are lost.
        let mut device = Device(4, Vec::new());
        assert_eq!(inbox.serve(&mut b, Some(&mut device), 0), 4);
        assert!(!inbox.is_empty());
        inbox.serve(&mut b, None, 0);
        let more = packets(&mut a, &frames[..5]);
        let five = TxBurst {
            taken: 5,
            errors: 5,
        };
        assert_eq!(out.transmit(&mut a, &more, 0), five);
        let more = packets(&mut a, &frames[..5]);
        assert_eq!(out.transmit(&mut a, &more, 0).errors, 2);
        inbox.serve(&mut b, None, 0);
        inbox.close(&mut b);
        assert_eq!((a.available(), b.available()), (512, 512));
    }

    #[test]
    fn only_a_sleeper_is_woken() {
        let p = presence();
        let (mut out, mut inbox) = handoff(1, p.clone());
        let mut a = Pool::new(64).unwrap();
        let one = packets(&mut a, &[frame(0, 60)]);
        out.transmit(&mut a, &one, 0);
        assert!(!rung(&p));
        p.lie_down();
        let one = packets(&mut a, &[frame(0, 60)]);
        out.transmit(&mut a, &one, 0);
        assert!(rung(&p) && !inbox.is_empty());
        p.get_up();
        let one = packets(&mut a, &[frame(0, 60)]);
        out.transmit(&mut a, &one, 0);
        assert!(!rung(&p));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

        /// Whatever sizes come and whenever the owner serves, and however little its device takes: what
        /// arrives is a prefix of what was taken, whole and in order, and nothing stays behind.
        #[test]
        fn nothing_is_lost_doubled_or_reordered(
            steps in proptest::collection::vec((1usize..8, 5usize..12_000, 0usize..20), 1..60),
        ) {
            let (mut out, mut inbox) = handoff(1, presence());
            let (mut a, mut b) = (Pool::new(1024).unwrap(), Pool::new(4096).unwrap());
            let (mut device, mut taken, mut i) = (Device(0, Vec::new()), Vec::new(), 0);
            for (n, len, room) in steps {
                let frames: Vec<_> = (0..n).map(|k| { i += 1; frame(i, len + k) }).collect();
                let sent = packets(&mut a, &frames);
                let burst = out.transmit(&mut a, &sent, 0);
                a.free_bulk(&sent[burst.taken..]);
                taken.extend_from_slice(&frames[..burst.taken]);
                device.0 = room;
                inbox.serve(&mut b, Some(&mut device), 0);
            }
            device.0 = usize::MAX;
            inbox.serve(&mut b, Some(&mut device), 0);
            inbox.serve(&mut b, Some(&mut device), 0);
            prop_assert_eq!(&device.1, &taken);
            prop_assert_eq!((a.available(), b.available()), (1024, 4096));
        }
    }
}
