//! One netlink channel: its socket, its troubles, and when to try again.
//!
//! A channel waits, opens (a socket, then its family and group), is ready, and waits again when the kernel refuses. Looking a
//! family up can make the kernel load a module, so [`System`] does it on a thread of its own and the agent never waits for
//! it. A module can be taken away and loaded again under other numbers, which no send would tell: families are looked up
//! again from time to time.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;

use nix::errno::Errno;
use parshall_linux::caps::{self, Capability};
use parshall_linux::genl::{self, Bus, Family, GroupSocket, MAX_GROUP, Sent};
use serde::Serialize;

use super::attributes::Head;
use super::{dropmon, psample, usersock};

const SECOND: u64 = 1_000_000_000;
/// First pause after a refusal; it doubles up to hsflowd's.
const FIRST_PAUSE: u64 = SECOND;
const LONGEST_PAUSE: u64 = 15 * SECOND;
/// How often a family is looked up again while all is well.
const RENEW: u64 = 60 * SECOND;
/// How often to ask whether a channel has opened.
const ASK: u64 = SECOND / 50;
/// Socket send buffer in bytes, as that of VPP's plugin.
const SEND_BUFFER: usize = 1_000_000;

/// The channels, numbered as in VPP's plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Which {
    /// Counters and state, for hsflowd's `vpp` module.
    Usersock = 1,
    /// Packet samples.
    Psample = 2,
    /// Dropped packets.
    Dropmon = 3,
}

impl Which {
    const ALL: [Which; 3] = [Which::Usersock, Which::Psample, Which::Dropmon];

    fn bus(self) -> Bus {
        match self {
            Which::Usersock => Bus::User,
            Which::Psample | Which::Dropmon => Bus::Generic,
        }
    }

    fn place(self) -> usize {
        self as usize - 1
    }
}

/// A channel that can be sent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// Message type of the family; 0 where there is none.
    pub family: u16,
    /// Our netlink port.
    pub port: u32,
}

/// What the channels ask of the system. Only methods that say so may wait.
pub trait Kernel: Send {
    /// Begins to open a channel, or to look again whether its family is still the same.
    fn start(&mut self, which: Which);
    /// What came of that, once.
    fn outcome(&mut self, which: Which) -> Option<Result<Ready, String>>;
    /// Sends messages to the channel's group.
    fn send(&mut self, which: Which, messages: &[&[u8]]) -> Sent;
    /// Lets go of a channel.
    fn close(&mut self, which: Which);
    /// How many sockets listen to the channel's group; `None` when that cannot be known.
    fn listeners(&self, which: Which) -> Option<usize>;
}

enum State {
    /// Nothing until then.
    Waiting { until: u64 },
    /// Being opened.
    Opening,
    /// Ready to send.
    Ready {
        at: Ready,
        /// When the family is to be looked up again.
        renew: u64,
        /// That is under way.
        asking: bool,
    },
}

/// One channel and what became of it.
pub struct Channel {
    which: Which,
    state: State,
    /// The last pause made, 0 = none since all went well.
    pause: u64,
    sequence: u32,
    sent: u64,
    failed: u64,
    last_error: Option<(u64, String)>,
}

impl Channel {
    /// A channel that opens at once.
    pub fn new(which: Which, now: u64) -> Channel {
        Channel {
            which,
            state: State::Waiting { until: now },
            pause: 0,
            sequence: 0,
            sent: 0,
            failed: 0,
            last_error: None,
        }
    }

    /// Takes the next step when it is time. Says when to call again.
    pub fn tick(&mut self, now: u64, kernel: &mut dyn Kernel) -> u64 {
        match &mut self.state {
            State::Waiting { until } if *until <= now => {
                kernel.start(self.which);
                self.state = State::Opening;
            }
            State::Ready { renew, asking, .. } if *renew <= now && !*asking => {
                *asking = true;
                kernel.start(self.which);
            }
            _ => {}
        }
        let asked = matches!(
            self.state,
            State::Opening | State::Ready { asking: true, .. }
        );
        if asked && let Some(outcome) = kernel.outcome(self.which) {
            self.opened(now, outcome, kernel);
        }
        match self.state {
            State::Waiting { until } => until,
            State::Opening | State::Ready { asking: true, .. } => now + ASK,
            State::Ready { renew, .. } => renew,
        }
    }

    fn opened(&mut self, now: u64, outcome: Result<Ready, String>, kernel: &mut dyn Kernel) {
        match outcome {
            Ok(at) => {
                self.pause = 0;
                let renew = match self.which {
                    Which::Usersock => u64::MAX,
                    Which::Psample | Which::Dropmon => now + RENEW,
                };
                self.state = State::Ready {
                    at,
                    renew,
                    asking: false,
                };
            }
            Err(text) => self.give_up(now, text, kernel),
        }
    }

    fn give_up(&mut self, now: u64, text: String, kernel: &mut dyn Kernel) {
        kernel.close(self.which);
        self.last_error = Some((now, text));
        self.pause = (self.pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
        self.state = State::Waiting {
            until: now + self.pause,
        };
    }

    /// Whether it can be sent on.
    pub fn is_ready(&self) -> bool {
        matches!(self.state, State::Ready { .. })
    }

    /// The header of the next message, of this type where there is no family; `None` when nothing can be sent.
    pub fn next(&mut self) -> Option<Head> {
        let State::Ready { at, .. } = self.state else {
            return None;
        };
        self.sequence = self.sequence.wrapping_add(1);
        Some(Head {
            kind: at.family,
            sequence: self.sequence,
            port: at.port,
        })
    }

    /// Counts a message that could not even be made.
    pub fn lose(&mut self) {
        self.failed += 1;
    }

    /// Messages that did not get to the kernel.
    pub fn failed(&self) -> u64 {
        self.failed
    }

    /// Sends messages. What the kernel has no room for is counted and gone; any other refusal ends the channel for a while.
    pub fn send(&mut self, now: u64, kernel: &mut dyn Kernel, messages: &[&[u8]]) {
        let outcome = kernel.send(self.which, messages);
        let taken = outcome.taken.min(messages.len());
        self.sent += taken as u64;
        self.failed += (messages.len() - taken) as u64;
        match outcome.error {
            None => {}
            Some(e @ (Errno::ENOBUFS | Errno::EAGAIN | Errno::ENOMEM)) => {
                self.last_error = Some((now, format!("messages lost: {}", e.desc())));
            }
            Some(e) => {
                let text = match e {
                    Errno::EPERM => caps::grant_hint(&[Capability::NetAdmin]),
                    _ => e.desc().to_owned(),
                };
                self.give_up(now, format!("sending refused: {text}"), kernel);
            }
        }
    }

    /// Its state and what it has done.
    pub fn status(&self, now: u64, kernel: &dyn Kernel) -> ChannelStatus {
        ChannelStatus {
            channel: self.which,
            state: match self.state {
                State::Waiting { .. } => ChannelState::Waiting,
                State::Opening => ChannelState::Opening,
                State::Ready { .. } => ChannelState::Ready,
            },
            listeners: self
                .is_ready()
                .then(|| kernel.listeners(self.which))
                .flatten(),
            sent: self.sent,
            failed: self.failed,
            last_error: self.last_error.as_ref().map(|e| e.1.clone()),
            last_error_ago_ms: self
                .last_error
                .as_ref()
                .map(|e| now.saturating_sub(e.0) / 1_000_000),
        }
    }
}

/// One channel, for `show sflow`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChannelStatus {
    /// Which.
    pub channel: Which,
    /// What the agent does about it now.
    pub state: ChannelState,
    /// Sockets that listen to it, where the kernel tells.
    pub listeners: Option<usize>,
    /// Messages the kernel took.
    pub sent: u64,
    /// Messages lost: the kernel had no room, or the channel was not ready.
    pub failed: u64,
    /// Why the last one that failed did, or why it could not be opened.
    pub last_error: Option<String>,
    /// How long ago that was, in milliseconds.
    pub last_error_ago_ms: Option<u64>,
}

/// What the agent does about a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChannelState {
    /// Is opening it.
    Opening,
    /// Sends on it.
    Ready,
    /// Could not open it or send on it, and tries again.
    Waiting,
}

/// What a thread that opens a channel comes back with: socket, family, group.
type Opened = Result<(Arc<GroupSocket>, u16, u32), String>;

/// The real thing.
#[derive(Default)]
pub struct System {
    slots: [Slot; Which::ALL.len()],
}

#[derive(Default)]
struct Slot {
    socket: Option<(Arc<GroupSocket>, u32)>,
    pending: Option<Receiver<Opened>>,
}

impl Kernel for System {
    fn start(&mut self, which: Which) {
        let slot = &mut self.slots[which.place()];
        let known = slot.socket.as_ref().map(|s| s.0.clone());
        let (answer, pending) = channel();
        let work = move || {
            // Whoever asked may have stopped waiting.
            let _ = answer.send(open(which, known));
        };
        // Without a thread the sender is gone at once, and the outcome says so.
        let _ = thread::Builder::new()
            .name("parshall-netlink".to_owned())
            .spawn(work);
        slot.pending = Some(pending);
    }

    fn outcome(&mut self, which: Which) -> Option<Result<Ready, String>> {
        let slot = &mut self.slots[which.place()];
        let opened = match slot.pending.as_ref()?.try_recv() {
            Ok(opened) => opened,
            Err(TryRecvError::Empty) => return None,
            Err(TryRecvError::Disconnected) => Err("no thread to open it on".to_owned()),
        };
        slot.pending = None;
        Some(opened.map(|(socket, family, group)| {
            let port = socket.port();
            slot.socket = Some((socket, group));
            Ready { family, port }
        }))
    }

    fn send(&mut self, which: Which, messages: &[&[u8]]) -> Sent {
        match &self.slots[which.place()].socket {
            Some((socket, group)) => socket.send(*group, messages),
            None => Sent {
                taken: 0,
                error: Some(Errno::ENOTCONN),
            },
        }
    }

    fn close(&mut self, which: Which) {
        self.slots[which.place()] = Slot::default();
    }

    fn listeners(&self, which: Which) -> Option<usize> {
        let group = self.slots[which.place()].socket.as_ref()?.1;
        genl::listeners(which.bus(), group)
    }
}

/// Opens the socket of a channel, if there is none yet, and finds its family and group.
fn open(which: Which, known: Option<Arc<GroupSocket>>) -> Opened {
    if which.bus() == Bus::Generic {
        caps::require(&[Capability::NetAdmin], "send to a netlink group")
            .map_err(|e| e.to_string())?;
    }
    let socket = match known {
        Some(socket) => socket,
        None => {
            // The port that VPP's plugin takes; the kernel gives another when it is taken.
            let port = (which as u32) << 16;
            let socket = GroupSocket::open(which.bus(), port.wrapping_add(std::process::id()))
                .map_err(|e| e.to_string())?;
            socket.set_send_buffer(SEND_BUFFER);
            Arc::new(socket)
        }
    };
    let (family, group) = match which {
        Which::Usersock => (0, usersock::GROUP),
        Which::Psample => {
            let f = find(&socket, psample::FAMILY, PSAMPLE_HINT)?;
            let group = f
                .group(psample::GROUP)
                .ok_or("psample has no group \"packets\"")?;
            (f.id, group)
        }
        Which::Dropmon => (
            find(&socket, dropmon::FAMILY, DROPMON_HINT)?.id,
            dropmon::GROUP,
        ),
    };
    if group > MAX_GROUP {
        return Err(format!(
            "the kernel numbered the group {group}, and programs can send to groups 1 to {MAX_GROUP} only; \
             load the module earlier after a reboot"
        ));
    }
    Ok((socket, family, group))
}

const PSAMPLE_HINT: &str = "load the kernel's module: modprobe psample";
const DROPMON_HINT: &str = "load the kernel's module: modprobe drop_monitor (it is there for the first network namespace only)";

fn find(socket: &GroupSocket, family: &str, hint: &str) -> Result<Family, String> {
    socket.family(family).map_err(|e| {
        if e.errno() == Some(Errno::ENOENT) {
            e.hint(hint).to_string()
        } else {
            e.to_string()
        }
    })
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use std::sync::Mutex;

    /// What the fake kernel answers and what it was given.
    #[derive(Default)]
    pub struct Script {
        /// How the next openings end; an empty list opens.
        pub openings: Vec<Result<Ready, String>>,
        /// Openings asked for.
        pub started: usize,
        /// How many messages of the next send are taken, and why no more; `None` = all.
        pub refusal: Option<Sent>,
        /// What was sent.
        pub sent: Vec<(Which, Vec<u8>)>,
        /// The opening that was asked for has not ended.
        pub slow: bool,
    }

    /// A kernel of the tests.
    #[derive(Clone, Default)]
    pub struct FakeKernel(pub Arc<Mutex<Script>>);

    impl FakeKernel {
        /// What was sent since the last time.
        pub fn take(&self) -> Vec<(Which, Vec<u8>)> {
            std::mem::take(&mut self.0.lock().unwrap().sent)
        }
    }

    impl Kernel for FakeKernel {
        fn start(&mut self, _: Which) {
            self.0.lock().unwrap().started += 1;
        }
        fn outcome(&mut self, which: Which) -> Option<Result<Ready, String>> {
            let mut s = self.0.lock().unwrap();
            if s.slow {
                return None;
            }
            let port = (which as u32) << 16 | 0x77;
            Some(s.openings.pop().unwrap_or(Ok(Ready { family: 33, port })))
        }
        fn send(&mut self, which: Which, messages: &[&[u8]]) -> Sent {
            let mut s = self.0.lock().unwrap();
            let all = Sent {
                taken: messages.len(),
                error: None,
            };
            let sent = s.refusal.take().unwrap_or(all);
            let taken = messages[..sent.taken].iter().map(|m| (which, m.to_vec()));
            s.sent.extend(taken);
            sent
        }
        fn close(&mut self, _: Which) {}
        fn listeners(&self, _: Which) -> Option<usize> {
            Some(1)
        }
    }

    fn state(c: &Channel, now: u64) -> (ChannelState, u64, u64) {
        let s = c.status(now, &FakeKernel::default());
        (s.state, s.sent, s.failed)
    }

    #[test]
    fn a_channel_opens_and_is_tried_again_after_ever_longer_pauses() {
        let mut kernel = FakeKernel::default();
        kernel.0.lock().unwrap().openings = vec![Err("no module".into()); 6];
        let mut c = Channel::new(Which::Psample, 0);
        let mut now = 0;
        let mut pauses = Vec::new();
        for _ in 0..6 {
            let due = c.tick(now, &mut kernel);
            assert_eq!(state(&c, now).0, ChannelState::Waiting);
            assert!(c.next().is_none());
            pauses.push((due - now) / SECOND);
            now = due;
        }
        assert_eq!(pauses, [1, 2, 4, 8, 15, 15]);
        assert_eq!(
            c.status(now, &kernel).last_error.as_deref(),
            Some("no module")
        );
        let due = c.tick(now, &mut kernel);
        assert_eq!(due, now + RENEW);
        let head = c.next().unwrap();
        assert_eq!((head.kind, head.sequence, head.port), (33, 1, 0x0002_0077));
    }

    #[test]
    fn an_opening_that_takes_long_is_asked_after() {
        let mut kernel = FakeKernel::default();
        kernel.0.lock().unwrap().slow = true;
        let mut c = Channel::new(Which::Dropmon, 5);
        assert_eq!(c.tick(4, &mut kernel), 5);
        assert_eq!(c.tick(5, &mut kernel), 5 + ASK);
        assert_eq!(c.tick(5 + ASK, &mut kernel), 5 + 2 * ASK);
        assert_eq!(state(&c, 9).0, ChannelState::Opening);
        kernel.0.lock().unwrap().slow = false;
        c.tick(SECOND, &mut kernel);
        assert!(c.is_ready());
        assert_eq!(kernel.0.lock().unwrap().started, 1);
    }

    #[test]
    fn messages_without_room_are_counted_and_other_refusals_end_the_channel() {
        let mut kernel = FakeKernel::default();
        let mut c = Channel::new(Which::Psample, 0);
        c.tick(0, &mut kernel);
        let four: [&[u8]; 4] = [b"a", b"b", b"c", b"d"];
        let refuse = |kernel: &FakeKernel, taken, e| {
            let error = Some(e);
            kernel.0.lock().unwrap().refusal = Some(Sent { taken, error });
        };
        refuse(&kernel, 1, Errno::ENOBUFS);
        c.send(0, &mut kernel, &four);
        assert_eq!(state(&c, 0), (ChannelState::Ready, 1, 3));
        c.send(0, &mut kernel, &four);
        assert_eq!(state(&c, 0), (ChannelState::Ready, 5, 3));
        refuse(&kernel, 0, Errno::EPERM);
        c.send(0, &mut kernel, &four);
        assert_eq!(state(&c, 0), (ChannelState::Waiting, 5, 7));
        let error = c.status(0, &kernel).last_error.unwrap();
        assert!(error.contains("CAP_NET_ADMIN"), "{error}");
    }

    #[test]
    fn a_family_is_looked_up_again_and_its_loss_is_noticed() {
        let mut kernel = FakeKernel::default();
        let mut c = Channel::new(Which::Psample, 0);
        c.tick(0, &mut kernel);
        let other = Ready {
            family: 40,
            port: 1,
        };
        kernel.0.lock().unwrap().openings = vec![Err("gone".into()), Ok(other)];
        c.tick(RENEW, &mut kernel);
        assert_eq!(c.next().unwrap().kind, 40);
        c.tick(2 * RENEW, &mut kernel);
        assert_eq!(state(&c, 0).0, ChannelState::Waiting);
        assert_eq!(kernel.0.lock().unwrap().started, 3);
        // What has no family is not asked for again.
        let mut c = Channel::new(Which::Usersock, 0);
        assert_eq!(c.tick(0, &mut kernel), u64::MAX);
    }

    #[test]
    fn what_the_kernel_does_not_know_is_named_with_the_module() {
        let socket = GroupSocket::open(Bus::Generic, 0).unwrap();
        let e = find(&socket, "no-such", PSAMPLE_HINT).unwrap_err();
        assert!(e.contains("modprobe psample"), "{e}");
    }
}
