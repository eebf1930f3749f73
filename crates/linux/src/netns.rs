//! Network namespaces: named ones as `ip netns` keeps them, nameless ones that vanish by themselves,
//! and ways to work inside them.
//!
//! Follows namespaces(7), setns(2) and ip-netns(8): a name is a bind mount of the namespace's file at
//! `/run/netns/NAME`, so that `ip netns exec NAME ...` works on what is made here and the other way
//! round. Entering changes one thread for good, so it is always done on a thread made for it.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, setns, unshare};

use crate::caps::{self, Capability};
use crate::{Error, Result};

/// Where named namespaces live.
const RUN_NETNS: &str = "/run/netns";
/// The calling thread's own namespace.
const OWN: &str = "/proc/thread-self/ns/net";

/// Which namespace it is: device and inode of its file, as `lsns` and `stat` show them. A name that was deleted and made
/// again stands for another namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NsId(u64, u64);

impl NsId {
    fn of(file: &fs::Metadata) -> NsId {
        NsId(file.dev(), file.ino())
    }
}

/// A network namespace, held open: it lives at least as long as this value.
#[derive(Debug)]
pub struct NetNs {
    fd: OwnedFd,
    label: String,
}

impl NetNs {
    /// The namespace the calling thread is in.
    ///
    /// # Errors
    /// When /proc is not mounted.
    pub fn current() -> Result<NetNs> {
        NetNs::at_path(OWN).map(|ns| NetNs {
            label: "the current namespace".into(),
            ..ns
        })
    }

    /// The namespace that `ip netns` calls `name`.
    ///
    /// # Errors
    /// When there is none of that name.
    pub fn named(name: &str) -> Result<NetNs> {
        let path = path_of(name)?;
        let ns = NetNs::at_path(&path).map_err(|e| match e.errno() {
            Some(Errno::ENOENT) => e.hint(format!("make it with \"ip netns add {name}\"")),
            _ => e,
        })?;
        Ok(NetNs {
            label: format!("namespace \"{name}\""),
            ..ns
        })
    }

    /// The namespace whose file is at `path`, for instance `/proc/42/ns/net`.
    ///
    /// # Errors
    /// When the file cannot be opened or is not a network namespace.
    pub fn at_path(path: impl AsRef<Path>) -> Result<NetNs> {
        let path = path.as_ref();
        let label = format!("namespace file {}", path.display());
        // A file that is none of a namespace may be a pipe; opening it is not to wait for a writer.
        let mut options = File::options();
        let options = options.read(true).custom_flags(libc::O_NONBLOCK);
        let file = options
            .open(path)
            .map_err(|e| Error::io("open", &label, &e))?;
        // SAFETY: the ioctl takes no argument and only names the kind of an open namespace file.
        let kind = unsafe { libc::ioctl(file.as_raw_fd(), NS_GET_NSTYPE) };
        if kind != libc::CLONE_NEWNET {
            return Err(Error::other("use", label, "it is not a network namespace"));
        }
        Ok(NetNs {
            fd: file.into(),
            label,
        })
    }

    /// The namespace process `pid` is in.
    ///
    /// # Errors
    /// When there is no such process or it may not be looked at.
    pub fn of_pid(pid: u32) -> Result<NetNs> {
        let ns = NetNs::at_path(format!("/proc/{pid}/ns/net"))?;
        Ok(NetNs {
            label: format!("the namespace of process {pid}"),
            ..ns
        })
    }

    /// The namespace that a setting names: a path (has a slash), `pid:NUMBER`, or a name.
    ///
    /// # Errors
    /// When there is no such namespace.
    pub fn open(spec: &str) -> Result<NetNs> {
        if spec.contains('/') {
            return NetNs::at_path(spec);
        }
        match spec.strip_prefix("pid:").map(str::parse) {
            Some(Ok(pid)) => NetNs::of_pid(pid),
            Some(Err(_)) => Err(Error::other(
                "open",
                format!("namespace \"{spec}\""),
                "not a process number",
            )),
            None => NetNs::named(spec),
        }
    }

    /// Which namespace a setting names now, without opening it (see [`NetNs::open`]).
    ///
    /// # Errors
    /// When there is none.
    pub fn id_of(spec: &str) -> Result<NsId> {
        let path = match spec.strip_prefix("pid:") {
            _ if spec.contains('/') => PathBuf::from(spec),
            Some(pid) => PathBuf::from(format!("/proc/{pid}/ns/net")),
            None => path_of(spec)?,
        };
        let file = fs::metadata(&path);
        file.map(|f| NsId::of(&f))
            .map_err(|e| Error::io("find", format!("namespace \"{spec}\""), &e))
    }

    /// Which namespace this is.
    ///
    /// # Errors
    /// When the system does not tell.
    pub fn id(&self) -> Result<NsId> {
        let file = fs::metadata(self.path());
        file.map(|f| NsId::of(&f))
            .map_err(|e| Error::io("look at", &self.label, &e))
    }

    /// Makes a namespace without a name. It vanishes with this value and the last process inside, also
    /// when this process is killed.
    ///
    /// # Errors
    /// Without `CAP_SYS_ADMIN`.
    pub fn anonymous() -> Result<NetNs> {
        on_scratch_thread(|| {
            enter_new()?;
            NetNs::at_path(OWN)
        })
        .map(|ns| NetNs {
            label: "a nameless namespace".into(),
            ..ns
        })
    }

    /// Makes the namespace `name` as `ip netns add` does. It stays until [`NetNs::delete`].
    ///
    /// # Errors
    /// When the name is taken or not a file name, or without `CAP_SYS_ADMIN`.
    pub fn create(name: &str) -> Result<NetNs> {
        let path = path_of(name)?;
        let label = format!("namespace \"{name}\"");
        caps::require(&[Capability::SysAdmin], &format!("make {label}"))?;
        share_run_netns()?;
        File::create_new(&path).map_err(|e| {
            let e2 = Error::io("make", &label, &e);
            if e.kind() == io::ErrorKind::AlreadyExists {
                e2.hint(format!(
                    "remove it with \"ip netns del {name}\" or choose another name"
                ))
            } else {
                e2
            }
        })?;
        let made = on_scratch_thread(|| {
            enter_new()?;
            mount(
                Some(OWN),
                &path,
                None::<&str>,
                MsFlags::MS_BIND,
                None::<&str>,
            )
            .map_err(|e| Error::os("mount", &label, e))
        });
        if let Err(e) = made {
            let _ = fs::remove_file(&path);
            return Err(e);
        }
        NetNs::named(name)
    }

    /// Removes the name; the namespace itself goes with its last user.
    ///
    /// # Errors
    /// When there is none of that name, or without `CAP_SYS_ADMIN`.
    pub fn delete(name: &str) -> Result<()> {
        let path = path_of(name)?;
        let label = format!("namespace \"{name}\"");
        match umount2(&path, MntFlags::MNT_DETACH) {
            // EINVAL: a name whose mount is gone, left behind by a crash; the file still goes.
            Ok(()) | Err(Errno::EINVAL) => {}
            Err(e) => return Err(Error::os("delete", label, e)),
        }
        fs::remove_file(&path).map_err(|e| Error::io("delete", label, &e))
    }

    /// Names of all named namespaces, sorted.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn list() -> Result<Vec<String>> {
        let entries = match fs::read_dir(RUN_NETNS) {
            Ok(entries) => entries,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(Error::io("list", RUN_NETNS, &e)),
        };
        let mut names: Vec<String> = entries
            .flatten()
            .filter_map(|e| e.file_name().into_string().ok())
            .collect();
        names.sort();
        Ok(names)
    }

    /// Runs `job` inside the namespace, on a thread made for it; the caller's thread stays where it is.
    /// A panic of `job` goes on in the caller.
    ///
    /// # Errors
    /// When the namespace cannot be entered (`CAP_SYS_ADMIN`).
    pub fn run<T: Send>(&self, job: impl FnOnce() -> T + Send) -> Result<T> {
        on_scratch_thread(|| {
            setns(self.fd.as_fd(), CloneFlags::CLONE_NEWNET)
                .map_err(|e| Error::os("enter", &self.label, e))?;
            Ok(job())
        })
    }

    /// A command that will run inside the namespace.
    ///
    /// # Errors
    /// When the process is out of descriptors.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Result<Command> {
        let fd = self
            .fd
            .try_clone()
            .map_err(|e| Error::io("hold", &self.label, &e))?;
        let mut command = Command::new(program);
        let enter = move || setns(fd.as_fd(), CloneFlags::CLONE_NEWNET).map_err(io::Error::from);
        // SAFETY: between fork and exec only the setns system call runs: no allocation, no lock.
        unsafe { command.pre_exec(enter) };
        Ok(command)
    }

    /// A path that opens it again (see [`NetNs::open`]), within this process while this value lives:
    /// how a nameless namespace goes into a setting.
    pub fn path(&self) -> String {
        format!("/proc/self/fd/{}", self.fd.as_raw_fd())
    }

    /// What to call it in messages.
    pub fn label(&self) -> &str {
        &self.label
    }
}

impl AsFd for NetNs {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// `NS_GET_NSTYPE`, ioctl_ns(2).
const NS_GET_NSTYPE: libc::Ioctl = 0xb703;

/// A named namespace that is deleted when this value goes.
#[derive(Debug)]
pub struct ScopedNetNs {
    ns: NetNs,
    name: String,
}

impl ScopedNetNs {
    /// Makes the namespace `name`.
    ///
    /// # Errors
    /// As [`NetNs::create`].
    pub fn create(name: &str) -> Result<ScopedNetNs> {
        Ok(ScopedNetNs {
            ns: NetNs::create(name)?,
            name: name.to_owned(),
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Lets it stay: the name outlives this value.
    pub fn keep(mut self) {
        self.name.clear();
    }
}

impl Deref for ScopedNetNs {
    type Target = NetNs;
    fn deref(&self) -> &NetNs {
        &self.ns
    }
}

impl Drop for ScopedNetNs {
    fn drop(&mut self) {
        if !self.name.is_empty() {
            let _ = NetNs::delete(&self.name);
        }
    }
}

fn path_of(name: &str) -> Result<PathBuf> {
    let fits = !name.is_empty() && name.len() <= 255 && name != "." && name != "..";
    if !fits || name.contains(['/', '\0']) {
        return Err(Error::other(
            "name",
            format!("a namespace \"{name}\""),
            "not a file name",
        ));
    }
    Ok(Path::new(RUN_NETNS).join(name))
}

fn enter_new() -> Result<()> {
    unshare(CloneFlags::CLONE_NEWNET).map_err(|e| {
        Error::os("make", "a network namespace", e).hint(caps::grant_hint(&[Capability::SysAdmin]))
    })
}

/// Makes /run/netns a shared mount, as ip-netns does: names made or removed in one mount namespace
/// are then made or removed in all that share it.
fn share_run_netns() -> Result<()> {
    let failed = |e| Error::os("prepare", RUN_NETNS, e);
    fs::create_dir_all(RUN_NETNS).map_err(|e| Error::io("make", RUN_NETNS, &e))?;
    let none = None::<&str>;
    let share = || {
        mount(
            none,
            RUN_NETNS,
            none,
            MsFlags::MS_SHARED | MsFlags::MS_REC,
            none,
        )
    };
    match share() {
        // Not a mount point yet.
        Err(Errno::EINVAL) => {
            mount(
                Some(RUN_NETNS),
                RUN_NETNS,
                none,
                MsFlags::MS_BIND | MsFlags::MS_REC,
                none,
            )
            .map_err(failed)?;
            share().map_err(failed)
        }
        other => other.map_err(failed),
    }
}

fn on_scratch_thread<T: Send>(job: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name("netns".into())
            .spawn_scoped(scope, job)
            .map_err(|e| Error::io("start", "a thread to enter a namespace with", &e))?;
        thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Net;

    fn names(net: &Net) -> Vec<String> {
        net.links().unwrap().into_iter().map(|l| l.name).collect()
    }

    fn unique(what: &str) -> String {
        format!("prsh-{what}-{}", std::process::id())
    }

    #[test]
    fn named_ones_come_and_go() {
        let name = unique("a");
        {
            let ns = ScopedNetNs::create(&name).unwrap();
            assert!(NetNs::list().unwrap().contains(&name));
            assert_eq!(names(&Net::in_ns(&ns).unwrap()), ["lo"]);
            let again = NetNs::create(&name).unwrap_err();
            assert_eq!(again.errno(), Some(Errno::EEXIST));
            Net::in_ns(&ns).unwrap().test_link("d0");
            let other = NetNs::open(&name).unwrap();
            assert!(names(&Net::in_ns(&other).unwrap()).contains(&"d0".to_owned()));
            let by_path = NetNs::open(&format!("/run/netns/{name}")).unwrap();
            assert_eq!(names(&Net::in_ns(&by_path).unwrap()).len(), 3);
        }
        assert!(!NetNs::list().unwrap().contains(&name));
        let gone = NetNs::named(&name).unwrap_err().to_string();
        assert!(
            gone.contains("No such file") && gone.contains("ip netns add"),
            "{gone}"
        );
        assert!(NetNs::delete(&name).is_err());
    }

    #[test]
    fn a_name_made_again_is_another_namespace() {
        let name = unique("again");
        let first = ScopedNetNs::create(&name).unwrap();
        let id = first.id().unwrap();
        assert_eq!(NetNs::id_of(&name).unwrap(), id);
        assert_eq!(NetNs::id_of(&first.path()).unwrap(), id);
        NetNs::delete(&name).unwrap();
        let gone = NetNs::id_of(&name).unwrap_err();
        assert_eq!(gone.errno(), Some(Errno::ENOENT));
        // The first one is held open: its number is not given to another.
        let second = NetNs::create(&name).unwrap();
        assert_ne!(NetNs::id_of(&name).unwrap(), id);
        assert_eq!(NetNs::id_of(&name).unwrap(), second.id().unwrap());
        assert!(NetNs::id_of("pid:0").is_err() && NetNs::id_of("..").is_err());
    }

    #[test]
    fn the_callers_thread_stays_where_it_is() {
        let inode = || fs::read_link(OWN).unwrap();
        let (before, ns) = (inode(), NetNs::anonymous().unwrap());
        let inside = ns.run(inode).unwrap();
        assert_ne!(inside, before);
        assert_eq!(inode(), before);
        assert_eq!(ns.run(|| 7).unwrap(), 7);
        let again = NetNs::open(&ns.path()).unwrap();
        assert_eq!(again.run(inode).unwrap(), inside);
    }

    #[test]
    fn commands_and_pids() {
        let ns = NetNs::anonymous().unwrap();
        let mut child = ns.command("sleep").unwrap().arg("5").spawn().unwrap();
        let link = fs::read_link(format!("/proc/{}/ns/net", child.id())).unwrap();
        assert_eq!(link, ns.run(|| fs::read_link(OWN).unwrap()).unwrap());
        let by_pid = NetNs::open(&format!("pid:{}", child.id())).unwrap();
        assert_eq!(names(&Net::in_ns(&by_pid).unwrap()), ["lo"]);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn bad_names_are_refused() {
        for bad in [
            "",
            ".",
            "..",
            "/etc/passwd",
            "pid:x",
            "a\0b",
            "no-such-name-here",
        ] {
            assert!(NetNs::open(bad).is_err(), "{bad:?}");
        }
        assert!(NetNs::create("a/b").is_err());
    }
}
