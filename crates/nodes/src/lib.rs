//! The forwarding nodes, one file each, and the one list that names them.
//!
//! Owns what happens to packets between devices: Ethernet, cross-connect, bridging, ARP, IPv4, IPv6, neighbour
//! discovery, ICMP, MPLS, sampling, captures. Reads [`Shared`] state that control publishes, tells control
//! things by [`Event`]s. Knows no device and no command.
#![allow(unsafe_code)]

mod acl;
mod arp_input;
pub mod bond;
pub mod bridge;
mod bvi_output;
mod capture;
mod ethernet_input;
mod event;
mod family;
mod flow_hash;
mod hold;
mod icmp_error;
mod interface_output;
mod ip4_frag;
mod ip4_icmp;
mod ip4_input;
mod ip4_local;
mod ip4_rewrite;
mod ip6_icmp;
mod ip6_input;
mod ip6_local;
mod ip6_rewrite;
mod ip_input;
mod ip_lookup;
mod ip_neighbor;
mod l2_arp;
mod l2_flood;
mod l2_fwd;
mod l2_input;
mod l2_learn;
mod l2_nd;
mod lanes;
mod link;
mod local_reassembly;
mod macip;
mod mpls_disposition;
mod mpls_imposition;
mod mpls_input;
mod mpls_lookup;
mod mpls_output;
mod origin;
mod parts;
mod reassembly;
mod rewrite;
mod sflow;
mod sflow_drop;
mod sflow_tx;
mod sflow_virtual;
pub mod state;
mod sub_interface_output;
mod tag_rewrite;
mod trace;
pub mod tunnel;
mod tunnel_decap;
mod tunnel_encap;
mod tunnel_input;
mod tunnel_output;
pub mod vlan;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use parshall_graph::wide::wide;
use parshall_graph::{ArcEnd, ArcSpec, Graph, GraphError, Limits, NamedNode, Node, NodeSpec, Side};
use parshall_ring::{Consumer, ring};
use parshall_sample::{DropSlot, SampleSlot};

use family::{Ip4, Ip6};
use origin::Places;

pub use bridge::{BridgeDomain, BridgePort, BridgeTable, FloodMember, PortRole, bridge_flags};
pub use capture::{CAPTURE_BYTES, CaptureFilter, CapturePoint, CaptureSlot};
pub use event::{Event, HoldMessage};
pub use flow_hash::{flow_hash_mpls, flow_hash4, flow_hash6};
pub use icmp_error::IcmpSettings;
pub use sflow::SflowSettings;
pub use sflow_drop::DropSettings;
pub use sflow_tx::SflowTxSettings;
pub use sflow_virtual::VirtualSamplers;
pub use state::{
    IfAddresses, IfTable, IfView, POP_IP4, POP_IP6, POP_MPLS, Shared, TableLimits, if_flags,
};

/// Samples that wait for the agent at most, per worker.
const SAMPLE_RING: usize = 16_384;
/// Dropped packets that wait for the agent at most, per worker.
const DROP_RING: usize = 1_024;
/// Events that wait for the control thread at most, per worker and node.
const EVENT_RING: usize = 4_096;
/// Captured packets that wait for the control thread at most, per worker and point.
const CAPTURE_RING: usize = 512;

/// Every arc.
pub const ARCS: &[ArcSpec] = &[
    ArcSpec {
        name: "device-input",
        side: Side::Rx,
        end: ArcEnd::Node("ethernet-input"),
    },
    ArcSpec {
        name: "l2-input",
        side: Side::Rx,
        end: ArcEnd::Node("l2-input"),
    },
    ArcSpec {
        name: "ip4-unicast",
        side: Side::Rx,
        end: ArcEnd::Node("ip4-lookup"),
    },
    ArcSpec {
        name: "ip6-unicast",
        side: Side::Rx,
        end: ArcEnd::Node("ip6-lookup"),
    },
    ArcSpec {
        name: "interface-output",
        side: Side::Tx,
        end: ArcEnd::Transmit,
    },
];

/// Input nodes: one a kind of driver.
pub const INPUTS: &[&str] = &[
    "pg-input",
    "pcap-input",
    "virtio-input",
    "af-packet-input",
    "af-xdp-input",
    "loopback-input",
    "memif-input",
];

/// What a worker's nodes produce for other threads.
pub struct NodeOutputs {
    /// Neighbours seen and wanted: one ring per node that has something to say.
    pub events: Vec<Consumer<Event>>,
    /// Packet samples.
    pub samples: Consumer<SampleSlot>,
    /// Dropped packets.
    pub drops: Consumer<DropSlot>,
    /// Samples of packets that are sent: a ring of their own, since a ring has one writer.
    pub tx_samples: Consumer<SampleSlot>,
    /// Captured packets, one ring per capture point.
    pub captures: Vec<Consumer<CaptureSlot>>,
}

/// What a node may be made from.
struct Build<'a> {
    shared: &'a Arc<Shared>,
    interfaces: usize,
    seed: u64,
    /// The worker's place in the counters of access lists.
    seat: usize,
    events: Vec<Consumer<Event>>,
    captures: Vec<Consumer<CaptureSlot>>,
    samples: Option<Consumer<SampleSlot>>,
    drops: Option<Consumer<DropSlot>>,
    tx_samples: Option<Consumer<SampleSlot>>,
}

impl Build<'_> {
    fn events(&mut self) -> parshall_ring::Producer<Event> {
        let (p, c) = ring(EVENT_RING);
        self.events.push(c);
        p
    }
    fn capture(&mut self, point: CapturePoint) -> Box<dyn Node> {
        let (p, c) = ring(CAPTURE_RING);
        self.captures.push(c);
        Box::new(capture::Capture::new(point, Places::new(&specs()), p))
    }
    fn sflow_drop(&mut self) -> Box<dyn Node> {
        let (p, c) = ring(DROP_RING);
        self.drops = Some(c);
        Box::new(sflow_drop::SflowDrop::new(Places::new(&specs()), p))
    }
    fn sflow(&mut self) -> Box<dyn Node> {
        let (p, c) = ring(SAMPLE_RING);
        self.samples = Some(c);
        wide(sflow::Sflow::new(self.interfaces, p, self.seed))
    }
    fn sflow_output(&mut self) -> Box<dyn Node> {
        let (p, c) = ring(SAMPLE_RING);
        self.tx_samples = Some(c);
        let (interfaces, seed) = (self.interfaces, self.seed);
        Box::new(sflow_tx::SflowOutput::new(interfaces, p, seed))
    }
}

type Make = fn(&mut Build<'_>) -> Box<dyn Node>;

/// The list of all nodes, along a packet's way (see [`Graph`]). To add one: its file, its `mod` line
/// above, its line here.
const NODES: &[(NodeSpec, Make)] = &[
    (sflow::SPEC, |b| b.sflow()),
    (capture::RX, |b| b.capture(CapturePoint::Rx)),
    (bond::INPUT, |b| {
        Box::new(bond::BondInput::new(b.shared.clone(), b.events()))
    }),
    (ethernet_input::SPEC, |b| {
        wide(ethernet_input::EthernetInput::new(b.shared.clone()))
    }),
    (macip::IN_L2, |b| {
        Box::new(macip::MacipIn::<macip::L2In>::new(b.shared.clone()))
    }),
    (acl::IN_L2, |b| {
        wide(acl::Acl::<acl::L2In>::new(b.shared.clone(), b.seat))
    }),
    (l2_input::SPEC, |b| {
        wide(l2_input::L2Input::new(b.shared.clone()))
    }),
    (l2_fwd::SPEC, |b| {
        let (new, moved) = (b.events(), b.events());
        wide(l2_fwd::L2Fwd::new(b.shared.clone(), new, moved))
    }),
    (l2_flood::SPEC, |b| {
        Box::new(l2_flood::L2Flood::new(b.shared.clone(), b.interfaces))
    }),
    (arp_input::SPEC, |b| {
        Box::new(arp_input::ArpInput::new(b.shared.clone(), b.events()))
    }),
    (mpls_input::SPEC, |b| {
        wide(mpls_input::MplsInput::new(b.shared.clone()))
    }),
    (mpls_lookup::SPEC, |b| {
        wide(mpls_lookup::MplsLookup::new(b.shared.clone()))
    }),
    (mpls_disposition::SPEC, |b| {
        Box::new(mpls_disposition::MplsDisposition::new(b.shared.clone()))
    }),
    (ip4_input::SPEC, |b| {
        wide(ip4_input::Ip4Input::new(b.shared.clone()))
    }),
    (ip6_input::SPEC, |b| {
        wide(ip6_input::Ip6Input::new(b.shared.clone()))
    }),
    (macip::IN_IP4, |b| {
        Box::new(macip::MacipIn::<macip::Ip4In>::new(b.shared.clone()))
    }),
    (macip::IN_IP6, |b| {
        Box::new(macip::MacipIn::<macip::Ip6In>::new(b.shared.clone()))
    }),
    (acl::IN_IP4, |b| {
        wide(acl::Acl::<acl::Ip4In>::new(b.shared.clone(), b.seat))
    }),
    (acl::IN_IP6, |b| {
        wide(acl::Acl::<acl::Ip6In>::new(b.shared.clone(), b.seat))
    }),
    (ip_lookup::SPEC4, |b| {
        wide(ip_lookup::IpLookup::<Ip4>::new(b.shared.clone()))
    }),
    (ip_lookup::SPEC6, |b| {
        wide(ip_lookup::IpLookup::<Ip6>::new(b.shared.clone()))
    }),
    (ip4_local::SPEC, |b| {
        Box::new(ip4_local::Ip4Local::new(b.shared.clone()))
    }),
    (ip6_local::SPEC, |b| {
        Box::new(ip6_local::Ip6Local::new(b.shared.clone()))
    }),
    (local_reassembly::SPEC4, |b| {
        let shared = b.shared.clone();
        Box::new(local_reassembly::LocalReassembly::new(shared, false))
    }),
    (local_reassembly::SPEC6, |b| {
        let shared = b.shared.clone();
        Box::new(local_reassembly::LocalReassembly::new(shared, true))
    }),
    (tunnel_input::SPEC, |b| {
        wide(tunnel_input::TunnelInput::new(b.shared.clone()))
    }),
    (ip4_icmp::SPEC, |_| Box::new(ip4_icmp::Ip4Icmp)),
    (ip6_icmp::SPEC, |b| {
        Box::new(ip6_icmp::Ip6Icmp::new(b.shared.clone(), b.events()))
    }),
    (icmp_error::SPEC4, |b| {
        Box::new(icmp_error::Ip4IcmpError::new(b.shared.clone()))
    }),
    (icmp_error::SPEC6, |b| {
        Box::new(icmp_error::Ip6IcmpError::new(b.shared.clone()))
    }),
    (mpls_imposition::SPEC, |b| {
        wide(mpls_imposition::MplsImposition::new(b.shared.clone()))
    }),
    (ip4_rewrite::SPEC, |b| {
        wide(ip4_rewrite::Ip4Rewrite::new(b.shared.clone()))
    }),
    (ip4_frag::SPEC, |_| Box::new(ip4_frag::Ip4Frag::new())),
    (ip6_rewrite::SPEC, |b| {
        wide(ip6_rewrite::Ip6Rewrite::new(b.shared.clone()))
    }),
    (mpls_output::SPEC, |b| {
        wide(mpls_output::MplsOutput::new(b.shared.clone()))
    }),
    (ip_neighbor::SPEC4, |b| {
        Box::new(ip_neighbor::IpNeighbor::<Ip4>::new(
            b.shared.clone(),
            b.events(),
        ))
    }),
    (ip_neighbor::SPEC6, |b| {
        Box::new(ip_neighbor::IpNeighbor::<Ip6>::new(
            b.shared.clone(),
            b.events(),
        ))
    }),
    (bvi_output::SPEC, |b| {
        wide(bvi_output::BviOutput::new(b.shared.clone()))
    }),
    (interface_output::SPEC, |_| {
        Box::new(interface_output::InterfaceOutput)
    }),
    (acl::OUT, |b| {
        wide(acl::Acl::<acl::Out>::new(b.shared.clone(), b.seat))
    }),
    (tunnel_output::SPEC, |b| {
        wide(tunnel_output::TunnelOutput::new(b.shared.clone()))
    }),
    (sub_interface_output::SPEC, |b| {
        Box::new(sub_interface_output::SubInterfaceOutput::new(
            b.shared.clone(),
        ))
    }),
    (bond::OUTPUT, |b| {
        Box::new(bond::BondOutput::new(b.shared.clone()))
    }),
    (tag_rewrite::SPEC, |b| {
        Box::new(tag_rewrite::TagRewriteOutput::new(b.shared.clone()))
    }),
    (sflow_tx::SPEC, |b| b.sflow_output()),
    (capture::TX, |b| b.capture(CapturePoint::Tx)),
    (sflow_drop::SPEC, |b| b.sflow_drop()),
    (capture::DROPPED, |b| b.capture(CapturePoint::Drop)),
];

/// Descriptions of all nodes, input nodes included.
pub fn specs() -> Vec<NodeSpec> {
    let inputs = INPUTS.iter().map(|name| NodeSpec::input(name));
    inputs
        .chain(NODES.iter().map(|(spec, _)| spec.clone()))
        .collect()
}

/// The graph of all nodes.
///
/// # Errors
/// As [`Graph::build`].
pub fn graph(limits: Limits) -> Result<Graph, GraphError> {
    Graph::build(&specs(), ARCS, limits)
}

/// A worker's instances of all nodes. `seed` fixes its random choices (sampling).
pub fn build(shared: &Arc<Shared>, limits: Limits, seed: u64) -> (Vec<NamedNode>, NodeOutputs) {
    let mut b = Build {
        shared,
        interfaces: limits.interfaces,
        seed,
        seat: shared.take_seat(),
        events: Vec::new(),
        captures: Vec::new(),
        samples: None,
        drops: None,
        tx_samples: None,
    };
    let nodes = NODES
        .iter()
        .map(|(spec, make)| (spec.name, make(&mut b)))
        .collect();
    let samples = b.samples.unwrap_or_else(|| ring(1).1);
    let drops = b.drops.unwrap_or_else(|| ring(1).1);
    let tx_samples = b.tx_samples.unwrap_or_else(|| ring(1).1);
    (
        nodes,
        NodeOutputs {
            events: b.events,
            samples,
            drops,
            tx_samples,
            captures: b.captures,
        },
    )
}
