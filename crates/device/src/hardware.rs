//! What the hardware behind a device says of itself, beside the packets that came by.

/// Errors that an Ethernet controller has counted (IEEE 802.3 clause 30, RFC 3635). `None` = it does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MacErrors {
    /// Frames received with a wrong checksum that do not end at a byte.
    pub alignment: Option<u64>,
    /// Frames received with a wrong checksum.
    pub fcs: Option<u64>,
    /// Signal quality errors.
    pub sqe_test: Option<u64>,
    /// Late collisions.
    pub late_collisions: Option<u64>,
    /// Frames given up after too many collisions.
    pub excessive_collisions: Option<u64>,
    /// Carrier lost while sending.
    pub carrier_sense: Option<u64>,
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HardwareState {
    /// Of the controller.
    pub mac: MacErrors,
    /// Memory of the pluggable module, as its standard lays it out (SFF-8472, SFF-8636); `None` = there is none.
    pub module: Option<Vec<u8>>,
}

/// Reads it. Asking may take milliseconds: it is done by a thread that has the time.
pub trait Hardware: Send + Sync + std::fmt::Debug {
    /// As it is now; without the module's memory, which takes longest, where that is not wanted.
    fn read(&self, with_module: bool) -> HardwareState;
}
