//! Fields of the records in sFlow samples, and of the BGP routes that one of them is made from.

use super::{FILE, field};
use crate::schema::Default::{None, Required, Value};
use crate::schema::{Kind, Section};

pub(super) const RECORDS: Section = Section {
    title: "Records of sFlow samples",
    help: "What samples carry besides the indispensable; `docs/reference/sflow-records.md` says what each tells.",
    fields: &[
        field("switch", Kind::Bool, Value("true"), "VLANs in and out."),
        field(
            "router",
            Kind::Bool,
            Value("true"),
            "Next hop and prefix lengths.",
        ),
        field(
            "gateway",
            Kind::Bool,
            Value("true"),
            "AS path, communities and preference, where `bgp` has feeds.",
        ),
        field(
            "mpls",
            Kind::Bool,
            Value("true"),
            "Label stacks in and out, of labelled packets.",
        ),
        field(
            "vlan-tunnel",
            Kind::Bool,
            Value("false"),
            "Outer VLAN tags, of packets with several.",
        ),
        field(
            "tunnel",
            Kind::Bool,
            Value("false"),
            "Outer headers and network identifiers, of packets that come out of a tunnel or go into one.",
        ),
        field(
            "egress-queue",
            Kind::Bool,
            Value("false"),
            "Transmit queue, of packets sampled on their way out.",
        ),
        field(
            "transit-delay",
            Kind::Bool,
            Value("false"),
            "Time from receive to transmit, of packets sampled on their way out.",
        ),
        field(
            "timestamp",
            Kind::Bool,
            Value("false"),
            "When the packet was sampled.",
        ),
        field(
            "ethernet",
            Kind::Bool,
            Value("true"),
            "Counters of Ethernet.",
        ),
        field(
            "vlan",
            Kind::Bool,
            Value("true"),
            "Counters of a VLAN, of sub-interfaces that are one.",
        ),
        field(
            "lag",
            Kind::Bool,
            Value("true"),
            "State of LACP, of members of bonds.",
        ),
        field(
            "sfp",
            Kind::Bool,
            Value("true"),
            "State of optical modules, where there are any.",
        ),
        field(
            "port-name",
            Kind::Bool,
            Value("true"),
            "Names of interfaces.",
        ),
        field(
            "processor",
            Kind::Bool,
            Value("true"),
            "Load of the machine's processors.",
        ),
        field("app", Kind::Bool, Value("true"), "What the router uses."),
        field(
            "host",
            Kind::Bool,
            Value("true"),
            "Everything else about the machine.",
        ),
    ],
};

pub(super) const BGP: Section = Section {
    title: "bgp",
    help: "Where BGP routes come from that samples tell of. Nothing is forwarded by them.",
    fields: &[
        field(
            "local-as",
            Kind::Uint {
                min: 0,
                max: u32::MAX as u64,
            },
            Value("0"),
            "This router's own AS; 0 = not told.",
        ),
        field(
            "memory-limit",
            Kind::Uint {
                min: 1,
                max: 1 << 20,
            },
            Value("1024"),
            "Memory that the routes may take.",
        )
        .unit("MiB"),
        field(
            "files",
            Kind::List {
                of: &FILE,
                max: MAX_FEEDS,
            },
            None,
            "Files of lines: PREFIX as-path AS ... and what else is known.",
        ),
        field(
            "mrt",
            Kind::List {
                of: &FILE,
                max: MAX_FEEDS,
            },
            None,
            "MRT dumps.",
        ),
        field(
            "bmp",
            Kind::List {
                of: &Kind::Record(&BMP),
                max: MAX_FEEDS,
            },
            None,
            "Addresses where routers connect that speak BMP.",
        ),
    ],
};

/// Most feeds of a kind.
const MAX_FEEDS: usize = 100;

const BMP: Section = Section {
    title: "A BMP station",
    help: "",
    fields: &[
        field(
            "address",
            Kind::Address,
            Required,
            "Address to listen at: one that only your routers reach.",
        ),
        field(
            "port",
            Kind::Uint {
                min: 1,
                max: 65_535,
            },
            Required,
            "TCP port.",
        ),
    ],
};
