//! The order of an agent's datagrams: what is missing, late, there twice, or begins anew.
//!
//! A number that is missing is called lost only when later ones have passed it by a window, since it may only be late. The
//! same number again is a duplicate if the bytes are the same too; other bytes under an old number are a new count.

use std::collections::VecDeque;

use super::finding::At;

/// How far back, in numbers, something may arrive late.
const WINDOW: u32 = 128;
/// An uptime that falls by more (ms) is that of an agent that started again; less is reordering on the way.
const RESTARTED_MS: u32 = 5_000;
/// The same for a datagram with the number 1, with which a count begins.
const RESTARTED_FIRST_MS: u32 = 1_500;

/// Numbers that did not come.
#[derive(Debug)]
pub struct Hole {
    /// The first of them.
    pub from: u32,
    /// The numbers between `from` and the next that came.
    pub width: u32,
    /// How many of them are still missing.
    pub missing: u32,
    /// Where it was noticed.
    pub at: At,
}

/// What a datagram's number and uptime tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The first of this agent.
    First,
    /// The next one.
    Next,
    /// A later one; so many in between are missing so far.
    Ahead(u32),
    /// One that was missing.
    Late,
    /// One that came already.
    Duplicate,
    /// A new count; whether the uptime began anew as well.
    Restart {
        /// It did.
        uptime_fell: bool,
    },
}

/// The datagrams of one agent and sub-agent.
#[derive(Debug)]
pub struct Order {
    started: bool,
    highest: u32,
    /// Bit k: `highest - k` came.
    seen: u128,
    uptime_ms: u32,
    /// Of the last datagrams, by their number modulo the window.
    hashes: Box<[u64; WINDOW as usize]>,
    holes: VecDeque<Hole>,
}

impl Default for Order {
    fn default() -> Self {
        Order {
            started: false,
            highest: 0,
            seen: 0,
            uptime_ms: 0,
            hashes: Box::new([0; WINDOW as usize]),
            holes: VecDeque::new(),
        }
    }
}

impl Order {
    /// By how much (ms) this uptime is behind the latest; 0 when it is not.
    pub fn behind(&self, uptime_ms: u32) -> u32 {
        let fell = self.uptime_ms.wrapping_sub(uptime_ms);
        if fell > u32::MAX / 2 { 0 } else { fell }
    }

    /// Takes in a datagram. Holes that nothing can fill any more come out in `lost`.
    pub fn observe(
        &mut self,
        number: u32,
        uptime_ms: u32,
        hash: u64,
        at: &At,
        lost: &mut Vec<Hole>,
    ) -> Arrival {
        let arrival = self.classify(number, uptime_ms, hash);
        match arrival {
            Arrival::Duplicate => return arrival,
            Arrival::Late => self.fill(number),
            Arrival::First | Arrival::Restart { .. } => {
                lost.extend(self.holes.drain(..));
                (self.started, self.seen) = (true, 1);
            }
            Arrival::Next => self.seen = self.seen << 1 | 1,
            Arrival::Ahead(missing) => {
                self.seen = self.seen.checked_shl(missing + 1).unwrap_or(0) | 1;
                self.holes.push_back(Hole {
                    from: self.highest.wrapping_add(1),
                    width: missing,
                    missing,
                    at: at.clone(),
                });
            }
        }
        if arrival != Arrival::Late {
            (self.highest, self.uptime_ms) = (number, uptime_ms);
        }
        if let Some(h) = self.hashes.get_mut((number % WINDOW) as usize) {
            *h = hash;
        }
        self.close(lost);
        arrival
    }

    fn classify(&self, number: u32, uptime_ms: u32, hash: u64) -> Arrival {
        if !self.started {
            return Arrival::First;
        }
        let (ahead, back) = (
            number.wrapping_sub(self.highest),
            self.highest.wrapping_sub(number),
        );
        let fell = self.behind(uptime_ms);
        let uptime_fell = fell
            > if number == 1 {
                RESTARTED_FIRST_MS
            } else {
                RESTARTED_MS
            };
        if ahead == 1 {
            return Arrival::Next;
        }
        if back < WINDOW {
            let known = self.seen >> back & 1 == 1;
            let same = self.hashes.get((number % WINDOW) as usize) == Some(&hash);
            return match (known, same) {
                (true, true) => Arrival::Duplicate,
                (false, _) if !uptime_fell => Arrival::Late,
                _ => Arrival::Restart {
                    uptime_fell: fell > 0,
                },
            };
        }
        if ahead > u32::MAX / 2 || uptime_fell {
            return Arrival::Restart {
                uptime_fell: fell > 0,
            };
        }
        Arrival::Ahead(ahead - 1)
    }

    fn fill(&mut self, number: u32) {
        let back = self.highest.wrapping_sub(number);
        self.seen |= 1u128.checked_shl(back).unwrap_or(0);
        if let Some(h) = self
            .holes
            .iter_mut()
            .find(|h| number.wrapping_sub(h.from) < h.width)
        {
            h.missing = h.missing.saturating_sub(1);
        }
    }

    /// Lets go of holes that the window has passed.
    fn close(&mut self, lost: &mut Vec<Hole>) {
        while let Some(h) = self.holes.front() {
            let end = h.from.wrapping_add(h.width);
            if self.highest.wrapping_sub(end) < WINDOW {
                break;
            }
            lost.extend(self.holes.pop_front());
        }
    }

    /// What is missing at the end.
    pub fn finish(&mut self, lost: &mut Vec<Hole>) {
        lost.extend(self.holes.drain(..));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Observes (number, uptime) pairs; the arrivals, and how many are lost at the end.
    fn run(list: &[(u32, u32)]) -> (Vec<Arrival>, u32) {
        let (mut o, mut lost) = (Order::default(), Vec::new());
        let arrivals = list
            .iter()
            .map(|(n, up)| {
                let hash = u64::from(*n) << 32 | u64::from(*up);
                o.observe(*n, *up, hash, &At::default(), &mut lost)
            })
            .collect();
        o.finish(&mut lost);
        (arrivals, lost.iter().map(|h| h.missing).sum())
    }

    #[test]
    fn gaps_lateness_and_duplicates() {
        use Arrival::{Ahead, Duplicate, First, Late, Next};
        let at = |n| (n, 100);
        let (a, lost) = run(&[at(7), at(8), at(12), at(10), at(12), at(13)]);
        assert_eq!(a, [First, Next, Ahead(3), Late, Duplicate, Next]);
        assert_eq!(lost, 2);
        let (a, lost) = run(&[at(u32::MAX), at(0), at(2), at(1)]);
        assert_eq!((a, lost), (vec![First, Next, Ahead(1), Late], 0));
        assert_eq!(run(&[at(7), at(5)]).0, [First, Late]);
        // What the window has passed is lost and stays so.
        let mut list = vec![at(1), at(3)];
        list.extend((4..200).map(at));
        assert_eq!(run(&list).1, 1);
    }

    #[test]
    fn restarts_with_and_without_the_uptime() {
        let anew = |uptime_fell| Arrival::Restart { uptime_fell };
        let (a, _) = run(&[(500, 90_000), (501, 90_500), (1, 20)]);
        assert_eq!(a[2], anew(true));
        // A young agent: the number lies in the window, but its bytes are others.
        let (a, _) = run(&[(1, 1000), (2, 2000), (1, 900)]);
        assert_eq!(a[2], anew(true));
        let (a, _) = run(&[(1000, 1000), (1, 2000)]);
        assert_eq!(a[1], anew(false));
        // The count of before was not seen from its beginning.
        let (a, _) = run(&[(5, 9000), (1, 10)]);
        assert_eq!(a[1], anew(true));
        // A new count that is ahead of the old one.
        let (a, _) = run(&[(5, 900_000), (50, 10_000)]);
        assert_eq!(a[1], anew(true));
        assert_eq!(run(&[(5, u32::MAX), (6, 3)]).0[1], Arrival::Next);
    }
}
