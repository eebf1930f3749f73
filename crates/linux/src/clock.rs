//! The time-stamp counter's rate and the monotonic clock.
//!
//! Follows the Intel SDM volume 2 on CPUID leaf 15H (crystal frequency and TSC ratio). Most machines
//! and nearly all virtual ones leave that leaf empty; then the counter is timed against
//! `CLOCK_MONOTONIC_RAW`, which unlike `CLOCK_MONOTONIC` is not slewed by NTP.

use std::sync::OnceLock;

/// Calibration time in nanoseconds: with read errors well under 100 ns this is right to 5 ppm.
const CALIBRATE_NS: u64 = 20_000_000;

/// Time-stamp counter ticks per second. Measured once, on the first call (20 ms); the same ever after.
pub fn tsc_hz() -> u64 {
    static HZ: OnceLock<u64> = OnceLock::new();
    *HZ.get_or_init(|| {
        let measured = calibrate(CALIBRATE_NS);
        // A hypervisor may pass the host's leaf to a guest whose counter it scales: believe the leaf
        // only where the clock agrees to 1 %.
        match leaf_15h() {
            Some(hz) if hz.abs_diff(measured) < measured / 100 => hz,
            _ => measured,
        }
    })
}

/// The time-stamp counter (x86), the virtual counter (arm64) or nanoseconds elsewhere.
#[inline]
pub fn tsc() -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: RDTSC reads a counter and touches no memory; every x86_64 has it.
    unsafe {
        std::arch::x86_64::_rdtsc()
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    {
        let ticks: u64;
        // SAFETY: CNTVCT_EL0 is readable from user space on Linux and reading it has no effect.
        unsafe { std::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack)) };
        ticks
    }
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    monotonic_ns()
}

/// `CLOCK_MONOTONIC` in nanoseconds: the workers' `now`.
#[inline]
pub fn monotonic_ns() -> u64 {
    read_clock(libc::CLOCK_MONOTONIC)
}

/// Whether something keeps the clock right (NTP, PTP), as adjtimex(2) tells it; `None` where the kernel does not say.
pub fn is_synchronized() -> Option<bool> {
    // SAFETY: an all-zero timex is a valid one; its `modes` of 0 ask to read only.
    let mut state: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live local, which the call fills and does not keep.
    let rc = unsafe { libc::adjtimex(&mut state) };
    (rc >= 0).then_some(rc != libc::TIME_ERROR && state.status & libc::STA_UNSYNC == 0)
}

/// Seconds that local time is east of UTC at a moment, given in seconds since 1970: what the C library makes of `TZ` and
/// `/etc/localtime`. 0 where it cannot say.
pub fn local_offset(unix_seconds: i64) -> i32 {
    // SAFETY: an all-zero tm is a valid one: numbers and a null pointer, which the call replaces.
    let mut tm: libc::tm = unsafe { std::mem::zeroed() };
    let time = unix_seconds as libc::time_t;
    // SAFETY: both pointers are to live locals; the call writes `tm` and keeps neither.
    if unsafe { libc::localtime_r(&time, &mut tm) }.is_null() {
        return 0;
    }
    i32::try_from(tm.tm_gmtoff).unwrap_or(0)
}

fn read_clock(clock: libc::clockid_t) -> u64 {
    let mut t = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `t` outlives the call, which writes it alone; it cannot fail for a clock Linux has.
    unsafe { libc::clock_gettime(clock, &mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// One reading of counter and clock together: the tightest of several, so that an interrupt between
/// the two does not count.
fn paired_reading() -> (u64, u64) {
    let mut best = (u64::MAX, 0, 0);
    for _ in 0..16 {
        let before = tsc();
        let ns = read_clock(libc::CLOCK_MONOTONIC_RAW);
        let width = tsc().wrapping_sub(before);
        if width < best.0 {
            best = (width, before.wrapping_add(width / 2), ns);
        }
    }
    (best.1, best.2)
}

fn calibrate(ns: u64) -> u64 {
    let (tsc0, ns0) = paired_reading();
    std::thread::sleep(std::time::Duration::from_nanos(ns));
    let (tsc1, ns1) = paired_reading();
    let elapsed = u128::from(ns1.saturating_sub(ns0).max(1));
    let hz = u128::from(tsc1.wrapping_sub(tsc0)) * 1_000_000_000 / elapsed;
    u64::try_from(hz).unwrap_or(u64::MAX).max(1)
}

#[cfg(target_arch = "x86_64")]
fn leaf_15h() -> Option<u64> {
    use std::arch::x86_64::__cpuid;
    if __cpuid(0).eax < 0x15 {
        return None;
    }
    let leaf = __cpuid(0x15);
    if leaf.eax == 0 || leaf.ebx == 0 || leaf.ecx == 0 {
        return None;
    }
    Some(u64::from(leaf.ecx) * u64::from(leaf.ebx) / u64::from(leaf.eax))
}

#[cfg(not(target_arch = "x86_64"))]
fn leaf_15h() -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_calibrations_agree() {
        let (a, b) = (calibrate(50_000_000), tsc_hz());
        assert!(a.abs_diff(b) < b / 100, "{a} against {b}");
        assert_eq!(tsc_hz(), b);
    }

    #[test]
    fn local_time_is_within_a_day_of_utc() {
        let offset = local_offset(1_700_000_000);
        assert!(offset.abs() <= 86_400, "{offset}");
        // Offsets are whole minutes everywhere today.
        assert_eq!(offset % 60, 0);
    }

    #[test]
    fn the_clock_does_not_go_back() {
        let a = monotonic_ns();
        assert!(monotonic_ns() >= a && a > 0);
    }
}
