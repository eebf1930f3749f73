//! Tables and static routes.

use std::net::IpAddr;

use parshall_command::{Args, CommandSpec, Matched, Prefix};

use super::{Context, Handler, Output, command};
use crate::error::{Error, Result};
use crate::path::{Path, Via};
use crate::prefix::{Family, IpNet};
use crate::router::Router;

const ROUTE_PARAMS: &[(&str, &str)] = &[
    ("prefix", "Destination; an address alone is a host route"),
    ("table", "Table number, 0 when not given"),
    (
        "nh",
        "Next hop; without an interface it is looked up in the table",
    ),
    (
        "weight",
        "Share of the traffic, relative to the other paths",
    ),
    ("label", "Label to push, outermost first"),
    (
        "lookup",
        "Table in which the destination is looked up again",
    ),
    ("pipe", "The labelled stretch counts as one hop (RFC 3443)"),
];

const ROUTE_DETAIL: &str = "`add` adds a path to the route if it exists already, `del` removes the paths named, \
    or the whole route when none is; `replace` puts these paths in place of all it has, without a gap. `drop` and `blackhole` discard in silence, `prohibit` and `unreachable` \
    answer with ICMP.";

pub(super) const COMMANDS: &[CommandSpec<Handler>] = &[
    CommandSpec {
        pattern: "ip route ( add | del | replace ) <prefix:prefix> [table <table:u32>] (*path via ( <nh:ip> [<if:interface>] | <if:interface> \
                  | drop | blackhole | prohibit | unreachable | ip4-lookup-in-table <lookup:u32> \
                  | ip6-lookup-in-table <lookup:u32> ) [* weight <weight:u32 1..=255> \
                  | out-labels (+ <label:u32 0..=1048575>) | pipe])",
        help: "Add or remove a route",
        detail: ROUTE_DETAIL,
        params: ROUTE_PARAMS,
        handler: route,
    },
    CommandSpec {
        pattern: "ip route ( add | del ) <prefix:prefix> [table <table:u32>] ( blackhole | prohibit | unreachable )",
        help: "Add or remove a route that discards",
        detail: ROUTE_DETAIL,
        params: ROUTE_PARAMS,
        handler: special,
    },
    CommandSpec {
        pattern: "ip6 route ( add | del | replace ) <prefix:prefix6> [table <table:u32>] (*path via ( <nh:ip> [<if:interface>] | <if:interface> \
                  | drop | blackhole | prohibit | unreachable | ip6-lookup-in-table <lookup:u32> ) \
                  [* weight <weight:u32 1..=255> | out-labels (+ <label:u32 0..=1048575>) | pipe])",
        help: "Add or remove an IPv6 route, as `ip route`",
        detail: ROUTE_DETAIL,
        params: ROUTE_PARAMS,
        handler: route,
    },
    command(
        "ip table ( add | del ) <table:u32>",
        "Make or delete an IPv4 table",
        |r, a, _| table(r, a, Family::Ip4),
    ),
    command(
        "ip6 table ( add | del ) <table:u32>",
        "Make or delete an IPv6 table",
        |r, a, _| table(r, a, Family::Ip6),
    ),
];

/// Reads the turns of `(*path ...)`.
pub(super) fn paths(r: &Router, args: &Args) -> Result<Vec<Path>> {
    args.group("path").into_iter().map(|p| path(r, p)).collect()
}

fn path(r: &Router, p: &Args) -> Result<Path> {
    let if_index = match p.get::<&str>("if") {
        Some(name) => Some(r.interfaces.find_real(name)?),
        None => None,
    };
    let lookup = |family| -> Result<Via> {
        Ok(Via::Lookup {
            family,
            table: p.need("lookup")?,
        })
    };
    let via = match (p.get::<IpAddr>("nh"), if_index) {
        (Some(ip), if_index) => Via::NextHop { ip, if_index },
        (None, Some(if_index)) => Via::Attached { if_index },
        _ if p.has("prohibit") => Via::Prohibit,
        _ if p.has("unreachable") => Via::Unreachable,
        _ if p.has("ip4-lookup-in-table") => lookup(Family::Ip4)?,
        _ if p.has("ip6-lookup-in-table") => lookup(Family::Ip6)?,
        _ if p.has("mpls-lookup-in-table") => Via::LookupMpls,
        _ => Via::Blackhole,
    };
    Ok(Path {
        via,
        weight: p.get("weight").unwrap_or(1),
        labels: p.all("label"),
        pipe: p.has("pipe"),
    })
}

/// Table and paths of a line that adds a route with paths; `None` for any other.
pub(super) fn addition(r: &Router, found: &Matched<'_, Handler>) -> Option<(u32, Vec<Path>)> {
    let is_route = COMMANDS
        .iter()
        .any(|c| c.pattern == found.spec.pattern && c.pattern.contains("(*path"));
    let args = &found.args;
    if !is_route || !args.has("add") {
        return None;
    }
    let paths = paths(r, args).ok().filter(|p| !p.is_empty())?;
    Some((args.get("table").unwrap_or(0), paths))
}

fn destination(args: &Args) -> Result<(Family, u32, IpNet)> {
    let prefix = args.need::<Prefix>("prefix")?;
    let net = IpNet::new(prefix.addr, prefix.len);
    if net.addr() != prefix.addr {
        return Err(Error::refused(format!(
            "{prefix} has bits behind its prefix length set; {net} is the network"
        )));
    }
    if net.addr().is_multicast() {
        return Err(Error::refused(format!(
            "{net} is a multicast prefix: multicast is not routed"
        )));
    }
    Ok((net.family(), args.get("table").unwrap_or(0), net))
}

fn route(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    let at = destination(args)?;
    let paths = paths(r, args)?;
    if args.has("del") {
        r.remove_route(at, &paths)?;
    } else if paths.is_empty() {
        return Err(Error::refused("a route needs a path: say `via ...`"));
    } else if args.has("replace") {
        r.replace_route(at, paths)?;
    } else {
        r.add_route(at, paths)?;
    }
    Ok(Output::Done)
}

fn special(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    let at = destination(args)?;
    let via = if args.has("prohibit") {
        Via::Prohibit
    } else if args.has("unreachable") {
        Via::Unreachable
    } else {
        Via::Blackhole
    };
    let path = Path::new(via);
    if args.has("del") {
        r.remove_route(at, &[path])?;
    } else {
        r.add_route(at, vec![path])?;
    }
    Ok(Output::Done)
}

fn table(r: &mut Router, args: &Args, family: Family) -> Result<Output> {
    let id = args.need("table")?;
    if args.has("del") {
        r.remove_table(family, id)?;
    } else {
        r.add_table(family, id)?;
    }
    Ok(Output::Done)
}
