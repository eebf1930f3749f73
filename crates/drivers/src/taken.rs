//! A Linux interface that a driver has taken: what was changed about it, and how it is given back as it was found.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parshall_device::DeviceError;
use parshall_linux::{LinkInfo, Net, Offload};

/// Bytes of an Ethernet header: frame length = MTU + this.
pub(crate) const ETHERNET: u32 = 14;
/// Smallest frame that must be possible: the smallest MTU of IPv4 (RFC 791).
const MIN_FRAME: u32 = 68 + ETHERNET;

/// The system's words as a device's.
pub(crate) fn failed(e: impl std::fmt::Display) -> DeviceError {
    DeviceError(e.to_string())
}

/// The interface. Given back on drop.
#[derive(Debug)]
pub(crate) struct Taken {
    /// Where it is.
    pub net: Net,
    /// As it was found.
    pub before: LinkInfo,
    /// Longest frame it carries, as its queues see it.
    pub max_frame: Arc<AtomicU32>,
    /// Offloads that were on and are off now.
    turned_off: Vec<Offload>,
}

impl Taken {
    /// Takes an interface that is like this.
    pub fn new(net: Net, before: LinkInfo) -> Taken {
        Taken {
            net,
            max_frame: Arc::new(AtomicU32::new(before.mtu.saturating_add(ETHERNET))),
            before,
            turned_off: Vec::new(),
        }
    }

    /// The interface as it is now. It goes by its index: the name may have been changed under us.
    pub fn link(&self) -> LinkInfo {
        self.net
            .link_by_index(self.before.index)
            .unwrap_or_default()
    }

    /// Turns an offload off if it is on, until the interface is given back. The driver lives with a refusal.
    pub fn turn_off(&mut self, name: &str, offload: Offload) {
        let on = self.net.offload(name, offload).unwrap_or(false);
        if on && self.net.set_offload(name, offload, false).is_ok() {
            self.turned_off.push(offload);
        }
    }

    /// Brings it up or down.
    pub fn set_admin(&self, name: &str, up: bool) -> Result<(), DeviceError> {
        let set = if up {
            self.net.set_up(name)
        } else {
            self.net.set_down(name)
        };
        set.map_err(failed)
    }

    /// Makes it carry frames of up to `bytes`, of which the driver can do `most`. `hint` ends the error.
    pub fn set_max_frame(
        &self,
        name: &str,
        bytes: u32,
        most: u32,
        hint: &str,
    ) -> Result<(), DeviceError> {
        if !(MIN_FRAME..=most).contains(&bytes) {
            return Err(DeviceError(format!(
                "cannot carry frames of {bytes} bytes on interface \"{name}\": the range is {MIN_FRAME} to {most}{hint}"
            )));
        }
        self.net.set_mtu(name, bytes - ETHERNET).map_err(failed)?;
        self.max_frame.store(bytes, Ordering::Relaxed);
        Ok(())
    }
}

impl Drop for Taken {
    /// Gives the interface back as it was found. Nobody is left to hear of a refusal, and an interface
    /// that is gone needs nothing.
    fn drop(&mut self) {
        let now = self.link();
        if now.index == 0 {
            return;
        }
        let name = &now.name;
        for offload in &self.turned_off {
            let _ = self.net.set_offload(name, *offload, true);
        }
        let ours = self.max_frame.load(Ordering::Relaxed);
        if now.mtu != self.before.mtu && now.mtu + ETHERNET == ours {
            let _ = self.net.set_mtu(name, self.before.mtu);
        }
        if now.is_up() != self.before.is_up() {
            let _ = self.set_admin(name, self.before.is_up());
        }
    }
}
