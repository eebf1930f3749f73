//! Fields of an interface.

use parshall_drivers::memif::{BUFFER_SIZE, MAX_RING_SIZE, MAX_SECRET};

use super::memif::NUMBER;
use super::shared::*;
use super::{FILE, MAX_WORKERS, TYPE_NAMES, field};
use crate::schema::Default::{None, Value, Words};
use crate::schema::{Kind, Section};

const QUEUES: Kind = Kind::Uint {
    min: 1,
    max: MAX_WORKERS,
};

const QUEUE_SIZE: Kind = Kind::Uint {
    min: 64,
    max: 32_768,
};

pub(super) const INTERFACE: Section = Section {
    title: "An interface",
    help: "The key is the interface's name in Parshall. By itself it is `host-` or `xdp-` and the name of the Linux \
           interface (`af_packet`, `af_xdp`), or the type's name and a number from 0 to 16383: `tap0`, `loop0`, `pg0`, `pcap0`, or `memif` with \
           the numbers of its socket and on it: `memif0/0`. Any other name of at most 63 letters, digits and `._:-` will do when `type` is written.",
    fields: &[
        field(
            "type",
            Kind::Choice(TYPE_NAMES),
            Words("what the name says"),
            "The driver.",
        ),
        STATE,
        field(
            "mac",
            Kind::Mac,
            Words("the driver's choice"),
            "Its MAC address.",
        ),
        field(
            "mtu",
            MTU_RANGE,
            Words("what the device carries, at most 9000"),
            "Largest IP packet; the device follows, and with it the MTU of the Linux interface or host side.",
        )
        .unit("bytes"),
        field(
            "packet-mtu",
            MTU_RANGE,
            Words("`mtu`"),
            "Largest IP packet, with the device left as it is: what is switched may be longer. Instead of `mtu`.",
        )
        .unit("bytes"),
        ADDRESSES,
        IP6,
        TABLE,
        IP6_TABLE,
        MPLS,
        field(
            "promiscuous",
            Kind::Bool,
            Value("false"),
            "Receive frames for every MAC address.",
        ),
        field(
            "sub-interfaces",
            Kind::Interfaces(&SUB_INTERFACE),
            None,
            "Its sub-interfaces, each under its number: what has certain VLAN tags.",
        ),
        UNNUMBERED,
        field("lcp", LINUX_NAME, None, "Name of its twin in Linux (Linux control plane)."),
        DESCRIPTION,
        field(
            "device-type",
            Kind::Choice(&["dpdk", "af-packet", "rdma"]),
            None,
            "vppcfg's word for the driver; nothing is done with it.",
        )
        .only(&["hardware"]),
        TAG_REWRITE,
        L2XC,
        XCONNECT,
        SPLIT_HORIZON,
        ACL_INPUT,
        ACL_OUTPUT,
        TAG,
        SAMPLED,
        field(
            "host-interface",
            LINUX_NAME,
            Words("what follows `host-` or `xdp-`; tap: the kernel's choice"),
            "Name of the Linux interface, or of the tap's host side.",
        )
        .only(&["af_packet", "af_xdp", "tap"]),
        field(
            "namespace",
            Kind::Namespace,
            Words("the router's own"),
            "Network namespace of the Linux interface or host side.",
        )
        .only(&["af_packet", "af_xdp", "tap"]),
        field(
            "queues",
            QUEUES,
            Words("one for each worker; af_xdp: all the interface has; memif: 1"),
            "Receive queues; flows are spread over them.",
        )
        .unit("queues")
        .only(&["af_packet", "af_xdp", "memif", "tap"]),
        field(
            "rx-placement",
            Kind::List {
                of: &Kind::Uint {
                    min: 0,
                    max: MAX_WORKERS - 1,
                },
                max: MAX_WORKERS as usize,
            },
            Words("one after the other"),
            "The worker of each receive queue, by number, queue 0 first.",
        ),
        field(
            "rx-mode",
            Kind::Choice(&["polling", "interrupt", "adaptive"]),
            Words("adaptive, or polling with `workers.busy-poll`"),
            "How its workers look for packets: always; only when woken; always while packets come.",
        ),
        field(
            "tx-queues",
            QUEUES,
            Words("one for each worker, as far as the interface has as many; memif: 1"),
            "Transmit queues.",
        )
        .unit("queues")
        .only(&["af_xdp", "memif"]),
        field(
            "rx-queue-size",
            QUEUE_SIZE,
            Words("2048; for a tap the kernel's choice"),
            "Packets a receive queue holds, a power of two; for a tap those from Linux that may wait.",
        )
        .unit("packets")
        .only(&["af_xdp", "tap"]),
        field(
            "tx-queue-size",
            QUEUE_SIZE,
            Words("1024"),
            "Packets a transmit queue holds, a power of two; a tap's never wait.",
        )
        .unit("packets")
        .only(&["af_xdp", "tap"]),
        field(
            "copy-mode",
            Kind::Choice(&["auto", "copy", "zero-copy"]),
            Value("auto"),
            "Whether the kernel copies packets: not where the driver can do without; always; never, or it is an error.",
        )
        .only(&["af_xdp"]),
        field(
            "xdp-mode",
            Kind::Choice(&["native", "generic"]),
            Words("native where the driver has it"),
            "Where the XDP program runs: in the driver, or in the kernel's stack.",
        )
        .only(&["af_xdp"]),
        field(
            "busy-poll",
            Kind::Uint { min: 1, max: 256 },
            Words("off"),
            "The worker runs the device's receive work itself, for so many packets at a time.",
        )
        .unit("packets")
        .only(&["af_xdp"]),
        field(
            "host-mac",
            Kind::Mac,
            Words("the kernel's choice"),
            "MAC address of the host side.",
        )
        .only(&["tap"]),
        field(
            "host-mtu",
            MTU_RANGE,
            Value("1500"),
            "MTU of the host side, and with it the largest frame of both.",
        )
        .unit("bytes")
        .only(&["tap"]),
        field(
            "host-bridge",
            LINUX_NAME,
            None,
            "Linux bridge that the host side becomes a port of.",
        )
        .only(&["tap"]),
        field(
            "host-addresses",
            Kind::List {
                of: &Kind::IfAddress,
                max: 2,
            },
            None,
            "Addresses of the host side, one of each IP version.",
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
            "role",
            Kind::Choice(&["master", "slave"]),
            Value("master"),
            "Which end it is: a master listens on the socket, a slave connects to it and makes the memory.",
        )
        .only(&["memif"]),
        field(
            "socket-id",
            NUMBER,
            Words("what the name says, else 0"),
            "Number of the socket, of those under `memif`.",
        )
        .only(&["memif"]),
        field(
            "id",
            NUMBER,
            Words("what the name says, else 0"),
            "Number of the interface on its socket, the same at both ends.",
        )
        .only(&["memif"]),
        field(
            "ring-size",
            Kind::Uint {
                min: 1,
                max: MAX_RING_SIZE as u64,
            },
            Value("1024"),
            "Packets a ring holds, a power of two; a master takes what the slave has.",
        )
        .unit("packets")
        .only(&["memif"]),
        field(
            "buffer-size",
            Kind::Uint {
                min: BUFFER_SIZE.0 as u64,
                max: BUFFER_SIZE.1 as u64,
            },
            Value("2048"),
            "Size of each buffer; a master takes what the slave has. Longer packets take several.",
        )
        .unit("bytes")
        .only(&["memif"]),
        field(
            "secret",
            Kind::Name {
                what: "a word that the slave has to know",
                max: MAX_SECRET,
            },
            Words("none is asked for"),
            "What a slave has to say to be let in.",
        )
        .only(&["memif"]),
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

/// Fields that the passes over interfaces ask for are all here, as far as a part of an interface can have them.
const SUB_INTERFACE: Section = Section {
    title: "A sub-interface",
    help: "The key is its number: it is called by its parent's name, a dot and that.",
    fields: &[
        DESCRIPTION,
        field(
            "encapsulation",
            Kind::Record(&ENCAPSULATION),
            Words("the number as 802.1Q VLAN, and no further tag"),
            "VLAN tags of its frames.",
        ),
        STATE,
        field(
            "mtu",
            MTU_RANGE,
            Words("that of its parent"),
            "Largest IP packet; not more than its parent's.",
        )
        .unit("bytes"),
        ADDRESSES,
        IP6,
        TABLE,
        IP6_TABLE,
        MPLS,
        UNNUMBERED,
        L2XC,
        XCONNECT,
        TAG_REWRITE,
        SAMPLED,
        field(
            "lcp",
            LINUX_NAME,
            None,
            "Name of its twin in Linux; its parent needs one too.",
        ),
        SPLIT_HORIZON,
        ACL_INPUT,
        ACL_OUTPUT,
        TAG,
    ],
};

const VLAN: Kind = Kind::Uint { min: 1, max: 4094 };

const ENCAPSULATION: Section = Section {
    title: "VLAN tags of a sub-interface",
    help: "",
    fields: &[
        field("dot1q", VLAN, None, "Outer customer tag (802.1Q)."),
        field("dot1ad", VLAN, None, "Outer service tag (802.1ad)."),
        field("inner-dot1q", VLAN, None, "Inner tag."),
        field(
            "exact-match",
            Kind::Bool,
            Value("false"),
            "No further tags: what is routed needs that.",
        ),
        field(
            "match",
            Kind::Text,
            None,
            "In place of the others: `default`, `untagged`, or the words of `create sub-interfaces`, as `dot1q any`.",
        ),
    ],
};
