//! The one list of reasons for which a packet is dropped.
//!
//! Each has a number (stable within a release), a name for machines, a text for people, and the sFlow
//! discard code it is exported as (sFlow Version 5 and "sFlow Dropped Packet Notification Structures").

macro_rules! reasons {
    ($($(#[$doc:meta])* $variant:ident, $name:literal, $text:literal, $sflow:literal;)*) => {
        /// Why a packet was dropped.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
        #[repr(u16)]
        pub enum DropReason { $(#[doc = $text] $variant,)* }

        impl DropReason {
            /// Every reason, in the order of its number.
            pub const ALL: &[DropReason] = &[$(DropReason::$variant,)*];
            /// How many there are.
            pub const COUNT: usize = Self::ALL.len();
            const INFO: &[(&str, &str, u32)] = &[$(($name, $text, $sflow),)*];
        }
    };
}

reasons! {
    // Buffers and devices.
    NoBufferSpace, "no_buffer_space", "no packet buffer free", 259;
    TxQueueFull, "tx_queue_full", "transmit queue full", 259;
    TxError, "tx_error", "device refused the packet", 259;
    InterfaceDown, "interface_down", "interface is down", 331;
    InterfaceGone, "interface_gone", "interface was removed", 331;
    LinkMtuExceeded, "link_mtu_exceeded", "frame longer than the interface carries", 262;
    // Ethernet.
    EthernetTooShort, "ethernet_too_short", "frame shorter than an Ethernet header", 324;
    NotOurMac, "l3_mac_mismatch", "destination MAC is not ours", 305;
    SourceMacMulticast, "src_mac_multicast", "source MAC is multicast", 263;
    UnicastInGroupFrame, "uc_dip_over_mc_dmac", "unicast IP packet in a multicast or broadcast frame", 271;
    UnknownEthertype, "unknown_ethertype", "unknown Ethernet type", 270;
    UnknownVlan, "unknown_vlan", "no sub-interface for this VLAN", 265;
    LlcUnsupported, "llc_unsupported", "LLC/SNAP frame not handled", 308;
    // Layer 2.
    L2NoPeer, "l2_no_peer", "cross-connect has no peer", 284;
    // IPv4 input (RFC 1812 section 5.2.2).
    Ip4TooShort, "ip4_too_short", "shorter than an IPv4 header", 324;
    Ip4BadVersion, "ip4_bad_version", "IPv4 version is not 4", 275;
    Ip4BadHeaderLength, "ip4_bad_header_length", "IPv4 header length wrong", 275;
    Ip4BadLength, "ip4_bad_length", "IPv4 total length wrong", 275;
    Ip4BadChecksum, "ip4_bad_checksum", "IPv4 header checksum wrong", 275;
    Ip4TtlExpired, "ip4_ttl_expired", "IPv4 TTL expired", 257;
    Ip4NotEnabled, "ip4_not_enabled", "IPv4 is not enabled on the interface", 325;
    Ip4SourceInvalid, "ip4_source_invalid", "IPv4 source is unspecified, multicast, broadcast or loopback", 273;
    Ip4DestinationInvalid, "ip4_destination_invalid", "IPv4 destination is loopback or class E", 272;
    Ip4Multicast, "ip4_multicast", "IPv4 multicast is not forwarded", 281;
    // IPv6 input (RFC 8200).
    Ip6TooShort, "ip6_too_short", "shorter than an IPv6 header", 324;
    Ip6BadVersion, "ip6_bad_version", "IPv6 version is not 6", 275;
    Ip6BadLength, "ip6_bad_length", "IPv6 payload length wrong", 275;
    Ip6HopLimitExpired, "ip6_hop_limit_expired", "IPv6 hop limit expired", 257;
    Ip6NotEnabled, "ip6_not_enabled", "IPv6 is not enabled on the interface", 326;
    Ip6SourceInvalid, "ip6_source_invalid", "IPv6 source is unspecified, multicast or loopback", 273;
    Ip6DestinationInvalid, "ip6_destination_invalid", "IPv6 destination is unspecified or loopback", 272;
    Ip6Multicast, "ip6_multicast", "IPv6 multicast is not forwarded", 281;
    Ip6LinkLocal, "ip6_link_local", "IPv6 link-local addresses are not forwarded", 299;
    // Lookup results.
    NoRoute, "no_route", "no route to the destination", 6;
    RouteBlackhole, "route_blackhole", "blackhole route", 269;
    RouteProhibit, "route_prohibit", "prohibit route", 13;
    RouteUnreachable, "route_unreachable", "unreachable route", 1;
    NoAdjacency, "no_adjacency", "route leads to a next hop that is gone", 306;
    LookupLoop, "lookup_loop", "too many lookups for one packet", 306;
    // Neighbours.
    UnresolvedNeighbor, "unresolved_neighbor", "neighbour did not resolve", 279;
    NeighborQueueFull, "neighbor_queue_full", "hold queue of the neighbour is full", 279;
    ArpMalformed, "arp_malformed", "ARP packet malformed", 312;
    ArpNotForUs, "arp_not_for_us", "ARP for an address that is not ours", 305;
    NdMalformed, "nd_malformed", "neighbour discovery packet malformed", 361;
    NdBadHopLimit, "nd_bad_hop_limit", "neighbour discovery hop limit is not 255", 359;
    NdNotForUs, "nd_not_for_us", "neighbour solicitation for an address that is not ours", 362;
    // Rewrite.
    FragmentationNeeded, "fragmentation_needed", "too big for the link and must not be fragmented", 4;
    PacketTooBig, "packet_too_big", "IPv6 packet too big for the link", 262;
    NoHeadroom, "no_headroom", "no room to push a header", 259;
    // Local delivery.
    LocalNoProtocol, "local_no_protocol", "no handler for this protocol", 2;
    LocalNoPort, "local_no_port", "no listener on this port", 3;
    LocalBadChecksum, "local_bad_checksum", "ICMP or UDP checksum of a local packet wrong", 336;
    IcmpUnhandled, "icmp_unhandled", "ICMP message without a use for us", 336;
    ReassemblyUnsupported, "reassembly_unsupported", "fragment for a local address", 333;
    // MPLS (RFC 3031, 3032, 3443).
    MplsNotEnabled, "mpls_not_enabled", "MPLS is not enabled on the interface", 325;
    MplsTooShort, "mpls_too_short", "label stack cut short", 311;
    MplsTtlExpired, "mpls_ttl_expired", "MPLS TTL expired", 257;
    MplsNoLabel, "mpls_no_label", "no entry for the label", 6;
    MplsBadStack, "mpls_bad_stack", "label stack or payload not what the label says", 311;
    // Policy and engine.
    NodeFault, "node_fault", "a node left the packet without a verdict", 256;
}

impl DropReason {
    /// The number carried in packet metadata.
    #[inline(always)]
    pub const fn code(self) -> u16 {
        self as u16
    }
    /// The reason with this number.
    pub fn from_code(code: u16) -> Option<DropReason> {
        Self::ALL.get(usize::from(code)).copied()
    }
    /// Name for machines: lower case with underscores.
    pub fn name(self) -> &'static str {
        Self::INFO[self as usize].0
    }
    /// Text for people.
    pub fn text(self) -> &'static str {
        Self::INFO[self as usize].1
    }
    /// sFlow discard code.
    pub fn sflow_code(self) -> u32 {
        Self::INFO[self as usize].2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_codes_round_trip() {
        let mut names: Vec<_> = DropReason::ALL.iter().map(|r| r.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), DropReason::COUNT);
        for &r in DropReason::ALL {
            assert_eq!(DropReason::from_code(r.code()), Some(r));
        }
        assert_eq!(DropReason::from_code(DropReason::COUNT as u16), None);
    }
}
