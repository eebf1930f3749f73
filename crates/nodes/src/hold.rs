//! Packets that wait for a neighbour to resolve: a bounded queue a neighbour, bounded in number.
//!
//! The first packet for a neighbour asks control to resolve it, and so does a later one now and then.
//! Control's answer releases the packets or drops them; without an answer they time out.

use parshall_buffer::BufferIndex;

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
