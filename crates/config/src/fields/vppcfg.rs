//! Sections of vppcfg's files: bonds, bridge domains, tunnels, taps, prefix lists, access lists.
//!
//! Names and ranges are those of vppcfg 1.2; fields that it does not have are ours.

use super::shared::*;
use super::{MANY, field};
use crate::schema::Default::{None, Required, Value, Words};
use crate::schema::{Field, Kind, Section};

const INTERFACE_LIST: Kind = Kind::List {
    of: &Kind::Interface,
    max: MANY,
};

const RING: Kind = Kind::Uint {
    min: 8,
    max: 32_768,
};

const UDP_PORT: Kind = Kind::Uint {
    min: 1,
    max: 65_535,
};

pub(super) const BOND: Section = Section {
    title: "A bond",
    help: "The key is `BondEthernet` and a number. It has an entry under `interfaces` too, with all but this.",
    fields: &[
        DESCRIPTION,
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
        field(
            "passive",
            INTERFACE_LIST,
            None,
            "Members that speak LACP only when spoken to.",
        ),
        field(
            "long-timeout",
            INTERFACE_LIST,
            None,
            "Members that want to hear LACP every 30 seconds, not every second.",
        ),
    ],
};

pub(super) const BRIDGE: Section = Section {
    title: "A bridge domain",
    help: "The key is `bd` and a number from 1 to 65535.",
    fields: &[
        DESCRIPTION,
        vppcfg_mtu("What the MTU of its members has to be."),
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
        field(
            "uu-fwd",
            Kind::Interface,
            None,
            "Port that frames for unknown MAC addresses go to, and to no other.",
        ),
        TAG,
        field(
            "arp-entries",
            Kind::List {
                of: &Kind::Record(&ARP_ENTRY),
                max: MANY,
            },
            None,
            "Who has which IPv4 address, for `arp-termination` and `arp-unicast-forward`.",
        ),
        field(
            "nd-entries",
            Kind::List {
                of: &Kind::Record(&ND_ENTRY),
                max: MANY,
            },
            None,
            "Who has which IPv6 address: with `arp-termination` neighbour solicitations for it are answered.",
        ),
        field(
            "stations",
            Kind::List {
                of: &Kind::Record(&STATION),
                max: MANY,
            },
            None,
            "Stations that neither move nor age.",
        ),
    ],
};

const ARP_ENTRY: Section = Section {
    title: "An ARP entry of a bridge domain",
    help: "",
    fields: &[
        field("address", Kind::Address, Required, "An IPv4 address."),
        OWNER_MAC,
    ],
};

const ND_ENTRY: Section = Section {
    title: "A neighbour discovery entry of a bridge domain",
    help: "",
    fields: &[
        field("address", Kind::Address, Required, "An IPv6 address."),
        OWNER_MAC,
    ],
};

const OWNER_MAC: Field = field(
    "mac",
    Kind::Mac,
    Required,
    "MAC address of the one who has it.",
);

const STATION: Section = Section {
    title: "A station of a bridge domain",
    help: "",
    fields: &[
        field("mac", Kind::Mac, Required, "Its MAC address."),
        field(
            "interface",
            Kind::Interface,
            Words("none; only a filter needs none"),
            "Port of the domain that it is behind.",
        ),
        field(
            "kind",
            Kind::Choice(&["static", "filter", "bvi"]),
            Value("static"),
            "`filter` drops what comes from it or goes to it; `bvi` is the router's own.",
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
        field(
            "learn-limit",
            Kind::Uint {
                min: 0,
                max: u32::MAX as u64 - 1,
            },
            Words("as many as there is room for"),
            "MAC addresses that are learned at most; frames for those beyond are flooded. `stations` do not count.",
        )
        .unit("MAC addresses"),
    ],
};

pub(super) const VXLAN: Section = Section {
    title: "A VXLAN tunnel",
    help: "The key is `vxlan_tunnel` and a number.",
    fields: &[
        DESCRIPTION,
        LOCAL,
        REMOTE,
        field(
            "vni",
            Kind::Uint {
                min: 1,
                max: 16_777_215,
            },
            Required,
            "Network identifier.",
        ),
        OUTER_TABLE,
        field(
            "port",
            UDP_PORT,
            Value("4789"),
            "UDP port of the other end.",
        ),
        field(
            "source-port",
            UDP_PORT,
            Value("4789"),
            "Kept and shown; what is sent has one by the flow inside.",
        ),
    ],
};

pub(super) const TUNNEL: Section = Section {
    title: "A tunnel",
    help: "The key is `ipip` or `gre` and a number: IP packets in IP (RFC 2003, 4213, 2473), or GRE (RFC 2784). Its \
           interface is under `interfaces`, with all but this.",
    fields: &[
        DESCRIPTION,
        LOCAL,
        REMOTE,
        OUTER_TABLE,
        field(
            "payload",
            Kind::Choice(&["ip", "ethernet"]),
            Value("ip"),
            "What it carries: IP and MPLS packets, or with `gre` Ethernet frames.",
        ),
    ],
};

pub(super) const TAP: Section = Section {
    title: "A tap, in vppcfg's words",
    help: "The key is `tap` and a number; its other settings are under `interfaces`.",
    fields: &[
        DESCRIPTION,
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
        vppcfg_mtu("Its MTU."),
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
        DESCRIPTION,
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
    help: "The key is its name, which is its tag in the router. Interfaces name it in `acl-input` and `acl-output`. A term is a \
           rule for each pair of source and destination of one IP version.",
    fields: &[
        DESCRIPTION,
        field(
            "index",
            Kind::Uint {
                min: 0,
                max: 0xFFFF_FFFE,
            },
            Words("the lowest that no other has, in the order of the file"),
            "Its number.",
        ),
        TAG,
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

pub(super) const ACL_SETTINGS: Section = Section {
    title: "acl-settings",
    help: "",
    fields: &[field(
        "match-later-fragments",
        Kind::Bool,
        Value("true"),
        "Whether fragments beyond the first, which have no ports, match terms by addresses and protocol alone; if not, only \
         terms for any protocol.",
    )],
};

const TERM: Section = Section {
    title: "A term of an access list",
    help: "",
    fields: &[
        DESCRIPTION,
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
        field(
            "tcp-flags",
            Kind::Text,
            Words("any"),
            "Flags of TCP and which of them count, as numbers: `2/18` is SYN without ACK.",
        ),
    ],
};
