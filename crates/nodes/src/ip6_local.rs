//! `ip6-local`: packets for the router itself, by address or by group (RFC 4291 section 2.8).
//!
//! Fragments are put together first, ICMPv6 goes on to be answered, what belongs to tunnels to `tunnel-input`. UDP gets Port
//! Unreachable, unknown headers a Parameter Problem (RFC 8200 section 4), TCP and other group traffic are dropped.
//!
//! Drop reasons: `local_no_port`, `local_no_protocol`, `nd_fragmented`, `ip6_multicast`,
//! `ip6_link_local`, `ip6_bad_length`.

use std::net::Ipv6Addr;
use std::sync::Arc;

use parshall_buffer::{BufferIndex, Frame};
use parshall_counters::DropReason;
use parshall_graph::{Ctx, Dispatch, Node, NodeSpec};
use parshall_wire::{IpProtocol, Ipv6Packet};

use crate::icmp_error::{IcmpAsk, ask};
use crate::local_reassembly::is_discovery;
use crate::state::{IfAddresses, Shared};
use crate::trace::format_ip6;
use crate::tunnel_input::claim;

/// The node's description.
pub const SPEC: NodeSpec = NodeSpec::new(
    "ip6-local",
    &[
        "ip6-icmp-input",
        "ip6-icmp-error",
        "tunnel-input",
        "ip6-local-full-reassembly",
    ],
)
.format(format_ip6);

const ICMP_INPUT: u16 = 0;
const ICMP_ERROR: u16 = 1;
const TUNNEL_INPUT: u16 = 2;
const REASSEMBLY: u16 = 3;

/// The node.
pub struct Ip6Local {
    shared: Arc<Shared>,
}

impl Ip6Local {
    /// Over this state.
    pub fn new(shared: Arc<Shared>) -> Ip6Local {
        Ip6Local { shared }
    }

    fn deliver(&self, cx: &mut Ctx<'_>, i: usize, b: BufferIndex) {
        let rx_if = cx.pool.meta(b).rx_if;
        let ip = Ipv6Packet::new_unchecked(cx.pool.bytes(b));
        let dst = ip.dst_addr();
        let upper = ip.upper_layer();
        if !self.is_ours(cx, rx_if, dst) {
            let group = dst.is_multicast();
            let reason = if group {
                DropReason::Ip6Multicast
            } else {
                DropReason::Ip6LinkLocal
            };
            return cx.drop_packet(i, b, reason);
        }
        let Ok(upper) = upper else {
            return cx.drop_packet(i, b, DropReason::Ip6BadLength);
        };
        if upper.is_fragment() {
            cx.next[i] = REASSEMBLY;
            return;
        }
        // An only fragment is whole, but neighbour discovery is not to come in one either.
        if upper.fragment.is_some() && is_discovery(cx.pool.bytes(b)) {
            return cx.drop_packet(i, b, DropReason::NdFragmented);
        }
        if upper.segments_left != 0 {
            // Source routes end here (RFC 5095 for the one kind that anybody sent).
            return cx.drop_packet(i, b, DropReason::LocalNoProtocol);
        }
        let (offset, protocol) = (upper.offset, upper.protocol);
        let tunnels = self.shared.tunnels.load(cx.rcu);
        if claim(cx.pool, b, tunnels, offset, protocol.0) {
            cx.pool.meta_mut(b).scratch = [offset as u32, u32::from(protocol.0)];
            cx.next[i] = TUNNEL_INPUT;
            return;
        }
        let (reason, error) = match protocol {
            IpProtocol::ICMPV6 => {
                cx.pool.meta_mut(b).scratch[0] = offset as u32;
                cx.next[i] = ICMP_INPUT;
                return;
            }
            IpProtocol::TCP => return cx.drop_packet(i, b, DropReason::LocalNoPort),
            IpProtocol::UDP => (DropReason::LocalNoPort, IcmpAsk::port_unreachable6()),
            // Nothing follows, so there is nothing to complain of (RFC 8200 section 4.7).
            IpProtocol::NO_NEXT_HEADER => {
                return cx.drop_packet(i, b, DropReason::LocalNoProtocol);
            }
            _ => (
                DropReason::LocalNoProtocol,
                IcmpAsk::unknown_next_header6(named_at(cx.pool.bytes(b))),
            ),
        };
        ask(cx, b, reason, error);
        cx.next[i] = ICMP_ERROR;
    }

    /// Whether an address is one the router listens to. A global address is: the lookup said so.
    fn is_ours(&self, cx: &Ctx<'_>, rx_if: u32, dst: Ipv6Addr) -> bool {
        let Some(own) = self.shared.interfaces(cx.rcu).addresses(rx_if) else {
            return false;
        };
        if dst.is_multicast() {
            joined(own, dst)
        } else {
            !is_link_local(dst) || own.link_local == Some(dst)
        }
    }
}

/// Where a packet names its upper layer: the offset of the last next-header field.
fn named_at(packet: &[u8]) -> u16 {
    let ip = Ipv6Packet::new_unchecked(packet);
    let last = ip.extension_headers().map_while(Result::ok).last();
    last.map_or(6, |h| (40 + h.offset) as u16)
}

/// Whether an address means something on one link only (RFC 4291 section 2.5.6).
pub fn is_link_local(a: Ipv6Addr) -> bool {
    a.segments()[0] & 0xFFC0 == 0xFE80
}

/// All-nodes, all-routers, and the solicited-node groups of the interface's addresses.
fn joined(own: &IfAddresses, group: Ipv6Addr) -> bool {
    let fixed = [
        Ipv6Addr::new(0xFF02, 0, 0, 0, 0, 0, 0, 1),
        Ipv6Addr::new(0xFF02, 0, 0, 0, 0, 0, 0, 2),
    ];
    let solicited = |a: &Ipv6Addr| {
        let (g, a) = (group.octets(), a.octets());
        g[..13] == [0xFF, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xFF] && g[13..] == a[13..]
    };
    fixed.contains(&group)
        || own.ip6.iter().any(|(a, _)| solicited(a))
        || own.link_local.iter().any(solicited)
}

impl Node for Ip6Local {
    fn process(&mut self, cx: &mut Ctx<'_>, frame: &mut Frame) -> Dispatch {
        for (i, &b) in frame.packets().iter().enumerate() {
            self.deliver(cx, i, b);
        }
        Dispatch::Each
    }
}
