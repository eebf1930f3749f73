//! The error of this crate: what was tried, on which object, the kernel's reason, what to do.

use std::io;

use nix::errno::Errno;

use crate::caps;

/// Result with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// What the system refused. Reads as one sentence, for instance
/// `cannot set the MTU of interface "eth7": No such device; check the name with "ip link"`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot {tried} {object}: {reason}{}", suffix(.hint))]
pub struct Error {
    tried: String,
    object: String,
    errno: Option<Errno>,
    reason: String,
    hint: String,
}

fn suffix(hint: &str) -> String {
    if hint.is_empty() {
        String::new()
    } else {
        format!("; {hint}")
    }
}

impl Error {
    /// The kernel refused `tried` on `object` with `errno`; the hint is the usual one for that errno.
    pub fn os(tried: impl Into<String>, object: impl Into<String>, errno: Errno) -> Error {
        Error {
            tried: tried.into(),
            object: object.into(),
            errno: Some(errno),
            reason: errno.desc().to_owned(),
            hint: usual_hint(errno),
        }
    }

    /// As [`Error::os`], from the error of a standard library call.
    pub fn io(tried: impl Into<String>, object: impl Into<String>, error: &io::Error) -> Error {
        match error.raw_os_error() {
            Some(code) => Error::os(tried, object, Errno::from_raw(code)),
            None => Error::other(tried, object, error.to_string()),
        }
    }

    /// As [`Error::os`], from the errno the last failed libc call left behind.
    pub fn last_os(tried: impl Into<String>, object: impl Into<String>) -> Error {
        Error::os(tried, object, Errno::last())
    }

    /// Not the kernel's refusal but a reason of our own.
    pub fn other(
        tried: impl Into<String>,
        object: impl Into<String>,
        reason: impl Into<String>,
    ) -> Error {
        Error {
            tried: tried.into(),
            object: object.into(),
            errno: None,
            reason: reason.into(),
            hint: String::new(),
        }
    }

    /// Says what would help, in place of the usual hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Error {
        self.hint = hint.into();
        self
    }

    /// Adds the kernel's own words (netlink's extended acknowledgement) to the reason.
    #[must_use]
    pub fn kernel_says(mut self, message: &str) -> Error {
        if !message.is_empty() {
            self.reason = format!("{} ({message})", self.reason);
        }
        self
    }

    /// The kernel's error number, where the kernel was the one that refused.
    pub fn errno(&self) -> Option<Errno> {
        self.errno
    }
}

fn usual_hint(errno: Errno) -> String {
    match errno {
        Errno::EPERM | Errno::EACCES => {
            caps::grant_hint(&[caps::Capability::NetAdmin, caps::Capability::SysAdmin])
        }
        Errno::ENODEV => "check the name with \"ip link\"".into(),
        Errno::EEXIST => "choose another name or remove what is there".into(),
        Errno::EBUSY => "something else holds it".into(),
        Errno::EOPNOTSUPP => "this kernel or interface cannot do that".into(),
        Errno::ENETUNREACH => "no connected network contains that next hop".into(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_as_a_sentence_with_the_remedy() {
        let e = Error::os("set the MTU of", "interface \"eth7\"", Errno::ENODEV);
        assert_eq!(
            e.to_string(),
            "cannot set the MTU of interface \"eth7\": No such device; check the name with \"ip link\""
        );
        let e = Error::other("parse", "\"x\"", "not an address");
        assert_eq!(e.to_string(), "cannot parse \"x\": not an address");
        let e = Error::os("make", "veth", Errno::EINVAL).kernel_says("bad name");
        assert_eq!(
            e.to_string(),
            "cannot make veth: Invalid argument (bad name)"
        );
    }

    #[test]
    fn a_missing_privilege_names_the_capability() {
        let e = Error::os("make", "veth", Errno::EPERM).to_string();
        assert!(e.contains("CAP_NET_ADMIN") && e.contains("setcap"), "{e}");
    }
}
