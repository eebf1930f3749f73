//! Fragments that wait for the others of their packet: bounded in number, size and time.
//!
//! RFC 791 section 3.2, RFC 8200 section 4.5, RFC 5722. Fragments that overlap end their packet, and what comes of it afterwards
//! is dropped, too. Whoever floods with first fragments pushes out what has waited longest, so that packets whose fragments come
//! one after the other, as they do, are put together all the same.

use parshall_buffer::{BufferIndex, Pool};
use parshall_counters::DropReason;

/// Packets that may wait for fragments at once, of a worker and family.
pub const PACKETS: usize = 256;
/// Fragments of a packet: enough for the longest packet over Ethernet.
pub const PIECES: usize = 48;
/// How long the first fragment of a packet to come waits for the last, in ns. They are sent together.
pub const PATIENCE: u64 = 2_000_000_000;
/// Longest IP packet.
pub const LONGEST: usize = 65_535;

/// What fragments of one packet have in common (for IPv6 without the protocol).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PacketKey {
    /// Source and destination; those of IPv4 in the first four bytes.
    pub addresses: [[u8; 16]; 2],
    /// Identification.
    pub ident: u32,
    /// Table that the packet is of.
    pub table: u32,
    /// Protocol.
    pub protocol: u8,
}

/// A fragment of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// The packet that it is.
    pub buffer: BufferIndex,
    /// Bytes in front of its payload.
    pub head: u16,
    /// Where its payload belongs, and where it ends.
    pub from: u16,
    /// End, exclusive.
    pub to: u16,
}

/// What became of a fragment.
#[derive(Debug, PartialEq, Eq)]
pub enum Put {
    /// It waits.
    Kept,
    /// It is to be dropped; the others go on waiting, unless they were given out.
    Refused(DropReason),
    /// It was the last: all of them, in order, were given out.
    Whole,
}

/// A packet some of whose fragments came.
struct Packet {
    key: PacketKey,
    until: u64,
    /// In the order of their places.
    pieces: [Option<Piece>; PIECES],
    count: usize,
    /// Bytes there are, and in all once the last fragment came.
    have: u32,
    end: Option<u16>,
    /// Not to be put together any more.
    spoiled: bool,
}

impl Packet {
    fn pieces(&self) -> impl Iterator<Item = Piece> {
        self.pieces[..self.count].iter().copied().flatten()
    }

    /// Where a piece goes among the others; `Err` when it does not fit between them.
    fn place(&self, p: Piece, more: bool) -> Result<usize, DropReason> {
        let beyond = match self.end {
            Some(end) if more => p.to > end,
            Some(end) => p.to != end,
            None => !more && self.pieces().any(|o| o.to > p.to),
        };
        let at = self.pieces().take_while(|o| o.from < p.from).count();
        let before = at.checked_sub(1).and_then(|i| self.pieces[i]);
        let behind = self.pieces().nth(at);
        let overlaps =
            before.is_some_and(|o| o.to > p.from) || behind.is_some_and(|o| o.from < p.to);
        if overlaps || beyond {
            return Err(DropReason::FragmentOverlap);
        }
        if self.count == PIECES {
            return Err(DropReason::ReassemblyFull);
        }
        Ok(at)
    }

    fn insert(&mut self, at: usize, p: Piece, more: bool) {
        self.pieces[at..=self.count].rotate_right(1);
        self.pieces[at] = Some(p);
        self.count += 1;
        self.have += u32::from(p.to - p.from);
        if !more {
            self.end = Some(p.to);
        }
    }

    fn is_whole(&self) -> bool {
        // Nothing overlaps, so as many bytes as there are to be are all of them.
        self.end.is_some_and(|end| u32::from(end) == self.have)
    }
}

/// All packets that wait.
pub struct Reassembly {
    packets: Vec<Packet>,
    /// Fragments of all of them.
    fragments: usize,
}

impl Default for Reassembly {
    fn default() -> Self {
        Reassembly::new()
    }
}

impl Reassembly {
    /// None.
    pub fn new() -> Reassembly {
        Reassembly {
            packets: Vec::with_capacity(PACKETS),
            fragments: 0,
        }
    }

    /// Drops the packets that wait for longest, until fewer than `most` fragments wait.
    pub fn make_room(&mut self, most: usize, mut give: impl FnMut(Piece, Option<DropReason>)) {
        while self.fragments >= most.max(1) {
            self.drop_oldest(&mut give);
        }
    }

    fn drop_oldest(&mut self, give: &mut impl FnMut(Piece, Option<DropReason>)) {
        let oldest = (0..self.packets.len()).min_by_key(|i| self.packets[*i].until);
        let Some(oldest) = oldest else {
            return;
        };
        let gone = self.packets.swap_remove(oldest);
        self.fragments -= gone.count;
        let reason = Some(DropReason::ReassemblyFull);
        gone.pieces().for_each(|p| give(p, reason));
    }

    /// Takes a fragment that more follow or not. `give` gets what is given out: all fragments in order when they are
    /// whole, else with the reason to drop them for.
    pub fn put(
        &mut self,
        key: PacketKey,
        piece: Piece,
        more: bool,
        now: u64,
        mut give: impl FnMut(Piece, Option<DropReason>),
    ) -> Put {
        let found = self.packets.iter().position(|p| p.key == key);
        let i = found.unwrap_or_else(|| self.begin(key, now, &mut give));
        let packet = &mut self.packets[i];
        if packet.spoiled {
            return Put::Refused(DropReason::FragmentOverlap);
        }
        // One that came twice does no harm (RFC 8200).
        let twin = |o: Piece| (o.from, o.to) == (piece.from, piece.to);
        if packet.pieces().any(twin) {
            return Put::Refused(DropReason::FragmentOverlap);
        }
        match packet.place(piece, more) {
            Ok(at) => packet.insert(at, piece, more),
            Err(reason) => {
                packet.pieces().for_each(|p| give(p, Some(reason)));
                self.fragments -= packet.count;
                (packet.spoiled, packet.count) = (true, 0);
                return Put::Refused(reason);
            }
        }
        self.fragments += 1;
        if !packet.is_whole() {
            return Put::Kept;
        }
        let packet = self.packets.swap_remove(i);
        self.fragments -= packet.count;
        packet.pieces().for_each(|p| give(p, None));
        Put::Whole
    }

    /// Makes room for a packet and begins it; says its place.
    fn begin(
        &mut self,
        key: PacketKey,
        now: u64,
        give: &mut impl FnMut(Piece, Option<DropReason>),
    ) -> usize {
        if self.packets.len() == PACKETS {
            self.drop_oldest(give);
        }
        self.packets.push(Packet {
            key,
            until: now + PATIENCE,
            pieces: [None; PIECES],
            count: 0,
            have: 0,
            end: None,
            spoiled: false,
        });
        self.packets.len() - 1
    }

    /// Gives out the fragments of packets whose time is over.
    pub fn expire(&mut self, now: u64, mut give: impl FnMut(Piece)) {
        let fragments = &mut self.fragments;
        self.packets.retain(|p| {
            let waits = p.until > now;
            if !waits {
                *fragments -= p.count;
                p.pieces().for_each(&mut give);
            }
            waits
        });
    }

    /// When the next packet's time is over.
    pub fn deadline(&self) -> Option<u64> {
        self.packets.iter().map(|p| p.until).min()
    }
}

/// Copies the payload of a fragment behind `at` bytes of `out`; says where it ends there, `None` when it has not
/// what it said.
pub fn copy_payload(pool: &mut Pool, piece: Piece, out: &mut [u8], at: usize) -> Option<usize> {
    let len = usize::from(piece.to - piece.from);
    let room = out.get_mut(at..at + len)?;
    if !pool.pull(piece.buffer, piece.head) {
        return None;
    }
    (pool.copy_out(piece.buffer, room) == len).then_some(at + len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(ident: u32) -> PacketKey {
        PacketKey {
            addresses: [[1; 16], [2; 16]],
            ident,
            table: 0,
            protocol: 17,
        }
    }

    fn piece(from: u16, to: u16) -> Piece {
        Piece {
            buffer: BufferIndex::default(),
            head: 20,
            from,
            to,
        }
    }

    /// Place of a fragment that was given out, and why.
    type Out = ((u16, u16), Option<DropReason>);

    /// Puts a fragment; what was given out.
    fn put(r: &mut Reassembly, ident: u32, (from, to): (u16, u16), more: bool) -> (Put, Vec<Out>) {
        let mut out = Vec::new();
        let done = r.put(key(ident), piece(from, to), more, 0, |p, why| {
            out.push(((p.from, p.to), why));
        });
        (done, out)
    }

    #[test]
    fn in_any_order_they_come_out_in_order() {
        let mut r = Reassembly::new();
        assert_eq!(put(&mut r, 1, (16, 20), false).0, Put::Kept);
        assert_eq!(put(&mut r, 1, (0, 8), true).0, Put::Kept);
        assert_eq!(put(&mut r, 2, (0, 8), true).0, Put::Kept);
        let (done, out) = put(&mut r, 1, (8, 16), true);
        assert_eq!(done, Put::Whole);
        let places: Vec<_> = out.iter().map(|o| o.0).collect();
        assert_eq!(places, [(0, 8), (8, 16), (16, 20)]);
        assert_eq!(r.packets.len(), 1);
    }

    #[test]
    fn what_overlaps_ends_its_packet_and_a_twin_does_not() {
        use DropReason::FragmentOverlap;
        for bad in [(8, 24), (0, 16), (4, 12), (0, 40)] {
            let mut r = Reassembly::new();
            put(&mut r, 1, (0, 8), true);
            put(&mut r, 1, (16, 24), true);
            let twin = put(&mut r, 1, (0, 8), true);
            assert_eq!(twin, (Put::Refused(FragmentOverlap), vec![]));
            let (done, out) = put(&mut r, 1, bad, true);
            assert_eq!((done, out.len()), (Put::Refused(FragmentOverlap), 2));
            // Nor is it put together from what comes later.
            let later = put(&mut r, 1, (0, 8), false);
            assert_eq!(later, (Put::Refused(FragmentOverlap), vec![]));
        }
    }

    #[test]
    fn there_is_one_end() {
        let mut r = Reassembly::new();
        put(&mut r, 1, (8, 16), false);
        assert_eq!(put(&mut r, 1, (16, 24), true).1.len(), 1);
        let mut r = Reassembly::new();
        put(&mut r, 1, (16, 24), true);
        assert_eq!(put(&mut r, 1, (8, 16), false).1.len(), 1);
    }

    #[test]
    fn the_oldest_gives_way_and_time_ends() {
        let mut r = Reassembly::new();
        for ident in 0..PACKETS as u32 {
            let done = r.put(
                key(ident),
                piece(0, 8),
                true,
                u64::from(ident),
                |_, _| panic!(),
            );
            assert_eq!(done, Put::Kept);
        }
        let (_, out) = put(&mut r, 9999, (0, 8), true);
        assert_eq!(out, [((0, 8), Some(DropReason::ReassemblyFull))]);
        assert!(r.packets.iter().all(|p| p.key.ident != 0));
        let mut gone = 0;
        r.expire(PATIENCE + 10, |_| gone += 1);
        assert_eq!((gone, r.packets.len()), (11, PACKETS - 11));
        assert_eq!(r.deadline(), Some(PATIENCE + 11));
    }

    #[test]
    fn room_is_made_by_dropping_the_oldest() {
        let mut r = Reassembly::new();
        for ident in 0..6 {
            let at = u64::from(ident);
            for from in [0, 16] {
                r.put(key(ident), piece(from, from + 8), true, at, |_, _| panic!());
            }
        }
        let mut gone = 0;
        r.make_room(8, |_, _| gone += 1);
        assert_eq!((gone, r.fragments), (6, 6));
        assert!(r.packets.iter().all(|p| p.key.ident >= 3));
    }

    #[test]
    fn too_many_pieces_are_too_many() {
        let mut r = Reassembly::new();
        for n in 0..PIECES as u16 {
            assert_eq!(put(&mut r, 1, (n * 16, n * 16 + 8), true).0, Put::Kept);
        }
        let (done, out) = put(&mut r, 1, (9000, 9008), true);
        assert_eq!(done, Put::Refused(DropReason::ReassemblyFull));
        assert_eq!(out.len(), PIECES);
    }

    proptest! {
        /// Whatever comes: what is kept and given out adds up, and what is whole has no holes.
        #[test]
        fn all_is_accounted_for(fragments in prop::collection::vec((0u32..3, 0u16..6, 1u16..4, any::<bool>()), 1..200)) {
            let mut r = Reassembly::new();
            let mut waiting = 0;
            for (ident, from, len, more) in fragments {
                let (done, out) = put(&mut r, ident, (from * 8, (from + len) * 8), more);
                waiting += usize::from(done == Put::Kept || done == Put::Whole);
                waiting -= out.len();
                if done == Put::Whole {
                    let mut at = 0;
                    for ((from, to), why) in out {
                        prop_assert!(why.is_none() && from == at);
                        at = to;
                    }
                }
            }
            prop_assert_eq!(waiting, r.fragments);
            r.expire(u64::MAX, |_| waiting -= 1);
            prop_assert_eq!((waiting, r.fragments), (0, 0));
        }
    }
}
