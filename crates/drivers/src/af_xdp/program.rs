//! The XDP program on the interface: loading, attaching, and telling it what the router owns.
//!
//! Its source is `ebpf/parshall_xdp.c`; the compiled object beside it is part of this file, so that
//! building needs no BPF compiler.

use nix::errno::Errno;
use parshall_device::DeviceError;
use parshall_linux::bpf::{Map, Object, XdpLink, XdpMode, XdpProgram};
use parshall_linux::{Error, LinkInfo};

use super::socket::Xsk;
use super::{Place, failed};

const OBJECT: &[u8] = include_bytes!("../../../../ebpf/parshall_xdp.o");
/// Name in the object, and of the program in the kernel.
const SECTION: &str = "xdp";
const NAME: &str = "parshall_xdp";
const SETTINGS: &str = "settings";
const SOCKETS: &str = "sockets";

/// The program, loaded and attached. Dropping it detaches it, and so does the end of the process.
pub(super) struct Attached {
    _link: XdpLink,
    /// Where it runs.
    pub mode: XdpMode,
    settings: Map,
    sockets: Map,
}

impl Attached {
    /// Loads the program for `queues` queues and attaches it to `link` of `place`: as `wanted`, or where
    /// nothing is wanted in the driver if that can, else in the stack.
    pub fn new(
        place: &Place,
        link: &LinkInfo,
        queues: u32,
        wanted: Option<XdpMode>,
    ) -> Result<Attached, DeviceError> {
        let mut object = Object::parse(OBJECT, SECTION).map_err(failed)?;
        if let Some(sockets) = object.map_mut(SOCKETS) {
            sockets.max_entries = queues;
        }
        let maps = object.maps.iter().map(Map::create);
        let mut maps = maps.collect::<Result<Vec<_>, _>>().map_err(failed)?;
        let program = XdpProgram::load(&object, &maps, NAME).map_err(failed)?;
        let attach = |mode| {
            place
                .run(|| XdpLink::attach(&program, link.index, mode))
                .map(|r| r.map(|l| (l, mode)))
        };
        let (attached, mode) = match wanted {
            Some(mode) => (attach(mode)?, mode),
            None => match attach(XdpMode::Native)? {
                Err(e) if e.errno().is_some_and(cannot_run_native) => {
                    (attach(XdpMode::Generic)?, XdpMode::Generic)
                }
                other => (other, XdpMode::Native),
            },
        };
        let (link, mode) = attached.map_err(|e| refused(e.errno(), &link.name, mode))?;
        let mut take = |name: &str| {
            let at = object.maps.iter().position(|m| m.name == name);
            at.map(|n| {
                object.maps.remove(n);
                maps.remove(n)
            })
            .ok_or_else(|| failed(format!("the XDP program has no map \"{name}\"")))
        };
        Ok(Attached {
            _link: link,
            mode,
            settings: take(SETTINGS)?,
            sockets: take(SOCKETS)?,
        })
    }

    /// Says what is the router's: frames for `mac`, or all.
    pub fn own(&self, mac: [u8; 6], everything: bool) -> Result<(), DeviceError> {
        // struct settings of the C source.
        let [a, b, c, d, e, f] = mac;
        let [g, h] = u16::from(everything).to_ne_bytes();
        self.settings
            .set(0, &[a, b, c, d, e, f, g, h])
            .map_err(failed)
    }

    /// Lets frames of the socket's queue go to it.
    pub fn give(&self, socket: &Xsk) -> Result<(), DeviceError> {
        let fd = socket.raw() as u32;
        self.sockets
            .set(socket.queue, &fd.to_ne_bytes())
            .map_err(failed)
    }

    /// Lets frames of the socket's queue go to the kernel's stack again.
    pub fn take_away(&self, socket: &Xsk) -> Result<(), DeviceError> {
        self.sockets.remove(socket.queue).map_err(failed)
    }
}

/// What a driver answers that has no XDP, or not with this MTU or these settings.
fn cannot_run_native(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::EOPNOTSUPP | Errno::EINVAL | Errno::ERANGE | Errno::ENOMEM | Errno::ENOSPC
    )
}

/// Words for a refused attachment.
pub(super) fn refused(errno: Option<Errno>, name: &str, mode: XdpMode) -> DeviceError {
    let errno = errno.unwrap_or(Errno::EIO);
    let e = Error::os(
        format!("attach the router's XDP program in {} mode to", mode.name()),
        format!("interface \"{name}\""),
        errno,
    );
    let off = format!("\"ip link set dev {name} xdp off\"");
    failed(match errno {
        Errno::EBUSY | Errno::EEXIST => e.hint(format!(
            "another XDP program is attached, which is not replaced; find its owner with \"bpftool net\" or detach it \
             with {off}"
        )),
        Errno::EOPNOTSUPP => e.hint("its driver has no XDP: leave out `native`, or say `generic`"),
        Errno::ERANGE | Errno::EINVAL if mode == XdpMode::Native => e.hint(format!(
            "drivers have XDP for small MTUs only, some with as many free queues as CPUs, and kernels before 5.9 cannot \
             attach this way at all: lower the MTU (\"ip link set dev {name} mtu 1500\", on a veth that of its peer), or \
             say `generic`"
        )),
        Errno::EINVAL => e.hint("attaching this way needs Linux 5.9 or later"),
        _ => e,
    })
}
