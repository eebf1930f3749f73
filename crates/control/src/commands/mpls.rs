//! The MPLS table and its labels.

use parshall_command::{Args, CommandSpec};

use super::{Context, Handler, Output, command, route};
use crate::error::{Error, Result};
use crate::router::Router;

const PARAMS: &[(&str, &str)] = &[
    ("local", "The label that packets come in with"),
    (
        "nh",
        "Next hop; without an interface it is looked up in table 0",
    ),
    (
        "label",
        "Label to put in its place, outermost first; none = the label is popped",
    ),
    (
        "lookup",
        "Table in which the packet under the label is looked up",
    ),
];

pub(super) const COMMANDS: &[CommandSpec<Handler>] = &[
    command(
        "mpls table ( add | del ) <table:u32 0..=0>",
        "Make or delete the MPLS table",
        table,
    ),
    CommandSpec {
        pattern: "mpls local-label [add] <local:u32 16..=1048575> [eos | non-eos] \
                  (+path via ( <nh:ip> [<if:interface>] | ip4-lookup-in-table <lookup:u32> | ip6-lookup-in-table <lookup:u32> \
                  | mpls-lookup-in-table <lookup:u32 0..=0> | drop ) \
                  [* weight <weight:u32 1..=255> | out-labels (+ <label:u32 0..=1048575>) | pipe])",
        help: "Say what happens to packets with a label",
        detail: "`eos` is the entry for packets on which it is the last label, `non-eos` the one for others; \
                 without either it is both.",
        params: PARAMS,
        handler: add,
    },
    CommandSpec {
        pattern: "mpls local-label del <local:u32 16..=1048575> [eos | non-eos]",
        help: "Forget a label",
        detail: "",
        params: PARAMS,
        handler: del,
    },
];

fn table(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    r.set_mpls_table(args.has("add"))?;
    Ok(Output::Done)
}

fn which(args: &Args) -> &'static [bool] {
    match (args.has("eos"), args.has("non-eos")) {
        (true, _) => &[true],
        (_, true) => &[false],
        _ => &[true, false],
    }
}

fn add(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    let paths = route::paths(r, args)?;
    for eos in which(args) {
        r.add_label(args.need("local")?, *eos, paths.clone())?;
    }
    Ok(Output::Done)
}

fn del(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    let label: u32 = args.need("local")?;
    let named = args.has("eos") || args.has("non-eos");
    let there: Vec<bool> = which(args)
        .iter()
        .copied()
        .filter(|eos| named || r.has_label(label, *eos))
        .collect();
    if there.is_empty() {
        return Err(Error::refused(format!("no local label {label}")));
    }
    there
        .into_iter()
        .try_for_each(|eos| r.remove_label(label, eos))?;
    Ok(Output::Done)
}
