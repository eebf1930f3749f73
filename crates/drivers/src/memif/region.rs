//! Shared memory: the regions of a connection, made by the slave and mapped by both.
//!
//! The peer can write every byte of a region at any time, and can take the memory away (see
//! [`fault`](super::fault)). So nothing here hands out references: there are raw pointers into ranges that
//! were checked against the mapping, and what is read through them is read once and then checked.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::ptr::{self, NonNull};

use super::fault::Guard;

/// Most regions of a connection. DPDK's zero-copy has one for every list of memory segments.
pub(super) const MAX_REGIONS: usize = 256;
/// Most bytes of one region: address space is finite, and descriptors reach 4 GiB at most.
const MAX_BYTES: u64 = 64 << 30;
/// Page of huge-page files.
const HUGE: usize = 2 << 20;

/// A mapped region.
#[derive(Debug)]
pub(super) struct Region {
    base: NonNull<u8>,
    /// Bytes that may be used.
    len: usize,
    /// Bytes that are mapped: `len` rounded up to the file's pages.
    mapped: usize,
    guard: Option<Guard>,
}

// SAFETY: a region is only an address range of shared memory; whoever reads or writes it does so through
// raw pointers and expects the peer's writes anyway.
unsafe impl Send for Region {}
// SAFETY: as above; nothing in it changes after it was made.
unsafe impl Sync for Region {}

impl Region {
    /// Maps `size` bytes of a file that the peer gave.
    ///
    /// # Errors
    /// When the file is shorter, the size is 0 or out of all proportion, or the system refuses.
    pub fn map(fd: &OwnedFd, size: u64) -> io::Result<Region> {
        if size == 0 || size > MAX_BYTES {
            return Err(io::Error::other(format!(
                "a region of {size} bytes: 1 to {MAX_BYTES} will do"
            )));
        }
        // Only files in memory know of seals. Any other could be served by a program of the peer's (FUSE),
        // which would make a worker wait for it.
        // SAFETY: fcntl with F_GET_SEALS takes no argument.
        if unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GET_SEALS) } < 0 {
            return Err(io::Error::other(
                "a region that is no file in memory (memfd)",
            ));
        }
        let file = File::from(fd.try_clone()?).metadata()?;
        if file.size() < size {
            return Err(io::Error::other(format!(
                "a region of {size} bytes in a file of {}",
                file.size()
            )));
        }
        let page = (file.blksize().clamp(4096, 1 << 30) as usize).next_power_of_two();
        let len = usize::try_from(size).map_err(io::Error::other)?;
        let mapped = len.next_multiple_of(page);
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
        let p = unsafe {
            libc::mmap(
                ptr::null_mut(),
                mapped,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                fd.as_raw_fd(),
                0,
            )
        };
        if p == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(p.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        match Guard::new(base.as_ptr(), mapped) {
            Ok(guard) => Ok(Region {
                base,
                len,
                mapped,
                guard: Some(guard),
            }),
            Err(e) => {
                // SAFETY: unmaps what was just mapped and is known to nobody.
                unsafe { libc::munmap(p, mapped) };
                Err(e)
            }
        }
    }

    /// Makes a zeroed region of `size` bytes for the peer to map: on huge pages if some are free, sealed
    /// against being cut.
    ///
    /// # Errors
    /// When the system refuses memory.
    pub fn make(size: usize) -> io::Result<(Region, OwnedFd)> {
        let huge = memfd(
            size.next_multiple_of(HUGE),
            libc::MFD_HUGETLB | libc::MFD_HUGE_2MB,
        );
        if let Ok(fd) = huge
            && let Ok(region) = Region::map(&fd, size as u64)
            && region.populate()
        {
            return Ok((region, fd));
        }
        let fd = memfd(size, 0)?;
        Ok((Region::map(&fd, size as u64)?, fd))
    }

    /// Has every page in place now: a huge page that is not to be had must show here, not on a worker.
    fn populate(&self) -> bool {
        // SAFETY: the range is this mapping.
        let done = unsafe {
            libc::madvise(
                self.base.as_ptr().cast(),
                self.mapped,
                libc::MADV_POPULATE_WRITE,
            )
        };
        done == 0
    }

    /// Bytes in it.
    pub fn len(&self) -> usize {
        self.len
    }
    /// Whether its memory was taken away.
    pub fn is_lost(&self) -> bool {
        self.guard.as_ref().is_some_and(Guard::is_lost)
    }

    /// Where `len` bytes at `offset` lie, if they are inside.
    #[inline(always)]
    pub fn span(&self, offset: u32, len: u32) -> Option<*mut u8> {
        let (offset, len) = (offset as usize, len as usize);
        if offset + len > self.len {
            return None;
        }
        // SAFETY: `offset <= self.len`, so the result is inside the mapping or at its end.
        Some(unsafe { self.base.as_ptr().add(offset) })
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // First of all: once unmapped, the range may become somebody else's.
        self.guard = None;
        // SAFETY: unmaps what `map` mapped, once.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.mapped) };
    }
}

/// An unnamed file in memory of `size` bytes that cannot be made shorter.
fn memfd(size: usize, kind: libc::c_uint) -> io::Result<OwnedFd> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING | kind;
    // SAFETY: the name is a C string literal.
    let fd = unsafe { libc::memfd_create(c"parshall-memif".as_ptr(), flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call just made this descriptor and nobody else knows it.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let size = libc::off_t::try_from(size).map_err(io::Error::other)?;
    // SAFETY: ftruncate takes no pointers.
    if unsafe { libc::ftruncate(fd.as_raw_fd(), size) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    // SAFETY: fcntl with F_ADD_SEALS takes a number.
    if unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, seals) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(fd)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_end_where_the_region_ends() {
        let (r, fd) = Region::make(10_000).unwrap();
        assert_eq!(r.len(), 10_000);
        assert!(r.span(0, 10_000).is_some() && r.span(9_999, 1).is_some());
        for (offset, len) in [(0, 10_001), (10_000, 1), (1, 10_000), (u32::MAX, u32::MAX)] {
            assert!(r.span(offset, len).is_none(), "{offset} {len}");
        }
        // The other end sees what is written.
        let other = Region::map(&fd, 10_000).unwrap();
        let (a, b) = (r.span(77, 1).unwrap(), other.span(77, 1).unwrap());
        // SAFETY: both are inside their mappings.
        unsafe {
            a.write_volatile(5);
            assert_eq!(b.read_volatile(), 5);
        }
    }

    #[test]
    fn files_that_are_too_short_or_no_memory_are_refused() {
        let fd = memfd(4096, 0).unwrap();
        for size in [0, 4097, u64::MAX] {
            assert!(Region::map(&fd, size).is_err(), "{size}");
        }
        let (a, _b) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(Region::map(&a.into(), 1).is_err());
    }

    #[test]
    fn memory_that_is_cut_reads_as_zero_and_is_told() {
        // SAFETY: as in `memfd`, without the seals.
        let fd =
            unsafe { OwnedFd::from_raw_fd(libc::memfd_create(c"cut".as_ptr(), libc::MFD_CLOEXEC)) };
        let file = File::from(fd.try_clone().unwrap());
        file.set_len(3 * 4096).unwrap();
        let r = Region::map(&fd, 3 * 4096).unwrap();
        let last = r.span(2 * 4096, 1).unwrap();
        // SAFETY: inside the mapping; after the cut the handler puts memory there.
        unsafe {
            last.write_volatile(9);
            assert!(!r.is_lost());
            file.set_len(4096).unwrap();
            assert_eq!(last.read_volatile(), 0);
        }
        assert!(r.is_lost());
    }
}
