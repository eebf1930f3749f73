//! sFlow: which interfaces are sampled, how, and what they are called at collectors.

use std::fmt::Write;

use parshall_agent::discover::speed;
use parshall_command::{Args, CommandSpec};
use parshall_sample::MAX_RATE;
use serde::Serialize;

use super::{Context, Handler, Output, command};
use crate::error::{Error, Result};
use crate::ifindex::{IfIndexKind, OFFSET};
use crate::interface::Interface;
use crate::router::Router;
use crate::sampling::{Adaptive, LEAST, SampleDirection, SflowPort};

pub(super) const COMMANDS: &[CommandSpec<Handler>] = &[
    CommandSpec {
        pattern: "show sflow interfaces [<if:interface>]",
        help: "Show what interfaces are called at collectors, and how they are sampled",
        detail: "Idx is the router's number, HwIdx that of the device (the same as long as there are no sub-interfaces), Linux \
                 that of the Linux interface behind it in its namespace, ifIndex what collectors see. A rate is set, \
                 set for all, by the speed of the link, a default, or adaptive.",
        params: &[],
        handler: show,
    },
    CommandSpec {
        pattern: "sflow sampling-rate ( <rate:u32 1..=1073741824> | auto )",
        help: "Sample one packet in N on interfaces without a rate of their own",
        detail: "auto at first.",
        params: &[
            ("rate", "N"),
            (
                "auto",
                "By the speed of the link: a millionth of its bits a second, at least 100; 10000 where it is not known",
            ),
        ],
        handler: rate,
    },
    CommandSpec {
        pattern: "sflow sampling-rate-at <speed:word> ( <rate:u32 0..=1073741824> | off )",
        help: "Sample one packet in N on interfaces of a speed, without a rate of their own",
        detail: "It comes before sampling-ratio and sampling-rate.",
        params: &[
            ("speed", "Of the link, such as 100M, 2.5G or 10G"),
            ("rate", "N; 0 = such links are not sampled"),
            ("off", "What holds for all"),
        ],
        handler: rate_at,
    },
    CommandSpec {
        pattern: "sflow sampling-ratio ( <ratio:u32 1..=4294967295> | off )",
        help: "Sample one packet in N on interfaces without a rate of their own, N being their speed divided by this",
        detail: "At least one in 100. It comes before sampling-rate, which then holds where the speed is not known. \
                 off at first.",
        params: &[
            ("ratio", "Bits a second for which N is one"),
            ("off", "What holds for all"),
        ],
        handler: ratio,
    },
    CommandSpec {
        pattern: "sflow direction <direction:{rx|tx|both}>",
        help: "Sample what is received, sent, or both, on interfaces without a direction of their own",
        detail: "rx at first.",
        params: &[("direction", "rx, tx or both")],
        handler: |r, a, _| {
            r.set_sflow_direction(direction(a).unwrap_or_default())?;
            Ok(Output::Done)
        },
    },
    CommandSpec {
        pattern: "sflow header-bytes <bytes:u16 64..=256>",
        help: "Keep so many bytes of a sampled packet",
        detail: "128 at first.",
        params: &[("bytes", "Bytes from the Ethernet header on")],
        handler: |r, a, _| {
            r.set_sflow_header(a.need("bytes")?)?;
            Ok(Output::Done)
        },
    },
    CommandSpec {
        pattern: "sflow ifindex <kind:{parshall|linux}>",
        help: "Choose whose interface numbers collectors see",
        detail: "parshall at first: a number that goes with the interface's name, over restarts. linux: that of the Linux \
                 interface behind it; interfaces without one have 1000000000 and their own number. A change sends what \
                 was gathered and starts all sequences again.",
        params: &[("kind", "parshall or linux")],
        handler: |r, a, _| {
            r.set_ifindex_kind(match a.need::<&str>("kind")? {
                "linux" => IfIndexKind::Linux,
                _ => IfIndexKind::Parshall,
            });
            Ok(Output::Done)
        },
    },
    CommandSpec {
        pattern: "sflow enable <if:interface> [* direction <direction:{rx|tx|both}> \
                  | sampling-rate <rate:u32 1..=1073741824> | adaptive <target:u32 1..=1000000> \
                  | min-rate <min:u32 1..=1073741824> | max-rate <max:u32 1..=1073741824> \
                  | header-bytes <bytes:u16 64..=256> | disable]",
        help: "Sample packets of an interface, or stop",
        detail: "What is not given is as for all interfaces.",
        params: &[
            ("direction", "What is received, sent, or both"),
            ("rate", "One packet in N"),
            (
                "target",
                "Let N follow the traffic, for so many samples a second of the interface",
            ),
            ("min", "Least N of an adaptive rate; 100 when not given"),
            ("max", "Greatest N of an adaptive rate"),
            ("bytes", "Bytes of a packet to keep"),
        ],
        handler: enable,
    },
    CommandSpec {
        pattern: "sflow enable-disable <if:interface> [disable]",
        help: "Sample packets of an interface, or stop, in VPP's words",
        detail: "",
        params: &[],
        handler: enable,
    },
    command(
        "sflow disable <if:interface>",
        "Stop sampling an interface",
        disable,
    ),
];

fn direction(args: &Args) -> Option<SampleDirection> {
    SampleDirection::from_word(args.get("direction")?)
}

fn rate(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    r.set_sflow_rate(args.get("rate"))?;
    Ok(Output::Done)
}

fn rate_at(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    let word: &str = args.need("speed")?;
    let speed = speed(word).or_else(|| word.parse().ok().filter(|s| *s > 0));
    let speed = speed.ok_or_else(|| {
        Error::refused(format!("{word} is no speed; write it as 100M, 2.5G or 10G"))
    })?;
    let mut rates = r.sflow.speed_rates.clone();
    match args.get("rate") {
        Some(n) => rates.by_speed.insert(speed, n),
        None => rates.by_speed.remove(&speed),
    };
    r.set_speed_rates(rates)?;
    Ok(Output::Done)
}

fn ratio(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    let mut rates = r.sflow.speed_rates.clone();
    rates.ratio = args.get("ratio");
    r.set_speed_rates(rates)?;
    Ok(Output::Done)
}

fn enable(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    let name = args.need("if")?;
    if args.has("disable") {
        r.disable_sflow(name)?;
        return Ok(Output::Done);
    }
    let (min, max) = (args.get("min"), args.get("max"));
    let target: Option<u32> = args.get("target");
    if target.is_none() && (min.is_some() || max.is_some()) {
        return Err(Error::refused(
            "min-rate and max-rate are bounds of an adaptive rate: give adaptive with the samples a second it aims at",
        ));
    }
    // A bound that is given moves the other one's default.
    let min = min.unwrap_or(LEAST.min(max.unwrap_or(LEAST)));
    let max = max.unwrap_or(MAX_RATE);
    let port = SflowPort {
        rate: args.get("rate"),
        adaptive: target.map(|target| Adaptive { target, min, max }),
        header_bytes: args.get("bytes"),
        direction: direction(args),
    };
    r.enable_sflow(name, port)?;
    Ok(Output::Done)
}

fn disable(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    r.disable_sflow(args.need("if")?)?;
    Ok(Output::Done)
}

/// Packets of one direction.
#[derive(Serialize)]
struct Way {
    /// Packets that passed the sampler.
    pool: u64,
    samples: u64,
    drops: u64,
}

#[derive(Serialize)]
struct Row {
    interface: String,
    index: u32,
    hardware_index: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    linux_index: Option<u32>,
    /// Only where it is another than the router's.
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    /// What collectors see.
    ifindex: u32,
    /// Bits per second, 0 = unknown.
    speed: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    sampling: Option<RowSampling>,
    rx: Way,
    tx: Way,
}

#[derive(Serialize)]
struct RowSampling {
    direction: &'static str,
    rate: u32,
    /// How the rate came about.
    rate_source: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    adaptive: Option<Adaptive>,
    header_bytes: u16,
}

#[derive(Serialize)]
struct Shown {
    /// Whose numbers collectors see.
    ifindex: &'static str,
    interfaces: Vec<Row>,
}

fn row(r: &Router, i: &Interface) -> Row {
    let t = r.engine.interface_totals(i.index).since(&i.born);
    let sampling = r.sampling(i.index).map(|s| RowSampling {
        direction: s.direction.word(),
        rate: s.rate,
        rate_source: s.source.word(),
        adaptive: i.sflow.and_then(|p| p.adaptive),
        header_bytes: s.header_bytes,
    });
    Row {
        interface: i.name.clone(),
        index: i.index,
        hardware_index: i.index,
        linux_index: i.device.as_ref().and_then(|d| d.info().os_index),
        namespace: i.namespace().map(str::to_owned),
        ifindex: i.exported,
        speed: i.speed,
        sampling,
        rx: Way {
            pool: t.sample_pool,
            samples: t.samples,
            drops: t.sample_drops,
        },
        tx: Way {
            pool: t.tx_sample_pool,
            samples: t.tx_samples,
            drops: t.tx_sample_drops,
        },
    }
}

fn show(r: &mut Router, args: &Args, cx: &Context) -> Result<Output> {
    let only = args
        .get::<&str>("if")
        .map(|name| r.interfaces.find_real(name))
        .transpose()?;
    let wanted = |i: &&Interface| i.index != 0 && only.is_none_or(|n| n == i.index);
    let shown = Shown {
        ifindex: r.sflow.ifindex.word(),
        interfaces: r
            .interfaces
            .iter()
            .filter(wanted)
            .map(|i| row(r, i))
            .collect(),
    };
    cx.show(&shown, print)
}

fn print(s: &Shown) -> String {
    let mut out = format!(
        "{:<24}{:>5}{:>6}{:>7} {:<12}{:>11} {:<4} {:>10} {:<9}{:>14}{:>10}{:>8}\n",
        "Interface",
        "Idx",
        "HwIdx",
        "Linux",
        "Namespace",
        "ifIndex",
        "Dir",
        "1-in-N",
        "by",
        "Pool",
        "Samples",
        "Drops"
    );
    for i in &s.interfaces {
        let linux = i.linux_index.map_or("-".to_owned(), |n| n.to_string());
        let namespace = i.namespace.as_deref().unwrap_or("-");
        let (dir, rate, by) = i.sampling.as_ref().map_or(("off", "-".into(), "-"), |s| {
            (s.direction, s.rate.to_string(), s.rate_source)
        });
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(
            out,
            "{:<24}{:>5}{:>6}{linux:>7} {namespace:<12}{:>11} {dir:<4} {rate:>10} {by:<9}{:>14}{:>10}{:>8}",
            i.interface,
            i.index,
            i.hardware_index,
            i.ifindex,
            i.rx.pool + i.tx.pool,
            i.rx.samples + i.tx.samples,
            i.rx.drops + i.tx.drops,
        );
    }
    let _ = match s.ifindex {
        "linux" => writeln!(
            out,
            "ifIndex: those of Linux; {OFFSET} and the number of its name where there is none or another interface has it"
        ),
        _ => writeln!(out, "ifIndex: the router's, by name"),
    };
    out
}
