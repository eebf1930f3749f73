//! The two clocks a worker reads: nanoseconds for decisions, time-stamp ticks for `show runtime`.

use std::sync::OnceLock;
use std::time::Instant;

/// Nanoseconds of the monotonic clock since the process first asked (plus one second, so that 0 is
/// always the past).
pub fn monotonic_ns() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    1_000_000_000 + START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// Time-stamp counter ticks.
#[inline(always)]
pub fn tsc() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: RDTSC has no preconditions on any x86-64 CPU that user space runs on.
    unsafe {
        std::arch::x86_64::_rdtsc()
    }
    #[cfg(target_arch = "aarch64")]
    {
        let t: u64;
        // SAFETY: reading the virtual counter is allowed at EL0 on Linux and has no side effect.
        unsafe { std::arch::asm!("mrs {}, cntvct_el0", out(reg) t, options(nomem, nostack)) };
        t
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    monotonic_ns()
}
