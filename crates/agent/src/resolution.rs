//! What the agent asks the router about a sampled packet, and what it is told.

use std::net::IpAddr;
use std::sync::Arc;

use parshall_bgp::PathAttributes;
use parshall_sample::{Direction, HeaderProtocol};

use crate::records::Records;
use crate::router::RouteInfo;

/// A sampled packet.
#[derive(Clone, Copy, Debug)]
pub struct Sampled<'a> {
    /// Its first bytes.
    pub header: &'a [u8],
    /// What they begin with: a frame, or the packet of a tunnel that carries no frames.
    pub protocol: HeaderProtocol,
    /// Interface it came in on, by the router's number; `u32::MAX` = the router made it.
    pub rx_if: u32,
    /// Interface it went out on; `u32::MAX` = not known.
    pub tx_if: u32,
    /// Whether the header is as it came in or as it went out.
    pub direction: Direction,
    /// What is asked for.
    pub wanted: Records,
}

impl Sampled<'_> {
    /// Whether the frame carries MPLS labels, unicast or multicast (RFC 3032 section 5, RFC 5332).
    pub fn is_labelled(&self) -> bool {
        match self.protocol {
            HeaderProtocol::Ethernet => {
                matches!(self.header.get(12..14), Some([0x88, 0x47 | 0x48]))
            }
            other => other == HeaderProtocol::Mpls,
        }
    }
}

/// How a packet went through the router.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Passage {
    /// It is not known.
    #[default]
    Unknown,
    /// As it was, from one interface to the other.
    Switched,
    /// In another frame.
    Routed,
}

/// Where a bridge sends a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bridged {
    /// Out of this interface.
    To(u32),
    /// Up into the router.
    Up,
    /// To so many interfaces.
    Flooded(u32),
}

/// A tunnel that a packet came out of, or goes into: what is in front of the packet there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TunnelEnds {
    /// Source of the outer packet.
    pub src: IpAddr,
    /// Its destination, of the same family.
    pub dst: IpAddr,
    /// IP protocol behind the outer IP header.
    pub protocol: u8,
    /// Traffic class of the outer packet, 0 where that is not known.
    pub class: u8,
    /// UDP port that it is sent to, 0 = no UDP.
    pub dst_port: u16,
    /// Virtual network identifier, where there is one.
    pub vni: Option<u32>,
    /// Bytes of all headers in front of what is carried.
    pub overhead: u16,
    /// Whole frames are carried, not packets.
    pub carries_frames: bool,
}

/// What the router knows of a packet. One serves for all samples, so that nothing is allocated for one.
#[derive(Clone, Debug, Default)]
pub struct Resolution {
    /// Where it goes; `None` when that is not known, or it goes nowhere.
    pub route: Option<RouteInfo>,
    /// How.
    pub passage: Passage,
    /// Where a bridge sends it, if one does.
    pub bridged: Option<Bridged>,
    /// The packet's labels as it came in and as it went out are what `in_labels` and `out_labels` say.
    pub labels_known: bool,
    /// Label stack entries received (RFC 3032), outermost first.
    pub in_labels: Vec<u32>,
    /// Label stack entries sent.
    pub out_labels: Vec<u32>,
    /// BGP routes to both ends.
    pub gateway: Option<Gateway>,
    /// VLAN and priority at the end that the frame does not tell of, where the router knows better than that a packet
    /// is routed out of its VLAN and switched within it; [`u32::MAX`] = not known.
    pub other_end: Option<(u32, u32)>,
    /// VLAN and priority at the end where the frame was sampled, where its tag is not on it yet.
    pub this_end: Option<(u32, u32)>,
    /// The tunnel whose headers were taken off before the sample.
    pub came_out_of: Option<TunnelEnds>,
    /// The tunnel whose headers are put on after the sample.
    pub goes_into: Option<TunnelEnds>,
    /// Where in the header what one of the router's own tunnels carries begins: it is taken out behind a sample of what
    /// came in, and was put in before one of what goes out.
    pub inner_offset: Option<u32>,
}

impl Resolution {
    /// Forgets everything.
    #[inline]
    pub fn clear(&mut self) {
        self.route = None;
        self.passage = Passage::Unknown;
        self.bridged = None;
        self.labels_known = false;
        self.in_labels.clear();
        self.out_labels.clear();
        self.gateway = None;
        self.other_end = None;
        self.this_end = None;
        self.came_out_of = None;
        self.goes_into = None;
        self.inner_offset = None;
    }

    /// Forgets where the packet goes and what follows from that, because it went elsewhere.
    pub fn forget_route(&mut self) {
        self.route = None;
        self.bridged = None;
        self.labels_known = false;
        self.in_labels.clear();
        self.out_labels.clear();
        self.gateway = None;
        self.other_end = None;
    }
}

/// What BGP says of a packet's way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gateway {
    /// The router's own AS, 0 = not set.
    pub router_as: u32,
    /// AS of the source, 0 = not known.
    pub src_as: u32,
    /// Neighbouring AS on the way to the source, 0 = none or not known.
    pub src_peer_as: u32,
    /// The route to the destination.
    pub path: Option<Arc<PathAttributes>>,
}
