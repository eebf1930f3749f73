//! A pool as the loop of a node sees it: the base address in a register, offsets that need no clamp.
//!
//! The pool's mapping goes on for [`SLACK`] bytes behind its last buffer, more than any 16-bit offset and
//! the bytes read there: whatever offset a packet's metadata holds, an access stays inside the mapping.

use std::marker::PhantomData;

use crate::pool::{META_SIZE, Pool, STRIDE};
use crate::{BufferIndex, Meta};

/// Most bytes one access through a view takes.
const MOST: usize = 256;
/// Bytes mapped behind the last buffer.
pub(crate) const SLACK: usize = META_SIZE + u16::MAX as usize + MOST;

/// A pool's packets, borrowed for one loop. See [`Pool::view`].
pub struct PoolView<'p> {
    base: *mut u8,
    /// No other way to the packets while this one is there.
    pool: PhantomData<&'p mut Pool>,
}

impl<'p> PoolView<'p> {
    #[inline(always)]
    pub(crate) fn new(_pool: &'p mut Pool, base: *mut u8) -> PoolView<'p> {
        PoolView {
            base,
            pool: PhantomData,
        }
    }

    #[inline(always)]
    fn at(&self, b: BufferIndex) -> *mut u8 {
        // A BufferIndex is made only by a pool, below its count: this stays inside the mapping.
        self.base.wrapping_add(b.0 as usize * STRIDE)
    }

    /// Metadata of a packet.
    #[inline(always)]
    pub fn meta(&self, b: BufferIndex) -> &Meta {
        // SAFETY: `at` is inside the mapping, aligned, and holds a Meta since the pool was made; the view
        // borrows the pool, and `&self` keeps writers through the view out.
        unsafe { &*self.at(b).cast::<Meta>() }
    }

    /// Metadata of a packet, to change.
    #[inline(always)]
    pub fn meta_mut(&mut self, b: BufferIndex) -> &mut Meta {
        // SAFETY: as `meta`, and `&mut self` makes this the only reference into the pool.
        unsafe { &mut *self.at(b).cast::<Meta>() }
    }

    /// `N` bytes of packet `b` from offset `at` of its room (offsets as in [`Meta::data`]), whatever its
    /// length: bytes behind its end are stale but initialised. For loops that judge the length apart.
    #[inline(always)]
    pub fn peek<const N: usize>(&self, b: BufferIndex, at: u16) -> &[u8; N] {
        const { assert!(N <= MOST) };
        let start = self.at(b).wrapping_add(META_SIZE + usize::from(at));
        // SAFETY: at most `SLACK` bytes from a buffer's start, so inside the mapping, all of it initialised
        // (the system gives zeroed pages); shared with readers only, as `meta`.
        unsafe { &*start.cast::<[u8; N]>() }
    }

    /// Fetches the metadata of packet `b`, for a loop that will come to it.
    #[inline(always)]
    pub fn prefetch_meta(&self, b: BufferIndex) {
        prefetch(self.at(b));
    }

    /// Fetches the cache line at offset `at` of packet `b`'s room, for a loop that will come to it.
    #[inline(always)]
    pub fn prefetch(&self, b: BufferIndex, at: u16) {
        prefetch(self.at(b).wrapping_add(META_SIZE + usize::from(at)));
    }

    /// As [`peek`](Self::peek), to change. The caller has made sure that the bytes are the packet's own.
    #[inline(always)]
    pub fn peek_mut<const N: usize>(&mut self, b: BufferIndex, at: u16) -> &mut [u8; N] {
        const { assert!(N <= MOST) };
        debug_assert!(META_SIZE + usize::from(at) + N <= STRIDE);
        let start = self.at(b).wrapping_add(META_SIZE + usize::from(at));
        // SAFETY: as `peek`, and `&mut self` makes this the only reference into the pool.
        unsafe { &mut *start.cast::<[u8; N]>() }
    }
}

#[inline(always)]
fn prefetch(_line: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch changes nothing and cannot fault.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(_line.cast()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HEADROOM, Meta};

    #[test]
    fn a_view_sees_and_changes_what_the_pool_holds() {
        let mut pool = Pool::new(4).unwrap();
        let a = pool.packet_from(&[7; 40], 1).unwrap();
        let b = pool.packet_from(&[9; 60], 2).unwrap();
        let mut view = pool.view();
        assert_eq!(view.peek::<4>(b, HEADROOM as u16), &[9; 4]);
        view.peek_mut::<2>(b, HEADROOM as u16)
            .copy_from_slice(&[1, 2]);
        view.meta_mut(a).len = 3;
        assert_eq!(view.meta(b).rx_if, 2);
        assert_eq!(pool.bytes(a), [7; 3]);
        assert_eq!(pool.bytes(b)[..3], [1, 2, 9]);
    }

    #[test]
    fn no_offset_leads_out_of_the_memory() {
        let mut pool = Pool::new(2).unwrap();
        let all = [pool.alloc().unwrap(), pool.alloc().unwrap()];
        for b in all {
            assert_eq!(pool.view().peek::<MOST>(b, u16::MAX).len(), MOST);
        }
    }

    #[test]
    fn the_head_of_metadata_is_four_fields_in_one_word() {
        let mut m = Meta::received(128, 60, 1);
        assert_eq!(m.head(), 60 << 16 | 128);
        m.flags.set(crate::Flags::CHAINED);
        m.reason = 5;
        assert_eq!(m.head(), 5 << 48 | 1 << 32 | 60 << 16 | 128);
        m.set_head(m.head().wrapping_add(14).wrapping_sub(14 << 16));
        assert_eq!((m.data, m.len, m.flags.0, m.reason), (142, 46, 1, 5));
    }
}
