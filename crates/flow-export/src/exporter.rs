//! One stream of export datagrams.

use core::net::IpAddr;

use thiserror::Error;

use crate::flow::Flow;
use crate::message::Templated;
use crate::netflow5::NetFlow5;

/// What to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// NetFlow version 5: fixed records, IPv4 only.
    NetFlow5,
    /// NetFlow version 9 (RFC 3954).
    NetFlow9,
    /// IPFIX (RFC 7011).
    Ipfix,
}

/// How a stream is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// What to send.
    pub protocol: Protocol,
    /// Number of the stream: version 9's source, IPFIX's observation domain; its lower 16 bits are version 5's engine type and number.
    pub domain: u32,
    /// The flows are of one packet in so many; 1 if they are of all. Receivers multiply by it. At most
    /// [`NETFLOW5_MAX_INTERVAL`](crate::NETFLOW5_MAX_INTERVAL) in version 5.
    pub sampling_interval: u32,
    /// Who saw the flows, if not the sender: address and number of the original exporter. Version 5 cannot say it.
    pub origin: Option<(IpAddr, u32)>,
    /// When the clock of the stream began, milliseconds since 1970-01-01 UTC: uptimes count from there.
    pub boot_ms: u64,
    /// Bytes of a datagram at most, [`MIN_BYTES`](Settings::MIN_BYTES) or more.
    pub max_bytes: usize,
    /// Templates are sent again after so many milliseconds.
    pub refresh_ms: u64,
    /// Templates are sent again after so many datagrams.
    pub refresh_datagrams: u32,
}

impl Settings {
    /// The least that a datagram must hold: all templates that one flow needs, and the flow.
    pub const MIN_BYTES: usize = 640;
}

/// Why a flow was not taken. The datagram is as it was before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum PushError {
    /// There is no room left: send the datagram, push again.
    #[error("the datagram is full")]
    Full,
    /// The flow alone exceeds the greatest datagram; it can never be sent.
    #[error("the flow is larger than a datagram may be")]
    TooLarge,
    /// Version 5 carries IPv4 only.
    #[error("NetFlow version 5 has no IPv6")]
    Ipv6,
    /// Source and destination are of different families.
    #[error("the addresses of the flow are of different families")]
    MixedFamilies,
}

/// Whether a flow was taken with all its numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    /// As it is.
    Whole,
    /// A number did not fit its field: the largest stands for packets and bytes, 0 for an ifIndex.
    Clipped,
}

/// Fills the datagrams of one stream.
///
/// ```
/// use parshall_flow_export::{Exporter, Flow, Protocol, Settings};
///
/// let mut exporter = Exporter::new(Settings {
///     protocol: Protocol::Ipfix,
///     domain: 1,
///     sampling_interval: 1,
///     origin: None,
///     boot_ms: 1_700_000_000_000,
///     max_bytes: 1400,
///     refresh_ms: 60_000,
///     refresh_datagrams: 1000,
/// });
/// let flow = Flow { packets: 1, octets: 60, ..Flow::default() };
/// let now = 1_700_000_060_000;
/// exporter.push(&flow, now).unwrap();
/// let datagram = exporter.finish(now).unwrap();
/// assert_eq!(datagram[..2], [0, 10]);
/// assert!(exporter.finish(now).is_none());
/// ```
#[derive(Debug)]
pub struct Exporter(Kind);

#[derive(Debug)]
enum Kind {
    Fixed(NetFlow5),
    Templated(Templated),
}

impl Exporter {
    /// A stream that has sent nothing yet.
    pub fn new(settings: Settings) -> Exporter {
        let settings = Settings {
            max_bytes: settings.max_bytes.max(Settings::MIN_BYTES),
            ..settings
        };
        Exporter(match settings.protocol {
            Protocol::NetFlow5 => Kind::Fixed(NetFlow5::new(settings)),
            Protocol::NetFlow9 | Protocol::Ipfix => Kind::Templated(Templated::new(settings)),
        })
    }

    /// Takes a flow into the datagram.
    ///
    /// # Errors
    /// [`PushError::Full`] when the datagram must be finished first; the others say why the flow cannot be sent at all.
    pub fn push(&mut self, flow: &Flow, now_ms: u64) -> Result<Fit, PushError> {
        if flow.src.is_ipv4() != flow.dst.is_ipv4() {
            return Err(PushError::MixedFamilies);
        }
        match &mut self.0 {
            Kind::Fixed(e) => e.push(flow),
            Kind::Templated(e) => e.push(flow, now_ms).map(|()| Fit::Whole),
        }
    }

    /// Ends the datagram and gives it, if there is any flow in it. The next flow begins another.
    pub fn finish(&mut self, now_ms: u64) -> Option<&[u8]> {
        match &mut self.0 {
            Kind::Fixed(e) => e.finish(now_ms),
            Kind::Templated(e) => e.finish(now_ms),
        }
    }

    /// Flows in the datagram that is being filled.
    pub fn pending(&self) -> u32 {
        match &self.0 {
            Kind::Fixed(e) => e.pending(),
            Kind::Templated(e) => e.pending(),
        }
    }
}

/// Milliseconds since the stream's clock began, wrapping as the 32-bit fields do.
pub(crate) fn uptime(settings: &Settings, at_ms: u64) -> u32 {
    at_ms.saturating_sub(settings.boot_ms) as u32
}
