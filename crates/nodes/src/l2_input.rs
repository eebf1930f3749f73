//! `l2-input`: frames of a cross-connected interface go out on its peer, as they are; those of a port of a bridge
//! domain go to `l2-fwd`.
//!
//! Drop reasons: `l2_no_peer`, `ethernet_too_short`.

use std::sync::Arc;

use parshall_buffer::{BufferIndex, Frame, IF_MIXED, IF_NONE};
use parshall_counters::DropReason;
use parshall_graph::wide::{Isa, WideNode};
use parshall_graph::{CONTINUE, Ctx, Dispatch, NodeSpec};

use crate::ethernet_input::count_group;
use crate::state::{Shared, if_flags};

/// The node's description.
pub const SPEC: NodeSpec = NodeSpec::new("l2-input", &["l2-fwd"])
    .starting("interface-output")
    .by_interface();

const L2_FWD: u16 = 0;

/// The node.
pub struct L2Input {
    shared: Arc<Shared>,
}

impl L2Input {
    /// Over this state.
    pub fn new(shared: Arc<Shared>) -> L2Input {
        L2Input { shared }
    }
}

impl WideNode for L2Input {
    #[inline(always)]
    fn process<I: Isa>(&mut self, cx: &mut Ctx<'_>, frame: &mut Frame) -> Dispatch {
        let interfaces = self.shared.interfaces(cx.rcu);
        if frame.rx_if == IF_MIXED {
            for (i, &b) in frame.packets().iter().enumerate() {
                let view = interfaces.view(cx.pool.meta(b).rx_if);
                if view.has(if_flags::BRIDGE) {
                    cx.next[i] = L2_FWD;
                } else {
                    count_groups(cx, &[b]);
                    send_one(cx, i, b, view.peer);
                }
            }
            return Dispatch::Each;
        }
        let view = interfaces.view(frame.rx_if);
        if view.has(if_flags::BRIDGE) {
            return Dispatch::All(L2_FWD);
        }
        let peer = view.peer;
        if peer == IF_NONE {
            count_groups(cx, frame.packets());
            for (i, &b) in frame.packets().iter().enumerate() {
                cx.drop_packet(i, b, DropReason::L2NoPeer);
            }
            return Dispatch::Each;
        }
        let (mut first, mut short) = (0, false);
        let mut view = cx.pool.view();
        for &b in frame.packets() {
            let m = view.meta_mut(b);
            m.tx_if = peer;
            short |= m.len < 14;
            let at = m.data;
            first |= view.peek::<1>(b, at)[0];
        }
        if first & 1 != 0 {
            count_groups(cx, frame.packets());
        }
        frame.tx_if = peer;
        if !short {
            return Dispatch::All(CONTINUE);
        }
        for (i, &b) in frame.packets().iter().enumerate() {
            send_one(cx, i, b, peer);
        }
        Dispatch::Each
    }
}

fn send_one(cx: &mut Ctx<'_>, i: usize, b: BufferIndex, peer: u32) {
    let m = cx.pool.meta_mut(b);
    m.tx_if = IF_NONE;
    match (m.len, peer) {
        (..14, _) => cx.drop_packet(i, b, DropReason::EthernetTooShort),
        (_, IF_NONE) => cx.drop_packet(i, b, DropReason::L2NoPeer),
        _ => {
            m.tx_if = peer;
            cx.next[i] = CONTINUE;
        }
    }
}

#[cold]
fn count_groups(cx: &Ctx<'_>, packets: &[BufferIndex]) {
    for &b in packets {
        let dst: &[u8; 6] = cx.pool.peek(b, 0);
        if dst[0] & 1 != 0 {
            count_group(cx.counters, cx.pool.meta(b).rx_if, *dst == [0xFF; 6]);
        }
    }
}
