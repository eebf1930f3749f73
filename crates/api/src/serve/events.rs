//! Events: interfaces that come up, go down or are deleted, told to clients that want to know.
//!
//! Found by comparing what the router has with what it had a moment ago. A client has a mailbox of bounded size; one that does not empty it
//! loses its connection, never the server its memory.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parshall_control::Router;
use parshall_vpp_wire::msg::{IfStatusFlags, SwInterfaceEvent};

use super::Shared;
use crate::handlers::interface::status;

/// How often the router is looked at while somebody wants events.
const PERIOD: Duration = Duration::from_millis(50);
/// Events that a client may have waiting.
const WAITING: usize = 4096;

/// Events on their way to one client.
pub(super) struct Mailbox {
    wanted: AtomicBool,
    /// `None` when there were too many.
    waiting: Mutex<Option<Vec<SwInterfaceEvent>>>,
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
            wanted: AtomicBool::new(false),
            waiting: Mutex::new(Some(Vec::new())),
            wake,
            woken,
        })
    }

    /// Events are wanted, or not any more.
    pub fn want(&self, on: bool) {
        self.wanted.store(on, Ordering::Release);
    }

    fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Acquire)
    }

    fn put(&self, events: &[SwInterfaceEvent]) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(list) = waiting.as_mut() {
            if list.len() + events.len() > WAITING {
                *waiting = None;
            } else {
                list.extend_from_slice(events);
            }
        }
        // A full pipe is as good as one byte in it.
        let _ = (&self.wake).write(&[1]);
    }

    /// Takes what is there; `None` when some were lost.
    pub fn take(&self) -> Option<Vec<SwInterfaceEvent>> {
        let mut bytes = [0; 64];
        while matches!((&self.woken).read(&mut bytes), Ok(n) if n > 0) {}
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.as_mut().map(std::mem::take)
    }
}

/// What is told of an interface: which one it is of those that had its number, and its state.
type Seen = BTreeMap<u32, (u64, IfStatusFlags)>;

fn look(r: &Router) -> Seen {
    let one = |i: &parshall_control::Interface| (i.index, (i.incarnation, status(i)));
    r.interfaces().iter().map(one).collect()
}

/// Looks for events until the server stops or the router ends.
pub(super) fn watch(shared: &Shared) {
    let mut before: Option<Seen> = None;
    while !shared.stop.load(Ordering::Acquire) {
        std::thread::sleep(PERIOD);
        if !shared.clients().values().any(|c| c.mailbox.is_wanted()) {
            before = None;
            continue;
        }
        let Some(now) = shared.asker.ask(|r| look(r)) else {
            return;
        };
        if let Some(before) = &before {
            let events = changes(before, &now);
            if !events.is_empty() {
                let clients = shared.clients();
                let wanting = clients.values().filter(|c| c.mailbox.is_wanted());
                wanting.for_each(|c| c.mailbox.put(&events));
            }
        }
        before = Some(now);
    }
}

/// What happened between two looks.
fn changes(before: &Seen, now: &Seen) -> Vec<SwInterfaceEvent> {
    let event = |index: u32, flags: IfStatusFlags, deleted: bool| SwInterfaceEvent {
        client_index: 0,
        pid: std::process::id(),
        sw_if_index: index,
        flags,
        deleted,
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
            let events = changes(&seen(a), &seen(b));
            events
                .iter()
                .map(|e| (e.sw_if_index, e.flags.0, e.deleted))
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
    fn a_mailbox_overflows_and_stays_small() {
        let m = Mailbox::new().expect("made");
        m.put(&[]);
        assert_eq!(m.take().map(|l| l.len()), Some(0));
        m.put(&vec![SwInterfaceEvent::default(); WAITING]);
        m.put(&[SwInterfaceEvent::default()]);
        m.put(&[SwInterfaceEvent::default()]);
        assert_eq!(m.take(), None);
    }
}
