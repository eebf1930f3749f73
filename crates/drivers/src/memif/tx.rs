//! Sending through a ring: copies packets from pool buffers into shared memory.
//!
//! In pieces of 32, as receiving does it: first the places are found and their cache lines asked for, to be
//! written, then the bytes are copied. The whole burst is published by one store.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use parshall_buffer::{BufferIndex, Flags, Pool};
use parshall_device::{TxBurst, TxKnown, TxQueue};

use super::copy::{copy, fetch_to_read, fetch_to_write};
use super::doorbell::Doorbell;
use super::link::{Link, Place, Trouble};
use super::ring::{Filled, MASK_INTERRUPT, NEXT, PER_LINE, Ring, Side};

/// Packets looked at together.
const PIECE: usize = 32;

/// The writing end of a ring.
#[derive(Debug)]
pub(super) struct TxRing {
    ring: Ring,
    side: Side,
    /// Descriptors filled so far.
    next: u16,
    /// The peer's index as last seen.
    seen: u16,
    /// Nonsense was found; nothing is written any more.
    dead: bool,
    /// To be rung when the peer sleeps.
    doorbell: Doorbell,
}

/// What became of the packets of a burst.
#[derive(Clone, Copy, Default)]
struct Outcome {
    taken: usize,
    errors: usize,
}

/// A place for a packet.
#[derive(Clone, Copy)]
struct Ready {
    to: *mut u8,
    from: *const u8,
    filled: Filled,
}

impl TxRing {
    /// The writing end, at the start of a connection.
    pub fn new(ring: Ring, side: Side, doorbell: OwnedFd) -> TxRing {
        match side {
            Side::Master => ring.tail().store(0, Ordering::Release),
            Side::Slave { .. } => ring.head().store(0, Ordering::Release),
        }
        TxRing {
            ring,
            side,
            next: 0,
            seen: 0,
            dead: false,
            doorbell: Doorbell::new(doorbell),
        }
    }

    /// Descriptors that can be filled, by the index of the peer's that was last seen.
    #[inline(always)]
    fn free(&self) -> u16 {
        match self.side {
            Side::Master => self.seen.wrapping_sub(self.next),
            Side::Slave { .. } => self
                .ring
                .size()
                .wrapping_sub(self.next.wrapping_sub(self.seen)),
        }
    }

    /// Looks where the peer is.
    #[inline(always)]
    fn look(&mut self, link: &Link) -> u16 {
        let theirs = match self.side {
            Side::Master => self.ring.head(),
            Side::Slave { .. } => self.ring.tail(),
        };
        self.seen = theirs.load(Ordering::Acquire);
        let free = self.free();
        if free > self.ring.size() {
            self.fail(link, Trouble::Index);
            return 0;
        }
        free
    }

    #[cold]
    fn fail(&mut self, link: &Link, what: Trouble) {
        if !self.dead {
            self.dead = true;
            link.complain(what);
        }
    }

    fn send(
        &mut self,
        link: &Link,
        pool: &Pool,
        packets: &[BufferIndex],
        chained: bool,
    ) -> Outcome {
        let mut out = Outcome::default();
        if self.dead {
            return out;
        }
        let mut free = self.free();
        if usize::from(free) < packets.len() {
            free = self.look(link);
        }
        let start = self.next;
        while out.taken < packets.len() {
            let left = free - self.next.wrapping_sub(start);
            let piece = PIECE.min(packets.len() - out.taken).min(usize::from(left));
            let done = self.put_piece(&packets[out.taken..out.taken + piece], pool, chained);
            out.taken += done;
            if done < piece || piece == 0 {
                let left = left - done as u16;
                if left == 0 || !self.put_odd(packets[out.taken], left, link, pool, &mut out) {
                    break;
                }
            }
        }
        if self.next != start {
            self.publish();
        }
        out
    }

    /// Sends packets of one buffer that fit one descriptor; says how many, and stops in front of another.
    #[inline(always)]
    fn put_piece(&mut self, packets: &[BufferIndex], pool: &Pool, chained: bool) -> usize {
        let mut ready = [Ready {
            to: std::ptr::null_mut(),
            from: std::ptr::null(),
            filled: Filled {
                flags: 0,
                region: 0,
                length: 0,
            },
        }; PIECE];
        let mut k = 0;
        for (i, &b) in packets.iter().enumerate().take(PIECE) {
            let at = self.next.wrapping_add(i as u16);
            if i % PER_LINE == 0 {
                fetch_to_write(self.ring.descriptor(at.wrapping_add(PIECE as u16)));
            }
            let bytes = pool.bytes(b);
            let len = bytes.len() as u32;
            if chained && pool.meta(b).flags.has(Flags::CHAINED) {
                break;
            }
            let Some((to, region)) = self.place(at, len) else {
                break;
            };
            fetch_to_write(to);
            fetch_to_read(bytes.as_ptr());
            ready[i] = Ready {
                to,
                from: bytes.as_ptr(),
                filled: Filled {
                    flags: 0,
                    region,
                    length: len,
                },
            };
            k += 1;
        }
        for (i, r) in ready[..k].iter().enumerate() {
            // SAFETY: `from` is the packet's bytes in our pool, `to` was checked to have as many in a region
            // that the ring keeps mapped.
            unsafe { copy(r.to, r.from, r.filled.length as usize) };
            self.ring.fill(self.next.wrapping_add(i as u16), r.filled);
        }
        self.next = self.next.wrapping_add(k as u16);
        k
    }

    /// Where `len` bytes for the descriptor at `at` go, and the region's number; `None` if they do not fit.
    #[inline(always)]
    fn place(&self, at: u16, len: u32) -> Option<(*mut u8, u16)> {
        match self.side {
            Side::Slave { .. } => Some((self.side.buffer(&self.ring, at, 0, len)?, 0)),
            Side::Master => {
                let d = self.ring.filled(at);
                let fits = len <= d.length;
                let to = fits.then(|| self.side.buffer(&self.ring, at, d.region, len));
                Some((to.flatten()?, d.region))
            }
        }
    }

    /// Bytes the descriptor at `at` has room for.
    fn room(&self, at: u16) -> u32 {
        match self.side {
            Side::Slave { size, .. } => size,
            Side::Master => self.ring.filled(at).length,
        }
    }

    /// Sends a packet over as many descriptors as it needs, or refuses it. False when it has to wait, or
    /// nothing can be sent any more.
    #[cold]
    fn put_odd(
        &mut self,
        packet: BufferIndex,
        left: u16,
        link: &Link,
        pool: &Pool,
        out: &mut Outcome,
    ) -> bool {
        let mut scatter = Scatter {
            ring: self,
            used: 0,
            left,
            open: None,
        };
        let mut done = Ok(());
        pool.for_each_part(packet, |bytes| {
            if done.is_ok() {
                done = scatter.add(bytes);
            }
        });
        let used = match done {
            Ok(()) => scatter.close(0),
            Err(Full::Ring) if left < self.ring.size() => return false,
            // Longer than the whole ring: it will never fit.
            Err(Full::Ring) => 0,
            Err(Full::Outside) => {
                self.fail(link, Trouble::Buffer);
                return false;
            }
        };
        self.next = self.next.wrapping_add(used);
        out.taken += 1;
        out.errors += usize::from(used == 0);
        true
    }

    /// Shows the peer what was written, and wakes it if it sleeps.
    #[inline(always)]
    fn publish(&mut self) {
        let ours = match self.side {
            Side::Master => self.ring.tail(),
            Side::Slave { .. } => self.ring.head(),
        };
        ours.store(self.next, Ordering::Release);
        // The peer sets its flag and then looks at the index; we do it the other way round.
        fence(Ordering::SeqCst);
        if self.ring.flags().load(Ordering::Relaxed) & MASK_INTERRUPT == 0 {
            self.doorbell.ring();
        }
    }
}

/// Why a packet was not scattered.
enum Full {
    /// No descriptor left.
    Ring,
    /// A descriptor leads out of its region.
    Outside,
}

/// A packet spread over descriptors that are not published yet.
struct Scatter<'a> {
    ring: &'a TxRing,
    used: u16,
    left: u16,
    /// Bytes in the descriptor at `used`, and its room.
    open: Option<(u32, u32)>,
}

impl Scatter<'_> {
    fn at(&self) -> u16 {
        self.ring.next.wrapping_add(self.used)
    }

    fn add(&mut self, mut bytes: &[u8]) -> Result<(), Full> {
        while !bytes.is_empty() {
            if self.used == self.left {
                return Err(Full::Ring);
            }
            let (len, room) = *self.open.get_or_insert((0, self.ring.room(self.at())));
            if len == room {
                self.close(NEXT);
                continue;
            }
            let n = (room - len).min(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
            let (to, _) = self.place(len + n).ok_or(Full::Outside)?;
            let (now, rest) = bytes.split_at(n as usize);
            // SAFETY: `to` has `len + n` bytes in a region that the ring keeps mapped, `now` has `n`.
            unsafe { copy(to.add(len as usize), now.as_ptr(), now.len()) };
            self.open = Some((len + n, room));
            bytes = rest;
        }
        Ok(())
    }

    /// Where the first `len` bytes of the open descriptor lie. Its length is not asked for again.
    fn place(&self, len: u32) -> Option<(*mut u8, u16)> {
        let at = self.at();
        let region = self.ring.ring.filled(at).region;
        let to = self.ring.side.buffer(&self.ring.ring, at, region, len)?;
        Some((to, region))
    }

    /// Ends the open descriptor; says how many are used.
    fn close(&mut self, flags: u16) -> u16 {
        if let Some((length, _)) = self.open.take() {
            let at = self.at();
            let region = match self.ring.side {
                Side::Slave { .. } => 0,
                Side::Master => self.ring.ring.filled(at).region,
            };
            let filled = Filled {
                flags,
                region,
                length,
            };
            self.ring.ring.fill(at, filled);
            self.used += 1;
        }
        self.used
    }
}

/// A transmit queue.
pub(super) struct MemifTx {
    link: Arc<Link>,
    queue: usize,
}

impl MemifTx {
    /// Queue `queue` of the interface.
    pub fn new(link: Arc<Link>, queue: usize) -> MemifTx {
        MemifTx { link, queue }
    }
}

impl TxQueue for MemifTx {
    fn transmit(&mut self, pool: &mut Pool, packets: &[BufferIndex], now: u64) -> TxBurst {
        let chained = |&b: &BufferIndex| pool.meta(b).flags.has(Flags::CHAINED);
        let known = TxKnown {
            bytes: 0,
            chained: packets.iter().any(chained),
        };
        self.transmit_known(pool, packets, known, now)
    }

    fn transmit_known(
        &mut self,
        pool: &mut Pool,
        packets: &[BufferIndex],
        known: TxKnown,
        _now: u64,
    ) -> TxBurst {
        // A peer may have fewer rings than we have queues: then some share one.
        let rings = self.link.tx_rings.load(Ordering::Relaxed).max(1);
        let at = if self.queue < rings {
            self.queue
        } else {
            self.queue % rings
        };
        let place = self.link.tx.get(at);
        let Some(mut ring) = place.and_then(Place::lock_soon) else {
            return TxBurst::default();
        };
        let Some(ring) = ring.as_mut() else {
            // Without a connection there is nobody who would ever take the packets.
            return refuse(pool, packets);
        };
        let out = ring.send(&self.link, pool, packets, known.chained);
        let sent = &packets[..out.taken];
        if known.chained {
            pool.free_bulk(sent);
        } else {
            pool.free_unchained(sent);
        }
        TxBurst {
            taken: out.taken,
            errors: out.errors,
        }
    }
}

#[cold]
fn refuse(pool: &mut Pool, packets: &[BufferIndex]) -> TxBurst {
    pool.free_bulk(packets);
    TxBurst {
        taken: packets.len(),
        errors: packets.len(),
    }
}
