//! Privileges, limits of the process, memory.

use parshall_buffer::STRIDE;

use crate::State::{Problem, Warning};
use crate::{Finding, System, Wanted};

const HUGE: usize = 2 << 20;
const MIB: u64 = 1 << 20;

/// A capability: its bit (linux/capability.h), its name, and whether it is wanted.
type Capability = (u32, &'static str, fn(&Wanted) -> bool);

const CAPABILITIES: &[Capability] = &[
    (12, "CAP_NET_ADMIN", |_| true),
    (13, "CAP_NET_RAW", |_| true),
    (14, "CAP_IPC_LOCK", |w| w.devices.iter().any(|d| d.xdp)),
    (39, "CAP_BPF", |w| w.devices.iter().any(|d| d.xdp)),
];

/// The `Cap...` mask or other field of /proc/self/status.
fn status(s: &dyn System, field: &str) -> Option<String> {
    let text = s.read("/proc/self/status")?;
    let line = text.lines().find_map(|l| l.strip_prefix(field))?;
    Some(line.trim().to_owned())
}

/// The bits of effective capabilities.
fn capabilities(s: &dyn System) -> u64 {
    let text = status(s, "CapEff:");
    text.and_then(|t| u64::from_str_radix(&t, 16).ok())
        .unwrap_or(0)
}

/// Soft and hard limit of /proc/self/limits; `u64::MAX` = unlimited.
fn limit(s: &dyn System, name: &str) -> Option<(u64, u64)> {
    let text = s.read("/proc/self/limits")?;
    let line = text.lines().find_map(|l| l.strip_prefix(name))?;
    let mut words = line.split_whitespace().map(|w| match w {
        "unlimited" => Some(u64::MAX),
        n => n.parse().ok(),
    });
    Some((words.next()??, words.next()??))
}

pub fn privileges(s: &dyn System, w: &Wanted) -> Vec<Finding> {
    let have = capabilities(s);
    let lacking: Vec<&str> = CAPABILITIES
        .iter()
        .filter(|(bit, _, wants)| wants(w) && have & (1 << bit) == 0)
        .map(|c| c.1)
        .collect();
    if lacking.is_empty() {
        return vec![Finding::ok(
            "privileges",
            format!("user {} has what a router needs", s.user()),
        )];
    }
    // A router of generators, captures and memif alone needs none.
    let state = if w.devices.is_empty() {
        Warning
    } else {
        Problem
    };
    let names = lacking.join(", ");
    vec![Finding::bad(
        "privileges",
        state,
        format!("user {} lacks {names}", s.user()),
        "interfaces of the machine can be taken, TAP interfaces made and packets received past the kernel only with it",
        format!(
            "sudo setcap {}+ep $(command -v parshall)   # or run it as root, or by its systemd unit",
            names.to_lowercase().replace(", ", ",")
        ),
    )]
}

pub fn memlock(s: &dyn System, w: &Wanted) -> Vec<Finding> {
    let Some((soft, _)) = limit(s, "Max locked memory") else {
        return Vec::new();
    };
    let needed = (w.workers.max(1) * w.buffers * STRIDE) as u64;
    let xdp = w.devices.iter().any(|d| d.xdp);
    if soft >= needed || capabilities(s) & (1 << 14) != 0 || !xdp {
        return vec![Finding::ok(
            "memlock",
            "packet memory may be locked as far as it is needed",
        )];
    }
    vec![Finding::bad(
        "memlock",
        Problem,
        format!(
            "{} MiB may be locked, and AF_XDP locks {} MiB",
            soft / MIB,
            needed / MIB
        ),
        "the kernel refuses AF_XDP sockets whose memory it may not lock",
        "ulimit -l unlimited   # in a systemd unit: LimitMEMLOCK=infinity",
    )]
}

pub fn descriptors(s: &dyn System, w: &Wanted) -> Vec<Finding> {
    let Some((soft, _)) = limit(s, "Max open files") else {
        return Vec::new();
    };
    // Queues and event descriptors of each interface in each worker, clients of the sockets, and some.
    let needed = 512 + (w.devices.len() * w.workers.max(1) * 4) as u64;
    if soft >= needed {
        return vec![Finding::ok(
            "descriptors",
            format!("{soft} files may be open"),
        )];
    }
    vec![Finding::bad(
        "descriptors",
        Problem,
        format!("{soft} files may be open, and {needed} may be needed"),
        "queues, sockets and clients have a descriptor each",
        format!(
            "ulimit -n {}   # in a systemd unit: LimitNOFILE=65536",
            needed.max(65_536)
        ),
    )]
}

pub fn huge_pages(s: &dyn System, w: &Wanted) -> Vec<Finding> {
    const AT: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB";
    let number = |name: &str| s.read(&format!("{AT}/{name}"))?.parse::<usize>().ok();
    let needed = w.workers.max(1) * (w.buffers * STRIDE).div_ceil(HUGE);
    let why = "with plain pages every packet misses in the address cache more often: some percent of speed, more with many buffers";
    let (Some(all), Some(free)) = (number("nr_hugepages"), number("free_hugepages")) else {
        let what = "the kernel has no huge pages of 2 MiB";
        return vec![Finding::bad("hugepages", Warning, what, why, "")];
    };
    if free >= needed {
        return vec![Finding::ok(
            "hugepages",
            format!("{free} of 2 MiB are free, {needed} are needed"),
        )];
    }
    vec![Finding::bad(
        "hugepages",
        Warning,
        format!("{free} of 2 MiB are free, {needed} are needed"),
        why,
        format!("sudo sysctl vm.nr_hugepages={}", all + needed - free),
    )]
}

pub fn socket_buffers(s: &dyn System, _: &Wanted) -> Vec<Finding> {
    const ENOUGH: u64 = 4 << 20;
    let mut all = Vec::new();
    for (key, why) in [
        (
            "rmem_max",
            "a collector of sFlow datagrams, and the receive queues of packet sockets, lose packets of a burst",
        ),
        (
            "wmem_max",
            "sFlow datagrams of a burst are lost before they are sent",
        ),
    ] {
        let got = s
            .read(&format!("/proc/sys/net/core/{key}"))
            .and_then(|t| t.parse::<u64>().ok());
        match got {
            Some(n) if n < ENOUGH => all.push(Finding::bad(
                "socket-buffers",
                Warning,
                format!("net.core.{key} is {n} bytes"),
                why,
                format!("sudo sysctl net.core.{key}={ENOUGH}"),
            )),
            Some(n) => all.push(Finding::ok(
                "socket-buffers",
                format!("net.core.{key} is {n} bytes"),
            )),
            None => {}
        }
    }
    all
}
