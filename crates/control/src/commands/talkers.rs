//! `show sflow flows`: the greatest flows, by what samples say of them.

use std::fmt::Write;

use parshall_agent::{FlowKey, FlowTotals};
use parshall_command::{Args, CommandSpec};
use serde::Serialize;

use super::{Context, Handler, Output};
use crate::error::Result;
use crate::router::Router;

/// Flows shown unless told otherwise.
const MOST: usize = 20;

pub(super) const COMMANDS: &[CommandSpec<Handler>] = &[CommandSpec {
    pattern: "show sflow flows [max <max:u32 1..=8192>]",
    help: "Show the flows with the most bytes, estimated from samples",
    detail: "Flows are counted from the first time this is asked, and for a minute after the last: ask again, or look at \
             `parshall top`. A sample stands for as many packets as the sampling rate says; with 100 samples an estimate is \
             right within 20 %. A packet sampled as it came in and as it went out is in two flows.",
    params: &[("max", "Flows to show, 20 when not said")],
    handler: show,
}];

#[derive(Serialize)]
struct ShownFlow {
    interface: String,
    direction: &'static str,
    source: String,
    destination: String,
    /// IP protocol number.
    protocol: u8,
    source_port: u16,
    destination_port: u16,
    samples: u64,
    /// Estimated, as are bytes.
    packets: u64,
    bytes: u64,
}

#[derive(Serialize)]
struct Shown {
    /// Something is sampled.
    watching: bool,
    flows: Vec<ShownFlow>,
    /// Samples of packets that are not IP, or that there was no room for.
    other_samples: u64,
    other_packets: u64,
    other_bytes: u64,
}

fn shown(r: &Router, key: &FlowKey, totals: &FlowTotals) -> ShownFlow {
    ShownFlow {
        interface: r.interfaces.name(key.if_index),
        direction: if key.transmit { "tx" } else { "rx" },
        source: key.source.to_string(),
        destination: key.destination.to_string(),
        protocol: key.protocol,
        source_port: key.source_port,
        destination_port: key.destination_port,
        samples: totals.samples,
        packets: totals.packets,
        bytes: totals.bytes,
    }
}

fn show(r: &mut Router, args: &Args, cx: &Context) -> Result<Output> {
    let most = args.get("max").unwrap_or(MOST);
    let told = r.sflow.talkers(most);
    let watching = told.is_some();
    let told = told.unwrap_or_default();
    let data = Shown {
        watching,
        flows: told.flows.iter().map(|(k, t)| shown(r, k, t)).collect(),
        other_samples: told.others.samples,
        other_packets: told.others.packets,
        other_bytes: told.others.bytes,
    };
    cx.show(&data, print)
}

fn print(s: &Shown) -> String {
    if !s.watching {
        return "Nothing is sampled: begin with `sflow enable INTERFACE`\n".to_owned();
    }
    if s.flows.is_empty() && s.other_samples == 0 {
        return "No samples since flows are watched: ask again in a moment\n".to_owned();
    }
    let mut out = format!(
        "{:<24}{:<4}{:<10}{:<48}{:<48}{:>10}{:>16}{:>18}\n",
        "Interface", "Dir", "Protocol", "Source", "Destination", "Samples", "Packets", "Bytes"
    );
    for f in &s.flows {
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(
            out,
            "{:<24}{:<4}{:<10}{:<48}{:<48}{:>10}{:>16}{:>18}",
            f.interface,
            f.direction,
            protocol(f.protocol),
            end(&f.source, f.source_port),
            end(&f.destination, f.destination_port),
            f.samples,
            f.packets,
            f.bytes
        );
    }
    if s.other_samples != 0 {
        let _ = writeln!(
            out,
            "others: {} samples, {} packets, {} bytes",
            s.other_samples, s.other_packets, s.other_bytes
        );
    }
    out
}

/// The usual name of an IP protocol, or its number.
fn protocol(number: u8) -> String {
    let name = match number {
        1 => "icmp",
        6 => "tcp",
        17 => "udp",
        47 => "gre",
        50 => "esp",
        58 => "icmp6",
        132 => "sctp",
        _ => return number.to_string(),
    };
    name.to_owned()
}

fn end(address: &str, port: u16) -> String {
    match port {
        0 => address.to_owned(),
        port if address.contains(':') => format!("[{address}]:{port}"),
        port => format!("{address}:{port}"),
    }
}
