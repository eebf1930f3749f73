//! Packets that wait for a neighbour to resolve: a bounded queue a neighbour, bounded in number.
//!
//! The first packet for a neighbour asks control to resolve it, and so does a later one now and then.
//! Control's answer releases the packets or drops them; without an answer they time out.
//!
//! A released packet usually goes through the lookup again, for routes may have changed. A packet that got
//! or lost a label has no way back there: it goes on along its adjacency.

use parshall_buffer::{BufferIndex, Flags, IF_NONE, Meta};
use parshall_counters::DropReason;
use parshall_fib::{Dpo, DpoKind, LinkType};
use parshall_graph::{Ctx, DROP};

use crate::icmp_error::{IcmpAsk, ask};
use crate::state::Shared;

/// Verdicts of the two nodes that hold packets: their next nodes stand in the same order.
pub mod next {
    /// The lookup of the family.
    pub const LOOKUP: u16 = 0;
    /// Its ICMP error node.
    pub const ICMP_ERROR: u16 = 1;
    /// Its rewrite node.
    pub const REWRITE: u16 = 2;
    /// The output of labelled packets.
    pub const MPLS_OUTPUT: u16 = 3;
}

/// Neighbours packets may wait for at once, per worker.
const NEIGHBORS: usize = 512;
/// Packets that may wait for one neighbour (RFC 1122 section 2.3.2.2 wants at least one).
pub const PER_NEIGHBOR: usize = 8;
/// How long a packet waits at most, in ns.
const PATIENCE: u64 = 5_000_000_000;
/// How often control is reminded, in ns.
const REMIND: u64 = 200_000_000;

struct Waiting<A> {
    if_index: u32,
    ip: A,
    until: u64,
    remind: u64,
    count: usize,
    packets: [BufferIndex; PER_NEIGHBOR],
}

/// Where a packet goes on once its neighbour is known. To be asked when it comes: later its adjacency may
/// be another's.
pub fn way_on(shared: &Shared, cx: &Ctx<'_>, b: BufferIndex) -> u16 {
    let m = cx.pool.meta(b);
    let popped = m.mpls_ttl != 0 && m.table == IF_NONE && !m.flags.has(Flags::ORIGINATED);
    match link(shared, cx, b) {
        Some(LinkType::Mpls) => next::MPLS_OUTPUT,
        Some(_) if popped => next::REWRITE,
        _ => next::LOOKUP,
    }
}

/// What the adjacency of a packet carries, when it has one.
fn link(shared: &Shared, cx: &Ctx<'_>, b: BufferIndex) -> Option<LinkType> {
    let dpo = Dpo::from_bits(cx.pool.meta(b).dpo);
    if dpo.kind() != DpoKind::Adjacency {
        return None;
    }
    let adj = shared.adjacencies.get(dpo.index(), cx.rcu)?;
    Some(adj.link())
}

/// Writes down when a packet began to wait: in the second scratch word, which the nodes that a released packet
/// goes through have no use for.
pub fn note_arrival(m: &mut Meta, now: u64) {
    if !m.flags.has(Flags::HELD) {
        m.flags.set(Flags::HELD);
        m.scratch[1] = micros(now);
    }
}

/// How long ago, in ns, a packet with [`Flags::HELD`] began to wait.
pub fn waited(m: &Meta, now: u64) -> u64 {
    u64::from(micros(now).wrapping_sub(m.scratch[1])) * 1000
}

/// Microseconds, of which 32 bits last for more than an hour; a packet waits for seconds.
fn micros(now: u64) -> u32 {
    (now / 1000) as u32
}

/// Sends a held packet on; its scratch word has the way. `same` says whether its adjacency, if it has one,
/// still leads to the neighbour it waited for.
pub fn resume(shared: &Shared, cx: &mut Ctx<'_>, b: BufferIndex, same: bool) {
    let way = cx.pool.meta(b).scratch[0] as u16;
    let labelled = link(shared, cx, b) == Some(LinkType::Mpls);
    if way == next::LOOKUP || same && labelled == (way == next::MPLS_OUTPUT) {
        return cx.emit(way, b);
    }
    cx.pool.meta_mut(b).reason = DropReason::NoAdjacency.code();
    cx.emit(DROP, b);
}

/// Drops a held packet whose neighbour did not resolve, with an error where it may have one.
pub fn give_up(cx: &mut Ctx<'_>, b: BufferIndex, error: IcmpAsk) {
    let labelled = cx.pool.meta(b).scratch[0] as u16 == next::MPLS_OUTPUT;
    ask(cx, b, DropReason::UnresolvedNeighbor, error);
    cx.emit(if labelled { DROP } else { next::ICMP_ERROR }, b);
}

/// What became of a packet offered to the hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offered {
    /// It waits; otherwise there was no room for it.
    pub kept: bool,
    /// Control is to be told that the neighbour is wanted.
    pub tell: bool,
}

/// The queues of one worker and address family.
pub struct Hold<A> {
    waiting: Vec<Waiting<A>>,
}

impl<A: Copy + PartialEq> Hold<A> {
    /// No packets.
    pub fn new() -> Hold<A> {
        Hold {
            waiting: Vec::with_capacity(NEIGHBORS),
        }
    }

    /// Keeps `b` until neighbour `ip` on `if_index` resolves.
    pub fn keep(&mut self, if_index: u32, ip: A, b: BufferIndex, now: u64) -> Offered {
        if let Some(w) = self
            .waiting
            .iter_mut()
            .find(|w| w.if_index == if_index && w.ip == ip)
        {
            let kept = w.count < PER_NEIGHBOR;
            if kept {
                w.packets[w.count] = b;
                w.count += 1;
            }
            let tell = now >= w.remind;
            if tell {
                w.remind = now + REMIND;
            }
            return Offered { kept, tell };
        }
        if self.waiting.len() == NEIGHBORS {
            return Offered {
                kept: false,
                tell: false,
            };
        }
        let mut packets = [b; PER_NEIGHBOR];
        packets[0] = b;
        self.waiting.push(Waiting {
            if_index,
            ip,
            until: now + PATIENCE,
            remind: now + REMIND,
            count: 1,
            packets,
        });
        Offered {
            kept: true,
            tell: true,
        }
    }

    /// Takes out what waits for a neighbour.
    pub fn release(&mut self, if_index: u32, ip: A, mut each: impl FnMut(BufferIndex)) -> usize {
        let Some(at) = self
            .waiting
            .iter()
            .position(|w| w.if_index == if_index && w.ip == ip)
        else {
            return 0;
        };
        let w = self.waiting.swap_remove(at);
        w.packets[..w.count].iter().for_each(|&b| each(b));
        w.count
    }

    /// Takes out one neighbour's packets whose time is over, if there is such a neighbour.
    pub fn expire(&mut self, now: u64, mut each: impl FnMut(BufferIndex)) -> usize {
        let Some(at) = self.waiting.iter().position(|w| w.until <= now) else {
            return 0;
        };
        let w = self.waiting.swap_remove(at);
        w.packets[..w.count].iter().for_each(|&b| each(b));
        w.count
    }

    /// When the next packets' time is over.
    pub fn deadline(&self) -> Option<u64> {
        self.waiting.iter().map(|w| w.until).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounded_per_neighbour_and_released_in_order() {
        let mut pool = parshall_buffer::Pool::new(16).unwrap();
        let b: Vec<_> = (0..10).map(|_| pool.alloc().unwrap()).collect();
        let mut h = Hold::<[u8; 4]>::new();
        let offered = |kept, tell| Offered { kept, tell };
        assert_eq!(h.keep(1, [1; 4], b[0], 0), offered(true, true));
        for &b in &b[1..8] {
            assert_eq!(h.keep(1, [1; 4], b, 1), offered(true, false));
        }
        assert_eq!(h.keep(1, [1; 4], b[8], 2), offered(false, false));
        assert_eq!(h.keep(1, [1; 4], b[8], REMIND), offered(false, true));
        assert_eq!(h.keep(2, [1; 4], b[9], REMIND), offered(true, true));
        let mut out = Vec::new();
        assert_eq!(h.release(1, [1; 4], |b| out.push(b)), 8);
        assert_eq!(out, b[..8]);
        assert_eq!(h.deadline(), Some(REMIND + PATIENCE));
        assert_eq!(h.expire(REMIND + PATIENCE, |_| {}), 1);
        assert_eq!(h.deadline(), None);
    }
}
