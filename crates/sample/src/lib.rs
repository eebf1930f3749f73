//! Packet sampling: when to take one, and what is kept of it.
//!
//! Owns the skip arithmetic ([`Sampler`]) and the sample as it lies in a worker's ring
//! ([`SampleSlot`]). A sampler is asked once a frame, not once a packet: it subtracts the frame's
//! length from a count of packets still to skip, and only when that runs out does anybody look at a
//! packet. Skips are geometrically distributed (sFlow Version 5, section 4.2.2: every packet has the
//! same chance 1/N, independent of the others), drawn from a seeded generator.

mod drop;
mod sampler;

pub use drop::{DROP_HEADER, DropSlot, HeaderProtocol};
pub use sampler::{MAX_RATE, Sampler};

/// Most header bytes a sample carries.
pub const MAX_HEADER: usize = 256;
/// Most samples a second that an adaptive rate may aim at.
pub const MAX_TARGET: u32 = 1_000_000;
/// [`SampleSlot::queue`]: the transmit queue is not known.
pub const NO_QUEUE: u16 = u16::MAX;
/// [`SampleSlot::transit_ns`]: how long the packet was in the router is not known.
pub const NO_TRANSIT: u32 = u32::MAX;

/// Which way a packet went when it was sampled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Direction {
    /// It came in: the sample is of `rx_if`.
    #[default]
    Rx,
    /// It goes out: the sample is of `tx_if`.
    Tx,
}

/// A sample as the worker leaves it in its ring: written once, in place.
///
/// What stands before the header fits into one cache line with the header's first bytes, so that a sample of a
/// short packet touches two lines. A ring that only the receive sampler writes to keeps the defaults in
/// `transit_ns`, `queue`, `direction` and `protocol`: it need not write them.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub struct SampleSlot {
    /// Interface the packet came in on, `u32::MAX` = the router made it itself.
    pub rx_if: u32,
    /// Interface it went out on, `u32::MAX` = not known when sampled.
    pub tx_if: u32,
    /// Mean sampling rate 1-in-N in force.
    pub rate: u32,
    /// Bytes of the whole frame as received or sent, without FCS.
    pub frame_len: u32,
    /// When it was sampled: `CLOCK_MONOTONIC` in ns. On receive the time of the worker's turn, taken just before
    /// the devices are polled; on transmit that of the sample itself.
    pub time: u64,
    /// Nanoseconds from receive (the start of the turn that took it from its device) to transmit, at most
    /// `NO_TRANSIT - 1`; [`NO_TRANSIT`] = not known, as on receive.
    pub transit_ns: u32,
    /// Transmit queue of `tx_if` that the packet goes to, [`NO_QUEUE`] = not known.
    pub queue: u16,
    /// Bytes of `header` in use.
    pub header_len: u16,
    /// Which way it went.
    pub direction: Direction,
    /// What `header` begins with.
    pub protocol: HeaderProtocol,
    /// First bytes of the frame.
    pub header: [u8; MAX_HEADER],
}

const _: () = assert!(std::mem::offset_of!(SampleSlot, header) <= 48);

impl Default for SampleSlot {
    fn default() -> Self {
        SampleSlot {
            rx_if: 0,
            tx_if: u32::MAX,
            rate: 0,
            frame_len: 0,
            time: 0,
            transit_ns: NO_TRANSIT,
            queue: NO_QUEUE,
            header_len: 0,
            direction: Direction::Rx,
            protocol: HeaderProtocol::Ethernet,
            header: [0; MAX_HEADER],
        }
    }
}
