//! `bvi-output`: what is routed out of a bridge domain's own interface (BVI) is bridged there. VPP's `l2-fwd` as seen
//! from `bvi0-tx`.
//!
//! Stands in the place of the interface's transmit queue. The packet keeps the interface it was received on; the port
//! that the bridge takes it from is the one it was to leave by. Nothing is learned: the router's address is configured.
//!
//! Drop reasons: as `l2-fwd`.

use std::sync::Arc;

use parshall_buffer::{Frame, IF_MIXED};
use parshall_graph::wide::{Isa, WideNode};
use parshall_graph::{Ctx, Dispatch, NodeSpec};

use crate::ethernet_input::format_ethernet;
use crate::l2_fwd::Bridging;
use crate::state::Shared;

/// The node's description. Its next nodes stand as those of `l2-fwd` do.
pub const SPEC: NodeSpec = NodeSpec::new("bvi-output", &["l2-flood", "ethernet-input"])
    .starting("interface-output")
    .format(format_ethernet);

/// The node.
pub struct BviOutput {
    bridging: Bridging,
}

impl BviOutput {
    /// Over this state.
    pub fn new(shared: Arc<Shared>) -> BviOutput {
        BviOutput {
            bridging: Bridging::new(shared, None),
        }
    }
}

impl WideNode for BviOutput {
    #[inline(always)]
    fn process<I: Isa>(&mut self, cx: &mut Ctx<'_>, frame: &mut Frame) -> Dispatch {
        if frame.tx_if != IF_MIXED {
            return self.bridging.whole::<I>(cx, frame, frame.tx_if);
        }
        self.bridging.mixed::<I>(cx, frame, |m| m.tx_if)
    }
}
