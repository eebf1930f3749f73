//! Copying packets between pool buffers and shared memory, and fetching cache lines ahead of that.

/// Lengths from here on go to the library's copy, whose start costs more and whose stride is longer.
const LONG: usize = 512;

/// Copies `len` bytes, neither more read nor more written.
///
/// # Safety
/// `src` is readable and `dst` writable for `len` bytes, and they do not overlap. One of them may be
/// memory that another process writes at the same time: then the bytes copied are some mix of what it had
/// there, a packet it could as well have sent. Nothing may be decided on bytes that are read again later.
#[inline(always)]
pub(super) unsafe fn copy(dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: every piece lies within `len`: the pieces of the loop end at or before it, the last one is
    // counted back from it, and is inside because `len` is at least as long.
    unsafe {
        match len {
            LONG.. => src.copy_to_nonoverlapping(dst, len),
            64.. => {
                let mut at = 0;
                while at + 64 <= len {
                    piece::<64>(dst, src, at);
                    at += 64;
                }
                if at < len {
                    piece::<64>(dst, src, len - 64);
                }
            }
            32.. => {
                piece::<32>(dst, src, 0);
                piece::<32>(dst, src, len - 32);
            }
            16.. => {
                piece::<16>(dst, src, 0);
                piece::<16>(dst, src, len - 16);
            }
            _ => {
                for at in 0..len {
                    piece::<1>(dst, src, at);
                }
            }
        }
    }
}

/// Copies `N` bytes at `at`; the length is known, so this is a few moves of whole registers.
///
/// # Safety
/// As [`copy`], for the `N` bytes at `at`.
#[inline(always)]
unsafe fn piece<const N: usize>(dst: *mut u8, src: *const u8, at: usize) {
    // SAFETY: the caller's.
    unsafe { src.add(at).copy_to_nonoverlapping(dst.add(at), N) }
}

/// Asks for the cache line at `p`, to be read.
#[inline(always)]
pub(super) fn fetch_to_read(p: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch is a hint: it changes nothing and does not fault, whatever the address.
    unsafe {
        std::arch::asm!("prefetcht0 [{}]", in(reg) p, options(nostack, preserves_flags, readonly));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{}]", in(reg) p, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = p;
}

/// Asks for the cache line at `p`, to be written: takes it away from the core that has it.
#[inline(always)]
pub(super) fn fetch_to_write(p: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch is a hint: it changes nothing and does not fault, whatever the address; on
    // processors without this instruction it does nothing.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) p, options(nostack, preserves_flags, readonly));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        std::arch::asm!("prfm pstl1keep, [{}]", in(reg) p, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = p;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_is_copied_whole_and_not_a_byte_more() {
        let src: Vec<u8> = (0..1600u32).map(|i| (i % 251) as u8).collect();
        for len in 0..1500 {
            let mut dst = vec![0xEE; len + 64];
            // SAFETY: both are longer than `len`, and different.
            unsafe { copy(dst.as_mut_ptr(), src.as_ptr().add(3), len) };
            assert_eq!(dst[..len], src[3..3 + len], "{len}");
            assert!(dst[len..].iter().all(|b| *b == 0xEE), "{len}");
        }
    }
}
