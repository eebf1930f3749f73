//! What the agent asks of the router it runs in.

use std::net::IpAddr;

use parshall_counters::IfTotals;
use parshall_device::{Duplex, HardwareState};
use parshall_sample::{Direction, DropSlot};

use crate::elect::Candidate;
use crate::resolution::{Resolution, Sampled};

/// The router as the agent sees it. All methods are called on the agent's thread and must not wait.
pub trait Router: Send + Sync {
    /// Every interface there is now, with its counters summed over the workers.
    fn interfaces(&self) -> Vec<IfReport>;

    /// Where a packet that came in on interface `rx_if` goes, from the first bytes of its frame. `None` when the router
    /// has no route for it or does not route it.
    fn resolve(&self, header: &[u8], rx_if: u32) -> Option<RouteInfo>;

    /// All that the router knows of a sampled packet, as far as it is wanted. What is found is written over what an
    /// earlier packet has left.
    fn explain(&self, packet: &Sampled<'_>, found: &mut Resolution) {
        found.clear();
        // Labels of a packet on its way out are those that were pushed, not the router's own.
        if packet.direction == Direction::Rx || !packet.is_labelled() {
            found.route = self.resolve(packet.header, packet.rx_if);
        }
    }

    /// Packets that passed the samplers of interface `if_index`, those of both directions together, and samples lost
    /// there for want of room, since the interface was made. Neither ever falls, unless the counters are cleared.
    fn pool(&self, if_index: u32) -> (u64, u64);

    /// Grows whenever an interface comes, goes or is numbered anew, so that the list need not be read to know it.
    fn generation(&self) -> u64 {
        0
    }

    /// Drops that the workers did not show the agent, in all; never falls.
    fn suppressed_drops(&self) -> u64 {
        0
    }

    /// Packets that the router wanted to make and had no buffer for, in all; never falls.
    fn unmade_drops(&self) -> u64 {
        0
    }

    /// Name of a slot of the router's graph (a node, or the transmit queues of an interface): where a packet was lost.
    fn slot_name(&self, _slot: u16) -> Option<String> {
        None
    }

    /// The access list that dropped a packet, if one did and it is still there.
    fn acl(&self, _slot: &DropSlot) -> Option<AclMatch> {
        None
    }

    /// A time of the workers' monotonic clock in nanoseconds since 1970, where a wall clock is at hand.
    fn unix_ns(&self, _monotonic_ns: u64) -> Option<u64> {
        None
    }

    /// The router's own addresses, as candidates for the agent address besides those of the host.
    fn addresses(&self) -> Vec<Candidate> {
        Vec::new()
    }
}

/// One interface. `index` is the number that samples carry, `if_index` the one that collectors see.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IfReport {
    /// The router's own number.
    pub index: u32,
    /// The exported ifIndex, stable over restarts.
    pub if_index: u32,
    /// Tells it from interfaces that had its number before: each that is made gets another one.
    pub incarnation: u64,
    /// Name.
    pub name: String,
    /// Ethernet address.
    pub mac: [u8; 6],
    /// It is a loopback.
    pub loopback: bool,
    /// Its ifType (IANAifType-MIB), 0 = that of Ethernet.
    pub if_type: u32,
    /// ifIndex of its Linux counterpart in the agent's own network namespace, 0 = none.
    pub os_index: u32,
    /// Bits per second, 0 = unknown.
    pub speed: u64,
    /// Duplex.
    pub duplex: Duplex,
    /// Administratively up.
    pub admin_up: bool,
    /// The link is there.
    pub link_up: bool,
    /// Receives all frames.
    pub promiscuous: bool,
    /// Counters summed over the workers.
    pub totals: IfTotals,
    /// The one VLAN that it is, if it is a sub-interface for that.
    pub vlan: Option<u16>,
    /// LACP, if it is a member of a bond that speaks it.
    pub lag: Option<LagReport>,
    /// What the hardware says, where there is some and it was asked.
    pub hardware: Option<HardwareState>,
    /// sFlow is on: its counters are reported.
    pub sflow: bool,
    /// Sampling rate 1-in-N, 0 = off. For the status only: each sample carries its own.
    pub rate: u32,
}

/// The access list that decided about a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AclMatch {
    /// Its number.
    pub number: u32,
    /// What its owner calls it, empty where that is nothing.
    pub name: String,
    /// It was asked on the way out, not on the way in.
    pub outward: bool,
}

/// What LACP says of a bond's member (IEEE 802.1AX).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LagReport {
    /// The bond's number.
    pub bond: u32,
    /// System of this end.
    pub actor: [u8; 6],
    /// System of the other end, zero where none is known.
    pub partner: [u8; 6],
    /// State of this end as it is configured and as it is, and of the other end as it is assumed until heard of and as it is.
    pub states: [u8; 4],
    /// LACPDUs received.
    pub received: u64,
    /// LACPDUs sent.
    pub sent: u64,
}

/// What the router would do with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteInfo {
    /// Interface it leaves by, as the router numbers it; 0 = not known, [`RouteInfo::INTERNAL`] = the router itself is
    /// the destination. The agent translates it, so that one datagram never has numbers of two kinds.
    pub out_if: u32,
    /// Next hop; the unspecified address = none (connected) or not known.
    pub next_hop: IpAddr,
    /// Prefix length of the route to the source, 0 = default or not known.
    pub src_mask_len: u32,
    /// Prefix length of the route to the destination, 0 = default or not known.
    pub dst_mask_len: u32,
}

impl RouteInfo {
    /// The router itself, as an interface number (sFlow errata; the value of the compact form in both forms).
    pub const INTERNAL: u32 = 0x3FFF_FFFF;
}
