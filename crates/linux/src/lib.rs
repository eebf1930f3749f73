//! The one choke point for Linux: namespaces, links, addresses, ioctls, affinity.
//!
//! Everything that asks the kernel for something other than packets goes through here, so that the
//! rest of the house neither spells netlink nor runs `ip`. Two nouns carry it:
//!
//! - [`NetNs`], a network namespace held open: make, find, run a closure or a command inside it.
//! - [`Net`], the interfaces of one namespace: links, addresses, routes, neighbours, offloads. It is
//!   a netlink socket made inside that namespace, so the caller's thread never changes its own.
//!
//! Beside them: [`genl`] (generic netlink and multicast groups), [`caps`] (what privilege is missing and how to grant it), [`affinity`], [`clock`], [`memory`],
//! [`priority`], [`udp`] and [`udp_send`] (datagrams by the batch), [`SocketFile`] (a listening Unix socket), [`SocketServer`] (its clients) and [`userns`] (the way in for those who are not root). Every failure is an [`Error`] that says
//! what was tried, on what, the kernel's reason, and what would help.
//!
//! Knows nothing of packets, buffers or drivers. Follows rtnetlink(7), netlink(7), namespaces(7),
//! and the kernel's `include/uapi/linux/{rtnetlink,if_link,ethtool}.h`.
#![allow(unsafe_code)]

mod addr;
pub mod affinity;
pub mod bpf;
pub mod caps;
pub mod clock;
mod error;
mod ethtool;
pub mod genl;
mod link;
pub mod memory;
mod neigh;
mod netlink;
mod netns;
mod prefix;
pub mod priority;
pub mod probe;
mod route;
mod socket_file;
mod socket_server;
mod statistics;
mod sysctl;
mod tie;
pub mod udp;
pub mod udp_send;
pub mod userns;

pub use addr::Address;
pub use error::{Error, Result};
pub use ethtool::{Channels, Duplex, Offload, Offloads, Speed};
pub use link::{LinkInfo, Oper, VethEnd};
pub use netns::{NetNs, NsId, ScopedNetNs};
pub use prefix::IpPrefix;
pub use route::Route;
pub use socket_file::{SocketError, SocketFile, SocketKind};
pub use socket_server::{Service, SocketServer, SocketServerConfig};
pub use statistics::LinkErrors;
pub use tie::{Tie, tie_to_device};

use netlink::Socket;

/// The interfaces of one network namespace.
///
/// Holds one netlink socket, made inside the namespace and bound to it for good. Cheap; use one per
/// job. Calls block until the kernel has answered, which it does at once.
#[derive(Debug)]
pub struct Net {
    socket: Socket,
}

impl Net {
    /// The namespace the calling thread is in.
    ///
    /// # Errors
    /// When the kernel refuses a netlink socket.
    pub fn here() -> Result<Net> {
        Ok(Net {
            socket: Socket::open()?,
        })
    }

    /// The namespace `ns`.
    ///
    /// # Errors
    /// When the namespace cannot be entered (`CAP_SYS_ADMIN`) or a netlink socket is refused.
    pub fn in_ns(ns: &NetNs) -> Result<Net> {
        ns.run(Net::here)?
    }
}

#[cfg(test)]
impl Net {
    /// A link called `name` to try things on: one end of a veth pair, both ends up. (A dummy would do,
    /// but is a kernel module that is not everywhere.)
    fn test_link(&self, name: &str) {
        let peer = format!("{name}-peer");
        self.create_veth(&VethEnd::new(name), &VethEnd::new(&peer))
            .unwrap();
        self.set_up(&peer).unwrap();
        self.set_up(name).unwrap();
    }
}
