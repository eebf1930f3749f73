//! Lines about switching, and about interfaces without a device: bonds, sub-interfaces, tunnels.

use super::interfaces::mac_address;
use super::{Statement, Words, interface, one};

pub(super) fn layer2(w: &Words<'_>, line: &str) -> Option<Vec<Statement>> {
    let statement = if let Some(at) = w.starts("set interface l2 xconnect") {
        let (name, peer) = (w.get(at), w.get(at + 1));
        one(
            format!("l2 {name}"),
            &format!("xconnect {peer}"),
            line,
            format!("set interface l3 {name}"),
        )
        .of(name)
        .on(interface(peer))
    } else if let Some(at) = w.starts("set interface l2 bridge") {
        return Some(vec![port(w, at, line)]);
    } else if let Some(at) = w.starts("set interface l2 tag-rewrite") {
        let name = w.get(at);
        let unset = format!("set interface l2 tag-rewrite {name} disable");
        one(format!("tag-rewrite {name}"), w.rest(at + 1), line, unset)
            .of(name)
            .on(format!("l2 {name}"))
    } else if let Some(at) = w.starts("create bridge-domain") {
        return Some(domain(w, at, line));
    } else if let Some(at) = w.starts("set bridge-domain learn-limit") {
        let (id, limit) = (w.get(at), w.get(at + 1));
        let unset = format!("set bridge-domain learn-limit {id} {}", u32::MAX);
        one(format!("learn-limit of {id}"), limit, line, unset).part_of(bridge_domain(id))
    } else if let Some(at) = w.starts("set bridge-domain arp entry") {
        let (id, ip, mac) = (w.get(at), w.get(at + 1), w.get(at + 2));
        let unset = format!("set bridge-domain arp entry {id} {ip} {mac} del");
        one(format!("arp {id} {ip}"), mac, line, unset).part_of(bridge_domain(id))
    } else if let Some(at) = w.starts("l2fib add") {
        let (mac, id) = (w.get(at), w.get(at + 1));
        let unset = format!("l2fib del {mac} {id}");
        let made = one(format!("station {id} {mac}"), w.rest(at + 2), line, unset)
            .part_of(bridge_domain(id));
        match w.get(at + 2) {
            "filter" => made,
            name => made.on(format!("l2 {name}")),
        }
    } else if let Some(at) = w.starts("create bond") {
        let name = format!("BondEthernet{}", w.after(at, "id")?);
        let bond = one(
            interface(&name),
            &w.without(at, &["hw-addr"]),
            line,
            format!("delete bond {name}"),
        )
        .replaced();
        let mac = w.after(at, "hw-addr").map(|m| mac_address(&name, m, true));
        return Some([bond].into_iter().chain(mac).collect());
    } else if let Some(at) = w.starts("bond add") {
        let (bond, name) = (w.get(at), w.get(at + 1));
        let how = w.rest(at + 2);
        one(
            format!("bond member {name}"),
            format!("{bond} {how}").trim_end(),
            line,
            format!("bond del {name}"),
        )
        .on(interface(name))
        .on(interface(bond))
        .replaced()
    } else if let Some(at) = w
        .starts("create sub")
        .or_else(|| w.starts("create sub-interfaces"))
    {
        let (parent, id) = (w.get(at), w.get(at + 1));
        let name = format!("{parent}.{id}");
        one(
            interface(&name),
            w.rest(at + 2),
            line,
            format!("delete sub-interface {name}"),
        )
        .on(interface(parent))
        .replaced()
    } else if let Some(made) = tunnel(w, line) {
        made
    } else if let Some(at) = w.starts("lcp create") {
        let name = w.get(at);
        one(
            format!("lcp {name}"),
            w.rest(at + 1),
            line,
            format!("lcp delete {name}"),
        )
        .on(interface(name))
        .replaced()
    } else {
        return None;
    };
    Some(vec![statement])
}

fn bridge_domain(id: &str) -> String {
    format!("bridge-domain {id}")
}

/// A port moves from domain to domain by itself; but there is one of each role, which has to be free first.
fn port(w: &Words<'_>, at: usize, line: &str) -> Statement {
    let (name, domain) = (w.get(at), w.get(at + 1));
    let made = one(
        format!("l2 {name}"),
        &format!("bridge {}", w.rest(at + 1)),
        line,
        format!("set interface l3 {name}"),
    )
    .of(name)
    .on(bridge_domain(domain));
    match w.get(at + 2) {
        "bvi" | "uu-fwd" => made.replaced(),
        _ => made,
    }
}

/// Settings that the line which makes a domain can say: the word there, the command.
const SETTINGS: [(&str, &str); 6] = [
    ("learn", "learn"),
    ("flood", "flood"),
    ("uu-flood", "uu-flood"),
    ("forward", "forward"),
    ("arp-term", "arp term"),
    ("arp-ufwd", "arp-ufwd"),
];

fn domain(w: &Words<'_>, at: usize, line: &str) -> Vec<Statement> {
    let id = w.get(at);
    let tag = w.after(at + 1, "bd-tag").unwrap_or("");
    let unset = format!("create bridge-domain {id} del");
    let mut all = vec![one(bridge_domain(id), tag, line, unset).replaced()];
    let part = |key: String, value: &str, set: String, unset: String| Statement {
        inline: true,
        ..one(key, value, &set, unset).part_of(bridge_domain(id))
    };
    for (word, command) in SETTINGS {
        let Some(value) = w.after(at + 1, word) else {
            continue;
        };
        let on = format!("set bridge-domain {command} {id}");
        let off = format!("{on} disable");
        let (set, unset) = if value == "0" { (off, on) } else { (on, off) };
        all.push(part(format!("{word} of {id}"), value, set, unset));
    }
    if let Some(age) = w.after(at + 1, "mac-age") {
        let set = format!("set bridge-domain mac-age {id}");
        let (age_line, unset) = (format!("{set} {age}"), format!("{set} 0"));
        all.push(part(format!("mac-age of {id}"), age, age_line, unset));
    }
    all
}

/// Kinds of tunnels: the word of the command, what their names begin with, the word before their table.
const TUNNELS: [(&str, &str, &str); 3] = [
    ("vxlan", "vxlan_tunnel", "encap-vrf-id"),
    ("ipip", "ipip", "outer-table-id"),
    ("gre", "gre", "outer-table-id"),
];

fn tunnel(w: &Words<'_>, line: &str) -> Option<Statement> {
    let mut kinds = TUNNELS.into_iter();
    let start = |kind: &str| w.starts(&format!("create {kind} tunnel"));
    let (at, kind, stem, table) =
        kinds.find_map(|(kind, stem, table)| Some((start(kind)?, kind, stem, table)))?;
    let name = format!("{stem}{}", w.after(at, "instance")?);
    let unset = format!("delete {kind} tunnel {name}");
    let made = one(interface(&name), w.rest(at), line, unset).replaced();
    let ip = match w.after(at, "src") {
        Some(src) if src.contains(':') => "ip6",
        _ => "ip",
    };
    Some(match w.after(at, table) {
        Some(n) => made.on(format!("{ip} table {n}")),
        None => made,
    })
}
