//! Lines about tables, routes, labels, neighbours, sockets and streams.

use parshall_command::tokenize;

use super::{Change, Statement, Words, interface, one};

/// Settings of neighbours, and what they are when nothing is said.
const NEIGHBORS: [(&str, u32); 3] = [("limit", 8192), ("age", 60), ("rate", 1000)];

pub(super) fn routing(w: &Words<'_>, line: &str) -> Option<Vec<Statement>> {
    for words in ["ip table", "ip6 table", "mpls table"] {
        if let Some(at) = w.starts(&format!("{words} add")) {
            let n = w.get(at);
            return Some(vec![
                one(format!("{words} {n}"), "", line, format!("{words} del {n}")).replaced(),
            ]);
        }
    }
    if let Some(at) = w.starts("create memif socket id") {
        let id = w.get(at);
        let unset = format!("delete memif socket id {id}");
        return Some(vec![
            one(format!("memif socket {id}"), w.rest(at + 1), line, unset).replaced(),
        ]);
    }
    if let Some(at) = w.starts("set ip neighbor-config") {
        let (family, name, value) = (w.get(at), w.get(at + 1), w.get(at + 2));
        // As `NeighborConfig` has them.
        let usual = NEIGHBORS.iter().find(|(n, _)| *n == name)?.1;
        let unset = format!("set ip neighbor-config {family} {name} {usual}");
        return Some(vec![one(
            format!("{family} neighbor {name}"),
            value,
            line,
            unset,
        )]);
    }
    if let Some(at) = w.starts("ip neighbor").filter(|at| w.get(*at) != "del") {
        let (name, ip) = (w.get(at), w.get(at + 1));
        let unset = format!("ip neighbor del {name} {ip}");
        return Some(vec![
            one(format!("neighbor {name} {ip}"), w.get(at + 2), line, unset).of(name),
        ]);
    }
    if let Some(at) = w.starts("mpls local-label add") {
        return Some(labels(w, at));
    }
    if let Some(at) = w.starts("packet-generator new") {
        let text = w.get(at);
        let inner = tokenize(text).unwrap_or_default();
        let inner = Words {
            line: text,
            tokens: inner,
        };
        let name = inner.after(0, "name").unwrap_or("").to_owned();
        let unset = format!("packet-generator delete {name}");
        let from = interface(inner.after(0, "interface").unwrap_or(""));
        return Some(vec![
            one(format!("stream {name}"), text.trim(), line, unset)
                .on(from)
                .replaced(),
        ]);
    }
    if let Some(at) = w.starts("packet-generator enable-stream") {
        let name = w.get(at);
        let unset = format!("packet-generator disable-stream {name}");
        let mut on =
            one(format!("started stream {name}"), "", line, unset).on(format!("stream {name}"));
        on.owner = Some(format!("stream {name}"));
        return Some(vec![on]);
    }
    let at = w
        .starts("ip route add")
        .or_else(|| w.starts("ip6 route add"))?;
    Some(vec![route(w, at, line)])
}

/// The ways of a route or label, each in a form of its own and in order, with what they hang on.
fn ways(w: &Words<'_>, at: usize) -> (String, Vec<String>) {
    let (mut ways, mut parents) = (Vec::new(), Vec::new());
    let mut way: Vec<&str> = Vec::new();
    let words = w.tokens.get(at..).unwrap_or_default();
    for (i, t) in words.iter().enumerate() {
        if t.text == "via" && !way.is_empty() {
            ways.push(way.join(" "));
            way.clear();
        }
        let before = |n: usize| {
            i.checked_sub(n)
                .and_then(|i| words.get(i))
                .map_or("", |t| &*t.text)
        };
        let text = match &*t.text {
            "drop" if before(1) == "via" => "blackhole",
            "weight" if words.get(i + 1).is_some_and(|n| n.text == "1") => continue,
            "1" if before(1) == "weight" => continue,
            text => text,
        };
        if let Some(family) = before(1).strip_suffix("-lookup-in-table") {
            let ip = if family == "ip4" { "ip" } else { family };
            if text != "0" {
                parents.push(format!("{ip} table {text}"));
            }
        } else if (before(1) == "via" || before(2) == "via") && is_name(text) {
            parents.push(interface(text));
        }
        way.push(text);
    }
    ways.push(way.join(" "));
    ways.sort();
    (ways.join(" "), parents)
}

/// Whether a word behind `via` or a next hop is the name of an interface.
fn is_name(word: &str) -> bool {
    const WORDS: [&str; 7] = [
        "weight",
        "out-labels",
        "pipe",
        "blackhole",
        "prohibit",
        "unreachable",
        "via",
    ];
    !WORDS.contains(&word)
        && !word.ends_with("-lookup-in-table")
        && word.parse::<std::net::IpAddr>().is_err()
}

fn route(w: &Words<'_>, at: usize, line: &str) -> Statement {
    let prefix = w.get(at);
    let within = match w.get(at + 1) {
        "table" => format!(" table {}", w.get(at + 2)),
        _ => String::new(),
    };
    let first = if within.is_empty() { at + 1 } else { at + 3 };
    let (value, mut parents) = ways(w, first);
    if !within.is_empty() {
        let ip = if prefix.contains(':') { "ip6" } else { "ip" };
        parents.push(format!("{ip}{within}"));
    }
    let rest = w.rest(first);
    let rest = if rest.starts_with("via ") {
        rest.to_owned()
    } else {
        format!("via {rest}")
    };
    Statement {
        change_line: format!("ip route replace {prefix}{within} {rest}"),
        parents,
        ..one(
            format!("route {prefix}{within}"),
            &value,
            line,
            format!("ip route del {prefix}{within}"),
        )
    }
}

fn labels(w: &Words<'_>, at: usize) -> Vec<Statement> {
    let label = w.get(at);
    let (stacks, first): (&[&str], usize) = match w.get(at + 1) {
        "eos" => (&["eos"], at + 2),
        "non-eos" => (&["non-eos"], at + 2),
        _ => (&["eos", "non-eos"], at + 1),
    };
    let (value, mut parents) = ways(w, first);
    parents.push("mpls table 0".into());
    let one = |stack: &&str| Statement {
        parents: parents.clone(),
        change: Change::Replace,
        ..one(
            format!("label {label} {stack}"),
            &value,
            &format!("mpls local-label add {label} {stack} {}", w.rest(first)),
            format!("mpls local-label del {label} {stack}"),
        )
    };
    stacks.iter().map(one).collect()
}
