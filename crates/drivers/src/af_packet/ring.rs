//! A ring of packet slots shared with the kernel (`tpacket2_hdr`, `include/uapi/linux/if_packet.h`).
//!
//! Who writes a slot is said by the status word at its start. The kernel writes while a receive slot
//! is `TP_STATUS_KERNEL` or a send slot is neither available nor ours; we write otherwise. The word is
//! read with acquire and written with release order, which pairs with the kernel's own barriers.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

/// Size of `struct tpacket2_hdr`, where the frame of a send slot starts.
pub(super) const HEADER: usize = size_of::<libc::tpacket2_hdr>();
/// What the kernel may put before a received frame: header, address, vnet header, alignment.
const RX_OVERHEAD: usize = 160;
/// Two VLAN tags beyond the largest frame.
const TAGS: usize = 8;
/// Size of a block: slots do not cross blocks, and a block is one piece of kernel memory.
const BLOCK: usize = 256 << 10;
const LINE: usize = 64;

const _: () = assert!(HEADER == 32);

/// Bytes of a receive slot for frames of up to `frame` bytes.
pub(super) fn rx_slot(frame: usize) -> usize {
    slot(frame + TAGS + RX_OVERHEAD)
}

/// Bytes of a send slot for frames of up to `frame` bytes.
pub(super) fn tx_slot(frame: usize) -> usize {
    slot(frame + TAGS + HEADER)
}

/// An odd number of cache lines: slot headers then spread over all sets of the first-level cache.
fn slot(bytes: usize) -> usize {
    (bytes.div_ceil(LINE) | 1) * LINE
}

/// The shape of a ring: what the kernel is asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub slot: usize,
    pub per_block: usize,
    pub block: usize,
    pub blocks: usize,
}

impl Shape {
    /// At least `slots` slots of `slot` bytes.
    pub fn new(slot: usize, slots: usize) -> Shape {
        let block = BLOCK.max(slot.next_multiple_of(4096).next_power_of_two());
        let per_block = block / slot;
        Shape {
            slot,
            per_block,
            block,
            blocks: slots.div_ceil(per_block).max(1),
        }
    }

    pub fn slots(&self) -> usize {
        self.per_block * self.blocks
    }
}

/// A mapped ring and our place in it.
pub(super) struct Ring {
    base: NonNull<u8>,
    shape: Shape,
    next: usize,
}

// SAFETY: the mapping belongs to this value alone (the other side is the kernel, kept apart by the
// status words); moving it to another thread moves that ownership.
unsafe impl Send for Ring {}

impl Ring {
    /// Maps the ring that was made on `fd` with `shape`.
    pub fn map(fd: &OwnedFd, shape: Shape) -> io::Result<Ring> {
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
        let p = unsafe {
            libc::mmap(
                ptr::null_mut(),
                shape.block * shape.blocks,
                prot,
                flags,
                fd.as_raw_fd(),
                0,
            )
        };
        if p == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(p.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Ring {
            base,
            shape,
            next: 0,
        })
    }

    /// Slots in all.
    pub fn slots(&self) -> usize {
        self.shape.slots()
    }

    /// Bytes of a slot.
    pub fn slot_size(&self) -> usize {
        self.shape.slot
    }

    fn at(&self, slot: usize) -> *mut u8 {
        let slot = slot % self.slots();
        let (block, within) = (slot / self.shape.per_block, slot % self.shape.per_block);
        // SAFETY: `block < blocks` and `within < per_block`, so the slot lies inside the mapping.
        unsafe {
            self.base
                .as_ptr()
                .add(block * self.shape.block + within * self.shape.slot)
        }
    }

    fn word(&self, slot: usize) -> &AtomicU32 {
        // SAFETY: `tp_status` is the first word of a slot, slots are 64-byte aligned, and both sides
        // only ever access it as a whole word.
        unsafe { AtomicU32::from_ptr(self.at(slot).cast()) }
    }

    /// Status of the slot at our place.
    pub fn status(&self) -> u32 {
        self.word(self.next).load(Ordering::Acquire)
    }

    /// Status of the slot `back` before our place.
    pub fn status_before(&self, back: usize) -> u32 {
        self.word(self.next + self.slots() - back)
            .load(Ordering::Acquire)
    }

    /// Header of the slot at our place, which must be ours.
    pub fn header(&self) -> libc::tpacket2_hdr {
        // SAFETY: a slot starts with this plain struct and is ours by its status: the kernel does not
        // write it meanwhile.
        unsafe { self.at(self.next).cast::<libc::tpacket2_hdr>().read() }
    }

    /// Sets the lengths of the send slot at our place, which must be ours.
    pub fn set_len(&mut self, len: u32) {
        // SAFETY: as `header`; fields are written through the pointer, the status word is not touched.
        unsafe {
            let header = self.at(self.next).cast::<libc::tpacket2_hdr>();
            (&raw mut (*header).tp_len).write(len);
            (&raw mut (*header).tp_snaplen).write(len);
        }
    }

    /// Bytes `from..from + len` of the slot at our place, which must be ours; `None` beyond its end.
    pub fn bytes_mut(&mut self, from: usize, len: usize) -> Option<&mut [u8]> {
        if from < HEADER || from.checked_add(len)? > self.shape.slot {
            return None;
        }
        // SAFETY: the range lies inside the slot, behind its header; the slot is ours by its status, and
        // `&mut self` makes this the only reference into it.
        Some(unsafe { std::slice::from_raw_parts_mut(self.at(self.next).add(from), len) })
    }

    /// Gives the slot at our place to the kernel with `status` and goes on to the next.
    pub fn pass(&mut self, status: u32) {
        self.word(self.next).store(status, Ordering::Release);
        self.next = (self.next + 1) % self.slots();
    }

    /// Takes back the slot before our place, if the kernel has not begun with it (`requested` still
    /// stands there): its status becomes `free` and it is our place again.
    pub fn take_back(&mut self, requested: u32, free: u32) -> bool {
        let before = (self.next + self.slots() - 1) % self.slots();
        let taken = self.word(before).compare_exchange(
            requested,
            free,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        if taken.is_ok() {
            self.next = before;
        }
        taken.is_ok()
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: exactly what mmap returned, unmapped once.
        unsafe {
            libc::munmap(
                self.base.as_ptr().cast(),
                self.shape.block * self.shape.blocks,
            )
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_what_the_kernel_accepts() {
        for frame in [82, 1514, 1900, 9014, 9230, 65_535] {
            for slot in [rx_slot(frame), tx_slot(frame)] {
                let shape = Shape::new(slot, 512);
                assert!(
                    slot > frame && slot.is_multiple_of(16) && (slot / 64) % 2 == 1,
                    "{shape:?}"
                );
                assert!(
                    shape.block.is_multiple_of(4096) && shape.per_block * slot <= shape.block,
                    "{shape:?}"
                );
                assert!(shape.slots() >= 512 && shape.per_block >= 1, "{shape:?}");
            }
        }
        assert_eq!(RX_RING_SLOTS_AT_1500, 4854);
    }

    const RX_RING_SLOTS_AT_1500: usize = super::super::RX_RING_BYTES / 1728;
}
