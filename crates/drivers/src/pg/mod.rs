//! `pg`: the packet generator interface, as VPP has it.
//!
//! Receive side: streams (templates with ranges, or pcap files) placed on workers. Transmit side: a
//! sink that counts, and writes a pcap file when asked to. All bytes of a stream are made when it is
//! added (`expand`), so that a worker only copies (`fill`); control reaches the worker through rings
//! (`queue`). [`StreamSpec::parse_vpp`] reads VPP's `packet-generator new` text.

mod expand;
mod fields;
mod fill;
mod handle;
mod headers;
mod layout;
mod names;
mod parse;
mod queue;
mod rng;
mod runner;
#[cfg(test)]
mod samples;
mod scan;
mod spec;
#[cfg(test)]
mod tests;

use parshall_device::{Device, DeviceError, DeviceInfo, Duplex, Queues};

pub use fields::{Edit, Field, FieldValue, Fixup, Pseudo, Values};
pub use handle::{PgHandle, SinkTotals, StreamChange, StreamInfo};
pub use queue::MAX_STREAMS;
pub use scan::ParseError;
pub use spec::{
    DEFAULT_VARIANTS, MAX_FRAME, MAX_HEADERS, MAX_RATE, MAX_VARIANTS, MIN_FRAME, Size, Source,
    SpecError, Speed, StreamSpec, Template,
};

/// Largest frame until told otherwise: jumbo.
const DEFAULT_MAX_FRAME: u32 = 9_216;

/// A generator interface. Dropping it ends its capture.
pub struct PgDevice {
    handle: PgHandle,
    kind: &'static str,
}

impl PgDevice {
    /// Makes interface number `instance` (`pg0` is 0), with an address of its own, and its controls.
    pub fn new(instance: u32) -> (PgDevice, PgHandle) {
        let [.., high, low] = instance.to_be_bytes();
        let device = PgDevice::with_mac("pg", [0x02, 0xfe, b'p', b'g', high, low]);
        let handle = device.handle.clone();
        (device, handle)
    }

    /// Makes an interface that calls itself `kind`.
    pub(crate) fn with_mac(kind: &'static str, mac: [u8; 6]) -> PgDevice {
        PgDevice {
            handle: PgHandle::new(mac, DEFAULT_MAX_FRAME),
            kind,
        }
    }

    pub(crate) fn handle(&self) -> &PgHandle {
        &self.handle
    }
}

impl Device for PgDevice {
    fn info(&self) -> DeviceInfo {
        let control = self.handle.control();
        let (streams, enabled) = control.counts();
        DeviceInfo {
            kind: self.kind,
            mac: control.mac,
            max_frame: control.max_frame,
            speed: 0,
            duplex: Duplex::Full,
            link_up: control.up,
            os_index: None,
            rx_queues: control.queue_count(),
            tx_queues: control.queue_count(),
            detail: format!("{streams} streams, {enabled} enabled"),
        }
    }

    fn queues(&mut self, if_index: u32, workers: usize) -> Result<Queues, DeviceError> {
        self.handle.control().queues(if_index, workers)
    }

    fn set_admin(&mut self, up: bool) -> Result<(), DeviceError> {
        self.handle.control().set_up(up);
        Ok(())
    }

    /// Streams added before keep the address they were made with.
    fn set_mac(&mut self, mac: [u8; 6]) -> Result<(), DeviceError> {
        self.handle.control().mac = mac;
        Ok(())
    }

    fn set_max_frame(&mut self, bytes: u32) -> Result<(), DeviceError> {
        let allowed = MIN_FRAME as u32..=MAX_FRAME as u32;
        if !allowed.contains(&bytes) {
            return Err(DeviceError(format!(
                "a largest frame of {bytes} bytes is not within {MIN_FRAME} to {MAX_FRAME}"
            )));
        }
        self.handle.control().max_frame = bytes;
        Ok(())
    }

    /// Every generated packet is received, whatever its address.
    fn set_promiscuous(&mut self, _on: bool) -> Result<(), DeviceError> {
        Ok(())
    }
}

impl Drop for PgDevice {
    fn drop(&mut self) {
        // Nobody is left to hear of an error.
        let _ = self.handle.capture_off();
    }
}
