//! `mpls-input`: is MPLS spoken on the interface, is there a label, is its TTL alive (RFC 3032, RFC 3443).
//!
//! Drop reasons: `mpls_not_enabled`, `mpls_too_short`, `mpls_ttl_expired`.

use std::sync::Arc;

use parshall_buffer::{BufferIndex, Frame, IF_MIXED};
use parshall_counters::DropReason;
use parshall_graph::wide::{Isa, WideNode};
use parshall_graph::{Ctx, Dispatch, NodeSpec};

use crate::state::{Shared, if_flags};
use crate::trace::format_mpls;

/// The node's description.
pub const SPEC: NodeSpec = NodeSpec::new("mpls-input", &["mpls-lookup"])
    .by_interface()
    .format(format_mpls);

const LOOKUP: u16 = 0;

/// The node.
pub struct MplsInput {
    shared: Arc<Shared>,
}

impl MplsInput {
    /// Over this state.
    pub fn new(shared: Arc<Shared>) -> MplsInput {
        MplsInput { shared }
    }
}

impl WideNode for MplsInput {
    #[inline(always)]
    fn process<I: Isa>(&mut self, cx: &mut Ctx<'_>, frame: &mut Frame) -> Dispatch {
        let interfaces = self.shared.interfaces(cx.rcu);
        let common = frame.rx_if;
        if common != IF_MIXED && interfaces.view(common).has(if_flags::MPLS) {
            let view = cx.pool.view();
            let wrong = frame.packets().iter().fold(false, |wrong, &b| {
                let m = view.meta(b);
                let ttl = view.peek::<4>(b, m.data)[3];
                wrong | (ttl <= 1) | (m.len < 4)
            });
            if !wrong {
                return Dispatch::All(LOOKUP);
            }
        }
        for (i, &b) in frame.packets().iter().enumerate() {
            let on = interfaces.view(cx.pool.meta(b).rx_if).has(if_flags::MPLS);
            judge(cx, i, b, on);
        }
        Dispatch::Each
    }
}

#[cold]
fn judge(cx: &mut Ctx<'_>, i: usize, b: BufferIndex, on: bool) {
    let ttl = cx.pool.head::<4>(b, 0).map(|entry| entry[3]);
    match ttl {
        _ if !on => cx.drop_packet(i, b, DropReason::MplsNotEnabled),
        None => cx.drop_packet(i, b, DropReason::MplsTooShort),
        Some(0 | 1) => cx.drop_packet(i, b, DropReason::MplsTtlExpired),
        Some(_) => cx.next[i] = LOOKUP,
    }
}
