//! Showing bridge domains and their stations.

use std::fmt::Write as _;

use parshall_command::{Args, CommandSpec};
use parshall_nodes::PortRole;
use serde::Serialize;

use super::{Context, Handler, Output};
use crate::bridge::{BridgeConfig, Domain, MacCounts, StationKind};
use crate::error::Result;
use crate::router::Router;
use crate::text::{centre, mac};

pub(super) const COMMANDS: &[CommandSpec<Handler>] = &[
    CommandSpec {
        pattern: "show bridge-domain [<id:u32>] [detail]",
        help: "Show bridge domains",
        detail: "",
        params: &[
            ("id", "One domain, by its number"),
            ("detail", "With the ports of each"),
        ],
        handler: show_domains,
    },
    CommandSpec {
        pattern: "show l2fib [* verbose | all | bd_id <id:u32>]",
        help: "Show the stations of bridge domains",
        detail: "Without a word only how many there are.",
        params: &[
            ("id", "Those of one domain"),
            ("verbose", "Every station"),
            ("all", "Every station"),
        ],
        handler: show_stations,
    },
];

#[derive(Serialize)]
struct ShownPort {
    interface: String,
    sw_if_index: u32,
    shg: u8,
    bvi: bool,
    uu_fwd: bool,
}

#[derive(Serialize)]
struct ShownDomain {
    bd_id: u32,
    index: u16,
    #[serde(flatten)]
    config: BridgeConfig,
    learned: u32,
    bvi: Option<String>,
    uu_fwd: Option<String>,
    arp_entries: Vec<(String, String)>,
    ports: Vec<ShownPort>,
}

fn shown(r: &Router, id: u32, d: &Domain) -> ShownDomain {
    let port = |index: &u32| {
        let p = r.bridge_port(*index)?;
        Some(ShownPort {
            interface: r.interfaces.name(*index),
            sw_if_index: *index,
            shg: p.shg,
            bvi: p.role == PortRole::Bvi,
            uu_fwd: p.role == PortRole::UuFwd,
        })
    };
    let ports: Vec<ShownPort> = d.ports.iter().filter_map(port).collect();
    let of = |is: fn(&ShownPort) -> bool| {
        let p = ports.iter().find(|p| is(p));
        p.map(|p| p.interface.clone())
    };
    ShownDomain {
        bd_id: id,
        index: d.index,
        config: d.config.clone(),
        learned: r.bridges.learned(id),
        bvi: of(|p| p.bvi),
        uu_fwd: of(|p| p.uu_fwd),
        arp_entries: d
            .arp
            .iter()
            .map(|(ip, m)| (ip.to_string(), mac(*m)))
            .chain(d.nd.iter().map(|(ip, m)| (ip.to_string(), mac(*m))))
            .collect(),
        ports,
    }
}

fn show_domains(r: &mut Router, args: &Args, cx: &Context) -> Result<Output> {
    let all: Vec<ShownDomain> = match args.get::<u32>("id") {
        Some(id) => vec![shown(r, id, r.bridge_domain(id)?)],
        None => r.bridge_domains().map(|(id, d)| shown(r, id, d)).collect(),
    };
    let detail = args.has("detail");
    cx.show(&all, |all| print_domains(all, detail))
}

/// VPP's columns.
const WIDTHS: [usize; 13] = [8, 7, 5, 9, 10, 10, 11, 10, 10, 9, 9, 9, 11];

fn row(cells: [&str; 13]) -> String {
    let cells = cells.iter().zip(WIDTHS);
    let line: String = cells.map(|(c, w)| centre(c, w)).collect();
    line.trim_end().to_owned() + "\n"
}

fn print_domains(all: &[ShownDomain], detail: bool) -> String {
    if all.is_empty() {
        return "no bridge-domains in use\n".into();
    }
    let mut out = row([
        "BD-ID", "Index", "BSN", "Age(min)", "Learning", "U-Forwrd", "UU-Flood", "Flooding",
        "ARP-Term", "arp-ufwd", "Learn-co", "Learn-li", "BVI-Intf",
    ]);
    let on = |b: bool| if b { "on" } else { "off" };
    for d in all {
        let c = &d.config;
        let age = match c.mac_age {
            0 => "off".to_owned(),
            n => n.to_string(),
        };
        let limit = c.learn_limit.map_or("all".into(), |n| n.to_string());
        let uu = match (&d.uu_fwd, c.uu_flood) {
            (Some(name), _) => name.as_str(),
            (None, true) => "flood",
            (None, false) => "drop",
        };
        out += &row([
            &d.bd_id.to_string(),
            &d.index.to_string(),
            "0",
            &age,
            on(c.learn),
            on(c.forward),
            uu,
            on(c.flood),
            on(c.arp_term),
            on(c.arp_ufwd),
            &d.learned.to_string(),
            &limit,
            d.bvi.as_deref().unwrap_or("N/A"),
        ]);
        if detail {
            print_ports(&mut out, d);
        }
    }
    out
}

fn print_ports(out: &mut String, d: &ShownDomain) {
    let line = |cells: [&str; 6]| {
        let cells = cells.iter().zip([26, 8, 5, 5, 5, 9]);
        let line: String = cells.map(|(c, w)| centre(c, w)).collect();
        format!("     {}\n", line.trim_end())
    };
    if !d.config.tag.is_empty() {
        let _ = writeln!(out, "     BD-Tag: {}", d.config.tag);
    }
    if !d.ports.is_empty() {
        *out += &line(["Interface", "If-idx", "ISN", "SHG", "BVI", "TxFlood"]);
    }
    for p in &d.ports {
        *out += &line([
            &p.interface,
            &p.sw_if_index.to_string(),
            "1",
            &p.shg.to_string(),
            if p.bvi { "*" } else { "-" },
            if p.uu_fwd { "-" } else { "*" },
        ]);
    }
    for (ip, owner) in &d.arp_entries {
        let _ = writeln!(out, "     ARP {ip} is at {owner}");
    }
}

#[derive(Serialize)]
struct ShownStation {
    mac: String,
    bd_id: u32,
    bd_index: u16,
    interface: Option<String>,
    sw_if_index: Option<u32>,
    /// `None` = learned.
    kind: Option<StationKind>,
    idle_seconds: u32,
    ages: bool,
}

#[derive(Serialize)]
struct ShownTable {
    entries: usize,
    learned: usize,
    limit: usize,
    memory_bytes: usize,
    counts: MacCounts,
    stations: Vec<ShownStation>,
}

fn show_stations(r: &mut Router, args: &Args, cx: &Context) -> Result<Output> {
    let only = args.get::<u32>("id");
    if let Some(id) = only {
        r.bridge_domain(id)?;
    }
    let all = r.l2fib_entries();
    let wanted = args.has("verbose") || args.has("all") || only.is_some();
    let learned = all.iter().filter(|e| e.kind.is_none()).count();
    let listed = all
        .iter()
        .filter(|e| wanted && only.is_none_or(|id| id == e.bd_id));
    let table = ShownTable {
        entries: all.len(),
        learned,
        limit: r.bridges.macs.table().capacity(),
        memory_bytes: r.bridges.macs.table().memory(),
        counts: r.bridges.counts,
        stations: listed
            .map(|e| ShownStation {
                mac: mac(e.mac),
                bd_id: e.bd_id,
                bd_index: e.bd_index,
                interface: e.if_index.map(|i| r.interfaces.name(i)),
                sw_if_index: e.if_index,
                kind: e.kind,
                idle_seconds: e.age,
                ages: r
                    .bridge_domain(e.bd_id)
                    .is_ok_and(|d| d.config.mac_age != 0),
            })
            .collect(),
    };
    cx.show(&table, print_stations)
}

fn print_stations(t: &ShownTable) -> String {
    if t.entries == 0 {
        return "no l2fib entries\n".into();
    }
    let line = |cells: [&str; 9]| {
        let cells = cells.iter().zip([19, 7, 7, 8, 9, 7, 7, 5, 30]);
        let line: String = cells.map(|(c, w)| centre(c, w)).collect();
        line.trim_end().to_owned() + "\n"
    };
    let mut out = String::new();
    if !t.stations.is_empty() {
        out += &line([
            "Mac-Address",
            "BD-Idx",
            "If-Idx",
            "BSN-ISN",
            "Age(min)",
            "static",
            "filter",
            "bvi",
            "Interface-Name",
        ]);
    }
    let star = |b: bool| if b { "*" } else { "-" };
    for s in &t.stations {
        let age = match (s.kind, s.ages) {
            (Some(_), _) => "no".to_owned(),
            (None, false) => "dis".to_owned(),
            (None, true) => (s.idle_seconds / 60).to_string(),
        };
        let index = s
            .sw_if_index
            .map_or_else(|| "-1".to_owned(), |i| i.to_string());
        out += &line([
            &s.mac,
            &s.bd_index.to_string(),
            &index,
            "0/0",
            &age,
            star(s.kind.is_some()),
            star(s.kind == Some(StationKind::Filter)),
            star(s.kind == Some(StationKind::Bvi)),
            s.interface.as_deref().unwrap_or("N/A"),
        ]);
    }
    let c = &t.counts;
    let _ = writeln!(
        out,
        "L2FIB total/learned entries: {}/{}  Learn limit: {}\n\
         learned {}, moved {}, aged {}, not learned because the table was full {}",
        t.entries, t.learned, t.limit, c.learned, c.moved, c.aged, c.refused
    );
    out
}
