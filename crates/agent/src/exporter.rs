//! What turns what was seen into datagrams, and into messages for the kernel: samples, discards and counters of interfaces.
//!
//! It is apart from the rings, so that both can be borrowed at once, and holds the numbers that samples carry.

use std::sync::Arc;

use parshall_sample::{Direction, DropSlot, SampleSlot};
use parshall_sflow_wire::{CounterSampleHead, Interface, PushError, SampleToSend};

use crate::discard::{self, Discards, Fate};
use crate::flow::{self, FlowContext};
use crate::interface::{self, Interfaces};
use crate::netlink::{Netlink, NetlinkDrop, NetlinkSample};
use crate::outbox::Outbox;
use crate::records::{RecordKind, Records};
use crate::resolution::{Bridged, Resolution, Sampled};
use crate::router::{IfReport, RouteInfo, Router};
use crate::talkers::Watch;
use crate::transport::Transport;

const SECOND: u64 = 1_000_000_000;
/// How often the list of interfaces is read although no counters are due.
pub const REFRESH: u64 = SECOND;
/// The same when a sample names an interface that is not in the list.
const REFRESH_UNKNOWN: u64 = SECOND / 10;
/// Where a sample's interface is not known (`SampleSlot::tx_if`), or the router made the packet itself (`rx_if`).
const NO_INTERFACE: u32 = u32::MAX;

/// The exporter of an agent.
pub struct Exporter {
    pub router: Arc<dyn Router>,
    pub transport: Box<dyn Transport>,
    pub netlink: Option<Netlink>,
    pub outbox: Outbox,
    pub interfaces: Interfaces,
    /// When the list of interfaces was read last.
    pub refreshed: Option<u64>,
    /// What the router called its list of interfaces then.
    pub generation: u64,
    /// Records that samples carry.
    pub records: Records,
    /// What the router said of the sample at hand.
    pub found: Resolution,
    /// Flows, while somebody looks at them.
    pub watch: Option<Box<Watch>>,
    /// Counts the calls that drain the rings.
    pub round: u64,
    pub flow_samples: u64,
    pub counter_samples: u64,
    pub orphans: u64,
    pub oversize: u64,
}

impl Exporter {
    /// Reads the list of interfaces if it is another one than before.
    pub fn follow(&mut self, now: u64) {
        if self.refreshed.is_some() && self.router.generation() != self.generation {
            self.refresh(now);
        }
    }

    /// Reads the list of interfaces. When one of them is numbered anew, what was gathered under the old numbers is sent
    /// first, and all sequences start again: no datagram has numbers of two kinds.
    fn refresh(&mut self, now: u64) -> Vec<IfReport> {
        // Read first: if the list changes in between, it is read again.
        self.generation = self.router.generation();
        let reports = self.router.interfaces();
        if self.interfaces.are_renumbered(&reports) {
            self.outbox.flush(now, self.transport.as_mut());
            self.interfaces.restart();
        }
        self.interfaces.update(now, &reports);
        if let Some(n) = &mut self.netlink {
            n.update(&reports);
        }
        self.refreshed = Some(now);
        reports
    }

    /// One sample into the open datagram.
    #[inline]
    pub fn export(&mut self, now: u64, slot: &SampleSlot) {
        if let Some(watch) = &mut self.watch {
            watch.see(now, slot);
        }
        let from_router = slot.rx_if == NO_INTERFACE;
        let at = match slot.direction {
            Direction::Rx if !from_router => slot.rx_if,
            _ => slot.tx_if,
        };
        if self.interfaces.get_mut(at).is_none()
            && self.refreshed.is_none_or(|r| r + REFRESH_UNKNOWN <= now)
        {
            self.refresh(now);
        }
        self.explain(slot);
        let route = self.found.route;
        let output = match self.interfaces.exported(slot.tx_if) {
            0 => match self.found.bridged {
                Some(Bridged::To(out_if)) => self.leaves_by(out_if),
                Some(Bridged::Up) => Interface::INTERNAL,
                Some(Bridged::Flooded(n)) => Interface::multiple(n),
                None => route.map_or(Interface::UNKNOWN, |r| self.leaves_by(r.out_if)),
            },
            known => Interface::index(known),
        };
        let came_by = self.interfaces.exported(slot.rx_if);
        let Some(i) = self.interfaces.get_mut(at) else {
            self.orphans += 1;
            return;
        };
        let (sequence, pool, drops) = i.next_flow(at, self.round, self.router.as_ref());
        let source = i.source();
        let input = if from_router {
            Interface::INTERNAL
        } else {
            flow::interface(came_by)
        };
        let context = FlowContext {
            sequence,
            source,
            pool,
            drops,
            input,
            output,
            found: &self.found,
            unix_ns: (self.records.has(RecordKind::Timestamp) && slot.time != 0)
                .then(|| self.router.unix_ns(slot.time))
                .flatten(),
            records: self.records,
        };
        if let Some(n) = &mut self.netlink {
            let ends = (came_by, output.if_index().unwrap_or(0));
            let timestamp = self.router.unix_ns(slot.time);
            n.sample(now, &NetlinkSample::new(slot, ends, timestamp));
        }
        let mut pushed = self.outbox.push(now, self.transport.as_mut(), |b| {
            flow::push(b, slot, &context)
        });
        if pushed == Err(PushError::TooLarge) {
            // An AS path or communities longer than any datagram: better told without than not at all.
            let records = self.records.with(RecordKind::Gateway, false);
            let context = FlowContext { records, ..context };
            pushed = self.outbox.push(now, self.transport.as_mut(), |b| {
                flow::push(b, slot, &context)
            });
        }
        match pushed {
            Ok(()) => self.flow_samples += 1,
            Err(_) => self.oversize += 1,
        }
    }

    /// Asks the router about a packet. What it says now counts only where it agrees with the way that the packet took.
    fn explain(&mut self, slot: &SampleSlot) {
        let packet = Sampled {
            header: flow::header(slot),
            protocol: slot.protocol,
            rx_if: slot.rx_if,
            tx_if: slot.tx_if,
            direction: slot.direction,
            wanted: self.records,
        };
        self.router.explain(&packet, &mut self.found);
        let other = |r: RouteInfo| slot.tx_if != NO_INTERFACE && r.out_if != slot.tx_if;
        if self.found.route.is_some_and(other) {
            self.found.forget_route();
        }
    }

    /// The interface that a route leads out by, as collectors know it.
    fn leaves_by(&self, out_if: u32) -> Interface {
        match out_if {
            RouteInfo::INTERNAL => Interface::INTERNAL,
            index => flow::interface(self.interfaces.exported(index)),
        }
    }

    /// Sends samples of dropped packets as far as their limit lets them through.
    pub fn report_discards(&mut self, now: u64, discards: &mut Discards) {
        while let Some(slot) = discards.next(now) {
            let fate = self.report_discard(now, discards, &slot);
            discards.done(&slot, fate);
        }
    }

    fn report_discard(&mut self, now: u64, discards: &mut Discards, slot: &DropSlot) -> Fate {
        let router = self.router.clone();
        let alerted = self.netlink.as_mut().is_some_and(|n| {
            let node = router.slot_name(slot.slot).unwrap_or_default();
            n.drop_alert(
                now,
                &NetlinkDrop::new(slot, &node, router.unix_ns(slot.time)),
            )
        });
        let without = if alerted {
            Fate::Reported
        } else {
            Fate::Unexported
        };
        if !self.transport.has_collectors() {
            return without;
        }
        // 0 where there is no such interface: not known.
        let ends = [slot.rx_if, slot.tx_if].map(|i| self.interfaces.exported(i));
        let head = discards.head(slot, (ends[0], ends[1]), router.as_ref());
        let pushed = self.outbox.push(now, self.transport.as_mut(), |b| {
            discard::push(b, &head, slot, router.as_ref())
        });
        if pushed.is_ok() {
            discards.numbered();
            return Fate::Reported;
        }
        self.oversize += 1;
        if alerted {
            Fate::Reported
        } else {
            Fate::Refused
        }
    }

    /// Sends the counters of every interface that is due, and keeps the list of interfaces fresh.
    pub fn report_counters(&mut self, now: u64, discards: &mut Discards) {
        let stale = self.refreshed.is_none_or(|at| at + REFRESH <= now);
        if !stale && self.interfaces.due() > now {
            return;
        }
        let reports = self.refresh(now);
        discards.observe(now, &reports, self.router.unmade_drops());
        for report in reports {
            let aggregate = report.lag.map_or(0, |l| self.interfaces.exported(l.bond));
            let Some(i) = self.interfaces.take_due(report.index, now) else {
                continue;
            };
            interface::with_records(&report, aggregate, self.records, |records| {
                let head = CounterSampleHead {
                    sequence: i.next_counters(&report.totals),
                    source: i.source(),
                };
                let sample = SampleToSend::Counters(head, records);
                let pushed = self
                    .outbox
                    .push(now, self.transport.as_mut(), |b| b.try_push(&sample));
                match pushed {
                    Ok(()) => self.counter_samples += 1,
                    Err(_) => self.oversize += 1,
                }
            });
        }
        self.interfaces.reckon();
    }
}
