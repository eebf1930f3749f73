//! Where a pool's memory comes from: 2 MiB huge pages, transparent huge pages, or plain ones.

use std::io;
use std::ptr::{self, NonNull};

/// What a large page holds. Miri has no pages, and every byte costs it time.
const HUGE: usize = if cfg!(miri) { 4096 } else { 2 << 20 };

/// What kind of pages a mapping got.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PageKind {
    /// Reserved 2 MiB pages (`vm.nr_hugepages`).
    Huge,
    /// Plain pages, aligned and advised so that the kernel may join them (`MADV_HUGEPAGE`).
    Transparent,
}

impl PageKind {
    /// The word `show buffers` prints.
    pub fn name(self) -> &'static str {
        match self {
            PageKind::Huge => "2 MiB huge pages",
            PageKind::Transparent => "plain pages (transparent huge pages advised)",
        }
    }
}

/// An anonymous private mapping, zeroed, aligned to 2 MiB, unmapped on drop.
pub(crate) struct Mapping {
    base: NonNull<u8>,
    map: *mut libc::c_void,
    map_len: usize,
    pub kind: PageKind,
}

// SAFETY: the mapping is private memory owned by this value alone; moving it to another thread moves
// that ownership.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps at least `len` bytes.
    pub fn new(len: usize) -> io::Result<Mapping> {
        let rounded = len.div_ceil(HUGE).max(1) * HUGE;
        if !cfg!(miri)
            && let Ok(map) = mmap(rounded, libc::MAP_HUGETLB | libc::MAP_POPULATE)
        {
            let base = NonNull::new(map.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
            return Ok(Mapping {
                base,
                map,
                map_len: rounded,
                kind: PageKind::Huge,
            });
        }
        let map_len = rounded + HUGE;
        let map = mmap(map_len, 0)?;
        let shift = map.cast::<u8>().align_offset(HUGE);
        // SAFETY: `shift < HUGE` and the mapping is `rounded + HUGE` long, so the result is inside it.
        let base = unsafe { map.cast::<u8>().add(shift) };
        // SAFETY: the range lies inside the mapping just made; advice changes no content, and a refusal
        // only means smaller pages.
        #[cfg(not(miri))]
        unsafe {
            libc::madvise(base.cast(), rounded, libc::MADV_HUGEPAGE)
        };
        let base = NonNull::new(base).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Mapping {
            base,
            map,
            map_len,
            kind: PageKind::Transparent,
        })
    }

    /// First byte, 2 MiB aligned.
    pub fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }
}

fn mmap(len: usize, extra: libc::c_int) -> io::Result<*mut libc::c_void> {
    // SAFETY: an anonymous mapping at an address of the kernel's choice touches nothing that exists.
    let p = unsafe {
        libc::mmap(
            ptr::null_mut(),
            len,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | extra,
            -1,
            0,
        )
    };
    if p == libc::MAP_FAILED {
        Err(io::Error::last_os_error())
    } else {
        Ok(p)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `map` and `map_len` are what mmap returned, unmapped exactly once.
        unsafe { libc::munmap(self.map, self.map_len) };
    }
}
