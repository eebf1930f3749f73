//! Dropped packets as discarded packet samples (0:5; "sFlow Dropped Packet Notification Structures", October 2020).
//!
//! The workers leave a few packets of every reason in their rings; here the agent's own limit is put on them, so many a
//! second in all, a tenth of that at once (hsflowd's quota). Each reason waits in a queue of its own and the queues have
//! turns, so that a flood of one leaves the others their share. What finds no place is counted.
//!
//! Every drop that was seen ends as one of three: reported, which is handed to an exporter (collectors of datagrams, or the drop
//! monitor of the kernel); suppressed, over the limit or for lack of room; unexported, when the limit let it through and there was
//! no exporter. The third is none of `drops`: it was not this agent that held it back.
//!
//! All discards are of one data source, 0:0, the agent as a whole, as hsflowd has it: limit and `drops` are the agent's,
//! and a packet that never had an interface has no other source to be counted at. The sequence is the agent's, too.
//!
//! Losses that leave no packet behind (a device that had no room, a frame that it refused) are told without a header:
//! one sample for each reason and interface a second, the others counted in `drops`. So are packets that the router wanted to
//! make and had no buffer for.

use std::collections::{HashMap, VecDeque};

use parshall_counters::{DropReason, IfTotals};
use parshall_ring::Consumer;
use parshall_sample::{DropSlot, HeaderProtocol};
use parshall_sflow_wire::record::{
    ExtendedAcl, ExtendedFunction, HardwareTrap, RawHeader, Timestamp,
};
use parshall_sflow_wire::{DataSource, DatagramBuilder, DiscardSampleHead, FlowRecord, PushError};

use crate::router::{IfReport, Router};
use crate::status::{DiscardStatus, LastDrop, ReasonStatus};

const SECOND: u64 = 1_000_000_000;
/// Packets of one reason that wait for their turn at most.
const WAITING: usize = 16;
/// How long one waits at most, in ns: sFlow wants a sample to be sent within a second.
const PATIENCE: u64 = 900_000_000;
/// Packets taken from one ring in one call.
const SHARE: usize = 1024;
/// [`DropSlot::slot`] where no node had the packet.
const NO_SLOT: u16 = u16::MAX;
/// Bytes of the frame check sequence, which counts in the frame's length but is never in the header.
const FCS: u32 = 4;
/// Bytes of an Ethernet header. hsflowd counts it as stripped where a header begins behind it.
const ETHERNET: u32 = 14;
/// Longest name of a node that is sent.
const MAX_SYMBOL: usize = 64;

/// What is known of one reason.
#[derive(Default)]
struct Reason {
    /// Packets that wait to be sent, with the time they were read.
    waiting: VecDeque<(u64, DropSlot)>,
    seen: u64,
    reported: u64,
    /// Read or counted here, and not reported.
    suppressed: u64,
    unexported: u64,
    last: Option<DropSlot>,
}

/// What became of a packet that the limit let through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// At least one exporter has it.
    Reported,
    /// There is an exporter, and it could not take it.
    Refused,
    /// There is no exporter.
    Unexported,
}

/// The discards of an agent.
pub struct Discards {
    rings: Vec<Consumer<DropSlot>>,
    /// By reason.
    reasons: Box<[Reason]>,
    /// Packets waiting, in all queues.
    waiting: usize,
    /// The reason whose turn it is.
    turn: usize,
    /// Samples a second, 0 = none.
    limit: u32,
    /// What may be sent now: a second's worth of time makes `limit` samples, of a second each.
    credit: u64,
    credited: u64,
    sequence: u32,
    /// All that was not reported when the sequence began.
    suppressed_before: u64,
    /// What interfaces had lost without a packet when they were last looked at.
    lost: HashMap<u32, IfTotals>,
    /// Packets that the router could not make, when last looked at.
    unmade: Option<u64>,
}

impl Discards {
    /// Nothing to report.
    pub fn new(limit: u32) -> Discards {
        Discards {
            rings: Vec::new(),
            reasons: DropReason::ALL.iter().map(|_| Reason::default()).collect(),
            waiting: 0,
            turn: 0,
            limit,
            credit: 0,
            credited: 0,
            sequence: 0,
            suppressed_before: 0,
            lost: HashMap::new(),
            unmade: None,
        }
    }

    /// Reports at most `limit` a second from now on; 0 = none. What waits then is forgotten.
    pub fn set_limit(&mut self, limit: u32) {
        if limit == 0 {
            for r in &mut self.reasons {
                r.suppressed += r.waiting.len() as u64;
                r.waiting.clear();
            }
            self.waiting = 0;
            self.lost.clear();
            self.unmade = None;
        }
        (self.limit, self.credit) = (limit, 0);
    }

    /// Starts the sequence again, for an agent that changed its address; what `drops` counts starts with it.
    pub fn restart(&mut self, router: &dyn Router) {
        self.sequence = 0;
        self.suppressed_before = self.all_suppressed(router);
    }

    /// Adds workers' rings.
    pub fn add_rings(&mut self, rings: impl IntoIterator<Item = Consumer<DropSlot>>) {
        self.rings.extend(rings);
    }

    /// Takes in what lies in the rings.
    pub fn drain(&mut self, now: u64) {
        let mut rings = std::mem::take(&mut self.rings);
        for ring in &mut rings {
            for _ in 0..SHARE {
                let Some(slot) = ring.read(|slot| *slot) else {
                    break;
                };
                self.offer(now, slot);
            }
        }
        self.rings = rings;
    }

    /// Takes in what was lost without leaving a packet: by interfaces, and `unmade` packets in all that the router had no
    /// buffer for.
    pub fn observe(&mut self, now: u64, reports: &[IfReport], unmade: u64) {
        if self.limit == 0 {
            return;
        }
        let before = self.unmade.replace(unmade).unwrap_or(unmade);
        let nowhere = (u32::MAX, false);
        self.lose(
            now,
            DropReason::NoBufferSpace,
            unmade.wrapping_sub(before),
            nowhere,
        );
        for r in reports {
            let Some(before) = self.lost.insert(r.index, r.totals) else {
                continue;
            };
            let t = &r.totals;
            for (reason, n, outward) in [
                (
                    DropReason::RxMissed,
                    t.rx_missed.wrapping_sub(before.rx_missed),
                    false,
                ),
                (
                    DropReason::RxNoBuffer,
                    t.rx_no_buffer.wrapping_sub(before.rx_no_buffer),
                    false,
                ),
                (
                    DropReason::RxError,
                    t.rx_errors.wrapping_sub(before.rx_errors),
                    false,
                ),
                (
                    DropReason::TxError,
                    t.tx_errors.wrapping_sub(before.tx_errors),
                    true,
                ),
            ] {
                self.lose(now, reason, n, (r.index, outward));
            }
        }
        self.lost
            .retain(|index, _| reports.iter().any(|r| r.index == *index));
    }

    /// Tells of `n` losses at an interface, on its way in or out, by one sample.
    fn lose(&mut self, now: u64, reason: DropReason, n: u64, (if_index, outward): (u32, bool)) {
        // Counters that fell were cleared, or are those of another interface.
        if n != 0 && n <= u64::MAX / 2 {
            let r = &mut self.reasons[reason as usize];
            r.suppressed += n - 1;
            r.seen += n - 1;
            self.offer(now, without_header(reason, if_index, outward));
        }
    }

    fn offer(&mut self, now: u64, slot: DropSlot) {
        let Some(reason) = self.reasons.get_mut(usize::from(slot.reason)) else {
            return;
        };
        reason.last = Some(slot);
        reason.seen += 1;
        if self.limit == 0 || reason.waiting.len() == WAITING {
            reason.suppressed += 1;
            return;
        }
        reason.waiting.push_back((now, slot));
        self.waiting += 1;
    }

    /// The next packet to report, if the limit lets one through: the oldest of the reason whose turn it is.
    pub fn next(&mut self, now: u64) -> Option<DropSlot> {
        self.earn(now);
        while self.waiting != 0 && self.credit >= SECOND {
            self.turn = (self.turn + 1) % self.reasons.len();
            let reason = &mut self.reasons[self.turn];
            let Some((since, slot)) = reason.waiting.pop_front() else {
                continue;
            };
            self.waiting -= 1;
            if since + PATIENCE < now {
                reason.suppressed += 1;
                continue;
            }
            self.credit -= SECOND;
            return Some(slot);
        }
        None
    }

    fn earn(&mut self, now: u64) {
        let (limit, time) = (u64::from(self.limit), now.saturating_sub(self.credited));
        self.credited = now;
        let most = (limit / 10).max(1) * SECOND;
        self.credit = limit
            .saturating_mul(time)
            .saturating_add(self.credit)
            .min(most);
    }

    /// When the next packet may be sent, if one waits.
    pub fn due(&self) -> u64 {
        if self.waiting == 0 || self.limit == 0 {
            return u64::MAX;
        }
        let missing = SECOND.saturating_sub(self.credit);
        self.credited + missing.div_ceil(u64::from(self.limit))
    }

    /// What was read or counted here, and not reported.
    fn suppressed(&self) -> u64 {
        self.reasons.iter().map(|r| r.suppressed).sum()
    }

    /// Everything not reported so far.
    fn all_suppressed(&self, router: &dyn Router) -> u64 {
        self.suppressed().wrapping_add(router.suppressed_drops())
    }

    /// The fixed part of the next sample.
    pub fn head(
        &self,
        slot: &DropSlot,
        ends: (u32, u32),
        router: &dyn Router,
    ) -> DiscardSampleHead {
        let drops = self
            .all_suppressed(router)
            .wrapping_sub(self.suppressed_before);
        DiscardSampleHead {
            sequence: self.sequence.wrapping_add(1),
            source: DataSource::AGENT,
            drops: drops as u32,
            input: ends.0,
            output: ends.1,
            reason: reason(slot).sflow_code(),
        }
    }

    /// Takes note that the sample whose head came last is in a datagram.
    pub fn numbered(&mut self) {
        self.sequence = self.sequence.wrapping_add(1);
    }

    /// Takes note of what became of `slot`.
    pub fn done(&mut self, slot: &DropSlot, fate: Fate) {
        let r = &mut self.reasons[reason(slot) as usize];
        match fate {
            Fate::Reported => r.reported += 1,
            Fate::Refused => r.suppressed += 1,
            Fate::Unexported => r.unexported += 1,
        }
    }

    /// What was done, and the last packet of each reason.
    pub fn status(&self, router: &dyn Router) -> DiscardStatus {
        let each = DropReason::ALL.iter().zip(&self.reasons);
        let sum = |of: fn(&Reason) -> u64| self.reasons.iter().map(of).sum::<u64>();
        // Read once: the workers go on.
        let unseen = router.suppressed_drops();
        DiscardStatus {
            limit: self.limit,
            seen: sum(|r| r.seen).wrapping_add(unseen),
            reported: sum(|r| r.reported),
            suppressed: self.suppressed().wrapping_add(unseen),
            unexported: sum(|r| r.unexported),
            waiting: self.waiting as u64,
            ring_lost: self.rings.iter().map(Consumer::overflows).sum(),
            reasons: each
                .filter(|(_, r)| r.last.is_some() || r.suppressed != 0)
                .map(|(reason, r)| ReasonStatus {
                    reason: reason.name(),
                    reported: r.reported,
                    suppressed: r.suppressed,
                    unexported: r.unexported,
                    last: r.last.as_ref().map(last_drop),
                })
                .collect(),
        }
    }
}

/// A loss that left no packet behind.
fn without_header(reason: DropReason, if_index: u32, outward: bool) -> DropSlot {
    let mut slot = DropSlot {
        reason: reason.code(),
        slot: NO_SLOT,
        ..DropSlot::default()
    };
    *(if outward {
        &mut slot.tx_if
    } else {
        &mut slot.rx_if
    }) = if_index;
    slot
}

fn last_drop(slot: &DropSlot) -> LastDrop {
    LastDrop {
        time_ns: slot.time,
        rx_if: slot.rx_if,
        tx_if: slot.tx_if,
        slot: slot.slot,
        frame_len: slot.frame_len,
        protocol: slot.protocol as u32,
        header: slot.bytes().to_vec(),
    }
}

fn reason(slot: &DropSlot) -> DropReason {
    DropReason::from_code(slot.reason).unwrap_or(DropReason::NodeFault)
}

/// Appends the sample. The raw header comes last, as hsflowd has it.
pub fn push(
    b: &mut DatagramBuilder,
    head: &DiscardSampleHead,
    slot: &DropSlot,
    router: &dyn Router,
) -> Result<(), PushError> {
    let reason = reason(slot);
    let node = (slot.slot != NO_SLOT)
        .then(|| router.slot_name(slot.slot))
        .flatten();
    // A drop without a packet has no time of its own.
    let time = Some(slot.time)
        .filter(|t| *t != 0)
        .and_then(|t| router.unix_ns(t));
    let acl = (reason == DropReason::AclDeny)
        .then(|| router.acl(slot))
        .flatten();
    b.push_discard_sample(head, |w| {
        if let Some(acl) = &acl {
            w.push(&FlowRecord::Acl(ExtendedAcl {
                number: acl.number,
                name: crate::host::cut(&acl.name, MAX_SYMBOL).into(),
                direction: if acl.outward { 2 } else { 1 },
            }));
        }
        if let Some(unix_ns) = time {
            w.push(&FlowRecord::Timestamp(Timestamp { unix_ns }));
        }
        if let Some(name) = &node {
            let symbol = crate::host::cut(name, MAX_SYMBOL).into();
            w.push(&FlowRecord::Function(ExtendedFunction { symbol }));
        }
        w.push(&FlowRecord::HardwareTrap(HardwareTrap {
            group: reason.group().name().into(),
            name: reason.name().into(),
        }));
        if slot.header_len != 0 {
            w.push(&FlowRecord::RawHeader(raw_header(slot)));
        }
    })
}

/// Lengths as hsflowd counts them: the frame's with its check sequence, and where the header begins behind the
/// link layer, with an Ethernet header that was taken off.
fn raw_header(slot: &DropSlot) -> RawHeader<'_> {
    let stripped = match slot.protocol {
        HeaderProtocol::Ethernet => FCS,
        _ => FCS + ETHERNET,
    };
    RawHeader {
        protocol: slot.protocol as u32,
        frame_length: slot.frame_len.saturating_add(stripped),
        stripped,
        header: slot.bytes(),
    }
}

#[cfg(test)]
mod tests;
