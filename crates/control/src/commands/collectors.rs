//! sFlow: where samples go, and who the agent says it is.

use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};

use parshall_agent::discover::{DiscoveryStatus, Place};
use parshall_agent::elect::{Election, Rule};
use parshall_agent::{
    CollectorConfig, CollectorHost, CollectorState, CollectorStatus, Loss, Origin,
};
use parshall_command::{Args, CommandSpec, Prefix};
use serde::Serialize;

use super::{Context, Handler, Output, command};
use crate::error::{Error, Result};
use crate::router::Router;

/// The port of name servers.
const DNS: u16 = 53;

pub(super) const COMMANDS: &[CommandSpec<Handler>] = &[
    command(
        "show sflow collectors",
        "Show collectors: state, what was sent and lost, and why",
        show,
    ),
    CommandSpec {
        pattern: "sflow collector ( add | del ) <host:word> [* port <port:u16 1..=65535> | source <source:ip> \
                  | namespace <namespace:word> | device <device:word> | dscp <dscp:u8 0..=63> \
                  | datagrams-per-second <datagrams:u32 1..=10000000> \
                  | bits-per-second <bits:u64 8000..=1000000000000> | max-datagram <bytes:u32 600..=9000>]",
        help: "Send to a collector, or stop",
        detail: "Every collector gets all datagrams, as far as its limits let them. One that cannot be reached, whose namespace \
                 or device is not there, is tried again. `del` wants no more than tells it from another.",
        params: &[
            ("host", "Address or name"),
            ("port", "UDP port, 6343 when not given"),
            (
                "source",
                "Address to send from; the system's choice when not given",
            ),
            (
                "namespace",
                "Network namespace to send from: name, file or pid:NUMBER",
            ),
            (
                "device",
                "Interface to send through, whatever the routes say",
            ),
            ("dscp", "Code point of the datagrams, 0 when not given"),
            (
                "datagrams",
                "Most datagrams a second; what is more is lost and counted",
            ),
            (
                "bits",
                "Most bits of UDP payload a second; what is more is lost and counted",
            ),
            (
                "bytes",
                "Smaller datagrams than for all, with numbers of their own",
            ),
        ],
        handler: collector,
    },
    CommandSpec {
        pattern: "sflow discover ( off | ( auto | <domain:word> ) [* server <server:word> | namespace <namespace:word> \
                  | delay <seconds:u32 0..=3600>] )",
        help: "Ask the DNS for collectors: services _sflow._udp of a domain",
        detail: "SRV records name collectors, which come beside those configured. TXT records can say sampling, sampling.SPEED, \
                 polling, agentIP, agent, agent.cidr, dropLimit and headerBytes, which count in place of what is configured. Asked again \
                 after the lowest time to live, at least 10 seconds; after a failure in 1 second, then 2, 4 and so on up to 300.",
        params: &[
            ("domain", "The domain"),
            ("auto", "The domains that /etc/resolv.conf searches"),
            (
                "server",
                "Name server, with or without a port; the system's when not given",
            ),
            (
                "namespace",
                "Network namespace to ask from, and to send to these collectors from",
            ),
            ("seconds", "Longest random time before the first question"),
        ],
        handler: discover,
    },
    CommandSpec {
        pattern: "sflow agent-address ( <addr:ip> | auto [device <device:word>] \
                  (*rule ( prefer <network:prefix> | avoid <shunned:prefix> ) ) )",
        help: "Name the agent in datagrams",
        detail: "Rules are weighed as hsflowd does: the first network weighs most, and of several that contain an address the \
                 last one counts.",
        params: &[
            ("auto", "The best address there is"),
            ("device", "Interface whose addresses are better"),
            ("network", "Network whose addresses are better"),
            ("shunned", "Network whose addresses are the last choice"),
        ],
        handler: address,
    },
];

fn wanted(args: &Args) -> Result<CollectorConfig> {
    let host = args.need::<&str>("host")?;
    let mut c: CollectorConfig = host
        .parse()
        .map_err(|e: parshall_agent::ConfigError| Error::refused(e.to_string()))?;
    let text = |name| args.get::<&str>(name).map(str::to_owned);
    c.port = args.get("port").unwrap_or(c.port);
    c.source = args.get("source");
    c.namespace = text("namespace");
    c.device = text("device");
    c.dscp = args.get("dscp").unwrap_or(0);
    c.datagrams_per_second = args.get("datagrams");
    c.bits_per_second = args.get("bits");
    c.max_datagram = args.get("bytes");
    Ok(c)
}

fn collector(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    let wanted = wanted(args)?;
    if !args.has("del") {
        r.configure_agent(|c| c.collectors.push(wanted))?;
        return Ok(Output::Done);
    }
    let fits = |c: &CollectorConfig| {
        (&c.host, c.port) == (&wanted.host, wanted.port)
            && wanted.source.is_none_or(|_| c.source == wanted.source)
            && (wanted.namespace.is_none() || c.namespace == wanted.namespace)
            && (wanted.device.is_none() || c.device == wanted.device)
    };
    let all = &r.sflow.config.collectors;
    let mut found = all.iter().filter(|c| fits(c));
    // Of several the one that is just so is meant.
    let exact = all.iter().find(|c| c.is_same(&wanted));
    let gone = match (exact, found.next(), found.next()) {
        (Some(c), ..) | (None, Some(c), None) => c.clone(),
        (None, None, _) if by_dns(r, &wanted) => {
            let why = "is named by the DNS: `sflow discover off` stops asking it";
            return Err(Error::refused(format!("{wanted} {why}")));
        }
        (None, None, _) => return Err(Error::refused(format!("{wanted} is not a collector"))),
        (None, Some(a), Some(b)) => {
            return Err(Error::refused(format!(
                "{wanted} is not one collector: there are {a} and {b}"
            )));
        }
    };
    r.configure_agent(|c| c.collectors.retain(|x| !x.is_same(&gone)))?;
    Ok(Output::Done)
}

fn by_dns(r: &Router, wanted: &CollectorConfig) -> bool {
    let all = r.agent_config().collectors;
    all.iter()
        .any(|c| c.origin == Origin::Dns && (&c.host, c.port) == (&wanted.host, wanted.port))
}

fn discover(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    if args.has("off") {
        r.set_discovery(None)?;
        return Ok(Output::Done);
    }
    let place = Place {
        domain: args.get::<&str>("domain").map(str::to_owned),
        server: args.get::<&str>("server").map(server).transpose()?,
        namespace: args.get::<&str>("namespace").map(str::to_owned),
        delay: args.get("seconds").unwrap_or(0),
    };
    r.set_discovery(Some(place))?;
    Ok(Output::Done)
}

fn server(text: &str) -> Result<SocketAddr> {
    let address = text.parse::<SocketAddr>();
    let bare = text.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, DNS));
    address.or(bare).map_err(|_| {
        let shown = parshall_command::shown(text);
        Error::refused(format!(
            "`{shown}` is not the address of a name server, such as 192.0.2.1 or [2001:db8::1]:5353"
        ))
    })
}

fn address(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    let address = args.get::<IpAddr>("addr");
    let mut rules = Vec::new();
    for turn in args.group("rule") {
        let avoid = turn.has("avoid");
        let network: Prefix = turn.need(if avoid { "shunned" } else { "network" })?;
        rules.push(Rule {
            network: network.addr,
            length: network.len,
            avoid,
        });
    }
    let election = Election {
        device: args.get::<&str>("device").map(str::to_owned),
        rules,
    };
    r.configure_agent(|c| {
        c.agent_address = address;
        c.election = election;
    })?;
    Ok(Output::Done)
}

#[derive(Serialize)]
struct Shown {
    /// `None` while there is no agent.
    collectors: Option<Vec<CollectorStatus>>,
    configured: Vec<CollectorConfig>,
    discovery: Option<DiscoveryStatus>,
}

fn show(r: &mut Router, _: &Args, cx: &Context) -> Result<Output> {
    let shown = Shown {
        collectors: r.sflow.status().map(|s| s.collectors),
        configured: r.agent_config().collectors,
        discovery: r.discovery_status(),
    };
    cx.show(&shown, print)
}

fn print(s: &Shown) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail, here and below.
    match &s.collectors {
        Some(all) if all.is_empty() => out.push_str("no collectors\n"),
        Some(all) => all.iter().for_each(|c| print_one(&mut out, c)),
        None => {
            for c in &s.configured {
                let _ = writeln!(out, "collector {c}: the agent is not running");
            }
            if s.configured.is_empty() {
                out.push_str("no collectors\n");
            }
        }
    }
    if let Some(d) = &s.discovery {
        print_discovery(&mut out, d);
    }
    out
}

/// A collector in a few lines.
pub(super) fn print_one(out: &mut String, c: &CollectorStatus) {
    let state = match c.state {
        CollectorState::Up => "up".to_owned(),
        CollectorState::Resolving => "resolving its name".to_owned(),
        CollectorState::Waiting => {
            let retry = c.next_retry_ms.unwrap_or(0) as f64 / 1000.0;
            format!("cannot be reached, trying again in {retry:.1} s")
        }
    };
    let origin = match c.settings.origin {
        Origin::Configured => "",
        Origin::Dns => " (from the DNS)",
    };
    let _ = writeln!(
        out,
        "collector {}{origin}: {state}, sent {} failed {}",
        c.collector, c.sent, c.failed
    );
    let options = options(&c.settings);
    if !options.is_empty() {
        let _ = writeln!(out, "  {}", options.join(", "));
    }
    let lost: Vec<String> = Loss::ALL
        .iter()
        .filter(|l| c.lost.get(**l) > 0)
        .map(|l| format!("{} {}", c.lost.get(*l), l.words()))
        .collect();
    if !lost.is_empty() {
        let _ = writeln!(out, "  lost: {}", lost.join(", "));
    }
    if let Some(e) = &c.last_error {
        let ago = c.last_error_ago_ms.unwrap_or(0) as f64 / 1000.0;
        let _ = writeln!(out, "  last error {ago:.1} s ago: {e}");
    }
}

fn options(c: &CollectorConfig) -> Vec<String> {
    let mut all = Vec::new();
    if c.dscp > 0 {
        all.push(format!("DSCP {}", c.dscp));
    }
    if let Some(n) = c.datagrams_per_second {
        all.push(format!("at most {n} datagrams a second"));
    }
    if let Some(n) = c.bits_per_second {
        all.push(format!("at most {n} bits a second"));
    }
    if let Some(n) = c.max_datagram {
        all.push(format!("datagrams below {n} bytes"));
    }
    all
}

fn print_discovery(out: &mut String, d: &DiscoveryStatus) {
    let domain = d.place.domain.as_deref().unwrap_or("auto");
    let next = if d.asking {
        "asking now".to_owned()
    } else {
        format!("asks again in {} s", d.next_question_ms / 1000)
    };
    let _ = writeln!(out, "discovery {domain}: {} answers, {next}", d.answers);
    if let Some(f) = &d.found {
        let names: Vec<String> = f.collectors.iter().map(name).collect();
        let all = if names.is_empty() {
            "no collectors".to_owned()
        } else {
            names.join(", ")
        };
        let ttl = f.ttl.map_or(String::new(), |t| format!(", good for {t} s"));
        let _ = writeln!(out, "  {}: {all}{ttl}", f.name);
        for line in settings(&f.settings) {
            let _ = writeln!(out, "  {line}");
        }
        for note in &f.notes {
            let _ = writeln!(out, "  not used: {note}");
        }
    }
    if let Some(e) = &d.last_error {
        let ago = d.last_error_ago_ms.unwrap_or(0) / 1000;
        let _ = writeln!(
            out,
            "  {} in a row failed, the last {ago} s ago: {e}",
            d.failures
        );
    }
}

fn name(c: &CollectorConfig) -> String {
    match &c.host {
        CollectorHost::Address(a) => SocketAddr::new(*a, c.port).to_string(),
        CollectorHost::Name(n) => format!("{n}:{}", c.port),
    }
}

/// What the DNS says beside the collectors, in its words.
fn settings(s: &parshall_agent::discover::Settings) -> Vec<String> {
    let mut all = Vec::new();
    let mut add = |key: &str, value: Option<String>| {
        all.extend(value.map(|v| format!("{key}={v}")));
    };
    let text = |n: Option<u32>| n.map(|n| n.to_string());
    add("sampling", text(s.sampling));
    for (speed, n) in &s.sampling_by_speed {
        add(&format!("sampling.{speed}"), Some(n.to_string()));
    }
    add("sampling.bps_ratio", text(s.bps_ratio));
    add("polling", text(s.polling));
    add("agentIP", s.agent_address.map(|a| a.to_string()));
    add("agent", s.election.device.clone());
    for r in &s.election.rules {
        let not = if r.avoid { "!" } else { "" };
        add(
            "agent.cidr",
            Some(format!("{not}{}/{}", r.network, r.length)),
        );
    }
    add("dropLimit", text(s.drop_limit));
    add("headerBytes", text(s.header_bytes));
    all
}
