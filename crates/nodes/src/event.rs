//! What workers tell the control thread: neighbours seen, neighbours wanted, stations seen.
//!
//! Small fixed records through a ring a worker; when control is slow the ring overflows, which is
//! counted and harmless: neighbours are asked for and answer again.

use parshall_wire::lacp::Lacp;

/// One event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Event {
    /// Nothing (an empty slot of the ring).
    #[default]
    None,
    /// An ARP packet for us said that `ip` has `mac` (RFC 826 merge rule).
    ArpSeen {
        /// Interface it came in on.
        if_index: u32,
        /// Sender protocol address.
        ip: [u8; 4],
        /// Sender hardware address.
        mac: [u8; 6],
        /// It was a reply.
        reply: bool,
    },
    /// A neighbour solicitation or advertisement said that `ip` has `mac` (RFC 4861 section 7.2).
    NdSeen {
        /// Interface it came in on.
        if_index: u32,
        /// Neighbour.
        ip: [u8; 16],
        /// Its link-layer address.
        mac: [u8; 6],
        /// It was a solicited advertisement.
        solicited: bool,
    },
    /// A bridge domain saw a source that its table does not know, or knows on another interface.
    MacSeen {
        /// Interface it came in on.
        if_index: u32,
        /// The bridge domain's number.
        domain: u16,
        /// The address.
        mac: [u8; 6],
    },
    /// A LACPDU came (IEEE 802.1AX).
    Lacp {
        /// Interface it came in on.
        if_index: u32,
        /// What it says.
        pdu: Lacp,
    },
    /// Packets wait for this IPv4 neighbour.
    Wanted4 {
        /// Interface it is reached through.
        if_index: u32,
        /// Neighbour.
        ip: [u8; 4],
    },
    /// Packets wait for this IPv6 neighbour.
    Wanted6 {
        /// Interface it is reached through.
        if_index: u32,
        /// Neighbour.
        ip: [u8; 16],
    },
}

/// What control tells the nodes `ip4-arp` and `ip6-discover-neighbor` about packets they hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldMessage<A> {
    /// The neighbour resolved: send what waits for it through the lookup again.
    Resolved {
        /// Interface.
        if_index: u32,
        /// Neighbour, network byte order.
        ip: A,
    },
    /// It did not: drop what waits, with an ICMP error where allowed.
    Failed {
        /// Interface.
        if_index: u32,
        /// Neighbour, network byte order.
        ip: A,
    },
}
