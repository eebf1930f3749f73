//! `mpls-disposition`: goes on with a packet whose label was popped and not replaced (RFC 3443).
//!
//! What is under the label is checked as if it had just been received, because nobody has yet. In the
//! uniform model the label's TTL is copied down; in the pipe model the inner one is left alone.
//!
//! Drop reasons: those of `ip4-input` and `ip6-input`, `mpls_bad_stack`, `mpls_ttl_expired`, `no_adjacency`.

use std::sync::Arc;

use parshall_buffer::{BufferIndex, Frame};
use parshall_counters::DropReason;
use parshall_fib::{Disposition, Dpo, DpoKind, Payload, TtlMode};
use parshall_graph::{Ctx, Dispatch, Node, NodeSpec};
use parshall_wire::Ipv4Packet;

use crate::flow_hash::{flow_hash_mpls, flow_hash4, flow_hash6};
use crate::state::Shared;
use crate::{ip4_input, ip6_input};

/// The node's description.
pub const SPEC: NodeSpec = NodeSpec::new(
    "mpls-disposition",
    &[
        "ip4-lookup",
        "ip6-lookup",
        "ip4-rewrite",
        "ip6-rewrite",
        "mpls-output",
        "mpls-input",
    ],
);

const IP4_LOOKUP: u16 = 0;
const IP6_LOOKUP: u16 = 1;
const IP4_REWRITE: u16 = 2;
const IP6_REWRITE: u16 = 3;
const MPLS_OUTPUT: u16 = 4;
const MPLS_INPUT: u16 = 5;

/// The node.
pub struct MplsDisposition {
    shared: Arc<Shared>,
}

impl MplsDisposition {
    /// Over this state.
    pub fn new(shared: Arc<Shared>) -> MplsDisposition {
        MplsDisposition { shared }
    }

    fn dispose(&self, cx: &mut Ctx<'_>, b: BufferIndex) -> Result<u16, DropReason> {
        let m = *cx.pool.meta(b);
        let found = self
            .shared
            .dispositions
            .get(Dpo::from_bits(m.dpo).index(), cx.rcu);
        let d = *found.ok_or(DropReason::NoAdjacency)?;
        cx.pool.meta_mut(b).l3 = m.data;
        let bottom = m.mpls_tc_s & 1 != 0;
        if bottom == (d.payload == Payload::Mpls) {
            return Err(DropReason::MplsBadStack);
        }
        match d.payload {
            Payload::Ip4 => uncover4(cx, b, d.mode)?,
            Payload::Ip6 => uncover6(cx, b, d.mode)?,
            Payload::Mpls => {}
        }
        let next = self.balanced(cx, b, &d);
        if d.payload == Payload::Mpls {
            uncover_label(cx, b, d.mode, next.kind() == DpoKind::LookupMpls)?;
        }
        cx.pool.meta_mut(b).dpo = next.bits();
        match (next.kind(), d.payload) {
            (DpoKind::LookupIp4, Payload::Ip4) => {
                cx.pool.meta_mut(b).table = next.index();
                Ok(IP4_LOOKUP)
            }
            (DpoKind::LookupIp6, Payload::Ip6) => {
                cx.pool.meta_mut(b).table = next.index();
                Ok(IP6_LOOKUP)
            }
            (DpoKind::Adjacency, Payload::Ip4) => Ok(IP4_REWRITE),
            (DpoKind::Adjacency, Payload::Ip6) => Ok(IP6_REWRITE),
            (DpoKind::Adjacency, Payload::Mpls) => Ok(MPLS_OUTPUT),
            (DpoKind::LookupMpls, Payload::Mpls) => Ok(MPLS_INPUT),
            _ => Err(DropReason::NoAdjacency),
        }
    }

    fn balanced(&self, cx: &Ctx<'_>, b: BufferIndex, d: &Disposition) -> Dpo {
        if d.next.kind() != DpoKind::LoadBalance {
            return d.next;
        }
        let hash = match d.payload {
            Payload::Ip4 => flow_hash4(cx.pool, b),
            Payload::Ip6 => flow_hash6(cx.pool, b),
            Payload::Mpls => flow_hash_mpls(cx.pool, b),
        };
        self.shared
            .load_balances
            .get(d.next.index(), cx.rcu)
            .map_or(Dpo::MISS, |lb| lb.pick(hash))
    }
}

fn uncover4(cx: &mut Ctx<'_>, b: BufferIndex, mode: TtlMode) -> Result<(), DropReason> {
    if ip4_input::check(cx.pool, b)? {
        return Err(DropReason::Ip4Multicast);
    }
    if mode == TtlMode::Uniform {
        let ttl = cx.pool.meta(b).mpls_ttl;
        let mut ip = Ipv4Packet::new_unchecked(cx.pool.bytes_mut(b));
        // The tunnel may not raise a TTL (RFC 3443 section 5.4 takes the lower one for loops' sake).
        ip.set_ttl(ttl.min(ip.ttl()));
        ip.fill_checksum();
    }
    Ok(())
}

fn uncover6(cx: &mut Ctx<'_>, b: BufferIndex, mode: TtlMode) -> Result<(), DropReason> {
    if ip6_input::check(cx.pool, b)? {
        return Err(DropReason::Ip6Multicast);
    }
    if mode == TtlMode::Uniform {
        let ttl = cx.pool.meta(b).mpls_ttl;
        let h: &mut [u8; 8] = cx.pool.peek_mut(b, 0);
        h[7] = ttl.min(h[7]);
    }
    Ok(())
}

/// The next label takes over the popped TTL: one lower when it is sent, for this router is a hop; as it is
/// when that label is looked up here, because whatever it stands for lowers it.
fn uncover_label(
    cx: &mut Ctx<'_>,
    b: BufferIndex,
    mode: TtlMode,
    looked_up: bool,
) -> Result<(), DropReason> {
    let m = *cx.pool.meta(b);
    if m.len < 4 {
        return Err(DropReason::MplsTooShort);
    }
    let entry: &mut [u8; 4] = cx.pool.peek_mut(b, 0);
    if mode == TtlMode::Uniform {
        let ttl = m.mpls_ttl.saturating_sub(u8::from(!looked_up));
        entry[3] = ttl.min(entry[3]);
    }
    if entry[3] == 0 {
        Err(DropReason::MplsTtlExpired)
    } else {
        Ok(())
    }
}

impl Node for MplsDisposition {
    fn process(&mut self, cx: &mut Ctx<'_>, frame: &mut Frame) -> Dispatch {
        for (i, &b) in frame.packets().iter().enumerate() {
            match self.dispose(cx, b) {
                Ok(next) => cx.next[i] = next,
                Err(reason) => cx.drop_packet(i, b, reason),
            }
        }
        Dispatch::Each
    }
}
