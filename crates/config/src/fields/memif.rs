//! Fields of memif: its sockets. Those of its interfaces are beside the other interfaces'.

use parshall_drivers::memif::MAX_SOCKET;

use super::field;
use crate::schema::Default::None;
use crate::schema::{Kind, Section};

/// Number of a socket or of an interface on it.
pub(super) const NUMBER: Kind = Kind::Uint {
    min: 0,
    max: u32::MAX as u64 - 1,
};

pub(super) const MEMIF: Section = Section {
    title: "memif",
    help: "Socket 0 is always there: `/run/parshall/memif.sock`.",
    fields: &[field(
        "sockets",
        Kind::List {
            of: &Kind::Record(&SOCKET),
            max: 1000,
        },
        None,
        "Sockets that memif interfaces meet their peers on.",
    )],
};

const SOCKET: Section = Section {
    title: "A memif socket",
    help: "",
    fields: &[
        field(
            "id",
            Kind::Uint {
                min: 1,
                max: u32::MAX as u64 - 1,
            },
            None,
            "Its number, which interfaces name it by.",
        ),
        field(
            "filename",
            Kind::Path {
                absolute: false,
                max: MAX_SOCKET,
            },
            None,
            "Where it is; `@NAME` is an abstract socket, which has no file.",
        ),
    ],
};
