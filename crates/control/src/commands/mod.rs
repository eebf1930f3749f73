//! The commands: one file a family, each command described once in the table that CLI, files,
//! configuration and the reference share.
//!
//! The words are VPP's where VPP has the command. Every `show` has its data first and prints that, as text
//! in VPP's columns or as JSON.

mod acl;
mod af_xdp;
mod bgp;
mod bond;
mod bridge;
mod bulk;
mod collectors;
mod configuration;
mod create;
mod diagnostics;
mod drops;
mod logging;
mod macip;
mod memif;
mod mpls;
mod neighbor;
mod packet_generator;
mod placement;
mod records;
mod route;
mod runtime;
mod sampling;
mod set_interface;
mod sflow;
mod sflow_netlink;
mod shell;
mod show_adj;
mod show_bridge;
mod show_fib;
mod show_graph;
mod show_interface;
mod show_mpls;
mod system;
mod talkers;
mod trace;
mod tunnel;
mod vlan;

use std::sync::Arc;

use parshall_command::{Args, CommandSpec, CommandTable};
use serde::Serialize;
use serde_json::Value;

use crate::error::{Error, Result};
use crate::router::Router;

pub use shell::{execute_lines, rehearse};

pub(crate) use runtime::{resident, slot_name};
pub(crate) use show_fib::{path_entry, source_name};

/// What executes a command.
pub type Handler = fn(&mut Router, &Args, &Context) -> Result<Output>;

/// How a command is asked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Context {
    /// Answer as data.
    pub json: bool,
}

/// What a command answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// It is done.
    Done,
    /// Text to print.
    Text(String),
    /// The same as data.
    Data(Value),
}

impl Context {
    /// `data` itself, or the text that `print` makes of it.
    ///
    /// # Errors
    /// When the data has no JSON form, which means a mistake of the program.
    fn show<T: Serialize>(&self, data: &T, print: impl FnOnce(&T) -> String) -> Result<Output> {
        if !self.json {
            return Ok(Output::Text(print(data)));
        }
        serde_json::to_value(data)
            .map(Output::Data)
            .map_err(|e| Error::refused(e.to_string()))
    }
}

/// A command without further words to explain.
const fn command(
    pattern: &'static str,
    help: &'static str,
    handler: Handler,
) -> CommandSpec<Handler> {
    CommandSpec {
        pattern,
        help,
        detail: "",
        params: &[],
        handler,
    }
}

const TOPICS: &[(&str, &str)] = &[
    ("show", "State, counters and settings"),
    ("show ip", "IPv4: routes and neighbours"),
    ("show ip4", "IPv4: neighbours"),
    ("show ip6", "IPv6: routes and neighbours"),
    ("show mpls", "MPLS: labels"),
    ("show bgp", "BGP routes that samples tell of"),
    ("set", "Settings"),
    ("set logging", "What is logged"),
    ("set acl-plugin", "Access lists"),
    (
        "show acl-plugin",
        "Access lists: rules, hits and where they hold",
    ),
    (
        "show acl-plugin macip",
        "Which stations may send from which addresses",
    ),
    ("set interface", "Settings of an interface"),
    ("set interface ip", "Addresses and table of an interface"),
    ("set interface l2", "Layer 2: cross-connect, VLAN tags"),
    ("set clock", "The shown clock"),
    ("api", "What VPP's tests ask of the API"),
    ("bond", "Members of bonds"),
    ("bgp", "Where AS paths in samples come from"),
    ("clear", "Start counters and traces anew"),
    (
        "configuration",
        "Plan, apply, confirm and roll back configurations",
    ),
    ("create", "Make an interface"),
    ("set bridge-domain", "What a bridge domain does"),
    ("l2fib", "Stations of bridge domains"),
    ("delete", "Delete an interface"),
    ("drop", "Dropped packets"),
    ("ip", "IPv4 and IPv6 routes, tables and neighbours"),
    ("mpls", "MPLS table and labels"),
    ("packet-generator", "Packet generator streams"),
    ("pcap", "Packets to a file"),
    ("sflow", "Packet sampling"),
    ("trace", "Follow packets through the graph"),
];

/// The table of all commands.
///
/// # Errors
/// When a pattern is broken: a mistake of the program that its tests find.
pub fn table() -> Result<Arc<CommandTable<Handler>>> {
    let families = [
        show_interface::COMMANDS,
        show_fib::COMMANDS,
        show_mpls::COMMANDS,
        show_adj::COMMANDS,
        show_graph::COMMANDS,
        runtime::COMMANDS,
        placement::COMMANDS,
        set_interface::COMMANDS,
        create::COMMANDS,
        bridge::COMMANDS,
        show_bridge::COMMANDS,
        vlan::COMMANDS,
        bond::COMMANDS,
        memif::COMMANDS,
        af_xdp::COMMANDS,
        route::COMMANDS,
        neighbor::COMMANDS,
        mpls::COMMANDS,
        acl::COMMANDS,
        macip::COMMANDS,
        tunnel::COMMANDS,
        sflow::COMMANDS,
        talkers::COMMANDS,
        collectors::COMMANDS,
        records::COMMANDS,
        bgp::COMMANDS,
        sflow_netlink::COMMANDS,
        sampling::COMMANDS,
        packet_generator::COMMANDS,
        trace::COMMANDS,
        drops::COMMANDS,
        logging::COMMANDS,
        configuration::COMMANDS,
        system::COMMANDS,
        diagnostics::COMMANDS,
    ];
    let all = families.into_iter().flatten().cloned().collect();
    let table = CommandTable::new(all).map_err(|e| Error::refused(e.to_string()))?;
    Ok(Arc::new(table.with_topics(TOPICS)))
}

#[cfg(test)]
mod tests;
