//! The short way out: a frame for one interface is shown to the features that need not stop it
//! ([`crate::NodeSpec::in_passing`]) where it goes by, and waits for what comes after them.

use parshall_buffer::Frame;

use super::Dispatcher;
use crate::node::{CONTINUE, Dispatch, NodeId};

impl Dispatcher {
    /// Shows `frame`, which leaves by `interface` and would go to slot `to`, to the features that see it in passing,
    /// and says where it goes after them. Traced frames stop everywhere, to be recorded.
    pub(super) fn pass_out(
        &mut self,
        mut to: Option<usize>,
        interface: u32,
        frame: &mut Frame,
    ) -> Option<usize> {
        while let Some(slot) = to
            && !frame.traced
            && self.graph.in_passing.get(slot) == Some(&true)
            && let Some(place) = self.graph.place[slot]
        {
            let id = slot as NodeId;
            let verdict = self.with_node(id, |node, cx| node.process(cx, frame));
            debug_assert_eq!(verdict, Dispatch::All(CONTINUE), "node {id}");
            // Counted, but not timed, as on the way in.
            self.count(id, frame.len());
            to = self.step(place, interface, true);
        }
        to
    }
}
