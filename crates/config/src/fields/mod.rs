//! Every field of the file, with its kind, unit, range, default and help: the one place where a setting
//! is described. Ranges that another room owns are taken from there.

mod interface;
mod memif;
mod records;
mod routing;
mod shared;
mod streams;
mod telemetry;
mod vppcfg;

use parshall_drivers::loopback::MAX_INSTANCE;
use parshall_sample::MAX_HEADER;

use crate::schema::Default::{None, Value, Words};
use crate::schema::{Default, Field, Kind, Section};

use interface::INTERFACE;
use memif::MEMIF;
use records::BGP;
use routing::{MPLS, NEIGHBOR, NEIGHBOR_FAMILIES, ROUTE, TABLE};
use streams::PG;
use telemetry::SFLOW;
use vppcfg::{ACL, ACL_SETTINGS, BOND, BRIDGE, PREFIX_LIST, TAP, TUNNEL, VXLAN};

/// Interface types, with the start of their names.
pub const TYPES: &[(&str, &str)] = &[
    ("af_packet", "host-"),
    ("af_xdp", "xdp-"),
    ("memif", "memif"),
    ("tap", "tap"),
    ("loopback", "loop"),
    ("pg", "pg"),
    ("pcap", "pcap"),
];

const TYPE_NAMES: &[&str] = &[
    "af_packet",
    "af_xdp",
    "memif",
    "tap",
    "loopback",
    "pg",
    "pcap",
];

/// Highest number in the name of an interface.
pub const MAX_NUMBER: u32 = MAX_INSTANCE;

/// Most workers.
pub const MAX_WORKERS: u64 = 64;

/// Most of what a file may list without a closer limit.
const MANY: usize = 100_000;

const TABLE_NUMBER: Kind = Kind::Uint {
    min: 0,
    max: u32::MAX as u64,
};

const RATE: Kind = Kind::Uint {
    min: 1,
    max: parshall_sample::MAX_RATE as u64,
};

const DIRECTION: Kind = Kind::Choice(&["rx", "tx", "both"]);

const HEADER_BYTES: Kind = Kind::Uint {
    min: 64,
    max: MAX_HEADER as u64,
};

const FILE: Kind = Kind::Path {
    absolute: false,
    max: 4095,
};

const fn field(name: &'static str, kind: Kind, default: Default, help: &'static str) -> Field {
    Field {
        name,
        kind,
        unit: "",
        default,
        help,
        only: &[],
    }
}

impl Field {
    const fn unit(self, unit: &'static str) -> Field {
        Field { unit, ..self }
    }
    const fn only(self, only: &'static [&'static str]) -> Field {
        Field { only, ..self }
    }
}

/// The file.
pub const FILE_SECTION: Section = Section {
    title: "The file",
    help: "Every section may be left out.",
    fields: &[
        field(
            "workers",
            Kind::Either(&[
                Kind::Uint {
                    min: 1,
                    max: MAX_WORKERS,
                },
                Kind::Record(&WORKERS),
            ]),
            Words("one worker"),
            "The threads that forward packets: how many, or more about them.",
        ),
        field("buffers", Kind::Record(&BUFFERS), None, "Packet memory."),
        field(
            "limits",
            Kind::Record(&LIMITS),
            None,
            "Sizes that are fixed at the start.",
        ),
        field(
            "seed",
            Kind::Uint {
                min: 0,
                max: u64::MAX,
            },
            Words("chosen at the start"),
            "Fixes all random choices, so that a run can be repeated.",
        ),
        field(
            "cli",
            Kind::Record(&CLI),
            None,
            "The socket that `parshall ctl` speaks to.",
        ),
        field(
            "stats",
            Kind::Record(&STATS),
            None,
            "The statistics segment that VPP's clients read.",
        ),
        field(
            "api",
            Kind::Record(&API),
            None,
            "The socket of the binary API, which VPP's clients speak.",
        ),
        field("log", Kind::Record(&LOG), None, "What is logged."),
        field(
            "http",
            Kind::Record(&HTTP),
            Words("off"),
            "Metrics for Prometheus and a JSON API over HTTP.",
        ),
        field(
            "state",
            Kind::Record(&STATE),
            None,
            "Where revisions of the configuration are kept.",
        ),
        field(
            "interfaces",
            Kind::Interfaces(&INTERFACE),
            None,
            "The interfaces, each under its name.",
        ),
        field(
            "loopbacks",
            Kind::Interfaces(&INTERFACE),
            None,
            "Loopback interfaces; they may be under `interfaces` as well.",
        ),
        field(
            "bondethernets",
            Kind::Interfaces(&BOND),
            None,
            "Bonds (link aggregation).",
        ),
        field(
            "bridgedomains",
            Kind::Interfaces(&BRIDGE),
            None,
            "Bridge domains.",
        ),
        field(
            "vxlan_tunnels",
            Kind::Interfaces(&VXLAN),
            None,
            "VXLAN tunnels.",
        ),
        field(
            "tunnels",
            Kind::Interfaces(&TUNNEL),
            None,
            "Tunnels of other kinds: IP in IP and GRE.",
        ),
        field(
            "taps",
            Kind::Interfaces(&TAP),
            None,
            "Taps, in vppcfg's words.",
        ),
        field(
            "prefixlists",
            Kind::Interfaces(&PREFIX_LIST),
            None,
            "Lists of networks for `acls`.",
        ),
        field("acls", Kind::Interfaces(&ACL), None, "Access lists."),
        field(
            "acl-settings",
            Kind::Record(&ACL_SETTINGS),
            None,
            "What holds for all access lists.",
        ),
        field(
            "tables",
            Kind::List {
                of: &Kind::Record(&TABLE),
                max: MANY,
            },
            Words("table 0 is always there"),
            "Forwarding tables (VRFs) beside table 0.",
        ),
        field(
            "neighbors",
            Kind::List {
                of: &Kind::Record(&NEIGHBOR),
                max: MANY,
            },
            None,
            "Static neighbours (ARP and IPv6 neighbour discovery).",
        ),
        field(
            "neighbor-settings",
            Kind::Record(&NEIGHBOR_FAMILIES),
            None,
            "How neighbours are found and kept, learned ones too.",
        ),
        field(
            "routes",
            Kind::List {
                of: &Kind::Record(&ROUTE),
                max: MANY,
            },
            None,
            "Static routes.",
        ),
        field("mpls", Kind::Record(&MPLS), None, "MPLS forwarding."),
        field(
            "memif",
            Kind::Record(&MEMIF),
            None,
            "Sockets of memif interfaces.",
        ),
        field(
            "sflow",
            Kind::Record(&SFLOW),
            None,
            "The sFlow agent and its collectors.",
        ),
        field(
            "bgp",
            Kind::Record(&BGP),
            None,
            "BGP routes for the AS paths in samples.",
        ),
        field(
            "packet-generator",
            Kind::Record(&PG),
            None,
            "Streams of the packet-generator interfaces.",
        ),
        field(
            "commands",
            Kind::List {
                of: &Kind::Text,
                max: MANY,
            },
            None,
            "Commands to give after everything else, in this order; a text of several lines is several commands.",
        ),
    ],
};

const STATE: Section = Section {
    title: "state",
    help: "With a state directory, revisions outlive the router, and a start restores the last confirmed one.",
    fields: &[field(
        "directory",
        Kind::Path {
            absolute: true,
            max: 1024,
        },
        None,
        "Directory of its own for this router, such as `/var/lib/parshall`.",
    )],
};

const WORKERS: Section = Section {
    title: "workers",
    help: "`workers: 2` is short for `workers: {count: 2}`.",
    fields: &[
        field(
            "count",
            Kind::Uint {
                min: 1,
                max: MAX_WORKERS,
            },
            Words("one for each of `cpus`, or 1"),
            "How many there are.",
        )
        .unit("threads"),
        field(
            "cpus",
            Kind::List {
                of: &Kind::Uint { min: 0, max: 1023 },
                max: MAX_WORKERS as usize,
            },
            Words("with `main-cpu` those that follow, else not pinned"),
            "CPUs to pin them to, one for each, in order. All other threads then keep off them.",
        ),
        field(
            "main-cpu",
            Kind::Uint { min: 0, max: 1023 },
            Words("those without a worker"),
            "CPU of the main thread, and of all threads that are no workers.",
        ),
        field(
            "share-cpus",
            Kind::Bool,
            Value("false"),
            "Let workers share CPUs, with each other and with the main thread: for trying things out.",
        ),
        field(
            "busy-poll",
            Kind::Bool,
            Value("false"),
            "Never sleep: the lowest latency, and each worker's CPU always busy.",
        ),
    ],
};

const BUFFERS: Section = Section {
    title: "buffers",
    help: "A packet takes one buffer of 2 KiB for each 2,048 bytes.",
    fields: &[field(
        "per-worker",
        Kind::Uint {
            min: 1024,
            max: 4 << 20,
        },
        Value("16384"),
        "Buffers that each worker has.",
    )
    .unit("buffers")],
};

const LIMITS: Section = Section {
    title: "limits",
    help: "",
    fields: &[
        field(
            "interfaces",
            Kind::Uint {
                min: 2,
                max: 65_536,
            },
            Value("1024"),
            "Interfaces that there can be, `local0` included.",
        )
        .unit("interfaces"),
        field(
            "stations",
            Kind::Uint {
                min: 131_072,
                max: 4_194_304,
            },
            Value("131072"),
            "MAC addresses that all bridge domains together can know; rounded up to a power of two.",
        )
        .unit("stations"),
    ],
};

const CLI: Section = Section {
    title: "cli",
    help: "The socket has mode 0660: root and the group may give commands.",
    fields: &[
        field(
            "socket",
            SOCKET,
            Value("/run/parshall/cli.sock"),
            "Where it is.",
        ),
        field(
            "group",
            Kind::Name {
                what: "the name of a group",
                max: 32,
            },
            Words("root's"),
            "Group that may give commands.",
        ),
        field(
            "vppctl",
            SOCKET,
            Words("none; with `parshall run --vpp-compat` also `/run/vpp/cli.sock`"),
            "A second socket, which VPP's `vppctl -s PATH` speaks to.",
        ),
    ],
};

const API: Section = Section {
    title: "api",
    help: "The socket has mode 0660: root and the group may use it. See [Binary API](binary-api.md).",
    fields: &[
        field(
            "socket",
            Kind::Path {
                absolute: true,
                max: 107,
            },
            Words("api.sock beside the command socket"),
            "Where it is.",
        ),
        field(
            "group",
            Kind::Name {
                what: "the name of a group",
                max: 32,
            },
            Words("that of cli"),
            "Group that may use it.",
        ),
    ],
};

const HTTP: Section = Section {
    title: "http",
    help: "Off unless it has `listen` or `socket`. Reading is open to whoever reaches the listener, or with `token-file` to \
           whoever shows the token; see [HTTP API](http-api.md). The socket has mode 0660.",
    fields: &[
        field(
            "listen",
            Kind::Text,
            None,
            "Address and port to listen on, such as 127.0.0.1:9481 or \"[::1]:9481\".",
        ),
        field("socket", SOCKET, None, "UNIX socket to listen on."),
        field(
            "group",
            Kind::Name {
                what: "the name of a group",
                max: 32,
            },
            Words("root's"),
            "Group that may open the socket.",
        ),
        field(
            "token-file",
            FILE,
            Words("no token is asked for"),
            "File with the token that TCP clients show: one line of 16 or more characters, not for everybody to read.",
        ),
        field(
            "commands",
            Kind::Bool,
            Value("false"),
            "Serve commands too: to the UNIX socket, and to whoever shows the token.",
        ),
    ],
};

const STATS: Section = Section {
    title: "stats",
    help: "Counters in shared memory, for clients of VPP's statistics (docs/reference/statistics.md). Whoever may give \
           commands may read them.",
    fields: &[
        field(
            "socket",
            SOCKET,
            Words("`stats.sock` beside the command socket"),
            "Where it is fetched.",
        ),
        field(
            "size",
            Kind::Uint { min: 1, max: 4096 },
            Value("32"),
            "How large it may grow. What is never written to takes no memory.",
        )
        .unit("MiB"),
    ],
};

/// A socket's file: sun_path of unix(7) has 108 bytes, one for the end.
const SOCKET: Kind = Kind::Path {
    absolute: true,
    max: 107,
};

const LOG: Section = Section {
    title: "log",
    help: "",
    fields: &[field(
        "level",
        Kind::Choice(crate::plan::LogLevel::WORDS),
        Value("info"),
        "The least important messages that are still logged.",
    )],
};
