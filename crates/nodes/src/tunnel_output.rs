//! `tunnel-output`: the way out of a tunnel interface, in the place of a transmit queue: the outer headers are put in
//! front of the packet, which is then routed as any other.
//!
//! What is routed into a tunnel for packets comes here with an Ethernet header that stands for the kind of packet and
//! is taken off again. The outer packet may be fragmented over IPv4 (RFC 2003 section 3.1 leaves the choice); over IPv6
//! what does not fit is dropped as `packet_too_big`. A tunnel that is routed through itself ends at the dispatcher's
//! limit of interfaces in each other.
//!
//! Packets are taken in runs of one tunnel. The outer destination is looked up once a run, in the table as it is now: where
//! the answer is an adjacency, or several of which each flow has one, the packets go on to the rewrite at once, else to the
//! lookup of their family, which finds what there is to say. Plain packets of a run get their headers in one loop
//! ([`Outer4`]), and there also their link-layer header, where that is known and they fit; the others one by one.
//!
//! Drop reasons: `interface_gone`, `tunnel_payload`, `no_headroom`, `nested_too_deep`, `link_mtu_exceeded`.

use std::net::IpAddr;
use std::sync::Arc;

use parshall_buffer::{BufferIndex, Frame, IF_MIXED, IF_NONE};
use parshall_counters::DropReason;
use parshall_fib::{Dpo, DpoKind};
use parshall_graph::wide::{Isa, WideNode};
use parshall_graph::{CONTINUE, Ctx, Dispatch, NodeSpec};
use parshall_rcu::Reader;

use crate::flow_hash::rehash;
use crate::parts::udp6_checksum;
use crate::state::Shared;
use crate::tunnel::{Encap, Inner, PROTO_IP4, PROTO_IP6, TunnelKey, TunnelView, frame_hash};
#[cfg(doc)]
use crate::tunnel_encap::Outer4;
use crate::tunnel_encap::Way;

/// The node's description.
pub const SPEC: NodeSpec = NodeSpec::new(
    "tunnel-output",
    &["ip4-lookup", "ip6-lookup", "ip4-rewrite", "ip6-rewrite"],
)
.starting("interface-output");

const LOOKUP: [u16; 2] = [0, 1];
const REWRITE: [u16; 2] = [2, 3];
const ETHERNET: u16 = 14;
/// Bytes that a link-layer header is written by.
const LINK_ROOM: u16 = 16;

/// The node.
pub struct TunnelOutput {
    shared: Arc<Shared>,
    /// IPv4 identification of the next packet.
    ident: u16,
}

impl TunnelOutput {
    /// Over this state.
    pub fn new(shared: Arc<Shared>) -> TunnelOutput {
        TunnelOutput { shared, ident: 0 }
    }
}

/// Takes the header off that stands for the kind of packet, and says what the packet is.
fn unwrap(cx: &mut Ctx<'_>, b: BufferIndex, encap: Encap) -> Result<Inner, DropReason> {
    let kind = cx.pool.head::<2>(b, 12).map(|k| u16::from_be_bytes(*k));
    let kind = kind.ok_or(DropReason::TunnelPayload)?;
    if !cx.pool.pull(b, ETHERNET) {
        return Err(DropReason::TunnelPayload);
    }
    let (ip6, class) = match kind {
        0x0800 => (false, cx.pool.head::<20>(b, 0).map(|h| h[1])),
        0x86DD => (
            true,
            cx.pool.head::<40>(b, 0).map(|h| h[0] << 4 | h[1] >> 4),
        ),
        0x8847 if encap == Encap::Gre => {
            return Ok(Inner {
                protocol: kind,
                hash: cx.pool.meta(b).flow_hash,
                ..Inner::default()
            });
        }
        _ => return Err(DropReason::TunnelPayload),
    };
    let class = class.ok_or(DropReason::TunnelPayload)?;
    let protocol = match (encap, ip6) {
        (Encap::Ip, false) => u16::from(PROTO_IP4),
        (Encap::Ip, true) => u16::from(PROTO_IP6),
        _ => kind,
    };
    Ok(Inner {
        hash: rehash(cx.pool, b, 0, ip6),
        class: class & 0xFC,
        protocol,
        ident: 0,
    })
}

/// Puts the outer headers in front of packet `b`; says where it goes.
#[inline(never)]
fn wrap(
    cx: &mut Ctx<'_>,
    b: BufferIndex,
    view: &TunnelView,
    way: &Way<'_>,
    ident: &mut u16,
) -> Result<u16, DropReason> {
    let encap = view.key.encap;
    let mut inner = if encap.is_ethernet() {
        Inner {
            hash: frame_hash(cx.pool, b),
            ..Inner::default()
        }
    } else {
        unwrap(cx, b, encap)?
    };
    (inner.ident, *ident) = (*ident, ident.wrapping_add(1));
    let total = cx.pool.meta(b).total_len() + u32::from(view.header_len());
    let total = u16::try_from(total).map_err(|_| DropReason::LinkMtuExceeded)?;
    let m = cx.pool.meta(b);
    if m.data < view.header_len() + LINK_ROOM {
        // Packets come with room for a few headers. Where that is gone, one tunnel leads into another.
        return Err(match m.nesting {
            0 | 1 => DropReason::NoHeadroom,
            _ => DropReason::NestedTooDeep,
        });
    }
    let room = cx.pool.push(b, view.header_len());
    view.write(room.ok_or(DropReason::NoHeadroom)?, total, inner);
    let ip6 = view.key.local.is_ipv6();
    if ip6 && matches!(encap, Encap::Vxlan { .. }) {
        // RFC 6936 would allow none, but receivers need not take that.
        let sum = udp6_checksum(cx.pool, b).to_be_bytes();
        cx.pool.peek_mut::<48>(b, 0)[46..].copy_from_slice(&sum);
    }
    // A flow that nothing tells from others yet has its outer header for that, and the lookup reads it.
    let dpo = match (inner.hash, way) {
        (0, Way::Spread(_)) => Dpo::MISS,
        (hash, way) => way.of(hash),
    };
    let m = cx.pool.meta_mut(b);
    (m.l2, m.l3) = (m.data, m.data);
    (m.tx_if, m.table, m.dpo) = (IF_NONE, view.key.table, dpo.bits());
    // A path for the outer flow is chosen by what tells inner flows apart.
    m.flow_hash = inner.hash;
    Ok(next(&view.key, dpo.is_miss()))
}

/// Where the packets of a tunnel go on.
#[inline(always)]
fn next(key: &TunnelKey, look_up: bool) -> u16 {
    let nodes = if look_up { LOOKUP } else { REWRITE };
    nodes[usize::from(key.local.is_ipv6())]
}

/// What the table says of a tunnel's other end now.
fn way<'r>(shared: &'r Shared, rcu: &'r Reader, key: &TunnelKey) -> Way<'r> {
    let dpo = match key.remote {
        IpAddr::V4(to) => shared.ip4.get(rcu, key.table).lookup(rcu, to.into()),
        IpAddr::V6(to) => shared.ip6.get(rcu, key.table).lookup(rcu, to.into()),
    };
    let is_adjacency = |d: &Dpo| d.kind() == DpoKind::Adjacency;
    let by = |dpo: Dpo| match shared.adjacencies.get(dpo.index(), rcu) {
        Some(adj) if adj.is_complete() && key.local.is_ipv4() => Way::Link(dpo, adj),
        _ => Way::Adjacency(dpo),
    };
    if is_adjacency(&dpo) {
        return by(dpo);
    }
    let choice = match dpo.kind() {
        DpoKind::LoadBalance => shared.load_balances.get(dpo.index(), rcu),
        _ => None,
    };
    match choice.map(|c| (c, c.buckets())) {
        Some((_, [only])) if is_adjacency(only) => by(*only),
        Some((choice, all)) if all.iter().all(is_adjacency) => Way::Spread(choice),
        _ => Way::Lookup,
    }
}

/// Puts the headers of one tunnel in front of `packets`, at position `at` of their frame, and says where each goes. The
/// interface that all of them leave by, if they do.
#[inline(always)]
fn send(
    shared: &Shared,
    cx: &mut Ctx<'_>,
    at: usize,
    packets: &[BufferIndex],
    view: &TunnelView,
    ident: &mut u16,
) -> Option<u32> {
    let way = way(shared, cx.rcu, &view.key);
    let (verdict, mut out) = match way {
        Way::Link(_, adj) => (CONTINUE, Some(adj.tx_if())),
        Way::Lookup => (next(&view.key, true), None),
        _ => (next(&view.key, false), None),
    };
    cx.next[at..at + packets.len()].fill(verdict);
    let mut done = 0;
    while done < packets.len() {
        if let Some(outer) = &view.outer4 {
            done += outer.run(&mut cx.pool.view(), &packets[done..], &way, ident);
        }
        // Whoever stopped the run.
        let Some(&b) = packets.get(done) else { break };
        out = None;
        match wrap(cx, b, view, &way, ident) {
            Ok(next) => cx.next[at + done] = next,
            Err(reason) => cx.drop_packet(at + done, b, reason),
        }
        done += 1;
    }
    out
}

impl WideNode for TunnelOutput {
    #[inline(always)]
    fn process<I: Isa>(&mut self, cx: &mut Ctx<'_>, frame: &mut Frame) -> Dispatch {
        let TunnelOutput { shared, ident } = self;
        let tunnels = shared.tunnels.load(cx.rcu);
        let packets = frame.packets();
        let (mut at, mut out) = (0, None);
        while at < packets.len() {
            let rest = &packets[at..];
            let tx_if = cx.pool.meta(rest[0]).tx_if;
            let run = match frame.tx_if {
                IF_MIXED => rest.iter().position(|&b| cx.pool.meta(b).tx_if != tx_if),
                _ => None,
            };
            let run = &rest[..run.unwrap_or(rest.len())];
            let by = match tunnels.view(tx_if) {
                Some(view) => send(shared, cx, at, run, view, ident),
                None => {
                    let drop = |(i, &b)| cx.drop_packet(i, b, DropReason::InterfaceGone);
                    (at..).zip(run).for_each(drop);
                    None
                }
            };
            out = if at == 0 || out == by { by } else { None };
            at += run.len();
        }
        frame.tx_if = out.unwrap_or(IF_MIXED);
        Dispatch::Each
    }
}
