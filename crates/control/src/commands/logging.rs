//! What is logged.

use std::fmt::Write;

use parshall_command::{Args, CommandSpec};
use serde_json::json;

use super::{Context, Handler, Output, command};
use crate::error::Result;
use crate::router::Router;

pub(super) const COMMANDS: &[CommandSpec<Handler>] = &[
    command("show logging", "Show what is logged, by module", show),
    CommandSpec {
        pattern: "set logging level <module:word> <level:{off|error|warn|info|debug|trace|default}>",
        help: "Set how much a module logs",
        detail: "Modules are the router's own, such as agent, control, drivers, bgp, web or control::rib, and `all`. `default` \
                 takes a level back: what the router was started with holds again.",
        params: &[("module", "A module, or all")],
        handler: set,
    },
];

fn set(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    let level: &str = args.need("level")?;
    r.set_log_level(args.need("module")?, (level != "default").then_some(level))?;
    Ok(Output::Done)
}

fn show(r: &mut Router, _: &Args, cx: &Context) -> Result<Output> {
    let log = &r.logging;
    let data = json!({"start": log.start, "levels": log.levels, "filter": log.filter()});
    cx.show(&data, |_| {
        let mut out = format!("started with: {}\n", log.start);
        for (module, level) in &log.levels {
            // Writing to a String cannot fail.
            let _ = writeln!(out, "{module:<30} {level}");
        }
        out
    })
}
