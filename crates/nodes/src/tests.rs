//! Tests of the nodes as a router: packets in at one interface, packets and counters out.
//!
//! One file a subject. All of them build on [`lab`], a router with three interfaces.

extern crate self as parshall_nodes;

mod acl;
mod arp;
mod bond;
mod bridge;
mod ethernet;
mod icmp;
mod ip4_errors;
mod ip4_forward;
mod ip4_frag;
mod ip4_input;
mod ip6_errors;
mod ip6_forward;
mod lab;
mod mpls;
mod mpls_push;
mod ndisc;
mod observe;
mod reassembly;
mod sflow;
mod sflow_tx;
mod sflow_virtual;
mod tunnels;
mod vlan;
