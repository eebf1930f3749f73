//! What MAC-IP lists there are and where they hold; they are made by the binary API.

use std::fmt::Write;

use parshall_command::{Args, CommandSpec};
use serde::Serialize;

use super::{Context, Handler, Output, command};
use crate::error::Result;
use crate::router::Router;
use crate::text;

pub(super) const COMMANDS: &[CommandSpec<Handler>] = &[
    CommandSpec {
        pattern: "show acl-plugin macip acl [index <index:u32>]",
        help: "Show MAC-IP access lists: which stations may send from which addresses",
        detail: "They are made by the binary API (macip_acl_add_replace). The first rule that matches decides, what matches none is \
                 dropped; ARP is judged by the sender it names, other protocols pass.",
        params: &[("index", "Number of the list")],
        handler: lists,
    },
    command(
        "show acl-plugin macip interface",
        "Show which interfaces have MAC-IP access lists",
        interfaces,
    ),
];

#[derive(Serialize)]
struct Shown {
    index: u32,
    tag: String,
    rules: Vec<ShownRule>,
}

#[derive(Serialize)]
struct ShownRule {
    action: &'static str,
    prefix: String,
    mac: String,
    mask: String,
}

fn lists(r: &mut Router, args: &Args, cx: &Context) -> Result<Output> {
    let only = args.get::<u32>("index");
    let rule = |rule: &parshall_acl::MacipRule| ShownRule {
        action: if rule.permit { "permit" } else { "deny" },
        prefix: format!("{}/{}", rule.src.0, rule.src.1),
        mac: text::mac(rule.mac),
        mask: text::mac(rule.mask),
    };
    let all = r.macip_acls().filter(|(n, _)| only.is_none_or(|o| o == *n));
    let shown: Vec<Shown> = all
        .map(|(index, acl)| Shown {
            index,
            tag: acl.tag.clone(),
            rules: acl.list.rules().iter().map(rule).collect(),
        })
        .collect();
    cx.show(&shown, |lists| {
        let mut out = String::new();
        for l in lists {
            // Writing to a String cannot fail.
            let _ = writeln!(
                out,
                "MACIP acl_index: {}, count: {} tag {{{}}}",
                l.index,
                l.rules.len(),
                l.tag
            );
            for (n, r) in l.rules.iter().enumerate() {
                let _ = writeln!(
                    out,
                    "    rule {n}: {} ip {} mac {} mask {}",
                    r.action, r.prefix, r.mac, r.mask
                );
            }
        }
        out
    })
}

#[derive(Serialize)]
struct Held {
    interface: String,
    sw_if_index: u32,
    acl: u32,
}

fn interfaces(r: &mut Router, _: &Args, cx: &Context) -> Result<Output> {
    let held = r.macip_interfaces().map(|(sw_if_index, acl)| Held {
        interface: r.interfaces().name(sw_if_index),
        sw_if_index,
        acl,
    });
    let held: Vec<Held> = held.collect();
    cx.show(&held, |held| {
        let line = |h: &Held| {
            format!(
                "  {} (sw_if_index {}): {}\n",
                h.interface, h.sw_if_index, h.acl
            )
        };
        held.iter().map(line).collect()
    })
}
