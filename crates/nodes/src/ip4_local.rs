//! `ip4-local`: packets for the router itself (RFC 1122 section 3.2).
//!
//! Fragments are put together first, ICMP goes on to be answered, what belongs to tunnels to `tunnel-input`. Nothing else is
//! served in the dataplane: UDP gets Port Unreachable (which ends a traceroute), other protocols Protocol Unreachable, TCP and
//! group traffic are dropped.
//!
//! A frame that is all for one end of tunnels, of one kind, goes on whole: it is compared with its first packet.
//!
//! Drop reasons: `local_no_port`, `local_no_protocol`, `ip4_multicast`.

use std::sync::Arc;

use parshall_buffer::{BufferIndex, Frame, PoolView};
use parshall_counters::DropReason;
use parshall_graph::wide::{Isa, WideNode};
use parshall_graph::{Ctx, Dispatch, NodeSpec};

use crate::icmp_error::{IcmpAsk, ask};
use crate::state::Shared;
use crate::trace::format_ip4;
use crate::tunnel::{PROTO_UDP, Tunnels};
use crate::tunnel_input::claim;

/// The node's description.
pub const SPEC: NodeSpec = NodeSpec::new(
    "ip4-local",
    &[
        "ip4-icmp-input",
        "ip4-icmp-error",
        "tunnel-input",
        "ip4-local-full-reassembly",
    ],
)
.format(format_ip4);

const ICMP_INPUT: u16 = 0;
const ICMP_ERROR: u16 = 1;
const TUNNEL_INPUT: u16 = 2;
const REASSEMBLY: u16 = 3;

/// The node.
pub struct Ip4Local {
    shared: Arc<Shared>,
}

impl Ip4Local {
    /// Over this state.
    pub fn new(shared: Arc<Shared>) -> Ip4Local {
        Ip4Local { shared }
    }
}

fn deliver(cx: &mut Ctx<'_>, i: usize, b: BufferIndex, tunnels: &Tunnels) {
    let h: [u8; 20] = *cx.pool.peek(b, 0);
    if h[16] >= 224 {
        return cx.drop_packet(i, b, DropReason::Ip4Multicast);
    }
    if u16::from_be_bytes([h[6], h[7]]) & 0x3FFF != 0 {
        cx.next[i] = REASSEMBLY;
        return;
    }
    if claim(cx.pool, b, tunnels, usize::from(h[0] & 15) * 4, h[9]) {
        cx.next[i] = TUNNEL_INPUT;
        return;
    }
    let (reason, error) = match h[9] {
        1 => {
            cx.next[i] = ICMP_INPUT;
            return;
        }
        6 => return cx.drop_packet(i, b, DropReason::LocalNoPort),
        17 => (DropReason::LocalNoPort, IcmpAsk::port_unreachable4()),
        _ => (
            DropReason::LocalNoProtocol,
            IcmpAsk::protocol_unreachable4(),
        ),
    };
    ask(cx, b, reason, error);
    cx.next[i] = ICMP_ERROR;
}

/// Bytes of a header without options and of two ports.
const WITH_PORTS: u16 = 24;

/// Whether these packets are all for tunnels, as far as can be said by comparing them with the first: one destination and
/// protocol, of UDP one port, no options, no fragments.
#[inline(always)]
fn are_tunnels(view: &PoolView<'_>, packets: &[BufferIndex], tunnels: &Tunnels) -> bool {
    let Some(&first) = packets.first().filter(|_| !tunnels.is_empty()) else {
        return false;
    };
    let words = |b: BufferIndex| {
        let h: &[u8; 24] = view.peek(b, view.meta(b).data);
        let word = |i: usize| u64::from_be_bytes(std::array::from_fn(|k| h[i + k]));
        [word(0), word(8), word(16)]
    };
    let [_, second, third] = words(first);
    let (protocol, port) = ((second >> 48) as u8, third as u16);
    let group = third >> 56 >= 224;
    if group || !tunnels.claim(protocol, port) {
        return false;
    }
    let ports = u64::from(protocol == PROTO_UDP) * 0xFFFF;
    let expected = [0x45 << 56, second, third];
    // Version, header length, what says that there are more fragments; protocol; destination and port.
    let matters = [0xFF << 56 | 0x3FFF, 0xFF << 48, 0xFFFF_FFFF << 32 | ports];
    let (mut differs, mut short) = ([0; 3], false);
    for &b in packets {
        let word = words(b);
        for i in 0..3 {
            differs[i] |= word[i] ^ expected[i];
        }
        short |= view.meta(b).len < WITH_PORTS;
    }
    (0..3).all(|i| differs[i] & matters[i] == 0) && !short
}

impl WideNode for Ip4Local {
    #[inline(always)]
    fn process<I: Isa>(&mut self, cx: &mut Ctx<'_>, frame: &mut Frame) -> Dispatch {
        let tunnels = self.shared.tunnels.load(cx.rcu);
        if are_tunnels(&cx.pool.view(), frame.packets(), tunnels) {
            return Dispatch::All(TUNNEL_INPUT);
        }
        for (i, &b) in frame.packets().iter().enumerate() {
            deliver(cx, i, b, tunnels);
        }
        Dispatch::Each
    }
}
