//! One switch-over: what a transaction changes is seen by workers when all of it is done, or not at all.
//!
//! While one is going on, tables that are published whole are not published, what workers are told waits, and so do changes
//! of routes, adjacencies and stations, and devices that go. In the end, in this order:
//!
//! 1. Each worker carries out, between two of its turns, all that it was told, and from then on looks at the new tables of
//!    interfaces, bridge domains, tunnels and access lists.
//! 2. When all have, features are switched, and routes, labels, load balances and adjacencies are written, each whole. What
//!    they led to is given back.
//! 3. Workers give back the queues of interfaces that go, and their devices go.
//!
//! What comes up by itself meanwhile (a neighbour answers, a link goes) does not wait, but for its routes.

use std::collections::BTreeSet;

use parshall_fib::MacKey;

use super::Router;
use super::bridge::Forget;
use crate::adjacency::AdjKey;
use crate::bridge::{Station, seconds};
use crate::drivers::{DeviceKind, DeviceSpec, TapSpec};
use crate::engine::Held;
use crate::error::Result;
use crate::interface::Interface;

/// What is to be shown in the end.
#[derive(Default)]
pub(super) struct Pending {
    /// Interfaces and tunnels changed.
    pub tables: bool,
    /// Bridge domains did.
    pub bridges: bool,
    /// Access lists did.
    pub acls: bool,
    /// What the agent is shown did.
    pub view: bool,
    /// An interface is sampled no more.
    pub samples: bool,
    /// Bare interfaces that go.
    pub leaving: Vec<Interface>,
    /// Configured stations, in order; `None` = it goes.
    pub stations: Vec<(MacKey, Option<Station>)>,
    /// Learned stations to forget.
    pub forget: Vec<Forget>,
    /// Workers have seen a part of the transaction already: what stood in the way of the rest.
    early: bool,
}

/// What waits while something else is done at once.
pub(super) struct Aside(Option<Held>, Option<BTreeSet<AdjKey>>);

impl Router {
    /// As [`atomically`](Self::atomically), and seen by workers as one: all of it or nothing. Within another it is a part of that.
    ///
    /// # Errors
    /// The job's, after everything it did was undone; no worker has seen anything of it then.
    pub fn at_once<T>(&mut self, job: impl FnOnce(&mut Router) -> Result<T>) -> Result<T> {
        if self.pending.is_some() {
            return self.atomically(job);
        }
        self.atomically(|r| {
            r.hold();
            match r.atomically(job) {
                Ok(done) => r.switch_over().map(|()| done),
                Err(e) => {
                    r.let_be();
                    Err(e)
                }
            }
        })
    }

    fn hold(&mut self) {
        self.pending = Some(Pending::default());
        self.engine.hold();
        self.forwarding.hold();
    }

    /// Shows workers what waited.
    fn switch_over(&mut self) -> Result<()> {
        let Some(p) = self.pending.take() else {
            return Ok(());
        };
        self.stage(&p);
        let gone: BTreeSet<u32> = p.leaving.iter().map(|i| i.index).collect();
        let held = self.engine.switch(|index| gone.contains(&index));
        let written = self.write_stations(&p);
        let routed = self.forwarding.write_held();
        let (rest, switched) = match held {
            Ok(rest) => (rest, Ok(())),
            Err(e) => (Held::default(), Err(e)),
        };
        self.engine.tell_rest(rest);
        let left = self.see_off(p.leaving);
        for which in p.forget {
            self.bridges.flush(|r| which.is(r));
        }
        if p.view {
            self.publish_view();
        }
        if p.samples {
            self.take_last_samples()?;
        }
        switched.and(written).and(routed).and(left)
    }

    /// Puts the tables that changed where workers will look.
    fn stage(&mut self, p: &Pending) {
        let interfaces = p
            .tables
            .then(|| (self.interface_table(), self.tunnel_table()));
        let bridges = p.bridges.then(|| self.bridge_table());
        let acls = p.acls.then(|| self.acl_tables());
        let shared = &self.engine.shared;
        let domain = &shared.domain;
        if let Some((interfaces, tunnels)) = interfaces {
            shared.interfaces.stage(domain, interfaces);
            shared.tunnels.stage(domain, tunnels);
        }
        if let Some(bridges) = bridges {
            shared.bridges.stage(domain, bridges);
        }
        if let Some(acls) = acls {
            shared.acls.stage(domain, acls);
        }
    }

    fn write_stations(&mut self, p: &Pending) -> Result<()> {
        let now = seconds(self.now());
        let mut all = p.stations.iter();
        all.try_for_each(|(key, station)| self.bridges.write(*key, *station, now))
    }

    /// Ends a switch-over after everything was undone: workers are told nothing. Routes are written, to objects that came
    /// back as others of the same kind. What workers have seen already they see undone.
    fn let_be(&mut self) {
        let done = if self.pending.as_ref().is_some_and(|p| p.early) {
            self.switch_over()
        } else {
            // With their queues, which no worker has.
            let leaving = self.pending.take().map(|p| p.leaving);
            drop((self.engine.take_held(), leaving));
            self.forwarding.write_held()
        };
        if let Err(e) = done {
            tracing::error!("what was undone is not seen everywhere: {e}");
        }
    }

    /// Whether the number is that of an interface that is to go.
    pub(super) fn is_leaving(&self, index: u32) -> bool {
        let mut leaving = self.pending.iter().flat_map(|p| &p.leaving);
        leaving.any(|i| i.index == index)
    }

    /// Undoes that a bare interface is to go, if it is still there. Says its name then.
    pub(super) fn call_back(&mut self, incarnation: u64) -> Option<String> {
        let leaving = &mut self.pending.as_mut()?.leaving;
        let at = leaving.iter().position(|i| i.incarnation == incarnation)?;
        let interface = leaving.swap_remove(at);
        let (index, name) = (interface.index, interface.name.clone());
        self.interfaces.insert(interface);
        self.link_changed(index);
        Some(name)
    }

    /// Lets those that are to go go at once, with all that was done until now.
    pub(super) fn switch_early(&mut self) -> Result<()> {
        let switched = self.switch_over();
        self.hold();
        if let Some(p) = &mut self.pending {
            p.early = true;
        }
        switched
    }

    /// A number for a new interface. Those that are to go go at once, with all that was done until now, where one of them
    /// stands in its way: where both have the same Linux interface, memif or file, or no number is left.
    pub(super) fn make_way(&mut self, spec: &DeviceSpec, instance: u32) -> Result<u32> {
        let limit = self.engine.graph.limits().interfaces;
        let mut leaving = self.pending.iter().flat_map(|p| &p.leaving);
        let same = |i: &Interface| {
            let old = i.spec.as_ref().map(|s| (&s.kind, i.instance));
            old.is_some_and(|old| clash(old, (&spec.kind, instance)))
        };
        let clashes = leaving.any(same);
        let free = self.interfaces.free_index(limit, |n| self.is_leaving(n));
        if self.pending.is_none() || (free.is_ok() && !clashes) {
            return free;
        }
        self.switch_early()?;
        self.interfaces.free_index(limit, |_| false)
    }

    /// Lets what is done next be seen at once; to be followed by [`step_back`](Self::step_back).
    pub(super) fn step_aside(&mut self) -> Aside {
        Aside(
            self.engine.take_held(),
            self.forwarding.adjacencies.take_held(),
        )
    }

    /// Goes on holding what waited.
    pub(super) fn step_back(&mut self, aside: Aside) {
        self.engine.put_back(aside.0);
        self.forwarding.adjacencies.put_back(aside.1);
    }
}

/// Whether two devices cannot be there at one time.
fn clash(a: (&DeviceKind, u32), b: (&DeviceKind, u32)) -> bool {
    use DeviceKind as K;
    let host = |t: &TapSpec, instance: u32| {
        t.host_if
            .clone()
            .unwrap_or_else(|| format!("tap{instance}"))
    };
    match (a.0, b.0) {
        (K::Tap(x), K::Tap(y)) => host(x, a.1) == host(y, b.1),
        (K::AfXdp(x), K::AfXdp(y)) => x.host_if == y.host_if,
        (K::AfPacket { host_if: x, .. }, K::AfPacket { host_if: y, .. }) => x == y,
        (K::Memif(x), K::Memif(y)) => (&x.socket, x.id) == (&y.socket, y.id),
        (K::Pcap { tx: Some(x), .. }, K::Pcap { tx: Some(y), .. }) => x == y,
        _ => false,
    }
}
