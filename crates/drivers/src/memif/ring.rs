//! A ring in shared memory: layout, checks, and the descriptors.
//!
//! Layout as in libmemif's `memif.h`: cookie, flags and head on the first cache line, tail on the second,
//! descriptors of 16 bytes from the third on. Head and tail count up for ever and wrap at 65,536. The slave
//! owns the memory and moves the head; the master moves the tail:
//!
//! | ring | from last tail to head there are | from tail back to the slave's last place |
//! |---|---|---|
//! | slave to master | packets for the master | buffers it has given back |
//! | master to slave | empty buffers for the master | packets for the slave |
//!
//! The peer can change any of this at any time. Each index and descriptor is loaded once by an atomic load,
//! checked, and used from the local copy.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

use super::message::AddRing;
use super::region::Region;

/// Marks a ring.
const COOKIE: u32 = 0x03E3_1F20;
/// In the ring's flags, set by its reader: do not signal.
pub(super) const MASK_INTERRUPT: u16 = 1;
/// In a descriptor's flags: the packet goes on in the next one.
pub(super) const NEXT: u16 = 1;
/// Longest ring: 2^14 descriptors.
pub(super) const MAX_LOG2: u8 = 14;
/// Descriptors of 16 bytes on one cache line.
pub(super) const PER_LINE: usize = 4;

const FLAGS: usize = 4;
const HEAD: usize = 6;
const TAIL: usize = 64;
const DESCRIPTORS: usize = 128;
const DESCRIPTOR: usize = 16;

/// Bytes a ring takes.
pub(super) const fn bytes(log2: u8) -> usize {
    DESCRIPTORS + (DESCRIPTOR << log2)
}

/// A ring, as far as both sides look at it alike.
#[derive(Clone, Debug)]
pub(super) struct Ring {
    base: *mut u8,
    log2: u8,
    /// Keeps the memory mapped.
    regions: Arc<Vec<Region>>,
}

// SAFETY: `base` points into memory that `regions` keeps; it is shared with another process anyway and
// accessed only by atomics.
unsafe impl Send for Ring {}
// SAFETY: as above.
unsafe impl Sync for Ring {}

/// The first half of a descriptor, which the filling side writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Filled {
    pub flags: u16,
    pub region: u16,
    pub length: u32,
}

impl Filled {
    #[inline(always)]
    fn from_word(word: u64) -> Filled {
        let [a, b, c, d, length @ ..] = word.to_ne_bytes();
        Filled {
            flags: u16::from_ne_bytes([a, b]),
            region: u16::from_ne_bytes([c, d]),
            length: u32::from_ne_bytes(length),
        }
    }
    #[inline(always)]
    fn word(self) -> u64 {
        let ([a, b], [c, d]) = (self.flags.to_ne_bytes(), self.region.to_ne_bytes());
        let [e, f, g, h] = self.length.to_ne_bytes();
        u64::from_ne_bytes([a, b, c, d, e, f, g, h])
    }
}

impl Ring {
    /// The ring that `spec` describes.
    ///
    /// # Errors
    /// When it does not lie inside its region, or is no ring.
    pub fn new(regions: &Arc<Vec<Region>>, spec: &AddRing) -> Result<Ring, &'static str> {
        if spec.log2_ring_size > MAX_LOG2 {
            return Err("ring too long");
        }
        let len = bytes(spec.log2_ring_size);
        let region = regions
            .get(usize::from(spec.region))
            .ok_or("ring in an unknown region")?;
        let base = region
            .span(spec.offset, len as u32)
            .ok_or("ring outside of its region")?;
        if !base.cast::<u64>().is_aligned() {
            return Err("ring at an odd offset");
        }
        let ring = Ring {
            base,
            log2: spec.log2_ring_size,
            regions: regions.clone(),
        };
        Ok(ring)
    }

    /// Whether it carries the mark of a ring.
    pub fn is_marked(&self) -> bool {
        self.cookie().load(Ordering::Relaxed) == COOKIE
    }

    /// Makes it an empty ring.
    pub fn clear(&self) {
        self.cookie().store(COOKIE, Ordering::Relaxed);
        self.flags().store(0, Ordering::Relaxed);
        self.head().store(0, Ordering::Relaxed);
        self.tail().store(0, Ordering::Relaxed);
    }

    /// Descriptors in it.
    #[inline(always)]
    pub fn size(&self) -> u16 {
        1 << self.log2
    }
    #[inline(always)]
    fn mask(&self) -> usize {
        (1 << self.log2) - 1
    }

    fn cookie(&self) -> &AtomicU32 {
        // SAFETY: inside the ring, aligned as `base` is; accessed only atomically on our side.
        unsafe { AtomicU32::from_ptr(self.base.cast()) }
    }
    #[inline(always)]
    fn half(&self, at: usize) -> &AtomicU16 {
        // SAFETY: `at` is one of the three constants, inside the ring and even; `base` is aligned to 8.
        unsafe { AtomicU16::from_ptr(self.base.add(at).cast()) }
    }
    /// What the reader wants.
    #[inline(always)]
    pub fn flags(&self) -> &AtomicU16 {
        self.half(FLAGS)
    }
    /// Where the slave is.
    #[inline(always)]
    pub fn head(&self) -> &AtomicU16 {
        self.half(HEAD)
    }
    /// Where the master is.
    #[inline(always)]
    pub fn tail(&self) -> &AtomicU16 {
        self.half(TAIL)
    }

    /// Address of the descriptor for count `at`.
    #[inline(always)]
    pub fn descriptor(&self, at: u16) -> *mut u8 {
        // SAFETY: the mask keeps it within the ring's descriptors.
        unsafe {
            self.base
                .add(DESCRIPTORS + DESCRIPTOR * (usize::from(at) & self.mask()))
        }
    }
    #[inline(always)]
    fn words(&self, at: u16) -> (&AtomicU64, &AtomicU64) {
        let d = self.descriptor(at).cast::<u64>();
        // SAFETY: a descriptor is two aligned words inside the ring, accessed only atomically on our side.
        unsafe { (AtomicU64::from_ptr(d), AtomicU64::from_ptr(d.add(1))) }
    }

    /// The first half of a descriptor, read once.
    #[inline(always)]
    pub fn filled(&self, at: u16) -> Filled {
        Filled::from_word(self.words(at).0.load(Ordering::Relaxed))
    }
    /// Writes the first half of a descriptor.
    #[inline(always)]
    pub fn fill(&self, at: u16, to: Filled) {
        self.words(at).0.store(to.word(), Ordering::Relaxed);
    }
    /// Offset in a descriptor, read once.
    #[inline(always)]
    pub fn offset(&self, at: u16) -> u32 {
        let [a, b, c, d, ..] = self.words(at).1.load(Ordering::Relaxed).to_ne_bytes();
        u32::from_ne_bytes([a, b, c, d])
    }
    /// Writes a whole descriptor: the slave's, before the ring is in use.
    pub fn lay(&self, at: u16, to: Filled, offset: u32) {
        let [a, b, c, d] = offset.to_ne_bytes();
        let word = u64::from_ne_bytes([a, b, c, d, 0, 0, 0, 0]);
        self.words(at).1.store(word, Ordering::Relaxed);
        self.fill(at, to);
    }

    /// Where `len` bytes at `offset` of a region lie, if there are that many.
    #[inline(always)]
    pub fn span(&self, region: u16, offset: u32, len: u32) -> Option<*mut u8> {
        self.regions.get(usize::from(region))?.span(offset, len)
    }
}

/// Where the memory behind descriptors is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Side {
    /// We made the region: descriptor `i` stands for the `stride` bytes at `base + i * stride`, `size` of
    /// which a packet may use. What the peer writes into descriptors about places is not looked at.
    Slave {
        /// Address of the first buffer.
        base: *mut u8,
        /// Bytes from one buffer to the next.
        stride: usize,
        /// Bytes of one buffer.
        size: u32,
    },
    /// The peer made it: descriptors say where.
    Master,
}

// SAFETY: the pointer is into a region that the ring beside it keeps mapped.
unsafe impl Send for Side {}

impl Side {
    /// Address of `len` bytes of the buffer behind the descriptor for count `at`, given its first half.
    #[inline(always)]
    pub fn buffer(&self, ring: &Ring, at: u16, region: u16, len: u32) -> Option<*mut u8> {
        match *self {
            Side::Slave { base, stride, size } => {
                let slot = usize::from(at) & ring.mask();
                // SAFETY: the buffers of all descriptors lie in the region, see where the side is made.
                (len <= size).then(|| unsafe { base.add(slot * stride) })
            }
            Side::Master => ring.span(region, ring.offset(at), len),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(offset: u32, log2: u8) -> AddRing {
        AddRing {
            flags: 0,
            index: 0,
            region: 0,
            offset,
            log2_ring_size: log2,
            private_hdr_size: 0,
        }
    }

    #[test]
    fn a_ring_has_the_layout_of_the_c_structures() {
        let regions = Arc::new(vec![Region::make(4096).unwrap().0]);
        let ring = Ring::new(&regions, &spec(64, 3)).unwrap();
        assert!(!ring.is_marked());
        ring.clear();
        ring.head().store(0x0102, Ordering::Relaxed);
        ring.tail().store(0x0304, Ordering::Relaxed);
        ring.flags().store(1, Ordering::Relaxed);
        let f = Filled {
            flags: 1,
            region: 2,
            length: 60,
        };
        ring.lay(9, f, 0x1000);
        assert!(ring.is_marked());
        assert_eq!((ring.filled(1), ring.offset(1)), (f, 0x1000));
        let at = |n: usize| {
            // SAFETY: inside the region of 4096 bytes.
            unsafe { regions[0].span(64, 0).unwrap().add(n).read_volatile() }
        };
        let bytes = |r: std::ops::Range<usize>| r.map(at).collect::<Vec<_>>();
        assert_eq!(bytes(0..8), [0x20, 0x1F, 0xE3, 0x03, 1, 0, 2, 1]);
        assert_eq!(bytes(64..66), [4, 3]);
        let second = bytes(144..160);
        assert_eq!(second, [1, 0, 2, 0, 60, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn rings_that_do_not_fit_are_refused() {
        let regions = Arc::new(vec![Region::make(4096).unwrap().0]);
        assert!(Ring::new(&regions, &spec(4096 - 256, 3)).is_ok());
        for (offset, log2) in [(4096 - 255, 3), (0, 15), (0, 14), (u32::MAX, 0), (4, 2)] {
            assert!(
                Ring::new(&regions, &spec(offset, log2)).is_err(),
                "{offset} {log2}"
            );
        }
        let other = AddRing {
            region: 1,
            ..spec(0, 3)
        };
        assert!(Ring::new(&regions, &other).is_err());
    }
}
