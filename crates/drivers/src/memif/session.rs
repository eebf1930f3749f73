//! One connection's way from greeting to traffic, as master or as slave.
//!
//! Takes messages, says what to answer; knows no socket and no clock. The order is that of libmemif: HELLO,
//! INIT, then regions and rings one by one, each acknowledged, CONNECT, CONNECTED. A message out of this
//! order, or a number that does not fit what was agreed on, ends the connection with a reason.

use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::link::Link;
use super::message::{
    AddRegion, AddRing, Hello, Init, MODE_ETHERNET, Message, RING_TO_MASTER, Text, VERSION,
};
use super::region::{MAX_REGIONS, Region};
use super::ring::{self, Filled, MAX_LOG2, Ring, Side};
use super::rx::RxRing;
use super::tx::TxRing;
use super::{RingStatus, Role};

/// What this program calls itself.
const PROGRAM: &str = concat!("Parshall ", env!("CARGO_PKG_VERSION"));
/// Rings start on pairs of cache lines, which processors fetch together.
const RING_ALIGN: usize = 128;

/// A message to be sent, with its descriptor.
pub(super) type Outgoing = (Message, Option<OwnedFd>);

/// Why a connection ends, as the peer is told. Empty when it told us.
#[derive(Debug)]
pub(super) struct End(pub String);

impl From<&str> for End {
    fn from(reason: &str) -> End {
        End(reason.into())
    }
}

impl From<std::io::Error> for End {
    fn from(e: std::io::Error) -> End {
        End(e.to_string())
    }
}

/// A ring that was agreed on, before it is in use.
#[derive(Debug)]
struct Agreed {
    spec: AddRing,
    doorbell: OwnedFd,
    side: Side,
}

#[derive(Debug, PartialEq, Eq, Clone, Copy)]
enum Phase {
    /// Master waits for INIT, slave for HELLO.
    Greeting,
    /// Regions and rings.
    Setup,
    /// Traffic.
    Up,
    /// No more.
    Over,
}

/// A connection.
#[derive(Debug)]
pub(super) struct Session {
    role: Role,
    phase: Phase,
    /// The interface: known to a slave from the start, to a master from INIT on.
    link: Option<Arc<Link>>,
    peer_name: String,
    /// Slave: what is still to be sent, one for each acknowledgement.
    script: VecDeque<Outgoing>,
    regions: Vec<Region>,
    to_master: Vec<Agreed>,
    to_slave: Vec<Agreed>,
    /// Once up.
    mapped: Option<Arc<Vec<Region>>>,
}

impl Session {
    /// A slave's, for its interface.
    pub fn slave(link: Arc<Link>) -> Session {
        Session::new(Role::Slave, Some(link))
    }

    /// A master's, and its greeting.
    pub fn master() -> (Session, Message) {
        let hello = Hello {
            name: Text::new(PROGRAM),
            min_version: VERSION,
            max_version: VERSION,
            max_region: MAX_REGIONS as u16 - 1,
            // Which interface is wanted, and with it how many rings it has, is not known yet.
            max_to_slave_ring: super::MAX_QUEUES as u16 - 1,
            max_to_master_ring: super::MAX_QUEUES as u16 - 1,
            max_log2_ring_size: MAX_LOG2,
        };
        (Session::new(Role::Master, None), Message::Hello(hello))
    }

    fn new(role: Role, link: Option<Arc<Link>>) -> Session {
        Session {
            role,
            phase: Phase::Greeting,
            link,
            peer_name: String::new(),
            script: VecDeque::new(),
            regions: Vec::new(),
            to_master: Vec::new(),
            to_slave: Vec::new(),
            mapped: None,
        }
    }

    /// Its interface, as far as known.
    pub fn link(&self) -> Option<&Arc<Link>> {
        self.link.as_ref()
    }
    /// Whether there is traffic.
    pub fn is_up(&self) -> bool {
        self.phase == Phase::Up
    }
    /// Whether shared memory was taken away.
    pub fn has_lost_memory(&self) -> bool {
        let lost = |regions: &Arc<Vec<Region>>| regions.iter().any(Region::is_lost);
        self.mapped.as_ref().is_some_and(lost)
    }

    /// Takes a message. `wanted` finds the interface that a slave asks for, or says why not.
    ///
    /// # Errors
    /// When the connection has to end.
    pub fn take(
        &mut self,
        message: Message,
        fd: Option<OwnedFd>,
        wanted: impl FnOnce(&Init) -> Result<Arc<Link>, &'static str>,
    ) -> Result<Option<Outgoing>, End> {
        match (message, self.role, self.phase) {
            (Message::Disconnect { reason, .. }, _, _) => {
                let said = format!("peer: {reason}");
                if let Some(link) = &self.link {
                    link.status().last_end = Some(said);
                }
                Err(End(String::new()))
            }
            (Message::Hello(h), Role::Slave, Phase::Greeting) => self.greeted(&h).map(Some),
            (Message::Ack, Role::Slave, Phase::Setup) => Ok(self.script.pop_front()),
            (Message::Connected(name), Role::Slave, Phase::Setup) if self.script.is_empty() => {
                self.start(&name)?;
                Ok(None)
            }
            (Message::Init(i), Role::Master, Phase::Greeting) => {
                self.check_init(&i)?;
                self.link = Some(wanted(&i)?);
                self.peer_name = i.name.to_string();
                self.phase = Phase::Setup;
                Ok(Some((Message::Ack, None)))
            }
            (Message::AddRegion(r), Role::Master, Phase::Setup) => {
                self.add_region(r, fd)?;
                Ok(Some((Message::Ack, None)))
            }
            (Message::AddRing(r), Role::Master, Phase::Setup) => {
                self.add_ring(r, fd)?;
                Ok(Some((Message::Ack, None)))
            }
            (Message::Connect(name), Role::Master, Phase::Setup) => {
                self.start(&name)?;
                let ours = self.link.as_ref().map_or("", |l| &l.config.name);
                Ok(Some((Message::Connected(Text::new(ours)), None)))
            }
            _ => Err(End(format!("unexpected {} message", message.name()))),
        }
    }

    /// Slave: the master's greeting. Makes region and rings as long as both ends can.
    fn greeted(&mut self, hello: &Hello) -> Result<Outgoing, End> {
        let link = self.link.clone().ok_or("no interface")?;
        if hello.min_version > VERSION || hello.max_version < VERSION {
            return Err("incompatible protocol version".into());
        }
        self.peer_name = hello.name.to_string();
        let c = &link.config;
        let most = |ours: usize, theirs: u16| ours.min(usize::from(theirs) + 1);
        let log2 = c.log2_ring_size().min(hello.max_log2_ring_size);
        let to_master = most(c.tx_queues, hello.max_to_master_ring);
        let to_slave = most(c.rx_queues, hello.max_to_slave_ring);
        let fds = self.lay_out(to_master, to_slave, log2, u32::from(c.buffer_size))?;
        self.write_script(fds)?;
        self.phase = Phase::Setup;
        let init = Init {
            version: VERSION,
            id: c.id,
            mode: MODE_ETHERNET,
            secret: Text::new(c.secret.as_deref().unwrap_or("")),
            name: Text::new(PROGRAM),
        };
        Ok((Message::Init(init), None))
    }

    /// Makes the region: all rings, then the buffers of one ring after those of the other.
    fn lay_out(
        &mut self,
        to_master: usize,
        to_slave: usize,
        log2: u8,
        size: u32,
    ) -> Result<OwnedFd, End> {
        let count = to_master + to_slave;
        let ring_bytes = ring::bytes(log2).next_multiple_of(RING_ALIGN);
        let buffers_at = (count * ring_bytes).next_multiple_of(4096);
        // An odd number of cache lines apart, so that first lines spread over all sets of the caches.
        let stride = ((size as usize).div_ceil(64) | 1) * 64;
        let per_ring = stride << log2;
        let total = buffers_at + count * per_ring;
        if u32::try_from(total).is_err() {
            return Err("rings times buffers are more than 4 GiB".into());
        }
        let (region, fd) = Region::make(total)?;
        for n in 0..count {
            let offset = (buffers_at + n * per_ring) as u32;
            let base = region.span(offset, per_ring as u32).ok_or("layout")?;
            let agreed = Agreed {
                spec: AddRing {
                    flags: if n < to_master { RING_TO_MASTER } else { 0 },
                    index: if n < to_master { n } else { n - to_master } as u16,
                    region: 0,
                    offset: (n * ring_bytes) as u32,
                    log2_ring_size: log2,
                    private_hdr_size: 0,
                },
                doorbell: eventfd()?,
                side: Side::Slave { base, stride, size },
            };
            if n < to_master {
                self.to_master.push(agreed);
            } else {
                self.to_slave.push(agreed);
            }
        }
        self.regions = vec![region];
        self.fill_descriptors(buffers_at, per_ring, stride, size)?;
        Ok(fd)
    }

    /// Says in each descriptor where its buffer is.
    fn fill_descriptors(
        &mut self,
        buffers_at: usize,
        per_ring: usize,
        stride: usize,
        size: u32,
    ) -> Result<(), End> {
        let regions = Arc::new(std::mem::take(&mut self.regions));
        for (n, agreed) in self.to_master.iter().chain(&self.to_slave).enumerate() {
            let ring = Ring::new(&regions, &agreed.spec)?;
            ring.clear();
            for i in 0..ring.size() {
                let offset = buffers_at + n * per_ring + usize::from(i) * stride;
                let empty = Filled {
                    flags: 0,
                    region: 0,
                    length: size,
                };
                ring.lay(i, empty, offset as u32);
            }
        }
        self.regions = Arc::try_unwrap(regions).unwrap_or_default();
        Ok(())
    }

    /// Slave: what is to be said after INIT.
    fn write_script(&mut self, memory: OwnedFd) -> Result<(), End> {
        let size = self.regions.first().map_or(0, Region::len) as u64;
        let region = AddRegion { index: 0, size };
        self.script
            .push_back((Message::AddRegion(region), Some(memory)));
        for agreed in self.to_master.iter().chain(&self.to_slave) {
            let bell = agreed.doorbell.try_clone()?;
            self.script
                .push_back((Message::AddRing(agreed.spec), Some(bell)));
        }
        let ours = self.link.as_ref().map_or("", |l| &l.config.name);
        self.script
            .push_back((Message::Connect(Text::new(ours)), None));
        Ok(())
    }

    /// Master: whether we speak alike.
    fn check_init(&self, init: &Init) -> Result<(), End> {
        if init.version != VERSION {
            return Err("incompatible protocol version".into());
        }
        if init.mode != MODE_ETHERNET {
            return Err("only mode ethernet is supported".into());
        }
        Ok(())
    }

    /// Master: a region of the slave's.
    fn add_region(&mut self, r: AddRegion, fd: Option<OwnedFd>) -> Result<(), End> {
        let fd = fd.ok_or("region without a descriptor")?;
        if usize::from(r.index) != self.regions.len() || self.regions.len() >= MAX_REGIONS {
            return Err("region index out of order".into());
        }
        self.regions.push(Region::map(&fd, r.size)?);
        Ok(())
    }

    /// Master: a ring of the slave's.
    fn add_ring(&mut self, spec: AddRing, fd: Option<OwnedFd>) -> Result<(), End> {
        let doorbell = fd.ok_or("ring without a descriptor")?;
        let config = &self.link.as_ref().ok_or("no interface")?.config;
        let (rings, most) = if spec.to_master() {
            (&mut self.to_master, config.rx_queues)
        } else {
            (&mut self.to_slave, config.tx_queues)
        };
        if usize::from(spec.index) != rings.len() {
            return Err("ring index out of order".into());
        }
        if rings.len() >= most {
            return Err("more rings than this interface has queues".into());
        }
        if spec.private_hdr_size != 0 {
            return Err("private headers are not supported".into());
        }
        check_doorbell(&doorbell)?;
        rings.push(Agreed {
            spec,
            doorbell,
            side: Side::Master,
        });
        Ok(())
    }

    /// Puts the rings where the workers' queues find them.
    fn start(&mut self, peer_if: &Text<32>) -> Result<(), End> {
        let link = self.link.clone().ok_or("no interface")?;
        let regions = Arc::new(std::mem::take(&mut self.regions));
        let (receive, send) = match self.role {
            Role::Master => (&mut self.to_master, &mut self.to_slave),
            Role::Slave => (&mut self.to_slave, &mut self.to_master),
        };
        let (receive, send) = (std::mem::take(receive), std::mem::take(send));
        let mut rings = Vec::new();
        let mut made = |a: &Agreed, receive: bool| -> Result<Ring, End> {
            let ring = Ring::new(&regions, &a.spec)?;
            if !ring.is_marked() {
                return Err("ring without its cookie".into());
            }
            rings.push(RingStatus::new(&a.spec, receive, ring.clone()));
            Ok(ring)
        };
        let (mut rx, mut tx) = (Vec::new(), Vec::new());
        for a in receive {
            rx.push((made(&a, true)?, a));
        }
        for a in send {
            tx.push((made(&a, false)?, a));
        }
        link.tx_rings.store(tx.len(), Ordering::Relaxed);
        for (place, (ring, a)) in link.tx.iter().zip(tx) {
            place.put(Some(TxRing::new(ring, a.side, a.doorbell)));
        }
        for (place, (ring, a)) in link.rx.iter().zip(rx) {
            place.listen(a.doorbell.as_fd(), true)?;
            place.ring.put(Some(RxRing::new(ring, a.side, a.doorbell)));
        }
        self.phase = Phase::Up;
        // Complaints about the last connection are none about this one.
        let _ = link.take_trouble();
        let mut status = link.status();
        status.peer_name = std::mem::take(&mut self.peer_name);
        status.peer_interface = peer_if.to_string();
        status.regions = regions.iter().map(Region::len).collect();
        status.rings = rings;
        status.connects += 1;
        drop(status);
        self.mapped = Some(regions);
        link.up.store(true, Ordering::Release);
        Ok(())
    }

    /// Takes the rings away from the workers.
    pub fn stop(&mut self) {
        let Some(link) = self.link.as_ref().filter(|_| self.phase == Phase::Up) else {
            return;
        };
        self.phase = Phase::Over;
        link.up.store(false, Ordering::Release);
        for place in &link.rx {
            place.take_away();
        }
        for place in &link.tx {
            place.put(None);
        }
        link.tx_rings.store(0, Ordering::Relaxed);
        let mut status = link.status();
        status.rings.clear();
        status.regions.clear();
        status.peer_name.clear();
        status.peer_interface.clear();
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.stop();
    }
}

/// An eventfd for a ring of ours.
pub(super) fn eventfd() -> std::io::Result<OwnedFd> {
    // SAFETY: eventfd takes no pointers.
    let fd = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
    if fd < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: the call just made this descriptor and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Makes sure that a descriptor of the peer's is an eventfd: a worker is going to signal it or sleep on it, and
/// what a file of another kind does then may be the peer's choice (FUSE).
fn check_doorbell(fd: &OwnedFd) -> Result<(), End> {
    let link = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let is = std::fs::read_link(link)?;
    if is.as_os_str() != "anon_inode:[eventfd]" {
        return Err("interrupt descriptor is no eventfd".into());
    }
    Ok(())
}
