//! What a Linux interface says of its hardware.

use std::sync::{Mutex, PoisonError};

use parshall_device::{Hardware, HardwareState, MacErrors};
use parshall_linux::Net;

/// A Linux interface.
#[derive(Debug)]
pub(crate) struct HostHardware {
    net: Mutex<Net>,
    name: String,
}

impl HostHardware {
    /// The interface of this name.
    pub fn new(net: Net, name: &str) -> HostHardware {
        HostHardware {
            net: Mutex::new(net),
            name: name.to_owned(),
        }
    }
}

impl Hardware for HostHardware {
    fn read(&self, with_module: bool) -> HardwareState {
        let net = self.net.lock().unwrap_or_else(PoisonError::into_inner);
        // An interface that is gone says nothing.
        let errors = net.link_errors(&self.name).ok();
        let mac = errors.map_or(MacErrors::default(), |e| MacErrors {
            alignment: Some(e.rx_frame),
            fcs: Some(e.rx_crc),
            sqe_test: Some(e.tx_heartbeat),
            late_collisions: Some(e.tx_window),
            excessive_collisions: Some(e.tx_aborted),
            carrier_sense: Some(e.tx_carrier),
        });
        let module = if with_module {
            net.module(&self.name).ok().flatten()
        } else {
            None
        };
        HardwareState { mac, module }
    }
}
