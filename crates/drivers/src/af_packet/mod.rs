//! `af_packet`: an existing Linux interface, in VPP's words a "host-interface" of kind "af-packet".
//!
//! Owns the packet sockets on one interface, one to receive per queue and one to send per worker,
//! each with a ring shared with the kernel, and gives the interface back as it was found.
//! Follows packet(7) and the kernel's `Documentation/networking/packet_mmap.rst`.
//!
//! Three choices carry it:
//!
//! - **Ring version 2 rather than 3.** Version 3 hands over a block of packets when it is full or when
//!   a timer of at least 1 ms fires; version 2 hands over each packet at once. Measured between the
//!   ends of a veth pair, from send to user space at 200 to 10,000 packets/s: 6 to 18 microseconds
//!   (median) with version 2, 515 to 541 with version 3 at its shortest timeout. A ping crosses a
//!   router twice.
//! - **Small slots, and the socket queue for what does not fit.** A local TCP sends super-frames of up
//!   to 64 KiB through a veth. Slots that large would cost 64 KiB a packet; instead the kernel is
//!   asked to queue a whole copy of any frame longer than a slot (`PACKET_COPY_THRESH`).
//! - **`PACKET_VNET_HDR`.** Each received frame carries what the kernel knows of it: where a checksum
//!   is still to be completed, and the exact segment size of a super-frame. Guessing either from the
//!   packet would break TCP behind a smaller path MTU, or inside a tunnel.

pub(crate) mod checksum;
mod ring;
pub(crate) mod rx;
pub(crate) mod segment;
pub(crate) mod sys;
#[cfg(test)]
mod tests;
mod tx;

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parshall_device::{Device, DeviceError, DeviceInfo, Duplex, Hardware, Queues};
use parshall_linux::{Net, NetNs, Offload};

use crate::host::HostHardware;
use crate::taken::{ETHERNET, Taken, failed};
use rx::PacketRx;
use tx::PacketTx;

/// A send slot takes at least this frame, so that the MTU can grow to jumbo size later.
const JUMBO_FRAME: u32 = 9216 + ETHERNET;
/// Memory of one receive ring where the configuration does not say: 4,854 slots at MTU 1500.
const RX_RING_BYTES: usize = 8 << 20;
/// Slots of one send ring.
const TX_SLOTS: usize = 512;
/// Offloads that join received frames. What they join would only be cut again here.
const JOINING: [Offload; 2] = [Offload::Gro, Offload::Lro];

/// Which interface to take, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AfPacketConfig {
    /// Name of the Linux interface.
    pub host_if: String,
    /// Namespace it is in: a name, a path or `pid:NUMBER`; `None` = the process's own.
    pub host_ns: Option<String>,
    /// Our MAC address. One that differs from the interface's keeps the kernel's own stack from
    /// looking at our packets, and makes the interface promiscuous. `None` = the interface's.
    pub mac: Option<[u8; 6]>,
    /// Receive queues, flows spread over them by hash; 0 = one for each worker.
    pub rx_queues: usize,
    /// Packets a receive queue can hold; 0 = as many as fit 8 MiB.
    pub rx_slots: usize,
}

/// A Linux interface: the control side.
#[derive(Debug)]
pub struct AfPacket {
    /// Given back first of all.
    taken: Taken,
    config: AfPacketConfig,
    ns: NetNs,
    /// Socket that holds the promiscuous membership: the kernel ends it with the socket.
    control: OwnedFd,
    mac: [u8; 6],
    /// Promiscuous because it was asked for, and because of a MAC address of our own.
    promiscuous: bool,
    member: bool,
    /// Largest frame the send slots take, once there are any.
    slot_frame: Option<u32>,
    rx_queues: usize,
    tx_queues: usize,
}

impl AfPacket {
    /// Takes the interface. Its MTU, state and addresses stay as they are until a setting changes
    /// them; joining of received frames (GRO, LRO) is turned off.
    ///
    /// # Errors
    /// When there is no such interface, or without `CAP_NET_RAW`.
    pub fn open(config: AfPacketConfig) -> Result<AfPacket, DeviceError> {
        let ns = match &config.host_ns {
            Some(spec) => NetNs::open(spec),
            None => NetNs::current(),
        }
        .map_err(failed)?;
        let net = Net::in_ns(&ns).map_err(failed)?;
        let before = net.link(&config.host_if).map_err(failed)?;
        let control = ns.run(|| sys::socket(&config.host_if)).map_err(failed)??;
        let mac = config.mac.unwrap_or(before.mac);
        let mut device = AfPacket {
            ns,
            taken: Taken::new(net, before),
            control,
            mac,
            promiscuous: false,
            member: false,
            slot_frame: None,
            rx_queues: 0,
            tx_queues: 0,
            config,
        };
        device.turn_off_joining();
        device.apply_promiscuous()?;
        Ok(device)
    }

    /// Turns off what joins frames. A refusal is no error: joined frames carry their segment size and
    /// are cut again on arrival, it only costs time.
    fn turn_off_joining(&mut self) {
        for offload in JOINING {
            self.taken.turn_off(&self.config.host_if, offload);
        }
    }

    fn apply_promiscuous(&mut self) -> Result<(), DeviceError> {
        let wanted = self.promiscuous || self.mac != self.taken.before.mac;
        if wanted != self.member {
            sys::set_promiscuous(
                &self.control,
                &self.config.host_if,
                self.taken.before.index,
                wanted,
            )?;
            self.member = wanted;
        }
        Ok(())
    }

    fn rx_queue(&self) -> Result<(OwnedFd, ring::Ring), DeviceError> {
        let name = &self.config.host_if;
        let fd = self.ns.run(|| sys::socket(name)).map_err(failed)??;
        let frame = self.taken.max_frame.load(Ordering::Relaxed);
        let slot = ring::rx_slot(frame as usize);
        let slots = if self.config.rx_slots == 0 {
            RX_RING_BYTES / slot
        } else {
            self.config.rx_slots
        };
        let ring = sys::receive_ring(&fd, name, slot, slots.max(8))?;
        sys::bind(&fd, name, self.taken.before.index, true)?;
        Ok((fd, ring))
    }

    fn tx_queue(&self, frame: u32) -> Result<PacketTx, DeviceError> {
        let name = &self.config.host_if;
        let fd = self.ns.run(|| sys::socket(name)).map_err(failed)??;
        let ring = sys::send_ring(&fd, name, ring::tx_slot(frame as usize), TX_SLOTS)?;
        sys::bind(&fd, name, self.taken.before.index, false)?;
        Ok(PacketTx::new(fd, ring, Arc::clone(&self.taken.max_frame)))
    }
}

impl Device for AfPacket {
    fn info(&self) -> DeviceInfo {
        let link = self.taken.link();
        let speed = self.taken.net.speed(&link.name).unwrap_or_default();
        DeviceInfo {
            kind: "af-packet",
            mac: self.mac,
            max_frame: self.taken.max_frame.load(Ordering::Relaxed),
            speed: speed.bits_per_second,
            duplex: match speed.duplex {
                parshall_linux::Duplex::Full => Duplex::Full,
                parshall_linux::Duplex::Half => Duplex::Half,
                parshall_linux::Duplex::Unknown => Duplex::Unknown,
            },
            link_up: link.has_carrier(),
            os_index: (link.index != 0).then_some(link.index),
            rx_queues: self.rx_queues,
            tx_queues: self.tx_queues,
            detail: format!(
                "host-if {} in {}, packet ring v2",
                self.config.host_if,
                self.ns.label()
            ),
        }
    }

    fn hardware(&self) -> Option<Arc<dyn Hardware>> {
        // A namespace that cannot be entered any more says nothing.
        let net = Net::in_ns(&self.ns).ok()?;
        Some(Arc::new(HostHardware::new(net, &self.config.host_if)))
    }

    fn queues(&mut self, if_index: u32, workers: usize) -> Result<Queues, DeviceError> {
        let wanted = if self.config.rx_queues == 0 {
            workers
        } else {
            self.config.rx_queues
        };
        let count = wanted.min(workers).max(1);
        let mut queues = Queues::default();
        let mut group = None;
        for _ in 0..count {
            let (fd, ring) = self.rx_queue()?;
            if count > 1 {
                group = Some(sys::join_fanout(&fd, &self.config.host_if, group)?);
            }
            queues.rx.push(Box::new(PacketRx::new(fd, ring, if_index)));
        }
        let frame = self
            .taken
            .max_frame
            .load(Ordering::Relaxed)
            .max(JUMBO_FRAME);
        for _ in 0..workers {
            queues.tx.push(Box::new(self.tx_queue(frame)?));
        }
        self.slot_frame = Some(frame);
        (self.rx_queues, self.tx_queues) = (count, workers);
        Ok(queues)
    }

    fn set_admin(&mut self, up: bool) -> Result<(), DeviceError> {
        let name = &self.config.host_if;
        self.taken.set_admin(name, up)
    }

    fn set_mac(&mut self, mac: [u8; 6]) -> Result<(), DeviceError> {
        // The Linux interface keeps its own: see `AfPacketConfig::mac`.
        self.mac = mac;
        self.apply_promiscuous()
    }

    fn set_max_frame(&mut self, bytes: u32) -> Result<(), DeviceError> {
        let most = self.slot_frame.unwrap_or(u32::MAX);
        let hint = "; for more, set the MTU of the Linux interface before it is taken";
        let name = &self.config.host_if;
        self.taken.set_max_frame(name, bytes, most, hint)
    }

    fn set_promiscuous(&mut self, on: bool) -> Result<(), DeviceError> {
        self.promiscuous = on;
        self.apply_promiscuous()
    }
}
