//! Tables and routes.

use parshall_control::{Family, IpNet, Path, Router, Via};
use parshall_vpp_wire::msg::*;

use super::address::{family, parts};
use super::{NONE, interface_of};
use crate::registry::{Answers, Cursor, Done, Refusal, Registry};
use crate::retval;

/// Routes of one page of a dump: a few milliseconds of the router's thread.
const PAGE: usize = 4096;
/// Labels that a path has room for.
const LABELS: usize = 16;

pub(super) fn register(t: &mut Registry) {
    t.ack(|r, m: &IpTableAddDel| set_table(r, &m.table, m.is_add));
    t.ack(|r, m: &IpTableAddDelV2| set_table(r, &m.table, m.is_add));
    t.ack(|r, m: &IpTableFlush| flush(r, family(m.table.is_ip6), m.table.table_id));
    t.answer(|r, m: &IpTableAllocate| {
        let f = family(m.table.is_ip6);
        let mut table = m.table.clone();
        if table.table_id == NONE {
            let free = (1..NONE).find(|id| !r.tables().any(|t| t == (f, *id)));
            table.table_id = free.unwrap_or(NONE);
        }
        set_table(r, &table, true)?;
        Ok(IpTableAllocateReply { retval: 0, table })
    });
    t.dump(|r, _: &IpTableDump, out| {
        for (f, id) in r.tables() {
            out.send(&IpTableDetails {
                table: table(f, id),
            });
        }
    });
    t.dump(|_, _: &IpMtableDump, _| {});
    t.answer(|r, m: &IpRouteAddDel| {
        change(r, &m.route, m.is_add, m.is_multipath)?;
        Ok(IpRouteAddDelReply {
            retval: 0,
            stats_index: 0,
        })
    });
    t.answer(|r, m: &IpRouteAddDelV2| {
        change(r, &first(&m.route), m.is_add, m.is_multipath)?;
        Ok(IpRouteAddDelV2Reply {
            retval: 0,
            stats_index: 0,
        })
    });
    t.pages(|r, m: &IpRouteDump, at, out| {
        Ok(dump(r, &m.table, at, out, |out, route| {
            out.send(&IpRouteDetails { route })
        }))
    });
    t.pages(|r, m: &IpRouteV2Dump, at, out| {
        Ok(dump(r, &m.table, at, out, |out, route| {
            out.send(&IpRouteV2Details {
                route: second(route),
            });
        }))
    });
    t.answer(|r, m: &IpRouteLookup| {
        let route = lookup(r, m.table_id, m.exact != 0, &m.prefix)?;
        Ok(IpRouteLookupReply { retval: 0, route })
    });
    t.answer(|r, m: &IpRouteLookupV2| {
        let route = second(lookup(r, m.table_id, m.exact != 0, &m.prefix)?);
        Ok(IpRouteLookupV2Reply { retval: 0, route })
    });
}

fn table(f: Family, id: u32) -> IpTable {
    let word = if f == Family::Ip6 { "ipv6" } else { "ipv4" };
    IpTable {
        table_id: id,
        is_ip6: f == Family::Ip6,
        name: format!("{word}-VRF:{id}"),
    }
}

/// Making a table that is there, and deleting one that is not, is no mistake in VPP; what clients put in goes with a table.
fn set_table(r: &mut Router, t: &IpTable, add: bool) -> Done<()> {
    let (f, id) = (family(t.is_ip6), t.table_id);
    let there = r.tables().any(|t| t == (f, id));
    match (there, add) {
        (false, true) => Ok(r.add_table(f, id)?),
        (true, false) if id != 0 => {
            flush(r, f, id)?;
            Ok(r.remove_table(f, id)?)
        }
        _ => Ok(()),
    }
}

fn flush(r: &mut Router, f: Family, id: u32) -> Done<()> {
    let all = r.static_routes(f, id);
    r.change_routes((f, id), all.into_iter().map(|net| (net, &[][..])))?;
    Ok(())
}

fn change(r: &mut Router, route: &IpRoute, add: bool, multipath: bool) -> Done<()> {
    let (ip, len) = parts(&route.prefix)?;
    let f = Family::of(ip);
    let at = (f, route.table_id, IpNet::new(ip, len));
    if route.paths.is_empty() && (add || multipath) {
        let why = format!("{}: no path is given", at.2);
        return Err(Refusal::new(retval::NO_PATHS, why));
    }
    let paths = || -> Done<Vec<Path>> { route.paths.iter().map(|p| path(r, p)).collect() };
    match (add, multipath) {
        (true, false) => {
            let paths = paths()?;
            Ok(r.replace_route(at, paths)?)
        }
        (true, true) => {
            let paths = paths()?;
            Ok(r.add_route(at, paths)?)
        }
        (false, true) => {
            let paths = paths()?;
            Ok(r.remove_route(at, &paths)?)
        }
        (false, false) => {
            // A route that is not there is gone: VPP says so too. A table that is not there is a mistake.
            r.change_routes((f, at.1), [(at.2, &[][..])])?;
            Ok(())
        }
    }
}

/// A path as the router has it.
pub(super) fn path(r: &Router, p: &FibPath) -> Done<Path> {
    let refuse = |why: String| Err(Refusal::new(retval::VALUE, why));
    let if_index = (p.sw_if_index != NONE).then_some(p.sw_if_index);
    if let Some(index) = if_index {
        let none = |e: Refusal| Refusal::new(retval::NO_MATCHING_INTERFACE, e.why);
        interface_of(r, index).map_err(none)?;
    }
    let via = match p.type_ {
        FibPathType::FIB_API_PATH_TYPE_NORMAL => normal(p, if_index)?,
        FibPathType::FIB_API_PATH_TYPE_LOCAL => Via::Receive {
            if_index: if_index.unwrap_or(0),
        },
        FibPathType::FIB_API_PATH_TYPE_DROP => Via::Blackhole,
        FibPathType::FIB_API_PATH_TYPE_ICMP_UNREACH => Via::Unreachable,
        FibPathType::FIB_API_PATH_TYPE_ICMP_PROHIBIT => Via::Prohibit,
        other => {
            return Err(Refusal::unimplemented(&format!(
                "a path of type {}",
                other.0
            )));
        }
    };
    let n = usize::from(p.n_labels);
    if n > LABELS {
        return refuse(format!("{n} labels: {LABELS} are possible"));
    }
    let labels = &p.label_stack[..n];
    Ok(Path {
        weight: u32::from(p.weight.max(1)),
        labels: labels.iter().map(|l| l.label).collect(),
        pipe: n != 0 && labels.iter().all(|l| l.is_uniform == 0),
        ..Path::new(via)
    })
}

fn normal(p: &FibPath, if_index: Option<u32>) -> Done<Via> {
    let ip = match p.proto {
        FibPathNhProto::FIB_API_PATH_NH_PROTO_IP4 => p.nh.address.ip4().into(),
        FibPathNhProto::FIB_API_PATH_NH_PROTO_IP6 => p.nh.address.ip6().into(),
        FibPathNhProto::FIB_API_PATH_NH_PROTO_MPLS if if_index.is_none() => {
            return Ok(Via::LookupMpls);
        }
        other => {
            return Err(Refusal::unimplemented(&format!(
                "a next hop of protocol {}",
                other.0
            )));
        }
    };
    let ip: std::net::IpAddr = ip;
    Ok(match (ip.is_unspecified(), if_index) {
        (false, _) => Via::NextHop { ip, if_index },
        (true, Some(if_index)) => Via::Attached { if_index },
        // Neither next hop nor interface: look the packet up again, in that table.
        (true, None) => Via::Lookup {
            family: Family::of(ip),
            table: p.table_id,
        },
    })
}

/// A path as VPP tells it.
pub(super) fn fib_path(p: &Path, table: u32, f: Family) -> FibPath {
    let proto = |ip6: bool| {
        if ip6 {
            FibPathNhProto::FIB_API_PATH_NH_PROTO_IP6
        } else {
            FibPathNhProto::FIB_API_PATH_NH_PROTO_IP4
        }
    };
    let mut out = FibPath {
        sw_if_index: NONE,
        table_id: table,
        weight: u8::try_from(p.weight).unwrap_or(u8::MAX),
        proto: proto(f == Family::Ip6),
        n_labels: p.labels.len().min(LABELS) as u8,
        ..FibPath::default()
    };
    for (to, label) in out.label_stack.iter_mut().zip(&p.labels) {
        to.label = *label;
        to.is_uniform = u8::from(!p.pipe);
    }
    match p.via {
        Via::Attached { if_index } => out.sw_if_index = if_index,
        Via::NextHop { ip, if_index } => {
            out.sw_if_index = if_index.unwrap_or(NONE);
            out.proto = proto(ip.is_ipv6());
            out.nh.address = AddressUnion::new(ip);
        }
        Via::Receive { if_index } => {
            out.type_ = FibPathType::FIB_API_PATH_TYPE_LOCAL;
            out.sw_if_index = if_index;
        }
        Via::Blackhole => out.type_ = FibPathType::FIB_API_PATH_TYPE_DROP,
        Via::Prohibit => out.type_ = FibPathType::FIB_API_PATH_TYPE_ICMP_PROHIBIT,
        Via::Unreachable => out.type_ = FibPathType::FIB_API_PATH_TYPE_ICMP_UNREACH,
        Via::Lookup { family, table } => {
            out.table_id = table;
            out.proto = proto(family == Family::Ip6);
        }
        Via::LookupMpls => out.proto = FibPathNhProto::FIB_API_PATH_NH_PROTO_MPLS,
    }
    out
}

fn told(f: Family, id: u32, (net, paths): &(IpNet, Vec<Path>)) -> IpRoute {
    IpRoute {
        table_id: id,
        stats_index: 0,
        prefix: Prefix::new(net.addr(), net.prefix_len()),
        paths: paths.iter().map(|p| fib_path(p, id, f)).collect(),
    }
}

fn dump(
    r: &Router,
    t: &IpTable,
    at: Cursor,
    out: &mut Answers,
    send: fn(&mut Answers, IpRoute),
) -> Option<Cursor> {
    let after = match at {
        Cursor::Route(net) => Some(net),
        _ => None,
    };
    let (f, id) = (family(t.is_ip6), t.table_id);
    let page = r.routes((f, id), after, PAGE);
    page.iter().for_each(|route| send(out, told(f, id, route)));
    let last = page.last().filter(|_| page.len() == PAGE);
    last.map(|l| Cursor::Route(l.0))
}

fn lookup(r: &Router, id: u32, exact: bool, prefix: &Prefix) -> Done<IpRoute> {
    let (ip, len) = parts(prefix)?;
    let (f, wanted) = (Family::of(ip), IpNet::new(ip, len));
    if !r.tables().any(|t| t == (f, id)) {
        return Err(Refusal::new(
            retval::NO_TABLE,
            format!("no {} table {id}", f.word()),
        ));
    }
    let found = r
        .route_to(f, id, ip)
        .filter(|(net, _)| !exact || *net == wanted);
    let found =
        found.ok_or_else(|| Refusal::new(retval::NO_ENTRY, format!("no route {wanted}")))?;
    Ok(told(f, id, &found))
}

fn first(route: &IpRouteV2) -> IpRoute {
    IpRoute {
        table_id: route.table_id,
        stats_index: route.stats_index,
        prefix: route.prefix.clone(),
        paths: route.paths.clone(),
    }
}

/// The newer form also says whose route it is: all are the API's.
fn second(route: IpRoute) -> IpRouteV2 {
    IpRouteV2 {
        table_id: route.table_id,
        stats_index: route.stats_index,
        prefix: route.prefix,
        src: 0,
        paths: route.paths,
    }
}
