//! Sending: copies a burst into chunks, puts them on the transmit ring, and wakes the kernel where it
//! asks for that.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use nix::errno::Errno;
use parshall_buffer::{BufferIndex, Flags, Pool};
use parshall_device::{TxBurst, TxQueue};

use super::ring::Desc;
use super::rx::TAGS;
use super::socket::{TxRings, Xsk};

/// Pieces of a packet at most: the kernel makes a socket buffer of one head and 17 fragments.
const PIECES: usize = 17;

/// One transmit queue. Keeps no buffers: a packet is copied into chunks.
pub(super) struct XdpTx {
    rings: TxRings,
    xsk: Arc<Xsk>,
    /// Longest frame of the interface, without VLAN tags.
    max_frame: Arc<AtomicU32>,
    /// Offsets of chunks that are free; used from the end.
    free: Vec<u64>,
    /// The kernel refused to send for good when last asked (the interface is down or gone).
    refused: bool,
}

impl XdpTx {
    pub fn new(rings: TxRings, xsk: Arc<Xsk>, max_frame: Arc<AtomicU32>) -> XdpTx {
        let layout = xsk.umem.layout;
        let chunks = layout.rx..layout.rx + layout.tx;
        XdpTx {
            rings,
            max_frame,
            free: chunks.rev().map(|n| layout.offset(n)).collect(),
            refused: false,
            xsk,
        }
    }

    /// Takes chunks back that the kernel is done with.
    fn reclaim(&mut self) {
        let ready = self.rings.completion.ready();
        if ready == 0 {
            return;
        }
        let layout = self.xsk.umem.layout;
        for ahead in 0..ready {
            let offset = self.rings.completion.peek(ahead);
            let chunk = offset as usize / layout.chunk;
            let ours = (layout.rx..layout.rx + layout.tx).contains(&chunk);
            // No more than there are: the list never grows.
            if ours && self.free.len() < layout.tx {
                self.free.push(layout.offset(chunk));
            }
        }
        self.rings.completion.advance(ready);
        self.rings.completion.release();
    }

    /// Pieces that a packet of `len` bytes needs.
    fn pieces(&self, len: usize) -> usize {
        len.div_ceil(self.xsk.umem.layout.chunk).max(1)
    }

    /// Longest frame that goes out.
    fn limit(&self) -> usize {
        let allowed = self.max_frame.load(Ordering::Relaxed) as usize + TAGS;
        let chunk = self.xsk.umem.layout.chunk;
        let most = if self.xsk.tie.multi {
            PIECES * chunk
        } else {
            chunk
        };
        allowed.min(most)
    }

    /// A free chunk's offset and bytes.
    fn chunk(&mut self) -> Option<(u64, &mut [u8])> {
        let offset = self.free.pop()?;
        let len = self.xsk.umem.layout.chunk;
        // SAFETY: a transmit chunk that is free is nobody's but this half's, until it is put on the
        // transmit ring; `&mut self` lets one slice live at a time.
        Some((offset, unsafe { self.xsk.umem.bytes(offset, len) }))
    }

    /// Copies a packet of `len` bytes into chunks on the ring, for which there is room.
    fn put(&mut self, pool: &Pool, b: BufferIndex, len: usize) -> bool {
        if len > self.xsk.umem.layout.chunk {
            return self.put_long(pool, b, len);
        }
        let chained = pool.meta(b).flags.has(Flags::CHAINED);
        let Some((offset, chunk)) = self.chunk() else {
            return false;
        };
        if chained {
            pool.copy_out(b, &mut chunk[..len]);
        } else {
            let bytes = pool.bytes(b);
            let n = bytes.len().min(len);
            chunk[..n].copy_from_slice(&bytes[..n]);
        }
        self.rings.tx.write(Desc {
            addr: offset,
            len: len as u32,
            options: 0,
        });
        true
    }

    #[cold]
    fn put_long(&mut self, pool: &Pool, b: BufferIndex, len: usize) -> bool {
        let size = self.xsk.umem.layout.chunk;
        let mut held = [(0u64, 0usize); PIECES];
        let (mut used, mut at) = (0, size);
        let mut fits = true;
        pool.for_each_part(b, |mut part| {
            while !part.is_empty() && fits {
                if at == size {
                    match (self.free.pop(), held.get_mut(used)) {
                        (Some(offset), Some(slot)) => *slot = (offset, 0),
                        (offset, _) => {
                            self.free.extend(offset);
                            fits = false;
                            return;
                        }
                    }
                    (used, at) = (used + 1, 0);
                }
                let (now, rest) = part.split_at(part.len().min(size - at));
                let (offset, filled) = &mut held[used - 1];
                // SAFETY: a free transmit chunk, taken off the list above: this half's alone.
                let chunk = unsafe { self.xsk.umem.bytes(*offset, size) };
                chunk[at..at + now.len()].copy_from_slice(now);
                at += now.len();
                *filled = at;
                part = rest;
            }
        });
        let held = &held[..used];
        let whole = held.iter().map(|h| h.1).sum::<usize>() == len;
        if !fits || !whole || self.rings.tx.free(used) < used {
            self.free.extend(held.iter().map(|h| h.0));
            return false;
        }
        for (n, (addr, filled)) in held.iter().enumerate() {
            let last = n + 1 == used;
            self.rings.tx.write(Desc {
                addr: *addr,
                len: *filled as u32,
                options: if last { 0 } else { Desc::CONTINUED },
            });
        }
        true
    }

    /// Has the kernel send what waits. It takes a few dozen frames a call, so it is called as long as
    /// it takes some.
    fn kick(&mut self) {
        let mut waiting = self.rings.tx.untaken();
        self.refused = false;
        while waiting > 0 && self.rings.tx.needs_wakeup() {
            match self.xsk.kick() {
                Ok(()) | Err(Errno::EAGAIN | Errno::EBUSY | Errno::ENOBUFS | Errno::EINTR) => {}
                Err(_) => {
                    self.refused = true;
                    return;
                }
            }
            let now = self.rings.tx.untaken();
            if now >= waiting {
                return;
            }
            waiting = now;
        }
    }
}

impl TxQueue for XdpTx {
    fn transmit(&mut self, pool: &mut Pool, packets: &[BufferIndex], _now: u64) -> TxBurst {
        self.reclaim();
        if self.refused {
            self.kick();
        }
        if self.refused {
            // Nothing goes out, and what waits on the ring would go out late: add no more to it.
            pool.free_bulk(packets);
            return TxBurst {
                taken: packets.len(),
                errors: packets.len(),
            };
        }
        let (limit, mut taken, mut errors) = (self.limit(), 0, 0);
        for &b in packets {
            let len = pool.meta(b).total_len() as usize;
            let pieces = self.pieces(len);
            if len > limit {
                errors += 1;
            } else if self.free.len() < pieces || self.rings.tx.free(pieces) < pieces {
                break;
            } else if !self.put(pool, b, len) {
                errors += 1;
            }
            taken += 1;
        }
        self.rings.tx.submit();
        self.kick();
        pool.free_bulk(&packets[..taken]);
        TxBurst { taken, errors }
    }

    fn flush(&mut self, _pool: &mut Pool) {
        self.kick();
        self.reclaim();
    }
}
