//! `pcap-rx`, `pcap-tx`, `pcap-drop`: copies of packets for `pcap trace`, without disturbing them.
//!
//! Features of `device-input`, `interface-output` and `error-drop`, switched on only while a capture
//! runs. A copy goes into the worker's ring; the control thread writes the file.

use parshall_buffer::Frame;
use parshall_graph::{CONTINUE, Ctx, DROP, Dispatch, Feature, Node, NodeSpec};
use parshall_ring::Producer;

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
    /// Reason number, for [`CapturePoint::Drop`].
    pub reason: u16,
    /// Monotonic time in ns.
    pub time: u64,
    /// Bytes of the packet on the wire.
    pub wire_len: u32,
    /// Bytes of `data` in use.
    pub len: u16,
    /// The packet, from its link-layer header where that is still there.
    pub data: Box<[u8; CAPTURE_BYTES]>,
}

impl Default for CaptureSlot {
    fn default() -> Self {
        CaptureSlot {
            point: CapturePoint::Rx,
            if_index: 0,
            reason: 0,
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

/// A capturing node. The three of a worker have a ring each.
pub struct Capture {
    point: CapturePoint,
    ring: Producer<CaptureSlot>,
}

impl Capture {
    /// A node that captures at `point` into `ring`.
    pub fn new(point: CapturePoint, ring: Producer<CaptureSlot>) -> Capture {
        Capture { point, ring }
    }
}

impl Node for Capture {
    fn process(&mut self, cx: &mut Ctx<'_>, frame: &mut Frame) -> Dispatch {
        for &b in frame.packets() {
            let m = *cx.pool.meta(b);
            if self.point == CapturePoint::Drop {
                // Show the packet as it came in: from its link-layer header, when that is still in place.
                let back = m.data.saturating_sub(m.l2);
                let whole = cx.pool.meta_mut(b);
                (whole.data, whole.len) = (m.data - back, m.len.saturating_add(back));
            }
            let pool = &*cx.pool;
            self.ring.write(|slot| {
                slot.point = self.point;
                slot.if_index = if self.point == CapturePoint::Tx {
                    m.tx_if
                } else {
                    m.rx_if
                };
                slot.reason = m.reason;
                slot.time = cx.now;
                slot.wire_len = pool.meta(b).total_len();
                slot.len = pool.copy_out(b, &mut slot.data[..]) as u16;
            });
            *cx.pool.meta_mut(b) = m;
        }
        // On the drop arc the next step is the drop itself, which the arc's end does.
        debug_assert_ne!(CONTINUE, DROP);
        Dispatch::All(CONTINUE)
    }
}
