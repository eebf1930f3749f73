//! Lines about sFlow and BGP.

use super::{Statement, Words, one};

/// Settings of sFlow and BGP with one value, and the line that holds without them.
const GLOBAL: &[(&str, &str)] = &[
    ("sflow direction", "rx"),
    ("sflow ifindex", "parshall"),
    ("sflow agent-address", "auto"),
    ("sflow sub-agent-id", "0"),
    ("sflow sampling-rate", "auto"),
    ("sflow sampling-ratio", "off"),
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

pub(super) fn telemetry(w: &Words<'_>, line: &str) -> Option<Vec<Statement>> {
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
    if let Some(at) = w.starts("sflow sampling-rate-at") {
        let word = w.get(at);
        let speed = parshall_agent::discover::speed(word);
        let speed = speed.map_or_else(|| word.to_owned(), |s| s.to_string());
        let words = format!("sflow sampling-rate-at {speed}");
        return Some(vec![one(
            words.clone(),
            w.get(at + 1),
            line,
            format!("{words} off"),
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
