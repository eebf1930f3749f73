//! The Link Aggregation Control Protocol of one port (IEEE 802.1AX section 6.4): receive, periodic, mux and transmit
//! machines. Pure: time comes as an argument, what is to be sent goes out as a value.
//!
//! Collecting and distributing go together (coupled control). Which ports are selected is decided over all ports of
//! a bond, by the caller.

use parshall_wire::lacp::state::{
    ACTIVITY, AGGREGATION, COLLECTING, DEFAULTED, DISTRIBUTING, EXPIRED, SYNC, TIMEOUT,
};
use parshall_wire::lacp::{Lacp, LacpInfo};

const SECOND: u64 = 1_000_000_000;
/// Between LACPDUs to a partner that wants them often, and seldom.
const FAST: u64 = SECOND;
const SLOW: u64 = 30 * SECOND;
/// How long what a LACPDU said holds: three of them may be lost.
const SHORT: u64 = 3 * SECOND;
const LONG: u64 = 90 * SECOND;
/// How long a port waits for others to join the aggregate with it.
const AGGREGATE_WAIT: u64 = 2 * SECOND;
/// LACPDUs a second at most, when there is much to tell.
const BURST: u32 = 3;

/// What is assumed of a partner that is not heard: that it wants to hear often, so that it is found soon.
pub(crate) const ASSUMED: LacpInfo = LacpInfo {
    system_priority: 0,
    system: [0; 6],
    key: 0,
    port_priority: 0,
    port: 0,
    state: TIMEOUT,
};

/// What of an end's state the other end must know right.
const TOLD: u8 = ACTIVITY | TIMEOUT | AGGREGATION | SYNC;

/// How current what is known of the partner is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receive {
    /// The port has no link.
    Disabled,
    /// Nothing was heard for too long; a last wait.
    Expired,
    /// There is no partner: what is known is assumed.
    Defaulted,
    /// The partner told.
    Current,
}

/// How far the port is on its way into the aggregate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mux {
    /// Not part of it.
    Detached,
    /// Waits for others, until then.
    Waiting(u64),
    /// Part of it, and waits for the partner.
    Attached,
    /// Frames flow.
    Distributing,
}

/// Priority and address of a partner's system, and the key of its port.
pub type Partner = (u16, [u8; 6], u16);

/// One port.
#[derive(Clone, Debug)]
pub struct Port {
    actor: LacpInfo,
    partner: LacpInfo,
    receive: Receive,
    mux: Mux,
    selected: bool,
    /// When what is known of the partner ends.
    current_until: u64,
    /// When a LACPDU is due though there is no news.
    periodic: u64,
    /// The partner needs to be told.
    need_to_tell: bool,
    /// LACPDUs sent since `second`.
    sent: u32,
    second: u64,
    /// LACPDUs heard and sent in all.
    counted: (u64, u64),
    /// The actor's state as configured.
    configured: u8,
}

impl Port {
    /// A port without a link. `own`: what it says of itself, its state being `ACTIVITY` and `TIMEOUT` as configured.
    pub fn new(own: LacpInfo) -> Port {
        let mut actor = own;
        actor.state = own.state & (ACTIVITY | TIMEOUT) | AGGREGATION | DEFAULTED;
        Port {
            actor,
            partner: ASSUMED,
            receive: Receive::Disabled,
            mux: Mux::Detached,
            selected: false,
            current_until: 0,
            periodic: 0,
            need_to_tell: false,
            sent: 0,
            second: 0,
            counted: (0, 0),
            configured: own.state & (ACTIVITY | TIMEOUT) | AGGREGATION,
        }
    }

    /// What it says of itself.
    pub fn actor(&self) -> &LacpInfo {
        &self.actor
    }
    /// Its own state as it is configured.
    pub fn configured(&self) -> u8 {
        self.configured
    }
    /// LACPDUs heard and sent.
    pub fn counted(&self) -> (u64, u64) {
        self.counted
    }
    /// What it knows of the partner.
    pub fn partner(&self) -> &LacpInfo {
        &self.partner
    }
    /// States of its machines.
    pub fn machines(&self) -> (Receive, Mux) {
        (self.receive, self.mux)
    }
    /// Whether frames flow.
    pub fn is_distributing(&self) -> bool {
        self.mux == Mux::Distributing
    }
    /// Partner that it could be joined with others for: who it is, and its key.
    pub fn candidate(&self) -> Option<Partner> {
        let p = &self.partner;
        let known = matches!(self.receive, Receive::Current | Receive::Expired);
        (known && p.state & AGGREGATION != 0).then_some((p.system_priority, p.system, p.key))
    }

    /// The link came or went.
    pub fn set_enabled(&mut self, now: u64, on: bool) {
        match (on, self.receive) {
            (true, Receive::Disabled) => {
                self.expire(now);
                self.periodic = now;
                self.need_to_tell = true;
            }
            (false, r) if r != Receive::Disabled => {
                self.receive = Receive::Disabled;
                self.partner.state &= !SYNC;
                self.actor.state &= !EXPIRED;
                self.need_to_tell = false;
            }
            _ => {}
        }
    }

    fn expire(&mut self, now: u64) {
        self.receive = Receive::Expired;
        self.partner.state = self.partner.state & !SYNC | TIMEOUT;
        self.actor.state |= EXPIRED;
        self.current_until = now + SHORT;
    }

    /// A LACPDU came.
    pub fn heard(&mut self, now: u64, pdu: &Lacp) {
        self.counted.0 += 1;
        if self.receive == Receive::Disabled {
            return;
        }
        let (theirs, ours) = (pdu.actor, pdu.partner);
        let mine = self.actor;
        let known = (
            ours.system_priority,
            ours.system,
            ours.key,
            ours.port_priority,
            ours.port,
        ) == (
            mine.system_priority,
            mine.system,
            mine.key,
            mine.port_priority,
            mine.port,
        );
        // What the partner believes of us must be so, or it is to be told.
        if !known || (ours.state ^ mine.state) & TOLD != 0 {
            self.need_to_tell = true;
        }
        let other = |a: &LacpInfo| (a.system_priority, a.system, a.key, a.port_priority, a.port);
        if other(&self.partner) != other(&theirs) {
            self.selected = false;
        }
        let knows_us = known && (ours.state ^ mine.state) & AGGREGATION == 0
            || theirs.state & AGGREGATION == 0;
        self.partner = theirs;
        if !knows_us {
            self.partner.state &= !SYNC;
        }
        self.actor.state &= !(DEFAULTED | EXPIRED);
        self.receive = Receive::Current;
        let short = self.actor.state & TIMEOUT != 0;
        self.current_until = now + if short { SHORT } else { LONG };
        // A partner that wants to hear more often hears sooner.
        self.periodic = self.periodic.min(now + self.interval());
    }

    fn interval(&self) -> u64 {
        if self.partner.state & TIMEOUT != 0 {
            FAST
        } else {
            SLOW
        }
    }

    /// The port is one of the aggregate's, or not.
    pub fn select(&mut self, selected: bool) {
        self.selected = selected;
    }

    /// Lets time pass; gives the LACPDU that is to be sent now.
    pub fn run(&mut self, now: u64) -> Option<Lacp> {
        self.age(now);
        self.mux(now);
        self.transmit(now)
    }

    fn age(&mut self, now: u64) {
        if now < self.current_until {
            return;
        }
        match self.receive {
            Receive::Current => self.expire(now),
            Receive::Expired => {
                self.receive = Receive::Defaulted;
                self.partner = ASSUMED;
                self.actor.state = self.actor.state & !EXPIRED | DEFAULTED;
                self.selected = false;
            }
            Receive::Disabled | Receive::Defaulted => {}
        }
    }

    fn mux(&mut self, now: u64) {
        let selected = self.selected && self.receive != Receive::Disabled;
        let in_sync = self.partner.state & SYNC != 0;
        self.mux = match self.mux {
            _ if !selected => Mux::Detached,
            Mux::Detached => Mux::Waiting(now + AGGREGATE_WAIT),
            Mux::Waiting(until) if now >= until => Mux::Attached,
            Mux::Attached if in_sync => Mux::Distributing,
            Mux::Distributing if !in_sync => Mux::Attached,
            as_it_is => as_it_is,
        };
        let state = match self.mux {
            Mux::Detached | Mux::Waiting(_) => 0,
            Mux::Attached => SYNC,
            Mux::Distributing => SYNC | COLLECTING | DISTRIBUTING,
        };
        let all = SYNC | COLLECTING | DISTRIBUTING;
        if self.actor.state & all != state {
            self.actor.state = self.actor.state & !all | state;
            self.need_to_tell = true;
        }
    }

    fn transmit(&mut self, now: u64) -> Option<Lacp> {
        let speaks = (self.actor.state | self.partner.state) & ACTIVITY != 0;
        if self.receive == Receive::Disabled || !speaks {
            return None;
        }
        if now >= self.periodic {
            self.periodic = now + self.interval();
            self.need_to_tell = true;
        }
        if now >= self.second + SECOND {
            (self.second, self.sent) = (now, 0);
        }
        if !self.need_to_tell || self.sent >= BURST {
            return None;
        }
        self.sent += 1;
        self.counted.1 += 1;
        self.need_to_tell = false;
        Some(Lacp {
            actor: self.actor,
            partner: self.partner,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(n: u8, state: u8) -> Port {
        Port::new(LacpInfo {
            system_priority: 0xFFFF,
            system: [2, 0, 0, 0, 0, n],
            key: u16::from(n),
            port_priority: 255,
            port: 1,
            state,
        })
    }

    /// Lets two ports talk for `ns`, in steps of 100 ms; what each sends arrives unless `lost`. Says how many they sent.
    fn talk(a: &mut Port, b: &mut Port, now: &mut u64, ns: u64, lost: bool) -> (u32, u32) {
        let end = *now + ns;
        let mut sent = (0, 0);
        while *now < end {
            *now += SECOND / 10;
            for p in [&mut *a, &mut *b] {
                let known = p.candidate().is_some();
                p.select(known);
            }
            if let Some(pdu) = a.run(*now) {
                sent.0 += 1;
                if !lost {
                    b.heard(*now, &pdu);
                }
            }
            if let Some(pdu) = b.run(*now) {
                sent.1 += 1;
                if !lost {
                    a.heard(*now, &pdu);
                }
            }
        }
        sent
    }

    fn pair(a: u8, b: u8) -> (Port, Port, u64) {
        let (mut a, mut b) = (port(1, a), port(2, b));
        a.set_enabled(SECOND, true);
        b.set_enabled(SECOND, true);
        (a, b, SECOND)
    }

    #[test]
    fn two_ends_find_each_other_and_speak_as_often_as_wanted() {
        let (mut a, mut b, mut now) = pair(ACTIVITY | TIMEOUT, ACTIVITY);
        talk(&mut a, &mut b, &mut now, 5 * SECOND, false);
        assert!(a.is_distributing() && b.is_distributing());
        assert_eq!(a.partner().system, [2, 0, 0, 0, 0, 2]);
        assert_eq!(a.actor().state & (DEFAULTED | EXPIRED), 0);
        // `a` wants to hear every second, `b` every thirty.
        let (by_a, by_b) = talk(&mut a, &mut b, &mut now, 60 * SECOND, false);
        assert!((58..=62).contains(&by_b), "{by_b}");
        assert!((1..=3).contains(&by_a), "{by_a}");
    }

    #[test]
    fn a_partner_that_falls_silent_is_given_up() {
        let (mut a, mut b, mut now) = pair(ACTIVITY | TIMEOUT, ACTIVITY | TIMEOUT);
        talk(&mut a, &mut b, &mut now, 5 * SECOND, false);
        talk(&mut a, &mut b, &mut now, 2 * SECOND, true);
        assert!(a.is_distributing(), "two lost are no matter");
        talk(&mut a, &mut b, &mut now, 2 * SECOND, true);
        assert!(!a.is_distributing());
        assert_eq!(a.machines().0, Receive::Expired);
        talk(&mut a, &mut b, &mut now, 4 * SECOND, true);
        assert_eq!(a.machines(), (Receive::Defaulted, Mux::Detached));
        talk(&mut a, &mut b, &mut now, 6 * SECOND, false);
        assert!(a.is_distributing() && b.is_distributing());
    }

    #[test]
    fn two_passive_ends_stay_silent_and_one_active_wakes_the_other() {
        let (mut a, mut b, mut now) = pair(0, 0);
        assert_eq!(talk(&mut a, &mut b, &mut now, 60 * SECOND, false), (0, 0));
        let (mut a, mut b, mut now) = pair(0, ACTIVITY);
        talk(&mut a, &mut b, &mut now, 6 * SECOND, false);
        assert!(a.is_distributing() && b.is_distributing());
    }

    #[test]
    fn a_link_that_goes_ends_it_at_once_and_says_nothing_more() {
        let (mut a, mut b, mut now) = pair(ACTIVITY | TIMEOUT, ACTIVITY | TIMEOUT);
        talk(&mut a, &mut b, &mut now, 5 * SECOND, false);
        a.set_enabled(now, false);
        assert_eq!(a.run(now), None);
        assert!(!a.is_distributing());
        a.heard(now, &Lacp::default());
        assert_eq!(a.machines(), (Receive::Disabled, Mux::Detached));
    }

    #[test]
    fn news_are_told_at_most_three_times_a_second() {
        let (mut a, _, now) = pair(ACTIVITY | TIMEOUT, 0);
        let mut sent = 0;
        for k in 0..100u64 {
            let mut pdu = Lacp::default();
            pdu.actor.port = k as u16;
            a.heard(now + k, &pdu);
            sent += u32::from(a.run(now + k).is_some());
        }
        assert_eq!(sent, BURST);
    }
}
