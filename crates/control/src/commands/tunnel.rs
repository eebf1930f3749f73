//! Tunnels: VXLAN, IP in IP, GRE, in VPP's words.

use std::net::IpAddr;

use parshall_command::{Args, CommandSpec};
use serde::Serialize;

use super::{Context, Handler, Output, command};
use crate::error::{Error, Result};
use crate::router::Router;
use crate::tunnel::{TunnelKind, TunnelSpec, VXLAN_PORT};

const ENDS: [(&str, &str); 3] = [
    ("src", "Address of our end: one of the router's"),
    ("dst", "Address of the other end"),
    ("instance", "Number in the name of its interface"),
];
const TABLE: (&str, &str) = ("table", "Table that the tunnel's own packets are routed by");

pub(super) const COMMANDS: &[CommandSpec<Handler>] = &[
    CommandSpec {
        pattern: "create vxlan tunnel [* src <src:ip> | dst <dst:ip> | instance <instance:u32 0..=16383> \
                  | vni <vni:u32 0..=16777215> | encap-vrf-id <table:u32> | decap-next <next:{l2|node}> \
                  | src_port <src_port:u16> | dst_port <dst_port:u16> | del]",
        help: "Make a VXLAN tunnel: Ethernet frames in UDP (RFC 7348); or delete it",
        detail: "Its interface vxlan_tunnelN can be switched or routed. What comes out of it is an Ethernet frame \
                 (`decap-next l2`). The source port of what is sent depends on the flow inside.",
        params: &[
            ENDS[0],
            ENDS[1],
            ENDS[2],
            ("vni", "VXLAN network identifier"),
            TABLE,
            ("next", "l2"),
            ("src_port", "Kept and shown; it is not what is sent"),
            ("dst_port", "UDP port; 4789 when not given"),
        ],
        handler: vxlan,
    },
    command(
        "delete vxlan tunnel <if:interface>",
        "Delete a VXLAN tunnel by its interface",
        |r, a, _| delete(r, a, "vxlan_tunnel"),
    ),
    CommandSpec {
        pattern: "create ipip tunnel [* src <src:ip> | dst <dst:ip> | instance <instance:u32 0..=16383> \
                  | outer-table-id <table:u32> | del]",
        help: "Make a tunnel for IP packets in IP (RFC 2003, 4213, 2473); or delete it",
        detail: "Its interface ipipN takes routes without a next hop, and IPv4 as well as IPv6 packets.",
        params: &[ENDS[0], ENDS[1], ENDS[2], TABLE],
        handler: ipip,
    },
    command(
        "delete ipip tunnel <if:interface>",
        "Delete an IP-in-IP tunnel by its interface",
        |r, a, _| delete(r, a, "ipip"),
    ),
    CommandSpec {
        pattern: "create gre tunnel [* src <src:ip> | dst <dst:ip> | instance <instance:u32 0..=16383> \
                  | outer-table-id <table:u32> | outer-fib-id <table:u32> | teb | del]",
        help: "Make a GRE tunnel (RFC 2784, 7676); or delete it",
        detail: "Its interface greN takes IP and MPLS packets; with `teb` Ethernet frames.",
        params: &[ENDS[0], ENDS[1], ENDS[2], TABLE, ("teb", "Ethernet frames")],
        handler: gre,
    },
    command(
        "delete gre tunnel <if:interface>",
        "Delete a GRE tunnel by its interface",
        |r, a, _| delete(r, a, "gre"),
    ),
    command("show vxlan tunnel", "Show VXLAN tunnels", |r, _, cx| {
        show(r, cx, "vxlan_tunnel")
    }),
    command("show ipip tunnel", "Show IP-in-IP tunnels", |r, _, cx| {
        show(r, cx, "ipip")
    }),
    command("show gre tunnel", "Show GRE tunnels", |r, _, cx| {
        show(r, cx, "gre")
    }),
];

fn vxlan(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    if args.get::<&str>("next") == Some("node") {
        return Err(Error::refused(
            "decap-next node is not there: frames go to layer 2 or are routed, as the interface is set",
        ));
    }
    let vni = args.get("vni").filter(|vni| *vni != 0);
    let kind = TunnelKind::Vxlan {
        vni: vni.ok_or_else(|| Error::refused("a VXLAN tunnel needs a `vni` above 0"))?,
        src_port: args.get("src_port").unwrap_or(VXLAN_PORT),
        dst_port: args.get("dst_port").unwrap_or(VXLAN_PORT),
    };
    change(r, args, kind)
}

fn ipip(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    change(r, args, TunnelKind::Ipip)
}

fn gre(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    let kind = match args.has("teb") {
        true => TunnelKind::GreTeb,
        false => TunnelKind::Gre,
    };
    change(r, args, kind)
}

fn change(r: &mut Router, args: &Args, kind: TunnelKind) -> Result<Output> {
    let end = |name: &str| {
        let address = args.get::<IpAddr>(name);
        address.ok_or_else(|| Error::refused(format!("a tunnel needs `{name}` and an address")))
    };
    let tunnel = TunnelSpec {
        kind,
        src: end("src")?,
        dst: end("dst")?,
        table: args.get("table").unwrap_or(0),
    };
    if args.has("del") {
        r.delete_tunnel(&tunnel)?;
        return Ok(Output::Done);
    }
    Ok(Output::Text(r.create_tunnel(args.get("instance"), tunnel)?))
}

fn delete(r: &mut Router, args: &Args, stem: &str) -> Result<Output> {
    r.delete_interface(args.need("if")?, stem)?;
    Ok(Output::Done)
}

#[derive(Serialize)]
struct Shown {
    interface: String,
    index: u32,
    instance: u32,
    src: IpAddr,
    dst: IpAddr,
    table: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    vni: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    src_port: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dst_port: Option<u16>,
    payload: &'static str,
}

fn show(r: &mut Router, cx: &Context, stem: &str) -> Result<Output> {
    let of_kind = r.tunnels().filter(|(_, t)| t.stem() == stem);
    let mut shown: Vec<Shown> = of_kind
        .map(|(i, t)| {
            let vxlan = match t.kind {
                TunnelKind::Vxlan {
                    vni,
                    src_port,
                    dst_port,
                } => Some((vni, src_port, dst_port)),
                _ => None,
            };
            Shown {
                interface: i.name.clone(),
                index: i.index,
                instance: i.instance,
                src: t.src,
                dst: t.dst,
                table: t.table,
                vni: vxlan.map(|v| v.0),
                src_port: vxlan.map(|v| v.1),
                dst_port: vxlan.map(|v| v.2),
                payload: if t.is_point_to_point() { "L3" } else { "TEB" },
            }
        })
        .collect();
    shown.sort_by_key(|t| t.instance);
    cx.show(&shown, |all| {
        if all.is_empty() {
            return "No tunnels of this kind configured.".into();
        }
        let lines = all.iter().enumerate().map(|(n, t)| print(n, t));
        lines.collect::<Vec<_>>().join("\n")
    })
}

/// One tunnel, as VPP has it.
fn print(n: usize, t: &Shown) -> String {
    let ends = format!("[{n}] instance {} src {} dst {}", t.instance, t.src, t.dst);
    match (t.vni, t.src_port, t.dst_port) {
        (Some(vni), Some(src), Some(dst)) => format!(
            "{ends} src_port {src} dst_port {dst} vni {vni} table-ID {} sw-if-idx {} [decap-next-l2]",
            t.table, t.index
        ),
        _ => format!(
            "{ends} table-ID {} sw-if-idx {} payload {} point-to-point",
            t.table, t.index, t.payload
        ),
    }
}
