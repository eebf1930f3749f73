//! The memory: a file without a name, mapped, and a second descriptor of it that cannot be written through.
//!
//! Follows memfd_create(2) and fcntl(2) (seals). Pages that nothing was written to take no memory.

use std::fs::{File, OpenOptions};
use std::io;
use std::num::NonZeroUsize;
use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

/// Mapped memory of a fixed size, as words.
#[derive(Debug)]
pub struct Map {
    start: NonNull<AtomicU64>,
    words: usize,
    read_only: OwnedFd,
}

// SAFETY: the mapping belongs to this value alone until it is dropped, and all access in this process goes
// through `AtomicU64`; other processes only read.
unsafe impl Send for Map {}
// SAFETY: as above; shared access is atomic.
unsafe impl Sync for Map {}

impl Map {
    /// Makes `bytes` of zeroed memory, rounded up to whole pages.
    ///
    /// # Errors
    /// What the system says.
    pub fn new(bytes: usize) -> io::Result<Map> {
        let bytes = bytes.max(1).next_multiple_of(4096);
        let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
        let file = File::from(memfd_create(c"parshall-stats", flags)?);
        file.set_len(bytes as u64)?;
        // A reader that maps it can then rely on the size: no access behind the end, ever.
        let seals = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SEAL;
        fcntl(&file, FcntlArg::F_ADD_SEALS(seals))?;
        let read_only = OpenOptions::new()
            .read(true)
            .open(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
        let length = NonZeroUsize::new(bytes).ok_or(io::ErrorKind::InvalidInput)?;
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice; nothing else refers to it.
        let start = unsafe { mmap(None, length, access, MapFlags::MAP_SHARED, &file, 0) }?;
        Ok(Map {
            start: start.cast(),
            words: bytes / 8,
            read_only: read_only.into(),
        })
    }

    /// The descriptor for readers.
    pub fn read_only(&self) -> BorrowedFd<'_> {
        self.read_only.as_fd()
    }
}

impl Deref for Map {
    type Target = [AtomicU64];

    fn deref(&self) -> &[AtomicU64] {
        // SAFETY: `start` is page-aligned memory of `words` words that stays mapped, zeroed by the kernel, for
        // as long as `self` lives, and cannot shrink since its size is sealed; all zero is a valid AtomicU64.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that `new` made, and no reference into it outlives `self`.
        let _ = unsafe { munmap(self.start.cast(), self.words * 8) };
    }
}
