//! Fields of sFlow.

use parshall_agent::discover::MAX_SPEEDS;
use parshall_agent::elect::Election;
use parshall_agent::netlink::NetlinkConfig;
use parshall_agent::{AgentConfig, CollectorConfig};

use super::records::RECORDS;
use super::{DIRECTION, HEADER_BYTES, RATE, field};
use crate::schema::Default::{None, Required, Value, Words};
use crate::schema::{Kind, Section};

const INTERVAL: Kind = Kind::Uint {
    min: 0,
    max: AgentConfig::MAX_INTERVAL as u64,
};

const SPEED_RATE: Section = Section {
    title: "The sampling rate of a speed",
    help: "",
    fields: &[
        field(
            "speed",
            Kind::Uint {
                min: 1,
                max: i64::MAX as u64,
            },
            Required,
            "Speed of the link.",
        )
        .unit("bits a second"),
        field(
            "rate",
            Kind::Uint {
                min: 0,
                max: parshall_sample::MAX_RATE as u64,
            },
            Required,
            "Sample one of so many packets; 0 = none.",
        )
        .unit("packets"),
    ],
};

pub(super) const SFLOW: Section = Section {
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
            "agent-election",
            Kind::Record(&ELECTION),
            None,
            "How it is elected.",
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
            Words("a millionth of each link's speed, at least 100; 10000 where that is not known"),
            "Sample one of so many packets.",
        )
        .unit("packets"),
        field(
            "sampling-rates",
            Kind::List {
                of: &Kind::Record(&SPEED_RATE),
                max: MAX_SPEEDS,
            },
            None,
            "Rates of links by their speed, which come before `sampling-ratio` and `sampling-rate`.",
        ),
        field(
            "sampling-ratio",
            Kind::Uint {
                min: 1,
                max: u32::MAX as u64,
            },
            None,
            "Sample one of speed / ratio packets, at least one of 100; `sampling-rate` holds where the speed is not known then.",
        )
        .unit("bits a second"),
        field(
            "direction",
            DIRECTION,
            Value("rx"),
            "Sample what is received, sent, or both.",
        ),
        field(
            "ifindex",
            Kind::Choice(&["parshall", "linux"]),
            Value("parshall"),
            "Whose interface numbers collectors see: the router's own, or those of the Linux interfaces behind its own \
             (1000000000 and the own number where there is none).",
        ),
        field(
            "ifindex-file",
            Kind::Path {
                absolute: true,
                max: 1024,
            },
            Words("beside the command socket, with the ending `.ifindex`"),
            "Where the numbers that interface names have are kept over restarts.",
        ),
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
            "host-interval",
            INTERVAL,
            Value("30"),
            "Time between two reports of the machine's counters; 0 = none.",
        )
        .unit("seconds"),
        field(
            "max-datagram",
            Kind::Uint {
                min: AgentConfig::DATAGRAM_RANGE.0 as u64,
                max: AgentConfig::DATAGRAM_RANGE.1 as u64,
            },
            Value("1400"),
            "A datagram stays below so much UDP payload.",
        )
        .unit("bytes"),
        field(
            "drop-limit",
            Kind::Uint {
                min: 0,
                max: AgentConfig::MAX_DROP_LIMIT as u64,
            },
            Value("0"),
            "Dropped packets reported a second at most, with a turn for each reason; 0 = none.",
        )
        .unit("packets"),
        field(
            "collectors",
            Kind::List {
                of: &Kind::Either(&[Kind::Collector, Kind::Record(&COLLECTOR)]),
                max: AgentConfig::MAX_COLLECTORS,
            },
            None,
            "Where datagrams go; each gets all of them.",
        ),
        field(
            "records",
            Kind::Record(&RECORDS),
            None,
            "Which records samples carry.",
        ),
        field(
            "netlink",
            Kind::Either(&[Kind::Bool, Kind::Record(&NETLINK)]),
            Value("false"),
            "Give samples, counters and drops to hsflowd on this machine; `true` with the settings it expects.",
        ),
        field(
            "discover",
            Kind::Either(&[DOMAIN, Kind::Record(&DISCOVER)]),
            Value("off"),
            "Domain whose DNS names more collectors, and settings; `auto` for those that the system searches.",
        ),
        field(
            "hsflowd-conf",
            Kind::Path {
                absolute: true,
                max: 4095,
            },
            None,
            "A hsflowd.conf whose settings hold where this file has none.",
        ),
    ],
};

const NETLINK: Section = Section {
    title: "sFlow by way of hsflowd",
    help: "What the agent gives to hsflowd over netlink, as VPP's sflow plugin does.",
    fields: &[
        field(
            "group",
            Kind::Uint {
                min: 1,
                max: NetlinkConfig::MAX_GROUP as u64,
            },
            Value("3"),
            "PSAMPLE group of packets received; those sent go to the next one.",
        ),
        field(
            "os-index",
            Kind::Bool,
            Value("true"),
            "Number ports of drops for an hsflowd with `osIndex=on`.",
        ),
    ],
};

const DOMAIN: Kind = Kind::Name {
    what: "a domain, `auto` or `off`",
    max: 253,
};

const DISCOVER: Section = Section {
    title: "Discovery of collectors",
    help: "`discover: example.net` is short for `discover: {domain: example.net}`. What is asked for is `_sflow._udp` of the \
           domain, as hsflowd does.",
    fields: &[
        field("domain", DOMAIN, Value("auto"), "The domain."),
        field(
            "server",
            Kind::Address,
            Words("the system's"),
            "Name server to ask.",
        ),
        field(
            "port",
            Kind::Uint {
                min: 1,
                max: 65_535,
            },
            Value("53"),
            "Its UDP and TCP port.",
        ),
        field(
            "namespace",
            Kind::Namespace,
            Words("the router's own"),
            "Network namespace to ask from, and to send to these collectors from.",
        ),
        field(
            "delay",
            Kind::Uint { min: 0, max: 3600 },
            Value("30"),
            "Longest random time before the first question.",
        )
        .unit("seconds"),
    ],
};

const ELECTION: Section = Section {
    title: "Election of the agent address",
    help: "Without it the best address by its class is taken: loopback interfaces first, global before private ones. The first \
           network weighs most; of several that contain an address the last one counts.",
    fields: &[
        field(
            "device",
            Kind::Name {
                what: "an interface",
                max: 63,
            },
            None,
            "Interface whose addresses are better.",
        ),
        field(
            "networks",
            Kind::List {
                of: &Kind::Rule,
                max: Election::MAX_RULES,
            },
            None,
            "Networks whose addresses are better, or with `!` worse.",
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
            Value("6343"),
            "Its UDP port.",
        ),
        field(
            "source",
            Kind::Address,
            Words("the system's choice"),
            "Address to send from.",
        ),
        field(
            "namespace",
            Kind::Namespace,
            Words("the router's own"),
            "Network namespace to send from.",
        ),
        field(
            "device",
            Kind::Name {
                what: "an interface of Linux",
                max: 15,
            },
            Words("as the routes say"),
            "Interface to send through.",
        ),
        field(
            "dscp",
            Kind::Uint {
                min: 0,
                max: CollectorConfig::MAX_DSCP as u64,
            },
            Value("0"),
            "Code point of the datagrams.",
        ),
        field(
            "datagrams-per-second",
            Kind::Uint {
                min: CollectorConfig::DATAGRAM_RATE.0 as u64,
                max: CollectorConfig::DATAGRAM_RATE.1 as u64,
            },
            Words("no limit"),
            "Most datagrams; what is more is lost, counted, and seen by the collector as a gap in the numbers.",
        ),
        field(
            "bits-per-second",
            Kind::Uint {
                min: CollectorConfig::BIT_RATE.0,
                max: CollectorConfig::BIT_RATE.1,
            },
            Words("no limit"),
            "Most bits of UDP payload, likewise.",
        ),
        field(
            "max-datagram",
            Kind::Uint {
                min: AgentConfig::DATAGRAM_RANGE.0 as u64,
                max: AgentConfig::DATAGRAM_RANGE.1 as u64,
            },
            Words("as for all"),
            "Smaller datagrams for this collector, with numbers of their own.",
        )
        .unit("bytes"),
    ],
};
