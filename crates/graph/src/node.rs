//! What a node is: its description as data ([`NodeSpec`]) and its work ([`Node`]).

use std::any::Any;

use parshall_buffer::{BufferIndex, FRAME_SIZE, Frame, Pool};
use parshall_counters::{DropReason, WorkerCounters};
use parshall_rcu::Reader;

use crate::TraceRecord;
use crate::arc::Feature;

/// Number of a node in the graph; lower numbers come earlier on a packet's way.
pub type NodeId = u16;

/// Verdict: drop the packet, its reason is in the metadata. See [`Ctx::drop_packet`].
pub const DROP: u16 = 0xFFFF;
/// Verdict: the node kept or freed the packet itself.
pub const CONSUMED: u16 = 0xFFFE;
/// Verdict: on to the next feature of the arc for this packet's interface, or to the arc's end.
pub const CONTINUE: u16 = 0xFFFD;

/// What kind of node it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeKind {
    /// Gets its packets from other nodes.
    Internal,
    /// Stands for the receive queues of one kind of driver; never called, starts its arc.
    Input,
}

/// A node described as data.
#[derive(Clone, Debug)]
pub struct NodeSpec {
    /// Name; VPP's where a VPP node does the same.
    pub name: &'static str,
    /// Internal or input.
    pub kind: NodeKind,
    /// Names of the nodes it can send to; a verdict is an index into this list.
    pub next: &'static [&'static str],
    /// Arc that [`CONTINUE`] enters, for a node that starts one.
    pub starts: Option<&'static str>,
    /// Arc the node is a feature of, for a node that [`CONTINUE`] walks along.
    pub feature: Option<Feature>,
    /// Frames of different receiving interfaces are kept apart on their way to it, because it decides once
    /// a frame by interface. Others get them joined, which makes fuller frames.
    pub by_interface: bool,
    /// A feature that lets every packet of every frame continue, whatever it does: a frame of one
    /// interface that comes from a device, or is on the arc to one, is shown to it in passing, without a stop of its
    /// own, and only if it has not said that it need not see it ([`Node::pass`]). At most one of an arc.
    pub in_passing: bool,
    /// Packets that it drops were given up by another node, which wrote reason and its own number
    /// ([`Ctx::give_up`]): that one is counted as the dropper.
    pub on_behalf: bool,
    /// What the node did with a traced packet, in words.
    pub format: fn(&TraceRecord) -> String,
}

impl NodeSpec {
    /// An internal node that sends to `next`, shown in traces as its first bytes.
    pub const fn new(name: &'static str, next: &'static [&'static str]) -> NodeSpec {
        NodeSpec {
            name,
            kind: NodeKind::Internal,
            next,
            starts: None,
            feature: None,
            by_interface: false,
            in_passing: false,
            on_behalf: false,
            format: crate::hex_line,
        }
    }
    /// An input node: packets of its driver start the arc `device-input`.
    pub const fn input(name: &'static str) -> NodeSpec {
        let mut s = NodeSpec::new(name, &[]);
        s.kind = NodeKind::Input;
        s.starts = Some("device-input");
        s
    }
    /// The same, and [`CONTINUE`] enters `arc`.
    #[must_use]
    pub const fn starting(mut self, arc: &'static str) -> NodeSpec {
        self.starts = Some(arc);
        self
    }
    /// The same, as a feature of an arc.
    #[must_use]
    pub const fn feature(mut self, f: Feature) -> NodeSpec {
        self.feature = Some(f);
        self
    }
    /// The same, with frames of different receiving interfaces kept apart.
    #[must_use]
    pub const fn by_interface(mut self) -> NodeSpec {
        self.by_interface = true;
        self
    }
    /// The same, a feature whose verdict is [`CONTINUE`] for every frame; any other is not looked at.
    #[must_use]
    pub const fn in_passing(mut self) -> NodeSpec {
        self.in_passing = true;
        self
    }
    /// The same, dropping packets that other nodes gave up.
    #[must_use]
    pub const fn on_behalf(mut self) -> NodeSpec {
        self.on_behalf = true;
        self
    }
    /// The same, with a trace formatter.
    #[must_use]
    pub const fn format(mut self, f: fn(&TraceRecord) -> String) -> NodeSpec {
        self.format = f;
        self
    }
}

/// What a node says of a whole frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dispatch {
    /// All packets go the same way: the frame is handed on whole.
    All(u16),
    /// Each packet goes where `cx.next[i]` says, written for every packet of the frame.
    Each,
}

/// A node's work. One instance per worker.
pub trait Node: Send {
    /// Takes a frame and says where its packets go.
    fn process(&mut self, cx: &mut Ctx<'_>, frame: &mut Frame) -> Dispatch;

    /// For a feature that sees frames in passing: `frame`, received on `interface` or (on an arc that goes by that side)
    /// leaving by it, goes by to be looked at (`None`: only the account is settled). `passed` packets have gone by unseen before it, no more than was lent; they are
    /// accounted for now. Says how many more may go by without a look at them.
    fn pass(
        &mut self,
        cx: &mut Ctx<'_>,
        _interface: u32,
        _passed: u64,
        frame: Option<&mut Frame>,
    ) -> u64 {
        if let Some(frame) = frame {
            self.process(cx, frame);
        }
        0
    }

    /// Whether the node ever has a [`deadline`](Node::deadline); only such nodes are asked for it.
    fn is_timed(&self) -> bool {
        false
    }
    /// When the node wants [`tick`](Node::tick) to be called next (monotonic ns), if at all.
    fn deadline(&self) -> Option<u64> {
        None
    }
    /// Called once the deadline has passed; packets leave through [`Ctx::emit`].
    fn tick(&mut self, _cx: &mut Ctx<'_>) {}

    /// A message of the control thread to this node. The node may take things out of it; what is left
    /// goes back to the control thread to be freed there.
    fn message(&mut self, _cx: &mut Ctx<'_>, _message: &mut (dyn Any + Send)) {}
}

/// A node's name and its instance.
pub type NamedNode = (&'static str, Box<dyn Node>);

/// What a node may use while it works.
pub struct Ctx<'a> {
    /// The worker's buffers.
    pub pool: &'a mut Pool,
    /// Verdicts by position in the frame, for [`Dispatch::Each`].
    pub next: &'a mut [u16; FRAME_SIZE],
    /// The worker's counters.
    pub counters: &'a WorkerCounters,
    /// Proof that published state may be read.
    pub rcu: &'a Reader,
    /// Monotonic time in ns, taken once a turn of the loop.
    pub now: u64,
    /// The time-stamp counter when `now` was taken: what has passed since is the difference to it.
    pub turn_tsc: u64,
    /// The node itself.
    pub node: NodeId,
    pub(crate) emitted: &'a mut Vec<(u16, BufferIndex)>,
}

impl Ctx<'_> {
    /// Gives packet `b` at position `i` the verdict "dropped because of `reason`".
    #[inline]
    pub fn drop_packet(&mut self, i: usize, b: BufferIndex, reason: DropReason) {
        self.pool.meta_mut(b).reason = reason.code();
        self.next[i] = DROP;
    }

    /// Writes down that this node gives packet `b` up because of `reason`, and leaves it to a node that drops on
    /// behalf of others ([`NodeSpec::on_behalf`]).
    #[inline]
    pub fn give_up(&mut self, b: BufferIndex, reason: DropReason) {
        let m = self.pool.meta_mut(b);
        (m.reason, m.drop_node) = (reason.code(), self.node);
    }

    /// Sends a packet that is not part of the frame (a new one, or one held back) to `next`, an index
    /// into this node's list or one of the special verdicts. With [`DROP`] the reason is in its metadata.
    #[inline]
    pub fn emit(&mut self, next: u16, b: BufferIndex) {
        self.emitted.push((next, b));
    }

    /// Packets come up out of interface `if_index`, which has no device: from here on they are received there. Their
    /// frame, from the link-layer header on, is what lies before them. The caller sets the frame's hint.
    #[inline]
    pub fn receive(&mut self, packets: &[BufferIndex], if_index: u32) {
        let mut bytes = 0;
        for &b in packets {
            let m = self.pool.meta_mut(b);
            m.rx_if = if_index;
            bytes += u64::from(m.total_len());
        }
        self.count_received(if_index, packets.len(), bytes);
    }

    /// Counts packets that came up out of interface `if_index`, for a caller that has written it into each, as
    /// [`receive`](Ctx::receive) does.
    #[inline]
    pub fn count_received(&self, if_index: u32, packets: usize, bytes: u64) {
        if let Some(c) = self.counters.interface(if_index) {
            c.rx_packets.add(packets as u64);
            c.rx_bytes.add(bytes);
        }
    }

    /// Counts a packet that the router made itself.
    #[inline]
    pub fn count_originated(&self, n: u64) {
        self.counters.originated.add(n);
    }

    /// Counts a packet as consumed by the router.
    pub fn count_punted(&self, rx_if: u32) {
        self.counters.punted.add(1);
        if let Some(c) = self.counters.interface(rx_if) {
            c.punts.add(1);
        }
    }

    /// Consumes packet `b` at position `i`: counts it as punted and frees it.
    pub fn punt(&mut self, i: usize, b: BufferIndex) {
        self.count_punted(self.pool.meta(b).rx_if);
        self.pool.free(b);
        self.next[i] = CONSUMED;
    }
}
