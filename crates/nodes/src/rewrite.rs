//! `ip4-rewrite`, `ip6-rewrite` and `mpls-output`: what all three do with packets whose next hop is known.
//!
//! Packets are taken in runs of equal forwarding object, so that the adjacency is read once a run. A plain
//! packet (one buffer, not made by the router, fits the link, nothing special in its header) takes three
//! stores besides those in its header; the others are looked at one by one.

use std::marker::PhantomData;
use std::sync::Arc;

use parshall_buffer::{BufferIndex, Frame, IF_MIXED, IF_NONE, PoolView};
use parshall_counters::DropReason;
use parshall_fib::{Adjacency, Dpo, DpoKind};
use parshall_graph::wide::{Isa, WideNode};
use parshall_graph::{CONTINUE, Ctx, Dispatch};

use crate::link::{HEADER, push_header};
use crate::state::Shared;

/// What differs by what is sent.
pub trait Sent: Send + 'static {
    /// Next node of a packet whose neighbour is not resolved.
    fn unresolved(adj: &Adjacency) -> u16;
    /// Changes the header at offset `at` as forwarding does; false, and nothing done, when the packet needs
    /// a closer look.
    fn forward(view: &mut PoolView<'_>, b: BufferIndex, at: u16) -> bool;
    /// Does the same for packet `b` at position `i` that is not plain, or gives it another verdict and
    /// says false. There is room for the link-layer header.
    fn look(cx: &mut Ctx<'_>, i: usize, b: BufferIndex, adj: &Adjacency) -> bool;
}

/// The node for one kind of packet.
pub struct Rewrite<S> {
    shared: Arc<Shared>,
    sent: PhantomData<S>,
}

impl<S: Sent> Rewrite<S> {
    /// Over this state.
    pub fn new(shared: Arc<Shared>) -> Rewrite<S> {
        Rewrite {
            shared,
            sent: PhantomData,
        }
    }
}

impl<S: Sent> WideNode for Rewrite<S> {
    #[inline(always)]
    fn process<I: Isa>(&mut self, cx: &mut Ctx<'_>, frame: &mut Frame) -> Dispatch {
        let packets = frame.packets();
        let mut common = IF_NONE;
        let mut each = false;
        let mut at = 0;
        while at < packets.len() {
            let dpo = Dpo::from_bits(cx.pool.meta(packets[at]).dpo);
            let adj = match dpo.kind() {
                DpoKind::Adjacency => self.shared.adjacencies.get(dpo.index(), cx.rcu),
                _ => None,
            };
            let ready = adj.filter(|a| a.is_complete());
            let done = ready.map_or(0, |adj| {
                plain_run::<S>(&mut cx.pool.view(), &packets[at..], dpo, adj)
            });
            at += done;
            let mut sent = done != 0;
            // Whoever stopped the run: a packet of the next one, or one that is not plain.
            if let Some(&b) = packets.get(at)
                && (done == 0 || cx.pool.meta(b).dpo == dpo.bits())
            {
                if !each {
                    each = true;
                    cx.next[..packets.len()].fill(CONTINUE);
                }
                sent |= not_plain::<S>(cx, at, b, adj);
                at += 1;
            }
            if let (true, Some(adj)) = (sent, ready) {
                common = if common == IF_NONE || common == adj.tx_if() {
                    adj.tx_if()
                } else {
                    IF_MIXED
                };
            }
        }
        frame.tx_if = if common == IF_NONE { IF_MIXED } else { common };
        if each {
            Dispatch::Each
        } else {
            Dispatch::All(CONTINUE)
        }
    }
}

/// Rewrites the plain packets that `packets` begins with, as far as their object is `dpo`; says how many.
#[inline(always)]
fn plain_run<S: Sent>(
    view: &mut PoolView<'_>,
    packets: &[BufferIndex],
    dpo: Dpo,
    adj: &Adjacency,
) -> usize {
    const PUSHED: u64 = (HEADER as u64) << 16;
    let (header, tx_if, mtu) = (*adj.rewrite16(), adj.tx_if(), u64::from(adj.mtu()));
    for (i, &b) in packets.iter().enumerate() {
        let m = view.meta(b);
        let head = m.head();
        let at = head as u16;
        // Flags and reason lie above the length: a packet with any of them is longer than any MTU.
        let plain = m.dpo == dpo.bits() && head >> 16 <= mtu && at >= 16;
        if !plain || !S::forward(view, b, at) {
            return i;
        }
        // One store of 16 bytes, two of them into the headroom.
        *view.peek_mut(b, at - 16) = header;
        let m = view.meta_mut(b);
        m.set_head(head + PUSHED - u64::from(HEADER));
        m.tx_if = tx_if;
    }
    packets.len()
}

/// Rewrites a packet that is not plain, or gives it another verdict and says false.
#[inline(never)]
fn not_plain<S: Sent>(cx: &mut Ctx<'_>, i: usize, b: BufferIndex, adj: Option<&Adjacency>) -> bool {
    let Some(adj) = adj else {
        cx.drop_packet(i, b, DropReason::NoAdjacency);
        return false;
    };
    if !adj.is_complete() {
        cx.next[i] = S::unresolved(adj);
        return false;
    }
    if cx.pool.meta(b).data < HEADER {
        cx.drop_packet(i, b, DropReason::NoHeadroom);
        return false;
    }
    let sent = S::look(cx, i, b, adj);
    if sent {
        push_header(cx.pool, b, adj);
    }
    sent
}
