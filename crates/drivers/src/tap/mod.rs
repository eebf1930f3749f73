//! `tap`: a virtual Ethernet cable to the kernel, in VPP's words a "virtio" interface.
//!
//! Owns the tap device: its host side (namespace, name, MAC, MTU, addresses, routes) and one queue
//! pair per worker. The device has no life of its own: it vanishes when this one is dropped.
//! Follows the kernel's `Documentation/networking/tuntap.rst`.
//!
//! The host may leave checksums to us and hand over super-frames of up to 64 KiB (`TUNSETOFFLOAD`): they are
//! cut into segments here, by what its `virtio_net_hdr` says. A tap cannot slow its host down, it can only
//! lose what does not fit into its queue, which is counted in frames: with super-frames it holds thirty
//! times as much, and a TCP on the host need not send anything twice. Ordinary and jumbo frames are read and
//! written straight from and to buffer chains.

mod rx;
mod sys;
#[cfg(test)]
mod tests;
mod tx;

use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parshall_device::{Device, DeviceError, DeviceInfo, Duplex, Queues};
use parshall_linux::{IpPrefix, Net, NetNs, Route};

use rx::TapRx;
use tx::TapTx;

/// Bytes of an Ethernet header: frame length = MTU + this.
const ETHERNET: u32 = 14;
/// Smallest frame that must be possible: the smallest MTU of IPv4 (RFC 791).
const MIN_FRAME: u32 = 68 + ETHERNET;
/// The kernel's largest tap frame.
const MAX_FRAME: u32 = 65_535;

/// How to make a tap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TapConfig {
    /// Name of the host side; `None` = the kernel's next free `tapN`.
    pub host_if: Option<String>,
    /// Namespace of the host side: a name, a path or `pid:NUMBER`; `None` = the process's own.
    pub host_ns: Option<String>,
    /// MAC address of the host side; `None` = the kernel's choice.
    pub host_mac: Option<[u8; 6]>,
    /// MTU of the host side in bytes, and with it the largest frame (MTU + 14); `None` = 1500.
    pub host_mtu: Option<u32>,
    /// Linux bridge that the host side is a port of.
    pub host_bridge: Option<String>,
    /// Packets from Linux that may wait for us; `None` = the kernel's choice.
    pub rx_ring: Option<u16>,
    /// Addresses of the host side.
    pub host_addrs: Vec<IpPrefix>,
    /// Next hops of the host's default routes, one per address family.
    pub host_gateways: Vec<IpAddr>,
    /// MAC address of our side.
    pub mac: [u8; 6],
    /// Receive queues; 0 = one for each worker.
    pub rx_queues: usize,
}

/// A tap: the control side.
#[derive(Debug)]
pub struct Tap {
    /// The first queue. It keeps the device alive until the workers' queues exist, and after.
    fd: Arc<OwnedFd>,
    ns: NetNs,
    net: Net,
    name: String,
    mac: [u8; 6],
    max_frame: Arc<AtomicU32>,
    wanted_queues: usize,
    rx_queues: usize,
    tx_queues: usize,
}

fn failed(e: impl std::fmt::Display) -> DeviceError {
    DeviceError(e.to_string())
}

impl Tap {
    /// Makes the device and its host side. The host side is up; it has a carrier once the device is
    /// brought up with [`Device::set_admin`].
    ///
    /// # Errors
    /// When `/dev/net/tun` is missing or refused, the name is taken, or a host setting is refused;
    /// nothing stays behind then.
    pub fn open(config: TapConfig) -> Result<Tap, DeviceError> {
        let ns = match &config.host_ns {
            Some(spec) => NetNs::open(spec),
            None => NetNs::current(),
        }
        .map_err(failed)?;
        let wanted = config.host_if.as_deref();
        let (fd, name) = ns.run(|| sys::create(wanted)).map_err(failed)??;
        let tap = Tap {
            fd: Arc::new(fd),
            net: Net::in_ns(&ns).map_err(failed)?,
            ns,
            name,
            mac: config.mac,
            max_frame: Arc::new(AtomicU32::new(1500 + ETHERNET)),
            wanted_queues: config.rx_queues,
            rx_queues: 0,
            tx_queues: 0,
        };
        tap.set_up_host(&config)?;
        Ok(tap)
    }

    fn set_up_host(&self, config: &TapConfig) -> Result<(), DeviceError> {
        sys::set_carrier(&self.fd, false)?;
        if let Some(mac) = config.host_mac {
            self.net.set_mac(&self.name, mac).map_err(failed)?;
        }
        if let Some(mtu) = config.host_mtu {
            self.set_host_mtu(mtu.saturating_add(ETHERNET))?;
        }
        if let Some(packets) = config.rx_ring {
            // What waits for us waits in the device's transmit queue, as Linux sees it.
            let set = self.net.set_tx_queue_len(&self.name, packets.into());
            set.map_err(failed)?;
        }
        if let Some(bridge) = &config.host_bridge {
            self.net.set_master(&self.name, bridge).map_err(failed)?;
        }
        for addr in &config.host_addrs {
            self.net.add_addr(&self.name, *addr).map_err(failed)?;
        }
        self.net.set_up(&self.name).map_err(failed)?;
        for next_hop in &config.host_gateways {
            let route = Route::default_via(*next_hop).dev(&self.name);
            self.net.add_route(&route).map_err(failed)?;
        }
        Ok(())
    }

    fn set_host_mtu(&self, frame: u32) -> Result<(), DeviceError> {
        if !(MIN_FRAME..=MAX_FRAME).contains(&frame) {
            return Err(DeviceError(format!(
                "cannot carry frames of {frame} bytes on tap \"{}\": the range is {MIN_FRAME} to {MAX_FRAME} \
                 (MTU {} to {})",
                self.name,
                MIN_FRAME - ETHERNET,
                MAX_FRAME - ETHERNET,
            )));
        }
        self.net
            .set_mtu(&self.name, frame - ETHERNET)
            .map_err(failed)?;
        self.max_frame.store(frame, Ordering::Relaxed);
        Ok(())
    }

    /// Name of the host side.
    pub fn host_if(&self) -> &str {
        &self.name
    }
}

impl Device for Tap {
    fn info(&self) -> DeviceInfo {
        let link = self.net.link(&self.name).unwrap_or_default();
        DeviceInfo {
            kind: "virtio",
            mac: self.mac,
            max_frame: self.max_frame.load(Ordering::Relaxed),
            speed: link.speed,
            duplex: if link.speed == 0 {
                Duplex::Unknown
            } else {
                Duplex::Full
            },
            link_up: link.has_carrier(),
            os_index: (link.index != 0).then_some(link.index),
            rx_queues: self.rx_queues,
            tx_queues: self.tx_queues,
            detail: format!("tap host-if {} in {}", self.name, self.ns.label()),
        }
    }

    fn queues(&mut self, if_index: u32, workers: usize) -> Result<Queues, DeviceError> {
        let limit = if self.wanted_queues == 0 {
            usize::MAX
        } else {
            self.wanted_queues
        };
        let pairs = workers.min(limit).max(1);
        // The kernel spreads flows over all attached queues, so each one made must have a reader.
        let mut fds = vec![Arc::clone(&self.fd)];
        for _ in 1..pairs {
            let fd = self.ns.run(|| sys::attach(&self.name)).map_err(failed)??;
            fds.push(Arc::new(fd));
        }
        let mut queues = Queues::default();
        for fd in &fds {
            queues.rx.push(Box::new(TapRx::new(
                Arc::clone(fd),
                if_index,
                Arc::clone(&self.max_frame),
            )));
        }
        for worker in 0..workers {
            // Writing to one queue from two workers is safe: the kernel takes whole frames.
            queues
                .tx
                .push(Box::new(TapTx::new(Arc::clone(&fds[worker % pairs]))));
        }
        (self.rx_queues, self.tx_queues) = (pairs, workers);
        Ok(queues)
    }

    fn set_admin(&mut self, up: bool) -> Result<(), DeviceError> {
        sys::set_carrier(&self.fd, up)
    }

    fn set_mac(&mut self, mac: [u8; 6]) -> Result<(), DeviceError> {
        // Our end is not known to the kernel; it learns the address by ARP like any neighbour's.
        self.mac = mac;
        Ok(())
    }

    fn set_max_frame(&mut self, bytes: u32) -> Result<(), DeviceError> {
        self.set_host_mtu(bytes)
    }

    fn set_promiscuous(&mut self, _on: bool) -> Result<(), DeviceError> {
        // A cable has no filter: all that the host sends arrives.
        Ok(())
    }
}
