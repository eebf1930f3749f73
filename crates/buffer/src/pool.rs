//! The pool: a worker's packet buffers and its stack of free ones.
//!
//! One worker owns a pool; nothing in it is shared, so taking and giving back is moving numbers on
//! and off a stack. The stack is last-in first-out, so that hot buffers are used again first.

use std::io;

use crate::pages::{Mapping, PageKind};
use crate::view::{PoolView, SLACK};
use crate::{BufferIndex, Flags, Meta};

/// Bytes in front of the data where headers can be pushed.
pub const HEADROOM: usize = 128;
/// Bytes of packet data one buffer holds behind the headroom.
pub const DATA_SIZE: usize = 2176;
/// Distance between two buffers.
pub const STRIDE: usize = META_SIZE + HEADROOM + DATA_SIZE;

pub(crate) const META_SIZE: usize = size_of::<Meta>();
/// Offsets run over headroom and data together.
const ROOM: usize = HEADROOM + DATA_SIZE;

const _: () = assert!(STRIDE == 37 * 64);

/// A worker's packet memory.
pub struct Pool {
    memory: Mapping,
    count: u32,
    free: Vec<BufferIndex>,
    #[cfg(debug_assertions)]
    taken: Vec<bool>,
}

impl Pool {
    /// Makes a pool of `count` buffers on the largest pages there are.
    ///
    /// # Errors
    /// When the memory cannot be mapped.
    pub fn new(count: usize) -> io::Result<Pool> {
        let count = u32::try_from(count).map_err(|_| io::ErrorKind::InvalidInput)?;
        let memory = Mapping::new(count as usize * STRIDE + SLACK)?;
        let mut pool = Pool {
            memory,
            count,
            free: (0..count).rev().map(BufferIndex).collect(),
            #[cfg(debug_assertions)]
            taken: vec![false; count as usize],
        };
        for i in 0..count {
            *pool.meta_mut(BufferIndex(i)) = Meta::received(HEADROOM as u16, 0, crate::IF_NONE);
        }
        Ok(pool)
    }

    /// Buffers in all.
    pub fn capacity(&self) -> usize {
        self.count as usize
    }
    /// Buffers not in use.
    pub fn available(&self) -> usize {
        self.free.len()
    }
    /// What pages the memory lies on.
    pub fn page_kind(&self) -> PageKind {
        self.memory.kind
    }

    /// Takes one buffer; its metadata is stale until the caller writes it.
    #[inline]
    pub fn alloc(&mut self) -> Option<BufferIndex> {
        let b = self.free.pop()?;
        self.mark(b, true);
        Some(b)
    }

    /// Takes up to `out.len()` buffers and says how many.
    #[inline]
    pub fn alloc_bulk(&mut self, out: &mut [BufferIndex]) -> usize {
        let k = out.len().min(self.free.len());
        let at = self.free.len() - k;
        out[..k].copy_from_slice(&self.free[at..]);
        self.free.truncate(at);
        #[cfg(debug_assertions)]
        for &b in &out[..k] {
            self.mark(b, true);
        }
        k
    }

    /// Gives one packet back, chain included.
    #[inline]
    pub fn free(&mut self, b: BufferIndex) {
        if self.meta(b).flags.has(Flags::CHAINED) {
            return self.free_chain(b);
        }
        self.give(&[b]);
    }

    /// Gives packets back, chains included.
    #[inline]
    pub fn free_bulk(&mut self, packets: &[BufferIndex]) {
        let any = packets.iter().fold(0, |or, &b| or | self.meta(b).flags.0);
        if any & Flags::CHAINED.0 == 0 {
            return self.give(packets);
        }
        for &b in packets {
            self.free(b);
        }
    }

    /// Gives back packets that the caller knows not to be chained, without reading their metadata.
    #[inline]
    pub fn free_unchained(&mut self, packets: &[BufferIndex]) {
        self.give(packets);
    }

    #[cold]
    fn free_chain(&mut self, mut b: BufferIndex) {
        // A chain can have no more links than the pool has buffers: a loop would be our own bug, and
        // this bound turns it into a debug failure instead of a hang.
        for _ in 0..self.count {
            let (more, next) = (self.meta(b).flags.has(Flags::CHAINED), self.meta(b).next);
            self.meta_mut(b).flags.clear(Flags::CHAINED);
            self.give(&[b]);
            if !more {
                return;
            }
            b = next;
        }
        debug_assert!(false, "buffer chain has a loop");
    }

    #[inline]
    fn give(&mut self, packets: &[BufferIndex]) {
        #[cfg(debug_assertions)]
        for &b in packets {
            self.mark(b, false);
        }
        debug_assert!(
            self.free.len() + packets.len() <= self.count as usize,
            "more freed than taken"
        );
        self.free.extend_from_slice(packets);
    }

    #[inline(always)]
    fn mark(&mut self, _b: BufferIndex, _taken: bool) {
        #[cfg(debug_assertions)]
        {
            let was = std::mem::replace(&mut self.taken[_b.0 as usize], _taken);
            assert!(
                was != _taken,
                "buffer {} {}",
                _b.0,
                if _taken { "taken twice" } else { "freed twice" }
            );
        }
    }

    /// The packets, for a loop over many of them.
    #[inline(always)]
    pub fn view(&mut self) -> PoolView<'_> {
        let base = self.memory.base();
        PoolView::new(self, base)
    }

    #[inline(always)]
    fn at(&self, b: BufferIndex) -> *mut u8 {
        debug_assert!(b.0 < self.count);
        // SAFETY: a BufferIndex is made only by a pool, below its count; all pools of a process have the
        // same count (documented on `BufferIndex`), so the stride lies inside the mapping.
        unsafe { self.memory.base().add(b.0 as usize * STRIDE) }
    }

    /// Metadata of a packet.
    #[inline(always)]
    pub fn meta(&self, b: BufferIndex) -> &Meta {
        // SAFETY: `at` is inside the mapping, 64-byte aligned (stride and base are), and holds a Meta
        // since `new`; `&self` keeps writers out.
        unsafe { &*self.at(b).cast::<Meta>() }
    }
    /// Metadata of a packet, to change.
    #[inline(always)]
    pub fn meta_mut(&mut self, b: BufferIndex) -> &mut Meta {
        // SAFETY: as `meta`, and `&mut self` makes this the only reference into the pool.
        unsafe { &mut *self.at(b).cast::<Meta>() }
    }

    /// Metadata and the whole room (headroom and data), to change together.
    #[inline(always)]
    pub fn parts_mut(&mut self, b: BufferIndex) -> (&mut Meta, &mut [u8; ROOM]) {
        let p = self.at(b);
        // SAFETY: metadata and room are disjoint parts of one stride inside the mapping; `&mut self`
        // makes these the only references into the pool.
        unsafe {
            (
                &mut *p.cast::<Meta>(),
                &mut *p.add(META_SIZE).cast::<[u8; ROOM]>(),
            )
        }
    }
    /// Metadata and the whole room, to read together.
    #[inline(always)]
    pub fn parts(&self, b: BufferIndex) -> (&Meta, &[u8; ROOM]) {
        let p = self.at(b);
        // SAFETY: as `parts_mut`, shared.
        unsafe { (&*p.cast::<Meta>(), &*p.add(META_SIZE).cast::<[u8; ROOM]>()) }
    }

    /// The current bytes of the first buffer: from the current header to its end.
    #[inline(always)]
    pub fn bytes(&self, b: BufferIndex) -> &[u8] {
        let (m, room) = self.parts(b);
        let start = (m.data as usize).min(ROOM);
        let end = (start + m.len as usize).min(ROOM);
        &room[start..end]
    }
    /// The current bytes of the first buffer, to change.
    #[inline(always)]
    pub fn bytes_mut(&mut self, b: BufferIndex) -> &mut [u8] {
        let (m, room) = self.parts_mut(b);
        let start = (m.data as usize).min(ROOM);
        let end = (start + m.len as usize).min(ROOM);
        &mut room[start..end]
    }

    /// `N` bytes at the current header plus `at`, when the first buffer holds that many.
    #[inline(always)]
    pub fn head<const N: usize>(&self, b: BufferIndex, at: usize) -> Option<&[u8; N]> {
        let (m, room) = self.parts(b);
        if (m.len as usize) < at + N {
            return None;
        }
        room.get(m.data as usize + at..)?.first_chunk()
    }

    /// `N` bytes at the current header plus `at`, whatever the packet's length: bytes behind its end are
    /// stale but initialised memory of the same buffer. For loops that judge the length separately.
    #[inline(always)]
    pub fn peek<const N: usize>(&self, b: BufferIndex, at: usize) -> &[u8; N] {
        let (m, room) = self.parts(b);
        let start = (m.data as usize + at).min(ROOM - N);
        // SAFETY: `start + N <= ROOM`, the length of `room`.
        unsafe { &*room.as_ptr().add(start).cast::<[u8; N]>() }
    }
    /// As [`peek`](Self::peek), to change.
    #[inline(always)]
    pub fn peek_mut<const N: usize>(&mut self, b: BufferIndex, at: usize) -> &mut [u8; N] {
        let (m, room) = self.parts_mut(b);
        let start = (m.data as usize + at).min(ROOM - N);
        // SAFETY: `start + N <= ROOM`, the length of `room`.
        unsafe { &mut *room.as_mut_ptr().add(start).cast::<[u8; N]>() }
    }

    /// A pointer to the current header, for nodes that have checked the length themselves.
    #[inline(always)]
    pub fn data_ptr(&self, b: BufferIndex) -> *mut u8 {
        // SAFETY: `data <= ROOM` always holds (every writer keeps it), so this stays inside the stride.
        unsafe { self.at(b).add(META_SIZE + self.meta(b).data as usize) }
    }

    /// Drops `n` bytes in front; false (and nothing done) when the first buffer has fewer.
    #[inline(always)]
    pub fn pull(&mut self, b: BufferIndex, n: u16) -> bool {
        let m = self.meta_mut(b);
        if m.len < n {
            return false;
        }
        m.data += n;
        m.len -= n;
        true
    }
    /// Makes `n` bytes of room in front and returns them; `None` when the headroom is used up.
    #[inline(always)]
    pub fn push(&mut self, b: BufferIndex, n: u16) -> Option<&mut [u8]> {
        let (m, room) = self.parts_mut(b);
        if m.data < n || usize::from(m.data) > ROOM {
            return None;
        }
        m.data -= n;
        m.len += n;
        room.get_mut(m.data as usize..m.data as usize + n as usize)
    }

    /// Makes a packet of `bytes` (chained when long) received on `rx_if`; `None` when buffers run out.
    pub fn packet_from(&mut self, bytes: &[u8], rx_if: u32) -> Option<BufferIndex> {
        let first = self.alloc()?;
        let head = bytes.len().min(DATA_SIZE);
        *self.meta_mut(first) = Meta::received(HEADROOM as u16, head as u16, rx_if);
        self.parts_mut(first).1[HEADROOM..HEADROOM + head].copy_from_slice(&bytes[..head]);
        if self.append_chain(first, &bytes[head..]) {
            return Some(first);
        }
        self.free(first);
        None
    }

    /// Makes a packet of `parts`, `len` bytes in all, received on `rx_if`, in as many buffers as they need;
    /// `None` when buffers run out.
    pub fn packet_from_parts<'p>(
        &mut self,
        parts: impl Iterator<Item = &'p [u8]>,
        len: usize,
        rx_if: u32,
    ) -> Option<BufferIndex> {
        let first = self.alloc()?;
        *self.meta_mut(first) = Meta::received(HEADROOM as u16, 0, rx_if);
        let (mut last, mut at) = (first, 0);
        for mut part in parts {
            while !part.is_empty() {
                if at == DATA_SIZE {
                    let Some(next) = self.alloc() else {
                        self.free(first);
                        return None;
                    };
                    *self.meta_mut(next) = Meta::received(HEADROOM as u16, 0, rx_if);
                    let meta = self.meta_mut(last);
                    meta.next = next;
                    meta.flags.set(Flags::CHAINED);
                    (last, at) = (next, 0);
                }
                let (now, rest) = part.split_at(part.len().min(DATA_SIZE - at));
                let (meta, room) = self.parts_mut(last);
                room[HEADROOM + at..HEADROOM + at + now.len()].copy_from_slice(now);
                at += now.len();
                meta.len = at as u16;
                part = rest;
            }
        }
        let meta = self.meta_mut(first);
        meta.tail_len = (len - usize::from(meta.len)) as u32;
        Some(first)
    }

    /// A second packet like `b`: the same metadata and bytes, [`Flags::COPY`] set; `None` when buffers run out.
    #[inline]
    pub fn duplicate(&mut self, b: BufferIndex) -> Option<BufferIndex> {
        let copy = self.alloc()?;
        let mut meta = *self.meta(b);
        let chained = meta.flags.has(Flags::CHAINED);
        meta.flags.set(Flags::COPY);
        meta.flags.clear(Flags::CHAINED);
        *self.meta_mut(copy) = meta;
        self.copy_bytes(b, copy);
        if chained && !self.duplicate_tail(meta.next, copy) {
            self.free(copy);
            return None;
        }
        Some(copy)
    }

    /// Copies what a buffer holds, from its link-layer header on, to the same place of another.
    #[inline]
    fn copy_bytes(&mut self, from: BufferIndex, to: BufferIndex) {
        let m = self.meta(from);
        let start = usize::from(m.data.min(m.l2)).min(ROOM);
        let end = (usize::from(m.data) + usize::from(m.len)).clamp(start, ROOM);
        // Whole cache lines while they fit: most packets are one.
        let len = (end - start).next_multiple_of(64).min(ROOM - start);
        let (from, to) = (self.at(from), self.at(to));
        let at = META_SIZE + start;
        // SAFETY: `start + len <= ROOM`, so both ranges lie in the rooms of their buffers, which are two: the second
        // was free a moment ago. `&mut self` keeps every other access out.
        unsafe { std::ptr::copy_nonoverlapping(from.add(at), to.add(at), len) };
    }

    /// Copies the buffers of a chain from `next` on behind `last`; false when buffers ran out.
    #[cold]
    fn duplicate_tail(&mut self, mut next: BufferIndex, mut last: BufferIndex) -> bool {
        for _ in 0..self.count {
            let Some(copy) = self.alloc() else {
                return false;
            };
            let mut meta = *self.meta(next);
            let more = meta.flags.has(Flags::CHAINED);
            meta.flags.clear(Flags::CHAINED);
            *self.meta_mut(copy) = meta;
            self.copy_bytes(next, copy);
            let m = self.meta_mut(last);
            m.next = copy;
            m.flags.set(Flags::CHAINED);
            if !more {
                return true;
            }
            (next, last) = (meta.next, copy);
        }
        false
    }

    /// Appends `bytes` behind packet `first` in new buffers; false when buffers ran out (what was
    /// appended so far stays, and is freed with the packet). `first` must not be chained yet.
    pub fn append_chain(&mut self, first: BufferIndex, bytes: &[u8]) -> bool {
        let mut last = first;
        for part in bytes.chunks(DATA_SIZE) {
            let Some(b) = self.alloc() else { return false };
            *self.meta_mut(b) = Meta::received(HEADROOM as u16, part.len() as u16, crate::IF_NONE);
            self.parts_mut(b).1[HEADROOM..HEADROOM + part.len()].copy_from_slice(part);
            let m = self.meta_mut(last);
            m.next = b;
            m.flags.set(Flags::CHAINED);
            self.meta_mut(first).tail_len += part.len() as u32;
            last = b;
        }
        true
    }

    /// Calls `f` with each piece of a packet in order.
    pub fn for_each_part<'p>(&'p self, b: BufferIndex, mut f: impl FnMut(&'p [u8])) {
        let mut b = b;
        for _ in 0..self.count {
            f(self.bytes(b));
            let m = self.meta(b);
            if !m.flags.has(Flags::CHAINED) {
                return;
            }
            b = m.next;
        }
    }

    /// Copies a packet's bytes from its current header into `out`, and says how many were copied.
    pub fn copy_out(&self, b: BufferIndex, out: &mut [u8]) -> usize {
        let mut at = 0;
        self.for_each_part(b, |part| {
            let k = part.len().min(out.len() - at);
            out[at..at + k].copy_from_slice(&part[..k]);
            at += k;
        });
        at
    }

    /// All bytes of a packet, for tests and slow paths.
    pub fn to_vec(&self, b: BufferIndex) -> Vec<u8> {
        let mut out = vec![0; self.meta(b).total_len() as usize];
        let n = self.copy_out(b, &mut out);
        out.truncate(n);
        out
    }

    /// Cuts a packet to `n` bytes from its current header; longer chains are freed behind it.
    pub fn trim(&mut self, b: BufferIndex, n: u32) {
        if self.meta(b).total_len() <= n {
            return;
        }
        let mut left = n;
        let mut at = b;
        loop {
            let m = self.meta_mut(at);
            let here = u32::from(m.len).min(left);
            m.len = here as u16;
            left -= here;
            let (chained, next) = (m.flags.has(Flags::CHAINED), m.next);
            if left == 0 {
                m.flags.clear(Flags::CHAINED);
                if chained {
                    self.free(next);
                }
                break;
            }
            if !chained {
                break;
            }
            at = next;
        }
        let first = self.meta_mut(b);
        first.tail_len = n.saturating_sub(u32::from(first.len));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_longer_than_a_buffer_are_chained_and_come_back_whole() {
        let mut pool = Pool::new(16).unwrap();
        let bytes: Vec<u8> = (0..9000u32).map(|i| i as u8).collect();
        let b = pool.packet_from(&bytes, 3).unwrap();
        assert_eq!(pool.meta(b).total_len(), 9000);
        assert_eq!(pool.available(), 16 - 5);
        assert_eq!(pool.to_vec(b), bytes);
        pool.trim(b, 3000);
        assert_eq!(pool.to_vec(b), bytes[..3000]);
        assert_eq!(pool.available(), 14);
        pool.trim(b, 100);
        assert_eq!(pool.to_vec(b), bytes[..100]);
        pool.free(b);
        assert_eq!(pool.available(), 16);
    }

    #[test]
    fn a_duplicate_is_the_same_packet_in_buffers_of_its_own() {
        let mut pool = Pool::new(16).unwrap();
        for len in [14, 60, 64, 65, 1500, DATA_SIZE, DATA_SIZE + 1, 9000] {
            let bytes: Vec<u8> = (0..len as u32).map(|i| (i * 7) as u8).collect();
            let b = pool.packet_from(&bytes, 3).unwrap();
            pool.pull(b, 14);
            let copy = pool.duplicate(b).unwrap();
            assert!(pool.push(copy, 14).is_some());
            pool.bytes_mut(b).fill(0);
            pool.free(b);
            assert_eq!(pool.to_vec(copy), bytes, "{len}");
            assert!(pool.meta(copy).flags.has(Flags::COPY) && pool.meta(copy).rx_if == 3);
            pool.free(copy);
            assert_eq!(pool.available(), 16);
        }
        let long = pool.packet_from(&[1; 18_000], 0).unwrap();
        let left = pool.available();
        assert!(pool.duplicate(long).is_none());
        assert_eq!(pool.available(), left);
    }

    #[test]
    fn running_out_leaks_nothing() {
        let mut pool = Pool::new(3).unwrap();
        assert!(pool.packet_from(&[0; 9000], 0).is_none());
        assert_eq!(pool.available(), 3);
    }

    #[test]
    fn pull_and_push_keep_to_the_room() {
        let mut pool = Pool::new(2).unwrap();
        let b = pool.packet_from(&[1; 64], 0).unwrap();
        assert!(pool.pull(b, 14));
        assert!(!pool.pull(b, 51));
        assert_eq!(pool.push(b, 14).unwrap().len(), 14);
        assert_eq!(pool.push(b, HEADROOM as u16).unwrap().len(), HEADROOM);
        assert!(pool.push(b, 1).is_none());
        pool.free(b);
    }

    #[test]
    #[should_panic(expected = "freed twice")]
    #[cfg(debug_assertions)]
    fn a_double_free_is_caught() {
        let mut pool = Pool::new(2).unwrap();
        let b = pool.alloc().unwrap();
        pool.free(b);
        pool.free(b);
    }
}
