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
use parshall_graph::{Ctx, Dispatch, Node, NodeSpec};

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

    /// Pops the label of a packet and says what it stands for.
    #[inline(always)]
    fn pop(&self, cx: &mut Ctx<'_>, fib: &MplsFib, b: BufferIndex) -> Dpo {
        let entry = u32::from_be_bytes(*cx.pool.peek(b, 0));
        let (label, bottom) = (entry >> 12, entry & 0x100 != 0);
        let dpo = if label < FIRST_FREE {
            reserved(label, bottom)
        } else {
            fib.lookup(cx.rcu, label, bottom)
        };
        let m = cx.pool.meta_mut(b);
        m.mpls_ttl = entry as u8;
        m.mpls_tc_s = (entry >> 8) as u8 & 0xF;
        m.data = m.data.wrapping_add(4);
        m.len = m.len.saturating_sub(4);
        m.dpo = dpo.bits();
        dpo
    }

    /// The verdict for anything that is not a plain swap.
    #[cold]
    fn decide(&self, cx: &mut Ctx<'_>, i: usize, b: BufferIndex, mut dpo: Dpo) {
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

impl Node for MplsLookup {
    fn process(&mut self, cx: &mut Ctx<'_>, frame: &mut Frame) -> Dispatch {
        let Some(fib) = self.shared.mpls.get(0, cx.rcu) else {
            for (i, &b) in frame.packets().iter().enumerate() {
                cx.drop_packet(i, b, DropReason::MplsNoLabel);
            }
            return Dispatch::Each;
        };
        let mut all = true;
        for (i, &b) in frame.packets().iter().enumerate() {
            let dpo = self.pop(cx, fib, b);
            cx.next[i] = IMPOSITION;
            if dpo.kind() != DpoKind::MplsImpose {
                self.decide(cx, i, b, dpo);
                all = false;
            }
        }
        if all {
            Dispatch::All(IMPOSITION)
        } else {
            Dispatch::Each
        }
    }
}
