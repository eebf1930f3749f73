//! Receiving from a tap queue: one readv per frame, straight into pool buffers. A super-frame, and what needs
//! more than its checksum completed in one buffer, goes through a buffer of its own and is cut or copied.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use nix::errno::Errno;
use parshall_buffer::{BufferIndex, DATA_SIZE, Flags, Frame, HEADROOM, Meta, Pool};
use parshall_device::{RxBurst, RxQueue};

use super::sys::{self, MAX_PARTS};
use crate::af_packet::checksum;
use crate::af_packet::rx::{Tag, drain, take};
use crate::af_packet::segment::SuperFrame;
use crate::af_packet::sys::VnetHeader;

/// Bytes of an Ethernet header, the least a frame has.
const ETHERNET: usize = 14;
/// Two VLAN tags, which a frame may carry beyond the largest frame.
const TAGS: usize = 8;

/// Longest frame that arrives: the largest IP packet with headers around it.
const LONG_FRAME: usize = 65_536 + 256;

/// One receive queue.
pub(super) struct TapRx {
    fd: Arc<OwnedFd>,
    if_index: u32,
    max_frame: Arc<AtomicU32>,
    /// A super-frame of which segments are left.
    cut: SuperFrame,
    /// Where a frame lies in one piece, its header in front.
    long: Vec<u8>,
}

impl TapRx {
    pub fn new(fd: Arc<OwnedFd>, if_index: u32, max_frame: Arc<AtomicU32>) -> TapRx {
        TapRx {
            fd,
            if_index,
            max_frame,
            cut: SuperFrame::default(),
            long: vec![0; VnetHeader::LEN + LONG_FRAME],
        }
    }

    /// Buffers that take the largest frame and at least one byte more: a frame that fills them all was
    /// longer, which readv does not tell.
    fn parts(&self) -> usize {
        let largest = self.max_frame.load(Ordering::Relaxed) as usize + TAGS;
        (largest / DATA_SIZE + 1).min(MAX_PARTS)
    }
}

impl TapRx {
    /// Reads one frame into `buffers` and, where that is longer, into its place in `long`.
    fn read(
        &mut self,
        pool: &mut Pool,
        buffers: &[BufferIndex],
    ) -> Result<(VnetHeader, usize), Errno> {
        let room = buffers.len() * DATA_SIZE;
        let behind = VnetHeader::LEN + room.min(LONG_FRAME);
        let mut vnet = [0; VnetHeader::LEN];
        loop {
            let rest = &mut self.long[behind..];
            match sys::read_frame(&self.fd, &mut vnet, pool, buffers, rest) {
                Err(Errno::EINTR) => {}
                Err(e) => return Err(e),
                Ok(len) => {
                    self.long[..VnetHeader::LEN].copy_from_slice(&vnet);
                    return Ok((VnetHeader::parse(&vnet), len));
                }
            }
        }
    }

    /// Puts the frame that was read into `buffers` together in `long` and makes packets of that.
    fn take_long(
        &mut self,
        len: usize,
        buffers: &[BufferIndex],
        (pool, frame, burst): (&mut Pool, &mut Frame, &mut RxBurst),
    ) {
        let whole = VnetHeader::LEN + len.min(LONG_FRAME);
        let pieces = self.long[VnetHeader::LEN..whole].chunks_mut(DATA_SIZE);
        for (piece, &b) in pieces.zip(buffers) {
            piece.copy_from_slice(&pool.parts(b).1[HEADROOM..HEADROOM + piece.len()]);
        }
        let bytes = &mut self.long[..whole];
        take(
            bytes,
            Tag::default(),
            &mut self.cut,
            self.if_index,
            pool,
            frame,
            burst,
        );
        drain(&mut self.cut, self.if_index, pool, frame, burst);
    }
}

impl RxQueue for TapRx {
    fn poll(&mut self, pool: &mut Pool, frame: &mut Frame, _now: u64) -> RxBurst {
        let mut burst = RxBurst::default();
        let parts = self.parts();
        let mut spare = [BufferIndex::default(); MAX_PARTS];
        let mut have = 0;
        drain(&mut self.cut, self.if_index, pool, frame, &mut burst);
        while frame.room() > 0 {
            have += pool.alloc_bulk(&mut spare[have..parts]);
            if have < parts {
                // The frame stays with the kernel until buffers come back, or the kernel drops it.
                break;
            }
            let Ok((vnet, len)) = self.read(pool, &spare[..parts]) else {
                break;
            };
            let used = len.div_ceil(DATA_SIZE);
            let joined = vnet.gso_type != VnetHeader::GSO_NONE;
            let partial = vnet.flags & VnetHeader::NEEDS_CSUM != 0;
            if len < ETHERNET || (len >= parts * DATA_SIZE && !joined) {
                burst.errors += 1;
            } else if joined || (partial && used > 1) {
                self.take_long(len, &spare[..parts], (pool, frame, &mut burst));
            } else if partial && !complete(pool, spare[0], len, &vnet) {
                burst.errors += 1;
            } else {
                // Used buffers come from the front; the rest moves up for the next frame.
                frame.push(link_up(pool, &spare[..used], len, self.if_index));
                spare.copy_within(used..have, 0);
                have -= used;
                burst.bytes += len as u64;
            }
        }
        pool.free_unchained(&spare[..have]);
        frame.rx_if = self.if_index;
        burst
    }

    fn fd(&self) -> Option<RawFd> {
        Some(self.fd.as_raw_fd())
    }

    fn due(&self, now: u64) -> Option<u64> {
        // Segments at hand do not show on the descriptor.
        self.cut.pending().then_some(now)
    }
}

/// Completes the checksum of a frame of `len` bytes in one buffer.
fn complete(pool: &mut Pool, b: BufferIndex, len: usize, vnet: &VnetHeader) -> bool {
    let bytes = &mut pool.parts_mut(b).1[HEADROOM..HEADROOM + len];
    checksum::complete(
        bytes,
        usize::from(vnet.csum_start),
        usize::from(vnet.csum_offset),
    )
}

/// Makes one packet of `len` bytes from the buffers they were read into.
fn link_up(pool: &mut Pool, buffers: &[BufferIndex], len: usize, if_index: u32) -> BufferIndex {
    let mut left = len;
    for (i, &b) in buffers.iter().enumerate() {
        let here = left.min(DATA_SIZE);
        left -= here;
        let mut meta = Meta::received(HEADROOM as u16, here as u16, if_index);
        if let Some(&next) = buffers.get(i + 1) {
            meta.flags.set(Flags::CHAINED);
            meta.next = next;
        }
        if i == 0 {
            meta.tail_len = left as u32;
        }
        *pool.meta_mut(b) = meta;
    }
    buffers[0]
}
