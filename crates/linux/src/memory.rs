//! Memory that the allocator keeps although it was freed, and how much of it (mallopt(3), malloc_trim(3)).

/// Blocks of so many bytes are pages of their own, and go back to the system when they are freed.
#[cfg(target_env = "gnu")]
const OWN_PAGES: nix::libc::c_int = 1 << 20;
/// Free bytes at the end of a heap that are kept.
#[cfg(target_env = "gnu")]
const KEPT: nix::libc::c_int = 2 << 20;

/// Has the allocator keep little, for the whole process: left to itself it raises what it keeps, in the heap of each thread, to twice the
/// largest block that was ever freed.
pub fn keep_little() {
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt sets parameters of the allocator under its own lock and touches no memory of ours.
    unsafe {
        nix::libc::mallopt(nix::libc::M_MMAP_THRESHOLD, OWN_PAGES);
        nix::libc::mallopt(nix::libc::M_TRIM_THRESHOLD, KEPT);
    }
}

/// Gives back what was freed. Takes the allocator's locks one after the other: for threads that may wait, now and then.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim may be called at any time by any thread; it reads and writes nothing but the allocator's own state, under
    // its own locks.
    unsafe {
        nix::libc::malloc_trim(0);
    }
}
