//! Fields of tables, neighbours, routes and labels.

use super::{MANY, TABLE_NUMBER, field};
use crate::schema::Default::{None, Required, Value, Words};
use crate::schema::{Field, Kind, Section};

/// Greatest MPLS label (RFC 3032 section 2.1); those below [`FIRST_LABEL`] have meanings of their own.
const LAST_LABEL: u64 = (1 << 20) - 1;

const FIRST_LABEL: u64 = 16;

/// Most labels of a stack that is pushed.
const MAX_LABELS: usize = 16;

/// Most paths of a route.
const MAX_PATHS: usize = 64;

const LABEL: Kind = Kind::Uint {
    min: 0,
    max: LAST_LABEL,
};

pub(super) const TABLE: Section = Section {
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

pub(super) const NEIGHBOR: Section = Section {
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

pub(super) const NEIGHBOR_FAMILIES: Section = Section {
    title: "neighbor-settings",
    help: "",
    fields: &[
        field("ip4", Kind::Record(&NEIGHBOR_SETTINGS), None, "Of ARP."),
        field(
            "ip6",
            Kind::Record(&NEIGHBOR_SETTINGS),
            None,
            "Of IPv6 neighbour discovery.",
        ),
    ],
};

const NEIGHBOR_SETTINGS: Section = Section {
    title: "How neighbours are kept",
    help: "",
    fields: &[
        field(
            "limit",
            Kind::Uint {
                min: 1,
                max: 1_000_000,
            },
            Value("8192"),
            "How many an interface may have.",
        )
        .unit("neighbours"),
        field(
            "age",
            Kind::Uint {
                min: 0,
                max: 86_400,
            },
            Value("60"),
            "How long after it was last confirmed one is asked whether it is still there; 0 = never.",
        )
        .unit("seconds"),
        field(
            "rate",
            Kind::Uint {
                min: 1,
                max: 1_000_000,
            },
            Value("1000"),
            "How many an interface may be asked for at most.",
        )
        .unit("a second"),
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

const PIPE: Field = field(
    "pipe",
    Kind::Bool,
    Value("false"),
    "The labelled stretch counts as one hop (the pipe model of RFC 3443).",
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

pub(super) const ROUTE: Section = Section {
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
        PIPE,
        LOOKUP,
        PATHS,
        field(
            "action",
            Kind::Choice(&["blackhole", "prohibit", "unreachable"]),
            None,
            "In place of a way: drop in silence, or drop and say that it is prohibited or unreachable.",
        ),
    ],
};

const PATH: Section = Section {
    title: "A path",
    help: "",
    fields: &[
        VIA,
        INTERFACE_OUT,
        LABELS,
        PIPE,
        LOOKUP,
        field(
            "action",
            Kind::Choice(&["blackhole", "prohibit", "unreachable"]),
            None,
            "In place of a way: drop this share.",
        ),
        WEIGHT,
    ],
};

pub(super) const MPLS: Section = Section {
    title: "mpls",
    help: "The MPLS table is made when the file has labels or an interface with `mpls: true`.",
    fields: &[
        field(
            "labels",
            Kind::List {
                of: &Kind::Record(&LOCAL_LABEL),
                max: MANY,
            },
            None,
            "Labels that this router takes.",
        ),
        field(
            "table",
            Kind::Bool,
            Words("whether anything needs it"),
            "Make the MPLS table.",
        ),
    ],
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
        PIPE,
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
