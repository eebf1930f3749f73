//! Neighbours: showing, setting, ageing.

use std::net::IpAddr;

use parshall_command::{Args, CommandSpec, Mac};
use serde::Serialize;

use super::{Context, Handler, Output, command};
use crate::error::Result;
use crate::neighbor::{NeighborConfig, NeighborState};
use crate::prefix::Family;
use crate::router::Router;
use crate::text::{centre, mac};

pub(super) const COMMANDS: &[CommandSpec<Handler>] = &[
    command(
        "show ip neighbor [<if:interface>]",
        "Show IPv4 neighbours (ARP)",
        |r, a, cx| show(r, a, cx, Family::Ip4),
    ),
    command(
        "show ip neighbors [<if:interface>]",
        "Show IPv4 neighbours (ARP)",
        |r, a, cx| show(r, a, cx, Family::Ip4),
    ),
    command(
        "show ip4 neighbors [<if:interface>]",
        "Show IPv4 neighbours (ARP)",
        |r, a, cx| show(r, a, cx, Family::Ip4),
    ),
    command(
        "show ip6 neighbor [<if:interface>]",
        "Show IPv6 neighbours (neighbour discovery)",
        |r, a, cx| show(r, a, cx, Family::Ip6),
    ),
    command(
        "show ip6 neighbors [<if:interface>]",
        "Show IPv6 neighbours (neighbour discovery)",
        |r, a, cx| show(r, a, cx, Family::Ip6),
    ),
    command(
        "show ip neighbor-config",
        "Show the settings of neighbour tables",
        show_config,
    ),
    command(
        "ip neighbor [del] <if:interface> <ip:ip> [<mac:mac>] [static]",
        "Set or remove a neighbour",
        set,
    ),
    CommandSpec {
        pattern: "set ip neighbor [del] <if:interface> <ip:ip> [<mac:mac>] [static]",
        help: "Set or remove a neighbour, as `ip neighbor`",
        detail: "A static neighbour stays until it is removed; another one ages like a learned one.",
        params: &[("mac", "Its Ethernet address; not needed to remove it")],
        handler: set,
    },
    CommandSpec {
        pattern: "set ip neighbor-config ( ip4 | ip6 ) [* limit <limit:u32 1..=1000000> | age <age:u32 0..=86400> \
                  | rate <rate:u32 1..=1000000>]",
        help: "Change how neighbours are kept",
        detail: "",
        params: &[
            ("limit", "Neighbours an interface may have"),
            (
                "age",
                "Seconds after the last confirmation at which a neighbour is probed; 0 = never",
            ),
            ("rate", "Solicitations an interface may send in a second"),
        ],
        handler: config,
    },
];

#[derive(Serialize)]
struct Shown {
    interface: String,
    ip: IpAddr,
    #[serde(skip_serializing_if = "Option::is_none")]
    mac: Option<String>,
    state: NeighborState,
    age_seconds: f64,
}

fn show(r: &mut Router, args: &Args, cx: &Context, family: Family) -> Result<Output> {
    let only = match args.get::<&str>("if") {
        Some(name) => Some(r.interfaces.find(name)?),
        None => None,
    };
    let now = r.now();
    let table = &r.neighbors[family as usize];
    let mut rows: Vec<_> = table
        .iter()
        .filter(|(k, _)| only.is_none_or(|i| i == k.if_index))
        .collect();
    rows.sort_by_key(|(k, _)| **k);
    let rows: Vec<Shown> = rows
        .into_iter()
        .map(|(k, n)| Shown {
            interface: r.interfaces.name(k.if_index),
            ip: k.ip,
            mac: n.mac.map(mac),
            state: n.state,
            age_seconds: now.saturating_sub(n.updated) as f64 / 1e9,
        })
        .collect();
    cx.show(&rows, |rows| print(rows))
}

fn print(rows: &[Shown]) -> String {
    let line = |age: &str, ip: &str, flags: &str, mac: &str, interface: &str| {
        let (age, ip) = (centre(age, 15), centre(ip, 40));
        let (flags, mac) = (centre(flags, 6), centre(mac, 20));
        format!("{age}{ip}{flags}{mac}{interface}\n")
    };
    let mut out = line("Age", "IP", "Flags", "Ethernet", &centre("Interface", 24));
    for n in rows {
        out.push_str(&line(
            &format!("{:.4}", n.age_seconds),
            &n.ip.to_string(),
            n.state.flags(),
            n.mac.as_deref().unwrap_or("00:00:00:00:00:00"),
            &n.interface,
        ));
    }
    out
}

#[derive(Serialize)]
struct ShownConfig {
    ip4: NeighborConfig,
    ip6: NeighborConfig,
}

fn show_config(r: &mut Router, _: &Args, cx: &Context) -> Result<Output> {
    let both = ShownConfig {
        ip4: r.neighbors[0].config(),
        ip6: r.neighbors[1].config(),
    };
    cx.show(&both, |both| {
        let line = |name: &str, c: &NeighborConfig| {
            format!(
                "{name}:\n  limit:{}, age:{}, rate:{}\n",
                c.limit, c.age, c.rate
            )
        };
        line("ip4", &both.ip4) + &line("ip6", &both.ip6)
    })
}

fn set(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    let (name, ip) = (args.need::<&str>("if")?, args.need::<IpAddr>("ip")?);
    if args.has("del") {
        r.remove_neighbor(name, ip)?;
    } else {
        let mac = args.need::<Mac>("mac")?;
        r.add_neighbor(name, ip, mac.0, args.has("static"))?;
    }
    Ok(Output::Done)
}

fn config(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    let family = if args.has("ip6") {
        Family::Ip6
    } else {
        Family::Ip4
    };
    let was = r.neighbors[family as usize].config();
    r.set_neighbor_config(
        family,
        NeighborConfig {
            limit: args.get("limit").unwrap_or(was.limit),
            age: args.get("age").unwrap_or(was.age),
            rate: args.get("rate").unwrap_or(was.rate),
            ..was
        },
    );
    Ok(Output::Done)
}
