//! What the kernel has, and its clock.

use crate::State::{Problem, Warning};
use crate::{Finding, System, Wanted};

/// Oldest kernel that everything was made for: AF_XDP with several queues on one buffer area, and BPF links.
const OLDEST: (u32, u32) = (5, 10);

pub fn version(s: &dyn System, _: &Wanted) -> Vec<Finding> {
    let release = s.read("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release
        .split(|c: char| !c.is_ascii_digit())
        .map(|n| n.parse().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version >= OLDEST {
        return vec![Finding::ok("kernel", format!("Linux {release}"))];
    }
    vec![Finding::bad(
        "kernel",
        Warning,
        format!("Linux {release} is older than {}.{}", OLDEST.0, OLDEST.1),
        "AF_XDP lacks parts that its driver uses; the other drivers work",
        "sudo apt-get install linux-image-amd64   # and boot it",
    )]
}

/// A feature that some configurations need: a problem when this one does.
fn feature(
    name: &'static str,
    there: Option<bool>,
    needed: bool,
    what: &str,
    why: &'static str,
    mend: &str,
) -> Vec<Finding> {
    vec![match there {
        Some(true) => Finding::ok(name, format!("{what}: there")),
        Some(false) => {
            let state = if needed { Problem } else { Warning };
            Finding::bad(
                name,
                state,
                format!("{what}: not in this kernel"),
                why,
                mend,
            )
        }
        None => Finding::ok(name, format!("{what}: the system does not tell")),
    }]
}

/// Whether a module is loaded, built in or at hand; `None` where the system keeps no list of them.
fn module(s: &dyn System, name: &str) -> Option<bool> {
    if s.exists(&format!("/sys/module/{name}")) {
        return Some(true);
    }
    let release = s.read("/proc/sys/kernel/osrelease").unwrap_or_default();
    let listed = |file: &str| {
        let text = s.read(&format!("/lib/modules/{release}/{file}"))?;
        Some(text.lines().any(|l| {
            let path = l.split(':').next().unwrap_or(l);
            let file = path.rsplit('/').next().unwrap_or(path);
            file.split('.').next() == Some(name)
        }))
    };
    Some(listed("modules.builtin")? || listed("modules.dep")?)
}

pub fn af_xdp(s: &dyn System, w: &Wanted) -> Vec<Finding> {
    let needed = w.devices.iter().any(|d| d.xdp);
    let why = "interfaces of type af_xdp cannot be made; af_packet takes their place at a fraction of the speed";
    feature("af_xdp", s.af_xdp(), needed, "AF_XDP", why, "")
}

pub fn bpf_jit(s: &dyn System, w: &Wanted) -> Vec<Finding> {
    match s.read("/proc/sys/net/core/bpf_jit_enable").as_deref() {
        Some("0") => {
            let state = if w.devices.iter().any(|d| d.xdp) {
                Problem
            } else {
                Warning
            };
            let why =
                "the program that hands packets to AF_XDP is interpreted: several times slower";
            let mend = "sudo sysctl net.core.bpf_jit_enable=1";
            vec![Finding::bad(
                "bpf-jit",
                state,
                "BPF programs are interpreted",
                why,
                mend,
            )]
        }
        _ => vec![Finding::ok("bpf-jit", "BPF programs are compiled")],
    }
}

pub fn tun(s: &dyn System, _: &Wanted) -> Vec<Finding> {
    let why = "TAP interfaces cannot be made";
    feature(
        "tun",
        Some(s.exists("/dev/net/tun")),
        false,
        "TUN/TAP",
        why,
        "sudo modprobe tun",
    )
}

pub fn psample(s: &dyn System, _: &Wanted) -> Vec<Finding> {
    let why = "samples cannot be handed to a hsflowd of this machine, nor those of the kernel be read; datagrams to collectors need it not";
    feature(
        "psample",
        s.genl_family("psample"),
        false,
        "PSAMPLE",
        why,
        "sudo modprobe psample",
    )
}

pub fn drop_monitor(s: &dyn System, _: &Wanted) -> Vec<Finding> {
    let why = "drops cannot be shown to readers of the kernel's drop monitor; discard samples to collectors need it not";
    feature(
        "drop-monitor",
        s.genl_family("NET_DM"),
        false,
        "NET_DM",
        why,
        "sudo modprobe drop_monitor",
    )
}

pub fn veth(s: &dyn System, _: &Wanted) -> Vec<Finding> {
    let why = "`parshall lab` cannot build its network";
    feature(
        "veth",
        module(s, "veth"),
        false,
        "veth",
        why,
        "sudo modprobe veth",
    )
}

pub fn vlan(s: &dyn System, _: &Wanted) -> Vec<Finding> {
    // The router does VLANs itself: the kernel's are of use only beside it.
    let there = if module(s, "8021q") == Some(true) {
        "there"
    } else {
        "not seen, and not needed: the router has its own"
    };
    vec![Finding::ok("vlan", format!("8021q: {there}"))]
}

pub fn clock_source(s: &dyn System, _: &Wanted) -> Vec<Finding> {
    const AT: &str = "/sys/devices/system/clocksource/clocksource0";
    let now = s
        .read(&format!("{AT}/current_clocksource"))
        .unwrap_or_default();
    let could = s
        .read(&format!("{AT}/available_clocksource"))
        .unwrap_or_default();
    // What is read without a system call: the counter of x86 itself, and those that a hypervisor shares.
    let fast = [
        "tsc",
        "kvm-clock",
        "hyperv_clocksource_tsc_page",
        "arch_sys_counter",
        "",
    ];
    if fast.contains(&now.as_str()) {
        return vec![Finding::ok("clock", format!("clock source {now}"))];
    }
    let mend = match could.split_whitespace().find(|c| fast.contains(c)) {
        Some(better) => format!("echo {better} | sudo tee {AT}/current_clocksource"),
        None => String::new(),
    };
    vec![Finding::bad(
        "clock",
        Warning,
        format!("clock source {now}"),
        "reading the time takes microseconds, and every worker reads it at every turn",
        mend,
    )]
}

pub fn time(s: &dyn System, _: &Wanted) -> Vec<Finding> {
    match s.clock_is_synchronized() {
        Some(false) => vec![Finding::bad(
            "time",
            Warning,
            "nothing keeps the clock right",
            "captures, logs and what is exported have times that cannot be compared with those of other machines",
            "sudo apt-get install chrony   # or: sudo timedatectl set-ntp true",
        )],
        Some(true) => vec![Finding::ok("time", "the clock is kept right")],
        None => Vec::new(),
    }
}
