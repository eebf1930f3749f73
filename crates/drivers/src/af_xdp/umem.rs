//! The packet memory of one socket (UMEM): chunks that the kernel writes received frames into, and
//! chunks that frames to be sent are copied into.
//!
//! Memory of our own rather than the workers' pools: a queue can move between workers, the kernel
//! may write into a chunk until the socket is gone for good, and a pool must not be drained by the
//! rings of a dozen queues. It costs one copy of ours a packet, beside which the kernel's share of
//! the work is large.

use std::ptr::{self, NonNull};

use nix::errno::Errno;

/// Bytes the kernel keeps free in front of a received frame (`XDP_PACKET_HEADROOM`).
pub(super) const HEADROOM: usize = 256;
const HUGE: usize = 2 << 20;

/// Chunks `0..rx` are for receiving, those behind for sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// Bytes of a chunk: 2048 or 4096.
    pub chunk: usize,
    /// Chunks to receive into.
    pub rx: usize,
    /// Chunks to send from.
    pub tx: usize,
}

impl Layout {
    pub fn bytes(&self) -> usize {
        (self.rx + self.tx) * self.chunk
    }
    /// Offset of a chunk by number.
    pub fn offset(&self, chunk: usize) -> u64 {
        (chunk * self.chunk) as u64
    }
}

/// A mapping of chunks.
pub(super) struct Umem {
    base: NonNull<u8>,
    map: *mut libc::c_void,
    map_len: usize,
    pub layout: Layout,
}

// SAFETY: the mapping stays valid in every thread; who may touch which chunk is settled by the rings:
// the receive half touches chunks below `layout.rx`, the transmit half the others.
unsafe impl Send for Umem {}
// SAFETY: as above: shared by the two halves of a socket, whose chunks are apart.
unsafe impl Sync for Umem {}

impl Umem {
    /// Maps memory for `layout`, on huge pages where the kernel has some together.
    pub fn new(layout: Layout) -> Result<Umem, Errno> {
        let len = layout.bytes().max(1).div_ceil(4096) * 4096;
        let map_len = len + HUGE;
        // SAFETY: an anonymous mapping at an address of the kernel's choice touches nothing that exists.
        let map = unsafe {
            libc::mmap(
                ptr::null_mut(),
                map_len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if map == libc::MAP_FAILED {
            return Err(Errno::last());
        }
        let shift = map.cast::<u8>().align_offset(HUGE);
        // SAFETY: `shift < HUGE` and the mapping is `len + HUGE` long, so the result is inside it.
        let base = unsafe { map.cast::<u8>().add(shift) };
        // SAFETY: the range lies inside the mapping just made; a refusal only means smaller pages.
        unsafe { libc::madvise(base.cast(), len, libc::MADV_HUGEPAGE) };
        Ok(Umem {
            base: NonNull::new(base).ok_or(Errno::ENOMEM)?,
            map,
            map_len,
            layout,
        })
    }

    /// Address of the first byte, page aligned.
    pub fn base(&self) -> u64 {
        self.base.as_ptr() as u64
    }

    /// Number of the receive chunk that holds all of `offset..offset + len`.
    pub fn rx_chunk(&self, offset: u64, len: u32) -> Option<usize> {
        let (offset, len) = (usize::try_from(offset).ok()?, len as usize);
        let chunk = offset / self.layout.chunk;
        let fits = offset % self.layout.chunk + len <= self.layout.chunk;
        (chunk < self.layout.rx && fits).then_some(chunk)
    }

    /// The bytes `offset..offset + len`, to change.
    ///
    /// # Safety
    /// They lie inside one chunk (seen with [`rx_chunk`](Self::rx_chunk), or a transmit chunk) which by
    /// the rings is the caller's alone, neither the kernel's nor the other half's, as long as the
    /// slice lives.
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn bytes(&self, offset: u64, len: usize) -> &mut [u8] {
        debug_assert!(offset as usize + len <= self.layout.bytes());
        // SAFETY: inside the mapping, and the caller's alone, by this function's contract.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr().add(offset as usize), len) }
    }
}

impl Drop for Umem {
    fn drop(&mut self) {
        // SAFETY: exactly what mmap returned, unmapped once. Pages the kernel still writes into stay
        // its own until it has let go of them.
        unsafe { libc::munmap(self.map, self.map_len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_frames_inside_one_receive_chunk_are_accepted() {
        let layout = Layout {
            chunk: 2048,
            rx: 4,
            tx: 4,
        };
        let m = Umem::new(layout).unwrap();
        assert_eq!(m.base() % 4096, 0);
        assert_eq!(m.rx_chunk(256, 1500), Some(0));
        assert_eq!(m.rx_chunk(2048 + 256, 1792), Some(1));
        assert_eq!(m.rx_chunk(2048 + 256, 1793), None, "runs into the next");
        assert_eq!(m.rx_chunk(4 * 2048, 60), None, "a transmit chunk");
        assert_eq!(m.rx_chunk(u64::MAX, 60), None);
        assert_eq!(m.rx_chunk(256, u32::MAX), None);
        // SAFETY: no kernel and no other half: the chunk is the test's.
        let bytes = unsafe { m.bytes(layout.offset(7), 2048) };
        bytes.fill(7);
        assert_eq!(bytes[2047], 7);
    }
}
