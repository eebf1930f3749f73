//! The short way in: what came from a device goes straight to the end of its arc, past a feature that need
//! not see it.
//!
//! A feature that sees frames in passing ([`crate::NodeSpec::in_passing`]) lends the dispatcher a number of
//! packets ([`crate::Node::pass`]); as long as that lasts, a frame costs a subtraction. The loan is paid back,
//! that is, the feature is told how many packets have gone by, when it is used up, when nothing comes in, and
//! before the feature sees anything else.

use parshall_buffer::Frame;

use super::Dispatcher;
use crate::arc::Side;
use crate::node::{CONTINUE, Ctx, Node, NodeId};

/// Most packets that go by before their feature is told: its counters are behind by no more.
const MOST: u64 = 4096;

/// How frames of one interface come in.
#[derive(Clone, Copy, Default)]
pub(super) struct Passage {
    /// Switches and input node that it was worked out for; 0 = none.
    key: u64,
    /// Packets lent, and what is left of them.
    lent: u64,
    left: u64,
    /// The feature that lends; without one there is no end to it.
    lender: Option<NodeId>,
    /// Slot behind it.
    to: u16,
}

impl Dispatcher {
    /// Takes a frame of one interface from its input node to where its packets are looked at first.
    #[inline(always)]
    pub(super) fn enter(&mut self, input: NodeId, if_index: u32, frame: Box<Frame>) {
        let n = frame.len() as u64;
        let key = self.passage_key(input);
        match self.passages.get_mut(if_index as usize) {
            Some(p) if p.key == key && p.left >= n && !frame.traced => {
                p.left -= n;
                let to = usize::from(p.to);
                self.pending.hand_over(to, frame);
            }
            _ => self.enter_seen(input, if_index, frame),
        }
    }

    /// As [`enter`](Self::enter) when the loan does not suffice: shows the frame to the feature, which gives a new
    /// one. Traced frames take the long way, to be recorded at every stop.
    #[inline(never)]
    fn enter_seen(&mut self, input: NodeId, if_index: u32, mut frame: Box<Frame>) {
        if frame.traced || !self.open(input, if_index) {
            self.settle(if_index);
            return self.hand(input, CONTINUE, frame);
        }
        let lender = self.passages[if_index as usize].lender;
        self.show(if_index, Some(&mut frame));
        if let Some(id) = lender {
            // Counted, but not timed: reading the clock costs more than most such looks. What it took
            // is in the time of the node that the frame comes to.
            self.count(id, frame.len());
        }
        let to = self.passages[if_index as usize].to;
        self.pending.hand_over(usize::from(to), frame);
    }

    /// What a passage depends on.
    #[inline(always)]
    fn passage_key(&self, input: NodeId) -> u64 {
        self.graph.switches.generation() << 16 | u64::from(input)
    }

    /// Works out the passage of an interface if the one at hand is out of date; false = there is none.
    fn open(&mut self, input: NodeId, if_index: u32) -> bool {
        let key = self.passage_key(input);
        match self.passages.get(if_index as usize) {
            None => return false,
            Some(p) if p.key == key => return true,
            Some(_) => self.settle(if_index),
        }
        let found = self.way_in(input, if_index);
        let p = &mut self.passages[if_index as usize];
        *p = Passage::default();
        if let Some((lender, to)) = found {
            (p.key, p.lender, p.to) = (key, lender, to as u16);
        }
        found.is_some()
    }

    /// The feature that is passed first, if any, and the slot after it.
    fn way_in(&self, input: NodeId, if_index: u32) -> Option<(Option<NodeId>, usize)> {
        let place = self.graph.place[usize::from(input)]?;
        if self.graph.arcs[place.arc].spec.side != Side::Rx {
            return None;
        }
        let active = self.graph.switches.is_active(place.arc);
        let first = self.step(place, if_index, active)?;
        if self.graph.in_passing.get(first) != Some(&true) {
            return Some((None, first));
        }
        let beyond = self.graph.place[first]?;
        let to = self.step(beyond, if_index, active)?;
        Some((Some(first as NodeId), to))
    }

    /// Tells an interface's feature what has gone by, and takes up a new loan.
    pub(super) fn settle(&mut self, if_index: u32) {
        if (if_index as usize) < self.passages.len() {
            self.show(if_index, None);
        }
    }

    /// The same, and shows it the frame that goes by now.
    #[inline(always)]
    fn show(&mut self, if_index: u32, frame: Option<&mut Frame>) {
        let p = self.passages[if_index as usize];
        let lent = match p.lender {
            Some(id) => {
                let passed = p.lent - p.left;
                let pass =
                    |node: &mut dyn Node, cx: &mut Ctx<'_>| node.pass(cx, if_index, passed, frame);
                self.with_node(id, pass).min(MOST)
            }
            None => u64::MAX,
        };
        let p = &mut self.passages[if_index as usize];
        (p.lent, p.left) = (lent, lent);
    }

    /// The same if anything has gone by: so that counts are right when nothing comes in any more.
    #[inline(always)]
    pub(super) fn settle_idle(&mut self, if_index: u32) {
        let used = |p: &Passage| p.left != p.lent;
        if self.passages.get(if_index as usize).is_some_and(used) {
            self.settle(if_index);
        }
    }

    /// Before node `id` is told or shown something another way: pays back what it has lent.
    pub(super) fn recall(&mut self, id: NodeId) {
        if self.graph.in_passing[usize::from(id)] {
            self.recall_all();
        }
    }

    /// Pays all loans back and has none.
    #[cold]
    pub(super) fn recall_all(&mut self) {
        for i in 0..self.passages.len() {
            if self.passages[i].lender.is_some() {
                self.settle(i as u32);
                (self.passages[i].lent, self.passages[i].left) = (0, 0);
            }
        }
    }
}
