//! A transmit queue in its place: checks, counts, and hands packets to the device.

use parshall_buffer::{BufferIndex, Flags, Frame, Meta, Pool};
use parshall_counters::{DropReason, IfCounters, WorkerCounters};
use parshall_device::{TxKnown, TxQueue};

use crate::node::NodeId;

/// Interfaces without a device that a packet may leave through, one after the other.
pub(crate) const MAX_NESTING: u32 = 8;

/// A slot for the transmit queue of one interface, or for the node that takes its place.
#[derive(Default)]
pub(crate) struct TxSlot {
    pub queue: Option<Box<dyn TxQueue>>,
    /// Node that packets are handed to where there is no device.
    pub relay: Option<NodeId>,
    pub up: bool,
    /// Longest frame the interface carries, in bytes.
    pub max_frame: u32,
}

/// Packets from position `from` on that were not sent, and why.
pub(crate) struct Rest {
    pub from: usize,
    pub reason: DropReason,
}

/// What is known of a burst before it is sent.
#[derive(Default)]
struct Tally {
    bytes: u64,
    multicast: u64,
    broadcast: u64,
    longest: u32,
    chained: bool,
}

impl Tally {
    #[inline(always)]
    fn of(pool: &mut Pool, packets: &[BufferIndex]) -> Tally {
        Tally::and(pool, packets, |_| {})
    }

    /// The same, and does something to each packet.
    #[inline(always)]
    fn and(pool: &mut Pool, packets: &[BufferIndex], mut each: impl FnMut(&mut Meta)) -> Tally {
        let mut view = pool.view();
        let (mut bytes, mut longest, mut flags, mut first) = (0, 0, 0, 0);
        for &b in packets {
            each(view.meta_mut(b));
            let m = view.meta(b);
            bytes += u64::from(m.len);
            longest = longest.max(m.len);
            flags |= m.flags.0;
            first |= view.peek::<1>(b, m.data)[0];
        }
        let chained = Flags(flags).has(Flags::CHAINED);
        // The lowest bit of the first byte says that a frame is for a group.
        if chained || first & 1 != 0 {
            return Tally::one_by_one(pool, packets);
        }
        Tally {
            bytes,
            longest: longest.into(),
            ..Tally::default()
        }
    }

    /// The same, for bursts with chained packets or ones for groups.
    #[cold]
    fn one_by_one(pool: &Pool, packets: &[BufferIndex]) -> Tally {
        let mut t = Tally::default();
        for &b in packets {
            let m = pool.meta(b);
            t.chained |= m.flags.has(Flags::CHAINED);
            t.bytes += u64::from(m.total_len());
            t.longest = t.longest.max(m.total_len());
            let bytes = pool.bytes(b);
            if bytes.first().is_some_and(|b| b & 1 != 0) {
                let broadcast = bytes.starts_with(&[0xFF; 6]);
                t.broadcast += u64::from(broadcast);
                t.multicast += u64::from(!broadcast);
            }
        }
        t
    }
}

impl TxSlot {
    /// Sends a frame's packets in order. `Err` names the first that was not taken: the caller drops it
    /// and those behind it. With the reason [`DropReason::LinkMtuExceeded`] nothing was sent: the caller
    /// takes the long ones out and comes again.
    #[inline]
    pub fn send(
        &mut self,
        pool: &mut Pool,
        to: &TxPlace<'_>,
        frame: &Frame,
        now: u64,
    ) -> Result<(), Rest> {
        let Some(queue) = self.queue.as_mut() else {
            return Err(Rest {
                from: 0,
                reason: DropReason::InterfaceGone,
            });
        };
        if !self.up {
            return Err(Rest {
                from: 0,
                reason: DropReason::InterfaceDown,
            });
        }
        let packets = frame.packets();
        let tally = Tally::of(pool, packets);
        if tally.longest > self.max_frame {
            return Err(Rest {
                from: 0,
                reason: DropReason::LinkMtuExceeded,
            });
        }
        let known = TxKnown {
            bytes: tally.bytes,
            chained: tally.chained,
        };
        let burst = queue.transmit_known(pool, packets, known, now);
        let taken = burst.taken.min(packets.len());
        let sent = (taken - burst.errors.min(taken)) as u64;
        let rest = Tally::of(pool, &packets[taken..]);
        to.counters.transmitted.add(sent);
        if let Some(c) = to.counters.interface(to.if_index) {
            c.tx_packets.add(sent);
            c.tx_bytes.add(tally.bytes - rest.bytes);
            if tally.multicast | tally.broadcast != 0 {
                c.tx_multicast.add(tally.multicast - rest.multicast);
                c.tx_broadcast.add(tally.broadcast - rest.broadcast);
            }
            if burst.errors != 0 {
                to.count_refused(c, burst.errors as u64);
            }
        }
        if taken < packets.len() {
            Err(Rest {
                from: taken,
                reason: DropReason::TxQueueFull,
            })
        } else {
            Ok(())
        }
    }

    /// Counts a frame's packets as sent through an interface without a device. `Err` says why one of them, or
    /// all, may not be; then nothing was counted.
    pub fn relay(&self, pool: &mut Pool, to: &TxPlace<'_>, frame: &Frame) -> Result<(), Rest> {
        let because = |reason| Err(Rest { from: 0, reason });
        if !self.up {
            return because(DropReason::InterfaceDown);
        }
        let packets = frame.packets();
        let mut deepest = 0;
        let tally = Tally::and(pool, packets, |m| {
            deepest = deepest.max(m.nesting);
            m.nesting += 1;
        });
        let (long, deep) = (tally.longest > self.max_frame, deepest >= MAX_NESTING);
        if long || deep {
            for &b in packets {
                pool.meta_mut(b).nesting -= 1;
            }
            return because(match long {
                true => DropReason::LinkMtuExceeded,
                false => DropReason::NestedTooDeep,
            });
        }
        if let Some(c) = to.counters.interface(to.if_index) {
            c.tx_packets.add(packets.len() as u64);
            c.tx_bytes.add(tally.bytes);
            c.tx_multicast.add(tally.multicast);
            c.tx_broadcast.add(tally.broadcast);
        }
        Ok(())
    }

    /// Gives the queue up; what it holds is freed.
    pub fn close(&mut self, pool: &mut Pool) -> Option<Box<dyn TxQueue>> {
        self.relay = None;
        let mut queue = self.queue.take()?;
        queue.close(pool);
        Some(queue)
    }
}

/// Where a frame is sent, for the counters.
pub(crate) struct TxPlace<'a> {
    pub counters: &'a WorkerCounters,
    pub if_index: u32,
    pub slot: u16,
}

impl TxPlace<'_> {
    #[cold]
    fn count_refused(&self, c: &IfCounters, n: u64) {
        c.tx_errors.add(n);
        self.counters.dropped.add(n);
        self.counters
            .drop_at(self.slot, DropReason::TxError.code(), n);
    }
}
