//! `show ip fib`, `show ip6 fib`, `show fib memory`: routes and what they come to.

use std::fmt::Write;

use parshall_command::{Args, CommandSpec, Prefix};
use serde::Serialize;

use super::show_adj::adjacency_text;
use super::{Context, Handler, Output, command};
use crate::error::Result;
use crate::path::{Leg, Link, Path, Target, Via};
use crate::prefix::{Family, IpNet};
use crate::rib::{PathList, Route, Source, Table};
use crate::router::Router;

pub(super) const COMMANDS: &[CommandSpec<Handler>] = &[
    CommandSpec {
        pattern: "show ip fib [* table <table:u32> | summary | <prefix:prefix4> | <addr:ip4>]",
        help: "Show IPv4 routes",
        detail: "With an address, the route that packets to it follow.",
        params: &[("table", "Only this table")],
        handler: |r, a, cx| fib(r, a, cx, Family::Ip4),
    },
    CommandSpec {
        pattern: "show ip6 fib [* table <table:u32> | summary | <prefix:prefix6> | <addr:ip6>]",
        help: "Show IPv6 routes",
        detail: "With an address, the route that packets to it follow.",
        params: &[("table", "Only this table")],
        handler: |r, a, cx| fib(r, a, cx, Family::Ip6),
    },
    command(
        "show fib memory",
        "Show what routes take, by structure and by route",
        memory,
    ),
    command(
        "show ip fib mtrie",
        "The same, where VPP's users look for it",
        memory,
    ),
];

/// One way of a route.
#[derive(Serialize)]
pub(super) struct ShownPath {
    #[serde(skip_serializing_if = "Option::is_none")]
    next_hop: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    interface: Option<String>,
    /// What happens, where there is no next hop.
    #[serde(skip_serializing_if = "Option::is_none")]
    action: Option<String>,
    weight: u32,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    labels: Vec<u32>,
    /// The rewrite is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    resolved: Option<bool>,
    #[serde(skip)]
    text: String,
}

#[derive(Serialize)]
struct ShownRoute {
    prefix: String,
    source: &'static str,
    /// As asked for.
    paths: Vec<ShownPath>,
    /// What that comes to now.
    forwarding: Vec<ShownPath>,
    #[serde(skip)]
    index: u32,
}

#[derive(Serialize)]
struct ShownTable {
    table: u32,
    index: u32,
    family: &'static str,
    routes: Vec<ShownRoute>,
}

pub(crate) fn source_name(s: Source) -> &'static str {
    match s {
        Source::Interface => "interface",
        Source::Static => "static",
        Source::Neighbor => "neighbor",
    }
}

fn via_word(via: Via, proto: &str, r: &Router) -> String {
    match via {
        Via::Attached { if_index } => {
            let name = r.interfaces.name(if_index);
            let mtu = r.interfaces.get(if_index).map_or(0, |i| i.mtu);
            let word = if proto == "ip6" { "ipv6" } else { "ipv4" };
            format!("[@4]: {word}-glean: {name}: mtu:{mtu}")
        }
        Via::Receive { if_index } => format!("[@2]: dpo-receive: {}", r.interfaces.name(if_index)),
        Via::Blackhole => format!("[@0]: dpo-drop {proto}"),
        Via::Prohibit => format!("[@0]: {proto}-prohibit"),
        Via::Unreachable => format!("[@0]: {proto}-unreachable"),
        Via::Lookup { family, table } => {
            let word = if family == Family::Ip4 {
                "ipv4"
            } else {
                "ipv6"
            };
            format!("[@13]: dst-address,unicast lookup in {word}-VRF:{table}")
        }
        Via::LookupMpls => "[@13]: lookup in MPLS-VRF:0".to_owned(),
        Via::NextHop { ip, .. } => format!("[@0]: unresolved via {ip}"),
    }
}

/// The word for a way out without a next hop, for JSON.
fn action(via: Via) -> Option<String> {
    Some(match via {
        Via::Attached { .. } => "attached".into(),
        Via::Receive { .. } => "receive".into(),
        Via::Blackhole => "blackhole".into(),
        Via::Prohibit => "prohibit".into(),
        Via::Unreachable => "unreachable".into(),
        Via::Lookup { family, table } => format!("lookup {} table {table}", family.word()),
        Via::LookupMpls => "lookup mpls".into(),
        Via::NextHop { .. } => return None,
    })
}

/// A path as snapshots tell it.
pub(crate) fn path_entry(r: &Router, p: &Path) -> crate::snapshot::PathEntry {
    let shown = shown_path(r, p);
    crate::snapshot::PathEntry {
        next_hop: shown.next_hop,
        interface: shown.interface,
        action: shown.action,
        weight: shown.weight,
        labels: shown.labels,
    }
}

fn shown_path(r: &Router, p: &Path) -> ShownPath {
    let (next_hop, if_index) = match p.via {
        Via::NextHop { ip, if_index } => (Some(ip.to_string()), if_index),
        Via::Attached { if_index } | Via::Receive { if_index } => (None, Some(if_index)),
        _ => (None, None),
    };
    ShownPath {
        next_hop,
        interface: if_index.map(|i| r.interfaces.name(i)),
        action: action(p.via),
        weight: p.weight,
        labels: p.labels.clone(),
        resolved: None,
        text: String::new(),
    }
}

fn shown_leg(r: &Router, leg: &Leg, proto: &str) -> ShownPath {
    let (if_index, ip) = match leg.target {
        Target::Neighbor { if_index, ip } => (if_index, ip),
        Target::Other(via) => {
            let path = Path {
                via,
                weight: leg.weight,
                labels: leg.labels.clone(),
                pipe: leg.pipe,
            };
            return ShownPath {
                text: via_word(via, proto, r),
                ..shown_path(r, &path)
            };
        }
    };
    let link = match proto {
        _ if !leg.labels.is_empty() => Link::Mpls,
        "ip6" => Link::Ip6,
        "ip4" => Link::Ip4,
        _ if ip.is_ipv4() => Link::Ip4,
        _ => Link::Ip6,
    };
    let (text, resolved) = adjacency_text(r, if_index, ip, link);
    let labels: String = leg.labels.iter().map(|l| format!("[{l}]")).collect();
    let text = if leg.labels.is_empty() {
        text
    } else {
        format!("[@10]: mpls-label:{labels} {text}")
    };
    ShownPath {
        next_hop: Some(ip.to_string()),
        interface: Some(r.interfaces.name(if_index)),
        action: None,
        weight: leg.weight,
        labels: leg.labels.clone(),
        resolved: Some(resolved),
        text,
    }
}

/// The paths of a list as they were asked for, and what they come to.
pub(super) fn shown_list(
    r: &Router,
    list: &PathList,
    proto: &str,
) -> (Vec<ShownPath>, Vec<ShownPath>) {
    let paths = list.paths().iter().map(|p| shown_path(r, p)).collect();
    let legs = list.legs().iter().map(|l| shown_leg(r, l, proto)).collect();
    (paths, legs)
}

fn shown_route(r: &Router, net: IpNet, route: Route) -> Option<ShownRoute> {
    let (source, id) = route.best()?;
    let list = r.rib.list(id)?;
    let (paths, forwarding) = shown_list(r, list, net.family().proto());
    Some(ShownRoute {
        prefix: net.to_string(),
        source: source_name(source),
        paths,
        forwarding,
        index: list.made().dpo.index(),
    })
}

/// The routes that are asked for.
fn chosen(table: &Table, args: &Args) -> Vec<(IpNet, Route)> {
    let addr = args.get::<std::net::IpAddr>("addr");
    if let Some(found) = addr.map(|a| table.lookup(a)) {
        return found.into_iter().collect();
    }
    match args.get::<Prefix>("prefix").map(IpNet::from) {
        Some(net) => {
            let exact = table.get(&net).map(|r| (net, r));
            let found = exact.or_else(|| net.is_host().then(|| table.lookup(net.addr())).flatten());
            found.into_iter().collect()
        }
        None => table.routes().collect(),
    }
}

fn fib(r: &mut Router, args: &Args, cx: &Context, family: Family) -> Result<Output> {
    let only = args.get::<u32>("table");
    if let Some(id) = only {
        r.rib.table(family, id)?;
    }
    if args.has("summary") {
        return summary(r, cx, family, only);
    }
    let mut tables = Vec::new();
    for (&(f, id), table) in r.rib.tables() {
        if f != family || only.is_some_and(|o| o != id) {
            continue;
        }
        let routes = chosen(table, args);
        tables.push(ShownTable {
            table: id,
            index: table.index,
            family: family.proto(),
            routes: routes
                .into_iter()
                .filter_map(|(n, route)| shown_route(r, n, route))
                .collect(),
        });
    }
    cx.show(&tables, |tables| {
        let mut out = String::new();
        tables.iter().for_each(|t| print_table(&mut out, t));
        out
    })
}

fn print_table(out: &mut String, t: &ShownTable) {
    let word = if t.family == "ip4" { "ipv4" } else { "ipv6" };
    // Writing to a String cannot fail, here and below.
    let _ = writeln!(
        out,
        "{word}-VRF:{}, fib_index:{}, flow hash:[src dst sport dport proto flowlabel ] epoch:0 flags:none locks:[{}]",
        t.table,
        t.index,
        t.routes.len()
    );
    for route in &t.routes {
        let _ = writeln!(out, "{}", route.prefix);
        print_forwarding(out, &route.forwarding, t.family, route.index);
    }
}

/// A load balance and its buckets, as VPP prints them.
pub(super) fn print_forwarding(out: &mut String, legs: &[ShownPath], proto: &str, index: u32) {
    let _ = writeln!(
        out,
        "  unicast-{proto}-chain\n  [@0]: dpo-load-balance: [proto:{proto} index:{index} buckets:{}]",
        legs.len()
    );
    let total: u32 = legs.iter().map(|l| l.weight).sum();
    for (i, leg) in legs.iter().enumerate() {
        let weight = match leg.weight {
            w if total == legs.len() as u32 || w == 0 => String::new(),
            w => format!(" weight:{w}"),
        };
        let _ = writeln!(out, "    [{i}] {}{weight}", leg.text);
    }
}

#[derive(Serialize)]
struct ShownSummary {
    table: u32,
    index: u32,
    routes: usize,
    /// Routes by prefix length.
    by_length: Vec<(u8, usize)>,
}

fn summary(r: &Router, cx: &Context, family: Family, only: Option<u32>) -> Result<Output> {
    let mut rows = Vec::new();
    for (&(f, id), table) in r.rib.tables() {
        if f != family || only.is_some_and(|o| o != id) {
            continue;
        }
        let mut by_length = std::collections::BTreeMap::new();
        for (net, _) in table.routes() {
            *by_length.entry(net.prefix_len()).or_insert(0usize) += 1;
        }
        rows.push(ShownSummary {
            table: id,
            index: table.index,
            routes: table.count(),
            by_length: by_length.into_iter().collect(),
        });
    }
    let word = if family == Family::Ip4 {
        "ipv4"
    } else {
        "ipv6"
    };
    cx.show(&rows, |rows| {
        let mut out = String::new();
        for t in rows {
            let _ = writeln!(
                out,
                "{word}-VRF:{}, fib_index:{}, flow hash:[src dst sport dport proto flowlabel ] epoch:0 flags:none locks:[{}]",
                t.table, t.index, t.routes
            );
            let _ = writeln!(out, "{:>20}{:>16}", "Prefix length", "Count");
            for (len, n) in &t.by_length {
                let _ = writeln!(out, "{len:>20}{n:>16}");
            }
        }
        out
    })
}

#[derive(Serialize)]
struct ShownMemory {
    routes: RouteCounts,
    structures: Vec<Structure>,
    bytes: usize,
    /// All bytes over all routes.
    bytes_per_route: f64,
}

#[derive(Serialize)]
struct RouteCounts {
    ip4: usize,
    ip6: usize,
}

#[derive(Serialize)]
struct Structure {
    name: String,
    bytes: usize,
    /// Of the routes of its family, or of all.
    bytes_per_route: f64,
}

impl Router {
    /// What routes take, by structure; and how many there are, IPv4 and IPv6.
    fn fib_memory(&self) -> ShownMemory {
        let s = &self.engine.shared;
        let families = [(Family::Ip4, s.ip4.usage()), (Family::Ip6, s.ip6.usage())];
        let per_route = |bytes: usize, routes: usize| bytes as f64 / routes.max(1) as f64;
        let mut structures = Vec::new();
        let mut add = |name: String, bytes, routes| {
            structures.push(Structure {
                name,
                bytes,
                bytes_per_route: per_route(bytes, routes),
            });
        };
        for (family, m) in &families {
            let parts = [
                ("tables", m.tables),
                ("first levels", m.roots),
                ("nodes", m.nodes),
                ("spare node memory", m.spare),
                ("prefixes, forwarding", m.prefixes),
                ("prefixes, control", self.rib.table_memory(*family)),
            ];
            for (part, bytes) in parts {
                add(format!("{} {part}", family.proto()), bytes, m.routes);
            }
        }
        let all = families.iter().map(|f| f.1.routes).sum();
        add("path lists".into(), self.rib.list_memory(), all);
        add("adjacencies".into(), s.adjacencies.memory(), all);
        add("load balances".into(), s.load_balances.memory(), all);
        let bytes = structures.iter().map(|s| s.bytes).sum();
        ShownMemory {
            routes: RouteCounts {
                ip4: families[0].1.routes,
                ip6: families[1].1.routes,
            },
            structures,
            bytes,
            bytes_per_route: per_route(bytes, all),
        }
    }

    /// Bytes that all routes take together, every structure counted: forwarding nodes with their spare
    /// memory, prefixes of both planes, path lists, adjacencies, load balances. Without the journal of a
    /// transaction under way.
    pub fn route_memory(&self) -> usize {
        self.fib_memory().bytes
    }
}

fn memory(r: &mut Router, _: &Args, cx: &Context) -> Result<Output> {
    cx.show(&r.fib_memory(), |m| {
        let mut out = format!(
            "{:<26}{:>14}{:>18}\n",
            "Structure", "Bytes", "Bytes a route"
        );
        let mut line = |name: &str, bytes: usize, each: f64| {
            let _ = writeln!(out, "{name:<26}{bytes:>14}{each:>18.1}");
        };
        for s in &m.structures {
            line(&s.name, s.bytes, s.bytes_per_route);
        }
        line("all", m.bytes, m.bytes_per_route);
        let _ = writeln!(
            out,
            "{} IPv4 and {} IPv6 routes",
            m.routes.ip4, m.routes.ip6
        );
        out
    })
}
