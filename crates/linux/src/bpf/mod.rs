//! BPF programs: maps, loading, and attaching to an interface (bpf(2), the kernel's
//! `include/uapi/linux/bpf.h`).
//!
//! A small loader of our own: an object of one program and a few maps needs no more, and what the
//! kernel refuses can be said in the words of the job. Everything is a descriptor: when the process
//! ends, however it ends, the kernel detaches the program and frees the maps.

mod object;

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use nix::errno::Errno;

use crate::caps::{self, Capability};
use crate::{Error, Result};

pub use object::{MapSpec, Object};

const BPF_MAP_CREATE: libc::c_int = 0;
const BPF_MAP_UPDATE_ELEM: libc::c_int = 2;
const BPF_MAP_DELETE_ELEM: libc::c_int = 3;
const BPF_PROG_LOAD: libc::c_int = 5;
const BPF_LINK_CREATE: libc::c_int = 28;
const BPF_PROG_TYPE_XDP: u32 = 6;
const BPF_XDP: u32 = 37;
/// The program works on packets in several buffers.
const BPF_F_XDP_HAS_FRAGS: u32 = 1 << 5;
/// Bytes of the verifier's words that are kept.
const LOG: usize = 64 << 10;
/// Bytes of a name, closing zero included.
const NAME: usize = 16;

/// Calls bpf(2); `attr` is the struct of the command.
fn bpf<T>(command: libc::c_int, attr: &mut T) -> std::result::Result<RawFd, Errno> {
    // SAFETY: the kernel reads and writes at most the given size of `attr`, which outlives the call;
    // every caller's struct is plain data laid out as the command's part of `union bpf_attr`, and the
    // addresses in it are of memory that outlives the call too.
    let rc = unsafe {
        let attr: *mut T = attr;
        libc::syscall(libc::SYS_bpf, command, attr, size_of::<T>())
    };
    if rc < 0 {
        Err(Errno::last())
    } else {
        Ok(rc as RawFd)
    }
}

fn owned(fd: RawFd) -> OwnedFd {
    // SAFETY: the system call just made the descriptor; it has no other owner.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

fn refused(tried: &str, object: &str, errno: Errno) -> Error {
    let e = Error::os(tried, object, errno);
    match errno {
        Errno::EPERM | Errno::EACCES => e.hint(format!(
            "{}; the capabilities must be those of the system, not of a user namespace",
            caps::grant_hint(&[Capability::Bpf, Capability::NetAdmin])
        )),
        Errno::ENOSYS => e.hint("this kernel was built without bpf(2) (CONFIG_BPF_SYSCALL)"),
        _ => e,
    }
}

fn short_name(name: &str) -> [u8; NAME] {
    let mut out = [0; NAME];
    let n = name.len().min(NAME - 1);
    out[..n].copy_from_slice(&name.as_bytes()[..n]);
    out
}

/// A map.
#[derive(Debug)]
pub struct Map {
    fd: OwnedFd,
    spec: MapSpec,
}

#[repr(C)]
#[derive(Default)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
    inner_map_fd: u32,
    numa_node: u32,
    map_name: [u8; NAME],
}

#[repr(C)]
#[derive(Default)]
struct MapElement {
    map_fd: u32,
    pad: u32,
    key: u64,
    value: u64,
    flags: u64,
}

impl Map {
    /// Makes a map.
    ///
    /// # Errors
    /// Without `CAP_BPF`, or when the kernel does not have this kind.
    pub fn create(spec: &MapSpec) -> Result<Map> {
        let mut attr = MapCreate {
            map_type: spec.kind,
            key_size: spec.key_size,
            value_size: spec.value_size,
            max_entries: spec.max_entries,
            map_flags: spec.flags,
            map_name: short_name(&spec.name),
            ..MapCreate::default()
        };
        let fd = bpf(BPF_MAP_CREATE, &mut attr)
            .map_err(|e| refused("make", &format!("the BPF map \"{}\"", spec.name), e))?;
        Ok(Map {
            fd: owned(fd),
            spec: spec.clone(),
        })
    }

    fn raw(&self) -> u32 {
        self.fd.as_raw_fd() as u32
    }

    fn element(&self, command: libc::c_int, tried: &str, key: u32, value: &[u8]) -> Result<()> {
        let object = format!("the BPF map \"{}\"", self.spec.name);
        if self.spec.key_size != 4 || !(value.is_empty() || value.len() == self.value_size()) {
            return Err(Error::other(tried, object, "key or value of another size"));
        }
        let mut attr = MapElement {
            map_fd: self.raw(),
            key: (&raw const key) as u64,
            // The kernel wants what a command does not use to be zero.
            value: if value.is_empty() {
                0
            } else {
                value.as_ptr() as u64
            },
            ..MapElement::default()
        };
        bpf(command, &mut attr)
            .map(|_| ())
            .map_err(|e| refused(tried, &object, e))
    }

    fn value_size(&self) -> usize {
        self.spec.value_size as usize
    }

    /// Sets the value at `key`.
    ///
    /// # Errors
    /// When the kernel refuses the key or the value.
    pub fn set(&self, key: u32, value: &[u8]) -> Result<()> {
        let tried = "set an entry of";
        if value.len() != self.value_size() {
            let object = format!("the BPF map \"{}\"", self.spec.name);
            return Err(Error::other(tried, object, "value of another size"));
        }
        self.element(BPF_MAP_UPDATE_ELEM, tried, key, value)
    }

    /// Removes the value at `key`; one that is not there is no error.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn remove(&self, key: u32) -> Result<()> {
        match self.element(BPF_MAP_DELETE_ELEM, "remove an entry of", key, &[]) {
            Err(e) if e.errno() != Some(Errno::ENOENT) => Err(e),
            _ => Ok(()),
        }
    }
}

/// A loaded XDP program.
#[derive(Debug)]
pub struct XdpProgram {
    fd: OwnedFd,
    /// Whether it takes packets in several buffers.
    pub frags: bool,
}

#[repr(C)]
#[derive(Default)]
struct ProgLoad {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
    prog_name: [u8; NAME],
    prog_ifindex: u32,
    expected_attach_type: u32,
}

impl XdpProgram {
    /// Loads the program of `object`, whose maps are `maps` in the same order. Kernels before 5.18
    /// know no packets in several buffers: there it is loaded for packets in one.
    ///
    /// # Errors
    /// Without `CAP_BPF` and `CAP_NET_ADMIN`, or with the verifier's words when it refuses.
    pub fn load(object: &Object, maps: &[Map], name: &str) -> Result<XdpProgram> {
        let code = object.linked(maps);
        let load = |flags| Self::try_load(&code, &object.license, name, flags);
        match load(BPF_F_XDP_HAS_FRAGS) {
            Ok(fd) => Ok(XdpProgram { fd, frags: true }),
            Err(e) if e.errno() == Some(Errno::EINVAL) => Ok(XdpProgram {
                fd: load(0)?,
                frags: false,
            }),
            Err(e) => Err(e),
        }
    }

    fn try_load(code: &[u8], license: &str, name: &str, flags: u32) -> Result<OwnedFd> {
        let license: Vec<u8> = license.bytes().chain([0]).collect();
        let mut attr = ProgLoad {
            prog_type: BPF_PROG_TYPE_XDP,
            insn_cnt: (code.len() / object::INSTRUCTION) as u32,
            insns: code.as_ptr() as u64,
            license: license.as_ptr() as u64,
            prog_flags: flags,
            prog_name: short_name(name),
            expected_attach_type: BPF_XDP,
            ..ProgLoad::default()
        };
        let errno = match bpf(BPF_PROG_LOAD, &mut attr) {
            Ok(fd) => return Ok(owned(fd)),
            Err(e) => e,
        };
        // Once more with the verifier's words, which only a refusal is worth.
        let mut log = vec![0u8; LOG];
        attr.log_level = 1;
        attr.log_size = LOG as u32;
        attr.log_buf = log.as_mut_ptr() as u64;
        if let Ok(fd) = bpf(BPF_PROG_LOAD, &mut attr) {
            return Ok(owned(fd));
        }
        let said = log.split(|&b| b == 0).next().unwrap_or_default();
        let said = String::from_utf8_lossy(said);
        let last = said.lines().rfind(|l| !l.is_empty()).unwrap_or_default();
        Err(refused("load", &format!("the XDP program \"{name}\""), errno).kernel_says(last))
    }
}

/// Where an XDP program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XdpMode {
    /// In the driver, before a socket buffer is made (`XDP_FLAGS_DRV_MODE`).
    Native,
    /// In the stack, on any interface (`XDP_FLAGS_SKB_MODE`).
    Generic,
}

impl XdpMode {
    /// "native" or "generic".
    pub fn name(self) -> &'static str {
        match self {
            XdpMode::Native => "native",
            XdpMode::Generic => "generic",
        }
    }
    fn flags(self) -> u32 {
        match self {
            XdpMode::Native => 1 << 2,
            XdpMode::Generic => 1 << 1,
        }
    }
}

/// A program's place on an interface. Dropping it detaches the program, and so does the kernel when
/// the process ends.
#[derive(Debug)]
pub struct XdpLink {
    _fd: OwnedFd,
}

#[repr(C)]
#[derive(Default)]
struct LinkCreate {
    prog_fd: u32,
    target_ifindex: u32,
    attach_type: u32,
    flags: u32,
}

impl XdpLink {
    /// Attaches `program` to interface number `index` of the calling thread's namespace. Never
    /// replaces a program that is there.
    ///
    /// # Errors
    /// The kernel's errno and no hint: `EBUSY` or `EEXIST` where there is one already, `EOPNOTSUPP`
    /// where the driver has no XDP, `ERANGE` or `EINVAL` where the MTU is too large for it.
    pub fn attach(program: &XdpProgram, index: u32, mode: XdpMode) -> Result<XdpLink> {
        let mut attr = LinkCreate {
            prog_fd: program.fd.as_raw_fd() as u32,
            target_ifindex: index,
            attach_type: BPF_XDP,
            flags: mode.flags(),
        };
        let tried = format!("attach an XDP program in {} mode to", mode.name());
        bpf(BPF_LINK_CREATE, &mut attr)
            .map(|fd| XdpLink { _fd: owned(fd) })
            .map_err(|e| refused(&tried, &format!("interface number {index}"), e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Net, NetNs};

    const ELF: &[u8] = include_bytes!("../../../../ebpf/parshall_xdp.o");

    fn loaded(queues: u32) -> (Vec<Map>, XdpProgram) {
        let mut object = Object::parse(ELF, "xdp").unwrap();
        object.map_mut("sockets").unwrap().max_entries = queues;
        let maps: Vec<_> = object
            .maps
            .iter()
            .map(|m| Map::create(m).unwrap())
            .collect();
        let program = XdpProgram::load(&object, &maps, "parshall_xdp").unwrap();
        (maps, program)
    }

    #[test]
    fn the_kernel_takes_the_program_and_detaches_it_with_the_link() {
        let (maps, program) = loaded(2);
        maps[0].set(0, &[1; 8]).unwrap();
        let ns = NetNs::anonymous().unwrap();
        let net = Net::in_ns(&ns).unwrap();
        net.test_link("x0");
        let index = net.link("x0").unwrap().index;
        for mode in [XdpMode::Native, XdpMode::Generic] {
            let attach = || ns.run(|| XdpLink::attach(&program, index, mode)).unwrap();
            let link = attach().unwrap();
            assert_ne!(net.link("x0").unwrap().xdp_program, 0);
            assert_eq!(attach().unwrap_err().errno(), Some(Errno::EBUSY));
            drop(link);
            assert_eq!(net.link("x0").unwrap().xdp_program, 0, "{mode:?}");
        }
    }

    #[test]
    fn entries_of_another_size_or_place_are_refused() {
        let (maps, _) = loaded(1);
        assert!(maps[0].set(0, &[1; 7]).is_err());
        assert!(maps[0].set(1, &[1; 8]).is_err());
        assert!(maps[1].remove(0).is_ok(), "nothing there is no error");
        let e = maps[1].set(0, &0u32.to_ne_bytes()).unwrap_err();
        assert!(
            matches!(
                e.errno(),
                Some(Errno::EOPNOTSUPP | Errno::EBADF | Errno::EINVAL | Errno::ENOTSOCK)
            ),
            "{e}"
        );
    }

    #[test]
    fn a_program_that_the_verifier_refuses_is_told_in_its_words() {
        let mut object = Object::parse(ELF, "xdp").unwrap();
        object.code = vec![0x95, 0, 0, 0, 0, 0, 0, 0];
        object.uses.clear();
        let e = XdpProgram::load(&object, &[], "bad")
            .unwrap_err()
            .to_string();
        assert!(e.contains("load the XDP program \"bad\""), "{e}");
        assert!(e.contains("(") && e.len() > 60, "{e}");
    }
}
