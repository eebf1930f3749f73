//! `tunnel-input`: packets to an end of a tunnel: the outer headers are taken off, and what was inside is received on
//! the tunnel's interface.
//!
//! RFC 7348 section 4.1 (VXLAN; the UDP checksum is not looked at, which it allows), RFC 2003, RFC 4213, RFC 2473 (IP in
//! IP), RFC 2784 and RFC 7676 (GRE; with or without checksum, without key and sequence number). Both outer addresses must
//! be the tunnel's. A packet in a packet in a packet is taken out of at most eight.
//!
//! What comes out of one tunnel is taken together: one packet is judged, those like it follow ([`Alike`]), and all are
//! counted and shown to the sampler at once. `ip4-lookup` gives frames for the router here that begin with a tunnel's packet;
//! what is not a tunnel's in them goes on to `ip4-local`.
//!
//! Drop reasons: `no_tunnel`, `vxlan_malformed`, `gre_malformed`, `tunnel_payload`, `interface_down`, `nested_too_deep`.

use std::any::Any;
use std::net::IpAddr;
use std::sync::Arc;

use parshall_buffer::{BufferIndex, Frame, IF_MIXED, IF_NONE, Pool};
use parshall_counters::DropReason;
use parshall_graph::wide::{Isa, WideNode};
use parshall_graph::{Ctx, Dispatch, NodeSpec};
use parshall_sample::HeaderProtocol;

use crate::parts::checksum_ok;
use crate::sflow_virtual::VirtualSflow;
use crate::state::{IfTable, Shared, if_flags};
use crate::tunnel::{
    Encap, GRE, GRE_TEB, PROTO_GRE, PROTO_IP4, PROTO_IP6, PROTO_UDP, TunnelKey, Tunnels, UDP_VXLAN,
    outer_addresses,
};
use crate::tunnel_decap::Alike;

/// The node's description.
pub const SPEC: NodeSpec = NodeSpec::new(
    "tunnel-input",
    &[
        "ethernet-input",
        "ip4-input",
        "ip6-input",
        "mpls-input",
        "ip4-local",
    ],
);

const ETHERNET_INPUT: u16 = 0;
const IP4_INPUT: u16 = 1;
const IP6_INPUT: u16 = 2;
const MPLS_INPUT: u16 = 3;
const IP4_LOCAL: u16 = 4;

/// Packets that a packet is taken out of, and tunnels it leaves by, at most.
const MAX_NESTING: u32 = 8;
/// Bytes of a GRE checksum and the reserved field behind it.
const GRE_CHECKSUM: usize = 4;

/// The node.
pub struct TunnelInput {
    shared: Arc<Shared>,
    sampling: VirtualSflow,
}

impl TunnelInput {
    /// Over this state.
    pub fn new(shared: Arc<Shared>) -> TunnelInput {
        TunnelInput {
            shared,
            sampling: VirtualSflow::default(),
        }
    }
}

/// What a packet has inside: of which tunnel, behind how many bytes, and where that goes.
struct Found {
    encap: Encap,
    skip: usize,
    next: u16,
}

/// Whether a packet for the router, its upper layer of `protocol` at `at`, is for `tunnel-input`. Of an IPv6 packet that is
/// told both in the metadata's scratch words.
#[inline(always)]
pub fn claim(pool: &Pool, b: BufferIndex, tunnels: &Tunnels, at: usize, protocol: u8) -> bool {
    if tunnels.is_empty() {
        return false;
    }
    let port = pool
        .head::<4>(b, at)
        .map_or(0, |p| u16::from_be_bytes([p[2], p[3]]));
    tunnels.claim(protocol, port)
}

/// The same for an IPv4 packet: to one host, whole, and for `tunnel-input`.
#[inline(always)]
pub fn claim4(pool: &Pool, b: BufferIndex, tunnels: &Tunnels) -> bool {
    let h: &[u8; 20] = pool.peek(b, 0);
    let whole = u16::from_be_bytes([h[6], h[7]]) & 0x3FFF == 0;
    let at = usize::from(h[0] & 15) * 4;
    whole && h[16] < 224 && claim(pool, b, tunnels, at, h[9])
}

/// Protocol and place of the upper layer.
fn upper(pool: &Pool, b: BufferIndex) -> (u8, usize) {
    let h: &[u8; 20] = pool.peek(b, 0);
    if h[0] >> 4 == 4 {
        return (h[9], usize::from(h[0] & 15) * 4);
    }
    let [at, protocol] = pool.meta(b).scratch;
    (protocol as u8, at as usize)
}

fn look(cx: &mut Ctx<'_>, b: BufferIndex) -> Result<Found, DropReason> {
    let (protocol, at) = upper(cx.pool, b);
    let found = |encap, skip, next| Ok(Found { encap, skip, next });
    match protocol {
        PROTO_UDP => look_at_vxlan(cx, b, at),
        PROTO_GRE => look_at_gre(cx, b, at),
        PROTO_IP4 => found(Encap::Ip, at, IP4_INPUT),
        PROTO_IP6 => found(Encap::Ip, at, IP6_INPUT),
        _ => Err(DropReason::TunnelPayload),
    }
}

fn look_at_vxlan(cx: &mut Ctx<'_>, b: BufferIndex, at: usize) -> Result<Found, DropReason> {
    let h = cx.pool.head::<UDP_VXLAN>(b, at);
    let h = *h.ok_or(DropReason::VxlanMalformed)?;
    let len = u32::from(u16::from_be_bytes([h[4], h[5]]));
    let there = cx.pool.meta(b).total_len().saturating_sub(at as u32);
    // The flag says that there is a network identifier.
    if h[8] & 0x08 == 0 || len < UDP_VXLAN as u32 || len > there {
        return Err(DropReason::VxlanMalformed);
    }
    cx.pool.trim(b, at as u32 + len);
    Ok(Found {
        encap: Encap::Vxlan {
            vni: u32::from_be_bytes([0, h[12], h[13], h[14]]),
            port: u16::from_be_bytes([h[2], h[3]]),
        },
        skip: at + UDP_VXLAN,
        next: ETHERNET_INPUT,
    })
}

fn look_at_gre(cx: &mut Ctx<'_>, b: BufferIndex, at: usize) -> Result<Found, DropReason> {
    let h = cx.pool.head::<GRE>(b, at);
    let h = *h.ok_or(DropReason::GreMalformed)?;
    let skip = match u16::from_be_bytes([h[0], h[1]]) {
        0 => at + GRE,
        0x8000 if checksum_ok(cx.pool, b, at) => at + GRE + GRE_CHECKSUM,
        _ => return Err(DropReason::GreMalformed),
    };
    let (encap, next) = match u16::from_be_bytes([h[2], h[3]]) {
        0x0800 => (Encap::Gre, IP4_INPUT),
        0x86DD => (Encap::Gre, IP6_INPUT),
        0x8847 => (Encap::Gre, MPLS_INPUT),
        GRE_TEB => (Encap::GreTeb, ETHERNET_INPUT),
        _ => return Err(DropReason::TunnelPayload),
    };
    Ok(Found { encap, skip, next })
}

/// The table that a packet for the router was routed by.
pub fn table_of(cx: &Ctx<'_>, interfaces: &IfTable, b: BufferIndex, ip6: bool) -> u32 {
    let m = cx.pool.meta(b);
    match m.table {
        IF_NONE => {
            let view = interfaces.view(m.rx_if);
            if ip6 { view.ip6_table } else { view.ip4_table }
        }
        table => table,
    }
}

/// What came out of a tunnel.
struct Out {
    if_index: u32,
    /// Bytes in front of it.
    skip: usize,
    next: u16,
}

/// The tunnel found last.
type Last = Option<(TunnelKey, u32)>;

/// Takes the packet inside out of packet `b`. It is not counted yet.
#[inline(never)]
fn unpack(
    shared: &Shared,
    cx: &mut Ctx<'_>,
    b: BufferIndex,
    last: &mut Last,
) -> Result<Out, DropReason> {
    let interfaces = shared.interfaces(cx.rcu);
    let found = look(cx, b)?;
    let (remote, local): (IpAddr, IpAddr) = outer_addresses(cx.pool, b);
    let key = TunnelKey {
        local,
        remote,
        table: table_of(cx, interfaces, b, local.is_ipv6()),
        encap: found.encap,
    };
    let if_index = match last {
        Some((k, i)) if *k == key => *i,
        _ => {
            let tunnels = shared.tunnels.load(cx.rcu);
            let i = tunnels.find(&key).ok_or(DropReason::NoTunnel)?;
            *last = Some((key, i));
            i
        }
    };
    if !interfaces.view(if_index).has(if_flags::UP) {
        return Err(DropReason::InterfaceDown);
    }
    let m = cx.pool.meta_mut(b);
    if m.nesting >= MAX_NESTING {
        return Err(DropReason::NestedTooDeep);
    }
    m.nesting += 1;
    if !cx.pool.pull(b, found.skip as u16) {
        return Err(DropReason::TunnelPayload);
    }
    let m = cx.pool.meta_mut(b);
    (m.l2, m.l3, m.rx_if) = (m.data, m.data, if_index);
    (m.table, m.flow_hash, m.dpo) = (IF_NONE, 0, 0);
    Ok(Out {
        if_index,
        skip: found.skip,
        next: found.next,
    })
}

/// What a packet that goes to one of the next nodes begins with.
#[inline(always)]
fn begins_with(next: u16) -> HeaderProtocol {
    match next {
        IP4_INPUT => HeaderProtocol::Ip4,
        IP6_INPUT => HeaderProtocol::Ip6,
        MPLS_INPUT => HeaderProtocol::Mpls,
        _ => HeaderProtocol::Ethernet,
    }
}

impl TunnelInput {
    /// Takes what is inside out of the packets that `packets` begins with, those of the first one's tunnel, and says how
    /// many and what came out; `None` = the first is not a tunnel's.
    #[inline(always)]
    fn take(
        &mut self,
        cx: &mut Ctx<'_>,
        packets: &[BufferIndex],
        last: &mut Last,
    ) -> Result<Option<(usize, Out)>, DropReason> {
        let b = packets[0];
        // Those over IPv6 come from `ip6-local` only, which asked.
        let tunnels = self.shared.tunnels.load(cx.rcu);
        if cx.pool.peek::<1>(b, 0)[0] >> 4 == 4 && !claim4(cx.pool, b, tunnels) {
            return Ok(None);
        }
        let alike = Alike::to(&cx.pool.view(), b);
        let out = unpack(&self.shared, cx, b, last)?;
        let mut bytes = u64::from(cx.pool.meta(b).total_len());
        let mut n = 1;
        if let Some(alike) = alike {
            let rest = &packets[1..];
            let view = &mut cx.pool.view();
            let (more, more_bytes) = alike.run(view, rest, out.if_index, out.skip as u16);
            (n, bytes) = (n + more, bytes + more_bytes);
        }
        cx.count_received(out.if_index, n, bytes);
        let protocol = begins_with(out.next);
        self.sampling
            .look_at_all(cx, &packets[..n], out.if_index, protocol);
        Ok(Some((n, out)))
    }
}

impl WideNode for TunnelInput {
    #[inline(always)]
    fn process<I: Isa>(&mut self, cx: &mut Ctx<'_>, frame: &mut Frame) -> Dispatch {
        let mut last = None;
        let (mut common, mut mixed) = (IF_NONE, false);
        let packets = frame.packets();
        let mut at = 0;
        while at < packets.len() {
            match self.take(cx, &packets[at..], &mut last) {
                Ok(None) => {
                    mixed = true;
                    cx.next[at] = IP4_LOCAL;
                    at += 1;
                }
                Ok(Some((n, out))) => {
                    mixed |= common != IF_NONE && common != out.if_index;
                    common = out.if_index;
                    cx.next[at..at + n].fill(out.next);
                    at += n;
                }
                Err(reason) => {
                    mixed = true;
                    cx.drop_packet(at, packets[at], reason);
                    at += 1;
                }
            }
        }
        frame.rx_if = if mixed { IF_MIXED } else { common };
        Dispatch::Each
    }

    fn message(&mut self, _cx: &mut Ctx<'_>, message: &mut (dyn Any + Send)) {
        self.sampling.message(message);
    }
}
