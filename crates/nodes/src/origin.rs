//! Where the bytes of a dropped packet begin: with the frame as it came in, as long as that is still whole, else with
//! the frame as it was about to leave, or with what it was on the way between the two.
//!
//! Nodes strip headers by moving an offset, so what was in front is still there until something is pushed over it.

use parshall_buffer::{BufferIndex, Flags, IF_NONE, Meta, Pool};
use parshall_graph::{NodeKind, NodeSpec};
use parshall_sample::HeaderProtocol;

/// Where on a packet's way a slot of the graph is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// Before the link-layer header is stripped.
    Link,
    /// Between the two.
    Network,
    /// Behind the node that wrote the link-layer header to leave with.
    Out,
}

/// Arcs on which packets carry a link-layer header.
const LINK_ARCS: [&str; 2] = ["device-input", "l2-input"];
const OUT_ARC: &str = "interface-output";
/// Nodes of which the same holds.
const LINK_NODES: [&str; 4] = ["ethernet-input", "l2-input", "l2-fwd", "l2-flood"];
const OUT_NODES: [&str; 4] = [
    "interface-output",
    "bvi-output",
    "sub-interface-output",
    "bond-output",
];

/// The places of all nodes, by number.
pub struct Places(Box<[Place]>);

/// What is to be shown of a dropped packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Bytes in front of the packet's current header that belong to it.
    pub back: u16,
    /// What the first of them is.
    pub protocol: HeaderProtocol,
    /// Interface it came in on, [`IF_NONE`] for what the router made.
    pub rx_if: u32,
    /// Interface it was about to leave by, [`IF_NONE`] when that was not known.
    pub tx_if: u32,
}

impl Places {
    /// The places of these nodes; slots behind them (`drop`, which stands for a transmit queue that is not there, and
    /// the transmit queues) are on the way out.
    pub fn new(specs: &[NodeSpec]) -> Places {
        let place = |s: &NodeSpec| {
            let arc = s.feature.map(|f| f.arc);
            if arc == Some(OUT_ARC) || OUT_NODES.contains(&s.name) {
                Place::Out
            } else if s.kind == NodeKind::Input
                || arc.is_some_and(|a| LINK_ARCS.contains(&a))
                || LINK_NODES.contains(&s.name)
            {
                Place::Link
            } else {
                Place::Network
            }
        };
        Places(specs.iter().map(place).collect())
    }

    /// What is to be shown of packet `b`, which is on its way to `drop`.
    pub fn origin(&self, pool: &Pool, b: BufferIndex) -> Origin {
        let m = pool.meta(b);
        let place = self
            .0
            .get(usize::from(m.drop_node))
            .copied()
            .unwrap_or(Place::Out);
        let originated = m.flags.has(Flags::ORIGINATED);
        // A header that was stripped and not written over: what was pushed since ends behind it.
        let whole = !originated && m.l2 < m.l3 && m.data >= m.l3;
        let (back, protocol) = match place {
            Place::Out => (0, HeaderProtocol::Ethernet),
            Place::Link => (m.data.saturating_sub(m.l2), HeaderProtocol::Ethernet),
            Place::Network if whole => (m.data - m.l2, HeaderProtocol::Ethernet),
            Place::Network => (0, bare(m, pool.bytes(b).first().copied())),
        };
        Origin {
            back,
            protocol,
            rx_if: if originated { IF_NONE } else { m.rx_if },
            // An answer made in place has the interface of its question until a route is found.
            tx_if: if originated && place != Place::Out {
                IF_NONE
            } else {
                m.tx_if
            },
        }
    }
}

/// What a packet without a link-layer header begins with.
fn bare(m: &Meta, first: Option<u8>) -> HeaderProtocol {
    match first {
        // In front of its network layer a packet has only labels.
        _ if m.data < m.l3 => HeaderProtocol::Mpls,
        Some(b) if b >> 4 == 6 => HeaderProtocol::Ip6,
        _ => HeaderProtocol::Ip4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places() -> (Places, u16, u16, u16) {
        let specs = crate::specs();
        let at = |name: &str| specs.iter().position(|s| s.name == name).unwrap() as u16;
        let (link, network, out) = (at("ethernet-input"), at("ip4-lookup"), at("pcap-tx"));
        (Places::new(&specs), link, network, out)
    }

    #[test]
    fn a_packet_is_shown_as_it_came_until_something_is_pushed_over_that() {
        let (places, link, network, out) = places();
        let mut pool = Pool::new(2).unwrap();
        let mut frame = [0u8; 60];
        frame[14] = 0x45;
        let b = pool.packet_from(&frame, 3).unwrap();
        let mut shown = |drop_node, pulled: i32, pushed: u16, flags: Flags| {
            let m = pool.meta_mut(b);
            let l2 = m.l2;
            (m.drop_node, m.flags) = (drop_node, flags);
            (m.l3, m.data) = (l2 + 14, (i32::from(l2) + pulled) as u16 - pushed);
            let o = places.origin(&pool, b);
            (o.back, o.protocol, o.rx_if)
        };
        use HeaderProtocol::{Ethernet, Ip4, Mpls};
        let none = Flags(0);
        assert_eq!(shown(link, 0, 0, none), (0, Ethernet, 3));
        assert_eq!(shown(link, 14, 0, none), (14, Ethernet, 3));
        assert_eq!(shown(network, 14, 0, none), (14, Ethernet, 3));
        assert_eq!(shown(network, 14 + 4, 4, none), (14, Ethernet, 3));
        assert_eq!(shown(network, 14, 4, none), (0, Mpls, 3));
        assert_eq!(shown(network, 14, 0, Flags::ORIGINATED), (0, Ip4, IF_NONE));
        for slot in [out, u16::MAX] {
            assert_eq!(shown(slot, 14, 14, none), (0, Ethernet, 3));
            assert_eq!(shown(slot, 14 + 4, 14, none), (0, Ethernet, 3));
        }
    }
}
