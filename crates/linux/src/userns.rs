//! The way in for those who are not root: a user namespace in which we are (user_namespaces(7)).

use std::fs;
use std::path::Path;

use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{getegid, geteuid};

use crate::{Error, Net, Result};

/// Moves the whole process, and all it starts from now on, into a new user, network and mount
/// namespace in which it is root: it may then make namespaces, links and taps of its own, and none of
/// that touches the system. `/run/netns` (or `/run`) becomes a private empty directory there, so that
/// named namespaces work. Everything vanishes with the last process inside.
///
/// Must be called before the process starts a thread.
///
/// # Errors
/// When the kernel or a security module forbids unprivileged user namespaces, and when the process
/// has more than one thread; says which setting allows it. The process may then be half-way inside:
/// the caller ends it.
pub fn unshare_user_net_mount() -> Result<()> {
    let (uid, gid) = (geteuid(), getegid());
    let flags = CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS;
    unshare(flags).map_err(refused)?;
    write_map("setgroups", "deny")?;
    write_map("uid_map", &format!("0 {uid} 1"))?;
    write_map("gid_map", &format!("0 {gid} 1"))?;
    let none = None::<&str>;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).map_err(refused)?;
    let run = if Path::new("/run/netns").is_dir() {
        "/run/netns"
    } else {
        "/run"
    };
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    mount(Some("tmpfs"), run, Some("tmpfs"), flags, Some("mode=755")).map_err(refused)?;
    Net::here()?.set_up("lo")
}

const WHAT: &str = "a user namespace to work in without being root";

fn refused(errno: Errno) -> Error {
    let error = Error::os("enter", WHAT, errno);
    match errno {
        Errno::EINVAL => error.hint("the process must have one thread only at this point"),
        Errno::ENOSPC | Errno::EUSERS => {
            error.hint("raise sysctl user.max_user_namespaces, or run as root")
        }
        _ => error.hint(
            "run as root, or allow it: sysctl kernel.unprivileged_userns_clone=1 (Debian), \
             sysctl kernel.apparmor_restrict_unprivileged_userns=0 (Ubuntu); \
             in a container, give it --privileged",
        ),
    }
}

fn write_map(file: &str, text: &str) -> Result<()> {
    fs::write(format!("/proc/self/{file}"), text)
        .map_err(|e| refused(Errno::from_raw(e.raw_os_error().unwrap_or(libc::EPERM))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NetNs, VethEnd};

    /// What an unprivileged lab does; runs in a forked child that is nobody.
    fn lab_as_nobody() -> Result<()> {
        unshare_user_net_mount()?;
        let a = NetNs::create("a")?;
        let b = NetNs::create("b")?;
        Net::here()?.create_veth(&VethEnd::new("v0").ns(&a), &VethEnd::new("v1").ns(&b))?;
        Net::in_ns(&a)?.set_up("v0")?;
        a.set_sysctl("net.ipv4.ip_forward", "1")?;
        NetNs::delete("a")?;
        NetNs::delete("b")
    }

    #[test]
    fn nobody_can_make_namespaces_and_links() {
        // SAFETY: the child runs our own code only and leaves with _exit, so that neither the test
        // harness's threads nor its exit handlers matter to it.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0);
        if pid == 0 {
            // SAFETY: plain system calls on numbers. Changing the user makes /proc/self root's until
            // the process is dumpable again.
            let code = unsafe {
                let drop = libc::setgid(65534)
                    | libc::setuid(65534)
                    | libc::prctl(libc::PR_SET_DUMPABLE, 1);
                i32::from(drop != 0) * 2
            };
            let code = match lab_as_nobody() {
                Ok(()) => code,
                Err(e) => {
                    eprintln!("in the child: {e}");
                    1
                }
            };
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(code) };
        }
        let mut status = 0;
        // SAFETY: `status` outlives the call; `pid` is our child.
        unsafe { libc::waitpid(pid, &mut status, 0) };
        assert_eq!(status, 0, "the child failed, its reason is on stderr");
    }

    #[test]
    fn a_process_with_threads_is_told_why() {
        // The test harness has threads, so this very call is the bad case.
        let e = std::thread::spawn(unshare_user_net_mount)
            .join()
            .unwrap()
            .unwrap_err()
            .to_string();
        assert!(e.contains("one thread"), "{e}");
    }
}
