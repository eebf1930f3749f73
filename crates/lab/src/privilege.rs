//! The rights the laboratory needs, and the way in without them.

use parshall_linux::caps::{self, Capability};
use parshall_linux::userns::unshare_user_net_mount;

use crate::error::{LabError, Result};

/// What namespaces, links and packet sockets need.
const NEEDED: [Capability; 3] = [
    Capability::SysAdmin,
    Capability::NetAdmin,
    Capability::NetRaw,
];

/// How the laboratory got its rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Footing {
    /// It has them on this system.
    System,
    /// It has them in a user namespace of its own.
    UserNamespace,
}

/// Makes sure of the rights, in a user namespace when there is no other way. Must be called before the process starts a
/// thread.
///
/// # Errors
/// Names the missing capabilities, why a user namespace does not help, and what would.
pub fn obtain() -> Result<Footing> {
    let missing = caps::missing(&NEEDED);
    if missing.is_empty() {
        return Ok(Footing::System);
    }
    let names: Vec<_> = missing.iter().map(|c| c.name()).collect();
    unshare_user_net_mount().map_err(|e| {
        LabError::Router(format!(
            "the laboratory needs {} and has not got {}: {e}",
            names.join(", "),
            if names.len() == 1 { "it" } else { "them" },
        ))
    })?;
    Ok(Footing::UserNamespace)
}
