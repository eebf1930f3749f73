//! `tag-rewrite-output`: changes the VLAN tags of what goes out of an interface with a tag rewrite, when what is sent is
//! switched: the inverse of what is done to what comes in. Sub-interfaces do so in `sub-interface-output`.
//!
//! Drop reasons: `vlan_tag_missing`, `no_headroom`.

use std::sync::Arc;

use parshall_buffer::Frame;
use parshall_graph::{CONTINUE, Ctx, Dispatch, Feature, Node, NodeSpec};

use crate::state::{Shared, if_flags};

/// The node's description.
pub const SPEC: NodeSpec = NodeSpec::new("tag-rewrite-output", &[]).feature(Feature {
    arc: "interface-output",
    before: &["sflow-output", "pcap-tx"],
    after: &[],
});

/// The node.
pub struct TagRewriteOutput {
    shared: Arc<Shared>,
}

impl TagRewriteOutput {
    /// Over this state.
    pub fn new(shared: Arc<Shared>) -> TagRewriteOutput {
        TagRewriteOutput { shared }
    }
}

impl Node for TagRewriteOutput {
    fn process(&mut self, cx: &mut Ctx<'_>, frame: &mut Frame) -> Dispatch {
        let interfaces = self.shared.interfaces(cx.rcu);
        for (i, &b) in frame.packets().iter().enumerate() {
            let tx_if = cx.pool.meta(b).tx_if;
            cx.next[i] = CONTINUE;
            if interfaces.view(tx_if).flags & if_flags::L2 != 0
                && let Err(reason) = interfaces.vlan(tx_if).rewrite_out.apply(cx.pool, b)
            {
                cx.drop_packet(i, b, reason);
            }
        }
        Dispatch::Each
    }
}
