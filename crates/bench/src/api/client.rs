//! A client of the binary API that makes so many calls a second over the socket, and times each.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parshall_vpp_wire::msg::*;
use parshall_vpp_wire::{Frames, Lead, Message, frame};

use crate::BenchError;

/// Longest answer that is taken, in bytes.
const LONGEST: usize = 1 << 24;
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// Routes that calls put in and take out again: 10.0.0.0/24 and so on.
const ROUTES: u32 = 1 << 16;

/// What calls there were.
#[derive(Clone, Debug, Default)]
pub struct Calls {
    /// How many.
    pub calls: u64,
    /// Time that they were to be made in.
    pub seconds: f64,
    /// Those that were refused, by message.
    pub refused: Vec<String>,
    /// From request to answer, in microseconds.
    pub micros: Vec<u32>,
}

/// A thread that calls while it is told a rate above 0.
pub struct Caller {
    rate: Arc<AtomicU64>,
    thread: Option<JoinHandle<Result<Calls, BenchError>>>,
}

/// The rate that ends it.
const END: u64 = u64::MAX;

impl Caller {
    /// Connects to the server behind `socket`.
    ///
    /// # Errors
    /// When it is not there.
    pub fn start(socket: &Path) -> Result<Caller, BenchError> {
        let connection = Connection::open(socket)?;
        let rate = Arc::new(AtomicU64::new(0));
        let theirs = rate.clone();
        let thread = std::thread::Builder::new()
            .name("bench-api".into())
            .spawn(move || call(connection, &theirs))
            .map_err(|e| BenchError::of("thread", e))?;
        Ok(Caller {
            rate,
            thread: Some(thread),
        })
    }

    /// From now on so many calls a second; 0 = none.
    pub fn set_rate(&self, rate: u64) {
        self.rate.store(rate, Ordering::Relaxed);
    }

    /// Ends it.
    ///
    /// # Errors
    /// When the connection broke, or an answer was not the one to the call.
    pub fn finish(mut self) -> Result<Calls, BenchError> {
        self.set_rate(END);
        let thread = self.thread.take();
        let done = thread.map_or_else(|| Ok(Ok(Calls::default())), JoinHandle::join);
        done.map_err(|_| BenchError("the calling thread panicked".into()))?
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.set_rate(END);
    }
}

fn call(mut connection: Connection, rate: &AtomicU64) -> Result<Calls, BenchError> {
    let mut all = Calls::default();
    let mut since: Option<(Instant, u64)> = None;
    loop {
        let now = Instant::now();
        match rate.load(Ordering::Relaxed) {
            END => return Ok(all),
            0 => {
                if let Some((start, _)) = since.take() {
                    all.seconds += start.elapsed().as_secs_f64();
                }
                std::thread::sleep(Duration::from_micros(200));
            }
            rate => {
                let (start, made) = *since.get_or_insert((now, 0));
                let due = start + Duration::from_secs_f64(made as f64 / rate as f64);
                // Slept for, not spun for: the machine may have no CPU to spare.
                std::thread::sleep(due.saturating_duration_since(now));
                let began = Instant::now();
                connection.one(all.calls, &mut all.refused)?;
                let took = began.elapsed().as_micros();
                all.micros.push(u32::try_from(took).unwrap_or(u32::MAX));
                all.calls += 1;
                since = Some((start, made + 1));
            }
        }
    }
}

struct Connection {
    stream: UnixStream,
    frames: Frames,
    lead: Lead,
}

fn broken(e: impl std::fmt::Display) -> BenchError {
    BenchError::of("binary API", e)
}

impl Connection {
    fn open(socket: &Path) -> Result<Connection, BenchError> {
        let stream = UnixStream::connect(socket).map_err(broken)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(broken)?;
        let mut c = Connection {
            stream,
            frames: Frames::new(LONGEST),
            lead: Lead::default(),
        };
        let hello = SockclntCreate {
            context: 1,
            name: "bench".into(),
        };
        c.send(&hello)?;
        let reply: SockclntCreateReply = c.next()?;
        c.lead.client_index = reply.index;
        Ok(c)
    }

    fn send<M: Message>(&mut self, message: &M) -> Result<(), BenchError> {
        self.lead.context = self.lead.context.wrapping_add(1).max(1);
        let bytes = frame(&message.encode(self.lead));
        self.stream.write_all(&bytes).map_err(broken)
    }

    fn bytes(&mut self) -> Result<Vec<u8>, BenchError> {
        let mut piece = [0; 16 << 10];
        loop {
            if let Some(m) = self.frames.next_message().map_err(broken)? {
                return Ok(m.to_vec());
            }
            match self.stream.read(&mut piece).map_err(broken)? {
                0 => return Err(broken("the router hung up")),
                n => self.frames.push(&piece[..n]),
            }
        }
    }

    fn next<M: Message>(&mut self) -> Result<M, BenchError> {
        let bytes = self.bytes()?;
        Ok(M::decode(&bytes).map_err(broken)?.1)
    }

    fn ask<M: Message, A: Message>(&mut self, message: &M) -> Result<A, BenchError> {
        self.send(message)?;
        self.next()
    }

    /// A dump and the ping that ends it.
    fn dump<M: Message>(&mut self, message: &M) -> Result<(), BenchError> {
        self.send(message)?;
        self.send(&ControlPing::default())?;
        loop {
            let bytes = self.bytes()?;
            if bytes.first_chunk::<2>() == Some(&ControlPingReply::ID.to_be_bytes()) {
                return Ok(());
            }
        }
    }

    /// Call number `n`: routes come and go, and everything else is looked at.
    fn one(&mut self, n: u64, refused: &mut Vec<String>) -> Result<(), BenchError> {
        let retval = match n % 8 {
            0 | 4 => self.route(n, true)?,
            1 | 5 => self.route(n - 1, false)?,
            2 => {
                let all = SwInterfaceDump {
                    sw_if_index: u32::MAX,
                    ..SwInterfaceDump::default()
                };
                self.dump(&all)?;
                0
            }
            3 => {
                let line = CliInband {
                    cmd: "show interface".into(),
                };
                self.ask::<_, CliInbandReply>(&line)?.retval
            }
            6 => {
                let look = IpRouteLookup {
                    prefix: prefix(0x0A00_0000, 32),
                    ..IpRouteLookup::default()
                };
                self.ask::<_, IpRouteLookupReply>(&look)?.retval
            }
            _ => {
                self.ask::<_, ShowVersionReply>(&ShowVersion::default())?
                    .retval
            }
        };
        if retval != 0 {
            refused.push(format!("call {n} was refused with {retval}"));
        }
        Ok(())
    }

    fn route(&mut self, n: u64, is_add: bool) -> Result<i32, BenchError> {
        let address = 0x0A00_0000 | (n as u32 % ROUTES) << 8;
        let hop: std::net::IpAddr = super::HOP.into();
        let path = FibPath {
            sw_if_index: super::SINK,
            weight: 1,
            nh: FibPathNh {
                address: AddressUnion::new(hop),
                ..FibPathNh::default()
            },
            ..FibPath::default()
        };
        let change = IpRouteAddDel {
            is_add,
            is_multipath: false,
            route: IpRoute {
                prefix: prefix(address, 24),
                paths: vec![path],
                ..IpRoute::default()
            },
        };
        Ok(self.ask::<_, IpRouteAddDelReply>(&change)?.retval)
    }
}

fn prefix(address: u32, len: u8) -> Prefix {
    Prefix::new(std::net::Ipv4Addr::from(address).into(), len)
}
