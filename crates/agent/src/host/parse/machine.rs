//! The machine and this process: its kind and identity, `/proc/PID/stat`, `status`, `limits` (proc(5)).

use super::{number, wrap};

/// `/proc/PID/stat`: user and system time in milliseconds, from units of 1/`hz` s.
pub fn process_times(text: &str, hz: u64) -> Option<(u32, u32)> {
    // The name in parentheses may hold anything, blanks and parentheses too; the last one ends it.
    let (_, after) = text.rsplit_once(')')?;
    let mut words = after.split_ascii_whitespace().skip(11);
    let mut ms = || number::<u64>(words.next()).map(|t| wrap(t.wrapping_mul(1000) / hz.max(1)));
    Some((ms()?, ms()?))
}

/// A line `Key:   N kB` of `/proc/PID/status`, in bytes.
pub fn status_bytes(text: &str, key: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|l| l.strip_prefix(key)?.strip_prefix(':'))?;
    number::<u64>(line.split_ascii_whitespace().next())?.checked_mul(1024)
}

/// The soft limit of open files in `/proc/PID/limits`; `None` = unlimited or unknown.
pub fn open_files_limit(text: &str) -> Option<u32> {
    let line = text
        .lines()
        .find_map(|l| l.strip_prefix("Max open files"))?;
    number(line.split_ascii_whitespace().next())
}

/// 32 hexadecimal digits, with or without dashes: a UUID or a machine id (machine-id(5)).
pub fn uuid(text: &str) -> Option<[u8; 16]> {
    let digits: String = text.trim().chars().filter(|c| *c != '-').collect();
    if digits.len() != 32 {
        return None;
    }
    u128::from_str_radix(&digits, 16)
        .ok()
        .map(u128::to_be_bytes)
}

/// The machine type of `sflow_host.txt` by the compiler's name for it.
pub fn machine_type(arch: &str) -> u32 {
    match arch {
        "x86" => 2,
        "x86_64" => 3,
        "sparc64" => 5,
        "powerpc" | "powerpc64" => 7,
        "m68k" => 8,
        "mips" | "mips64" => 9,
        "arm" | "aarch64" => 10,
        "s390x" => 12,
        _ => 1,
    }
}
