//! `show vlib graph`: the nodes, which node each leads to and which lead to it.

use std::collections::BTreeSet;
use std::fmt::Write;

use parshall_command::{Args, CommandSpec};
use serde::Serialize;

use super::{Context, Handler, Output, command};
use crate::error::Result;
use crate::router::Router;
use crate::text::centre;

pub(super) const COMMANDS: &[CommandSpec<Handler>] = &[command(
    "show vlib graph [<node:name node>]",
    "Show graph nodes, and which node leads to which; of a name that is none, nothing",
    graph,
)];

#[derive(Serialize)]
struct ShownNode {
    node: &'static str,
    next: Vec<&'static str>,
    previous: Vec<&'static str>,
}

fn graph(r: &mut Router, args: &Args, cx: &Context) -> Result<Output> {
    let only = args.get::<&str>("node");
    let specs = r.engine.graph.specs();
    let mut edges: BTreeSet<(&str, &str)> = specs
        .iter()
        .flat_map(|s| s.next.iter().map(|n| (s.name, *n)))
        .collect();
    // A feature leads to the one behind it, the last to where the arc ends.
    for (_, names) in r.engine.graph.arc_order() {
        edges.extend(
            names
                .windows(2)
                .filter_map(|w| Some((*w.first()?, *w.get(1)?))),
        );
    }
    let mut rows: Vec<ShownNode> = specs
        .iter()
        .filter(|s| only.is_none_or(|o| o == s.name))
        .map(|s| ShownNode {
            node: s.name,
            next: edges
                .iter()
                .filter(|e| e.0 == s.name)
                .map(|e| e.1)
                .collect(),
            previous: edges
                .iter()
                .filter(|e| e.1 == s.name)
                .map(|e| e.0)
                .collect(),
        })
        .collect();
    rows.sort_by_key(|n| n.node);
    cx.show(&rows, |rows| {
        let mut out = line("Name", "Next", "Previous");
        for n in rows {
            for i in 0..n.next.len().max(n.previous.len()).max(1) {
                let part = |of: &[&'static str]| of.get(i).copied().unwrap_or("");
                let name = if i == 0 { n.node } else { "" };
                let _ = write!(out, "{}", line(name, part(&n.next), part(&n.previous)));
            }
            out.push('\n');
        }
        out
    })
}

fn line(name: &str, next: &str, previous: &str) -> String {
    let line = [name, next, previous].map(|w| centre(w, 30)).concat();
    format!("{}\n", line.trim_end())
}
