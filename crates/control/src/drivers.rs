//! Making devices: what can be asked for, and the factory that asks the drivers.
//!
//! The factory is a trait so that a configuration can be rehearsed without touching the system: a model's
//! factory makes devices that are there and do nothing.

use std::net::IpAddr;
use std::path::PathBuf;

use parshall_device::Device;
use parshall_drivers::af_packet::{AfPacket, AfPacketConfig};
use parshall_drivers::af_xdp::{AfXdp, AfXdpConfig};
use parshall_drivers::loopback::LoopbackDevice;
use parshall_drivers::memif::{Hub, Memif, MemifConfig, Role};
use parshall_drivers::pcap::{PcapDevice, PcapOptions};
use parshall_drivers::pg::{PgDevice, PgHandle, Speed};
use parshall_drivers::tap::{Tap, TapConfig};
use parshall_linux::IpPrefix;

use crate::error::{Error, Result};
use crate::prefix::IpNet;
use crate::virtual_interface::VirtualKind;

/// An interface to be made.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceSpec {
    /// Number in its name; `None` = the lowest free one.
    pub instance: Option<u32>,
    /// Name, in place of the one its kind and number give.
    pub name: Option<String>,
    /// Our Ethernet address; `None` = the driver's choice.
    pub mac: Option<[u8; 6]>,
    /// Kind and what that needs.
    pub kind: DeviceKind,
}

/// The kinds of interface.
#[derive(Clone, Debug, PartialEq)]
pub enum DeviceKind {
    /// Packet generator.
    Pg,
    /// Loopback.
    Loopback,
    /// Files.
    Pcap {
        /// File that is received.
        rx: Option<PathBuf>,
        /// File that what is sent is written to.
        tx: Option<PathBuf>,
        /// Start again at the end.
        looping: bool,
        /// With the gaps recorded, divided by this; `None` = as fast as it goes.
        speed: Option<f64>,
    },
    /// A tap to the kernel.
    Tap(TapSpec),
    /// A Linux interface.
    AfPacket {
        /// Its name.
        host_if: String,
        /// Its namespace.
        host_ns: Option<String>,
        /// Receive queues, 0 = one a worker.
        queues: usize,
    },
    /// Shared memory with another process.
    Memif(MemifSpec),
    /// A Linux interface by AF_XDP.
    AfXdp(AfXdpConfig),
    /// None at all: made of what other interfaces send and receive.
    Virtual(VirtualKind),
}

/// The host side of a tap.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TapSpec {
    /// Its name.
    pub host_if: Option<String>,
    /// Its namespace.
    pub host_ns: Option<String>,
    /// Its Ethernet address.
    pub host_mac: Option<[u8; 6]>,
    /// Its MTU.
    pub host_mtu: Option<u32>,
    /// The Linux bridge that it is a port of.
    pub host_bridge: Option<String>,
    /// Packets that may wait to be received.
    pub rx_ring: Option<u16>,
    /// Packets that may wait to be sent: kept to be told again, for Linux takes them at once.
    pub tx_ring: Option<u16>,
    /// Its addresses.
    pub host_addrs: Vec<(IpAddr, u8)>,
    /// Its default routes.
    pub host_gateways: Vec<IpAddr>,
    /// Receive queues, 0 = one a worker.
    pub queues: usize,
}

/// A memif interface.
#[derive(Clone, Debug, PartialEq)]
pub struct MemifSpec {
    /// Number of its socket.
    pub socket_id: u32,
    /// Path of that socket.
    pub socket: String,
    /// Its number on the socket.
    pub id: u32,
    /// Which end it is.
    pub role: Role,
    /// Descriptors of each ring.
    pub ring_size: u16,
    /// Bytes of each buffer.
    pub buffer_size: u16,
    /// Rings to receive from.
    pub rx_queues: usize,
    /// Rings to send to.
    pub tx_queues: usize,
    /// What a slave has to know.
    pub secret: Option<String>,
}

impl Default for MemifSpec {
    fn default() -> Self {
        let usual = MemifConfig::new("", "", 0, Role::Master);
        MemifSpec {
            socket_id: 0,
            socket: usual.socket,
            id: usual.id,
            role: usual.role,
            ring_size: usual.ring_size,
            buffer_size: usual.buffer_size,
            rx_queues: usual.rx_queues,
            tx_queues: usual.tx_queues,
            secret: usual.secret,
        }
    }
}

impl DeviceKind {
    /// The network namespace that its Linux counterpart was said to be in.
    pub fn host_namespace(&self) -> Option<&str> {
        match self {
            DeviceKind::Tap(t) => t.host_ns.as_deref(),
            DeviceKind::AfPacket { host_ns, .. } => host_ns.as_deref(),
            DeviceKind::AfXdp(c) => c.host_ns.as_deref(),
            _ => None,
        }
    }

    /// What the names of its interfaces start with.
    pub fn stem(&self) -> &'static str {
        match self {
            DeviceKind::Pg => "pg",
            DeviceKind::Loopback => "loop",
            DeviceKind::Pcap { .. } => "pcap",
            DeviceKind::Tap(_) => "tap",
            DeviceKind::AfPacket { .. } => "host-",
            DeviceKind::Memif(_) => "memif",
            DeviceKind::AfXdp(_) => "xdp-",
            DeviceKind::Virtual(v) => v.stem(),
        }
    }
    /// The name that number `instance` gets by itself.
    pub fn default_name(&self, instance: u32) -> String {
        match self {
            DeviceKind::AfPacket { host_if, .. } => format!("host-{host_if}"),
            DeviceKind::Memif(m) => format!("memif{}/{}", m.socket_id, m.id),
            DeviceKind::AfXdp(c) => format!("xdp-{}", c.host_if),
            other => format!("{}{instance}", other.stem()),
        }
    }
    /// Its type's name in a configuration file.
    pub fn type_name(&self) -> &'static str {
        match self {
            DeviceKind::Pg => "pg",
            DeviceKind::Loopback => "loopback",
            DeviceKind::Pcap { .. } => "pcap",
            DeviceKind::Tap(_) => "tap",
            DeviceKind::AfPacket { .. } => "af_packet",
            DeviceKind::Memif(_) => "memif",
            DeviceKind::AfXdp(_) => "af_xdp",
            DeviceKind::Virtual(v) => v.type_name(),
        }
    }
    /// The graph node that its packets come in at; none comes in at the one of an interface without a device.
    pub fn input_node(&self) -> &'static str {
        match self {
            DeviceKind::Pg => "pg-input",
            DeviceKind::Loopback => "loopback-input",
            DeviceKind::Pcap { .. } => "pcap-input",
            DeviceKind::Tap(_) => "virtio-input",
            DeviceKind::AfPacket { .. } => "af-packet-input",
            DeviceKind::Memif(_) => "memif-input",
            DeviceKind::AfXdp(_) => "af-xdp-input",
            DeviceKind::Virtual(_) => "ethernet-input",
        }
    }
    /// The words of the command that deletes one.
    pub fn delete_words(&self) -> &'static str {
        match self {
            DeviceKind::Pg => "delete packet-generator interface",
            DeviceKind::Loopback => "delete loopback interface",
            DeviceKind::Pcap { .. } => "delete pcap interface",
            DeviceKind::Tap(_) => "delete tap",
            DeviceKind::AfPacket { .. } => "delete host-interface name",
            DeviceKind::Memif(_) => "delete interface memif",
            DeviceKind::AfXdp(_) => "delete interface af_xdp",
            DeviceKind::Virtual(v) => v.delete_words(),
        }
    }
}

/// A device, and the controls of its streams if it is a generator.
pub struct MadeDevice {
    /// The device.
    pub device: Box<dyn Device>,
    /// Controls of a generator.
    pub pg: Option<PgHandle>,
}

/// Makes devices.
pub trait Factory: Send {
    /// Makes a device; `instance` is the number in its name.
    ///
    /// # Errors
    /// When the driver or the system refuses.
    fn make(&mut self, spec: &DeviceSpec, instance: u32) -> Result<MadeDevice>;
}

/// The factory that asks the drivers.
#[derive(Default)]
pub struct SystemFactory {
    /// The control thread of memif, once there is a memif interface.
    memif: Option<Hub>,
}

impl Factory for SystemFactory {
    fn make(&mut self, spec: &DeviceSpec, instance: u32) -> Result<MadeDevice> {
        let device: Box<dyn Device> = match &spec.kind {
            DeviceKind::Pg => return with_mac(spec.mac, made_pg(instance)),
            DeviceKind::Loopback => {
                let made = MadeDevice {
                    device: Box::new(LoopbackDevice::new(instance)?),
                    pg: None,
                };
                return with_mac(spec.mac, made);
            }
            DeviceKind::Pcap {
                rx,
                tx,
                looping,
                speed,
            } => Box::new(PcapDevice::new(PcapOptions {
                rx: rx.clone(),
                tx: tx.clone(),
                looping: *looping,
                speed: speed.map_or(Speed::Fast, Speed::Recorded),
                mac: spec
                    .mac
                    .unwrap_or_else(|| default_mac(&spec.kind, instance)),
            })?),
            DeviceKind::Tap(tap) => Box::new(make_tap(spec, tap, instance)?),
            DeviceKind::AfPacket {
                host_if,
                host_ns,
                queues,
            } => Box::new(AfPacket::open(AfPacketConfig {
                host_if: host_if.clone(),
                host_ns: host_ns.clone(),
                mac: spec.mac,
                rx_queues: *queues,
                ..AfPacketConfig::default()
            })?),
            DeviceKind::Memif(m) => Box::new(self.make_memif(spec, m, instance)?),
            DeviceKind::AfXdp(config) => Box::new(AfXdp::open(config.clone())?),
            DeviceKind::Virtual(_) => return Err(Error::refused("it has no device")),
        };
        Ok(MadeDevice { device, pg: None })
    }
}

impl SystemFactory {
    fn make_memif(&mut self, spec: &DeviceSpec, memif: &MemifSpec, instance: u32) -> Result<Memif> {
        let hub = match &self.memif {
            Some(hub) => hub,
            None => {
                let hub = Hub::start()
                    .map_err(|e| Error::Device(format!("control thread of memif: {e}")))?;
                self.memif.insert(hub)
            }
        };
        Ok(Memif::open(hub, memif_config(spec, memif, instance))?)
    }
}

fn memif_config(spec: &DeviceSpec, memif: &MemifSpec, instance: u32) -> MemifConfig {
    let name = spec.name.clone();
    MemifConfig {
        name: name.unwrap_or_else(|| spec.kind.default_name(instance)),
        socket: memif.socket.clone(),
        id: memif.id,
        role: memif.role,
        ring_size: memif.ring_size,
        buffer_size: memif.buffer_size,
        rx_queues: memif.rx_queues,
        tx_queues: memif.tx_queues,
        mac: spec
            .mac
            .unwrap_or_else(|| default_mac(&spec.kind, instance)),
        secret: memif.secret.clone(),
    }
}

fn with_mac(mac: Option<[u8; 6]>, mut made: MadeDevice) -> Result<MadeDevice> {
    if let Some(mac) = mac {
        made.device.set_mac(mac)?;
    }
    Ok(made)
}

fn made_pg(instance: u32) -> MadeDevice {
    let (device, handle) = PgDevice::new(instance);
    MadeDevice {
        device: Box::new(device),
        pg: Some(handle),
    }
}

fn make_tap(spec: &DeviceSpec, tap: &TapSpec, instance: u32) -> Result<Tap> {
    let mut host_addrs = Vec::with_capacity(tap.host_addrs.len());
    for (addr, len) in &tap.host_addrs {
        let prefix = IpPrefix::new(*addr, *len)
            .ok_or_else(|| Error::refused(format!("{addr}/{len} is not a prefix")))?;
        host_addrs.push(prefix);
    }
    Ok(Tap::open(TapConfig {
        host_if: tap.host_if.clone(),
        host_ns: tap.host_ns.clone(),
        host_mac: tap.host_mac,
        host_mtu: tap.host_mtu,
        host_bridge: tap.host_bridge.clone(),
        rx_ring: tap.rx_ring,
        host_addrs,
        host_gateways: tap.host_gateways.clone(),
        mac: spec
            .mac
            .unwrap_or_else(|| default_mac(&spec.kind, instance)),
        rx_queues: tap.queues,
    })?)
}

/// A locally administered address that differs between processes, kinds and instances on one host.
fn default_mac(kind: &DeviceKind, instance: u32) -> [u8; 6] {
    let [.., a, b] = std::process::id().to_be_bytes();
    let [.., c, d] = instance.to_be_bytes();
    let k = match kind {
        DeviceKind::Tap(_) => 0x10,
        DeviceKind::Memif(_) => 0x30,
        _ => 0x20,
    };
    [0x02, 0xfe, a, b, c ^ k, d]
}

/// A factory whose devices are only there.
pub struct ModelFactory;

impl Factory for ModelFactory {
    fn make(&mut self, spec: &DeviceSpec, instance: u32) -> Result<MadeDevice> {
        check(spec)?;
        let mut made = match &spec.kind {
            DeviceKind::Pg => made_pg(instance),
            _ => MadeDevice {
                pg: None,
                ..made_pg(instance)
            },
        };
        let host_mtu = match &spec.kind {
            DeviceKind::Tap(t) => t.host_mtu,
            _ => None,
        };
        if let Some(mtu) = host_mtu {
            made.device.set_max_frame(mtu.saturating_add(14))?;
        }
        with_mac(spec.mac, made)
    }
}

/// What can be said of a device without asking the system.
fn check(spec: &DeviceSpec) -> Result<()> {
    let host_name = match &spec.kind {
        DeviceKind::AfPacket { host_if, .. } => Some(host_if),
        DeviceKind::AfXdp(c) => Some(&c.host_if),
        DeviceKind::Tap(t) => t.host_if.as_ref(),
        _ => None,
    };
    if let Some(name) = host_name
        && (name.is_empty() || name.len() > 15 || name.contains(['/', ' ']))
    {
        return Err(Error::refused(format!(
            "{name:?} cannot be the name of a Linux interface: 1 to 15 bytes without blanks and slashes"
        )));
    }
    if let DeviceKind::Memif(m) = &spec.kind {
        memif_config(spec, m, 0).check()?;
    }
    if let DeviceKind::Tap(t) = &spec.kind {
        for gateway in &t.host_gateways {
            let on_link = |(a, l): &(IpAddr, u8)| IpNet::new(*a, *l).contains(*gateway);
            if !t.host_addrs.iter().any(on_link) {
                return Err(Error::refused(format!(
                    "gateway {gateway} is in none of the host side's subnets"
                )));
            }
        }
    }
    Ok(())
}
