//! The two system calls that the standard library does not reach: packet sockets (packet(7)) and a child's death
//! signal (`PR_SET_PDEATHSIG`, prctl(2)).

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use parshall_linux::{Net, NetNs};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use crate::error::{LabError, Result};

/// Sends and receives whole Ethernet frames on one interface.
pub struct PacketSocket(Socket);

impl PacketSocket {
    /// A socket on interface `dev` of namespace `ns` that receives frames of type `ethertype` (0: none). Waiting for a
    /// frame ends after `timeout`.
    ///
    /// # Errors
    /// When there is no such interface, or without `CAP_NET_RAW`.
    pub fn open(ns: &NetNs, dev: &str, ethertype: u16, timeout: Duration) -> Result<PacketSocket> {
        let index = Net::in_ns(ns)?.link(dev)?.index;
        // The kernel wants the type in network order, in an int.
        let protocol = ethertype.to_be();
        ns.run(|| {
            let kind = Protocol::from(i32::from(protocol));
            let socket = Socket::new(Domain::PACKET, Type::RAW, Some(kind))?;
            socket.set_read_timeout(Some(timeout))?;
            socket.set_write_timeout(Some(timeout))?;
            // Less than asked for is not an error.
            let _ = socket.set_recv_buffer_size(4 << 20);
            socket.bind(&link_address(protocol, index))?;
            Ok(PacketSocket(socket))
        })?
        .map_err(LabError::io(format!(
            "open a packet socket on \"{dev}\" in {}",
            ns.label()
        )))
    }

    /// Sends one frame.
    pub fn send(&self, frame: &[u8]) -> io::Result<usize> {
        self.0.send(frame)
    }

    /// Receives one frame; an error of kind `WouldBlock` when none came in time.
    pub fn recv(&self, buf: &mut [u8]) -> io::Result<usize> {
        io::Read::read(&mut &self.0, buf)
    }
}

/// `struct sockaddr_ll` for interface `index`; `protocol` in network order.
fn link_address(protocol: u16, index: u32) -> SockAddr {
    // SAFETY: the storage is zeroed, aligned and large enough for any socket address; a sockaddr_ll is written at its
    // start and its exact length given.
    let made = unsafe {
        SockAddr::try_init(|storage, len| {
            let address = libc::sockaddr_ll {
                sll_family: libc::AF_PACKET as u16,
                sll_protocol: protocol,
                sll_ifindex: index as i32,
                sll_hatype: 0,
                sll_pkttype: 0,
                sll_halen: 0,
                sll_addr: [0; 8],
            };
            storage.cast::<libc::sockaddr_ll>().write(address);
            *len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
            Ok(())
        })
    };
    match made {
        Ok(((), address)) => address,
        // The closure above has no other way to end.
        Err(_) => unreachable!("a socket address that is written cannot fail"),
    }
}

/// Has the kernel kill the child when the calling thread ends, however it ends: the last line of defence when this
/// process is killed and can clean up nothing itself. Call it from the main thread.
pub fn die_with_parent(command: &mut Command) {
    let parent = nix::unistd::getpid();
    let arrange = move || {
        nix::sys::prctl::set_pdeathsig(Some(nix::sys::signal::Signal::SIGTERM))?;
        // The parent may have died before the call: then nobody will send the signal.
        if nix::unistd::getppid() != parent {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        Ok(())
    };
    // SAFETY: between fork and exec only two system calls run: no allocation, no lock.
    unsafe { command.pre_exec(arrange) };
}
