//! What can be read of a machine: this one, or one that a test makes up.

use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use parshall_linux::{Net, Offload, clock, probe};

/// What stands under the name of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketState {
    /// Nothing, and it can be made.
    Absent,
    /// Nothing, and the folder cannot be written to.
    Forbidden,
    /// Something that is no socket.
    NotASocket,
    /// A socket that nobody listens on.
    Stale,
    /// A socket that somebody listens on.
    Live,
}

/// A machine.
pub trait System {
    /// The text of a file, without blanks around it.
    fn read(&self, path: &str) -> Option<String>;
    /// Whether a file or folder is there.
    fn exists(&self, path: &str) -> bool;
    /// Effective user.
    fn user(&self) -> u32;
    /// Whether the kernel has AF_XDP.
    fn af_xdp(&self) -> Option<bool>;
    /// Whether the kernel has a generic netlink family.
    fn genl_family(&self, name: &str) -> Option<bool>;
    /// Whether something keeps the clock right.
    fn clock_is_synchronized(&self) -> Option<bool>;
    /// Whether there is such an interface.
    fn has_interface(&self, name: &str) -> bool;
    /// Whether an offload of an interface is on.
    fn offload(&self, interface: &str, offload: Offload) -> Option<bool>;
    /// What stands under the name of a socket.
    fn socket(&self, path: &Path) -> SocketState;
    /// Bytes free where a folder is or will be.
    fn free_bytes(&self, folder: &Path) -> Option<u64>;
    /// CPUs this program may run on.
    fn allowed_cpus(&self) -> Vec<usize>;
}

/// This machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Here;

impl System for Here {
    fn read(&self, path: &str) -> Option<String> {
        Some(std::fs::read_to_string(path).ok()?.trim().to_owned())
    }

    fn exists(&self, path: &str) -> bool {
        Path::new(path).exists()
    }

    fn user(&self) -> u32 {
        nix::unistd::geteuid().as_raw()
    }

    fn af_xdp(&self) -> Option<bool> {
        probe::has_af_xdp()
    }

    fn genl_family(&self, name: &str) -> Option<bool> {
        probe::has_genl_family(name)
    }

    fn clock_is_synchronized(&self) -> Option<bool> {
        clock::is_synchronized()
    }

    fn has_interface(&self, name: &str) -> bool {
        Net::here().and_then(|n| n.link(name)).is_ok()
    }

    fn offload(&self, interface: &str, offload: Offload) -> Option<bool> {
        Net::here().ok()?.offload(interface, offload).ok()
    }

    fn socket(&self, path: &Path) -> SocketState {
        let Ok(about) = std::fs::symlink_metadata(path) else {
            let writable = nix::unistd::access(&nearest(path), nix::unistd::AccessFlags::W_OK);
            return match writable {
                Ok(()) => SocketState::Absent,
                Err(_) => SocketState::Forbidden,
            };
        };
        if !about.file_type().is_socket() {
            return SocketState::NotASocket;
        }
        match UnixStream::connect(path) {
            Err(e) if e.kind() == ErrorKind::ConnectionRefused => SocketState::Stale,
            // One that we may not open is somebody's.
            _ => SocketState::Live,
        }
    }

    fn free_bytes(&self, folder: &Path) -> Option<u64> {
        let about = nix::sys::statvfs::statvfs(&nearest(&folder.join("x"))).ok()?;
        Some(about.blocks_available() as u64 * about.fragment_size() as u64)
    }

    fn allowed_cpus(&self) -> Vec<usize> {
        parshall_linux::affinity::allowed_cpus().unwrap_or_default()
    }
}

/// The nearest folder above `path` that is there.
fn nearest(path: &Path) -> std::path::PathBuf {
    let above = path.ancestors().skip(1);
    let found = above.into_iter().find(|p| p.is_dir());
    found.unwrap_or(Path::new("/")).to_owned()
}
