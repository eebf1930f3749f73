//! The four rings of an AF_XDP socket, shared with the kernel: mapping and walking them.
//!
//! Each has one producer and one consumer, one of them the kernel. A side writes entries (or has
//! read them) and then moves its own index with a release store; the other side's index is read with
//! an acquire load (the kernel's `net/xdp/xsk_queue.h`). Indices run freely over 32 bits.

use std::marker::PhantomData;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use nix::errno::Errno;

/// A packet, or a piece of one, on a receive or transmit ring (`struct xdp_desc`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Desc {
    /// Offset of its first byte in the packet memory.
    pub addr: u64,
    /// Bytes.
    pub len: u32,
    /// [`Desc::CONTINUED`] or 0.
    pub options: u32,
}

impl Desc {
    /// The next entry is of the same packet.
    pub const CONTINUED: u32 = libc::XDP_PKT_CONTD;
}

/// Where the parts of a ring lie in its mapping (`struct xdp_ring_offset`).
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct Offsets {
    pub producer: u64,
    pub consumer: u64,
    pub desc: u64,
    pub flags: u64,
}

/// A mapped ring of entries `T`.
pub(super) struct Ring<T> {
    base: NonNull<u8>,
    len: usize,
    at: Offsets,
    mask: u32,
    /// Our own index, ahead of the published one while a batch is made.
    ours: u32,
    /// The other side's index as last seen.
    theirs: u32,
    entries: PhantomData<T>,
}

// SAFETY: the mapping stays valid in every thread, and only the owner of the value walks it.
unsafe impl<T: Send> Send for Ring<T> {}

/// Entries are plain data of any bit pattern, which the kernel writes.
pub(super) trait Entry: Copy + Send {}
impl Entry for u64 {}
impl Entry for Desc {}

impl<T: Entry> Ring<T> {
    /// Maps a ring of `size` entries (a power of two) of `fd`; `page` names it to mmap.
    pub fn map(fd: &OwnedFd, page: u64, size: u32, at: Offsets) -> Result<Ring<T>, Errno> {
        let len = at.desc as usize + size as usize * size_of::<T>();
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory of ours.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_POPULATE,
                fd.as_raw_fd(),
                page as libc::off_t,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(Errno::last());
        }
        let base = NonNull::new(base.cast()).ok_or(Errno::ENOMEM)?;
        let inside = [at.producer, at.consumer, at.flags]
            .iter()
            .all(|&o| o.is_multiple_of(4) && (o as usize) + 4 <= len);
        let ring = Ring {
            base,
            len,
            at,
            mask: size - 1,
            ours: 0,
            theirs: 0,
            entries: PhantomData,
        };
        if !inside || !size.is_power_of_two() || !at.desc.is_multiple_of(8) {
            return Err(Errno::EPROTO);
        }
        Ok(ring)
    }

    #[inline(always)]
    fn word(&self, offset: u64) -> &AtomicU32 {
        // SAFETY: the offset is inside the mapping and aligned (checked in `map`), the mapping lives as
        // long as `self`, and both sides access the word atomically.
        unsafe { AtomicU32::from_ptr(self.base.as_ptr().add(offset as usize).cast()) }
    }

    #[inline(always)]
    fn entry(&self, index: u32) -> *mut T {
        let n = (index & self.mask) as usize;
        // SAFETY: masked below the ring's size, so the entry is inside the mapping.
        unsafe {
            self.base
                .as_ptr()
                .add(self.at.desc as usize)
                .cast::<T>()
                .add(n)
        }
    }

    /// Entries in all.
    pub fn size(&self) -> usize {
        self.mask as usize + 1
    }

    /// Whether the kernel wants to be told of new entries.
    #[inline(always)]
    pub fn needs_wakeup(&self) -> bool {
        self.word(self.at.flags).load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }

    // As producer.

    /// Entries that can be written.
    #[inline]
    pub fn free(&mut self, wanted: usize) -> usize {
        let free = |r: &Ring<T>| r.size() - (r.ours.wrapping_sub(r.theirs) as usize).min(r.size());
        if free(self) < wanted {
            self.theirs = self.word(self.at.consumer).load(Ordering::Acquire);
        }
        free(self)
    }

    /// Entries written and published that the kernel has not taken.
    pub fn untaken(&mut self) -> usize {
        self.theirs = self.word(self.at.consumer).load(Ordering::Acquire);
        self.ours.wrapping_sub(self.theirs) as usize
    }

    /// Writes the next entry; the caller has seen with [`free`](Self::free) that there is room.
    #[inline(always)]
    pub fn write(&mut self, entry: T) {
        // SAFETY: inside the mapping; the kernel does not read it before the index is published.
        unsafe { self.entry(self.ours).write(entry) };
        self.ours = self.ours.wrapping_add(1);
    }

    /// Publishes what was written.
    #[inline(always)]
    pub fn submit(&mut self) {
        self.word(self.at.producer)
            .store(self.ours, Ordering::Release);
    }

    // As consumer.

    /// Entries that can be read.
    #[inline]
    pub fn ready(&mut self) -> usize {
        self.theirs = self.word(self.at.producer).load(Ordering::Acquire);
        (self.theirs.wrapping_sub(self.ours) as usize).min(self.size())
    }

    /// The entry `ahead` of the next one; the caller has seen with [`ready`](Self::ready) that it is
    /// there.
    #[inline(always)]
    pub fn peek(&self, ahead: usize) -> T {
        // SAFETY: inside the mapping; the kernel does not write an entry that is ours, and every bit
        // pattern is a valid entry.
        unsafe { self.entry(self.ours.wrapping_add(ahead as u32)).read() }
    }

    /// Goes on by `n` entries that were read.
    #[inline(always)]
    pub fn advance(&mut self, n: usize) {
        self.ours = self.ours.wrapping_add(n as u32);
    }

    /// Gives what was read back to the kernel.
    #[inline(always)]
    pub fn release(&mut self) {
        self.word(self.at.consumer)
            .store(self.ours, Ordering::Release);
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        // SAFETY: exactly what mmap returned, unmapped once.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::memfd::{MFdFlags, memfd_create};

    /// Two views of one ring: ours and the kernel's.
    fn pair(size: u32) -> (Ring<u64>, Ring<u64>) {
        let fd = memfd_create(c"ring", MFdFlags::empty()).unwrap();
        nix::unistd::ftruncate(&fd, 4096).unwrap();
        let at = Offsets {
            producer: 0,
            consumer: 64,
            desc: 256,
            flags: 128,
        };
        let map = || Ring::map(&fd, 0, size, at).unwrap();
        (map(), map())
    }

    #[test]
    fn entries_come_out_in_order_over_the_wrap_of_the_index() {
        let (mut producer, mut consumer) = pair(8);
        // Start just before the 32-bit index wraps.
        for r in [&mut producer, &mut consumer] {
            r.ours = u32::MAX - 20;
            r.theirs = u32::MAX - 20;
        }
        producer.submit();
        consumer.release();
        let (mut next_in, mut next_out) = (0u64, 0u64);
        for step in [3, 8, 1, 5, 8, 8, 2, 7, 8] {
            let n = producer.free(step).min(step);
            for _ in 0..n {
                producer.write(next_in);
                next_in += 1;
            }
            assert!(next_in > next_out || n == 0);
            producer.submit();
            let ready = consumer.ready();
            assert_eq!(ready as u64, next_in - next_out);
            for ahead in 0..ready {
                assert_eq!(consumer.peek(ahead), next_out + ahead as u64);
            }
            consumer.advance(ready);
            next_out += ready as u64;
            assert_eq!(producer.untaken(), ready, "not released yet");
            consumer.release();
            assert_eq!(producer.untaken(), 0);
        }
        assert_eq!(next_out, 50);
    }

    #[test]
    fn a_full_ring_takes_nothing_and_an_index_beyond_it_is_bounded() {
        let (mut producer, mut consumer) = pair(4);
        assert_eq!(producer.free(4), 4);
        (0..4).for_each(|n| producer.write(n));
        producer.submit();
        assert_eq!(producer.free(1), 0);
        // A broken peer claims more than the ring holds.
        producer.ours = producer.ours.wrapping_add(1000);
        producer.submit();
        assert_eq!(consumer.ready(), 4);
        assert!(!producer.needs_wakeup());
    }

    #[test]
    fn offsets_outside_the_mapping_are_refused() {
        let fd = memfd_create(c"ring", MFdFlags::empty()).unwrap();
        nix::unistd::ftruncate(&fd, 4096).unwrap();
        let at = Offsets {
            producer: 1 << 20,
            ..Offsets::default()
        };
        assert!(Ring::<u64>::map(&fd, 0, 8, at).is_err());
    }
}
