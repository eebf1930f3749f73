//! Neighbours: which link-layer address an on-link IP address has, as a state machine without a clock.
//!
//! ARP follows RFC 826 and RFC 1122 section 2.3.2, neighbour discovery RFC 4861 section 7.3; both share
//! the states of the latter. What differs: the router's workers do not report which adjacency they use,
//! so there is no DELAY state; instead every dynamic entry is probed by unicast once its age is reached,
//! used or not, and goes away when it does not answer.
//!
//! Everything comes in as a call with the time, everything goes out as an [`Action`].

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use serde::Serialize;

/// A nanosecond clock's second.
const SECOND: u64 = 1_000_000_000;

/// A neighbour's name: an address on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NeighborKey {
    /// Interface to the link.
    pub if_index: u32,
    /// Address there.
    pub ip: IpAddr,
}

/// What is known of a neighbour (RFC 4861 section 7.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum NeighborState {
    /// Asked for, no answer yet.
    Incomplete,
    /// Confirmed lately.
    Reachable,
    /// Known, not confirmed lately.
    Stale,
    /// Being asked whether it is still there.
    Probe,
    /// Did not answer; not asked again for a moment.
    Failed,
    /// Set by hand, for ever.
    Static,
}

impl NeighborState {
    /// The letters of VPP's `show ip neighbor`: static, dynamic, pending, stale.
    pub fn flags(self) -> &'static str {
        match self {
            NeighborState::Static => "S",
            NeighborState::Reachable | NeighborState::Probe => "D",
            NeighborState::Stale => "DA",
            NeighborState::Incomplete => "DP",
            NeighborState::Failed => "DF",
        }
    }
}

/// A neighbour as it is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbor {
    /// State.
    pub state: NeighborState,
    /// Link-layer address, once known.
    pub mac: Option<[u8; 6]>,
    /// When it was last confirmed or changed state, by the caller's clock.
    pub updated: u64,
    tries: u32,
    deadline: u64,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Ask for the neighbour: by broadcast or to its solicited-node group, or by unicast to `to`.
    Solicit {
        /// Which.
        key: NeighborKey,
        /// Link-layer address last known, for a unicast probe.
        to: Option<[u8; 6]>,
    },
    /// The neighbour has this address from now on.
    Publish {
        /// Which.
        key: NeighborKey,
        /// Its address.
        mac: [u8; 6],
    },
    /// Its address is not known any more.
    Withdraw {
        /// Which.
        key: NeighborKey,
    },
    /// Packets that wait for it may go.
    Resolved {
        /// Which.
        key: NeighborKey,
    },
    /// Packets that wait for it will not get there.
    Failed {
        /// Which.
        key: NeighborKey,
    },
}

/// Settings of a neighbour table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct NeighborConfig {
    /// Entries an interface may have.
    pub limit: u32,
    /// Seconds after the last confirmation at which an entry is probed; 0 = never.
    pub age: u32,
    /// Seconds after a confirmation during which it counts as reachable.
    pub reachable: u32,
    /// Solicitations without an answer before giving up.
    pub tries: u32,
    /// Solicitations an interface may send in a second.
    pub rate: u32,
}

impl Default for NeighborConfig {
    fn default() -> Self {
        NeighborConfig {
            limit: 8192,
            age: 60,
            reachable: 30,
            tries: 3,
            rate: 1000,
        }
    }
}

/// Solicitations that may still be sent on an interface.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// Tokens times a second in ns.
    level: u64,
    at: u64,
}

/// All neighbours of one family.
#[derive(Debug)]
pub struct NeighborTable {
    config: NeighborConfig,
    entries: HashMap<NeighborKey, Neighbor>,
    /// One deadline an entry; those without have none here.
    timers: BTreeSet<(u64, NeighborKey)>,
    counts: HashMap<u32, u32>,
    buckets: HashMap<u32, Bucket>,
    random: u64,
}

impl NeighborTable {
    /// An empty table; `seed` fixes its random choices.
    pub fn new(config: NeighborConfig, seed: u64) -> NeighborTable {
        NeighborTable {
            config,
            entries: HashMap::new(),
            timers: BTreeSet::new(),
            counts: HashMap::new(),
            buckets: HashMap::new(),
            random: seed,
        }
    }

    /// The settings.
    pub fn config(&self) -> NeighborConfig {
        self.config
    }
    /// Changes the settings; entries take them up at their next change of state.
    pub fn set_config(&mut self, config: NeighborConfig) {
        self.config = config;
    }
    /// One entry.
    pub fn get(&self, key: &NeighborKey) -> Option<&Neighbor> {
        self.entries.get(key)
    }
    /// All entries, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&NeighborKey, &Neighbor)> {
        self.entries.iter()
    }
    /// How many there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
    /// When [`poll`](Self::poll) has something to do next.
    pub fn next_deadline(&self) -> Option<u64> {
        self.timers.first().map(|t| t.0)
    }

    /// Packets wait for this neighbour.
    pub fn wanted(&mut self, key: NeighborKey, now: u64, out: &mut Vec<Action>) {
        match self.entries.get(&key).map(|e| e.state) {
            None => {
                if !self.make_room(key.if_index, out) {
                    out.push(Action::Failed { key });
                    return;
                }
                self.start(key, now, out);
            }
            Some(NeighborState::Failed) => {
                let updated = self.entries.get(&key).map_or(0, |e| e.updated);
                if now.saturating_sub(updated) < SECOND {
                    out.push(Action::Failed { key });
                } else {
                    self.start(key, now, out);
                }
            }
            Some(NeighborState::Incomplete) => {}
            // The worker asked before it saw the answer.
            Some(_) => out.push(Action::Resolved { key }),
        }
    }

    /// A packet said that `key` has `mac`. `confirms` = it answered a question of ours. `create` = it was
    /// meant for us, so that it may make an entry (RFC 826: "am I the target protocol address?").
    pub fn seen(
        &mut self,
        key: NeighborKey,
        mac: [u8; 6],
        confirms: bool,
        create: bool,
        now: u64,
        out: &mut Vec<Action>,
    ) {
        // A group or zero address is nobody's.
        if mac[0] & 1 != 0 || mac == [0; 6] {
            return;
        }
        let Some(old) = self.entries.get(&key).copied() else {
            if create && self.make_room(key.if_index, out) {
                self.learn(key, mac, false, now);
                out.push(Action::Publish { key, mac });
                out.push(Action::Resolved { key });
            }
            return;
        };
        if old.state == NeighborState::Static {
            return;
        }
        let changed = old.mac != Some(mac);
        let waited = matches!(old.state, NeighborState::Incomplete | NeighborState::Failed);
        // RFC 4861 section 7.2.3: what merely repeats the known address leaves the state alone.
        if !changed && !confirms {
            return;
        }
        self.learn(key, mac, confirms, now);
        if changed {
            out.push(Action::Publish { key, mac });
        }
        if waited {
            out.push(Action::Resolved { key });
        }
    }

    /// Sets a neighbour by hand.
    pub fn set_static(
        &mut self,
        key: NeighborKey,
        mac: [u8; 6],
        now: u64,
        out: &mut Vec<Action>,
    ) -> bool {
        let old = self.entries.get(&key).copied();
        if old.is_none() && !self.make_room(key.if_index, out) {
            return false;
        }
        self.put(key, NeighborState::Static, Some(mac), now, u64::MAX);
        if old.and_then(|o| o.mac) != Some(mac) {
            out.push(Action::Publish { key, mac });
        }
        if old.is_none_or(|o| o.mac.is_none()) {
            out.push(Action::Resolved { key });
        }
        true
    }

    /// Puts a dynamic entry in, as if it had just been confirmed; false when there is no room.
    pub fn set_dynamic(
        &mut self,
        key: NeighborKey,
        mac: [u8; 6],
        now: u64,
        out: &mut Vec<Action>,
    ) -> bool {
        let old = self.entries.get(&key).and_then(|e| e.mac);
        if !self.entries.contains_key(&key) && !self.make_room(key.if_index, out) {
            return false;
        }
        self.learn(key, mac, true, now);
        if old != Some(mac) {
            out.push(Action::Publish { key, mac });
        }
        if old.is_none() {
            out.push(Action::Resolved { key });
        }
        true
    }

    /// Takes an entry out; false when there was none.
    pub fn remove(&mut self, key: &NeighborKey, out: &mut Vec<Action>) -> bool {
        let Some(old) = self.forget(key) else {
            return false;
        };
        if old.mac.is_some() {
            out.push(Action::Withdraw { key: *key });
        }
        if old.state == NeighborState::Incomplete {
            out.push(Action::Failed { key: *key });
        }
        true
    }

    /// Takes out entries that `which` says, static ones included.
    pub fn remove_where(
        &mut self,
        which: impl Fn(&NeighborKey, &Neighbor) -> bool,
        out: &mut Vec<Action>,
    ) {
        let mut keys: Vec<NeighborKey> = self
            .entries
            .iter()
            .filter(|(k, e)| which(k, e))
            .map(|(k, _)| *k)
            .collect();
        keys.sort_unstable();
        for key in keys {
            self.remove(&key, out);
        }
    }

    /// Does what is due.
    pub fn poll(&mut self, now: u64, out: &mut Vec<Action>) {
        while let Some(&(at, key)) = self.timers.first() {
            if at > now {
                break;
            }
            self.timers.pop_first();
            let Some(entry) = self.entries.get_mut(&key) else {
                continue;
            };
            entry.deadline = u64::MAX;
            self.expire(key, now, out);
        }
    }

    /// The deadline of an entry has passed.
    fn expire(&mut self, key: NeighborKey, now: u64, out: &mut Vec<Action>) {
        let Some(entry) = self.entries.get(&key).copied() else {
            return;
        };
        match entry.state {
            NeighborState::Incomplete | NeighborState::Probe => {
                if entry.tries >= self.config.tries {
                    self.give_up(key, entry, now, out);
                } else {
                    self.ask(key, now, out);
                }
            }
            NeighborState::Reachable => {
                let at = match self.config.age {
                    0 => u64::MAX,
                    age => {
                        (entry.updated + u64::from(age) * SECOND).max(now) + self.jitter(2 * SECOND)
                    }
                };
                self.put(key, NeighborState::Stale, entry.mac, entry.updated, at);
            }
            NeighborState::Stale => {
                self.put(key, NeighborState::Probe, entry.mac, entry.updated, now);
                self.ask(key, now, out);
            }
            NeighborState::Failed => {
                self.forget(&key);
            }
            NeighborState::Static => {}
        }
    }

    fn start(&mut self, key: NeighborKey, now: u64, out: &mut Vec<Action>) {
        self.put(key, NeighborState::Incomplete, None, now, now);
        self.ask(key, now, out);
    }

    /// Sends a solicitation if the interface's rate allows, and sets the time of the next.
    fn ask(&mut self, key: NeighborKey, now: u64, out: &mut Vec<Action>) {
        let allowed = self.take_token(key.if_index, now);
        let Some(entry) = self.entries.get_mut(&key) else {
            return;
        };
        let wait = if allowed {
            entry.tries += 1;
            out.push(Action::Solicit { key, to: entry.mac });
            SECOND
        } else {
            SECOND / 10
        };
        self.set_deadline(key, now + wait);
    }

    fn give_up(&mut self, key: NeighborKey, entry: Neighbor, now: u64, out: &mut Vec<Action>) {
        if entry.state == NeighborState::Probe {
            self.forget(&key);
            out.push(Action::Withdraw { key });
        } else {
            self.put(key, NeighborState::Failed, None, now, now + 20 * SECOND);
            out.push(Action::Failed { key });
        }
    }

    fn learn(&mut self, key: NeighborKey, mac: [u8; 6], confirmed: bool, now: u64) {
        if confirmed {
            // RFC 4861 section 6.3.2: between half and one and a half of the base, against synchrony.
            let base = u64::from(self.config.reachable) * SECOND;
            let at = now + base / 2 + self.jitter(base.max(1));
            self.put(key, NeighborState::Reachable, Some(mac), now, at);
        } else {
            let at = match self.config.age {
                0 => u64::MAX,
                age => now + u64::from(age) * SECOND + self.jitter(2 * SECOND),
            };
            self.put(key, NeighborState::Stale, Some(mac), now, at);
        }
    }

    fn put(
        &mut self,
        key: NeighborKey,
        state: NeighborState,
        mac: Option<[u8; 6]>,
        updated: u64,
        deadline: u64,
    ) {
        // A probe that goes on counts its tries; every other change of state starts anew.
        let old = self.entries.get(&key).filter(|o| o.state == state);
        let tries = old.map_or(0, |o| o.tries);
        self.forget(&key);
        *self.counts.entry(key.if_index).or_default() += 1;
        self.entries.insert(
            key,
            Neighbor {
                state,
                mac,
                updated,
                tries,
                deadline: u64::MAX,
            },
        );
        self.set_deadline(key, deadline);
    }

    fn set_deadline(&mut self, key: NeighborKey, at: u64) {
        let Some(entry) = self.entries.get_mut(&key) else {
            return;
        };
        if entry.deadline != u64::MAX {
            self.timers.remove(&(entry.deadline, key));
        }
        entry.deadline = at;
        if at != u64::MAX {
            self.timers.insert((at, key));
        }
    }

    fn forget(&mut self, key: &NeighborKey) -> Option<Neighbor> {
        let old = self.entries.remove(key)?;
        self.timers.remove(&(old.deadline, *key));
        if let Some(n) = self.counts.get_mut(&key.if_index) {
            *n -= 1;
            if *n == 0 {
                self.counts.remove(&key.if_index);
                self.buckets.remove(&key.if_index);
            }
        }
        Some(old)
    }

    /// Makes room for one more entry on an interface: the oldest that has no address goes. False = full.
    fn make_room(&mut self, if_index: u32, out: &mut Vec<Action>) -> bool {
        if self.counts.get(&if_index).copied().unwrap_or(0) < self.config.limit {
            return true;
        }
        let victim = self
            .entries
            .iter()
            .filter(|(k, e)| k.if_index == if_index && e.mac.is_none())
            .min_by_key(|(k, e)| (e.updated, **k))
            .map(|(k, _)| *k);
        victim.is_some_and(|key| self.remove(&key, out))
    }

    fn take_token(&mut self, if_index: u32, now: u64) -> bool {
        let full = u64::from(self.config.rate) * SECOND;
        let bucket = self.buckets.entry(if_index).or_insert(Bucket {
            level: full,
            at: now,
        });
        let gained = now
            .saturating_sub(bucket.at)
            .saturating_mul(u64::from(self.config.rate));
        bucket.level = bucket.level.saturating_add(gained).min(full);
        bucket.at = now;
        if bucket.level < SECOND {
            return false;
        }
        bucket.level -= SECOND;
        true
    }

    /// A number below `below`: splitmix64 (Steele, Lea, Flood 2014).
    fn jitter(&mut self, below: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % below.max(1)
    }
}

#[cfg(test)]
mod tests;
