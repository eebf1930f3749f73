//! The file of a listening Unix socket: made in private and moved into place complete, so that nobody can
//! connect before its mode and group are right; a stale one is replaced, a live one is respected; removed at
//! the end only if it is still ours. Follows unix(7).

use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, listen, socket,
};
use nix::unistd::Group;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Mode of the socket: its owner and its group may give commands.
const MODE: u32 = 0o660;

/// Clients that may wait to be accepted.
const BACKLOG: i32 = 128;

/// What a socket carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketKind {
    /// A stream of bytes.
    Stream,
    /// Whole messages, in order (`SOCK_SEQPACKET`).
    Packets,
}

/// Why a socket cannot be opened.
#[derive(Debug, Error)]
pub enum SocketError {
    /// Somebody answers on it.
    #[error("{0}: another router already listens there")]
    InUse(PathBuf),
    /// There is something else of that name.
    #[error("{0}: exists and is not a socket")]
    NotASocket(PathBuf),
    /// No such group.
    #[error("group '{0}' does not exist; make it with: groupadd --system {0}")]
    NoGroup(String),
    /// The system refused.
    #[error("{path}: {what}: {error}")]
    Io {
        /// The socket or its folder.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// What the system said.
        error: io::Error,
    },
}

/// A bound socket and the file that stands for it.
#[derive(Debug)]
pub struct SocketFile {
    /// What accepts. Of a socket of packets only `accept` and the descriptor are of use.
    pub listener: UnixListener,
    path: PathBuf,
    /// Device and inode, to know the file again.
    identity: (u64, u64),
}

impl SocketFile {
    /// Listens on `path` for streams, mode 0660, owned by `group` if one is named. Missing folders are made.
    ///
    /// # Errors
    /// Why not: taken, no socket, no such group, or what the system says.
    pub fn bind(path: &Path, group: Option<&str>) -> Result<SocketFile, SocketError> {
        SocketFile::bind_kind(path, group, SocketKind::Stream)
    }

    /// The same for a socket of either kind.
    ///
    /// # Errors
    /// As [`bind`](Self::bind).
    pub fn bind_kind(
        path: &Path,
        group: Option<&str>,
        kind: SocketKind,
    ) -> Result<SocketFile, SocketError> {
        let gid = group.map(group_id).transpose()?;
        // The kernel's limit on the length: binding elsewhere and moving the file would get round it,
        // but then nobody could connect.
        SocketAddr::from_pathname(path).map_err(fail(path, "cannot be the name of a socket"))?;
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        fs::create_dir_all(folder).map_err(fail(folder, "cannot make the folder"))?;
        refuse_if_taken(path)?;
        let private = folder.join(private_name(path));
        let made = bind_private(&private, path, gid, kind);
        // The private folder goes in any case; what is left in it is ours.
        let _ = fs::remove_dir_all(&private);
        let listener = made?;
        let metadata = fs::symlink_metadata(path).map_err(fail(path, "cannot read its state"))?;
        Ok(SocketFile {
            listener,
            path: path.to_owned(),
            identity: (metadata.dev(), metadata.ino()),
        })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let ours =
            fs::symlink_metadata(&self.path).is_ok_and(|m| (m.dev(), m.ino()) == self.identity);
        if ours {
            // Nobody can be told if this fails, and the next start replaces a stale socket.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Differs between processes and between sockets of one process, and is short: it is part of a name
/// whose length is limited.
fn private_name(path: &Path) -> String {
    let mut hasher = DefaultHasher::new();
    path.hash(&mut hasher);
    format!(".{:x}-{:04x}", std::process::id(), hasher.finish() & 0xffff)
}

fn fail(path: &Path, what: &'static str) -> impl FnOnce(io::Error) -> SocketError {
    move |error| SocketError::Io {
        path: path.to_owned(),
        what,
        error,
    }
}

fn group_id(name: &str) -> Result<u32, SocketError> {
    match Group::from_name(name) {
        Ok(Some(group)) => Ok(group.gid.as_raw()),
        _ => Err(SocketError::NoGroup(name.to_owned())),
    }
}

fn refuse_if_taken(path: &Path) -> Result<(), SocketError> {
    let Ok(metadata) = fs::symlink_metadata(path) else {
        return Ok(());
    };
    if !metadata.file_type().is_socket() {
        return Err(SocketError::NotASocket(path.to_owned()));
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        // A listener of the other kind is one too.
        Err(error) if error.raw_os_error() == Some(nix::libc::EPROTOTYPE) => {
            Err(SocketError::InUse(path.to_owned()))
        }
        Ok(_) => Err(SocketError::InUse(path.to_owned())),
        Err(error) => Err(fail(path, "cannot tell whether it is in use")(error)),
    }
}

fn listen_on(path: &Path, kind: SocketKind) -> io::Result<UnixListener> {
    let kind = match kind {
        SocketKind::Stream => return UnixListener::bind(path),
        SocketKind::Packets => SockType::SeqPacket,
    };
    let made = socket(AddressFamily::Unix, kind, SockFlag::SOCK_CLOEXEC, None)?;
    bind(made.as_raw_fd(), &UnixAddr::new(path)?)?;
    listen(&made, Backlog::new(BACKLOG)?)?;
    Ok(UnixListener::from(made))
}

/// Makes the socket in a folder that only we can enter, then moves it to where it belongs.
fn bind_private(
    private: &Path,
    path: &Path,
    gid: Option<u32>,
    kind: SocketKind,
) -> Result<UnixListener, SocketError> {
    let _ = fs::remove_dir_all(private);
    fs::DirBuilder::new()
        .mode(0o700)
        .create(private)
        .map_err(fail(private, "cannot make the folder"))?;
    let socket = private.join("s");
    let listener = listen_on(&socket, kind).map_err(fail(path, "cannot listen"))?;
    fs::set_permissions(&socket, fs::Permissions::from_mode(MODE))
        .map_err(fail(path, "cannot set its mode"))?;
    if gid.is_some() {
        std::os::unix::fs::chown(&socket, None, gid)
            .map_err(fail(path, "cannot give it to its group"))?;
    }
    fs::rename(&socket, path).map_err(fail(path, "cannot put it in place"))?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().expect("a folder")
    }

    #[test]
    fn is_complete_when_it_appears_and_gone_when_dropped() {
        let dir = folder();
        let path = dir.path().join("a/b/cli.sock");
        let socket = SocketFile::bind(&path, None).expect("bound");
        let metadata = fs::metadata(&path).expect("there");
        assert_eq!(metadata.permissions().mode() & 0o777, 0o660);
        assert!(UnixStream::connect(&path).is_ok());
        assert_eq!(
            fs::read_dir(dir.path().join("a/b"))
                .expect("listed")
                .count(),
            1
        );
        drop(socket);
        assert!(!path.exists());
    }

    #[test]
    fn a_stale_socket_is_replaced_a_live_one_is_not() {
        let dir = folder();
        let path = dir.path().join("cli.sock");
        drop(UnixListener::bind(&path).expect("a stale socket"));
        let first = SocketFile::bind(&path, None).expect("replaced");
        assert!(matches!(
            SocketFile::bind(&path, None),
            Err(SocketError::InUse(_))
        ));
        assert!(UnixStream::connect(&path).is_ok());
        drop(first);
    }

    #[test]
    fn a_socket_of_packets_is_respected_and_replaced_as_well() {
        let dir = folder();
        let path = dir.path().join("stats.sock");
        let packets = || SocketFile::bind_kind(&path, None, SocketKind::Packets);
        let first = packets().expect("bound");
        for again in [packets(), SocketFile::bind(&path, None)] {
            assert!(matches!(again, Err(SocketError::InUse(_))), "{again:?}");
        }
        // As a process that dies leaves it: the file without the listener.
        let kept = dir.path().join("kept");
        fs::hard_link(&path, &kept).expect("kept");
        drop(first);
        fs::rename(&kept, &path).expect("back");
        assert!(packets().is_ok());
    }

    #[test]
    fn another_routers_socket_is_not_removed() {
        let dir = folder();
        let path = dir.path().join("cli.sock");
        let first = SocketFile::bind(&path, None).expect("bound");
        fs::remove_file(&path).expect("removed by hand");
        let second = SocketFile::bind(&path, None).expect("bound again");
        drop(first);
        assert!(path.exists());
        drop(second);
        assert!(!path.exists());
    }

    #[test]
    fn refusals_are_named() {
        let dir = folder();
        let path = dir.path().join("file");
        fs::write(&path, "x").expect("a file");
        let error = SocketFile::bind(&path, None).expect_err("not a socket");
        assert!(
            error
                .to_string()
                .ends_with("file: exists and is not a socket"),
            "{error}"
        );
        let error = SocketFile::bind(&dir.path().join("s"), Some("no-such-group-here"))
            .expect_err("no group");
        assert!(
            error
                .to_string()
                .contains("groupadd --system no-such-group-here"),
            "{error}"
        );
        let error =
            SocketFile::bind(&dir.path().join("x".repeat(200)), None).expect_err("too long");
        assert!(matches!(error, SocketError::Io { .. }), "{error}");
        assert_eq!(fs::read_dir(dir.path()).expect("listed").count(), 1);
    }
}
