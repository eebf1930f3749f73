//! Receiving frames for all addresses, for as long as a packet socket lives: the kernel ends it with
//! the process, however that ends (packet(7)).

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use parshall_device::DeviceError;
use parshall_linux::Error;
use parshall_linux::caps::{self, Capability};

use super::failed;

const PACKET_ADD_MEMBERSHIP: libc::c_int = 1;

/// Makes interface number `index` promiscuous, in the calling thread's namespace, until the result is
/// dropped.
pub(super) fn membership(name: &str, index: u32) -> Result<OwnedFd, DeviceError> {
    let refused = || {
        let e = Error::last_os(
            "receive frames for all addresses on",
            format!("interface \"{name}\""),
        );
        failed(e.hint(caps::grant_hint(&[Capability::NetRaw])))
    };
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
    // SAFETY: makes a new descriptor or fails; reads no memory of ours.
    let fd = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
    if fd < 0 {
        return Err(refused());
    }
    // SAFETY: the descriptor was just made and has no other owner.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let request = libc::packet_mreq {
        mr_ifindex: index as libc::c_int,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    // SAFETY: the kernel reads the struct, which outlives the call.
    let rc = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_PACKET,
            PACKET_ADD_MEMBERSHIP,
            (&raw const request).cast(),
            size_of_val(&request) as libc::socklen_t,
        )
    };
    if rc < 0 { Err(refused()) } else { Ok(fd) }
}
