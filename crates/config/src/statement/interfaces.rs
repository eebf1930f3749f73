//! Lines that make interfaces, and that say what they are to be like.

use super::{Statement, Words, interface, one};

/// Commands that make interfaces: words, the word before a name of one's own, the command that deletes.
const MADE: &[(&str, &str, &str)] = &[
    ("create tap", "name", "delete tap"),
    (
        "create host-interface",
        "interface-name",
        "delete host-interface name",
    ),
    ("create interface af_xdp", "name", "delete interface af_xdp"),
    ("create interface memif", "name", "delete interface memif"),
    (
        "create loopback interface",
        "name",
        "delete loopback interface",
    ),
    (
        "create packet-generator interface",
        "name",
        "delete packet-generator interface",
    ),
    ("create pcap interface", "name", "delete pcap interface"),
];

/// Options that say what holds without them.
const DEFAULTS: [&str; 6] = [
    " mode auto ",
    " ring-size 1024 ",
    " buffer-size 2048 ",
    " rx-queues 1 ",
    " tx-queues 1 ",
    " master ",
];

pub(super) fn created(w: &Words<'_>, line: &str) -> Option<Vec<Statement>> {
    let (words, own, delete) = MADE.iter().find(|(words, ..)| w.starts(words).is_some())?;
    let at = w.starts(words)?;
    let number = |name| w.after(at, name).unwrap_or("0");
    let own = w.after(at, own);
    let usual = match *words {
        "create tap" => format!("tap{}", number("id")),
        "create host-interface" => format!("host-{}", w.after(at, "name")?),
        "create interface af_xdp" => format!("xdp-{}", w.after(at, "host-if")?),
        "create interface memif" => format!("memif{}/{}", number("socket-id"), number("id")),
        "create loopback interface" => format!("loop{}", number("instance")),
        "create packet-generator interface" => w.get(at).to_owned(),
        _ => format!("pcap{}", number("instance")),
    };
    let name = own.map_or(usual, str::to_owned);
    let memif = *words == "create interface memif";
    let mac = ["hw-addr", "mac"];
    // Its number does not matter where it does not name it: another interface may have taken it.
    let value = match (own, memif) {
        (Some(_), false) => {
            let text = w.without(at, &["hw-addr", "mac", "id", "instance"]);
            match *words {
                "create packet-generator interface" => text
                    .split_once(' ')
                    .map_or(text.clone(), |(_, rest)| rest.into()),
                _ => text,
            }
        }
        _ => w.without(at, &mac),
    };
    let value = DEFAULTS
        .iter()
        .fold(format!("{words} {value} "), |text, d| text.replace(d, " "));
    let mut made = one(
        interface(&name),
        value.trim_end(),
        line,
        format!("{delete} {name}"),
    )
    .replaced();
    if memif && number("socket-id") != "0" {
        made = made.on(format!("memif socket {}", number("socket-id")));
    }
    let mut all = vec![made];
    if let Some(mac) = mac.iter().find_map(|n| w.after(at, n)) {
        all.push(mac_address(&name, mac, true));
    }
    Some(all)
}

pub(super) fn mac_address(name: &str, mac: &str, inline: bool) -> Statement {
    let set = format!("set interface mac address {name} {mac}");
    let made = one(format!("mac {name}"), mac, &set, String::new()).of(name);
    Statement { inline, ..made }
}

pub(super) fn settings(w: &Words<'_>, line: &str) -> Option<Vec<Statement>> {
    let statement = if let Some(at) = w.starts("set interface mtu") {
        // From the one to the other by way of neither: packets can be as large as frames alone let them.
        let (at, key) = match w.get(at) {
            "packet" => (at + 1, "packet-mtu"),
            _ => (at, "mtu"),
        };
        let name = w.get(at + 1);
        one(
            format!("{key} {name}"),
            w.get(at),
            line,
            format!("set interface mtu default {name}"),
        )
        .of(name)
    } else if let Some(at) = w.starts("set interface promiscuous on") {
        let name = w.get(at);
        one(
            format!("promiscuous {name}"),
            "on",
            line,
            format!("set interface promiscuous off {name}"),
        )
        .of(name)
    } else if let Some(at) = w.starts("set interface mac address") {
        return Some(vec![mac_address(w.get(at), w.get(at + 1), false)]);
    } else if let Some(at) = w.starts("set interface tag") {
        let name = w.get(at);
        let unset = format!("clear interface tag {name}");
        one(format!("tag {name}"), w.rest(at + 1), line, unset).of(name)
    } else if let Some(at) = w.starts("set interface rx-placement") {
        let (name, queue) = (w.get(at), w.after(at + 1, "queue").unwrap_or("0"));
        let unset = format!("set interface rx-placement {name} queue {queue} default");
        let worker = w.after(at + 1, "worker")?;
        one(format!("rx-placement {name} {queue}"), worker, line, unset).of(name)
    } else if let Some(at) = w.starts("set interface rx-mode") {
        let name = w.get(at);
        let unset = format!("set interface rx-mode {name} default");
        one(format!("rx-mode {name}"), w.rest(at + 1), line, unset).of(name)
    } else if let Some(at) = w.starts("set interface mpls") {
        let name = w.get(at);
        let unset = format!("set interface mpls {name} disable");
        one(format!("mpls {name}"), w.get(at + 1), line, unset)
            .of(name)
            .on("mpls table 0".into())
    } else if let Some(at) = w.starts("enable ip6 interface") {
        let name = w.get(at);
        one(
            format!("ip6 {name}"),
            "",
            line,
            format!("disable ip6 interface {name}"),
        )
        .of(name)
    } else if let Some(at) = w.starts("set interface state") {
        let name = w.get(at);
        if w.get(at + 1) != "up" {
            return Some(Vec::new());
        }
        one(
            format!("state {name}"),
            "up",
            line,
            format!("set interface state {name} down"),
        )
        .of(name)
        // A bond leads its members up and down.
        .on(format!("bond member {name}"))
    } else if let Some(at) = w.starts("set interface ip address") {
        address(w.get(at), w.get(at + 1), line)
    } else if let Some(at) = w.starts("set interface unnumbered") {
        let (name, lender) = (w.get(at), w.get(at + 2));
        let unset = format!("set interface unnumbered del {name}");
        one(format!("unnumbered {name}"), lender, line, unset)
            .of(name)
            .on(interface(lender))
            .replaced()
    } else if let Some((at, ip)) = table_words(w) {
        let (name, table) = (w.get(at), w.get(at + 1));
        let unset = format!("set interface {ip} table {name} 0");
        one(format!("{ip} table of {name}"), table, line, unset)
            .of(name)
            .on(format!("{ip} table {table}"))
            .replaced()
    } else {
        return None;
    };
    Some(vec![statement])
}

fn table_words(w: &Words<'_>) -> Option<(usize, &'static str)> {
    let v4 = w.starts("set interface ip table").map(|at| (at, "ip"));
    v4.or_else(|| w.starts("set interface ip6 table").map(|at| (at, "ip6")))
}

/// An address can be moved to another table only by taking it away.
fn address(name: &str, address: &str, line: &str) -> Statement {
    let ip = if address.contains(':') { "ip6" } else { "ip" };
    let unset = format!("set interface ip address del {name} {address}");
    one(format!("address {name} {address}"), "", line, unset)
        .of(name)
        .on(format!("{ip} table of {name}"))
        .replaced()
}
