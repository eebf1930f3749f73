//! memif: sockets, interfaces, and what is known of their peers.

use std::fmt::Write;

use parshall_command::{Args, CommandSpec, Mac};
use parshall_drivers::memif::{Memif, Report, Role};
use serde::Serialize;

use super::{Context, Handler, Output};
use crate::drivers::{DeviceKind, DeviceSpec, MemifSpec};
use crate::error::{Error, Result};
use crate::router::Router;
use crate::text::mac;

pub(super) const COMMANDS: &[CommandSpec<Handler>] = &[
    CommandSpec {
        pattern: "create memif socket id <id:u32 1..=4294967294> filename <path:path>",
        help: "Give a socket for memif interfaces a number",
        detail: "Socket 0 is always there: /run/parshall/memif.sock. A path that starts with @ is an abstract socket, \
                 which has no file. Several interfaces with different ids can share a socket.",
        params: &[
            ("id", "Number of the socket"),
            ("path", "Path of the unix socket, at most 107 bytes"),
        ],
        handler: |r, a, _| {
            r.add_memif_socket(a.need("id")?, a.need("path")?)?;
            Ok(Output::Done)
        },
    },
    CommandSpec {
        pattern: "delete memif socket id <id:u32>",
        help: "Forget a socket for memif interfaces",
        detail: "No interface may use it any more.",
        params: &[("id", "Number of the socket")],
        handler: |r, a, _| {
            r.delete_memif_socket(a.need("id")?)?;
            Ok(Output::Done)
        },
    },
    CommandSpec {
        pattern: "create interface memif [* id <id:u32> | socket-id <socket:u32> | master | slave \
                  | ring-size <ring:u16 1..=16384> | buffer-size <buffer:u16 64..=65535> \
                  | rx-queues <rx:u16 1..=64> | tx-queues <tx:u16 1..=64> | hw-addr <mac:mac> \
                  | secret <secret:word> | mode <mode:{ethernet}> | name <name:word>]",
        help: "Make an interface to another process on this host, over shared memory",
        detail: "It is called memifSOCKET/ID. A master listens on the socket, a slave connects to it and makes the \
                 memory: ring-size and buffer-size are the slave's choice. It connects while it is up, and again \
                 whenever the peer comes back.",
        params: &[
            (
                "id",
                "Number of the interface on its socket, the same at both ends; 0 when not given",
            ),
            ("socket", "Number of the socket; 0 when not given"),
            (
                "ring",
                "Descriptors of each ring, a power of two; 1024 when not given",
            ),
            (
                "buffer",
                "Bytes of each buffer; 2048 when not given. Longer packets take several",
            ),
            ("rx", "Rings to receive from; 1 when not given"),
            (
                "tx",
                "Rings to send to; 1 when not given. More than there are workers are of no use",
            ),
            ("mac", "Ethernet address of the interface"),
            ("secret", "What the slave has to know, at most 23 bytes"),
            ("mode", "What packets start with: an Ethernet header"),
            ("name", "Name of the interface, in place of the usual one"),
        ],
        handler: create,
    },
    CommandSpec {
        pattern: "delete interface memif <if:interface>",
        help: "Delete a memif interface",
        detail: "Its peer is told. The socket's file goes with the last master on it.",
        params: &[],
        handler: |r, a, _| {
            r.delete_interface(a.need("if")?, "memif")?;
            Ok(Output::Done)
        },
    },
    CommandSpec {
        pattern: "show memif [<if:interface>]",
        help: "Show memif sockets, interfaces, their peers and rings",
        detail: "",
        params: &[],
        handler: show,
    },
];

fn create(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    let role = match (args.has("master"), args.has("slave")) {
        (true, true) => return Err(Error::refused("master and slave at once: choose one")),
        (_, true) => Role::Slave,
        _ => Role::Master,
    };
    let socket_id = args.get("socket").unwrap_or(0);
    let usual = MemifSpec::default();
    let spec = MemifSpec {
        socket: r.memif_socket(socket_id)?.to_owned(),
        socket_id,
        id: args.get("id").unwrap_or(0),
        role,
        ring_size: args.get("ring").unwrap_or(usual.ring_size),
        buffer_size: args.get("buffer").unwrap_or(usual.buffer_size),
        rx_queues: args.get::<u16>("rx").map_or(usual.rx_queues, usize::from),
        tx_queues: args.get::<u16>("tx").map_or(usual.tx_queues, usize::from),
        secret: args.get("secret"),
    };
    let name = r.create_interface(DeviceSpec {
        instance: None,
        name: args.get("name"),
        mac: args.get::<Mac>("mac").map(|m| m.0),
        kind: DeviceKind::Memif(spec),
    })?;
    Ok(Output::Text(name))
}

#[derive(Serialize)]
struct Shown {
    sockets: Vec<ShownSocket>,
    interfaces: Vec<ShownInterface>,
}

#[derive(Serialize)]
struct ShownSocket {
    id: u32,
    filename: String,
    /// Whether a master of ours listens there.
    listening: bool,
}

#[derive(Serialize)]
struct ShownInterface {
    name: String,
    mac: String,
    id: u32,
    socket_id: u32,
    role: &'static str,
    mode: &'static str,
    admin_up: bool,
    connected: bool,
    secret: bool,
    ring_size: u16,
    buffer_size: u16,
    rx_queues: usize,
    tx_queues: usize,
    peer: String,
    peer_interface: String,
    connects: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_disconnect: Option<String>,
    bad_buffer: u64,
    too_short: u64,
    bad_chain: u64,
    region_bytes: Vec<usize>,
    rings: Vec<ShownRing>,
}

#[derive(Serialize)]
struct ShownRing {
    direction: &'static str,
    index: u16,
    size: u16,
    head: u16,
    tail: u16,
    interrupts: bool,
}

fn show(r: &mut Router, args: &Args, cx: &Context) -> Result<Output> {
    let only = match args.get::<&str>("if") {
        Some(name) => Some(r.interfaces.find_real(name)?),
        None => None,
    };
    let mut interfaces = Vec::new();
    let mut masters = Vec::new();
    for i in r.interfaces.iter() {
        let Some(DeviceKind::Memif(spec)) = i.spec.as_ref().map(|s| &s.kind) else {
            continue;
        };
        if spec.role == Role::Master {
            masters.push(spec.socket_id);
        }
        let device = i.device.as_ref().and_then(|d| d.as_any());
        let memif = device.and_then(|d| d.downcast_ref::<Memif>());
        if only.is_none_or(|o| o == i.index)
            && let Some(memif) = memif
        {
            interfaces.push(shown(
                &i.name,
                &mac(i.mac),
                i.up,
                spec.socket_id,
                memif.report(),
            ));
        }
    }
    if let (Some(name), true) = (args.get::<&str>("if"), interfaces.is_empty()) {
        return Err(Error::Interface {
            name: name.into(),
            why: "is no memif interface".into(),
        });
    }
    let sockets = r.memif_sockets.iter().map(|(id, filename)| ShownSocket {
        id: *id,
        filename: filename.clone(),
        listening: masters.contains(id),
    });
    let all = Shown {
        sockets: sockets.collect(),
        interfaces,
    };
    cx.show(&all, print)
}

fn shown(name: &str, mac: &str, up: bool, socket_id: u32, m: Report) -> ShownInterface {
    let rings = m.rings.iter().map(|r| ShownRing {
        direction: if r.receive { "rx" } else { "tx" },
        index: r.index,
        size: r.size,
        head: r.head,
        tail: r.tail,
        interrupts: r.interrupts,
    });
    ShownInterface {
        name: name.into(),
        mac: mac.into(),
        id: m.config.id,
        socket_id,
        role: m.config.role.name(),
        mode: "ethernet",
        admin_up: up,
        connected: m.connected,
        secret: m.config.secret.is_some(),
        ring_size: m.config.ring_size,
        buffer_size: m.config.buffer_size,
        rx_queues: m.config.rx_queues,
        tx_queues: m.config.tx_queues,
        peer: m.peer_name,
        peer_interface: m.peer_interface,
        connects: m.connects,
        last_disconnect: m.last_end,
        bad_buffer: m.bad_buffer,
        too_short: m.too_short,
        bad_chain: m.bad_chain,
        region_bytes: m.regions,
        rings: rings.collect(),
    }
}

fn print(all: &Shown) -> String {
    let mut t = String::from("sockets\n  id  listening  filename\n");
    for s in &all.sockets {
        let listening = if s.listening { "yes" } else { "no" };
        let _ = writeln!(t, "  {:<3} {listening:<10} {}", s.id, s.filename);
    }
    for i in &all.interfaces {
        print_interface(&mut t, i);
    }
    t.pop();
    t
}

fn print_interface(t: &mut String, i: &ShownInterface) {
    let flags = [
        (i.admin_up, "admin-up"),
        (i.connected, "connected"),
        (i.secret, "secret"),
    ];
    let flags: Vec<_> = flags.iter().filter(|f| f.0).map(|f| f.1).collect();
    let _ = writeln!(t, "interface {}", i.name);
    if i.connected {
        let _ = writeln!(
            t,
            "  peer \"{}\", interface \"{}\"",
            i.peer, i.peer_interface
        );
    }
    let _ = writeln!(
        t,
        "  id {} socket-id {} mode {} role {} hw-addr {}\n  flags {}\n  ring-size {} buffer-size {} rx-queues {} \
         tx-queues {}\n  connected {} times{}\n  refused: {} bad buffer, {} too short, {} bad chain",
        i.id,
        i.socket_id,
        i.mode,
        i.role,
        i.mac,
        flags.join(" "),
        i.ring_size,
        i.buffer_size,
        i.rx_queues,
        i.tx_queues,
        i.connects,
        i.last_disconnect
            .as_ref()
            .map_or(String::new(), |why| format!("; last end: {why}")),
        i.bad_buffer,
        i.too_short,
        i.bad_chain,
    );
    for (n, bytes) in i.region_bytes.iter().enumerate() {
        let _ = writeln!(t, "  region {n}: {bytes} bytes");
    }
    for r in &i.rings {
        let interrupts = if r.interrupts { "on" } else { "off" };
        let _ = writeln!(
            t,
            "  {} ring {}: size {} head {} tail {} interrupts {interrupts}",
            r.direction, r.index, r.size, r.head, r.tail
        );
    }
}
