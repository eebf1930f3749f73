//! Fields that several sections have: each described once.

use super::{DIRECTION, HEADER_BYTES, RATE, TABLE_NUMBER, field};
use crate::schema::Default::{None, Required, Value, Words};
use crate::schema::{Field, Kind, Section};

/// Name of an interface of the kernel.
pub(super) const LINUX_NAME: Kind = Kind::Name {
    what: "the name of a Linux interface",
    max: 15,
};

/// Bytes of an IP packet.
pub(super) const MTU_RANGE: Kind = Kind::Uint {
    min: 68,
    max: 65_521,
};

/// MTUs that vppcfg knows.
const VPPCFG_MTU: Kind = Kind::Uint {
    min: 128,
    max: 9216,
};

pub(super) const DESCRIPTION: Field = field("description", Kind::Text, None, "A note for people.");

pub(super) const STATE: Field = field(
    "state",
    Kind::Choice(&["up", "down"]),
    Value("up"),
    "Whether it carries packets.",
);

pub(super) const ADDRESSES: Field = field(
    "addresses",
    Kind::List {
        of: &Kind::IfAddress,
        max: 1024,
    },
    None,
    "Its addresses, of both versions.",
);

pub(super) const IP6: Field = field(
    "ip6",
    Kind::Bool,
    Words("whether it has an IPv6 address"),
    "Speak IPv6 with a link-local address alone.",
);

pub(super) const TABLE: Field = field(
    "table",
    TABLE_NUMBER,
    Value("0"),
    "Forwarding table of what it receives.",
);

pub(super) const IP6_TABLE: Field = field(
    "ip6-table",
    TABLE_NUMBER,
    Words("`table`, where that is one for IPv6"),
    "Forwarding table of the IPv6 packets it receives.",
);

pub(super) const MPLS: Field = field(
    "mpls",
    Kind::Bool,
    Value("false"),
    "Take and send labelled packets.",
);

pub(super) const UNNUMBERED: Field = field(
    "unnumbered",
    Kind::Interface,
    None,
    "Borrow the addresses of this interface.",
);

pub(super) const L2XC: Field = field(
    "l2xc",
    Kind::Interface,
    None,
    "Hand every frame it receives to this interface (layer 2), and not the other way round; VPP's and vppcfg's way.",
);

pub(super) const XCONNECT: Field = field(
    "xconnect",
    Kind::Interface,
    None,
    "Hand every frame to this interface and its frames to this one (layer 2); one of the two says so, or both.",
);

pub(super) const TAG_REWRITE: Field = field(
    "tag-rewrite",
    Kind::Text,
    Words("nothing; but cross-connected and in bridges the tags of a sub-interface are taken off"),
    "Change of the VLAN tags of what it switches, in the words of `set interface l2 tag-rewrite`.",
);

pub(super) const SPLIT_HORIZON: Field = field(
    "split-horizon-group",
    Kind::Uint { min: 0, max: 255 },
    Value("0"),
    "In a bridge domain, frames do not go from one port of a group to another; 0 = none.",
);

pub(super) const ACL_INPUT: Field = field(
    "acl-input",
    ACL_NAMES,
    None,
    "Access lists for what it receives, by name, in the order in which they are asked.",
);

pub(super) const ACL_OUTPUT: Field = field(
    "acl-output",
    ACL_NAMES,
    None,
    "Access lists for what it sends, likewise.",
);

const ACL_NAMES: Kind = Kind::List {
    of: &Kind::Text,
    max: 255,
};

pub(super) const TAG: Field = field(
    "tag",
    Kind::Text,
    None,
    "A word of at most 63 bytes for those who manage the router, as VPP's API tells it.",
);

pub(super) const SAMPLED: Field = field(
    "sflow",
    Kind::Either(&[Kind::Bool, Kind::Record(&IF_SFLOW)]),
    Value("false"),
    "Sample its packets.",
);

/// MTU in vppcfg's range, 1500 when it is not said.
pub(super) const fn vppcfg_mtu(help: &'static str) -> Field {
    field("mtu", VPPCFG_MTU, Value("1500"), help).unit("bytes")
}

/// The ends of a tunnel.
pub(super) const LOCAL: Field = field("local", Kind::Address, Required, "Its own address.");
pub(super) const REMOTE: Field = field(
    "remote",
    Kind::Address,
    Required,
    "Address of the other end.",
);
pub(super) const OUTER_TABLE: Field = field(
    "table",
    TABLE_NUMBER,
    Value("0"),
    "Table that its own packets are routed by.",
);

const IF_SFLOW: Section = Section {
    title: "sflow of an interface",
    help: "`sflow: true` samples with the settings that hold for all.",
    fields: &[
        field(
            "sampling-rate",
            RATE,
            Words("that of `sflow`"),
            "Sample one of so many packets.",
        )
        .unit("packets"),
        field(
            "adaptive",
            Kind::Uint {
                min: 1,
                max: parshall_sample::MAX_TARGET as u64,
            },
            None,
            "Let the rate follow the traffic, in place of `sampling-rate`, for about so many samples a second.",
        )
        .unit("samples a second"),
        field(
            "min-rate",
            RATE,
            Words("100, or `max-rate` where that is less"),
            "An adaptive rate samples at most one of so many packets.",
        )
        .unit("packets"),
        field(
            "max-rate",
            RATE,
            Value("1073741824"),
            "An adaptive rate samples at least one of so many packets.",
        )
        .unit("packets"),
        field(
            "direction",
            DIRECTION,
            Words("that of `sflow`"),
            "Sample what it receives, sends, or both.",
        ),
        field(
            "header-bytes",
            HEADER_BYTES,
            Words("that of `sflow`"),
            "Bytes of each sampled packet.",
        )
        .unit("bytes"),
    ],
};
