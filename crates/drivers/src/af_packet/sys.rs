//! The packet socket's system calls (packet(7)).

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use nix::errno::Errno;
use parshall_device::DeviceError;
use parshall_linux::Error;
use parshall_linux::caps::{self, Capability};

use super::ring::{Ring, Shape};

const PACKET_ADD_MEMBERSHIP: libc::c_int = 1;
const PACKET_DROP_MEMBERSHIP: libc::c_int = 2;
const PACKET_RX_RING: libc::c_int = 5;
const PACKET_VERSION: libc::c_int = 10;
const PACKET_TX_RING: libc::c_int = 13;
const TPACKET_V2: libc::c_int = 1;
/// Memory the kernel may use for frames longer than a slot, and for frames on their way out.
const SOCKET_BUFFER: libc::c_int = 16 << 20;

/// `struct virtio_net_hdr`: what the kernel knows of a received frame (virtio 1.2 section 5.1.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct VnetHeader {
    pub flags: u8,
    pub gso_type: u8,
    /// Largest payload of a segment.
    pub gso_size: u16,
    /// Where the checksum begins, from the start of the frame.
    pub csum_start: u16,
    /// Where it goes, from `csum_start`.
    pub csum_offset: u16,
}

impl VnetHeader {
    pub const LEN: usize = 10;
    pub const NEEDS_CSUM: u8 = 1;
    pub const GSO_NONE: u8 = 0;
    pub const GSO_TCPV4: u8 = 1;
    pub const GSO_TCPV6: u8 = 4;
    pub const GSO_UDP_L4: u8 = 5;
    /// Bit beside the type: congestion was reported in the first segment.
    pub const GSO_ECN: u8 = 0x80;

    /// Reads it; numbers are in host order.
    pub fn parse(b: &[u8; VnetHeader::LEN]) -> VnetHeader {
        let word = |at: usize| u16::from_ne_bytes([b[at], b[at + 1]]);
        VnetHeader {
            flags: b[0],
            gso_type: b[1],
            gso_size: word(4),
            csum_start: word(6),
            csum_offset: word(8),
        }
    }
}

fn refused(tried: &str, name: &str) -> DeviceError {
    super::failed(Error::last_os(tried, format!("interface \"{name}\"")))
}

/// A packet socket that receives nothing yet, in the calling thread's namespace.
pub(super) fn socket(name: &str) -> Result<OwnedFd, DeviceError> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: makes a new descriptor or fails; reads no memory of ours.
    let fd = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
    if fd < 0 {
        let e = Error::last_os("open a packet socket for", format!("interface \"{name}\""));
        return Err(super::failed(
            e.hint(caps::grant_hint(&[Capability::NetRaw])),
        ));
    }
    // SAFETY: the descriptor was just made and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sets a socket option to a plain value.
fn set<T: Copy>(
    fd: &OwnedFd,
    level: libc::c_int,
    option: libc::c_int,
    value: T,
) -> Result<(), Errno> {
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel reads `len` bytes of `value`, which outlives the call.
    let rc = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            len,
        )
    };
    if rc < 0 { Err(Errno::last()) } else { Ok(()) }
}

/// Reads a socket option of plain numbers; `None` when the kernel refuses.
fn get<T: Copy + Default>(fd: &OwnedFd, level: libc::c_int, option: libc::c_int) -> Option<T> {
    let mut value = T::default();
    let mut len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes into `value`; both outlive the call, and callers
    // ask only for types for which every bit pattern is valid.
    let rc = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            level,
            option,
            (&raw mut value).cast(),
            &raw mut len,
        )
    };
    (rc == 0).then_some(value)
}

fn must(
    fd: &OwnedFd,
    option: libc::c_int,
    value: libc::c_int,
    tried: &str,
    name: &str,
) -> Result<(), DeviceError> {
    set(fd, libc::SOL_PACKET, option, value)
        .map_err(|e| super::failed(Error::os(tried, format!("interface \"{name}\""), e)))
}

fn make_ring(
    fd: &OwnedFd,
    option: libc::c_int,
    shape: Shape,
    name: &str,
) -> Result<Ring, DeviceError> {
    let request = libc::tpacket_req {
        tp_block_size: shape.block as u32,
        tp_block_nr: shape.blocks as u32,
        tp_frame_size: shape.slot as u32,
        tp_frame_nr: shape.slots() as u32,
    };
    let tried = format!(
        "make a packet ring of {} KiB for",
        (shape.block * shape.blocks) >> 10
    );
    let object = format!("interface \"{name}\"");
    set(fd, libc::SOL_PACKET, option, request)
        .map_err(|e| super::failed(Error::os(&tried, &object, e)))?;
    Ring::map(fd, shape).map_err(|e| super::failed(Error::io(&tried, &object, &e)))
}

/// Prepares `fd` to receive through a ring of at least `slots` slots of `slot` bytes.
pub(super) fn receive_ring(
    fd: &OwnedFd,
    name: &str,
    slot: usize,
    slots: usize,
) -> Result<Ring, DeviceError> {
    must(
        fd,
        PACKET_VERSION,
        TPACKET_V2,
        "use packet ring version 2 on",
        name,
    )?;
    must(
        fd,
        libc::PACKET_VNET_HDR,
        1,
        "ask for offload headers on",
        name,
    )?;
    must(
        fd,
        libc::PACKET_IGNORE_OUTGOING,
        1,
        "leave out sent frames on",
        name,
    )?;
    must(
        fd,
        libc::PACKET_COPY_THRESH,
        1,
        "ask for long frames on",
        name,
    )?;
    buffer_size(fd, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF);
    make_ring(fd, PACKET_RX_RING, Shape::new(slot, slots), name)
}

/// Prepares `fd` to send through a ring of at least `slots` slots of `slot` bytes.
pub(super) fn send_ring(
    fd: &OwnedFd,
    name: &str,
    slot: usize,
    slots: usize,
) -> Result<Ring, DeviceError> {
    must(
        fd,
        PACKET_VERSION,
        TPACKET_V2,
        "use packet ring version 2 on",
        name,
    )?;
    // A frame the kernel refuses is skipped instead of blocking the ring.
    must(fd, libc::PACKET_LOSS, 1, "skip refused frames on", name)?;
    // Straight to the device: no queueing discipline, no copies to other packet sockets.
    must(
        fd,
        libc::PACKET_QDISC_BYPASS,
        1,
        "bypass the queueing discipline of",
        name,
    )?;
    buffer_size(fd, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF);
    make_ring(fd, PACKET_TX_RING, Shape::new(slot, slots), name)
}

/// Asks for large socket memory: by privilege, or as much as the system's limit allows. In a user
/// namespace that is `net.core.rmem_max`: a few super-frames at once; more are counted as missed.
fn buffer_size(fd: &OwnedFd, force: libc::c_int, polite: libc::c_int) {
    if set(fd, libc::SOL_SOCKET, force, SOCKET_BUFFER).is_err() {
        let _ = set(fd, libc::SOL_SOCKET, polite, SOCKET_BUFFER);
    }
}

/// Ties the socket to the interface; it receives all protocols from now on, or is for sending only.
pub(super) fn bind(fd: &OwnedFd, name: &str, index: u32, receive: bool) -> Result<(), DeviceError> {
    // SAFETY: sockaddr_ll is plain data for which all zeros are valid.
    let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_ifindex = index as libc::c_int;
    address.sll_protocol = if receive {
        (libc::ETH_P_ALL as u16).to_be()
    } else {
        0
    };
    let len = size_of_val(&address) as libc::socklen_t;
    // SAFETY: the kernel reads `len` bytes of `address`, which outlives the call.
    let rc = unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), len) };
    if rc < 0 {
        Err(refused("bind a packet socket to", name))
    } else {
        Ok(())
    }
}

/// Joins a fanout group, where flows are spread by hash; `None` makes a new one. Says its number,
/// which may be 0.
pub(super) fn join_fanout(
    fd: &OwnedFd,
    name: &str,
    group: Option<u32>,
) -> Result<u32, DeviceError> {
    let tried = "spread flows over queues of";
    let flags = if group.is_none() {
        libc::PACKET_FANOUT_FLAG_UNIQUEID
    } else {
        0
    };
    let value = group.unwrap_or(0) | (libc::PACKET_FANOUT_HASH | flags) << 16;
    must(fd, libc::PACKET_FANOUT, value as libc::c_int, tried, name)?;
    let joined = get::<u32>(fd, libc::SOL_PACKET, libc::PACKET_FANOUT);
    joined
        .map(|v| v & 0xffff)
        .ok_or_else(|| refused(tried, name))
}

/// Receives frames for all addresses while the socket lives, or no longer.
pub(super) fn set_promiscuous(
    fd: &OwnedFd,
    name: &str,
    index: u32,
    on: bool,
) -> Result<(), DeviceError> {
    let request = libc::packet_mreq {
        mr_ifindex: index as libc::c_int,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    let option = if on {
        PACKET_ADD_MEMBERSHIP
    } else {
        PACKET_DROP_MEMBERSHIP
    };
    set(fd, libc::SOL_PACKET, option, request).map_err(|e| {
        super::failed(Error::os(
            "change promiscuity of",
            format!("interface \"{name}\""),
            e,
        ))
    })
}

/// Frames the kernel dropped on this socket since it was last asked.
pub(super) fn drops(fd: &OwnedFd) -> u64 {
    // struct tpacket_stats: packets seen, of which dropped.
    let stats = get::<[u32; 2]>(fd, libc::SOL_PACKET, libc::PACKET_STATISTICS);
    stats.map_or(0, |s| u64::from(s[1]))
}

/// Forgets a pending socket error (the interface went down). Until then the descriptor would keep
/// waking the worker.
pub(super) fn clear_error(fd: &OwnedFd) {
    let _ = get::<libc::c_int>(fd, libc::SOL_SOCKET, libc::SO_ERROR);
}

/// Takes the next frame that was too long for a slot, vnet header in front; says its whole length,
/// also when `into` is shorter.
pub(super) fn receive_long(fd: &OwnedFd, into: &mut [u8]) -> io::Result<usize> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
    // SAFETY: the kernel writes at most `into.len()` bytes into `into`, which outlives the call.
    let n = unsafe { libc::recv(fd.as_raw_fd(), into.as_mut_ptr().cast(), into.len(), flags) };
    usize::try_from(n).map_err(|_| io::Error::last_os_error())
}

/// Has the kernel send all slots that are marked for it.
pub(super) fn kick(fd: &OwnedFd) -> Result<(), Errno> {
    let none = std::ptr::null();
    // SAFETY: with a send ring the kernel takes the frames from the ring; no memory is passed here.
    let n = unsafe { libc::sendto(fd.as_raw_fd(), none, 0, libc::MSG_DONTWAIT, none.cast(), 0) };
    if n < 0 { Err(Errno::last()) } else { Ok(()) }
}
