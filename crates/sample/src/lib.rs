//! Packet sampling: when to take one, and what is kept of it.
//!
//! Owns the skip arithmetic ([`Sampler`]) and the sample as it lies in a worker's ring
//! ([`SampleSlot`]). A sampler is asked once a frame, not once a packet: it subtracts the frame's
//! length from a count of packets still to skip, and only when that runs out does anybody look at a
//! packet. Skips are geometrically distributed (sFlow Version 5, section 4.2.2: every packet has the
//! same chance 1/N, independent of the others), drawn from a seeded generator.

mod sampler;

pub use sampler::{MAX_RATE, Sampler};

/// Most header bytes a sample carries.
pub const MAX_HEADER: usize = 256;

/// A sample as the worker leaves it in its ring: written once, in place.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub struct SampleSlot {
    /// Interface the packet came in on.
    pub rx_if: u32,
    /// Interface it went out on, `u32::MAX` = not known when sampled.
    pub tx_if: u32,
    /// Mean sampling rate 1-in-N in force.
    pub rate: u32,
    /// Bytes of the whole frame as received, without FCS.
    pub frame_len: u32,
    /// Bytes of `header` in use.
    pub header_len: u16,
    /// First bytes of the frame.
    pub header: [u8; MAX_HEADER],
}

impl Default for SampleSlot {
    fn default() -> Self {
        SampleSlot {
            rx_if: 0,
            tx_if: u32::MAX,
            rate: 0,
            frame_len: 0,
            header_len: 0,
            header: [0; MAX_HEADER],
        }
    }
}
