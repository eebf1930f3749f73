//! BGP: where routes for the gateway record come from, and what they say.

use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use parshall_bgp::{Net, SegmentKind, text::show_community};
use parshall_command::{Args, CommandSpec, Prefix};
use serde::Serialize;

use super::{Context, Handler, Output, command};
use crate::bgp::{FeedSpec, FeedState, FeedStatus, ShownPath, Source};
use crate::error::{Error, Result};
use crate::router::Router;

pub(super) const COMMANDS: &[CommandSpec<Handler>] = &[
    command(
        "show bgp feed",
        "Show where BGP routes come from, and how many there are",
        show_feeds,
    ),
    CommandSpec {
        pattern: "show bgp route ( <net:prefix> | <addr:ip> )",
        help: "Show the BGP paths to a prefix, or to the longest one that an address lies in",
        detail: "The best path is the first; samples tell it.",
        params: &[("net", "Exactly this prefix"), ("addr", "An address")],
        handler: show_route,
    },
    CommandSpec {
        pattern: "bgp feed ( file | mrt ) <path:path>",
        help: "Take BGP routes from a file, for the AS paths in samples",
        detail: "A file of lines (PREFIX as-path AS ... communities A:B ... local-pref N next-hop ADDRESS), or an MRT \
                 dump, either packed with gzip or not. Given again, the command reads the file anew.",
        params: &[("path", "The file")],
        handler: add_file,
    },
    CommandSpec {
        pattern: "bgp feed bmp listen <address:word>",
        help: "Take BGP routes from routers that connect and speak BMP (RFC 7854)",
        detail: "Whoever can reach the address can tell routes: let it be one that only your routers reach.",
        params: &[("address", "ADDRESS:PORT to listen at")],
        handler: add_bmp,
    },
    CommandSpec {
        pattern: "bgp feed del ( file | mrt ) <path:path>",
        help: "Take the BGP routes of a file out",
        detail: "",
        params: &[("path", "The file")],
        handler: del_file,
    },
    CommandSpec {
        pattern: "bgp feed del bmp listen <address:word>",
        help: "Listen for BMP no more, and take those routes out",
        detail: "",
        params: &[("address", "ADDRESS:PORT")],
        handler: del_bmp,
    },
    CommandSpec {
        pattern: "bgp local-as <asn:u32>",
        help: "Set this router's own AS, as samples tell it",
        detail: "0 at first: not known. It stands for the AS of routes with an empty AS path, too.",
        params: &[("asn", "AS number")],
        handler: |r, a, _| {
            r.set_local_as(a.need("asn")?);
            Ok(Output::Done)
        },
    },
    CommandSpec {
        pattern: "bgp memory-limit <mib:u32 1..=1048576>",
        help: "Let BGP routes take so much memory",
        detail: "1024 at first: several full tables. Routes beyond it are left out and counted.",
        params: &[("mib", "MiB")],
        handler: |r, a, _| {
            let mib: u32 = a.need("mib")?;
            r.set_bgp_limit((mib as usize) << 20);
            Ok(Output::Done)
        },
    },
];

fn file(args: &Args) -> Result<FeedSpec> {
    let path = PathBuf::from(args.need::<&str>("path")?);
    Ok(if args.has("mrt") {
        FeedSpec::Mrt(path)
    } else {
        FeedSpec::File(path)
    })
}

fn bmp(args: &Args) -> Result<FeedSpec> {
    let text = args.need::<&str>("address")?;
    let address: SocketAddr = text.parse().map_err(|_| {
        Error::refused(format!(
            "{text:?} is no address to listen at; write ADDRESS:PORT, as in 192.0.2.1:10179 or [::1]:10179"
        ))
    })?;
    if address.port() == 0 {
        return Err(Error::refused("port 0 cannot be connected to".to_owned()));
    }
    Ok(FeedSpec::Bmp(address))
}

fn add_file(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    r.add_bgp_feed(&file(args)?)?;
    Ok(Output::Done)
}

fn add_bmp(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    r.add_bgp_feed(&bmp(args)?)?;
    Ok(Output::Done)
}

fn del_file(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    r.remove_bgp_feed(&file(args)?)?;
    Ok(Output::Done)
}

fn del_bmp(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    r.remove_bgp_feed(&bmp(args)?)?;
    Ok(Output::Done)
}

#[derive(Serialize)]
struct ShownFeed {
    feed: String,
    kind: &'static str,
    #[serde(flatten)]
    status: FeedStatus,
    sources: Vec<Source>,
}

#[derive(Serialize)]
struct Feeds {
    local_as: u32,
    ip4_prefixes: usize,
    ip6_prefixes: usize,
    paths: usize,
    attributes: usize,
    memory: usize,
    memory_limit: usize,
    feeds: Vec<ShownFeed>,
}

fn show_feeds(r: &mut Router, _: &Args, cx: &Context) -> Result<Output> {
    let bgp = r.bgp();
    let size = bgp.shared.table().size();
    let feeds = bgp.feeds().iter().map(|f| {
        let status = f.status();
        let sources = status.sources.iter();
        ShownFeed {
            feed: f.spec.to_string(),
            kind: f.spec.kind(),
            sources: sources.filter_map(|s| bgp.shared.source(*s)).collect(),
            status,
        }
    });
    let shown = Feeds {
        local_as: bgp.shared.local_as(),
        ip4_prefixes: size.prefixes[0],
        ip6_prefixes: size.prefixes[1],
        paths: size.paths,
        attributes: size.attributes,
        memory: size.memory,
        memory_limit: size.limit,
        feeds: feeds.collect(),
    };
    cx.show(&shown, print_feeds)
}

fn print_feeds(s: &Feeds) -> String {
    let mut out = String::new();
    let mib = |bytes: usize| bytes as f64 / f64::from(1 << 20);
    // Writing to a String cannot fail, here and below.
    let _ = writeln!(
        out,
        "local AS {}, IPv4 prefixes {}, IPv6 prefixes {}, paths {}, attributes {}, memory {:.1} of {:.0} MiB",
        s.local_as,
        s.ip4_prefixes,
        s.ip6_prefixes,
        s.paths,
        s.attributes,
        mib(s.memory),
        mib(s.memory_limit)
    );
    for f in &s.feeds {
        let state = match f.status.state {
            FeedState::Idle => "idle",
            FeedState::Loading => "being read",
            FeedState::Loaded => "read",
            FeedState::Failed => "failed",
            FeedState::Listening => "listening",
        };
        let _ = write!(out, "{}: {state}, read {}", f.feed, f.status.read);
        if let Some(ms) = f.status.took_ms {
            let _ = write!(out, " in {:.1} s", ms as f64 / 1000.0);
        }
        let _ = writeln!(
            out,
            ", skipped {}, without room {}",
            f.status.skipped, f.status.refused
        );
        for r in &f.status.routers {
            let _ = writeln!(out, "  router {r}");
        }
        for x in &f.sources {
            let _ = writeln!(
                out,
                "  {}: announced {}, withdrawn {}",
                x.name, x.announced, x.withdrawn
            );
        }
        if let Some(e) = &f.status.last_error {
            let _ = writeln!(out, "  last error: {e}");
        }
    }
    out
}

#[derive(Serialize)]
struct ShownRoute {
    prefix: String,
    paths: Vec<Path>,
}

#[derive(Serialize)]
struct Path {
    source: String,
    path_id: u32,
    as_path: String,
    segments: Vec<Segment>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_hop: Option<IpAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    local_pref: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    med: Option<u32>,
    communities: Vec<String>,
}

#[derive(Serialize)]
struct Segment {
    set: bool,
    ases: Vec<u32>,
}

fn show_route(r: &mut Router, args: &Args, cx: &Context) -> Result<Output> {
    let shared = &r.bgp().shared;
    let table = shared.table();
    let net = match (args.get::<Prefix>("net"), args.get::<IpAddr>("addr")) {
        (Some(p), _) => Net::new(p.addr, p.len),
        (None, Some(a)) => table.longest_match(a).and_then(|f| Net::new(a, f.0)),
        (None, None) => None,
    };
    let paths = net.map_or(Vec::new(), |n| table.paths_to(n));
    let Some(net) = net.filter(|_| !paths.is_empty()) else {
        return Err(Error::refused(
            "there is no BGP route to it; `show bgp feed` says what was taken in".to_owned(),
        ));
    };
    let shown = ShownRoute {
        prefix: net.to_string(),
        paths: paths
            .iter()
            .map(|p| shown_path(p, shared.source(p.source)))
            .collect(),
    };
    cx.show(&shown, print_route)
}

fn shown_path(p: &ShownPath, source: Option<Source>) -> Path {
    let segments = p.path.segments().map(|(kind, ases)| Segment {
        set: kind == SegmentKind::Set,
        ases: ases.to_vec(),
    });
    Path {
        source: source.map_or(String::new(), |s| s.name),
        path_id: p.path_id,
        as_path: p.path.to_string(),
        segments: segments.collect(),
        next_hop: p.path.next_hop,
        local_pref: p.path.local_pref,
        med: p.path.med,
        communities: p
            .path
            .communities()
            .iter()
            .map(|c| show_community(*c))
            .collect(),
    }
}

fn print_route(s: &ShownRoute) -> String {
    let mut out = format!("{}\n", s.prefix);
    for (i, p) in s.paths.iter().enumerate() {
        let mark = if i == 0 { '>' } else { ' ' };
        let path = if p.as_path.is_empty() {
            "(local)"
        } else {
            &p.as_path
        };
        let _ = write!(out, "{mark} as-path {path}");
        if let Some(h) = p.next_hop {
            let _ = write!(out, " next-hop {h}");
        }
        if let Some(v) = p.local_pref {
            let _ = write!(out, " local-pref {v}");
        }
        if let Some(v) = p.med {
            let _ = write!(out, " med {v}");
        }
        if !p.communities.is_empty() {
            let _ = write!(out, " communities {}", p.communities.join(" "));
        }
        let _ = writeln!(out, "\n    from {}", p.source);
    }
    out
}
