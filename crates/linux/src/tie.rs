//! Ties a socket to an interface, so that what it sends leaves there whatever the routes say.
//!
//! `SO_BINDTODEVICE` (socket(7)) is the stronger way and knows VRF devices; since Linux 5.7 it needs no privilege. Where the
//! kernel refuses it, `IP_UNICAST_IF` and `IPV6_UNICAST_IF` (`net/ipv4/ip_sockglue.c`, `net/ipv6/ipv6_sockglue.c`) do for
//! sending; on connected sockets they count from Linux 6.1 on.

use std::ffi::OsString;
use std::mem;
use std::os::fd::{AsFd, AsRawFd};

use nix::errno::Errno;
use nix::net::if_::if_nametoindex;
use nix::sys::socket::{setsockopt, sockopt};

use crate::{Error, Result};

/// How a socket was tied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tie {
    /// It sends and receives there only.
    Bound,
    /// It prefers to send there.
    Preferred,
}

/// Ties `socket` to the interface `device` of the namespace that the socket was made in, which must be the caller's too.
/// `ipv6` says of which version the socket is.
///
/// # Errors
/// When there is no such interface (`ENODEV`), or it may not be used.
pub fn tie_to_device(socket: &impl AsFd, device: &str, ipv6: bool) -> Result<Tie> {
    let failed = |e| Error::os("send through", format!("interface \"{device}\""), e);
    // The kernel cuts longer names off, and would then take another interface.
    if device.len() >= libc::IFNAMSIZ || device.is_empty() {
        return Err(failed(Errno::ENODEV));
    }
    match setsockopt(socket, sockopt::BindToDevice, &OsString::from(device)) {
        Ok(()) => Ok(Tie::Bound),
        Err(Errno::EPERM) => {
            let index = if_nametoindex(device).map_err(failed)?;
            prefer(socket, index, ipv6).map_err(failed)?;
            Ok(Tie::Preferred)
        }
        Err(e) => Err(failed(e)),
    }
}

fn prefer(socket: &impl AsFd, index: u32, ipv6: bool) -> std::result::Result<(), Errno> {
    let (level, option) = if ipv6 {
        (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_IF)
    } else {
        (libc::IPPROTO_IP, libc::IP_UNICAST_IF)
    };
    let value = index.to_be();
    // SAFETY: `value` is readable for the length given and outlives the call; the kernel only reads it.
    let done = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            mem::size_of_val(&value) as libc::socklen_t,
        )
    };
    Errno::result(done).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Net, NetNs};
    use std::net::UdpSocket;

    #[test]
    fn a_tied_socket_leaves_by_its_interface_against_the_routes() {
        let ns = NetNs::anonymous().unwrap();
        let net = Net::in_ns(&ns).unwrap();
        net.set_up("lo").unwrap();
        net.test_link("d0");
        // Without a route nothing can be reached, but through a device everything is on the link.
        let (bound, preferred, free, missing, long) = ns
            .run(|| {
                let socket = || UdpSocket::bind("0.0.0.0:0").unwrap();
                let reaches = |s: &UdpSocket| s.send_to(b"x", "198.51.100.1:9").is_ok();
                let (a, b, c) = (socket(), socket(), socket());
                let tie = tie_to_device(&a, "d0", false).unwrap();
                prefer(&b, if_nametoindex("d0").unwrap(), false).unwrap();
                (
                    (tie, reaches(&a)),
                    reaches(&b),
                    reaches(&c),
                    tie_to_device(&c, "d9", false).unwrap_err(),
                    tie_to_device(&c, "an-interface-name", false).unwrap_err(),
                )
            })
            .unwrap();
        assert_eq!((bound, preferred, free), ((Tie::Bound, true), true, false));
        assert_eq!(missing.errno(), Some(Errno::ENODEV));
        assert_eq!(long.errno(), Some(Errno::ENODEV));
        assert!(missing.to_string().contains("\"d9\""), "{missing}");
    }

    #[test]
    fn both_versions_take_a_preference() {
        let lo = if_nametoindex("lo").unwrap();
        let (four, six) = (
            UdpSocket::bind("127.0.0.1:0").unwrap(),
            UdpSocket::bind("[::1]:0").unwrap(),
        );
        prefer(&four, lo, false).unwrap();
        prefer(&six, lo, true).unwrap();
        assert!(prefer(&four, 0x00ff_ffff, false).is_err());
    }
}
