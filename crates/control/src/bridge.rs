//! Bridge domains as control keeps them: settings, ports, configured stations, and what became of learned ones.
//!
//! Pure bookkeeping, but for the table of stations, of which this holds the only writer.

use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv4Addr, Ipv6Addr};

use parshall_fib::{MAC_DOMAINS, MacEntry, MacKey, MacRecord, MacWriter};
use parshall_nodes::{BridgePort, PortRole, bridge_flags};
use serde::Serialize;

use crate::error::{Error, Result};

/// Largest number of a bridge domain that a user can give.
pub const BRIDGE_ID_MAX: u32 = 0xFF_FFFF;
/// Longest tag of a bridge domain in bytes.
pub const BRIDGE_TAG_MAX: usize = 63;
/// News of stations that are kept for those who ask.
const NEWS: usize = 65_536;

/// What a bridge domain does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BridgeConfig {
    /// Sources are learned.
    pub learn: bool,
    /// Unicast frames are forwarded.
    pub forward: bool,
    /// Frames to groups are flooded.
    pub flood: bool,
    /// Frames to unknown stations are flooded.
    pub uu_flood: bool,
    /// ARP requests and neighbour solicitations for known addresses are answered.
    pub arp_term: bool,
    /// ARP requests for known addresses are sent to their owner only.
    pub arp_ufwd: bool,
    /// Minutes after which a station that is not seen is forgotten; 0 = never.
    pub mac_age: u8,
    /// Stations that are learned at most; `None` = as many as there is room for.
    pub learn_limit: Option<u32>,
    /// What its user calls it.
    pub tag: String,
}

impl Default for BridgeConfig {
    fn default() -> Self {
        BridgeConfig {
            learn: true,
            forward: true,
            flood: true,
            uu_flood: true,
            arp_term: false,
            arp_ufwd: false,
            mac_age: 0,
            learn_limit: None,
            tag: String::new(),
        }
    }
}

impl BridgeConfig {
    /// The switches as workers know them.
    pub fn flags(&self) -> u8 {
        use bridge_flags::*;
        let flag = |on: bool, bit: u8| if on { bit } else { 0 };
        flag(self.learn, LEARN)
            | flag(self.forward, FORWARD)
            | flag(self.flood, FLOOD)
            | flag(self.uu_flood, UU_FLOOD)
            | flag(self.arp_term, ARP_TERM)
            | flag(self.arp_ufwd, ARP_UFWD)
    }
}

/// An interface's place in a bridge domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortConfig {
    /// The domain.
    pub bd_id: u32,
    /// Split-horizon group, 0 = none.
    pub shg: u8,
    /// What it is to the domain.
    pub role: PortRole,
}

/// A bridge domain.
#[derive(Clone, Debug)]
pub struct Domain {
    /// Number that workers know it by.
    pub index: u16,
    /// What it does.
    pub config: BridgeConfig,
    /// Owners of IPv4 addresses.
    pub arp: BTreeMap<Ipv4Addr, [u8; 6]>,
    /// Owners of IPv6 addresses.
    pub nd: BTreeMap<Ipv6Addr, [u8; 6]>,
    /// Ports in the order they joined.
    pub ports: Vec<u32>,
    /// The station that its routed interface is, as it is in the table.
    pub(crate) bvi: Option<(MacKey, u32)>,
}

/// A station that was configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum StationKind {
    /// It does not move and does not age.
    Static,
    /// Frames to and from it are dropped.
    Filter,
    /// It is the router itself.
    Bvi,
}

/// A station that was configured, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Station {
    /// Its interface; filters have none.
    pub if_index: Option<u32>,
    /// What it is.
    pub kind: StationKind,
}

impl Station {
    fn entry(self) -> MacEntry {
        let flags = match self.kind {
            StationKind::Static => MacEntry::STATIC,
            StationKind::Filter => MacEntry::STATIC | MacEntry::FILTER,
            StationKind::Bvi => MacEntry::STATIC | MacEntry::BVI,
        };
        // Seen for good: workers need not say so.
        MacEntry::new(
            self.if_index.unwrap_or(MacEntry::NOWHERE),
            flags | MacEntry::SEEN,
        )
    }
}

/// What became of a station.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MacAction {
    /// It was learned.
    Add,
    /// It was forgotten: aged, flushed, or its port left.
    Delete,
    /// It is on another interface now.
    Move,
}

/// News of a learned station.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MacNews {
    /// Address.
    pub mac: [u8; 6],
    /// The domain's number, as users know it.
    pub bd_id: u32,
    /// Interface it is, or was, on.
    pub if_index: u32,
    /// What became of it.
    pub action: MacAction,
}

/// What learning has come to since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MacCounts {
    /// Stations learned.
    pub learned: u64,
    /// Moves from one interface to another.
    pub moved: u64,
    /// Stations forgotten because they were not seen.
    pub aged: u64,
    /// Stations not learned because the table was full.
    pub refused: u64,
    /// Stations not learned because their domain has as many as it may.
    pub limited: u64,
}

/// All bridge domains.
pub struct Bridges {
    pub(crate) domains: BTreeMap<u32, Domain>,
    /// By interface.
    pub(crate) ports: BTreeMap<u32, PortConfig>,
    /// By domain and address.
    pub(crate) stations: BTreeMap<(u32, [u8; 6]), Station>,
    pub(crate) macs: MacWriter,
    /// User's number of each domain that workers know.
    ids: BTreeMap<u16, u32>,
    /// By domain number, stations that were learned.
    learned: BTreeMap<u32, u32>,
    pub(crate) counts: MacCounts,
    news: VecDeque<MacNews>,
    /// News that are not kept any more.
    forgotten: u64,
    /// When lines of the table were last swept, ns.
    swept: u64,
    /// Stations that a domain made by the API learns at most, unless it is told otherwise.
    pub(crate) default_learn_limit: Option<u32>,
}

impl Bridges {
    /// None, over an empty table.
    pub fn new(macs: MacWriter) -> Bridges {
        Bridges {
            domains: BTreeMap::new(),
            ports: BTreeMap::new(),
            stations: BTreeMap::new(),
            macs,
            ids: BTreeMap::new(),
            learned: BTreeMap::new(),
            counts: MacCounts::default(),
            news: VecDeque::new(),
            forgotten: 0,
            swept: 0,
            default_learn_limit: None,
        }
    }

    /// A domain.
    ///
    /// # Errors
    /// When there is none of this number.
    pub fn get(&self, id: u32) -> Result<&Domain> {
        self.domains.get(&id).ok_or_else(|| no_domain(id))
    }
    pub(crate) fn get_mut(&mut self, id: u32) -> Result<&mut Domain> {
        self.domains.get_mut(&id).ok_or_else(|| no_domain(id))
    }

    /// Makes a domain.
    ///
    /// # Errors
    /// When there is one of this number, there are too many, or the number or the tag is out of range.
    pub fn add(&mut self, id: u32, config: BridgeConfig) -> Result<()> {
        if id == 0 || id > BRIDGE_ID_MAX {
            return Err(Error::refused(format!(
                "a bridge domain has a number of 1 to {BRIDGE_ID_MAX}, not {id}"
            )));
        }
        check_tag(&config.tag)?;
        if self.domains.contains_key(&id) {
            return Err(Error::exists(format!("bridge domain {id} exists already")));
        }
        let index = (1..MAC_DOMAINS as u16).find(|i| !self.ids.contains_key(i));
        let index = index.ok_or_else(|| {
            let most = MAC_DOMAINS - 1;
            Error::Full(format!(
                "there are {most} bridge domains, which is the limit"
            ))
        })?;
        self.ids.insert(index, id);
        self.domains.insert(
            id,
            Domain {
                index,
                config,
                arp: BTreeMap::new(),
                nd: BTreeMap::new(),
                ports: Vec::new(),
                bvi: None,
            },
        );
        Ok(())
    }

    /// Takes a domain away.
    pub fn remove(&mut self, id: u32) -> Option<Domain> {
        let domain = self.domains.remove(&id)?;
        self.ids.remove(&domain.index);
        self.learned.remove(&id);
        Some(domain)
    }

    /// What an interface is to workers.
    pub fn port_view(&self, if_index: u32) -> BridgePort {
        let Some(p) = self.ports.get(&if_index) else {
            return BridgePort::default();
        };
        let Some(d) = self.domains.get(&p.bd_id) else {
            return BridgePort::default();
        };
        BridgePort {
            domain: d.index,
            flags: d.config.flags(),
            shg: p.shg,
            role: p.role,
        }
    }

    /// Stations that a domain has learned.
    pub fn learned(&self, id: u32) -> u32 {
        self.learned.get(&id).copied().unwrap_or(0)
    }

    /// A worker saw a station. `now` in seconds.
    pub fn seen(&mut self, (domain, if_index): (u16, u32), mac: [u8; 6], now: u32) {
        let view = self.port_view(if_index);
        // Said of a port that was one of this domain then.
        let learns = view.domain == domain && view.role == PortRole::Normal;
        if !learns || !view.has(bridge_flags::LEARN) {
            return;
        }
        let key = MacKey::new(domain, mac);
        let was = self.macs.get(key).map(|r| r.entry);
        if was.is_some_and(|e| !e.is_learned() || e.if_index() == if_index) {
            return;
        }
        if was.is_none() && self.is_at_limit(domain) {
            self.counts.limited += 1;
            return;
        }
        let entry = MacEntry::new(if_index, MacEntry::SEEN);
        if self.macs.set(key, entry, now).is_err() {
            self.counts.refused += 1;
            return;
        }
        let Some(&bd_id) = self.ids.get(&domain) else {
            return;
        };
        let action = if was.is_some() {
            self.counts.moved += 1;
            MacAction::Move
        } else {
            self.counts.learned += 1;
            *self.learned.entry(bd_id).or_default() += 1;
            MacAction::Add
        };
        self.tell(MacNews {
            mac,
            bd_id,
            if_index,
            action,
        });
    }

    /// Whether a domain has learned as many stations as it may. Configured ones do not count.
    fn is_at_limit(&self, domain: u16) -> bool {
        let Some(id) = self.ids.get(&domain) else {
            return false;
        };
        let limit = self.domains.get(id).and_then(|d| d.config.learn_limit);
        limit.is_some_and(|limit| self.learned(*id) >= limit)
    }

    fn tell(&mut self, news: MacNews) {
        if self.news.len() == NEWS {
            self.news.pop_front();
            self.forgotten += 1;
        }
        self.news.push_back(news);
    }

    /// News from number `from` on, the number after the last, and how many between were not kept.
    pub fn news(&self, from: u64) -> (Vec<MacNews>, u64, u64) {
        let end = self.forgotten + self.news.len() as u64;
        let lost = self.forgotten.saturating_sub(from);
        let skip = from
            .saturating_sub(self.forgotten)
            .min(self.news.len() as u64);
        let kept = self.news.iter().skip(skip as usize).copied().collect();
        (kept, end, lost)
    }

    /// A learned station is no more.
    fn gone(&mut self, record: &MacRecord) {
        let Some(&bd_id) = self.ids.get(&record.key.domain()) else {
            return;
        };
        if let Some(n) = self.learned.get_mut(&bd_id) {
            *n = n.saturating_sub(1);
        }
        self.tell(MacNews {
            mac: record.key.mac(),
            bd_id,
            if_index: record.entry.if_index(),
            action: MacAction::Delete,
        });
    }

    /// Forgets the learned stations that `which` says yes to.
    pub fn flush(&mut self, which: impl Fn(&MacRecord) -> bool) -> usize {
        if self.macs.is_empty() {
            return 0;
        }
        let mut gone = Vec::new();
        self.macs
            .retain(|r| !(r.entry.is_learned() && which(r)), |r| gone.push(r));
        gone.iter().for_each(|r| self.gone(r));
        gone.len()
    }

    /// Notes which stations are in use and forgets those that have not been for too long: a part of the table each
    /// time, all of it in a second. `now` in ns.
    pub fn age(&mut self, now: u64) {
        const ROUND: u64 = 1_000_000_000;
        let passed = now.saturating_sub(self.swept).min(ROUND);
        let lines = (self.macs.lines() as u64 * passed / ROUND) as usize;
        if lines == 0 {
            return;
        }
        self.swept = now;
        if self.macs.is_empty() {
            return;
        }
        let (ids, domains) = (&self.ids, &self.domains);
        let age = |index: u16| {
            let domain = domains.get(ids.get(&index)?)?;
            let minutes = u32::from(domain.config.mac_age);
            (minutes != 0).then_some(minutes * 60)
        };
        let mut gone = Vec::new();
        self.macs.sweep(lines, seconds(now), age, |r| gone.push(r));
        self.counts.aged += gone.len() as u64;
        gone.iter().for_each(|r| self.gone(r));
    }

    /// Writes what is configured of a station into the table: nothing, or that it is there.
    ///
    /// # Errors
    /// When the table is full.
    pub(crate) fn write(&mut self, key: MacKey, station: Option<Station>, now: u32) -> Result<()> {
        let was = self.macs.get(key);
        match station {
            Some(s) => {
                let full = |e: parshall_fib::MacFull| Error::Full(e.to_string());
                self.macs.set(key, s.entry(), now).map_err(full)?;
            }
            None => {
                self.macs.remove(key);
            }
        }
        if let Some(r) = was.filter(|r| r.entry.is_learned()) {
            self.gone(&r);
        }
        Ok(())
    }

    /// User's number of a domain.
    pub(crate) fn id_of(&self, index: u16) -> Option<u32> {
        self.ids.get(&index).copied()
    }
}

/// A time in the seconds that stations are aged by.
pub fn seconds(ns: u64) -> u32 {
    (ns / 1_000_000_000) as u32
}

pub(crate) fn check_tag(tag: &str) -> Result<()> {
    if tag.len() > BRIDGE_TAG_MAX {
        return Err(Error::refused(format!(
            "a bridge domain's tag has at most {BRIDGE_TAG_MAX} bytes"
        )));
    }
    Ok(())
}

fn no_domain(id: u32) -> Error {
    Error::missing(format!(
        "no bridge domain {id}: make it with `create bridge-domain {id}`"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use parshall_fib::MacTable;
    use std::sync::Arc;

    const SECOND: u64 = 1_000_000_000;

    fn bridges() -> Bridges {
        let mut b = Bridges::new(MacWriter::new(Arc::new(MacTable::new(1, 1))));
        let config = BridgeConfig {
            mac_age: 1,
            ..BridgeConfig::default()
        };
        b.add(77, config).unwrap();
        for n in [1, 2] {
            let port = PortConfig {
                bd_id: 77,
                shg: 0,
                role: PortRole::Normal,
            };
            b.ports.insert(n, port);
        }
        b
    }

    fn station(n: u8) -> [u8; 6] {
        [2, 0, 0, 0, 0, n]
    }

    #[test]
    fn stations_come_move_and_go_and_that_is_told() {
        let mut b = bridges();
        b.seen((1, 1), station(1), 0);
        b.seen((1, 1), station(1), 0);
        b.seen((1, 2), station(1), 0);
        b.seen((9, 1), station(2), 0);
        b.seen((1, 9), station(2), 0);
        assert_eq!((b.learned(77), b.macs.len()), (1, 1));
        for s in 1..=61 {
            b.age(s * SECOND);
        }
        // The first round took the mark away, which counts as seen.
        assert_eq!(b.learned(77), 0);
        let (news, next, lost) = b.news(0);
        let told: Vec<_> = news.iter().map(|n| (n.action, n.if_index)).collect();
        use MacAction::*;
        assert_eq!(told, [(Add, 1), (Move, 2), (Delete, 2)]);
        assert_eq!((next, lost, b.news(3).0.len()), (3, 0, 0));
        let counts = MacCounts {
            learned: 1,
            moved: 1,
            aged: 1,
            ..MacCounts::default()
        };
        assert_eq!(b.counts, counts);
    }

    #[test]
    fn a_domain_learns_as_many_as_it_may() {
        let mut b = bridges();
        b.get_mut(77).unwrap().config.learn_limit = Some(2);
        let fixed = Station {
            if_index: Some(1),
            kind: StationKind::Static,
        };
        b.write(MacKey::new(1, station(9)), Some(fixed), 0).unwrap();
        for n in 1..=3 {
            b.seen((1, 1), station(n), 0);
        }
        assert_eq!((b.learned(77), b.counts.limited), (2, 1));
        // One that is known moves all the same, and one that went makes room.
        b.seen((1, 2), station(1), 0);
        assert_eq!((b.counts.moved, b.counts.limited), (1, 1));
        b.write(MacKey::new(1, station(2)), None, 0).unwrap();
        b.seen((1, 1), station(3), 0);
        assert_eq!((b.learned(77), b.counts.limited), (2, 1));
    }

    #[test]
    fn what_is_configured_is_not_learned_over() {
        let mut b = bridges();
        b.seen((1, 1), station(1), 0);
        let fixed = Station {
            if_index: Some(1),
            kind: StationKind::Static,
        };
        b.write(MacKey::new(1, station(1)), Some(fixed), 0).unwrap();
        b.seen((1, 2), station(1), 0);
        assert_eq!(b.learned(77), 0);
        assert_eq!(b.flush(|_| true), 0);
        assert_eq!(b.macs.len(), 1);
        b.write(MacKey::new(1, station(1)), None, 0).unwrap();
        assert!(b.macs.is_empty());
    }

    #[test]
    fn news_that_nobody_asked_for_are_not_kept_for_ever() {
        let mut b = bridges();
        for n in 0..NEWS as u32 + 10 {
            let [_, _, x, y] = n.to_be_bytes();
            b.seen((1, 1), [2, 0, 0, x, y, (n >> 16) as u8], 0);
            if b.macs.len() > 1000 {
                b.flush(|_| true);
            }
        }
        let (news, next, lost) = b.news(5);
        assert_eq!(news.len(), NEWS);
        assert_eq!(lost + 5, next - NEWS as u64);
    }
}
