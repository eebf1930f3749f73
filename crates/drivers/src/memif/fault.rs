//! Surviving memory that is taken away under us.
//!
//! A region belongs to a file that the peer can change. Seals (`F_SEAL_SHRINK`) keep it from being cut, but
//! DPDK's zero-copy regions carry none, and a hole punched in a huge-page file has the same effect: the
//! next touch of the mapping raises SIGBUS, which would end the process. The handler here puts private
//! zero pages in the place of the whole region and lets the access go on; the connection is ended soon
//! after, because [`Guard::is_lost`] says so. A SIGBUS anywhere else has the effect it had before.
//!
//! What the handler does (scan of a fixed table of atomics, one mmap(2), one sigaction(2)) is
//! async-signal-safe: it neither locks nor allocates.

use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Regions that can be watched at a time.
const SLOTS: usize = 4096;

/// A watched range: `base` is 0 while the slot is free, 1 while it is being filled.
struct Slot {
    base: AtomicUsize,
    len: AtomicUsize,
    lost: AtomicBool,
}

static TABLE: [Slot; SLOTS] = [const {
    Slot {
        base: AtomicUsize::new(0),
        len: AtomicUsize::new(0),
        lost: AtomicBool::new(false),
    }
}; SLOTS];

/// What SIGBUS did before.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// A range that the handler looks after until this is dropped.
#[derive(Debug)]
pub(super) struct Guard {
    slot: usize,
}

impl Guard {
    /// Watches `len` bytes at `base`, a mapping of the caller's that stays until the guard is dropped.
    ///
    /// # Errors
    /// When the handler cannot be installed, or too many ranges are watched.
    pub fn new(base: *mut u8, len: usize) -> io::Result<Guard> {
        install()?;
        let free = |s: &Slot| {
            s.base
                .compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
        };
        let slot = TABLE
            .iter()
            .position(free)
            .ok_or_else(|| io::Error::other(format!("{SLOTS} regions are mapped already")))?;
        let s = &TABLE[slot];
        s.len.store(len, Ordering::Relaxed);
        s.lost.store(false, Ordering::Relaxed);
        s.base.store(base as usize, Ordering::Release);
        Ok(Guard { slot })
    }

    /// Whether its memory was taken away since.
    pub fn is_lost(&self) -> bool {
        TABLE[self.slot].lost.load(Ordering::Acquire)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        TABLE[self.slot].base.store(0, Ordering::Release);
    }
}

fn install() -> io::Result<()> {
    if BEFORE.get().is_some() {
        return Ok(());
    }
    // SAFETY: sigaction is plain data for which all zeros are valid.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = on_fault as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: as above.
    let mut before: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    // SAFETY: asks for the present action only; the pointer is to a local.
    if unsafe { libc::sigaction(libc::SIGBUS, ptr::null(), &raw mut before) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // Known to the handler before it can run; a second thread here finds the first one's and stores nothing.
    if BEFORE.set(before).is_err() {
        return Ok(());
    }
    // SAFETY: both pointers are valid, and the handler is async-signal-safe (see above).
    match unsafe { libc::sigaction(libc::SIGBUS, &raw const action, ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

extern "C" fn on_fault(
    _signal: libc::c_int,
    info: *mut libc::siginfo_t,
    _context: *mut libc::c_void,
) {
    // SAFETY: with SA_SIGINFO the kernel passes a valid siginfo; for SIGBUS it carries an address.
    let at = unsafe { (*info).si_addr() } as usize;
    for slot in &TABLE {
        let base = slot.base.load(Ordering::Acquire);
        let len = slot.len.load(Ordering::Relaxed);
        if base > 1 && at >= base && at - base < len {
            if replace(base, len) {
                slot.lost.store(true, Ordering::Release);
                return;
            }
            break;
        }
    }
    // Not ours: the access is repeated when this returns, and then meets what was there before us.
    if let Some(before) = BEFORE.get() {
        // SAFETY: `before` is what sigaction gave.
        unsafe { libc::sigaction(libc::SIGBUS, &raw const *before, ptr::null_mut()) };
    }
}

/// Puts private zero pages over a watched range.
fn replace(base: usize, len: usize) -> bool {
    // SAFETY: the range is a mapping that its guard's owner keeps in place; nothing but packet bytes, which
    // may change at any time, is expected in it.
    let p = unsafe {
        libc::mmap(
            base as *mut libc::c_void,
            len,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
            -1,
            0,
        )
    };
    p != libc::MAP_FAILED
}
