//! Why the router did not do what it was asked: one sentence that names the thing and what is allowed.

use std::net::IpAddr;

use parshall_command::{ArgError, ParseError};
use parshall_device::DeviceError;

use crate::prefix::IpNet;

/// A refusal. Whatever was asked has not been done, not even in part.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The command line is not one.
    #[error("{0}")]
    Parse(String),
    /// No interface has this name; those that come near it.
    #[error("no interface is called {name}{}", hint(.near))]
    NoInterface {
        /// What was asked for.
        name: String,
        /// Names like it.
        near: Vec<String>,
    },
    /// An interface of this name exists.
    #[error("an interface called {0} exists already")]
    InterfaceExists(String),
    /// The interface cannot do that.
    #[error("interface {name} {why}")]
    Interface {
        /// Which one.
        name: String,
        /// What is wrong.
        why: String,
    },
    /// No table has this number.
    #[error("no {family} table {id}: make it with `{}`", make_table(.family, *.id))]
    NoTable {
        /// "ip", "ip6" or "mpls".
        family: &'static str,
        /// Its number.
        id: u32,
    },
    /// The address is configured already.
    #[error("address {address} is already on interface {interface}")]
    DuplicateAddress {
        /// The address.
        address: IpAddr,
        /// Where it is.
        interface: String,
    },
    /// The subnet overlaps another one of the same table.
    #[error("{new} overlaps {old} on interface {interface} in the same table")]
    Overlap {
        /// What was to be added.
        new: IpNet,
        /// What is there.
        old: IpNet,
        /// Where that is.
        interface: String,
    },
    /// A table has no room.
    #[error("{0}")]
    Full(String),
    /// Nothing is known by that name or number.
    #[error("{0}")]
    Missing(String),
    /// There is one already.
    #[error("{0}")]
    Exists(String),
    /// Something else needs it.
    #[error("{0}")]
    InUse(String),
    /// A driver or the system refused.
    #[error("{0}")]
    Device(String),
    /// Anything else.
    #[error("{0}")]
    Refused(String),
}

fn hint(near: &[String]) -> String {
    if near.is_empty() {
        "; `show interface` lists them".to_owned()
    } else {
        format!("; did you mean {}?", near.join(" or "))
    }
}

fn make_table(family: &str, id: u32) -> String {
    match family {
        "ip6" => format!("ip6 table add {id}"),
        "mpls" => format!("mpls table add {id}"),
        _ => format!("ip table add {id}"),
    }
}

impl Error {
    /// A refusal in words.
    pub fn refused(why: impl Into<String>) -> Error {
        Error::Refused(why.into())
    }
    /// What was named is not there.
    pub fn missing(why: impl Into<String>) -> Error {
        Error::Missing(why.into())
    }
    /// What was to be made is there.
    pub fn exists(why: impl Into<String>) -> Error {
        Error::Exists(why.into())
    }
    /// What was to go is needed.
    pub fn in_use(why: impl Into<String>) -> Error {
        Error::InUse(why.into())
    }
}

impl From<DeviceError> for Error {
    fn from(e: DeviceError) -> Error {
        Error::Device(e.0)
    }
}
impl From<ArgError> for Error {
    fn from(e: ArgError) -> Error {
        Error::Refused(e.to_string())
    }
}
impl From<ParseError> for Error {
    fn from(e: ParseError) -> Error {
        Error::Parse(e.render())
    }
}
impl From<parshall_acl::BadRule> for Error {
    fn from(e: parshall_acl::BadRule) -> Error {
        Error::Refused(e.to_string())
    }
}
impl From<parshall_rcu::Full> for Error {
    fn from(e: parshall_rcu::Full) -> Error {
        Error::Full(e.to_string())
    }
}
impl From<parshall_graph::GraphError> for Error {
    fn from(e: parshall_graph::GraphError) -> Error {
        Error::Refused(e.0)
    }
}

/// What most functions here return.
pub type Result<T> = std::result::Result<T, Error>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_say_what_would_help() {
        let e = Error::NoInterface {
            name: "tpa0".into(),
            near: vec!["tap0".into()],
        };
        assert_eq!(
            e.to_string(),
            "no interface is called tpa0; did you mean tap0?"
        );
        let e = Error::NoTable {
            family: "ip",
            id: 7,
        };
        assert_eq!(
            e.to_string(),
            "no ip table 7: make it with `ip table add 7`"
        );
    }
}
