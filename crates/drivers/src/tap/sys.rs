//! The tap's system calls: the tun ioctls (`include/uapi/linux/if_tun.h`), readv and writev.

use std::fs::{File, OpenOptions};
use std::mem;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

use nix::errno::Errno;
use parshall_buffer::{BufferIndex, DATA_SIZE, HEADROOM, Pool};
use parshall_device::DeviceError;
use parshall_linux::Error;

use crate::af_packet::sys::VnetHeader;

const TUNSETIFF: libc::Ioctl = 0x4004_54ca;
const TUNSETOFFLOAD: libc::Ioctl = 0x4004_54d0;
/// What the host may leave to us (`TUN_F_*`): checksums, segments of TCP over both IP versions with congestion
/// marks, and, from Linux 6.2 on, of UDP.
const OFFLOADS: [libc::c_ulong; 3] = [0x6f, 0x0f, 0];
const TUNSETCARRIER: libc::Ioctl = 0x4004_54e2;
const CLONE_DEVICE: &str = "/dev/net/tun";

/// Most buffers one frame is read into or written from: 65,535 bytes need 31.
pub(super) const MAX_PARTS: usize = 32;

const _: () = assert!(MAX_PARTS * DATA_SIZE > 65_535 + 8);

/// Makes a new tap in the calling thread's namespace and attaches its first queue; says its name.
pub(super) fn create(name: Option<&str>) -> Result<(OwnedFd, String), DeviceError> {
    open_queue(name.unwrap_or("tap%d"), libc::IFF_TUN_EXCL)
}

/// Attaches one more queue to the tap `name` in the calling thread's namespace.
pub(super) fn attach(name: &str) -> Result<OwnedFd, DeviceError> {
    open_queue(name, 0).map(|(fd, _)| fd)
}

fn open_queue(name: &str, extra: libc::c_int) -> Result<(OwnedFd, String), DeviceError> {
    let object = format!("tap \"{name}\"");
    let file = open_clone_device(&object)?;
    // SAFETY: ifreq is plain data for which all zeros are valid.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    if name.is_empty() || name.len() >= request.ifr_name.len() {
        let e = Error::other("make", &object, "the name is 1 to 15 bytes long");
        return Err(super::failed(e));
    }
    for (to, &from) in request.ifr_name.iter_mut().zip(name.as_bytes()) {
        *to = from as libc::c_char;
    }
    let flags =
        libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR | libc::IFF_MULTI_QUEUE | extra;
    // IFF_TUN_EXCL is the sign bit of the field.
    request.ifr_ifru.ifru_flags = flags as libc::c_short;
    // SAFETY: the kernel reads and writes one ifreq, which outlives the call.
    if unsafe { libc::ioctl(file.as_raw_fd(), TUNSETIFF, &raw mut request) } < 0 {
        let e = match Errno::last() {
            e @ (Errno::EBUSY | Errno::EINVAL) => Error::os("make", &object, e)
                .hint("choose another host interface name: that one is taken or not allowed"),
            e => Error::os("make", &object, e),
        };
        return Err(super::failed(e));
    }
    let accepted = OFFLOADS.iter().any(|offloads| {
        // SAFETY: the argument is a number.
        unsafe { libc::ioctl(file.as_raw_fd(), TUNSETOFFLOAD, *offloads) >= 0 }
    });
    if !accepted {
        return Err(super::failed(Error::last_os(
            "set the offloads of",
            &object,
        )));
    }
    let name: Vec<u8> = request
        .ifr_name
        .iter()
        .map(|&c| c as u8)
        .take_while(|&c| c != 0)
        .collect();
    Ok((file.into(), String::from_utf8_lossy(&name).into_owned()))
}

fn open_clone_device(object: &str) -> Result<File, DeviceError> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open(CLONE_DEVICE)
        .map_err(|e| {
            let error = Error::io(format!("open {CLONE_DEVICE} for"), object, &e);
            super::failed(match e.raw_os_error() {
                Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => {
                    error.hint("load the driver with \"modprobe tun\"; in a container, give it --device /dev/net/tun")
                }
                _ => error,
            })
        })
}

/// Tells the host whether the cable is plugged in.
pub(super) fn set_carrier(fd: &OwnedFd, on: bool) -> Result<(), DeviceError> {
    let value = libc::c_int::from(on);
    // SAFETY: the kernel reads one int, which outlives the call.
    if unsafe { libc::ioctl(fd.as_raw_fd(), TUNSETCARRIER, &raw const value) } < 0 {
        match Errno::last() {
            // Before Linux 4.20 a tap always has a carrier.
            Errno::EINVAL | Errno::ENOTTY => {}
            e => return Err(super::failed(Error::os("set the carrier of", "the tap", e))),
        }
    }
    Ok(())
}

/// Reads one frame: its header into `vnet`, its bytes into the data parts of `buffers` (at most
/// [`MAX_PARTS`]) and what is longer into `rest`. Says its length without the header, cut to what fits.
pub(super) fn read_frame(
    fd: &OwnedFd,
    vnet: &mut [u8; VnetHeader::LEN],
    pool: &mut Pool,
    buffers: &[BufferIndex],
    rest: &mut [u8],
) -> Result<usize, Errno> {
    let mut parts = [libc::iovec {
        iov_base: std::ptr::null_mut(),
        iov_len: 0,
    }; MAX_PARTS + 2];
    let count = buffers.len().min(MAX_PARTS);
    let part = |bytes: &mut [u8]| libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    };
    (parts[0], parts[count + 1]) = (part(vnet), part(rest));
    for (part, &b) in parts[1..].iter_mut().zip(&buffers[..count]) {
        let data = &mut pool.parts_mut(b).1[HEADROOM..];
        *part = libc::iovec {
            iov_base: data.as_mut_ptr().cast(),
            iov_len: data.len(),
        };
    }
    // SAFETY: every part points at the data of a buffer the caller has taken from `pool`, or at one of the
    // slices; all are borrowed mutably until the call returns, so the kernel is their only writer.
    let n = unsafe { libc::readv(fd.as_raw_fd(), parts.as_ptr(), count as libc::c_int + 2) };
    let n = usize::try_from(n).map_err(|_| Errno::last())?;
    Ok(n.saturating_sub(VnetHeader::LEN))
}

/// Writes one frame from the parts of packet `b`.
pub(super) fn write_frame(fd: &OwnedFd, pool: &Pool, b: BufferIndex) -> Result<(), Errno> {
    // All zeros: the frame is whole, its checksums are there.
    let vnet = [0u8; VnetHeader::LEN];
    let mut parts = [libc::iovec {
        iov_base: vnet.as_ptr().cast_mut().cast(),
        iov_len: vnet.len(),
    }; MAX_PARTS + 1];
    let mut count = 1;
    pool.for_each_part(b, |bytes| {
        if let Some(part) = parts.get_mut(count) {
            *part = libc::iovec {
                iov_base: bytes.as_ptr().cast_mut().cast(),
                iov_len: bytes.len(),
            };
        }
        count += 1;
    });
    if count > MAX_PARTS + 1 {
        return Err(Errno::EMSGSIZE);
    }
    // SAFETY: the kernel only reads the parts: a local and what lies in `pool`, borrowed until the call returns.
    let n = unsafe { libc::writev(fd.as_raw_fd(), parts.as_ptr(), count as libc::c_int) };
    if n < 0 { Err(Errno::last()) } else { Ok(()) }
}
