//! What on this machine stands in a router's way, why that matters, and the command that mends it.
//!
//! Every check is a pure function over a [`System`] (what can be read of the machine) and [`Wanted`] (what the router's
//! configuration asks for) and returns [`Finding`]s; [`examine`] runs them all. Nothing is changed, and nothing needs a
//! privilege: what may not be looked at is said to be unknown.

mod check;
mod print;
mod system;

use std::path::PathBuf;

use serde::Serialize;

pub use check::page;
pub use print::{exit_code, json, text};
pub use system::{Here, SocketState, System};

/// What a router's configuration asks of the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The configuration and what is wrong with it, when one was named.
    pub config: Option<(PathBuf, Result<(), String>)>,
    /// Worker threads.
    pub workers: usize,
    /// CPUs they are pinned to; empty = not pinned.
    pub cpus: Vec<usize>,
    /// Workers may share CPUs.
    pub share_cpus: bool,
    /// Packet buffers of a worker.
    pub buffers: usize,
    /// Linux interfaces that are taken, with the driver.
    pub devices: Vec<Device>,
    /// Sockets that are made.
    pub sockets: Vec<PathBuf>,
    /// Folder of what is kept.
    pub state: PathBuf,
}

/// A Linux interface that the router takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Its name.
    pub name: String,
    /// Taken by AF_XDP, else by AF_PACKET.
    pub xdp: bool,
}

/// How good something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// As it should be.
    Ok,
    /// A router runs, but slower, blinder or less safely than it could.
    Warning,
    /// A router does not run, or not as it is configured.
    Problem,
}

/// What one check found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The check.
    pub check: &'static str,
    /// How good it is.
    pub state: State,
    /// What is there, in one sentence.
    pub what: String,
    /// Why it matters; empty when it is good.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub why: &'static str,
    /// The command that mends it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mend: Option<String>,
}

impl Finding {
    pub(crate) fn ok(check: &'static str, what: impl Into<String>) -> Finding {
        Finding {
            check,
            state: State::Ok,
            what: what.into(),
            why: "",
            mend: None,
        }
    }

    pub(crate) fn bad(
        check: &'static str,
        state: State,
        what: impl Into<String>,
        why: &'static str,
        mend: impl Into<String>,
    ) -> Finding {
        Finding {
            check,
            state,
            what: what.into(),
            why,
            mend: Some(mend.into()).filter(|m: &String| !m.is_empty()),
        }
    }
}

/// Looks at everything.
pub fn examine(system: &dyn System, wanted: &Wanted) -> Vec<Finding> {
    check::CHECKS
        .iter()
        .flat_map(|c| (c.run)(system, wanted))
        .collect()
}

#[cfg(test)]
mod tests;
