//! `show interface` and its relatives.

use std::fmt::Write;

use parshall_command::{Args, CommandSpec};
use parshall_counters::IfTotals;
use parshall_device::Duplex;
use serde::Serialize;

use super::{Context, Handler, Output, command};
use crate::error::Result;
use crate::interface::Interface;
use crate::prefix::Family;
use crate::router::Router;
use crate::text::{centre, mac};

pub(super) const COMMANDS: &[CommandSpec<Handler>] = &[
    command(
        "show interface [<if:interface>]",
        "Show interfaces: state, MTU and counters",
        interfaces,
    ),
    command(
        "show interface address [<if:interface>]",
        "Show the addresses of interfaces",
        addresses,
    ),
    command(
        "show hardware-interfaces [<if:interface>] [brief|verbose]",
        "Show the devices behind interfaces",
        hardware,
    ),
];

/// An interface as JSON shows it.
#[derive(Serialize)]
struct Shown {
    name: String,
    index: u32,
    admin_up: bool,
    link_up: bool,
    mtu: u32,
    max_frame: u32,
    mac: String,
    kind: &'static str,
    promiscuous: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    xconnect: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tag_rewrite: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unnumbered: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tag: Option<String>,
    ip_table: u32,
    ip6_table: u32,
    mpls: bool,
    addresses: Vec<String>,
    counters: IfTotals,
    rx_unicast: u64,
    tx_unicast: u64,
}

fn shown(r: &Router, i: &Interface) -> Shown {
    let info = i.device.as_ref().map(|d| d.info());
    let counters = r.interface_totals(i.index);
    Shown {
        name: i.name.clone(),
        index: i.index,
        admin_up: i.up,
        link_up: i.up && info.as_ref().map_or(i.link, |d| d.link_up),
        mtu: i.mtu,
        max_frame: i.max_frame,
        mac: mac(i.mac),
        kind: info.map_or_else(|| r.kind_word(i), |d| d.kind),
        promiscuous: i.promiscuous,
        xconnect: i.xconnect.map(|p| r.interfaces.name(p)),
        parent: i.parent.map(|p| r.interfaces.name(p)),
        tag_rewrite: (i.vtr.op() != 0).then(|| i.vtr.words()),
        unnumbered: i.unnumbered.map(|l| r.interfaces.name(l)),
        tag: i.tag.clone(),
        ip_table: i.table(Family::Ip4),
        ip6_table: i.table(Family::Ip6),
        mpls: i.mpls,
        addresses: address_texts(i),
        rx_unicast: counters
            .rx_packets
            .saturating_sub(counters.rx_multicast + counters.rx_broadcast),
        tx_unicast: counters
            .tx_packets
            .saturating_sub(counters.tx_multicast + counters.tx_broadcast),
        counters,
    }
}

fn address_texts(i: &Interface) -> Vec<String> {
    i.addresses
        .iter()
        .map(|(a, l)| format!("{a}/{l}"))
        .collect()
}

/// The interface that is named, or all.
fn chosen<'r>(r: &'r Router, args: &Args) -> Result<Vec<&'r Interface>> {
    match args.get::<&str>("if") {
        Some(name) => {
            let index = r.interfaces.find(name)?;
            Ok(r.interfaces.get(index).into_iter().collect())
        }
        None => {
            let mut all: Vec<&Interface> = r.interfaces.iter().collect();
            all.sort_by(|a, b| (a.index != 0, &a.name).cmp(&(b.index != 0, &b.name)));
            Ok(all)
        }
    }
}

fn interfaces(r: &mut Router, args: &Args, cx: &Context) -> Result<Output> {
    let rows: Vec<Shown> = chosen(r, args)?.into_iter().map(|i| shown(r, i)).collect();
    cx.show(&rows, |rows| {
        let mut out = format!(
            "{}{}{}{}{}{}\n",
            centre("Name", 32),
            centre("Idx", 5),
            centre("State", 10),
            centre("MTU (L3/IP4/IP6/MPLS)", 21),
            centre("Counter", 16),
            centre("Count", 16)
        );
        rows.iter().for_each(|row| print_interface(&mut out, row));
        out
    })
}

fn print_interface(out: &mut String, i: &Shown) {
    let state = if i.admin_up { "up" } else { "down" };
    let head = format!(
        "{:<32}{}{}{}",
        i.name,
        centre(&i.index.to_string(), 5),
        centre(state, 10),
        centre(&format!("{}/0/0/0", i.mtu), 21)
    );
    let c = &i.counters;
    let counts = [
        ("rx packets", c.rx_packets),
        ("rx bytes", c.rx_bytes),
        ("rx multicast", c.rx_multicast),
        ("rx broadcast", c.rx_broadcast),
        ("tx packets", c.tx_packets),
        ("tx bytes", c.tx_bytes),
        ("tx multicast", c.tx_multicast),
        ("tx broadcast", c.tx_broadcast),
        ("drops", c.rx_drops + c.tx_drops),
        ("punt", c.punts),
        ("rx-no-buf", c.rx_no_buffer),
        ("rx-miss", c.rx_missed),
        ("rx-error", c.rx_errors),
        ("tx-error", c.tx_errors),
    ];
    let mut first = true;
    for (name, n) in counts.into_iter().filter(|c| c.1 != 0) {
        let left = if first { head.as_str() } else { "" };
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(out, "{left:<68}{name:<16}{n:>16}");
        first = false;
    }
    if first {
        let _ = writeln!(out, "{head}");
    }
}

#[derive(Serialize)]
struct ShownAddresses {
    name: String,
    index: u32,
    admin_up: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    xconnect: Option<String>,
    ip_table: u32,
    ip6_table: u32,
    addresses: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    link_local: Option<String>,
}

fn addresses(r: &mut Router, args: &Args, cx: &Context) -> Result<Output> {
    let row = |i: &Interface| ShownAddresses {
        name: i.name.clone(),
        index: i.index,
        admin_up: i.up,
        xconnect: i.xconnect.map(|p| r.interfaces.name(p)),
        ip_table: i.table(Family::Ip4),
        ip6_table: i.table(Family::Ip6),
        addresses: address_texts(i),
        link_local: i.link_local().map(|a| a.to_string()),
    };
    let rows: Vec<_> = chosen(r, args)?.into_iter().map(row).collect();
    cx.show(&rows, |rows| {
        let mut out = String::new();
        for i in rows {
            let state = if i.admin_up { "up" } else { "dn" };
            let _ = writeln!(out, "{} ({state}):", i.name);
            if let Some(peer) = &i.xconnect {
                let _ = writeln!(out, "  L2 xconnect {peer}");
            }
            for a in &i.addresses {
                let (table, word) = if a.contains(':') {
                    (i.ip6_table, "ip6 table-id")
                } else {
                    (i.ip_table, "ip4 table-id")
                };
                let _ = match table {
                    0 => writeln!(out, "  L3 {a}"),
                    id => writeln!(out, "  L3 {a} {word} {id}"),
                };
            }
            if let Some(a) = &i.link_local {
                let _ = writeln!(out, "  L3 {a}/128 link-local");
            }
        }
        out
    })
}

#[derive(Serialize)]
struct ShownHardware {
    name: String,
    index: u32,
    link_up: bool,
    kind: &'static str,
    mac: String,
    max_frame: u32,
    /// Bits per second, 0 = unknown.
    speed: u64,
    duplex: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    os_index: Option<u32>,
    rx_queues: usize,
    tx_queues: usize,
    detail: String,
}

fn hardware(r: &mut Router, args: &Args, cx: &Context) -> Result<Output> {
    let row = |i: &Interface| {
        let info = i.device.as_ref().map(|d| d.info());
        ShownHardware {
            name: i.name.clone(),
            index: i.index,
            link_up: i.up && info.as_ref().map_or(i.link, |d| d.link_up),
            kind: info.as_ref().map_or_else(|| r.kind_word(i), |d| d.kind),
            mac: mac(i.mac),
            max_frame: i.max_frame,
            speed: info.as_ref().map_or(0, |d| d.speed),
            duplex: match info.as_ref().map(|d| d.duplex) {
                Some(Duplex::Full) => "full",
                Some(Duplex::Half) => "half",
                _ => "unknown",
            },
            os_index: info.as_ref().and_then(|d| d.os_index),
            rx_queues: info.as_ref().map_or(0, |d| d.rx_queues),
            tx_queues: info.as_ref().map_or(0, |d| d.tx_queues),
            detail: info.map_or_else(String::new, |d| d.detail),
        }
    };
    let rows: Vec<_> = chosen(r, args)?.into_iter().map(row).collect();
    let brief = args.has("brief");
    cx.show(&rows, |rows| {
        let mut out = format!(
            "{}{:>5}{:>7}  Hardware\n",
            centre("Name", 32),
            "Idx",
            "Link"
        );
        for h in rows {
            let link = if h.link_up { "up" } else { "down" };
            let _ = writeln!(out, "{:<32}{:>5}{link:>7}  {}", h.name, h.index, h.name);
            if !brief {
                print_hardware(&mut out, h);
            }
        }
        out
    })
}

fn print_hardware(out: &mut String, h: &ShownHardware) {
    let speed = match h.speed {
        0 => "unknown".to_owned(),
        n if n >= 1_000_000_000 => format!("{} Gbps", n as f64 / 1e9),
        n => format!("{} Mbps", n as f64 / 1e6),
    };
    let _ = writeln!(out, "  Link speed: {speed}");
    if h.kind == "local" {
        let _ = writeln!(out, "  local");
        return;
    }
    let _ = writeln!(
        out,
        "  RX Queues: {}, TX Queues: {}\n  Ethernet address {}\n  {} ({} duplex), max frame {} bytes",
        h.rx_queues, h.tx_queues, h.mac, h.kind, h.duplex, h.max_frame
    );
    if let Some(n) = h.os_index {
        let _ = writeln!(out, "  Linux interface index {n}");
    }
    if !h.detail.is_empty() {
        let _ = writeln!(out, "  {}", h.detail);
    }
}
