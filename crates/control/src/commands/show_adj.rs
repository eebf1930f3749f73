//! `show adj`: adjacencies, the neighbours as routes use them.

use std::net::IpAddr;

use parshall_command::{Args, CommandSpec};
use serde::Serialize;

use super::{Context, Handler, Output, command};
use crate::adjacency::AdjKey;
use crate::error::Result;
use crate::path::Link;
use crate::router::Router;
use crate::text::hex;

pub(super) const COMMANDS: &[CommandSpec<Handler>] = &[command(
    "show adj [<index:u32>] [<if:interface>] [summary]",
    "Show adjacencies: neighbours as routes use them",
    adjacencies,
)];

/// An adjacency as VPP prints it, and whether its rewrite is known.
pub(super) fn adjacency_text(r: &Router, if_index: u32, ip: IpAddr, link: Link) -> (String, bool) {
    let key = AdjKey {
        if_index,
        next_hop: ip,
        link,
    };
    let name = r.interfaces.name(if_index);
    let found = r.forwarding.adjacencies.iter().find(|(k, ..)| **k == key);
    let slab = &r.engine.shared.adjacencies;
    let adj = found.and_then(|(_, index, _)| slab.get_control(index));
    match adj {
        Some(a) if a.is_complete() => (
            format!(
                "[@5]: {} via {ip} {name}: mtu:{} {}",
                link.word(),
                a.mtu(),
                hex(a.header())
            ),
            true,
        ),
        _ => {
            let word = if ip.is_ipv4() { "arp-ipv4" } else { "nd-ipv6" };
            (format!("[@3]: {word}: via {ip} {name}"), false)
        }
    }
}

#[derive(Serialize)]
struct ShownAdjacency {
    index: u32,
    interface: String,
    next_hop: String,
    link: &'static str,
    users: u32,
    complete: bool,
    #[serde(skip)]
    text: String,
}

fn shown(r: &Router, (key, index, users): (&AdjKey, u32, u32)) -> ShownAdjacency {
    let (text, complete) = adjacency_text(r, key.if_index, key.next_hop, key.link);
    ShownAdjacency {
        index,
        interface: r.interfaces.name(key.if_index),
        next_hop: key.next_hop.to_string(),
        link: key.link.word(),
        users,
        complete,
        text,
    }
}

fn adjacencies(r: &mut Router, args: &Args, cx: &Context) -> Result<Output> {
    let only = args.get::<u32>("index");
    let at = args
        .get::<&str>("if")
        .map(|name| r.interfaces.find(name))
        .transpose()?;
    let chosen = |(key, index, _): &(&AdjKey, u32, u32)| {
        only.is_none_or(|o| o == *index) && at.is_none_or(|a| a == key.if_index)
    };
    let mut rows: Vec<ShownAdjacency> = r
        .forwarding
        .adjacencies
        .iter()
        .filter(chosen)
        .map(|a| shown(r, a))
        .collect();
    rows.sort_by_key(|a| a.index);
    let summary = args.has("summary");
    cx.show(&rows, |rows| match only {
        _ if summary => format!("Number of adjacencies: {}\n", rows.len()),
        Some(index) if rows.is_empty() => format!("adjacency {index} invalid\n"),
        _ => rows
            .iter()
            .map(|a| {
                let text = a.text.split_once("]: ").map_or("", |t| t.1);
                format!("[@{}] {text}\n", a.index)
            })
            .collect(),
    })
}
