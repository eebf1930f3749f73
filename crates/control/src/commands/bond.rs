//! Bonds: several interfaces as one.

use std::fmt::Write;

use parshall_command::{Args, CommandSpec, Mac};
use parshall_wire::lacp::LacpInfo;
use serde::Serialize;

use super::{Context, Handler, Output, command};
use crate::error::{Error, Result};
use crate::interface::Interface;
use crate::router::Router;
use crate::virtual_interface::{BondBalance, BondMode, BondSpec};

pub(super) const COMMANDS: &[CommandSpec<Handler>] = &[
    CommandSpec {
        pattern: "create bond [id <id:u32 0..=65534>] mode <mode:{round-robin|active-backup|xor|broadcast|lacp}> \
                  [* load-balance <balance:{l2|l23|l34}> | hw-addr <mac:mac>]",
        help: "Make a bond: an interface whose traffic several others carry",
        detail: "It is called BondEthernetN. `load-balance` says what keeps packets on one member in the modes xor and lacp: \
                 Ethernet addresses (l2), with IP addresses (l23), or IP addresses and ports (l34).",
        params: &[
            (
                "id",
                "Number in its name; the lowest free one when not given",
            ),
            ("mode", "How a member is chosen for what is sent"),
            (
                "balance",
                "What keeps packets on one member; l2 when not given",
            ),
            (
                "mac",
                "Ethernet address; that of the first member when not given",
            ),
        ],
        handler: create,
    },
    CommandSpec {
        pattern: "bond add <if:interface> <member:interface> [* passive | long-timeout]",
        help: "Make an interface a member of a bond",
        detail: "`passive` speaks LACP only when spoken to, `long-timeout` wants to hear every 30 seconds, not every second.",
        params: &[("member", "An interface with nothing of its own")],
        handler: add,
    },
    CommandSpec {
        pattern: "bond del <member:interface> [<if:interface>]",
        help: "Take an interface out of its bond",
        detail: "The bond may be named before the member.",
        params: &[],
        handler: del,
    },
    command(
        "delete bond <if:interface>",
        "Delete a bond; its members stay",
        delete,
    ),
    command("show bond [details]", "Bonds and their members", show),
    command(
        "show lacp",
        "What members of bonds and their partners say",
        show_lacp,
    ),
];

fn create(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    let mode = match args.need::<&str>("mode")? {
        "round-robin" => BondMode::RoundRobin,
        "active-backup" => BondMode::ActiveBackup,
        "xor" => BondMode::Xor,
        "broadcast" => BondMode::Broadcast,
        _ => BondMode::Lacp,
    };
    let balance = match args.get::<&str>("balance") {
        Some("l23") => BondBalance::L23,
        Some("l34") => BondBalance::L34,
        _ => BondBalance::L2,
    };
    if args.has("load-balance") && !matches!(mode, BondMode::Xor | BondMode::Lacp) {
        return Err(Error::refused(
            "load-balance goes with the modes xor and lacp",
        ));
    }
    let spec = BondSpec {
        id: args.get("id"),
        mode,
        balance,
    };
    let name = r.create_bond(spec, args.get::<Mac>("mac").map(|m| m.0))?;
    Ok(Output::Text(name))
}

fn add(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    let how = (args.has("passive"), args.has("long-timeout"));
    r.add_bond_member(args.need("if")?, args.need("member")?, how)?;
    Ok(Output::Done)
}

fn del(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    let first = args.need::<&str>("member")?;
    let Some(member) = args.get::<&str>("if") else {
        r.remove_bond_member(first)?;
        return Ok(Output::Done);
    };
    let bond = r.interfaces.find_real(first)?;
    let index = r.interfaces.find_real(member)?;
    if !r.interfaces.members(bond).any(|m| m.index == index) {
        return Err(Error::Interface {
            name: member.into(),
            why: format!("is no member of {first}"),
        });
    }
    r.remove_bond_member(member)?;
    Ok(Output::Done)
}

fn delete(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    r.delete_bond(args.need("if")?)?;
    Ok(Output::Done)
}

#[derive(Serialize)]
struct Shown {
    name: String,
    index: u32,
    mode: &'static str,
    load_balance: &'static str,
    active_members: Vec<String>,
    members: Vec<String>,
}

fn show(r: &mut Router, args: &Args, cx: &Context) -> Result<Output> {
    let names = |list: Vec<&Interface>| list.iter().map(|m| m.name.clone()).collect();
    let row = |i: &Interface| {
        let spec = i.bond()?;
        Some(Shown {
            name: i.name.clone(),
            index: i.index,
            mode: spec.mode.word(),
            load_balance: spec.balance_word(),
            active_members: names(r.interfaces.active_members(i.index).collect()),
            members: names(r.interfaces.members(i.index).collect()),
        })
    };
    let rows: Vec<Shown> = r.interfaces.iter().filter_map(row).collect();
    let details = args.has("details");
    cx.show(&rows, |rows| {
        let mut out = format!(
            "{:<16} {:<12} {:<13} {:<14} {:<14} {:<14}\n",
            "interface name", "sw_if_index", "mode", "load balance", "active members", "members"
        );
        for b in rows {
            let _ = writeln!(
                out,
                "{:<16} {:<12} {:<13} {:<14} {:<14} {:<14}",
                b.name,
                b.index,
                b.mode,
                b.load_balance,
                b.active_members.len(),
                b.members.len()
            );
            if details {
                let _ = writeln!(out, "  active members: {}", b.active_members.join(" "));
                let _ = writeln!(out, "  members: {}", b.members.join(" "));
            }
        }
        out
    })
}

#[derive(Serialize)]
struct End {
    system_priority: u16,
    system: String,
    key: u16,
    port_priority: u16,
    port: u16,
    state: u8,
}

impl End {
    fn of(i: &LacpInfo) -> End {
        End {
            system_priority: i.system_priority,
            system: crate::text::mac(i.system),
            key: i.key,
            port_priority: i.port_priority,
            port: i.port,
            state: i.state,
        }
    }
    fn print(&self, out: &mut String, who: &str) {
        let _ = writeln!(
            out,
            "  {who:<8} {:04x},{},{:04x},{:04x},{:04x}  state {:#04x}",
            self.system_priority, self.system, self.key, self.port_priority, self.port, self.state
        );
    }
}

#[derive(Serialize)]
struct ShownPort {
    name: String,
    bond: String,
    receive: String,
    mux: String,
    actor: End,
    partner: End,
}

fn show_lacp(r: &mut Router, _: &Args, cx: &Context) -> Result<Output> {
    let row = |i: &Interface| {
        let port = r.lacp_port(i.index)?;
        let (receive, mux) = port.machines();
        let mux = format!("{mux:?}").to_lowercase();
        Some(ShownPort {
            name: i.name.clone(),
            bond: r.interfaces.name(i.member?.bond),
            receive: format!("{receive:?}").to_lowercase(),
            mux: mux.split('(').next().unwrap_or_default().to_owned(),
            actor: End::of(port.actor()),
            partner: End::of(port.partner()),
        })
    };
    let rows: Vec<ShownPort> = r.interfaces.iter().filter_map(row).collect();
    cx.show(&rows, |rows| {
        let mut out = String::new();
        for p in rows {
            let _ = writeln!(
                out,
                "{} in {}: receive {}, mux {}",
                p.name, p.bond, p.receive, p.mux
            );
            p.actor.print(&mut out, "actor");
            p.partner.print(&mut out, "partner");
        }
        out
    })
}
