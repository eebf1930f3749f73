//! The short way in and out: a frame of one interface goes straight past a feature that need not see it.
//!
//! A feature that sees frames in passing ([`crate::NodeSpec::in_passing`]) lends the dispatcher a number of
//! packets ([`crate::Node::pass`]); as long as that lasts, a frame costs a subtraction. The loan is paid back,
//! that is, the feature is told how many packets have gone by, when it is used up, when nothing goes that way any
//! more, and before the feature sees anything else.

use std::ops::Range;

use parshall_buffer::Frame;

use super::Dispatcher;
use crate::arc::Side;
use crate::node::{CONTINUE, Ctx, Node, NodeId};
use crate::structure::ArcPlace;

/// Most packets that go by before their feature is told: its counters are behind by no more.
const MOST: u64 = 4096;

/// Nor are those of the way out behind by more than this, in ns, whatever comes in meanwhile.
const LONGEST: u64 = 10_000_000;

/// How frames of one interface come in, or leave.
#[derive(Clone, Copy, Default)]
pub(super) struct Passage {
    /// Switches and place that it was worked out for; 0 = none.
    key: u64,
    /// Packets lent, and what is left of them.
    lent: u64,
    left: u64,
    /// The feature that lends; without one there is no end to it.
    lender: Option<NodeId>,
    /// Slot behind it.
    to: u16,
}

/// The passages of one side, by interface.
pub(super) type Passages = Box<[Passage]>;

/// Lets packets go by unseen if the loan suffices: the slot that they go to.
#[inline(always)]
fn borrow(passages: &mut Passages, if_index: u32, key: u64, packets: usize) -> Option<usize> {
    let p = passages.get_mut(if_index as usize)?;
    if p.key != key || p.left < packets as u64 {
        return None;
    }
    p.left -= packets as u64;
    Some(usize::from(p.to))
}

/// A place in an arc, for a key of its own.
#[inline(always)]
fn place_key(place: ArcPlace) -> u64 {
    (place.arc as u64) << 8 | u64::from(place.from)
}

impl Dispatcher {
    /// Takes a frame of one interface from its input node to where its packets are looked at first.
    #[inline(always)]
    pub(super) fn enter(&mut self, input: NodeId, if_index: u32, frame: Box<Frame>) {
        let key = self.passage_key(u64::from(input));
        let unseen = match frame.traced {
            true => None,
            false => borrow(&mut self.ways_in, if_index, key, frame.len()),
        };
        match unseen {
            Some(to) => self.pending.hand_over(to, frame),
            None => self.enter_seen(input, if_index, frame),
        }
    }

    /// As [`enter`](Self::enter) when the loan does not suffice. Traced frames take the long way, to be recorded at
    /// every stop.
    #[inline(never)]
    fn enter_seen(&mut self, input: NodeId, if_index: u32, frame: Box<Frame>) {
        let key = self.passage_key(u64::from(input));
        let place = self.graph.place[usize::from(input)];
        match place.filter(|p| self.graph.arcs[p.arc].spec.side == Side::Rx) {
            Some(place) if !frame.traced && self.open(Side::Rx, key, place, if_index) => {
                self.go_seen(Side::Rx, if_index, frame);
            }
            _ => {
                self.settle(Side::Rx, if_index);
                self.hand(input, CONTINUE, frame);
            }
        }
    }

    /// Takes a frame that leaves by one interface along an arc that has features on.
    #[inline(always)]
    pub(super) fn leave(&mut self, place: ArcPlace, if_index: u32, frame: Box<Frame>) {
        let n = frame.len();
        match self.borrow_out(place, if_index, n, frame.traced) {
            Some(to) => self.pending.hand_over(to, frame),
            None => self.leave_seen(place, if_index, frame),
        }
    }

    /// As [`leave`](Self::leave) when the loan does not suffice.
    #[inline(never)]
    fn leave_seen(&mut self, place: ArcPlace, if_index: u32, frame: Box<Frame>) {
        let key = self.passage_key(place_key(place));
        if !frame.traced && self.open(Side::Tx, key, place, if_index) {
            return self.go_seen(Side::Tx, if_index, frame);
        }
        self.deliver(self.step(place, if_index, true), frame);
    }

    /// Lets part of a frame of several interfaces, all of `if_index`, leave: says to which slot it goes.
    pub(super) fn leave_part(
        &mut self,
        place: ArcPlace,
        if_index: u32,
        of: &Frame,
        part: Range<usize>,
    ) -> Option<usize> {
        let packets = &of.packets()[part];
        let unseen = self.borrow_out(place, if_index, packets.len(), of.traced);
        let key = self.passage_key(place_key(place));
        if unseen.is_some() || of.traced || !self.open(Side::Tx, key, place, if_index) {
            return unseen.or_else(|| self.step(place, if_index, true));
        }
        let mut seen = self.pending.take();
        seen.extend(packets);
        (seen.rx_if, seen.tx_if) = (of.rx_if, if_index);
        let to = self.be_seen(Side::Tx, if_index, &mut seen);
        self.pending.put(seen);
        Some(to)
    }

    #[inline(always)]
    fn borrow_out(
        &mut self,
        place: ArcPlace,
        if_index: u32,
        packets: usize,
        traced: bool,
    ) -> Option<usize> {
        if traced {
            return None;
        }
        let key = self.passage_key(place_key(place));
        let to = borrow(&mut self.ways_out, if_index, key, packets)?;
        self.owing = true;
        Some(to)
    }

    /// Shows a frame to the feature that it passes, and sends it on behind that.
    fn go_seen(&mut self, side: Side, if_index: u32, mut frame: Box<Frame>) {
        let to = self.be_seen(side, if_index, &mut frame);
        self.pending.hand_over(to, frame);
    }

    /// Shows a frame to the feature that it passes, which gives a new loan; says which slot is next.
    fn be_seen(&mut self, side: Side, if_index: u32, frame: &mut Frame) -> usize {
        let n = frame.len();
        self.show(side, if_index, Some(frame));
        let p = self.passages(side)[if_index as usize];
        if let Some(id) = p.lender {
            // Counted, but not timed: reading the clock costs more than most such looks. What it took
            // is in the time of the node that the frame comes to.
            self.count(id, n);
        }
        usize::from(p.to)
    }

    /// What a passage from `place` depends on.
    #[inline(always)]
    fn passage_key(&self, place: u64) -> u64 {
        self.graph.switches.generation() << 16 | place
    }

    #[inline(always)]
    fn passages(&mut self, side: Side) -> &mut Passages {
        match side {
            Side::Rx => &mut self.ways_in,
            Side::Tx => &mut self.ways_out,
        }
    }

    /// Works out the passage of an interface if the one at hand is out of date; false = there is none.
    fn open(&mut self, side: Side, key: u64, place: ArcPlace, if_index: u32) -> bool {
        match self.passages(side).get(if_index as usize) {
            None => return false,
            Some(p) if p.key == key => return true,
            Some(_) => self.settle(side, if_index),
        }
        let found = self.way(place, if_index);
        let p = &mut self.passages(side)[if_index as usize];
        *p = Passage::default();
        if let Some((lender, to)) = found {
            (p.key, p.lender, p.to) = (key, lender, to as u16);
        }
        found.is_some()
    }

    /// The feature after `place` that is passed first, if any, and the slot after it.
    fn way(&self, place: ArcPlace, if_index: u32) -> Option<(Option<NodeId>, usize)> {
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
    fn settle(&mut self, side: Side, if_index: u32) {
        if (if_index as usize) < self.passages(side).len() {
            self.show(side, if_index, None);
        }
    }

    /// The same, and shows it the frame that goes by now.
    #[inline(always)]
    fn show(&mut self, side: Side, if_index: u32, frame: Option<&mut Frame>) {
        let p = self.passages(side)[if_index as usize];
        let lent = match p.lender {
            Some(id) => {
                let passed = p.lent - p.left;
                let pass =
                    |node: &mut dyn Node, cx: &mut Ctx<'_>| node.pass(cx, if_index, passed, frame);
                self.with_node(id, pass).min(MOST)
            }
            None => u64::MAX,
        };
        let p = &mut self.passages(side)[if_index as usize];
        (p.lent, p.left) = (lent, lent);
    }

    /// Settles the way in if anything has gone by: so that counts are right when nothing comes in any more.
    #[inline(always)]
    pub(super) fn settle_idle(&mut self, if_index: u32) {
        let used = |p: &Passage| p.left != p.lent;
        if self.ways_in.get(if_index as usize).is_some_and(used) {
            self.settle(Side::Rx, if_index);
        }
    }

    /// Settles the ways out when nothing came in this turn, or the last time was long ago.
    #[inline(always)]
    pub(super) fn settle_out(&mut self, idle: bool) {
        if self.owing && (idle || self.now >= self.settle_by) {
            self.settle_all_out();
        }
    }

    #[inline(never)]
    fn settle_all_out(&mut self) {
        for i in 0..self.ways_out.len() {
            if self.ways_out[i].left != self.ways_out[i].lent {
                self.settle(Side::Tx, i as u32);
            }
        }
        self.owing = false;
        self.settle_by = self.now.saturating_add(LONGEST);
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
        for side in [Side::Rx, Side::Tx] {
            for i in 0..self.passages(side).len() {
                if self.passages(side)[i].lender.is_some() {
                    self.settle(side, i as u32);
                    let p = &mut self.passages(side)[i];
                    (p.lent, p.left) = (0, 0);
                }
            }
        }
    }
}
