//! One AF_XDP socket on one queue of an interface: making it, waking the kernel, its statistics
//! (the kernel's `Documentation/networking/af_xdp.rst` and `include/uapi/linux/if_xdp.h`).

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;

use nix::errno::Errno;

use super::ring::{Desc, Entry, Offsets, Ring};
use super::umem::{HEADROOM, Layout, Umem};

/// Entries of a ring that must be there and is not used.
const SPARE: u32 = 64;

/// What a socket is for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// Interface index, in the calling thread's namespace.
    pub index: u32,
    /// Queue of the interface.
    pub queue: u32,
    /// Entries of the receive ring, 0 = it does not receive.
    pub rx: u32,
    /// Entries of the transmit ring, 0 = it does not send.
    pub tx: u32,
    /// Bytes of a chunk.
    pub chunk: usize,
    /// Budget of busy polling.
    pub busy_poll: Option<u16>,
}

/// How a socket is tied to its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tie {
    /// The device works on the packet memory itself.
    pub zero_copy: bool,
    /// A packet may span several chunks.
    pub multi: bool,
}

/// What failed, for the words of the error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Socket,
    Memory,
    Register,
    Ring,
    BusyPoll,
    Bind,
}

/// A failed step.
pub(super) type Failure = (Step, Errno);

/// The socket itself, shared by its two halves and the control side.
pub(super) struct Xsk {
    fd: OwnedFd,
    /// Declared behind the descriptor, and so dropped after it.
    pub umem: Umem,
    pub queue: u32,
    pub tie: Tie,
    pub receives: bool,
    pub sends: bool,
}

/// Rings of the receiving half.
pub(super) struct RxRings {
    pub rx: Ring<Desc>,
    pub fill: Ring<u64>,
}

/// Rings of the sending half.
pub(super) struct TxRings {
    pub tx: Ring<Desc>,
    pub completion: Ring<u64>,
}

/// An open socket with its rings.
pub(super) struct Opened {
    pub xsk: Arc<Xsk>,
    pub rx: Option<RxRings>,
    pub tx: Option<TxRings>,
}

/// What the kernel has counted on a socket since it was made (`struct xdp_statistics`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(super) struct KernelStats {
    /// Frames dropped: longer than the chunks take, or no chunk to put them.
    pub rx_dropped: u64,
    pub rx_invalid_descs: u64,
    pub tx_invalid_descs: u64,
    /// Frames dropped because the receive ring was full.
    pub rx_ring_full: u64,
    pub rx_fill_ring_empty: u64,
    pub tx_ring_empty: u64,
}

#[repr(C)]
#[derive(Default)]
struct AllOffsets {
    rx: Offsets,
    tx: Offsets,
    fill: Offsets,
    completion: Offsets,
}

#[repr(C)]
struct UmemReg {
    addr: u64,
    len: u64,
    chunk_size: u32,
    headroom: u32,
    flags: u32,
    tx_metadata_len: u32,
}

/// Bytes of the first version of `struct xdp_umem_reg` with flags, which every kernel since 5.4 takes.
const UMEM_REG: usize = 32;
const _: () = assert!(size_of::<UmemReg>() == UMEM_REG);

fn set<T>(fd: &OwnedFd, level: libc::c_int, option: libc::c_int, value: &T) -> Result<(), Errno> {
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel reads `len` bytes of `value`, plain data that outlives the call.
    let rc = unsafe {
        let value: *const T = value;
        libc::setsockopt(fd.as_raw_fd(), level, option, value.cast(), len)
    };
    if rc < 0 { Err(Errno::last()) } else { Ok(()) }
}

fn get<T: Default>(fd: &OwnedFd, level: libc::c_int, option: libc::c_int) -> Result<T, Errno> {
    let mut value = T::default();
    let mut len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes into `value`, a struct of numbers for which every
    // bit pattern is valid; both outlive the call.
    let rc = unsafe {
        let to: *mut T = &raw mut value;
        libc::getsockopt(fd.as_raw_fd(), level, option, to.cast(), &raw mut len)
    };
    if rc < 0 {
        Err(Errno::last())
    } else {
        Ok(value)
    }
}

fn new_socket() -> Result<OwnedFd, Errno> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
    // SAFETY: makes a new descriptor or fails; reads no memory of ours.
    let fd = unsafe { libc::socket(libc::AF_XDP, kind, 0) };
    if fd < 0 {
        return Err(Errno::last());
    }
    // SAFETY: the descriptor was just made and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn prefer_busy_poll(fd: &OwnedFd, budget: u16) -> Result<(), Errno> {
    let options = [
        (libc::SO_PREFER_BUSY_POLL, 1),
        (libc::SO_BUSY_POLL, 20),
        (libc::SO_BUSY_POLL_BUDGET, i32::from(budget)),
    ];
    for (option, value) in options {
        set(fd, libc::SOL_SOCKET, option, &value)?;
    }
    Ok(())
}

fn bind(fd: &OwnedFd, plan: &Plan, tie: Tie) -> Result<(), Errno> {
    let mode = if tie.zero_copy {
        libc::XDP_ZEROCOPY
    } else {
        libc::XDP_COPY
    };
    let multi = if tie.multi { libc::XDP_USE_SG } else { 0 };
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: mode | multi | libc::XDP_USE_NEED_WAKEUP,
        sxdp_ifindex: plan.index,
        sxdp_queue_id: plan.queue,
        sxdp_shared_umem_fd: 0,
    };
    let len = size_of_val(&address) as libc::socklen_t;
    // SAFETY: the kernel reads `len` bytes of `address`, which outlives the call.
    let rc = unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), len) };
    if rc < 0 { Err(Errno::last()) } else { Ok(()) }
}

/// The chunks of a socket: twice as many to receive into as its ring has entries, so that a device
/// has some while as many wait here; as many to send from as its ring has.
fn layout(plan: &Plan) -> Layout {
    Layout {
        chunk: plan.chunk,
        rx: 2 * plan.rx as usize,
        tx: plan.tx as usize,
    }
}

/// Makes a socket in the calling thread's namespace and ties it to its queue.
pub(super) fn open(plan: &Plan, tie: Tie) -> Result<Opened, Failure> {
    let at = |step: Step| move |e: Errno| (step, e);
    let fd = new_socket().map_err(at(Step::Socket))?;
    let layout = layout(plan);
    let umem = Umem::new(layout).map_err(at(Step::Memory))?;
    let registration = UmemReg {
        addr: umem.base(),
        len: layout.bytes() as u64,
        chunk_size: layout.chunk as u32,
        headroom: 0,
        flags: 0,
        tx_metadata_len: 0,
    };
    let option = |name, value: &u32| set(&fd, libc::SOL_XDP, name, value).map_err(at(Step::Ring));
    set(&fd, libc::SOL_XDP, libc::XDP_UMEM_REG, &registration).map_err(at(Step::Register))?;
    let fill = (layout.rx as u32).max(SPARE);
    let completion = plan.tx.max(SPARE);
    option(libc::XDP_UMEM_FILL_RING, &fill)?;
    option(libc::XDP_UMEM_COMPLETION_RING, &completion)?;
    if plan.rx != 0 {
        option(libc::XDP_RX_RING, &plan.rx)?;
    }
    if plan.tx != 0 {
        option(libc::XDP_TX_RING, &plan.tx)?;
    }
    let offsets: AllOffsets =
        get(&fd, libc::SOL_XDP, libc::XDP_MMAP_OFFSETS).map_err(at(Step::Ring))?;
    let rx = (plan.rx != 0).then(|| rx_rings(&fd, plan, fill, &offsets));
    let rx = rx.transpose().map_err(at(Step::Ring))?;
    let tx = (plan.tx != 0).then(|| tx_rings(&fd, plan, completion, &offsets));
    let tx = tx.transpose().map_err(at(Step::Ring))?;
    if let Some(budget) = plan.busy_poll {
        prefer_busy_poll(&fd, budget).map_err(at(Step::BusyPoll))?;
    }
    let mut opened = Opened {
        xsk: Arc::new(Xsk {
            fd,
            umem,
            queue: plan.queue,
            tie,
            receives: plan.rx != 0,
            sends: plan.tx != 0,
        }),
        rx,
        tx,
    };
    if let Some(rings) = opened.rx.as_mut() {
        (0..layout.rx).for_each(|n| rings.fill.write(layout.offset(n)));
        rings.fill.submit();
    }
    bind(&opened.xsk.fd, plan, tie).map_err(at(Step::Bind))?;
    Ok(opened)
}

fn map<T: Entry>(fd: &OwnedFd, page: u64, size: u32, at: Offsets) -> Result<Ring<T>, Errno> {
    Ring::map(fd, page, size, at)
}

fn rx_rings(fd: &OwnedFd, plan: &Plan, fill: u32, at: &AllOffsets) -> Result<RxRings, Errno> {
    Ok(RxRings {
        rx: map(fd, libc::XDP_PGOFF_RX_RING as u64, plan.rx, at.rx)?,
        fill: map(fd, libc::XDP_UMEM_PGOFF_FILL_RING, fill, at.fill)?,
    })
}

fn tx_rings(fd: &OwnedFd, plan: &Plan, completion: u32, at: &AllOffsets) -> Result<TxRings, Errno> {
    let page = libc::XDP_UMEM_PGOFF_COMPLETION_RING;
    Ok(TxRings {
        tx: map(fd, libc::XDP_PGOFF_TX_RING as u64, plan.tx, at.tx)?,
        completion: map(fd, page, completion, at.completion)?,
    })
}

impl Xsk {
    /// The descriptor: readable when packets wait on the receive ring.
    pub fn raw(&self) -> i32 {
        self.fd.as_raw_fd()
    }

    /// Longest frame it takes from the interface in one chunk.
    pub fn one_chunk(chunk: usize) -> usize {
        chunk - HEADROOM
    }

    /// Has the kernel send what is on the transmit ring.
    pub fn kick(&self) -> Result<(), Errno> {
        let none = std::ptr::null();
        // SAFETY: no memory is passed: the kernel takes the frames from the ring.
        let n = unsafe { libc::sendto(self.raw(), none, 0, libc::MSG_DONTWAIT, none.cast(), 0) };
        if n < 0 { Err(Errno::last()) } else { Ok(()) }
    }

    /// Has the kernel look for received frames: with busy polling it runs the device's receive work
    /// here and now, without it wakes the device that waits for chunks.
    pub fn wake_rx(&self) {
        let none = std::ptr::null_mut();
        // SAFETY: a length of 0: nothing is written. A refusal (interface down) shows elsewhere.
        unsafe {
            libc::recvfrom(
                self.raw(),
                none,
                0,
                libc::MSG_DONTWAIT,
                none.cast(),
                none.cast(),
            )
        };
    }

    /// What the kernel has counted.
    pub fn stats(&self) -> KernelStats {
        get(&self.fd, libc::SOL_XDP, libc::XDP_STATISTICS).unwrap_or_default()
    }

    /// Forgets a pending error (the interface went away), which would keep waking the worker.
    pub fn clear_error(&self) {
        let _: Result<libc::c_int, Errno> = get(&self.fd, libc::SOL_SOCKET, libc::SO_ERROR);
    }

    /// What [`bind`] agreed on, as the kernel says it.
    pub fn is_zero_copy(&self) -> bool {
        let flags: Result<u32, Errno> = get(&self.fd, libc::SOL_XDP, libc::XDP_OPTIONS);
        flags.is_ok_and(|f| f & libc::XDP_OPTIONS_ZEROCOPY != 0)
    }
}
