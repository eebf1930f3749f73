//! Receiving from a tap queue: one readv per frame, straight into pool buffers.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use nix::errno::Errno;
use parshall_buffer::{BufferIndex, DATA_SIZE, Flags, Frame, HEADROOM, Meta, Pool};
use parshall_device::{RxBurst, RxQueue};

use super::sys::{self, MAX_PARTS};

/// Bytes of an Ethernet header, the least a frame has.
const ETHERNET: usize = 14;
/// Two VLAN tags, which a frame may carry beyond the largest frame.
const TAGS: usize = 8;

/// One receive queue.
pub(super) struct TapRx {
    fd: Arc<OwnedFd>,
    if_index: u32,
    max_frame: Arc<AtomicU32>,
}

impl TapRx {
    pub fn new(fd: Arc<OwnedFd>, if_index: u32, max_frame: Arc<AtomicU32>) -> TapRx {
        TapRx {
            fd,
            if_index,
            max_frame,
        }
    }

    /// Buffers that take the largest frame and at least one byte more: a frame that fills them all was
    /// longer, which readv does not tell.
    fn parts(&self) -> usize {
        let largest = self.max_frame.load(Ordering::Relaxed) as usize + TAGS;
        (largest / DATA_SIZE + 1).min(MAX_PARTS)
    }
}

impl RxQueue for TapRx {
    fn poll(&mut self, pool: &mut Pool, frame: &mut Frame, _now: u64) -> RxBurst {
        let mut burst = RxBurst::default();
        let parts = self.parts();
        let mut spare = [BufferIndex::default(); MAX_PARTS];
        let mut have = 0;
        while frame.room() > 0 {
            have += pool.alloc_bulk(&mut spare[have..parts]);
            if have < parts {
                // The frame stays with the kernel until buffers come back, or the kernel drops it.
                break;
            }
            let len = match sys::read_frame(&self.fd, pool, &spare[..parts]) {
                Ok(len) => len,
                Err(Errno::EINTR) => continue,
                Err(_) => break,
            };
            if len < ETHERNET || len >= parts * DATA_SIZE {
                burst.errors += 1;
                continue;
            }
            let used = len.div_ceil(DATA_SIZE);
            // Used buffers come from the front; the rest moves up for the next frame.
            frame.push(link_up(pool, &spare[..used], len, self.if_index));
            spare.copy_within(used..have, 0);
            have -= used;
            burst.bytes += len as u64;
        }
        pool.free_unchained(&spare[..have]);
        frame.rx_if = self.if_index;
        burst
    }

    fn fd(&self) -> Option<RawFd> {
        Some(self.fd.as_raw_fd())
    }
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
