//! The configuration and what it names: interfaces, sockets, folders.

use parshall_linux::Offload;

use crate::State::{Problem, Warning};
use crate::{Finding, SocketState, System, Wanted};

pub fn config(_: &dyn System, w: &Wanted) -> Vec<Finding> {
    match &w.config {
        None => Vec::new(),
        Some((path, Ok(()))) => vec![Finding::ok("config", format!("{} is good", path.display()))],
        Some((path, Err(error))) => vec![Finding::bad(
            "config",
            Problem,
            error.clone(),
            "the router does not start",
            format!(
                "parshall config check {}   # after each change",
                path.display()
            ),
        )],
    }
}

pub fn interfaces(s: &dyn System, w: &Wanted) -> Vec<Finding> {
    let each = w.devices.iter().map(|d| {
        if s.has_interface(&d.name) {
            return Finding::ok("interfaces", format!("{} is there", d.name));
        }
        Finding::bad(
            "interfaces",
            Problem,
            format!("there is no interface {}", d.name),
            "the router does not start",
            "ip -brief link   # shows what there is",
        )
    });
    each.collect()
}

pub fn offloads(s: &dyn System, w: &Wanted) -> Vec<Finding> {
    // What joins packets, and what a driver that takes them past the kernel does not undo.
    const JOIN: [Offload; 2] = [Offload::Gro, Offload::Lro];
    let mut found = Vec::new();
    for d in w.devices.iter().filter(|d| s.has_interface(&d.name)) {
        let on: Vec<Offload> = JOIN
            .into_iter()
            .filter(|o| s.offload(&d.name, *o) == Some(true))
            .collect();
        if on.is_empty() {
            found.push(Finding::ok(
                "offloads",
                format!("{} does not join packets", d.name),
            ));
            continue;
        }
        let names: Vec<&str> = on.iter().map(|o| o.name()).collect();
        let options: Vec<String> = names.iter().map(|n| format!("{n} off")).collect();
        found.push(Finding::bad(
            "offloads",
            Warning,
            format!("{} has {} on", d.name, names.join(" and ")),
            "joined packets are larger than the MTU and are counted and sampled as one; the router turns these off while it has the interface",
            format!("sudo ethtool -K {} {}", d.name, options.join(" ")),
        ));
    }
    found
}

pub fn sockets(s: &dyn System, w: &Wanted) -> Vec<Finding> {
    let each = w.sockets.iter().map(|path| {
        let name = path.display();
        match s.socket(path) {
            SocketState::Absent => Finding::ok("sockets", format!("{name} can be made")),
            SocketState::Live => Finding::ok("sockets", format!("a router listens on {name}")),
            SocketState::Stale => Finding::ok(
                "sockets",
                format!("{name} is left from a router that ended; the next one replaces it"),
            ),
            SocketState::Forbidden => Finding::bad(
                "sockets",
                Problem,
                format!("{name} cannot be made by user {}", s.user()),
                "the router does not start",
                format!(
                    "sudo install -d -o $(id -un) {}",
                    path.parent().unwrap_or(path).display()
                ),
            ),
            SocketState::NotASocket => Finding::bad(
                "sockets",
                Problem,
                format!("{name} is something else than a socket"),
                "the router does not start, since it removes nothing that it did not make",
                format!("ls -l {name}   # and move it away"),
            ),
        }
    });
    each.collect()
}

pub fn disk(s: &dyn System, w: &Wanted) -> Vec<Finding> {
    const LEAST: u64 = 64 << 20;
    match s.free_bytes(&w.state) {
        Some(n) if n < LEAST => vec![Finding::bad(
            "disk",
            Warning,
            format!("{} MiB are free for {}", n >> 20, w.state.display()),
            "numbers of interfaces and revisions of the configuration are not kept, captures end early",
            format!("df -h {}", w.state.display()),
        )],
        Some(n) => vec![Finding::ok(
            "disk",
            format!("{} MiB are free for {}", n >> 20, w.state.display()),
        )],
        None => Vec::new(),
    }
}
