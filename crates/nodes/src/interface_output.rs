//! `interface-output`: the way out for packets that already carry their link-layer header.

use parshall_buffer::Frame;
use parshall_graph::{CONTINUE, Ctx, Dispatch, Node, NodeSpec};

/// The node's description.
pub const SPEC: NodeSpec = NodeSpec::new("interface-output", &[]).starting("interface-output");

/// The node.
pub struct InterfaceOutput;

impl Node for InterfaceOutput {
    fn process(&mut self, _cx: &mut Ctx<'_>, _frame: &mut Frame) -> Dispatch {
        Dispatch::All(CONTINUE)
    }
}
