//! Every field of the file, with its kind, unit, range, default and help: the one place where a setting
//! is described. Ranges that another room owns are taken from there.

use parshall_agent::{AgentConfig, DEFAULT_PORT};
use parshall_drivers::loopback::MAX_INSTANCE;
use parshall_drivers::pg;
use parshall_sample::MAX_HEADER;

use crate::schema::Default::{None, Required, Value, Words};
use crate::schema::{Default, Field, Kind, Section};

/// Interface types, with the start of their names.
pub const TYPES: &[(&str, &str)] = &[
    ("af_packet", "host-"),
    ("tap", "tap"),
    ("loopback", "loop"),
    ("pg", "pg"),
    ("pcap", "pcap"),
];
const TYPE_NAMES: &[&str] = &["af_packet", "tap", "loopback", "pg", "pcap"];
/// Highest number in the name of an interface.
pub const MAX_NUMBER: u32 = MAX_INSTANCE;
/// Most workers.
pub const MAX_WORKERS: u64 = 64;
/// Greatest MPLS label (RFC 3032 section 2.1); those below [`FIRST_LABEL`] have meanings of their own.
const LAST_LABEL: u64 = (1 << 20) - 1;
const FIRST_LABEL: u64 = 16;
/// Most labels of a stack that is pushed.
const MAX_LABELS: usize = 16;
/// Most paths of a route.
const MAX_PATHS: usize = 64;
/// Most of what a file may list without a closer limit.
const MANY: usize = 100_000;

const TABLE_NUMBER: Kind = Kind::Uint {
    min: 0,
    max: u32::MAX as u64,
};
const QUEUES: Kind = Kind::Uint {
    min: 1,
    max: MAX_WORKERS,
};
const RATE: Kind = Kind::Uint {
    min: 1,
    max: parshall_sample::MAX_RATE as u64,
};
const HEADER_BYTES: Kind = Kind::Uint {
    min: 64,
    max: MAX_HEADER as u64,
};
const FILE: Kind = Kind::Path {
    absolute: false,
    max: 4095,
};
const LINUX_NAME: Kind = Kind::Name {
    what: "the name of a Linux interface",
    max: 15,
};
const MTU: Kind = Kind::Uint {
    min: 68,
    max: 65_521,
};
const LABEL: Kind = Kind::Uint {
    min: 0,
    max: LAST_LABEL,
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
        field("log", Kind::Record(&LOG), None, "What is logged."),
        field(
            "interfaces",
            Kind::Interfaces(&INTERFACE),
            None,
            "The interfaces, each under its name.",
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
            "sflow",
            Kind::Record(&SFLOW),
            None,
            "The sFlow agent and its collectors.",
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
            Words("not pinned"),
            "CPUs to pin them to, in order; workers beyond the list are not pinned.",
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
    fields: &[field(
        "interfaces",
        Kind::Uint {
            min: 2,
            max: 65_536,
        },
        Value("1024"),
        "Interfaces that there can be, `local0` included.",
    )
    .unit("interfaces")],
};

const CLI: Section = Section {
    title: "cli",
    help: "The socket has mode 0660: root and the group may give commands.",
    fields: &[
        field(
            "socket",
            // sun_path of unix(7) has 108 bytes, one for the end.
            Kind::Path {
                absolute: true,
                max: 107,
            },
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
    ],
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

const INTERFACE: Section = Section {
    title: "An interface",
    help: "The key is the interface's name in Parshall: `host-` and the name of the Linux interface (`af_packet`), \
           or the type's name and a number from 0 to 16383: `tap0`, `loop0`, `pg0`, `pcap0`.",
    fields: &[
        field(
            "type",
            Kind::Choice(TYPE_NAMES),
            Words("what the name says"),
            "The driver.",
        ),
        field(
            "state",
            Kind::Choice(&["up", "down"]),
            Value("up"),
            "Whether it carries packets.",
        ),
        field(
            "mac",
            Kind::Mac,
            Words("the driver's choice"),
            "Its MAC address.",
        ),
        field(
            "mtu",
            MTU,
            Words("what the device carries, at most 9000"),
            "Largest IP packet.",
        )
        .unit("bytes"),
        field(
            "addresses",
            Kind::List {
                of: &Kind::IfAddress,
                max: 1024,
            },
            None,
            "Its addresses, of both versions.",
        ),
        field(
            "ip6",
            Kind::Bool,
            Words("whether it has an IPv6 address"),
            "Speak IPv6 with a link-local address alone.",
        ),
        field(
            "table",
            TABLE_NUMBER,
            Value("0"),
            "Forwarding table of what it receives.",
        ),
        field(
            "mpls",
            Kind::Bool,
            Value("false"),
            "Take and send labelled packets.",
        ),
        field(
            "promiscuous",
            Kind::Bool,
            Value("false"),
            "Receive frames for every MAC address.",
        ),
        field(
            "xconnect",
            Kind::Interface,
            None,
            "Hand every frame to this interface and its frames to this one (layer 2); one of the two says so, or both.",
        ),
        field(
            "sflow",
            Kind::Either(&[Kind::Bool, Kind::Record(&IF_SFLOW)]),
            Value("false"),
            "Sample what it receives.",
        ),
        field(
            "host-interface",
            LINUX_NAME,
            Words("af_packet: what follows `host-`; tap: the kernel's choice"),
            "Name of the Linux interface, or of the tap's host side.",
        )
        .only(&["af_packet", "tap"]),
        field(
            "namespace",
            Kind::Name {
                what: "a network namespace by its name or as `pid:NUMBER`",
                max: 255,
            },
            Words("the router's own"),
            "Network namespace of the Linux interface or host side.",
        )
        .only(&["af_packet", "tap"]),
        field(
            "queues",
            QUEUES,
            Words("one for each worker"),
            "Receive queues; flows are spread over them.",
        )
        .unit("queues")
        .only(&["af_packet", "tap"]),
        field(
            "host-mac",
            Kind::Mac,
            Words("the kernel's choice"),
            "MAC address of the host side.",
        )
        .only(&["tap"]),
        field(
            "host-mtu",
            MTU,
            Value("1500"),
            "MTU of the host side, and with it the largest frame of both.",
        )
        .unit("bytes")
        .only(&["tap"]),
        field(
            "host-addresses",
            Kind::List {
                of: &Kind::IfAddress,
                max: 64,
            },
            None,
            "Addresses of the host side.",
        )
        .only(&["tap"]),
        field(
            "host-gateways",
            Kind::List {
                of: &Kind::Address,
                max: 2,
            },
            None,
            "Next hops of the host's default routes, one for each IP version.",
        )
        .only(&["tap"]),
        field(
            "receive",
            FILE,
            Words("nothing is received"),
            "Pcap file that the interface receives.",
        )
        .only(&["pcap"]),
        field(
            "transmit",
            FILE,
            Words("only counted"),
            "Pcap file that what it sends is written to.",
        )
        .only(&["pcap"]),
        field(
            "loop",
            Kind::Bool,
            Value("false"),
            "Start again at the end of the received file.",
        )
        .only(&["pcap"]),
        field(
            "speed",
            Kind::Float {
                min: 0.001,
                max: 1e6,
            },
            Words("as fast as it goes"),
            "Receive with the gaps recorded in the file, divided by this: 1 = as recorded.",
        )
        .only(&["pcap"]),
    ],
};

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
            "header-bytes",
            HEADER_BYTES,
            Words("that of `sflow`"),
            "Bytes of each sampled packet.",
        )
        .unit("bytes"),
    ],
};

const TABLE: Section = Section {
    title: "A table",
    help: "",
    fields: &[
        field(
            "id",
            Kind::Uint {
                min: 1,
                max: u32::MAX as u64,
            },
            Required,
            "Its number.",
        ),
        field(
            "family",
            Kind::Choice(&["both", "ip4", "ip6"]),
            Value("both"),
            "IP versions that it is made for.",
        ),
    ],
};

const NEIGHBOR: Section = Section {
    title: "A neighbour",
    help: "",
    fields: &[
        field(
            "interface",
            Kind::Interface,
            Required,
            "Interface that it is behind.",
        ),
        field("address", Kind::Address, Required, "Its IP address."),
        field("mac", Kind::Mac, Required, "Its MAC address."),
    ],
};

const VIA: Field = field("via", Kind::Address, None, "Next hop.");
const INTERFACE_OUT: Field = field(
    "interface",
    Kind::Interface,
    Words("wherever the route to the next hop leads"),
    "Interface to send through; without `via`, the destinations themselves are behind it.",
);
const LABELS: Field = field(
    "labels",
    Kind::Either(&[
        LABEL,
        Kind::List {
            of: &LABEL,
            max: MAX_LABELS,
        },
    ]),
    None,
    "MPLS labels to push, the outermost first.",
);
const WEIGHT: Field = field(
    "weight",
    Kind::Uint { min: 1, max: 255 },
    Value("1"),
    "Share of the flows, relative to the other paths.",
);
const LOOKUP: Field = field(
    "lookup-table",
    TABLE_NUMBER,
    None,
    "Look the destination up in this table instead.",
);
const PATHS: Field = field(
    "paths",
    Kind::List {
        of: &Kind::Record(&PATH),
        max: MAX_PATHS,
    },
    None,
    "Several ways; flows are spread over them. In place of `via` and the others.",
);

const ROUTE: Section = Section {
    title: "A route",
    help: "One way is written into the route itself (`via`, `interface`, `labels`), several under `paths`.",
    fields: &[
        field("prefix", Kind::Prefix, Required, "Destinations."),
        field(
            "table",
            TABLE_NUMBER,
            Value("0"),
            "Table that the route is in.",
        ),
        VIA,
        INTERFACE_OUT,
        LABELS,
        LOOKUP,
        PATHS,
        field(
            "action",
            Kind::Choice(&["blackhole", "prohibit", "unreachable", "local"]),
            None,
            "In place of a way: drop in silence, drop and say that it is prohibited or unreachable, or take as the \
             router's own.",
        ),
    ],
};

const PATH: Section = Section {
    title: "A path",
    help: "",
    fields: &[VIA, INTERFACE_OUT, LABELS, LOOKUP, WEIGHT],
};

const MPLS: Section = Section {
    title: "mpls",
    help: "The MPLS table is made when the file has labels or an interface with `mpls: true`.",
    fields: &[field(
        "labels",
        Kind::List {
            of: &Kind::Record(&LOCAL_LABEL),
            max: MANY,
        },
        None,
        "Labels that this router takes.",
    )],
};

const LOCAL_LABEL: Section = Section {
    title: "A local label",
    help: "With `labels` the label is swapped for them, without it is popped; `pop` goes on with what is under it.",
    fields: &[
        field(
            "label",
            Kind::Uint {
                min: FIRST_LABEL,
                max: LAST_LABEL,
            },
            Required,
            "The label.",
        ),
        field(
            "stack",
            Kind::Choice(&["eos", "non-eos", "both"]),
            Words("`both`; with `pop: ip4` or `pop: ip6` `eos`, with `pop: mpls` `non-eos`"),
            "Whether it is the last one of its stack.",
        ),
        VIA,
        INTERFACE_OUT,
        LABELS,
        PATHS,
        field(
            "pop",
            Kind::Choice(&["ip4", "ip6", "mpls"]),
            None,
            "Take the label off and look up what is under it.",
        ),
        field(
            "table",
            TABLE_NUMBER,
            Value("0"),
            "Table to look it up in, for `pop`.",
        ),
    ],
};

const INTERVAL: Kind = Kind::Uint {
    min: 0,
    max: AgentConfig::MAX_INTERVAL as u64,
};

const SFLOW: Section = Section {
    title: "sflow",
    help: "What holds for all interfaces that have sFlow on. A section without collectors sends nothing.",
    fields: &[
        field(
            "agent-address",
            Kind::Address,
            Words("elected among the host's"),
            "Address that names this agent.",
        ),
        field(
            "sub-agent-id",
            Kind::Uint {
                min: 0,
                max: u32::MAX as u64,
            },
            Value("0"),
            "Tells several agents behind one address apart.",
        ),
        field(
            "sampling-rate",
            RATE,
            Value("10000"),
            "Sample one of so many packets.",
        )
        .unit("packets"),
        field(
            "header-bytes",
            HEADER_BYTES,
            Value("128"),
            "Bytes of each sampled packet.",
        )
        .unit("bytes"),
        field(
            "polling-interval",
            INTERVAL,
            Value("20"),
            "Time between two counter reports of an interface; 0 = none.",
        )
        .unit("seconds"),
        field(
            "collectors",
            Kind::List {
                of: &Kind::Either(&[Kind::Collector, Kind::Record(&COLLECTOR)]),
                max: AgentConfig::MAX_COLLECTORS,
            },
            None,
            "Where datagrams go; each gets all of them.",
        ),
    ],
};

const COLLECTOR: Section = Section {
    title: "A collector",
    help: "`192.0.2.1:6343` is short for `{address: 192.0.2.1, port: 6343}`.",
    fields: &[
        field(
            "address",
            Kind::Collector,
            Required,
            "Its address or host name.",
        ),
        field(
            "port",
            Kind::Uint {
                min: 1,
                max: 65_535,
            },
            Value(const_port()),
            "Its UDP port.",
        ),
    ],
};

/// The default port as text; the assertion keeps the two together.
const fn const_port() -> &'static str {
    assert!(DEFAULT_PORT == 6343);
    "6343"
}

const PG: Section = Section {
    title: "packet-generator",
    help: "",
    fields: &[field(
        "streams",
        Kind::List {
            of: &Kind::Record(&STREAM),
            max: 1024,
        },
        None,
        "The streams.",
    )],
};

const STREAM: Section = Section {
    title: "A stream",
    help: "Packets come from `data`, in the language of VPP's `packet-generator new`, or from a `pcap` file.",
    fields: &[
        field(
            "name",
            Kind::Name {
                what: "a name",
                max: 63,
            },
            Required,
            "Its name.",
        ),
        field(
            "interface",
            Kind::Interface,
            Required,
            "A `pg` interface, which receives the packets.",
        ),
        field(
            "data",
            Kind::Text,
            None,
            "Headers and payload, such as `IP4: 02:00:00:00:00:01 -> 02:00:00:00:00:02 \
              UDP: 10.0.0.1 -> 10.0.1.1 UDP: 1234 -> 4321 incrementing 30`.",
        ),
        field("pcap", FILE, None, "Pcap file to replay."),
        field(
            "size",
            Kind::Sizes,
            Words("the headers and data, at least 64"),
            "Frame length without FCS.",
        )
        .unit("bytes"),
        field(
            "rate",
            Kind::Float {
                min: 0.0,
                max: pg::MAX_RATE,
            },
            Value("0"),
            "Packets a second; 0 = as fast as it goes.",
        )
        .unit("packets/s"),
        field(
            "limit",
            Kind::Uint {
                min: 0,
                max: 1_000_000_000_000_000,
            },
            Value("0"),
            "Packets to make; 0 = no end.",
        )
        .unit("packets"),
        field(
            "node",
            Kind::Name {
                what: "a node",
                max: 32,
            },
            Value("ethernet-input"),
            "Node that the packets start at.",
        ),
        field(
            "worker",
            Kind::Uint {
                min: 0,
                max: MAX_WORKERS - 1,
            },
            Value("0"),
            "Worker that makes them.",
        ),
        field(
            "max-frame",
            Kind::Uint { min: 1, max: 256 },
            Value("256"),
            "Most packets in one frame.",
        )
        .unit("packets"),
        field(
            "seed",
            Kind::Uint {
                min: 0,
                max: u64::MAX,
            },
            Value("1"),
            "Fixes the random ranges.",
        ),
        field(
            "variants",
            Kind::Uint {
                min: 1,
                max: pg::MAX_VARIANTS as u64,
            },
            Value("1048576"),
            "Most different packets kept.",
        )
        .unit("packets"),
        field(
            "loop",
            Kind::Bool,
            Value("false"),
            "Start again at the end of the pcap file.",
        ),
        field(
            "speed",
            Kind::Float {
                min: 0.001,
                max: 1e6,
            },
            Words("as fast as it goes"),
            "Replay with the gaps recorded, divided by this: 1 = as recorded.",
        ),
        field(
            "enabled",
            Kind::Bool,
            Value("true"),
            "Start it at the end of the configuration.",
        ),
    ],
};
