//! Whether the kernel has what a router may want: asked by opening it and closing it again.

use std::os::fd::{FromRawFd, OwnedFd};

use crate::genl::{Bus, GroupSocket};

/// Whether the kernel has AF_XDP sockets (af_xdp(7)); `None` when it may not be asked, for want of CAP_NET_RAW.
pub fn has_af_xdp() -> Option<bool> {
    // SAFETY: the call takes three numbers and returns a descriptor or -1.
    let fd = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        let denied = std::io::Error::last_os_error().raw_os_error() == Some(libc::EPERM);
        return if denied { None } else { Some(false) };
    }
    // SAFETY: the descriptor was just made, and nobody else has it.
    drop(unsafe { OwnedFd::from_raw_fd(fd) });
    Some(true)
}

/// Whether the kernel has this generic netlink family; it may load a module for it.
pub fn has_genl_family(name: &str) -> Option<bool> {
    let socket = GroupSocket::open(Bus::Generic, 0).ok()?;
    Some(socket.family(name).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_that_always_and_never_are() {
        assert_eq!(has_genl_family("nlctrl"), Some(true));
        assert_eq!(has_genl_family("no_such_family"), Some(false));
    }
}
