//! Refuses a CPU below the one this binary is built for, before it would end in an illegal instruction.
//!
//! `.cargo/config.toml` sets x86-64-v2 (x86-64 psABI, section 3.1.1). `is_x86_feature_detected!` is of no use
//! here: what the compiler may assume, it answers with "yes" without looking. So this asks CPUID itself.

use std::arch::x86_64::__cpuid;

/// Bits of ECX of CPUID leaf 1 that x86-64-v2 needs, and their names.
const NEEDED: [(u32, &str); 6] = [
    (0, "SSE3"),
    (9, "SSSE3"),
    (13, "CMPXCHG16B"),
    (19, "SSE4.1"),
    (20, "SSE4.2"),
    (23, "POPCNT"),
];

/// Err with a sentence for people when the CPU lacks what this binary was compiled for.
pub fn check() -> Result<(), String> {
    let missing = missing(__cpuid(1).ecx);
    if missing.is_empty() {
        return Ok(());
    }
    Err(format!(
        "this CPU lacks {}: this binary is built for x86-64-v2; for older CPUs build it yourself \
         without the `target-cpu` in .cargo/config.toml",
        missing.join(", ")
    ))
}

fn missing(ecx: u32) -> Vec<&'static str> {
    let lacks = |bit: u32| ecx & (1 << bit) == 0;
    NEEDED
        .iter()
        .filter(|(bit, _)| lacks(*bit))
        .map(|(_, name)| *name)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_what_is_missing() {
        assert_eq!(missing(!0), Vec::<&str>::new());
        assert_eq!(missing(!(1 << 20 | 1 << 23)), ["SSE4.2", "POPCNT"]);
    }

    #[test]
    fn the_cpu_that_runs_this_test_is_enough() {
        assert_eq!(check(), Ok(()));
    }
}
