//! Frames on their way: per slot what waits there, and a map of the slots where something waits.

use std::collections::VecDeque;

use parshall_buffer::{BufferIndex, Frame, IF_MIXED};

use crate::structure::MAX_SLOTS;

/// What waits at one slot, oldest first.
#[derive(Default)]
struct Slot {
    full: VecDeque<Box<Frame>>,
    open: Option<Box<Frame>>,
    /// Do not join frames of different receiving interfaces.
    apart: bool,
}

impl Slot {
    /// Whether packets with this hint may join the open frame.
    #[inline(always)]
    fn may_join(&self, open: &Frame, rx_if: u32) -> bool {
        !self.apart || open.rx_if == rx_if
    }
}

/// Frames waiting at slots, and the empty ones in stock.
pub(crate) struct Pending {
    slots: Vec<Slot>,
    /// One bit a slot.
    ready: [u64; MAX_SLOTS / 64],
    /// One bit a word of `ready`.
    words: u64,
    /// A frame on its way while nothing waits anywhere: most frames never see a queue. Nothing is marked
    /// in `words` while it is here.
    alone: Option<(usize, Box<Frame>)>,
    /// Boxed, because frames change hands by pointer.
    #[allow(clippy::vec_box)]
    stock: Vec<Box<Frame>>,
    /// Frames made after the start because the stock was empty.
    pub late_frames: u64,
}

impl Pending {
    /// So many slots, those in `apart` keeping interfaces apart, and so many frames in stock.
    pub fn new(slots: usize, apart: &[bool], stock: usize) -> Pending {
        Pending {
            slots: (0..slots)
                .map(|i| Slot {
                    full: VecDeque::with_capacity(16),
                    open: None,
                    apart: apart.get(i).copied().unwrap_or(false),
                })
                .collect(),
            ready: [0; MAX_SLOTS / 64],
            words: 0,
            alone: None,
            stock: (0..stock).map(|_| Box::default()).collect(),
            late_frames: 0,
        }
    }

    /// An empty frame.
    #[inline]
    pub fn take(&mut self) -> Box<Frame> {
        self.stock.pop().unwrap_or_else(|| {
            self.late_frames += 1;
            Box::default()
        })
    }

    /// Takes an emptied frame back into stock.
    #[inline]
    pub fn put(&mut self, mut frame: Box<Frame>) {
        frame.clear();
        self.stock.push(frame);
    }

    #[inline(always)]
    fn mark(&mut self, slot: usize) {
        self.ready[slot / 64] |= 1 << (slot % 64);
        self.words |= 1 << (slot / 64);
    }

    /// The next frame: of the lowest slot where one waits.
    #[inline]
    pub fn next(&mut self) -> Option<(usize, Box<Frame>)> {
        if self.words == 0 {
            return self.alone.take();
        }
        self.next_waiting()
    }

    fn next_waiting(&mut self) -> Option<(usize, Box<Frame>)> {
        let word = self.words.trailing_zeros() as usize;
        let slot = word * 64 + self.ready[word].trailing_zeros() as usize;
        let s = &mut self.slots[slot];
        let frame = s.full.pop_front().or_else(|| s.open.take());
        if s.open.is_none() && s.full.is_empty() {
            self.ready[word] &= !(1 << (slot % 64));
            if self.ready[word] == 0 {
                self.words &= !(1 << word);
            }
        }
        frame.map(|f| (slot, f))
    }

    /// Hands a whole frame to a slot.
    #[inline]
    pub fn hand_over(&mut self, slot: usize, frame: Box<Frame>) {
        if self.words == 0 && self.alone.is_none() && !frame.is_empty() {
            self.alone = Some((slot, frame));
            return;
        }
        self.settle();
        self.queue(slot, frame);
    }

    /// Lets the frame that was alone wait at its slot, for it is so no more.
    #[inline]
    fn settle(&mut self) {
        if let Some((slot, frame)) = self.alone.take() {
            self.queue(slot, frame);
        }
    }

    fn queue(&mut self, slot: usize, frame: Box<Frame>) {
        if frame.is_empty() {
            return self.put(frame);
        }
        self.mark(slot);
        let s = &mut self.slots[slot];
        let join = s
            .open
            .as_ref()
            .is_some_and(|o| o.room() >= frame.len() && s.may_join(o, frame.rx_if));
        match &mut s.open {
            open @ None => *open = Some(frame),
            Some(open) if join => {
                merge_hints(open, frame.rx_if, frame.tx_if, frame.traced);
                open.extend(frame.packets());
                self.put(frame);
            }
            Some(_) => s.full.extend(s.open.replace(frame)),
        }
    }

    /// Adds packets to what waits at a slot; the hints are those of the packets.
    #[inline]
    pub fn append(
        &mut self,
        slot: usize,
        mut packets: &[BufferIndex],
        rx_if: u32,
        tx_if: u32,
        traced: bool,
    ) {
        self.settle();
        while !packets.is_empty() {
            self.mark(slot);
            let s = &mut self.slots[slot];
            if s.open.as_ref().is_some_and(|o| !s.may_join(o, rx_if)) {
                s.full.extend(s.open.take());
            }
            if s.open.is_none() {
                let mut fresh = self.take();
                fresh.rx_if = rx_if;
                fresh.tx_if = tx_if;
                self.slots[slot].open = Some(fresh);
            }
            let s = &mut self.slots[slot];
            let Some(open) = s.open.as_mut() else { return };
            merge_hints(open, rx_if, tx_if, traced);
            packets = &packets[open.extend(packets)..];
            if open.room() == 0 {
                s.full.extend(s.open.take());
            }
        }
    }
}

#[inline(always)]
fn merge_hints(open: &mut Frame, rx_if: u32, tx_if: u32, traced: bool) {
    if open.rx_if != rx_if {
        open.rx_if = IF_MIXED;
    }
    if open.tx_if != tx_if {
        open.tx_if = IF_MIXED;
    }
    open.traced |= traced;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packets(n: usize) -> Vec<BufferIndex> {
        vec![BufferIndex::default(); n]
    }

    fn frame(p: &mut Pending, n: usize, rx_if: u32) -> Box<Frame> {
        let mut f = p.take();
        f.extend(&packets(n));
        f.rx_if = rx_if;
        f
    }

    #[test]
    fn lower_slots_come_first_and_order_is_kept() {
        let mut p = Pending::new(200, &[], 4);
        p.append(150, &packets(300), 1, 2, false);
        let f = frame(&mut p, 10, 1);
        p.hand_over(3, f);
        assert_eq!(p.next().map(|(s, f)| (s, f.len())), Some((3, 10)));
        assert_eq!(
            p.next().map(|(s, f)| (s, f.len(), f.rx_if, f.tx_if)),
            Some((150, 256, 1, 2))
        );
        assert_eq!(
            p.next().map(|(s, f)| (s, f.len(), f.rx_if)),
            Some((150, 44, 1))
        );
        assert!(p.next().is_none());
    }

    #[test]
    fn a_frame_alone_is_handed_over_without_copying() {
        let mut p = Pending::new(4, &[], 4);
        let f = frame(&mut p, 200, 7);
        let address = std::ptr::from_ref(&*f);
        p.hand_over(1, f);
        let f = frame(&mut p, 100, 8);
        p.hand_over(1, f);
        let (_, first) = p.next().unwrap();
        assert!(std::ptr::eq(&*first, address) && first.rx_if == 7);
        p.put(first);
        let f = frame(&mut p, 56, 9);
        p.hand_over(1, f);
        let (_, merged) = p.next().unwrap();
        assert_eq!((merged.len(), merged.rx_if), (156, IF_MIXED));
        p.put(merged);
        assert!(p.next().is_none());
        assert_eq!(p.late_frames, 0);
    }

    #[test]
    fn frames_of_two_interfaces_stay_apart_where_it_matters() {
        let mut p = Pending::new(4, &[false, true], 4);
        for slot in [1, 2] {
            let f = frame(&mut p, 10, 7);
            p.hand_over(slot, f);
            let f = frame(&mut p, 20, 8);
            p.hand_over(slot, f);
            p.append(slot, &packets(5), 8, IF_MIXED, false);
        }
        let out: Vec<_> = std::iter::from_fn(|| p.next())
            .map(|(s, f)| (s, f.len(), f.rx_if))
            .collect();
        assert_eq!(out, [(1, 10, 7), (1, 25, 8), (2, 35, IF_MIXED)]);
    }
}
