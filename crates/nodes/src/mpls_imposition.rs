//! `mpls-label-imposition`: pushes labels on an IP packet, or in place of a popped one (RFC 3032, RFC 3443).
//!
//! A swap is the lookup's pop and a push here: TTL one lower than the popped label's, its traffic class
//! and bottom bit kept. On IP the packet's own TTL is decremented, and copied up in the uniform model.
//! A packet that is too big with its labels is fragmented or answered as by the rewrite nodes.
//!
//! Drop reasons: `no_adjacency`, `no_headroom`, `ip4_ttl_expired`, `ip6_hop_limit_expired`,
//! `fragmentation_needed`, `packet_too_big`, `ip6_source_link_local`.

use std::sync::Arc;

use parshall_buffer::{BufferIndex, Flags, Frame, PoolView};
use parshall_counters::DropReason;
use parshall_fib::{Dpo, DpoKind, Imposition, Payload, TtlMode};
use parshall_graph::wide::{Isa, WideNode};
use parshall_graph::{Ctx, Dispatch, NodeSpec};
use parshall_wire::Ipv4Packet;

use crate::flow_hash::{flow_hash_mpls, flow_hash4, flow_hash6};
use crate::icmp_error::{IcmpAsk, ask};
use crate::state::Shared;

/// The node's description.
pub const SPEC: NodeSpec = NodeSpec::new(
    "mpls-label-imposition",
    &[
        "mpls-output",
        "ip4-icmp-error",
        "ip6-icmp-error",
        "ip4-frag",
    ],
);

const OUTPUT: u16 = 0;
const ICMP4_ERROR: u16 = 1;
const ICMP6_ERROR: u16 = 2;
const FRAG: u16 = 3;

/// The node.
pub struct MplsImposition {
    shared: Arc<Shared>,
}

impl MplsImposition {
    /// Over this state.
    pub fn new(shared: Arc<Shared>) -> MplsImposition {
        MplsImposition { shared }
    }

    /// Where the labelled packet goes.
    #[inline(always)]
    fn next(&self, cx: &Ctx<'_>, b: BufferIndex, imposition: &Imposition) -> Dpo {
        let next = imposition.next();
        if next.kind() == DpoKind::LoadBalance {
            self.balanced(cx, b, imposition)
        } else {
            next
        }
    }

    #[cold]
    fn balanced(&self, cx: &Ctx<'_>, b: BufferIndex, imposition: &Imposition) -> Dpo {
        let hash = match imposition.payload() {
            Payload::Ip4 => flow_hash4(cx.pool, b),
            Payload::Ip6 => flow_hash6(cx.pool, b),
            Payload::Mpls => flow_hash_mpls(cx.pool, b),
        };
        let balance = self
            .shared
            .load_balances
            .get(imposition.next().index(), cx.rcu);
        balance.map_or(Dpo::MISS, |lb| lb.pick(hash))
    }

    /// Labels a packet that is not for a plain swap, or gives it another verdict.
    #[inline(never)]
    fn impose(&self, cx: &mut Ctx<'_>, i: usize, b: BufferIndex, imposition: Option<&Imposition>) {
        let Some(imposition) = imposition else {
            return cx.drop_packet(i, b, DropReason::NoAdjacency);
        };
        cx.next[i] = OUTPUT;
        let next = self.next(cx, b, imposition);
        let pushed = match imposition.payload() {
            Payload::Mpls => swap(cx, b, imposition),
            _ => self.push_on_ip(cx, i, b, imposition, next),
        };
        if pushed {
            cx.pool.meta_mut(b).dpo = next.bits();
        } else if cx.next[i] == OUTPUT {
            cx.drop_packet(i, b, DropReason::NoHeadroom);
        }
    }

    /// Pushes on an IP packet; `false` when the packet got another verdict.
    #[cold]
    fn push_on_ip(
        &self,
        cx: &mut Ctx<'_>,
        i: usize,
        b: BufferIndex,
        imposition: &Imposition,
        next: Dpo,
    ) -> bool {
        let m = *cx.pool.meta(b);
        let mtu = self
            .shared
            .adjacencies
            .get(next.index(), cx.rcu)
            .map_or(u16::MAX, |a| a.mtu());
        let room = mtu.saturating_sub(4 * imposition.labels() as u16);
        let originated = m.flags.has(Flags::ORIGINATED);
        let four = imposition.payload() == Payload::Ip4;
        let h: [u8; 10] = *cx.pool.peek(b, 0);
        let ttl = if four { h[8] } else { h[7] };
        let big = m.total_len() > u32::from(room);
        if let Some((reason, error)) = refusal(&h, four, originated, big.then_some(room)) {
            ask(cx, b, reason, error);
            cx.next[i] = if four { ICMP4_ERROR } else { ICMP6_ERROR };
            return false;
        }
        if big {
            cx.pool.meta_mut(b).scratch[0] = u32::from(room);
            cx.next[i] = FRAG;
            return false;
        }
        let ttl = ttl - u8::from(!originated);
        if four && !originated {
            Ipv4Packet::new_unchecked(cx.pool.bytes_mut(b)).decrement_ttl();
        } else if !originated {
            cx.pool.peek_mut::<8>(b, 0)[7] = ttl;
        }
        let class = if four {
            h[1] >> 5
        } else {
            (h[0] << 4 | h[1] >> 4) >> 5
        };
        push_stack(cx, b, imposition, |entry| {
            if imposition.mode() == TtlMode::Uniform {
                entry[3] = ttl;
                entry[2] = entry[2] & 0xF1 | class << 1;
            }
        })
    }
}

/// Why a packet must not enter the tunnel, and the error that says so. `too_big` is the room there is for
/// a packet that does not fit.
fn refusal(
    h: &[u8; 10],
    four: bool,
    originated: bool,
    too_big: Option<u16>,
) -> Option<(DropReason, IcmpAsk)> {
    let ttl = if four { h[8] } else { h[7] };
    if ttl <= 1 && !originated {
        return Some(if four {
            (DropReason::Ip4TtlExpired, IcmpAsk::time_exceeded4())
        } else {
            (DropReason::Ip6HopLimitExpired, IcmpAsk::time_exceeded6())
        });
    }
    // A tunnel leads off the link, where link-local sources do not go.
    if !four && !originated && h[8] == 0xFE && h[9] & 0xC0 == 0x80 {
        return Some((DropReason::Ip6SourceLinkLocal, IcmpAsk::beyond_scope6()));
    }
    let room = too_big?;
    match (four, h[6] & 0x40 != 0) {
        (true, true) => Some((
            DropReason::FragmentationNeeded,
            IcmpAsk::fragmentation_needed4(room),
        )),
        (true, false) => None,
        (false, _) => Some((DropReason::PacketTooBig, IcmpAsk::packet_too_big6(room))),
    }
}

/// Writes the label stack in front of the packet and lets `finish` adjust each entry; false without room.
#[inline(always)]
fn push_stack(
    cx: &mut Ctx<'_>,
    b: BufferIndex,
    imposition: &Imposition,
    mut finish: impl FnMut(&mut [u8]),
) -> bool {
    let stack = imposition.stack();
    let Some(room) = cx.pool.push(b, stack.len() as u16) else {
        return false;
    };
    room.copy_from_slice(stack);
    room.chunks_exact_mut(4).for_each(&mut finish);
    true
}

/// Pushes in place of a popped label.
fn swap(cx: &mut Ctx<'_>, b: BufferIndex, imposition: &Imposition) -> bool {
    let m = *cx.pool.meta(b);
    let ttl = m.mpls_ttl.saturating_sub(1);
    let uniform = imposition.mode() == TtlMode::Uniform;
    let mut left = imposition.labels();
    push_stack(cx, b, imposition, |entry| {
        left -= 1;
        if uniform {
            entry[3] = ttl;
            entry[2] = entry[2] & 0xF1 | m.mpls_tc_s & 0xE;
        }
        if left == 0 {
            entry[2] |= m.mpls_tc_s & 1;
        }
    })
}

/// The label that takes a popped one's place in the uniform model and where the packet goes on, when that
/// is all an imposition does.
#[inline]
fn plain_swap(imposition: &Imposition) -> Option<(u32, Dpo)> {
    let plain = imposition.payload() == Payload::Mpls
        && imposition.labels() == 1
        && imposition.mode() == TtlMode::Uniform
        && imposition.next().kind() != DpoKind::LoadBalance;
    let entry: &[u8; 4] = imposition.stack().first_chunk().filter(|_| plain)?;
    Some((u32::from_be_bytes(*entry) & 0xFFFF_F000, imposition.next()))
}

/// Swaps the labels that `packets` begin with, as far as their object is `dpo`; says how many.
#[inline(always)]
fn swap_run(
    view: &mut PoolView<'_>,
    packets: &[BufferIndex],
    dpo: u32,
    (label, next): (u32, Dpo),
) -> usize {
    for (i, &b) in packets.iter().enumerate() {
        let m = view.meta_mut(b);
        // Where a label was popped there is room for one.
        let head = m.head();
        if m.dpo != dpo || (head as u16) < 4 {
            return i;
        }
        let ttl = m.mpls_ttl.saturating_sub(1);
        let entry = label | u32::from(m.mpls_tc_s) << 8 | u32::from(ttl);
        let head = head.wrapping_add((4 << 16) - 4);
        m.set_head(head);
        m.dpo = next.bits();
        *view.peek_mut(b, head as u16) = entry.to_be_bytes();
    }
    packets.len()
}

impl WideNode for MplsImposition {
    #[inline(always)]
    fn process<I: Isa>(&mut self, cx: &mut Ctx<'_>, frame: &mut Frame) -> Dispatch {
        let packets = frame.packets();
        let mut each = false;
        let mut at = 0;
        while at < packets.len() {
            let dpo = cx.pool.meta(packets[at]).dpo;
            let index = Dpo::from_bits(dpo).index();
            let imposition = self.shared.impositions.get(index, cx.rcu);
            let done = imposition.and_then(plain_swap).map_or(0, |to| {
                swap_run(&mut cx.pool.view(), &packets[at..], dpo, to)
            });
            at += done;
            if let (0, Some(&b)) = (done, packets.get(at)) {
                if !each {
                    each = true;
                    cx.next[..packets.len()].fill(OUTPUT);
                }
                self.impose(cx, at, b, imposition);
                at += 1;
            }
        }
        if each {
            Dispatch::Each
        } else {
            Dispatch::All(OUTPUT)
        }
    }
}
