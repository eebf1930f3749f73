//! `mpls-lookup`: pops the top label and finds what it stands for (RFC 3031 section 3.10, RFC 3032).
//!
//! The label's TTL, traffic class and bottom bit stay in the metadata for the node that follows. Explicit
//! null labels mean "pop"; other reserved labels are not for us.
//!
//! Drop reasons: `mpls_no_label`, `mpls_bad_stack`, `lookup_loop`, `no_adjacency`.

use std::sync::Arc;

use parshall_buffer::{BufferIndex, Frame};
use parshall_counters::DropReason;
use parshall_fib::{Dpo, DpoKind, MplsFib};
use parshall_graph::wide::{Isa, WideNode};
use parshall_graph::{Ctx, Dispatch, NodeSpec};
use parshall_rcu::Reader;

use crate::flow_hash::flow_hash_mpls;
use crate::state::Shared;
use crate::trace::format_mpls;

/// The node's description.
pub const SPEC: NodeSpec = NodeSpec::new(
    "mpls-lookup",
    &["mpls-label-imposition", "mpls-disposition"],
)
.format(format_mpls);

const IMPOSITION: u16 = 0;
const DISPOSITION: u16 = 1;

/// Explicit nulls (RFC 3032 section 2.1).
const IP4_EXPLICIT_NULL: u32 = 0;
const IP6_EXPLICIT_NULL: u32 = 2;
/// First label that is not reserved.
const FIRST_FREE: u32 = 16;
/// Bits of a label stack entry that the lookup goes by.
const LABEL_AND_BOTTOM: u32 = 0xFFFF_F100;
/// Load balances one label may lead through.
const MAX_STEPS: usize = 4;

/// The node.
pub struct MplsLookup {
    shared: Arc<Shared>,
}

impl MplsLookup {
    /// Over this state.
    pub fn new(shared: Arc<Shared>) -> MplsLookup {
        MplsLookup { shared }
    }

    /// Pops the label of every packet; true when all are to be swapped.
    #[inline(always)]
    fn pop_all(&self, cx: &mut Ctx<'_>, fib: &MplsFib, packets: &[BufferIndex]) -> bool {
        let mut view = cx.pool.view();
        // Label and bottom bit, and what they stand for: looked up once for packets that have them alike.
        let (mut last, mut dpo) = (u32::MAX, Dpo::MISS);
        let mut swaps = true;
        for &b in packets {
            let at = view.meta(b).data;
            let entry = u32::from_be_bytes(*view.peek(b, at));
            if entry & LABEL_AND_BOTTOM != last {
                last = entry & LABEL_AND_BOTTOM;
                dpo = look_up(cx.rcu, fib, entry);
                swaps &= dpo.kind() == DpoKind::MplsImpose;
            }
            let m = view.meta_mut(b);
            m.mpls_ttl = entry as u8;
            m.mpls_tc_s = (entry >> 8) as u8 & 0xF;
            m.data = at.wrapping_add(4);
            m.len = m.len.saturating_sub(4);
            m.dpo = dpo.bits();
        }
        swaps
    }

    /// The verdict for anything that is not a plain swap.
    #[inline(never)]
    fn decide(&self, cx: &mut Ctx<'_>, i: usize, b: BufferIndex) {
        let mut dpo = Dpo::from_bits(cx.pool.meta(b).dpo);
        for _ in 0..MAX_STEPS {
            let picked = match dpo.kind() {
                DpoKind::LoadBalance => self.shared.load_balances.get(dpo.index(), cx.rcu),
                _ => break,
            };
            let hash = flow_hash_mpls(cx.pool, b);
            dpo = picked.map_or(Dpo::MISS, |lb| lb.pick(hash));
        }
        cx.pool.meta_mut(b).dpo = dpo.bits();
        match dpo.kind() {
            DpoKind::MplsImpose => cx.next[i] = IMPOSITION,
            DpoKind::MplsPop => cx.next[i] = DISPOSITION,
            DpoKind::LoadBalance => cx.drop_packet(i, b, DropReason::LookupLoop),
            DpoKind::Miss => cx.drop_packet(i, b, DropReason::MplsNoLabel),
            DpoKind::Blackhole => cx.drop_packet(i, b, DropReason::RouteBlackhole),
            _ => cx.drop_packet(i, b, DropReason::NoAdjacency),
        }
    }
}

/// The built-in meaning of a reserved label, as the number of a disposition that [`crate::Shared`] keeps
/// for it, or nothing.
fn reserved(label: u32, bottom: bool) -> Dpo {
    match (label, bottom) {
        (IP4_EXPLICIT_NULL, true) => Dpo::new(DpoKind::MplsPop, crate::state::POP_IP4),
        (IP6_EXPLICIT_NULL, true) => Dpo::new(DpoKind::MplsPop, crate::state::POP_IP6),
        // RFC 4182 lets explicit nulls stand above other labels.
        (IP4_EXPLICIT_NULL | IP6_EXPLICIT_NULL, false) => {
            Dpo::new(DpoKind::MplsPop, crate::state::POP_MPLS)
        }
        _ => Dpo::MISS,
    }
}

/// What the label of an entry stands for.
#[inline]
fn look_up(rcu: &Reader, fib: &MplsFib, entry: u32) -> Dpo {
    let (label, bottom) = (entry >> 12, entry & 0x100 != 0);
    if label < FIRST_FREE {
        reserved(label, bottom)
    } else {
        fib.lookup(rcu, label, bottom)
    }
}

impl WideNode for MplsLookup {
    #[inline(always)]
    fn process<I: Isa>(&mut self, cx: &mut Ctx<'_>, frame: &mut Frame) -> Dispatch {
        let packets = frame.packets();
        let Some(fib) = self.shared.mpls.get(0, cx.rcu) else {
            for (i, &b) in packets.iter().enumerate() {
                cx.drop_packet(i, b, DropReason::MplsNoLabel);
            }
            return Dispatch::Each;
        };
        if self.pop_all(cx, fib, packets) {
            return Dispatch::All(IMPOSITION);
        }
        for (i, &b) in packets.iter().enumerate() {
            self.decide(cx, i, b);
        }
        Dispatch::Each
    }
}
