//! `set interface` and its relatives.

use parshall_command::{Args, CommandSpec, Mac, Prefix};

use super::{Context, Handler, Output, command};
use crate::error::Result;
use crate::prefix::Family;
use crate::router::Router;

pub(super) const COMMANDS: &[CommandSpec<Handler>] = &[
    command(
        "set interface state <if:interface> <state:{up|down}>",
        "Bring an interface up or down",
        state,
    ),
    CommandSpec {
        pattern: "set interface ip address [del] <if:interface> ( <address:prefix> | all )",
        help: "Add an address to an interface, or remove it",
        detail: "The subnet becomes reachable through the interface, the address is answered for. \
                 `all` goes with `del` and removes every address.",
        params: &[("address", "Address and prefix length, such as 192.0.2.1/24")],
        handler: address,
    },
    CommandSpec {
        pattern: "set interface ip table <if:interface> <table:u32>",
        help: "Look packets of an interface up in another IPv4 table",
        detail: "The interface must have no IPv4 address.",
        params: &[("table", "Table number, made with `ip table add`")],
        handler: table4,
    },
    CommandSpec {
        pattern: "set interface ip6 table <if:interface> <table:u32>",
        help: "Look packets of an interface up in another IPv6 table",
        detail: "The interface must have no IPv6 address.",
        params: &[("table", "Table number, made with `ip6 table add`")],
        handler: table6,
    },
    CommandSpec {
        pattern: "set interface mtu [packet] ( <mtu:u32 0..=65521> | default ) <if:interface>",
        help: "Set the largest packet of an interface",
        detail: "With `packet` only the size up to which IP packets are sent whole changes; without it \
                 the device's largest frame follows. 0 gives a sub-interface the MTU of its parent, whatever that is. \
                 `default` is what it was made with.",
        params: &[("mtu", "Bytes of an IP packet, without the Ethernet header")],
        handler: mtu,
    },
    command(
        "set interface mac address <if:interface> <mac:mac>",
        "Set the Ethernet address of an interface",
        set_mac,
    ),
    command(
        "set interface promiscuous <state:{on|off}> <if:interface>",
        "Accept frames for other stations, or not",
        promiscuous,
    ),
    CommandSpec {
        pattern: "set interface l2 xconnect <if:interface> <peer:interface>",
        help: "Send every frame an interface receives out on another",
        detail: "One direction; say it twice, the other way round, for both.",
        params: &[],
        handler: xconnect,
    },
    command(
        "set interface l3 <if:interface>",
        "End a cross-connect: packets are routed again",
        l3,
    ),
    CommandSpec {
        pattern: "set interface unnumbered ( del <if:interface> | <if:interface> use <lender:interface> )",
        help: "Use the addresses of another interface, or no more",
        detail: "The interface then speaks and answers under them. Routes to its neighbours are yours to add.",
        params: &[("lender", "Interface that has the addresses")],
        handler: unnumbered,
    },
    CommandSpec {
        pattern: "set interface tag <if:interface> <tag:word>",
        help: "Give an interface a tag",
        detail: "A word for those who manage the router; `clear interface tag` takes it away.",
        params: &[("tag", "At most 63 bytes")],
        handler: tag,
    },
    command(
        "clear interface tag <if:interface>",
        "Take the tag of an interface away",
        untag,
    ),
    CommandSpec {
        pattern: "set interface mpls <if:interface> <state:{enable|disable}>",
        help: "Speak MPLS on an interface, or not",
        detail: "Needs `mpls table add 0`.",
        params: &[],
        handler: mpls,
    },
    command(
        "enable ip6 interface <if:interface>",
        "Speak IPv6 on an interface, with a link-local address",
        enable_ip6,
    ),
    command(
        "disable ip6 interface <if:interface>",
        "Speak IPv6 on an interface only if it has an address",
        disable_ip6,
    ),
];

fn name(args: &Args) -> Result<&str> {
    Ok(args.need::<&str>("if")?)
}

/// Whether the argument `state` is the word that switches on.
fn on(args: &Args) -> bool {
    matches!(args.get::<&str>("state"), Some("up" | "on" | "enable"))
}

fn state(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    r.set_state(name(args)?, on(args))?;
    Ok(Output::Done)
}

fn address(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    let name = name(args)?;
    match args.get::<Prefix>("address") {
        Some(p) if args.has("del") => r.remove_address(name, p.addr, p.len)?,
        Some(p) => r.add_address(name, p.addr, p.len)?,
        None if args.has("del") => r.remove_all_addresses(name)?,
        None => {
            return Err(crate::error::Error::refused(
                "`all` goes with `del`: name the address to add",
            ));
        }
    }
    Ok(Output::Done)
}

fn table4(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    r.bind_table(name(args)?, Family::Ip4, args.need("table")?)?;
    Ok(Output::Done)
}

fn table6(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    r.bind_table(name(args)?, Family::Ip6, args.need("table")?)?;
    Ok(Output::Done)
}

fn mtu(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    if args.has("default") {
        r.reset_mtu(name(args)?)?;
    } else {
        r.set_mtu(name(args)?, args.need("mtu")?, args.has("packet"))?;
    }
    Ok(Output::Done)
}

fn set_mac(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    r.set_mac(name(args)?, args.need::<Mac>("mac")?.0)?;
    Ok(Output::Done)
}

fn promiscuous(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    r.set_promiscuous(name(args)?, on(args))?;
    Ok(Output::Done)
}

fn xconnect(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    r.set_xconnect(name(args)?, args.need("peer")?)?;
    Ok(Output::Done)
}

fn l3(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    r.set_l3(name(args)?)?;
    Ok(Output::Done)
}

fn unnumbered(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    r.set_unnumbered(name(args)?, args.get("lender"))?;
    Ok(Output::Done)
}

fn tag(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    r.set_tag(name(args)?, Some(args.need::<&str>("tag")?.to_owned()))?;
    Ok(Output::Done)
}

fn untag(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    r.set_tag(name(args)?, None)?;
    Ok(Output::Done)
}

fn mpls(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    r.set_mpls(name(args)?, on(args))?;
    Ok(Output::Done)
}

fn enable_ip6(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    r.set_ip6_enabled(name(args)?, true)?;
    Ok(Output::Done)
}

fn disable_ip6(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    r.set_ip6_enabled(name(args)?, false)?;
    Ok(Output::Done)
}
