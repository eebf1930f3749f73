//! Capabilities: what a job needs, what is missing, how to grant it (capabilities(7)).

use std::fmt;
use std::fs;

use nix::errno::Errno;

use crate::{Error, Result};

/// A capability that some part of the router needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capability {
    /// Change interfaces, addresses, routes, make taps.
    NetAdmin,
    /// Open packet sockets.
    NetRaw,
    /// Make and enter namespaces.
    SysAdmin,
    /// Lock memory (huge pages, rings) beyond the limit.
    IpcLock,
    /// Raise priorities.
    SysNice,
    /// Load BPF programs and make their maps.
    Bpf,
}

impl Capability {
    /// Bit number in the kernel's masks (`include/uapi/linux/capability.h`).
    fn bit(self) -> u32 {
        match self {
            Capability::NetAdmin => 12,
            Capability::NetRaw => 13,
            Capability::IpcLock => 14,
            Capability::SysAdmin => 21,
            Capability::SysNice => 23,
            Capability::Bpf => 39,
        }
    }

    /// The kernel's name, `CAP_NET_ADMIN`.
    pub fn name(self) -> &'static str {
        match self {
            Capability::NetAdmin => "CAP_NET_ADMIN",
            Capability::NetRaw => "CAP_NET_RAW",
            Capability::SysAdmin => "CAP_SYS_ADMIN",
            Capability::IpcLock => "CAP_IPC_LOCK",
            Capability::SysNice => "CAP_SYS_NICE",
            Capability::Bpf => "CAP_BPF",
        }
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The calling thread's effective capabilities as the kernel's bit mask; 0 when /proc is not there.
fn effective_mask() -> u64 {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    mask_from_status(&status).unwrap_or(0)
}

fn mask_from_status(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|l| l.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

/// Which of `wanted` the calling thread lacks. In a user namespace this answers for that namespace.
pub fn missing(wanted: &[Capability]) -> Vec<Capability> {
    let mask = effective_mask();
    wanted
        .iter()
        .copied()
        .filter(|c| mask & (1 << c.bit()) == 0)
        .collect()
}

/// Checks that the calling thread has all of `wanted`, which `job` needs ("open a packet socket").
///
/// # Errors
/// Names the missing capabilities and the ways to grant them.
pub fn require(wanted: &[Capability], job: &str) -> Result<()> {
    let lacking = missing(wanted);
    if lacking.is_empty() {
        return Ok(());
    }
    let names: Vec<_> = lacking.iter().map(|c| c.name()).collect();
    Err(Error::os(
        job,
        format!("without {}", names.join(" and ")),
        Errno::EPERM,
    )
    .hint(grant_hint(&lacking)))
}

/// How to grant those of `wanted` that are missing (all of them when none is): one line of advice.
pub fn grant_hint(wanted: &[Capability]) -> String {
    let lacking = missing(wanted);
    let list = if lacking.is_empty() { wanted } else { &lacking };
    let upper: Vec<_> = list.iter().map(|c| c.name()).collect();
    let exe =
        std::env::current_exe().map_or_else(|_| "PROGRAM".to_owned(), |p| p.display().to_string());
    format!(
        "needs {}: run as root, or \"sudo setcap {}+ep {exe}\", or AmbientCapabilities={} in the systemd unit",
        upper.join(" and "),
        upper.join(",").to_lowercase(),
        upper.join(" "),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mask_is_read_from_status() {
        let text = "Name:\tx\nCapPrm:\t0\nCapEff:\t0000000000003000\nCapBnd:\tff\n";
        assert_eq!(mask_from_status(text), Some(0x3000));
        assert_eq!(mask_from_status("Name:\tx\n"), None);
        assert_eq!(mask_from_status("CapEff:\tzz\n"), None);
    }

    #[test]
    fn require_says_what_is_missing_and_how_to_get_it() {
        // A thread may drop its own capabilities without touching the others.
        let text = std::thread::spawn(|| {
            let header = [0x2008_0522u32, 0];
            let data = [0u32; 6];
            // SAFETY: version 3 header and two zeroed data structs, as capset(2) reads them; only the
            // calling thread loses its capabilities.
            let rc = unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), data.as_ptr()) };
            assert_eq!(rc, 0);
            require(&[Capability::NetRaw], "open a packet socket")
                .unwrap_err()
                .to_string()
        })
        .join()
        .unwrap();
        assert!(
            text.starts_with("cannot open a packet socket without CAP_NET_RAW:"),
            "{text}"
        );
        assert!(text.contains("setcap cap_net_raw+ep"), "{text}");
    }
}
