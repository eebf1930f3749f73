//! `ip4-local`: packets for the router itself (RFC 1122 section 3.2).
//!
//! Fragments are put together first, ICMP goes on to be answered, what belongs to tunnels to `tunnel-input`. Nothing else is
//! served in the dataplane: UDP gets Port Unreachable (which ends a traceroute), other protocols Protocol Unreachable, TCP and
//! group traffic are dropped. Frames for the router that begin with a tunnel's packet do not come here: `ip4-lookup` gives them to
//! `tunnel-input`, which sends on what is not a tunnel's.
//!
//! Drop reasons: `local_no_port`, `local_no_protocol`, `ip4_multicast`.

use std::sync::Arc;

use parshall_buffer::{BufferIndex, Frame};
use parshall_counters::DropReason;
use parshall_graph::{Ctx, Dispatch, Node, NodeSpec};

use crate::icmp_error::{IcmpAsk, ask};
use crate::state::Shared;
use crate::trace::format_ip4;
use crate::tunnel::Tunnels;
use crate::tunnel_input::claim4;

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
    if claim4(cx.pool, b, tunnels) {
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

impl Node for Ip4Local {
    fn process(&mut self, cx: &mut Ctx<'_>, frame: &mut Frame) -> Dispatch {
        let tunnels = self.shared.tunnels.load(cx.rcu);
        for (i, &b) in frame.packets().iter().enumerate() {
            deliver(cx, i, b, tunnels);
        }
        Dispatch::Each
    }
}
