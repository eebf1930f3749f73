//! `pcap-rx`, `pcap-tx`, `pcap-drop`: copies of packets for `pcap trace` and `drop capture`, without disturbing them.
//!
//! Features of `device-input`, `interface-output` and `error-drop`, switched on only while a capture
//! runs. A copy goes into the worker's ring; the control thread writes the file.

use std::any::Any;

use parshall_buffer::{BufferIndex, Frame, Pool};
use parshall_graph::{CONTINUE, Ctx, Dispatch, Feature, Node, NodeSpec};
use parshall_ring::Producer;
use parshall_sample::HeaderProtocol;

use crate::origin::{Origin, Places};
use crate::sflow_drop::copy;

/// Bytes of a packet a capture keeps.
pub const CAPTURE_BYTES: usize = 2048;

/// Where a packet was captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum CapturePoint {
    /// On receive.
    #[default]
    Rx,
    /// On transmit.
    Tx,
    /// When dropped.
    Drop,
}

/// A captured packet.
#[derive(Clone)]
pub struct CaptureSlot {
    /// Where.
    pub point: CapturePoint,
    /// Interface it was received on (for [`CapturePoint::Tx`]: sent on).
    pub if_index: u32,
    /// For [`CapturePoint::Drop`], the interface it was about to leave by, `u32::MAX` when that was not known.
    pub tx_if: u32,
    /// Reason number, for [`CapturePoint::Drop`].
    pub reason: u16,
    /// The graph's slot that dropped it, for [`CapturePoint::Drop`].
    pub slot: u16,
    /// Monotonic time in ns.
    pub time: u64,
    /// Bytes of the packet on the wire.
    pub wire_len: u32,
    /// Bytes of `data` in use.
    pub len: u16,
    /// The packet, from its link-layer header on; one of zeros and the right type where it had none.
    pub data: Box<[u8; CAPTURE_BYTES]>,
}

impl Default for CaptureSlot {
    fn default() -> Self {
        CaptureSlot {
            point: CapturePoint::Rx,
            if_index: 0,
            tx_if: u32::MAX,
            reason: 0,
            slot: 0,
            time: 0,
            wire_len: 0,
            len: 0,
            data: Box::new([0; CAPTURE_BYTES]),
        }
    }
}

const fn spec(name: &'static str, arc: &'static str) -> NodeSpec {
    NodeSpec::new(name, &[]).feature(Feature {
        arc,
        before: &[],
        after: &[],
    })
}

/// Description of `pcap-rx`.
pub const RX: NodeSpec = spec("pcap-rx", "device-input");
/// Description of `pcap-tx`.
pub const TX: NodeSpec = spec("pcap-tx", "interface-output");
/// Description of `pcap-drop`.
pub const DROPPED: NodeSpec = spec("pcap-drop", "error-drop");

/// Which dropped packets are captured: a message to `pcap-drop`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CaptureFilter {
    /// Only those dropped for the reason with this number.
    pub reason: Option<u16>,
}

/// A capturing node. The three of a worker have a ring each.
pub struct Capture {
    point: CapturePoint,
    places: Places,
    filter: CaptureFilter,
    ring: Producer<CaptureSlot>,
}

impl Capture {
    /// A node that captures at `point` into `ring`.
    pub fn new(point: CapturePoint, places: Places, ring: Producer<CaptureSlot>) -> Capture {
        Capture {
            point,
            places,
            filter: CaptureFilter::default(),
            ring,
        }
    }

    /// Takes a copy of a packet as it is.
    fn pass(&mut self, pool: &Pool, now: u64, b: BufferIndex) {
        let m = pool.meta(b);
        self.ring.write(|slot| {
            slot.point = self.point;
            slot.if_index = if self.point == CapturePoint::Tx {
                m.tx_if
            } else {
                m.rx_if
            };
            (slot.tx_if, slot.reason, slot.slot) = (u32::MAX, 0, 0);
            slot.time = now;
            slot.wire_len = m.total_len();
            slot.len = pool.copy_out(b, &mut slot.data[..]) as u16;
        });
    }

    /// Takes a copy of a packet that is dropped.
    fn dropped(&mut self, pool: &Pool, now: u64, b: BufferIndex) {
        let m = pool.meta(b);
        if self.filter.reason.is_some_and(|r| r != m.reason) {
            return;
        }
        let origin = self.places.origin(pool, b);
        self.ring.write(|slot| {
            slot.point = CapturePoint::Drop;
            (slot.if_index, slot.tx_if) = (origin.rx_if, origin.tx_if);
            (slot.reason, slot.slot) = (m.reason, m.drop_node);
            slot.time = now;
            let made = link_header(&origin, &mut slot.data[..]);
            let kept = copy(pool, b, origin.back, &mut slot.data[made..]);
            slot.len = (made + kept) as u16;
            slot.wire_len = m.total_len() + u32::from(origin.back) + made as u32;
        });
    }
}

/// Makes a link-layer header for a packet that has none: a capture file has one kind of packet. Says its length.
fn link_header(origin: &Origin, out: &mut [u8]) -> usize {
    if origin.protocol == HeaderProtocol::Ethernet {
        return 0;
    }
    out[..12].fill(0);
    out[12..14].copy_from_slice(&origin.protocol.ethertype().to_be_bytes());
    14
}

impl Node for Capture {
    fn process(&mut self, cx: &mut Ctx<'_>, frame: &mut Frame) -> Dispatch {
        for &b in frame.packets() {
            match self.point {
                CapturePoint::Drop => self.dropped(cx.pool, cx.now, b),
                _ => self.pass(cx.pool, cx.now, b),
            }
        }
        // On the drop arc the next step is the drop itself, which the arc's end does.
        Dispatch::All(CONTINUE)
    }

    fn message(&mut self, _cx: &mut Ctx<'_>, message: &mut (dyn Any + Send)) {
        if let Some(filter) = message.downcast_ref::<CaptureFilter>() {
            self.filter = *filter;
        }
    }
}
