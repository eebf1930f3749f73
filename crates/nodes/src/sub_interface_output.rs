//! `sub-interface-output`: the way out of a sub-interface, whose place in the graph is that of a transmit queue: its
//! tags are put on (IEEE 802.1Q), and the frame goes out through the parent.
//!
//! What was routed gets the tags of the sub-interface. What is switched had its tags when it came and is changed by
//! the sub-interface's tag rewrite alone.
//!
//! Drop reasons: `interface_gone`, `vlan_tag_missing`, `no_headroom`.

use std::sync::Arc;

use parshall_buffer::{BufferIndex, Frame, IF_MIXED, IF_NONE};
use parshall_counters::DropReason;
use parshall_graph::{CONTINUE, Ctx, Dispatch, Node, NodeSpec};

use crate::state::{IfTable, Shared, if_flags};
use crate::vlan::TagRewrite;

/// The node's description.
pub const SPEC: NodeSpec = NodeSpec::new("sub-interface-output", &[]).starting("interface-output");

/// The node.
pub struct SubInterfaceOutput {
    shared: Arc<Shared>,
}

impl SubInterfaceOutput {
    /// Over this state.
    pub fn new(shared: Arc<Shared>) -> SubInterfaceOutput {
        SubInterfaceOutput { shared }
    }
}

/// What happens to packets of one sub-interface.
#[derive(Clone, Copy)]
struct Way {
    interface: u32,
    parent: u32,
    rewrite: TagRewrite,
}

impl Way {
    fn of(interfaces: &IfTable, interface: u32) -> Way {
        let vlan = interfaces.vlan(interface);
        let switched = interfaces.view(interface).flags & if_flags::L2 != 0;
        Way {
            interface,
            parent: vlan.parent,
            rewrite: if switched {
                vlan.rewrite_out
            } else {
                TagRewrite {
                    pop: 0,
                    push: vlan.tags,
                }
            },
        }
    }
}

impl Node for SubInterfaceOutput {
    fn process(&mut self, cx: &mut Ctx<'_>, frame: &mut Frame) -> Dispatch {
        let interfaces = self.shared.interfaces(cx.rcu);
        let mut way: Option<Way> = None;
        let (mut parent, mut failed) = (None, false);
        for (i, &b) in frame.packets().iter().enumerate() {
            let tx_if = cx.pool.meta(b).tx_if;
            let w = match way {
                Some(w) if w.interface == tx_if => w,
                _ => *way.insert(Way::of(interfaces, tx_if)),
            };
            match send(cx, b, &w) {
                Ok(()) => cx.next[i] = CONTINUE,
                Err(reason) => {
                    failed = true;
                    cx.drop_packet(i, b, reason);
                }
            }
            parent = match parent {
                None => Some(w.parent),
                Some(p) if p == w.parent => parent,
                Some(_) => Some(IF_MIXED),
            };
        }
        frame.tx_if = parent.unwrap_or(IF_MIXED);
        if failed {
            Dispatch::Each
        } else {
            Dispatch::All(CONTINUE)
        }
    }
}

#[inline(always)]
fn send(cx: &mut Ctx<'_>, b: BufferIndex, w: &Way) -> Result<(), DropReason> {
    if w.parent == IF_NONE {
        return Err(DropReason::InterfaceGone);
    }
    cx.pool.meta_mut(b).tx_if = w.parent;
    if w.rewrite.is_nothing() {
        return Ok(());
    }
    w.rewrite.apply(cx.pool, b)
}
