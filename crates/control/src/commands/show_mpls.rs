//! `show mpls fib`, `show mpls interface`: labels and where they are spoken.

use std::fmt::Write;

use parshall_command::{Args, CommandSpec};
use serde::Serialize;

use super::show_fib::{ShownPath, print_forwarding, shown_list};
use super::{Context, Handler, Output, command};
use crate::error::{Error, Result};
use crate::router::Router;

pub(super) const COMMANDS: &[CommandSpec<Handler>] = &[
    command(
        "show mpls fib [<label:u32 0..=1048575>]",
        "Show what happens to labels",
        fib,
    ),
    command(
        "show mpls interface [<if:interface>]",
        "Show which interfaces speak MPLS",
        interfaces,
    ),
];

#[derive(Serialize)]
struct ShownLabel {
    label: u32,
    eos: bool,
    paths: Vec<ShownPath>,
    forwarding: Vec<ShownPath>,
    #[serde(skip)]
    index: u32,
}

fn fib(r: &mut Router, args: &Args, cx: &Context) -> Result<Output> {
    if !r.mpls_table {
        return Err(Error::NoTable {
            family: "mpls",
            id: 0,
        });
    }
    let only = args.get::<u32>("label");
    let mut rows = Vec::new();
    for (label, eos, id) in r.rib.labels() {
        let Some(list) = r.rib.list(id).filter(|_| only.is_none_or(|o| o == label)) else {
            continue;
        };
        let (paths, forwarding) = shown_list(r, list, "mpls");
        rows.push(ShownLabel {
            label,
            eos,
            paths,
            forwarding,
            index: list.made().dpo.index(),
        });
    }
    cx.show(&rows, |rows| {
        let mut out = format!("MPLS-VRF:0, fib_index:0 locks:[{}]\n", rows.len());
        for l in rows {
            let word = if l.eos { "eos" } else { "neos" };
            let _ = writeln!(out, "{}:{word}/21", l.label);
            print_forwarding(&mut out, &l.forwarding, "mpls", l.index);
        }
        out
    })
}

#[derive(Serialize)]
struct ShownInterface {
    interface: String,
    index: u32,
    mpls: bool,
}

fn interfaces(r: &mut Router, args: &Args, cx: &Context) -> Result<Output> {
    let only = args
        .get::<&str>("if")
        .map(|name| r.interfaces.find(name))
        .transpose()?;
    let rows: Vec<ShownInterface> = r
        .interfaces
        .iter()
        .filter(|i| only.map_or(i.mpls, |o| o == i.index))
        .map(|i| ShownInterface {
            interface: i.name.clone(),
            index: i.index,
            mpls: i.mpls,
        })
        .collect();
    cx.show(&rows, |rows| {
        rows.iter()
            .map(|i| {
                let word = if i.mpls { "enabled" } else { "disabled" };
                format!("{}\n  MPLS {word}\n", i.interface)
            })
            .collect()
    })
}
