//! Packet generator streams.

use std::fmt::Write;

use parshall_command::{Args, CommandSpec};
use parshall_drivers::pg::{Size, StreamChange};
use serde::Serialize;

use super::{Context, Handler, Output, command};
use crate::error::Result;
use crate::router::Router;

pub(super) const COMMANDS: &[CommandSpec<Handler>] = &[
    CommandSpec {
        pattern: "packet-generator new <stream:block>",
        help: "Make a stream, stopped",
        detail: "In VPP's words: `{ name x limit 1000 rate 1e6 size 64-64 interface pg0 node ethernet-input \
                 data { IP4: 1.2.3 -> 4.5.6 UDP: 192.0.2.1 -> 198.51.100.1 UDP: 1234 -> 2345 incrementing 30 } }`, \
                 or `{ name x pcap FILE interface pg0 }`.",
        params: &[("stream", "What it sends, how often and how fast")],
        handler: new,
    },
    CommandSpec {
        pattern: "packet-generator new <stream:rest>",
        help: "Make a stream of a file, stopped",
        detail: "The same without braces: `pcap FILE source pg0 name x [limit 100] [maxframe 256] [worker 0]`. The file is \
                 sent once, or as often as the limit takes.",
        params: &[("stream", "What it sends, how often and how fast")],
        handler: new,
    },
    CommandSpec {
        pattern: "packet-generator enable-stream [<stream:name stream>]",
        help: "Start a stream, or all",
        detail: "Its interface is brought up.",
        params: &[],
        handler: |r, a, _| switch(r, a, true),
    },
    command(
        "packet-generator disable-stream [<stream:name stream>]",
        "Stop a stream, or all",
        |r, a, _| switch(r, a, false),
    ),
    command(
        "packet-generator delete <stream:name stream>",
        "Delete a stream",
        delete,
    ),
    CommandSpec {
        pattern: "packet-generator configure <stream:name stream> [* limit <limit:u64> | rate <rate:f64 0..=1000000000> \
                  | size <size:u32 14..=65535>]",
        help: "Change a stream; it is stopped by that",
        detail: "",
        params: &[
            ("limit", "Packets to send, 0 = no end"),
            ("rate", "Packets a second, 0 = as fast as it goes"),
            ("size", "Bytes of each frame"),
        ],
        handler: configure,
    },
    CommandSpec {
        pattern: "packet-generator capture <if:interface> ( pcap <file:path> [count <count:u64>] \
                  | [pcap <file:path>] disable )",
        help: "Write what a generator interface transmits to a file, or stop",
        detail: "Stopping where nothing is written is no error.",
        params: &[("count", "Packets at most, 0 = no limit")],
        handler: capture,
    },
    CommandSpec {
        pattern: "show packet-generator",
        help: "Show streams and what generator interfaces have swallowed",
        detail: "When all streams have ended it waits until what they caused has left the router, and what is captured is in \
                 its file.",
        params: &[],
        handler: show,
    },
];

fn new(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    let text = args.need::<&str>("stream")?;
    r.add_stream(&format!("{{ {text} }}"))?;
    Ok(Output::Done)
}

fn switch(r: &mut Router, args: &Args, on: bool) -> Result<Output> {
    r.switch_stream(args.get("stream"), on)?;
    Ok(Output::Done)
}

fn delete(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    r.delete_stream(args.need("stream")?)?;
    Ok(Output::Done)
}

fn configure(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    let change = StreamChange {
        limit: args.get("limit"),
        rate: args.get("rate"),
        size: args.get("size").map(Size::fixed),
    };
    r.configure_stream(args.need("stream")?, &change)?;
    Ok(Output::Done)
}

fn capture(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    let interface = args.need::<&str>("if")?;
    match args.get::<&str>("file").filter(|_| !args.has("disable")) {
        Some(file) => {
            r.start_sink_capture(interface, file, args.get("count").unwrap_or(0))?;
            Ok(Output::Done)
        }
        None => {
            let report = r.stop_sink_capture(interface)?;
            Ok(report.map_or(Output::Done, |c| {
                Output::Text(format!(
                    "Write {} packets to {}, and stop capture...\n",
                    c.written,
                    c.path.display()
                ))
            }))
        }
    }
}

#[derive(Serialize)]
struct ShownStream {
    name: String,
    interface: String,
    enabled: bool,
    worker: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<u64>,
    rate: f64,
    packets: u64,
    bytes: u64,
    min_size: usize,
    max_size: usize,
    variants: usize,
}

#[derive(Serialize)]
struct ShownSink {
    interface: String,
    packets: u64,
    bytes: u64,
}

#[derive(Serialize)]
struct Shown {
    streams: Vec<ShownStream>,
    sinks: Vec<ShownSink>,
}

fn show(r: &mut Router, _: &Args, cx: &Context) -> Result<Output> {
    let streams = r.stream_infos();
    if !streams.iter().any(|(_, s)| s.enabled) {
        r.finish_streams()?;
    }
    let stream = |(index, s): (u32, parshall_drivers::pg::StreamInfo)| ShownStream {
        interface: r.interfaces.name(index),
        enabled: s.enabled,
        worker: s.spec.worker,
        limit: s.limit,
        rate: s.spec.rate,
        packets: s.packets,
        bytes: s.bytes,
        min_size: s.sizes.0,
        max_size: s.sizes.1,
        variants: s.variants,
        name: s.spec.name,
    };
    let sink = |i: &crate::interface::Interface| {
        let totals = i.pg.as_ref()?.sink();
        Some(ShownSink {
            interface: i.name.clone(),
            packets: totals.packets,
            bytes: totals.bytes,
        })
    };
    let shown = Shown {
        streams: streams.into_iter().map(stream).collect(),
        sinks: r.interfaces.iter().filter_map(sink).collect(),
    };
    cx.show(&shown, print)
}

fn print(s: &Shown) -> String {
    let mut out = format!(
        "{:<20}{:>9}{:>16}{:>12}{:>16}  Parameters\n",
        "Name", "Enabled", "Count", "Limit", "Bytes"
    );
    for p in &s.streams {
        let on = if p.enabled { "Yes" } else { "No" };
        let limit = p.limit.map_or_else(|| "none".to_owned(), |l| l.to_string());
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(
            out,
            "{:<20}{on:>9}{:>16}{limit:>12}{:>16}  {} worker {}, rate {}, size {}-{}, {} variants",
            p.name,
            p.packets,
            p.bytes,
            p.interface,
            p.worker,
            p.rate,
            p.min_size,
            p.max_size,
            p.variants
        );
    }
    for k in &s.sinks {
        let _ = writeln!(
            out,
            "{}: swallowed {} packets, {} bytes",
            k.interface, k.packets, k.bytes
        );
    }
    out
}
