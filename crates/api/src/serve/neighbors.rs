//! Neighbours that are found, change their link-layer address or go, told to clients that watch them: all, those of an interface, one.
//!
//! Found by comparing, as interfaces are; what is compared with is looked at when the first client asks, so that nothing is missed that
//! comes after the answer.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Instant;

use parshall_control::{Family, NeighborState, Router};
use parshall_vpp_wire::msg::{
    IpNeighbor, IpNeighborEvent, IpNeighborEventFlags, IpNeighborEventV2, IpNeighborFlags,
};

use super::Shared;
use super::events::{Event, Mailbox, WAITING};
use crate::handlers::NONE;
use crate::retval;

/// Neighbours that a client can watch one by one.
const MOST: usize = 1024;
/// Of the router's time so much is spent on looking: one part in so many.
const SHARE: u32 = 20;

/// What a client wants to know of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Watched {
    /// The newer message, which also tells of those that go.
    pub v2: bool,
    /// Process number that the client gave.
    pub pid: u32,
    /// This one; `None` = any.
    pub ip: Option<IpAddr>,
    /// Those of this interface; `NONE` = any.
    pub if_index: u32,
}

impl Watched {
    fn is_same(&self, other: &Watched) -> bool {
        (self.v2, self.ip, self.if_index) == (other.v2, other.ip, other.if_index)
    }

    fn wants(&self, (if_index, ip): &Key) -> bool {
        self.ip.is_none_or(|w| w == *ip) && (self.if_index == NONE || self.if_index == *if_index)
    }
}

/// Interface and address.
type Key = (u32, IpAddr);
/// Link-layer address, and whether it was configured.
type Known = ([u8; 6], bool);
/// All neighbours that are known.
type Seen = BTreeMap<Key, Known>;

/// What was seen last, while somebody wants to know.
#[derive(Default)]
pub(super) struct Neighbors {
    seen: Option<Seen>,
    due: Option<Instant>,
}

fn look(r: &Router) -> Seen {
    let all = [Family::Ip4, Family::Ip6]
        .into_iter()
        .flat_map(|f| r.neighbors(f));
    let known = |n: &parshall_control::Neighbor| Some((n.mac?, n.state == NeighborState::Static));
    all.filter_map(|(key, n)| Some(((key.if_index, key.ip), known(n)?)))
        .collect()
}

/// A client begins to watch something, or ends it. VPP's number for why not.
pub(super) fn want(shared: &Shared, mailbox: &Mailbox, on: bool, wanted: Watched) -> i32 {
    let mut watched = mailbox.neighbors();
    let there = watched.iter().position(|w| w.is_same(&wanted));
    match (on, there) {
        (true, Some(at)) => watched[at] = wanted,
        (true, None) if watched.len() == MOST => return retval::LIMIT,
        (true, None) => watched.push(wanted),
        (false, Some(at)) => drop(watched.swap_remove(at)),
        (false, None) => return retval::NO_ENTRY,
    }
    drop(watched);
    let mut state = shared.neighbors();
    if on && state.seen.is_none() {
        state.seen = shared.asker.ask(|r| look(r));
    }
    0
}

/// Looks once. `None` when the router has ended.
pub(super) fn turn(shared: &Shared) -> Option<()> {
    let anybody = shared
        .mailboxes()
        .values()
        .any(|m| !m.neighbors().is_empty());
    let mut state = shared.neighbors();
    if !anybody {
        *state = Neighbors::default();
        return Some(());
    }
    let start = Instant::now();
    if state.due.is_some_and(|due| start < due) {
        return Some(());
    }
    let now = shared.asker.ask(|r| look(r))?;
    // With a million of them looking takes long.
    state.due = Some(start + start.elapsed() * SHARE);
    if let Some(was) = state.seen.replace(now) {
        let changes = changes(&was, state.seen.as_ref().unwrap_or(&was));
        for mailbox in shared.mailboxes().values() {
            let events = told(&mailbox.neighbors(), &changes);
            if !events.is_empty() {
                mailbox.put(events);
            }
        }
    }
    Some(())
}

/// A neighbour, and whether it is there now.
type Change = (Key, Known, bool);

fn changes(was: &Seen, now: &Seen) -> Vec<Change> {
    let gone = was.iter().filter(|(key, _)| !now.contains_key(key));
    let gone = gone.map(|(key, known)| (*key, *known, false));
    let new = now
        .iter()
        .filter(|(key, known)| was.get(key) != Some(known));
    gone.chain(new.map(|(key, known)| (*key, *known, true)))
        .collect()
}

/// What is told to a client that watches these.
fn told(watched: &[Watched], changes: &[Change]) -> Vec<Event> {
    let each = changes
        .iter()
        .flat_map(|c| watched.iter().map(move |w| (w, c)));
    each.filter(|(w, (key, _, is_there))| w.wants(key) && (w.v2 || *is_there))
        .map(|(w, change)| event(w, change))
        // A mailbox that gets more than fits is given up.
        .take(WAITING + 1)
        .collect()
}

fn event(w: &Watched, ((if_index, ip), (mac, fixed), is_there): &Change) -> Event {
    let neighbor = IpNeighbor {
        sw_if_index: *if_index,
        flags: match fixed {
            true => IpNeighborFlags::IP_API_NEIGHBOR_FLAG_STATIC,
            false => IpNeighborFlags::IP_API_NEIGHBOR_FLAG_NONE,
        },
        mac_address: *mac,
        ip_address: (*ip).into(),
    };
    if !w.v2 {
        return Event::Neighbor(IpNeighborEvent {
            client_index: 0,
            pid: w.pid,
            neighbor,
        });
    }
    Event::NeighborV2(IpNeighborEventV2 {
        client_index: 0,
        pid: w.pid,
        flags: match is_there {
            true => IpNeighborEventFlags::IP_NEIGHBOR_API_EVENT_FLAG_ADDED,
            false => IpNeighborEventFlags::IP_NEIGHBOR_API_EVENT_FLAG_REMOVED,
        },
        neighbor,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_watch_is_told_what_it_watches() {
        let ip = |n: u8| IpAddr::from([10, 0, 0, n]);
        let seen = |list: &[(u32, u8, u8)]| -> Seen {
            list.iter()
                .map(|(i, n, mac)| ((*i, ip(*n)), ([2, 0, 0, 0, 0, *mac], false)))
                .collect()
        };
        let was = seen(&[(1, 1, 1), (1, 2, 2), (2, 3, 3)]);
        // One moved, one went, one came.
        let now = seen(&[(1, 1, 9), (2, 3, 3), (2, 4, 4)]);
        let changes = changes(&was, &now);
        let count = |v2, one: Option<u8>, if_index| {
            let w = Watched {
                v2,
                pid: 7,
                ip: one.map(ip),
                if_index,
            };
            told(&[w], &changes).len()
        };
        assert_eq!((count(true, None, NONE), count(false, None, NONE)), (3, 2));
        assert_eq!((count(true, None, 1), count(false, None, 2)), (2, 1));
        assert_eq!((count(true, Some(4), 2), count(true, Some(4), 1)), (1, 0));
        assert_eq!(count(true, Some(3), NONE), 0);
    }
}
