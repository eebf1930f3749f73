//! Sections of vppcfg's files that are none of ours: bonds, bridge domains, tunnels, taps, prefix lists, access lists.
//!
//! Names and ranges are those of vppcfg 1.2.

use super::interface::DESCRIPTION;
use super::{MANY, field};
use crate::schema::Default::{None, Required, Value, Words};
use crate::schema::{Kind, Section};

const INTERFACE_LIST: Kind = Kind::List {
    of: &Kind::Interface,
    max: MANY,
};

const RING: Kind = Kind::Uint {
    min: 8,
    max: 32_768,
};

const LINUX_NAME: Kind = Kind::Name {
    what: "the name of a Linux interface",
    max: 15,
};

pub(super) const BOND: Section = Section {
    title: "A bond",
    help: "The key is `BondEthernet` and a number. It has an entry under `interfaces` too, with all but this.",
    fields: &[
        field("description", DESCRIPTION, None, "A note for people."),
        field("interfaces", INTERFACE_LIST, None, "Its members."),
        field(
            "mode",
            Kind::Choice(&["round-robin", "active-backup", "broadcast", "lacp", "xor"]),
            Value("lacp"),
            "How frames are spread over them.",
        ),
        field(
            "load-balance",
            Kind::Choice(&["l2", "l23", "l34"]),
            Words("`l34` with `lacp` and `xor`"),
            "Headers that choose the member.",
        ),
        field(
            "mac",
            Kind::Mac,
            Words("its first member's"),
            "Its MAC address.",
        ),
    ],
};

pub(super) const BRIDGE: Section = Section {
    title: "A bridge domain",
    help: "The key is `bd` and a number from 1 to 65535.",
    fields: &[
        field("description", DESCRIPTION, None, "A note for people."),
        field(
            "mtu",
            Kind::Uint {
                min: 128,
                max: 9216,
            },
            Value("1500"),
            "What the MTU of its members has to be.",
        )
        .unit("bytes"),
        field(
            "bvi",
            Kind::Interface,
            None,
            "Loopback that is its routed port.",
        ),
        field("interfaces", INTERFACE_LIST, None, "Its members."),
        field(
            "settings",
            Kind::Record(&SETTINGS),
            None,
            "How it forwards.",
        ),
    ],
};

const SETTINGS: Section = Section {
    title: "Settings of a bridge domain",
    help: "",
    fields: &[
        field("learn", Kind::Bool, Value("true"), "Learn MAC addresses."),
        field(
            "unicast-flood",
            Kind::Bool,
            Value("true"),
            "Flood broadcast and multicast frames.",
        ),
        field(
            "unknown-unicast-flood",
            Kind::Bool,
            Value("true"),
            "Flood frames for MAC addresses that are not known.",
        ),
        field(
            "unicast-forward",
            Kind::Bool,
            Value("true"),
            "Forward frames for known MAC addresses.",
        ),
        field(
            "arp-termination",
            Kind::Bool,
            Value("false"),
            "Answer ARP requests itself.",
        ),
        field(
            "arp-unicast-forward",
            Kind::Bool,
            Value("false"),
            "Forward ARP requests to the one asked for.",
        ),
        field(
            "mac-age-minutes",
            Kind::Uint { min: 0, max: 255 },
            Value("0"),
            "Forget MAC addresses after so long; 0 = never.",
        )
        .unit("minutes"),
    ],
};

pub(super) const VXLAN: Section = Section {
    title: "A VXLAN tunnel",
    help: "The key is `vxlan_tunnel` and a number.",
    fields: &[
        field("description", DESCRIPTION, None, "A note for people."),
        field("local", Kind::Address, Required, "Its own address."),
        field(
            "remote",
            Kind::Address,
            Required,
            "Address of the other end.",
        ),
        field(
            "vni",
            Kind::Uint {
                min: 1,
                max: 16_777_215,
            },
            Required,
            "Network identifier.",
        ),
    ],
};

pub(super) const TAP: Section = Section {
    title: "A tap, in vppcfg's words",
    help: "The key is `tap` and a number; its other settings are under `interfaces`.",
    fields: &[
        field("description", DESCRIPTION, None, "A note for people."),
        field("host", Kind::Record(&TAP_HOST), Required, "Its Linux side."),
        field(
            "rx-ring-size",
            RING,
            Words("the kernel's choice"),
            "Packets from Linux that may wait, a power of two.",
        )
        .unit("packets"),
        field(
            "tx-ring-size",
            RING,
            Words("256"),
            "Packets to Linux that may wait, a power of two: taken, though none wait.",
        )
        .unit("packets"),
    ],
};

const TAP_HOST: Section = Section {
    title: "Linux side of a tap",
    help: "",
    fields: &[
        field("name", LINUX_NAME, Required, "Its name."),
        field(
            "mac",
            Kind::Mac,
            Words("the kernel's choice"),
            "Its MAC address.",
        ),
        field(
            "mtu",
            Kind::Uint {
                min: 128,
                max: 9216,
            },
            Value("1500"),
            "Its MTU.",
        )
        .unit("bytes"),
        field("bridge", LINUX_NAME, None, "Linux bridge to put it into."),
        field(
            "bridge-create",
            Kind::Bool,
            Value("false"),
            "Make that bridge where it is not there.",
        ),
        field(
            "namespace",
            Kind::Namespace,
            Words("the router's own"),
            "Network namespace that it is in.",
        ),
        field(
            "namespace-create",
            Kind::Bool,
            Value("false"),
            "Make that namespace where it is not there.",
        ),
    ],
};

pub(super) const PREFIX_LIST: Section = Section {
    title: "A prefix list",
    help: "Access lists name it as source or destination.",
    fields: &[
        field("description", DESCRIPTION, None, "A note for people."),
        field(
            "members",
            Kind::List {
                of: &Kind::Text,
                max: MANY,
            },
            Required,
            "Addresses and networks.",
        ),
    ],
};

pub(super) const ACL: Section = Section {
    title: "An access list",
    help: "The key is its name.",
    fields: &[
        field("description", DESCRIPTION, None, "A note for people."),
        field(
            "terms",
            Kind::List {
                of: &Kind::Record(&TERM),
                max: 100,
            },
            Required,
            "Its terms; the first that fits decides.",
        ),
    ],
};

const TERM: Section = Section {
    title: "A term of an access list",
    help: "",
    fields: &[
        field("description", DESCRIPTION, None, "A note for people."),
        field(
            "action",
            Kind::Choice(&["permit", "deny", "permit+reflect"]),
            Required,
            "What becomes of packets that fit.",
        ),
        field(
            "family",
            Kind::Choice(&["ipv4", "ipv6", "any"]),
            Value("any"),
            "IP versions.",
        ),
        field(
            "source",
            Kind::Text,
            Words("any"),
            "Address, network or prefix list of senders.",
        ),
        field(
            "destination",
            Kind::Text,
            Words("any"),
            "Address, network or prefix list of receivers.",
        ),
        field("protocol", Kind::Text, Words("any"), "Its number or name."),
        field(
            "source-port",
            Kind::Text,
            Words("any"),
            "Port, range `10-20`, `-20`, `10-`, or name.",
        ),
        field("destination-port", Kind::Text, Words("any"), "Likewise."),
        field("icmp-type", Kind::Text, Words("any"), "Type or range."),
        field("icmp-code", Kind::Text, Words("any"), "Code or range."),
    ],
};
