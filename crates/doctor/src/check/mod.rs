//! The checks, each described once: the reference page is made from this list.

mod cpu;
mod files;
mod kernel;
mod limits;

use crate::{Finding, System, Wanted};

/// What does a check.
type Run = fn(&dyn System, &Wanted) -> Vec<Finding>;

/// A check.
pub struct Check {
    /// Its name.
    pub name: &'static str,
    /// What it looks at.
    pub about: &'static str,
    /// What does it.
    pub run: Run,
}

const fn check(name: &'static str, about: &'static str, run: Run) -> Check {
    Check { name, about, run }
}

/// All of them, in the order in which they are told.
pub const CHECKS: &[Check] = &[
    check(
        "config",
        "The configuration file, when one is named: its form, its values, its commands",
        files::config,
    ),
    check(
        "privileges",
        "Capabilities (capabilities(7)) that drivers and memory need",
        limits::privileges,
    ),
    check(
        "memlock",
        "How much memory may be locked (RLIMIT_MEMLOCK)",
        limits::memlock,
    ),
    check(
        "descriptors",
        "How many files may be open (RLIMIT_NOFILE)",
        limits::descriptors,
    ),
    check(
        "hugepages",
        "Huge pages of 2 MiB for the packet buffers of all workers",
        limits::huge_pages,
    ),
    check("kernel", "The version of the kernel", kernel::version),
    check("af_xdp", "AF_XDP sockets", kernel::af_xdp),
    check(
        "bpf-jit",
        "The compiler of the kernel's BPF programs",
        kernel::bpf_jit,
    ),
    check("tun", "TUN/TAP interfaces", kernel::tun),
    check(
        "psample",
        "The kernel's channel of packet samples",
        kernel::psample,
    ),
    check(
        "drop-monitor",
        "The kernel's drop monitor",
        kernel::drop_monitor,
    ),
    check(
        "veth",
        "Pairs of virtual interfaces, which `parshall lab` is built of",
        kernel::veth,
    ),
    check("vlan", "The kernel's own VLAN interfaces", kernel::vlan),
    check(
        "clock",
        "The clock source: time-stamp counter or something slower",
        kernel::clock_source,
    ),
    check(
        "time",
        "Whether something keeps the clock right",
        kernel::time,
    ),
    check(
        "cpus",
        "CPUs for the workers: enough, allowed, not shared with their siblings",
        cpu::placement,
    ),
    check(
        "governor",
        "The frequency governor of the workers' CPUs",
        cpu::governor,
    ),
    check(
        "isolation",
        "Whether the scheduler keeps others off the workers' CPUs",
        cpu::isolation,
    ),
    check(
        "interfaces",
        "The Linux interfaces of the configuration",
        files::interfaces,
    ),
    check(
        "offloads",
        "Offloads of those interfaces that join or change packets",
        files::offloads,
    ),
    check("sockets", "Sockets that the router makes", files::sockets),
    check(
        "socket-buffers",
        "The kernel's largest buffers of UDP sockets",
        limits::socket_buffers,
    ),
    check("disk", "Room for what the router keeps", files::disk),
];

/// The checks as the reference page.
pub fn page() -> String {
    let mut out = String::from(
        "# parshall doctor\n\nMade from the list of checks. `parshall doctor` looks at the machine, `parshall doctor -c FILE` also at what a\n\
         configuration needs of it. It changes nothing and needs no privilege; run it as the user that the router runs as.\n\
         Each finding says what is there, why it matters and the command that mends it; `--json` gives them as data, `--all`\n\
         shows also what is well.\n\n\
         | exit status | meaning |\n|---|---|\n| 0 | everything is well |\n| 1 | a router runs, but slower, blinder or less safely than it could |\n\
         | 2 | a router does not run, or not as it is configured |\n\n\
         | check | what it looks at |\n|---|---|\n",
    );
    for c in CHECKS {
        out += &format!("| `{}` | {} |\n", c.name, c.about);
    }
    out
}
