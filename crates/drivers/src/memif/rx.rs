//! Receiving from a ring: copies packets out of shared memory into pool buffers.
//!
//! In pieces of 32 descriptors: first all are read and checked, and their buffers asked for, then the bytes
//! are copied. So the waits for cache lines that the other core has just written overlap.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use parshall_buffer::{BufferIndex, DATA_SIZE, FRAME_SIZE, Flags, Frame, HEADROOM, Meta, Pool};
use parshall_device::{RxBurst, RxQueue};

use super::copy::{copy, fetch_to_read, fetch_to_write};
use super::link::{Link, Refused, Trouble};
use super::ring::{Filled, MASK_INTERRUPT, NEXT, PER_LINE, Ring, Side};

/// Descriptors looked at together.
const PIECE: usize = 32;
/// Bytes of an Ethernet header, the least a packet has.
const ETHERNET: u32 = 14;
/// Longest packet that is put together from a chain.
const LONGEST: u32 = super::MAX_FRAME + 8;
/// Looks at the ring after signals were switched on: a peer that does not order its two accesses as we do
/// may have decided not to signal before it saw the switch, and published a moment after.
const LAST_LOOKS: u32 = 32;

/// The reading end of a ring.
#[derive(Debug)]
pub(super) struct RxRing {
    ring: Ring,
    side: Side,
    /// Descriptors read so far.
    next: u16,
    /// Slave: buffers given to the peer so far.
    given: u16,
    /// The peer may signal: its packets are waited for.
    armed: bool,
    /// Nonsense was found; nothing is read any more.
    dead: bool,
    /// Rung by the peer. Kept open as long as somebody may sleep on it.
    doorbell: OwnedFd,
}

/// A packet that can be copied at once.
#[derive(Clone, Copy)]
struct Ready {
    at: *const u8,
    len: u32,
}

impl RxRing {
    /// The reading end, at the start of a connection. A slave's gives all buffers to the peer.
    pub fn new(ring: Ring, side: Side, doorbell: OwnedFd) -> RxRing {
        let mut rx = RxRing {
            ring,
            side,
            next: 0,
            given: 0,
            armed: true,
            dead: false,
            doorbell,
        };
        match side {
            Side::Master => rx.ring.tail().store(0, Ordering::Release),
            Side::Slave { .. } => rx.give(rx.ring.size()),
        }
        rx
    }

    /// What the peer rings.
    pub fn doorbell(&self) -> &OwnedFd {
        &self.doorbell
    }

    /// Descriptors that the peer has filled and we have not read.
    #[inline(always)]
    fn waiting(&mut self, link: &Link) -> u16 {
        let (theirs, most) = match self.side {
            Side::Master => (self.ring.head(), self.ring.size()),
            Side::Slave { .. } => (self.ring.tail(), self.given.wrapping_sub(self.next)),
        };
        let n = theirs.load(Ordering::Acquire).wrapping_sub(self.next);
        if n > most || self.dead {
            if !self.dead {
                self.dead = true;
                link.complain(Trouble::Index);
            }
            return 0;
        }
        n
    }

    /// Gives the peer what was read: its places back, or empty buffers.
    #[inline(always)]
    fn give(&mut self, n: u16) {
        match self.side {
            Side::Master => self.ring.tail().store(self.next, Ordering::Release),
            Side::Slave { size, .. } => {
                let empty = Filled {
                    flags: 0,
                    region: 0,
                    length: size,
                };
                for i in 0..n {
                    self.ring.fill(self.given.wrapping_add(i), empty);
                }
                self.given = self.given.wrapping_add(n);
                self.ring.head().store(self.given, Ordering::Release);
            }
        }
    }

    fn poll(&mut self, link: &Link, if_index: u32, pool: &mut Pool, frame: &mut Frame) -> RxBurst {
        let mut burst = RxBurst::default();
        let waiting = self.waiting(link);
        if waiting == 0 {
            return burst;
        }
        if self.armed {
            self.armed = false;
            self.ring.flags().store(MASK_INTERRUPT, Ordering::Relaxed);
        }
        let start = self.next;
        let mut buffers = [BufferIndex::default(); FRAME_SIZE];
        let wanted = frame.room().min(usize::from(waiting));
        let got = pool.alloc_bulk(&mut buffers[..wanted]);
        let mut into = Into {
            free: &buffers[..got],
            pool,
            frame,
            if_index,
        };
        while !into.free.is_empty() {
            let left = waiting - self.next.wrapping_sub(start);
            if left == 0 {
                break;
            }
            let piece = PIECE.min(into.free.len()).min(usize::from(left));
            let done = self.take_piece(piece, &mut into, &mut burst);
            if done < piece {
                self.take_odd(left - done as u16, link, &mut into, &mut burst);
            }
        }
        let rest = into.free;
        pool.free_unchained(rest);
        self.give(self.next.wrapping_sub(start));
        burst
    }

    /// Takes packets of one buffer each, at most `n`; says how many, and stops in front of anything else.
    #[inline(always)]
    fn take_piece(&mut self, n: usize, into: &mut Into<'_, '_>, burst: &mut RxBurst) -> usize {
        let mut ready = [Ready {
            at: std::ptr::null(),
            len: 0,
        }; PIECE];
        let mut k = 0;
        for (i, slot) in ready.iter_mut().enumerate().take(n) {
            let at = self.next.wrapping_add(i as u16);
            if i % PER_LINE == 0 {
                fetch_to_read(self.ring.descriptor(at.wrapping_add(PIECE as u16)));
            }
            let d = self.ring.filled(at);
            let simple = d.flags & NEXT == 0
                && d.length.wrapping_sub(ETHERNET) <= DATA_SIZE as u32 - ETHERNET;
            let Some(from) = simple
                .then(|| self.side.buffer(&self.ring, at, d.region, d.length))
                .flatten()
            else {
                break;
            };
            fetch_to_read(from);
            fetch_to_write(into.room(i));
            *slot = Ready {
                at: from,
                len: d.length,
            };
            k += 1;
        }
        for (i, r) in ready[..k].iter().enumerate() {
            // SAFETY: `at` was checked to have `len` bytes in the region, which the ring keeps mapped; the
            // buffer is ours and has DATA_SIZE bytes, at least `len`, behind its headroom.
            unsafe { copy(into.room(i), r.at, r.len as usize) };
            into.describe(i, r.len);
            burst.bytes += u64::from(r.len);
        }
        into.deliver(k);
        self.next = self.next.wrapping_add(k as u16);
        k
    }

    /// Takes what is no packet of one buffer: a chain, a long one, or nonsense, which is counted.
    #[cold]
    fn take_odd(&mut self, left: u16, link: &Link, into: &mut Into<'_, '_>, burst: &mut RxBurst) {
        let refused = &link.refused;
        let mut parts = Gather::default();
        let mut why = None;
        let mut used = 0;
        let ended = loop {
            if used == left {
                break false;
            }
            let at = self.next.wrapping_add(used);
            let d = self.ring.filled(at);
            used += 1;
            let from = self.side.buffer(&self.ring, at, d.region, d.length);
            match from {
                None => why = why.or(Some(&refused.bad_buffer)),
                Some(_) if parts.len.saturating_add(d.length) > LONGEST => {
                    why = why.or(Some(&refused.bad_chain));
                }
                Some(from) if why.is_none() => parts.add(into, from, d.length),
                Some(_) => {}
            }
            if d.flags & NEXT == 0 {
                break true;
            }
        };
        if !ended {
            why = why.or(Some(&refused.bad_chain));
        } else if parts.len < ETHERNET {
            why = why.or(Some(&refused.too_short));
        }
        self.next = self.next.wrapping_add(used);
        if let Some(counter) = why {
            Refused::count(counter);
            burst.errors += 1;
        } else if parts.short {
            burst.no_buffer += 1;
        } else if let Some(first) = parts.first.take() {
            burst.bytes += u64::from(parts.len);
            into.pool.meta_mut(first).tail_len = parts.len - u32::from(into.pool.meta(first).len);
            into.frame.push(first);
        }
        if let Some(first) = parts.first {
            into.pool.free(first);
        }
    }

    /// Lets the peer signal; true when packets wait already.
    fn arm(&mut self, link: &Link) -> bool {
        if !self.armed {
            self.armed = true;
            self.ring.flags().store(0, Ordering::Relaxed);
        }
        // The peer publishes and then looks at the flags; we set the flags and then look at what is published.
        fence(Ordering::SeqCst);
        (0..LAST_LOOKS).any(|_| {
            std::hint::spin_loop();
            self.waiting(link) != 0
        })
    }
}

/// Where packets go.
struct Into<'a, 'b> {
    free: &'a [BufferIndex],
    pool: &'b mut Pool,
    frame: &'b mut Frame,
    if_index: u32,
}

impl Into<'_, '_> {
    /// Data bytes of the `i`th free buffer.
    #[inline(always)]
    fn room(&mut self, i: usize) -> *mut u8 {
        let (_, room) = self.pool.parts_mut(self.free[i]);
        room[HEADROOM..].as_mut_ptr()
    }
    #[inline(always)]
    fn describe(&mut self, i: usize, len: u32) {
        *self.pool.meta_mut(self.free[i]) =
            Meta::received(HEADROOM as u16, len as u16, self.if_index);
    }
    /// Puts the first `k` free buffers, now packets, into the frame.
    #[inline(always)]
    fn deliver(&mut self, k: usize) {
        let (packets, free) = self.free.split_at(k);
        self.frame.extend(packets);
        self.free = free;
    }
    /// One buffer more, empty.
    fn another(&mut self) -> Option<BufferIndex> {
        let b = match self.free.split_first() {
            Some((b, rest)) => {
                self.free = rest;
                *b
            }
            None => self.pool.alloc()?,
        };
        *self.pool.meta_mut(b) = Meta::received(HEADROOM as u16, 0, self.if_index);
        Some(b)
    }
}

/// A packet put together from pieces.
#[derive(Default)]
struct Gather {
    first: Option<BufferIndex>,
    last: BufferIndex,
    len: u32,
    /// There was no buffer for a piece.
    short: bool,
}

impl Gather {
    /// Appends `len` bytes of shared memory, checked to be there.
    fn add(&mut self, into: &mut Into<'_, '_>, from: *const u8, len: u32) {
        let mut done = 0;
        while done < len && !self.short {
            let used = self
                .first
                .map(|_| usize::from(into.pool.meta(self.last).len));
            let used = match used {
                Some(used) if used < DATA_SIZE => used,
                _ => {
                    let Some(b) = into.another() else {
                        self.short = true;
                        return;
                    };
                    if self.first.is_some() {
                        let m = into.pool.meta_mut(self.last);
                        m.next = b;
                        m.flags.set(Flags::CHAINED);
                    }
                    self.first = self.first.or(Some(b));
                    self.last = b;
                    0
                }
            };
            let n = (len - done).min((DATA_SIZE - used) as u32);
            let (meta, room) = into.pool.parts_mut(self.last);
            meta.len += n as u16;
            // SAFETY: the caller has checked `len` bytes at `from`, of which these are a part; the buffer
            // has DATA_SIZE bytes behind its headroom, of which `used` are taken.
            unsafe {
                copy(
                    room[HEADROOM + used..].as_mut_ptr(),
                    from.add(done as usize),
                    n as usize,
                );
            };
            done += n;
        }
        self.len += len;
    }
}

/// A receive queue.
pub(super) struct MemifRx {
    link: Arc<Link>,
    queue: usize,
    if_index: u32,
}

impl MemifRx {
    /// Queue `queue` of the interface.
    pub fn new(link: Arc<Link>, queue: usize, if_index: u32) -> MemifRx {
        MemifRx {
            link,
            queue,
            if_index,
        }
    }
}

impl RxQueue for MemifRx {
    fn poll(&mut self, pool: &mut Pool, frame: &mut Frame, _now: u64) -> RxBurst {
        let Some(place) = self.link.rx.get(self.queue) else {
            return RxBurst::default();
        };
        let mut burst = RxBurst::default();
        if let Some(mut ring) = place.ring.try_lock()
            && let Some(ring) = ring.as_mut()
        {
            burst = ring.poll(&self.link, self.if_index, pool, frame);
        }
        frame.rx_if = self.if_index;
        burst
    }

    fn fd(&self) -> Option<RawFd> {
        Some(self.link.rx.get(self.queue)?.sleep.as_raw_fd())
    }

    fn due(&self, now: u64) -> Option<u64> {
        // Asked just before the worker goes to sleep: from now on the peer has to signal.
        let place = self.link.rx.get(self.queue)?;
        place.hush();
        let mut ring = place.ring.try_lock()?;
        ring.as_mut()?.arm(&self.link).then_some(now)
    }
}
