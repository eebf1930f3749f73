//! `af_xdp`: an existing Linux interface by AF_XDP sockets, VPP's "af_xdp" interface.
//!
//! Owns the XDP program on the interface, one socket on each of its queues, and their packet memory, and
//! gives the interface back as it was found. Follows the kernel's `Documentation/networking/af_xdp.rst`
//! and `Documentation/bpf/map_xskmap.rst`.
//!
//! What carries it:
//!
//! - **The program decides, the kernel keeps the rest.** Frames for the interface's address, broadcast
//!   and multicast are the router's while the interface is up, all frames when it is promiscuous;
//!   the others and those of queues without a socket go on to the kernel's stack.
//! - **All receive queues by default.** The device spreads flows over its queues by itself; a queue left
//!   out would hand its share of the flows to the kernel.
//! - **Packet memory of the socket's own** ([`umem`]): the device works on it without a copy where its
//!   driver can, and each packet is copied once between it and the workers' buffers.
//! - **Everything is a descriptor**: sockets, program, its attachment, promiscuity. The kernel takes all of
//!   it back when the process ends, by whatever signal.
//! - **Unfinished checksums are completed** ([`checksum`]) on interfaces whose other end is this host,
//!   because XDP has no word for them.

mod checksum;
mod error;
mod program;
mod promiscuous;
mod ring;
mod rx;
mod socket;
#[cfg(test)]
mod tests;
mod tx;
mod umem;

use std::any::Any;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use nix::errno::Errno;
use parshall_device::{Device, DeviceError, DeviceInfo, Duplex, Hardware, Queues};
use parshall_linux::{Channels, LinkInfo, Net, NetNs, Offload};

pub use parshall_linux::bpf::XdpMode;

use crate::host::HostHardware;
use crate::taken::{ETHERNET, Taken, failed};
use program::Attached;
use rx::{TAGS, XdpRx};
use socket::{Failure, Opened, Plan, Step, Tie, Xsk};
use tx::XdpTx;

/// Longest frame: jumbo size.
const JUMBO_FRAME: u32 = 9216 + ETHERNET;
/// Chunk sizes of the packet memory.
const CHUNKS: [usize; 2] = [2048, 4096];
/// Most queues of an interface.
const MAX_QUEUES: u32 = 64;
/// Packets in a receive and a transmit queue where the configuration does not say.
const RX_RING: u32 = 2048;
const TX_RING: u32 = 1024;
/// How often a queue that is busy is tried again, and after what time.
const BUSY_TRIES: u32 = 50;
const BUSY_WAIT: Duration = Duration::from_millis(10);
/// Offloads that join received frames: what is joined is longer than the MTU and cannot be taken.
const JOINING: [Offload; 2] = [Offload::Gro, Offload::Lro];
/// Drivers whose other end is this host or its hypervisor, where senders leave checksums unfinished.
const LOCAL_DRIVERS: [&str; 3] = ["veth", "tun", "virtio_net"];

/// Who copies packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CopyMode {
    /// Zero-copy where the driver has it, else copy.
    #[default]
    Auto,
    /// The kernel copies.
    Copy,
    /// Nobody: an error where the driver cannot.
    ZeroCopy,
}

/// Which interface to take, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AfXdpConfig {
    /// Name of the Linux interface.
    pub host_if: String,
    /// Namespace it is in: a name, a path or `pid:NUMBER`; `None` = the process's own.
    pub host_ns: Option<String>,
    /// Our MAC address; `None` = the interface's.
    pub mac: Option<[u8; 6]>,
    /// Receive queues, from the first on; 0 = all the interface has.
    pub rx_queues: usize,
    /// Transmit queues; 0 = one for each worker, as far as the interface has as many.
    pub tx_queues: usize,
    /// Packets a receive queue can hold, a power of two; 0 = 2048.
    pub rx_ring: u32,
    /// Packets a transmit queue can hold, a power of two; 0 = 1024.
    pub tx_ring: u32,
    /// Who copies packets between device and socket.
    pub copy: CopyMode,
    /// Where the XDP program runs; `None` = in the driver if it can.
    pub xdp: Option<XdpMode>,
    /// Busy polling of the device from the worker: packets at a time.
    pub busy_poll: Option<u16>,
}

/// A Linux interface: the control side.
pub struct AfXdp {
    /// Given back first of all.
    taken: Taken,
    config: AfXdpConfig,
    place: Place,
    /// What the driver says of its queues.
    channels: Option<Channels>,
    program: Attached,
    sockets: Vec<Arc<Xsk>>,
    /// Holds the interface promiscuous.
    member: Option<OwnedFd>,
    mac: [u8; 6],
    promiscuous: bool,
    complete: bool,
    chunk: usize,
}

/// What is known of an interface's sockets, for `show af_xdp`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AfXdpStatus {
    /// Name of the Linux interface.
    pub host_if: String,
    /// Its namespace.
    pub namespace: String,
    /// Where the XDP program runs: "native" or "generic".
    pub xdp_mode: &'static str,
    /// Number of the program in the kernel, 0 = it is attached no longer.
    pub program: u32,
    /// Receive queues the interface has; `None` where its driver does not say.
    pub device_rx_queues: Option<u32>,
    /// Packets in a receive queue.
    pub rx_ring: u32,
    /// Packets in a transmit queue.
    pub tx_ring: u32,
    /// Bytes of a chunk of packet memory.
    pub chunk: usize,
    /// Longest frame that can be set.
    pub longest_frame: u32,
    /// Budget of busy polling.
    pub busy_poll: Option<u16>,
    /// Unfinished checksums are completed.
    pub completes_checksums: bool,
    /// The sockets by queue.
    pub queues: Vec<AfXdpQueue>,
}

/// A socket, with what the kernel has counted on it since it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AfXdpQueue {
    /// Queue of the interface.
    pub queue: u32,
    /// It receives.
    pub rx: bool,
    /// It sends.
    pub tx: bool,
    /// Without a copy by the kernel.
    pub zero_copy: bool,
    /// Frames may span several chunks.
    pub multi_buffer: bool,
    /// Received frames dropped: too long for the chunks, or no chunk free.
    pub rx_dropped: u64,
    /// Received frames dropped because the receive ring was full.
    pub rx_ring_full: u64,
    /// Times a chunk was wanted and none was there.
    pub rx_fill_ring_empty: u64,
    /// Entries of the fill ring the kernel refused.
    pub rx_invalid: u64,
    /// Entries of the transmit ring the kernel refused.
    pub tx_invalid: u64,
    /// Times the kernel looked for frames to send and found none.
    pub tx_ring_empty: u64,
}

/// The namespace of the interface.
struct Place {
    ns: NetNs,
    /// It is the process's own: entering it takes no privilege.
    own: bool,
}

impl Place {
    fn open(spec: Option<&str>) -> Result<Place, DeviceError> {
        let ns = match spec {
            Some(spec) => NetNs::open(spec),
            None => NetNs::current(),
        };
        Ok(Place {
            ns: ns.map_err(failed)?,
            own: spec.is_none(),
        })
    }

    /// Runs `job` inside.
    fn run<T: Send>(&self, job: impl FnOnce() -> T + Send) -> Result<T, DeviceError> {
        if self.own {
            Ok(job())
        } else {
            self.ns.run(job).map_err(failed)
        }
    }

    fn label(&self) -> &str {
        self.ns.label()
    }
}

/// `asked` or, where that is 0, `usual`; a power of two the kernel takes.
fn ring_size(name: &str, asked: u32, usual: u32) -> Result<u32, DeviceError> {
    match asked {
        0 => Ok(usual),
        64..=32_768 if asked.is_power_of_two() => Ok(asked),
        _ => Err(error::ring_size(name, asked)),
    }
}

/// Bytes of frame that one chunk must hold so that a frame of `max_frame` with VLAN tags fits.
fn wanted(max_frame: u32) -> usize {
    max_frame as usize + TAGS
}

/// The smallest chunk that holds such a frame, or the largest there is.
fn chunk_for(max_frame: u32) -> usize {
    let fits = |c: &&usize| Xsk::one_chunk(**c) >= wanted(max_frame);
    *CHUNKS.iter().find(fits).unwrap_or(&CHUNKS[1])
}

impl AfXdp {
    /// Takes the interface: attaches the program, through which nothing comes before the interface is
    /// set up. Its MTU, state and addresses stay as they are until a setting changes them.
    ///
    /// # Errors
    /// When there is no such interface, it has another XDP program, fewer queues than asked for or a
    /// larger MTU than can be carried, the kernel has no AF_XDP, or without `CAP_NET_ADMIN`, `CAP_BPF`
    /// and `CAP_NET_RAW`.
    pub fn open(config: AfXdpConfig) -> Result<AfXdp, DeviceError> {
        let place = Place::open(config.host_ns.as_deref())?;
        let net = place.run(Net::here)?.map_err(failed)?;
        let name = config.host_if.as_str();
        let before = net.link(name).map_err(failed)?;
        let channels = net.channels(name).map_err(failed)?;
        check(&config, &before, channels)?;
        let max_frame = before.mtu.saturating_add(ETHERNET);
        let entries = channels.map_or(MAX_QUEUES, |c| c.rx.max(c.tx)).max(1);
        let program = Attached::new(&place, &before, entries, config.xdp)?;
        let driver = net.driver(name).unwrap_or_default();
        let is_local = LOCAL_DRIVERS.contains(&driver.as_str());
        let mac = config.mac.unwrap_or(before.mac);
        let mut device = AfXdp {
            complete: is_local || program.mode == XdpMode::Generic,
            place,
            taken: Taken::new(net, before),
            channels,
            program,
            sockets: Vec::new(),
            member: None,
            mac,
            promiscuous: false,
            chunk: chunk_for(max_frame),
            config,
        };
        device.turn_off_joining();
        device.apply_ownership()?;
        Ok(device)
    }

    /// Turns off what joins frames before the program sees them: LRO, and where the program runs in the
    /// stack GRO too. A refusal only means that such frames are counted as errors.
    fn turn_off_joining(&mut self) {
        let generic = self.program.mode == XdpMode::Generic;
        for offload in JOINING {
            if generic || offload == Offload::Lro {
                self.taken.turn_off(&self.config.host_if, offload);
            }
        }
    }

    /// Tells the program and the interface's filter which frames are wanted.
    fn apply_ownership(&mut self) -> Result<(), DeviceError> {
        let all = self.promiscuous || self.mac != self.taken.before.mac;
        if all && self.member.is_none() {
            let (name, index) = (&self.config.host_if, self.taken.before.index);
            let job = || promiscuous::membership(name, index);
            self.member = Some(self.place.run(job)??);
        } else if !all {
            self.member = None;
        }
        self.program.own(self.mac, self.promiscuous)
    }

    /// Longest frame the sockets carry, once there are any.
    fn longest(&self) -> u32 {
        let multi = self.sockets.iter().all(|s| s.tie.multi);
        if multi {
            JUMBO_FRAME
        } else {
            (Xsk::one_chunk(self.chunk) - TAGS) as u32
        }
    }

    /// The ways to tie a socket to its queue, best first.
    fn ties(&self) -> impl Iterator<Item = Tie> {
        let modes: &[bool] = match self.config.copy {
            CopyMode::Auto => &[true, false],
            CopyMode::Copy => &[false],
            CopyMode::ZeroCopy => &[true],
        };
        let tie = |&zero_copy| [true, false].map(|multi| Tie { zero_copy, multi });
        modes.iter().flat_map(tie)
    }

    /// Opens the socket of a queue. The kernel gives a queue free a moment after its socket was closed, so
    /// that an interface made again at once may find it busy.
    fn open_socket(&self, plan: &Plan) -> Result<Opened, Failure> {
        let mut result = self.try_socket(plan);
        for _ in 0..BUSY_TRIES {
            if !matches!(result, Err((Step::Bind, Errno::EBUSY))) {
                break;
            }
            std::thread::sleep(BUSY_WAIT);
            result = self.try_socket(plan);
        }
        result
    }

    /// Opens the socket of a queue in the best way the kernel takes.
    fn try_socket(&self, plan: &Plan) -> Result<Opened, Failure> {
        let job = || {
            let mut last = (Step::Bind, Errno::EOPNOTSUPP);
            for tie in self.ties() {
                match socket::open(plan, tie) {
                    Ok(opened) => return Ok(opened),
                    // Not in this way; some drivers answer with an errno that is the kernel's own (524).
                    Err((
                        Step::Bind,
                        e @ (Errno::EOPNOTSUPP | Errno::EINVAL | Errno::UnknownErrno),
                    )) => {
                        last = (Step::Bind, e);
                    }
                    Err(other) => return Err(other),
                }
            }
            Err(last)
        };
        let done = self.place.run(job);
        done.unwrap_or(Err((Step::Socket, Errno::EIO)))
    }

    /// How many queues receive and how many send, for `workers` workers. Without a word of the driver the
    /// number that receives is found by trying.
    fn counts(&self, workers: usize) -> (Option<usize>, usize) {
        let rx = match (self.config.rx_queues, self.channels) {
            (0, Some(c)) => Some(c.rx.clamp(1, MAX_QUEUES) as usize),
            (0, None) => None,
            (n, _) => Some(n),
        };
        let has = self.channels.map_or(rx.unwrap_or(1), |c| c.tx as usize);
        let asked = match self.config.tx_queues {
            0 => has,
            n => n,
        };
        (rx, asked.clamp(1, workers.max(1)))
    }

    fn plan(&self, queue: usize, receives: bool, sends: bool) -> Result<Plan, DeviceError> {
        let c = &self.config;
        let rx = ring_size(&c.host_if, c.rx_ring, RX_RING)?;
        let tx = ring_size(&c.host_if, c.tx_ring, TX_RING)?;
        Ok(Plan {
            index: self.taken.before.index,
            queue: queue as u32,
            rx: if receives { rx } else { 0 },
            tx: if sends { tx } else { 0 },
            chunk: self.chunk,
            busy_poll: c.busy_poll,
        })
    }

    fn add(&mut self, opened: Opened, if_index: u32, queues: &mut Queues) {
        let frame = || Arc::clone(&self.taken.max_frame);
        if let Some(rings) = opened.rx {
            let (xsk, busy) = (opened.xsk.clone(), self.config.busy_poll.is_some());
            let rx = XdpRx::new(rings, xsk, if_index, frame(), self.complete, busy);
            queues.rx.push(Box::new(rx));
        }
        if let Some(rings) = opened.tx {
            let tx = XdpTx::new(rings, opened.xsk.clone(), frame());
            queues.tx.push(Box::new(tx));
        }
        self.sockets.push(opened.xsk);
    }

    /// Whether the present MTU fits the way the sockets came to be tied.
    fn check_frame(&self) -> Result<(), DeviceError> {
        let (frame, most) = (self.taken.max_frame.load(Ordering::Relaxed), self.longest());
        if frame <= most {
            return Ok(());
        }
        Err(error::too_long(
            &self.config.host_if,
            frame - ETHERNET,
            most - ETHERNET,
            "here: more needs Linux 6.6 or later, and a driver with multi-buffer XDP",
        ))
    }

    /// What is known of the sockets now.
    pub fn status(&self) -> AfXdpStatus {
        let c = &self.config;
        let queue = |s: &Arc<Xsk>| {
            let k = s.stats();
            AfXdpQueue {
                queue: s.queue,
                rx: s.receives,
                tx: s.sends,
                zero_copy: s.is_zero_copy(),
                multi_buffer: s.tie.multi,
                rx_dropped: k.rx_dropped,
                rx_ring_full: k.rx_ring_full,
                rx_fill_ring_empty: k.rx_fill_ring_empty,
                rx_invalid: k.rx_invalid_descs,
                tx_invalid: k.tx_invalid_descs,
                tx_ring_empty: k.tx_ring_empty,
            }
        };
        AfXdpStatus {
            host_if: c.host_if.clone(),
            namespace: self.place.label().to_owned(),
            xdp_mode: self.program.mode.name(),
            program: self.taken.link().xdp_program,
            device_rx_queues: self.channels.map(|c| c.rx),
            rx_ring: ring_size("", c.rx_ring, RX_RING).unwrap_or(0),
            tx_ring: ring_size("", c.tx_ring, TX_RING).unwrap_or(0),
            chunk: self.chunk,
            longest_frame: self.longest(),
            busy_poll: c.busy_poll,
            completes_checksums: self.complete,
            queues: self.sockets.iter().map(queue).collect(),
        }
    }

    fn detail(&self) -> String {
        let zero_copy = self.sockets.first().is_some_and(|s| s.tie.zero_copy);
        let copies = if zero_copy { "zero-copy" } else { "copy mode" };
        let taken = self.sockets.iter().filter(|s| s.receives).count();
        let left = match self.channels.map(|c| c.rx as usize) {
            Some(has) if has > taken => {
                format!(", {} of its {has} queues left to the kernel", has - taken)
            }
            _ => String::new(),
        };
        format!(
            "host-if {} in {}, {} XDP, {copies}{left}",
            self.config.host_if,
            self.place.label(),
            self.program.mode.name(),
        )
    }
}

/// What can be said before anything is touched.
fn check(c: &AfXdpConfig, link: &LinkInfo, channels: Option<Channels>) -> Result<(), DeviceError> {
    let name = c.host_if.as_str();
    ring_size(name, c.rx_ring, RX_RING)?;
    ring_size(name, c.tx_ring, TX_RING)?;
    if link.xdp_program != 0 {
        return Err(error::occupied(name, link.xdp_program));
    }
    if link.mtu > JUMBO_FRAME - ETHERNET {
        let most = JUMBO_FRAME - ETHERNET;
        return Err(error::too_long(name, link.mtu, most, "bytes a packet"));
    }
    if let Some(has) = channels {
        for (asked, has, what) in [
            (c.rx_queues, has.rx, "receive"),
            (c.tx_queues, has.tx, "transmit"),
        ] {
            if asked > has as usize {
                return Err(error::too_many(name, asked, has, what));
            }
        }
    }
    Ok(())
}

impl Device for AfXdp {
    fn info(&self) -> DeviceInfo {
        let link = self.taken.link();
        let speed = self.taken.net.speed(&link.name).unwrap_or_default();
        DeviceInfo {
            kind: "af-xdp",
            mac: self.mac,
            max_frame: self.taken.max_frame.load(Ordering::Relaxed),
            speed: speed.bits_per_second,
            duplex: match speed.duplex {
                parshall_linux::Duplex::Full => Duplex::Full,
                parshall_linux::Duplex::Half => Duplex::Half,
                parshall_linux::Duplex::Unknown => Duplex::Unknown,
            },
            link_up: link.is_running(),
            os_index: (link.index != 0).then_some(link.index),
            rx_queues: self.sockets.iter().filter(|s| s.receives).count(),
            tx_queues: self.sockets.iter().filter(|s| s.sends).count(),
            detail: self.detail(),
        }
    }

    fn queues(&mut self, if_index: u32, workers: usize) -> Result<Queues, DeviceError> {
        let (rx, tx) = self.counts(workers);
        let mut queues = Queues::default();
        for queue in 0..rx.unwrap_or(MAX_QUEUES as usize).max(tx) {
            let receives = rx.is_none_or(|n| queue < n);
            let plan = self.plan(queue, receives, queue < tx)?;
            match self.open_socket(&plan) {
                Ok(opened) => self.add(opened, if_index, &mut queues),
                // The driver did not say how many there are: this many.
                Err((Step::Bind, Errno::EINVAL)) if rx.is_none() && queue > 0 => break,
                Err(e) => {
                    let only_zero_copy = self.config.copy == CopyMode::ZeroCopy;
                    return Err(error::explain(
                        e,
                        &self.config.host_if,
                        &plan,
                        only_zero_copy,
                    ));
                }
            }
        }
        self.check_frame()?;
        Ok(queues)
    }

    fn set_admin(&mut self, up: bool) -> Result<(), DeviceError> {
        let name = &self.config.host_if;
        if up {
            self.taken.set_admin(name, true)?;
        }
        for socket in self.sockets.iter().filter(|s| s.receives) {
            if up {
                self.program.give(socket)?;
            } else {
                self.program.take_away(socket)?;
            }
        }
        if !up && self.taken.link().index != 0 {
            self.taken.set_admin(name, false)?;
        }
        Ok(())
    }

    fn set_mac(&mut self, mac: [u8; 6]) -> Result<(), DeviceError> {
        // The Linux interface keeps its own, and the kernel's stack what comes for that.
        self.mac = mac;
        self.apply_ownership()
    }

    fn set_max_frame(&mut self, bytes: u32) -> Result<(), DeviceError> {
        let name = &self.config.host_if;
        self.taken.set_max_frame(name, bytes, self.longest(), "")
    }

    fn set_promiscuous(&mut self, on: bool) -> Result<(), DeviceError> {
        self.promiscuous = on;
        self.apply_ownership()
    }

    fn hardware(&self) -> Option<Arc<dyn Hardware>> {
        // A namespace that cannot be entered any more says nothing.
        let net = self.place.run(Net::here).ok()?.ok()?;
        Some(Arc::new(HostHardware::new(net, &self.config.host_if)))
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}
