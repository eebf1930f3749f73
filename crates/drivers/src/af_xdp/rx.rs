//! Receiving: takes frames off the receive ring, copies them into the worker's buffers, and gives the
//! chunks back through the fill ring.

use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parshall_buffer::{BufferIndex, DATA_SIZE, Frame, HEADROOM, Meta, Pool};
use parshall_device::{RxBurst, RxQueue};

use super::checksum;
use super::ring::Desc;
use super::socket::{KernelStats, RxRings, Xsk};

/// Bytes of an Ethernet header, the least a frame has.
const ETHERNET: usize = 14;
/// Two VLAN tags, which a frame may carry beyond the largest frame.
pub(super) const TAGS: usize = 8;
/// Pieces of a packet at most: a frame of 64 KiB in the smallest chunks.
const PIECES: usize = 64;
/// How often the kernel is asked what it dropped (ns).
const ASK_NS: u64 = 100_000_000;

/// One receive queue.
pub(super) struct XdpRx {
    rings: RxRings,
    xsk: Arc<Xsk>,
    if_index: u32,
    /// Longest frame of the interface, without VLAN tags.
    max_frame: Arc<AtomicU32>,
    /// Senders may leave checksums unfinished.
    complete: bool,
    busy_poll: bool,
    /// When the kernel is asked next, and what it said last.
    ask_at: u64,
    told: KernelStats,
}

/// Pieces of one packet.
struct Pieces {
    desc: [Desc; PIECES],
    count: usize,
    /// Bytes in all.
    len: usize,
}

impl XdpRx {
    pub fn new(
        rings: RxRings,
        xsk: Arc<Xsk>,
        if_index: u32,
        max_frame: Arc<AtomicU32>,
        complete: bool,
        busy_poll: bool,
    ) -> XdpRx {
        XdpRx {
            rings,
            xsk,
            if_index,
            max_frame,
            complete,
            busy_poll,
            ask_at: 0,
            told: KernelStats::default(),
        }
    }

    /// Gives the chunk of a descriptor back. One that lies nowhere in our memory is lost to the ring,
    /// which only a broken kernel brings about.
    fn give_back(&mut self, desc: Desc) {
        if let Some(chunk) = self.xsk.umem.rx_chunk(desc.addr, 0)
            && self.rings.fill.free(1) > 0
        {
            self.rings.fill.write(self.xsk.umem.layout.offset(chunk));
        }
    }

    /// The bytes of a piece, which is ours until it is given back.
    #[allow(clippy::mut_from_ref, reason = "the rings say whose the bytes are")]
    fn bytes(xsk: &Xsk, desc: Desc) -> Option<&mut [u8]> {
        xsk.umem.rx_chunk(desc.addr, desc.len)?;
        // SAFETY: inside one receive chunk. The kernel put it on the receive ring and with that gave it to
        // us; it goes back when the fill ring is submitted, after which no slice is used.
        Some(unsafe { xsk.umem.bytes(desc.addr, desc.len as usize) })
    }

    /// Takes a packet of one piece into buffer `b`; false when it is unusable.
    #[inline]
    fn take_one(&self, desc: Desc, pool: &mut Pool, b: BufferIndex, limit: usize) -> bool {
        let len = desc.len as usize;
        let Some(bytes) = Self::bytes(&self.xsk, desc) else {
            return false;
        };
        if !(ETHERNET..=limit.min(DATA_SIZE)).contains(&len) {
            return false;
        }
        if self.complete {
            checksum::complete(bytes, len, std::iter::empty());
        }
        let (meta, room) = pool.parts_mut(b);
        *meta = Meta::received(HEADROOM as u16, len as u16, self.if_index);
        room[HEADROOM..HEADROOM + len].copy_from_slice(bytes);
        true
    }

    /// Looks at the pieces of the packet that starts at `ready` entries' first; `None` when its end is not
    /// there yet. One of too many pieces comes back with no length.
    fn pieces(&self, ready: usize) -> Option<Pieces> {
        let mut p = Pieces {
            desc: [Desc::default(); PIECES],
            count: 0,
            len: 0,
        };
        for ahead in 0..ready {
            let desc = self.rings.rx.peek(ahead);
            if let Some(slot) = p.desc.get_mut(ahead) {
                *slot = desc;
                p.len += desc.len as usize;
            } else {
                p.len = 0;
            }
            p.count += 1;
            if desc.options & Desc::CONTINUED == 0 {
                return Some(p);
            }
        }
        // A packet without an end that fills the ring would stop it for ever.
        p.len = 0;
        (p.count == self.rings.rx.size()).then_some(p)
    }

    /// Takes a packet of several pieces, or a long one.
    #[cold]
    fn take_many(&mut self, p: &Pieces, pool: &mut Pool, frame: &mut Frame, burst: &mut RxBurst) {
        let limit = self.max_frame.load(Ordering::Relaxed) as usize + TAGS;
        let pieces = &p.desc[..p.count.min(PIECES)];
        let usable = |d: &Desc| self.xsk.umem.rx_chunk(d.addr, d.len).is_some();
        let good = (ETHERNET..=limit).contains(&p.len) && pieces.iter().all(usable);
        if !good {
            burst.errors += 1;
            return;
        }
        let xsk = &*self.xsk;
        let piece = |d: &Desc| Self::bytes(xsk, *d).map_or(&[][..], |b| &*b);
        if self.complete
            && let Some((first, rest)) = pieces.split_first()
            && let Some(head) = Self::bytes(xsk, *first)
        {
            checksum::complete(head, p.len, rest.iter().map(piece));
        }
        match pool.packet_from_parts(pieces.iter().map(piece), p.len, self.if_index) {
            Some(b) => {
                frame.push(b);
                burst.bytes += p.len as u64;
            }
            None => burst.no_buffer += 1,
        }
    }

    /// Takes what is ready, at most `room` packets.
    fn take(&mut self, pool: &mut Pool, frame: &mut Frame, burst: &mut RxBurst) -> usize {
        let mut ready = self.rings.rx.ready();
        let begun = ready;
        let limit = self.max_frame.load(Ordering::Relaxed) as usize + TAGS;
        let mut buffers = [BufferIndex::default(); parshall_buffer::FRAME_SIZE];
        let wanted = ready.min(frame.room());
        let got = pool.alloc_bulk(&mut buffers[..wanted]);
        let mut used = 0;
        while ready > 0 && frame.room() > 0 {
            let desc = self.rings.rx.peek(0);
            let plain = desc.options & Desc::CONTINUED == 0 && desc.len as usize <= DATA_SIZE;
            if plain {
                if used == got {
                    burst.no_buffer += 1;
                } else if self.take_one(desc, pool, buffers[used], limit) {
                    frame.push(buffers[used]);
                    used += 1;
                    burst.bytes += u64::from(desc.len);
                } else {
                    burst.errors += 1;
                }
                self.give_back(desc);
                self.rings.rx.advance(1);
                ready -= 1;
                continue;
            }
            let Some(p) = self.pieces(ready) else { break };
            self.take_many(&p, pool, frame, burst);
            for ahead in 0..p.count {
                self.give_back(self.rings.rx.peek(ahead));
            }
            self.rings.rx.advance(p.count);
            ready -= p.count;
        }
        pool.free_unchained(&buffers[used..got]);
        begun - ready
    }

    /// Asks the kernel what it dropped since it was last asked.
    #[cold]
    fn ask(&mut self, now: u64) -> u64 {
        self.ask_at = now.saturating_add(ASK_NS);
        self.xsk.clear_error();
        let stats = self.xsk.stats();
        let missed = |s: &KernelStats| s.rx_dropped.wrapping_add(s.rx_ring_full);
        let new = missed(&stats).saturating_sub(missed(&self.told));
        self.told = stats;
        new
    }
}

impl RxQueue for XdpRx {
    fn poll(&mut self, pool: &mut Pool, frame: &mut Frame, now: u64) -> RxBurst {
        let mut burst = RxBurst::default();
        let taken = self.take(pool, frame, &mut burst);
        if taken > 0 {
            self.rings.rx.release();
            self.rings.fill.submit();
        }
        if (taken == 0 && self.busy_poll) || self.rings.fill.needs_wakeup() {
            self.xsk.wake_rx();
        }
        if now >= self.ask_at {
            burst.missed += self.ask(now);
        }
        frame.rx_if = self.if_index;
        burst
    }

    fn fd(&self) -> Option<RawFd> {
        Some(self.xsk.raw())
    }
}
