//! What the agent remembers of each interface: its numbers, its pool, when its counters are due.

mod pool;

use parshall_counters::IfTotals;
use parshall_device::{Duplex, MacErrors};
use parshall_sflow_wire::record::{
    EthernetCounters, IfCounters, LagPort, List, Mac, PortName, PortStates, Sfp, VlanCounters,
};
use parshall_sflow_wire::{CounterRecord, DataSource};

use self::pool::Pool;
use crate::host::cut;
use crate::records::{RecordKind, Records};
use crate::router::{IfReport, LagReport, Router};
use crate::sfp;

/// Largest interface number of the router that is followed; the table is indexed by it.
const MAX_INDEX: u32 = 1 << 20;
/// ifType of Ethernet (IANAifType-MIB).
const ETHERNET: u32 = 6;
/// Unknown in a counter.
const UNKNOWN: u32 = u32::MAX;
/// A report is sent this long (ns) before its interval has passed, so that a caller that comes a little late still keeps
/// "at most the polling interval apart" (sFlow Version 5, section 4.2.3).
pub const LOOKAHEAD: u64 = 20_000_000;

/// One interface.
#[derive(Debug)]
pub struct Interface {
    /// Exported ifIndex.
    pub if_index: u32,
    incarnation: u64,
    flow_sequence: u32,
    counter_sequence: u32,
    pool: Pool,
    totals: IfTotals,
    /// When its counters are due, in ns; `None` = not reported.
    due: Option<u64>,
    seen: bool,
}

impl Interface {
    fn new(if_index: u32, incarnation: u64) -> Interface {
        Interface {
            if_index,
            incarnation,
            flow_sequence: 0,
            counter_sequence: 0,
            pool: Pool::default(),
            totals: IfTotals::default(),
            due: None,
            seen: true,
        }
    }

    /// Who its samples are of. A sub-interface is a source like any other: it has an ifIndex of its own (sFlow
    /// Version 5, section 4.2.1), so there is one class for all.
    pub fn source(&self) -> DataSource {
        DataSource::interface(self.if_index)
    }

    /// The number of the next flow sample, and pool and drops with it. The router is asked once a round, which is a
    /// millisecond or so: the counters lie in memory that workers write, and each look at them slows a worker a little.
    #[inline]
    pub fn next_flow(&mut self, index: u32, round: u64, router: &dyn Router) -> (u32, u32, u32) {
        // Where counters were cleared the sequence starts again with them, or collectors would compute nonsense.
        if self.pool.is_of_before(round) && self.pool.update(round, router.pool(index)) {
            self.flow_sequence = 0;
        }
        self.flow_sequence = self.flow_sequence.wrapping_add(1);
        let (pool, drops) = self.pool.tell();
        (self.flow_sequence, pool, drops)
    }

    /// The number of the next counter sample, which carries `totals`.
    pub fn next_counters(&mut self, totals: &IfTotals) -> u32 {
        let was = &self.totals;
        let fell = totals.rx_packets < was.rx_packets
            || totals.rx_bytes < was.rx_bytes
            || totals.tx_packets < was.tx_packets
            || totals.tx_bytes < was.tx_bytes
            || totals.rx_drops < was.rx_drops
            || totals.tx_drops < was.tx_drops;
        if fell {
            self.counter_sequence = 0;
        }
        self.totals = *totals;
        self.counter_sequence = self.counter_sequence.wrapping_add(1);
        self.counter_sequence
    }
}

/// All interfaces, by the router's number.
#[derive(Debug)]
pub struct Interfaces {
    slots: Vec<Option<Interface>>,
    /// Interfaces scheduled so far: the next one's place within the interval.
    placed: u64,
    /// Moves this agent's reports against those of another that started at the same time.
    seed: u64,
    interval: u64,
    next_due: u64,
}

impl Interfaces {
    /// No interface yet, counters every `interval` ns (0 = never).
    pub fn new(interval: u64, seed: u64) -> Interfaces {
        Interfaces {
            slots: Vec::new(),
            placed: 0,
            seed,
            interval,
            next_due: u64::MAX,
        }
    }

    /// Changes the interval and places every interface in it anew.
    pub fn set_interval(&mut self, interval: u64) {
        if interval != self.interval {
            self.interval = interval;
            self.placed = 0;
            self.slots.iter_mut().flatten().for_each(|i| i.due = None);
            self.next_due = u64::MAX;
        }
    }

    /// Starts all sequences again, for an agent that changed its address.
    pub fn restart(&mut self) {
        for i in self.slots.iter_mut().flatten() {
            i.flow_sequence = 0;
            i.counter_sequence = 0;
        }
    }

    /// Whether an interface that is known has another exported ifIndex in `reports`, though it is the same one.
    pub fn are_renumbered(&self, reports: &[IfReport]) -> bool {
        let known = |r: &IfReport| self.slots.get(r.index as usize)?.as_ref();
        reports.iter().any(|r| {
            known(r).is_some_and(|i| i.incarnation == r.incarnation && i.if_index != r.if_index)
        })
    }

    /// Takes in which interfaces there are.
    pub fn update(&mut self, now: u64, reports: &[IfReport]) {
        self.slots.iter_mut().flatten().for_each(|i| i.seen = false);
        for r in reports.iter().filter(|r| r.index < MAX_INDEX) {
            let at = r.index as usize;
            if self.slots.len() <= at {
                self.slots.resize_with(at + 1, || None);
            }
            let same = |i: &Interface| (i.if_index, i.incarnation) == (r.if_index, r.incarnation);
            if !self.slots[at].as_ref().is_some_and(same) {
                self.slots[at] = Some(Interface::new(r.if_index, r.incarnation));
            }
            let Some(i) = &mut self.slots[at] else {
                continue;
            };
            i.seen = true;
            if !r.sflow || self.interval == 0 {
                i.due = None;
            } else if i.due.is_none() {
                i.due = Some(now + place(self.seed, self.placed, self.interval));
                self.placed += 1;
            }
        }
        for slot in &mut self.slots {
            if slot.as_ref().is_some_and(|i| !i.seen) {
                *slot = None;
            }
        }
        self.reckon();
    }

    /// Finds out anew when the next counters are due; to be called after [`take_due`](Self::take_due).
    pub fn reckon(&mut self) {
        let next = self.slots.iter().flatten().filter_map(|i| i.due).min();
        self.next_due = next.map_or(u64::MAX, |d| d.saturating_sub(LOOKAHEAD));
    }

    /// The interface with the router's number `index`.
    #[inline]
    pub fn get_mut(&mut self, index: u32) -> Option<&mut Interface> {
        self.slots.get_mut(index as usize)?.as_mut()
    }

    /// The exported ifIndex of the router's number, 0 when there is none.
    #[inline]
    pub fn exported(&self, index: u32) -> u32 {
        self.slots
            .get(index as usize)
            .and_then(Option::as_ref)
            .map_or(0, |i| i.if_index)
    }

    /// When the next counters are due.
    pub fn due(&self) -> u64 {
        self.next_due
    }

    /// Whether the counters of `index` are due; if so, they are next due an interval from now.
    pub fn take_due(&mut self, index: u32, now: u64) -> Option<&mut Interface> {
        let interval = self.interval;
        let i = self.get_mut(index)?;
        if i.due? > now + LOOKAHEAD {
            return None;
        }
        i.due = Some(now + interval);
        Some(i)
    }
}

/// Where in the interval the `n`th source goes. Steps of the golden ratio spread any number of sources evenly, without
/// knowing how many will come.
fn place(seed: u64, n: u64, interval: u64) -> u64 {
    const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
    let fraction = seed.wrapping_add((n + 1).wrapping_mul(GOLDEN));
    ((u128::from(fraction) * u128::from(interval)) >> 64) as u64
}

/// Hands the counter records of an interface to `f`, sample by sample; `aggregate` is the ifIndex of its bond. The name comes last: Wireshark's dissector does not
/// know it and loses its way after a counter record it does not know. The module, which it does not know either, has a
/// sample of its own.
pub fn with_records(
    r: &IfReport,
    aggregate: u32,
    records: Records,
    mut f: impl FnMut(&[CounterRecord<'_>]),
) {
    let mut all = Vec::with_capacity(5);
    all.push(CounterRecord::Interface(generic_record(r)));
    let state = r.hardware.as_ref();
    if records.has(RecordKind::Ethernet) && matches!(r.if_type, 0 | ETHERNET) {
        let mac = state.map(|h| h.mac).unwrap_or_default();
        all.push(CounterRecord::Ethernet(ethernet_record(&r.totals, &mac)));
    }
    if let Some(vlan) = r.vlan.filter(|_| records.has(RecordKind::Vlan)) {
        all.push(CounterRecord::Vlan(vlan_record(vlan, &r.totals)));
    }
    if let Some(lag) = r.lag.filter(|_| records.has(RecordKind::Lag)) {
        all.push(CounterRecord::LagPort(lag_record(&lag, aggregate)));
    }
    if records.has(RecordKind::PortName) {
        let name = cut(&r.name, 255).into();
        all.push(CounterRecord::PortName(PortName { name }));
    }
    f(&all);
    let memory = state.and_then(|h| h.module.as_deref());
    if records.has(RecordKind::Sfp)
        && let Some(m) = memory.and_then(sfp::read)
    {
        f(&[CounterRecord::Sfp(Sfp {
            module_id: r.if_index,
            total_lanes: m.lanes.len() as u32,
            supply_voltage: m.supply_voltage,
            temperature: m.temperature,
            lanes: List::new(&m.lanes),
        })]);
    }
}

/// Counters of 32 bits wrap, as those of SNMP do.
fn generic_record(r: &IfReport) -> IfCounters {
    let t = &r.totals;
    let unicast = |all: u64, multicast: u64, broadcast: u64| {
        all.wrapping_sub(multicast).wrapping_sub(broadcast) as u32
    };
    IfCounters {
        if_index: r.if_index,
        if_type: if r.if_type == 0 { ETHERNET } else { r.if_type },
        if_speed: r.speed,
        if_direction: match r.duplex {
            Duplex::Unknown => 0,
            Duplex::Full => 1,
            Duplex::Half => 2,
        },
        if_status: u32::from(r.admin_up) | u32::from(r.link_up) << 1,
        in_octets: t.rx_bytes,
        in_ucast_pkts: unicast(t.rx_packets, t.rx_multicast, t.rx_broadcast),
        in_multicast_pkts: t.rx_multicast as u32,
        in_broadcast_pkts: t.rx_broadcast as u32,
        in_discards: t
            .rx_drops
            .wrapping_add(t.rx_missed)
            .wrapping_add(t.rx_no_buffer) as u32,
        in_errors: t.rx_errors as u32,
        in_unknown_protos: UNKNOWN,
        out_octets: t.tx_bytes,
        out_ucast_pkts: unicast(t.tx_packets, t.tx_multicast, t.tx_broadcast),
        out_multicast_pkts: t.tx_multicast as u32,
        out_broadcast_pkts: t.tx_broadcast as u32,
        out_discards: t.tx_drops as u32,
        out_errors: t.tx_errors as u32,
        // RFC 2863 TruthValue.
        promiscuous: if r.promiscuous { 1 } else { 2 },
    }
}

/// What a VLAN carried through its sub-interface, both ways together, as a VLAN's counters have no direction.
fn vlan_record(vlan: u16, t: &IfTotals) -> VlanCounters {
    let groups = |multicast: u64, broadcast: u64| multicast.wrapping_add(broadcast);
    let packets = t.rx_packets.wrapping_add(t.tx_packets);
    let multicast = groups(t.rx_multicast, t.tx_multicast);
    let broadcast = groups(t.rx_broadcast, t.tx_broadcast);
    VlanCounters {
        vlan_id: vlan.into(),
        octets: t.rx_bytes.wrapping_add(t.tx_bytes),
        ucast: packets.wrapping_sub(multicast).wrapping_sub(broadcast) as u32,
        multicast: multicast as u32,
        broadcast: broadcast as u32,
        discards: t.rx_drops.wrapping_add(t.tx_drops) as u32,
    }
}

/// IEEE 802.1AX: the port's LACP. Markers are neither sent nor answered, what is no LACPDU is not told apart.
fn lag_record(l: &LagReport, aggregate: u32) -> LagPort {
    let [actor_admin, actor_oper, partner_admin, partner_oper] = l.states;
    LagPort {
        actor_system: Mac(l.actor),
        partner_system: Mac(l.partner),
        attached_agg_id: aggregate,
        states: PortStates {
            actor_admin,
            actor_oper,
            partner_admin,
            partner_oper,
        },
        lacpdus_rx: l.received as u32,
        marker_rx: UNKNOWN,
        marker_response_rx: UNKNOWN,
        unknown_rx: UNKNOWN,
        illegal_rx: UNKNOWN,
        lacpdus_tx: l.sent as u32,
        marker_tx: 0,
        marker_response_tx: 0,
    }
}

/// RFC 3635, as far as controller and driver tell: broken frames in and refused frames out are what the device counts, the
/// rest is the controller's. Counters of 32 bits wrap.
fn ethernet_record(t: &IfTotals, mac: &MacErrors) -> EthernetCounters {
    let known = |n: Option<u64>| n.map_or(UNKNOWN, |n| n as u32);
    EthernetCounters {
        alignment_errors: known(mac.alignment),
        fcs_errors: known(mac.fcs),
        single_collision_frames: UNKNOWN,
        multiple_collision_frames: UNKNOWN,
        sqe_test_errors: known(mac.sqe_test),
        deferred_transmissions: UNKNOWN,
        late_collisions: known(mac.late_collisions),
        excessive_collisions: known(mac.excessive_collisions),
        internal_mac_transmit_errors: t.tx_errors as u32,
        carrier_sense_errors: known(mac.carrier_sense),
        frame_too_longs: UNKNOWN,
        internal_mac_receive_errors: t.rx_errors as u32,
        symbol_errors: UNKNOWN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn report(index: u32, if_index: u32) -> IfReport {
        IfReport {
            index,
            if_index,
            sflow: true,
            ..IfReport::default()
        }
    }

    #[test]
    fn sources_spread_evenly_over_the_interval() {
        for count in [2usize, 10, 97, 1000] {
            let mut at: Vec<u64> = (0..count as u64)
                .map(|n| place(12345, n, 20 * SECOND))
                .collect();
            at.sort_unstable();
            let widest = at.windows(2).map(|w| w[1] - w[0]).max().unwrap();
            // The three-gap theorem: no gap of golden ratio steps is wider than about 2.6 times the mean.
            assert!(widest < 3 * 20 * SECOND / count as u64, "{count}: {widest}");
            assert!(*at.last().unwrap() < 20 * SECOND);
        }
    }

    #[test]
    fn an_interface_starts_again_under_another_exported_index_or_after_it_was_gone() {
        let mut t = Interfaces::new(SECOND, 0);
        t.update(0, &[report(3, 30)]);
        assert_eq!(t.get_mut(3).unwrap().next_counters(&IfTotals::default()), 1);
        t.update(0, &[report(3, 30)]);
        assert_eq!(t.get_mut(3).unwrap().next_counters(&IfTotals::default()), 2);
        t.update(0, &[report(3, 31)]);
        assert_eq!(t.get_mut(3).unwrap().next_counters(&IfTotals::default()), 1);
        // The same number, but another interface: made between two looks.
        let again = IfReport {
            incarnation: 9,
            ..report(3, 31)
        };
        assert!(!t.are_renumbered(std::slice::from_ref(&again)));
        t.update(0, &[again]);
        assert_eq!(t.get_mut(3).unwrap().next_counters(&IfTotals::default()), 1);
        t.update(0, &[]);
        assert!(t.get_mut(3).is_none());
        assert_eq!((t.exported(3), t.exported(999)), (0, 0));
        t.update(0, &[report(u32::MAX, 1)]);
        assert!(t.slots.len() < 100);
    }

    #[test]
    fn cleared_counters_restart_the_sequence() {
        let mut i = Interface::new(1, 0);
        let totals = |rx_packets| IfTotals {
            rx_packets,
            ..IfTotals::default()
        };
        assert_eq!(
            [5, 6, 6, 2, 3].map(|n| i.next_counters(&totals(n))),
            [1, 2, 3, 1, 2]
        );
    }

    #[test]
    fn records_are_those_of_the_kind_of_interface() {
        let formats = |r: &IfReport| {
            let mut out = Vec::new();
            with_records(r, 70, Records::default(), |records| {
                out.extend(records.iter().map(|r| r.tag().format()));
            });
            out
        };
        let plain = report(1, 7);
        assert_eq!(formats(&plain), [1, 2, 1005]);
        let sub = IfReport {
            if_type: 135,
            vlan: Some(10),
            ..report(1, 7)
        };
        assert_eq!(formats(&sub), [1, 5, 1005]);
        let tunnel = IfReport {
            if_type: 131,
            ..report(1, 7)
        };
        assert_eq!(formats(&tunnel), [1, 1005]);
        let lag = LagReport {
            bond: 3,
            actor: [2; 6],
            partner: [4; 6],
            states: [5, 0x3D, 2, 0x3F],
            received: 1 << 32 | 9,
            sent: 8,
        };
        let member = IfReport {
            lag: Some(lag),
            ..report(1, 7)
        };
        assert_eq!(formats(&member), [1, 2, 7, 1005]);
        let r = lag_record(&lag, 70);
        assert_eq!((r.attached_agg_id, r.lacpdus_rx, r.lacpdus_tx), (70, 9, 8));
        assert_eq!((r.states.actor_oper, r.states.partner_oper), (0x3D, 0x3F));
    }

    #[test]
    fn golden_vlan_record() {
        let v = vlan_record(
            10,
            &IfTotals {
                rx_packets: 100,
                rx_bytes: 6400,
                rx_multicast: 10,
                rx_broadcast: 5,
                rx_drops: 1,
                tx_packets: 50,
                tx_bytes: 3200,
                tx_multicast: 2,
                tx_broadcast: 1,
                tx_drops: 8,
                ..IfTotals::default()
            },
        );
        assert_eq!((v.vlan_id, v.octets, v.ucast), (10, 9600, 132));
        assert_eq!((v.multicast, v.broadcast, v.discards), (12, 6, 9));
    }

    #[test]
    fn golden_generic_record() {
        let mut r = report(1, 7);
        (r.speed, r.duplex, r.admin_up, r.link_up) = (10_000_000_000, Duplex::Full, true, true);
        r.totals = IfTotals {
            rx_packets: 100 + (1 << 32),
            rx_bytes: 6400,
            rx_multicast: 10,
            rx_broadcast: 5,
            rx_drops: 1,
            rx_missed: 2,
            rx_no_buffer: 4,
            rx_errors: 3,
            tx_packets: 50,
            tx_bytes: 3200,
            tx_multicast: 2,
            tx_broadcast: 1,
            tx_drops: 8,
            tx_errors: 9,
            ..IfTotals::default()
        };
        let g = generic_record(&r);
        assert_eq!(
            (
                g.if_index,
                g.if_type,
                g.if_speed,
                g.if_direction,
                g.if_status
            ),
            (7, 6, 10_000_000_000, 1, 3)
        );
        assert_eq!(
            (
                g.in_octets,
                g.in_ucast_pkts,
                g.in_multicast_pkts,
                g.in_broadcast_pkts
            ),
            (6400, 85, 10, 5)
        );
        assert_eq!(
            (g.in_discards, g.in_errors, g.in_unknown_protos),
            (7, 3, u32::MAX)
        );
        assert_eq!(
            (
                g.out_octets,
                g.out_ucast_pkts,
                g.out_multicast_pkts,
                g.out_broadcast_pkts
            ),
            (3200, 47, 2, 1)
        );
        assert_eq!((g.out_discards, g.out_errors, g.promiscuous), (8, 9, 2));
        let mac = MacErrors {
            fcs: Some(1 << 32 | 7),
            late_collisions: Some(0),
            ..MacErrors::default()
        };
        let e = ethernet_record(&r.totals, &mac);
        assert_eq!(
            (
                e.internal_mac_transmit_errors,
                e.internal_mac_receive_errors,
                e.fcs_errors
            ),
            (9, 3, 7)
        );
        assert_eq!((e.late_collisions, e.alignment_errors), (0, u32::MAX));
    }
}
