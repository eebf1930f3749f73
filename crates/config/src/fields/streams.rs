//! Fields of packet-generator streams.

use parshall_drivers::pg;

use super::{FILE, MAX_WORKERS, field};
use crate::schema::Default::{None, Required, Value, Words};
use crate::schema::{Kind, Section};

pub(super) const PG: Section = Section {
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
        field(
            "definition",
            Kind::Text,
            None,
            "The whole stream in the language of `packet-generator new`, in place of all fields but `name`, `interface` and \
             `enabled`.",
        ),
        field("pcap", FILE, None, "Pcap file to replay."),
        field(
            "size",
            Kind::Sizes,
            Words("the headers and data, at least 64"),
            "Frame length without FCS; for a `node` behind `ethernet-input` without the Ethernet header too.",
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
