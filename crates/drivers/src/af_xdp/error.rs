//! Words for what the kernel refuses on the way to an AF_XDP socket.

use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit};
use parshall_device::DeviceError;
use parshall_linux::Error;
use parshall_linux::caps::{self, Capability};

use super::failed;
use super::socket::{Failure, Plan, Step};

/// What was tried when a step failed.
fn tried(step: Step, queue: u32) -> String {
    match step {
        Step::Socket => "open an AF_XDP socket for".to_owned(),
        Step::Memory => "map packet memory for".to_owned(),
        Step::Register => "register packet memory for".to_owned(),
        Step::Ring => "make the rings of an AF_XDP socket for".to_owned(),
        Step::BusyPoll => "turn on busy polling for".to_owned(),
        Step::Bind => format!("bind an AF_XDP socket to queue {queue} of"),
    }
}

fn memlock() -> String {
    match getrlimit(Resource::RLIMIT_MEMLOCK) {
        Ok((soft, _)) => format!("{} KiB", soft >> 10),
        Err(_) => "unknown".to_owned(),
    }
}

/// The error for a failed step. `zero_copy`: the device was to work on our memory and nothing else
/// would do.
pub(super) fn explain(
    (step, errno): Failure,
    name: &str,
    plan: &Plan,
    zero_copy: bool,
) -> DeviceError {
    let e = Error::os(
        tried(step, plan.queue),
        format!("interface \"{name}\""),
        errno,
    );
    let chunks = 2 * plan.rx as usize + plan.tx as usize;
    failed(match (step, errno) {
        (Step::Socket, Errno::EAFNOSUPPORT) => e.hint(
            "this kernel has no AF_XDP: it needs Linux 5.9 or later with CONFIG_XDP_SOCKETS; a host-interface (af_packet) \
             works without",
        ),
        (Step::Socket, Errno::EPERM | Errno::EACCES) => {
            e.hint(caps::grant_hint(&[Capability::NetRaw]))
        }
        (Step::Register, Errno::ENOBUFS | Errno::EPERM) => e.hint(format!(
            "the limit of locked memory (RLIMIT_MEMLOCK) is {} and one queue needs {} KiB: raise it (\"ulimit -l \
             unlimited\", LimitMEMLOCK=infinity in the systemd unit), ask for smaller queues, or grant CAP_IPC_LOCK, \
             which {}",
            memlock(),
            (chunks * plan.chunk) >> 10,
            caps::grant_hint(&[Capability::IpcLock]),
        )),
        (Step::BusyPoll, Errno::EPERM) => e.hint(caps::grant_hint(&[Capability::NetAdmin])),
        (Step::BusyPoll, _) => e.hint("busy polling needs Linux 5.11 or later: leave out `busy-poll`"),
        (Step::Bind, Errno::EBUSY) => {
            e.hint("another AF_XDP socket holds this queue: end its program, or use fewer queues")
        }
        (Step::Bind, Errno::ENODEV) => e.hint("the interface went away"),
        (Step::Bind, _) if zero_copy => {
            e.hint("its driver has no zero-copy, or not with these settings: leave it to `mode auto`")
        }
        (Step::Bind, Errno::EINVAL) => e.hint(format!(
            "the interface has no queue {}, or packets longer than its buffers: see \"ethtool -l {name}\"",
            plan.queue
        )),
        _ => e,
    })
}

/// More queues were asked for than the device has.
pub(super) fn too_many(name: &str, asked: usize, has: u32, what: &str) -> DeviceError {
    DeviceError(format!(
        "cannot use {asked} {what} queues of interface \"{name}\": it has {has}; ask for fewer, or give it more with \
         \"ethtool -L {name}\""
    ))
}

/// Frames longer than can be carried.
pub(super) fn too_long(name: &str, mtu: u32, most: u32, why: &str) -> DeviceError {
    DeviceError(format!(
        "cannot use interface \"{name}\" with MTU {mtu}: AF_XDP carries at most {most} {why}; lower it with \"ip link set \
         dev {name} mtu {most}\""
    ))
}

/// Another program is there.
pub(super) fn occupied(name: &str, program: u32) -> DeviceError {
    DeviceError(format!(
        "cannot use interface \"{name}\": XDP program {program} is attached to it already and is not replaced; find its \
         owner with \"bpftool prog show id {program}\", or detach it with \"ip link set dev {name} xdp off\""
    ))
}

/// A ring of a size the kernel does not take.
pub(super) fn ring_size(name: &str, entries: u32) -> DeviceError {
    DeviceError(format!(
        "cannot make a queue of {entries} packets on interface \"{name}\": the size is a power of two from 64 to 32768"
    ))
}
