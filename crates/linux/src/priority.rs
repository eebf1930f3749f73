//! How eagerly a thread is scheduled (setpriority(2); on Linux the nice value is each thread's own).

use nix::errno::Errno;

use crate::{Error, Result};

/// Sets the calling thread's nice value: -20 comes first, 19 last, 0 is what threads start with.
///
/// # Errors
/// When the kernel refuses: below the present value it needs `CAP_SYS_NICE` or a limit that allows it.
pub fn set_nice(value: i32) -> Result<()> {
    // SAFETY: no memory is passed; 0 is the calling thread.
    let done = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, value) };
    if done < 0 {
        let object = format!("the priority of this thread to nice {value}");
        return Err(Error::os("set", object, Errno::last())
            .hint("grant it with `setcap cap_sys_nice+ep` or run as root"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_may_always_become_nicer_alone() {
        let own = || {
            // SAFETY: no memory is passed.
            unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }
        };
        let before = own();
        std::thread::spawn(move || {
            set_nice(19).unwrap();
            assert_eq!(own(), 19);
        })
        .join()
        .unwrap();
        assert_eq!(own(), before);
    }
}
