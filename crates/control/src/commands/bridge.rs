//! Bridge domains and their stations.

use std::net::IpAddr;

use parshall_command::{Args, CommandSpec, Mac};
use parshall_nodes::PortRole;

use super::{Context, Handler, Output, command};
use crate::bridge::{BridgeConfig, PortConfig, Station, StationKind};
use crate::error::{Error, Result};
use crate::router::{Flush, Router};

const ID: (&str, &str) = ("id", "Number of the bridge domain");
const AGE: (&str, &str) = (
    "age",
    "Minutes after which a station that is not seen is forgotten; 0 = never",
);

/// A command that switches one thing of a domain.
const fn switch(
    pattern: &'static str,
    help: &'static str,
    handler: Handler,
) -> CommandSpec<Handler> {
    CommandSpec {
        pattern,
        help,
        detail: "",
        params: &[ID],
        handler,
    }
}

pub(super) const COMMANDS: &[CommandSpec<Handler>] = &[
    CommandSpec {
        pattern: "create bridge-domain <id:u32 1..=16777215> [* del | learn <learn:u8 0..=1> | flood <flood:u8 0..=1> \
                  | uu-flood <uu:u8 0..=1> | forward <forward:u8 0..=1> | arp-term <term:u8 0..=1> \
                  | arp-ufwd <ufwd:u8 0..=1> | mac-age <age:u8> | bd-tag <tag:word>]",
        help: "Make a bridge domain, or with `del` delete it",
        detail: "It learns, forwards and floods unless told not to (0). One that has ports cannot be deleted.",
        params: &[
            ID,
            ("learn", "1 = learn the sources of frames"),
            ("flood", "1 = flood broadcast and multicast frames"),
            ("uu", "1 = flood frames to unknown stations"),
            ("forward", "1 = forward unicast frames"),
            (
                "term",
                "1 = answer ARP requests for addresses of `set bridge-domain arp entry`",
            ),
            (
                "ufwd",
                "1 = send ARP requests for such addresses to their owner only",
            ),
            AGE,
            ("tag", "A name for people and programs, 63 bytes at most"),
        ],
        handler: create,
    },
    switch(
        "set bridge-domain learn <id:u32> [disable]",
        "Learn the sources of frames in a bridge domain, or not",
        |r, a, _| set(r, a, |c, on| c.learn = on),
    ),
    switch(
        "set bridge-domain forward <id:u32> [disable]",
        "Forward unicast frames in a bridge domain, or not",
        |r, a, _| set(r, a, |c, on| c.forward = on),
    ),
    switch(
        "set bridge-domain flood <id:u32> [disable]",
        "Flood broadcast and multicast frames in a bridge domain, or not",
        |r, a, _| set(r, a, |c, on| c.flood = on),
    ),
    switch(
        "set bridge-domain uu-flood <id:u32> [disable]",
        "Flood frames to unknown stations in a bridge domain, or not",
        |r, a, _| set(r, a, |c, on| c.uu_flood = on),
    ),
    switch(
        "set bridge-domain arp term <id:u32> [disable]",
        "Answer ARP requests for known addresses in a bridge domain, or not",
        |r, a, _| set(r, a, |c, on| c.arp_term = on),
    ),
    switch(
        "set bridge-domain arp-ufwd <id:u32> [disable]",
        "Send ARP requests for known addresses to their owner only, or not",
        |r, a, _| set(r, a, |c, on| c.arp_ufwd = on),
    ),
    CommandSpec {
        pattern: "set bridge-domain arp entry <id:u32> <ip:ip> <mac:mac> [del]",
        help: "Say who has an IPv4 or IPv6 address in a bridge domain",
        detail: "Used with `arp-term`, which answers ARP requests and neighbour solicitations, and for IPv4 with `arp-ufwd`.",
        params: &[ID],
        handler: arp_entry,
    },
    CommandSpec {
        pattern: "set bridge-domain mac-age <id:u32> <age:u8>",
        help: "Set how long a bridge domain remembers stations",
        detail: "",
        params: &[ID, AGE],
        handler: mac_age,
    },
    CommandSpec {
        pattern: "set bridge-domain learn-limit <id:u32> <limit:u32>",
        help: "Set how many stations a bridge domain learns at most",
        detail: "Frames to stations beyond are flooded. Configured stations do not count; those that are known already stay. \
                 4294967295 = as many as there is room for.",
        params: &[ID, ("limit", "Stations")],
        handler: learn_limit,
    },
    CommandSpec {
        pattern: "set interface l2 bridge <if:interface> <id:u32 1..=16777215> [* <role:{bvi|uu-fwd}> | <shg:u8>]",
        help: "Make an interface a port of a bridge domain",
        detail: "With `bvi` a loopback becomes the domain's routed interface; with `uu-fwd` frames to unknown stations go \
                 to this port and to no other. A domain that is not there is made.",
        params: &[
            ID,
            (
                "shg",
                "Split-horizon group: frames do not go from one port of a group to another; 0 = none",
            ),
        ],
        handler: join,
    },
    CommandSpec {
        pattern: "bvi create [* instance <number:u32 0..=16383> | mac <mac:mac>]",
        help: "Make a loopback that is to be the routed interface of a bridge domain",
        detail: "It is called bviN. Any other loopback can be that as well.",
        params: &[
            (
                "number",
                "Number in its name; the lowest free one when not given",
            ),
            ("mac", "Ethernet address"),
        ],
        handler: |r, a, _| {
            let mac = a.get::<Mac>("mac").map(|m| m.0);
            Ok(Output::Text(r.create_bvi(a.get("number"), mac)?))
        },
    },
    command(
        "bvi delete <if:interface>",
        "Delete what `bvi create` made",
        |r, a, _| {
            r.delete_bvi(a.need("if")?)?;
            Ok(Output::Done)
        },
    ),
    CommandSpec {
        pattern: "l2fib add <mac:mac> <id:u32> ( filter | <if:interface> [<kind:{static|filter|bvi}>] )",
        help: "Configure a station of a bridge domain",
        detail: "It neither moves nor ages. `filter` drops what comes from it or goes to it.",
        params: &[ID],
        handler: add,
    },
    switch(
        "l2fib del <mac:mac> <id:u32>",
        "Take a station out of a bridge domain",
        delete,
    ),
    command(
        "clear l2fib",
        "Forget all stations, configured ones too",
        |r, _, _| {
            r.clear_stations()?;
            Ok(Output::Done)
        },
    ),
    command(
        "l2fib flush-mac all",
        "Forget all learned stations",
        |r, _, _| flush(r, Flush::All),
    ),
    command(
        "l2fib flush-mac interface <if:interface>",
        "Forget the learned stations behind an interface",
        |r, a, _| {
            let index = r.interfaces.find(a.need("if")?)?;
            flush(r, Flush::Interface(index))
        },
    ),
    switch(
        "l2fib flush-mac bridge-domain <id:u32>",
        "Forget the learned stations of a bridge domain",
        |r, a, _| flush(r, Flush::Domain(a.need("id")?)),
    ),
];

fn create(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    let id = args.need("id")?;
    if args.has("del") {
        r.delete_bridge_domain(id)?;
        return Ok(Output::Done);
    }
    let default = BridgeConfig::default();
    let on = |name: &str, default: bool| args.get::<u8>(name).map_or(default, |n| n != 0);
    let config = BridgeConfig {
        learn: on("learn", default.learn),
        forward: on("forward", default.forward),
        flood: on("flood", default.flood),
        uu_flood: on("uu", default.uu_flood),
        arp_term: on("term", default.arp_term),
        arp_ufwd: on("ufwd", default.arp_ufwd),
        mac_age: args.get("age").unwrap_or(default.mac_age),
        learn_limit: default.learn_limit,
        tag: args.get("tag").unwrap_or_default(),
    };
    r.create_bridge_domain(id, config)?;
    Ok(Output::Text(format!("bridge-domain {id}")))
}

fn set(r: &mut Router, args: &Args, change: fn(&mut BridgeConfig, bool)) -> Result<Output> {
    let on = !args.has("disable");
    r.set_bridge_config(args.need("id")?, |c| change(c, on))?;
    Ok(Output::Done)
}

fn arp_entry(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    let mac = args.need::<Mac>("mac")?.0;
    let mac = (!args.has("del")).then_some(mac);
    match args.need::<IpAddr>("ip")? {
        IpAddr::V4(ip) => r.set_bridge_arp(args.need("id")?, ip, mac)?,
        IpAddr::V6(ip) => r.set_bridge_nd(args.need("id")?, ip, mac)?,
    }
    Ok(Output::Done)
}

fn mac_age(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    let age = args.need("age")?;
    r.set_bridge_config(args.need("id")?, |c| c.mac_age = age)?;
    Ok(Output::Done)
}

fn learn_limit(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    let limit = args.need::<u32>("limit")?;
    r.set_bridge_config(args.need("id")?, |c| {
        c.learn_limit = (limit != u32::MAX).then_some(limit);
    })?;
    Ok(Output::Done)
}

fn join(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    let role = match args.get::<&str>("role") {
        Some("bvi") => PortRole::Bvi,
        Some(_) => PortRole::UuFwd,
        None => PortRole::Normal,
    };
    let port = PortConfig {
        bd_id: args.need("id")?,
        shg: args.get("shg").unwrap_or(0),
        role,
    };
    r.set_bridge(args.need("if")?, Some(port))?;
    Ok(Output::Done)
}

fn add(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    let kind = match args.get::<&str>("kind") {
        Some("bvi") => StationKind::Bvi,
        Some("filter") => StationKind::Filter,
        _ if args.has("filter") => StationKind::Filter,
        _ => StationKind::Static,
    };
    let interface = args.get::<&str>("if");
    let interface = interface
        .map(|name| r.interfaces.find_real(name))
        .transpose()?;
    if kind != StationKind::Filter && interface.is_none() {
        return Err(Error::refused(
            "name the interface that the station is behind",
        ));
    }
    let station = Station {
        if_index: interface.filter(|_| kind != StationKind::Filter),
        kind,
    };
    r.add_station(args.need("id")?, args.need::<Mac>("mac")?.0, station)?;
    Ok(Output::Done)
}

fn delete(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    r.remove_station(args.need("id")?, args.need::<Mac>("mac")?.0)?;
    Ok(Output::Done)
}

fn flush(r: &mut Router, which: Flush) -> Result<Output> {
    let n = r.flush_stations(which)?;
    Ok(Output::Text(format!("{n} learned stations forgotten")))
}
