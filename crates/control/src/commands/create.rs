//! Making and deleting interfaces.

use std::net::IpAddr;
use std::path::PathBuf;

use parshall_command::{Args, CommandSpec, Mac, Prefix};

use super::{Context, Handler, Output};
use crate::drivers::{DeviceKind, DeviceSpec, TapSpec};
use crate::error::Result;
use crate::router::Router;

const NAME: (&str, &str) = ("name", "Name of the interface, in place of the usual one");
const MAC: (&str, &str) = ("mac", "Ethernet address of the interface");
const QUEUES: (&str, &str) = ("queues", "Receive queues; one a worker when not given");

pub(super) const COMMANDS: &[CommandSpec<Handler>] = &[
    CommandSpec {
        pattern: "create tap [* id <id:u32 0..=65535> | name <name:word> | hw-addr <mac:mac> | host-if-name <host:word> \
                  | host-ns <ns:word> | host-mac-addr <hmac:mac> | host-mtu-size <mtu:u32 68..=65521> \
                  | host-bridge <bridge:word> | rx-ring-size <rx-ring:u16 8..=32768> | tx-ring-size <tx-ring:u16 8..=32768> \
                  | host-ip4-addr <ip4:prefix4> | host-ip6-addr <ip6:prefix6> | host-ip4-gw <gw4:ip4> \
                  | host-ip6-gw <gw6:ip6> | num-rx-queues <queues:u16 1..=64>]",
        help: "Make a tap: an interface whose other end is in Linux",
        detail: "Without `host-mtu-size` its MTU is 1500. The Linux side vanishes with the interface.",
        params: &[
            (
                "id",
                "Number in the name tapN; the lowest free one when not given",
            ),
            NAME,
            MAC,
            ("host", "Name of the Linux side"),
            (
                "ns",
                "Network namespace of the Linux side: a name, a path or pid:NUMBER",
            ),
            ("hmac", "Ethernet address of the Linux side"),
            ("mtu", "MTU of both sides in bytes"),
            (
                "bridge",
                "Linux bridge that the Linux side becomes a port of",
            ),
            (
                "rx-ring",
                "Packets from Linux that may wait; the kernel's choice when not given",
            ),
            (
                "tx-ring",
                "Taken for VPP's sake: what is sent does not wait, Linux takes it at once",
            ),
            ("ip4", "IPv4 address of the Linux side"),
            ("ip6", "IPv6 address of the Linux side"),
            ("gw4", "Next hop of the Linux side's IPv4 default route"),
            ("gw6", "Next hop of the Linux side's IPv6 default route"),
            QUEUES,
        ],
        handler: tap,
    },
    CommandSpec {
        pattern: "create host-interface name <host:word> [* interface-name <name:word> | hw-addr <mac:mac> \
                  | host-ns <ns:word> | num-rx-queues <queues:u16 1..=64>]",
        help: "Use a Linux interface, by packet socket",
        detail: "It is called host-NAME. Needs the capability CAP_NET_RAW.",
        params: &[
            ("host", "The Linux interface"),
            NAME,
            (
                "mac",
                "Ethernet address of the router on it; that of the Linux interface when not given",
            ),
            (
                "ns",
                "Network namespace it is in: a name, a path or pid:NUMBER",
            ),
            QUEUES,
        ],
        handler: host,
    },
    CommandSpec {
        pattern: "create loopback interface [* instance <id:u32 0..=16383> | name <name:word> | mac <mac:mac>]",
        help: "Make a loopback interface",
        detail: "",
        params: &[("id", "Number in the name loopN"), NAME, MAC],
        handler: loopback,
    },
    CommandSpec {
        pattern: "create packet-generator interface [<id:word>] [* name <name:word> | hw-addr <mac:mac>]",
        help: "Make a packet generator interface",
        detail: "",
        params: &[
            ("id", "pgN; the lowest free number when not given"),
            NAME,
            MAC,
        ],
        handler: pg,
    },
    CommandSpec {
        pattern: "create pcap interface [* instance <id:u32 0..=65535> | name <name:word> | hw-addr <mac:mac> \
                  | rx <rx:path> | tx <tx:path> | loop | recorded-speed [<factor:f64 0.000001..=1000000>]]",
        help: "Make an interface of files",
        detail: "What is in `rx` is received once the interface is up, as fast as it goes or with the gaps \
                 recorded; what is transmitted is written to `tx`.",
        params: &[
            ("id", "Number in the name pcapN"),
            NAME,
            MAC,
            ("rx", "File to receive"),
            ("tx", "File to write"),
            (
                "factor",
                "How many times as fast as recorded; 1 when not given",
            ),
        ],
        handler: pcap,
    },
    CommandSpec {
        pattern: "delete tap <if:interface>",
        help: "Delete a tap",
        detail: "",
        params: &[],
        handler: |r, a, _| delete(r, a, "tap"),
    },
    CommandSpec {
        pattern: "delete host-interface name <if:interface>",
        help: "Give a Linux interface back",
        detail: "Takes the router's name of the interface or Linux's.",
        params: &[],
        handler: delete_host,
    },
    CommandSpec {
        pattern: "delete loopback interface [intfc] <if:interface>",
        help: "Delete a loopback interface",
        detail: "",
        params: &[],
        handler: |r, a, _| delete(r, a, "loop"),
    },
    CommandSpec {
        pattern: "delete packet-generator interface <if:interface>",
        help: "Delete a packet generator interface and its streams",
        detail: "",
        params: &[],
        handler: |r, a, _| delete(r, a, "pg"),
    },
    CommandSpec {
        pattern: "delete pcap interface <if:interface>",
        help: "Delete an interface of files",
        detail: "",
        params: &[],
        handler: |r, a, _| delete(r, a, "pcap"),
    },
];

fn make(r: &mut Router, args: &Args, instance: Option<u32>, kind: DeviceKind) -> Result<Output> {
    let name = r.create_interface(DeviceSpec {
        instance,
        name: args.get("name"),
        mac: args.get::<Mac>("mac").map(|m| m.0),
        kind,
    })?;
    Ok(Output::Text(name))
}

fn tap(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    let address = |name| args.get::<Prefix>(name).map(|p| (p.addr, p.len));
    let gateway = |name| args.get::<IpAddr>(name);
    let spec = TapSpec {
        host_if: args.get("host"),
        host_ns: args.get("ns"),
        host_mac: args.get::<Mac>("hmac").map(|m| m.0),
        host_mtu: args.get("mtu"),
        host_bridge: args.get("bridge"),
        rx_ring: args.get("rx-ring"),
        tx_ring: args.get("tx-ring"),
        host_addrs: address("ip4").into_iter().chain(address("ip6")).collect(),
        host_gateways: gateway("gw4").into_iter().chain(gateway("gw6")).collect(),
        queues: args.get("queues").unwrap_or(0),
    };
    make(r, args, args.get("id"), DeviceKind::Tap(spec))
}

fn host(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    let kind = DeviceKind::AfPacket {
        host_if: args.need("host")?,
        host_ns: args.get("ns"),
        queues: args.get("queues").unwrap_or(0),
    };
    make(r, args, None, kind)
}

fn loopback(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    make(r, args, args.get("id"), DeviceKind::Loopback)
}

fn pg(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    let instance = match args.get::<&str>("id") {
        Some(text) => {
            let number = text.strip_prefix("pg").unwrap_or(text).parse::<u16>();
            Some(u32::from(number.map_err(|_| {
                crate::error::Error::refused(format!("{text} is not pg0 to pg65535"))
            })?))
        }
        None => None,
    };
    make(r, args, instance, DeviceKind::Pg)
}

fn pcap(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    let recorded = args.has("recorded-speed");
    let kind = DeviceKind::Pcap {
        rx: args.get::<&str>("rx").map(PathBuf::from),
        tx: args.get::<&str>("tx").map(PathBuf::from),
        looping: args.has("loop"),
        speed: recorded.then(|| args.get("factor").unwrap_or(1.0)),
    };
    make(r, args, args.get("id"), kind)
}

fn delete(r: &mut Router, args: &Args, stem: &str) -> Result<Output> {
    r.delete_interface(args.need("if")?, stem)?;
    Ok(Output::Done)
}

fn delete_host(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    let name = args.need::<&str>("if")?;
    let host = format!("host-{name}");
    let ours = if r.interfaces.find(name).is_err() && r.interfaces.find(&host).is_ok() {
        &host
    } else {
        name
    };
    r.delete_interface(ours, "host-")?;
    Ok(Output::Done)
}
