//! Telling control of stations that a bridge domain does not know yet, or knows elsewhere.
//!
//! Workers do not write the table of stations. A new source is told through a ring, once in some milliseconds each, so
//! that a fast sender does not fill it while control is on its way; moved ones have a ring of their own, which a flood
//! of invented addresses cannot fill. What does not fit is counted by the ring and told again later.

use parshall_fib::{MacKey, MacSpot};
use parshall_ring::Producer;

use crate::event::Event;

/// Stations that are remembered as told. Two that share a place push each other out, which costs an event.
const TOLD: usize = 4096;
/// Bits of time (ns) that do not matter: a station is told again after 8 to 16 ms.
const AGAIN: u32 = 23;

/// The telling end.
pub struct Learner {
    new: Producer<Event>,
    moved: Producer<Event>,
    /// Key and time, by a hash of the key.
    told: Box<[(MacKey, u32, u32)]>,
}

impl Learner {
    /// Telling new stations by the one ring, moved ones by the other.
    pub fn new(new: Producer<Event>, moved: Producer<Event>) -> Learner {
        Learner {
            new,
            moved,
            told: vec![(MacKey::default(), 0, 0); TOLD].into(),
        }
    }

    /// Tells control, unless it was told of the same a moment ago.
    pub fn tell(&mut self, key: MacKey, spot: MacSpot, if_index: u32, is_move: bool, now: u64) {
        let told = &mut self.told[spot.hash() as usize % TOLD];
        let this = (key, if_index, (now >> AGAIN) as u32);
        if *told == this {
            return;
        }
        let event = Event::MacSeen {
            if_index,
            domain: key.domain(),
            mac: key.mac(),
        };
        let ring = if is_move {
            &mut self.moved
        } else {
            &mut self.new
        };
        // A full ring loses it, and counts that; not marked as told, it comes again.
        if ring.push(event).is_ok() {
            *told = this;
        }
    }
}
