//! Events: interfaces that come up, go down or are deleted, neighbours ([`super::neighbors`]), and stations that bridge domains learn and
//! forget, told to clients that want to know.
//!
//! Interfaces and neighbours are found by comparing what the router has with what it had a moment ago; of stations the router keeps a list
//! of news. A client has a mailbox of bounded size; one that does not empty it loses its connection, never the server its memory.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use parshall_control::{MacAction, MacNews, Router};
use parshall_vpp_wire::msg::{
    IfStatusFlags, IpNeighborEvent, IpNeighborEventV2, L2MacsEvent, MacEntry, MacEventAction,
    SwInterfaceEvent,
};
use parshall_vpp_wire::{Lead, Message};

use super::Shared;
use super::neighbors::Watched;
use crate::handlers::interface::status;

/// Interfaces and stations that a client may not have been told of yet.
pub(super) const WAITING: usize = 65_536;
/// Milliseconds between two looks at stations until a client says otherwise.
pub(super) const SCAN_DELAY: u32 = 100;

/// Something that a client is told unasked.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Event {
    Interface(SwInterfaceEvent),
    Macs(L2MacsEvent),
    Neighbor(IpNeighborEvent),
    NeighborV2(IpNeighborEventV2),
}

impl Event {
    /// The message for a client that knows itself by this index and gave this process number.
    pub fn encode(self, client_index: u32, pid: u32) -> Vec<u8> {
        match self {
            Event::Interface(mut e) => {
                (e.client_index, e.pid) = (client_index, pid);
                e.encode(Lead::default())
            }
            Event::Macs(mut e) => {
                (e.client_index, e.pid) = (client_index, pid);
                e.encode(Lead::default())
            }
            // A client can have asked for neighbours more than once: these know who for.
            Event::Neighbor(mut e) => {
                e.client_index = client_index;
                e.encode(Lead::default())
            }
            Event::NeighborV2(mut e) => {
                e.client_index = client_index;
                e.encode(Lead::default())
            }
        }
    }

    /// How many things it tells of.
    fn len(&self) -> usize {
        match self {
            Event::Interface(_) | Event::Neighbor(_) | Event::NeighborV2(_) => 1,
            Event::Macs(e) => e.mac.len(),
        }
    }
}

#[derive(Debug, Default)]
struct Waiting {
    events: Vec<Event>,
    /// Things that they tell of.
    len: usize,
}

/// Events on their way to one client.
pub(super) struct Mailbox {
    /// Process number that the client gave when it asked for interfaces, and for stations.
    pids: [AtomicU32; 2],
    /// It wants to know of interfaces: not 0.
    interfaces: AtomicUsize,
    /// Most stations in a message, 0 = it does not want to know of them.
    macs: AtomicUsize,
    /// Neighbours it wants to know of.
    neighbors: Mutex<Vec<Watched>>,
    /// `None` when there were too many.
    waiting: Mutex<Option<Waiting>>,
    /// Written to when there is something.
    wake: UnixStream,
    /// What the client's thread polls.
    pub woken: UnixStream,
}

impl Mailbox {
    pub fn new() -> io::Result<Mailbox> {
        let (wake, woken) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        woken.set_nonblocking(true)?;
        Ok(Mailbox {
            pids: Default::default(),
            interfaces: AtomicUsize::new(0),
            macs: AtomicUsize::new(0),
            neighbors: Mutex::default(),
            waiting: Mutex::new(Some(Waiting::default())),
            wake,
            woken,
        })
    }

    /// Interfaces are told of, or not any more.
    pub fn want_interfaces(&self, on: bool, pid: u32) {
        self.pids[0].store(pid, Ordering::Release);
        self.interfaces.store(usize::from(on), Ordering::Release);
    }

    /// Stations are told of, so many in a message at most; 0 = not any more.
    pub fn want_macs(&self, most: usize, pid: u32) {
        self.pids[1].store(pid, Ordering::Release);
        self.macs.store(most, Ordering::Release);
    }

    /// The neighbours it wants to know of.
    pub fn neighbors(&self) -> MutexGuard<'_, Vec<Watched>> {
        self.neighbors
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The process number that the client gave for events of this kind.
    pub fn pid(&self, event: &Event) -> u32 {
        let kind = usize::from(matches!(event, Event::Macs(_)));
        self.pids[kind].load(Ordering::Acquire)
    }

    pub(super) fn put(&self, events: Vec<Event>) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(w) = waiting.as_mut() {
            w.len += events.iter().map(Event::len).sum::<usize>();
            if w.len > WAITING {
                *waiting = None;
            } else {
                w.events.extend(events);
            }
        }
        // A full pipe is as good as one byte in it.
        let _ = (&self.wake).write(&[1]);
    }

    /// Takes what is there; `None` when some were lost.
    pub fn take(&self) -> Option<Vec<Event>> {
        let mut bytes = [0; 64];
        while matches!((&self.woken).read(&mut bytes), Ok(n) if n > 0) {}
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.as_mut().map(|w| std::mem::take(w).events)
    }
}

/// What is told of an interface: which one it is of those that had its number, and its state.
type Seen = BTreeMap<u32, (u64, IfStatusFlags)>;

fn look(r: &Router) -> Seen {
    let one = |i: &parshall_control::Interface| (i.index, (i.incarnation, status(i)));
    r.interfaces().iter().map(one).collect()
}

/// What was seen last; nothing while nobody wants to know.
#[derive(Default)]
pub(super) struct Watch {
    interfaces: Option<Seen>,
    /// Number of the next piece of news of stations, and when it was looked for.
    macs: Option<(u64, Instant)>,
}

impl Watch {
    /// Looks once for what clients want to know. `None` when the router has ended.
    pub fn turn(&mut self, shared: &Shared) -> Option<()> {
        let wanted = |of: fn(&Mailbox) -> &AtomicUsize| {
            let mailboxes = shared.mailboxes();
            mailboxes
                .values()
                .any(|m| of(m).load(Ordering::Acquire) != 0)
        };
        if wanted(|m| &m.interfaces) {
            watch_interfaces(shared, self)?;
        } else {
            self.interfaces = None;
        }
        if wanted(|m| &m.macs) {
            watch_macs(shared, self)?;
        } else {
            self.macs = None;
        }
        Some(())
    }
}

/// `None` when the router has ended.
fn watch_interfaces(shared: &Shared, before: &mut Watch) -> Option<()> {
    let now = shared.asker.ask(|r| look(r))?;
    if let Some(was) = &before.interfaces {
        let events = changes(was, &now);
        let wanting = |m: &Mailbox| m.interfaces.load(Ordering::Acquire) != 0;
        for mailbox in shared.mailboxes().values().filter(|m| wanting(m)) {
            if !events.is_empty() {
                mailbox.put(events.clone());
            }
        }
    }
    before.interfaces = Some(now);
    Some(())
}

/// `None` when the router has ended.
fn watch_macs(shared: &Shared, before: &mut Watch) -> Option<()> {
    let now = Instant::now();
    let delay = Duration::from_millis(shared.scan_delay.load(Ordering::Acquire).into());
    if before.macs.is_some_and(|(_, last)| now - last < delay) {
        return Some(());
    }
    // News from before somebody wanted them are nobody's.
    let from = before.macs.map_or(u64::MAX, |(next, _)| next);
    let (news, next, lost) = shared.asker.ask(move |r| r.mac_news(from))?;
    let first = before.macs.replace((next, now)).is_none();
    if lost != 0 && !first {
        shared.complain(format_args!(
            "{lost} changes of what bridge domains learned were not told: there were too many at a time"
        ));
    }
    if news.is_empty() {
        return Some(());
    }
    for mailbox in shared.mailboxes().values() {
        match mailbox.macs.load(Ordering::Acquire) {
            0 => {}
            most => mailbox.put(told(&news, most)),
        }
    }
    Some(())
}

/// News of stations in messages of at most so many.
fn told(news: &[MacNews], most: usize) -> Vec<Event> {
    let entry = |n: &MacNews| MacEntry {
        sw_if_index: n.if_index,
        mac_addr: n.mac,
        action: match n.action {
            MacAction::Add => MacEventAction::MAC_EVENT_ACTION_API_ADD,
            MacAction::Delete => MacEventAction::MAC_EVENT_ACTION_API_DELETE,
            MacAction::Move => MacEventAction::MAC_EVENT_ACTION_API_MOVE,
        },
        flags: 0,
    };
    let event = |part: &[MacNews]| {
        Event::Macs(L2MacsEvent {
            client_index: 0,
            pid: 0,
            mac: part.iter().map(entry).collect(),
        })
    };
    news.chunks(most.max(1)).map(event).collect()
}

/// What happened to interfaces between two looks.
fn changes(before: &Seen, now: &Seen) -> Vec<Event> {
    let event = |index: u32, flags: IfStatusFlags, deleted: bool| {
        Event::Interface(SwInterfaceEvent {
            client_index: 0,
            pid: 0,
            sw_if_index: index,
            flags,
            deleted,
        })
    };
    let mut out = Vec::new();
    for (&index, &(which, _)) in before {
        if now.get(&index).is_none_or(|n| n.0 != which) {
            out.push(event(index, IfStatusFlags::default(), true));
        }
    }
    for (&index, &(which, flags)) in now {
        let was = before.get(&index).filter(|b| b.0 == which);
        if was.map_or(IfStatusFlags::default(), |b| b.1) != flags {
            out.push(event(index, flags, false));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_deletions_and_successors_are_told_apart() {
        let up = IfStatusFlags(3);
        let seen = |list: &[(u32, u64, u32)]| -> Seen {
            list.iter()
                .map(|(i, w, f)| (*i, (*w, IfStatusFlags(*f))))
                .collect()
        };
        let told = |a: &[(u32, u64, u32)], b: &[(u32, u64, u32)]| -> Vec<(u32, u32, bool)> {
            let events = changes(&seen(a), &seen(b)).into_iter();
            events
                .map(|e| match e {
                    Event::Interface(e) => (e.sw_if_index, e.flags.0, e.deleted),
                    other => panic!("{other:?}"),
                })
                .collect()
        };
        assert_eq!(told(&[(1, 1, 0)], &[(1, 1, 0)]), []);
        assert_eq!(told(&[(1, 1, 0)], &[(1, 1, up.0)]), [(1, 3, false)]);
        assert_eq!(told(&[(1, 1, 3)], &[]), [(1, 0, true)]);
        assert_eq!(told(&[], &[(2, 5, 0)]), []);
        assert_eq!(
            told(&[(1, 1, 3)], &[(1, 2, 3)]),
            [(1, 0, true), (1, 3, false)]
        );
    }

    #[test]
    fn stations_are_told_of_in_messages_that_are_not_too_long() {
        let news = |n: u8| MacNews {
            mac: [2, 0, 0, 0, 0, n],
            bd_id: 1,
            if_index: 3,
            action: MacAction::Move,
        };
        let news: Vec<MacNews> = (0..25).map(news).collect();
        let events = told(&news, 10);
        let sizes: Vec<usize> = events.iter().map(Event::len).collect();
        assert_eq!(sizes, [10, 10, 5]);
        let Event::Macs(first) = &events[0] else {
            panic!("{events:?}")
        };
        let MacEntry { action, .. } = first.mac[0];
        assert_eq!(action, MacEventAction::MAC_EVENT_ACTION_API_MOVE);
        // Two bytes of number, index, process, count, and so many entries of 15.
        assert_eq!(events[2].clone().encode(1, 2).len(), 14 + 5 * 15);
    }

    #[test]
    fn a_mailbox_overflows_and_stays_small() {
        let m = Mailbox::new().expect("made");
        let one = || Event::Interface(SwInterfaceEvent::default());
        m.put(Vec::new());
        assert_eq!(m.take().map(|l| l.len()), Some(0));
        m.put(vec![one(); WAITING]);
        m.put(vec![one()]);
        m.put(vec![one()]);
        assert_eq!(m.take(), None);
    }
}
