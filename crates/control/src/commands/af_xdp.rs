//! `create interface af_xdp`, `delete interface af_xdp`, `show af_xdp`.

use std::fmt::Write;

use parshall_command::{Args, CommandSpec, Mac};
use parshall_drivers::af_xdp::{AfXdp, AfXdpConfig, AfXdpQueue, AfXdpStatus, CopyMode, XdpMode};
use serde::Serialize;

use super::{Context, Handler, Output};
use crate::drivers::{DeviceKind, DeviceSpec};
use crate::error::{Error, Result};
use crate::router::Router;

/// Packets a busy-polling worker takes off the device at a time, when nothing else is said.
const BUSY_POLL_BUDGET: u16 = 64;

pub(super) const COMMANDS: &[CommandSpec<Handler>] = &[
    CommandSpec {
        pattern: "create interface af_xdp [host-if] <host:word> [* name <name:word> | hw-addr <mac:mac> | netns <ns:word> \
                  | num-rx-queues ( all | <queues:u16 1..=64> ) | num-tx-queues <tx-queues:u16 1..=64> \
                  | rx-queue-size <rx-size:u32 64..=32768> | tx-queue-size <tx-size:u32 64..=32768> \
                  | mode ( auto | copy | zero-copy ) | zero-copy | no-zero-copy | native | generic \
                  | busy-poll [<budget:u16 1..=256>] | no-syscall-lock | prog <prog:path>]",
        help: "Use a Linux interface, by AF_XDP sockets",
        detail: "It is called xdp-NAME. While it is up, frames for its Ethernet address, broadcast and multicast come to \
                 the router, and all frames when it is promiscuous; the rest stays with the kernel. `zero-copy` and \
                 `no-zero-copy` are VPP's words for `mode zero-copy` and `mode copy`. `no-syscall-lock` is taken and \
                 changes nothing: there is no such lock. Needs Linux 5.9 and the capabilities CAP_NET_ADMIN, CAP_NET_RAW, \
                 CAP_BPF and CAP_IPC_LOCK.",
        params: &[
            ("host", "The Linux interface"),
            ("name", "Name of the interface, in place of the usual one"),
            (
                "mac",
                "Ethernet address of the router on it; that of the Linux interface when not given",
            ),
            (
                "ns",
                "Network namespace it is in: a name, a path or pid:NUMBER",
            ),
            (
                "queues",
                "Receive queues, from the first on; all the interface has when not given. What arrives on the others \
                 stays with the kernel",
            ),
            (
                "tx-queues",
                "Transmit queues; one a worker when not given, as far as the interface has as many",
            ),
            (
                "rx-size",
                "Packets a receive queue holds, a power of two; 2048 when not given",
            ),
            (
                "tx-size",
                "Packets a transmit queue holds, a power of two; 1024 when not given",
            ),
            (
                "budget",
                "Packets the worker has the device take at a time; 64 when not given",
            ),
            (
                "prog",
                "VPP's option for another XDP program: refused, because the router has its own",
            ),
        ],
        handler: create,
    },
    CommandSpec {
        pattern: "delete interface af_xdp <if:interface>",
        help: "Give a Linux interface used by AF_XDP back",
        detail: "Takes the router's name of the interface or Linux's.",
        params: &[],
        handler: delete,
    },
    CommandSpec {
        pattern: "show af_xdp [<if:interface>]",
        help: "Show AF_XDP interfaces: program, queues and what the kernel counted on each socket",
        detail: "",
        params: &[],
        handler: show,
    },
];

fn create(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    if args.has("prog") {
        return Err(Error::refused(
            "`prog`: the router attaches an XDP program of its own, which passes what is not the router's; leave it out",
        ));
    }
    let (zero_copy, copy) = (
        args.has("zero-copy"),
        args.has("no-zero-copy") || args.has("copy"),
    );
    let (native, generic) = (args.has("native"), args.has("generic"));
    if zero_copy && copy || native && generic {
        return Err(Error::refused(
            "one excludes the other: `zero-copy` and `copy` (`no-zero-copy`), `native` and `generic`",
        ));
    }
    let config = AfXdpConfig {
        host_if: args.need("host")?,
        host_ns: args.get("ns"),
        mac: args.get::<Mac>("mac").map(|m| m.0),
        rx_queues: args.get::<u16>("queues").map_or(0, usize::from),
        tx_queues: args.get::<u16>("tx-queues").map_or(0, usize::from),
        rx_ring: args.get("rx-size").unwrap_or(0),
        tx_ring: args.get("tx-size").unwrap_or(0),
        copy: match (zero_copy, copy) {
            (true, _) => CopyMode::ZeroCopy,
            (_, true) => CopyMode::Copy,
            _ => CopyMode::Auto,
        },
        xdp: match (native, generic) {
            (true, _) => Some(XdpMode::Native),
            (_, true) => Some(XdpMode::Generic),
            _ => None,
        },
        busy_poll: args
            .has("busy-poll")
            .then(|| args.get("budget").unwrap_or(BUSY_POLL_BUDGET)),
    };
    let name = r.create_interface(DeviceSpec {
        instance: None,
        name: args.get("name"),
        mac: config.mac,
        kind: DeviceKind::AfXdp(config),
    })?;
    Ok(Output::Text(name))
}

fn delete(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    let name = args.need::<&str>("if")?;
    let usual = format!("xdp-{name}");
    let ours = if r.interfaces.find(name).is_err() && r.interfaces.find(&usual).is_ok() {
        &usual
    } else {
        name
    };
    r.delete_interface(ours, "xdp-")?;
    Ok(Output::Done)
}

/// An interface as JSON shows it.
#[derive(Serialize)]
struct Shown {
    name: String,
    host_if: String,
    namespace: String,
    xdp_mode: &'static str,
    xdp_program: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    device_rx_queues: Option<u32>,
    rx_queue_size: u32,
    tx_queue_size: u32,
    chunk_bytes: usize,
    longest_frame: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    busy_poll_budget: Option<u16>,
    completes_checksums: bool,
    queues: Vec<ShownQueue>,
}

#[derive(Serialize)]
struct ShownQueue {
    queue: u32,
    rx: bool,
    tx: bool,
    zero_copy: bool,
    multi_buffer: bool,
    rx_dropped: u64,
    rx_ring_full: u64,
    rx_fill_ring_empty: u64,
    rx_invalid: u64,
    tx_invalid: u64,
    tx_ring_empty: u64,
}

impl From<AfXdpQueue> for ShownQueue {
    fn from(q: AfXdpQueue) -> ShownQueue {
        ShownQueue {
            queue: q.queue,
            rx: q.rx,
            tx: q.tx,
            zero_copy: q.zero_copy,
            multi_buffer: q.multi_buffer,
            rx_dropped: q.rx_dropped,
            rx_ring_full: q.rx_ring_full,
            rx_fill_ring_empty: q.rx_fill_ring_empty,
            rx_invalid: q.rx_invalid,
            tx_invalid: q.tx_invalid,
            tx_ring_empty: q.tx_ring_empty,
        }
    }
}

fn shown(name: &str, s: AfXdpStatus) -> Shown {
    Shown {
        name: name.to_owned(),
        host_if: s.host_if,
        namespace: s.namespace,
        xdp_mode: s.xdp_mode,
        xdp_program: s.program,
        device_rx_queues: s.device_rx_queues,
        rx_queue_size: s.rx_ring,
        tx_queue_size: s.tx_ring,
        chunk_bytes: s.chunk,
        longest_frame: s.longest_frame,
        busy_poll_budget: s.busy_poll,
        completes_checksums: s.completes_checksums,
        queues: s.queues.into_iter().map(ShownQueue::from).collect(),
    }
}

fn show(r: &mut Router, args: &Args, cx: &Context) -> Result<Output> {
    let wanted = match args.get::<&str>("if") {
        Some(name) => Some(r.interfaces.find(name)?),
        None => None,
    };
    let mut rows = Vec::new();
    for i in r.interfaces.iter() {
        let device = i.device.as_ref().and_then(|d| d.as_any());
        let xdp = device.and_then(|d| d.downcast_ref::<AfXdp>());
        if let Some(xdp) = xdp.filter(|_| wanted.is_none_or(|w| w == i.index)) {
            rows.push(shown(&i.name, xdp.status()));
        } else if wanted == Some(i.index) {
            return Err(Error::Interface {
                name: i.name.clone(),
                why: "is not an AF_XDP interface".into(),
            });
        }
    }
    cx.show(&rows, |rows| rows.iter().map(text).collect())
}

fn text(s: &Shown) -> String {
    let mut out = String::new();
    let yes = |b: bool, word: &'static str| if b { word } else { "" };
    let program = match s.xdp_program {
        0 => "none attached".to_owned(),
        id => format!("program {id}"),
    };
    let busy = s
        .busy_poll_budget
        .map_or(String::new(), |b| format!(", busy poll budget {b}"));
    let _ = writeln!(
        out,
        "{}\n  host-if {} in {}\n  {} XDP, {program}{}{busy}\n  rx queue size {}, tx queue size {}, chunks of {} bytes, \
         longest frame {} bytes",
        s.name,
        s.host_if,
        s.namespace,
        s.xdp_mode,
        yes(
            s.completes_checksums,
            ", unfinished checksums are completed"
        ),
        s.rx_queue_size,
        s.tx_queue_size,
        s.chunk_bytes,
        s.longest_frame
    );
    let _ = writeln!(
        out,
        "  {:>5} {:<6} {:<10} {:>12} {:>12} {:>12} {:>12}",
        "Queue", "Way", "Copying", "rx dropped", "rx ring full", "fill empty", "invalid"
    );
    for q in &s.queues {
        let way = [yes(q.rx, "rx"), yes(q.tx, "tx")].join(" ");
        let copying = if q.zero_copy { "zero-copy" } else { "copy" };
        let _ = writeln!(
            out,
            "  {:>5} {:<6} {copying:<10} {:>12} {:>12} {:>12} {:>12}",
            q.queue,
            way.trim(),
            q.rx_dropped,
            q.rx_ring_full,
            q.rx_fill_ring_empty,
            q.rx_invalid + q.tx_invalid
        );
    }
    out
}
