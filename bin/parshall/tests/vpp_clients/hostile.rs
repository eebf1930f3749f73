//! A hundred hostile clients at once, each kind ten times: the good ones are answered all the while, and the router's memory stays
//! bounded and comes back.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parshall_vpp_wire::msg::*;
use parshall_vpp_wire::{Frames, Lead, MESSAGES, Message, frame};

use super::router;
use super::support::{Netns, Router};

/// Longest message that the router takes.
const LONGEST: usize = 1 << 20;
/// What a hundred clients may cost: a message and an answer each, their threads, and what the allocator keeps of it.
const BEARABLE: u64 = 384 << 20;
/// What may be left of it.
const LEFT: u64 = 48 << 20;
/// What each good client does is done so often.
const ROUNDS: usize = 20;

/// A client that behaves.
struct Good {
    stream: UnixStream,
    frames: Frames,
    context: u32,
}

fn connect(socket: &Path) -> UnixStream {
    let stream = UnixStream::connect(socket).expect("connected");
    let generous = Some(Duration::from_secs(60));
    stream.set_read_timeout(generous).expect("set");
    stream.set_write_timeout(generous).expect("set");
    stream
}

fn hello(name: &str) -> Vec<u8> {
    let hello = SockclntCreate {
        context: 1,
        name: name.into(),
    };
    frame(&hello.encode(Lead::default()))
}

fn request<M: Message>(message: &M) -> Vec<u8> {
    frame(&message.encode(Lead {
        client_index: 0,
        context: 7,
    }))
}

impl Good {
    /// Comes until there is a place.
    fn come(socket: &Path) -> Good {
        let mut came = None;
        super::support::until("a place among the hostile", || {
            came = Good::try_new(socket);
            came.is_some()
        });
        came.expect("came")
    }

    fn new(socket: &Path) -> Good {
        Good::try_new(socket).expect("taken in")
    }

    fn try_new(socket: &Path) -> Option<Good> {
        let mut good = Good {
            stream: connect(socket),
            frames: Frames::new(1 << 24),
            context: 0,
        };
        good.stream.write_all(&hello("good")).ok()?;
        // Whom there is no place for is hung up on at once.
        let mut piece = [0; 1];
        let n = good.stream.read(&mut piece).ok().filter(|n| *n > 0)?;
        good.frames.push(&piece[..n]);
        let reply: SockclntCreateReply = good.next(1);
        assert_eq!(reply.response, 0);
        Some(good)
    }

    fn next<R: Message>(&mut self, context: u32) -> R {
        let mut piece = vec![0; 64 << 10];
        loop {
            if let Some(m) = self.frames.next_message().expect("a frame") {
                let (lead, reply) = R::decode(m).expect("the answer");
                assert!(R::ID == SockclntCreateReply::ID || lead.context == context);
                return reply;
            }
            let n = self.stream.read(&mut piece).expect("an answer in time");
            assert_ne!(n, 0, "hung up on");
            self.frames.push(&piece[..n]);
        }
    }

    fn ask<M: Message, R: Message>(&mut self, message: &M) -> R {
        self.context += 1;
        let lead = Lead {
            client_index: 0,
            context: self.context,
        };
        let bytes = frame(&message.encode(lead));
        self.stream.write_all(&bytes).expect("sent");
        self.next(self.context)
    }

    /// Makes an interface, looks at it, and deletes it.
    fn round(&mut self) {
        let made: CreateLoopbackReply = self.ask(&CreateLoopback::default());
        assert_eq!(made.retval, 0);
        let sw_if_index = made.sw_if_index;
        let mac: SwInterfaceGetMacAddressReply =
            self.ask(&SwInterfaceGetMacAddress { sw_if_index });
        assert_eq!(mac.retval, 0);
        let gone: DeleteLoopbackReply = self.ask(&DeleteLoopback { sw_if_index });
        assert_eq!(gone.retval, 0);
        let pong: ControlPingReply = self.ask(&ControlPing::default());
        assert_eq!(pong.retval, 0);
    }
}

/// What a hostile client sends over one connection; an error is the router hanging up, after which it comes again.
type Attack = fn(&mut UnixStream, &Field) -> std::io::Result<()>;

/// What the hostile share.
struct Field {
    socket: PathBuf,
    over: AtomicBool,
    /// Connections they made.
    attacks: AtomicU64,
}

impl Field {
    fn goes_on(&self) -> bool {
        !self.over.load(Ordering::Acquire)
    }
}

/// Holds on to a connection without reading from it, until the router hangs up or it is over.
fn hold(stream: &mut UnixStream, field: &Field) -> std::io::Result<()> {
    let mut piece = [0; 1];
    stream.set_read_timeout(Some(Duration::from_millis(100)))?;
    while field.goes_on() {
        match stream.read(&mut piece) {
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {}
            _ => break,
        }
    }
    Ok(())
}

/// Sends the same again and again and never reads: what does not go out at once has filled all there is.
fn flood(stream: &mut UnixStream, field: &Field, what: &[u8]) -> std::io::Result<()> {
    stream.write_all(&hello("deaf"))?;
    stream.set_write_timeout(Some(Duration::from_millis(100)))?;
    let mut at = 0;
    while field.goes_on() {
        match stream.write(&what[at..]) {
            Ok(n) => at = (at + n) % what.len(),
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

fn with_length(len: u32, rest: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 16];
    bytes[8..12].copy_from_slice(&len.to_be_bytes());
    bytes.extend_from_slice(rest);
    bytes
}

const ATTACKS: [(&str, Attack); 10] = [
    ("lengths that cannot be", |s, _| {
        for len in [u32::MAX, LONGEST as u32 + 1, 1 << 31] {
            s.write_all(&hello("long"))?;
            s.write_all(&with_length(len, &[1; 64]))?;
            // The router hangs up, so the next one fails.
        }
        Ok(())
    }),
    ("almost all of the longest message", |s, field| {
        s.write_all(&hello("almost"))?;
        s.write_all(&with_length(LONGEST as u32, &vec![0; LONGEST - 1]))?;
        hold(s, field)
    }),
    ("numbers of no message", |s, field| {
        s.write_all(&hello("unknown"))?;
        while field.goes_on() {
            for id in [0u16, MESSAGES.len() as u16 + 1, u16::MAX] {
                s.write_all(&frame(&[&id.to_be_bytes()[..], &[0xA5; 40]].concat()))?;
            }
        }
        Ok(())
    }),
    ("half of every message", |s, field| {
        s.write_all(&hello("half"))?;
        // Long enough to be of a client, too short for fields.
        for (n, _) in (1u16..).zip(MESSAGES) {
            for len in [0, 1, 7, 11, 13] {
                let message = [&n.to_be_bytes()[..], &vec![0xFF; len]].concat();
                s.write_all(&frame(&message))?;
            }
        }
        hold(s, field)
    }),
    ("dumps that are never read", |s, field| {
        let dump = SwInterfaceDump {
            sw_if_index: u32::MAX,
            ..SwInterfaceDump::default()
        };
        flood(s, field, &request(&dump))
    }),
    ("long answers that are never read", |s, field| {
        flood(s, field, &request(&GetApiJson::default()))
    }),
    ("connect and go", |s, field| {
        for _ in 0..20 {
            drop(UnixStream::connect(&field.socket)?);
        }
        s.write_all(&hello("short"))
    }),
    ("the handshake again and again", |s, field| {
        s.set_read_timeout(Some(Duration::from_secs(60)))?;
        let mut piece = vec![0; 64 << 10];
        while field.goes_on() {
            s.write_all(&hello("again"))?;
            if s.read(&mut piece)? == 0 {
                break;
            }
        }
        Ok(())
    }),
    ("huge texts", |s, _| {
        s.write_all(&hello(&"x".repeat(63)))?;
        for text in ["A".repeat(LONGEST - 64), "show ".repeat(100_000)] {
            s.write_all(&request(&CliInband { cmd: text }))?;
        }
        Ok(())
    }),
    ("events that are never read", |s, field| {
        s.write_all(&hello("sleeper"))?;
        let want = WantInterfaceEvents {
            enable_disable: 1,
            pid: 1,
        };
        s.write_all(&request(&want))?;
        let updown = |up: u32| {
            request(&SwInterfaceSetFlags {
                sw_if_index: 1,
                flags: IfStatusFlags(up),
            })
        };
        flood(s, field, &[updown(0), updown(1)].concat())
    }),
];

/// Attacks until it is over, over one connection after the other.
fn attack(field: &Field, attack: Attack) {
    while field.goes_on() {
        // All places can be taken by others like it, or the queue of those who wait.
        let Ok(mut stream) = UnixStream::connect(&field.socket) else {
            std::thread::yield_now();
            continue;
        };
        field.attacks.fetch_add(1, Ordering::Relaxed);
        let _ = attack(&mut stream, field);
    }
}

fn many_interfaces() -> (Netns, Router, PathBuf) {
    let (ns, router, socket) = router();
    let mut good = Good::new(&socket);
    for _ in 0..200 {
        let made: CreateLoopbackReply = good.ask(&CreateLoopback::default());
        assert_eq!(made.retval, 0);
    }
    // What is made once and kept.
    let json: GetApiJsonReply = good.ask(&GetApiJson::default());
    assert!(json.json.len() > 50_000, "{}", json.json.len());
    good.round();
    (ns, router, socket)
}

/// Most memory that the router has while good clients make their calls.
fn good_calls(router: &Router, socket: &Path, clients: &mut Vec<Good>) -> u64 {
    let mut most = 0;
    clients.push(Good::come(socket));
    for _ in 0..ROUNDS {
        clients.iter_mut().for_each(Good::round);
        most = most.max(router.resident());
    }
    most
}

#[test]
fn a_hundred_hostile_clients_neither_end_the_router_nor_starve_the_good_ones() {
    let (_ns, router, socket) = many_interfaces();
    let before = router.resident();
    let mut clients: Vec<Good> = (0..4).map(|_| Good::new(&socket)).collect();
    let field = Arc::new(Field {
        socket: socket.clone(),
        over: AtomicBool::new(false),
        attacks: AtomicU64::new(0),
    });
    let hostile: Vec<_> = (0..10)
        .flat_map(|_| ATTACKS)
        .map(|(name, kind)| {
            let field = field.clone();
            let run = move || attack(&field, kind);
            let thread = std::thread::Builder::new().name(name.into());
            thread.spawn(run).expect("a thread")
        })
        .collect();
    assert_eq!(hostile.len(), 100);
    // All of them are at it before the good ones come.
    super::support::until("the attack begins", || {
        field.attacks.load(Ordering::Relaxed) >= 100
    });
    let most = good_calls(&router, &socket, &mut clients);
    field.over.store(true, Ordering::Release);
    for h in hostile {
        h.join().expect("a hostile client ended by itself");
    }
    let grown = most.saturating_sub(before);
    assert!(
        grown < BEARABLE,
        "{before} bytes before, {most} while attacked"
    );
    // Those that hung up are noticed, and what they held is given back.
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        clients.iter_mut().for_each(Good::round);
        let left = router.resident().saturating_sub(before);
        if left < LEFT {
            println!("{before} bytes before, {most} at most, {left} more left");
            break;
        }
        assert!(
            Instant::now() < end,
            "{left} bytes more than before are left"
        );
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(router.stop());
}

#[test]
fn sockets_are_for_their_owner_and_group_alone() {
    let (_ns, router, socket) = router();
    for path in [
        router.socket(),
        socket.clone(),
        socket.with_file_name("stats.sock"),
    ] {
        let mode = std::fs::metadata(&path).expect("there").permissions();
        assert_eq!(mode.mode() & 0o7777, 0o660, "{}", path.display());
    }
    assert!(router.stop());
}
