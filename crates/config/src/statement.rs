//! What a line of configuration says: what it is about, what it hangs on, and which line takes it back.
//!
//! Two lines of the same key are about the same thing, and say the same if their values are equal; that is all that the
//! differ ([`crate::diff`]) has to know. A line that is no configuration (`show`, `clear`) has no statement.

use parshall_command::{Token, tokenize};

/// How a statement with another value takes the place of an old one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Its line alone does it; what hangs on it stays.
    InPlace,
    /// The old one is taken back first, with all that hangs on it.
    Replace,
}

/// What a line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// What it is about: "mtu tap0".
    pub key: String,
    /// What it says of that.
    pub value: String,
    /// The line that makes it so.
    pub set: String,
    /// The line that does when there was another value; `set` where empty.
    pub change_line: String,
    /// The line that takes it back; empty when it goes only with its owner.
    pub unset: String,
    /// How it changes.
    pub change: Change,
    /// Keys that it hangs on.
    pub parents: Vec<String>,
    /// The parent with which it goes without a word.
    pub owner: Option<String>,
    /// The line of its owner says it too.
    pub inline: bool,
}

/// A line cut into words.
struct Words<'l> {
    line: &'l str,
    tokens: Vec<Token<'l>>,
}

impl<'l> Words<'l> {
    fn get(&self, at: usize) -> &str {
        self.tokens.get(at).map_or("", |t| &t.text)
    }
    fn starts(&self, words: &str) -> Option<usize> {
        let mut n = 0;
        for (i, w) in words.split(' ').enumerate() {
            if self.get(i) != w {
                return None;
            }
            n = i + 1;
        }
        Some(n)
    }
    /// The words as they are written, from `at` on.
    fn rest(&self, at: usize) -> &'l str {
        self.tokens.get(at).map_or("", |t| &self.line[t.start..])
    }
    /// The word after `name`, from `at` on.
    fn after(&self, at: usize, name: &str) -> Option<&str> {
        let mut pairs = self
            .tokens
            .iter()
            .skip(at)
            .zip(self.tokens.iter().skip(at + 1));
        pairs.find(|(n, _)| n.text == name).map(|(_, v)| &*v.text)
    }
    /// The line without `names` and the word behind each.
    fn without(&self, at: usize, names: &[&str]) -> String {
        let (mut out, mut skip) = (Vec::new(), false);
        for t in self.tokens.iter().skip(at) {
            if !std::mem::take(&mut skip) {
                if names.contains(&&*t.text) {
                    skip = true;
                } else {
                    out.push(&self.line[t.start..t.end]);
                }
            }
        }
        out.join(" ")
    }
}

/// Key of an interface.
pub fn interface(name: &str) -> String {
    format!("interface {name}")
}

fn one(key: String, value: &str, set: &str, unset: String) -> Statement {
    Statement {
        key,
        value: value.into(),
        set: set.into(),
        change_line: String::new(),
        unset,
        change: Change::InPlace,
        parents: Vec::new(),
        owner: None,
        inline: false,
    }
}

impl Statement {
    /// It is a setting of an interface and goes with it.
    fn of(mut self, name: &str) -> Statement {
        self.parents.push(interface(name));
        self.owner = Some(interface(name));
        self
    }
    fn on(mut self, parent: String) -> Statement {
        self.parents.push(parent);
        self
    }
    fn replaced(self) -> Statement {
        Statement {
            change: Change::Replace,
            ..self
        }
    }
}

/// What a line says; nothing when it is no configuration.
pub fn statements(line: &str) -> Vec<Statement> {
    let Ok(tokens) = tokenize(line) else {
        return Vec::new();
    };
    let words = Words { line, tokens };
    type Reader = fn(&Words<'_>, &str) -> Option<Vec<Statement>>;
    let readers: [Reader; 5] = [created, settings, routing, telemetry, layer2];
    readers
        .iter()
        .find_map(|r| r(&words, line))
        .unwrap_or_default()
}

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

fn created(w: &Words<'_>, line: &str) -> Option<Vec<Statement>> {
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

fn mac_address(name: &str, mac: &str, inline: bool) -> Statement {
    let set = format!("set interface mac address {name} {mac}");
    let made = one(format!("mac {name}"), mac, &set, String::new()).of(name);
    Statement { inline, ..made }
}

fn settings(w: &Words<'_>, line: &str) -> Option<Vec<Statement>> {
    let statement = if let Some(at) = w.starts("set interface mtu") {
        let at = at + usize::from(w.get(at) == "packet");
        let name = w.get(at + 1);
        let value = w.without(3, &[name]);
        one(
            format!("mtu {name}"),
            &value,
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

fn routing(w: &Words<'_>, line: &str) -> Option<Vec<Statement>> {
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

/// Settings of sFlow and BGP with one value, and the line that holds without them.
const GLOBAL: &[(&str, &str)] = &[
    ("sflow direction", "rx"),
    ("sflow ifindex", "parshall"),
    ("sflow agent-address", "auto"),
    ("sflow sub-agent-id", "0"),
    ("sflow sampling-rate", "auto"),
    ("sflow header-bytes", "128"),
    ("sflow polling-interval", "20"),
    ("sflow host-interval", "30"),
    ("sflow max-datagram", "1400"),
    ("sflow drop-monitoring", "off"),
    ("sflow netlink", "disable"),
    ("sflow discover", "off"),
    ("bgp local-as", "0"),
    ("bgp memory-limit", "1024"),
];

fn telemetry(w: &Words<'_>, line: &str) -> Option<Vec<Statement>> {
    if let Some((words, default)) = GLOBAL.iter().find(|(g, _)| w.starts(g).is_some()) {
        let at = w.starts(words)?;
        let value = normal(words, w.rest(at));
        return Some(vec![one(
            (*words).into(),
            &value,
            line,
            format!("{words} {default}"),
        )]);
    }
    if let Some(at) = w.starts("sflow records") {
        let kind = w.get(at);
        let known = parshall_agent::RecordKind::ALL
            .iter()
            .find(|k| k.name() == kind)?;
        let default = if known.is_default() { "on" } else { "off" };
        let unset = format!("sflow records {kind} {default}");
        return Some(vec![one(
            format!("sflow records {kind}"),
            w.get(at + 1),
            line,
            unset,
        )]);
    }
    if let Some(at) = w.starts("sflow enable") {
        let name = w.get(at);
        return Some(vec![
            one(
                format!("sflow {name}"),
                &sampling(w, at + 1),
                line,
                format!("sflow disable {name}"),
            )
            .of(name),
        ]);
    }
    if let Some(at) = w.starts("sflow collector add") {
        let who = w.rest(at);
        return Some(vec![one(
            format!("collector {who}"),
            "",
            line,
            format!("sflow collector del {who}"),
        )]);
    }
    let at = w.starts("bgp feed").filter(|at| w.get(*at) != "del")?;
    let feed = w.rest(at);
    Some(vec![one(
        format!("bgp feed {feed}"),
        "",
        line,
        format!("bgp feed del {feed}"),
    )])
}

/// How an interface is sampled, in one order and with what holds anyhow.
fn sampling(w: &Words<'_>, at: usize) -> String {
    let of = |name: &str| w.after(at, name);
    let max: u64 = of("max-rate")
        .and_then(|n| n.parse().ok())
        .unwrap_or(parshall_sample::MAX_RATE.into());
    let bounds = of("adaptive").map(|target| {
        let min = of("min-rate").map_or_else(|| max.min(100).to_string(), str::to_owned);
        format!("adaptive {target} {min} {max}")
    });
    let rest = ["sampling-rate", "direction", "header-bytes"];
    let rest = rest.iter().filter_map(|n| Some(format!("{n} {}", of(n)?)));
    bounds.into_iter().chain(rest).collect::<Vec<_>>().join(" ")
}

/// The one form of a value that can be written in several.
fn normal(words: &str, value: &str) -> String {
    match (words, value) {
        ("sflow netlink", "") => "group 3".into(),
        ("sflow netlink", "no-os-index") => "group 3 no-os-index".into(),
        _ => value.into(),
    }
}

fn layer2(w: &Words<'_>, line: &str) -> Option<Vec<Statement>> {
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
        .replaced()
    } else if let Some(at) = w.starts("set interface l2 bridge") {
        let (name, bridge) = (w.get(at), w.get(at + 1));
        one(
            format!("l2 {name}"),
            &format!("bridge {}", w.rest(at + 1)),
            line,
            format!("set interface l3 {name}"),
        )
        .of(name)
        .on(format!("bridge-domain {bridge}"))
        .replaced()
    } else if let Some(at) = w.starts("set interface l2 tag-rewrite") {
        let name = w.get(at);
        let unset = format!("set interface l2 tag-rewrite {name} disable");
        one(format!("tag-rewrite {name}"), w.rest(at + 1), line, unset)
            .of(name)
            .on(format!("l2 {name}"))
    } else if let Some(at) = w.starts("create bridge-domain") {
        let id = w.get(at);
        one(
            format!("bridge-domain {id}"),
            w.rest(at + 1),
            line,
            format!("create bridge-domain {id} del"),
        )
        .replaced()
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
        one(
            format!("bond member {name}"),
            bond,
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
    } else if let Some(at) = w.starts("create vxlan tunnel") {
        let of = |name| w.after(at, name).unwrap_or("");
        let (n, src, dst, vni) = (of("instance"), of("src"), of("dst"), of("vni"));
        let unset = format!("create vxlan tunnel instance {n} src {src} dst {dst} vni {vni} del");
        one(
            interface(&format!("vxlan_tunnel{n}")),
            w.rest(at),
            line,
            unset,
        )
        .replaced()
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
